"""Databases as the checks ask them: dialect, schema, bounded queries; and how a schema is read by asking."""

from __future__ import annotations

import dataclasses
import enum
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

_NUMBER: Final = re.compile(r"INT|REAL|FLOA|DOUB|NUM|DEC|MONEY|SERIAL|NUMBER|\bYEAR\b|BIT\b|HUGE", re.IGNORECASE)
_TEXT: Final = re.compile(r"CHAR|CLOB|TEXT|STRING|ENUM|UUID|\bNAME\b", re.IGNORECASE)
_TIME: Final = re.compile(r"DATE|TIME|INTERVAL", re.IGNORECASE)
_FLAG: Final = re.compile(r"BOOL", re.IGNORECASE)


class Kind(enum.Enum):
    """Family of a column's declared type."""

    NUMBER = "number"
    TEXT = "text"
    TIME = "time"
    FLAG = "boolean"
    OTHER = "other"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Column:
    """A column; `type` in the words of the engine."""

    name: str
    type: str = ""
    nullable: bool = True

    @property
    def kind(self) -> Kind:
        """The family of its type."""
        # The order matters: INTERVAL holds INT, and ENUM holds NUM.
        for pattern, kind in ((_FLAG, Kind.FLAG), (_TIME, Kind.TIME), (_TEXT, Kind.TEXT), (_NUMBER, Kind.NUMBER)):
            if pattern.search(self.type):
                return kind
        return Kind.OTHER


@dataclasses.dataclass(frozen=True, kw_only=True)
class ForeignKey:
    """Columns that name a row of another table; `other_columns` in the same order."""

    columns: tuple[str, ...]
    table: str
    other_columns: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Table:
    """A table or view.

    Attributes:
        primary: Its primary key; empty without one.
        unique: Every set of columns that no two rows share, the primary key among them.
        declares: Whether somebody said what its keys are. Where nobody did, `unique` has what was found in the data.
    """

    name: str
    columns: Sequence[Column]
    primary: tuple[str, ...] = ()
    unique: Sequence[frozenset[str]] = ()
    foreign: Sequence[ForeignKey] = ()
    is_view: bool = False
    declares: bool = True

    def column(self, name: str) -> Column | None:
        """The column of that name."""
        folded = name.casefold()
        return next((column for column in self.columns if column.name.casefold() == folded), None)

    @property
    def foreign_columns(self) -> set[str]:
        """Folded names of the columns that refer to another table."""
        return {name.casefold() for key in self.foreign for name in key.columns}

    def is_key(self, columns: set[str]) -> bool:
        """Tell whether these columns, folded, hold a key: no two rows are alike in them."""
        # A set that holds a key is one.
        keys = [frozenset(self.primary)] if self.primary else []
        return any({name.casefold() for name in key} <= columns for key in [*keys, *self.unique])


class Schema:
    """The tables of a database."""

    def __init__(self, tables: Sequence[Table] = ()) -> None:
        self._tables = {table.name.casefold(): table for table in tables}

    def __iter__(self) -> Iterator[Table]:
        return iter(self._tables.values())

    def __len__(self) -> int:
        return len(self._tables)

    def table(self, name: str) -> Table | None:
        """The table of that name."""
        return self._tables.get(name.casefold())


def related(schema: Schema, one: tuple[str, str], other: tuple[str, str]) -> bool:
    """Tell whether a foreign key is declared between two (table, column)s, in either direction."""
    return any(_same(a, one[1]) and _same(b, other[1]) for a, b in direct_keys(schema, one[0], other[0]))


def _references(schema: Schema, name: str) -> Iterator[tuple[str, str, str]]:
    """Each column of a table's foreign keys, with the table and the column that it refers to."""
    table = schema.table(name)
    for key in table.foreign if table else ():
        for own, other in zip(key.columns, key.other_columns, strict=False):
            yield own, key.table, other


def parents(schema: Schema, table: str, column: str) -> set[tuple[str, str]]:
    """Return what a column refers to, over any number of tables, folded; itself when it is a key of its table."""
    result: set[tuple[str, str]] = set()
    waiting = [(table.casefold(), column.casefold())]
    # Foreign keys may form a circle, such as of a folder and its parent; `result` keeps what was seen.
    while waiting:
        place = waiting.pop()
        for own, parent, other in _references(schema, place[0]):
            target = (parent.casefold(), other.casefold())
            if _same(own, place[1]) and target not in result:
                result.add(target)
                waiting.append(target)
    found = schema.table(table)
    if found is not None and found.is_key({column.casefold()}):
        result.add((table.casefold(), column.casefold()))
    return result


def direct_keys(schema: Schema, one: str, other: str) -> list[tuple[str, str]]:
    """The pairs of columns, of `one` and of `other`, by which two tables are declared to belong together."""
    found = [(own, theirs) for own, parent, theirs in _references(schema, one) if _same(parent, other)]
    return found + [(theirs, own) for own, parent, theirs in _references(schema, other) if _same(parent, one)]


def _same(one: str, other: str) -> bool:
    return one.casefold() == other.casefold()


class Rows(NamedTuple):
    """Rows of a query's result.

    Attributes:
        rows: Numbers, texts, booleans and None.
        complete: Whether these are all rows.
    """

    columns: Sequence[str]
    rows: Sequence[tuple[Any, ...]]
    complete: bool = True


class QueryFailed(Exception):
    """A query gave no rows: it is wrong, took too long, or the database cannot be asked."""


class Database(Protocol):
    """Interface that `check_sql` asks databases by; whoever has a live one gives an object of these three.

    Attributes:
        dialect: sqlglot's name of it: `sqlite`, `duckdb`, `postgres`, `mysql`.
    """

    @property
    def dialect(self) -> str:
        """sqlglot's name of what it speaks."""

    def schema(self) -> Schema:
        """Its tables; empty where they cannot be read. Asked once for each check."""

    def query(self, sql: str, *, max_rows: int, timeout_s: float) -> Rows:
        """The first `max_rows` rows of one statement that reads. It must not change anything, whatever it is given.

        Raises:
            QueryFailed: There are no rows.
        """


@runtime_checkable
class Sourced(Protocol):
    """Interface of a `Database` whose queries may name more than its tables, such as files."""

    def schema_for(self, sql: str) -> Schema:
        """Its tables and what else the query names. Asked once for each check, in place of `schema`."""


_MOST_ROWS: Final = 20_000
_TIMEOUT_S: Final = 5.0
_SQLITE_NAMES: Final = (
    "(SELECT name, type FROM {schema}.sqlite_master WHERE type IN ({kinds}) AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\')"
)
_SQLITE_COLUMNS: Final = f"""
SELECT m.name, m.type, p.name, p.type, p."notnull" FROM {_SQLITE_NAMES} m
JOIN pragma_table_info(m.name, {{text}}) p ORDER BY m.name, p.cid
"""
_SQLITE_KEYS: Final = f"""
WITH m AS {_SQLITE_NAMES}, k (owner, key, kind, own, parent, theirs, place) AS (
SELECT m.name, '', 'PRIMARY KEY', p.name, NULL, NULL, p.pk
FROM m JOIN pragma_table_info(m.name, {{text}}) p WHERE p.pk > 0
UNION ALL SELECT m.name, l.name, 'UNIQUE', i.name, NULL, NULL, i.seqno
FROM m JOIN pragma_index_list(m.name, {{text}}) l JOIN pragma_index_info(l.name, {{text}}) i
WHERE l."unique" AND NOT l.partial
UNION ALL SELECT m.name, f.id, 'FOREIGN KEY', f."from", f."table", f."to", f.seq
FROM m JOIN pragma_foreign_key_list(m.name, {{text}}) f
) SELECT owner, key, kind, own, parent, theirs FROM k ORDER BY owner, key, place
"""
_SQLITE_SCHEMAS: Final = "SELECT name FROM pragma_database_list ORDER BY seq"
_MOST_SCHEMAS: Final = 10
_COLUMNS: Final = """
SELECT t.table_name, CASE WHEN t.table_type = 'VIEW' THEN 'view' ELSE 'table' END, c.column_name, c.data_type,
       CASE WHEN c.is_nullable = 'NO' THEN 1 ELSE 0 END
FROM information_schema.tables t JOIN information_schema.columns c
  ON c.table_schema = t.table_schema AND c.table_name = t.table_name
WHERE t.table_schema = {here} ORDER BY t.table_name, c.ordinal_position
"""
_KEYS: Final = """
SELECT k.table_name, k.constraint_name, t.constraint_type, k.column_name, o.table_name, o.column_name
FROM information_schema.table_constraints t
JOIN information_schema.key_column_usage k
  ON k.constraint_schema = t.constraint_schema AND k.constraint_name = t.constraint_name AND k.table_name = t.table_name
LEFT JOIN information_schema.referential_constraints r
  ON r.constraint_schema = k.constraint_schema AND r.constraint_name = k.constraint_name
LEFT JOIN information_schema.key_column_usage o
  ON o.constraint_schema = r.unique_constraint_schema AND o.constraint_name = r.unique_constraint_name
 AND o.ordinal_position = k.position_in_unique_constraint
WHERE k.table_schema = {here} AND t.constraint_type IN ('PRIMARY KEY', 'UNIQUE', 'FOREIGN KEY')
ORDER BY 1, 2, k.ordinal_position
"""
_KEYS_MYSQL: Final = """
SELECT table_name, constraint_name,
       CASE WHEN referenced_table_name IS NOT NULL THEN 'FOREIGN KEY'
            WHEN constraint_name = 'PRIMARY' THEN 'PRIMARY KEY' ELSE 'UNIQUE' END,
       column_name, referenced_table_name, referenced_column_name
FROM information_schema.key_column_usage WHERE table_schema = {here} ORDER BY 1, 2, ordinal_position
"""
"""MariaDB's table_constraints, like PostgreSQL's, is empty for those who may only read."""
_KEYS_POSTGRES: Final = """
SELECT c.relname, k.conname,
       CASE k.contype WHEN 'p' THEN 'PRIMARY KEY' WHEN 'u' THEN 'UNIQUE' ELSE 'FOREIGN KEY' END,
       a.attname, p.relname, b.attname
FROM pg_catalog.pg_constraint k JOIN pg_catalog.pg_class c ON c.oid = k.conrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL unnest(k.conkey, k.confkey) WITH ORDINALITY AS u (own, other, place)
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum = u.own
LEFT JOIN pg_catalog.pg_class p ON p.oid = k.confrelid
LEFT JOIN pg_catalog.pg_attribute b ON b.attrelid = p.oid AND b.attnum = u.other
WHERE n.nspname = {here} AND k.contype IN ('p', 'u', 'f') ORDER BY 1, 2, u.place
"""
"""information_schema tells constraints only to those who may do more than read."""
_KEYS_OF: Final = {"postgres": _KEYS_POSTGRES, "mysql": _KEYS_MYSQL}
_HERE: Final = {"mysql": "database()"}

Ask = Callable[[str, int], "Sequence[Sequence[Any]]"]
"""Gives the rows of a query that have so many values; a database may answer with anything."""


def quoted(name: str) -> str:
    """A name as an identifier of SQLite, DuckDB and standard SQL."""
    return '"' + name.replace('"', '""') + '"'


def schema_of(database: Database) -> Schema:
    """The schema as the dialect tells it; empty where it cannot be asked."""

    def ask(sql: str, width: int) -> Sequence[Sequence[Any]]:
        try:
            answer = database.query(sql, max_rows=_MOST_ROWS, timeout_s=_TIMEOUT_S)
        except QueryFailed:
            return []
        # What a database answers is a claim: rows of another width are dropped.
        return [row for row in answer.rows[:_MOST_ROWS] if len(row) == width]

    if database.dialect == "sqlite":
        return Schema(_sqlite(ask))
    here = _HERE.get(database.dialect, "current_schema()")
    columns = ask(_COLUMNS.format(here=here), 5)
    keys = ask(_KEYS_OF.get(database.dialect, _KEYS).format(here=here), 6)
    return Schema(_tables(columns, keys))


def _sqlite(ask: Ask) -> list[Table]:
    """The tables of the file and of those attached; a name is the first one's, as in a query."""
    names = [str(row[0]) for row in ask(_SQLITE_SCHEMAS, 1)] or ["main"]
    found: dict[str, Table] = {}
    # Bounded, since each attached file costs three or four queries.
    for name in names[:_MOST_SCHEMAS]:
        for table in _sqlite_schema(ask, name):
            found.setdefault(table.name.casefold(), table)
    return list(found.values())


def _sqlite_schema(ask: Ask, name: str) -> list[Table]:
    def asked(sql: str, width: int, kinds: str = "'table'") -> Sequence[Sequence[Any]]:
        text = "'" + name.replace("'", "''") + "'"
        return ask(sql.format(schema=quoted(name), text=text, kinds=kinds), width)

    columns = asked(_SQLITE_COLUMNS, 5, "'table', 'view'")
    if not columns:  # a view that does not hold up fails the query
        columns = asked(_SQLITE_COLUMNS, 5)
    return _tables(columns, asked(_SQLITE_KEYS, 6))


def _tables(columns: Sequence[Sequence[Any]], keys: Sequence[Sequence[Any]]) -> list[Table]:
    """Tables of rows (table, kind, column, type, not null) and (table, key, kind, column, other table, its column)."""
    parts: dict[tuple[str, str, str], list[tuple[str, Any, Any]]] = defaultdict(list)
    for table, name, kind, own, other, theirs in keys:
        parts[str(table), str(name), str(kind)].append((str(own), other, theirs))
    primary: dict[str, tuple[str, ...]] = {}
    unique: dict[str, list[frozenset[str]]] = defaultdict(list)
    for (table, _, kind), key in parts.items():
        if kind != "FOREIGN KEY":
            unique[table].append(frozenset(own for own, _, _ in key))
        if kind == "PRIMARY KEY":
            primary[table] = tuple(own for own, _, _ in key)
    foreign: dict[str, list[ForeignKey]] = defaultdict(list)
    for (table, _, kind), key in parts.items():
        if kind == "FOREIGN KEY":
            foreign[table].append(_foreign(key, primary))
    told: dict[tuple[str, bool], list[Column]] = defaultdict(list)
    for table, kind, name, declared, not_null in columns:
        # SQLite lets a primary key be declared without NOT NULL; as a single column it is taken to hold no NULL.
        nullable = not not_null and primary.get(str(table)) != (str(name),)
        column = Column(name=str(name), type=str(declared or ""), nullable=nullable)
        told[str(table), kind == "view"].append(column)
    return [
        Table(
            name=table,
            columns=own,
            primary=primary.get(table, ()),
            unique=unique[table],
            foreign=foreign[table],
            is_view=is_view,
        )
        for (table, is_view), own in told.items()
    ]


def _foreign(key: Sequence[tuple[str, Any, Any]], primary: Mapping[str, tuple[str, ...]]) -> ForeignKey:
    parent = str(key[0][1])
    # `REFERENCES customer` without columns means its primary key, and SQLite then gives NULL for them.
    implied = dict(enumerate(primary.get(parent, ())))
    others = (str(theirs) if theirs else implied.get(n, own) for n, (own, _, theirs) in enumerate(key))
    return ForeignKey(columns=tuple(own for own, _, _ in key), table=parent, other_columns=tuple(others))
