"""One run as the host sees it: what is asked of a worker, who hears of it meanwhile, and what is known in the end."""

from __future__ import annotations

import dataclasses
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from groundbox.errors import WireError
from groundbox.result_parts import Failure
from groundbox.sandbox import bundles, wire
from groundbox.sandbox.bundles import Bundle
from groundbox.sandbox.control import Companion
from groundbox.sandbox.output import Output
from groundbox.sandbox.screening import Screen

_MOST_BYTES: Final = 64 * 1024 * 1024
"""Of what a run shows and of its value, as they are held; failures are bounded by wire.decode."""
_MOST_DISPLAYS: Final = 1000
_DISPLAY_BYTES: Final = 1024
_MOST_REASONS: Final = 20
GRACE_S: Final = 0.5


class Load(NamedTuple):
    """What a sandbox holds at one moment, as the kernel counts it.

    Attributes:
        cpu_s: Processor time of all its processes since it began, those that have ended too.
        memory_bytes: Of its processes and its files.
        process_count: Its processes and threads.
    """

    cpu_s: float
    memory_bytes: int
    process_count: int


class Ended(NamedTuple):
    """How the worker's process ended, from its parent's `wait4(2)`.

    Attributes:
        cpu_s: Of the process and all it waited for.
    """

    status: int
    cpu_s: float
    peak_memory_bytes: int

    @property
    def exit_code(self) -> int | None:
        """Set when it ended by itself."""
        return os.WEXITSTATUS(self.status) if os.WIFEXITED(self.status) else None

    @property
    def exit_signal(self) -> int | None:
        """Set when a signal ended it."""
        return os.WTERMSIG(self.status) if os.WIFSIGNALED(self.status) else None


class Listener(NamedTuple):
    """Who hears of a run's events as they come. Called on the event loop; must not wait."""

    output: Callable[[str, bytes], None]
    display: Callable[[wire.Shown], None]
    clear: Callable[[wire.Cleared], None]


class Calls(NamedTuple):
    """Many calls of one run, of which the guest is told the next one when it has answered the last.

    Attributes:
        cases: `args` and `kwargs` of each, as the guest reads them; the order itself has the first one.
        wall_s: Limit of each.
        cpu_s: Limit of each, looked at from time to time.
    """

    cases: Sequence[dict[str, Any]]
    wall_s: float | None = None
    cpu_s: float | None = None


@dataclasses.dataclass
class Order:
    """One run, as the worker is told of it.

    Attributes:
        interrupt_first: At the deadline, try an interrupt before the kill, so that variables may survive.
        grace_s: From that interrupt to the kill.
        screen: Makes of a display what may be shown.
        companion: Is told when the run begins and ends, and may then let its wall clock stand still, or end it.
    """

    frame: dict[str, Any]
    descriptors: Sequence[int]
    wall_s: float | None
    cpu_s: float | None
    output_bytes: int | None
    interrupt_first: bool
    listener: Listener | None = None
    grace_s: float = GRACE_S
    screen: Screen | None = None
    companion: Companion | None = None
    calls: Calls | None = None


class Report:
    """What is known of one run, filled as it goes on.

    Attributes:
        out_of_memory: Whether the kernel killed the program at the sandbox's own memory limit.
        memory_kills: Processes that the kernel killed at that limit.
        host_kills: Processes that the kernel killed for memory of the machine, or of a control group around the
            sandbox.
        stalled_before_s: Time that processes had waited for memory a moment after the run began.
        limit_reached_before: How often the sandbox had been at its own memory limit then.
        starved_s: Time of the run in which processes waited for memory that the sandbox's own limit does not explain; 0
            unless it was half of the run, and the run was at a limit of time.
        disk_was_full: Whether the host's disk, on which the workdir lies, was seen to be full during the run.
    """

    def __init__(self, order: Order) -> None:
        self.begun = time.monotonic()
        self.stdout = Output(order.output_bytes)
        self.stderr = Output(order.output_bytes)
        self.displays: list[dict[str, Any]] = []
        self.dropped_displays = 0
        self.left_out: Counter[str] = Counter()
        self.value: dict[str, Any] | None = None
        self.done: wire.Done | None = None
        self.ended: Ended | None = None
        self.violation: WireError | None = None
        self.stopped: Failure | None = None
        self.timed_out = ""
        self.interrupted = False
        self.out_of_memory = False
        self.memory_kills = 0
        self.host_kills = 0
        self.stalled_before_s: float | None = None
        self.limit_reached_before: int | None = None
        self.starved_s = 0.0
        self.disk_was_full = False
        self.cpu_s: float | None = None
        self.cpu_limit_s = order.cpu_s
        self.watched = order.frame.get("checks") is True
        self.wall_s = 0.0
        self.reading_s = 0.0
        self.calls = order.calls
        self.answers: list[dict[str, Any]] = []
        self.call_begun = self.begun
        self._held_bytes = 0

    def used_up_cpu(self) -> bool:
        """Whether SIGXCPU can have come from the kernel. Anyone can send it; the group's count cannot be talked up."""
        return self.cpu_s is None or (self.cpu_limit_s is not None and self.cpu_s >= self.cpu_limit_s)

    def show(self, bundle: Bundle) -> bool:
        """Keep a display unless there are too many, or nothing in it is what its type says.

        What was shown and cleared counts too: a listener may not have come to it yet.
        """
        self._note(bundle)
        size = bundle.size_bytes + _DISPLAY_BYTES
        over = self._held_bytes + size > _MOST_BYTES or len(self.displays) >= _MOST_DISPLAYS
        if over or (bundle.left_out and not bundle.data):
            self.dropped_displays += 1
            return False
        self._held_bytes += size
        self.displays.append(bundle.data)
        return True

    def answered(self, answer: wire.Answered) -> dict[str, Any] | None:
        """Keep an answer, if it is to the call that is under way; what the guest is to hear, None for nothing.

        After a call that is lost none is under way, whatever else the guest sends.
        """
        if self.calls is None or answer.number != len(self.answers) or answer.number >= len(self.calls.cases):
            return None
        if self.answers and "lost" in self.answers[-1]:
            return None
        now = time.monotonic()
        self._held_bytes += answer.size_bytes
        lost = answer.lost or ("too-large" if self._held_bytes > _MOST_BYTES else "")
        if self.timed_out:  # it has caught the interrupt, and gone on
            lost = "timeout"
        told: dict[str, Any] = {"value": answer.value}
        if lost:
            told = {"lost": lost}
        elif answer.raised:
            told = {"raised": answer.raised, "message": answer.message}
        self.answers.append({**told, "wall_s": round(now - self.call_begun, 6)})
        self.call_begun = now
        if len(self.answers) == len(self.calls.cases):
            return None
        return {"case": None if lost else self.calls.cases[len(self.answers)]}

    def finish(self, done: wire.Done) -> None:
        """Keep what the worker says of the end. Its value has to fit beside the displays."""
        self.done = done
        bundle = done.value
        if bundle is None:
            return
        self._note(bundle)
        if self._held_bytes + bundle.size_bytes > _MOST_BYTES:
            bundle = bundles.note("too large to keep beside what the run has shown; write it to a file instead")
        self._held_bytes += bundle.size_bytes
        self.value = bundle.data if bundle.data or not bundle.left_out else None

    def _note(self, bundle: Bundle) -> None:
        for why in bundle.left_out:
            self.left_out[why if why in self.left_out or len(self.left_out) < _MOST_REASONS else "others"] += 1
