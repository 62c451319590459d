"""The host's end of a worker's socket: every byte that arrives is a hostile guest's claim.

Frames are length-prefixed JSON (see guest/wire.py), decoded against a strict schema, with caps on the size of
a frame and on the depth of what is in it. Nothing is ever unpickled.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Annotated, Any, Final

import msgspec

from groundbox.errors import WireError

MOST_FRAME_BYTES: Final = 16 * 1024 * 1024
MOST_VALUES: Final = 1_000_000
"""A value takes a few bytes in a frame and up to a hundred once decoded."""
VALUE_BYTES: Final = 96
MOST_DEPTH: Final = 64
_LENGTH: Final = struct.Struct("<I")


class Ready(msgspec.Struct, tag_field="ev", tag="ready", frozen=True):
    """The jail stands. The workdir's descriptor comes with it, and the proxy's socket when there is one."""


class Failed(msgspec.Struct, tag_field="ev", tag="failed", frozen=True):
    """The jail could not be set up; sent before any untrusted code."""

    reason: str


class Shown(msgspec.Struct, tag_field="ev", tag="display", frozen=True):
    """The program showed a rich value."""

    data: dict[str, Any]


class Cleared(msgspec.Struct, tag_field="ev", tag="clear", frozen=True):
    """The program asked to clear what it showed (`clear_output`)."""


class GuestFailure(msgspec.Struct, frozen=True):
    """What the guest says about an exception."""

    type: str
    message: str
    line: int | None = None
    column: int | None = None
    traceback: str = ""
    locals: dict[str, str] = {}
    hints: list[str] = []


class Observed(msgspec.Struct, frozen=True):
    """What the guest says that an observer saw (`checks=True`); `observations` has what is made of it."""

    kind: Annotated[str, msgspec.Meta(max_length=64)]
    line: Annotated[int, msgspec.Meta(ge=1, le=1 << 31)] | None = None
    counts: Annotated[
        dict[Annotated[str, msgspec.Meta(max_length=64)], Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]],
        msgspec.Meta(max_length=8),
    ] = {}
    names: Annotated[list[Annotated[str, msgspec.Meta(max_length=64)]], msgspec.Meta(max_length=8)] = []


class Done(msgspec.Struct, tag_field="ev", tag="done", frozen=True):
    """The order with this id is finished."""

    id: int
    ok: bool
    value: dict[str, Any] | None = None
    error: GuestFailure | None = None
    exit_code: Annotated[int, msgspec.Meta(ge=0, le=255)] | None = None
    exit_signal: Annotated[int, msgspec.Meta(ge=1, le=64)] | None = None
    interrupted: bool = False
    state_lost: bool = False
    reason: str = ""
    core: Annotated[str, msgspec.Meta(max_length=20)] = ""
    observed: Annotated[list[Observed], msgspec.Meta(max_length=48)] = []
    outside: Annotated[list[Annotated[str, msgspec.Meta(max_length=4096)]], msgspec.Meta(max_length=10)] = []


Frame = Ready | Failed | Shown | Cleared | Done
_DECODER: Final = msgspec.json.Decoder(Frame)
_ENCODER: Final = msgspec.json.Encoder()


def encode(order: dict[str, Any]) -> bytes:
    """One frame, whole."""
    body = _ENCODER.encode(order)
    return _LENGTH.pack(len(body)) + body


class FrameReader:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[Frame, int]]:
        """The frames that are complete now, each with about the memory in bytes that it takes once decoded.

        Raises:
            WireError: What came is no frame. The worker must be destroyed.
        """
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if length > MOST_FRAME_BYTES:
                raise WireError(f"a guest's frame of {length} bytes is over {MOST_FRAME_BYTES}")
            end = _LENGTH.size + length
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[_LENGTH.size : end])
            del self._buffer[:end]
            values = count_values(body)
            yield _decoded(body, values), length + VALUE_BYTES * values


def decode(body: bytes) -> Frame:
    """One frame's body.

    Raises:
        WireError: It is not valid JSON of the schema, has too many values, or is nested too deeply.
    """
    return _decoded(body, count_values(body))


def _decoded(body: bytes, values: int) -> Frame:
    if values > MOST_VALUES:
        raise WireError(f"a guest's frame holds more than {MOST_VALUES} values")
    if is_deeper(body, MOST_DEPTH, values):
        raise WireError(f"a guest's frame is nested deeper than {MOST_DEPTH}")
    try:
        frame: Frame = _DECODER.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise WireError(f"a guest's frame does not fit the schema: {str(error)[:200]}") from None
    return frame


def count_values(body: bytes) -> int:
    """No fewer than there are: what stands in texts is counted as well."""
    return body.count(b",") + body.count(b"[") + body.count(b"{")


def is_deeper(body: bytes, most: int, values: int) -> bool:
    """Whether brackets nest too deeply, by peeling the innermost pairs off; never a loop over bytes in Python.

    Args:
        values: As `count_values` gives them.

    Raises:
        WireError: As `without_texts`.
    """
    if body.count(b"[") + body.count(b"{") <= most:
        return False
    brackets = without_texts(body, values).translate(None, _NO_BRACKETS)
    for _ in range(most):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    return bool(brackets)


def without_texts(body: bytes, values: int) -> bytes:
    """The brackets, braces and colons of JSON, without those in its strings.

    Linear in time, and the work in Python's own objects is bounded by the number of values, whatever the bytes are.
    An escape is two bytes that go first, and two quotes with nothing between them change nothing for the rest.

    Raises:
        WireError: There are more strings than can be in so few values.
    """
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = plain.translate(None, _NO_MARKS).replace(b'""', b"")
    if marks.count(b'"') > 4 * (values + 1):  # a value and its name, with two quotes each
        raise WireError("a guest's frame is no JSON: it has more texts than values")
    return b"".join(marks.split(b'"')[::2])


_NO_MARKS: Final = bytes(byte for byte in range(256) if byte not in b'[]{}:"')
_NO_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")
