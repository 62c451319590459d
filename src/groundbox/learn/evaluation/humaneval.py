"""HumanEval: does a completion pass its tests?

The tests run in one sandbox and the solution in another; the host hands each call from the one to the other and the
result back, as plain data. So a solution has no way to the tests: ending its process, patching builtins or modules,
looking into its caller's frames, printing a verdict, returning an object that equals everything stay on its side.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from groundbox.errors import InvalidArgument
from groundbox.execution import Execution, Outcome
from groundbox.learn.evaluation import records
from groundbox.learn.evaluation.canonical import NoPlainData, value_of
from groundbox.learn.evaluation.plain import decode, encode
from groundbox.limits import Limits
from groundbox.sandbox.sandbox import AsyncSandbox

MOST_CALLS: Final = 5_000
MOST_CALL_TIMES: Final = 4
"""All calls of a sample together take at most so many times the limit of one."""
_HERE: Final = Path(__file__).parent
_LOST: Final = frozenset([Outcome.TIMEOUT, Outcome.MEMORY, Outcome.SIGNAL, Outcome.CANCELLED])


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One problem.

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
    """One answer of a model: a whole program with the function of the problem."""

    task_id: str
    program: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """What came of a sample.

    Attributes:
        reason: `passed`, `failed` (a test), `error` (the solution is no program), `ended` (its process went away),
            `timeout`, `memory`, `no-data` (it returned something else than built-in values), `tests` (they do not run).
        calls: How often the tests called it.
    """

    task_id: str
    passed: bool
    reason: str
    detail: str = ""
    calls: int = 0


def read_problems(path: Path) -> dict[str, Problem]:
    """Problems by their id, from lines of HumanEval's format.

    Raises:
        InvalidArgument: The file cannot be read, or a line lacks a key.
    """
    problems = {}
    for place, row in records.rows("--problems", path):
        problem = _problem("--problems", place, row)
        problems[problem.task_id] = problem
    if not problems:
        raise InvalidArgument("--problems", f"{path} has no problem")
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
    if not found["entry_point"].isidentifier():
        raise InvalidArgument(argument, f"{place} has an entry_point that is no name")
    solution = row.get("canonical_solution")
    return Problem(**found, canonical_solution=solution if isinstance(solution, str) else "")


async def judge(problem: Problem, sample: Sample, *, limits: Limits, options: Mapping[str, Any]) -> Judgement:
    """Whether a sample passes the tests of its problem.

    Args:
        limits: Of the solution for each call, and of the tests.
        options: Of the sandboxes, such as `backend`.
    """
    tests = AsyncSandbox(limits=limits, **options)
    solution = AsyncSandbox(limits=limits, **options)
    try:
        return await _Exchange(problem, sample, tests, solution, limits).run()
    finally:
        await asyncio.gather(tests.close(), solution.close())


class _Exchange:
    """The calls between the tests and a solution."""

    def __init__(
        self, problem: Problem, sample: Sample, tests: AsyncSandbox, solution: AsyncSandbox, limits: Limits
    ) -> None:
        self._problem, self._sample, self._tests, self._solution = problem, sample, tests, solution
        self._calls, self._spent_s = 0, 0.0
        self._most_s = None if limits.wall_s is None else MOST_CALL_TIMES * limits.wall_s

    async def run(self) -> Judgement:
        step = await self._tests.run(_tests_program(self._problem))
        while True:
            asked = _asked(step)
            if asked is None:
                return self._end("tests", f"the tests ended as {step.outcome.value}")
            if asked["kind"] == "passed":
                return self._end("passed")
            if asked["kind"] == "failed":
                return self._end("failed", str(asked.get("error", "")))
            answer = await self._call(asked)
            if isinstance(answer, Judgement):
                return answer
            step = await self._tests.run(f"_tests.answer({json.dumps(answer)!r})")

    async def _call(self, asked: Mapping[str, Any]) -> dict[str, Any] | Judgement:
        """One call of the solution: what to tell the tests, or the end."""
        self._calls += 1
        if self._calls > MOST_CALLS:
            return self._end("timeout", f"more than {MOST_CALLS} calls")
        execution = await self._solution.run(
            self._sample.program,
            mode="call",
            call=self._problem.entry_point,
            args=list(decode(asked["args"])),
            kwargs=decode(asked["kwargs"]),
        )
        self._spent_s += execution.usage.wall_s
        if self._most_s is not None and self._spent_s > self._most_s:
            return self._end("timeout", f"its calls took more than {self._most_s:g} s together")
        if execution.ok and execution.value is None:
            return self._end("ended", "the solution ended its process")
        if execution.ok:
            try:
                return {"value": encode(value_of(execution.value))}
            except (NoPlainData, ValueError) as why:
                return self._end("no-data", str(why))
        if execution.outcome in _LOST:
            return self._end("ended" if execution.outcome is Outcome.SIGNAL else execution.outcome.value)
        error = execution.error
        if error is None or error.type in ("SystemExit", "KeyboardInterrupt") or execution.state != "kept":
            return self._end("ended", "the solution ended its process")
        if error.type in ("SyntaxError", "IndentationError", "TabError"):
            return self._end("error", f"{error.type}: {error.message}"[:300])
        return {"raised": error.type, "message": error.message[:300]}

    def _end(self, reason: str, detail: str = "") -> Judgement:
        return Judgement(
            task_id=self._problem.task_id, passed=reason == "passed", reason=reason, detail=detail, calls=self._calls
        )


def _tests_program(problem: Problem) -> str:
    """The cell that begins the tests. Helpers of the prompt are there, the solution is not."""
    source = f"{problem.prompt}\n    pass\n\n{problem.test}\n"
    driver = "\n".join((_HERE / name).read_text(encoding="utf-8") for name in ("plain.py", "driver.py"))
    return f"{driver}\n_tests = Tests({source!r}, {problem.entry_point!r}, encode, decode)\n_tests.start()"


def _asked(step: Execution) -> Mapping[str, Any] | None:
    asked = (step.value or {}).get("application/json") if step.ok else None
    return asked if isinstance(asked, dict) and asked.get("kind") in ("call", "passed", "failed") else None


async def judge_all(
    samples: Sequence[Sample],
    problems: Mapping[str, Problem],
    *,
    limits: Limits,
    options: Mapping[str, Any],
    workers: int,
) -> list[Judgement]:
    """A judgement for each sample, in their order; `workers` at once."""
    gate = asyncio.Semaphore(workers)

    async def one(sample: Sample) -> Judgement:
        async with gate:
            return await judge(problems[sample.task_id], sample, limits=limits, options=options)

    return list(await asyncio.gather(*map(one, samples)))


def counts(judgements: Iterable[Judgement]) -> list[tuple[int, int]]:
    """For each problem how many samples there are and how many passed."""
    found: dict[str, list[int]] = {}
    for judgement in judgements:
        pair = found.setdefault(judgement.task_id, [0, 0])
        pair[0] += 1
        pair[1] += judgement.passed
    return [(n, c) for n, c in found.values()]
