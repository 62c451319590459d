"""Capabilities and no_new_privs: a guest holds no privilege and cannot gain one by executing a file.

The bounding set is emptied once in the template; it only matters to execve, which a template never does.
What a worker still holds it drops in one call. See capabilities(7).
"""

import errno
import os
import struct
from typing import Final

from . import kernel

_PR_CAPBSET_DROP: Final = 24
_PR_SET_NO_NEW_PRIVS: Final = 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_VERSION_3: Final = 0x20080522


def empty_bounding_set() -> None:
    """Take every capability out of the bounding and the ambient set. Needs CAP_SETPCAP."""
    for capability in range(_last() + 1):
        kernel.prctl("PR_CAPBSET_DROP", _PR_CAPBSET_DROP, capability)
    try:
        kernel.prctl("PR_CAP_AMBIENT_CLEAR_ALL", _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    except kernel.KernelRefused as refused:
        if refused.errno != errno.EINVAL:  # gVisor has no ambient set
            raise


def drop_all() -> None:
    """Give up every effective, permitted and inheritable capability."""
    kernel.call("capset", struct.pack("=Ii", _VERSION_3, 0), bytes(24))


def no_new_privileges() -> None:
    """Make setuid files and file capabilities mean nothing from here on."""
    kernel.prctl("PR_SET_NO_NEW_PRIVS", _PR_SET_NO_NEW_PRIVS, 1)


def _last() -> int:
    try:
        with open("/proc/sys/kernel/cap_last_cap") as file:
            return int(file.read())
    except (OSError, ValueError):
        last = 0
        while last < 63 and _known(last + 1):
            last += 1
        return last


def _known(capability: int) -> bool:
    try:
        kernel.prctl("PR_CAPBSET_READ", 23, capability)
    except OSError:
        return False
    return True


def holds_any() -> bool:
    """Whether the calling process holds an effective capability."""
    with open(f"/proc/{os.getpid()}/status") as status:
        return any(int(line.split()[1], 16) for line in status if line.startswith("CapEff"))
