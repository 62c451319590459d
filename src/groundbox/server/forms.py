"""Forms (multipart/form-data), read as they come.

A part that is wanted is collected in one buffer, whether it is a file or a field, and is neither decoded nor written to
a temporary file. Other parts are dropped as they come. A form therefore takes as much memory as it has bytes. The
parser takes a microsecond for each byte of a part's head, so it is given small pieces, between which others have the
event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any, Final

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from groundbox.server import bodies
from groundbox.server.refusals import Refused, shortened

_PIECE_BYTES: Final = 16 * 1024
_KIND: Final = b"multipart/form-data"


class Part:
    """A part of a form.

    Attributes:
        raw_file_name: As its client encoded it; None for a field, which has none.
        data: What it contains. It is not changed once the form is read.
    """

    def __init__(self, name: str, raw_file_name: bytes | None, data: bytes) -> None:
        self.name, self.raw_file_name, self.data = name, raw_file_name, data

    @property
    def file_name(self) -> str:
        """The file's name, or "" for a field or a name that is empty."""
        return _text(self.raw_file_name or b"")


async def read_form(request: Request, *, wanted: Collection[str] | None, most_parts: int) -> list[Part]:
    """Return the wanted parts of a form, in its order.

    Args:
        wanted: Names of parts; None for all files, whatever their names are.
        most_parts: The form may have so many parts at most, wanted or not.

    Raises:
        Refused: 400 if the form cannot be read or has too many parts; 413 and 408 as the guard says.
    """
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary")
    if kind != _KIND or not boundary:
        raise _unreadable("its Content-Type must be multipart/form-data with a boundary")
    form = _Form(wanted, most_parts)
    try:
        parser = MultipartParser(boundary, form.callbacks())
        async for chunk in request.stream():
            for at in range(0, len(chunk), _PIECE_BYTES):
                parser.write(chunk[at : at + _PIECE_BYTES])
                await asyncio.sleep(0)
    except FormParserError as error:
        raise _unreadable(shortened(str(error))) from None
    if not form.has_ended:
        raise _unreadable("it must end with its boundary")
    return form.parts()


class _Form:
    """What a parser calls: it collects one part after the other.

    Attributes:
        has_ended: Whether the boundary came that ends the form.
    """

    def __init__(self, wanted: Collection[str] | None, most_parts: int) -> None:
        self.has_ended = False
        self._wanted, self._most_parts = wanted, most_parts
        self._parts: list[tuple[str, bytes | None, bytearray]] = []
        self._count = 0
        self._field, self._value, self._disposition = b"", b"", b""
        self._content: bytearray | None = None

    def callbacks(self) -> Any:
        """The parser's table."""
        return {
            "on_part_begin": self._begin_part,
            "on_header_field": self._add_to_field,
            "on_header_value": self._add_to_value,
            "on_header_end": self._end_header,
            "on_headers_finished": self._begin_content,
            "on_part_data": self._add_content,
            "on_end": self._end,
        }

    def parts(self) -> list[Part]:
        """All that were collected."""
        return [Part(name, file_name, bodies.as_bytes(content)) for name, file_name, content in self._parts]

    def _begin_part(self) -> None:
        self._count += 1
        if self._count > self._most_parts:
            raise _unreadable(f"it must have at most {self._most_parts} parts")
        self._field, self._value, self._disposition, self._content = b"", b"", b"", None

    def _add_to_field(self, data: bytes, start: int, end: int) -> None:
        self._field += data[start:end]

    def _add_to_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end_header(self) -> None:
        if self._field.lower() == b"content-disposition":
            self._disposition = self._value
        self._field, self._value = b"", b""

    def _begin_content(self) -> None:
        _, options = parse_options_header(self._disposition)
        if b"name" not in options:
            raise _unreadable("each part must have a name in its header Content-Disposition")
        name, file_name = _text(options[b"name"]), options.get(b"filename")
        if name in self._wanted if self._wanted is not None else file_name is not None:
            self._content = bytearray()
            self._parts.append((name, file_name, self._content))

    def _add_content(self, data: bytes, start: int, end: int) -> None:
        if self._content is not None:
            self._content += data[start:end]

    def _end(self) -> None:
        self.has_ended = True


def _text(name: bytes) -> str:
    """A name in UTF-8, as browsers send it, or otherwise in Latin-1, in which every name can be read."""
    try:
        return name.decode()
    except UnicodeDecodeError:
        return name.decode("latin-1")


def _unreadable(why: str) -> Refused:
    return Refused(400, "invalid_argument", f"the form cannot be read: {why}")
