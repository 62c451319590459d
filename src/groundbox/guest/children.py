"""Child processes of a worker: how they start, how the worker waits for them, and what ends with them.

A program that is no cell runs in a child, in a process group of its own. While it runs, the worker's memory and
descriptors are closed to it, because the worker reports how it ended. When it ends, all it left running is ended;
only residents live on, the processes that keep a language's state, and what was started to live beside runs, with all
that descends from its supervisors (processes.py).
"""

import contextlib
import ctypes
import os
import select
import signal
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

_PRCTL = ctypes.CDLL(None).prctl
_PR_SET_DUMPABLE = 4
_WNOTHREAD = 0x20000000
_ROUNDS = 100
_PAUSE_S = 0.0002
PATIENCE_S = 0.35
"""From an interrupt to the end of who does not heed it. The host would soon end the whole sandbox."""
_INTERRUPT, _ENDED = b"i", b"e"
_HANDLED = {signal.SIGINT, signal.SIGPIPE, signal.SIGTERM, signal.SIGXFSZ}


class Exit(NamedTuple):
    """How a child ended: by itself with a code, or by a signal."""

    code: int | None
    signal: int | None


class Children:
    """All children of one worker."""

    def __init__(self, *, alone: bool, guarded: bool) -> None:
        """Args:
        alone: Whether this process is the first of a pid namespace, so that it may end all others.
        guarded: Whether its memory is closed to a program while that runs.
        """
        self._alone = alone
        self._guarded = guarded
        self._residents: dict[int, int | None] = {}
        self._supervisors: set[int] = set()
        self._unseen: set[int] = set()
        self._awaited: dict[int, int | None] = {}

    @property
    def has_residents(self) -> bool:
        """Whether anything lives on between runs."""
        self.reap_supervisors()
        return bool(self._residents or self._supervisors)

    def close_memory(self, closed: bool) -> None:
        """Keep processes of the same user out of this one's memory and descriptors (PR_SET_DUMPABLE)."""
        if self._guarded:
            _PRCTL(_PR_SET_DUMPABLE, int(not closed), 0, 0, 0)

    def start(self, argv: list[str], environ: Mapping[str, str], descriptors: Mapping[int, int]) -> int:
        """Start `argv[0]` in a session and process group of its own, with signals as they are by default.

        A process of another session cannot join the group, and so not have signals sent to it (F_SETOWN), either.

        Args:
            descriptors: The child's number of each descriptor beyond 1 and 2, to ours.

        Raises:
            OSError: It cannot be started.
        """
        moves = [(os.POSIX_SPAWN_DUP2, ours, theirs) for theirs, ours in descriptors.items()]
        return os.posix_spawnp(
            argv[0], argv, environ, file_actions=moves, setsid=True, setsigmask=(), setsigdef=_HANDLED
        )

    def keep(self, pid: int) -> None:
        """Let this child live on when a program ends."""
        self._residents[pid] = None

    def spare(self, supervisor: int) -> None:
        """Let this child, and all that descends from it, live on when a program ends."""
        self._supervisors.add(supervisor)

    def spare_unseen(self, pid: int, *, spared: bool = True) -> None:
        """Let a child that no wait sees live on when a program ends (pristine.py), or no longer."""
        (self._unseen.add if spared else self._unseen.discard)(pid)

    def reap_supervisors(self) -> None:
        """Forget those that have ended. A cell may have reaped them."""
        for pid in tuple(self._supervisors):
            try:
                ended = os.waitpid(pid, os.WNOHANG)[0] == pid
            except ChildProcessError:
                ended = True
            if ended:
                self._supervisors.discard(pid)

    def forget(self, pid: int) -> Exit | None:
        """End what is left of a resident and its group; how it ended, None when somebody else has heard that."""
        status = self._residents.pop(pid)
        _signal_group(pid, signal.SIGKILL)
        if status is None:
            with contextlib.suppress(ChildProcessError):
                status = os.waitpid(pid, 0)[1]
        return None if status is None else exit_of(status)

    def wait_for(self, child: int) -> Exit:
        """Reap until `child` has ended."""
        while True:
            pid, status = os.waitpid(-1 if self._alone else child, 0)
            if pid == child:
                return exit_of(status)
            self._note(pid, status)

    def wait_patiently(self, child: int, interrupts: "Interrupts") -> Exit:
        """Reap until `child` has ended. Interrupts go to its group, which is ended when it does not heed them."""
        self.expect(child)
        waiter = os.pidfd_open(child)
        poll = select.poll()
        poll.register(waiter, select.POLLIN)
        poll.register(interrupts.descriptor, select.POLLIN)
        try:
            while not any(descriptor == waiter for descriptor, _ in poll.poll(interrupts.left_ms())):
                if interrupts.came():
                    _signal_group(child, signal.SIGINT)
                if interrupts.ignored():
                    _signal_group(child, signal.SIGKILL)
        finally:
            os.close(waiter)
        return self.end_of(child)

    def expect(self, child: int) -> None:
        """Keep the status of `child` for `end_of` if `reap` gets it."""
        self._awaited = {child: None}

    def end_of(self, child: int) -> Exit:
        """Wait until the expected `child` has ended, and return how."""
        status = self._awaited.pop(child)
        return self.wait_for(child) if status is None else exit_of(status)

    def are_gone(self) -> bool:
        """Whether no process that was started from here, or left behind by one, is there any more.

        Those of other threads do not count (apart.py). Only for the first process of a pid namespace: it is the one
        that a process without a parent comes to.
        """
        for _ in range(_ROUNDS):
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | _WNOTHREAD)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            self._note(pid, status)
        return False

    def end_leftovers(self, child: int) -> None:
        """End what a program has left running."""
        if self._alone:
            self._end_others()
        else:
            _signal_group(child, signal.SIGKILL)
        while True:
            try:
                pid, status = os.waitpid(-1, 0 if self._alone and not self.has_residents else os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._note(pid, status)

    def _end_others(self) -> None:
        """All at once where there is nobody to spare.

        Something that forks as fast as it is killed has all ended with it.
        """
        if self.has_residents or self._unseen:
            for turn in range(_ROUNDS):
                others = self._others()
                if not others:
                    return
                for pid in others:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                time.sleep(_PAUSE_S * turn)
                self.reap()
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)

    def _others(self) -> list[int]:
        spared = {1, *self._residents, *self._unseen}
        found = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if pid not in spared]
        return [pid for pid in found if not self._is_supervised(pid)] if self._supervisors else found

    def _is_supervised(self, pid: int) -> bool:
        """Whether a process descends from a supervisor, or is one, or is gone.

        An ancestor that is gone meanwhile was reaped, and has left its children to another before; so look again.
        """
        for _ in range(_ROUNDS):
            ancestor: int | None = pid
            while ancestor is not None and ancestor not in self._supervisors:
                if ancestor <= 1:
                    return False
                child, ancestor = ancestor, _parent(ancestor)
            if ancestor is not None or child == pid:
                return True
        return False

    def reap(self) -> None:
        """Reap every child that has ended. Orphans of the sandbox become children of this process, too."""
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                self._note(*ended)

    def _note(self, pid: int, status: int) -> None:
        self._supervisors.discard(pid)
        for known in (self._residents, self._awaited):
            if pid in known:
                known[pid] = status


def _parent(pid: int) -> int | None:
    """Of a process, or of a thread's; None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b") ")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return None


def exit_of(status: int) -> Exit:
    """What `wait(2)` told."""
    if os.WIFSIGNALED(status):
        return Exit(None, os.WTERMSIG(status))
    return Exit(os.WEXITSTATUS(status), None)


def outcome(exit_: Exit, error: dict[str, Any] | None = None) -> dict[str, Any]:
    """How a child ended, as `done` says it."""
    return {
        "ok": exit_.code == 0,
        "value": None,
        "error": None if exit_.code == 0 else error,
        "exit_code": exit_.code,
        "exit_signal": exit_.signal,
        "interrupted": False,
    }


def interrupt(child: int) -> None:
    """Hand an interrupt on to one process."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGINT)


class Interrupts:
    """While it is entered, `descriptor` becomes readable for each interrupt of the worker and each end of a child.

    Orphans of a program become children of process 1. They are reaped at once, so that they do not use up the number
    of processes that the sandbox may have.
    """

    def __init__(self, children: Children) -> None:
        self._children = children
        self.descriptor = -1
        self.first_at: float | None = None
        self._writer = -1

    def __enter__(self) -> "Interrupts":
        self.descriptor, self._writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._before = [(number, signal.signal(number, self._note)) for number in (signal.SIGINT, signal.SIGCHLD)]
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before:
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        os.close(self.descriptor)
        os.close(self._writer)

    def came(self) -> bool:
        """Reap children that ended since the last call; return whether there was an interrupt."""
        try:
            happened = os.read(self.descriptor, 4096)
        except BlockingIOError:
            return False
        if _ENDED in happened:
            self._children.reap()
        if _INTERRUPT not in happened:
            return False
        self.first_at = self.first_at or time.monotonic()
        return True

    def ignored(self) -> bool:
        """Whether the first one was too long ago."""
        return self.first_at is not None and time.monotonic() - self.first_at > PATIENCE_S

    def left_ms(self) -> int | None:
        """Until it will be ignored; None if there was none."""
        if self.first_at is None:
            return None
        return max(0, int((self.first_at + PATIENCE_S - time.monotonic()) * 1000)) + 1

    def _note(self, number: int, frame: object) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._writer, _INTERRUPT if number == signal.SIGINT else _ENDED)


def _signal_group(leader: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, number)
