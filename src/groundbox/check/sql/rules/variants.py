"""The same query said otherwise: where a rewriting that ought not to matter changes the result."""

from __future__ import annotations

from collections.abc import Iterator

from groundbox.check.sql.finding import Context, Finding, Rule
from groundbox.check.sql.parts import sqlglot_module


def outer_join(c: Context) -> Iterator[Finding]:
    """LEFT JOIN that keeps rows without a partner, though the question does not speak of them."""
    exp = sqlglot_module("expressions")
    top = c.query.top
    if c.rows is None or top is None:
        return
    tree = c.query.qualified.copy()
    joins = [join for join in tree.find_all(exp.Join) if join.side in ("LEFT", "RIGHT", "FULL")]
    if not joins or "is null" in c.query.text.casefold():
        return
    for join in joins:
        join.set("side", None)
        join.set("kind", "INNER")
    inner = c.budget.ask(c.query.sql(tree), "the result with inner joins")
    if inner is None or sorted(map(repr, inner.rows)) == sorted(map(repr, c.rows.rows)):
        return
    yield Finding(
        code="sql.outer_join_matters",
        message=f"with inner joins the result has {len(inner.rows)} rows, not {len(c.rows.rows)}: rows without a "
        "partner are in it",
        hint="Keep them if the question means also those that have none.",
        evidence={"outer": len(c.rows.rows), "inner": len(inner.rows)},
    )


def lost_rows(c: Context) -> Iterator[Finding]:
    """An inner join that drops rows, where the question asks for each."""
    exp = sqlglot_module("expressions")
    top = c.query.top
    if c.rows is None or top is None or c.question is None or not c.question.each or len(top.tables) != 2:
        return
    tree = c.query.qualified.copy()
    joins = list(tree.find_all(exp.Join))
    if len(joins) != 1 or joins[0].side or not joins[0].args.get("on") or top.has("where"):
        return
    tree.find(exp.Join).set("side", "FULL" if c.query.dialect != "mysql" else "LEFT")
    outer = c.budget.ask(c.query.sql(tree), "the result with outer joins")
    if outer is not None and len(outer.rows) > len(c.rows.rows):
        yield Finding(
            code="sql.inner_join_drops",
            message=f"{len(outer.rows) - len(c.rows.rows)} rows have no partner and are dropped by the join",
            hint="Use LEFT JOIN if the question means also those that have none.",
            evidence={"inner": len(c.rows.rows), "outer": len(outer.rows)},
        )


RULES: tuple[Rule, ...] = (outer_join, lost_rows)
