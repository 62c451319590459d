"""The tools of one sandbox: what is counted and kept from one run to the next."""

from __future__ import annotations

import collections
import logging
import uuid
from collections.abc import Callable
from typing import Any

from groundbox.sandbox.bridge.approval import Questions
from groundbox.sandbox.bridge.calls import Answer, Slots
from groundbox.sandbox.bridge.log import Written
from groundbox.sandbox.bridge.session import Session
from groundbox.sandbox.bridge.tool import Tool
from groundbox.sandbox.bridge.tools import Tools

logger = logging.getLogger(__name__)


class Bridge:
    """Made with its sandbox; gives each run a session."""

    def __init__(self, tools: Tools) -> None:
        self.tools = tools
        self.sandbox = uuid.uuid4().hex
        self.replay = tools.recorded()
        self.questions = Questions()
        self.slots = Slots(tools.quotas.concurrent)
        self._runs = self._seq = 0
        self._counts: collections.Counter[str] = collections.Counter()
        self._open: set[int] = set()

    def session(self, read: Callable[[str, int], bytes]) -> Session:
        """For the next run."""
        return Session(self, read)

    def next_run(self) -> int:
        """Its number, from 1."""
        self._runs += 1
        return self._runs

    def counted(self, tool: Tool) -> bool:
        """Count one more call; whether it is not too many for this tool."""
        self._counts[tool.name] += 1
        return tool.max_calls is None or self._counts[tool.name] <= tool.max_calls

    def opened(self, run: int, tool: str) -> dict[str, Any]:
        """The beginning of a call's row."""
        self._seq += 1
        self._open.add(self._seq)
        head = {"sandbox": self.sandbox, "seq": self._seq}
        return {**head, "run": run, "tool": tool, "since": min(self._open), "args_sha256": ""}

    def begins(self, tool: Tool, row: dict[str, Any]) -> None:
        """Note that a call which may change something is about to be made."""
        if self.tools.log is not None and not (tool.read_only or tool.idempotent):
            row["changes"] = True
            self.tools.log.add({**row, "outcome": "begun"})

    def closed(self, row: dict[str, Any], answer: Answer) -> Any:
        """Write the row of a call that has ended; what of its answer may be shown."""
        self._open.discard(row["seq"])
        ok = answer.outcome == "ok"
        shown = self.shown("value" if ok else "error", answer.value if ok else answer.message, row)
        if row.pop("changes", False) and row["outcome"] == "cancelled":
            row["uncertain"] = True
        if self.tools.log is not None:
            row["answer"] = {"shown": shown} if row.get("redacted") else answer.recorded()
            self.tools.log.add(row)
        return shown

    def shown(self, kind: str, content: Any, row: dict[str, Any]) -> Any:
        """What logs and results may have of it."""
        if self.tools.redact is None:
            return content
        try:
            shown = self.tools.redact(kind, dict(content) if isinstance(content, Written) else content)
        except Exception:
            logger.exception("redacting %s of tool %s failed", kind, row["tool"])
            shown = "(not shown: redacting it failed)"
        if kind != "args" and shown != content:
            row["redacted"] = True
        return shown
