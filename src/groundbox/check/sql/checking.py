"""`check_sql`: what speaks against a query that ran, each piece with its tier.

The query is taken apart with the schema of the live database, rules look at its parts, at its result and at answers
to small queries of their own, all within one budget, and every finding gets the tier that was measured for its code.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import logging
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from groundbox.check.sql.calibration import AGREEING, ALONE, DISAGREEING, NEVER_SEEN, table
from groundbox.check.sql.finding import Budget, Context, Finding
from groundbox.check.sql.opening import opened
from groundbox.check.sql.parts import exp
from groundbox.check.sql.query import NotTakenApart, Query, parsed
from groundbox.check.sql.question import Question
from groundbox.check.sql.rules import all_rules
from groundbox.check.sql.source import Database, Rows, Sourced
from groundbox.check.tiers import TIERS
from groundbox.errors import GroundboxError, InvalidArgument
from groundbox.execution import Warning


def compared(c: Context, candidates: Sequence[str]) -> tuple[str, list[Finding]]:
    """The situation that the results of the candidates make, and what they say about the query's own."""
    if c.rows is None:
        return ALONE, []
    # The order counts only where every query asks for one: a query without ORDER BY may give its rows in any.
    ordered = is_ordered(c.query.tree)
    results: list[tuple[str, Rows]] = []
    for candidate in candidates:
        with contextlib.suppress(NotTakenApart):
            tree = parsed(candidate, c.query.dialect)
            # Through the same budget, so that twenty candidates leave fewer questions to the rules and not more time.
            rows = c.budget.ask(candidate.strip().rstrip(";"), "the result of another candidate")
            if rows is not None:
                results.append((candidate, rows))
                ordered = ordered and is_ordered(tree)
    failed = len(candidates) - len(results)
    # Of two results that were both cut at `max_rows`, the rows that are here say nothing of those that are not.
    results = [(candidate, rows) for candidate, rows in results if rows.complete or c.rows.complete]
    own = signature(c.rows, ordered=ordered)
    theirs = [signature(rows, ordered=ordered) for _, rows in results]
    votes = Counter([own, *theirs])
    others = [candidate for (candidate, _), one in zip(results, theirs, strict=True) if one != own]
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
    """Tell whether a query says in which order its rows come."""
    return isinstance(tree, exp.Query) and tree.args.get("order") is not None


def signature(rows: Rows, *, ordered: bool) -> tuple[Any, ...]:
    """Return a key that is equal for equal results: rows, whatever the order of columns, and of rows unless asked.

    Columns are put into an order of their own by the values in them.
    """
    columns = [[_plain(value) for value in column] for column in zip(*rows.rows, strict=True)]
    # Columns are put in order by their contents, since their names differ from query to query. Without an order of
    # rows, by their sorted contents, which do not depend on it.
    columns.sort(key=lambda column: column if ordered else sorted(column))
    lines = list(zip(*columns, strict=True))
    # Two empty results are the same, whatever their columns.
    return (len(rows.columns) if lines else 0, tuple(lines) if ordered else tuple(sorted(lines)))


def _plain(value: Any) -> tuple[str, str]:
    # SQLite has no booleans and gives 1 where DuckDB gives true.
    if isinstance(value, bool):
        value = int(value)
    if isinstance(value, (int, float)):
        # Six digits: AVG and SUM / COUNT round differently behind them.
        return ("number", f"{round(float(value), 6):.6f}")
    return ("null", "") if value is None else ("text", str(value))


logger = logging.getLogger(__name__)
_MOST_OF_ONE_CODE: Final = 3
_MOST_QUESTION_CHARS: Final = 2000


def check_sql(
    sql: str,
    *,
    database: Any,
    question: str | None = None,
    candidates: Sequence[str] = (),
    max_queries: int = 60,
    wall_s: float = 5.0,
    max_rows: int = 5000,
) -> list[Warning]:
    """Evidence that a query which runs may be wrong all the same, the strongest first; [] when none was found.

    Nothing is written, whatever the query says, and no model is asked. A query that cannot be looked at gives a note.

    Args:
        database: A URL (`sqlite:///shop.db`, `duckdb:///…`, `postgresql://…`, `mysql://…`), a
            `groundbox.databases.database.Database`, or an object of `groundbox.check.sql.source.Database`.
            Files are opened in a sandbox; many checks of one file share it by means of `groundbox.check.sql.files`.
        question: What the query is to answer, in English; without it, rules that compare the two are left out.
        candidates: Other queries for the same question, whose results are compared.
        max_queries: How many queries are sent to the database, the query itself and the candidates among them.
        wall_s: For all of them together.
        max_rows: Of each.

    Raises:
        InvalidArgument: An argument cannot be meant; nothing was asked.
    """
    _check_arguments(sql, question, candidates, max_queries, wall_s, max_rows)
    # sqlglot comes with an extra; without it a check is a note and no failure of the run that it would look at.
    if importlib.util.find_spec("sqlglot") is None:
        return [_note("sql.not_checked", "sqlglot is not installed", "The extra `check` of groundbox brings it.")]
    try:
        with opened(database) as source:
            budget = Budget(source, max_queries=max_queries, wall_s=wall_s, max_rows=max_rows)
            return _ranked(look(sql, source, budget, question, candidates))
    # The caller's mistake, such as a URL of no database; all else that fails here is a note about the database.
    except InvalidArgument:
        raise
    except GroundboxError as error:
        return [_note("sql.not_checked", f"the query was not checked: {error}", "Mend that, and check again.")]


@dataclasses.dataclass(kw_only=True)
class Look:
    """Findings and notes of one query, before tiers are added.

    Attributes:
        notes: What could not be looked at.
        situation: Whether there were other candidates, and whether they agree (`calibration.SITUATIONS`).
    """

    findings: list[Finding] = dataclasses.field(default_factory=list)
    notes: list[Warning] = dataclasses.field(default_factory=list)
    situation: str = ALONE


def look(
    sql: str, source: Database, budget: Budget, question: str | None = None, candidates: Sequence[str] = ()
) -> Look:
    """Apply every rule; tiers come later."""
    seen = Look()
    schema = source.schema_for(sql) if isinstance(source, Sourced) else source.schema()
    if not len(schema):
        seen.notes.append(_note("sql.no_schema", "no table of the database can be seen", "Is it the right database?"))
    try:
        query = Query(sql, source.dialect, schema)
    except (NotTakenApart, RecursionError) as why:
        reason = str(why) if isinstance(why, NotTakenApart) else "it is nested too deep"
        seen.notes.append(_note("sql.not_looked_at", f"the query was not looked at: {reason}", "Look at it yourself."))
        return seen
    # The patterns of `Question` are not all linear in its text.
    asked = Question(question[:_MOST_QUESTION_CHARS]) if question else None
    context = Context(query=query, schema=schema, budget=budget, question=asked)
    # Asked before any rule is: the result is what most rules look at, and has to come out of the budget first.
    if context.rows is None and not budget.skipped:
        problem = "the query gives no rows here: it fails, or takes too long"
        seen.notes.append(_note("sql.does_not_run", problem, "Run it by itself."))
    seen.situation, found = compared(context, candidates)
    seen.findings += found
    for rule in all_rules():
        try:
            seen.findings += rule(context)
        except Exception as error:  # a parser of thirty dialects has trees that nobody has seen; the others go on
            logger.debug("rule %s failed", rule.__name__, exc_info=True)
            problem = f"the rule {rule.__name__} could not look at the query ({type(error).__name__})"
            seen.notes.append(_note("sql.rule_failed", problem, "The other rules have looked."))
    seen.findings = _explained(context, seen.findings)
    if budget.skipped:
        left = f"{', '.join(budget.skipped[:5])}{' and more' if len(budget.skipped) > 5 else ''}"
        problem = f"after {budget.asked} queries the budget of the check had ended; not looked at: {left}"
        seen.notes.append(_note("sql.budget_ended", problem, "Give max_queries or wall_s more."))
    return seen


def _explained(c: Context, findings: list[Finding]) -> list[Finding]:
    """Without what says nothing new: where blanks in the stored values leave nothing, that tells of nothing else."""
    blanks = [each for each in findings if each.code == "sql.value_blanks"]
    values = [value for row in c.rows.rows for value in row] if c.rows is not None else []
    return blanks if blanks and not any(values) else findings


def _ranked(seen: Look) -> list[Warning]:
    """With tiers, the strongest first, and no more than a few of each code."""
    counted = table(seen.situation)
    count: Counter[str] = Counter()
    warnings: list[tuple[int, float, Warning]] = []
    for each in seen.findings:
        count[each.code] += 1
        # A query with ten constants would otherwise fill an observation with one and the same advice.
        if count[each.code] > _MOST_OF_ONE_CODE:
            continue
        counts = counted.get(each.code, NEVER_SEEN)
        tier = counts.tier_of(each.code)
        evidence = {**each.evidence, "measured": {"queries": counts.queries, "wrong": counts.wrong}}
        warning = Warning(code=each.code, tier=tier, message=each.message, evidence=evidence, hint=each.hint)
        # Stable: what is alike in tier and precision stays in the order of the rules (`rules._ORDER`).
        warnings.append((TIERS.index(tier), -counts.lower, warning))
    return [warning for _, _, warning in sorted(warnings, key=lambda told: told[:2])] + seen.notes


def _note(code: str, message: str, hint: str) -> Warning:
    return Warning(code=code, tier="note", message=message, hint=hint)


def _check_arguments(
    sql: object, question: object, candidates: object, max_queries: object, wall_s: object, max_rows: object
) -> None:
    if not isinstance(sql, str):
        raise InvalidArgument("sql", f"must be a text, not {sql!r:.100}")
    if question is not None and not isinstance(question, str):
        raise InvalidArgument("question", f"must be a text or None, not {question!r:.100}")
    if (
        isinstance(candidates, str)
        or not isinstance(candidates, Sequence)
        or not all(isinstance(c, str) for c in candidates)
    ):
        raise InvalidArgument("candidates", "must be a list of texts")
    for name, value in (("max_queries", max_queries), ("max_rows", max_rows)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InvalidArgument(name, f"must be a whole number above 0, not {value!r:.100}")
    if isinstance(wall_s, bool) or not isinstance(wall_s, (int, float)) or not math.isfinite(wall_s) or wall_s <= 0:
        raise InvalidArgument("wall_s", f"must be a number of seconds above 0, not {wall_s!r:.100}")
