"""The Model Context Protocol over streamable HTTP, at `/mcp`: the tools of `groundbox mcp` in sandboxes of this server.

Both eras are spoken, and each request says of which it is. Before 2026-07-28, `initialize` makes a sandbox, its id is
the session's, and it is closed by DELETE, when idle, or when too old. Since then there are no sessions, and a key says
nothing about which conversation asks: a program that finds the variables of another one would be wrong without a sign.
So a call without `sandbox` gets a sandbox of its own, which its result names, and a call with that name goes on there.

An answer that is there within a second is JSON. A later one is a stream of server-sent events, in which progress is
told and comments keep proxies from cutting it; where a client accepts no stream, it waits for JSON. Whoever closes the
connection calls the request off, in both eras, because no answer is kept for a later connection.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import functools
import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from groundbox.agent import mcp
from groundbox.agent.adapters.workplace import interruptible
from groundbox.agent.mcp import RpcError, error_answer
from groundbox.errors import InvalidArgument, SandboxLost
from groundbox.execution import Execution
from groundbox.sandbox.sandbox import AsyncSandbox
from groundbox.server import bodies
from groundbox.server.keys import Key
from groundbox.server.refusals import Refused
from groundbox.server.replies import JSON, SSE, Streamed, attended, encoded, json_reply
from groundbox.server.sandboxes import Held
from groundbox.server.service import Service

PATH: Final = "/mcp"
_MOST_ID_CHARS: Final = 1000
_WIRE: Final = "mcp"
_SESSION: Final = "mcp-session-id"
_VERSION, _METHOD, _NAME = "mcp-protocol-version", "mcp-method", "mcp-name"
_BATCHES: Final = ("2025-03-26",)
"""Versions in which a body may be a list of messages."""
_HEADER_MISMATCH, _REFUSED, _NO_SESSION = -32020, -32000, -32001
_STATUS: Final = {
    mcp.PARSE_ERROR: 400,
    mcp.INVALID_REQUEST: 400,
    mcp.INVALID_PARAMS: 400,
    mcp.NO_METHOD: 404,
    mcp.UNSUPPORTED_VERSION: 400,
    _HEADER_MISMATCH: 400,
}
"""Status of HTTP for errors of the era without sessions, whose proxies read it."""
_AT_ONCE_S: Final = 1.0
_PATIENCE_S: Final = 0.2  # four interrupts: a program that heeds none of them ends within a second, with its process
_ONCE_IDLE_S: Final = 300.0
_MOST_CLIENT_CHARS: Final = 200
_ONCE: Final = {"mcp": "once"}
_STRUCTURED: Final = "structured_content"
_INSTRUCTIONS: Final = (
    "Programs run in sandboxes. A result names its sandbox; pass that name as `sandbox` to go on with its variables "
    "and files. Without it, a call gets a new one."
)
_NAMES_ITS_SANDBOX: Final = (
    " The result names its sandbox: what it keeps is there for calls that pass this name as `sandbox`, and no others."
)
_NEEDS_SANDBOX: Final = ("read_file", "restart")


def _with_sandbox(tool: Mapping[str, Any]) -> dict[str, Any]:
    """The tool with an argument that says where."""
    needed, schema = tool["name"] in _NEEDS_SANDBOX, tool["inputSchema"]
    about = "The name of a sandbox, from an earlier result." + ("" if needed else " Without it, a new one is made.")
    place = {"type": "string", "description": about}
    required = [*schema.get("required", ()), *(("sandbox",) if needed else ())]
    schema = {**schema, "properties": {**schema["properties"], "sandbox": place}, "required": required}
    more = _NAMES_ITS_SANDBOX if tool["name"] == "run_code" else ""
    return {**tool, "description": tool["description"] + more, "inputSchema": schema}


def _wants_structured(request: Request) -> bool:
    """Return True if the client's address has `structured_content=true`: a program that reads results as JSON.

    Raises:
        RpcError: The value is neither true nor false. Nothing was run.
    """
    value = request.query_params.get(_STRUCTURED, "false")
    if value not in ("true", "false"):
        raise RpcError(mcp.INVALID_REQUEST, f"{_STRUCTURED} in the address must be true or false; nothing was run")
    return value == "true"


class _Place:
    """One sandbox of a key, where tools run programs one after the other; in the older era also the session.

    Attributes:
        key: As the last request had it, because its quotas may change.
        version: That of the session; "" for a sandbox that is no session.
        running: Requests that go on, by the JSON of their identity.
        closed: Set with the end of the sandbox.
    """

    def __init__(self, service: Service, key: Key, held: Held, version: str = "") -> None:
        self.held, self.version = held, version
        self.running: dict[str, asyncio.Task[dict[str, Any]]] = {}
        self.closed = asyncio.Event()
        self.key, self._service = key, service
        self._turn = asyncio.Lock()
        held.on_close.append(self.closed.set)

    @property
    def sandbox(self) -> AsyncSandbox:
        """For files, limits and a restart."""
        return self.held.box

    async def run(self, source: str, language: str = "python", **options: Any) -> Execution:
        """Run one program; where an earlier one has ended the process, in a fresh one with the same files."""
        async with self._turn:
            try:
                return await self._once(source, language, options)
            except SandboxLost:
                await self.sandbox.restart()
                return await self._once(source, language, options)

    async def _once(self, source: str, language: str, options: Mapping[str, Any]) -> Execution:
        return await interruptible(self.sandbox, self._ran(source, language, options), patience_s=_PATIENCE_S)

    async def _ran(self, source: str, language: str, options: Mapping[str, Any]) -> Execution:
        """The run with quotas and the audit log. What the tools mend is theirs again and no refusal."""
        try:
            ran = await self._service.run_in(self.key, self.held, source, wire=_WIRE, language=language, **options)
        except Refused as refused:
            if isinstance(refused.__cause__, (SandboxLost, *mcp.MENDABLE)):
                raise refused.__cause__ from refused
            raise
        return ran.execution

    def forget(self, identity: str, task: asyncio.Task[dict[str, Any]]) -> None:
        """A request has ended. Another one of the same identity, which there should not be, goes on."""
        if self.running.get(identity) is task:
            del self.running[identity]


class Mcp:
    """The endpoint over one service."""

    def __init__(self, service: Service, tools: type[mcp.Tools]) -> None:
        self._service, self._tools = service, tools
        self._placed = tuple(map(_with_sandbox, tools.offered))

    async def post(self, request: Request) -> Response:
        """`POST /mcp`: one message, or several where the session's version has batches."""
        key = _key(request)
        try:
            message = await (await bodies.read(request)).decoded(Any)
        except Refused as refused:
            if refused.status != 400:
                raise
            return _failed(None, RpcError(mcp.PARSE_ERROR, refused.message))
        try:
            _wants_structured(request)  # checked here, before anything is made or run
            if _is_modern(request, message):
                return await self._modern(request, key, message)
            if isinstance(message, list):
                return await self._batch(request, key, message)
            return await self._in_session(request, key, message)
        except RpcError as error:
            return _failed(_identity(message), error)
        except Refused as refused:
            self._service.metrics.refused(refused.code)
            return _refused(_identity(message), refused, refused.status)

    async def get(self, request: Request) -> Response:
        """`GET /mcp`: the stream of a session. Nothing is ever sent unasked; it ends with the session."""
        if request.headers.get(_VERSION) in mcp.MODERN:
            return Response(status_code=405, headers={"Allow": "POST"})
        if SSE not in request.headers.get("accept", ""):
            return Response(status_code=406)
        try:
            place = self._session(request, _key(request))
        except Refused as refused:
            return _refused(None, refused, refused.status)
        every_s = self._service.settings.heartbeat_s

        async def parts() -> AsyncGenerator[bytes, None]:
            yield b": this stream is open\n\n"
            while not place.closed.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(place.closed.wait(), every_s)
                with place.held.in_use():  # whoever listens is there
                    yield b": nothing to tell\n\n"

        return _streamed(parts(), 2 * every_s, None)

    async def delete(self, request: Request) -> Response:
        """`DELETE /mcp`: the end of a session and of its sandbox."""
        try:
            place = self._session(request, _key(request))
        except Refused as refused:
            return _refused(None, refused, refused.status)
        await self._service.sandboxes.close(place.held)
        return Response(status_code=204)

    # The era with sessions

    async def _in_session(self, request: Request, key: Key, message: Any) -> Response:
        _check_message(message)
        if message.get("method") == "initialize" and "id" in message:
            return await self._initialize(request, key, message)
        place = self._session(request, key)
        if "id" not in message or "method" not in message:  # a notice, or an answer, and nothing was asked
            with place.held.in_use():
                self._notice(place, message)
            return Response(status_code=202)
        identity = json.dumps(message["id"])
        task = asyncio.ensure_future(self._methods(request, place).answer(message))
        place.running[identity] = task
        task.add_done_callback(lambda _: place.forget(identity, task))
        with place.held.in_use():
            return await self._answered(request, message, task, place)

    async def _initialize(self, request: Request, key: Key, message: dict[str, Any]) -> Response:
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        about = params.get("clientInfo")
        name = about.get("name") if isinstance(about, dict) else None
        labels = {"mcp": "session"}
        if isinstance(name, str) and name:
            labels["client"] = name[:_MOST_CLIENT_CHARS]
        try:
            held = self._service.create(key, wire=_WIRE, labels=labels)
        except Refused as refused:
            self._service.metrics.refused(refused.code)
            return _refused(message["id"], refused, 200)
        place = held.state[_WIRE] = _Place(self._service, key, held, mcp.agreed_version(params))
        answer = await self._methods(request, place).answer(message)
        if "error" in answer:
            await self._service.sandboxes.close(held)
            return json_reply(answer)
        return json_reply(answer, headers={_SESSION: held.id})

    async def _batch(self, request: Request, key: Key, messages: list[Any]) -> Response:
        place = self._session(request, key)
        if place.version not in _BATCHES or not messages:
            raise RpcError(mcp.INVALID_REQUEST, "a body is one message in this version")
        asked = []
        for message in messages:
            _check_message(message)
            if message.get("method") == "initialize":
                raise RpcError(mcp.INVALID_REQUEST, "initialize stands alone")
            if "id" in message and "method" in message:
                asked.append(message)
            else:
                self._notice(place, message)
        if not asked:
            return Response(status_code=202)
        methods = self._methods(request, place)

        async def one(message: dict[str, Any]) -> dict[str, Any]:
            try:
                return await methods.answer(message)
            except Refused as refused:
                return _answer_of(message["id"], refused)

        with place.held.in_use():
            return json_reply(await attended(request, asyncio.gather(*map(one, asked))))

    def _session(self, request: Request, key: Key) -> _Place:
        """The session that a request names.

        Raises:
            Refused: 400 where it names none, 404 where there is none of that name, so that its client begins anew.
            RpcError: It is of a version that is not spoken.
        """
        name = request.headers.get(_SESSION)
        if name is None:
            raise Refused(400, "no_session", "begin with initialize, and send the Mcp-Session-Id that its answer has")
        held = self._service.sandboxes.get(key, name)
        place = held.state.get(_WIRE)
        if not isinstance(place, _Place) or not place.version:
            raise Refused(404, "not_found", "there is no such session")
        place.key = key
        return place

    def _notice(self, place: _Place, message: Mapping[str, Any]) -> None:
        if isinstance(message.get("method"), str):
            task = place.running.get(mcp.cancelled_request(message) or "")
            if task is not None:
                task.cancel()

    # The era without sessions

    async def _modern(self, request: Request, key: Key, message: Any) -> Response:
        """One request, which says all about itself. Notices change nothing: identities of two clients are the same."""
        if isinstance(message, dict) and "id" not in message:
            _check_message(message)
            _check_supported(request.headers.get(_VERSION))
            return Response(status_code=202)
        _check_message(message)
        if "method" not in message:
            raise RpcError(mcp.INVALID_REQUEST, "a body is one request or notice")
        _check_envelope(request, message)
        structured = _wants_structured(request)

        async def call(name: str, arguments: Any) -> dict[str, Any]:
            return await self._call_by_name(key, name, arguments, structured=structured)

        methods = mcp.Methods(call, tools=self._placed, instructions=_INSTRUCTIONS)
        return await self._answered(request, message, asyncio.ensure_future(methods.answer(message)), None)

    async def _call_by_name(self, key: Key, name: str, arguments: Any, *, structured: bool) -> dict[str, Any]:
        """Call a tool in the sandbox that `sandbox` names, or in a new one."""
        try:
            given = mcp.checked_arguments(name, arguments, self._placed)
        except InvalidArgument as error:
            return mcp.text_result(f"Error: {error}", failed=True)
        wanted = given.pop("sandbox", None)
        if wanted is None:
            place = await self._made(key)
        else:
            try:
                held = self._service.sandboxes.get(key, wanted)
            except Refused:
                told = "Error: sandbox: there is none of that name, or it was closed; a call without it gets a new one"
                return mcp.text_result(told, failed=True)
            if _WIRE not in held.state:  # made through another protocol
                held.state[_WIRE] = _Place(self._service, key, held)
            place = held.state[_WIRE]
            place.key = key
            if held.wire == _WIRE and held.labels == _ONCE:
                held.labels, held.idle_s = {"mcp": "named"}, self._service.settings.idle_s
        try:
            result = await self._call(place, name, given, structured=structured)
        except BaseException:
            if wanted is None:  # nobody has been told its name
                await self._service.sandboxes.close(place.held)
            raise
        if "structuredContent" in result:
            result["structuredContent"]["sandbox"] = place.held.id
        result["content"].append({"type": "text", "text": f"sandbox: {place.held.id}"})
        return result

    async def _made(self, key: Key) -> _Place:
        """A new sandbox. Where there is no room, one gives way that no second call has asked for."""
        idle_s = min(_ONCE_IDLE_S, self._service.settings.idle_s)
        try:
            held = self._service.create(key, wire=_WIRE, labels=_ONCE, idle_s=idle_s)
        except Refused as refused:
            spare = [each for each in self._service.sandboxes.list(key, _ONCE) if not each.busy and each.wire == _WIRE]
            if refused.status != 429 or not spare:
                raise
            await self._service.sandboxes.close(min(spare, key=lambda each: each.used))
            held = self._service.create(key, wire=_WIRE, labels=_ONCE, idle_s=idle_s)
        place = held.state[_WIRE] = _Place(self._service, key, held)
        return place

    # Answers

    def _methods(self, request: Request, place: _Place) -> mcp.Methods:
        """The methods of a session."""
        call = functools.partial(self._call, place, structured=_wants_structured(request))
        return mcp.Methods(call, tools=self._tools.offered)

    async def _call(self, place: _Place, name: str, arguments: Any, *, structured: bool) -> dict[str, Any]:
        """Call a tool in one sandbox.

        Raises:
            Refused: Nobody knows what came of it.
            RpcError: There is no such tool.
        """
        mcp.check_tool(name, self._tools.offered)
        with self._service.errors(), place.held.in_use():
            return await self._tools(place, structured=structured).call(name, arguments)

    async def _answered(
        self, request: Request, message: Mapping[str, Any], task: asyncio.Task[dict[str, Any]], place: _Place | None
    ) -> Response:
        """The answer of a request that goes on, as JSON or as a stream; whoever goes away ends it."""
        accepts = request.headers.get("accept", "*/*")
        streams = SSE in accepts
        try:
            wait = asyncio.wait((task,), timeout=_AT_ONCE_S if streams else None)
            await attended(request, wait)
        except BaseException:
            await _stopped(task)
            raise
        if streams and (not task.done() or JSON not in accepts.replace("*/*", JSON)):
            events = self._events(message, task, place)
            return _streamed(events, self._service.settings.heartbeat_s, message["id"])
        if task.cancelled():
            if streams:  # a request that was called off gets no answer
                return Response(b"", media_type=SSE)
            return _failed(message["id"], RpcError(_REFUSED, "called off"), 200)
        status, answer = 200, {}
        try:
            answer = task.result()
        except Refused as refused:
            self._service.metrics.refused(refused.code)
            # older clients end their whole connection at a status above 299, and lose the words with it
            return _refused(message["id"], refused, 200 if place is not None else refused.status)
        if "error" in answer and place is None:
            status = _STATUS.get(answer["error"]["code"], 200)
        return Response(await asyncio.to_thread(encoded, answer), status, media_type=JSON)

    async def _events(
        self, message: Mapping[str, Any], task: asyncio.Task[dict[str, Any]], place: _Place | None
    ) -> AsyncGenerator[bytes, None]:
        token = mcp.progress_token(message)
        begun = asyncio.get_running_loop().time() - _AT_ONCE_S
        with contextlib.ExitStack() as stack:
            if place is not None:
                stack.enter_context(place.held.in_use())
            try:
                while not task.done():
                    await asyncio.wait((task,), timeout=None if token is None else mcp.PROGRESS_S)
                    if token is not None and not task.done():
                        yield _event(encoded(mcp.progress_notice(token, asyncio.get_running_loop().time() - begun)))
                if task.cancelled():
                    return
                try:
                    answer = task.result()
                except Refused as refused:
                    self._service.metrics.refused(refused.code)
                    answer = _answer_of(message["id"], refused)
                yield _event(await asyncio.to_thread(encoded, answer))
            finally:
                await _stopped(task)


def routes(service: Service, tools: type[mcp.Tools] = mcp.Tools) -> list[Route]:
    """The one path, with its three methods."""
    endpoint = Mcp(service, tools)
    return [
        Route(PATH, endpoint.post, methods=["POST"]),
        Route(PATH, endpoint.get, methods=["GET"]),
        Route(PATH, endpoint.delete, methods=["DELETE"]),
    ]


def _key(request: Request) -> Key:
    key: Key = request.scope["groundbox.key"]
    key.require("run")
    return key


def _is_modern(request: Request, message: Any) -> bool:
    """Tell whether a request is of the era without sessions, or of one that is not spoken yet."""
    version = request.headers.get(_VERSION)
    if version is not None and version not in mcp.SESSIONS:
        return True
    params = message.get("params") if isinstance(message, dict) else None
    meta = params.get("_meta") if isinstance(params, dict) else None
    return isinstance(meta, dict) and f"{mcp.META}/protocolVersion" in meta


def _check_message(message: Any) -> None:
    """Raises RpcError where it is no message of JSON-RPC."""
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise RpcError(mcp.INVALID_REQUEST, "a message is an object with jsonrpc 2.0")
    if "method" in message and not isinstance(message["method"], str):
        raise RpcError(mcp.INVALID_REQUEST, "a method is a text")
    identity = message.get("id", 0)
    if isinstance(identity, bool) or not isinstance(identity, str | int):
        raise RpcError(mcp.INVALID_REQUEST, "an id is a text or a whole number")
    if isinstance(identity, str) and len(identity) > _MOST_ID_CHARS:
        raise RpcError(mcp.INVALID_REQUEST, f"an id must have at most {_MOST_ID_CHARS} characters")


def _check_supported(version: Any) -> None:
    if version not in mcp.MODERN:
        known = {"supported": list(mcp.MODERN), "requested": str(version)[:200]}
        raise RpcError(mcp.UNSUPPORTED_VERSION, f"version {version} is not spoken here", known)


def _check_envelope(request: Request, message: Mapping[str, Any]) -> None:
    """Check that a request says what it has to of itself, and that headers, which proxies route by, say the same.

    Raises:
        RpcError: It does not.
    """
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    if not isinstance(params, dict) or not isinstance(meta, dict):
        raise RpcError(mcp.INVALID_PARAMS, f"params._meta: is missing, with {mcp.META}/protocolVersion")
    version = meta.get(f"{mcp.META}/protocolVersion")
    if not isinstance(version, str):
        raise RpcError(mcp.INVALID_PARAMS, f"params._meta: {mcp.META}/protocolVersion is missing")
    if not isinstance(meta.get(f"{mcp.META}/clientCapabilities"), dict):
        raise RpcError(mcp.INVALID_PARAMS, f"params._meta: {mcp.META}/clientCapabilities is missing")
    said = {_VERSION: version, _METHOD: message["method"]}
    if message["method"] == "tools/call":
        said[_NAME] = params.get("name")
    for name, value in said.items():
        given = request.headers.getlist(name)
        if len(given) != 1 or _decoded(given[0].strip(" \t")) != value:  # blanks around it are none of the value
            raise RpcError(_HEADER_MISMATCH, f"the header {name} must be sent once, and say what the body says")
    _check_supported(version)


def _decoded(value: str) -> str | None:
    """The value of a header, which may be base64 in `=?base64?…?=` where it is not plain ASCII."""
    if not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def _identity(message: Any) -> Any:
    identity = message.get("id") if isinstance(message, dict) else None
    return identity if isinstance(identity, str | int) and not isinstance(identity, bool) else None


def _failed(identity: Any, error: RpcError, status: int | None = None) -> Response:
    return json_reply(error_answer(identity, error), _STATUS.get(error.code, 400) if status is None else status)


def _answer_of(identity: Any, refused: Refused) -> dict[str, Any]:
    """A refusal as an error of the protocol, which no client takes for what a program did."""
    data: dict[str, Any] = {"code": refused.code, "status": refused.status}
    if refused.retry_after_s is not None:
        data["retry_after_s"] = refused.retry_after_s
    code = mcp.INTERNAL if refused.status >= 500 else _NO_SESSION if refused.status == 404 else _REFUSED
    return error_answer(identity, RpcError(code, refused.message, data))


def _refused(identity: Any, refused: Refused, status: int) -> Response:
    return json_reply(_answer_of(identity, refused), status, refused.headers)


def _streamed(events: AsyncGenerator[bytes, None], heartbeat_s: float, identity: Any) -> Streamed:
    return Streamed(
        events,
        media_type=SSE,
        heartbeat=b": still running\n\n",
        heartbeat_s=heartbeat_s,
        refused=lambda refused: _event(encoded(_answer_of(identity, refused))),
        headers={"X-Accel-Buffering": "no"},
    )


def _event(message: bytes) -> bytes:
    return b"event: message\ndata: " + message + b"\n\n"


async def _stopped(task: asyncio.Task[dict[str, Any]]) -> None:
    """Nobody waits for it any more."""
    if not task.done():
        task.cancel()
        await asyncio.wait((task,))
    if not task.cancelled():
        task.exception()  # looked at, because nobody else asks
