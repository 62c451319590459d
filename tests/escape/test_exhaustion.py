"""Rows 10 to 12: memory of every kind, processes and threads, processor time."""

# ruff: noqa: E501  (programs of one line each are tables, and read as such)

import contextlib
import os
import socket
import threading
import time
from pathlib import Path

import pytest

from groundbox import Limits, MiB, Network, Outcome
from groundbox.testing.base import until

LIMIT = 96 * MiB

# Each tries to hold 512 MiB and says so when it does. Written so that no single allocation is refused by a
# limit of one process: only a count over the whole tree can stop them.
HOLDING = {
    "heap in small pieces": "held = [bytes([i % 251]) * 65536 for i in range(8192)]",
    "many children": """
import select, time
reader, writer = os.pipe()
for _ in range(8):
    if os.fork() == 0:
        held = [bytes([i % 251]) * 65536 for i in range(1024)]
        os.write(writer, b'.')
        time.sleep(600)
told = 0
while told < 8 and select.select([reader], [], [], 3)[0]: told += len(os.read(reader, 8))
""",
    "shared memory": """
import mmap
area = mmap.mmap(-1, 512 << 20)
for i in range(0, 512 << 20, 4096): area[i] = 1
""",
    "a memory file": """
files = [os.memfd_create('x') for _ in range(8)]
for file in files:
    for _ in range(64): assert os.write(file, bytes(1 << 20)) == 1 << 20
""",
    "System V shared memory": """
libc = ctypes.CDLL(None); libc.shmat.restype = ctypes.c_void_p
for _ in range(8):
    segment = libc.shmget(0, 64 << 20, 0o1600)
    assert segment >= 0
    ctypes.memset(libc.shmat(segment, None, 0), 1, 64 << 20)
""",
    "pipe buffers": """
import fcntl
pipes = []
for _ in range(500):
    reader, writer = os.pipe(); pipes.append((reader, writer))
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 1 << 20)
    os.set_blocking(writer, False)
    for _ in range(256): os.write(writer, bytes(4096))
""",
    "socket buffers": """
import socket
pairs = []
for _ in range(480):
    pair = socket.socketpair(); pairs.append(pair); pair[0].setblocking(False)
    pair[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
    try:
        while True: pair[0].send(bytes(1 << 16))
    except OSError: pass
""",
    "files in the workdir": """
for i in range(512): open(f'/box/work/{i}', 'wb').write(bytes(1 << 20))
""",
}
# Where no system call has to fail for the limit to hold, so that the program may well end.
NOT_TOLD = ("many children", "socket buffers", "pipe buffers")
# How a limit shows itself: the kernel's end, Python's MemoryError, or a system call that says there is no more.
SHOWN = {"MemoryError", "OutOfMemory", "Signal", "OSError", "BlockingIOError", "AssertionError"}


@pytest.mark.parametrize("kind", HOLDING)
@pytest.mark.parametrize("mode", ["cell", "script"])
def test_memory_of_every_kind_is_bounded(attack, kind, mode):
    limits = Limits(memory_bytes=LIMIT, disk_bytes=None, wall_s=60, cpu_s=60)

    execution = attack(HOLDING[kind] + "\nprint('held it all')", limits=limits, mode=mode)

    assert execution.usage.peak_memory_bytes <= LIMIT + MiB
    if kind not in NOT_TOLD:
        assert "held it all" not in execution.stdout
        assert execution.error is not None
        assert execution.error.type in SHOWN


@pytest.mark.parametrize("kind", ["many children", "shared memory", "a memory file"])
@pytest.mark.layers(holds=[], breaks=["cgroup"])
def test_without_the_group_the_sum_is_not_bounded(attack, kind, waive, breached):
    """The control: limits of single processes let these through. 512 MiB for a moment."""
    limits = Limits(memory_bytes=LIMIT, disk_bytes=None, wall_s=60, cpu_s=60)

    execution = attack(HOLDING[kind] + "\nprint('held it all')", limits=limits, waive=waive)

    assert execution.stdout == "held it all\n"


def available():
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("MemAvailable:")) * 1024


def settled():
    """Wait until what ran before has given back its memory: no change of 8 MiB for a second, in ten of them."""
    for _ in range(10):
        before = available()
        time.sleep(1)
        if abs(available() - before) < 8 * MiB:
            return


def taken_of_the_machine(act):
    """How much less memory there was at worst than at the beginning: the host's own view, for a group's may be blind."""
    over = threading.Event()
    settled()
    least = before = available()

    def watch():
        nonlocal least
        while not over.wait(0.005):
            least = min(least, available())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        act()
    finally:
        over.set()
        thread.join()
    return before - least


@pytest.mark.alone
@pytest.mark.parametrize("kind", ["many children", "socket buffers"])  # pipes are bounded by user, with or without
@pytest.mark.layers(holds=[""], breaks=["cgroup"])
def test_the_machine_itself_lacks_no_more_than_the_limit(attack, kind, waive, breached):
    limits = Limits(memory_bytes=LIMIT, disk_bytes=None, wall_s=60, cpu_s=60)
    attack("pass", limits=limits, waive=waive)  # whose template is in memory then

    def hold():
        attack(HOLDING[kind] + "\nprint('held it all')", limits=limits, waive=waive)

    # Programs that are not ours take and give back memory as well: one reading of three is enough.
    taken = []
    while len(taken) < 3 and (not taken or (taken[-1] > LIMIT + 64 * MiB) is not breached):
        taken.append(taken_of_the_machine(hold))

    assert (taken[-1] > LIMIT + 64 * MiB) is breached, [f"{each / MiB:.0f} MiB" for each in taken]


FILL_LOOPBACK = """
import socket
listener = socket.socket(); listener.bind(('127.0.0.1', 0)); listener.listen()
held, total = [], 0
for _ in range(400):
    if total > 120 << 20: break
    try: one = socket.create_connection(listener.getsockname()); held += [one, listener.accept()[0]]
    except OSError: break  # no more files, of which an ordinary user's guest has few
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 20); one.setblocking(False)
    try:
        while True: total += one.send(bytes(1 << 16))
    except OSError: pass
total
"""


@pytest.mark.layers(holds=[""], breaks=["cgroup"])
def test_buffers_of_internet_sockets_are_bounded(attack, waive, breached):
    """Version 1 counts them apart, and all sockets of the host draw from one supply (net.ipv4.tcp_mem).

    Version 2 counts them with the rest: there the kernel ends the program at the limit, and no number comes.
    """
    limits = Limits(memory_bytes=LIMIT, wall_s=60, cpu_s=60)

    execution = attack(FILL_LOOPBACK, network=Network(loopback=True), limits=limits, waive=waive)

    assert (int(execution.text or 0) > LIMIT) is breached
    assert execution.text or execution.outcome is Outcome.MEMORY


TAKE_HUGE_PAGES = """
_libc.mmap.restype = ctypes.c_void_p
HUGE, SIZE, FAILED = 0x40000, 2 << 20, ctypes.c_void_p(-1).value
def taken(address):
    if address in (FAILED, None): return False
    ctypes.memset(address, 1, SIZE)
    return True
file = call('memfd_create', b'x', 4)
segment = call('shmget', 0, SIZE, 0o5600)
_libc.shmat.restype = ctypes.c_void_p
print(
    taken(_libc.mmap(None, ctypes.c_size_t(SIZE), 3, 0x22 | HUGE, -1, 0)),
    file >= 0 and taken(_libc.mmap(None, ctypes.c_size_t(SIZE), 3, 1, file, 0)),
    segment >= 0 and taken(_libc.shmat(segment, None, 0)),
)
"""


@pytest.fixture
def huge_pages():
    """A few huge pages reserved on this host, as for a database."""
    setting = "/proc/sys/vm/nr_hugepages"
    with open(setting) as file:
        before = file.read()
    try:
        with open(setting, "w") as file:
            file.write(str(int(before) + 8))
        with open("/proc/meminfo") as file:
            if "HugePages_Free:        0" in file.read():
                pytest.skip("this host has no 2 MiB of memory in one piece")
        yield
    finally:
        with open(setting, "w") as file:
            file.write(before)


@pytest.mark.needs_root(reason="to reserve huge pages")
@pytest.mark.layers(holds=[""], breaks=["seccomp"])
def test_reserved_huge_pages_of_the_host_are_out_of_reach(attack, huge_pages, waive, breached):
    """No memory group counts them."""
    execution = attack(TAKE_HUGE_PAGES, waive=waive)

    assert execution.stdout == ("True True False\n" if breached else "False False False\n")


def test_the_memory_of_the_last_run_is_not_charged_to_the_next_sandbox(attack):
    """System V segments outlive their processes; here they go with the namespace."""
    for _ in range(4):
        execution = attack(
            "libc = ctypes.CDLL(None); libc.shmat.restype = ctypes.c_void_p\n"
            "segment = libc.shmget(0, 64 << 20, 0o1600)\n"
            "_ = ctypes.memset(libc.shmat(segment, None, 0), 1, 64 << 20)",
            limits=Limits(memory_bytes=LIMIT),
        )
        assert execution.outcome is Outcome.OK


def test_a_sandbox_without_memory_left_says_so_and_others_live(sandbox):
    other = sandbox()
    other.run("kept = 1")
    box = sandbox(limits=Limits(memory_bytes=LIMIT))

    execution = box.run("import os\nwhile True:\n    if os.fork() == 0: held = [bytes(65536) for _ in range(400)]")

    assert execution.outcome in (Outcome.MEMORY, Outcome.ERROR, Outcome.TIMEOUT)
    assert other.run("kept").text == "1"


BOMBS = {
    "fork": "while True: attempt(os.fork)",
    "fork, the children too, with sleep": "import time\nwhile True:\n    if attempt(os.fork) == 0: time.sleep(600)",
    "threads": "import threading, time\nwhile True: attempt(lambda: threading.Thread(target=time.sleep, args=(600,), daemon=True).start())",
    "clone": "while True: call('clone', 17, None, None, None, None)",
    "zombies": "while True:\n    if attempt(os.fork) == 0: os._exit(0)",
    "programs": "import subprocess\nwhile True: attempt(subprocess.Popen, ['sleep', '600'])",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_stays_within_its_count(sandbox, prelude, bomb):
    """Judged by the most processes that the host ever sees under the sandbox's group."""
    box = sandbox(limits=Limits(process_count=20, wall_s=1.5, memory_bytes=256 * MiB))
    box.run("1")
    most = 0

    with _watching(box) as counts:
        execution = box.run(prelude + BOMBS[bomb])
        most = max(counts, default=0)

    assert execution.outcome in (Outcome.TIMEOUT, Outcome.MEMORY)
    assert 10 <= most <= 22  # the kernel counts one up before it refuses it, on each processor


@contextlib.contextmanager
def _watching(box):
    group = box.asynchronous._loan.worker.cgroup
    counts, stop = [], threading.Event()

    def watch():
        while not stop.is_set():
            with contextlib.suppress(OSError):
                counts.append(group.process_count())
            time.sleep(0.005)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield counts
    finally:
        stop.set()
        watcher.join()


@pytest.mark.layers(holds=[""], breaks=["cgroup rlimits"])
def test_the_number_of_processes_is_held_by_the_group(attack, waive, breached):
    source = """
import time
made = 0
for _ in range(200):
    child = attempt(os.fork)
    if child == 0:
        time.sleep(600)
    made += isinstance(child, int)
made
"""
    execution = attack(source, waive=waive, limits=Limits(process_count=40, memory_bytes=None))

    assert (int(execution.text) > 40) is breached


def test_the_group_counts_time_of_children_that_are_gone(attack):
    source = """
import time
for _ in range(4):
    if os.fork() == 0:
        end = time.process_time() + 0.2
        while time.process_time() < end: pass
        os._exit(0)
    os.wait()
"""
    execution = attack(source)

    assert execution.usage.cpu_s >= 0.8


def test_many_short_processes_cannot_outrun_the_processor_time(attack):
    """Each process is below the limit of one process; their sum is what counts."""
    source = """
import time
while True:
    if os.fork() == 0:
        end = time.process_time() + 0.05
        while time.process_time() < end: pass
        os._exit(0)
    os.wait()
"""
    execution = attack(source, limits=Limits(cpu_s=0.8, wall_s=60))

    assert execution.outcome is Outcome.TIMEOUT
    assert execution.error.message == "the program was stopped at cpu_s=0.8"
    assert execution.usage.cpu_s < 8


def test_open_files_are_bounded(attack):
    text = attack(
        "import resource; files = []\ntry:\n    while True: files.append(os.dup(1))\nexcept OSError: n = len(files)\nfor f in files: os.close(f)\nn"
    ).text

    most = 1024 if os.geteuid() == 0 else 512  # an ordinary user's other programs have descriptors in messages, too
    assert most - 124 < int(text) <= most


CRASHES = {
    "a script": "os.abort()",
    "a child of another program": "import subprocess; subprocess.run(['bash', '-c', 'kill -SEGV $$'])",
    "with a limit of nothing": "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); os.abort()",
    "with a limit of nothing, by prlimit": """
import resource
limits = ctypes.create_string_buffer(16), ctypes.create_string_buffer(16)
for old in limits[1], None: call('prlimit64', 0, resource.RLIMIT_CORE, limits[0], old)
os.abort()
""",
}


@pytest.fixture
def core_handler(tmp_path_factory):
    """A program that the kernel starts for each crash, as systemd-coredump is: leaves what it is given in a file."""
    folder = tmp_path_factory.mktemp("cores")
    handler = folder / "handler"
    handler.write_text(f"#!/bin/sh\nexec cat > {folder}/core.$1\n")
    handler.chmod(0o755)
    with _core_pattern(f"|{handler} %P"):
        yield lambda: [path.read_bytes() for path in folder.glob("core.*")]


@pytest.fixture
def core_socket():
    """A socket that the kernel connects to for each crash (Linux 6.16): tells what came."""
    path = f"/run/groundbox-test-{os.getpid()}.sock"
    received = []

    def listen():
        while not received or received[-1] != b"end":
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as file:
                received.append(file.read())

    def end():
        with socket.socket(socket.AF_UNIX) as last:
            last.connect(path)
            last.sendall(b"end")
        thread.join()
        return received

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        thread = threading.Thread(target=listen, daemon=True)
        try:
            with _core_pattern(f"@{path}"):
                thread.start()
                yield end
        finally:
            os.unlink(path)


@contextlib.contextmanager
def _core_pattern(pattern):
    setting = Path("/proc/sys/kernel/core_pattern")
    before = setting.read_text()
    try:
        setting.write_text(pattern)
        if setting.read_text().strip() != pattern:
            pytest.skip("this kernel takes no such core_pattern")
        yield
    finally:
        setting.write_text(before)


HOLDS_A_NONCE = "held = b'{nonce}' * 10000\n"


@pytest.mark.alone
@pytest.mark.needs_root(reason="to say what the kernel does with cores")
@pytest.mark.layers(holds=[""], breaks=["rlimits"])
def test_no_crash_starts_the_hosts_handler_of_cores(sandbox, prelude, core_handler, waive, breached):
    """Where core_pattern is a pipe, RLIMIT_CORE=0 does not hold it off; with a pattern that is a file none of this shows."""
    box = sandbox(waive=waive)

    for crash in CRASHES.values():
        box.run(prelude + crash, mode="script")

    if breached:
        assert until(lambda: len(core_handler()) == len(CRASHES))
    else:
        time.sleep(0.2)
        assert core_handler() == []


@pytest.mark.alone
@pytest.mark.needs_root(reason="to say what the kernel does with cores")
@pytest.mark.layers(holds=[""], breaks=["seccomp"])
def test_a_guest_cannot_lower_its_limit_of_cores_to_none(sandbox, prelude, core_handler, waive, breached):
    """None is what the kernel does not heed. What is left of the core then has registers only."""
    box = sandbox(waive=waive)
    lowering = [source for name, source in CRASHES.items() if "nothing" in name]

    for crash in lowering:
        box.run(prelude + f"held = {'x' * 1_000_000!r}\n" + crash, mode="script")

    if breached:
        assert until(lambda: len(core_handler()) == len(lowering))
    else:
        time.sleep(0.2)
        assert core_handler() == []
    assert max(map(len, core_handler()), default=0) < 100_000


@pytest.mark.alone
@pytest.mark.needs_root(reason="to say what the kernel does with cores")
@pytest.mark.layers(holds=[""], breaks=["rlimits"])
def test_no_memory_of_a_guest_goes_to_the_hosts_socket_of_cores(attack, core_socket, nonce, waive, breached):
    attack(HOLDS_A_NONCE.format(nonce=nonce) + "os.abort()", mode="script", waive=waive)

    found = sum(core.count(nonce.encode()) for core in core_socket())
    assert (found >= 10_000) is breached
    assert found * len(nonce) < 16_384 or breached  # registers hold what was copied last: AVX-512 2 KiB, AMX 8


@pytest.mark.alone
@pytest.mark.needs_root(reason="to say what the kernel does with cores")
@pytest.mark.layers(holds=[""], breaks=["rlimits seccomp"])
def test_no_core_is_written_into_the_workdir(attack, waive, breached):
    source = "import resource; resource.setrlimit(resource.RLIMIT_CORE, (most := resource.getrlimit(4)[1], most)); os.abort()"

    with _core_pattern("core"):
        execution = attack(source, mode="script", waive=waive)

    assert bool(execution.artifacts) is breached


def test_the_host_stays_responsive_beside_a_busy_sandbox(sandbox):
    """A run beside four busy sandboxes still ends; the ratio of times is not looked at, two cores are few."""
    busy = [sandbox(limits=Limits(wall_s=3)) for _ in range(4)]
    streams = [box.stream("print(1, flush=True)\nwhile True: pass") for box in busy]
    for stream in streams:
        next(stream)

    assert sandbox().run("6 * 7").text == "42"

    for stream in streams:
        stream.close()
