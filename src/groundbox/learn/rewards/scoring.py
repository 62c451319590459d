"""Scoring: the work of rewards, on programs and answers that were read out of completions.

A unit of it is plain data, so that it can be done in this process or by an executor on other machines, once or twice,
with the same reward. What a unit's result hangs on is the unit and the settings of the scoring alone.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

from groundbox.dataset.executor import Executor, Listwise, Shard, WorkerDied
from groundbox.dataset.problem import WORKER_DIED, Problem, Provenance
from groundbox.dataset.problem import Case as ProblemCase
from groundbox.dataset.processes import Slots
from groundbox.dataset.tasks import checking
from groundbox.dataset.tasks.moments import literal_text
from groundbox.dataset.tasks.task import Lines
from groundbox.errors import GroundboxError, InvalidArgument, SandboxLost
from groundbox.execution import Outcome
from groundbox.learn.evaluation.judging import CANNOT_RUN, Case, Judge, Tests, tried
from groundbox.learn.rewards.step_truth import StepTruth
from groundbox.limits import Limits
from groundbox.sandbox.outcome import may_be_killed_by_others
from groundbox.sandbox.sandbox import AsyncSandbox
from groundbox.trace.record import schema
from groundbox.trace.record.reading import Trace
from groundbox.trace.run.structure import Step
from groundbox.values import literals
from groundbox.values.equal import equal_as_json, identical
from groundbox.values.literals import NotALiteral

Reward = float | None
STAGE: Final = "rewards"


class Run(NamedTuple):
    """A call of a program that is recorded.

    Attributes:
        args: JSON of the form that `literals.encode` gives a list of arguments.
    """

    source: str
    call: str
    args: str


class Unit(NamedTuple):
    """Work on one completion. Two with the same key have the same reward.

    Attributes:
        kind: A key of the table `_Court._rewards`.
        given: Its arguments.
    """

    kind: str
    key: Any
    given: tuple[Any, ...]


class Scored(NamedTuple):
    """Result of a unit.

    Attributes:
        why: Why there is no reward.
        failed: Whether that is because a sandbox failed, or a process that scored.
    """

    reward: Reward
    why: str = ""
    failed: bool = False


class NoReward(Exception):
    """Nothing can be said of a completion; the message says why."""


class Deadly(Exception):
    """A completion ends each process that holds its steps against the record."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """What decides rewards, beside the units.

    Attributes:
        limits: Of each call of a program, and of tests and runs.
        options: Of the sandboxes.
        partial: Whether the reward of `cases` is the share of cases that are right.
    """

    limits: Limits
    options: Mapping[str, Any]
    partial: bool
    step_truth: StepTruth


class Scoring(Listwise):
    """Work for `Executor.run`: units in, `Scored` out. In one process, `score` does it without an executor."""

    def __init__(self, settings: Settings, executor: Executor, *, at_once: int) -> None:
        """Args:
        executor: Of the process that scores; it holds steps against records.
        at_once: Units that one process is at at the same time.
        """
        self._settings, self._executor, self._gate = settings, executor, Slots(at_once)

    async def __call__(self, shard: Shard) -> list[Scored]:
        """See Executor.run."""
        settings = self._settings
        async with Judge(limits=settings.limits, options=settings.options) as judge:
            return await score(shard.payload, settings, judge, self._gate, self._executor)

    def lost(self, entry: Unit, reason: str) -> Scored:
        """See Listwise.lost: nothing is known of what ends each process that looks at it."""
        return Scored(None, f"{WORKER_DIED}: {reason}", failed=True)


async def score(
    units: Sequence[Unit],
    settings: Settings,
    judge: Judge,
    gate: asyncio.Semaphore,
    executor: Executor | None = None,
) -> list[Scored]:
    """Do units in this process, in their order; a run that several are about is recorded once.

    Args:
        executor: Holds steps against records; None where no unit has steps.

    Raises:
        InvalidArgument: A unit cannot be meant.
        SandboxUnavailable, EnvironmentFailed: Nothing can be run on this machine.
    """
    court = _Court(settings, judge, executor)

    async def one(unit: Unit) -> Scored:
        async with gate:
            try:
                return Scored(await tried(lambda: court.reward(unit)))
            except NoReward as why:
                return Scored(None, str(why))
            except Deadly as why:
                return Scored(None, f"{WORKER_DIED}: {why}", failed=True)
            except CANNOT_RUN:
                raise
            except (GroundboxError, OSError) as error:
                return Scored(None, f"a sandbox failed: {type(error).__name__}: {error}", failed=True)

    tasks = [asyncio.ensure_future(one(unit)) for unit in units]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Paying:
    """Work for `Executor.compute`: the payload is a text and a trace; the result is the reward."""

    def __init__(self, step_truth: StepTruth) -> None:
        self._step_truth = step_truth

    def __call__(self, shard: Shard) -> float:
        """See Executor.compute."""
        return self._step_truth.of_text(*shard.payload)


class _Court:
    """Does the units of one batch."""

    def __init__(self, settings: Settings, judge: Judge, executor: Executor | None) -> None:
        self._settings, self._judge, self._executor = settings, judge, executor
        self._runs: dict[Run, asyncio.Future[Trace | None]] = {}
        self._paying = Paying(settings.step_truth)

    async def reward(self, unit: Unit) -> float:
        """The reward of a unit.

        Raises:
            NoReward: There is none.
            Deadly: Whoever reads its steps dies of them.
            GroundboxError: A sandbox failed.
        """
        return await self._rewards[unit.kind](self, *unit.given)

    async def _tests(self, tests: Tests, program: str) -> float:
        verdict = await self._judge.judge(tests, program)
        if verdict.reason == "tests":
            raise NoReward(f"tests of {tests.entry_point} do not run: {verdict.detail}")
        return float(verdict.passed)

    async def _cases(self, program: str, entry: str, cases: Sequence[Case]) -> float:
        partial = self._settings.partial
        verdict = await self._judge.judge_cases(program, entry, cases, equal=equal_as_json, stop_early=not partial)
        return verdict.share if partial else float(verdict.passed)

    async def _answer(self, answer: str, check: Mapping[str, Any]) -> float:
        return float(checking.right(check, answer))

    async def _call(self, answer: str, check: Mapping[str, Any], source: Any, entry: Any) -> float:
        """An answer that is a call has to give the wanted value when it is run."""
        if not isinstance(source, str) or not isinstance(entry, str):
            raise InvalidArgument("check", "is of the kind call, which needs the columns source and entry")
        case = checking.case_of(answer, _problem(source, entry))
        if case is None:
            return 0.0
        try:
            wanted = literals.parse(check["value"])
        except NotALiteral:
            raise NoReward("the value of a check is no literal") from None
        asked = Case(args=case.args, kwargs=case.kwargs, expected=wanted)
        try:
            verdict = await self._judge.judge_cases(source, entry, [asked], equal=identical)
        except InvalidArgument:  # the model's arguments are none that a sandbox can be given
            return 0.0
        return float(verdict.passed)

    async def _fact(self, answer: str, question: Mapping[str, Any], run: Run) -> float:
        trace = await self._recorded(run)
        wanted = None if trace is None else fact_of(trace, question)
        if wanted is None:
            raise NoReward(f"the record has no answer to {dict(question)}")
        return float(checking.right({"kind": "value", "value": wanted}, answer))

    async def _steps(self, text: str, run: Run) -> float:
        trace = await self._recorded(run)
        if trace is None or not trace.complete:
            raise NoReward(f"the run of {run.call} is not recorded whole")
        assert self._executor is not None
        shard = Shard(stage=STAGE, number=0, payload=(text, trace))
        try:
            return float(await self._executor.compute(self._paying, shard))
        except WorkerDied as died:  # no sandbox failed, and another try would end as many processes again
            raise Deadly(died.reason) from None

    async def _recorded(self, run: Run) -> Trace | None:
        """The record of a run, made once for all units; None where there is none."""
        runs = self._runs
        if run not in runs or (runs[run].done() and runs[run].exception() is not None):
            runs[run] = asyncio.ensure_future(recorded(run, self._settings))
        return await asyncio.shield(runs[run])

    _rewards: ClassVar[dict[str, Callable[..., Awaitable[float]]]] = {
        "tests": _tests,
        "cases": _cases,
        "answer": _answer,
        "call": _call,
        "fact": _fact,
        "steps": _steps,
    }


async def recorded(run: Run, settings: Settings) -> Trace | None:
    """Record a run; None where it came to no end of its own.

    Raises:
        GroundboxError: A sandbox failed.
    """
    options = {"hash_seed": 0, **settings.options, "inspect": False}
    args = list(literals.decode(json.loads(run.args)))
    async with AsyncSandbox(limits=settings.limits, **options) as box:
        execution = await box.run(run.source, mode="call", call=run.call, args=args, trace=True)
    if may_be_killed_by_others(execution):
        raise SandboxLost("its process was killed")
    if execution.outcome in (Outcome.OK, Outcome.ERROR):
        trace: Trace | None = execution.trace
        return trace
    return None


def fact_of(trace: Trace, question: Mapping[str, Any]) -> str | None:
    """The answer to a question of `Rewards.facts` as Python writes it, or None where the record has none."""
    line = question.get("line")
    if not isinstance(line, int):
        raise InvalidArgument("question", "has to have the number of a line")
    if not Lines(trace.source).is_plain(line):
        return None
    return FACTS[question["kind"]](trace, _visits(trace, line), question)


def _visits(trace: Trace, line: int) -> list[Step]:
    """Steps of a line until something was left out of the record."""
    records = trace.records
    gap = next((t for t, each in enumerate(records) if isinstance(each, schema.Fold | schema.Lost)), len(records))
    return [step for step in trace.structure.steps if step.line == line and step.last < gap]


def _visit(visits: Sequence[Step], question: Mapping[str, Any]) -> Step | None:
    time = question.get("time", 1)
    return visits[time - 1] if isinstance(time, int) and 0 < time <= len(visits) else None


def _state(trace: Trace, visits: Sequence[Step], question: Mapping[str, Any]) -> str | None:
    step = _visit(visits, question)
    if step is None:
        return None
    state = trace.state_at(step.step)
    names = state.names(step.frame)
    return literal_text(state, names[question["name"]]) or None if question.get("name") in names else None


def _next_line(trace: Trace, visits: Sequence[Step], question: Mapping[str, Any]) -> str | None:
    step = _visit(visits, question)
    return None if step is None or step.branch is None else str(step.branch)


def _branch(trace: Trace, visits: Sequence[Step], question: Mapping[str, Any]) -> str | None:
    turns = [step.condition for step in visits if step.test is not None]
    return str(turns) if turns and None not in turns and not trace.folded else None


FACTS: Final[Mapping[str, Callable[[Trace, Sequence[Step], Mapping[str, Any]], str | None]]] = {
    "state": _state,
    "next_line": _next_line,
    "branch": _branch,
}


def _problem(source: str, entry: str) -> Problem:
    return Problem(
        id="",
        source=source,
        statement="",
        entry=entry,
        cases=(ProblemCase(number=0),),
        provenance=Provenance(file="", line=1, format="reward"),
    )
