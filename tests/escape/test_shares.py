"""What one sandbox leaves of the machine to other programs."""

import os
import subprocess
import sys

import pytest

from groundbox import Limits
from groundbox.jail import cgroup

IN_MESSAGES = """
import array, socket
pairs, sent = [], 0
descriptor, _ = os.pipe()
try:
    for _ in range(20):
        pairs.append(socket.socketpair())
        for _ in range(8):
            pairs[-1][0].sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [descriptor] * 100))])
            sent += 100
except OSError as error:
    print(errno.errorcode[error.errno])
"""
SENDS_ONE = """
import os, resource, socket
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
one, other = socket.socketpair()
socket.send_fds(one, [b'x'], [os.pipe()[0]])
"""


@pytest.mark.alone
@pytest.mark.layers(holds=["", "root: rlimits"], breaks=["user: rlimits"])
def test_descriptors_in_messages_of_a_guest_leave_the_users_other_programs_theirs(sandbox, prelude, waive, breached):
    """The kernel counts them for the host's user: under root each sandbox has one of its own, else there is one."""
    boxes = [sandbox(waive=waive) for _ in range(1 if waive else 3)]  # without the limit one takes all that there are
    for box in boxes:
        told = box.run(prelude + IN_MESSAGES).stdout
        assert told in ("ETOOMANYREFS\n", "EMFILE\n") or waive

    sent = subprocess.run([sys.executable, "-c", SENDS_ONE], capture_output=True, text=True)

    assert ("ETOOMANYREFS" in sent.stderr or "Too many references" in sent.stderr) is breached
    assert breached or sent.stderr == ""


MANY_SESSIONS = """
import time
os.sched_setaffinity(0, {PROCESSOR})
call('prctl', 15, b'NAMED')
for _ in range(30):
    if os.fork() == 0:
        attempt(os.setsid)
        while True: pass
print('begun', flush=True)
time.sleep(60)
"""
BUSY = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
def of_the_guest():
    ticks = 0
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try: name, _, fields = open(f'/proc/{pid}/stat').read().partition(') ')
        except OSError: continue
        if sys.argv[2] in name: ticks += sum(map(int, fields.split()[11:13]))
    return ticks / os.sysconf('SC_CLK_TCK')
before, end = of_the_guest() + time.process_time(), time.monotonic() + 2
own = -time.process_time()
while time.monotonic() < end: pass
own += time.process_time()
print(own, of_the_guest() + time.process_time() - before)
"""


@pytest.mark.alone
@pytest.mark.layers(holds=[""], breaks=["cgroup"])
def test_a_busy_program_of_the_host_keeps_its_share_beside_many_sessions(sandbox, prelude, nonce, waive, breached):
    """Both are kept on one processor, where the fair share is a half; what else the machine does takes from both."""
    if not cgroup.find().weighs():
        pytest.skip("the cpu controller is not mounted, or not delegated to this user")
    processor = str(min(os.sched_getaffinity(0)))
    box = sandbox(waive=waive, limits=Limits(process_count=80, wall_s=60, cpu_s=60))
    source = prelude + MANY_SESSIONS.replace("PROCESSOR", processor).replace("NAMED", nonce[:15])

    events = box.stream(source, mode="script")
    next(events)
    command = [sys.executable, "-c", BUSY, processor, nonce[:15]]
    beside = subprocess.run(command, start_new_session=True, capture_output=True, text=True, check=True)
    events.close()

    ours, both = map(float, beside.stdout.split())
    assert (ours / both < 0.4) is breached
