"""Residents: processes of other languages that stay, and keep the state of their cells.

The process is started at its language's first cell, or ahead of need, and spoken to over a socket pair, its
descriptor 3: one line of JSON each way. It is asked `{"id", "source", "filename"}` and answers with any number of
`{"ev": "display", "data"}` and one `{"ev": "done", "id", "ok", "value", "error"}`. What it prints it writes to 1 and 2.

Everything it says is a claim of the program that runs in it, and checked for its size and its types.
An interrupt is handed on as SIGINT to its process group; if there is no answer within `PATIENCE_S`, it is ended, since
the host would soon end the whole sandbox. When it has ended, its state is lost, the answer says so, and the next cell
starts a new one; the sandbox goes on.
"""

import json
import os
import select
import signal
import socket
from collections.abc import Callable
from typing import Any

from .children import Children, Exit, Interrupts, outcome
from .claims import checked_failure
from .command import Send, reset_streams
from .wire import MOST_FRAME_BYTES

SOCKET = 3
_READ = 1 << 18
_MOST_DEPTH = 56


class Residents:
    """Those of one worker, by name."""

    def __init__(self, children: Children, send: Send, set_limits: Callable[[float | None, int | None], None]) -> None:
        self._children = children
        self._send = send
        self._set_limits = set_limits
        self._living: dict[str, _Resident] = {}

    def start_ahead(self, order: dict[str, Any]) -> None:
        """Start the one that `order` describes; if that fails, the first cell will say so."""
        try:
            self._start(order)
        except OSError:
            return

    def names(self) -> list[str]:
        """Languages whose process is there."""
        return list(self._living)

    def drop(self) -> None:
        """End those that wait for a first cell, because they have another environment than it is to have."""
        for name in self.names():
            self._end(name)

    def run(self, order: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        """Run one cell; what `done` says.

        Of the order: `source`, `filename`, and `resident` with `name`, `argv` and `environ`.
        """
        name = order["resident"]["name"]
        before_lost = name in self._living and self._living[name].has_ended()
        if before_lost:
            self._end(name)
        try:
            resident = self._living.get(name) or self._start(order["resident"], order["limits"])
        except OSError as error:
            message = f"the language's process could not be started: {error}"
            return {**outcome(Exit(1, None)), "error": {"type": type(error).__name__, "message": message}}
        self._children.close_memory(True)
        try:
            answer = resident.run(order, self._send)
        finally:
            self._children.close_memory(False)
            reset_streams()
        if answer is None:
            answer = self._post_mortem(name, resident)
        return {**answer, "state_lost": before_lost or "state_lost" in answer}

    def _start(self, order: dict[str, Any], limits: dict[str, Any] | None = None) -> "_Resident":
        """Start it without limits of its own: they are the sandbox's, for as long as it lives."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._set_limits(None, None if limits is None else limits["private_bytes"])
            try:
                environ = {**os.environ, **order.get("environ", {})}
                nothing = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
                try:
                    pid = self._children.start(order["argv"], environ, {0: nothing, SOCKET: theirs.fileno()})
                finally:
                    os.close(nothing)
            except OSError:
                ours.close()
                raise
            finally:
                if limits is not None:
                    self._set_limits(limits["cpu_s"], limits["private_bytes"])
        self._children.keep(pid)
        self._living[order["name"]] = resident = _Resident(pid, ours, self._children)
        return resident

    def _end(self, name: str) -> Exit:
        resident = self._living.pop(name)
        ended = self._children.forget(resident.pid) or Exit(1, None)
        resident.close()  # after its end, or it could still leave by itself
        return ended

    def _post_mortem(self, name: str, resident: "_Resident") -> dict[str, Any]:
        ended, complaint = self._end(name), resident.complaint()
        if complaint is not None and ended.code == 0:
            ended = Exit(1, None)
        answer = outcome(ended, complaint)
        return {**answer, "interrupted": resident.was_interrupted, "state_lost": True}


class _Resident:
    def __init__(self, pid: int, sock: socket.socket, children: Children) -> None:
        self.pid = pid
        self._children = children
        self.was_interrupted = False
        self._socket = sock
        self._socket.setblocking(False)
        self._rest = b""
        self._violation = ""

    def run(self, order: dict[str, Any], send: Send) -> dict[str, Any] | None:
        """Ask, pass on what it shows, and give its answer; None when it has ended or is to be ended."""
        self._drop_stale()
        question = {"id": order["id"], "source": order["source"], "filename": order["filename"]}
        with Interrupts(self._children) as interrupts:
            answer = self._talk(memoryview(json.dumps(question).encode("ascii") + b"\n"), order["id"], interrupts, send)
        self.was_interrupted = interrupts.first_at is not None
        if answer is not None:
            answer["interrupted"] = self.was_interrupted and not answer["ok"]
        return answer

    def _talk(self, left: memoryview, identity: int, interrupts: Interrupts, send: Send) -> dict[str, Any] | None:
        poll = select.poll()
        poll.register(interrupts.descriptor, select.POLLIN)
        while True:
            poll.register(self._socket, select.POLLIN | (select.POLLOUT if left else 0))
            events = dict(poll.poll(interrupts.left_ms()))
            if interrupts.came():
                self._interrupt()
            if interrupts.ignored():
                return None
            happened = events.get(self._socket.fileno(), 0)
            try:
                if left and happened & select.POLLOUT:
                    left = left[self._socket.send(left) :]
                if happened & ~select.POLLOUT:
                    for line in self._lines():
                        if (answer := self._take(line, identity, send)) is not None:
                            return answer
            except BlockingIOError:
                continue
            except (OSError, _Violation) as error:
                self._violation = str(error) if isinstance(error, _Violation) else ""
                return None

    def has_ended(self) -> bool:
        """Whether its socket is closed, which it is when the process has ended."""
        try:
            return self._socket.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def complaint(self) -> dict[str, Any] | None:
        """What was wrong with what it said."""
        if not self._violation:
            return None
        return {"type": "ProtocolViolation", "message": self._violation}

    def close(self) -> None:
        """Let go of the socket."""
        self._socket.close()

    def _interrupt(self) -> None:
        try:
            os.killpg(self.pid, signal.SIGINT)
        except ProcessLookupError:
            return

    def _drop_stale(self) -> None:
        """What it said between two cells answers nothing."""
        self._rest = b""
        for _ in range(MOST_FRAME_BYTES // _READ):
            try:
                if not self._socket.recv(_READ):
                    return
            except OSError:
                return

    def _lines(self) -> list[bytes]:
        data = self._socket.recv(_READ)
        if not data:
            raise ConnectionResetError
        if len(self._rest) + len(data) > MOST_FRAME_BYTES:
            raise _Violation(f"it sent more than {MOST_FRAME_BYTES} bytes at once")
        if b"\n" not in data:
            self._rest += data
            return []
        *lines, self._rest = (self._rest + data).split(b"\n")
        return lines

    def _take(self, line: bytes, identity: int, send: Send) -> dict[str, Any] | None:
        """The answer, when `line` is it. A display is passed on."""
        try:
            said = json.loads(line.decode("utf-8", "replace"), parse_constant=_refuse, parse_float=_finite)
            if b"\\ud" in line.lower():  # perhaps half of a pair, which is no text
                said = json.loads(json.dumps(said, ensure_ascii=False).encode("utf-8", "replace"))
        except (ValueError, RecursionError):
            raise _Violation("it sent what is no JSON") from None
        if not isinstance(said, dict):
            raise _Violation("it sent what is no object")
        if _is_deep(said):
            raise _Violation(f"it sent what is nested deeper than {_MOST_DEPTH}")
        if said.get("ev") == "display" and _is_bundle(said.get("data")):
            send({"ev": "display", "data": said["data"]})
        if said.get("ev") != "done" or said.get("id") != identity:
            return None
        ok = said.get("ok") is True
        value = said.get("value")
        return {
            "ok": ok,
            "value": value if _is_bundle(value) else None,
            "error": None if ok else checked_failure(said.get("error")),
        }


class _Violation(Exception):
    pass


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _finite(number: str) -> float:
    value = float(number)
    if value - value != 0:
        raise ValueError(number)
    return value


def _is_deep(value: object) -> bool:
    """Whether it is nested deeper than the host takes it from the worker, with what the worker puts around it."""
    level: list[object] = [value]
    for _ in range(_MOST_DEPTH):
        level = [
            item
            for each in level
            if isinstance(each, list | dict)
            for item in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True


def _is_bundle(told: object) -> bool:
    return isinstance(told, dict) and all(isinstance(name, str) and "/" in name for name in told)
