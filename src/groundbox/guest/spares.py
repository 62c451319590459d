"""Spares: a program's interpreter, started before the program is there.

Starting an interpreter takes longer than many programs do. A sandbox that was twice asked for the same kind of run
has a process started for the third while the host looks at the second's result. It waits at its gate, which it has to
pass before anything else: its standard input, or a pipe that a startup file of ours reads a line from.
Who lets it pass need not wait until it is there.
Where a run followed the one before it sooner than the process was ready, the next is started before the result is told.

Where the kernel can keep the two apart (apart.py), and it has no folder, it starts beside the one that runs.

It is used for a run only that would start a process with the same arguments, environment and limits.
Before a run of another kind it is ended, and none is started beside what may live on between runs.
"""

import contextlib
import errno
import fcntl
import functools
import os
import select
import signal
from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from .apart import Starter, Turns
from .children import Children

GATE, SAID, OUTPUT, ERRORS, STARTUP = 5, 6, 7, 8, 9
"""What a process with a startup file has besides 0 to 2: where it is to read a line before it goes on, what it has
written to 1 and 2 until then, the streams that it is to make its own, and the startup file."""
_GO_ON = "\n"
_LOADING = ("LD_*", "LOCPATH", "GCONV_PATH", "NLSPATH")
"""Variables that name what is read at the start, and might be written by then only."""
_MANY = 32
"""Of so many processes that a sandbox may have, the three that it takes to keep programs apart are not missed."""


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
        opening: What it is to read in that file, with the descriptors of this module. It must not go on where there
            is no line to be read at the gate, since its worker is gone then.
        unless: Names of variables, and with a `*` their beginnings, with which it would not wait. None waits either
            where a variable names what the start of any program reads.
    """

    startup_file: str | None
    opening: str
    unless: tuple[str, ...]

    def suits(self, environ: Mapping[str, str]) -> bool:
        """Whether no variable keeps it from reading at its gate first."""
        names = (*self.unless, *_LOADING)
        exact = {name for name in names if not name.endswith("*")}
        starts = tuple(name[:-1] for name in names if name.endswith("*"))
        same_user = os.getuid() == os.geteuid() and os.getgid() == os.getegid()
        return same_user and not any(name in exact or name.startswith(starts) for name in environ)


class Kind(NamedTuple):
    """What has to be the same for a process to serve another run."""

    order: dict[str, Any]
    environ: dict[str, str]


class Gate:
    """What a process waits for, and the descriptors that it has besides its streams."""

    def __init__(self, way: Way) -> None:
        """Raises OSError."""
        self._given: dict[int, int] = {}
        self._writer = -1
        try:
            reader, self._writer = os.pipe2(os.O_CLOEXEC)
            self._give(0 if way.startup_file is None else GATE, reader)
            os.set_blocking(self._writer, False)
            if way.startup_file is not None:
                self._give_startup_file(way.opening)
        except OSError:
            self.close()
            raise

    @property
    def descriptors(self) -> dict[int, int]:
        """What the process gets: its number of each to ours, in the order they are to be made in."""
        if SAID not in self._given:
            return self._given
        return {OUTPUT: 1, ERRORS: 2, **self._given}

    def was_given(self) -> None:
        """The process has its ends."""
        for descriptor in set(self._given.values()):
            os.close(descriptor)
        self._given = {}

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
        self.was_given()
        if self._writer >= 0:
            os.close(self._writer)
            self._writer = -1

    def _give_startup_file(self, opening: str) -> None:
        content = opening.encode("utf-8")
        reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            self._give(STARTUP, reader)
            if os.write(writer, content) < len(content):
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        finally:
            os.close(writer)
        reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)  # who writes more than it holds must not wait
        self._give(SAID, reader)
        self._give(1, writer)
        self._given[2] = self._given[1]

    def _give(self, number: int, descriptor: int) -> None:
        """Take ownership, under a number that is none of the process's own."""
        try:
            self._given[number] = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, STARTUP + 1)
        finally:
            os.close(descriptor)


def _share(pid: int) -> tuple[int, int, set[int]] | None:
    """How a process is given the processors; 0 for this thread. None when it is gone."""
    try:
        return os.getpriority(os.PRIO_PROCESS, pid), os.sched_getscheduler(pid), os.sched_getaffinity(pid)
    except ProcessLookupError:
        return None


def _has_ended(alive: int) -> bool:
    watch = select.poll()
    watch.register(alive, select.POLLIN)
    return bool(watch.poll(0))


class Spare(NamedTuple, Generic[Held]):
    """A process that waits at its gate, with what is held for it."""

    pid: int
    kind: Kind
    way: Way
    argv: list[str]
    held: Held
    alive: int
    gate: Gate
    is_apart: bool

    def goes_on(self, text: str) -> bool:
        """Let it go on, with the program's text where that is what it waits for; False if it cannot be used."""
        if self.is_apart and _share(self.pid) != _share(0):  # who has the same user may change it
            return False
        content = text if self.way.startup_file is None else _GO_ON
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

    def __init__(self, children: Children, apart: int) -> None:
        """Args:
        apart: What keeps programs apart; -1 where nothing does.
        """
        self._children = children
        self._turns: Turns[Spare[Held]] = Turns(apart)
        self._waiting: Spare[Held] | None = None
        self._coming: tuple[Starter[Spare[Held]], Held] | None = None
        self._last: Kind | None = None
        self._repeated = False

    @property
    def waiting(self) -> Spare[Held] | None:
        """The one that waits."""
        if self._coming is not None:
            (starter, held), self._coming = self._coming, None
            try:
                self._waiting = starter.answer()
            except OSError:
                held.clear()
        return self._waiting

    @property
    def is_one_there(self) -> bool:
        """Whether one waits, or comes."""
        return self._waiting is not None or self._coming is not None

    def take(self, kind: Kind) -> Spare[Held] | None:
        """The one that waits, when it is of this kind; the caller's now. One of another kind is ended."""
        if self.waiting is not None and self.waiting.kind != kind:
            self.end()
        self._repeated, self._last = kind == self._last, kind
        spare, self._waiting = self._waiting, None
        return spare

    def drop(self) -> None:
        """A run of another kind begins."""
        if self._last is None:  # nothing was taken since, so that nothing was started
            return
        self._last, self._repeated = None, False
        self.end()
        self._turns.end()

    def end(self) -> None:
        """End the one that waits."""
        spare, self._waiting = self.waiting, None
        if spare is not None:
            spare.end()
            spare.held.clear()

    def begin_other(self) -> None:
        """A process is started that is none of these: there was none, or it could not be used."""
        self._turns.end()

    def is_wanted(self) -> bool:
        """Whether the same kind was run twice in a row, and none of it is waiting."""
        return self._repeated and not self.is_one_there

    def start(self, kind: Kind, way: Way, argv: list[str], held: Held) -> None:
        """Start one, apart from other programs where that can be, and do not wait for it then. `held` is kept for it.

        Where it cannot be started there is none, and `held` is cleared.
        """
        count = kind.order["limits"].get("process_count")
        apart = self._turns.are_there and (count is None or count >= _MANY)
        order = functools.partial(self._begin, kind, way, argv, held, apart)
        try:
            if apart:
                self._coming = self._turns.order(order), held
            else:
                self._waiting = order()
        except OSError:
            held.clear()

    def _begin(self, kind: Kind, way: Way, argv: list[str], held: Held, apart: bool) -> Spare[Held]:
        gate = Gate(way)
        file = {} if way.startup_file is None else {way.startup_file: f"/proc/self/fd/{STARTUP}"}
        try:
            pid = self._children.start(argv, {**kind.environ, **file}, gate.descriptors)
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
        return Spare(pid, kind, way, argv, held, alive, gate, apart)
