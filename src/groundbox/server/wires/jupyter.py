"""Jupyter's kernels over REST and WebSocket, as Open WebUI, smolagents and jupyter-kernel-client ask for them.

A kernel is a held sandbox. Requests of its shell channel are carried out one after the other, by one task, whichever
connection they came from; what a run shows goes to all connections of the kernel (`iopub`), a reply to the one that
asked. Every message is sent before the next event of the run is taken, so that a connection which reads slowly holds
the program back, and nothing piles up here; one that reads nothing for half a minute is cut off, and the run goes on.

A failure of the program is an `error`. A failure of this server is none: the connection that asked is closed with 1011
(or 1013, where asking again later may help), and no status `idle` is sent to it, which clients take for an end.

Messages: https://jupyter-client.readthedocs.io/en/stable/messaging.html, version 5.3. Connections:
https://jupyter-server.readthedocs.io/en/latest/developers/websocket-protocols.html, both forms.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import collections
import contextlib
import dataclasses
import hmac
import itertools
import logging
import mimetypes
import secrets
import struct
import time
import uuid
from collections.abc import Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from groundbox.errors import InvalidArgument
from groundbox.execution import Execution, Failure
from groundbox.limits import Limits
from groundbox.sandbox import languages
from groundbox.sandbox.workdir import check_path
from groundbox.server import schemas
from groundbox.server.guard import COOKIE, XSRF_COOKIE
from groundbox.server.keys import Key
from groundbox.server.refusals import Refused, not_found
from groundbox.server.replies import encoded, json_reply
from groundbox.server.sandboxes import Held
from groundbox.server.service import Ran, Service

logger = logging.getLogger(__name__)

PUBLIC: Final = ("/login",)
"""Asked for before there is a key: it takes the key as a password."""

_WIRE: Final = "jupyter"
_PROTOCOL: Final = "5.3"
_V1: Final = "v1.kernel.websocket.jupyter.org"
_DEFAULT: Final = "python3"
_SPEC_NAMES: Final = {"python": _DEFAULT, "shell": "bash"}
_WALL_S: Final = 600.0
"""Of one cell, where a kernel's maker asks for no other; people wait longer for a cell than programs for a run."""
_SLOW_S: Final = 30.0
_MOST_SOCKETS: Final = 16
_MOST_WAITING: Final = 128
_MOST_WAITING_BYTES: Final = 32 * 1024 * 1024
_MOST_EXPRESSIONS: Final = 16
_MOST_LOGIN_BYTES: Final = 16 * 1024
_MOST_CONTENT_BYTES: Final = 64 * 1024 * 1024
_OTHER_THREAD_BYTES: Final = 256 * 1024
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


class _KernelAsked(msgspec.Struct):
    """`POST /api/kernels`. `path` and `env` of Jupyter are not looked at; `groundbox` holds settings of the sandbox."""

    name: str | None = None
    groundbox: schemas.SandboxAsked | None = None


class _SessionAsked(msgspec.Struct):
    """`POST /api/sessions`."""

    path: Text = ""
    name: Text | None = None
    type: Text = "notebook"
    kernel: _KernelAsked | None = None


class _ContentAsked(msgspec.Struct):
    """`PUT /api/contents/KERNEL/PATH`."""

    type: str = "file"
    format: str | None = None
    content: Any = None
    chunk: int | None = None


def routes(service: Service) -> list[BaseRoute]:
    """The routes of this wire."""
    wire = Jupyter(service)
    kernel, session = "/api/kernels/{kernel_id}", "/api/sessions/{kernel_id}"
    contents = "/api/contents/{kernel_id}/{path:path}"
    table: list[tuple[str, str, Any]] = [
        ("GET", "/api", wire.version),
        ("GET", "/api/kernelspecs", wire.specs),
        ("GET", "/api/kernelspecs/{name}", wire.spec),
        ("GET", "/api/kernels", wire.listed),
        ("POST", "/api/kernels", wire.start),
        ("GET", kernel, wire.show),
        ("DELETE", kernel, wire.end),
        ("POST", f"{kernel}/interrupt", wire.interrupt),
        ("POST", f"{kernel}/restart", wire.restart),
        ("GET", "/api/sessions", wire.sessions),
        ("POST", "/api/sessions", wire.start_session),
        ("GET", session, wire.session),
        ("DELETE", session, wire.end),
        ("GET", "/api/contents", wire.roots),
        ("GET", "/api/contents/{kernel_id}", wire.read),
        ("GET", contents, wire.read),
        ("PUT", contents, wire.write),
        ("DELETE", contents, wire.remove),
        ("GET", "/login", wire.login_page),
        ("POST", "/login", wire.login),
    ]
    return [
        *(Route(path, endpoint, methods=[method]) for method, path, endpoint in table),
        WebSocketRoute(f"{kernel}/channels", wire.channels),
    ]


class Jupyter:
    """The endpoints over one service. A kernel's id is its sandbox's."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def version(self, request: Request) -> Response:
        """`GET /api`"""
        return json_reply({"version": _version()})

    # Kernels

    async def specs(self, request: Request) -> Response:
        """`GET /api/kernelspecs`: a kernel for each language that is installed."""
        _key(request)
        there = await asyncio.to_thread(_specs)
        return json_reply({"default": _DEFAULT, "kernelspecs": there})

    async def spec(self, request: Request) -> Response:
        """`GET /api/kernelspecs/NAME`"""
        _key(request)
        return json_reply(await self._spec(request.path_params["name"]))

    async def listed(self, request: Request) -> Response:
        """`GET /api/kernels`"""
        return json_reply([kernel.to_dict() for kernel in self._kernels(_key(request))])

    async def start(self, request: Request) -> Response:
        """`POST /api/kernels`"""
        key, asked = _key(request), schemas.decoded(await request.body(), _KernelAsked)
        kernel = await self._start(key, asked, {})
        return json_reply(kernel.to_dict(), 201, {"Location": f"/api/kernels/{kernel.id}"})

    async def show(self, request: Request) -> Response:
        """`GET /api/kernels/ID`"""
        return json_reply(self._kernel(request).to_dict())

    async def end(self, request: Request) -> Response:
        """`DELETE /api/kernels/ID`, and that of a session"""
        await self._service.sandboxes.close(self._kernel(request).held)
        return Response(status_code=204)

    async def interrupt(self, request: Request) -> Response:
        """`POST /api/kernels/ID/interrupt`"""
        self._kernel(request).interrupt()
        return Response(status_code=204)

    async def restart(self, request: Request) -> Response:
        """`POST /api/kernels/ID/restart`: same files, no variables."""
        kernel = self._kernel(request)
        await kernel.restart()
        return json_reply(kernel.to_dict())

    async def channels(self, websocket: WebSocket) -> None:
        """`WS /api/kernels/ID/channels`"""
        kernel = self._kernel(websocket)
        if len(kernel.sockets) >= _MOST_SOCKETS:
            raise Refused(429, "busy", f"a kernel has at most {_MOST_SOCKETS} connections")
        is_v1 = _V1 in websocket.scope["subprotocols"]
        await websocket.accept(_V1 if is_v1 else None)
        socket = _Socket(websocket, _key(websocket), is_v1=is_v1)
        with kernel.held.in_use():  # as Jupyter: a kernel somebody is connected to is not idle
            await kernel.talk(socket)

    async def _start(self, key: Key, asked: _KernelAsked, labels: Mapping[str, str]) -> _Kernel:
        spec = await self._spec(asked.name or _DEFAULT)
        with self._service.errors():
            given = {} if asked.groundbox is None else schemas.of_sandbox(asked.groundbox)
        chosen = (asked.groundbox and asked.groundbox.limits) or schemas.LimitsAsked()
        most = self._service.settings.most
        limits = dataclasses.replace(
            given.get("limits", Limits()),
            wall_s=chosen.wall_s or min(_WALL_S, most.wall_s or _WALL_S),
            cpu_s=chosen.cpu_s or min(_WALL_S, most.cpu_s or _WALL_S),
        )
        given = {"restart": "auto", **given, "limits": limits}
        held = self._service.create(key, wire=_WIRE, labels={**labels, "kernel": spec["name"]}, **given)
        kernel = held.state[_WIRE] = _Kernel(self._service, held, spec)
        return kernel

    async def _spec(self, name: str) -> dict[str, Any]:
        spec = (await asyncio.to_thread(_specs)).get(name)
        if spec is None:
            raise not_found(f"kernel {name[:100]!r}; GET /api/kernelspecs lists those there are")
        return spec

    def _kernel(self, asked: Request | WebSocket) -> _Kernel:
        held = self._service.sandboxes.get(_key(asked), asked.path_params["kernel_id"])
        kernel = held.state.get(_WIRE)
        if not isinstance(kernel, _Kernel):
            raise not_found("kernel")
        return kernel

    def _kernels(self, key: Key) -> list[_Kernel]:
        there = (held.state.get(_WIRE) for held in self._service.sandboxes.list(key))
        return [kernel for kernel in there if isinstance(kernel, _Kernel)]

    # Sessions: names for kernels

    async def sessions(self, request: Request) -> Response:
        """`GET /api/sessions`: every kernel is one, also those that were started without."""
        return json_reply([_session(kernel) for kernel in self._kernels(_key(request))])

    async def start_session(self, request: Request) -> Response:
        """`POST /api/sessions`: the one of that path, or a new one with its kernel."""
        key, asked = _key(request), schemas.decoded(await request.body(), _SessionAsked)
        named = asked.name if asked.name is not None else asked.path
        labels = {"jupyter.path": asked.path, "jupyter.name": named, "jupyter.type": asked.type}
        for each in self._kernels(key):
            if asked.path and each.held.labels.get("jupyter.path") == asked.path:
                return json_reply(_session(each), 201)
        kernel = await self._start(key, asked.kernel or _KernelAsked(), labels)
        return json_reply(_session(kernel), 201)

    async def session(self, request: Request) -> Response:
        """`GET /api/sessions/ID`"""
        return json_reply(_session(self._kernel(request)))

    # Contents: a folder for each kernel

    async def roots(self, request: Request) -> Response:
        """`GET /api/contents`: the kernels of this key as folders."""
        kernels = self._kernels(_key(request))
        folders = [_content(each.id, each.id, "directory", each.active, None) for each in kernels]
        now = time.time()
        return json_reply({**_content("", "", "directory", now, folders), "format": "json"})

    async def read(self, request: Request) -> Response:
        """`GET /api/contents/KERNEL/PATH`"""
        kernel, path, query = self._kernel(request), request.path_params.get("path", ""), request.query_params
        with self._service.errors(), kernel.held.in_use() as box:
            inner = check_path("path", path) if path.strip("/") else "."
            entry = await box.guest_files.stat(inner)
            full = kernel.id if inner == "." else f"{kernel.id}/{inner}"
            wants_content = query.get("content") != "0"
            if entry.kind == "folder":
                listed = None
                if wants_content:
                    found = await box.guest_files.list(inner)
                    listed = [
                        _content(
                            each.name,
                            f"{full}/{each.name}",
                            "directory" if each.kind == "folder" else "file",
                            each.modified_s,
                            None,
                            size=each.size_bytes,
                        )
                        for each in found.entries
                    ]
                model = _content(full.rsplit("/", 1)[-1], full, "directory", entry.modified_s, listed)
                return json_reply({**model, "format": None if listed is None else "json"})
            if entry.size_bytes > _MOST_CONTENT_BYTES and wants_content:
                raise Refused(413, "too_large", f"a content has at most {_MOST_CONTENT_BYTES} bytes")
            data = await box.files.read(inner) if wants_content else None
            content, form = (None, None) if data is None else _readable(data, query.get("format"))
            model = _content(full.rsplit("/", 1)[-1], full, "file", entry.modified_s, content, size=entry.size_bytes)
        return Response(await asyncio.to_thread(encoded, {**model, "format": form}), media_type="application/json")

    async def write(self, request: Request) -> Response:
        """`PUT /api/contents/KERNEL/PATH`"""
        kernel, path = self._kernel(request), request.path_params["path"]
        asked = schemas.decoded(await request.body(), _ContentAsked)
        if asked.chunk is not None:
            raise Refused(400, "invalid_argument", "chunk: a file is sent whole here")
        with self._service.errors(), kernel.held.in_use() as box:
            inner = check_path("path", path)
            is_new = not await box.guest_files.exists(inner)
            if asked.type == "directory":
                await box.files.mkdir(inner)
            else:
                await box.files.write(inner, await asyncio.to_thread(_bytes_of, asked))
            entry = await box.guest_files.stat(inner)
        kind = "directory" if asked.type == "directory" else "file"
        full = f"{kernel.id}/{inner}"
        model = _content(full.rsplit("/", 1)[-1], full, kind, entry.modified_s, None, size=entry.size_bytes)
        return json_reply(model, 201 if is_new else 200)

    async def remove(self, request: Request) -> Response:
        """`DELETE /api/contents/KERNEL/PATH`"""
        kernel = self._kernel(request)
        with self._service.errors(), kernel.held.in_use() as box:
            await box.files.remove(request.path_params["path"])
        return Response(status_code=204)

    # The password flow

    async def login_page(self, request: Request) -> Response:
        """`GET /login`: sets the cookie that has to come back, in the form and as a header."""
        token = secrets.token_urlsafe(32)
        page = (
            "<!doctype html><title>groundbox</title><form method=post>"
            f'<input type=hidden name=_xsrf value="{token}"><label>Key <input type=password name=password></label>'
            "<button>Log in</button></form>"
        )
        reply = HTMLResponse(page, headers={"Content-Security-Policy": "default-src 'none'; form-action 'self'"})
        reply.set_cookie(XSRF_COOKIE, token, samesite="strict")
        return reply

    async def login(self, request: Request) -> Response:
        """`POST /login`: the key is the password, and comes back as the cookie."""
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > _MOST_LOGIN_BYTES:
                raise Refused(413, "too_large", f"a login has at most {_MOST_LOGIN_BYTES} bytes")
        form = dict(parse_qsl(body.decode("utf-8", "replace"), max_num_fields=16))
        cookie = request.cookies.get(XSRF_COOKIE, "")
        sent = form.get("_xsrf") or request.headers.get("x-xsrftoken", "")
        if not cookie or not hmac.compare_digest(cookie.encode(), sent.encode()):
            raise Refused(403, "wrong_xsrf", "the cookie _xsrf of GET /login has to come back, in the form too")
        await self._service.keys.find(form.get("password"))
        reply = Response("logged in\n", media_type="text/plain")
        reply.set_cookie(COOKIE, form.get("password", ""), httponly=True, samesite="strict")
        return reply


class _Ended(Exception):
    """The connection takes nothing more."""


class _Socket:
    """One connection to a kernel."""

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
    socket: _Socket
    number: int


class _Kernel:
    """What one held sandbox needs to be a kernel."""

    def __init__(self, service: Service, held: Held, spec: Mapping[str, Any]) -> None:
        self.id, self.held, self.spec = held.id, held, spec
        self.sockets: set[_Socket] = set()
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
        self._runs_before = 0
        self._interrupted = False
        self._unfinished: asyncio.Task[object] | None = None
        self._working = asyncio.create_task(self._work())

    def to_dict(self) -> dict[str, Any]:
        """Jupyter's model of it."""
        return {
            "id": self.id,
            "name": self.spec["name"],
            "last_activity": _time(self.active),
            "execution_state": self.state,
            "connections": len(self.sockets),
        }

    async def talk(self, socket: _Socket) -> None:
        """Take what a connection asks until it or the kernel ends."""
        self.sockets.add(socket)
        reading = asyncio.create_task(self._read(socket))
        try:
            await asyncio.wait((reading, socket.ended), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.sockets.discard(socket)
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reading
            if socket.ended.done():
                await socket.close(*socket.ended.result())
            socket.end(_CLOSED, "")

    def interrupt(self) -> None:
        """As Ctrl-C: stop the cell that runs, or that waits for its turn among all runs of the server."""
        running = self._running
        if running is not None and not self.held.box.interrupt() and self.held.runs == self._runs_before:
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
        for socket in self.sockets:
            socket.end(_CLOSED, "the kernel has ended")

    async def _read(self, socket: _Socket) -> None:
        try:
            while True:
                message = await socket.receive()
                socket.key = self._service.keys.current(socket.key)
                self.active = time.time()
                if message.channel == "control":
                    await self._control(socket, message)
                elif message.channel == "shell":
                    self._numbers += 1
                    await self._enqueue(_Asked(message=message, socket=socket, number=self._numbers))
                # `stdin` brings answers to what is never asked
        except (WebSocketDisconnect, _Ended):
            socket.end(_CLOSED, "")
        except Refused as refused:
            self._service.metrics.refused(refused.code)
            socket.end(_code(refused), refused.message)
        except Exception:
            logger.exception("a connection to a kernel failed by a fault of groundbox")
            socket.end(_FAILED, "a fault of groundbox itself; its log tells more")

    async def _enqueue(self, asked: _Asked) -> None:
        size = self._waiting_bytes + asked.message.size_bytes
        if len(self._asked) >= _MOST_WAITING or (self._asked and size > _MOST_WAITING_BYTES):
            told = f"at most {_MOST_WAITING} requests wait for a kernel, of {_MOST_WAITING_BYTES} bytes together"
            raise Refused(429, "busy", told)
        self._waiting_bytes = size
        self._asked.append(asked)
        self._more.set()

    async def _control(self, socket: _Socket, message: _Message) -> None:
        kind, parent = message.header.msg_type, message.header
        await self._publish("status", {"execution_state": "busy"}, parent)
        if kind == "interrupt_request":
            self.interrupt()
            await self._reply(socket, "control", "interrupt_reply", {"status": "ok"}, parent)
        elif kind == "shutdown_request":
            asked = _content_of(message, _Shutdown)
            told = {"status": "ok", "restart": asked.restart}
            if asked.restart:
                await self._finished(self.restart())
            await self._reply(socket, "control", "shutdown_reply", told, parent)
            await self._publish("shutdown_reply", told, parent)
            if not asked.restart:
                await self._finished(self._service.sandboxes.close(self.held))
                return
        elif kind in _ANSWERS:
            await self._reply(socket, "control", *self._answer(message), parent)
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
                    asked.socket.end(_FAILED, "a fault of groundbox itself; its log tells more")

    async def _carry_out(self, asked: _Asked) -> None:
        """One request of the shell channel, between its statuses."""
        message, parent, socket = asked.message, asked.message.header, asked.socket
        is_run = parent.msg_type == "execute_request"
        self.state, self.active = "busy", time.time()
        try:
            await self._publish("status", {"execution_state": "busy"}, parent)
            if is_run and asked.number <= self._aborted_up_to:
                await self._reply(socket, "shell", "execute_reply", {"status": "aborted"}, parent)
            elif is_run:
                self._interrupted, self._runs_before = False, self.held.runs
                self._running = asyncio.create_task(self._execute(asked))
                await asyncio.wait((self._running,))
                await self._settle(asked, self._running)
            elif parent.msg_type in _ANSWERS:
                await self._reply(socket, "shell", *self._answer(message), parent)
        except Refused as refused:  # this server failed, or cannot now: the one who asked is told by its closing
            self._service.metrics.refused(refused.code)
            socket.end(_code(refused), refused.message)
        finally:
            self.state, self.active, self._running = "idle", time.time(), None
        await self._publish("status", {"execution_state": "idle"}, parent)

    async def _settle(self, asked: _Asked, running: asyncio.Task[None]) -> None:
        """Reply to a run that was called off or could not be carried out.

        Raises:
            Refused: It is nothing that a reply can say.
        """
        parent, socket = asked.message.header, asked.socket
        if running.cancelled():
            if not self._interrupted:
                await self._reply(socket, "shell", "execute_reply", {"status": "aborted"}, parent)
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
        await self._reply(socket, "shell", "execute_reply", reply, parent)

    async def _execute(self, asked: _Asked) -> None:
        """Run a cell; what it shows is sent as it comes."""
        parent, socket = asked.message.header, asked.socket
        given = _content_of(asked.message, _Execute)
        number = self._count + 1
        if not given.silent:
            if given.store_history:
                self._count = number
            await self._publish("execute_input", {"code": given.code, "execution_count": number}, parent)
        execution = await self._run(socket.key, given.code, parent)
        for told in _notes(execution):
            await self._publish("stream", {"name": "stderr", "text": f"groundbox: {told}\n"}, parent)
        reply: dict[str, Any] = {"status": "ok", "execution_count": number, "payload": []}
        if execution.error is not None:
            reply.update(status="error", **_error_of(execution.error), user_expressions={})
            await self._publish("error", _error_of(execution.error), parent)
            if given.stop_on_error:
                self._aborted_up_to = max(self._aborted_up_to, self._numbers)
        else:
            if execution.value is not None and not given.silent:
                shown = {"execution_count": number, "data": dict(execution.value), "metadata": {}}
                await self._publish("execute_result", shown, parent)
            reply["user_expressions"] = await self._expressions(socket.key, given.user_expressions)
        if execution.state != "kept":
            self._count = 0
            await self._publish("status", {"execution_state": "restarting"}, None)
        facts = {"groundbox": _facts(execution)}
        await self._reply(socket, "shell", "execute_reply", reply, parent, facts)

    async def _run(self, key: Key, code: str, parent: _Header) -> Execution:
        events = self._service.stream_in(key, self.held, code, language=self._language)
        async with contextlib.aclosing(events):
            async for item in events:
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
                values[name] = {"status": "error", **_error_of(ran.execution.error)}
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
        await asyncio.gather(*(_sent(socket, "iopub", message) for socket in self.sockets))

    async def _reply(
        self,
        socket: _Socket,
        channel: str,
        kind: str,
        content: Mapping[str, Any],
        parent: _Header,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        await _sent(socket, channel, self._message(kind, content, parent, facts or {}))

    def _message(
        self, kind: str, content: Mapping[str, Any], parent: _Header | None, facts: Mapping[str, Any]
    ) -> dict[str, Any]:
        header = {
            "msg_id": uuid.uuid4().hex,
            "msg_type": kind,
            "username": "groundbox",
            "session": self._session,
            "date": _time(time.time()),
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


async def _sent(socket: _Socket, channel: str, message: Mapping[str, Any]) -> None:
    with contextlib.suppress(_Ended):
        await socket.send(channel, message)


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


def _error_of(failure: Failure) -> dict[str, Any]:
    """Jupyter's error. Hints stand at the end of the traceback, which is what models are shown."""
    lines = failure.traceback.split("\n") if failure.traceback else []
    last = f"{failure.type}: {failure.message}" if failure.message else failure.type
    if not failure.traceback.endswith(last):
        lines.append(last)
    return _error(failure.type, failure.message, [*lines, *(f"Hint: {hint}" for hint in failure.hints)])


def _notes(execution: Execution) -> list[str]:
    """What a reader has to know and no other message says."""
    told = [each.message for each in execution.warnings if each.tier != "note" or each.code == "session.restarted"]
    left_out = execution.dropped_bytes.get("displays", 0)
    return [*told, f"{left_out} displays were over the caps and are left out"] if left_out else told


def _facts(execution: Execution) -> dict[str, Any]:
    """What the metadata of an `execute_reply` tells under `groundbox`; `GET /v1/executions/ID` tells all."""
    told = execution.to_dict()
    names = ("execution_id", "outcome", "exit_code", "exit_signal", "state", "trust", "warnings", "usage", "isolation")
    return {name: told[name] for name in names} | {"artifacts": list(execution.artifacts)}


def _kernel_info(spec: Mapping[str, Any]) -> dict[str, Any]:
    language, extension = spec["spec"]["language"], spec["spec"]["metadata"]["file_extension"]
    return {
        "status": "ok",
        "protocol_version": _PROTOCOL,
        "implementation": "groundbox",
        "implementation_version": _version(),
        "language_info": {
            "name": language,
            "version": "",
            "mimetype": mimetypes.guess_type(f"x{extension}")[0] or "text/plain",
            "file_extension": extension,
        },
        "banner": f"groundbox {_version()}: {language} in a sandbox",
        "debugger": False,
        "help_links": [],
    }


def _specs() -> dict[str, dict[str, Any]]:
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


def _session(kernel: _Kernel) -> dict[str, Any]:
    """Jupyter's model of a session, which has its kernel's id."""
    labels = kernel.held.labels
    return {
        "id": kernel.id,
        "path": labels.get("jupyter.path", ""),
        "name": labels.get("jupyter.name", ""),
        "type": labels.get("jupyter.type", "console"),
        "kernel": kernel.to_dict(),
    }


def _content(
    name: str, path: str, kind: str, modified_s: float, content: object, *, size: int | None = None
) -> dict[str, Any]:
    """Jupyter's model of a file or a folder."""
    is_file = kind == "file"
    return {
        "name": name,
        "path": path,
        "type": kind,
        "writable": True,
        "created": _time(modified_s),
        "last_modified": _time(modified_s),
        "size": size if is_file else None,
        "mimetype": (mimetypes.guess_type(name)[0] or "application/octet-stream") if is_file else None,
        "format": None,
        "content": content,
    }


def _readable(data: bytes, form: str | None) -> tuple[str, str]:
    """Bytes as text where they are that, and where nobody asks for base64; and which of both it is.

    Raises:
        Refused: They are asked for as text, and are none.
    """
    if form != "base64":
        try:
            return data.decode(), "text"
        except UnicodeDecodeError:
            if form == "text":
                raise Refused(400, "invalid_argument", "format: this file is no text; ask for base64") from None
    return base64.b64encode(data).decode("ascii"), "base64"


def _bytes_of(asked: _ContentAsked) -> bytes:
    """Raises InvalidArgument where the content is not of its format."""
    if asked.type == "notebook" or asked.format == "json":
        return encoded(asked.content)
    if not isinstance(asked.content, str):
        raise InvalidArgument("content", "of a file is a text, with the format `text` or `base64`")
    try:
        return base64.b64decode(asked.content) if asked.format == "base64" else asked.content.encode()
    except (binascii.Error, ValueError) as error:
        raise InvalidArgument("content", f"is not of the format {asked.format!r}: {error}") from None


def _code(refused: Refused) -> int:
    """The code that a connection is closed with (RFC 6455, 7.4, and its registry)."""
    return {400: _INVALID, 401: _FORBIDDEN, 403: _FORBIDDEN, 429: _LATER}.get(refused.status, _FAILED)


def _cut(reason: str) -> str:
    """A reason of at most 123 bytes, as RFC 6455, 5.5, has it."""
    return reason.encode()[:123].decode("utf-8", "ignore")


def _time(seconds: float) -> str:
    """Of ISO 8601 with six digits and a Z, which clients read by that format."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _key(asked: Request | WebSocket) -> Key:
    key: Key = asked.scope["groundbox.key"]
    key.require("run")
    return key


def _version() -> str:
    try:
        return metadata.version("groundbox")
    except metadata.PackageNotFoundError:
        return "0"
