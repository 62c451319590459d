"""Memory of a worker that waits: private and proportional, from the kernel's smaps_rollup.

python benchmarks/bench_memory.py [WORKERS]
"""

from __future__ import annotations

import asyncio
import re
import statistics
import sys
from pathlib import Path

from measure import machine

import groundbox as gb


def memory_kib(pid: int) -> dict[str, int]:
    """The fields of smaps_rollup."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return {name: int(value) for name, value in re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)}


def children(pid: int) -> list[int]:
    """Direct children of a process."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def main() -> None:
    """Take workers without running anything in them, and look."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    machine()
    for profile in ("bare", "science"):
        boxes = [gb.AsyncSandbox(profile=profile) for _ in range(count)]
        loans = [await box.worker() for box in boxes]
        await asyncio.sleep(0.5)
        me = memory_kib_of_workers()
        private = [m["Private_Clean"] + m["Private_Dirty"] for m in me]
        proportional = [m["Pss"] for m in me]
        print(
            f"{profile:10} {len(loans)} lent, {len(me)} workers in all: private median "
            f"{statistics.median(private) / 1024:.2f} MiB, most {max(private) / 1024:.2f} MiB; "
            f"proportional median {statistics.median(proportional) / 1024:.2f} MiB"
        )
        for box in boxes:
            await box.close()
        await asyncio.sleep(0.5)


def memory_kib_of_workers() -> list[dict[str, int]]:
    """Of the most recently started template: starter, keeper, template, workers."""
    import os

    starter = max(children(os.getpid()))
    template = children(children(starter)[0])[0]
    return [memory_kib(worker) for worker in children(template)]


if __name__ == "__main__":
    asyncio.run(main())
