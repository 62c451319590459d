"""Schema cards: what can be asked, told for a model within a number of tokens.

Columns, types, keys, sizes and some values; what does not fit is left out in this order: values, types of columns,
columns, tables. What was left out is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

MAX_TOKENS: Final = 2000
ASKED: Final = re.compile(r"\s*DESCRIBE\s+ALL\s*;?\s*", re.IGNORECASE)
"""The statement that asks for a card."""
_TOKEN: Final = re.compile(r"[^\W\d_]{1,5}|\d{1,3}|[^\w\s]|_|\n")
_EXAMPLE_CHARS: Final = 24


class ColumnCard(NamedTuple):
    """One column.

    Attributes:
        key: Such as `primary key` or `-> customers.id`; empty for none.
    """

    name: str
    type: str = ""
    key: str = ""
    examples: Sequence[str] = ()


class TableCard(NamedTuple):
    """One table, as it is written behind FROM.

    Attributes:
        size: Such as `1000 rows`.
    """

    name: str
    kind: str
    size: str
    columns: Sequence[ColumnCard]


def asks_for_card(source: str) -> bool:
    """Whether a source is the statement that asks for a card, and nothing else."""
    return ASKED.fullmatch(source) is not None


def token_count(text: str) -> int:
    """No fewer than common tokenizers make of it, on schemas."""
    return len(_TOKEN.findall(text))


def render(tables: Sequence[TableCard], max_tokens: int) -> str:
    """The most telling card that has no more tokens."""
    if not tables:
        return "There are no tables, no DataFrames and no files of data yet."
    for examples, types, columns in (
        (3, True, 1000),
        (1, True, 1000),
        (0, True, 1000),
        (0, False, 1000),
        (0, False, 8),
    ):
        text = _card(tables, examples, types, columns)
        if token_count(text) <= max_tokens:
            return text
    names = [table.name for table in tables]
    kept = len(names)
    while kept > 1 and token_count(_names(names, kept)) > max_tokens:
        kept = kept * 3 // 4
    return _names(names, kept)


def _names(names: Sequence[str], kept: int) -> str:
    left_out = f"; {len(names) - kept} more left out" if kept < len(names) else ""
    return f"{len(names)} tables, columns left out{left_out}: {', '.join(names[:kept])}"


def _card(tables: Iterable[TableCard], examples: int, types: bool, columns: int) -> str:
    lines = []
    for table in tables:
        lines.append(f"{table.name} ({table.kind}, {table.size})")
        if types:
            lines += [_line(column, examples) for column in table.columns]
        else:
            more = f", … {len(table.columns) - columns} more" if len(table.columns) > columns else ""
            lines.append(f"  {', '.join(column.name for column in table.columns[:columns])}{more}")
    if examples < 3:
        what = "types and values" if not types else "values" if examples == 0 else "most values"
        lines.append(f"({what} left out)")
    return "\n".join(lines)


def _line(column: ColumnCard, examples: int) -> str:
    told = " ".join(filter(None, (column.name, column.type, column.key)))
    values = ", ".join(map(_short, column.examples[:examples]))
    return f"  {told}: {values}" if values else f"  {told}"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _EXAMPLE_CHARS else text[: _EXAMPLE_CHARS - 1] + "…"


def examples_of(values: Iterable[object]) -> list[str]:
    """Different values of a column, as texts."""
    return list(dict.fromkeys(str(value) for value in values if value is not None))[:3]
