"""Keepers: processes that the template made of itself and that do nothing but carry out its orders.

A keeper waits in sealed machine code: that of a sandbox that can be copied (branches.py), or the launcher
(launching.py). It shares the template's descriptors, and all that is told and heard goes through those of fixed numbers
(`sealed.Slot`). Orders of one set of numbers are carried out one at a time, and while one is, the template serves
others.
"""

import collections
import contextlib
import errno
import os
import select
import signal
import struct
from collections.abc import Callable, Generator, Sequence
from typing import Final, NamedTuple

from groundbox.jail import kernel
from groundbox.jail.sealed import Order, Slot

SHARING: Final = 0x400
"""CLONE_FILES."""
_ONE: Final = struct.pack("=Q", 1)


class Keeper:
    """One of them, with the guest that it was made for, or by itself."""

    def __init__(self, pid: int, pidfd: int, wake: int) -> None:
        self.pid, self.pidfd, self.wake = pid, pidfd, wake
        self.alive = True

    def end(self) -> None:
        """Ask for its end; it is heard of through `pidfd`."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)


class Asked(NamedTuple):
    """What a keeper is told. `wake` is the eventfd of the one that it makes."""

    keeper: Keeper
    order: Order
    uid: int = 0
    wake: int = 0


Steps = Generator[Asked, int, None]
"""Orders one after the other. Each gives what the keeper answered; KernelRefused is thrown in where it did not."""


class Keepers:
    """Those of one set of numbers, and the orders that wait for them."""

    def __init__(
        self,
        poll: select.poll,
        ended: Callable[[Keeper], None],
        others: Callable[[], set[int]],
        *,
        shift: int = 0,
    ) -> None:
        """Args:
        ended: Told of each keeper that has ended.
        others: All children of this process that are no keepers of these.
        shift: What is added to the numbers of descriptors: 0 or `sealed.BIRTHS`.

        Raises:
            OSError: A number that is needed is taken.
        """
        self.shift = shift
        self._poll = poll
        self._ended = ended
        self._others = others
        self._keepers: dict[int, Keeper] = {}
        self._waiting: collections.deque[Steps] = collections.deque()
        self._current: Steps | None = None
        self._asked: Asked | None = None
        self._take_numbers()

    @property
    def pids(self) -> set[int]:
        """Of all keepers."""
        return {keeper.pid for keeper in self._keepers.values()}

    @property
    def waiting(self) -> int:
        """Orders that wait for others."""
        return len(self._waiting)

    def handles(self, descriptor: int) -> bool:
        """Whether an event of this descriptor is for `handle`."""
        return descriptor == Slot.DONE + self.shift or descriptor in self._keepers

    def take(self, steps: Steps) -> None:
        """Carry out these orders when those before are done."""
        self._waiting.append(steps)
        if self._current is None:
            self._next()

    def adopt(self, pid: int, pidfd: int, wake: int) -> Keeper:
        """A keeper that was just made."""
        keeper = self._keepers[pidfd] = Keeper(pid, pidfd, wake)
        self._poll.register(pidfd, select.POLLIN)
        return keeper

    def place(self, sock: int, out: int, err: int, network: int | None, join: Sequence[int]) -> None:
        """Put descriptors where the next guest, or the next copy, finds them."""
        for descriptor, slot in ((sock, Slot.SOCKET), (out, Slot.OUT), (err, Slot.ERR)):
            os.dup2(descriptor, slot + self.shift, inheritable=False)
        if network is not None:
            os.dup2(network, Slot.NETWORK + self.shift, inheritable=False)
        for place, descriptor in enumerate(join):
            os.dup2(descriptor, Slot.JOIN + place + self.shift, inheritable=False)

    def clear(self) -> None:
        """Hold none of them any longer: who reads from them waits for the last writer to go."""
        for number in (Slot.SOCKET, Slot.OUT, Slot.ERR, Slot.NETWORK, *range(Slot.JOIN, Slot.JOIN_LAST + 1)):
            os.dup2(Slot.NULL + self.shift, number + self.shift, inheritable=False)

    def handle(self, descriptor: int) -> None:
        """Something has happened to a descriptor of ours."""
        if descriptor == Slot.DONE + self.shift:
            if self._is_answered() and self._asked is not None:
                self._go_on(os.lseek(Slot.RESULT + self.shift, 0, os.SEEK_CUR))
            return
        keeper = self._keepers.pop(descriptor)
        self._poll.unregister(descriptor)
        os.waitpid(keeper.pid, 0)
        os.close(keeper.pidfd)
        os.close(keeper.wake)
        keeper.alive = False
        if self._asked is not None and self._asked.keeper is keeper:
            if self._is_answered():  # before it ended; nobody may take that for the answer to another order
                self._go_on(os.lseek(Slot.RESULT + self.shift, 0, os.SEEK_CUR))
            else:
                self._end_unheard_of()
                self._go_on(0)
        self._ended(keeper)

    def _is_answered(self) -> bool:
        """Take back the word that an order is carried out, if it was given."""
        try:
            os.read(Slot.DONE + self.shift, 8)
        except BlockingIOError:
            return False
        return True

    def _end_unheard_of(self) -> None:
        """End what a keeper has made and could not tell of any more: it would wait at a number that is another's soon,
        and carry out that one's orders.
        """
        known = self.pids | self._others()
        for pid in _children() - known:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)

    def _next(self) -> None:
        while self._waiting and self._current is None:
            self._current = self._waiting.popleft()
            self._advance(None)

    def _go_on(self, result: int) -> None:
        self._asked = None
        self._advance(result)
        self._next()

    def _advance(self, result: int | None) -> None:
        """Let the current steps ask for more; where a keeper has nothing to answer, they hear so."""
        assert self._current is not None
        while True:
            try:
                if result == 0:
                    asked = self._current.throw(kernel.KernelRefused(0, "the kernel refused the copy, or it has ended"))
                else:
                    asked = self._current.send(result)  # type: ignore[arg-type]
            except StopIteration:
                self._current = None
                return
            if asked.keeper.alive:
                break
            result = 0
        for slot, offset in ((Slot.ORDER, asked.order), (Slot.USER, asked.uid), (Slot.WAKE, asked.wake)):
            os.lseek(slot + self.shift, offset, os.SEEK_SET)
        os.lseek(Slot.RESULT + self.shift, 0, os.SEEK_SET)
        self._asked = asked
        os.write(asked.keeper.wake, _ONE)

    def _take_numbers(self) -> None:
        numbers = set(range(Slot.FLAGS + self.shift, Slot.LAST_OWN + self.shift + 1))
        if taken := {*map(int, os.listdir("/proc/self/fd"))} & numbers:
            raise OSError(errno.EBUSY, f"descriptors {sorted(taken)} are taken")
        nothing = Slot.NULL + self.shift
        _move(os.open("/dev/null", os.O_RDWR), nothing)
        for number in numbers - {nothing}:  # none is given to anything else
            os.dup2(nothing, number, inheritable=False)
        for slot in (Slot.FLAGS, Slot.ERROR, Slot.ORDER, Slot.USER, Slot.WAKE, Slot.RESULT):
            _move(os.memfd_create("groundbox-slot"), slot + self.shift)
        _move(os.eventfd(0, os.EFD_NONBLOCK), Slot.DONE + self.shift)
        self._poll.register(Slot.DONE + self.shift, select.POLLIN)


def held(pid: int) -> int:
    """A pidfd of a child that was just made; where there is none to be had, the child is ended.

    Raises:
        OSError: No descriptor is left.
    """
    try:
        return os.pidfd_open(pid)
    except OSError:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise


def _children() -> set[int]:
    """Processes whose parent we are."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
            if int(file.read().rpartition(b")")[2].split()[1]) == os.getpid():
                found.add(int(pid))
    return found


def _move(descriptor: int, number: int) -> None:
    os.dup2(descriptor, number, inheritable=False)
    os.close(descriptor)
