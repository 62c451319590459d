"""Nodes of a fleet on the machines of a Ray cluster: started or adopted by an actor on each, and owned by none.

    from groundbox.fleet.on_ray import ray_nodes

    for node in ray_nodes("http://10.0.0.1:8000"):
        print(node.name, node.url, "was there" if node.was_there else "started")

Theory of operation. A node is a daemon, `groundbox serve --join`, that leaves Ray's process tree before it begins: a
new session and a second fork make init its parent, so that neither the end of the actor nor that of the raylet, which
kills its workers and their children, ends the sandboxes of people who know nothing of Ray. It holds a lock, flock(2),
on a file of its folder for as long as it lives; who gets the lock knows that there is none, and hands the locked
descriptor to the one it starts. So of two actors that come at once, also of two clusters, one starts the node and both
adopt it.

The actor is detached and takes no CPU. It looks every few seconds whether the node is there, and starts it anew unless
it ended with 0, as after `groundbox fleet leave NAME`. What it needs for that lies in the folder, for this user alone:
Ray starts an actor anew with the arguments it had, and keeps these where the join secret should not be.

What is covered: the loss of the actor, of the raylet and of the head; a node that is killed. What is not: a container
around the raylet (KubeRay), which ends with all that is in it, and a raylet that was told to end orphans
(RAY_kill_child_processes_on_worker_exit_with_raylet_subreaper). Ray hides nothing from its jobs: who can run one can
read the secret, and is the fleet.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import importlib
import json
import logging
import os
import re
import secrets
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from groundbox.errors import ExtraMissing, GroundboxError
from groundbox.fleet.joining import SECRET, check_name, check_secret
from groundbox.remote import place
from groundbox.remote.transport import address_of

logger = logging.getLogger(__name__)

NAMESPACE: Final = "groundbox"
"""Ray's namespace of the actors, which are called `node-` and the id of their machine in Ray."""
_LOOK_S: Final = 5.0
_PAUSE_S: Final = 0.1
_MORE_S: Final = 60.0
"""For an actor to be made, beside the time that its node may take."""
_MOST_LOG_BYTES: Final = 16 << 20
"""Of the log when a node is started; a longer one is put aside, in place of the one before it."""
_MOST_TOLD_BYTES: Final = 4096
_KEPT: Final = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "PYTHONPATH", "LD_LIBRARY_PATH")
_KEPT_BEGINNINGS: Final = ("GROUNDBOX_", "LC_", "XDG_", "OTEL_")
"""Variables for the daemon; Ray's workers have others, such as OMP_NUM_THREADS and a debugger of Ray's own."""
# Ray's workers are the first that the kernel ends when memory is short, and all that they start inherits it.
_DETACH: Final = """
import os, signal, sys
if os.fork():
    os._exit(0)
signal.pthread_sigmask(signal.SIG_SETMASK, ())
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
    signal.signal(number, signal.SIG_DFL)
try:
    with open("/proc/self/oom_score_adj", "w") as score:
        score.write("0")
except OSError:
    pass
os.execv(sys.argv[1], sys.argv[1:])
"""
# A node that ended with 0 is not wanted any more.
_WATCH: Final = """sh -c 'echo $$ >pid; exec "$@"' node "$@" >url 2>>log && rm -f asked.json"""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RayNode:
    """A node of a machine of Ray's.

    Attributes:
        pid: Of its process, on that machine.
        was_there: Whether it was adopted, and not started by this call.
    """

    name: str
    url: str
    pid: int
    was_there: bool


def ray_nodes(
    gateway: str,
    *,
    secret: str | None = None,
    options: Sequence[str] = (),
    port: int = 0,
    folder: str | None = None,
    wait_s: float = 120.0,
) -> list[RayNode]:
    """Have a node on each machine of the Ray cluster, and say where; call it again when machines have come.

    Where this process is in no cluster yet, it enters that of `ray.init("auto")`. Groundbox has to be installed on all
    machines, for the interpreter of Ray's workers. A node listens on the address that Ray has for its machine, and is
    called as the machine is.

    Args:
        gateway: Its URL, as machines reach it.
        secret: The join secret; None for that of GROUNDBOX_JOIN_SECRET here.
        options: Further ones of `groundbox serve`, such as `["--at-once", "8"]`.
        port: The same on each machine, or 0 for free ones.
        folder: On each machine, for this user alone: where the node's log and lock are. None for one in the user's
            runtime folder.
        wait_s: For each node until it answers. That it has joined is told by `groundbox fleet status`.

    Raises:
        InvalidArgument: The secret or the URL is none.
        ExtraMissing: Ray is not installed here.
        GroundboxError: A node ended instead of answering, or a machine has one of another gateway or with other
            options, which `groundbox fleet leave NAME` ends, or did not answer at all. Each such machine is named; on
            the others nodes were started.
        GroundboxError: Two machines have one name; nothing was started.
    """
    address_of(gateway)
    given = secret if secret is not None else os.environ.get(SECRET)
    told = check_secret(given).decode("utf-8", "surrogateescape")
    ray = _imported("ray")
    if not ray.is_initialized():
        ray.init("auto", log_to_driver=False)
    machines = _names(each for each in ray.nodes() if each["Alive"])
    affinity = _imported("ray.util.scheduling_strategies").NodeAffinitySchedulingStrategy
    keeper = ray.remote(num_cpus=0, max_restarts=-1)(_Keeper)
    asking = {}
    for node_id, (name, host) in machines.items():
        actor = keeper.options(
            name=f"node-{node_id}",
            namespace=NAMESPACE,
            lifetime="detached",
            get_if_exists=True,
            scheduling_strategy=affinity(node_id=node_id, soft=False),
        ).remote(name, folder)
        arguments = ["--host", host, "--port", str(port), "--join", gateway, "--node-name", name]
        asking[actor.adopt.remote([*arguments, *options], told, wait_s)] = f"{name} ({host})"
    ray.wait(list(asking), num_returns=len(asking), timeout=wait_s + _MORE_S)
    found, failed = [], []
    for asked, machine in asking.items():
        try:
            found.append(ray.get(asked, timeout=_PAUSE_S))
        except ray.exceptions.GetTimeoutError:
            failed.append(f"{machine}: its actor has not answered for {wait_s + _MORE_S:.0f} s")
        except Exception as error:  # of any kind: Ray has its own for a machine that died
            failed.append(f"{machine}: {_words(error)}")
    if failed:
        raise GroundboxError("; ".join(failed))
    return _nodes(found)


def _names(nodes: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, str]]:
    """Names and addresses of machines by their id in Ray.

    Raises:
        GroundboxError: Two machines have one name, so that gateways would take their nodes for one.
    """
    found: dict[str, tuple[str, str]] = {}
    for each in nodes:
        name = check_name(re.sub(r"[^A-Za-z0-9._-]", "-", each["NodeManagerHostname"])[:63])
        found[each["NodeID"]] = name, each["NodeManagerAddress"]
    hosts: dict[str, str] = {}
    for name, host in found.values():
        if hosts.setdefault(name, host) != host:
            told = f"the machines {hosts[name]} and {host} are both called {name}, and a node is called as its machine"
            raise GroundboxError(f"{told}; give one another hostname")
    return found


def _nodes(found: Iterable[RayNode]) -> list[RayNode]:
    """The nodes; two raylets of one machine have one, which was there before if neither has started it."""
    nodes: dict[str, RayNode] = {}
    for each in found:
        known = nodes.get(each.name, each)
        nodes[each.name] = dataclasses.replace(each, was_there=known.was_there and each.was_there)
    return list(nodes.values())


def _words(error: BaseException) -> str:
    """What went wrong, without the traceback that an error of Ray's is."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, GroundboxError):
        return str(cause)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else repr(error)


class Daemon:
    """One node of this machine, of which everything that is known lies in a folder."""

    def __init__(self, name: str, folder: str | None = None) -> None:
        """Args:
        folder: As `ray_nodes` takes it.
        """
        self.name = name
        above = Path(folder) if folder else Path(place.folder()).parent
        self.folder = above / f"node-{name}"
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        told = self.folder.lstat()  # a link that another user has put there may lead to any folder of ours
        if not stat.S_ISDIR(told.st_mode) or told.st_uid != os.geteuid() or told.st_mode & 0o077:
            raise GroundboxError(f"'{self.folder}' is not this user's alone; remove it")

    def adopt(self, command: Sequence[str], environ: Mapping[str, str], *, wait_s: float) -> RayNode:
        """Start the node where there is none, and wait until it answers.

        Args:
            command: One that writes its URL to stdout, alone on a line, as `groundbox serve` does.
            environ: Variables that it gets beside the usual ones.

        Raises:
            GroundboxError: It does not answer, or is another one than asked for.
        """
        asked = {"command": list(command), "environ": dict(environ)}
        end = time.monotonic() + wait_s
        while True:
            with self._locked() as lock:
                if lock is not None:
                    self._start(lock, asked)
            known = self._asked()
            if lock is not None or known == asked:
                return self._answered(end, was_there=lock is None)
            if known is not None:
                told = f"a node {self.name} is there with another gateway, secret or options"
                raise GroundboxError(f"{told}; `groundbox fleet leave {self.name}` ends it")
            self._pause(end)  # it begins or ends just now

    def revive(self) -> bool:
        """Start the node anew where it has ended and is wanted; whether that was so."""
        with self._locked() as lock:
            asked = self._asked()
            if lock is None or asked is None:
                return False
            self._start(lock, asked)
            return True

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int | None]:
        """The locked descriptor, where no node has it; it is this process's own until the block ends."""
        descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield None
            else:
                yield descriptor
        finally:
            os.close(descriptor)

    def _start(self, lock: int, asked: dict[str, Any]) -> None:
        (self.folder / "url").write_bytes(b"")
        log = self.folder / "log"
        if log.exists() and log.stat().st_size > _MOST_LOG_BYTES:
            log.replace(self.folder / "log.1")
        written = self.folder / "asked.json.new"
        with open(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(asked, file)
        written.replace(self.folder / "asked.json")
        usual = {
            name: value
            for name, value in os.environ.items()
            if name in _KEPT or (name.startswith(_KEPT_BEGINNINGS) and name != SECRET)
        }
        subprocess.run(
            [sys.executable, "-I", "-S", "-c", _DETACH, "/bin/sh", "-c", _WATCH, "groundbox-node", *asked["command"]],
            cwd=self.folder,
            env={**usual, "GROUNDBOX_API_KEY": secrets.token_hex(32), **asked["environ"]},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(lock,),
            start_new_session=True,
            check=True,
        )

    def _answered(self, end: float, *, was_there: bool) -> RayNode:
        """Wait for the URL.

        Raises:
            GroundboxError: There is none. A node that has ended is not wanted from then on.
        """
        while not (url := (self.folder / "url").read_text()).endswith("\n"):
            with self._locked() as lock:
                if lock is not None:
                    (self.folder / "asked.json").unlink(missing_ok=True)
                    self._fail("ended before it answered")
            self._pause(end)
        pid = int((self.folder / "pid").read_text())
        return RayNode(name=self.name, url=url.strip(), pid=pid, was_there=was_there)

    def _asked(self) -> dict[str, Any] | None:
        """What was asked of the node last, where it is wanted."""
        try:
            found: dict[str, Any] = json.loads((self.folder / "asked.json").read_bytes())
        except FileNotFoundError:
            return None
        return found

    def _pause(self, end: float) -> None:
        if time.monotonic() > end:
            self._fail("did not answer in time")
        time.sleep(_PAUSE_S)

    def _fail(self, why: str) -> NoReturn:
        log, end = self.folder / "log", b""
        if log.exists():
            with log.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _MOST_TOLD_BYTES))
                end = file.read(_MOST_TOLD_BYTES)
        lines = end.decode(errors="replace").splitlines()[-3:]
        raise GroundboxError(f"the node {self.name} {why}: {'; '.join(lines) or 'it said nothing'}")


class _Keeper:
    """The actor: a `Daemon`, looked at every few seconds."""

    def __init__(self, name: str, folder: str | None) -> None:
        self._daemon = Daemon(name, folder)
        threading.Thread(target=self._keep, name="groundbox-node", daemon=True).start()

    def adopt(self, arguments: list[str], secret: str, wait_s: float) -> RayNode:
        """Start or adopt a node with these arguments of `groundbox serve`."""
        command = [sys.executable, "-m", "groundbox", "serve", *arguments]
        return self._daemon.adopt(command, {SECRET: secret}, wait_s=wait_s)

    def _keep(self) -> None:
        while True:
            time.sleep(_LOOK_S)
            try:
                if self._daemon.revive():
                    logger.warning("the node %s had ended, and was started anew", self._daemon.name)
            except (OSError, ValueError, subprocess.SubprocessError):
                logger.exception("the node %s cannot be started anew", self._daemon.name)


def _imported(name: str) -> Any:
    """A module of Ray's, untyped, so that checks are the same with and without it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ExtraMissing("ray", "for nodes on the machines of a Ray cluster", "ray") from None
