"""One model on one suite: every question asked once, every reply judged, and the figures of all of them.

Theory of operation. As many workers as may ask at once take the questions one after the other. While a worker waits for
a reply, the run that the question is about is recorded; the reply then goes to a judge, and the worker to its next
question, so that the model never waits for a judge. Recording and judging are shards of an executor
(`groundbox.learn.evaluation.judgement`), which may be done on other machines; a shard of replies takes more of them the
more wait. Asking stays in this process, which has the connection, the key and the file of replies. Replies are kept as
they come, results as they are judged, so a kill costs the replies that were under way, and nothing is asked twice. A
question that gets no reply is listed and counts for nothing; when many get none one after the other, the run ends and
can be gone on with.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import hashlib
import itertools
import json
import random
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from groundbox.dataset.executor import Executor, LocalExecutor, Running, Shard, WorkerDied, quarantining
from groundbox.dataset.problem import WORKER_DIED
from groundbox.dataset.progress import Progress
from groundbox.dataset.translation.answer_cache import Reply
from groundbox.endpoint.chat import EndpointFailed, RequestRefused
from groundbox.errors import GroundboxError, InvalidArgument
from groundbox.learn.evaluation import judgement, replies, steps
from groundbox.learn.evaluation.asking import NotRecorded, Source
from groundbox.learn.evaluation.judgement import JUDGE, MOST_DETAIL, RECORD, WARM, Judgement
from groundbox.learn.evaluation.measures import repeated
from groundbox.learn.evaluation.report import report_of
from groundbox.learn.evaluation.results import Result, Results
from groundbox.learn.evaluation.suites import Aggregating, Conversing, Judged, Means, Movable, Question, Suite

MOST_IN_A_ROW: Final = 32
"""Questions without a reply, one after the other, after which the endpoint is taken to be gone; before its first reply,
so many as are asked at once."""
_WAITING_JUDGES: Final = 4
"""Replies that wait for a judge, for each worker that asks: memory is bounded by them."""
_MOST_IN_SHARD: Final = 8
"""Replies of one shard. A process of another machine judges some at once; the last shards are to be small."""
_NOTHING: Final = "stop"
"""How a reply ended that nobody was asked for, as of a solver that works without a model."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tools:
    """Who does the work.

    Attributes:
        executor: Records, judges and proves; one of other machines only for suites that are `Movable`.
        at_once: Questions that wait for a reply at the same time.
        proof_cpu_s: Processor seconds for the steps of one reply.
    """

    means: Means
    executor: Executor
    at_once: int = 16
    proof_cpu_s: float = 20.0
    progress: Progress = dataclasses.field(default_factory=Progress)


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
        InvalidArgument: The executor is of other machines, and the suite is judged in this process alone.
    """
    begun = time.monotonic()
    if not isinstance(suite, Movable) and not isinstance(tools.executor, LocalExecutor):
        words = f"has to be local for the suite {suite.name}, whose replies are judged by this process alone"
        raise InvalidArgument("--executor", words)
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


class _Waiting(NamedTuple):
    """A reply as it came, and as a judge is given it."""

    reply: Reply
    given: judgement.Reply


async def _here(work: Running[Any], shard: Shard) -> Any:
    """Carry out a shard in this process, whatever the executor would do with it."""
    return await work(shard)


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
        self._room = asyncio.Semaphore(_WAITING_JUDGES * tools.at_once)
        self._numbers = itertools.count()
        self._waiting: collections.deque[_Waiting] = collections.deque()
        self._judging, self._freed = 0, asyncio.Event()
        # What cannot be handed over is judged here.
        self._run = tools.executor.run if isinstance(suite, Movable) else _here
        self._work: Judgement | None = None
        if not isinstance(suite, Conversing):
            self._work = Judgement(
                suite.judge_alone() if isinstance(suite, Movable) else suite,
                tools.means,
                tools.executor,
                at_once=tools.executor.workers,
                proof_cpu_s=tools.proof_cpu_s,
            )

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
                (self.unjudged if each.replies else self.unanswered)[name] = each.why[:MOST_DETAIL]
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
        with contextlib.suppress(GroundboxError):
            await asyncio.gather(*(self._carried_out(WARM, None) for _ in range(self._tools.executor.capacity)))

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
            self.unanswered[question.id] = str(error)[:MOST_DETAIL]
            return None
        except EndpointFailed as error:
            self.unanswered[question.id] = str(error)[:MOST_DETAIL]
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
            recorded: bytes | str = await self._carried_out(RECORD, question.run)
        except WorkerDied as died:
            return f"{WORKER_DIED}: {died.reason}"[:MOST_DETAIL]
        return recorded

    async def _judge(self, question: Question, reply: Reply, recording: asyncio.Future[bytes | str]) -> None:
        """Have a reply judged, with others that wait, or by whoever takes it with others."""
        try:
            recorded = await recording
        finally:
            recording.cancel()
        said = replies.read(reply)
        self._waiting.append(_Waiting(reply, judgement.Reply(question=question, said=said, recorded=recorded)))
        async with self._turn() as share:
            batch = [self._waiting.popleft() for _ in range(min(share, len(self._waiting)))]
            if batch:
                await self._judge_all(batch)

    async def _judge_all(self, batch: Sequence[_Waiting]) -> None:
        work = self._work
        assert work is not None
        shard = Shard(stage=JUDGE, number=next(self._numbers), payload=[each.given for each in batch])
        verdicts = await quarantining(lambda each: self._run(work, each), work, shard)
        for each, verdict in zip(batch, verdicts, strict=True):
            given = each.given
            self._keep(given.question, each.reply, given.said, verdict.judged, verdict.steps, verdict.no_steps)
            self._step()

    async def _carried_out(self, stage: str, payload: Any) -> Any:
        assert self._work is not None
        return await self._run(self._work, Shard(stage=stage, number=next(self._numbers), payload=payload))

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[int]:
        """Wait until the executor takes one more shard; how many replies are to go into it."""
        while self._judging >= (capacity := self._tools.executor.capacity):
            self._freed.clear()
            await self._freed.wait()
        self._judging += 1
        try:
            yield max(1, min(_MOST_IN_SHARD, len(self._waiting) // (2 * capacity)))
        finally:
            self._judging -= 1
            self._freed.set()

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
                read=judged.read,
            )
        )

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
