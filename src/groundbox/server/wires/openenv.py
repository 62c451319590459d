"""OpenEnv's `coding_env` at `/openenv`: an environment whose actions are programs, over a WebSocket or HTTP.

A connection is an episode with a sandbox of its own, made at its first reset or step and closed with it. Over HTTP
every request has a fresh one, as in OpenEnv itself. Nothing is judged here: `reward` is null, and an observation always
comes of a program that ran; where none could, an error is sent in its place, so that nobody scores it.

Answers come in the order of messages. OpenEnv's clients wait for each answer before they send again, and older ones
keep the connection when they have waited too long; every later answer would then be taken for that of the message
after it. So a message that comes before the last answer, from whoever gives no `request_id`, ends the episode.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import uuid
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from groundbox.execution import Execution, Outcome
from groundbox.server import bodies
from groundbox.server.keys import Key
from groundbox.server.refusals import Refused
from groundbox.server.replies import attended, encoded, json_reply
from groundbox.server.sandboxes import Held
from groundbox.server.schemas import Label, Text
from groundbox.server.service import Ran, Service

PREFIX: Final = "/openenv"
_WIRE: Final = "openenv"
_MOST_WAITING: Final = 64
_POLICY_VIOLATION: Final = 1008
_TIMED_OUT, _SIGNALLED = 124, 128  # as `timeout` and shells have it
_KILLED: Final = 137

_TEXT: Final = {"type": "string"}
_FREE: Final = {"type": "object", "additionalProperties": True, "default": {}}
_SCHEMAS: Final = {
    "action": {
        "title": "CodeAction",
        "type": "object",
        "properties": {"code": {**_TEXT, "title": "Code"}, "metadata": _FREE},
        "required": ["code"],
    },
    "observation": {
        "title": "CodeObservation",
        "type": "object",
        "properties": {
            "stdout": {**_TEXT, "default": ""},
            "stderr": {**_TEXT, "default": ""},
            "exit_code": {"type": "integer", "default": 0},
            "reward": {"anyOf": [{"type": "number"}, {"type": "null"}], "default": None},
            "done": {"type": "boolean", "default": False},
            "metadata": _FREE,
        },
    },
    "state": {
        "title": "CodeState",
        "type": "object",
        "properties": {
            "episode_id": {"anyOf": [_TEXT, {"type": "null"}], "default": None},
            "step_count": {"type": "integer", "minimum": 0, "default": 0},
            "last_exit_code": {"type": "integer", "default": 0},
        },
    },
}
_METADATA: Final = {
    "name": "coding_env",
    "description": "Runs Python in a sandbox of groundbox; variables and files are kept from one step to the next.",
    "version": "1.0.0",
}
_PATHS: Final = {
    "/reset": "post",
    "/step": "post",
    "/state": "get",
    "/schema": "get",
    "/metadata": "get",
    "/health": "get",
}


class _Message(msgspec.Struct, kw_only=True):
    type: Label
    data: dict[str, Any] = {}
    request_id: Label | None = None

    def identity(self) -> str | None:
        """The client's name for this message, on it or in its data."""
        inner = self.data.get("request_id")
        return self.request_id if self.request_id is not None else inner if isinstance(inner, str) else None


class _Action(msgspec.Struct, kw_only=True):
    LONG: ClassVar[bodies.Long] = {"code": bodies.TEXT}

    code: Text
    timeout_s: float | None = None


class _ResetAsked(msgspec.Struct, kw_only=True):
    seed: int | None = None
    episode_id: Label | None = None


class _StepAsked(msgspec.Struct, kw_only=True):
    action: _Action
    timeout_s: float | None = None
    request_id: Label | None = None


class _Invalid(Exception):
    """A message that does not say what it has to."""


class _Episode:
    """One connection."""

    def __init__(self, service: Service, key: Key, websocket: WebSocket) -> None:
        self._service, self._key, self._websocket = service, key, websocket
        self._held: Held | None = None
        self._use = contextlib.ExitStack()
        self._state: dict[str, Any] = _fresh_state(None)
        self._gone = False
        self._waiting: collections.deque[_Message | Exception] = collections.deque()

    async def serve(self) -> None:
        """Answer until either side ends it."""
        await self._websocket.accept()
        incoming = self._listen()
        try:
            while True:
                if self._waiting:
                    message: _Message | Exception | None = self._waiting.popleft()
                else:
                    message, incoming = await incoming, self._listen()
                if message is None or (isinstance(message, _Message) and message.type == "close"):
                    return
                work = asyncio.ensure_future(self._answer(message))
                try:
                    while not work.done():
                        await asyncio.wait((work, incoming), return_when=asyncio.FIRST_COMPLETED)
                        if work.done():
                            break
                        early, incoming = incoming.result(), self._listen()
                        if early is None or (isinstance(early, _Message) and early.type == "close"):
                            return
                        if not self._is_in_order(message, early):
                            told = "a message came before the last one was answered; send a request_id with each"
                            await self._send(_error(told, "SESSION_ERROR"))
                            await self._websocket.close(_POLICY_VIOLATION, told)
                            return
                        self._waiting.append(early)
                    await self._send(work.result(), message)
                finally:
                    if not work.done():
                        work.cancel()
                        await asyncio.wait((work,))
        except (OSError, RuntimeError):  # the connection broke in the middle of an answer
            return
        finally:
            incoming.cancel()
            await self._drop()
            with contextlib.suppress(Exception):
                await self._websocket.close()

    def _is_in_order(self, message: _Message | Exception, early: _Message | Exception) -> bool:
        """Tell whether a client that sends before it has its answer can tell answers apart."""
        both = (message, early)
        named = all(isinstance(each, _Message) and each.identity() is not None for each in both)
        return named and len(self._waiting) < _MOST_WAITING

    def _listen(self) -> asyncio.Future[_Message | Exception | None]:
        return asyncio.ensure_future(self._received())

    async def _received(self) -> _Message | Exception | None:
        """The next message, or why it is none; None when the client has gone."""
        if self._gone:
            return None
        got = await self._websocket.receive()
        if got["type"] == "websocket.disconnect":
            self._gone = True
            return None
        text = got.get("text")
        data = text.encode("utf-8", "surrogatepass") if text is not None else got.get("bytes") or b""
        try:
            bodies.check(data)
            return _MESSAGE.decode(data)
        except Refused as refused:
            return _Invalid(refused.message)
        except msgspec.ValidationError as error:
            return _Invalid(str(error))
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            return error

    async def _send(self, frame: dict[str, Any], message: _Message | Exception | None = None) -> None:
        if isinstance(message, _Message) and (identity := message.identity()) is not None:
            frame = {**frame, "request_id": identity}
        await self._websocket.send_text((await asyncio.to_thread(encoded, frame)).decode())

    async def _answer(self, message: _Message | Exception) -> dict[str, Any]:
        """The frame that answers a message. What goes wrong is told in it, and the episode goes on."""
        try:
            if isinstance(message, _Invalid):
                raise message
            if isinstance(message, Exception):
                return _error(f"Invalid JSON: {message}", "INVALID_JSON")
            if message.type == "reset":
                return {"type": "observation", "data": await self._reset(_converted(message.data, _ResetAsked))}
            if message.type == "step":
                return {"type": "observation", "data": await self._step(_converted(message.data, _Action))}
            if message.type == "state":
                return {"type": "state", "data": self._state}
            if message.type == "mcp":
                return {"type": "mcp", "data": _no_mcp(message.data.get("id"))}
            return _error(f"Unknown message type: {message.type[:100]}", "UNKNOWN_TYPE")
        except _Invalid as error:
            return _error(f"Invalid message: {error}", "VALIDATION_ERROR")
        except Refused as refused:
            self._service.metrics.refused(refused.code)
            return _refused_frame(refused)

    async def _reset(self, asked: _ResetAsked) -> dict[str, Any]:
        """A new episode in a new sandbox, so that no file of the last one is there."""
        if self._held is not None and (self._held.runs or self._held.closed):
            await self._drop()
        self._place()
        self._state = _fresh_state(asked.episode_id or str(uuid.uuid4()))
        return _told(_observation())

    async def _step(self, action: _Action) -> dict[str, Any]:
        held = self._place()
        options: dict[str, Any] = {} if action.timeout_s is None else {"wall_s": action.timeout_s}
        source = action.code if action.code.strip() else "pass"
        try:
            ran = await self._service.run_in(self._key, held, source, **options)
        except Refused as refused:
            if refused.code != "sandbox_lost":  # an earlier step has ended the process, which it was told
                raise
            with self._service.errors():
                await held.box.restart()
            ran = await self._service.run_in(self._key, held, source, **options)
        observation = _observation(ran)
        self._state["step_count"] += 1
        self._state["last_exit_code"] = observation["exit_code"]
        return _told(observation)

    def _place(self) -> Held:
        """The sandbox of the episode, which is not idle while its connection is open."""
        if self._held is None:
            self._held = self._service.create(self._key, wire=_WIRE)
            self._use.enter_context(self._held.in_use())
        return self._held

    async def _drop(self) -> None:
        held, self._held = self._held, None
        self._use.close()
        if held is not None:
            await self._service.sandboxes.close(held)


class OpenEnv:
    """The paths over one service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def connection(self, websocket: WebSocket) -> None:
        """`WS /ws`"""
        key: Key = websocket.scope["groundbox.key"]
        key.require("run")
        await _Episode(self._service, key, websocket).serve()

    async def reset(self, request: Request) -> Response:
        """`POST /reset`: the first observation of an episode that has no further ones; those are for `/ws`."""
        key = _key(request)
        try:
            await _read(request, _ResetAsked)
        except _Invalid as error:
            return _unprocessable(error)
        self._service.sandboxes.check_room(key)
        return json_reply(_told(_observation()))

    async def step(self, request: Request) -> Response:
        """`POST /step`: one program in a sandbox of its own."""
        key = _key(request)
        try:
            asked: _StepAsked = await _read(request, _StepAsked)
        except _Invalid as error:
            return _unprocessable(error)
        timeout_s = asked.timeout_s if asked.timeout_s is not None else asked.action.timeout_s
        options: dict[str, Any] = {} if timeout_s is None else {"wall_s": timeout_s}
        source = asked.action.code if asked.action.code.strip() else "pass"
        try:
            ran = await attended(request, self._service.run(key, source, wire=_WIRE, **options))
        except Refused as refused:
            self._service.metrics.refused(refused.code)
            told = {"detail": refused.message, **refused.to_dict()}
            return json_reply(told, refused.status, refused.headers)
        told = _told(_observation(ran))
        if asked.request_id is not None:
            told["metadata"] = {**told["metadata"], "request_id": asked.request_id}
        return json_reply(told)

    async def state(self, request: Request) -> Response:
        """`GET /state`: of an episode that has not begun, because over HTTP there is no other."""
        _key(request)
        return json_reply(_fresh_state(None))

    async def schema(self, request: Request) -> Response:
        """`GET /schema`"""
        return json_reply(_SCHEMAS)

    async def metadata(self, request: Request) -> Response:
        """`GET /metadata`"""
        return json_reply(_METADATA)

    async def health(self, request: Request) -> Response:
        """`GET /health`"""
        if self._service.problem:
            return json_reply({"status": "unhealthy"}, 503)
        return json_reply({"status": "healthy"})

    async def openapi(self, request: Request) -> Response:
        """`GET /openapi.json`: which paths there are, which is what `openenv validate` reads of it."""
        paths = {path: {method: {"responses": {"200": {"description": "OK"}}}} for path, method in _PATHS.items()}
        about = {"title": _METADATA["name"], "version": _METADATA["version"]}
        return json_reply({"openapi": "3.1.0", "info": about, "paths": paths})

    async def mcp(self, request: Request) -> Response:
        """`POST /mcp`: this environment has no tools of its own; the server's are at `/mcp`."""
        with contextlib.suppress(Refused):
            message = await (await bodies.read(request)).decoded(Any)
            return json_reply(_no_mcp(message.get("id") if isinstance(message, dict) else None))
        return json_reply(_no_mcp(None))


_MESSAGE: Final = msgspec.json.Decoder(_Message)


def routes(service: Service) -> list[BaseRoute]:
    """All paths below the prefix; clients take its address as their base URL."""
    env = OpenEnv(service)
    return [
        WebSocketRoute(f"{PREFIX}/ws", env.connection),
        Route(f"{PREFIX}/reset", env.reset, methods=["POST"]),
        Route(f"{PREFIX}/step", env.step, methods=["POST"]),
        Route(f"{PREFIX}/state", env.state, methods=["GET"]),
        Route(f"{PREFIX}/schema", env.schema, methods=["GET"]),
        Route(f"{PREFIX}/metadata", env.metadata, methods=["GET"]),
        Route(f"{PREFIX}/health", env.health, methods=["GET"]),
        Route(f"{PREFIX}/openapi.json", env.openapi, methods=["GET"]),
        Route(f"{PREFIX}/mcp", env.mcp, methods=["POST"]),
    ]


def _key(request: Request) -> Key:
    key: Key = request.scope["groundbox.key"]
    key.require("run")
    return key


async def _read(request: Request, kind: Any) -> Any:
    body = await bodies.read(request)
    try:
        return await body.decoded(kind)
    except Refused as refused:
        raise _Invalid(refused.message) from None


def _converted(data: Mapping[str, Any], kind: Any) -> Any:
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        raise _Invalid(str(error)) from None


def _fresh_state(episode_id: str | None) -> dict[str, Any]:
    return {"episode_id": episode_id, "step_count": 0, "last_exit_code": 0}


def _observation(ran: Ran | None = None) -> dict[str, Any]:
    """What the model sees of a run. The value of a last expression is told behind what was printed."""
    if ran is None:
        return {"stdout": "", "stderr": "", "exit_code": 0, "metadata": {}}
    execution = ran.execution
    stdout = execution.stdout
    if execution.text:
        stdout += ("" if not stdout or stdout.endswith("\n") else "\n") + execution.text
    stderr = execution.stderr
    if (error := execution.error) is not None:
        told = "\n".join(part for part in (error.traceback.rstrip("\n"), f"{error.type}: {error.message}") if part)
        stderr += ("" if not stderr or stderr.endswith("\n") else "\n") + told + "\n"
    metadata = {
        "execution_id": execution.execution_id,
        "outcome": execution.outcome.value,
        "state": execution.state,
        "dropped_bytes": {name: count for name, count in execution.dropped_bytes.items() if count},
        "displays": len(execution.displays),
        "artifacts": list(execution.artifacts),
        "wall_s": execution.usage.wall_s,
        "queue_s": round(ran.waited_s, 6),
    }
    return {"stdout": stdout, "stderr": stderr, "exit_code": _exit_code(execution), "metadata": metadata}


def _exit_code(execution: Execution) -> int:
    """0 for a program that did not fail, and for no other."""
    if execution.ok:
        return 0
    if execution.outcome is Outcome.TIMEOUT:
        return _TIMED_OUT
    if execution.exit_signal is not None:
        return _SIGNALLED + execution.exit_signal
    if execution.outcome is Outcome.MEMORY:
        return _KILLED
    return execution.exit_code or 1


def _told(observation: dict[str, Any]) -> dict[str, Any]:
    return {"observation": observation, "reward": None, "done": False, "metadata": observation["metadata"]}


def _error(message: str, code: str, **more: Any) -> dict[str, Any]:
    return {"type": "error", "data": {"message": message, "code": code, **more}}


def _refused_frame(refused: Refused) -> dict[str, Any]:
    code = "EXECUTION_ERROR"
    if refused.status == 429:
        code = "CAPACITY_REACHED"
    elif refused.status == 400:
        code = "VALIDATION_ERROR"
    elif refused.status in (404, 409, 410):
        code = "SESSION_ERROR"
    more = {} if refused.retry_after_s is None else {"retry_after_s": refused.retry_after_s}
    return _error(refused.message, code, status=refused.status, reason=refused.code, **more)


def _no_mcp(identity: Any) -> dict[str, Any]:
    error = {"code": -32601, "message": "coding_env has no tools; this server's are at /mcp"}
    return {"jsonrpc": "2.0", "id": identity, "error": error}


def _unprocessable(error: _Invalid) -> Response:
    detail = [{"type": "value_error", "loc": ["body"], "msg": str(error)}]
    return json_reply({"detail": detail}, 422)
