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
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from groundbox.agent.budget import tokens_of
from groundbox.agent.checks import Checks, NoChecks
from groundbox.agent.events import Box, Ended, Ending, Event, Noticed, Observed, Replied, Started
from groundbox.agent.instructions import instructions, mend_text, question_text, tools, tried_text
from groundbox.agent.messages import RUN, Message, Model, ModelFailed, Reply, Tool
from groundbox.agent.pictures import Picture
from groundbox.agent.reply import Answer, Keep, Malformed, Read, Run, Step, Try, promises, steps_of
from groundbox.agent.session import Over, Session
from groundbox.agent.turn import Bounds

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
    branches: int = 1,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncGenerator[Event, None]:
    """Ask `question` and tell what happens.

    Args:
        files: What lies in the workdir, path to size in bytes, for the model to know.
        databases: Names that the box was given.
        branches: How many programs the model may try side by side, each on a copy of the state (`Box.fork`).
        clock: Seconds; another one for tests.
    """
    checks = checks or NoChecks()
    session = Session(box, checks=checks, bounds=bounds, question=question, clock=clock)
    asked = question_text(question, files or {})
    loop = _Loop(asked, model, session, tools(languages, databases, branches=branches), checks, branches)
    told = instructions(databases, branches=branches)
    first = [Message(role="system", text=told), Message(role="user", text=asked)]
    try:
        async for event in loop.events(first, languages=languages):
            yield event
    finally:
        await session.close()


class _Loop:
    """The state of one conversation."""

    def __init__(
        self,
        question: str,
        model: Model,
        session: Session,
        tools: Sequence[Tool],
        checks: Checks,
        branches: int,
    ) -> None:
        self._question, self._model, self._session, self._checks = question, model, session, checks
        self._tools, self._branches = tools, branches
        self._messages: list[Message] = []
        self._dollars: float | None = None
        self._promised = False

    async def events(self, first: Sequence[Message], *, languages: Collection[str]) -> AsyncGenerator[Event, None]:
        """All of it, after the first messages."""
        self._messages += first
        session = self._session
        try:
            while True:
                session.check()
                reply = await self._reply()
                yield Replied(turn=session.spent.turns, reply=reply)
                for step in steps_of(reply, languages, was_run=session.was_run, branches=self._branches):
                    for started in self._begun(step):
                        yield started
                    for event in await self._done(step):
                        yield event
                        if isinstance(event, Ended):
                            return
                    session.check()
        except Over as over:
            yield self._ended(over.ending, why=over.why)

    async def _reply(self) -> Reply:
        session = self._session
        try:
            asked = self._model.complete(tuple(self._messages), tools=self._tools)
            reply = await asyncio.wait_for(asked, session.left_s())
        except TimeoutError:
            raise Over(Ending.BOUND, session.exhausted() or "the model took too long") from None
        except ModelFailed as failure:
            raise Over(Ending.MODEL, str(failure)) from failure
        if reply.cost.dollars is not None:
            self._dollars = (self._dollars or 0.0) + reply.cost.dollars
        used = _tokens(reply, self._messages)
        spent = session.spent
        session.spent = dataclasses.replace(spent, turns=spent.turns + 1, tokens=spent.tokens + used)
        now = Message(role="assistant", text=reply.text, calls=tuple(reply.calls), native=reply.native)
        self._messages.append(now)
        return reply

    def _begun(self, step: Step) -> Iterator[Started]:
        programs = step.programs if isinstance(step, Try) else [step] if isinstance(step, Run) else []
        first, most = self._session.spent.runs + 1, self._session.bounds.max_runs
        beside = tuple(range(first, first + len(programs))) if isinstance(step, Try) else ()
        if first + len(programs) - 1 <= most:
            for number, each in enumerate(programs, first):
                yield Started(
                    run=number, source=each.source, language=each.language, options=each.options, beside=beside
                )

    async def _done(self, step: Step) -> Sequence[Observed | Noticed | Ended]:
        if isinstance(step, Answer):
            return [await self._answered(step)]
        event: Observed | Noticed | list[Observed]
        if isinstance(step, Malformed):
            event = self._session.malformed(step.problem)
        elif isinstance(step, Read):
            event = Noticed(kind="read", text=await self._session.read(step))
        elif isinstance(step, Keep):
            event = await self._session.keep(step)
        elif isinstance(step, Try):
            event = await self._session.try_out(step)
        else:
            event = await self._session.run(step)
        if isinstance(event, Noticed):
            self._tell(event.text, step.call_id)
            return [event]
        shown = event if isinstance(event, list) else [event]
        texts = [each.observation.text for each in shown]
        if isinstance(step, Try):
            texts = [tried_text([each.run for each in shown]), *texts]
        pictures = [picture for each in shown for picture in each.observation.pictures]
        self._tell("\n\n".join(texts), step.call_id, pictures)
        return shown

    async def _answered(self, step: Answer) -> Noticed | Ended:
        if not step.marked and not self._promised and promises(step.text):
            self._promised = True
            return self._notice("promise", f"That says what will be done. Do it now with {RUN}, or write the answer.")
        session = self._session
        receipts = await self._checks.of_answer(step.text, session.runs, self._question)
        unsupported = receipts.unsupported
        if unsupported and session.spent.mends < session.bounds.max_mends and not session.exhausted():
            session.spent = dataclasses.replace(session.spent, mends=session.spent.mends + 1)
            return self._notice("mend", mend_text(unsupported))
        return self._ended(Ending.ANSWERED, answer=step.text, unsupported=unsupported, receipts=receipts.report)

    def _notice(self, kind: str, text: str) -> Noticed:
        self._tell(text, "")
        return Noticed(kind=kind, text=text)

    def _tell(self, text: str, call_id: str, pictures: Sequence[Picture] = ()) -> None:
        role = "tool" if call_id else "user"
        self._messages.append(Message(role=role, text=text, pictures=tuple(pictures), call_id=call_id))

    def _ended(self, ending: Ending, **told: Any) -> Ended:
        self._session.exhausted()
        executions = tuple(ran.execution for ran in self._session.runs)
        return Ended(ending=ending, spent=self._session.spent, dollars=self._dollars, executions=executions, **told)


def _tokens(reply: Reply, sent: Sequence[Message]) -> int:
    """Of the request and the reply, as far as the model's host counts them, and estimated otherwise."""
    cost = reply.cost
    said = tokens_of(reply.text) + sum(tokens_of(str(call.arguments)) for call in reply.calls)
    asked = sum(map(_message_tokens, sent)) if cost.input_tokens is None else cost.input_tokens
    return asked + (said if cost.output_tokens is None else cost.output_tokens)


def _message_tokens(message: Message) -> int:
    calls = sum(tokens_of(str(call.arguments)) for call in message.calls)
    return tokens_of(message.text) + calls + _PICTURE_TOKENS * len(message.pictures)
