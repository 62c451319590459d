"""Kernel keyrings: namespaces do not cover them, so the guest gets a session keyring of its own, empty.

Without this a guest could read keys that the host's session holds. `keyctl` itself is refused by seccomp.
See session-keyring(7).
"""

import errno
from typing import Final

from . import kernel

_JOIN_SESSION_KEYRING: Final = 1
_NO_SUCH_OPERATION: Final = 0x7FFFFFFF


def join_empty() -> None:
    """Replace the session keyring by a new, empty one.

    If the call itself is refused to this process, as by the seccomp profiles of container engines, or the kernel has
    no keyrings, then no guest can read a key either: it inherits the refusal.
    """
    try:
        kernel.call("keyctl", _JOIN_SESSION_KEYRING, None)
    except kernel.KernelRefused as refused:
        if not _is_forbidden(refused.errno):
            raise


def _is_forbidden(reason: int | None) -> bool:
    """Return True if keyctl fails with the same error for a call that the kernel itself would answer otherwise."""
    if reason not in (errno.EPERM, errno.ENOSYS):
        return False
    try:
        kernel.call("keyctl", _NO_SUCH_OPERATION)
    except kernel.KernelRefused as refused:
        return refused.errno == reason  # the kernel says EOPNOTSUPP
    return False
