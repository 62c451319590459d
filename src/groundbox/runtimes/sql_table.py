"""What SQL found, as a MIME bundle whose forms are made when somebody looks at them.

The guest tells the first rows by columns. Text, HTML and data together are four times as long and take longer to write
and to read than many a query; of three forms a caller looks at one.
"""

from __future__ import annotations

import functools
import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal

import msgspec

from groundbox.guest.python import tables

TEXT_ROWS: Final = 20
HTML_ROWS: Final = 60
TEXT_COLUMNS: Final = 30
TEXT_CELL_CHARS: Final = 60
MOST_NAME_CHARS: Final = 2_000_000
"""Of names and types, as often as data and text repeat them."""
MOST_HTML_CHARS: Final = 8_000_000
"""More than all the cells that are marked up, at their longest. Markup makes six characters of some."""
MOST_CHANGES: Final = 200
_HEAD_LINES: Final = 5
_MARKS: Final = "&<>\"'"
_BETWEEN: Final = "\0"
_Word = Annotated[str, msgspec.Meta(max_length=200)]
_Cell = str | int | float | bool | None


class Rows(msgspec.Struct, frozen=True):
    """The first rows of a result, as the guest tells them.

    Attributes:
        columns: Name, type in the words of the engine, type of tabular data resources, type of the DataFrame.
        cells: By columns.
        row_count: Of all rows that are held; there are more if not `complete`.
        name: What the DataFrame is called in Python cells.
        page: SQL's own way to the rows that are not held.
        changes: File, column, guessed type, type that was read, and why it was (guest/sql/csv_types.py).
    """

    columns: Annotated[list[tuple[str, str, _Word, _Word]], msgspec.Meta(max_length=tables.COLUMNS)]
    cells: list[Annotated[list[_Cell], msgspec.Meta(max_length=tables.ROWS)]]
    row_count: Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
    column_count: Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
    complete: bool
    name: _Word
    page: _Word
    changes: Annotated[
        list[tuple[str, str, str, str, Literal["later", "day", "large", "quote"]]],
        msgspec.Meta(max_length=MOST_CHANGES),
    ] = []

    def __post_init__(self) -> None:
        if len(self.cells) != len(self.columns) or len(set(map(len, self.cells))) > 1:
            raise ValueError("the columns of a result are not equally long")


class TableBundle(Mapping[str, Any]):
    """A result of SQL in three forms, each made once, when it is looked at: `dict(bundle)` makes them all.

    Of names too long to be repeated in each row only a text is made, which says so.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._made: dict[str, Any] = {}

    @property
    def changes(self) -> Sequence[tuple[str, str, str, str, str]]:
        """The columns that were read as other types than the engine guesses."""
        return self._rows.changes

    def __getitem__(self, mime: str) -> Any:
        if mime not in self._made:
            self._made[mime] = self._forms[mime](self._rows)
        return self._made[mime]

    def __iter__(self) -> Iterator[str]:
        return iter(self._forms)

    def __len__(self) -> int:
        return len(self._forms)

    def __contains__(self, mime: object) -> bool:
        return mime in self._forms

    @functools.cached_property
    def _forms(self) -> Mapping[str, Callable[[Rows], Any]]:
        if _name_chars(self._rows) > MOST_NAME_CHARS:
            return {"text/plain": _too_large}
        return _FORMS

    def __repr__(self) -> str:
        return repr(dict(self))


def bundle_of(told: Any) -> TableBundle:
    """The bundle of what a guest told.

    Raises:
        ValueError: It is no table of rows.
    """
    return TableBundle(msgspec.convert(told, Rows))


def _name_chars(rows: Rows) -> int:
    """A name stands in each row of data, and its width in each line of the text, with that of its type."""
    row_count = len(rows.cells[0]) if rows.cells else 0
    names = sum(len(name) for name, *_ in rows.columns)
    widths = names + sum(len(kind) for _, kind, *_ in rows.columns)
    return names * row_count + widths * (min(row_count, TEXT_ROWS) + _HEAD_LINES)


def _can_be_marked_up(rows: Rows) -> bool:
    texts = [cell for cells in rows.cells for cell in cells[:HTML_ROWS] if isinstance(cell, str)]
    chars = sum(map(len, texts))
    if 6 * chars <= MOST_HTML_CHARS:
        return True
    return chars + 5 * sum(text.count(mark) for text in texts for mark in _MARKS) <= MOST_HTML_CHARS


def _too_large(rows: Rows) -> str:
    return (
        f"too large to show: {rows.row_count} rows × {rows.column_count} columns with long names or types; "
        f"select fewer, rename them, or look at the DataFrame `{rows.name}`"
    )


def _data(rows: Rows) -> dict[str, Any]:
    names = tables.unique([name for name, *_ in rows.columns])
    fields = [
        {"name": name, "type": kind, "dtype": dtype, "sql_type": sql_type}
        for name, (_, sql_type, kind, dtype) in zip(names, rows.columns, strict=True)
    ]
    cut = rows.row_count > tables.ROWS or rows.column_count > tables.COLUMNS or not rows.complete
    return {
        "schema": {"fields": fields},
        "data": [dict(zip(names, row, strict=True)) for row in zip(*rows.cells, strict=True)],
        "row_count": rows.row_count,
        "row_count_exact": rows.complete,
        "column_count": rows.column_count,
        "truncated": cut,
        **({"rest": _rest(rows, min(rows.row_count, tables.ROWS))} if cut else {}),
    }


def _text(rows: Rows) -> str:
    columns = [
        [name, kind, *map(_short, cells[:TEXT_ROWS])]
        for (name, kind, *_), cells in zip(rows.columns[:TEXT_COLUMNS], rows.cells, strict=False)
    ]
    numeric = [not any(isinstance(item, str) for item in cells) for cells in rows.cells[:TEXT_COLUMNS]]
    lines = ["  ".join(parts).rstrip() for parts in zip(*map(_padded, columns, numeric), strict=True)]
    lines.insert(2, "-" * max(map(len, lines), default=0))
    return "\n".join([*lines, _summary(rows, TEXT_ROWS, TEXT_COLUMNS)])


def _html(rows: Rows) -> str:
    if not _can_be_marked_up(rows):
        told = f"too large to show as HTML: over {MOST_HTML_CHARS} characters; {_rest(rows, 0)}"
        return f"<div>\n<p>{html.escape(told)}</p>\n</div>"
    head = "".join(f'<th title="{html.escape(kind)}">{html.escape(name)}</th>' for name, kind, *_ in rows.columns)
    columns = (_marked_up(cells[:HTML_ROWS]) for cells in rows.cells)
    body = "".join(f"<tr><td>{'</td><td>'.join(row)}</td></tr>\n" for row in zip(*columns, strict=True))
    summary = html.escape(_summary(rows, HTML_ROWS, tables.COLUMNS))
    table = f'<table border="1" class="dataframe">\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table>'
    return f"<div>\n{table}\n<p>{summary}</p>\n</div>"


_FORMS: Final = {"text/plain": _text, "text/html": _html, tables.MIME: _data}


def _summary(rows: Rows, row_count: int, column_count: int) -> str:
    count = f"{rows.row_count} row{'' if rows.row_count == 1 else 's'}"
    if not rows.complete:
        count = f"more than {count}"
    told = f"({count} × {rows.column_count} column{'' if rows.column_count == 1 else 's'}"
    shown = []
    if rows.row_count > row_count:
        shown.append(f"the first {row_count} rows")
    if rows.column_count > column_count:
        shown.append(f"the first {column_count} columns")
    if not shown and rows.complete:
        return told + ")"
    rest = _rest(rows, min(rows.row_count, row_count))
    return f"{told}; shown: {' and '.join(shown) or 'all that are held'}; {rest})"


def _rest(rows: Rows, shown: int) -> str:
    if rows.complete:
        return f"all are in the DataFrame `{rows.name}`: {rows.name}.iloc[{shown}:]"
    return f"the first {rows.row_count} are in the DataFrame `{rows.name}`; for the others write {rows.page}"


def _marked_up(items: Sequence[_Cell]) -> list[str]:
    texts = [item if type(item) is str else _told(item) for item in items]
    escaped = html.escape(_BETWEEN.join(texts)).split(_BETWEEN)  # one call is several times faster than one for each
    if len(escaped) != len(texts):
        escaped = [html.escape(text) for text in texts]
    return escaped


def _told(item: _Cell) -> str:
    if item is None:
        return "NULL"
    if isinstance(item, bool):
        return "true" if item else "false"
    return str(item)


def _short(item: _Cell) -> str:
    text = _told(item)
    if type(item) is str and not item.isprintable():
        text = text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return text if len(text) <= TEXT_CELL_CHARS else text[: TEXT_CELL_CHARS - 1] + "…"


def _padded(cells: Sequence[str], numeric: bool) -> list[str]:
    width = max(map(len, cells))
    return [cell.rjust(width) if numeric else cell.ljust(width) for cell in cells]
