"""Other forms of a query: copies of its tree that give the same rows as long as an assumption holds.

A form is compared with the query by the rows of both, whatever their order. Before a difference counts, what sqlglot
made of the query is asked, too: a query that it misreads, or that gives other rows each time, differs in nothing.
No form is asked of a query that took a good part of the budget, nor of one with LIMIT or with an aggregate that
depends on the order of rows, since another plan may give other rows there without saying anything of the query.

Tables are shadowed by subqueries in their place (`FROM orders AS o` becomes `FROM (SELECT … FROM orders) AS o`), so
that nothing is copied or written, and a CTE that is called like a table keeps its name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from groundbox.check.sql.finding import Context
from groundbox.check.sql.parts import Select, own, sqlglot_module
from groundbox.check.sql.source import Rows

_READ: Final = "table of the database"
_BY_CHANCE: Final = ("Limit", "Fetch", "TableSample", "Window", "Rand", "GroupConcat", "ArrayAgg", "AnyValue", "First")


def other_rows(c: Context, tree: Any, purpose: str) -> Rows | None:
    """The rows of a form, where they are all there and are not the rows of the query."""
    if c.rows is None or not c.rows.complete or depends_on_chance(c):
        return None
    if c.is_slow:
        c.budget.leave(purpose)
        return None
    rows = c.budget.ask(c.query.sql(tree), purpose)
    if rows is None or not rows.complete or alike(rows, c.rows):
        return None
    again = c.budget.ask(c.query.sql(c.query.qualified), "the query as it was taken apart")
    return rows if again is not None and again.complete and alike(again, c.rows) else None


def difference(c: Context, rows: Rows, how: str) -> str:
    """What the result is, and what it is in another form, in words."""
    assert c.rows is not None
    told = [each.rows[0][0] if len(each.rows) == len(each.columns) == 1 else None for each in (c.rows, rows)]
    if None not in told:
        return f"the result is {told[0]}, {how} {told[1]}"
    if len(c.rows.rows) != len(rows.rows):
        return f"the result has {len(c.rows.rows)} rows, {how} {len(rows.rows)}"
    return f"{how}, {(_counted(rows) - _counted(c.rows)).total()} of {len(rows.rows)} rows are others"


def both(c: Context, rows: Rows) -> dict[str, Any]:
    """The same as evidence: the numbers of rows, and the first rows."""
    assert c.rows is not None
    first, other = ([list(row) for row in each.rows[:2]] for each in (c.rows, rows))
    return {"rows": len(c.rows.rows), "other_rows": len(rows.rows), "first": first, "other_first": other}


def depends_on_chance(c: Context) -> bool:
    """Whether another plan may give other rows."""
    exp = sqlglot_module("expressions")
    kinds = tuple(getattr(exp, name) for name in _BY_CHANCE if hasattr(exp, name))
    return c.query.qualified.find(*kinds) is not None


def alike(one: Rows, other: Rows) -> bool:
    """Whether two results have the same rows, in any order."""
    return len(one.columns) == len(other.columns) and _counted(one) == _counted(other)


def _counted(rows: Rows) -> Counter[tuple[Any, ...]]:
    """Each row with how often it is there; numbers to ten digits, since sums depend on their order."""
    return Counter(tuple(_plain(value) for value in row) for row in rows.rows)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.10g}")
    return value if isinstance(value, (str, int, type(None))) else repr(value)


def copied(c: Context) -> Any:
    """The qualified tree, to be changed; tables of the database are marked in it."""
    exp = sqlglot_module("expressions")
    for select in c.query.selects:
        for source in select.scope.sources.values():
            if isinstance(source, exp.Table) and c.schema.table(source.name) is not None:
                source.meta[_READ] = True
    return c.query.qualified.copy()


def read_in(node: Any, alias: str) -> Any:
    """The table of the database that a select of a copied tree reads under an alias, or None."""
    exp = sqlglot_module("expressions")
    tables = (table for table in own(node, exp.Table) if table.meta.get(_READ))
    return next((table for table in tables if table.alias_or_name == alias), None)


def shadow(table: Any, parts: list[Any]) -> None:
    """Put the rows of a table that satisfy conditions, whose columns have no alias, in its place."""
    exp = sqlglot_module("expressions")
    alias = table.args.get("alias") or exp.TableAlias(this=table.this.copy())
    bare = table.copy()
    bare.set("alias", None)
    table.replace(exp.Subquery(this=exp.select("*").from_(bare).where(*parts), alias=alias.copy()))


def conditions(node: Any) -> list[Any]:
    """What must hold of each row of a select: the sides of AND in WHERE and in ON."""
    clauses = [join.args.get("on") for join in node.args.get("joins") or ()]
    if node.args.get("where") is not None:
        clauses.append(node.args["where"].this)
    return [part for clause in clauses if clause is not None for part in sides_of_and(clause)]


def sides_of_and(condition: Any) -> Iterator[Any]:
    """What AND joins, at any depth."""
    exp = sqlglot_module("expressions")
    while isinstance(condition, exp.Paren):
        condition = condition.this
    if isinstance(condition, exp.And):
        yield from sides_of_and(condition.left)
        yield from sides_of_and(condition.right)
    else:
        yield condition


def set_where(node: Any, parts: list[Any]) -> None:
    """Let a select have these conditions, and no others."""
    exp = sqlglot_module("expressions")
    whole = [exp.paren(part.copy()) for part in parts]
    node.set("where", exp.Where(this=exp.and_(*whole)) if whole else None)


def aliases_in(node: Any) -> set[str]:
    """What the columns of a node are taken from, those of its subqueries included."""
    exp = sqlglot_module("expressions")
    return {column.table for column in node.find_all(exp.Column)}


def shows(select: Select) -> set[str]:
    """The aliases that a select shows columns of, or groups, orders or chooses groups by."""
    exp = sqlglot_module("expressions")
    names = ("group", "having", "order", "qualify", "distinct")
    parts = [*select.node.expressions, *(select.node.args.get(name) for name in names)]
    return {alias for part in parts if isinstance(part, exp.Expression) for alias in aliases_in(part)}


def joins_plainly(select: Select) -> bool:
    """Whether all it reads are tables of the database, by inner joins, under names that no subquery uses again."""
    exp = sqlglot_module("expressions")
    joins = select.node.args.get("joins") or ()
    if len(select.tables) != len(select.sources) or not all(_is_inner(join) for join in joins):
        return False
    inner = [table.alias_or_name for table in select.node.find_all(exp.Table, exp.Subquery)]
    return all(inner.count(alias) == 1 for alias in select.tables)


def _is_inner(join: Any) -> bool:
    return not join.side and join.kind in ("", "INNER", "CROSS") and not join.method and not join.args.get("using")


def chosen_by(c: Context, select: Select, kept: set[str]) -> Any:
    """The tree with the aliases that are not kept in EXISTS: they choose rows and repeat none.

    The select is the whole query, and joins plainly.
    """
    exp = sqlglot_module("expressions")
    tree = copied(c)
    start = tree.args.get("from_") or tree.args.get("from")
    tables = [start.this, *(join.this for join in tree.args.get("joins") or ())]
    gone = [table.copy() for table in tables if table.alias_or_name not in kept]
    left = [table.copy() for table in tables if table.alias_or_name in kept]
    names = {table.alias_or_name for table in gone}
    parts = conditions(tree)
    inner = exp.select(exp.Literal.number(1)).from_(gone[0])
    for other in gone[1:]:
        inner.append("joins", exp.Join(this=other, kind="CROSS"))
    set_where(inner, [part for part in parts if aliases_in(part) & names])
    start.set("this", left[0])
    tree.set("joins", [exp.Join(this=other, kind="CROSS") for other in left[1:]])
    set_where(tree, [*(part for part in parts if not aliases_in(part) & names), exp.Exists(this=inner)])
    return tree


def joined_among(parts: list[Any], aliases: set[str]) -> bool:
    """Whether conditions join all of some aliases, without going through another."""
    groups = [{alias} for alias in aliases]
    for part in parts:
        named = aliases_in(part)
        if not named <= aliases:
            continue
        touched = [group for group in groups if group & named]
        groups = [group for group in groups if group not in touched] + ([set().union(*touched)] if touched else [])
    return len(groups) == 1
