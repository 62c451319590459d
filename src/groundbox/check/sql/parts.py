"""Parts of a query: selects, the columns they set equal, what they compare with constants, which joins repeat rows."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from groundbox.check.sql.source import Column, Schema, Table


@dataclasses.dataclass(frozen=True)
class Ref:
    """A column of a table of the database, by the alias that a select reads it under; as text, `table.column`.

    Attributes:
        owner: The table itself, as `declared` is the column itself.
    """

    alias: str
    table: str
    column: str
    owner: Table = dataclasses.field(repr=False, compare=False)
    declared: Column = dataclasses.field(repr=False, compare=False)

    def __str__(self) -> str:
        return f"{self.table}.{self.column}"

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
        group: The conjunction it is part of; predicates of one group must all hold. 0 is that of the whole condition.
    """

    ref: Ref
    operator: str
    values: tuple[Any, ...]
    group: int
    node: Any = dataclasses.field(repr=False, compare=False)

    @property
    def in_or(self) -> bool:
        """Tell whether it stands beneath an OR, and need not hold."""
        return self.group > 0

    def through(self, *functions: str) -> bool:
        """Tell whether one of sqlglot's functions, such as `Lower`, stands between the column and the constants."""
        return self.node.find(*(getattr(exp, name) for name in functions)) is not None

    @property
    def any_case(self) -> bool:
        """Tell whether letters may differ in case: LOWER(x) = 'a', x ILIKE 'a', x COLLATE NOCASE = 'a'."""
        return self.through("Lower", "Upper", "Collate", "ILike")


@dataclasses.dataclass(kw_only=True)
class Select:
    """A SELECT with what it reads, joins and compares.

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
    schema: Schema = dataclasses.field(repr=False)

    def ref(self, node: Any) -> Ref | None:
        """The column of a table that a node stands for, which may be one of a select around it; None for others."""
        return resolve(node, self.scope, self.schema) if isinstance(node, exp.Column) else None

    @property
    def tables(self) -> dict[str, Table]:
        """The aliases that stand for tables."""
        return {alias: table for alias, table in self.sources.items() if table is not None}

    def joins(self) -> Iterator[tuple[Ref, Ref]]:
        """The two columns of each join, once from either side."""
        for edge in self.edges:
            if edge.kind == "join":
                yield edge.left, edge.right
                yield edge.right, edge.left

    def fixed(self, alias: str) -> Iterator[Ref]:
        """The columns of an alias that a condition fixes: `WHERE o.kind = 1` makes (id, kind) as good a key as (id)."""
        for each in self.predicates:
            if each.ref.alias == alias and each.operator == "=" and not each.in_or:
                yield each.ref

    @property
    def projections(self) -> list[Any]:
        """Return what it gives, without the aliases."""
        return [each.unalias() for each in self.node.expressions]

    def shown_columns(self) -> list[Any]:
        """The columns in what it gives, not those of subqueries."""
        return [column for root in self.node.expressions for column in own(root, exp.Column)]

    def has(self, *names: str) -> bool:
        """Tell whether it has such clauses: `group`, `order`, `limit`, `distinct`, `having`, `where`."""
        return all(self.node.args.get(name) is not None for name in names)

    def aggregates(self) -> list[Any]:
        """The aggregate functions in its own projections, not those of subqueries or windows."""
        return [
            found
            for root in self.node.expressions
            for found in own(root, exp.AggFunc)
            if not isinstance(found.parent, exp.Window) and not isinstance(found, exp.Filter)
        ]


def sqlglot_module(name: str) -> Any:
    """A module of sqlglot, which is imported when the first query is looked at."""
    return importlib.import_module(f"sqlglot.{name}")


class _Expressions:
    """The classes of `sqlglot.expressions`, each imported at its first use."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(sqlglot_module("expressions"), name)
        setattr(self, name, found)
        return found


exp: Final[Any] = _Expressions()


def is_one_of(node: Any, names: Sequence[str]) -> bool:
    """Return whether a node is of one of sqlglot's classes."""
    return isinstance(node, tuple(getattr(exp, name) for name in names))


def resolve(column: Any, scope: Any, schema: Schema) -> Ref | None:
    """The column of a table that a column of a query stands for, also through subqueries that hand it on."""
    alias = column.table
    while scope is not None:
        # A correlated subquery reads columns of the scopes around it; the nearest that has the alias is meant.
        source = scope.sources.get(alias) if alias else None
        if source is not None:
            # Eight subqueries that hand a column on; recursive CTEs would go on for ever.
            return _of_source(source, alias, column.name, schema, 8)
        scope = scope.parent
    return None


def _of_source(source: Any, alias: str, name: str, schema: Schema, deep: int) -> Ref | None:
    if isinstance(source, exp.Table):
        return _ref_in(schema.table(source.name), alias, name)
    node = getattr(source, "expression", None)
    if deep == 0 or not isinstance(node, exp.Select):
        return None
    for projection in node.expressions:
        inner = projection.unalias()
        if projection.alias_or_name.casefold() == name.casefold() and isinstance(inner, exp.Column):
            below = source.sources.get(inner.table)
            found_below = _of_source(below, inner.table, inner.name, schema, deep - 1) if below is not None else None
            return found_below and dataclasses.replace(found_below, alias=alias)
    return None


def _ref_in(table: Table | None, alias: str, name: str) -> Ref | None:
    found = table.column(name) if table else None
    return Ref(alias, table.name, found.name, table, found) if table and found else None


def constant(node: Any) -> Any:
    """A literal's value, or None for anything else."""
    if isinstance(node, exp.Paren):
        return constant(node.this)
    if isinstance(node, exp.Neg):
        value = constant(node.this)
        return -value if isinstance(value, (int, float)) else None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Date) or (isinstance(node, exp.Cast) and node.is_type("date")):
        value = constant(node.this)  # DATE '2024-03-31'
        return value if isinstance(value, str) and not node.expressions else None
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


def is_negated(node: Any) -> bool:
    """Return whether a condition stands beneath an odd number of NOTs."""
    negated = bool(node.args.get("negate"))
    while isinstance(node.parent, (exp.Paren, exp.Connector, exp.Not)):
        node = node.parent
        negated ^= isinstance(node, exp.Not)
    return negated


def nullable_aliases(select: Any) -> dict[str, Any]:
    """The aliases whose rows an outer join may leave NULL, each with the join."""
    found: dict[str, Any] = {}
    source = select.args.get("from_") or select.args.get("from")
    before = [source.this.alias_or_name] if source is not None else []
    for join in select.args.get("joins") or ():
        if join.side in ("LEFT", "FULL"):
            found[join.alias_or_name] = join
        if join.side in ("RIGHT", "FULL"):
            found |= {alias: join for alias in before if alias not in found}
        before.append(join.alias_or_name)
    return found


def own(root: Any, kind: Any) -> Iterator[Any]:
    """Nodes of a kind beneath `root` that are not in a subquery of it."""
    for node in root.dfs(prune=lambda each: isinstance(each, exp.Query) and each is not root):
        if isinstance(node, kind):
            yield node


COMPARISONS: Final = {"EQ": "=", "NEQ": "!=", "GT": ">", "GTE": ">=", "LT": "<", "LTE": "<="}
"""The classes of sqlglot that compare, by their names."""
TURNED: Final = {"=": "=", "!=": "!=", ">": "<", ">=": "<=", "<": ">", "<=": ">="}
"""How a comparison reads from its other side: `3 < x` is `x > 3`."""
NEGATED: Final = {"=": "!=", "!=": "=", ">": "<=", ">=": "<", "<": ">=", "<=": ">"}
EXTREME_SUBQUERY: Final = re.compile(r"=\s*\(\s*select\s+(?:max|min)\s*\(", re.IGNORECASE)
"""Matches `= (SELECT MAX(…)`: a query that chooses all rows which share an extreme, and may well give several."""


def compare(select: Select) -> None:
    """Find what the select's conditions compare."""
    conditions = [join.args["on"] for join in select.node.args.get("joins") or () if join.args.get("on")]
    if select.has("where"):
        # ON and WHERE are read alike: of an inner join they mean the same, and of an outer one rules look at the join
        # itself.
        conditions.append(select.node.args["where"].this)
    finder = _Finder(select)
    for condition in conditions:
        finder.walk(condition, group=0, negated=False)


class _Finder:
    def __init__(self, select: Select) -> None:
        self._select = select
        self._groups = itertools.count(1)

    def walk(self, node: Any, *, group: int, negated: bool) -> None:
        if isinstance(node, exp.Paren):
            self.walk(node.this, group=group, negated=negated)
        elif isinstance(node, exp.Not):
            self.walk(node.this, group=group, negated=not negated)
        # De Morgan's laws: NOT (a OR b) holds where neither does, NOT (a AND b) where one of them does not.
        elif isinstance(node, exp.Or if negated else exp.And):
            for side in (node.left, node.right):
                self.walk(side, group=group, negated=negated)
        elif isinstance(node, exp.And if negated else exp.Or):
            # Each side of an OR is a conjunction of its own; two predicates of one group must hold together, of two
            # they need not.
            for side in (node.left, node.right):
                self.walk(side, group=next(self._groups), negated=negated)
        else:
            self._leaf(node, group, negated)

    def _leaf(self, node: Any, group: int, negated: bool) -> None:
        kind = type(node).__name__
        if kind in COMPARISONS:
            operator = NEGATED[COMPARISONS[kind]] if negated else COMPARISONS[kind]
            self._comparison(node, operator, group)
        elif isinstance(node, exp.In):
            self._in(node, group, negated)
        elif isinstance(node, (exp.Like, exp.ILike)):
            negated ^= bool(node.args.get("negate"))  # how newer versions of sqlglot read NOT LIKE
            self._predicate(self._ref(node.this), "not like" if negated else "like", [node.expression], group, node)
        # BETWEEN is two bounds, each of which a rule may compare with the question; NOT BETWEEN is one or the other.
        elif isinstance(node, exp.Between):
            for bound, operator in (("low", ">="), ("high", "<=")):
                told, where = (NEGATED[operator], next(self._groups)) if negated else (operator, group)
                self._predicate(self._ref(node.this), told, [node.args[bound]], where, node)
        elif isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            self._predicate(self._ref(node.this), "is not null" if negated else "is null", (), group, node)

    def _comparison(self, node: Any, operator: str, group: int) -> None:
        left, right = self._ref(node.left), self._ref(node.right)
        if left and right:
            # `a.x = a.y` looks at one row and joins nothing.
            if operator == "=" and left.alias != right.alias:
                self._select.edges.append(Edge(left, right, "join"))
            return
        for ref, other, told in ((left, node.right, operator), (right, node.left, TURNED[operator])):
            if told not in ("=", "!=") or not self._lookup(ref, other, negated=told == "!="):
                self._predicate(ref, told, [other], group, node)

    def _in(self, node: Any, group: int, negated: bool) -> None:
        ref, query = self._ref(node.this), node.args.get("query")
        if query is not None:
            self._lookup(ref, query, negated=negated)
        elif node.expressions:
            self._predicate(ref, "not in" if negated else "in", node.expressions, group, node)

    def _lookup(self, ref: Ref | None, query: Any, *, negated: bool) -> bool:
        """Add the edge of a column that is looked up in a subquery, where that is what it is."""
        inner = self._looked_up(query) if ref is not None else None
        if ref is None or inner is None:
            return False
        self._select.edges.append(Edge(ref, inner, "subquery", negated, _bare(query)))
        return True

    def _predicate(self, ref: Ref | None, operator: str, values: Sequence[Any], group: int, node: Any) -> None:
        constants = tuple(constant(value) for value in values)
        if ref is not None and None not in constants:
            found = Predicate(ref=ref, operator=operator, values=constants, group=group, node=node)
            self._select.predicates.append(found)

    def _ref(self, node: Any) -> Ref | None:
        # LOWER(city) = 'paris' says of city what it is compared with; `Predicate.through` tells that something is
        # between.
        while isinstance(node, (exp.Paren, exp.Lower, exp.Upper, exp.Trim, exp.Cast, exp.Collate)):
            node = node.this
        return self._select.ref(node)

    def _looked_up(self, node: Any) -> Ref | None:
        """The column that a subquery gives, when it is a plain one."""
        node = _bare(node)
        if not isinstance(node, exp.Select) or len(node.expressions) != 1:
            return None
        column = node.expressions[0].unalias()
        if not isinstance(column, exp.Column):
            return None
        scopes = self._select.scope.subquery_scopes
        # By identity: the same subquery may stand twice.
        scope = next((each for each in scopes if each.expression is node), None)
        return resolve(column, scope, self._select.schema) if scope is not None else None


def _bare(node: Any) -> Any:
    """Return what stands in parentheses."""
    while isinstance(node, (exp.Paren, exp.Subquery)):
        node = node.this
    return node


# Walks from `alias` along the joins. A table whose key is fixed by what was reached gives one row at most; any other
# may give several, and with each of them the rows of `alias` come again (the fan-out of a join).
def repeaters(select: Select, alias: str) -> list[str]:
    """The aliases whose rows may repeat a row of `alias`: what the join and the conditions fix is no key of them."""
    reached, found = {alias}, []
    while others := _neighbours(select, reached):
        for other in others:
            table = select.tables.get(other)
            if table is not None and not table.is_key(_fixed(select, other, reached)):
                found.append(other)
            reached.add(other)
    return found


def _neighbours(select: Select, reached: set[str]) -> list[str]:
    joined = (other.alias for one, other in select.joins() if one.alias in reached and other.alias not in reached)
    return list(dict.fromkeys(joined))


def _fixed(select: Select, alias: str, seen: set[str]) -> set[str]:
    """Columns of an alias, folded, that a row of the others or a constant fixes."""
    fixed = {ref.place[1] for ref in select.fixed(alias)}
    joined = {other.place[1] for one, other in select.joins() if one.alias in seen and other.alias == alias}
    return fixed | joined


def components(select: Select) -> list[set[str]]:
    """The aliases, in groups that conditions join."""
    groups: list[set[str]] = [{alias} for alias in select.sources]
    for one, other in select.joins():
        groups = merged_groups(groups, {one.alias, other.alias})
    return groups


def merged_groups(groups: list[set[str]], aliases: set[str]) -> list[set[str]]:
    """The groups, of which those with one of these aliases are one group now."""
    touched = [group for group in groups if group & aliases]
    return [group for group in groups if group not in touched] + ([set().union(*touched)] if touched else [])
