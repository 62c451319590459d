"""Checkpoints, undo and forks of sandboxes over `/v1`.

A checkpoint is kept here until it is dropped or its sandbox ends, and found by an id that cannot be guessed, in the
sandbox that it was taken of and by the key of that sandbox alone. Forks are sandboxes of the same key: the room for
them is held before they are made.

What is carried out is not called off by a client that goes away; a request that is repeated with its `Idempotency-Key`
is answered with what came of the first one.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from groundbox.errors import SandboxClosed
from groundbox.sandbox.branching import MOST_FORKS, check_count
from groundbox.server import bodies, schemas
from groundbox.server.keys import Key
from groundbox.server.refusals import Refused, not_found
from groundbox.server.replies import json_reply
from groundbox.server.sandboxes import Held, KeptCheckpoint
from groundbox.server.service import Service

_WIRE: Final = "v1"
_Work = Callable[[], Awaitable[Mapping[str, Any]]]


class Branches:
    """The routes over one service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> list[Route]:
        """All of them; `openapi.py` describes each."""
        box = "/v1/sandboxes/{sandbox_id}"
        one = box + "/checkpoints/{checkpoint_id}"
        return [
            Route(f"{box}/checkpoints", self.checkpoint, methods=["POST"]),
            Route(f"{box}/checkpoints", self.listed, methods=["GET"]),
            Route(one, self.show, methods=["GET"]),
            Route(one, self.drop, methods=["DELETE"]),
            Route(f"{one}/restore", self.restore, methods=["POST"]),
            Route(f"{box}/undo", self.undo, methods=["POST"]),
            Route(f"{box}/fork", self.fork, methods=["POST"]),
        ]

    async def checkpoint(self, request: Request) -> Response:
        """`POST /v1/sandboxes/ID/checkpoints`"""
        key, held = self._asked(request)

        async def work() -> dict[str, Any]:
            async with self._service.branching(key, held, "checkpoint") as facts:
                with self._service.sandboxes.room_for_checkpoints(key, 1):
                    state = await held.box.checkpoint()
                name = facts["checkpoint"] = secrets.token_hex(16)
                kept = held.checkpoints[name] = KeptCheckpoint(state, time.time())
                return _told(name, kept)

        return await self._reply(request, work, 201)

    async def listed(self, request: Request) -> Response:
        """`GET /v1/sandboxes/ID/checkpoints`: those that requests have taken, the oldest first."""
        _, held = self._asked(request)
        return json_reply({"checkpoints": [_told(name, kept) for name, kept in held.checkpoints.items()]})

    async def show(self, request: Request) -> Response:
        """`GET /v1/sandboxes/ID/checkpoints/ID`"""
        _, held = self._asked(request)
        return json_reply(_told(*_found(request, held)))

    async def drop(self, request: Request) -> Response:
        """`DELETE /v1/sandboxes/ID/checkpoints/ID`: at once for who asks, and after those that go back to it now."""
        _, held = self._asked(request)
        name, kept = _found(request, held)
        del held.checkpoints[name]
        if not kept.restoring:
            kept.checkpoint.drop()
        return Response(status_code=204)

    async def restore(self, request: Request) -> Response:
        """`POST /v1/sandboxes/ID/checkpoints/ID/restore`"""
        key, held = self._asked(request)
        name, kept = _found(request, held)

        async def work() -> dict[str, Any]:
            kept.restoring += 1
            try:
                async with self._service.branching(key, held, "restore") as facts:
                    facts["checkpoint"] = name
                    await held.box.restore(kept.checkpoint)
            finally:
                kept.restoring -= 1
                if not kept.restoring and name not in held.checkpoints:
                    kept.checkpoint.drop()
            return held.to_dict()

        return await self._reply(request, work)

    async def undo(self, request: Request) -> Response:
        """`POST /v1/sandboxes/ID/undo`"""
        key, held = self._asked(request)
        asked = await schemas.read(request, schemas.UndoAsked)

        async def work() -> dict[str, Any]:
            async with self._service.branching(key, held, "undo") as facts:
                facts["n"] = asked.n
                await held.box.undo(asked.n)
            return held.to_dict()

        return await self._reply(request, work)

    async def fork(self, request: Request) -> Response:
        """`POST /v1/sandboxes/ID/fork`"""
        key, held = self._asked(request)
        asked = await schemas.read(request, schemas.ForkAsked)

        async def work() -> dict[str, Any]:
            async with self._service.branching(key, held, "fork") as facts:
                facts["n"] = asked.n
                made = await self._forks(key, held, asked.n)
                facts["forks"] = [each.id for each in made]
            return {"sandboxes": [each.to_dict() for each in made]}

        return await self._reply(request, work, 201)

    async def _forks(self, key: Key, held: Held, count: int) -> list[Held]:
        """Sandboxes with the state of this one, in the room that is held for them meanwhile."""
        check_count(count, most=MOST_FORKS)
        sandboxes = self._service.sandboxes
        async with contextlib.AsyncExitStack() as room:
            room.enter_context(sandboxes.room_for_checkpoints(key, count * held.own_checkpoints))
            await room.enter_async_context(sandboxes.room(key, count))
            boxes = await held.box.fork(count)
            if held.closed:  # meanwhile: whoever closes it, or all of its label, means its forks, too
                for box in boxes:
                    await box.close()
                raise SandboxClosed
            made: list[Held] = []
            try:
                for box in boxes:
                    made.append(sandboxes.add_fork(held, box, wire=_WIRE))
            except Refused:
                for each in made:
                    await sandboxes.close(each)
                for box in boxes[len(made) :]:
                    await box.close()
                raise
            return made

    async def _reply(self, request: Request, work: _Work, status: int = 200) -> Response:
        """The reply to a request, carried out once for each `Idempotency-Key`."""
        key, name = request.scope["groundbox.key"], request.headers.get("idempotency-key")
        identity = request.url.path.encode() + b"\0" + (await bodies.read(request)).digest
        return json_reply(await self._service.replies.once(key, name, identity, work), status)

    def _asked(self, request: Request) -> tuple[Key, Held]:
        """Who asks, and for which sandbox."""
        key: Key = request.scope["groundbox.key"]
        key.require("run")
        return key, self._service.sandboxes.get(key, request.path_params["sandbox_id"])


def _found(request: Request, held: Held) -> tuple[str, KeptCheckpoint]:
    """The checkpoint that a path names, with its id.

    Raises:
        Refused: 404, this sandbox has none of that id.
    """
    name = request.path_params["checkpoint_id"]
    kept = held.checkpoints.get(name)
    if kept is None:
        raise not_found("checkpoint")
    return name, kept


def _told(name: str, kept: KeptCheckpoint) -> dict[str, Any]:
    return {"checkpoint_id": name, "created": kept.created, "lost": kept.checkpoint.lost}
