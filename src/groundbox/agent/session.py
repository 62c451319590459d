"""Runs of one conversation on one sandbox: each judged, observed and counted; whoever drives it.

Our loop drives it, and so does the toolset of another framework's agent: both show a model the same.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, cast

from groundbox.agent.checks import Checks, Ran
from groundbox.agent.defusing import one_line
from groundbox.agent.events import Box, BranchingBox, Ending, Noticed, Observed
from groundbox.agent.observation import observe
from groundbox.agent.outputs import Outputs
from groundbox.agent.repeats import Seen, program_key
from groundbox.agent.reply import Keep, Read, Run, Try
from groundbox.agent.turn import Bounds, Decision, Spent, after_run, after_tries, exhausted, judge_run, what_is_left
from groundbox.check.contract_results import check_contract
from groundbox.errors import GroundboxError, InvalidArgument, LanguageUnavailable, SandboxBusy, SandboxLost
from groundbox.execution import Execution, Warning


class Over(Exception):
    """Nothing more can be run in this conversation."""

    def __init__(self, ending: Ending, why: str) -> None:
        super().__init__(why)
        self.ending, self.why = ending, why


class Session:
    """The state of the runs.

    Attributes:
        spent: Replaced as it grows; a driver counts its own turns and tokens into it.
        runs: Every program that was run, with what came of it.
    """

    def __init__(
        self,
        box: Box,
        *,
        checks: Checks,
        bounds: Bounds,
        question: str = "",
        turns_counted: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Args:
        turns_counted: Whether a driver counts turns and tokens into `spent`; otherwise another framework does.
        """
        self._box, self._checks, self._question = box, checks, question
        self._copy: BranchingBox | None = None
        self._tried: dict[int, BranchingBox] = {}
        self._clock, self._begun = clock, clock()
        self._seen, self._outputs, self._programs = Seen(), Outputs(), set[str]()
        self._lost = False
        self._turn = asyncio.Lock()
        self._last_failure = 0
        self._malformed_turn = -1
        self._turns_counted = turns_counted
        self.bounds, self.spent = bounds, Spent()
        self.runs: list[Ran] = []

    async def run(self, step: Run) -> Observed | Noticed:
        """Run one program and check it, before the next one; a notice says why one was not run.

        Raises:
            Over: The sandbox cannot be had.
        """
        async with self._turn:
            return await self._run(step)

    async def _run(self, step: Run) -> Observed | Noticed:
        if self.spent.runs >= self.bounds.max_runs:
            problem = (
                f"Not run: {self.spent.runs} programs were run and no more are allowed. Answer with what was shown."
            )
            return self.malformed(problem)
        restarted = await self._restart() if self._lost else ""
        try:
            execution = await self._executed(step, self._box)
        except (InvalidArgument, LanguageUnavailable, SandboxLost) as error:
            return await self._not_run(error)
        except GroundboxError as error:
            raise Over(Ending.SANDBOX, str(error)) from error
        self._lost = execution.state != "kept"
        ran = _ran(step, execution, self._box)
        decision, findings = await self._judged(ran)
        self.spent = after_run(self.spent, decision)
        return self._observed(ran, decision, findings, [*([restarted] if restarted else []), *decision.hints])

    async def try_out(self, step: Try) -> list[Observed] | Noticed:
        """Run programs side by side, each on a copy of the state, which stays as it is; a notice says why none was run.

        The box has to be a BranchingBox. The copies are kept until `keep`, the next ones, or `close`.

        Raises:
            Over: The sandbox cannot be had.
        """
        async with self._turn:
            return await self._try_out(step)

    async def _try_out(self, step: Try) -> list[Observed] | Noticed:
        programs, left = step.programs, self.bounds.max_runs - self.spent.runs
        if len(programs) > left:
            return self.malformed(f"Not run: {len(programs)} programs, and {max(0, left)} more are allowed.")
        restarted = await self._restart() if self._lost else ""
        await self._drop()
        try:
            boxes = await cast("BranchingBox", self._box).fork(len(programs))
        except SandboxBusy as busy:
            return _one_after_the_other(busy)
        except SandboxLost as error:
            return await self._not_run(error)
        except GroundboxError as error:
            raise Over(Ending.SANDBOX, str(error)) from error
        try:
            ended = await _all_of([self._executed(each, box) for each, box in zip(programs, boxes, strict=True)])
        except SandboxLost as lost:  # a copy: what it was copied from is there
            await _close(boxes)
            return _one_after_the_other(lost)
        except (InvalidArgument, LanguageUnavailable) as error:
            await _close(boxes)
            return await self._not_run(error)
        except GroundboxError as error:
            await _close(boxes)
            raise Over(Ending.SANDBOX, str(error)) from error
        except BaseException:
            await _close(boxes)
            raise
        first = self.spent.runs + 1
        beside = tuple(range(first, first + len(programs)))
        self._tried = dict(zip(beside, boxes, strict=True))
        tried = [_ran(*each) for each in zip(programs, ended, boxes, strict=True)]
        judged = await self._all_judged(tried)
        before, after = self.spent, after_tries(self.spent, [decision for decision, _ in judged])
        observed = []
        for number, (ran, (decision, findings)) in enumerate(zip(tried, judged, strict=True)):
            self.spent = dataclasses.replace(before, runs=before.runs + number + 1, retries=after.retries)
            told = [restarted] if restarted and not number else []
            observed.append(self._observed(ran, decision, findings, told + list(decision.hints), beside=beside))
        self.spent = after
        return observed

    async def _all_judged(self, tried: Sequence[Ran]) -> list[tuple[Decision, list[Warning]]]:
        """Each as if it were the only one. A failure that they share counts once, and none where one went well."""
        before, judged, failures = self._seen, [], []
        after = before
        for ran in tried:
            self._seen = before
            judged.append(await self._judged(ran))
            after = after.together(self._seen)
            failures.append(self._last_failure)
        self._seen, self._last_failure = after, min(failures)
        return judged

    async def keep(self, step: Keep) -> Noticed:
        """Go on from the state that one of the last programs tried has left."""
        async with self._turn:
            box = self._tried.get(step.run)
            if box is None:
                there = ", ".join(map(str, self._tried)) or "none"
                return self.malformed(f"There is no copy that run {step.run} has left. Those there are: {there}.")
            del self._tried[step.run]
            ended = self.runs[step.run - 1].execution
            await self._drop()
            if self._copy is not None:  # the first is its owner's
                await self._copy.close()
            self._box = self._copy = box
            self._lost = ended.state != "kept"
            text = f"Run {step.run} is kept: variables and files are as it left them."
            return Noticed(kind="kept", text="\n".join([text, *self._left()]), run=step.run)

    async def close(self) -> None:
        """End every copy; the sandbox that was given is its owner's."""
        await self._drop()
        if self._copy is not None:
            await self._copy.close()

    async def _drop(self) -> None:
        boxes, self._tried = list(self._tried.values()), {}
        await _close(boxes)

    async def read(self, step: Read) -> str:
        """What is at a handle, read in a thread: it may be long."""
        most = self.bounds.shape.max_tokens
        return await asyncio.to_thread(
            self._outputs.read, step.handle, lines=step.lines, pattern=step.pattern, max_tokens=most
        )

    def malformed(self, problem: str) -> Noticed:
        """A reply that nothing can be done with, counted once for each turn."""
        if self._malformed_turn != self.spent.turns or not self._turns_counted:
            self._malformed_turn = self.spent.turns
            self.spent = dataclasses.replace(self.spent, malformed=self.spent.malformed + 1)
        return Noticed(kind="malformed", text="\n".join([problem, *self._left()]))

    def was_run(self, source: str, language: str) -> bool:
        """Whether this program was run before."""
        return program_key(source, language) in self._programs

    def left_s(self) -> float | None:
        """Seconds that are left; never 0, so that it can be a limit."""
        if self.bounds.wall_s is None:
            return None
        return max(0.001, self.bounds.wall_s - (self._clock() - self._begun))

    def exhausted(self) -> str:
        """The bound that is reached, or ""."""
        self.spent = dataclasses.replace(self.spent, wall_s=self._clock() - self._begun)
        return exhausted(self.spent, self.bounds, same_failure=self._last_failure)

    def check(self) -> None:
        """Raises:
        Over: A bound is reached.
        """
        if why := self.exhausted():
            raise Over(Ending.BOUND, why)

    async def _not_run(self, error: InvalidArgument | LanguageUnavailable | SandboxLost) -> Noticed:
        """What the model is told of a program that was not begun."""
        if not isinstance(error, SandboxLost):
            return self.malformed(f"Not run. {one_line(str(error))}")
        restarted = await self._restart()
        return Noticed(kind="restart", text=f"Not run: {restarted} Run again what the next program needs.")

    async def _executed(self, step: Run, box: Box) -> Execution:
        options = {**self._checks.run_options(step.language), **step.options}
        if (left := self.left_s()) is not None:
            options["wall_s"] = left
        execution = await box.run(step.source, language=step.language, **options)
        # The time that is left of the question is often longer than a run may be; nobody asked for so much.
        own = [warning for warning in execution.warnings if warning.code != "run.limit_cut"]
        return dataclasses.replace(execution, warnings=tuple(own))

    async def _judged(self, ran: Ran) -> tuple[Decision, list[Warning]]:
        """A verdict on a run, and what checks found in it."""
        execution = ran.execution
        self._programs.add(program_key(ran.source, ran.language))
        self.runs.append(ran)
        findings = list(await self._checks.of_run(ran, self._question)) if execution.ok else []
        if execution.ok and ran.expect is not None:
            findings += check_contract(execution, ran.expect)
        self._seen = self._seen.after(execution, ran.source)
        self._last_failure = self._seen.count(execution, ran.source)
        return judge_run(execution, [*execution.warnings, *findings], self._seen, ran.source), findings

    def _observed(
        self,
        ran: Ran,
        decision: Decision,
        findings: Sequence[Warning],
        notes: Sequence[str],
        *,
        beside: Sequence[int] = (),
    ) -> Observed:
        """The run that was counted last, as the model is shown it."""
        self.exhausted()
        execution, number = ran.execution, self.spent.runs
        self._outputs.keep(number, execution)
        notes = [*notes, *(self._left() if not beside or number == beside[-1] else [])]
        return Observed(
            run=number,
            source=ran.source,
            execution=execution,
            findings=findings,
            decision=decision,
            observation=observe(execution, run=number, findings=findings, notes=notes, shape=self.bounds.shape),
            beside=beside,
        )

    def _left(self) -> list[str]:
        line = what_is_left(self.spent, self.bounds, turns_counted=self._turns_counted)
        return [line] if line else []

    async def _restart(self) -> str:
        self.spent = dataclasses.replace(self.spent, restarts=self.spent.restarts + 1)
        self.check()
        try:
            lost = await self._box.restart()
        except GroundboxError as error:
            raise Over(Ending.SANDBOX, str(error)) from error
        self._lost = False
        files = f"{len(lost)} files could not be kept." if lost else "Files were kept."
        return f"The sandbox was started afresh before this run: variables of earlier runs are gone. {files}"


def _ran(step: Run, execution: Execution, box: Box) -> Ran:
    return Ran(
        source=step.source,
        language=step.language,
        execution=execution,
        options=step.options,
        expect=step.expect,
        box=box,
    )


def _one_after_the_other(error: SandboxBusy | SandboxLost) -> Noticed:
    return Noticed(kind="busy", text=f"Not run: {one_line(str(error))}. Run the programs one after the other.")


async def _all_of(runs: Sequence[Coroutine[Any, Any, Execution]]) -> list[Execution]:
    """All at once. Where one fails by our fault, the others are ended before that is raised."""
    tasks = [asyncio.ensure_future(each) for each in runs]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise


async def _close(boxes: Sequence[BranchingBox]) -> None:
    await asyncio.gather(*(each.close() for each in boxes))
