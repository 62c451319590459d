"""A run's wall clock, which can stand still for a while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


class Deadline:
    """Calls `reached` when a run has used up its seconds; those that were waited for the host do not count.

    How long it may stand still in all is bounded, but for what is `held`: that has a bound of its own.
    """

    def __init__(self, left_s: float | None, reached: Callable[[], None]) -> None:
        """Args:
        left_s: None when nothing is to be reached.
        """
        self._loop = asyncio.get_running_loop()
        self._left_s = left_s
        self._reached = reached
        self._allowance_s = 0.0
        self._waiting = self._holding = 0
        self._since = time.monotonic()
        self._timer: asyncio.TimerHandle | None = None
        self._ended = left_s is None
        self._settle()

    def allow(self, seconds: float) -> None:
        """Let it stand still for so long in all."""
        self._allowance_s = seconds

    def pause(self, *, held: bool = False) -> None:
        """The host works for the run from now on, or, with `held`, waits for a person."""
        self._account()
        self._waiting += not held
        self._holding += held
        self._settle()

    def resume(self, *, held: bool = False) -> None:
        """Undoes one `pause`."""
        self._account()
        self._waiting -= not held
        self._holding -= held
        self._settle()

    def cancel(self) -> None:
        """The run is over."""
        self._ended = True
        self._settle()

    def _stands(self) -> bool:
        return self._holding > 0 or (self._waiting > 0 and self._allowance_s > 0)

    def _account(self) -> None:
        """Charge the time since this was last called to whom it belongs."""
        now = time.monotonic()
        spent, self._since = now - self._since, now
        if self._holding or self._left_s is None:
            return
        if self._waiting:
            excused = min(spent, self._allowance_s)
            self._allowance_s -= excused
            spent -= excused
        self._left_s -= spent

    def _settle(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._ended or self._left_s is None or self._holding:
            return
        after = self._allowance_s if self._stands() else max(0.0, self._left_s)
        self._timer = self._loop.call_later(after, self._tick)

    def _tick(self) -> None:
        self._account()
        if not self._stands() and self._left_s is not None and self._left_s <= 0:
            self._ended = True
            self._reached()
            return
        self._settle()
