"""How tables are joined: by what, to what, whether it is needed, and what becomes of rows without a partner."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from groundbox.check.sql.finding import Context, Finding, Rule
from groundbox.check.sql.parts import (
    Edge,
    Ref,
    Select,
    components,
    exp,
    is_one_of,
    merged_groups,
    nullable_aliases,
    own,
)
from groundbox.check.sql.source import Kind, direct_keys, parents, related

_SAID_OF_ALL = frozenset({"id", "name", "code", "key", "number"})


def not_by_key(c: Context) -> Iterator[Finding]:
    """Tables that are related otherwise than by their keys: by other columns, through another table, or by nothing."""
    for message, hint, evidence in (*_unjoined(c), *_other_columns(c), *_detours(c), *_from_outside(c)):
        yield Finding(code="sql.join_not_by_key", message=message, hint=hint, evidence=evidence)


Told = tuple[str, str, dict[str, Any]]
"""Message, hint and evidence."""


def _unjoined(c: Context) -> Iterator[Told]:
    """Sources of one select that no condition joins."""
    for select in c.query.selects:
        joins = select.node.args.get("joins") or ()
        # Of a subquery or a CTE nothing is known, so that a join to it may be by anything.
        if len(select.tables) < 2 or len(select.tables) != len(select.sources):
            continue
        if any(join.method == "NATURAL" for join in joins):
            continue
        # Joins by equal columns first; what is left is joined by any comparison, such as of a day with a range.
        groups = components(select)
        clauses = [select.node.args.get("where"), *(join.args.get("on") for join in joins)]
        for node in (node for clause in clauses if clause is not None for node in clause.find_all(exp.Binary)):
            if not isinstance(node, exp.Connector):  # any comparison between columns of two of them joins them, too
                groups = merged_groups(groups, {column.table for column in node.find_all(exp.Column)})
        if len(groups) > 1:
            names = sorted(table.name for table in select.tables.values())
            message = f"no condition joins all of {', '.join(names)}: every row is paired with every row"
            yield message, "Join each table by its key, or leave it out.", {"tables": names}


def _other_columns(c: Context) -> Iterator[Told]:
    """Columns set equal that no foreign key relates, one of which is or holds a key."""
    for edge in c.query.edges:
        one, other = edge.left, edge.right
        if one.place == other.place or related(c.schema, one.place, other.place):
            continue
        told = f"{one} = {other}"
        evidence = {"condition": told, "kind": edge.kind}
        # A number against a text is told even where no keys are declared.
        if {one.declared.kind, other.declared.kind} == {Kind.NUMBER, Kind.TEXT} and not _looks_declared(c, edge):
            yield f"{told} sets a number and a text equal", _PROPER, evidence
            continue
        # Where nobody declared a relation, its absence says nothing.
        if not any(table.foreign for table in c.schema) or not (one.owner.declares and other.owner.declares):
            continue
        if not (_stands_for_row(one) or _stands_for_row(other)):
            continue  # what two rows have in common, such as a town
        keys = direct_keys(c.schema, one.table, other.table)
        if keys:
            proper = list(dict.fromkeys(f"{one.table}.{a} = {other.table}.{b}" for a, b in keys))
            message = f"{told} relates two tables that a foreign key relates otherwise: {' and '.join(proper)}"
            yield message, f"Relate them by {proper[0]}.", {**evidence, "keys": proper}
        elif parents(c.schema, *one.place) & parents(c.schema, *other.place):
            continue  # both refer to the same third table
        elif not _looks_declared(c, edge):
            yield f"{told} sets columns equal that no foreign key relates", _PROPER, evidence


_PROPER = "Relate tables along declared foreign keys, through the tables between them."


def _stands_for_row(ref: Ref) -> bool:
    """Tell whether a column is a key of its table, or part of one or of a foreign one."""
    named = {name.casefold() for name in ref.owner.primary} | ref.owner.foreign_columns
    return ref.owner.is_key({ref.place[1]}) or ref.place[1] in named


def _looks_declared(c: Context, edge: Edge) -> bool:
    """Tell whether a relation may just not be declared: a key or a telling name, no other, values that match."""
    for one, other in ((edge.left, edge.right), (edge.right, edge.left)):
        # The same name in both tables, unless every table has it (`id`, `name`).
        telling = one.place[1] == other.place[1] and one.place[1] not in _SAID_OF_ALL
        if not other.owner.is_key({other.place[1]}) and not telling:
            continue
        if one.owner.is_key({one.place[1]}) and not telling:
            continue
        # The data decides last, since it costs a query.
        if one.place[1] not in one.owner.foreign_columns and c.probes.within(
            one.table, one.column, other.table, other.column
        ):
            return True
    return False


def _detours(c: Context) -> Iterator[Told]:
    """A table between two others that are related directly."""
    for select in c.query.selects:
        for alias, table in select.tables.items():
            others = {other.alias: other for one, other in select.joins() if one.alias == alias}
            # A table in the middle that the query uses for something is needed.
            if len(others) != 2 or _used_beside_joins(select, alias):
                continue
            one, other = others.values()
            if direct_keys(c.schema, one.table, other.table):
                message = (
                    f"{one.table} and {other.table} are joined through {table.name}, though a foreign key relates them"
                )
                hint = f"Join {one.table} to {other.table}; {table.name} repeats or drops rows."
                yield message, hint, {"table": table.name, "between": [one.table, other.table]}


def _from_outside(c: Context) -> Iterator[Told]:
    """`x IN (SELECT x FROM other)` where `other` has no such column: it is that of the row outside, equal to itself."""
    for select in c.query.selects:
        shown = select.projections
        if select.place != "subquery" or not select.tables or len(shown) != 1 or not isinstance(shown[0], exp.Column):
            continue
        # EXISTS (SELECT o.x …) may select anything.
        if shown[0].table in select.scope.sources or isinstance(select.node.parent, exp.Exists):
            continue
        ref = select.ref(shown[0])
        if ref is None or len(select.tables) != len(select.sources):
            continue
        names = ", ".join(sorted(table.name for table in select.tables.values()))
        message = (
            f"the subquery selects {ref.column}, which {names} does not have: it is that of {ref.table} in the "
            "query around it"
        )
        hint = f"Select the column of {names} that refers to {ref.table}."
        yield message, hint, {"column": str(ref), "tables": names}


def table_unused(c: Context) -> Iterator[Finding]:
    """A joined table of which nothing but the joining column is used."""
    for select in c.query.selects:
        if len(select.tables) < 2:
            continue
        for alias, table in select.tables.items():
            others = {other.alias for one, other in select.joins() if one.alias == alias}
            if len(others) == 1 and not _used_beside_joins(select, alias):
                yield Finding(
                    code="sql.table_unused",
                    message=f"{table.name} is joined, but nothing of it is used: it only drops or repeats rows",
                    hint=f"If rows that have one there are meant, use EXISTS or IN; if not, leave {table.name} out.",
                    evidence={"table": table.name},
                )


def _used_beside_joins(select: Select, alias: str) -> bool:
    joining = {one.place[1] for one, _ in select.joins() if one.alias == alias}
    # Columns of ON relate tables; a table of which nothing else is used only drops or repeats rows.
    in_joins = {id(each) for join in select.node.args.get("joins") or () for each in join.find_all(exp.Column)}
    for column in select.node.find_all(exp.Column):
        if column.table != alias:
            continue
        other = column.parent
        equal = isinstance(other, exp.EQ) and all(isinstance(each, exp.Column) for each in (other.left, other.right))
        if not (id(column) in in_joins or equal) or column.name.casefold() not in joining:
            return True
    return any(isinstance(each.this, exp.Star) for each in own(select.node, exp.Count))


def outer_join(c: Context) -> Iterator[Finding]:
    """LEFT JOIN that keeps rows without a partner: how many, and that COUNT(*) counts 1 for each of them."""
    top = c.query.top
    # A copy, because sqlglot's trees are changed in place.
    tree = c.query.qualified.copy()
    joins = [join for join in tree.find_all(exp.Join) if join.side in ("LEFT", "RIGHT", "FULL")]
    # With IS NULL, rows without a partner are what is asked for.
    if c.rows is None or top is None or not joins or "is null" in c.query.text.casefold():
        return
    for join in joins:
        join.set("side", None)
        join.set("kind", "INNER")
    inner = c.budget.ask(c.query.sql(tree), "the result with inner joins")
    # By `repr`: NULL and numbers do not compare.
    if inner is None or sorted(map(repr, inner.rows)) == sorted(map(repr, c.rows.rows)):
        return
    starred = top.has("group") and any(isinstance(each.this, exp.Star) for each in own(top.node, exp.Count))
    yield Finding(
        code="sql.outer_join",
        message=f"rows without a partner are in the result: with inner joins it is another one, of {len(inner.rows)} "
        f"rows instead of {len(c.rows.rows)}" + (", and COUNT(*) counts 1 for each of them" if starred else ""),
        hint="COUNT a column of the joined table, which is NULL there."
        if starred
        else "Keep them if the question means also those that have none.",
        evidence={"outer": len(c.rows.rows), "inner": len(inner.rows)},
    )


def outer_join_undone(c: Context) -> Iterator[Finding]:
    """LEFT JOIN whose rows without a partner are dropped by WHERE, or by an inner join that follows."""
    for select in c.query.selects:
        outer = nullable_aliases(select.node)
        for alias, part, changed in _undoing(select, outer):
            if c.rows is None or not c.rows.complete or alias not in outer:
                continue
            kept = c.budget.ask(changed(c), "the result with rows without a partner")
            # Where every row has a partner, or those without one are not shown, nothing is lost.
            if kept is None or sorted(map(repr, kept.rows)) == sorted(map(repr, c.rows.rows)):
                continue
            side = outer[alias].side
            yield Finding(
                code="sql.outer_join_undone",
                message=f"{c.query.sql(part)} drops the rows without a partner in {alias} that the {side} JOIN keeps, "
                "so that it is an inner join",
                hint=f"Move the condition into ON of the {side} JOIN."
                if not isinstance(part, exp.Join)
                else "Make this join a LEFT JOIN, too.",
                evidence={"condition": c.query.sql(part), "table": alias},
            )
            break


_STRICT: Final = (
    *("Paren", "Cast", "Neg", "Lower", "Upper", "Trim", "Collate", "TimeToStr", "Substring", "TsOrDsToTimestamp"),
    *("Date", "Length", "Abs", "Round"),
)
"""sqlglot's classes of functions that give NULL for NULL."""
Undoing = tuple[str, Any, Callable[[Context], str]]
"""An alias, what drops its NULL rows, and the text of the query without that."""


def _undoing(select: Select, outer: Mapping[str, Any]) -> Iterator[Undoing]:
    where = select.node.args.get("where")
    parts = [] if where is None else list(where.this.flatten()) if isinstance(where.this, exp.And) else [where.this]
    for part in parts:
        for alias in outer:
            if _rejects_null(part, alias):
                yield alias, part, functools.partial(_moved_into_on, part=part, join=outer[alias])
    joins = select.node.args.get("joins") or []
    for position, join in enumerate(joins):
        condition = join.args.get("on")
        if join.side or join.kind not in ("", "INNER") or condition is None:
            continue
        for alias in outer:
            if outer[alias] in joins[:position] and _rejects_null(condition, alias):
                yield alias, join, functools.partial(_made_left, join=join)


def _rejects_null(node: Any, alias: str) -> bool:
    """Return whether a condition is not true for a row in which all columns of an alias are NULL."""
    if isinstance(node, exp.Paren):
        return _rejects_null(node.this, alias)
    if isinstance(node, exp.And):
        return _rejects_null(node.left, alias) or _rejects_null(node.right, alias)
    if isinstance(node, exp.Or):
        return _rejects_null(node.left, alias) and _rejects_null(node.right, alias)
    if isinstance(node, exp.Not):
        inner = node.this
        while isinstance(inner, exp.Paren):
            inner = inner.this
        if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
            return isinstance(inner.this, exp.Column) and inner.this.table == alias
        if isinstance(inner, exp.Connector):  # De Morgan's laws
            sides = [_rejects_null(exp.Not(this=each.copy()), alias) for each in (inner.left, inner.right)]
            return all(sides) if isinstance(inner, exp.And) else any(sides)
        return _rejects_null(inner, alias)
    if not isinstance(node, (exp.Binary, exp.In, exp.Between)) or isinstance(node, (exp.Is, exp.NullSafeEQ)):
        return False
    operands = [node.this, *map(node.args.get, ("expression", "low", "high"))]
    return any(_is_null_with(each, alias) for each in operands if each is not None)


def _is_null_with(node: Any, alias: str) -> bool:
    """Return whether an expression is NULL if the columns of an alias are."""
    if isinstance(node, exp.Column):
        return bool(node.table == alias)
    if not is_one_of(node, ("Binary", *_STRICT)) or isinstance(node, exp.Is):
        return False
    return any(_is_null_with(each, alias) for each in node.iter_expressions())


def _moved_into_on(c: Context, *, part: Any, join: Any) -> str:
    on = join.args.get("on")
    true = exp.true()
    part.replace(true)
    join.set("on", exp.and_(on.copy(), part.copy()) if on is not None else part.copy())
    try:
        return c.query.sql(c.query.qualified)
    finally:
        join.set("on", on)
        true.replace(part)


def _made_left(c: Context, *, join: Any) -> str:
    join.set("side", "LEFT")
    try:
        return c.query.sql(c.query.qualified)
    finally:
        join.set("side", None)


RULES: tuple[Rule, ...] = (not_by_key, table_unused, outer_join, outer_join_undone)
