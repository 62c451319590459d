"""A self-test of the wall on this host: small programs that try what a guest must not be able to do.

It shows that each layer stands here and now, on this kernel with this configuration; it is no proof that
nothing gets out, for which tests/escape tries harder. The host plants a secret (in a file, in its environment
and behind sockets) and judges by what it sees itself where it can: a connection that arrived, a secret in
a result, an outcome. For the rest a program tells what the kernel answered; these programs are ours.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from typing import Final

from groundbox.execution import Execution, Outcome
from groundbox.jail import GVISOR, LANDLOCK, NAMESPACES, kernel, syscalls
from groundbox.limits import Limits, MiB
from groundbox.sandbox.sandbox import AsyncSandbox

WALLED: Final = (NAMESPACES, LANDLOCK, GVISOR)
CONTAINED: Final = (NAMESPACES, GVISOR)
_HELD: Final = "held"
_LIMITS: Final = Limits(wall_s=10.0)


@dataclasses.dataclass(frozen=True)
class Probe:
    """One attempt.

    Attributes:
        name: What must hold.
        layer: The layer that sees to it first.
        source: Defines `attempt()`, which raises OSError or returns nothing when it was refused,
            and otherwise says what it achieved. Fields in braces are of `Planted`.
        outcome: How the run is to end. Where that is not `ok`, ending so is what holds.
        judge: Replaces what the program says by what the host sees; returns an empty string when it held.
    """

    name: str
    layer: str
    source: str
    backends: tuple[str, ...] = WALLED
    limits: Limits = _LIMITS
    outcome: Outcome = Outcome.OK
    judge: Callable[[Execution], str] | None = None


@dataclasses.dataclass(frozen=True)
class Planted:
    """What the host put where a guest must not find it."""

    secret: str
    path: str
    port: int
    abstract: str
    pid: int


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What became of one probe.

    Attributes:
        detail: What the attempt achieved, or how it went wrong; empty when the wall held.
        finished: Whether the attempt came to its end, so that `detail` is a breach.
    """

    probe: Probe
    detail: str
    finished: bool = True

    @property
    def held(self) -> bool:
        """Whether the wall is shown to stand."""
        return not self.detail

    @property
    def breach(self) -> bool:
        """Whether something got through."""
        return bool(self.detail) and self.finished


async def selftest(
    backend: str, *, environment: str = "default", waive: Collection[str] = ()
) -> AsyncIterator[Verdict]:
    """Run every probe that `backend` is to withstand, each in a sandbox of its own.

    Args:
        waive: Layers to do without, which shows what each of them holds off.

    Raises:
        SandboxUnavailable: The backend cannot stand here; nothing was tried.
        EnvironmentFailed: The environment is not there.
    """
    with _plant() as (planted, visitors):
        for probe in PROBES:
            if backend in probe.backends:
                execution = await _run(probe, planted, backend, environment, waive)
                came = visitors()
                yield Verdict(probe, came) if came else _judge(probe, execution, planted.secret)


async def _run(probe: Probe, planted: Planted, backend: str, environment: str, waive: Collection[str]) -> Execution:
    source = _HEAD + probe.source + _TAIL
    for name, value in _fields(planted).items():
        source = source.replace(f"{{{name}}}", value)
    box = AsyncSandbox(limits=probe.limits, backend=backend, environment=environment, waive=waive, profile="bare")
    return await box.run_last(source, mode="script")


def _fields(planted: Planted) -> Mapping[str, str]:
    numbers = {f"syscall {name}": str(number) for name, number in syscalls.NUMBERS[kernel.MACHINE].items()}
    return {**{name: repr(value) for name, value in vars(planted).items()}, **numbers}


def _judge(probe: Probe, execution: Execution, secret: str) -> Verdict:
    told = execution.stdout + execution.stderr + repr(execution.error)
    if secret in told or any(secret.encode() in each.read() for each in execution.artifacts.values()):
        return Verdict(probe, "the host's secret is in the result")
    said = execution.stdout.strip()
    expected = execution.outcome is probe.outcome
    if probe.judge is not None and expected:
        return Verdict(probe, probe.judge(execution))
    if said == _HELD or (expected and probe.outcome is not Outcome.OK):
        return Verdict(probe, "")
    if said and execution.ok:
        return Verdict(probe, said[:500])
    reason = execution.error.message if execution.error else ""
    return Verdict(probe, f"the attempt ended with {execution.outcome}: {reason}", finished=False)


@contextlib.contextmanager
def _plant() -> Iterator[tuple[Planted, Callable[[], str]]]:
    """The secret in its places, and a function that says who came to the sockets."""
    secret, variable = secrets.token_hex(16), "GROUNDBOX_SELFTEST"
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(tempfile.NamedTemporaryFile("w", prefix="groundbox-selftest-"))
        file.write(secret)
        file.flush()
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        unix = stack.enter_context(socket.socket(socket.AF_UNIX))
        abstract = f"groundbox-selftest-{secrets.token_hex(8)}"
        unix.bind("\0" + abstract)
        unix.listen()
        os.environ[variable] = secret
        stack.callback(os.environ.pop, variable)
        for listener in (tcp, unix):
            listener.setblocking(False)
        planted = Planted(secret, file.name, tcp.getsockname()[1], abstract, os.getpid())
        yield planted, lambda: _visitors({"the host's loopback": tcp, "a socket of the host": unix})


def _visitors(listeners: Mapping[str, socket.socket]) -> str:
    for name, listener in listeners.items():
        with contextlib.suppress(BlockingIOError):
            listener.accept()[0].close()
            return f"it reached {name}"
    return ""


def _no_artifacts(execution: Execution) -> str:
    found = ", ".join(execution.artifacts)
    return f"these came out as files: {found}" if found else ""


_HEAD: Final = """\
import ctypes, errno, os, socket

libc = ctypes.CDLL(None, use_errno=True)


def call(name, number, *arguments):
    ctypes.set_errno(0)
    answer = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(each) for each in arguments))
    error = ctypes.get_errno()
    if answer < 0 and error in (errno.EPERM, errno.ENOSYS, errno.EACCES):
        return
    return f"{name} answered {errno.errorcode.get(error, error) if answer < 0 else answer}"


def status(*wanted):
    with open("/proc/self/status") as file:
        lines = dict(line.partition(":")[::2] for line in file)
    found = {name: lines.get(name, "").strip() for name, _ in wanted}
    if found != dict(wanted):
        return str(found)


"""
_TAIL: Final = """

try:
    told = attempt()
except OSError:
    told = None
print(told or "held")
"""


def _refused(name: str, *arguments: int) -> Probe:
    words = ", ".join(map(str, arguments))
    source = f'def attempt():\n    return call("{name}", {{syscall {name}}}, {words})'
    return Probe(f"the system call {name} is refused", "seccomp", source)


PROBES: Final = (
    Probe(
        "the guest is not root, here or on the host",
        "uid",
        """\
def attempt():
    if 0 in (*os.getresuid(), *os.getresgid()):
        return f"its ids are {os.getresuid()} and {os.getresgid()}"
    with open("/proc/self/uid_map") as file:
        hosts = [int(line.split()[1]) for line in file if int(line.split()[2]) < 65536]
    if 0 in hosts:
        return "its user is root in the namespace above"
""",
        CONTAINED,
    ),
    Probe(
        "the guest holds no capability and can gain none",
        "capabilities",
        """\
def attempt():
    none = "0" * 16
    if libc.prctl(39, 0, 0, 0, 0) != 1:  # PR_GET_NO_NEW_PRIVS
        return "a setuid program could gain privileges"
    held = status(("CapPrm", none), ("CapEff", none), ("CapBnd", none))
    return held or (status(("CapAmb", none)) if status(("CapAmb", "")) else None)  # gVisor has no ambient set
""",
        CONTAINED,
    ),
    Probe(
        "system calls go through a filter",
        "seccomp",
        'def attempt():\n    return status(("Seccomp", "2"))\n',
        CONTAINED,
    ),
    Probe(
        "a file of the host cannot be read",
        "mount_ns",
        """\
def attempt():
    for above in ("", "/proc/1/root", "/proc/self/root/../..", "/proc/self/cwd/../../../.."):
        try:
            with open(above + {path}) as file:
                return "read through " + (above or "its own path") + ": " + file.read()
        except OSError:
            continue
""",
    ),
    Probe(
        "/etc/shadow cannot be read",
        "uid",
        """\
def attempt():
    with open("/etc/shadow") as file:
        return f"{len(file.read())} bytes read"
""",
    ),
    Probe(
        "nothing can be written outside the workdir and /tmp",
        "mount_ns",
        """\
def attempt():
    python = os.path.dirname(os.__file__)
    for folder in ("/", "/etc", "/usr", "/usr/lib", "/dev", "/var/tmp", "/run", "/home", python):
        try:
            with open(os.path.join(folder, "groundbox-selftest"), "w"):
                return "a file was made in " + folder
        except OSError:
            continue
""",
    ),
    Probe(
        "settings of the kernel cannot be written",
        "proc",
        """\
def attempt():
    for name in ("kernel/core_pattern", "kernel/modprobe", "vm/overcommit_memory"):
        try:
            with open("/proc/sys/" + name, "r+") as file:
                return "opened for writing: " + name
        except OSError:
            continue
""",
    ),
    Probe(
        "the host's loopback cannot be reached",
        "network_ns",
        """\
def attempt():
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as client:
        client.settimeout(1)
        client.connect(("127.0.0.1", {port}))
        return "connected"
""",
    ),
    Probe(
        "no packet leaves",
        "network_ns",
        """\
def attempt():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.sendto(b"x", ("192.0.2.1", 53))
        return "a datagram was sent"
""",
    ),
    Probe(
        "a socket of the host without a path cannot be reached",
        "landlock",
        """\
def attempt():
    with socket.socket(socket.AF_UNIX) as client:
        client.connect("\\0" + {abstract})
        return "connected"
""",
    ),
    _refused("mount", 0, 0, 0, 0, 0),
    _refused("unshare", 0x10000000),
    _refused("setns", -1, 0),
    _refused("ptrace", 0, 0, 0, 0),
    _refused("process_vm_readv", 1, 0, 0, 0, 0, 0),
    _refused("keyctl", 0, -3, 0, 0, 0),
    _refused("bpf", 0, 0, 0),
    _refused("io_uring_setup", 1, 0),
    _refused("userfaultfd", 0),
    _refused("perf_event_open", 0, 0, -1, -1, 0),
    Probe(
        "processes of the host cannot be seen",
        "pid_ns",
        """\
def attempt():
    seen = [name for name in os.listdir("/proc") if name.isdigit()]
    return f"{len(seen)} processes in /proc" if len(seen) > 5 else None
""",
        CONTAINED,
    ),
    Probe(
        "processes of the host cannot be signalled or read",
        "pid_ns",
        """\
def attempt():
    try:
        os.kill({pid}, 0)
        return "a signal would arrive"
    except OSError:
        with open("/proc/" + str({pid}) + "/environ", "rb") as file:
            return f"{len(file.read())} bytes of its environment read"
""",
    ),
    Probe(
        "the environment holds nothing of the host's",
        "environment",
        """\
def attempt():
    for name in ("/proc/self/environ", "/proc/1/environ"):
        try:
            with open(name) as file:
                print(file.read())
        except OSError:
            continue
    return "GROUNDBOX_SELFTEST is set" if "GROUNDBOX_SELFTEST" in os.environ else None
""",
        judge=lambda execution: "" if execution.stdout.endswith("held\n") else "it is set",
    ),
    Probe(
        "no descriptor of the host's is open",
        "descriptors",
        """\
def attempt():
    import stat
    def kind(number):
        try:
            return os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            return "unknown"
    for number in range(4096):
        try:
            mode = os.fstat(number).st_mode
        except OSError:
            continue
        character = stat.S_ISCHR(mode) and number < 3
        known = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISREG(mode) and number < 3 or character
        if not known and kind(number) != "anon_inode:[landlock-ruleset]":
            return f"descriptor {number} is open, mode {mode:o}"
""",
    ),
    Probe(
        "a fork bomb is bounded",
        "cgroup",
        """\
def attempt():
    import time
    made = 0
    while made < 100:
        if os.fork() == 0:
            time.sleep(5)
            os._exit(0)
        made += 1
    return f"{made} processes at once"
""",
        limits=Limits(wall_s=10.0, process_count=24),
    ),
    Probe(
        "the memory of one process is bounded",
        "rlimits",
        """\
def attempt():
    held = []
    while len(held) < 256:
        held.append(bytearray(b"x") * (1 << 20))
    return f"{len(held)} MiB held"
""",
        limits=Limits(wall_s=10.0, memory_bytes=64 * MiB),
        outcome=Outcome.MEMORY,
    ),
    Probe(
        "the memory of all processes together is bounded",
        "cgroup",
        """\
def attempt():
    children = []
    for _ in range(6):
        child = os.fork()
        if child == 0:
            held = bytearray(b"x") * (40 << 20)
            os._exit(0 if len(held) else 1)
        children.append(child)
    statuses = [os.waitpid(child, 0)[1] for child in children]
    return None if any(statuses) else "240 MiB held"
""",
        CONTAINED,
        limits=Limits(wall_s=10.0, memory_bytes=64 * MiB),
        outcome=Outcome.MEMORY,
    ),
    Probe(
        "the workdir is bounded in bytes",
        "workdir",
        """\
def attempt():
    for number in range(8):
        with open(f"{number}", "wb") as file:
            file.write(bytes(1 << 20))
    return "8 MiB written"
""",
        CONTAINED,
        limits=Limits(wall_s=10.0, disk_bytes=2 * MiB),
    ),
    Probe(
        "a program that never ends is ended",
        "deadline",
        """\
def attempt():
    import signal
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        pass
""",
        limits=Limits(wall_s=0.5),
        outcome=Outcome.TIMEOUT,
    ),
    Probe(
        "links in the workdir do not come out as files",
        "artifacts",
        """\
def attempt():
    os.symlink({path}, "secret.txt")
    os.symlink("/", "root")
    os.mkfifo("pipe")
""",
        judge=_no_artifacts,
    ),
)
