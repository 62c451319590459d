"""The native interface, `/v1`: programs, sandboxes, their files, and executions that can be asked for afterwards."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import functools
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Iterable, Mapping
from typing import Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from groundbox.errors import GuestFileError, InvalidArgument
from groundbox.execution import Event, Execution, Warning
from groundbox.sandbox import environments, languages
from groundbox.server import bodies, openapi, schemas
from groundbox.server.keeping import size_of
from groundbox.server.keys import Key
from groundbox.server.records import Record, search
from groundbox.server.refusals import Refused, not_found
from groundbox.server.replies import (
    SSE,
    Streamed,
    attended,
    encoded_beside,
    event,
    json_reply,
    reply_of,
    with_blanks,
)
from groundbox.server.sandboxes import Held
from groundbox.server.service import Ran, Service
from groundbox.unseen import shown_names

T = TypeVar("T")

_WIRE: Final = "v1"
_MOST_INLINE_BYTES: Final = 64 * 1024 * 1024
_MOST_PAGE_BYTES: Final = 16 * 1024 * 1024
_MOST_BATCH_AT_ONCE: Final = 64
_HEAD_CHARS: Final = 200
_MOST_BATCH_BYTES: Final = 256 * 1024 * 1024


class Api:
    """The routes of `/v1` over one service."""

    def __init__(self, service: Service, described: Mapping[str, Any] | None = None) -> None:
        """Args:
        described: A part of the OpenAPI document for other routes of this server, as `openapi.of_protocols` makes it.
        """
        self._service, self._described = service, described or {}

    def routes(self) -> list[Route]:
        """All of them; `openapi.py` describes each."""
        box = "/v1/sandboxes/{sandbox_id}"
        run = "/v1/executions/{execution_id}"
        table: list[tuple[str, str, Any]] = [
            ("POST", "/v1/run", self.run),
            ("POST", "/v1/batch", self.batch),
            ("POST", "/v1/sandboxes", self.create),
            ("GET", "/v1/sandboxes", self.listed),
            ("DELETE", "/v1/sandboxes", self.close_by_label),
            ("GET", box, self.show),
            ("DELETE", box, self.close),
            ("POST", f"{box}/run", self.run_in),
            ("POST", f"{box}/interrupt", self.interrupt),
            ("POST", f"{box}/cancel", self.cancel),
            ("POST", f"{box}/restart", self.restart),
            ("POST", f"{box}/timeout", self.timeout),
            ("GET", f"{box}/hold", self.hold),
            ("GET", f"{box}/files", self.files),
            ("GET", box + "/files/{path:path}", self.read_file),
            ("PUT", box + "/files/{path:path}", self.write_file),
            ("DELETE", box + "/files/{path:path}", self.remove_file),
            ("PUT", box + "/folders/{path:path}", self.make_folder),
            ("POST", f"{box}/guest-files", self.guest_files),
            ("GET", "/v1/executions", self.executions),
            ("GET", run, self.execution),
            ("GET", run + "/output/{stream}", self.output),
            ("GET", run + "/search", self.search),
            ("GET", run + "/artifacts/{path:path}", self.artifact),
            ("GET", f"{run}/trace", self.trace),
            ("GET", "/v1/environments", self.environments),
            ("GET", "/v1/languages", self.languages),
            ("GET", "/v1/openapi.json", self.openapi),
            ("GET", "/v1/engine", self.engine),
        ]
        return [Route(path, endpoint, methods=[method]) for method, path, endpoint in table]

    # Programs

    async def run(self, request: Request) -> Response:
        """`POST /v1/run`"""
        key, body = _key(request, "run"), await bodies.read(request)
        asked: schemas.RunAsked = await body.decoded(schemas.RunAsked)
        with self._service.errors():
            files, options = schemas.files_of(asked.files), {**asked.of_run(), **schemas.of_sandbox(asked)}
        if asked.stream:
            events = self._service.stream(key, asked.code, files=files, wire=_WIRE, **options)
            return self._streamed(events, asked.artifacts)

        async def work() -> Ran:
            return await self._service.run(key, asked.code, files=files, wire=_WIRE, **options)

        return await self._reply(request, key, body, work, asked.artifacts)

    async def run_in(self, request: Request) -> Response:
        """`POST /v1/sandboxes/ID/run`"""
        key, body = _key(request, "run"), await bodies.read(request)
        held = self._held(request)
        asked: schemas.RunInAsked = await body.decoded(schemas.RunInAsked)
        with self._service.errors():
            options = asked.of_run()
        if asked.restart is not None:
            options["restart"] = asked.restart
        if asked.stream:
            events = self._service.stream_in(key, held, asked.code, last=asked.last, **options)
            return self._streamed(self._cancellable_events(held, events), asked.artifacts)
        if asked.last:
            raise Refused(400, "invalid_argument", "last: is for streams; close the sandbox after the run instead")

        async def work() -> Ran:
            return await self._cancellable(held, self._service.run_in(key, held, asked.code, **options))

        return await self._reply(request, key, body, work, asked.artifacts)

    async def batch(self, request: Request) -> Response:
        """`POST /v1/batch`: each program has its turn in the queue; one that was not run says so in its own place."""
        key, body = _key(request, "run"), await bodies.read(request)
        programs = await body.decoded_each(schemas.BatchOfRaw, "programs", schemas.RunAsked)
        at_once = asyncio.Semaphore(min(_MOST_BATCH_AT_ONCE, self._service.settings.runs_at_once))
        left_bytes = _MOST_BATCH_BYTES

        async def one(program: schemas.RunAsked) -> dict[str, Any]:
            nonlocal left_bytes
            try:
                with self._service.errors():
                    files, options = (
                        schemas.files_of(program.files),
                        {**program.of_run(), **schemas.of_sandbox(program)},
                    )
                async with at_once:
                    if left_bytes <= 0:
                        told = f"the results of this batch are over {_MOST_BATCH_BYTES} bytes already; send fewer"
                        raise Refused(413, "too_large", told)
                    ran = await self._service.run(key, program.code, files=files, wire=_WIRE, **options)
                execution = await self._told(ran, program.artifacts)
                left_bytes -= size_of(execution)
                return {"execution": execution}
            except Refused as refused:
                return refused.to_dict()

        async def work() -> dict[str, Any]:
            begun = time.monotonic()
            results = await asyncio.gather(*map(one, programs))
            return {"results": results, "wall_s": round(time.monotonic() - begun, 6)}

        heartbeat_s = _heartbeat_s(request)
        replies = self._service.replies.once(key, request.headers.get("idempotency-key"), body.digest, work)
        return await self._answered(attended(request, replies), heartbeat_s)

    async def _reply(self, request: Request, key: Key, body: bodies.Body, work: Any, artifacts: str) -> Response:
        """One execution, once for each `Idempotency-Key`."""

        async def told() -> dict[str, Any]:
            return await self._told(await work(), artifacts)

        heartbeat_s = _heartbeat_s(request)
        identity = request.url.path.encode() + b"\0" + body.digest
        replies = self._service.replies.once(key, request.headers.get("idempotency-key"), identity, told)
        return await self._answered(attended(request, replies), heartbeat_s)

    async def _answered(self, work: Any, heartbeat_s: float | None) -> Response:
        """The reply, with blanks before it where the client asked for them by `?heartbeat_s=N`."""
        if heartbeat_s is None:
            return await reply_of(await work)

        async def reply() -> Response:
            return await reply_of(await work)

        return with_blanks(reply(), heartbeat_s=heartbeat_s)

    def _streamed(self, events: AsyncGenerator[Event | Ran, None], artifacts: str) -> Streamed:
        async def parts() -> AsyncGenerator[bytes, None]:
            try:
                async for item in events:
                    if isinstance(item, Ran):
                        told = await self._told(item, artifacts)
                        yield await encoded_beside(functools.partial(event, "end", {"execution": told}), told)
                    else:
                        yield event(item.kind, _event_json(item))
            finally:
                await events.aclose()

        return self._events(parts())

    def _events(self, parts: AsyncGenerator[bytes, None]) -> Streamed:
        return Streamed(
            parts,
            media_type=SSE,
            heartbeat=b": still running\n\n",
            heartbeat_s=self._service.settings.heartbeat_s,
            refused=lambda refused: event("failed", refused.to_dict()),
        )

    async def _told(self, ran: Ran, artifacts: str) -> dict[str, Any]:
        told = ran.to_dict()
        if artifacts == "bytes" and (told["artifacts"] or told["displays"]):
            await asyncio.to_thread(_inline, told, ran.execution)
        return told

    async def _cancellable_events(
        self, held: Held, events: AsyncGenerator[Event | Ran, None]
    ) -> AsyncGenerator[Event | Ran, None]:
        """Events of a run, which `POST …/cancel` ends."""
        async with contextlib.aclosing(events):
            with contextlib.suppress(StopAsyncIteration):
                while True:
                    yield await self._cancellable(held, anext(events))

    async def _cancellable(self, held: Held, work: Awaitable[T]) -> T:
        """The run, or what it gives next, which `POST …/cancel` ends."""
        task: asyncio.Future[T] = asyncio.ensure_future(work)
        running: set[asyncio.Future[Any]] = held.state.setdefault("v1.running", set())
        running.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is None or not current.cancelling():  # it was the task alone, and not who waits for it
                told = "another request called this run off; the sandbox goes on after a restart"
                raise Refused(409, "cancelled", told) from None
            task.cancel()
            raise
        finally:
            running.discard(task)

    # Sandboxes

    async def create(self, request: Request) -> Response:
        """`POST /v1/sandboxes`"""
        key, body = _key(request, "run"), await bodies.read(request)
        asked: schemas.CreateAsked = await body.decoded(schemas.CreateAsked)

        async def work() -> dict[str, Any]:
            with self._service.errors():
                options = schemas.of_sandbox(asked)
                if asked.environment is not None:
                    await asyncio.to_thread(environments.get, asked.environment)  # a run would find out later
            held = self._service.create(
                key, wire=_WIRE, labels=asked.labels, idle_s=asked.idle_s, total_s=asked.total_s, **options
            )
            return held.to_dict()

        identity = request.headers.get("idempotency-key")
        return json_reply(await self._service.replies.once(key, identity, b"create\0" + body.digest, work), 201)

    async def listed(self, request: Request) -> Response:
        """`GET /v1/sandboxes?label=NAME=VALUE`"""
        key = _key(request, "run")
        return json_reply({"sandboxes": [each.to_dict() for each in self._labelled(key, request)]})

    async def close_by_label(self, request: Request) -> Response:
        """`DELETE /v1/sandboxes?label=NAME=VALUE`: without a label nothing is meant, and all would be ended."""
        key = _key(request, "run")
        if not request.query_params.getlist("label"):
            raise Refused(400, "invalid_argument", "label: is needed; ?label=NAME=VALUE says which sandboxes to close")
        ended = self._labelled(key, request)
        await asyncio.gather(*map(self._service.sandboxes.close, ended))
        return json_reply({"closed": [held.id for held in ended]})

    async def show(self, request: Request) -> Response:
        """`GET /v1/sandboxes/ID`"""
        return json_reply(self._held(request).to_dict())

    async def close(self, request: Request) -> Response:
        """`DELETE /v1/sandboxes/ID`"""
        await self._service.sandboxes.close(self._held(request))
        return Response(status_code=204)

    async def interrupt(self, request: Request) -> Response:
        """`POST /v1/sandboxes/ID/interrupt`"""
        return json_reply({"interrupted": self._held(request).box.interrupt()})

    async def cancel(self, request: Request) -> Response:
        """`POST /v1/sandboxes/ID/cancel`"""
        running = list(self._held(request).state.get("v1.running", ()))
        for task in running:
            task.cancel()
        return json_reply({"cancelled": len(running)})

    async def restart(self, request: Request) -> Response:
        """`POST /v1/sandboxes/ID/restart`"""
        with self._service.errors(), self._held(request).in_use() as box:
            return json_reply({"lost_files": await box.restart()})

    async def timeout(self, request: Request) -> Response:
        """`POST /v1/sandboxes/ID/timeout`"""
        held = self._held(request)
        asked = await schemas.read(request, schemas.TimeAsked)
        with self._service.errors():
            self._service.sandboxes.extend(held, asked.total_s)
        return json_reply(held.to_dict())

    async def hold(self, request: Request) -> Response:
        """`GET /v1/sandboxes/ID/hold`: a stream without events, from whose first byte on the sandbox lives as long."""
        held = self._held(request)
        closed = asyncio.Event()
        held.on_close.append(closed.set)

        async def parts() -> AsyncGenerator[bytes, None]:
            try:
                with held.in_use():
                    yield b": held\n\n"
                    await closed.wait()
            finally:
                await self._service.sandboxes.close(held)

        return self._events(parts())

    # Files

    async def files(self, request: Request) -> Response:
        """`GET /v1/sandboxes/ID/files`"""
        with self._service.errors(), self._held(request).in_use() as box:
            return json_reply(_with_shown({"files": (paths := await box.files.list())}, paths))

    async def read_file(self, request: Request) -> Response:
        """`GET /v1/sandboxes/ID/files/PATH`"""
        with self._service.errors(), self._held(request).in_use() as box:
            return download(await box.files.read(request.path_params["path"]))

    async def write_file(self, request: Request) -> Response:
        """`PUT /v1/sandboxes/ID/files/PATH`"""
        held, data = self._held(request), await bodies.read_bytes(request)
        mode = request.query_params.get("mode")
        with self._service.errors(), held.in_use() as box:
            await box.files.write(request.path_params["path"], data, mode=0o644 if mode is None else _mode(mode))
        return Response(status_code=204)

    async def remove_file(self, request: Request) -> Response:
        """`DELETE /v1/sandboxes/ID/files/PATH`"""
        with self._service.errors(), self._held(request).in_use() as box:
            await box.files.remove(request.path_params["path"])
        return Response(status_code=204)

    async def make_folder(self, request: Request) -> Response:
        """`PUT /v1/sandboxes/ID/folders/PATH`"""
        with self._service.errors(), self._held(request).in_use() as box:
            await box.files.mkdir(request.path_params["path"])
        return Response(status_code=204)

    async def guest_files(self, request: Request) -> Response:
        """`POST /v1/sandboxes/ID/guest-files`: one order of AsyncGuestFiles; `read` answers with the bytes."""
        held = self._held(request)
        asked = await schemas.read(request, schemas.PathAsked)
        with self._service.errors(), held.in_use() as box:
            files = box.guest_files
            if asked.op == "read":
                return download(await files.read(asked.path))
            if asked.op == "write":
                await files.write(asked.path, schemas.content_of("data", asked.data), mode=asked.mode)
                return json_reply({})
            if asked.op == "workdir":
                return json_reply({"path": await files.workdir()})
            told = await getattr(files, asked.op)(asked.path)
            if asked.op == "list":
                listed = {"entries": [each._asdict() for each in told.entries], "left_out": told.left_out}
                return json_reply(_with_shown(listed, (each.name for each in told.entries)))
            if asked.op == "stat":
                return json_reply({"entry": told._asdict()})
            return json_reply({"exists": told} if asked.op == "exists" else {"path": told})

    # Executions

    async def executions(self, request: Request) -> Response:
        """`GET /v1/executions?sandbox=ID`"""
        key = _key(request, "run")
        records = self._service.records.list(key, request.query_params.get("sandbox"))
        most = int(_number("limit", request.query_params.get("limit", "100"), least=1, most=1000))
        return json_reply({"executions": [_line(record) for record in records[:most]]})

    async def execution(self, request: Request) -> Response:
        """`GET /v1/executions/ID`"""
        record = self._record(request)
        more = {"sandbox_id": record.sandbox_id or None, "ended": record.ended, "source": record.source}
        return await reply_of({**record.execution.to_dict(), **more})

    async def output(self, request: Request) -> Response:
        """`GET /v1/executions/ID/output/stdout?offset=N&size=N`: raw bytes; the header tells how many there are."""
        execution, stream = self._record(request).execution, _stream(request.path_params["stream"])
        query = request.query_params
        offset = int(_number("offset", query.get("offset", "0"), least=0, most=2**53))
        size = int(_number("size", query.get("size", str(1 << 20)), least=1, most=_MOST_PAGE_BYTES))
        handle: Any = execution.outputs[stream]
        data = await asyncio.to_thread(handle.read, offset, size)
        kept = handle.total_bytes - handle.lost_bytes
        headers = {"Groundbox-Total-Bytes": str(handle.total_bytes), "Groundbox-Kept-Bytes": str(kept)}
        return download(data, headers=headers)

    async def search(self, request: Request) -> Response:
        """`GET /v1/executions/ID/search?stream=stdout&text=…`"""
        execution, query = self._record(request).execution, request.query_params
        text = query.get("text", "")
        if not text or len(text) > 1000:
            raise Refused(400, "invalid_argument", "text: is what to look for, of 1 to 1000 characters")
        most = int(_number("limit", query.get("limit", "100"), least=1, most=1000))
        found = await search(execution, _stream(query.get("stream", "stdout")), text, most=most)
        return json_reply({"lines": [dataclasses.asdict(each) for each in found]})

    async def artifact(self, request: Request) -> Response:
        """`GET /v1/executions/ID/artifacts/PATH`; `?preview=1` for its picture, as PNG."""
        artifact = self._record(request).execution.artifacts.get(request.path_params["path"])
        if artifact is None:
            raise not_found("artifact")
        if request.query_params.get("preview"):
            if artifact.preview is None:
                raise not_found("preview")
            return download(artifact.preview)
        with self._service.errors():
            return download(await asyncio.to_thread(artifact.read))

    async def trace(self, request: Request) -> Response:
        """`GET /v1/executions/ID/trace`: JSON Lines."""
        trace = self._record(request).execution.trace
        if trace is None:
            raise not_found("trace; ask for one by `trace: true`")
        return download(await asyncio.to_thread(trace.dumps))

    # What there is

    async def environments(self, request: Request) -> Response:
        """`GET /v1/environments`"""
        _key(request, "run")
        there = await asyncio.to_thread(environments.all)
        told = [
            {
                "name": each.name,
                "python": ".".join(map(str, each.python_version)),
                "packages": dict(each.packages),
                "created_at": each.created_at,
                "version": each.version_id,
            }
            for each in there
        ]
        return json_reply({"environments": told, "default": self._service.settings.environment})

    async def languages(self, request: Request) -> Response:
        """`GET /v1/languages`"""
        _key(request, "run")
        told = [
            {
                "name": each.name,
                "modes": list(each.modes),
                "available": each.missing is None,
                "missing": None if each.missing is None else str(each.missing),
            }
            for each in await asyncio.to_thread(languages.listed)
        ]
        return json_reply({"languages": told})

    async def openapi(self, request: Request) -> Response:
        """`GET /v1/openapi.json`"""
        return json_reply(openapi.joined(openapi.document(), self._described))

    async def engine(self, request: Request) -> Response:
        """`GET /v1/engine`: what this process does, for its owner."""
        _key(request, "metrics")
        service = self._service
        told = {
            "running": True,
            "pid": os.getpid(),
            "running_s": time.time() - service.begun,
            "sandboxes": len(service.sandboxes),
            "runs_running": service.turns.running,
            "runs_waiting": service.turns.waiting,
            "runs": service.runs,
            "problem": service.problem,
        }
        return json_reply(told)

    # Keys

    def _held(self, request: Request) -> Held:
        return self._service.sandboxes.get(_key(request, "run"), request.path_params["sandbox_id"])

    def _labelled(self, key: Key, request: Request) -> list[Held]:
        wanted = {}
        for each in request.query_params.getlist("label"):
            name, equals, value = each.partition("=")
            if not equals:
                raise Refused(400, "invalid_argument", f"label: must be NAME=VALUE, not {each[:100]!r}")
            wanted[name] = value
        return self._service.sandboxes.list(key, wanted)

    def _record(self, request: Request) -> Record:
        return self._service.records.get(_key(request, "run"), request.path_params["execution_id"])


def _key(request: Request, scope: str) -> Key:
    """Who asks, if the key has this scope."""
    key: Key = request.scope["groundbox.key"]
    key.require(scope)
    return key


def download(data: bytes, *, headers: Mapping[str, str] | None = None) -> Response:
    """Bytes of a guest: nothing in a browser takes them for a page of this server."""
    safe = {
        "Content-Disposition": "attachment",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        **(headers or {}),
    }
    return Response(data, 200, safe, media_type="application/octet-stream")


def _line(record: Record) -> dict[str, Any]:
    """An execution in a list: without its output."""
    execution = record.execution
    return {
        "execution_id": execution.execution_id,
        "sandbox_id": record.sandbox_id or None,
        "language": execution.language,
        "source_head": record.source[:_HEAD_CHARS],
        "outcome": execution.outcome.value,
        "ended": record.ended,
        "wall_s": execution.usage.wall_s,
        **_with_shown({"artifacts": list(execution.artifacts)}, execution.artifacts),
    }


def _with_shown(told: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Add how names are shown that hold characters which are not seen, or which turn the direction of writing."""
    shown = shown_names(names)
    return {**told, "shown": shown} if shown else told


def _event_json(item: Event) -> dict[str, Any]:
    """Return what an event of a run says, besides its kind."""
    if item.display is not None:
        return {"display": dict(item.display.data), "display_id": item.display_id, "updates": item.updates}
    return {"text": item.text, "waits": item.waits} if item.kind == "clear" else {"text": item.text}


def _inline(told: dict[str, Any], execution: Execution) -> None:
    """Put the bytes of previews and files into the JSON, as far as they fit; others say why not.

    Previews go first: they are small, and a client cannot make them of the file. Those of displays stand by number in
    `display_previews`, because a display is its MIME bundle and nothing else.
    """
    left, left_out = _MOST_INLINE_BYTES, 0

    def fits(size_bytes: int) -> bool:
        nonlocal left
        if size_bytes > left:
            return False
        left -= size_bytes
        return True

    told["display_previews"] = {}
    files = [(execution.artifacts[each["path"]].preview, each["preview"], "base64") for each in told["artifacts"]]
    shown = [(each.preview, told["display_previews"], str(number)) for number, each in enumerate(execution.displays)]
    for preview, into, key in (*files, *shown):
        if preview is None:
            continue
        if fits(len(preview)):
            into[key] = _base64(preview)
        else:
            left_out += 1
    if left_out:
        message = f"previews left out of this reply, as all together are over {_MOST_INLINE_BYTES} bytes: {left_out}"
        told["warnings"].append(dataclasses.asdict(Warning(code="artifact.unseen", tier="note", message=message)))
    for each in told["artifacts"]:
        artifact = execution.artifacts[each["path"]]
        if not fits(artifact.size_bytes):
            each["not_inline"] = f"the files of one reply are over {_MOST_INLINE_BYTES} bytes"
            continue
        try:
            each["base64"] = _base64(artifact.read())
        except GuestFileError as error:
            each["not_inline"] = error.reason


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _heartbeat_s(request: Request) -> float | None:
    """Looked at before there is work, which would have to be called off where this is wrong."""
    given = request.query_params.get("heartbeat_s")
    return None if given is None else _number("heartbeat_s", given, least=1, most=3600)


def _number(name: str, text: str, *, least: float, most: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not least <= value <= most:
        raise Refused(400, "invalid_argument", f"{name}: must be a number from {least:g} to {most:g}")
    return value


def _mode(text: str) -> int:
    try:
        mode = int(text, 8)
    except ValueError:
        mode = -1
    if not 0 <= mode <= 0o777:
        raise InvalidArgument("mode", "must be permission bits in octal, such as 755")
    return mode


def _stream(name: str) -> str:
    if name not in ("stdout", "stderr"):
        raise not_found("stream but stdout and stderr")
    return name
