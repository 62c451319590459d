"""The synchronous face: every method of the asynchronous one, carried out on one background event loop."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import os
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import Any, Concatenate, Final, NoReturn, ParamSpec, SupportsIndex, TypeVar, Unpack

from groundbox.execution import Event, Execution
from groundbox.limits import Limits
from groundbox.network import Network
from groundbox.sandbox import languages, options
from groundbox.sandbox.files import AsyncFiles
from groundbox.sandbox.guestfiles import AsyncGuestFiles
from groundbox.sandbox.process import AsyncProcess, Chunk, Exit
from groundbox.sandbox.sandbox import AsyncSandbox, expect_one_run
from groundbox.suggestions import refuse_unknown

P = ParamSpec("P")
T = TypeVar("T")

_LOOK_FOR_SIGNALS_S: Final = 0.1


class Portal:
    """A daemon thread with an event loop, started at the first use and once more after a fork."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal's handler may ask for the loop while its own thread does
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Carry out `work` on the loop and wait for it. Ctrl-C cancels it and is raised once it has ended."""
        future, cancel = self._start(work)
        try:
            return _result_or_signal(future)
        except BaseException:
            # What comes next may need what `work` still holds: a generator that runs cannot be closed.
            cancel()
            wait([future])
            raise

    async def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """The same for code on another event loop. Who is cancelled while waiting goes on once `work` has ended."""
        future, cancel = self._start(work)
        waiting = asyncio.wrap_future(future)
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            cancel()
            while not waiting.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([waiting])
            waiting.cancelled() or waiting.exception()  # taken note of, because nobody asks any more
            raise

    def _start(self, work: Coroutine[Any, Any, T]) -> tuple[Future[T], Callable[[], object]]:
        """What comes of it, and how to cancel it."""
        loop = self.loop()
        future: Future[T] = Future()
        tasks: list[asyncio.Task[T]] = []

        def start() -> None:
            tasks.append(loop.create_task(work))
            tasks[0].add_done_callback(functools.partial(_hand_over, future))

        loop.call_soon_threadsafe(start)
        return future, lambda: loop.call_soon_threadsafe(lambda: tasks[0].cancel())

    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the background loop. A finaliser or a signal handler takes no lock here: the loop exists by then."""
        loop = self._loop
        if loop is not None and self._pid == os.getpid():
            return loop
        with self._lock:
            if self._loop is None or self._pid != os.getpid():
                self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
                threading.Thread(target=self._loop.run_forever, name="groundbox", daemon=True).start()
            return self._loop


def _result_or_signal(future: Future[T]) -> T:
    """The result; or what a signal's handler raises meanwhile.

    Waiting for a lock is not interrupted by a signal that another thread received, nor by one that came
    in the moment before the wait began: CPython runs handlers between instructions of the main thread only.
    """
    while not future.done():
        with contextlib.suppress(TimeoutError):
            return future.result(_LOOK_FOR_SIGNALS_S)
    return future.result()


def _hand_over(future: Future[T], task: asyncio.Task[T]) -> None:
    if task.cancelled():
        future.set_exception(asyncio.CancelledError())
    elif (error := task.exception()) is not None:
        future.set_exception(error)
    else:
        future.set_result(task.result())


PORTAL = Portal()


def blocking(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """The method for a class whose `asynchronous` has it as a coroutine: the same arguments, awaited by the portal."""

    name = method.__name__

    def call(self: Any, /, *arguments: P.args, **options: P.kwargs) -> T:
        work: Coroutine[Any, Any, T] = getattr(self.asynchronous, name)(
            *arguments, **options
        )  # of one on a server, too
        return PORTAL.call(work)

    call.__name__, call.__doc__ = method.__name__, method.__doc__
    call.__qualname__ = method.__qualname__.removeprefix("Async")
    call.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]
    return call


class _Events(Generator[Event, None, None]):
    """The events of one run, for code without an event loop.

    This is not a generator function: its `finally` would run in the garbage collector and wait there for the loop,
    whose own thread may be the one that collects.
    """

    def __init__(self, events: AsyncGenerator[Event, None]) -> None:
        self._events = events
        self._is_over = False

    def send(self, value: None) -> Event:
        if self._is_over:
            raise StopIteration
        try:
            return PORTAL.call(_next(self._events))
        except StopAsyncIteration:
            self._is_over = True
            raise StopIteration from None
        except BaseException:
            self.close()
            raise

    def throw(self, *error: Any) -> Event:
        self.close()
        return super().throw(*error)

    def close(self) -> None:
        if not self._is_over and not sys.is_finalizing():  # the loop's thread no longer runs then
            self._is_over = True
            PORTAL.call(_close(self._events))

    def __del__(self) -> None:
        if not self._is_over and not sys.is_finalizing():
            PORTAL.loop().call_soon_threadsafe(_begin, functools.partial(_close, self._events))


class Process:
    """One program that was started in a sandbox. See AsyncProcess."""

    def __init__(self, process: AsyncProcess) -> None:
        self.asynchronous = process

    def __repr__(self) -> str:
        return repr(self.asynchronous).replace("AsyncProcess", type(self).__name__, 1)

    @property
    def command(self) -> str | tuple[str, ...]:
        """As it was asked for."""
        return self.asynchronous.command

    @property
    def tag(self) -> str | None:
        """The caller's own name for it."""
        return self.asynchronous.tag

    @property
    def pid(self) -> int:
        """As the programs of its sandbox see it."""
        return self.asynchronous.pid

    @property
    def exit(self) -> Exit | None:
        """How it ended; None as long as it lives."""
        return self.asynchronous.exit

    read = blocking(AsyncProcess.read)
    write = blocking(AsyncProcess.write)
    close_stdin = blocking(AsyncProcess.close_stdin)
    wait = blocking(AsyncProcess.wait)

    def output(self) -> Generator[Chunk, None, None]:
        """Yield what it writes as it comes, until it has ended. See AsyncProcess.output."""
        while (chunk := self.read()) is not None:
            yield chunk

    def signal(self, number: int) -> None:
        """Send a signal to its process group. See AsyncProcess.signal."""
        PORTAL.call(_do(self.asynchronous.signal, number))

    def kill(self) -> None:
        """End it and all that descends from it."""
        PORTAL.call(_do(self.asynchronous.kill))

    def resize(self, *, rows: int, columns: int) -> None:
        """Tell its terminal another size."""
        PORTAL.call(_do(self.asynchronous.resize, rows=rows, columns=columns))


class Files:
    """The workdir of one sandbox. Paths are relative to it, with `/` between the parts. See AsyncFiles."""

    def __init__(self, files: AsyncFiles) -> None:
        self.asynchronous = files

    write = blocking(AsyncFiles.write)
    put = blocking(AsyncFiles.put)
    mkdir = blocking(AsyncFiles.mkdir)
    remove = blocking(AsyncFiles.remove)
    read = blocking(AsyncFiles.read)
    list = blocking(AsyncFiles.list)


class GuestFiles:
    """Files as the programs of one sandbox see them. Paths are absolute, or relative to the workdir.

    See AsyncGuestFiles.
    """

    def __init__(self, files: AsyncGuestFiles) -> None:
        self.asynchronous = files

    workdir = blocking(AsyncGuestFiles.workdir)
    read = blocking(AsyncGuestFiles.read)
    write = blocking(AsyncGuestFiles.write)
    mkdir = blocking(AsyncGuestFiles.mkdir)
    remove = blocking(AsyncGuestFiles.remove)
    stat = blocking(AsyncGuestFiles.stat)
    exists = blocking(AsyncGuestFiles.exists)
    list = blocking(AsyncGuestFiles.list)
    realpath = blocking(AsyncGuestFiles.realpath)


class Sandbox:
    """Runs programs in one jailed process tree; variables and files stay until it is closed.

    The same as AsyncSandbox, for code without an event loop. Safe to use from several threads;
    runs of one sandbox follow one another.

    Attributes:
        files: The workdir's files.
        guest_files: All files, as the guest's programs see them.
        asynchronous: The AsyncSandbox that this is the face of. It belongs to the portal's loop: await it through
            `PORTAL` only.
    """

    @options.spelled_out(options.SandboxOptions)
    def __init__(self, **given: Unpack[options.SandboxOptions]) -> None:
        self._face(PORTAL.call(_make(given)))

    __init__.__doc__ = AsyncSandbox.__init__.__doc__

    @classmethod
    def of(cls, asynchronous: Any) -> Sandbox:
        """The face of a sandbox that is there already, made on the portal's loop: local or on a server."""
        made = cls.__new__(cls)
        made._face(asynchronous)
        return made

    def _face(self, asynchronous: AsyncSandbox) -> None:
        self.asynchronous = asynchronous
        self.files = Files(asynchronous.files)
        self.guest_files = GuestFiles(asynchronous.guest_files)

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Refuse `copy` and `pickle`: a copy would share descriptors and close them under the other."""
        raise TypeError(
            f"a {type(self).__name__} is a live process, and is neither copied nor pickled; its Executions can be"
        )

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def limits(self) -> Limits:
        """What it may use."""
        return self.asynchronous.limits

    @property
    def network(self) -> Network:
        """What it may reach."""
        return self.asynchronous.network

    run = blocking(AsyncSandbox.run)
    run_last = blocking(AsyncSandbox.run_last)
    restart = blocking(AsyncSandbox.restart)
    checkpoint = blocking(AsyncSandbox.checkpoint)
    restore = blocking(AsyncSandbox.restore)
    undo = blocking(AsyncSandbox.undo)
    close = blocking(AsyncSandbox.close)

    @options.spelled_out(options.StreamOptions)
    def stream(self, source: str, **given: Unpack[options.StreamOptions]) -> Generator[Event, None, None]:
        """Run one program and yield its events as they come; the last one carries the Execution.

        Takes the arguments of `run`, and `last` as AsyncSandbox.stream. Closing the iterator cancels the run and waits
        for its end. An iterator that nobody has any more cancels it without waiting.
        """
        return _Events(self.asynchronous.stream(source, **given))

    def start(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bool = True,
        pty: tuple[int, int] | None = None,
        tag: str | None = None,
        shell: bool = True,
    ) -> Process:
        started = self.asynchronous.start(command, cwd=cwd, env=env, stdin=stdin, pty=pty, tag=tag, shell=shell)
        return Process(PORTAL.call(started))

    start.__doc__ = AsyncSandbox.start.__doc__

    def fork(self, n: int) -> list[Sandbox]:
        return [Sandbox.of(each) for each in PORTAL.call(self.asynchronous.fork(n))]

    fork.__doc__ = AsyncSandbox.fork.__doc__

    @property
    def processes(self) -> dict[int, Process]:
        """The processes that were started and live, by `pid`."""
        return {pid: Process(each) for pid, each in self.asynchronous.processes.items()}

    def interrupt(self) -> None:
        """Stop the cell that runs now, as Ctrl-C would; variables are kept. Does nothing between runs."""
        loop = PORTAL.loop()
        loop.call_soon_threadsafe(_begin, self.asynchronous.interrupt)

    def pause_output(self) -> None:
        """Let the program wait instead of reading what it prints; for a consumer that is slower."""
        PORTAL.loop().call_soon_threadsafe(self.asynchronous.pause_output)

    def resume_output(self) -> None:
        """Read on."""
        PORTAL.loop().call_soon_threadsafe(self.asynchronous.resume_output)


@options.spelled_out(options.OneRunOptions, profile=None)
async def run_async(source: str, **given: Unpack[options.OneRunOptions]) -> Execution:
    """Run one program in one fresh sandbox: `run`, for code with an event loop.

    Args:
        source: The program, at most 8 MiB.
        given: The arguments of `run`.

    Raises:
        GroundboxError: As `run`.
    """
    of_language = languages.option_names(languages.find(given.get("language", "python")))
    refuse_unknown("run()", given, options.ONE_RUN | of_language)
    options.check(given)
    chosen = given.pop("engine", None)
    if chosen != "own":
        from groundbox.remote import background

        if (execution := await background.run(source, given, chosen)) is not None:
            return execution
    files: Mapping[str, bytes | str] = given.pop("files", None) or {}
    for_sandbox: dict[str, Any] = {name: each for name, each in given.items() if name in options.SANDBOX}
    for_run: dict[str, Any] = {name: each for name, each in given.items() if name not in options.SANDBOX}
    wall_s = for_run.get("wall_s")
    if wall_s is not None and for_sandbox.get("limits") is None:
        limits = Limits(wall_s=wall_s)
        for_sandbox["limits"] = Limits(wall_s=wall_s, cpu_s=max(wall_s, limits.cpu_s or wall_s))
    for_sandbox.setdefault("profile", "science" if files else None)
    sandbox = AsyncSandbox(**for_sandbox)
    if not files:
        return await sandbox.run_last(source, **for_run)
    expect_one_run(sandbox)
    try:
        for path, data in files.items():
            await sandbox.files.write(path, data)
        return await sandbox.run_last(source, **for_run)
    finally:
        await sandbox.close()


@options.spelled_out(options.OneRunOptions, profile=None)
def run(source: str, **given: Unpack[options.OneRunOptions]) -> Execution:
    """Run one program in one fresh sandbox and return what happened.

    Args:
        source: The program, at most 8 MiB.
        files: Path in the workdir to content, put there before the program runs.
        limits: What it may use; None for the usual `Limits()`.
        engine: `own` runs it in this process, `background` in the engine that programs and commands of this user share.
            None chooses the engine for all that it can do (docs/serving.md).
        wall_s: Seconds that it may take. Without `limits`, it may be more than the usual, and `cpu_s` grows with it.
        given: All other arguments are those of Sandbox and of Sandbox.run, where they are explained.

    Raises:
        InvalidArgument: An argument cannot be meant; nothing ran. `UnknownArgument`, where there is none of that name.
        LanguageUnavailable: The language is not installed; nothing ran.
        SandboxUnavailable: A layer of the wall cannot stand here; nothing ran.
    """
    return PORTAL.call(run_async(source, **given))


async def _make(given: options.SandboxOptions) -> Any:
    """Make a sandbox of this process, or one in the engine, which has the same methods."""
    refuse_unknown("Sandbox()", given, options.SANDBOX)
    options.check(given)
    if given.pop("engine", None) != "background":
        return AsyncSandbox(**given)
    from groundbox.remote.background import server_for

    server = await server_for("background", given)
    assert server is not None
    return server.AsyncSandbox(**given)


def _begin(call: Callable[[], Any]) -> None:
    """Call a method that may be a coroutine, as that of a sandbox on a server is, and wait for nothing."""
    begun = call()
    if inspect.isawaitable(begun):
        task = asyncio.ensure_future(begun)
        _BEGUN.add(task)
        task.add_done_callback(_BEGUN.discard)


_BEGUN: Final[set[asyncio.Future[Any]]] = set()


async def _do(function: Callable[P, Any], *arguments: P.args, **options: P.kwargs) -> None:
    """Call a function on the loop's thread, which may be a coroutine, as of a process on a server."""
    begun = function(*arguments, **options)
    if inspect.isawaitable(begun):
        await begun


async def _next(events: AsyncGenerator[Event, None]) -> Event:
    return await anext(events)


async def _close(events: AsyncGenerator[Event, None]) -> None:
    await events.aclose()
