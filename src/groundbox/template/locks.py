"""The warden of byte-range locks: no sandbox of a template holds more than a bounded number of them.

Covered: locks by fcntl(2) on whatever descriptor, of every process of every sandbox of the template that started it.
Not covered: `flock`, of which there is one for each open file at most; the locks of open files (F_OFD_SETLK), which no
list of processes tells, and which the filter answers as unknown (jail/seccomp.py).

Why: the kernel takes 200 bytes for each such lock, charges them to no memory group, and has given up the limit that
it had on their number (RLIMIT_LOCKS of setrlimit(2)). Refusing them would break SQLite, DuckDB and what locks files;
answering them as done would let two processes write into one database.

How it works: the template's filter makes the kernel stop each call that sets or frees a lock and ask who listens, by
seccomp_unotify(2). That is a process of its own here, forked by the template before any worker. It lets the call go on,
and counts it down from a sandbox's allowance. What the call does stands behind a pointer, which the guest could
change after it was looked at, so calls that free are counted like calls that take. At zero it counts what is
really held, in /proc, and gives what is left as the next allowance; where too little is left, the answer is ENOLCK, as
from a kernel without memory for locks. So the number of locks is bounded at any moment, and who takes and
frees them in turns, as databases do, pays for a count every ten thousand calls. A count takes the warden's time, for
which other sandboxes wait: whoever holds so many locks that counts would come often is counted four times a second,
and gets ENOLCK in between.

A sandbox is known by its pid namespace. Numbers of namespaces are given again, by which a new sandbox might begin with
the rest of an old one's allowance: it is counted sooner then.
"""

import contextlib
import errno
import fcntl
import os
import struct
import time
from typing import Final, NoReturn

from groundbox.jail import credentials

MOST_LOCKS: Final = 10_000
"""About 2 MiB."""
_FIRST: Final = 1_000
"""What a sandbox has before it is first counted, and the least that a count gives."""
_MOST_FILES: Final = 4_096
"""Open files that a count looks at; a sandbox with more of them gets no lock beyond its allowance."""
_SELDOM_COUNTED: Final = MOST_LOCKS // 2
"""An allowance from which on the next count comes late by itself: so many calls take 50 ms on a fast machine."""
_COUNT_AGAIN_S: Final = 0.25
_MOST_SANDBOXES: Final = 4_096
_RECEIVE, _SEND, _SET_FLAGS = 0xC0502100, 0xC0182101, 0x40082104
_WAKE_AT_ONCE: Final = 1
_CONTINUE: Final = 1
_NOTICE, _ANSWER = struct.Struct("=QI68x"), struct.Struct("=QqiI")
_NO_SUCH_CALL: Final = (errno.ENOENT, errno.EINTR)


def start(listener: int) -> int:
    """Fork the warden, and return its process id. Takes `listener` over: the caller's copy is closed."""
    template = os.getpid()
    pid = os.fork()
    if pid == 0:
        _be_warden(listener, template)
    os.close(listener)
    return pid


def _be_warden(listener: int, template: int) -> NoReturn:
    try:
        credentials.die_with_parent()
        if os.getppid() == template:
            os.closerange(3, listener)
            os.closerange(listener + 1, 1 << 16)
            Warden(listener).serve()
    finally:
        os._exit(1)


class _Sandbox:
    """What is known of one: how many calls it may make before it is counted, and from when on it may be."""

    __slots__ = ("left", "name", "not_before")

    def __init__(self, name: str) -> None:
        self.name, self.left, self.not_before = name, _FIRST, 0.0


class Warden:
    """Answers for the calls of all sandboxes, one after the other.

    Which sandbox a process is of is looked up once and kept until the next count: ids of processes are given again, and
    one that is taken for another's has what is left of that one's allowance at most.
    """

    def __init__(self, listener: int) -> None:
        self._listener = listener
        self._sandboxes: dict[str, _Sandbox] = {}
        self._sandbox_of: dict[int, _Sandbox] = {}
        with contextlib.suppress(OSError):  # Linux before 6.6: each answer takes a little longer
            fcntl.ioctl(listener, _SET_FLAGS, _WAKE_AT_ONCE)

    def serve(self) -> NoReturn:
        """Until the process ends."""
        notice, empty = bytearray(_NOTICE.size), bytes(_NOTICE.size)
        while True:
            notice[:] = empty  # the kernel insists
            try:
                fcntl.ioctl(self._listener, _RECEIVE, notice)
                identity, pid = _NOTICE.unpack(notice)
                sandbox = self._sandbox_of.get(pid)
                if sandbox is not None and sandbox.left > 0:
                    sandbox.left -= 1
                    answer = _ANSWER.pack(identity, 0, 0, _CONTINUE)
                elif self.allows(pid):
                    answer = _ANSWER.pack(identity, 0, 0, _CONTINUE)
                else:
                    answer = _ANSWER.pack(identity, 0, -errno.ENOLCK, 0)
                fcntl.ioctl(self._listener, _SEND, answer)
            except OSError as error:
                if error.errno not in _NO_SUCH_CALL:  # who called has been killed meanwhile
                    raise

    def allows(self, pid: int) -> bool:
        """Whether a process may make one more call; counts it as made."""
        sandbox = self._find(pid)
        if sandbox is None:
            return False  # it is ending
        if sandbox.left == 0:
            if time.monotonic() < sandbox.not_before:
                return False
            self._sandbox_of.clear()
            left = MOST_LOCKS - held(sandbox.name)
            sandbox.left = left if left >= _FIRST else 0
            sandbox.not_before = 0.0 if left >= _SELDOM_COUNTED else time.monotonic() + _COUNT_AGAIN_S
        if sandbox.left == 0:
            return False
        sandbox.left -= 1
        self._sandbox_of[pid] = sandbox
        return True

    def _find(self, pid: int) -> _Sandbox | None:
        try:
            name = os.readlink(f"/proc/{pid}/ns/pid")
        except OSError:
            return None
        sandbox = self._sandboxes.get(name)
        if sandbox is None:
            if len(self._sandboxes) >= _MOST_SANDBOXES:
                self._sandboxes.clear()
                self._sandbox_of.clear()
            sandbox = self._sandboxes[name] = _Sandbox(name)
        return sandbox


def held(sandbox: str) -> int:
    """Locks that processes of one pid namespace hold; `MOST_LOCKS` when they have too many open files to be looked at.

    Processes that share their descriptors are counted once each.
    """
    locks = files = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/ns/pid") != sandbox:
                continue
            numbers = os.listdir(f"/proc/{pid}/fdinfo")
        except OSError:
            continue
        files += len(numbers)
        if files > _MOST_FILES:
            return MOST_LOCKS
        for number in numbers:
            try:
                with open(f"/proc/{pid}/fdinfo/{number}", "rb") as file:
                    locks += file.read().count(b"\nlock:")
            except OSError:
                continue
    return locks
