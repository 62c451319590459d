"""What the result looks like: empty, NULL, cut at a tie, or of another shape than the question asks for."""

from __future__ import annotations

from collections.abc import Iterator

from groundbox.check.sql.finding import Context, Finding, Rule
from groundbox.check.sql.parts import constant, resolve, sqlglot_module
from groundbox.check.sql.question import name_stems

_SUPERLATIVES = frozenset(
    {
        *("most", "least", "fewest", "largest", "smallest", "biggest", "highest", "lowest", "oldest", "youngest"),
        *("longest", "shortest", "best", "worst", "top", "maximum", "minimum", "greatest", "latest", "earliest"),
    }
)


def empty(c: Context) -> Iterator[Finding]:
    """No rows, or nothing but NULL."""
    rows = c.rows
    if rows is None:
        return
    if not rows.rows:
        yield from _empty(c)
        return
    values = [value for row in rows.rows for value in row]
    if values and all(value is None for value in values):
        yield Finding(
            code="sql.only_null",
            message="the result is nothing but NULL",
            hint="An aggregate of no rows is NULL; try the conditions without it.",
        )
        return
    for position, name in enumerate(rows.columns):
        if len(rows.rows) > 1 and all(row[position] is None for row in rows.rows):
            yield Finding(
                code="sql.null_column",
                message=f"the column {name} of the result is NULL in every row",
                hint="Check where it comes from; a join may not find its rows.",
                evidence={"column": name},
            )
    if len(rows.rows) == 1 and len(rows.columns) == 1 and rows.rows[0][0] == 0:
        yield Finding(
            code="sql.zero",
            message="the result is 0",
            hint="Try the conditions alone, and see which one leaves nothing.",
        )


def _empty(c: Context) -> Iterator[Finding]:
    for edge in c.query.edges:
        if edge.left.place == edge.right.place or edge.negated:
            continue
        one, other = edge.left, edge.right
        joined = (
            f"SELECT 1 FROM {c.probes.name(one.table)} AS one JOIN {c.probes.name(other.table)} AS other "
            f"ON one.{c.probes.name(one.column)} = other.{c.probes.name(other.column)} LIMIT 1"
        )
        answer = c.budget.ask(joined, f"whether {one.table} and {other.table} have rows in common", max_rows=1)
        if answer is not None and not answer.rows:
            told = f"{one.table}.{one.column} = {other.table}.{other.column}"
            yield Finding(
                code="sql.empty_join",
                message=f"the result has no rows: nothing at all satisfies {told}",
                hint="Join by the columns that refer to each other.",
                evidence={"condition": told},
            )
            return
    texts = any(isinstance(value, str) for each in c.query.predicates for value in each.values)
    yield Finding(
        code="sql.empty_result" if texts and not _empty_by_numbers(c) else "sql.empty_by_numbers",
        message="the result has no rows",
        hint="Try each condition alone, and see which one leaves nothing.",
    )


def _empty_by_numbers(c: Context) -> bool:
    """Whether there are rows without the comparisons with numbers: the constants that are texts are not the reason."""
    exp = sqlglot_module("expressions")
    numeric = [
        each
        for each in c.query.predicates
        if each.values and not any(isinstance(value, str) for value in each.values) and not each.in_or
    ]
    if not numeric:
        return False
    told = {c.query.sql(each.node) for each in numeric}
    tree = c.query.qualified.copy()
    for node in list(tree.find_all(exp.Predicate)):
        if c.query.sql(node) in told:
            node.replace(exp.true())
    answer = c.budget.ask(c.query.sql(tree), "the result without comparisons with numbers", max_rows=1)
    return answer is not None and bool(answer.rows)


def null_first(c: Context) -> Iterator[Finding]:
    """ORDER BY … LIMIT that chooses rows where what it orders by is NULL."""
    exp = sqlglot_module("expressions")
    for select in c.query.selects:
        if not select.has("order", "limit") or not (select is c.query.top or select.place == "subquery"):
            continue
        key = select.node.args["order"].expressions[0].this
        ref = resolve(key, select.scope, c.schema) if isinstance(key, exp.Column) else None
        limit = constant(select.node.args["limit"].expression)
        if ref is None or not isinstance(limit, int) or limit < 1 or select.has("group") or select.has("distinct"):
            continue
        tree = select.node.copy()
        tree.set("expressions", [exp.alias_(key.copy(), "key_0", quoted=True)])
        answer = c.budget.ask(c.query.sql(tree), "NULL among the rows that LIMIT takes", max_rows=limit)
        if answer is not None and any(row[0] is None for row in answer.rows):
            yield Finding(
                code="sql.null_first",
                message=f"LIMIT {limit} takes rows whose {ref.table}.{ref.column} is NULL, which comes first",
                hint=f"Add WHERE {ref.column} IS NOT NULL.",
                evidence={"column": f"{ref.table}.{ref.column}", "limit": limit},
            )


def scalar_of_many(c: Context) -> Iterator[Finding]:
    """A subquery in the place of one value that gives several rows, of which SQLite silently takes one."""
    exp = sqlglot_module("expressions")
    for select in c.query.selects:
        node = select.node
        holder = node.parent
        if not isinstance(holder, exp.Subquery) or not isinstance(holder.parent, (exp.Binary, exp.Alias, exp.Select)):
            continue
        if isinstance(holder.parent, exp.Select) and holder.arg_key != "expressions":
            continue
        if select.has("limit") or select.scope.external_columns or (select.aggregates() and not select.has("group")):
            continue
        size = c.probes.size_of(c.query.sql(node), "the rows of a subquery in the place of one value")
        if size is not None and size > 1:
            yield Finding(
                code="sql.one_of_many",
                message=f"a subquery in the place of one value gives {size} rows, and one of them is taken",
                hint="Write IN instead of =, or make sure that it gives one row.",
                evidence={"rows": size},
            )


def tie(c: Context) -> Iterator[Finding]:
    """ORDER BY … LIMIT n, where the row after the last is as good as the last."""
    exp = sqlglot_module("expressions")
    top = c.query.top
    selects = [select for select in c.query.selects if select.has("order", "limit")]
    for select in selects:
        limit = constant(select.node.args["limit"].expression)
        if not isinstance(limit, int) or limit < 1 or select.node.args.get("offset") is not None:
            continue
        if not (select is top or select.place == "subquery"):
            continue
        tree = select.node.copy()
        names = {each.alias: each.unalias() for each in tree.expressions if each.alias}
        for ordered in tree.args["order"].expressions:  # names of projections, which are not shown here
            key = ordered.this
            if isinstance(key, exp.Column) and not key.table and key.name in names:
                ordered.set("this", names[key.name].copy())
        keys = [ordered.this.copy() for ordered in tree.args["order"].expressions]
        if tree.args.get("distinct"):
            continue
        tree.set("expressions", [exp.alias_(key, f"key_{i}", quoted=True) for i, key in enumerate(keys)])
        tree.set("limit", exp.Limit(expression=exp.Literal.number(limit + 1)))
        answer = c.budget.ask(c.query.sql(tree), "a tie at LIMIT", max_rows=limit + 1)
        if answer is None or len(answer.rows) <= limit or answer.rows[limit] != answer.rows[limit - 1]:
            continue
        yield Finding(
            code="sql.tie_at_limit",
            message=f"row {limit} and the one after it are equal in what LIMIT {limit} chooses by: which one "
            "comes is chance",
            hint="Take all that share the value: WHERE x = (SELECT MAX(x) …), or say what comes next in the order.",
            evidence={"limit": limit, "value": list(answer.rows[limit])},
        )


def one_or_many(c: Context) -> Iterator[Finding]:
    """How many rows the question asks for."""
    rows, question, top = c.rows, c.question, c.query.top
    if rows is None or question is None or top is None:
        return
    count = len(rows.rows)
    if (
        question.how_many
        and not question.each
        and (count != 1 or not _is_number(rows.rows[0][0]))
        and len(rows.columns) == 1
    ):
        yield Finding(
            code="sql.how_many",
            message=f"the question asks how many; the result has {count} rows"
            + ("" if count != 1 else " and no number"),
            hint="Select COUNT(*), or the SUM of what is counted already.",
            evidence={"rows": count},
        )
    wanted = question.top_n
    if wanted is not None and count != wanted and not question.how_many:
        yield Finding(
            code="sql.top_n",
            message=f"the question asks for {wanted}; the result has {count} rows",
            hint=f"ORDER BY … LIMIT {wanted}.",
            evidence={"rows": count, "asked": wanted},
        )
    elif (
        question.superlative
        and not _of_a_name(c)
        and count > 1
        and not question.each
        and not question.counts
        and wanted is None
        and not top.aggregates()
    ) and not (
        top.has("limit")
        or "max(" in c.query.text.casefold()
        or "min(" in c.query.text.casefold()
        or "all" in question.stem_set
    ):
        yield Finding(
            code="sql.most_without_choice",
            message=f"the question asks for the most or the least of something; the query chooses none of {count} rows",
            hint="ORDER BY … LIMIT 1, or compare with MAX or MIN.",
            evidence={"rows": count},
        )
    if question.superlative and count > 1 and not question.each and wanted is None and not question.total:
        grouped = top.has("group") and not top.has("limit") and not top.has("having")
        if grouped and top.aggregates():
            yield Finding(
                code="sql.most_of_each_group",
                message=f"the question asks for one extreme; the query gives one for each of {count} groups",
                hint="Leave GROUP BY out, or keep the one group that is meant.",
                evidence={"rows": count},
            )
    extremes = "= (select m" in " ".join(c.query.text.casefold().replace("(", " (").split()).replace(
        "( select", "(select"
    )
    if question.superlative and extremes and count > 1:
        yield Finding(
            code="sql.several_share_extreme",
            message=f"{count} rows share the greatest or least value; the question asks for one",
            hint="Say that there are several, or what to choose by among them.",
            evidence={"rows": count},
        )


def _of_a_name(c: Context) -> bool:
    """Whether a word such as "best" is part of a column's name."""
    assert c.question is not None
    words = {word for table in c.schema for column in table.columns for word in name_stems(column.name)}
    return any(word in words for word in c.question.stems if word in _SUPERLATIVES)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) or value is None


RULES: tuple[Rule, ...] = (empty, scalar_of_many, tie, null_first, one_or_many)
