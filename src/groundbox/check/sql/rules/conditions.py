"""Conditions that cannot mean what they say, by types, keys and logic alone."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any, Final

from groundbox.check.sql.finding import Context, Finding, Rule
from groundbox.check.sql.grain import repeaters
from groundbox.check.sql.parts import Predicate, Select, own, resolve, sqlglot_module
from groundbox.check.sql.schema import Kind

_NUMERIC: Final = re.compile(r"\s*-?\d+(?:\.\d+)?\s*")
_OTHER_THAN: Final = re.compile(r"\bother than\b|\b(?:that|which|who) (?:are|is) not\b", re.IGNORECASE)
_FALSE: Final = frozenset({"f", "false", "n", "no", "0"})
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}|\d{4}/\d{2}/\d{2}")


def equals_null(c: Context) -> Iterator[Finding]:
    """`= NULL`, which is never true."""
    exp = sqlglot_module("expressions")
    for node in c.query.tree.find_all(exp.EQ, exp.NEQ):
        if isinstance(node.left, exp.Null) or isinstance(node.right, exp.Null):
            yield Finding(
                code="sql.equals_null",
                message=f"{c.query.sql(node)} is never true, whatever the column holds",
                hint="Write IS NULL or IS NOT NULL.",
                evidence={"condition": c.query.sql(node)},
            )


def contradiction(c: Context) -> Iterator[Finding]:
    """Conditions on one column of one row that cannot hold together."""
    for select in c.query.selects:
        must = [each for each in select.predicates if not each.in_or]
        for one, other in itertools.combinations(must, 2):
            if one.ref == other.ref and _excluded(one, other):
                told = f"{c.query.sql(one.node)} AND {c.query.sql(other.node)}"
                yield Finding(
                    code="sql.contradiction",
                    message=f"no row satisfies {told}",
                    hint="Where two rows are meant, ask for both with INTERSECT, or with two EXISTS.",
                    evidence={"condition": told},
                )


def null_and_value(c: Context) -> Iterator[Finding]:
    """A row of an outer join that is to be absent, by IS NULL, and to hold a value."""
    for select in c.query.selects:
        outer = {join.alias_or_name for join in select.node.args.get("joins") or () if join.side in ("LEFT", "FULL")}
        must = [each for each in _of_where(select) if not each.in_or and each.ref.alias in outer]
        absent = [each for each in must if each.operator == "is null" and _tells_absence(select, each)]
        for one, other in itertools.product(absent, must):
            if one.ref.alias == other.ref.alias and other.operator not in ("is null", "is not null"):
                told = f"{c.query.sql(one.node)} AND {c.query.sql(other.node)}"
                yield Finding(
                    code="sql.contradiction",
                    message=f"no row satisfies {told}: a row that is not there holds no value",
                    hint="Move the condition on the value into ON, or ask with NOT EXISTS.",
                    evidence={"condition": told},
                )


def _of_where(select: Select) -> list[Predicate]:
    if not select.has("where"):
        return []
    nodes = {id(node) for node in select.node.args["where"].walk()}
    return [each for each in select.predicates if id(each.node) in nodes]


def _tells_absence(select: Select, each: Predicate) -> bool:
    """Whether the column is NULL for no row that is there: it is joined by, or never NULL."""
    joined = {ref for edge in select.edges if edge.kind == "join" for ref in (edge.left, edge.right)}
    return each.ref in joined or not each.column.nullable


def _excluded(one: Predicate, other: Predicate) -> bool:
    if one.operator == other.operator == "=":
        return _folded(one.values[0]) != _folded(other.values[0])
    for low, high in ((one, other), (other, one)):
        if low.operator in (">", ">=") and high.operator in ("<", "<=", "="):
            a, b = low.values[0], high.values[0]
            if isinstance(a, (int, float)) and isinstance(b, (int, float)):
                return a > b or (a == b and not (low.operator == ">=" and high.operator in ("<=", "=")))
    return False


def always_true(c: Context) -> Iterator[Finding]:
    """`x <> a OR x <> b`, which every row satisfies."""
    for select in c.query.selects:
        loose = [each for each in select.predicates if each.in_or and each.operator == "!="]
        for one, other in itertools.combinations(loose, 2):
            if one.ref == other.ref and one.group != other.group and _folded(one.values[0]) != _folded(other.values[0]):
                told = f"{c.query.sql(one.node)} OR {c.query.sql(other.node)}"
                yield Finding(
                    code="sql.always_true",
                    message=f"every row satisfies {told}",
                    hint="Write AND, or NOT IN.",
                    evidence={"condition": told},
                )


def and_within_or(c: Context) -> Iterator[Finding]:
    """AND and OR without parentheses."""
    exp = sqlglot_module("expressions")
    for node in c.query.tree.find_all(exp.Or):
        sides = [side for side in (node.left, node.right) if isinstance(side, exp.And)]
        if sides and not isinstance(node.parent, exp.Paren):
            yield Finding(
                code="sql.and_within_or",
                message=f"AND binds before OR in {c.query.sql(node)}",
                hint="Put parentheses around what belongs together.",
                evidence={"condition": c.query.sql(node)},
            )
            return


def number_and_text(c: Context) -> Iterator[Finding]:
    """A column of numbers compared with a text, or a column of texts with a number."""
    for each in c.query.predicates:
        if each.operator in ("like", "not like", "is null", "is not null") or each.through("Cast"):
            continue
        texts = [value for value in each.values if isinstance(value, str)]
        numbers = [value for value in each.values if isinstance(value, (int, float)) and not isinstance(value, bool)]
        told = c.query.sql(each.node)
        if each.column.kind is Kind.NUMBER and any(not _NUMERIC.fullmatch(text) for text in texts):
            yield Finding(
                code="sql.number_with_text",
                message=f"{told} compares a column of type {each.column.type} with a text",
                hint="Compare with a number, or with the column that holds such texts.",
                evidence={"condition": told, "type": each.column.type},
            )
        elif each.column.kind is Kind.TEXT and numbers:
            ordered = each.operator in ("<", "<=", ">", ">=")
            if _compares_alike(c, each, numbers, ordered=ordered):
                continue
            yield Finding(
                code="sql.text_order" if ordered else "sql.text_with_number",
                message=f"{told} compares a column of type {each.column.type} with a number"
                + (": texts are ordered letter by letter, '9' after '10'" if ordered else ""),
                hint=f"CAST({each.ref.column} AS REAL), or compare with a text.",
                evidence={"condition": told, "type": each.column.type},
            )


def _compares_alike(c: Context, each: Predicate, numbers: list[int | float], *, ordered: bool) -> bool:
    """Whether the texts are such that a number is compared with them as it should be: held, or years and their like."""
    if not ordered:
        held = c.probes.holds(each.ref.table, each.ref.column, [f"{number:g}" for number in numbers])
        return held is not None and held[0]
    values = [str(value) for value in c.probes.values(each.ref.table, each.ref.column) if value not in (None, "")]
    lengths = {len(value) for value in [*values, *(str(number) for number in numbers)]}
    return bool(values) and all(value.isdigit() for value in values) and len(lengths) == 1


def order_of_texts(c: Context) -> Iterator[Finding]:
    """ORDER BY, MIN or MAX of a column of texts that holds numbers."""
    exp = sqlglot_module("expressions")
    for select in c.query.selects:
        nodes = [*own(select.node, (exp.Min, exp.Max, exp.Sum, exp.Avg))]
        if select.has("order"):
            nodes += select.node.args["order"].expressions
        for node in nodes:
            inner = node.this
            ref = resolve(inner, select.scope, c.schema) if isinstance(inner, exp.Column) else None
            table = c.schema.table(ref.table) if ref else None
            column = table.column(ref.column) if ref and table else None
            if ref is None or column is None or column.kind is not Kind.TEXT:
                continue
            values = [value for value in c.probes.values(ref.table, ref.column) if value not in (None, "")]
            numeric = sum(1 for value in values if isinstance(value, (int, float)) or _NUMERIC.fullmatch(str(value)))
            lengths = {len(str(value).split(".")[0]) for value in values}
            if values and numeric >= 0.9 * len(values) and len(lengths) > 1:
                yield Finding(
                    code="sql.numbers_as_texts",
                    message=f"{ref.table}.{ref.column} holds numbers as texts, which are ordered letter by "
                    "letter, '9' after '10'",
                    hint=f"CAST({ref.column} AS REAL) before ordering or aggregating.",
                    evidence={"column": f"{ref.table}.{ref.column}", "examples": [str(v) for v in values[:3]]},
                )


def not_in_with_null(c: Context) -> Iterator[Finding]:
    """NOT IN over a subquery that gives NULL, which no row satisfies."""
    for edge in c.query.edges:
        if edge.kind != "subquery" or not edge.negated:
            continue
        table = c.schema.table(edge.right.table)
        column = table.column(edge.right.column) if table else None
        if table and column and column.nullable and _gives_null(c, edge.subquery):
            yield Finding(
                code="sql.not_in_with_null",
                message=f"NOT IN over {table.name}.{column.name}, which holds NULL, may satisfy no row at all",
                hint=f"Add WHERE {column.name} IS NOT NULL to the subquery, or use NOT EXISTS.",
                evidence={"column": f"{table.name}.{column.name}"},
            )


def _gives_null(c: Context, subquery: Any) -> bool:
    name = c.probes.name(subquery.expressions[0].alias_or_name)
    sql = f"SELECT 1 FROM ({c.query.sql(subquery)}) AS looked_up WHERE {name} IS NULL"
    answer = c.budget.ask(sql, "NULL in a subquery behind NOT IN", max_rows=1)
    return answer is not None and bool(answer.rows)


def negation_by_row(c: Context) -> Iterator[Finding]:
    """`<>` on a row of many: what has one such row and another row stays in."""
    exp = sqlglot_module("expressions")
    if c.question is not None and c.question.says(_OTHER_THAN):
        return
    negated = c.question is not None and c.question.negated
    for select in c.query.selects:
        for each in select.predicates:
            false = negated and each.operator == "=" and str(each.values[0]).casefold() in _FALSE
            if (each.operator not in ("!=", "not in", "not like") and not false) or each.ref.alias not in select.tables:
                continue
            others = {
                ref.alias
                for node in select.node.expressions
                for column in own(node, exp.Column)
                if (ref := resolve(column, select.scope, c.schema)) is not None
            }
            many = _many(select, each.ref.alias, others, c)
            if many:
                told = c.query.sql(each.node)
                yield _by_row(told, each.ref.table, many)
        for edge in select.edges:
            if (
                edge.kind == "subquery"
                and edge.negated
                and len(select.sources) == 1
                and edge.left.alias in select.tables
            ):
                many = _many(select, edge.left.alias, set(), c)
                if many and edge.left.place[1] not in many:
                    yield _by_row(f"{edge.left.column} NOT IN (…)", edge.left.table, many)


def _by_row(told: str, table: str, many: str) -> Finding:
    return Finding(
        code="sql.negation_by_row",
        message=f"{told} looks at single rows of {table}: {many} that has such a row and another one stays in",
        hint="Ask what has no such row: NOT IN (SELECT …), NOT EXISTS or EXCEPT.",
        evidence={"condition": told},
    )


def _many(select: Select, alias: str, shown: set[str], c: Context) -> str:
    """What is shown while several rows of `alias` belong to it, or ""."""
    for other in shown - {alias}:
        if other in select.tables and alias in repeaters(select, other):
            return f"a row of {select.tables[other].name}"
    exp = sqlglot_module("expressions")
    columns = [
        column
        for projection in select.projections
        if isinstance(projection, exp.Column)
        or (isinstance(projection, exp.Count) and isinstance(projection.this, exp.Distinct))
        for column in own(projection, exp.Column)
    ]
    refs = [resolve(column, select.scope, c.schema) for column in columns]
    if len(select.sources) == 1 and refs and all(refs):
        table = select.tables[alias]
        foreign = {name.casefold() for key in table.foreign for name in key.columns}
        names = {ref.place[1] for ref in refs if ref}
        if names <= foreign and not table.is_key(names):
            return f"a {', '.join(sorted(names))}"
    return ""


def integer_division(c: Context) -> Iterator[Finding]:
    """A whole number divided by a whole number, where the engine drops what is behind the point."""
    exp = sqlglot_module("expressions")
    if c.query.dialect in ("duckdb", "mysql"):
        return
    for select in c.query.selects:
        for node in own(select.node, exp.Div):
            if all(_is_whole(c, select, side) for side in (node.left, node.right)):
                yield Finding(
                    code="sql.integer_division",
                    message=f"{c.query.sql(node)} divides whole numbers: what is behind the point is dropped",
                    hint="Multiply one side by 1.0.",
                    evidence={"expression": c.query.sql(node)},
                )


def _is_whole(c: Context, select: Select, node: object) -> bool:
    exp = sqlglot_module("expressions")
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Count):
        return True
    if isinstance(node, exp.Sum):
        return _is_whole(c, select, node.this)
    if isinstance(node, exp.Literal):
        return not node.is_string and "." not in node.this
    if isinstance(node, exp.Column):
        ref = resolve(node, select.scope, c.schema)
        table = c.schema.table(ref.table) if ref else None
        column = table.column(ref.column) if ref and table else None
        return column is not None and "INT" in column.type.upper()
    return False


def date_texts(c: Context) -> Iterator[Finding]:
    """A date compared with a column of texts that holds dates in another form."""
    for each in c.query.predicates:
        texts = [value for value in each.values if isinstance(value, str) and _DATE.match(value)]
        if (
            not texts
            or each.column.kind is Kind.NUMBER
            or each.operator in ("like", "not like")
            or each.through("Cast")
        ):
            continue
        held = [value for value in c.probes.values(each.ref.table, each.ref.column) if isinstance(value, str) and value]
        if held and not any(_DATE.match(value) for value in held):
            yield Finding(
                code="sql.date_form",
                message=f"{each.ref.table}.{each.ref.column} holds dates as {held[0]!r}, which {texts[0]!r} is "
                "not compared with rightly",
                hint="Write the date as the column does, or turn both into one form.",
                evidence={"column": f"{each.ref.table}.{each.ref.column}", "example": held[0]},
            )


def limit_without_order(c: Context) -> Iterator[Finding]:
    """LIMIT without ORDER BY: which rows it leaves is not said."""
    for select in c.query.selects:
        if select.has("limit") and not select.has("order") and select.place != "derived":
            yield Finding(
                code="sql.limit_without_order",
                message="LIMIT without ORDER BY: the engine may give any rows",
                hint="Say which rows come first.",
            )


def having_without_group(c: Context) -> Iterator[Finding]:
    """HAVING without GROUP BY."""
    for select in c.query.selects:
        if select.has("having") and not select.has("group"):
            yield Finding(
                code="sql.having_without_group",
                message="HAVING without GROUP BY looks at all rows as one group",
                hint="Write WHERE, or say by what to group.",
            )


def _folded(value: object) -> object:
    return value.casefold() if isinstance(value, str) else value


RULES: tuple[Rule, ...] = (
    equals_null,
    contradiction,
    null_and_value,
    always_true,
    and_within_or,
    number_and_text,
    order_of_texts,
    not_in_with_null,
    negation_by_row,
    integer_division,
    date_texts,
    limit_without_order,
    having_without_group,
)
