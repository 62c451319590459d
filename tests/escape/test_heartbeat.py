"""Row 28: holding the event loop, on which all sandboxes of a host wait, by what a guest sends or leaves.

`make heartbeat` runs this file and prints the longest gap beside each attack.
"""

import itertools
import mmap
import time

import pytest

from groundbox import Limits, Network, Outcome, Sandbox
from groundbox.sandbox import descriptors
from groundbox.sandbox.descriptors import GuestSocket
from groundbox.testing.heartbeat import MOST_S
from groundbox.trace_options import TraceOptions

# It is strict with waiting, which any other test beside it would make longer.
pytestmark = pytest.mark.alone

# The host's socket, frames for it, and what a script has instead: the pipe on which it reports.
SEND = """
import array, fcntl, json, socket, stat, struct, sys, time
def kind(fd):
    try: return stat.S_IFMT(os.fstat(fd).st_mode)
    except OSError: return 0
def host(): return next(fd for fd in range(3, 1024) if kind(fd) == stat.S_IFSOCK)
def report():
    pipes = (fd for fd in range(3, 1024) if kind(fd) == stat.S_IFIFO)
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
def calm(heart, request):
    """Asserts that the loop beats beside an attack: at most MOST_S late in one of three times.

    Five times as late where the tests run in several processes, whose sandboxes are not gone when they pause.
    """
    most_s = MOST_S * (5 if hasattr(request.config, "workerinput") else 1)

    def beside(attack):
        for _ in range(3):
            heart.reset()
            result = attack()
            gap = heart.longest()
            if gap.own_s <= most_s:
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


# Frames near every bound, of what is slow or large once decoded. Each is sent several times.
FRAMES = {
    "floats that take long": "b'[' + b'1e308,' * 190_000 + b'1]'",
    "more floats than are taken": "b'[' + b'1e308,' * 990_000 + b'1]'",
    "empty objects": "b'[' + b'{},' * 95_000 + b'1]'",
    "names": "b'{' + b','.join(b'\"%x\":{}' % n for n in range(95_000)) + b'}'",
    "deep": "b'[' + b','.join([b'[' * 58 + b']' * 58] * 3000) + b']'",
    "deeper than is taken": "b'[' * 8_000_000",
    "a large value inside many levels": "b'[' * 50 + b'[' + b'0,' * 190_000 + b'0]' + b']' * 50",
    "a wide text": "json.dumps('\\U0001f600' + 'a' * 7_000_000).encode()",
    "escapes": "b'\"' + b'\\\\\\\\u00e9' * 2_000_000 + b'\"'",
    "quotes": "b'\"' + b'\\\\\\\\\"' * 7_000_000 + b'\"'",
    "a text over its bound": "b'\"' + b'a' * 16_000_000 + b'\"'",
    "long numbers": "b'[' + b','.join([b'9' * 4000] * 2000) + b']'",
}
SEND_RUN = """
def order():
    frame = sys._getframe()
    while frame is not None:
        order = frame.f_locals.get('order')
        if isinstance(order, dict) and order.get('op') == 'run': return order['id']
        frame = frame.f_back
"""


@pytest.mark.parametrize("kind", FRAMES)
def test_no_frame_of_a_cell_holds_the_loop(calm, prelude, kind):
    source = f'value = {FRAMES[kind]}\nfor _ in range(2): send(b\'{{"ev":"display","data":{{"a":\' + value + b\'}}}}\')'

    def attack():
        with Sandbox(profile="bare", limits=Limits(wall_s=60)) as box:
            return box.run(prelude + SEND + source)

    assert calm(attack).outcome in (Outcome.OK, Outcome.SIGNAL)


@pytest.mark.parametrize("kind", ["floats that take long", "empty objects"])
def test_no_value_of_a_cell_and_no_report_of_a_script_holds_the_loop(calm, prelude, kind):
    value = f"value = {FRAMES[kind]}\n"
    done = value + 'send(b\'{"ev":"done","ok":true,"id":%d,"value":{"a":\' % order() + value + b\'}}\')'
    told = value + 'for _ in range(2): write(report(), b\'{"ev":"display","data":{"a":\' + value + b\'}}\\n\')'

    def attack():
        with Sandbox(profile="bare", limits=Limits(wall_s=60)) as box:
            return box.run(prelude + SEND + told, mode="script"), box.run(prelude + SEND + SEND_RUN + done)

    script, cell = calm(attack)
    assert len(script.displays) + script.dropped_bytes["displays"] == 2
    assert list(cell.value) == ["a"]


@pytest.mark.parametrize("kind", ["floats that take long", "names", "deep", "quotes"])
def test_no_message_for_tools_holds_the_loop(calm, prelude, kind):
    source = f"""
import tools
value = {FRAMES[kind]}[:1_000_000]
value = value if len(value) < 1_000_000 else value[:value.rindex(b',')] + b']'
for n in range(1, 6): write(host(), frame(b'{{"op":"call","id":%d,"tool":"echo","args":{{"x":%s}}}}' % (n, value)))
"""

    def attack():
        with Sandbox(profile="bare", limits=Limits(wall_s=60), tools=[echo]) as box:
            return box.run(prelude + SEND + source, mode="script")

    assert calm(attack).tool_calls.outcomes.get("ok", 0) == 0


@pytest.mark.parametrize("item", ["1e308", "{}"])
def test_no_arguments_for_tools_hold_the_loop(calm, prelude, item):
    """They come in a file where they are many, and are decoded beside the loop."""

    def attack():
        with Sandbox(profile="bare", limits=Limits(wall_s=60), tools=[echo]) as box:
            return box.run(f"import tools\nfor _ in range(3): tools.echo([{item}] * 150_000)", mode="script")

    assert calm(attack).tool_calls.total >= 1


SAID = {"paths of the kernel": "/proc/", "one path": "/sys/a", "hosts": "Could not resolve host: a.b", "blanks": " "}


@pytest.mark.parametrize("kind", SAID)
def test_nothing_that_a_command_seems_to_say_holds_the_loop(calm, prelude, kind):
    """The host looks for words of commands in what a run wrote to standard error."""
    source = f"import sys\nsys.stderr.write({SAID[kind]!r} * 200_000 + 'x' * 9000)"

    def attack():
        with Sandbox(profile="bare", limits=Limits(wall_s=60)) as box:
            return box.run(prelude + source, mode="script"), box.run(prelude + source + "; sys.exit(1)", mode="script")

    fine, failed = calm(attack)
    assert (fine.outcome, failed.outcome) == (Outcome.OK, Outcome.ERROR)


LEFT = {
    "twenty thousand files": "for i in range(20000): open(str(i), 'w').close()",
    "a deep tree of files": """
for depth in range(30):
    os.mkdir('d'); os.chdir('d')
    for i in range(600): open(str(i), 'w').write('x')
""",
    "a large file beside the workdir": "open('/dev/shm/large', 'wb').write(b'x' * (240 << 20))",
}


@pytest.mark.parametrize("kind", LEFT)
def test_nothing_that_a_run_leaves_holds_the_loop(calm, prelude, kind):
    def attack():
        with Sandbox(profile="bare", limits=Limits(wall_s=60, file_count=30_000)) as box:
            box.run(prelude + LEFT[kind], mode="script")
            return box.run("1")

    assert calm(attack).text == "1"


# Writes records of its own into the memory in which the tracer leaves them.
WRITE = """
import ctypes, struct
def area():
    for line in open('/proc/self/maps'):
        if 'groundbox-trace' in line: return [int(part, 16) for part in line.split()[0].split('-')]
begin, end = area()
def leave(body):
    ctypes.memmove(begin + 8, body, len(body))
    ctypes.memmove(begin, struct.pack('<Q', len(body)), 8)
    os._exit(0)
room = end - begin - 8192
called = b'{"k":"call","f":1,"p":0,"name":"<module>","n":1}\\n'
"""
RECORDS = {
    "one record of slow floats": """[b'{"k":"set","f":1,"name":"x","v":[' + b'1e308,' * 2_000_000 + b'1]}\\n']""",
    "one record of empty objects": """
    [b'{"k":"set","f":1,"name":"x","v":[' + b'{},' * (room // 3 - 100) + b'1]}\\n']""",
    "records of slow floats": """[b'{"k":"set","f":1,"name":"x","v":1e308}\\n'] * 150_000""",
    "records of references": """[b'{"k":"object","id":1,"type":"list","items":[]}\\n'] +
    [b'{"k":"mutate","id":1,"op":"replace","items":[' + b'{"ref":1},' * 2000 + b'1]}\\n'] * (room // 21_000)""",
}


@pytest.mark.parametrize("kind", RECORDS)
def test_no_trace_holds_the_loop_or_takes_far_more_memory_than_its_bytes(calm, prelude, kind):
    def attack():
        with Sandbox(profile="bare", limits=Limits(wall_s=60)) as box:
            source = f"{prelude}{WRITE}\nleave(called + b''.join({RECORDS[kind].strip()}))"
            before = _resident()
            execution = box.run(source, mode="script", trace=True)
            return execution, _resident() - before

    execution, grown = calm(attack)
    assert execution.trace.records
    assert not execution.trace.complete
    assert grown <= 4 * TraceOptions().max_bytes


def _resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * mmap.PAGESIZE
