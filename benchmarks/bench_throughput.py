"""Executions per second at concurrency 2 and 8, each in a fresh sandbox.

python benchmarks/bench_throughput.py [SECONDS]
"""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from measure import machine
from peers import PANDAS, PRINT, peers

import groundbox as gb


async def ours(code: str, profile: str, concurrency: int, seconds: float) -> float:
    """Runs per second of `concurrency` tasks that start the next run when one ends."""
    count, stop = 0, 0.0

    async def work() -> None:
        nonlocal count
        while time.perf_counter() < stop:
            execution = await gb.run_async(code, profile=profile)
            assert execution.ok, execution.error
            count += 1

    stop = time.perf_counter() + 1.0
    await asyncio.gather(*(work() for _ in range(concurrency)))
    count, begun = 0, time.perf_counter()
    stop = begun + seconds
    await asyncio.gather(*(work() for _ in range(concurrency)))
    return count / (time.perf_counter() - begun)


def theirs(run: object, code: str, concurrency: int, seconds: float) -> float:
    """The same with threads, each waiting for a process of the peer."""
    stop = time.perf_counter() + seconds

    def work() -> int:
        count = 0
        while time.perf_counter() < stop:
            run(code)  # type: ignore[operator]
            count += 1
        return count

    with ThreadPoolExecutor(concurrency) as pool:
        begun = time.perf_counter()
        return sum(pool.map(lambda _: work(), range(concurrency))) / (time.perf_counter() - begun)


def main() -> None:
    """Print one line for each way, program and concurrency."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
    machine()
    print(f"{'':28}{'c=2 /s':>10}{'c=8 /s':>10}")
    for title, code, profile in (
        ("print, bare", PRINT, "bare"),
        ("print, full", PRINT, "science"),
        ("pandas, full", PANDAS, "science"),
    ):
        rates = [asyncio.run(ours(code, profile, c, seconds)) for c in (2, 8)]
        print(f"{'groundbox ' + title:28}{rates[0]:10.0f}{rates[1]:10.0f}")
    with peers() as found:
        for name, run in found.items():
            for title, code in (("print", PRINT), ("pandas", PANDAS)):
                if name == "monty" and title == "pandas":
                    continue
                rates = [theirs(run, code, c, seconds) for c in (2, 8)]
                print(f"{name + ' ' + title:28}{rates[0]:10.1f}{rates[1]:10.1f}")
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(f"host process: {used.ru_utime:.1f} s user, {used.ru_stime:.1f} s system")


if __name__ == "__main__":
    main()
