"""DuckDB inside a sandbox: one connection in memory that lives as long as the sandbox.

What is closed to a query, beside the wall that holds anyway: extensions (neither installed nor loaded), every path
outside of the workdir, secrets that last, spilling to disk (the disk is memory here), and the configuration, which is
locked. Python code in the same sandbox could undo this, and gain nothing by it.

A DataFrame that a query names is registered under its name, unless a table has it: DuckDB's own way to find
variables is switched off together with access to files. Spreadsheets become DataFrames the same way, and a macro
stands for the function `read_xlsx` of an extension.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
from collections.abc import Iterator
from typing import Any, Final

from . import spreadsheets
from .csv_types import Change, CsvTypes, Token
from .few import MOST, FewRows, takes
from .frames import Variables, is_frame
from .offered import Offer, folded, offers, same
from .result import MOST_ROWS, Column, Result, whole_numbers
from .sheet import is_looked_at
from .statement import Outcome, Statement, ends_transaction, quoted, unquoted

_CONFIG: Final = {
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    "async_threads": "0",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
_READ_XLSX: Final = f"""
CREATE TEMP MACRO {spreadsheets.READER}(path, sheet := NULL) AS TABLE
FROM query_table('"' || replace(path || coalesce('#' || sheet, ''), '"', '""') || '"')
"""
_REGISTERED: Final = """
SELECT view_name FROM duckdb_views() WHERE temporary AND contains(sql, ' AS SELECT * FROM pandas_scan() AS __duckdb')
"""
_MEMORY_SHARE: Final = 0.6
_PROCESSES_PER_THREAD: Final = 4
_MOST_THREADS: Final = 16
_CHUNK_VECTORS: Final = 32
_WITHOUT_ROWS_NAMES: Final = """
    INSERT UPDATE DELETE MERGE_INTO COPY COPY_DATABASE CREATE CREATE_FUNC DROP ALTER ATTACH DETACH EXPORT LOAD SET
    VARIABLE_SET TRANSACTION VACUUM PREPARE
"""
_WITHOUT_ROWS: Final = frozenset(_WITHOUT_ROWS_NAMES.split())
_INPUTS = "/inputs"
"""Where files of the host are, if the sandbox has any (jail/rootfs.py); nothing can be written there."""


class DuckDB:
    """The engine of SQL without a `dialect`.

    Attributes:
        connection: duckdb's own.
        variables: Where the variables of Python cells are.
    """

    name = "DuckDB"

    def __init__(
        self, workdir: str, variables: Variables, *, memory_bytes: int | None, process_count: int | None
    ) -> None:
        self._duckdb: Any = importlib.import_module("duckdb")
        self.variables = variables
        self._goes_on = int(self._duckdb.__version__.partition(".")[0]) > 1
        """Whether frames begin where `fetchmany` left off."""
        self.workdir = os.path.realpath(workdir)
        self._registered: dict[str, Offer] = {}
        memory = {} if memory_bytes is None else {"memory_limit": f"{int(memory_bytes * _MEMORY_SHARE)}B"}
        self.connection = self._duckdb.connect(
            ":memory:", config={**_CONFIG, **memory, "threads": str(thread_count(process_count))}
        )
        folder = self.workdir.replace("'", "''")
        for setting in (
            "enable_progress_bar = false",
            "temp_directory = ''",
            f"allowed_directories = ['{folder}', '{_INPUTS}']",
            "enable_external_access = false",
            "lock_configuration = true",
        ):
            self.connection.execute(f"SET {setting}")
        self.connection.execute(_READ_XLSX)
        self.csv_types = CsvTypes(self._duckdb, self.connection, self.workdir)

    def interrupt(self) -> None:
        """Stop the query that runs; from another thread."""
        self.connection.interrupt()

    def statements(self, source: str) -> list[Statement]:
        """The statements of a source, all parsed before the first one runs."""
        found, start = [], 0
        source = self._with_named_sheets(source)
        parsed_at_once = self.connection.extract_statements(source)
        for parsed in parsed_at_once:
            start = max(source.find(parsed.query, start), start)
            alone = self.connection.extract_statements(parsed.query) if len(parsed_at_once) > 1 else [parsed]
            # The places in errors are those of the text that was parsed. PIVOT becomes several statements.
            parsed = alone[0] if len(alone) == 1 else parsed
            found.append(Statement(parsed.query, source.count("\n", 0, start), parsed))
            start += len(parsed.query)
        return found

    def execute(self, statement: Statement) -> Outcome:
        """Carry out one statement."""
        typed = self._with_types(statement)
        try:
            return self._execute(typed)
        except (self._duckdb.BinderException, self._duckdb.CatalogException):
            if typed is not statement and statement.parsed.type.name == "SELECT":
                self.connection.execute(statement.parsed)  # fails, too, at the place in the program's own text
            raise

    def _execute(self, statement: Statement) -> Outcome:
        kind = statement.parsed.type.name
        if kind == "SELECT" and not self._may_need_offers(statement.text):
            self.connection.execute(statement.parsed)
            return self._result(statement)
        words = list(self.words(statement.text))
        if ends_transaction(words):
            return self._ended(statement)
        export = spreadsheets.export_of(words)
        self._offer(words if export is None else list(self.words(export.query)))
        if export is not None:
            return self._export(export)
        self.connection.execute(statement.parsed)
        if kind in _WITHOUT_ROWS and "returning" not in (word.casefold() for word in words):
            return self._without_rows(kind)
        return self._result(statement)

    def _with_types(self, statement: Statement) -> Statement:
        """The statement with types for the columns of files that DuckDB would change, where it can still be parsed."""
        text = self.csv_types.rewrite(statement.text, self._named_tokens, lambda: set(self.tables()))
        if text == statement.text:
            return statement
        try:
            parsed = self.connection.extract_statements(text)
        except self._duckdb.Error:
            return statement
        return statement._replace(text=text, parsed=parsed[0]) if len(parsed) == 1 else statement

    def _named_tokens(self, text: str) -> Iterator[Token]:
        names = {start for start, kind in self._duckdb.tokenize(text) if kind == self._duckdb.token_type.identifier}
        return (Token(at, word, at in names) for at, word in self._tokens(text))

    def take_changes(self) -> list[Change]:
        """The columns of files that were read as other types than DuckDB guesses, since this was last asked."""
        changes, self.csv_types.changes = self.csv_types.changes, []
        return changes

    def _may_need_offers(self, text: str) -> bool:
        """Whether a query could mean a DataFrame or a sheet, without a look at its tokens."""
        return bool(self._registered) or spreadsheets.may_be_named(text) or self.variables.may_be_named(text)

    def _ended(self, statement: Statement) -> str:
        """End a transaction; what was registered or forgotten in it may be undone by that, and is done again."""
        self.connection.execute(statement.parsed)
        for (name,) in self.connection.execute(_REGISTERED).fetchall():
            self.connection.unregister(name)
        for offer in self._registered.values():
            self.connection.register(*offer)
        self._prepare_anew()
        return f"{statement.parsed.type.name} done"

    def words(self, text: str) -> Iterator[str]:
        """The tokens of a statement as they are written, without comments."""
        return (word for _, word in self._tokens(text))

    def _tokens(self, text: str) -> Iterator[tuple[int, str]]:
        """Each with its place among the bytes."""
        data = text.encode()
        marks = [*self._duckdb.tokenize(text), (len(data), None)]
        comment = self._duckdb.token_type.comment
        for (start, kind), (end, _) in itertools.pairwise(marks):
            if kind != comment:
                yield start, data[start:end].decode().strip()

    def _with_named_sheets(self, source: str) -> str:
        """`sheet = 'x'` in calls of `read_xlsx` as `sheet := 'x'`, which macros take; no longer where blanks allow."""
        if spreadsheets.READER not in source.casefold():
            return source
        data, depth, last, equals = bytearray(source.encode()), 0, ["", ""], []
        for at, word in self._tokens(source):
            if word == "(":
                depth = 1 if last[1].casefold() == spreadsheets.READER else depth + bool(depth)
            elif word == ")":
                depth -= bool(depth)
            elif word == "=" and depth == 1 and last[0] in ("(", ","):
                equals.append(at)
            last = [last[1], word]
        for at in reversed(equals):
            before, after = data[at - 1 : at] == b" ", data[at + 1 : at + 2] == b" "
            data[at - before : at + 1 + (after and not before)] = b":="
        return data.decode()

    def tables(self) -> dict[str, str]:
        """Names of tables and views to how they are called in a query; those that only stand for DataFrames not."""
        found = self.connection.execute(
            "SELECT database_name, schema_name, table_name FROM duckdb_tables() WHERE NOT internal UNION ALL "
            "SELECT database_name, schema_name, view_name FROM duckdb_views() WHERE NOT internal"
        ).fetchall()
        return {
            table: _qualified(database, schema, table)
            for database, schema, table in found
            if not (database == "temp" and folded(table) in self._registered)
        }

    def frames(self) -> dict[str, Any]:
        """The DataFrames among the variables of Python cells."""
        return self.variables.frames()

    def columns(self, table: str) -> list[Column]:
        """Columns of what stands behind FROM, as it is written there."""
        self._offer([table])
        text = f"SELECT * FROM {table} LIMIT 0"
        text = self.csv_types.rewrite(text, self._named_tokens, lambda: set(self.tables()))
        described = self.connection.execute(text).description
        return [Column(name, str(kind)) for name, kind, *_ in described]

    def keys(self, table: str) -> dict[str, str]:
        """Columns of a table to what keys they are part of."""
        found = self.connection.execute(
            "SELECT constraint_type, constraint_column_names, referenced_table, referenced_column_names "
            "FROM duckdb_constraints() WHERE table_name = ?",
            [table],
        ).fetchall()
        keys: dict[str, str] = {}
        for kind, columns, other, others in found:
            if kind == "PRIMARY KEY":
                keys |= dict.fromkeys(columns, "primary key")
            elif kind == "FOREIGN KEY":
                keys |= {column: f"-> {other}.{its}" for column, its in zip(columns, others, strict=False)}
        return keys

    def reads(self, file: str) -> bool:
        """Whether a file is a table of its own; a database has to be attached."""
        if spreadsheets.is_name(file):
            return is_looked_at(os.path.join(self.workdir, file))
        return not file.casefold().endswith((".db", ".sqlite", ".gz"))

    def _offer(self, words: list[str]) -> None:
        """Make the DataFrames and spreadsheets that a statement may mean known to DuckDB, and keep them up to date."""
        names = [unquoted(word) for word in words]
        said = self.variables.frames_named(names)
        said |= {name: spreadsheets.frame_of(name, self.workdir) for name in spreadsheets.names_in(words)}
        wanted = offers(said, names, self._registered, self._found, self._stored)
        changed = [name for name, offer in wanted.items() if not self._has(name, offer)]
        taken = set(map(folded, self.tables())) if changed or said else set()
        gone = [name for name in self._registered if name in taken or name not in wanted]
        for name in {*gone, *changed} & self._registered.keys():
            self.connection.unregister(self._registered.pop(name).name)
        for name in set(changed) - taken:
            self.connection.register(*wanted[name])
            self._registered[name] = wanted[name]
        if gone or changed:
            self._prepare_anew()

    def _has(self, name: str, offer: Offer) -> bool:
        return name in self._registered and same(self._registered[name].source, offer.source)

    def _found(self, name: str) -> Any:
        """What was registered under a name, as it is now; None when it is gone or broken."""
        value = self.variables.get(name)
        return value if is_frame(value) else spreadsheets.frame_if_there(name, self.workdir)

    def _stored(self) -> set[str]:
        """The names in views, macros and prepared statements."""
        texts = self.connection.execute(
            "SELECT view_name, sql FROM duckdb_views() WHERE NOT internal UNION ALL "
            "SELECT '', macro_definition FROM duckdb_functions() WHERE NOT internal AND macro_definition IS NOT NULL "
            "UNION ALL SELECT '', statement FROM duckdb_prepared_statements()"
        ).fetchall()
        own = self._registered
        return {unquoted(word) for view, text in texts if folded(view) not in own for word in self.words(text)}

    def _prepare_anew(self) -> None:
        """Prepared statements keep hold of what they read; one whose table is gone is forgotten."""
        listed = "SELECT name, statement FROM duckdb_prepared_statements()"
        for name, text in self.connection.execute(listed).fetchall():
            self.connection.execute(f"DEALLOCATE {quoted(name)}")
            with contextlib.suppress(self._duckdb.Error):
                self.connection.execute(f"PREPARE {quoted(name)} AS {text}")

    def _result(self, statement: Statement) -> Result:
        """The rows: as Python's values where they are few and of common types, else as DuckDB's frames."""
        columns = [Column(name, str(kind)) for name, kind, *_ in self.connection.description]
        names, kinds = [column.name for column in columns], [column.type for column in columns]
        if not self._goes_on or statement.parsed.type.name != "SELECT" or not takes(names, kinds):
            return self._rows(columns)
        held = FewRows(names, kinds, self.connection.fetchmany(MOST + 1))
        if not held.is_told:
            self.connection.execute(statement.parsed)
            return self._rows(columns)
        if held.count > MOST:
            return self._rows(columns, held.frame)
        return Result(columns, held if held.is_small else held.frame, complete=True)

    def _rows(self, columns: list[Column], *first: Any) -> Result:
        """What is left of the rows, behind the first ones."""
        pandas: Any = importlib.import_module("pandas")
        chunks, count = [*first, self.connection.fetch_df_chunk(_CHUNK_VECTORS)], sum(map(len, first))
        while len(chunks[-1]):
            count += len(chunks[-1])
            if count > MOST_ROWS or len(chunks[-1]) < 2048:
                break
            chunks.append(self.connection.fetch_df_chunk(_CHUNK_VECTORS))
        filled = [chunk for chunk in chunks if len(chunk)] or chunks  # one without rows has types of its own
        frame = filled[0] if len(filled) == 1 else pandas.concat(filled, ignore_index=True)
        complete = count <= MOST_ROWS
        if not complete:
            frame = frame.iloc[:MOST_ROWS].copy()
        return Result(columns, whole_numbers(frame, columns), complete)

    def _without_rows(self, kind: str) -> str:
        counted = self.connection.fetchone()
        if counted is None or type(counted[0]) is not int:
            return f"{kind} done"
        return f"{kind}: {counted[0]} row{'' if counted[0] == 1 else 's'}"

    def _export(self, export: spreadsheets.Export) -> str:
        self.connection.execute(export.query)
        result = self._rows([Column(name, str(kind)) for name, kind, *_ in self.connection.description])
        spreadsheets.write(result, export.path, self.workdir)
        return f"COPY: {len(result.frame)} rows"


def thread_count(process_count: int | None) -> int:
    """As many threads as there are processors, and no more than a part of what the sandbox may have."""
    room = _MOST_THREADS if process_count is None else max(1, process_count // _PROCESSES_PER_THREAD)
    return min(len(os.sched_getaffinity(0)), room, _MOST_THREADS)


def _qualified(database: str, schema: str, table: str) -> str:
    if database in ("memory", "temp") and schema == "main":
        return quoted(table)
    return ".".join(map(quoted, (database, schema, table) if schema != "main" else (database, table)))
