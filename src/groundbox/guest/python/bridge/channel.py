"""The guest's end of the tool bridge, for one run.

Any thread may call, and any event loop. There is no thread of our own, because a process with threads is a worse one to
fork: of those who wait, one reads the socket and hands answers to the others. When it has its own, another one
takes over; an event loop that waits is told by the socket itself.

The host believes nothing that comes from here. What is checked here is checked so that an honest program gets a
sentence instead of a violation.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import struct
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

PROTOCOL = "gbx-bridge/1"
MOST_FRAME_BYTES = 1 << 20
MOST_FRAME_VALUES = 1900
"""What the host takes in one, without what a frame has around its arguments."""
_LENGTH = struct.Struct("<I")
_READ = 1 << 18
_MOST_DESCRIPTORS = 8


class Closed(Exception):
    """There is nobody to call: the run is over, or this is another process than the one that runs the program."""


class _Asked:
    """One message that has no answer yet."""

    def __init__(self, identity: int, future: asyncio.Future[Any] | None) -> None:
        self.identity = identity
        self.future = future
        self.answer: dict[str, Any] | None = None

    def resolve(self, answer: dict[str, Any]) -> None:
        self.answer = answer
        if self.future is not None:
            with contextlib.suppress(RuntimeError):  # its loop is closed
                self.future.get_loop().call_soon_threadsafe(_set, self.future, answer)


def _set(future: asyncio.Future[Any], answer: dict[str, Any]) -> None:
    if not future.done():
        future.set_result(answer)


class Channel:
    """Asks the host, and waits for what it says."""

    def __init__(self, descriptor: int) -> None:
        self._socket: socket.socket | None = socket.socket(fileno=descriptor)
        self._pid = os.getpid()
        self._sending = threading.Lock()
        self._half_sent = False
        self._turn = threading.Condition()
        self._somebody_reads = False
        self._half_read = False
        self._buffer = bytearray()
        self._descriptors: list[int] = []
        self._asked: dict[int, _Asked] = {}
        self._watched: dict[Any, int] = {}
        self._last_id = 0

    def adopted(self) -> Channel:
        """The same connection, for a process that was forked to go on with it; locks are new."""
        connection, self._socket = self._socket, None
        assert connection is not None
        return Channel(connection.detach())

    def leave(self) -> None:
        """Let go of the connection without ending it: another process has it."""
        connection, self._socket = self._socket, None
        if connection is not None:
            connection.close()
        self._give_up()

    def close(self) -> None:
        """The run is over. Whoever still waits is told."""
        connection, self._socket = self._socket, None
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)  # wakes a thread that reads
            connection.close()
        self._give_up()

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """The answer to a message."""
        asked = self._send(message, None)
        try:
            self._wait(asked)
        except BaseException:
            self._take_back(asked)
            raise
        return _answer_of(asked.answer)

    async def ask_later(self, message: dict[str, Any]) -> dict[str, Any]:
        """The same, for an event loop."""
        import asyncio

        loop = asyncio.get_running_loop()
        asked = self._send(message, loop.create_future())
        assert asked.future is not None
        self._watch(loop)
        try:
            answer = await asked.future
        except BaseException:
            self._take_back(asked)
            raise
        finally:
            self._unwatch(loop)
        return _answer_of(answer)

    def greet(self) -> dict[str, Any]:
        """The manifest."""
        return self.ask({"op": "hello", "protocol": PROTOCOL})

    def _send(self, message: dict[str, Any], future: asyncio.Future[Any] | None) -> _Asked:
        connection = self._connection()
        with self._sending:
            if self._half_sent:
                raise Closed("an interrupt came while the program called a tool; the next run can call again")
            if message["op"] == "hello":
                asked = _Asked(0, future)
            else:
                self._last_id += 1
                asked = _Asked(self._last_id, future)
                message = {**message, "id": asked.identity}
            body = encoded(message)
            self._asked[asked.identity] = asked
            self._half_sent = True
            try:
                connection.sendall(_LENGTH.pack(len(body)) + body)
            except OSError:
                self._asked.pop(asked.identity, None)
                raise Closed("the host does not listen any more") from None
            self._half_sent = False
        return asked

    def _connection(self) -> socket.socket:
        if os.getpid() != self._pid:
            raise Closed("tools can be called from the process that runs the program only, not from its children")
        if self._socket is None:
            raise Closed("tools can be called while a program runs, not after it")
        return self._socket

    def _wait(self, asked: _Asked) -> None:
        while True:
            with self._turn:
                while self._somebody_reads and asked.answer is None:
                    self._turn.wait()
                if asked.answer is not None:
                    return
                self._somebody_reads = True
            try:
                while asked.answer is None:
                    self._read(wait=True)
            finally:
                with self._turn:
                    self._somebody_reads = False
                    self._turn.notify_all()

    def _read(self, *, wait: bool) -> None:
        """Take what has come. Only whoever has set `_somebody_reads` may do so."""
        connection = self._socket
        if connection is None or self._half_read:
            self._give_up()
            return
        if wait:
            poll = select.poll()
            poll.register(connection, select.POLLIN)
            poll.poll()
        self._half_read = True
        try:
            data, descriptors, _, _ = socket.recv_fds(connection, _READ, _MOST_DESCRIPTORS, socket.MSG_DONTWAIT)
        except BlockingIOError:
            self._half_read = False
            return
        except OSError:
            data, descriptors = b"", []
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        self._descriptors += descriptors
        self._buffer += data
        if not data:
            self._give_up()
        else:
            self._cut()
        self._half_read = False

    def _cut(self) -> None:
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            end = _LENGTH.size + length
            if len(self._buffer) < end:
                return
            message = json.loads(self._buffer[_LENGTH.size : end])
            del self._buffer[:end]
            if "large" in message:
                message = json.loads(_contents(self._descriptors.pop(0)))
            asked = self._asked.pop(message.get("id", 0), None)
            if asked is not None:
                asked.resolve(message)
        with self._turn:
            self._turn.notify_all()

    def _give_up(self) -> None:
        gone = {"op": "gone"}
        while self._asked:
            self._asked.popitem()[1].resolve(gone)
        with self._turn:
            self._turn.notify_all()

    def _take_back(self, asked: _Asked) -> None:
        """Nobody waits for this answer any more; let the host know."""
        if self._asked.pop(asked.identity, None) is None or asked.identity == 0:
            return
        with contextlib.suppress(Closed, OSError), self._sending:
            if not self._half_sent:
                body = encoded({"op": "cancel", "id": asked.identity})
                self._connection().sendall(_LENGTH.pack(len(body)) + body)

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        self._watched[loop] = self._watched.get(loop, 0) + 1
        if self._watched[loop] == 1 and self._socket is not None:
            loop.add_reader(self._socket.fileno(), self._on_readable)

    def _unwatch(self, loop: asyncio.AbstractEventLoop) -> None:
        self._watched[loop] -= 1
        if not self._watched[loop]:
            del self._watched[loop]
            if self._socket is not None:
                loop.remove_reader(self._socket.fileno())

    def _on_readable(self) -> None:
        with self._turn:
            if self._somebody_reads:
                return  # and will hand over what is ours
            self._somebody_reads = True
        try:
            self._read(wait=False)
        finally:
            with self._turn:
                self._somebody_reads = False
                self._turn.notify_all()


def encoded(message: dict[str, Any]) -> bytes:
    """A frame's body."""
    return json.dumps(message, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode("ascii")


def _contents(descriptor: int) -> bytes:
    with open(descriptor, "rb") as file:
        file.seek(0)
        return file.read()


def _answer_of(answer: dict[str, Any] | None) -> dict[str, Any]:
    if answer is None or answer["op"] == "gone":
        raise Closed("the run ended before the tool answered")
    return answer
