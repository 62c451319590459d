"""The door to a server: `groundbox.connect(url)`."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import os
import weakref
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final, Literal, Unpack

from groundbox.errors import InvalidArgument, ServerUnreachable
from groundbox.execution import Event, Execution
from groundbox.remote.execution import Fetch, execution_of
from groundbox.remote.refusals import refusal_of
from groundbox.remote.sandbox import (
    RemoteSandbox,
    asked,
    event_of,
    program_json,
    refusal_in,
)
from groundbox.remote.transport import Reply, Transport, address_of
from groundbox.sandbox import options
from groundbox.sandbox.portal import PORTAL, Sandbox
from groundbox.suggestions import refuse_unknown

API_KEY: Final = "GROUNDBOX_API_KEY"
_ON_LOST: Final = "Groundbox-On-Lost"


class Connection:
    """One server, as `connect` gives it.

    Its connections belong to event loops, one set to each; it can be used from all threads.

    Attributes:
        hold: Its sandboxes live as long as this process has them.
        is_engine: It is the engine of this installation, which takes the same arguments as this process.
        retry_safe: Programs in sandboxes of their own may be run twice, where the node that ran one is lost.
        on_lost: What becomes of sandboxes whose node is lost.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        hold: bool = False,
        is_engine: bool = False,
        retry_safe: bool = False,
        on_lost: Literal["fail", "restore"] = "fail",
    ) -> None:
        self.hold, self.is_engine, self.retry_safe, self.on_lost = hold, is_engine, retry_safe, on_lost
        self._address, self._api_key = address_of(url), api_key
        self._transports: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Transport] = weakref.WeakKeyDictionary()
        Transport(self._address, api_key)  # tells what is missing now rather than at the first run

    def __repr__(self) -> str:
        return f"<groundbox server {self._address.shown}>"

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._transport().close()

    @options.spelled_out(options.SandboxOptions)
    def Sandbox(self, **given: Unpack[options.SandboxOptions]) -> Sandbox:
        """A sandbox there, for code without an event loop. Takes the arguments of groundbox.Sandbox.

        Raises:
            InvalidArgument: An argument cannot be meant, or not on a server.
        """
        return Sandbox.of(PORTAL.call(self._made(given)))

    @options.spelled_out(options.SandboxOptions)
    def AsyncSandbox(self, **given: Unpack[options.SandboxOptions]) -> RemoteSandbox:
        """A sandbox there, for code with an event loop."""
        return RemoteSandbox(self, **given)

    @options.spelled_out(options.OneRunOptions, profile=None)
    def run(self, source: str, **given: Unpack[options.OneRunOptions]) -> Execution:
        """Run one program in one fresh sandbox there, as `groundbox.run` does here."""
        return PORTAL.call(self.run_async(source, **given))

    @options.spelled_out(options.OneRunOptions, profile=None)
    async def run_async(self, source: str, **given: Unpack[options.OneRunOptions]) -> Execution:
        """`run`, for code with an event loop."""
        refuse_unknown("run()", given, options.ONE_RUN)
        options.check(given)
        files: Mapping[str, bytes | str] = given.pop("files", None) or {}
        box = RemoteSandbox(self, **{name: each for name, each in given.items() if name in options.SANDBOX})  # type: ignore[arg-type]
        of_run = {name: each for name, each in given.items() if name not in options.SANDBOX}
        if not files:
            return await box.run_last(source, **of_run)  # type: ignore[arg-type]
        async with box:
            for path, data in files.items():
                await box.files.write(path, data)
            return await box.run(source, **of_run)  # type: ignore[arg-type]

    def about(self) -> dict[str, Any]:
        """Languages and environments there, by name."""
        return PORTAL.call(self._about())

    def close(self) -> None:
        """Close the connections that are kept. Sandboxes are closed by themselves."""
        PORTAL.call(self._close())

    async def ask(self, method: str, path: str, **request: Any) -> Reply:
        """One request; errors are those that a local call would raise."""
        if self.retry_safe:
            request["headers"] = {"Groundbox-Retry-Safe": "1", **(request.get("headers") or {})}
        return await asked(self._transport(), method, path, **request)

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The JSON that a `POST` of JSON is answered with."""
        told: dict[str, Any] = (await self.ask("POST", path, body=_encoded(body))).json()
        return told

    async def run_alone(self, source: str, of_box: Mapping[str, Any], of_run: Mapping[str, Any]) -> Execution:
        """One program in a sandbox of its own."""
        body = {**of_box, **program_json(source, of_run), "artifacts": "bytes"}
        return await self.execution(await self.post("/v1/run", body), traced=bool(of_run.get("trace")))

    async def create(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The JSON of a new sandbox that stays.

        Raises:
            InvalidArgument: It was to be restored, and this server keeps no snapshots.
        """
        headers = {} if self.on_lost == "fail" else {_ON_LOST: self.on_lost}
        reply = await self.ask("POST", "/v1/sandboxes", body=_encoded(body), headers=headers)
        told: dict[str, Any] = reply.json()
        if headers and reply.headers.get(_ON_LOST.lower()) != self.on_lost:
            await self.ask("DELETE", f"/v1/sandboxes/{told['sandbox_id']}")
            raise InvalidArgument("on_lost", "is for fleets whose nodes keep snapshots, and this server is none")
        return told

    async def events(self, path: str, body: Mapping[str, Any], *, traced: bool) -> AsyncGenerator[Event, None]:
        """The events of one run, as the server sends them."""
        async with contextlib.aclosing(self.told("POST", path, _encoded(body))) as events:
            async for kind, data in events:
                if kind == "end":
                    yield Event(kind="end", execution=await self.execution(data["execution"], traced=traced))
                    return
                yield event_of(kind, data)
        raise ServerUnreachable(f"{self._address.shown} ended a stream before its end")

    async def read(self, path: str, *, method: str = "GET", body: bytes = b"") -> AsyncGenerator[bytes, None]:
        """A reply, part by part as it comes.

        Raises:
            GroundboxError: It is refused.
        """
        async with self._transport().stream(method, path, body=body) as (status, headers, parts):
            if status >= 400:
                whole = b"".join([part async for part in parts])
                raise refusal_in(Reply(status, headers, whole))
            async for part in parts:
                yield part

    async def told(self, method: str, path: str, body: bytes = b"") -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
        """Kinds and data of the events that a request is answered with.

        Raises:
            GroundboxError: It is refused, at once or in the middle.
        """
        async with contextlib.aclosing(self.read(path, method=method, body=body)) as parts:
            rest = b""
            async for part in parts:
                *blocks, rest = (rest + part).split(b"\n\n")
                for block in blocks:
                    if block.startswith(b":"):
                        continue
                    kind, data = _event(block)
                    if kind == "failed":
                        raise refusal_of(int(data.get("code", 500)), data["error"])
                    yield kind, data

    async def execution(self, told: Mapping[str, Any], *, traced: bool) -> Execution:
        """The execution that a reply tells of, with its trace where there is one."""
        execution = execution_of(told, self._fetch)
        if not traced or told.get("trace") is None:
            return execution
        from groundbox import tracer

        reply = await self.ask("GET", f"/v1/executions/{execution.execution_id}/trace")
        trace = await asyncio.to_thread(tracer.find().loads, reply.body, told["trace"].get("core"))
        return dataclasses.replace(execution, trace=trace)

    def _fetch(self, execution_id: str) -> Fetch:
        def fetch(path: str, query: Mapping[str, str] | None = None) -> bytes:
            work = self.ask("GET", f"/v1/executions/{execution_id}{path}", query=query)
            return PORTAL.call(work).body

        return fetch

    def _transport(self) -> Transport:
        loop = asyncio.get_running_loop()
        transport = self._transports.get(loop)
        if transport is None:
            transport = self._transports[loop] = Transport(self._address, self._api_key)
        return transport

    async def _made(self, given: options.SandboxOptions) -> RemoteSandbox:
        return RemoteSandbox(self, **given)

    async def _about(self) -> dict[str, Any]:
        languages = (await self.ask("GET", "/v1/languages")).json()["languages"]
        environments = (await self.ask("GET", "/v1/environments")).json()["environments"]
        return {
            "languages": [each["name"] for each in languages],
            "environments": [each["name"] for each in environments],
        }

    async def _close(self) -> None:
        await self._transport().close()


def connect(
    url: str,
    api_key: str | None = None,
    *,
    hold: bool | None = None,
    retry_safe: bool = False,
    on_lost: Literal["fail", "restore"] = "fail",
) -> Connection:
    """A server of `groundbox serve`. Nothing is asked yet.

    Args:
        url: `http://HOST:PORT`, `https://…` or `unix:///path`; a `?token=` in it is the key. `engine` is the engine in
            the background that commands of this user share, which is started if it does not run.
        api_key: None for the variable GROUNDBOX_API_KEY, if it is set.
        hold: Sandboxes live however idle they are, and end when this process does, or has no reference to them any
            more: each keeps a connection open. False leaves them to the server's idle time; None holds those of
            `engine` alone.
        retry_safe: Running a program twice does no harm, as a reward's: a gateway sends it to another node when the
            first one is lost in the middle. It concerns programs in sandboxes of their own.
        on_lost: `restore` has another node of a fleet go on with the files of a sandbox whose node is lost; its next
            result has the warning `session.restored`, since variables are gone. By default it raises SandboxLost.

    Raises:
        InvalidArgument: The URL is none.
        EngineUnavailable: The engine does not start.
    """
    if on_lost not in ("fail", "restore"):
        raise InvalidArgument("on_lost", f"must be 'fail' or 'restore', not {on_lost!r}")
    if url == "engine":
        from groundbox.remote.engine import ensure_running

        path, holds = f"unix://{ensure_running()}", hold is not False
        return Connection(path, hold=holds, is_engine=True, retry_safe=retry_safe, on_lost=on_lost)
    if not isinstance(url, str):
        raise InvalidArgument("url", f"must be text such as http://127.0.0.1:8000, not {url!r}")
    address, _, query = url.partition("?")
    if query.startswith("token="):
        api_key = api_key or query.removeprefix("token=")
    elif query:
        raise InvalidArgument("url", "may have no query but ?token=KEY")
    return Connection(
        address, api_key or os.environ.get(API_KEY), hold=bool(hold), retry_safe=retry_safe, on_lost=on_lost
    )


def _encoded(body: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(body).encode("ascii")
    except (TypeError, ValueError) as error:
        raise InvalidArgument("args", f"holds what JSON has not: {error}; plain data can be sent to a server") from None


def _event(block: bytes) -> tuple[str, dict[str, Any]]:
    try:
        first, _, second = block.partition(b"\n")
        return first.removeprefix(b"event: ").decode("ascii"), json.loads(second.removeprefix(b"data: "))
    except (ValueError, UnicodeDecodeError):
        raise ServerUnreachable("an answer is no stream of events of groundbox") from None
