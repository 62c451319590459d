"""Threads that many callers share, so that none of them keeps the others waiting.

Work that would hold up the event loop (reading a kept output, packing files, decoding a trace) is done in threads.
There are few of them, and one caller can have a hundred requests that need one. Here every caller has its own queue, by
the name in `working_for`, which a server sets for each request. Of the callers that wait, the one with the least work
in progress is next; of those with equally much, the one that has waited longest. Work without a name is the host's own:
it waits for no share, and one thread is never given to anybody else.
"""

from __future__ import annotations

import asyncio
import collections
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, NamedTuple, TypeVar

T = TypeVar("T")

HOST: Final = ""
working_for: contextvars.ContextVar[str] = contextvars.ContextVar("working_for", default=HOST)
"""For whom work is done: the id of a key, or HOST."""


class _Work(NamedTuple):
    future: Future[Any]
    call: Callable[[], Any]


class FairThreads(ThreadPoolExecutor):
    """An executor with one queue for each caller. Pass it to `set_default_executor` for `asyncio.to_thread` to use it.

    Its lock is taken by no finaliser, and nothing but counting is done under it.
    """

    def __init__(self, total: int, *, share: int, name: str) -> None:
        """Args:
        total: Threads.
        share: Threads that one caller may use at once.
        name: The beginning of the threads' names.
        """
        super().__init__(total, thread_name_prefix=name)
        self._total, self._share = total, share
        self._of_others = max(1, total - 1)
        self._counting = threading.Lock()
        self._running: collections.Counter[str] = collections.Counter()
        self._queues: dict[str, collections.deque[_Work]] = {}
        self._is_shut = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Queue a call for the caller that `working_for` names."""
        name, future = working_for.get(), Future[Any]()
        work = _Work(future, lambda: fn(*args, **kwargs))
        with self._counting:
            if self._is_shut:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._queues.setdefault(name, collections.deque()).append(work)
        self._begin_what_may()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Cancel what has not begun, and wait for the rest if `wait` is true."""
        with self._counting:
            self._is_shut = True
            queues, self._queues = self._queues, {}
        for queue in queues.values():
            for work in queue:
                work.future.cancel()
        super().shutdown(wait=wait, cancel_futures=cancel_futures)

    def _begin_what_may(self) -> None:
        while (begun := self._next()) is not None:
            name, work = begun
            try:
                super().submit(self._carry_out, name, work)
            except RuntimeError:  # shut down, or the interpreter ends
                work.future.cancel()
                self._end(name)
                raise

    def _next(self) -> tuple[str, _Work] | None:
        """Take the next work whose caller may use a thread, and count it as begun."""
        with self._counting:
            free = self._running.total() < self._total
            others_free = self._running.total() - self._running[HOST] < self._of_others
            while free and (
                names := [each for each in self._queues if each == HOST or (others_free and self._may(each))]
            ):
                name = min(names, key=lambda each: (each != HOST, self._running[each]))
                queue = self._queues.pop(name)
                work = queue.popleft()
                if queue:
                    self._queues[name] = queue  # behind the others, so that equals take turns
                if not work.future.cancelled():
                    self._running[name] += 1
                    return name, work
        return None

    def _may(self, name: str) -> bool:
        return self._running[name] < self._share

    def _carry_out(self, name: str, work: _Work) -> None:
        future = work.future
        try:
            if future.set_running_or_notify_cancel():
                try:
                    result = work.call()
                except BaseException as error:
                    future.set_exception(error)
                else:
                    future.set_result(result)
        finally:
            del work, future
            self._end(name)
            self._begin_what_may()

    def _end(self, name: str) -> None:
        with self._counting:
            self._running[name] -= 1
            if not self._running[name]:
                del self._running[name]


def run_for_host(call: Callable[..., T], *args: Any) -> asyncio.Future[T]:
    """Run a call in a thread of the event loop's default executor, for nobody in particular.

    For what many callers need, such as ending a template: it must not wait in the queue of the one who came first.
    """
    before = working_for.set(HOST)
    try:
        return asyncio.get_running_loop().run_in_executor(None, call, *args)
    finally:
        working_for.reset(before)
