"""Items per processor second of run, trace and compare: groundbox in its sandbox, and snoop in a process of its own.

    python benchmarks/bench_supervision.py --problems FILE --snoop PYTHON [--snoop PYTHON] [--items N] [--soft-events N]

FILE holds programs in the CodeI/O format; the first inputs of the first N programs are run, each for at most 5
seconds of processor time on both sides. Those that take longer without a tracer are left out, by a run that is not
counted. PYTHON is an interpreter that can import snoop 0.6.0. One that can import nothing else starts fastest; one
with the libraries that the programs need, as the sandbox has them, can run all of them, and snoop imports pandas then.

Ours: fresh sandbox with all layers, native tracer where it was built, the trace read and checked by the host, the
result compared with the recorded one. An item is done when its trace is complete, folded or not.
Peer: the configuration of the pipeline that was released with "Code Execution as Grounded Supervision for LLM
Reasoning": `@snoop(depth=N)` on the main function with N the number of `def`s, the trace from stderr, accepted when it
has less than 300 lines and no mark of an exception and ends with the main function's return; without a sandbox, without
comparing. Its own limit is 5 seconds by the clock, which would make load part of the result.
Of those it accepts, complete are the ones that show as many calls of the program's functions as our trace does.

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
from groundbox.dataset.item_runs import compare
from groundbox.dataset.options import BuildOptions
from groundbox.dataset.problem import Case, Problem
from groundbox.dataset.problems.reading import read
from groundbox.dataset.program_runner import Request, SandboxRunner
from groundbox.trace.record.reading import Trace
from groundbox.trace.record.schema import Call
from groundbox.trace_options import TraceOptions

_TICKS = os.sysconf("SC_CLK_TCK")
_BLOCK = 20
_CPU_S = 5.0
_PEER_MOST_LINES = 300
_DEFINITION = re.compile(r"\bdef\s+\w+\s*\(.*?\)")
_RETURNED = "<<< Return value from {}:"
_CALLED = r'>>> (?:Call to|Start generator) (?:\S+\.)?[^<\s.]+ in File "{}"'
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


async def ours(runner: SandboxRunner, block: list[_Work]) -> list[Trace | None]:
    """The complete traces of a block, where there is also a result that was compared."""

    async def one(problem: Problem, case: Case) -> Trace | None:
        asked = Request(source=problem.source, entry=problem.entry, case=case, hash_seed=0, traced=True, cpu_s=_CPU_S)
        ran = await runner.run(asked)
        if ran.trace is None or not ran.trace.complete or ran.outcome not in ("ok", "error"):
            return None
        compare(Item(id=problem.id, problem=problem.id, case=case, answer=ran.answer, runnable=True))
        return ran.trace

    return await asyncio.gather(*(one(problem, case) for problem, case in block))


def calls(trace: Trace, entry: str) -> int:
    """How often functions of the program were called within its main function, but for what is folded."""
    called = [record.name for record in trace.records if isinstance(record, Call)]
    return sum(not name.rpartition(".")[2].startswith("<") for name in called[called.index(entry) :])


def peer(python: str, folder: Path) -> Callable[[Problem, Case], tuple[int | None, float]]:
    """Runs one item under snoop; the number of calls in the trace if that is accepted, and the processor seconds."""

    program, trace = folder / "program.py", folder / "trace.txt"
    called = re.compile(_CALLED.format(re.escape(str(program))))

    def bounded() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (int(_CPU_S), int(_CPU_S)))

    def run(problem: Problem, case: Case) -> tuple[int | None, float]:
        depth = len(_DEFINITION.findall(problem.source))
        marked = problem.source.replace(f"def {problem.entry}", f"@snoop(depth={depth})\ndef {problem.entry}")
        arguments = ", ".join(f"{name}={value!r}" for name, value in case.kwargs.items())
        program.write_text(
            "import snoop\nsnoop.install(columns='', replace_watch_extras=())\n"
            f"{marked}\n{problem.entry}({arguments})\n"
        )
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
        return sum(map(bool, map(called.search, lines))) if accepted else None, cpu_s

    return run


class Tally:
    """What one side has done, and the processor seconds that it took."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.accepted = self.complete = 0
        self.cpu_s = 0.0

    def counts(self, items: int) -> tuple[int, int, int]:
        """Items, those with an accepted trace, and those with a complete one."""
        return items, self.accepted, self.complete


def named(python: str) -> str:
    """A row's name: whether snoop finds pandas, which it then imports."""
    found = subprocess.run([python, "-c", "import pandas"], capture_output=True).returncode == 0
    return "snoop, pandas there" if found else "snoop"


def main() -> None:
    """One line for each side, and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--problems", required=True, type=Path)
    parser.add_argument("--snoop", required=True, action="append", metavar="PYTHON")
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


async def side_by_side(work: list[_Work], pythons: list[str], options: TraceOptions) -> None:
    """Run all, in blocks that alternate, and print."""
    runner = SandboxRunner(at_once=os.cpu_count() or 1, options=options)
    mine, peers = Tally("groundbox"), [Tally(named(python)) for python in pythons]
    with tempfile.TemporaryDirectory() as folder:
        runs = [peer(python, Path(folder)) for python in pythons]
        mine.cpu_s -= own_cpu_s()  # what came before, the reading of the problems, is nobody's
        for begin in range(0, len(work), _BLOCK):
            block = work[begin : begin + _BLOCK]
            traces = await ours(runner, block)
            mine.cpu_s += own_cpu_s()
            mine.accepted = mine.complete = mine.complete + sum(trace is not None for trace in traces)
            for (problem, case), trace in zip(block, traces, strict=True):
                for tally, run in zip(peers, runs, strict=True):
                    shown, cpu_s = run(problem, case)
                    tally.cpu_s += cpu_s
                    tally.accepted += shown is not None
                    tally.complete += shown is not None and (
                        trace is None or shown >= calls(trace, problem.entry or "")
                    )
            mine.cpu_s -= own_cpu_s()
            print(f"{begin + len(block)} of {len(work)}", file=sys.stderr)
        mine.cpu_s += own_cpu_s()
    table([mine, *peers], len(work))


def table(tallies: list[Tally], items: int) -> None:
    """One line for each side; for a peer, how many times as much ours does in a processor second."""
    kinds = ("items", "accepted", "complete")
    print(f"{'':22}{'CPU s':>9}", *(f"{kind:>10}{'a CPU s':>9}{'ours':>7}" for kind in kinds))
    for tally in tallies:
        columns = []
        for own, count in zip(tallies[0].counts(items), tally.counts(items), strict=True):
            rate, ratio = count / tally.cpu_s, own / tallies[0].cpu_s / (count / tally.cpu_s)
            columns.append(f"{count:10}{rate:9.2f}{ratio:6.1f}x")
        print(f"{tally.name:22}{tally.cpu_s:9.1f}", *columns)


if __name__ == "__main__":
    main()
