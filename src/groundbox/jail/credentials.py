"""User ids: which host user stands behind a guest.

Started as root, every template gets a range of 65,536 host ids that nothing else uses, and every sandbox one
id out of it. Host uid 0 never backs a guest: files and sysctls owned by root are guarded by that id alone,
even from a process without capabilities.
Started as an ordinary user there is one id, the user's own; the other layers hold siblings apart.
"""

import os
from typing import Final

from . import kernel

FIRST_HOST_UID: Final = 0x70000000
"""Where the ranges begin (sandbox/uids.py)."""
INSIDE_UID: Final = 1000
RANGE: Final = 65536
GUESTS: Final = 60_000
"""So many ids from INSIDE_UID on are taken by the sandboxes of a template, one after the other."""

_PR_SET_DUMPABLE: Final = 4
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_SET_SECUREBITS: Final = 28
_NO_SETUID_FIXUP: Final = 4
_SIGKILL: Final = 9


def has_ranges() -> bool:
    """Return True if this process may use the ranges of host ids: as root, unless it is that of a user namespace.

    If root of a user namespace with few ids waives the layer `uid`, it is treated as an ordinary user.
    """
    if os.geteuid() != 0:
        return False
    try:
        with open("/proc/self/uid_map") as file:
            spans = [tuple(map(int, line.split())) for line in file]
    except FileNotFoundError:  # a kernel without user namespaces
        return True
    return any(first <= FIRST_HOST_UID and first + count >= FIRST_HOST_UID + RANGE for first, _, count in spans)


def become(uid: int) -> None:
    """Take `uid` for user and group, for good, without supplementary groups."""
    kernel.call("setgroups", 0, None)
    kernel.call("setresgid", uid, uid, uid)
    kernel.call("setresuid", uid, uid, uid)


def act_as(uid: int) -> None:
    """Take `uid` as effective user and keep every capability.

    The kernel counts what a user namespace uses (inotify, queued signals, further namespaces) up to whoever made it,
    by effective id; made by root, guests would use up what root itself has. Making one resets the securebits.
    """
    kernel.prctl("PR_SET_SECUREBITS", _PR_SET_SECUREBITS, _NO_SETUID_FIXUP)
    kernel.call("setresuid", -1, uid, -1)


def be_ended_first() -> None:
    """Be the first that the kernel ends where memory runs out. Needs `allow_own_proc`. See proc(5)."""
    file = kernel.open_to_write("/proc/self/oom_score_adj")
    kernel.write(file, b"1000")
    kernel.close(file)


def die_with_parent() -> None:
    """Be killed when the parent process ends. A change of ids clears this, so it comes after."""
    kernel.prctl("PR_SET_PDEATHSIG", _PR_SET_PDEATHSIG, _SIGKILL)


def lead_own_group() -> None:
    """Leave the template's process group: a pid namespace hides its members, but kill(0) would still reach them."""
    kernel.call("setpgid", 0, 0)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends; without a pid namespace, to find them all."""
    kernel.prctl("PR_SET_CHILD_SUBREAPER", _PR_SET_CHILD_SUBREAPER, 1)


def allow_own_proc() -> None:
    """Let the guest read its own /proc entries, which the change of ids took away."""
    kernel.prctl("PR_SET_DUMPABLE", _PR_SET_DUMPABLE, 1)
