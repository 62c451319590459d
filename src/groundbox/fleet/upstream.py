"""HTTP/1.1 and WebSockets from a gateway to one node, with connections that are kept.

What is passed on was parsed once, by the server that the gateway runs in; the head is written anew here, and the
answer's is parsed by httptools. Bodies go through in parts, in both directions, no faster than they are taken.

Whether a node that went away carried out what it was sent before cannot be told, so little is sent where nobody may be.
A connection that was unused for IDLE_S is not used again: the node may be closing it. Where nothing was heard of the
node for HEARD_S a new connection is made, which a machine without power does not answer, and then nothing was sent.
A node that has answered before the end of a request's body has refused it: the rest is not sent, and the connection,
on which it would be taken for the next request, is not used again.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any, Final

import httptools

from groundbox.remote.transport import Address

Headers = Iterable[tuple[bytes, bytes]]

IDLE_S: Final = 20.0
HEARD_S: Final = 0.5
CONNECT_S: Final = 2.0
_CERTAIN_S: Final = 0.5
"""Seconds after which a node that was asked, and of which nothing came, is asked whether it is there."""
_MOST_KEPT: Final = 256
_OWN: Final = frozenset((b"connection", b"keep-alive", b"transfer-encoding", b"trailer", b"upgrade", b"date"))
"""Headers of the node's connection; the date is the gateway's server's."""
_MOST_HELD_BYTES: Final = 1024 * 1024


class NotSent(Exception):
    """The node was not reached: nothing of the request was sent, and it may be sent elsewhere."""


class Broken(Exception):
    """The connection broke after something was sent; whether the node carried it out is not known."""


class Upstream:
    """Connections to one node. Belongs to the running event loop.

    Attributes:
        heard: When bytes of it came last, on the monotonic clock; at first, when this was made.
        failed: When it could not be reached last, or did not answer when it was asked whether it is there.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._kept: list[_Connection] = []
        self._open: set[_Connection] = set()
        self._others: set[Callable[[], None]] = set()
        host = f"[{address.host}]" if ":" in address.host else address.host
        self._host = f"{host}:{address.port}".encode()
        self.heard = self._reached = time.monotonic()
        self.failed = float("-inf")

    @property
    def is_silent(self) -> bool:
        """Whether it did not answer when it was asked last, in any way."""
        return self.failed > self.heard

    @property
    def is_doubtful(self) -> bool:
        """Whether a request waits that could go elsewhere, and nothing is heard of the node."""
        until = time.monotonic() - _CERTAIN_S
        return self.heard < until and any(each.may_move and each.waits_since < until for each in self._open)

    @contextlib.asynccontextmanager
    async def ask(
        self,
        method: str,
        target: bytes,
        headers: Headers,
        body: AsyncIterator[bytes] | bytes,
        *,
        connect_s: float = CONNECT_S,
        may_move: bool = False,
    ) -> AsyncIterator[_Connection]:
        """Send one request; yields when the head of the answer is there. Leaving early hangs up.

        Args:
            headers: Without those that concern a connection; `content-length` where the body's length is known.
            connect_s: Seconds in which a connection has to be made.
            may_move: Whether the request does no harm when it is sent elsewhere, too, so that `give_up` ends it.

        Raises:
            NotSent: See there.
            Broken: See there.
        """
        connection = self._take_kept() or await self._connect(connect_s)
        connection.may_move = may_move
        is_over = False
        try:
            await connection.ask(method, target, self._host, headers, body)
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
        for hang_up in list(self._others):
            hang_up()

    def give_up(self) -> None:
        """Note that it does not answer; what waits for an answer and could go elsewhere ends as Broken."""
        self.failed = time.monotonic()
        for each in [each for each in self._open if each.may_move and each.waits_since < float("inf")]:
            each.abort()

    @contextlib.contextmanager
    def held(self, hang_up: Callable[[], None]) -> Iterator[None]:
        """Within it, `abort` ends another connection to this node, too."""
        self._others.add(hang_up)
        try:
            yield
        finally:
            self._others.discard(hang_up)

    def note_heard(self) -> None:
        """Note that bytes of the node came."""
        self.heard = self._reached = time.monotonic()

    def _take_kept(self) -> _Connection | None:
        now = time.monotonic()
        while self._kept:
            connection = self._kept.pop()
            if not connection.is_ending and now - connection.used < IDLE_S and now - self._reached < HEARD_S:
                return connection
            self._open.discard(connection)
            connection.abort()
            if now - self._reached >= HEARD_S:  # the others may be good: one is replaced by the one that is made
                return None
        return None

    async def _connect(self, most_s: float) -> _Connection:
        address = self._address
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(most_s):
                _, connection = await loop.create_connection(
                    lambda: _Connection(self), address.host, address.port, ssl=address.tls
                )
        except TimeoutError:
            self.failed = time.monotonic()
            raise NotSent(f"no connection within {most_s:g} s") from None
        except OSError as error:
            self.failed = time.monotonic()
            raise NotSent(error.strerror or str(error)) from None
        self._reached = time.monotonic()
        self._open.add(connection)
        return connection


class _Connection(asyncio.Protocol):
    """One connection, for one request at a time.

    Attributes:
        status: Of the answer.
        headers: Of the answer, as they were sent; those of the connection are left out.
        is_over: Whether the whole answer has come.
        used: When the last answer ended, on the monotonic clock.
        waits_since: When the request was begun whose answer has not begun; infinite where there is none.
        may_move: Whether that request may be sent elsewhere, too.
    """

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self.is_closed = self.may_move = False
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

    @property
    def is_ending(self) -> bool:
        """Whether one side has closed it, or is about to."""
        return self.is_closed or self._transport.is_closing()

    def data_received(self, data: bytes) -> None:
        """Parse some of the answer; what is no HTTP, or was not asked for, ends the connection."""
        self._upstream.note_heard()
        if not self._is_asked:
            self.abort()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.abort()
        if self._held_bytes > _MOST_HELD_BYTES and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()
        self._wake()

    async def ask(
        self, method: str, target: bytes, host: bytes, headers: Headers, body: AsyncIterator[bytes] | bytes
    ) -> None:
        """Send a request; of a body of unknown length, in chunks. Returns when the head of the answer is there.

        Raises:
            Broken: The connection ended before it.
        """
        lines = [b"%s %s HTTP/1.1\r\nhost: %s\r\n" % (method.encode("ascii"), target, host)]
        lines += [b"%s: %s\r\n" % each for each in headers]
        self._is_asked, self._is_head, self.waits_since = True, method == "HEAD", time.monotonic()
        if isinstance(body, bytes):
            self._write(b"".join([*lines, b"content-length: %d\r\n\r\n" % len(body), body]))
            self._is_sent = True
            await self._answered()
            return
        is_chunked = not any(name == b"content-length" for name, _ in headers)
        self._write(b"".join([*lines, b"transfer-encoding: chunked\r\n" if is_chunked else b"", b"\r\n"]))
        sending = asyncio.ensure_future(self._send(body, is_chunked=is_chunked))
        answered = asyncio.ensure_future(self._answered())
        try:
            await asyncio.wait((sending, answered), return_when=asyncio.FIRST_COMPLETED)
            if not self._has_head:
                if sending.done():
                    sending.result()
                await answered
        finally:
            sending.cancel()
            answered.cancel()
            await asyncio.gather(sending, answered, return_exceptions=True)

    async def _send(self, body: AsyncIterator[bytes], *, is_chunked: bool) -> None:
        async for part in body:
            if part:
                self._write(b"%x\r\n%s\r\n" % (len(part), part) if is_chunked else part)
                await self._can_write.wait()
        if is_chunked:
            self._write(b"0\r\n\r\n")
        self._is_sent = True

    async def _answered(self) -> None:
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
        if self.is_ending or not self._keeps or not self._is_sent or self._held:
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
        if name not in _OWN:
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Note that the head is there."""
        status = self._parser.get_status_code()
        if status >= 200:
            self.status, self._has_head, self._keeps = status, True, self._parser.should_keep_alive()
            self.waits_since = float("inf")
            self.is_over = self._is_head  # no body follows, whatever its headers say of one
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
        self._is_asked = self._is_head = self._is_sent = self.may_move = False
        self.waits_since = float("inf")
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
