"""The loop: a model, a sandbox and checks, until there is an answer or a bound is reached.

It knows no agent framework. The sandbox is anything with `run` and `restart`, the model anything with `complete`.
Every reply counts as a turn, whatever is in it, and time and tokens are counted; so it ends. It tells what happens as
events; the last one is `Ended`, which says why.

Whose fault: what a program does wrong goes to the model as an observation; a sandbox whose process is gone is started
afresh a few times, and the model is told what was lost; anything else that groundbox or the model's host does wrong
ends the conversation.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from typing import Any, Final

from groundbox.agent.budget import tokens_of
from groundbox.agent.checks import Checks, NoChecks, Ran
from groundbox.agent.defusing import one_line
from groundbox.agent.events import Box, Ended, Ending, Event, Noticed, Observed, Replied, Started
from groundbox.agent.instructions import instructions, mend_text, question_text, tools
from groundbox.agent.messages import RUN, Message, Model, ModelFailed, Reply
from groundbox.agent.observation import Observation, observe
from groundbox.agent.outputs import Outputs
from groundbox.agent.repeats import Seen, program_key
from groundbox.agent.reply import Answer, Malformed, Read, Run, promises, steps_of
from groundbox.agent.turn import (
    Bounds,
    Spent,
    after_run,
    exhausted,
    judge_run,
    what_is_left,
)
from groundbox.errors import GroundboxError, InvalidArgument, LanguageUnavailable, SandboxLost
from groundbox.execution import Execution, Warning

LANGUAGES: Final = frozenset({"python", "sql", "shell", "javascript", "dot"})
_PICTURE_TOKENS: Final = 1500
_USUAL: Final = Bounds()


async def converse(
    question: str,
    *,
    model: Model,
    box: Box,
    files: Mapping[str, int] | None = None,
    databases: Collection[str] = (),
    languages: Collection[str] = LANGUAGES,
    checks: Checks | None = None,
    bounds: Bounds = _USUAL,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncGenerator[Event, None]:
    """Ask `question` and tell what happens.

    Args:
        files: What lies in the workdir, path to size in bytes, for the model to know.
        databases: Names that the box was given.
        clock: Seconds; another one for tests.
    """
    loop = _Loop(question, model, box, frozenset(databases), frozenset(languages), checks or NoChecks(), bounds, clock)
    async for event in loop.events(question_text(question, files or {})):
        yield event


class _Over(Exception):
    """The conversation ends here."""

    def __init__(self, ending: Ending, why: str) -> None:
        self.ending, self.why = ending, why


class _Loop:
    """The state of one conversation."""

    def __init__(
        self,
        question: str,
        model: Model,
        box: Box,
        databases: frozenset[str],
        languages: frozenset[str],
        checks: Checks,
        bounds: Bounds,
        clock: Callable[[], float],
    ) -> None:
        self._question, self._model, self._box, self._checks, self._bounds = question, model, box, checks, bounds
        self._languages, self._clock, self._begun = languages, clock, clock()
        self._tools = tools(languages, databases)
        self._messages = [Message(role="system", text=instructions(databases))]
        self._spent, self._seen, self._outputs = Spent(), Seen(), Outputs()
        self._runs: list[Ran] = []
        self._programs: set[str] = set()
        self._lost = False
        self._dollars: float | None = None
        self._promised = False
        self._malformed_turn = 0

    async def events(self, first: str) -> AsyncGenerator[Event, None]:
        """All of it."""
        self._messages.append(Message(role="user", text=first))
        try:
            while True:
                self._check()
                reply = await self._reply()
                yield Replied(turn=self._spent.turns, reply=reply)
                for step in steps_of(reply, self._languages, was_run=self._was_run):
                    if isinstance(step, Answer):
                        async for event in self._answered(step):
                            yield event
                            if isinstance(event, Ended):
                                return
                    else:
                        async for event in self._done(step):
                            yield event
        except _Over as over:
            yield self._ended(over.ending, why=over.why)

    async def _reply(self) -> Reply:
        left = self._left_s()
        try:
            reply = await asyncio.wait_for(self._model.complete(tuple(self._messages), tools=self._tools), left)
        except TimeoutError:
            self._note_time()
            raise _Over(Ending.BOUND, exhausted(self._spent, self._bounds) or "the model took too long") from None
        except ModelFailed as failure:
            raise _Over(Ending.MODEL, str(failure)) from failure
        sent = sum(map(_message_tokens, self._messages))
        said = tokens_of(reply.text) + sum(tokens_of(str(call.arguments)) for call in reply.calls)
        cost = reply.cost
        used = (sent if cost.input_tokens is None else cost.input_tokens) + (
            said if cost.output_tokens is None else cost.output_tokens
        )
        if cost.dollars is not None:
            self._dollars = (self._dollars or 0.0) + cost.dollars
        self._spent = dataclasses.replace(self._spent, turns=self._spent.turns + 1, tokens=self._spent.tokens + used)
        said_now = Message(role="assistant", text=reply.text, calls=tuple(reply.calls), native=reply.native)
        self._messages.append(said_now)
        return reply

    async def _done(self, step: Run | Read | Malformed) -> AsyncGenerator[Event, None]:
        if isinstance(step, Malformed):
            yield self._malformed(step.problem, step.call_id)
            self._check()
        elif isinstance(step, Read):
            text = await asyncio.to_thread(
                self._outputs.read,
                step.handle,
                lines=step.lines,
                pattern=step.pattern,
                max_tokens=self._bounds.shape.max_tokens,
            )
            yield self._notice("read", text, step.call_id)
            self._check()
        elif self._spent.runs >= self._bounds.max_runs:
            problem = (
                f"Not run: {self._spent.runs} programs were run, and no more are allowed. Answer with what was shown."
            )
            yield self._malformed(problem, step.call_id)
            self._check()
        else:
            async for event in self._run(step):
                yield event

    async def _run(self, step: Run) -> AsyncGenerator[Event, None]:
        restarted = await self._restart() if self._lost else ""
        number = self._spent.runs + 1
        yield Started(run=number, source=step.source, language=step.language, options=step.options)
        try:
            execution = await self._executed(step)
        except (InvalidArgument, LanguageUnavailable) as error:
            yield self._malformed(f"Not run. {one_line(str(error))}", step.call_id)
            self._check()
            return
        except SandboxLost:
            self._lost = True
            restarted = await self._restart()
            text = f"Not run: {restarted} Run again what the next program needs."
            yield self._notice("restart", text, step.call_id)
            return
        except GroundboxError as error:
            raise _Over(Ending.SANDBOX, str(error)) from error
        self._programs.add(program_key(step.source, step.language))
        self._runs.append(Ran(source=step.source, language=step.language, execution=execution, options=step.options))
        self._outputs.keep(number, execution)
        self._lost = execution.state == "lost"
        yield await self._judged(step, execution, number, restarted)
        self._check(same_failure=self._seen.count(execution, step.source))

    async def _judged(self, step: Run, execution: Execution, number: int, restarted: str) -> Observed:
        findings: Sequence[Warning] = ()
        if execution.ok:
            findings = await self._checks.of_run(self._runs[-1], self._question)
        self._seen = self._seen.after(execution, step.source)
        decision = judge_run(execution, [*execution.warnings, *findings], self._seen, step.source)
        self._spent = after_run(self._spent, decision)
        self._note_time()
        notes = [*([restarted] if restarted else []), *decision.hints, what_is_left(self._spent, self._bounds)]
        observation = observe(execution, run=number, findings=findings, notes=notes, shape=self._bounds.shape)
        self._tell(observation, step.call_id)
        return Observed(
            run=number,
            source=step.source,
            execution=execution,
            findings=findings,
            decision=decision,
            observation=observation,
        )

    async def _executed(self, step: Run) -> Execution:
        options = {**self._checks.run_options(step.language), **step.options}
        if (left := self._left_s()) is not None:
            options["wall_s"] = left
        return await self._box.run(step.source, language=step.language, **options)

    async def _restart(self) -> str:
        self._spent = dataclasses.replace(self._spent, restarts=self._spent.restarts + 1)
        self._check()
        try:
            lost = await self._box.restart()
        except GroundboxError as error:
            raise _Over(Ending.SANDBOX, str(error)) from error
        self._lost = False
        files = f"{len(lost)} files could not be kept." if lost else "Files were kept."
        return f"The sandbox was started afresh before this run: variables of earlier runs are gone. {files}"

    async def _answered(self, step: Answer) -> AsyncGenerator[Event, None]:
        if promises(step.text) and not self._promised:
            self._promised = True
            text = f"That says what will be done. Do it now with {RUN}, or write the answer itself."
            yield self._notice("promise", text)
            return
        receipts = await self._checks.of_answer(step.text, self._runs, self._question)
        unsupported = receipts.unsupported
        if unsupported and self._spent.mends < self._bounds.max_mends and not self._would_end():
            self._spent = dataclasses.replace(self._spent, mends=self._spent.mends + 1)
            yield self._notice("mend", mend_text(unsupported))
            return
        yield self._ended(Ending.ANSWERED, answer=step.text, unsupported=unsupported, receipts=receipts.report)

    def _malformed(self, problem: str, call_id: str) -> Noticed:
        if self._malformed_turn != self._spent.turns:
            self._malformed_turn = self._spent.turns
            self._spent = dataclasses.replace(self._spent, malformed=self._spent.malformed + 1)
        return self._notice("malformed", f"{problem}\n{what_is_left(self._spent, self._bounds)}", call_id)

    def _notice(self, kind: str, text: str, call_id: str = "") -> Noticed:
        self._tell(Observation(text=text), call_id)
        return Noticed(kind=kind, text=text)

    def _tell(self, observation: Observation, call_id: str) -> None:
        role = "tool" if call_id else "user"
        told = Message(role=role, text=observation.text, pictures=tuple(observation.pictures), call_id=call_id)
        self._messages.append(told)

    def _was_run(self, source: str, language: str) -> bool:
        return program_key(source, language) in self._programs

    def _left_s(self) -> float | None:
        if self._bounds.wall_s is None:
            return None
        return max(0.001, self._bounds.wall_s - (self._clock() - self._begun))

    def _note_time(self) -> None:
        self._spent = dataclasses.replace(self._spent, wall_s=self._clock() - self._begun)

    def _would_end(self) -> bool:
        self._note_time()
        return bool(exhausted(self._spent, self._bounds))

    def _check(self, *, same_failure: int = 0) -> None:
        self._note_time()
        if why := exhausted(self._spent, self._bounds, same_failure=same_failure):
            raise _Over(Ending.BOUND, why)

    def _ended(self, ending: Ending, **told: Any) -> Ended:
        self._note_time()
        executions = tuple(ran.execution for ran in self._runs)
        return Ended(ending=ending, spent=self._spent, dollars=self._dollars, executions=executions, **told)


def _message_tokens(message: Message) -> int:
    calls = sum(tokens_of(str(call.arguments)) for call in message.calls)
    return tokens_of(message.text) + calls + _PICTURE_TOKENS * len(message.pictures)
