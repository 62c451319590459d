"""Machines made of namespaces (scripts/fleet_rig.py): as far apart as they say, and gone when they should be."""

import contextlib
import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts/fleet_rig.py"
ECHO = """
import os, socket, threading
def echo(connection):
    while data := connection.recv(1000):
        connection.send(data)
    connection.close()
listening = socket.create_server(("", 7), backlog=100)
os.write(1, b"listens")
while True:
    threading.Thread(target=echo, args=(listening.accept()[0],), daemon=True).start()
"""
WITHIN_S = 20.0
"""Patience with a busy host; nothing waits for so long otherwise."""


def _load():
    spec = importlib.util.spec_from_file_location("fleet_rig_for_tests", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


fleet_rig = _load()
pytestmark = [
    pytest.mark.needs_root(reason="machines are made of namespaces and links"),
    pytest.mark.skipif(
        os.geteuid() == 0 and bool(fleet_rig.missing()), reason=f"a rig needs {', '.join(fleet_rig.missing())}"
    ),
]


@pytest.fixture(scope="module")
def rig():
    with fleet_rig.Rig(3) as made:
        yield made


@pytest.fixture
def machines(rig):
    """Machines that have power and are not cut off, whatever a test before has done."""
    yield rig.machines
    for machine in rig.machines:
        machine.clock(0)
        machine.heal()
        if not machine.init_pid:
            machine.boot()


def shell(machine, command):
    return machine.run(["sh", "-c", command], check=True).stdout.split()


def until(condition):
    """Wait until it holds, and return whether it does."""
    end = time.monotonic() + WITHIN_S
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(0.01)
    return found


@contextlib.contextmanager
def echoing(machine):
    """A program that listens on port 7."""
    near, far = socket.socketpair()
    with near:
        with far:
            started = machine.start([sys.executable, "-c", ECHO], stdout=far)
        near.settimeout(WITHIN_S)
        assert near.recv(100) == b"listens"
    yield started
    started.kill()
    started.wait(WITHIN_S)


def connect(machine, to, timeout_s=WITHIN_S):
    connection = machine.open_socket()
    connection.settimeout(timeout_s)
    connection.connect((to.address, 7))
    return connection


def inode(pid, kind):
    return os.stat(f"/proc/{pid}/ns/{kind}").st_ino


def living(namespaces):
    """Processes of the host that are in one of these namespaces."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for kind in ("pid", "net", "mnt"):
            try:
                if inode(pid, kind) in namespaces:
                    found.add(int(pid))
            except OSError:
                continue
    return found


def has_ended(pid):
    """Say whether a process has ended, though nobody may have asked it how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def groups(pid_namespace):
    """Control groups that groundbox named after a pid namespace."""
    named = re.compile(rf"\d+-\d+-{pid_namespace}-\d+")
    return [
        f"{folder}/{name}" for folder, below, _ in os.walk("/sys/fs/cgroup") for name in below if named.fullmatch(name)
    ]


def test_machines_reach_each_other_by_address_and_by_name(machines):
    one, two, three = machines
    program = "import socket, sys; print(socket.create_connection((sys.argv[1], 7), 20).getpeername()[0])"
    with echoing(two):
        heard = [
            machine.run([sys.executable, "-c", program, name], check=True).stdout.strip()
            for machine, name in ((one, two.address), (three, two.name), (two, two.name))
        ]

    assert heard == [two.address] * 3


def test_each_has_its_own_of_what_a_machine_has(rig, machines):
    one, two, _ = machines
    for path in ("/tmp/mine", "/run/mine", "/dev/shm/mine", "/srv/mine"):
        one.run(["touch", path], check=True)
    command = (
        "hostname; cat /proc/sys/kernel/random/boot_id /etc/machine-id; cat /proc/1/comm; ls -d /*/mine /dev/shm/*"
    )

    own = shell(one, command)
    other = shell(two, f"{command} || true")

    assert (own[0], other[0]) == ("machine-1", "machine-2")
    assert not {*own[1:3]} & {*other[1:3]}
    assert own[4:] == ["/dev/shm/mine", "/run/mine", "/srv/mine", "/tmp/mine"]
    assert other[4:] == []
    assert [path.name for path in one.data.iterdir()] == ["mine"]
    assert not os.path.exists("/run/mine")


def test_a_program_is_told_what_it_was_given_and_its_end_is_told(machines, tmp_path):
    one = machines[0]

    done = one.run(["sh", "-c", "cat; pwd; echo $WORD >&2; exit 3"], env={"WORD": "x"}, cwd="/usr", input="in\n")
    killed = one.start(["sh", "-c", "echo logged; kill -TERM $$"], log=tmp_path / "log").wait(WITHIN_S)
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        one.run(["no-such-program"])
    with pytest.raises(subprocess.TimeoutExpired):
        one.run(["sleep", "60"], timeout_s=0.01)

    assert (done.returncode, done.stdout, done.stderr) == (3, "in\n/usr\n", "x\n")
    assert killed == -signal.SIGTERM
    assert (tmp_path / "log").read_text() == "logged\n"


def test_orphans_are_reaped(machines):
    one = machines[0]

    one.run(["sh", "-c", "(sleep 0.01 &)"], check=True)

    assert until(lambda: "defunct" not in one.run(["ps", "ax"]).stdout and living({inode(one.init_pid, "pid")}))


def test_a_cut_is_silent_in_both_directions_and_heals(rig, machines):
    one, two, _ = machines
    with echoing(two), connect(one, two) as connection:
        connection.sendall(b"before")
        assert connection.recv(100) == b"before"

        two.cut()
        connection.sendall(b"while it was cut")
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.recv(100)
        for machine in (one, rig.switch):
            with pytest.raises(TimeoutError):
                connect(machine, two, 0.1)
        assert shell(two, "cat /sys/class/net/eth0/carrier || echo it still runs programs")
        two.heal()

        connection.settimeout(WITHIN_S)
        assert connection.recv(100) == b"while it was cut"


def test_a_killed_machine_is_gone_at_once_and_says_goodbye_to_nobody(machines):
    one, two, _ = machines
    with echoing(two) as serving, connect(one, two) as connection:
        # A daemon, and one in a pid namespace of its own, as sandboxes are.
        two.run(["sh", "-c", "setsid sleep 1000 & setsid unshare --pid --fork --mount-proc sleep 1001 &"], check=True)
        namespaces = {inode(two.init_pid, kind) for kind in ("pid", "net", "mnt")}
        assert until(lambda: len(living(namespaces)) >= 5)

        two.kill()

        assert living(namespaces) == set()
        assert serving.returncode == -signal.SIGKILL
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.recv(100)
        with pytest.raises(TimeoutError):
            connect(one, two, 0.1)
        with pytest.raises(fleet_rig.MachineDown, match="machine-2 has no power"):
            two.run(["true"])


def test_a_machine_that_boots_again_has_its_address_and_its_data_and_nothing_else(machines):
    one, two, _ = machines
    before = shell(two, "echo kept >/srv/kept; touch /tmp/lost; cat /proc/sys/kernel/random/boot_id")
    with echoing(two), connect(one, two) as connection:
        two.kill()

        two.boot()
        after = shell(two, "cat /proc/sys/kernel/random/boot_id /srv/kept; ls /tmp")

        with echoing(two):
            connect(one, two).close()
        connection.sendall(b"x")
        with pytest.raises(ConnectionResetError):  # the new boot knows nothing of a connection of the old one
            connection.recv(100)
    assert after[1:] == ["kept"]
    assert after[0] != before[0]


def test_a_machine_whose_init_is_killed_is_dead_and_boots(machines):
    one = machines[0]
    sleeping = one.start(["sleep", "1000"])

    os.kill(one.init_pid, signal.SIGKILL)

    assert sleeping.wait(WITHIN_S) == -signal.SIGKILL
    with pytest.raises(fleet_rig.MachineDown):
        one.run(["true"])
    one.kill()
    one.boot()
    assert one.run(["true"]).returncode == 0


def test_a_paused_machine_does_nothing_until_it_is_resumed(machines):
    one, two, _ = machines
    with echoing(two), connect(one, two) as connection:
        two.pause()
        connection.sendall(b"x")
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.recv(100)
        with pytest.raises(fleet_rig.MachineDown, match="paused"):
            two.run(["true"])
        two.resume()

        connection.settimeout(WITHIN_S)
        assert connection.recv(100) == b"x"


def test_a_clock_is_set_off_at_the_next_boot(machines):
    one = machines[0]
    program = [sys.executable, "-c", "import time; print(time.monotonic())"]

    one.clock(100_000.5)
    one.kill()
    one.boot()
    there = float(one.run(program, check=True).stdout)

    assert 0 < there - time.monotonic() - 99_900 < 200


def test_a_process_of_the_host_reaches_into_the_rig(rig, machines):
    two = machines[1]
    path = rig.forward(two.address, 7)

    with echoing(two), rig.dial(two.address, 7) as dialled, socket.socket(socket.AF_UNIX) as forwarded:
        forwarded.connect(str(path))
        for connection in (dialled, forwarded):
            connection.settimeout(WITHIN_S)
            connection.sendall(b"hello")
            assert connection.recv(100) == b"hello"
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(100) == b""


def test_packets_take_longer_where_the_kernel_can_do_it(rig, machines):
    two = machines[1]
    try:
        rig.delay(two, 50)
    except fleet_rig.RigUnavailable as problem:
        pytest.skip(str(problem))

    with echoing(two):
        begun = time.monotonic()
        rig.dial(two.address, 7).close()
        took_s = time.monotonic() - begun
    rig.delay(two, 0)

    assert took_s >= 0.05


def test_a_server_in_a_machine_runs_programs_for_another_and_leaves_no_control_groups(machines, tmp_path):
    pytest.importorskip("uvicorn", reason="the extra `server` is not installed here")
    one, two, _ = machines
    command = [sys.executable, "-m", "groundbox", "serve", "--host", one.address, "--allow-name", one.address]
    key = "k" * 32
    own = {"GROUNDBOX_API_KEY": key, "GROUNDBOX_ENGINE": "off", "PYTHONPATH": str(ROOT / "src")}
    server = one.start([*command, "--port", "8000"], env=own, log=tmp_path / "log")
    url = f"http://{one.address}:8000"
    ask = f"""if True:
        import json, urllib.request
        body = json.dumps({{"code": "print(6 * 7)"}}).encode()
        headers = {{"Authorization": "Bearer {key}", "Content-Type": "application/json"}}
        print(json.load(urllib.request.urlopen(urllib.request.Request("{url}/v1/run", body, headers), timeout=100)))
    """

    def listens():
        assert server.poll() is None, (tmp_path / "log").read_text()
        return two.run([sys.executable, "-c", f"import urllib.request as u; u.urlopen('{url}/livez')"]).returncode == 0

    assert until(listens)
    answer = two.run([sys.executable, "-c", ask])
    namespace = inode(one.init_pid, "pid")
    made = groups(namespace)
    one.kill()

    assert "'outcome': 'ok'" in answer.stdout, answer
    assert "'stdout': '42\\n'" in answer.stdout
    assert made
    assert groups(namespace) == []


DRIVER = f"""
import importlib.util, json, os, select, sys
spec = importlib.util.spec_from_file_location("fleet_rig", {str(SCRIPT)!r})
fleet_rig = importlib.util.module_from_spec(spec)
sys.modules["fleet_rig"] = fleet_rig
spec.loader.exec_module(fleet_rig)
with fleet_rig.Rig(2) as rig:
    everywhere = (rig.switch, *rig.machines)
    for machine in everywhere:
        machine.start(["sh", "-c", "setsid sleep 1000 & sleep 1000"])
    inits = [machine.init_pid for machine in everywhere]
    links = [f"/proc/{{pid}}/ns/{{kind}}" for pid in inits for kind in ("pid", "net", "mnt")]
    facts = {{
        "supervisor": rig.supervisor_pid,
        "folder": str(rig.folder),
        "namespaces": [os.stat(link).st_ino for link in links],
        "group": f"1-1-{{os.stat(links[3]).st_ino}}-1",
    }}
    os.makedirs(os.path.join(sys.argv[1], facts["group"], "below"))
    print(json.dumps(facts), flush=True)
    while not select.select([sys.stdin], [], [], 0.05)[0]:  # a signal just before a wait without end would be lost
        pass
    raise ValueError("an end that nobody planned")
"""


@pytest.mark.parametrize("end", ["exception", "SIGINT", "SIGTERM", "SIGKILL", "SIGKILL of the supervisor"])
def test_nothing_stays_however_it_ends(end, tmp_path):
    # Version 1 of control groups has folders for controllers, version 2 has one root.
    parent = next(path for path in ("/sys/fs/cgroup/pids", "/sys/fs/cgroup") if os.path.isdir(path))
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    facts = json.loads(driver.stdout.readline())
    namespaces = set(facts["namespaces"])
    assert until(lambda: len(living(namespaces)) == 12)

    if end == "exception":
        driver.stdin.write(b"\n")
        driver.stdin.flush()
    elif end == "SIGKILL of the supervisor":
        os.kill(facts["supervisor"], signal.SIGKILL)
    else:
        driver.send_signal(signal.Signals[end])

    assert until(lambda: not living(namespaces))
    if end == "SIGKILL of the supervisor":  # who would have removed folders and groups is dead
        driver.kill()
        os.rmdir(f"{parent}/{facts['group']}/below")
        os.rmdir(f"{parent}/{facts['group']}")
        subprocess.run(["rm", "-r", facts["folder"]], check=True)
    driver.communicate()
    assert until(lambda: has_ended(facts["supervisor"]))
    assert not os.path.exists(facts["folder"])
    assert not os.path.exists(f"{parent}/{facts['group']}")
    assert "fleet-rig" not in Path("/proc/self/mountinfo").read_text()
    assert not re.search(r"\b(bridge|port\d)\b", Path("/proc/net/dev").read_text())


def test_the_command_says_how_machines_are_entered():
    shell = subprocess.Popen([sys.executable, SCRIPT, "shell", "1"], stdout=subprocess.PIPE, text=True)

    lines = [shell.stdout.readline().split() for _ in range(4)]
    entered = subprocess.run([*lines[3][2:], "hostname"], capture_output=True, text=True)
    shell.send_signal(signal.SIGINT)

    assert shell.wait(WITHIN_S) == 0
    assert lines[3][:2] == ["machine-1", "10.213.0.11"]
    assert entered.stdout == "machine-1\n"
