"""OpenAI's containers: made, listed and deleted, with their files.

A container is a held sandbox, and its id is the sandbox's. The protocol has no request that runs code: with OpenAI,
code runs where a model asks for that within `POST /v1/responses`. Here, `POST /v1/sandboxes/ID/run` does.

A file's id is made of its container and its path, so that files which programs made have one, too, without a list of
them being kept.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from groundbox.limits import GiB, Limits
from groundbox.network import Network
from groundbox.sandbox.workdir import check_path
from groundbox.server import forms, schemas
from groundbox.server.api import download
from groundbox.server.keys import Key
from groundbox.server.protocol import AtGateway, Placing, WireProtocol
from groundbox.server.refusals import Refused, not_found
from groundbox.server.replies import json_reply
from groundbox.server.sandboxes import Held
from groundbox.server.schemas import Label, Word
from groundbox.server.service import Service

_WIRE: Final = "containers"
_FOLDER: Final = "/mnt/data"
_MEMORY: Final = {"1g": 1 * GiB, "4g": 4 * GiB, "16g": 16 * GiB, "64g": 64 * GiB}
_USUAL_PAGE, _MOST_PAGE = 20, 100
_MOST_UPLOADED: Final = 1000
_MOST_PARTS: Final = 11
"""Of a form: the file, and what clients send besides."""
_UPLOAD_BYTES: Final = 500
"""What is remembered of an upload, with the longest name that a file can have."""
_T = TypeVar("_T")


class _Expires(msgspec.Struct):
    minutes: float
    anchor: Literal["last_active_at"] = "last_active_at"


class _Policy(msgspec.Struct):
    type: Literal["disabled", "allowlist"]
    allowed_domains: Annotated[list[Label], msgspec.Meta(max_length=1000)] = []
    domain_secrets: Annotated[list[Any], msgspec.Meta(max_length=100)] | None = None


class _Asked(msgspec.Struct):
    """`POST /v1/containers`."""

    name: Label
    expires_after: _Expires | None = None
    memory_limit: Literal["1g", "4g", "16g", "64g"] | None = None
    network_policy: _Policy | None = None
    file_ids: Annotated[list[Word], msgspec.Meta(max_length=100)] | None = None
    skills: Annotated[list[Any], msgspec.Meta(max_length=100)] | None = None


class _State:
    """Facts that this wire keeps for a sandbox.

    Attributes:
        uploaded: When the client sent each file, in seconds since the epoch; the last `_MOST_UPLOADED` of them.
    """

    def __init__(self, asked: _Asked) -> None:
        self.name, self.memory_limit = asked.name, asked.memory_limit
        self.uploaded: dict[str, int] = {}

    def note(self, path: str) -> None:
        """Note that the client sent a file."""
        self.uploaded.pop(path, None)
        self.uploaded[path] = int(time.time())
        if len(self.uploaded) > _MOST_UPLOADED:
            del self.uploaded[next(iter(self.uploaded))]


def _routes(service: Service) -> list[BaseRoute]:
    """The routes of this wire."""
    wire = Containers(service)
    container, file = "/v1/containers/{container_id}", "/v1/containers/{container_id}/files/{file_id}"
    table: list[tuple[str, str, Any]] = [
        ("POST", "/v1/containers", wire.create),
        ("GET", "/v1/containers", wire.listed),
        ("GET", container, wire.show),
        ("DELETE", container, wire.close),
        ("POST", f"{container}/files", wire.upload),
        ("GET", f"{container}/files", wire.files),
        ("GET", file, wire.file),
        ("DELETE", file, wire.remove),
        ("GET", f"{file}/content", wire.content),
    ]
    return [Route(path, endpoint, methods=[method]) for method, path, endpoint in table]


class Containers:
    """The endpoints over one service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def create(self, request: Request) -> Response:
        """`POST /v1/containers`"""
        key, asked = _key(request), await schemas.read(request, _Asked)
        for name in ("file_ids", "skills"):
            if getattr(asked, name):
                raise Refused(400, "not_supported", f"{name}: there are no files or skills outside containers here")
        options: dict[str, Any] = {"restart": "auto"}
        with self._service.errors():
            if asked.memory_limit is not None:
                options["limits"] = Limits(memory_bytes=_MEMORY[asked.memory_limit])
            policy = asked.network_policy
            if policy is not None and policy.domain_secrets:
                raise Refused(400, "not_supported", "domain_secrets: take `headers` of POST /v1/sandboxes")
            if policy is not None and policy.type == "allowlist":
                options["network"] = Network(allow=policy.allowed_domains)
        idle_s = None if asked.expires_after is None else asked.expires_after.minutes * 60
        name = f"cntr_{self._service.sandboxes.new_id()}"
        labels = {"name": asked.name}
        held = self._service.create(key, wire=_WIRE, labels=labels, idle_s=idle_s, sandbox_id=name, **options)
        held.state[_WIRE] = _State(asked)
        return json_reply(_described(held))

    async def listed(self, request: Request) -> Response:
        """`GET /v1/containers?limit=&order=&after=&name=`"""
        key, name = _key(request), request.query_params.get("name")
        labels = {} if name is None else {"name": name}
        there = [held for held in self._service.sandboxes.list(key, labels) if _WIRE in held.state]
        return json_reply(_page(request, there, lambda held: held.id, _described))

    async def show(self, request: Request) -> Response:
        """`GET /v1/containers/ID`"""
        return json_reply(_described(self._held(request)))

    async def close(self, request: Request) -> Response:
        """`DELETE /v1/containers/ID`"""
        held = self._held(request)
        await self._service.sandboxes.close(held)
        return json_reply({"id": held.id, "object": "container.deleted", "deleted": True})

    # Files

    async def upload(self, request: Request) -> Response:
        """`POST /v1/containers/ID/files`: a form with `file`."""
        held = self._held(request)
        if not request.headers.get("content-type", "").startswith("multipart/form-data"):
            raise Refused(400, "not_supported", "file_id: there are no files outside containers here; send the file")
        files = await forms.read_form(request, wanted=("file",), most_parts=_MOST_PARTS)
        if len(files) != 1 or not files[0].file_name:
            raise Refused(400, "invalid_argument", "file: is needed once, with a name")
        data = files[0].data
        with self._service.errors(), held.in_use() as box:
            path = check_path("file", files[0].file_name.replace("\\", "/").rsplit("/", 1)[-1])
            if not (is_known := path in _state(held).uploaded):
                self._service.sandboxes.keep(held, _UPLOAD_BYTES, "upload")
            try:
                await box.files.write(path, data)
            except BaseException:
                self._service.sandboxes.forget(held, 0 if is_known else _UPLOAD_BYTES)
                raise
        before = len(_state(held).uploaded) + (not is_known)
        _state(held).note(path)
        self._forget(held, before - len(_state(held).uploaded))
        return json_reply(_file(held, path, len(data)))

    async def files(self, request: Request) -> Response:
        """`GET /v1/containers/ID/files?limit=&order=&after=`"""
        held = self._held(request)
        there = list((await self._all(held)).items())
        page = _page(request, there, lambda each: _file_id(held, each[0]), lambda each: _file(held, *each))
        return json_reply(page)

    async def file(self, request: Request) -> Response:
        """`GET /v1/containers/ID/files/ID`"""
        held = self._held(request)
        return json_reply(_file(held, *await self._found(held, request)))

    async def content(self, request: Request) -> Response:
        """`GET /v1/containers/ID/files/ID/content`"""
        held = self._held(request)
        path, _ = await self._found(held, request)
        with self._service.errors(), held.in_use() as box:
            return download(await box.files.read(path))

    async def remove(self, request: Request) -> Response:
        """`DELETE /v1/containers/ID/files/ID`"""
        held = self._held(request)
        path, _ = await self._found(held, request)
        with self._service.errors(), held.in_use() as box:
            await box.files.remove(path)
        if _state(held).uploaded.pop(path, None) is not None:
            self._forget(held, 1)
        name = request.path_params["file_id"]
        return json_reply({"id": name, "object": "container.file.deleted", "deleted": True})

    async def _all(self, held: Held) -> Mapping[str, int]:
        with self._service.errors(), held.in_use() as box:
            there: Mapping[str, int] = await box.files.list()
        uploaded = _state(held).uploaded
        gone = uploaded.keys() - there.keys()
        for path in gone:
            del uploaded[path]
        self._forget(held, len(gone))
        return there

    def _forget(self, held: Held, count: int) -> None:
        """Give back what was counted for uploads that are remembered no longer."""
        self._service.sandboxes.forget(held, count * _UPLOAD_BYTES)

    async def _found(self, held: Held, request: Request) -> tuple[str, int]:
        """Path and size of the file that a request names."""
        wanted = request.path_params["file_id"]
        for path, size in (await self._all(held)).items():
            if _file_id(held, path) == wanted:
                return path, size
        raise not_found("file in this container")

    def _held(self, request: Request) -> Held:
        held = self._service.sandboxes.get(_key(request), request.path_params["container_id"])
        _state(held)
        return held


def _described(held: Held) -> dict[str, Any]:
    """OpenAI's model of a container. One that is there is `running`; others are not found."""
    state = _state(held)
    told: dict[str, Any] = {
        "id": held.id,
        "object": "container",
        "created_at": int(held.created),
        "last_active_at": int(time.time() - (time.monotonic() - held.used)),
        "status": "running",
        "name": state.name,
        "memory_limit": state.memory_limit,
        "network_policy": {"type": "disabled"},
    }
    if held.idle_s is not None:
        told["expires_after"] = {"anchor": "last_active_at", "minutes": int(held.idle_s // 60)}
    if held.box.network.allow:
        told["network_policy"] = {"type": "allowlist", "allowed_domains": list(held.box.network.allow)}
    return told


def _file(held: Held, path: str, size: int) -> dict[str, Any]:
    uploaded = _state(held).uploaded.get(path)
    return {
        "id": _file_id(held, path),
        "object": "container.file",
        "container_id": held.id,
        "created_at": int(held.created) if uploaded is None else uploaded,
        "bytes": size,
        "path": f"{_FOLDER}/{path}",
        "source": "assistant" if uploaded is None else "user",
    }


def _file_id(held: Held, path: str) -> str:
    return "cfile_" + hashlib.sha256(f"{held.id}/{path}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _page(
    request: Request, items: Sequence[_T], id_of: Callable[[_T], str], describe: Callable[[_T], dict[str, Any]]
) -> dict[str, Any]:
    """Return a page of a list: the newest first, as OpenAI's lists are, unless `order=asc`."""
    query = request.query_params
    limit, order = query.get("limit", str(_USUAL_PAGE)), query.get("order", "desc")
    if len(limit) > 3 or not limit.isdecimal() or not 1 <= int(limit) <= _MOST_PAGE:
        raise Refused(400, "invalid_argument", f"limit: must be a whole number from 1 to {_MOST_PAGE}")
    if order not in ("asc", "desc"):
        raise Refused(400, "invalid_argument", "order: must be `asc` or `desc`")
    ordered = list(items) if order == "asc" else list(reversed(items))
    after = query.get("after")
    if after is not None:
        at = next((at for at, each in enumerate(ordered) if id_of(each) == after), None)
        if at is None:
            raise not_found("item to go on after")
        ordered = ordered[at + 1 :]
    page = [describe(each) for each in ordered[: int(limit)]]
    ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {"first_id": None, "last_id": None}
    return {"object": "list", "data": page, **ends, "has_more": len(ordered) > len(page)}


def _state(held: Held) -> _State:
    state = held.state.get(_WIRE)
    if not isinstance(state, _State):
        raise not_found("container")
    return state


def _key(request: Request) -> Key:
    key: Key = request.scope["groundbox.key"]
    key.require("run")
    return key


PROTOCOL: Final = WireProtocol(
    routes=_routes,
    bodies={("POST", "/v1/containers"): _Asked},
    at_gateway=AtGateway(placed={"/v1/containers": Placing(stays=True)}),
)
