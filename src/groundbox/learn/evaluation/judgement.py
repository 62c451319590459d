"""Judgement: the work on replies that an executor carries out, in this process or on other machines.

Shards are of three stages. `record` has the run that a question is about recorded, while its reply is waited for;
`judge` judges replies and holds their steps against the record; `warm` has a process started that proves. Nothing of a
value hangs on what else is in its shard, so that cutting replies into shards otherwise changes no result.
"""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any, Final

from groundbox.dataset.executor import Executor, Listwise, Shard, WorkerDied
from groundbox.dataset.item_runs import compressed
from groundbox.dataset.problem import WORKER_DIED
from groundbox.dataset.processes import Slots
from groundbox.dataset.program_runner import Request
from groundbox.errors import GroundboxError, SandboxUnavailable
from groundbox.learn.evaluation import steps
from groundbox.learn.evaluation.replies import Said
from groundbox.learn.evaluation.suites import Judged, Judging, Means, Question

RECORD: Final = "record"
JUDGE: Final = "judge"
WARM: Final = "warm"
MOST_DETAIL: Final = 500


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reply:
    """A reply that waits for a judge.

    Attributes:
        recorded: The trace of the run, compressed; or why there is none.
    """

    question: Question
    said: Said
    recorded: bytes | str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """Result of a judgement: what the judge says, and the steps, or why there are none."""

    judged: Judged
    steps: steps.Steps | None
    no_steps: str


class Judgement(Listwise):
    """Work for `Executor.run`. The payload of `record` is a request, that of `judge` a list of `Reply`."""

    def __init__(self, judging: Judging, means: Means, executor: Executor, *, at_once: int, proof_cpu_s: float) -> None:
        """Args:
        executor: Of the process that judges; it proves.
        at_once: Replies that one process judges at the same time.
        proof_cpu_s: Processor seconds for the steps of one reply.
        """
        self._judging, self._means, self._executor = judging, means, executor
        self._gate, self._proof_cpu_s = Slots(at_once), proof_cpu_s

    async def __call__(self, shard: Shard) -> Any:
        """See Executor.run; of `record` comes what `Reply.recorded` has, of `judge` a verdict on each."""
        if shard.stage == RECORD:
            return await self._recorded(shard.payload)
        if shard.stage == WARM:
            return await self._executor.compute(steps.nothing, shard)
        return await asyncio.gather(*(self._one(shard.number, each) for each in shard.payload))

    def lost(self, entry: Reply, reason: str) -> Verdict:
        """See Listwise.lost: nothing is known of such a reply."""
        judged = Judged(right=None, reason=WORKER_DIED, detail=f"{WORKER_DIED}: {reason}")
        return Verdict(judged=judged, steps=None, no_steps=WORKER_DIED)

    async def _recorded(self, request: Request) -> bytes | str:
        try:
            ran = await self._means.runner.run(request)
        except SandboxUnavailable:
            raise
        except GroundboxError as error:
            return f"sandbox: {error}"[:MOST_DETAIL].encode("utf-8", "backslashreplace").decode()
        if ran.trace is None or not ran.trace.complete:
            return f"the run was not recorded whole ({ran.outcome})"
        return await asyncio.to_thread(compressed, ran.trace)

    async def _one(self, number: int, reply: Reply) -> Verdict:
        async with self._gate:
            judged = await self._judged(reply)
        found, why = await self._steps(number, reply)
        return Verdict(judged=judged, steps=found, no_steps=why)

    async def _judged(self, reply: Reply) -> Judged:
        try:
            return await self._judging.judge(reply.question, reply.said, self._means)
        except SandboxUnavailable:  # nothing can be judged here at all
            raise
        except GroundboxError as error:
            return Judged(right=None, reason="not-judged", detail=f"{type(error).__name__}: {error}"[:MOST_DETAIL])

    async def _steps(self, number: int, reply: Reply) -> tuple[steps.Steps | None, str]:
        if isinstance(reply.recorded, str):
            return None, reply.recorded
        said = reply.said
        if not said.reasoning:
            return None, "no reasoning"
        payload = {
            "trace": reply.recorded,
            "text": said.reasoning,
            "answer": said.answer if reply.question.asks_result else "",
        }
        work = steps.Stepping(cpu_s=self._proof_cpu_s)
        try:
            return await self._executor.compute(work, Shard(stage=steps.STAGE, number=number, payload=payload))
        except WorkerDied as died:  # without the number of its shard, which is another one each time
            return None, f"{WORKER_DIED}: {died.reason}"[:MOST_DETAIL]
        except GroundboxError as error:
            return None, str(error)[:MOST_DETAIL]
