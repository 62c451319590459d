"""A template inside gVisor: the process between host and template, and what the host knows of guests there.

`runsc run` starts a kernel of its own in user space, whose processes make no system call of the host's. What it lets
through is its own standard streams and the folders of its bundle; so a relay (template/relay.py) runs on either side.
This side's is a process of its own, started as root by `command`:

1. It goes into a mount namespace of its own, where all that it mounts is gone when it ends.
2. It builds the root that guests see, as for other templates, and writes the bundle.
3. It starts runsc as process 1 of a pid namespace, in the control group whose descriptors it was given. When that
   process ends, or this one, so does everything in the sandbox.
4. For each worker it mounts a tmpfs of the size that was ordered, whose folder the host reads results from. The mount
   reaches the gofer, which serves files to the kernel inside, because that has the same mounts as a slave.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import stat
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from groundbox.jail import credentials, kernel, namespaces, probe, rootfs
from groundbox.template.relay import HANDED, Broken, Channel, Mux

_PACKAGE: Final = Path(__file__).parents[1]
_PARTS: Final = ("guest", "jail", "template", "values")
_OWN: Final = "/groundbox"
_BOXES: Final = "/boxes"
_CAPABILITIES: Final = (
    "CHOWN DAC_OVERRIDE FOWNER KILL MKNOD SETGID SETPCAP SETUID SYS_ADMIN SYS_CHROOT SYS_PTRACE SYS_RESOURCE"
)
_SHARED, _SLAVE, _REC, _BIND, _NOSUID, _NODEV = 1 << 20, 1 << 19, 0x4000, 0x1000, 2, 4
_DETACH: Final = 2
_FOLDERS: Final = ("work", "tmp", "shm")
_ANSWER_S: Final = 10.0
_STEP_MS: Final = 500
_PING_S: Final = 5.0
_NAMED_UIDS: Final = 4096


def command(control: int, joins: Sequence[int], folder: str) -> list[str]:
    """What to start as a template's process. `folder` is empty, and the caller's to remove afterwards."""
    return [sys.executable, "-s", "-m", __name__, str(control), ",".join(map(str, joins)), folder]


class InnerGroup:
    """What a worker inside gVisor uses, told by the relay there; it has the methods of a control group that are asked.

    That relay is process 1 inside, which runs no guest's code. Its figures are as good as the kernel inside is.
    """

    def __init__(self, limit: Any) -> None:
        """`limit` is called with the bounds of memory and processes."""
        self._limit = limit
        self._use: dict[str, Any] = {}

    def was_told(self, use: dict[str, Any]) -> None:
        """Newer figures."""
        self._use = use

    def limit(self, *, memory_bytes: int | None, process_count: int | None) -> None:
        """Bound all processes of the worker together."""
        self._limit(memory_bytes, process_count)

    def cpu_s(self) -> float:
        """Processor time of all its processes until a moment ago."""
        return float(self._use.get("cpu_s", 0.0))

    def memory_bytes(self) -> int:
        """What its processes hold, beyond what they have from the template."""
        return int(self._use.get("memory_bytes", 0))

    def peak_memory_bytes(self) -> int | None:
        """The most of it that was seen."""
        return int(self._use.get("peak_memory_bytes", 0))

    def process_count(self) -> int:
        """Its processes."""
        return int(self._use.get("process_count", 0))

    def out_of_memory_kills(self) -> int:
        """How often it was ended for its memory."""
        return int(self._use.get("kills", 0))

    def memory_limit_hits(self) -> int:
        """How often it was ended for its memory: the relay inside knows no other reason."""
        return self.out_of_memory_kills()

    def memory_limit_reached(self) -> int:
        """How often it was ended for its memory, as far as is known."""
        return self.out_of_memory_kills()

    def freeze(self, frozen: bool) -> None:
        """Nothing here can."""

    def keep_open(self) -> None:
        """There is no file of it."""


class _Relay(Mux):
    """The relay on the host's side."""

    takes_descriptors = True

    def __init__(self, control: socket.socket, reader: int, writer: int, boxes: str) -> None:
        super().__init__(reader, writer, self._hear_inside)
        self._control = control
        control.setblocking(False)
        self._boxes = boxes
        self._numbers = iter(range(1, 1 << 31))
        self._of: dict[int, list[Channel]] = {}
        self._workdirs: dict[Channel, int] = {}
        self._ends_by: dict[int, float] = {}
        self._asked_at: float | None = None
        self._started = False
        self.before_data = lambda channel: self._hear_host()  # bounds that were told before an order hold for it
        self.watch(control.fileno(), self._hear_host)

    def check(self) -> None:
        """End everything where a worker was to end, or the relay inside to answer, and nothing came of it.

        Raises:
            Broken: That is so.
        """
        now = time.monotonic()
        if any(now > until for until in self._ends_by.values()):
            raise Broken("a worker was to end, and did not")
        if self._asked_at is not None and now - self._asked_at > _ANSWER_S + _PING_S:
            raise Broken("the relay inside does not answer")

    def ask(self) -> None:
        """Find out whether the other relay still works."""
        if self._started and self._asked_at is None:
            self._asked_at = time.monotonic()
            self.tell({"relay": "ping"})

    def _hear_host(self) -> None:
        while True:
            try:
                data, descriptors, _, _ = socket.recv_fds(self._control, 1 << 20, 16)
            except BlockingIOError:
                return
            except OSError as error:
                raise Broken(str(error)) from error
            if not data:
                raise Broken("the host is gone")
            self._obey(json.loads(data), descriptors)

    def _obey(self, order: dict[str, Any], descriptors: list[int]) -> None:
        if "plan" in order:
            self.tell({"relay": "start", "order": order})
        elif order.get("op") == "signal":
            if (
                order["number"] == signal.SIGKILL and order["id"] in self._of
            ):  # else it has ended, as the host will hear
                self._ends_by.setdefault(order["id"], time.monotonic() + _ANSWER_S)
            self.tell({"relay": "signal", "id": order["id"], "number": order["number"]})
        elif order.get("op") == "limit":
            self.tell({"relay": "limit", **{k: order[k] for k in ("id", "memory_bytes", "process_count")}})
        elif "op" in order:
            self._tell_host({"ev": "refused", "id": order.get("id"), "reason": "gVisor's sandboxes cannot be copied"})
            for descriptor in descriptors:
                os.close(descriptor)
        else:
            self._spawn(order, descriptors)

    def _spawn(self, order: dict[str, Any], descriptors: list[int]) -> None:
        sock, out, err, *others = descriptors
        for descriptor in others:
            os.close(descriptor)
        numbers = [next(self._numbers) for _ in range(3)]
        streams = [self.open(numbers[1], writes=out), self.open(numbers[2], writes=err)]
        control = self.open(numbers[0], reads=sock, writes=sock, after=streams)
        self._of[order["id"]] = [*streams, control]
        box = f"{self._boxes}/{order['id']}"
        try:
            self._workdirs[control] = _make_box(box, order)
        except OSError as error:
            self._forget_worker(order["id"])
            self._tell_host({"ev": "refused", "id": order["id"], "reason": f"workdir: {error}"})
            return
        self.tell({"relay": "order", "order": {**order, "folder": f"{_BOXES}/{order['id']}"}, "channels": numbers})

    def _hear_inside(self, message: dict[str, Any]) -> None:
        kind = message.pop("relay")
        if kind == "pong":
            self._asked_at = None
        elif kind == "use":
            self._tell_host({"ev": "use", **message})
        elif kind == "event":
            event = message["message"]
            self._started = self._started or event["ev"] == "ready"
            identity = event.get("id")
            if event["ev"] in ("exit", "refused") and identity in self._of:
                for channel in self._of[identity]:
                    self.flush(channel)
                self._forget_worker(identity)
            self._tell_host(event)

    def _forget_worker(self, identity: int) -> None:
        self._ends_by.pop(identity, None)
        for channel in self._of.pop(identity):
            workdir = self._workdirs.pop(channel, -1)
            if workdir >= 0:
                os.close(workdir)
            self.close(channel)
        box = f"{self._boxes}/{identity}"
        with contextlib.suppress(OSError):
            kernel.unmount(box, _DETACH)
        with contextlib.suppress(OSError):
            os.rmdir(box)

    def _tell_host(self, message: dict[str, Any]) -> None:
        data = json.dumps(message).encode()
        while True:
            try:
                self._control.send(data)
            except BlockingIOError:
                waiting = select.poll()  # select knows no descriptor above 1,023
                waiting.register(self._control, select.POLLOUT)
                waiting.poll()
            except OSError as error:
                raise Broken(str(error)) from error
            else:
                return

    def flush(self, channel: Channel) -> None:
        """The first bytes of a worker bring the descriptor of its workdir to the host, which is the host's own file."""
        if channel.pending and channel in self._workdirs:
            channel.handed.append(self._workdirs.pop(channel))
        super().flush(channel)

    def _hand(self, channel: Channel, descriptors: list[int]) -> None:
        told = []
        for descriptor in descriptors:
            mode = os.fstat(descriptor).st_mode
            number = next(self._numbers)
            if stat.S_ISREG(mode):
                told.append({"kind": "file", "size": self.send_file(descriptor)})
                os.close(descriptor)
            elif stat.S_ISSOCK(mode):
                self.open(number, reads=descriptor, writes=descriptor)
                told.append({"kind": "socket", "channel": number})
            elif stat.S_ISFIFO(mode) and _can_read(descriptor):
                self.open(number, reads=descriptor)
                told.append({"kind": "reader", "channel": number})
            elif stat.S_ISFIFO(mode):
                self.open(number, writes=descriptor)
                told.append({"kind": "writer", "channel": number})
            else:
                raise Broken("a descriptor of a kind that cannot go into gVisor")
        self._send(HANDED, channel.number, json.dumps(told).encode())


def _can_read(descriptor: int) -> bool:
    return fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_WRONLY


def _make_box(box: str, order: dict[str, Any]) -> int:
    """Mount a worker's tmpfs; a descriptor of its workdir."""
    os.mkdir(box, 0o755)
    uid = order["uid"]
    size = "" if order["disk_bytes"] is None else f",size={order['disk_bytes']}"
    count = order["file_count"]
    inodes = "" if count is None else f",nr_inodes={count + len(_FOLDERS) + 1}"
    kernel.mount("tmpfs", box, "tmpfs", _NOSUID | _NODEV, f"mode=755,uid={uid},gid={uid}{size}{inodes}")
    for name in _FOLDERS:
        os.mkdir(f"{box}/{name}", 0o700)
        os.chown(f"{box}/{name}", uid, uid)
    return os.open(f"{box}/work", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _bundle(folder: str, root: str, boxes: str, order: dict[str, Any]) -> None:
    """Write config.json of the OCI runtime specification."""
    environ = order.pop("boot_environ")
    held = [f"CAP_{name}" for name in _CAPABILITIES.split()]
    spec = {
        "ociVersion": "1.0.0",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": [order["python"], "-s", "-P", "-S", f"{_OWN}/template/inside.py", str(order["heap_bytes"])],
            "env": [f"{name}={text}" for name, text in environ.items()],
            "cwd": "/",
            "capabilities": dict.fromkeys(("bounding", "effective", "inheritable", "permitted"), held),
            "rlimits": [{"type": "RLIMIT_NOFILE", "soft": 65536, "hard": 65536}],
        },
        "root": {"path": root, "readonly": True},
        "hostname": "groundbox",
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"},
            {"destination": _BOXES, "type": "bind", "source": boxes, "options": ["rw", "rbind", "rslave"]},
            *(
                {
                    "destination": f"{_OWN}/{part}",
                    "type": "bind",
                    "source": str(_PACKAGE / part),
                    "options": ["ro", "rbind"],
                }
                for part in _PARTS
            ),
        ],
        "linux": {"namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount")]},
    }
    Path(folder, "config.json").write_text(json.dumps(spec), encoding="utf-8")


def _start_runsc(folder: str, joins: Sequence[int]) -> tuple[int, int, int]:
    """Start it in a pid namespace: the process, what it reads from, what it writes to."""
    runsc = probe.find_runsc()
    assert runsc is not None
    in_reader, in_writer = os.pipe2(os.O_CLOEXEC)
    out_reader, out_writer = os.pipe2(os.O_CLOEXEC)
    pid, pidfd = namespaces.clone(namespaces.NEWPID | namespaces.NEWNS | namespaces.NEWNET | namespaces.NEWIPC)
    if pid == 0:
        try:
            credentials.die_with_parent()
            for join in joins:
                os.write(join, b"0")
            kernel.mount("proc", "/proc", "proc", 0)
            os.dup2(in_reader, 0)
            os.dup2(out_writer, 1)
            os.execve(
                runsc,
                [
                    *(runsc, f"--root={folder}/state", "--network=none", "--platform=ptrace", "--ignore-cgroups"),
                    *("--log=/dev/null", "run", f"-bundle={folder}", os.path.basename(folder)),
                ],
                {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
            )
        finally:
            os._exit(127)
    for descriptor in (in_reader, out_writer, *joins):
        os.close(descriptor)
    for descriptor in (in_writer, out_reader):
        os.set_blocking(descriptor, False)
    return pidfd, in_writer, out_reader


def main(control: socket.socket, joins: Sequence[int], folder: str) -> None:
    """Build, start, relay until either side is gone."""
    for descriptor in (control.fileno(), *joins):
        os.set_inheritable(descriptor, False)  # runsc is to have its streams and nothing else
    first = control.recv(1 << 20)
    order = json.loads(first)
    namespaces.unshare(namespaces.NEWNS)
    rootfs.make_private()
    boxes = f"{folder}/boxes"
    os.mkdir(boxes, 0o711)
    base_uid = order["plan"]["uid_base"] + credentials.INSIDE_UID
    base = rootfs.build(order["plan"]["readable"], uids=range(base_uid, base_uid + _NAMED_UIDS))
    for name in (_BOXES, *(f"{_OWN}/{part}" for part in _PARTS)):
        os.makedirs(base + name)
    kernel.mount("tmpfs", boxes, "tmpfs", _NOSUID | _NODEV, "size=1m,mode=711")
    kernel.mount(None, boxes, None, _SHARED)
    _bundle(folder, base, boxes, order)
    pidfd, writer, reader = _start_runsc(folder, joins)
    relay = _Relay(control, reader, writer, boxes)
    try:
        relay.tell({"relay": "start", "order": order})
        asked = time.monotonic()
        while True:
            relay.step(_STEP_MS)
            relay.check()
            if time.monotonic() - asked > _PING_S:
                asked = time.monotonic()
                relay.ask()
    except Broken as broken:
        sys.stderr.write(f"groundbox: {broken}\n")  # the template's log
    finally:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PIDFD, pidfd, os.WEXITED)


if __name__ == "__main__":
    main(
        socket.socket(fileno=int(sys.argv[1])),
        [int(number) for number in sys.argv[2].split(",") if number],
        sys.argv[3],
    )
