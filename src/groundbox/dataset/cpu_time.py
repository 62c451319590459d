"""Processor time: what a build took over all its processes, and a bound on what one item may take of this one's."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Final

from groundbox.dataset import files

_EVERY_S: Final = 1.0


class CpuMeter:
    """Processor seconds of one problem: its runs in sandboxes, and what other processes computed for it.

    Attributes:
        cpu_s: Updated in place.
    """

    def __init__(self) -> None:
        self.cpu_s = 0.0


class BuildClock:
    """Wall and processor time, kept in a file about once a second, so that a kill loses about that much."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # A build that goes on counts from what it had spent before it was killed.
        earlier = json.loads(path.read_bytes()) if path.exists() else {"wall": 0.0, "host": 0.0}
        self._wall, self._host = earlier["wall"], earlier["host"]
        self._begun, self._begun_cpu = time.monotonic(), time.process_time()
        self._kept = self._begun
        self._others = 0.0

    def tick(self) -> None:
        """Something was done."""
        if time.monotonic() - self._kept >= _EVERY_S:
            self._kept = time.monotonic()
            files.publish(self._path, json.dumps({"wall": self._now(), "host": self._cpu()}).encode())

    def add(self, cpu_s: float) -> None:
        """Processor seconds of sandboxes and of processes that computed."""
        self._others += cpu_s

    def host(self, cpu_s: float) -> None:
        """Processor seconds of event loops beside this process's; kept with its own."""
        self._host += cpu_s

    def seconds(self) -> dict[str, float]:
        """Wall seconds, and processor seconds of everything: this process, what others computed and what sandboxes ran.

        The start of computing processes and of templates is left out, and so is what a kill has cost.
        """
        return {"wall": round(self._now(), 3), "cpu": round(self._cpu() + self._others, 3)}

    def per_cpu_hour(self, **counts: int) -> dict[str, float]:
        """Each count as one of an hour of one processor."""
        hours = (self._cpu() + self._others) / 3600
        return {name: round(count / hours, 1) for name, count in counts.items()}

    def _now(self) -> float:
        return float(self._wall + time.monotonic() - self._begun)

    def _cpu(self) -> float:
        return float(self._host + time.process_time() - self._begun_cpu)


class CpuTimeExceeded(BaseException):
    """The time is up. Not an Exception, so that what is interrupted does not take it for a fault of its own."""


@contextlib.contextmanager
def cpu_limit(cpu_s: float) -> Iterator[None]:
    """Raise CpuTimeExceeded once so many seconds of this process's processor time have passed.

    Signals are handled by the main thread alone; in another one nothing is bounded.
    """
    # `signal.signal` raises there.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # The virtual timer runs with this process's own processor time, so that a loaded machine drops no item. Its signal
    # is handled between two bytecodes: one long call into C is not interrupted before it returns.
    earlier = signal.signal(signal.SIGVTALRM, _stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, cpu_s)
    try:
        yield
    finally:
        # Off before the handler goes: the default action of this signal is to end the process.
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, earlier)


def _stop(number: int, frame: FrameType | None) -> None:
    raise CpuTimeExceeded
