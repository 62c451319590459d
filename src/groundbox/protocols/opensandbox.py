"""OpenSandbox: its lifecycle of sandboxes and the part of its daemon that runs code, commands and files.

Everything is under `/opensandbox`, because its own paths are those of other protocols here: LiteLLM is told
`http://HOST:PORT/opensandbox`, OpenSandbox's clients the domain `HOST:PORT/opensandbox`, to which they add `/v1`. The
daemon of a sandbox (`execd`, port 44772) is `/opensandbox/execd/ID` of this server. Clients send no key there but what
the reply about an endpoint tells them to send: the one that it was asked with, which goes to nobody else.

In a stream an object with `code` and `message` would be taken for an error of the program. So a refusal is told by the
status of the reply where that is still possible, and by cutting the connection where it is not.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shlex
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final, Literal
from urllib.parse import parse_qsl, urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from groundbox.errors import InvalidArgument
from groundbox.execution import Event, Execution
from groundbox.jupyter.kernel import error_of, notes_of
from groundbox.limits import Limits
from groundbox.network import Network
from groundbox.protocols.fields import Arguments, Variables
from groundbox.sandbox import languages
from groundbox.server import bodies, forms, schemas
from groundbox.server.api import download
from groundbox.server.keeping import size_of
from groundbox.server.keys import Key
from groundbox.server.protocol import AtGateway, Nodes, Placing, Rewrite, Scope, WireProtocol, missing_header
from groundbox.server.refusals import Refused, not_found
from groundbox.server.replies import SSE, Streamed, encoded, json_reply, on_one_line
from groundbox.server.sandboxes import Held
from groundbox.server.schemas import Argument, Path, Text, Word
from groundbox.server.service import Ran, Service

_WIRE: Final = "opensandbox"
_EXECD_PORT: Final = 44772
_EGRESS_PORT: Final = 18080
_HEADER: Final = "OPEN-SANDBOX-API-KEY"
_ENVIRONMENT: Final = re.compile(r"groundbox/([A-Za-z0-9_.-]+)(?::[A-Za-z0-9_.-]+)?")
_QUANTITY: Final = re.compile(r"(\d+(?:\.\d+)?)(|k|M|G|T|Ki|Mi|Gi|Ti)")
_MOST_FILES: Final = 1000
_MOST_METADATA_BYTES: Final = 16 * 1024
_MOST_KEPT_CHARS: Final = 64 * 1024
"""Of the entrypoint and the image of a sandbox, which are kept for as long as it lives."""
_QUANTITY_CHARS: Final = 32
_UNITS: Final = {"": 1, **{f"{each}": 1000**at for at, each in enumerate("kMGT", 1)}} | {
    f"{each}i": 1024**at for at, each in enumerate("KMGT", 1)
}
_WALL_S: Final = 600.0
"""Of one run, where the request names no time; the protocol has none for code."""
_INIT_S: Final = 0.5
_MOST_PAGE: Final = 200
_LISTS: Final = ("/opensandbox/sandboxes", "/opensandbox/v1/sandboxes")
_ENDPOINT: Final = re.compile(r"/opensandbox/(?:v1/)?sandboxes/[0-9a-f]+/endpoints/\d+")
_PROBE: Final = "/dev/tcp/127.0.0.1/${JUPYTER_PORT:-44771}"
"""Part of a command by which the code interpreter's client sees whether code can be run; no port tells that here."""


class _Image(msgspec.Struct):
    uri: Path = ""


class _Rule(msgspec.Struct):
    target: Path
    action: Literal["allow", "deny"] = "allow"


class _Policy(msgspec.Struct, rename="camel"):
    default_action: Literal["allow", "deny"] = "deny"
    egress: Annotated[list[_Rule], msgspec.Meta(max_length=1000)] = []


class _CreateAsked(msgspec.Struct, rename="camel"):
    """`POST /sandboxes`. What is not named here is not looked at."""

    LONG: ClassVar[bodies.Long] = {"entrypoint": bodies.ARGUMENT, "env": bodies.ARGUMENT}

    image: _Image | None = None
    entrypoint: Arguments = []
    timeout: float | None = None
    resource_limits: Annotated[dict[Word, Path], msgspec.Meta(max_length=100)] = {}
    env: Annotated[dict[Word, Argument | None], msgspec.Meta(max_length=1000)] | None = None
    metadata: Annotated[dict[Path, Path], msgspec.Meta(max_length=1000)] = {}
    network_policy: _Policy | None = None
    snapshot_id: Path | None = None
    template_id: Path | None = None
    volumes: Annotated[list[Any], msgspec.Meta(max_length=100)] | None = None


class _RenewAsked(msgspec.Struct, rename="camel"):
    expires_at: datetime


class _Context(msgspec.Struct):
    language: Word = "python"
    id: Word | None = None


class _CodeAsked(msgspec.Struct):
    """`POST /code`."""

    LONG: ClassVar[bodies.Long] = {"code": bodies.TEXT}

    code: Text
    context: _Context = msgspec.field(default_factory=_Context)


class _CommandAsked(msgspec.Struct):
    """`POST /command`. `timeout` is in milliseconds."""

    LONG: ClassVar[bodies.Long] = {
        "command": bodies.TEXT,
        "argv": bodies.ARGUMENT,
        "envs": bodies.ARGUMENT,
    }

    command: Text | None = None
    argv: Arguments | None = None
    cwd: Path | None = None
    background: bool = False
    timeout: int | None = None
    envs: Variables | None = None


class _Uploaded(msgspec.Struct):
    path: Path
    mode: int | None = None


_Folders = Annotated[dict[Path, Any], msgspec.Meta(max_length=_MOST_FILES)]


class _State:
    """Facts that this wire keeps for a sandbox.

    Attributes:
        contexts: Language by id.
        image: URI of the image, which descriptions repeat; None if none was named.
    """

    def __init__(self, asked: _CreateAsked) -> None:
        self.image = asked.image.uri if asked.image else None
        self.entrypoint, self.count = asked.entrypoint, 0
        self.contexts: dict[str, str] = {}
        self.running: set[str] = set()


def _routes(service: Service) -> list[BaseRoute]:
    """The routes of this wire."""
    wire = OpenSandbox(service)
    execd = "/opensandbox/execd/{sandbox_id}"
    table: list[tuple[str, str, Any]] = [
        ("GET", f"{execd}/ping", wire.ping),
        ("POST", f"{execd}/code", wire.code),
        ("DELETE", f"{execd}/code", wire.interrupt),
        ("POST", f"{execd}/code/context", wire.make_context),
        ("GET", f"{execd}/code/contexts", wire.contexts),
        ("DELETE", f"{execd}/code/contexts", wire.drop_contexts),
        ("GET", execd + "/code/contexts/{context_id}", wire.context),
        ("DELETE", execd + "/code/contexts/{context_id}", wire.drop_context),
        ("POST", f"{execd}/command", wire.command),
        ("DELETE", f"{execd}/command", wire.interrupt),
        ("POST", f"{execd}/files/upload", wire.upload),
        ("GET", f"{execd}/files/download", wire.download),
        ("GET", f"{execd}/files/info", wire.files_info),
        ("DELETE", f"{execd}/files", wire.remove),
        ("DELETE", f"{execd}/directories", wire.remove),
        ("POST", f"{execd}/directories", wire.make_folders),
    ]
    for base in _LISTS:
        box = base + "/{sandbox_id}"
        table += [
            ("POST", base, wire.create),
            ("GET", base, wire.listed),
            ("GET", box, wire.show),
            ("DELETE", box, wire.close),
            ("POST", f"{box}/renew-expiration", wire.renew),
            ("GET", box + "/endpoints/{port:int}", wire.endpoint),
        ]
    return [Route(path, endpoint, methods=[method]) for method, path, endpoint in table]


class OpenSandbox:
    """The endpoints over one service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    # Lifecycle

    async def create(self, request: Request) -> Response:
        """`POST /sandboxes`"""
        key, asked = _key(request), await schemas.read(request, _CreateAsked)
        with self._service.errors():
            options = _options_of(asked, self._service.settings.most)
        kept_bytes = size_of([asked.entrypoint, asked.image.uri if asked.image else ""])
        held = self._service.create(
            key, wire=_WIRE, labels=asked.metadata, total_s=asked.timeout, kept_bytes=kept_bytes, **options
        )
        held.state[_WIRE] = _State(asked)
        return json_reply(_described(held), 202)

    async def listed(self, request: Request) -> Response:
        """`GET /sandboxes?metadata=&state=&page=&pageSize=`"""
        key, query = _key(request), request.query_params
        try:
            wanted = dict(parse_qsl(query.get("metadata", ""), keep_blank_values=True, max_num_fields=64))
        except ValueError:
            raise Refused(400, "invalid_argument", "metadata: has at most 64 names") from None
        states = query.getlist("state")
        there = [each for each in self._service.sandboxes.list(key, wanted) if _WIRE in each.state]
        there = there if not states or "Running" in states else []
        page, size = _whole_number(query.get("page"), 1, 10**6), _whole_number(query.get("pageSize"), 20, _MOST_PAGE)
        told = _page_of(there, page, size)
        return json_reply({**told, "items": [_described(each) for each in told["items"]]})

    async def show(self, request: Request) -> Response:
        """`GET /sandboxes/ID`"""
        return json_reply(_described(self._held(request)))

    async def close(self, request: Request) -> Response:
        """`DELETE /sandboxes/ID`"""
        await self._service.sandboxes.close(self._held(request))
        return Response(status_code=204)

    async def renew(self, request: Request) -> Response:
        """`POST /sandboxes/ID/renew-expiration`"""
        held, asked = self._held(request), await schemas.read(request, _RenewAsked)
        until = asked.expires_at if asked.expires_at.tzinfo else asked.expires_at.replace(tzinfo=UTC)
        with self._service.errors():
            self._service.sandboxes.extend(held, until.timestamp() - time.time())
        return json_reply({"expiresAt": _described(held)["expiresAt"]})

    async def endpoint(self, request: Request) -> Response:
        """`GET /sandboxes/ID/endpoints/PORT`: the daemon's alone; a guest's own ports are not reached from outside."""
        held, port = self._held(request), request.path_params["port"]
        if port not in (_EXECD_PORT, _EGRESS_PORT):
            raise not_found(f"endpoint: port {port} of a sandbox cannot be reached from outside")
        what = "execd" if port == _EXECD_PORT else "egress"
        host = request.headers.get("host", "localhost")
        # Through a gateway, which says where its client asks and with which key (`_endpoint_behind`).
        headers = {} if "groundbox.fleet" in request.scope else _key_sent(request.headers)
        return json_reply({"endpoint": f"{host}/opensandbox/{what}/{held.id}", "headers": headers})

    # The daemon: code and commands

    async def ping(self, request: Request) -> Response:
        """`GET /ping`"""
        self._held(request)
        return Response(status_code=200)

    async def code(self, request: Request) -> Response:
        """`POST /code`: a stream of events."""
        key, held = _key(request), self._held(request)
        asked, state = await schemas.read(request, _CodeAsked), _state(held)
        language = asked.context.language
        if asked.context.id is not None:
            language = self._context(state, asked.context.id)
        with self._service.errors():
            languages.find(language)  # so that an unknown one has its status, and no stream
        state.count += 1
        events = self._service.stream_in(key, held, asked.code, language=languages.named(language))
        return self._streamed(state, events, count=state.count)

    async def command(self, request: Request) -> Response:
        """`POST /command`: a stream of events."""
        key, held = _key(request), self._held(request)
        asked, state = await schemas.read(request, _CommandAsked), _state(held)
        if asked.background:
            raise Refused(400, "not_supported", "background: commands are run in the foreground here")
        if (asked.command is None) == (not asked.argv):
            raise Refused(400, "invalid_argument", "command: one of `command` and `argv` is needed")
        text = asked.command if asked.command is not None else shlex.join(asked.argv or ())
        options: dict[str, Any] = {"language": "shell", "mode": "command", "cwd": asked.cwd, "env": asked.envs}
        if asked.timeout is not None:
            options["wall_s"] = asked.timeout / 1000
        options = {name: value for name, value in options.items() if value is not None}
        events = _ready() if _PROBE in text else self._service.stream_in(key, held, text, **options)
        return self._streamed(state, events, count=None)

    async def interrupt(self, request: Request) -> Response:
        """`DELETE /code?id=` and `DELETE /command?id=`"""
        held = self._held(request)
        if request.query_params.get("id") not in _state(held).running:
            raise not_found("execution that runs")
        held.box.interrupt()
        return Response(status_code=200)

    def _streamed(
        self, state: _State, events: AsyncGenerator[Event | Ran | None, None], *, count: int | None
    ) -> Streamed:
        return Streamed(
            self._parts(state, events, count),
            media_type=SSE,
            heartbeat=b": still running\n\n",
            heartbeat_s=self._service.settings.heartbeat_s,
            refused=self._cut,
        )

    def _cut(self, refused: Refused) -> bytes:
        """Half of a reply is out: the connection is cut, because an event would be an error of the program."""
        self._service.metrics.refused(refused.code)
        raise ConnectionAbortedError

    async def _parts(
        self, state: _State, events: AsyncGenerator[Event | Ran | None, None], count: int | None
    ) -> AsyncGenerator[bytes, None]:
        """Events as the daemon tells them: `init` first, which a client needs to interrupt the run."""
        name = f"{time.time_ns():x}"
        first = asyncio.ensure_future(anext(events))
        try:
            await asyncio.wait((first,), timeout=_INIT_S)
            if first.done():
                first.result()  # a refusal has its status as long as nothing was sent
            state.running.add(name)
            yield _event("init", text=name)
            yield _told_of(await first, count)
            async for item in events:
                yield _told_of(item, count)
        finally:
            state.running.discard(name)
            if not first.done():
                first.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await first
            await events.aclose()

    # The daemon: contexts

    async def make_context(self, request: Request) -> Response:
        """`POST /code/context`: at most one for each language, because contexts would share their variables."""
        state, asked = _state(self._held(request)), await schemas.read(request, _Context)
        with self._service.errors():
            languages.find(asked.language)
        if any(languages.named(each) == languages.named(asked.language) for each in state.contexts.values()):
            told = "a sandbox has one context for each language; delete the other one, or take another sandbox"
            raise Refused(400, "not_supported", told)
        name = f"{len(state.contexts)}{time.time_ns():x}"
        state.contexts[name] = asked.language
        return json_reply({"id": name, "language": asked.language})

    async def contexts(self, request: Request) -> Response:
        """`GET /code/contexts?language=`"""
        language = request.query_params.get("language")
        there = _state(self._held(request)).contexts.items()
        return json_reply([{"id": name, "language": each} for name, each in there if language in (None, each)])

    async def context(self, request: Request) -> Response:
        """`GET /code/contexts/ID`"""
        name = request.path_params["context_id"]
        return json_reply({"id": name, "language": self._context(_state(self._held(request)), name)})

    async def drop_context(self, request: Request) -> Response:
        """`DELETE /code/contexts/ID`: its variables go with the process."""
        held, name = self._held(request), request.path_params["context_id"]
        self._context(_state(held), name)
        await self._dropped(held, [name])
        return Response(status_code=200)

    async def drop_contexts(self, request: Request) -> Response:
        """`DELETE /code/contexts?language=`"""
        held, language = self._held(request), request.query_params.get("language")
        await self._dropped(held, [name for name, each in _state(held).contexts.items() if each == language])
        return Response(status_code=200)

    def _context(self, state: _State, name: str) -> str:
        if name not in state.contexts:
            raise not_found("context")
        return state.contexts[name]

    async def _dropped(self, held: Held, names: Sequence[str]) -> None:
        if names:
            with self._service.errors(), held.in_use() as box:
                await box.restart()
        for name in names:
            _state(held).contexts.pop(name, None)

    # The daemon: files

    async def upload(self, request: Request) -> Response:
        """`POST /files/upload`: pairs of `metadata` and `file`."""
        held = self._held(request)
        parts = await forms.read_form(request, wanted=("metadata", "file"), most_parts=2 * _MOST_FILES)
        metadata, files = ([each.data for each in parts if each.name == name] for name in ("metadata", "file"))
        if len(metadata) != len(files):
            raise Refused(400, "invalid_argument", "metadata: each file has its own")
        if len(files) > _MOST_FILES:
            raise Refused(400, "invalid_argument", f"file: there may be at most {_MOST_FILES}")
        if any(len(each) > _MOST_METADATA_BYTES for each in metadata):
            raise Refused(400, "invalid_argument", f"metadata: must have at most {_MOST_METADATA_BYTES} bytes")
        with self._service.errors(), held.in_use() as box:
            for each, data in zip(metadata, files, strict=True):
                asked = schemas.decoded(bytes(each), _Uploaded)
                mode = None if asked.mode is None else _mode(asked.mode)
                await box.guest_files.write(asked.path, data, mode=mode)
        return Response(status_code=200)

    async def download(self, request: Request) -> Response:
        """`GET /files/download?path=`, whole, or the range of bytes that the header `Range` names."""
        with self._service.errors(), self._held(request).in_use() as box:
            data = await box.guest_files.read(_path(request))
        asked = re.fullmatch(r"bytes=(\d{1,18})-(\d{0,18})", request.headers.get("range", ""))
        if asked is None:
            return download(data)
        begin, end = int(asked[1]), min(int(asked[2] or len(data)), len(data) - 1)
        if begin > end:
            raise Refused(416, "invalid_range", f"the file has {len(data)} bytes")
        reply = download(data[begin : end + 1], headers={"Content-Range": f"bytes {begin}-{end}/{len(data)}"})
        reply.status_code = 206
        return reply

    async def files_info(self, request: Request) -> Response:
        """`GET /files/info?path=&path=`"""
        told = {}
        with self._service.errors(), self._held(request).in_use() as box:
            for path in _paths(request):
                entry = await box.guest_files.stat(path)
                at = _time(entry.modified_s)
                told[path] = {
                    "path": path,
                    "size": entry.size_bytes,
                    "modified_at": at,
                    "created_at": at,
                    "owner": "",
                    "group": "",
                    "mode": int(f"{entry.mode:o}"),
                    "type": {"folder": "directory", "link": "symlink"}.get(entry.kind, entry.kind),
                }
        return json_reply(told)

    async def remove(self, request: Request) -> Response:
        """`DELETE /files?path=` and `DELETE /directories?path=`"""
        with self._service.errors(), self._held(request).in_use() as box:
            for path in _paths(request):
                await box.guest_files.remove(path)
        return Response(status_code=200)

    async def make_folders(self, request: Request) -> Response:
        """`POST /directories`: an object whose names are paths; owners and modes are not looked at."""
        held = self._held(request)
        asked: Mapping[str, Any] = await (await bodies.read(request)).decoded(_Folders)
        with self._service.errors(), held.in_use() as box:
            for path in asked:
                await box.guest_files.mkdir(path)
        return Response(status_code=200)

    def _held(self, request: Request) -> Held:
        held = self._service.sandboxes.get(_key(request), request.path_params["sandbox_id"])
        _state(held)
        return held


def _options_of(asked: _CreateAsked, most: Limits) -> dict[str, Any]:
    """Arguments of a sandbox.

    Raises:
        Refused, InvalidArgument: It asks for what there is not.
    """
    for name, value in (("snapshotId", asked.snapshot_id), ("templateId", asked.template_id)):
        if value:
            raise Refused(400, "not_supported", f"{name}: sandboxes are made afresh here")
    if asked.volumes:
        raise Refused(400, "not_supported", "volumes: no folder of the host is mounted into sandboxes")
    memory = asked.resource_limits.get("memory")
    limits = Limits(
        wall_s=min(_WALL_S, most.wall_s or _WALL_S),
        cpu_s=min(_WALL_S, most.cpu_s or _WALL_S),
        memory_bytes=Limits().memory_bytes if memory is None else _quantity("resourceLimits.memory", memory),
    )
    described = len(asked.image.uri if asked.image else "") + sum(len(each) + 64 for each in asked.entrypoint)
    if described > _MOST_KEPT_CHARS:
        raise Refused(400, "invalid_argument", f"entrypoint: has at most {_MOST_KEPT_CHARS} characters in all")
    options: dict[str, Any] = {"restart": "auto", "limits": limits}
    if asked.env:
        options["env"] = {name: value for name, value in asked.env.items() if value is not None}
    image = _ENVIRONMENT.fullmatch(asked.image.uri) if asked.image else None
    if image is not None:
        options["environment"] = image[1]
    policy = asked.network_policy
    if policy is not None:
        if policy.default_action == "allow":
            raise Refused(400, "not_supported", "networkPolicy: deny by default, and name the hosts to allow")
        options["network"] = Network(allow=[each.target for each in policy.egress if each.action == "allow"])
    return options


def _quantity(name: str, text: str) -> int:
    """A quantity of Kubernetes in bytes."""
    found = _QUANTITY.fullmatch(text) if len(text) <= _QUANTITY_CHARS else None
    if found is None:
        raise InvalidArgument(name, f"must be a quantity such as 512Mi or 2Gi, not {text[:50]!r}")
    return int(float(found[1]) * _UNITS[found[2]])


def _described(held: Held) -> dict[str, Any]:
    """OpenSandbox's model of a sandbox. One that is there runs; others are not found."""
    state = _state(held)
    told: dict[str, Any] = {
        "id": held.id,
        "status": {"state": "Running"},
        "createdAt": _time(held.created),
        "expiresAt": _time(time.time() + held.left_s),
        "entrypoint": state.entrypoint,
        "metadata": dict(held.labels),
    }
    return told | ({} if state.image is None else {"image": {"uri": state.image}})


def _told_of(item: Event | Ran | None, count: int | None) -> bytes:
    """The daemon's events for one of ours. `count` numbers code; commands have none."""
    if item is None:
        return _event("execution_complete", execution_time=0)
    if not isinstance(item, Ran):
        if item.display is not None:
            return _event("result", results=_results(item.display.data))
        return _event(item.kind, text=item.text) if item.text else b""  # nothing there clears what was shown
    execution, parts = item.execution, []
    parts += [_event("stderr", text=f"groundbox: {each}\n") for each in notes_of(execution)]
    if execution.value is not None and count is not None:
        parts.append(_event("result", results=_results(execution.value)))
    if count is not None:
        parts.append(_event("execution_count", execution_count=count))
    if execution.error is not None:
        parts.append(_event("error", error=_error_of(execution, is_command=count is None)))
    else:
        parts.append(_event("execution_complete", execution_time=round(execution.usage.wall_s * 1000)))
    return b"".join(parts)


def _event(kind: str, **fields: Any) -> bytes:
    """Return an event as one line with its prefix: both clients read lines."""
    return b"data: " + on_one_line({"type": kind, **fields, "timestamp": round(time.time() * 1000)}) + b"\n\n"


def _results(bundle: Mapping[str, Any]) -> dict[str, Any]:
    """A MIME bundle; the plain text is called `text` by OpenSandbox's clients."""
    text = bundle.get("text/plain")
    return {**({} if text is None else {"text": text}), **bundle}


def _error_of(execution: Execution, *, is_command: bool) -> dict[str, Any]:
    assert execution.error is not None
    told = error_of(execution.error)
    if is_command and execution.exit_code is not None:  # the client reads the exit code there
        told |= {"ename": "CommandExecError", "evalue": str(execution.exit_code)}
    return told


async def _ready() -> AsyncGenerator[Event | Ran | None, None]:
    """A run that there is no need for."""
    yield None


def _mode(digits: int) -> int:
    """Permission bits, which this protocol writes as the decimal number of their octal digits."""
    try:
        return int(str(digits), 8) & 0o777
    except ValueError:
        raise InvalidArgument("mode", f"must be octal digits such as 644, not {digits}") from None


def _paths(request: Request) -> list[str]:
    paths = request.query_params.getlist("path")
    if len(paths) > _MOST_FILES:
        raise Refused(400, "invalid_argument", f"path: there may be at most {_MOST_FILES}")
    return paths


def _path(request: Request) -> str:
    path = request.query_params.get("path")
    if not path:
        raise Refused(400, "invalid_argument", "path: is needed")
    return path


def _endpoint_behind(body: bytes, headers: Mapping[str, str]) -> bytes:
    """A node's reply about an endpoint, as its gateway gives it to a client with these headers."""
    told = msgspec.json.decode(body)
    path = told["endpoint"][told["endpoint"].index("/") :]
    return encoded({"endpoint": headers.get("host", "localhost") + path, "headers": _key_sent(headers)})


def _key_sent(headers: Mapping[str, str]) -> dict[str, str]:
    """The header by which a client brings the key again that it brought now, where it is to bring one."""
    scheme, _, bearer = headers.get("authorization", "").partition(" ")
    key = headers.get(_HEADER.lower()) or headers.get("x-api-key")
    key = key or (bearer if scheme.lower() in ("bearer", "token") else None)
    return {_HEADER: key} if key else {}


def _page_of(items: Sequence[Any], page: int, size: int) -> dict[str, Any]:
    """A page of a list, with OpenSandbox's facts about pages."""
    pages = -(-len(items) // size)
    told = {"page": page, "pageSize": size, "totalItems": len(items), "totalPages": pages}
    return {"items": items[(page - 1) * size : page * size], "pagination": {**told, "hasNextPage": page < pages}}


def _whole_number(text: str | None, usual: int, most: int) -> int:
    """A number of a query, or the usual one.

    Raises:
        Refused: It is not from 1 to `most`.
    """
    if text is None:
        return usual
    if len(text) > 10 or not text.isdecimal() or not 1 <= int(text) <= most:
        raise Refused(400, "invalid_argument", f"a page is a whole number from 1 to {most}")
    return int(text)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _state(held: Held) -> _State:
    state = held.state.get(_WIRE)
    if not isinstance(state, _State):
        raise not_found("sandbox")
    return state


def _key(request: Request) -> Key:
    key: Key = request.scope["groundbox.key"]
    key.require("run")
    return key


# At a gateway


async def _merge_pages(scope: Scope, nodes: Nodes) -> Response:
    """Answer a page of the list of sandboxes, of those of all nodes, the oldest first."""
    query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    asked = dict(query)
    number = _whole_number(asked.get("page"), 1, 10**6)
    size = _whole_number(asked.get("pageSize"), 20, _MOST_PAGE)
    kept = [each for each in query if each[0] not in ("page", "pageSize")]
    items: list[Any] = []
    missing: list[str] = []
    left, page = None, 1
    while left is None or left:  # the nodes that have more pages
        of_page = urlencode([*kept, ("page", page), ("pageSize", _MOST_PAGE)]).encode()
        answers = await nodes.ask_all({**scope, "query_string": of_page}, left)
        if answers.refusal is not None:
            return answers.refusal
        missing += answers.missing
        decoded = [(answer.node, msgspec.json.decode(answer.body)) for answer in answers.given]
        items += [item for _, each in decoded for item in each["items"]]
        left, page = [node for node, each in decoded if each["pagination"]["hasNextPage"]], page + 1
    items.sort(key=lambda item: (item["createdAt"], item["id"]))
    return json_reply(_page_of(items, number, size), headers=missing_header(missing))


def _rewrite_of(path: str) -> Rewrite | None:
    return _endpoint_behind if _ENDPOINT.fullmatch(path) else None


PROTOCOL: Final = WireProtocol(
    routes=_routes,
    key_headers=(_HEADER.lower(),),
    bodies={
        **{("POST", base): _CreateAsked for base in _LISTS},
        **{("POST", base + "/{sandbox_id}/renew-expiration"): _RenewAsked for base in _LISTS},
        ("POST", "/opensandbox/execd/{sandbox_id}/code"): _CodeAsked,
        ("POST", "/opensandbox/execd/{sandbox_id}/code/context"): _Context,
        ("POST", "/opensandbox/execd/{sandbox_id}/command"): _CommandAsked,
    },
    at_gateway=AtGateway(  # ids of sandboxes in paths are found by every gateway
        placed=dict.fromkeys(_LISTS, Placing(stays=True, is_harmless=True)),
        merged={("GET", base): _merge_pages for base in _LISTS},
        rewrite_of=_rewrite_of,
    ),
)
