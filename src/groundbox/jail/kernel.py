"""Calling the kernel directly: system calls that the standard library has no function for.

`PyDLL` keeps the interpreter lock during a call. That is cheaper, and right here:
a template has one thread, and none of these calls waits for anything.
"""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

from .syscalls import NUMBERS

MACHINE: Final = os.uname().machine
_LIBC: Final = ctypes.PyDLL(None, use_errno=True)
_SYSCALL = _LIBC.syscall
_SYSCALL.restype = ctypes.c_long
_NUMBERS: Final = NUMBERS.get(MACHINE, {})
_AT_FDCWD: Final = -100
_NOFOLLOW: Final = 0x100


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


def mkdir(path: str, mode: int) -> None:
    """`mkdir(2)`. Like the next ones a direct call, so that `rehearsal` covers it."""
    call("mkdirat", _AT_FDCWD, _path(path), mode)


def chown(path: str, uid: int) -> None:
    """`lchown(2)`; the group stays."""
    call("fchownat", _AT_FDCWD, _path(path), uid, -1, _NOFOLLOW)


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


def refuse(what: str) -> NoReturn:
    """Raise KernelRefused for the errno of the call just made."""
    code = ctypes.get_errno()
    raise KernelRefused(code, f"{what}: {os.strerror(code)}")


def _renamed(error: KernelRefused, what: str) -> KernelRefused:
    code = error.errno or 0
    return KernelRefused(code, f"{what}: {os.strerror(code)}")


def _path(text: str | None) -> bytes | None:
    return None if text is None else os.fsencode(text)
