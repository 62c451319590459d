"""What operators ask a gateway: which nodes there are, and that some drain, leave, or are let in."""

from __future__ import annotations

import functools
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from groundbox.fleet.catalogue import LEFT
from groundbox.fleet.reception import Timing
from groundbox.fleet.roster import Roster, describe
from groundbox.server import schemas
from groundbox.server.keys import Key
from groundbox.server.refusals import Refused, not_found
from groundbox.server.replies import json_reply


class DrainAsked(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What `POST …/drain` takes."""

    within_s: float | None = None
    leave: bool = False


class WelcomeAsked(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What `POST /v1/fleet/welcome` takes."""

    version: str | None = None
    environment: str | None = None


class Operators:
    """Answers operators, whose keys have the scope `admin`."""

    def __init__(self, roster: Roster, timing: Timing) -> None:
        self._roster, self._timing = roster, timing

    async def fleet(self, request: Request) -> Response:
        """`GET /v1/fleet`: all nodes, and which versions and environments may join."""
        _admin(request)
        await self._roster.refresh()
        welcome = await self._roster.in_catalogue(functools.partial(self._roster.catalogue.welcome))
        nodes = [describe(each) for each in self._roster if request.query_params.get("all") or each.node.state != LEFT]
        return json_reply({"nodes": nodes, "welcome": welcome, "lease_s": self._timing.lease_s})

    async def drain(self, request: Request) -> Response:
        """`POST /v1/fleet/nodes/NAME/drain {"within_s": 600, "leave": true}`: nothing new goes there."""
        _admin(request)
        asked = await schemas.read(request, DrainAsked)
        if asked.within_s is not None and asked.within_s < 0:
            raise Refused(400, "invalid_argument", "within_s: must not be below 0")
        drain = self._roster.catalogue.drain
        return await self._changed(request, lambda name: drain(name, asked.within_s, leave=asked.leave))

    async def undrain(self, request: Request) -> Response:
        """`POST /v1/fleet/nodes/NAME/join`: a node that was drained takes sandboxes again."""
        _admin(request)
        return await self._changed(request, self._roster.catalogue.undrain)

    async def welcome(self, request: Request) -> Response:
        """`POST /v1/fleet/welcome {"version", "environment"}`: nodes of another kind may join beside the others."""
        _admin(request)
        asked = await schemas.read(request, WelcomeAsked)
        call = functools.partial(self._roster.catalogue.welcome, version=asked.version, environment=asked.environment)
        return json_reply(await self._roster.in_catalogue(call))

    async def _changed(self, request: Request, act: Any) -> Response:
        name = request.path_params["name"]
        if not await self._roster.in_catalogue(functools.partial(act, name)):
            raise not_found(f"node that lives and is called {name[:64]!r}")
        await self._roster.refresh()
        return json_reply({"nodes": [describe(each) for each in self._roster.alive if each.node.name == name]})


def _admin(request: Request) -> None:
    key: Key = request.scope["groundbox.key"]
    key.require("admin")
