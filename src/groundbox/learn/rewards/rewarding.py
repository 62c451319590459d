"""Reward functions, as TRL's `reward_funcs` calls them: `function(completions=…, **columns)` gives a number for each.

A program that fails has the reward 0. A sandbox that fails is no fault of the program: it is tried again, and then the
reward is None, which TRL and others leave out of the batch. So is one whose tests do not run, or whose question has no
answer in the record. What cannot run on this machine at all is raised, before a step is trained on nothing.

A batch goes through the pool together, on the event loop behind `groundbox.run`: a thread of this process, begun anew
in a process that was forked. The same work in one batch is done once, since a group of completions often agrees.
"""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from groundbox.dataset.problem import Case as ProblemCase
from groundbox.dataset.problem import Problem, Provenance
from groundbox.dataset.tasks import checking
from groundbox.dataset.tasks.task import Lines
from groundbox.errors import GroundboxError, InvalidArgument
from groundbox.execution import Outcome
from groundbox.learn.evaluation.judging import CANNOT_RUN, Case, Judge, Tests, function_name, tried
from groundbox.learn.rewards.reading import answer_of, program_of, text_of
from groundbox.learn.rewards.step_truth import StepTruth
from groundbox.limits import Limits
from groundbox.sandbox.portal import PORTAL
from groundbox.sandbox.sandbox import AsyncSandbox
from groundbox.trace.record import schema
from groundbox.trace.record.reading import Trace
from groundbox.trace.run.structure import Step
from groundbox.values import literals
from groundbox.values.equal import equal_as_json, identical
from groundbox.values.literals import NotALiteral
from groundbox.values.unknown import Unknown

logger = logging.getLogger(__name__)

T = TypeVar("T")
Reward = float | None
Completions = Sequence[Any]
Column = Sequence[Any]
LIMITS: Final = Limits(wall_s=10, cpu_s=5)


class Rewards:
    """Reward functions with limits and sandboxes of one's own; each method is one, to be given to a trainer as it is.

    Can be pickled, and used in processes that were forked or spawned; each has sandboxes of its own then.

    Attributes:
        failures: How many rewards were None so far because a sandbox failed, however often it was tried.
    """

    def __init__(
        self,
        *,
        limits: Limits = LIMITS,
        options: Mapping[str, Any] | None = None,
        at_once: int | None = None,
        partial: bool = False,
        step_truth: StepTruth | None = None,
    ) -> None:
        """Args:
        limits: Of each call of a program, and of tests and runs.
        options: Of the sandboxes, such as `environment` or `backend`.
        at_once: Completions under way at the same time; None for two for each processor.
        partial: Whether the reward of `cases` is the share of cases that are right, in place of 1 for all of them.
        step_truth: How `steps` pays; None for the usual.
        """
        self.failures = 0
        self._limits, self._options, self._partial = limits, dict(options or {}), partial
        self._at_once = at_once or 2 * len(os.sched_getaffinity(0))
        self._step_truth = step_truth or StepTruth()
        self._judges: list[tuple[asyncio.AbstractEventLoop, Judge]] = []

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_judges": []}

    def answers(self, completions: Completions, check: Column, **columns: Any) -> list[Reward]:
        """1 for a right answer: what stands after the last `Answer:`, by the check of a row of `dataset build`.

        Args:
            check: Of each, `{"kind", "value"}`, or its JSON. Kinds are `value`, `text`, `lines` and `call`, which is
                judged by running the program, and needs the columns `source` and `entry`.
        """
        return PORTAL.call(self.score_answers(completions, check, **columns))

    def tests(self, completions: Completions, tests: Column, entry_point: Column, **columns: Any) -> list[Reward]:
        """1 for a program that passes hidden tests: the last fenced block of a completion, or all of it without one.

        Args:
            tests: Of each, a program that defines `check(candidate)`, or a list of assertions about the function.
            entry_point: Of each, the name of the function.
            setup: Column, optional: of each, imports and helpers that tests and program may use.
        """
        return PORTAL.call(self.score_tests(completions, tests, entry_point, **columns))

    def cases(self, completions: Completions, cases: Column, entry_point: Column, **columns: Any) -> list[Reward]:
        """1 for a program that gives the expected results, compared as `dataset build` compares recorded ones.

        Args:
            cases: Of each, a list of `{"args", "kwargs", "expected"}`, or its JSON; values that JSON has no word for
                are written `{"$tuple": […]}` and so on, as in problems of the plain format.
            entry_point: Of each, the name of the function.
            setup: Column, optional: of each, what stands before the program.
        """
        return PORTAL.call(self.score_cases(completions, cases, entry_point, **columns))

    def facts(
        self, completions: Completions, source: Column, call: Column, question: Column, **columns: Any
    ) -> list[Reward]:
        """1 for a right answer about a run, which is recorded now: the value of a name, the next line, or the branches.

        Args:
            source: Of each, the program.
            call: Of each, the function that is called.
            args: Column, optional: of each, its arguments, as a list or its JSON.
            question: Of each, or its JSON, one of `{"kind": "state", "name", "line", "time"}`, the value of a name when
                the line is about to run for the time-th time; `{"kind": "next_line", "line", "time"}`, the line of the
                same function that runs after it; `{"kind": "branch", "line"}`, how the condition there turns out, as a
                list, each time.
        """
        return PORTAL.call(self.score_facts(completions, source, call, question, **columns))

    def steps(self, completions: Completions, source: Column, call: Column, **columns: Any) -> list[Reward]:
        """Pay the steps that lead to an answer, as `StepTruth` does: from -1 (all refuted, or none told) to 1.

        None where the run is not recorded whole. Texts are read in the thread that asks; see `step_truth.CPU_S`.

        Args:
            source: Of each, the program.
            call: Of each, the function that is called.
            args: Column, optional: of each, its arguments, as a list or its JSON.
        """
        traces = PORTAL.call(self._runs(completions, source, call, columns))
        return [self._told(completion, trace) for completion, trace in zip(completions, traces, strict=True)]

    async def score_steps(self, completions: Completions, source: Column, call: Column, **columns: Any) -> list[Reward]:
        """`steps`, for code on the event loop of `groundbox.sandbox.portal`."""
        traces = await self._runs(completions, source, call, columns)
        pairs = zip(completions, traces, strict=True)
        return [await asyncio.to_thread(self._told, completion, trace) for completion, trace in pairs]

    def _told(self, completion: Any, trace: Trace | None) -> Reward:
        return None if trace is None else self._step_truth.of_text(text_of(completion), trace)

    async def _runs(
        self, completions: Completions, source: Column, call: Column, columns: Mapping[str, Any]
    ) -> list[Trace | None]:
        """The records of the runs that the completions are about; None where there is none."""
        args = columns.get("args") or [[]] * len(completions)
        work: list[tuple[Any, Callable[[], Awaitable[Trace | None]]]] = []
        for row, name, given in _rows(completions, source=source, call=call, args=args):
            program, data = row[1], _data("args", given)
            attempt = functools.partial(self._recorded, program, name, literals.decode(data))
            work.append((json.dumps([program, name, data]), attempt))
        return await self._all(work)

    async def _recorded(self, source: str, call: str, args: Sequence[Any]) -> Trace | None:
        trace = await self._traced(source, call, args)
        if trace is None or not trace.complete:
            logger.warning("the run of %s is not recorded whole, no reward", call)
            return None
        return trace

    async def score_answers(self, completions: Completions, check: Column, **columns: Any) -> list[Reward]:
        """`answers`, for code on the event loop of `groundbox.sandbox.portal`."""
        sources, entries = (columns.get(name) or [None] * len(completions) for name in ("source", "entry"))
        work: list[_Work] = []
        for row, source, entry in _rows(completions, check=check, source=sources, entry=entries):
            given, wanted = answer_of(row[0]), _checked(row[1])
            if wanted["kind"] == "call":
                key = ("call", given, json.dumps(dict(wanted)), source, entry)
                work.append((key, functools.partial(self._call_is_right, given, wanted, source, entry)))
            else:
                work.append((("answer", given, json.dumps(dict(wanted))), functools.partial(_is_right, given, wanted)))
        return await self._all(work)

    async def score_tests(
        self, completions: Completions, tests: Column, entry_point: Column, **columns: Any
    ) -> list[Reward]:
        """`tests`, for code on the event loop of `groundbox.sandbox.portal`."""
        setups = columns.get("setup") or [""] * len(completions)
        work: list[_Work] = []
        for row, entry, setup in _rows(completions, tests=tests, entry_point=entry_point, setup=setups):
            work.append(self._tests_work(program_of(row[0]), row[1], entry, setup))
        return await self._all(work)

    async def score_cases(
        self, completions: Completions, cases: Column, entry_point: Column, **columns: Any
    ) -> list[Reward]:
        """`cases`, for code on the event loop of `groundbox.sandbox.portal`."""
        setups = columns.get("setup") or [""] * len(completions)
        work: list[_Work] = []
        for row, entry, setup in _rows(completions, cases=cases, entry_point=entry_point, setup=setups):
            work.append(self._cases_work(program_of(row[0]), row[1], entry, setup))
        return await self._all(work)

    async def score_facts(
        self, completions: Completions, source: Column, call: Column, question: Column, **columns: Any
    ) -> list[Reward]:
        """`facts`, for code on the event loop of `groundbox.sandbox.portal`."""
        args = columns.get("args") or [[]] * len(completions)
        runs: dict[str, asyncio.Future[Trace | None]] = {}
        work: list[_Work] = []
        for row, program, name, given in _rows(completions, question=question, source=source, call=call, args=args):
            asked = _data("question", row[1])
            if not isinstance(asked, Mapping) or asked.get("kind") not in _FACTS:
                raise InvalidArgument("question", f"has to have a kind of {', '.join(sorted(_FACTS))}")
            run = json.dumps([program, name, _data("args", given)])
            answer = answer_of(row[0])
            attempt = functools.partial(self._knows, answer, asked, program, name, _data("args", given), run, runs)
            work.append((("fact", answer, json.dumps(dict(asked)), run), attempt))
        return await self._all(work)

    def program(self, program: str, row: Mapping[str, Any]) -> Reward:
        """The reward of `tests` or `cases` for one program, which is taken as it is.

        Args:
            row: Has `entry_point`, `tests` or `cases`, and may have `setup`.
        """
        return PORTAL.call(self.score_program(program, row))

    async def score_program(self, program: str, row: Mapping[str, Any]) -> Reward:
        """`program`, for code on the event loop of `groundbox.sandbox.portal`."""
        kind = "tests" if row.get("tests") else "cases"
        make = self._tests_work if kind == "tests" else self._cases_work
        return (await self._all([make(program, row.get(kind), row.get("entry_point"), row.get("setup"))]))[0]

    def _tests_work(self, program: str, tests: Any, entry: Any, setup: Any) -> _Work:
        judged = Tests(
            prompt=setup or "", entry_point=function_name("entry_point", entry), test=_test_program(tests, entry)
        )
        whole = f"{setup}\n{program}" if setup else program
        return (judged, whole), functools.partial(self._passes, judged, whole)

    def _cases_work(self, program: str, cases: Any, entry: Any, setup: Any) -> _Work:
        wanted, name = _cases(cases), function_name("entry_point", entry)
        whole = f"{setup}\n{program}" if setup else program
        key = ("cases", whole, name, json.dumps(_data("cases", cases), sort_keys=True))
        return key, functools.partial(self._gives, whole, name, wanted)

    def close(self) -> None:
        """End the sandboxes that are kept for the next batch. The object can be used on."""
        loop, judges = PORTAL.loop(), self._judges
        self._judges = []
        for own, judge in judges:
            if own is loop:
                PORTAL.call(judge.close())

    async def _all(self, work: Sequence[tuple[Any, Callable[[], Awaitable[T | None]]]]) -> list[T | None]:
        """What each gives, in order; what has the same key is done once."""
        gate = asyncio.Semaphore(self._at_once)
        tasks: dict[Any, asyncio.Task[T | None]] = {}
        for key, attempt in work:
            if key not in tasks:
                tasks[key] = asyncio.create_task(self._tried(gate, attempt))
        try:
            await asyncio.gather(*tasks.values())
        finally:
            for task in tasks.values():
                task.cancel()
        return [tasks[key].result() for key, _ in work]

    async def _tried(self, gate: asyncio.Semaphore, attempt: Callable[[], Awaitable[T | None]]) -> T | None:
        async with gate:
            try:
                return await tried(attempt)
            except CANNOT_RUN:
                raise
            except (GroundboxError, OSError):
                self.failures += 1
                return None

    def _judge(self) -> Judge:
        """The judge of this loop. Those of a process that this one was forked from are its own, and left alone."""
        loop = asyncio.get_running_loop()
        for own, judge in self._judges:
            if own is loop:
                return judge
        judge = Judge(limits=self._limits, options=self._options)
        self._judges.append((loop, judge))
        return judge

    async def _passes(self, tests: Tests, program: str) -> Reward:
        verdict = await self._judge().judge(tests, program)
        if verdict.reason == "tests":
            logger.warning("tests of %s do not run, no reward: %s", tests.entry_point, verdict.detail)
            return None
        return float(verdict.passed)

    async def _gives(self, program: str, entry: str, cases: Sequence[Case]) -> Reward:
        judge = self._judge()
        verdict = await judge.judge_cases(program, entry, cases, equal=equal_as_json, stop_early=not self._partial)
        return verdict.share if self._partial else float(verdict.passed)

    async def _call_is_right(self, answer: str, check: Mapping[str, Any], source: Any, entry: Any) -> Reward:
        """An answer that is a call has to give the wanted value when it is run."""
        if not isinstance(source, str) or not isinstance(entry, str):
            raise InvalidArgument("check", "is of the kind call, which needs the columns source and entry")
        case = checking.case_of(answer, _problem(source, entry))
        if case is None:
            return 0.0
        try:
            wanted = literals.parse(check["value"])
        except NotALiteral:
            return None
        asked = Case(args=case.args, kwargs=case.kwargs, expected=wanted)
        try:
            verdict = await self._judge().judge_cases(source, entry, [asked], equal=identical)
        except InvalidArgument:  # the model's arguments are none that a sandbox can be given
            return 0.0
        return float(verdict.passed)

    async def _knows(
        self,
        answer: str,
        question: Mapping[str, Any],
        source: str,
        call: str,
        args: Any,
        run: str,
        runs: dict[str, asyncio.Future[Trace | None]],
    ) -> Reward:
        if run not in runs or (runs[run].done() and runs[run].exception() is not None):
            runs[run] = asyncio.ensure_future(self._traced(source, call, literals.decode(args)))
        trace = await asyncio.shield(runs[run])
        wanted = None if trace is None else fact_of(trace, question)
        if wanted is None:
            logger.warning("the record has no answer to %s, no reward", dict(question))
            return None
        return float(checking.right({"kind": "value", "value": wanted}, answer))

    async def _traced(self, source: str, call: str, args: Sequence[Any]) -> Trace | None:
        options = {"hash_seed": 0, **self._options, "inspect": False}
        async with AsyncSandbox(limits=self._limits, **options) as box:
            execution = await box.run(source, mode="call", call=call, args=list(args), trace=True)
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
    return _FACTS[question["kind"]](trace, _visits(trace, line), question)


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
    if question.get("name") not in names:
        return None
    try:
        value = state.python_value(names[question["name"]])
        literals.encode(value)
    except (Unknown, NotALiteral):
        return None
    return literals.text(value)


def _next_line(trace: Trace, visits: Sequence[Step], question: Mapping[str, Any]) -> str | None:
    step = _visit(visits, question)
    return None if step is None or step.branch is None else str(step.branch)


def _branch(trace: Trace, visits: Sequence[Step], question: Mapping[str, Any]) -> str | None:
    turns = [step.condition for step in visits if step.test is not None]
    return str(turns) if turns and None not in turns and not trace.folded else None


_FACTS: Final[Mapping[str, Callable[[Trace, Sequence[Step], Mapping[str, Any]], str | None]]] = {
    "state": _state,
    "next_line": _next_line,
    "branch": _branch,
}
_Work = tuple[Any, Callable[[], Awaitable[Reward]]]


async def _is_right(answer: str, check: Mapping[str, Any]) -> Reward:
    return float(checking.right(check, answer))


def _rows(completions: Completions, **columns: Column) -> list[tuple[Any, ...]]:
    """For each completion a pair of its text and the first column, then the other columns.

    Raises:
        InvalidArgument: A column has another length.
    """
    for name, column in columns.items():
        if isinstance(column, str) or len(column) != len(completions):
            raise InvalidArgument(name, f"has to be a list with one entry for each of {len(completions)} completions")
    first, *others = columns.values()
    texts = map(text_of, completions)
    return list(zip(zip(texts, first, strict=True), *others, strict=True))


def _data(name: str, value: Any) -> Any:
    """A cell of a column: data, or its JSON, since columns of a table want one type."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(name, f"is no JSON: {str(error)[:100]}") from None


def _checked(value: Any) -> Mapping[str, Any]:
    check = _data("check", value)
    if not isinstance(check, Mapping) or not isinstance(check.get("value"), str):
        raise InvalidArgument("check", "has to be {'kind', 'value'}, or its JSON")
    if check.get("kind") not in ("value", "text", "lines", "call"):
        raise InvalidArgument("check", f"is of the kind {check.get('kind')!r}; take value, text, lines or call")
    return check


def _cases(value: Any) -> list[Case]:
    rows = _data("cases", value)
    if not isinstance(rows, Sequence) or not rows or not all(isinstance(row, Mapping) for row in rows):
        raise InvalidArgument("cases", "has to be a list of {'args', 'kwargs', 'expected'}, or its JSON")
    try:
        return [
            Case(
                args=tuple(literals.decode(list(row.get("args") or []))),
                kwargs={name: literals.decode(each) for name, each in (row.get("kwargs") or {}).items()},
                expected=literals.decode(row["expected"]),
            )
            for row in rows
        ]
    except (NotALiteral, KeyError, TypeError) as error:
        raise InvalidArgument("cases", f"has one that cannot be read: {error}") from None


def _test_program(value: Any, entry: str) -> str:
    """Tests as a program that defines `check(candidate)`."""
    if isinstance(value, str) and value.strip():
        return value
    if (
        isinstance(value, str)
        or not isinstance(value, Sequence)
        or not value
        or not all(isinstance(each, str) for each in value)
    ):
        raise InvalidArgument("tests", "has to be a program that defines check(candidate), or a list of assertions")
    lines = [line for each in value for line in each.strip().splitlines()]
    return f"def check(candidate):\n    {function_name('entry_point', entry)} = candidate\n" + "".join(
        f"    {line}\n" for line in lines
    )


def _problem(source: str, entry: str) -> Problem:
    return Problem(
        id="",
        source=source,
        statement="",
        entry=entry,
        cases=(ProblemCase(number=0),),
        provenance=Provenance(file="", line=1, format="reward"),
    )


_USUAL: Final = Rewards()


def answer_reward(completions: Completions, check: Column, **columns: Any) -> list[Reward]:
    """`Rewards.answers` with the usual limits."""
    return _USUAL.answers(completions, check, **columns)


def hidden_tests_reward(completions: Completions, tests: Column, entry_point: Column, **columns: Any) -> list[Reward]:
    """`Rewards.tests` with the usual limits."""
    return _USUAL.tests(completions, tests, entry_point, **columns)


def cases_reward(completions: Completions, cases: Column, entry_point: Column, **columns: Any) -> list[Reward]:
    """`Rewards.cases` with the usual limits."""
    return _USUAL.cases(completions, cases, entry_point, **columns)


def fact_reward(
    completions: Completions, source: Column, call: Column, question: Column, **columns: Any
) -> list[Reward]:
    """`Rewards.facts` with the usual limits."""
    return _USUAL.facts(completions, source, call, question, **columns)


def step_truth_reward(completions: Completions, source: Column, call: Column, **columns: Any) -> list[Reward]:
    """`Rewards.steps` with the usual limits."""
    return _USUAL.steps(completions, source, call, **columns)
