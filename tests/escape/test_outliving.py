"""Rows 8 and 9: signals to others, and living on. Nothing of a sandbox outlives it, however it resists."""

# ruff: noqa: E501  (programs of one line each are tables, and read as such)

import os
import signal
import time

import pytest

from groundbox import Limits, Outcome, SandboxLost
from groundbox.testing.base import until

MARK = "groundbox-outliving"


def _alive(mark):
    """Processes on this host with `mark` in their command line."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if mark.encode() in file.read():
                    found.append(int(pid))
        except OSError:
            continue
    return found


@pytest.fixture
def mark(nonce):
    return f"{MARK}-{nonce}"


# Each leaves a process behind whose command line holds MARK, and says so.
LEAVING = {
    "a daemon": """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: os.execvp('sleep', [MARK, '600'])
    os._exit(0)
""",
    "one that stopped itself": """
import signal
if os.fork() == 0:
    os.execvp('sh', ['sh', '-c', 'kill -STOP $$; sleep 600', MARK])
""",
    "one that ignores every signal": """
import signal
for number in range(1, 65):
    attempt(signal.signal, number, signal.SIG_IGN)
if os.fork() == 0: os.execvp('sleep', [MARK, '600'])
""",
    "one in its own group that no longer dies with its parent": """
if os.fork() == 0:
    os.setsid(); _libc.prctl(1, 0, 0, 0, 0)
    os.execvp('sleep', [MARK, '600'])
""",
    "one that holds the output": """
if os.fork() == 0: os.execvp('sleep', [MARK, '600'])
print('left behind')
""",
    "a relay": """
# A chain in which each process starts the next and ends, so that no process lives long.
if os.fork() == 0:
    import time
    while True:
        if os.fork(): os._exit(0)
        if os.fork() == 0: os.execvp('sleep', [MARK, '0.3'])
        time.sleep(0.02)
""",
    "many": """
for _ in range(20):
    if os.fork() == 0: os.execvp('sleep', [MARK, '600'])
""",
}


@pytest.mark.parametrize("kind", LEAVING)
def test_closing_the_sandbox_ends_it(sandbox, prelude, mark, kind):
    box = sandbox(limits=Limits(process_count=64))
    box.run(prelude + f"MARK = {mark!r}\n" + LEAVING[kind])
    assert until(lambda: _alive(mark))

    box.close()

    assert until(lambda: not _alive(mark))


@pytest.mark.parametrize("kind", LEAVING)
def test_the_end_of_a_script_ends_it(sandbox, prelude, mark, kind):
    box = sandbox(limits=Limits(process_count=64))

    execution = box.run(prelude + f"MARK = {mark!r}\n" + LEAVING[kind], mode="script", wall_s=20)

    assert execution.outcome is Outcome.OK
    assert until(lambda: not _alive(mark))
    assert box.run("1 + 1").text == "2"


SPINNING = {
    "python": "while True: pass",
    "ignoring interrupts": "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
    "blocking every signal": "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True: pass",
    "native code": "import re\nre.match('(a+)+$', 'a' * 64 + 'b')",
    "catching everything": "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
    "stopping itself": "import os, signal\nos.kill(0, signal.SIGSTOP)\nwhile True: pass",
    "sleeping": "import time\nwhile True:\n    try: time.sleep(600)\n    except BaseException: pass",
    "leaving": "import atexit, time\natexit.register(time.sleep, 600)",
    "in a finalizer": "class Late:\n    def __del__(self):\n        while True: pass\nlate = Late()",
    "a thread that stays": "import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()",
    "waiting for input of its own": "import os\nr, w = os.pipe(); os.read(r, 1)",
    "vfork": "import ctypes\nif ctypes.CDLL(None).vfork() == 0:\n    while True: pass",
    "many busy processes": "import os\nfor _ in range(3): os.fork()\nwhile True: pass",
    "closing its connection": "import os\nos.closerange(0, 1024)\nwhile True: pass",
}


@pytest.mark.parametrize("way", SPINNING)
@pytest.mark.parametrize("mode", ["cell", "script"])
def test_the_deadline_holds(sandbox, way, mode):
    """The deadline is the host's; the bound is generous, what would break it is waiting for the guest."""
    if mode == "cell" and way in ("leaving", "in a finalizer", "a thread that stays"):
        pytest.skip("a cell does not leave its process at its end")
    box = sandbox(limits=Limits(wall_s=0.5))
    box.run("1")
    begun = time.monotonic()

    execution = box.run(SPINNING[way], mode=mode)

    assert time.monotonic() - begun < 20
    assert execution.outcome is Outcome.TIMEOUT
    assert execution.exit_code is None or execution.exit_signal is None


@pytest.mark.layers(holds=["", "cgroup", "rlimits"])
def test_the_deadline_needs_no_layer(sandbox, waive, breached):
    box = sandbox(limits=Limits(wall_s=0.5), waive=waive)

    assert box.run("while True: pass").outcome is Outcome.TIMEOUT


KILL_ALL = """
import signal
for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGHUP):
    for pid in {1, -1, os.getppid(), *range(2, 300)} - {os.getpid()}:
        attempt(os.kill, pid, number)
print('still here', os.getpid() != 1)
"""


def test_a_script_cannot_kill_process_one(sandbox, prelude):
    box = sandbox()
    box.run("kept = 1")

    execution = box.run(prelude + KILL_ALL, mode="script")

    assert execution.stdout == "still here True\n"
    assert box.run("kept").text == "1"


@pytest.mark.layers(holds=[""], breaks=["seccomp"])
def test_a_script_cannot_take_away_what_process_one_needs(sandbox, waive, breached):
    box = sandbox(waive=waive)

    box.run(
        "import resource\ntry: resource.prlimit(1, resource.RLIMIT_NOFILE, (3, 3))\nexcept PermissionError: pass",
        mode="script",
    )
    try:
        works = box.run("raise SystemExit(7)", mode="script").exit_code == 7
    except SandboxLost:
        works = False

    assert works is not breached


def test_no_process_of_the_host_is_hit(sandbox, prelude):
    """A victim of the same user, if there is no other, stands for the host's processes."""
    victim = os.fork()
    if victim == 0:
        time.sleep(600)
        os._exit(0)
    try:
        execution = sandbox().run(
            prelude
            + f"import signal\nprint([attempt(os.kill, pid, signal.SIGKILL) for pid in ({victim}, {os.getpid()}, -{victim})])"
        )

        assert execution.stdout == "['ESRCH', 'ESRCH', 'ESRCH']\n"
        assert os.waitpid(victim, os.WNOHANG) == (0, 0)
    finally:
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)


def test_a_cell_that_ends_its_process_group_ends_only_itself(sandbox):
    one, other = sandbox(), sandbox()
    other.run("kept = 1")

    one.run("import os, signal\nos.killpg(0, signal.SIGKILL)\nos.kill(-1, signal.SIGKILL)")

    assert other.run("kept").text == "1"


def test_a_closed_connection_is_the_end_and_not_a_wait(sandbox):
    box = sandbox(limits=Limits(wall_s=60))

    execution = box.run("import os\nos.closerange(3, 96)")

    assert execution.outcome is Outcome.ERROR
    assert execution.state == "ended"
