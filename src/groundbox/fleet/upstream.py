"""HTTP/1.1 and WebSockets from a gateway to one node, with connections that are kept.

What is passed on was parsed once, by the server that the gateway runs in; the head is written anew here, and the
answer's is parsed by httptools. Bodies go through in parts, in both directions, no faster than they are taken.
A connection that was unused for IDLE_S is not used again: the node may be closing it, and whether it carried out what
was sent then could not be told.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import Any, Final

import httptools

from groundbox.remote.transport import Address

Headers = Iterable[tuple[bytes, bytes]]

IDLE_S: Final = 20.0
_CONNECT_S: Final = 2.0
_MOST_KEPT: Final = 256
_MOST_HELD_BYTES: Final = 1024 * 1024


class NotSent(Exception):
    """The node was not reached: nothing of the request was sent, and it may be sent elsewhere."""


class Broken(Exception):
    """The connection broke after something was sent; whether the node carried it out is not known."""


class Upstream:
    """Connections to one node. Belongs to the running event loop."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._kept: list[_Connection] = []
        self._open: set[_Connection] = set()
        self._host = f"{address.host}:{address.port}".encode()

    @contextlib.asynccontextmanager
    async def ask(
        self, method: str, target: bytes, headers: Headers, body: AsyncIterator[bytes] | bytes
    ) -> AsyncIterator[_Connection]:
        """Send one request; yields when the head of the answer is there. Leaving early hangs up.

        Args:
            headers: Without those that concern a connection; `content-length` where the body's length is known.

        Raises:
            NotSent: See there.
            Broken: See there.
        """
        connection = self._take_kept() or await self._connect()
        is_over = False
        try:
            await connection.send(method, target, self._host, headers, body)
            await connection.answered()
            yield connection
            is_over = connection.is_over
        finally:
            if is_over and connection.renew() and len(self._kept) < _MOST_KEPT:
                self._kept.append(connection)
            else:
                self._open.discard(connection)
                connection.abort()

    def abort(self) -> None:
        """Hang up on the node; what is under way ends as Broken."""
        self._kept.clear()
        while self._open:
            self._open.pop().abort()

    def _take_kept(self) -> _Connection | None:
        while self._kept:
            connection = self._kept.pop()
            if not connection.is_closed and time.monotonic() - connection.used < IDLE_S:
                return connection
            self._open.discard(connection)
            connection.abort()
        return None

    async def _connect(self) -> _Connection:
        address = self._address
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_CONNECT_S):
                _, connection = await loop.create_connection(_Connection, address.host, address.port, ssl=address.tls)
        except TimeoutError:
            raise NotSent(f"no connection within {_CONNECT_S:g} s") from None
        except OSError as error:
            raise NotSent(error.strerror or str(error)) from None
        self._open.add(connection)
        return connection


class _Connection(asyncio.Protocol):
    """One connection, for one request at a time.

    Attributes:
        status: Of the answer.
        headers: Of the answer, as they were sent; those of the connection are left out.
        is_over: Whether the whole answer has come.
        used: When the last answer ended, on the monotonic clock.
    """

    def __init__(self) -> None:
        self.is_closed = False
        self.used = time.monotonic()
        self._transport: Any = None
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._held_bytes, self._is_paused = 0, False
        self._reset()

    def connection_made(self, transport: Any) -> None:
        """Keep the transport."""
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Wake whoever waits."""
        self.is_closed = True
        self._can_write.set()
        self._wake()

    def pause_writing(self) -> None:
        """Let the writer wait."""
        self._can_write.clear()

    def resume_writing(self) -> None:
        """Let the writer go on."""
        self._can_write.set()

    def data_received(self, data: bytes) -> None:
        """Parse some of the answer; what is no HTTP ends the connection."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.abort()
        if self._held_bytes > _MOST_HELD_BYTES and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()
        self._wake()

    async def send(
        self, method: str, target: bytes, host: bytes, headers: Headers, body: AsyncIterator[bytes] | bytes
    ) -> None:
        """Send a request; of a body of unknown length, in chunks.

        Raises:
            Broken: The connection ended meanwhile.
        """
        lines = [b"%s %s HTTP/1.1\r\nhost: %s\r\n" % (method.encode("ascii"), target, host)]
        lines += [b"%s: %s\r\n" % each for each in headers]
        if isinstance(body, bytes):
            self._write(b"".join([*lines, b"content-length: %d\r\n\r\n" % len(body), body]))
            return
        is_chunked = not any(name == b"content-length" for name, _ in headers)
        self._write(b"".join([*lines, b"transfer-encoding: chunked\r\n" if is_chunked else b"", b"\r\n"]))
        async for part in body:
            if self._has_head:  # an answer before the end of the body is a refusal, which counts
                return
            if part:
                self._write(b"%x\r\n%s\r\n" % (len(part), part) if is_chunked else part)
                await self._can_write.wait()
        if is_chunked:
            self._write(b"0\r\n\r\n")

    async def answered(self) -> None:
        """Wait for the head of the answer.

        Raises:
            Broken: The connection ended before it.
        """
        while not self._has_head:
            if self.is_closed:
                raise Broken("the node hung up before it answered")
            await self._more()

    async def parts(self) -> AsyncIterator[bytes]:
        """The body of the answer as it comes.

        Raises:
            Broken: It ended before its end.
        """
        while True:
            while self._held:
                part = self._held.popleft()
                self._held_bytes -= len(part)
                if self._is_paused and self._held_bytes < _MOST_HELD_BYTES // 2 and not self.is_closed:
                    self._is_paused = False
                    self._transport.resume_reading()
                yield part
            if self.is_over:
                return
            if self.is_closed:
                raise Broken("the node hung up in the middle of an answer")
            await self._more()

    def renew(self) -> bool:
        """Whether another request can be sent."""
        if self.is_closed or not self._keeps or self._held:
            return False
        self.used = time.monotonic()
        self._reset()
        return True

    def abort(self) -> None:
        """Hang up."""
        self.is_closed = True
        if self._transport is not None:
            self._transport.abort()
        self._wake()

    # Called by the parser

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header, if it is not the connection's own."""
        name = name.lower()
        if name not in (b"connection", b"keep-alive", b"transfer-encoding", b"trailer", b"upgrade"):
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Note that the head is there."""
        status = self._parser.get_status_code()
        if status >= 200:
            self.status, self._has_head, self._keeps = status, True, self._parser.should_keep_alive()
        else:
            self.headers.clear()

    def on_body(self, body: bytes) -> None:
        """Hold a part until it is taken."""
        self._held.append(body)
        self._held_bytes += len(body)

    def on_message_complete(self) -> None:
        """Note the end."""
        self.is_over = self._has_head

    def _reset(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self.status, self.headers = 0, list[tuple[bytes, bytes]]()
        self.is_over = self._has_head = self._keeps = self._is_paused = False
        self._held: deque[bytes] = deque()
        self._held_bytes = 0
        self._waiting: asyncio.Future[None] | None = None

    def _write(self, data: bytes) -> None:
        if self.is_closed:
            raise Broken("the node hung up while it was asked")
        self._transport.write(data)

    async def _more(self) -> None:
        self._waiting = asyncio.get_running_loop().create_future()
        await self._waiting

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
