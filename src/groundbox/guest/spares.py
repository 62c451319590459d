"""Spares: a program's interpreter, started before the program is there.

Starting an interpreter takes longer than many programs do. A sandbox that was twice asked for the same kind of run
has a process started for the third while the host looks at the second's result. It waits at its gate, which it has to
pass before anything else: its standard input, or a FIFO whose name a variable gives it as a file to be read first.
Where a run followed the one before it sooner than the process was ready, the next is started before the result is told.

It is used for a run only that would start a process with the same arguments, environment and limits.
Before a run of another kind it is ended, and none is started beside what may live on between runs, so that no other
program has it beside it. A FIFO lets nobody through when its worker dies, where a pipe would be at its end.
"""

import contextlib
import errno
import fcntl
import os
import select
import signal
import tempfile
import time
from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from .children import Children, set_timer_slack

OUTPUT, ERRORS = 7, 8
"""Where a process at a FIFO has the streams that its opening is to make its own."""
_TRIES = 1000
_PAUSE_S = 0.00002
"""To yield instead would take half a processor from who starts."""
_SLACK_NS = 1000
"""The kernel may add this to a pause, where it would add 50 us (PR_SET_TIMERSLACK)."""


class Clearable(Protocol):
    """What belongs to a process that waits."""

    def clear(self) -> None:
        """It is no longer needed."""


Held = TypeVar("Held", bound=Clearable)


class Way(NamedTuple):
    """How a program's interpreter can be started before the program is there: `ahead` of an order.

    Attributes:
        startup_file: The variable that names a file it reads to the end first; None where the program is its standard
            input, and so its gate.
        opening: What it is to read in that file. Until then its streams are the descriptors 7 and 8, and what it writes
            to 1 and 2 makes it useless.
        unless: Names of variables, and with a `*` their beginnings, with which it would not wait.
    """

    startup_file: str | None
    opening: str
    unless: tuple[str, ...]

    def suits(self, environ: Mapping[str, str]) -> bool:
        """Whether no variable keeps it from reading at its gate first."""
        exact = {name for name in self.unless if not name.endswith("*")}
        starts = tuple(name[:-1] for name in self.unless if name.endswith("*"))
        same_user = os.getuid() == os.geteuid() and os.getgid() == os.getegid()
        return same_user and not any(name in exact or (starts and name.startswith(starts)) for name in environ)


class Kind(NamedTuple):
    """What has to be the same for a process to serve another run."""

    order: dict[str, Any]
    environ: dict[str, str]


class Gate:
    """The standard input of a process that waits."""

    def __init__(self) -> None:
        """Raises OSError."""
        self._reader, self._writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(self._reader, True)

    @property
    def descriptors(self) -> dict[int, int]:
        """What the process gets: its number of each to ours."""
        return {0: self._reader}

    def was_given(self) -> None:
        """The process has its end of it."""
        os.close(self._reader)
        self._reader = -1

    def open(self, content: bytes, alive: int) -> bool:
        """Let it read this; False, and nothing was read, where that is too much at once or the process has ended."""
        if _has_ended(alive) or len(content) > fcntl.fcntl(self._writer, fcntl.F_GETPIPE_SZ):
            return False
        try:
            return os.write(self._writer, content) == len(content)
        except (BlockingIOError, BrokenPipeError):
            return False

    def close(self) -> None:
        """Let go of all; a process that waits is ended before."""
        for descriptor in (self._reader, self._writer):
            if descriptor >= 0:
                os.close(descriptor)


class Fifo:
    """A file that a process that waits is opening."""

    def __init__(self) -> None:
        """Raises OSError."""
        self.path = os.path.join(tempfile.gettempdir(), f"gate-{os.urandom(8).hex()}")
        self._heard = self._said = -1
        os.mkfifo(self.path, 0o600)
        try:
            self._heard, said = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                self._said = fcntl.fcntl(said, fcntl.F_DUPFD_CLOEXEC, ERRORS + 1)  # not one that the process gets
            finally:
                os.close(said)
        except OSError:
            self.close()
            raise

    @property
    def descriptors(self) -> dict[int, int]:
        """What the process gets: its number of each to ours, in the order they are to be made in."""
        return {OUTPUT: 1, ERRORS: 2, 1: self._said, 2: self._said}

    def was_given(self) -> None:
        """The process has its end of it."""
        os.close(self._said)
        self._said = -1

    def open(self, content: bytes, alive: int) -> bool:
        """Let it read this; False when it has ended, does not come to it, or has written something on its way."""
        writer = self._writer(alive)
        if writer < 0:
            return False
        try:
            self._remove()
            return self._is_silent() and os.write(writer, content) == len(content)
        except (BlockingIOError, BrokenPipeError):
            return False
        finally:
            os.close(writer)

    def close(self) -> None:
        """Let go of all; a process that waits is ended before."""
        self._remove()
        for descriptor in (self._heard, self._said):
            if descriptor >= 0:
                os.close(descriptor)

    def _writer(self, alive: int) -> int:
        """Our end, which there is once the process waits for it."""
        set_timer_slack(_SLACK_NS)
        try:
            for _ in range(_TRIES):
                try:
                    return os.open(self.path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
                except OSError as error:
                    if error.errno != errno.ENXIO or _has_ended(alive):
                        return -1
                time.sleep(_PAUSE_S)
            return -1
        finally:
            set_timer_slack(0)

    def _is_silent(self) -> bool:
        try:
            os.read(self._heard, 1)
        except BlockingIOError:
            return True
        return False

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self.path)


def _has_ended(alive: int) -> bool:
    watch = select.poll()
    watch.register(alive, select.POLLIN)
    return bool(watch.poll(0))


class Spare(NamedTuple, Generic[Held]):
    """A process that waits at its gate, with what is held for it."""

    pid: int
    kind: Kind
    argv: list[str]
    held: Held
    alive: int
    gate: Gate | Fifo

    def goes_on(self, text: str) -> bool:
        """Let it read its opening, or the program's text; False if it cannot be used."""
        content = text if isinstance(self.gate, Gate) else self.kind.order["ahead"]["opening"]
        return self.gate.open(content.encode("utf-8"), self.alive)

    def end(self) -> None:
        """End it before its gate closes, which would let it go on."""
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            signal.pidfd_send_signal(self.alive, signal.SIGKILL)
            os.waitid(os.P_PIDFD, self.alive, os.WEXITED)
        self.close()

    def close(self) -> None:
        """Let go of its descriptors."""
        os.close(self.alive)
        self.gate.close()


def way_of(order: dict[str, Any]) -> Way | None:
    """As the order tells it; None where the program has to be there first."""
    told = order.get("ahead")
    if told is None:
        return None
    return Way(told.get("startup_file"), told.get("opening", ""), tuple(told.get("unless", ())))


def kind_of(order: dict[str, Any], environ: dict[str, str]) -> Kind:
    """What decides how a process of this order starts; of the program only its name."""
    deciding = {name: order.get(name) for name in ("argv", "results", "limits", "ahead")}
    file = {**order["file"], "text": ""} if "file" in order else None
    return Kind({**deciding, "file": file}, environ)


class Spares(Generic[Held]):
    """The one of a worker, if there is one."""

    def __init__(self, children: Children) -> None:
        self._children = children
        self._waiting: Spare[Held] | None = None
        self._last: Kind | None = None
        self._repeated = False

    def take(self, kind: Kind) -> Spare[Held] | None:
        """The one that waits, when it is of this kind; the caller's now. One of another kind is ended."""
        if self._waiting is not None and self._waiting.kind != kind:
            self.drop()
        self._repeated, self._last = kind == self._last, kind
        spare, self._waiting = self._waiting, None
        return spare

    def drop(self) -> None:
        """A run of another kind begins."""
        self._last, self._repeated = None, False
        spare, self._waiting = self._waiting, None
        if spare is not None:
            spare.end()
            spare.held.clear()

    def is_wanted(self) -> bool:
        """Whether the same kind was run twice in a row, and none of it is waiting."""
        return self._repeated and self._waiting is None

    def start(self, kind: Kind, way: Way, argv: list[str], held: Held) -> None:
        """Start one. `held` is kept for it.

        Raises:
            OSError: It cannot be started.
        """
        gate = Gate() if way.startup_file is None else Fifo()
        environ = kind.environ if isinstance(gate, Gate) else {**kind.environ, str(way.startup_file): gate.path}
        try:
            pid = self._children.start(argv, environ, gate.descriptors)
            try:
                alive = os.pidfd_open(pid)
            except OSError:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                raise
        except OSError:
            gate.close()
            raise
        gate.was_given()
        self._waiting = Spare(pid, kind, argv, held, alive, gate)
