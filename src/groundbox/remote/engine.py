"""The engine that runs already: a server of this user's own, on a unix socket, that commands and programs share.

A call that starts a template of its own pays a second for what takes milliseconds in an engine that is warm. So the
first call starts one, in the background, for all that follow: `groundbox engine serve`, the application of
`groundbox serve` over a socket that its user alone can connect to.

There is one for each installation: the socket's name holds a digest of the version, the package's folder, the
interpreter and GROUNDBOX_HOME, so that no client meets an engine of other code. An engine whose own source has changed
since it was started takes its name away, so that the next client starts another, and ends when its sandboxes have; an
environment's update needs nothing, since each sandbox asks for the current version. After ten idle minutes it ends.

What speaks to it here is blocking and imports little, because the command line has 50 ms for all that it imports.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from groundbox.errors import EngineUnavailable
from groundbox.remote import place

IDLE_S: Final = 600.0
_START_S: Final = 60.0
_POLL_S: Final = 0.01
_READ: Final = 256 * 1024
_LOG_BYTES: Final = 1024 * 1024
_NEEDS: Final = ("uvicorn", "starlette", "h11", "prometheus_client")
_REMEDY: Final = "The extra `environments` of groundbox brings what is missing, and so does `server`"


def wanted(say: Callable[[str], None] | None = None) -> bool:
    """Return True if calls may use an engine: they are not told to do without, and its packages are installed.

    Args:
        say: Called with a sentence if packages are missing.
    """
    if place.is_off():
        return False
    lacking = missing_packages()
    if lacking and say is not None:
        say(f"{_not_installed(lacking)}, so that each call starts cold. {_REMEDY}")
    return not lacking


def missing_packages() -> list[str]:
    """Return the packages that the engine needs and that are not installed."""
    import importlib.util

    return [name for name in _NEEDS if importlib.util.find_spec(name) is None]


def _not_installed(lacking: Sequence[str]) -> str:
    return f"the engine in the background needs {' and '.join(lacking)}, not installed here"


def socket_path() -> str:
    """Where the engine of this installation listens.

    Raises:
        EngineUnavailable: There is no folder for it that is this user's alone.
    """
    return _path_of("sock")


def log_path() -> str:
    """Where it writes what it has to say."""
    return _path_of("log")


def _path_of(kind: str) -> str:
    try:
        return place.path_of(kind)
    except place.NoPlace as problem:
        raise EngineUnavailable(str(problem)) from None


def is_running(path: str) -> bool:
    """Whether an engine listens there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asked:
        try:
            asked.connect(path)
        except OSError:
            return False
    return True


def ensure_running() -> str:
    """The socket of an engine that listens, started if there is none.

    Of several callers at once, one starts it and the others wait.

    Raises:
        EngineUnavailable: It does not start; the message has the end of its log.
    """
    path = socket_path()
    if is_running(path):
        return path
    if lacking := missing_packages():
        raise EngineUnavailable(f"{_not_installed(lacking)}. {_REMEDY}")
    import fcntl

    with open(_opened(f"{path}.lock"), "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_running(path):
            return path
        _start(path)
    return path


def _opened(path: str) -> int:
    """A file of the engine's folder, to be appended to, and made if it is not there; never what a link leads to."""
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise EngineUnavailable(f"'{path}' cannot be opened: {error.strerror}") from None


def _start(path: str) -> None:
    import subprocess

    log = _opened(log_path())
    try:
        if os.fstat(log).st_size > _LOG_BYTES:
            os.ftruncate(log, 0)
        # Nothing of this call stays with it: not its terminal, folder, descriptors or signals.
        process = subprocess.Popen(
            [sys.executable, "-m", "groundbox", "engine", "serve"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,
        )
    finally:
        os.close(log)
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        if is_running(path):
            process.returncode = 0  # it outlives this process, which is not to warn of that
            return
        if process.poll() is not None:
            break
        time.sleep(_POLL_S)
    raise EngineUnavailable(f"it did not start; '{log_path()}' ends with: {_tail(log_path())}")


class Link:
    """One connection to an engine, for one request after another, in one thread."""

    def __init__(self, path: str) -> None:
        """Raises EngineUnavailable where nobody listens."""
        try:
            import h11
        except ImportError:
            raise EngineUnavailable(f"{_not_installed(['h11'])}. {_REMEDY}") from None
        self._h11 = h11
        self._state = h11.Connection(our_role=h11.CLIENT)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(path)
        except OSError as error:
            self._socket.close()
            raise EngineUnavailable(f"'{path}' cannot be reached: {error.strerror}") from None

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up, which ends the run that goes on."""
        self._socket.close()

    def ask(
        self, method: str, path: str, body: bytes | Mapping[str, Any] = b"", *, query: str = ""
    ) -> tuple[int, bytes]:
        """One request: status and body of its answer.

        Args:
            path: Quoted.
            body: Bytes, or what is sent as JSON.
        """
        status, parts = self.stream(method, path, body, query=query)
        return status, b"".join(parts)

    def stream(
        self, method: str, path: str, body: bytes | Mapping[str, Any] = b"", *, query: str = ""
    ) -> tuple[int, Iterator[bytes]]:
        """One request: status, and the parts of its answer as they come, which have to be read to the end.

        Raises:
            EngineUnavailable: It hung up.
        """
        h11 = self._h11
        if self._state.their_state is h11.DONE:
            self._state.start_next_cycle()
        data = body if isinstance(body, bytes) else json.dumps(body).encode("ascii")
        target = path + (f"?{query}" if query else "")
        headers = [("Host", "localhost"), ("Content-Length", str(len(data))), ("Content-Type", "application/json")]
        sent = self._state.send(h11.Request(method=method, target=target, headers=headers))
        if data:
            sent += self._state.send(h11.Data(data=data))
        sent += self._state.send(h11.EndOfMessage())
        try:
            self._socket.sendall(sent)
            answer = self._next()
        except (OSError, h11.ProtocolError) as error:
            raise EngineUnavailable(f"it hung up: {error}") from None
        if not isinstance(answer, h11.Response):
            raise EngineUnavailable("it hung up before it answered")
        return answer.status_code, self._parts()

    def _parts(self) -> Iterator[bytes]:
        h11 = self._h11
        while True:
            try:
                event = self._next()
            except (OSError, h11.ProtocolError) as error:
                raise EngineUnavailable(f"it hung up in the middle of an answer: {error}") from None
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return
            else:
                raise EngineUnavailable("it hung up in the middle of an answer")

    def _next(self) -> Any:
        while True:
            event = self._state.next_event()
            if event is not self._h11.NEED_DATA:
                return event
            self._state.receive_data(self._socket.recv(_READ))


def events(parts: Iterator[bytes]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Kinds and data of server-sent events."""
    rest = b""
    for part in parts:
        *blocks, rest = (rest + part).split(b"\n\n")
        for block in blocks:
            if not block.startswith(b":"):
                first, _, second = block.partition(b"\n")
                yield first.removeprefix(b"event: ").decode("ascii"), json.loads(second.removeprefix(b"data: "))


def _tail(path: str) -> str:
    try:
        with open(path, "rb") as log:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - 1000))
            return log.read().decode("utf-8", "replace").strip() or "nothing"
    except OSError as error:
        return f"nothing that can be read ({error.strerror})"
