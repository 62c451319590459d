"""The code that a template's workers run: its interface, and its import by the name that the host gives.

The template is part of the trusted base and the guest's code is not, so neither imports the other. The host's order
names a module (`Recipe.guest`); `groundbox.guest.entry` is the one that sandboxes use.
"""

import importlib
import socket
from collections.abc import Callable, Mapping
from typing import Any, Protocol


class Cells(Protocol):
    """The runner of cells, which is made before the first fork and used in each worker."""

    def warm_up(self) -> None:
        """Do once, before the first fork, whatever would make a first cell slow."""

    def after_fork(self) -> None:
        """Reset what a fork has to reset."""

    def prepare_launch(self) -> None:
        """Prepare for `after_launch`, shortly before the launchers start."""

    def after_launch(self) -> None:
        """Reset what a fork resets by itself and a raw clone does not."""

    def forget(self) -> None:
        """Drop what the cells so far have defined."""


class GuestWorker(Protocol):
    """A worker from the inside: it carries out the host's orders until the host closes the socket."""

    def attach(self) -> None:
        """Become the worker whose orders the cells carry out."""

    def can_be_copied(self, park_at: int, /) -> None:
        """Let the worker be parked by the program at this address."""

    def ready(self, descriptors: list[int], /) -> None:
        """Report to the host that the jail is complete, and hand over these descriptors."""

    def copy(self, prepare: Callable[[], None], /) -> None:
        """Copy the process before any guest code has run in it; call `prepare` in the copy."""

    def start_resident(self, order: dict[str, Any], /) -> None:
        """Start the waiting process of a language."""

    def serve(self) -> None:
        """Carry out orders until the host closes the socket."""


class Wire(Protocol):
    """The host's end of a worker's socket, for an order of the template's own."""

    def send(self, message: Mapping[str, Any], /) -> None:
        """Send one message."""


class GuestCode(Protocol):
    """What a template calls. A module is enough, with these as functions and classes."""

    @property
    def Worker(self) -> Callable[..., GuestWorker]:
        """Make a worker of a socket, with the arguments that `serve` passes."""

    @property
    def Wire(self) -> Callable[[socket.socket], Wire]:
        """Make the other end of a worker's socket."""

    def cells(self, *, ipython: bool, tracer: str) -> Cells:
        """Return the runner of cells. `tracer` is the file of the native tracer, or ""."""

    def limit_libraries(self) -> None:
        """Let libraries respect limits that they cannot see without a mount namespace."""

    def limit_memory(self, memory_bytes: int, /) -> None:
        """Let libraries see this much memory as that of the machine."""

    def rehearse_tracing(self) -> None:
        """Do without effect what the start of a trace does, if the tracer is loaded."""

    def start_keys(self) -> None:
        """Draw new keys for random numbers."""


def load(name: str) -> GuestCode:
    """Import the module of this name, inside the outer jail."""
    code: GuestCode = importlib.import_module(name)
    return code
