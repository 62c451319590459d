"""Decoding what a guest has sent, beside the event loop and one piece after another.

A thread that decodes keeps the interpreter's lock for up to a switch interval (5 ms, `sys.setswitchinterval`) each time
that the loop wants it, and longer while it collects garbage. Several at once make the loop wait for each of them:
four calls of a tool with 95,000 values held it up for 160 to 310 ms, and one after another for 40 to 55.
Under that lock they would not have been done sooner.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from typing import Final, TypeVar

from groundbox.sandbox.threads import FairThreads

T = TypeVar("T")

_Threads = weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, FairThreads]
_MESSAGES: Final = _Threads()
_TRACES: Final = _Threads()
"""Of each event loop; they end with their loop. A process made by fork has loops, and so threads, of its own."""


def decoded(function: Callable[..., T], *arguments: object) -> asyncio.Future[T]:
    """What `function` makes of `arguments`, which are of a message; it takes its turn with those of all sandboxes.

    Cancelling takes it back while it waits; once begun it goes on, and the next one waits for it all the same.
    """
    return _in_turn(_MESSAGES, function, *arguments)


def decoded_trace(function: Callable[..., T], *arguments: object) -> asyncio.Future[T]:
    """The same for traces, which take seconds: no message waits for one."""
    return _in_turn(_TRACES, function, *arguments)


def _in_turn(threads: _Threads, function: Callable[..., T], *arguments: object) -> asyncio.Future[T]:
    loop = asyncio.get_running_loop()
    thread = threads.get(loop)
    if thread is None:
        thread = threads[loop] = FairThreads(1, share=1, name="groundbox-decoding")
    return loop.run_in_executor(thread, function, *arguments)
