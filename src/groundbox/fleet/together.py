"""Answers that are made of those of several nodes, for protocols whose requests no single node can answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

import msgspec
from starlette.responses import Response

from groundbox.fleet.catalogue import TAG_DIGITS
from groundbox.fleet.roster import Peer, Roster
from groundbox.fleet.routing import LISTS, SESSIONS, tagged
from groundbox.server.keys import Key
from groundbox.server.refusals import Refused
from groundbox.server.replies import json_reply
from groundbox.server.wires import judge0, opensandbox

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
        told, missing, refused = await self._all(scope, key)
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
        return json_reply({**about, under: together} if under else together, headers=_missing(missing))

    async def pages(self, scope: Any, key: Key) -> Response:
        """A page of OpenSandbox's list, of the sandboxes of all nodes, the oldest first."""
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        asked = dict(query)
        number = opensandbox.whole_number(asked.get("page"), 1, 10**6)
        size = opensandbox.whole_number(asked.get("pageSize"), 20, opensandbox.MOST_PAGE)
        kept = [each for each in query if each[0] not in ("page", "pageSize")]
        items: list[Any] = []
        missing: list[str] = []
        peers, page = self._roster.alive, 1
        while peers:  # each time those that have more than was told yet
            of_page = urlencode([*kept, ("page", page), ("pageSize", opensandbox.MOST_PAGE)]).encode()
            told, silent, refused = await self._all({**scope, "query_string": of_page}, key, peers)
            if refused is not None:
                return refused
            missing += silent
            decoded = [(peer, msgspec.json.decode(body)) for peer, body in told]
            items += [item for _, each in decoded for item in each["items"]]
            peers, page = [peer for peer, each in decoded if each["pagination"]["hasNextPage"]], page + 1
        items.sort(key=lambda item: (item["createdAt"], item["id"]))
        return json_reply(opensandbox.page_of(items, number, size), headers=_missing(missing))

    async def submissions(self, scope: Any, key: Key) -> Response:
        """Judge0's submissions of some tokens, each from its node; those of lost nodes have ended with status 13.

        Raises:
            Refused: 503, where a node that may have one does not answer.
        """
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        tokens = [each.strip() for each in dict(query).get("tokens", "").split(",")][: judge0.MOST_BATCH]
        kept = [each for each in query if each[0] != "tokens"]
        of_node: dict[str, list[str]] = {}
        found: dict[str, Any] = {}
        for token in tokens:
            peer = self._roster.get(tagged(token)[:TAG_DIGITS])
            if peer is not None and peer.is_lost:
                found[token] = judge0.lost(token, f"its node {peer.node.name} was lost", dict(query))
            elif peer is not None:
                of_node.setdefault(peer.node.tag, []).append(token)

        async def of(tag: str, wanted: Sequence[str]) -> Response | None:
            peer = self._roster.get(tag)
            assert peer is not None  # looked up above
            asked = urlencode([*kept, ("tokens", ",".join(wanted))]).encode()
            told = await self._ask({**scope, "query_string": asked}, key, peer, LIST_S)
            if told is None:
                why = f"node {peer.node.name} is not reached, and has some of these submissions"
                raise Refused(503, "node_unreachable", why, retry_after_s=1.0)
            if told[0] != 200:
                return Response(told[1], told[0], media_type="application/json")
            found.update(zip(wanted, msgspec.json.decode(told[1])["submissions"], strict=True))
            return None

        refused = [each for each in await asyncio.gather(*(of(*each) for each in of_node.items())) if each]
        return refused[0] if refused else json_reply({"submissions": [found.get(token) for token in tokens]})

    async def session_of(self, scope: Any, key: Key, path: str) -> Peer | None:
        """The node that has Jupyter's session of a path, where one has."""
        listing = {**scope, "method": "GET", "path": SESSIONS, "raw_path": SESSIONS.encode(), "query_string": b""}
        for peer, body in (await self._all(listing, key))[0]:
            if any(each.get("path") == path for each in msgspec.json.decode(body)):
                return peer
        return None

    async def _all(
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


def _missing(names: Sequence[str]) -> dict[str, str] | None:
    return {"Groundbox-Missing-Nodes": ", ".join(names)} if names else None
