"""Judging a solution by tests that it has no way to.

The tests run in one sandbox and the solution in another; the host hands calls from the one to the other and results
back, as plain data. So a solution has no way to the tests: ending its process, patching builtins or modules, looking
into its caller's frames, printing a verdict, returning an object that equals everything stay on its side.

Calls travel together. The tests are rehearsed with a stand-in for the function, which tells the calls whose arguments
do not hang on results; the solution's sandbox makes all of these in one run, which hears of a call when
it has answered the one before; then the tests run with the answers. What was not foreseen is asked one by one.
A rehearsal decides nothing: an answer counts only where the tests, run in earnest, make that very call.

A sandbox of tests is used again for other solutions of the same problem, when the tests came to their end in it, and
never for another problem. A solution's sandbox is its own.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import json
import keyword
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, NamedTuple, TypeVar

from groundbox.errors import EnvironmentFailed, GroundboxError, InvalidArgument, SandboxLost, SandboxUnavailable
from groundbox.execution import Execution, Outcome
from groundbox.limits import Limits
from groundbox.sandbox import answers, arguments
from groundbox.sandbox.answers import Answer
from groundbox.sandbox.decoding import decoded
from groundbox.sandbox.outcome import may_be_killed_by_others
from groundbox.sandbox.sandbox import AsyncSandbox
from groundbox.values.codec import NotData, decode, encode

logger = logging.getLogger(__name__)

T = TypeVar("T")
LOST_SANDBOX: Final = "sandbox"
TRIES: Final = 3
_KILLED_TRIES: Final = 4
CANNOT_RUN: Final = (InvalidArgument, SandboxUnavailable, EnvironmentFailed)
"""Errors that another try would not mend: nothing can run here at all, or something was asked for that cannot be."""
MOST_CALLS: Final = 5_000
MOST_CALL_TIMES: Final = 4
"""All calls of a solution together take at most so many times the limit of one."""
_MOST_IDLE: Final = 8
_MOST_PLANS: Final = 1000
_MOST_DETAIL: Final = 300
_MOST_TOLD_CHARS: Final = 2 << 20
"""Of all results of a solution, as JSON. They go to the tests within a cell's source."""
_MOST_GIVEN_CHARS: Final = 4 << 20
"""Of what a sandbox of tests was given before it is used no more: it keeps its cells."""
_KINDS: Final = frozenset(["calls", "call", "passed", "failed", "tests", "lost", "many"])
_NO_PROGRAM: Final = frozenset(["SyntaxError", "IndentationError", "TabError"])
_LOST: Final = frozenset(["ended", "timeout", "memory", "no-data"])
_MOST_LOST: Final = 20
"""Of cases of one program: each takes a new process."""
_REASONS: Final = {"too-large": "no-data", "signal": "ended"}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Tests:
    """Tests of one function.

    Attributes:
        prompt: Imports and helpers that the tests may use.
        entry_point: Name of the function.
        test: Defines `check(candidate)`.
    """

    prompt: str
    entry_point: str
    test: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """Result of a judgement.

    Attributes:
        reason: `passed`, `failed` (a test), `error` (the solution is no program), `ended` (its process went away),
            `timeout`, `memory`, `no-data` (it returned something else than built-in values, or too much), `tests` (they
            do not run), `sandbox` (none lasted, however often it was tried: nothing is known of the solution). Tests
            that come to no end once they have a result of the solution are `failed`: it may be that result which ends
            them.
        calls: How often the tests called it.
    """

    reason: str
    detail: str = ""
    calls: int = 0

    @property
    def passed(self) -> bool:
        """True for a solution that is right by the tests."""
        return self.reason == "passed"

    @property
    def is_known(self) -> bool:
        """False where a sandbox failed, so that the solution is neither right nor wrong."""
        return self.reason != LOST_SANDBOX


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """Arguments of a call and its expected result, all plain data."""

    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    expected: Any = None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CasesVerdict:
    """Result for each case of a judgement by cases.

    Attributes:
        reasons: As `Verdict.reason`; `failed` is another result than the expected one, or an exception. `not-run` is a
            case that was left out because others of the program had not come back.
    """

    reasons: tuple[str, ...]
    detail: str = ""

    @property
    def passed(self) -> bool:
        """True if there are cases, and all are right."""
        return bool(self.reasons) and set(self.reasons) == {"passed"}

    @property
    def share(self) -> float:
        """Share of cases that are right; 0 where there are none."""
        return self.reasons.count("passed") / len(self.reasons) if self.reasons else 0.0


def function_name(argument: str, name: Any) -> str:
    """The name of a function, as a program may have it.

    Raises:
        InvalidArgument: It is none, or a keyword, which no program can define.
    """
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise InvalidArgument(argument, f"has to be the name of a function, not {str(name)[:100]!r}")
    return name


async def tried(attempt: Callable[[], Awaitable[T]]) -> T:
    """Carry out work of which a sandbox may fail by no fault of its program: up to `TRIES` times.

    Raises:
        GroundboxError, OSError: The last failure, or one of `CANNOT_RUN`.
    """
    for left in reversed(range(TRIES)):
        try:
            return await attempt()
        except CANNOT_RUN:
            raise
        except (GroundboxError, OSError) as error:
            logger.warning("a sandbox failed, %d tries left: %s: %s", left, type(error).__name__, error)
            if not left:
                raise
    raise AssertionError


class Call(NamedTuple):
    """Arguments of one call, as call data."""

    args: Any
    kwargs: Any


def equal_data(result: Any, expected: Any) -> bool:
    """Compare two plain values as Python does: 1 and 1.0 are equal, a list and a tuple are not."""
    return bool(result == expected)


class Judge:
    """Judges many solutions; keeps sandboxes of tests for the next one. Not for two event loops.

    Use it as an asynchronous context manager, or `close` it.
    """

    def __init__(self, *, limits: Limits, options: Mapping[str, Any] | None = None) -> None:
        """Args:
        limits: Of the solution for each call, and of the tests.
        options: Of the sandboxes, such as `backend`.
        """
        self._limits = limits
        self._options = {"inspect": False, **(options or {})}
        self._idle: collections.OrderedDict[Tests, list[_TestsBox]] = collections.OrderedDict()
        self._plans: collections.OrderedDict[Tests, tuple[Sequence[Call], bool]] = collections.OrderedDict()

    async def __aenter__(self) -> Judge:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the sandboxes that are kept. Idempotent."""
        idle, self._idle = self._idle, collections.OrderedDict()
        await asyncio.gather(*(box.close() for boxes in idle.values() for box in boxes))

    async def judge(self, tests: Tests, program: str) -> Verdict:
        """Judge a program by tests.

        Raises:
            GroundboxError: A sandbox cannot be had, or was lost by no fault of the program: there is no verdict.
            InvalidArgument: There can be no such function.
        """
        function_name("entry_point", tests.entry_point)
        box = self._take(tests)
        if box.was_kept:  # what ends it may come of those before
            with contextlib.suppress(SandboxLost):
                verdict = await self._judged(tests, program, box)
                if not box.why:
                    return verdict
            box = self._new(tests)
        return await self._judged(tests, program, box)

    async def _judged(self, tests: Tests, program: str, box: _TestsBox) -> Verdict:
        solution = _Solution(program, tests.entry_point, self._limits, self._options)
        over = False
        try:
            verdict = await self._exchange(tests, box, solution)
            over = verdict.reason in ("passed", "failed") and not box.why
            return verdict
        finally:
            await solution.close()
            if over:
                await self._give_back(tests, box)
            else:
                await box.close()

    async def judge_cases(
        self,
        program: str,
        entry_point: str,
        cases: Sequence[Case],
        *,
        equal: Callable[[Any, Any], bool] = equal_data,
        stop_early: bool = False,
    ) -> CasesVerdict:
        """Judge a program by cases: no tests run, results are compared here as data.

        Args:
            equal: Whether a result (first) is the expected one.
            stop_early: Whether one wrong case is enough to know: after a call that did not come back no other is made.

        Raises:
            GroundboxError: As `judge`.
            InvalidArgument: A case holds something that is no plain data, or there can be no such function.
        """
        function_name("entry_point", entry_point)
        for case in cases:
            arguments.encode("cases", [list(case.args), dict(case.kwargs)])
        calls = [Call(encode(list(case.args), exact=False), encode(dict(case.kwargs), exact=False)) for case in cases]
        if not all(map(_travels, calls)):
            raise InvalidArgument("cases", "holds a set or dict whose keys have the same hash")
        solution = _Solution(program, entry_point, self._limits, self._options)
        reasons: list[str] = []
        try:
            while len(reasons) < len(calls):
                lost = sum(reason in _LOST for reason in reasons)
                if solution.is_out_of_time or lost > _MOST_LOST or (lost and stop_early):
                    reasons += ["timeout" if solution.is_out_of_time else "not-run"] * (len(calls) - len(reasons))
                    break
                for answer in await solution.answers(calls[len(reasons) :]):
                    reasons.append(_compared(answer, cases[len(reasons)].expected, equal))
        except _NoProgram as why:
            return CasesVerdict(reasons=tuple([why.reason] * len(cases)), detail=why.detail)
        finally:
            await solution.close()
        return CasesVerdict(reasons=tuple(reasons))

    async def _exchange(self, tests: Tests, box: _TestsBox, solution: _Solution) -> Verdict:
        seed = secrets.randbits(31)
        foreseen, is_fixed = self._plans.get(tests, ([], False))
        if not is_fixed:
            step = await box.rehearse(seed)
            if step is None:
                return Verdict(reason="tests", detail=box.why)
            foreseen = [call for each in step["calls"] if _travels(call := Call(*each))]
            self._remember(tests, foreseen)
        try:
            known = await solution.answers(foreseen)
            step = await box.begin(seed, list(zip(foreseen, known, strict=False)))
            while step is not None and step["kind"] == "call" and not solution.is_out_of_time:
                call = Call(step["args"], step["kwargs"])
                if not _travels(call):
                    return _stuck("arguments are no data", solution.answered)
                [answer] = await solution.answers([call])
                step = await box.answer(answer)
        except _NoProgram as why:
            return Verdict(reason=why.reason, detail=why.detail, calls=1)
        if step is None:
            return _stuck(box.why, solution.answered)
        calls = int(step["calls_made"])
        if solution.most_s is not None and (step["kind"] == "call" or step["spent_s"] > solution.most_s):
            detail = f"its calls took more than {solution.most_s:g} s together"
            return Verdict(reason="timeout", detail=detail, calls=calls)
        if step["kind"] == "many":
            return Verdict(reason="timeout", detail=f"more than {MOST_CALLS} calls", calls=calls)
        if step["kind"] == "lost":
            return Verdict(reason=str(step["lost"]), detail=str(step["detail"]), calls=calls)
        return Verdict(reason=step["kind"], detail=str(step.get("error", "")), calls=calls)

    def _remember(self, tests: Tests, foreseen: Sequence[Call]) -> None:
        """Keep a plan; one that was found twice, with other random numbers, is not looked for again."""
        before = self._plans.pop(tests, None)
        self._plans[tests] = (foreseen, before is not None and before[0] == foreseen)
        if len(self._plans) > _MOST_PLANS:
            self._plans.popitem(last=False)

    def _take(self, tests: Tests) -> _TestsBox:
        kept = self._idle.get(tests)
        return kept.pop() if kept else self._new(tests)

    def _new(self, tests: Tests) -> _TestsBox:
        return _TestsBox(tests, AsyncSandbox(limits=self._limits, **self._options))

    async def _give_back(self, tests: Tests, box: _TestsBox) -> None:
        box.was_kept = True
        if box.given_chars > _MOST_GIVEN_CHARS:
            await box.close()
            return
        self._idle.setdefault(tests, []).append(box)
        self._idle.move_to_end(tests)
        while sum(map(len, self._idle.values())) > _MOST_IDLE:
            oldest = next(iter(self._idle))
            boxes = self._idle[oldest]
            if not boxes:
                del self._idle[oldest]
                continue
            await boxes.pop(0).close()


class _TestsBox:
    """The sandbox of the tests of one problem, and the steps that are asked of it.

    Attributes:
        was_kept: Whether other solutions were judged in it.
        why: Why the tests gave no step; "" as long as they did.
        given_chars: Of all cells so far.
    """

    def __init__(self, tests: Tests, box: AsyncSandbox) -> None:
        self.box, self.was_kept = box, False
        self.why = ""
        self.given_chars = 0
        self._tests, self._is_ready = tests, False

    async def close(self) -> None:
        """End it. Idempotent."""
        await self.box.close()

    async def rehearse(self, seed: int) -> Mapping[str, Any] | None:
        """The calls that can be foreseen; None where the tests end their process."""
        return await self._step(f"_tests.rehearse({seed})")

    async def begin(self, seed: int, known: Sequence[tuple[Call, Mapping[str, Any]]]) -> Mapping[str, Any] | None:
        """Begin the tests; the first question, or the end."""
        return await self._step(f"_tests.begin({seed}, {json.dumps(known)!r})")

    async def answer(self, answer: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Go on; the next question, or the end."""
        return await self._step(f"_tests.answer({json.dumps(answer)!r})")

    async def _step(self, source: str) -> Mapping[str, Any] | None:
        """Run a cell of the tests.

        Raises:
            SandboxLost: The process is gone, perhaps by no fault of the tests; there is no verdict.
        """
        if not self._is_ready:
            source = f"{_tests_program(self._tests)}\n{source}"
            self._is_ready = True
        self.given_chars += len(source)
        try:
            step = await self.box.run(source)
        except InvalidArgument as error:
            if error.argument != "source":
                raise
            self.why = str(error)
            return None
        if may_be_killed_by_others(step):
            raise SandboxLost("the process of the tests was killed")
        asked = (step.value or {}).get("application/json") if step.ok else None
        if isinstance(asked, dict) and _is_a_step(asked):
            return asked
        self.why = "the tests ended, or ask too much" if step.ok else f"the tests ended as {step.outcome.value}"
        return None


def _is_a_step(asked: Mapping[str, Any]) -> bool:
    """Check the form of a question or an end: tests may say anything."""
    kind = asked.get("kind")
    if kind == "calls":
        calls = asked.get("calls")
        return isinstance(calls, list) and all(isinstance(call, list) and len(call) == 2 for call in calls)
    if kind not in _KINDS or not isinstance(asked.get("calls_made"), int):
        return False
    return isinstance(asked.get("spent_s"), int | float) and (kind != "call" or {"args", "kwargs"} <= asked.keys())


class _NoProgram(Exception):
    """The solution cannot be compiled."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason, self.detail = reason, detail[:_MOST_DETAIL]


class _Solution:
    """The sandbox of a solution; it is there from the first call on.

    After the end of its process there is a new one, without its files: a solution could have left so many that carrying
    them over takes minutes.

    Attributes:
        most_s: All calls together may take so long.
        answered: How many calls were made, whatever came of them.
    """

    def __init__(self, program: str, entry_point: str, limits: Limits, options: Mapping[str, Any]) -> None:
        self.most_s = None if limits.wall_s is None else MOST_CALL_TIMES * limits.wall_s
        self._program, self._entry_point, self._limits = program, entry_point, limits
        cpu_s = None if limits.cpu_s is None else MOST_CALL_TIMES * limits.cpu_s
        self._all = dataclasses.replace(limits, wall_s=self.most_s, cpu_s=cpu_s)
        self._options = options
        self.answered = 0
        self._box: AsyncSandbox | None = None
        self._spent_s = 0.0
        self._left_chars = _MOST_TOLD_CHARS

    @property
    def is_out_of_time(self) -> bool:
        """True once all calls so far took as long as all may."""
        return self.most_s is not None and self._spent_s >= self.most_s

    async def answers(self, calls: Sequence[Call]) -> Sequence[Mapping[str, Any]]:
        """Answers of the first of these calls, at least of one if there is one.

        Raises:
            _NoProgram: There is none that could be called.
        """
        if not calls:
            return []
        was_used = self._box is not None
        try:
            execution = await self._run(calls)
        except SandboxLost:
            if not was_used:
                raise
            await self.close()  # its process may have ended after its last answer
            execution = await self._run(calls)
        if execution.state != "kept":
            await self.close()
        self._spent_s += execution.usage.wall_s
        found = answers.read(execution)
        if not found:
            raise _NoProgram(*_why_none(execution))
        self.answered += len(found)
        rows, self._left_chars = await decoded(_told, found, self._left_chars)
        return rows

    async def _run(self, calls: Sequence[Call]) -> Execution:
        """Run the calls, and again if the process was killed: the host may have done that, and not the solution."""
        for left in reversed(range(_KILLED_TRIES)):
            execution = await self._run_once(calls)
            if not left or not may_be_killed_by_others(execution):
                break
            await self.close()
        return execution

    async def _run_once(self, calls: Sequence[Call]) -> Execution:
        try:
            return await self._open().run(
                self._program,
                mode="calls",
                call=self._entry_point,
                args=[(list(decode(call.args)), decode(call.kwargs)) for call in calls],
                **self._limits_of_a_call(),
            )
        except InvalidArgument as error:
            raise _NoProgram("error" if error.argument == "source" else "tests", str(error)) from None

    def _limits_of_a_call(self) -> dict[str, Any]:
        limits = {"call_wall_s": self._limits.wall_s, "call_cpu_s": self._limits.cpu_s}
        return {name: limit for name, limit in limits.items() if limit is not None}

    async def close(self) -> None:
        """End it. Idempotent."""
        box, self._box = self._box, None
        if box is not None:
            await box.close()

    def _open(self) -> AsyncSandbox:
        if self._box is None:
            self._box = AsyncSandbox(limits=self._all, **self._options)
        return self._box


def _travels(call: Call) -> bool:
    """Check that a sandbox can be given these arguments; a call that cannot travel is judged when the tests make it."""
    try:
        args, kwargs = decode(call.args), decode(call.kwargs)
        arguments.encode("args", [args, kwargs])
    except (InvalidArgument, NotData):
        return False
    # Tests may say anything, such as a range for the arguments, which would be made a list of 10^12 here.
    return isinstance(args, list | tuple) and isinstance(kwargs, dict) and all(isinstance(name, str) for name in kwargs)


def _stuck(why: str, answered: int) -> Verdict:
    """The verdict where the tests cannot go on."""
    if answered:
        return Verdict(reason="failed", detail=f"{why}, with results of the solution", calls=answered)
    return Verdict(reason="tests", detail=why)


def _told(found: Sequence[Answer], left_chars: int) -> tuple[list[Mapping[str, Any]], int]:
    """Answers for the tests, each with `value`, `raised` or `lost` as plain data; and how many characters are left."""
    rows = []
    for answer in found:
        if answer.lost:
            rows.append(_lost(answer))
        elif answer.raised:
            rows.append({"raised": answer.raised, "message": answer.message[:_MOST_DETAIL], "wall_s": answer.wall_s})
        else:
            try:
                left_chars -= len(json.dumps(answer.told)) if left_chars >= 0 else 0
                if left_chars < 0:
                    raise NotData(f"the results have more than {_MOST_TOLD_CHARS} characters together")
                rows.append({"value": encode(decode(answer.told), exact=False), "wall_s": answer.wall_s})
            except NotData as why:
                rows.append({"lost": "no-data", "detail": str(why)[:_MOST_DETAIL]})
    return rows, left_chars


def _compared(answer: Mapping[str, Any], expected: Any, equal: Callable[[Any, Any], bool]) -> str:
    if "lost" in answer:
        return str(answer["lost"])
    if "raised" in answer:
        return "failed"
    try:
        return "passed" if equal(decode(answer["value"]), expected) else "failed"
    except (ArithmeticError, RecursionError, TypeError, ValueError):
        return "failed"


def _lost(answer: Answer) -> Mapping[str, Any]:
    reason = _REASONS.get(answer.lost, answer.lost)
    details = {"ended": "the solution ended its process", "no-data": "the result is too large"}
    return {"lost": reason, "detail": details.get(reason, "")}


def _why_none(execution: Execution) -> tuple[str, str]:
    """Why a run has no answer at all, which no call of the program can bring about: it was not compiled."""
    error = execution.error
    if execution.outcome in (Outcome.TIMEOUT, Outcome.MEMORY):
        return execution.outcome.value, ""
    if error is not None and error.type in _NO_PROGRAM:
        return "error", f"{error.type}: {error.message}"
    if execution.outcome is Outcome.ERROR and execution.state == "kept" and error is not None:
        return "error", f"{error.type}: {error.message}"
    return "ended", "the solution ended its process"


def _tests_program(tests: Tests) -> str:
    """The cell that prepares the tests. Helpers of the prompt are there, the solution is not."""
    source = f"{tests.prompt}\n\n{tests.test}\n"
    made = f"Tests({source!r}, {tests.entry_point!r}, {MOST_CALLS})"
    return f"from groundbox.guest.python.remote_tests import Tests\n_tests = {made}"
