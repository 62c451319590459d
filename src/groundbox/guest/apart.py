"""Apart: processes started so that another program of the sandbox, which has the same user, cannot touch them.

A process that waits for the next program may then be started beside one that runs. Without this the program could
read and write its memory, take its gate out of its descriptors, or end it.

Two Landlock domains take turns, made with a ruleset that the jail has left us: from one of them a process of the other
is neither traced, nor looked into through /proc, nor signalled (landlock(7)). When a program's turn comes, nothing is
left of the one that was in its domain before. The worker's own memory is closed in another way, and limits of others
are read only.

A domain belongs to a thread and to what it starts, and is never left, so each domain has a thread. That is the parent
of what it starts; what a program leaves behind comes to the worker's first thread, which finds it among its own
children, and the process that waits not.

Where both processors are busy with programs, the worker would wait for one of them at every step. As long as it has
programs start beside others, it asks for shorter turns on a processor, and is let in sooner for that (sched(7), EEVDF).
"""

import _thread
import ctypes
import os
import signal
import struct
import time
from collections.abc import Callable
from typing import Generic, TypeVar

_SYSCALL = ctypes.CDLL(None, use_errno=True).syscall
_LANDLOCK_RESTRICT_SELF = 446
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}.get(os.uname().machine, -1)
_SLICE_NS = 100_000
"""The least there is."""
_STACK_BYTES = 1 << 18
_TURNS = 2
_LOOK_S = 0.0002
_MOST_LOOKS = 500
Started = TypeVar("Started")


class Starter(Generic[Started]):
    """A thread with a domain of its own, which starts processes in it."""

    def __init__(self, ruleset: int) -> None:
        """Args:
        ruleset: A descriptor; not ours to close.

        Raises:
            OSError: There is no thread to be had.
        """
        self._ruleset = ruleset
        self._order: Callable[[], Started] | None = None
        self._answer: Started | Exception
        self._ordered = _thread.allocate_lock()
        self._answered = _thread.allocate_lock()
        self._ordered.acquire()
        self._answered.acquire()
        self._thread = 0
        before = _thread.stack_size(_STACK_BYTES)
        try:
            _thread.start_new_thread(self._serve, ())
        except RuntimeError as error:
            raise OSError(str(error)) from None
        finally:
            _thread.stack_size(before)

    def order(self, order: Callable[[], Started]) -> None:
        """Have it carried out. Its answer is to be asked for before the next order."""
        self._order = order
        self._ordered.release()

    def answer(self) -> Started:
        """What the order gave; waits for it.

        Raises:
            OSError: There is no domain to be had.
            Exception: The order's.
        """
        self._answered.acquire()
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    def end(self) -> None:
        """End the thread; the worker's first thread is the parent of what it has started.

        Who has a thread beside it cannot be copied, and the kernel has this one a moment longer than we hear of it.
        """
        self._order = None
        self._ordered.release()
        self._answered.acquire()
        for _ in range(_MOST_LOOKS):
            if not os.path.exists(f"/proc/self/task/{self._thread}"):
                break
            time.sleep(_LOOK_S)

    def _serve(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        self._thread = _thread.get_native_id()
        refused = None
        if _SYSCALL(_LANDLOCK_RESTRICT_SELF, self._ruleset, 0) != 0:
            refused = OSError(ctypes.get_errno(), "a program cannot be kept apart")
        while self._ordered.acquire() and self._order is not None:
            try:
                self._answer = refused or self._order()
            except Exception as failure:  # who asks for the answer hears it
                self._answer = failure
            self._answered.release()
        self._answered.release()


class Turns(Generic[Started]):
    """The two of one worker, made when they are needed."""

    def __init__(self, ruleset: int) -> None:
        """Args:
        ruleset: -1 where programs cannot be kept apart.
        """
        self._ruleset = ruleset
        self._starters: list[Starter[Started]] = []
        self._is_prompt = False

    @property
    def are_there(self) -> bool:
        """Whether programs can be kept apart here."""
        return self._ruleset >= 0

    def order(self, order: Callable[[], Started]) -> Starter[Started]:
        """Have it carried out in the domain whose turn it is, and give whom to ask for the answer.

        Raises:
            OSError: There is no thread to be had.
        """
        while len(self._starters) < _TURNS:
            self._set_prompt(False)  # a thread would inherit it
            self._starters.append(Starter(self._ruleset))
        self._set_prompt(True)
        self._starters.reverse()
        self._starters[0].order(order)
        return self._starters[0]

    def end(self) -> None:
        """Let no other thread be here, and inherit nothing from us. All answers have been asked for."""
        self._set_prompt(False)
        for starter in self._starters:
            starter.end()
        self._starters.clear()

    def _set_prompt(self, prompt: bool) -> None:
        if prompt != self._is_prompt:
            self._is_prompt = prompt
            _ask_for_turns_of(_SLICE_NS if prompt else 0)


def _ask_for_turns_of(slice_ns: int) -> None:
    """For the calling thread and what it will start; 0 for what is usual. Nothing changes where the kernel refuses."""
    if os.sched_getscheduler(0) == os.SCHED_OTHER:
        nice = os.getpriority(os.PRIO_PROCESS, 0)
        attributes = struct.pack("=IIQiIQQQ", 48, os.SCHED_OTHER, 0, nice, 0, slice_ns, 0, 0)
        _SYSCALL(_SCHED_SETATTR, 0, attributes, 0)
