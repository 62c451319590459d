"""Copies of live guests: keepers, and how the template orders them about.

A *keeper* has all memory in common with one guest, and its own privileges (jail/sealed.py). It is a process of the
template's pid namespace, where no guest sees it. Told to, it makes a copy of itself, which has a copy of the guest's
memory and no guest: that is a checkpoint. And it makes a guest of the memory that it has, with walls of its own.
So a sandbox that can be branched is a keeper first, and its guest is the first one made of it.

Orders are carried out one at a time, and while one is, the template serves others. What is told and heard goes through
descriptors at fixed numbers, which keepers share with the template (`sealed.Slot`).
"""

import collections
import contextlib
import ctypes
import errno
import fcntl
import os
import re
import select
import signal
import struct
from collections.abc import Callable, Generator, Sequence
from typing import Final, NamedTuple

from groundbox.jail import enter, kernel, namespaces, rootfs, sealed
from groundbox.jail.sealed import Order, Slot

SHARING: Final = 0x400
"""CLONE_FILES."""
_ONE: Final = struct.pack("=Q", 1)
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


class Keeper:
    """One of them, with the guest that it was made for, or by itself."""

    def __init__(self, pid: int, pidfd: int, wake: int) -> None:
        self.pid, self.pidfd, self.wake = pid, pidfd, wake
        self.alive = True

    def end(self) -> None:
        """Ask for its end; it is heard of through `pidfd`."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)


class Asked(NamedTuple):
    """What a keeper is told. `wake` is the eventfd of the one that it makes."""

    keeper: Keeper
    order: Order
    uid: int = 0
    wake: int = 0


Steps = Generator[Asked, int, None]
"""Orders one after the other. Each gives what the keeper answered; KernelRefused is thrown in where it did not."""


class Branches:
    """All keepers of one template."""

    def __init__(
        self,
        plan: enter.Plan,
        poll: select.poll,
        ended: Callable[[Keeper], None],
        others: Callable[[], set[int]],
        *,
        shift: int = 0,
    ) -> None:
        """Args:
        ended: Told of each keeper that has ended.
        others: All children of this process that are no keepers of these.
        shift: What is added to the numbers of descriptors: 0 or `sealed.BIRTHS`.

        Raises:
            OSError: A number that is needed is taken.
        """
        self._plan = plan
        self._shift = shift
        self._poll = poll
        self._ended = ended
        self._others = others
        self._keepers: dict[int, Keeper] = {}
        self._programs: dict[tuple[int | None, int | None], sealed.Program] = {}
        self._waiting: collections.deque[Steps] = collections.deque()
        self._current: Steps | None = None
        self._asked: Asked | None = None
        self._badness = _own_badness()
        self._known = frozenset((each.device, each.inode, each.name) for each in _mappings(os.getpid()))
        self._take_numbers()

    @property
    def pids(self) -> set[int]:
        """Of all keepers."""
        return {keeper.pid for keeper in self._keepers.values()}

    @property
    def waiting(self) -> int:
        """Orders that wait for others."""
        return len(self._waiting)

    def handles(self, descriptor: int) -> bool:
        """Whether an event of this descriptor is for `handle`."""
        return descriptor == Slot.DONE + self._shift or descriptor in self._keepers

    def program(self, disk_bytes: int | None, file_count: int | None) -> sealed.Installed:
        """That of sandboxes of this size."""
        key = disk_bytes, file_count
        if key not in self._programs:
            self._programs[key] = enter.sealed_program(self._plan, disk_bytes=disk_bytes, file_count=file_count)
        return self._programs[key].installed

    def take(self, steps: Steps) -> None:
        """Carry out these orders when those before are done."""
        self._waiting.append(steps)
        if self._current is None:
            self._next()

    def adopt(self, pid: int, pidfd: int, wake: int) -> Keeper:
        """A keeper that was just made."""
        keeper = self._keepers[pidfd] = Keeper(pid, pidfd, wake)
        self._poll.register(pidfd, select.POLLIN)
        return keeper

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

    def handle(self, descriptor: int) -> None:
        """Something has happened to a descriptor of ours."""
        if descriptor == Slot.DONE + self._shift:
            if self._is_answered() and self._asked is not None:
                self._go_on(os.lseek(Slot.RESULT + self._shift, 0, os.SEEK_CUR))
            return
        keeper = self._keepers.pop(descriptor)
        self._poll.unregister(descriptor)
        os.waitpid(keeper.pid, 0)
        os.close(keeper.pidfd)
        os.close(keeper.wake)
        keeper.alive = False
        if self._asked is not None and self._asked.keeper is keeper:
            if self._is_answered():  # before it ended; nobody may take that for the answer to another order
                self._go_on(os.lseek(Slot.RESULT + self._shift, 0, os.SEEK_CUR))
            else:
                self._end_unheard_of()
                self._go_on(0)
        self._ended(keeper)

    def _is_answered(self) -> bool:
        """Take back the word that an order is carried out, if it was given."""
        try:
            os.read(Slot.DONE + self._shift, 8)
        except BlockingIOError:
            return False
        return True

    def _end_unheard_of(self) -> None:
        """End what a keeper has made and could not tell of any more: it would wait at a number that is another's soon,
        and carry out that one's orders.
        """
        known = self.pids | self._others()
        for pid in _children() - known:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)

    def _next(self) -> None:
        while self._waiting and self._current is None:
            self._current = self._waiting.popleft()
            self._advance(None)

    def _go_on(self, result: int) -> None:
        self._asked = None
        self._advance(result)
        self._next()

    def _advance(self, result: int | None) -> None:
        """Let the current steps ask for more; where a keeper has nothing to answer, they hear so."""
        assert self._current is not None
        while True:
            try:
                if result == 0:
                    asked = self._current.throw(kernel.KernelRefused(0, "the kernel refused the copy, or it has ended"))
                else:
                    asked = self._current.send(result)  # type: ignore[arg-type]
            except StopIteration:
                self._current = None
                return
            if asked.keeper.alive:
                break
            result = 0
        for slot, offset in ((Slot.ORDER, asked.order), (Slot.USER, asked.uid), (Slot.WAKE, asked.wake)):
            os.lseek(slot + self._shift, offset, os.SEEK_SET)
        os.lseek(Slot.RESULT + self._shift, 0, os.SEEK_SET)
        self._asked = asked
        os.write(asked.keeper.wake, _ONE)

    def _take_numbers(self) -> None:
        numbers = set(range(Slot.FLAGS + self._shift, Slot.LAST_OWN + self._shift + 1))
        if taken := {*map(int, os.listdir("/proc/self/fd"))} & numbers:
            raise OSError(errno.EBUSY, f"descriptors {sorted(taken)} are taken")
        nothing = Slot.NULL + self._shift
        _move(os.open("/dev/null", os.O_RDWR), nothing)
        for number in numbers - {nothing}:  # none is given to anything else
            os.dup2(nothing, number, inheritable=False)
        for slot in (Slot.FLAGS, Slot.ERROR, Slot.ORDER, Slot.USER, Slot.WAKE, Slot.RESULT):
            _move(os.memfd_create("groundbox-slot"), slot + self._shift)
        _move(os.eventfd(0, os.EFD_NONBLOCK), Slot.DONE + self._shift)
        self._poll.register(Slot.DONE + self._shift, select.POLLIN)


def held(pid: int) -> int:
    """A pidfd of a child that was just made; where there is none to be had, the child is ended.

    Raises:
        OSError: No descriptor is left.
    """
    try:
        return os.pidfd_open(pid)
    except OSError:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise


def place(sock: int, out: int, err: int, network: int | None, join: Sequence[int], *, shift: int = 0) -> None:
    """Put descriptors where the next guest, or the next copy, finds them."""
    for descriptor, slot in ((sock, Slot.SOCKET), (out, Slot.OUT), (err, Slot.ERR)):
        os.dup2(descriptor, slot + shift, inheritable=False)
    if network is not None:
        os.dup2(network, Slot.NETWORK + shift, inheritable=False)
    for place_, descriptor in enumerate(join):
        os.dup2(descriptor, Slot.JOIN + place_ + shift, inheritable=False)


def clear(*, shift: int = 0) -> None:
    """Hold none of them any longer: who reads from them waits for the last writer to go."""
    for number in (Slot.SOCKET, Slot.OUT, Slot.ERR, Slot.NETWORK, *range(Slot.JOIN, Slot.JOIN_LAST + 1)):
        os.dup2(Slot.NULL + shift, number + shift, inheritable=False)


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


def _children() -> set[int]:
    """Processes whose parent we are."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
            if int(file.read().rpartition(b")")[2].split()[1]) == os.getpid():
                found.add(int(pid))
    return found


def _move(descriptor: int, number: int) -> None:
    os.dup2(descriptor, number, inheritable=False)
    os.close(descriptor)
