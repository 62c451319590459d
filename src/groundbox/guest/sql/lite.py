"""SQLite inside a sandbox: one database in memory, with the .db files of the workdir attached as a query asks.

Every action of a statement is judged by an authorizer that knows what is allowed and refuses the rest: ATTACH (and
VACUUM INTO, which is one) only beneath the workdir, PRAGMAs that tell something, functions but those that reach
outside. The schema of a file is not trusted (sqlite.org/security.html). The wall holds beside all this.

DataFrames, CSV, JSON and Parquet files and the sheets of XLSX files that a statement names are copied into temporary
tables of that name.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any, Final

from .frames import Variables, is_frame
from .offered import Offer, folded, offers, same
from .result import MOST_ROWS, Column, Result
from .sheet import LOOKED_AT_BYTES, is_looked_at
from .spreadsheets import frame_if_there, frame_of, inside, is_name, names_in
from .statement import Outcome, Statement, ends_transaction, quoted, split, unquoted, words_of

_ACTION_NAMES: Final = """
    SELECT READ INSERT UPDATE DELETE RECURSIVE TRANSACTION SAVEPOINT ANALYZE REINDEX ALTER_TABLE DETACH CREATE_INDEX
    CREATE_TABLE CREATE_TEMP_INDEX CREATE_TEMP_TABLE CREATE_TEMP_TRIGGER CREATE_TEMP_VIEW CREATE_TRIGGER CREATE_VIEW
    DROP_INDEX DROP_TABLE DROP_TEMP_INDEX DROP_TEMP_TABLE DROP_TEMP_TRIGGER DROP_TEMP_VIEW DROP_TRIGGER DROP_VIEW
    DROP_VTABLE
"""
_ACTIONS: Final = frozenset(getattr(sqlite3, f"SQLITE_{name}") for name in _ACTION_NAMES.split())
_PRAGMA_NAMES: Final = """
    table_info table_xinfo table_list index_list index_info index_xinfo foreign_key_list foreign_key_check
    integrity_check quick_check
"""
_ASKED_NAMES: Final = """
    database_list collation_list function_list module_list compile_options encoding page_count page_size
    freelist_count user_version application_id schema_version data_version foreign_keys journal_mode
"""
"""These may be asked for and not set."""
_PRAGMAS: Final = frozenset(_PRAGMA_NAMES.split())
_ASKED_PRAGMAS: Final = frozenset(_ASKED_NAMES.split())
_FUNCTIONS_REFUSED: Final = frozenset({"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer", "lsdir"})
_MODULES: Final = frozenset({"fts5", "fts4", "fts3", "rtree"})
_LIMITS: Final = {
    "ATTACHED": 10,
    "EXPR_DEPTH": 1000,
    "FUNCTION_ARG": 100,
    "TRIGGER_DEPTH": 100,
    "LIKE_PATTERN_LENGTH": 10_000,
}
_MOST_VALUE_BYTES: Final = 64 * 1024 * 1024
_MEMORY_SHARE: Final = 0.6
_CHUNK: Final = 10_000
_READERS: Final = {
    ".csv": "read_csv",
    ".tsv": "read_table",
    ".json": "read_json",
    ".parquet": "read_parquet",
}
_BLANKS: Final = {"keep_default_na": False, "na_values": [""]}
"""As in DuckDB: a text such as NA is a text."""
_PADDED: Final = re.compile(rb"(?:^|[,;\t\"])\s*[+-]?0\d")
_PADDED_TEXT: Final = r"\s*[+-]?0\d[\d.]*\s*"


class InTransaction(Exception):
    """A copy would have to be made within a transaction of the program's own."""


class SQLite:
    """The engine of `dialect="sqlite"`."""

    name = "SQLite"

    def __init__(
        self, workdir: str, variables: Variables, *, memory_bytes: int | None, process_count: int | None
    ) -> None:
        self.variables = variables
        self.workdir = os.path.realpath(workdir)
        self._copied: dict[str, Offer] = {}
        self.connection = sqlite3.connect(":memory:", isolation_level=None, uri=False, cached_statements=0)
        self.connection.text_factory = lambda data: data.decode(errors="replace")
        for name, value in _LIMITS.items():
            self.connection.setlimit(getattr(sqlite3, f"SQLITE_LIMIT_{name}"), value)
        self.connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_VALUE_BYTES)
        if memory_bytes is not None:
            self.connection.execute(f"PRAGMA hard_heap_limit = {int(memory_bytes * _MEMORY_SHARE)}")
        for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "temp_store = MEMORY", "foreign_keys = ON"):
            self.connection.execute(f"PRAGMA {pragma}")
        self._configure()
        self.connection.set_authorizer(self._judge)

    def _configure(self) -> None:
        """What Python has a call for since 3.12: no writing to the schema, and "x" never stands for a text."""
        set_one = getattr(self.connection, "setconfig", None)
        if set_one is not None:
            set_one(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)  # type: ignore[attr-defined]
            set_one(sqlite3.SQLITE_DBCONFIG_DQS_DML, False)  # type: ignore[attr-defined]
            set_one(sqlite3.SQLITE_DBCONFIG_DQS_DDL, False)  # type: ignore[attr-defined]

    def interrupt(self) -> None:
        """Stop the statement that runs; from another thread."""
        self.connection.interrupt()

    def statements(self, source: str) -> list[Statement]:
        """The statements of a source."""
        return split(source)

    def execute(self, statement: Statement) -> Outcome:
        """Carry out one statement."""
        words = list(self.words(statement.text))
        if not ends_transaction(words):
            self._offer(words)
        cursor = self.connection.execute(statement.text)
        if cursor.description is None:
            kind = next(self.words(statement.text), "").upper()
            count = cursor.rowcount
            return f"{kind} done" if count < 0 else f"{kind}: {count} row{'' if count == 1 else 's'}"
        return _result(cursor)

    def words(self, text: str) -> Iterator[str]:
        """The tokens of a statement as they are written, without comments."""
        return words_of(text)

    def tables(self) -> dict[str, str]:
        """Names of tables and views to how they are called in a query; copies of DataFrames and files not."""
        found = {}
        for _, schema, _ in self.connection.execute("PRAGMA database_list").fetchall():
            listed = f"SELECT name FROM {quoted(schema)}.sqlite_schema WHERE type IN ('table', 'view')"
            for (name,) in self.connection.execute(f"{listed} AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'").fetchall():
                if not (schema == "temp" and folded(name) in self._copied):
                    found[name] = quoted(name) if schema in ("main", "temp") else f"{quoted(schema)}.{quoted(name)}"
        return found

    def frames(self) -> dict[str, Any]:
        """The DataFrames among the variables of Python cells."""
        return self.variables.frames()

    def columns(self, table: str) -> list[Column]:
        """Columns of what stands behind FROM, as it is written there."""
        self._offer([table])
        described = self.connection.execute(f"SELECT * FROM {table} LIMIT 0").description
        name = unquoted(table.rpartition(".")[2] if table[:1] == '"' else table)
        types = {row[1]: row[2] for row in self.connection.execute(f"PRAGMA table_info({quoted(name)})").fetchall()}
        return [Column(name, types.get(name, "")) for name, *_ in described]

    def keys(self, table: str) -> dict[str, str]:
        """Columns of a table to what keys they are part of."""
        rows = self.connection.execute(f"PRAGMA table_info({quoted(table)})").fetchall()
        foreign = self.connection.execute(f"PRAGMA foreign_key_list({quoted(table)})").fetchall()
        primary = {row[1]: "primary key" for row in rows if row[5]}
        return {**primary, **{row[3]: f"-> {row[2]}.{row[4] or row[3]}" for row in foreign}}

    def reads(self, file: str) -> bool:
        """Whether a file is a table of its own, and small enough to be copied for a look."""
        path = os.path.join(self.workdir, file)
        return is_looked_at(path) if is_name(file) else _is_readable(file) and os.path.getsize(path) <= LOOKED_AT_BYTES

    def _judge(self, action: int, first: str | None, second: str | None, *_: object) -> int:
        return sqlite3.SQLITE_OK if self._allows(action, first, second) else sqlite3.SQLITE_DENY

    def _allows(self, action: int, first: str | None, second: str | None) -> bool:
        if action in _ACTIONS:
            return True
        if action == sqlite3.SQLITE_FUNCTION:
            return (second or "").casefold() not in _FUNCTIONS_REFUSED
        if action == sqlite3.SQLITE_PRAGMA:
            name = (first or "").casefold()
            return name in _PRAGMAS or (name in _ASKED_PRAGMAS and second is None)
        if action == sqlite3.SQLITE_CREATE_VTABLE:
            return (second or "").casefold() in _MODULES
        return action == sqlite3.SQLITE_ATTACH and self._may_attach(first)

    def _may_attach(self, path: str | None) -> bool:
        """A name that is worked out in the query is not told, and refused; so are URIs."""
        if path is None or path.casefold().startswith("file:"):
            return False
        if path in ("", ":memory:"):
            return True
        try:
            inside(path, self.workdir)
        except PermissionError:
            return False
        return True

    def _offer(self, words: list[str]) -> None:
        """Copy the DataFrames and files that a statement may mean; again when they have changed."""
        names = [unquoted(word) for word in words]
        said: dict[str, Any] = {name: frame_of(name, self.workdir) for name in names_in(words)}
        said |= {name: self._file(name) for word, name in zip(words, names, strict=True) if _names_file(word, name)}
        said |= self.variables.frames_named(names)
        wanted = offers(said, names, self._copied, self._found, self._stored)
        taken = set(map(folded, self.tables())) if wanted else set()
        gone = [name for name in self._copied if name in taken or name not in wanted]
        changed = [name for name, offer in wanted.items() if name not in taken and not self._has(name, offer)]
        if (gone or changed) and self.connection.in_transaction:
            told = (self._copied | wanted)[min([*gone, *changed])].name
            raise InTransaction(
                f"{told!r} cannot be copied within a transaction: COMMIT or ROLLBACK, name it, then BEGIN"
            )
        for name in gone:
            self._drop(name)
        for name in changed:
            try:
                self._copy(wanted[name])
            except Exception:  # pandas and sqlite3 raise many kinds
                if name in map(folded, said):  # what a statement does not name is no failure of it
                    raise
                self._drop(name)

    def _has(self, name: str, offer: Offer) -> bool:
        return name in self._copied and same(self._copied[name].source, offer.source)

    def _found(self, name: str) -> Any:
        """What was copied under a name, as it is now; None when it is gone or broken."""
        value = self.variables.get(name)
        if is_frame(value):
            return value
        if is_name(name):
            return frame_if_there(name, self.workdir)
        with contextlib.suppress(OSError):
            return self._file(name)
        return None

    def _file(self, name: str) -> tuple[str, int, int] | None:
        path = inside(name, self.workdir)
        if not _is_readable(name) or not os.path.isfile(path):
            return None
        state = os.stat(path)
        return path, state.st_mtime_ns, state.st_size

    def _stored(self) -> set[str]:
        """The names in views and triggers."""
        names: set[str] = set()
        for _, schema, _ in self.connection.execute("PRAGMA database_list").fetchall():
            listed = f"SELECT sql FROM {quoted(schema)}.sqlite_schema WHERE type IN ('view', 'trigger')"
            for (text,) in self.connection.execute(listed).fetchall():
                names |= {unquoted(word) for word in words_of(text)}
        return names

    def _drop(self, name: str) -> None:
        self.connection.execute(f"DROP TABLE IF EXISTS temp.{quoted(name)}")
        self._copied.pop(name, None)

    def _copy(self, offer: Offer) -> None:
        """All of it or nothing: a table that is left empty would be taken for the program's own."""
        frame = _read(offer.source[0]) if isinstance(offer.source, tuple) else offer.source
        table = f"temp.{quoted(offer.name)}"
        columns = ", ".join(map(quoted, _distinct(map(str, frame.columns))))
        places = ", ".join("?" * frame.shape[1])
        series = (map(_plain, frame.iloc[:, i].tolist()) for i in range(frame.shape[1]))
        self.connection.execute("BEGIN")
        with self.connection:
            self.connection.execute(f"DROP TABLE IF EXISTS {table}")
            self.connection.execute(f"CREATE TABLE {table} ({columns})")
            self.connection.executemany(f"INSERT INTO {table} VALUES ({places})", zip(*series, strict=True))
        self._copied[folded(offer.name)] = offer


def _is_readable(name: str) -> bool:
    return os.path.splitext(name)[1].casefold() in _READERS


def _names_file(word: str, name: str) -> bool:
    """Whether a token may mean a file that pandas reads."""
    return word[:1] in "'\"`[" and _is_readable(name)


def _read(path: str) -> Any:
    pandas: Any = importlib.import_module("pandas")
    reader = getattr(pandas, _READERS[ending := os.path.splitext(path)[1].casefold()])
    if ending not in (".csv", ".tsv"):
        return reader(path)
    frame = reader(path, **_BLANKS)
    if _holds_padded_number(path):
        texts = reader(path, **_BLANKS, dtype=str)
        for place in range(min(frame.shape[1], texts.shape[1])):
            column = texts.iloc[:, place]
            if frame.dtypes.iloc[place].kind in "if" and column.str.fullmatch(_PADDED_TEXT, na=False).any():
                frame.isetitem(place, column)
    return frame


def _holds_padded_number(path: str) -> bool:
    """Return whether a file may hold a number such as 01234, which is a code and not 1234."""
    with open(path, "rb") as file:
        return any(map(_PADDED.search, file))


def _plain(item: Any) -> Any:
    """As SQLite holds it: numbers, texts, bytes and NULL; of whole numbers, those of 64 bits."""
    if isinstance(item, int):
        return item if item.bit_length() < 64 else float(item)
    if item is None or isinstance(item, (str, bytes)):
        return item
    if isinstance(item, float):
        return None if item != item else item
    if type(item).__name__ in ("NaTType", "NAType"):
        return None
    if isinstance(item, datetime.datetime):
        return item.isoformat(sep=" ")
    if isinstance(item, datetime.timedelta):  # pandas' own has other words for the same
        return str(datetime.timedelta(item.days, item.seconds, item.microseconds))
    return str(item)


def _distinct(names: Iterable[str]) -> Iterator[str]:
    """Each name, with a number behind it where SQLite would take it for an earlier one, as DuckDB does."""
    counts: dict[str, int] = {}
    for name in names:
        given = name
        while folded(given) in counts:
            counts[folded(name)] += 1
            given = f"{name}_{counts[folded(name)]}"
        counts[folded(given)] = 0
        yield given


def _result(cursor: sqlite3.Cursor) -> Result:
    pandas: Any = importlib.import_module("pandas")
    rows: list[Any] = []
    while len(rows) <= MOST_ROWS:
        more = cursor.fetchmany(_CHUNK)
        if not more:
            break
        rows += more
    complete = len(rows) <= MOST_ROWS
    cursor.close()
    names = [name for name, *_ in cursor.description or ()]
    frame = pandas.DataFrame(rows[:MOST_ROWS], columns=names)
    types = [_type(row[i] for row in rows[:_CHUNK]) for i in range(len(names))]
    return Result(list(map(Column, names, types)), frame, complete, page="LIMIT and OFFSET")


def _type(values: Any) -> str:
    """The storage classes of a column's first values."""
    classes = {int: "INTEGER", float: "REAL", str: "TEXT", bytes: "BLOB"}
    found = sorted({classes[type(value)] for value in values if value is not None})
    return " or ".join(found) or "NULL"
