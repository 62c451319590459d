"""Calling the kernel directly: system calls that the standard library has no function for.

`PyDLL` keeps the interpreter lock during a call. That is cheaper, and right here:
a template has one thread, and none of these calls waits for anything.
"""

import ctypes
import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, NoReturn

from .syscalls import NUMBERS

MACHINE: Final = os.uname().machine
_LIBC: Final = ctypes.PyDLL(None, use_errno=True)
_SYSCALL = _LIBC.syscall
_SYSCALL.restype = ctypes.c_long
_NUMBERS: Final = NUMBERS.get(MACHINE, {})
_AT_FDCWD: Final = -100
_NOFOLLOW: Final = 0x100
_PATH: Final = os.O_PATH | os.O_CLOEXEC
_MAKES_A_DESCRIPTOR: Final = ("openat", "landlock_create_ruleset")


class KernelRefused(OSError):
    """A system call failed; the message names it and what it was asked for."""


def numbers() -> dict[str, int]:
    """System call numbers of this machine.

    Raises:
        KernelRefused: The machine's architecture is not one we have a filter for.
    """
    if not _NUMBERS:
        raise KernelRefused(0, f"no system call table for {MACHINE}")
    return _NUMBERS


def call(name: str, *arguments: Any) -> int:
    """Make one system call and return its result.

    Arguments: ctypes values, bytes, None or int; an int is passed as a machine word.

    Raises:
        KernelRefused: It failed; `errno` is the kernel's.
    """
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result: int = _SYSCALL(ctypes.c_long(_NUMBERS[name]), *words)
    if result < 0:
        refuse(name)
    return result


class Prepared:
    """One system call, whose arguments are ready for it."""

    def __init__(self, name: str, *arguments: int) -> None:
        self._name = name
        self._words = tuple(map(ctypes.c_long, (_NUMBERS[name], *arguments)))

    def __call__(self) -> None:
        """Make it.

        Raises:
            KernelRefused: It failed.
        """
        if _SYSCALL(*self._words) < 0:
            refuse(self._name)


def prctl(what: str, option: int, *arguments: int) -> int:
    """`prctl(2)`; `what` is for the error message."""
    try:
        return call("prctl", option, *(*arguments, 0, 0, 0, 0)[:4])
    except KernelRefused as error:
        raise _renamed(error, f"prctl({what})") from None


def mount(source: str | None, target: str, kind: str | None, flags: int, data: str = "") -> None:
    """`mount(2)`."""
    try:
        call("mount", _path(source), _path(target), _path(kind), flags, _path(data or None))
    except KernelRefused as error:
        raise _renamed(error, f"mount({kind or source or 'flags'} on {target})") from None


def unmount(target: str, flags: int) -> None:
    """`umount2(2)`."""
    call("umount2", _path(target), flags)


def open_nothing() -> int:
    """`open(2)` of /dev/null, for reading and writing."""
    return call("openat", _AT_FDCWD, b"/dev/null", os.O_RDWR | os.O_CLOEXEC, 0)


def open_to_write(path: str) -> int:
    """`open(2)` of a file that is there, for writing."""
    return call("openat", _AT_FDCWD, _path(path), os.O_WRONLY | os.O_CLOEXEC, 0)


def duplicate(descriptor: int, number: int) -> None:
    """`dup3(2)`: let a number be the same open file; what is executed has it, too."""
    call("dup3", descriptor, number, 0)


def mkdir(path: str, mode: int) -> None:
    """`mkdir(2)`. Like the next ones a direct call, so that `rehearsal` covers it."""
    call("mkdirat", _AT_FDCWD, _path(path), mode)


def chown(path: str, uid: int, gid: int = -1) -> None:
    """`lchown(2)`; the group stays unless it is told."""
    call("fchownat", _AT_FDCWD, _path(path), uid, gid, _NOFOLLOW)


def open_path(path: str) -> int:
    """`open(2)` with O_PATH: a descriptor that names a file and reads nothing."""
    return call("openat", _AT_FDCWD, _path(path), _PATH, 0)


def chdir(path: str) -> None:
    """`chdir(2)`."""
    call("chdir", _path(path))


def write(descriptor: int, data: bytes) -> None:
    """`write(2)`."""
    call("write", descriptor, data, len(data))


def close(descriptor: int) -> None:
    """`close(2)`."""
    call("close", descriptor)


def close_range(first: int, last: int) -> None:
    """`close_range(2)`, both ends included."""
    call("close_range", first, last, 0)


@contextmanager
def rehearsal() -> Iterator[None]:
    """Within it every `call` answers 0 and does nothing.

    A template goes through a worker's entry a few times like this. The interpreter adapts code to what it
    has seen by writing into it; code that is settled before the fork is not written to, and its pages stay shared.
    """
    global _SYSCALL
    real = _SYSCALL
    _SYSCALL = _LIBC.sched_yield  # takes no notice of arguments and returns 0
    _SYSCALL.restype = ctypes.c_long
    try:
        yield
    finally:
        _SYSCALL = real


class Call(NamedTuple):
    """One system call as it was recorded.

    Attributes:
        slot: Where its result has to be found by later ones, if it is a descriptor.
        step: What it is a part of, for who reads that it failed.
    """

    name: str
    arguments: tuple[int | bytes | None, ...]
    slot: int | None = None
    step: str = ""


@contextmanager
def recording(slots: Sequence[int]) -> Iterator[list[Call]]:
    """Within it every `call` is written down instead of made, and answers 0, or a new slot where it makes a descriptor.

    Args:
        slots: The numbers that descriptors are taken to have, one after the other.

    Raises:
        KernelRefused: More descriptors are made than there are numbers.
    """
    global _SYSCALL
    real, names = _SYSCALL, {number: name for name, number in _NUMBERS.items()}
    recorded: list[Call] = []
    free = iter(slots)

    def note(number: ctypes.c_long, *words: Any) -> int:
        name = names[number.value]
        arguments = tuple(word.value if isinstance(word, ctypes.c_long) else word for word in words)
        taken = None
        if name in _MAKES_A_DESCRIPTOR:
            taken = next(free, None)
            if taken is None:
                raise KernelRefused(errno.EMFILE, f"{name}: more than {len(slots)} descriptors")
        recorded.append(Call(name, arguments, taken))
        return taken or 0

    _SYSCALL = note  # type: ignore[assignment]
    try:
        yield recorded
    finally:
        _SYSCALL = real


def refuse(what: str) -> NoReturn:
    """Raise KernelRefused for the errno of the call just made."""
    code = ctypes.get_errno()
    raise KernelRefused(code, f"{what}: {os.strerror(code)}")


def _renamed(error: KernelRefused, what: str) -> KernelRefused:
    code = error.errno or 0
    return KernelRefused(code, f"{what}: {os.strerror(code)}")


def _path(text: str | None) -> bytes | None:
    return None if text is None else os.fsencode(text)
