"""Every other server that SQLAlchemy has a dialect for: one connection for each query, closed after it.

SQLAlchemy is a common way to reach servers, and none to keep a query in bounds: what a server would have to be told for
that differs from one to the next. So such a database is asked with `allow_powerful` only, and each answer says what
nobody looked at. What holds a query here, in this order. The kind of statement, by its first word; no second statement
behind it (see `alchemy_statement`). The statements of `setup`, which whoever configured the database knows to be right.
A transaction that is never committed: rolled back, or lost with its connection. Our clock, and the caller's going away,
which end the statement by what the driver has for that (see `alchemy_line`).

Rows are taken a few at a time, by their size so far, from a cursor of the server's where the dialect has one.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import importlib
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from groundbox.databases.alchemy_failure import told
from groundbox.databases.alchemy_line import Line, Target, target_of
from groundbox.databases.alchemy_schema import columns_of, known_to, sample_of
from groundbox.databases.alchemy_statement import STREAMED, bare, first_word, refusal_of
from groundbox.databases.alchemy_values import Columns, TooWide
from groundbox.databases.answer import Answer, DatabaseUnavailable
from groundbox.databases.database import Database
from groundbox.databases.failure import failure_of

CONNECT_S: Final = 10.0
_CATALOG_S: Final = 2.0
_CELL_BYTES: Final = 8
"""An empty value takes memory, too."""
_MOST_AT_ONCE: Final = 50
"""Rows of one fetch, whose sizes nobody knows before they are here."""
_READ_ONLY: Final = re.compile(r"(?<![a-z])read[\s_-]*only\b(?!\s*(?:=|to)?\s*'?(?:off|false|no|0)\b)", re.IGNORECASE)
_TIME: Final = re.compile(r"(?<!lock_)time_?out|(?:execution|statement|query)_time|time_limit", re.IGNORECASE)


async def ask(name: str, database: Database, sql: str, *, wall_s: float | None = None) -> Answer:
    """Run one statement that reads.

    Cancelling the caller's task ends the statement on the server, if the driver can.

    Args:
        name: What the sandbox calls the database; for messages.
        wall_s: Less time than the database's own, if it is less.

    Raises:
        DatabaseUnavailable: It cannot be reached, or SQLAlchemy or the dialect's packages are not installed.
    """
    target = await target_of(name, database)
    powers = powers_of(target.dialect, database.setup)
    if refusal := refusal_of(sql, batches=target.batches, chains=target.chains):
        return Answer(failure=failure_of("ReadOnly", refusal), powers=powers)

    async def work(line: Line) -> Answer:
        answer: Answer | _Failed = await line.call(lambda: _caught(lambda: _answer(line, database, bare(sql))))
        if isinstance(answer, _Failed):
            failure = told(answer.kept(name), sql, target.secrets, await _known(line, sql))
            answer = Answer(failure=failure)
        return dataclasses.replace(answer, powers=powers)

    return await _within(name, database, target, wall_s, work)


async def schema(name: str, database: Database, *, wall_s: float | None = None) -> Answer:
    """See `groundbox.databases.servers.Server`. The schema that the role begins in; sizes are not told."""
    target = await target_of(name, database)

    async def work(line: Line) -> Answer:
        found = await line.call(lambda: _caught(lambda: columns_of(line.connection, database.max_rows)))
        if isinstance(found, _Failed):
            return Answer(failure=told(found.kept(name), "", target.secrets))
        rows, complete = found
        return Answer(rows=rows, complete=complete, powers=powers_of(target.dialect, database.setup))

    return await _within(name, database, target, wall_s, work)


def sample(database: Database, table: str, columns: Sequence[str], count: int) -> str | None:
    """See `groundbox.databases.servers.Server`."""
    return sample_of(importlib.import_module("sqlalchemy").make_url(database.url), table, columns, count)


def powers_of(dialect: str, setup: Sequence[str]) -> list[str]:
    """What nobody looked at, as what the role could do."""
    read_only = any(map(_READ_ONLY.search, setup))
    timed = any(map(_TIME.search, setup))
    return [
        f"was not looked at, because groundbox cannot read the grants of {dialect}: it may be able to write, to read "
        "files of the server and to run programs there",
        "was asked by `setup` to read only, which nobody checked"
        if read_only
        else "was not held to reading by the server: no statement of `setup` says READ ONLY",
        "has a time on the server that `setup` asked for, which nobody checked"
        if timed
        else "has no time on the server: no statement of `setup` sets one",
    ]


async def _within(
    name: str, database: Database, target: Target, wall_s: float | None, work: Callable[[Line], Any]
) -> Answer:
    """What a function makes of a connection, within the time; nothing of it goes on afterwards."""
    time_s = min(database.timeout_s, wall_s or database.timeout_s)
    line = Line(name, target)
    ended = True
    try:
        await _connect(name, line)
        async with asyncio.timeout(time_s):
            await _prepare(name, line, database)
            answer: Answer = await work(line)
            return answer
    except TimeoutError:
        pass
    finally:
        ended = await asyncio.shield(line.end())
    message = f"the query was stopped at {time_s:g} s"
    if not ended:
        message = f"the query was left at {time_s:g} s, and may go on on the server: its driver did not end it"
    powers = powers_of(target.dialect, database.setup)
    return Answer(failure=failure_of("Timeout", message), timed_out=True, powers=powers)


async def _connect(name: str, line: Line) -> None:
    """Whatever goes wrong is told without the driver's words, and outside of the handlers: they hold the password."""
    try:
        async with asyncio.timeout(CONNECT_S):
            failed = await line.call(lambda: _caught(line.connect))
    except TimeoutError:
        failed = None
        reason = f"it did not answer within {CONNECT_S:g} s"
    else:
        if not isinstance(failed, _Failed):
            if not line.commits:
                return
            reason = "its driver commits each statement by itself; take autocommit out of its URL"
        else:
            reason = _reason(str(failed.error).casefold())
    failed = None
    raise DatabaseUnavailable(name, reason)


def _reason(words: str) -> str:
    refused = any(word in words for word in ("password", "authenticat", "login", "logon"))
    return "it refused the role or its password" if refused else "it cannot be reached as configured"


async def _prepare(name: str, line: Line, database: Database) -> None:
    """No frame that raises holds a statement, in which there may be a password."""
    for number in range(1, len(database.setup) + 1):
        failed = await line.call(
            functools.partial(_caught, functools.partial(_executed, line, database.setup[number - 1]))
        )
        if isinstance(failed, _Failed):
            raise DatabaseUnavailable(name, f"it refused statement {number} of `setup` ({type(failed.error).__name__})")


def _executed(line: Line, sql: str, *, streamed: bool = False) -> Any:
    """A result. Without parameters nothing is put into the text, and % stands for itself."""
    options = {"no_parameters": True, "stream_results": streamed}
    return line.connection.exec_driver_sql(sql, execution_options=options)


def _answer(line: Line, database: Database, sql: str) -> Answer:
    """The rows as they come, within the caps."""
    result = _executed(line, sql, streamed=first_word(sql) in STREAMED)
    if not result.returns_rows:
        return Answer(failure=failure_of("NoRows", "the statement gives no rows"))
    columns = Columns(result.cursor.description)
    rows: list[list[Any]] = []
    held_bytes, largest, wanted = 0, 1, 1
    try:
        while not line.leaving and (batch := result.fetchmany(wanted)):
            for row in batch:
                values = columns.plain(row, database.max_bytes)
                size = sum(_CELL_BYTES + _bytes(value) for value in values)
                held_bytes, largest = held_bytes + size, max(largest, size)
                if not rows and held_bytes > database.max_bytes:
                    raise TooWide
                if len(rows) >= database.max_rows or held_bytes > database.max_bytes:
                    return Answer(fields=columns.fields(), rows=rows, complete=False)
                rows.append(values)
            room = (database.max_bytes - held_bytes) // largest
            wanted = max(1, min(2 * wanted, _MOST_AT_ONCE, room, database.max_rows - len(rows) + 1))
    except TooWide:
        if rows:
            return Answer(fields=columns.fields(), rows=rows, complete=False)
        message = f"one row is larger than max_bytes={database.max_bytes}; select less of it"
        return Answer(failure=failure_of("RowTooLarge", message))
    return Answer(fields=columns.fields(), rows=rows)


def _bytes(value: Any) -> int:
    if not isinstance(value, str):
        return 0
    return len(value) if value.isascii() else len(value.encode())


class _Failed(NamedTuple):
    """What a driver raised, kept from being raised further: its frames hold the password.

    Attributes:
        lost: Whether the connection is gone with it.
    """

    error: BaseException
    lost: bool

    def __repr__(self) -> str:
        """Without the driver's words: reporters of errors show the variables of each frame."""
        return f"_Failed({type(self.error).__name__}, lost={self.lost})"

    def kept(self, name: str) -> BaseException:
        """The error, unless nothing can be asked any more.

        Raises:
            DatabaseUnavailable: So it is.
        """
        if self.lost:
            raise DatabaseUnavailable(name, f"the connection was lost ({type(self.error).__name__})")
        return self.error


def _caught(work: Callable[[], Any]) -> Any:
    """What a function gives, or `_Failed`."""
    try:
        return work()
    except BaseException as error:  # a driver may raise anything, one in Rust a panic; SQLAlchemy has its own around it
        return _Failed(getattr(error, "orig", None) or error, getattr(error, "connection_invalidated", False))


async def _known(line: Line, sql: str) -> dict[str, list[str]]:
    """Tables and columns for hints, if they can be had in a short time."""

    def read() -> dict[str, list[str]]:
        line.connection.rollback()
        return known_to(line.connection, sql)

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_CATALOG_S):
            known = await line.call(lambda: _caught(read))
            return {} if isinstance(known, _Failed) else known
    return {}
