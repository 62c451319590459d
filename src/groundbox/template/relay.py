"""Many descriptors over one pair of byte streams: what crosses where descriptors cannot be handed on.

A template inside gVisor has another kernel than its host, so that no socket or pipe of the host can be given to it.
Two relays stand in between, one on each side, and everything that host and template would say to each other goes
through one pipe in and one out, as frames:

- CONTROL: the messages of host and template themselves, and what the relays tell each other.
- DATA and END: bytes of one *channel*, and that no more will come. A channel is a socket or a pipe on either side,
  made anew there; its number is the host's choice.
- CREDIT: so many bytes of a channel have found their way out, and as many more may be sent. Without this one guest that
  prints without end would fill the relay's memory, or stand in the way of all others.
- FILE and HANDED: descriptors that go along with the next DATA of a channel. Sealed files are copied.

What a guest prints has to be there before the host hears that the run is over, although both go different ways: a
channel *follows* others, and what comes on it waits until all that was in those before has been sent.
"""

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import struct
import termios
from collections.abc import Callable, Sequence
from typing import Any, Final

CONTROL, DATA, END, CREDIT, FILE, HANDED = range(6)
_HEAD: Final = struct.Struct("<BII")
_COUNT: Final = struct.Struct("<I")
WINDOW_BYTES: Final = 1 << 18
_READ: Final = 1 << 16
_FILE_PIECE: Final = 1 << 20
_MOST_FRAME: Final = 1 << 26
_MOST_INCOMING: Final = 2 * _MOST_FRAME
"""Bytes that have come and were not acted on; what credits allow all channels together is far less."""
_MOST_HANDED: Final = 16


class Broken(Exception):
    """The other relay is gone, or what it sends is no frame."""


class Channel:
    """One socket or pipe, and what is under way on it."""

    def __init__(self, number: int, reads: int, writes: int, after: Sequence["Channel"]) -> None:
        """Takes ownership of the descriptors; -1 where nothing is read, or written."""
        self.number, self.reads, self.writes, self.after = number, reads, writes, after
        self.credit = WINDOW_BYTES
        self.pending = bytearray()
        self.handed: list[int] = []
        self.held = b""
        self.held_handed: list[int] = []
        self.held_until: dict[Channel, int] = {}
        self.sent_bytes = 0
        self.has_ended = False
        self.is_to_end = False

    def waiting_bytes(self) -> int:
        """What the kernel holds for us to read."""
        if self.reads < 0 or self.has_ended:
            return 0
        try:
            return int.from_bytes(fcntl.ioctl(self.reads, termios.FIONREAD, bytes(4)), "little")
        except OSError:
            return 0


class Mux:
    """One end. `step` waits for something to happen and deals with it.

    Attributes:
        takes_descriptors: Whether sockets here are held by somebody who may hand descriptors over. A guest may not.
    """

    takes_descriptors = False

    def __init__(self, reader: int, writer: int, on_control: Callable[[dict[str, Any]], None]) -> None:
        self._reader, self._writer = reader, writer
        self._on_control = on_control
        self._poll = select.poll()
        self._poll.register(reader, select.POLLIN)
        self._watched: dict[int, tuple[Channel, int]] = {}
        self._others: dict[int, Callable[[], None]] = {}
        self.channels: dict[int, Channel] = {}
        self._incoming = bytearray()
        self._files: dict[int, int] = {}
        self.before_data: Callable[[Channel], None] = lambda channel: None

    def watch(self, descriptor: int, call: Callable[[], None]) -> None:
        """Call this when the descriptor can be read."""
        self._others[descriptor] = call
        self._poll.register(descriptor, select.POLLIN)

    def unwatch(self, descriptor: int) -> None:
        """Undo `watch`."""
        if self._others.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def open(self, number: int, *, reads: int = -1, writes: int = -1, after: Sequence[Channel] = ()) -> Channel:
        """A new channel over these descriptors, which become the relay's and do not block."""
        for descriptor in {reads, writes} - {-1}:
            os.set_blocking(descriptor, False)
        channel = self.channels[number] = Channel(number, reads, writes, after)
        self._rewatch(channel)
        return channel

    def close(self, channel: Channel) -> None:
        """Forget a channel. What could not be written yet is lost."""
        if self.channels.get(channel.number) is not channel:
            return
        del self.channels[channel.number]
        for descriptor in {channel.reads, channel.writes} - {-1}:
            self._forget(descriptor)
            os.close(descriptor)
        for descriptor in (*channel.handed, *channel.held_handed):
            os.close(descriptor)
        channel.reads = channel.writes = -1

    def tell(self, message: dict[str, Any]) -> None:
        """Send a message to the other relay."""
        self._send(CONTROL, 0, json.dumps(message).encode())

    def step(self, timeout_ms: int | None = None) -> None:
        """Wait, once.

        Raises:
            Broken: There is no other end any more.
        """
        for descriptor, event in self._poll.poll(timeout_ms):
            if descriptor == self._reader:
                self._receive()
            elif descriptor in self._others:
                self._others[descriptor]()
            elif descriptor in self._watched:
                channel = self._watched[descriptor][0]
                if event & (select.POLLOUT | select.POLLERR):
                    self.flush(channel)
                if event & (select.POLLIN | select.POLLHUP | select.POLLERR) and descriptor == channel.reads:
                    self._pump(channel)

    def pump_all(self, channel: Channel) -> None:
        """Send on what is there to be read now, as far as the other end lets us."""
        for each in (*channel.after, channel):
            while not each.has_ended and each.reads >= 0 and each.credit and not each.held and self._pump(each):
                pass

    def flush(self, channel: Channel) -> None:
        """Write what is pending, as far as it is taken."""
        if channel.writes < 0 or any(each.pending for each in channel.after):
            return
        taken = 0
        try:
            while channel.pending:
                if channel.handed:
                    count = socket.socket(fileno=os.dup(channel.writes))
                    with count as sock:
                        done = socket.send_fds(sock, [channel.pending[:_READ]], channel.handed)
                    for descriptor in channel.handed:
                        os.close(descriptor)
                    channel.handed = []
                else:
                    done = os.write(channel.writes, channel.pending[:_READ])
                del channel.pending[:done]
                taken += done
        except BlockingIOError:
            pass
        except OSError:
            taken += len(channel.pending)  # nobody reads it any more
            channel.pending.clear()
        if taken:
            self._send(CREDIT, channel.number, _COUNT.pack(taken))
        if channel.is_to_end and not channel.pending:
            self._end_writing(channel)
        self._rewatch(channel)
        for other in list(self.channels.values()):
            if channel in other.after and other.pending:
                self.flush(other)

    def _end_writing(self, channel: Channel) -> None:
        channel.is_to_end = False
        if channel.reads == channel.writes:
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(channel.writes)) as sock:
                sock.shutdown(socket.SHUT_WR)
            return
        self._forget(channel.writes)
        os.close(channel.writes)
        channel.writes = -1

    def _pump(self, channel: Channel) -> bool:
        """Read once and send that on; whether there may be more."""
        if channel.held or channel.has_ended or not channel.credit:
            self._rewatch(channel)
            return False
        data = b""
        handed: list[int] = []
        try:
            if channel.reads == channel.writes and self.takes_descriptors:
                with socket.socket(fileno=os.dup(channel.reads)) as sock:
                    data, handed, _, _ = socket.recv_fds(sock, min(_READ, channel.credit), _MOST_HANDED)
            else:
                data = os.read(channel.reads, min(_READ, channel.credit))
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            channel.has_ended = True
            self._send(END, channel.number, b"")
            self._rewatch(channel)
            return False
        channel.credit -= len(data)
        waiting = {each: each.sent_bytes + each.waiting_bytes() for each in channel.after}
        channel.held, channel.held_handed, channel.held_until = data, handed, waiting
        self._release(channel)
        for other in list(self.channels.values()):
            if other.held and channel in other.after:
                self._release(other)
        self._rewatch(channel)
        return not channel.held

    def _release(self, channel: Channel) -> None:
        """Send what is held, once what was in the channels that it follows has been sent."""
        for each, until in channel.held_until.items():
            while each.sent_bytes < until and not each.has_ended and each.credit:
                before = each.sent_bytes
                self._pump(each)
                if not channel.held:
                    return  # it was released from in there
                if each.sent_bytes == before:
                    break
            if each.sent_bytes < until and not each.has_ended and each.reads >= 0 and not each.credit:
                return
        data, channel.held, channel.held_until = channel.held, b"", {}
        handed, channel.held_handed = channel.held_handed, []
        channel.sent_bytes += len(data)
        self.before_data(channel)
        if handed:
            self._hand(channel, handed)
        self._send(DATA, channel.number, data)
        self._rewatch(channel)

    def _hand(self, channel: Channel, descriptors: list[int]) -> None:
        """Tell of descriptors that go along with the next data."""
        raise NotImplementedError

    def send_file(self, descriptor: int) -> int:
        """Copy a file to the other side; its size."""
        size = offset = 0
        while piece := os.pread(descriptor, _FILE_PIECE, offset):
            self._send(FILE, 0, piece)
            offset += len(piece)
            size += len(piece)
        return size

    def _took_handed(self, channel: Channel, told: list[dict[str, Any]]) -> None:
        raise Broken("descriptors come from the host only")

    def _send(self, kind: int, number: int, data: bytes) -> None:
        """Send a whole frame. The other relay never waits for us while it reads, so that this cannot stand still."""
        view = memoryview(_HEAD.pack(kind, number, len(data)) + data)
        while view:
            try:
                view = view[os.write(self._writer, view) :]
            except BlockingIOError:
                self._wait()
                self._take_in()
            except OSError as error:
                raise Broken(str(error)) from error

    def _wait(self) -> None:
        """Until something has come or can be sent; by poll, for select knows no descriptor above 1,023."""
        waiting = select.poll()
        waiting.register(self._reader, select.POLLIN)
        waiting.register(self._writer, select.POLLOUT)
        waiting.poll()

    def _take_in(self) -> None:
        """Read what has come, without acting on it."""
        try:
            data = os.read(self._reader, 1 << 18)
        except BlockingIOError:
            return
        except OSError as error:
            raise Broken(str(error)) from error
        if not data:
            raise Broken("the other end is closed")
        self._incoming += data
        if len(self._incoming) > _MOST_INCOMING:  # it sends and does not read
            raise Broken("more was sent than can be under way")

    def _receive(self) -> None:
        self._take_in()
        while len(self._incoming) >= _HEAD.size:
            kind, number, length = _HEAD.unpack_from(self._incoming)
            if length > _MOST_FRAME or kind > HANDED:
                raise Broken("what came is no frame")
            if len(self._incoming) < _HEAD.size + length:
                return
            data = bytes(self._incoming[_HEAD.size : _HEAD.size + length])
            del self._incoming[: _HEAD.size + length]
            self._take(kind, number, data)

    def _take(self, kind: int, number: int, data: bytes) -> None:
        if kind == CONTROL:
            self._on_control(json.loads(data))
            return
        if kind == FILE:
            self._took_file(data)
            return
        channel = self.channels.get(number)
        if channel is None:
            return
        if kind == DATA:
            channel.pending += data
            if len(channel.pending) > WINDOW_BYTES:
                raise Broken("more was sent than was allowed")
            self.flush(channel)
        elif kind == END:
            channel.is_to_end = True
            self.flush(channel)
        elif kind == CREDIT:
            channel.credit += _COUNT.unpack(data)[0]
            self._rewatch(channel)
            if channel.credit and channel.reads >= 0:
                for other in list(self.channels.values()):
                    if other.held and channel in other.after:
                        self._release(other)
        else:
            self._took_handed(channel, json.loads(data))

    def _took_file(self, data: bytes) -> None:
        raise Broken("files come from the host only")

    def _forget(self, descriptor: int) -> None:
        if self._watched.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def _rewatch(self, channel: Channel) -> None:
        """Wait for what this channel can do next, and for nothing else: who is ready without end costs all our time."""
        wanted: dict[int, int] = {}
        if channel.reads >= 0 and not channel.has_ended and channel.credit and not channel.held:
            wanted[channel.reads] = select.POLLIN
        if channel.writes >= 0 and channel.pending and not any(each.pending for each in channel.after):
            wanted[channel.writes] = wanted.get(channel.writes, 0) | select.POLLOUT
        for descriptor in {channel.reads, channel.writes} - {-1}:
            events = wanted.get(descriptor, 0)
            known = self._watched.get(descriptor)
            if not events:
                self._forget(descriptor)
            elif known is None or known != (channel, events):
                self._watched[descriptor] = (channel, events)
                self._poll.register(descriptor, events)


class Inside(Mux):
    """The relay inside, process 1 there: makes the sockets and pipes for the template and its workers."""

    def __init__(self, reader: int, writer: int, template: socket.socket, groups: "Groups") -> None:
        super().__init__(reader, writer, self._obey)
        self._template = template
        self._groups = groups
        self._pids: dict[int, int] = {}
        self._of: dict[int, list[Channel]] = {}
        self._arriving = bytearray()
        self.before_data = self._measure
        self.watch(template.fileno(), self._hear)

    def _obey(self, message: dict[str, Any]) -> None:
        operation = message["relay"]
        if operation == "start":
            self._template.send(json.dumps(message["order"]).encode())
        elif operation == "order":
            self._pass_on(message["order"], message["channels"])
        elif operation == "signal":
            if (pid := self._pids.get(message["id"])) is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, message["number"])
        elif operation == "limit":
            self._groups.limit(message["id"], message["process_count"], message["memory_bytes"])
        elif operation == "ping":
            self.tell({"relay": "pong"})

    def _pass_on(self, order: dict[str, Any], numbers: Sequence[int]) -> None:
        ours, theirs = socket.socketpair()
        out_reader, out_writer = os.pipe2(os.O_CLOEXEC)
        err_reader, err_writer = os.pipe2(os.O_CLOEXEC)
        for descriptor in (out_writer, err_writer):
            with contextlib.suppress(OSError):
                os.set_blocking(descriptor, True)
        streams = [self.open(numbers[1], reads=out_reader), self.open(numbers[2], reads=err_reader)]
        sock = ours.detach()
        control = self.open(numbers[0], reads=sock, writes=sock, after=streams)
        self._of[order["id"]] = [*streams, control]
        self._groups.make(order["id"])
        socket.send_fds(self._template, [json.dumps(order).encode()], [theirs.fileno(), out_writer, err_writer])
        theirs.close()
        os.close(out_writer)
        os.close(err_writer)

    def _hear(self) -> None:
        """A message of the template. Descriptors that come along mean nothing outside."""
        data, descriptors, _, _ = socket.recv_fds(self._template, 1 << 16, 4)
        for descriptor in descriptors:
            os.close(descriptor)
        if not data:
            raise Broken("the template has ended")
        message = json.loads(data)
        event, identity = message["ev"], message.get("id")
        if event == "spawned":
            self._pids[identity] = message["pid"]
            self._groups.join(identity, message["pid"])
        elif event in ("exit", "refused") and identity in self._of:
            self._pids.pop(identity, None)
            *streams, control = self._of.pop(identity)
            self.pump_all(control)
            self.tell({"relay": "use", **self._groups.use(identity)})
            for channel in (*streams, control):
                self.close(channel)
            self._groups.remove(identity)
        self.tell({"relay": "event", "message": message})

    def _measure(self, channel: Channel) -> None:
        """Figures go before what a worker says: the host looks at them when it hears that a run is over."""
        for identity, channels in self._of.items():
            if channels[-1] is channel:
                self.tell({"relay": "use", **self._groups.use(identity)})

    def look(self) -> bool:
        """Tell what workers use that are lent, and end those over their limit of memory; whether there are any."""
        lent = {identity: pid for identity, pid in self._pids.items() if self._groups.is_bounded(identity)}
        for identity, pid in lent.items():
            use = self._groups.use(identity)
            self.tell({"relay": "use", **use})
            if self._groups.is_over(identity):
                self._groups.note_kill(identity)
                self.tell({"relay": "use", **self._groups.use(identity)})
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        return bool(lent)

    def _took_file(self, data: bytes) -> None:
        self._arriving += data

    def _took_handed(self, channel: Channel, told: list[dict[str, Any]]) -> None:
        for each in told:
            if each["kind"] == "file":
                piece = self._arriving[: each["size"]]
                del self._arriving[: each["size"]]
                channel.handed.append(_file_of(piece))
            elif each["kind"] == "socket":
                ours, theirs = socket.socketpair()
                sock = ours.detach()
                self.open(each["channel"], reads=sock, writes=sock)
                channel.handed.append(theirs.detach())
            else:
                reader, writer = os.pipe2(os.O_CLOEXEC)
                if each["kind"] == "reader":
                    self.open(each["channel"], writes=writer)
                    channel.handed.append(reader)
                else:
                    self.open(each["channel"], reads=reader)
                    channel.handed.append(writer)


def _file_of(data: bytes | bytearray) -> int:
    descriptor = os.memfd_create("groundbox-input", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, 0xF)
    return descriptor


class Groups:
    """Control groups of the kernel inside, one for each worker: what it uses, and how many processes it may have.

    That kernel's controller of memory counts wrongly, so that memory is added up process by process.
    """

    def __init__(self, folders: dict[str, str]) -> None:
        self._folders = folders
        self._most_bytes: dict[int, int | None] = {}
        self._held: dict[int, int] = {}
        self._peaks: dict[int, int] = {}
        self._kills: dict[int, int] = {}
        self._page = os.sysconf("SC_PAGE_SIZE")

    def make(self, identity: int) -> None:
        """Groups for one more worker."""
        for folder in self._folders.values():
            os.mkdir(f"{folder}/{identity}")

    def join(self, identity: int, pid: int) -> None:
        """Put a worker into its groups, before it has heard of any order."""
        for folder in self._folders.values():
            _bound(f"{folder}/{identity}/cgroup.procs", str(pid))
        self._held[identity] = self._resident_bytes(pid)

    def limit(self, identity: int, process_count: int | None, memory_bytes: int | None) -> None:
        """Bound a worker."""
        most = "max" if process_count is None else str(process_count)
        _bound(f"{self._folders['pids']}/{identity}/pids.max", most)
        self._most_bytes[identity] = memory_bytes

    def use(self, identity: int) -> dict[str, Any]:
        """Figures of one worker."""
        held = 0
        base = self._held.get(identity, 0)
        for pid in self._members(identity):
            held += max(0, self._resident_bytes(pid) - base)
        self._peaks[identity] = max(held, self._peaks.get(identity, 0))
        return {
            "id": identity,
            "cpu_s": self._number("cpuacct", identity, "cpuacct.usage") / 1e9,
            "memory_bytes": held,
            "peak_memory_bytes": self._peaks[identity],
            "process_count": self._number("pids", identity, "pids.current"),
            "kills": self._kills.get(identity, 0),
        }

    def is_bounded(self, identity: int) -> bool:
        """Whether a worker has been given bounds, as it is when it is lent."""
        return identity in self._most_bytes

    def is_over(self, identity: int) -> bool:
        """Whether a worker holds more than it may, by the last `use`."""
        most = self._most_bytes.get(identity)
        return most is not None and self._peaks.get(identity, 0) > most

    def note_kill(self, identity: int) -> None:
        """It is ended for what it holds."""
        self._kills[identity] = self._kills.get(identity, 0) + 1

    def remove(self, identity: int) -> None:
        """The groups of a worker that has ended."""
        for folder in self._folders.values():
            with contextlib.suppress(OSError):
                os.rmdir(f"{folder}/{identity}")
        for table in (self._most_bytes, self._held, self._peaks, self._kills):
            table.pop(identity, None)

    def _members(self, identity: int) -> list[int]:
        try:
            with open(f"{self._folders['pids']}/{identity}/cgroup.procs") as file:
                return [int(line) for line in file]
        except OSError:
            return []

    def _number(self, controller: str, identity: int, name: str) -> int:
        try:
            with open(f"{self._folders[controller]}/{identity}/{name}") as file:
                return int(file.read())
        except OSError:
            return 0

    def _resident_bytes(self, pid: int) -> int:
        try:
            with open(f"/proc/{pid}/statm") as file:
                return int(file.read().split()[1]) * self._page
        except (OSError, IndexError):
            return 0


def _bound(path: str, text: str) -> None:
    """Write to a file of a worker's group, unless it or the worker is gone.

    Raises:
        Broken: The kernel refuses, so that the worker would be without a bound.
    """
    try:
        with open(path, "w") as file:
            file.write(text)
    except (FileNotFoundError, ProcessLookupError):
        return
    except OSError as error:
        raise Broken(f"a worker cannot be bounded: {error}") from error
