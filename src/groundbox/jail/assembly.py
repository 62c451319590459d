"""Machine code that makes system calls and does nothing else, put together in Python and kept in sealed memory.

Covered: straight-line code of x86_64 for recorded calls (`kernel.recording`), with a few registers and jumps.
Not covered: other machines; whoever uses this has another way there.

Code is at one address and its constants are behind it, at fixed places, in a file in memory that nobody can write to
(memfd_create(2), F_SEAL_WRITE). Numbers that differ from one time to the next are in registers.
See syscall(2) for the registers of a call, and the psABI of x86_64 for those that a function leaves as they were.
"""

import ctypes
import errno
import fcntl
import os
import struct
from collections.abc import Callable, Sequence
from typing import Final

from . import kernel
from .kernel import Call

USER: Final = 0x5EED0001
"""Stands for the user id in recorded calls; nothing else there is this number. It is found in r13."""
FAILED: Final = 71
"""A process that ends with this or more has failed at a call: the one with that number less this."""

READ, WRITE, EXECUTE = 1, 2, 4
SHARED, PRIVATE, FIXED, ANONYMOUS, NOREPLACE = 1, 2, 0x10, 0x20, 0x100000
SIG_SETMASK: Final = 2
_MFD_FLAGS: Final = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
_PR_SET_PDEATHSIG, _SIGKILL = 1, 9
_FILTER_HEADER: Final = struct.Struct("HxxxxxxP")
_ARGUMENTS: Final = ("rdi", "rsi", "rdx", "r10", "r8", "r9")
_NUMBER_OF: Final = {
    **{name: number for number, name in enumerate(("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi"))},
    **{f"r{number}": number for number in range(8, 16)},
}
_SAVED: Final = ("rbx", "rbp", "r12", "r13", "r14", "r15", "rsp")


class Assembly:
    """Code and constants while they are written; `sealed` makes a file of them.

    Attributes:
        steps: The calls that are checked, by the number that a process ends with when one fails.
    """

    def __init__(self, *, code_at: int, size: int, context_at: int) -> None:
        """Args:
        code_at: Where it will be mapped. The first half is code, the second constants.
        context_at: A page in which registers are saved.
        """
        self.code_at, self.size, self.context_at = code_at, size, context_at
        self.steps: list[str] = []
        self._code = bytearray()
        self._data = bytearray()
        self._labels: dict[str, int] = {}
        self._jumps: list[tuple[int, str]] = []
        self._numbers = kernel.numbers()

    def address(self, label: str) -> int:
        """Where the code behind a label will be."""
        return self.code_at + self._labels[label]

    def label(self, name: str) -> None:
        """Give the next instruction a name."""
        self._labels[name] = len(self._code)

    def jump(self, label: str, opcode: str = "e9") -> None:
        """Go on at a label: always, or with an opcode of a condition, such as 0f 84 for equal."""
        self.emit(opcode)
        self._jumps.append((len(self._code), label))
        self._code += bytes(4)

    def emit(self, *parts: str | bytes) -> None:
        """Machine code as it is, bytes or hexadecimal."""
        for part in parts:
            self._code += bytes.fromhex(part) if isinstance(part, str) else part

    def set(self, register: str, value: int) -> None:
        """Put a number into a register."""
        number = _NUMBER_OF[register]
        self.emit(bytes((0x48 | number >> 3, 0xB8 | number & 7)), struct.pack("<Q", value & (1 << 64) - 1))

    def move(self, to: str, source: str) -> None:
        """Copy a register."""
        if to != source:
            first, second = _NUMBER_OF[source], _NUMBER_OF[to]
            self.emit(bytes((0x48 | (first >> 3) << 2 | second >> 3, 0x89, 0xC0 | (first & 7) << 3 | second & 7)))

    def save(self) -> None:
        """Keep what a function has to leave as it was, in the page of the context."""
        self.set("rax", self.context_at)
        for place, register in enumerate(_SAVED):
            number = _NUMBER_OF[register]
            self.emit(bytes((0x48 | (number >> 3) << 2, 0x89, 0x40 | (number & 7) << 3, 8 * place)))
        self.emit("48 8b 0c 24", "48 89 48 38")  # mov rcx, [rsp]; mov [rax + 56], rcx
        self.emit("0f ae 58 40", "d9 78 44")  # stmxcsr [rax + 64]; fnstcw [rax + 68]

    def leave(self, result: int) -> None:
        """Return from the function that called `save`."""
        self.set("rax", self.context_at)
        self.emit("0f ae 50 40", "d9 68 44")  # ldmxcsr [rax + 64]; fldcw [rax + 68]
        self.emit("48 8b 48 38")  # mov rcx, [rax + 56]
        for place, register in enumerate(_SAVED):
            number = _NUMBER_OF[register]
            self.emit(bytes((0x48 | (number >> 3) << 2, 0x8B, 0x40 | (number & 7) << 3, 8 * place)))
        self.emit("48 83 c4 08", b"\xb8" + struct.pack("<I", result), "ff e1")  # add rsp, 8; mov eax, result; jmp rcx

    def die_with_parent(self) -> None:
        """See PR_SET_PDEATHSIG of prctl(2)."""
        self.system_call("prctl", (_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0))

    def recorded(self, call: Call) -> None:
        """Make a call that was written down; what it opens is found at its slot."""
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
        self.system_call(call.name, arguments, what=call.step)
        if call.slot is not None:
            self.system_call("dup2", ("rax", call.slot), what=call.step)

    def system_call(
        self, name: str, arguments: Sequence[int | bytes | str], *, checked: bool = True, what: str = ""
    ) -> None:
        """Make a call with these numbers, constants and registers. Where it is checked and fails, go to `failed`.

        Args:
            what: What it is a part of, for `steps`.
        """
        for register, argument in zip(_ARGUMENTS, arguments, strict=False):
            if isinstance(argument, str):
                self.move(register, argument)
            else:
                self.set(register, argument if isinstance(argument, int) else self._place(argument))
        if checked:
            self.set("rbx", len(self.steps))
            self.steps.append(f"{what}: {name}" if what else name)
        self.set("rax", self._numbers[name])
        self.emit("0f 05")
        if checked:
            self.emit("48 85 c0")  # test rax, rax
            self.jump("failed", "0f 88")  # js

    def end_failed(self, told_in: int | None = None) -> None:
        """The code of `failed`: end the process with the number of the call.

        Args:
            told_in: A descriptor whose offset then is that number, times 65,536, and the kernel's errno.
        """
        self.label("failed")
        if told_in is not None:
            self.move("rsi", "rax")
            self.move("rdi", "rbx")
            self.emit("48 f7 de", "48 c1 e7 10", "48 09 fe")  # neg rsi; shl rdi, 16; or rsi, rdi
            self.system_call("lseek", (told_in, "rsi", os.SEEK_SET), checked=False)
        self.move("rdi", "rbx")
        self.emit("48 81 c7", struct.pack("<i", FAILED))  # add rdi, FAILED
        self.system_call("exit_group", ("rdi",), checked=False)
        self.emit("0f 0b")

    def sealed(self) -> int:
        """Write all of it into a file in memory that can only be read from now on, and give its descriptor.

        Raises:
            KernelRefused: It is too long, or there is no such memory to be had.
        """
        for at, label in self._jumps:
            struct.pack_into("<i", self._code, at, self._labels[label] - at - 4)
        half = self.size // 2
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

    def _place(self, data: bytes) -> int:
        """The address of a constant, ended by a zero as the kernel expects of names."""
        found = self._data.find(data + b"\0")
        if found < 0 or found % 8:
            self._data += bytes(-len(self._data) % 8)
            found = len(self._data)
            self._data += data + b"\0"
        return self.code_at + self.size // 2 + found


def map_at(at: int, size: int, protection: int, flags: int, descriptor: int) -> None:
    """`mmap(2)` at one address and no other."""
    kernel.call("mmap", at, size, protection, flags, descriptor, 0)


def function_at(address: int) -> Callable[[int], int]:
    """The function `long f(long)` that is there, or will be when it is called."""
    return ctypes.PYFUNCTYPE(ctypes.c_long, ctypes.c_long)(address)


def call_at(address: int, argument: int) -> int:
    """Call a function `long f(long)` there."""
    return function_at(address)(argument)


def block_signals() -> None:
    """All that can be blocked, for good."""
    everything = (1 << 64) - 1
    kernel.call("rt_sigprocmask", SIG_SETMASK, struct.pack("=Q", everything), None, 8)
