"""How much slower a traced program is: each core of the tracer, and tools that people know, on small programs.

    python benchmarks/bench_tracer.py [--native FILE] [--problems FILE] [--runs N]

Runs on the interpreter that it is started with; start it on each that matters. Every program runs under every tracer
in turn, several times; a program's slowdown is the ratio of its fastest runs, with the tracer and without, by the
processor time of its thread. snoop,
PySnooper and hunter take part if they can be imported; they trace all functions of the program to a buffer in memory.
`--problems` takes JSON Lines with `refcode`, `funcname` and `ios`; the first input of each is used, and
programs that run for over 50 ms without a tracer are left out. Starting a trace (reading the program) is not counted in
the slowdown; it is told beside it.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import json
import math
import mmap
import statistics
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "src")]

from tracer_programs import PROGRAMS

_MEMORY = mmap.mmap(-1, (32 << 20) + 8)
_LONGEST_S = 0.05


def _tracer() -> Any:
    """The tracer alone: what the host has installed may be missing on this interpreter."""
    for name in ("groundbox", "groundbox.guest"):
        package = types.ModuleType(name)
        package.__path__ = [str(Path(__file__).parents[1] / "src" / Path(*name.split(".")))]
        sys.modules[name] = package
    from groundbox.guest.trace import tracer

    return tracer


class Program(NamedTuple):
    """One function to be called, and how."""

    name: str
    source: str
    call: str
    kwargs: dict[str, Any]


Runner = Callable[[Program], float]


def untraced(program: Program) -> float:
    """Processor seconds of one run of the call, without a tracer."""
    return _timed(program, lambda: contextlib.nullcontext())


def with_core(tracer: Any, core: str) -> Runner:
    """Runs under a core of ours, one trace for the module and the call; the call is what is timed."""

    def run(program: Program) -> float:
        code = compile(program.source, "main.py", "exec")
        begun = time.perf_counter()
        recording = tracer.start(code, program.source, _MEMORY, core=core)
        _STARTS.setdefault(core, []).append(time.perf_counter() - begun)
        try:
            return _timed(program, lambda: contextlib.nullcontext(), code)
        finally:
            recording.stop(ended=True)

    return run


_STARTS: dict[str, list[float]] = {}


def peers() -> dict[str, Runner]:
    """Tools that can be imported here."""
    found: dict[str, Runner] = {}
    with contextlib.suppress(ImportError):
        import snoop

        snoop.install(out=io.StringIO(), columns="")
        found["snoop"] = lambda program: _timed(program, lambda: snoop.snoop(depth=50))
    with contextlib.suppress(ImportError):
        import pysnooper

        found["PySnooper"] = lambda program: _timed(program, lambda: pysnooper.snoop(io.StringIO(), depth=50))
    with contextlib.suppress(ImportError):
        import hunter

        def watch() -> Any:
            action = hunter.CodePrinter(stream=io.StringIO())
            return hunter.trace(filename="main.py", action=action)

        found["hunter (lines only)"] = lambda program: _timed(program, watch)
    return found


def _timed(program: Program, tracing: Callable[[], Any], code: types.CodeType | None = None) -> float:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(code or compile(program.source, "main.py", "exec"), namespace)
    kwargs = copy.deepcopy(program.kwargs)
    with tracing():
        begun = time.thread_time()
        with contextlib.suppress(Exception):
            namespace[program.call](**kwargs)
        return time.thread_time() - begun


def programs(problems: str | None) -> list[Program]:
    """Our own, or the first inputs of some problems."""
    if problems is None:
        return [Program(name, source, "main", {}) for name, source in PROGRAMS.items()]
    lines = [json.loads(line) for line in Path(problems).read_text().splitlines()]
    return [
        Program(str(number), line["refcode"], line.get("funcname", "main_solution"), line["ios"][0]["input"])
        for number, line in enumerate(lines)
    ]


def fastest(program: Program, runners: dict[str, Runner], runs: int) -> dict[str, float] | None:
    """The shortest time of each, or None for a program that takes too long, or needs a module that is not here."""
    taken: dict[str, float] = {}
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            if untraced(program) > _LONGEST_S:
                return None
        except ImportError:
            return None
        for _ in range(runs):
            for name, run in runners.items():
                taken[name] = min(taken.get(name, math.inf), run(program))
    return taken


def report(slowdowns: dict[str, list[float]]) -> None:
    """A table of ratios."""
    print(f"{'':22}{'median':>9}{'geo-mean':>10}{'p90':>9}")
    for name, ratios in slowdowns.items():
        ratios.sort()
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        p90 = ratios[min(len(ratios) - 1, int(0.9 * len(ratios)))]
        start = f"   start {statistics.median(_STARTS[name]) * 1e3:.1f} ms" if name in _STARTS else ""
        print(f"{name:22}{statistics.median(ratios):8.1f}x{mean:9.1f}x{p90:8.1f}x{start}")


def main() -> None:
    """Run everything and print the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--native", default="", help="file of the core in C, built for this interpreter")
    options.add_argument("--problems", help="JSON Lines file of problems, in place of our own programs")
    options.add_argument("--runs", type=int, default=5)
    chosen = options.parse_args()
    tracer = _tracer()
    tracer.NATIVE = chosen.native
    cores = ["native"] * bool(chosen.native) + ["plain"]
    runners: dict[str, Runner] = {"none": untraced, **{core: with_core(tracer, core) for core in cores}, **peers()}
    slowdowns: dict[str, list[float]] = {name: [] for name in runners if name != "none"}
    for program in programs(chosen.problems):
        taken = fastest(program, runners, chosen.runs)
        if taken is not None:
            for name, ratios in slowdowns.items():
                ratios.append(taken[name] / taken["none"])
    count = len(next(iter(slowdowns.values())))
    print(f"Python {sys.version.split()[0]}, {count} programs, slowdown over no tracer:")
    report(slowdowns)


if __name__ == "__main__":
    main()
