"""What psutil tells of the machine: the sandbox's own limits and use, in place of files that /proc does not have.

A sandbox's /proc shows its processes and nothing else (`subset=pid` of proc(5)): there is no `meminfo` in it, and
nothing can be mounted where no file is. A /proc with all files would show the host's. So psutil, which programs ask,
reads here what those files would say if the sandbox were the machine. Other programs, such as `free`, find no file.

Memory is `memory_bytes`; used is what processes of the sandbox hold for themselves, and its files.
Processor times are those of this process and its children that have ended, on the processors that it may use.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import time
from collections.abc import Callable
from typing import Any, Final

from .after_import import after_import

_KIB: Final = 1024
_BOX: Final = "/box"
_TICKS: Final = os.sysconf("SC_CLK_TCK")

_memory_bytes: int | None = None


def limit(memory_bytes: int | None) -> None:
    """Take note of what the run that begins may use; None for no limit of its own."""
    global _memory_bytes
    if memory_bytes != _memory_bytes:  # else nothing is written, so that no page has to be copied
        _memory_bytes = memory_bytes


def install() -> None:
    """Adapt psutil when it is imported."""
    after_import("psutil._pslinux", _adapt)


def meminfo() -> str:
    """The lines of /proc/meminfo that programs read, in KiB. Without a limit the machine's memory is told."""
    page = os.sysconf("SC_PAGE_SIZE")
    total = _memory_bytes or os.sysconf("SC_PHYS_PAGES") * page
    files = _file_bytes()
    used = min(total, files + sum(map(_private_bytes, _processes())))
    facts = {
        "MemTotal": total,
        "MemFree": total - used,
        "MemAvailable": total - used,
        "Buffers": 0,
        "Cached": files,
        "SwapCached": 0,
        "Active": used,
        "Inactive": 0,
        "Shmem": files,
        "Slab": 0,
        "SReclaimable": 0,
        "SwapTotal": 0,
        "SwapFree": 0,
    }
    return "".join(f"{name + ':':<16}{value // _KIB:>8} kB\n" for name, value in facts.items())


def stat() -> str:
    """The first lines of /proc/stat: processor times since the sandbox's first process began, and when that was."""
    processors = sorted(os.sched_getaffinity(0))
    times = os.times()
    user, system = times.user + times.children_user, times.system + times.children_system
    began = _began_s()
    idle = max(0.0, (time.clock_gettime(time.CLOCK_BOOTTIME) - began) * len(processors) - user - system)
    shares = [_cpu_line("cpu", user, system, idle)]
    shares += [_cpu_line(f"cpu{n}", *(t / len(processors) for t in (user, system, idle))) for n in processors]
    booted = int(time.time() - time.clock_gettime(time.CLOCK_BOOTTIME))
    return "".join(shares) + f"intr 0\nctxt 0\nbtime {booted}\nprocesses {len(_processes())}\nsoftirq 0\n"


def cpuinfo() -> str:
    """One paragraph for each processor that may be used, without its make."""
    return "".join(f"processor\t: {n}\n\n" for n in sorted(os.sched_getaffinity(0)))


def _adapt(module: Any) -> None:
    files: dict[str, Callable[[], str]] = {"meminfo": meminfo, "stat": stat, "cpuinfo": cpuinfo, "vmstat": _vmstat}
    for name, binary in (("open_binary", True), ("open_text", False)):
        setattr(module, name, _reading(getattr(module, name), files, binary=binary))
    # Importing it looked at /proc/stat for the kinds of times that there are, and found no file.
    with contextlib.suppress(AttributeError):
        module.scputimes = module.ntp.scputimes = module._scputimes_ntuple("/proc")


def _reading(real: Callable[..., Any], files: dict[str, Callable[[], str]], *, binary: bool) -> Callable[..., Any]:
    @functools.wraps(real)
    def opened(path: Any, *others: Any, **options: Any) -> Any:
        folder, _, name = str(path).rpartition("/")
        if folder != "/proc" or name not in files or os.path.exists(path):
            return real(path, *others, **options)
        text = files[name]()
        return io.BytesIO(text.encode()) if binary else io.StringIO(text)

    return opened


def _vmstat() -> str:
    return "pswpin 0\npswpout 0\n"


def _cpu_line(name: str, user: float, system: float, idle: float) -> str:
    return f"{name} {user * _TICKS:.0f} 0 {system * _TICKS:.0f} {idle * _TICKS:.0f} 0 0 0 0 0 0\n"


def _file_bytes() -> int:
    try:
        files = os.statvfs(_BOX)
    except OSError:  # the backend without a mount namespace, whose files lie on the host's disk
        return 0
    return (files.f_blocks - files.f_bfree) * files.f_frsize


def _processes() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdigit()]


def _private_bytes(process: str) -> int:
    """What one process holds and shares with no other, without files; 0 when it has ended or may not be looked at."""
    try:
        with open(f"/proc/{process}/smaps_rollup", encoding="ascii") as file:
            facts = dict(line.split(":", 1) for line in file if line.startswith(("Private_Dirty", "Anonymous")))
    except (OSError, ValueError):
        return 0
    return int(facts.get("Private_Dirty", "0").split()[0]) * _KIB


def _began_s() -> float:
    """When the sandbox's first process began, in seconds since the machine did."""
    with open("/proc/1/stat", encoding="utf-8", errors="replace") as file:
        after_name = file.read().rpartition(")")[2].split()
    return int(after_name[19]) / _TICKS
