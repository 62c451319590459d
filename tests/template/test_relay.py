"""Two relays, one on each side of a pair of pipes, as they stand between a host and a template inside gVisor."""

import contextlib
import fcntl
import os
import resource
import socket
import threading

import pytest

from groundbox.template import relay
from groundbox.template.relay import CREDIT, DATA, WINDOW_BYTES, Broken, Mux


class Pair:
    """Both ends, driven by turns in one thread."""

    def __init__(self):
        self.heard = []
        there_reader, here_writer = os.pipe2(os.O_NONBLOCK)
        here_reader, there_writer = os.pipe2(os.O_NONBLOCK)
        for writer in (here_writer, there_writer):  # who cannot send waits for the other end, which is this thread's
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 1 << 20)
        self.here = Mux(here_reader, here_writer, lambda message: self.heard.append(("here", message)))
        self.there = Mux(there_reader, there_writer, lambda message: self.heard.append(("there", message)))

    def turn(self, count=20):
        for _ in range(count):
            self.here.step(0)
            self.there.step(0)


def a_pipe():
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    return reader, writer


def all_of(descriptor):
    found = b""
    try:
        while data := os.read(descriptor, 1 << 20):
            found += data
    except BlockingIOError:
        pass
    return found


def test_bytes_go_both_ways_through_a_socket_and_its_end_is_told():
    pair = Pair()
    ours, near = socket.socketpair()
    far, theirs = socket.socketpair()
    here, there = near.detach(), far.detach()
    pair.here.open(1, reads=here, writes=here)
    pair.there.open(1, reads=there, writes=there)

    ours.sendall(b"question")
    theirs.sendall(b"answer")
    pair.turn()
    heard = theirs.recv(100), ours.recv(100)
    ours.shutdown(socket.SHUT_WR)
    pair.turn()

    assert heard == (b"question", b"answer")
    assert theirs.recv(100) == b""


def test_messages_arrive_in_the_order_in_which_they_were_told():
    pair = Pair()

    for number in range(3):
        pair.here.tell({"number": number})
    pair.turn()

    assert pair.heard == [("there", {"number": number}) for number in range(3)]


def test_what_is_printed_arrives_before_what_was_said_after_it():
    pair = Pair()
    order = []
    out, print_here = a_pipe()
    said, say_here = socket.socketpair()
    heard = said.detach()
    stream = pair.there.open(1, reads=out)
    pair.there.open(2, reads=heard, writes=heard, after=[stream])
    real = pair.there._send

    def noted(kind, number, data):
        order.append((kind, number, len(data)))
        real(kind, number, data)

    pair.there._send = noted

    os.write(print_here, b"x" * 60_000)
    say_here.sendall(b"done")
    pair.turn(1)

    assert [each for each in order if each[0] == DATA] == [(DATA, 1, 60_000), (DATA, 2, 4)]


def test_who_prints_without_end_is_stopped_and_others_are_not():
    pair = Pair()
    flood, flooding = a_pipe()
    calm, calming = a_pipe()
    full, filled = a_pipe()
    read, shown = a_pipe()
    pair.there.open(1, reads=flood)
    pair.there.open(2, reads=calm)
    pair.here.open(1, writes=filled)
    pair.here.open(2, writes=shown)
    os.set_blocking(flooding, False)

    written = 0
    for _ in range(200):
        try:
            written += os.write(flooding, b"x" * 65536)
        except BlockingIOError:
            pass
        pair.turn(2)
    os.write(calming, b"still here")
    pair.turn()

    assert all_of(read) == b"still here"
    capacity = 65536
    assert written <= 2 * capacity + WINDOW_BYTES
    assert len(pair.here.channels[1].pending) <= WINDOW_BYTES
    assert len(all_of(full)) == capacity


def test_a_flood_goes_on_where_it_is_read():
    pair = Pair()
    flood, flooding = a_pipe()
    full, filled = a_pipe()
    pair.there.open(1, reads=flood)
    pair.here.open(1, writes=filled)
    size = 3 * WINDOW_BYTES

    def flood_it():
        os.write(flooding, b"y" * size)
        os.close(flooding)

    writer = threading.Thread(target=flood_it, daemon=True)

    writer.start()
    found = 0
    while found < size:
        pair.here.step(1)
        pair.there.step(1)
        found += len(all_of(full))
    writer.join()

    assert found == size


def test_the_other_end_may_not_send_more_than_it_was_let():
    pair = Pair()
    _, filled = a_pipe()
    pair.here.open(1, writes=filled)

    for _ in range(WINDOW_BYTES // 65536 + 3):
        pair.there._send(DATA, 1, bytes(65536))

    with pytest.raises(Broken, match="more was sent than was allowed"):
        pair.turn()


def test_descriptors_and_files_from_inside_are_no_frames():
    pair = Pair()
    _, filled = a_pipe()
    pair.here.open(1, writes=filled)
    told = []

    for kind, number, data in ((4, 0, b"bytes"), (5, 1, b"[]"), (CREDIT + 6, 1, b"")):
        pair.there._send(kind, number, data)
        try:
            pair.here.step(0)
        except Broken as broken:
            told.append(str(broken))

    assert told == ["files come from the host only", "descriptors come from the host only", "what came is no frame"]


def test_an_end_that_is_gone_is_told():
    pair = Pair()
    os.close(pair.there._writer)

    with pytest.raises(Broken, match="the other end is closed"):
        pair.here.step(0)


@pytest.mark.parametrize("above", [0, 1024], ids=["low numbers", "numbers that select does not know"])
def test_an_end_that_sends_and_does_not_read_fills_no_memory(monkeypatch, above):
    """While one waits to send, what comes is put by: without a bound as much as the other end likes."""
    monkeypatch.setattr(relay, "_MOST_INCOMING", 1 << 20)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard <= above:
        pytest.skip(f"this user may open {hard} descriptors only")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    here_reader, there_writer = (_moved(each, above) for each in os.pipe2(os.O_NONBLOCK))
    unread, here_writer = (_moved(each, above) for each in os.pipe2(os.O_NONBLOCK))
    os.set_blocking(there_writer, True)

    def flood():
        with contextlib.suppress(BrokenPipeError):
            while True:
                os.write(there_writer, bytes(1 << 16))

    def tell_all():
        for _ in range(1 << 10):
            mux.tell({"text": "x" * (1 << 16)})

    flooding = threading.Thread(target=flood, daemon=True)
    flooding.start()
    mux = Mux(here_reader, here_writer, lambda message: None)

    with pytest.raises(Broken, match="more was sent than can be under way"):
        tell_all()
    os.close(here_reader)
    flooding.join()
    for descriptor in (unread, here_writer, there_writer):
        os.close(descriptor)


def _moved(descriptor, above):
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, above)
    os.close(descriptor)
    return moved


def test_a_worker_that_cannot_be_bounded_ends_everything_and_one_that_is_gone_does_not(tmp_path):
    groups = relay.Groups({"pids": str(tmp_path), "cpuacct": str(tmp_path)})
    (tmp_path / "7" / "pids.max").mkdir(parents=True)

    groups.limit(8, 10, None)

    with pytest.raises(Broken, match="a worker cannot be bounded"):
        groups.limit(7, 10, None)
