"""Workers kept ready: forked and already jailed, so that a run pays for neither.

One pool per template and shape. A worker that was lent never comes back. The pool grows with the number
lent at once and shrinks when nobody asks; it is refilled after a result has gone out, never before, because a fork
at that moment would delay the answer. While borrowers have to wait, workers are made without the trial run that
makes the first order of a waiting one faster. A worker that dies while waiting is replaced; a pool whose template
died is dropped by its engine, and the next request starts a new one.
"""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Callable
from typing import Final, NamedTuple

from groundbox.sandbox.worker import Worker

SMALLEST: Final = 2
LARGEST: Final = 16
_IDLE_S: Final = 30.0
_PAUSE_S: Final = 0.0005
_HURRY_S: Final = 0.1
_SHORTAGE_S: Final = 1.0
"""Until a worker is made ahead again after one could not be."""


class Checkout(NamedTuple):
    """A worker lent, and whether it had been waiting."""

    worker: Worker
    warm: bool


class Pool:
    """Keeps between SMALLEST and LARGEST workers ready once anyone has asked for one."""

    def __init__(self, spawn: Callable[[], Worker]) -> None:
        self._spawn = spawn
        self._waiting: collections.deque[Worker] = collections.deque()
        self._lent = 0
        self._target = SMALLEST
        self._loop = asyncio.get_running_loop()
        self._refill: asyncio.Handle | None = None
        self._shrink: asyncio.TimerHandle | None = None
        self._closed = False
        self._missed_at = float("-inf")

    @property
    def hurried(self) -> bool:
        """Whether somebody had to wait for a worker just now, so that one should be ready soon rather than fast."""
        return self._loop.time() - self._missed_at < _HURRY_S

    @property
    def waiting(self) -> int:
        """Workers that wait now."""
        return len(self._waiting)

    def begin_with(self, other: Pool) -> None:
        """Take one worker that waits in another pool, so that our first borrower does not wait until one is made."""
        for worker in other._waiting:
            if worker.is_ready:
                other._waiting.remove(worker)
                self._waiting.append(worker)
                return

    async def checkout(self) -> Checkout:
        """Lend one worker; it is the borrower's to end.

        Raises:
            SandboxLost: A new worker's jail did not come to stand.
        """
        self._lent += 1
        self._target = min(LARGEST, max(self._target, self._lent + 1))
        try:
            while self._waiting:
                worker = self._waiting.popleft()
                if worker.is_ready:
                    return Checkout(worker, True)
                self._missed_at = self._loop.time()
                if worker.ended is None:
                    await _ready_or_ended(worker)
                    return Checkout(worker, True)
            self._missed_at = self._loop.time()
            worker = self._spawn()
            await _ready_or_ended(worker)
            return Checkout(worker, False)
        except BaseException:
            self._lent -= 1
            raise

    def lent_elsewhere(self) -> None:
        """A worker was made that is none of ours, and whose borrower will say `returned`."""
        self._lent += 1

    def returned(self) -> None:
        """A borrower is done, its result is out: now is the time to refill."""
        self._lent -= 1
        self.refill_soon()

    def refill_soon(self) -> None:
        """Refill in a moment: whoever waits for the result, perhaps in another thread, goes first."""
        if self._refill is None and not self._closed:
            self._refill = self._loop.call_later(_PAUSE_S, self._fill)

    def worker_ended(self, worker: Worker) -> None:
        """A worker that was waiting ended."""
        try:
            self._waiting.remove(worker)
        except ValueError:
            return
        if worker.failure is None:
            self.refill_soon()

    def close(self) -> None:
        """End every waiting worker and keep none from now on."""
        self._closed = True
        for handle in (self._refill, self._shrink):
            if handle is not None:
                handle.cancel()
        while self._waiting:
            self._waiting.pop().kill()

    def _fill(self) -> None:
        self._refill = None
        if self._closed:
            return
        if len(self._waiting) < self._target:
            try:
                self._waiting.append(self._spawn())
            except OSError:  # too few descriptors for now; whoever asks for a worker is told, nobody asked for this one
                self._refill = self._loop.call_later(_SHORTAGE_S, self._fill)
                return
            if len(self._waiting) < self._target:
                self.refill_soon()
        if self._shrink is None:
            self._shrink = self._loop.call_later(_IDLE_S, self._relax)

    def _relax(self) -> None:
        """Halve what is kept when less is needed than was."""
        self._shrink = None
        self._target = max(SMALLEST, self._lent + 1, self._target // 2)
        while len(self._waiting) > self._target:
            self._waiting.pop().kill()
        if self._target > SMALLEST:
            self._shrink = self._loop.call_later(_IDLE_S, self._relax)


async def _ready_or_ended(worker: Worker) -> None:
    """Wait for a worker; one that is waited for no longer, such as by a task that was cancelled, is nobody's."""
    try:
        await worker.ready()
    except BaseException:
        worker.kill()
        raise
