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
import posixpath
from collections.abc import Mapping
from typing import Any, Final

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Message, Part, Task, TaskState, TaskStatus

from groundbox.agent.a2a.parts import answer_parts, asked, run_line, verdict_line
from groundbox.agent.a2a.service import Service
from groundbox.agent.defusing import one_line
from groundbox.agent.events import Ended, Ending, Observed
from groundbox.agent.grounded import Content, GroundedAgent
from groundbox.errors import GuestFileError, InvalidArgument

logger = logging.getLogger(__name__)

ARTIFACT: Final = "answer"
# What files are refused for; any other argument is the host's, and no concern of whoever asks.
_OF_THE_ASKER: Final = frozenset({"message", "path"})
_OUR_FAULT: Final = "No answer, for a reason that is not the question's. The log of the host says more."


class GroundedExecutor(AgentExecutor):
    """Asks `agent`, one sandbox for each task."""

    def __init__(
        self,
        agent: GroundedAgent,
        *,
        service: Service | None = None,
        files: Mapping[str, Content] | None = None,
    ) -> None:
        """Args:
        files: What lies in every sandbox, beside the files of its message.
        """
        self._agent, self._service, self._files = agent, service or Service(), dict(files or {})
        self._working: dict[str, asyncio.Task[None]] = {}
        self._closed = False

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Work on one message until its task has ended."""
        updates = await _begun(context, event_queue)
        if problem := self._refusal():
            logger.info("task %s: rejected: %s", updates.task_id, problem)
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
        """End what is worked on, and the sandboxes of it; nothing is taken from then on."""
        self._closed = True
        working = list(self._working.values())
        for work in working:
            work.cancel()
        if working:
            await asyncio.wait(working)

    def _refusal(self) -> str:
        if self._closed:
            return "This agent is being ended. Ask another one."
        if len(self._working) < self._service.max_at_once:
            return ""
        return f"As many questions are worked on as are taken at once: {len(self._working)}. Ask again later."

    async def _work(self, context: RequestContext, updates: TaskUpdater) -> None:
        try:
            ended, parts = await self._answered(context, updates)
        except asyncio.CancelledError:
            logger.info("task %s: canceled", updates.task_id)
            await updates.cancel()
            raise
        except (InvalidArgument, GuestFileError) as error:
            if isinstance(error, InvalidArgument) and error.argument not in _OF_THE_ASKER:
                await _failed(updates, error)
            else:
                problem = one_line(str(error), 500)
                logger.info("task %s: rejected: %s", updates.task_id, problem)
                await updates.reject(_said(updates, problem))
        except Exception as error:
            await _failed(updates, error)
        else:
            await _tell(updates, ended, parts)

    async def _answered(self, context: RequestContext, updates: TaskUpdater) -> tuple[Ended, list[Part]]:
        question, files = asked(context.message or Message(), self._service)
        _check_names(files, self._files)
        logger.info("task %s: asked with %d characters and %d files", updates.task_id, len(question), len(files))
        accepted = list(context.configuration.accepted_output_modes) if context.configuration else []
        await updates.start_work()
        ended, parts = None, list[Part]()
        async with contextlib.aclosing(self._agent.stream(question, files={**self._files, **files})) as events:
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


def _check_names(files: Mapping[str, Any], held: Mapping[str, Any]) -> None:
    taken = {posixpath.normpath(path) for path in held}
    for path in files:
        if posixpath.normpath(path) in taken:
            name = one_line(path)
            raise InvalidArgument("message", f"{name!r} is a file of this agent. Give yours another name")


async def _tell(updates: TaskUpdater, ended: Ended, parts: list[Part]) -> None:
    logger.info(
        "task %s: %s after %d turns, %d runs and %.1f s, %d claims not borne out",
        updates.task_id, ended.ending.value, ended.spent.turns, ended.spent.runs, ended.spent.wall_s,
        len(ended.unsupported),
    )  # fmt: skip
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
