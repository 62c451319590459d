"""Days as bounds of moments: a day stands for its first moment, so that the rest of it falls on the other side."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from groundbox.check.sql.finding import Context, Finding, Rule
from groundbox.check.sql.source import Kind

CODES: Final[Mapping[str, str]] = {"sql.day_cut": "a day as the last one, where only its first moment is taken"}

_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


def day_cut(c: Context) -> Iterator[Finding]:
    """`x <= '2024-03-31'` or BETWEEN up to it, where x has later moments of that day."""
    for each in c.query.predicates:
        # A CAST, such as to DATE, may make a day of the moment.
        if each.operator != "<=" or each.through("Cast") or each.ref.declared.kind in (Kind.NUMBER, Kind.FLAG):
            continue
        first, after = each.values[0], _next_day(each.values[0])
        if after is None:
            continue
        name, table = c.probes.name(each.ref.column), c.probes.name(each.ref.table)
        rest = f"{name} > {c.probes.literal(first)} AND {name} < {c.probes.literal(after)}"
        count = c.probes.size_of(f"SELECT 1 FROM {table} WHERE {rest}", f"moments of {first} in {each.ref}")
        if count:
            rows = "1 row" if count == 1 else f"{count} rows"
            yield Finding(
                code="sql.day_cut",
                message=f"{c.query.sql(each.node)} ends at the first moment of {first}; "
                f"{rows} with a later one of that day {'is' if count == 1 else 'are'} left out",
                hint=f"Write {each.ref.column} < '{after}', if the whole day is meant.",
                evidence={"column": str(each.ref), "day": first, "rows": count},
            )


def _next_day(value: Any) -> str | None:
    """The day after, or None where the value is no day."""
    if not isinstance(value, str) or not _DAY.fullmatch(value):
        return None
    try:
        return (datetime.date.fromisoformat(value) + datetime.timedelta(days=1)).isoformat()
    except (ValueError, OverflowError):
        return None


RULES: tuple[Rule, ...] = (day_cut,)
