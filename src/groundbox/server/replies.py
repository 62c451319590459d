"""Replies: JSON, streams of events, and waiting for work while somebody still waits for its result."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from groundbox.server.refusals import Refused, refusal_of, shutting_down

logger = logging.getLogger(__name__)

T = TypeVar("T")

JSON: Final = "application/json"
SSE: Final = "text/event-stream"
NDJSON: Final = "application/x-ndjson"
_FIRST_S: Final = 1.0
_AT_ONCE_BYTES: Final = 256 * 1024
_ENCODER: Final = msgspec.json.Encoder()


class ClientGone(Exception):
    """Nobody waits for the reply any more."""


def encoded(value: Any) -> bytes:
    """JSON of plain data. Halves of surrogate pairs, which guests may show, are escaped as JSON allows."""
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value).encode("ascii")


def json_reply(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A reply of JSON."""
    return Response(encoded(value), status, headers, media_type=JSON)


async def attended(request: Request, work: Awaitable[T]) -> T:
    """The result of `work`, which is cancelled when the client has gone.

    The body of the request has to be read before.

    Raises:
        ClientGone: It has.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_gone(request.receive))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientGone
    finally:
        gone.cancel()
        await _called_off(task)


async def _gone(receive: Callable[[], Awaitable[Any]]) -> None:
    """Wait until nobody reads the reply: the client hung up, or sends more than it may."""
    with contextlib.suppress(Refused):
        while (await receive())["type"] != "http.disconnect":
            pass


async def _called_off(task: asyncio.Future[Any]) -> None:
    """Cancel it if it goes on, and wait for its end, also when the one who waits is cancelled once more."""
    task.cancel()
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait((task,))
    if not task.cancelled():
        task.exception()  # looked at, because nobody asks for it any more


class Streamed(Response):
    """A reply whose parts are sent as they come.

    Nothing is sent before the first part, or one second, so that a refusal has its own status. A client that goes ends
    the generator within the moment. Where nothing comes for long, a heartbeat is sent, because proxies cut connections
    without one.
    """

    def __init__(
        self,
        parts: AsyncGenerator[bytes, None],
        *,
        media_type: str,
        heartbeat: bytes,
        heartbeat_s: float,
        refused: Callable[[Refused], bytes | None],
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Args:
        parts: Closed in any case.
        heartbeat: Sent where nothing came for `heartbeat_s`; nothing for none.
        refused: The part that tells of a refusal after the reply has begun; None where the protocol has no word for
            it, and the connection is cut, so that nobody takes the reply for a whole one.
        """
        super().__init__(None, 200, headers, media_type=media_type)
        del self.headers["content-length"]
        self._parts, self._heartbeat, self._heartbeat_s, self._refused = parts, heartbeat, heartbeat_s, refused

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send it, as ASGI has it."""
        gone = asyncio.ensure_future(_gone(receive))
        begun = False
        part: asyncio.Task[bytes] | None = None

        async def begin() -> None:
            nonlocal begun
            if not begun:
                begun = True
                await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})

        try:
            while True:
                if part is None:
                    part = asyncio.ensure_future(anext(self._parts))
                wait_s = self._heartbeat_s if begun else _FIRST_S
                await asyncio.wait((part, gone), timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
                if gone.done():
                    return
                if not part.done():
                    beat = self._heartbeat if begun else b""
                    await begin()
                    await send({"type": "http.response.body", "body": beat, "more_body": True})
                    continue
                try:
                    data = part.result()
                except StopAsyncIteration:
                    break
                except ClientGone:
                    return
                except Exception as error:
                    refused = error if isinstance(error, Refused) else refusal_of(error)
                    if refused.status == 500:
                        logger.exception("a stream failed by a fault of groundbox")
                    if not begun:
                        raise refused from error
                    told = self._refused(refused)
                    if told is None:
                        return
                    data = told
                part = None
                await begin()
                await send({"type": "http.response.body", "body": data, "more_body": True})
            await begin()
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except OSError:  # the connection broke in the middle of a part
            return
        except asyncio.CancelledError:  # only the end of the server cancels a reply
            if not begun:
                raise shutting_down() from None
            if (told := self._refused(shutting_down())) is not None:
                await send({"type": "http.response.body", "body": told, "more_body": False})
        finally:
            gone.cancel()
            if part is not None and part.done():  # it came in the moment in which the client went
                part.cancelled() or part.exception()
            elif part is not None:
                await _called_off(part)
            await self._parts.aclose()


def event(kind: str, data: Any) -> bytes:
    """Return one server-sent event (WHATWG HTML, 9.2.5)."""
    return b"event: " + kind.encode("ascii") + b"\ndata: " + on_one_line(data) + b"\n\n"


def line(data: Any) -> bytes:
    """Return one line of JSON."""
    return on_one_line(data) + b"\n"


def on_one_line(data: Any) -> bytes:
    """Return JSON that every client reads as one line.

    JSON escapes all line breaks but three, which `str.splitlines` of Python knows, and so `iter_lines` of httpx.
    """
    told = encoded(data)
    for char, escaped in _LINE_BREAKS:
        told = told.replace(char, escaped)
    return told


_LINE_BREAKS: Final = tuple((each.encode(), b"\\u%04x" % ord(each)) for each in "\x85\u2028\u2029")


async def reply_of(value: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    """A reply of JSON that may be large."""
    return Response(await encoded_beside(functools.partial(encoded, value), value), 200, headers, media_type=JSON)


async def encoded_beside(encode: Callable[[], bytes], value: Mapping[str, Any]) -> bytes:
    """Encode an execution or a batch of them: beside the event loop where it holds pictures, files or much text."""
    texts = [value.get("stdout", ""), value.get("stderr", ""), *(value.get("value") or {}).values()]
    is_large = any(value.get(name) for name in ("displays", "artifacts", "results"))
    if is_large or sum(len(each) for each in texts if isinstance(each, str)) > _AT_ONCE_BYTES:
        return await asyncio.to_thread(encode)
    return encode()


def with_blanks(value: Awaitable[Response], *, heartbeat_s: float) -> Streamed:
    """A reply of JSON before which blanks are sent while it is waited for.

    Its status is 200 from the first blank on; a refusal after that is told by the body alone, whose key `error` no
    execution's JSON has as an object with a `code`.
    """

    async def parts() -> AsyncGenerator[bytes, None]:
        yield (bytes((await value).body))

    def refused(each: Refused) -> bytes:
        return encoded(each.to_dict())

    return Streamed(parts(), media_type=JSON, heartbeat=b" ", heartbeat_s=heartbeat_s, refused=refused)
