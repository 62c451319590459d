"""Executions per second, each in a fresh sandbox, beside the peers, and how long the slowest take.

python benchmarks/bench_throughput.py [SECONDS [ROUNDS]]

Each way has its turn in each round, and the medians over the rounds are told, with their ratio to bubblewrap + python.
The second table is of groundbox at concurrency 8: from the request to the whole result, over all rounds.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from measure import machine
from peers import PANDAS, PRINT, peers

import groundbox as gb

CONCURRENCY = (2, 8)
OURS = {
    "print, bare": (PRINT, "bare"),
    "print, full": (PRINT, "science"),
    "group-by, full": (PANDAS, "science"),
}
_WARM_S = 0.5


async def ours(code: str, profile: str, concurrency: int, seconds: float) -> tuple[float, list[float]]:
    """Runs per second of `concurrency` tasks that start the next run when one ends, and seconds for each run."""
    took: list[float] = []

    async def work(stop: float) -> None:
        while (begun := time.perf_counter()) < stop:
            execution = await gb.run_async(code, profile=profile)
            assert execution.ok, execution.error
            took.append(time.perf_counter() - begun)

    async def together(seconds: float) -> float:
        begun = time.perf_counter()
        took.clear()
        await asyncio.gather(*(work(begun + seconds) for _ in range(concurrency)))
        return len(took) / (time.perf_counter() - begun)

    await together(_WARM_S)
    rate = await together(seconds)
    return rate, took


def theirs(run: Callable[[str], str], code: str, concurrency: int, seconds: float) -> float:
    """The same with threads, each waiting for a process of the peer."""
    stop = time.perf_counter() + seconds

    def work() -> int:
        count = 0
        while time.perf_counter() < stop:
            run(code)
            count += 1
        return count

    with ThreadPoolExecutor(concurrency) as pool:
        begun = time.perf_counter()
        return sum(pool.map(lambda _: work(), range(concurrency))) / (time.perf_counter() - begun)


def main() -> None:
    """Print one line for each way and program, then one for each of ours with the slowest."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    machine()
    rates: dict[tuple[str, int], list[float]] = {}
    slow: dict[str, list[float]] = {}
    with peers() as found:
        for _ in range(rounds):
            for concurrency in CONCURRENCY:
                for title, (code, profile) in OURS.items():
                    rate, took = asyncio.run(ours(code, profile, concurrency, seconds))
                    rates.setdefault((title, concurrency), []).append(rate)
                    if concurrency == CONCURRENCY[-1]:
                        slow.setdefault(title, []).extend(took)
                for name, run in found.items():
                    for kind, code in (("print", PRINT), ("group-by", PANDAS)):
                        if not (name == "monty" and code == PANDAS):
                            rate = theirs(run, code, concurrency, seconds)
                            rates.setdefault((f"{name}: {kind}", concurrency), []).append(rate)
    heads = "".join(f"{f'c={c} /s':>10}{'/ bwrap':>9}" for c in CONCURRENCY)
    print(f"{'':28}{heads}")
    for title in dict.fromkeys(title for title, _ in rates):
        line = f"{title:28}"
        for concurrency in CONCURRENCY:
            rate = statistics.median(rates[title, concurrency])
            base = rates.get((f"bubblewrap: {'group-by' if 'group-by' in title else 'print'}", concurrency))
            line += f"{rate:10.1f}" + (f"{rate / statistics.median(base):8.1f}x" if base else f"{'':9}")
        print(line)
    print(f"\n{'milliseconds, c=8':28}{'runs':>8}{'p50':>8}{'p99':>8}{'p99.9':>8}{'p99/p50':>9}")
    for title, took in slow.items():
        ms = sorted(1e3 * each for each in took)
        p50, p99, p999 = (ms[min(len(ms) - 1, int(share * len(ms)))] for share in (0.5, 0.99, 0.999))
        print(f"{title:28}{len(ms):8}{p50:8.1f}{p99:8.1f}{p999:8.1f}{p99 / p50:9.1f}")


if __name__ == "__main__":
    main()
