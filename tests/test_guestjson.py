"""JSON of a guest: the same values as any decoder gives, at a cost that does not depend on what is in it."""

import json
import random
import re
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groundbox import guestjson
from groundbox.errors import WireError
from groundbox.limits import MiB

TEXTS = st.text(alphabet='a[]{}",:\\é\U0001f600', max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=30,
)


@given(VALUES, st.sampled_from([40, 100, 32 * 1024]))
@settings(deadline=None)
def test_a_value_is_the_same_however_it_is_sliced(value, slice_bytes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guestjson, "SLICE_BYTES", slice_bytes)
        patch.setattr(guestjson, "_SCANS", 1000)

        decoded = guestjson.decode(json.dumps([value]).encode())

    assert decoded == json.loads(json.dumps([value]))


@given(st.lists(VALUES), st.sampled_from([2, 4, 16, 256 * 1024]), st.booleans())
@settings(deadline=None)
def test_texts_are_taken_out_of_json_with_what_is_in_them(values, piece_bytes, ascii_only):
    body = json.dumps([*values, '\\"[', {"a:\\\\": "]"}], ensure_ascii=ascii_only).encode()
    expected = re.sub(rb'"(\\.|[^"\\])*"', b"", body, flags=re.DOTALL)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guestjson, "PIECE_BYTES", piece_bytes)
        marks = b"".join(guestjson.without_texts(body))

    assert marks == bytes(byte for byte in expected if byte in b"[]{},:")


LETTERS = st.lists(st.sampled_from(["a", "é", "\U0001f600", "\\", '"', "\x00", "\n", "\u20ac"]), max_size=60)
ESCAPED = LETTERS.map("".join)
FAULTS = st.sampled_from([b'"', b"\\", b"\\u12", b"\\ud800", b"\\udc00", b"\xa9", b"\n"])


@given(ESCAPED, st.sampled_from([13, 16, 24]), st.booleans())
@settings(deadline=None)
def test_a_text_is_the_same_however_it_is_cut(text, piece_bytes, ascii_only):
    body = json.dumps(text, ensure_ascii=ascii_only).encode()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guestjson, "PIECE_BYTES", piece_bytes)
        assert guestjson.decode(body) == text
        for part in (b"\\u", b"\\ud", b"\\u0", b"\\\\", b"\xf0"):
            assert guestjson._holds(body, part) == (part in body)


@given(ESCAPED, FAULTS, st.integers(0, 400))
@settings(deadline=None)
def test_a_long_text_that_is_no_json_is_refused(text, fault, at):
    body = json.dumps(text).encode()[:-1]
    at = min(at, len(body))
    body = body[: at or 1] + fault + body[at or 1 :] + b'"'

    def outcome():
        try:
            return guestjson.decode(body)
        except WireError:
            return WireError

    whole = outcome()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guestjson, "PIECE_BYTES", 13)
        assert outcome() == whole


@pytest.mark.parametrize("body", [b"", b"[", b"[1,]", b'{"a"}', b"[1e999999]", b"NaN", b'"\\ud800"', b'"\xff"', b"-"])
@pytest.mark.parametrize("around", [0, 40_000])
def test_what_is_no_json_is_refused(body, around):
    body = b"[" + b"0," * around + body + b"]" if around else body

    with pytest.raises(WireError):
        guestjson.decode(body)


@pytest.mark.parametrize("levels", [guestjson.MOST_DEPTH, guestjson.MOST_DEPTH + 1])
@pytest.mark.parametrize("inner", [b"1", b"0," * 30_000 + b"0"])
def test_the_depth_is_bounded_at_its_limit_and_not_before(levels, inner):
    body = b"[" * levels + inner + b"]" * levels

    if levels > guestjson.MOST_DEPTH or len(inner) > 1:  # so much inside so many levels would be scanned at each
        with pytest.raises(WireError):
            guestjson.decode(body)
    else:
        assert guestjson.decode(body)


@pytest.mark.parametrize(("values", "refused"), [(99, False), (100, False), (101, True)])
def test_values_are_counted_outside_of_texts(values, refused):
    body = json.dumps([",[{" * 1000, *range(values - 2)]).encode()  # an array, and an item after each comma

    assert guestjson.has_more_values(body, 99) is refused


SHAPES = {
    "numbers": b"[" + b"1e308," * 20_000 + b"1]",
    "empty arrays": b"[" + b"[]," * 20_000 + b"1]",
    "empty objects": b"[" + b"{}," * 20_000 + b"1]",
    "objects of one member": b"[" + b'{"a":{}},' * 20_000 + b"1]",
    "names": b"{" + b",".join(b'"%x":{}' % n for n in range(20_000)) + b"}",
    "nested": b"[" + b",".join([b"[" * 50 + b"]" * 50] * 400) + b"]",
    "wide texts": json.dumps(["\U0001f600" + "a" * 20_000] * 40).encode(),
    "long numbers": b"[" + b",".join([b"9" * 4000] * 60) + b"]",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_value_takes_no_more_memory_than_it_weighs(shape):
    tracemalloc.start()
    try:
        value = guestjson.decode(SHAPES[shape])
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert value
    assert held <= guestjson.weigh(SHAPES[shape])


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if "wide" not in shape])
def test_time_goes_with_the_number_of_values_whatever_they_are(shape):
    """At most ten times that of as many usual numbers, measured in processor time, the best of three."""
    body = SHAPES[shape]
    usual = ("[" + ",".join(str(random.random()) for _ in range(guestjson.count_marks(body))) + "]").encode()

    def cost(text):
        times = []
        for _ in range(3):
            begun = time.thread_time()
            guestjson.decode(text)
            times.append(time.thread_time() - begun)
        return min(times)

    assert cost(body) <= max(10 * cost(usual), 0.1)


@pytest.mark.parametrize("part", [b'""', b'":"', b'\\"":', b'\\"\\\\"', b"\\", b"[", b"{"])
def test_looking_for_values_takes_memory_for_a_piece_at_a_time(part):
    body = b"[" * 100 + part * (8 * MiB // len(part))

    tracemalloc.start()
    try:
        guestjson.has_more_values(body, 10)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 4 * len(body)
