"""The same query over shadows of its tables, changed in a way that ought not to matter to its result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from groundbox.check.sql.finding import Context, Finding, Rule
from groundbox.check.sql.forms import aliases_in, both, conditions, copied, difference, other_rows, read_in, shadow
from groundbox.check.sql.parts import Select, resolve, sqlglot_module


def extreme_of_others(c: Context) -> Iterator[Finding]:
    """`x = (SELECT MAX(x) …)`, where one of the two looks at rows that the conditions of the other leave out.

    Without the rows that one of them leaves out, the result is another: the extreme is that of other rows than those
    it is compared with.
    """
    for outer, inner in _compared_with_extremes(c):
        for one, other in ((outer, inner), (inner, outer)):
            found = _without_excluded(c, one, other)
            if found is None:
                continue
            tree, told, table = found
            rows = other_rows(c, tree, f"the result without the rows of {table} that {told} leaves out")
            if rows is None:
                continue
            place = "the subquery" if other is inner else "the query around the subquery"
            yield Finding(
                code="sql.extreme_of_others",
                message=f"{place} also looks at rows of {table} that {told} leaves out: "
                + difference(c, rows, "without them"),
                hint="Write the condition in both, in the query and in its subquery, unless the extreme of other "
                "rows is meant.",
                evidence={"condition": told, **both(c, rows)},
            )
            return


def _compared_with_extremes(c: Context) -> Iterator[tuple[Select, Select]]:
    """Selects whose column is set equal to MIN or MAX of the same column in a subquery, and the subquery."""
    exp = sqlglot_module("expressions")
    for inner in c.query.selects:
        shown, holder = inner.projections, inner.node.parent
        if len(shown) != 1 or not isinstance(shown[0], (exp.Min, exp.Max)) or inner.has("group"):
            continue
        if (
            not isinstance(holder, exp.Subquery)
            or not isinstance(holder.parent, exp.EQ)
            or inner.scope.external_columns
        ):
            continue
        outer = next((each for each in c.query.selects if each.node is holder.find_ancestor(exp.Select)), None)
        compared = holder.parent.left if holder.parent.right is holder else holder.parent.right
        if outer is None or not isinstance(compared, exp.Column) or not isinstance(shown[0].this, exp.Column):
            continue
        one = resolve(compared, outer.scope, c.schema)
        other = resolve(shown[0].this, inner.scope, c.schema)
        if one is not None and other is not None and one.place == other.place:
            yield outer, inner


def _without_excluded(c: Context, one: Select, other: Select) -> tuple[Any, str, str] | None:
    """The tree in which `other` reads only the rows that conditions of `one` on the same table leave in."""
    if not all(each.tables and len(each.tables) == len(each.sources) for each in (one, other)):
        return None
    if any(join.side for join in one.node.args.get("joins") or ()):
        return None  # a condition in ON of an outer join leaves no row out
    for alias, table in one.tables.items():
        kept = [part for part in conditions(one.node) if _is_of(part, alias)]
        same = [name for name, also in other.tables.items() if also is table]
        if not kept or len(same) != 1 or list(one.tables.values()).count(table) != 1:
            continue
        known = {c.query.sql(_bare(part)) for part in conditions(other.node) if _is_of(part, same[0])}
        missing = [part for part in kept if c.query.sql(_bare(part)) not in known]
        tree = copied(c)
        select = next((node for node in tree.find_all(type(other.node)) if node.sql() == other.node.sql()), None)
        place = read_in(select, same[0]) if select is not None else None
        if missing and place is not None:
            shadow(place, [_bare(part) for part in missing])
            return tree, " AND ".join(c.query.sql(_bare(part)) for part in missing), table.name
    return None


def _is_of(part: Any, alias: str) -> bool:
    """Whether a condition looks at nothing but rows of an alias."""
    exp = sqlglot_module("expressions")
    return aliases_in(part) == {alias} and part.find(exp.Query) is None


def _bare(part: Any) -> Any:
    """A condition whose columns have no alias."""
    exp = sqlglot_module("expressions")
    copy = part.copy()
    for column in copy.find_all(exp.Column):
        column.set("table", None)
    return copy


RULES: tuple[Rule, ...] = (extreme_of_others,)
