"""Carries out shards of work: on this machine here, on many elsewhere.

A shard is idempotent: doing it twice gives the same part, so an executor may do it again whenever it is in doubt.
Only the caller of `carry_out` keeps parts; an executor owns nothing. Parts that need not be kept go through `in_order`.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import dataclasses
import logging
import multiprocessing
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from groundbox.dataset.hosts import Host, HostDied
from groundbox.dataset.part_store import Store
from groundbox.dataset.processes import Answer, Pickled, begin, share, starting
from groundbox.errors import GroundboxError, InvalidArgument

logger = logging.getLogger(__name__)
Part: TypeAlias = Mapping[str, bytes]
"""Files by suffix; the last one says that the part is done. What is to be kept is carried out to one."""
Result = TypeVar("Result")
T = TypeVar("T")
Running: TypeAlias = Callable[["Shard"], Coroutine[Any, Any, Result]]
"""Work that runs programs: carried out here, or pickled and carried out by a host beside others.

A host takes its share of the machine (`groundbox.dataset.processes.Slots`). What comes of it is pickled, too.
"""

DEADLINE_S: Final = 600.0
"""Wall seconds after which a shard on another machine is given to a second process as well."""
STALL_S: Final = 1800.0
"""Wall seconds without any shard done on other machines, after which a build ends."""
_WORKERS_OF_A_HOST: Final = 4
"""Processors that one event loop keeps busy with programs that run for a moment."""
_RAY: Final = "ray"
_MOST_IN_SHARD: Final = 16
_SHARDS_EACH: Final = 2
"""Shards of a list for each that an executor takes at once, so that no machine has long nothing left to do."""
_WINDOW: Final = 4
"""Shards that are begun and not handed on yet, for each that an executor takes at once: an early one may be late."""
DIED: Final = "its process died, as it does when memory runs out"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shard:
    """A numbered piece of a stage's work. Its payload can be pickled, and is all that the work needs beside itself."""

    stage: str
    number: int
    payload: Any


class ShardFailed(GroundboxError):
    """A shard could not be carried out. What is done stays, and the build can be resumed."""

    program_ran = True

    def __init__(self, shard: Shard, reason: str) -> None:
        super().__init__(f"{shard.stage} shard {shard.number} could not be carried out: {reason}")
        self.shard, self.reason = shard, reason


class WorkerDied(ShardFailed):
    """A shard whose process died each time that it was tried, so that it is taken for the cause."""


class Divisible(Protocol[Result]):
    """Work of which a shard can be cut, so that what ends its process is found and costs itself alone."""

    def pieces(self, shard: Shard, /) -> Sequence[Shard]:
        """The least shards of which this one consists, in order."""

    def joined(self, found: Sequence[Result], /) -> Result:
        """The result of a shard, of those of its pieces."""

    def given_up(self, piece: Shard, reason: str, /) -> Result:
        """The result of a piece that cannot be carried out: all that is in it is dropped."""


class Listwise(abc.ABC):
    """Work that runs programs for a list: a value for each entry of its payload, which hangs on that entry alone.

    It is `Divisible`.
    """

    @abc.abstractmethod
    async def __call__(self, shard: Shard) -> list[Any]:
        """Carry out a shard."""

    @abc.abstractmethod
    def lost(self, entry: Any, reason: str) -> Any:
        """Return the value of an entry that ends each process in which it is worked on."""

    def pieces(self, shard: Shard) -> list[Shard]:
        """See Divisible.pieces: an entry each."""
        return [dataclasses.replace(shard, payload=[each]) for each in shard.payload]

    def joined(self, found: Sequence[list[Any]]) -> list[Any]:
        """See Divisible.joined."""
        return [each for part in found for each in part]

    def given_up(self, piece: Shard, reason: str) -> list[Any]:
        """See Divisible.given_up."""
        return [self.lost(each, reason) for each in piece.payload]


async def values_of(work: Listwise, entries: Sequence[Any], executor: Executor, *, stage: str) -> list[Any]:
    """The values of a `Listwise` work for these entries, in their order, whoever carries it out.

    Raises:
        ShardFailed: One could not be carried out.
    """
    if is_this_process(executor):
        return await work(Shard(stage=stage, number=0, payload=list(entries))) if entries else []
    size = max(1, min(_MOST_IN_SHARD, -(-len(entries) // (_SHARDS_EACH * executor.capacity))))
    shards = (
        Shard(stage=stage, number=number, payload=list(entries[at : at + size]))
        for number, at in enumerate(range(0, len(entries), size))
    )
    async with contextlib.aclosing(run_in_order(shards, work, executor)) as results:
        return [each async for _, found in results for each in found]


def run_in_order(
    shards: Iterable[Shard], work: Listwise, executor: Executor
) -> AsyncGenerator[tuple[Shard, list[Any]], None]:
    """Have an executor run shards, and those of which a process dies in pieces; see `in_order`."""
    return in_order(
        shards,
        submit=lambda shard: quarantining(lambda each: executor.run(work, each), work, shard),
        capacity=lambda: executor.capacity,
    )


def is_this_process(executor: Executor) -> bool:
    """Tell whether an executor runs programs in this process, so that nothing is handed over."""
    return isinstance(executor, LocalExecutor) and executor.hosts == 1


class Executor(Protocol):
    """Carries out shards, several at once, in any order."""

    @property
    def capacity(self) -> int:
        """How many shards are worth submitting at once; it may change."""

    @property
    def workers(self) -> int:
        """How many programs a runner of this executor's work should run at once."""

    def compute(self, work: Callable[[Shard], Result], shard: Shard) -> Awaitable[Result]:
        """Carry out a shard of pure computing; `work` and what comes of it can be pickled."""

    def run(self, work: Running[Result], shard: Shard) -> Awaitable[Result]:
        """Carry out a shard that runs programs."""

    def spent_s(self) -> float:
        """Processor seconds of other event loops than this process's since this was asked last."""

    async def close(self) -> None:
        """Stop all that is under way."""


def named(
    name: str,
    *,
    workers: int | None = None,
    environment: str = "default",
    tell: Callable[[str], None] = lambda words: None,
    deadline_s: float = DEADLINE_S,
    stall_s: float = STALL_S,
) -> Executor:
    """The executor of a name: `local`, `ray` for a cluster of this machine's own, or `ray://HOST:PORT`.

    Args:
        workers: Processors of this machine to use; None for all.
        environment: See RayExecutor.
        tell: Is told, in a sentence, what a person should know.

    Raises:
        InvalidArgument: There is none of this name, or no cluster at the address.
        ExtraMissing: Ray is wanted, and not installed.
        FleetFailed: No machine of the cluster can be used.
    """
    check_name(name, workers)
    if name == "local":
        return LocalExecutor(workers)
    from groundbox.dataset.ray_executor import RayExecutor

    address = name.partition("://")[2] or None
    return RayExecutor(
        address, workers=workers, environment=environment, tell=tell, deadline_s=deadline_s, stall_s=stall_s
    )


def check_name(name: str, workers: int | None = None) -> None:
    """Refuse what `named` would refuse without a look at any cluster.

    Raises:
        InvalidArgument: There is no executor of this name, or it takes no number of workers.
    """
    kind, colon, address = name.partition("://")
    if name != "local" and (kind != _RAY or bool(colon) != bool(address)):
        raise InvalidArgument("--executor", f"takes local, ray or ray://HOST:PORT, and not {name!r}")
    if address != "auto" and address and not address.rpartition(":")[2].isdecimal():
        raise InvalidArgument("--executor", f"takes ray://HOST:PORT, and {name!r} has no port")
    if address and workers:
        raise InvalidArgument("--workers", "is for this machine; those of a cluster are where it was started")


class LocalExecutor:
    """All cores of this machine: processes for computing; for runs this event loop, or several hosts on many cores.

    Memory is bounded by the number of workers: so many shards are in flight.
    """

    def __init__(self, workers: int | None = None, *, hosts: int | None = None) -> None:
        """Args:
        hosts: Event loops for what runs programs; 1 is this one. By default one for each four workers.
        """
        self.workers = workers or len(os.sched_getaffinity(0))
        self.hosts = hosts or -(-self.workers // _WORKERS_OF_A_HOST)
        self._pool: ProcessPoolExecutor | None = None
        self._hosts: list[Host] = []
        self._pickled = Pickled()
        self._told_s = 0.0

    @property
    def capacity(self) -> int:
        """One shard for each worker, and one to follow."""
        return self.workers + 1

    async def run(self, work: Running[Result], shard: Shard) -> Result:
        """See Executor.run. A shard whose host dies is tried once more, by a host that does nothing else."""
        if self.hosts == 1:
            return await work(shard)
        data = self._pickled.of(work)
        result: Result
        with contextlib.suppress(HostDied):
            result = part_of(shard, await self._host().run(data, shard))
            return result
        alone = Host(self.hosts)
        try:
            result = part_of(shard, await alone.run(data, shard))
            return result
        except HostDied:
            raise WorkerDied(shard, DIED) from None
        finally:
            await alone.close()
            self._hosts.append(alone)

    def spent_s(self) -> float:
        """See Executor.spent_s."""
        total = sum(each.cpu_s for each in self._hosts)
        since, self._told_s = total - self._told_s, total
        return since

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy is for a host, which computes with its share of the workers."""
        return _executor_of_host, (self.workers,)

    def _host(self) -> Host:
        """The one that has least to do; a new one, where there are too few that live."""
        alive = [each for each in self._hosts if each.alive]
        if len(alive) < self.hosts:
            self._hosts.append(Host(self.hosts))
            return self._hosts[-1]
        return min(alive, key=lambda each: each.busy)

    async def compute(self, work: Callable[[Shard], Result], shard: Shard) -> Result:
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
        raise WorkerDied(shard, DIED)

    async def close(self) -> None:
        """See Executor.close. Waits for what computes, as the interpreter would at its end.

        Left to that, the pool's own thread may close a pipe that the main thread is about to wake it by.
        """
        await asyncio.gather(*(each.close() for each in self._hosts))
        if self._pool is not None:
            await asyncio.to_thread(self._pool.shutdown, wait=True, cancel_futures=True)

    def _processes(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._pool = _processes(self.workers)
        return self._pool


def part_of(shard: Shard, answer: Answer) -> Any:
    """What an answer brings.

    Raises:
        ShardFailed: The work failed in a way that cannot be handed over as it is.
        Exception: What the work raised.
    """
    if answer.error is None:
        return answer.part
    raise answer.error if isinstance(answer.error, Exception) else ShardFailed(shard, answer.error)


def _executor_of_host(workers: int) -> LocalExecutor:
    return LocalExecutor(share(workers), hosts=1)


def _processes(count: int) -> ProcessPoolExecutor:
    # A fork would copy the event loop's threads and locks as they stand.
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(count, mp_context=context, initializer=begin, initargs=(os.getpid(),))


async def _computed(pool: ProcessPoolExecutor, work: Callable[[Shard], Result], shard: Shard) -> Result:
    with starting():
        result = asyncio.get_running_loop().run_in_executor(pool, work, shard)
    return await result


def carry_out(
    shards: Iterable[Shard],
    *,
    submit: Callable[[Shard], Awaitable[Part]],
    capacity: Callable[[], int],
    store: Store,
) -> AsyncGenerator[tuple[Shard, None], None]:
    """Do the shards that are not done yet and keep their parts; yields each as it is done. See `as_done`."""

    async def kept(shard: Shard) -> None:
        if not store.has(shard.stage, shard.number):
            await store.keep(shard.stage, shard.number, await submit(shard))

    return as_done(shards, submit=kept, capacity=capacity)


async def in_order(
    shards: Iterable[Shard], *, submit: Callable[[Shard], Awaitable[Result]], capacity: Callable[[], int]
) -> AsyncGenerator[tuple[Shard, Result], None]:
    """Do shards, and yield each with its result, in the order in which they were given. See `as_done`."""
    early: dict[int, tuple[Shard, Result]] = {}
    due = 0

    def room() -> int:
        return min(capacity(), _WINDOW * capacity() - len(early))

    numbered = as_done(enumerate(shards), submit=lambda each: submit(each[1]), capacity=room)
    async with contextlib.aclosing(numbered) as done:
        async for (number, shard), result in done:
            early[number] = shard, result
            while due in early:
                yield early.pop(due)
                due += 1


async def as_done(
    entries: Iterable[T], *, submit: Callable[[T], Awaitable[Result]], capacity: Callable[[], int]
) -> AsyncGenerator[tuple[T, Result], None]:
    """Do something for each entry, several at once, and yield each with its result as it is done.

    Args:
        capacity: How many to submit at once; is asked again before each.
    """
    under_way: dict[asyncio.Future[Result], T] = {}
    try:
        for entry in entries:
            under_way[asyncio.ensure_future(submit(entry))] = entry
            while len(under_way) >= capacity():
                for done in await _any_done(under_way):
                    yield done
        while under_way:
            for done in await _any_done(under_way):
                yield done
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


async def _any_done(under_way: dict[asyncio.Future[Result], T]) -> list[tuple[T, Result]]:
    """Wait until one is done at least, and take those that are out."""
    finished, _ = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
    entries = [under_way.pop(task) for task in finished]
    errors = [task.exception() for task in finished]  # of all of them, or asyncio tells of the others as forgotten
    for error in errors:
        if error is not None:
            raise error
    return [(entry, task.result()) for entry, task in zip(entries, finished, strict=True)]


async def quarantining(submit: Callable[[Shard], Awaitable[Result]], work: Divisible[Result], shard: Shard) -> Result:
    """Carry out a shard. Where it ends its process, its pieces one after the other; those that still do are given up.

    Args:
        submit: Carries out a shard, or raises WorkerDied.
    """
    try:
        return await submit(shard)
    except WorkerDied as died:
        pieces = work.pieces(shard)
        if len(pieces) < 2:
            logger.warning("%s; what is in it is dropped", died)
            return work.joined([work.given_up(piece, died.reason) for piece in pieces])
        logger.warning("%s; its %d pieces are tried one after the other", died, len(pieces))
    return work.joined([await quarantining(submit, work, piece) for piece in pieces])
