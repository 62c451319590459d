"""Paths that a gateway passes on, by what it does with them, and the ids that say where to.

A request goes to a node by one rule: an id in it begins with the digits of the node's boot (a tag, `catalogue.py`). The
id stands in the path; for E2B's data plane and MCP in a header; for MCP without sessions in the arguments of a call.
What names nothing yet is placed, put together of all nodes' answers, or asked anywhere. Nothing is sent here.
Protocols that are switched on bring rules of their own (`AtGateway`), which are asked after those of every gateway.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from groundbox.agent.mcp import SESSIONS as MCP_SESSIONS
from groundbox.fleet.catalogue import TAG_DIGITS
from groundbox.server.protocol import AtGateway, Placing
from groundbox.server.wires.e2b.access import DATA_PLANE

E2B_ID: Final = b"e2b-sandbox-id"
"""By which requests to E2B's data plane name a sandbox."""
MCP: Final = "/mcp"
OPENENV: Final = "/openenv/ws"
"""A WebSocket that is an episode with a sandbox of its own."""
SESSIONS: Final = "/api/sessions"
_MCP_SESSION: Final = b"mcp-session-id"
_MCP_VERSION: Final = b"mcp-protocol-version"
_ID: Final = re.compile(rf"(?:^|/)(?:[a-z]{{1,16}}_)?([0-9a-f]{{{TAG_DIGITS + 32}}})(?=$|[/?])")
_KERNEL: Final = re.compile(
    rf"/api/(?:kernels|sessions|contents)/([0-9a-f]{{{TAG_DIGITS + 8}}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}})(?=$|/)"
)
_ANYWHERE: Final = re.compile(
    r"/v1/(?:languages|environments|openapi\.json)|/run_code/languages"
    r"|/api|/api/kernelspecs(?:/[^/]{1,200})?"
    r"|/openenv/(?:state|schema|metadata|health|openapi\.json)"
)
_MOST_LOOKED_AT: Final = 1024 * 1024
"""Bodies over this are not looked into: nothing else goes on while one is decoded."""


class Place(NamedTuple):
    """A Placing, and the protocol that a node must speak to carry it out; None for what every node does."""

    placing: Placing
    protocol: str | None = None


_RUN: Final = Placing(is_run=True)
_SANDBOX: Final = Placing(stays=True, is_harmless=True)
_QUESTION: Final = Placing(makes=False, is_harmless=True)
_PLACED: Final[Mapping[str, Placing]] = {
    **dict.fromkeys(("/v1/run", "/v1/batch", "/run_code"), _RUN),
    **dict.fromkeys(("/run_jupyter", "/openenv/step"), _RUN),
    **dict.fromkeys(("/v1/sandboxes", "/sandboxes", "/v2/sandboxes"), _SANDBOX),
    **dict.fromkeys(("/api/kernels", SESSIONS), _SANDBOX),
    "/openenv/reset": Placing(is_harmless=True),
    "/openenv/mcp": _QUESTION,
}
"""Of paths that make something new when they are posted to; no other id than those with a tag comes of it."""
LISTS: Final[Mapping[str, str]] = {
    "/v1/sandboxes": "sandboxes",
    "/v1/executions": "executions",
    "/sandboxes": "",
    "/v2/sandboxes": "",
    "/api/kernels": "",
    SESSIONS: "",
    "/api/contents": "content",
}
"""Paths whose lists of all nodes are put together: under this key of an object, or "" where the answer is a list."""


def named(scope: Any, protocols: Mapping[str, AtGateway]) -> str | None:
    """The id in a request's path or headers that begins with the tag of its node; None where there is none."""
    path = scope["path"]
    if found := _ID.search(path):
        return found[1]
    if found := _KERNEL.match(path):
        return found[1].replace("-", "")
    for protocol in protocols.values():
        if digits := protocol.digits_of(path):
            return digits
    if path == MCP:
        version = _header(scope, _MCP_VERSION)
        # A request without a session may make a sandbox, on whichever node it comes to.
        return _header(scope, _MCP_SESSION) if version is None or version in MCP_SESSIONS else None
    return _header(scope, E2B_ID) if DATA_PLANE.fullmatch(path) else None


def _header(scope: Any, wanted: bytes) -> str | None:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == wanted), None)


def placing(scope: Any, body: bytes, protocols: Mapping[str, AtGateway]) -> Place | None:
    """What a request without an id is, that one node has to answer, whichever; None for all others."""
    method, path = scope["method"], scope["path"]
    if method == "GET" and _ANYWHERE.fullmatch(path):
        return Place(_QUESTION)
    if path == MCP and method in ("GET", "POST", "DELETE"):
        return Place(_placing_of_mcp(body) if method == "POST" else _QUESTION)
    if method == "POST" and path in _PLACED:
        return Place(_PLACED[path])
    for name, protocol in protocols.items():
        if method == "POST" and path in protocol.placed:
            return Place(protocol.placed[path], name)
        if method == "GET" and protocol.is_anywhere(path):
            return Place(_QUESTION, name)
    return None


def _placing_of_mcp(body: bytes) -> Placing:
    """By the message's method as its node reads it, which has more than one spelling in JSON."""
    message = _looked_into(body, b"", _Message)
    if message is not None and message.method not in ("initialize", "tools/call"):
        return _QUESTION
    begins = message is not None and message.method == "initialize"
    return Placing(stays=begins, is_harmless=begins)


def environment_of(body: bytes) -> str | None:
    """The environment that a request for something new names, where it does; a node says what is wrong with others."""
    told = _looked_into(body, b'"environment"', _Environment)
    return told.environment if told is not None else None


def sandbox_of(body: bytes) -> str | None:
    """The sandbox that a call of MCP names in its arguments, where it does."""
    told = _looked_into(body, b'"sandbox"', _Call)
    return told.params.arguments.sandbox if told is not None else None


def session_path_of(body: bytes) -> str | None:
    """The path of a session of Jupyter's that is asked for; there is one session of a path."""
    told = _looked_into(body, b'"path"', _Session)
    return told.path if told is not None else None


def _looked_into(body: bytes, word: bytes, kind: Any) -> Any:
    if len(body) > _MOST_LOOKED_AT or word not in body:
        return None
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


class _Environment(msgspec.Struct):
    environment: str | None = None


class _Message(msgspec.Struct):
    method: str | None = None


class _Arguments(msgspec.Struct):
    sandbox: str | None = None


class _Params(msgspec.Struct):
    arguments: _Arguments = msgspec.field(default_factory=_Arguments)


class _Call(msgspec.Struct):
    params: _Params = msgspec.field(default_factory=_Params)


class _Session(msgspec.Struct):
    path: str | None = None
