"""The same query said otherwise, in forms that are equal only if what its author probably took for granted holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from groundbox.check.sql.finding import Context, Finding, Rule
from groundbox.check.sql.forms import (
    aliases_in,
    both,
    chosen_by,
    conditions,
    copied,
    difference,
    joined_among,
    joins_plainly,
    other_rows,
    set_where,
    shows,
    sides_of_and,
)
from groundbox.check.sql.parts import Edge, Ref, Select, own, resolve, sqlglot_module
from groundbox.check.sql.question import name_stems
from groundbox.check.sql.schema import Table
from groundbox.check.sql.source import Rows

_LABELS: Final = ("name", "title")
"""What the name of a column ends with that names a row, and is no sort of rows."""


def filter_repeats(c: Context) -> Iterator[Finding]:
    """A sum, a mean or a count over a join that only chooses rows, and repeats them.

    The rows themselves, when a join repeats them, are told by `repeats.duplicate_rows`.
    """
    aggregates = [*own(c.query.top.node, sqlglot_module("expressions").AggFunc)] if c.query.top is not None else []
    if not aggregates or not _adds_up(c.query.top, aggregates):
        return
    form = with_exists(c)
    if form is not None:
        others, rows = form
        yield Finding(
            code="sql.filter_repeats_sums",
            message=f"the join with {' and '.join(others)} only chooses rows, and repeats them: "
            + difference(c, rows, "with EXISTS in its place"),
            hint=f"Write WHERE EXISTS (SELECT 1 FROM {others[0]} …) or IN, unless each pair is meant.",
            evidence={"tables": others, **both(c, rows)},
        )


def with_exists(c: Context) -> tuple[list[str], Rows] | None:
    """The tables that are joined to choose rows only, and the result with EXISTS for the join, if it differs."""
    top = _whole(c)
    if top is None or len(top.tables) < 2 or top.has("distinct") or not joins_plainly(top):
        return None
    kept = _kept(top)
    if not kept or kept == set(top.tables) or not _is_determined(c, top):
        return None
    others = sorted({top.tables[alias].name for alias in set(top.tables) - kept})
    rows = other_rows(c, chosen_by(c, top, kept), f"the result with EXISTS for the join of {', '.join(others)}")
    return (others, rows) if rows is not None else None


def _whole(c: Context) -> Select | None:
    """The select that is all of the query."""
    top = c.query.top
    return top if top is not None and top.node is c.query.qualified else None


def _kept(top: Select) -> set[str]:
    """The aliases that are shown, and those that join them; none where rows of the join are counted as such."""
    exp = sqlglot_module("expressions")
    kept = shows(top) & set(top.tables)
    counted = [each for each in own(top.node, exp.Count) if not any(own(each, exp.Column))]
    if not kept or counted:
        return set()
    parts = conditions(top.node)
    for alias in sorted(set(top.tables) - kept):
        if joined_among(parts, kept):
            break
        kept.add(alias)
    return kept if joined_among(parts, kept) else set()


def _is_determined(c: Context, top: Select) -> bool:
    """Whether no column stands beside an aggregate that is not grouped by."""
    exp = sqlglot_module("expressions")
    if not top.has("group"):
        return not top.aggregates() or not any(isinstance(each, exp.Column) for each in top.projections)
    grouped = {c.query.sql(node) for node in top.node.args["group"].expressions}
    return all(c.query.sql(each) in grouped for each in top.projections if isinstance(each, exp.Column))


def _adds_up(top: Select | None, aggregates: list[Any]) -> bool:
    """Whether aggregates add up what a row holds; a count in groups is a count of partners."""
    exp = sqlglot_module("expressions")
    if any(isinstance(each, exp.Count) and not isinstance(each.this, exp.Distinct) for each in aggregates):
        return top is not None and not top.has("group")
    return any(isinstance(each, (exp.Sum, exp.Avg)) for each in aggregates)


def outer_join_undone(c: Context) -> Iterator[Finding]:
    """LEFT JOIN with a condition on the joined table in WHERE, which drops the rows that it keeps."""
    exp = sqlglot_module("expressions")
    top = _whole(c)
    if top is None or not top.has("where"):
        return
    tree = copied(c)
    outer = {join.alias_or_name: join for join in tree.args.get("joins") or () if join.side == "LEFT"}
    left, moved = [], []
    for part in list(sides_of_and(tree.args["where"].this)) if outer else []:
        alias = next(iter(aliases_in(part)), "")
        plain = len(aliases_in(part)) == 1 and alias in outer and outer[alias].args.get("on") is not None
        if plain and part.find(exp.Null, exp.Coalesce, exp.Case, exp.Query) is None:
            moved.append(c.query.sql(part))
            outer[alias].set("on", exp.and_(outer[alias].args["on"], part.copy()))
        else:
            left.append(part)
    if not moved:
        return
    set_where(tree, left)
    rows = other_rows(c, tree, "the result with conditions in ON of LEFT JOIN")
    if rows is not None:
        yield Finding(
            code="sql.outer_join_undone",
            message=f"{moved[0]} in WHERE drops the rows that LEFT JOIN keeps: " + difference(c, rows, "with it in ON"),
            hint="Move the condition into ON, or write JOIN if rows without a partner are not meant.",
            evidence={"conditions": moved, **both(c, rows)},
        )


def negation_drops_null(c: Context) -> Iterator[Finding]:
    """`<>`, NOT IN and NOT LIKE, which no row satisfies that holds NULL."""
    exp = sqlglot_module("expressions")
    columns = {
        each.ref.place: each.ref
        for each in c.query.predicates
        if each.operator in ("!=", "not in", "not like") and each.column.nullable
    }
    columns |= {edge.left.place: edge.left for edge in c.query.edges if edge.negated and _is_nullable(c, edge.left)}
    if not columns:
        return
    tree, names = copied(c), {(ref.alias, ref.place[1]) for ref in columns.values()}
    told = []
    for node in list(tree.find_all(exp.NEQ, exp.Not)):
        tested = node.this.this if isinstance(node, exp.Not) else node.this
        of_a_test = isinstance(node, exp.NEQ) or isinstance(node.this, (exp.In, exp.Like, exp.EQ))
        if not of_a_test or not isinstance(tested, exp.Column) or node.find_ancestor(exp.Not):
            continue
        if (tested.table, tested.name.casefold()) in names:
            told.append(c.query.sql(node))
            node.replace(exp.paren(exp.or_(node.copy(), exp.Is(this=tested.copy(), expression=exp.Null()))))
    rows = other_rows(c, tree, "the result with rows that hold NULL where something is excluded") if told else None
    if rows is not None:
        yield Finding(
            code="sql.negation_drops_null",
            message=f"{told[0]} also leaves out rows that hold NULL there: " + difference(c, rows, "with OR … IS NULL"),
            hint="Add OR … IS NULL if rows without a value are meant, too.",
            evidence={"condition": told[0], **both(c, rows)},
        )


def _is_nullable(c: Context, ref: Ref) -> bool:
    table = c.schema.table(ref.table)
    column = table.column(ref.column) if table else None
    return column is not None and column.nullable


def union_drops(c: Context) -> Iterator[Finding]:
    """UNION below SUM or AVG: different rows are added up, where UNION ALL would add up all.

    Below COUNT it is what is asked for: how many are in the one or the other.
    """
    exp = sqlglot_module("expressions")
    tree, found = copied(c), False
    for union in tree.find_all(exp.Union):
        select = union.find_ancestor(exp.Select)
        holder = union.find_ancestor(exp.CTE, exp.Subquery)
        added = select is not None and holder is not None and any(own(select, (exp.Sum, exp.Avg)))
        in_from = holder is not None and isinstance(holder.parent, (exp.From, exp.Join, exp.With))
        if union.args.get("distinct") and in_from and added:
            union.set("distinct", False)
            found = True
    rows = other_rows(c, tree, "the result with UNION ALL") if found else None
    if rows is not None:
        yield Finding(
            code="sql.union_drops_rows",
            message="UNION leaves one of rows that are alike before they are added up: "
            + difference(c, rows, "with UNION ALL"),
            hint="Write UNION ALL where each row counts.",
            evidence=both(c, rows),
        )


def by_label(c: Context) -> Iterator[Finding]:
    """INTERSECT, EXCEPT, IN or NOT IN by a name that rows share: by the key, the result is another."""
    for told, tree in [*_set_by_key(c), *_looked_up_by_key(c)]:
        place = f"{told[0].name}.{told[1]}"
        rows = other_rows(c, tree, f"the result with the key of {told[0].name} in place of {told[1]}")
        if rows is None:
            continue
        yield Finding(
            code="sql.set_by_label",
            message=f"rows are compared by {place}, which different rows share: " + difference(c, rows, "by the key"),
            hint=f"Compare {', '.join(told[0].primary)} of {told[0].name}, and show {told[1]} of what is left.",
            evidence={"column": place, "key": list(told[0].primary), **both(c, rows)},
        )
        return


def _set_by_key(c: Context) -> Iterator[tuple[tuple[Table, str], Any]]:
    exp = sqlglot_module("expressions")
    whole = c.query.qualified
    if not isinstance(whole, (exp.Intersect, exp.Except)) or not whole.args.get("distinct"):
        return
    sides = [
        next((each for each in c.query.results if each.node is node), None) for node in (whole.this, whole.expression)
    ]
    refs = [_label_shown(c, side) if side is not None and not side.has("group") else None for side in sides]
    one, other = refs
    if one is None or other is None or one.place != other.place or sides[0] is None:
        return
    table, tree = sides[0].tables[one.alias], copied(c)
    label = sides[0].node.expressions[0].alias_or_name
    for side, ref in ((tree.this, one), (tree.expression, other)):
        keys = [exp.column(name, table=ref.alias, quoted=True) for name in table.primary]
        side.set("expressions", [*side.expressions, *(exp.alias_(key, f"key_{i}") for i, key in enumerate(keys))])
    tree.set("order", None)
    keyed = exp.Subquery(this=tree, alias=exp.TableAlias(this=exp.to_identifier("keyed")))
    yield (table, one.column), exp.select(exp.column(label, quoted=True)).distinct().from_(keyed)


def _label_shown(c: Context, select: Select) -> Ref | None:
    """What a select shows, when it is one column, and no key, of a table with a key."""
    exp = sqlglot_module("expressions")
    shown = select.projections
    ref = resolve(shown[0], select.scope, c.schema) if len(shown) == 1 and isinstance(shown[0], exp.Column) else None
    table = select.tables.get(ref.alias) if ref is not None else None
    return ref if ref is not None and table is not None and _may_be_label(table, ref) else None


def _may_be_label(table: Table, ref: Ref) -> bool:
    foreign = {name.casefold() for key in table.foreign for name in key.columns}
    names_rows = name_stems(ref.column)[-1:] in ([word] for word in _LABELS)
    return names_rows and bool(table.primary) and not table.is_key({ref.place[1]}) and ref.place[1] not in foreign


def _looked_up_by_key(c: Context) -> Iterator[tuple[tuple[Table, str], Any]]:
    for edge in c.query.edges:
        table = c.schema.table(edge.left.table)
        if edge.kind != "subquery" or edge.left.place != edge.right.place or table is None:
            continue
        tree = _by_key(c, edge, table) if len(table.primary) == 1 and _may_be_label(table, edge.left) else None
        if tree is not None:
            yield (table, edge.left.column), tree


def _by_key(c: Context, edge: Edge, table: Table) -> Any:
    """The tree with `key IN (SELECT key …)` for `label IN (SELECT label …)`, or None."""
    exp = sqlglot_module("expressions")
    tree = copied(c)
    for node in tree.find_all(exp.In):
        inner = node.args.get("query")
        inner = inner.this if isinstance(inner, exp.Subquery) else inner
        if not isinstance(inner, exp.Select) or inner.sql() != edge.subquery.sql() or inner.args.get("group"):
            continue
        shown = inner.expressions[0].unalias()
        if isinstance(node.this, exp.Column) and node.this.table == edge.left.alias and isinstance(shown, exp.Column):
            key = table.primary[0]
            inner.set("expressions", [exp.column(key, table=shown.table, quoted=True)])
            node.set("this", exp.column(key, table=edge.left.alias, quoted=True))
            return tree
    return None


RULES: tuple[Rule, ...] = (filter_repeats, outer_join_undone, negation_drops_null, union_drops, by_label)
