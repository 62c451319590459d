"""Giving a template's heap new mappings, so that all of it can lie on huge pages.

Memory grows in pieces. What is mapped before a fork and after it, the kernel keeps as two mappings for good, and below
the place where they meet there is no huge page; nor at either end of a piece, unless it begins or ends with one.
So each stretch of neighbours is copied into one new mapping, which takes its place, and which goes on to the next
whole huge page where nothing else lies.

What is copied must not be written to until it is replaced. Between the first copy and the last replacement runs
nothing but machine code that does just that (jail/assembly.py), on x86_64; elsewhere nothing is done. Failing costs
speed only.
"""

import contextlib
import ctypes
import os
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from groundbox.jail import kernel
from groundbox.jail.assembly import EXECUTE, NOREPLACE, PRIVATE, READ, WRITE, Assembly, call_at
from groundbox.template.mappings import FAILED, MOVE_TO, PRIVATE_ANONYMOUS, Mapping, all_now, words

HUGE: Final = 2 << 20
_MADV_COLLAPSE: Final = 25
_TRIES: Final = 3
"""Pages that the kernel is about to move between its lists are refused for a moment."""
_PAGE: Final = 4096
_CODE_AT: Final = 0x40000
_CODE_BYTES: Final = 0x20000
_ORDINARY: Final = frozenset(("rd", "wr", "mr", "mw", "me", "ac", "nr", "hg", "sd"))
_PIECE: Final = 1 << 20
"""As much as the interpreter asks for at a time."""
_SMALLEST_BYTES: Final = 256 << 10
"""Of a stretch, and of what lies in its first or last huge page so that the rest of that is worth its memory."""


class _Stretch(NamedTuple):
    start: int
    end: int
    first: int
    last: int
    """Where its new mapping begins and ends."""


@contextlib.contextmanager
def whole_huge_pages() -> Iterator[None]:
    """Let the heap that is asked for meanwhile begin and end with a huge page, so that no library takes part of one.

    The kernel maps one thing below the other. What is left up to the next huge page is taken, and never touched.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    _take_rest_of_huge_page(libc)
    yield
    _take_rest_of_huge_page(libc)


def _take_rest_of_huge_page(libc: ctypes.CDLL) -> None:
    """Where the next piece of the heap would be mapped, up from the huge page's beginning."""
    at = libc.mmap(*words(0, _PIECE, READ | WRITE, PRIVATE_ANONYMOUS, FAILED, 0))
    if at in (FAILED, None):
        return
    libc.munmap(*words(at, _PIECE))
    end = at + _PIECE
    if end % HUGE:
        libc.mmap(*words(end // HUGE * HUGE, end % HUGE, READ | WRITE, PRIVATE_ANONYMOUS | NOREPLACE, FAILED, 0))


def renew() -> None:
    """Call it in a process with one thread, before its first fork that matters.

    Nothing is done where the kernel makes no huge pages on demand (Linux before 6.1, gVisor): what lies on some by luck
    would lose them.
    """
    if kernel.MACHINE != "x86_64":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    try:
        planned = [each for each in _stretches(list(all_now()), _ordinary()) if _reserve(libc, each)]
    except OSError:  # no /proc/PID/smaps in this kernel
        return
    taken = [(each, room) for each in planned if (room := _room(libc, each))]
    made = [_make_huge_where_full(libc, each, room) for each, room in taken]
    if not any(made) or not _replace_all(libc, taken):
        for each, room in taken:
            libc.munmap(*words(room, each.last - each.first))


def _replace_all(libc: ctypes.CDLL, taken: list[tuple[_Stretch, int]]) -> bool:
    """Whether it was tried; then no room is left."""
    try:
        code = _code(taken)
    except OSError:
        return False
    try:
        at = libc.mmap(*words(_CODE_AT, _CODE_BYTES, READ | EXECUTE, PRIVATE | NOREPLACE, code, 0))
        if at != _CODE_AT:
            return False
        is_as_planned = _mapped(taken) == [(each.first, each.last) for each, _ in taken]  # nothing else has come there
        if is_as_planned:
            call_at(_CODE_AT, 0)
        libc.munmap(*words(_CODE_AT, _CODE_BYTES))
        return is_as_planned
    finally:
        os.close(code)


def _ordinary() -> set[int]:
    """Where mappings begin that are nothing special: not wiped in forks, locked, sealed, or the kernel's to drop.

    The generator of random numbers that the C library shares with the kernel (vgetrandom in vDSO, Linux 6.11) rests on
    such properties, which new mappings would not have. See VmFlags in proc_pid_smaps(5).
    """
    found, start = set(), 0
    with open("/proc/self/smaps") as smaps:
        for line in smaps:
            first, *rest = line.split()
            if first == "VmFlags:":
                if _ORDINARY.issuperset(rest):
                    found.add(start)
            elif not first.endswith(":"):
                start = int(first.partition("-")[0], 16)
    return found


def _stretches(mappings: list[Mapping], ordinary: set[int]) -> list[_Stretch]:
    """Neighbours that are private, writable and of no file, with what lies free around them up to whole huge pages."""
    found: list[_Stretch] = []
    for place, mapping in enumerate(mappings):
        if not _is_heap(mapping) or mapping.start not in ordinary:
            continue
        if found and found[-1].end == mapping.start:
            before = found.pop()
        else:
            lowest = mappings[place - 1].end if place else 0
            before = _Stretch(mapping.start, mapping.start, _extended(mapping.start, lowest, -1), mapping.start)
        highest = mappings[place + 1].start if place + 1 < len(mappings) else 0
        last = mapping.end if mapping.name else _extended(mapping.end, highest, 1)  # the heap itself goes on growing
        found.append(_Stretch(before.start, mapping.end, before.first, last))
    return [each for each in found if each.end - each.start >= _SMALLEST_BYTES]


def _extended(edge: int, other: int, direction: int) -> int:
    """The edge, or that of the whole huge page, if that is free up to the `other` mapping and mostly used."""
    whole = edge // HUGE * HUGE if direction < 0 else -(-edge // HUGE) * HUGE
    is_free = other <= whole if direction < 0 else other >= whole
    return whole if is_free and abs(whole - edge) <= HUGE - _SMALLEST_BYTES else edge


def _is_heap(mapping: Mapping) -> bool:
    return mapping.permissions == "rw-p" and mapping.name in ("", "[heap]")


def _reserve(libc: ctypes.CDLL, each: _Stretch) -> bool:
    """Take what is free around it, before somebody else does."""
    for start, end in ((each.first, each.start), (each.end, each.last)):
        if start < end:
            at = libc.mmap(*words(start, end - start, READ | WRITE, PRIVATE_ANONYMOUS | NOREPLACE, FAILED, 0))
            if at != start:
                return False
    return True


def _room(libc: ctypes.CDLL, each: _Stretch) -> int:
    """Memory for a copy, at the same place within a huge page; 0 for none."""
    size = each.last - each.first
    at = libc.mmap(*words(0, size + 2 * HUGE, READ | WRITE, PRIVATE_ANONYMOUS, FAILED, 0))
    if at in (FAILED, None):
        return 0
    room = int(-(-at // HUGE) * HUGE + each.first % HUGE)
    for start, end in ((int(at), room), (room + size, int(at) + size + 2 * HUGE)):  # else the kernel fills them, too
        if start < end:
            libc.munmap(*words(start, end - start))
    return room


def _make_huge_where_full(libc: ctypes.CDLL, each: _Stretch, room: int) -> int:
    """Have huge pages in the room for what fills much of one; how many there are.

    Elsewhere that would be memory for nothing.
    """
    made = 0
    there = ctypes.create_string_buffer(HUGE // _PAGE)
    for block in range(-(-each.first // HUGE) * HUGE, each.last - HUGE + 1, HUGE):
        start, end = max(block, each.start), min(block + HUGE, each.end)
        if libc.mincore(*words(start, end - start), there) == 0:
            count = sum(byte & 1 for byte in there.raw[: (end - start) // _PAGE])
            if count * _PAGE >= _SMALLEST_BYTES:
                at = room + block - each.first
                ctypes.memset(at, 0, 1)  # what is not there at all is not made huge
                made += make_huge(libc, at)
    return made


def make_huge(libc: ctypes.CDLL, at: int) -> bool:
    """Put a huge page below this address, now; whether there is one."""
    return any(libc.madvise(*words(at, HUGE, _MADV_COLLAPSE)) == 0 for _ in range(_TRIES))


def _code(taken: list[tuple[_Stretch, int]]) -> int:
    """A file with a function that copies each page that is not empty, and puts the copies in their place.

    Raises:
        KernelRefused: There is no such memory to be had, or they are too many.
    """
    it = Assembly(code_at=_CODE_AT, size=_CODE_BYTES, context_at=0)
    page_bytes = struct.pack("<I", _PAGE)
    words_of_page = struct.pack("<I", _PAGE // 8)
    for number, (each, room) in enumerate(taken):
        page, empty = f"page {number}", f"empty {number}"
        it.set("r9", each.start)
        it.set("r10", room + each.start - each.first)
        it.set("r8", each.end)
        it.label(page)
        it.move("rdi", "r9")
        it.emit(b"\xb9" + words_of_page, "31 c0", "f3 48 af")  # mov ecx, 512; xor eax, eax; repe scasq
        it.jump(empty, "0f 84")  # je
        it.move("rsi", "r9")
        it.move("rdi", "r10")
        it.emit(b"\xb9" + words_of_page, "f3 48 a5")  # mov ecx, 512; rep movsq
        it.label(empty)
        it.emit(b"\x49\x81\xc1" + page_bytes, b"\x49\x81\xc2" + page_bytes)  # add r9, 4096; add r10, 4096
        it.emit("4d 39 c1")  # cmp r9, r8
        it.jump(page, "0f 82")  # jb
        size = each.last - each.first
        it.system_call("mremap", (room, size, size, MOVE_TO, each.first), checked=False)
        it.emit("48 85 c0")  # test rax, rax
        it.jump(f"moved {number}", "0f 89")  # jns
        it.system_call("munmap", (room, size), checked=False)
        it.label(f"moved {number}")
    it.emit("31 c0 c3")  # xor eax, eax; ret
    return it.sealed()


def _mapped(taken: list[tuple[_Stretch, int]]) -> list[tuple[int, int]]:
    """Those ranges that are filled with memory of this kind, and with nothing else."""
    mappings = [mapping for mapping in all_now() if _is_heap(mapping)]
    found = []
    for each, _ in taken:
        parts = [mapping for mapping in mappings if mapping.start < each.last and each.first < mapping.end]
        filled = sum(min(part.end, each.last) - max(part.start, each.first) for part in parts)
        if filled == each.last - each.first:
            found.append((each.first, each.last))
    return found
