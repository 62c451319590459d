"""How a command ends when someone else ends it: the sandbox is taken down first.

SIGTERM and SIGHUP would end Python at once and leave control groups behind until the next start.
A reader of our output that has gone (`| head -1`) is our failure to deliver, not the guest's:
click would end with 1, which says that the guest failed.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

WE_FAILED: Final = 3


def ends_tidily(command: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a command so that it ends with 128 + N by signal N, and with 3 when its reader has gone."""

    @functools.wraps(command)
    def call(**given: Any) -> Any:
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _leave)
        try:
            return command(**given)
        except BrokenPipeError:
            # Whatever is still buffered would fail once more when Python ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(WE_FAILED)

    return call


def _leave(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)
