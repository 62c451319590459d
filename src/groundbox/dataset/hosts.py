"""Hosts: processes that carry out shards which run programs, each with an event loop and sandboxes of its own.

One event loop of Python starts, watches and reads so many sandboxes and no more: with sixteen processors at hand, a
build kept a third of them busy, and five builds beside each other kept all. A host takes several shards at once, since
a shard waits for its programs most of the time, and stays for the build, because its templates take seconds to start.

Each shard has a connection of its own, of which the host is sent the other end. The kernel closes all of them with the
host, however it ends, so that whoever waits for an answer hears of that.
"""

from __future__ import annotations

import asyncio
import functools
import multiprocessing
import os
import pickle
import socket
import time
from multiprocessing import util
from multiprocessing.connection import Connection
from typing import Any, Final

from groundbox.dataset.processes import Answer, begin, beside, portable, starting, work_of

_END_S: Final = 20.0
"""For its sandboxes to end. One that takes longer is killed, and they with it."""


class HostDied(Exception):
    """The process of a host ended, and with it what it was at."""


class Host:
    """Our end of one of `hosts`.

    Attributes:
        busy: Shards that it is at.
        cpu_s: Processor seconds that it has spent, without its sandboxes.
    """

    def __init__(self, hosts: int) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would copy this loop's threads and locks as they stand
        self._calls, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        self._process = context.Process(target=_serve, args=(theirs, os.getpid(), hosts), name="groundbox-host")
        with theirs, starting():
            self._process.start()
        # At the interpreter's end multiprocessing waits for this process, which waits for us to close the socket.
        self._at_exit = util.Finalize(None, self._process.terminate, exitpriority=1)
        self._died = False
        self.busy, self.cpu_s = 0, 0.0

    @property
    def alive(self) -> bool:
        """Whether shards can be given to it."""
        return not self._died and self._process.is_alive()

    async def run(self, data: bytes, shard: Any) -> Answer:
        """Have it carry out a shard.

        Args:
            data: The work, as `processes.Pickled` gives it.

        Raises:
            HostDied: Its process ended first.
        """
        self.busy += 1
        try:
            answer = await beside(functools.partial(self._asked, data, shard))
        except (EOFError, OSError) as error:
            self._died = True
            raise HostDied from error
        finally:
            self.busy -= 1
        self.cpu_s = max(self.cpu_s, answer.cpu_s)  # answers may come in another order than they were given
        return answer

    async def close(self) -> None:
        """Have it end its sandboxes and itself."""
        self._calls.close()
        await asyncio.to_thread(self._end)

    def _asked(self, data: bytes, shard: Any) -> Answer:
        told = pickle.dumps((data, shard))  # first: the host takes what comes one after the other
        ours, theirs = multiprocessing.Pipe()
        with ours:
            with theirs:
                socket.send_fds(self._calls, [b"."], [theirs.fileno()])
            ours.send_bytes(told)
            answer: Answer = ours.recv()
            return answer

    def _end(self) -> None:
        self._process.join(_END_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._at_exit.cancel()


def _serve(calls: socket.socket, parent: int, hosts: int) -> None:
    begin(parent, hosts)
    asyncio.run(_carry_out_all(calls))


async def _carry_out_all(calls: socket.socket) -> None:
    under_way: set[asyncio.Task[None]] = set()
    while (call := await asyncio.to_thread(_next, calls)) is not None:
        task = asyncio.create_task(_carry_out(*call))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
    for task in under_way:
        task.cancel()
    await asyncio.gather(*under_way, return_exceptions=True)


def _next(calls: socket.socket) -> tuple[Connection, bytes, Any] | None:
    """The connection, the work and the shard of the next call, or None once there will be none."""
    handles = socket.recv_fds(calls, 1, 1, socket.MSG_CMSG_CLOEXEC)[1]
    if not handles:
        return None
    call = Connection(handles[0])
    return call, *call.recv()


async def _carry_out(call: Connection, data: bytes, shard: Any) -> None:
    with call:
        result: Any = None
        error: Exception | str | None = None
        try:
            result = await work_of(data)(shard)
        except Exception as raised:
            error = portable(raised)
        await asyncio.to_thread(call.send, Answer(result, error, time.process_time()))
