"""Network namespaces without a network, each lent to one worker at a time.

Making one and taking it apart costs the kernel a sixth of a short run. A worker without a network makes no socket but
of the family UNIX (the narrow filter of jail/seccomp.py), and has no capability to change a setting; so nothing of it
can stay behind in its namespace but such sockets, and those are looked for before the next worker comes in.
See network_namespaces(7), unix(7).
"""

import os
from typing import Final

from groundbox.jail import namespaces

_MOST_IDLE: Final = 32


class Networks:
    """Those that no worker is in. The calling process goes into each that it lends, and its next child is there."""

    def __init__(self) -> None:
        self._idle: list[int] = []

    def enter_one(self) -> int:
        """Go into a namespace that is as empty as a new one.

        Returns:
            A descriptor of it. Give it back when every process that was born in it has ended.
        """
        while self._idle:
            descriptor = self._idle.pop()
            namespaces.enter(descriptor, namespaces.NEWNET)
            if _is_empty():
                return descriptor
            os.close(descriptor)
        namespaces.unshare(namespaces.NEWNET)
        return os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)

    def give_back(self, descriptor: int) -> None:
        """Keep it for another worker, unless many wait already."""
        if len(self._idle) < _MOST_IDLE:
            self._idle.append(descriptor)
        else:
            os.close(descriptor)


def _is_empty() -> bool:
    """Whether the namespace that we are in has no socket: one may be on its way in a message, or held by somebody."""
    with open("/proc/self/net/unix", "rb") as file:
        return file.read().count(b"\n") == 1
