"""Sealed programs: system calls in memory that a guest shares and cannot change.

Covered: a process that keeps its privileges although it has its whole memory in common with guest code (the *keeper of
copies* of docs/branching.md), and does nothing but the calls that were written down before any guest code ran.
Not covered: machines other than x86_64.

Theory of operation. Whoever shares all memory with an attacker can trust no stack, no heap and no library in it. So a
keeper has none of them: it runs straight-line code of a file in memory that is sealed against writing
(memfd_create(2), F_SEAL_WRITE), and mapped shared, which not even /proc/PID/mem writes through. Constants, and all that
the kernel reads for a call, lie in the same file. The seccomp filter of the guest refuses each call that would unmap,
move or cover these addresses (`jail/seccomp.py`); the address is low, so that comparing where a range begins suffices.
What differs from one order to the next comes in registers only: as the offset of an open file, which lseek(2) returns
(`Slot`), and nowhere is anything read that the guest could write. Results are told in the same way.
The kernel acts on user memory on behalf of a process in more ways, and those are switched off for a keeper before guest
code runs: signals, and restartable sequences, whose abort address would let the guest choose where it goes on.

A guest that is made from a copy (`Program.calls`) leaves the sealed code for good when it has given up every privilege:
it goes on where the guest that was copied had saved its registers (`park`), which is memory that the guest may write.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from . import kernel, namespaces, rootfs
from .assembly import (
    ANONYMOUS,
    EXECUTE,
    NOREPLACE,
    PRIVATE,
    READ,
    SHARED,
    SIG_SETMASK,
    WRITE,
    Assembly,
    block_signals,
    call_at,
    map_at,
)
from .kernel import Call

CODE_AT: Final = 0x10000
CODE_BYTES: Final = 0x10000
CONTEXT_AT: Final = CODE_AT + CODE_BYTES
"""A page that the guest may write: registers of who is parked, and a place for what the kernel writes back."""
GUARDED_BELOW: Final = CONTEXT_AT
_SCRATCH_AT: Final = CONTEXT_AT + 2048
_PAGE: Final = 4096

_CLONE_VM, _CLONE_FILES, _CLONE_PARENT, _SIGCHLD = 0x100, 0x400, 0x8000, 17
_MSG_PEEK: Final = 2
_DETACH: Final = 2
_RSEQ_SIGNATURE: Final = 0x53053053
_RSEQ_BYTES: Final = 32


class Slot(IntEnum):
    """Descriptors of a template at numbers that sealed programs know. Keepers share the template's descriptors."""

    FLAGS, TEXT, PROGRAM, ERROR = 64, 65, 66, 67
    """For the launcher: clone flags, the order itself, what a worker's way into the jail is mapped from, an errno."""
    SOCKET, OUT, ERR, NETWORK = 68, 69, 70, 71
    ORDER, USER, WAKE, RESULT = 72, 73, 74, 75
    """Empty files: an offset is a number handed over. What to do, a user id, the next keeper's eventfd, a result."""
    DONE = 76
    JOIN, JOIN_LAST = 77, 80
    NULL = 81
    FIRST_OWN, LAST_OWN = 82, 87
    """For what a guest opens on its way into the jail."""


BIRTHS: Final = -24
"""What is added to each number for the launcher of workers that are not copied: a second set, so that it waits for no
keeper. The first set is the keepers', and that of the launcher which makes those."""


class Order(IntEnum):
    """What a keeper, or the launcher, is told to do when it is woken."""

    END, COPY, MAKE_ROOM, RUN = 0, 1, 2, 3
    LAUNCH, LAUNCH_SHARING = 4, 5
    """For the launcher: a worker in the network namespace in its slot, or a process that shares descriptors with us."""


class Installed(NamedTuple):
    """Where a program is: the file that it is mapped from, and its functions.

    Attributes:
        park: The address of `long park(int socket, const void *frame, long size)`, called by a guest. Saves the
            registers, sends the frame and waits until there is something to read: 0. In copies made meanwhile it
            returns 1.
    """

    descriptor: int
    enter: int
    park: int

    def become_keeper(self, wake: int) -> bool:
        """Map it, and the page for registers, into the calling process, and be a keeper there.

        Nothing else acts on the memory of this process any more. True is returned in guests made of it.

        Args:
            wake: An eventfd that tells of an order.
        """
        map_at(CODE_AT, CODE_BYTES, READ | EXECUTE, SHARED | NOREPLACE, self.descriptor)
        map_at(CONTEXT_AT, _PAGE, READ | WRITE, PRIVATE | ANONYMOUS | NOREPLACE, -1)
        _end_restartable_sequences()
        block_signals()
        return bool(call_at(self.enter, wake))


class Program:
    """Machine code and constants, written once in the template; `install` maps them, `enter` and `park` are in it."""

    def __init__(self, *, flags: int, network: bool, room: Sequence[Call], calls: Sequence[Call]) -> None:
        """Args:
        flags: Namespaces that a guest is cloned into.
        network: Whether it goes into the network namespace in its slot.
        room: Calls by which a copy gets files of its own, in a mount namespace of its own.
        calls: A guest's way into the jail.

        Raises:
            KernelRefused: There is no such memory to be had.
        """
        self._assembly = Assembly(code_at=CODE_AT, size=CODE_BYTES, context_at=CONTEXT_AT)
        self._park()
        self._enter()
        self._loop()
        self._copy()
        self._make_room(room)
        self._run(flags, network=network)
        self._become(calls)
        self._assembly.end_failed()
        self.installed = Installed(
            self._assembly.sealed(), self._assembly.address("enter"), self._assembly.address("park")
        )

    def close(self) -> None:
        """Give the file back; mappings of it stay."""
        os.close(self.installed.descriptor)

    def _park(self) -> None:
        it = self._assembly
        it.label("park")
        it.save()
        it.system_call("write", ("rdi", "rsi", "rdx"), checked=False)
        it.label("stand")  # still, also where a signal comes: who left would overwrite the stack that is copied
        it.system_call("recvfrom", ("rdi", _SCRATCH_AT, 1, _MSG_PEEK, 0, 0), checked=False)
        it.emit("48 83 f8", struct.pack("b", -errno.EINTR))  # cmp rax, -EINTR
        it.jump("stand", "0f 84")  # je
        it.emit("31 c0 c3")  # xor eax, eax; ret

    def _enter(self) -> None:
        it = self._assembly
        it.label("enter")
        it.save()
        it.move("r12", "rdi")
        it.die_with_parent()
        it.jump("loop")

    def _loop(self) -> None:
        it = self._assembly
        it.label("loop")
        it.system_call("read", ("r12", _SCRATCH_AT, 8))
        self._offset_of(Slot.ORDER)
        for order, label in ((Order.COPY, "copy"), (Order.MAKE_ROOM, "room"), (Order.RUN, "run")):
            it.emit("48 3d", struct.pack("<i", order))  # cmp rax, order
            it.jump(label, "0f 84")  # je
        it.system_call("exit_group", (0,))
        it.label("told")  # with the result in rax; a negative one cannot be an offset, so that the order stays there
        it.move("rsi", "rax")
        it.system_call("lseek", (Slot.RESULT, "rsi", os.SEEK_SET), checked=False)
        it.system_call("write", (Slot.DONE, struct.pack("=Q", 1), 8))
        it.jump("loop")

    def _copy(self) -> None:
        it = self._assembly
        it.label("copy")
        self._offset_of(Slot.WAKE)  # before there is a copy: nobody waits until that has come so far
        it.move("r14", "rax")
        it.system_call("clone", (_CLONE_FILES | _CLONE_PARENT | _SIGCHLD, 0, 0, 0, 0), checked=False)
        it.emit("48 85 c0")  # test rax, rax
        it.jump("told", "0f 85")  # jne
        it.die_with_parent()
        it.move("r12", "r14")
        it.jump("loop")

    def _make_room(self, room: Sequence[Call]) -> None:
        it = self._assembly
        it.label("room")
        for slot in range(Slot.JOIN, Slot.JOIN_LAST + 1):
            it.system_call("write", (slot, b"0", 1))
        it.system_call("unshare", (namespaces.NEWNS,))
        it.system_call("umount2", (rootfs.BOX.encode(), _DETACH))
        self._offset_of(Slot.USER)
        it.move("r13", "rax")
        for call in room:
            it.recorded(call)
        it.set("rax", 1)
        it.jump("told")

    def _run(self, flags: int, *, network: bool) -> None:
        it = self._assembly
        it.label("run")
        self._offset_of(Slot.USER)
        it.move("r13", "rax")
        if network:
            it.system_call("setns", (Slot.NETWORK, namespaces.NEWNET))
        flags |= namespaces.NEWCGROUP | _CLONE_VM | _CLONE_PARENT | _SIGCHLD
        it.system_call("clone", (flags, 0, 0, 0, 0), checked=False)
        it.emit("48 85 c0")
        it.jump("told", "0f 85")

    def _become(self, calls: Sequence[Call]) -> None:
        """A guest's way into its jail, and from there to the guest that was copied."""
        it = self._assembly
        it.die_with_parent()
        for call in calls:
            it.recorded(call)
        it.system_call("rt_sigprocmask", (SIG_SETMASK, bytes(8), 0, 8))
        it.leave(1)

    def _offset_of(self, slot: Slot) -> None:
        self._assembly.system_call("lseek", (slot, 0, os.SEEK_CUR))


def _end_restartable_sequences() -> None:
    """Take back the C library's registration, and make sure that there is none.

    Raises:
        KernelRefused: There is one that is not known.
    """
    library = ctypes.PyDLL(None)
    library.pthread_self.restype = ctypes.c_void_p
    try:
        offset = ctypes.c_ssize_t.in_dll(library, "__rseq_offset").value
        registered_bytes = ctypes.c_uint.in_dll(library, "__rseq_size").value  # 0: it tried, and the kernel refused
        where = ctypes.c_void_p(library.pthread_self() + offset)
    except ValueError:  # an older library
        where = None
    if where is not None:
        try:
            kernel.call("rseq", where, max(_RSEQ_BYTES, registered_bytes), 1, _RSEQ_SIGNATURE)
        except kernel.KernelRefused as error:
            # EINVAL: there is no registration. ENOSYS: the kernel has no such call (CONFIG_RSEQ), or a filter that was
            # set after the registration hides it.
            if error.errno != errno.EINVAL and not (error.errno == errno.ENOSYS and registered_bytes == 0):
                raise
    probe = ctypes.create_string_buffer(2 * _RSEQ_BYTES)
    aligned = ctypes.c_void_p((ctypes.addressof(probe) + 31) & ~31)
    try:
        kernel.call("rseq", aligned, _RSEQ_BYTES, 0, _RSEQ_SIGNATURE)
        kernel.call("rseq", aligned, _RSEQ_BYTES, 1, _RSEQ_SIGNATURE)
    except kernel.KernelRefused as error:
        if error.errno != errno.ENOSYS:
            raise
