"""Other queries for the same question: do their results agree?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from groundbox.check.sql.calibration import AGREEING, ALONE, DISAGREEING
from groundbox.check.sql.finding import Context, Finding
from groundbox.check.sql.parts import sqlglot_module
from groundbox.check.sql.query import NotTakenApart, parsed
from groundbox.check.sql.source import Rows


def compared(c: Context, candidates: Sequence[str]) -> tuple[str, list[Finding]]:
    """The situation that the results of the candidates make, and what they say about the query's own."""
    if c.rows is None:
        return ALONE, []
    ordered = is_ordered(c.query.tree)
    results: list[tuple[str, Rows]] = []
    failed = 0
    for candidate in candidates:
        try:
            tree = parsed(candidate, c.query.dialect)
        except NotTakenApart:
            failed += 1
            continue
        rows = c.budget.ask(candidate.strip().rstrip(";"), "the result of another candidate")
        if rows is None:
            failed += 1
        else:
            results.append((candidate, rows))
            ordered = ordered and is_ordered(tree)
    results = [(candidate, rows) for candidate, rows in results if rows.complete or c.rows.complete]
    own = signature(c.rows, ordered=ordered)
    votes = Counter([own, *(signature(rows, ordered=ordered) for _, rows in results)])
    others = [candidate for candidate, rows in results if signature(rows, ordered=ordered) != own]
    if not results:
        return ALONE, []
    if not others:
        return AGREEING, []
    most, count = votes.most_common(1)[0]
    outvoted = most != own and count > votes[own]
    found = Finding(
        code="sql.candidates_disagree",
        message=f"{len(others)} of {len(results)} other queries for the question give another result"
        + (f"; {count} of them give the same one" if outvoted else ""),
        hint="Find out which reading of the question each takes; the difference of their results shows it.",
        evidence={
            "candidates": len(results),
            "disagreeing": others[:3],
            "failed": failed,
            "rows": len(c.rows.rows),
            "their_rows": [len(rows.rows) for _, rows in results],
        },
    )
    return DISAGREEING, [found]


def is_ordered(tree: Any) -> bool:
    """Whether a query says in which order its rows come."""
    exp = sqlglot_module("expressions")
    return isinstance(tree, exp.Query) and tree.args.get("order") is not None


def signature(rows: Rows, *, ordered: bool) -> tuple[Any, ...]:
    """What two results must share to be the same: their rows, whatever the order of columns, and of rows unless asked.

    Columns are put into an order of their own by the values in them.
    """
    columns = list(zip(*rows.rows, strict=True)) if rows.rows else []
    plain = [[_plain(value) for value in column] for column in columns]
    keys = sorted(range(len(plain)), key=lambda i: sorted(plain[i]) if not ordered else plain[i])
    lines = list(zip(*(plain[i] for i in keys), strict=True)) if plain else []
    width = len(rows.columns)
    return (width if lines else 0, tuple(lines) if ordered else tuple(sorted(lines)))


def _plain(value: Any) -> tuple[str, str]:
    if isinstance(value, bool):
        value = int(value)
    if isinstance(value, (int, float)):
        return ("number", f"{round(float(value), 6):.6f}")
    return ("null", "") if value is None else ("text", str(value))
