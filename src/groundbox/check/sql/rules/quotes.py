"""Texts in the place of a column: a misspelt name in double quotes, which SQLite takes for a text, or single quotes.

A text in double quotes may be meant as one, as in `WHERE city = "Paris"`. So what counts is where it stands: where
only a column makes sense, or where it resembles the name of a column and is no value of the column beside it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from groundbox.check.sql.finding import Context, Finding, Rule
from groundbox.check.sql.parts import Select, exp, is_one_of, own
from groundbox.check.sql.query import WAS_A_NAME

CODES: Final[Mapping[str, str]] = {"sql.quoted_text": "a text in quotes stands where a column is meant"}
_NAME: Final = re.compile(r"[^\W\d]\w*")
_MOST_CHARS: Final = 100
_COMPARISONS: Final = ("EQ", "NEQ", "GT", "GTE", "LT", "LTE", "Like", "ILike", "Is")


def quoted_text(c: Context) -> Iterator[Finding]:
    """`"refered_by" IS NOT NULL`, `ORDER BY 'age'`, `SUM("amout")`."""
    for select in c.query.selects:
        names = [column.name for table in select.tables.values() for column in table.columns]
        if not names:
            continue
        for text in own(select.node, exp.Literal):
            if not text.is_string or not text.this or len(text.this) > _MOST_CHARS:
                continue
            near = _near(text.this, names)
            if _stands_for_a_column(c, select, text, near):
                yield _finding(text, near)


def _finding(text: Any, near: str) -> Finding:
    otherwise = "Write the name of a column, without single quotes."
    if text.meta.get(WAS_A_NAME):
        otherwise = "Write the name of a column of these tables."
        why = f'"{text.this}" is not a column here, and SQLite takes it for a text'
    else:
        why = f"'{text.this}' is a text and not a column"
    return Finding(
        code="sql.quoted_text",
        message=f"{why}, which is the same in every row",
        hint=f"Write {near}, if that column is meant." if near else otherwise,
        evidence={"text": text.this, "column": near},
    )


def _near(text: str, names: list[str]) -> str:
    folded = {name.casefold(): name for name in names}
    close = difflib.get_close_matches(text.casefold(), folded, 1, 0.75)
    return folded[close[0]] if close else ""


def _stands_for_a_column(c: Context, select: Select, text: Any, near: str) -> bool:
    was_a_name, is_the_name = bool(text.meta.get(WAS_A_NAME)), near.casefold() == text.this.casefold()
    value, node, holder = text.this, text, text.parent
    while isinstance(holder, exp.Paren):
        node, holder = holder, holder.parent
    if isinstance(holder, (exp.Ordered, exp.Group, exp.Sum, exp.Avg)):
        return True
    if isinstance(holder, exp.Distinct) and isinstance(holder.parent, exp.AggFunc):
        return True
    # A text in single quotes is meant as one, unless it is spelled as a column is.
    likely = was_a_name or is_the_name
    if isinstance(holder, (exp.Min, exp.Max, exp.Count, exp.In, exp.Between, exp.Case)) and node.arg_key == "this":
        return likely
    if isinstance(holder, exp.Select) and node.arg_key == "expressions":
        return likely
    if isinstance(holder, exp.Alias) and isinstance(holder.parent, exp.Select):
        # SELECT "total" AS kind names a row; qualifying gives each projection an alias, its own text.
        return likely and (bool(near) or holder.alias.casefold() == value.casefold())
    if is_one_of(holder, _COMPARISONS):
        other = holder.expression if node.arg_key == "this" else holder.this
        if not isinstance(other, exp.Query) and next(own(other, exp.Column), None) is None:
            return likely and bool(node.arg_key == "this")
        return was_a_name and bool(near) and not _is_held(c, select, other, value)
    return was_a_name and bool(near) and _NAME.fullmatch(value) is not None


def _is_held(c: Context, select: Select, column: Any, value: str) -> bool:
    """Return whether the column beside a text holds the text, or nobody knows."""
    ref = select.ref(column)
    held = c.probes.holds(ref.table, ref.column, value) if ref is not None else None
    return held is None or held[1]


RULES: tuple[Rule, ...] = (quoted_text,)
