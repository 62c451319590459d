"""The backend gvisor: what it gives, what it refuses by name, and what is left when it ends."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

import groundbox as gb
from groundbox import Limits, Sandbox
from groundbox.jail import probe
from groundbox.limits import MiB
from groundbox.sandbox.gvisor import _Relay
from groundbox.testing.base import until

_FOUND = probe.gvisor()
needs_gvisor = pytest.mark.skipif(not _FOUND.works, reason=f"gvisor: {_FOUND.detail}")


@pytest.fixture
def box():
    with Sandbox(backend="gvisor", profile="bare") as box:
        yield box


def processes(name):
    """How many processes of this host bear a name."""
    found = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                found += name in file.read()
        except OSError:
            continue
    return found


def test_without_runsc_it_is_refused_by_name_with_what_to_do(monkeypatch):
    monkeypatch.setattr(probe, "find_runsc", lambda: None)

    with pytest.raises(gb.SandboxUnavailable) as refused:
        gb.run("print(1)", backend="gvisor")

    assert refused.value.missing == ["gvisor: runsc is not installed"]
    assert "apt-get install runsc" in refused.value.mends[0]


@needs_gvisor
def test_a_program_meets_another_kernel_than_the_hosts():
    execution = gb.run("import os; print(os.uname().release)", backend="gvisor")

    assert execution.isolation.backend == "gvisor"
    assert {"gvisor", "chroot", "pid_ns", "uid", "seccomp"} <= set(execution.isolation.layers)
    assert execution.stdout.strip() not in ("", os.uname().release)


@needs_gvisor
def test_what_the_host_reads_of_a_workdir_is_a_file_system_of_its_own(box):
    execution = box.run("import os\nopen('made.txt', 'w').write('inside')\nos.symlink('/etc/passwd', 'link')")

    assert {name: each.read() for name, each in execution.artifacts.items()} == {"made.txt": b"inside"}


@needs_gvisor
def test_large_input_and_large_output_cross_whole(box):
    data = os.urandom(1 << 20).hex()

    execution = box.run("import sys; sys.stdout.write(sys.stdin.read())", mode="script", stdin=data)

    assert execution.outputs["stdout"].read(0, 1 << 22) == data.encode()


@needs_gvisor
def test_a_guest_that_prints_without_end_holds_up_no_other(box):
    with Sandbox(backend="gvisor", profile="bare") as flooding:
        running = flooding.stream("while True: print('x' * 10000)", wall_s=20)
        next(iter(running))

        execution = box.run("print('served')")

        running.close()
    assert execution.stdout == "served\n"


@needs_gvisor
def test_memory_of_all_processes_is_added_up_and_told():
    source = """
import os, time
for _ in range(6):
    if os.fork() == 0:
        block = bytearray(b'x') * (40 << 20)
        time.sleep(60)
time.sleep(60)
"""
    with Sandbox(backend="gvisor", profile="bare", limits=Limits(memory_bytes=128 * MiB, wall_s=50)) as box:
        execution = box.run(source, mode="script")

    assert execution.outcome == "memory"


@needs_gvisor
def test_processes_of_one_end_with_it_while_another_goes_on(box):
    """They are none of this kernel's, but write to a file system of its."""
    box.run("kept = 1")
    with Sandbox(backend="gvisor", profile="bare") as other:
        other.run(
            "import subprocess\n"
            "loop = 'while :; do date +%N > beat; sleep 0.05; done'\n"
            "subprocess.Popen(['setsid', 'bash', '-c', loop], start_new_session=True)"
        )
        workdir = os.dup(other.asynchronous._loan.worker.workdir._descriptor)

        def last():
            return os.stat("beat", dir_fd=workdir).st_mtime_ns if "beat" in os.listdir(workdir) else None

        def beats():
            before = last()
            time.sleep(1)
            return last() != before

        while_it_lives = until(beats)

    assert while_it_lives
    assert until(lambda: not beats())
    os.close(workdir)
    assert box.run("kept").text == "1"


def test_a_kill_of_who_has_ended_already_leaves_the_container_alone():
    """The relay ends a container in which a kill is without effect."""
    host, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    from_inside, _inside_writes = os.pipe()
    _inside_reads, to_inside = os.pipe()
    relay = _Relay(control, from_inside, to_inside, "/nowhere")
    relay._of = {1: []}

    for identity in (1, 2):
        host.send(json.dumps({"op": "signal", "id": identity, "number": signal.SIGKILL}).encode())
    relay.step(0)

    assert list(relay._ends_by) == [1]


@needs_gvisor
def test_how_a_script_ended_is_the_guests_word_because_its_process_one_is_not_closed_to_it(box):
    source = "import os; print(len(os.listdir('/proc/1/fd')) > 0)"

    execution = box.run(source, mode="script")

    assert (execution.stdout, execution.trust) == ("True\n", "guest")


@needs_gvisor
def test_two_guests_of_one_container_see_and_reach_nothing_of_each_other(box):
    with Sandbox(backend="gvisor", profile="bare") as other:
        other.run("open('/tmp/secret', 'w').write('secret')\nopen('/dev/shm/secret', 'w').write('secret')")
        seen = box.run("""
import os
def parent(name): return open(f'/proc/{name}/stat').read().rpartition(')')[2].split()[1]
# without the copy of process 1 from which scripts are forked, a child of it
found = [name for name in os.listdir('/proc') if name.isdigit() and parent(name) != '1']
shown = [os.listdir(folder) for folder in ('/tmp', '/dev/shm', '.')]
found, shown, os.getuid() != 0
""")
        ids = [each.run("import os; os.getuid()").text for each in (box, other)]

    assert seen.text == "(['1'], [[], [], []], True)"
    assert len(set(ids)) == 2


@needs_gvisor
@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"waive": ["seccomp"]}, "waive"),
        ({"network": gb.Network(allow=["example.org"])}, "network"),
        ({"branching": True}, "branching"),
    ],
)
def test_what_it_cannot_give_is_refused_by_name(options, field):
    with pytest.raises(gb.InvalidArgument) as refused:
        Sandbox(backend="gvisor", profile="bare", **options).run("1")

    assert refused.value.argument == field


@needs_gvisor
def test_a_trace_and_a_terminal_are_refused_by_name(box):
    with pytest.raises(gb.InvalidArgument, match="trace"):
        gb.run("a = 1", backend="gvisor", trace=True)
    with pytest.raises(gb.InvalidArgument, match="pty"):
        box.start("cat", pty=(24, 80))


@needs_gvisor
def test_nothing_is_left_when_the_host_process_is_killed():
    script = (
        "import time\nfrom groundbox import Sandbox\nbox = Sandbox(backend='gvisor', profile='bare')\n"
        "print(box.run('1').text, flush=True)\ntime.sleep(600)\n"
    )
    before = processes(b"runsc-sandbox")
    host = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    started = host.stdout.readline()
    during = processes(b"runsc-sandbox")

    host.send_signal(signal.SIGKILL)
    host.wait()

    assert started == b"1\n"
    assert during > before
    assert until(lambda: processes(b"runsc-sandbox") == before, within_s=30)
    with open("/proc/self/mountinfo") as file:
        assert "/boxes" not in file.read()


@needs_gvisor
def test_another_sandbox_is_another_fork_in_the_same_container():
    gb.run("1", backend="gvisor")
    containers = processes(b"runsc-sandbox")

    gb.run("1", backend="gvisor")

    assert processes(b"runsc-sandbox") == containers
