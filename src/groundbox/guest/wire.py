"""The guest's end of its socket: length-prefixed JSON frames.

A frame is four bytes of length, little-endian, and that many bytes of UTF-8 JSON.
Descriptors travel with the first byte of the frame that speaks of them.
"""

import json
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

_LENGTH = struct.Struct("<I")
_as_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True, default=repr).encode
_of_json = json.JSONDecoder().raw_decode
_MOST_DESCRIPTORS = 4
_MOST_AT_ONCE = 1 << 20
_DESCRIPTOR = struct.Struct("i")
_ROOM_FOR_DESCRIPTORS = socket.CMSG_LEN(_MOST_DESCRIPTORS * _DESCRIPTOR.size)

MOST_FRAME_BYTES = 16 * 1024 * 1024
MOST_VALUES = 200_000
"""What the host takes."""
_MARKS = (b",", b"[", b"{")


_READ_S = 0.1
_LOOK_S = 0.0005


class HostGone(Exception):
    """The host closed the socket: there is nobody left to work for."""


class Wire:
    """Blocking frames over one stream socket. Not for use from two threads at once."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    def send(self, frame: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        """Send one frame whole."""
        body = _encode(frame)
        if len(body) > MOST_FRAME_BYTES:
            body = _encode(_too_large(frame, f"{len(body)} bytes"))
        elif has_more_values(body, MOST_VALUES):
            body = _encode(_too_large(frame, f"more than {MOST_VALUES} values"))
        self.send_framed(_LENGTH.pack(len(body)) + body, descriptors)

    def send_framed(self, frame: bytes, descriptors: Sequence[int] = ()) -> None:
        """Send what `framed` gave."""
        data = memoryview(frame)
        if descriptors:
            packed = b"".join(map(_DESCRIPTOR.pack, descriptors))
            data = data[self._socket.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, packed)]) :]
        if data:
            self._socket.sendall(data)

    def receive(self) -> tuple[dict[str, Any], list[int]]:
        """The next frame and the descriptors that came with it, which the caller owns.

        Raises:
            HostGone: The socket is closed.
        """
        head, ancillary, _, _ = self._socket.recvmsg(_LENGTH.size, _ROOM_FOR_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
        if not head:
            raise HostGone
        descriptors = _received(ancillary) if ancillary else []
        if len(head) < _LENGTH.size:
            head += self._exactly(_LENGTH.size - len(head))
        (length,) = _LENGTH.unpack(head)
        body = self._socket.recv(min(length, _MOST_AT_ONCE))
        if len(body) < length:
            body += self._exactly(length - len(body))
        return _of_json(body.decode())[0], descriptors

    def send_in_order(self, frame: dict[str, Any], streams: Sequence[int]) -> None:
        """Send one frame so that a host which reads as things come hears it between what is printed before and after.

        Output goes another way than frames do. A host that is busy is waited for a tenth of a second each time; then
        the order may be lost, and nothing else is.

        Args:
            streams: Descriptors of the pipes that output goes into.
        """
        for stream in streams:
            _wait_until_read(stream, "FIONREAD")
        self.send(frame)
        _wait_until_read(self._socket.fileno(), "TIOCOUTQ")

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _exactly(self, count: int) -> bytes:
        parts = []
        while count:
            part = self._socket.recv(min(count, _MOST_AT_ONCE))
            if not part:
                raise HostGone
            parts.append(part)
            count -= len(part)
        return b"".join(parts)


def framed(frame: dict[str, Any]) -> bytes:
    """A small frame, as it is sent."""
    body = _encode(frame)
    return _LENGTH.pack(len(body)) + body


def _received(ancillary: Sequence[tuple[int, int, bytes]]) -> list[int]:
    """The descriptors that came along."""
    return [
        descriptor
        for level, kind, data in ancillary
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS)
        for (descriptor,) in _DESCRIPTOR.iter_unpack(data[: len(data) // _DESCRIPTOR.size * _DESCRIPTOR.size])
    ]


def _wait_until_read(descriptor: int, unread: str) -> None:
    """Wait until the other end has read all, by the kernel's count of what it has not (pipe(7), unix(7))."""
    import fcntl
    import termios

    until = time.monotonic() + _READ_S
    try:
        while any(fcntl.ioctl(descriptor, getattr(termios, unread), bytes(4))) and time.monotonic() < until:
            time.sleep(_LOOK_S)
    except OSError:
        return  # the program has put something else there


def _encode(frame: dict[str, Any]) -> bytes:
    body = _as_json(frame)
    if "\\ud" in body:
        body = _as_json(_as_text(json.loads(body)))
    return body.encode("ascii")


def _as_text(value: Any) -> Any:
    """Texts with halves of surrogate pairs, which the host cannot read, written as escapes."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, list):
        return [_as_text(item) for item in value]
    if isinstance(value, dict):
        return {_as_text(name): _as_text(item) for name, item in value.items()}
    return value


def has_more_values(body: bytes, most: int) -> bool:
    """Whether some JSON holds more items, members, and what holds them, than `most`."""
    if sum(map(body.count, _MARKS)) <= most:
        return False
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    return sum(map(b"".join(plain.split(b'"')[::2]).count, _MARKS)) > most


def _too_large(frame: dict[str, Any], size: str) -> dict[str, Any]:
    """The frame without what makes it too large, and with a word about it."""
    note = {"text/plain": f"too large to show: {size}; write it to a file instead"}
    if frame["ev"] == "answer":
        return {"ev": "answer", "number": frame["number"], "lost": "too-large"}
    if frame["ev"] == "display":
        return {"ev": "display", "data": note}
    kept = {name: frame.get(name) for name in ("ev", "id", "ok", "exit_code", "exit_signal", "interrupted")}
    return {**{name: item for name, item in kept.items() if item is not None}, "value": note}
