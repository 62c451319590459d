"""The control plane: sandboxes are made, found, kept longer and ended, by who has an API key."""

from __future__ import annotations

import dataclasses
import datetime
import os
from collections.abc import Sequence
from typing import Annotated, Any, Final, NoReturn
from urllib.parse import parse_qsl, unquote

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from groundbox.errors import InvalidArgument
from groundbox.limits import Limits, MiB
from groundbox.network import Network
from groundbox.server import bodies
from groundbox.server.keeping import size_of
from groundbox.server.keys import Key
from groundbox.server.refusals import Refused, not_found
from groundbox.server.replies import json_reply
from groundbox.server.sandboxes import Held
from groundbox.server.schemas import Argument, Label, Word, read
from groundbox.server.service import Service
from groundbox.server.wires.e2b.access import WIRE, State
from groundbox.server.wires.e2b.code import with_usual_contexts
from groundbox.server.wires.e2b.templates import Templates

ENVD_VERSION: Final = "0.5.8"
"""SDKs go by it: from 0.5.2 on standard input can be closed, from 0.5.7 on files are sent as they are; metadata of
files (0.6.2) and entries in events of folders (0.6.3) are not there, and SDKs say so themselves."""
_USUAL_TIMEOUT_S: Final = 300
_ALL_TRAFFIC: Final = frozenset({"0.0.0.0/0", "::/0"})
_MOST_PAGE: Final = 100


Hosts = Annotated[list[Label], msgspec.Meta(max_length=1000)]


class _NetworkAsked(msgspec.Struct, kw_only=True):
    allowOut: Hosts | None = None
    denyOut: Hosts | None = None
    rules: dict[str, Any] | None = None
    egressProxy: Any = None
    dnsServers: Hosts | None = None
    allow_internet_access: bool | None = None


class _Asked(msgspec.Struct, kw_only=True):
    templateID: Word
    timeout: int | None = None
    autoPause: bool | None = None
    allow_internet_access: bool | None = None
    metadata: dict[Label, Label] | None = None
    envVars: dict[Argument, Argument] | None = None
    network: _NetworkAsked | None = None
    mcp: Any = None
    volumeMounts: list[Any] | None = None
    iam: Any = None


class _TimeoutAsked(msgspec.Struct, kw_only=True):
    timeout: int | None = None


class Control:
    """The routes of the control plane."""

    def __init__(self, service: Service, templates: Templates) -> None:
        self._service, self._templates = service, templates

    def routes(self) -> list[Route]:
        """All of them."""
        box = "/sandboxes/{sandbox_id}"
        table: list[tuple[str, str, Any]] = [
            ("POST", "/v2/sandboxes", self.create),
            ("POST", "/sandboxes", self.create),
            ("GET", "/v2/sandboxes", self.listed),
            ("GET", "/sandboxes", self.listed),
            ("POST", f"/v2{box}/connect", self.connect),
            ("POST", f"{box}/connect", self.connect),
            ("GET", box, self.show),
            ("DELETE", box, self.close),
            ("POST", f"{box}/timeout", self.timeout),
            ("GET", f"{box}/metrics", self.metrics),
            ("PUT", f"{box}/network", self.network),
            ("POST", f"{box}/pause", self.pause),
            ("POST", f"{box}/resume", self.pause),
            ("POST", f"{box}/snapshots", self.snapshot),
            ("POST", f"{box}/fork", self.fork),
            ("GET", "/snapshots", self.snapshots),
        ]
        return [Route(path, endpoint, methods=[method]) for method, path, endpoint in table]

    async def create(self, request: Request) -> Response:
        """`POST /v2/sandboxes`"""
        key, body = _key(request), await bodies.read(request)
        asked: _Asked = await body.decoded(_Asked)

        async def work() -> dict[str, Any]:
            with self._service.errors():
                return _told(self._created(key, asked))

        name = request.headers.get("idempotency-key")
        return json_reply(await self._service.replies.once(key, name, b"e2b.create\0" + body.digest, work), 201)

    def _created(self, key: Key, asked: _Asked) -> Held:
        _refuse_what_is_not_there(asked)
        settings = self._service.settings
        timeout_s = _USUAL_TIMEOUT_S if asked.timeout is None else asked.timeout
        if not 0 < timeout_s <= settings.total_s:
            told = f"Timeout cannot be greater than {settings.total_s:g} seconds on this server, nor below 1"
            raise Refused(400, "invalid_argument", told)
        options: dict[str, Any] = {"restart": "auto", "limits": _limits(settings.most)}
        if asked.templateID.startswith("code-interpreter"):
            options["profile"] = "science"
        template = self._templates.find(key, asked.templateID)
        if template.environment:
            options["environment"] = template.environment
        # Programs of one sandbox talk to each other, as they do in E2B's.
        hosts = _hosts(asked.network)
        options["network"] = Network(allow=hosts, loopback=True) if hosts else settings.loopback
        state = State(template=asked.templateID, envs={**template.envs, **(asked.envVars or {})})
        if template.warning:
            state.notes.append(template.warning)
        with_usual_contexts(state)
        kept_bytes = size_of({"": state.template, **state.envs})
        held = self._service.create(
            key, wire=WIRE, labels=asked.metadata, total_s=timeout_s, kept_bytes=kept_bytes, **options
        )
        held.state[WIRE] = state
        held.box.use_aide()
        return held

    async def connect(self, request: Request) -> Response:
        """`POST /v2/sandboxes/ID/connect`: the token again, and the time is lengthened, never shortened."""
        held = self._held(request)
        asked = await read(request, _TimeoutAsked)
        if asked.timeout is not None and asked.timeout > held.left_s:
            with self._service.errors():
                self._service.sandboxes.extend(held, asked.timeout)
        return json_reply(_told(held))

    async def listed(self, request: Request) -> Response:
        """`GET /v2/sandboxes`: in pages, whose next one `X-Next-Token` names."""
        key, query = _key(request), request.query_params
        labels = {unquote(name): unquote(value) for name, value in parse_qsl(query.get("metadata", ""))}
        states = query.get("state", "running").split(",")
        limit = query.get("limit", str(_MOST_PAGE))
        if not (limit.isascii() and limit.isdigit() and len(limit) < 9 and int(limit) > 0):
            raise Refused(400, "invalid_argument", "limit: must be a whole number above 0")
        found = [held for held in self._service.sandboxes.list(key, labels) if WIRE in held.state]
        if template := query.get("template"):
            found = [held for held in found if held.state[WIRE].template == template]
        if after := query.get("startedAfter"):
            begun = _seconds(after)
            found = [held for held in found if _seconds(_iso(held.created)) >= begun]  # rounded as it was told
        found.sort(key=_place, reverse=query.get("order", "desc") != "asc")
        begin = 0
        if token := query.get("nextToken"):
            begin = next((number for number, held in enumerate(found, 1) if held.id == token), len(found))
        page = found[begin : begin + min(int(limit), _MOST_PAGE)] if "running" in states else []
        headers = {"X-Next-Token": page[-1].id} if page and page[-1] is not found[-1] else {}
        return json_reply([_shown(held) for held in page], headers=headers)

    async def show(self, request: Request) -> Response:
        """`GET /sandboxes/ID`"""
        held = self._held(request)
        allow = list(held.box.network.allow)
        more = {
            "allowInternetAccess": bool(allow),
            "network": {"allowOut": allow, "denyOut": ["0.0.0.0/0"]},
            "lifecycle": {"onTimeout": "kill", "autoResume": False},
        }
        return json_reply({**_shown(held), **more, "envdAccessToken": held.state[WIRE].token})

    async def close(self, request: Request) -> Response:
        """`DELETE /sandboxes/ID`"""
        await self._service.sandboxes.close(self._held(request))
        return Response(status_code=204)

    async def timeout(self, request: Request) -> Response:
        """`POST /sandboxes/ID/timeout`: from now on; 0 ends it."""
        held = self._held(request)
        asked = await read(request, _TimeoutAsked)
        if asked.timeout is None:
            raise Refused(400, "invalid_argument", "timeout: is needed")
        if asked.timeout == 0:
            await self._service.sandboxes.close(held)
        else:
            with self._service.errors():
                self._service.sandboxes.extend(held, asked.timeout)
        return Response(status_code=204)

    async def metrics(self, request: Request) -> Response:
        """`GET /sandboxes/ID/metrics`: none are kept."""
        self._held(request)
        return json_reply([])

    async def network(self, request: Request) -> Response:
        """`PUT /sandboxes/ID/network`: the network is fixed when a sandbox is made, so only what holds is agreed to."""
        held = self._held(request)
        asked = await read(request, _NetworkAsked)
        same = set(_hosts(asked)) == set(held.box.network.allow)
        if not same or (asked.allow_internet_access and not held.box.network.allow):
            told = "the network of a sandbox is fixed when it is made; make one with network={'allow_out': [hosts]}"
            raise Refused(501, "not_supported", told)
        return Response(status_code=204)

    async def pause(self, request: Request) -> NoReturn:
        """`POST /sandboxes/ID/pause`"""
        self._refuse(request, "sandboxes are not paused here; lengthen the timeout, or write what is to stay to files")

    async def snapshot(self, request: Request) -> NoReturn:
        """`POST /sandboxes/ID/snapshots`"""
        self._refuse(request, "there are no snapshots here; read the files that are to stay")

    async def fork(self, request: Request) -> NoReturn:
        """`POST /sandboxes/ID/fork`"""
        self._refuse(request, "sandboxes cannot be forked here; make another one and write the files that it needs")

    async def snapshots(self, request: Request) -> Response:
        """`GET /snapshots`: there are none."""
        _key(request)
        return json_reply([])

    def _refuse(self, request: Request, told: str) -> NoReturn:
        self._held(request)
        raise Refused(501, "not_supported", told)

    def _held(self, request: Request) -> Held:
        held = self._service.sandboxes.get(_key(request), request.path_params["sandbox_id"])
        if WIRE not in held.state:
            raise not_found("sandbox of E2B")
        return held


def _key(request: Request) -> Key:
    key: Key = request.scope["groundbox.key"]
    key.require("run")
    return key


def _refuse_what_is_not_there(asked: _Asked) -> None:
    """Raise Refused for what would otherwise be left out silently.

    `autoPause` is no such thing: a sandbox is killed at its timeout, and `lifecycle` of its description says so.
    """
    absent = {
        "mcp": (asked.mcp, "there is no MCP gateway in sandboxes here"),
        "volumeMounts": (asked.volumeMounts, "there are no volumes here"),
        "iam": (asked.iam, "sandboxes get no identities here"),
    }
    for name, (given, told) in absent.items():
        if given:
            raise Refused(501, "not_supported", f"{name}: {told}")


def _hosts(asked: _NetworkAsked | None) -> Sequence[str]:
    """Hosts that are asked for. What is denied is denied anyway, because nothing else is allowed.

    Raises:
        Refused: A rule cannot be kept.
    """
    if asked is None:
        return ()
    if asked.rules or asked.egressProxy or asked.dnsServers:
        raise Refused(
            501, "not_supported", "network: there are only lists of hosts here, no rules, proxies or resolvers"
        )
    allow = asked.allowOut or []
    if any(host in _ALL_TRAFFIC or "/" in host or "*" in host for host in allow):
        raise Refused(501, "not_supported", "network.allowOut: hosts are named one by one here, such as 'pypi.org'")
    return allow


def _limits(most: Limits) -> Limits:
    """The usual limits, but for time: E2B's clients watch that themselves, and interrupt by going away."""
    return dataclasses.replace(Limits(), wall_s=most.wall_s, cpu_s=most.cpu_s)


def _told(held: Held) -> dict[str, Any]:
    """What an SDK connects by."""
    state: State = held.state[WIRE]
    return {
        "templateID": state.template,
        "sandboxID": held.id,
        "clientID": "groundbox",
        "envdVersion": ENVD_VERSION,
        "envdAccessToken": state.token,
        "trafficAccessToken": state.token,
    }


def _shown(held: Held) -> dict[str, Any]:
    state: State = held.state[WIRE]
    limits = held.box.limits
    return {
        "templateID": state.template,
        "alias": state.template,
        "sandboxID": held.id,
        "clientID": "groundbox",
        "startedAt": _iso(held.created),
        "endAt": _iso(held.created + held.ends - state.made),
        "cpuCount": len(os.sched_getaffinity(0)),
        "memoryMB": (limits.memory_bytes or 0) // MiB,
        "diskSizeMB": (limits.disk_bytes or 0) // MiB,
        "metadata": dict(held.labels),
        "state": "running",
        "envdVersion": ENVD_VERSION,
    }


def _place(held: Held) -> tuple[float, str]:
    return held.created, held.id


def _iso(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat().replace("+00:00", "Z")


def _seconds(text: str) -> float:
    try:
        moment = datetime.datetime.fromisoformat(text.replace(" ", "+"))
    except ValueError:
        raise InvalidArgument("startedAfter", f"{text[:40]!r} is no time such as 2026-01-02T03:04:05Z") from None
    return moment.replace(tzinfo=moment.tzinfo or datetime.UTC).timestamp()
