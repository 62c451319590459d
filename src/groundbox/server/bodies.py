"""JSON bodies of requests, read as they come, so that neither their size nor what is in them can hold the event loop.

Theory of operation. A decoder in C keeps the interpreter's lock until it is done, and three bytes of JSON can become
an object of 64. Therefore a body is scanned in pieces of PIECE_BYTES before it is decoded:

1. Values outside of texts are counted, and so are levels. One value too many refuses the body at once; commas and
   brackets in texts count for nothing.
2. A long text is taken out of the body, and its escapes are decoded piece by piece. What is left, the skeleton, has a
   mark in its place. So the decoder sees some MiB at most, however large the files are that a request brings.
3. After decoding, marks are replaced. Each kind of request names the fields that may be long (`LONG`); a long text
   anywhere else is refused.

A body is held once in all: its pieces are dropped as soon as they are scanned.
"""

from __future__ import annotations

import asyncio
import binascii
import functools
import hashlib
import math
import re
import secrets
import sys
import weakref
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, MutableMapping
from typing import Any, Final, TypeVar, cast

import msgspec
from starlette.requests import Request

from groundbox.server.refusals import Refused, shortened

T = TypeVar("T")

MOST_VALUES: Final = 20_000
MOST_DEPTH: Final = 100
_MOST_WIDE_BYTES: Final = 16 * 1024 * 1024  # of memory, beyond twice what the texts of a request have in UTF-8
PIECE_BYTES: Final = 32 * 1024
_SMALL_BYTES: Final = 4 * 1024
_TURNS: Final[weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]] = weakref.WeakKeyDictionary()
_LONG_BYTES: Final = 64 * 1024
_CROWDED_BYTES: Final = 2 * 1024 * 1024
_LONG_IF_CROWDED_BYTES: Final = 256
_MOST_OUTSIDE_BYTES: Final = 4 * 1024 * 1024
_MOST_SKELETON_BYTES: Final = 16 * 1024 * 1024
_BASE64_BYTES: Final = 256 * 1024  # a multiple of four
_UNPACKED_BYTES: Final = 256 * 1024
ROOM: Final = "groundbox.room"
"""In a request's scope: counts bytes that it takes besides those of its body, and refuses it if there is no room."""

Long = Mapping[str, str | int]
"""Fields that may be long, and what becomes of a long text in them: a str of so many bytes at most, or one of these."""
TEXT: Final = 4 * 1024 * 1024
ARGUMENT: Final = 128 * 1024 - 1
"""Of a program, and of an argument or a variable: Linux takes no longer one (MAX_ARG_STRLEN of execve(2))."""
BYTES: Final = "bytes"
BASE64: Final = "base64"
CONTENT: Final = "content"
"""Its bytes, or what they encode. A content is bytes if it is the field's whole value, and a str anywhere in it."""

_STRING: Final = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_UNFINISHED: Final = re.compile(rb"\\(?:u[0-9a-fA-F]{0,3}|u[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u[0-9a-fA-F]{0,3})?)?)?\Z")
_TAIL_BYTES: Final = 12
_AT_ONCE: Final = 100
_SCOPE: Final = "groundbox.body"
_SPACE: Final = b" \t\r\n"
_NO_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")
_TEXTS: Final = msgspec.json.Decoder(str)


class Body:
    """A JSON body that was read.

    Attributes:
        skeleton: JSON in which marks stand for long texts.
        texts: Those texts, in UTF-8 and without escapes. Each is forgotten when it has found its place.
        mark: What marks begin with. Nobody outside knows it before the body is read.
        digest: SHA-256 of the body as it came.
    """

    def __init__(self, skeleton: bytes, texts: list[bytearray], mark: str, digest: bytes) -> None:
        self.skeleton, self.texts, self.mark, self.digest = skeleton, texts, mark, digest

    async def decoded(self, kind: Any) -> Any:
        """The request in it, with its long texts in their places.

        Raises:
            Refused: It does not fit the kind, or a long text stands where none may.
        """
        asked = decode(self.skeleton, kind, hidden=self.mark)
        if self.texts:
            asked = await _Filling(self.texts, self.mark).filled(asked)
        return asked

    async def decoded_each(self, kind: Any, name: str, item: type[T]) -> list[T]:
        """The items of a list of requests, decoded in turns: thousands of them at once would take long.

        Args:
            kind: The whole, in which the list is of `msgspec.Raw`.
            name: The field of the list.
            item: What each item is.
        """
        items: list[T] = []
        filling = _Filling(self.texts, self.mark)
        for number, raw in enumerate(getattr(decode(self.skeleton, kind, hidden=self.mark), name)):
            try:
                decoded = decode(bytes(raw), item, hidden=self.mark)
                items.append(await filling.filled(decoded) if self.texts else decoded)
            except Refused as refused:
                raise Refused(refused.status, refused.code, f"{name}[{number}]: {refused.message}") from None
            if number % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
        return items


async def read(request: Request) -> Body:
    """Read the body of a request as JSON, once for all who ask for it.

    Raises:
        Refused: 400, because it holds too much, is nested too deeply, or is no JSON; 413 and 408 as the guard says.
    """
    body: Body | None = request.scope.get(_SCOPE)
    if body is None:
        body = request.scope[_SCOPE] = await read_parts(request.stream())
    return body


def forget(scope: MutableMapping[str, Any]) -> None:
    """Forget the body of a request that was answered. Its connection keeps the scope until the next request comes."""
    scope.pop(_SCOPE, None)


async def read_parts(parts: AsyncIterator[bytes]) -> Body:
    """Read JSON that comes in parts, each of which is forgotten when it is scanned."""
    scan, digest = _Scan(), hashlib.sha256()
    async for part in parts:
        for at in range(0, len(part), PIECE_BYTES):
            async with _turn():
                piece = bytes(part[at : at + PIECE_BYTES])
                digest.update(piece)
                scan.feed(piece)
                if len(part) > _SMALL_BYTES:
                    await asyncio.sleep(0)
    return Body(scan.skeleton(), scan.texts, scan.mark, digest.digest())


def _turn() -> asyncio.Lock:
    """Held while one piece is worked on: of many large bodies, one piece goes in each turn of the event loop."""
    return _TURNS.setdefault(asyncio.get_running_loop(), asyncio.Lock())


async def read_bytes(request: Request) -> bytes:
    """Read the body of a request that is a file, without holding it twice."""
    whole = bytearray()
    async for part in request.stream():
        whole += part
    return as_bytes(whole)


async def read_unpacked(request: Request, most_bytes: int) -> bytes:
    """Read the body of a request that is a file, and unpack it as its `Content-Encoding` says.

    Few bytes can unpack to a thousand times as many. Therefore what they become is counted like a body that came so.

    Raises:
        Refused: 400 if it cannot be unpacked; 413, 429 or 503 if it becomes too large, or others take the room.
    """
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding in ("", "identity"):
        return await read_bytes(request)
    if encoding not in ("gzip", "deflate"):
        raise Refused(400, "invalid_argument", f"Content-Encoding: {shortened(encoding, 40)!r} is not known")
    take: Callable[[int], None] = request.scope[ROOM]
    inflater, whole = zlib.decompressobj(zlib.MAX_WBITS | 32), bytearray()
    async for part in request.stream():
        while True:
            try:
                piece = inflater.decompress(part, _UNPACKED_BYTES)
            except zlib.error as error:
                raise Refused(400, "invalid_argument", f"the body is no {encoding}: {error}") from None
            if len(whole) + len(piece) > most_bytes:
                told = f"a body must have at most {most_bytes} bytes when it is decompressed"
                raise Refused(413, "too_large", told)
            take(len(piece))
            whole += piece
            part = inflater.unconsumed_tail
            if inflater.eof or (not part and len(piece) < _UNPACKED_BYTES):
                break
            await asyncio.sleep(0)
    if not inflater.eof or inflater.unused_data:
        raise Refused(400, "invalid_argument", f"the body must be one whole stream of {encoding}")
    return as_bytes(whole)


def as_bytes(whole: bytearray) -> bytes:
    """A view of bytes that nobody changes any more: a copy of many would hold the event loop."""
    return cast(bytes, memoryview(whole).toreadonly())


def check(data: bytes) -> None:
    """Refuse JSON of moderate size, such as a message of a WebSocket, that would be hard to decode.

    Raises:
        Refused: 400, because it holds too many values or is nested too deeply.
    """
    opened = data.count(b"[") + data.count(b"{")
    if opened > MOST_DEPTH or opened + data.count(b",") > MOST_VALUES:
        scan = _Scan(takes_texts_out=False)
        for at in range(0, len(data), PIECE_BYTES):
            scan.feed(data[at : at + PIECE_BYTES])


def decode(data: bytes, kind: Any, *, hidden: str = "\0") -> Any:
    """JSON that was checked, as a request of this kind.

    Raises:
        Refused: It is no JSON, or does not fit.
    """
    try:
        return _decoder(kind).decode(data or b"{}")
    except msgspec.ValidationError as error:
        told = shortened(str(error).replace(hidden, "a long text, number "))
        raise Refused(400, "invalid_argument", f"the body does not fit: {told}") from None
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise Refused(400, "bad_json", f"the body is no JSON: {shortened(str(error))}") from None


@functools.cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, float_hook=_finite)


def _finite(text: str) -> float:
    """A number, by Python's own arithmetic: msgspec's takes 12 microseconds for the nearest double to `1e308`."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is out of range")
    return number


class _Scan:
    """The state between two pieces: inside a text or outside, and what was counted."""

    def __init__(self, *, takes_texts_out: bool = True) -> None:
        self.texts: list[bytearray] = []
        self.mark = secrets.token_hex(16) + ":"
        self._takes_texts_out = takes_texts_out
        self._skeleton = bytearray()
        self._inside = self._is_escaped = self._is_open = False
        self._text = bytearray()  # the one that is being read, as it stands in the body
        self._long: _LongText | None = None
        self._values, self._texts, self._depth, self._outside_bytes = 1, 0, 0, 0

    def feed(self, piece: bytes) -> None:
        """Scan one more piece.

        Raises:
            Refused: There is too much by now.
        """
        if not self._feed_short(piece):
            self._feed_any(piece)

    def _feed_short(self, piece: bytes) -> bool:
        """Scan a piece with few calls if no text in it is long; thousands of short ones would take long one by one.

        Returns:
            False if it has to be scanned otherwise. Nothing was done then.
        """
        if self._long is not None or self._is_escaped or piece.endswith(b"\\"):
            return False
        parts = piece.replace(b"\\\\", b"__").replace(b'\\"', b"__").split(b'"')
        texts, outside = (parts[::2], parts[1::2]) if self._inside else (parts[1::2], parts[::2])
        if max(map(len, texts), default=0) + len(self._text) > self._most_bytes():
            return False
        ends_inside = self._inside ^ (len(parts) % 2 == 0)
        if self._takes_texts_out and len(parts) == 1 and self._inside:
            self._text += piece
        elif self._takes_texts_out:
            if self._inside:
                self._skeleton += b'"%b' % bytes(self._text)
                self._text.clear()
            if ends_inside:
                start = len(piece) - len(parts[-1])
                self._skeleton += piece[: start - 1]
                self._text += piece[start:]
            else:
                self._skeleton += piece
        self._inside = ends_inside
        self._count(b'"'.join(outside).translate(None, _SPACE), sum(map(len, outside)))
        return True

    def _most_bytes(self) -> int:
        """Of a text that stays in the skeleton."""
        return _LONG_IF_CROWDED_BYTES if len(self._skeleton) > _CROWDED_BYTES else _LONG_BYTES

    def _feed_any(self, piece: bytes) -> None:
        at, outside = 0, []
        while at < len(piece):
            if self._inside:
                end = self._end_of_text(piece, at)
                stop = len(piece) if end < 0 else end
                if self._takes_texts_out:
                    self._take(piece[at:stop])
                if end >= 0:
                    self._inside = False
                    self._finish_text()
                at = stop + (end >= 0)
            else:
                end = piece.find(b'"', at)
                stop = len(piece) if end < 0 else end
                outside.append(piece[at:stop])
                if self._takes_texts_out:
                    self._skeleton += piece[at:stop]
                if end >= 0:
                    self._inside = True
                at = stop + (end >= 0)
        self._count(b'"'.join(outside).translate(None, _SPACE), sum(map(len, outside)))

    def skeleton(self) -> bytes:
        """What is left of the body; a text that does not end leaves it malformed."""
        if self._inside:
            self._skeleton += b'"'
        return bytes(self._skeleton)

    def _end_of_text(self, piece: bytes, at: int) -> int:
        """Where the quote stands that ends the text, or -1."""
        if self._is_escaped:
            self._is_escaped = False
            at += 1
        end = piece.find(b'"', at)
        if piece.find(b"\\", at, len(piece) if end < 0 else end) < 0:
            return end
        found = _STRING.match(piece, at)
        assert found is not None  # it matches nothing, too
        end = found.end()
        if end < len(piece) and piece[end] == 0x5C:  # the last byte, of an escape that goes on
            self._is_escaped, end = True, len(piece)
        return -1 if end == len(piece) else end

    def _take(self, part: bytes) -> None:
        if self._long is not None:
            self._long.feed(part)
            return
        self._text += part
        if len(self._text) > self._most_bytes():
            self._long = _LongText()
            self._long.feed(bytes(self._text))
            self._text.clear()

    def _finish_text(self) -> None:
        if self._long is not None:
            self._skeleton += f'"{self.mark}{len(self.texts)}"'.encode()
            self.texts.append(self._long.whole())
            self._long = None
        elif self._takes_texts_out:
            self._skeleton += b'"%b"' % bytes(self._text)
            self._text.clear()

    def _count(self, outside: bytes, size: int) -> None:
        """Count what a piece has outside of texts, each of which is one quote here."""
        opened = outside.count(b"[") + outside.count(b"{")
        empty = outside.count(b"[]") + outside.count(b"{}")
        if self._is_open and outside[:1] in (b"]", b"}"):  # closed in the next piece
            self._values -= 1
        if outside or self._inside:
            self._is_open = not self._inside and outside[-1:] in (b"[", b"{")
        self._values += outside.count(b",") + opened - empty
        self._texts += outside.count(b'"')
        self._outside_bytes += size
        if self._values > MOST_VALUES or self._texts > 2 * MOST_VALUES + 2:  # values and names
            raise Refused(400, "invalid_argument", f"a body must have at most {MOST_VALUES} values")
        if self._outside_bytes > _MOST_OUTSIDE_BYTES or len(self._skeleton) > _MOST_SKELETON_BYTES:
            raise Refused(400, "invalid_argument", "a body must have less between its texts")
        for bracket in outside.translate(None, _NO_BRACKETS) if opened > empty else b"":
            self._depth += 1 if bracket in b"[{" else -1
            if self._depth > MOST_DEPTH:
                raise Refused(400, "invalid_argument", f"values in a body must be nested at most {MOST_DEPTH} deep")
        if opened <= empty:
            self._depth -= outside.count(b"]") + outside.count(b"}") - opened


class _LongText:
    """A text whose escapes are decoded as it comes."""

    def __init__(self) -> None:
        self._whole = bytearray()
        self._rest = b""

    def feed(self, part: bytes) -> None:
        """Decode one more part, up to the last character that is whole."""
        data = self._rest + part
        cut = _before_unfinished(data)
        self._rest = data[cut:]
        self._whole += _unescaped(data[:cut])

    def whole(self) -> bytearray:
        """All of it, in UTF-8."""
        self._whole += _unescaped(self._rest)
        return self._whole


def _unescaped(data: bytes) -> bytes:
    try:
        return _TEXTS.decode(b'"%b"' % data).encode()
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise Refused(400, "bad_json", f"a text in the body is no JSON: {shortened(str(error))}") from None


def _before_unfinished(data: bytes) -> int:
    """The end of the last character, escape or pair of surrogates that is whole."""
    start = max(0, len(data) - _TAIL_BYTES)
    while (found := _UNFINISHED.search(data, start)) is not None:
        at = found.start()
        if (at - len(data[:at].rstrip(b"\\"))) % 2 == 0:
            return at
        start = at + 1
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            return len(data) - back if back < (2 if byte < 0xE0 else 3 if byte < 0xF0 else 4) else len(data)
        if byte < 0x80:
            break
    return len(data)


class _Filling:
    """Puts long texts into the places of their marks."""

    def __init__(self, texts: list[bytearray], mark: str) -> None:
        self._texts, self._mark = texts, mark
        self._left_bytes = _MOST_WIDE_BYTES

    async def filled(self, asked: Any) -> Any:
        """The request, filled. What no schema describes may have long texts anywhere but in names.

        Raises:
            Refused: A long text stands where none may.
        """
        root = [asked]
        for holder, name, number, how, field in list(self._places(root, "", TEXT)):
            value = await self._content(number, how, field)
            if isinstance(holder, msgspec.Struct):
                setattr(holder, name, value)
            else:
                holder[name] = value
        return root[0]

    def _places(self, value: Any, name: str, how: str | int | None) -> Iterator[tuple[Any, Any, int, str | int, str]]:
        """Holder, name in it, number of the text, what becomes of it, and the name of the field."""
        members: Any
        how = TEXT if how == CONTENT else how
        if isinstance(value, msgspec.Struct):
            long: Long = getattr(value, "LONG", {})
            members = ((each, getattr(value, each), long.get(each)) for each in value.__struct_fields__)
        elif isinstance(value, dict):
            members = ((each, inner, how) for each, inner in value.items())
            for each in value:
                if isinstance(each, str) and each.startswith(self._mark):
                    raise _too_long(f"a name in {name or 'the body'}")
        elif isinstance(value, list):
            members = ((number, inner, how) for number, inner in enumerate(value))
        elif isinstance(value, tuple):
            members = ((number, inner, None) for number, inner in enumerate(value))
        else:
            return
        for each, inner, way in members:
            field = each if isinstance(each, str) else name
            if isinstance(inner, str):
                if inner.startswith(self._mark):
                    if way is None:
                        raise _too_long(field)
                    yield value, each, int(inner.removeprefix(self._mark)), way, field
            else:
                yield from self._places(inner, field, way)

    async def _content(self, number: int, how: str | int, name: str) -> Any:
        content, self._texts[number] = self._texts[number], bytearray()
        if how in (BYTES, CONTENT):
            return as_bytes(content)
        if how == BASE64:
            return await _decode_base64(content, name)
        if len(content) > int(how):
            told = f"the body does not fit: Expected `str` of length <= {how} - at `{shortened(name)}`"
            raise Refused(400, "invalid_argument", told)
        text = content.decode()
        self._left_bytes -= max(0, sys.getsizeof(text) - 2 * len(content))
        if self._left_bytes < 0:
            told = "the texts of a request take too much memory, because they mix wide and other characters; send files"
            raise Refused(400, "invalid_argument", told)
        await asyncio.sleep(0)
        return text


async def _decode_base64(text: bytearray, name: str) -> bytes:
    """Bytes of a file, decoded in slices between which others have their turn."""
    whole = bytearray()
    try:
        for part in base64_parts(text):
            async with _turn():
                whole += part
                await asyncio.sleep(0)
    except ValueError as error:
        raise Refused(400, "invalid_argument", f"{shortened(name)}: is no base64: {error}") from None
    return as_bytes(whole)


def decoded_base64(text: bytes | bytearray | memoryview, *, skips: bytes = b"") -> bytes:
    """Decode base64 into one buffer, for a thread.

    Raises:
        ValueError: It is none.
    """
    whole = bytearray()
    for part in base64_parts(text, skips=skips):
        whole += part
    return as_bytes(whole)


def base64_parts(text: bytes | bytearray | memoryview, *, skips: bytes = b"") -> Iterator[bytes]:
    """What base64 encodes, slice by slice.

    Args:
        skips: Characters that count for nothing, such as ends of lines.

    Raises:
        ValueError: It is none.
    """
    rest, has_ended = b"", False
    for at in range(0, len(text), _BASE64_BYTES):
        part = rest + bytes(text[at : at + _BASE64_BYTES]).translate(None, skips)
        if has_ended and part:
            raise ValueError("Excess data after padding")
        whole = len(part) if at + _BASE64_BYTES >= len(text) else len(part) // 4 * 4
        part, rest = part[:whole], part[whole:]
        has_ended = part.endswith(b"=")
        yield binascii.a2b_base64(part, strict_mode=True)


def _too_long(name: str) -> Refused:
    return Refused(400, "invalid_argument", f"{shortened(name)}: is too long; only programs and files may be so long")
