"""A sandbox on a server, with the methods of a local one."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import json
import math
import os
import secrets
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn, SupportsIndex, TypeVar, Unpack

from groundbox.errors import (
    CheckpointLost,
    GroundboxError,
    InvalidArgument,
    SandboxClosed,
    ServerRefused,
    ServerUnreachable,
)
from groundbox.execution import Display, Event, Execution
from groundbox.limits import Limits
from groundbox.network import Network
from groundbox.remote.checkpoint import RemoteCheckpoint, Unwanted
from groundbox.remote.process import RemoteProcess
from groundbox.remote.refusals import OLDER, refusal_of
from groundbox.remote.transport import Reply, Transport
from groundbox.sandbox import languages, options
from groundbox.sandbox.branching import MOST_FORKS, Checkpoint, check_count
from groundbox.sandbox.files import content_of
from groundbox.sandbox.guestfiles import Entries, Entry
from groundbox.sandbox.sandbox import AsyncSandbox, check_run
from groundbox.sandbox.telemetry import watched
from groundbox.sandbox.variables import checked_variables
from groundbox.sandbox.workdir import check_path
from groundbox.suggestions import refuse_unknown

if TYPE_CHECKING:
    from groundbox.remote.connect import Connection

T = TypeVar("T")

_HERE_ONLY: Final = {
    "tools": "are functions of this process, which a server cannot call",
    "databases": "are asked from the host that runs the sandbox; ask them from a sandbox of this process",
    "backend": "is the server's to choose",
    "waive": "is the server's to choose",
    "mounts": "are files of this machine, which a server does not show; copy them by `files`, or list names that the "
    "server's operator gave by `groundbox serve --mount`",
}
_BUSY_S: Final = 120.0
_NOTHING_BEGAN: Final = ("no_node", "node_unreachable")
"""Codes of a gateway, with `retry_after_s`, of what was sent to no node."""
_LONGEST_WAIT_S: Final = 30.0
_EXACT: Final = 1 << 53
"""Some readers of JSON take a larger number for a float."""


class RemoteSandbox:
    """One sandbox of a server: AsyncSandbox, elsewhere. Made at its first use; closing it ends it there."""

    @options.spelled_out(options.SandboxOptions)
    def __init__(self, connection: Connection, **given: Unpack[options.SandboxOptions]) -> None:
        """Prepare a sandbox; nothing is asked yet.

        Args:
            given: Arguments of AsyncSandbox, but for those that only this process could carry out.

        Raises:
            InvalidArgument: An argument cannot be meant, or not on a server.
        """
        refuse_unknown("Sandbox()", given, options.SANDBOX)
        options.check(given)
        for name, why in _HERE_ONLY.items():
            if name == "mounts" and isinstance(given.get(name), list | tuple) and not connection.is_engine:
                continue  # names, which the server's operator gave
            if given.get(name) and not (connection.is_engine and given.get(name) == options.DEFAULTS[name]):
                raise InvalidArgument(name, f"{why}. engine='own' takes it" if connection.is_engine else why)
        if connection.is_engine:
            AsyncSandbox(**given)  # refuses at once what the engine would refuse at the first use
        self.limits = given.get("limits") or Limits()
        self.network = given.get("network") or Network()
        self.files = RemoteFiles(self)
        self.guest_files = RemoteGuestFiles(self)
        self._connection = connection
        self._given = given
        self._asked = sandbox_json(given)
        self._id: str | None = None
        self._closed = False
        self._can_branch = False
        self._checkpoints: weakref.WeakSet[RemoteCheckpoint] = weakref.WeakSet()
        self._unwanted: Unwanted | None = None
        self._going_on: set[asyncio.Future[Any]] = set()
        self._making = asyncio.Lock()
        self._started: dict[int, RemoteProcess] = {}
        self._let_go: Callable[[], object] = _nothing

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Refuse `copy` and `pickle`, as local sandboxes do."""
        raise TypeError(f"a {type(self).__name__} is a live process, and is neither copied nor pickled")

    async def __aenter__(self) -> RemoteSandbox:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def is_closed(self) -> bool:
        """Whether it was closed here."""
        return self._closed

    @options.spelled_out(options.RunOptions)
    async def run(self, source: str, **given: Unpack[options.RunOptions]) -> Execution:
        """Run one program and return what happened. Takes the arguments of AsyncSandbox.run, and raises what it raises.

        Raises:
            ServerUnreachable: The server is not there, or went away in the middle.
            ServerRefused: It gave no result.
        """
        with self._watched(source, given) as watch:
            body = {**program_json(source, given), "artifacts": "bytes"}
            told = await self._connection.post(f"{await self.path()}/run", body)
            execution = await self._connection.execution(told, traced=bool(given.get("trace")))
            watch(execution)
            return execution

    @options.spelled_out(options.RunOptions)
    async def run_last(self, source: str, **given: Unpack[options.RunOptions]) -> Execution:
        """Run one program as the last one and close. One that nothing ran in before costs a single request."""
        if self._id is None and not self._closed:
            with self._watched(source, given) as watch:
                self._closed = True
                execution = await self._connection.run_alone(source, self._asked, given)
                watch(execution)
                return execution
        try:
            return await self.run(source, **given)
        finally:
            await self.close()

    @options.spelled_out(options.StreamOptions)
    async def stream(self, source: str, **given: Unpack[options.StreamOptions]) -> AsyncGenerator[Event, None]:
        """Run one program and yield its events as they come; the last one carries the Execution.

        Leaving the loop early ends the run.

        Args:
            last: The sandbox runs nothing more.
        """
        last = given.pop("last", False)
        with self._watched(source, given) as watch:
            alone = last and self._id is None and not self._closed
            body = {**program_json(source, given), "artifacts": "bytes", "stream": True}
            if alone:
                self._closed = True
                path, body = "/v1/run", {**body, **self._asked}
            else:
                path = f"{await self.path()}/run"
            try:
                async with contextlib.aclosing(
                    self._connection.events(path, body, traced=bool(given.get("trace")))
                ) as all_:
                    async for event in all_:
                        if event.execution is not None:
                            watch(event.execution)
                        yield event
            finally:
                if last and not alone:
                    await self.close()

    @contextlib.contextmanager
    def _watched(self, source: str, given: Mapping[str, Any]) -> Iterator[Callable[[Execution], None]]:
        """Check a run, and write its line in the log of this process if the engine, whose log nobody reads, runs it."""
        if not self._connection.is_engine:
            yield lambda execution: None
            return
        program = self._checked(source, given)
        with watched(languages.named(given.get("language", "python")), program) as watch:
            yield watch.end

    def _checked(self, source: str, given: Mapping[str, Any]) -> languages.Program:
        """Return the program of a run in the engine; refuse what cannot be meant in a local sandbox's words."""
        program = check_run(source, given)
        args: Any = given.get("args", ())
        if given.get("mode") == "calls":
            args = [each for pair in args for each in pair]
        for name, value in (("args", list(args)), ("kwargs", dict(given.get("kwargs") or {}))):
            if not _is_json(value):
                raise InvalidArgument(name, "holds what JSON has not, such as a tuple. engine='own' takes it")
        return program

    async def interrupt(self) -> bool:
        """Stop the cell that runs now, as Ctrl-C would; variables are kept. Whether there was one."""
        if self._id is None:
            return False
        told = await self._connection.post(f"{await self.path()}/interrupt", {})
        return bool(told["interrupted"])

    def pause_output(self) -> None:
        """Do nothing: who reads a stream slower than the program prints holds it back through the connection."""

    def resume_output(self) -> None:
        """Do nothing, as `pause_output`."""

    async def restart(self) -> list[str]:
        """A fresh interpreter with the same files. Files that could not be kept are returned."""
        told = await self._connection.post(f"{await self.path()}/restart", {})
        return [str(each) for each in told["lost_files"]]

    async def checkpoint(self) -> RemoteCheckpoint:
        """Keep the state of this moment. The sandbox goes on. Raises what AsyncSandbox.checkpoint raises."""
        path = await self._branching_path()
        if self._unwanted is None:
            self._unwanted = Unwanted(self._connection)
        await self._unwanted.drop()  # first, because so many may be kept and no more
        made = await self._finished(self._take(f"{path}/checkpoints", self._unwanted), _drop)
        if self._closed:  # meanwhile
            raise SandboxClosed
        return made

    async def _take(self, path: str, unwanted: Unwanted) -> RemoteCheckpoint:
        told = await self._connection.post(path, {})
        made = RemoteCheckpoint(self._connection, f"{path}/{told['checkpoint_id']}", unwanted)
        self._checkpoints.add(made)
        return made

    async def restore(self, checkpoint: RemoteCheckpoint | Checkpoint) -> None:
        """Go back to a checkpoint of this sandbox, which stays. Raises what AsyncSandbox.restore raises."""
        if isinstance(checkpoint, Checkpoint):
            raise InvalidArgument("checkpoint", "is one of a sandbox of this process")
        if not isinstance(checkpoint, RemoteCheckpoint):
            raise InvalidArgument("checkpoint", f"must be a Checkpoint, not of type {type(checkpoint).__name__}")
        if checkpoint.gone:
            raise CheckpointLost(checkpoint.gone)
        if checkpoint not in self._checkpoints:
            raise InvalidArgument("checkpoint", "is one of another sandbox")
        await checkpoint.ask("POST", "/restore")

    async def undo(self, n: int = 1) -> None:
        """Go back to the state before the last run, or the n-th last. Raises what AsyncSandbox.undo raises."""
        check_count(n)
        await self._connection.post(f"{await self._branching_path()}/undo", {"n": n})

    async def fork(self, n: int) -> list[RemoteSandbox]:
        """Make n sandboxes there that begin with the state of this one. Raises what AsyncSandbox.fork raises.

        They are held as this one is. Each is to be closed by itself.
        """
        check_count(n, most=MOST_FORKS)
        return await self._finished(self._fork(f"{await self._branching_path()}/fork", n), _close_all)

    async def _fork(self, path: str, count: int) -> list[RemoteSandbox]:
        told = await self._connection.post(path, {"n": count})
        forks = [RemoteSandbox(self._connection, **self._given) for _ in told["sandboxes"]]
        try:
            for fork, each in zip(forks, told["sandboxes"], strict=True):
                fork._is(each)
            await asyncio.gather(*(fork._begin_hold() for fork in forks))
        except BaseException:
            await _close_all(forks)
            raise
        return forks

    async def _finished(self, work: Coroutine[Any, Any, T], give_back: Callable[[T], Awaitable[None]]) -> T:
        """The result of `work`, which the server carries out also where nobody waits for it: then it is given back."""
        task = self._kept(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._kept(_given_back(task, give_back))
            raise

    def _kept(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A task of it that is not collected before its end."""
        task = asyncio.create_task(work)
        self._going_on.add(task)
        task.add_done_callback(self._going_on.discard)
        return task

    async def _branching_path(self) -> str:
        """Where the server has it, if that server knows how to copy sandboxes."""
        path = await self.path()
        if not self._can_branch:
            raise InvalidArgument("branching", OLDER)
        return path

    async def close(self) -> None:
        """End it. A server that is gone has ended it already."""
        self._closed = True
        for each in list(self._checkpoints):
            each.let_go("its sandbox was closed")
        await self._delete()
        for process in self.processes.values():
            process.end_with_sandbox()
        self._let_go()

    async def _delete(self) -> None:
        made, self._id = self._id, None
        if made is not None:
            with contextlib.suppress(ServerUnreachable, ServerRefused):
                await self._connection.ask("DELETE", f"/v1/sandboxes/{made}")

    async def path(self) -> str:
        """Where the server has it; it is made if it is not there yet.

        Raises:
            SandboxClosed: It was closed.
        """
        if self._closed:
            raise SandboxClosed
        async with self._making:
            if self._id is None:
                self._is(await self._connection.create(self._asked))
                await self._begin_hold()
        return f"/v1/sandboxes/{self._id}"

    def _is(self, told: Mapping[str, Any]) -> None:
        """Be the sandbox that a server tells of."""
        self._id, self._can_branch = str(told["sandbox_id"]), "branching" in told

    async def _begin_hold(self) -> None:
        """Let it live for as long as this object does, where sandboxes of this connection do."""
        if self._connection.hold:
            try:
                await self._hold(f"/v1/sandboxes/{self._id}/hold")
            except GroundboxError:
                await self._delete()  # one that is not held is not there for the next call, either
                raise

    async def _hold(self, path: str) -> None:
        """Begin to read the stream that keeps it alive, which goes on until it is closed or collected."""
        begun = asyncio.Event()
        reading = asyncio.create_task(_read_to_its_end(self._connection, path, begun))
        self._let_go = weakref.finalize(self, _cancel, asyncio.get_running_loop(), reading)
        await begun.wait()
        if reading.done():
            reading.result()  # what is not held must not be taken for held

    async def start(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bool = True,
        pty: tuple[int, int] | None = None,
        tag: str | None = None,
        shell: bool = True,
    ) -> RemoteProcess:
        """Start a program that lives beside the runs that follow. Takes the arguments of AsyncSandbox.start."""
        asked = {"cwd": cwd, "env": None if env is None else dict(env), "stdin": stdin, "pty": pty, "tag": tag}
        told = command if isinstance(command, str) else list(command)
        body = {"command": told, "shell": shell, **{name: value for name, value in asked.items() if value is not None}}
        process = RemoteProcess(self, await self._connection.post(f"{await self.path()}/processes", body))
        self._started[process.pid] = process
        return process

    @property
    def processes(self) -> dict[int, RemoteProcess]:
        """The processes that this object started, and whose end it has not seen, by `pid`."""
        self._started = {pid: each for pid, each in self._started.items() if each.exit is None}
        return dict(self._started)

    async def events(self, path: str) -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
        """Kinds and data of the events that a `GET` about this sandbox is answered with."""
        async with contextlib.aclosing(self._connection.told("GET", await self.path() + path)) as all_:
            async for event in all_:
                yield event

    async def ask(self, method: str, path: str, **request: Any) -> Reply:
        """One request about this sandbox."""
        return await self._connection.ask(method, await self.path() + path, **request)


class RemoteFiles:
    """The workdir of one sandbox. Paths are relative to it, with `/` between the parts. See AsyncFiles."""

    def __init__(self, sandbox: RemoteSandbox) -> None:
        self._sandbox = sandbox

    async def write(self, path: str, data: bytes | str, *, mode: int = 0o644) -> None:
        """Put a file in; folders above it are made, a file that is there is replaced."""
        content = content_of(path, data)
        await self._sandbox.ask("PUT", f"/files/{check_path('path', path)}", body=content, query={"mode": f"{mode:o}"})

    async def put(self, source: str | os.PathLike[str], path: str | None = None) -> None:
        """Copy a file of this machine, or a folder with all regular files in it, into the workdir."""
        source = Path(source)
        target = source.resolve().name if path is None else path
        if source.is_dir():
            await self.mkdir(target)
            for file in sorted(source.rglob("*")):
                if file.is_file() and not file.is_symlink():
                    await self.put(file, f"{target}/{file.relative_to(source).as_posix()}")
            return
        try:
            data, mode = source.read_bytes(), 0o755 if os.access(source, os.X_OK) else 0o644
        except OSError as error:
            raise InvalidArgument("file", f"{source}: {error.strerror}") from None
        await self.write(target, data, mode=mode)

    async def mkdir(self, path: str) -> None:
        """Make a folder, and those above it."""
        await self._sandbox.ask("PUT", f"/folders/{path}")

    async def remove(self, path: str) -> None:
        """Remove a file, or a folder with all in it."""
        await self._sandbox.ask("DELETE", f"/files/{path}")

    async def read(self, path: str) -> bytes:
        """The bytes of one file."""
        return (await self._sandbox.ask("GET", f"/files/{path}")).body

    async def list(self) -> dict[str, int]:
        """Every regular file in the workdir, path to size in bytes."""
        return dict((await self._sandbox.ask("GET", "/files")).json()["files"])


class RemoteGuestFiles:
    """Files as the programs of one sandbox see them. See AsyncGuestFiles."""

    def __init__(self, sandbox: RemoteSandbox) -> None:
        self._sandbox = sandbox

    async def workdir(self) -> str:
        """The absolute path of the workdir."""
        return str(await self._order("workdir", ".", "path"))

    async def read(self, path: str, *, most_bytes: int | None = None) -> bytes:
        """The bytes of a regular file, the first `most_bytes` of them."""
        return (await self._ask("read", path)).body[:most_bytes]

    async def write(self, path: str, data: bytes | str, *, mode: int | None = None) -> None:
        """Put a file in; folders above it are made, one that is there is overwritten."""
        coded = {"base64": base64.b64encode(content_of(path, data)).decode("ascii")}
        await self._ask("write", path, data=coded, mode=mode)

    async def mkdir(self, path: str) -> None:
        """Make a folder, and those above it; one that is there is fine."""
        await self._ask("mkdir", path)

    async def remove(self, path: str) -> None:
        """Remove a file, or a folder with all in it; of a link, the link."""
        await self._ask("remove", path)

    async def stat(self, path: str) -> Entry:
        """The file, folder or other thing that a path leads to."""
        return Entry(**await self._order("stat", path, "entry"))

    async def exists(self, path: str) -> bool:
        """Whether a path leads anywhere."""
        return bool(await self._order("exists", path, "exists"))

    async def list(self, path: str = ".") -> Entries:
        """Entries of one folder, by name."""
        told = (await self._ask("list", path)).json()
        return Entries([Entry(**each) for each in told["entries"]], told["left_out"])

    async def realpath(self, path: str) -> str:
        """The absolute path that a path leads to; what is missing stays as it is written."""
        return str(await self._order("realpath", path, "path"))

    async def _order(self, op: str, path: str, name: str) -> Any:
        return (await self._ask(op, path)).json()[name]

    async def _ask(self, op: str, path: str, **more: Any) -> Reply:
        body = json.dumps({"op": op, "path": path, **more}).encode()
        return await self._sandbox.ask("POST", "/guest-files", body=body)


async def _given_back(task: asyncio.Task[T], give_back: Callable[[T], Awaitable[None]]) -> None:
    """Wait for what nobody waits for any more, and give it back if it comes."""
    with contextlib.suppress(GroundboxError):
        await give_back(await task)


async def _drop(checkpoint: RemoteCheckpoint) -> None:
    checkpoint.drop()


async def _close_all(forks: Sequence[RemoteSandbox]) -> None:
    for each in forks:
        await each.close()


async def _read_to_its_end(connection: Connection, path: str, begun: asyncio.Event) -> None:
    """Read a stream that says nothing. Why a server ends it, the next request is told; a refusal is raised."""
    try:
        async with contextlib.aclosing(connection.read(path)) as parts:
            async for _ in parts:
                begun.set()
    except GroundboxError:
        if not begun.is_set():
            raise
    finally:
        begun.set()


def _cancel(loop: asyncio.AbstractEventLoop, task: asyncio.Task[None]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed, and its connections with it
        loop.call_soon_threadsafe(task.cancel)


def _nothing() -> None:
    """What there is to let go before there is anything."""


async def asked(transport: Transport, method: str, path: str, **request: Any) -> Reply:
    """One request, repeated while the server says to come later, for two minutes.

    Raises:
        GroundboxError: The exception that a local call would raise, where the server tells it by its code; else
            ServerRefused.
    """
    headers = dict(request.pop("headers", None) or {})
    if method == "POST":
        headers.setdefault("Idempotency-Key", secrets.token_hex(16))
    begun = asyncio.get_running_loop().time()
    while True:
        reply = await transport.request(method, path, headers=headers, **request)
        if reply.status < 400:
            return reply
        refused = refusal_in(reply)
        wait_s = getattr(refused, "retry_after_s", None)
        left_s = _BUSY_S - (asyncio.get_running_loop().time() - begun)
        comes_later = reply.status == 429 or getattr(refused, "code", "") in _NOTHING_BEGAN
        if not comes_later or wait_s is None or wait_s > left_s:
            raise refused
        await asyncio.sleep(min(wait_s, _LONGEST_WAIT_S) * (0.5 + secrets.randbelow(1000) / 1000))


def refusal_in(reply: Reply) -> GroundboxError:
    """The exception that a refusal is here."""
    told = reply.json()
    error = told.get("error") if isinstance(told, dict) else None
    if not isinstance(error, dict) or not isinstance(error.get("code"), str):
        return ServerUnreachable(f"an answer of status {reply.status} is none of groundbox's")
    return refusal_of(reply.status, error)


def sandbox_json(given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a sandbox as the server takes them."""
    told: dict[str, Any] = {}
    for name in ("environment", "profile", "hash_seed", "inspect", "restart"):
        if given.get(name) is not None:
            told[name] = given[name]
    if given.get("mounts"):
        told["mounts"] = list(given["mounts"])
    if env := checked_variables(given.get("env")):
        told["env"] = env
    told |= {name: given[name] for name in ("branching", "undo", "rollback") if given.get(name)}
    limits: Limits | None = given.get("limits")
    if limits is not None:
        told["limits"] = {name: value for name, value in dataclasses.asdict(limits).items() if value is not None}
        unlimited = [name for name, value in dataclasses.asdict(limits).items() if value is None]
        if unlimited:
            raise InvalidArgument(unlimited[0], "may not be unlimited on a server; name a number")
    network: Network | None = given.get("network")
    if network is not None and not network.off:
        if network.private_ranges:
            raise InvalidArgument("private_ranges", "are the server's network, and not for its clients to open")
        told["network"] = {
            "allow": list(network.allow),
            "loopback": network.loopback,
            "headers": {host: dict(headers) for host, headers in network.headers.items()},
        }
    return told


def program_json(source: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """A program with its arguments as the server takes them.

    Raises:
        InvalidArgument: An argument is none, or cannot be sent.
    """
    if not isinstance(source, str):
        raise InvalidArgument("source", f"must be text, not of type {type(source).__name__}")
    told: dict[str, Any] = {"code": source}
    for name, value in given.items():
        if value is None or (name in options.DEFAULTS and value == options.DEFAULTS[name] and name != "stdin"):
            continue
        if name == "stdin" and isinstance(value, bytes | bytearray):
            value = {"base64": base64.b64encode(value).decode("ascii")}
        elif name == "trace" and not isinstance(value, bool):
            raise InvalidArgument("trace", "takes True on a server, with the usual options")
        elif name in ("argv", "args"):
            value = list(value)
        elif name == "database":
            raise InvalidArgument("database", _HERE_ONLY["databases"])
        if name in options.RUN:
            told[name] = value
        else:
            told.setdefault("options", {})[name] = value
    return told


def event_of(kind: str, data: Mapping[str, Any]) -> Event:
    """One event of a stream that is not its end."""
    if kind == "display":
        display_id, updates = data.get("display_id"), bool(data.get("updates"))
        return Event(kind="display", display=Display(data=data["display"]), display_id=display_id, updates=updates)
    return Event(kind=kind, text=data["text"], waits=bool(data.get("waits")))


def _is_json(value: object) -> bool:
    """Return True if a value is the same on the other side of JSON."""
    kind = type(value)
    if isinstance(value, list) and kind is list:
        return all(map(_is_json, value))
    if isinstance(value, dict) and kind is dict:
        return all(type(name) is str for name in value) and all(map(_is_json, value.values()))
    if isinstance(value, int) and kind is int:
        return -_EXACT < value < _EXACT
    return value is None or kind in (bool, str) or (isinstance(value, float) and math.isfinite(value))
