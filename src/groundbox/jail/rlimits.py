"""Resource limits of one process: the bounds that no group of processes can give.

Covered: processor time, file size, open files, core dumps, locked memory and private memory of each process.
Not covered: the sum over processes; that is `cgroup`'s.

RLIMIT_DATA is set so that one process which allocates too much gets a MemoryError at the line that did it,
instead of the kernel's kill. It counts what the template already holds, so that is added. See getrlimit(2).

RLIMIT_CORE is 1, not 0: where the host's core_pattern is a pipe, the kernel starts the host's handler, as root and with
the guest's memory on its input, whatever the limit is, but for this one value. Where it is a file, one byte is less
than the smallest core, and none is written. The filter keeps a guest from setting it to 0. Where it is a socket
(Linux 6.16), no limit is heeded, but the core would have registers only. See core(5).
"""

import contextlib
import resource
import struct
import time
from typing import Final

from . import kernel

_CORE_BYTES: Final = 1
_OPEN_FILES: Final = 1024
_OPEN_FILES_OF_A_SHARED_USER: Final = 512
"""As many descriptors may be in messages under way, too, counted for the user of the host. An ordinary user's other
programs, whose limit is 1024 or more, are then not refused theirs (ETOOMANYREFS of unix(7))."""
_LOCKED_BYTES: Final = 1 << 20
_STACK_BYTES: Final = 8 << 20
_SIGPENDING: Final = 11
_MAPPED_ONLY_BYTES: Final = 128 << 20
_PENDING_SIGNALS: Final = 1024
"""The kernel adds up what all sandboxes have queued, so each may have a share only."""
_INFINITY: Final = (1 << 64) - 1


def set_common(*, inner: bool = False) -> None:
    """The limits that are the same for every sandbox. Set in the template, and inherited.

    Args:
        inner: Leave out those that gVisor refuses to set: it writes no cores and knows no real-time classes.
    """
    _both(resource.RLIMIT_MEMLOCK, _LOCKED_BYTES)
    _soft(resource.RLIMIT_STACK, _STACK_BYTES)
    if inner:
        return
    _both(resource.RLIMIT_CORE, _CORE_BYTES)
    _both(resource.RLIMIT_MSGQUEUE, _LOCKED_BYTES)
    _both(_SIGPENDING, _PENDING_SIGNALS)
    _both(resource.RLIMIT_RTPRIO, 0)
    _both(resource.RLIMIT_NICE, 0)


def forbid_cores() -> None:
    """Call it while there still is a privilege: a host may have set a hard limit of 0, which only that can raise.

    Where a core is made all the same it has no memory: children inherit that, and guests cannot write to /proc.
    """
    with contextlib.suppress(OSError):
        _set(resource.RLIMIT_CORE, _CORE_BYTES, _CORE_BYTES)
    with contextlib.suppress(OSError), open("/proc/self/coredump_filter", "w") as file:
        file.write("0")


def set_for_sandbox(*, disk_bytes: int | None, process_count: int | None, file_system_bound: bool) -> None:
    """The limits of one sandbox.

    Args:
        file_system_bound: Whether the file system ends at `disk_bytes` too. One file may then be a page larger, so that
            who fills the disk with it hears that the disk is full, as with many files, and not that it is too large.
        process_count: Only where no pids cgroup stands; the kernel counts all processes of the user id.
    """
    if disk_bytes is not None:
        _both(resource.RLIMIT_FSIZE, disk_bytes + (resource.getpagesize() if file_system_bound else 0))
    if process_count is not None:
        _both(resource.RLIMIT_NPROC, process_count)


def set_open_files(*, own_user: bool) -> None:
    """The last limit of a sandbox, after the worker has sent descriptors to the host: it bounds that, too.

    Args:
        own_user: Whether the sandbox has a user id of the host to itself.
    """
    _both(resource.RLIMIT_NOFILE, _OPEN_FILES if own_user else _OPEN_FILES_OF_A_SHARED_USER)


def set_for_run(
    *,
    cpu_s: float | None,
    memory_bytes: int | None,
    held_bytes: int,
    address_space: bool = False,
    spent_s: float | None = None,
) -> None:
    """The limits of the run that begins now, as soft limits, so that the next run may have others.

    Args:
        held_bytes: What `data_bytes` was in the template, or `address_bytes`.
        address_space: Bound all that is mapped, because gVisor heeds no RLIMIT_DATA. Stacks and arenas of threads are
            mapped and hardly used, so there is room for some.
        spent_s: Processor time of the process so far; None for that of the caller.
    """
    unlimited = _INFINITY
    spent_s = time.process_time() if spent_s is None else spent_s
    if address_space:
        _soft(resource.RLIMIT_AS, unlimited if memory_bytes is None else held_bytes + memory_bytes + _MAPPED_ONLY_BYTES)
    else:
        _soft(resource.RLIMIT_DATA, unlimited if memory_bytes is None else held_bytes + memory_bytes)
    _soft(resource.RLIMIT_CPU, unlimited if cpu_s is None else int(spent_s + cpu_s) + 2)


def data_bytes() -> int:
    """Private writable memory of this process, as RLIMIT_DATA counts it."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[5]) * resource.getpagesize()


def address_bytes() -> int:
    """All that is mapped in this process, as RLIMIT_AS counts it."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def _both(which: int, value: int) -> None:
    hard = _hard(which)
    value = min(value, hard)
    _set(which, value, value)


def _soft(which: int, value: int) -> None:
    hard = _hard(which)
    _set(which, min(value, hard), hard)


def _hard(which: int) -> int:
    return resource.getrlimit(which)[1] & _INFINITY


def _set(which: int, soft: int, hard: int) -> None:
    kernel.call("prlimit64", 0, which, struct.pack("=QQ", soft, hard), None)
