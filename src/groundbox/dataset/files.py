"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

_PIECE_BYTES: Final = 1 << 20


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
            os.fsync(file.fileno())
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    temporary.replace(path)
    _sync_folder(path.parent)


def publish(path: Path, data: bytes) -> None:
    """Write a whole file."""
    with published(path) as file:
        file.write(data)


def digest(path: Path) -> str:
    """SHA-256 of a file's bytes; of a folder, of the names and digests of its Python files."""
    if path.is_dir():
        parts = [f"{each.relative_to(path)} {digest(each)}" for each in sorted(path.rglob("*.py"))]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()
    found = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE_BYTES):
            found.update(piece)
    return found.hexdigest()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
