"""A grounded agent as the executor of Agent2Agent's tasks: each message is a question with a sandbox of its own.

A task is submitted, then working, with one update for each run, and ends as one of these:

    completed   there is an answer, as the artifact `answer`
    rejected    the message cannot be meant, or too many questions are worked on
    canceled    it was called off; the processes of its sandbox are killed before this is told
    failed      a bound was reached, which is said; or the model or the sandbox cannot be had, which the host's log says

Messages of one context know nothing of each other.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Final

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Message, Part, Task, TaskState, TaskStatus

from groundbox.agent.a2a.parts import answer_parts, asked, run_line, verdict_line
from groundbox.agent.a2a.service import Service
from groundbox.agent.defusing import one_line
from groundbox.agent.events import Ended, Ending, Observed
from groundbox.agent.grounded import GroundedAgent
from groundbox.errors import GuestFileError, InvalidArgument

logger = logging.getLogger(__name__)

ARTIFACT: Final = "answer"
# What files are refused for; any other argument is the host's, and no concern of whoever asks.
_OF_THE_ASKER: Final = frozenset({"message", "path"})
_OUR_FAULT: Final = "No answer, for a reason that is not the question's. The log of the host says more."


class GroundedExecutor(AgentExecutor):
    """Asks `agent`, one sandbox for each task."""

    def __init__(self, agent: GroundedAgent, *, service: Service | None = None) -> None:
        self._agent, self._service = agent, service or Service()
        self._working: dict[str, asyncio.Task[None]] = {}

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Work on one message until its task has ended."""
        updates = await _begun(context, event_queue)
        if len(self._working) >= self._service.max_at_once:
            problem = f"As many questions are worked on as are taken at once: {len(self._working)}. Ask again later."
            await updates.reject(_said(updates, problem))
            return
        work = asyncio.create_task(self._work(context, updates))
        self._working[updates.task_id] = work
        work.add_done_callback(lambda _: self._working.pop(updates.task_id, None))
        try:
            await asyncio.wait([work])
        finally:
            work.cancel()
        if not work.cancelled():
            work.result()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """End the task's sandbox, then its task."""
        work = self._working.get(context.task_id or "")
        if work is None:
            await TaskUpdater(event_queue, context.task_id or "", context.context_id or "").cancel()
            return
        work.cancel()
        await asyncio.wait([work])

    async def aclose(self) -> None:
        """End what is worked on, and the sandboxes of it."""
        working = list(self._working.values())
        for work in working:
            work.cancel()
        if working:
            await asyncio.wait(working)

    async def _work(self, context: RequestContext, updates: TaskUpdater) -> None:
        try:
            ended, parts = await self._answered(context, updates)
        except asyncio.CancelledError:
            await updates.cancel()
            raise
        except (InvalidArgument, GuestFileError) as error:
            if isinstance(error, InvalidArgument) and error.argument not in _OF_THE_ASKER:
                await _failed(updates, error)
            else:
                await updates.reject(_said(updates, one_line(str(error), 500)))
        except Exception as error:
            await _failed(updates, error)
        else:
            await _tell(updates, ended, parts)

    async def _answered(self, context: RequestContext, updates: TaskUpdater) -> tuple[Ended, list[Part]]:
        question, files = asked(context.message or Message(), self._service)
        accepted = list(context.configuration.accepted_output_modes) if context.configuration else []
        await updates.start_work()
        ended, parts = None, list[Part]()
        async with contextlib.aclosing(self._agent.stream(question, files=files)) as events:
            async for event in events:
                if isinstance(event, Observed):
                    await updates.start_work(_said(updates, run_line(event)))
                elif isinstance(event, Ended):
                    ended = event
                    # While the sandbox is there, because it holds the files that were too large for the result.
                    parts = await asyncio.to_thread(answer_parts, ended, accepted=accepted, service=self._service)
        assert ended is not None
        return ended, parts


async def _begun(context: RequestContext, event_queue: EventQueue) -> TaskUpdater:
    task_id, context_id = context.task_id or "", context.context_id or ""
    if context.current_task is None:
        history = [context.message] if context.message else []
        status = TaskStatus(state=TaskState.TASK_STATE_SUBMITTED)
        await event_queue.enqueue_event(Task(id=task_id, context_id=context_id, status=status, history=history))
    return TaskUpdater(event_queue, task_id, context_id)


async def _tell(updates: TaskUpdater, ended: Ended, parts: list[Part]) -> None:
    if ended.ending is Ending.ANSWERED:
        await updates.add_artifact(parts, name=ARTIFACT, last_chunk=True)
        await updates.complete(_said(updates, verdict_line(ended)))
    elif ended.ending is Ending.BOUND:
        await updates.failed(_said(updates, f"No answer: {one_line(ended.why)}."))
    else:
        logger.error("task %s has no answer: %s", updates.task_id, one_line(ended.why, 2000))
        await updates.failed(_said(updates, _OUR_FAULT))


async def _failed(updates: TaskUpdater, error: Exception) -> None:
    logger.error("task %s failed", updates.task_id, exc_info=error)
    await updates.failed(_said(updates, _OUR_FAULT))


def _said(updates: TaskUpdater, text: str) -> Message:
    return updates.new_agent_message([Part(text=text)])
