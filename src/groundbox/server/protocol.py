"""Protocols that are off until they are asked for: what a package provides to add one, and how it is found.

A package names a `WireProtocol` in the entry point group `groundbox.protocols`; the name of the entry point is the NAME
of `--protocol NAME`. The server's part are routes. The gateway's part, `AtGateway`, says which node answers a request:
the node whose digits an id in the path contains, a node with room, any node, or all nodes together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from groundbox.errors import InvalidArgument

if TYPE_CHECKING:
    from importlib import metadata

    from starlette.responses import Response
    from starlette.routing import BaseRoute

    from groundbox.server.guard import Admission
    from groundbox.server.service import Service

ENTRY_POINTS: Final = "groundbox.protocols"
Scope = dict[str, Any]


class Placing(NamedTuple):
    """How a gateway treats a request for something new.

    Attributes:
        is_run: It runs a program, and counts as a run.
        makes: It needs room for a sandbox.
        stays: It makes a sandbox that stays.
        is_harmless: It runs no program. If it is carried out twice, the unused sandbox is closed when it is idle.
    """

    is_run: bool = False
    makes: bool = True
    stays: bool = False
    is_harmless: bool = False


class Node(NamedTuple):
    """A node of a fleet. `tag` is the beginning of every id that it makes."""

    tag: str
    name: str
    is_lost: bool


class Answer(NamedTuple):
    """A node's answer to a request without a body."""

    node: Node
    status: int
    body: bytes


class Answers(NamedTuple):
    """Answers of several nodes.

    Attributes:
        given: Those with status 200.
        missing: Names of the nodes that did not answer in time.
        refusal: The first answer with another status, or None. `given` is empty then.
    """

    given: Sequence[Answer]
    missing: Sequence[str]
    refusal: Response | None


class Nodes(Protocol):
    """The nodes of a fleet, asked for one client."""

    def find(self, digits: str) -> Node | None:
        """Return the node that made an id, alive or lost, by the id's hexadecimal digits."""

    async def ask(self, scope: Scope, node: Node) -> Answer | None:
        """Return one node's answer, or None if it does not answer in time."""

    async def ask_all(self, scope: Scope, nodes: Sequence[Node] | None = None) -> Answers:
        """Ask these nodes, by default all that are alive and speak the protocol."""


Merge = Callable[[Scope, Nodes], Awaitable["Response"]]
Rewrite = Callable[[bytes, Mapping[str, str]], bytes]
"""Makes the body for the client from a node's body and the client's headers."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class AtGateway:
    """How a gateway routes the requests of a protocol. What it does not cover is answered with 404.

    Attributes:
        digits_of: Returns the hexadecimal digits of an id in a path, or None. They begin with the tag of the node that
            the request goes to. A gateway finds ids of sandboxes by itself, also with a prefix such as `box_`.
        placed: Paths whose POST makes something new, which one node with room carries out.
        is_anywhere: Returns True for a path whose GET any node can answer.
        merged: Functions by method and path that make one answer of those of several nodes.
        rewrite_of: Returns the function that changes the body of a node's answer to this path, or None.
    """

    digits_of: Callable[[str], str | None] = lambda path: None
    placed: Mapping[str, Placing] = dataclasses.field(default_factory=dict)
    is_anywhere: Callable[[str], bool] = lambda path: False
    merged: Mapping[tuple[str, str], Merge] = dataclasses.field(default_factory=dict)
    rewrite_of: Callable[[str], Rewrite | None] = lambda path: None


@dataclasses.dataclass(frozen=True, kw_only=True)
class WireProtocol:
    """A protocol of other people's clients.

    Attributes:
        routes: Makes the routes over one service. A path that the server itself has keeps the server's route. The first
            line of an endpoint's docstring is its summary in the OpenAPI document.
        public: Paths that need no key.
        admission: Makes a function of the guard that recognizes the protocol's own secrets; None for none.
        key_headers: Headers in lower case in which clients send a key, in addition to those that every server takes.
            `authorization` is a key without a scheme.
        bodies: Types of the JSON bodies by method and path, for the OpenAPI document.
        at_gateway: How a gateway routes requests; None if a gateway cannot.
    """

    routes: Callable[[Service], Sequence[BaseRoute]]
    public: Collection[str] = ()
    admission: Callable[[Service], Admission] | None = None
    key_headers: Collection[str] = ()
    bodies: Mapping[tuple[str, str], Any] = dataclasses.field(default_factory=dict)
    at_gateway: AtGateway | None = None


def missing_header(names: Sequence[str]) -> dict[str, str] | None:
    """Return the header that names the nodes whose share of a merged answer is missing."""
    return {"Groundbox-Missing-Nodes": ", ".join(names)} if names else None


def installed() -> list[str]:
    """Return the names of all protocols that can be switched on."""
    return sorted(_points())


def check_names(names: Sequence[str]) -> None:
    """Check that protocols of these names are installed.

    Raises:
        InvalidArgument: One is not. The message lists those that are.
    """
    there = installed()
    for name in names:
        if name not in there:
            known = f"installed are {', '.join(there)}" if there else "none is installed"
            raise InvalidArgument("protocols", f"there is no protocol {name!r}; {known}")


def load(names: Sequence[str]) -> dict[str, WireProtocol]:
    """Import protocols by their names.

    Raises:
        InvalidArgument: One is not installed, cannot be imported, or is not a WireProtocol.
    """
    check_names(names)
    points = _points()
    loaded = {}
    for name in names:
        try:
            found = points[name].load()
        except (ImportError, AttributeError) as error:
            raise InvalidArgument("protocols", f"the protocol {name!r} cannot be imported: {error}") from error
        if not isinstance(found, WireProtocol):
            raise InvalidArgument("protocols", f"the protocol {name!r} is not a WireProtocol: {points[name].value}")
        loaded[name] = found
    return loaded


def _points() -> dict[str, metadata.EntryPoint]:
    from importlib import metadata

    return {point.name: point for point in metadata.entry_points(group=ENTRY_POINTS)}
