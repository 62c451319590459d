"""Rules on the result: empty, NULL, or of another number of rows than the question asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from groundbox.check.sql.finding import Context, Finding, Rule
from groundbox.check.sql.parts import EXTREME_SUBQUERY, Edge, constant, exp
from groundbox.check.sql.question import COUNT, TOTAL, Question, name_stems
from groundbox.check.sql.source import Kind

_SUPERLATIVES = frozenset(
    {
        *("most", "least", "fewest", "largest", "smallest", "biggest", "highest", "lowest", "oldest", "youngest"),
        *("longest", "shortest", "best", "worst", "top", "maximum", "minimum", "greatest", "latest", "earliest"),
    }
)


def empty(c: Context) -> Iterator[Finding]:
    """No rows, nothing but NULL, or a count of 0: it may be so, and is worth a look."""
    rows = c.rows
    if rows is None:
        return
    values = [value for row in rows.rows for value in row]
    if not rows.rows:
        told = "the result has no rows"
    elif all(value is None for value in values):
        told = "the result is nothing but NULL"
    # COUNT of nothing.
    elif values == [0]:
        told = "the result is 0"
    else:
        return
    texts = any(isinstance(value, str) for each in c.query.predicates for value in each.values)
    # A join whose two columns share no value explains an empty result; it is asked for each join until one is found.
    edge = next((edge for edge in c.query.edges if _has_nothing_in_common(c, edge)), None)
    reason = f"{edge.left} = {edge.right}" if edge else ""
    # 'Oslo' and ' Oslo ' look alike wherever they are printed.
    if edge is not None and _are_texts(edge) and _in_common(c, edge, "TRIM({})"):
        yield Finding(
            code="sql.value_blanks",
            message=f"{told}: no row satisfies {reason}, and blanks around the values are all that differs",
            hint="Compare TRIM of both, if the blanks have no meaning.",
            evidence={"condition": reason},
        )
        return
    yield Finding(
        code="sql.empty_result" if texts and not rows.rows else "sql.nothing_found",
        message=told + (f": no row satisfies {reason}" if reason else ""),
        hint="That may be so. To be sure, try each condition alone, and see which one leaves nothing.",
        evidence={"rows": len(rows.rows), "condition": reason},
    )


def _has_nothing_in_common(c: Context, edge: Edge) -> bool:
    return edge.left.place != edge.right.place and not edge.negated and _in_common(c, edge, "{}") is False


def _in_common(c: Context, edge: Edge, form: str) -> bool | None:
    """Tell whether two columns share a value, in a form such as `TRIM({})`; None where that cannot be asked."""
    name, one, other = c.probes.name, edge.left, edge.right
    columns = [form.format(f"{alias}.{name(ref.column)}") for alias, ref in (("one", one), ("other", other))]
    sql = (
        f"SELECT 1 FROM {name(one.table)} AS one JOIN {name(other.table)} AS other "
        f"ON {columns[0]} = {columns[1]} LIMIT 1"
    )
    answer = c.budget.ask(sql, f"whether {one.table} and {other.table} have rows in common", max_rows=1)
    return None if answer is None else bool(answer.rows)


def _are_texts(edge: Edge) -> bool:
    return edge.left.declared.kind is edge.right.declared.kind is Kind.TEXT


def null_taken(c: Context) -> Iterator[Finding]:
    """A column of the result that is NULL throughout, or ORDER BY … LIMIT that takes rows because of NULL."""
    rows = c.rows
    if rows is not None and len(rows.rows) > 1:
        for position, name in enumerate(rows.columns):
            if all(row[position] is None for row in rows.rows):
                yield Finding(
                    code="sql.null_column",
                    message=f"the column {name} of the result is NULL in every row",
                    hint="Check where it comes from; a join may not find its rows.",
                    evidence={"column": name},
                )
    for select in c.query.selects:
        if not select.has("order", "limit") or not (select is c.query.top or select.place == "subquery"):
            continue
        key = select.node.args["order"].expressions[0].this
        ref = select.ref(key)
        limit = constant(select.node.args["limit"].expression)
        if ref is None or not isinstance(limit, int) or limit < 1 or select.has("group") or select.has("distinct"):
            continue
        tree = select.node.copy()
        # NULLs come first in SQLite and MySQL, last in PostgreSQL, so that the engine is asked.
        tree.set("expressions", [exp.alias_(key.copy(), "key_0", quoted=True)])
        answer = c.budget.ask(c.query.sql(tree), "NULL among the rows that LIMIT takes", max_rows=limit)
        if answer is not None and any(row[0] is None for row in answer.rows):
            yield Finding(
                code="sql.null_column",
                message=f"LIMIT {limit} takes rows whose {ref} is NULL, which comes first",
                hint=f"Add WHERE {ref.column} IS NOT NULL.",
                evidence={"column": str(ref), "limit": limit},
            )


def row_count(c: Context) -> Iterator[Finding]:
    """Another number of rows than the question asks for: one number, one extreme, the three oldest."""
    told = _other_count(c)
    if told is not None:
        yield Finding(
            code="sql.wording_differs",
            message=f"the question asks for {told[0]}; the result has {told[1]} rows",
            hint="See whether COUNT, SUM, LIMIT or a comparison with MAX or MIN is missing, or which row is meant.",
            evidence={"asked": told[0], "rows": told[1]},
        )


def _other_count(c: Context) -> tuple[str, int] | None:
    rows, question, top = c.rows, c.question, c.query.top
    if rows is None or question is None or top is None or not rows.rows:
        return None
    count = len(rows.rows)
    if question.how_many and not question.each and len(rows.columns) == 1 and count > 1:
        return "one number", count
    if question.top_n is not None:
        return (f"{question.top_n} rows", count) if count != question.top_n and not question.how_many else None
    # Not `the top rated movies`, where the column is called so.
    if count == 1 or not question.superlative or question.each or _of_a_name(c, question):
        return None
    if top.has("limit") or EXTREME_SUBQUERY.search(c.query.text) or question.says(TOTAL) or "all" in question.stem_set:
        return None
    # GROUP BY without LIMIT gives a row for each group where one extreme is asked for.
    if top.has("group") and top.aggregates() and not top.has("having"):
        return "one extreme, and each group gives one", count
    if question.says(COUNT) or top.aggregates() or re.search(r"\b(?:max|min)\s*\(", c.query.text, re.IGNORECASE):
        return None
    return "the most or the least of something", count


def _of_a_name(c: Context, question: Question) -> bool:
    """Tell whether a word such as "best" is part of a column's name."""
    words = {word for table in c.schema for column in table.columns for word in name_stems(column.name)}
    return any(word in words for word in question.stems if word in _SUPERLATIVES)


RULES: tuple[Rule, ...] = (empty, null_taken, row_count)
