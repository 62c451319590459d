"""One model on one suite: every question asked once, every reply judged, and the figures of all of them.

Theory of operation. As many workers as may ask at once take the questions one after the other. While a worker waits for
a reply, the run that the question is about is recorded; the reply then goes to a judge, and the worker to its next
question, so that the model never waits for a judge. Replies are kept as they come, results as they are judged, so a
kill costs the replies that were under way, and nothing is asked twice. A question that gets no reply is listed and
counts for nothing; when many get none one after the other, the run ends and can be gone on with.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import json
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from groundbox.dataset.executor import Executor, Shard
from groundbox.dataset.item_runs import compressed
from groundbox.dataset.progress import Progress, Quiet
from groundbox.dataset.translation.answer_cache import Reply
from groundbox.endpoint.chat import EndpointFailed, RequestRefused
from groundbox.errors import GroundboxError
from groundbox.learn.evaluation import replies, steps
from groundbox.learn.evaluation.asking import NotRecorded, Source
from groundbox.learn.evaluation.measures import repeated
from groundbox.learn.evaluation.report import report_of
from groundbox.learn.evaluation.results import Result, Results
from groundbox.learn.evaluation.suites import Aggregating, Conversing, Judged, Means, Question, Suite

MOST_IN_A_ROW: Final = 32
"""Questions without a reply, one after the other, after which the endpoint is taken to be gone; before its first reply,
so many as are asked at once."""
_WAITING_JUDGES: Final = 4
"""Replies that wait for a judge, for each worker that asks: memory is bounded by them."""
_MOST_DETAIL: Final = 500
_NOTHING: Final = "stop"
"""How a reply ended that nobody was asked for, as of a solver that works without a model."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tools:
    """Who does the work.

    Attributes:
        at_once: Questions that wait for a reply at the same time.
        judges: Replies that are judged at the same time.
        proof_cpu_s: Processor seconds for the steps of one reply.
    """

    means: Means
    executor: Executor
    at_once: int = 16
    judges: int = 2
    proof_cpu_s: float = 20.0
    progress: Progress = dataclasses.field(default_factory=Quiet)


def drawn(questions: Sequence[Question], limit: int | None, seed: int) -> list[Question]:
    """So many questions by chance, in their order; those of a smaller limit are among those of a larger one."""
    if limit is None or limit >= len(questions):
        return list(questions)
    order = list(range(len(questions)))
    random.Random(f"questions/{seed}").shuffle(order)
    return [questions[place] for place in sorted(order[:limit])]


def prompts_digest(questions: Sequence[Question]) -> str:
    """Names the ids and the words of all questions of a suite."""
    found = hashlib.sha256()
    for each in questions:
        rest = [list(map(dict, each.messages)), dict(each.options)] if each.messages or each.options else []
        found.update(json.dumps([each.id, each.prompt, *rest]).encode())
    return found.hexdigest()


async def evaluate(
    suite: Suite | Conversing,
    asked: Sequence[Question],
    source: Source,
    results: Results,
    facts: Mapping[str, Any],
    tools: Tools,
) -> dict[str, Any]:
    """Ask and judge what is not judged yet; the report, which is in the folder, too.

    Args:
        facts: What the report says besides the figures.

    Raises:
        EndpointFailed: No reply comes any more; what was answered is kept.
    """
    begun = time.monotonic()
    work = _Evaluation(suite, source, results, tools)
    if isinstance(suite, Conversing):
        results.kept.clear()  # it judges all anew, from replies that are kept
    known = len([each for each in asked if each.id in results.kept])
    await work.carry_through(asked)
    tools.progress.end()
    found = [results.kept[each.id] for each in asked if each.id in results.kept]
    report = {
        **facts,
        "questions": len(suite.questions),
        "asked": len(asked),
        "left_out": dict(suite.left_out),
        **report_of(found),
        **({"metrics": await _metrics(suite, found)} if isinstance(suite, Aggregating) else {}),
        "unanswered": [{"id": name, "why": why} for name, why in sorted(work.unanswered.items())],
        "unjudged": [{"id": name, "why": why} for name, why in sorted(work.unjudged.items())],
        "judged_before": known,
        "seconds": round(time.monotonic() - begun, 3),
    }
    results.finish([each.id for each in asked], report)
    return report


async def _metrics(suite: Aggregating, found: Sequence[Result]) -> dict[str, Any]:
    """Figures of a suite's own metrics, for each group; in the order of the questions."""
    values: dict[str, dict[str, list[Any]]] = {}
    for each in found:
        for name, value in (each.metrics or {}).items():
            values.setdefault(each.group, {}).setdefault(name, []).append(value)
    return {group: dict(figures) for group, figures in (await suite.aggregate(values)).items()}


class _Evaluation:
    """The work on one suite.

    Attributes:
        unanswered: Why questions got no reply, by id.
        unjudged: Why replies could not be judged, by id.
        gone: The error after which the endpoint is taken to be gone; None as long as it is not.
    """

    def __init__(self, suite: Suite | Conversing, source: Source, results: Results, tools: Tools) -> None:
        self.unanswered: dict[str, str] = {}
        self.unjudged: dict[str, str] = {}
        self.gone: EndpointFailed | None = None
        self._suite, self._source, self._results, self._tools = suite, source, results, tools
        self._in_a_row, self._answered = 0, False
        self._done = self._total = 0
        self._judges = asyncio.Semaphore(tools.judges)
        self._room = asyncio.Semaphore(_WAITING_JUDGES * tools.at_once)
        self._numbers = iter(range(1 << 62))

    async def carry_through(self, asked: Sequence[Question]) -> None:
        kept = self._results.kept
        left = [each for each in asked if each.id not in kept]
        self._total, self._done = len(asked), len(asked) - len(left)
        self._tools.progress.step("eval", self._done, self._total, resumed=True)
        if isinstance(self._suite, Conversing):
            await self._converse(self._suite, left)
            if self.gone is not None:
                raise self.gone
            return
        queue = iter(left)
        try:
            async with asyncio.TaskGroup() as group:
                if any(each.run is not None for each in left):
                    group.create_task(self._warm())
                for _ in range(min(self._tools.at_once, len(left))):
                    group.create_task(self._worker(queue, group))
        except* GroundboxError as errors:
            raise _first(errors) from None

    async def _converse(self, suite: Conversing, asked: Sequence[Question]) -> None:
        for each in await suite.converse(asked, self._ask, self._tools.at_once):
            name = each.question.id
            if each.judged is None:
                (self.unjudged if each.replies else self.unanswered)[name] = each.why[:_MOST_DETAIL]
                continue
            last = (
                each.replies[-1]
                if each.replies
                else Reply(text="", finish=_NOTHING, prompt_tokens=0, completion_tokens=0)
            )
            whole = dataclasses.replace(
                last,
                prompt_tokens=sum(reply.prompt_tokens for reply in each.replies),
                completion_tokens=sum(reply.completion_tokens for reply in each.replies),
            )
            self._keep(each.question, whole, replies.read(last), each.judged)

    async def _ask(self, question: Question) -> Reply:
        """The reply to one of many requests about a question."""
        try:
            reply = await self._source.answer(question)
        except (RequestRefused, NotRecorded):
            raise
        except EndpointFailed as error:
            self._missed(error)
            raise
        self._in_a_row, self._answered = 0, True
        return reply

    async def _warm(self) -> None:
        """Have processes that prove started while the first replies are waited for."""
        shards = [Shard(stage=steps.STAGE, number=next(self._numbers), payload=None) for _ in range(self._tools.judges)]
        with contextlib.suppress(GroundboxError):
            await asyncio.gather(*(self._tools.executor.compute(steps.nothing, shard) for shard in shards))

    async def _worker(self, queue: Iterator[Question], group: asyncio.TaskGroup) -> None:
        for question in queue:
            await self._room.acquire()
            recording = asyncio.ensure_future(self._recorded(question))
            try:
                reply = await self._reply(question)
            except BaseException:
                recording.cancel()
                raise
            if reply is None:
                recording.cancel()
                self._step()
            else:
                group.create_task(self._judge(question, reply, recording))

    async def _reply(self, question: Question) -> Reply | None:
        """The reply; None where there is none to this question."""
        try:
            reply = await self._source.answer(question)
        except (RequestRefused, NotRecorded) as error:
            self.unanswered[question.id] = str(error)[:_MOST_DETAIL]
            return None
        except EndpointFailed as error:
            self.unanswered[question.id] = str(error)[:_MOST_DETAIL]
            if self._missed(error):
                raise
            return None
        self._in_a_row, self._answered = 0, True
        return reply

    def _missed(self, error: EndpointFailed) -> bool:
        """Count a request without a reply; True once the endpoint is taken to be gone."""
        self._in_a_row += 1
        if self._in_a_row >= min(self._total, MOST_IN_A_ROW if self._answered else self._tools.at_once):
            self.gone = error
        return self.gone is not None

    async def _recorded(self, question: Question) -> bytes | str:
        """The trace of the run that a question is about, compressed; or why there is none, "" where none is wanted."""
        if question.run is None:
            return ""
        try:
            ran = await self._tools.means.runner.run(question.run)
        except GroundboxError as error:
            return f"sandbox: {error}"[:_MOST_DETAIL]
        if ran.trace is None or not ran.trace.complete:
            return f"the run was not recorded whole ({ran.outcome})"
        return await asyncio.to_thread(compressed, ran.trace)

    async def _judge(self, question: Question, reply: Reply, recording: asyncio.Future[bytes | str]) -> None:
        said = replies.read(reply)
        try:
            async with self._judges:
                judged = await self._judged(question, said)
            found, why = await self._steps(question, said, await recording)
        finally:
            recording.cancel()
        self._keep(question, reply, said, judged, found, why)
        self._step()

    def _keep(
        self,
        question: Question,
        reply: Reply,
        said: replies.Said,
        judged: Judged,
        found: steps.Steps | None = None,
        why: str = "",
    ) -> None:
        if judged.right is None and judged.metrics is None:
            self.unjudged[question.id] = judged.detail or judged.reason
        self._results.add(
            Result(
                id=question.id,
                group=question.group,
                right=judged.right,
                reason=judged.reason,
                detail=judged.detail,
                answer=said.answer if judged.answer is None else judged.answer,
                reply=reply.text,
                finish=reply.finish,
                prompt_tokens=reply.prompt_tokens,
                completion_tokens=reply.completion_tokens,
                repeated=round(repeated(reply.text), 4),
                steps=found,
                no_steps=why,
                metrics=judged.metrics,
            )
        )

    async def _judged(self, question: Question, said: replies.Said) -> Judged:
        assert not isinstance(self._suite, Conversing)
        try:
            return await self._suite.judge(question, said, self._tools.means)
        except GroundboxError as error:
            return Judged(right=None, reason="not-judged", detail=f"{type(error).__name__}: {error}"[:_MOST_DETAIL])

    async def _steps(
        self, question: Question, said: replies.Said, recorded: bytes | str
    ) -> tuple[steps.Steps | None, str]:
        if isinstance(recorded, str):
            return None, recorded
        if not said.reasoning:
            return None, "no reasoning"
        payload = {
            "trace": recorded,
            "text": said.reasoning,
            "answer": said.answer if question.asks_result else "",
        }
        shard = Shard(stage=steps.STAGE, number=next(self._numbers), payload=payload)
        work = steps.Stepping(cpu_s=self._tools.proof_cpu_s)
        try:
            part = await self._tools.executor.compute(work, shard)
        except GroundboxError as error:
            return None, str(error)[:_MOST_DETAIL]
        return steps.of_json(part["json"])

    def _step(self) -> None:
        self._room.release()
        self._done += 1
        self._tools.progress.step("eval", self._done, self._total, resumed=False)


def _first(errors: BaseExceptionGroup[GroundboxError]) -> GroundboxError:
    """The first error of a group."""
    found: BaseException = errors
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    assert isinstance(found, GroundboxError)
    with contextlib.suppress(AttributeError):
        found.__traceback__ = None
    return found
