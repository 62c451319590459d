"""Namespaces: what a guest can see of processes, mounts, network, IPC objects, host name and users.

A template takes namespaces of its own once (`outer`); every worker is cloned straight into further ones
(`clone_worker`), because cloning is cheaper than unsharing and makes the worker process 1 of its own.
When process 1 ends, the kernel ends every process of that namespace: nothing outlives its sandbox.
See namespaces(7), user_namespaces(7), pid_namespaces(7).
"""

import ctypes
import errno
import os
from typing import Final

from . import kernel

NEWNS, NEWUTS, NEWIPC, NEWUSER = 0x00020000, 0x04000000, 0x08000000, 0x10000000
NEWPID, NEWNET, NEWCGROUP = 0x20000000, 0x40000000, 0x02000000
_PIDFD: Final = 0x1000
_SIGCHLD: Final = 17


def unshare(flags: int) -> None:
    """Leave the namespaces named by `flags` for new ones."""
    kernel.call("unshare", flags)


def enter(descriptor: int, kind: int) -> None:
    """Go into the namespace behind a descriptor of /proc/PID/ns; `kind` says which kind it must be of. See setns(2)."""
    kernel.call("setns", descriptor, kind)


_CLONE_FIELDS: Final = "flags pidfd child_tid parent_tid exit_signal stack stack_size tls set_tid set_tid_size cgroup"


class _CloneArguments(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in _CLONE_FIELDS.split()]


def clone(flags: int) -> tuple[int, int]:
    """Fork into new namespaces: (0, -1) in the child, (its process id, a pidfd) in the parent.

    The interpreter's own fork hooks do not run: they cost over a millisecond of copied pages.
    The caller must have a single thread and must reseed what has to differ between children.
    """
    try:
        return _clone3(flags)
    except kernel.KernelRefused as refused:
        if refused.errno != errno.ENOSYS:
            raise
    pid = kernel.call("clone", flags | _SIGCHLD, 0, None, None, 0)  # gVisor; the first two change places on s390 only
    return pid, os.pidfd_open(pid) if pid else -1


def _clone3(flags: int) -> tuple[int, int]:
    pidfd = ctypes.c_int(-1)
    arguments = _CloneArguments(flags=flags | _PIDFD, pidfd=ctypes.addressof(pidfd), exit_signal=_SIGCHLD)
    pid = kernel.call("clone3", ctypes.byref(arguments), ctypes.c_size_t(ctypes.sizeof(arguments)))
    if pid:
        os.set_inheritable(pidfd.value, False)
    return pid, pidfd.value if pid else -1


def write_id_maps(pid: int, *, inside: int, outside_uid: int, outside_gid: int, count: int) -> None:
    """Say which ids of the user namespace of `pid` stand for which ids outside.

    With `count` 1 and the caller's own ids this needs no privilege, but `setgroups` has to be forbidden.
    """
    process = f"/proc/{pid}"
    if count == 1:
        _write(f"{process}/setgroups", "deny")
    _write(f"{process}/uid_map", f"{inside} {outside_uid} {count}")
    _write(f"{process}/gid_map", f"{inside} {outside_gid} {count}")


def forbid_user_namespaces() -> None:
    """Let nothing inside the current user namespace make another one: each would be a fresh attack surface."""
    _write("/proc/sys/user/max_user_namespaces", "0")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
