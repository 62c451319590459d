"""The end of the host: killed at any moment, it leaves nothing behind that the next one does not remove."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time

import pytest

from groundbox import AsyncSandbox
from groundbox.jail import cgroup as cgroups
from groundbox.testing.base import until

HOST = """
import sys, time
import groundbox as gb
options = {options}
boxes = [gb.Sandbox(profile='bare', **options) for _ in range(3)]
boxes[0].run("import subprocess\\nfor _ in range(3): subprocess.Popen(['sleep', '86412'], start_new_session=True)")
busy = boxes[1].stream("print('busy', flush=True)\\nwhile True: pass")
next(busy)
# The worst guest: it no longer dies with its parent, ignores every signal, and never looks at its connection.
hostile = boxes[2].stream('''
import ctypes, signal, time
ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)
for number in set(range(1, 65)) - {{9, 19, 32, 33}}: signal.signal(number, signal.SIG_IGN)
print('hostile', flush=True)
while True: time.sleep(86412)
''')
next(hostile)
print('ready', flush=True)
time.sleep(600)
"""


def _started(**options):
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    host = subprocess.Popen(
        [sys.executable, "-c", HOST.format(options=options)],
        stdout=subprocess.PIPE,
        text=True,
        env=environ,
        preexec_fn=_heed_interrupts,
    )
    assert host.stdout.readline() == "ready\n"
    return host


def _descendants(pid):
    """All below `pid`; the kernel lists children by the thread that made them."""
    found, todo = set(), [pid]
    while todo:
        folder = f"/proc/{todo.pop()}/task"
        for task in os.listdir(folder) if os.path.isdir(folder) else []:
            try:
                with open(f"{folder}/{task}/children") as file:
                    children = {int(child) for child in file.read().split()}
            except OSError:
                continue
            found |= children
            todo += children
    return found


def _living(pids):
    alive = set()
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] != "Z":
                    alive.add(pid)
        except OSError:
            continue
    return alive


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_process_outlives_the_host(number):
    host = _started()
    below = _descendants(host.pid)
    assert len(below) >= 8

    host.send_signal(number)
    host.wait(30)

    assert until(lambda: not _living(below)), f"left: {_living(below)}"


def test_no_mount_is_left():
    with open("/proc/self/mountinfo") as file:
        before = file.read()
    host = _started()

    host.kill()
    host.wait()

    with open("/proc/self/mountinfo") as file:
        assert file.read() == before


def test_the_next_engine_removes_the_groups_of_one_that_was_killed():
    host = _started()
    groups = [folder for parent in cgroups.find().folders() for folder in _below(parent, host.pid)]
    assert groups
    host.kill()
    host.wait()
    time.sleep(0.2)

    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    program = "import groundbox as gb; print(gb.run('1', profile='bare').ok)"
    subprocess.run([sys.executable, "-c", program], env=environ, check=True, stdout=subprocess.DEVNULL)

    assert [folder for folder in groups if os.path.exists(folder)] == []


def _below(parent, pid):
    return [f"{parent}/{name}" for name in os.listdir(parent) if name.startswith(f"{pid}-")]


def test_the_next_engine_removes_the_folders_of_one_that_was_killed():
    """Only the backends without a root of their own have folders on the host's disk."""
    before = _folders()
    host = _started(backend="bare")
    assert _folders() - before
    below = _descendants(host.pid)

    host.kill()
    host.wait()
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    program = "import groundbox as gb; print(gb.run('1', profile='bare', backend='bare').ok)"
    subprocess.run([sys.executable, "-c", program], env=environ, check=True, stdout=subprocess.DEVNULL)

    for pid in _living(below):  # this backend is no wall, and cannot promise to end everything
        os.kill(pid, signal.SIGKILL)
    assert _folders() <= before


def _folders():
    return {name for name in os.listdir(tempfile.gettempdir()) if name.startswith("groundbox-") and "test" not in name}


def test_a_user_id_is_not_given_again_while_its_sandbox_lives():
    """Ids begin anew after sixty thousand workers, which a server makes in a day."""

    async def scenario():
        async with AsyncSandbox(profile="bare", hash_seed=60_000) as box:
            await box.run("1")
            loan = box._loan
            first = loan.worker.identity
            loan.template._next = first + 60_000 - 1
            made = [loan.pool._spawn() for _ in range(2)]
            for worker in made:
                worker.kill()
            return [worker.identity - first - 60_000 for worker in made]

    assert asyncio.run(scenario()) == [1, 2]


def _heed_interrupts():
    """A shell's background job has them ignored, and its children too."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
