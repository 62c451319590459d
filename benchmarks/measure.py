"""Interleaved runs, medians, ratios: absolute times drift with the machine, ratios inside one table hold."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping

os.environ.setdefault("GROUNDBOX_ENGINE", "off")  # what is measured is the engine of this process

PAUSE_S = 0.03


def interleaved(
    tasks: Mapping[str, Callable[[], object]], runs: int, *, pause_s: float = PAUSE_S
) -> dict[str, list[float]]:
    """Seconds of each task, one after the other in every round; the first round only warms and is thrown away.

    A task that returns a float has measured itself: one in an event loop, which has to run in the pauses too.
    """
    taken: dict[str, list[float]] = {name: [] for name in tasks}
    for number in range(runs + 1):
        for name, task in tasks.items():
            time.sleep(pause_s)
            begun = time.perf_counter()
            own = task()
            if number:
                taken[name].append(own if isinstance(own, float) else time.perf_counter() - begun)
    return taken


def percentile(values: list[float], share: float) -> float:
    """The value below which `share` of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def table(title: str, taken: Mapping[str, list[float]], ours: str) -> None:
    """Print p50, p95 and how many times ours is faster, at the medians."""
    base = statistics.median(taken[ours])
    print(f"\n{title} ({len(taken[ours])} interleaved runs)")
    print(f"{'':24}{'p50 ms':>10}{'p95 ms':>10}{'vs ours':>10}")
    for name, values in taken.items():
        median = statistics.median(values)
        print(f"{name:24}{median * 1e3:10.2f}{percentile(values, 0.95) * 1e3:10.2f}{median / base:9.1f}x")


def machine() -> None:
    """Say on what this runs."""
    load = os.getloadavg()[0]
    print(f"{platform.system()} {platform.release()}, {os.cpu_count()} cores, load {load:.1f}, uid {os.geteuid()}")
