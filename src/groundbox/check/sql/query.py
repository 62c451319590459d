"""A query taken apart: its selects, what they read, which columns they set equal, which values they compare with.

sqlglot parses and qualifies it with the live schema. Where it cannot, there is no query, and a word why.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from groundbox.check.sql.schema import Column, Schema, Table

MOST_CHARS: Final = 20_000
_MOST_DEPTH: Final = 60
_COMPARISONS: Final = {"EQ": "=", "NEQ": "!=", "GT": ">", "GTE": ">=", "LT": "<", "LTE": "<="}
_TURNED: Final = {"=": "=", "!=": "!=", ">": "<", ">=": "<=", "<": ">", "<=": ">="}


class NotTakenApart(Exception):
    """A text that is not looked at: it is no single query, or too much."""


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
    """

    left: Ref
    right: Ref
    kind: str
    negated: bool = False


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
            for found in _own(root, exp.AggFunc)
            if not isinstance(found.parent, exp.Window) and not isinstance(found, exp.Filter)
        ]


class Query:
    """One query.

    Attributes:
        tree: As parsed.
        qualified: With every column's table, where it could be found.
        selects: Outermost first.
    """

    def __init__(self, text: str, dialect: str, schema: Schema) -> None:
        """Raises:
        NotTakenApart: It is no single query, does not parse, or is too much.
        """
        self.text, self.dialect, self.schema = text, dialect, schema
        self.tree = parsed(text, dialect)
        _mend_quoted_texts(self.tree, dialect, schema)
        self.qualified = _qualified(self.tree, dialect, schema)
        self.selects = list(_selects(self.qualified, schema))

    @property
    def results(self) -> list[Select]:
        """The selects that give the rows: one, or the sides of a UNION."""
        return [select for select in self.selects if select.place == "result"]

    @property
    def top(self) -> Select | None:
        """The one that gives the rows, when it is one."""
        results = self.results
        return results[0] if len(results) == 1 else None

    @property
    def predicates(self) -> list[Predicate]:
        """All of them."""
        return [each for select in self.selects for each in select.predicates]

    @property
    def edges(self) -> list[Edge]:
        """All of them."""
        return [each for select in self.selects for each in select.edges]

    @property
    def table_names(self) -> set[str]:
        """Folded names of the tables that it reads."""
        return {table.name.casefold() for select in self.selects for table in select.tables.values()}

    def column_places(self) -> set[tuple[str, str]]:
        """Table and column, folded, of every column that it names."""
        exp = sqlglot_module("expressions")
        found = set()
        for select in self.selects:
            for column in _own(select.node, exp.Column):
                ref = resolve(column, select.scope, self.schema)
                if ref is not None:
                    found.add(ref.place)
        return found

    def sql(self, node: Any) -> str:
        """The text of a node in the query's dialect."""
        text: str = node.sql(dialect=self.dialect)
        return text


def sqlglot_module(name: str) -> Any:
    """A module of sqlglot, which is imported when the first query is looked at."""
    return importlib.import_module(f"sqlglot.{name}")


def parsed(text: str, dialect: str) -> Any:
    """The tree of one query.

    Raises:
        NotTakenApart: It is none.
    """
    if len(text) > MOST_CHARS:
        raise NotTakenApart(f"it has {len(text)} characters, over {MOST_CHARS}")
    if _depth(text) > _MOST_DEPTH:
        raise NotTakenApart(f"its parentheses are nested more than {_MOST_DEPTH} deep")
    sqlglot, errors = importlib.import_module("sqlglot"), sqlglot_module("errors")
    try:
        trees = [tree for tree in sqlglot.parse(text, dialect=dialect) if tree is not None]
    except (errors.SqlglotError, RecursionError, ValueError, TypeError, AttributeError, KeyError, IndexError):
        raise NotTakenApart("it does not parse") from None
    if len(trees) != 1:
        raise NotTakenApart(f"it has {len(trees)} statements, not one")
    tree = trees[0]
    while isinstance(tree, sqlglot_module("expressions").Subquery) and not tree.alias:
        tree = tree.this
    if not isinstance(tree, sqlglot_module("expressions").Query):
        raise NotTakenApart("it is no query that reads")
    if any(tree.find_all(sqlglot_module("expressions").Into, sqlglot_module("expressions").DML)):
        raise NotTakenApart("it would write")
    return tree


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


def _depth(text: str) -> int:
    depth = most = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        most = max(most, depth)
    return most


def _mend_quoted_texts(tree: Any, dialect: str, schema: Schema) -> None:
    """SQLite takes "x" for a text where no column has that name; so do we, before columns are looked for."""
    if dialect != "sqlite":
        return
    exp = sqlglot_module("expressions")
    names = {column.name.casefold() for table in schema for column in table.columns}
    names |= {alias.alias.casefold() for alias in tree.find_all(exp.Alias)}
    for column in list(tree.find_all(exp.Column)):
        identifier = column.this
        quoted = isinstance(identifier, exp.Identifier) and identifier.args.get("quoted") and not column.table
        if quoted and identifier.name.casefold() not in names:
            column.replace(exp.Literal.string(identifier.name))


def _qualified(tree: Any, dialect: str, schema: Schema) -> Any:
    errors = sqlglot_module("errors")
    try:
        return sqlglot_module("optimizer.qualify").qualify(
            tree.copy(),
            schema=dict(schema.as_mapping()),
            dialect=dialect,
            validate_qualify_columns=False,
        )
    except (errors.SqlglotError, RecursionError, ValueError, TypeError, AttributeError, KeyError, IndexError):
        raise NotTakenApart("its columns cannot be told apart") from None


def _selects(tree: Any, schema: Schema) -> Iterator[Select]:
    exp = sqlglot_module("expressions")
    errors = sqlglot_module("errors")
    try:
        scopes = list(sqlglot_module("optimizer.scope").traverse_scope(tree))
    except (errors.SqlglotError, RecursionError, ValueError, TypeError, AttributeError, KeyError):
        raise NotTakenApart("its parts cannot be told apart") from None
    results = {id(node) for node in _result_nodes(tree)}
    for scope in reversed(scopes):
        node = scope.expression
        if not isinstance(node, exp.Select):
            continue
        sources = {
            alias: schema.table(source.name) if isinstance(source, exp.Table) else None
            for alias, source in scope.sources.items()
            if alias in scope.selected_sources
        }
        place = "result" if id(node) in results else "subquery" if scope.is_subquery else "derived"
        select = Select(node=node, place=place, sources=sources, edges=[], predicates=[], scope=scope)
        _compare(select, schema)
        yield select


def _result_nodes(tree: Any) -> list[Any]:
    exp = sqlglot_module("expressions")
    if isinstance(tree, exp.SetOperation):
        return [*_result_nodes(tree.this), *_result_nodes(tree.expression)]
    if isinstance(tree, exp.Subquery):
        return _result_nodes(tree.this)
    return [tree]


def _compare(select: Select, schema: Schema) -> None:
    """Find what the select's conditions compare."""
    exp = sqlglot_module("expressions")
    conditions = [join.args["on"] for join in select.node.args.get("joins") or () if join.args.get("on")]
    if select.has("where"):
        conditions.append(select.node.args["where"].this)
    finder = _Finder(select, schema, exp)
    for condition in conditions:
        finder.walk(condition, in_or=False, negated=False)
    for join in select.node.args.get("joins") or ():
        for name in join.args.get("using") or ():
            finder.using(join, name.name)


class _Finder:
    def __init__(self, select: Select, schema: Schema, exp: Any) -> None:
        self._select, self._schema, self._exp, self._group = select, schema, exp, 0

    def walk(self, node: Any, *, in_or: bool, negated: bool) -> None:
        exp = self._exp
        if isinstance(node, exp.Paren):
            self.walk(node.this, in_or=in_or, negated=negated)
        elif isinstance(node, exp.And):
            self.walk(node.left, in_or=in_or, negated=negated)
            self.walk(node.right, in_or=in_or, negated=negated)
        elif isinstance(node, exp.Or):
            outer = self._group
            for side in (node.left, node.right):
                self._last = getattr(self, "_last", 0) + 1
                self._group = self._last
                self.walk(side, in_or=True, negated=negated)
            self._group = outer
        elif isinstance(node, exp.Not):
            self.walk(node.this, in_or=in_or, negated=not negated)
        else:
            self._leaf(node, in_or, negated)

    def using(self, join: Any, name: str) -> None:
        right = resolve_named(self._select, join.alias_or_name, name, self._schema)
        for alias in self._select.tables:
            left = resolve_named(self._select, alias, name, self._schema)
            if alias != join.alias_or_name and left and right:
                self._select.edges.append(Edge(left, right, "join"))
                return

    def _leaf(self, node: Any, in_or: bool, negated: bool) -> None:
        exp = self._exp
        kind = type(node).__name__
        if kind in _COMPARISONS:
            operator = _COMPARISONS[kind]
            if negated:
                operator = {"=": "!=", "!=": "=", ">": "<=", ">=": "<", "<": ">=", "<=": ">"}[operator]
            self._comparison(node, operator, in_or)
        elif isinstance(node, exp.In):
            self._in(node, in_or, negated)
        elif isinstance(node, (exp.Like, exp.ILike)):
            self._predicate(node.this, "not like" if negated else "like", [node.expression], in_or, node)
        elif isinstance(node, exp.Between):
            self._predicate(node.this, ">=", [node.args["low"]], in_or, node)
            self._predicate(node.this, "<=", [node.args["high"]], in_or, node)
        elif isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            ref = self._ref(node.this)
            if ref is not None:
                self._add(ref, "is not null" if negated else "is null", (), in_or, node)

    def _comparison(self, node: Any, operator: str, in_or: bool) -> None:
        left, right = self._ref(node.left), self._ref(node.right)
        if left and right:
            if operator == "=" and left.alias != right.alias:
                self._select.edges.append(Edge(left, right, "join"))
            return
        for ref, other, told in ((left, node.right, operator), (right, node.left, _TURNED[operator])):
            if ref is None:
                continue
            inner = self._looked_up(other)
            if inner is not None and told in ("=", "!="):
                self._select.edges.append(Edge(ref, inner, "subquery", told == "!="))
            else:
                self._predicate_of(ref, told, [other], in_or, node)

    def _in(self, node: Any, in_or: bool, negated: bool) -> None:
        ref = self._ref(node.this)
        if ref is None:
            return
        query = node.args.get("query")
        inner = self._looked_up(query) if query is not None else None
        if inner is not None:
            self._select.edges.append(Edge(ref, inner, "subquery", negated))
        elif query is None:
            self._predicate_of(ref, "not in" if negated else "in", node.expressions, in_or, node)

    def _predicate(self, left: Any, operator: str, values: Sequence[Any], in_or: bool, node: Any) -> None:
        ref = self._ref(left)
        if ref is not None:
            self._predicate_of(ref, operator, values, in_or, node)

    def _predicate_of(self, ref: Ref, operator: str, values: Sequence[Any], in_or: bool, node: Any) -> None:
        constants = [constant(value) for value in values]
        if constants and None not in constants:
            self._add(ref, operator, tuple(constants), in_or, node)

    def _add(self, ref: Ref, operator: str, values: tuple[Any, ...], in_or: bool, node: Any) -> None:
        table = self._schema.table(ref.table)
        column = table.column(ref.column) if table else None
        if column is not None:
            self._select.predicates.append(
                Predicate(
                    ref=ref, column=column, operator=operator, values=values, in_or=in_or, group=self._group, node=node
                )
            )

    def _ref(self, node: Any) -> Ref | None:
        exp = self._exp
        while isinstance(node, (exp.Paren, exp.Lower, exp.Upper, exp.Trim, exp.Cast, exp.Collate)):
            node = node.this
        return resolve(node, self._select.scope, self._schema) if isinstance(node, exp.Column) else None

    def _looked_up(self, node: Any) -> Ref | None:
        """The column that a subquery gives, when it is a plain one."""
        exp = self._exp
        while isinstance(node, (exp.Paren, exp.Subquery)):
            node = node.this
        if not isinstance(node, exp.Select) or len(node.expressions) != 1:
            return None
        column = node.expressions[0].unalias()
        if not isinstance(column, exp.Column):
            return None
        scopes = self._select.scope.subquery_scopes
        scope = next((each for each in scopes if each.expression is node), None)
        return resolve(column, scope, self._schema) if scope is not None else None


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


def _own(root: Any, kind: Any) -> Iterator[Any]:
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


own = _own
