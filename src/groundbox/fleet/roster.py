"""The nodes as one gateway sees them: read from the catalogue each second, with connections to each; and placement.

Placement is the best of three taken at random (Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing",
1996, with one more): who took the very best of all would send everything there. How busy a node is goes by what this
gateway has under way there now, since what nodes told of their runs is two seconds old, by which everybody goes to the
same nodes (benchmarks/model_fleet.py --simulate); how much lives on it goes by what it told, and what was made since.
Nodes that have not the environment that is asked for are left out.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import random
import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

from groundbox.errors import GroundboxError
from groundbox.fleet.catalogue import ALIVE, READY, Catalogue, Node
from groundbox.fleet.joining import gateway_key
from groundbox.fleet.upstream import Upstream
from groundbox.remote.transport import address_of

logger = logging.getLogger(__name__)

REFRESH_S: Final = 1.0
_SAMPLE: Final = 3
_FULL_S: Final = 1.0
"""Seconds that a node which said 429 is asked last."""


@dataclasses.dataclass(eq=False, slots=True)
class Peer:
    """One boot of a node, with connections to it.

    Attributes:
        ends: When its lease ends, on the monotonic clock.
        key: With which it is asked.
        going: Requests that this gateway has placed there and that go on.
        made: Sandboxes made there since it told its load, by the id of a key.
        full_until: Asked last until then, on the monotonic clock.
    """

    node: Node
    upstream: Upstream
    ends: float
    key: str
    going: int = 0
    made: dict[str, int] = dataclasses.field(default_factory=dict)
    full_until: float = 0.0

    @property
    def is_alive(self) -> bool:
        """Whether requests may go to it."""
        return self.node.state in ALIVE and time.monotonic() < self.ends

    def takes(self, environment: str | None) -> bool:
        """Whether new sandboxes may be made there."""
        load = self.node.load
        has_it = environment is None or environment in load.get("environments", (environment,))
        return self.is_alive and self.node.state == READY and not load.get("problem") and has_it

    def load(self) -> float:
        """How busy it is, as a share of what it can do."""
        load = self.node.load
        rooms = load.get("sandboxes", 0) + sum(self.made.values())
        return float(self.going / max(1, load.get("at_once", 1)) + rooms / max(1, load.get("most_sandboxes", 1)))

    def sandboxes_of(self, key_id: str) -> int:
        """How many sandboxes a key has there, as far as that was told or seen."""
        return int(self.node.load.get("of_keys", {}).get(key_id, 0)) + self.made.get(key_id, 0)

    def is_full(self) -> bool:
        """Whether it said a moment ago that it takes nothing more."""
        return time.monotonic() < self.full_until


class Roster:
    """All boots that this gateway knows, by tag. Belongs to the running event loop."""

    def __init__(self, catalogue: Catalogue, secret: bytes) -> None:
        self.catalogue, self._secret = catalogue, secret
        self._peers: dict[str, Peer] = {}
        self._random = random.Random()
        self.problem = "the catalogue was not read yet"

    def __iter__(self) -> Iterator[Peer]:
        return iter(list(self._peers.values()))

    @property
    def alive(self) -> list[Peer]:
        """Those that requests may go to, the oldest first."""
        return [each for each in self._peers.values() if each.is_alive]

    def get(self, tag: str) -> Peer | None:
        """The boot with this tag, alive or not, or None where there never was one."""
        return self._peers.get(tag)

    def placed(self, environment: str | None, tried: Iterable[str]) -> Peer | None:
        """A node for something new; None where no other one than those `tried`, by tag, can take it."""
        done = frozenset(tried)
        takers = [each for each in self._peers.values() if each.node.tag not in done and each.takes(environment)]
        free = [each for each in takers if not each.is_full()] or takers
        if not free:
            return None
        return min(self._random.sample(free, min(_SAMPLE, len(free))), key=Peer.load)

    async def refresh(self) -> None:
        """Read the catalogue. One that is away is noted; nodes are believed to live until their leases end."""
        try:
            nodes = await asyncio.to_thread(self.catalogue.nodes)
        except GroundboxError as error:
            if self.problem != str(error):
                logger.warning("%s", error)
            self.problem = str(error)
            return
        self.problem = ""
        for node in nodes:
            self.take(node)
        for tag in self._peers.keys() - {node.tag for node in nodes}:
            self._peers.pop(tag).upstream.abort()

    async def keep_refreshing(self) -> None:
        """Refresh for as long as the gateway runs, and hang up on nodes whose leases have ended."""
        while True:
            await self.refresh()
            for each in self:
                if not each.is_alive:
                    each.upstream.abort()
            await asyncio.sleep(REFRESH_S)

    def take(self, node: Node) -> Peer:
        """Note what the catalogue says of a node."""
        peer = self._peers.get(node.tag)
        ends = time.monotonic() + node.left_s
        if peer is None:
            address = address_of(node.url)
            peer = Peer(node, Upstream(address), ends, gateway_key(self._secret, node.boot_id))
            self._peers[node.tag] = peer
            if node.is_alive:
                logger.info("node %s, generation %d, is there at %s", node.name, node.generation, node.url)
            return peer
        if node.number != peer.node.number:
            peer.made.clear()
        if peer.node.is_alive and not node.is_alive:
            logger.warning("node %s, generation %d, is %s", node.name, node.generation, node.state)
        peer.node, peer.ends = node, ends
        if not peer.is_alive:
            peer.upstream.abort()
        return peer

    def lose(self, peer: Peer) -> None:
        """Note that a node has said itself that this boot is over."""
        peer.ends = float("-inf")
        peer.upstream.abort()

    def sandboxes_of(self, key_id: str) -> int:
        """How many sandboxes a key has on all nodes, as far as that was told or seen."""
        return sum(each.sandboxes_of(key_id) for each in self.alive)


def describe(peer: Peer) -> dict[str, Any]:
    """A node as operators see it."""
    node = peer.node
    return {
        "name": node.name,
        "url": node.url,
        "state": node.state if peer.is_alive or node.state not in ALIVE else "lost",
        "generation": node.generation,
        "tag": node.tag,
        "version": node.version,
        "environment": node.environment,
        "left_s": round(peer.ends - time.monotonic(), 3) if peer.is_alive else 0.0,
        "drained_s": node.drained,
        "load": {name: value for name, value in node.load.items() if name != "of_keys"},
    }
