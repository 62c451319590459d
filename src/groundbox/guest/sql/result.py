"""The rows that a query gave, as a DataFrame for the next cell and as a bundle for whoever asked."""

from __future__ import annotations

import datetime
import html
import math
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ..python import tables
from .few import FewRows

TEXT_ROWS: Final = 20
HTML_ROWS: Final = 60
TEXT_COLUMNS: Final = 30
TEXT_CELL_CHARS: Final = 60
MOST_ROWS: Final = 1_000_000
"""A DataFrame holds no more rows of a result than this."""
_DECIMAL: Final = re.compile(r"(?:DECIMAL|NUMERIC)\(\d+,(\d+)\)", re.IGNORECASE)
_INTEGERS: Final = re.compile(r"U?(?:TINY|SMALL|BIG|HUGE)?INT(?:EGER)?\b", re.IGNORECASE)
_EXACT: Final = 1 << 53
_BETWEEN: Final = "\0"
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
    """

    columns: Sequence[Column]
    held: Any
    complete: bool
    name: str = "_sql"
    page: str = "LIMIT and OFFSET, or COPY (…) TO 'file.parquet'"

    @property
    def frame(self) -> Any:
        """The rows as a pandas DataFrame."""
        return self.held.frame if isinstance(self.held, FewRows) else self.held

    def bundle(self) -> dict[str, Any]:
        """Text, HTML and data, each with the first rows, the true size and the way to the rest."""
        rows = _Rows(self)
        return {"text/plain": rows.text(), "text/html": rows.html(), tables.MIME: rows.data()}


class _Rows:
    def __init__(self, result: Result) -> None:
        self._result = result
        self._columns = list(result.columns[: tables.COLUMNS])
        self._column_count = len(result.columns)
        self._count, head, self._types = _head(result.held, len(self._columns))
        self._cells = [_cells(items, column.type) for column, items in zip(self._columns, head, strict=True)]

    def data(self) -> dict[str, Any]:
        names = tables.unique([column.name for column in self._columns])
        fields = [
            {"name": name, "type": kind, "dtype": dtype, "sql_type": column.type}
            for name, column, (kind, dtype) in zip(names, self._columns, self._types, strict=True)
        ]
        cut = self._count > tables.ROWS or self._column_count > tables.COLUMNS or not self._result.complete
        return {
            "schema": {"fields": fields},
            "data": [dict(zip(names, row)) for row in zip(*self._cells, strict=True)],  # noqa: B905 it costs a third more
            "row_count": self._count,
            "row_count_exact": self._result.complete,
            "column_count": self._column_count,
            "truncated": cut,
            **({"rest": self._rest(min(self._count, tables.ROWS))} if cut else {}),
        }

    def text(self) -> str:
        columns = [
            [column.name, column.type, *map(_short, cells[:TEXT_ROWS])]
            for column, cells in zip(self._columns[:TEXT_COLUMNS], self._cells, strict=False)
        ]
        numeric = [not any(isinstance(item, str) for item in cells) for cells in self._cells[:TEXT_COLUMNS]]
        lines = ["  ".join(parts).rstrip() for parts in zip(*map(_padded, columns, numeric), strict=True)]
        lines.insert(2, "-" * max(map(len, lines), default=0))
        return "\n".join([*lines, self._summary(TEXT_ROWS, TEXT_COLUMNS)])

    def html(self) -> str:
        head = "".join(
            f'<th title="{html.escape(column.type)}">{html.escape(column.name)}</th>' for column in self._columns
        )
        columns = (_marked_up(cells[:HTML_ROWS]) for cells in self._cells)
        rows = "".join(f"<tr><td>{'</td><td>'.join(row)}</td></tr>\n" for row in zip(*columns, strict=True))
        summary = html.escape(self._summary(HTML_ROWS, tables.COLUMNS))
        table = f'<table border="1" class="dataframe">\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table>'
        return f"<div>\n{table}\n<p>{summary}</p>\n</div>"

    def _summary(self, rows: int, columns: int) -> str:
        count = f"{self._count} row{'' if self._count == 1 else 's'}"
        if not self._result.complete:
            count = f"more than {count}"
        told = f"({count} × {self._column_count} column{'' if self._column_count == 1 else 's'}"
        shown = []
        if self._count > rows:
            shown.append(f"the first {rows} rows")
        if self._column_count > columns:
            shown.append(f"the first {columns} columns")
        if not shown and self._result.complete:
            return told + ")"
        return f"{told}; shown: {' and '.join(shown) or 'all that are held'}; {self._rest(min(self._count, rows))})"

    def _rest(self, shown: int) -> str:
        name = self._result.name
        if self._result.complete:
            return f"all are in the DataFrame `{name}`: {name}.iloc[{shown}:]"
        return f"the first {self._count} are in the DataFrame `{name}`; for the others write {self._result.page}"


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


def _marked_up(items: list[Any]) -> list[str]:
    texts = [item if type(item) is str else _told(item) for item in items]
    escaped = html.escape(_BETWEEN.join(texts)).split(_BETWEEN)  # one call is several times faster than one for each
    if len(escaped) != len(texts):
        escaped = [html.escape(text) for text in texts]
    return escaped


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


def _told(item: Any) -> str:
    if item is None:
        return "NULL"
    if isinstance(item, bool):
        return "true" if item else "false"
    return str(item)


def _short(item: Any) -> str:
    text = _told(item)
    if type(item) is str and not item.isprintable():
        text = text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return text if len(text) <= TEXT_CELL_CHARS else text[: TEXT_CELL_CHARS - 1] + "…"


def _padded(cells: list[str], numeric: bool) -> list[str]:
    width = max(map(len, cells))
    return [cell.rjust(width) if numeric else cell.ljust(width) for cell in cells]
