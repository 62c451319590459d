"""The guard: what of a request is looked at before any wire sees it.

In this order: the size of the head, `Host` and `Origin` (so that a page somewhere on the web reaches nothing, also by
DNS rebinding), the key, and the body as it comes, by its size and its time. Until the key is known, nothing of the body
is read, and the work is small whatever the head holds. There is no CORS, and no address that this server would call.

A key is looked for where clients of the wires put it: `Authorization: Bearer KEY` or `token KEY`, `X-API-Key`,
`X-Access-Token`, a header of a protocol that is switched on (`WireProtocol.key_headers`), the query's `token`, the
cookie of the console, and the path `/with-key/KEY/…` for clients that can be told nothing but an address. A cookie
counts only for requests that a page of this server made, or that repeat the cookie `_xsrf` as the header
`X-XSRFToken`, as clients of Jupyter do: pages of others can send no such header.

Before that, wires may look for secrets of their own, such as the token of one sandbox (`Admission`). Such a request
goes on the account of that sandbox's key, and is for nothing else: the wire answers for that.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import hmac
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl, unquote

from starlette.requests import ClientDisconnect
from starlette.websockets import WebSocketDisconnect

from groundbox.sandbox.threads import working_for
from groundbox.server import bodies
from groundbox.server.keys import OWNER, Key, Keys
from groundbox.server.metrics import Metrics
from groundbox.server.refusals import Refused, refusal_of, shutting_down
from groundbox.server.replies import json_reply
from groundbox.server.settings import Settings

logger = logging.getLogger(__name__)

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Admission = Callable[[Scope, Mapping[str, str]], Key | None]
"""A wire's look at a request and its headers: the key on whose account it goes, where it brings a secret of the wire on
a path that takes it; None where it is to bring a key. Raises Refused where neither would do."""

COOKIE: Final = "groundbox_key"
XSRF_COOKIE: Final = "_xsrf"
_KEY_HEADERS: Final = ("x-api-key", "x-access-token")
_MOST_PATH_CHARS: Final = 4096
_MOST_TARGET_BYTES: Final = 16 * 1024
_MOST_PARAMETERS: Final = 128
_MOST_HEADERS: Final = 128
_MOST_HEADER_BYTES: Final = 32 * 1024
_MOST_COOKIE_BYTES: Final = 8 * 1024
_MOST_COOKIES: Final = 64
_WITH_KEY: Final = re.compile(rb"/with-key/([^/]{1,1800})(?=/)")  # before it is unquoted: a key may hold a slash
_HOST: Final = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9_.-]{1,253})(?::(\d{1,5}))?", re.IGNORECASE)
_LOCAL: Final = frozenset(("localhost", "127.0.0.1", "[::1]"))
_RESTARTS: Final = 1012  # the server restarts (registered by IANA for RFC 6455)
_POLICY: Final = 1008  # RFC 6455, 7.4.1
_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)


class Guarded(Protocol):
    """A server behind a guard: its bounds, its keys, and its counts."""

    settings: Settings
    keys: Keys
    metrics: Metrics


class Guard:
    """An ASGI application around another one, which it shows `scope["groundbox.key"]`, the Key that asks."""

    def __init__(
        self,
        app: Any,
        service: Guarded,
        *,
        own_host: str,
        over_unix: bool,
        public: Collection[str],
        admissions: Sequence[Admission] = (),
        key_headers: Collection[str] = (),
    ) -> None:
        """Args:
        own_host: The address that is listened on; one of its names besides the settings' `hosts`.
        over_unix: Whether only processes of the same user can connect; `Host` is anything then.
        public: Paths that need no key.
        admissions: Asked one after the other, before a key is looked for.
        key_headers: Further headers that may contain a key (`WireProtocol.key_headers`).
        """
        self._app, self._service, self._over_unix, self._admissions = app, service, over_unix, admissions
        self._public = frozenset(public)
        self._key_headers = (*_KEY_HEADERS, *key_headers)
        self._hosts = frozenset({*_LOCAL, *map(_as_named, (own_host, *service.settings.hosts))})
        self._any_host = "*" in service.settings.hosts
        self._bodies = _Bodies(service.settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request or connection, as ASGI has it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        begun = ended = False

        def charge(size: int) -> None:
            if key is not None and key is not OWNER and not scope.get("groundbox.fleet"):  # whose gateway has counted
                self._service.keys.usage(key.id).charge(size=size)

        async def watched(message: dict[str, Any]) -> None:
            nonlocal begun, ended
            if message["type"] == "http.response.start":
                begun = True
                given = {name.lower() for name, _ in message.get("headers", ())}
                more = [each for each in _HEADERS if each[0] not in given]
                message = {**message, "headers": [*message.get("headers", ()), *more]}
            elif message["type"] == "websocket.accept":
                begun = True
            elif message["type"] == "http.response.body":
                ended = not message.get("more_body", False)
                charge(len(message.get("body", b"")))
            elif message["type"] == "websocket.send":
                charge(_size(message))
            await send(message)

        async def counted() -> dict[str, Any]:
            message = await receive()
            if message["type"] == "websocket.receive":
                charge(_size(message))
            return message

        key: Key | None = None
        try:
            key = await self._entered(scope)
            working_for.set(key.id)
            if scope["type"] == "http":
                _check_announced(scope, self._service.settings)
                with self._bodies.share_of(key.id) as share:
                    scope[bodies.ROOM] = share
                    body = _Body(self._service.settings, receive, charge, share)
                    await self._app(scope, body.receive, watched)
            else:
                await self._app(scope, counted, watched)
        except (ClientDisconnect, WebSocketDisconnect):  # the client has left, and nobody is to be answered
            return
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError):  # only the end of the server cancels a request
                refused = shutting_down()
            else:  # a copy: this frame is in the error's traceback, which would keep the body until a collection
                refused = error.again() if isinstance(error, Refused) else refusal_of(error)
            if refused.status == 500:
                logger.exception("a request failed by a fault of groundbox")
            if not isinstance(error, Refused) and ended:
                return  # the application has told of it itself
            self._service.metrics.refused(refused.code)
            if scope["type"] == "websocket" and begun:
                reason = refused.message.encode()[:120].decode(errors="ignore")
                code = _RESTARTS if refused.code == "shutting_down" else _POLICY
                with contextlib.suppress(Exception):
                    await send({"type": "websocket.close", "code": code, "reason": reason})
            elif not begun:
                await self._refuse(refused, scope, receive, watched)
            else:
                raise  # half of a reply is out: the connection is cut, so that nobody takes it for a whole one
        finally:
            bodies.forget(scope)

    async def _entered(self, scope: Scope) -> Key:
        """The key of a request that may come in.

        Raises:
            Refused: It may not.
        """
        _check_head(scope)
        headers = _headers(scope)
        origin = self._check_origin(headers, is_websocket=scope["type"] == "websocket")
        path = scope["path"]
        if len(path) > _MOST_PATH_CHARS or "\0" in path:
            told = f"a path must have at most {_MOST_PATH_CHARS} characters, and no NUL byte"
            raise Refused(414 if len(path) > _MOST_PATH_CHARS else 400, "bad_path", told)
        if path in self._public:
            return Key(id="nobody", owner="nobody", scopes=frozenset())
        for admission in self._admissions:
            if (key := admission(scope, headers)) is not None:
                break
        else:
            key = await self._service.keys.find(_token(scope, headers, self._key_headers, own_page=origin))
        self._service.keys.usage(key.id).check_bytes(key.quotas)
        scope["groundbox.key"] = key
        return key

    def _check_origin(self, headers: dict[str, str], *, is_websocket: bool) -> bool:
        """Refuse what a page of somebody else sent; whether it is certainly a page of ours.

        A browser says where a page is from that sends a request: by `Origin` on all but plain GETs, and by
        `Sec-Fetch-Site` on all. Programs send neither.
        """
        if self._over_unix:
            return True
        host = headers.get("host", "")
        found = _HOST.fullmatch(host)
        if found is None or not (self._any_host or found[1].lower() in self._hosts):
            told = "this server is not asked by that name; `groundbox serve --allow-name NAME` allows it"
            raise Refused(403, "wrong_host", told)
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in (f"http://{host}".lower(), f"https://{host}".lower()):
            raise Refused(403, "wrong_origin", "pages of other servers may not ask this one")
        site = headers.get("sec-fetch-site")
        if site is not None and site not in ("same-origin", "none"):
            is_link = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
            if is_websocket or not is_link:
                raise Refused(403, "wrong_origin", "pages of other servers may not ask this one")
            return False
        return origin is not None or site is not None

    async def _refuse(self, refused: Refused, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(refused.headers)
        if refused.status == 401:
            headers["WWW-Authenticate"] = 'Bearer realm="groundbox"'
        if refused.status == 408:
            headers["Connection"] = "close"  # what is left of the body does not come
        # To a WebSocket that is not open yet, too, whose client sees it as the status of its handshake.
        await json_reply(refused.to_dict(), refused.status, headers)(scope, receive, send)  # type: ignore[arg-type]


class _Bodies:
    """What the bodies of all requests take that are not answered yet, in bytes; each key has half of the room."""

    def __init__(self, settings: Settings) -> None:
        self._most = settings.bodies_bytes
        self._taken: collections.Counter[str] = collections.Counter()
        self._total = 0

    @contextlib.contextmanager
    def share_of(self, key_id: str) -> Iterator[Callable[[int], None]]:
        """Count bytes of one request, until it is answered.

        Yields:
            A function that counts so many more. It raises Refused, 429 or 503, if there is no room for them.
        """
        taken = 0

        def take(size: int) -> None:
            nonlocal taken
            if self._taken[key_id] + size > self._most // 2 and self._taken[key_id] > taken:
                told = f"the bodies of this key's requests take {self._most // 2} bytes together; ask again later"
                raise Refused(429, "busy", told, retry_after_s=2)
            if self._total + size > self._most:
                told = "the bodies of requests take all the memory that this server has for them; ask again later"
                raise Refused(503, "busy", told, retry_after_s=2)
            taken += size
            self._taken[key_id] += size
            self._total += size

        try:
            yield take
        finally:
            self._total -= taken
            self._taken[key_id] -= taken
            if not self._taken[key_id]:
                del self._taken[key_id]


class _Body:
    """The body of one request, counted as it comes. What comes after it is waited for as it is."""

    def __init__(
        self, settings: Settings, receive: Receive, charge: Callable[[int], None], share: Callable[[int], None]
    ) -> None:
        self._settings, self._receive, self._charge, self._share = settings, receive, charge, share
        self._size = 0
        self._ended = False
        self._deadline: float | None = None

    async def receive(self) -> dict[str, Any]:
        """The next message.

        Raises:
            Refused: 413 or 408, because it is too large or takes too long; 429 or 503, because others take the room.
        """
        if self._ended:
            return await self._receive()
        loop = asyncio.get_running_loop()
        if self._deadline is None:
            self._deadline = loop.time() + self._settings.body_s
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            raise Refused(408, "too_slow", f"a body comes within {self._settings.body_s:g} s") from None
        if message["type"] == "http.request":
            size = len(message.get("body", b""))
            self._size += size
            self._charge(size)
            if self._size > self._settings.body_bytes:
                raise Refused(413, "too_large", f"a body has at most {self._settings.body_bytes} bytes")
            self._share(size)
        self._ended = message["type"] != "http.request" or not message.get("more_body", False)
        return message


def _size(message: dict[str, Any]) -> int:
    """Of a WebSocket's message, about: characters of a text are counted as one byte."""
    return len(message.get("bytes") or message.get("text") or "")


def _check_head(scope: Scope) -> None:
    """Refuse a head that is larger than clients send, before anything of it is decoded or looked up.

    Raises:
        Refused: 414 for the target, 431 for the headers.
    """
    query = scope.get("query_string", b"")
    if len(scope.get("raw_path") or b"") + len(query) > _MOST_TARGET_BYTES or query.count(b"&") >= _MOST_PARAMETERS:
        told = f"a path with its query must have at most {_MOST_TARGET_BYTES} bytes and {_MOST_PARAMETERS} parameters"
        raise Refused(414, "target_too_long", told)
    given = scope["headers"]
    if len(given) > _MOST_HEADERS or sum(len(name) + len(value) for name, value in given) > _MOST_HEADER_BYTES:
        told = f"a request must have at most {_MOST_HEADERS} headers, of {_MOST_HEADER_BYTES} bytes together"
        raise Refused(431, "headers_too_large", told)


def _check_announced(scope: Scope, settings: Settings) -> None:
    """Refuse a body by its `Content-Length`, before any of it is read.

    Raises:
        Refused: 413 if it is too large.
    """
    size = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    if size.isdigit() and int(size[:20]) > settings.body_bytes:
        raise Refused(413, "too_large", f"a body has at most {settings.body_bytes} bytes")


def _headers(scope: Scope) -> dict[str, str]:
    """Headers by name in lower case. One that says who asks, twice, is refused: others may take the other one."""
    headers: dict[str, str] = {}
    for raw, value in scope["headers"]:
        name = raw.decode("latin-1").lower()
        if name in headers and name in ("host", "origin", "authorization", "x-api-key"):
            raise Refused(400, "bad_request", f"the header {name} was sent twice")
        headers[name] = value.decode("latin-1")
    return headers


def _token(scope: Scope, headers: dict[str, str], key_headers: Sequence[str], *, own_page: bool) -> str | None:
    """The secret that a request brings, from wherever its client puts it."""
    found = _WITH_KEY.match(scope.get("raw_path") or b"")
    if found is not None:  # the rest of the path is what wires see
        scope["raw_path"] = scope["raw_path"][found.end(1) :]
        scope["path"] = unquote(scope["raw_path"].decode("latin-1"))
        return unquote(found[1].decode("latin-1"))
    scheme, _, given = headers.get("authorization", "").partition(" ")
    if given and scheme.lower() in ("bearer", "token"):
        return given.strip()
    for name in key_headers:
        if name in headers and not (name == "authorization" and given):  # another scheme is not a key
            return headers[name]
    query = scope.get("query_string", b"")
    if b"token=" in query:
        for name, value in parse_qsl(query.decode("latin-1")):
            if name == "token":
                return str(value)
    cookie = headers.get("cookie", "")
    if COOKIE in cookie and len(cookie) <= _MOST_COOKIE_BYTES and cookie.count(";") <= _MOST_COOKIES:
        with contextlib.suppress(CookieError):
            cookies = {name: str(morsel.value) for name, morsel in SimpleCookie(cookie).items()}
            sent, kept = headers.get("x-xsrftoken", ""), cookies.get(XSRF_COOKIE, "")
            if own_page or (kept and hmac.compare_digest(sent.encode(), kept.encode())):
                return cookies.get(COOKIE)
    return None


def _as_named(host: str) -> str:
    """A name or an address as the header `Host` has it: IPv6 in brackets, and without a zone."""
    host = host.lower()
    return f"[{host.partition('%')[0]}]" if ":" in host and not host.startswith("[") else host
