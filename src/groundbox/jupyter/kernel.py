"""A kernel of Jupyter, whatever carries its messages: requests in, runs in one sandbox, messages out.

Requests of the shell channel are carried out one after the other, by one task, whoever sent them; what a run shows is
published, a reply goes to the one that asked. Every message is sent before the next event of the run is taken, so that
whoever reads slowly holds the program back, and nothing piles up here. Requests of the control channel wait for nobody.

A failure of the program is an `error`. What becomes of a failure of ours, its host says (`Host.failed`).

Names, sources and help are looked up by the guest, in the process that runs the cells: no source is parsed and nothing
of the program is believed here beyond what it says of itself.

Messages: https://jupyter-client.readthedocs.io/en/stable/messaging.html, version 5.3.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import fnmatch
import mimetypes
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Protocol, TypeVar

import msgspec

from groundbox.execution import Event, Execution, Failure
from groundbox.sandbox import languages
from groundbox.sandbox.bridge.tool import Tool
from groundbox.sandbox.bridge.tools import ToolQuotas, Tools
from groundbox.version import own_version

PROTOCOL: Final = "5.3"
WALL_S: Final = 600.0
"""Of one cell, where a kernel's maker asks for no other; people wait longer for a cell than programs for a run."""

_MOST_WAITING: Final = 128
_MOST_WAITING_BYTES: Final = 32 * 1024 * 1024
_MOST_EXPRESSIONS: Final = 16
_MOST_HISTORY: Final = 1000
_MOST_HISTORY_CHARS: Final = 4_000_000
_MOST_MATCHES: Final = 200
_MOST_CHARS: Final = 100_000
"""Of a source that the guest is asked about, and of what it tells of a name."""
_GUEST: Final = "from groundbox.guest.python.prompt import {name}\n"
_PREPARATION: Final = """
import tools
from groundbox.guest.python.prompt import ask_client

def prepare():
    ask_client(tools.next_line)
    tools._bridge.hide()
"""

S = TypeVar("S")
Text = Annotated[str, msgspec.Meta(max_length=1000)]


class InvalidMessage(Exception):
    """A request is not what its type says, or there are too many of them.

    Attributes:
        is_busy: It may be taken later.
    """

    def __init__(self, problem: str, *, is_busy: bool = False) -> None:
        super().__init__(problem)
        self.is_busy = is_busy


class Gone(Exception):
    """Whoever asked takes nothing more."""


class Header(msgspec.Struct, omit_defaults=True):
    """A message's header, as far as replies repeat it; the rest of it is not kept."""

    msg_id: Text
    msg_type: Text
    username: Text = ""
    session: Text = ""
    date: Text = ""
    version: Text = ""


class Parent(msgspec.Struct):
    """The header of the message that one answers, as far as it is looked at."""

    msg_id: Text = ""


class Message(msgspec.Struct):
    """A request, put together from whatever carried it."""

    header: Header
    content: msgspec.Raw = msgspec.Raw(b"{}")
    channel: Text = "shell"
    parent_header: Parent | None = None
    size_bytes: int = 0


class _Execute(msgspec.Struct):
    """The content of an `execute_request`."""

    code: str
    silent: bool = False
    store_history: bool = True
    user_expressions: dict[str, str] = {}
    allow_stdin: bool = False
    stop_on_error: bool = True


class _Cursor(msgspec.Struct):
    """Of a `complete_request` and an `inspect_request`. Positions count characters, as Python's texts do."""

    code: str = ""
    cursor_pos: int | None = None
    detail_level: int = 0


class _Source(msgspec.Struct):
    code: str = ""


class _History(msgspec.Struct):
    hist_access_type: str = "tail"
    output: bool = False
    session: int = 0
    start: int | None = 0
    stop: int | None = None
    n: int | None = None
    pattern: Annotated[str, msgspec.Meta(max_length=1000)] | None = None
    unique: bool = False


class _Comm(msgspec.Struct):
    comm_id: Text = ""


class _Answer(msgspec.Struct):
    value: str = ""


class _Shutdown(msgspec.Struct):
    restart: bool = False


class _Completions(msgspec.Struct):
    """The guest's word of how a source may go on."""

    matches: list[str]
    start: int
    end: int


class _Completeness(msgspec.Struct):
    status: Annotated[str, msgspec.Meta(pattern="^(complete|incomplete|invalid|unknown)$")]
    indent: Annotated[str, msgspec.Meta(max_length=1000)] = ""


class Peer(Protocol):
    """Somebody who asks: a connection, or an identity behind a socket."""

    async def send(self, channel: str, message: Mapping[str, Any]) -> None:
        """Send it one message, and wait until there is room for the next.

        Raises:
            Gone: It takes none.
        """


P = TypeVar("P", bound=Peer, contravariant=True)


class Host(Protocol[P]):
    """What holds a kernel's sandbox and its connections.

    Attributes:
        restarts: Whether a `shutdown_request` may ask for a fresh process. If not, whoever started the kernel starts
            another one.
    """

    restarts: bool

    async def publish(self, message: Mapping[str, Any]) -> None:
        """Send a message to all who listen."""

    def stream(self, peer: P, source: str, **options: Any) -> AsyncGenerator[Event, None]:
        """Run a program; the last event carries the execution. Leaving it early ends the run."""

    async def run(self, peer: P, source: str, **options: Any) -> Execution:
        """Run a program of ours in the same process."""

    def interrupt(self) -> bool:
        """Stop what runs, as Ctrl-C would; whether something did."""

    async def restart(self) -> None:
        """A fresh process with the same files."""

    async def end(self) -> None:
        """End the kernel, because a client asked for it."""

    def shown(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Say which forms of a bundle are sent."""

    def failed(self, peer: P, error: Exception) -> dict[str, Any] | None:
        """Say what becomes of a request that could not be carried out, and log what is a fault.

        Returns:
            The content of an error to reply with. None: the one who asked is told in another way.
        """


class Stdin:
    """`input()` of the cell that runs, asked of the client that sent the cell.

    Attributes:
        tools: To be granted to the sandbox: one function, which waits for a line.
    """

    def __init__(self, quotas: ToolQuotas) -> None:
        self.tools = Tools([Tool(name="next_line", function=self._next_line)], quotas=quotas)
        self._ask: Callable[[str, bool], Awaitable[str]] | None = None
        self._peer: Peer | None = None
        self._question = ""
        self._answer: asyncio.Future[str | None] | None = None

    def open(self, peer: Peer, ask: Callable[[str, bool], Awaitable[str]]) -> None:
        """Let the cell that begins now ask.

        Args:
            ask: Sends a question, and returns its message's id.
        """
        self._peer, self._ask = peer, ask

    def close(self) -> None:
        """Nobody is asked any more."""
        self._peer = self._ask = None

    def take(self, peer: Peer, message: Message) -> None:
        """Take an `input_reply`. One that nobody waits for, or that answers something else, counts for nothing."""
        answers = "" if message.parent_header is None else message.parent_header.msg_id
        if self._answer is None or self._answer.done() or peer != self._peer or answers not in ("", self._question):
            return
        self._answer.set_result(content_of(message, _Answer).value)

    def left(self, peer: Peer) -> None:
        """Somebody has gone; a program that waits for them reads the end of its input."""
        if peer == self._peer and self._answer is not None and not self._answer.done():
            self._answer.set_result(None)

    async def _next_line(self, prompt: str, password: bool) -> str | None:
        """The line that the cell's `input()` waits for; None where nobody is asked."""
        if self._ask is None:
            return None
        self._answer = answer = asyncio.get_running_loop().create_future()
        try:
            self._question = await self._ask(prompt[:_MOST_CHARS], password)
            line: str | None = await answer
            return line
        except Gone:
            return None
        finally:
            self._answer, self._question = None, ""


@dataclasses.dataclass(eq=False, kw_only=True, slots=True)
class _Asked:
    """A request on the shell channel that waits for its turn."""

    message: Message
    peer: Any
    number: int


class Kernel:
    """One sandbox as a kernel.

    Attributes:
        state: `idle` or `busy`, and `dead` after `aclose`.
        active: When something was last asked or answered, in seconds since the epoch.
    """

    def __init__(self, host: Host[Any], language: str, *, version: str = "", stdin: Stdin | None = None) -> None:
        """Args:
        language: By the name that it has here.
        version: Of the language, to be told.
        stdin: With the tools that the sandbox was granted; None: nobody answers `input()`.
        """
        self.state, self.active = "idle", time.time()
        self._host, self._language, self._version, self._stdin = host, language, version, stdin
        self._session = uuid.uuid4().hex
        self._count = 0
        self._asked: collections.deque[_Asked] = collections.deque()
        self._waiting_bytes = 0
        self._numbers = 0
        self._aborted_up_to = 0
        self._more = asyncio.Event()
        self._turn = asyncio.Lock()
        self._running: asyncio.Task[None] | None = None
        self._has_begun = self._interrupted = self._prepared = self._is_preparing = False
        self._untold: list[str] = []
        self._unfinished: asyncio.Task[object] | None = None
        self._history = _Cells()
        self._working = asyncio.create_task(self._work())

    async def take(self, peer: Peer, message: Message) -> None:
        """Take a request.

        Raises:
            InvalidMessage: It is none, or too many wait.
            Gone: The one that asked takes no answer.
        """
        self.active = time.time()
        if message.channel == "control":
            await self._control(peer, message)
        elif message.channel == "shell":
            self._numbers += 1
            self._enqueue(_Asked(message=message, peer=peer, number=self._numbers))
        elif message.channel == "stdin" and self._stdin is not None and message.header.msg_type == "input_reply":
            self._stdin.take(peer, message)

    def left(self, peer: Peer) -> None:
        """Called when somebody has gone. A run of theirs goes on."""
        if self._stdin is not None:
            self._stdin.left(peer)

    def interrupt(self) -> None:
        """As Ctrl-C: stop the cell that runs, or that waits for its turn among all runs, or for its process."""
        running = self._running
        if running is None:
            return
        is_interrupted = self._host.interrupt()
        if self._is_preparing or not (is_interrupted or self._has_begun):
            self._interrupted = True
            running.cancel()

    async def restart(self) -> None:
        """Call off what runs and waits, and begin afresh with the same files."""
        self._aborted_up_to = self._numbers
        if self._running is not None:
            self._running.cancel()
        async with self._turn:  # asked for before the next request is
            await self._host.restart()
            self._begin_count()
            await self._publish("status", {"execution_state": "restarting"}, None)

    async def aclose(self) -> None:
        """End what goes on, and tell who listens."""
        tasks = [task for task in (self._working, self._running) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=5.0)
        self.state = "dead"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await self._publish("status", {"execution_state": "dead"}, None)

    async def tell(self, state: str) -> None:
        """Publish a status that answers no request."""
        await self._publish("status", {"execution_state": state}, None)

    def _enqueue(self, asked: _Asked) -> None:
        size = self._waiting_bytes + asked.message.size_bytes
        if len(self._asked) >= _MOST_WAITING or (self._asked and size > _MOST_WAITING_BYTES):
            told = f"at most {_MOST_WAITING} requests wait for a kernel, of {_MOST_WAITING_BYTES} bytes together"
            raise InvalidMessage(told, is_busy=True)
        self._waiting_bytes = size
        self._asked.append(asked)
        self._more.set()

    async def _control(self, peer: Peer, message: Message) -> None:
        kind, parent = message.header.msg_type, message.header
        await self._publish("status", {"execution_state": "busy"}, parent)
        if kind == "interrupt_request":
            self.interrupt()
            await self._reply(peer, "control", "interrupt_reply", {"status": "ok"}, parent)
        elif kind == "shutdown_request":
            asked = content_of(message, _Shutdown)
            told = {"status": "ok", "restart": asked.restart}
            stays = asked.restart and self._host.restarts
            if stays:
                await self._finished(self.restart())
            await self._reply(peer, "control", "shutdown_reply", told, parent)
            await self._publish("shutdown_reply", told, parent)
            if not stays:
                await self._finished(self._host.end())
                return
        elif kind == "kernel_info_request":
            await self._reply(peer, "control", "kernel_info_reply", self._info(), parent)
        await self._publish("status", {"execution_state": self.state}, parent)

    async def _finished(self, work: Coroutine[Any, Any, object]) -> None:
        """Wait for work that goes on when the one who asked for it goes."""
        self._unfinished = asyncio.create_task(work)  # kept, because the loop itself keeps no task alive
        await asyncio.shield(self._unfinished)

    async def _work(self) -> None:
        """Carry out what is asked on the shell channel, in its order."""
        while True:
            while not self._asked:
                self._more.clear()
                await self._more.wait()
            async with self._turn:
                asked = self._asked.popleft()
                self._waiting_bytes -= asked.message.size_bytes
                try:
                    await self._carry_out(asked)
                except Gone:
                    continue
                except Exception as error:
                    self._host.failed(asked.peer, error)

    async def _carry_out(self, asked: _Asked) -> None:
        """Answer a request of the shell channel, between its statuses. A request nobody is replied to has no `idle`."""
        parent, peer = asked.message.header, asked.peer
        self.state, self.active = "busy", time.time()
        try:
            await self._publish("status", {"execution_state": "busy"}, parent)
            if parent.msg_type != "execute_request":
                if not await self._look_up(asked):
                    return
            elif asked.number <= self._aborted_up_to:
                await self._reply(peer, "shell", "execute_reply", {"status": "aborted"}, parent)
            else:
                self._has_begun = self._interrupted = False
                self._running = asyncio.create_task(self._execute(asked))
                await asyncio.wait((self._running,))
                if not await self._settle(asked, self._running):
                    return
        finally:
            self.state, self.active, self._running = "idle", time.time(), None
        await self._publish("status", {"execution_state": "idle"}, parent)

    async def _settle(self, asked: _Asked, running: asyncio.Task[None]) -> bool:
        """Reply to a run that was called off or could not be carried out; False where that cannot be said so."""
        parent, peer = asked.message.header, asked.peer
        if running.cancelled():
            if not self._interrupted:
                await self._reply(peer, "shell", "execute_reply", {"status": "aborted"}, parent)
                return True
            error: dict[str, Any] | None
            error = error_content("KeyboardInterrupt", "interrupted before it began", ["KeyboardInterrupt"])
        else:
            failure = running.exception()
            if failure is None or isinstance(failure, Gone):
                return True
            if not isinstance(failure, Exception):
                raise failure
            error = self._host.failed(peer, failure)
            if error is None:
                return False
        await self._publish("error", error, parent)
        reply = {"status": "error", **error, "execution_count": self._count, "user_expressions": {}, "payload": []}
        await self._reply(peer, "shell", "execute_reply", reply, parent)
        return True

    async def _execute(self, asked: _Asked) -> None:
        """Run a cell; what it shows is sent as it comes."""
        parent, peer = asked.message.header, asked.peer
        given = content_of(asked.message, _Execute)
        number = self._count + 1
        if not given.silent:
            if given.store_history:
                self._count = number
            await self._publish("execute_input", {"code": given.code, "execution_count": number}, parent)
        execution = await self._run(asked, given)
        if restarts_of(execution):
            self._prepared = False  # it had ended between two cells
        untold, self._untold = self._untold, []
        for told in (*untold, *notes_of(execution)):
            await self._publish("stream", {"name": "stderr", "text": f"groundbox: {told}\n"}, parent)
        reply: dict[str, Any] = {"status": "ok", "execution_count": number, "payload": []}
        if execution.error is not None:
            reply.update(status="error", **error_of(execution.error), user_expressions={})
            await self._publish("error", error_of(execution.error), parent)
            if given.stop_on_error:
                self._aborted_up_to = max(self._aborted_up_to, self._numbers)
        else:
            if execution.value is not None and not given.silent:
                shown = {"execution_count": number, "data": self._host.shown(execution.value), "metadata": {}}
                await self._publish("execute_result", shown, parent)
            reply["user_expressions"] = await self._expressions(peer, given.user_expressions)
        if given.store_history and not given.silent:
            self._history.add(number, given.code, execution.text)
        if execution.state != "kept":
            self._begin_count()
            await self._publish("status", {"execution_state": "restarting"}, None)
        facts = {"groundbox": facts_of(execution)}
        await self._reply(peer, "shell", "execute_reply", reply, parent, facts)

    async def _run(self, asked: _Asked, given: _Execute) -> Execution:
        parent, peer = asked.message.header, asked.peer

        async def ask(prompt: str, password: bool) -> str:
            message = self._message("input_request", {"prompt": prompt, "password": password}, parent, {})
            await peer.send("stdin", message)
            return str(message["msg_id"])

        if self._stdin is not None and given.allow_stdin:
            await self._prepare(peer)
            self._stdin.open(peer, ask)
        try:
            async with contextlib.aclosing(self._host.stream(peer, given.code, language=self._language)) as events:
                async for event in events:
                    self._has_begun = True
                    if event.execution is not None:
                        return event.execution
                    await self._publish(*self._shown(event), parent)
        finally:
            if self._stdin is not None:
                self._stdin.close()
        raise AssertionError("a stream ended without its end")

    def _shown(self, event: Event) -> tuple[str, dict[str, Any]]:
        """Type and content of the message of an event."""
        if event.display is not None:
            transient = {} if event.display_id is None else {"display_id": event.display_id}
            content = {"data": self._host.shown(event.display.data), "metadata": {}, "transient": transient}
            return "update_display_data" if event.updates and transient else "display_data", content
        if event.kind == "clear":
            return "clear_output", {"wait": event.waits}
        return "stream", {"name": event.kind, "text": event.text}

    async def _prepare(self, peer: Peer) -> None:
        """Let `input()` of a fresh process ask for its lines here."""
        if self._prepared:
            return
        self._is_preparing = True
        try:
            ran = await self._run_own(peer, _PREPARATION, mode="call", call="prepare", filename="<prompt>")
        finally:
            self._is_preparing = False
        self._prepared = ran.state == "kept"

    async def _run_own(self, peer: Peer, source: str, **options: Any) -> Execution:
        """A run beside the cells; where it was the first one of a fresh process, the next cell tells that."""
        ran = await self._host.run(peer, source, **options)
        self._untold += restarts_of(ran)
        return ran

    def _begin_count(self) -> None:
        """The process is gone, and with it the variables."""
        self._count, self._prepared = 0, False
        self._history.begin_session()

    async def _expressions(self, peer: Peer, expressions: Mapping[str, str]) -> dict[str, Any]:
        """Values of `user_expressions`, each by a run of its own; what those print is not shown."""
        values: dict[str, Any] = {}
        for name, source in expressions.items():
            if len(values) >= _MOST_EXPRESSIONS:
                told = f"at most {_MOST_EXPRESSIONS} expressions are looked at"
                values[name] = {"status": "error", **error_content("invalid_argument", told, [told])}
                continue
            ran = await self._run_own(peer, source, language=self._language)
            if ran.error is None:
                values[name] = {"status": "ok", "data": self._host.shown(ran.value or {}), "metadata": {}}
            else:
                values[name] = {"status": "error", **error_of(ran.error)}
        return values

    # Requests that run no cell

    async def _look_up(self, asked: _Asked) -> bool:
        """Answer them; False where the one who asked is told in another way that this failed."""
        parent, peer = asked.message.header, asked.peer
        kind = parent.msg_type.removesuffix("_request")
        answer = {
            "kernel_info": self._told_info,
            "complete": self._complete,
            "inspect": self._inspect,
            "is_complete": self._is_complete,
            "history": self._told_history,
            "comm_info": self._no_comms,
        }.get(kind)
        if answer is not None:
            try:
                told = await answer(peer, asked.message)
            except Exception as error:
                failed = self._host.failed(peer, error)
                if failed is None:
                    return False
                told = {"status": "error", **failed}
            await self._reply(peer, "shell", f"{kind}_reply", told, parent)
        elif kind == "comm_open":  # closed at once, as where there is no such target
            comm = content_of(asked.message, _Comm)
            await self._publish("comm_close", {"comm_id": comm.comm_id, "data": {}}, parent)
        return True

    async def _told_info(self, peer: Peer, message: Message) -> dict[str, Any]:
        return self._info()

    async def _no_comms(self, peer: Peer, message: Message) -> dict[str, Any]:
        return {"status": "ok", "comms": {}}

    async def _told_history(self, peer: Peer, message: Message) -> dict[str, Any]:
        return {"status": "ok", "history": self._history.find(content_of(message, _History))}

    async def _complete(self, peer: Peer, message: Message) -> dict[str, Any]:
        given = content_of(message, _Cursor)
        at = len(given.code) if given.cursor_pos is None else given.cursor_pos
        found = await self._of_guest(peer, _Completions, "complete_cell", given.code, at)
        none = {"matches": [], "cursor_start": at, "cursor_end": at}
        if found is not None and 0 <= found.start <= found.end <= len(given.code):
            matches = [each for each in found.matches[:_MOST_MATCHES] if len(each) <= _MOST_CHARS]
            none = {"matches": matches, "cursor_start": found.start, "cursor_end": found.end}
        return {"status": "ok", **none, "metadata": {}}

    async def _inspect(self, peer: Peer, message: Message) -> dict[str, Any]:
        given = content_of(message, _Cursor)
        at = len(given.code) if given.cursor_pos is None else given.cursor_pos
        text = await self._of_guest(peer, str, "describe", given.code, at, given.detail_level)
        data = {} if text is None else {"text/plain": text[:_MOST_CHARS]}
        return {"status": "ok", "found": bool(data), "data": data, "metadata": {}}

    async def _is_complete(self, peer: Peer, message: Message) -> dict[str, Any]:
        given = content_of(message, _Source)
        found = await self._of_guest(peer, _Completeness, "completeness", given.code)
        if found is None:
            return {"status": "unknown"}
        return {"status": found.status, **({"indent": found.indent} if found.status == "incomplete" else {})}

    async def _of_guest(self, peer: Peer, kind: type[S], function: str, code: str, *args: Any) -> S | None:
        """What the live process says of a source; None where it says nothing that can be used."""
        if self._language != "python" or len(code) > _MOST_CHARS:
            return None
        source = _GUEST.format(name=function)
        told = await self._run_own(
            peer, source, mode="call", call=function, args=[code, *args], filename="<prompt>", wall_s=10.0
        )
        if told.state != "kept":
            self._begin_count()
            await self._publish("status", {"execution_state": "restarting"}, None)
        try:
            return msgspec.json.decode(told.stdout, type=kind)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return None

    def _info(self) -> dict[str, Any]:
        extension = languages.find(self._language).EXTENSION
        name = SHOWN_NAMES.get(self._language, self._language)
        told: dict[str, Any] = {
            "name": name,
            "version": self._version,
            "mimetype": mimetypes.guess_type(f"x{extension}")[0] or "text/plain",
            "file_extension": extension,
        }
        if self._language == "python":
            told |= {
                "codemirror_mode": {"name": "ipython", "version": 3},
                "pygments_lexer": "ipython3",
                "nbconvert_exporter": "python",
            }
        return {
            "status": "ok",
            "protocol_version": PROTOCOL,
            "implementation": "groundbox",
            "implementation_version": own_version(),
            "language_info": told,
            "banner": f"groundbox {own_version()}: {name} in a sandbox",
            "debugger": False,
            "help_links": [],
        }

    # Messages

    async def _publish(self, kind: str, content: Mapping[str, Any], parent: Header | None) -> None:
        await self._host.publish(self._message(kind, content, parent, {}))

    async def _reply(
        self,
        peer: Peer,
        channel: str,
        kind: str,
        content: Mapping[str, Any],
        parent: Header,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        with contextlib.suppress(Gone):
            await peer.send(channel, self._message(kind, content, parent, facts or {}))

    def _message(
        self, kind: str, content: Mapping[str, Any], parent: Header | None, facts: Mapping[str, Any]
    ) -> dict[str, Any]:
        header = {
            "msg_id": uuid.uuid4().hex,
            "msg_type": kind,
            "username": "groundbox",
            "session": self._session,
            "date": time_of(time.time()),
            "version": PROTOCOL,
        }
        return {
            "header": header,
            "msg_id": header["msg_id"],
            "msg_type": kind,
            "parent_header": {} if parent is None else msgspec.to_builtins(parent),
            "metadata": facts,
            "content": content,
        }


class _Cells:
    """The cells that were run: the newest ones, with the text of their values."""

    def __init__(self) -> None:
        self._cells: collections.deque[tuple[int, int, str, str | None]] = collections.deque()
        self._chars = 0
        self._number = 1

    def begin_session(self) -> None:
        """The numbers of cells begin anew."""
        self._number += 1

    def add(self, number: int, source: str, value: str | None) -> None:
        """Keep a cell; the oldest make room for it."""
        self._cells.append((self._number, number, source, value))
        self._chars += len(source) + len(value or "")
        while self._cells and (len(self._cells) > _MOST_HISTORY or self._chars > _MOST_HISTORY_CHARS):
            _, _, old, old_value = self._cells.popleft()
            self._chars -= len(old) + len(old_value or "")

    def find(self, asked: _History) -> list[list[Any]]:
        """Session, number and source of each; with `output`, a pair of source and value."""
        found = list(self._cells)
        if asked.hist_access_type == "range":
            session = asked.session if asked.session > 0 else self._number + asked.session
            stop = float("inf") if asked.stop is None else asked.stop
            found = [each for each in found if each[0] == session and (asked.start or 0) <= each[1] < stop]
        elif asked.hist_access_type == "search":
            pattern = asked.pattern or "*"
            found = [each for each in found if fnmatch.fnmatchcase(each[2], pattern)]
            if asked.unique:
                found = sorted({each[2]: each for each in found}.values(), key=lambda each: each[:2])
        if asked.hist_access_type != "range" and asked.n is not None:
            found = found[-asked.n :] if asked.n > 0 else []
        return [
            [session, number, [source, value] if asked.output else source] for session, number, source, value in found
        ]


SHOWN_NAMES: Final = {"shell": "bash"}
"""Languages that notebooks know by another name."""


def content_of(message: Message, kind: type[S]) -> S:
    """Raises InvalidMessage where a request's content is not what its type says."""
    try:
        return msgspec.json.decode(message.content, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InvalidMessage(f"{message.header.msg_type}: {error}") from None


def error_content(name: str, value: str, traceback: Sequence[str]) -> dict[str, Any]:
    """The content of an `error`."""
    return {"ename": name, "evalue": value, "traceback": list(traceback)}


def error_of(failure: Failure) -> dict[str, Any]:
    """Jupyter's error. Hints stand at the end of the traceback, which is what models are shown."""
    lines = failure.traceback.split("\n") if failure.traceback else []
    last = f"{failure.type}: {failure.message}" if failure.message else failure.type
    if not failure.traceback.endswith(last):
        lines.append(last)
    return error_content(failure.type, failure.message, [*lines, *(f"Hint: {hint}" for hint in failure.hints)])


def notes_of(execution: Execution) -> list[str]:
    """Sentences for stderr: what a reader has to know and no other message says."""
    told = [each.message for each in execution.warnings if each.tier != "note" or each.code == "session.restarted"]
    left_out = execution.dropped_bytes.get("displays", 0)
    return [*told, f"{left_out} displays were over the caps and are left out"] if left_out else told


def restarts_of(execution: Execution) -> list[str]:
    """Sentences about a process that was begun for this run, because the one before it had ended."""
    return [each.message for each in execution.warnings if each.code == "session.restarted"]


def facts_of(execution: Execution) -> dict[str, Any]:
    """Facts that the metadata of an `execute_reply` has under `groundbox`."""
    told = execution.to_dict()
    names = ("execution_id", "outcome", "exit_code", "exit_signal", "state", "trust", "warnings", "usage", "isolation")
    return {name: told[name] for name in names} | {"artifacts": list(execution.artifacts)}


def time_of(seconds: float) -> str:
    """Of ISO 8601 with six digits and a Z, which clients read by that format."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
