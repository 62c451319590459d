"""A fresh sandbox from the pool, default environment: request to full result, against what a user would take instead.

python benchmarks/bench_latency.py [RUNS]
"""

from __future__ import annotations

import asyncio
import functools
import sys
import time
from typing import Any

from measure import PAUSE_S, interleaved, machine, table
from peers import SNIPPETS, peers

import groundbox as gb

NO_LIBRARIES = ("monty",)


def ours(code: str) -> str:
    """With the full profile for every snippet, files and streams included."""
    execution = gb.run(code, profile="science")
    assert execution.ok, execution.error
    return execution.stdout


async def timed(code: str, profile: str) -> float:
    """Seconds inside an event loop, as a server or an agent would use it, after a pause with the loop running."""
    await asyncio.sleep(PAUSE_S)
    begun = time.perf_counter()
    execution = await gb.run_async(code, profile=profile)
    taken = time.perf_counter() - begun
    assert execution.ok, execution.error
    return taken


def main() -> None:
    """One table for each snippet; ratios are to the asynchronous call with the full profile."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    machine()
    loop = asyncio.new_event_loop()
    with peers() as found:
        for title, code in SNIPPETS.items():
            tasks: dict[str, Any] = {
                "groundbox": lambda code=code: loop.run_until_complete(timed(code, "science")),
                "groundbox, gb.run": lambda code=code: ours(code),
            }
            if title == "print":
                tasks["groundbox, bare"] = lambda code=code: loop.run_until_complete(timed(code, "bare"))
            for name, run in found.items():
                if title == "print" or name not in NO_LIBRARIES:
                    tasks[name] = functools.partial(run, code)
            table(title, interleaved(tasks, runs), "groundbox")
    loop.run_until_complete(loop.shutdown_asyncgens())


if __name__ == "__main__":
    main()
