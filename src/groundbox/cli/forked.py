"""A process that has imported what `groundbox run` needs, and forks for each call.

`python -m groundbox.cli.forked PATH` listens at a path. Importing the command line costs a call more than the engine
needs for its program. So the engine in the background keeps this process beside it. A call (`groundbox.cli.entry`)
connects to a socket in the engine's folder and hands over its streams and working folder as descriptors, its arguments,
environment, umask and ignored signals; the fork takes them on, tells that it begins, and does what the call would have
done. From then on each byte that comes is a signal to be taken, and the end of the connection is the end of the caller,
with which the work ends at once. How the fork ended is told to the caller by its parent, as the kernel tells it
(wait(2)).

It has one thread, ends when its standard input does, which is the engine's to hold, and when a source that it has
loaded has changed.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import gc
import importlib
import io
import marshal
import os
import selectors
import signal
import socket
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final, NoReturn

from groundbox.cli import entry
from groundbox.cli.main import main
from groundbox.sandbox import languages

_NEEDED: Final = (
    "groundbox.cli.run",
    "groundbox.cli.warm",
    "groundbox.sandbox.arguments",
    "groundbox.trace.record.reading",
    "h11",
    "urllib.parse",
)
_PACKAGE: Final = str(Path(__file__).resolve().parents[1]) + os.sep
_REQUEST_S: Final = 10.0
_MOST_REQUEST_BYTES: Final = 64 * 1024 * 1024
_DESCRIPTORS: Final = 4
_THREADS: Final = 2
"""Of a fork that is done: its first one, and the one that listens to the caller."""


class _Parent:
    """The process itself: connections in, forks out."""

    def __init__(self, path: str) -> None:
        self._path = path
        for name in _NEEDED:
            importlib.import_module(name)
        languages.listed()
        if threading.active_count() > 1:
            raise SystemExit("groundbox: a language's package has started a thread, so that nothing can be forked here")
        self._sources = {each: _stamp(each) for each in _loaded()}
        self._callers: dict[int, tuple[int, socket.socket]] = {}
        self._waiting = selectors.DefaultSelector()
        self._listening: socket.socket | None = _bound(path)
        self._inode = os.stat(path).st_ino
        self._waiting.register(self._listening, selectors.EVENT_READ)
        self._waiting.register(0, selectors.EVENT_READ)
        gc.collect()
        gc.freeze()  # so that collections in forks copy no pages

    def serve(self) -> None:
        """Fork for callers until there is nobody to do it for."""
        while self._listening is not None or self._callers:
            for key, _ in self._waiting.select():
                if key.fileobj == 0:
                    self._withdraw()
                elif key.fileobj is self._listening:
                    self._take()
                elif key.fd in self._callers:
                    self._reap(key.fd)

    def _take(self) -> None:
        assert self._listening is not None
        try:
            caller, _ = self._listening.accept()
        except OSError:
            return
        if any(_stamp(path) != stamp for path, stamp in self._sources.items()):
            caller.close()  # it does the work itself, with the code that there is now
            self._withdraw()
            return
        pid = os.fork()
        if pid == 0:
            self._waiting.close()
            self._listening.close()
            for descriptor, (_, other) in self._callers.items():
                os.close(descriptor)
                other.close()
            _Fork(caller).carry_out()
        descriptor = os.pidfd_open(pid)
        self._callers[descriptor] = pid, caller
        self._waiting.register(descriptor, selectors.EVENT_READ)

    def _reap(self, descriptor: int) -> None:
        """Tell a caller how its fork ended."""
        pid, caller = self._callers.pop(descriptor)
        self._waiting.unregister(descriptor)
        os.close(descriptor)
        _, status = os.waitpid(pid, 0)
        with contextlib.suppress(OSError):
            caller.send(status.to_bytes(4, "little"))
        caller.close()

    def _withdraw(self) -> None:
        """Take no more callers. The name goes, unless another process has it by now."""
        if self._listening is None:
            return
        self._waiting.unregister(self._listening)
        self._waiting.unregister(0)
        self._listening.close()
        self._listening = None
        with contextlib.suppress(OSError):
            if os.stat(self._path).st_ino == self._inode:
                os.unlink(self._path)


class _Fork:
    """One call, in a process of its own."""

    def __init__(self, caller: socket.socket) -> None:
        self._caller = caller
        self._atexit = atexit._ncallbacks()

    def carry_out(self) -> NoReturn:
        """Do what the caller asks, and exit."""
        request = self._request()
        if request is None:
            os._exit(0)
        self._become(*request)
        try:
            self._caller.send(entry.STARTED)  # fails where the caller gives no chance any more
        except OSError:
            os._exit(0)
        threading.Thread(target=self._listen, args=(threading.get_ident(),), daemon=True).start()
        try:
            main()
        finally:
            self._leave_at_once(sys.exc_info()[1])

    def _request(self) -> tuple[list[int], tuple[Any, ...]] | None:
        """Descriptors and facts; None where this process is not fit for them."""
        caller = self._caller
        caller.settimeout(_REQUEST_S)
        try:
            _, user, _ = struct.unpack("3i", caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            if user != os.geteuid():
                return None
            head, ancillary, *_ = caller.recvmsg(4, socket.CMSG_SPACE(4 * _DESCRIPTORS), socket.MSG_CMSG_CLOEXEC)
            descriptors = array.array("i")
            for level, kind, data in ancillary:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    descriptors.frombytes(data)
            size = int.from_bytes(head, "little")
            if len(head) != 4 or len(descriptors) != _DESCRIPTORS or size > _MOST_REQUEST_BYTES:
                return None
            asked = bytearray()
            while len(asked) < size:
                part = caller.recv(size - len(asked))
                if not part:
                    return None
                asked += part
            facts = marshal.loads(asked)
        except (OSError, ValueError, EOFError, TypeError):
            return None
        caller.settimeout(None)
        return (list(descriptors), facts) if facts[-1] == entry.start() else None

    def _become(self, descriptors: list[int], facts: tuple[Any, ...]) -> None:
        argv, environ, umask, ignored, _ = facts
        *streams, here = descriptors
        for target, descriptor in enumerate(streams):
            os.dup2(descriptor, target)
            os.close(descriptor)
        os.fchdir(here)
        os.close(here)
        os.umask(umask)
        os.environ.clear()
        os.environ.update(environ)
        time.tzset()
        for number in ignored:
            signal.signal(number, signal.SIG_IGN)
        sys.argv[:] = argv
        sys.stdin = sys.__stdin__ = _stream(sys.stdin, 0, "r")  # type: ignore[misc]
        sys.stdout = sys.__stdout__ = _stream(sys.stdout, 1, "w")  # type: ignore[misc]
        sys.stderr = sys.__stderr__ = _stream(sys.stderr, 2, "w")  # type: ignore[misc]

    def _listen(self, thread: int) -> None:
        """Take signals that the caller got, in the first thread; end with the caller."""
        while True:
            try:
                numbers = self._caller.recv(64)
            except OSError:
                numbers = b""
            if not numbers:
                os._exit(128 + signal.SIGHUP)
            for number in numbers:
                signal.pthread_kill(thread, number)

    def _leave_at_once(self, error: BaseException | None) -> None:
        """Exit with what the interpreter would exit with, without taking it down, where nothing is left to do.

        A sandbox of this process, which is there where the engine could not do it, has threads and functions for the
        exit; these are left to the interpreter.
        """
        if not isinstance(error, SystemExit) or not isinstance(error.code, int | None):
            return
        if threading.active_count() > _THREADS or atexit._ncallbacks() != self._atexit:
            return
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (OSError, ValueError):
            return
        os._exit(error.code or 0)


def _stream(like: Any, descriptor: int, mode: str) -> Any:
    """A standard stream as the interpreter makes them (`create_stdio` of CPython)."""
    binary = io.open(descriptor, mode + "b", closefd=False)  # noqa: SIM115, UP020  lives as long as the process
    is_line_buffered = descriptor == 2 or os.isatty(descriptor)
    return io.TextIOWrapper(binary, like.encoding, like.errors, "\n", line_buffering=is_line_buffered)


def _bound(path: str) -> socket.socket:
    """A socket that only this user can connect to, from its first moment on."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    own = f"{path}.{os.getpid()}"
    former = os.umask(0o177)
    try:
        listening.bind(own)
    finally:
        os.umask(former)
    listening.listen(128)
    os.rename(own, path)
    return listening


def _loaded() -> list[str]:
    paths = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    return [path for path in paths if isinstance(path, str) and path.startswith(_PACKAGE)]


def _stamp(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


if __name__ == "__main__":
    _Parent(sys.argv[1]).serve()
