"""What `checks=True` costs: the same programs with and without, interleaved, and the ratio of medians.

    python benchmarks/bench_checks.py [RUNS]

Each round makes fresh sandboxes, so that marking and unmarking is counted; what the guest measures itself is the time
of the work alone. `check_python` is measured on the results.
"""

from __future__ import annotations

import statistics
import sys
import time

from measure import interleaved, machine

import groundbox as gb
from groundbox.check import check_python

PRINT = "print(6 * 7)"
SMALL = """
import pandas as pd
orders = pd.DataFrame({"customer": ["ann", "bob", "ann"] * 10, "amount": range(30)})
names = pd.DataFrame({"customer": ["ann", "bob"], "city": ["Oslo", "Rome"]})
full = orders.merge(names, on="customer", how="left")
print(full.groupby("city")["amount"].sum())
"""
MANY_CALLS = """
import pandas as pd
part = pd.DataFrame({"a": [1.5, 2.5], "b": ["x", "y"]})
for _ in range(300):
    part.groupby("b")["a"].sum()
"""
_LARGE = """
import numpy as np, pandas as pd
rng = np.random.default_rng(0)
left = pd.DataFrame({"k": rng.permutation(%d), "x": rng.random(%d)})
right = pd.DataFrame({"k": rng.permutation(%d), "y": rng.random(%d)})
import time
begun = time.perf_counter()
both = left.merge(right, on="k")
both = both.dropna()
total = both.groupby(both["k"] %% 1000)["y"].sum()
print(time.perf_counter() - begun)
"""


def large(rows: int) -> str:
    """A join, a filter and a sum of so many rows, which prints the seconds it took."""
    return _LARGE % (rows, rows, rows, rows)


def main() -> None:
    """Print a line for each program."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    machine()
    print(f"{'program':28}{'without ms':>12}{'with ms':>12}{'ratio':>8}{'wall of the whole run':>30}")
    for name, source, profile in (
        ("print, bare", PRINT, "bare"),
        ("print, science", PRINT, "science"),
        ("small join", SMALL, "science"),
        ("300 calls of groupby", MANY_CALLS, "science"),
    ):
        _line(name, interleaved(_both(source, profile), runs))
    for rows in (10_000, 100_000, 1_000_000):
        few = max(5, runs // 4)
        _line(f"join of {rows:,} rows", interleaved(_both(large(rows), "science", inner=True), few), "its work alone")
    execution = gb.run(SMALL)
    taken = interleaved({"check_python": lambda: check_python(SMALL, execution)}, runs)["check_python"]
    print(f"check_python of the small join: {statistics.median(taken) * 1e3:.2f} ms")


def _both(source: str, profile: str, *, inner: bool = False):  # type: ignore[no-untyped-def]
    def task(*, checks: bool) -> float:
        with gb.Sandbox(profile=profile, limits=gb.Limits(memory_bytes=2 * gb.GiB, wall_s=60)) as box:
            box.run("0")
            begun = time.perf_counter()
            execution = box.run(source, checks=checks)
            taken = time.perf_counter() - begun
        assert execution.ok, execution.error
        return float(execution.stdout) if inner else taken

    return {"without": lambda: task(checks=False), "with": lambda: task(checks=True)}


def _line(name: str, taken: dict[str, list[float]], what: str = "") -> None:
    without, with_checks = (statistics.median(taken[key]) for key in ("without", "with"))
    ratio = with_checks / without
    print(f"{name:28}{without * 1e3:12.2f}{with_checks * 1e3:12.2f}{ratio:7.2f}x{what:>30}")


if __name__ == "__main__":
    main()
