"""An address or a unix socket to listen on, and the server that answers there until it is told to end.

Where an address may be reached from elsewhere is decided on the numbers that a name stands for, and those numbers are
bound: what was looked at is what is served. Over a unix socket only processes of the same user, and of root, are heard.

Connections are looked at before anybody has shown a key, so what one may hold is bounded here: the bytes of a request's
head, the requests that are sent ahead, the time in which a head comes, and the time in which nothing of a reply is
taken. uvicorn bounds none of these.

A signal ends it: new work is refused, what goes on gets its time and is then ended, every request is answered, and then
connections are closed. A second signal waits for none of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import ipaddress
import logging
import math
import os
import resource
import signal
import socket
import stat
import struct
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, MutableMapping
from pathlib import Path
from typing import Any, Final, Literal

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol  # of httptools where that is installed, else of h11

from groundbox.errors import InvalidArgument
from groundbox.sandbox.threads import FairThreads
from groundbox.server.eventloop import SILENCE_S, Watchdog

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_CLOSING_S: Final = 0.5
_BACKLOG: Final = 2048
_FIRST_GIVEN: Final = 3
"""Descriptor of the first socket from a service manager."""
_CREDENTIALS: Final = struct.Struct("3i")  # ucred of unix(7): process, user, group
_WS_BYTES: Final = 16 * 1024 * 1024
_HEAD_BYTES: Final = 64 * 1024
_READ_BYTES: Final = 16 * 1024
"""Of one connection in one turn of the event loop. asyncio's own 256 KiB have 40,000 chunks of a body, or 3,000
requests in a row, each of which takes microseconds."""
_MOST_WAITING: Final = 16
"""Requests of one connection behind the one that is carried out."""
_LEFT_BYTES: Final = 64 * 1024 * 1024
_LEFT_S: Final = 30.0
_LOOK_S: Final = 5.0
_STALLED_S: Final = 60.0
_LOCK_S: Final = 5.0
_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


def bound(host: str, port: int, *, may_be_public: bool, secret: str) -> socket.socket:
    """A socket that listens on an address, and on nothing else.

    Args:
        host: A name or an address; the first address that a name stands for is taken.
        port: 0 for one that is free.
        may_be_public: Whether others than this machine may reach it.
        secret: The environment variable whose secret would allow that, for the message.

    Raises:
        InvalidArgument: It is no address of this machine, it may not be public and is, or it is taken.
    """
    try:
        [(family, _, _, _, address), *_] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise InvalidArgument("host", f"{host!r} stands for no address: {_why(error)}") from None
    if not may_be_public and not is_loopback(str(address[0])):
        problem = (
            f"{host!r} ({address[0]}) can be reached by others than this machine, and everyone who reaches it may ask. "
            f"Set {secret} to a secret that askers have to send (`openssl rand -hex 32` writes one), or take "
            "127.0.0.1"
        )
        raise InvalidArgument("host", problem)
    # The protocol is named, because asyncio sets TCP_NODELAY on accepted sockets only where it is: without it, the
    # second part of each reply waits 40 ms for the client's delayed acknowledgement of the first.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        problem = f"{address[0]}:{port} cannot be listened on: {_why(error)}. Choose another port, or 0 for a free one"
        raise InvalidArgument("port", problem) from None
    return listening


def inherited(environ: MutableMapping[str, str], *, may_be_public: bool, secret: str) -> socket.socket | None:
    """The socket that a service manager listens on for this process, as sd_listen_fds(3) has it; None without one.

    It stays open while one server ends and the next one starts: connections wait, and are not refused.
    The variables are removed from the environment.

    Raises:
        InvalidArgument: There are several sockets, or it is not a listening TCP socket, or it may not be public and is.
    """
    count, process = environ.pop("LISTEN_FDS", ""), environ.pop("LISTEN_PID", "")
    environ.pop("LISTEN_FDNAMES", None)
    if process != str(os.getpid()) or count in ("", "0"):
        return None
    if count != "1":
        raise InvalidArgument("port", f"the service manager gave {count} sockets; give one. Nothing was started")
    os.set_inheritable(_FIRST_GIVEN, False)
    listening = socket.socket(fileno=_FIRST_GIVEN)
    is_tcp = listening.family in (socket.AF_INET, socket.AF_INET6) and listening.type == socket.SOCK_STREAM
    if not is_tcp or not listening.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        raise InvalidArgument("port", "the service manager gave a socket that does not listen on TCP")
    address = str(listening.getsockname()[0])
    if not may_be_public and not is_loopback(address):
        raise InvalidArgument("host", f"{address} can be reached by others than this machine; set {secret} to a secret")
    return listening


def bound_unix(path: Path) -> socket.socket:
    """A unix socket that its owner alone may connect to. One that nobody listens on any more is replaced.

    Raises:
        InvalidArgument: Somebody listens there, something else lies there, or it cannot be made.
    """
    try:
        with _alone(path.parent):
            _remove_deserted(path)
            listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                os.fchmod(listening.fileno(), 0o600)  # bind gives its file this mode, so that nobody else ever connects
                listening.bind(os.fspath(path))
                listening.listen(_BACKLOG)
            except OSError:
                listening.close()
                raise
    except OSError as error:
        raise InvalidArgument("unix_socket", f"'{path}' cannot be listened on: {_why(error)}") from None
    return listening


def mark_of(path: Path) -> tuple[int, int, int]:
    """What tells a socket from one that another process put in its place; to be asked while it is listened on."""
    found = os.lstat(path)
    return found.st_dev, found.st_ino, found.st_ctime_ns


def withdraw_unix(path: Path, mark: tuple[int, int, int]) -> None:
    """Remove the name of a socket, unless it is another one's by now."""
    with contextlib.suppress(OSError, InvalidArgument), _alone(path.parent):
        if mark_of(path) == mark:
            path.unlink()


def _remove_deserted(path: Path) -> None:
    """Remove a socket that nobody listens on.

    Raises:
        InvalidArgument: Somebody does.
        OSError: It cannot be told, or not be removed.
    """
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            return  # bind refuses
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asked:
        asked.settimeout(1.0)  # one that is stopped, with a full queue, would be waited for without end
        try:
            asked.connect(os.fspath(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
        except BlockingIOError:
            raise InvalidArgument("unix_socket", f"'{path}' is listened on by a process that does not answer") from None
        else:
            raise InvalidArgument("unix_socket", f"'{path}' is listened on by another process already")


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Be the only one who replaces sockets in a folder: of two that start at once, one finds the other."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + _LOCK_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:  # whoever can read the folder can hold its lock
                    raise InvalidArgument("unix_socket", f"'{folder}' is locked by another process") from None
                time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches an address."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        return found.ipv4_mapped.is_loopback
    return found.is_loopback


def url_of(listening: socket.socket) -> str:
    """Where it is reached; "" where it listens on every address, which is none to be reached at."""
    if listening.family == socket.AF_UNIX:
        return f"unix://{listening.getsockname()}"
    address, port = listening.getsockname()[:2]
    if ipaddress.ip_address(address.partition("%")[0]).is_unspecified:
        return ""
    return f"http://[{address}]:{port}/" if ":" in address else f"http://{address}:{port}/"


def serve(
    app: Any,
    listening: socket.socket,
    *,
    ready: Callable[[], None],
    ending: Callable[[], Awaitable[None]] | None = None,
    max_connections: int | None = None,
    keep_alive_s: float = 75.0,
    ws: Literal["none", "websockets-sansio"] = "none",
    stop: asyncio.Event | None = None,
    silence_s: float = SILENCE_S,
    grace_s: float = 5.0,
    is_inherited: bool = False,
) -> None:
    """Answer until SIGINT, SIGTERM or SIGHUP (unless that is ignored, as by nohup), in the main thread.

    Args:
        app: An ASGI application.
        ready: Called when requests are answered.
        ending: Awaited when the end has come, before connections are waited for.
        max_connections: One more is answered with 503.
        keep_alive_s: Seconds that a connection without a request is kept. Clients that keep connections for half a
            minute and find them closed lose what they send.
        stop: Ends it, too, when it is set.
        silence_s: Seconds after which an event loop that hangs ends this process with EXIT_STATUS.
        grace_s: Seconds that requests may still take after `ending`, before they are called off.
        is_inherited: Whether the socket stays open when this process ends (`inherited`). Then no connection is taken
            any more once the end has come: it waits for the next server.
    """
    over_unix = listening.family == socket.AF_UNIX
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    config = uvicorn.Config(
        app,
        http=_SameUser if over_unix else _Bounded,
        loop="asyncio",
        ws=ws,
        ws_max_size=_WS_BYTES,
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=None if max_connections is None else max_connections + 1,  # the refused one is counted, too
        timeout_keep_alive=int(keep_alive_s),
    )
    server = _Server(config, ready, ending, stop, silence_s, grace_s, is_inherited=is_inherited)
    asyncio.run(server.serve(sockets=[listening]))


def _is_news(record: logging.LogRecord) -> bool:
    """Return False for uvicorn's word on replies that are cut on purpose, so that nobody takes half for a whole."""
    return "returned without completing response" not in str(record.msg)


class _Bounded(AutoHTTPProtocol):  # type: ignore[misc,valid-type]
    """HTTP of one connection, which is cut when it holds something for too long, or sends a head without end.

    A request's head has to be there as soon as a connection without requests is closed anyway. A reply is stalled when
    in `stalled_s` nothing of it was taken; a slow reader takes some, which shows by less in the buffer, or by the calls
    that tell the writer to go on.

    What is left of a body after its reply, as after a refusal, is thrown away, up to a number of bytes and for a time.
    To close at once would lose the reply: the kernel resets a connection on which unread bytes are left.
    """

    stalled_s = _STALLED_S

    def connection_made(self, transport: Any) -> None:
        """Begin to look at it; one more than half of what this process may open is hung up on."""
        super().connection_made(transport)
        transport.max_size = _READ_BYTES
        self._chunks: list[bytes] = []
        self._loose_bytes = 0
        self._left_bytes = 0
        self._answered_at: float | None = None
        self._size = 0
        self._free_since = self._taken_at = self.loop.time()
        self._look_s = min(_LOOK_S, self.timeout_keep_alive / 2, self.stalled_s / 2)
        self._looking = self.loop.call_later(self._look_s, self._look)
        if len(self.connections) > _most_connections():
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Look no more."""
        self._looking.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what is neither a whole head nor of a body: heads, trailers and extensions of chunks come without end.

        h11, which tells of no body, has a bound of its own.
        """
        self._loose_bytes += len(data)
        super().data_received(data)
        self._hand_on_chunks()
        if self._loose_bytes > _HEAD_BYTES and hasattr(AutoHTTPProtocol, "on_body"):
            if self._is_free():
                self.transport.write(_TOO_LARGE)
                self.transport.close()
            else:
                self.transport.abort()

    def handle_websocket_upgrade(self, *event: Any) -> None:
        """Hand over to the WebSocket, which leaves a head that it cannot read, as one with a long line, for ever."""
        super().handle_websocket_upgrade(*event)
        if not getattr(self.transport.get_protocol(), "handshake_initiated", True):
            self.transport.write(_TOO_LARGE)
            self.transport.close()

    def on_headers_complete(self) -> None:
        """A head is whole.

        Raises:
            OverflowError: Too many requests wait behind another one. The connection was cut; the parser stops.
        """
        if len(self.pipeline) >= _MOST_WAITING:
            self.transport.abort()
            raise OverflowError
        self._loose_bytes = self._left_bytes = 0
        self._answered_at = None
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A chunk has come. A body can have one for each of its bytes, so they are handed on together."""
        self._chunks.append(body)

    def on_message_complete(self) -> None:
        """A body is whole."""
        self._hand_on_chunks()
        super().on_message_complete()

    def _hand_on_chunks(self) -> None:
        """Hand on what has come of a body, which the application bounds until it has answered."""
        if not self._chunks:
            return
        body = b"".join(self._chunks)
        self._chunks.clear()
        self._loose_bytes = 0
        if self._is_free():
            self._left_bytes += len(body)
            self._answered_at = self.loop.time() if self._answered_at is None else self._answered_at
            if self._left_bytes > _LEFT_BYTES or self.loop.time() - self._answered_at > _LEFT_S:
                self.transport.abort()
        super().on_body(body)

    def resume_writing(self) -> None:
        """Some of a reply was taken."""
        self._taken_at = self.loop.time()
        super().resume_writing()

    def _is_free(self) -> bool:
        return self.cycle is None or bool(self.cycle.response_complete)

    def _look(self) -> None:
        if self.transport.get_protocol() is not self:  # it is a WebSocket by now
            return
        now = self.loop.time()
        size = self.transport.get_write_buffer_size()
        if size == 0 or size < self._size:
            self._taken_at = now
        self._size = size
        if not self._is_free() or size:
            self._free_since = now
        is_stalled = now - self._taken_at > self.stalled_s
        is_idle = now - self._free_since > self.timeout_keep_alive + self._look_s
        if is_stalled or is_idle:
            self.transport.abort()
        else:
            self._looking = self.loop.call_later(self._look_s, self._look)


class _SameUser(_Bounded):
    """HTTP over a unix socket, for processes of the user who serves, and of root."""

    def connection_made(self, transport: Any) -> None:
        """Look at who connects, as the kernel tells it (SO_PEERCRED of unix(7)), and hang up on others."""
        peer = transport.get_extra_info("socket")
        packed = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        _, user, _ = _CREDENTIALS.unpack(packed)
        super().connection_made(transport)
        if user not in (0, os.geteuid()):
            transport.abort()


def _most_connections() -> int:
    """Half of the descriptors that this process may have; sandboxes need the others."""
    return max(16, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)


class _Server(uvicorn.Server):
    def __init__(
        self,
        config: uvicorn.Config,
        ready: Callable[[], None],
        ending: Callable[[], Awaitable[None]] | None,
        stop: asyncio.Event | None,
        silence_s: float,
        grace_s: float,
        *,
        is_inherited: bool,
    ) -> None:
        super().__init__(config)
        self._grace_s, self._is_inherited = grace_s, is_inherited
        self._begun_ending: asyncio.Future[None] | None = None
        self.should_exit = self.force_exit = False
        self._ready, self._ending, self._stop, self._silence_s = ready, ending, stop, silence_s

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals ask for the end; they are not raised again after it, because it is what was asked for.

        As long as they are heard, a loop that hangs ends the process.
        """
        loop = asyncio.get_running_loop()
        is_kept = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # by nohup
        heard = [number for number in _SIGNALS if number != signal.SIGHUP or not is_kept]
        for number in heard:
            loop.add_signal_handler(number, self._end)
        watchdog = Watchdog(self._silence_s)
        try:
            yield
        finally:
            watchdog.close()
            for number in heard:
                loop.remove_signal_handler(number)

    async def startup(self, sockets: Any = None) -> None:
        """Say that it is ready, when it is."""
        total = min(32, (os.cpu_count() or 1) + 4)  # as the interpreter's own
        asyncio.get_running_loop().set_default_executor(
            FairThreads(total, share=(total + 1) // 2, name="groundbox-work")
        )
        await super().startup(sockets=sockets)
        if self._stop is not None:
            self._waiting = asyncio.create_task(self._end_when(self._stop))
        if self.started:  # not where the application could not begin
            self._ready()

    async def shutdown(self, sockets: Any = None) -> None:
        """Answer everything that was asked, then close.

        First `ending` ends what goes on, and the replies about that are written. A request that has no reply after
        `grace_s` is cancelled, which the guard answers.
        """
        self._begin_ending()
        if self._begun_ending is not None:
            await self._wait_for({self._begun_ending}, math.inf)
        self._stop_listening()
        for each in sockets or []:
            each.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        await self._wait_for(self.server_state.tasks, self._grace_s)
        for task in self.server_state.tasks:
            task.cancel()
        await self._wait_for(self.server_state.tasks, _CLOSING_S)
        if not self.force_exit:
            await self.lifespan.shutdown()

    async def _wait_for(self, tasks: Collection[asyncio.Future[Any]], most_s: float) -> None:
        """Wait until these tasks are done, for `most_s`, or for a second signal."""
        deadline = time.monotonic() + most_s
        while not self.force_exit and time.monotonic() < deadline:
            if not (left := [task for task in tasks if not task.done()]):
                return
            await asyncio.wait(left, timeout=0.05)

    async def _end_when(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._end()

    def _end(self) -> None:
        if self.should_exit:
            self.force_exit = True
        self.should_exit = True
        if self.started:
            self._begin_ending()  # uvicorn looks at `should_exit` ten times a second

    def _begin_ending(self) -> None:
        """Begin `ending`, once."""
        if self._ending is not None and self._begun_ending is None:
            self._begun_ending = asyncio.ensure_future(self._ending())
            if self._is_inherited:
                self._stop_listening()

    def _stop_listening(self) -> None:
        for server in self.servers:
            server.close()


def _why(error: Exception) -> str:
    if isinstance(error, socket.gaierror):
        return str(error.strerror)
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
