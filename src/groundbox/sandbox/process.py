"""Processes of a sandbox that live beside its runs: a server, a long computation, a terminal.

The host makes pipes, or a pair of pseudo-terminal devices, hands the far ends to the worker with the order, and keeps
the near ones. The worker starts the program below a supervisor (guest/processes.py), with which the host shares a
socket pair: signals go down, and how the program ended comes up, also while a cell keeps the worker busy.

Output is read when somebody asks for it and never before, a piece at a time. What nobody reads stays in the pipe, which
the kernel bounds and the sandbox's memory group is charged for, and the program waits. When the program has ended, what
is in the pipes then is taken at once and the pipes are closed, because what it has left behind may hold them for good.

How it ended is the guest's word: the supervisor lies in the sandbox, and can be stopped, killed or imitated there.
Who does so lies about that one program. The host waits for no supervisor: closing a sandbox kills all of it.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import errno
import fcntl
import os
import re
import signal as signals
import socket
import struct
import termios
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple

import msgspec

from groundbox.errors import GuestProcessError, InvalidArgument, SandboxLost, WireError
from groundbox.sandbox.descriptors import GuestSocket
from groundbox.unseen import on_one_line

if TYPE_CHECKING:
    from groundbox.sandbox.sandbox import AsyncSandbox
    from groundbox.sandbox.wire import Done

MOST_PROCESSES: Final = 64
"""Alive at once in one sandbox: each takes up to four descriptors of the host."""
_READ: Final = 1 << 16
_DRAIN_BYTES: Final = 1 << 20  # the most that a pipe of an ordinary user holds (pipe(7), pipe-max-size)
_MOST_LINE: Final = 32
_MOST_ARGUMENT_BYTES: Final = 8 * 1024 * 1024  # the kernel refuses much less (E2BIG), with words of its own
_MOST_CELLS: Final = 0xFFFF
_TERMINAL_TYPE: Final = "xterm-256color"
_IUTF8: Final = 0o40000  # asm-generic/termbits.h; the module termios has it from Python 3.14 on
_TOLD: Final = re.compile(rb"(exit|signal) (\d{1,3})\n")

Stream = Literal["stdout", "stderr", "pty"]


class Chunk(NamedTuple):
    """Bytes that a process wrote, and where; a terminal has one stream, `pty`."""

    stream: Stream
    data: bytes


class Exit(NamedTuple):
    """How a process ended, in the guest's word: by itself with a code, or by a signal; exactly one is set.

    SIGKILL stands also for an end that nobody told, such as that of the sandbox.
    """

    code: int | None
    signal: int | None


class TerminalSize(NamedTuple):
    """Of a terminal, in characters."""

    rows: int
    columns: int


_UNTOLD: Final = Exit(None, int(signals.SIGKILL))


class _Value(msgspec.Struct, frozen=True):
    pid: Annotated[int, msgspec.Meta(ge=1, le=1 << 22)] | None = None
    errno: Annotated[int, msgspec.Meta(ge=1, le=4095)] | None = None
    what: str = ""


class AsyncProcess:
    """One program that was started. Belongs to the event loop on which it was started.

    Attributes:
        command: As it was asked for.
        tag: The caller's own name for it.
        pid: As the programs of its sandbox see it.
        exit: How it ended; None as long as it lives.
    """

    def __init__(
        self,
        ends: _Ends,
        *,
        command: str | tuple[str, ...],
        tag: str | None,
        pid: int,
        on_end: Callable[[AsyncProcess], None],
    ) -> None:
        """Takes ownership of the host's ends."""
        self.command = command
        self.tag = tag
        self.pid = pid
        self.exit: Exit | None = None
        self._name = _shown(command)
        self._loop = asyncio.get_running_loop()
        self._is_terminal = ends.is_terminal
        self._had_stdin = ends.stdin >= 0
        self._stdin = ends.stdin
        self._sources = dict(ends.sources)
        self._control = ends.control
        self._on_end = on_end
        self._rest: collections.deque[Chunk] = collections.deque()
        self._line = b""
        self._wakes: set[Callable[[], None]] = set()
        self._is_read = False
        self._writing = asyncio.Lock()
        self._loop.add_reader(self._control.fileno(), self._on_control)

    def __repr__(self) -> str:
        state = "alive" if self.exit is None else str(self.exit)
        return f"<{type(self).__name__} {self.pid}: {self._name}, {state}>"

    async def output(self) -> AsyncGenerator[Chunk, None]:
        """Yield what it writes as it comes, until it has ended: pairs of a stream and bytes.

        Goes on where an earlier reader stopped. A program whose output nobody reads waits once its pipe is full.

        Raises:
            InvalidArgument: Somebody else is reading.
        """
        while (chunk := await self.read()) is not None:
            yield chunk

    async def read(self) -> Chunk | None:
        """Return the next piece of its output, at most 64 KiB; None when it has ended and all was read.

        Raises:
            InvalidArgument: Somebody else is reading.
        """
        if self._is_read:
            raise InvalidArgument("output", "is being read already; one reader at a time")
        self._is_read = True
        try:
            await asyncio.sleep(0)  # who reads a flood lets others have their turn between two pieces
            while not self._rest:
                for name in tuple(self._sources):
                    if data := self._take(name):
                        return Chunk(name, data)
                if self.exit is not None:
                    return self._rest.popleft() if self._rest else None
                await self._ready(reading=tuple(self._sources.values()))
            return self._rest.popleft()
        finally:
            self._is_read = False

    async def write(self, data: bytes | str) -> None:
        """Give it standard input, or type into its terminal; returns when the kernel has taken all of it.

        Raises:
            GuestProcessError: It has ended, or closed its standard input.
            InvalidArgument: It was started with `stdin=False`.
        """
        if not isinstance(data, bytes | bytearray | memoryview | str):
            raise InvalidArgument("data", f"must be bytes or text, not of type {type(data).__name__}")
        if not self._had_stdin:
            raise InvalidArgument("stdin", "this process was started with stdin=False")
        async with self._writing:
            left = memoryview(data.encode() if isinstance(data, str) else data).cast("B")
            while left:
                if self._stdin < 0:
                    raise GuestProcessError(self._name, "its standard input is closed", errno.EPIPE)
                try:
                    left = left[os.write(self._stdin, left[:_READ]) :]
                    await asyncio.sleep(0)
                except BlockingIOError:
                    await self._ready(writing=self._stdin)
                except OSError:  # EPIPE, or EIO of a terminal
                    raise GuestProcessError(self._name, "it reads no more standard input", errno.EPIPE) from None

    async def close_stdin(self) -> None:
        """Let its standard input end, after what is being written. Idempotent.

        Raises:
            InvalidArgument: It has a terminal, whose end is a character: write b"\\x04".
        """
        if self._is_terminal:
            raise InvalidArgument("stdin", "a terminal has no end to close; write b'\\x04', as Ctrl-D does")
        async with self._writing:
            self._close_input()

    def signal(self, number: int) -> None:
        """Send a signal to its process group, also while a cell runs; SIGKILL goes to all that descends from it.

        Nothing happens when it has ended. That it was sent says not that it was heeded: `wait` tells the end.

        Raises:
            InvalidArgument: There is no such signal.
            GuestProcessError: Its supervisor, which the guest may have stopped, takes no more of them.
        """
        check_signal(number)
        if self.exit is not None:
            return
        try:
            self._control.socket.send(bytes([number]))
        except BlockingIOError:
            raise GuestProcessError(self._name, "it takes no more signals", errno.EAGAIN) from None
        except OSError:  # its end is under way
            return

    def kill(self) -> None:
        """End it and all that descends from it. Nothing happens when it has ended; see `signal`."""
        self.signal(signals.SIGKILL)

    def resize(self, *, rows: int, columns: int) -> None:
        """Tell its terminal another size; the programs in the foreground get SIGWINCH.

        Raises:
            InvalidArgument: It has no terminal, or the size is none.
        """
        if not self._is_terminal:
            raise InvalidArgument("pty", "this process was started without a terminal")
        size = _checked_size((rows, columns))
        if self.exit is None:
            _set_size(self._stdin, size)

    async def wait(self, *, timeout_s: float | None = None) -> Exit:
        """Wait for its end. Its output stays to be read; a program whose output nobody reads may never end.

        Raises:
            TimeoutError: It lives after `timeout_s`; it goes on.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while self.exit is None:
                    await self._ready()
        except TimeoutError:
            raise TimeoutError(f"{self._name}: lives on after {timeout_s} s") from None
        return self.exit

    def finish(self, exit_: Exit = _UNTOLD) -> None:
        """Take it as ended, for who ends its sandbox. Its last output stays to be read. Idempotent."""
        if self.exit is not None:
            return
        self.exit = exit_
        for name in tuple(self._sources):
            left = _DRAIN_BYTES
            while left > 0 and (data := self._take(name)):
                left -= len(data)
                self._rest.append(Chunk(name, data))
        for name in tuple(self._sources):
            self._let_go(name)
        self._close_input()
        self._loop.remove_reader(self._control.fileno())
        self._control.close()
        for wake in tuple(self._wakes):
            wake()
        self._on_end(self)

    def _on_control(self) -> None:
        """Take the line that tells the end. What is no such line, or too long, is an end that nobody told."""
        try:
            data = self._control.receive(_MOST_LINE)
        except (BlockingIOError, InterruptedError):
            return
        except (OSError, WireError):
            data = b""
        self._line += data
        if not data or b"\n" in self._line or len(self._line) >= _MOST_LINE:
            self.finish(_told(self._line))

    def _take(self, name: Stream) -> bytes:
        """Read what is there of one stream, at most a piece; empty for nothing, now or for good."""
        try:
            data = os.read(self._sources[name], _READ)
        except (BlockingIOError, InterruptedError):
            return b""
        except OSError:  # EIO: nobody has the terminal open any more
            data = b""
        if data:
            self._sources[name] = self._sources.pop(name)  # the other stream's turn is next
        else:
            self._let_go(name)
        return data

    async def _ready(self, *, reading: Sequence[int] = (), writing: int = -1) -> None:
        """Wait until a descriptor can be read from or written to, or the process has ended."""
        woken = self._loop.create_future()

        def wake() -> None:
            if not woken.done():
                woken.set_result(None)

        if self.exit is not None:
            return
        self._wakes.add(wake)
        for descriptor in reading:
            self._loop.add_reader(descriptor, wake)
        if writing >= 0:
            self._loop.add_writer(writing, wake)
        try:
            await woken
        finally:
            self._wakes.discard(wake)
            # A descriptor that was closed meanwhile may be somebody else's by now.
            for descriptor in reading:
                if descriptor in self._sources.values():
                    self._loop.remove_reader(descriptor)
            if writing >= 0 and writing == self._stdin:
                self._loop.remove_writer(writing)

    def _let_go(self, name: Stream) -> None:
        """Read no more of a stream. A terminal stays open: it is the input, too, as long as the program lives."""
        descriptor = self._sources.pop(name)
        self._loop.remove_reader(descriptor)
        if not self._is_terminal:
            os.close(descriptor)

    def _close_input(self) -> None:
        if self._stdin >= 0:
            self._loop.remove_writer(self._stdin)
            os.close(self._stdin)
            self._stdin = -1


class Processes:
    """Those that were started in one sandbox and live."""

    def __init__(self, sandbox: AsyncSandbox) -> None:
        self._sandbox = sandbox
        self._living: list[AsyncProcess] = []

    @property
    def by_pid(self) -> dict[int, AsyncProcess]:
        """The processes by the number that guests see. A guest that lies about numbers hides its own."""
        return {process.pid: process for process in self._living}

    def end(self) -> None:
        """Their sandbox ends."""
        for process in tuple(self._living):
            process.finish()

    async def start(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None,
        env: Mapping[str, str] | None,
        stdin: bool,
        pty: tuple[int, int] | None,
        tag: str | None,
        shell: bool,
    ) -> AsyncProcess:
        """`AsyncSandbox.start`, which explains the arguments."""
        argv = _argv(command, shell=shell)
        _check_texts("env", _pairs(env))
        if cwd is not None:
            _check_texts("cwd", (cwd,))
        if not isinstance(stdin, bool):
            raise InvalidArgument("stdin", f"must be True or False, not {stdin!r}")
        if tag is not None and not isinstance(tag, str):
            raise InvalidArgument("tag", f"must be a text, not of type {type(tag).__name__}")
        size = None if pty is None else _checked_size(pty)
        kept = command if isinstance(command, str) else tuple(command)
        name = _shown(kept)
        sandbox = self._sandbox
        async with sandbox.order_taker() as (worker, aide):
            if size is not None and worker.is_elsewhere:
                raise InvalidArgument("pty", "the backend gvisor can give no terminal so far; use namespaces")
            if len(self._living) >= MOST_PROCESSES:
                raise GuestProcessError(name, f"{MOST_PROCESSES} processes of this sandbox live already", errno.EAGAIN)
            frame = {
                "op": "start",
                "argv": argv,
                **({"set_environ": sandbox.environ} if sandbox.environ else {}),
                "environ": {**({} if size is None else {"TERM": _TERMINAL_TYPE}), **(env or {})},
                "cwd": cwd,
                "stdin": stdin and size is None,
                "terminal": size is not None,
                # As of other languages' programs (sandbox/orders.py): they ask for far more than they use.
                "private_bytes": sandbox.limits.memory_bytes if worker.cgroup is None else None,
            }
            with contextlib.ExitStack() as unless_kept:
                ends = _made(name, unless_kept, stdin=stdin, size=size)
                sandbox.spoil()
                try:
                    if aide is None:
                        done = await worker.order(frame, ends.given, cpu_s=sandbox.limits.cpu_s)
                    else:
                        done = await aide.order(frame, ends.given)
                finally:
                    for descriptor in {*ends.given}:
                        os.close(descriptor)
                value = _value(done)
                if not done.ok:
                    raise _failure(name, done, value, cwd)
                if value.pid is None:
                    raise WireError("a guest told of a process without its number")
                unless_kept.pop_all()
            process = AsyncProcess(ends, command=kept, tag=tag, pid=value.pid, on_end=self._living.remove)
            self._living.append(process)
            if worker.ended is not None:
                process.finish()
                raise SandboxLost("it ended while a process was started")
            return process


class _Ends(NamedTuple):
    """What the host keeps of a process's descriptors, and what it gives away."""

    control: GuestSocket
    sources: dict[Stream, int]
    stdin: int
    given: list[int]
    is_terminal: bool


def _made(name: str, unless_kept: contextlib.ExitStack, *, stdin: bool, size: TerminalSize | None) -> _Ends:
    """Make the descriptors; the host's ends are closed by `unless_kept`, those to be given by the caller."""
    given: list[int] = []
    try:
        ends = _terminal(given, unless_kept, size) if size is not None else _pipes(given, unless_kept, stdin=stdin)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        given.append(theirs.detach())
        control = GuestSocket(ours)
        unless_kept.callback(control.close)
        control.refuse_descriptors()
    except OSError as error:
        for descriptor in given:
            os.close(descriptor)
        raise GuestProcessError(name, f"the host has no descriptors for it: {error.strerror}", error.errno) from None
    return _Ends(control, ends[0], ends[1], given, size is not None)


def _terminal(given: list[int], unless_kept: contextlib.ExitStack, size: TerminalSize) -> tuple[dict[Stream, int], int]:
    """Make a pair; neither end becomes the controlling terminal of this process (openpty(3) opens with O_NOCTTY)."""
    ours, theirs = os.openpty()
    unless_kept.callback(os.close, ours)
    given.append(theirs)
    os.set_blocking(ours, False)
    _set_size(ours, size)
    attributes = termios.tcgetattr(theirs)
    attributes[0] |= _IUTF8  # so that a line's editing erases characters and not bytes
    termios.tcsetattr(theirs, termios.TCSANOW, attributes)
    return {"pty": ours}, ours


def _pipes(given: list[int], unless_kept: contextlib.ExitStack, *, stdin: bool) -> tuple[dict[Stream, int], int]:
    sources: dict[Stream, int] = {}
    written = -1
    if stdin:
        theirs, written = os.pipe2(os.O_CLOEXEC)
        given.append(theirs)
        unless_kept.callback(os.close, written)
        os.set_blocking(written, False)
    streams: tuple[Stream, ...] = ("stdout", "stderr")
    for name in streams:
        sources[name], theirs = os.pipe2(os.O_CLOEXEC)
        unless_kept.callback(os.close, sources[name])
        given.append(theirs)
        os.set_blocking(sources[name], False)
    for descriptor in given:
        # A pipe has no path, so that only who has it can open it by another name, as /dev/stdout does. Under root it
        # is not the guest's own.
        os.fchmod(descriptor, 0o666)
    return sources, written


def _set_size(descriptor: int, size: TerminalSize) -> None:
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.columns, 0, 0))


def check_signal(number: int) -> None:
    """Raise InvalidArgument if there is no signal of this number."""
    if number not in signals.valid_signals():
        raise InvalidArgument("number", f"must be the number of a signal, such as signal.SIGTERM, not {number!r}")


def _checked_size(size: Any) -> TerminalSize:
    numbers = tuple(size) if isinstance(size, tuple | list) else ()
    if len(numbers) != 2 or not all(type(number) is int and 0 < number <= _MOST_CELLS for number in numbers):
        raise InvalidArgument("pty", f"must be numbers of rows and columns from 1 to {_MOST_CELLS}, not {size!r}")
    return TerminalSize(*numbers)


def _argv(command: Any, *, shell: Any) -> list[str]:
    if not isinstance(shell, bool):
        raise InvalidArgument("shell", f"must be True or False, not {shell!r}")
    if isinstance(command, str):
        _check_texts("command", (command,))
        return ["bash", "-c", command] if shell else [command]
    if isinstance(command, bytes) or not isinstance(command, Sequence) or not command:
        raise InvalidArgument("command", "must be a text, or a list with a program and its arguments")
    if not command[0]:
        raise InvalidArgument("command", "names no program")
    _check_texts("command", command, may_be_empty=True)
    return list(command)


def _pairs(env: Any) -> list[str]:
    if env is None:
        return []
    if not isinstance(env, Mapping):
        raise InvalidArgument("env", f"must map names to texts, not be of type {type(env).__name__}")
    _check_texts("env", tuple(env.values()), may_be_empty=True)
    if any(isinstance(name, str) and "=" in name for name in env):
        raise InvalidArgument("env", "the name of a variable holds no '='")
    return list(env)


def _check_texts(argument: str, texts: Sequence[Any], *, may_be_empty: bool = False) -> None:
    size = 0
    for text in texts:
        if not isinstance(text, str):
            raise InvalidArgument(argument, f"must be of text, not of type {type(text).__name__}")
        if "\0" in text or not (text or may_be_empty):
            raise InvalidArgument(argument, f"{on_one_line(text, 80)!r} is empty or holds a NUL byte")
        try:
            size += len(text.encode())
        except UnicodeEncodeError:
            raise InvalidArgument(argument, "holds half of a surrogate pair, which is no text") from None
    if size > _MOST_ARGUMENT_BYTES:
        raise InvalidArgument(argument, f"is {size} bytes long; no program takes more than {_MOST_ARGUMENT_BYTES}")


def _value(done: Done) -> _Value:
    try:
        return msgspec.convert(done.value.data if done.value else {}, _Value)
    except msgspec.ValidationError as error:
        raise WireError(f"a guest's answer does not fit the schema: {str(error)[:200]}") from None


def _failure(name: str, done: Done, value: _Value, cwd: str | None) -> GuestProcessError:
    """The error of a program that could not be started, in the kernel's words where the guest gives its number."""
    reason = os.strerror(value.errno) if value.errno is not None else on_one_line(done.reason, 200)
    if value.errno == errno.EAGAIN:
        reason = f"{reason}; the sandbox may have no more processes (Limits.process_count)"
    return GuestProcessError(name, f"cwd {cwd!r}: {reason}" if value.what == "cwd" else reason, value.errno)


def _told(line: bytes) -> Exit:
    found = _TOLD.fullmatch(line)
    if found is None:
        return _UNTOLD
    number = int(found[2])
    if found[1] == b"exit":
        return Exit(number, None) if number <= 255 else _UNTOLD
    return Exit(None, number) if 0 < number <= 64 else _UNTOLD


def _shown(command: str | tuple[str, ...]) -> str:
    return on_one_line(command if isinstance(command, str) else " ".join(command), 200)
