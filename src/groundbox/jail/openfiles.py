"""Files that are read again and again, kept open: opening one of a control group costs more than reading it."""

import os
from typing import ClassVar, Final

_MOST_KEEPERS: Final = 64
"""A thousand sandboxes at once must not take ten thousand descriptors."""


class OpenFiles:
    """Owns the descriptors; they are closed when nobody has this object any more."""

    _living: ClassVar[int] = 0

    def __init__(self) -> None:
        self._descriptors: dict[str, int] = {}
        OpenFiles._living += 1

    @classmethod
    def one_more(cls) -> "OpenFiles | None":
        """None when enough of these live already."""
        return cls() if cls._living < _MOST_KEEPERS else None

    def descriptor(self, path: str, flags: int) -> int:
        """That of `path`, opened at the first use; it stays ours."""
        found = self._descriptors.get(path)
        if found is None:
            found = self._descriptors[path] = os.open(path, flags | os.O_CLOEXEC)
        return found

    def __del__(self) -> None:
        OpenFiles._living -= 1
        for descriptor in self._descriptors.values():
            os.close(descriptor)
