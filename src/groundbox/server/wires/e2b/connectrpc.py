"""The Connect protocol with JSON, as far as E2B's clients speak it: unary calls and streams.

https://connectrpc.com/docs/protocol has it.

A message of a stream is an envelope: one byte of flags, four of length (big-endian), JSON. The last envelope has the
flag 2 and says how the stream ended.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, Final, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from groundbox.server.refusals import Refused
from groundbox.server.replies import Streamed, encoded, json_reply
from groundbox.server.schemas import decoded

S = TypeVar("S", bound=msgspec.Struct)

_END: Final = 2
_COMPRESSED: Final = 1
_HEADER_BYTES: Final = 5
_MOST_MESSAGE_BYTES: Final = 8 * 1024 * 1024
_STREAM: Final = "application/connect+json"
_STATUS: Final = {
    "canceled": 499,
    "invalid_argument": 400,
    "deadline_exceeded": 504,
    "not_found": 404,
    "already_exists": 409,
    "permission_denied": 403,
    "resource_exhausted": 429,
    "failed_precondition": 400,
    "unimplemented": 501,
    "internal": 500,
    "unavailable": 503,
    "unauthenticated": 401,
}
_CODES: Final = {
    400: "invalid_argument",
    401: "unauthenticated",
    403: "permission_denied",
    404: "not_found",
    409: "failed_precondition",
    410: "not_found",
    413: "resource_exhausted",
    429: "resource_exhausted",
    500: "internal",
    501: "unimplemented",
}
"""Of refusals. What is not here is a fault of the server: unavailable, which no client takes for the program's."""


class RpcError(Refused):
    """A call that cannot be answered, in a word of the protocol for why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(_STATUS[code], code, message)


def error_of(error: Refused) -> dict[str, str]:
    """The JSON of an error."""
    code = error.code if isinstance(error, RpcError) else _CODES.get(error.status, "unavailable")
    return {"code": code, "message": error.message}


def unary(call: Callable[[Request], Awaitable[Any]]) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that answers with the JSON of what `call` returns, or with its error."""

    async def endpoint(request: Request) -> Response:
        try:
            return json_reply(await call(request))
        except Refused as error:
            told = error_of(error)
            return json_reply(told, _STATUS[told["code"]], error.headers)

    return endpoint


def streaming(
    call: Callable[[Request], Awaitable[AsyncGenerator[Any, None]]], *, keepalive: Any = None
) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that sends what the generator of `call` yields, each in an envelope.

    Args:
        keepalive: A message for where nothing comes for as long as `Keepalive-Ping-Interval` says.
    """

    async def endpoint(request: Request) -> Response:
        # First, because who watches for the client's leaving takes what comes.
        try:
            await _hold(request)
        except RpcError as error:
            return Response(envelope({"error": error_of(error)}, _END), media_type=_STREAM)
        return Streamed(
            _envelopes(call(request)),
            media_type=_STREAM,
            heartbeat=b"" if keepalive is None else envelope(keepalive),
            heartbeat_s=_interval_s(request),
            refused=lambda refused: envelope({"error": error_of(refused)}, _END),
        )

    return endpoint


def taking(call: Callable[[Request], Awaitable[Any]]) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that reads the messages of a client to their end, and answers with one."""

    async def endpoint(request: Request) -> Response:
        try:
            body = envelope(await call(request)) + envelope({}, _END)
        except Refused as error:
            body = envelope({"error": error_of(error)}, _END)
        return Response(body, media_type=_STREAM)

    return endpoint


async def _envelopes(call: Awaitable[AsyncGenerator[Any, None]]) -> AsyncGenerator[bytes, None]:
    try:
        messages = await call
        try:
            async for message in messages:
                yield envelope(message)
        finally:
            await messages.aclose()
    except Refused as error:
        yield envelope({"error": error_of(error)}, _END)
    else:
        yield envelope({}, _END)


def envelope(message: Any, flags: int = 0) -> bytes:
    """One message as it is sent in a stream."""
    data = encoded(message)
    return bytes((flags,)) + len(data).to_bytes(4, "big") + data


async def only_message(request: Request, kind: type[S]) -> S:
    """The message of a stream to which the client sends one."""
    async for message in messages(request, kind):
        return message
    raise RpcError("invalid_argument", "the stream holds no message")


async def _hold(request: Request) -> None:
    """Read what the client sends before it waits: one message, which `messages` finds again."""
    held = bytearray()
    async for part in request.stream():
        held += part
        if len(held) > _HEADER_BYTES + _MOST_MESSAGE_BYTES:
            raise RpcError("invalid_argument", f"a message is longer than {_MOST_MESSAGE_BYTES} bytes")
    request._body = bytes(held)


async def messages(request: Request, kind: type[S]) -> AsyncIterator[S]:
    """The messages that a client sends, as they come."""
    held = bytearray()
    async for part in request.stream():
        held += part
        while len(held) >= _HEADER_BYTES:
            flags, size = held[0], int.from_bytes(held[1:_HEADER_BYTES], "big")
            if flags & _COMPRESSED or size > _MOST_MESSAGE_BYTES:
                told = "compressed" if flags & _COMPRESSED else f"longer than {_MOST_MESSAGE_BYTES} bytes"
                raise RpcError("invalid_argument", f"a message is {told}")
            if len(held) < _HEADER_BYTES + size:
                break
            data = bytes(held[_HEADER_BYTES : _HEADER_BYTES + size])
            del held[: _HEADER_BYTES + size]
            if flags & _END:
                return
            yield decoded(data, kind)
    if held:
        raise RpcError("invalid_argument", "the stream ends in the middle of a message")


def timeout_s(request: Request) -> float | None:
    """How long the client gives the call; None for as long as it takes."""
    told = request.headers.get("connect-timeout-ms", "")
    return int(told) / 1000 if told.isascii() and told.isdigit() and len(told) <= 10 else None


def _interval_s(request: Request) -> float:
    told = request.headers.get("keepalive-ping-interval", "")
    asked = int(told) if told.isascii() and told.isdigit() and len(told) < 6 else 50
    return float(min(max(asked, 1), 300))
