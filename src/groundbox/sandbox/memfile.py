"""Bytes handed to a guest as a descriptor: an unnamed file in memory that nobody can change any more.

A descriptor of a host file could be reopened for writing through /proc where the guest's host user owns it;
this is a copy that exists nowhere else.
"""

import fcntl
import os


def sealed(data: bytes) -> int:
    """A descriptor, owned by the caller, at offset 0."""
    descriptor = copied(data)
    seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return descriptor


class Copy:
    """Owns what `copied` made, and closes it when it is dropped: made in a thread, nobody may wait for it any more."""

    def __init__(self, data: bytes) -> None:
        self.descriptor = -1
        self.descriptor = copied(data)

    def close(self) -> None:
        """Idempotent."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    __del__ = close


def copied(data: bytes) -> int:
    """The same without seals, for what is never read again here; the kernel refuses them while pages are in use."""
    descriptor = os.memfd_create("groundbox-input", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.lseek(descriptor, 0, os.SEEK_SET)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
