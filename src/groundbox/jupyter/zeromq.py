"""A kernel over ZeroMQ, as Jupyter's own clients start one: one process, one sandbox, five sockets.

Theory of operation:
1. Whoever starts the kernel has chosen ports and a key, and written both into the connection file. The file is a
   secret: who knows the key runs programs in the sandbox and reads what they show. A file that others may read is
   refused, and so is one without a key, or with an address that other machines reach.
2. `shell`, `control` and `stdin` are ROUTER sockets, and a client is its identity; `hb` sends back what comes. `iopub`
   is a PUB socket, which whoever reaches its port can read: ZeroMQ asks subscribers for no key. Each message but
   heartbeats is signed (HMAC of its four parts); one with a wrong signature, or with one that was seen before, is
   dropped and told in the log. The newest 1,048,576 signatures are remembered.
3. A subscriber that reads slowly holds the program back. One that takes nothing for half a minute loses what does not
   fit in its queue, until it reads again; the log says so.
4. The kernel ends with `shutdown_request`, SIGTERM, or the process that started it (`JPY_PARENT_PID`), and the sandbox
   ends with it. A fresh process after a restart is a fresh kernel, begun by who asked: variables and files are gone.

Connection files and the wire: https://jupyter-client.readthedocs.io/en/stable/kernels.html#connection-files and
…/messaging.html#the-wire-protocol. `jupyter_client` is not needed: the protocol's frames are few.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import hashlib
import hmac
import ipaddress
import json
import logging
import os
import signal
import stat
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import zmq
import zmq.asyncio

from groundbox.errors import GroundboxError, InvalidArgument
from groundbox.execution import Event, Execution
from groundbox.jupyter.kernel import Gone, Header, InvalidMessage, Kernel, Message, Parent, Stdin, error_content
from groundbox.markup import forms_of
from groundbox.sandbox.bridge.tools import ToolQuotas
from groundbox.sandbox.sandbox import AsyncSandbox

logger = logging.getLogger(__name__)

ASKING: Final = ToolQuotas(calls=1_000_000, call_s=1e6, waiting_s=1e6, frames=10_000_000)
"""Of `input()`: a person takes the time that a person takes."""

_DELIMITER: Final = b"<IDS|MSG>"
_HASHES: Final = ("sha256", "sha384", "sha512")
_MOST_SIGNATURES: Final = 1 << 20
_MOST_MESSAGE_BYTES: Final = 16 * 1024 * 1024
_MOST_PARTS: Final = 64
_SLOW_S: Final = 30.0
_AGAIN_S: Final = 0.02
_LINGER_MS: Final = 1000
_FLAG: Final = "JUPYTER_ALLOW_INSECURE_WRITES"

Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]


class ConnectionFile(msgspec.Struct, kw_only=True):
    """Where a kernel listens, and the key that signs its messages."""

    shell_port: Port
    iopub_port: Port
    stdin_port: Port
    control_port: Port
    hb_port: Port
    key: str
    ip: str = "127.0.0.1"
    transport: str = "tcp"
    signature_scheme: str = "hmac-sha256"

    @property
    def hash(self) -> str:
        """The name of the hash of signatures."""
        return self.signature_scheme.removeprefix("hmac-")

    def address(self, port: int) -> str:
        """Of one of its sockets."""
        return f"ipc://{self.ip}-{port}" if self.transport == "ipc" else f"tcp://{self.ip}:{port}"


def read_connection(path: Path) -> ConnectionFile:
    """Read a connection file.

    Raises:
        InvalidArgument: It is none, is no secret, or lets others in.
    """
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno())
            data = file.read(1 << 16)
    except OSError as error:
        raise InvalidArgument("file", f"'{path}' cannot be read: {error.strerror}") from None
    is_open = stat.S_IMODE(mode.st_mode) & 0o077 or mode.st_uid not in (os.geteuid(), 0)
    if is_open and not os.environ.get(_FLAG):  # Jupyter's own switch, for folders that know no modes
        raise InvalidArgument("file", f"'{path}' holds a key, and others may read it; chmod 600 it")
    try:
        found = msgspec.json.decode(data, type=ConnectionFile)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise InvalidArgument("file", f"'{path}' is no connection file: {error}") from None
    if not found.key:
        raise InvalidArgument("file", f"'{path}' has no key, so that whoever reaches the ports could run programs")
    if not found.signature_scheme.startswith("hmac-") or found.hash not in _HASHES:
        raise InvalidArgument("file", f"{found.signature_scheme!r}: signatures are hmac- and one of {_HASHES}")
    if found.transport not in ("tcp", "ipc"):
        raise InvalidArgument("file", f"{found.transport!r}: a transport is tcp or ipc")
    if found.transport == "tcp" and not _is_loopback(found.ip):
        raise InvalidArgument("file", f"{found.ip!r} is not of this machine's loopback, and nothing is encrypted")
    return found


def _is_loopback(ip: str) -> bool:
    try:
        return ipaddress.ip_address(ip).is_loopback
    except ValueError:
        return False


class Signer:
    """Signs messages, and knows which of those that come are signed and were not seen before."""

    def __init__(self, key: str, name: str, *, most: int = _MOST_SIGNATURES) -> None:
        self._mac = hmac.new(key.encode(), digestmod=getattr(hashlib, name))
        self._seen: set[bytes] = set()
        self._order: collections.deque[bytes] = collections.deque()
        self._most = most

    def sign(self, parts: Sequence[bytes]) -> bytes:
        """Of header, parent's header, metadata and content, in hexadecimal digits."""
        mac = self._mac.copy()
        for part in parts:
            mac.update(part)
        return mac.hexdigest().encode()

    def check(self, signature: bytes, parts: Sequence[bytes]) -> None:
        """Raises InvalidMessage where it is not that of these parts, or was taken before."""
        right = self.sign(parts)
        if not hmac.compare_digest(signature, right):
            raise InvalidMessage("its signature is wrong")
        mark = right[:32]
        if mark in self._seen:
            raise InvalidMessage("its signature was seen before")
        self._seen.add(mark)
        self._order.append(mark)
        if len(self._order) > self._most:
            self._seen.discard(self._order.popleft())


@dataclasses.dataclass(frozen=True)
class Client:
    """A client, by the identity that its sockets have."""

    identity: tuple[bytes, ...]
    sockets: Sockets = dataclasses.field(compare=False, repr=False)

    async def send(self, channel: str, message: Mapping[str, Any]) -> None:
        """Send it a message.

        Raises:
            Gone: It has no socket of this channel.
        """
        await self.sockets.send(channel, self.identity, message)


class Sockets:
    """The five sockets of a kernel."""

    def __init__(self, connection: ConnectionFile) -> None:
        self._signer = Signer(connection.key, connection.hash)
        self._context = zmq.Context()
        waiting = zmq.asyncio.Context(self._context)
        self._iopub = self._context.socket(zmq.PUB)
        self._sockets = {name: waiting.socket(zmq.ROUTER) for name in ("shell", "control", "stdin", "hb")}
        try:
            self._bind(self._iopub, connection.address(connection.iopub_port))
            for name, socket in self._sockets.items():
                socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
                socket.setsockopt(zmq.SNDHWM, 0)  # replies are as many as requests
                self._bind(socket, connection.address(getattr(connection, f"{name}_port")))
        except BaseException:
            self.close()
            raise

    def _bind(self, socket: Any, address: str) -> None:
        socket.setsockopt(zmq.LINGER, _LINGER_MS)
        socket.setsockopt(zmq.MAXMSGSIZE, _MOST_MESSAGE_BYTES)
        try:
            socket.bind(address)
        except zmq.ZMQError as error:
            raise GroundboxError(f"nothing can listen on {address}: {error.strerror}") from None

    def close(self) -> None:
        """Close them; what was sent has a second to be delivered."""
        for socket in (self._iopub, *self._sockets.values()):
            socket.close()
        self._context.term()

    async def beat(self) -> None:
        """Send heartbeats back, until this is cancelled."""
        socket = self._sockets["hb"]
        while True:
            parts = await socket.recv_multipart()
            with contextlib.suppress(zmq.ZMQError):
                await socket.send_multipart(parts, zmq.NOBLOCK)

    async def read(self, channel: str) -> tuple[Client, Message]:
        """The next message that is one and is signed; others are dropped and told in the log."""
        while True:
            parts = await self._sockets[channel].recv_multipart()
            try:
                return self._message(channel, parts)
            except InvalidMessage as problem:
                logger.warning("a message on the channel %s is dropped: %s", channel, problem)

    async def send(self, channel: str, identity: Sequence[bytes], message: Mapping[str, Any]) -> None:
        """Send one message to a client.

        Raises:
            Gone: There is no such client on this channel.
        """
        try:
            await self._sockets[channel].send_multipart([*identity, *self._frames(message)])
        except zmq.ZMQError as error:
            logger.debug("a client has gone: %s", error)
            raise Gone from None

    async def publish(self, message: Mapping[str, Any]) -> None:
        """Send one message to all subscribers, and wait for those that read slowly."""
        topic = str(message["msg_type"]).encode()
        large = message["msg_type"] in ("display_data", "execute_result", "update_display_data")
        frames = await asyncio.to_thread(self._frames, message) if large else self._frames(message)
        until = time.monotonic() + _SLOW_S
        while True:
            self._iopub.setsockopt(zmq.XPUB_NODROP, 1)
            try:
                self._iopub.send_multipart([topic, *frames], zmq.NOBLOCK)
                return
            except zmq.Again:
                if time.monotonic() < until:
                    await asyncio.sleep(_AGAIN_S)  # a PUB socket says that it can send even where it cannot
                    continue
            logger.warning("a client read nothing for %g s, and loses what is published until it reads", _SLOW_S)
            self._iopub.setsockopt(zmq.XPUB_NODROP, 0)  # from here on ZeroMQ passes over it, until there is room
            self._iopub.send_multipart([topic, *frames], zmq.NOBLOCK)
            return

    def _frames(self, message: Mapping[str, Any]) -> list[bytes]:
        parts = [_encoded(message[name]) for name in ("header", "parent_header", "metadata", "content")]
        return [_DELIMITER, self._signer.sign(parts), *parts]

    def _message(self, channel: str, parts: list[bytes]) -> tuple[Client, Message]:
        if _DELIMITER not in parts[:_MOST_PARTS]:
            raise InvalidMessage("it has no delimiter")
        at = parts.index(_DELIMITER)
        size = sum(map(len, parts))
        signed = parts[at + 2 : at + 6]
        if len(signed) < 4 or len(parts) > _MOST_PARTS or size > _MOST_MESSAGE_BYTES:
            raise InvalidMessage(f"it has {len(parts)} parts of {size} bytes together")
        self._signer.check(parts[at + 1], signed)
        try:
            message = Message(
                header=msgspec.json.decode(signed[0], type=Header),
                parent_header=msgspec.json.decode(signed[1], type=Parent),
                content=msgspec.Raw(signed[3]),
                channel=channel,
                size_bytes=size,
            )
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise InvalidMessage(f"it is none of Jupyter's: {error}") from None
        return Client(tuple(parts[:at]), self), message


class OwnKernel:
    """The kernel of this process, in one sandbox of its own.

    Attributes:
        restarts: A fresh process is for whoever started this one.
    """

    restarts = False

    def __init__(
        self,
        box: AsyncSandbox,
        sockets: Sockets,
        language: str,
        *,
        version: str,
        stdin: Stdin | None,
        options: Mapping[str, Any],
        after: Callable[[Execution], Awaitable[None]] | None = None,
        trusts_displays: bool = False,
    ) -> None:
        """Args:
        options: Of the language, for each cell.
        after: Called with each cell's execution before its client hears of its end.
        trusts_displays: Whether all that cells show is handed on as it is. Notebooks run what their kernel shows:
            a script in it can start a kernel on the host.
        """
        self._trusts_displays = trusts_displays
        self.ended = asyncio.Event()
        self._box, self._sockets, self._options, self._after = box, sockets, options, after
        self.kernel = Kernel(self, language, version=version, stdin=stdin)

    async def serve(self) -> None:
        """Serve until it is to end."""
        await self.kernel.tell("starting")
        tasks = [asyncio.create_task(self._read(name)) for name in ("shell", "control", "stdin")]
        tasks.append(asyncio.create_task(self._sockets.beat()))
        ending = asyncio.create_task(self.ended.wait())
        try:
            done, _ = await asyncio.wait((*tasks, ending), return_when=asyncio.FIRST_COMPLETED)
            for task in done - {ending}:
                task.result()
        finally:
            for task in (*tasks, ending):
                task.cancel()
            await asyncio.gather(*tasks, ending, return_exceptions=True)
            await self.kernel.aclose()

    async def _read(self, channel: str) -> None:
        while True:
            client, message = await self._sockets.read(channel)
            try:
                await self.kernel.take(client, message)
            except InvalidMessage as problem:
                logger.warning("a request is dropped: %s", problem)
            except Gone:
                pass

    async def publish(self, message: Mapping[str, Any]) -> None:
        """Send to all subscribers."""
        await self._sockets.publish(message)

    async def stream(self, peer: Client, source: str, **options: Any) -> AsyncGenerator[Event, None]:
        """Events of a cell."""
        async with contextlib.aclosing(self._box.stream(source, **options, **self._options)) as events:
            async for event in events:
                if event.execution is not None and self._after is not None:
                    await self._after(event.execution)
                yield event

    async def run(self, peer: Client, source: str, **options: Any) -> Execution:
        """Run a program of the kernel's own."""
        return await self._box.run(source, **options)

    def interrupt(self) -> bool:
        """Interrupt the sandbox."""
        return self._box.interrupt()

    async def restart(self) -> None:
        """Not asked for: `restarts` is False."""
        await self._box.restart()

    async def end(self) -> None:
        """Let `serve` return."""
        self.ended.set()

    def shown(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Forms of which nothing acts in a notebook, unless it was said that they may."""
        return dict(data) if self._trusts_displays else forms_of(data)

    def failed(self, peer: Client, error: Exception) -> dict[str, Any]:
        """An error that says that the program did not fail; there is no other way to tell."""
        if isinstance(error, InvalidMessage):
            return error_content("InvalidMessage", str(error), [f"groundbox: the request is refused: {error}"])
        if isinstance(error, InvalidArgument):
            return error_content("InvalidArgument", str(error), [f"groundbox: nothing ran: {error}"])
        if isinstance(error, GroundboxError | OSError):
            logger.error("a cell could not be run: %s", error)
            told = f"groundbox failed, not this cell's program: {error}"
        else:
            logger.error("a fault of groundbox", exc_info=error)
            told = "groundbox failed, not this cell's program: a fault of its own; the kernel's log tells more"
        return error_content(type(error).__name__, told, [told])


@contextlib.contextmanager
def ending_signals(kernel: OwnKernel) -> Iterator[None]:
    """SIGTERM and SIGHUP end the kernel, SIGINT interrupts its cell, and it ends with the process that started it."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, kernel.ended.set)
    loop.add_signal_handler(signal.SIGINT, kernel.kernel.interrupt)
    parent = _parent()
    if parent is not None:
        loop.add_reader(parent, kernel.ended.set)
    try:
        yield
    finally:
        if parent is not None:
            loop.remove_reader(parent)
            os.close(parent)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            loop.remove_signal_handler(number)


def _parent() -> int | None:
    """A descriptor that is readable when the process that started this one has ended."""
    told = os.environ.get("JPY_PARENT_PID", "")
    if not told.isdigit() or int(told) != os.getppid():
        return None
    try:
        return os.pidfd_open(int(told))
    except OSError:
        return None


def _encoded(value: Any) -> bytes:
    """JSON. Halves of surrogate pairs, which guests may show, are escaped as JSON allows."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value).encode("ascii")
