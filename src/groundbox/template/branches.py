"""Copies of live guests: keepers, and how the template orders them about.

A *keeper* has all memory in common with one guest, and its own privileges (jail/sealed.py). It is a process of the
template's pid namespace, where no guest sees it. Told to, it makes a copy of itself, which has a copy of the guest's
memory and no guest: that is a checkpoint. And it makes a guest of the memory that it has, with walls of its own.
So a sandbox that can be branched is a keeper first, and its guest is the first one made of it.

How they are told what to do is in keepers.py.
"""

import contextlib
import ctypes
import fcntl
import os
import re
import select
import struct
from collections.abc import Callable, Generator
from typing import Final, NamedTuple

from groundbox.jail import enter, kernel, namespaces, rootfs, sealed
from groundbox.jail.sealed import Order, Slot
from groundbox.template.keepers import Asked, Keeper, Keepers, held

_MAPPING: Final = re.compile(rb"^([0-9a-f]+)-[0-9a-f]+ (..)(.)([sp]) [0-9a-f]+ (\S+) (\d+) *(.*)$", re.MULTILINE)
_NO_FILE: Final = b"00:00"
_MOST_NAME: Final = 80
_MOST_PATH: Final = 4096
_QUERY: Final = struct.Struct("=9Q4I2Q")
"""`struct procmap_query` of linux/fs.h: size, what is asked for, from where; then what is told."""
_PROCMAP_QUERY: Final = 0xC0686611
_WRITABLE, _SHARED, _OR_NEXT = 2, 8, 16


class Busy(Exception):
    """A guest cannot be copied as it is; the message says why."""


class Branches(Keepers):
    """Keepers of sandboxes that can be copied, and what they are made with."""

    def __init__(
        self, plan: enter.Plan, poll: select.poll, ended: Callable[[Keeper], None], others: Callable[[], set[int]]
    ) -> None:
        """See Keepers."""
        super().__init__(poll, ended, others)
        self._plan = plan
        self._programs: dict[tuple[int | None, int | None], sealed.Program] = {}
        self._badness = _own_badness()
        self._known: frozenset[tuple[str, int, str]] = frozenset()

    def know_own_files(self) -> None:
        """Take the files that are mapped now for the template's own. Call it before any guest has run."""
        self._known = frozenset((each.device, each.inode, each.name) for each in _mappings(os.getpid()))

    def program(self, disk_bytes: int | None, file_count: int | None) -> sealed.Installed:
        """That of sandboxes of this size."""
        key = disk_bytes, file_count
        if key not in self._programs:
            self._programs[key] = enter.sealed_program(self._plan, disk_bytes=disk_bytes, file_count=file_count)
        return self._programs[key].installed

    def copy(self, of: Keeper) -> Generator[Asked, int, Keeper]:
        """One more keeper, with the memory of this one."""
        wake = os.eventfd(0)
        try:
            pid = yield Asked(of, Order.COPY, wake=wake)
            pidfd = held(pid)
        except BaseException:
            os.close(wake)
            raise
        with contextlib.suppress(ProcessLookupError):
            _write(f"/proc/{pid}/oom_score_adj", self._badness)  # a guest's is higher, and was copied (jail/enter.py)
        return self.adopt(pid, pidfd, wake)

    def refuse_shared_memory(self, keeper: Keeper, *, fork: bool) -> None:
        """No copy may have memory in common with what it was copied from.

        The keeper's memory is looked at, in which no guest code runs, so that it stays as it is seen.

        Args:
            fork: Whether the copy will run beside its origin. What that one writes to its files would be read through
                private mappings of them, too.

        Raises:
            Busy: There is such memory.
        """
        changing = _devices_of_guests(keeper) if fork else set()
        for each in _mappings(keeper.pid) if fork else _shared_mappings(keeper.pid):
            if each.at == sealed.CODE_AT or ((each.device, each.inode, each.name) in self._known and not each.writable):
                continue
            if each.shared:
                raise Busy(f"memory is shared, of {each.name[:_MOST_NAME] or 'no file'}")
            if each.device in changing and (each.device, each.inode, each.name) not in self._known:
                raise Busy(f"memory is mapped from a file that can change, {each.name[:_MOST_NAME]}")

    def refuse_more_memory(self, keeper: Keeper, most_bytes: int) -> None:
        """A fork is charged for what it writes, and not for what it was born with: that is its origin's.

        So forks of forks, whose origins are closed, would hold more and more of which nobody is charged.

        Raises:
            Busy: The copy holds more than this, besides what it has from the template.
        """
        held = _memory_bytes(keeper.pid) - _memory_bytes(os.getpid())
        if held > most_bytes:
            raise Busy(f"it holds {held} bytes of memory, which is more than its limit of {most_bytes}")


def become_keeper(
    program: sealed.Installed, wake: int, *, uid: int, disk_bytes: int | None, file_count: int | None
) -> None:
    """In a fresh copy of the template that shares its descriptors: be the keeper of one sandbox. Guests return.

    Raises:
        OSError: The kernel refuses a step.
    """
    for number in range(Slot.JOIN, Slot.JOIN_LAST + 1):
        kernel.write(number, b"0")
    namespaces.unshare(namespaces.NEWNS)
    kernel.unmount(rootfs.BOX, 2)
    rootfs.make_box(disk_bytes=disk_bytes, file_count=file_count, uid=uid)
    program.become_keeper(wake)


def workdir_of(keeper: Keeper) -> int:
    """A descriptor of the workdir that its guests have.

    A guest may have put a link in its place, or something else.

    Raises:
        OSError: There is no such folder.
    """
    box = os.open(f"/proc/{keeper.pid}/root{rootfs.BOX}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        name = os.path.basename(rootfs.WORKDIR)
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=box)
    finally:
        os.close(box)


class _Mapping(NamedTuple):
    at: int
    writable: bool
    shared: bool
    device: str
    inode: int
    name: str


def _mappings(pid: int) -> list[_Mapping]:
    """Each mapping of a file, or of what the kernel takes for one."""
    with open(f"/proc/{pid}/maps", "rb") as file:
        found = _MAPPING.findall(file.read())
    return [
        _Mapping(
            int(at, 16), b"w" in rights, kind == b"s", device.decode(), int(inode), name.decode("utf-8", "replace")
        )
        for at, rights, _, kind, device, inode, name in found
        if kind == b"s" or device != _NO_FILE
    ]


def _shared_mappings(pid: int) -> list[_Mapping]:
    """Those that are shared, asked for one by one where the kernel can tell them so (PROCMAP_QUERY, Linux 6.11).

    There are two or three, and hundreds of others, which take a millisecond to write down and to read.
    """
    found: list[_Mapping] = []
    path = ctypes.create_string_buffer(_MOST_PATH)
    with open(f"/proc/{pid}/maps", "rb", buffering=0) as maps:
        at = 0
        while True:
            asked = _QUERY.pack(
                _QUERY.size, _SHARED | _OR_NEXT, at, 0, 0, 0, 0, 0, 0, 0, 0, _MOST_PATH, 0, ctypes.addressof(path), 0
            )
            try:
                told = _QUERY.unpack(fcntl.ioctl(maps, _PROCMAP_QUERY, asked))
            except FileNotFoundError:  # no more
                return found
            except OSError:  # an older kernel, or a path that is too long
                return [each for each in _mappings(pid) if each.shared]
            _, _, _, start, at, flags, _, _, inode, major, minor, length, _, _, _ = told
            name = path.value.decode("utf-8", "replace") if length else ""
            found.append(_Mapping(start, bool(flags & _WRITABLE), True, f"{major:02x}:{minor:02x}", inode, name))


def _devices_of_guests(keeper: Keeper) -> set[str]:
    """Where a guest can write to files: those that have a name, and those in memory. As /proc/PID/maps names them."""
    numbers = [os.stat(f"/proc/{keeper.pid}/root{rootfs.BOX}").st_dev, os.fstat(Slot.ORDER).st_dev]
    return {f"{os.major(number):02x}:{os.minor(number):02x}" for number in numbers}


def _memory_bytes(pid: int) -> int:
    """Pages of its own, where they lie in memory and where they were written out."""
    with open(f"/proc/{pid}/status") as file:
        told = dict(line.split(":", 1) for line in file)
    return sum(int(told.get(name, "0").split()[0]) * 1024 for name in ("RssAnon", "VmSwap"))


def _own_badness() -> bytes:
    """How readily the kernel ends us where memory runs out, besides for our size. See proc(5)."""
    with open("/proc/self/oom_score_adj", "rb") as file:
        return file.read()


def _write(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)
