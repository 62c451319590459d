"""Row 28: holding the event loop, on which all sandboxes of a host wait, by what a guest sends or leaves.

`make heartbeat` runs this file and prints the longest gap beside each attack.
"""

import itertools
import time

import pytest

from groundbox import Limits, Network, Outcome, Sandbox
from groundbox.sandbox import descriptors
from groundbox.sandbox.descriptors import GuestSocket
from groundbox.testing.heartbeat import MOST_S

# The host's socket, frames for it, and what a script has instead: the pipe on which it reports.
SEND = """
import array, fcntl, json, socket, stat, struct, sys, time
def kind(fd):
    try: return stat.S_IFMT(os.fstat(fd).st_mode)
    except OSError: return 0
def host(): return next(fd for fd in range(3, 64) if kind(fd) == stat.S_IFSOCK)
def report():
    pipes = (fd for fd in range(3, 64) if kind(fd) == stat.S_IFIFO)
    return next(fd for fd in pipes if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY)
def write(fd, data):
    os.set_blocking(fd, True)
    left = memoryview(data)
    while left: left = left[os.write(fd, left):]
def frame(body): return struct.pack('<I', len(body)) + body
def send(body): write(host(), frame(body))
"""
LINGER = """
# A TCP socket with unsent data, which whoever closes it last waits for.
def lingering():
    listener = socket.socket(); listener.bind(('127.0.0.1', 0)); listener.listen(1)
    sender = socket.create_connection(listener.getsockname())
    taker, _ = listener.accept()
    sender.setblocking(False)
    try:
        while True: sender.send(b'x' * 65536)
    except BlockingIOError: pass
    sender.setblocking(True)
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, SECONDS))
    open_for_good.append(taker)
    return sender
open_for_good = []
def hand_over(connection, body, busy):
    sender = lingering()
    # The host is busy for a moment, so that the guest's own copy is closed before the host drops its one.
    connection.sendall(frame(busy))
    time.sleep(0.2)
    said = attempt(socket.send_fds, connection, [frame(body)], [sender.fileno()])
    if said == 'EPERM': sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 0, 0))
    sender.close()
    print(said, flush=True)
"""


@pytest.fixture
def calm(heart):
    """Asserts that the loop beats beside an attack: at most MOST_S late in one of three times."""

    def beside(attack):
        for _ in range(3):
            heart.reset()
            result = attack()
            gap = heart.longest()
            if gap.own_s <= MOST_S:
                return result
        raise AssertionError(f"the event loop stood still in each of three times: {gap}")

    return beside


def _through_the_workers_socket(seconds):
    return f"""SECONDS = {seconds}
connection = socket.socket(fileno=os.dup(host()))
hand_over(connection, b'{{"ev":"clear"}}', b'{{"ev":"display","data":{{"text/plain":"' + b'x' * 4_000_000 + b'"}}}}')
"""


def _through_the_tools_socket(seconds):
    return f"""SECONDS = {seconds}
import tools
connection = socket.socket(fileno=os.dup(host()))
call = b'{{"op":"call","id":%d,"tool":"echo","args":{{"x":%s}}}}'
hand_over(connection, call % (5001, b'1'), call % (5000, b'"' + b'x' * 900_000 + b'"'))
"""


def echo(x: object) -> int:
    """Takes anything."""
    return 1


_SIZES = itertools.count(100 << 20, 1 << 20)


def _run(program, prelude, *, mode="cell", tools=None):
    limits = Limits(wall_s=10, disk_bytes=next(_SIZES))  # of a size that no pool has, so that the worker is made now
    with Sandbox(profile="bare", limits=limits, network=Network(loopback=True), tools=tools or []) as box:
        return box.run(prelude + SEND + LINGER + program, mode=mode)


SOCKETS = {
    "the worker's": (_through_the_workers_socket, "cell", []),
    "the tools'": (_through_the_tools_socket, "script", [echo]),
}


@pytest.mark.parametrize("which", SOCKETS)
def test_a_descriptor_sent_to_the_host_is_refused_by_the_kernel(calm, prelude, which):
    program, mode, tools = SOCKETS[which]

    execution = calm(lambda: _run(program(20), prelude, mode=mode, tools=tools))

    assert execution.outcome is Outcome.OK
    assert execution.stdout == "EPERM\n"


@pytest.mark.parametrize("which", SOCKETS)
def test_where_the_kernel_cannot_refuse_a_descriptor_the_run_ends_and_nobody_waits(calm, prelude, monkeypatch, which):
    monkeypatch.setattr(descriptors, "_PASSRIGHTS", 9999)
    program, mode, tools = SOCKETS[which]

    execution = calm(lambda: _run(program(20) + "time.sleep(60)", prelude, mode=mode, tools=tools))

    assert execution.error.type == "ProtocolViolation"
    assert execution.error.message == "a guest sent a descriptor"
    assert execution.usage.wall_s < 5


def _received_late(self, size):
    time.sleep(0.1)  # so that the guest has closed its own copy, for which it can make the host busy
    return self.socket.recv(size)


@pytest.mark.parametrize("which", SOCKETS)
def test_a_descriptor_that_is_taken_holds_the_loop(heart, prelude, monkeypatch, which):
    """Without the guard, for as long as the guest chose."""
    monkeypatch.setattr(descriptors, "_PASSRIGHTS", 9999)
    monkeypatch.setattr(GuestSocket, "receive", _received_late)
    program, mode, tools = SOCKETS[which]

    _run(program(1) + "time.sleep(2)", prelude, mode=mode, tools=tools)

    assert heart.longest().own_s > 0.5
    heart.reset()
