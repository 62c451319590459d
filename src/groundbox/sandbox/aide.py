"""The host's end of an aide (guest/aide.py): small orders that are carried out while a run goes on.

An order is sent whole and its answer read whole, one after the other, whether its asker still waits or not: a socket
left in the middle of a frame could carry no other order.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import select
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from groundbox.errors import WireError
from groundbox.sandbox import wire
from groundbox.sandbox.descriptors import GuestSocket

if TYPE_CHECKING:
    from groundbox.sandbox.worker import Worker

_PATIENCE_S: Final = 30.0
_READ: Final = 1 << 16


class Aide:
    """The aide of one worker. Belongs to the event loop on which it was started.

    Attributes:
        worker: It ends with this process.
    """

    def __init__(self, worker: Worker, sock: socket.socket) -> None:
        """Takes ownership of the host's end."""
        self.worker = worker
        self._socket = GuestSocket(sock)
        self._socket.refuse_descriptors()
        self._frames = wire.FrameReader()
        self._turn = asyncio.Lock()
        self._numbers = itertools.count(1)
        self._tasks: set[asyncio.Task[wire.Done]] = set()
        self._waiting: asyncio.Future[None] | None = None

    @classmethod
    async def start(cls, worker: Worker) -> Aide | None:
        """Start the aide of a worker that does nothing now; None if its sandbox may have no more processes.

        Raises:
            SandboxLost: The worker is gone.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        aide = cls(worker, ours)
        try:
            done = await worker.order({"op": "aide"}, [theirs.fileno()])
        except BaseException:
            aide.close()
            raise
        finally:
            theirs.close()
        if not done.ok:
            aide.close()
            return None
        return aide

    @property
    def is_alive(self) -> bool:
        """Whether it takes orders: neither it nor its worker has ended."""
        if self._socket.fileno() < 0 or self.worker.has_gone:
            return False
        poll = select.poll()
        poll.register(self._socket.fileno(), 0)  # POLLHUP and POLLERR are reported all the same
        return not poll.poll(0)

    async def order(self, frame: dict[str, Any], descriptors: Sequence[int] = ()) -> wire.Done:
        """Carry out one order. If the aide has ended, the answer is a failure that says so.

        The descriptors stay the caller's, and may be closed as soon as this returns or is cancelled.
        """
        given = [os.dup(descriptor) for descriptor in descriptors]
        task = asyncio.ensure_future(self._carry_out(frame, given))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    def close(self) -> None:
        """End it, with all that it has started. Idempotent."""
        if self._socket.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
        self._socket.close()
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def _carry_out(self, frame: dict[str, Any], descriptors: Sequence[int]) -> wire.Done:
        number = next(self._numbers)
        try:
            async with self._turn, asyncio.timeout(_PATIENCE_S):
                await self._send(wire.encode({**frame, "id": number}), descriptors)
                return await self._answer()
        except (OSError, TimeoutError, asyncio.CancelledError) as error:
            self.close()
            if isinstance(error, asyncio.CancelledError):
                raise
            return wire.Done(id=number, ok=False, reason="the process that takes orders during a run has ended")
        except WireError:
            self.close()
            self.worker.kill()
            raise
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    async def _send(self, data: bytes, descriptors: Sequence[int]) -> None:
        loop, view = asyncio.get_running_loop(), memoryview(data)
        while descriptors:
            try:
                view = view[socket.send_fds(self._socket.socket, [view[:_READ]], list(descriptors)) :]
                break
            except BlockingIOError:
                await self._ready(writing=True)
        await loop.sock_sendall(self._socket.socket, view)

    async def _answer(self) -> wire.Done:
        """Raises ConnectionError: The aide has ended."""
        while True:
            with contextlib.suppress(BlockingIOError, InterruptedError):
                data = self._socket.receive(_READ)
                if not data:
                    raise ConnectionError("the aide has ended")
                for body in self._frames.feed(data):
                    frame = wire.decode(body) if wire.is_small(body) else await asyncio.to_thread(wire.decode, body)
                    if not isinstance(frame, wire.Done):
                        raise WireError("an aide sent what is not an answer")
                    return frame
                continue
            await self._ready(writing=False)

    async def _ready(self, *, writing: bool) -> None:
        loop, descriptor = asyncio.get_running_loop(), self._socket.fileno()
        if descriptor < 0:
            raise ConnectionError("the aide was closed")
        ready = self._waiting = loop.create_future()
        add, remove = (loop.add_writer, loop.remove_writer) if writing else (loop.add_reader, loop.remove_reader)

        def wake() -> None:
            if not ready.done():
                ready.set_result(None)

        add(descriptor, wake)
        try:
            await ready
        finally:
            if self._socket.fileno() == descriptor:
                remove(descriptor)
