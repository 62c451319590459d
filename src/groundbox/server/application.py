"""The application: guard, native interface, wires and health, put together over one service."""

from __future__ import annotations

import contextlib
import importlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Match, Route

from groundbox.agent.messages import Model
from groundbox.sandbox.telemetry import under_caller
from groundbox.server import console, metrics, openapi
from groundbox.server.api import Api
from groundbox.server.branches import Branches
from groundbox.server.conversations import Conversations
from groundbox.server.guard import Admission, Guard
from groundbox.server.key_routes import KeyRoutes
from groundbox.server.keys import KeyStore
from groundbox.server.processes import Processes
from groundbox.server.protocol import installed, load
from groundbox.server.refusals import Refused, refusal_of
from groundbox.server.replies import ClientGone, json_reply
from groundbox.server.service import Service

logger = logging.getLogger(__name__)

WIRES: Final[Sequence[str]] = (
    "e2b",  # E2B: its SDKs; before OpenEnv, which answers to /health, too
    "sandboxfusion",  # SandboxFusion: verl and other trainers
    "mcp",  # the Model Context Protocol over HTTP
    "openenv",  # OpenEnv: environments of trainers
    "jupyter",  # Jupyter's kernels: Open WebUI, smolagents
)
"""Modules of `groundbox.server.wires`, each with `routes(service)`; on a path of two the first one answers.

The routes of protocols that are switched on (`Settings.protocols`) come after them."""
_PUBLIC: Final = ("/livez", "/readyz")


def application(
    service: Service,
    *,
    own_host: str = "127.0.0.1",
    over_unix: bool = False,
    store: KeyStore | None = None,
    model: Model | None = None,
    more: Sequence[BaseRoute] = (),
    admissions: Sequence[Admission] = (),
    around: Callable[[Any], Any] = lambda app: app,
) -> Any:
    """The ASGI application of one server.

    Args:
        own_host: The address that is listened on.
        over_unix: Whether only processes of the same user can connect, so that names of hosts mean nothing.
        store: Where keys are made and revoked; None for none but the owner's.
        model: Who answers questions; None for nobody.
        more: Routes beside those of the server.
        admissions: Asked before those of wires.
        around: Makes an application of the one behind the guard.
    """
    protocols = load(service.settings.protocols)
    of_protocols = {name: each.routes(service) for name, each in protocols.items()}
    routes: list[BaseRoute] = [
        Route("/livez", _alive),
        Route("/readyz", _Ready(service).answer),
        Route("/metrics", _Metrics(service).answer),
        *Api(service, openapi.of_protocols(protocols, of_protocols)).routes(),
        *KeyRoutes(service.keys, store).routes(),
        *Branches(service).routes(),
        *Processes(service).routes(),
        *Conversations(service, model).routes(),
        *console.routes(service),
        *more,
    ]
    public, admissions = [*_PUBLIC, *console.PUBLIC], [*admissions]
    for name in WIRES:
        wire = importlib.import_module(f"groundbox.server.wires.{name}")
        routes += wire.routes(service)
        public += getattr(wire, "PUBLIC", ())
        if hasattr(wire, "admission"):
            admissions.append(wire.admission(service))
    for name, protocol in protocols.items():
        routes += of_protocols[name]
        public += protocol.public
        if protocol.admission is not None:
            admissions.append(protocol.admission(service))

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with service.running():
            yield

    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={
            Refused: _refused(service),
            ClientGone: _gone,
            ClientDisconnect: _gone,
            HTTPException: _http_refused(routes, sorted({*installed()} - {*protocols})),
            Exception: _failed,
        },
    )
    app.router.redirect_slashes = False
    return Guard(
        around(_InTrace(app)),
        service,
        own_host=own_host,
        over_unix=over_unix,
        public=public,
        admissions=admissions,
        key_headers=[header for protocol in protocols.values() for header in protocol.key_headers],
    )


class _InTrace:
    """Spans of what a request causes belong to the trace that its headers name, where this process makes spans."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request, as ASGI has it."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope.get("headers", ())}
        with under_caller(headers):
            await self._app(scope, receive, send)


async def _alive(request: Request) -> Response:
    """`GET /livez`: this process answers. Asks nothing else."""
    return PlainTextResponse("alive\n")


class _Ready:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def answer(self, request: Request) -> Response:
        """`GET /readyz`: programs can be run now, or why not."""
        problem = self._service.problem or self._service.keys.problem
        return PlainTextResponse(f"{problem or 'ready'}\n", 503 if problem else 200)


class _Metrics:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def answer(self, request: Request) -> Response:
        """`GET /metrics`: in Prometheus' format."""
        request.scope["groundbox.key"].require("metrics")
        return Response(self._service.metrics.text(), media_type=metrics.MEDIA_TYPE)


def _refused(service: Service) -> Any:
    async def handle(request: Request, error: Exception) -> Response:
        assert isinstance(error, Refused)
        service.metrics.refused(error.code)
        return json_reply(error.to_dict(), error.status, error.headers)

    return handle


async def _failed(request: Request, error: Exception) -> Response:
    """A fault of groundbox itself; the guard writes it into the log."""
    refused = refusal_of(error)
    return json_reply(refused.to_dict(), refused.status, refused.headers)


async def _gone(request: Request, error: Exception) -> Response:
    """Nobody reads it; 499 is what nginx logs for that."""
    return Response(status_code=499)


def _http_refused(routes: Sequence[BaseRoute], off: Sequence[str]) -> Any:
    """Return the handler of paths and methods that do not exist. `off` are protocols that are not switched on.

    `Allow` of a 405 has the methods of all routes of the path: each has one method here, and Starlette names the first.
    """
    hint = f"; protocols that are off: {', '.join(off)} (groundbox serve --protocol NAME)" if off else ""

    async def handle(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        is_unknown = error.status_code == 404
        message = f"{error.detail}{hint}" if is_unknown else str(error.detail)
        refused = Refused(error.status_code, "not_found" if is_unknown else "bad_request", message)
        headers = dict(error.headers or {})
        if error.status_code == 405:
            there = (
                each for each in routes if isinstance(each, Route) and each.matches(request.scope)[0] != Match.NONE
            )
            headers["Allow"] = ", ".join(sorted({method for each in there for method in each.methods or ()}))
        return json_reply(refused.to_dict(), error.status_code, headers)

    return handle
