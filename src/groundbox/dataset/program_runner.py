"""Runs a program on an input: the one place where the dataset meets the sandbox."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import Any, Final, Protocol

from groundbox.dataset.cpu_time import CpuMeter
from groundbox.dataset.executor import Executor, Shard, WorkerDied, is_this_process
from groundbox.dataset.item import Answer, Fault
from groundbox.dataset.problem import ABSENT, Case
from groundbox.dataset.processes import Slots
from groundbox.errors import SandboxLost
from groundbox.execution import Execution
from groundbox.guest.python import chance
from groundbox.limits import KiB, Limits, MiB
from groundbox.sandbox.portal import run_async
from groundbox.sandbox.sandbox import AsyncSandbox
from groundbox.trace.record.reading import Trace
from groundbox.trace_options import TraceOptions
from groundbox.values.codec import RESULT_MIME
from groundbox.values.literals import text_of

MEMORY_BYTES: Final = 512 * MiB
TRACED_MEMORY_BYTES: Final = 1024 * MiB
"""More than untraced: the records are charged to the guest."""
OUTPUT_BYTES: Final = 64 * KiB
FILL: Final = 0x41
"""Of nothing but this byte, a number is one that is seen: float64 2261634.5, float32 12.08, int64 4.7e18, text "AAAA".

Their sums and products stay finite, none of them is zero or rounds to it, and a truth value of it is true.
"""
UNTOLD: Final = "untold"
"""In place of what a program drew, where it has broken what would have told it."""
_CHANCE: Final = "from groundbox.guest.python.chance import arm, told\n"
# The wall clock only ends programs that wait; a loaded machine must not change what is in a dataset.
_WALL_FACTOR: Final = 6.0
_WALL_MORE_S: Final = 10.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """A run that is asked for.

    Attributes:
        entry: Function to call with the case's arguments, or None to run the source as a script.
        cpu_s: Processor seconds after which it is stopped.
        probed: Whether memory that nobody has written to holds FILL, and, of a run that is not traced, what the
            program draws from chance and the clock is told.
    """

    source: str
    entry: str | None
    case: Case
    hash_seed: int
    traced: bool
    cpu_s: float
    probed: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunResult:
    """Result of a run.

    Attributes:
        outcome: As `groundbox.Outcome` has it.
        dropped_bytes: Of what it wrote; 0 when all is here.
        trace: When it was asked for and the program began.
        drawn: What the program drew from, where that was asked for: words of `groundbox.guest.python.chance.KINDS`, as
            the guest told them, or UNTOLD.
    """

    outcome: str
    answer: Answer
    dropped_bytes: int
    cpu_s: float
    trace: Trace | None
    drawn: tuple[str, ...] = ()


class Runner(Protocol):
    """Runs programs. Safe to be called many times at once."""

    async def run(self, request: Request) -> RunResult:
        """Run one program to its end or to a limit.

        Raises:
            GroundboxError: The sandbox failed, not the program.
        """


def same(one: Answer, other: Answer) -> bool:
    """Tell whether two runs gave the same, to the last bit. The text of an exception's message counts, too."""
    return _plain(one) == _plain(other)


def _plain(answer: Answer) -> tuple[Any, ...]:
    fault = answer.fault
    # By `repr`: == takes 1 for True and 0.0 for -0.0, and no NaN for another.
    return repr(answer.value), answer.stdout, None if fault is None else (fault.type, fault.message, fault.line)


class MeteredRunner:
    """Has another runner run programs, and adds up what that costs."""

    def __init__(self, runner: Runner, meter: CpuMeter) -> None:
        self._runner, self._meter = runner, meter

    async def run(self, request: Request) -> RunResult:
        """See Runner.run."""
        ran = await self._runner.run(request)
        self._meter.cpu_s += ran.cpu_s
        return ran


class ExecutedRunner:
    """Has each program run by an executor, for work that stays in this process, as what waits for a model does.

    Args:
        runner: Of the machine that runs a program.
    """

    def __init__(self, runner: Runner, executor: Executor) -> None:
        self._runner, self._executor = runner, executor
        self._work, self._numbers = functools.partial(_run, runner), itertools.count()

    async def run(self, request: Request) -> RunResult:
        """See Runner.run. A program that ends each process that runs it has lost its sandbox, too."""
        if is_this_process(self._executor):
            return await self._runner.run(request)
        shard = Shard(stage="program", number=next(self._numbers), payload=request)
        try:
            return await self._executor.run(self._work, shard)
        except WorkerDied as died:
            raise SandboxLost(died.reason) from None


async def _run(runner: Runner, shard: Shard) -> RunResult:
    return await runner.run(shard.payload)


class SandboxRunner:
    """Runs each program in a fresh sandbox of this machine.

    Args:
        at_once: How many run at the same time.
        options: How much of a traced run is recorded.
    """

    def __init__(self, *, at_once: int, options: TraceOptions | None = None) -> None:
        self._slots = Slots(at_once)
        self._options = options or TraceOptions()

    async def run(self, request: Request) -> RunResult:
        """See Runner.run."""
        # Before a sandbox is asked for, so that no more workers are started than run.
        async with self._slots:
            if request.probed:
                # Two calls more, which is why only builds that have to be stable pay for it.
                return await self._probed(request)
            execution = await run_async(request.source, engine="own", **self._arguments(request))
        return _ran(execution)

    async def _probed(self, request: Request) -> RunResult:
        """A run between two calls of the guest's own: one before the program, and one that asks what it drew."""
        given = self._arguments(request)
        box = AsyncSandbox(**{name: given.pop(name) for name in ("hash_seed", "limits", "inspect")})
        async with box:
            # Traced as the run is, since the first run of a sandbox decides whether its process knows the tracer.
            how = {"fill": FILL, "watch": not request.traced}
            armed = await box.run(_CHANCE, mode="call", call="arm", kwargs=how, trace=given["trace"])
            if not armed.ok:
                raise SandboxLost(f"it was not ready for the program: {armed.error and armed.error.message}")
            execution = await box.run(request.source, **given)
            # A sandbox that was lost with its program cannot be asked any more.
            if request.traced or execution.state != "kept":
                return _ran(execution)
            told = await box.run_last(_CHANCE, mode="call", call="told")
        return dataclasses.replace(_ran(execution), drawn=_drawn(told))

    def _arguments(self, request: Request) -> dict[str, Any]:
        case = request.case
        if request.entry is None:
            how: dict[str, Any] = {"mode": "script", "stdin": case.stdin or ""}
        else:
            # Lists and dicts are handed over as they are; the program cannot change ours.
            how = {"mode": "call", "call": request.entry, "args": list(case.args), "kwargs": dict(case.kwargs)}
        limits = Limits(
            cpu_s=request.cpu_s,
            wall_s=_WALL_FACTOR * request.cpu_s + _WALL_MORE_S,
            memory_bytes=TRACED_MEMORY_BYTES if request.traced else MEMORY_BYTES,
            output_bytes=OUTPUT_BYTES,
        )
        trace = self._options if request.traced else False
        return {**how, "hash_seed": request.hash_seed, "limits": limits, "trace": trace, "inspect": False}


def _drawn(told: Execution) -> tuple[str, ...]:
    value = (told.value or {}).get(RESULT_MIME)
    words = value.get("list") if isinstance(value, dict) else None
    return tuple(kind for kind in chance.KINDS if kind in words) if isinstance(words, list) else (UNTOLD,)


def _ran(execution: Execution) -> RunResult:
    failure = execution.error
    fault = None if failure is None else Fault(type=failure.type, message=failure.message, line=failure.line)
    value = (execution.value or {}).get(RESULT_MIME, ABSENT)
    told = value is not ABSENT
    answer = Answer(
        value=value if told else None, text=text_of(value) if told else "", stdout=execution.stdout, fault=fault
    )
    return RunResult(
        outcome=execution.outcome.value,
        answer=answer,
        dropped_bytes=execution.dropped_bytes["stdout"] + execution.dropped_bytes["stderr"],
        # None where the kernel did not tell.
        cpu_s=execution.usage.cpu_s or 0.0,
        trace=execution.trace,
    )
