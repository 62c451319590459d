"""Values and types of a driver of Python's, as plain data that reads like that of the other servers."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import json
from collections.abc import Sequence
from typing import Any, Final

from groundbox.databases.answer import Field


class _Aware:
    """A moment that tells its time zone."""


_WORDS: Final[dict[type, str]] = {
    bool: "boolean",
    int: "integer",
    float: "double",
    str: "text",
    decimal.Decimal: "decimal",
    bytes: "binary",
    datetime.datetime: "timestamp",
    _Aware: "timestamp with time zone",
    datetime.date: "date",
    datetime.time: "time",
    datetime.timedelta: "interval",
}
_AS_IT_IS: Final[dict[type, tuple[str, ...]]] = {
    decimal.Decimal: ("decimal", "numeric"),
    bytes: ("binary", "bytea"),
    datetime.datetime: ("timestamp", "datetime"),
    _Aware: ("timestamp with time zone",),
    datetime.date: ("date",),
}
"""Values that go by their column's type when they are read inside, to the types that do."""
_DIGITS: Final = 1000
"""A decimal with more of them before or behind its point is written with an exponent."""


class TooWide(Exception):
    """A value is larger than a row may be."""


class Columns:
    """The columns of a result, whose types come from the cursor and from the values that were there.

    A type is in the server's words if the cursor tells them. Where what is inside goes by a column's type to read its
    values, the type is one that it knows.
    """

    def __init__(self, description: Sequence[Any]) -> None:
        """Args:
        description: The cursor's, as PEP 249 has it.
        """
        self._description = description
        self._kinds: list[set[type]] = [set() for _ in description]

    def plain(self, row: Sequence[Any], most_bytes: int) -> list[Any]:
        """A row as numbers, texts, booleans and None.

        Raises:
            TooWide: Its values would have to be read for more than so many bytes.
        """
        values: list[Any] = []
        for value in row:
            values.append(_read(value, most_bytes))
            if values[-1] is not value:
                most_bytes -= len(values[-1] or "")
        for kinds, value in zip(self._kinds, values, strict=True):
            if value is not None:
                kinds.add(_kind(value))
        return [_plain(value) for value in values]

    def fields(self) -> list[Field]:
        """Their names and types."""
        told = zip(self._description, self._kinds, strict=True)
        return [Field(str(column[0]), _type(column, kinds)) for column, kinds in told]


def _read(value: Any, most_bytes: int) -> Any:
    """What a driver hands over as something to be read: a file, or a large object that tells its size."""
    if not callable(getattr(value, "read", None)):
        return value
    if callable(size := getattr(value, "size", None)):
        if size() > most_bytes:
            raise TooWide
        return value.read()
    content = value.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise TooWide
    return content


def _kind(value: Any) -> type:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes
    if isinstance(value, datetime.datetime):
        return datetime.datetime if value.tzinfo is None else _Aware
    return type(value)


def _plain(value: Any) -> Any:
    if value is None or type(value) in (bool, int, float):
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "\\x" + bytes(value).hex()
    if isinstance(value, decimal.Decimal):
        short = value.is_finite() and abs(value.adjusted()) < _DIGITS
        return format(value, "f") if short else str(value)
    if isinstance(value, (dict, list, tuple)):
        with contextlib.suppress(TypeError):  # keys that JSON has not, as of maps by a day
            value = json.dumps(value, ensure_ascii=False, default=str)
    text = str(value)
    return text if text.isascii() else text.encode(errors="replace").decode()  # half a character cannot be written


def _type(column: Any, kinds: set[type]) -> str:
    code = column[1]
    kind = _common(kinds) or (code if isinstance(code, type) else None)
    told = _told(column)
    if kind is None or (told and told.startswith(_AS_IT_IS.get(kind, ""))):
        return told or "unknown"
    word = _WORDS.get(kind, kind.__name__)
    precision, scale = [*column[4:6], None, None][:2]
    if kind is decimal.Decimal and isinstance(precision, int) and isinstance(scale, int) and precision > 0:
        return f"{word}({precision},{abs(scale)})"
    return word


def _common(kinds: set[type]) -> type | None:
    """The kind of all values; a decimal among whole numbers is one of its kind."""
    if decimal.Decimal in kinds and kinds <= {decimal.Decimal, int, float}:
        return decimal.Decimal
    return next(iter(kinds)) if len(kinds) == 1 else None


def _told(column: Any) -> str:
    """psycopg's `type_display`, a name, or what has one, such as oracledb's types; numbers tell nothing."""
    code = column[1]
    for told in (getattr(column, "type_display", None), code, getattr(code, "name", None)):
        if isinstance(told, str):
            return told
    return ""
