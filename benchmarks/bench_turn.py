"""What a turn costs besides the model and the run: reading the reply, the observation, the decision.

    python benchmarks/bench_turn.py

A typical run is a table of 200 rows as the value, some printed lines, a chart and a file. No sandbox is started.
"""

from __future__ import annotations

import base64
import statistics
import struct
import time
from collections.abc import Callable

from groundbox.agent.messages import Call, Reply
from groundbox.agent.observation import observe
from groundbox.agent.repeats import Seen
from groundbox.agent.reply import steps_of
from groundbox.agent.turn import Bounds, Spent, after_run, exhausted, judge_run, what_is_left
from groundbox.execution import Artifact, Artifacts, Display, Execution, Failure, Isolation, Outcome, Usage

REPEATS = 300
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 640, 480) + b"\0" * 30_000
SOURCE = "import pandas as pd\nframe = pd.read_csv('sales.csv')\nframe.groupby('region').revenue.sum()\n"
TABLE = {
    "schema": {"fields": [{"name": f"column_{i}", "dtype": "float64"} for i in range(8)]},
    "data": [{f"column_{i}": row * 1.5 for i in range(8)} for row in range(100)],
    "row_count": 200,
    "column_count": 8,
}


def execution(**changed: object) -> Execution:
    """A typical run, with what is changed."""
    told = {
        "execution_id": "0" * 32,
        "language": "python",
        "outcome": Outcome.OK,
        "exit_code": 0,
        "exit_signal": None,
        "stdout": "".join(f"read {i} of 40 files\n" for i in range(40)),
        "stderr": "",
        "dropped_bytes": {"stdout": 0, "stderr": 0, "displays": 0, "artifacts": 0},
        "value": {"text/plain": "x   1.50\n" * 12, "application/vnd.dataresource+json": TABLE},
        "error": None,
        "displays": [Display(data={"image/png": base64.b64encode(PNG).decode(), "text/plain": "<Figure>"})],
        "artifacts": Artifacts([Artifact(path="a.csv", size_bytes=9, media_type="text/csv", sha256="0")]),
        "warnings": [],
        "usage": Usage(wall_s=0.01, cpu_s=0.01, peak_memory_bytes=1, start_s=0.0, warm=True),
        "isolation": Isolation(backend="namespaces", layers=()),
    }
    return Execution(**(told | changed))  # type: ignore[arg-type]


def turn(run: Execution) -> None:
    """All that the loop does for one reply with one run, without the run."""
    reply = Reply(calls=[Call(name="run_code", arguments={"code": SOURCE})])
    steps_of(reply, {"python", "sql"})
    seen = Seen().after(run, SOURCE)
    decision = judge_run(run, run.warnings, seen, SOURCE)
    bounds = Bounds()
    spent = after_run(Spent(turns=1), decision)
    exhausted(spent, bounds)
    observe(run, notes=[*decision.hints, what_is_left(spent, bounds)])


def milliseconds(work: Callable[[], None]) -> list[float]:
    """How long each of REPEATS took."""
    taken = []
    for _ in range(REPEATS):
        begun = time.perf_counter()
        work()
        taken.append((time.perf_counter() - begun) * 1000)
    return taken


def main() -> None:
    failure = Failure(
        type="KeyError", message="'x'", line=2, traceback="Traceback …\n" * 12, hints=("The columns are …",)
    )
    kinds = {
        "typical": execution(),
        "failure": execution(outcome=Outcome.ERROR, error=failure, value=None),
        "1 MiB printed": execution(stdout="0123456789abcdef\n" * (1024 * 1024 // 17)),
    }
    print(f"{'run':<16}{'median ms':>10}{'p95 ms':>10}")
    for name, run in kinds.items():
        taken = milliseconds(lambda run=run: turn(run))  # type: ignore[misc]
        print(f"{name:<16}{statistics.median(taken):>10.2f}{statistics.quantiles(taken, n=20)[-1]:>10.2f}")


if __name__ == "__main__":
    main()
