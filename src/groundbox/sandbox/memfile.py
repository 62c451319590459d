"""Bytes handed to a guest as a descriptor: an unnamed file in memory that nobody can change any more.

A descriptor of a host file could be reopened for writing through /proc where the guest's host user owns it;
this is a copy that exists nowhere else.
"""

import asyncio
import errno
import fcntl
import os
from typing import Final, cast

_SIZE: Final = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW
_FUTURE_WRITE: Final = 0x10
"""`F_SEAL_FUTURE_WRITE`, of Linux 5.1, which Python 3.11 has no name for."""
_TRIES: Final = 5
_AT_ONCE_BYTES: Final = 1024 * 1024


def sealed(data: bytes) -> int:
    """A descriptor, owned by the caller, at offset 0."""
    descriptor = copied(data)
    try:
        _seal(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


async def sealed_beside(data: bytes | memoryview) -> int:
    """`sealed`, in a thread if there is much to copy: the kernel takes a second for some gigabytes."""
    if len(data) <= _AT_ONCE_BYTES:
        return sealed(cast(bytes, data))
    copying = asyncio.ensure_future(asyncio.to_thread(sealed, cast(bytes, data)))
    try:
        return await asyncio.shield(copying)
    except asyncio.CancelledError:
        copying.add_done_callback(_close_unwanted)
        raise


def close_beside(descriptor: int) -> None:
    """Close such a file, in a thread if it is large: the kernel takes 90 ms to free 250 MiB.

    The thread is not waited for.
    """
    if os.fstat(descriptor).st_size <= _AT_ONCE_BYTES:
        os.close(descriptor)
        return
    try:
        asyncio.get_running_loop().run_in_executor(None, os.close, descriptor)
    except RuntimeError:  # the loop or its threads have ended
        os.close(descriptor)


def _close_unwanted(copying: asyncio.Future[int]) -> None:
    if not copying.cancelled() and copying.exception() is None:
        close_beside(copying.result())


def _seal(descriptor: int) -> None:
    """Refuse all writes from here on.

    Nobody has mapped the file, so that the seal of future writes keeps as much as that of all writes. That one waits
    for whoever uses a page at this moment, be it the kernel itself, and fails with EBUSY where that takes long; it is
    for kernels that do not know the other.
    """
    try:
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SIZE | _FUTURE_WRITE)
        return
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    for left in reversed(range(_TRIES)):
        try:
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SIZE | fcntl.F_SEAL_WRITE)
            return
        except OSError as error:
            if error.errno != errno.EBUSY or not left:
                raise


def seal_all(descriptor: int) -> bool:
    """Refuse all writes from here on to a file that a guest has written.

    Returns:
        False where it has mapped it for writing, or has forbidden other seals than its own (F_SEAL_SEAL).
    """
    for _ in range(_TRIES):
        try:
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SIZE | fcntl.F_SEAL_WRITE)
            return True
        except OSError as error:
            if error.errno not in (errno.EBUSY, errno.EPERM):
                raise
    return False


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
