"""Queries taken apart: what they read, which columns they set equal, which values they compare with.

`'sales.csv'`, `"sales.csv"` and `'book.xlsx#Sheet 2'` are names to sqlglot; `read_csv('sales.csv', delim = ';')`
becomes one, which is its own text. All keep their letters, which tell two files or variables apart.

Nobody declares keys of a file. A set of columns counts as a key when no two rows are alike in it now: rules ask for
keys to learn whether a join repeats rows, and in these data it does not. What could not be asked counts as a key, too,
so that nothing is said of it. Rules that take a key for what somebody meant leave such a table alone
(`Table.declares`): a column may differ in each row by chance.

Qualifying writes out what stands for more: stars, aliases of aliases, `GROUP BY 1`, columns that joined tables share.
Each of them can double with every level, so that a query of five lines would fill the memory.

sqlglot parses and qualifies it with the live schema. Where it cannot, there is no query, and a word why.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Final

from groundbox.check.sql.parts import Edge, Predicate, Select, compare, exp, own, sqlglot_module
from groundbox.check.sql.source import Schema, Table, quoted

READERS: Final = frozenset(
    {
        *("read_csv", "read_csv_auto", "read_parquet", "parquet_scan", "read_xlsx"),
        *("read_json", "read_json_auto", "read_ndjson", "read_ndjson_auto"),
    }
)
_MOST_SOURCES: Final = 8
_MOST_SETS: Final = 8


def calls_named(tree: Any) -> list[str]:
    """The names of calls that read files; the calls in the tree are turned into them."""
    called = [(table, _call(table)) for table in tree.find_all(exp.Table)]
    for table, name in called:
        if name:
            table.set("this", exp.to_identifier(name, quoted=True))
    return [name for _, name in called if name]


def _call(table: Any) -> str:
    """The call that stands behind FROM, as text; "" when it is none that reads a file."""
    # A call with a subquery in it reads more than a file.
    if not isinstance(table.this, exp.Func) or table.this.find(exp.Query) is not None:
        return ""
    name, opening, rest = table.this.sql(dialect="duckdb").partition("(")
    return f"{name.casefold()}{opening}{rest}" if name.casefold() in READERS else ""


def names_in(tree: Any) -> list[str]:
    """The names behind FROM that may stand for something without a schema, as they are spelled."""
    own = {each.alias.casefold() for each in tree.find_all(exp.CTE)}
    tables = [table for table in tree.find_all(exp.Table) if isinstance(table.this, exp.Identifier) and not table.db]
    names = dict.fromkeys(table.name for table in tables if table.name.casefold() not in own)
    folded = [name.casefold() for name in names]
    # `Sales` and `sales` may be two variables, which no schema without case could keep apart.
    return [name for name in names if folded.count(name.casefold()) == 1][:_MOST_SOURCES]


def keep_spelling(tree: Any, dialect: str, schema: Schema) -> None:
    """Let names keep their letters when the tree is qualified, and give files the alias that the engine gives them."""
    for table in tree.find_all(exp.Table):
        call = _call(table) if dialect == "duckdb" else ""
        known = schema.table(call or table.name) if not table.db else None
        # Names of tables are folded as the engine folds them; only names of files and variables keep their letters.
        if known is None or known.declares:
            continue
        if call:
            table.set("this", exp.to_identifier(call, quoted=True))
        table.this.meta["case_sensitive"] = True
        alias = _alias(table.name) if dialect == "duckdb" else ""
        if alias and not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))


def _alias(name: str) -> str:
    """The alias of a file in DuckDB: its name up to the first point, or the function; "" for other names."""
    function = name.partition("(")[0]
    if function in READERS:
        return function
    if "." not in name or ".xlsx" in name.casefold():
        return ""
    return name.rpartition("/")[2].partition(".")[0]


def key_candidates(selects: list[Select]) -> dict[str, list[tuple[str, ...]]]:
    """Folded name of a table to the sets of columns that may be its key: each that it is joined by, and all of them."""
    found: dict[str, dict[tuple[str, ...], None]] = {}
    for select in selects:
        for alias, table in select.tables.items():
            if table.declares:
                continue
            sets = found.setdefault(table.name.casefold(), {})
            joined = dict.fromkeys(one.column for one, _ in select.joins() if one.alias == alias)
            # Each column alone first: `_MOST_SETS` cuts the end.
            sets |= dict.fromkeys((column,) for column in joined)
            # With what is compared with constants: of a file with a row for each day, the day makes the rest a key.
            fixed = joined | dict.fromkeys(ref.column for ref in select.fixed(alias)) if joined else {}
            if len(fixed) > 1:
                sets[tuple(fixed)] = None
    return {name: list(sets)[:_MOST_SETS] for name, sets in found.items() if sets}


def repeats_query(table: Table, sets: list[tuple[str, ...]]) -> str:
    """A query for one row: for each set of columns whether two rows are alike in it."""
    asked: list[str] = []
    for columns in sets:
        names = [quoted(column) for column in columns]
        # As SQL has it, NULLs are not equal, and do not repeat a key.
        given = " AND ".join(f"{name} IS NOT NULL" for name in names)
        groups = f"SELECT 1 FROM {quoted(table.name)} WHERE {given} GROUP BY {', '.join(names)} HAVING count(*) > 1"
        asked.append(f"EXISTS({groups}) AS repeats_{len(asked)}")
    return f"SELECT {', '.join(asked)}"


MOST_NODES: Final = 20_000
MOST_COLUMNS: Final = 4_000
"""That stars stand for."""


_NAMING_ALIASES: Final = ("where", "group", "having", "qualify", "order", "distinct")
"""Clauses of a select that may name its aliases."""


def too_large(tree: Any, schema: Schema) -> str:
    """Why a parsed query is not to be qualified, or an empty text."""
    if _starred(tree, schema) > MOST_COLUMNS:
        return "its stars stand for too many columns"
    nodes = 0
    for select in tree.find_all(exp.Select):
        nodes += _written_out(select)
        if nodes > MOST_NODES:
            return "its aliases, numbered groups or shared columns stand for too much"
    return ""


def _starred(tree: Any, schema: Schema) -> int:
    """At most how many columns a select may get from its stars: each may double those of the one below it."""
    tables = [schema.table(table.name) for table in tree.find_all(exp.Table)]
    most = max((len(table.columns) for table in tables if table), default=0)
    for select in tree.find_all(exp.Select):
        sources = 1 + len(select.args.get("joins") or ())
        starred = [sources if isinstance(each, exp.Star) else 1 for each in select.expressions if each.is_star]
        most *= max(1, sum(starred))
        if most > MOST_COLUMNS:
            break
    return most


def _written_out(select: Any) -> int:
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
    clauses = map(select.args.get, _NAMING_ALIASES)
    return nodes + numbered * largest + sum(size(part) for part in clauses if isinstance(part, exp.Expression))


MOST_CHARS: Final = 20_000
MOST_TOKENS: Final = 2_000
"""The parser and what follows take more than linear time in a chain such as `a || a || …`."""
_MOST_DEPTH: Final = 60
_MOST_BRACKETS: Final = 150


class NotTakenApart(Exception):
    """A text that is not looked at: it is no single query, or too much."""


class Query:
    """A query, parsed and qualified.

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
        # On the tree as it was parsed, because qualifying folds names.
        keep_spelling(self.tree, dialect, schema)
        self.qualified = _qualified(self.tree, dialect, schema)
        # Again: qualifying may have written out stars and aliases.
        _check_size(self.qualified)
        self.selects = list(_selects(self.qualified, schema))

    @property
    def top(self) -> Select | None:
        """Return the select that gives the rows; None where there are several, as of a UNION."""
        results = [select for select in self.selects if select.place == "result"]
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
        found = set()
        for select in self.selects:
            for column in own(select.node, exp.Column):
                ref = select.ref(column)
                if ref is not None:
                    found.add(ref.place)
        return found

    def sql(self, node: Any) -> str:
        """The text of a node in the query's dialect."""
        return str(node.sql(dialect=self.dialect))


def parsed(text: str, dialect: str) -> Any:
    """The tree of one query.

    Raises:
        NotTakenApart: It is none.
    """
    if len(text) > MOST_CHARS:
        raise NotTakenApart(f"it has {len(text)} characters, over {MOST_CHARS}")
    # On the text, before the parser recurses into it.
    if _depth(text) > _MOST_DEPTH:
        raise NotTakenApart(f"its parentheses are nested more than {_MOST_DEPTH} deep")
    with _or_not_taken_apart("it does not parse"):
        reader = sqlglot_module("dialects.dialect").Dialect.get_or_raise(dialect)
        tokens = reader.tokenize(text)
        # Between lexer and parser, for the same reason.
        _check_tokens(tokens)
        trees = [tree for tree in reader.parser().parse(tokens, text) if tree is not None]
    if len(trees) != 1:
        raise NotTakenApart(f"it has {len(trees)} statements, not one")
    tree = trees[0]
    _check_size(tree)
    # `(SELECT …)` as a whole.
    while isinstance(tree, exp.Subquery) and not tree.alias:
        tree = tree.this
    if not isinstance(tree, exp.Query):
        raise NotTakenApart("it is no query that reads")
    # SELECT INTO and a CTE that deletes are queries to the parser and write.
    if tree.find(exp.Into, exp.DML, exp.DDL, exp.Command) not in (None, tree):
        raise NotTakenApart("it would write")
    return tree


@contextlib.contextmanager
def _or_not_taken_apart(problem: str) -> Iterator[None]:
    """Within it, `NotTakenApart` stands for all that sqlglot raises on trees that it does not expect."""
    try:
        yield
    except (
        sqlglot_module("errors").SqlglotError,
        *(RecursionError, ValueError, TypeError, AttributeError, KeyError, IndexError),
    ):
        raise NotTakenApart(problem) from None


def _depth(text: str) -> int:
    return max(itertools.accumulate(((each == "(") - (each == ")") for each in text), initial=0))


def _check_tokens(tokens: Sequence[Any]) -> None:
    if len(tokens) > MOST_TOKENS:
        raise NotTakenApart(f"it has {len(tokens)} words and signs, over {MOST_TOKENS}")
    if sum(token.token_type.name == "L_BRACKET" for token in tokens) > _MOST_BRACKETS:
        raise NotTakenApart(f"it has more than {_MOST_BRACKETS} square brackets")


def _check_size(tree: Any) -> None:
    if next(itertools.islice(tree.walk(), MOST_NODES, None), None) is not None:
        raise NotTakenApart(f"it has more than {MOST_NODES} parts")


WAS_A_NAME: Final = "was_a_name"
"""Marks a text in double quotes."""


def _mend_quoted_texts(tree: Any, dialect: str, schema: Schema) -> None:
    """SQLite takes "x" for a text where no column has that name; so do we, before columns are looked for."""
    if dialect != "sqlite":
        return
    names = {column.name.casefold() for table in schema for column in table.columns}
    # "x" behind AS "x" is a name.
    names |= {alias.alias.casefold() for alias in tree.find_all(exp.Alias)}
    for column in list(tree.find_all(exp.Column)):
        identifier = column.this
        quoted = isinstance(identifier, exp.Identifier) and identifier.args.get("quoted") and not column.table
        if quoted and identifier.name.casefold() not in names:
            text = exp.Literal.string(identifier.name)
            text.meta[WAS_A_NAME] = True
            column.replace(text)


def _qualified(tree: Any, dialect: str, schema: Schema) -> Any:
    with _or_not_taken_apart("its columns cannot be told apart"):
        return sqlglot_module("optimizer.qualify").qualify(
            tree.copy(),
            schema={table.name: {each.name: each.type or "TEXT" for each in table.columns} for table in schema},
            dialect=dialect,
            # A column that no table has is left as it is: the engine tells it better.
            validate_qualify_columns=False,
        )


def _selects(tree: Any, schema: Schema) -> Iterator[Select]:
    with _or_not_taken_apart("its parts cannot be told apart"):
        scopes = list(sqlglot_module("optimizer.scope").traverse_scope(tree))
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
        select = Select(node=node, place=place, sources=sources, edges=[], predicates=[], scope=scope, schema=schema)
        compare(select)
        yield select


def _result_nodes(tree: Any) -> list[Any]:
    if isinstance(tree, exp.SetOperation):
        return [*_result_nodes(tree.this), *_result_nodes(tree.expression)]
    if isinstance(tree, exp.Subquery):
        return _result_nodes(tree.this)
    return [tree]
