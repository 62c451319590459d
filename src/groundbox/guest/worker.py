"""The worker's loop: takes orders from the host, one at a time, and reports what happened.

Everything it says is a claim, since a cell runs in this very process and can say the same.
The host takes facts (how the process ended, what it used, which files are there) from the kernel.

Between runs SIGINT is ignored; the template set it so.
A cell runs here, in process 1 of the sandbox, so that its variables live on. A script runs in a child:
it has a `__main__` of its own, ordinary signals and a real exit status, and when it ends, what it left
running is ended too.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from typing import Any

from .files import Files
from .python.scripts import run_script
from .python.tracing import Tracing
from .wire import HostGone, Wire

_PRCTL = ctypes.CDLL(None).prctl
_PR_SET_DUMPABLE = 4

LimitSetter = Callable[[float | None, int | None], None]


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
    ) -> None:
        """Args:
        alone: Whether this process is the first of a pid namespace, so that it may end all others.
        guarded: Whether its memory is closed to a script while that runs.
        """
        self._wire = Wire(sock)
        self._socket = sock
        self._cells = cells
        self._files = Files(workdir)
        self._set_limits = set_limits
        self._alone = alone
        self._guarded = guarded
        self._core = ""
        cells.emit = self._wire.send
        cells.workdir = workdir

    def ready(self, descriptors: list[int]) -> None:
        """Tell the host that the jail stands; hand over the workdir's descriptor and the proxy's socket."""
        self._wire.send({"ev": "ready"}, descriptors)

    def serve(self) -> None:
        """Obey until the host is gone."""
        orders: dict[str, Callable[[dict[str, Any], list[int]], dict[str, Any]]] = {
            "run": self._run,
            "put": self._files.put,
            "mkdir": self._files.mkdir,
            "remove": self._files.remove,
        }
        while True:
            try:
                order, descriptors = self._wire.receive()
            except HostGone:
                return
            answer = orders[order["op"]](order, descriptors)
            for descriptor in descriptors:
                _close(descriptor)
            _flush()
            self._wire.send({"ev": "done", "id": order["id"], **answer})

    def _run(self, order: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        limits = order["limits"]
        self._set_limits(limits["cpu_s"], limits["memory_bytes"])
        for stream in (sys.__stdout__, sys.__stderr__):
            if stream is not None and stream.line_buffering != order["stream"]:
                stream.reconfigure(line_buffering=order["stream"])
        self._cells.environment_packages = order.get("packages", {})
        tracing = Tracing(descriptors.pop(), order["trace"]) if order.get("trace") else None
        if order["mode"] == "script":
            return self._run_script(order, descriptors, tracing)
        try:
            if order["mode"] == "call":
                result = self._cells.run_call(order, tracing)
            else:
                result = self._cells.run(order["source"], tracing)
        finally:
            if tracing is not None:
                tracing.release()
        return {**result, "core": tracing.core if tracing else ""}

    def _run_script(self, order: dict[str, Any], descriptors: list[int], tracing: Tracing | None) -> dict[str, Any]:
        self._core = ""
        reader, writer = os.pipe2(os.O_CLOEXEC)
        self._close_memory(True)
        child = os.fork()
        if child == 0:
            self._close_memory(False)
            os.close(reader)
            self._be_script(order, descriptors, writer, tracing)
        os.close(writer)
        before = signal.signal(signal.SIGINT, lambda number, frame: _interrupt(child))
        if tracing is not None:
            tracing.release()
        error = self._relay(reader, child)
        os.close(reader)
        status = self._wait_for(child)
        signal.signal(signal.SIGINT, before)
        self._end_leftovers(child)
        self._close_memory(False)
        code, ended_by = (None, os.WTERMSIG(status)) if os.WIFSIGNALED(status) else (os.WEXITSTATUS(status), None)
        return {
            "ok": code == 0,
            "value": None,
            "error": None if code == 0 else error,
            "exit_code": code,
            "exit_signal": ended_by,
            "interrupted": False,
            "core": self._core,
        }

    def _be_script(self, order: dict[str, Any], descriptors: list[int], writer: int, tracing: Tracing | None) -> None:
        code = 1
        try:
            os.setpgid(0, 0)
            if descriptors:
                os.dup2(descriptors[0], 0)
                _close(descriptors[0])
            self._socket.close()
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._cells.after_fork()
            channel = os.fdopen(writer, "wb", buffering=0, closefd=False)
            run_script(
                order["source"],
                filename=order["filename"],
                argv=order["argv"],
                report=lambda item: _write_line(channel, item),
                tracing=tracing,
            )
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else 1
        finally:
            os._exit(code)

    def _relay(self, reader: int, child: int) -> dict[str, Any] | None:
        """Pass on what the script reports until every copy of the pipe is closed or the script has ended."""
        error, rest = None, b""
        waiter = os.pidfd_open(child)
        try:
            ended = False
            while True:
                watched = [reader] if ended else [reader, waiter]
                ready = select.select(watched, [], [], 0 if ended else None)[0]
                if reader in ready:
                    data = os.read(reader, 1 << 20)
                    if not data:
                        break
                    *lines, rest = (rest + data).split(b"\n")
                    for line in lines:
                        item = json.loads(line)
                        if "error" in item:
                            error = item["error"]
                        elif "core" in item:
                            self._core = str(item["core"])[:20]
                        elif item["ev"] in ("display", "clear"):  # a script must not say how it ended
                            self._wire.send(item)
                elif ended:
                    break
                ended = ended or waiter in ready
        except (ValueError, TypeError, KeyError, RecursionError):
            pass
        finally:
            os.close(waiter)
        return _checked_failure(error)

    def _close_memory(self, closed: bool) -> None:
        """Keep processes of the same user out of this one's memory and descriptors (PR_SET_DUMPABLE).

        Process 1 reports how a script ended; the script must not reach into it.
        """
        if self._guarded:
            _PRCTL(_PR_SET_DUMPABLE, int(not closed), 0, 0, 0)

    def _wait_for(self, child: int) -> int:
        while True:
            pid, status = os.waitpid(-1 if self._alone else child, 0)
            if pid == child:
                return status

    def _end_leftovers(self, child: int) -> None:
        try:
            if self._alone:
                os.kill(-1, signal.SIGKILL)
            else:
                os.killpg(child, signal.SIGKILL)
        except ProcessLookupError:
            return
        while True:
            try:
                if os.waitpid(-1, 0 if self._alone else os.WNOHANG)[0] == 0:
                    return
            except ChildProcessError:
                return


def _checked_failure(told: object) -> dict[str, Any] | None:
    """What a script said about its exception, or None when that is no such thing."""
    if not isinstance(told, dict) or not isinstance(told.get("type"), str):
        return None
    texts = {name: told[name] for name in ("type", "message", "traceback") if isinstance(told.get(name), str)}
    line = told.get("line")
    names, hints = told.get("locals"), told.get("hints")
    return {
        "message": "",
        **texts,
        "line": line if type(line) is int else None,
        "locals": {str(k): str(v) for k, v in names.items()} if isinstance(names, dict) else {},
        "hints": [str(hint) for hint in hints] if isinstance(hints, list) else [],
    }


def _write_line(channel: Any, item: Mapping[str, Any]) -> None:
    data = memoryview(json.dumps(item, default=repr).encode("utf-8", "surrogatepass") + b"\n")
    while data:
        data = data[channel.write(data) :]


def _interrupt(child: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGINT)


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
