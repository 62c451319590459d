"""One connection to MySQL or MariaDB by PyMySQL, and the thread that waits for it.

PyMySQL blocks, so that each call of it runs in a thread of its own, which ends with the connection. A packet that is
larger than what a row may have is not taken in.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from groundbox.databases.answer import DatabaseUnavailable
from groundbox.databases.database import Database
from groundbox.databases.threads import in_thread

CONNECT_S: Final = 10.0
_READ_AHEAD_BYTES: Final = 1 << 20
_SPEAKS_TLS: Final = 1 << 11
"""CLIENT_SSL among a server's capabilities."""


def driver() -> Any:
    """PyMySQL."""
    return importlib.import_module("pymysql")


class TooWide(Exception):
    """A packet is larger than a row may be."""


class Line:
    """One connection, and the thread that waits for it.

    Attributes:
        running: Whether the server has a statement of it that has not ended.
        server: What tells it from others; None before it was asked.
    """

    def __init__(self, connect: Callable[[float], Any], connection: Any) -> None:
        """Args:
        connect: Makes another connection of the same role, in so many seconds.
        """
        self.connect, self.connection = connect, connection
        self.running = False
        self.server: Sequence[Any] | None = None
        self._lock = threading.Lock()
        self._calls, self._closed = 0, False

    async def call(self, work: Callable[[], Any]) -> Any:
        """What a function gives in a thread of its own; when the caller is cancelled, the thread is left alone."""
        with self._lock:
            self._calls += 1
        return await in_thread(lambda: self._counted(work), "groundbox-mysql")

    def _counted(self, work: Callable[[], Any]) -> Any:
        try:
            return work()
        finally:
            with self._lock:
                self._calls -= 1
                self._leave()

    def _leave(self) -> None:
        """Let go of the socket when nobody waits for it; a thread that reads from it holds it."""
        if self._closed and not self._calls:
            self.connection._force_close()

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """All rows of a statement of ours, as texts."""
        self.connection.query(sql)
        rows = self.connection._result.rows or ()
        return [tuple(None if value is None else value.decode(errors="replace") for value in row) for row in rows]

    def close(self) -> None:
        """Leave the server; a thread that waits for it is woken."""
        with self._lock:
            self._closed = True
            if (sock := self.connection._sock) is not None:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
            self._leave()


def line_to(name: str, database: Database, read_s: float) -> Line:
    """A connection that is not made yet, which waits so long for what it reads.

    What goes wrong is told without the address, outside of the handlers: the exceptions hold the password.
    """
    try:
        driver()
    except ImportError:
        raise DatabaseUnavailable(name, "PyMySQL is not installed: the extra `mysql` of groundbox brings it") from None
    arguments = None
    with contextlib.suppress(ValueError, OSError, ssl.SSLError):
        arguments = _arguments(database.url)
    if arguments is None:
        raise DatabaseUnavailable(name, "it cannot be reached as configured")
    connection_class = _connection_class(database.max_bytes + _READ_AHEAD_BYTES, encrypted=arguments["ssl"] is not None)

    def connect(read_s: float) -> Any:
        return connection_class(**arguments, read_timeout=read_s, write_timeout=read_s)

    return Line(connect, connect(max(CONNECT_S, read_s)))


def _arguments(url: str) -> dict[str, Any]:
    """PyMySQL's, from `mysql://role:password@host:port/name?unix_socket=PATH&ssl_ca=FILE`.

    Raises:
        ValueError, OSError: It cannot be meant.
    """
    parts = urlsplit(url)
    more = parse_qs(parts.query, strict_parsing=True) if parts.query else {}
    if more.keys() - {"unix_socket", "ssl_ca"} or re.search(r"%(?![0-9a-fA-F]{2})", url):
        raise ValueError
    (certificates,) = more.get("ssl_ca", [None])
    tls = ssl.create_default_context(cafile=certificates) if certificates else None
    return {
        "user": unquote(parts.username or ""),
        "password": unquote(parts.password or ""),
        "host": parts.hostname or "localhost",
        "port": parts.port or 3306,
        "unix_socket": more.get("unix_socket", [None])[0],
        "database": unquote(parts.path.lstrip("/")) or None,
        "ssl": tls,
        "charset": "utf8mb4",
        "use_unicode": False,
        "conv": {},
        "connect_timeout": CONNECT_S,
        "local_infile": False,
        "autocommit": None,
        "defer_connect": True,
        "program_name": "groundbox",
    }


def _connection_class(most_bytes: int, *, encrypted: bool) -> Callable[..., Any]:
    """PyMySQL's connection, which takes no packet of more than so many bytes; a packet is what a row comes in."""
    base: Any = importlib.import_module("pymysql.connections").Connection

    class Bounded(base):  # type: ignore[misc]
        _taken = 0

        def _request_authentication(self) -> Any:
            if encrypted and not self.server_capabilities & _SPEAKS_TLS:  # some versions would go on without it
                raise ssl.SSLError("the server does not encrypt")
            return super()._request_authentication()

        def _read_packet(self, *arguments: Any) -> Any:
            self._taken = 0
            return super()._read_packet(*arguments)

        def _read_bytes(self, count: int) -> Any:
            self._taken += count
            if self._taken > most_bytes:
                raise TooWide
            return super()._read_bytes(count)

    return Bounded
