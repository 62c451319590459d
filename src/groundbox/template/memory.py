"""Making copies cheap: what a template does to its memory so that forking it, and running in the copy, cost little.

Means, each measured (PERFORMANCE.md): objects that count as immortal (PEP 683) are not written to when they
are used, so their pages stay shared; frozen ones are not visited by the collector; huge pages shrink the
page tables that a fork has to copy, 20 to 40 times per megabyte; the interpreter's own code on huge pages is there
in every copy from the start, where a mapped file would be mapped again, fault by fault; fewer mappings are fewer
to copy and to drop.
Where things lie is layout.py's concern.
"""

import ctypes
import gc
import sys
import types
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

_IMMORTAL: Final = 0xFFFFFFFF
_HUGE: Final = 2 << 20
_MADV_HUGEPAGE, _MADV_COLLAPSE = 14, 25
_READ, _WRITE, _EXECUTE = 1, 2, 4
_PRIVATE_ANONYMOUS: Final = 0x22
_MOVE_TO: Final = 3
_FAILED: Final = (1 << 64) - 1


class _Mapping(NamedTuple):
    start: int
    end: int
    permissions: str
    offset: int
    name: str

    @property
    def size(self) -> int:
        return self.end - self.start

    def goes_on_in(self, other: "_Mapping") -> bool:
        """Whether the other one is the next part of the same file, in the next place of memory."""
        return (other.name, other.start, other.offset) == (self.name, self.end, self.offset + self.size)


def settle() -> None:
    """Call once, as the last thing before the first fork."""
    gc.collect()
    if (3, 12) <= sys.version_info < (3, 14):
        _immortalize()
    gc.freeze()
    _use_huge_pages()
    _put_interpreter_on_huge_pages()
    _join_mappings()


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
    """Ask for huge pages below every private anonymous mapping that can hold one. Failing costs speed only."""
    madvise = ctypes.CDLL(None).madvise
    for start, end in _anonymous_ranges():
        first, last = _whole_huge_pages(start, end)
        if last > first:
            madvise(*_words(first, last - first, _MADV_HUGEPAGE))
            madvise(*_words(first, last - first, _MADV_COLLAPSE))


def _anonymous_ranges() -> list[tuple[int, int]]:
    """Neighbours count as one: mappings that differ in nothing but such a request grow together by the next."""
    ranges: list[tuple[int, int]] = []
    for start, end, permissions, _, name in _mappings():
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
    room = libc.mmap(*_words(0, size + _HUGE, _READ | _WRITE, _PRIVATE_ANONYMOUS, -1, 0))
    if room == _FAILED:
        return
    copy, _ = _whole_huge_pages(room, room)
    libc.madvise(*_words(copy, size, _MADV_HUGEPAGE))
    ctypes.memmove(copy, first, size)
    usable = libc.madvise(*_words(copy, size, _MADV_COLLAPSE)) == 0
    if usable and libc.mprotect(*_words(copy, size, _READ | _EXECUTE)) == 0:
        libc.mremap(*_words(copy, size, size, _MOVE_TO, first))
    libc.munmap(*_words(room, size + _HUGE))


def _interpreter_range() -> tuple[int, int]:
    """The mappings of the interpreter's file that cannot be written to and lie side by side: code and constants."""
    inside = ctypes.cast(ctypes.pythonapi.Py_IsInitialized, ctypes.c_void_p).value or 0
    first = last = 0
    file = ""
    for start, end, permissions, _, name in _mappings():
        if permissions not in ("r--p", "r-xp") or (name, start) != (file, last):
            if first <= inside < last:
                break
            first, file = start, name
        last = end if permissions in ("r--p", "r-xp") else start
    return (first, last) if first <= inside < last else (0, 0)


def _join_mappings() -> None:
    """Let each library take two mappings in place of five: a fork copies mappings one by one, and an end drops them so.

    The kernel joins neighbours of one file that have the same permissions, so constants become executable like the code
    beside them, and what was closed after relocation (RELRO) is writable like the data beside it. That is no wall:
    what runs here may map what it likes. Failing costs speed only.
    """
    mprotect = ctypes.CDLL(None).mprotect
    mappings = list(_mappings())
    for before, mapping, after in zip([None, *mappings], mappings, [*mappings[1:], None], strict=False):
        if mapping.permissions != "r--p" or ".so" not in mapping.name:
            continue
        if after is not None and after.permissions == "rw-p" and mapping.goes_on_in(after):
            mprotect(*_words(mapping.start, mapping.size, _READ | _WRITE))
        elif any(one is not None and one.permissions == "r-xp" and one.name == mapping.name for one in (before, after)):
            mprotect(*_words(mapping.start, mapping.size, _READ | _EXECUTE))


def _whole_huge_pages(start: int, end: int) -> tuple[int, int]:
    return -(-start // _HUGE) * _HUGE, end // _HUGE * _HUGE


def _mappings() -> Iterator[_Mapping]:
    """Every mapping of this process, as they were at the first."""
    with open("/proc/self/maps") as file:
        lines = file.read().splitlines()
    for line in lines:
        addresses, permissions, offset, _, _, *name = line.split(maxsplit=5)
        start, _, end = addresses.partition("-")
        yield _Mapping(int(start, 16), int(end, 16), permissions, int(offset, 16), name[0] if name else "")


def _words(*numbers: int) -> list[ctypes.c_size_t]:
    return [ctypes.c_size_t(number) for number in numbers]
