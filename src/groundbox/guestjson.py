"""JSON of a guest, decoded so that neither its size nor what is in it can hold the host.

Theory of operation. A decoder in C keeps the interpreter's lock until it is done, so that no thread of the host runs
meanwhile, and a few bytes of JSON can be a large object or a slow number: `{}` takes 64 bytes, and the double nearest
to `1e308` is found by arithmetic with long integers, 12 microseconds for six bytes. Therefore:

1. Values are counted before anything is made of them, outside of texts where that matters, in pieces of PIECE_BYTES.
2. A large value is taken apart one level at a time, by a decoder that skips what is inside (`msgspec.Raw`: a few
   nanoseconds a byte, and nothing made). Neighbours that are small are decoded together, SLICE_BYTES at a time, so that
   no call takes more than milliseconds. What is scanned in all is bounded, or levels around one large value would
   have it scanned each time.
3. A long text is cut between its characters and escapes, and decoded in pieces of PIECE_BYTES. Searches in it go in
   pieces too: one for what nearly stands everywhere takes several times as long as decoding.
4. Floats are made by Python's `float`, which is at most six times slower for any number than for a usual one.

Whoever decodes much does so in a thread; between the calls others have their turn.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from groundbox.errors import WireError

MOST_VALUES: Final = 200_000
MOST_DEPTH: Final = 64
PIECE_BYTES: Final = 256 * 1024
SLICE_BYTES: Final = 32 * 1024
_SCANS: Final = 8
OBJECT_BYTES: Final = 224
ARRAY_BYTES: Final = 104
_MEMBER_BYTES: Final = 60
_VALUE_BYTES: Final = 40
"""What CPython takes for an object with one member, a list with one item, a member's name, and a value in its place."""


class TooDeep(WireError):
    """A value is nested too deeply, or too much of it lies deep inside."""

    def __init__(self) -> None:
        super().__init__(f"a guest's value is nested deeper than {MOST_DEPTH}, or too much of it is deep inside")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is out of range")
    return number


_SLICES: Final = msgspec.json.Decoder(float_hook=_finite)
_TEXTS: Final = msgspec.json.Decoder(str)
_ARRAYS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_OBJECTS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
FAULTS: Final = (msgspec.MsgspecError, ValueError, RecursionError)
"""What these decoders raise; UnicodeDecodeError is a ValueError."""


def decode(raw: bytes, *, depth: int = 0) -> Any:
    """The value that one JSON text stands for. A `msgspec.Raw` is as good as bytes.

    Args:
        depth: Of levels around it, which count too.

    Raises:
        WireError: It is no JSON, nested too deeply, or a number in it is out of range.
    """
    try:
        return _Unpacking(len(raw)).value(raw, depth)
    except RecursionError:
        raise TooDeep from None
    except FAULTS as error:
        raise WireError(f"a guest's value is no JSON: {str(error)[:200]}") from None


class _Unpacking:
    """Of one value."""

    def __init__(self, size: int) -> None:
        self._left_bytes = _SCANS * size

    def value(self, raw: bytes, depth: int) -> Any:
        first = bytes(memoryview(raw)[:1])
        if first == b'"':
            return "".join(map(_TEXTS.decode, _pieces_of_text(bytes(raw))))
        if len(raw) <= SLICE_BYTES:
            return self._slice(bytes(raw), depth)
        self._left_bytes -= len(raw)
        if depth >= MOST_DEPTH or self._left_bytes < 0:
            raise TooDeep
        if first == b"[":
            return list(self._items(_ARRAYS.decode(raw), depth + 1))
        if first == b"{":
            named = _OBJECTS.decode(raw)
            return dict(zip(named, self._items(list(named.values()), depth + 1), strict=True))
        raise WireError("a guest's value is no JSON, or a number of too many digits")

    def _items(self, items: Sequence[Any], depth: int) -> Iterator[Any]:
        small: list[Any] = []
        size = 0
        for item in items:
            if len(item) > SLICE_BYTES:
                yield from self._joined(small, depth)
                small, size = [], 0
                yield self.value(item, depth)
                continue
            small.append(item)
            size += len(item) + 1
            if size > SLICE_BYTES:
                yield from self._joined(small, depth)
                small, size = [], 0
        yield from self._joined(small, depth)

    def _joined(self, items: Sequence[Any], depth: int) -> list[Any]:
        if not items:
            return []
        decoded: list[Any] = self._slice(b"[" + b",".join(items) + b"]", depth - 1)
        return decoded

    def _slice(self, body: bytes, depth: int) -> Any:
        if is_deeper(body, MOST_DEPTH - depth):
            raise TooDeep
        return _SLICES.decode(body)


def _pieces_of_text(body: bytes) -> Iterator[bytes]:
    """JSON texts that are together what one JSON text is, or is not: what is malformed leaves a piece malformed."""
    if len(body) <= PIECE_BYTES or not body.endswith(b'"'):
        yield body
        return
    at, end = 1, len(body) - 1
    while at < end:
        cut = _before_character(body, at, min(at + PIECE_BYTES, end)) if end - at > PIECE_BYTES else end
        yield b'"%b"' % body[at:cut]
        at = cut


def _before_character(body: bytes, start: int, at: int) -> int:
    """The last place up to `at` that lies in no character, escape or pair of surrogates; `start` is such a place.

    An escape has six bytes at most, a pair of them twelve.
    """
    while body[at] & 0xC0 == 0x80 and at > start + 1:
        at -= 1
    escape = body.rfind(b"\\", max(start, at - 5), at)
    if escape >= 0:
        run = escape + 1 - start - len(body[start : escape + 1].rstrip(b"\\"))
        if run % 2 and escape + (6 if body[escape + 1 : escape + 2] == b"u" else 2) > at:
            at = escape
    if _LOW_SURROGATE.match(body, at) and at - 6 > start:
        at -= 6
    return at


def has_more_values(body: bytes, most: int) -> bool:
    """Whether there are more values than `most`: items, members, and what holds them."""
    return count_marks(body) > most and sum(count_marks(part) for part in without_texts(body)) > most


def count_marks(body: bytes) -> int:
    """No fewer than there are values: what stands in texts is counted as well."""
    return sum(_count(body, mark) for mark in (b",", b"[", b"{"))


def weigh(body: bytes) -> int:
    """Memory in bytes that a value takes once it is decoded, or less than that."""
    made = OBJECT_BYTES * _count(body, b"{") + ARRAY_BYTES * _count(body, b"[")
    made += _MEMBER_BYTES * _count(body, b":") + _VALUE_BYTES * (_count(body, b",") + 1)
    return made + len(body) * widest(body)


def widest(body: bytes) -> int:
    """Bytes that CPython takes for each character of the widest text that can be in some JSON: 1, 2 or 4."""
    if body.isascii():
        return 1 if not _holds(body, b"\\u") else 4 if _holds(body, b"\\ud") or _holds(body, b"\\uD") else 2
    return 4 if any(_holds(body, bytes((lead,))) for lead in range(0xF0, 0xF5)) or _holds(body, b"\\u") else 2


def is_deeper(body: bytes, most: int) -> bool:
    """Whether brackets nest more than `most` deep, by peeling the innermost pairs off; for SLICE_BYTES or so.

    A round peels an array and then an object around it: where they take turns, up to twice as many levels may pass.
    Results rely on that (`values/codec.py`): 25 dicts in each other are 75 levels.
    """
    if body.count(b"[") + body.count(b"{") <= most:
        return False
    brackets = b"".join(without_texts(body)).translate(None, _NO_BRACKETS)
    for _ in range(most):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    return bool(brackets)


def without_texts(body: bytes) -> Iterator[bytes]:
    """The brackets, braces, commas and colons of JSON, without those in its texts; piece by piece.

    An escape is two bytes that go first. A piece never ends between them.
    """
    inside, at = False, 0
    while at < len(body):
        piece = body[at : at + PIECE_BYTES]
        if at + PIECE_BYTES < len(body):
            piece = piece.rstrip(b"\\") or piece  # of backslashes alone it holds whole escapes, as its size is even
        plain = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = plain.translate(None, _NO_MARKS).split(b'"')
        yield b"".join(parts[inside::2])
        inside ^= len(parts) % 2 == 0
        at += len(piece)


def _count(body: bytes, mark: bytes) -> int:
    return sum(body.count(mark, at, at + PIECE_BYTES) for at in range(0, len(body), PIECE_BYTES))


def _holds(body: bytes, part: bytes) -> bool:
    reach = PIECE_BYTES + len(part) - 1
    return any(body.find(part, at, at + reach) >= 0 for at in range(0, len(body), PIECE_BYTES))


_LOW_SURROGATE: Final = re.compile(rb"\\u[dD][c-fC-F]")
_NO_MARKS: Final = bytes(byte for byte in range(256) if byte not in b'[]{},:"')
_NO_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")
