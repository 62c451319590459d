"""Rows that are told more than once, sums over them, groups of one, and rows of which any may be taken."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from groundbox.check.sql.finding import Context, Finding, Rule
from groundbox.check.sql.parts import EXTREME_SUBQUERY, Ref, Select, components, constant, exp, own, repeaters
from groundbox.check.sql.question import DISTINCT, name_stems
from groundbox.check.sql.source import Table


def duplicates(c: Context) -> Iterator[Finding]:
    """Rows of the result that are alike: by a join, of a key, where different ones are asked for, or as they are."""
    rows, top = c.rows, c.query.top
    if rows is None or top is None:
        return
    count = len(rows.rows) - len(set(rows.rows))
    counted = [each for each in top.aggregates() if isinstance(each, exp.Count)]
    asked = _asks_for_different_ones(c, top)
    # `how many different …` with COUNT(x): one row cannot repeat, but what it counts may.
    if count == 0 and asked and counted and len(rows.rows) == 1:
        yield Finding(
            code="sql.duplicates_by_join",
            message="the question asks for a number of different ones; the query counts each as often as it is there",
            hint="Use COUNT(DISTINCT …).",
        )
    if count == 0:
        return
    joined, key = _repeated_by_a_join(top), _shown_key(top)
    reason = ""
    if key:
        reason = f": the same {key} is told more than once"
    elif asked:
        reason = ", and the question asks for different ones"
    elif joined:
        reason = ", and a join may have made them"
    yield Finding(
        code="sql.duplicates_by_join" if reason else "sql.duplicate_rows",
        message=f"{count} of {len(rows.rows)} rows of the result are repetitions{reason}",
        hint="Write DISTINCT, EXISTS or IN where each is meant once; else select what tells them apart.",
        evidence={"rows": len(rows.rows), "repetitions": count},
    )


def _asks_for_different_ones(c: Context, top: Select) -> bool:
    text = c.query.text.casefold()
    if c.question is None or not c.question.says(DISTINCT) or top.has("group"):
        return False
    # UNION, INTERSECT and EXCEPT make rows different by themselves, unless ALL says otherwise.
    return not any(word in text for word in ("distinct", "union", "intersect", "except"))


def _repeated_by_a_join(top: Select) -> bool:
    """Tell whether a join may have repeated the rows that are shown, by the keys of what it adds to them."""
    shown = {column.table for column in top.shown_columns()}
    # Columns of several tables, or of a subquery: nothing is known of their keys, so any join may have done it.
    if len(shown) != 1 or not shown <= set(top.tables) or len(top.tables) != len(top.sources):
        return len(top.sources) > 1
    return bool(repeaters(top, shown.pop()))


def _shown_key(top: Select) -> str:
    """The columns of the result, where each stands for a row of a table by its own key or a foreign one; else ""."""
    names = []
    for projection in top.projections:
        ref = top.ref(projection)
        if ref is None or not ref.owner.declares:
            return ""
        foreign = {name.casefold() for key in ref.owner.foreign if len(key.columns) == 1 for name in key.columns}
        if ref.place[1] not in foreign and {name.casefold() for name in ref.owner.primary} != {ref.place[1]}:
            return ""
        names.append(ref.column)
    return ", ".join(names)


def distinct_unneeded(c: Context) -> Iterator[Finding]:
    """DISTINCT that takes rows away though the question does not ask for different ones."""
    top = c.query.top
    if c.question is None or c.question.says(DISTINCT) or top is None or not top.has("distinct") or c.rows is None:
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


def fan_out(c: Context) -> Iterator[Finding]:
    """SUM or AVG of a column whose row the join repeats."""
    for select in c.query.selects:
        for aggregate in own(select.node, (exp.Sum, exp.Avg)):
            inner = aggregate.this
            if not isinstance(inner, exp.Column) or inner.table not in select.tables:
                continue
            # SUM(o.total) with the order's lines joined adds each total once for each line.
            many = repeaters(select, inner.table)
            if many:
                tables = sorted({select.tables[alias].name for alias in many if alias in select.tables})
                yield Finding(
                    code="sql.duplicates_by_join",
                    message=f"{c.query.sql(aggregate)} adds rows of {select.tables[inner.table].name} "
                    f"once for each row of {', '.join(tables)} that they are joined with",
                    hint="Aggregate before the join, or choose rows by EXISTS.",
                    evidence={"aggregate": c.query.sql(aggregate), "repeated_by": tables},
                )


def sum_of_different_ones(c: Context) -> Iterator[Finding]:
    """SUM(DISTINCT x) or AVG(DISTINCT x) of a column that rows share: equal values of different rows count once."""
    if c.question is not None and c.question.says(DISTINCT):
        return
    for select in c.query.selects:
        for aggregate in own(select.node, (exp.Sum, exp.Avg)):
            inner = aggregate.this
            if not isinstance(inner, exp.Distinct) or len(inner.expressions) != 1:
                continue
            ref = select.ref(inner.expressions[0])
            if ref is None or ref.owner.is_key({ref.place[1]}) or not c.probes.repeats(ref.table, [ref.column]):
                continue
            yield Finding(
                code="sql.duplicates_by_join",
                message=f"{c.query.sql(aggregate)} adds equal values of different rows of {ref.table} once",
                hint="Choose the rows by EXISTS instead of a join, and leave DISTINCT out.",
                evidence={"aggregate": c.query.sql(aggregate), "column": str(ref)},
            )


def counted_again(c: Context) -> Iterator[Finding]:
    """COUNT of rows that the join repeats, or SUM of 1 for each: of a key, by a condition, or as the question names."""
    if c.rows is None or not c.rows.complete:
        return
    for select in c.query.selects:
        grouped = _grouped(select) if select.has("group") else {}
        for count in own(select.node, (exp.Count, exp.Sum)):
            alias, counts = _counted(c, select, count)
            if alias and grouped is not None and not select.tables[alias].is_key(grouped.get(alias, set())):
                # COUNT(c.id) GROUP BY c.id counts what is joined, and is left alone.
                yield from _repeated(c, count, select, alias, _key(alias, _key_of(select.tables[alias])), counts)
            elif not alias and isinstance(count, exp.Count):
                for inner, repeated, key in _counted_below(c, select, count):
                    yield from _repeated(c, count, inner, repeated, key, None)


def _repeated(c: Context, count: Any, select: Select, alias: str, key: Any, counts: Any) -> Iterator[Finding]:
    """The finding on a count of rows of an alias, if the join repeats them and the result shows it."""
    many = sorted({select.tables[other].name for other in repeaters(select, alias) if other in select.tables})
    once = _counted_once(c, count, key, counts) if many else None
    if once is not None:
        yield Finding(
            code="sql.duplicates_by_join",
            message=f"{c.query.sql(count)} counts rows of {select.tables[alias].name} once for each row of "
            f"{', '.join(many)} that they are joined with{once}",
            hint=f"Write COUNT(DISTINCT {key.table}.{key.name}), or choose rows by EXISTS.",
            evidence={"aggregate": c.query.sql(count), "repeated_by": many},
        )


def _counted_below(c: Context, select: Select, count: Any) -> Iterator[tuple[Select, str, Any]]:
    """The select of a subquery whose rows are counted, the alias there whose key it shows, and the shown key."""
    if len(select.sources) != 1 or select.tables or isinstance(count.parent, exp.Window):
        return
    (outer,) = select.sources
    node = getattr(select.scope.sources.get(outer), "expression", None)
    inner = next((each for each in c.query.selects if each.node is node), None)
    if inner is None or inner.has("group") or inner.has("distinct") or inner.has("limit") or inner.aggregates():
        return
    for projection in inner.node.expressions:
        ref, name = inner.ref(projection.unalias()), projection.alias_or_name
        if ref is None or ref.alias not in inner.tables or not ref.owner.is_key({ref.place[1]}):
            continue
        is_named = c.question is not None and _is_counted(c.question.text, ref.table)
        is_column = isinstance(count.this, exp.Column) and count.this.name.casefold() == name.casefold()
        if is_column or (isinstance(count.this, exp.Star) and (is_named or len(inner.node.expressions) == 1)):
            yield inner, ref.alias, _key(outer, name)


def _key_of(table: Table) -> str:
    """The one column that is a key of a table, or was found to be one in the data; else ""."""
    keys = [table.primary, *(tuple(columns) for columns in table.unique)]
    return next((columns[0] for columns in keys if len(columns) == 1), "")


def _key(alias: str, column: str) -> Any:
    return exp.column(exp.to_identifier(column, quoted=True), table=exp.to_identifier(alias, quoted=True))


def _counted(c: Context, select: Select, count: Any) -> tuple[str, Any]:
    """The alias whose rows are counted, and the condition that they satisfy; "" if it is not known which are."""
    if len(select.tables) != len(select.sources) or isinstance(count.parent, exp.Window):
        return "", None
    named = {
        alias
        for alias, table in select.tables.items()
        if c.question is not None and _is_counted(c.question.text, table.name)
    }
    inner, counts = count.this, None
    if isinstance(inner, exp.Star):
        aliases = named
    elif isinstance(inner, exp.Distinct):
        return "", None
    elif isinstance(count, exp.Count):
        aliases = {column.table for column in own(inner, exp.Column)}
        counts = exp.Not(this=exp.Is(this=inner.copy(), expression=exp.Null()))
    else:
        branches = inner.args["ifs"] if isinstance(inner, exp.Case) and inner.this is None else [inner]
        if len(branches) != 1 or not isinstance(branches[0], exp.If) or constant(branches[0].args.get("true")) != 1:
            return "", None
        if constant(inner.args.get("default") or inner.args.get("false") or exp.Literal.number(0)) != 0:
            return "", None
        counts = branches[0].this.copy()
        aliases = {column.table for column in own(counts, exp.Column)}
    alias = next(iter(aliases), "")
    if len(aliases) != 1 or alias not in select.tables or not _key_of(select.tables[alias]):
        return "", None
    if named and alias not in named:
        return "", None  # the question counts something else
    ref = select.ref(inner)
    is_sure = alias in named or ref is None or ref.owner.is_key({ref.place[1]})
    return (alias, counts) if is_sure else ("", None)


def _is_counted(question: str, table: str) -> bool:
    """Return whether a question asks how many rows of a table there are, as in "How many orders were shipped?"."""
    name = table.rpartition("/")[2].partition(".")[0]  # of a file, without its ending
    words = [r"(?:\w+\s+){0,1}", *(rf"{re.escape(stem)}\w{{0,3}}\s*" for stem in name_stems(name))]
    return (
        re.search(
            rf"\b(?:how many|number of|count(?: of)?)\s+(?:the\s+|all\s+)?{''.join(words)}\b", question, re.IGNORECASE
        )
        is not None
    )


def _counted_once(c: Context, count: Any, key: Any, counts: Any) -> str | None:
    """How the result changes if each row is counted once; None if it does not."""
    if counts is not None:
        key = exp.Case(ifs=[exp.If(this=counts, true=key)])
    other = exp.Count(this=exp.Distinct(expressions=[key]))
    count.replace(other)
    try:
        sql = c.query.sql(c.query.qualified)
    finally:
        other.replace(count)
    answer, rows = c.budget.ask(sql, "the result with each row counted once"), c.rows.rows if c.rows else []
    if answer is None or sorted(map(repr, answer.rows)) == sorted(map(repr, rows)):
        return None
    is_one = len(rows) == len(answer.rows) == 1 and len(rows[0]) == 1
    return f": {rows[0][0]} instead of {answer.rows[0][0]}" if is_one else ""


def group_of_one(c: Context) -> Iterator[Finding]:
    """GROUP BY something that no two rows share."""
    for select in c.query.selects:
        if not select.has("group") or not select.tables or not c.has_rows:
            continue
        if not all(table.declares for table in select.tables.values()):
            continue  # one row for each group may be chance, and is no key that was grouped by
        # An expression such as YEAR(day) makes groups of many rows, whatever its column.
        columns = _grouped(select)
        if columns is None or len(select.sources) != len(select.tables):
            continue
        if not any(own(select.node, exp.AggFunc)):
            continue
        if all(_fixed_by(select, alias, columns) for alias in select.tables):
            names = [c.query.sql(node) for node in select.node.args["group"].expressions]
            yield Finding(
                code="sql.group_of_one",
                message=f"GROUP BY {', '.join(names)} makes a group of each single row: these columns hold a key",
                hint="Group by what the question counts for, not by a key of the counted rows.",
                evidence={"group": names},
            )


def _grouped(select: Select) -> dict[str, set[str]] | None:
    """Alias to folded columns that are grouped by; None when something else is, too."""
    found: dict[str, set[str]] = {}
    for node in select.node.args["group"].expressions:
        ref = select.ref(node)
        if ref is None:
            return None
        found.setdefault(ref.alias, set()).add(ref.place[1])
    return found or None


def _fixed_by(select: Select, alias: str, columns: dict[str, set[str]]) -> bool:
    """Tell whether one group has one row of an alias: its key is grouped by, or it is looked up from one that is."""
    if alias not in select.tables:
        return False
    if select.tables[alias].is_key(columns.get(alias, set())):
        return True
    return any(
        owner != alias
        and owner in select.tables
        and select.tables[owner].is_key(named)
        and alias not in repeaters(select, owner)
        and any({owner, alias} <= group for group in components(select))
        for owner, named in columns.items()
    )


def arbitrary_row(c: Context) -> Iterator[Finding]:
    """A value of which nothing says which row it comes from."""
    for message, hint, evidence in (*_bare(c), *_one_of_many(c), *_first_of_any(c)):
        yield Finding(code="sql.arbitrary_row", message=message, hint=hint, evidence=evidence)


Told = tuple[str, str, dict[str, Any]]
"""Message, hint and evidence."""


def _bare(c: Context) -> Iterator[Told]:
    """A column beside an aggregate, in HAVING or in ORDER BY, that the group does not fix."""
    for select in c.query.selects:
        if not (select.aggregates() or select.has("group")) or _of_the_extreme_row(c, select):
            continue
        nodes = select.node.args["group"].expressions if select.has("group") else []
        keys = _grouped(select) if select.has("group") else {}
        if keys is None or (nodes and select.node.args["group"].args.get("all")):
            continue
        grouped = {c.query.sql(node) for node in nodes}
        places = [("SELECT", each) for each in select.projections if isinstance(each, exp.Column)]
        for clause in ("having", "order"):
            if nodes and select.has(clause):
                outside = (column for column in own(select.node.args[clause], exp.Column) if column.table)
                places += [(clause.upper(), each) for each in outside if each.find_ancestor(exp.AggFunc) is None]
        for clause, column in places:
            ref = select.ref(column)
            if ref is None or c.query.sql(column) in grouped or _fixed_by(select, ref.alias, keys):
                continue
            if not _joined_to_grouped(select, ref, keys):
                message = (
                    f"{ref} in {clause} stands beside an aggregate and is not grouped by: any row's value may be taken"
                )
                hint = f"Group by {ref.column}, aggregate it, or look its row up in a subquery."
                yield message, hint, {"column": str(ref), "grouped": bool(grouped)}
                break


def _joined_to_grouped(select: Select, ref: Ref, keys: dict[str, set[str]]) -> bool:
    """Tell whether it is the other side of a join, or its table is looked up by what is grouped by."""
    table = select.tables.get(ref.alias)
    fixed = {
        other.place[1]
        for one, other in select.joins()
        if other.alias == ref.alias and one.place[1] in keys.get(one.alias, set())
    }
    return ref.place[1] in fixed or (table is not None and table.is_key(fixed))


def _of_the_extreme_row(c: Context, select: Select) -> bool:
    """Tell whether the only aggregate is one MIN or MAX: SQLite then shows the other columns of that row.

    https://www.sqlite.org/lang_select.html#bareagg
    """
    extremes = [each for each in own(select.node, exp.AggFunc) if isinstance(each, (exp.Min, exp.Max))]
    return c.query.dialect == "sqlite" and len(extremes) == 1 and len(select.aggregates()) == 1


def _one_of_many(c: Context) -> Iterator[Told]:
    """A subquery in the place of one value that gives several rows, of which SQLite silently takes one."""
    for select in c.query.selects:
        node, holder = select.node, select.node.parent
        if not isinstance(holder, exp.Subquery) or not isinstance(holder.parent, (exp.Binary, exp.Alias, exp.Select)):
            continue
        # FROM (SELECT …) is a table; as a projection it is a value.
        if isinstance(holder.parent, exp.Select) and holder.arg_key != "expressions":
            continue
        # A correlated subquery cannot be asked by itself; an aggregate without groups gives one row.
        if select.has("limit") or select.scope.external_columns or (select.aggregates() and not select.has("group")):
            continue
        size = c.probes.size_of(c.query.sql(node), "the rows of a subquery in the place of one value")
        if size is not None and size > 1:
            message = f"a subquery in the place of one value gives {size} rows, and one of them is taken"
            yield message, "Write IN instead of =, or make sure that it gives one row.", {"rows": size}


def _first_of_any(c: Context) -> Iterator[Told]:
    """LIMIT without ORDER BY."""
    for select in c.query.selects:
        if select.has("limit") and not select.has("order") and select.place != "derived":
            yield "LIMIT without ORDER BY: the engine may give any rows", "Say which rows come first.", {}


def several_share(c: Context) -> Iterator[Finding]:
    """`= (SELECT MAX …)` that several rows satisfy, where the question asks for what has the most or the least."""
    rows, question = c.rows, c.question
    if rows is None or question is None or not question.superlative or question.each or question.top_n is not None:
        return
    if len(rows.rows) > 1 and EXTREME_SUBQUERY.search(c.query.text):
        yield Finding(
            code="sql.tie",
            message=f"{len(rows.rows)} rows share the greatest or least value; the question may ask for one",
            hint="Say that there are several, or what to choose by among them.",
            evidence={"rows": len(rows.rows)},
        )


def tie(c: Context) -> Iterator[Finding]:
    """ORDER BY … LIMIT n, where the row after the last is as good as the last."""
    for select in c.query.selects:
        if not select.has("order", "limit") or not (select is c.query.top or select.place == "subquery"):
            continue
        limit = constant(select.node.args["limit"].expression)
        if not isinstance(limit, int) or limit < 1 or select.node.args.get("offset") or select.has("distinct"):
            continue
        tree = select.node.copy()
        names = {each.alias: each.unalias() for each in tree.expressions if each.alias}
        # ORDER BY may name an alias, whose projection is taken away below.
        for ordered in tree.args["order"].expressions:  # names of projections, which are not shown here
            key = ordered.this
            if isinstance(key, exp.Column) and not key.table and key.name in names:
                ordered.set("this", names[key.name].copy())
        keys = [ordered.this.copy() for ordered in tree.args["order"].expressions]
        # Only the keys are asked for, one row more than LIMIT gives: where the last two are equal, chance chose.
        tree.set("expressions", [exp.alias_(key, f"key_{i}", quoted=True) for i, key in enumerate(keys)])
        tree.set("limit", exp.Limit(expression=exp.Literal.number(limit + 1)))
        answer = c.budget.ask(c.query.sql(tree), "a tie at LIMIT", max_rows=limit + 1)
        if answer is None or len(answer.rows) <= limit or answer.rows[limit] != answer.rows[limit - 1]:
            continue
        yield Finding(
            code="sql.tie",
            message=f"row {limit} and the one after it are equal in what LIMIT {limit} chooses by: which one "
            "comes is chance",
            hint="Take all that share the value: WHERE x = (SELECT MAX(x) …), or say what comes next in the order.",
            evidence={"limit": limit, "value": list(answer.rows[limit])},
        )


RULES: tuple[Rule, ...] = (
    duplicates,
    distinct_unneeded,
    fan_out,
    sum_of_different_ones,
    counted_again,
    group_of_one,
    arbitrary_row,
    tie,
    several_share,
)
