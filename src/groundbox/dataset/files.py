"""Files that appear whole or not at all, and folders in which one process is at work, for one purpose."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final

from groundbox.errors import InvalidArgument

_PIECE_BYTES: Final = 1 << 20
_MOST_UNFILLED_BYTES: Final = 64 << 20
_MOST_SPARSE: Final = 64
"""How much larger a file may be than its blocks on the disk, which file systems compress."""
_MOST_SHOWN: Final = 120


@contextlib.contextmanager
def published(path: Path) -> Iterator[IO[bytes]]:
    """A file to write, which takes its name once all of it is on the disk.

    An error on the way leaves nothing; a process that is killed leaves a `.tmp` behind, which the next one writes over.
    """
    temporary = path.with_name(f"{path.name}.tmp")
    with temporary.open("wb") as file:
        try:
            yield file
            file.flush()
            # Before the renaming: a name that shows up before its data would be an empty file after a loss of power.
            os.fsync(file.fileno())
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    # rename(2) is atomic within one file system; the name lies in the folder, which is synced by itself.
    temporary.replace(path)
    _sync_folder(path.parent)


def publish(path: Path, data: bytes) -> None:
    """Write a whole file."""
    with published(path) as file:
        file.write(data)


class NotRegular(OSError):
    """A file that nobody wrote as a dataset's: a device, a pipe, or a sparse file that is larger than a disk."""


@contextlib.contextmanager
def opened_regular(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that comes from somebody else, for reading.

    Raises:
        NotRegular: Reading it would not end, or takes far longer than copying it.
        OSError: It cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # the open of a pipe waits otherwise
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise NotRegular("it is not a regular file")
        if found.st_size > max(_MOST_UNFILLED_BYTES, _MOST_SPARSE * found.st_blocks * 512):
            raise NotRegular(f"it is a sparse file of {found.st_size} bytes")
        yield file


def digest(path: Path) -> str:
    """SHA-256 of a file's bytes; of a folder, of the names and digests of its Python files."""
    if path.is_dir():
        # With names, so that a file that moved makes another folder.
        parts = [f"{each.relative_to(path)} {digest(each)}" for each in sorted(path.rglob("*.py"))]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()
    found = hashlib.sha256()
    with opened_regular(path) as file:
        while piece := file.read(_PIECE_BYTES):
            found.update(piece)
    return found.hexdigest()


@contextlib.contextmanager
def locked(path: Path, busy: InvalidArgument) -> Iterator[None]:
    """Hold the lock of a file, for this process alone; the kernel gives it back, however the process ends.

    Raises:
        InvalidArgument: `busy`, where another process has it.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        try:
            # flock belongs to the open file and ends with it, also where the process is killed; the file itself stays.
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise busy from None
        yield
    finally:
        os.close(handle)


def check_same(found: Any, wanted: Mapping[str, Any], argument: str, where: str, another: str) -> None:
    """Refuse a place that holds the parts of another build.

    Args:
        found: Its arguments.
        argument: Of ours, that names the place.
        another: What to name instead.

    Raises:
        InvalidArgument: They differ.
    """
    if found != wanted:
        raise InvalidArgument(
            argument,
            f"{where} holds a build with other arguments ({differences(found, wanted)}); "
            f"repeat those to resume it, or name another {another}",
        )


def differences(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Tell which keys differ, with both values as JSON, `_MOST_SHOWN` characters of it."""
    names = sorted(name for name in found.keys() | wanted.keys() if found.get(name, ...) != wanted.get(name, ...))
    return ", ".join(f"{name}: {_shown(found.get(name))} there, {_shown(wanted.get(name))} here" for name in names)


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 3] + "..."


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
