"""Hosts: processes that carry out shards which run programs, each with an event loop and sandboxes of its own.

One event loop of Python starts, watches and reads so many sandboxes and no more: with sixteen processors at hand, a
build kept a third of them busy, and five builds beside each other kept all. A host takes several shards at once, since
a shard waits for its programs most of the time, and stays for the build, because its templates take seconds to start.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import multiprocessing
import os
import pickle
import threading
import time
from collections.abc import Awaitable, Callable
from multiprocessing import util
from multiprocessing.connection import Connection
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from groundbox.dataset.processes import begin, starting

Work: TypeAlias = Callable[[Any], Awaitable[Any]]

_END_S: Final = 20.0
"""For its sandboxes to end. One that takes longer is killed, and they with it."""
Result = TypeVar("Result")


class HostDied(Exception):
    """The process of a host ended, and with it what it was at."""


class HostFailed(Exception):
    """A shard failed in a way that cannot be handed over as it is; the text tells it."""


class _Answer(NamedTuple):
    """What a host says of one shard.

    Attributes:
        error: Where it failed: the exception, or its words where it cannot be handed over.
        cpu_s: Processor seconds of the host until now, without its sandboxes.
    """

    number: int
    result: Any
    error: Exception | str | None
    cpu_s: float


class Host:
    """Our end of one of `hosts`. Belongs to the event loop that it is made in.

    Attributes:
        alive: Whether shards can be given to it.
        busy: Shards that it is at.
        cpu_s: Processor seconds that it has spent, without its sandboxes.
    """

    def __init__(self, hosts: int) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would copy this loop's threads and locks as they stand
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, os.getpid(), hosts), name="groundbox-host")
        with starting():
            self._process.start()
        theirs.close()
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._numbers = itertools.count()
        self._sending = threading.Lock()
        self._work: Work | None = None
        self.alive = True
        # At the interpreter's end multiprocessing waits for this process, which waits for us to close the pipe.
        self._at_exit = util.Finalize(None, self._process.terminate, exitpriority=1)
        self.cpu_s = 0.0
        self._listener = threading.Thread(target=self._listen, name="groundbox-host-answers", daemon=True)
        self._listener.start()

    @property
    def busy(self) -> int:
        return len(self._waiting)

    async def run(self, work: Callable[[Any], Awaitable[Result]], shard: Any) -> Result:
        """Have it carry out a shard.

        Args:
            work: Is pickled, and so arrives as a copy; one copy serves all shards until another work comes, so that
                what it holds, such as processes that compute, is there once.

        Raises:
            HostDied: Its process ended first.
            HostFailed: The shard failed.
            Exception: What the work raised.
        """
        if not self.alive:
            raise HostDied("it has ended")
        number = next(self._numbers)
        answered = self._waiting[number] = self._loop.create_future()
        try:
            await asyncio.to_thread(self._send, number, work, shard)
            result: Result = await answered
            return result
        finally:
            self._waiting.pop(number, None)

    async def close(self) -> None:
        """Have it end its sandboxes and itself."""
        self.alive = False
        await asyncio.to_thread(self._end)

    def _send(self, number: int, work: Work, shard: Any) -> None:
        try:
            with self._sending:
                self._ours.send((number, None if work is self._work else work, shard))
                self._work = work
        except OSError as error:
            raise HostDied(str(error)) from error

    def _end(self) -> None:
        with contextlib.suppress(OSError), self._sending:  # it has ended by itself
            self._ours.send(None)
        self._process.join(_END_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._at_exit.cancel()
        self._listener.join()
        self._ours.close()

    def _listen(self) -> None:
        while True:
            try:
                answer = self._ours.recv()
            except (EOFError, OSError):
                answer = None
            try:
                self._loop.call_soon_threadsafe(self._take, answer)
            except RuntimeError:
                return  # the loop is closed: nobody waits
            if answer is None:
                return

    def _take(self, answer: _Answer | None) -> None:
        if answer is None:
            self.alive = False
            for each in self._waiting.values():
                if not each.done():
                    each.set_exception(HostDied("its process ended"))
            return
        self.cpu_s = answer.cpu_s
        waiting = self._waiting.get(answer.number)
        if waiting is None or waiting.done():
            return  # nobody waits for it any more
        if answer.error is None:
            waiting.set_result(answer.result)
        else:
            waiting.set_exception(HostFailed(answer.error) if isinstance(answer.error, str) else answer.error)


def _serve(theirs: Connection, parent: int, hosts: int) -> None:
    begin(parent, hosts)
    asyncio.run(_carry_out_all(theirs))


async def _carry_out_all(theirs: Connection) -> None:
    under_way: set[asyncio.Task[None]] = set()
    sending = asyncio.Lock()
    work: Work | None = None
    while (order := await asyncio.to_thread(_order, theirs)) is not None:
        number, other, shard = order
        work = work if other is None else other
        assert work is not None  # the first order brings it
        task = asyncio.create_task(_carry_out(theirs, sending, number, work, shard))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
    for task in under_way:
        task.cancel()
    await asyncio.gather(*under_way, return_exceptions=True)


def _order(theirs: Connection) -> tuple[int, Work | None, Any] | None:
    try:
        order: tuple[int, Work | None, Any] | None = theirs.recv()
    except (EOFError, OSError):
        return None
    return order


async def _carry_out(theirs: Connection, sending: asyncio.Lock, number: int, work: Work, shard: Any) -> None:
    result: Any = None
    error: Exception | str | None = None
    try:
        result = await work(shard)
    except Exception as raised:
        error = portable(raised)
    async with sending:
        await asyncio.to_thread(theirs.send, _Answer(number, result, error, time.process_time()))


def portable(error: Exception) -> Exception | str:
    """The exception, if pickle gives the same kind again, or what it says."""
    with contextlib.suppress(Exception):  # of any kind: whatever its constructor raises
        if type(pickle.loads(pickle.dumps(error))) is type(error):  # noqa: S301  it was pickled on this line
            return error
    return f"{type(error).__name__}: {error}"
