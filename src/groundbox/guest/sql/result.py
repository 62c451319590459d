"""The rows that a query gave, as a DataFrame for the next cell and as data for whoever asked."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ..python import tables
from .few import FewRows

MIME: Final = "application/vnd.groundbox.rows+json"
"""Between guest and host only."""
MOST_ROWS: Final = 1_000_000
"""A DataFrame holds no more rows of a result than this."""
_DECIMAL: Final = re.compile(r"(?:DECIMAL|NUMERIC)\(\d+,(\d+)\)", re.IGNORECASE)
_INTEGERS: Final = re.compile(r"U?(?:TINY|SMALL|BIG|HUGE)?INT(?:EGER)?\b", re.IGNORECASE)
_EXACT: Final = 1 << 53
_AS_THEY_ARE: Final = frozenset({int, bool, type(None)})
_DATES: Final = frozenset({datetime.date, datetime.datetime, type(None)})


class Column(NamedTuple):
    """One column of a result, with its type in the words of the engine; empty when the engine has none."""

    name: str
    type: str


class Result(NamedTuple):
    """Rows, all of them or the first ones.

    Attributes:
        held: A pandas DataFrame, or rows that become one.
        complete: Whether these are all rows.
        name: What the frame is called in Python cells.
        page: SQL's own way to the rows that are not shown.
        changes: Columns of files that were read as other types than the engine guesses (csv_types.py).
    """

    columns: Sequence[Column]
    held: Any
    complete: bool
    name: str = "_sql"
    page: str = "LIMIT and OFFSET, or COPY (…) TO 'file.parquet'"
    changes: Sequence[Sequence[str]] = ()

    @property
    def frame(self) -> Any:
        """The rows as a pandas DataFrame."""
        return self.held.frame if isinstance(self.held, FewRows) else self.held

    def told(self) -> dict[str, Any]:
        """The first rows by columns, as JSON, from which the host makes text, HTML and data (runtimes/sql_table.py)."""
        columns = list(self.columns[: tables.COLUMNS])
        count, head, types = _head(self.held, len(columns))
        rows = {
            "columns": [(*column, *kind) for column, kind in zip(columns, types, strict=True)],
            "cells": [_cells(items, column.type) for column, items in zip(columns, head, strict=True)],
            "row_count": count,
            "column_count": len(self.columns),
            "complete": self.complete,
            "name": self.name,
            "page": self.page,
            **({"changes": self.changes} if self.changes else {}),
        }
        return {MIME: rows}


def _head(held: Any, columns: int) -> tuple[int, list[list[Any]], list[tuple[str, str]]]:
    """How many rows there are, the first ones by columns, and the types of these: tabular data's name, and pandas'."""
    if isinstance(held, FewRows):
        return held.count, [column[: tables.ROWS] for column in held.columns[:columns]], held.types(columns)
    head = held if len(held) <= tables.ROWS else held.iloc[: tables.ROWS]
    series = [one for _, (_, one) in zip(range(columns), head.items(), strict=False)]
    types = [(tables.type_name(one.dtype), str(one.dtype)) for one in series]
    return len(held), [one.tolist() for one in series], types


def _cells(items: list[Any], kind: str) -> list[Any]:
    """A column's values as JSON; the common kinds of columns without a look at each value's type."""
    kinds = set(map(type, items))
    if kinds <= _AS_THEY_ARE:
        return items
    if kinds == {str} and max(map(len, items)) <= tables.CELL_CHARS and kind.casefold() != "date":
        return items
    if kinds == {float} and all(map(math.isfinite, items)):
        scale = _DECIMAL.fullmatch(kind)
        if scale is not None:
            digits = int(scale[1])
            return [round(item, digits) for item in items]
        if _INTEGERS.match(kind) is None:
            return items
    if {one.__name__ for one in kinds} <= {"Timestamp", "NaTType"}:
        end = 10 if kind.casefold() == "date" else None
        return [None if text == "NaT" else text[:end] for text in (item.isoformat() for item in items)]
    if kinds <= _DATES:
        return [item if item is None else item.isoformat() for item in items]
    return [_cell(item, kind) for item in items]


def _cell(item: Any, kind: str) -> Any:
    value = tables.cell(item)
    if isinstance(value, float):
        if _INTEGERS.match(kind) and value.is_integer():
            return int(value)
        scale = _DECIMAL.fullmatch(kind)
        return round(value, int(scale[1])) if scale else value
    if kind.casefold() == "date" and isinstance(value, str):
        return value.partition("T")[0]
    return value


def whole_numbers(frame: Any, columns: Sequence[Column]) -> Any:
    """The frame with integers as integers where the engine's converter made them floating, and none is lost."""
    for position, column in enumerate(columns):
        if column.type not in ("HUGEINT", "UHUGEINT"):
            continue
        series = frame.iloc[:, position]
        if series.dtype.kind == "f" and len(series) and not series.hasnans and series.abs().max() < _EXACT:
            frame.isetitem(position, series.astype("int64"))
    return frame
