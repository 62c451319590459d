"""Commands and terminals: the calls of `process.Process`.

What a process writes goes to all streams that listen to it at that moment. If none does, it is read without being
encoded and dropped, at a pace that all processes of a key share; a process that prints faster waits. Going away ends no
process: it ends by itself, by a signal, at the time that its starter gave it (`Connect-Timeout-Ms`), or with its
sandbox.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import errno
import functools
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, ClassVar, Final

import msgspec
from starlette.requests import Request
from starlette.routing import Route

from groundbox.errors import GuestFileError, GuestProcessError, InvalidArgument
from groundbox.sandbox.process import AsyncProcess, Exit
from groundbox.server import bodies
from groundbox.server.refusals import Refused
from groundbox.server.schemas import Argument, Label, Path, Word, read
from groundbox.server.service import Service
from groundbox.server.wires.e2b import connectrpc
from groundbox.server.wires.e2b.access import DataRoute, State, asked_for
from groundbox.server.wires.e2b.connectrpc import RpcError, streaming, taking, unary
from groundbox.server.wires.e2b.files import resolved

_WAITING: Final = 64
_HEARD_A_SECOND: Final = 400
_UNHEARD_A_SECOND: Final = 100
"""Pieces, of at most 64 KiB, that are read of all processes of one key; those to which nobody listens are dropped."""
_KEEPALIVE: Final[dict[str, Any]] = {"event": {"keepalive": {}}}
_SIGNALS: Final[dict[Any, signal.Signals]] = {
    "SIGNAL_SIGKILL": signal.SIGKILL,
    "SIGNAL_SIGTERM": signal.SIGTERM,
    int(signal.SIGKILL): signal.SIGKILL,
    int(signal.SIGTERM): signal.SIGTERM,
}


class _Selector(msgspec.Struct, kw_only=True):
    pid: int | None = None
    tag: Label | None = None


class _Size(msgspec.Struct, kw_only=True):
    cols: int = 80
    rows: int = 24


class _Pty(msgspec.Struct, kw_only=True):
    size: _Size | None = None


class _Config(msgspec.Struct, kw_only=True):
    LONG: ClassVar[bodies.Long] = {"args": bodies.ARGUMENT, "envs": bodies.ARGUMENT}

    cmd: Path
    args: list[Argument] = []
    envs: dict[Argument, Argument] = {}
    cwd: Path | None = None


class _StartAsked(msgspec.Struct, kw_only=True):
    process: _Config
    pty: _Pty | None = None
    tag: Label | None = None
    stdin: bool | None = None


class _Input(msgspec.Struct, kw_only=True):
    LONG: ClassVar[bodies.Long] = {"stdin": bodies.BASE64, "pty": bodies.BASE64}

    stdin: str | None = None
    pty: str | None = None


class _ProcessAsked(msgspec.Struct, kw_only=True):
    process: _Selector
    input: _Input | None = None
    signal: Word | int | None = None
    pty: _Pty | None = None


class _Begin(msgspec.Struct, kw_only=True):
    process: _Selector


class _Data(msgspec.Struct, kw_only=True):
    input: _Input


class _InputAsked(msgspec.Struct, kw_only=True):
    start: _Begin | None = None
    data: _Data | None = None


class Running:
    """A process that was started, who listens to it, and its time."""

    def __init__(
        self,
        process: AsyncProcess,
        asked: _StartAsked,
        *,
        pace: Callable[[float], Awaitable[None]],
        timeout_s: float | None,
    ) -> None:
        """Args:
        pace: Waits until a piece of output may be read, of which there are at most so many in a second.
        """
        self.process, self.asked, self._pace = process, asked, pace
        self.timed_out = self.is_gone = False
        self._listeners: set[asyncio.Queue[dict[str, Any] | None]] = set()
        self._pump = asyncio.ensure_future(self._tell())
        self._timer = None
        if timeout_s is not None:
            self._timer = asyncio.get_running_loop().call_later(timeout_s, self._time_is_up)

    def ended(self, call: Any) -> None:
        """Have `call()` called when it has ended and all was told."""
        self._pump.add_done_callback(lambda _: call())

    async def events(self) -> AsyncGenerator[dict[str, Any], None]:
        """What happens to it from now on."""
        queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue(_WAITING)
        self._listeners.add(queue)
        try:
            yield {"event": {"start": {"pid": self.process.pid}}}
            while (event := await queue.get()) is not None:
                yield {"event": event}
            if self.is_gone:
                raise RpcError("unavailable", "the sandbox was closed while the process ran")
            if self.timed_out:
                raise RpcError("deadline_exceeded", "the process was killed at the timeout of the call that started it")
        finally:
            self._listeners.discard(queue)
            while not queue.empty():  # so that nobody waits for room in it
                queue.get_nowait()

    def close(self) -> None:
        """Its sandbox is being closed, and ends it; nobody is to take that for its own end."""
        self.is_gone = True
        self._stop_timer()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    async def _tell(self) -> None:
        try:
            async for stream, data in self.process.output():
                if self._listeners:
                    await self._put({"data": {stream: base64.b64encode(data).decode()}})
                await self._pace(_HEARD_A_SECOND if self._listeners else _UNHEARD_A_SECOND)
            exit_ = await self.process.wait()
            if not self.is_gone:
                await self._put({"end": _end(exit_)})
        finally:
            self._stop_timer()
            for queue in tuple(self._listeners):
                await queue.put(None)

    async def _put(self, event: dict[str, Any]) -> None:
        for queue in tuple(self._listeners):
            if queue in self._listeners:
                await queue.put(event)

    def _time_is_up(self) -> None:
        self.timed_out = True
        with contextlib.suppress(GuestProcessError):
            self.process.kill()


class ProcessRpc:
    """The routes of processes."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> list[Route]:
        """All of them."""
        table: list[tuple[str, Any]] = [
            ("List", unary(self.list)),
            ("Start", streaming(self.start, keepalive=_KEEPALIVE)),
            ("Connect", streaming(self.connect, keepalive=_KEEPALIVE)),
            ("Update", unary(self.update)),
            ("SendInput", unary(self.send_input)),
            ("StreamInput", taking(self.stream_input)),
            ("SendSignal", unary(self.send_signal)),
            ("CloseStdin", unary(self.close_stdin)),
        ]
        return [DataRoute(f"/process.Process/{name}", endpoint, methods=["POST"]) for name, endpoint in table]

    async def list(self, request: Request) -> Any:
        """`List`"""
        _, _, state = asked_for(self._service, request)
        return {"processes": [_listed(running) for running in state.processes.values()]}

    async def start(self, request: Request) -> AsyncGenerator[Any, None]:
        """`Start`"""
        key, held, state = asked_for(self._service, request)
        asked = await connectrpc.only_message(request, _StartAsked)
        try:
            with self._service.errors():
                cwd = await resolved(held, state, asked.process.cwd or "~")
            size = None if asked.pty is None else asked.pty.size or _Size()
            process = await self._service.start_in(
                key,
                held,
                [asked.process.cmd, *asked.process.args],
                cwd=cwd,
                # The folder as it was named, which bash keeps where it is the same one.
                env={"PWD": cwd, **state.envs, **asked.process.envs},
                # SDKs that cannot close it leave it out and mean an empty one.
                stdin=bool(asked.stdin),
                pty=None if size is None else (size.rows, size.cols),
                tag=asked.tag,
            )
        except Refused as refused:
            raise _why_not_started(refused, asked.process.cwd) from None
        pace = functools.partial(self._service.pace.wait, key.id)
        running = Running(process, asked, pace=pace, timeout_s=connectrpc.timeout_s(request))
        state.processes[process.pid] = running
        running.ended(lambda: _forget(state, running))
        return running.events()

    async def connect(self, request: Request) -> AsyncGenerator[Any, None]:
        """`Connect`"""
        _, _, state = asked_for(self._service, request)
        asked = await connectrpc.only_message(request, _ProcessAsked)
        return _found(state, asked.process).events()

    async def update(self, request: Request) -> Any:
        """`Update`: another size of a terminal."""
        running, asked = await self._asked(request)
        if asked.pty is not None and asked.pty.size is not None:
            with _told():
                running.process.resize(rows=asked.pty.size.rows, columns=asked.pty.size.cols)
        return {}

    async def send_input(self, request: Request) -> Any:
        """`SendInput`"""
        running, asked = await self._asked(request)
        if asked.input is not None:
            await _give(running, asked.input)
        return {}

    async def stream_input(self, request: Request) -> Any:
        """`StreamInput`: first the process, then what it is given."""
        _, _, state = asked_for(self._service, request)
        running = None
        async for message in connectrpc.messages(request, _InputAsked):
            if message.start is not None:
                running = _found(state, message.start.process)
            elif message.data is not None:
                if running is None:
                    raise RpcError("invalid_argument", "the first message names the process")
                await _give(running, message.data.input)
        return {}

    async def send_signal(self, request: Request) -> Any:
        """`SendSignal`"""
        running, asked = await self._asked(request)
        number = _SIGNALS.get(asked.signal)
        if number is None:
            raise RpcError("invalid_argument", f"signal: {str(asked.signal)[:40]!r} is neither SIGKILL nor SIGTERM")
        with _told():
            running.process.signal(number)
        return {}

    async def close_stdin(self, request: Request) -> Any:
        """`CloseStdin`"""
        running, _ = await self._asked(request)
        with _told():
            await running.process.close_stdin()
        return {}

    async def _asked(self, request: Request) -> tuple[Running, _ProcessAsked]:
        _, _, state = asked_for(self._service, request)
        asked = await read(request, _ProcessAsked)
        return _found(state, asked.process), asked


def _found(state: State, selector: _Selector) -> Running:
    for running in state.processes.values():
        named = running.process.pid == selector.pid if selector.pid is not None else running.asked.tag == selector.tag
        if named:
            return running
    raise RpcError("not_found", f"process with pid {selector.pid} was not found")


def _forget(state: State, running: Running) -> None:
    if state.processes.get(running.process.pid) is running:  # its number may be another one's by now
        del state.processes[running.process.pid]


async def _give(running: Running, given: _Input) -> None:
    text: Any = given.stdin if given.stdin is not None else given.pty
    if text is None:
        raise RpcError("invalid_argument", "input: is needed")
    try:
        data: Any = text if isinstance(text, memoryview) else base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise RpcError("invalid_argument", f"input: is no base64: {error}") from None
    with _told():
        await running.process.write(data)


@contextlib.contextmanager
def _told() -> Any:
    """Within it, what a process does not take is told in the words of the protocol."""
    try:
        yield
    except GuestProcessError as error:
        raise RpcError("failed_precondition", str(error)) from None
    except InvalidArgument as error:
        raise RpcError("invalid_argument", str(error)) from None


def _why_not_started(refused: Refused, cwd: str | None) -> Refused:
    error = refused.__cause__
    if isinstance(error, GuestProcessError):
        code = "resource_exhausted" if error.errno == errno.EAGAIN else "invalid_argument"
        if error.reason.startswith("cwd"):
            return RpcError(code, f"cwd {cwd!r} does not exist, or cannot be entered: {error.reason}")
        return RpcError(code, str(error))
    if isinstance(error, GuestFileError | InvalidArgument):
        return RpcError("invalid_argument", str(error))
    return refused


def _listed(running: Running) -> dict[str, Any]:
    config = running.asked.process
    told: dict[str, Any] = {
        "pid": running.process.pid,
        "config": {"cmd": config.cmd, "args": config.args, "envs": config.envs},
    }
    if config.cwd is not None:
        told["config"]["cwd"] = config.cwd
    if running.asked.tag is not None:
        told["tag"] = running.asked.tag
    return told


def _end(exit_: Exit) -> dict[str, Any]:
    """How it ended, as Go's os.ProcessState says it, which clients are used to."""
    if exit_.signal is None:
        status = f"exit status {exit_.code}"
        told: dict[str, Any] = {"exitCode": exit_.code, "exited": True, "status": status}
        return {**told, "error": status} if exit_.code else told
    status = f"signal: {_NAMES.get(exit_.signal, exit_.signal)}"
    return {"exitCode": -1, "exited": False, "status": status, "error": status}


_NAMES: Final = {int(each): (signal.strsignal(each) or each.name).lower() for each in signal.Signals}
