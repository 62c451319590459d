"""The worker's loop: takes orders from the host, one at a time, and reports what happened.

Everything it says is a claim, since a cell runs in this very process and can say the same.
The host takes facts (how the process ended, what it used, which files are there) from the kernel.

Between runs SIGINT is ignored; the template set it so.
A cell runs here, in process 1 of the sandbox, so that its variables live on. A script runs in a child, which is
forked from a process that has run no cell (pristine.py):
it has a `__main__` of its own, ordinary signals and a real exit status, and when it ends, what it left
running is ended too. A command is the same with another program than Python; a resident is such a program that stays,
and keeps the state of its language's cells. A started process lives beside all of them, below a supervisor
(processes.py).
"""

import json
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from os import _exit, getpid  # by these names, because programs set `os._exit` to what they like
from typing import Any, NoReturn

from .aide import start_aide
from .children import Children, Interrupts, interrupt, outcome
from .claims import checked_failure, checked_observed
from .command import Commands
from .files import Files
from .outside import Outside
from .parking import Parking
from .pristine import Pristine
from .processes import Processes
from .programfile import ProgramFile
from .python import (
    chance,
    machine,
    orphans,
    remote_tests,  # noqa: F401  # loaded here for those who judge programs; a worker finds no file of it
)
from .python.imports import profile_for
from .python.scripts import run_script
from .python.tracing import Tracing
from .python.watching import Watch
from .resident import Residents
from .wire import HostGone, Wire, framed

_READY = framed({"ev": "ready"})
LimitSetter = Callable[[float | None, int | None], None]
_RUNS_HERE = frozenset({"cell", "call", "calls", "sql"})
"""Kinds of runs whose programs change this process."""
Mode = Callable[[dict[str, Any], list[int]], dict[str, Any]]
"""Carries out one kind of run: takes the order and its descriptors, gives what `done` says."""


_IN_THIS_ENVIRONMENT = ("cell", "call", "calls")
"""Modes whose programs have the environment of this process; others are processes that are given theirs."""


class Worker:
    """One sandbox's process, from its first order until the host closes the socket."""

    def __init__(
        self,
        sock: socket.socket,
        *,
        cells: Any,
        workdir: str,
        set_limits: LimitSetter,
        alone: bool,
        guarded: bool,
        temporary: str = "/tmp",
        apart: int = -1,
    ) -> None:
        """Args:
        alone: Whether this process is the first of a pid namespace, so that it may end all others.
        guarded: Whether its memory is closed to a script while that runs.
        temporary: Its folder for files that nobody asks for.
        apart: What keeps programs apart (apart.py); -1 where nothing does.
        """
        self._wire = Wire(sock)
        self._socket = sock
        self._apart = apart
        self._cells = cells
        self._files = Files(workdir)
        self._set_limits = set_limits
        self._children = Children(alone=alone, guarded=guarded)
        self._residents = Residents(self._children, self._wire.send, set_limits)
        self._commands = Commands(self._children, self._wire.send, apart)
        self._processes = Processes(self._children, set_limits)
        self._pristine = Pristine(self._children, self._begin_script)
        self._workdir = workdir
        self._outside = Outside(temporary)
        self._is_copied = False
        self._parking = Parking(0, cells, os.path.dirname(workdir), apart)
        self._has_environ = False
        self._core = ""
        self._observed: list[dict[str, Any]] = []
        self._modes: dict[str, Mode] = {
            "cell": self._run_cell,
            "call": self._run_cell,
            "calls": self._run_calls,
            "script": self._run_script_here,
            "command": self._commands.run,
            "resident": self._residents.run,
            "sql": self._run_sql,
        }
        self._orders: dict[str, Callable[[dict[str, Any], list[int]], dict[str, Any]]] = {
            "run": self._run,
            "put": self._files.put,
            "mkdir": self._files.mkdir,
            "remove": self._files.remove,
            "get": self._files.get,
            "stat": self._files.stat,
            "scan": self._files.scan,
            "realpath": self._files.realpath,
            "start": self._start,
            "aide": self._start_aide,
            "unpack": lambda order, descriptors: self._parking.unpack(order, descriptors),
        }
        self._sql: Any = None
        self._tools: Any = None
        self.attach()

    def attach(self) -> None:
        """Be the one that the cells' runner works for."""
        self._cells.emit = self._show
        self._cells.workdir = self._workdir

    def can_be_copied(self, park_at: int) -> None:
        """Let this worker be copied; `park_at` is how it stands still for that (parking.py)."""
        self._is_copied = True
        self._parking = Parking(park_at, self._cells, os.path.dirname(self._workdir), self._apart)

    def copy(self, prepare: Callable[[], None]) -> None:
        """Make the copy that scripts are forked from, ahead of the first cell.

        Args:
            prepare: Called in the copy first.
        """
        self._pristine.copy(self._socket, prepare)

    def ready(self, descriptors: list[int]) -> None:
        """Tell the host that the jail stands; hand over the workdir's descriptor and the proxy's socket."""
        self._wire.send_framed(_READY, descriptors)

    def start_resident(self, order: dict[str, Any]) -> None:
        """Start a language's process ahead of its first cell."""
        self._residents.start_ahead(order)

    def serve(self) -> None:
        """Obey until the host is gone."""
        while True:
            try:
                order, descriptors = self._wire.receive()
            except HostGone:
                return
            if order["op"] == "park":
                self._park(order, descriptors)
                continue
            answer = self._orders[order["op"]](order, descriptors)
            if order["op"] == "run" and (left := self._outside.new()):
                answer = {**answer, "outside": left}
            for descriptor in descriptors:
                _close(descriptor)
            _flush()
            self._wire.send({"ev": "done", "id": order["id"], **answer})
            if order.get("mode") == "command":
                self._commands.was_told()

    def _park(self, order: dict[str, Any], descriptors: list[int]) -> None:
        """Be copied. The worker goes on with the next order, and a copy with its first."""
        self._commands.spares.drop()
        self._children.reap_supervisors()
        if self._sql is not None:
            self._sql.let_go()
        _flush()
        in_the_way = self._parking.prepare(descriptors, self._residents.names())
        for descriptor in descriptors:
            _close(descriptor)
        done = {"ev": "done", "id": order["id"], "ok": not in_the_way, "reason": in_the_way}
        if in_the_way:
            self._wire.send(done)
        elif self._parking.stand_still(framed(done)):
            self._parking.awake()
            self._set_limits(None, None)  # the kernel has none for a copy, whatever was set ahead in who was copied
            self._wire.send({"ev": "ready"})

    def _show(self, event: dict[str, Any]) -> None:
        """Tell the host what a cell shows; it clears nothing that is printed after it was asked to."""
        stdout = sys.__stdout__
        if event["ev"] == "clear" and stdout is not None and stdout.line_buffering:
            _flush()
            self._wire.send_in_order(event, (1, 2))
        else:
            self._wire.send(event)

    def _start(self, order: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        self._set_environ(order)
        self._commands.spares.drop()  # nothing waits for a next program beside what may reach it
        return self._processes.start(order, descriptors)

    def _start_aide(self, order: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        self._commands.spares.drop()
        return start_aide(self._children, self._workdir, self._set_limits, descriptors)

    def _run(self, order: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        self._set_environ(order)
        mode = order["mode"]
        if mode != "command":
            self._commands.spares.drop()
        if mode in _RUNS_HERE and not order.get("last") and not self._is_copied:
            self._pristine.begin_cell(order["limits"].get("process_count"), self._socket)
        if chance.is_armed():  # scripts are to have it, too
            self._pristine.end()
        if mode == "script" and self._pristine.is_needed:
            answer = self._run_script(order, descriptors, self._pristine)
            if answer is not None:
                return answer
        self._prepare(order)
        if not order.get("tools"):
            return self._run_in_mode(order, descriptors)
        self._attach_tools(descriptors.pop())
        try:
            return self._run_in_mode(order, descriptors)
        finally:
            self._tools.detach()

    def _prepare(self, order: dict[str, Any]) -> None:
        """Set the limits and the streams of the process that runs the program."""
        limits = order["limits"]
        self._set_limits(limits["cpu_s"], limits["private_bytes"])
        machine.limit(limits.get("memory_bytes"))
        orphans.allow(limits.get("process_count"))
        for stream in (sys.__stdout__, sys.__stderr__):
            if stream is not None and stream.line_buffering != order["stream"]:
                stream.reconfigure(line_buffering=order["stream"])

    def _set_environ(self, order: dict[str, Any]) -> None:
        """Take the variables of the sandbox with its first order; what programs set later stays."""
        if not self._has_environ and "set_environ" in order:
            self._has_environ = True
            self._commands.spares.drop()
            self._residents.drop()
            os.environ.update(order["set_environ"])

    def _run_in_mode(self, order: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """Run with the variables of this run, if it has any, and put back what they replaced."""
        own = order.get("environ", {}) if order["mode"] in _IN_THIS_ENVIRONMENT else {}
        before = {name: os.environ.get(name) for name in own}
        os.environ.update(own)
        try:
            return self._modes[order["mode"]](order, descriptors)
        finally:
            for name, value in before.items():
                if value is not None:
                    os.environ[name] = value
                else:
                    os.environ.pop(name, None)

    def _attach_tools(self, descriptor: int) -> None:
        """Let the program call the host's tools, by the module `tools`, for as long as this run takes."""
        if self._tools is None:
            from .python.bridge.module import Bridge

            self._tools = Bridge(self._cells.workdir)
        self._tools.attach(descriptor)

    def _run_cell(self, order: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        self._cells.environment_packages = order.get("packages", {})
        tracing = _tracing(order, descriptors)
        if self._sql is not None:
            self._sql.variables.settle()
        watch, process = self._watch(order), getpid()
        try:
            if order["mode"] == "call":
                result = self._cells.run_call(order, tracing)
            else:
                self._cells.enter(order.get("namespace"))
                result = self._cells.run(order["source"], tracing)
        finally:
            observed = [] if watch is None else watch.end()
            if tracing is not None:
                tracing.release()
        if getpid() != process:  # the program forked, and this is the child: no worker, whatever it has of one
            _end_child(result)
        return {**result, "core": tracing.core if tracing else "", "observed": observed}

    def _run_sql(self, order: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        if self._sql is None:
            from .sql.runner import SqlRunner

            self._sql = SqlRunner(lambda: self._cells.namespace, self._cells.workdir, is_copied=self._is_copied)
        result: dict[str, Any] = self._sql.run(order, descriptors)
        return result

    def _run_script(
        self, order: dict[str, Any], descriptors: list[int], pristine: Pristine | None = None
    ) -> dict[str, Any] | None:
        """Run a script in a child of the pristine process or of this one; None if the pristine process is gone."""
        self._core, self._observed = "", []
        file = ProgramFile(order)
        reader, writer = os.pipe2(os.O_CLOEXEC)
        self._children.close_memory(True)
        # An interrupt that comes now is kept until both know what to do with it: here to hand it on, there to raise.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            try:
                if pristine is not None:
                    started = pristine.start(order, [*descriptors, writer])
                else:
                    started = self._fork_script(order, descriptors, reader, writer)
            finally:
                os.close(writer)
            if started is None:
                return None
            child, waiter = started
            if self._tools is not None:
                self._tools.leave()
            self._children.expect(child)
            with Interrupts(self._children) as interrupts:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
                error = self._relay(reader, child, waiter, interrupts)
                ended = self._children.end_of(child) if pristine is None else pristine.end_of(child)
            self._children.end_leftovers(child)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            os.close(reader)
            self._children.close_memory(False)
            file.remove()
        return {**outcome(ended, error), "core": self._core, "observed": self._observed}

    def _run_script_here(self, order: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        answer = self._run_script(order, descriptors)
        assert answer is not None
        return answer

    def _fork_script(self, order: dict[str, Any], descriptors: list[int], reader: int, writer: int) -> tuple[int, int]:
        """Start a script from this process, which has run no cell, or could not be copied before the first one."""
        tracing = _tracing(order, descriptors)
        child = os.fork()
        if child == 0:
            self._children.close_memory(False)
            os.close(reader)
            self._be_script(order, descriptors, writer, tracing)
        if tracing is not None:
            tracing.release()
        return child, os.pidfd_open(child)

    def _begin_script(self, order: dict[str, Any], descriptors: list[int]) -> NoReturn:
        """Be a script that the pristine process has started."""
        *descriptors, writer = descriptors
        self._prepare(order)
        if order.get("tools"):
            self._attach_tools(descriptors.pop())
        self._be_script(order, descriptors, writer, _tracing(order, descriptors))

    def _run_calls(self, order: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        self._cells.environment_packages = order.get("packages", {})
        process = getpid()

        def tell(number: int, answer: Mapping[str, Any]) -> Any:
            """Tell the host what came of a call, and hear what the next one is, None for no other."""
            if getpid() != process:
                _end_child({"ok": True})
            self._wire.send({"ev": "answer", "number": number, **answer})
            if number + 1 == order["count"]:
                return None
            return self._wire.receive()[0]["case"]

        result: dict[str, Any] = self._cells.run_calls(order, tell)
        return result

    def _watch(self, order: dict[str, Any]) -> Watch | None:
        """Watch pandas, if that is asked for and the program can come to it: by an import, or by a variable."""
        if not order.get("checks"):
            return None
        names = self._cells.namespace if order["mode"] == "cell" else ()
        own = [name for name in names if name[:1] != "_" and name not in ("In", "Out")]
        if not own and profile_for(order["source"]) == "bare":
            return None
        watch = Watch()
        watch.begin()
        return watch

    def _be_script(
        self, order: dict[str, Any], descriptors: list[int], writer: int, tracing: Tracing | None
    ) -> NoReturn:
        code = 1
        self._cells.environment_packages = order.get("packages", {})
        os.environ.update(order.get("environ", {}))
        try:
            os.setpgid(0, 0)
            if descriptors:
                os.dup2(descriptors[0], 0)
                _close(descriptors[0])
            self._socket.close()
            self._pristine.leave()
            if self._apart >= 0:
                os.close(self._apart)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._cells.after_fork()
            if self._tools is not None:
                self._tools.adopt()
            channel = os.fdopen(writer, "wb", buffering=0, closefd=False)
            run_script(
                order["source"],
                filename=order["filename"],
                file=order["file"],
                argv=order["argv"],
                report=lambda item: _write_line(channel, item),
                tracing=tracing,
                watch=self._watch(order),
            )
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else 1
        finally:
            _exit(code)

    def _relay(self, reader: int, child: int, waiter: int, interrupts: Interrupts) -> dict[str, Any] | None:
        """Pass on what the script reports until it has ended, and interrupts to it."""
        error, rest = None, b""
        watched = [reader, interrupts.descriptor, waiter]
        try:
            while watched:
                ready = select.select(watched, [], [], None if waiter in watched else 0)[0]
                if interrupts.descriptor in ready and interrupts.came():
                    interrupt(child)
                if reader in ready:
                    data = os.read(reader, 1 << 20)
                    if not data:
                        watched.remove(reader)
                    *lines, rest = (rest + data).split(b"\n")
                    for line in lines:
                        item = json.loads(line)
                        if "error" in item:
                            error = item["error"]
                        elif "core" in item:
                            self._core = str(item["core"])[:20]
                        elif "observed" in item:
                            self._observed = checked_observed(item["observed"])
                        elif item["ev"] in ("display", "clear"):  # a script must not say how it ended
                            self._wire.send(item)
                elif waiter not in watched:
                    break
                if waiter in ready:
                    watched = [reader] if reader in watched else []
        except (ValueError, TypeError, KeyError, RecursionError):
            pass
        finally:
            os.close(waiter)
        return checked_failure(error)


def _end_child(result: Mapping[str, Any]) -> NoReturn:
    """End a process that a cell forked where its cell ends, as a script's would."""
    error = result.get("error") or {}
    if error and error.get("type") != "SystemExit":
        os.write(2, str(error.get("traceback", "")).encode("utf-8", "backslashreplace"))
    _flush()
    text = str(error.get("message", ""))
    _exit(0 if result["ok"] else int(text) & 0xFF if error.get("type") == "SystemExit" and text.isdecimal() else 1)


def _tracing(order: dict[str, Any], descriptors: list[int]) -> Tracing | None:
    return Tracing(descriptors.pop(), order["trace"]) if order.get("trace") else None


def _write_line(channel: Any, item: Mapping[str, Any]) -> None:
    data = memoryview(json.dumps(item, default=repr).encode("utf-8", "surrogatepass") + b"\n")
    while data:
        data = data[channel.write(data) :]


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue


def _close(descriptor: int) -> None:
    try:
        os.close(descriptor)
    except OSError:
        pass
