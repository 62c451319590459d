"""A scope of systemd: the control group of version 2 that an ordinary user gets without root.

A login's processes are in a group of root's, and only root can move them out. The user's own systemd can ask the
system's to do it: it makes a scope for processes that run already and gives the groups in it to the user (`Delegate`).
Each host process that needs groups gets a scope, named after it, which ends with its last process.
See systemd.scope(5) and org.freedesktop.systemd1(5).
"""

import os
import shutil
import subprocess
import time
from typing import Final

_MANAGER: Final = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")
_ANSWER_S: Final = 10.0
_POLL_S: Final = 0.002


def is_offered() -> bool:
    """Return True if this user's systemd runs and can be asked."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    return bool(runtime) and os.path.exists(f"{runtime}/systemd/private") and shutil.which("busctl") is not None


def enter() -> str:
    """Move this process into a scope of its own.

    Returns:
        The reason if systemd refuses, otherwise an empty string.
    """
    pid = os.getpid()
    name = f"groundbox-{pid}-{time.monotonic_ns()}.scope"
    properties = ("PIDs", "au", "1", str(pid), "Delegate", "b", "true", "CollectMode", "s", "inactive-or-failed")
    call = ("StartTransientUnit", "ssa(sv)a(sa(sv))", name, "fail", "3", *properties, "0")
    try:
        asked = subprocess.run(
            ["busctl", "--user", "call", *_MANAGER, *call],
            capture_output=True, text=True, timeout=_ANSWER_S, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"systemd gives no scope: {error}"
    if asked.returncode:
        return f"systemd gives no scope: {asked.stderr.strip()}"
    deadline = time.monotonic() + _ANSWER_S
    while time.monotonic() < deadline:  # the reply is the number of a job, which is carried out afterwards
        with open("/proc/self/cgroup") as file:
            if name in file.read():
                return ""
        time.sleep(_POLL_S)
    return f"systemd has not moved this process into {name} within {_ANSWER_S:g} s"
