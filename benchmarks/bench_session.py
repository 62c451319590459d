"""Runs of a sandbox that stays, over the code itself; a warm ipykernel side by side. Then a process's first `gb.run`.

python benchmarks/bench_session.py [RUNS]
"""

from __future__ import annotations

import asyncio
import functools
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import NamedTuple

from measure import interleaved, machine, percentile, table
from peers import PANDAS, PRINT, ipykernel

import groundbox as gb

REFILL_S = 0.15
"""Until processes wait in the pool that were made without haste, as for a user who makes a sandbox now and then."""
FIRST = f"""
import time
import groundbox as gb

begun, cpu_s = time.perf_counter(), time.process_time()
assert gb.run({PRINT!r}).stdout == "2\\n"
print(time.perf_counter() - begun, time.process_time() - cpu_s)
"""


async def asynchronous(runs: int) -> list[float]:
    """Seconds over the cell's own time, from inside an event loop."""
    over = []
    async with gb.AsyncSandbox() as box:
        await box.run("1")
        for _ in range(runs):
            execution = await box.run(PRINT)
            over.append(execution.usage.wall_s)
            await asyncio.sleep(0.005)
    return over


class Taken(NamedTuple):
    """Seconds that a run took, and those of processor time: of the sandbox, or of the process that called."""

    wall_s: float
    cpu_s: float


async def kept(runs: int) -> dict[str, list[Taken]]:
    """Time the runs of sandboxes that stay, by profile and kind of run; both profiles in every round."""
    taken = defaultdict(list)
    for number in range(runs + 2):
        for profile in ("bare", "science"):
            async with gb.AsyncSandbox(profile=profile) as box:
                for kind in ("first cell", "later cell", "script after cells", "later script"):
                    begun = perf_counter()
                    execution = await box.run(PRINT, mode="script" if "script" in kind else "cell")
                    seconds = Taken(perf_counter() - begun, execution.usage.cpu_s or 0.0)
                    assert execution.stdout == "2\n", execution.error
                    if number > 1:  # the first have no process that waits
                        taken[f"{profile}: {kind}"].append(seconds)
                    await asyncio.sleep(0.005)
            await asyncio.sleep(REFILL_S)
    return taken


def first_runs(runs: int) -> dict[str, list[Taken]]:
    """Time the first `gb.run` in new processes: with an engine in the background that is warm, and with none."""
    with tempfile.TemporaryDirectory() as folder:  # a TMPDIR of its own has an engine of its own
        usual = {name: value for name, value in os.environ.items() if name not in ("GROUNDBOX_ENGINE", "CI")}
        warm = {**usual, "TMPDIR": folder}

        def first(environ: Mapping[str, str]) -> Taken:
            command = [sys.executable, "-c", FIRST]
            told = subprocess.run(command, env=environ, check=True, capture_output=True, text=True).stdout
            return Taken(*map(float, told.split()))

        taken: dict[str, list[Taken]] = {"engine warm": [], "own process": []}
        try:
            first(warm)
            for _ in range(runs):
                for name, environ in (("engine warm", warm), ("own process", {**usual, "GROUNDBOX_ENGINE": "off"})):
                    taken[name].append(first(environ))
            return taken
        finally:
            subprocess.run([sys.executable, "-m", "groundbox", "engine", "stop"], env=warm, check=True)


def print_medians(title: str, taken: Mapping[str, list[Taken]]) -> None:
    """Print the median and quartiles of each, and the median of the processor time, which other work changes less."""
    print(f"\n{title}, milliseconds\n{'':28}{'median':>9}{'quartiles':>20}{'processor':>11}")
    for name, values in taken.items():
        low, middle, high = (percentile([each.wall_s for each in values], share) * 1e3 for share in (0.25, 0.5, 0.75))
        cpu = statistics.median(each.cpu_s for each in values) * 1e3
        print(f"{name:28}{middle:9.2f}{f'{low:.2f} to {high:.2f}':>20}{cpu:11.2f}")


def main() -> None:
    """Tables for print and pandas, the overhead inside an event loop, runs by kind, and first runs of processes."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    machine()
    with gb.Sandbox() as box, ipykernel() as kernel:
        for title, code in (("print", PRINT), ("pandas", PANDAS)):
            tasks: dict[str, Callable[[], object]] = {"groundbox": functools.partial(box.run, code)}
            if kernel is not None:
                tasks["ipykernel"] = functools.partial(kernel, code)
            table(f"second cell, {title}", interleaved(tasks, runs), "groundbox")
    over = asyncio.run(asynchronous(runs))
    print(
        f"\nprint in a live sandbox, asynchronous: p50 {statistics.median(over) * 1e3:.2f} ms, "
        f"p95 {percentile(over, 0.95) * 1e3:.2f} ms (print itself takes about 0.02 ms)"
    )
    print_medians("print in a sandbox that stays", asyncio.run(kept(runs)))
    print_medians("the first gb.run of a process, print", first_runs(max(5, runs // 5)))


if __name__ == "__main__":
    main()
