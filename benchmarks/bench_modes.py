"""The same measurements for whoever starts it: run it once as root and once as an ordinary user, and compare.

    python benchmarks/bench_modes.py [ENVIRONMENT]

Both must use environments of the same interpreter for the comparison to mean something.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time

from measure import PAUSE_S, machine
from peers import PANDAS, PRINT

import groundbox as gb

_RUNS = 40
_IN_A_ROW = 500


async def main() -> None:
    """Medians of two programs, and runs per second at concurrency 2, all with the full profile."""
    environment = sys.argv[1] if len(sys.argv) > 1 else "default"
    machine()
    for title, code in (("print", PRINT), ("pandas", PANDAS)):
        taken = []
        for _ in range(_RUNS):
            await asyncio.sleep(PAUSE_S)
            begun = time.perf_counter()
            execution = await gb.run_async(code, profile="science", environment=environment)
            taken.append(time.perf_counter() - begun)
            assert execution.ok, execution.error
        print(f"{title}: p50 {statistics.median(taken[5:]) * 1e3:.2f} ms")
    limit = asyncio.Semaphore(2)

    async def one() -> None:
        async with limit:
            assert (await gb.run_async(PRINT, profile="science", environment=environment)).ok

    begun = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(_IN_A_ROW)))
    print(f"print, concurrency 2: {_IN_A_ROW / (time.perf_counter() - begun):.0f}/s")


if __name__ == "__main__":
    asyncio.run(main())
