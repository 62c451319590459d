"""Files put into the workdir, written by the guest itself: the host never writes where a guest can shape paths."""

import os
import shutil
from typing import Any

_CHUNK = 1 << 20


class Files:
    """Orders on files, each answered with `{"ok": …}` and, when not ok, the reason in words."""

    def __init__(self, workdir: str) -> None:
        self._workdir = workdir

    def put(self, order: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """Write the file whose bytes are behind the first descriptor; folders above it are made."""
        target = os.path.join(self._workdir, order["path"])
        try:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            file = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, order["mode"])
            try:
                _copy(descriptors[0], file, order["size"])
            finally:
                os.close(file)
            os.chmod(target, order["mode"])
        except OSError as error:
            return {"ok": False, "reason": error.strerror or str(error)}
        return {"ok": True}

    def mkdir(self, order: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """Make a folder and those above it; one that is there already is fine."""
        try:
            os.makedirs(os.path.join(self._workdir, order["path"]), exist_ok=True)
        except OSError as error:
            return {"ok": False, "reason": error.strerror or str(error)}
        return {"ok": True}

    def remove(self, order: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """Remove a file, or a folder with all that is in it."""
        target = os.path.join(self._workdir, order["path"])
        try:
            if os.path.isdir(target) and not os.path.islink(target):
                shutil.rmtree(target)
            else:
                os.unlink(target)
        except OSError as error:
            return {"ok": False, "reason": error.strerror or str(error)}
        return {"ok": True}


def _copy(source: int, target: int, size: int) -> None:
    offset = 0
    while offset < size:
        sent = os.sendfile(target, source, offset, min(_CHUNK, size - offset))
        if sent == 0:
            return
        offset += sent
