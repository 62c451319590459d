"""The nodes as one gateway sees them: read from the catalogue each second, with connections to each; and placement.

Placement is the best of three taken at random (Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing",
1996, with one more): who took the very best of all would send everything there. How busy a node is goes by what this
gateway has under way there now, since what nodes told of their runs is two seconds old, by which everybody goes to the
same nodes (benchmarks/model_fleet.py --simulate); how much lives on it goes by what it told, and what was made since.
Nodes that have not the environment that is asked for are left out.

A node that went away without a word is noticed by whatever was asked of it: a connection that cannot be made, or, where
something waits that could go elsewhere, a question whether it is there. Then it is silent: others are preferred, and it
is asked again in the background until it answers. So are nodes preferred that did not miss a renewal. What a node has
is lost when the catalogue says so, or when the node says itself that this boot is over, which no catalogue takes back.

While the catalogue is away, no gateway can say that a lease has ended, and any gateway that hears a node lengthens its
lease from memory: from LENGTHENS of a lease after its last contact with the catalogue until `outage_s` after it. Before
and after, nodes are told that the catalogue is away. This is safe with several gateways, also where only some of them
are cut off from the catalogue, by the two times that each gateway tells it (`catalogue.py`): nobody marks a node as
lost while another gateway may have lengthened its lease. A node whose lease has ended as far as is known here, and
which the catalogue has not called lost, is asked how long its lease goes on: the node alone knows, and carries out
nothing after that. Until it answers it gets nothing new, and what lives on it is neither lost nor reached.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import random
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from groundbox.errors import GroundboxError
from groundbox.fleet.catalogue import ALIVE, READY, Catalogue, CatalogueUnavailable, Heard, JoinRefused, Node, Presence
from groundbox.fleet.joining import BOOT_HEADER, MISDIRECTED, SELF, gateway_key, proof
from groundbox.fleet.upstream import Broken, NotSent, Upstream
from groundbox.remote.transport import address_of
from groundbox.server.refusals import Refused

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

LENGTHENS: Final = 1 / 3
"""Share of a lease after which a gateway that does not reach the catalogue lengthens leases by itself."""
_SURE: Final = 0.8
"""Share of that time in which others rely on its not doing so; the rest is for clocks that go at other rates."""
REFRESH_S: Final = 1.0
_REFRESHES: Final = 10
"""In each lease at least: a gateway counts as quiet only if it was heard twice within LENGTHENS of one."""
_WRITE_S: Final = 1.5
"""Seconds that a renewal may take, less than a node waits."""
_SOON_S: Final = 0.01
_MOST_FORGOTTEN: Final = 100_000
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
        ends: When its lease ends as the catalogue or a renewal has it, on the monotonic clock.
        told_ends: When its lease ends as the node told itself.
        key: With which it is asked.
        going: Requests that this gateway has placed there and that go on.
        making: Sandboxes that are being made there through this gateway, by the id of a key.
        made: Sandboxes made there since it told its load, by the id of a key.
        full_until: Asked last until then, on the monotonic clock.
        is_over: Whether the node has said itself that this boot is over.
        looking: Goes on while it is asked whether it is there.
    """

    node: Node
    upstream: Upstream
    ends: float
    key: str
    told_ends: float = float("-inf")
    going: int = 0
    making: dict[str, int] = dataclasses.field(default_factory=dict)
    made: dict[str, int] = dataclasses.field(default_factory=dict)
    full_until: float = 0.0
    is_over: bool = False
    looking: asyncio.Task[None] | None = None

    @property
    def is_lost(self) -> bool:
        """Whether what it had is gone, and nobody will ever say otherwise."""
        return self.is_over or self.node.state not in ALIVE

    @property
    def is_alive(self) -> bool:
        """Whether its lease goes on, as far as is known; one that is neither alive nor lost may be either."""
        return not self.is_lost and time.monotonic() < max(self.ends, self.told_ends)

    def takes(self, environment: str | None, protocol: str | None = None) -> bool:
        """Whether new sandboxes may be made there."""
        load = self.node.load
        has_it = environment is None or environment in load.get("environments", (environment,))
        return (
            self.is_alive and self.node.state == READY and not load.get("problem") and has_it and self.speaks(protocol)
        )

    def speaks(self, protocol: str | None) -> bool:
        """Return True if a protocol is switched on there; None stands for what every node speaks."""
        return protocol is None or protocol in self.node.load.get("protocols", ())

    def load(self) -> float:
        """How busy it is, as a share of what it can do."""
        load = self.node.load
        rooms = load.get("sandboxes", 0) + sum(self.made.values()) + sum(self.making.values())
        return float(self.going / max(1, load.get("at_once", 1)) + rooms / max(1, load.get("most_sandboxes", 1)))

    def sandboxes_of(self, key_id: str) -> int:
        """How many sandboxes a key has there, as far as that was told or seen."""
        told = int(self.node.load.get("of_keys", {}).get(key_id, 0))
        return told + self.made.get(key_id, 0) + self.making.get(key_id, 0)

    def begin_making(self, key_id: str, count: int) -> None:
        """Count sandboxes that this gateway has made there, also where the node tells its load meanwhile."""
        if count:
            self.making[key_id] = self.making.get(key_id, 0) + count

    def end_making(self, key_id: str, count: int, *, is_made: bool) -> None:
        """Count them no more, or as made until the node tells its load."""
        if not count:
            return
        self.making[key_id] -= count
        if not self.making[key_id]:
            del self.making[key_id]
        if is_made:
            self.made[key_id] = self.made.get(key_id, 0) + count

    def is_full(self) -> bool:
        """Whether it said a moment ago that it takes nothing more."""
        return time.monotonic() < self.full_until


class Roster:
    """All boots that this gateway knows, by tag; those that are over apart. Belongs to the running event loop."""

    def __init__(self, catalogue: Catalogue, secret: bytes, *, address: str = "", outage_s: float = 0.0) -> None:
        """Args:
        address: Where this gateway listens, as `listening_address` has it.
        outage_s: Seconds for which leases are lengthened while the catalogue is away; 0 for not at all.
        """
        self.catalogue, self._secret = catalogue, secret
        self._id, self._address, self._outage_s = secrets.token_hex(8), address or secrets.token_hex(8), outage_s
        self._in_catalogue = ThreadPoolExecutor(1, thread_name_prefix="catalogue")
        self._contact: _Contact | None = None
        self._heard: dict[str, tuple[int, Peer]] = {}
        self._forgotten: dict[str, None] = {}
        self._has_parted = False
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

    def placed(self, environment: str | None, tried: Iterable[str], protocol: str | None = None) -> Peer | None:
        """A node for something new; None where no other one than those `tried`, by tag, can take it."""
        done = frozenset(tried)
        takers = [
            each for each in self._peers.values() if each.node.tag not in done and each.takes(environment, protocol)
        ]
        late = time.monotonic() + self.catalogue.lease_s / 2
        there = [each for each in takers if not each.upstream.is_silent and each.ends > late] or takers
        free = [each for each in there if not each.is_full()] or there
        if not free:
            return None
        return min(self._random.sample(free, min(_SAMPLE, len(free))), key=Peer.load)

    def has_other(self, peer: Peer, environment: str | None, tried: Iterable[str], protocol: str | None = None) -> bool:
        """Whether something new could go to another node than `peer` and those `tried`."""
        done = {*tried, peer.node.tag}
        return any(each.node.tag not in done and each.takes(environment, protocol) for each in self._peers.values())

    async def call(self, call: Callable[[], _T], *, most_s: float | None = None) -> _T:
        """What a call of the catalogue gives.

        Args:
            most_s: Seconds after which it is waited for no longer. It may still be carried out.

        Raises:
            CatalogueUnavailable: It is away, or does not answer.
        """
        future = asyncio.get_running_loop().run_in_executor(self._in_catalogue, call)
        try:
            async with asyncio.timeout(most_s):
                return await future
        except TimeoutError:
            raise CatalogueUnavailable(f"the catalogue of the fleet did not answer within {most_s:g} s") from None

    async def in_catalogue(self, call: Callable[[], _T]) -> _T:
        """What a call of the catalogue gives, for a client.

        Raises:
            Refused: 503, where it is away.
        """
        try:
            return await self.call(call)
        except CatalogueUnavailable as error:
            raise Refused(503, "catalogue_unavailable", str(error), retry_after_s=1.0) from None

    @property
    def stranded(self) -> str:
        """Why no lease can be lengthened any more, or ""."""
        contact = self._contact
        if contact is None or not self._outage_s:
            return self.problem
        is_late = _now() > contact.began + max(self._outage_s, self.catalogue.lease_s)
        return (self.problem or "the catalogue does not answer") if is_late else ""

    async def renew(self, boot_id: str, number: int, load: Any) -> Node:
        """Lengthen a node's lease: in the catalogue, or from memory while that is away.

        Raises:
            JoinRefused: See Catalogue.renew.
            CatalogueUnavailable: It is away, and this gateway may not do so by itself, not yet or not any more.
        """
        if not self._lengthens():
            lengthens_in_s = self._contact.ended + self.catalogue.lease_s * LENGTHENS - _now() if self._contact else 0.0
            most_s = lengthens_in_s + _SOON_S if 0 < lengthens_in_s < _WRITE_S else _WRITE_S
            try:
                return await self.call(partial(self.catalogue.renew, boot_id, number, load), most_s=most_s)
            except CatalogueUnavailable:
                if not self._lengthens():
                    raise
        peer = next((each for each in self if each.node.boot_id == boot_id), None)
        if peer is None:
            raise CatalogueUnavailable("the catalogue is away, and this gateway does not know this boot")
        if peer.is_lost:
            raise JoinRefused("fenced", "this boot is lost; end its sandboxes, and join as a new boot")
        if number <= peer.node.number:
            raise JoinRefused("replayed", f"renewal {number} is not newer than the last one")
        node = dataclasses.replace(peer.node, number=number, load=load, left_s=self.catalogue.lease_s)
        self._heard[boot_id] = number, self.take(node)
        return node

    def _lengthens(self) -> bool:
        """Whether leases are lengthened from memory now, as the catalogue was told that they may be."""
        contact = self._contact
        if contact is None or self._has_parted or not self._outage_s:
            return False
        now = _now()
        return contact.ended + self.catalogue.lease_s * LENGTHENS < now <= contact.began + self._outage_s

    async def forget(self, sandbox_id: str) -> None:
        """Have the catalogue forget a sandbox that was closed; later, where it is away.

        Where this gateway ends before, a sandbox that was closed is one that was lost, and its files are gone.
        """
        try:
            await self.call(partial(self.catalogue.forget, sandbox_id), most_s=_WRITE_S)
        except CatalogueUnavailable:
            if len(self._forgotten) < _MOST_FORGOTTEN:
                self._forgotten[sandbox_id] = None

    async def refresh(self) -> None:
        """Tell the catalogue of this gateway, and read it. One that is away is noted; nothing is lost by that."""
        now, began = time.monotonic(), _now()
        is_whole = now - self._read > _CHANGED_S / 2 or now - self._read_whole > _WHOLE_S
        within_s = {} if is_whole else {"ended_within_s": _CHANGED_S}
        heard, forgotten = dict(self._heard), list(self._forgotten)
        try:
            if self._outage_s and not self._has_parted:
                presence = self._presence(heard)
                told, nodes = await self.call(partial(self.catalogue.exchange, presence, **within_s))
                self._contact = _Contact(began, _now(), told)
            else:
                nodes = await self.call(partial(self.catalogue.nodes, **within_s))
            for sandbox_id in forgotten:
                await self.call(partial(self.catalogue.forget, sandbox_id))
                del self._forgotten[sandbox_id]
        except GroundboxError as error:
            if self.problem != str(error):
                logger.warning("%s", error)
            self.problem = str(error)
            return
        if self._read > float("-inf") and (self.problem or time.monotonic() - self._read > self.catalogue.lease_s):
            logger.warning("the catalogue is there again, after %.0f s", time.monotonic() - self._read)
        self.problem, self._read = "", now
        for boot_id, (number, _) in heard.items():
            if self._heard[boot_id][0] == number:
                del self._heard[boot_id]
        known = {*self._peers, *self._over}
        for node in nodes:
            self.take(node)
        if is_whole:
            self._read_whole = now
            for tag in known - {node.tag for node in nodes}:
                self._over.pop(tag, None)
                if (peer := self._peers.pop(tag, None)) is not None:
                    peer.upstream.abort()

    def _presence(self, heard: Mapping[str, tuple[int, Peer]]) -> Presence:
        """What the catalogue is told of this gateway."""
        lease_s, now = self.catalogue.lease_s, time.monotonic()
        quiet_s = lease_s * LENGTHENS * _SURE
        return Presence(
            gateway_id=self._id,
            address=self._address,
            quiet=0.0 if self._contact is None else self._contact.told + quiet_s,
            until_s=self._outage_s + lease_s,
            heard={boot_id: Heard(number, peer.ends - now) for boot_id, (number, peer) in heard.items()},
        )

    async def part(self) -> None:
        """Lengthen no lease any more, say so to the catalogue, and close it."""
        self._has_parted = True
        try:
            await self.call(partial(self.catalogue.part, self._id), most_s=_WRITE_S)
        except GroundboxError as error:
            logger.warning("nodes may be called lost up to %.0f s late: %s", self._outage_s, error)
        self._in_catalogue.submit(self.catalogue.close)
        self._in_catalogue.shutdown(wait=False)

    async def keep_refreshing(self) -> None:
        """Refresh for as long as the gateway runs."""
        while True:
            await self.refresh()
            await asyncio.sleep(min(REFRESH_S, self.catalogue.lease_s / _REFRESHES))

    async def keep_looking(self) -> None:
        """Hang up on nodes that are lost, and ask those that may not be there, or whose leases may have ended.

        For as long as the gateway runs, and beside reading the catalogue, which may take seconds.
        """
        while True:
            late = time.monotonic() + (self.catalogue.lease_s / 2 if self.problem or self._lengthens() else 0.0)
            for each in list(self._peers.values()):
                has_doubts = each.upstream.is_silent or each.upstream.is_doubtful
                if each.is_lost:
                    each.upstream.abort()
                elif each.looking is None and (has_doubts or max(each.ends, each.told_ends) < late):
                    each.looking = asyncio.create_task(self._look(each))
            await asyncio.sleep(LOOK_S)

    async def _look(self, peer: Peer) -> None:
        """Ask a node whether it is there, and how long its lease goes on, which it answers at once, however busy."""
        key, boot = f"Bearer {proof(peer.key, '')}", peer.node.boot_id
        headers = [(b"authorization", key.encode()), (BOOT_HEADER.encode(), boot.encode())]
        was_silent, asked = peer.upstream.is_silent, time.monotonic()
        try:
            async with asyncio.timeout(_PROBE_S), peer.upstream.ask("GET", SELF.encode(), headers, b"") as answer:
                body = b"".join([part async for part in answer.parts()])
                if answer.status == MISDIRECTED:
                    self.lose(peer)
                elif answer.status == 200:
                    peer.told_ends = asked + msgspec.json.decode(body, type=_Self).left_s
        except (TimeoutError, NotSent, Broken, msgspec.DecodeError):
            peer.upstream.give_up()
            if not peer.is_alive:  # what waits there is told that nobody knows what became of it
                peer.upstream.abort()
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
            if node.state in ALIVE:
                logger.info("node %s, generation %d, is there at %s", node.name, node.generation, node.url)
            return peer
        if node.state in ALIVE and (node.number < peer.node.number or node.tag in self._over):
            return peer  # it was read before the last renewal or the end, and comes after it
        if node.number != peer.node.number:
            peer.made.clear()
        else:
            ends = min(ends, peer.ends)  # the same end, told some time after it was read
        if not peer.is_lost and node.state not in ALIVE:
            logger.warning("node %s, generation %d, is %s", node.name, node.generation, node.state)
        peer.node, peer.ends = _kept(node), ends
        if node.state not in ALIVE:
            self._over[node.tag] = self._peers.pop(node.tag, peer)
        if peer.is_lost:
            peer.upstream.abort()
        return peer

    def lose(self, peer: Peer) -> None:
        """Note that a node has said itself that this boot is over."""
        if not peer.is_lost:
            logger.warning("node %s says that generation %d of it is over", peer.node.name, peer.node.generation)
        peer.is_over = True
        peer.upstream.abort()

    def sandboxes_of(self, key_id: str) -> int:
        """How many sandboxes a key has on all nodes, as far as that was told or seen."""
        return sum(each.sandboxes_of(key_id) for each in self.alive)


def _kept(node: Node) -> Node:
    """A node as it is kept: of those that are over, which are many in the end, without their load."""
    return node if node.state in ALIVE else dataclasses.replace(node, load={})


class _Contact(NamedTuple):
    """The last contact with the catalogue: when it began and ended by the clock of `_now`, and the database's time."""

    began: float
    ended: float
    told: float


class _Self(msgspec.Struct):
    """What a node says of itself."""

    left_s: float = 0.0


def listening_address(host: str, port: int) -> str:
    """Where a gateway listens, in words that no other one has at the same time, on whatever machine."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{os.stat('/proc/self/ns/net').st_ino}/{host}:{port}"


def _now() -> float:
    """The clock of leases, which goes on while the machine sleeps, as that of nodes does."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def describe(peer: Peer) -> dict[str, Any]:
    """A node as operators see it."""
    node = peer.node
    return {
        "name": node.name,
        "url": node.url,
        "state": "lost" if peer.is_over else node.state if peer.is_alive or peer.is_lost else "unheard",
        "generation": node.generation,
        "tag": node.tag,
        "version": node.version,
        "environment": node.environment,
        "left_s": round(max(peer.ends, peer.told_ends) - time.monotonic(), 3) if peer.is_alive else 0.0,
        "drained_s": node.drained,
        "load": {name: value for name, value in node.load.items() if name != "of_keys"},
    }
