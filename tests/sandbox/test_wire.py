"""The host's end of the socket: whatever bytes come, there is a frame or a WireError, and nothing else."""

import json
import socket
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundbox import guestjson
from groundbox.errors import WireError
from groundbox.guest.wire import Wire
from groundbox.sandbox import wire

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
FIELDS = st.sampled_from(
    ["ev", "id", "ok", "value", "error", "exit_code", "exit_signal", "interrupted", "reason", "data", "type"]
)
EVENTS = st.sampled_from(["ready", "failed", "display", "clear", "done", "exit", "run", ""])
NEAR_FRAMES = st.builds(
    lambda fields, ev: {**fields, "ev": ev}, st.dictionaries(FIELDS, VALUES, max_size=6), EVENTS | VALUES
)


def _decoded(body):
    """The frame, or None for a WireError; anything else escapes and fails the test."""
    try:
        return wire.decode(body)
    except WireError:
        return None


def _frame(body):
    return struct.pack("<I", len(body)) + body


@given(st.binary(max_size=2000))
def test_any_bytes_are_a_frame_or_an_error(body):
    assert _decoded(body) is None or isinstance(_decoded(body), wire.Frame)


@given(VALUES | NEAR_FRAMES)
def test_any_json_is_a_frame_or_an_error(value):
    frame = _decoded(json.dumps(value).encode())

    assert frame is None or isinstance(frame, wire.Frame)


@given(NEAR_FRAMES)
def test_what_is_decoded_fits_its_types(value):
    frame = _decoded(json.dumps(value).encode())

    if isinstance(frame, wire.Done):
        assert type(frame.id) is int
        assert type(frame.ok) is bool
        assert frame.exit_code is None or 0 <= frame.exit_code <= 255
        assert frame.exit_signal is None or 1 <= frame.exit_signal <= 64
    if isinstance(frame, wire.Failed):
        assert type(frame.reason) is str


@pytest.mark.parametrize("depth", [1, 10, 100, 1000, 100_000])
@pytest.mark.parametrize("pair", ["[]", "{}"])
def test_the_depth_of_a_frame_is_bounded(depth, pair):
    opening = pair[0] if pair == "[]" else '{"a":'
    body = '{"ev":"display","data":{"a":' + opening * depth + "1" + pair[1] * depth + "}}"

    assert (_decoded(body.encode()) is None) is (depth > guestjson.MOST_DEPTH)


@pytest.mark.parametrize("depth", [guestjson.MOST_DEPTH - 2, guestjson.MOST_DEPTH + 1])
def test_the_depth_is_bounded_at_its_limit_and_not_before(depth):
    body = '{"ev":"display","data":{"a":' + "[" * depth + "]" * depth + "}}"

    assert (_decoded(body.encode()) is None) is (depth > guestjson.MOST_DEPTH)


@given(st.text(alphabet='[]{}"\\x', max_size=300))
def test_brackets_in_a_text_do_not_count(text):
    body = json.dumps({"ev": "display", "data": {"a": text * 3, "b": [1, {"c": text}]}}).encode()

    frame = _decoded(body)

    assert isinstance(frame, wire.Shown)
    assert frame.bundle.data["a"] == text * 3


@given(st.lists(NEAR_FRAMES, max_size=5), st.data())
@settings(max_examples=50, deadline=None)
def test_frames_are_cut_the_same_however_the_bytes_arrive(values, data):
    bodies = [json.dumps({"ev": "failed", "reason": json.dumps(value)}).encode() for value in values]
    stream = b"".join(_frame(body) for body in bodies)
    reader, frames, position = wire.FrameReader(), [], 0

    while position < len(stream):
        step = data.draw(st.integers(1, 50))
        frames += [wire.decode(body) for body in reader.feed(stream[position : position + step])]
        position += step

    assert frames == [wire.decode(body) for body in bodies]


@pytest.mark.parametrize(
    ("length", "refused"), [(wire.MOST_FRAME_BYTES, False), (wire.MOST_FRAME_BYTES + 1, True), (2**32 - 1, True)]
)
def test_the_size_of_a_frame_is_bounded_before_it_has_come(length, refused):
    reader = wire.FrameReader()
    head = struct.pack("<I", length)

    if not refused:
        assert list(reader.feed(head)) == []
        return
    with pytest.raises(WireError) as error:
        list(reader.feed(head))
    assert str(error.value) == f"a guest's frame of {length} bytes is over {wire.MOST_FRAME_BYTES}"


def test_an_order_is_encoded_as_the_guest_reads_it():
    data = wire.encode({"op": "run", "source": "print('é')"})

    (length,) = struct.unpack_from("<I", data)
    assert length == len(data) - 4
    assert json.loads(data[4:]) == {"op": "run", "source": "print('é')"}


def test_the_guests_own_frames_are_understood():
    """Both ends in one process: what guest/wire.py sends, the host decodes."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        Wire(theirs).send({"ev": "done", "id": 3, "ok": False, "error": {"type": "E", "message": "é"}})
        frames = [wire.decode(body) for body in wire.FrameReader().feed(ours.recv(1 << 16))]

    assert frames == [wire.Done(id=3, ok=False, error=wire.GuestFailure(type="E", message="é"))]
