"""Runs of one conversation on one sandbox: each judged, observed and counted; whoever drives it.

Our loop drives it, and so does the toolset of another framework's agent: both show a model the same.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable

from groundbox.agent.checks import Checks, Ran
from groundbox.agent.defusing import one_line
from groundbox.agent.events import Box, Ending, Noticed, Observed
from groundbox.agent.observation import observe
from groundbox.agent.outputs import Outputs
from groundbox.agent.repeats import Seen, program_key
from groundbox.agent.reply import Read, Run
from groundbox.agent.turn import Bounds, Spent, after_run, exhausted, judge_run, what_is_left
from groundbox.check.contracts import check_contract
from groundbox.errors import GroundboxError, InvalidArgument, LanguageUnavailable, SandboxLost
from groundbox.execution import Execution


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
            execution = await self._executed(step)
        except (InvalidArgument, LanguageUnavailable) as error:
            return self.malformed(f"Not run. {one_line(str(error))}")
        except SandboxLost:
            restarted = await self._restart()
            return Noticed(kind="restart", text=f"Not run: {restarted} Run again what the next program needs.")
        except GroundboxError as error:
            raise Over(Ending.SANDBOX, str(error)) from error
        ran = Ran(
            source=step.source,
            language=step.language,
            execution=execution,
            options=step.options,
            expect=step.expect,
            box=self._box,
        )
        self._programs.add(program_key(step.source, step.language))
        self.runs.append(ran)
        self._lost = execution.state != "kept"
        return await self._judged(ran, restarted)

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

    async def _executed(self, step: Run) -> Execution:
        options = {**self._checks.run_options(step.language), **step.options}
        if (left := self.left_s()) is not None:
            options["wall_s"] = left
        return await self._box.run(step.source, language=step.language, **options)

    async def _judged(self, ran: Ran, restarted: str) -> Observed:
        execution, number = ran.execution, self.spent.runs + 1
        findings = list(await self._checks.of_run(ran, self._question)) if execution.ok else []
        if execution.ok and ran.expect is not None:
            findings += check_contract(execution, ran.expect)
        self._seen = self._seen.after(execution, ran.source)
        self._last_failure = self._seen.count(execution, ran.source)
        decision = judge_run(execution, [*execution.warnings, *findings], self._seen, ran.source)
        self.spent = after_run(self.spent, decision)
        self.exhausted()
        self._outputs.keep(number, execution)
        notes = [*([restarted] if restarted else []), *decision.hints, *self._left()]
        return Observed(
            run=number,
            source=ran.source,
            execution=execution,
            findings=findings,
            decision=decision,
            observation=observe(execution, run=number, findings=findings, notes=notes, shape=self.bounds.shape),
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
