"""What one sandbox may use, each number with its unit."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
from typing import Final

from groundbox.errors import InvalidArgument
from groundbox.suggestions import named_only

KiB: Final = 1024
MiB: Final = 1024 * KiB
GiB: Final = 1024 * MiB


@functools.cache
def usual_memory_bytes() -> int:
    """Return a quarter of this machine's memory, at least 512 MiB and at most 2 GiB.

    The number of MiB is even, so that half of it, which files may use, is a whole number of MiB too.
    2 GiB hold a CSV file of 200 MB, the table that pandas makes of it (700 MB at its peak), and copies of that.
    """
    quarter = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4
    return min(max(quarter // (2 * MiB) * (2 * MiB), 512 * MiB), 2 * GiB)


@named_only
@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Bounds on one run (`wall_s`, `cpu_s`, `output_bytes`) and on one sandbox (the rest).

    None means no limit of groundbox's own and has to be written out; no default is None.
    0 and negative numbers are refused.

    Attributes:
        wall_s: Seconds on the host's monotonic clock from the start of a run to its end, without a worker's own start.
            Reached: the run ends with outcome `timeout`.
        cpu_s: Seconds of processor time that all processes of the sandbox use during one run.
            Reached: outcome `timeout`.
        memory_bytes: Memory of the whole process tree, files in the workdir, /tmp and /dev/shm included.
            By default a quarter of this machine's, at least 512 MiB and at most 2 GiB.
            A single allocation beyond it raises MemoryError in Python;
            the kernel ends the tree otherwise. Outcome `memory`.
        process_count: Processes and threads alive at once. Reached: `fork` fails in the guest.
        disk_bytes: Bytes in the workdir, /tmp and /dev/shm together, by default half of what `memory_bytes` is
            by default. Reached: "no space left".
        file_count: Files and folders in them. Reached: "no space left".
        output_bytes: Bytes kept of each of stdout and stderr, half as head and half as tail.
            Reached: the middle is dropped and counted; the program runs on.
    """

    wall_s: float | None = 30.0
    cpu_s: float | None = 30.0
    memory_bytes: int | None = dataclasses.field(default_factory=usual_memory_bytes)
    process_count: int | None = 128
    disk_bytes: int | None = dataclasses.field(default_factory=lambda: usual_memory_bytes() // 2)
    file_count: int | None = 4096
    output_bytes: int | None = 1 * MiB

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            _check(field.name, getattr(self, field.name))


_SMALLEST: Final = {
    "wall_s": 0.0,
    "cpu_s": 0.0,
    "memory_bytes": 16 * MiB,
    "process_count": 1,
    "disk_bytes": 64 * KiB,
    "file_count": 16,
    "output_bytes": 16,
}


def _check(name: str, value: object) -> None:
    if value is None:
        return
    seconds = name.endswith("_s")
    kinds = (int, float) if seconds else (int,)
    if isinstance(value, bool) or not isinstance(value, kinds):
        wanted = "a number of seconds" if seconds else "a whole number"
        raise InvalidArgument(name, f"must be {wanted} or None, not {value!r}")
    if not math.isfinite(value):
        raise InvalidArgument(name, f"must be finite, not {value!r}; write None for no limit")
    if value <= 0:
        raise InvalidArgument(name, f"must be above 0, not {value!r}; write None for no limit")
    if value < _SMALLEST[name]:
        raise InvalidArgument(name, f"must be at least {_SMALLEST[name]}, not {value!r}")
    if value >= 2**53:
        raise InvalidArgument(name, f"{value!r} is too large; write None for no limit")
