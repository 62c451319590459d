"""One connection of the guest to the proxy: one request, one answer, the end.

A tunnel (CONNECT) moves bytes both ways until both sides have ended their half. A forwarded request
sends one head, written anew, and exactly the announced body; whatever else the guest sends is never
read as a second request. The response streams back as it comes.

Backpressure: a chunk is read only when the one before has left for the kernel. What waits
in the host's memory is bounded by two stream buffers per connection.

An answer that cannot be completed ends with a reset, so that the guest does not take
the part it has for the whole.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Callable
from typing import Final

from groundbox.limits import KiB
from groundbox.sandbox.egress.message import (
    Request,
    Response,
    head_too_large,
    parse_request,
    parse_response,
    render_request,
)
from groundbox.sandbox.egress.meter import EgressLimits, Meter
from groundbox.sandbox.egress.refusal import ProxyRefusal, Reason, RefusalLog
from groundbox.sandbox.egress.uplink import Route, Stream, Uplink, refused

_CHUNK_BYTES: Final = 64 * KiB
_MAX_INTERIM_RESPONSES: Final = 8


class Exchange:
    """Serves one accepted connection; `guest` is closed when `serve` returns."""

    def __init__(
        self, guest: Stream, *, uplink: Uplink, meter: Meter, refusals: RefusalLog, limits: EgressLimits
    ) -> None:
        self._guest = guest
        self._uplink = uplink
        self._meter = meter
        self._refusals = refusals
        self._limits = limits
        self._answered = False
        self._idle = asyncio.timeout(None)  # set by _touch

    async def serve(self) -> None:
        """Raises OSError when a connection broke; everything else is answered."""
        # With a high-water mark of 0, drain() returns when the kernel has it all,
        # so that there is nothing left to lose when the connection is dropped.
        self._guest.writer.transport.set_write_buffer_limits(high=0)
        try:
            await self._answer()
            await self._linger()
        except BaseException:
            _reset_on_close(self._guest)
            raise
        finally:
            self._guest.writer.transport.abort()

    async def _answer(self) -> None:
        request: Request | None = None
        try:
            request = await self._read_request()
            await self._carry_out(request)
        except ProxyRefusal as refusal:
            if request is not None and not refusal.host:
                refusal.host, refusal.port = request.host, request.port
            self._refusals.add(refusal)
            if self._answered:
                raise ConnectionAbortedError("refused in the middle of an answer") from None
            with_body = request is None or request.method != "HEAD"
            async with asyncio.timeout(self._limits.idle_s):
                await self._say(refusal.response(with_body=with_body))

    async def _read_request(self) -> Request:
        try:
            async with asyncio.timeout(self._limits.head_s):
                head = await self._guest.reader.readuntil(b"\r\n\r\n")
        except TimeoutError:
            raise ProxyRefusal(
                Reason.HEAD_TIMEOUT, f"the request head did not arrive within {self._limits.head_s:g} s"
            ) from None
        except asyncio.LimitOverrunError:
            raise head_too_large() from None
        except asyncio.IncompleteReadError as error:
            if not error.partial:
                raise ConnectionResetError("the guest sent nothing") from None
            raise ProxyRefusal(Reason.BAD_REQUEST, "the request head has no end") from None
        return parse_request(head)

    async def _carry_out(self, request: Request) -> None:
        route = self._uplink.route(request)
        self._check_body(request)
        upstream = await self._uplink.dial(route)
        try:
            async with self._idle:
                self._touch()
                if request.method == "CONNECT":
                    await self._tunnel(upstream)
                else:
                    await self._forward(request, route, upstream)
        except BaseException as failure:
            _reset_on_close(upstream)
            if isinstance(failure, TimeoutError) and not self._answered:
                raise refused(Reason.IDLE_TIMEOUT, route, f"sent nothing for {self._limits.idle_s:g} s") from None
            raise
        finally:
            upstream.writer.transport.abort()

    def _check_body(self, request: Request) -> None:
        left = self._meter.left
        if left is not None and (request.content_length or 0) > left:
            raise ProxyRefusal(
                Reason.BODY_TOO_LARGE,
                f"a body of {request.content_length} bytes is more than the {left} bytes of network traffic "
                "that this sandbox has left; allow more with EgressLimits(total_bytes=...)",
            )

    async def _tunnel(self, upstream: Stream) -> None:
        upstream.writer.transport.set_write_buffer_limits(high=0)
        await self._say(b"HTTP/1.1 200 Connection established\r\n\r\n")
        async with _unwrapped(), asyncio.TaskGroup() as group:
            group.create_task(self._pump_to_the_end(self._guest, upstream, self._meter.send))
            group.create_task(self._pump_to_the_end(upstream, self._guest, self._meter.receive))

    async def _pump_to_the_end(self, source: Stream, sink: Stream, count: Callable[[int], None]) -> None:
        await self._pump(source, sink, count)
        sink.writer.write_eof()

    async def _forward(self, request: Request, route: Route, upstream: Stream) -> None:
        head = render_request(request, port=route.port, tls=route.tls, added=route.added)
        self._meter.send(len(head))
        upstream.writer.write(head)
        await upstream.writer.drain()
        async with _unwrapped(), asyncio.TaskGroup() as group:
            sending = group.create_task(self._send_body(request, upstream))
            await self._relay_response(request, route, upstream)
            sending.cancel()  # the host has answered without it

    async def _send_body(self, request: Request, upstream: Stream) -> None:
        if request.expects_continue:
            self._guest.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            missing = await self._pump(self._guest, upstream, self._meter.send, length=request.content_length or 0)
        except ConnectionError:
            if self._guest.writer.transport.is_closing():
                raise
            return  # the host has heard enough; it may have answered
        if missing:
            raise ConnectionResetError("the guest ended its body early")

    async def _relay_response(self, request: Request, route: Route, upstream: Stream) -> None:
        response = await self._read_response(request, route, upstream)
        await self._say(response.head)
        missing = await self._pump(upstream, self._guest, self._meter.receive, length=response.length)
        if missing:
            raise ConnectionResetError("the host ended its body early")

    async def _read_response(self, request: Request, route: Route, upstream: Stream) -> Response:
        """The final response. Interim ones (1xx) are the proxy's to take: it said Continue itself."""
        try:
            for _ in range(_MAX_INTERIM_RESPONSES):
                head = await upstream.reader.readuntil(b"\r\n\r\n")
                self._touch()
                self._meter.receive(len(head))
                response = parse_response(head, method=request.method)
                if response.status >= 200:
                    return response
            problem = "too many interim responses"
        except (asyncio.IncompleteReadError, ConnectionError):
            problem = "no complete head"
        except asyncio.LimitOverrunError:
            problem = "a head that is too large"
        except ProxyRefusal as refusal:
            if refusal.reason is Reason.BYTE_LIMIT:
                raise
            problem = refusal.explanation
        raise refused(Reason.BAD_RESPONSE, route, f"did not answer with HTTP/1.1: {problem}")

    async def _pump(self, source: Stream, sink: Stream, count: Callable[[int], None], length: int | None = None) -> int:
        """Move `length` bytes, or all until the end. Returns how many of `length` did not come."""
        left = _CHUNK_BYTES if length is None else length
        while left and (chunk := await source.reader.read(min(left, _CHUNK_BYTES))):
            count(len(chunk))
            sink.writer.write(chunk)
            await sink.writer.drain()
            self._touch()
            if length is not None:
                left -= len(chunk)
        return 0 if length is None else left

    async def _say(self, data: bytes) -> None:
        self._answered = True
        self._guest.writer.write(data)
        await self._guest.writer.drain()

    def _touch(self) -> None:
        """Something moved: the idle time starts anew."""
        if not self._idle.expired():
            self._idle.reschedule(asyncio.get_running_loop().time() + self._limits.idle_s)

    async def _linger(self) -> None:
        """Let the guest read its answer: closing with input unread would reset the connection."""
        self._guest.writer.write_eof()
        try:
            async with asyncio.timeout(self._limits.linger_s):
                while await self._guest.reader.read(_CHUNK_BYTES):
                    pass
        except TimeoutError:
            return


@contextlib.asynccontextmanager
async def _unwrapped() -> AsyncIterator[None]:
    """Raise the first failure of a task group as itself."""
    try:
        yield
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None


def _reset_on_close(stream: Stream) -> None:
    """Have the kernel end the connection with RST rather than FIN: what came is not all."""
    connection = stream.writer.get_extra_info("socket")
    if connection is not None:  # a TLS transport that is gone forgets its socket
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
