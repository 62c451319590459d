"""The template's loop: on request, one more copy of itself, jailed; on its end, the kernel's word how it ended."""

import json
import os
import select
import signal
import socket
import sys
import threading
import types
from os import _exit  # by this name, because programs set `os._exit` to what they like
from typing import Any, Final, NoReturn

from groundbox.guest.python import tracing
from groundbox.guest.python.cells import CellRunner
from groundbox.guest.wire import Wire
from groundbox.guest.worker import Worker
from groundbox.jail import BARE, NAMESPACES, credentials, enter, kernel, namespaces, rlimits
from groundbox.template import layout, locks, memory, outer, warm
from groundbox.template.networks import Networks

_JAIL_FAILED: Final = 70
_ORPHAN_ROUNDS: Final = 200
_REHEARSALS: Final = 12
_TRIAL: Final = {
    "op": "run",
    "id": 0,
    "mode": "cell",
    "source": "print(1 + 1)",
    "limits": {"cpu_s": None, "private_bytes": None},
    "stream": False,
}


def run(control: socket.socket, order: dict[str, Any]) -> NoReturn:
    """Warm up, seal the outer jail, then fork on request until the host closes the socket."""
    plan = outer.plan_from(order)
    os.environ.clear()
    os.environ.update(order["environ"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warm.enter_environment(order.get("caches"))
    cells = CellRunner(ipython=order["ipython"])
    tracing.NATIVE = order["tracer"]
    warm.import_all(order["modules"])
    outer.make_ruleset(plan)
    _gather_code(plan, cells)
    _rehearse(plan, cells)
    cells.warm_up()
    _refuse_threads()
    listener = outer.seal(plan)
    memory.settle()
    warden = None if listener is None else locks.start(listener)
    control.send(json.dumps({"ev": "ready", "python": list(sys.version_info[:3])}).encode())
    server = _Server(control, plan, cells, warden)
    layout.start_afresh()
    server.serve()
    server.end()
    os._exit(0)


def _gather_code(plan: enter.Plan, cells: CellRunner) -> None:
    """Bring the code that every worker runs to one place."""
    codes = layout.code_run_by(lambda: _rehearse(plan, cells, times=1))
    for kind in (_Server, Worker):
        codes |= {method.__code__ for method in vars(kind).values() if isinstance(method, types.FunctionType)}
    layout.start_afresh()
    layout.lay_together(codes)


def _rehearse(plan: enter.Plan, cells: CellRunner, *, times: int = _REHEARSALS) -> None:
    """Go through what a worker does, without effect, until the interpreter has settled on how to do it."""
    entry = enter.Entry(
        plan=plan,
        uid=credentials.INSIDE_UID,
        disk_bytes=1,
        file_count=1,
        process_count=None,
        network="off",
        join=[0, 0, 0],
        keep=[3],
        folder=os.getcwd(),
    )
    for _ in range(times):
        with kernel.rehearsal():
            enter.enter(entry)
            rlimits.set_for_run(cpu_s=1.0, memory_bytes=1, held_bytes=0)
        cells.after_fork()
        _go_through(cells)
        tracing.rehearse()


def _go_through(cells: CellRunner) -> None:
    """Carry out one order of our own, as `serve` would, and forget it."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        Wire(ours).send(_TRIAL)
        ours.shutdown(socket.SHUT_WR)
        worker = Worker(
            theirs,
            cells=cells,
            workdir=".",
            set_limits=lambda cpu_s, bytes_: None,
            alone=True,
            guarded=False,
        )
        worker.ready([0])
        worker.serve()
    cells.forget()


def _refuse_threads() -> None:
    """A thread would be missing from every copy, with whatever lock it held."""
    names = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/comm") as file:
            names.append(file.read().strip())
    if len(names) != 1:
        raise enter.JailFailed("template", f"the imports left threads running: {names}")


class _Server:
    def __init__(self, control: socket.socket, plan: enter.Plan, cells: CellRunner, warden: int | None) -> None:
        self._control = control
        self._plan = plan
        self._cells = cells
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._warden = -1 if warden is None else os.pidfd_open(warden)
        if self._warden >= 0:
            self._poll.register(self._warden, select.POLLIN)
        self._workers: dict[int, tuple[int, int, int | None]] = {}
        self._networks = None if plan.waive or plan.backend != NAMESPACES else Networks()
        self._spawned = 0
        self._ahead: tuple[float | None, int | None] | None = None
        self._held_bytes = rlimits.data_bytes()

    def serve(self) -> None:
        """Until the host is gone, or the warden of locks is, without whom workers would wait for each lock."""
        control = self._control.fileno()
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor == control:
                    if not self._receive():
                        return
                elif descriptor == self._warden:
                    return
                else:
                    self._reap(descriptor)

    def end(self) -> None:
        """Without a pid namespace nobody else ends what workers leave behind."""
        if self._plan.backend != NAMESPACES:
            self._workers.clear()
            self._end_orphans()

    def _receive(self) -> bool:
        data, descriptors, _, _ = socket.recv_fds(self._control, 1 << 16, 16)
        if not data:
            return False
        order = json.loads(data)
        self._spawned += 1
        try:
            self._spawn(order, descriptors)
        except OSError as error:
            self._tell({"ev": "refused", "id": order["id"], "reason": enter.refusal(error)})
        for descriptor in descriptors:
            os.close(descriptor)
        return True

    def _spawn(self, order: dict[str, Any], descriptors: list[int]) -> None:
        flags, network = enter.clone_flags(self._plan), None
        if self._networks is not None and order["network"] == "off":
            network = self._networks.enter_one()
            flags &= ~namespaces.NEWNET
        pid, pidfd = namespaces.clone(flags)
        if pid == 0:
            self._be_worker(order, descriptors)
        self._workers[pidfd] = (order["id"], pid, network)
        self._poll.register(pidfd, select.POLLIN)
        message = json.dumps({"ev": "spawned", "id": order["id"], "pid": pid}).encode()
        socket.send_fds(self._control, [message], [pidfd])

    def _reap(self, pidfd: int) -> None:
        identity, pid, network = self._workers.pop(pidfd)
        self._poll.unregister(pidfd)
        os.close(pidfd)
        _, status, usage = os.wait4(pid, 0)
        if self._networks is not None and network is not None:
            self._networks.give_back(network)
        if self._plan.backend != NAMESPACES:
            self._end_orphans()
        self._tell(
            {
                "ev": "exit",
                "id": identity,
                "status": status,
                "cpu_s": usage.ru_utime + usage.ru_stime,
                "peak_memory_bytes": usage.ru_maxrss * 1024,
            }
        )

    def _end_orphans(self) -> None:
        """Without a pid namespace, what a dead worker left behind is now our child: end it, and its children.

        Living workers adopt their own orphans. Something that forks as fast as it is killed is left
        for the next time, and for the host, which ends the whole cgroup.
        """
        known = {pid for _, pid, _ in self._workers.values()}
        for _ in range(_ORPHAN_ROUNDS):
            with open(f"/proc/self/task/{os.getpid()}/children") as file:
                orphans = {int(pid) for pid in file.read().split()} - known
            if not orphans:
                return
            for orphan in orphans:
                os.kill(orphan, signal.SIGKILL)
                os.waitpid(orphan, 0)

    def _tell(self, message: dict[str, Any]) -> None:
        self._control.send(json.dumps(message).encode())

    def _be_worker(self, order: dict[str, Any], descriptors: list[int]) -> NoReturn:
        """Everything from here on happens in the copy.

        An order of our own comes first: the pages that every order writes to are then this copy's already,
        and the first real order does not wait for the kernel to copy them. It is left out where a real one waits.
        """
        status = _JAIL_FAILED
        try:
            socket_, out, err, *join = descriptors
            sock = socket.socket(fileno=socket_)
            sock.set_inheritable(False)
            entry = enter.Entry(
                plan=self._plan,
                uid=order["uid"],
                disk_bytes=order["disk_bytes"],
                file_count=order["file_count"],
                process_count=order["process_count"],
                network=order["network"],
                join=join,
                keep=[socket_, out, err],
                folder=order.get("folder", ""),
            )
            try:
                os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
                enter.enter(entry)
                if not order["hurried"]:
                    _go_through(self._cells)
                _connect(out, 1)
                _connect(err, 2)
                worker = self._worker(sock, entry, order)
            except (enter.JailFailed, OSError) as error:
                _confess(sock, error)
            else:
                worker.serve()
                status = 0
        finally:
            _exit(status)

    def _worker(self, sock: socket.socket, entry: enter.Entry, order: dict[str, Any]) -> Worker:
        self._become_other(entry)
        self._set_limits(order["cpu_s"], order["memory_bytes"])
        self._ahead = (order["cpu_s"], order["memory_bytes"])
        alone = self._plan.backend == NAMESPACES and "pid_ns" not in self._plan.waive
        worker = Worker(
            sock,
            cells=self._cells,
            workdir=entry.workdir,
            set_limits=self._set_limits,
            alone=alone,
            guarded=self._plan.backend != BARE and "dumpable" not in self._plan.waive,
            apart=enter.ruleset_apart(self._plan),
        )
        os.environ.update(order["environ"])
        workdir = os.open(entry.workdir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        handed = [workdir]
        if entry.listener is not None:
            handed.append(entry.listener.fileno())  # type: ignore[attr-defined]
        worker.ready(handed)
        if "rlimits" not in self._plan.waive:
            rlimits.set_open_files(own_user=self._plan.uid_base is not None)
        if order["resident"]:
            worker.start_resident(order["resident"])
        for descriptor in handed:
            os.close(descriptor)
        if entry.listener is not None:
            entry.listener.detach()  # type: ignore[attr-defined]
        return worker

    def _set_limits(self, cpu_s: float | None, memory_bytes: int | None) -> None:
        """Set once ahead of need, to what most runs ask for; the first of those then has nothing to do."""
        ahead, self._ahead = self._ahead, None
        if (cpu_s, memory_bytes) != ahead:
            rlimits.set_for_run(cpu_s=cpu_s, memory_bytes=memory_bytes, held_bytes=self._held_bytes)

    def _become_other(self, entry: enter.Entry) -> None:
        """What a fork usually resets and a raw clone does not; above all, different random numbers."""
        threading.main_thread()._set_native_id()  # type: ignore[attr-defined]
        self._cells.after_fork()


def _connect(descriptor: int, stream: int) -> None:
    os.dup2(descriptor, stream)
    os.close(descriptor)


def _confess(sock: socket.socket, error: Exception) -> None:
    import struct

    reason = enter.refusal(error) if isinstance(error, OSError) else str(error)
    body = json.dumps({"ev": "failed", "reason": reason}).encode()
    sock.sendall(struct.pack("<I", len(body)) + body)
