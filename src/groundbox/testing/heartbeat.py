"""A heartbeat on the event loop that serves sandboxes: how long does anything keep its thread busy or blocked?

Theory of operation: a timer of a few milliseconds beats on the loop, and each beat notes how late it came, how much
processor time the loop's thread used since the last one, and how long the thread was ready to run and had no
processor (`/proc/self/task/*/schedstat`). What is late for want of a processor is the machine's doing and is taken off;
so is the longest that another thread of the process wanted for one, which may have held the interpreter's lock.
A process of its own beats in the same way; how late that one came at worst is what the machine does to anyone, and is
taken off as well. What is left was spent in the loop's thread, or waiting for the interpreter's lock.
"""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import os
import struct
import subprocess
import sys
import threading
import time
from types import TracebackType
from typing import Final, NamedTuple

from groundbox.sandbox.portal import PORTAL

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
        begun = threading.Event()
        self._loop.call_soon_threadsafe(self._begin, begun)
        begun.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running = False
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

    def _begin(self, begun: threading.Event) -> None:
        self._last = _now()
        self._loop.call_later(BEAT_S, self._beat)
        begun.set()

    def _beat(self) -> None:
        if not self._running:
            return
        (at, cpu_s, waited), now = self._last, _now()
        late_s = now[0] - at - BEAT_S
        if late_s > self._late_s:
            own = str(threading.get_native_id())
            waits = {name: wait_s - waited.get(name, wait_s) for name, wait_s in now[2].items()}
            late_s -= waits.pop(own, 0.0) + max(waits.values(), default=0.0)
        if late_s > self._late_s:
            self._late_s, self._cpu_s = late_s, now[1] - cpu_s
        self._last = _now()
        self._loop.call_later(BEAT_S, self._beat)


def _now() -> tuple[float, float, dict[str, float]]:
    """The time, this thread's processor time, and for how long each thread of the process wanted for a processor."""
    waits = {}
    for name in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{name}/schedstat") as file:
            waits[name] = int(file.read().split()[1]) / 1e9
    return time.monotonic(), time.thread_time(), waits
