"""Keeps DuckDB from aborting where it may not read the limits of its control group.

DuckDB 2.0 looks for /proc/self/cgroup and, if that is there, ends the process when it cannot be opened. Behind Landlock
alone the guest sees the host's /proc and may open nothing in it. So the name in the loaded library is replaced by one
that does not exist; the library then does what it does on a kernel without control groups.
Python programs that a guest starts by exec load a library of their own, which is not changed.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
from typing import Any, Final

from .after_import import after_import

_LOOKED_FOR: Final = b"/proc/self/cgroup\0"
_ABSENT: Final = b"/proc/self/no-one\0"
_LOADED: Final = 1
"""PT_LOAD, a part of the file that is mapped."""


def install() -> None:
    """Change the library when it is imported."""
    after_import("_duckdb", _adapt)


class _Symbol(ctypes.Structure):
    """What dladdr(3) says about an address: `base` is where its library begins."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def _adapt(module: Any) -> None:
    libc = ctypes.CDLL(None)
    symbol = _Symbol()
    if not libc.dladdr(ctypes.CDLL(module.__file__).PyInit__duckdb, ctypes.byref(symbol)):
        return
    with open(module.__file__, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        at = content.find(_LOOKED_FOR)
        while at >= 0:
            _replace(libc, int(symbol.base), content, at)
            at = content.find(_LOOKED_FOR, at + 1)


def _replace(libc: ctypes.CDLL, base: int, content: mmap.mmap, at: int) -> None:
    """Write the other name to where the byte `at` of a library lies in memory, as its ELF header says; see elf(5)."""
    headers_at, size, count = *struct.unpack_from("<Q", content, 32), *struct.unpack_from("<HH", content, 54)
    for number in range(count):
        kind, flags, offset, address, _, file_size = struct.unpack_from("<IIQQQQ", content, headers_at + number * size)
        if kind == _LOADED and offset <= at and at + len(_ABSENT) <= offset + file_size:
            place = base + address + at - offset
            begin = place // mmap.PAGESIZE * mmap.PAGESIZE
            pages = ctypes.c_void_p(begin), ctypes.c_size_t(place + len(_ABSENT) - begin)
            if libc.mprotect(*pages, mmap.PROT_READ | mmap.PROT_WRITE) == 0:
                ctypes.memmove(place, _ABSENT, len(_ABSENT))
                rights = ((4, mmap.PROT_READ), (2, mmap.PROT_WRITE), (1, mmap.PROT_EXEC))
                libc.mprotect(*pages, sum(right for flag, right in rights if flags & flag))
