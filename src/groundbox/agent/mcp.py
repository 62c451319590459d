"""The Model Context Protocol: tools that run programs in a sandbox, and their server on standard input and output.

Both eras are spoken, and every request says by itself which it is of: since 2026-07-28 requests carry their version in
`_meta` and there is no session; before, `initialize` agrees on one. `Tools` does the work in one sandbox, `Methods`
answers messages, and `Server` carries them as lines of JSON; the HTTP server carries them by `wires/mcp.py`. Requests
are carried out as they come, so that `ping` is answered and a call can be cancelled while a program runs; programs of
one sandbox follow one another.

Offered are tools and nothing else of the protocol, which needs so little of it that no package is taken for it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import mimetypes
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, Protocol

from groundbox.agent.adapters.interpreter import ABOUT, LANGUAGES, Interpreter
from groundbox.agent.adapters.telling import MOST_PICTURES, told
from groundbox.agent.defusing import fenced, mark_for, one_line
from groundbox.agent.fixed_settings import for_a_tool, without_settings
from groundbox.errors import GroundboxError, GuestFileError, InvalidArgument, LanguageUnavailable
from groundbox.execution import BINARY_MEDIA, CHART, Execution
from groundbox.sandbox.languages import named
from groundbox.sandbox.sandbox import AsyncSandbox
from groundbox.version import own_version

logger = logging.getLogger(__name__)

MODERN: Final = ("2026-07-28",)
SESSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MOST_LINE_BYTES: Final = 64 * 1024 * 1024
_MOST_READ_BYTES: Final = 8 * 1024 * 1024
_MOST_HTML_CHARS: Final = 200_000
_MOST_LOST: Final = 50
PROGRESS_S: Final = 1.0
_PICTURES: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603
UNSUPPORTED_VERSION: Final = -32022
META: Final = "io.modelcontextprotocol"
MENDABLE: Final = (InvalidArgument, LanguageUnavailable, GuestFileError)
"""What a model can mend: told as a result with `isError`, and not as an error of the protocol."""
_OF_SESSIONS: Final = ("initialize", "ping")
"""Methods that the era without sessions has no more."""
_CACHE: Final = {"ttlMs": 3_600_000, "cacheScope": "public"}
INSTRUCTIONS: Final = "Programs run in one sandbox, which keeps variables and files for as long as this server runs."

_TEXT: Final = {"type": "string"}
TOOLS: Final = (
    {
        "name": "run_code",
        "title": "Run a program",
        "description": ABOUT,
        "inputSchema": {
            "type": "object",
            "properties": {
                "code": {**_TEXT, "description": "The program."},
                "language": {**_TEXT, "enum": list(LANGUAGES), "default": "python"},
                "wall_s": {"type": "number", "exclusiveMinimum": 0, "description": "Stops it after so many seconds."},
            },
            "required": ["code"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": False, "destructiveHint": False, "openWorldHint": False},
    },
    {
        "name": "write_file",
        "title": "Put a file into the sandbox",
        "description": "Writes a file into the sandbox's working folder, where programs find it by its path.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "path": {**_TEXT, "description": "Relative, such as data/sales.csv."},
                "content": _TEXT,
                "encoding": {**_TEXT, "enum": ["utf-8", "base64"], "default": "utf-8"},
            },
            "required": ["path", "content"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True, "openWorldHint": False},
    },
    {
        "name": "read_file",
        "title": "Take a file out of the sandbox",
        "description": "Reads a file of the sandbox's working folder: text, a picture, or base64 of anything else.",
        "inputSchema": {
            "type": "object",
            "properties": {"path": {**_TEXT, "description": "As the program named it, relative."}},
            "required": ["path"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
    {
        "name": "restart",
        "title": "Begin anew",
        "description": "Forgets all variables and ends all processes of the sandbox. Files are kept.",
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
        "annotations": {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": False},
    },
)


_MOST_MESSAGE_CHARS: Final = 2000


class RpcError(Exception):
    """A request that gets an error of the protocol."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message if len(message) <= _MOST_MESSAGE_CHARS else f"{message[:_MOST_MESSAGE_CHARS]}…")
        self.code, self.data = code, data

    def to_dict(self) -> dict[str, Any]:
        """The `error` of an answer."""
        error = {"code": self.code, "message": str(self)}
        return error if self.data is None else {**error, "data": self.data}


class Place(Protocol):
    """Where tools run programs, one after the other. `Interpreter` is one."""

    @property
    def sandbox(self) -> AsyncSandbox:
        """For files, limits and a restart."""

    async def run(self, source: str, language: str = "python", **options: Any) -> Execution:
        """Run one program. Whoever is cancelled stops it."""


class Methods:
    """The methods of the protocol, over whatever calls the tools."""

    def __init__(
        self,
        call: Callable[[str, Any], Awaitable[dict[str, Any]]],
        *,
        tools: Sequence[Mapping[str, Any]] = TOOLS,
        instructions: str = INSTRUCTIONS,
    ) -> None:
        """Args:
        call: Takes the name of a tool, and its arguments as they came; gives a result.
        """
        self._call_tool, self._tools, self._instructions = call, tools, instructions
        self._methods: dict[str, Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]] = {
            "initialize": self._initialize,
            "server/discover": self._discover,
            "ping": self._nothing,
            "tools/list": self._list,
            "tools/call": self._call,
        }

    async def answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to one request, a result or an error. Exceptions that are none of the engine's pass through."""
        params = message.get("params") or {}
        try:
            if not isinstance(params, dict):
                raise RpcError(INVALID_PARAMS, "params must be an object")
            modern = check_version(params)
            method = self._methods.get(message["method"])
            if method is None or (modern and message["method"] in _OF_SESSIONS):
                raise RpcError(NO_METHOD, f"there is no method {message['method']}")
            result = await method(params)
        except RpcError as refused:
            return error_answer(message["id"], refused)
        except GroundboxError as error:
            return error_answer(message["id"], RpcError(INTERNAL, str(error)))
        return {"jsonrpc": "2.0", "id": message["id"], "result": _of_the_era(result, modern=modern)}

    async def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        about = {"capabilities": {"tools": {}}, "serverInfo": _server_info(), "instructions": self._instructions}
        return {"protocolVersion": agreed_version(params), **about}

    async def _discover(self, params: dict[str, Any]) -> dict[str, Any]:
        about = {"capabilities": {"tools": {}}, "instructions": self._instructions}
        return {"supportedVersions": list(MODERN), **about, **_CACHE}

    async def _nothing(self, params: dict[str, Any]) -> dict[str, Any]:
        return {}

    async def _list(self, params: dict[str, Any]) -> dict[str, Any]:
        return {"tools": list(self._tools), **_CACHE}

    async def _call(self, params: dict[str, Any]) -> dict[str, Any]:
        name = params.get("name")
        return await self._call_tool(name if isinstance(name, str) else repr(name), params.get("arguments") or {})


class Server:
    """One client and one sandbox, over lines of JSON."""

    def __init__(
        self,
        interpreter: Interpreter,
        send: Callable[[bytes], Awaitable[None]],
        keep: Callable[[Execution], Awaitable[str]] | None = None,
        *,
        structured: bool = False,
    ) -> None:
        """Args:
        send: Writes one line.
        keep: Told of each result; gives a sentence for the model, or "".
        structured: Add `structuredContent` to results; see `Tools`.
        """
        self._interpreter = interpreter
        self._send = send
        self._running: dict[Any, asyncio.Task[None]] = {}
        self._methods = Methods(Tools(interpreter, keep, structured=structured).call)

    async def serve(self, lines: asyncio.StreamReader) -> None:
        """Answer until the client closes its end; then what still runs is stopped, and the sandbox ended."""
        try:
            while line := await lines.readline():
                await self._take(line)
        except ValueError:
            told = f"a message is over {MOST_LINE_BYTES} bytes"
            await self._tell(error_answer(None, RpcError(INVALID_REQUEST, told)))
        finally:
            for task in self._running.values():
                task.cancel()
            await asyncio.gather(*self._running.values(), return_exceptions=True)
            await self._interpreter.close()

    async def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            await self._tell(error_answer(None, RpcError(PARSE_ERROR, "a message is one line of JSON")))
            return
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            told = "a message is an object with jsonrpc 2.0"
            await self._tell(error_answer(None, RpcError(INVALID_REQUEST, told)))
        elif not isinstance(message.get("method"), str):
            return  # an answer, and nothing was asked
        elif "id" not in message:
            self._notice(message)
        else:
            key = json.dumps(message["id"])
            task = asyncio.ensure_future(self._carry_out(message))
            self._running[key] = task
            task.add_done_callback(lambda _: self._running.pop(key, None))

    def _notice(self, message: dict[str, Any]) -> None:
        task = self._running.get(cancelled_request(message) or "")
        if task is not None:
            task.cancel()

    async def _carry_out(self, message: dict[str, Any]) -> None:
        token, clock = progress_token(message), asyncio.get_running_loop().time
        begun, work = clock(), asyncio.ensure_future(self._methods.answer(message))
        try:
            while token is not None and not (await asyncio.wait((work,), timeout=PROGRESS_S))[0]:
                await self._tell(progress_notice(token, clock() - begun))
            answer = await work
        finally:
            if not work.done():  # called off while progress was told
                work.cancel()
                await asyncio.wait((work,))
        await self._tell(answer)

    async def _tell(self, answer: dict[str, Any]) -> None:
        await self._send(json.dumps(answer, default=str).encode("utf-8", "replace") + b"\n")


class Tools:
    """The tools, in one place.

    Attributes:
        offered: Their descriptions, as `tools/list` has them.
        methods: What carries out each of them, by its name.
    """

    offered: ClassVar[Sequence[Mapping[str, Any]]] = TOOLS

    def __init__(
        self,
        place: Place,
        keep: Callable[[Execution], Awaitable[str]] | None = None,
        *,
        structured: bool = False,
    ) -> None:
        """Args:
        keep: Told of each result; gives a sentence for the model, or "".
        structured: Add the result as JSON, `structuredContent`, for programs that read it. It is off by default:
            clients such as Claude Code and Codex then show the model that JSON instead of the text and the pictures.
        """
        self._place, self._keep, self._structured = place, keep, structured

    async def call(self, name: str, arguments: Any) -> dict[str, Any]:
        """What a model can mend is a result with `isError`; what it cannot is an error of the protocol."""
        try:
            given = checked_arguments(name, arguments, self.offered)
            return await self.methods[name](self, **given)
        except MENDABLE as error:
            return text_result(f"Error: {without_settings(str(error))}", failed=True)

    async def _run_code(self, code: str, language: str = "python", wall_s: float | None = None) -> dict[str, Any]:
        execution = await self._place.run(code, language, wall_s=wall_s)
        limit = self._place.sandbox.limits.wall_s
        may_raise_wall = wall_s is not None and (limit is None or wall_s < limit)
        execution = for_a_tool(execution, may_raise_wall=may_raise_wall)
        observation = told(execution, max_pictures=MOST_PICTURES)
        content: list[dict[str, Any]] = [{"type": "text", "text": observation.text}]
        for each in observation.pictures:
            data = base64.b64encode(each.data).decode("ascii")
            content.append({"type": "image", "data": data, "mimeType": each.media_type})
        if self._keep is not None and (said := await self._keep(execution)):
            content.append({"type": "text", "text": said})
        result: dict[str, Any] = {"content": content, "isError": not execution.ok}
        return {**result, "structuredContent": _structured(execution)} if self._structured else result

    async def _write_file(self, path: str, content: str, encoding: str = "utf-8") -> dict[str, Any]:
        try:
            data = base64.b64decode(content, validate=True) if encoding == "base64" else content.encode()
        except ValueError as error:
            raise InvalidArgument("content", f"is no {encoding}: {error}") from None
        await self._place.sandbox.files.write(path, data)
        return text_result(f"{len(data)} bytes written to {path}")

    async def _read_file(self, path: str) -> dict[str, Any]:
        data = await self._place.sandbox.files.read(path)
        if len(data) > _MOST_READ_BYTES:
            raise GuestFileError(path, f"has {len(data)} bytes, more than {_MOST_READ_BYTES}; read a part of it")
        if media_type := picture_media_type(data):
            picture = {"type": "image", "data": base64.b64encode(data).decode("ascii"), "mimeType": media_type}
            return {"content": [picture], "isError": False}
        try:
            return text_result(data.decode("utf-8"))
        except UnicodeDecodeError:
            blob = {
                "uri": f"sandbox:///{path}",
                "mimeType": mimetypes.guess_type(path)[0] or "application/octet-stream",
                "blob": base64.b64encode(data).decode("ascii"),
            }
            return {"content": [{"type": "resource", "resource": blob}], "isError": False}

    async def _restart(self) -> dict[str, Any]:
        lost = await self._place.sandbox.restart()
        return text_result("The variables are gone." + _lost_files(lost))

    methods: ClassVar[Mapping[str, Callable[..., Awaitable[dict[str, Any]]]]] = {
        "run_code": _run_code,
        "write_file": _write_file,
        "read_file": _read_file,
        "restart": _restart,
    }


def error_answer(identity: Any, error: RpcError) -> dict[str, Any]:
    """The answer that says why a request was not carried out; its identity is None where none could be read."""
    return {"jsonrpc": "2.0", "id": identity, "error": error.to_dict()}


def agreed_version(params: Mapping[str, Any]) -> str:
    """The version of a session: the one that the client asked for, or the last that is spoken here."""
    asked = params.get("protocolVersion")
    return str(asked) if asked in SESSIONS else SESSIONS[-1]


def check_version(params: Mapping[str, Any]) -> bool:
    """Tell whether it is a request of the era without sessions.

    Raises:
        RpcError: It is of a version that is not spoken.
    """
    meta = params.get("_meta")
    version = meta.get(f"{META}/protocolVersion") if isinstance(meta, dict) else None
    if version is None:
        return False
    if version not in MODERN:
        known = {"supported": [*SESSIONS, *MODERN], "requested": str(version)}
        raise RpcError(UNSUPPORTED_VERSION, f"version {version} is not spoken here", known)
    return True


def cancelled_request(notice: Mapping[str, Any]) -> str | None:
    """The JSON of the identity of a request that a client calls off, or None where the notice says something else."""
    params = notice.get("params")
    if notice["method"] != "notifications/cancelled" or not isinstance(params, dict):
        return None
    return json.dumps(params.get("requestId"))


def progress_token(message: Mapping[str, Any]) -> str | int | None:
    """The name under which a request wants its progress told, or None where it wants none."""
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    return token if isinstance(token, str | int) and not isinstance(token, bool) else None


def progress_notice(token: str | int, running_s: float) -> dict[str, Any]:
    """Seconds so far. There is no `total`: nobody knows how long a program runs."""
    params = {"progressToken": token, "progress": round(running_s, 3), "message": f"runs for {running_s:.0f} s"}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


def picture_media_type(data: bytes) -> str | None:
    """The media type of a picture of a kind that models are shown, by its first bytes; None for all else."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((media_type for magic, media_type in _PICTURES.items() if data.startswith(magic)), None)


def _of_the_era(result: dict[str, Any], *, modern: bool) -> dict[str, Any]:
    if modern:
        return {**result, "resultType": "complete", "_meta": {f"{META}/serverInfo": _server_info()}}
    return {name: value for name, value in result.items() if name not in _CACHE}


def _server_info() -> dict[str, str]:
    return {"name": "groundbox", "version": own_version()}


def check_tool(name: str, tools: Sequence[Mapping[str, Any]]) -> None:
    """Raises RpcError where there is no tool of this name."""
    names = [str(tool["name"]) for tool in tools]
    if name not in names:
        raise RpcError(INVALID_PARAMS, f"there is no tool {name!r}; there is: {', '.join(names)}")


def checked_arguments(name: str, arguments: Any, tools: Sequence[Mapping[str, Any]] = TOOLS) -> dict[str, Any]:
    """The arguments, if they are such as the tool's schema says.

    Raises:
        RpcError: There is no such tool.
        InvalidArgument: They are not.
    """
    check_tool(name, tools)
    schema: Mapping[str, Any] = next(tool for tool in tools if tool["name"] == name)["inputSchema"]
    known = schema["properties"]
    if not isinstance(arguments, dict) or arguments.keys() - known.keys():
        raise InvalidArgument("arguments", f"must be an object with no others than {', '.join(known) or 'none'}")
    for missing in schema.get("required", []):
        if missing not in arguments:
            raise InvalidArgument(missing, "is missing")
    given: dict[str, Any] = dict(arguments)
    if isinstance(given.get("language"), str):
        given["language"] = named(given["language"])
    for argument, value in given.items():
        number = known[argument]["type"] == "number"
        if isinstance(value, bool) or not isinstance(value, (int, float) if number else str):
            raise InvalidArgument(argument, f"must be a {'number' if number else 'text'}")
        if value not in known[argument].get("enum", [value]):
            raise InvalidArgument(argument, f"must be one of {', '.join(known[argument]['enum'])}")
    return given


def _lost_files(lost: Sequence[str]) -> str:
    """Their names are the guest's words, and stand as such."""
    if not lost:
        return ""
    names = "\n".join(map(one_line, lost[:_MOST_LOST]))
    more = f"\n… {len(lost) - _MOST_LOST} files more …" if len(lost) > _MOST_LOST else ""
    return " So are these files:\n" + fenced("files", names + more, mark_for([names]))


def text_result(text: str, *, failed: bool = False) -> dict[str, Any]:
    """The result of a tool that has nothing but words."""
    return {"content": [{"type": "text", "text": text}], "isError": failed}


def _structured(execution: Execution) -> dict[str, Any]:
    """The JSON form. Pictures are in the content and not twice; pages such as plotly's, of megabytes, are left out."""
    result = execution.to_dict()
    result["displays"] = [_without_pictures_and_pages(display) for display in result["displays"]]
    if isinstance(result["value"], dict):
        result["value"] = _without_pages(result["value"])
    return result


def _without_pictures_and_pages(display: Mapping[str, Any]) -> dict[str, Any]:
    left_out = BINARY_MEDIA | {CHART}
    return _without_pages({kind: value for kind, value in display.items() if kind not in left_out})


def _without_pages(bundle: Mapping[str, Any]) -> dict[str, Any]:
    """The bundle without HTML that is longer than any reader of JSON wants; its text says so."""
    page = bundle.get("text/html")
    if not isinstance(page, str) or len(page) <= _MOST_HTML_CHARS:
        return dict(bundle)
    kept = {kind: value for kind, value in bundle.items() if kind != "text/html"}
    return {**kept, "text/plain": f"{kept.get('text/plain', '')}\n(a page of {len(page)} characters left out)"}
