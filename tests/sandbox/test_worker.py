"""A worker's end as the host sees it, with the guest's side played by hand."""

import asyncio
import os
import socket

import pytest

from groundbox.sandbox.report import Ended, Order
from groundbox.sandbox.worker import Worker


def _worker():
    ours, theirs = socket.socketpair()
    streams = [os.pipe() for _ in range(2)]
    for reader, _ in streams:
        os.set_blocking(reader, False)
    worker = Worker(
        identity=1,
        control=ours,
        streams=(streams[0][0], streams[1][0]),
        cgroup=None,
        on_end=lambda worker: None,
    )
    return worker, theirs, [writer for _, writer in streams]


def _order(source):
    return Order({"op": "run", "source": source}, [], None, None, 1 << 16, False)


def test_a_run_ends_with_its_worker_also_while_its_order_is_still_being_sent():
    """Nothing says so on the socket when the other end is held by a message that is on its way through it."""

    async def scenario():
        worker, theirs, writers = _worker()
        running = asyncio.ensure_future(worker.run(_order("x" * (4 << 20))))
        await asyncio.sleep(0.05)
        socket.send_fds(theirs, [b"\0"], [theirs.fileno()])
        worker.has_ended(Ended(9, 0.0, 0))
        report = await asyncio.wait_for(running, 10)
        theirs.close()
        for writer in writers:
            os.close(writer)
        return report.ended.exit_signal

    assert asyncio.run(scenario()) == 9


@pytest.mark.needs_root(reason="to give a socket more room than the host's settings allow")
def test_thousands_of_messages_left_at_the_end_are_read():
    """A message with descriptors is read on its own, however small it is."""

    async def scenario():
        worker, theirs, writers = _worker()
        theirs.setsockopt(socket.SOL_SOCKET, 32, 16 << 20)  # SO_SNDBUFFORCE: as on a host with a large wmem_max
        theirs.setblocking(False)
        running = asyncio.ensure_future(worker.run(_order("1")))
        await asyncio.sleep(0.05)
        null = os.open("/dev/null", os.O_RDONLY)
        sent = 0
        while sent < 3000:
            try:
                sent += socket.send_fds(theirs, [b"\0"], [null])
            except OSError:
                break
        worker.has_ended(Ended(9, 0.0, 0))
        report = await asyncio.wait_for(running, 10)
        for descriptor in (null, *writers):
            os.close(descriptor)
        theirs.close()
        return sent, report.ended.exit_signal

    assert asyncio.run(scenario()) == (3000, 9)
