"""The template's side of the launcher: one process, kept running, and the code by which workers enter the jail."""

import contextlib
import json
import os
import socket
from collections import OrderedDict
from collections.abc import Callable, Generator, Sequence
from os import _exit  # by this name, because programs set `os._exit` to what they like
from typing import Any, Final, NoReturn

from groundbox.jail import assembly, enter, kernel, launch
from groundbox.jail.sealed import Order, Slot
from groundbox.template import layout
from groundbox.template.keepers import SHARING, Asked, Keeper, Keepers, held

_of_json: Final = json.JSONDecoder().raw_decode
_MOST_ENTRIES: Final = 64
_STEP: Final = 1 << 16
_SIZES: Final = ("disk_bytes", "file_count", "process_count", "cpu_s", "memory_bytes")


class Launching:
    """Makes all processes of one template that run guests."""

    def __init__(
        self,
        plan: enter.Plan,
        keepers: Keepers,
        be: Callable[[dict[str, Any]], NoReturn],
        *,
        held_bytes: int,
    ) -> None:
        """Start the launcher; call it when nothing but orders is left to do, since it stays as the template is now.

        Args:
            be: Called in each process that the launcher makes, with its order.
            held_bytes: Private memory of this process, as limits count it.

        Raises:
            KernelRefused: The kernel refuses it.
        """
        self._plan = plan
        self._keepers = keepers
        self._be = be
        self._shift = shift = keepers.shift
        self._code = launch.Launcher(shift)
        self._sharing = launch.Entry((), flags=SHARING, shift=shift)
        self._held_bytes = held_bytes
        self._entries: OrderedDict[tuple[Any, ...], launch.Entry] = OrderedDict()
        self._text, theirs = socket.socketpair()
        theirs.close()
        self._keeper = self._started()

    def ended(self, keeper: Keeper) -> None:
        """Of a keeper that has ended: where it was the launcher, start another, now or with the next order."""
        if keeper is self._keeper:
            with contextlib.suppress(OSError):
                self._keeper = self._started()

    def entry(self, order: dict[str, Any]) -> launch.Entry:
        """The way into the jail for a worker of this size."""
        sizes = {name: order[name] for name in _SIZES}
        key = tuple(sizes.values())
        if key not in self._entries:
            self._entries[key] = enter.launched_entry(self._plan, held_bytes=self._held_bytes, **sizes)
        self._entries.move_to_end(key)
        if len(self._entries) > _MOST_ENTRIES:
            self._entries.popitem(last=False)[1].close()
        return self._entries[key]

    def worker(
        self, text: bytes, uid: int, descriptors: Sequence[int], entry: launch.Entry, *, network: int
    ) -> Generator[Asked, int, int]:
        """Make a worker; its process id is returned.

        Args:
            text: The order, as the host sent it.
        """
        return (yield from self._make(text, uid, descriptors, entry, Order.LAUNCH, network))

    def keeper(self, order: dict[str, Any], descriptors: Sequence[int]) -> Generator[Asked, int, int]:
        """Make a process that shares the template's descriptors and is in no jail of its own; its id is returned."""
        text = json.dumps(order).encode()
        return (yield from self._make(text, order["uid"], descriptors, self._sharing, Order.LAUNCH_SHARING, None))

    def _make(
        self,
        text: bytes,
        uid: int,
        descriptors: Sequence[int],
        entry: launch.Entry,
        how: Order,
        network: int | None,
    ) -> Generator[Asked, int, int]:
        """Where the launcher has ended, meanwhile or before, another one is told the same."""
        sock, out, err, *join = descriptors
        self._keepers.place(sock, out, err, network, join)
        os.dup2(entry.descriptor, Slot.PROGRAM + self._shift, inheritable=False)
        os.lseek(Slot.FLAGS + self._shift, entry.flags, os.SEEK_SET)
        for is_last in (False, True):
            if not self._keeper.alive:
                self._keeper = self._started()
            os.lseek(Slot.ERROR + self._shift, 0, os.SEEK_SET)
            self._text.send(launch.as_text(text))
            try:
                return (yield Asked(self._keeper, how, uid=uid))
            except kernel.KernelRefused:
                if error := os.lseek(Slot.ERROR + self._shift, 0, os.SEEK_CUR) % _STEP:
                    raise kernel.KernelRefused(error, f"the launcher: {os.strerror(error)}") from None
                if self._keeper.alive or is_last:
                    raise
        raise AssertionError("unreachable")

    def failure(self, entry: launch.Entry, code: int) -> str:
        """Why a worker ended with this code before it was ready; empty where it says nothing of its way into the jail.

        Workers may fail at the same time, and leave one number where there should be two; then the step is told alone.
        """
        step = code - assembly.FAILED
        if step < 0:
            return ""
        where, error = divmod(os.lseek(Slot.ERROR + self._shift, 0, os.SEEK_CUR), _STEP)
        return entry.failure(step, error if where == step else 0)

    def _started(self) -> Keeper:
        self._text.close()  # it may hold an order that nobody took
        self._text, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            os.dup2(theirs.fileno(), Slot.TEXT + self._shift, inheritable=False)
        wake = os.eventfd(0)
        layout.start_pools()
        try:
            pid, order = self._code.start(wake)
            if pid == 0:
                try:
                    self._be(_of_json(order)[0])
                finally:
                    _exit(1)
            pidfd = held(pid)
        except BaseException:
            os.close(wake)
            raise
        return self._keepers.adopt(pid, pidfd, wake)
