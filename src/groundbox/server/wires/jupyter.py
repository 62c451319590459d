"""Jupyter's kernels over REST and WebSocket, as Open WebUI, smolagents and jupyter-kernel-client ask for them.

A kernel is a held sandbox, and has its id; `jupyter_kernel.py` is what happens on a connection to it. A session is a
kernel with a path, and each kernel has files of its own, in a folder of its id.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import dataclasses
import hmac
import mimetypes
import secrets
import time
from collections.abc import Mapping
from typing import Any, ClassVar, Final
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from groundbox.errors import InvalidArgument
from groundbox.jupyter.kernel import WALL_S, Stdin, Text, time_of
from groundbox.jupyter.kernelspec import DEFAULT, kernelspecs
from groundbox.limits import Limits
from groundbox.sandbox.workdir import check_path
from groundbox.server import bodies, schemas
from groundbox.server.guard import COOKIE, XSRF_COOKIE
from groundbox.server.keys import Key
from groundbox.server.refusals import Refused, not_found
from groundbox.server.replies import encoded, json_reply
from groundbox.server.service import Service
from groundbox.server.wires.jupyter_kernel import ASKING, MOST_CONNECTIONS, V1, Connection, HeldKernel
from groundbox.version import own_version

PUBLIC: Final = ("/login",)
"""Asked for before there is a key: it takes the key as a password."""

_WIRE: Final = "jupyter"
_MOST_LOGIN_BYTES: Final = 16 * 1024
_MOST_CONTENT_BYTES: Final = 64 * 1024 * 1024


class _KernelAsked(msgspec.Struct):
    """`POST /api/kernels`. `path` and `env` of Jupyter are not looked at; `groundbox` holds settings of the sandbox."""

    name: schemas.Word | None = None
    groundbox: schemas.SandboxAsked | None = None


class _SessionAsked(msgspec.Struct):
    """`POST /api/sessions`."""

    path: Text = ""
    name: Text | None = None
    type: Text = "notebook"
    kernel: _KernelAsked | None = None


class _ContentAsked(msgspec.Struct):
    """`PUT /api/contents/KERNEL/PATH`."""

    LONG: ClassVar[bodies.Long] = {"content": bodies.CONTENT}

    type: schemas.Word = "file"
    format: schemas.Word | None = None
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
    """The endpoints over one service. A kernel's id is its sandbox's, with dashes; either is accepted."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def version(self, request: Request) -> Response:
        """`GET /api`"""
        return json_reply({"version": own_version()})

    # Kernels

    async def specs(self, request: Request) -> Response:
        """`GET /api/kernelspecs`: a kernel for each language that is installed."""
        _key(request)
        there = await asyncio.to_thread(kernelspecs)
        return json_reply({"default": DEFAULT, "kernelspecs": there})

    async def spec(self, request: Request) -> Response:
        """`GET /api/kernelspecs/NAME`"""
        _key(request)
        return json_reply(await self._spec(request.path_params["name"]))

    async def listed(self, request: Request) -> Response:
        """`GET /api/kernels`"""
        return json_reply([kernel.to_dict() for kernel in self._kernels(_key(request))])

    async def start(self, request: Request) -> Response:
        """`POST /api/kernels`"""
        key, asked = _key(request), await schemas.read(request, _KernelAsked)
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
        self._kernel(request).kernel.interrupt()
        return Response(status_code=204)

    async def restart(self, request: Request) -> Response:
        """`POST /api/kernels/ID/restart`: same files, no variables."""
        kernel = self._kernel(request)
        await kernel.kernel.restart()
        return json_reply(kernel.to_dict())

    async def channels(self, websocket: WebSocket) -> None:
        """`WS /api/kernels/ID/channels`"""
        kernel = self._kernel(websocket)
        if len(kernel.connections) >= MOST_CONNECTIONS:
            raise Refused(429, "busy", f"a kernel has at most {MOST_CONNECTIONS} connections")
        is_v1 = V1 in websocket.scope["subprotocols"]
        await websocket.accept(V1 if is_v1 else None)
        connection = Connection(websocket, _key(websocket), is_v1=is_v1)
        with kernel.held.in_use():  # as Jupyter: a kernel somebody is connected to is not idle
            await kernel.talk(connection)

    async def _start(self, key: Key, asked: _KernelAsked, labels: Mapping[str, str]) -> HeldKernel:
        spec = await self._spec(asked.name or DEFAULT)
        with self._service.errors():
            given = {} if asked.groundbox is None else schemas.of_sandbox(asked.groundbox)
        chosen = (asked.groundbox and asked.groundbox.limits) or schemas.LimitsAsked()
        most = self._service.settings.most
        limits = dataclasses.replace(
            given.get("limits", Limits()),
            wall_s=chosen.wall_s or min(WALL_S, most.wall_s or WALL_S),
            cpu_s=chosen.cpu_s or min(WALL_S, most.cpu_s or WALL_S),
        )
        stdin = None
        if spec["spec"]["language"] == "python":
            stdin = Stdin(ASKING)
            given = {"profile": "science", **given, "tools": stdin.tools}
        given = {"restart": "auto", **given, "limits": limits}
        held = self._service.create(key, wire=_WIRE, labels={**labels, "kernel": spec["name"]}, **given)
        kernel = held.state[_WIRE] = HeldKernel(self._service, held, spec, stdin)
        return kernel

    async def _spec(self, name: str) -> dict[str, Any]:
        spec = (await asyncio.to_thread(kernelspecs)).get(name)
        if spec is None:
            raise not_found(f"kernel {name[:100]!r}; GET /api/kernelspecs lists those there are")
        return spec

    def _kernel(self, asked: Request | WebSocket) -> HeldKernel:
        sandbox_id = asked.path_params["kernel_id"].replace("-", "")
        held = self._service.sandboxes.get(_key(asked), sandbox_id)
        kernel = held.state.get(_WIRE)
        if not isinstance(kernel, HeldKernel):
            raise not_found("kernel")
        return kernel

    def _kernels(self, key: Key) -> list[HeldKernel]:
        there = (held.state.get(_WIRE) for held in self._service.sandboxes.list(key))
        return [kernel for kernel in there if isinstance(kernel, HeldKernel)]

    # Sessions: names for kernels

    async def sessions(self, request: Request) -> Response:
        """`GET /api/sessions`: every kernel is one, also those that were started without."""
        return json_reply([_session(kernel) for kernel in self._kernels(_key(request))])

    async def start_session(self, request: Request) -> Response:
        """`POST /api/sessions`: the one of that path, or a new one with its kernel."""
        key, asked = _key(request), await schemas.read(request, _SessionAsked)
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
        folders = [_content(each.id, each.id, "directory", each.kernel.active, None) for each in kernels]
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
        asked = await schemas.read(request, _ContentAsked)
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


def _session(kernel: HeldKernel) -> dict[str, Any]:
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
        "created": time_of(modified_s),
        "last_modified": time_of(modified_s),
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
    if isinstance(asked.content, memoryview) and asked.format != "base64":
        return bytes(asked.content)
    if not isinstance(asked.content, str | memoryview):
        raise InvalidArgument("content", "of a file is a text, with the format `text` or `base64`")
    try:
        if isinstance(asked.content, memoryview):
            return bodies.decoded_base64(asked.content, skips=b" \r\n")
        return base64.b64decode(asked.content) if asked.format == "base64" else asked.content.encode()
    except (binascii.Error, ValueError) as error:
        raise InvalidArgument("content", f"is not of the format {asked.format!r}: {error}") from None


def _key(asked: Request | WebSocket) -> Key:
    key: Key = asked.scope["groundbox.key"]
    key.require("run")
    return key
