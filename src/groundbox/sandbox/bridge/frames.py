"""The bridge's frames, `gbx-bridge/1`: every byte that arrives is a hostile guest's claim.

A frame is four bytes of length, little-endian, and that many bytes of UTF-8 JSON: one object with `op`.
The guest sends `hello`, `call`, `search`, `describe` and `cancel`; the host answers with `manifest`, `result`, `pause`.
What does not fit exactly is a violation, which ends the run: unknown fields, a name twice in one object,
more than MOST_DEPTH levels, NaN, half of a surrogate pair. Nothing is ever unpickled.

`final` and `artifact` of other bridges are left out: a run's value and its files come back on the ways that they
have already, where the kernel or the workdir's handle tells the facts. So is `step`, which has a guest's word on what
it found kept for a replay: a tool such as `now` does the same, and the word is the host's.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Annotated, Any, Final

import msgspec

from groundbox import guestjson
from groundbox.errors import WireError
from groundbox.limits import MiB

PROTOCOL: Final = "gbx-bridge/1"
MOST_FRAME_BYTES: Final = 1 * MiB
MOST_DEPTH: Final = 32
MOST_VALUES: Final = 2000
"""In a frame, which is decoded on the event loop. Arguments with more come in a file."""
MOST_FILE_VALUES: Final = guestjson.MOST_VALUES
_LENGTH: Final = struct.Struct("<I")
_Id = Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]
_Name = Annotated[str, msgspec.Meta(max_length=200)]


class Hello(msgspec.Struct, tag_field="op", tag="hello", frozen=True, forbid_unknown_fields=True):
    """Asks for the manifest."""

    protocol: Annotated[str, msgspec.Meta(max_length=40)]


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file in the workdir that holds what is too large for a frame."""

    path: Annotated[str, msgspec.Meta(max_length=4096)]
    size_bytes: Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
    sha256: Annotated[str, msgspec.Meta(min_length=64, max_length=64)]


class Call(msgspec.Struct, tag_field="op", tag="call", frozen=True, forbid_unknown_fields=True):
    """Calls a tool. `args` are tagged values (values.py); `file` holds them as JSON when they are large."""

    id: _Id
    tool: _Name
    args: dict[str, Any] | None = None
    file: Kept | None = None
    deadline_ms: Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)] | None = None


class Search(msgspec.Struct, tag_field="op", tag="search", frozen=True, forbid_unknown_fields=True):
    """Asks which granted tools fit some words."""

    id: _Id
    query: Annotated[str, msgspec.Meta(max_length=400)]


class Describe(msgspec.Struct, tag_field="op", tag="describe", frozen=True, forbid_unknown_fields=True):
    """Asks for one tool's row of the manifest, with its schemas."""

    id: _Id
    tool: _Name


class Cancel(msgspec.Struct, tag_field="op", tag="cancel", frozen=True, forbid_unknown_fields=True):
    """Takes a call back; it gets no result."""

    id: _Id


Frame = Hello | Call | Search | Describe | Cancel


def encode(message: dict[str, Any]) -> bytes:
    """One frame, whole. The caller sees to its size."""
    return framed(dumped(message))


def dumped(value: Any) -> bytes:
    """JSON in ASCII, so that also half of a surrogate pair travels."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode("ascii")


def framed(body: bytes) -> bytes:
    """A frame of this body."""
    return _LENGTH.pack(len(body)) + body


def fits(frame: bytes) -> bool:
    """Whether a frame is small enough to be sent."""
    return len(frame) <= _LENGTH.size + MOST_FRAME_BYTES


class FrameReader:
    """Cuts a stream of bytes into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[Frame, int, int]]:
        """The frames that are complete now, each with its size in bytes and about the memory that it takes decoded.

        Raises:
            WireError: What came is no frame. The run must be ended.
        """
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if length > MOST_FRAME_BYTES:
                raise WireError(f"a frame of {length} bytes for a tool is over {MOST_FRAME_BYTES}")
            end = _LENGTH.size + length
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[_LENGTH.size : end])
            del self._buffer[:end]
            yield decode(body), end, end + guestjson.weigh(body)


def decode(body: bytes) -> Frame:
    """One frame's body.

    Raises:
        WireError: It is not valid JSON of the schema, has too many values, is nested too deeply, or names a key twice.
    """
    try:
        frame: Frame = msgspec.convert(_parsed(body, MOST_VALUES), Frame)
    except msgspec.ValidationError as error:
        raise WireError(f"a frame for a tool does not fit the schema: {str(error)[:200]}") from None
    return frame


def decode_args(body: bytes) -> dict[str, Any]:
    """The arguments that lay in a file. Takes a while if there are many: use a thread.

    Raises:
        WireError: As `decode`.
    """
    args = _parsed(body, MOST_FILE_VALUES)
    if not isinstance(args, dict):
        raise WireError("the arguments in a file are no JSON object")
    return args


def _parsed(body: bytes, most_values: int) -> Any:
    if len(body) > most_values and guestjson.has_more_values(body, most_values):
        raise WireError(f"a frame for a tool holds more than {most_values} values")
    try:
        value = guestjson.decode(body, depth=guestjson.MOST_DEPTH - MOST_DEPTH)
    except WireError as error:
        raise WireError(f"a frame for a tool cannot be read: {error}") from None
    if _count_names(value) != sum(part.count(b":") for part in guestjson.without_texts(body)):
        raise WireError("a frame for a tool names a key twice")
    return value


def _count_names(value: Any) -> int:
    """How many members the objects in a value have together."""
    count = 0
    left = [value]
    while left:
        item = left.pop()
        if isinstance(item, dict):
            count += len(item)
            left += item.values()
        elif isinstance(item, list):
            left += item
    return count
