"""Runs programs under two cores in child processes and compares the bytes of their traces.

    PYTHONHASHSEED=0 python differential.py --core plain --core native --module SO JOBS.jsonl

Each line of JOBS is `{"name": …, "source": …, "call": NAME or null, "kwargs": {…}, "args": […]}`.
It runs on the interpreter to be tested, needs nothing but the package's sources (`--sources`, the folder with `groundbox`), and
prints a line for each program on which the cores differ, and a summary. Each run is a forked child with limits of
processor time and memory, so all runs of a program begin with the same memory.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import mmap
import os
import random
import resource
import signal
import sys
import types
from pathlib import Path
from typing import Any, NamedTuple

BUFFER_BYTES = 32 * 2**20
_LEFT_TO_PLAIN = 77
_DEFAULT_SOURCES = Path(__file__).parents[3] / "src"


class Run(NamedTuple):
    """What one core wrote of one program."""

    status: int
    trace: bytes


class Limits(NamedTuple):
    """What a child may use."""

    cpu_s: int
    memory_bytes: int
    soft_events: int
    max_events: int
    buffer_bytes: int
    hold: bool
    """Take every source for one whose objects may be kept alive, so that the native core traces it, too."""


def use_sources(sources: Path) -> None:
    """Make `groundbox.guest` importable without what the package itself imports."""
    for name in ("groundbox", "groundbox.guest"):
        module = types.ModuleType(name)
        module.__path__ = [str(sources.joinpath(*name.split(".")))]
        sys.modules[name] = module


def run(job: dict[str, Any], core: str, module: str, limits: Limits) -> Run:
    """Run a program in a child under one core."""
    memory = mmap.mmap(-1, limits.buffer_bytes)
    child = os.fork()
    if child == 0:
        _child(job, core, module, limits, memory)
    _, status = os.waitpid(child, 0)
    used = int.from_bytes(memory[:8], "little")
    trace = memory[8 : 8 + used]
    memory.close()
    return Run(status, trace)


def _child(job: dict[str, Any], core: str, module: str, limits: Limits, memory: mmap.mmap) -> None:
    status = 3
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (limits.cpu_s, limits.cpu_s + 1))
        if limits.memory_bytes:
            resource.setrlimit(resource.RLIMIT_AS, (limits.memory_bytes, limits.memory_bytes))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        nothing = os.open("/dev/null", os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        _seed()
        status = trace(job, core, module, limits, memory)
    finally:
        os._exit(status)


def _seed() -> None:
    """The same random numbers for all cores."""
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)


def trace(job: dict[str, Any], core: str, module: str, limits: Limits, memory: Any) -> int:
    """Run a program in this process under one core; 0 if it ended without an exception, else 1."""
    code = compile(job["source"], "main.py", "exec")
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    recording = _start(core, module, code, job["source"], limits, memory)
    outcome = 0
    try:
        exec(code, main.__dict__)
        if job.get("call"):
            main.__dict__[job["call"]](*job.get("args", ()), **job.get("kwargs", {}))
    except BaseException:
        outcome = 1
    recording.stop(ended=True)
    return outcome


def _start(core: str, module: str, code: types.CodeType, source: str, limits: Limits, memory: Any) -> Any:
    from groundbox.guest.trace import plan, tracer

    program = plan.plan_program(code, source)
    if limits.hold:
        program = program._replace(facts=program.facts._replace(holds=True))
    if core == "native" and not program.facts.holds:
        os._exit(_LEFT_TO_PLAIN)
    tracer.NATIVE = module
    vars(tracer)["plan_program"] = lambda code, source: program
    return tracer.start(code, source, memory, core=core, soft_events=limits.soft_events, max_events=limits.max_events)


def first_difference(one: bytes, other: bytes) -> str:
    """The first records that differ, with the ones before."""
    ones, others = one.splitlines(), other.splitlines()
    for place, (left, right) in enumerate(zip(ones, others)):
        if left != right:
            before = b" | ".join(ones[max(0, place - 3) : place]).decode()
            return f"record {place} after {before}\n  < {left.decode()[:600]}\n  > {right.decode()[:600]}"
    rest = ones[len(others) :] or others[len(ones) :]
    sign = "<" if len(ones) > len(others) else ">"
    return f"record {min(len(ones), len(others))}: {sign} {rest[0].decode()[:600] if rest else 'nothing'}"


def compare(jobs: list[dict[str, Any]], cores: tuple[str, str], module: str, limits: Limits, verbose: int) -> int:
    """Compare the two cores on all programs; gives the number of those that differ."""
    counts: collections.Counter[str] = collections.Counter()
    for job in jobs:
        one, other = (run(job, core, module, limits) for core in cores)
        verdict = _verdict(one, other)
        counts[verdict] += 1
        if verdict in ("differ", "crash"):
            shown = first_difference(one.trace, other.trace) if counts[verdict] <= verbose else ""
            print(f"{verdict} {job['name']} {one.status} {other.status} {shown}", flush=True)
    print(sys.version.split()[0], " ".join(cores), dict(counts), flush=True)
    return counts["differ"] + counts["crash"]


def _verdict(one: Run, other: Run) -> str:
    if any(
        os.WIFSIGNALED(r.status) and os.WTERMSIG(r.status) not in (signal.SIGXCPU, signal.SIGKILL) for r in (one, other)
    ):
        return "crash"
    if any(os.WIFEXITED(r.status) and os.WEXITSTATUS(r.status) == _LEFT_TO_PLAIN for r in (one, other)):
        return "left to plain"
    if any(os.WIFEXITED(r.status) and os.WEXITSTATUS(r.status) == 3 for r in (one, other)):
        return "crash"
    if one.status != other.status or any(os.WIFSIGNALED(r.status) for r in (one, other)):
        shorter = min(len(one.trace), len(other.trace))
        return "same up to a limit" if one.trace[:shorter] == other.trace[:shorter] else "differ"
    return "same" if one.trace == other.trace else "differ"


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("jobs", type=Path)
    parser.add_argument("--core", action="append", dest="cores", help="two of plain, native")
    parser.add_argument("--module", default="", help="the file that `native.build` made for this interpreter")
    parser.add_argument("--sources", type=Path, default=_DEFAULT_SOURCES)
    parser.add_argument("--only", default="")
    parser.add_argument("--verbose", type=int, default=5, help="how many differences are shown")
    parser.add_argument("--cpu-s", type=int, default=10)
    parser.add_argument("--memory-mib", type=int, default=4096)
    parser.add_argument("--soft-events", type=int, default=20_000)
    parser.add_argument("--max-events", type=int, default=200_000)
    parser.add_argument("--hold", action="store_true", help="also what is left to the plain core")
    options = parser.parse_args()
    use_sources(options.sources)
    for module in ("numpy", "multiprocessing"):  # what draws random numbers when it is imported
        with contextlib.suppress(ImportError):
            __import__(module)
    limits = Limits(
        options.cpu_s, options.memory_mib * 2**20, options.soft_events, options.max_events, BUFFER_BYTES, options.hold
    )
    jobs = [json.loads(line) for line in options.jobs.read_text("utf-8").splitlines()]
    jobs = [job for job in jobs if not options.only or job["name"] in options.only.split(",")]
    one, other = options.cores
    return 1 if compare(jobs, (one, other), options.module, limits, options.verbose) else 0


if __name__ == "__main__":
    sys.exit(main())
