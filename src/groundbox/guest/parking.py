"""Parking: a worker that stands still so that it can be copied, and what a copy has to put right.

The host asks a worker to park. It looks whether it can be copied, and says what is in the way if not. It writes down
its files (snapshots.py), saves its registers, and waits for the host's next word. Meanwhile the kernel copies its
memory (jail/sealed.py); in a copy, waiting ends at once, and with another answer.

A copy has the worker's memory and nothing else of it: descriptors, the dispositions of signals, the current folder and
the mask of modes belong to the kernel's record of a process, and are made anew here. So what cannot be made anew is in
the way: sockets, pipes, files without a name, threads, children. Memory that is shared the host sees by itself.

All of this is the word of a process that runs guest code. What the host takes for a fact, such as that nothing else
runs in the sandbox, it asks the kernel for.
"""

import _signal  # type: ignore[import-not-found]  # `signal` wraps it in enums: pages that every copy would copy
import ctypes
import os
import stat
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

from .python.cells import CellRunner
from .python.reseed import renew_keys, reseed, reseed_libraries
from .snapshots import Snapshots

SOCKET, OUT, ERR = 68, 69, 70
"""Where a copy finds its descriptors (`Slot` of jail/sealed.py)."""
_KEPT_FLAGS = os.O_ACCMODE | os.O_APPEND | os.O_NONBLOCK | os.O_DIRECTORY | os.O_PATH | os.O_NOATIME
_MOST_NAMED = 5
_SIGNALS = frozenset(map(int, _signal.valid_signals())) - {_signal.SIGKILL, _signal.SIGSTOP}
_IGNORED = frozenset({_signal.SIGINT, _signal.SIGPIPE, _signal.SIGXFSZ})
"""As every worker has them when it begins, and so a copy."""


class _Open(NamedTuple):
    """A file that was open, for another process to open it again under the same number."""

    number: int
    path: str
    flags: int
    offset: int
    inherited: bool


class Parking:
    """That of one worker."""

    def __init__(self, park_at: int, cells: CellRunner, box: str, apart: int) -> None:
        """Args:
        park_at: The address of `Program.park`; 0 where workers of this kind cannot be copied.
        box: The folder that holds all files of the sandbox.
        apart: A descriptor that copies have, too; -1 for none.
        """
        self._park_at = park_at
        self._cells = cells
        self._snapshots = Snapshots(box)
        self._own = {0, 1, 2, SOCKET, apart}
        self._open: list[_Open] = []
        self._folder, self._mask = "", 0

    def prepare(self, descriptors: list[int], residents: Sequence[str]) -> str:
        """Get ready to be copied, and write down the files: the first descriptor is for those that are new, the others
        have those of snapshots before.

        Args:
            residents: Languages whose processes are there.

        Returns:
            What is in the way; empty for nothing.
        """
        if not self._park_at:
            return "this sandbox was made without branching"
        self._cells.let_go_of_loop()
        found = [f"state of {name}" for name in residents] + _threads() + ([] if residents else _children())
        self._open = []
        for number in _numbers({*self._own, *descriptors}):
            described = _described(number)
            if isinstance(described, str):
                found.append(described)
            elif described is not None:
                self._open.append(described)
        if found:
            return ", ".join(found[:_MOST_NAMED]) + (
                f", and {more} more" if (more := len(found) - _MOST_NAMED) > 0 else ""
            )
        self._mask = os.umask(0)
        os.umask(self._mask)
        try:
            self._folder = os.getcwd()
        except FileNotFoundError:
            return "the current folder is removed"
        return self._snapshots.take(descriptors)

    def stand_still(self, frame: bytes) -> bool:
        """Tell the host by this frame, and wait for its next word. True in copies."""
        park = ctypes.PYFUNCTYPE(ctypes.c_long, ctypes.c_long, ctypes.c_char_p, ctypes.c_long)(self._park_at)
        return bool(park(SOCKET, frame, len(frame)))

    def awake(self) -> None:
        """In a copy: have what every worker has."""
        nothing = os.open("/dev/null", os.O_RDONLY)
        for source, number in ((nothing, 0), (OUT, 1), (ERR, 2)):
            os.dup2(source, number)
            os.close(source)
        threading.main_thread()._set_native_id()  # type: ignore[attr-defined]
        for number in _SIGNALS:
            handler = _signal.getsignal(number)
            if handler is not None and handler != (_signal.SIG_IGN if number in _IGNORED else _signal.SIG_DFL):
                _signal.signal(number, handler)
        os.umask(self._mask)

    def unpack(self, order: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """In a copy: have the files of that moment, and those open that were. A fork has random numbers of its own."""
        refused = self._snapshots.restore(descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        descriptors.clear()  # their numbers may be those of files that were open
        if refused:
            return {"ok": False, "reason": refused}
        try:
            os.chdir(self._folder)
            for each in self._open:
                _open_again(each)
        except OSError as error:
            return {"ok": False, "reason": f"{error.filename or 'a file'}: {error.strerror}"}
        renew_keys()
        if order["fork"]:
            reseed()
            reseed_libraries()
        return {"ok": True}


def _threads() -> list[str]:
    count = len(os.listdir("/proc/self/task"))
    if count == 1:
        return []
    names = [each.name for each in threading.enumerate() if each is not threading.main_thread()]
    more = count - 1 - len(names)
    return [f"thread {name}" for name in names] + ([f"{more} threads of a library"] if more > 0 else [])


def _children() -> list[str]:
    names = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if pid != "1":
            try:
                with open(f"/proc/{pid}/comm") as file:
                    names.append(f"process {file.read().strip()} ({pid})")
            except OSError:
                continue
    return names


def _numbers(own: set[int]) -> list[int]:
    return sorted(number for number in map(int, os.listdir("/proc/self/fd")) if number not in own)


def _described(number: int) -> _Open | str | None:
    """How to open it again, or what it is if it cannot be; None when it is closed already."""
    try:
        path, found = os.readlink(f"/proc/self/fd/{number}"), os.fstat(number)
        with open(f"/proc/self/fdinfo/{number}") as file:
            told = dict(line.split(":", 1) for line in file if ":" in line)
    except OSError:
        return None
    kind = stat.S_IFMT(found.st_mode)
    if kind not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFCHR):
        names = {stat.S_IFSOCK: "open socket", stat.S_IFIFO: "open pipe"}
        return f"{names.get(kind, 'open ' + path.removeprefix('anon_inode:'))} (descriptor {number})"
    try:
        same = os.path.samestat(os.stat(path), found)
    except OSError:
        same = False
    if not same:
        return f"open file without a name: {path} (descriptor {number})"
    flags = int(told["flags"], 8)
    return _Open(number, path, flags & _KEPT_FLAGS, int(told["pos"]), not flags & os.O_CLOEXEC)


def _open_again(each: _Open) -> None:
    descriptor = os.open(each.path, each.flags | os.O_CLOEXEC | os.O_NOCTTY)
    if not each.flags & (os.O_PATH | os.O_DIRECTORY):
        try:
            os.lseek(descriptor, each.offset, os.SEEK_SET)
        except OSError:
            pass  # a device that has no place in it
    if descriptor != each.number:
        os.dup2(descriptor, each.number, each.inherited)
        os.close(descriptor)
    else:
        os.set_inheritable(descriptor, each.inherited)
