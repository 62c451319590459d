"""Patience: a bound on the processor time that one item may take in this process."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class Impatient(BaseException):
    """The time is up. Not an Exception, so that what is interrupted does not take it for a fault of its own."""


@contextlib.contextmanager
def at_most(cpu_s: float) -> Iterator[None]:
    """Raise Impatient once so many seconds of this process's processor time have passed.

    Signals are handled by the main thread alone; in another one nothing is bounded.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    earlier = signal.signal(signal.SIGVTALRM, _stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, cpu_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, earlier)


def _stop(number: int, frame: FrameType | None) -> None:
    raise Impatient
