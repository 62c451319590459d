"""Reward functions, as TRL's `reward_funcs` calls them: `function(completions=…, **columns)` gives a number for each.

A program that fails has the reward 0. A sandbox that fails is no fault of the program: it is tried again, and then the
reward is None, which TRL and others leave out of the batch. So is one whose tests do not run, or whose question has no
answer in the record. What cannot run on this machine at all is raised, before a step is trained on nothing.

A batch goes through the pool together, on the event loop behind `groundbox.run`: a thread of this process, begun anew
in a process that was forked. The same work in one batch is done once, since a group of completions often agrees.

With an executor, a batch is cut into shards that other processes score (`scoring`), on other machines where it is one
of a cluster; rewards come in the order of the completions, and are the same. What ends each process that scores it has
no reward, like what a sandbox failed for, and is not tried again by this object.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from groundbox.dataset.executor import Executor, check_name, named, values_of
from groundbox.dataset.problem import WORKER_DIED
from groundbox.endpoint.programs import Chosen, program_of
from groundbox.errors import GroundboxError, InvalidArgument
from groundbox.learn.evaluation.judging import CANNOT_RUN, Case, Judge, Tests, function_name, tried
from groundbox.learn.rewards.reading import answer_of, text_of
from groundbox.learn.rewards.scoring import FACTS, STAGE, Reward, Run, Scored, Scoring, Settings, Unit, recorded, score
from groundbox.learn.rewards.step_truth import StepTruth
from groundbox.limits import Limits
from groundbox.sandbox.portal import PORTAL
from groundbox.trace.record.reading import Trace
from groundbox.values import literals
from groundbox.values.literals import NotALiteral

logger = logging.getLogger(__name__)

Completions = Sequence[Any]
Column = Sequence[Any]
LIMITS: Final = Limits(wall_s=10, cpu_s=5)
_MOST_DEADLY: Final = 100


class _Joined(NamedTuple):
    """An executor, the process that uses it, and the work that it is given."""

    pid: int
    executor: Executor
    scoring: Scoring
    is_ours: bool


class Rewards:
    """Reward functions with limits and sandboxes of one's own; each method is one, to be given to a trainer as it is.

    Can be pickled, and used in processes that were forked or spawned; each has sandboxes of its own then, and joins the
    cluster by itself, which a process that was forked cannot once its parent has.

    Attributes:
        failures: How many rewards were None so far because a sandbox failed, however often it was tried, or because the
            processes that scored ended.
    """

    def __init__(
        self,
        *,
        limits: Limits = LIMITS,
        options: Mapping[str, Any] | None = None,
        at_once: int | None = None,
        partial: bool = False,
        step_truth: StepTruth | None = None,
        executor: str | Executor | None = None,
    ) -> None:
        """Args:
        limits: Of each call of a program, and of tests and runs.
        options: Of the sandboxes, such as `environment` or `backend`.
        at_once: Completions under way at the same time; None for two for each processor. With an executor, of each
            process that scores; None for as many as it says.
        partial: Whether the reward of `cases` is the share of cases that are right, in place of 1 for all of them.
        step_truth: How `steps` pays; None for the usual.
        executor: Who scores: None for this process; `ray://HOST:PORT` for the Ray cluster of which this machine is one,
            or `ray://auto`, which is joined with the first batch; or an executor, which stays the caller's, and from
            then on belongs to the event loop of `groundbox.sandbox.portal`.

        Raises:
            InvalidArgument: There is no executor of this name.
        """
        if isinstance(executor, str):
            check_name(executor)
        self.failures = 0
        self._settings = Settings(
            limits=limits, options=dict(options or {}), partial=partial, step_truth=step_truth or StepTruth()
        )
        self._at_once, self._given, self._made_in = at_once, executor, os.getpid()
        self._judges: list[tuple[asyncio.AbstractEventLoop, Judge]] = []
        self._executor: _Joined | None = None
        self._joining = threading.Lock()
        self._deadly: dict[Any, Scored] = {}

    def __getstate__(self) -> dict[str, Any]:
        if self._given is not None and not isinstance(self._given, str):
            raise TypeError(
                "rewards with an executor of the caller's cannot be pickled; give its name, ray://HOST:PORT"
            )
        own = {"_judges", "_executor", "_joining", "_deadly"}
        return {name: value for name, value in vars(self).items() if name not in own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._judges, self._executor, self._joining, self._deadly = [], None, threading.Lock(), {}

    def answers(self, completions: Completions, check: Column, **columns: Any) -> list[Reward]:
        """1 for a right answer: what stands after the last `Answer:`, by the check of a row of `dataset build`.

        Args:
            check: Of each, `{"kind", "value"}`, or its JSON. Kinds are `value`, `text`, `lines` and `call`, which is
                judged by running the program, and needs the columns `source` and `entry`.
        """
        self._join()
        return PORTAL.call(self.score_answers(completions, check, **columns))

    def tests(self, completions: Completions, tests: Column, entry_point: Column, **columns: Any) -> list[Reward]:
        """1 for a program that passes hidden tests: the last fenced block of a completion, or all of it without one.

        Args:
            tests: Of each, a program that defines `check(candidate)`, or a list of assertions about the function.
            entry_point: Of each, the name of the function.
            setup: Column, optional: of each, imports and helpers that tests and program may use.
        """
        self._join()
        return PORTAL.call(self.score_tests(completions, tests, entry_point, **columns))

    def cases(self, completions: Completions, cases: Column, entry_point: Column, **columns: Any) -> list[Reward]:
        """1 for a program that gives the expected results, compared as `dataset build` compares recorded ones.

        Args:
            cases: Of each, a list of `{"args", "kwargs", "expected"}`, or its JSON; values that JSON has no word for
                are written `{"$tuple": […]}` and so on, as in problems of the plain format.
            entry_point: Of each, the name of the function.
            setup: Column, optional: of each, what stands before the program.
        """
        self._join()
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
        self._join()
        return PORTAL.call(self.score_facts(completions, source, call, question, **columns))

    def steps(self, completions: Completions, source: Column, call: Column, **columns: Any) -> list[Reward]:
        """Pay the steps that lead to an answer, as `StepTruth` does: from -1 (all refuted, or none told) to 1.

        None where the run is not recorded whole. Texts are read in the thread that asks; see `step_truth.CPU_S`.

        Args:
            source: Of each, the program.
            call: Of each, the function that is called.
            args: Column, optional: of each, its arguments, as a list or its JSON.
        """
        if self._join() is not None:
            return PORTAL.call(self.score_steps(completions, source, call, **columns))
        traces = PORTAL.call(self._traces(self._runs(completions, source, call, columns)))
        return [self._told(completion, trace) for completion, trace in zip(completions, traces, strict=True)]

    async def score_steps(self, completions: Completions, source: Column, call: Column, **columns: Any) -> list[Reward]:
        """`steps`, for code on the event loop of `groundbox.sandbox.portal`."""
        runs = self._runs(completions, source, call, columns)
        if self._given is not None:
            pairs = [(text_of(completion), run) for completion, run in zip(completions, runs, strict=True)]
            return await self._all([Unit("steps", pair, pair) for pair in pairs])
        traces = zip(completions, await self._traces(runs), strict=True)
        return [await asyncio.to_thread(self._told, completion, trace) for completion, trace in traces]

    def _told(self, completion: Any, trace: Trace | None) -> Reward:
        return None if trace is None else self._settings.step_truth.of_text(text_of(completion), trace)

    def _runs(self, completions: Completions, source: Column, call: Column, columns: Mapping[str, Any]) -> list[Run]:
        """The runs that the completions are about."""
        args = columns.get("args") or [[]] * len(completions)
        rows = _rows(completions, source=source, call=call, args=args)
        return [Run(row[1], name, _arguments(given)) for row, name, given in rows]

    async def _traces(self, runs: Sequence[Run]) -> list[Trace | None]:
        """The records of runs, those that are whole."""
        gate = asyncio.Semaphore(self._most())

        async def one(run: Run) -> Trace | None:
            async with gate:
                try:
                    trace = await tried(lambda: recorded(run, self._settings))
                except CANNOT_RUN:
                    raise
                except (GroundboxError, OSError):
                    self.failures += 1
                    return None
            if trace is None or not trace.complete:
                logger.warning("the run of %s is not recorded whole, no reward", run.call)
                return None
            return trace

        tasks = {run: asyncio.ensure_future(one(run)) for run in dict.fromkeys(runs)}
        try:
            await asyncio.gather(*tasks.values())
        finally:
            for task in tasks.values():
                task.cancel()
        return [tasks[run].result() for run in runs]

    async def score_answers(self, completions: Completions, check: Column, **columns: Any) -> list[Reward]:
        """`answers`, for code on the event loop of `groundbox.sandbox.portal`."""
        sources, entries = (columns.get(name) or [None] * len(completions) for name in ("source", "entry"))
        work: list[Unit] = []
        for row, source, entry in _rows(completions, check=check, source=sources, entry=entries):
            given, wanted = answer_of(row[0]), _checked(row[1])
            if wanted["kind"] == "call":
                called = ("call", given, json.dumps(dict(wanted)), source, entry)
                work.append(Unit("call", called, (given, dict(wanted), source, entry)))
            else:
                work.append(Unit("answer", ("answer", given, json.dumps(dict(wanted))), (given, dict(wanted))))
        return await self._all(work)

    async def score_tests(
        self, completions: Completions, tests: Column, entry_point: Column, **columns: Any
    ) -> list[Reward]:
        """`tests`, for code on the event loop of `groundbox.sandbox.portal`."""
        setups = columns.get("setup") or [""] * len(completions)
        work: list[Unit] = []
        for row, entry, setup in _rows(completions, tests=tests, entry_point=entry_point, setup=setups):
            work.append(self._tests_work(_program(row[0], entry), row[1], entry, setup))
        return await self._all(work)

    async def score_cases(
        self, completions: Completions, cases: Column, entry_point: Column, **columns: Any
    ) -> list[Reward]:
        """`cases`, for code on the event loop of `groundbox.sandbox.portal`."""
        setups = columns.get("setup") or [""] * len(completions)
        work: list[Unit] = []
        for row, entry, setup in _rows(completions, cases=cases, entry_point=entry_point, setup=setups):
            work.append(self._cases_work(_program(row[0], entry), row[1], entry, setup))
        return await self._all(work)

    async def score_facts(
        self, completions: Completions, source: Column, call: Column, question: Column, **columns: Any
    ) -> list[Reward]:
        """`facts`, for code on the event loop of `groundbox.sandbox.portal`."""
        args = columns.get("args") or [[]] * len(completions)
        work: list[Unit] = []
        for row, program, name, given in _rows(completions, question=question, source=source, call=call, args=args):
            asked = _data("question", row[1])
            if not isinstance(asked, Mapping) or asked.get("kind") not in FACTS:
                raise InvalidArgument("question", f"has to have a kind of {', '.join(sorted(FACTS))}")
            run, answer = Run(program, name, _arguments(given)), answer_of(row[0])
            key = ("fact", answer, json.dumps(dict(asked)), run)
            work.append(Unit("fact", key, (answer, dict(asked), run)))
        return await self._all(work)

    def program(self, program: str, row: Mapping[str, Any]) -> Reward:
        """The reward of `tests` or `cases` for one program, which is taken as it is.

        Args:
            row: Has `entry_point`, `tests` or `cases`, and may have `setup`.
        """
        self._join()
        return PORTAL.call(self.score_program(program, row))

    async def score_program(self, program: str, row: Mapping[str, Any]) -> Reward:
        """`program`, for code on the event loop of `groundbox.sandbox.portal`."""
        kind = "tests" if row.get("tests") else "cases"
        make = self._tests_work if kind == "tests" else self._cases_work
        return (await self._all([make(program, row.get(kind), row.get("entry_point"), row.get("setup"))]))[0]

    def _tests_work(self, program: str, tests: Any, entry: Any, setup: Any) -> Unit:
        judged = Tests(
            prompt=setup or "", entry_point=function_name("entry_point", entry), test=_test_program(tests, entry)
        )
        whole = f"{setup}\n{program}" if setup else program
        return Unit("tests", (judged, whole), (judged, whole))

    def _cases_work(self, program: str, cases: Any, entry: Any, setup: Any) -> Unit:
        wanted, name = _cases(cases), function_name("entry_point", entry)
        whole = f"{setup}\n{program}" if setup else program
        key = ("cases", whole, name, json.dumps(_data("cases", cases), sort_keys=True))
        return Unit("cases", key, (whole, name, wanted))

    def close(self) -> None:
        """End the sandboxes that are kept for the next batch, and leave the cluster. The object can be used on."""
        loop, judges = PORTAL.loop(), self._judges
        self._judges = []
        for own, judge in judges:
            if own is loop:
                PORTAL.call(judge.close())
        with self._joining:
            joined, self._executor = self._executor, None
        if joined is not None and joined.is_ours and joined.pid == os.getpid():
            PORTAL.call(joined.executor.close())

    async def _all(self, units: Sequence[Unit]) -> list[Reward]:
        """Rewards, in order; what has the same key is scored once."""
        unique = {unit.key: unit for unit in units}
        joined = await asyncio.to_thread(self._join) if self._given is not None else None
        if joined is None:
            gate = asyncio.Semaphore(self._most())
            found = await score(list(unique.values()), self._settings, self._judge(), gate)
        else:
            left = [unit for unit in unique.values() if unit.key not in self._deadly]
            told = await values_of(joined.scoring, left, joined.executor, stage=STAGE)
            known = {unit.key: each for unit, each in zip(left, told, strict=True)} | self._deadly
            found = [known[key] for key in unique]
        rewards = dict(zip(unique, found, strict=True))
        for key, each in rewards.items():
            self._note(key, each)
        return [rewards[unit.key].reward for unit in units]

    def _note(self, key: Any, scored: Scored) -> None:
        """Count and tell what has no reward, and remember what ends processes."""
        self.failures += scored.failed
        if scored.why:
            logger.warning("no reward: %s", scored.why)
        if scored.why.startswith(WORKER_DIED):
            self._deadly.pop(key, None)
            self._deadly[key] = scored
            while len(self._deadly) > _MOST_DEADLY:
                del self._deadly[next(iter(self._deadly))]

    def _most(self) -> int:
        return self._at_once or 2 * len(os.sched_getaffinity(0))

    def _join(self) -> _Joined | None:
        """The executor, whose cluster is joined now if it is not yet; None where this process scores. May take long."""
        if self._given is None:
            return None
        with self._joining:
            joined = self._executor
            if joined is None or joined.pid != os.getpid():
                is_ours = isinstance(self._given, str)
                if not is_ours and self._made_in != os.getpid():
                    raise InvalidArgument("executor", "is of the process that this one was forked from; give its name")
                environment = str(self._settings.options.get("environment", "default"))
                executor = (
                    named(self._given, environment=environment, tell=logger.warning)
                    if isinstance(self._given, str)
                    else self._given
                )
                scoring = Scoring(self._settings, executor, at_once=self._at_once or executor.workers)
                joined = self._executor = _Joined(os.getpid(), executor, scoring, is_ours)
            return joined

    def _judge(self) -> Judge:
        """The judge of this loop. Those of a process that this one was forked from are its own, and left alone."""
        loop = asyncio.get_running_loop()
        for own, judge in self._judges:
            if own is loop:
                return judge
        judge = Judge(limits=self._settings.limits, options=self._settings.options)
        self._judges.append((loop, judge))
        return judge


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


def _program(completion: str, entry: Any) -> str:
    chosen: Chosen = program_of(completion, entry if isinstance(entry, str) else "")
    logger.debug("program of a completion: %s", chosen.why)
    return chosen.text


def _data(name: str, value: Any) -> Any:
    """A cell of a column: data, or its JSON, since columns of a table want one type."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(name, f"is no JSON: {str(error)[:100]}") from None


def _arguments(value: Any) -> str:
    """Arguments of a run for `Run`: what JSON has no word for, such as a tuple in a list, stays what it is.

    Raises:
        InvalidArgument: One is no literal.
    """
    try:
        return json.dumps(literals.encode(literals.decode(_data("args", value))))
    except NotALiteral as error:
        raise InvalidArgument("args", f"has one that cannot be read: {error}") from None


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
