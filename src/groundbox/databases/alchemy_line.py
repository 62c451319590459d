"""One connection that SQLAlchemy makes by some driver, and the thread that everything of it runs in.

Drivers block, and not all of them let two threads use one connection, so that a line has a thread of its own from
connecting to closing, and whoever waits for it may go away. What ends a statement comes from another thread, which is
what drivers have their `cancel` for: it is called until the thread comes back, rolls back and closes. A thread that
does not come back loses its socket, where the driver tells which that is. One that goes on even then is left and
counted, and with a few of these nothing more is asked of that database.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import queue
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from groundbox.databases.alchemy_failure import secrets_of
from groundbox.databases.answer import DatabaseUnavailable
from groundbox.databases.database import IN_PROCESS, Database
from groundbox.databases.threads import in_thread, tell

_CANCEL_S: Final = 2.0
_AGAIN_S: Final = 0.25
"""Between two calls of a driver's `cancel`: the first may come before the server has the statement."""
_WAYS: Final = ("cancel_safe", "cancel", "interrupt")
"""What drivers call it that a statement is ended from another thread."""
_RAISE: Final = 3
"""fb_cancel_raise"""
_MOST_LEFT: Final = 4
_LOGGED_AS: Final = "groundbox"
_SEPARATING: Final = frozenset(
    {"bigquery", "cockroachdb", "firebird", "ibm_db_sa", "oracle", "presto", "redshift", "snowflake", "trino"}
)
"""Dialects of servers that take one statement, or several with ; between them only, as do all of PostgreSQL's kind."""


class Target(NamedTuple):
    """Where a line leads.

    Attributes:
        dialect: SQLAlchemy's name of it.
        batches: Whether the server may take several statements with nothing between them.
        chains: Whether it takes several with `->>` between them.
        secrets: What of the URL stands in no message.
    """

    url: Any
    dialect: str
    batches: bool
    chains: bool
    secrets: Sequence[str]

    def __repr__(self) -> str:
        """Without what is secret: reporters of errors show the variables of each frame."""
        return f"Target({self.dialect!r})"


async def target_of(name: str, database: Database) -> Target:
    """Where a database's URL leads, after its dialect was imported.

    Raises:
        DatabaseUnavailable: It leads nowhere, or to an engine that would run in this process.
    """
    found = await in_thread(lambda: _target(database.url), "groundbox-alchemy")
    if isinstance(found, Target):
        return found
    raise DatabaseUnavailable(name, found)  # out here: what was raised holds the password


def _target(address: str) -> Target | str:
    """Or why there is none."""
    try:
        sqlalchemy = importlib.import_module("sqlalchemy")
    except ImportError:
        return "SQLAlchemy is not installed: the extra `sqlalchemy` of groundbox brings it"
    try:
        url = sqlalchemy.make_url(address)
        dialect = url.get_dialect()
        if not dialect.is_async:
            dialect.import_dbapi()
    except sqlalchemy.exc.NoSuchModuleError:
        return "SQLAlchemy has no dialect for its URL; install the package of one"
    except ImportError as error:
        return f"the dialect of its URL needs {error.name or 'a package'}, which cannot be imported"
    except BaseException as error:  # a dialect is code of others, and what it raises may hold the password
        return f"its URL cannot be meant ({type(error).__name__})"
    sqlite = importlib.import_module("sqlalchemy.dialects.sqlite.base").SQLiteDialect
    postgres = importlib.import_module("sqlalchemy.dialects.postgresql.base").PGDialect
    if issubclass(dialect, sqlite) or str(dialect.name) in IN_PROCESS:
        return f"its engine would run in the host's process; {IN_PROCESS.get(dialect.name, IN_PROCESS['duckdb'])}"
    if "plugin" in url.query:
        return "its URL names a plugin, which may make the connection in its own way; take it out"
    if not url.host:
        return "its URL names no host, and an engine in the host's process is not asked"
    if dialect.is_async:
        return "its driver is for asynchronous programs; name another one"
    called = url.get_backend_name()
    batches = called not in _SEPARATING and not issubclass(dialect, postgres)
    return Target(url, called, batches, called == "snowflake", secrets_of(url))


_left: set[Line] = set()
"""Those whose thread did not come back."""


class Line:
    """One connection, and the thread that everything of it runs in.

    Attributes:
        target: Where it leads.
        connection: SQLAlchemy's; only for what runs in the line's thread.
        leaving: Whether nobody waits for it any more, and what runs had better come back.
    """

    def __init__(self, name: str, target: Target) -> None:
        """Raises:
        DatabaseUnavailable: Too many statements there could not be ended.
        """
        if sum(line.target.url == target.url for line in tuple(_left)) >= _MOST_LEFT:
            raise DatabaseUnavailable(
                name, f"{_MOST_LEFT} connections to it do not come back, nor does its driver end them"
            )
        self.target: Target = target
        self.connection: Any = None
        self._driver: Any = None
        self._cursor: Any = None
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]] | None] = queue.SimpleQueue()
        self.leaving = False
        self._working, self._closed = False, False
        self._gone: asyncio.Future[None] = self._loop.create_future()
        threading.Thread(target=self._serve, name="groundbox-alchemy", daemon=True).start()

    async def call(self, work: Callable[[], Any]) -> Any:
        """What a function gives in the line's thread; when the caller is cancelled, the thread is left alone."""
        done: asyncio.Future[Any] = self._loop.create_future()
        self._jobs.put((work, done))
        return await done

    def _serve(self) -> None:
        try:
            while (job := self._jobs.get()) is not None and not self.leaving:
                work, done = job
                self._working = True
                result, error = None, None
                try:
                    result = work()
                except Exception as raised:  # handed to whoever waits
                    error = raised
                self._working = False
                tell(self._loop, done, result, error)
        finally:
            self._close()
            self._closed = True
            _left.discard(self)
            tell(self._loop, self._gone, None)

    def connect(self) -> None:
        """Make the connection. What goes wrong is raised as the driver has it, with the password in it."""
        sqlalchemy = importlib.import_module("sqlalchemy")
        # What a driver raises while it closes would be logged by the pool, with the address in it.
        logging.getLogger(f"sqlalchemy.pool.impl.NullPool.{_LOGGED_AS}").disabled = True
        pool = {"poolclass": sqlalchemy.NullPool, "pool_logging_name": _LOGGED_AS}
        engine = sqlalchemy.create_engine(self.target.url, hide_parameters=True, **pool)

        def seen(connection: Any, cursor: Any, *_: Any) -> None:
            self._cursor = cursor

        sqlalchemy.event.listen(engine, "before_cursor_execute", seen)
        self.connection = engine.connect()
        self._driver = self.connection.connection.driver_connection

    @property
    def commits(self) -> bool:
        """Whether the driver commits each statement by itself."""
        told = getattr(self._driver, "get_autocommit", None)  # of drivers of MySQL's kind, whose `autocommit` sets it
        if callable(told):
            return bool(told())
        state = getattr(self._driver, "autocommit_state", False)  # of pymssql, whose does, too; a text of the URL's
        return bool(state) or getattr(self._driver, "autocommit", False) is True

    def _close(self) -> None:
        """Nothing is ever committed."""
        result: Any = getattr(self._driver, "_result", None)
        if getattr(result, "unbuffered_active", False) is True:  # PyMySQL would read all that is left, then roll back
            result.unbuffered_active = False
            with contextlib.suppress(Exception):
                self._driver._force_close()
        if self.connection is not None:
            with contextlib.suppress(Exception):  # whatever a driver raises at a connection that is lost
                self.connection.rollback()
            with contextlib.suppress(Exception):
                self.connection.close()

    @property
    def way_to_cancel(self) -> Callable[[], Any] | None:
        """What ends the statement from another thread; None where the driver has nothing for it."""
        for owner in (self._driver, self._cursor):
            for way in _WAYS:
                if callable(found := getattr(owner, way, None)):
                    return found  # type: ignore[no-any-return]
        attachment = getattr(self._driver, "_att", None)  # firebird-driver has no public name for it
        if callable(found := getattr(attachment, "cancel_operation", None)):
            return lambda: found(_RAISE)
        return None

    async def end(self) -> bool:
        """Leave nothing running on the server, and close; whether that is known to be so."""
        self.leaving = True
        self._jobs.put(None)
        begun, again = self._loop.time(), False
        while self._loop.time() < begun + _CANCEL_S:
            if (self._working or again) and (cancel := self.way_to_cancel) is not None:
                await _aside(cancel)
            if await self._is_gone(_AGAIN_S):
                return True
            again = True
        await _aside(self._cut)
        if not await self._is_gone(_CANCEL_S):
            _left.add(self)
            if self._closed:  # just now
                _left.discard(self)
        return False

    async def _is_gone(self, within_s: float) -> bool:
        await asyncio.wait([self._gone], timeout=within_s)
        return self._gone.done()

    def _cut(self) -> None:
        """Take the socket from the thread that waits for it; it is closed there."""
        owner = self._driver if hasattr(self._driver, "fileno") else self._driver._sock  # PyMySQL has no public name
        with socket.socket(fileno=os.dup(owner.fileno())) as held:
            held.shutdown(socket.SHUT_RDWR)


async def _aside(work: Callable[[], Any]) -> None:
    """Run what may fail or block, for a while."""
    with contextlib.suppress(Exception):  # whether the thread comes back is what counts
        async with asyncio.timeout(_CANCEL_S):
            await in_thread(work, "groundbox-alchemy")
