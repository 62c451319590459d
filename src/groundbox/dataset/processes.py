"""What the processes of a build have in common, those that compute and those that run programs."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
from collections.abc import Iterator
from typing import Any, Final

from groundbox.jail import credentials

NEW_OBJECTS: Final = 50_000
"""Containers that a process of a build makes before Python looks for cycles among them.

A trace is hundreds of thousands of objects that stay; to look at them after every few hundred new ones, as is usual,
took a third of the time.
"""


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
