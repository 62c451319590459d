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
import fcntl
import os
import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Final

from . import kernel, namespaces, rootfs
from .kernel import Call

CODE_AT: Final = 0x10000
CODE_BYTES: Final = 0x10000
CONTEXT_AT: Final = CODE_AT + CODE_BYTES
"""A page that the guest may write: registers of who is parked, and a place for what the kernel writes back."""
GUARDED_BELOW: Final = CONTEXT_AT
_SCRATCH_AT: Final = CONTEXT_AT + 2048
_PAGE: Final = 4096
USER: Final = 0x5EED0001
"""Stands for the user id in recorded calls; nothing else there is this number."""
FAILED: Final = 71
"""A guest that ends with this or more has failed at a call: the one with that number less this."""

_READ, _WRITE, _EXECUTE = 1, 2, 4
_SHARED, _PRIVATE, _ANONYMOUS, _NOREPLACE = 1, 2, 0x20, 0x100000
_MFD_FLAGS: Final = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
_CLONE_VM, _CLONE_FILES, _CLONE_PARENT, _SIGCHLD = 0x100, 0x400, 0x8000, 17
_PR_SET_PDEATHSIG, _SIGKILL = 1, 9
_SIG_SETMASK: Final = 2
_MSG_PEEK: Final = 2
_DETACH: Final = 2
_RSEQ_SIGNATURE: Final = 0x53053053
_RSEQ_BYTES: Final = 32
_FILTER_HEADER: Final = struct.Struct("HxxxxxxP")
_ARGUMENTS: Final = ("rdi", "rsi", "rdx", "r10", "r8", "r9")
_NUMBER_OF: Final = {
    **{name: number for number, name in enumerate(("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi"))},
    **{f"r{number}": number for number in range(8, 16)},
}
_SAVED: Final = ("rbx", "rbp", "r12", "r13", "r14", "r15", "rsp")


class Slot(IntEnum):
    """Descriptors of a template at numbers that sealed programs know. Keepers share the template's descriptors."""

    SOCKET, OUT, ERR, NETWORK = 44, 45, 46, 47
    ORDER, USER, WAKE, RESULT = 48, 49, 50, 51
    """Empty files: an offset is a number handed over. What to do, a user id, the next keeper's eventfd, a result."""
    DONE = 52
    JOIN, JOIN_LAST = 53, 56
    NULL = 57
    FIRST_OWN, LAST_OWN = 58, 63
    """For what a guest opens on its way into the jail. All are below 64, as many as the kernel's first table holds."""


class Order(IntEnum):
    """What a keeper is told to do when it is woken."""

    END, COPY, MAKE_ROOM, RUN = 0, 1, 2, 3


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
        self._code = bytearray()
        self._data = bytearray()
        self._labels: dict[str, int] = {}
        self._jumps: list[tuple[int, str]] = []
        self._step = 0
        self._numbers = kernel.numbers()
        self._data_at = CODE_AT + CODE_BYTES // 2
        self._park()
        self._enter()
        self._loop()
        self._copy()
        self._make_room(room)
        self._run(flags, network=network)
        self._become(calls)
        self._fail()
        self._resolve()
        self._descriptor = self._sealed()

    def close(self) -> None:
        """Give the file back; mappings of it stay."""
        os.close(self._descriptor)

    def install(self) -> None:
        """Map it, and the page for registers, into the calling process, and free that of what acts on its memory."""
        _map(CODE_AT, CODE_BYTES, _READ | _EXECUTE, _SHARED | _NOREPLACE, self._descriptor)
        _map(CONTEXT_AT, _PAGE, _READ | _WRITE, _PRIVATE | _ANONYMOUS | _NOREPLACE, -1)
        _end_restartable_sequences()

    def enter(self, wake: int) -> bool:
        """Become a keeper. True is returned in guests made of it.

        Args:
            wake: An eventfd that tells of an order.
        """
        everything = (1 << 64) - 1
        kernel.call("rt_sigprocmask", _SIG_SETMASK, struct.pack("=Q", everything), None, 8)
        return bool(ctypes.PYFUNCTYPE(ctypes.c_long, ctypes.c_long)(CODE_AT + self._labels["enter"])(wake))

    @property
    def park_at(self) -> int:
        """The address of `park`: `long park(int socket, const void *frame, long size)`.

        Called by a guest. Saves the registers, sends the frame and waits until there is something to read: 0. In copies
        made meanwhile it returns 1.
        """
        return CODE_AT + self._labels["park"]

    def _park(self) -> None:
        self._label("park")
        self._save()
        self._system_call("write", ("rdi", "rsi", "rdx"), checked=False)
        self._label("stand")  # still, also where a signal comes: who left would overwrite the stack that is copied
        self._system_call("recvfrom", ("rdi", _SCRATCH_AT, 1, _MSG_PEEK, 0, 0), checked=False)
        self._emit("48 83 f8", struct.pack("b", -errno.EINTR))  # cmp rax, -EINTR
        self._jump("stand", "0f 84")  # je
        self._emit("31 c0 c3")  # xor eax, eax; ret

    def _enter(self) -> None:
        self._label("enter")
        self._save()
        self._move("r12", "rdi")
        self._die_with_parent()
        self._jump("loop")

    def _loop(self) -> None:
        self._label("loop")
        self._system_call("read", ("r12", _SCRATCH_AT, 8))
        self._offset_of(Slot.ORDER)
        for order, label in ((Order.COPY, "copy"), (Order.MAKE_ROOM, "room"), (Order.RUN, "run")):
            self._emit("48 3d", struct.pack("<i", order))  # cmp rax, order
            self._jump(label, "0f 84")  # je
        self._system_call("exit_group", (0,))
        self._label("told")  # with the result in rax; a negative one cannot be an offset, so that the order stays there
        self._move("rsi", "rax")
        self._system_call("lseek", (Slot.RESULT, "rsi", os.SEEK_SET), checked=False)
        self._system_call("write", (Slot.DONE, struct.pack("=Q", 1), 8))
        self._jump("loop")

    def _copy(self) -> None:
        self._label("copy")
        self._offset_of(Slot.WAKE)  # before there is a copy: nobody waits until that has come so far
        self._move("r14", "rax")
        self._system_call("clone", (_CLONE_FILES | _CLONE_PARENT | _SIGCHLD, 0, 0, 0, 0), checked=False)
        self._emit("48 85 c0")  # test rax, rax
        self._jump("told", "0f 85")  # jne
        self._die_with_parent()
        self._move("r12", "r14")
        self._jump("loop")

    def _make_room(self, room: Sequence[Call]) -> None:
        self._label("room")
        for slot in range(Slot.JOIN, Slot.JOIN_LAST + 1):
            self._system_call("write", (slot, b"0", 1))
        self._system_call("unshare", (namespaces.NEWNS,))
        self._system_call("umount2", (rootfs.BOX.encode(), _DETACH))
        self._offset_of(Slot.USER)
        self._move("r13", "rax")
        for call in room:
            self._recorded(call)
        self._set("rax", 1)
        self._jump("told")

    def _run(self, flags: int, *, network: bool) -> None:
        self._label("run")
        self._offset_of(Slot.USER)
        self._move("r13", "rax")
        if network:
            self._system_call("setns", (Slot.NETWORK, namespaces.NEWNET))
        flags |= namespaces.NEWCGROUP | _CLONE_VM | _CLONE_PARENT | _SIGCHLD
        self._system_call("clone", (flags, 0, 0, 0, 0), checked=False)
        self._emit("48 85 c0")
        self._jump("told", "0f 85")

    def _become(self, calls: Sequence[Call]) -> None:
        """A guest's way into its jail, and from there to the guest that was copied."""
        self._die_with_parent()
        for call in calls:
            self._recorded(call)
        self._system_call("rt_sigprocmask", (_SIG_SETMASK, bytes(8), 0, 8))
        self._set("rax", CONTEXT_AT)
        self._emit("0f ae 50 40", "d9 68 44")  # ldmxcsr [rax + 64]; fldcw [rax + 68]
        self._emit("48 8b 48 38")  # mov rcx, [rax + 56]
        for place, register in enumerate(_SAVED):
            number = _NUMBER_OF[register]
            self._emit(bytes((0x48 | (number >> 3) << 2, 0x8B, 0x40 | (number & 7) << 3, 8 * place)))
        self._emit("48 83 c4 08", "b8 01 00 00 00", "ff e1")  # add rsp, 8; mov eax, 1; jmp rcx

    def _fail(self) -> None:
        self._label("failed")
        self._move("rdi", "rbx")
        self._emit("48 81 c7", struct.pack("<i", FAILED))  # add rdi, FAILED
        self._system_call("exit_group", ("rdi",), checked=False)
        self._emit("0f 0b")

    def _die_with_parent(self) -> None:
        self._system_call("prctl", (_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0))

    def _save(self) -> None:
        """Keep what a function has to leave as it was, in the page of the context."""
        self._set("rax", CONTEXT_AT)
        for place, register in enumerate(_SAVED):
            number = _NUMBER_OF[register]
            self._emit(bytes((0x48 | (number >> 3) << 2, 0x89, 0x40 | (number & 7) << 3, 8 * place)))
        self._emit("48 8b 0c 24", "48 89 48 38")  # mov rcx, [rsp]; mov [rax + 56], rcx
        self._emit("0f ae 58 40", "d9 78 44")  # stmxcsr [rax + 64]; fnstcw [rax + 68]

    def _offset_of(self, slot: Slot) -> None:
        self._system_call("lseek", (slot, 0, os.SEEK_CUR))

    def _recorded(self, call: Call) -> None:
        arguments: list[int | bytes | str] = []
        for argument in call.arguments:
            if argument == USER:
                arguments.append("r13")
            else:
                arguments.append(0 if argument is None else argument)
        if call.name == "seccomp":  # what the header points to has to be sealed, too
            header = call.arguments[2]
            assert isinstance(header, bytes)
            count, at = _FILTER_HEADER.unpack(header)
            arguments[2] = _FILTER_HEADER.pack(count, self._place(ctypes.string_at(at, 8 * count)))
        self._system_call(call.name, arguments)
        if call.slot is not None:
            self._system_call("dup2", ("rax", call.slot))

    def _system_call(self, name: str, arguments: Sequence[int | bytes | str], *, checked: bool = True) -> None:
        """Where it is checked and fails, the process ends."""
        for register, argument in zip(_ARGUMENTS, arguments, strict=False):
            if isinstance(argument, str):
                self._move(register, argument)
            else:
                self._set(register, argument if isinstance(argument, int) else self._place(argument))
        if checked:
            self._set("rbx", self._step)
            self._step += 1
        self._set("rax", self._numbers[name])
        self._emit("0f 05")
        if checked:
            self._emit("48 85 c0")
            self._jump("failed", "0f 88")  # js

    def _set(self, register: str, value: int) -> None:
        number = _NUMBER_OF[register]
        self._emit(bytes((0x48 | number >> 3, 0xB8 | number & 7)), struct.pack("<Q", value & (1 << 64) - 1))

    def _move(self, to: str, source: str) -> None:
        if to != source:
            first, second = _NUMBER_OF[source], _NUMBER_OF[to]
            self._emit(bytes((0x48 | (first >> 3) << 2 | second >> 3, 0x89, 0xC0 | (first & 7) << 3 | second & 7)))

    def _place(self, data: bytes) -> int:
        """The address of a constant, ended by a zero as the kernel expects of names."""
        found = self._data.find(data + b"\0")
        if found < 0 or found % 8:
            self._data += bytes(-len(self._data) % 8)
            found = len(self._data)
            self._data += data + b"\0"
        return self._data_at + found

    def _label(self, name: str) -> None:
        self._labels[name] = len(self._code)

    def _jump(self, label: str, opcode: str = "e9") -> None:
        self._emit(opcode)
        self._jumps.append((len(self._code), label))
        self._code += bytes(4)

    def _emit(self, *parts: str | bytes) -> None:
        for part in parts:
            self._code += bytes.fromhex(part) if isinstance(part, str) else part

    def _resolve(self) -> None:
        for at, label in self._jumps:
            struct.pack_into("<i", self._code, at, self._labels[label] - at - 4)

    def _sealed(self) -> int:
        half = CODE_BYTES // 2
        if len(self._code) > half or len(self._data) > half:
            raise kernel.KernelRefused(errno.E2BIG, "the sealed program is too long")
        descriptor = os.memfd_create("groundbox-sealed", _MFD_FLAGS)
        content = bytes(self._code).ljust(half, b"\xcc") + bytes(self._data).ljust(half, b"\0")
        os.write(descriptor, content)
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
        try:  # a mapping by a descriptor for reading alone can never be made writable, whatever the kernel's version
            return os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            os.close(descriptor)


def _map(at: int, size: int, protection: int, flags: int, descriptor: int) -> None:
    kernel.call("mmap", at, size, protection, flags, descriptor, 0)


def _end_restartable_sequences() -> None:
    """Take back the C library's registration, and make sure that there is none.

    Raises:
        KernelRefused: There is one that is not known.
    """
    library = ctypes.PyDLL(None)
    library.pthread_self.restype = ctypes.c_void_p
    try:
        offset = ctypes.c_ssize_t.in_dll(library, "__rseq_offset").value
        size = max(_RSEQ_BYTES, ctypes.c_uint.in_dll(library, "__rseq_size").value)
        where = ctypes.c_void_p(library.pthread_self() + offset)
    except ValueError:  # an older library
        where = None
    if where is not None:
        try:
            kernel.call("rseq", where, size, 1, _RSEQ_SIGNATURE)
        except kernel.KernelRefused as error:
            if error.errno != errno.EINVAL:  # not registered
                raise
    probe = ctypes.create_string_buffer(2 * _RSEQ_BYTES)
    aligned = ctypes.c_void_p((ctypes.addressof(probe) + 31) & ~31)
    try:
        kernel.call("rseq", aligned, _RSEQ_BYTES, 0, _RSEQ_SIGNATURE)
        kernel.call("rseq", aligned, _RSEQ_BYTES, 1, _RSEQ_SIGNATURE)
    except kernel.KernelRefused as error:
        if error.errno != errno.ENOSYS:
            raise
