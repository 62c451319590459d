"""Keys over HTTP, for whoever has the scope `admin`: of a server, and of a gateway before several."""

from __future__ import annotations

import asyncio

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from groundbox.server import schemas
from groundbox.server.keys import Key, Keys, KeyStore, Quotas, e2b_form
from groundbox.server.refusals import Refused, not_found, refusing
from groundbox.server.replies import json_reply


class KeyRoutes:
    """The routes of `/v1/keys` over one store."""

    def __init__(self, keys: Keys, store: KeyStore | None) -> None:
        self._keys, self._store = keys, store

    def routes(self) -> list[Route]:
        """All of them; `openapi.py` describes each."""
        return [
            Route("/v1/keys", self.make_key, methods=["POST"]),
            Route("/v1/keys", self.keys, methods=["GET"]),
            Route("/v1/keys/{key_id}", self.revoke_key, methods=["DELETE"]),
        ]

    async def make_key(self, request: Request) -> Response:
        """`POST /v1/keys`: the secret is in the reply, and nowhere else."""
        store = self._keys_of(request)
        asked = await schemas.read(request, schemas.KeyAsked)
        with refusing():
            quotas = Quotas() if asked.quotas is None else Quotas(**msgspec.structs.asdict(asked.quotas))
            secret, key = await asyncio.to_thread(store.create, asked.owner, asked.scopes, quotas)
        await self._keys.refresh()
        return json_reply({"key": secret, "e2b_key": e2b_form(secret), **key.to_dict()}, 201)

    async def keys(self, request: Request) -> Response:
        """`GET /v1/keys`"""
        store = self._keys_of(request)
        with refusing():
            return json_reply({"keys": [key.to_dict() for key in await asyncio.to_thread(store.all)]})

    async def revoke_key(self, request: Request) -> Response:
        """`DELETE /v1/keys/ID`"""
        store = self._keys_of(request)
        with refusing():
            if not await asyncio.to_thread(store.revoke, request.path_params["key_id"]):
                raise not_found("key that holds")
        await self._keys.refresh()
        return Response(status_code=204)

    def _keys_of(self, request: Request) -> KeyStore:
        key: Key = request.scope["groundbox.key"]
        key.require("admin")
        if self._store is None:
            told = "this server has no keys but its owner's; start it with --keys FILE or a URL of PostgreSQL"
            raise Refused(409, "no_keys", told)
        return self._store
