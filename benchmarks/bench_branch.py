"""Checkpoints, going back and forks of a session with pandas, a DataFrame of 100 MB and 50 files of 10 MB together.

python benchmarks/bench_branch.py [RUNS]

Beside them, as measures of the machine at that moment, a print in the same session, in a fresh sandbox, and by
bubblewrap + python, and os.fork() by a program in the session: what the kernel takes to copy such a process once, with
what Python does about it. Where the targets were set that was 1.6 ms with these libraries, and 2.0 with 400 MB of
arrays. The last column has each time as a multiple of it.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable
from typing import Any

from measure import PAUSE_S, machine, percentile
from peers import PRINT, Runner, peers

import groundbox as gb
from groundbox.sandbox.sandbox import load_of

SESSION = """
import os
import numpy as np, pandas as pd
df = pd.DataFrame({f"column {i}": np.random.rand(1 << 17) for i in range(100)})
for i in range(50):
    with open(f"file-{i}.bin", "wb") as file:
        file.write(os.urandom(200_000))
"""
CHANGE = """
for i in range(50):
    with open(f"file-{i}.bin", "wb") as file:
        file.write(os.urandom(200_000))
"""
FORK = """
import os, time
begun = time.perf_counter()
child = os.fork()
if child == 0:
    os._exit(0)
print(time.perf_counter() - begun)
os.waitpid(child, 0)
"""
FORK_ROW = "os.fork() by a program in it"
FORKS = 8
KEPT = 100


async def measured(runs: int, yardstick: Runner | None) -> dict[str, list[float]]:
    """Seconds of each step, in rounds."""
    taken: dict[str, list[float]] = {}

    async def timed(name: str, work: Awaitable[Any]) -> Any:
        await asyncio.sleep(PAUSE_S)
        begun = time.perf_counter()
        made = await work
        taken.setdefault(name, []).append(time.perf_counter() - begun)
        return made

    async with gb.AsyncSandbox(branching=True, undo=2) as plain, gb.AsyncSandbox(branching=True) as box:
        await plain.run(SESSION)
        await box.run(SESSION)
        for _ in range(runs):
            await timed("print in the session", box.run("print(1)"))
            await timed("fresh sandbox, print", gb.run_async("print(1)"))
            if yardstick is not None:
                await timed("bubblewrap + python, print", asyncio.to_thread(yardstick, PRINT))
            await asyncio.sleep(PAUSE_S)
            taken.setdefault(FORK_ROW, []).append(float((await box.run(FORK)).stdout))
            await box.run(CHANGE)
            first = await timed("checkpoint, files new", box.checkpoint())
            state = await timed("checkpoint, files as they were", box.checkpoint())
            await box.run("df.iloc[0, 0] = 1")
            await timed("restore", box.restore(state))
            await timed("first cell after it", box.run("print(1)"))
            await plain.run("x = 1")
            await timed("undo", plain.undo())
            forks = await timed(f"fork into {FORKS}", box.fork(FORKS))
            await timed("first cell in a fork", forks[0].run("print(1)"))
            await asyncio.gather(*(each.close() for each in forks))
            first.drop()
            state.drop()
    return taken


async def held() -> tuple[float, int]:
    """MiB that each of many checkpoints takes, and how many processes the sandbox counts beside them."""
    async with gb.AsyncSandbox(branching=True) as box:
        await box.run(SESSION)
        state = [await box.checkpoint()]
        await box.run("1")
        before = load_of(box)
        state += [await box.checkpoint() for _ in range(KEPT)]
        await box.run("1")
        after = load_of(box)
        assert before is not None
        assert after is not None
        return (after.memory_bytes - before.memory_bytes) / KEPT / gb.MiB, after.process_count


def main() -> None:
    """One table of times, and what is held."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    machine()
    with peers() as found:
        taken = asyncio.run(measured(runs, found.get("bubblewrap")))
    base = statistics.median(taken[FORK_ROW])
    print(f"\n{'':32}{'p50 ms':>10}{'p95 ms':>10}{'least':>10}{'forks':>10}")
    for name, values in taken.items():
        median = statistics.median(values)
        told = f"{median * 1e3:10.2f}{percentile(values, 0.95) * 1e3:10.2f}{min(values) * 1e3:10.2f}"
        print(f"{name:32}{told}{median / base:9.1f}x")
    each, processes = asyncio.run(held())
    print(f"\n{KEPT} checkpoints hold {each:.2f} MiB each; processes that the sandbox counts: {processes}")


if __name__ == "__main__":
    main()
