"""Ray executor: shards on the machines of a Ray cluster, or on a cluster of this machine's own.

Theory of operation. The driver, which is the process of the build, places each shard itself: on the machine that has
the most room, by a hard affinity, because it has to leave out machines that would write other bytes, to know where a
shard is, and to hear of a machine's death from more than Ray. A shard is one Ray task of one processor. Ray's worker
processes stay for the build, and each keeps one copy of the work and one event loop, so that the templates of its
sandboxes are started once.

Before its first shard, and once more with each, a worker process (`groundbox.dataset.worker`) says which groundbox,
Python and environment it has; a machine with others, or without a sandbox, is not used, and `tell` is told so.

A task that fails is one of two things. Either its process died while its machine answers: that counts against the
shard, which is taken for the cause after `_MOST_DEATHS` times. Or the machine is lost: it is gone from Ray's list, or
does not answer a small task for `_SILENT_S`; then its shards go elsewhere, whatever becomes of the tasks there. A cut
network may leave these at work, which is harmless: a shard gives the same part, and the first one is taken. A shard
that takes longer than `deadline_s` is given to a second machine for the same reason. Where nothing is done for
`stall_s`, or no machine can be used for `_ALONE_S`, the build ends and says what was where; it can be resumed.

Ray's head is asked for its list of machines every `_LOOK_S`. Machines go on for a while without it, and then end; so a
build that is not done when the head has not answered for `_SILENT_S` ends and says so. Ray's own calls wait for a head
that is gone, and would end this process: they are made in threads that nobody has to wait for (`beside`).

What is not covered: the death of the machine that the driver or Ray's head runs on. The build is then started again.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from groundbox.dataset.executor import (
    DEADLINE_S,
    DIED,
    STALL_S,
    LocalExecutor,
    Shard,
    ShardFailed,
    WorkerDied,
    part_of,
)
from groundbox.dataset.processes import Answer, Pickled, beside
from groundbox.dataset.ray_connection import CONNECTION, need
from groundbox.dataset.worker import DEFAULT, Greeting, Identity, greet, identity, serve
from groundbox.errors import GroundboxError, SandboxUnavailable

_PROGRAMS_AT_ONCE: Final = 2
"""Of a worker process: while one starts or is read, the other computes."""
_MOST_DEATHS: Final = 3
_MOST_LOSSES: Final = 20
"""Machines that a shard may lose before the build is ended: something else is wrong then."""
_COPIES: Final = 2
"""Machines that are at one shard at the same time."""
_LOOK_S: Final = 1.0
_PING_S: Final = 5.0
_SILENT_S: Final = 30.0
_ALONE_S: Final = 60.0
_GREETING_S: Final = 120.0
_FAREWELL_S: Final = 15.0
"""For Ray to leave the cluster, which waits for its head."""
_T = TypeVar("_T")


class FleetFailed(GroundboxError):
    """No machine carries out shards any more, or nothing comes of it. What is done stays; the build can be resumed."""

    program_ran = True


class _Died(Exception):
    """The process that was at a shard ended."""


class _Lost(Exception):
    """A shard came to nothing through no fault of its own."""


@dataclasses.dataclass(eq=False, kw_only=True)
class _Machine:
    """One node of the cluster.

    Attributes:
        refused: Why it is not used, or "".
        away: Why it is not used now, or "".
        heard: When it last answered.
        ping: Under way, if one is.
    """

    id: str
    name: str
    processors: int
    refused: str = ""
    away: str = ""
    greeted: bool = False
    heard: float = dataclasses.field(default_factory=time.monotonic)
    under_way: set[_Attempt] = dataclasses.field(default_factory=set)
    ping: asyncio.Task[None] | None = None

    @property
    def used(self) -> bool:
        return self.greeted and not self.refused and not self.away

    @property
    def slots(self) -> int:
        """One shard for each processor, and one to follow."""
        return self.processors + 1 if self.used and self.processors else 0


@dataclasses.dataclass(eq=False, kw_only=True)
class _Attempt:
    """One task."""

    shard: Shard
    machine: _Machine
    ref: Any
    since: float
    lost: asyncio.Future[None]


class RayExecutor:
    """See the module. Belongs to the event loop in which it is used first."""

    def __init__(
        self,
        address: str | None = None,
        *,
        workers: int | None = None,
        deadline_s: float = DEADLINE_S,
        stall_s: float = STALL_S,
        environment: str = DEFAULT,
        tell: Callable[[str], None] = lambda words: None,
    ) -> None:
        """Join a cluster, or start one on this machine.

        Args:
            address: `HOST:PORT` of the cluster's head, or `auto`; this machine has to be one of it. None starts one. A
                process that Ray started, or that has joined the cluster, uses it as it is.
            workers: Processors of the one that is started.
            deadline_s: Wall seconds after which a shard is given to a second machine as well.
            stall_s: Wall seconds without any shard done, after which the build ends.
            environment: Name of the one that programs import from, which has to be the same on all machines.
            tell: Is told, in a sentence, what a person should know.

        Raises:
            ExtraMissing: Ray is not installed.
            InvalidArgument: There is no cluster at the address.
            FleetFailed: No machine of it can be used.
        """
        self.deadline_s, self.stall_s, self._tell = deadline_s, stall_s, tell
        self._identity = identity(environment)
        self._ray = CONNECTION.joined(address, workers or len(os.sched_getaffinity(0)))
        self._affinity = need("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
        self._serve, self._greet = self._ray.remote(serve), self._ray.remote(greet)
        self._here = str(self._ray.get_runtime_context().get_node_id())
        self._machines: dict[str, _Machine] = {}
        self._watching: asyncio.Task[None] | None = None
        self._room: asyncio.Event | None = None
        self._broken: GroundboxError | None = None
        self._done_at = self._usable_at = self._listed_at = time.monotonic()
        self._pickled = Pickled()
        self._spent_s = self._told_s = 0.0
        self._closed = False
        try:
            self._begin()
        except BaseException:
            CONNECTION.left()
            raise

    @property
    def capacity(self) -> int:
        """See Executor.capacity: what the machines that are used have room for."""
        return max(1, sum(each.slots for each in self._machines.values()))

    @property
    def workers(self) -> int:
        """See Executor.workers: of one worker process, which is what the work is made for."""
        return _PROGRAMS_AT_ONCE

    def spent_s(self) -> float:
        """See Executor.spent_s: of the worker processes that run programs."""
        since, self._told_s = self._spent_s - self._told_s, self._spent_s
        return since

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy is for a worker process, which computes by itself."""
        return functools.partial(LocalExecutor, 1, hosts=1), ()

    async def close(self) -> None:
        """See Executor.close. Leaves the cluster, if no other executor of this process is in it and Ray did not start
        the process; a cluster that was started here ends. Idempotent.
        """
        if self._closed:
            return
        self._closed = True
        tasks = [each.ping for each in self._machines.values() if each.ping] + [self._watching]
        for task in tasks:
            if task is not None:
                task.cancel()
        await asyncio.gather(*(task for task in tasks if task is not None), return_exceptions=True)
        with contextlib.suppress(TimeoutError):  # its head is gone, and the cluster with it
            await _within(_FAREWELL_S, beside(CONNECTION.left))

    # Machines

    def _begin(self) -> None:
        """Greet what is there, before anything is begun."""
        self._note(self._ray.nodes())
        greetings = {each: self._asked(each) for each in self._machines.values()}
        self._ray.wait(list(greetings.values()), num_returns=len(greetings), timeout=_GREETING_S)
        for machine, ref in greetings.items():
            try:
                self._take(machine, self._ray.get(ref, timeout=0.1))
            except Exception as error:
                self._refuse(machine, _first_line(error))
        if not any(each.used for each in self._machines.values()):
            raise FleetFailed(f"no machine of the cluster can be used: {self._why_not()}")

    def _note(self, nodes: Iterable[Mapping[str, Any]]) -> None:
        """Take note of machines that are new, and of those that Ray has given up."""
        self._listed_at = time.monotonic()
        alive = {node["NodeID"]: node for node in nodes if node["Alive"]}
        for id, node in alive.items():
            processors = int(node["Resources"].get("CPU", 0))
            if id not in self._machines and processors:
                name = f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']}, {id[:8]})"
                self._machines[id] = _Machine(id=id, name=name, processors=processors)
        for machine in [each for each in self._machines.values() if each.id not in alive]:
            self._leave(machine, "Ray says that it is dead")
            del self._machines[machine.id]

    def _asked(self, machine: _Machine) -> Any:
        """A greeting, which takes no processor of the machine's shards."""
        options = {"num_cpus": 0, "max_retries": 0, "scheduling_strategy": self._on(machine)}
        return self._greet.options(**options).remote(self._identity.of)

    def _on(self, machine: _Machine) -> Any:
        return self._affinity(machine.id, soft=False)

    def _take(self, machine: _Machine, greeting: Greeting) -> None:
        """Use a machine, or not."""
        again, machine.greeted, machine.heard = machine.greeted, True, time.monotonic()
        if differences := self._identity.differences(greeting.identity):
            self._refuse(machine, differences)
        elif greeting.lacking:
            self._refuse(machine, f"no sandbox can be made there: {greeting.lacking}")
        elif machine.away:
            machine.away = ""
            self._tell(f"{machine.name} answers again")
        elif not again and greeting.niceness > os.nice(0):
            self._tell(
                f"{machine.name} runs Ray's workers at niceness {greeting.niceness}, behind whatever else it does; "
                "RAY_worker_niceness=0 before `ray start` mends that"
            )
        self._wake()

    def _refuse(self, machine: _Machine, why: str) -> None:
        if not machine.refused:
            machine.greeted, machine.refused = True, why
            self._tell(f"{machine.name} is not used: {why}")

    def _leave(self, machine: _Machine, why: str) -> None:
        """Use a machine no more until it answers, and give its shards to others."""
        if not machine.away:
            machine.away = why
            names = sorted(f"{each.shard.stage} shard {each.shard.number}" for each in machine.under_way)
            again = f"{', '.join(names)}: done again elsewhere" if names else "it was at no shard"
            self._tell(f"{machine.name} is not used any more: {why}; {again}")
        for attempt in machine.under_way:
            if not attempt.lost.done():
                attempt.lost.set_result(None)

    def _why_not(self) -> str:
        told = [
            f"{each.name}: {each.refused or each.away or 'it has not answered'}" for each in self._machines.values()
        ]
        return "; ".join(told) or "it has none with a processor"

    async def _watch(self) -> None:
        """Look after machines and the time until the build is over or cannot go on; nobody then waits for a shard."""
        try:
            await self._look_after()
        except Exception as error:  # of any kind: without it, nothing would end what hangs
            self._broken = FleetFailed(f"the machines cannot be looked after: {_first_line(error)}")
        for attempt in self._under_way():
            if not attempt.lost.done():
                attempt.lost.set_result(None)
        self._wake()

    async def _look_after(self) -> None:
        listing = beside(self._ray.nodes)
        while self._broken is None:
            await asyncio.sleep(_LOOK_S)
            if listing.done():
                if listing.exception() is None:  # whatever Ray raises of a head that is busy: it is asked again
                    self._note(listing.result())
                listing = beside(self._ray.nodes)
            for machine in list(self._machines.values()):
                self._look_at(machine)
            self._broken = self._stuck()

    def _look_at(self, machine: _Machine) -> None:
        silent_s = time.monotonic() - machine.heard
        if machine.refused:
            return
        if (machine.ping is None or machine.ping.done()) and (silent_s > _PING_S or not machine.greeted):
            machine.ping = asyncio.create_task(self._pinged(machine))
        if silent_s > _SILENT_S and machine.id != self._here and machine.greeted:
            self._leave(machine, f"it has not answered for {silent_s:.0f} s")

    async def _pinged(self, machine: _Machine) -> None:
        try:
            self._take(machine, await asyncio.wrap_future(self._asked(machine).future()))
        except asyncio.CancelledError:
            raise
        except Exception as error:
            if machine.greeted:
                await asyncio.sleep(_LOOK_S)  # it may be dead, which Ray has not seen yet: asked again
            else:
                self._refuse(machine, _first_line(error))

    def _stuck(self) -> GroundboxError | None:
        """Why the build cannot go on, or None."""
        now = time.monotonic()
        if now - self._listed_at > _SILENT_S:
            return FleetFailed(
                f"Ray's head has not answered for {now - self._listed_at:.0f} s. "
                "Start Ray again on all machines; the same command then goes on"
            )
        if any(each.used for each in self._machines.values()):
            self._usable_at = now
        if now - self._usable_at > _ALONE_S:
            return FleetFailed(f"no machine could be used for {_ALONE_S:.0f} s: {self._why_not()}")
        under_way = self._under_way()
        if under_way and now - self._done_at > self.stall_s:
            where = "; ".join(
                f"{each.shard.stage} shard {each.shard.number} on {each.machine.name} for {now - each.since:.0f} s"
                for each in sorted(under_way, key=lambda each: each.since)
            )
            return FleetFailed(f"nothing was done for {self.stall_s:.0f} s: {where}")
        return None

    def _under_way(self) -> list[_Attempt]:
        return [attempt for machine in self._machines.values() for attempt in machine.under_way]

    # Shards

    async def run(self, work: Any, shard: Shard) -> Any:
        """See Executor.run."""
        if self._watching is None:
            self._done_at = self._usable_at = self._listed_at = time.monotonic()
            self._room = asyncio.Event()
            self._watching = asyncio.create_task(self._watch())
        data = self._pickled.of(work)
        attempts: dict[asyncio.Task[Answer], _Attempt] = {}
        deaths, losses = 0, 0
        try:
            while True:
                if not attempts:
                    self._start(attempts, await self._place(), data, shard)
                done, _ = await asyncio.wait(attempts, timeout=self.deadline_s, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    self._start_again(attempts, data, shard)
                for task in done:
                    machine = attempts.pop(task).machine
                    try:
                        return self._part(shard, machine, task.result())
                    except _Died:
                        deaths += 1
                    except _Lost as lost:
                        losses += 1
                        if losses > _MOST_LOSSES:
                            raise ShardFailed(shard, f"it was lost {losses} times, last: {lost}") from None
                    if deaths >= _MOST_DEATHS:
                        raise WorkerDied(shard, f"{DIED}, {deaths} times")
        finally:
            for task in attempts:
                task.cancel()
            await asyncio.gather(*attempts, return_exceptions=True)

    compute = run

    async def _place(self, besides: frozenset[_Machine] = frozenset()) -> _Machine:
        """The machine with the most room, once there is one."""
        assert self._room is not None
        while True:
            if self._broken is not None:
                raise self._broken
            if (machine := self._roomy(besides)) is not None:
                return machine
            self._room.clear()
            await self._room.wait()

    def _roomy(self, besides: frozenset[_Machine]) -> _Machine | None:
        fit = [each for each in self._machines.values() if len(each.under_way) < each.slots and each not in besides]
        return min(fit, key=lambda each: len(each.under_way) / each.processors, default=None)

    def _wake(self) -> None:
        if self._room is not None:
            self._room.set()

    def _start(
        self,
        attempts: dict[asyncio.Task[Answer], _Attempt],
        machine: _Machine,
        data: bytes,
        shard: Shard,
    ) -> None:
        if not self._under_way():
            self._done_at = time.monotonic()  # nothing was to be done meanwhile, as between the batches of a trainer
        options = self._serve.options(
            num_cpus=1, max_retries=0, scheduling_strategy=self._on(machine), name=f"{shard.stage}-{shard.number}"
        )
        attempt = _Attempt(
            shard=shard,
            machine=machine,
            ref=options.remote(self._identity, data, shard),
            since=time.monotonic(),
            lost=asyncio.get_running_loop().create_future(),
        )
        machine.under_way.add(attempt)
        attempts[asyncio.create_task(self._answered(attempt))] = attempt

    def _start_again(self, attempts: dict[asyncio.Task[Answer], _Attempt], data: bytes, shard: Shard) -> None:
        """Give a late shard to another process as well, where there is room; best on another machine."""
        where = frozenset(each.machine for each in attempts.values())
        machine = self._roomy(where) or self._roomy(frozenset())
        if len(attempts) >= _COPIES or machine is None:
            return
        since = min(each.since for each in attempts.values())
        self._tell(
            f"{shard.stage} shard {shard.number} is late: on {', '.join(each.name for each in where)} for "
            f"{time.monotonic() - since:.0f} s; {machine.name} gets it as well"
        )
        self._start(attempts, machine, data, shard)

    async def _answered(self, attempt: _Attempt) -> Answer:
        """What comes of a task.

        Raises:
            _Died: Its process ended, and its machine lives.
            _Lost: Its machine is lost, or what it made.
        """
        errors, machine = self._ray.exceptions, attempt.machine
        answer = asyncio.wrap_future(attempt.ref.future())
        answer.add_done_callback(lambda it: it.cancelled() or it.exception())  # also where nobody waits any more
        try:
            await asyncio.wait((answer, attempt.lost), return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                if self._broken is not None:
                    raise self._broken
                raise _Lost(f"{machine.name}: {machine.away}")
            found: Answer = answer.result()
            machine.heard = self._done_at = time.monotonic()
            return found
        except (errors.WorkerCrashedError, errors.OutOfMemoryError) as error:
            await self._lives(machine, error)
            raise _Died from None
        except errors.RayTaskError as error:
            raise ShardFailed(attempt.shard, f"{machine.name}: {_first_line(error)}") from None
        except errors.RayError as error:
            await self._lives(machine, error)
            raise _Lost(f"{machine.name}: {_first_line(error)}") from None
        finally:
            machine.under_way.discard(attempt)
            self._wake()
            if not answer.done():
                beside(functools.partial(self._ray.cancel, attempt.ref, force=False))

    async def _lives(self, machine: _Machine, error: Exception) -> None:
        """See that a machine answers, on which a task failed. Ray itself takes its time to say that one is dead.

        Raises:
            _Lost: It does not.
        """
        asked = time.monotonic()
        try:
            self._take(machine, await _within(_SILENT_S, asyncio.wrap_future(self._asked(machine).future())))
        except (TimeoutError, self._ray.exceptions.RayError):
            # Another task may have found it answering meanwhile.
            if machine.heard < asked:
                self._leave(machine, f"a task failed there ({_first_line(error)}), and it does not answer")
            raise _Lost(f"{machine.name}: {machine.away or _first_line(error)}") from None

    def _part(self, shard: Shard, machine: _Machine, answer: Answer) -> Any:
        """What an answer brings.

        Raises:
            _Lost: It brings none, for its machine's sake.
            Exception: What the work raised.
        """
        self._spent_s += answer.cpu_s
        if isinstance(answer.error, Identity):
            self._refuse(machine, self._identity.differences(answer.error))
        elif isinstance(answer.error, SandboxUnavailable):
            self._refuse(machine, str(answer.error))
        else:
            return part_of(shard, answer)
        raise _Lost(f"{machine.name}: {machine.refused}")


def _first_line(error: BaseException) -> str:
    """The sentence of an error that says what it was."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    if not lines:
        return repr(error)
    # A task's error is a traceback, whose last line says what it was.
    line = lines[-1].strip() if "Traceback" in str(error) else lines[0].strip()
    first, full, _ = line.partition(". ")
    return f"{type(error).__name__}: {first}{full.strip()}"


async def _within(seconds: float, work: Awaitable[_T]) -> _T:
    async with asyncio.timeout(seconds):
        return await work
