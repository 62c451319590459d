"""The launcher: a copy of the template that has run nothing since, and of which all workers are made.

Covered: x86_64. Elsewhere, and where a layer is waived, a template forks itself and enters the jail in Python.

Whoever runs Python writes to pages all over its heap. While copies of it live, each of these pages is copied, and the
huge page that it lay in becomes 512 small ones, which every later fork copies one by one. So the template does the
talking and the launcher the forking: it waits in machine code that writes to one page, and its page tables stay as
they were when the template was ready. What it makes is in the jail when it comes back to Python: the calls of all
steps are made by machine code, too, which is recorded from the very functions of enter.py.

The launcher shares the template's descriptors; what it is told comes by their numbers (`sealed.Slot`).
"""

import ctypes
import os
import struct
from collections.abc import Sequence
from typing import Final

from . import kernel, namespaces
from .assembly import ANONYMOUS, EXECUTE, FIXED, NOREPLACE, PRIVATE, READ, WRITE, Assembly, function_at, map_at
from .kernel import Call
from .sealed import Order, Slot

_LOOP_AT: Final = 0x40000
_LOOP_BYTES: Final = 0x2000
_ENTRY_AT: Final = 0x50000
_ENTRY_BYTES: Final = 0x10000
_CONTEXT_AT: Final = _ENTRY_AT + _ENTRY_BYTES
_SCRATCH_AT: Final = _CONTEXT_AT + 2048
_TEXT_AT: Final = _CONTEXT_AT + 0x1000
_TEXT_BYTES: Final = 0x11000
_END: Final = _TEXT_AT + _TEXT_BYTES
_UNMAPPED: Final = 69
_CLONE_FILES, _CLONE_PARENT, _SIGCHLD = 0x400, 0x8000, 17


class Launcher:
    """The machine code of the launcher's loop."""

    def __init__(self, shift: int) -> None:
        """Args:
        shift: What is added to the numbers of descriptors: 0 or `BIRTHS`.

        Raises:
            KernelRefused: There is no such memory to be had.
        """
        it = self._assembly = Assembly(code_at=_LOOP_AT, size=_LOOP_BYTES, context_at=_CONTEXT_AT)
        it.label("start")
        it.save()
        it.move("r9", "rdi")
        it.system_call("clone", (_CLONE_FILES | _SIGCHLD, 0, 0, 0, 0), checked=False)
        it.emit("48 85 c0")  # test rax, rax
        it.jump("loops", "0f 84")  # je
        it.emit("c3")  # ret
        it.label("loops")
        it.move("r12", "r9")
        it.die_with_parent()
        it.label("loop")
        it.system_call("read", ("r12", _SCRATCH_AT, 8))
        it.system_call("recvfrom", (Slot.TEXT + shift, _TEXT_AT, _TEXT_BYTES, 0, 0, 0))
        it.system_call("lseek", (Slot.USER + shift, 0, os.SEEK_CUR))
        it.move("r13", "rax")
        it.system_call("lseek", (Slot.FLAGS + shift, 0, os.SEEK_CUR))
        it.move("r15", "rax")
        it.system_call("lseek", (Slot.ORDER + shift, 0, os.SEEK_CUR))
        it.emit("48 3d", struct.pack("<i", Order.LAUNCH_SHARING))  # cmp rax, order
        it.jump("clone", "0f 84")  # je
        it.system_call("setns", (Slot.NETWORK + shift, namespaces.NEWNET))
        it.label("clone")
        it.system_call("clone", ("r15", 0, 0, 0, 0), checked=False)
        it.emit("48 85 c0")  # test rax, rax
        it.jump("made", "0f 85")  # jne
        where = _ENTRY_AT, _ENTRY_BYTES, READ | EXECUTE, PRIVATE | FIXED, Slot.PROGRAM + shift, 0
        it.system_call("mmap", where, checked=False)
        it.emit("48 85 c0")  # test rax, rax
        it.jump("unmapped", "0f 88")  # js
        it.set("rax", _ENTRY_AT)
        it.emit("ff e0")  # jmp rax
        it.label("unmapped")  # in a new process: a number of these steps would be taken for one of its own
        it.system_call("exit_group", (_UNMAPPED,), checked=False)
        it.label("made")
        it.move("rsi", "rax")
        it.jump("refused", "0f 88")  # js
        it.system_call("lseek", (Slot.RESULT + shift, "rsi", os.SEEK_SET))
        it.jump("told")
        it.label("refused")
        it.emit("48 f7 de")  # neg rsi
        it.system_call("lseek", (Slot.ERROR + shift, "rsi", os.SEEK_SET))
        it.label("told")
        it.system_call("write", (Slot.DONE + shift, struct.pack("=Q", 1), 8))
        it.jump("loop")
        it.end_failed(Slot.ERROR + shift)
        self._descriptor = it.sealed()
        # Who is launched goes on in `start`, and has these made already: to make one writes to its type.
        self._start = function_at(it.address("start"))
        self._text = (ctypes.c_char * _TEXT_BYTES).from_address(_TEXT_AT)
        self._unmap = kernel.Prepared("munmap", _LOOP_AT, _END - _LOOP_AT)

    def start(self, wake: int) -> tuple[int, str]:
        """Make the launcher, which stays as this process is now. In the caller the result is its process id.

        This returns once more in each process that the launcher makes: 0, and the order.

        Args:
            wake: An eventfd that tells of an order.

        Raises:
            KernelRefused: There is none.
        """
        map_at(_LOOP_AT, _LOOP_BYTES, READ | EXECUTE, PRIVATE | NOREPLACE, self._descriptor)
        map_at(_CONTEXT_AT, _END - _CONTEXT_AT, READ | WRITE, PRIVATE | ANONYMOUS | NOREPLACE, -1)
        pid = self._start(wake)
        order = "" if pid else self._text.value.decode()
        self._unmap()  # behind this order may be the end of another one's
        if pid < 0:
            raise kernel.KernelRefused(-pid, f"clone: {os.strerror(-pid)}")
        return pid, order


class Entry:
    """The machine code by which a new worker enters the jail, and then comes back to Python.

    Attributes:
        descriptor: For `Slot.PROGRAM`.
        flags: For `Slot.FLAGS`.
    """

    def __init__(self, calls: Sequence[Call], *, flags: int, shift: int) -> None:
        """Args:
        flags: Of clone(2): namespaces, and what is shared.

        Raises:
            KernelRefused: There is no such memory to be had.
        """
        self.flags = flags | _CLONE_PARENT | _SIGCHLD
        self._assembly = Assembly(code_at=_ENTRY_AT, size=_ENTRY_BYTES, context_at=_CONTEXT_AT)
        for call in calls:
            self._assembly.recorded(call)
        self._assembly.leave(0)
        self._assembly.end_failed(Slot.ERROR + shift)
        self.descriptor = self._assembly.sealed()

    def close(self) -> None:
        """Give the file back; mappings of it stay."""
        os.close(self.descriptor)

    def failure(self, step: int, error: int) -> str:
        """What a worker's end with this step's number means, and the errno that it left; 0 for none."""
        steps = self._assembly.steps
        name = steps[step] if step < len(steps) else f"call {step}"
        return f"{name}: {os.strerror(error)}" if error else name


def as_text(order: bytes) -> bytes:
    """An order as the launcher takes it.

    Raises:
        OSError: It is too long.
    """
    if len(order) >= _TEXT_BYTES:
        raise OSError(f"an order of {len(order)} bytes is too long")
    return order + b"\0"
