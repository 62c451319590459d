"""The file of a script, which lies in the current folder while the script runs, if the script can need it.

A script is handed over as text, and most have no use for a file. Those that read `__file__`, start themselves again or
start processes by spawn or forkserver, which read the program again, find it under the name that Python would have.
If something else has that name, the file gets another one, which `__file__` and `sys.argv[0]` then have.
"""

import os
import re
from typing import Any

from .command import create_file, has_bytes

_USES = re.compile(
    r"__file__|argv|multiprocess|concurrent|ProcessPool|joblib|loky|n_jobs|spawn|forkserver|runpy|getsourcefile|getfile"
)
_IMPORTED = re.compile(r"^\s*(?:from|import)\s+(\w+)", re.MULTILINE)
_MOST_NAMES = 100


class ProgramFile:
    """That of one script. `file` of the order becomes its name, also if there is no file."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._made: tuple[str, tuple[int, int]] | None = None
        order["file"] = order["filename"]
        if _is_used(order["source"], order["filename"]):
            try:
                self._write(order)
            except OSError:  # no room, or no folder; a script that reads it hears so itself
                return

    def remove(self) -> None:
        """Remove the file, unless the program has put something else in its place."""
        if self._made is None:
            return
        path, identity = self._made
        try:
            found = os.lstat(path)
            if (found.st_dev, found.st_ino) == identity:
                os.unlink(path)
        except OSError:
            return

    def _write(self, order: dict[str, Any]) -> None:
        stem, extension = os.path.splitext(order["filename"])
        data = order["source"].encode("utf-8", "surrogatepass")
        for number in range(_MOST_NAMES):
            name = f"{stem}_{number}{extension}" if number else order["filename"]
            try:
                identity = create_file(name, data)
            except FileExistsError:
                if has_bytes(name, data):
                    order["file"] = name
                    return
                continue
            order["file"] = name
            self._made = os.path.abspath(name), identity
            return


def _is_used(source: str, filename: str) -> bool:
    stem = os.path.splitext(os.path.basename(filename))[0]
    return _USES.search(source) is not None or filename in source or stem in _IMPORTED.findall(source)
