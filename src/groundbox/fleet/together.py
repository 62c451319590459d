"""Answers that are made of those of several nodes, for protocols whose requests no single node can answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec
from starlette.responses import Response

from groundbox.fleet.catalogue import TAG_DIGITS
from groundbox.fleet.roster import Peer, Roster
from groundbox.fleet.routing import LISTS, SESSIONS
from groundbox.server.keys import Key
from groundbox.server.protocol import Answer, Answers, Node, Nodes, missing_header
from groundbox.server.replies import json_reply

LIST_S: Final = 3.0
"""Seconds after which a node that does not answer is named as missing."""

Ask = Callable[[Any, Key, Peer, float | None], Awaitable[tuple[int, bytes] | None]]
"""Status and body of one node's answer to a request without a body; None where it does not answer in time."""


class Together:
    """Asks several nodes for one client."""

    def __init__(self, roster: Roster, ask: Ask) -> None:
        self._roster, self._ask = roster, ask

    async def lists(self, scope: Any, key: Key) -> Response:
        """The lists of all nodes as one; a node that does not answer is named in a header."""
        under = LISTS[scope["path"]]
        under = "closed" if under and scope["method"] == "DELETE" else under
        told, missing, refused = await self.ask_all(scope, key)
        if refused is not None:
            return refused
        together: list[Any] = []
        about: dict[str, Any] = {}
        for peer, body in told:
            try:
                decoded = msgspec.json.decode(body)
                together += [*decoded[under]] if under else [*decoded]
                about = decoded if under else about
            except (msgspec.DecodeError, KeyError, TypeError):
                missing.append(peer.node.name)
        return json_reply({**about, under: together} if under else together, headers=missing_header(missing))

    def nodes(self, key: Key, protocol: str) -> Nodes:
        """Return the nodes that speak a protocol, to be asked for a client."""
        return _Speaking(self, self._roster, self._ask, key, protocol)

    async def session_of(self, scope: Any, key: Key, path: str) -> Peer | None:
        """The node that has Jupyter's session of a path, where one has."""
        listing = {**scope, "method": "GET", "path": SESSIONS, "raw_path": SESSIONS.encode(), "query_string": b""}
        for peer, body in (await self.ask_all(listing, key))[0]:
            if any(each.get("path") == path for each in msgspec.json.decode(body)):
                return peer
        return None

    async def ask_all(
        self, scope: Any, key: Key, peers: Sequence[Peer] | None = None
    ) -> tuple[list[tuple[Peer, bytes]], list[str], Response | None]:
        """Bodies by node, names of nodes that did not answer, and an answer that is a refusal, where one is."""
        peers = self._roster.alive if peers is None else peers
        most_s = LIST_S if scope["method"] == "GET" else None
        answers = await asyncio.gather(*(self._ask(scope, key, each, most_s) for each in peers))
        told, missing = [], []
        for peer, answer in zip(peers, answers, strict=True):
            if answer is None:
                missing.append(peer.node.name)
            elif answer[0] != 200:
                return [], [], Response(answer[1], answer[0], media_type="application/json")
            else:
                told.append((peer, answer[1]))
        return told, missing, None


class _Speaking:
    """See `Nodes`."""

    def __init__(self, together: Together, roster: Roster, ask: Ask, key: Key, protocol: str) -> None:
        self._together, self._roster, self._ask, self._key, self._protocol = together, roster, ask, key, protocol

    def find(self, digits: str) -> Node | None:
        peer = self._roster.get(digits[:TAG_DIGITS])
        return None if peer is None else _node(peer)

    async def ask(self, scope: Any, node: Node) -> Answer | None:
        peer = self._roster.get(node.tag)
        told = None if peer is None else await self._ask(scope, self._key, peer, LIST_S)
        return None if told is None else Answer(node, *told)

    async def ask_all(self, scope: Any, nodes: Sequence[Node] | None = None) -> Answers:
        if nodes is None:
            peers = [each for each in self._roster.alive if each.speaks(self._protocol)]
        else:
            peers = [peer for node in nodes if (peer := self._roster.get(node.tag)) is not None]
        told, missing, refusal = await self._together.ask_all(scope, self._key, peers)
        return Answers([Answer(_node(peer), 200, body) for peer, body in told], missing, refusal)


def _node(peer: Peer) -> Node:
    return Node(peer.node.tag, peer.node.name, peer.is_lost)
