"""Asking a person, or a program in their place, whether a call may be made.

Each sandbox asks one question at a time, and the others wait. A function that asks in a thread cannot be ended: it
keeps others from asking until it returns, so that there is never more than one of them for a sandbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

from groundbox.sandbox.bridge.calls import in_thread
from groundbox.sandbox.bridge.tools import Approve, ToolRequest, Tools, settled

if TYPE_CHECKING:
    from groundbox.sandbox.bridge.session import Control

logger = logging.getLogger(__name__)

MOST_WAITING: Final = 32


class Asking:
    """The right to ask, until it is left and the function that asks has returned."""

    def __init__(self, lock: asyncio.Lock) -> None:
        self._lock = lock
        self._holders = 1

    def begins(self) -> None:
        """A thread asks from now on."""
        self._holders += 1

    def ends(self) -> None:
        """The thread has returned, or who waited for it has left."""
        self._holders -= 1
        if not self._holders:
            self._lock.release()


class Questions:
    """Who may ask, in one sandbox.

    Attributes:
        waiting: How many calls wait to be asked about.
    """

    def __init__(self) -> None:
        self.waiting = 0
        self._lock = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def next(self, each_s: float) -> AsyncIterator[Asking]:
        """Raises:
        TimeoutError: Those before had `each_s` seconds each, and one of them did not return.
        """
        self.waiting += 1
        try:
            async with asyncio.timeout(each_s * self.waiting):
                await self._lock.acquire()
        finally:
            self.waiting -= 1
        asking = Asking(self._lock)
        try:
            yield asking
        finally:
            asking.ends()


class Approval:
    """The questions of one run. The guest is frozen until there is an answer, and its wall clock stands still."""

    def __init__(self, tools: Tools, questions: Questions) -> None:
        self._tools = tools
        self._questions = questions
        self._over = False

    async def ask(self, request: ToolRequest, control: Control) -> str:
        """`yes`, `no`, `later` (no answer is to be had now), `expired`, or `crowded`. What fails is a no.

        After `later` and `expired`, which end the run, nothing more is asked in it.
        """
        approve = self._tools.approve
        if approve is None:
            return "later"
        if self._questions.waiting >= MOST_WAITING:
            return "crowded"
        control.pause(held=True)
        control.freeze(True)
        try:
            async with self._questions.next(self._tools.approval_s) as asking:
                outcome = "later" if self._over else await self._answer(approve, request, asking)
                self._over = outcome in ("later", "expired")
                return outcome
        except TimeoutError:
            self._over = True
            return "expired"
        finally:
            control.freeze(False)
            control.resume(held=True)

    async def _answer(self, approve: Approve, request: ToolRequest, asking: Asking) -> str:
        """An answer that comes after its question was withdrawn counts for nothing, also when it is a coroutine's."""
        answered = False
        asking.begins()
        try:
            async with asyncio.timeout(self._tools.approval_s) as limit:
                said = await settled(await in_thread(lambda: approve(request), asking.ends))
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise asyncio.CancelledError
            if limit.expired():
                return "expired"
            answered = True
        except TimeoutError:
            return "expired"
        except Exception:
            logger.exception("asking for approval of tool %s failed", request.tool.name)
            return "no"
        finally:
            if not answered:
                request.withdrawn.set()
        return "later" if said is None else "yes" if said is True else "no"
