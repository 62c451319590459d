"""How large a query may become when it is qualified, found before that is done.

Qualifying writes out what stands for more: stars, aliases of aliases, `GROUP BY 1`, columns that joined tables share.
Each of them can double with every level, so that a query of five lines would fill the memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from groundbox.check.sql.parts import sqlglot_module
from groundbox.check.sql.schema import Schema

MOST_NODES: Final = 20_000
MOST_COLUMNS: Final = 4_000
"""That stars stand for."""


def too_large(tree: Any, schema: Schema) -> str:
    """Why a parsed query is not to be qualified, or an empty text."""
    if _starred(tree, schema) > MOST_COLUMNS:
        return "its stars stand for too many columns"
    exp = sqlglot_module("expressions")
    nodes = 0
    for select in tree.find_all(exp.Select):
        nodes += _written_out(select, exp)
        if nodes > MOST_NODES:
            return "its aliases, numbered groups or shared columns stand for too much"
    return ""


def _starred(tree: Any, schema: Schema) -> int:
    """At most how many columns a select may get from its stars: each may double those of the one below it."""
    exp = sqlglot_module("expressions")
    tables = [schema.table(table.name) for table in tree.find_all(exp.Table)]
    most = max((len(table.columns) for table in tables if table), default=0)
    for select in tree.find_all(exp.Select):
        sources = 1 + len(select.args.get("joins") or ())
        starred = [sources if isinstance(each, exp.Star) else 1 for each in select.expressions if each.is_star]
        most *= max(1, sum(starred))
        if most > MOST_COLUMNS:
            break
    return most


def _written_out(select: Any, exp: Any) -> int:
    """At most how many nodes a select has when each alias is the expression that it stands for."""
    sharing = sum(bool(join.args.get("using")) or join.method == "NATURAL" for join in select.args.get("joins") or ())
    sizes: dict[str, int] = {}
    largest, nodes = 0, 0

    def size(part: Any) -> int:
        columns = (each for each in part.walk() if isinstance(each, exp.Column) and not each.table)
        named: list[int] = [4 * sharing + sizes.get(each.name.casefold(), 0) for each in columns]
        return sum(1 for _ in part.walk()) + sum(named)

    for projection in select.expressions:
        one = size(projection)
        if isinstance(projection, exp.Alias):
            sizes[projection.alias.casefold()] = one
        largest, nodes = max(largest, one), nodes + one
        if nodes > MOST_NODES:
            return nodes
    group = select.args.get("group")
    numbered = sum(isinstance(each, exp.Literal) for each in group.expressions) if group else 0
    return nodes + numbered * largest + sum(size(part) for part in _clauses(select, exp))


def _clauses(select: Any, exp: Any) -> Iterator[Any]:
    """Its parts that may name aliases."""
    for name in ("where", "group", "having", "qualify", "order", "distinct"):
        part = select.args.get(name)
        if isinstance(part, exp.Expression):
            yield part
