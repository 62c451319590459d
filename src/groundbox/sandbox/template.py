"""A template, seen from the host: one process that is started once and then asked for workers."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import fcntl
import functools
import itertools
import json
import os
import socket
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from groundbox.errors import SandboxLost, SandboxUnavailable, TemplateFailed
from groundbox.jail import GVISOR, NAMESPACES, credentials, enter
from groundbox.jail.cgroup import Cgroup
from groundbox.limits import Limits
from groundbox.sandbox import gvisor
from groundbox.sandbox.mounts import Mount
from groundbox.sandbox.profiles import GUEST_PATH
from groundbox.sandbox.report import Ended
from groundbox.sandbox.threads import run_for_host
from groundbox.sandbox.worker import START_S, Worker

_BOOT: Final = Path(__file__).parents[1] / "template" / "boot.py"
_START_S: Final = 120.0
_LOG_TAIL: Final = 8192
_END_S: Final = 3.0
_RETRY_S: Final = 0.002
_GVISOR_BYTES: Final = 2 << 30
"""For the template and the kernel in user space, beside what its guests may hold."""
_GVISOR_PROCESSES: Final = 4096
OWN_PACKAGES: Final = "/tmp/packages"
"""Where a guest's `pip install` goes: inside its own box, gone with it."""
_USUAL: Final = Limits()
_FOLDERS: Final = itertools.count(1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a template is made of. Equal recipes make interchangeable templates.

    Attributes:
        environment: Folder of the environment's version.
        python: The environment's interpreter.
        guest: Module whose code the workers run, with what `template.guest_code.GuestCode` lists.
        modules: Imported before the first fork.
        heap_bytes: About what the imports will take of the interpreter's own heap.
        hash_seed: PYTHONHASHSEED, or None for one that the interpreter draws.
        tracer: File of the native tracer that is loaded before the first fork; empty if none is.
    """

    environment: str
    python: str
    guest: str
    readable: tuple[str, ...]
    caches: str | None
    modules: tuple[str, ...]
    heap_bytes: int
    ipython: bool
    backend: str
    waive: frozenset[str]
    landlock_abi: int
    hash_seed: int | None = None
    tracer: str = ""
    private_folder: str = ""
    mounts: tuple[Mount, ...] = ()

    def __hash__(self) -> int:
        return self._hash

    @functools.cached_property
    def _hash(self) -> int:
        """Of what differs most; every run asks for it some ten times."""
        return hash((self.python, self.modules, self.backend, self.hash_seed))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shape:
    """What of a worker is fixed when it is made, before anyone asks for it.

    Attributes:
        resident: The language whose process is started ahead of its first cell; empty for none.
        branching: Whether it can be copied while it lives.
        copied: Whether it has the copy that scripts are forked from, after cells (guest/pristine.py), before any run.
    """

    disk_bytes: int | None
    file_count: int | None
    network: str
    resident: str = ""
    branching: bool = False
    copied: bool = False


class Kept:
    """A copy of a live guest's memory, which waits in the template for sandboxes to be made of it.

    Attributes:
        refusal: Why there is none; empty as long as there is.
        busy: Whether that is for something the guest does.
        number: By which the guest's user id is known.
    """

    def __init__(self, identity: int, number: int, on_gone: Callable[[], None]) -> None:
        self.identity, self.number = identity, number
        self.refusal, self.busy = "", False
        self._on_gone = on_gone
        self.answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def was_made(self) -> None:
        """It is there."""
        if not self.answered.done():
            self.answered.set_result(None)

    def has_gone(self, why: str, *, busy: bool = False) -> None:
        """It is not there, or no longer."""
        self.refusal, self.busy = self.refusal or why, busy
        self.was_made()
        self._on_gone()


class Template:
    """Owns the process. All workers die with it."""

    def __init__(self, recipe: Recipe, *, uid_base: int | None, group: Cgroup | None = None) -> None:
        """Args:
        group: For all of it, where guests cannot have groups of their own.
        """
        self.recipe = recipe
        self.group = group
        self._bounds: dict[int, int] = {}
        self.plan = enter.Plan(
            backend=recipe.backend,
            waive=recipe.waive,
            readable=recipe.readable,
            mounts=recipe.mounts,
            uid_base=uid_base,
            landlock_abi=recipe.landlock_abi,
            private_folder=recipe.private_folder,
        )
        self.alive = False
        self.folder = ""
        """Its own, on the host, where it has no /tmp to itself. It stays when the template has ended."""
        self.python = ""
        self._usual_order: tuple[dict[str, Any], str] = {}, ""
        """How a worker was ordered last, without what is new each time, and that as JSON, without its first brace."""
        self._workers: dict[int, Worker] = {}
        self._kept: dict[int, Kept] = {}
        self._asking: dict[int, asyncio.Future[int | str]] = {}
        self._next = 0
        self._loop = asyncio.get_running_loop()
        self._log = os.memfd_create("groundbox-template-log", os.MFD_CLOEXEC)
        self._ready: asyncio.Future[dict[str, Any]] = self._loop.create_future()

    def __del__(self) -> None:
        os.close(self._log)

    @property
    def pid(self) -> int:
        """The process that the host started."""
        return self._process.pid

    async def start(self) -> None:
        """Start it and wait until it can fork.

        Raises:
            SandboxUnavailable: A layer of the outer jail cannot stand.
            TemplateFailed: It did not come up for another reason; the log says more.
        """
        self.folder = self._folder()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        joins = [] if self.group is None else self.group.join_descriptors()
        with theirs:
            if self.recipe.backend == GVISOR:
                folder = tempfile.mkdtemp(dir=self.recipe.private_folder)
                command, environ = gvisor.command(theirs.fileno(), joins, folder), dict(os.environ)
            else:
                arguments = [str(_BOOT), str(theirs.fileno()), str(self.recipe.heap_bytes)]
                command, environ = [self.recipe.python, "-s", "-P", "-S", *arguments], _boot_environ(self.recipe)
            self._process = subprocess.Popen(  # noqa: ASYNC220  vfork: over in a millisecond
                command,
                env=environ,
                pass_fds=[theirs.fileno(), *joins],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._log,
                cwd="/",
                start_new_session=True,  # Ctrl-C in a terminal goes to all of its group, and is for the host to judge
            )
        for descriptor in joins:
            os.close(descriptor)
        self._control = ours
        ours.setblocking(False)
        with contextlib.suppress(OSError):  # it has ended already, as the next line finds out
            ours.send(json.dumps(self._order()).encode())
        self._loop.add_reader(ours.fileno(), self._on_message)
        try:
            answer = await asyncio.wait_for(self._ready, _START_S)
        except TimeoutError:
            self.close()
            raise TemplateFailed(f"the template did not start within {_START_S} s", self.log()) from None
        except BaseException:  # nobody waits for it any more; by itself it would end once it has imported everything
            self.close()
            raise
        if answer["ev"] == "failed":
            self.close()
            if answer["reason"].startswith("template: "):
                raise TemplateFailed(answer["reason"], self.log())
            raise SandboxUnavailable([answer["reason"]])
        self.python = ".".join(map(str, answer["python"]))
        self.alive = True

    def spawn(
        self,
        shape: Shape,
        *,
        cgroup: Cgroup | None,
        process_count: int | None,
        environ: Mapping[str, str],
        on_end: Callable[[Worker], None],
        hurried: bool = False,
        resident: Mapping[str, Any] | None = None,
    ) -> Worker:
        """Ask for one more worker. Returns at once; `Worker.ready` waits for its jail.

        Args:
            hurried: Leave out the trial run. The worker is ready sooner, and its first order takes longer.
            resident: The process of the language that `shape` names.
        """
        self._next = self._free_number()
        inner = self._inner_group(self._next) if self.recipe.backend == GVISOR else None
        # What nobody has read yet counts for its user, among whose descriptors under way it is.
        attends = not hurried or self.plan.uid_base is None
        worker, ends = self._new_worker(inner or cgroup, on_end, is_copy=False, joined=cgroup, attends=attends)
        worker.folder = self._folder()
        worker.has_resident = resident is not None
        order = {
            **({"op": "first"} if shape.branching else {}),
            "disk_bytes": shape.disk_bytes,
            "file_count": shape.file_count,
            "process_count": process_count,
            "cpu_s": _USUAL.cpu_s,
            "memory_bytes": _USUAL.memory_bytes,
            "network": shape.network,
            "hurried": hurried,
            "copied": shape.copied and not hurried,
            "resident": resident,
            "folder": worker.folder,
            "environ": {**environ, **_own_folders(worker.folder)},
        }
        if order != self._usual_order[0]:
            self._usual_order = order, json.dumps(order).removeprefix("{")
        text = f'{{"id": {worker.identity}, "uid": {self._uid(worker.number)}, {self._usual_order[1]}'
        self._ask(worker.identity, text.encode(), ends)
        return worker

    def keep(self, of: Worker | Kept, *, fork: bool, memory_bytes: int | None, on_gone: Callable[[], None]) -> Kept:
        """Ask for a copy of a worker that is parked, or of a copy. Returns at once; await `answered`, see `refusal`.

        Args:
            on_gone: Called when there is none, or none any more; that may be before this returns.
            fork: Whether workers of it will run beside this one.
            memory_bytes: The most that a fork may be born with.
        """
        self._next = self._free_number()
        kept = self._kept[self._next] = Kept(self._next, of.number, on_gone)
        order = {"op": "keep", "id": kept.identity, "of": of.identity, "fork": fork, "memory_bytes": memory_bytes}
        self._ask(kept.identity, json.dumps(order).encode(), [])
        return kept

    def drop(self, kept: Kept) -> None:
        """Let a copy end; `on_gone` is called when it has."""
        self._ask(0, json.dumps({"op": "drop", "id": kept.identity}).encode(), [])

    def branch(
        self, kept: Kept, *, cgroup: Cgroup | None, on_end: Callable[[Worker], None], fresh: bool, last: bool = False
    ) -> Worker:
        """Ask for a worker made of a copy. Returns at once; `Worker.ready` waits for its jail.

        Args:
            fresh: Whether it has files, a user id and a group of its own; else it has those of the worker copied.
            last: Whether the copy itself becomes the worker, which is faster; else it stays.
        """
        self._next = self._free_number()
        worker, ends = self._new_worker(cgroup, on_end, is_copy=True, joined=cgroup if fresh else None)
        if not fresh:
            worker.number = kept.number
        order = {
            "op": "branch",
            "id": worker.identity,
            "of": kept.identity,
            "uid": self._uid(worker.number),
            "room": fresh,
            "last": last,
        }
        self._ask(worker.identity, json.dumps(order).encode(), ends)
        return worker

    async def find_workdir(self, worker: Worker) -> None:
        """Have the workdir of a copy, which is not taken from the copy itself.

        Raises:
            SandboxLost: It has none, or has ended.
        """
        await worker.spawned()
        asking = self._asking[worker.identity] = self._loop.create_future()
        self._ask(0, json.dumps({"op": "workdir", "id": worker.identity}).encode(), [])
        await asyncio.wait([asking], timeout=START_S)
        self._asking.pop(worker.identity, None)
        found = asking.result() if asking.done() else f"{START_S:g} s went by"
        if isinstance(found, str):
            raise SandboxLost(f"its workdir is not there: {found}")
        worker.has_workdir(found)

    def _inner_group(self, identity: int) -> gvisor.InnerGroup:
        def limit(memory_bytes: int | None, process_count: int | None) -> None:
            order = {"op": "limit", "id": identity, "memory_bytes": memory_bytes, "process_count": process_count}
            self._bound(identity, memory_bytes)
            self._ask(0, json.dumps(order).encode(), [])

        return gvisor.InnerGroup(limit)

    def _bound(self, identity: int, memory_bytes: int | None) -> None:
        """Let all of it hold as much as its guests may, together."""
        if memory_bytes is None:
            self._bounds.pop(identity, None)
        else:
            self._bounds[identity] = memory_bytes
        if self.group is not None:
            with contextlib.suppress(OSError):
                most = _GVISOR_BYTES + sum(self._bounds.values())
                self.group.limit(memory_bytes=most, process_count=_GVISOR_PROCESSES)

    def _send_signal(self, identity: int, number: int) -> None:
        self._ask(0, json.dumps({"op": "signal", "id": identity, "number": int(number)}).encode(), [])

    def _new_worker(
        self,
        cgroup: Cgroup | gvisor.InnerGroup | None,
        on_end: Callable[[Worker], None],
        *,
        is_copy: bool,
        joined: Cgroup | None,
        attends: bool = True,
    ) -> tuple[Worker, list[int]]:
        """Our side of one, and the descriptors of its own: socket and streams, and those by which it joins a group.

        Raises:
            OSError: There are no descriptors left. None of those that there were is kept.
        """
        joins = joined.join_descriptors() if joined else []
        opened: list[int] = [*joins]
        try:
            out_reader, out_writer = os.pipe2(os.O_CLOEXEC)
            opened += (out_reader, out_writer)
            err_reader, err_writer = os.pipe2(os.O_CLOEXEC)
            opened += (err_reader, err_writer)
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        except OSError:
            for descriptor in opened:
                os.close(descriptor)
            raise
        for reader in (out_reader, err_reader):
            os.set_blocking(reader, False)
        worker = Worker(
            identity=self._next,
            control=ours,
            streams=(out_reader, err_reader),
            cgroup=cgroup,
            on_end=on_end,
            is_copy=is_copy,
            attends=attends,
            signal_by=functools.partial(self._send_signal, self._next) if self.recipe.backend == GVISOR else None,
        )
        self._workers[self._next] = worker
        return worker, [theirs.detach(), out_writer, err_writer, *joins]

    def _ask(self, identity: int, order: bytes, descriptors: list[int]) -> None:
        """Send the order and close our copies; when the template has too many orders waiting, a little later."""
        try:
            socket.send_fds(self._control, [order], descriptors)
        except BlockingIOError:
            self._loop.call_later(_RETRY_S, self._ask, identity, order, descriptors)
            return
        except OSError as error:
            self._refuse(identity, f"the template is gone: {error.strerror}")
        for descriptor in descriptors:
            os.close(descriptor)

    def _refuse(self, identity: int, reason: str, *, busy: bool = False) -> None:
        worker, kept = self._workers.pop(identity, None), self._kept.pop(identity, None)
        if worker is not None:
            worker.was_refused(reason)
        if kept is not None:
            kept.has_gone(reason, busy=busy)

    def log(self) -> str:
        """The end of what the template wrote to its standard error."""
        size = os.fstat(self._log).st_size
        return os.pread(self._log, _LOG_TAIL, max(0, size - _LOG_TAIL)).decode("utf-8", "replace")

    def close(self) -> None:
        """End the template and with it all its workers. Idempotent."""
        self._let_go()
        self._end()
        self._forget_all()

    async def retire(self) -> None:
        """`close`, and the loop goes on while the processes end."""
        self._let_go()
        await run_for_host(self._end)
        self._forget_all()

    @property
    def holds(self) -> int:
        """How many workers and copies there are of it, with those that it was asked for."""
        return len(self._workers) + len(self._kept)

    @property
    def left_no_process(self) -> bool:
        """Whether all that had its user ids has ended: with its pid namespace, or by the template's own hand."""
        process = getattr(self, "_process", None)  # there is none where it could not be started
        return self.plan.backend == NAMESPACES or process is None or process.returncode == 0

    def _let_go(self) -> None:
        self.alive = False
        with contextlib.suppress(ValueError, OSError):
            self._loop.remove_reader(self._control.fileno())
        self._control.close()

    def _end(self) -> None:
        if self.plan.backend != NAMESPACES:  # or, of gVisor, what it has mounted
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_S)  # it ends its workers and what they left, then itself
        self._process.kill()
        self._process.wait()

    def _forget_all(self) -> None:
        for worker in list(self._workers.values()):
            self._forget(worker.identity, Ended(9, 0.0, 0))
        for asking in self._asking.values():
            if not asking.done():
                asking.set_result("the template has ended")
        for identity in list(self._kept):
            self._kept.pop(identity).has_gone("the template has ended")

    def _order(self) -> dict[str, Any]:
        plan = dataclasses.asdict(self.plan)
        plan["waive"] = sorted(plan["waive"])
        return {
            "plan": plan,
            "environ": guest_environ(self.recipe.python),
            "caches": self.recipe.caches,
            "folder": self.folder or "/tmp",
            "guest": self.recipe.guest,
            "modules": self.recipe.modules,
            "ipython": self.recipe.ipython,
            "tracer": self.recipe.tracer,
            "python": self.recipe.python,
            "heap_bytes": self.recipe.heap_bytes,
            "memory_bytes": _USUAL.memory_bytes,
            "boot_environ": _boot_environ(self.recipe),
        }

    def _uid(self, number: int) -> int:
        """The user id of a worker of this number."""
        if self.plan.uid_base is None:
            return credentials.INSIDE_UID
        if "uid" in self.plan.waive:
            return 0
        inside = credentials.INSIDE_UID + number % credentials.GUESTS
        outside = "user_ns" in self.plan.waive or self.plan.backend != NAMESPACES
        return self.plan.uid_base + inside if outside else inside

    def _free_number(self) -> int:
        """The next number whose user id nobody alive has: the ids begin anew after GUESTS workers."""
        if self._next < credentials.GUESTS:
            return self._next + 1
        holders: list[Worker | Kept] = [*self._workers.values(), *self._kept.values()]
        taken = {holder.number % credentials.GUESTS for holder in holders}
        return next(number for number in itertools.count(self._next + 1) if number % credentials.GUESTS not in taken)

    def _folder(self) -> str:
        if self.plan.backend in enter.CONTAINED:
            return ""
        folder = f"{self.plan.private_folder}/{next(_FOLDERS)}"
        os.mkdir(folder, 0o700)
        return folder

    def _on_message(self) -> None:
        while True:
            try:
                data, descriptors, _, _ = socket.recv_fds(self._control, 1 << 16, 1)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                data, descriptors = b"", []
            if not data:
                self._died()
                return
            self._take(json.loads(data), descriptors)

    def _take(self, message: dict[str, Any], descriptors: Sequence[int]) -> None:
        event = message["ev"]
        if event in ("ready", "failed"):
            if not self._ready.done():
                self._ready.set_result(message)
        elif event == "spawned":
            if descriptors:
                fcntl.fcntl(descriptors[0], fcntl.F_SETFD, fcntl.FD_CLOEXEC)
            self._workers[message["id"]].was_spawned(descriptors[0] if descriptors else -1)
        elif event == "use":
            used = self._workers.get(message["id"])
            if used is not None and isinstance(used.cgroup, gvisor.InnerGroup):
                used.cgroup.was_told(message)
        elif event == "workdir":
            if descriptors:
                fcntl.fcntl(descriptors[0], fcntl.F_SETFD, fcntl.FD_CLOEXEC)
            asking = self._asking.pop(message["id"], None)
            if asking is None or asking.done():
                for descriptor in descriptors:
                    os.close(descriptor)
            else:
                asking.set_result(descriptors[0] if descriptors else message["reason"])
        elif event == "refused":
            self._refuse(message["id"], message["reason"], busy=message.get("busy", False))
        elif event == "kept":
            self._kept[message["id"]].was_made()
        elif event == "gone":
            if (kept := self._kept.pop(message["id"], None)) is not None:
                kept.has_gone("it has ended")
        elif event == "stopped":
            if (stopped := self._workers.get(message["id"])) is not None:
                stopped.has_stopped()
        elif event == "exit":
            worker = self._workers.get(message["id"])
            if worker is not None and message.get("reason"):
                worker.failed_early(message["reason"])
            ended = Ended(message["status"], message["cpu_s"], message["peak_memory_bytes"])
            self._forget(message["id"], ended)

    def _forget(self, identity: int, ended: Ended) -> None:
        worker = self._workers.pop(identity, None)
        self._bounds.pop(identity, None)
        if worker is not None:
            worker.has_ended(ended)

    def _died(self) -> None:
        if not self._ready.done():
            reason = "template: it ended before it was ready"
            self._ready.set_result({"ev": "failed", "reason": reason})
        elif self.alive:
            self.close()


def guest_environ(python: str) -> dict[str, str]:
    """The environment variables of every guest; none of the host's. `python` is the one of its cells."""
    own = os.path.dirname(python)
    return {
        "PATH": GUEST_PATH if own in GUEST_PATH.split(":") else f"{own}:{GUEST_PATH}",
        "HOME": "/tmp",
        "TMPDIR": "/tmp",
        "USER": "guest",
        "LOGNAME": "guest",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "TERM": "dumb",
        "MPLBACKEND": "agg",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "JE_ARROW_MALLOC_CONF": "background_thread:false",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_TARGET": OWN_PACKAGES,
        "PYTHONPATH": OWN_PACKAGES,
    }


def _own_folders(folder: str) -> dict[str, str]:
    """Without a mount namespace /tmp is the host's, and closed; a worker has a folder of its own instead."""
    if not folder:
        return {}
    return {**dict.fromkeys(("HOME", "TMPDIR"), f"{folder}/tmp"), "MPLCONFIGDIR": f"{folder}/tmp/matplotlib"}


def _boot_environ(recipe: Recipe) -> dict[str, str]:
    seed = {} if recipe.hash_seed is None else {"PYTHONHASHSEED": str(recipe.hash_seed)}
    return {**guest_environ(recipe.python), "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", **seed}
