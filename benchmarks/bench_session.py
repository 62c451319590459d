"""A second cell in a live sandbox, over the code itself; a warm ipykernel side by side.

python benchmarks/bench_session.py [RUNS]
"""

from __future__ import annotations

import asyncio
import functools
import statistics
import sys
from collections.abc import Callable

from measure import interleaved, machine, percentile, table
from peers import PANDAS, PRINT, ipykernel

import groundbox as gb


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


def main() -> None:
    """Tables for print and pandas, then the overhead from inside an event loop."""
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


if __name__ == "__main__":
    main()
