"""The synchronous face: every method of the asynchronous one, carried out on one background event loop."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from concurrent.futures import Future, wait
from typing import Any, Final, TypeVar

from groundbox.execution import Event, Execution
from groundbox.sandbox import languages
from groundbox.sandbox.sandbox import AsyncSandbox

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
        """The background loop."""
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


class Files:
    """The files of a sandbox; see AsyncFiles and AsyncGuestFiles."""

    def __init__(self, files: Any) -> None:
        self._files = files

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._files, name)

        @functools.wraps(method)
        def call(*arguments: Any, **options: Any) -> Any:
            return PORTAL.call(method(*arguments, **options))

        return call


class Sandbox:
    """Runs programs in one jailed process tree; variables and files stay until it is closed.

    The same as AsyncSandbox, for code without an event loop. Safe to use from several threads;
    runs of one sandbox follow one another.
    """

    def __init__(self, **options: Any) -> None:
        """Takes the arguments of AsyncSandbox."""
        self._sandbox: AsyncSandbox = PORTAL.call(_make(options))
        self.files = Files(self._sandbox.files)
        self.guest_files = Files(self._sandbox.guest_files)

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sandbox, name)

    @property
    def asynchronous(self) -> AsyncSandbox:
        """What this is the face of. It belongs to the portal's loop: await it through `PORTAL` only."""
        return self._sandbox

    def run(self, source: str, **options: Any) -> Execution:
        """See AsyncSandbox.run."""
        return PORTAL.call(self._sandbox.run(source, **options))

    def stream(self, source: str, **options: Any) -> Generator[Event, None, None]:
        """See AsyncSandbox.stream. Closing the iterator cancels the run."""
        events = self._sandbox.stream(source, **options)
        try:
            while True:
                try:
                    yield PORTAL.call(_next(events))
                except StopAsyncIteration:
                    return
        finally:
            if not sys.is_finalizing():  # the loop's thread no longer runs then
                PORTAL.call(_close(events))

    def interrupt(self) -> None:
        """See AsyncSandbox.interrupt."""
        PORTAL.loop().call_soon_threadsafe(self._sandbox.interrupt)

    def restart(self) -> list[str]:
        """See AsyncSandbox.restart."""
        return PORTAL.call(self._sandbox.restart())

    def close(self) -> None:
        """See AsyncSandbox.close."""
        PORTAL.call(self._sandbox.close())


def run(source: str, **options: Any) -> Execution:
    """Run one program in one fresh sandbox and return what happened.

    Takes the arguments of AsyncSandbox and of AsyncSandbox.run, and `files`: path in the workdir to content.
    """
    return PORTAL.call(run_async(source, **options))


_RUN_OPTIONS = frozenset(
    {"language", "mode", "argv", "stdin", "filename", "call", "args", "kwargs", "trace"},
)


async def run_async(source: str, *, files: dict[str, bytes | str] | None = None, **options: Any) -> Execution:
    """The same for code with an event loop."""
    options.setdefault("profile", None)
    of_language = languages.option_names(languages.find(options.get("language", "python")))
    run_options = {name: options.pop(name) for name in (_RUN_OPTIONS | of_language) & options.keys()}
    if files and options["profile"] is None:
        options["profile"] = "science"
    sandbox = AsyncSandbox(**options)
    try:
        for path, data in (files or {}).items():
            await sandbox.files.write(path, data)
        return await sandbox.run_last(source, **run_options)
    finally:
        await sandbox.close()


async def _make(options: dict[str, Any]) -> AsyncSandbox:
    return AsyncSandbox(**options)


async def _next(events: AsyncGenerator[Event, None]) -> Event:
    return await anext(events)


async def _close(events: AsyncGenerator[Event, None]) -> None:
    await events.aclose()
