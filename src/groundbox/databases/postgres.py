"""PostgreSQL through psycopg: one connection for each query, closed after it.

What holds a query, in this order. The role, which is looked at before each query (see `roles`). The functions that
the statement may call (see `postgres_functions`). A transaction that is read-only and always rolled back; a query has
run in it already, so that it can no longer be made writable. The protocol: the extended one takes a single statement.
The kind of statement, by its first word. The server's clock (`statement_timeout`) and ours; when ours ends first, or
the caller goes away, the query is cancelled on the server, and its backend is ended if that does not help. The
connection is told to look for its client every second, so that a query does not outlive a host that is gone.

Values travel as the server writes them. Rows are counted as they come, and so are the bytes that wait in the socket:
libpq holds a row until it is whole, and a row may be large.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import importlib
import struct
import termios
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final, NamedTuple

from groundbox.databases import blanks
from groundbox.databases.answer import Answer, DatabaseUnavailable, Field, RoleTooPowerful
from groundbox.databases.database import Database
from groundbox.databases.failure import HEAD_CHARS, NO_WORD, failure_of
from groundbox.databases.postgres_functions import ESCAPED_NAME, find_volatile_call, has_escaped_name
from groundbox.databases.roles import POWERS

CONNECT_S: Final = 10.0
_SCHEMA: Final = """
SELECT pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(c.relname) AS reference,
       CASE WHEN n.nspname = ANY (pg_catalog.current_schemas(false)) THEN '' ELSE n.nspname || '.' END || c.relname,
       c.relkind IN ('v', 'm'), c.reltuples::bigint, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod),
       (SELECT string_agg(CASE k.contype WHEN 'p' THEN 'primary key' ELSE
               '-> ' || k.confrelid::regclass || '.' || (SELECT f.attname FROM pg_catalog.pg_attribute f
               WHERE f.attrelid = k.confrelid AND f.attnum = k.confkey[array_position(k.conkey, a.attnum)]) END, ', ')
        FROM pg_catalog.pg_constraint k
        WHERE k.conrelid = c.oid AND k.contype IN ('p', 'f') AND a.attnum = ANY (k.conkey))
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'
  AND pg_catalog.has_column_privilege(c.oid, a.attnum, 'SELECT')
ORDER BY 1, a.attnum
"""
_CANCEL_S: Final = 2.0
_CLOCK_S: Final = 1.0
"""Our clock ends so much later than the server's."""
_READ_AHEAD_BYTES: Final = 1 << 20
_FIRST_WORDS: Final = frozenset({"select", "with", "values", "table", "explain", "show"})
_CELL_BYTES: Final = 8
"""An empty value takes memory, too."""
_INTEGERS: Final = frozenset({20, 21, 23, 26})
_FLOATS: Final = frozenset({700, 701})
_BOOLEAN: Final = 16
_TIMED_OUT: Final = "57014"


async def ask(name: str, database: Database, sql: str, *, wall_s: float | None = None) -> Answer:
    """Run one statement that reads.

    Cancelling the caller's task cancels the statement on the server.

    Args:
        name: What the sandbox calls the database; for messages.
        wall_s: Less time than the database's own, if it is less.

    Raises:
        DatabaseUnavailable: It cannot be reached, or psycopg is not installed.
        RoleTooPowerful: The role could do more than read.
    """
    if "\0" in sql:
        return Answer(failure=failure_of("SyntaxError", "the statement has a NUL character in it"))
    word = _first_word(sql)
    if word not in _FIRST_WORDS:
        allowed = ", ".join(sorted(_FIRST_WORDS)).upper()
        message = f"only statements that read are run here: {allowed}; not {word.upper() or 'this'}"
        if not word and len(sql) > HEAD_CHARS:
            message = NO_WORD
        return Answer(failure=failure_of("ReadOnly", message))
    if has_escaped_name(sql) and not database.allow_powerful:
        return Answer(failure=failure_of("ReadOnly", ESCAPED_NAME))
    time_s = min(database.timeout_s, wall_s or database.timeout_s)
    connection = await _connected(name, database)
    powers: list[str] = []
    try:
        async with asyncio.timeout(time_s + _CLOCK_S):
            powers = await _prepared(connection, time_s)
        if powers and not database.allow_powerful:
            raise RoleTooPowerful(name, powers)
        async with asyncio.timeout(time_s + _CLOCK_S):
            if function := await find_volatile_call(connection, sql):
                if not database.allow_powerful:
                    return Answer(failure=failure_of("ReadOnly", function.refusal()))
                powers = [*powers, f"can call {function.signature}, which is VOLATILE"]
            return await _answer(connection, database, sql, powers)
    except _NotDrained:
        return _too_wide(database, powers)
    except TimeoutError:
        failure = failure_of("Timeout", f"the query was stopped at {time_s:g} s")
        return Answer(failure=failure, timed_out=True, powers=powers)
    except _psycopg().Error as error:
        lost = type(error).__name__
    finally:
        await asyncio.shield(_end(connection, database))
    raise DatabaseUnavailable(name, f"the connection was lost ({lost})")


async def schema(name: str, database: Database, *, wall_s: float | None = None) -> Answer:
    """See `groundbox.databases.servers.Server`."""
    return await ask(name, database, _SCHEMA, wall_s=wall_s)


def sample(database: Database, table: str, columns: Sequence[str], count: int) -> str:
    """See `groundbox.databases.servers.Server`."""
    return f"SELECT {', '.join(map(_quoted, columns))} FROM {table} LIMIT {count}"


def _quoted(name: str) -> str:
    """A name as an identifier."""
    return '"' + name.replace('"', '""') + '"'


def _first_word(sql: str) -> str:
    head = sql[:HEAD_CHARS]
    at = blanks.after(head)
    while head.startswith("(", at):
        at = blanks.after(head, at + 1)
    return blanks.word_at(head, at).casefold()


def _psycopg() -> Any:
    return importlib.import_module("psycopg")


async def _connected(name: str, database: Database) -> Any:
    """Whatever goes wrong is told without libpq's words, which name the role and the address.

    It is raised outside of the handlers: the exception that they have holds the password in its frames.
    """
    try:
        psycopg = _psycopg()
    except ImportError:
        raise DatabaseUnavailable(
            name, "psycopg is not installed: the extra `postgres` of groundbox brings it"
        ) from None
    try:
        async with asyncio.timeout(CONNECT_S):
            return await psycopg.AsyncConnection.connect(
                database.url,
                autocommit=True,
                connect_timeout=int(CONNECT_S),
                application_name="groundbox",
                client_encoding="utf8",
            )
    except TimeoutError:
        reason = f"it did not answer within {CONNECT_S:g} s"
    except (psycopg.Error, UnicodeError, ValueError) as error:
        refused = "password" in str(error) or "authentication" in str(error)
        reason = "it refused the role or its password" if refused else "it cannot be reached as configured"
    raise DatabaseUnavailable(name, reason)


async def _prepared(connection: Any, time_s: float) -> list[str]:
    """Begin the read-only transaction and look at the role in it."""
    milliseconds = max(1, int(time_s * 1000))
    # Serializable reads would make the writes of others fail.
    await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    for setting in (
        f"statement_timeout = {milliseconds}",
        f"lock_timeout = {milliseconds}",
        f"idle_in_transaction_session_timeout = {milliseconds + 60_000}",
        "client_encoding = 'UTF8'",
        "bytea_output = 'hex'",
        "intervalstyle = 'postgres'",
        "standard_conforming_strings = on",
        "datestyle = 'ISO'",
    ):
        await connection.execute(f"SET LOCAL {setting}")
    if connection.info.server_version >= 140000:
        await connection.execute("SET LOCAL client_connection_check_interval = 1000")
    rows = await (await connection.execute(POWERS)).fetchall()
    return [row[0] for row in rows]


async def _answer(connection: Any, database: Database, sql: str, powers: Sequence[str]) -> Answer:
    fields: list[_RawField] = []
    rows: list[list[Any]] = []
    held_bytes = 0
    results = _results(connection, sql, database.max_bytes)
    async with contextlib.aclosing(results):
        async for result in results:
            if isinstance(result, _TooWide):
                return _too_wide(database, powers)
            if _failed(result):
                failure = await _told(connection, result, sql)
                return Answer(failure=failure, timed_out=_state(result) == _TIMED_OUT, powers=powers)
            fields = fields or _fields(result)
            for row in range(result.ntuples):
                values = [result.get_value(row, column) for column in range(result.nfields)]
                held_bytes += sum(_CELL_BYTES + len(value or b"") for value in values)
                if not rows and held_bytes > database.max_bytes:
                    return _too_wide(database, powers)
                if len(rows) >= database.max_rows or held_bytes > database.max_bytes:
                    await connection.cancel_safe(timeout=_CANCEL_S)
                    await _drained(connection, database.max_bytes + _READ_AHEAD_BYTES)
                    types = await _type_names(connection, fields)
                    return Answer(fields=types, rows=rows, complete=False, powers=powers)
                rows.append([_plain(v, f.oid) for v, f in zip(values, fields, strict=True)])
    return Answer(fields=await _type_names(connection, fields), rows=rows, powers=powers)


def _too_wide(database: Database, powers: Sequence[str]) -> Answer:
    message = f"one row is larger than max_bytes={database.max_bytes}; select less of it"
    return Answer(failure=failure_of("RowTooLarge", message), powers=powers)


class _RawField(NamedTuple):
    name: str
    oid: int
    modifier: int


class _TooWide:
    """More bytes came than one row may have."""


async def _results(connection: Any, sql: str, max_bytes: int) -> AsyncGenerator[Any, None]:
    """Each row, or some together, as libpq's results."""
    pgconn = connection.pgconn
    pgconn.send_query_params(sql.encode(), None)
    pgconn.set_single_row_mode()
    while pgconn.flush():
        await _writable(pgconn.socket)
    waiting = 0
    while True:
        while pgconn.is_busy():
            waiting += await _readable(pgconn.socket)
            if waiting > max_bytes + _READ_AHEAD_BYTES:
                yield _TooWide()
                return
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:
            return
        waiting = 0
        yield result


async def _readable(descriptor: int) -> int:
    """Wait until there is something to read; how many bytes there are."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def set_ready() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(descriptor, set_ready)
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)
    count: int = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, b"\0" * 4))[0]
    return count


async def _writable(descriptor: int) -> None:
    """Wait until more of a long statement can be sent."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def set_ready() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_writer(descriptor, set_ready)
    try:
        await ready
    finally:
        loop.remove_writer(descriptor)


def _failed(result: Any) -> bool:
    return bool(result.status == importlib.import_module("psycopg.pq").ExecStatus.FATAL_ERROR)


def _state(result: Any) -> str:
    """SQLSTATE."""
    fields = importlib.import_module("psycopg.pq").DiagnosticField
    return (result.error_field(fields.SQLSTATE) or b"").decode()


def _fields(result: Any) -> list[_RawField]:
    return [
        _RawField((result.fname(i) or b"").decode(errors="replace"), result.ftype(i), result.fmod(i))
        for i in range(result.nfields)
    ]


def _plain(value: bytes | None, oid: int) -> Any:
    if value is None:
        return None
    text = value.decode(errors="replace")
    if oid in _INTEGERS:
        return int(text)
    if oid in _FLOATS:
        return float(text)
    return text == "t" if oid == _BOOLEAN else text


async def _type_names(connection: Any, fields: Sequence[_RawField]) -> list[Field]:
    """The server's names of the types, which it has to be asked for.

    The query's transaction ends before, and with it every setting that the query made, such as another encoding.
    """
    await connection.execute("ROLLBACK")
    names = []
    for field in fields:
        query = "SELECT pg_catalog.format_type(%s::oid, %s::int)"
        row = await (await connection.execute(query, (field.oid, field.modifier))).fetchone()
        names.append(Field(field.name, row[0]))
    return names


class _NotDrained(Exception):
    """More comes than is to be held."""


async def _drained(connection: Any, row_bytes: int = _READ_AHEAD_BYTES) -> None:
    """Take in what the server still sends after it was told to stop, unless a row is larger than `row_bytes`."""
    pgconn = connection.pgconn
    waiting = 0
    while True:
        while pgconn.is_busy():
            waiting += await _readable(pgconn.socket)
            if waiting > row_bytes:
                raise _NotDrained
            pgconn.consume_input()
        if pgconn.get_result() is None:
            return
        waiting = 0


async def _told(connection: Any, result: Any, sql: str) -> dict[str, Any]:
    """The server's failure, with what its catalog has under names like those that it does not know."""
    pq = importlib.import_module("psycopg.pq")

    def said(field: str) -> str:
        return (result.error_field(getattr(pq.DiagnosticField, field)) or b"").decode(errors="replace")

    try:
        kind = importlib.import_module("psycopg.errors").lookup(said("SQLSTATE")).__name__
    except KeyError:
        kind = said("SQLSTATE") or "DatabaseError"
    position = said("STATEMENT_POSITION")
    await _drained(connection)
    await connection.execute("ROLLBACK")
    known = await _columns(connection)
    return failure_of(
        kind,
        ". ".join(filter(None, (said("MESSAGE_PRIMARY"), said("MESSAGE_DETAIL")))),
        sql=sql,
        position=int(position) if position.isdigit() else None,
        advice=said("MESSAGE_HINT"),
        known=known,
    )


async def _columns(connection: Any) -> dict[str, list[str]]:
    """Tables that the role may read, each with its columns."""
    await connection.execute("BEGIN READ ONLY")
    await connection.execute("SET LOCAL statement_timeout = 2000")
    rows = await (
        await connection.execute(
            "SELECT CASE WHEN table_schema = ANY (current_schemas(false)) THEN table_name "
            "ELSE table_schema || '.' || table_name END, column_name FROM information_schema.columns "
            "WHERE table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, ordinal_position LIMIT 5000"
        )
    ).fetchall()
    known: dict[str, list[str]] = {}
    for table, column in rows:
        known.setdefault(table, []).append(column)
    return known


async def _end(connection: Any, database: Database) -> None:
    """Leave nothing running on the server, and close."""
    psycopg = _psycopg()
    pq = importlib.import_module("psycopg.pq")
    try:
        if connection.pgconn.transaction_status == pq.TransactionStatus.ACTIVE:
            with contextlib.suppress(psycopg.Error, OSError):
                await connection.cancel_safe(timeout=_CANCEL_S)
            try:
                async with asyncio.timeout(_CANCEL_S):
                    await _drained(connection)
            except (TimeoutError, _NotDrained, psycopg.Error, OSError):
                await _terminate(connection.info.backend_pid, database)
    finally:
        connection.pgconn.finish()


async def _terminate(backend: int, database: Database) -> None:
    """End the backend of a query that does not heed its cancellation; a role may end what is its own."""
    psycopg = _psycopg()
    with contextlib.suppress(psycopg.Error, TimeoutError):
        async with asyncio.timeout(CONNECT_S):
            other = await psycopg.AsyncConnection.connect(database.url, autocommit=True)
            async with other:
                await other.execute("SELECT pg_terminate_backend(%s)", (backend,))
