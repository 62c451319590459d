"""Processes of sandboxes over `/v1`: started, fed, listened to, signalled and ended, by requests or by a WebSocket.

Output of a process is read by one listener at a time, as it comes; what nobody reads waits in the guest's pipe, whose
program waits with it. The WebSocket is a terminal's: bytes both ways, and words as JSON (`{"resize": [rows, columns]}`,
`{"signal": 15}`, and `{"exit": …}` at the end).
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncGenerator, Callable
from typing import Annotated, Any, ClassVar, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from groundbox.sandbox.process import AsyncProcess, Exit
from groundbox.server import bodies, schemas
from groundbox.server.keeping import size_of
from groundbox.server.refusals import Refused, not_found
from groundbox.server.replies import SSE, Streamed, attended, event, json_reply
from groundbox.server.sandboxes import Held
from groundbox.server.service import Service

_ENDED: Final = "v1.ended"
_LISTENING: Final = "v1.listening"
_MOST_ENDED: Final = 64
_PIECES_A_SECOND: Final = 400
_MOST_ENDED_BYTES: Final = 64 * 1024
_MOST_STDIN_BYTES: Final = 16 * 1024 * 1024


Size = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1, extra_json_schema={"minimum": 1, "maximum": 65535})]


class StartAsked(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A program to start: `POST /v1/sandboxes/ID/processes`, as `AsyncSandbox.start` takes it."""

    LONG: ClassVar[bodies.Long] = {"command": bodies.ARGUMENT, "env": bodies.ARGUMENT}

    command: schemas.Argument | list[schemas.Argument]
    cwd: schemas.Path | None = None
    env: dict[schemas.Argument, schemas.Argument] | None = None
    stdin: bool = True
    pty: tuple[Size, Size] | None = None
    tag: schemas.Label | None = None
    shell: bool = True


class SignalAsked(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A signal by its number."""

    signal: int


class ResizeAsked(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Another size of a terminal."""

    rows: Size
    columns: Size


class Processes:
    """The routes over one service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> list[BaseRoute]:
        """All of them."""
        all_ = "/v1/sandboxes/{sandbox_id}/processes"
        one = all_ + "/{pid:int}"
        return [
            Route(all_, self.start, methods=["POST"]),
            Route(all_, self.listed, methods=["GET"]),
            Route(one, self.show, methods=["GET"]),
            Route(f"{one}/output", self.output, methods=["GET"]),
            Route(f"{one}/stdin", self.stdin, methods=["POST"]),
            Route(f"{one}/signal", self.signal, methods=["POST"]),
            Route(f"{one}/resize", self.resize, methods=["POST"]),
            WebSocketRoute(f"{one}/terminal", self.terminal),
        ]

    async def start(self, request: Request) -> Response:
        """`POST /v1/sandboxes/ID/processes`"""
        held = self._held(request)
        asked = await schemas.read(request, StartAsked)
        options = {name: getattr(asked, name) for name in asked.__struct_fields__ if name != "command"}
        key = request.scope["groundbox.key"]
        process = await self._service.start_in(key, held, asked.command, **options)
        return json_reply(_told(process), 201)

    async def listed(self, request: Request) -> Response:
        """`GET /v1/sandboxes/ID/processes`: those that live."""
        return json_reply({"processes": [_told(each) for each in self._held(request).box.processes.values()]})

    async def show(self, request: Request) -> Response:
        """`GET /v1/sandboxes/ID/processes/PID`; `?wait_s=N` waits so long for its end."""
        process = self._process(request)
        wait_s = _seconds(request.query_params.get("wait_s", "0"))
        if wait_s:
            with contextlib.suppress(TimeoutError), self._held(request).in_use():
                await attended(request, process.wait(timeout_s=wait_s))
        return json_reply(_told(process))

    async def output(self, request: Request) -> Response:
        """`GET /v1/sandboxes/ID/processes/PID/output`: events `stdout`, `stderr`, `pty` with base64, then `exit`."""
        held, process = self._held(request), self._process(request)
        return Streamed(
            self._events(held, process),
            media_type=SSE,
            heartbeat=b": still running\n\n",
            heartbeat_s=self._service.settings.heartbeat_s,
            refused=lambda refused: event("failed", refused.to_dict()),
        )

    async def stdin(self, request: Request) -> Response:
        """`POST /v1/sandboxes/ID/processes/PID/stdin`: bytes; `?close=1` closes it after them."""
        held, process, data = self._held(request), self._process(request), await bodies.read_bytes(request)
        with self._service.errors(), held.in_use():
            if data:
                await attended(request, process.write(data))  # waits for as long as the program reads nothing
            if request.query_params.get("close"):
                await process.close_stdin()
        return Response(status_code=204)

    async def signal(self, request: Request) -> Response:
        """`POST /v1/sandboxes/ID/processes/PID/signal`"""
        process = self._process(request)
        asked = await schemas.read(request, SignalAsked)
        with self._service.errors():
            process.signal(asked.signal)
        return Response(status_code=204)

    async def resize(self, request: Request) -> Response:
        """`POST /v1/sandboxes/ID/processes/PID/resize`"""
        process = self._process(request)
        asked = await schemas.read(request, ResizeAsked)
        with self._service.errors():
            process.resize(rows=asked.rows, columns=asked.columns)
        return Response(status_code=204)

    async def terminal(self, socket: WebSocket) -> None:
        """`WS /v1/sandboxes/ID/processes/PID/terminal`. The process goes on when the socket is closed."""
        held, process = self._held(socket), self._process(socket)
        key, keys = socket.scope["groundbox.key"], self._service.keys
        await socket.accept()

        async def show() -> None:
            with _listening(held, process):
                while (chunk := await process.read()) is not None:
                    keys.current(key)  # it may have been revoked since the connection was made
                    await socket.send_bytes(chunk.data)
                    await self._service.pace.wait(key.id, _PIECES_A_SECOND)
            ended = await process.wait()
            if held.closed:  # the process was ended with its sandbox, and nobody must take that for its own end
                raise Refused(410, "sandbox_closed", "this sandbox has been closed")
            await socket.send_text(json.dumps({"exit": ended._asdict()}))

        with held.in_use():
            showing = asyncio.ensure_future(show())
            heeding = asyncio.ensure_future(_heed(socket, process, lambda: keys.current(key)))
            try:
                done, _ = await asyncio.wait((showing, heeding), return_when=asyncio.FIRST_COMPLETED)
                for each in done:
                    each.result()
            except WebSocketDisconnect:
                return
            except Refused as refused:
                await socket.close(
                    1012 if self._service.is_ending else 1008, refused.message.encode()[:120].decode(errors="ignore")
                )
                return
            finally:
                for each in (showing, heeding):
                    each.cancel()
                await asyncio.gather(showing, heeding, return_exceptions=True)
            with contextlib.suppress(RuntimeError):
                await socket.close(1000)

    async def _events(self, held: Held, process: AsyncProcess) -> AsyncGenerator[bytes, None]:
        with held.in_use(), _listening(held, process):
            while (chunk := await process.read()) is not None:
                yield event(chunk.stream, {"base64": base64.b64encode(chunk.data).decode("ascii")})
                await self._service.pace.wait(held.key_id, _PIECES_A_SECOND)
            ended = await process.wait()
        if held.closed:
            self._service.check_open()
            raise Refused(410, "sandbox_closed", "this sandbox has been closed")
        yield event("exit", ended._asdict())

    def _held(self, request: Request | WebSocket) -> Held:
        key = request.scope["groundbox.key"]
        key.require("run")
        return self._service.sandboxes.get(key, request.path_params["sandbox_id"])

    def _process(self, request: Request | WebSocket) -> AsyncProcess:
        """A process that lives, or that ended a while ago.

        Raises:
            Refused: 404, there is none of that number.
        """
        held, pid = self._held(request), request.path_params["pid"]
        known: dict[int, AsyncProcess] = held.state.setdefault(_ENDED, {})
        known.update(held.box.processes)
        ended = [each for each in known if each not in held.box.processes]
        size_bytes = sum(size_of(known[each].command) for each in ended)
        while ended and (len(ended) > _MOST_ENDED or size_bytes > _MOST_ENDED_BYTES):
            size_bytes -= size_of(known.pop(ended.pop(0)).command)
        process = known.get(pid)
        if process is None:
            raise not_found("process")
        return process


@contextlib.contextmanager
def _listening(held: Held, process: AsyncProcess) -> Any:
    """Hold the one place of a listener.

    Raises:
        Refused: 409, somebody listens already, and each would get half of the output.
    """
    listening: set[AsyncProcess] = held.state.setdefault(_LISTENING, set())
    if process in listening:
        raise Refused(409, "listened_to", "another request reads the output of this process already")
    listening.add(process)
    try:
        yield
    finally:
        listening.discard(process)


async def _heed(socket: WebSocket, process: AsyncProcess, check: Callable[[], object]) -> None:
    """Carry out what a terminal's page sends, until it hangs up or `check` raises."""
    while True:
        message = await socket.receive()
        check()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1000))
        data = message.get("bytes")
        if data is None:
            words = (message.get("text") or "").encode("utf-8", "surrogatepass")
            if len(words) > _MOST_STDIN_BYTES:
                raise Refused(413, "too_large", f"a message has at most {_MOST_STDIN_BYTES} bytes")
            bodies.check(words)
            try:
                told = bodies.decode(words, dict[str, Any])
                if "resize" in told:
                    rows, columns = told["resize"]
                    process.resize(rows=rows, columns=columns)
                elif "signal" in told:
                    process.signal(told["signal"])
                elif "input" in told:
                    await process.write(str(told["input"]).encode())
            except Exception as error:
                raise Refused(400, "bad_message", f"no such message: {type(error).__name__}") from None
            continue
        if len(data) > _MOST_STDIN_BYTES:
            raise Refused(413, "too_large", f"a message has at most {_MOST_STDIN_BYTES} bytes")
        await process.write(data)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 3600:
        raise Refused(400, "invalid_argument", "wait_s: must be a number from 0 to 3600")
    return seconds


def _told(process: AsyncProcess) -> dict[str, Any]:
    ended: Exit | None = process.exit
    command = process.command
    return {
        "pid": process.pid,
        "command": command if isinstance(command, str) else list(command),
        "tag": process.tag,
        "exit": None if ended is None else ended._asdict(),
    }
