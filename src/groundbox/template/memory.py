"""Making copies cheap: what a template does to its memory so that forking it, and running in the copy, cost little.

Three means, each measured (PERFORMANCE.md): objects that count as immortal (PEP 683) are not written to when they
are used, so their pages stay shared; frozen ones are not visited by the collector; huge pages shrink the
page tables that a fork has to copy, 20 to 40 times per megabyte.
"""

import ctypes
import gc
import sys
import types
from typing import Any, Final

_IMMORTAL: Final = 0xFFFFFFFF
_HUGE: Final = 2 << 20
_ARENA: Final = 1 << 20
_KEPT: Final[list[bytes]] = []
_MADV_HUGEPAGE, _MADV_COLLAPSE = 14, 25


def make_room(heap_bytes: int) -> None:
    """Call first: let the heap that the imports will fill lie in one piece, which huge pages can back.

    The interpreter asks for memory in pieces of 1 MiB wherever the kernel finds room, between the mappings
    of libraries; pieces that do not line up to 2 MiB cannot become huge. Asked for all at once,
    before any library is mapped, they lie side by side. One small object in each keeps them from going back.
    """
    block = 512 - bytes.__basicsize__
    filled = [bytes(block) for _ in range(heap_bytes // 512)]
    _use_huge_pages()
    _KEPT.extend(filled[:: _ARENA // 512 // 4])


def settle() -> None:
    """Call once, as the last thing before the first fork."""
    gc.collect()
    if (3, 12) <= sys.version_info < (3, 14):
        _immortalize()
    gc.freeze()
    _use_huge_pages()


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
        first, last = -(-start // _HUGE) * _HUGE, end // _HUGE * _HUGE
        if last > first:
            madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), _MADV_HUGEPAGE)
            madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), _MADV_COLLAPSE)


def _anonymous_ranges() -> list[tuple[int, int]]:
    ranges = []
    with open("/proc/self/maps") as file:
        for line in file:
            addresses, permissions, _, _, inode, *name = line.split()
            if inode == "0" and permissions == "rw-p" and (not name or name[0] == "[heap]"):
                start, end = addresses.split("-")
                ranges.append((int(start, 16), int(end, 16)))
    return ranges
