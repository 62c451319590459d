"""The event loop looked at from inside and from outside: how late it is, and whether it runs at all.

A loop that hangs answers nobody, renews no lease and hears no signal. Only another thread can see that. The watchdog
writes what all threads do into the log and ends the process, so that whoever started it starts it again.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Final

EXIT_STATUS: Final = 70
"""EX_SOFTWARE of sysexits.h. systemd starts a unit with `Restart=on-failure` again."""
SILENCE_S: Final = 30.0
_EVERY_S: Final = 0.02


async def keep_measuring(observe: Callable[[float], None]) -> None:
    """Tell how late the loop wakes whoever sleeps, again and again."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + _EVERY_S
        await asyncio.sleep(_EVERY_S)
        observe(max(0.0, loop.time() - due))


class Watchdog:
    """A thread that ends this process if the loop it was started in has not run for too long.

    Time in which the whole process stood still does not count: neither that of a suspended machine nor that of SIGSTOP.
    It shows by the thread's own sleep, which takes longer then. Time under a debugger does not count either.
    """

    def __init__(self, silence_s: float = SILENCE_S) -> None:
        """Args:
        silence_s: Seconds after which the loop is taken for dead.
        """
        self._silence_s, self._every_s = silence_s, silence_s / 30
        self._loop = asyncio.get_running_loop()
        self._of_loop = threading.get_ident()
        self._ticked = self._stopped = False
        self._tick = self._loop.call_later(self._every_s, self._sign)
        self._ending = threading.Event()
        threading.Thread(target=self._watch, name="groundbox-watchdog", daemon=True).start()

    def close(self) -> None:
        """Watch no longer."""
        self._stopped = True
        self._tick.cancel()
        self._ending.set()

    def _sign(self) -> None:
        self._ticked = True
        if not self._stopped:
            self._tick = self._loop.call_later(self._every_s, self._sign)

    def _watch(self) -> None:
        silent_s, before = 0.0, time.monotonic()
        while not self._ending.wait(self._every_s):
            now = time.monotonic()
            slept_s, before = now - before, now
            if self._ticked or is_debugged(self._of_loop):
                self._ticked, silent_s = False, 0.0
            else:
                silent_s += min(slept_s, 2 * self._every_s)
            if silent_s >= self._silence_s:
                self._end(silent_s)

    def _end(self, silent_s: float) -> None:
        # No logging: its locks may be what the loop waits for.
        told = f"groundbox: the event loop has not run for {silent_s:.0f} s; this process ends. All threads:\n"
        os.write(2, told.encode())
        faulthandler.dump_traceback(2, all_threads=True)
        os._exit(EXIT_STATUS)


def is_debugged(thread_id: int) -> bool:
    """Return whether a debugger looks at this process, or at this thread in Python."""
    monitoring = getattr(sys, "monitoring", None)  # since Python 3.12
    if monitoring is not None and monitoring.get_tool(monitoring.DEBUGGER_ID) is not None:
        return True
    frame = sys._current_frames().get(thread_id)
    while frame is not None:
        if frame.f_trace is not None:
            return True
        frame = frame.f_back
    try:
        with open("/proc/self/status", "rb") as status:
            tracer = next((line for line in status if line.startswith(b"TracerPid:")), b"TracerPid: 0")
    except OSError:
        return False
    return int(tracer.split()[1]) != 0
