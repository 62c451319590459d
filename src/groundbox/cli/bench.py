"""`groundbox bench`: a quick measurement of this host. Comparisons with others are in benchmarks/."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import click

from groundbox.cli.ending import ends_tidily
from groundbox.cli.interrupts import run_until_signal
from groundbox.errors import GroundboxError
from groundbox.execution import Execution
from groundbox.sandbox.sandbox import AsyncSandbox


class Snippet(NamedTuple):
    """One small program, and whether it needs more than the standard library."""

    name: str
    source: str
    science: bool


SNIPPETS: Final = (
    Snippet("print", "print(1 + 1)", False),
    Snippet(
        "group-by",
        """\
import numpy as np, pandas as pd
rng = np.random.default_rng(1)
frame = pd.DataFrame({"group": rng.integers(0, 10, 1000), "value": rng.normal(size=1000)})
print(frame.groupby("group").value.agg(["mean", "sum", "count"]))
""",
        True,
    ),
    Snippet(
        "scatter",
        """\
import matplotlib.pyplot as plt, numpy as np
rng = np.random.default_rng(1)
plt.scatter(rng.normal(size=50), rng.normal(size=50))
plt.savefig("scatter.png")
""",
        True,
    ),
)
CONCURRENCY: Final = (2, 8)
_MOST_CONCURRENT_S: Final = 3.0


@click.command()
@click.option("--profile", type=click.Choice(["bare", "science"]), default="science", show_default=True)
@click.option("--runs", type=click.IntRange(1, 10_000), default=30, show_default=True, help="Of each kind.")
@click.option("--environment", default="default", show_default=True, metavar="NAME")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line on stdout.")
@ends_tidily
def bench(profile: str, runs: int, environment: str, *, as_json: bool) -> int:
    """Measures how long small programs take on this host, from the request to the whole result.

    fresh: each run in a sandbox of its own, taken from the pool.
    second cell: in a sandbox that ran one before.
    The rates are of fresh runs, several at a time. Other work on the machine shows in the numbers.
    """
    progress = sys.stderr.isatty()
    rows = run_until_signal(_measure(profile, runs, environment, progress=progress))
    machine = f"{platform.machine()}, {os.cpu_count()} processors, Linux {platform.release()}"
    if as_json:
        for row in rows:
            print(json.dumps({**row, "profile": profile, "machine": machine}))
        return 0
    print(f"{machine}; profile {profile}; {runs} runs each")
    print(f"{'':<10} {'':<12} {'p50':>10} {'p95':>10}  {'rate':>10}")
    for row in rows:
        print(_line(row))
    return 0


async def _measure(profile: str, runs: int, environment: str, *, progress: bool) -> list[dict[str, Any]]:
    begun = time.perf_counter()
    options = {"profile": profile, "environment": environment}
    _must(await _fresh(SNIPPETS[0], options))
    rows: list[dict[str, Any]] = [_row("start", "template", [time.perf_counter() - begun])]
    for snippet in SNIPPETS:
        if snippet.science and profile != "science":
            continue
        if progress:
            click.echo(f"{snippet.name} …", err=True)
        _must(await _fresh(snippet, options))
        rows.append(_row(snippet.name, "fresh", [await _timed_fresh(snippet, options) for _ in range(runs)]))
        rows.append(_row(snippet.name, "second cell", await _timed_cells(snippet, options, runs)))
        for concurrency in CONCURRENCY:
            rate = await _rate(snippet, options, concurrency, runs)
            rows.append({"snippet": snippet.name, "kind": f"{concurrency} at once", "runs_per_s": rate})
    return rows


async def _fresh(snippet: Snippet, options: dict[str, Any]) -> Execution:
    return await AsyncSandbox(**options).run_last(snippet.source)


async def _timed_fresh(snippet: Snippet, options: dict[str, Any]) -> float:
    begun = time.perf_counter()
    _must(await _fresh(snippet, options))
    taken = time.perf_counter() - begun
    await asyncio.sleep(0.02)  # as between two requests: the pool refills meanwhile
    return taken


async def _timed_cells(snippet: Snippet, options: dict[str, Any], runs: int) -> list[float]:
    times = []
    async with AsyncSandbox(**options) as box:
        _must(await box.run(snippet.source))
        for _ in range(runs):
            begun = time.perf_counter()
            _must(await box.run(snippet.source))
            times.append(time.perf_counter() - begun)
    return times


async def _rate(snippet: Snippet, options: dict[str, Any], concurrency: int, runs: int) -> float:
    left, begun = max(runs, concurrency * 4), time.perf_counter()
    done = 0

    async def work() -> None:
        nonlocal left, done
        while left > 0 and time.perf_counter() - begun < _MOST_CONCURRENT_S:
            left -= 1
            _must(await _fresh(snippet, options))
            done += 1

    await asyncio.gather(*(work() for _ in range(concurrency)))
    return done / (time.perf_counter() - begun)


def _must(execution: Execution) -> None:
    if not execution.ok:
        reason = execution.error.message if execution.error else ""
        raise GroundboxError(f"a measured program failed: {execution.outcome}: {reason}")


def _row(snippet: str, kind: str, times: Sequence[float]) -> dict[str, Any]:
    ordered = sorted(times)
    p95 = ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))]
    return {
        "snippet": snippet,
        "kind": kind,
        "runs": len(times),
        "p50_ms": 1000 * statistics.median(times),
        "p95_ms": 1000 * p95,
    }


def _line(row: dict[str, Any]) -> str:
    if "runs_per_s" in row:
        rate = f"{row['runs_per_s']:.0f}/s"
        return f"{row['snippet']:<10} {row['kind']:<12} {'':>10} {'':>10}  {rate:>10}"
    return f"{row['snippet']:<10} {row['kind']:<12} {row['p50_ms']:>7.2f} ms {row['p95_ms']:>7.2f} ms"
