"""Kernels of held sandboxes: who is connected to them, and frames of WebSockets as messages.

`groundbox.jupyter.kernel` is what becomes of the messages. One that reads nothing for half a minute is cut off, and its
run goes on. A failure of this server is no error of the program: the connection that asked is closed with 1011 (or
1013, where asking again later may help), and no status `idle` is sent to it, which clients take for an end.

Connections: https://jupyter-server.readthedocs.io/en/latest/developers/websocket-protocols.html, both forms.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import struct
import uuid
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from groundbox.execution import Event, Execution
from groundbox.jupyter.kernel import Gone, Header, InvalidMessage, Kernel, Message, Parent, Stdin, time_of
from groundbox.sandbox import languages
from groundbox.sandbox.bridge.tools import ToolQuotas
from groundbox.server import bodies
from groundbox.server.keys import Key
from groundbox.server.refusals import Refused, refusal_of
from groundbox.server.replies import encoded
from groundbox.server.sandboxes import Held
from groundbox.server.service import Ran, Service

logger = logging.getLogger(__name__)

V1: Final = "v1.kernel.websocket.jupyter.org"
MOST_CONNECTIONS: Final = 16
ASKING: Final = ToolQuotas(calls=10_000, call_s=600.0, waiting_s=600.0, frames=100_000)
"""Of `input()`: how long a cell may wait for people while it holds a turn of the server."""

_SLOW_S: Final = 30.0
_CLOSED: Final = 1000
_INVALID: Final = 1007
_FORBIDDEN: Final = 1008
_FAILED: Final = 1011
_LATER: Final = 1013


class Connection:
    """A connection to a kernel."""

    def __init__(self, websocket: WebSocket, key: Key, *, is_v1: bool) -> None:
        self.key = key
        self.session = uuid.uuid4().hex
        self.ended: asyncio.Future[tuple[int, str]] = asyncio.get_running_loop().create_future()
        self._websocket, self._is_v1 = websocket, is_v1

    async def receive(self) -> Message:
        """The next message.

        Raises:
            WebSocketDisconnect: The client has gone.
            Refused: It is no message of this protocol.
        """
        frame = await self._websocket.receive()
        if frame["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(frame.get("code") or _CLOSED)
        data = frame.get("bytes")
        raw: bytes = data if data is not None else frame["text"].encode("utf-8", "surrogatepass")
        bodies.check(raw)
        try:
            if data is None or not self._is_v1:
                message = msgspec.json.decode(raw, type=Message)
                if data is not None:
                    raise Refused(400, "invalid_message", "binary frames are of the subprotocol v1 alone")
            else:
                message = _of_v1(raw)
        except (msgspec.MsgspecError, UnicodeError, RecursionError, struct.error) as error:
            raise Refused(400, "invalid_message", f"a frame is no message of Jupyter: {error}") from None
        message.size_bytes = len(raw)
        return message

    async def send(self, channel: str, message: Mapping[str, Any]) -> None:
        """Send one message, and wait until there is room for the next.

        Raises:
            Gone: There was none for half a minute, or the client has gone.
        """
        if self.ended.done():
            raise Gone
        large = message["msg_type"] in ("display_data", "execute_result")
        frame = await asyncio.to_thread(self._frame, channel, message) if large else self._frame(channel, message)
        try:
            async with asyncio.timeout(_SLOW_S):
                await self._websocket.send({"type": "websocket.send", **frame})
        except TimeoutError:
            logger.warning("a connection to a kernel read nothing for %g s and is cut off", _SLOW_S)
            self.end(_FORBIDDEN, "this connection reads too slowly")
            raise Gone from None
        except (WebSocketDisconnect, RuntimeError, OSError):  # RuntimeError: closed in the meantime
            self.end(_CLOSED, "")
            raise Gone from None

    def end(self, code: int, reason: str) -> None:
        """Let it be closed."""
        if not self.ended.done():
            self.ended.set_result((code, reason))

    async def close(self, code: int, reason: str) -> None:
        """Close it now, if it still takes that."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(1.0):
                await self._websocket.send({"type": "websocket.close", "code": code, "reason": _cut(reason)})

    def _frame(self, channel: str, message: Mapping[str, Any]) -> dict[str, Any]:
        if not self._is_v1:
            return {"text": encoded({**message, "channel": channel, "buffers": []}).decode()}
        names = ("header", "parent_header", "metadata", "content")
        parts = [channel.encode(), *(encoded(message[name]) for name in names)]
        offsets = [8 * (len(parts) + 2)]
        for part in parts:
            offsets.append(offsets[-1] + len(part))
        return {"bytes": struct.pack(f"<{len(offsets) + 1}Q", len(offsets), *offsets) + b"".join(parts)}


def kernel_id(sandbox_id: str) -> str:
    """Return the id of a sandbox's kernel: with four dashes, as jupyter_server demands of every kernel's id."""
    head = len(sandbox_id) - 24  # 8 digits, after those of a fleet's node
    cuts = (0, head, head + 4, head + 8, head + 12, len(sandbox_id))
    return "-".join(sandbox_id[begin:end] for begin, end in itertools.pairwise(cuts))


class HeldKernel:
    """A held sandbox as a kernel, with the connections to it.

    Attributes:
        restarts: Kernels of a server are started afresh in place, with the same files.
    """

    restarts = True

    def __init__(self, service: Service, held: Held, spec: Mapping[str, Any], stdin: Stdin | None) -> None:
        self.id, self.held, self.spec = kernel_id(held.id), held, spec
        self.connections: set[Connection] = set()
        self._service = service
        self.kernel = Kernel(self, languages.named(spec["spec"]["language"]), stdin=stdin)
        self.kernel.active = held.created

    def to_dict(self) -> dict[str, Any]:
        """Jupyter's model of it."""
        return {
            "id": self.id,
            "name": self.spec["name"],
            "last_activity": time_of(self.kernel.active),
            "execution_state": self.kernel.state,
            "connections": len(self.connections),
        }

    async def talk(self, connection: Connection) -> None:
        """Take what a connection asks until it or the kernel ends."""
        self.connections.add(connection)
        reading = asyncio.create_task(self._read(connection))
        try:
            await asyncio.wait((reading, connection.ended), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.connections.discard(connection)
            self.kernel.left(connection)
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reading
            if connection.ended.done():
                await connection.close(*connection.ended.result())
            connection.end(_CLOSED, "")

    async def aclose(self) -> None:
        """Called when its sandbox is closed: tell who is connected."""
        await self.kernel.aclose()
        for connection in self.connections:
            connection.end(_CLOSED, "the kernel has ended")

    async def _read(self, connection: Connection) -> None:
        try:
            while True:
                message = await connection.receive()
                connection.key = self._service.keys.current(connection.key)
                await self.kernel.take(connection, message)
        except (WebSocketDisconnect, Gone):
            connection.end(_CLOSED, "")
        except Exception as error:
            refused = _refused(error)
            self._service.metrics.refused(refused.code)
            connection.end(_code(refused), refused.message)

    # What the kernel asks for

    async def publish(self, message: Mapping[str, Any]) -> None:
        """Send to all connections; those that are over are left out."""
        await asyncio.gather(*(_sent(connection, "iopub", message) for connection in self.connections))

    async def stream(self, peer: Connection, source: str, **options: Any) -> AsyncGenerator[Event, None]:
        """Events of a run, which is counted and charged as each of this server."""
        async with contextlib.aclosing(self._service.stream_in(peer.key, self.held, source, **options)) as events:
            async for item in events:
                yield Event(kind="end", execution=item.execution) if isinstance(item, Ran) else item

    async def run(self, peer: Connection, source: str, **options: Any) -> Execution:
        """A run that is counted and charged, too."""
        return (await self._service.run_in(peer.key, self.held, source, **options)).execution

    def interrupt(self) -> bool:
        """Interrupt the sandbox."""
        return self.held.box.interrupt()

    async def restart(self) -> None:
        """Restart the sandbox's process."""
        with self._service.errors(), self.held.in_use() as box:
            await box.restart()

    async def end(self) -> None:
        """Close the sandbox, and the kernel with it."""
        await self._service.sandboxes.close(self.held)

    def shown(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """All forms as they are: clients of a server are programs, or show them in frames of their own."""
        return dict(data)

    def failed(self, peer: Connection, error: Exception) -> dict[str, Any] | None:
        """Refusals of what was asked are errors to reply with; what this server cannot do closes the connection."""
        refused = _refused(error)
        self._service.metrics.refused(refused.code)
        if refused.status >= 500 or refused.status in (401, 403, 410, 429):
            peer.end(_code(refused), refused.message)
            return None
        told = f"{refused.code}: {refused.message}"
        return {"ename": refused.code, "evalue": refused.message, "traceback": [told]}


def _refused(error: Exception) -> Refused:
    if isinstance(error, InvalidMessage):
        return Refused(429 if error.is_busy else 400, "busy" if error.is_busy else "invalid_message", str(error))
    if isinstance(error, Refused):
        return error
    refused = refusal_of(error)
    if refused.status == 500:
        logger.error("a kernel failed by a fault of groundbox", exc_info=error)
    return refused


async def _sent(connection: Connection, channel: str, message: Mapping[str, Any]) -> None:
    with contextlib.suppress(Gone):
        await connection.send(channel, message)


def _of_v1(raw: bytes) -> Message:
    """A message of a binary frame: a count, as many offsets, and between them the channel and the message's parts.

    Raises:
        Refused, msgspec.MsgspecError, struct.error, UnicodeError: It is none.
    """
    (count,) = struct.unpack_from("<Q", raw)
    if not 6 <= count <= 64:
        raise Refused(400, "invalid_message", f"a frame has {count} offsets")
    offsets = struct.unpack_from(f"<{count}Q", raw, 8)
    if list(offsets) != sorted(offsets) or offsets[-1] > len(raw):
        raise Refused(400, "invalid_message", "offsets of a frame lead out of it")
    parts = [raw[begin:end] for begin, end in itertools.pairwise(offsets)]
    header = msgspec.json.decode(parts[1], type=Header)
    parent = msgspec.json.decode(parts[2], type=Parent)
    channel = parts[0].decode()[:100]
    return Message(header=header, channel=channel, content=msgspec.Raw(parts[4]), parent_header=parent)


def _code(refused: Refused) -> int:
    """The code that a connection is closed with (RFC 6455, 7.4, and its registry)."""
    return {400: _INVALID, 401: _FORBIDDEN, 403: _FORBIDDEN, 429: _LATER}.get(refused.status, _FAILED)


def _cut(reason: str) -> str:
    """A reason of at most 123 bytes, as RFC 6455, 5.5, has it."""
    return reason.encode()[:123].decode("utf-8", "ignore")
