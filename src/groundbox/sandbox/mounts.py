"""Files of the host that a sandbox sees in place, read-only: which files a caller names by `mounts`, and may name.

Each regular file is mounted by itself at `/inputs/NAME`; a folder is walked when the sandbox is made, and its files are
mounted one by one. So nothing of a folder is seen but files that were looked at: no socket or device that lies there or
comes to lie there later, no link, and no other file system that is mounted in it. The starter of a template opens each
path again and mounts it only if it is the same file (jail/rootfs.py).
"""

from __future__ import annotations

import ctypes
import os
import re
import stat
from collections.abc import Iterator, Mapping
from typing import Any, Final

from groundbox.errors import InvalidArgument

MOST_FILES: Final = 256
"""Each takes a mount, and every worker has a copy of the table of mounts."""
_MOST_PATH_CHARS: Final = 48 * 1024
"""Of all paths and places: the order for a template is one packet."""
_MOST_DEPTH: Final = 32
_NAME: Final = re.compile(r"[^/\0-\x1f\x7f]{1,200}")
_KERNELS: Final = frozenset(
    {
        *(0x9FA0, 0x62656572, 0x1CD1, 0x27E0EB, 0x63677270, 0x73636673, 0x64626720, 0x74726163, 0xCAFE4A11, 0x62656570),
        *(0xDE5E81E4, 0x6E736673, 0x19800202, 0x6165676C, 0x42494E4D, 0xF97CFF8C, 0x43415D53, 0x65735543, 0x50495045),
        *(0x534F434B, 0x09041934, 0x958458F6),
    }
)
"""Magic numbers of file systems that hold no data but the kernel's state: statfs(2), linux/magic.h."""

Mount = tuple[str, str, int, int]
"""Path on the host, place below /inputs, device and inode."""


def checked_mounts(value: Any, *, is_root: bool) -> tuple[Mount, ...]:
    """Return the files of an argument `mounts`, each with its place and its identity; () for None.

    Args:
        is_root: Whether guests have a user id of their own, which must be allowed to read the files.

    Raises:
        InvalidArgument: A name or a path cannot be mounted; nothing was started.
    """
    if value is None:
        return ()
    if not isinstance(value, Mapping):
        raise _refused(f"must map names to paths, such as {{'data': '/srv/data'}}, not {type(value).__name__}")
    found: list[Mount] = []
    size = 0
    for name, path in value.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name in (".", ".."):
            shown = repr(name)[:80] if isinstance(name, str) else f"of type {type(name).__name__}"
            raise _refused(f"has the name {shown}; a name is one part of a path, without '/'")
        if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
            raise _refused(f"{name!r} must be a path, not {type(path).__name__}")
        for each in _files(_real_path(os.fspath(path), name), name, is_root=is_root):
            found.append(each)
            size += len(each[0]) + len(each[1])
            if len(found) > MOST_FILES or size > _MOST_PATH_CHARS:
                most = f"{MOST_FILES} files, or {_MOST_PATH_CHARS} characters of their paths"
                raise _refused(f"{os.fspath(path)!r} takes them to more than {most}; mount a part of it, or an archive")
    return tuple(found)


def _real_path(path: str, name: str) -> str:
    """Return the path that a caller named, without links; refuse what can name no file, or cannot be sent on."""
    if not path:
        raise _refused(f"{name!r} has an empty path")
    if "\0" in path:
        raise _refused(f"{path!r} holds a NUL byte; no file can be named so")
    real = os.path.realpath(path)
    try:
        (real + name).encode()
    except UnicodeEncodeError:
        raise _refused(f"{path!r} at {name!r} is not UTF-8; rename it") from None
    return real


def _opened(path: str, flags: int, shown: str, folder: int | None = None) -> int:
    try:
        return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=folder)
    except OSError as error:
        raise _refused(f"{shown!r} cannot be opened by you: {error.strerror}") from None


def _files(path: str, name: str, *, is_root: bool) -> Iterator[Mount]:
    descriptor = _opened(path, os.O_PATH, path)
    try:
        kind = os.fstat(descriptor).st_mode
    finally:
        os.close(descriptor)
    if stat.S_ISDIR(kind):
        folder = _opened(path, os.O_RDONLY | os.O_DIRECTORY, path)
        try:
            yield from _in_folder(folder, path, name, _MOST_DEPTH, is_root=is_root)
        finally:
            os.close(folder)
    elif stat.S_ISREG(kind):
        yield _file(path, name, None, path, is_root=is_root)
    else:
        raise _refused(f"{path!r} is neither a regular file nor a folder")


def _in_folder(folder: int, path: str, name: str, depth: int, *, is_root: bool) -> Iterator[Mount]:
    """Yield the regular files of a folder and below, without links, special files and other file systems."""
    if depth == 0:
        raise _refused(f"{path!r} is more than {_MOST_DEPTH} folders deep; mount a part of it")
    _check_file_system(folder, path)
    device = os.fstat(folder).st_dev
    for entry in sorted(os.listdir(folder)):
        try:
            entry.encode()
            found = os.stat(entry, dir_fd=folder, follow_symlinks=False)
        except UnicodeEncodeError:
            raise _refused(f"{path!r} has a file whose name is not UTF-8; rename it") from None
        except FileNotFoundError:
            continue
        except OSError as error:
            raise _refused(f"{path!r} cannot be searched by you: {error.strerror}") from None
        inside, place = os.path.join(path, entry), f"{name}/{entry}"
        if stat.S_ISREG(found.st_mode):
            yield _file(entry, place, folder, inside, is_root=is_root)
        elif stat.S_ISDIR(found.st_mode) and found.st_dev == device:
            below = _opened(entry, os.O_RDONLY | os.O_DIRECTORY, inside, folder)
            try:
                yield from _in_folder(below, inside, place, depth - 1, is_root=is_root)
            finally:
                os.close(below)


def _file(path: str, place: str, folder: int | None, shown: str, *, is_root: bool) -> Mount:
    """Look at one file by opening it, as the caller: what the caller cannot read, its guests do not see."""
    descriptor = _opened(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY, shown, folder)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _refused(f"{shown!r} is not a regular file")
        _check_file_system(descriptor, shown)
        if is_root and not found.st_mode & stat.S_IROTH:
            raise _refused(
                f"{shown!r} has mode {stat.S_IMODE(found.st_mode):04o}, which the guest's own user id cannot read; "
                "make it readable for others (chmod o+r), or copy it into the workdir"
            )
        return shown, place, found.st_dev, found.st_ino
    finally:
        os.close(descriptor)


def _check_file_system(descriptor: int, shown: str) -> None:
    kind = _file_system(descriptor)
    if kind in _KERNELS:
        raise _refused(f"{shown!r} is the kernel's own, as everything in /proc and /sys is; mount files with data")


def _file_system(descriptor: int) -> int:
    """Return the magic number of the file system that an open file is on."""
    buffer = (ctypes.c_long * 64)()
    if ctypes.CDLL(None, use_errno=True).fstatfs(descriptor, buffer) != 0:
        raise OSError(ctypes.get_errno(), "fstatfs")
    return buffer[0] & 0xFFFFFFFF


def _refused(problem: str) -> InvalidArgument:
    return InvalidArgument("mounts", problem)
