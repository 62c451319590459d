"""Aggregates that come out otherwise when they are worked out from the rows of the table, by what these mean."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from groundbox.check.sql.finding import Context, Finding, Rule
from groundbox.check.sql.meanings import number
from groundbox.check.sql.parts import Select, own, sqlglot_module
from groundbox.check.sql.recomputing import NotSimple, Recomputed
from groundbox.check.sql.schema import Kind, Table

_ENDED: Final = ("joins", "laterals", "windows", "qualify", "distinct", "offset")


def recomputed(c: Context) -> Iterator[Finding]:
    """COUNT, SUM, AVG, MIN or MAX of one table that differs from what its rows come to."""
    top = c.query.top
    if top is None or c.rows is None or not c.rows.rows or c.is_slow or not _is_simple(c, top):
        return
    table = next(iter(top.tables.values()))
    columns = _columns(top, table)
    if not columns or not _may_differ(c, top, table):
        return
    names = ", ".join(c.probes.name(name) for name in columns)
    sql = f"SELECT {names} FROM {c.probes.name(table.name)}"
    answer = c.budget.ask(sql, f"rows of {table.name}, to work the result out")
    if answer is None or not answer.complete:
        return
    try:
        worked = Recomputed(top.node, [name.casefold() for name in columns], answer.rows)
        found = _first_difference(c, top, worked)
    except (NotSimple, ArithmeticError):
        return
    meant = _meant(c, worked, table)
    if found is None or not (meant or worked.divided):
        return
    node, value, should = found
    told = c.query.sql(node.unalias())
    yield Finding(
        code="sql.recomputed_differs",
        message=f"{told} is {value}; worked out from the rows of {table.name} it is {should}: {_why(meant)}",
        hint=_how(meant),
        evidence={"expression": told, "value": value, "recomputed": should, "meant": meant},
    )


def _is_simple(c: Context, top: Select) -> bool:
    exp = sqlglot_module("expressions")
    node = top.node
    if node is not c.query.qualified or len(top.tables) != 1 or len(top.sources) != 1 or not top.aggregates():
        return False
    return not any(node.args.get(name) for name in _ENDED) and len(list(node.find_all(exp.Query))) == 1


def _columns(top: Select, table: Table) -> list[str]:
    """The columns that it names, as the schema spells them; [] when it names something else."""
    exp = sqlglot_module("expressions")
    found = [table.column(column.name) for column in _parts(top, exp.Column)]
    return [] if None in found else list(dict.fromkeys(column.name for column in found if column is not None))


def _parts(top: Select, kind: Any) -> list[Any]:
    """Nodes in projections and conditions, not in HAVING and ORDER BY, which choose among what is shown."""
    where, group = top.node.args.get("where"), top.node.args.get("group")
    roots = [*top.node.expressions, *(part for part in (where, group) if part is not None)]
    return [node for root in roots for node in root.find_all(kind)]


def _may_differ(c: Context, top: Select, table: Table) -> bool:
    """Whether whole numbers are divided, or a column that may hold texts is added up or ordered."""
    exp = sqlglot_module("expressions")
    if any(own(top.node, exp.Div)):
        return True
    kinds = (exp.Sum, exp.Avg, exp.Min, exp.Max, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between)
    for column in (column for node in _parts(top, kinds) for column in node.find_all(exp.Column)):
        known = table.column(column.name)
        if known is None or (known.kind in (Kind.TIME, Kind.FLAG) and c.query.dialect != "sqlite"):
            continue
        if known.kind is not Kind.NUMBER or (
            c.query.dialect == "sqlite" and c.probes.holds_text(table.name, known.name)
        ):
            return True
    return False


def _first_difference(c: Context, top: Select, worked: Recomputed) -> tuple[Any, Any, Any] | None:
    exp = sqlglot_module("expressions")
    assert c.rows is not None
    group = top.node.args.get("group")
    shown = [each.unalias() for each in top.node.expressions]
    places = []
    for node in group.expressions if group is not None else ():
        same = [i for i, each in enumerate(shown) if isinstance(each, exp.Column) and each.name == node.name]
        if not same:
            return None
        places.append(same[0])
    values = worked.values()
    for row in c.rows.rows:
        if len(row) != len(shown):
            return None
        should = values.get(tuple(row[i] for i in places))
        for node, one, other in zip(top.node.expressions, row, should or (), strict=False):
            if not isinstance(node.unalias(), exp.Column) and not _alike(worked, node, one, other):
                return node, one, other if isinstance(other, (int, float)) or other is None else str(other)
    return None


def _alike(worked: Recomputed, node: Any, value: Any, should: Any) -> bool:
    """Whether they are the same, but for rounding."""
    exp = sqlglot_module("expressions")
    if value is None or should is None:
        return value is should
    if isinstance(should, (int, float)):
        told = number(value)
        rounded = [10.0 ** -_digits(each) for each in node.find_all(exp.Round)]
        return told is not None and math.isclose(told, should, rel_tol=1e-6, abs_tol=max([1e-4, *rounded]))
    column = next((each.name.casefold() for each in node.find_all(exp.Column)), "")
    return bool(worked.read(column, value) == should)


def _digits(node: Any) -> int:
    decimals = node.args.get("decimals")
    return int(decimals.this) if decimals is not None and str(decimals.this).isdecimal() else 0


def _meant(c: Context, worked: Recomputed, table: Table) -> dict[str, str]:
    """Columns of texts to what these mean; numbers and days of servers come as texts, and are none there."""
    kept = {
        column.name: worked.meant.get(column.name.casefold(), "")
        for column in table.columns
        if c.query.dialect == "sqlite" or column.kind in (Kind.TEXT, Kind.OTHER)
    }
    return {name: sort for name, sort in kept.items() if sort}


def _why(meant: dict[str, str]) -> str:
    if meant:
        told = " and ".join(f"{name} holds {sort} as texts" for name, sort in meant.items())
        return f"{told}, which are compared letter by letter and added up as far as they begin with digits"
    return "the division of whole numbers drops what is behind the point"


def _how(meant: dict[str, str]) -> str:
    if "days" in meant.values():
        return "Turn the texts into dates that are written year first before they are compared."
    if meant:
        return f"Turn {next(iter(meant))} into numbers first: CAST, after taking out signs and blanks."
    return "Multiply one side by 1.0."


RULES: tuple[Rule, ...] = (recomputed,)
