"""Carries out shards of work: on this machine here, on many elsewhere.

A shard is idempotent: doing it twice gives the same part, so an executor may do it again whenever it is in doubt.
Only the caller of `carry_out` keeps parts; an executor owns nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import multiprocessing
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Final, Protocol, TypeAlias

from groundbox.dataset.store import Store
from groundbox.errors import GroundboxError
from groundbox.jail import credentials

Part: TypeAlias = Mapping[str, bytes]
"""Files by suffix; the last one says that the part is done."""

NEW_OBJECTS: Final = 50_000
"""Containers that a computing process makes before Python looks for cycles among them.

A trace is hundreds of thousands of objects that stay; to look at them after every few hundred new ones, as is usual,
took a third of the time.
"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shard:
    """A numbered piece of a stage's work, as JSON values."""

    stage: str
    number: int
    payload: Any


class ShardFailed(GroundboxError):
    """A shard could not be carried out. What is done stays, and the build can be resumed."""

    program_ran = True

    def __init__(self, shard: Shard, reason: str) -> None:
        super().__init__(f"{shard.stage} shard {shard.number} could not be carried out: {reason}")
        self.shard = shard


class Executor(Protocol):
    """Carries out shards, several at once, in any order."""

    @property
    def capacity(self) -> int:
        """How many shards are worth submitting at once."""

    def compute(self, work: Callable[[Shard], Part], shard: Shard) -> Awaitable[Part]:
        """Carry out a shard of pure computing; `work` can be pickled."""

    def run(self, work: Callable[[Shard], Awaitable[Part]], shard: Shard) -> Awaitable[Part]:
        """Carry out a shard that runs programs."""

    async def close(self) -> None:
        """Stop all that is under way."""


class LocalExecutor:
    """All cores of this machine: processes for computing; for runs one event loop, because the sandboxes are processes.

    Memory is bounded by the number of workers: so many shards are in flight.
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = workers or len(os.sched_getaffinity(0))
        self._pool: ProcessPoolExecutor | None = None

    @property
    def capacity(self) -> int:
        """One shard for each worker, and one to follow."""
        return self.workers + 1

    async def run(self, work: Callable[[Shard], Awaitable[Part]], shard: Shard) -> Part:
        """See Executor.run."""
        return await work(shard)

    async def compute(self, work: Callable[[Shard], Part], shard: Shard) -> Part:
        """See Executor.compute. A shard whose process dies is tried once more, in a process of its own.

        A process that dies takes all shards with it that are under way; alone, it shows which of them it was.
        """
        pool = self._processes()
        with contextlib.suppress(BrokenProcessPool):
            return await _computed(pool, work, shard)
        if self._pool is pool:
            self._pool = None
        with _processes(1) as own, contextlib.suppress(BrokenProcessPool):
            return await _computed(own, work, shard)
        raise ShardFailed(shard, "its process died, as it does when memory runs out")

    async def close(self) -> None:
        """See Executor.close. Waits for what computes, as the interpreter would at its end.

        Left to that, the pool's own thread may close a pipe that the main thread is about to wake it by.
        """
        if self._pool is not None:
            await asyncio.to_thread(self._pool.shutdown, wait=True, cancel_futures=True)

    def _processes(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._pool = _processes(self.workers)
        return self._pool


def _processes(count: int) -> ProcessPoolExecutor:
    # A fork would copy the event loop's threads and locks as they stand.
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(count, mp_context=context, initializer=_begin, initargs=(os.getpid(),))


def _begin(parent: int) -> None:
    """Make this process one that computes for another."""
    _end_with(parent)
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])


def _end_with(parent: int) -> None:
    """Have this process end when its parent does, by whatever signal; it would wait for work for ever.

    Ctrl-C reaches all processes of a terminal, but is meant for the parent alone: this one would show a traceback.
    Until here it was blocked (`_computed`).
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    credentials.die_with_parent()
    if os.getppid() != parent:
        os._exit(1)


async def _computed(pool: ProcessPoolExecutor, work: Callable[[Shard], Part], shard: Shard) -> Part:
    # This may start a process, which imports for a while before it can ignore Ctrl-C; the mask is inherited.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        part = asyncio.get_running_loop().run_in_executor(pool, work, shard)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return await part


async def carry_out(
    shards: Iterable[Shard],
    *,
    submit: Callable[[Shard], Awaitable[Part]],
    capacity: int,
    store: Store,
    marker: str,
) -> AsyncIterator[Shard]:
    """Do the shards that are not done yet and keep their parts; yields each as it is done, the done ones at once.

    Args:
        marker: Suffix of the last file of a part.
    """
    under_way: dict[asyncio.Task[Part], Shard] = {}
    try:
        for shard in shards:
            if store.has(shard.stage, shard.number, marker):
                yield shard
                continue
            under_way[asyncio.ensure_future(_part(submit, shard))] = shard
            if len(under_way) >= capacity:
                async for done in _done(under_way, store):
                    yield done
        while under_way:
            async for done in _done(under_way, store):
                yield done
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


async def _part(submit: Callable[[Shard], Awaitable[Part]], shard: Shard) -> Part:
    return await submit(shard)


async def _done(under_way: dict[asyncio.Task[Part], Shard], store: Store) -> AsyncIterator[Shard]:
    finished, _ = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
    for task in finished:
        shard = under_way.pop(task)
        store.publish(shard.stage, shard.number, task.result())
        yield shard
