"""Conditions that cannot mean what they say, by logic and keys."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any, Final

from groundbox.check.sql.finding import Context, Finding, Rule
from groundbox.check.sql.parts import COMPARISONS, Predicate, Select, exp, is_negated, own, repeaters
from groundbox.check.sql.question import EITHER, NEGATION

_OTHER_THAN: Final = re.compile(r"\bother than\b|\b(?:that|which|who) (?:are|is) not\b", re.IGNORECASE)
_FALSE: Final = frozenset({"f", "false", "n", "no", "0"})


def and_or(c: Context) -> Iterator[Finding]:
    """Conditions on one column that no row satisfies, or every row, or either row where the question says both."""
    for told, why, hint in (*_never(c), *_absent_with_value(c), *_always(c), *_null(c), *_either(c)):
        yield Finding(code="sql.and_or_not", message=f"{told}: {why}", hint=hint, evidence={"condition": told})


Told = tuple[str, str, str]
"""A condition, what is said of it, and a hint."""


def _never(c: Context) -> Iterator[Told]:
    """Two values of one column of one row."""
    for select in c.query.selects:
        # What stands beneath an OR need not hold.
        must = [each for each in select.predicates if not each.in_or]
        for one, other in itertools.combinations(must, 2):
            if one.ref == other.ref and _excluded(one, other):
                told = f"{c.query.sql(one.node)} AND {c.query.sql(other.node)}"
                yield told, "no row satisfies it", "Where two rows are meant, use INTERSECT or two EXISTS."


def _excluded(one: Predicate, other: Predicate) -> bool:
    if one.operator == other.operator == "=":
        # Folded: MySQL takes 'A' and 'a' for equal, and some columns elsewhere, too.
        return _folded(one.values[0]) != _folded(other.values[0])
    for low, high in ((one, other), (other, one)):
        if low.operator in (">", ">=") and high.operator in ("<", "<=", "="):
            a, b = low.values[0], high.values[0]
            if isinstance(a, (int, float)) and isinstance(b, (int, float)):
                return a > b or (a == b and not (low.operator == ">=" and high.operator in ("<=", "=")))
    return False


def _absent_with_value(c: Context) -> Iterator[Told]:
    """A row of an outer join that is to be absent, by IS NULL, and to hold a value."""
    for select in c.query.selects:
        outer = {join.alias_or_name for join in select.node.args.get("joins") or () if join.side in ("LEFT", "FULL")}
        must = [each for each in _of_where(select) if not each.in_or and each.ref.alias in outer]
        # `LEFT JOIN … WHERE o.id IS NULL` asks for rows without a partner; a second condition on o then contradicts it.
        absent = [each for each in must if each.operator == "is null" and _tells_absence(select, each)]
        for one, other in itertools.product(absent, must):
            if one.ref.alias == other.ref.alias and other.operator not in ("is null", "is not null"):
                told = f"{c.query.sql(one.node)} AND {c.query.sql(other.node)}"
                why = "no row satisfies it, since a row that is not there holds no value"
                yield told, why, "Move the condition on the value into ON, or ask with NOT EXISTS."


def _of_where(select: Select) -> list[Predicate]:
    if not select.has("where"):
        return []
    nodes = {id(node) for node in select.node.args["where"].walk()}
    return [each for each in select.predicates if id(each.node) in nodes]


def _tells_absence(select: Select, each: Predicate) -> bool:
    """Tell whether the column is NULL for no row that is there: it is joined by, or never NULL."""
    return any(each.ref == joined for joined, _ in select.joins()) or not each.ref.declared.nullable


def _always(c: Context) -> Iterator[Told]:
    """`x <> a OR x <> b`."""
    for select in c.query.selects:
        loose = [each for each in select.predicates if each.in_or and each.operator == "!="]
        for one, other in itertools.combinations(loose, 2):
            # Of one group they hold together: (x <> a AND …) OR (x <> b AND …) may well exclude rows.
            if one.ref == other.ref and one.group != other.group and _folded(one.values[0]) != _folded(other.values[0]):
                told = f"{c.query.sql(one.node)} OR {c.query.sql(other.node)}"
                yield told, "every row satisfies it", "Write AND, or NOT IN."


def _null(c: Context) -> Iterator[Told]:
    """Comparisons with NULL, which are never true, and NOT IN over a subquery that gives NULL."""
    for node in c.query.tree.find_all(*(getattr(exp, name) for name in COMPARISONS), exp.Like, exp.ILike, exp.Between):
        if any(_is_null(part) for part in (node.this, *map(node.args.get, ("expression", "low", "high")))):
            yield c.query.sql(node), "it is never true, whatever the column holds", "Write IS NULL or IS NOT NULL."
    for node in c.query.tree.find_all(exp.In):
        if is_negated(node) and any(map(_is_null, _listed(node))):
            why = "it is never true, because NULL is in the list: nobody knows whether NULL is another value"
            yield f"NOT {c.query.sql(node)}", why, "Leave NULL out of the list, and write IS NOT NULL if that is meant."
    for node in c.query.tree.find_all(exp.Case):
        if node.this is not None and any(_is_null(branch.this) for branch in node.args["ifs"]):
            why = "WHEN NULL is never taken, whatever the column holds"
            yield c.query.sql(node), why, "Write CASE WHEN … IS NULL THEN …"
    for edge in c.query.edges:
        if edge.kind != "subquery" or not edge.negated or not edge.right.declared.nullable:
            continue
        name = c.probes.name(edge.subquery.expressions[0].alias_or_name)
        # Asked of the data, because nullable columns without a NULL do no harm.
        sql = f"SELECT 1 FROM ({c.query.sql(edge.subquery)}) AS looked_up WHERE {name} IS NULL"
        answer = c.budget.ask(sql, "NULL in a subquery behind NOT IN", max_rows=1)
        if answer is not None and answer.rows:
            why = f"{edge.right} holds NULL, and then no row satisfies it"
            hint = f"Add WHERE {edge.right.column} IS NOT NULL to the subquery, or use NOT EXISTS."
            yield f"NOT IN (SELECT {edge.right.column} …)", why, hint


def _is_null(node: Any) -> bool:
    while isinstance(node, (exp.Paren, exp.Cast)):
        node = node.this
    return isinstance(node, exp.Null)


def _listed(node: Any) -> Iterator[Any]:
    """The values behind IN: those of a list, of VALUES, or of selects without a table."""
    yield from node.expressions
    query = node.args.get("query")
    for values in query.find_all(exp.Values) if query is not None else ():
        for row in values.expressions:
            yield from row.expressions if isinstance(row, exp.Tuple) else [row]
    for select in query.find_all(exp.Select) if query is not None else ():
        if select.args.get("from_") is None and select.args.get("from") is None:
            yield from (each.unalias() for each in select.expressions)


def _either(c: Context) -> Iterator[Told]:
    """ "A and B" of one thing, where the query takes rows of either."""
    # A question that says `or` means either.
    if c.question is None or c.question.says(EITHER):
        return
    for select in c.query.selects:
        summed = any(isinstance(each, (exp.Sum, exp.Avg, exp.Min, exp.Max)) for each in select.aggregates())
        # `the average age of cats and dogs` is one over both.
        if summed or select.has("group", "having"):
            continue
        for one, values in _alternatives(select):
            if _joined_by_and(c.question.text.casefold(), *values) and not _names_what_is_shown(c, select, one):
                why = "the question joins these values by 'and'; a row that has either is enough here"
                told = f"{one.ref}: {values[0]}, {values[1]}"
                yield told, why, "For what has the one and the other use INTERSECT, or two EXISTS."
                break


def _alternatives(select: Select) -> Iterator[tuple[Predicate, tuple[Any, Any]]]:
    """Two values of one column, either of which is enough: `x = a OR x = b`, `x IN (a, b)`, or LIKE twice."""
    for one, other in itertools.combinations(select.predicates, 2):
        if one.ref != other.ref or not one.values or not other.values:
            continue
        # `before 1960 and after 1980`.
        opposite = {one.operator[0], other.operator[0]} == {"<", ">"}
        apart = one.in_or and other.in_or and one.group != other.group
        # LIKE '%a%' AND LIKE '%b%' of one column.
        likes = not one.in_or and not other.in_or and one.operator == "like"
        if (one.operator == other.operator or opposite) and (apart or likes):
            yield one, (one.values[0], other.values[0])
    for each in select.predicates:
        if each.operator == "in" and len(each.values) == 2:
            yield each, (each.values[0], each.values[1])


def _names_what_is_shown(c: Context, select: Select, told: Predicate) -> bool:
    """Tell whether a row that is shown has one value only, as in "the ages of Ada and Alan": then either is right.

    A bound names no row; there it is what is shown that must tell rows apart.
    """
    columns = select.shown_columns()
    if {column.table for column in columns} != {told.ref.alias}:
        return False
    if told.operator[0] not in "<>":
        return c.probes.repeats(told.ref.table, [told.ref.column]) is False
    return c.probes.repeats(told.ref.table, list(dict.fromkeys(column.name for column in columns))) is False


def _joined_by_and(text: str, one: object, other: object) -> bool:
    a, b = (re.escape(str(value).strip("%").casefold()) for value in (one, other))
    if not a or not b:
        return False
    # At most sixty characters to either side of `and`, without an `or`: farther apart they belong to two sentences.
    between = r"(?:(?!\bor\b).){0,60}\band\b(?:(?!\bor\b).){0,60}"
    return re.search(rf"{a}\b{between}\b{b}|{b}\b{between}\b{a}", text) is not None and f"between {one}" not in text


def _folded(value: object) -> object:
    return value.casefold() if isinstance(value, str) else value


def negation_by_row(c: Context) -> Iterator[Finding]:
    """`<>` on a row of many: what has one such row and another row stays in."""
    # `countries other than France` is asked of rows and means rows.
    if c.question is not None and c.question.says(_OTHER_THAN):
        return
    negated = c.question is not None and c.question.says(NEGATION)
    for select in c.query.selects:
        for each in select.predicates:
            # `is_member = 'F'` is a negation as well.
            false = negated and each.operator == "=" and str(each.values[0]).casefold() in _FALSE
            if (each.operator not in ("!=", "not in", "not like") and not false) or each.ref.alias not in select.tables:
                continue
            refs = map(select.ref, select.shown_columns())
            many = _many(select, each.ref.alias, {ref.alias for ref in refs if ref is not None})
            if many:
                yield _by_row(c.query.sql(each.node), each.ref.table, many)
        for edge in select.edges:
            alias = edge.left.alias
            if edge.kind == "subquery" and edge.negated and len(select.sources) == 1 and alias in select.tables:
                many = _many(select, alias, set())
                if many and edge.left.place[1] not in many:
                    yield _by_row(f"{edge.left.column} NOT IN (…)", edge.left.table, many)


def _by_row(told: str, table: str, many: str) -> Finding:
    return Finding(
        code="sql.and_or_not",
        message=f"{told} looks at single rows of {table}: {many} that has such a row and another one stays in",
        hint="Ask what has no such row: NOT IN (SELECT …), NOT EXISTS or EXCEPT.",
        evidence={"condition": told},
    )


def _many(select: Select, alias: str, shown: set[str]) -> str:
    """Return what is shown while several rows of `alias` belong to it, or ""."""
    # In the order of FROM: a set of texts has another order in each process.
    for other, owner in select.tables.items():
        if other in shown and other != alias and alias in repeaters(select, other):
            return f"a row of {owner.name}"
    columns = [
        column
        for projection in select.projections
        if isinstance(projection, exp.Column)
        or (isinstance(projection, exp.Count) and isinstance(projection.this, exp.Distinct))
        for column in own(projection, exp.Column)
    ]
    refs = [select.ref(column) for column in columns]
    if len(select.sources) == 1 and select.place != "subquery" and refs and all(refs):
        table = select.tables[alias]
        names = {ref.place[1] for ref in refs if ref}
        if names <= table.foreign_columns and not table.is_key(names):
            return f"a {', '.join(sorted(names))}"
    return ""


RULES: tuple[Rule, ...] = (and_or, negation_by_row)
