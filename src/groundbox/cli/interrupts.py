"""Programs that are told of the signals of a command, so that they can end by themselves."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final, TypeVar

from groundbox.cli.ending import GRACE_S, Ended
from groundbox.sandbox.sandbox import AsyncSandbox

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_Result = TypeVar("_Result")


class Heed:
    """The signals that come while a program runs."""

    def __init__(self) -> None:
        self.box: AsyncSandbox | None = None
        self.came = 0

    @contextlib.contextmanager
    def signals(self, task: asyncio.Task[Any]) -> Iterator[None]:
        """Take them while it is entered; what is ignored, as by nohup, stays ignored."""
        loop = asyncio.get_running_loop()
        former = {number: signal.getsignal(number) for number in _SIGNALS}
        taken = [number for number, handler in former.items() if handler is not signal.SIG_IGN]
        for number in taken:
            loop.add_signal_handler(number, self._take, number, task)
        try:
            yield
        finally:
            for number in taken:
                loop.remove_signal_handler(number)
                signal.signal(number, former[number])

    def _take(self, number: int, task: asyncio.Task[Any]) -> None:
        first, self.came = not self.came, number
        if first and self.box is not None and self.box.interrupt():
            asyncio.get_running_loop().call_later(GRACE_S, task.cancel)
        else:
            task.cancel()


def run_heeding_signals(work: Callable[[Heed], Coroutine[Any, Any, _Result]]) -> tuple[_Result, int]:
    """Like `asyncio.run`, but a first SIGINT, SIGTERM or SIGHUP interrupts the program of the sandbox.

    Its `finally` blocks run, and there is a result. What does not heed it within GRACE_S is ended, as is what has
    not begun, and all by a second signal.

    Args:
        work: Is given what to tell the sandbox to.

    Returns:
        What `work` returned, and the number of the signal that came, or 0.

    Raises:
        Ended: There is no result, because of the signal.
    """

    heed = Heed()

    async def main() -> _Result:
        task = asyncio.ensure_future(work(heed))
        with heed.signals(task):
            return await task

    try:
        return asyncio.run(main()), heed.came
    except asyncio.CancelledError:
        if heed.came:
            raise Ended(heed.came) from None
        raise


def run_until_signal(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Like `asyncio.run`, but SIGINT, SIGTERM and SIGHUP cancel the work, as none of its tasks sees them otherwise.

    A handler that raises does so wherever the loop happens to be, and whichever task that was tells it as its fault.

    Raises:
        Ended: A signal came.
    """
    result, came = run_heeding_signals(lambda _: work)
    if came:
        raise Ended(came)
    return result
