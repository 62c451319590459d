"""Rows 15 and 16: lying about the result. What a guest sends is a claim; the host's own facts come first."""

# ruff: noqa: E501  (programs of one line each are tables, and read as such)

import os
import signal

import pytest

from groundbox import Limits, Outcome
from groundbox.errors import GroundboxError, SandboxLost
from groundbox.sandbox import wire

# Finds every descriptor that is no stream and writes to it what it takes for a frame or a report.
FORGE = """
import json, stat, struct
FRAMES = []
for number in range(1, 40):
    FRAMES += [
        {'ev': 'done', 'id': number, 'ok': True, 'exit_code': 0},
        {'ev': 'done', 'id': number, 'ok': True, 'value': {'text/plain': 'forged'}},
    ]
FRAMES += [{'ev': 'ready'}, {'ev': 'failed', 'reason': 'forged'}, {'ev': 'exit', 'id': 1, 'status': 0, 'cpu_s': 0, 'peak_memory_bytes': 0}]
def others():
    for fd in range(3, 96):
        try: kind = stat.S_IFMT(os.fstat(fd).st_mode)
        except OSError: continue
        yield fd, kind
        again = attempt(os.open, f'/proc/1/fd/{fd}', os.O_WRONLY | os.O_NONBLOCK)
        if isinstance(again, int): yield again, kind
for fd, kind in list(others()):
    os.set_blocking(fd, False)
    for frame in FRAMES:
        text = json.dumps(frame).encode()
        attempt(os.write, fd, text + b'\\n')
        if kind == stat.S_IFSOCK: attempt(os.write, fd, struct.pack('<I', len(text)) + text)
"""


@pytest.mark.parametrize("end", ["sys.exit(7)", "os._exit(7)", "raise SystemExit(7)"])
def test_a_script_cannot_forge_its_exit_code(attack, end):
    execution = attack(FORGE + f"import sys\n{end}", mode="script")

    assert (execution.outcome, execution.exit_code, execution.exit_signal) == (Outcome.ERROR, 7, None)


def test_a_script_cannot_hide_the_signal_that_ended_it(attack):
    execution = attack(FORGE + "os.kill(os.getpid(), 9)", mode="script")

    assert (execution.outcome, execution.exit_code, execution.exit_signal) == (Outcome.SIGNAL, None, signal.SIGKILL)


def test_a_script_cannot_make_up_a_limit_that_it_did_not_reach(attack):
    execution = attack("import signal\nos.kill(os.getpid(), signal.SIGXCPU)", mode="script")

    assert (execution.outcome, execution.exit_signal) == (Outcome.SIGNAL, signal.SIGXCPU)


def test_a_script_cannot_forge_through_its_children_after_its_end(attack):
    source = f"if os.fork() == 0:\n    import time\n    for _ in range(20):\n{_indented(FORGE, 8)}\n        time.sleep(0.01)\nos._exit(7)"

    assert attack(source, mode="script").exit_code == 7


def _indented(text, width):
    return "\n".join(" " * width + line for line in text.splitlines())


@pytest.mark.parametrize(
    "patch",
    [
        "import sys; sys.exit = lambda *a: None; sys.excepthook = lambda *a: None",
        "import atexit, os; atexit.register(os._exit, 7)",
        "import builtins; builtins.SystemExit = ValueError",
        "import threading; threading._shutdown = lambda: (_ for _ in ()).throw(SystemExit(0))",
        "import json; json.dumps = lambda *a, **k: '{}'",
        "import os; real = os._exit; os.write = lambda *a: 0",
        "import signal, os; os.WEXITSTATUS = os.WIFSIGNALED = lambda s: 0",
    ],
)
def test_patches_in_a_script_do_not_reach_who_reports(sandbox, patch):
    box = sandbox()

    box.run(patch + "\nraise ValueError('real')", mode="script")

    after = box.run("import sys\nsys.exit(7)", mode="script")
    assert (after.outcome, after.exit_code) == (Outcome.ERROR, 7)


def test_a_patched_exit_is_the_programs_own(attack):
    """What a program does to its own end is its exit code, whoever set it: that is the kernel's word."""
    execution = attack("import atexit\natexit.register(os._exit, 3)", mode="script")

    assert (execution.outcome, execution.exit_code) == (Outcome.ERROR, 3)


def test_a_deadline_cannot_be_talked_away(attack):
    execution = attack("import signal\n" + FORGE + "while True: pass", mode="script", limits=Limits(wall_s=1))

    assert execution.outcome is Outcome.TIMEOUT


GARBAGE = {
    "no json": "b'x' * 100",
    "a bare number": "b'5'",
    "an unknown event": 'b\'{"ev": "owned"}\'',
    "no event": "b'{}'",
    "a wrong type": 'b\'{"ev": "done", "id": "one", "ok": 1}\'',
    "deep": "b'{\"ev\": \"display\", \"data\": {\"a\": ' + b'[' * 100000 + b']' * 100000 + b'}}'",
    "deep objects": "b'{\"a\":' * 100000 + b'1' + b'}' * 100000",
    "invalid utf-8": 'b\'{"ev": "display", "data": {"a": "\\xff\\xfe"}}\'',
    "a lone surrogate": 'b\'{"ev": "display", "data": {"a": "\\\\ud800"}}\'',
    "a huge number": 'b\'{"ev": "done", "ok": true, "id": \' + b\'9\' * 100000 + b\'}\'',
    "not a number": 'b\'{"ev": "done", "ok": true, "id": NaN}\'',
}
SEND = """
import socket, stat, struct
def host():
    for fd in range(3, 96):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode): return socket.socket(fileno=os.dup(fd))
        except OSError: continue
one = host()
"""


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_on_the_connection_costs_the_guest_its_sandbox_and_the_host_nothing(sandbox, prelude, kind):
    box, other = sandbox(), sandbox()
    other.run("kept = 1")

    execution = box.run(
        prelude
        + SEND
        + f"data = {GARBAGE[kind]}\none.sendall(struct.pack('<I', len(data)) + data)\nimport time; time.sleep(60)"
    )

    assert execution.outcome is not Outcome.OK
    assert (execution.state, execution.error.type) == ("ended", "ProtocolViolation")
    with pytest.raises(SandboxLost):
        box.run("1")
    assert other.run("kept").text == "1"


@pytest.mark.parametrize("length", [wire.MOST_FRAME_BYTES + 1, 0xFFFFFFFF, 0x80000000])
def test_a_frame_that_says_it_is_too_large_is_refused_before_it_comes(sandbox, prelude, length):
    execution = sandbox().run(prelude + SEND + f"one.sendall(struct.pack('<I', {length}))\nimport time; time.sleep(60)")

    assert execution.error.type == "ProtocolViolation"
    assert execution.error.message == f"a guest's frame of {length} bytes is over {wire.MOST_FRAME_BYTES}"


def test_half_a_frame_is_waited_for_no_longer_than_the_deadline(sandbox, prelude):
    box = sandbox(limits=Limits(wall_s=1))

    execution = box.run(prelude + SEND + "one.sendall(struct.pack('<I', 1000) + b'{')\nimport time; time.sleep(600)")

    assert execution.outcome is Outcome.TIMEOUT


def test_descriptors_sent_to_the_host_are_not_kept(sandbox, prelude):
    """After the first frame the host takes none: the kernel refuses it, or the run ends (test_heartbeat.py)."""
    box = sandbox()
    box.run("1")
    before = len(os.listdir("/proc/self/fd"))
    source = """
import array, json
data = json.dumps({'ev': 'clear'}).encode()
for _ in range(50):
    fds = [os.open('/dev/null', os.O_RDONLY) for _ in range(10)]
    told = attempt(socket.send_fds, one, [struct.pack('<I', len(data)) + data], fds)
    for fd in fds: os.close(fd)
told
"""

    execution = box.run(prelude + SEND + source)

    assert execution.text == "'EPERM'" or execution.error.message == "a guest sent a descriptor"
    assert len(os.listdir("/proc/self/fd")) <= before + 10


def test_a_cell_that_claims_to_be_done_is_believed_about_itself_alone(sandbox, prelude):
    """A cell runs in the process that reports: its result is its own claim, that of another run is not."""
    box, other = sandbox(), sandbox()
    source = (
        SEND
        + """
import json
for number in range(1, 100):
    data = json.dumps({'ev': 'done', 'id': number, 'ok': True, 'value': {'text/plain': 'forged'}}).encode()
    one.sendall(struct.pack('<I', len(data)) + data)
"""
    )
    box.run(prelude + source)

    assert other.run("1 + 1").text == "2"


@pytest.mark.parametrize("code", [-1, 256, 10**6, 10**30])
def test_an_exit_code_that_cannot_be_is_not_passed_on(sandbox, prelude, code):
    source = (
        SEND
        + f"""
import json
for number in range(1, 30):
    data = json.dumps({{'ev': 'done', 'id': number, 'ok': False, 'exit_code': {code}}}).encode()
    one.sendall(struct.pack('<I', len(data)) + data)
"""
    )
    try:
        execution = sandbox().run(prelude + source)
    except GroundboxError:
        return

    assert execution.exit_code is None or 0 <= execution.exit_code <= 255


def test_a_signal_that_cannot_be_is_not_passed_on(sandbox, prelude):
    source = (
        SEND
        + """
import json
for number in range(1, 30):
    data = json.dumps({'ev': 'done', 'id': number, 'ok': False, 'exit_signal': 4096}).encode()
    one.sendall(struct.pack('<I', len(data)) + data)
"""
    )
    try:
        execution = sandbox().run(prelude + source)
    except GroundboxError:
        return

    assert execution.exit_signal is None or 1 <= execution.exit_signal <= 64


def test_exactly_one_of_exit_code_and_signal_is_set_whatever_is_claimed(sandbox, prelude):
    source = (
        SEND
        + """
import json
for number in range(1, 30):
    data = json.dumps({'ev': 'done', 'id': number, 'ok': True, 'exit_code': 0, 'exit_signal': 9}).encode()
    one.sendall(struct.pack('<I', len(data)) + data)
"""
    )
    execution = sandbox().run(prelude + source)

    assert (execution.exit_code is None) != (execution.exit_signal is None)


def test_a_pickle_is_only_bytes(attack, planted):
    """Whatever a guest leaves, the host does not load it."""
    source = f"""
import pickle
class Bomb:
    def __reduce__(self): return (exec, ("open({planted!r} + '.owned', 'w')",))
open('a.pkl', 'wb').write(pickle.dumps(Bomb()))
Bomb()
"""
    execution = attack(source)

    assert execution.artifacts["a.pkl"].read()
    assert not os.path.exists(planted + ".owned")
