"""Rows that a join repeats, in sums and in the result; groups of one; columns that a group does not fix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from groundbox.check.sql.finding import Context, Finding, Rule
from groundbox.check.sql.grain import repeaters
from groundbox.check.sql.parts import Select, own, resolve, sqlglot_module


def fan_out(c: Context) -> Iterator[Finding]:
    """SUM, AVG or COUNT of a column whose row the join repeats."""
    exp = sqlglot_module("expressions")
    for select in c.query.selects:
        for aggregate in own(select.node, (exp.Sum, exp.Avg, exp.Count)):
            inner = aggregate.this
            if not isinstance(inner, exp.Column) or inner.table not in select.tables:
                continue
            many = repeaters(select, inner.table)
            if not many:
                continue
            tables = sorted({select.tables[alias].name for alias in many if alias in select.tables})
            code = "sql.fan_out_count" if isinstance(aggregate, exp.Count) else "sql.fan_out"
            yield Finding(
                code=code,
                message=f"{c.query.sql(aggregate)} adds rows of {select.tables[inner.table].name} "
                f"once for each row of {', '.join(tables)} that they are joined with",
                hint="Aggregate before the join, or count DISTINCT keys.",
                evidence={"aggregate": c.query.sql(aggregate), "repeated_by": tables},
            )


def duplicate_rows(c: Context) -> Iterator[Finding]:
    """Rows of the result that are alike."""
    rows, top = c.rows, c.query.top
    if rows is None or len(rows.rows) < 2 or top is None:
        return
    count = len(rows.rows) - len(set(rows.rows))
    if count == 0:
        return
    joined = len(top.sources) > 1
    yield Finding(
        code="sql.duplicates_by_join" if joined else "sql.duplicate_rows",
        message=f"{count} of {len(rows.rows)} rows of the result are repetitions"
        + (", and a join may have made them" if joined else ""),
        hint="Add DISTINCT where each is meant once; else select what tells them apart.",
        evidence={"rows": len(rows.rows), "repetitions": count},
    )


def distinct_unneeded(c: Context) -> Iterator[Finding]:
    """DISTINCT that takes rows away though the question does not ask for different ones."""
    top = c.query.top
    if c.question is None or c.question.distinct or top is None or not top.has("distinct") or c.rows is None:
        return
    if c.question.how_many or top.aggregates():
        return
    tree = c.query.qualified.copy()
    tree.set("distinct", None)
    plain = c.probes.size_of(c.query.sql(tree), "the result without DISTINCT")
    if plain is not None and c.rows.complete and plain > len(c.rows.rows):
        yield Finding(
            code="sql.distinct_not_asked",
            message=f"DISTINCT takes {plain - len(c.rows.rows)} of {plain} rows away, and the question does not "
            "ask for that",
            hint="Check that each is meant once.",
            evidence={"with": len(c.rows.rows), "without": plain},
        )


def group_of_one(c: Context) -> Iterator[Finding]:
    """GROUP BY something that no two rows share."""
    for select in c.query.selects:
        if not select.has("group") or not select.tables:
            continue
        if not all(table.declares for table in select.tables.values()):
            continue  # one row for each group may be chance, and is no key that was grouped by
        columns = _grouped(c, select)
        if columns is None or len(select.sources) != len(select.tables):
            continue
        if not any(own(select.node, sqlglot_module("expressions").AggFunc)):
            continue
        if all(_fixed_by(select, alias, columns) for alias in select.tables):
            names = [c.query.sql(node) for node in select.node.args["group"].expressions]
            yield Finding(
                code="sql.group_of_one",
                message=f"GROUP BY {', '.join(names)} makes a group of each single row: these columns hold a key",
                hint="Group by what the question counts for, not by a key of the counted rows.",
                evidence={"group": names},
            )


def _grouped(c: Context, select: Select) -> dict[str, set[str]] | None:
    """Alias to folded columns that are grouped by; None when something else is, too."""
    exp = sqlglot_module("expressions")
    found: dict[str, set[str]] = {}
    nodes = select.node.args["group"].expressions
    for node in nodes:
        ref = resolve(node, select.scope, c.schema) if isinstance(node, exp.Column) else None
        if ref is None:
            return None
        found.setdefault(ref.alias, set()).add(ref.place[1])
    return found or None


def _fixed_by(select: Select, alias: str, columns: dict[str, set[str]]) -> bool:
    """Whether one group has one row of an alias: its key is grouped by, or it is looked up from one that is."""
    table = select.tables[alias]
    if table.is_key(columns.get(alias, set())):
        return True
    return any(
        owner != alias
        and owner in select.tables
        and select.tables[owner].is_key(named)
        and alias not in repeaters(select, owner)
        and _reaches(select, owner, alias)
        for owner, named in columns.items()
    )


def _reaches(select: Select, one: str, other: str) -> bool:
    from groundbox.check.sql.grain import components

    return any({one, other} <= group for group in components(select))


def bare_column(c: Context) -> Iterator[Finding]:
    """A column beside an aggregate that the group does not fix."""
    exp = sqlglot_module("expressions")
    for select in c.query.selects:
        aggregated = bool(select.aggregates()) or select.has("group")
        if not aggregated or (select.has("group") and select.node.args["group"].args.get("all")):
            continue
        grouped = _nodes(c, select, select.node.args["group"].expressions if select.has("group") else [])
        keys = _grouped(c, select) if select.has("group") else {}
        for projection in select.projections:
            if not isinstance(projection, exp.Column) or c.query.sql(projection) in grouped:
                continue
            ref = resolve(projection, select.scope, c.schema)
            if (
                ref is None
                or (keys and _determined(select, ref.alias, keys))
                or _joined_to_grouped(select, ref, keys or {})
            ):
                continue
            yield Finding(
                code="sql.bare_column",
                message=f"{ref.table}.{ref.column} stands beside an aggregate and is not grouped by: any row's "
                "value may be shown",
                hint=f"Group by {ref.column}, aggregate it, or look its row up in a subquery.",
                evidence={"column": f"{ref.table}.{ref.column}", "grouped": bool(grouped)},
            )


def bare_elsewhere(c: Context) -> Iterator[Finding]:
    """A column in HAVING or ORDER BY of groups that the group does not fix."""
    exp = sqlglot_module("expressions")
    for select in c.query.selects:
        keys = _grouped(c, select) if select.has("group") else None
        if not keys:
            continue
        grouped = _nodes(c, select, select.node.args["group"].expressions)
        for clause in ("having", "order"):
            if not select.has(clause):
                continue
            for column in own(select.node.args[clause], exp.Column):
                ref = resolve(column, select.scope, c.schema)
                inside = column.find_ancestor(exp.AggFunc) is not None
                if (
                    inside
                    or ref is None
                    or not column.table
                    or c.query.sql(column) in grouped
                    or _determined(select, ref.alias, keys)
                ):
                    continue
                if _joined_to_grouped(select, ref, keys):
                    continue
                yield Finding(
                    code=f"sql.bare_{clause}",
                    message=f"{ref.table}.{ref.column} in {clause.upper()} is not grouped by: any row's value may "
                    "be taken",
                    hint="Aggregate it, or move the condition to WHERE.",
                    evidence={"column": f"{ref.table}.{ref.column}"},
                )
                break


def order_without_effect(c: Context) -> Iterator[Finding]:
    """ORDER BY without LIMIT in a subquery, which changes nothing."""
    for select in c.query.selects:
        if select.place == "subquery" and select.has("order") and not select.has("limit"):
            yield Finding(
                code="sql.order_without_effect",
                message="ORDER BY in a subquery without LIMIT changes nothing",
                hint="Add LIMIT if only the first rows are meant.",
            )


def _nodes(c: Context, select: Select, nodes: list[Any]) -> set[str]:
    return {c.query.sql(node) for node in nodes}


def _determined(select: Select, alias: str, keys: dict[str, set[str]]) -> bool:
    return alias in select.tables and _fixed_by(select, alias, keys)


def _joined_to_grouped(select: Select, ref: Any, keys: dict[str, set[str]]) -> bool:
    """Whether it is the other side of a join, or its table is looked up by what is grouped by."""
    table = select.tables.get(ref.alias)
    own_fixed = set()
    for edge in select.edges:
        for one, other in ((edge.left, edge.right), (edge.right, edge.left)):
            if edge.kind == "join" and other.alias == ref.alias and one.place[1] in keys.get(one.alias, set()):
                own_fixed.add(other.place[1])
    return ref.place[1] in own_fixed or (table is not None and table.is_key(own_fixed))


def group_by_label(c: Context) -> Iterator[Finding]:
    """GROUP BY a name that several rows of its table share, where the table has a key."""
    for select in c.query.selects:
        columns = _grouped(c, select) if select.has("group") else None
        if not columns or len(select.tables) < 2:
            continue
        for alias, named in columns.items():
            table = select.tables.get(alias)
            if table is None or not table.primary or table.is_key(named) or not repeaters(select, alias):
                continue
            if any(
                other != alias and table_of.is_key(columns.get(other, set()))
                for other, table_of in select.tables.items()
            ):
                continue
            real = [column.name for column in table.columns if column.name.casefold() in named]
            if c.probes.repeats(table.name, real):
                yield Finding(
                    code="sql.group_by_label",
                    message=f"GROUP BY {table.name}.{', '.join(real)} puts different rows of {table.name} "
                    "together that share it",
                    hint=f"Group by {table.name}.{', '.join(table.primary)} if each of them is meant.",
                    evidence={"columns": real, "key": list(table.primary)},
                )


RULES: tuple[Rule, ...] = (
    fan_out,
    duplicate_rows,
    distinct_unneeded,
    group_of_one,
    bare_column,
    bare_elsewhere,
    order_without_effect,
    group_by_label,
)
