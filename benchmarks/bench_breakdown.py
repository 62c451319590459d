"""Where the processor time of a run goes: host, template, worker, kernel threads; and within them, by what they do.

    python benchmarks/bench_breakdown.py [bare|science] [RUNS] [CONCURRENCY]

The first table is exact: times(2) of the host, /proc/PID/stat of the template, whose children are the workers, and
/proc/PID/schedstat of kernel threads, which also work for whatever else goes on. The second needs root and perf(1);
it samples the three kinds of process, and puts each sample under the outermost thing the kernel was asked for.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from measure import machine
from peers import PRINT

import groundbox as gb

_TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")
_SAMPLES_A_SECOND = 4000
_SMALLEST_US = 15
_KERNEL_WORKERS = ("kworker", "ksoftirqd", "rcu")


class Times(NamedTuple):
    """Milliseconds of processor time so far."""

    host_user: float
    host_system: float
    template: float
    launcher: float
    workers: float
    kernel: float


def children(pid: int) -> list[int]:
    """Direct children of a process."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def template_of(host: int) -> int:
    """The template that was started last: child of the keeper, which is child of the starter."""
    return children(children(max(children(host)))[0])[0]


def launcher_of(template: int) -> int | None:
    """The process that makes the workers, by where its code is (jail/launch.py); None where the template does."""
    for child in children(template):
        with contextlib.suppress(OSError):  # it may have ended meanwhile
            if Path(f"/proc/{child}/maps").read_text().startswith("00040000-"):
                return child
    return None


def now(template: int) -> Times:
    """All counters at this moment."""
    own, launcher = os.times(), launcher_of(template)
    here, workers = spent_ms(template)
    launching = 0.0 if launcher is None else spent_ms(launcher)[0]
    return Times(own.user * 1e3, own.system * 1e3, here, launching, workers, kernel_ms())


def spent_ms(pid: int) -> tuple[float, float]:
    """Processor time of a process, and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system, of_user, of_system = (int(field) * _TICK_MS for field in fields[11:15])
    return user + system, of_user + of_system


def kernel_ms() -> float:
    """Of all kernel threads that clean up after processes, control groups and namespaces."""
    total = 0
    for thread in children(2):
        try:
            if Path(f"/proc/{thread}/comm").read_text().startswith(_KERNEL_WORKERS):
                total += int(Path(f"/proc/{thread}/schedstat").read_text().split()[0])
        except OSError:
            continue
    return total / 1e6


async def load(profile: str, runs: int, concurrency: int) -> None:
    """So many runs, so many at a time."""
    limit = asyncio.Semaphore(concurrency)

    async def one() -> None:
        async with limit:
            assert (await gb.run_async(PRINT, profile=profile)).ok

    await asyncio.gather(*(one() for _ in range(runs)))


async def exact(profile: str, runs: int, concurrency: int) -> Times:
    """Print the first table; milliseconds for each run."""
    template = template_of(os.getpid())
    before, begun = now(template), time.perf_counter()
    await load(profile, runs, concurrency)
    wall_s = time.perf_counter() - begun
    await asyncio.sleep(0.2)  # kernel threads are not done when a run is
    spent = Times(*((b - a) / runs for a, b in zip(before, now(template), strict=True)))
    print(f"{profile}: {runs / wall_s:.0f} runs a second; milliseconds of processor time for each run:")
    print(f"  host            {spent.host_user:5.2f} user {spent.host_system:5.2f} system")
    print(f"  template        {spent.template:5.2f}")
    print(f"  launcher        {spent.launcher:5.2f}")
    print(f"  worker          {spent.workers:5.2f}")
    print(f"  kernel threads  {spent.kernel:5.2f}")
    print(f"  sum             {sum(spent):5.2f}")
    return spent


async def sampled(profile: str, runs: int, concurrency: int, workers_ms: float) -> None:
    """Print the second table.

    Args:
        workers_ms: From the first table. Linux stops sampling a process before it takes its memory apart (6.16 and
            later), so that this part of a worker's end is the difference.
    """
    host, template = os.getpid(), template_of(os.getpid())
    with tempfile.NamedTemporaryFile(prefix="groundbox-perf-") as file:
        launcher = launcher_of(template)
        watched = ",".join(str(pid) for pid in (host, template, launcher) if pid is not None)
        asked = ["-F", str(_SAMPLES_A_SECOND), "-e", "cpu-clock", "-g", "-o", file.name, "-p", watched]
        perf = subprocess.Popen(["perf", "record", *asked], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: ASYNC220
        await asyncio.sleep(0.5)
        await load(profile, runs, concurrency)
        perf.send_signal(signal.SIGINT)
        perf.wait()
        fields = "comm,pid,time,ip,sym,dso"
        script = subprocess.run(  # noqa: ASYNC221
            ["perf", "script", "-i", file.name, "-F", fields], capture_output=True, text=True, check=True
        ).stdout
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    for pid, frames in samples(script):
        role = {host: "host", template: "template", launcher: "launcher"}.get(pid, "worker")
        counts[role, kind_of(frames)] += 1
    print(f"\n{profile}, sampled: microseconds for each run, from {_SMALLEST_US} on")
    for (role, kind), count in sorted(counts.items(), key=lambda item: (item[0][0], -item[1])):
        spent_us = count / _SAMPLES_A_SECOND * 1e6 / runs
        if spent_us >= _SMALLEST_US:
            print(f"  {role:10}{spent_us:6.0f}  {kind}")
    workers = sum(count for (role, _), count in counts.items() if role == "worker")
    rest_us = workers_ms * 1e3 - workers / _SAMPLES_A_SECOND * 1e6 / runs
    print(f"  worker    {rest_us:6.0f}  not sampled, from the first table: mostly memory taken apart at its end")


def samples(script: str) -> Iterator[tuple[int, list[tuple[str, str]]]]:
    """Process, and the stack from the innermost frame out as pairs of symbol and file."""
    for block in script.split("\n\n"):
        head, *lines = block.strip("\n").split("\n")
        found = re.match(r"^\s*.*?\s+(-?\d+)\s+[\d.]+:", head)
        if found is None:
            continue
        frames = (re.match(r"^\s*[0-9a-f]+ (.*) \((.*)\)$", line) for line in lines)
        yield int(found[1]), [(frame[1], frame[2]) for frame in frames if frame]


_STEPS = {
    "copy_net_ns": "clone: network namespace",
    "copy_mnt_ns": "clone: mount namespace",
    "create_new_namespaces": "clone: other namespaces",
    "dup_mmap": "clone: page tables and mappings",
    "exit_mmap": "end: page tables and mappings",
    "do_exit": "end: other",
}


def kind_of(frames: list[tuple[str, str]]) -> str:
    """What the kernel was asked for, or `user`."""
    kernel = [symbol for symbol, file in frames if "kernel" in file]
    if not kernel:
        return "user"
    for name, kind in _STEPS.items():
        if name in kernel:
            return kind
    for symbol in reversed(kernel):
        if symbol.startswith(("__x64_sys_", "__do_sys_", "__arm64_sys_")):
            return symbol.split("_sys_", 1)[1]
        if "page_fault" in symbol or symbol == "do_mem_abort":
            return "page faults"
    return "interrupts, and entering and leaving the kernel"


async def main() -> None:
    """Warm the pool, run many, divide."""
    profile = sys.argv[1] if len(sys.argv) > 1 else "bare"
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    concurrency = int(sys.argv[3]) if len(sys.argv) > 3 else 2
    machine()
    await load(profile, 60, concurrency)
    spent = await exact(profile, runs, concurrency)
    if os.geteuid() == 0 and shutil.which("perf"):
        await sampled(profile, runs, concurrency, spent.workers)
    else:
        print("\nnot sampled: that needs root and perf")


if __name__ == "__main__":
    asyncio.run(main())
