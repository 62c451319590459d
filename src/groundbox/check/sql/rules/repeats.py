"""Rows that a join repeats, in sums and in the result; groups of one; columns that a group does not fix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from groundbox.check.sql.finding import Context, Finding, Rule
from groundbox.check.sql.grain import repeaters
from groundbox.check.sql.parts import Select, own, resolve, sqlglot_module
from groundbox.check.sql.question import name_stems
from groundbox.check.sql.rules.rewritings import with_exists


def fan_out(c: Context) -> Iterator[Finding]:
    """SUM, AVG or COUNT of a column whose row the join repeats."""
    exp = sqlglot_module("expressions")
    for select in c.query.selects:
        for aggregate in own(select.node, (exp.Sum, exp.Avg, exp.Count)):
            inner = aggregate.this
            if not isinstance(inner, exp.Column) or inner.table not in select.tables:
                continue
            many = repeaters(select, inner.table)
            if not many or (isinstance(aggregate, exp.Count) and _counts_partners(c, select, inner.table)):
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


def _counts_partners(c: Context, select: Select, alias: str) -> bool:
    """Whether each group is one row of an alias, so that what is counted is the rows that belong to it."""
    keys = _grouped(c, select) if select.has("group") else None
    return bool(keys) and select.tables[alias].is_key((keys or {}).get(alias, set()))


def count_of_joined_rows(c: Context) -> Iterator[Finding]:
    """ "How many customers", counted as rows of a join that has some of them more than once."""
    exp = sqlglot_module("expressions")
    top = c.query.top
    words = c.question.counted if c.question is not None else []
    if not words or top is None or len(top.tables) < 2 or top.has("group") or top.has("having"):
        return
    for alias, table in top.tables.items():
        key = [*table.primary]
        counts = [each for each in top.aggregates() if isinstance(each, exp.Count)]
        if name_stems(table.name)[-1:] != words[-1:] or len(key) != 1 or len(counts) != 1 or len(top.projections) != 1:
            continue
        counted = counts[0].this
        if isinstance(counted, exp.Distinct) or not repeaters(top, alias):
            continue
        tree = top.node.copy()
        column = exp.column(key[0], table=alias, quoted=True)
        tree.set("expressions", [exp.alias_(exp.Count(this=exp.Distinct(expressions=[column])), "counted")])
        different = c.budget.value(c.query.sql(tree), f"how many different rows of {table.name} are counted")
        own_count = c.rows.rows[0][0] if c.rows is not None and c.rows.rows and c.rows.rows[0] else None
        if isinstance(different, int) and isinstance(own_count, int) and different < own_count:
            yield Finding(
                code="sql.count_of_joined_rows",
                message=f"{own_count} rows of a join are counted; {different} rows of {table.name} are in them",
                hint=f"COUNT(DISTINCT {table.name}.{key[0]}) if each of them is meant once.",
                evidence={"counted": own_count, "different": different, "table": table.name},
            )


def count_of_nothing(c: Context) -> Iterator[Finding]:
    """COUNT(*) over LEFT JOIN by groups: what has no partner counts as one."""
    exp = sqlglot_module("expressions")
    for select in c.query.selects:
        joins = select.node.args.get("joins") or ()
        if not select.has("group") or not any(join.side == "LEFT" for join in joins):
            continue
        if any(isinstance(each.this, exp.Star) for each in own(select.node, exp.Count)) and _has_lonely_rows(c, select):
            yield Finding(
                code="sql.count_of_nothing",
                message="COUNT(*) counts 1 for what LEFT JOIN finds no partner of",
                hint="COUNT a column of the joined table, which is NULL there.",
            )


def _has_lonely_rows(c: Context, select: Select) -> bool:
    sizes = []
    for side in (None, "LEFT"):
        tree = select.node.copy()
        for clause in ("group", "having", "order", "limit", "distinct"):
            tree.set(clause, None)
        tree.set("expressions", [sqlglot_module("expressions").Literal.number(1)])
        for join in tree.args["joins"]:
            if join.side == "LEFT":
                join.set("side", side)
        sizes.append(c.probes.size_of(c.query.sql(tree), "rows without a partner"))
    inner, outer = sizes
    return inner is not None and outer is not None and outer > inner


def duplicate_rows(c: Context) -> Iterator[Finding]:
    """Rows of the result that are alike."""
    rows, top = c.rows, c.query.top
    if rows is None or len(rows.rows) < 2 or top is None:
        return
    count = len(rows.rows) - len(set(rows.rows))
    if count == 0:
        return
    joined, key = _repeated_by_a_join(c, top), _shown_key(c, top)
    others, form = (with_exists(c) if not top.aggregates() else None) or ([], None)
    evidence = {"rows": len(rows.rows), "repetitions": count}
    told = ", and a join may have made them" if joined else ""
    if form is not None:
        evidence |= {"with_exists": len(form.rows)}
        told = (
            f": the join with {' and '.join(others)} only chooses rows, and repeats them; with EXISTS in its place "
            f"there are {len(form.rows)} rows"
        )
    yield Finding(
        code="sql.key_repeated" if key else "sql.duplicates_by_join" if joined else "sql.duplicate_rows",
        message=f"{count} of {len(rows.rows)} rows of the result are repetitions{told}"
        + (f": the same {key} is told more than once" if key else ""),
        hint=f"Write WHERE EXISTS (SELECT 1 FROM {others[0]} …) or IN, unless each pair is meant."
        if others
        else "Add DISTINCT where each is meant once; else select what tells them apart.",
        evidence=evidence,
    )


def _repeated_by_a_join(c: Context, top: Select) -> bool:
    """Whether a join may have repeated the rows that are shown, by the keys of what it adds to them."""
    exp = sqlglot_module("expressions")
    shown = {column.table for node in top.projections for column in own(node, exp.Column)}
    if len(shown) != 1 or not shown <= set(top.tables) or len(top.tables) != len(top.sources):
        return len(top.sources) > 1
    return bool(repeaters(top, shown.pop()))


def _shown_key(c: Context, top: Select) -> str:
    """The columns of the result, where each stands for a row of a table by its own key or a foreign one; else ""."""
    exp = sqlglot_module("expressions")
    names = []
    for projection in top.projections:
        ref = resolve(projection, top.scope, c.schema) if isinstance(projection, exp.Column) else None
        table = c.schema.table(ref.table) if ref else None
        if ref is None or table is None or not table.declares:
            return ""
        foreign = {name.casefold() for key in table.foreign if len(key.columns) == 1 for name in key.columns}
        if ref.place[1] not in foreign and {name.casefold() for name in table.primary} != {ref.place[1]}:
            return ""
        names.append(ref.column)
    return ", ".join(names)


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
                or (c.query.dialect == "sqlite" and _of_the_extreme_row(select))
            ):
                continue
            yield Finding(
                code="sql.bare_column",
                message=f"{ref.table}.{ref.column} stands beside an aggregate and is not grouped by: any row's "
                "value may be shown",
                hint=f"Group by {ref.column}, aggregate it, or look its row up in a subquery.",
                evidence={"column": f"{ref.table}.{ref.column}", "grouped": bool(grouped)},
            )


def _of_the_extreme_row(select: Select) -> bool:
    """Whether the only aggregate is one MIN or MAX: SQLite then shows the other columns of the row that it is from.

    https://www.sqlite.org/lang_select.html#bareagg
    """
    exp = sqlglot_module("expressions")
    extremes = [each for each in own(select.node, exp.AggFunc) if isinstance(each, (exp.Min, exp.Max))]
    return len(extremes) == 1 and len(select.aggregates()) == 1


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
            if named <= {name.casefold() for key in table.foreign for name in key.columns}:
                continue  # a foreign key stands for a row of another table, and is no label
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
    count_of_joined_rows,
    count_of_nothing,
    duplicate_rows,
    distinct_unneeded,
    group_of_one,
    bare_column,
    bare_elsewhere,
    order_without_effect,
    group_by_label,
)
