"""Descriptors of processes for kernels without pidfd_open(2), such as gVisor's: a pipe that ends with the process.

A handler of SIGCHLD looks at the children that are asked about and closes their pipes' other ends. Waiting on such a
descriptor then works as on a real one, for children only; a copy of the process begins with none.
"""

import contextlib
import errno
import os
import signal
from typing import Any

_writers: dict[int, tuple[int, int]] = {}
_pids: dict[int, int] = {}
_owner = 0


def install() -> bool:
    """Put them in the place of what the kernel has not; whether that was needed."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
    else:
        return False
    os.pidfd_open = _open
    signal.pidfd_send_signal = _send_signal
    signal.signal(signal.SIGCHLD, _look)
    return True


def _open(pid: int, flags: int = 0) -> int:
    _begin_anew()
    reader, writer = os.pipe2(os.O_CLOEXEC)
    _writers[writer] = (pid, reader)
    _pids[reader] = pid
    if signal.getsignal(signal.SIGCHLD) is not _look:
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGCHLD, _look)
    _look()
    return reader


def _look(number: int = 0, frame: Any = None) -> None:
    _begin_anew()
    for writer, (pid, _) in list(_writers.items()):
        if _has_ended(pid) and _writers.pop(writer, None) is not None:
            with contextlib.suppress(OSError):
                os.close(writer)


def _has_ended(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _send_signal(descriptor: int, number: int, info: Any = None, flags: int = 0) -> None:
    os.kill(_pids[descriptor], number)


def _begin_anew() -> None:
    """In a copy of the process these are somebody else's, and their numbers perhaps of other files."""
    global _owner
    if _owner != os.getpid():
        _owner = os.getpid()
        _writers.clear()
        _pids.clear()
