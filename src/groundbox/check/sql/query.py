"""A query taken apart: its selects, what they read, which columns they set equal, which values they compare with.

sqlglot parses and qualifies it with the live schema. Where it cannot, there is no query, and a word why.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Final

from groundbox.check.sql.behind_from import keep_spelling
from groundbox.check.sql.comparisons import compare
from groundbox.check.sql.growth import MOST_NODES, too_large
from groundbox.check.sql.parts import Edge, Predicate, Select, own, resolve, sqlglot_module
from groundbox.check.sql.schema import Schema

MOST_CHARS: Final = 20_000
MOST_TOKENS: Final = 2_000
"""The parser and what follows take more than linear time in a chain such as `a || a || …`."""
_MOST_DEPTH: Final = 60
_MOST_BRACKETS: Final = 150


class NotTakenApart(Exception):
    """A text that is not looked at: it is no single query, or too much."""


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
        problem = too_large(self.tree, schema)
        if problem:
            raise NotTakenApart(problem)
        _mend_quoted_texts(self.tree, dialect, schema)
        keep_spelling(self.tree, dialect, schema)
        self.qualified = _qualified(self.tree, dialect, schema)
        _check_size(self.qualified)
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
            for column in own(select.node, exp.Column):
                ref = resolve(column, select.scope, self.schema)
                if ref is not None:
                    found.add(ref.place)
        return found

    def sql(self, node: Any) -> str:
        """The text of a node in the query's dialect."""
        text: str = node.sql(dialect=self.dialect)
        return text


def parsed(text: str, dialect: str) -> Any:
    """The tree of one query.

    Raises:
        NotTakenApart: It is none.
    """
    if len(text) > MOST_CHARS:
        raise NotTakenApart(f"it has {len(text)} characters, over {MOST_CHARS}")
    if _depth(text) > _MOST_DEPTH:
        raise NotTakenApart(f"its parentheses are nested more than {_MOST_DEPTH} deep")
    errors = sqlglot_module("errors")
    try:
        reader = sqlglot_module("dialects.dialect").Dialect.get_or_raise(dialect)
        tokens = reader.tokenize(text)
        _check_tokens(tokens)
        trees = [tree for tree in reader.parser().parse(tokens, text) if tree is not None]
    except (errors.SqlglotError, RecursionError, ValueError, TypeError, AttributeError, KeyError, IndexError):
        raise NotTakenApart("it does not parse") from None
    if len(trees) != 1:
        raise NotTakenApart(f"it has {len(trees)} statements, not one")
    tree = trees[0]
    _check_size(tree)
    while isinstance(tree, sqlglot_module("expressions").Subquery) and not tree.alias:
        tree = tree.this
    if not isinstance(tree, sqlglot_module("expressions").Query):
        raise NotTakenApart("it is no query that reads")
    exp = sqlglot_module("expressions")
    if tree.find(exp.Into, exp.DML, exp.DDL, exp.Command) not in (None, tree):
        raise NotTakenApart("it would write")
    return tree


def _depth(text: str) -> int:
    depth = most = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        most = max(most, depth)
    return most


def _check_tokens(tokens: Sequence[Any]) -> None:
    if len(tokens) > MOST_TOKENS:
        raise NotTakenApart(f"it has {len(tokens)} words and signs, over {MOST_TOKENS}")
    if sum(token.token_type.name == "L_BRACKET" for token in tokens) > _MOST_BRACKETS:
        raise NotTakenApart(f"it has more than {_MOST_BRACKETS} square brackets")


def _check_size(tree: Any) -> None:
    if next(itertools.islice(tree.walk(), MOST_NODES, None), None) is not None:
        raise NotTakenApart(f"it has more than {MOST_NODES} parts")


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
        compare(select, schema)
        yield select


def _result_nodes(tree: Any) -> list[Any]:
    exp = sqlglot_module("expressions")
    if isinstance(tree, exp.SetOperation):
        return [*_result_nodes(tree.this), *_result_nodes(tree.expression)]
    if isinstance(tree, exp.Subquery):
        return _result_nodes(tree.this)
    return [tree]
