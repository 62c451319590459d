"""A worker's end as the host sees it, with the guest's side played by hand."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import struct
from typing import Any

import pytest

from groundbox.sandbox.report import Ended, Order
from groundbox.sandbox.worker import Worker


def _worker(cgroup=None, on_end=lambda worker: None):
    ours, theirs = socket.socketpair()
    streams = [os.pipe() for _ in range(2)]
    for reader, _ in streams:
        os.set_blocking(reader, False)
    worker = Worker(
        identity=1,
        control=ours,
        streams=(streams[0][0], streams[1][0]),
        cgroup=cgroup,
        on_end=on_end,
    )
    return worker, theirs, [writer for _, writer in streams]


def _order(source):
    return Order({"op": "run", "source": source}, [], None, None, 1 << 16, False)


def _frame(said):
    body = json.dumps(said).encode()
    return struct.pack("<I", len(body)) + body


async def _ready_worker():
    worker, theirs, writers = _worker()
    folder = os.open("/proc/self/task", os.O_RDONLY | os.O_DIRECTORY)
    socket.send_fds(theirs, [_frame({"ev": "ready"})], [folder])
    os.close(folder)
    await asyncio.wait_for(worker.ready(), 10)
    return worker, theirs, writers


def _end(worker, theirs, writers):
    worker.has_ended(Ended(9, 0.0, 0))
    worker.workdir.close()
    theirs.close()
    for writer in writers:
        os.close(writer)


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


def test_what_a_guest_sends_between_two_runs_waits_and_costs_one_look(monkeypatch):
    looks: Any = []
    look: Any = Worker._on_frames
    monkeypatch.setattr(Worker, "_on_frames", lambda worker: (looks.append(1), look(worker)))

    async def scenario():
        worker, theirs, writers = await _ready_worker()
        for id_ in (1, 2):
            running = asyncio.ensure_future(worker.run(_order("1")))
            await asyncio.sleep(0)
            theirs.send(_frame({"ev": "done", "id": id_, "ok": True}))
            assert (await asyncio.wait_for(running, 10)).done.id == id_
            theirs.send(_frame({"ev": "display", "data": {"text/plain": "late"}}))
            before = len(looks)
            for _ in range(100):
                await asyncio.sleep(0)
            assert len(looks) <= before + 1
        running = asyncio.ensure_future(worker.run(_order("1")))
        await asyncio.sleep(0)
        theirs.send(_frame({"ev": "done", "id": 3, "ok": True}))
        report = await asyncio.wait_for(running, 10)
        _end(worker, theirs, writers)
        return report.displays

    assert asyncio.run(scenario()) == [{"text/plain": "late"}]


def test_an_interrupt_before_the_process_is_known_is_handed_on():
    """What tells of a new process comes on another socket than what the process itself says, perhaps later."""

    async def scenario():
        worker, theirs, writers = await _ready_worker()
        running = asyncio.ensure_future(worker.run(_order("1")))
        await asyncio.sleep(0)
        worker.interrupt()
        process = await asyncio.create_subprocess_exec("sleep", "60")
        worker.was_spawned(os.pidfd_open(process.pid))
        try:
            return await asyncio.wait_for(process.wait(), 10)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            theirs.send(_frame({"ev": "done", "id": 1, "ok": True}))
            await asyncio.wait_for(running, 10)
            _end(worker, theirs, writers)

    assert asyncio.run(scenario()) == -signal.SIGINT


def test_an_interrupt_of_a_run_that_is_over_is_not_handed_on():
    async def scenario():
        worker, theirs, writers = await _ready_worker()
        running = asyncio.ensure_future(worker.run(_order("1")))
        await asyncio.sleep(0)
        worker.interrupt()
        theirs.send(_frame({"ev": "done", "id": 1, "ok": True}))
        await asyncio.wait_for(running, 10)
        process = await asyncio.create_subprocess_exec("sleep", "60")
        worker.was_spawned(os.pidfd_open(process.pid))
        process.terminate()
        _end(worker, theirs, writers)
        return await asyncio.wait_for(process.wait(), 10)

    assert asyncio.run(scenario()) == -signal.SIGTERM


class Group:
    """A control group that somebody else has once its worker has ended."""

    is_gone = False

    def _told(self, value):
        if self.is_gone:
            raise FileNotFoundError
        return value

    def keep_open(self):
        pass

    def cpu_s(self):
        return self._told(0.5)

    def peak_memory_bytes(self):
        return self._told(4096)

    def out_of_memory_kills(self):
        return self._told(1)

    def memory_limit_hits(self):
        return self._told(3)

    def memory_limit_reached(self):
        return self._told(3)


def test_what_a_group_says_of_a_worker_is_asked_before_the_group_is_given_away():
    """Its next worker may be made before the run that ended with the last one goes on."""

    async def scenario():
        group = Group()
        worker, theirs, writers = _worker(cgroup=group, on_end=lambda worker: setattr(group, "is_gone", True))
        running = asyncio.ensure_future(worker.run(_order("1")))
        await asyncio.sleep(0.05)
        worker.has_ended(Ended(9, 0.0, 0))
        report = await asyncio.wait_for(running, 10)
        theirs.close()
        for writer in writers:
            os.close(writer)
        return report.out_of_memory, report.memory_kills, report.cpu_s, worker.peak_memory_bytes()

    assert asyncio.run(scenario()) == (True, 1, 0.0, 4096)


def test_what_was_written_before_the_first_run_is_none_of_its_output():
    """A template's own objects may have a word on standard error when they are dropped in a fork."""

    async def scenario():
        worker, theirs, writers = _worker()
        for writer in writers:
            os.write(writer, b"before")
        folder = os.open("/proc/self/task", os.O_RDONLY | os.O_DIRECTORY)
        socket.send_fds(theirs, [_frame({"ev": "ready"})], [folder])
        os.close(folder)
        await asyncio.wait_for(worker.ready(), 10)
        running = asyncio.ensure_future(worker.run(_order("1")))
        await asyncio.sleep(0.05)
        os.write(writers[0], b"meanwhile")
        worker.has_ended(Ended(9, 0.0, 0))
        report = await asyncio.wait_for(running, 10)
        worker.workdir.close()
        theirs.close()
        for writer in writers:
            os.close(writer)
        return report.stdout.text(), report.stderr.text()

    assert asyncio.run(scenario()) == ("meanwhile", "")
