"""The parts of a query: its selects, the columns they set equal, and what they compare with constants."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from groundbox.check.sql.schema import Column, Schema, Table


class Ref(NamedTuple):
    """A column of a table of the database, by the alias that a select reads it under."""

    alias: str
    table: str
    column: str

    @property
    def place(self) -> tuple[str, str]:
        """Table and column, without regard to case."""
        return self.table.casefold(), self.column.casefold()


class Edge(NamedTuple):
    """Two columns that are set equal: by a join, or because one is looked up in a subquery.

    Attributes:
        kind: `join`, or `subquery` for `x IN (SELECT y …)` and `x = (SELECT y …)`.
        subquery: Its node.
    """

    left: Ref
    right: Ref
    kind: str
    negated: bool = False
    subquery: Any = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Predicate:
    """A column compared with constants.

    Attributes:
        operator: `=`, `!=`, `<`, `<=`, `>`, `>=`, `in`, `not in`, `like`, `not like`, `is null`.
        values: Texts and numbers.
        in_or: Whether it stands beneath an OR.
        group: The conjunction it is part of; predicates of one group must all hold.
    """

    ref: Ref
    column: Column
    operator: str
    values: tuple[Any, ...]
    in_or: bool
    group: int
    node: Any = dataclasses.field(repr=False, compare=False)

    def through(self, *functions: str) -> bool:
        """Whether one of sqlglot's functions, such as `Lower`, stands between the column and the constants."""
        return self.node.find(*(getattr(sqlglot_module("expressions"), name) for name in functions)) is not None

    @property
    def any_case(self) -> bool:
        """Whether letters may differ in case: LOWER(x) = 'a', x ILIKE 'a', x COLLATE NOCASE = 'a'."""
        return self.through("Lower", "Upper", "Collate", "ILike")


@dataclasses.dataclass(kw_only=True)
class Select:
    """One SELECT.

    Attributes:
        node: sqlglot's, qualified.
        place: `result` for what gives the rows, else `subquery`, `derived`.
        sources: Aliases to tables of the database; None for a subquery or a CTE.
    """

    node: Any
    place: str
    sources: dict[str, Table | None]
    edges: list[Edge]
    predicates: list[Predicate]
    scope: Any

    @property
    def tables(self) -> dict[str, Table]:
        """The aliases that stand for tables."""
        return {alias: table for alias, table in self.sources.items() if table is not None}

    @property
    def projections(self) -> list[Any]:
        """What it gives, without the aliases."""
        return [each.unalias() for each in self.node.expressions]

    def has(self, *names: str) -> bool:
        """Whether it has such clauses: `group`, `order`, `limit`, `distinct`, `having`, `where`."""
        return all(self.node.args.get(name) is not None for name in names)

    def aggregates(self, node: Any = None) -> list[Any]:
        """The aggregate functions in its own projections, not those of subqueries or windows."""
        exp = sqlglot_module("expressions")
        roots = self.node.expressions if node is None else [node]
        return [
            found
            for root in roots
            for found in own(root, exp.AggFunc)
            if not isinstance(found.parent, exp.Window) and not isinstance(found, exp.Filter)
        ]


def sqlglot_module(name: str) -> Any:
    """A module of sqlglot, which is imported when the first query is looked at."""
    return importlib.import_module(f"sqlglot.{name}")


def resolve(column: Any, scope: Any, schema: Schema) -> Ref | None:
    """The column of a table that a column of a query stands for, also through subqueries that hand it on."""
    alias = column.table
    while scope is not None:
        source = scope.sources.get(alias) if alias else None
        if source is not None:
            return _of_source(source, alias, column.name, schema, 8)
        scope = scope.parent
    return None


def _of_source(source: Any, alias: str, name: str, schema: Schema, deep: int) -> Ref | None:
    exp = sqlglot_module("expressions")
    if isinstance(source, exp.Table):
        table = schema.table(source.name)
        found = table.column(name) if table else None
        return Ref(alias, table.name, found.name) if table and found else None
    node = getattr(source, "expression", None)
    if deep == 0 or not isinstance(node, exp.Select):
        return None
    for projection in node.expressions:
        inner = projection.unalias()
        if projection.alias_or_name.casefold() == name.casefold() and isinstance(inner, exp.Column):
            below = source.sources.get(inner.table)
            found_below = _of_source(below, inner.table, inner.name, schema, deep - 1) if below is not None else None
            return found_below and Ref(alias, found_below.table, found_below.column)
    return None


def resolve_named(select: Select, alias: str, column: str, schema: Schema) -> Ref | None:
    """The column of that name of what stands under an alias."""
    table = select.sources.get(alias)
    found = table.column(column) if table else None
    return Ref(alias, table.name, found.name) if table and found else None


def constant(node: Any) -> Any:
    """A literal's value, or None for anything else."""
    exp = sqlglot_module("expressions")
    if isinstance(node, exp.Paren):
        return constant(node.this)
    if isinstance(node, exp.Neg):
        value = constant(node.this)
        return -value if isinstance(value, (int, float)) else None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if not isinstance(node, exp.Literal):
        return None
    if node.is_string:
        return str(node.this)
    try:
        return int(node.this)
    except ValueError:
        try:
            return float(node.this)
        except ValueError:
            return None


def own(root: Any, kind: Any) -> Iterator[Any]:
    """Nodes of a kind beneath `root` that are not in a subquery of it."""
    exp = sqlglot_module("expressions")
    stack = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, kind):
            yield node
        for child in reversed(list(node.iter_expressions())):
            if not isinstance(child, exp.Query) or isinstance(child, exp.Table):
                stack.append(child)
