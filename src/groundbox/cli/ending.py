"""How a command ends when someone else ends it: the sandbox is taken down first, and one line says so.

SIGTERM and SIGHUP would end Python at once and leave control groups behind until the next start.
A reader of our output that has gone (`| head -1`) is our failure to deliver, not the guest's:
click would end with 1, which says that the guest failed.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final

WE_FAILED: Final = 3


class Ended(SystemExit):
    """The command was ended by a signal; exits with 128 and its number."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = signal.Signals(number)
        self._told = False

    def tell(self, more: str = "") -> None:
        """Say on stderr, once, what ended the command."""
        if not self._told:
            word = "interrupted" if self.number is signal.SIGINT else f"ended by {self.number.name}"
            say(f"{word}. {more}" if more else word)
        self._told = True


def ends_tidily(command: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a command so that it ends with 128 + N by signal N, and with 3 when its reader has gone."""

    @functools.wraps(command)
    def call(**given: Any) -> Any:
        with tidy_end():
            code = command(**given)
            sys.stdout.flush()  # what cannot be written is told here; when Python ends it would be status 120
            return code

    return call


@contextlib.contextmanager
def tidy_end() -> Iterator[None]:
    """Leave by 128 + N on signal N after a line about it, and by 3 when our reader has gone."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _leave)
    try:
        yield
    except KeyboardInterrupt:
        end = Ended(signal.SIGINT)
        end.tell()
        raise end from None
    except Ended as end:
        end.tell()
        raise
    except BrokenPipeError:
        give_up_output()
        sys.exit(WE_FAILED)


def give_up_output() -> None:
    """Send what is still buffered nowhere; it would fail once more when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say(words: str) -> None:
    """A line on stderr, if anybody reads that."""
    with contextlib.suppress(OSError, ValueError):
        print(f"groundbox: {words}", file=sys.stderr, flush=True)


def _leave(number: int, _: FrameType | None) -> None:
    raise Ended(number)
