"""A kernel of Jupyter: messages in, runs in a held sandbox, messages out to all who are connected.

Requests of the shell channel are carried out one after the other, by one task, whichever connection they came from;
what a run shows goes to all connections (`iopub`), a reply to the one that asked. Every message is sent before the next
event of the run is taken, so that a connection which reads slowly holds the program back, and nothing piles up here.
One that reads nothing for half a minute is cut off, and the run goes on.

A failure of the program is an `error`. A failure of this server is none: the connection that asked is closed with 1011
(or 1013, where asking again later may help), and no status `idle` is sent to it, which clients take for an end.

Messages: https://jupyter-client.readthedocs.io/en/stable/messaging.html, version 5.3. Connections:
https://jupyter-server.readthedocs.io/en/latest/developers/websocket-protocols.html, both forms.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import itertools
import logging
import mimetypes
import struct
import time
import uuid
from collections.abc import Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from typing import Annotated, Any, Final, TypeVar

import msgspec
from starlette.websockets import WebSocket, WebSocketDisconnect

from groundbox.execution import Execution, Failure
from groundbox.sandbox import languages
from groundbox.server.keys import Key
from groundbox.server.refusals import Refused
from groundbox.server.replies import encoded
from groundbox.server.sandboxes import Held
from groundbox.server.service import Ran, Service

logger = logging.getLogger(__name__)

DEFAULT: Final = "python3"
V1: Final = "v1.kernel.websocket.jupyter.org"
MOST_CONNECTIONS: Final = 16

_PROTOCOL: Final = "5.3"
_SPEC_NAMES: Final = {"python": DEFAULT, "shell": "bash"}
_SLOW_S: Final = 30.0
_MOST_WAITING: Final = 128
_MOST_WAITING_BYTES: Final = 32 * 1024 * 1024
_MOST_EXPRESSIONS: Final = 16
_CLOSED: Final = 1000
_INVALID: Final = 1007
_FORBIDDEN: Final = 1008
_FAILED: Final = 1011
_LATER: Final = 1013

S = TypeVar("S")
Text = Annotated[str, msgspec.Meta(max_length=1000)]


class _Header(msgspec.Struct, omit_defaults=True):
    """A message's header, as far as replies repeat it; the rest of it is not kept."""

    msg_id: Text
    msg_type: Text
    username: Text = ""
    session: Text = ""
    date: Text = ""
    version: Text = ""


class _Message(msgspec.Struct):
    """A request as it comes in a text frame, or put together from a binary one."""

    header: _Header
    content: msgspec.Raw = msgspec.Raw(b"{}")
    channel: Text = "shell"
    size_bytes: int = 0


class _Execute(msgspec.Struct):
    """The content of an `execute_request`. `allow_stdin` is not looked at: nobody is ever asked."""

    code: str
    silent: bool = False
    store_history: bool = True
    user_expressions: dict[str, str] = {}
    stop_on_error: bool = True


class _Cursor(msgspec.Struct):
    code: str = ""
    cursor_pos: int = 0


class _Shutdown(msgspec.Struct):
    restart: bool = False


class _Ended(Exception):
    """The connection takes nothing more."""


class Connection:
    """A connection to a kernel."""

    def __init__(self, websocket: WebSocket, key: Key, *, is_v1: bool) -> None:
        self.key = key
        self.session = uuid.uuid4().hex
        self.ended: asyncio.Future[tuple[int, str]] = asyncio.get_running_loop().create_future()
        self._websocket, self._is_v1 = websocket, is_v1

    async def receive(self) -> _Message:
        """The next message.

        Raises:
            WebSocketDisconnect: The client has gone.
            Refused: It is no message of this protocol.
        """
        frame = await self._websocket.receive()
        if frame["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(frame.get("code") or _CLOSED)
        data = frame.get("bytes")
        raw: bytes = data if data is not None else frame["text"].encode("utf-8", "surrogatepass")
        try:
            if data is None or not self._is_v1:
                message = msgspec.json.decode(raw, type=_Message)
                if data is not None:
                    raise Refused(400, "invalid_message", "binary frames are of the subprotocol v1 alone")
            else:
                message = _of_v1(raw)
        except (msgspec.MsgspecError, UnicodeError, RecursionError, struct.error) as error:
            raise Refused(400, "invalid_message", f"a frame is no message of Jupyter: {error}") from None
        message.size_bytes = len(raw)
        return message

    async def send(self, channel: str, message: Mapping[str, Any]) -> None:
        """Send one message, and wait until there is room for the next.

        Raises:
            _Ended: There was none for half a minute, or the client has gone.
        """
        if self.ended.done():
            raise _Ended
        large = message["msg_type"] in ("display_data", "execute_result")
        frame = await asyncio.to_thread(self._frame, channel, message) if large else self._frame(channel, message)
        try:
            async with asyncio.timeout(_SLOW_S):
                await self._websocket.send({"type": "websocket.send", **frame})
        except TimeoutError:
            logger.warning("a connection to a kernel read nothing for %g s and is cut off", _SLOW_S)
            self.end(_FORBIDDEN, "this connection reads too slowly")
            raise _Ended from None
        except (WebSocketDisconnect, RuntimeError, OSError):  # RuntimeError: closed in the meantime
            self.end(_CLOSED, "")
            raise _Ended from None

    def end(self, code: int, reason: str) -> None:
        """Let it be closed."""
        if not self.ended.done():
            self.ended.set_result((code, reason))

    async def close(self, code: int, reason: str) -> None:
        """Close it now, if it still takes that."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(1.0):
                await self._websocket.send({"type": "websocket.close", "code": code, "reason": _cut(reason)})

    def _frame(self, channel: str, message: Mapping[str, Any]) -> dict[str, Any]:
        if not self._is_v1:
            return {"text": encoded({**message, "channel": channel, "buffers": []}).decode()}
        names = ("header", "parent_header", "metadata", "content")
        parts = [channel.encode(), *(encoded(message[name]) for name in names)]
        offsets = [8 * (len(parts) + 2)]
        for part in parts:
            offsets.append(offsets[-1] + len(part))
        return {"bytes": struct.pack(f"<{len(offsets) + 1}Q", len(offsets), *offsets) + b"".join(parts)}


@dataclasses.dataclass(eq=False, kw_only=True, slots=True)
class _Asked:
    """A request on the shell channel that waits for its turn."""

    message: _Message
    connection: Connection
    number: int


class Kernel:
    """A held sandbox as a kernel."""

    def __init__(self, service: Service, held: Held, spec: Mapping[str, Any]) -> None:
        self.id, self.held, self.spec = held.id, held, spec
        self.connections: set[Connection] = set()
        self.state, self.active = "idle", held.created
        self._service = service
        self._language = languages.named(spec["spec"]["language"])
        self._session = uuid.uuid4().hex
        self._count = 0
        self._asked: collections.deque[_Asked] = collections.deque()
        self._waiting_bytes = 0
        self._numbers = 0
        self._aborted_up_to = 0
        self._more = asyncio.Event()
        self._turn = asyncio.Lock()
        self._running: asyncio.Task[None] | None = None
        self._has_begun = self._interrupted = False
        self._unfinished: asyncio.Task[object] | None = None
        self._working = asyncio.create_task(self._work())

    def to_dict(self) -> dict[str, Any]:
        """Jupyter's model of it."""
        return {
            "id": self.id,
            "name": self.spec["name"],
            "last_activity": time_of(self.active),
            "execution_state": self.state,
            "connections": len(self.connections),
        }

    async def talk(self, connection: Connection) -> None:
        """Take what a connection asks until it or the kernel ends."""
        self.connections.add(connection)
        reading = asyncio.create_task(self._read(connection))
        try:
            await asyncio.wait((reading, connection.ended), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.connections.discard(connection)
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reading
            if connection.ended.done():
                await connection.close(*connection.ended.result())
            connection.end(_CLOSED, "")

    def interrupt(self) -> None:
        """As Ctrl-C: stop the cell that runs, or that waits for its turn among all runs, or for its process."""
        running = self._running
        if running is not None and not self.held.box.interrupt() and not self._has_begun:
            self._interrupted = True
            running.cancel()

    async def restart(self) -> None:
        """Call off what runs and waits, and begin afresh with the same files."""
        self._aborted_up_to = self._numbers
        if self._running is not None:
            self._running.cancel()
        async with self._turn:  # asked for before the next request is
            with self._service.errors(), self.held.in_use() as box:
                await box.restart()
            self._count = 0
            await self._publish("status", {"execution_state": "restarting"}, None)

    async def aclose(self) -> None:
        """Called when its sandbox is closed: tell who is connected."""
        tasks = [task for task in (self._working, self._running) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=5.0)
        self.state = "dead"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await self._publish("status", {"execution_state": "dead"}, None)
        for connection in self.connections:
            connection.end(_CLOSED, "the kernel has ended")

    async def _read(self, connection: Connection) -> None:
        try:
            while True:
                message = await connection.receive()
                connection.key = self._service.keys.current(connection.key)
                self.active = time.time()
                if message.channel == "control":
                    await self._control(connection, message)
                elif message.channel == "shell":
                    self._numbers += 1
                    await self._enqueue(_Asked(message=message, connection=connection, number=self._numbers))
                # `stdin` brings answers to what is never asked
        except (WebSocketDisconnect, _Ended):
            connection.end(_CLOSED, "")
        except Refused as refused:
            self._service.metrics.refused(refused.code)
            connection.end(_code(refused), refused.message)
        except Exception:
            logger.exception("a connection to a kernel failed by a fault of groundbox")
            connection.end(_FAILED, "a fault of groundbox itself; its log tells more")

    async def _enqueue(self, asked: _Asked) -> None:
        size = self._waiting_bytes + asked.message.size_bytes
        if len(self._asked) >= _MOST_WAITING or (self._asked and size > _MOST_WAITING_BYTES):
            told = f"at most {_MOST_WAITING} requests wait for a kernel, of {_MOST_WAITING_BYTES} bytes together"
            raise Refused(429, "busy", told)
        self._waiting_bytes = size
        self._asked.append(asked)
        self._more.set()

    async def _control(self, connection: Connection, message: _Message) -> None:
        kind, parent = message.header.msg_type, message.header
        await self._publish("status", {"execution_state": "busy"}, parent)
        if kind == "interrupt_request":
            self.interrupt()
            await self._reply(connection, "control", "interrupt_reply", {"status": "ok"}, parent)
        elif kind == "shutdown_request":
            asked = _content_of(message, _Shutdown)
            told = {"status": "ok", "restart": asked.restart}
            if asked.restart:
                await self._finished(self.restart())
            await self._reply(connection, "control", "shutdown_reply", told, parent)
            await self._publish("shutdown_reply", told, parent)
            if not asked.restart:
                await self._finished(self._service.sandboxes.close(self.held))
                return
        elif kind in _ANSWERS:
            await self._reply(connection, "control", *self._answer(message), parent)
        await self._publish("status", {"execution_state": self.state}, parent)

    async def _finished(self, work: Coroutine[Any, Any, object]) -> None:
        """Wait for work that goes on when the connection that asked for it goes."""
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
                except _Ended:
                    continue
                except Exception:
                    logger.exception("a kernel failed by a fault of groundbox")
                    asked.connection.end(_FAILED, "a fault of groundbox itself; its log tells more")

    async def _carry_out(self, asked: _Asked) -> None:
        """Answer a request of the shell channel, between its statuses."""
        message, parent, connection = asked.message, asked.message.header, asked.connection
        is_run = parent.msg_type == "execute_request"
        self.state, self.active = "busy", time.time()
        try:
            await self._publish("status", {"execution_state": "busy"}, parent)
            if is_run and asked.number <= self._aborted_up_to:
                await self._reply(connection, "shell", "execute_reply", {"status": "aborted"}, parent)
            elif is_run:
                self._has_begun = self._interrupted = False
                self._running = asyncio.create_task(self._execute(asked))
                await asyncio.wait((self._running,))
                await self._settle(asked, self._running)
            elif parent.msg_type in _ANSWERS:
                await self._reply(connection, "shell", *self._answer(message), parent)
        except Refused as refused:  # this server failed, or cannot now: the one who asked is told by its closing
            self._service.metrics.refused(refused.code)
            connection.end(_code(refused), refused.message)
        finally:
            self.state, self.active, self._running = "idle", time.time(), None
        await self._publish("status", {"execution_state": "idle"}, parent)

    async def _settle(self, asked: _Asked, running: asyncio.Task[None]) -> None:
        """Reply to a run that was called off or could not be carried out.

        Raises:
            Refused: It is nothing that a reply can say.
        """
        parent, connection = asked.message.header, asked.connection
        if running.cancelled():
            if not self._interrupted:
                await self._reply(connection, "shell", "execute_reply", {"status": "aborted"}, parent)
                return
            error = _error("KeyboardInterrupt", "interrupted before it began", ["KeyboardInterrupt"])
        else:
            failure = running.exception()
            if failure is None or isinstance(failure, _Ended):
                return
            if not isinstance(failure, Refused):
                raise failure
            if failure.status >= 500 or failure.status in (401, 403, 410, 429):
                raise failure
            self._service.metrics.refused(failure.code)
            error = _error(failure.code, failure.message, [f"{failure.code}: {failure.message}"])
        await self._publish("error", error, parent)
        reply = {"status": "error", **error, "execution_count": self._count, "user_expressions": {}, "payload": []}
        await self._reply(connection, "shell", "execute_reply", reply, parent)

    async def _execute(self, asked: _Asked) -> None:
        """Run a cell; what it shows is sent as it comes."""
        parent, connection = asked.message.header, asked.connection
        given = _content_of(asked.message, _Execute)
        number = self._count + 1
        if not given.silent:
            if given.store_history:
                self._count = number
            await self._publish("execute_input", {"code": given.code, "execution_count": number}, parent)
        execution = await self._run(connection.key, given.code, parent)
        for told in notes_of(execution):
            await self._publish("stream", {"name": "stderr", "text": f"groundbox: {told}\n"}, parent)
        reply: dict[str, Any] = {"status": "ok", "execution_count": number, "payload": []}
        if execution.error is not None:
            reply.update(status="error", **error_of(execution.error), user_expressions={})
            await self._publish("error", error_of(execution.error), parent)
            if given.stop_on_error:
                self._aborted_up_to = max(self._aborted_up_to, self._numbers)
        else:
            if execution.value is not None and not given.silent:
                shown = {"execution_count": number, "data": dict(execution.value), "metadata": {}}
                await self._publish("execute_result", shown, parent)
            reply["user_expressions"] = await self._expressions(connection.key, given.user_expressions)
        if execution.state != "kept":
            self._count = 0
            await self._publish("status", {"execution_state": "restarting"}, None)
        facts = {"groundbox": _facts(execution)}
        await self._reply(connection, "shell", "execute_reply", reply, parent, facts)

    async def _run(self, key: Key, code: str, parent: _Header) -> Execution:
        events = self._service.stream_in(key, self.held, code, language=self._language)
        async with contextlib.aclosing(events):
            async for item in events:
                self._has_begun = True
                if isinstance(item, Ran):
                    return item.execution
                if item.display is not None:
                    shown = {"data": dict(item.display.data), "metadata": {}, "transient": {}}
                    await self._publish("display_data", shown, parent)
                else:
                    await self._publish("stream", {"name": item.kind, "text": item.text}, parent)
        raise AssertionError("a stream ended without its end")

    async def _expressions(self, key: Key, expressions: Mapping[str, str]) -> dict[str, Any]:
        """Values of `user_expressions`, each by a run of its own; what those print is not shown."""
        values: dict[str, Any] = {}
        for name, source in expressions.items():
            if len(values) >= _MOST_EXPRESSIONS:
                told = f"at most {_MOST_EXPRESSIONS} expressions are looked at"
                values[name] = {"status": "error", **_error("invalid_argument", told, [told])}
                continue
            ran = await self._service.run_in(key, self.held, source, language=self._language)
            if ran.execution.error is None:
                values[name] = {"status": "ok", "data": dict(ran.execution.value or {}), "metadata": {}}
            else:
                values[name] = {"status": "error", **error_of(ran.execution.error)}
        return values

    def _answer(self, message: _Message) -> tuple[str, dict[str, Any]]:
        """Type and content of the reply to a request that runs nothing."""
        kind = message.header.msg_type
        if kind == "kernel_info_request":
            return "kernel_info_reply", _kernel_info(self.spec)
        if kind == "complete_request":
            at = _content_of(message, _Cursor).cursor_pos
            none = {"matches": [], "cursor_start": at, "cursor_end": at, "metadata": {}}
            return "complete_reply", {"status": "ok", **none}
        return _ANSWERS[kind], {"status": "ok", **_NOTHING[kind]}

    async def _publish(self, kind: str, content: Mapping[str, Any], parent: _Header | None) -> None:
        """Send to all connections; those that are over are left out."""
        message = self._message(kind, content, parent, {})
        await asyncio.gather(*(_sent(connection, "iopub", message) for connection in self.connections))

    async def _reply(
        self,
        connection: Connection,
        channel: str,
        kind: str,
        content: Mapping[str, Any],
        parent: _Header,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        await _sent(connection, channel, self._message(kind, content, parent, facts or {}))

    def _message(
        self, kind: str, content: Mapping[str, Any], parent: _Header | None, facts: Mapping[str, Any]
    ) -> dict[str, Any]:
        header = {
            "msg_id": uuid.uuid4().hex,
            "msg_type": kind,
            "username": "groundbox",
            "session": self._session,
            "date": time_of(time.time()),
            "version": _PROTOCOL,
        }
        return {
            "header": header,
            "msg_id": header["msg_id"],
            "msg_type": kind,
            "parent_header": {} if parent is None else msgspec.to_builtins(parent),
            "metadata": facts,
            "content": content,
        }


async def _sent(connection: Connection, channel: str, message: Mapping[str, Any]) -> None:
    with contextlib.suppress(_Ended):
        await connection.send(channel, message)


_ANSWERS: Final = {
    "kernel_info_request": "kernel_info_reply",
    "complete_request": "complete_reply",
    "inspect_request": "inspect_reply",
    "is_complete_request": "is_complete_reply",
    "comm_info_request": "comm_info_reply",
    "history_request": "history_reply",
}
_NOTHING: Final[Mapping[str, Mapping[str, Any]]] = {
    "inspect_request": {"found": False, "data": {}, "metadata": {}},
    "is_complete_request": {"status": "unknown"},
    "comm_info_request": {"comms": {}},
    "history_request": {"history": []},
}
"""Replies that say that there is nothing: what they ask for is not looked up in the guest."""


def _of_v1(raw: bytes) -> _Message:
    """A message of a binary frame: a count, as many offsets, and between them the channel and the message's parts.

    Raises:
        Refused, msgspec.MsgspecError, struct.error, UnicodeError: It is none.
    """
    (count,) = struct.unpack_from("<Q", raw)
    if not 6 <= count <= 64:
        raise Refused(400, "invalid_message", f"a frame has {count} offsets")
    offsets = struct.unpack_from(f"<{count}Q", raw, 8)
    if list(offsets) != sorted(offsets) or offsets[-1] > len(raw):
        raise Refused(400, "invalid_message", "offsets of a frame lead out of it")
    parts = [raw[begin:end] for begin, end in itertools.pairwise(offsets)]
    header = msgspec.json.decode(parts[1], type=_Header)
    return _Message(header=header, channel=parts[0].decode()[:100], content=msgspec.Raw(parts[4]))


def _content_of(message: _Message, kind: type[S]) -> S:
    """Raises Refused where a request's content is not what its type says."""
    try:
        return msgspec.json.decode(message.content, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Refused(400, "invalid_message", f"{message.header.msg_type}: {error}") from None


def _error(name: str, value: str, traceback: Sequence[str]) -> dict[str, Any]:
    return {"ename": name, "evalue": value, "traceback": list(traceback)}


def error_of(failure: Failure) -> dict[str, Any]:
    """Jupyter's error. Hints stand at the end of the traceback, which is what models are shown."""
    lines = failure.traceback.split("\n") if failure.traceback else []
    last = f"{failure.type}: {failure.message}" if failure.message else failure.type
    if not failure.traceback.endswith(last):
        lines.append(last)
    return _error(failure.type, failure.message, [*lines, *(f"Hint: {hint}" for hint in failure.hints)])


def notes_of(execution: Execution) -> list[str]:
    """Sentences for stderr: what a reader has to know and no other message says."""
    told = [each.message for each in execution.warnings if each.tier != "note" or each.code == "session.restarted"]
    left_out = execution.dropped_bytes.get("displays", 0)
    return [*told, f"{left_out} displays were over the caps and are left out"] if left_out else told


def _facts(execution: Execution) -> dict[str, Any]:
    """Facts that the metadata of an `execute_reply` has under `groundbox`; `GET /v1/executions/ID` tells all."""
    told = execution.to_dict()
    names = ("execution_id", "outcome", "exit_code", "exit_signal", "state", "trust", "warnings", "usage", "isolation")
    return {name: told[name] for name in names} | {"artifacts": list(execution.artifacts)}


def _kernel_info(spec: Mapping[str, Any]) -> dict[str, Any]:
    language, extension = spec["spec"]["language"], spec["spec"]["metadata"]["file_extension"]
    return {
        "status": "ok",
        "protocol_version": _PROTOCOL,
        "implementation": "groundbox",
        "implementation_version": version(),
        "language_info": {
            "name": language,
            "version": "",
            "mimetype": mimetypes.guess_type(f"x{extension}")[0] or "text/plain",
            "file_extension": extension,
        },
        "banner": f"groundbox {version()}: {language} in a sandbox",
        "debugger": False,
        "help_links": [],
    }


def kernelspecs() -> dict[str, dict[str, Any]]:
    """Kernelspecs by name: one for each language that can be used here."""
    specs = {}
    for language in languages.listed():
        if language.missing is not None:
            continue
        name = _SPEC_NAMES.get(language.name, language.name)
        spec = {
            "argv": [],
            "env": {},
            "display_name": f"{name} (groundbox)",
            "language": "bash" if language.name == "shell" else language.name,
            "interrupt_mode": "message",
            "metadata": {
                "file_extension": languages.find(language.name).EXTENSION,
                "keeps_variables": language.modes[0] == "cell",
            },
        }
        specs[name] = {"name": name, "spec": spec, "resources": {}}
    return specs


def _code(refused: Refused) -> int:
    """The code that a connection is closed with (RFC 6455, 7.4, and its registry)."""
    return {400: _INVALID, 401: _FORBIDDEN, 403: _FORBIDDEN, 429: _LATER}.get(refused.status, _FAILED)


def _cut(reason: str) -> str:
    """A reason of at most 123 bytes, as RFC 6455, 5.5, has it."""
    return reason.encode()[:123].decode("utf-8", "ignore")


def time_of(seconds: float) -> str:
    """Of ISO 8601 with six digits and a Z, which clients read by that format."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def version() -> str:
    try:
        return metadata.version("groundbox")
    except metadata.PackageNotFoundError:
        return "0"
