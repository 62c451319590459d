"""Drivers that block, waited for from the event loop: in threads of their own, which nothing else waits behind."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any


async def in_thread(work: Callable[[], Any], called: str) -> Any:
    """What a function gives in a thread of that name; when the caller is cancelled, the thread is left alone.

    Not in the loop's own threads, of which there are few, and a query may take all of its time.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except Exception as raised:  # handed to whoever waits
            error = raised
        tell(loop, done, result, error)

    threading.Thread(target=run, name=called, daemon=True).start()
    return await done


def tell(
    loop: asyncio.AbstractEventLoop, done: asyncio.Future[Any], result: Any, error: BaseException | None = None
) -> None:
    """Hand over from a thread what a future waits for; nobody may wait any more."""

    def finish() -> None:
        if done.done():
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(error)

    with contextlib.suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(finish)
