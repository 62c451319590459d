"""The pristine process: a copy of the worker that has run no cell, from which scripts are forked later.

A cell changes its process for good: the precision of decimals, the options of pandas, a patched function, a module
that was imported before its file changed. A script is a process of its own and must see none of that. A new
interpreter would take a hundred times as long as a fork. So the worker copies itself before its first cell, and the
copy waits until a script is ordered. Of the worker it takes what a child takes in any operating system: the
environment, the current folder and the mask of modes.

To copy takes longer than a small cell: the kernel copies the page tables, and then each page to which the worker
writes again. So a worker that is likely to run cells copies itself before it says that it is ready (serve.py).

The kernel sends no signal when the copy ends (clone(2) without SIGCHLD), so that neither `wait` of a cell nor that of
the worker sees it. It is the parent of the scripts, and reports how they ended; if it is killed, the kernel makes them
children of the worker.

A cell can find the socket to the copy. The copy does nothing for it that the cell could not do itself: it forks scripts
in the same sandbox, and closes the connection to the host.
"""

import ctypes
import fcntl
import os
import signal
import socket
from collections.abc import Callable
from os import _exit  # by this name, because programs set `os._exit` to what they like
from typing import Any, NoReturn

from .children import Children, Exit, exit_of
from .wire import HostGone, Wire, framed

_CLONE = {"x86_64": 56, "aarch64": 220}.get(os.uname().machine, -1)
_SYSCALL = ctypes.PyDLL(None).syscall
"""Keeps the lock of the interpreter, because the copy has no other thread to hand it on."""
_WCLONE = -0x80000000
"""0x80000000 as a C int."""
_LEAST_PROCESSES = 32
"""With fewer, a sandbox that may have only so many processes needs each of them for its programs."""

RunScript = Callable[[dict[str, Any], list[int]], NoReturn]
"""Runs the script of an order in a process that was forked for it."""


class Pristine:
    """That of one worker."""

    def __init__(self, children: Children, run_script: RunScript) -> None:
        self._children = children
        self._run_script = run_script
        self._pid = 0
        self._wire: Wire | None = None
        self._socket: socket.socket | None = None
        self._is_late = False
        self._environ: dict[bytes, bytes] = {}

    @property
    def is_needed(self) -> bool:
        """Whether scripts are to be started from it: a cell has run, and the copy is there."""
        return self._is_late and self._socket is not None

    def begin_cell(self, process_count: int | None, host: socket.socket) -> None:
        """Before a cell: copy this process if none has run in it. End the copy if there may be too few processes."""
        if process_count is not None and process_count < _LEAST_PROCESSES:
            self.end()
        elif not self._is_late and self._socket is None:
            self.copy(host)
        self._is_late = True

    def copy(self, host: socket.socket, prepare: Callable[[], None] | None = None) -> None:
        """Copy this process, in which no cell has run.

        Args:
            host: The connection to the host, which the copy closes. The socket to the copy gets a higher number.
            prepare: Called in the copy first.
        """
        if _CLONE < 0:
            return
        self._environ = dict(os.environb)
        low, theirs = socket.socketpair()
        ours = socket.socket(low.family, low.type, fileno=fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, host.fileno() + 1))
        low.close()
        pid = _SYSCALL(_CLONE, 0, 0, 0, 0, 0)
        if pid == 0:
            ours.close()
            host.close()
            self._serve(theirs, prepare)
        theirs.close()
        if pid < 0:
            ours.close()
            return
        self._pid, self._socket, self._wire = pid, ours, Wire(ours)
        self._children.spare_unseen(pid)

    def start(self, order: dict[str, Any], descriptors: list[int]) -> tuple[int, int] | None:
        """Start a script; return its process id and a descriptor for it, or None if the pristine process is gone.

        The pristine process reaps the script, perhaps before it could be opened here.
        """
        assert self._wire is not None
        message: dict[str, Any] = {"order": order, "folder": _current_folder(), "mask": _mask()}
        if (environ := dict(os.environb)) != self._environ:
            self._environ = environ
            message["environ"] = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in environ.items()]
        try:
            self._wire.send_framed(framed(message), descriptors)
            message, opened = self._wire.receive()
        except (OSError, HostGone):
            self.end()
            return None
        return (message["pid"], opened[0]) if opened else None

    def end_of(self, child: int) -> Exit:
        """Wait until the script that was started has ended, and return how."""
        assert self._wire is not None
        try:
            return exit_of(int(self._wire.receive()[0]["status"]))
        except (OSError, HostGone):
            self.end()
        try:
            return self._children.end_of(child)
        except ChildProcessError:
            return Exit(None, signal.SIGKILL)

    def leave(self) -> None:
        """In a script that this process has forked: close the socket, which is the worker's."""
        if self._socket is not None:
            self._socket.close()

    def end(self) -> None:
        """End the pristine process; later scripts are forked from the worker itself."""
        sock, self._socket, self._wire = self._socket, None, None
        if sock is None:
            return
        sock.close()
        self._children.spare_unseen(self._pid, spared=False)
        try:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, _WCLONE)
        except OSError:
            return

    def _serve(self, sock: socket.socket, prepare: Callable[[], None] | None) -> NoReturn:
        try:
            if prepare is not None:
                prepare()
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            self._children.close_memory(True)
            wire = Wire(sock)
            while True:
                message, descriptors = wire.receive()
                self._start(message, descriptors, wire)
        except (OSError, HostGone):
            pass
        finally:
            _exit(0)

    def _start(self, message: dict[str, Any], descriptors: list[int], wire: Wire) -> None:
        if "environ" in message:
            os.environb.clear()
            os.environb.update((name.encode("latin-1"), value.encode("latin-1")) for name, value in message["environ"])
        try:
            child = os.fork()
        except OSError:
            child = -1
        if child == 0:
            try:
                self._children.close_memory(False)
                wire.close()
                os.umask(message["mask"])
                if message["folder"] is not None:
                    os.chdir(message["folder"])
                self._run_script(message["order"], descriptors)
            finally:
                _exit(1)
        for descriptor in descriptors:
            os.close(descriptor)
        if child < 0:
            wire.send({"ev": "started", "pid": child})
            return
        waiter = os.pidfd_open(child)
        wire.send({"ev": "started", "pid": child}, [waiter])
        os.close(waiter)
        wire.send({"ev": "ended", "status": os.waitpid(child, 0)[1]})


def _current_folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:
        return None


def _mask() -> int:
    mask = os.umask(0o77)
    os.umask(mask)
    return mask
