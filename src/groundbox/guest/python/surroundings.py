"""Hints for failures that the wall or the limits caused: what may be written, memory, processes, input."""

from __future__ import annotations

import errno
import os

from .fault import Fault
from .frames import is_beneath
from .network import is_network


def read_only(fault: Fault) -> list[str]:
    """A path outside the workdir, or a system call that the sandbox denies."""
    exc = fault.exc
    if not isinstance(exc, OSError) or exc.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
        return []
    if is_network(fault):
        return []
    path = exc.filename
    if isinstance(path, (str, bytes)):
        name = os.fsdecode(path)
        if is_beneath(os.path.abspath(name), fault.scene.workdir):
            return []
        return [f"`{name}` cannot be written or opened here: files can be written only in the working directory."]
    return ["The sandbox denies this system call. Programs can compute and use files in the working directory."]


def disk_full(fault: Fault) -> list[str]:
    """ENOSPC and EDQUOT: the workdir is full. EFBIG: one file would not fit into it."""
    code = getattr(fault.exc, "errno", None)
    if code == errno.EFBIG:
        return ["No file can be larger than the disk (limits.disk_bytes): write less, or compress it."]
    if code not in (errno.ENOSPC, errno.EDQUOT):
        return []
    if _has_no_room_for_names(fault.scene.workdir):
        return ["There are as many files and folders as may be (limits.file_count): remove some, or put them into one."]
    return ["The working directory is full (limits.disk_bytes): remove files or write less."]


def _has_no_room_for_names(workdir: str) -> bool:
    try:
        found = os.statvfs(workdir)
    except OSError:
        return False
    return found.f_files > 0 and found.f_ffree == 0


def process_limit(fault: Fault) -> list[str]:
    """EAGAIN from fork, or a thread that cannot start."""
    message = fault.message
    forked = getattr(fault.exc, "errno", None) == errno.EAGAIN and not fault.packages() & {"socket", "ssl"}
    if not forked and "can't start new thread" not in message:
        return []
    return ["The limit of processes and threads is reached (limits.process_count): use fewer workers."]


def memory_limit(fault: Fault) -> list[str]:
    """MemoryError."""
    return [
        "The memory limit is reached (limits.memory_bytes): read in chunks, load fewer columns, "
        "use smaller types, or `del` what is no longer needed. Files in the workdir and /tmp count, too."
    ]


def endless_recursion(fault: Fault) -> list[str]:
    """RecursionError."""
    name = fault.step.frame.f_code.co_name if fault.step else ""
    what = f"`{name}` calls itself" if name and not name.startswith("<") else "A function calls itself"
    return [f"{what} without reaching its end: check the base case, or use a loop."]


def no_stdin(fault: Fault) -> list[str]:
    """EOFError from `input()`, or from `getpass`, which says nothing."""
    if "EOF when reading a line" not in fault.message and (fault.message or "getpass" not in fault.packages()):
        return []
    if fault.scene.filename.startswith("<cell"):
        asking = "`input()`" if fault.message else "`getpass()`"
        return [f"A cell has no standard input, so {asking} fails: put the value into the code."]
    return ["Standard input has ended: the program reads more lines than it was given. Give them with stdin=…"]


def running_loop(fault: Fault) -> list[str]:
    """RuntimeError: asyncio.run inside top-level await."""
    if "running event loop" not in fault.message or "cannot be called from" not in fault.message:
        return []
    return ["An event loop runs already in this cell: `await` the coroutine instead of `asyncio.run`."]


def lost_function(fault: Fault) -> list[str]:
    """BrokenProcessPool: a process that was spawned does not find the functions of a cell."""
    if type(fault.exc).__name__ != "BrokenProcessPool" or not fault.scene.filename.startswith("<cell"):
        return []
    return [
        "Processes that are spawned do not find functions of cells. Use multiprocessing.get_context('fork'), "
        "run the program as a script, or write the function into a module and import it."
    ]
