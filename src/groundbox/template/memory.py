"""Making copies cheap: what a template does to its memory so that forking it, and running in the copy, cost little.

Means, each measured (PERFORMANCE.md): objects that count as immortal (PEP 683) are not written to when they
are used, so their pages stay shared; frozen ones are not visited by the collector; huge pages shrink the
page tables that a fork has to copy, 20 to 40 times per megabyte; the interpreter's own code on huge pages is there
in every copy from the start, where a mapped file would be mapped again, fault by fault.
How many mappings there are is mappings.py's concern, where things lie layout.py's.
"""

import ctypes
import gc
import sys
import types
from typing import Any, Final

from groundbox.jail.assembly import EXECUTE, READ, WRITE

from . import layout, renewing
from .mappings import FAILED, MOVE_TO, PRIVATE_ANONYMOUS, all_now, join, words
from .renewing import HUGE, make_huge

_IMMORTAL: Final = 0xFFFFFFFF
_MADV_HUGEPAGE: Final = 14


def settle() -> None:
    """Call once, as the last thing before the first fork."""
    gc.collect()
    if (3, 12) <= sys.version_info < (3, 14):
        _immortalize()
    gc.freeze()
    layout.start_afresh()
    renewing.renew()
    _use_huge_pages()
    _put_interpreter_on_huge_pages()
    join()


def _immortalize() -> None:
    """Set the reference count of everything reachable to the value that the interpreter leaves alone.

    3.12 and 3.13 keep it in the low 32 bits. Newer ones keep it elsewhere, older ones have none.
    """
    count_of = ctypes.c_uint32.from_address
    frontier: list[Any] = gc.get_objects()
    own = {id(frontier)}
    while frontier:
        mortal = [item for item in frontier if count_of(id(item)).value < 0x80000000 and id(item) not in own]
        for item in mortal:
            count_of(id(item)).value = _IMMORTAL
        frontier = []
        own |= {id(frontier), id(mortal)}
        for start in range(0, len(mortal), 4096):
            frontier.extend(gc.get_referents(*mortal[start : start + 4096]))
        for item in mortal:
            if type(item) is types.CodeType:
                frontier.extend(_parts(item))


def _parts(code: types.CodeType) -> tuple[object, ...]:
    """What a code object holds; the collector does not look into it."""
    return (
        code.co_consts,
        code.co_names,
        code.co_filename,
        code.co_name,
        code.co_qualname,
        code.co_linetable,
        code.co_exceptiontable,
    )


def _use_huge_pages() -> None:
    """Ask for huge pages below every private anonymous mapping that can hold one. Failing costs speed only.

    One at a time: where two mappings meet within one, which the kernel does not join, it would go no further.
    """
    libc = ctypes.CDLL(None)
    for start, end in _anonymous_ranges():
        first, last = _whole_huge_pages(start, end)
        if last > first:
            libc.madvise(*words(first, last - first, _MADV_HUGEPAGE))
        for page in range(first, last, HUGE):
            make_huge(libc, page)


def _anonymous_ranges() -> list[tuple[int, int]]:
    """Neighbours count as one: mappings that differ in nothing but such a request grow together by the next."""
    ranges: list[tuple[int, int]] = []
    for start, end, permissions, _, name in all_now():
        if permissions == "rw-p" and name in ("", "[heap]"):
            if ranges and ranges[-1][1] == start:
                start = ranges.pop()[0]
            ranges.append((start, end))
    return ranges


def _put_interpreter_on_huge_pages() -> None:
    """Replace the interpreter's code and constants by a copy of them, as far as they fill whole huge pages.

    What is constant becomes executable with it, because a huge page has one permission; nothing becomes writable.
    The copy takes the original's place in one call, so that the code that runs meanwhile is always there.
    Profilers from outside no longer find the names of what runs in it. Failing costs speed only.
    """
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    first, last = _whole_huge_pages(*_interpreter_range())
    size = last - first
    if size <= 0:
        return
    room = libc.mmap(*words(0, size + HUGE, READ | WRITE, PRIVATE_ANONYMOUS, -1, 0))
    if room == FAILED:
        return
    copy, _ = _whole_huge_pages(room, room)
    libc.madvise(*words(copy, size, _MADV_HUGEPAGE))
    ctypes.memmove(copy, first, size)
    usable = all(make_huge(libc, page) for page in range(copy, copy + size, HUGE))
    if usable and libc.mprotect(*words(copy, size, READ | EXECUTE)) == 0:
        libc.mremap(*words(copy, size, size, MOVE_TO, first))
    libc.munmap(*words(room, size + HUGE))


def _interpreter_range() -> tuple[int, int]:
    """The mappings of the interpreter's file that cannot be written to and lie side by side: code and constants."""
    inside = ctypes.cast(ctypes.pythonapi.Py_IsInitialized, ctypes.c_void_p).value or 0
    first = last = 0
    file = ""
    for start, end, permissions, _, name in all_now():
        if permissions not in ("r--p", "r-xp") or (name, start) != (file, last):
            if first <= inside < last:
                break
            first, file = start, name
        last = end if permissions in ("r--p", "r-xp") else start
    return (first, last) if first <= inside < last else (0, 0)


def _whole_huge_pages(start: int, end: int) -> tuple[int, int]:
    return -(-start // HUGE) * HUGE, end // HUGE * HUGE
