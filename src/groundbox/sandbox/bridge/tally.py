"""What a run called, for its result: exact totals, and a preview of the first and last calls."""

from __future__ import annotations

import collections
import time
from collections.abc import Mapping
from typing import Any, Final

from groundbox.execution import ToolCall, ToolCalls
from groundbox.sandbox.bridge.calls import preview

_SHOWN: Final = 25
"""Calls that results tell of at the beginning, and as many at the end."""
_PREVIEW: Final = 300


class Tally:
    """Of one run.

    Attributes:
        total: Calls that have arrived.
    """

    def __init__(self) -> None:
        self.total = 0
        self._outcomes: collections.Counter[str] = collections.Counter()
        self._first: list[ToolCall] = []
        self._latest: collections.deque[ToolCall] = collections.deque(maxlen=_SHOWN)
        self._waiting = 0
        self._waited_s = self._since = 0.0

    def wait(self, change: int) -> None:
        """One call more, or one less, is under way."""
        now = time.monotonic()
        if self._waiting:
            self._waited_s += now - self._since
        self._since = now
        self._waiting += change

    def add(self, row: Mapping[str, Any], shown: Any) -> None:
        """A call has ended."""
        self._outcomes[row["outcome"]] += 1
        told = ToolCall(
            tool=row["tool"],
            arguments=preview(row.get("args", {}), _PREVIEW),
            outcome=row["outcome"],
            result=preview(shown, _PREVIEW),
            wall_s=row["wall_s"],
            sent_bytes=row["sent_bytes"],
            received_bytes=row["received_bytes"],
            replayed="replayed" in row,
        )
        if len(self._first) < _SHOWN:
            self._first.append(told)
        else:
            self._latest.append(told)

    def told(self, *, sandbox: str, sent_bytes: int, received_bytes: int) -> ToolCalls:
        """What the result says."""
        shown = [*self._first, *self._latest]
        return ToolCalls(
            total=self.total,
            outcomes=dict(self._outcomes),
            calls=shown,
            sandbox=sandbox,
            dropped=self.total - len(shown),
            sent_bytes=sent_bytes,
            received_bytes=received_bytes,
            waited_s=self._waited_s,
        )
