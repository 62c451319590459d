"""Started processes: programs that live beside runs, each below a supervisor of its own.

The supervisor is a fork of the worker that runs no line of the program. It starts it, takes signals for it from the
host, waits for its end and tells that. It is a process of its own because process 1 of the sandbox may be in a cell,
for hours, and neither reaps nor obeys then; and one for each program, so that one which is stopped or killed takes no
other along. It costs one process of `process_count` and the memory that a fork comes to write to.

Host and supervisor share a socket pair, of which nobody else gets an end. Down go bytes, each the number of a signal
for the program's process group; SIGKILL is for all that descends from the program. Up goes one line, `exit CODE` or
`signal NUMBER`, when the program has ended. End of file stands for an end that nobody told, and, downwards, for an
order to end everything. The line is a claim: it comes from a process that a guest can kill or, where a cell has run in
process 1 before, have made lie.

The supervisor is a subreaper, so that what the program starts stays below it, also when a daemon lets go of its
parents: by this the end of a run tells such a process from what the run has left (children.py). When the supervisor
ends, the kernel kills the program (PR_SET_PDEATHSIG); what else is there comes to process 1, like what a cell has left.
"""

import contextlib
import ctypes
import fcntl
import gc
import json
import os
import select
import signal
import termios
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from .children import Children, exit_of
from .files import refused

PRCTL = ctypes.CDLL(None).prctl
PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_FIRST_OWN = 10
"""Descriptors are moved here and above first, because a cell may have closed 0 to 2 and made room for them there."""
_BEYOND = 1 << 20
_ROUNDS = 1000
_MOST_ANSWER = 200


class _Refused(Exception):
    """The kernel refused `what`: the folder or the program."""

    def __init__(self, what: str, number: int) -> None:
        super().__init__(what, number)
        self.what, self.number = what, number


class Processes:
    """Those of one worker."""

    def __init__(self, children: Children, set_limits: Callable[[float | None, int | None], None]) -> None:
        self._children = children
        self._set_limits = set_limits

    def start(self, order: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """Start a program; the answer has its `pid`, or `errno` and `what` could not be had.

        Of the order:
            argv: Texts; the first is looked for in PATH.
            environ: Added to the environment.
            cwd: Absolute, or relative to the worker's folder; None for that.
            stdin: Whether a descriptor for it comes along.
            terminal: Whether one descriptor, of a terminal, stands for all three.
            private_bytes: Private memory of one process; None where the sandbox's limit is enough.

        The descriptors are those of the streams, in their order, and the supervisor's end of its socket pair.
        """
        self._children.reap_supervisors()
        reader, writer = os.pipe2(os.O_CLOEXEC)
        self._children.close_memory(True)  # before the fork, so that the supervisor is closed from its first moment
        try:
            supervisor = os.fork()
            if supervisor == 0:
                _Supervisor(order, descriptors, writer, self._set_limits).live()
        except OSError as error:
            os.close(reader)
            return refused(error)
        finally:
            self._children.close_memory(False)
            os.close(writer)
        self._children.spare(supervisor)
        try:
            with open(reader, "rb") as answers:
                # A line, because threads of a cell may have forked and hold the other end, too.
                return dict(json.loads(answers.readline(_MOST_ANSWER)))
        except ValueError:
            return {"ok": False, "reason": "its supervisor ended before it had started it"}


class _Streams(NamedTuple):
    stdin: int
    stdout: int
    stderr: int


class _Supervisor:
    """The life of one supervisor, from its fork to its end."""

    def __init__(
        self,
        order: dict[str, Any],
        descriptors: list[int],
        answer: int,
        set_limits: Callable[[float | None, int | None], None],
    ) -> None:
        self._order = order
        self._descriptors = descriptors
        self._answer = answer
        self._set_limits = set_limits
        self._control = self._wake = -1
        self._program = 0
        self._is_to_end = False

    def live(self) -> NoReturn:
        """Start the program, and tell the host how it ended."""
        try:
            try:
                self._begin()
            except _Refused as why:
                self._say(
                    {"ok": False, "reason": os.strerror(why.number), "value": {"errno": why.number, "what": why.what}}
                )
                os._exit(1)
            except OSError as error:
                self._say(refused(error))
                os._exit(1)
            self._say({"ok": True, "value": {"pid": self._program}})
            self._tell(self._attend())
        finally:
            os._exit(0)

    def _begin(self) -> None:
        os.setsid()  # so that a signal to process 1's group, which a cell may send, does not come here
        PRCTL(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)  # without a pid namespace nobody else sees to that
        gc.disable()  # a collection would write to pages that are shared until then
        PRCTL(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._set_limits(None, self._order["private_bytes"])
        *given, control = [moved_above_streams(descriptor) for descriptor in self._descriptors]
        self._answer, self._control = moved_above_streams(self._answer), control
        nothing = moved_above_streams(os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC))
        if self._order["terminal"]:
            streams = _Streams(given[0], given[0], given[0])
        else:
            streams = _Streams(*(given if self._order["stdin"] else [nothing, *given]))
        for own in range(3):
            os.dup2(nothing, own, inheritable=False)
        self._wake, waker = (moved_above_streams(end) for end in os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK))
        close_all_but({0, 1, 2, *streams, self._control, self._answer, self._wake, waker})
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # a cell may have blocked any
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        self._program = _spawned(self._order, streams)
        close_all_but({0, 1, 2, self._control, self._answer, self._wake, waker})

    def _say(self, answer: dict[str, Any]) -> None:
        """To the worker, which waits for it."""
        os.write(self._answer, json.dumps(answer).encode() + b"\n")
        os.close(self._answer)

    def _attend(self) -> int:
        """Hand signals on until the program has ended; its wait status."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        while True:
            ready = dict(poll.poll())
            if self._wake in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake, 4096)
            if (status := self._reaped()) is not None:
                break
            if self._control in ready:
                self._obey(os.read(self._control, 256))
                if self._is_to_end:
                    # Nothing more is to be obeyed, and an end of file would be told again and again.
                    poll.unregister(self._control)
        if self._is_to_end:
            _end_children()
        return status

    def _obey(self, numbers: bytes) -> None:
        """Send signals to the program's group, which it leads as long as it is not reaped."""
        for number in numbers or (signal.SIGKILL,):
            self._is_to_end = self._is_to_end or number == signal.SIGKILL
            with contextlib.suppress(OSError, ValueError):
                os.killpg(self._program, number)

    def _reaped(self) -> int | None:
        """Reap all who have ended, also those that came here as orphans; the program's status if it is among them."""
        found = None
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self._program:
                    found = ended[1]
        return found

    def _tell(self, status: int) -> None:
        exit_ = exit_of(status)
        line = f"signal {exit_.signal}\n" if exit_.code is None else f"exit {exit_.code}\n"
        with contextlib.suppress(OSError):
            os.write(self._control, line.encode())


def _spawned(order: dict[str, Any], streams: _Streams) -> int:
    """The program's process id, once it has begun.

    Raises:
        _Refused: It could not begin.
        OSError: There is no process to be had.
    """
    supervisor = os.getpid()
    reader, writer = (moved_above_streams(end) for end in os.pipe2(os.O_CLOEXEC))
    pid = os.fork()
    if pid == 0:
        _become(order, streams, supervisor, writer)
    os.close(writer)
    with open(reader, "rb") as failures:
        told = failures.read(_MOST_ANSWER).split()
    if told:
        os.waitpid(pid, 0)
        raise _Refused(told[0].decode(), int(told[1]))
    return pid


def _become(order: dict[str, Any], streams: _Streams, supervisor: int, failure: int) -> NoReturn:
    """Become the program, with its three streams and no other descriptor, or write to `failure` why not."""
    what = "program"
    try:
        os.setsid()
        PRCTL(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != supervisor:  # it ended before that was set
            os._exit(127)
        if order["terminal"]:
            fcntl.ioctl(streams.stdin, termios.TIOCSCTTY, 0)
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
        signal.set_wakeup_fd(-1)
        for known in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(known, signal.SIG_DFL)
        close_all_but({0, 1, 2, failure})
        if order["cwd"] is not None:
            what = "cwd"
            os.chdir(order["cwd"])
            what = "program"
        argv = order["argv"]
        os.execvpe(argv[0], argv, {**os.environ, **order["environ"]})
    except OSError as error:
        os.write(failure, f"{what} {error.errno}".encode())
    finally:
        os._exit(127)


def moved_above_streams(descriptor: int) -> int:
    """The same under a number that is none of the three streams', in place of the old one."""
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_OWN)
    finally:
        os.close(descriptor)


def close_all_but(kept: set[int]) -> None:
    """A guest's cells may have opened anything in process 1, and have let children inherit it."""
    start = 0
    for descriptor in sorted(kept):
        if start < descriptor:  # closerange(0, 0) closes everything
            os.closerange(start, descriptor)
        start = descriptor + 1
    os.closerange(start, _BEYOND)


def _end_children() -> None:
    """End all below this process: whose parent is ended comes here, and is found in the next round.

    Without /proc (backend landlock) nobody is found; the group was sent SIGKILL, and the sandbox's end ends the rest.
    """
    own = os.getpid()
    for _ in range(_ROUNDS):
        try:
            with open(f"/proc/self/task/{own}/children") as file:
                children = [int(pid) for pid in file.read().split()]
            for pid in children:
                os.kill(pid, signal.SIGKILL)
            if children:
                os.waitpid(-1, 0)
            elif os.waitpid(-1, os.WNOHANG) == (0, 0):
                continue
        except ProcessLookupError:
            continue
        except OSError:  # ECHILD: nobody is left
            return
