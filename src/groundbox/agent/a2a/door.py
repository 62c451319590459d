"""Who may come in: what of a request is looked at before anything of it is understood.

The card is for everyone. All else needs the token, where there is one, and has to be JSON of no more than so many
bytes, which come within so many seconds.
"""

from __future__ import annotations

import asyncio
import hmac
import re
from typing import Any, Final

from a2a.utils.constants import AGENT_CARD_WELL_KNOWN_PATH
from starlette.responses import PlainTextResponse, Response

from groundbox.agent.a2a.service import Service
from groundbox.errors import InvalidArgument

_JSON: Final = b"application/json"
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]{16,}=*")
_NO_TOKEN: Final = "send the header `Authorization: Bearer TOKEN`, with the token of whoever serves this agent"


def check_token(token: str) -> None:
    """Whether a token can be sent in a header and is no word that is soon guessed.

    Raises:
        InvalidArgument: It is not; the message does not hold it.
    """
    if not _TOKEN.fullmatch(token):
        problem = (
            "must have at least 16 characters, of letters, digits and . _ ~ + / - only, with = at the end. "
            "`openssl rand -hex 32` writes one"
        )
        raise InvalidArgument("token", problem)


class Guard:
    """Asks for a bearer token (RFC 6750) for everything but the card."""

    def __init__(self, app: Any, token: str) -> None:
        self._app, self._expected = app, f"bearer {token}".encode("latin-1")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request, as ASGI has it."""
        if scope["type"] != "http" or _asks_for_the_card(scope) or self._is_known(scope):
            await self._app(scope, receive, send)
            return
        headers = {"WWW-Authenticate": 'Bearer realm="groundbox"'}
        await PlainTextResponse(_NO_TOKEN, status_code=401, headers=headers)(scope, receive, send)

    def _is_known(self, scope: Any) -> bool:
        scheme, _, given = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")
        return hmac.compare_digest(scheme.lower() + b" " + given.strip(), self._expected)


class Door:
    """Reads a request before anything else does, and refuses what is too large, too slow or no JSON."""

    def __init__(self, app: Any, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request, as ASGI has it."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        answer = await self._body(scope, receive)
        if answer is None:
            return
        if isinstance(answer, Response):
            await answer(scope, receive, send)
            return
        first = [{"type": "http.request", "body": answer, "more_body": False}]

        async def read() -> Any:
            return first.pop() if first else await receive()

        await self._app(scope, read, send)

    async def _body(self, scope: Any, receive: Any) -> bytes | Response | None:
        """The body, a refusal of it, or None where the asker has gone."""
        headers = dict(scope["headers"])
        if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != _JSON:
            return PlainTextResponse(f"send {_JSON.decode()}", status_code=415)
        try:
            async with asyncio.timeout(self._service.request_s):
                return await self._read(receive)
        except TimeoutError:
            return _ending(f"a request comes within {self._service.request_s:g} seconds", 408)

    async def _read(self, receive: Any) -> bytes | Response | None:
        most = self._service.max_request_bytes
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return None
            body += message.get("body", b"")
            if len(body) > most:
                return _ending(f"a request has at most {most} bytes", 413)
            if not message.get("more_body", False):
                return bytes(body)


def _asks_for_the_card(scope: Any) -> bool:
    return scope["method"] in ("GET", "HEAD") and scope["path"] == AGENT_CARD_WELL_KNOWN_PATH


def _ending(told: str, status: int) -> Response:
    """A refusal after which the connection is closed, because what is left of the body is not read."""
    return PlainTextResponse(told, status_code=status, headers={"Connection": "close"})
