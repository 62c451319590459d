"""Days compared with moments: a day stands for its first moment, so that the rest of it is on the wrong side."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from groundbox.check.sql.finding import Context, Finding, Rule
from groundbox.check.sql.parts import Predicate, exp
from groundbox.check.sql.source import Kind

CODES: Final[Mapping[str, str]] = {"sql.day_cut": "a day is compared with moments, of which it is only the first"}

_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_LEFT_OUT: Final = "{rows} with a later one of that day {are} left out"
_IN_IT: Final = "{rows} with a later one of that day {are} in the result"
_EFFECTS: Final[Mapping[str, tuple[str, str]]] = {
    "<=": (f"ends at the first moment of {{day}}; {_LEFT_OUT}", "{column} < '{after}'"),
    ">": (f"begins behind the first moment of {{day}}; {_IN_IT}", "{column} >= '{after}'"),
    "!=": (f"leaves out the first moment of {{day}} only; {_IN_IT}", "{date} <> '{day}'"),
    "not in": (f"leaves out the first moment of {{day}} only; {_IN_IT}", "{date} NOT IN (…)"),
    "=": (f"finds the first moment of {{day}} only, and the column holds moments; {_LEFT_OUT}", "{date} = '{day}'"),
    "in": (f"finds the first moment of {{day}} only, and the column holds moments; {_LEFT_OUT}", "{date} IN (…)"),
}
"""What a comparison does to the day, and what to write instead."""
_ALIKE: Final[Mapping[str, str]] = {"like": "=", "not like": "!="}
"""LIKE without a wildcard."""


def day_cut(c: Context) -> Iterator[Finding]:
    """`x <= '2024-03-31'`, `x > …`, `x = …` or `x <> …`, where x has later moments of that day."""
    for each in c.query.predicates:
        operator = _ALIKE.get(each.operator, each.operator)
        if operator not in _EFFECTS:
            continue
        for day in each.values:
            count = moments(c, each, day)
            if not count:
                continue
            in_sqlite = c.query.dialect in ("sqlite", "mysql")
            column = each.ref.column
            words = {
                "day": day,
                "after": _next_day(day),
                "rows": "1 row" if count == 1 else f"{count} rows",
                "are": "is" if count == 1 else "are",
                "column": column,
                "date": f"date({column})" if in_sqlite else f"CAST({column} AS DATE)",
            }
            effect, instead = (text.format_map(words) for text in _EFFECTS[operator])
            none = operator in ("=", "in") and not _holds(c, each, day)
            yield Finding(
                code="sql.value_absent" if none else "sql.day_cut",
                message=f"{c.query.sql(each.node)} {effect}",
                hint=f"Write {instead}, if the whole day is meant.",
                evidence={"column": str(each.ref), "day": day, "rows": count},
            )


def moments(c: Context, each: Predicate, day: Any) -> int:
    """Return how many rows have a moment of a day behind its first one; 0 also if the value is not a day."""
    after = _next_day(day)
    if after is None or _is_turned(each) or each.ref.declared.kind in (Kind.NUMBER, Kind.FLAG):
        return 0
    name, table = c.probes.name(each.ref.column), c.probes.name(each.ref.table)
    rest = f"{name} > {c.probes.literal(day)} AND {name} < {c.probes.literal(after)}"
    return c.probes.size_of(f"SELECT 1 FROM {table} WHERE {rest}", f"moments of {day} in {each.ref}") or 0


def _holds(c: Context, each: Predicate, day: str) -> bool:
    """Return whether a row has the first moment of a day, or the day itself."""
    equal = f"{c.probes.name(each.ref.column)} = {c.probes.literal(day)}"
    rows = c.probes.size_of(f"SELECT 1 FROM {c.probes.name(each.ref.table)} WHERE {equal}", f"{day} in {each.ref}")
    return rows is None or rows > 0


def _is_turned(each: Predicate) -> bool:
    """Return whether a CAST stands around the column, which may make a day of the moment."""
    return any(cast.find(exp.Column) is not None for cast in each.node.find_all(exp.Cast))


def _next_day(value: Any) -> str | None:
    """The day after, or None where the value is no day."""
    if not isinstance(value, str) or not _DAY.fullmatch(value):
        return None
    try:
        return (datetime.date.fromisoformat(value) + datetime.timedelta(days=1)).isoformat()
    except (ValueError, OverflowError):
        return None


RULES: tuple[Rule, ...] = (day_cut,)
