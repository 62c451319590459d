"""HumanEval: does a completion pass its tests?

Problems and samples are read here; `judging` tells how tests judge a solution that cannot steer them.
"""

from __future__ import annotations

import asyncio
import dataclasses
import keyword
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from groundbox.dataset.executor import Executor, Listwise, LocalExecutor, Shard, values_of
from groundbox.dataset.problem import WORKER_DIED
from groundbox.dataset.processes import Slots
from groundbox.errors import GroundboxError, InvalidArgument
from groundbox.learn.evaluation import records
from groundbox.learn.evaluation.judging import CANNOT_RUN, LOST_SANDBOX, Judge, Tests, Verdict, tried
from groundbox.limits import Limits

_MOST_DETAIL: Final = 300
_AT_ONCE: Final = 2
"""Samples under way for each processor, since one waits while its sandbox starts."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """Problem of HumanEval.

    Attributes:
        prompt: Imports, helpers and the beginning of the function.
        test: Defines `check(candidate)`.
    """

    task_id: str
    prompt: str
    entry_point: str
    test: str
    canonical_solution: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """Answer of a model: a whole program with the function of the problem."""

    task_id: str
    program: str


def read_problems(path: Path, *, argument: str = "--problems") -> dict[str, Problem]:
    """Problems by their id, from lines of HumanEval's format.

    Raises:
        InvalidArgument: The file cannot be read, or a line lacks a key.
    """
    problems = {}
    for place, row in records.rows(argument, path):
        problem = _problem(argument, place, row)
        problems[problem.task_id] = problem
    if not problems:
        raise InvalidArgument(argument, f"{path} has no problem")
    return problems


def read_samples(path: Path, problems: Mapping[str, Problem] | None) -> tuple[list[Sample], dict[str, Problem]]:
    """Samples, `{"task_id", "completion"}` or `{"task_id", "solution"}` a line, and their problems.

    Args:
        problems: None where each line of the samples has the keys of its problem, too.

    Raises:
        InvalidArgument: The file cannot be read, a line lacks a key, or names an unknown problem.
    """
    samples, used = [], {}
    for place, row in records.rows("--samples", path):
        name = records.text("--samples", place, row, "task_id")
        if problems is None:
            problem = _problem("--samples", place, row)
        elif name in problems:
            problem = problems[name]
        else:
            raise InvalidArgument(
                "--samples", f"{place} is for {name!r}, which is none of the {len(problems)} problems"
            )
        used[name] = problem
        whole = row.get("solution")
        program = (
            whole if isinstance(whole, str) else problem.prompt + records.text("--samples", place, row, "completion")
        )
        samples.append(Sample(task_id=name, program=program))
    if not samples:
        raise InvalidArgument("--samples", f"{path} has no sample")
    return samples, used


def _problem(argument: str, place: str, row: Mapping[str, Any]) -> Problem:
    found = {key: records.text(argument, place, row, key) for key in ("task_id", "prompt", "entry_point", "test")}
    if not found["entry_point"].isidentifier() or keyword.iskeyword(found["entry_point"]):
        raise InvalidArgument(argument, f"{place} has an entry_point that is no name of a function")
    solution = row.get("canonical_solution")
    return Problem(**found, canonical_solution=solution if isinstance(solution, str) else "")


async def judge(problem: Problem, sample: Sample, *, limits: Limits, options: Mapping[str, Any]) -> Verdict:
    """Judge a sample by the tests of its problem; work whose sandbox fails is done again.

    Args:
        limits: Of the solution for each call, and of the tests.
        options: Of the sandboxes, such as `backend`.

    Raises:
        GroundboxError: Sandboxes fail, or none can be had: nothing is known of the sample.
    """
    async with Judge(limits=limits, options=options) as court:
        return await _judged(court, problem, sample)


async def _judged(court: Judge, problem: Problem, sample: Sample) -> Verdict:
    begun = f"{problem.prompt}\n    pass\n"  # the prompt ends in the middle of a function
    tests = Tests(prompt=begun, entry_point=problem.entry_point, test=problem.test)
    return await tried(lambda: court.judge(tests, sample.program))


async def judge_all(
    samples: Sequence[Sample],
    problems: Mapping[str, Problem],
    *,
    limits: Limits,
    options: Mapping[str, Any],
    workers: int | None = None,
    executor: Executor | None = None,
) -> list[Verdict]:
    """A verdict on each sample, in their order; `sandbox` where sandboxes failed, which ends no work on others.

    Args:
        workers: Processors to use, where there is no executor; None for all.
        executor: Whoever judges; belongs to the caller. None for this process.
    """
    executor = executor or LocalExecutor(workers, hosts=1)
    work = Grading(limits=limits, options=options, at_once=_AT_ONCE * executor.workers)
    entries = [(problems[each.task_id], each) for each in samples]
    return await values_of(work, entries, executor, stage="humaneval")


class Grading(Listwise):
    """Work for `Executor.run`: problems with samples in, verdicts out."""

    def __init__(self, *, limits: Limits, options: Mapping[str, Any], at_once: int) -> None:
        self._limits, self._options, self._gate = limits, options, Slots(at_once)

    async def __call__(self, shard: Shard) -> list[Verdict]:
        """See Executor.run."""
        async with Judge(limits=self._limits, options=self._options) as court:
            return await asyncio.gather(*(self._one(court, *each) for each in shard.payload))

    def lost(self, entry: tuple[Problem, Sample], reason: str) -> Verdict:
        """See Listwise.lost: nothing is known of such a sample."""
        return Verdict(reason=LOST_SANDBOX, detail=f"{WORKER_DIED}: {reason}")

    async def _one(self, court: Judge, problem: Problem, sample: Sample) -> Verdict:
        async with self._gate:
            try:
                return await _judged(court, problem, sample)
            except CANNOT_RUN:
                raise
            except (GroundboxError, OSError) as error:
                return Verdict(reason=LOST_SANDBOX, detail=f"{type(error).__name__}: {error}"[:_MOST_DETAIL])


def counts(samples: Iterable[Sample], verdicts: Iterable[Verdict]) -> list[tuple[int, int]]:
    """For each problem how many samples have a verdict and how many passed."""
    found: dict[str, list[int]] = {}
    for sample, verdict in zip(samples, verdicts, strict=True):
        pair = found.setdefault(sample.task_id, [0, 0])
        pair[0] += verdict.is_known
        pair[1] += verdict.passed
    return [(n, c) for n, c in found.values()]
