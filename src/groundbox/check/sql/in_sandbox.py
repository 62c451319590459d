"""Reads one database file inside a sandbox. Its text is run there as a cell; the host never calls it.

What it prints is one line of JSON for each question. The host takes it for a claim: the file may be hostile, and with
it this process.
"""

# mypy: disallow-untyped-defs=false, check-untyped-defs=false, disallow-untyped-calls=false

import json
import threading
import time

_TEXT_CHARS = 2000
_STEPS = 10_000
_ALLOWED_PRAGMAS = {"table_info", "foreign_key_list", "index_list", "index_info", "database_list"}
_TABLES = ("table_info('')", "foreign_key_list('')", "index_list('')", "index_info('')", "database_list")
_REFUSED_FUNCTIONS = {"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer", "lsdir"}
_VALUE_BYTES = 16 * 1024 * 1024


class SQLiteReader:
    """SQLite that reads: the file is opened unchangeable, and an authorizer lets nothing through but reading."""

    def __init__(self, path):
        import sqlite3

        self._sqlite3 = sqlite3
        # `immutable` keeps SQLite from looking for a journal or taking locks, which a crafted file could steer.
        self._connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True, isolation_level=None)
        # A column of texts may hold bytes that are no UTF-8; they are shown as far as they are.
        self._connection.text_factory = lambda data: data.decode(errors="replace")
        self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _VALUE_BYTES)
        # https://www.sqlite.org/security.html advises these for files of others: functions in views and triggers are
        # not trusted, and cells are checked as they are read.
        for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON", "temp_store = MEMORY"):
            self._connection.execute(f"PRAGMA {pragma}")
        for pragma in _TABLES:  # declaring such a table asks for rights to create one, which the authorizer never gives
            self._connection.execute(f"SELECT 1 FROM pragma_{pragma} LIMIT 1").fetchall()
        self._connection.set_authorizer(self._judge)

    def rows(self, sql, most, timeout_s):
        """Names of the columns, and one row more than `most` where there is one."""
        # The engine calls back every 10,000 steps of its machine; a true answer interrupts it.
        end = time.monotonic() + timeout_s
        self._connection.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
        cursor = self._connection.execute(sql)
        if cursor.description is None:
            raise ValueError("it gives no rows")
        return [column[0] for column in cursor.description], cursor.fetchmany(most + 1)

    def _judge(self, action, first, second, *_):
        sqlite3 = self._sqlite3
        if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE):
            return sqlite3.SQLITE_OK
        # Functions are allowed but for a few: a list of all that are harmless would differ with each version of SQLite.
        if action == sqlite3.SQLITE_FUNCTION and (second or "").casefold() not in _REFUSED_FUNCTIONS:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_PRAGMA and (first or "").casefold() in _ALLOWED_PRAGMAS:
            return sqlite3.SQLITE_OK
        return sqlite3.SQLITE_DENY


class DuckDBReader:
    """DuckDB that reads: the file is opened read-only, everything outside of it is closed."""

    def __init__(self, path):
        import duckdb

        # An extension is a library that DuckDB loads into this process; none is fetched, none is loaded.
        settings = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false", "threads": "2"}
        self._connection = duckdb.connect(path, read_only=True, config=settings)
        for setting in ("enable_progress_bar = false", "enable_external_access = false", "lock_configuration = true"):
            # `lock_configuration` last: nothing after it can be set back.
            self._connection.execute(f"SET {setting}")

    def rows(self, sql, most, timeout_s):
        """Names of the columns, and one row more than `most` where there is one."""
        # DuckDB has no limit of time for a query; `interrupt` may be called in another thread.
        timer = threading.Timer(timeout_s, self._connection.interrupt)
        timer.start()
        try:
            cursor = self._connection.execute(sql)
            if cursor.description is None:
                raise ValueError("it gives no rows")
            return [column[0] for column in cursor.description], cursor.fetchmany(most + 1)
        finally:
            timer.cancel()


def answer(reader, sql, most, timeout_s):
    """Return one line for one question."""
    try:
        columns, rows = reader.rows(sql, most, timeout_s)
    except Exception as error:  # engines raise many kinds, and each is an answer
        return json.dumps({"failure": f"{type(error).__name__}: {error}"[:_TEXT_CHARS]})
    told = {"columns": columns, "rows": [[_plain(value) for value in row] for row in rows[:most]]}
    return json.dumps({**told, "complete": len(rows) <= most})


def _plain(value):
    if value is None or isinstance(value, (bool, int, str)):
        return value if not isinstance(value, str) or len(value) <= _TEXT_CHARS else value[:_TEXT_CHARS] + "…"
    if isinstance(value, float):
        # JSON has no infinity, and NaN is not below it, so that both go as texts.
        return value if abs(value) < float("inf") else str(value)
    if isinstance(value, (bytes, bytearray)):
        return f"x'{bytes(value[:_TEXT_CHARS]).hex()}'"
    return float(value) if type(value).__name__ == "Decimal" else str(value)[:_TEXT_CHARS]
