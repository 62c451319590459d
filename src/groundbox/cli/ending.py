"""How a command ends when someone else ends it: the sandbox is taken down first, and one line says so.

SIGTERM and SIGHUP would end Python at once and leave control groups behind until the next start.
A reader of our output that has gone (`| head -1`) is our failure to deliver, not the guest's:
click would end with 1, which says that the guest failed.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final

from groundbox.cli.terminal import one_line
from groundbox.errors import GroundboxError

WE_FAILED: Final = 3

GRACE_S: Final = 2.0
"""From our interrupt to the end of a program that does not heed it: as long as its `finally` may take."""


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


@contextlib.contextmanager
def can_go_on(out: Path, done: str, before: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Say that nothing is lost, where work that goes on by itself is stopped, the disk is full, or the endpoint gone.

    Args:
        out: The folder in which the work is kept.
        done: How what is kept is called, such as "answered".
        before: Called before anything is said, such as to end a line of progress.
    """
    from groundbox.endpoint.chat import EndpointFailed

    kept = f"What was {done} is kept in {out}; the same command goes on from there."
    try:
        yield
    except (KeyboardInterrupt, Ended) as stop:
        before()
        end = stop if isinstance(stop, Ended) else Ended(signal.SIGINT)
        end.tell(kept)
        raise end from None
    except EndpointFailed as error:
        before()
        raise EndpointFailed(f"{one_line(str(error))}\ngroundbox: {kept}") from None
    except OSError as error:
        before()
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise GroundboxError(f"--out: '{out}' cannot be written: {error.strerror}. {kept}") from None


def give_up_output() -> None:
    """Send what is still buffered nowhere; it would fail once more when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say(words: str) -> None:
    """A line on stderr, if anybody reads that."""
    with contextlib.suppress(OSError, ValueError):
        print(f"groundbox: {words}", file=sys.stderr, flush=True)


def _leave(number: int, _: FrameType | None) -> None:
    raise Ended(number)
