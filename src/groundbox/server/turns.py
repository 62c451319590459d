"""Turns: how many runs go on at once, how many wait, and who is told to come back later.

A queue stands before the engine, because a machine that runs a thousand programs at once runs each of them into its
limit. A key may begin a run while it has not used up its share of the turns (`shares.py`): a program may sleep for an
hour, and some turns stay free for keys that have none. Runs of one key begin in the order in which they came. Of keys
that wait, the one with the fewest runs is next; of those with equally many, the one that has waited longest. If the
queue is full, the last run of the key with the most in it leaves for a run of a key with fewer.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Final

from groundbox.server.refusals import Refused, shutting_down
from groundbox.server.shares import may_take


class Turns:
    """A bound on runs at once, with a bounded queue before it."""

    def __init__(
        self, *, at_once: int, queue_length: int, queue_s: float, is_shared: Callable[[], bool] = lambda: True
    ) -> None:
        """Args:
        at_once: Runs that go on at the same time.
        queue_length: Runs that may wait.
        queue_s: Seconds that one may wait.
        is_shared: Returns whether there are keys of others than the owner; otherwise one key may have every turn.
        """
        self._is_shared = is_shared
        self._at_once, self._queue_length, self._queue_s = at_once, queue_length, queue_s
        self._running: collections.Counter[str] = collections.Counter()
        self._waiting: dict[str, collections.deque[asyncio.Future[bool]]] = {}
        self._lasted_s = 0.1
        self._is_closed = False
        self._ended = asyncio.Event()

    @property
    def running(self) -> int:
        """Runs that go on now."""
        return self._running.total()

    @property
    def waiting(self) -> int:
        """Runs that wait now."""
        return sum(map(len, self._waiting.values()))

    def close(self) -> None:
        """Refuse all that wait, because the server shuts down. Runs that go on keep their turns."""
        self._is_closed = True
        queues, self._waiting = self._waiting, {}
        for queue in queues.values():
            for turn in queue:
                if not turn.done():
                    turn.set_result(False)

    async def wait_until_idle(self, most_s: float) -> None:
        """Wait until no run goes on, or for `most_s`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(most_s):
                while self.running:
                    self._ended.clear()
                    await self._ended.wait()

    @contextlib.asynccontextmanager
    async def turn(self, key_id: str) -> AsyncIterator[float]:
        """Wait for a turn of this key and hold it.

        Yields:
            Seconds that were waited.

        Raises:
            Refused: 429, because too many wait, or this one has waited too long.
        """
        begun = time.monotonic()
        if self._may_begin(key_id):
            self._running[key_id] += 1
        else:
            await self._wait(key_id)
        started = time.monotonic()
        try:
            yield started - begun
        finally:
            self._lasted_s += (time.monotonic() - started - self._lasted_s) / 16  # of the last sixteen, about
            self._end(key_id)

    async def _wait(self, key_id: str) -> None:
        if self.waiting >= self._queue_length and not self._made_room(key_id):
            raise self._busy(f"{self._queue_length} runs wait already")
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        queue = self._waiting.setdefault(key_id, collections.deque())
        queue.append(turn)
        try:
            async with asyncio.timeout(self._queue_s):
                begins = await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                if turn.result():  # it was this one's turn in the very moment
                    self._end(key_id)
            elif turn in queue:  # else the one that ended has passed over it already
                queue.remove(turn)
                if not queue and self._waiting.get(key_id) is queue:
                    del self._waiting[key_id]
            if isinstance(error, TimeoutError):
                raise self._busy(f"no run could begin within {self._queue_s:g} s{self._own_runs(key_id)}") from None
            raise
        if not begins and self._is_closed:
            raise shutting_down()
        if not begins:
            raise self._busy(f"{self._queue_length} runs wait already, and many of them are yours")

    def _made_room(self, key_id: str) -> bool:
        """Put out the last of those that wait of the key with the most of them, where it is not this one's."""
        longest = max(self._waiting.values(), key=len)
        if len(longest) <= len(self._waiting.get(key_id, ())) + 1:
            return False
        put_out = longest.pop()
        if not put_out.done():
            put_out.set_result(False)
        return True

    def _end(self, key_id: str) -> None:
        """Give the turn of a run that has ended to the next."""
        self._ended.set()
        self._running[key_id] -= 1
        if not self._running[key_id]:
            del self._running[key_id]
        while self.running < self._at_once and (waiting := [each for each in self._waiting if self._may_begin(each)]):
            key = min(waiting, key=lambda each: self._running[each])
            queue = self._waiting.pop(key)
            turn = queue.popleft()
            if queue:
                self._waiting[key] = queue  # behind the others, so that of keys with as many runs each has its turn
            if not turn.done():
                self._running[key] += 1
                turn.set_result(True)

    def _own_runs(self, key_id: str) -> str:
        own = self._running[key_id]
        return f", and {own} of the {self._at_once} that may run at once are this key's" if own else ""

    def _may_begin(self, key_id: str) -> bool:
        return may_take(held=self._running[key_id], taken=self.running, total=self._at_once, shared=self._is_shared())

    def _busy(self, why: str) -> Refused:
        wait_s = min(60.0, max(1.0, self.waiting * self._lasted_s / self._at_once / 2))
        return Refused(429, "busy", f"this server is busy: {why}; ask again later", retry_after_s=wait_s)


class Rate:
    """A token bucket: so many a second on average, and so many at once."""

    def __init__(self, a_second: float, burst: int) -> None:
        self._a_second, self._burst = a_second, burst
        self._tokens, self._filled_at = float(burst), time.monotonic()

    def take(self, count: int = 1) -> float:
        """Take so many; seconds until there are as many if there are not now, else 0."""
        now = time.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._a_second)
        self._filled_at = now
        if self._tokens < count:
            return (count - self._tokens) / self._a_second
        self._tokens -= count
        return 0.0

    def give_back(self, count: int) -> None:
        """Return tokens that were taken for something that does not count."""
        self._tokens = min(self._burst, self._tokens + count)


class Pace:
    """A pace for what processes of each key print: their pieces are read one after another, so many in a second.

    The event loop reads them. A key whose processes print without end would keep it busy; with a pace they wait for
    room in their pipes instead, and nobody else does.
    """

    _BURST_S: Final = 0.05
    _MOST: Final = 10_000

    def __init__(self) -> None:
        self._next: dict[str, float] = {}

    async def wait(self, key_id: str, a_second: float) -> None:
        """Wait until a piece of this key may be read.

        Args:
            a_second: Pieces of such a kind that one key may have read in a second.
        """
        loop = asyncio.get_running_loop()
        now = loop.time()
        at = max(self._next.pop(key_id, now), now - self._BURST_S) + 1 / a_second
        self._next[key_id] = at  # so that those that waited last are kept
        if len(self._next) > self._MOST:
            del self._next[next(iter(self._next))]
        if at > now:
            await asyncio.sleep(at - now)
