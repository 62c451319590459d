"""Files of the guest, handled by the guest itself: the host never writes where a guest can shape paths.

Paths are taken from the workdir, also when they are absolute ones, and links are followed as the programs follow them.
"""

import errno
import os
import shutil
import stat
from typing import Any

_CHUNK = 1 << 20
_MOST_ENTRIES = 10_000


class Files:
    """Orders on files, each answered with `{"ok": …}` and, when not ok, the reason in words and the kernel's number."""

    def __init__(self, workdir: str) -> None:
        self._workdir = workdir

    def put(self, order: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """Write the file whose bytes are behind the first descriptor; folders above it are made."""
        target = self._path(order)
        try:
            _make_folder(os.path.dirname(target))
            mode = order["mode"]
            # Without waiting for the other end of a pipe.
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
            file = os.open(target, flags, 0o644 if mode is None else mode)
            try:
                _copy(descriptors[0], file, order["size"])
            finally:
                os.close(file)
            if mode is not None:
                os.chmod(target, mode)
        except OSError as error:
            return refused(error)
        return {"ok": True}

    def mkdir(self, order: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """Make a folder and those above it; one that is there already is fine."""
        try:
            os.makedirs(self._path(order), exist_ok=True)
        except OSError as error:
            return refused(error)
        return {"ok": True}

    def remove(self, order: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """Remove a file, or a folder with all that is in it."""
        target = self._path(order)
        try:
            if os.path.isdir(target) and not os.path.islink(target):
                shutil.rmtree(target)
            else:
                os.unlink(target)
        except OSError as error:
            return refused(error)
        return {"ok": True}

    def get(self, order: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """Copy a regular file into the one behind the first descriptor."""
        try:
            # Without waiting for the other end of a pipe.
            file = os.open(self._path(order), os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
            try:
                found = os.fstat(file)
                if stat.S_ISDIR(found.st_mode):
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
                if not stat.S_ISREG(found.st_mode):
                    raise OSError(errno.EINVAL, "is not a regular file")
                if found.st_size > order["most_bytes"]:
                    raise OSError(errno.EFBIG, f"is larger than {order['most_bytes']} bytes")
                _copy_all(file, descriptors[0], order["most_bytes"])
            finally:
                os.close(file)
        except OSError as error:
            return refused(error)
        return {"ok": True}

    def stat(self, order: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """What one path leads to."""
        try:
            found = os.stat(self._path(order))
        except OSError as error:
            return refused(error)
        return {"ok": True, "value": {"entries": [_entry(os.path.basename(order["path"]), found)]}}

    def scan(self, order: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """What is in a folder. A link that leads nowhere is told as a link."""
        found: list[dict[str, Any]] = []
        left_out = 0
        try:
            with os.scandir(self._path(order)) as entries:
                for entry in entries:
                    if len(found) == _MOST_ENTRIES:
                        left_out += 1
                        continue
                    try:
                        status = entry.stat()
                    except OSError:
                        status = entry.stat(follow_symlinks=False)
                    found.append(_entry(entry.name, status))
        except OSError as error:
            return refused(error)
        return {"ok": True, "value": {"entries": found, "left_out": left_out}}

    def realpath(self, order: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """Where a path leads, with every link on the way followed; what is missing stays as it is written."""
        try:
            return {"ok": True, "value": {"path": _text(os.path.realpath(self._path(order)))}}
        except OSError as error:
            return refused(error)

    def _path(self, order: dict[str, Any]) -> str:
        return os.path.join(self._workdir, str(order["path"]))


def refused(error: OSError) -> dict[str, Any]:
    """The answer to an order that the kernel refused."""
    return {"ok": False, "reason": error.strerror or str(error), "value": {"errno": error.errno}}


def _make_folder(path: str) -> None:
    try:
        os.makedirs(path, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)) from None


def _entry(name: str, found: os.stat_result) -> dict[str, Any]:
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
    return {
        "name": _text(name),
        "kind": kinds.get(stat.S_IFMT(found.st_mode), "other"),
        "size_bytes": found.st_size,
        "mode": stat.S_IMODE(found.st_mode),
        "modified_s": found.st_mtime,
    }


def _text(name: str) -> str:
    """A name as JSON can carry it."""
    return os.fsencode(name).decode("utf-8", "replace")


def _copy_all(source: int, target: int, most_bytes: int) -> None:
    """Until there is no more, because files of the kernel do not tell how long they are."""
    while most_bytes > 0 and (data := os.read(source, min(_CHUNK, most_bytes))):
        most_bytes -= len(data)
        view = memoryview(data)
        while view:
            view = view[os.write(target, view) :]


def _copy(source: int, target: int, size: int) -> None:
    offset = 0
    while offset < size:
        sent = os.sendfile(target, source, offset, min(_CHUNK, size - offset))
        if sent == 0:
            return
        offset += sent
