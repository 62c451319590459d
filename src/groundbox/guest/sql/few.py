"""Few rows: held as the values of Python that they come as, and made a DataFrame when a program asks for one.

To make a DataFrame of five rows takes longer than many a query. Its columns have the types that `df()` of DuckDB
gives them, which a test compares.
"""

from __future__ import annotations

import datetime
import importlib
import math
import re
from collections.abc import Sequence
from typing import Any, Final

MOST: Final = 1000
"""Rows. Where there are more, DuckDB's own frames are faster."""
MOST_CHARS: Final = 1 << 20
_INTEGERS: Final = {
    "TINYINT": "Int8",
    "SMALLINT": "Int16",
    "INTEGER": "Int32",
    "BIGINT": "Int64",
    "UTINYINT": "UInt8",
    "USMALLINT": "UInt16",
    "UINTEGER": "UInt32",
    "UBIGINT": "UInt64",
}
"""With room for NULL. Without, their names are in small letters."""
_OTHERS: Final = {
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "BOOLEAN": "boolean",
    "VARCHAR": "str",
    "DATE": "datetime64[us]",
    "TIMESTAMP": "datetime64[us]",
    "HUGEINT": "float64",
    "UHUGEINT": "float64",
}
_KNOWN: Final = _INTEGERS | _OTHERS
_FIELD_TYPES: Final = {
    "int": "integer",
    "uin": "integer",
    "flo": "number",
    "boo": "boolean",
    "str": "string",
    "dat": "datetime",
    "obj": "any",
}
"""By the first letters of a frame's types."""
_DECIMAL: Final = re.compile(r"DECIMAL\(\d+,\d+\)")
_EXACT: Final = 1 << 53
_ENDS: Final = frozenset({datetime.date.min, datetime.date.max, datetime.datetime.min, datetime.datetime.max})
"""What DuckDB gives for an infinite date, too."""


def takes(names: Sequence[str], kinds: Sequence[str]) -> bool:
    """Whether columns of these types can be held so; where one name comes twice, DuckDB makes others of it."""
    unlike = len({name.casefold() for name in names}) == len(names)
    return unlike and all(kind in _KNOWN or _DECIMAL.fullmatch(kind) for kind in kinds)


class FewRows:
    """Columns of a result, of types that `takes` knows.

    Attributes:
        columns: The values of each, None where there is none.
        count: Rows.
    """

    def __init__(self, names: Sequence[str], kinds: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
        self._names, self._kinds = names, kinds
        self._frame: Any = None
        self.count = len(rows)
        columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in names]
        self.columns: list[list[Any]] = [
            [item if item is None else float(item) for item in column] if kind.startswith("DECIMAL") else column
            for column, kind in zip(columns, kinds, strict=True)
        ]

    @property
    def is_told(self) -> bool:
        """Whether each date is one: those without end and those that Python has none for are not told apart here."""
        return not any(
            isinstance(item, str) or item in _ENDS
            for column, kind in zip(self.columns, self._kinds, strict=True)
            if kind in ("DATE", "TIMESTAMP")
            for item in column
            if item is not None
        )

    @property
    def is_small(self) -> bool:
        """Whether the texts take little memory, so that there may be two of each for a while."""
        texts = (column for column, kind in zip(self.columns, self._kinds, strict=True) if kind == "VARCHAR")
        return sum(len(item) for column in texts for item in column if item is not None) <= MOST_CHARS

    @property
    def frame(self) -> Any:
        """The rows as a DataFrame, the same one each time."""
        if self._frame is None:
            pandas: Any = importlib.import_module("pandas")
            arrays = map(_array, self.columns, map(self._dtype, range(len(self.columns))))
            self._frame = pandas.DataFrame(dict(enumerate(arrays)), index=pandas.RangeIndex(self.count))
            self._frame.columns = list(self._names)
        return self._frame

    def types(self, columns: int) -> list[tuple[str, str]]:
        """Of the first columns, the type of tabular data resources, and the frame's."""
        dtypes = [self._dtype(position) for position in range(min(columns, len(self.columns)))]
        return [(_FIELD_TYPES[dtype[:3].lower()], dtype) for dtype in dtypes]

    def _dtype(self, position: int) -> str:
        kind, column = self._kinds[position], self.columns[position]
        if kind in _INTEGERS:
            return _INTEGERS[kind] if None in column else _INTEGERS[kind].lower()
        if kind == "BOOLEAN":
            return "boolean" if None in column else "bool"
        if kind == "VARCHAR":
            return _text_dtype() if any(item is not None for item in column) else "object"
        if kind.endswith("HUGEINT"):
            whole = bool(column) and None not in column and max(map(abs, column)) < _EXACT
            return "int64" if whole else "float64"
        return _OTHERS.get(kind, "float64")


def _text_dtype() -> str:
    pandas: Any = importlib.import_module("pandas")
    return "object" if pandas.__version__.startswith(("1.", "2.")) else "str"


def _array(column: list[Any], dtype: str) -> Any:
    pandas: Any = importlib.import_module("pandas")
    if dtype in ("object", "str"):
        return pandas.Series(column, dtype="object" if dtype == "object" else None)
    if dtype[0] in "IU" or dtype == "boolean":
        return pandas.array(column, dtype=dtype)
    numpy: Any = importlib.import_module("numpy")
    if dtype.startswith("float"):
        column = [math.nan if item is None else item for item in column]
    return numpy.array(column, dtype=dtype)
