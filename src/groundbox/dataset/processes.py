"""What the processes of a build have in common, those that compute and those that run programs."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeVar

from groundbox.errors import GroundboxError
from groundbox.jail import credentials

T = TypeVar("T")

NEW_OBJECTS: Final = 50_000
"""Containers that a process of a build makes before Python looks for cycles among them.

A trace is hundreds of thousands of objects that stay; to look at them after every few hundred new ones, as is usual,
took a third of the time.
"""


_MOST_WORKS: Final = 4
"""Works that are kept: several may take turns, and each may hold a process that computes."""


class _Process:
    """What this process is told when it begins.

    Attributes:
        hosts: Processes that share this machine's work, this one among them.
    """

    hosts = 1


class Slots(asyncio.Semaphore):
    """Bounds how much is under way at once. Whoever pickles it for one of several hosts gives it its share."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self._all = count

    def __reduce__(self) -> tuple[Any, ...]:
        return _slots_of_host, (self._all,)


def _slots_of_host(count: int) -> Slots:
    return Slots(share(count))


def share(count: int) -> int:
    """How many of a number for all hosts together are this process's; rounded up, so that none gets 0."""
    return -(-count // _Process.hosts)


@contextlib.contextmanager
def starting() -> Iterator[None]:
    """Around the start of one: it imports for a while before it can ignore Ctrl-C, and inherits the mask until then."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def begin(parent: int, hosts: int = 1) -> None:
    """Make this process one that works for another, and ends when that does, by whatever signal.

    What it unpickles takes its share of what is meant for so many hosts.
    Ctrl-C reaches all processes of a terminal, but is meant for the parent alone: this one would show a traceback.
    """
    _Process.hosts = hosts
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # sandboxes inherit the mask, and are interrupted by it
    credentials.die_with_parent()
    if os.getppid() != parent:
        os._exit(1)
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])


class Pickled:
    """Works as bytes for other processes. The same object gives the same bytes, by which it is known there."""

    def __init__(self) -> None:
        self._known: list[tuple[object, bytes]] = []

    def of(self, work: object) -> bytes:
        """The bytes of a work, from which `work_of` makes a copy."""
        for known, data in self._known:
            if known is work:
                return data
        data = pickle.dumps(work)
        self._known = [(work, data), *self._known[: _MOST_WORKS - 1]]
        return data


@functools.lru_cache(maxsize=_MOST_WORKS)
def work_of(data: bytes) -> Any:
    """This process's copy of a work."""
    try:
        return pickle.loads(data)  # noqa: S301  the driver may run code here anyway
    except Exception as error:  # of any kind: of a package that is not here, say
        told = f"what is to be done cannot be read on this machine: {type(error).__name__}: {error}"
        raise GroundboxError(f"{told}. All machines need the same packages") from error


class Answer(NamedTuple):
    """What a process says of a shard.

    Attributes:
        error: Where it failed: the exception, or its words where it cannot be handed over; of a worker also its
            `Identity`, where it is another one than the driver expects.
        cpu_s: Processor seconds, without sandboxes: of a host until now; of a worker those spent on a shard that runs
            programs.
    """

    part: Any
    error: Any
    cpu_s: float


def portable(error: Exception) -> Exception | str:
    """The exception, if pickle gives the same kind again, or what it says."""
    with contextlib.suppress(Exception):  # of any kind: whatever its constructor raises
        if type(pickle.loads(pickle.dumps(error))) is type(error):  # noqa: S301  it was pickled on this line
            return error
    return f"{type(error).__name__}: {error}"


def beside(call: Callable[[], T]) -> asyncio.Future[T]:
    """What a call gives, made in a thread that the interpreter's end does not wait for."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()
    answer.add_done_callback(lambda it: it.cancelled() or it.exception())  # also where nobody waits any more

    def told(give: Callable[[Any], None], what: Any) -> None:
        if not answer.done():
            give(what)

    def called() -> None:
        try:
            given: tuple[Callable[[Any], None], Any] = answer.set_result, call()
        except BaseException as error:
            given = answer.set_exception, error
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(told, *given)

    threading.Thread(target=called, name="groundbox-answer", daemon=True).start()
    return answer
