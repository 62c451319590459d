"""Languages other than Python in a warm sandbox against their bare interpreters, on the host and without any wall.

    python benchmarks/bench_languages.py [RUNS]

A language that is not installed is left out. The bare interpreter gets a clean environment, as ours does, and its
output is read to the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from measure import PAUSE_S, machine

import groundbox as gb
from groundbox.sandbox import languages, profiles

_SHELL = "echo $((6 * 7))\n"
_SCRIPT = "console.log(6 * 7)\n"
_GRAPH = (
    "digraph {\n" + "".join(f'  n{i} [label="node {i}"]; n{i} -> n{(i * 7 + 3) % 200};\n' for i in range(200)) + "}\n"
)
_ENVIRON = {"PATH": profiles.GUEST_PATH, "HOME": "/tmp", "LANG": "C.UTF-8"}
_PROFILES = ("bare", "bare", "bare", "node", "bare", "bare")
_IN_A_ROW, _COUNTED = 8, 5
Task = Callable[[], Awaitable[float]]
Tasks = dict[str, tuple[Task, Task | None]]


async def main() -> None:
    """Tables, with pauses and without: ours and theirs at the median of interleaved runs, and the ratio."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 31
    machine()
    with tempfile.TemporaryDirectory() as folder:
        async with contextlib.AsyncExitStack() as boxes:
            made = [await boxes.enter_async_context(gb.AsyncSandbox(profile=profile)) for profile in _PROFILES]
            tasks = _tasks(made, Path(folder))
            alone = {"bash script": tasks["bash script"]}
            for how, which, pause_s in (
                (f"pauses of {PAUSE_S * 1e3:.0f} ms", tasks, PAUSE_S),
                ("one after another", tasks, 0.0),
                ("the same, no other programs", alone, 0.0),
            ):
                print(f"\n{how:34}{'ours ms':>10}{'theirs ms':>11}{'ratio':>8}   ({runs} interleaved runs)")
                for name, (ours, theirs) in (await _times(which, runs, pause_s)).items():
                    mine, other = statistics.median(ours) * 1e3, statistics.median(theirs or [0.0]) * 1e3
                    compared = f"{other:11.2f}{mine / other:7.2f}x" if theirs else ""
                    print(f"{name:34}{mine:10.2f}{compared}")


async def _times(tasks: Tasks, runs: int, pause_s: float) -> dict[str, tuple[list[float], list[float]]]:
    """Seconds of each run, ours and theirs; without pauses a task is done eight times, and the last five count."""
    taken: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in tasks}
    for number in range(runs + 1):
        for name, pair in tasks.items():
            turns = list(zip(pair, taken[name], strict=True))
            for task, times in turns if number % 2 else reversed(turns):  # the program before leaves work behind
                if task is None:
                    continue
                await asyncio.sleep(pause_s)
                spent = [await task() for _ in range(1 if pause_s else _IN_A_ROW)]
                if number:
                    times += spent[-_COUNTED:]
    return taken


def _tasks(boxes: Sequence[gb.AsyncSandbox], folder: Path) -> Tasks:
    """Ours and theirs, for what is installed; each in a sandbox of its own, which has done it before."""
    python, bash, script_box, node, svg, png = boxes
    for name, source in (("main.sh", _SHELL), ("main.js", _SCRIPT), ("main.dot", _GRAPH)):
        (folder / name).write_text(source)
    shell, script, graph = (str(folder / name) for name in ("main.sh", "main.js", "main.dot"))
    found: Tasks = {
        "an empty Python cell": (_ours(python, "pass", "python"), None),
        "bash script": (_ours(bash, _SHELL, "shell"), _theirs("bash", shell)),
    }
    if languages.missing("javascript") is None:
        found["node script"] = _ours(script_box, _SCRIPT, "javascript", mode="script"), _theirs("node", script)
        found["node cell 1+1, against its start"] = _ours(node, "1+1", "javascript"), _theirs("node", "-e", "1+1")
    if languages.missing("dot") is None:
        found["200 nodes to SVG"] = _ours(svg, _GRAPH, "dot", argv=["-Tsvg"]), _theirs("dot", "-Tsvg", graph)
        found["200 nodes to SVG and PNG"] = (
            _ours(png, _GRAPH, "dot"),
            _theirs("dot", "-Tsvg", "-o", f"{folder}/a.svg", "-Tpng", "-o", f"{folder}/a.png", graph),
        )
    return found


def _ours(box: gb.AsyncSandbox, source: str, language: str, **options: object) -> Task:
    async def task() -> float:
        begun = time.perf_counter()
        execution = await box.run(source, language=language, **options)  # type: ignore[arg-type]
        spent = time.perf_counter() - begun
        assert execution.ok, execution.error
        return spent

    return task


def _theirs(*command: str) -> Task:
    async def task() -> float:
        begun = time.perf_counter()
        subprocess.run(command, capture_output=True, check=True, env=_ENVIRON)  # noqa: ASYNC221  its start is what is measured
        return time.perf_counter() - begun

    return task


if __name__ == "__main__":
    asyncio.run(main())
