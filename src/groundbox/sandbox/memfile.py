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


def copied(data: bytes) -> int:
    """The same without seals, for what is never read again here; the kernel refuses them while pages are in use."""
    descriptor = os.memfd_create("groundbox-input", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
