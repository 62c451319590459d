"""MySQL and MariaDB through PyMySQL: one connection for each query, closed after it.

What holds a query, in this order. The kind of statement, by its first words: whatever would end the transaction, set
the session, call a routine or end other sessions is none of those. What takes a lock is refused (see `mysql_locks`),
and the session's isolation is one in which reading takes none. The protocol: without CLIENT_MULTI_STATEMENTS a
server takes a single statement. The role, whose grants are looked at before each query (see `mysql_grants`). A
transaction that is read-only and never committed. The server's clock (`max_statement_time` or `max_execution_time`)
and ours; when ours ends first, the rows are too many, or the caller goes away, a second connection ends the first one
on the server with KILL, after a look that it is the same server.

Rows are counted as they come, and so are their bytes. PyMySQL is what speaks the protocol here, and no more:
SQLAlchemy would add a common way to write queries, and none to keep them in bounds.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import struct
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from groundbox.databases import blanks
from groundbox.databases.answer import Answer, DatabaseUnavailable, RoleTooPowerful
from groundbox.databases.database import Database
from groundbox.databases.failure import HEAD_CHARS, NO_WORD, failure_of
from groundbox.databases.mysql_failure import told
from groundbox.databases.mysql_grants import powers_of
from groundbox.databases.mysql_line import CONNECT_S, Line, TooWide, driver, line_to
from groundbox.databases.mysql_locks import lock_in
from groundbox.databases.mysql_values import field_of, reader_of

_SCHEMA: Final = """
SELECT concat('`', replace(c.table_schema, '`', '``'), '`.`', replace(c.table_name, '`', '``'), '`') AS reference,
       if(c.table_schema = database(), c.table_name, concat(c.table_schema, '.', c.table_name)),
       t.table_type LIKE '%VIEW', t.table_rows, c.column_name, c.column_type,
       concat_ws(', ', if(c.column_key = 'PRI', 'primary key', NULL),
                 (SELECT group_concat('-> ', k.referenced_table_name, '.', k.referenced_column_name SEPARATOR ', ')
                  FROM information_schema.key_column_usage k
                  WHERE k.table_schema = c.table_schema AND k.table_name = c.table_name
                    AND k.column_name = c.column_name AND k.referenced_table_name IS NOT NULL))
FROM information_schema.columns c
JOIN information_schema.tables t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
WHERE c.table_schema NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')
  AND t.table_type IN ('BASE TABLE', 'VIEW', 'SYSTEM VERSIONED') AND c.privileges LIKE '%select%'
ORDER BY 1, c.ordinal_position
"""
_KNOWN: Final = """
SELECT if(table_schema = database(), table_name, concat(table_schema, '.', table_name)), column_name
FROM information_schema.columns WHERE table_schema NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')
ORDER BY 1, ordinal_position LIMIT 5000
"""
_READ_ONLY: Final = ("SET SESSION TRANSACTION READ ONLY", "START TRANSACTION READ ONLY")
_SAME_SERVER: Final = "SELECT @@hostname, @@port, @@server_id"
_CLOCK_S: Final = 1.0
"""Our clock ends so much later than the server's."""
_CATALOG_S: Final = 2.0
_CELL_BYTES: Final = 8
"""An empty value takes memory, too."""
_FIRST_WORDS: Final = frozenset({"select", "with", "values", "table", "explain", "describe", "desc", "show"})
_SHOWN_NAMES: Final = "tables full columns fields index indexes keys databases schemas variables character collation"
_SHOWN: Final = frozenset(_SHOWN_NAMES.split())
"""What may be shown: SHOW GRANTS and SHOW CREATE USER would tell the hash of the role's password."""
_REFUSED: Final = "it refused the role or its password"
_FULL: Final = "it takes no more connections now"
_CONNECTING: Final = {
    1044: _REFUSED,
    1045: _REFUSED,
    1130: _REFUSED,
    1698: _REFUSED,
    1040: _FULL,
    1203: _FULL,
    1226: _FULL,
}
_UNKNOWN_VARIABLE: Final = 1193
_UNBOUNDED: Final = "it has no time-out for statements; MySQL has one since 5.7.8, MariaDB since 10.1.1"
_LOST_CODES: Final = frozenset({1053, 1927})
"""Shutdown, and a connection that was ended."""
_BROKEN: Final = (RuntimeError, ValueError, IndexError, AssertionError, TypeError, struct.error, OSError)
"""What PyMySQL raises at a server that does not keep to the protocol, or asks for a local file."""
_TIMED_OUT: Final = frozenset({1969, 3024})


async def ask(name: str, database: Database, sql: str, *, wall_s: float | None = None) -> Answer:
    """Run one statement that reads.

    Cancelling the caller's task ends the statement on the server.

    Args:
        name: What the sandbox calls the database; for messages.
        wall_s: Less time than the database's own, if it is less.

    Raises:
        DatabaseUnavailable: It cannot be reached, or PyMySQL is not installed.
        RoleTooPowerful: The role could do more than read.
    """
    if refusal := _refusal(sql):
        return Answer(failure=failure_of("ReadOnly", refusal))
    time_s = min(database.timeout_s, wall_s or database.timeout_s)
    line = line_to(name, database, time_s + 2 * _CLOCK_S)
    powers: list[str] = []
    reason = ""
    try:
        await _connect(name, line)
        async with asyncio.timeout(time_s + _CLOCK_S):
            powers = await line.call(lambda: _prepare(line, time_s))
        if powers and not database.allow_powerful:
            raise RoleTooPowerful(name, powers)
        line.running = True  # from here on an end of it on the server is due, whenever the caller goes away
        async with asyncio.timeout(time_s + _CLOCK_S):
            answer: Answer = await line.call(lambda: _answer(line, database, sql, time_s, powers))
            return answer
    except TooWide:
        message = f"one row is larger than max_bytes={database.max_bytes}; select less of it"
        return Answer(failure=failure_of("RowTooLarge", message), powers=powers)
    except TimeoutError:
        return _stopped(time_s, powers)
    except (driver().Error, *_BROKEN) as error:
        reason = f"the connection was lost ({type(error).__name__})"
        if code := _code(error):
            reason = f"it refuses what bounds a session, or to tell the role's grants (error {code})"
            if code == _UNKNOWN_VARIABLE:
                reason = _UNBOUNDED
    finally:
        await asyncio.shield(_end(line))
    raise DatabaseUnavailable(name, reason)


async def schema(name: str, database: Database, *, wall_s: float | None = None) -> Answer:
    """See `groundbox.databases.servers.Server`."""
    return await ask(name, database, _SCHEMA, wall_s=wall_s)


def sample(database: Database, table: str, columns: Sequence[str], count: int) -> str:
    """See `groundbox.databases.servers.Server`."""
    return f"SELECT {', '.join(map(_quoted, columns))} FROM {table} LIMIT {count}"


def _quoted(name: str) -> str:
    """A name as an identifier."""
    return "`" + name.replace("`", "``") + "`"


def _refusal(sql: str) -> str | None:
    """Why a statement is not sent."""
    if "\0" in sql:
        return "the statement has a NUL character in it"
    try:
        sql.encode()
    except UnicodeEncodeError:
        return "the statement has half of a character in it, which UTF-8 cannot write"
    word, *following = _first_words(sql[:HEAD_CHARS])
    if not word and len(sql) > HEAD_CHARS:
        return NO_WORD
    if word not in _FIRST_WORDS:
        allowed = ", ".join(sorted(_FIRST_WORDS)).upper()
        return f"only statements that read are run here: {allowed}; not {word.upper() or 'this'}"
    if lock := lock_in(sql):
        return lock
    if word == "show" and following[0] not in _SHOWN and following not in (["create", "table"], ["create", "view"]):
        return f"SHOW tells {', '.join(sorted(_SHOWN)).upper()}, CREATE TABLE and CREATE VIEW here"
    return None


def _first_words(head: str) -> list[str]:
    """The first three words; fewer are followed by empty ones. Comments that a server runs are no blanks."""
    at = _after(head, 0)
    while head.startswith("(", at):
        at = _after(head, at + 1)
    words = []
    for _ in range(3):
        words.append(blanks.word_at(head, at))
        at = _after(head, at + len(words[-1]))
    return [word.casefold() for word in words]


def _after(head: str, at: int) -> int:
    return blanks.after(head, at, hashes=True, dashes_alone=False)


def _stopped(time_s: float, powers: Sequence[str] = ()) -> Answer:
    failure = failure_of("Timeout", f"the query was stopped at {time_s:g} s")
    return Answer(failure=failure, timed_out=True, powers=powers)


async def _connect(name: str, line: Line) -> None:
    mysql = driver()
    try:
        async with asyncio.timeout(CONNECT_S):
            await line.call(line.connection.connect)
            return
    except TimeoutError:
        reason = f"it did not answer within {CONNECT_S:g} s"
    except (mysql.Error, *_BROKEN) as error:
        reason = _CONNECTING.get(_code(error), "it cannot be reached as configured")
    raise DatabaseUnavailable(name, reason)


def _prepare(line: Line, time_s: float) -> list[str]:
    """Set the session's bounds, look at the role, and begin the read-only transaction."""
    seconds = max(1, math.ceil(time_s))
    for setting in (
        _clock(line, time_s),
        "TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        f"lock_wait_timeout = {seconds}",
        f"innodb_lock_wait_timeout = {seconds}",
        f"net_write_timeout = {seconds + 60}",
        f"wait_timeout = {seconds + 60}",
    ):
        line.rows(f"SET SESSION {setting}")
    line.server = line.rows(_SAME_SERVER)
    powers = powers_of(grant for (grant,) in line.rows("SHOW GRANTS"))
    for statement in _READ_ONLY:
        line.rows(statement)
    return powers


def _clock(line: Line, time_s: float) -> str:
    """The server's time for a statement; 0 would be no bound."""
    if "mariadb" in str(line.connection.server_version).casefold():
        return f"max_statement_time = {max(0.001, time_s):.3f}"
    return f"max_execution_time = {max(1, int(time_s * 1000))}"


def _answer(line: Line, database: Database, sql: str, time_s: float, powers: Sequence[str]) -> Answer:
    """The rows as they come; what is left of a statement that has not ended is for `_end`."""
    begun = time.monotonic()
    try:
        held = _rows(line, database, sql)
    except driver().Error as error:
        code = _code(error)
        if code == 0:
            raise
        line.running = False
        if code in _TIMED_OUT:
            return _stopped(time_s, powers)
        return Answer(failure=_told(line, error, sql), powers=powers)
    if time.monotonic() - begun >= time_s and not line.running:  # some functions return early and tell no error
        return _stopped(time_s, powers)
    if held is None:
        return Answer(failure=failure_of("NoRows", "the statement gives no rows"), powers=powers)
    return Answer(fields=held.fields, rows=held.rows, complete=held.complete, powers=powers)


def _code(error: BaseException) -> int:
    """The server's number for what went wrong; 0 when the connection did."""
    code = error.args[0] if isinstance(error, driver().MySQLError) and error.args else 0
    if not isinstance(code, int) or 2000 <= code < 3000 or code in _LOST_CODES:
        return 0
    return code


class _Held(NamedTuple):
    fields: Sequence[Any]
    rows: Sequence[Sequence[Any]]
    complete: bool


def _rows(line: Line, database: Database, sql: str) -> _Held | None:
    """Rows within the caps; None when the statement has none to give."""
    line.connection.query(sql, unbuffered=True)
    result = line.connection._result
    try:
        if not result.unbuffered_active:
            line.running = False
            return None
        fields = [field_of(packet) for packet in result.fields]
        readers = [reader_of(field) for field in fields]
        rows: list[list[Any]] = []
        held_bytes = 0
        while (row := result._read_rowdata_packet_unbuffered()) is not None:
            held_bytes += sum(_CELL_BYTES + len(value or b"") for value in row)
            if not rows and held_bytes > database.max_bytes:
                raise TooWide
            if len(rows) >= database.max_rows or held_bytes > database.max_bytes:
                return _Held(fields, rows, False)
            rows.append([None if v is None else read(v) for v, read in zip(row, readers, strict=True)])
        line.running = False
        return _Held(fields, rows, True)
    finally:
        result.unbuffered_active = False  # PyMySQL would read all that is left


def _told(line: Line, error: Exception, sql: str) -> dict[str, Any]:
    """The server's failure, with what its catalog has under names like those that it does not know."""
    known: dict[str, list[str]] = {}
    line.rows("ROLLBACK")
    line.rows(f"SET SESSION {_clock(line, _CATALOG_S)}")
    with contextlib.suppress(driver().OperationalError):  # it took too long
        for table, column in line.rows(_KNOWN):
            known.setdefault(table, []).append(column)
    return told(error, sql, known)


async def _end(line: Line) -> None:
    """Leave nothing running on the server, and close."""
    try:
        if line.running and line.server is not None:
            with contextlib.suppress(driver().Error, TooWide, OSError, TimeoutError):
                async with asyncio.timeout(CONNECT_S):
                    await line.call(lambda: _kill(line))
    finally:
        line.close()


def _kill(line: Line) -> None:
    """End the connection on the server from another one; a role may end what is its own."""
    other = Line(line.connect, line.connect(CONNECT_S))
    try:
        other.connection.connect()
        if other.rows(_SAME_SERVER) == line.server:
            _end_connection(other, line.connection.thread_id())
    finally:
        other.close()


def _end_connection(other: Line, number: int) -> None:
    other.rows(f"KILL CONNECTION {number}")
