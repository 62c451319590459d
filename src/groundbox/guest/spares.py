"""Spares: a program's interpreter, started before the program is there.

Starting an interpreter takes longer than many programs do. A sandbox that was twice asked for the same kind of run
has a process started for the third while the host looks at the second's result. It waits at its gate, a descriptor
that it reads from before anything else, and goes on when it reads from there what `Way.opening` says, or the program.

It is used for a run only that would start a process with the same arguments, environment and limits.
Before a run of another kind it is ended, so that no other program has it beside it.
"""

import os
import select
import signal
from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from .children import Children


class Clearable(Protocol):
    """What belongs to a process that waits."""

    def clear(self) -> None:
        """It is no longer needed."""


Held = TypeVar("Held", bound=Clearable)


class Way(NamedTuple):
    """How a program's interpreter can be started before the program is there: `ahead` of an order.

    Attributes:
        gate: The descriptor that it reads to the end first.
        opening: What it is to read there; None for the text of the program.
        environ: Added to its environment, so that it does.
        unless: Names of variables, and with a `*` their beginnings, with which it would not do so.
    """

    gate: int
    opening: str | None
    environ: Mapping[str, str]
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


class Spare(NamedTuple, Generic[Held]):
    """A process that waits at its gate, with what is held for it."""

    pid: int
    kind: Kind
    argv: list[str]
    held: Held
    alive: int
    gate: int

    def goes_on(self, text: str) -> bool:
        """Let it read its opening, or the program's text; False if it has ended, or if that is too much at once."""
        watch = select.poll()
        watch.register(self.alive, select.POLLIN)
        if watch.poll(0):
            return False
        opening = self.kind.order["ahead"].get("opening")
        content = (text if opening is None else opening).encode("utf-8")
        try:
            return os.write(self.gate, content) == len(content)
        except (BlockingIOError, BrokenPipeError):
            return False

    def end(self) -> None:
        """End it before its gate closes, which would let it go on."""
        try:
            signal.pidfd_send_signal(self.alive, signal.SIGKILL)
            os.waitid(os.P_PIDFD, self.alive, os.WEXITED)
        except (ProcessLookupError, ChildProcessError):
            pass
        self.close()

    def close(self) -> None:
        """Let go of its descriptors."""
        os.close(self.alive)
        os.close(self.gate)


def way_of(order: dict[str, Any]) -> Way | None:
    """As the order tells it; None where the program has to be there first."""
    told = order.get("ahead")
    if told is None:
        return None
    return Way(told["gate"], told.get("opening"), told.get("environ", {}), tuple(told.get("unless", ())))


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
        reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            os.set_blocking(reader, True)
            pid = self._children.start(argv, {**kind.environ, **way.environ}, {way.gate: reader})
            try:
                alive = os.pidfd_open(pid)
            except OSError:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                raise
            self._waiting = Spare(pid, kind, argv, held, alive, writer)
        except OSError:
            os.close(writer)
            raise
        finally:
            os.close(reader)
