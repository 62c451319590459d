"""10 MB of output, many sandboxes alive at once, many runs in a row: nothing lost, nothing left behind.

python benchmarks/bench_scale.py [ALIVE] [RUNS]
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

from measure import machine

import groundbox as gb


def counts() -> dict[str, int]:
    """What a leak would raise."""
    status = Path("/proc/self/status").read_text()
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "processes": sum(name.isdigit() for name in os.listdir("/proc")),
        "mounts": len(Path("/proc/self/mountinfo").read_text().splitlines()),
        "host_rss_kib": int(status.split("VmRSS:")[1].split()[0]),
    }


async def main() -> None:
    """Three parts, each with its counts."""
    alive = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 10000
    machine()
    big = await gb.run_async("print('x' * 10_000_000)", limits=gb.Limits(output_bytes=None))
    print(f"10 MB of output: {len(big.stdout)} characters came, in {big.usage.wall_s:.2f} s")
    begun = time.monotonic()
    boxes = [gb.AsyncSandbox(profile="bare") for _ in range(alive)]
    for start in range(0, alive, 50):
        await asyncio.gather(*(box.run(f"x = {start}") for box in boxes[start : start + 50]))
    results = []
    for start in range(0, alive, 50):
        results += await asyncio.gather(*(box.run("x") for box in boxes[start : start + 50]))
    right = sum(r.text == str(i // 50 * 50) for i, r in enumerate(results))
    print(f"{alive} sandboxes alive at once: {right} remember what they were told, {time.monotonic() - begun:.1f} s")
    for box in boxes:
        await box.close()
    await asyncio.sleep(2)
    before, begun, ok = counts(), time.monotonic(), 0
    limit = asyncio.Semaphore(4)

    async def one(number: int) -> bool:
        async with limit:
            execution = await gb.run_async(f"print({number})", profile="bare")
            return execution.stdout == f"{number}\n"

    for start in range(0, runs, 500):
        ok += sum(await asyncio.gather(*(one(n) for n in range(start, min(start + 500, runs)))))
    taken = time.monotonic() - begun
    await asyncio.sleep(2)
    print(f"{runs} runs in a row: {ok} right, {runs / taken:.0f}/s")
    print(f"before {before}\nafter  {counts()}")


if __name__ == "__main__":
    asyncio.run(main())
