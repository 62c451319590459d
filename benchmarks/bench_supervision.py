"""Items per processor second of run, trace and compare: groundbox in its sandbox, and snoop in a process of its own.

    python benchmarks/bench_supervision.py --problems FILE --snoop PYTHON [--items N] [--soft-events N]

FILE holds programs in the CodeI/O format; the first inputs of the first N programs are run, each for at most 5
seconds of processor time on both sides. Those that take longer without a tracer are left out, by a run that is not
counted. PYTHON is an interpreter that can import snoop 0.6.0 and, to its advantage,
nothing that snoop would import besides.

Ours: fresh sandbox with all layers, native tracer where it was built, the trace read and checked by the host, the
result compared with the recorded one. An item is done when its trace is complete, folded or not.
Peer: the configuration of the pipeline that was released with "Code Execution as Grounded Supervision for LLM
Reasoning": `@snoop(depth=N)` on the main function with N the number of `def`s, the trace from stderr, accepted when it
has less than 300 lines and no mark of an exception and ends with the main function's return; without a sandbox, without
comparing. Its own limit is 5 seconds by the clock, which would make load part of the result.

Blocks of items alternate. Ours counts all of it: host process, templates with their start, workers.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from measure import machine

from groundbox.dataset.item import Item
from groundbox.dataset.options import BuildOptions
from groundbox.dataset.problem import Case, Problem
from groundbox.dataset.problems.reading import read
from groundbox.dataset.running import Request, SandboxRunner
from groundbox.dataset.stages.compare import compare
from groundbox.trace.options import TraceOptions

_TICKS = os.sysconf("SC_CLK_TCK")
_BLOCK = 20
_CPU_S = 5.0
_PEER_MOST_LINES = 300
_DEFINITION = re.compile(r"\bdef\s+\w+\s*\(.*?\)")
_RETURNED = "<<< Return value from {}:"
_Work = tuple[Problem, Case]


def of_tree(pid: int) -> float:
    """Processor seconds of a process below us, of all it has waited for, and of its living children."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS + sum(of_tree(int(child)) for child in below)


def own_cpu_s() -> float:
    """Processor seconds of this process and of everything that it keeps running."""
    mine = os.times()
    below = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return mine.user + mine.system + sum(of_tree(int(child)) for child in below)


def ending_in_time(work: list[_Work]) -> list[bool]:
    """Which items end within the limit when nothing traces them. Called in a process that is not counted."""

    async def one(runner: SandboxRunner, problem: Problem, case: Case) -> bool:
        asked = Request(source=problem.source, entry=problem.entry, case=case, hash_seed=0, traced=False, cpu_s=_CPU_S)
        return (await runner.run(asked)).outcome in ("ok", "error")

    async def every() -> list[bool]:
        runner = SandboxRunner(at_once=os.cpu_count() or 1)
        return await asyncio.gather(*(one(runner, problem, case) for problem, case in work))

    return asyncio.run(every())


async def ours(runner: SandboxRunner, block: list[_Work]) -> int:
    """How many items of a block gave a complete trace and a result that was compared."""

    async def one(problem: Problem, case: Case) -> bool:
        asked = Request(source=problem.source, entry=problem.entry, case=case, hash_seed=0, traced=True, cpu_s=_CPU_S)
        ran = await runner.run(asked)
        if ran.trace is None or not ran.trace.complete or ran.outcome not in ("ok", "error"):
            return False
        compare(Item(id=problem.id, problem=problem.id, case=case, answer=ran.answer, runnable=True))
        return True

    return sum(await asyncio.gather(*(one(problem, case) for problem, case in block)))


def peer(python: str, folder: Path) -> Callable[[Problem, Case], tuple[bool, float]]:
    """Runs one item under snoop; whether it is accepted, and its processor seconds."""

    def bounded() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (int(_CPU_S), int(_CPU_S)))

    def run(problem: Problem, case: Case) -> tuple[bool, float]:
        depth = len(_DEFINITION.findall(problem.source))
        marked = problem.source.replace(f"def {problem.entry}", f"@snoop(depth={depth})\ndef {problem.entry}")
        arguments = ", ".join(f"{name}={value!r}" for name, value in case.kwargs.items())
        program = folder / "program.py"
        program.write_text(
            "import snoop\nsnoop.install(columns='', replace_watch_extras=())\n"
            f"{marked}\n{problem.entry}({arguments})\n"
        )
        trace = folder / "trace.txt"
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with trace.open("wb") as file:
            ended = subprocess.run([python, str(program)], stdout=subprocess.DEVNULL, stderr=file, preexec_fn=bounded)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        lines = trace.read_text(errors="replace").splitlines() if trace.stat().st_size < 1 << 26 else []
        accepted = (
            ended.returncode == 0
            and 0 < len(lines) < _PEER_MOST_LINES
            and "!!!" not in "\n".join(lines)
            and _RETURNED.format(problem.entry) in lines[-1]
        )
        return accepted, cpu_s

    return run


def main() -> None:
    """One line for each side, and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--problems", required=True, type=Path)
    parser.add_argument("--snoop", required=True, metavar="PYTHON")
    parser.add_argument("--items", type=int, default=100)
    parser.add_argument("--soft-events", type=int, default=BuildOptions(problems=()).trace.soft_events)
    asked = parser.parse_args()
    machine()
    problems = [each for each in read(asked.problems) if isinstance(each, Problem) and each.cases and each.entry]
    work = [(each, each.cases[0]) for each in problems][: asked.items]
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as apart:
        in_time = apart.submit(ending_in_time, work).result()
    work = [one for one, ends in zip(work, in_time, strict=True) if ends]
    asyncio.run(side_by_side(work, asked.snoop, TraceOptions(soft_events=asked.soft_events)))


async def side_by_side(work: list[_Work], python: str, options: TraceOptions) -> None:
    """Run all, in blocks that alternate, and print."""
    runner = SandboxRunner(at_once=os.cpu_count() or 1, options=options)
    done = accepted = 0
    ours_s = peers_s = 0.0
    with tempfile.TemporaryDirectory() as folder:
        run = peer(python, Path(folder))
        at_peers = own_cpu_s()  # what came before, the reading of the problems, is nobody's
        ours_s -= at_peers
        for begin in range(0, len(work), _BLOCK):
            block = work[begin : begin + _BLOCK]
            done += await ours(runner, block)
            ours_s += own_cpu_s()
            for problem, case in block:
                ok, cpu_s = run(problem, case)
                accepted += ok
                peers_s += cpu_s
            ours_s -= own_cpu_s()
            print(f"{begin + len(block)} of {len(work)}", file=sys.stderr)
        ours_s += own_cpu_s()
    count = len(work)
    print(f"{'':12}{'items':>8}{'traced':>8}{'CPU s':>10}{'items/CPU s':>14}{'traced/CPU s':>14}")
    for name, good, spent in (("groundbox", done, ours_s), ("snoop", accepted, peers_s)):
        print(f"{name:12}{count:8}{good:8}{spent:10.2f}{count / spent:14.2f}{good / spent:14.2f}")
    print(f"ratio: {peers_s / ours_s:.1f}x the items, {done / ours_s / (accepted / peers_s):.1f}x the traces")


if __name__ == "__main__":
    main()
