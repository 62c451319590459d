"""How tables are joined: by what, to what, and whether it is needed."""

from __future__ import annotations

from collections.abc import Iterator

from groundbox.check.sql.finding import Context, Finding, Rule
from groundbox.check.sql.grain import components, repeaters
from groundbox.check.sql.parts import Edge, Select, own, resolve, sqlglot_module
from groundbox.check.sql.schema import Kind, direct_keys, parents, related


def cartesian(c: Context) -> Iterator[Finding]:
    """Sources of one select that no condition joins."""
    exp = sqlglot_module("expressions")
    for select in c.query.selects:
        if len(select.tables) < 2 or len(select.tables) != len(select.sources):
            continue
        groups = components(select)
        where = [select.node.args["where"]] if select.has("where") else []
        joins = [join for join in select.node.args.get("joins") or () if join.args.get("on") is not None]
        for condition in [*where, *joins]:  # any comparison between columns of two of them joins them, too
            for node in condition.find_all(exp.Binary):
                if not isinstance(node, exp.Connector):
                    groups = _merged(groups, {column.table for column in node.find_all(exp.Column)})
        if any(join.args.get("using") or join.method == "NATURAL" for join in select.node.args.get("joins") or ()):
            continue
        if len(groups) > 1:
            names = sorted(select.tables[alias].name for alias in select.tables)
            yield Finding(
                code="sql.cartesian",
                message=f"no condition joins all of {', '.join(names)}: every row is paired with every row",
                hint="Join each table by its key, or leave it out.",
                evidence={"tables": names},
            )


def _merged(groups: list[set[str]], aliases: set[str]) -> list[set[str]]:
    touched = [group for group in groups if group & aliases]
    return [group for group in groups if group not in touched] + ([set().union(*touched)] if touched else [])


def not_by_key(c: Context) -> Iterator[Finding]:
    """Columns set equal that no foreign key relates, where the schema declares foreign keys."""
    if not c.schema.has_foreign_keys():
        return
    for edge in c.query.edges:
        one, other = edge.left, edge.right
        if one.place == other.place or related(c.schema, one.place, other.place):
            continue
        if not all(table.declares for table in map(c.schema.table, (one.table, other.table)) if table):
            continue
        told = f"{one.table}.{one.column} = {other.table}.{other.column}"
        keys = direct_keys(c.schema, one.table, other.table)
        if keys:
            proper = [f"{one.table}.{a} = {other.table}.{b}" for a, b in keys]
            yield Finding(
                code="sql.join_not_the_key",
                message=f"{told} relates two tables that a foreign key relates otherwise: {' and '.join(proper)}",
                hint=f"Relate them by {proper[0]}.",
                evidence={"condition": told, "keys": proper, "kind": edge.kind},
            )
        elif parents(c.schema, *one.place) & parents(c.schema, *other.place):
            if not _pairs_many(c, edge):
                continue
            yield Finding(
                code="sql.join_of_siblings",
                message=f"{told}: both refer to the same third table, so rows are paired that only share their parent",
                hint="Check that pairs of rows that share a parent are meant; else go through the third table.",
                evidence={"condition": told, "kind": edge.kind},
            )
        elif not _looks_declared(c, edge):
            yield Finding(
                code="sql.join_not_by_key",
                message=f"{told} sets columns equal that no foreign key relates",
                hint="Relate tables along declared foreign keys, through the tables between them.",
                evidence={"condition": told, "kind": edge.kind},
            )


def _pairs_many(c: Context, edge: Edge) -> bool:
    """Whether the join pairs several rows of the one with several of the other."""
    for select in c.query.selects:
        if edge in select.edges and edge.kind == "join":
            return edge.right.alias in repeaters(select, edge.left.alias) and edge.left.alias in repeaters(
                select, edge.right.alias
            )
    return False


def _looks_declared(c: Context, edge: Edge) -> bool:
    """Whether a relation may just not be declared: a key or a telling name, no other relation, values that match."""
    for one, other in ((edge.left, edge.right), (edge.right, edge.left)):
        child, parent = c.schema.table(one.table), c.schema.table(other.table)
        if child is None or parent is None:
            continue
        telling = one.place[1] == other.place[1] and one.place[1] not in _SAID_OF_ALL
        if not parent.is_key({other.place[1]}) and not telling:
            continue
        if child.is_key({one.place[1]}) and not telling:
            continue
        refers = any(one.place[1] in map(str.casefold, key.columns) for key in child.foreign)
        if not refers and c.probes.within(one.table, one.column, other.table, other.column):
            return True
    return False


_SAID_OF_ALL = frozenset({"id", "name", "code", "key", "number"})


def types_differ(c: Context) -> Iterator[Finding]:
    """A number set equal to a text, without a foreign key that says so."""
    for edge in c.query.edges:
        if related(c.schema, edge.left.place, edge.right.place) or _looks_declared(c, edge):
            continue
        kinds = [_kind(c, edge, side) for side in (0, 1)]
        if set(kinds) == {Kind.NUMBER, Kind.TEXT}:
            one, other = edge.left, edge.right
            yield Finding(
                code="sql.join_types",
                message=f"{one.table}.{one.column} and {other.table}.{other.column} are set equal, a number and a text",
                hint="They can hardly mean the same; join by the columns that refer to each other.",
                evidence={"columns": [f"{ref.table}.{ref.column}" for ref in (one, other)]},
            )


def _kind(c: Context, edge: Edge, side: int) -> Kind:
    ref = edge[side]
    table = c.schema.table(ref.table)  # type: ignore[union-attr]
    column = table.column(ref.column) if table else None  # type: ignore[union-attr]
    return column.kind if column else Kind.OTHER


def table_unused(c: Context) -> Iterator[Finding]:
    """A joined table of which nothing but the joining column is used."""
    for select in c.query.selects:
        if len(select.tables) < 2:
            continue
        for alias, table in select.tables.items():
            edges = [
                edge for edge in select.edges if edge.kind == "join" and alias in (edge.left.alias, edge.right.alias)
            ]
            if not edges or _used_beside_joins(c, select, alias, edges):
                continue
            links = len({ref.alias for edge in edges for ref in (edge.left, edge.right)} - {alias})
            if links > 1:
                continue
            yield Finding(
                code="sql.table_unused",
                message=f"{table.name} is joined, but nothing of it is used: it only drops or repeats rows",
                hint=f"Leave {table.name} out, unless only rows that have one there are meant.",
                evidence={"table": table.name},
            )


def _used_beside_joins(c: Context, select: Select, alias: str, edges: list[Edge]) -> bool:
    exp = sqlglot_module("expressions")
    joining = {ref.place[1] for edge in edges for ref in (edge.left, edge.right) if ref.alias == alias}
    in_joins = [column for join in select.node.args.get("joins") or () for column in join.find_all(exp.Column)]
    in_joins_ids = {id(column) for column in in_joins}
    for column in select.node.find_all(exp.Column):
        if column.table != alias or id(column) in in_joins_ids:
            continue
        ref = resolve(column, select.scope, c.schema)
        comparison = column.parent
        joined = (
            isinstance(comparison, exp.EQ)
            and isinstance(comparison.left, exp.Column)
            and isinstance(comparison.right, exp.Column)
        )
        if not joined or ref is None or ref.place[1] not in joining:
            return True
    return any(column.table == alias and column.name.casefold() not in joining for column in in_joins) or any(
        isinstance(each, exp.Count) and isinstance(each.this, exp.Star) for each in own(select.node, exp.Count)
    )


def bridge_unused(c: Context) -> Iterator[Finding]:
    """A table between two others that are related directly."""
    for select in c.query.selects:
        for alias, table in select.tables.items():
            edges = [
                edge for edge in select.edges if edge.kind == "join" and alias in (edge.left.alias, edge.right.alias)
            ]
            others = {ref.alias: ref for edge in edges for ref in (edge.left, edge.right) if ref.alias != alias}
            if len(others) != 2 or _used_beside_joins(c, select, alias, edges):
                continue
            one, other = others.values()
            if direct_keys(c.schema, one.table, other.table):
                yield Finding(
                    code="sql.detour",
                    message=f"{one.table} and {other.table} are joined through {table.name}, though a foreign key "
                    "relates them",
                    hint=f"Join {one.table} to {other.table}; {table.name} repeats or drops rows.",
                    evidence={"table": table.name, "between": [one.table, other.table]},
                )


def column_from_outside(c: Context) -> Iterator[Finding]:
    """`x IN (SELECT x FROM other)` where `other` has no such column: it is that of the row outside, equal to itself."""
    exp = sqlglot_module("expressions")
    for select in c.query.selects:
        shown = select.projections
        if select.place != "subquery" or not select.tables or len(shown) != 1 or not isinstance(shown[0], exp.Column):
            continue
        if shown[0].table in select.scope.sources or isinstance(select.node.parent, exp.Exists):
            continue
        ref = resolve(shown[0], select.scope, c.schema)
        if ref is None or len(select.tables) != len(select.sources):
            continue
        names = ", ".join(sorted(table.name for table in select.tables.values()))
        yield Finding(
            code="sql.column_from_outside",
            message=f"the subquery selects {ref.column}, which {names} does not have: it is that of {ref.table} in the "
            "query around it",
            hint=f"Select the column of {names} that refers to {ref.table}.",
            evidence={"column": f"{ref.table}.{ref.column}", "tables": names},
        )


RULES: tuple[Rule, ...] = (cartesian, not_by_key, types_differ, table_unused, bridge_unused, column_from_outside)
