"""Word to the service manager, as sd_notify(3) has it: ready, stopping, a status, and that the event loop turns.

A manager that wants to hear, such as systemd for a unit of `Type=notify`, names a datagram socket in NOTIFY_SOCKET, and
in WATCHDOG_USEC how long it waits for a sign of life before it kills this process and starts another.

A sign of life comes from the event loop that answers requests, at twice the rate that is asked for: a loop that hangs
gives none. That no program can be run is told in the status and at `/readyz`, and withholds no sign: a new start mends
neither a missing layer nor a database of keys that is away, and would end the sandboxes of everybody.

The variables are taken out of the environment, so that nothing which is started here speaks in this server's name.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, MutableMapping
from typing import Final

logger = logging.getLogger(__name__)

_SOCKET: Final = "NOTIFY_SOCKET"
_WATCHDOG_USEC: Final = "WATCHDOG_USEC"
_WATCHDOG_PID: Final = "WATCHDOG_PID"
_LOOK_S: Final = 5.0
"""Between two looks at the status, where no sign of life is due earlier."""


class Manager:
    """Whoever started this process and wants to hear of it; or nobody, and all that is told is dropped."""

    def __init__(self, address: str | None, *, watchdog_s: float | None = None) -> None:
        """Args:
        address: A path, or `@` and a name without a path (unix(7)); None where nobody listens.
        watchdog_s: Seconds without a sign of life after which the manager acts; None for never.
        """
        self._address, self._watchdog_s = address, watchdog_s
        self._untold: dict[str, str] = {}
        self._status = ""
        self._beating: asyncio.Task[None] | None = None

    @classmethod
    def of(cls, environ: MutableMapping[str, str]) -> Manager:
        """The manager that an environment names. Its variables are removed from it."""
        address = environ.pop(_SOCKET, "")
        usec, process = environ.pop(_WATCHDOG_USEC, ""), environ.pop(_WATCHDOG_PID, "")
        if not address:
            return cls(None)
        if not address.startswith(("/", "@")):
            logger.warning("%s is %r, which is no unix socket: the service manager is told nothing", _SOCKET, address)
            return cls(None)
        ours = process in ("", str(os.getpid()))
        return cls(address, watchdog_s=int(usec) / 1e6 if ours and usec.isdecimal() and int(usec) > 0 else None)

    def ready(self, status: Callable[[], str]) -> None:
        """Say that requests are answered, and from now on the status when it changes, and signs of life.

        Args:
            status: One line for people, asked every few seconds.
        """
        if self._address is None:
            return
        self._status = _one_line(status())
        self._tell(READY="1", STATUS=self._status)
        self._beating = asyncio.get_running_loop().create_task(self._beat(status))

    def stopping(self) -> None:
        """Say that the end has come. Signs of life go on while what runs is ended."""
        self._tell(STOPPING="1", STATUS="ending what goes on")
        self._status = ""

    async def _beat(self, status: Callable[[], str]) -> None:
        every_s = _LOOK_S if self._watchdog_s is None else min(_LOOK_S, self._watchdog_s / 2)
        while True:
            told = {} if self._watchdog_s is None else {"WATCHDOG": "1"}
            now = _one_line(status())
            if self._status and now != self._status:
                self._status = told["STATUS"] = now
            self._tell(**told)
            await asyncio.sleep(every_s)

    def _tell(self, **facts: str) -> None:
        """Send without waiting: what a manager that is busy cannot take now goes out with the next word."""
        if self._address is None:
            return
        self._untold |= facts
        if not self._untold:
            return
        message = "".join(f"{name}={value}\n" for name, value in self._untold.items()).encode()
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sending:
                sending.sendto(message, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL, address)
        except BlockingIOError:
            return
        except OSError as error:
            logger.warning("the service manager cannot be told that %s: %s", " ".join(self._untold), error.strerror)
        self._untold.clear()


def _one_line(text: str) -> str:
    """A line break would begin an assignment of its own; a datagram has to be small."""
    return " ".join(text.split())[:500]
