"""The nodes as one gateway sees them: read from the catalogue each second, with connections to each; and placement.

Placement is the best of three taken at random (Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing",
1996, with one more): who took the very best of all would send everything there. How busy a node is goes by what this
gateway has under way there now, since what nodes told of their runs is two seconds old, by which everybody goes to the
same nodes (benchmarks/model_fleet.py --simulate); how much lives on it goes by what it told, and what was made since.
Nodes that have not the environment that is asked for are left out.

A node that went away without a word is noticed by whatever was asked of it: a connection that cannot be made, or, where
something waits that could go elsewhere, a question whether it is there. Then it is silent: others are preferred, and it
is asked again in the background until it answers. So are nodes preferred that did not miss a renewal. What a node has
is lost by its lease alone, or when it says itself that this boot is over, which no catalogue takes back.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import random
import time
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

from groundbox.errors import GroundboxError
from groundbox.fleet.catalogue import ALIVE, READY, Catalogue, CatalogueUnavailable, Node
from groundbox.fleet.joining import BOOT_HEADER, MISDIRECTED, SELF, gateway_key, proof
from groundbox.fleet.upstream import Broken, NotSent, Upstream
from groundbox.remote.transport import address_of
from groundbox.server.refusals import Refused

logger = logging.getLogger(__name__)

REFRESH_S: Final = 1.0
LOOK_S: Final = 0.25
_SAMPLE: Final = 3
_PROBE_S: Final = 1.0
_CHANGED_S: Final = 60.0
"""Boots that ended longer ago are read once, and then not each second."""
_WHOLE_S: Final = 600.0
"""Seconds after which all are read again, so that what the catalogue has forgotten is forgotten here."""


@dataclasses.dataclass(eq=False, slots=True)
class Peer:
    """One boot of a node, with connections to it.

    Attributes:
        ends: When its lease ends, on the monotonic clock.
        key: With which it is asked.
        going: Requests that this gateway has placed there and that go on.
        made: Sandboxes made there since it told its load, by the id of a key.
        full_until: Asked last until then, on the monotonic clock.
        is_over: Whether the node has said itself that this boot is over.
        looking: Goes on while it is asked whether it is there.
    """

    node: Node
    upstream: Upstream
    ends: float
    key: str
    going: int = 0
    made: dict[str, int] = dataclasses.field(default_factory=dict)
    full_until: float = 0.0
    is_over: bool = False
    looking: asyncio.Task[None] | None = None

    @property
    def is_alive(self) -> bool:
        """Whether requests may go to it."""
        return not self.is_over and self.node.state in ALIVE and time.monotonic() < self.ends

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
    """All boots that this gateway knows, by tag; those that are over apart. Belongs to the running event loop."""

    def __init__(self, catalogue: Catalogue, secret: bytes) -> None:
        self.catalogue, self._secret = catalogue, secret
        self._peers: dict[str, Peer] = {}
        self._over: dict[str, Peer] = {}
        self._random = random.Random()
        self._read = self._read_whole = float("-inf")
        self.problem = "the catalogue was not read yet"

    def __iter__(self) -> Iterator[Peer]:
        return iter([*self._over.values(), *self._peers.values()])

    @property
    def alive(self) -> list[Peer]:
        """Those that requests may go to, the oldest first."""
        return [each for each in self._peers.values() if each.is_alive]

    def get(self, tag: str) -> Peer | None:
        """The boot with this tag, alive or not, or None where there never was one."""
        return self._peers.get(tag) or self._over.get(tag)

    def placed(self, environment: str | None, tried: Iterable[str]) -> Peer | None:
        """A node for something new; None where no other one than those `tried`, by tag, can take it."""
        done = frozenset(tried)
        takers = [each for each in self._peers.values() if each.node.tag not in done and each.takes(environment)]
        late = time.monotonic() + self.catalogue.lease_s / 2
        there = [each for each in takers if not each.upstream.is_silent and each.ends > late] or takers
        free = [each for each in there if not each.is_full()] or there
        if not free:
            return None
        return min(self._random.sample(free, min(_SAMPLE, len(free))), key=Peer.load)

    def has_other(self, peer: Peer, environment: str | None, tried: Iterable[str]) -> bool:
        """Whether something new could go to another node than `peer` and those `tried`."""
        done = {*tried, peer.node.tag}
        return any(each.node.tag not in done and each.takes(environment) for each in self._peers.values())

    async def in_catalogue(self, call: Any) -> Any:
        """What a call of the catalogue gives.

        Raises:
            Refused: 503, where it is away.
        """
        try:
            return await asyncio.to_thread(call)
        except CatalogueUnavailable as error:
            raise Refused(503, "catalogue_unavailable", str(error), retry_after_s=1.0) from None

    async def refresh(self) -> None:
        """Read the catalogue. One that is away is noted; nodes are believed to live until their leases end."""
        now = time.monotonic()
        is_whole = now - self._read > _CHANGED_S / 2 or now - self._read_whole > _WHOLE_S
        read = self.catalogue.nodes if is_whole else partial(self.catalogue.nodes, ended_within_s=_CHANGED_S)
        try:
            nodes = await asyncio.to_thread(read)
        except GroundboxError as error:
            if self.problem != str(error):
                logger.warning("%s", error)
            self.problem = str(error)
            return
        self.problem, self._read = "", now
        known = {*self._peers, *self._over}
        for node in nodes:
            self.take(node)
        if is_whole:
            self._read_whole = now
            for tag in known - {node.tag for node in nodes}:
                self._over.pop(tag, None)
                if (peer := self._peers.pop(tag, None)) is not None:
                    peer.upstream.abort()

    async def keep_refreshing(self) -> None:
        """Refresh for as long as the gateway runs."""
        while True:
            await self.refresh()
            await asyncio.sleep(REFRESH_S)

    async def keep_looking(self) -> None:
        """Hang up on nodes whose leases have ended, and ask those that may not be there.

        For as long as the gateway runs, and beside reading the catalogue, which may take seconds.
        """
        while True:
            for each in list(self._peers.values()):
                if not each.is_alive:
                    each.upstream.abort()
                elif each.looking is None and (each.upstream.is_silent or each.upstream.is_doubtful):
                    each.looking = asyncio.create_task(self._look(each))
            await asyncio.sleep(LOOK_S)

    async def _look(self, peer: Peer) -> None:
        """Ask a node whether it is there, which it answers at once, however busy it is."""
        key, boot = f"Bearer {proof(peer.key, '')}", peer.node.boot_id
        headers = [(b"authorization", key.encode()), (BOOT_HEADER.encode(), boot.encode())]
        was_silent = peer.upstream.is_silent
        try:
            async with asyncio.timeout(_PROBE_S), peer.upstream.ask("GET", SELF.encode(), headers, b"") as answer:
                if answer.status == MISDIRECTED:
                    self.lose(peer)
        except (TimeoutError, NotSent, Broken):
            peer.upstream.give_up()
            if not was_silent:
                logger.warning("node %s, generation %d, does not answer", peer.node.name, peer.node.generation)
        finally:
            peer.looking = None

    def take(self, node: Node) -> Peer:
        """Note what the catalogue says of a node."""
        peer = self.get(node.tag)
        ends = time.monotonic() + node.left_s
        if peer is None:
            address = address_of(node.url)
            peer = Peer(_kept(node), Upstream(address), ends, gateway_key(self._secret, node.boot_id))
            (self._peers if node.state in ALIVE else self._over)[node.tag] = peer
            if node.is_alive:
                logger.info("node %s, generation %d, is there at %s", node.name, node.generation, node.url)
            return peer
        if node.state in ALIVE and (node.number < peer.node.number or node.tag in self._over):
            return peer  # it was read before the last renewal or the end, and comes after it
        if node.number != peer.node.number:
            peer.made.clear()
        else:
            ends = min(ends, peer.ends)  # the same end, told some time after it was read
        if peer.node.is_alive and not node.is_alive:
            logger.warning("node %s, generation %d, is %s", node.name, node.generation, node.state)
        peer.node, peer.ends = _kept(node), ends
        if node.state not in ALIVE:
            self._over[node.tag] = self._peers.pop(node.tag, peer)
        if not peer.is_alive:
            peer.upstream.abort()
        return peer

    def lose(self, peer: Peer) -> None:
        """Note that a node has said itself that this boot is over."""
        if peer.is_alive:
            logger.warning("node %s says that generation %d of it is over", peer.node.name, peer.node.generation)
        peer.is_over = True
        peer.upstream.abort()

    def sandboxes_of(self, key_id: str) -> int:
        """How many sandboxes a key has on all nodes, as far as that was told or seen."""
        return sum(each.sandboxes_of(key_id) for each in self.alive)


def _kept(node: Node) -> Node:
    """A node as it is kept: of those that are over, which are many in the end, without their load."""
    return node if node.state in ALIVE else dataclasses.replace(node, load={})


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
