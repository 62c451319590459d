"""Where the processor time of a run goes: host, template, worker; user and system.

    python benchmarks/bench_breakdown.py [bare|science] [RUNS]

From times(2) of the host and /proc/PID/stat of the template, whose children are the workers, over many runs.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

from measure import machine
from peers import PRINT

import groundbox as gb

_TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")


def ticks(pid: int) -> list[int]:
    """User, system, children's user and children's system ticks of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return [int(field) for field in fields[11:15]]


def children(pid: int) -> list[int]:
    """Direct children of a process."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def main() -> None:
    """Warm the pool, run many at concurrency 2, divide."""
    profile = sys.argv[1] if len(sys.argv) > 1 else "bare"
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    machine()
    limit = asyncio.Semaphore(2)

    async def one() -> None:
        async with limit:
            assert (await gb.run_async(PRINT, profile=profile)).ok

    await asyncio.gather(*(one() for _ in range(50)))
    template = children(children(max(children(os.getpid())))[0])[0]
    before, host, begun = ticks(template), os.times(), time.perf_counter()
    await asyncio.gather(*(one() for _ in range(runs)))
    wall, after, ended = time.perf_counter() - begun, ticks(template), os.times()
    spent = [_TICK_MS * (b - a) / runs for a, b in zip(before, after, strict=True)]
    own_user, own_system = (1e3 * spent_s / runs for spent_s in (ended.user - host.user, ended.system - host.system))
    print(f"{profile}: {runs / wall:.0f} runs a second; milliseconds of processor time for each run:")
    print(f"  host      {own_user:5.2f} user {own_system:5.2f} system")
    print(f"  template  {spent[0]:5.2f} user {spent[1]:5.2f} system (fork and namespaces)")
    print(f"  worker    {spent[2]:5.2f} user {spent[3]:5.2f} system (jail, program, end)")


if __name__ == "__main__":
    asyncio.run(main())
