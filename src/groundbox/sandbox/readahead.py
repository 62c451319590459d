"""Files that guests map, read by the host, so that their pages are its memory and stay when a guest ends.

A page of a file is memory of the control group that reads it first (cgroups(7), memory), for as long as it is cached.
Where that is a guest's, a library of 90 MB is part of its `memory_bytes`; and since its group is emptied before it is
removed, the next guest reads the library from the disk again. What no template has loaded is learnt from the guests:
which files one has mapped is looked up before its sandbox is closed, and these are read once its group is empty.

The look waits for a lock that the guest can hold, and what it shows is the guest's choice. So a thread takes it, no
end of a guest waits longer than a moment for it, and it is short; and of what it shows only a host's own files count,
each once a minute.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Iterable
from typing import Final, NamedTuple

MAPPED_BYTES: Final = 24 << 20
"""A guest with less memory than this is not looked at: that of one with large libraries is more."""
LOOK_S: Final = 0.05
"""As long as a look may take."""
_MAPS_CHARS: Final = 256 * 1024
"""Of what a process has mapped; with scikit-learn and pandas it is a fifth of that."""
_MOST_BYTES: Final = 1 << 30
"""Of the files of one guest, which chooses what it maps."""
_AT_ONCE_BYTES: Final = 128 * 1024
"""As much as a device reads ahead by default; of a larger range the kernel takes no more than that."""
_AGAIN_S: Final = 60.0
"""A file that was read since then is still cached, or memory is short."""
_READ: Final[dict[str, float]] = {}
"""Paths to when they were read, by time.monotonic."""
_MAPPED: Final = re.compile(r"^\S+ r.xp \S+ \S+ (\d+) +(/.+)$", re.MULTILINE)
"""Code of a file in proc_pid_maps(5): its inode and path. Names of files that are gone end in ` (deleted)`."""


class Mapped(NamedTuple):
    """A file whose code a process has mapped, as the process sees it.

    Attributes:
        inode: Of the file; a path alone may be another one on the host.
    """

    path: str
    inode: int


def pid_of(pidfd: int) -> int | None:
    """The process of a descriptor, in this pid namespace; None when it has ended."""
    with contextlib.suppress(OSError), open(f"/proc/self/fdinfo/{pidfd}") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name == "Pid" and int(value) > 0:
                return int(value)
    return None


def mapped_code(pid: int) -> frozenset[Mapped]:
    """Programs and libraries that a process has mapped; none when it has ended. Waits while it maps and unmaps."""
    try:
        with open(f"/proc/{pid}/maps", errors="surrogateescape") as file:
            told = file.read(_MAPS_CHARS)
    except OSError:
        return frozenset()
    return frozenset(Mapped(path, int(inode)) for inode, path in _MAPPED.findall(told))


def read_ahead(files: Iterable[Mapped | str]) -> None:
    """Begin to read whole files into the page cache, those that are on this host as they were seen; waits for none."""
    left = _MOST_BYTES
    for each in files:
        path, inode = each if isinstance(each, Mapped) else (each, None)
        if time.monotonic() - _READ.get(path, -_AGAIN_S) < _AGAIN_S:
            continue
        with contextlib.suppress(OSError, ValueError):  # gone, or no name that a file can have
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
            try:
                found = os.fstat(file)
                if stat.S_ISREG(found.st_mode) and inode in (None, found.st_ino) and found.st_size <= left:
                    left -= found.st_size
                    _READ[path] = time.monotonic()
                    for offset in range(0, found.st_size, _AT_ONCE_BYTES):
                        os.posix_fadvise(file, offset, _AT_ONCE_BYTES, os.POSIX_FADV_WILLNEED)
            finally:
                os.close(file)
