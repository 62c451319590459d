"""How many mappings a template's memory consists of: a fork copies each, and the end of a copy drops each.

A library takes five: its headers and constants, its code, more constants, what is closed after relocation (RELRO),
its data; and what begins as zeros (bss) is a sixth. Two are left of them: all that is read or executed, as the file's
own, and all that is written, as it is when the template is ready, in a file in memory that nobody can write to.
Nothing of this is a wall: what runs here may map what it likes. Failing costs speed only.
"""

import contextlib
import ctypes
import fcntl
import os
import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from groundbox.jail.assembly import ANONYMOUS, EXECUTE, PRIVATE, READ, WRITE

PRIVATE_ANONYMOUS: Final = PRIVATE | ANONYMOUS
MOVE_TO: Final = 3  # MREMAP_MAYMOVE | MREMAP_FIXED
FAILED: Final = (1 << 64) - 1

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_ELF_64: Final = b"\x7fELF\x02\x01"
_PROGRAM_HEADER: Final = struct.Struct("<IIQQQQQQ")
_LOAD, _WRITABLE = 1, 2
_LARGEST_DATA: Final = 4 << 20
_LARGEST_ZEROS: Final = 1 << 20
_FUTURE_WRITE: Final = 0x10  # F_SEAL_FUTURE_WRITE (fcntl(2), Linux 5.1)
_IN_USE: Final = ("libc.", "libc-", "ld-", "ld.", "libffi", "_ctypes", "libpython")
"""Libraries that write to their data while a copy is made of it and put in its place."""


class Mapping(NamedTuple):
    start: int
    end: int
    permissions: str
    offset: int
    name: str

    @property
    def size(self) -> int:
        return self.end - self.start

    def goes_on_in(self, other: "Mapping") -> bool:
        """Whether the other one is the next part of the same library, in the next place of memory."""
        return (other.name, other.start) == (self.name, self.end)


def all_now() -> Iterator[Mapping]:
    """Every mapping of this process, as they were at the first."""
    with open("/proc/self/maps") as file:
        lines = file.read().splitlines()
    for line in lines:
        addresses, permissions, offset, _, _, *name = line.split(maxsplit=5)
        start, _, end = addresses.partition("-")
        yield Mapping(int(start, 16), int(end, 16), permissions, int(offset, 16), name[0] if name else "")


def words(*numbers: int) -> list[ctypes.c_size_t]:
    """Arguments of a system call as wide as an address."""
    return [ctypes.c_size_t(number) for number in numbers]


def join() -> None:
    """Let each library take two mappings."""
    _join_by_permissions(list(all_now()))
    _join_data(list(all_now()))


def _join_by_permissions(mappings: Sequence[Mapping]) -> None:
    """The kernel joins neighbours of one file that have the same permissions.

    So constants become executable like the code beside them, and what was closed after relocation is writable
    like the data beside it.
    """
    mprotect = ctypes.CDLL(None).mprotect
    for before, mapping, after in zip([None, *mappings], mappings, [*mappings[1:], None], strict=False):
        if mapping.permissions != "r--p" or ".so" not in mapping.name:
            continue
        if after is not None and after.permissions == "rw-p" and mapping.goes_on_in(after):
            mprotect(*words(mapping.start, mapping.size, READ | WRITE))
        elif any(one is not None and one.permissions == "r-xp" and one.name == mapping.name for one in (before, after)):
            mprotect(*words(mapping.start, mapping.size, READ | EXECUTE))


def _join_data(mappings: Sequence[Mapping]) -> None:
    """Put a copy of a library's data, bss included, in its place: in one mapping, and of a file in memory.

    The kernel joins neither data with bss nor what lay in two mappings when a process was forked. Of memory without a
    file, a fork copies an entry for each page; of a file's, it copies nothing until something has been written there.
    """
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    try:
        file = os.memfd_create("groundbox-data", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError:
        return
    with open(file, "rb"), contextlib.suppress(OSError):  # such as no memory for it, or a limit of files' sizes
        for mapping in mappings:
            if mapping.offset or not mapping.permissions.startswith("r") or ".so" not in mapping.name:
                continue
            if os.path.basename(mapping.name).startswith(_IN_USE):
                continue
            for start, end in _data_of(mapping.start):
                if (parts := _parts(mappings, start, end)) > 0:
                    _replace(libc, file, start, end - start, parts)
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | _FUTURE_WRITE)


def _data_of(base: int) -> list[tuple[int, int]]:
    """Where the library that begins at `base` has what it writes to, by its program headers (elf(5)); whole pages."""
    header = ctypes.string_at(base, 64)
    if not header.startswith(_ELF_64):
        return []
    (first,) = struct.unpack_from("<Q", header, 32)
    size, count = struct.unpack_from("<HH", header, 54)
    if size != _PROGRAM_HEADER.size or first + size * count > _PAGE:
        return []
    table = ctypes.string_at(base + first, size * count)
    loads = [row for row in _PROGRAM_HEADER.iter_unpack(table) if row[0] == _LOAD]
    if not loads:
        return []
    moved = base - loads[0][3] // _PAGE * _PAGE
    found: list[tuple[int, int]] = []
    for _, flags, _, address, _, _, in_memory, _ in loads:
        if flags & _WRITABLE:
            start, end = (moved + address) // _PAGE * _PAGE, -(-(moved + address + in_memory) // _PAGE) * _PAGE
            if found and found[-1][1] == start:
                start = found.pop()[0]
            found.append((start, end))
    return [(start, end) for start, end in found if end - start <= _LARGEST_DATA]


def _parts(mappings: Sequence[Mapping], start: int, end: int) -> int:
    """How many mappings make up this range, or 0 where they do not fill it or one of them is closed."""
    parts = [mapping for mapping in mappings if mapping.start < end and start < mapping.end]
    filled = sum(min(part.end, end) - max(part.start, start) for part in parts)
    return len(parts) if filled == end - start and all(part.permissions == "rw-p" for part in parts) else 0


def _replace(libc: ctypes.CDLL, file: int, start: int, size: int, parts: int) -> None:
    """By memory of the same content, in one call, so that it is there at every moment.

    What is mostly zeros becomes memory without a file, where that makes it fewer mappings: a file would hold the zeros.
    """
    content = ctypes.string_at(start, size)
    if 2 * len(content.rstrip(b"\0")) >= size:
        offset = os.fstat(file).st_size
        if os.pwrite(file, content, offset) < size:
            return
        copy = libc.mmap(*words(0, size, READ | WRITE, PRIVATE, file, offset))
    elif parts > 1 and size <= _LARGEST_ZEROS:
        copy = libc.mmap(*words(0, size, READ | WRITE, PRIVATE_ANONYMOUS, FAILED, 0))
        if copy not in (FAILED, None):
            ctypes.memmove(copy, content, size)
    else:
        return
    if copy not in (FAILED, None) and libc.mremap(*words(copy, size, size, MOVE_TO, start)) == -1:
        libc.munmap(*words(copy, size))
