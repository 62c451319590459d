"""A heartbeat on the event loop that serves sandboxes: how long does anything keep its thread busy or blocked?

Theory of operation: a timer of a few milliseconds beats on the loop, and each beat notes how late it came, how much
processor time the loop's thread used since the last one, and how long the thread was ready to run and had no
processor (`/proc/self/task/*/schedstat`). What is late for want of a processor is the machine's doing and is taken off;
so is the longest that another thread of the process wanted for one, which may have held the interpreter's lock.
A process of its own beats in the same way; how late that one came at worst is what the machine does to anyone, and is
taken off as well. So is the longest collection of garbage, by the processor time of its thread: it grows with all that
the process holds. What is left was spent in the loop's thread, or waiting for the interpreter's lock.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import mmap
import os
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, NamedTuple, TypeVar

from groundbox.sandbox.portal import PORTAL

T = TypeVar("T")
BEAT_S: Final = 0.005
MOST_S: Final = 0.05
"""What a guest may take of the loop at a time."""
_WORST: Final = struct.Struct("d")
_CONTROL: Final = """
import mmap, select, struct, sys, time
shared = mmap.mmap(int(sys.argv[1]), mmap.PAGESIZE)
while True:
    before = time.monotonic()
    if select.select([0], [], [], 0.005)[0]:  # whoever started this is gone
        break
    late = time.monotonic() - before - 0.005
    if late > struct.unpack("d", shared[:8])[0]:
        shared[:8] = struct.pack("d", late)
"""


class Gap(NamedTuple):
    """The longest time between two beats that the machine does not explain.

    Attributes:
        late_s: By how much the beat came late, without the time for which the thread had no processor.
        cpu_s: Processor time of the loop's thread in it.
        control_s: The longest that a process beside it was late.
    """

    late_s: float
    cpu_s: float
    control_s: float

    @property
    def own_s(self) -> float:
        """Seconds that the loop's thread itself worked, or waited for something."""
        return max(min(self.cpu_s, self.late_s), self.late_s - self.control_s)

    def __str__(self) -> str:
        own, late, cpu, control = (1000 * each for each in (self.own_s, self.late_s, self.cpu_s, self.control_s))
        return f"{own:6.1f} ms (late {late:.1f}, busy {cpu:.1f}, a process beside it {control:.1f})"


class Heartbeat:
    """Beats while it is entered."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop or PORTAL.loop()
        self._running = False
        self._late_s = self._cpu_s = 0.0
        self._began_s = self._collected_s = 0.0

    def __enter__(self) -> Heartbeat:
        descriptor = os.memfd_create("heartbeat")
        os.ftruncate(descriptor, mmap.PAGESIZE)
        self._shared = mmap.mmap(descriptor, mmap.PAGESIZE)
        self._control = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _CONTROL, str(descriptor)],
            stdin=subprocess.PIPE,
            pass_fds=[descriptor],
        )
        os.close(descriptor)
        self._running = True
        gc.callbacks.append(self._collects)
        begun = threading.Event()
        self._loop.call_soon_threadsafe(self._begin, begun)
        begun.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running = False
        gc.callbacks.remove(self._collects)
        assert self._control.stdin is not None
        self._control.stdin.close()
        self._control.wait()
        self._shared.close()

    def reset(self) -> None:
        """Forget what was."""
        self._late_s = self._cpu_s = 0.0
        self._shared[:8] = _WORST.pack(0.0)

    def longest(self) -> Gap:
        """Since the last reset. Waits for one more beat."""
        beaten = threading.Event()
        self._loop.call_soon_threadsafe(self._loop.call_later, 2 * BEAT_S, beaten.set)
        beaten.wait()
        return Gap(self._late_s, self._cpu_s, _WORST.unpack(self._shared[:8])[0])

    def _collects(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._began_s = time.thread_time()
        else:
            self._collected_s = max(self._collected_s, time.thread_time() - self._began_s)

    def _begin(self, begun: threading.Event) -> None:
        self._last = _now()
        self._loop.call_later(BEAT_S, self._beat)
        begun.set()

    def _beat(self) -> None:
        if not self._running:
            return
        late_s, before, now = time.monotonic() - self._last.at_s - BEAT_S, self._last, _now()
        late_s = max(late_s, now.step_s)  # what holds the lock may do so while the files are read
        if late_s > self._late_s:
            own = str(threading.get_native_id())
            waits = {name: wait_s - before.waits.get(name, wait_s) for name, wait_s in now.waits.items()}
            late_s -= waits.pop(own, 0.0) + max(waits.values(), default=0.0) + self._collected_s
        if late_s > self._late_s:
            self._late_s, self._cpu_s = late_s, now.cpu_s - before.cpu_s
        self._last, self._collected_s = now, 0.0
        self._loop.call_later(BEAT_S, self._beat)


class _Moment(NamedTuple):
    """When the files of the threads had been read.

    Attributes:
        at_s: By the monotonic clock.
        cpu_s: Processor time of this thread.
        waits: Seconds for which each thread of the process wanted for a processor, by its id.
        step_s: The longest that one call took of those that read them, after each of which the interpreter's lock has
            to be had again. Together they may take several times as long as anybody has to wait at a time.
    """

    at_s: float
    cpu_s: float
    waits: dict[str, float]
    step_s: float


def _now() -> _Moment:
    waits: dict[str, float] = {}
    steps = [time.monotonic()]

    def timed(call: Callable[..., T], *arguments: Any) -> T:
        try:
            return call(*arguments)
        finally:
            steps.append(time.monotonic())

    for name in timed(os.listdir, "/proc/self/task"):
        with contextlib.suppress(OSError):
            file = timed(os.open, f"/proc/self/task/{name}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
            try:
                waits[name] = int(timed(os.read, file, 256).split()[1]) / 1e9
            finally:
                timed(os.close, file)
    longest_s = max(after - before for before, after in itertools.pairwise(steps))
    return _Moment(time.monotonic(), time.thread_time(), waits, longest_s)
