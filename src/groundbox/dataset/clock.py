"""Clock: the time that a build takes, over all the processes that worked on it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Final

from groundbox.dataset import files

_EVERY_S: Final = 1.0


class Meter:
    """Processor seconds of one problem: its runs in sandboxes, and what other processes computed for it.

    Attributes:
        cpu_s: Updated in place.
    """

    def __init__(self) -> None:
        self.cpu_s = 0.0


class Clock:
    """Wall and processor time, kept in a file about once a second, so that a kill loses about that much."""

    def __init__(self, path: Path) -> None:
        self._path = path
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
