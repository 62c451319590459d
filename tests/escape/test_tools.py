"""The tool bridge: what a guest can do to the host by the socket on which it calls granted tools.

The guest has the descriptor and says on it what it likes. The host judges by what the functions were called with,
by the run's outcome, and by whether it goes on serving others.
"""

# ruff: noqa: E501  (programs of one line each are tables, and read as such)

import asyncio
import json
import os
import threading
import time

import pytest

from groundbox import Limits, Outcome
from groundbox.errors import SandboxLost
from groundbox.sandbox import memfile
from groundbox.sandbox.bridge import frames, session
from groundbox.sandbox.bridge.approval import MOST_WAITING
from groundbox.sandbox.bridge.schema import Checker
from groundbox.sandbox.bridge.session import Session
from groundbox.sandbox.bridge.tools import Tools
from groundbox.sandbox.control import RunControl
from groundbox.tools import Tool, ToolQuotas

RAW = """
import json, socket, struct, time
import tools
one = socket.socket(fileno=os.dup(tools._bridge._channel._socket.fileno()))
def frame(body): return struct.pack('<I', len(body)) + body
def send(body): one.sendall(frame(body if isinstance(body, bytes) else json.dumps(body).encode()))
def receive():
    head = b''
    while len(head) < 4: head += one.recv(4 - len(head))
    length, body = struct.unpack('<I', head)[0], b''
    while len(body) < length: body += one.recv(length - len(body))
    return json.loads(body)
def ask(body):
    send(body)
    return receive()
def pay(identity, **args): return {'op': 'call', 'id': identity, 'tool': 'pay', 'args': args}
"""


class Paying:
    """Granted tools, and what they were called with."""

    def __init__(self):
        self.paid = []
        self.secret = "the host's own"

    def pay(self, amount: int, to: str = "") -> str:
        self.paid.append((amount, to))
        return f"paid {amount}"


@pytest.fixture
def paying():
    return Paying()


@pytest.fixture
def raw(sandbox, prelude, paying):
    """Runs a program that has the bridge's socket and helpers for it."""

    def run(source, tools=None, **options):
        box = sandbox(tools=tools or [Tool("pay", paying.pay)], **options)
        vars(run)["box"] = box
        return box.run(prelude + RAW + source)

    return run


def test_an_honest_frame_is_answered(raw, paying):
    """A control: the helpers speak the protocol."""
    execution = raw("print(ask(pay(1, amount=5)))")

    assert execution.stdout == "{'op': 'result', 'id': 1, 'ok': True, 'value': 'paid 5'}\n"
    assert paying.paid == [(5, "")]


VIOLATIONS = {
    "no json": "b'x' * 100",
    "a bare number": "b'5'",
    "nothing": "b''",
    "an unknown message": 'b\'{"op": "owned"}\'',
    "no op": "b'{}'",
    "an answer to itself": 'b\'{"op": "result", "id": 1, "ok": true, "value": 1}\'',
    "a manifest of its own": 'b\'{"op": "manifest", "tools": []}\'',
    "a wrong type": 'b\'{"op": "call", "id": "1", "tool": "pay", "args": {}}\'',
    "arguments that are a list": 'b\'{"op": "call", "id": 1, "tool": "pay", "args": [5]}\'',
    "an unknown field": 'b\'{"op": "call", "id": 1, "tool": "pay", "args": {}, "approved": true}\'',
    "an id of zero": 'b\'{"op": "call", "id": 0, "tool": "pay", "args": {}}\'',
    "a negative id": 'b\'{"op": "call", "id": -1, "tool": "pay", "args": {}}\'',
    "an id that is true": 'b\'{"op": "call", "id": true, "tool": "pay", "args": {}}\'',
    "a huge id": 'b\'{"op": "call", "id": \' + b\'9\' * 100 + b\', "tool": "pay", "args": {}}\'',
    "an endless number": 'b\'{"op": "call", "id": 1, "tool": "pay", "args": {"amount": \' + b\'9\' * 100000 + b\'}}\'',
    "an endless exponent": 'b\'{"op": "call", "id": 1, "tool": "pay", "args": {"amount": 1e999999}}\'',
    "not a number": 'b\'{"op": "call", "id": 1, "tool": "pay", "args": {"amount": NaN}}\'',
    "infinity": 'b\'{"op": "call", "id": 1, "tool": "pay", "args": {"amount": -Infinity}}\'',
    "deep lists": 'b\'{"op": "call", "id": 1, "tool": "pay", "args": {"amount": \' + b\'[\' * 40 + b\']\' * 40 + b\'}}\'',
    "very deep lists": "b'[' * 500000 + b']' * 500000",
    "very deep objects": "b'{\"a\":' * 100000 + b'1' + b'}' * 100000",
    "many values": 'b\'{"op": "call", "id": 1, "tool": "pay", "args": {"amount": [\' + b\'0,\' * 400000 + b\'0]}}\'',
    "a name twice": 'b\'{"op": "call", "id": 1, "tool": "pay", "args": {"amount": 5, "amount": 500}}\'',
    "an op twice": 'b\'{"op": "hello", "op": "call", "id": 1, "tool": "pay", "args": {"amount": 5}}\'',
    "a name twice, deep inside": 'b\'{"op": "call", "id": 1, "tool": "pay", "args": {"to": {"a": {"b": 1, "b": 2}}}}\'',
    "a name twice, once escaped": 'b\'{"op": "call", "id": 1, "tool": "pay", "args": {"amount": 5, "\\\\u0061mount": 500}}\'',
    "invalid utf-8": 'b\'{"op": "search", "id": 1, "query": "\\xff\\xfe"}\'',
    "half of a surrogate pair": 'b\'{"op": "search", "id": 1, "query": "\\\\ud800"}\'',
    "a byte order mark": 'b\'\\xef\\xbb\\xbf{"op": "search", "id": 1, "query": ""}\'',
    "something after the end": 'b\'{"op": "search", "id": 1, "query": ""} {}\'',
    "another protocol": 'b\'{"op": "hello", "protocol": "gbx-bridge/2"}\'',
    "a long name": "json.dumps({'op': 'call', 'id': 1, 'tool': 'x' * 1000, 'args': {}}).encode()",
    "a pickle": "__import__('pickle').dumps(pay(1, amount=5))",
}


@pytest.mark.parametrize("kind", VIOLATIONS)
def test_what_is_no_message_ends_the_run_by_name_and_nothing_else(raw, sandbox, paying, kind):
    other = sandbox()
    other.run("kept = 1")

    execution = raw(f"send({VIOLATIONS[kind]})\ntime.sleep(60)")

    assert execution.outcome is not Outcome.OK
    assert (execution.state, execution.error.type) == ("ended", "ProtocolViolation")
    assert (
        "for a tool" in execution.error.message
        or "for tools" in execution.error.message
        or "protocol" in execution.error.message
    )
    assert paying.paid == []
    with pytest.raises(SandboxLost):
        raw.box.run("1")
    assert other.run("kept").text == "1"


@pytest.mark.parametrize("end", ["", "\nraise ValueError", "\nos._exit(0)"])
def test_a_run_that_ends_right_after_a_violation_has_violated(raw, end):
    """The host may see the end and the bad message at the same moment."""
    execution = raw(f"send(b'x')\nreceive(){end}")

    assert execution.error.type == "ProtocolViolation"
    assert execution.state == "ended"


def test_without_the_check_a_second_name_would_be_the_one_that_counts(raw, paying, monkeypatch):
    monkeypatch.setattr(frames, "_count_names", lambda value: Anything())

    raw(f"send({VIOLATIONS['a name twice']})\nreceive()")

    assert paying.paid == [(500, "")]


class Anything:
    """Equal to whatever it is compared with."""

    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    __hash__ = None


@pytest.mark.parametrize("length", [frames.MOST_FRAME_BYTES + 1, 0x80000000, 0xFFFFFFFF])
def test_a_frame_that_says_it_is_too_large_is_refused_before_it_comes(raw, length):
    execution = raw(f"one.sendall(struct.pack('<I', {length}))\ntime.sleep(60)")

    assert execution.error.type == "ProtocolViolation"
    assert execution.error.message == f"a frame of {length} bytes for a tool is over {frames.MOST_FRAME_BYTES}"


@pytest.mark.parametrize("part", ["struct.pack('<I', 1000)", "struct.pack('<I', 1000) + b'{'", "b'\\0'"])
def test_half_a_frame_is_waited_for_no_longer_than_the_deadline(raw, part):
    execution = raw(f"one.sendall({part})\ntime.sleep(600)", limits=Limits(wall_s=1))

    assert execution.outcome is Outcome.TIMEOUT


def test_a_frame_that_comes_byte_by_byte_is_taken_and_others_do_not_wait(raw, sandbox, paying):
    other = sandbox()
    other.run("1")

    execution = raw(
        "for byte in frame(json.dumps(pay(1, amount=5)).encode()): one.sendall(bytes([byte]))\nprint(receive())"
    )

    assert (paying.paid, execution.error) == ([(5, "")], None)


IDS = {
    "the same twice": "send(pay(7, amount=1)); send(pay(7, amount=2))",
    "a smaller one": "send(pay(7, amount=1)); send(pay(6, amount=2))",
    "the same for another message": "send(pay(7, amount=1)); send({'op': 'search', 'id': 7, 'query': ''})",
}


@pytest.mark.parametrize("kind", IDS)
def test_an_id_that_was_there_ends_the_run(raw, kind):
    execution = raw(f"{IDS[kind]}\ntime.sleep(60)")

    assert execution.error.type == "ProtocolViolation"
    assert "is not above 7, the last one" in execution.error.message


NAMES = [
    "delete",
    "__class__",
    "pay.__globals__",
    "pay.__self__.secret",
    "tools.pay",
    "../pay",
    "pay\0",
    "PAY",
    "",
    " pay",
    "pаy",
    "_tools",
    "get",
]


@pytest.mark.parametrize("name", NAMES)
def test_only_what_was_granted_is_called(raw, paying, name):
    execution = raw(
        f"print(ask({{'op': 'call', 'id': 1, 'tool': {name!r}, 'args': {{'amount': 5}}}})['error']['type'])"
    )

    assert execution.stdout == "UnknownTool\n"
    assert execution.tool_calls.outcomes == {"unknown": 1}
    assert paying.paid == []


def test_a_tool_of_another_sandbox_is_not_there(raw, sandbox, paying, monkeypatch):
    deleted = []
    delete = Tool("delete", lambda: deleted.append(1), parameters={"type": "object"})
    sandbox(tools=[delete]).run("1")
    source = "print(ask({'op': 'call', 'id': 1, 'tool': 'delete', 'args': {}})['ok'])"

    assert raw(source).stdout == "False\n"
    monkeypatch.setattr(Tools, "get", lambda self, name: delete)
    assert raw(source).stdout == "True\n"
    assert deleted == [1]


ARGUMENTS = [
    {},
    {"amount": "5"},
    {"amount": True},
    {"amount": None},
    {"amount": [5]},
    {"amount": {"$int": "5", "x": 1}},
    {"amount": 5, "self": 1},
    {"amount": 5, "__class__": 1},
    {"amount": 5, "to": 5},
    {"amount": {"$bytes": "AA=="}},
    {"amount": {"$float": "nan"}},
    {"amount": {"$int": "9" * 5000}},
    {"amount": {"$int": "٣"}},
    {"amount": 5, "to": {"$decimal": "1e99999999"}},
    {"amount": 5, "to": {"$import": "os"}},
    {"amount": 5, "to": {"$object": "x"}},
    {"amount": 5, "to": {"$datetime": "yesterday"}},
    {"amount": 5, "to": {"$bytes": "%%%"}},
    {"amount": 5, "to": {"$file": {"path": "x"}}},
    {"amount": 5, "to": {"$file": {"path": "../../etc/passwd", "size_bytes": 1, "sha256": "0" * 64}}},
    {"amount": 5, "to": {"$file": {"path": "/etc/passwd", "size_bytes": 1, "sha256": "0" * 64}}},
]


@pytest.mark.parametrize("args", ARGUMENTS, ids=lambda args: json.dumps(args)[:60])
def test_only_arguments_that_fit_reach_a_tool(raw, paying, args):
    execution = raw(f"print(ask(pay(1, **{args!r}))['error']['type'])")

    assert execution.stdout == "InvalidArguments\n"
    assert paying.paid == []


def test_without_the_schema_they_would(raw, paying, monkeypatch):
    monkeypatch.setattr(Checker, "problem", lambda self, value: None)
    anything = Tool("pay", paying.pay, parameters={"type": "object", "additionalProperties": True})

    raw("ask(pay(1, amount='five', to=[5]))", tools=[anything])

    assert paying.paid == [("five", [5])]


FILES = {
    "a link to a host file": "os.symlink('/etc/hostname', 'f')",
    "a hard link": "open('g', 'w').write('x'); os.link('g', 'f')",
    "a pipe": "os.mkfifo('f')",
    "a folder": "os.mkdir('f')",
    "a folder that is a link": "os.symlink('/etc', 'd')",
    "a sparse file": "open('f', 'wb').truncate(1 << 40)",
    "nothing": "pass",
}


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("whole", [True, False])
def test_a_file_that_is_named_is_read_in_the_workdir_only(raw, paying, kind, whole):
    path = "d/hostname" if kind == "a folder that is a link" else "f"
    source = f"""
attempt(lambda: exec({FILES[kind]!r}))
file = {{'path': {path!r}, 'size_bytes': 1, 'sha256': '0' * 64}}
message = {{'op': 'call', 'id': 1, 'tool': 'pay', 'file': file}} if {whole} else pay(1, amount=5, to={{'$file': file}})
print(ask(message)['error']['type'])
"""
    execution = raw(source, limits=Limits(wall_s=20))

    assert execution.stdout == "InvalidArguments\n"
    assert paying.paid == []


def test_one_file_that_is_named_a_thousand_times_is_counted_each_time(raw):
    """A frame of some kilobytes could otherwise have the host read gigabytes."""
    source = """
import hashlib
data = b'x' * 1_000_000
open('f', 'wb').write(data)
file = {'$file': {'path': 'f', 'size_bytes': len(data), 'sha256': hashlib.sha256(data).hexdigest()}}
print(ask({'op': 'call', 'id': 1, 'tool': 'see', 'args': {'items': [file] * 300}})['error']['message'])
"""
    see = Tool("see", lambda items: None, parameters={"type": "object", "properties": {"items": {}}})

    execution = raw(source, tools=Tools([see], quotas=ToolQuotas(sent_bytes=5_000_000)))

    assert execution.stdout == "see: the arguments of the run's calls are over 5000000 bytes together\n"


def test_who_goes_on_calling_over_the_quota_is_ended(raw, paying, monkeypatch):
    tools = Tools([Tool("pay", paying.pay)], quotas=ToolQuotas(calls=3))
    source = "for n in range(1, 100): ask(pay(n, amount=n))"

    execution = raw(source, tools=tools)

    assert execution.error.message == "the run went on calling tools: the run has made its 3 calls"
    assert [amount for amount, _ in paying.paid] == [1, 2, 3]
    monkeypatch.setattr(Session, "_over_quota", lambda self, size: None)
    assert raw(source, tools=tools).error is None
    assert len(paying.paid) == 3 + 99


FLOODS = {
    "greetings": "send({'op': 'hello', 'protocol': 'gbx-bridge/1'})",
    "questions": "send({'op': 'search', 'id': n, 'query': 'pay'})",
    "descriptions": "send({'op': 'describe', 'id': n, 'tool': 'pay'})",
    "calls of what there is not": "send({'op': 'call', 'id': n, 'tool': 'x' * 190, 'args': {}})",
    "calls that are taken back": "send(pay(n, amount=n)); send({'op': 'cancel', 'id': n})",
    "calls whose answer nobody reads": "send(pay(n, amount=n, to='x' * 10000))",
    "what takes back nothing": "send({'op': 'cancel', 'id': n})",
}


@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_ends_and_others_are_served_meanwhile(raw, sandbox, kind):
    other = sandbox()
    other.run("1")
    slowest, stop = [0.0], threading.Event()

    def watch():
        while not stop.is_set():
            begun = time.monotonic()
            other.run("1")
            slowest.append(time.monotonic() - begun)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        execution = raw(f"n = 0\nwhile True:\n    n += 1\n    {FLOODS[kind]}", limits=Limits(wall_s=60, cpu_s=60))
    finally:
        stop.set()
        watcher.join()

    assert execution.error.type == "ProtocolViolation"
    assert len(slowest) > 1


LARGE = """
import hashlib
def large(data):
    open('args', 'wb').write(data)
    return {'path': 'args', 'size_bytes': len(data), 'sha256': hashlib.sha256(data).hexdigest()}
"""


def test_what_one_call_can_cost_is_bounded(raw, sandbox):
    """As many values as a file holds, for a schema that looks at each in several ways."""
    schema = {
        "type": "object",
        "properties": {"x": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}}},
    }
    see = Tool("see", lambda x: None, parameters=schema)

    execution = raw(
        LARGE + "file = large(json.dumps({'x': [None] * 150000}).encode())\n"
        "print(ask({'op': 'call', 'id': 1, 'tool': 'see', 'file': file})['error']['message'])",
        tools=[see],
    )

    assert execution.stdout == "see: it would take too long to check against the schema\n"


def test_what_calls_under_way_hold_is_bounded(raw, monkeypatch):
    """Values take many times their bytes once decoded, and calls wait for each other."""
    monkeypatch.setattr(session, "_MOST_MEMORY", 40_000_000)

    async def wait(x) -> None:
        await asyncio.Event().wait()

    waiting = Tool("wait", wait, parameters={"type": "object", "properties": {"x": {}}})
    source = """
file = large(b'{"x":[' + b'[],' * 95000 + b'0]}')
for n in range(1, 5): send(json.dumps({'op': 'call', 'id': n, 'tool': 'wait', 'file': file}).encode())
print(receive()['error']['message'])
"""
    execution = raw(LARGE + source, tools=[waiting], limits=Limits(wall_s=60))

    assert execution.stdout == "too many large calls are under way at once; wait for their answers\n"


LATE = """
tools._bridge._channel.close = lambda: None  # which would shut the socket for the child, too
reader, writer = os.pipe()
if os.fork() == 0:
    os.setsid()
    os.read(reader, 1)
    try:
        send(pay(1, amount=13))
        receive()
    except (OSError, IndexError, ValueError): pass
    open('late', 'w').close()
    os._exit(0)
"""


@pytest.mark.parametrize("breached", [False, True])
def test_a_child_that_keeps_the_descriptor_has_nobody_to_talk_to_after_the_run(raw, paying, monkeypatch, breached):
    """Each run's socket is closed by the host at its end."""
    if breached:
        monkeypatch.setattr(Session, "end", lambda self: None)
        monkeypatch.setattr(Session, "close", lambda self: None)
    raw(LATE)

    done = raw.box.run("os.write(writer, b'.')\nwhile not os.path.exists('late'): time.sleep(0.01)", wall_s=20)

    assert done.error is None
    assert paying.paid == ([(13, "")] if breached else [])


def test_a_child_of_one_run_cannot_speak_in_the_next(raw, paying):
    raw(LATE)

    execution = raw.box.run(
        "os.write(writer, b'.')\nwhile not os.path.exists('late'): time.sleep(0.01)\ntools.pay(1)", wall_s=20
    )

    assert execution.text == "'paid 1'"
    assert paying.paid == [(1, "")]
    assert execution.tool_calls.total == 1


def test_what_was_sent_before_the_end_is_not_carried_out_in_the_next_run(raw, paying):
    raw("one.sendall(frame(json.dumps(pay(1, amount=1)).encode())[:-1])")

    execution = raw.box.run("one.sendall(b'}')", wall_s=20)

    assert paying.paid == []
    assert execution.tool_calls.total == 0


def test_an_answer_of_its_own_fools_nobody_but_the_guest(raw, paying, sandbox):
    """A guest has both ends of nothing: what it writes arrives at the host, and is a violation there."""
    execution = raw("send({'op': 'result', 'id': 1, 'ok': True, 'value': 'forged'})\ntools.pay(1)")

    assert execution.error.type == "ProtocolViolation"
    assert paying.paid == []


def test_descriptors_sent_to_the_host_are_not_kept(raw):
    execution = raw("""
ask(pay(1, amount=1))
for n in range(2, 50):
    fds = [os.open('/dev/null', os.O_RDONLY) for _ in range(10)]
    try: socket.send_fds(one, [frame(json.dumps(pay(n, amount=n)).encode())], fds)
    except PermissionError: print('refused')
    for fd in fds: os.close(fd)
""")

    assert execution.stdout.count("refused") == 48 or execution.error.message == "a guest sent a descriptor"
    assert not [fd for fd in os.listdir("/proc/self/fd") if _target(fd) == "/dev/null" and int(fd) > 2][10:]


def test_a_large_result_that_nobody_waits_for_any_more_is_closed(sandbox, monkeypatch):
    """The run ends while a thread of the host makes the file that the result would have come in."""
    begun, go, made = threading.Event(), threading.Event(), []

    def copied(data):
        begun.set()
        go.wait(20)
        made.append(memfile_copied(data))
        return made[0]

    memfile_copied = memfile.copied
    monkeypatch.setattr(memfile, "copied", copied)
    box = sandbox(tools=[Tool("big", lambda: "x" * (2 << 20), parameters={"type": "object"})])
    interrupter = threading.Thread(target=lambda: begun.wait(20) and box.interrupt())
    interrupter.start()

    execution = box.run("import tools\ntools.big()", wall_s=20)
    interrupter.join()
    go.set()

    assert execution.outcome is Outcome.CANCELLED
    until = time.monotonic() + 20
    while (not made or "memfd" in _target(made[0])) and time.monotonic() < until:
        time.sleep(0.01)
    assert "memfd" not in _target(made[0])


def _target(fd):
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return ""


def test_a_guest_that_shuts_the_socket_only_shuts_itself_out(raw, paying):
    execution = raw("one.shutdown(socket.SHUT_RDWR)\ntry: tools.pay(1)\nexcept tools.ToolError as e: print(e.type)")
    again = raw.box.run("tools.pay(2)")

    assert (execution.stdout, execution.error) == ("Unavailable\n", None)
    assert (again.text, paying.paid) == ("'paid 2'", [(2, "")])


def test_a_guest_cannot_make_the_wall_clock_stand_still_for_longer_than_is_allowed(raw):
    async def wait() -> None:
        await asyncio.Event().wait()

    tools = Tools([Tool("wait", wait)], quotas=ToolQuotas(waiting_s=0.5, call_s=0.2))
    source = "n = 0\nwhile True:\n    n += 1\n    ask({'op': 'call', 'id': n, 'tool': 'wait', 'args': {}})"

    execution = raw(source, tools=tools, limits=Limits(wall_s=1))

    assert execution.outcome is Outcome.TIMEOUT
    assert execution.tool_calls.waited_s < 3


def test_what_a_tool_raises_tells_nothing_of_the_host(raw, paying, everything, nonce):
    def fail() -> None:
        hidden = nonce
        raise RuntimeError(f"no access with key={hidden}")

    execution = raw("print(ask({'op': 'call', 'id': 1, 'tool': 'fail', 'args': {}}))", tools=[Tool("fail", fail)])

    assert "RuntimeError" in execution.stdout
    assert nonce.encode() not in everything(execution)


def test_an_approval_cannot_be_forged_or_outwaited(raw, paying):
    tools = Tools([Tool("pay", paying.pay, approval=True)], approve=lambda request: False)

    execution = raw(
        "print(ask(pay(1, amount=5))['error']['type'])\nprint(ask(pay(2, amount=5))['error']['type'])", tools=tools
    )

    assert execution.stdout == "ToolDenied\nToolDenied\n"
    assert paying.paid == []


def test_many_calls_at_once_ask_one_question_at_a_time_and_so_many_wait(raw, paying):
    asked, most = 0, 0

    async def approve(request):
        nonlocal asked, most
        asked += 1
        most = max(most, asked)
        await asyncio.sleep(0)
        asked -= 1
        return False

    tools = Tools([Tool("pay", paying.pay, approval=True)], approve=approve)
    source = """
one.sendall(b''.join(frame(json.dumps(pay(n, amount=n)).encode()) for n in range(1, 41)))
for _ in range(40): receive()
"""
    execution = raw(source, tools=tools)

    assert (most, paying.paid) == (1, [])
    assert execution.tool_calls.outcomes == {"denied": 1 + MOST_WAITING, "quota": 39 - MOST_WAITING}


def test_nothing_more_is_asked_in_a_run_that_ends_for_want_of_an_answer(raw, paying):
    asked = []
    pay = Tool("pay", paying.pay, approval=True)
    source = "one.sendall(b''.join(frame(json.dumps(pay(n, amount=n)).encode()) for n in range(1, 6)))\ntime.sleep(60)"

    execution = raw(source, tools=Tools([pay], approve=lambda request: asked.append(request.seq)))

    assert (execution.error.type, asked) == ("ToolApprovalPending", [1])


def test_a_guest_that_goes_on_while_an_approval_is_pending_gets_no_answer_and_ends(raw, paying):
    tools = Tools([Tool("pay", paying.pay, approval=True), Tool("free", lambda: 1, parameters={"type": "object"})])

    execution = raw(
        "send(pay(1, amount=5)); print(receive()['op'], flush=True)\nask({'op': 'call', 'id': 2, 'tool': 'free', 'args': {}})\nprint('answered')",
        tools=tools,
    )

    assert execution.error.type == "ToolApprovalPending"
    assert (execution.stdout, execution.state) == ("pause\n", "ended")
    assert paying.paid == []


def test_counts_are_the_hosts_own(raw, paying):
    """A guest that resets what it knows of itself does not reset what the host knows."""
    once = Tool("pay", paying.pay, max_calls=1)
    source = "tools.pay(1)\ntools._bridge._rows['pay'] = {'name': 'pay', 'max_calls': 99}\nprint(ask(pay(2, amount=2))['error']['type'])"

    execution = raw(source.replace("ask(pay(2", "ask(pay(20"), tools=[once])

    assert execution.stdout == "QuotaExceeded\n"
    assert len(paying.paid) == 1


def test_a_violation_that_is_not_acted_on_would_go_on(raw, monkeypatch):
    monkeypatch.setattr(RunControl, "violate", lambda self, violation: None)

    assert raw("send(b'x')\nprint('alive')").stdout == "alive\n"


def test_sandboxes_without_tools_have_no_socket_more(sandbox, prelude, paying):
    count = "sum(os.readlink(f'/proc/self/fd/{fd}').startswith('socket:') for fd in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{fd}') or os.path.islink(f'/proc/self/fd/{fd}'))"

    without, with_ = sandbox(), sandbox(tools=[Tool("pay", paying.pay)])

    # Last runs, because others have one to the copy from which scripts are forked.
    assert without.run_last(f"{prelude}\n{count}").text == "1"
    assert with_.run_last(f"{prelude}\n{count}").text == "2"
