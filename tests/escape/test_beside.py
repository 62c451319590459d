"""A process that waits for the next shell program is out of reach of the program that runs beside it."""

import json
import subprocess
import sys

import pytest

from groundbox import Limits
from groundbox.jail import landlock

pytestmark = pytest.mark.skipif(
    landlock.abi() < landlock.APART_ABI,
    reason=f"Landlock before ABI {landlock.APART_ABI}: nothing waits beside another",
)

# One process waits, with a secret and a pipe that nobody else has; another one tries what its user may do to it.
TRIAL = """
import ctypes, json, os, signal, sys
from groundbox.guest.apart import Turns
from groundbox.jail import capabilities, kernel, landlock

def attempt(action):
    try:
        action()
    except OSError:
        return False
    return True

def write(path):
    with open(path, 'wb', buffering=0) as file:
        file.write(b'x')

def attack():
    print(json.dumps({
        'environment': attempt(lambda: open(f'/proc/{victim}/environ', 'rb').read(1)),
        'folder': attempt(lambda: os.readlink(f'/proc/{victim}/cwd')),
        'gate': attempt(lambda: write(f'/proc/{victim}/fd/5')),
        'signal 0': attempt(lambda: os.kill(victim, 0)),
        'stop': attempt(lambda: os.kill(victim, signal.SIGSTOP)),
        'stop its group': attempt(lambda: os.killpg(victim, signal.SIGSTOP)),
        'by descriptor': attempt(lambda: signal.pidfd_send_signal(os.pidfd_open(victim), signal.SIGCONT)),
        'memory': attempt(lambda: open(f'/proc/{victim}/mem', 'rb', buffering=0)),
        'descriptor': attempt(lambda: kernel.call('pidfd_getfd', os.pidfd_open(victim), 5, 0)),
        'trace': attempt(lambda: kernel.call('ptrace', 16, victim, 0, 0)),
    }), flush=True)

def fork():
    child = os.fork()
    if child == 0:
        attack()
        os._exit(0)
    return child

if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
capabilities.no_new_privileges()
turns = Turns(landlock.apart())
reader, writer = os.pipe()
nowhere = os.open(os.devnull, os.O_RDWR)
streams = [(os.POSIX_SPAWN_DUP2, ours, theirs) for ours, theirs in ((nowhere, 1), (nowhere, 2), (reader, 5))]
sleep = lambda: os.posix_spawn('/bin/sleep', ['sleep', '600'], {'SECRET': 's'}, file_actions=streams, setpgroup=0)
victim = turns.order(sleep).answer()
if 'same domain' in sys.argv:
    turns._starters.reverse()
os.waitpid(turns.order(fork).answer(), 0)
os.kill(victim, signal.SIGKILL)
"""


def tried(*options):
    said = subprocess.run([sys.executable, "-c", TRIAL, *options], capture_output=True, text=True, timeout=120)
    assert said.returncode == 0, said.stderr
    return json.loads(said.stdout)


REACHED = ["environment", "folder", "gate", "signal 0", "stop", "stop its group", "by descriptor"]


def test_from_the_other_domain_nothing_is_reached():
    assert {name for name, worked in tried().items() if worked} == set()


def test_in_one_domain_it_is():
    """Without the two domains. Whether memory can be read, and the process traced, is the host's setting besides."""
    worked = [name for name, worked in tried("same domain").items() if worked]

    assert worked[: len(REACHED)] == REACHED


# A program that looks for another one beside it, and does to it what a shell can.
LOOK = """
for path in /proc/[0-9]*; do
    pid=${path#/proc/}
    [ $pid = 1 ] || [ $pid = $$ ] && continue
    echo seen
    { read -r -n 1 x < $path/environ; } 2> /dev/null && echo read
    { echo > $path/fd/5; } 2> /dev/null && echo opened
    { kill -STOP $pid; } 2> /dev/null && echo stopped
    { kill -KILL -$pid; } 2> /dev/null && echo killed
done
kill -CONT -1 2> /dev/null
"""


def test_a_program_sees_the_one_that_waits_and_reaches_nothing_of_it(sandbox):
    box = sandbox()
    said = []
    for _ in range(400):
        said.append(box.run(LOOK, language="shell").stdout)
        if said.count("seen\n") == 3:
            break

    assert set(said) == {"", "seen\n"}


# Each does something to the process that waits, and to the threads of process 1 that start such processes.
ALTER = """
nice
for path in /proc/[0-9]*; do
    pid=${path#/proc/}
    [ $pid = 1 ] || [ $pid = $$ ] && continue
    echo seen
    python -c 'import os, sys; os.setpgid(0, int(sys.argv[1])); print("joined")' $pid 2> /dev/null
    renice -n 19 -p $pid > /dev/null 2>&1
done
for path in /proc/1/task/*; do
    [ $path = /proc/1/task/1 ] || renice -n 19 -p ${path##*/} > /dev/null 2>&1
done
"""


def test_what_is_changed_of_it_is_not_felt_by_the_next(sandbox):
    """Its group cannot be joined, or signals would be sent to all members of it (F_SETOWN)."""
    box = sandbox()
    nice = box.run("nice", language="shell").stdout
    said = []
    for _ in range(400):
        said.append(box.run(ALTER, language="shell").stdout)
        if said.count(f"{nice}seen\n") == 3:
            break

    assert set(said) == {nice, f"{nice}seen\n"}


@pytest.mark.parametrize("how", ["setsid sleep 600", "sleep 600", "setsid sh -c 'sleep 600 & sleep 600'"])
def test_what_a_program_leaves_running_is_ended_also_where_another_one_waits(sandbox, how):
    box = sandbox()
    look = "cat /proc/[0-9]*/cmdline 2> /dev/null | tr '\\0' ' ' | grep -c '[s]leep 600'"
    found = {box.run(f"{look}\n{how} > /dev/null 2>&1 &", language="shell").stdout for _ in range(30)}

    assert found == {"0\n"}


def test_where_few_processes_are_allowed_all_are_the_programs(sandbox):
    box = sandbox(limits=Limits(process_count=6))
    said = {box.run("sleep .02 | sleep .02 | sleep .02", language="shell", wall_s=60).stderr for _ in range(8)}

    assert said == {""}


def test_a_cell_has_no_thread_beside_it(sandbox):
    box = sandbox()
    for _ in range(20):
        box.run("true", language="shell")
    threads = box.run(
        "import os, time\nuntil = time.monotonic() + 30\n"
        "while len(os.listdir('/proc/self/task')) > 1 and time.monotonic() < until: pass\n"
        "print(len(os.listdir('/proc/self/task')), os.sched_getscheduler(0))"
    )

    assert threads.stdout == "1 0\n"
