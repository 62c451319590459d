"""Network namespaces that ended workers have left, empty, for the next ones.

Making one and taking it down again costs the kernel as much as the rest of a worker's namespaces together, five times
over. A worker without network has one that it can neither change nor fill: it holds no capability, the loopback is
down, and seccomp lets it make sockets of the family UNIX alone. Of those only what is in use at this moment
shows in a namespace, and /proc/net/unix lists it, also a socket that nobody but the kernel holds any more. So one
whose worker has ended, and in which no socket is left, is like a new one; a worker has it for itself while it lives.
Where a layer was waived, or a network is there, every worker gets a new one.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from groundbox.jail import enter, namespaces

_MOST_SPARE: Final = 16
_SELF: Final = "/proc/self/ns/net"
_SOCKETS: Final = "/proc/self/net/unix"


class Networks:
    """Owns the descriptors of all namespaces that may be used again, lent ones included."""

    def __init__(self, plan: enter.Plan) -> None:
        self._usable = plan.backend == enter.NAMESPACES and not plan.waive
        self._spare: list[int] = []
        self._home = os.open(_SELF, os.O_RDONLY | os.O_CLOEXEC) if self._usable else -1

    def usable(self, network: str) -> bool:
        """Whether a worker with this network may have one of ours."""
        return self._usable and network == "off"

    @contextmanager
    def lent(self) -> Iterator[int]:
        """Be, while this lasts, in a namespace that nobody else is in. The descriptor stays ours.

        Raises:
            OSError: None could be made.
        """
        try:
            network = self._enter_spare()
            network = _enter_new() if network is None else network
            try:
                yield network
            except OSError:
                self.returned(network)
                raise
        finally:
            namespaces.enter(self._home, namespaces.NEWNET)

    def returned(self, network: int) -> None:
        """The worker that had it has ended, and with it every process of its pid namespace."""
        if len(self._spare) < _MOST_SPARE:
            self._spare.append(network)
        else:
            os.close(network)

    def _enter_spare(self) -> int | None:
        while self._spare:
            network = self._spare.pop()
            namespaces.enter(network, namespaces.NEWNET)
            if _is_empty():
                return network
            os.close(network)
        return None


def _enter_new() -> int:
    namespaces.unshare(namespaces.NEWNET)
    return os.open(_SELF, os.O_RDONLY | os.O_CLOEXEC)


def _is_empty() -> bool:
    """Whether the list of sockets has nothing but its heading."""
    file = os.open(_SOCKETS, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, 1024).count(b"\n") == 1
    finally:
        os.close(file)
