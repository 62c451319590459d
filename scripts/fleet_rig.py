"""Machines made of namespaces, on one Linux host: for tests of fleets, and to look at by hand.

    python scripts/fleet_rig.py shell 3

    with Rig(3) as rig:
        one, two, _ = rig.machines
        server = one.start(["groundbox", "serve", "--host", one.address, "--allow-name", one.address], log="one.log")
        two.run(["curl", f"http://{one.address}:8000/livez"])
        rig.dial(one.address, 8000)  # a connected socket, for the process that made the rig
        one.cut()                    # packets are lost without a word; heal() brings the network back
        one.kill()                   # power loss; boot() starts it again, with its address and its data

A machine has network, process ids, mounts, host name and System V IPC of its own, an empty /tmp, /run and /dev/shm
after each boot, and a folder /srv that stays over boots. It shares all other files, the processors, the wall clock and
the kernel. The switch, a machine that nobody kills, has the bridge that all are connected to. It sees the host's /tmp,
/run and /dev/shm, so that what runs there (a gateway, a database) is within reach of a test on unix sockets. The
network's addresses exist in these namespaces only: rigs run beside each other, and the host's network is not touched.

Who does it: `Rig` starts a supervisor, a fresh interpreter, over a socket. The supervisor forks process 1 of every
machine (an init that starts programs, reaps, and hands out sockets), connects them with ip(8), and tears all down when
it is told to, or when the process that made the rig ends, which a pidfd tells it even after SIGKILL. Where the
supervisor itself is killed, the kernel kills every init (PR_SET_PDEATHSIG), and with an init its whole namespace; only
the rig's folder in /var/tmp and control groups are left then. See pid_namespaces(7), network_namespaces(7), prctl(2).

Control groups are named in the host's tree, which machines share. groundbox removes what a killed server left there
when the next one starts in the same pid namespace, and a machine that boots has a new one: so the supervisor removes
the groups of a machine that has died, as the loss of power would.

How far a machine is one:

- `cut` takes the machine's link out of the bridge. Links stay up and neighbours are entered by hand, so that a
  connection to the other side blocks, as through a router, and gets neither a reset nor "no route to host". So does one
  to a machine without power.
- `pause` stops processes. The kernel still acknowledges what is sent to them; with `cut` it is a virtual machine that
  does not run. A parent that asks for it (WUNTRACED) sees that its children stopped.
- `clock` moves CLOCK_MONOTONIC and CLOCK_BOOTTIME. There is no namespace for the wall clock.
- /proc/sys/kernel/random/boot_id changes with each boot, and /etc/machine-id stays; a file is mounted over each.
  Sandboxes can mount a /proc of their own all the same, because the host's lies whole beneath the machine's.
- Host user ids of sandboxes are lent by the host's lock files, which machines share, so that none is lent twice.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import errno
import ipaddress
import json
import math
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, Any, Final, NoReturn

NETWORK: Final = ipaddress.ip_network("10.213.0.0/16")
PRIVATE: Final = ("/tmp", "/run", "/dev/shm")
DATA: Final = "/srv"
BRIDGE: Final = "bridge"
_UIDS: Final = "/run/groundbox/uids"
_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
_CGROUPS: Final = "/sys/fs/cgroup"
_FLAGS: Final = {"mnt": 0x0002_0000, "uts": 0x0400_0000, "ipc": 0x0800_0000, "net": 0x4000_0000}
_NEWPID: Final = 0x2000_0000
_NEWTIME: Final = 0x80
_MS_BIND: Final = 4096
_MS_PRIVATE: Final = 1 << 18
_MS_REC: Final = 16384
_PR_SET_PDEATHSIG: Final = 1
_CAP_NET_ADMIN, _CAP_SYS_ADMIN = 12, 21
_MESSAGE_BYTES: Final = 1 << 17


class RigUnavailable(Exception):
    """This host cannot do it; the message says what is missing."""


class MachineDown(Exception):
    """The machine has no power, or is paused."""


def missing() -> list[str]:
    """Return what a rig would need and this process does not have; empty where one can be made."""
    found = [] if sys.platform == "linux" else ["Linux"]
    if os.geteuid() != 0:
        found.append("root")
    elif ~_capabilities() & (1 << _CAP_SYS_ADMIN | 1 << _CAP_NET_ADMIN):
        found.append("CAP_SYS_ADMIN and CAP_NET_ADMIN")
    return found + [f"{name} (iproute2)" for name in ("ip", "tc") if shutil.which(name) is None]


def _capabilities() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("CapEff:")[2].split()[0], 16)


class Rig:
    """A switch and machines, all running.

    Attributes:
        switch: What runs on it is in the machines' network.
        machines: In the order of their addresses.
        folder: Of this rig on the host; removed at the end.
    """

    def __init__(self, count: int, *, keep: Sequence[str | Path] = ()) -> None:
        """Start it.

        Args:
            count: How many machines.
            keep: Paths below /tmp, /run or /dev/shm of the host that machines see. The checkout and the
                interpreter's own folders are among them.

        Raises:
            RigUnavailable: This host has no root, ip(8) or namespaces for us.
        """
        lacking = missing()
        if lacking:
            raise RigUnavailable(f"a rig needs {', '.join(lacking)}")
        self._lock = threading.Lock()
        orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._orders = orders
        own = os.pidfd_open(os.getpid())
        try:
            command = [sys.executable, "-I", "-S", os.path.abspath(__file__), "supervise"]
            self._supervisor = subprocess.Popen(
                [*command, str(theirs.fileno()), str(own)], pass_fds=[theirs.fileno(), own], start_new_session=True
            )
        except BaseException:
            orders.close()
            raise
        finally:
            theirs.close()
            os.close(own)
        self._closing = weakref.finalize(self, _end, orders, self._supervisor)
        try:
            seen = [
                str(Path(path).resolve()) for path in (*keep, Path(__file__).parents[1], sys.prefix, sys.base_prefix)
            ]
            kept = [path for path in dict.fromkeys(seen) if path.startswith(tuple(f"{each}/" for each in PRIVATE))]
            self.folder = Path(self._tell("make", count=count, keep=kept)["folder"])
            self.switch = Machine(self, 0)
            self.machines = tuple(Machine(self, number + 1) for number in range(count))
            for machine in (self.switch, *self.machines):
                machine.boot()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End everything in it, and wait until it has ended. Idempotent."""
        self._closing()
        for machine in (*getattr(self, "machines", ()), *filter(None, [getattr(self, "switch", None)])):
            machine._forget()

    def __enter__(self) -> Rig:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def supervisor_pid(self) -> int:
        """Process id of the supervisor on the host."""
        return self._supervisor.pid

    def dial(self, address: str, port: int, *, timeout_s: float | None = 10.0) -> socket.socket:
        """Return a connection from the switch to a program in the rig, for this process.

        Raises:
            OSError: As connect(2); TimeoutError where nobody answers within `timeout_s`.
        """
        made = self.switch.open_socket()
        try:
            made.settimeout(timeout_s)
            made.connect((address, port))
        except BaseException:
            made.close()
            raise
        return made

    def forward(self, address: str, port: int) -> Path:
        """Return a unix socket of the host by which clients that dial for themselves reach a program in the rig.

        A connection that cannot be made within the rig is closed; bytes, and the end of each direction, are passed on.
        """
        path = self.folder / f"{address}-{port}-{uuid.uuid4().hex[:8]}.sock"
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(path))
            listening.listen(1024)
            self.switch.start(
                [sys.executable, "-I", "-S", os.path.abspath(__file__), "forward", address, str(port)], stdin=listening
            )
        return path

    def delay(self, machine: Machine, ms: float) -> None:
        """Let packets from the switch to `machine` take so long; 0 undoes it.

        Raises:
            RigUnavailable: The kernel has no netem (CONFIG_NET_SCH_NETEM).
        """
        queue = ["tc", "qdisc", "replace", "dev", machine.port, "root"]
        done = self.switch.run([*queue, *(["netem", "delay", f"{ms}ms"] if ms else ["pfifo"])])
        if done.returncode:
            raise RigUnavailable(f"packets cannot be delayed here: {done.stderr.strip()}")

    def _tell(self, order: str, **arguments: Any) -> dict[str, Any]:
        """Ask the supervisor; descriptors in its answer are under `descriptors`, owned by the caller."""
        with self._lock:
            try:
                _send(self._orders, {"order": order, **arguments})
                answer = _receive(self._orders)
            except OSError as error:
                raise RigUnavailable(f"the rig has ended: {error}") from None
        if answer is None:
            raise RigUnavailable("the rig has ended")
        if "problem" in answer:
            raise RigUnavailable(answer["problem"])
        return answer


def _end(orders: socket.socket, supervisor: subprocess.Popen[bytes]) -> None:
    orders.close()
    supervisor.wait()


class Machine:
    """A machine, or the switch (number 0).

    Attributes:
        name: Its host name, which all machines can resolve.
        address: The same after each boot.
        port: Name of its link at the switch.
        data: The host's path of the folder that is /srv there.
    """

    def __init__(self, rig: Rig, number: int) -> None:
        self._rig = rig
        self._number = number
        self._orders: socket.socket | None = None
        self._clock_s = 0.0
        self._paused = False
        self._started: weakref.WeakSet[Process] = weakref.WeakSet()
        self.name = _name(number)
        self.address = _address(number)
        self.port = _port(number)
        self.data = rig.folder / self.name
        self.init_pid = 0
        """Process id of its init on the host; 0 without power."""

    def boot(self) -> None:
        """Start it. Without effect while it has power."""
        if self.init_pid:
            return
        answer = self._rig._tell("boot", number=self._number, clock_s=self._clock_s)
        self._orders = socket.socket(fileno=answer["descriptors"][0])
        self.init_pid = answer["pid"]

    def kill(self) -> None:
        """Take its power: every process ends at once, and nothing is sent to its peers. Idempotent."""
        if self._number == 0:
            raise ValueError("the switch ends with the rig")
        self._rig._tell("kill", number=self._number)
        self._forget()

    def cut(self) -> None:
        """Lose every packet from and to it, silently. Holds over boots."""
        self._rig._tell("cut_off", number=self._number, cut=True)

    def heal(self) -> None:
        """End what `cut` began. TCP goes on when it next repeats a packet, which may take as long again as the cut."""
        self._rig._tell("cut_off", number=self._number, cut=False)

    def pause(self) -> None:
        """Stop every process (SIGSTOP), as on a host that stalls."""
        self._ask({"order": "pause"})[0].close()
        self._paused = True

    def resume(self) -> None:
        """Let those go on that `pause` has stopped."""
        self._paused = False
        self._ask({"order": "resume"})[0].close()

    def clock(self, offset_s: float) -> None:
        """Set its CLOCK_MONOTONIC and CLOCK_BOOTTIME off from the host's by so much, from the next boot on.

        The wall clock has no namespace, and stays the host's. No clock can be set below zero: boot says so.
        """
        self._clock_s = offset_s

    def open_socket(self, family: int = socket.AF_INET, kind: int = socket.SOCK_STREAM) -> socket.socket:
        """Return a new socket in its network for this process, which may connect, or bind and listen.

        The network namespace lives as long as the socket.
        """
        channel, answer = self._ask({"order": "socket", "family": int(family), "kind": int(kind)})
        channel.close()
        return socket.socket(fileno=answer["descriptors"][0])

    def start(
        self,
        arguments: Sequence[str | os.PathLike[str]],
        *,
        env: Mapping[str, str] | None = None,
        log: str | os.PathLike[str] | None = None,
        cwd: str = "/",
        stdin: Any = None,
        stdout: Any = None,
        stderr: Any = None,
    ) -> Process:
        """Start a program as a child of its init.

        Args:
            arguments: The program, looked for in PATH, and what it is told.
            env: Added to this process's environment.
            log: A file of the host to append both outputs to.
            cwd: As the machine sees it.
            stdin: Something with a `fileno()`; nothing by default.
            stdout: The same; this process's own by default.
            stderr: The same.

        Raises:
            OSError: It could not be started.
            MachineDown: The machine cannot start anything.
        """
        if self._paused:
            raise MachineDown(f"{self.name} is paused")
        with contextlib.ExitStack() as files:
            nothing = files.enter_context(open(os.devnull, "rb"))
            if log is not None:
                stdout = stderr = files.enter_context(open(log, "ab"))
            given = (stdin or nothing, 1 if stdout is None else stdout, 2 if stderr is None else stderr)
            named = [os.fspath(each) for each in arguments]
            order = {
                "order": "start",
                "arguments": named,
                "environment": {**os.environ, **(env or {})},
                "cwd": cwd,
            }
            channel, answer = self._ask(order, [each if isinstance(each, int) else each.fileno() for each in given])
        started = Process(named, answer["pid"], answer["descriptors"][0], channel)
        self._started.add(started)
        return started

    def run(
        self,
        arguments: Sequence[str | os.PathLike[str]],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str = "/",
        input: str = "",
        timeout_s: float | None = 60.0,
        check: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end, as `subprocess.run` with text captured.

        Raises:
            subprocess.TimeoutExpired: It was killed after `timeout_s`.
            subprocess.CalledProcessError: With `check`, it did not exit with 0.
        """
        with _memory(input) as stdin, _memory() as stdout, _memory() as stderr:
            started = self.start(arguments, env=env, cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr)
            try:
                status = started.wait(timeout_s)
            except BaseException:
                started.kill()
                raise
            for file in (stdout, stderr):
                file.seek(0)
            done = subprocess.CompletedProcess(
                started.args, status, stdout.read().decode(errors="replace"), stderr.read().decode(errors="replace")
            )
        if check:
            done.check_returncode()
        return done

    def _ask(self, order: dict[str, Any], descriptors: Sequence[int] = ()) -> tuple[socket.socket, dict[str, Any]]:
        """Have the init do something; returns the channel it answers on, and its answer."""
        channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                if self._orders is None:
                    raise MachineDown(f"{self.name} has no power")
                _send(self._orders, order, [theirs.fileno(), *descriptors])
            answer = _receive(channel)
            if answer is None:
                raise MachineDown(f"{self.name} has died")
            if "errno" in answer:
                raise OSError(answer["errno"], os.strerror(answer["errno"]), answer["about"])
        except (BrokenPipeError, ConnectionResetError):
            channel.close()
            raise MachineDown(f"{self.name} has died") from None
        except BaseException:
            channel.close()
            raise
        return channel, answer

    def _forget(self) -> None:
        """Close what led to a boot that is over."""
        if self._orders is not None:
            self._orders.close()
        self._orders = None
        self.init_pid = 0
        self._paused = False
        for started in list(self._started):
            started.poll()


class Process:
    """A program in a machine, with the ways of `subprocess.Popen`.

    Attributes:
        args: As it was started.
        pid: In the machine.
        returncode: None until it is known to have ended; negative for a signal. -9 where the machine died.
    """

    def __init__(self, args: list[str], pid: int, pidfd: int, channel: socket.socket) -> None:
        self.args = args
        self.pid = pid
        self.returncode: int | None = None
        self._pidfd = pidfd
        self._channel = channel
        self._release = weakref.finalize(self, _release, pidfd, channel)

    @property
    def host_pid(self) -> int:
        """Process id on the host, for /proc; -1 when it has ended."""
        if self.returncode is not None:
            return -1
        for line in Path(f"/proc/self/fdinfo/{self._pidfd}").read_text().splitlines():
            if line.startswith("Pid:"):
                return int(line.split()[1])
        return -1

    def poll(self) -> int | None:
        """Return how it ended, or None."""
        return self._wait(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended.

        Raises:
            subprocess.TimeoutExpired: It goes on after `timeout` seconds.
        """
        found = self._wait(timeout)
        if found is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return found

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL: one process dies, and its machine closes its connections. See `Machine.kill`."""
        self.send_signal(signal.SIGKILL)

    def _wait(self, timeout_s: float | None) -> int | None:
        if self.returncode is None:
            waiting = select.poll()
            waiting.register(self._channel, select.POLLIN)
            if waiting.poll(None if timeout_s is None else math.ceil(max(0.0, timeout_s) * 1000)):
                answer = _receive(self._channel)
                self.returncode = -signal.SIGKILL if answer is None else answer["status"]
                self._release()
        return self.returncode


def _release(pidfd: int, channel: socket.socket) -> None:
    os.close(pidfd)
    channel.close()


def _name(number: int) -> str:
    return f"machine-{number}" if number else "switch"


def _address(number: int) -> str:
    """The switch has the first address, and machines have those from the eleventh on."""
    return str(NETWORK[number + 10 if number else 1])


def _hardware_address(number: int) -> str:
    return f"02:d5:00:00:{number >> 8:02x}:{number & 255:02x}"


def _port(number: int) -> str:
    return f"port{number}" if number else BRIDGE


def _send(channel: socket.socket, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
    socket.send_fds(channel, [json.dumps(message).encode()], list(descriptors))


def _receive(channel: socket.socket) -> dict[str, Any] | None:
    """Return one message, with its `descriptors`; None where the other end is gone."""
    try:
        data, descriptors, _, _ = socket.recv_fds(channel, _MESSAGE_BYTES, 8, socket.MSG_CMSG_CLOEXEC)
    except ConnectionResetError:
        return None
    if not data:
        return None
    message: dict[str, Any] = json.loads(data)
    return {**message, "descriptors": descriptors}


@contextlib.contextmanager
def _memory(text: str = "") -> Iterator[IO[bytes]]:
    with os.fdopen(os.memfd_create("rig"), "w+b") as file:
        file.write(text.encode())
        file.seek(0)
        yield file


_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: Any) -> None:
    """Make a system call by the C library, which Python has only from 3.12 on, or never."""
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


class _Box:
    """The supervisor's view of a machine that has power.

    Attributes:
        held: Its network and pid namespace. While they are held, no other namespace gets their numbers, by which links
            and control groups are found.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.held = {kind: os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY) for kind in ("net", "pid")}

    def die(self) -> None:
        """End it, and return when its last process has ended. It may have died by itself."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def clear(self) -> None:
        """Remove its control groups, and let go of it."""
        _remove_groups(os.fstat(self.held["pid"]).st_ino)
        for descriptor in self.held.values():
            os.close(descriptor)


class _Supervisor:
    """The process between a `Rig` and its machines: parent of their inits, alone in touching links."""

    def __init__(self, orders: socket.socket, owner: int) -> None:
        self._orders = orders
        self._owner = owner
        self._own = {kind: os.open(f"/proc/self/ns/{kind}", os.O_RDONLY) for kind in ("pid", "time")}
        self._boxes: dict[int, _Box] = {}
        self._cut: set[int] = set()
        self._count = 0
        self._keep: list[str] = []
        self._folder = tempfile.mkdtemp(prefix="fleet-rig-", dir="/var/tmp")

    def serve(self) -> None:
        """Do as told until the owner ends."""
        waiting = select.poll()
        waiting.register(self._orders, select.POLLIN)
        waiting.register(self._owner, select.POLLIN)
        while True:
            if any(descriptor == self._owner for descriptor, _ in waiting.poll()):
                return
            message = _receive(self._orders)
            if message is None:
                return
            del message["descriptors"]
            descriptors: list[int] = []
            try:
                answer = getattr(self, f"_{message.pop('order')}")(**message)
                descriptors = answer.pop("descriptors", [])
            except (OSError, RigUnavailable) as error:
                answer = {"problem": str(error)}
            with contextlib.suppress(OSError):
                _send(self._orders, answer, descriptors)
            for descriptor in descriptors:
                os.close(descriptor)

    def end(self) -> None:
        """Leave nothing."""
        boxes = list(self._boxes.values())
        for box in boxes:  # all at once, and only then wait for each
            with contextlib.suppress(ProcessLookupError):
                os.kill(box.pid, signal.SIGKILL)
        for box in boxes:
            box.die()
            box.clear()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _make(self, count: int, keep: list[str]) -> dict[str, Any]:
        self._count, self._keep = count, keep
        os.chmod(self._folder, 0o755)
        names = "".join(f"{_address(number)} {_name(number)}\n" for number in range(count + 1))
        Path(self._folder, "hosts").write_text(f"127.0.0.1 localhost\n{names}")
        for number in range(count + 1):
            os.mkdir(f"{self._folder}/{_name(number)}", 0o755)
            Path(self._folder, f"{_name(number)}.id").write_text(f"{uuid.uuid4().hex}\n")
        return {"folder": self._folder}

    def _boot(self, number: int, clock_s: float) -> dict[str, Any]:
        if number in self._boxes:  # it died by itself
            self._kill(number)
        Path(self._folder, f"{_name(number)}.boot").write_text(f"{uuid.uuid4()}\n")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            pid = self._fork(clock_s, lambda: _Init(theirs, number).serve(self._folder, self._keep))
        answer = _receive(ours)
        if answer is None or "problem" in answer:
            os.waitpid(pid, 0)
            ours.close()
            raise RigUnavailable(f"{_name(number)} did not boot: {(answer or {}).get('problem', 'its init died')}")
        box = self._boxes[number] = _Box(pid)
        try:
            self._connect(number, box)
        except BaseException:
            ours.close()
            self._kill(number)
            raise
        return {"pid": pid, "descriptors": [ours.detach()]}

    def _fork(self, clock_s: float, child: Any) -> int:
        """Fork process 1 of a new pid namespace. This process stays in its own, so that it can do so again."""
        try:
            if clock_s:
                _call("unshare", _NEWTIME)
                seconds, rest = divmod(round(clock_s * 1e9), 10**9)
                offsets = "".join(f"{clock} {seconds} {rest}\n" for clock in ("monotonic", "boottime"))
                Path("/proc/self/timens_offsets").write_text(offsets)
            _call("unshare", _NEWPID)
            pid = os.fork()
            if pid == 0:
                try:
                    child()
                finally:
                    os._exit(70)
            return pid
        finally:
            _call("setns", self._own["pid"], _NEWPID)
            if clock_s:
                _call("setns", self._own["time"], _NEWTIME)

    def _connect(self, number: int, box: _Box) -> None:
        near, length = _port(number), NETWORK.prefixlen
        others = [each for each in range(self._count + 1) if each != number]
        far = BRIDGE if number == 0 else "eth0"
        if number == 0:
            made = [f"link add {BRIDGE} address {_hardware_address(0)} type bridge"]
            _ip(box.held["net"], made)
        else:
            there = f"address {_hardware_address(number)} netns /proc/self/fd/{box.held['net']}"
            master = "nomaster" if number in self._cut else f"master {BRIDGE}"
            made = [f"link add {near} type veth peer name eth0 {there}", f"link set {near} {master} up"]
            _ip(self._boxes[0].held["net"], made, box.held["net"])
        known = [
            f"neigh add {_address(each)} lladdr {_hardware_address(each)} dev {far} nud permanent" for each in others
        ]
        address = f"address add {_address(number)}/{length} dev {far}"
        _ip(box.held["net"], ["link set lo up", address, f"link set {far} up", *known])

    def _kill(self, number: int) -> dict[str, Any]:
        if number not in self._boxes:
            return {}
        self._set_master(number, "nomaster")  # first: the kernel says goodbye for processes that are killed
        box = self._boxes.pop(number)
        box.die()
        with contextlib.suppress(RigUnavailable):
            _ip(self._boxes[0].held["net"], [f"link delete {_port(number)}"])
        box.clear()
        return {}

    def _set_master(self, number: int, master: str) -> None:
        _ip(self._boxes[0].held["net"], [f"link set {_port(number)} {master}"])

    def _cut_off(self, number: int, cut: bool) -> dict[str, Any]:
        if number == 0:
            return {"problem": "the switch cannot be cut off from itself"}
        (self._cut.add if cut else self._cut.discard)(number)
        if number in self._boxes:
            self._set_master(number, "nomaster" if cut else f"master {BRIDGE}")
        return {}


def _ip(network: int, commands: Sequence[str], *inherited: int) -> None:
    """Run ip(8) in the network namespace that is open as `network`."""
    done = subprocess.run(
        ["ip", "-batch", "-"],
        input="\n".join(commands),
        text=True,
        capture_output=True,
        pass_fds=inherited,
        preexec_fn=lambda: _call("setns", network, _FLAGS["net"]),
    )
    if done.returncode:
        raise RigUnavailable(f"ip: {done.stderr.strip()} in {commands}")


def _remove_groups(namespace: int) -> None:
    """Remove the control groups that groundbox named after a pid namespace. None of its processes lives."""
    for folder, below, _ in os.walk(_CGROUPS):
        for name in [each for each in below if re.fullmatch(r"\d+-\d+-\d+-\d+", each)]:
            below.remove(name)
            if name.split("-")[2] == str(namespace):
                _remove_group(f"{folder}/{name}")


def _remove_group(top: str) -> None:
    """Remove a control group and those below it; what cannot be removed within a second stays."""
    until = time.monotonic() + 1
    for folder, _, _ in os.walk(top, topdown=False):
        with contextlib.suppress(OSError), open(f"{folder}/memory.force_empty", "w") as file:
            file.write("0")  # pages that stayed charged would keep the group alive in the kernel, unseen
        while time.monotonic() < until:
            try:
                os.rmdir(folder)
            except OSError as error:
                if error.errno == errno.EBUSY:
                    time.sleep(0.01)
                    continue
            break


class _Init:
    """Process 1 of a machine: starts what it is told to, reaps what ends, and makes sockets.

    An order comes with a channel of its own, which is answered on. That of a program stays until it has ended, so that
    whoever waits learns how, and sees the channel end where the machine dies.
    """

    def __init__(self, orders: socket.socket, number: int) -> None:
        self._orders = orders
        self._number = number
        self._channels: dict[int, socket.socket] = {}
        self._stopped: set[int] = set()

    def serve(self, folder: str, keep: Sequence[str]) -> None:
        """Become a machine, say so, and serve until the end."""
        _call("prctl", _PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        try:
            self._become(folder, keep)
        except OSError as error:
            _send(self._orders, {"problem": str(error)})
            return
        _send(self._orders, {})
        wakes, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        waiting = select.poll()
        waiting.register(self._orders, select.POLLIN)
        waiting.register(wakes, select.POLLIN)
        while True:
            for descriptor, _ in waiting.poll():
                if descriptor == wakes:
                    os.read(wakes, 4096)
                elif not self._obey():
                    waiting.unregister(self._orders)
            self._reap()

    def _become(self, folder: str, keep: Sequence[str]) -> None:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        own = self._orders.fileno()
        os.closerange(3, own)
        os.closerange(own + 1, os.sysconf("SC_OPEN_MAX"))
        _call("unshare", sum(_FLAGS.values()))
        _mount("none", "/", flags=_MS_REC | _MS_PRIVATE)
        name = _name(self._number)
        socket.sethostname(name)
        shown = {DATA: f"{folder}/{name}", "/etc/hosts": f"{folder}/hosts", "/etc/machine-id": f"{folder}/{name}.id"}
        shown[_BOOT_ID] = f"{folder}/{name}.boot"
        if self._number:
            os.makedirs(_UIDS, 0o700, exist_ok=True)
            shown |= {_UIDS: _UIDS, **{path: path for path in keep}}
        opened = {point: os.open(path, os.O_PATH | os.O_CLOEXEC) for point, path in shown.items()}
        _mount("proc", "/proc", "proc")
        if self._number:
            for point in PRIVATE:
                _mount("tmpfs", point, "tmpfs", options="mode=0755" if point == "/run" else "mode=1777")
            os.mkdir(os.path.dirname(_UIDS), 0o700)
        for point, source in opened.items():
            if point.startswith(PRIVATE):
                _make_point(point, shown[point], source)
            if os.path.exists(point):
                _mount(f"/proc/self/fd/{source}", point, flags=_MS_BIND)
            os.close(source)

    def _obey(self) -> bool:
        message = _receive(self._orders)
        if message is None:
            return False
        channel, *descriptors = message.pop("descriptors")
        answering = socket.socket(fileno=channel)
        try:
            getattr(self, f"_{message.pop('order')}")(answering, descriptors, **message)
        except OSError as error:
            with contextlib.suppress(OSError):
                _send(answering, {"errno": error.errno or errno.EIO, "about": error.filename or ""})
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        return True

    def _start(
        self,
        channel: socket.socket,
        descriptors: list[int],
        arguments: list[str],
        environment: dict[str, str],
        cwd: str,
    ) -> None:
        reason, failed = os.pipe2(os.O_CLOEXEC)
        pid = os.fork()
        if pid == 0:
            _execute(failed, descriptors, arguments, environment, cwd)
        os.close(failed)
        problem = os.read(reason, 16)
        os.close(reason)
        if problem:
            raise OSError(int(problem), "", arguments[0])
        pidfd = os.pidfd_open(pid)  # it is reaped by nobody else, so the number is still its own
        self._channels[pid] = channel
        with contextlib.suppress(OSError):
            _send(channel, {"pid": pid}, [pidfd])
        os.close(pidfd)

    def _socket(self, channel: socket.socket, descriptors: list[int], family: int, kind: int) -> None:
        with socket.socket(family, kind) as made:
            _send(channel, {}, [made.fileno()])

    def _pause(self, channel: socket.socket, descriptors: list[int]) -> None:
        self._stopped = {pid for pid in _processes() if _state(pid) == "T"}
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGSTOP)  # all but this one, and none can fork in between
        _send(channel, {})

    def _resume(self, channel: socket.socket, descriptors: list[int]) -> None:
        for pid in set(_processes()) - self._stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        _send(channel, {})

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                channel = self._channels.pop(pid, None)
                if channel is not None:
                    with channel, contextlib.suppress(OSError):
                        _send(channel, {"status": os.waitstatus_to_exitcode(status)})


def _execute(
    failed: int, descriptors: list[int], arguments: list[str], environment: dict[str, str], cwd: str
) -> NoReturn:
    """In the child: become the program, or tell the number of the error."""
    try:
        signal.set_wakeup_fd(-1)
        for each in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGCHLD):
            signal.signal(each, signal.SIG_DFL)
        os.setsid()
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
        os.chdir(cwd)
        os.execvpe(arguments[0], arguments, environment)
    except OSError as error:
        os.write(failed, str(error.errno).encode())
    finally:
        os._exit(127)


def _mount(source: str, point: str, kind: str = "none", *, flags: int = 0, options: str = "") -> None:
    _call("mount", source.encode(), point.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode())


def _make_point(point: str, path: str, source: int) -> None:
    """Make a place to mount a folder or a file on."""
    os.makedirs(os.path.dirname(point), exist_ok=True)
    if os.path.isdir(f"/proc/self/fd/{source}"):
        os.makedirs(point, exist_ok=True)
    else:
        Path(point).touch()


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]


def _state(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return ""


def _supervise(orders: int, owner: int) -> None:
    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGHUP, leave)
    supervisor = _Supervisor(socket.socket(fileno=orders), owner)
    try:
        supervisor.serve()
    finally:
        supervisor.end()


def _forward(listening: socket.socket, address: str, port: int) -> None:
    import asyncio

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.write_eof()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError), contextlib.closing(writer):
            far_reader, far_writer = await asyncio.open_connection(address, port)
            with contextlib.closing(far_writer):
                await asyncio.gather(pass_on(reader, far_writer), pass_on(far_reader, writer))

    async def listen() -> None:
        async with await asyncio.start_unix_server(serve, sock=listening) as server:
            await server.serve_forever()

    asyncio.run(listen())


def _shell(count: int) -> int:
    try:
        with Rig(count) as rig:
            print(f"{count} machines and a switch; Ctrl-C ends them.\n")
            for machine in (rig.switch, *rig.machines):
                print(f"{machine.name:12} {machine.address:14} nsenter --all --target {machine.init_pid}")
            with contextlib.suppress(KeyboardInterrupt):
                while True:
                    time.sleep(0.5)
    except RigUnavailable as problem:
        print(f"fleet_rig: {problem}", file=sys.stderr)
        return 3
    return 0


def main(arguments: Sequence[str]) -> int:
    """Run a command that was typed, or one that a rig starts for itself."""
    if arguments[:1] == ["supervise"]:
        _supervise(int(arguments[1]), int(arguments[2]))
        return 0
    if arguments[:1] == ["forward"]:
        _forward(socket.socket(fileno=0), arguments[1], int(arguments[2]))
        return 0
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    shell = commands.add_parser("shell", help="start machines, say how they are entered, and wait")
    shell.add_argument("count", type=int, nargs="?", default=3)
    return _shell(parser.parse_args(arguments).count)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
