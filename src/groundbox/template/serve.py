"""The template's loop: on request, one more copy of itself, jailed; on its end, the kernel's word how it ended."""

import contextlib
import errno
import functools
import json
import os
import select
import signal
import socket
import sys
import threading
import traceback
import types
from os import _exit  # by this name, because programs set `os._exit` to what they like
from typing import Any, Final, NoReturn

from groundbox.jail import (
    BARE,
    GVISOR,
    LANDLOCK,
    NAMESPACES,
    credentials,
    enter,
    inner,
    kernel,
    launch,
    namespaces,
    rlimits,
    rootfs,
    sealed,
)
from groundbox.jail.sealed import BIRTHS, Order, Slot
from groundbox.template import branches, guest_code, layout, locks, memory, outer, pidfds, warm
from groundbox.template.branches import Branches
from groundbox.template.guest_code import Cells, GuestCode, GuestWorker
from groundbox.template.keepers import Asked, Keeper, Keepers, Steps, held
from groundbox.template.launching import Launching
from groundbox.template.networks import Networks

_JAIL_FAILED: Final = 70
_ORPHAN_ROUNDS: Final = 200
_REHEARSALS: Final = 12
_MOST_WAITING: Final = 8
_TRIAL: Final = {
    "op": "run",
    "id": 0,
    "mode": "cell",
    "source": "print(1 + 1)",
    "limits": {"cpu_s": None, "private_bytes": None},
    "stream": False,
    "last": True,
}


def run(control: socket.socket, order: dict[str, Any]) -> NoReturn:
    """Warm up, seal the outer jail, then fork on request until the host closes the socket."""
    guest = guest_code.load(order["guest"])  # before packages of the environment can be found
    plan = outer.plan_from(order)
    pidfds.install()
    os.environ.clear()
    os.environ.update(order["environ"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warm.enter_environment(order.get("caches"), order["folder"])
    cells = guest.cells(ipython=order["ipython"], tracer=order["tracer"])
    if plan.backend == LANDLOCK:
        guest.limit_libraries()
    warm.import_all(order["modules"])
    outer.make_ruleset(plan)
    cells.warm_up()
    _gather_code(plan, guest, cells)
    _rehearse(plan, guest, cells)  # last before the fork: the table of lookups in types has few places
    _refuse_threads()
    listener = outer.seal(plan)
    server = _Server(control, plan, guest, cells)
    server.rehearse()
    guest.limit_memory(order["memory_bytes"])
    cells.prepare_launch()
    memory.settle()
    server.start(listener)
    control.send(json.dumps({"ev": "ready", "python": list(sys.version_info[:3])}).encode())
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the host went while it was told something
        server.serve()
    server.end()
    os._exit(0)


def _gather_code(plan: enter.Plan, guest: GuestCode, cells: Cells) -> None:
    """Bring the code that every worker runs to one place."""
    codes = layout.code_run_by(lambda: _rehearse(plan, guest, cells, times=1))
    for kind in (_Server, guest.Worker):
        codes |= {method.__code__ for method in vars(kind).values() if isinstance(method, types.FunctionType)}
    codes |= {launch.Launcher.start.__code__, Launching._started.__code__}
    layout.start_afresh()
    layout.lay_together(codes)


def _rehearse(plan: enter.Plan, guest: GuestCode, cells: Cells, *, times: int = _REHEARSALS) -> None:
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
        _go_through(guest, cells)
        guest.rehearse_tracing()


def _go_through(guest: GuestCode, cells: Cells) -> None:
    """Carry out one order of our own, as `serve` would, and forget it."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        guest.Wire(ours).send(_TRIAL)
        ours.shutdown(socket.SHUT_WR)
        worker = guest.Worker(
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
    def __init__(self, control: socket.socket, plan: enter.Plan, guest: GuestCode, cells: Cells) -> None:
        self._control = control
        self._plan = plan
        self._guest = guest
        self._cells = cells
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._warden = -1
        self._warden_pid: int | None = None
        self._workers: dict[int, tuple[int, int, int | None]] = {}
        self._networks = None if plan.waive or plan.backend != NAMESPACES else Networks()
        self._folders: dict[int, str] = {}
        self._ahead: tuple[float | None, int | None] | None = None
        self._held_bytes = 0
        self._branches, self._no_branches = None, "live sandboxes cannot be copied on this machine"
        self._births: Keepers | None = None
        if enter.can_branch(plan):
            try:
                self._branches = Branches(plan, self._poll, self._keeper_ended, self._children)
                self._births = Keepers(self._poll, self._keeper_ended, self._children, shift=BIRTHS)
            except OSError as error:
                self._branches = self._births = None
                self._no_branches = enter.refusal(error)
        self._live: dict[int, Keeper] = {}
        self._kept: dict[int, Keeper] = {}
        self._to_keep: set[int] = set()
        self._last_words: dict[Keeper, dict[str, Any]] = {}
        self._entries: dict[int, launch.Entry] = {}
        self._launchings: dict[int, Launching] = {}
        self._blank: dict[int, GuestWorker] = {}
        for keepers in self._sets():
            self._blank[keepers.shift] = self._blank_worker(keepers)

    def rehearse(self) -> None:
        """Go through what a worker that was launched does before its first order, as `_rehearse` does with the rest."""
        order: dict[str, Any] = {"cpu_s": 1.0, "memory_bytes": 1, "environ": {}, "resident": None, "copied": False}
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        for is_limited in (True, False) * (_REHEARSALS // 2):
            ours, theirs = socket.socketpair()
            with ours, theirs, kernel.rehearsal():
                worker = self._new_worker(theirs, ".", "/tmp")
                worker.attach()
                _connect(os.dup(nowhere), nowhere)
                self._introduce(worker, order, [os.dup(nowhere)], is_limited=is_limited)
                self._set_limits(order["cpu_s"], order["memory_bytes"])
                kernel.Prepared("munmap", 0, 0)()
        os.close(nowhere)

    def start(self, listener: int | None) -> None:
        """Start those who stay beside us; before all others the launchers, which stay as we are now.

        One makes keepers of copies, and is told its orders with theirs; the other makes all other workers, so that none
        of those waits for a copy to be made.

        Args:
            listener: What the warden of locks listens to; None for no warden.
        """
        self._held_bytes = rlimits.address_bytes() if self._plan.backend == GVISOR else rlimits.data_bytes()
        if self._branches is not None:
            self._branches.know_own_files()
        for keepers in self._sets():
            be = functools.partial(self._be_launched, keepers.shift)
            self._launchings[keepers.shift] = Launching(self._plan, keepers, be, held_bytes=self._held_bytes)
        if listener is not None:
            self._warden_pid = locks.start(listener)
            self._warden = os.pidfd_open(self._warden_pid)
            self._poll.register(self._warden, select.POLLIN)

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
                elif (keepers := self._handler(descriptor)) is not None:
                    keepers.handle(descriptor)
                else:
                    self._reap(descriptor)
            # Each order that waits holds its descriptors, so that more of them stay where they are, with the kernel.
            is_full = self._births is not None and self._births.waiting >= _MOST_WAITING
            self._poll.modify(control, 0 if is_full else select.POLLIN)

    def _sets(self) -> list[Keepers]:
        """Of keepers. The first launcher that is started has pages that nobody has written to since."""
        return [keepers for keepers in (self._births, self._branches) if keepers is not None]

    def _handler(self, descriptor: int) -> Keepers | None:
        return next((keepers for keepers in self._sets() if keepers.handles(descriptor)), None)

    def end(self) -> None:
        """Without a pid namespace nobody else ends what workers leave behind."""
        if self._plan.backend not in enter.CONTAINED:
            self._workers.clear()
            self._end_orphans()

    def _receive(self) -> bool:
        data, descriptors, flags, _ = socket.recv_fds(self._control, 1 << 16, 16)
        if not data:
            return False
        order = json.loads(data)
        if flags & socket.MSG_CTRUNC:  # this process has no room for what came along
            reason = f"the template has no descriptors left for it: {os.strerror(errno.EMFILE)}"
            self._tell({"ev": "refused", "id": order["id"], "reason": reason})
            for descriptor in descriptors:
                os.close(descriptor)
            return True
        if "op" in order:
            self._branch(order, descriptors)
            return True
        if self._births is not None and order["network"] == "off":
            steps = self._launch(self._launchings[BIRTHS], order, data, descriptors)
            self._births.take(self._answered(steps, order, descriptors, self._births))
            return True
        try:
            self._spawn(order, descriptors)
        except OSError as error:
            self._tell({"ev": "refused", "id": order["id"], "reason": enter.refusal(error)})
        for descriptor in descriptors:
            os.close(descriptor)
        return True

    def _branch(self, order: dict[str, Any], descriptors: list[int]) -> None:
        """Orders that concern copies of guests; each is answered when it has been carried out."""
        if order["op"] == "drop":
            self._to_keep.discard(order["id"])  # it may not have been made yet
            if (keeper := self._kept.get(order["id"])) is not None:
                keeper.end()
            return
        if order["op"] == "workdir":
            self._show_workdir(order)
            return
        if self._branches is None:
            self._tell({"ev": "refused", "id": order["id"], "reason": self._no_branches})
            for descriptor in descriptors:
                os.close(descriptor)
            return
        if order["op"] == "keep":
            self._to_keep.add(order["id"])
        steps = {"first": self._first_guest, "keep": self._keep, "branch": self._another_guest}[order["op"]]
        self._branches.take(self._answered(steps(order, descriptors), order, descriptors, self._branches))

    def _show_workdir(self, order: dict[str, Any]) -> None:
        """Send the host a descriptor of a live copy's workdir, which is not taken from the guest itself."""
        message, descriptors = {"ev": "workdir", "id": order["id"], "reason": "it has ended"}, []
        if (keeper := self._live.get(order["id"])) is not None and keeper.alive:
            try:
                descriptors.append(branches.workdir_of(keeper))
            except OSError as error:
                message["reason"] = enter.refusal(error)
        socket.send_fds(self._control, [json.dumps(message).encode()], descriptors)
        for descriptor in descriptors:
            os.close(descriptor)

    def _answered(self, steps: Steps, order: dict[str, Any], descriptors: list[int], keepers: Keepers) -> Steps:
        """The same steps; where they fail the host hears why. Descriptors are closed, and those in slots let go."""
        try:
            yield from steps
        except branches.Busy as busy:
            self._tell({"ev": "refused", "id": order["id"], "reason": str(busy), "busy": True})
        except OSError as error:
            self._tell({"ev": "refused", "id": order["id"], "reason": enter.refusal(error)})
        except Exception as error:  # a fault of ours ends this order, and not the sandboxes that live
            traceback.print_exc()  # into the template's log
            self._tell({"ev": "refused", "id": order["id"], "reason": f"{type(error).__name__}: {error}"})
        finally:
            keepers.clear()
            for descriptor in descriptors:
                os.close(descriptor)

    def _first_guest(self, order: dict[str, Any], descriptors: list[int]) -> Steps:
        """Make a keeper, and the guest of a sandbox that can be branched."""
        assert self._branches is not None
        program = self._branches.program(order["disk_bytes"], order["file_count"])
        wake = os.eventfd(0)
        try:
            pid = yield from self._launchings[0].keeper({**order, "program": program, "wake": wake}, descriptors)
            pidfd = held(pid)
        except BaseException:
            os.close(wake)
            raise
        yield from self._guest_of(self._branches.adopt(pid, pidfd, wake), order)

    def _keep(self, order: dict[str, Any], descriptors: list[int]) -> Steps:
        """Make a checkpoint of a guest, which is parked, or of a checkpoint."""
        assert self._branches is not None
        try:
            live = self._live.get(order["of"]) or self._kept.get(order["of"])
            if live is None:
                raise ProcessLookupError(0, "it has ended")
            keeper = yield from self._branches.copy(live)
            try:
                self._branches.refuse_shared_memory(keeper, fork=order["fork"])
                if order["fork"] and order["memory_bytes"] is not None:
                    self._branches.refuse_more_memory(keeper, order["memory_bytes"])
                if order["id"] not in self._to_keep:
                    raise ProcessLookupError(0, "it was dropped while it was made")
            except BaseException:
                keeper.end()
                raise
        finally:
            self._to_keep.discard(order["id"])
        self._kept[order["id"]] = keeper
        self._tell({"ev": "kept", "id": order["id"]})

    def _another_guest(self, order: dict[str, Any], descriptors: list[int]) -> Steps:
        """Make a guest of a copy of a checkpoint, or, where nobody will need that again, of the checkpoint itself."""
        assert self._branches is not None
        kept = self._kept.get(order["of"])
        if kept is None:
            raise ProcessLookupError(0, "the checkpoint has ended")
        if order["last"]:
            del self._kept[order["of"]]
            self._tell({"ev": "gone", "id": order["of"]})
            keeper = kept
        else:
            keeper = yield from self._branches.copy(kept)
        sock, out, err, *join = descriptors
        self._branches.place(sock, out, err, None, join)
        try:
            if order["room"]:
                yield Asked(keeper, Order.MAKE_ROOM, uid=order["uid"])
        except BaseException:
            keeper.end()
            raise
        yield from self._guest_of(keeper, order)

    def _guest_of(self, keeper: Keeper, order: dict[str, Any]) -> Steps:
        """Let a keeper make a guest, and tell the host of it."""
        network = None
        try:
            assert self._networks is not None
            network = self._networks.enter_one()
            os.dup2(network, Slot.NETWORK, inheritable=False)
            pid = yield Asked(keeper, Order.RUN, uid=order["uid"])
            pidfd = held(pid)
            self._workers[pidfd], network = (order["id"], pid, network), None
            self._poll.register(pidfd, select.POLLIN)
            self._live[order["id"]] = keeper
            message = json.dumps({"ev": "spawned", "id": order["id"], "pid": pid}).encode()
            socket.send_fds(self._control, [message], [pidfd])
        except BaseException:
            keeper.end()
            raise
        finally:
            if network is not None and self._networks is not None:
                self._networks.give_back(network)

    def _guests(self) -> set[int]:
        return {pid for _, pid, _ in self._workers.values()}

    def _children(self) -> set[int]:
        keepers = [keepers.pids for keepers in self._sets()]
        return self._guests().union(*keepers, () if self._warden_pid is None else (self._warden_pid,))

    def _keeper_ended(self, keeper: Keeper) -> None:
        for launching in self._launchings.values():
            launching.ended(keeper)
        if (message := self._last_words.pop(keeper, None)) is not None:
            self._tell(message)
        for pidfd, (identity, _, _) in self._workers.items():
            if self._live.get(identity) is keeper:  # a guest may spoil what its keeper waits with, and goes with it
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        for identity, kept in list(self._kept.items()):
            if kept is keeper:
                del self._kept[identity]
                self._tell({"ev": "gone", "id": identity})

    def _launch(self, launching: Launching, order: dict[str, Any], text: bytes, descriptors: list[int]) -> Steps:
        """Let the launcher make a worker, and tell the host of it."""
        assert self._networks is not None
        network, is_made = self._networks.enter_one(), False
        try:
            entry = launching.entry(order)
            pid = yield from launching.worker(text, order["uid"], descriptors, entry, network=network)
            pidfd = held(pid)
            self._workers[pidfd], is_made = (order["id"], pid, network), True
            self._entries[order["id"]] = entry
            self._poll.register(pidfd, select.POLLIN)
            message = json.dumps({"ev": "spawned", "id": order["id"], "pid": pid}).encode()
            socket.send_fds(self._control, [message], [pidfd])
        finally:
            if not is_made:
                self._networks.give_back(network)

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
        self._folders[order["id"]] = order.get("folder", "")
        message = json.dumps({"ev": "spawned", "id": order["id"], "pid": pid}).encode()
        socket.send_fds(self._control, [message], [pidfd])

    def _reap(self, pidfd: int) -> None:
        identity, pid, network = self._workers.pop(pidfd)
        self._poll.unregister(pidfd)
        os.close(pidfd)
        _, status, usage = os.wait4(pid, 0)
        if self._networks is not None and network is not None:
            self._networks.give_back(network)
        folder = self._folders.pop(identity, "")
        if self._plan.backend == GVISOR:
            inner.leave(folder)
        elif self._plan.backend not in enter.CONTAINED:
            self._end_orphans()
        message = {
            "ev": "exit",
            "id": identity,
            "status": status,
            "cpu_s": usage.ru_utime + usage.ru_stime,
            "peak_memory_bytes": usage.ru_maxrss * 1024,
        }
        entry = self._entries.pop(identity, None)
        if entry is not None and os.WIFEXITED(status):
            message["reason"] = self._launchings[BIRTHS].failure(entry, os.WEXITSTATUS(status))
        keeper = self._live.pop(identity, None)
        if keeper is not None and keeper.alive:
            keeper.end()
            self._tell({"ev": "stopped", "id": identity})  # the memory that both had takes the kernel a while
            self._last_words[keeper] = message  # all of a sandbox has ended when its keeper has, too
        else:
            self._tell(message)

    def _end_orphans(self) -> None:
        """Without a pid namespace, what a dead worker left behind is now our child: end it, and its children.

        Living workers adopt their own orphans. Something that forks as fast as it is killed is left
        for the next time, and for the host, which ends the whole cgroup.
        """
        known = self._guests()
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
                if not order["hurried"] and not order["copied"]:
                    _go_through(self._guest, self._cells)
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

    def _blank_worker(self, keepers: Keepers) -> GuestWorker:
        """What will be the worker in each process that a launcher makes, where its socket has a certain number."""
        number = Slot.SOCKET + keepers.shift
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with ours, theirs:
            os.dup2(theirs.fileno(), number, inheritable=False)
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=number)
        keepers.clear()
        return self._new_worker(sock, rootfs.WORKDIR, "/tmp")

    def _be_launched(self, shift: int, order: dict[str, Any]) -> NoReturn:
        """What a launcher has made: a worker in its jail, or a keeper to be."""
        status, worker = _JAIL_FAILED, self._blank[shift]
        try:
            try:
                if "program" in order:
                    program = sealed.Installed(*order["program"])
                    branches.become_keeper(
                        program,
                        order["wake"],
                        uid=order["uid"],
                        disk_bytes=order["disk_bytes"],
                        file_count=order["file_count"],
                    )
                    os.chdir(rootfs.WORKDIR)
                    _connect(os.open("/dev/null", os.O_RDONLY), 0)
                    worker.can_be_copied(program.park)
                    self._guest.start_keys()
                    self._set_limits(order["cpu_s"], order["memory_bytes"])
                if not order["hurried"] and not order["copied"]:
                    _go_through(self._guest, self._cells)
                worker.attach()
                _connect(Slot.OUT + shift, 1)
                _connect(Slot.ERR + shift, 2)
                handed = [os.open(rootfs.WORKDIR, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
                is_limited = "program" not in order and self._plan.uid_base is not None
                self._introduce(worker, order, handed, is_limited=is_limited)
            except OSError as error:
                _confess(socket.socket(fileno=Slot.SOCKET + shift), error)
            else:
                worker.serve()
                status = 0
        finally:
            _exit(status)

    def _worker(self, sock: socket.socket, entry: enter.Entry, order: dict[str, Any]) -> GuestWorker:
        self._set_limits(order["cpu_s"], order["memory_bytes"])
        worker = self._new_worker(sock, entry.workdir, order["environ"].get("TMPDIR", "/tmp"))
        handed = [os.open(entry.workdir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)]
        if entry.listener is not None:
            handed.append(entry.listener.detach())  # type: ignore[attr-defined]
        self._introduce(worker, order, handed, is_limited=False)
        return worker

    def _new_worker(self, sock: socket.socket, workdir: str, temporary: str) -> GuestWorker:
        return self._guest.Worker(
            sock,
            cells=self._cells,
            workdir=workdir,
            set_limits=self._set_limits,
            alone=self._plan.backend in enter.CONTAINED and "pid_ns" not in self._plan.waive,
            guarded=self._plan.backend != BARE and "dumpable" not in self._plan.waive,
            temporary=temporary,
            apart=enter.ruleset_apart(self._plan),
        )

    def _introduce(self, worker: GuestWorker, order: dict[str, Any], handed: list[int], *, is_limited: bool) -> None:
        """Make ready for the first order, and tell the host. Closes what is handed over.

        Args:
            is_limited: Whether it has its limit of open files already.
        """
        self._become_other()
        self._ahead = (order["cpu_s"], order["memory_bytes"])
        if order["environ"]:
            os.environ.update(order["environ"])
        if order["copied"]:
            self._copy(worker, handed, is_limited=is_limited)
        worker.ready(handed)
        self._limit_open_files(is_limited=is_limited)
        if order["resident"]:
            worker.start_resident(order["resident"])
        for descriptor in handed:
            os.close(descriptor)

    def _copy(self, worker: GuestWorker, handed: list[int], *, is_limited: bool) -> None:
        """Make the copy that scripts are forked from (guest/pristine.py), then go through an order of our own.

        In that order: after the copy, each page that every order writes to has to be copied by the kernel once more.
        What the order prints, the host reads before the first run.
        """

        def prepare() -> None:
            self._limit_open_files(is_limited=is_limited)
            for descriptor in handed:
                os.close(descriptor)

        worker.copy(prepare)
        _go_through(self._guest, self._cells)
        worker.attach()

    def _limit_open_files(self, *, is_limited: bool) -> None:
        if not is_limited and "rlimits" not in self._plan.waive:
            rlimits.set_open_files(own_user=self._plan.uid_base is not None)

    def _set_limits(self, cpu_s: float | None, memory_bytes: int | None) -> None:
        """Set once ahead of need, to what most runs ask for; the first of those then has nothing to do."""
        ahead, self._ahead = self._ahead, None
        if (cpu_s, memory_bytes) != ahead:
            rlimits.set_for_run(
                cpu_s=cpu_s,
                memory_bytes=memory_bytes,
                held_bytes=self._held_bytes,
                address_space=self._plan.backend == GVISOR,
            )

    def _become_other(self) -> None:
        """What a fork usually resets and a raw clone does not; above all, different random numbers."""
        threading.main_thread()._set_native_id()  # type: ignore[attr-defined]
        self._cells.after_launch()


def _connect(descriptor: int, stream: int) -> None:
    os.dup2(descriptor, stream)
    os.close(descriptor)


def _confess(sock: socket.socket, error: Exception) -> None:
    import struct

    reason = enter.refusal(error) if isinstance(error, OSError) else str(error)
    body = json.dumps({"ev": "failed", "reason": reason}).encode()
    sock.sendall(struct.pack("<I", len(body)) + body)
    sock.detach()  # a keeper shares its descriptors with the template, which closes this one itself
