"""What somebody beside a run, such as the tool bridge, may do to it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from groundbox.errors import WireError
from groundbox.result_parts import Failure
from groundbox.sandbox.deadline import Deadline

if TYPE_CHECKING:
    from groundbox.jail.cgroup import Cgroup
    from groundbox.sandbox.gvisor import InnerGroup
    from groundbox.sandbox.report import Report


class Companion(Protocol):
    """Somebody who is told when a run begins, with its control, and when it has ended."""

    def begin(self, control: RunControl) -> None:
        """The order is out."""

    def end(self) -> None:
        """The run is over; the control must not be used any more."""


class RunControl:
    """One run's handles."""

    def __init__(
        self,
        report: Report,
        deadline: Deadline,
        cgroup: Cgroup | InnerGroup | None,
        *,
        end: Callable[[bool | None], None],
    ) -> None:
        """Args:
        end: Ends the run: True to interrupt it first, False to let it end by itself for a moment, None for at once.
        """
        self._report = report
        self._deadline = deadline
        self._cgroup = cgroup
        self._end = end
        self._frozen = 0

    def pause(self, *, held: bool = False) -> None:
        """Let the wall clock stand still; see Deadline."""
        self._deadline.pause(held=held)

    def resume(self, *, held: bool = False) -> None:
        """Undo one `pause`."""
        self._deadline.resume(held=held)

    def allow(self, seconds: float) -> None:
        """For how long in all it may stand still."""
        self._deadline.allow(seconds)

    def violate(self, violation: WireError) -> None:
        """The guest broke the protocol: nothing that it says counts from here on, and all of it is ended."""
        self._report.violation = violation
        self._report.done = None
        self._end(None)

    def stop(self, failure: Failure, *, interrupt: bool) -> None:
        """End the run with a failure that has a name."""
        self._report.stopped = failure
        self._end(interrupt)

    def freeze(self, frozen: bool) -> None:
        """Let no process of the guest run until this is undone; without effect where the kernel cannot (version 1)."""
        before = self._frozen
        self._frozen += 1 if frozen else -1
        if self._cgroup is not None and bool(before) != bool(self._frozen):
            with contextlib.suppress(OSError):
                self._cgroup.freeze(frozen)
