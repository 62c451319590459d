"""The card of a grounded agent, and the application that answers other agents over HTTP.

Nothing is bound here: whoever serves the application chooses the address, and who may ask. Without a token it asks for
no credentials, so that it belongs on a loopback address, or behind something that does. A page in a browser of the same
machine is kept out: requests to another host's name are refused, which a rebound name is, and so are those that a page
can send without being allowed to, whose content is not JSON.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from a2a.server.context import ServerCallContext
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.routes.jsonrpc_dispatcher import JSONRPC03Adapter  # from its own module it is a circular import
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    HTTPAuthSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
    Task,
    TaskState,
)
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from groundbox.agent.a2a.door import Door, Guard, check_token
from groundbox.agent.a2a.executor import GroundedExecutor
from groundbox.agent.a2a.parts import JSON, TEXT
from groundbox.agent.a2a.service import Service
from groundbox.agent.grounded import Content, GroundedAgent
from groundbox.errors import InvalidArgument
from groundbox.version import own_version

VERSIONS: Final = ("1.0", "0.3")
"""Of the protocol, the preferred one first."""
NAME: Final = "groundbox"
DESCRIPTION: Final = (
    "Answers a question about the files that come with it by writing programs and running them in a sandbox, "
    "and names what of its answer no run bears out."
)
_TAKES: Final = (TEXT, "text/csv", JSON, "application/pdf", "image/png", "image/jpeg", "application/octet-stream")
_GIVES: Final = (TEXT, JSON, "image/png", "text/csv", "application/octet-stream")
_SCHEME: Final = "token"
_CARD_CACHING: Final = "public, max-age=300"  # it changes only where the agent is started anew; then its ETag does, too
_INVALID_PARAMS: Final = -32602
_LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")
_ENDED: Final = (
    TaskState.TASK_STATE_COMPLETED,
    TaskState.TASK_STATE_CANCELED,
    TaskState.TASK_STATE_FAILED,
    TaskState.TASK_STATE_REJECTED,
)


def card(url: str, *, name: str = NAME, description: str = DESCRIPTION) -> AgentCard:
    """What other agents read before they ask.

    Args:
        url: Where the root of the application is reached, such as `http://127.0.0.1:9000/`.

    Raises:
        InvalidArgument: It is no such address.
    """
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise InvalidArgument("url", f"must be an address such as 'http://127.0.0.1:9000/', not {url!r}")
    skill = AgentSkill(
        id="ask_data",
        name="Answer a question about data",
        description="Send one complete question as text, and the files it is about as raw parts with their names.",
        tags=["data", "analysis", "code", "charts"],
        examples=["Which region sells best in sales.csv? Draw a chart of it."],
    )
    return AgentCard(
        name=name,
        description=description,
        version=own_version(),
        supported_interfaces=[
            AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version=version) for version in VERSIONS
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=False),
        default_input_modes=list(_TAKES),
        default_output_modes=list(_GIVES),
        skills=[skill],
    )


def application(
    agent: GroundedAgent,
    card: AgentCard,
    *,
    service: Service | None = None,
    token: str | None = None,
    files: Mapping[str, Content] | None = None,
) -> Starlette:
    """An ASGI application that serves `agent` under `card`; run it with any server of ASGI.

    Clients of version 0.3 are answered where the card has an interface of that version.
    Its end ends the sandboxes of all questions, and so does `state.executor.aclose()`, after which it takes none.
    Tasks are kept in memory and known to this process only; whoever may ask may read all of them.

    Args:
        token: What askers send as a bearer token; the card then says so. Without one, everyone may ask.
        files: What every question is about, beside the files that come with it; as `GroundedAgent.ask` takes them.

    Raises:
        InvalidArgument: The token is none.
    """
    service = service or Service()
    return application_over(GroundedExecutor(agent, service=service, files=files), card, service=service, token=token)


def application_over(
    executor: GroundedExecutor, card: AgentCard, *, service: Service, token: str | None = None
) -> Starlette:
    """An ASGI application that gives tasks to `executor`; all else is as `application` says.

    Raises:
        InvalidArgument: The token is none.
    """
    if token is not None:
        check_token(token)
        card = _guarded(card)
    kept = KeptTasks(service.max_kept_bytes)
    handler = DefaultRequestHandler(agent_executor=executor, task_store=kept, agent_card=card)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None, None]:
        yield
        await executor.aclose()
        await handler.aclose()

    older = any(each.protocol_version.startswith("0.") for each in card.supported_interfaces)
    calls = create_jsonrpc_routes(handler, "/", enable_v0_3_compat=older)
    hosts = {_host(each.url) for each in card.supported_interfaces} | set(_LOOPBACK)
    app = Starlette(
        routes=[
            *create_agent_card_routes(card, cache_control=_CARD_CACHING),
            *(map(_with_params_checked, calls) if older else calls),
        ],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=sorted(hosts), www_redirect=False),
            *([] if token is None else [Middleware(Guard, token=token)]),
            Middleware(Door, service=service),
        ],
        lifespan=lifespan,
    )
    app.state.executor = executor
    return app


class KeptTasks(InMemoryTaskStore):
    """Tasks in memory, the oldest of those that have ended let go when they are more than `max_bytes`."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__()
        self._max_bytes, self._bytes = max_bytes, 0
        self._ended: OrderedDict[str, tuple[int, ServerCallContext]] = OrderedDict()

    async def save(self, task: Task, context: ServerCallContext) -> None:
        """Keep a task; the last one that has ended is always kept."""
        await super().save(task, context)
        if task.status.state not in _ENDED:
            return
        before = self._ended.pop(task.id, None)
        self._bytes += task.ByteSize() - (before[0] if before else 0)
        self._ended[task.id] = (task.ByteSize(), context)
        while self._bytes > self._max_bytes and len(self._ended) > 1:
            oldest, (size, its_context) = self._ended.popitem(last=False)
            self._bytes -= size
            await self.delete(oldest, its_context)


def _with_params_checked(route: Route) -> Route:
    """The route, with requests of version 0.3 told apart whose parameters are wrong and whose envelope is.

    The SDK answers both with -32600, and its log quotes the message.
    """

    async def checked(request: Request) -> Response:
        problems = _wrong_params(await _json_of(request))
        if problems is None:
            answer: Response = await route.endpoint(request)
            return answer
        identity, told = problems
        error = {"code": _INVALID_PARAMS, "message": "Invalid params", "data": told}
        return JSONResponse({"jsonrpc": "2.0", "id": identity, "error": error})

    return Route(route.path, checked, methods=["POST"])


async def _json_of(request: Request) -> Any:
    """The body, which the request keeps for the next who asks; None where it is no JSON, which the SDK tells."""
    try:
        return await request.json()
    except (ValueError, RecursionError):
        return None


def _wrong_params(body: Any) -> tuple[str | int | None, list[str]] | None:
    """The identity of a call of version 0.3 and what is wrong with its parameters; None where nothing else is."""
    method = body.get("method") if isinstance(body, dict) else None
    model = JSONRPC03Adapter.METHOD_TO_MODEL.get(method) if isinstance(method, str) else None
    if model is None:
        return None
    try:
        model.model_validate(body)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        found = [each for each in found if (each["loc"], each["type"]) != (("id",), "missing")]  # a notice has none
        if found and all(each["loc"][:1] == ("params",) for each in found):
            return body.get("id"), [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found]
    return None


def _guarded(card: AgentCard) -> AgentCard:
    """The card, with the token that it needs."""
    guarded = AgentCard()
    guarded.CopyFrom(card)
    scheme = HTTPAuthSecurityScheme(scheme="Bearer", description="The token of whoever serves this agent.")
    guarded.security_schemes[_SCHEME].CopyFrom(SecurityScheme(http_auth_security_scheme=scheme))
    guarded.security_requirements.append(SecurityRequirement(schemes={_SCHEME: StringList()}))
    return guarded


def _host(url: str) -> str:
    name = urlsplit(url).hostname or ""
    return f"[{name}]" if ":" in name else name
