"""A fresh sandbox on gVisor's kernel beside `runsc do python`, with the same interpreter and packages, by turns.

    python benchmarks/bench_gvisor.py [RUNS]

As root, where runsc is installed. A pause after each run lets the pool fill up again, as between two calls of an agent;
what a sandbox costs without one is told by itself, as the rate of sandboxes that are wanted one after the other.
"""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial

from measure import interleaved, machine, table
from peers import PANDAS, PRINT

import groundbox as gb
from groundbox.jail import probe
from groundbox.sandbox import environments

_PAUSE_S = 0.7
_IN_A_ROW = 20


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    found = probe.gvisor()
    if not found.works:
        sys.exit(f"gvisor: {found.detail}. {found.mend}")
    machine()
    python = str(environments.get().python)

    def cold(source: str) -> None:
        command = ["runsc", "--network=none", "--platform=ptrace", "do", python, "-c", source]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def ours(source: str) -> None:
        execution = gb.run(source, backend="gvisor", profile="science")
        assert execution.ok, execution.error

    for name, source in (("print", PRINT), ("group-by", PANDAS)):
        ours(source)
        tasks = {"gvisor": partial(ours, source), "runsc do": partial(cold, source)}
        taken = interleaved(tasks, runs, pause_s=_PAUSE_S)
        table(name, taken, "gvisor")
    began = time.perf_counter()
    for _ in range(_IN_A_ROW):
        ours(PRINT)
    print(f"\none after the other: {_IN_A_ROW / (time.perf_counter() - began):.1f} prints a second")


if __name__ == "__main__":
    main()
