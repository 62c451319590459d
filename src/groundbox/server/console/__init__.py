"""The console: pages at `/` for people, made of static files of this package and of `/v1`.

A page is a program of ours that shows what programs of guests left, so it is held by walls of its own, and each of them
stands without the other:

- `Content-Security-Policy` of the page lets no script run but its own files, no request leave for another host, and no
  text become markup (trusted types).
- Markup that a guest made is shown in a frame of another origin (`sandbox`), whose policy allows no network at all. In
  `/console/frame/still` no script of a guest runs; in `/console/frame/lively`, which somebody has to ask for with a
  click, they run there. Charts are drawn by `/console/frame/chart` and terminals by `/console/frame/terminal`, where
  only files of this package run, so that neither a figure nor a control sequence is ever read by the page itself.
- `Cookie` and key are out of reach of scripts (`HttpOnly`), and no page of another server has them sent (`SameSite`).

Frames are addresses and no `srcdoc`, because a `srcdoc` has the policy of its page, under which nothing in it would
run, not even what tells the page how high it is.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import re
import secrets
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Final, NamedTuple
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from groundbox.server.guard import COOKIE
from groundbox.server.refusals import Refused
from groundbox.server.service import Service

_KINDS: Final = {
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "html": "text/html; charset=utf-8",
    "md": "text/plain; charset=utf-8",
    "LICENSE": "text/plain; charset=utf-8",
}
_SCRIPT: Final = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_INCLUDE: Final = re.compile(r"<(script|style) include=\"([a-z./-]+)\"></\1>")
_MOST_FORM_BYTES: Final = 4096
_PAGE_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data: blob:; "
    "connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_FRAME_POLICY: Final = (
    "sandbox allow-scripts; default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data:; "
    "font-src data:; media-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'self'"
)


class _File(NamedTuple):
    """A static file.

    Attributes:
        packed: The same by gzip, where that is smaller.
        tag: Of its contents, as HTTP has it.
    """

    data: bytes
    packed: bytes | None
    kind: str
    tag: str


_FRAMES: Final = {
    "still": "frame.html",
    "lively": "frame.html",
    "chart": "chart.html",
    "terminal": "terminal.html",
}
_TEMPLATES: Final = frozenset({"index.html", "login.html", *_FRAMES.values()})


def _paths() -> list[str]:
    """Paths of all static files below `/console/`."""
    root = resources.files(__package__) / "static"
    named = [each.name for each in root.iterdir() if each.is_file() and each.name not in _TEMPLATES]
    vendored = [f"vendor/{each.name}" for each in (root / "vendor").iterdir() if each.is_file()]
    return sorted(named + vendored)


PUBLIC: Final[Sequence[str]] = (
    *("/", "/console/login", "/console/logout", "/favicon.ico"),
    *(f"/console/frame/{name}" for name in _FRAMES),
    *(f"/console/{path}" for path in _paths()),
)
"""Paths that need no key: the page is the same for all, and what it shows it asks `/v1` for."""


def routes(service: Service) -> list[Route]:
    """The page, its login and its files."""
    console = _Console(service)
    return [
        Route("/", console.page, methods=["GET"]),
        Route("/console/login", console.login, methods=["POST"]),
        Route("/console/logout", console.logout, methods=["POST"]),
        Route("/console/frame/{name}", _frame, methods=["GET"]),
        Route("/console/{path:path}", _static, methods=["GET"]),
        Route("/favicon.ico", _icon, methods=["GET"]),
    ]


class _Console:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def page(self, request: Request) -> Response:
        """`GET /`. A key in the address goes into the cookie, and out of the address, the history and what is copied.

        Anybody can put a link with a key of their own on a page. A browser that did not get the address from its user,
        or is logged in with another key, is therefore asked for a click first. Without any key, the page is the login.
        """
        token = request.query_params.get("token")
        if token is not None:
            doubt = await self._doubt(request, token)
            return await self._enter(request, token) if not doubt else _document("login.html", told=doubt, key=token)
        problem = await self._problem(request.cookies.get(COOKIE))
        return _document("index.html") if problem is None else _document("login.html")

    async def login(self, request: Request) -> Response:
        """`POST /console/login`: a form with `token`."""
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > _MOST_FORM_BYTES:
                raise Refused(413, "too_large", f"a form has at most {_MOST_FORM_BYTES} bytes")
        given = parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0].strip()
        return await self._enter(request, given)

    async def logout(self, request: Request) -> Response:
        """`POST /console/logout`: the cookie goes; the key holds on elsewhere."""
        answer = RedirectResponse("/", 303)
        answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return answer

    async def _enter(self, request: Request, token: str) -> Response:
        problem = await self._problem(token)
        if problem is not None:
            self._service.metrics.refused(problem.code)
            told = "That key is not known here." if problem.status == 401 else problem.message
            return _document("login.html", status=problem.status, told=told)
        answer = RedirectResponse("/", 303)
        is_https = request.url.scheme == "https"
        answer.set_cookie(COOKIE, token, path="/", httponly=True, samesite="strict", secure=is_https)
        return answer

    async def _doubt(self, request: Request, token: str) -> str:
        """Return why the user must confirm the key of an address; "" if there is no need.

        Browsers send no `Sec-Fetch-Site` to a server that they reach by plain HTTP on another machine.
        """
        if await self._problem(token) is not None:
            return ""  # nobody is logged in with it
        logged_in = request.cookies.get(COOKIE)
        if logged_in and logged_in != token and await self._problem(logged_in) is None:
            return "You are logged in with another key. Log in with the key of this address only if it is yours."
        site = request.headers.get("sec-fetch-site", "")
        is_program = not site and "text/html" not in request.headers.get("accept", "")
        if site in ("none", "same-origin") or is_program:
            return ""
        return "Log in with the key of this address only if you trust who gave you the address."

    async def _problem(self, token: str | None) -> Refused | None:
        """Why a key does not let in, or None."""
        try:
            await self._service.keys.find(token)
        except Refused as refused:
            return refused
        return None


async def _frame(request: Request) -> Response:
    """`GET /console/frame/NAME`: an empty document that is told by messages what it is to show."""
    name = request.path_params["name"]
    if name not in _FRAMES:
        raise Refused(404, "not_found", "there is no such frame")
    text, hashes = _frame_document(_FRAMES[name])
    scripts = "'unsafe-inline'" if name == "lively" else hashes
    headers = {
        "Content-Security-Policy": _FRAME_POLICY.format(scripts=scripts),
        "Connection-Allowlist": "()",  # also preconnections and WebRTC, which no content policy knows
        "X-DNS-Prefetch-Control": "off",  # the names of hosts could carry what a guest knows
        "Permissions-Policy": "camera=(), microphone=(), geolocation=(), clipboard-read=(), clipboard-write=()",
        "Cache-Control": "private, max-age=3600",
    }
    return Response(text, headers=headers, media_type="text/html")


async def _static(request: Request) -> Response:
    path = request.path_params["path"]
    if f"/console/{path}" not in PUBLIC:
        raise Refused(404, "not_found", "there is no such file of the console")
    file = _file(path)
    headers = {"ETag": file.tag, "Cache-Control": "private, no-cache", "Vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=headers)
    if file.packed is not None and "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.packed, headers={**headers, "Content-Encoding": "gzip"}, media_type=file.kind)
    return Response(file.data, headers=headers, media_type=file.kind)


async def _icon(request: Request) -> Response:
    return Response(_file("icon.svg").data, media_type=_KINDS["svg"])


def _document(name: str, *, status: int = 200, told: str = "", key: str = "") -> Response:
    """Return a page of ours. `told` is a sentence of ours; `key` is what the field of the login begins with."""
    nonce = secrets.token_urlsafe(16)
    text = _text(name).replace("{{nonce}}", nonce).replace("{{told}}", told).replace("{{key}}", html.escape(key))
    headers = {
        "Content-Security-Policy": _PAGE_POLICY.format(nonce=nonce),
        "X-Frame-Options": "DENY",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Referrer-Policy": "same-origin",  # without any, Chromium sends `Origin: null` with our own forms
        "X-DNS-Prefetch-Control": "off",
        "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    }
    return Response(text, status, headers, media_type="text/html")


@cache
def _frame_document(name: str) -> tuple[str, str]:
    """The text of a frame with its scripts in it, and their hashes as `script-src` takes them.

    They are in it because its origin is none that this server would give a file to.
    """
    text = _INCLUDE.sub(lambda found: f"<{found[1]}>{_text(found[2])}</{found[1]}>", _text(name))
    digests = (hashlib.sha256(each.encode()).digest() for each in _SCRIPT.findall(text))
    return text, " ".join(f"'sha256-{base64.b64encode(digest).decode('ascii')}'" for digest in digests)


@cache
def _file(path: str) -> _File:
    data = _bytes(path)
    packed = gzip.compress(data, 6, mtime=0)
    kind = _KINDS[path.rpartition(".")[2]]
    return _File(data, packed if len(packed) < len(data) else None, kind, f'"{hashlib.sha256(data).hexdigest()[:32]}"')


def _text(path: str) -> str:
    return _bytes(path).decode("utf-8")


def _bytes(path: str) -> bytes:
    return resources.files(__package__).joinpath("static", path).read_bytes()
