"""Asking a person, or a program in their place, whether a call may be made."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from groundbox.sandbox.bridge.calls import in_thread
from groundbox.sandbox.bridge.tools import ToolRequest, Tools, settled

if TYPE_CHECKING:
    from groundbox.sandbox.bridge.session import Control

logger = logging.getLogger(__name__)


class Approval:
    """One question. The guest is frozen until there is an answer, and its wall clock stands still."""

    def __init__(self, tools: Tools, control: Control) -> None:
        self._tools = tools
        self._control = control

    async def ask(self, request: ToolRequest) -> str:
        """`yes`, `no`, `later` (no answer is to be had now) or `expired`. What fails is a no."""
        approve = self._tools.approve
        if approve is None:
            return "later"
        self._control.pause(held=True)
        self._control.freeze(True)
        try:
            async with asyncio.timeout(self._tools.approval_s):
                said = await settled(await in_thread(lambda: approve(request), lambda: None))
        except TimeoutError:
            return "expired"
        except Exception:
            logger.exception("asking for approval of tool %s failed", request.tool.name)
            return "no"
        finally:
            self._control.freeze(False)
            self._control.resume(held=True)
        return "later" if said is None else "yes" if said is True else "no"
