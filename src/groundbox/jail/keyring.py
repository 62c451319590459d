"""Kernel keyrings: namespaces do not cover them, so the guest gets a session keyring of its own, empty.

Without this a guest could read keys that the host's session holds. `keyctl` itself is refused by seccomp.
See session-keyring(7).
"""

from typing import Final

from . import kernel

_JOIN_SESSION_KEYRING: Final = 1


def join_empty() -> None:
    """Replace the session keyring by a new, empty one."""
    kernel.call("keyctl", _JOIN_SESSION_KEYRING, None)
