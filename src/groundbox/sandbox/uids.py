"""Ranges of host user ids, lent to one template at a time over all groundbox processes of this host.

The ranges lie where no distribution, container manager or directory service hands out ids
(0x70000000 up to 0x7FFFFFFF). A lock file per range says that it is lent; the kernel drops the lock when
the process ends, however it ends.
"""

from __future__ import annotations

import fcntl
import os
from typing import Final

from groundbox.errors import SandboxUnavailable
from groundbox.jail.credentials import RANGE

_FOLDER: Final = "/run/groundbox/uids"
_COUNT: Final = 4094


class UidRange:
    """RANGE ids from `first`, ours until `release`."""

    def __init__(self, first: int, descriptor: int) -> None:
        self.first = first
        self._descriptor = descriptor

    @classmethod
    def lend(cls, start: int) -> UidRange:
        """The lowest range that nobody holds.

        Raises:
            SandboxUnavailable: All are held, or the lock folder cannot be made.
        """
        try:
            os.makedirs(_FOLDER, 0o700, exist_ok=True)
        except OSError as error:
            raise SandboxUnavailable([f"uid: {_FOLDER}: {error.strerror}"]) from None
        for number in range(_COUNT):
            descriptor = os.open(f"{_FOLDER}/{number}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                continue
            return cls(start + number * RANGE, descriptor)
        raise SandboxUnavailable([f"uid: all {_COUNT} ranges of host ids are in use"])

    def release(self) -> None:
        """Give the range back. Idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
