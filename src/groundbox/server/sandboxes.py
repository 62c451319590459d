"""Live sandboxes of a server: by id, by owner, by label, each until it is closed, idle for too long, or too old."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import contextvars
import dataclasses
import logging
import resource
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, Final

from groundbox.errors import InvalidArgument
from groundbox.execution import Warning
from groundbox.sandbox.branching import Checkpoint
from groundbox.sandbox.sandbox import AsyncSandbox, is_branching, load_of
from groundbox.server.keeping import Ledger, size_of
from groundbox.server.keys import Key, Keys
from groundbox.server.refusals import Refused, not_found, shutting_down
from groundbox.server.settings import Settings
from groundbox.server.shares import may_take
from groundbox.server.turns import Rate

logger = logging.getLogger(__name__)

_SWEEP_S: Final = 1.0
_MOST_LABELS: Final = 64
_MOST_LABEL_CHARS: Final = 1024
_MOST_WAITING: Final = 64
_SANDBOX_BYTES: Final = 16 * 1024
_MOST_RATES: Final = 10_000
_RATE_OF_ONE_KEY: Final = 7 / 8


@dataclasses.dataclass(eq=False, slots=True)
class KeptCheckpoint:
    """A state of a sandbox, kept until it is dropped or its sandbox ends.

    Attributes:
        created: Seconds since the epoch.
        restoring: Requests that go back to it now; it must not be dropped under them.
    """

    checkpoint: Checkpoint
    created: float
    restoring: int = 0


@dataclasses.dataclass(eq=False, kw_only=True, slots=True)
class Held:
    """One live sandbox and what the server knows of it.

    Attributes:
        id: Hexadecimal digits, 128 random bits at the end.
        key_id: Whose it is; no other key sees it.
        box: The sandbox itself.
        labels: Given by its maker, for listing and ending many at once.
        wire: Through which protocol it was made, such as `v1` or `e2b`.
        created: Seconds since the epoch.
        idle_s: Seconds without a request after which it is closed; None for those until `ends` alone.
        ends: When it is closed in any case, on the monotonic clock.
        used: When a request of it was last seen, on the monotonic clock.
        busy: Requests that go on now; while there are some it is not idle.
        runs: Runs that were begun in it.
        state: What a wire keeps for it, under the wire's name. Things with an `aclose` are closed with it.
        on_close: Called once, when it is being closed.
        waiting: Runs that wait for an earlier one of this sandbox, or go on.
        turn: Held by the run that goes on.
        checkpoints: Those that requests have taken, by their ids: 32 hexadecimal digits, 128 of them random bits.
        own_checkpoints: How many it may keep by itself, before its runs.
        kept_bytes: Memory of what the server keeps for it, about, as its key's budget counts it.
        notes: Of what happened to it beside its runs; warnings of the next one.
    """

    id: str
    key_id: str
    box: AsyncSandbox
    labels: Mapping[str, str]
    wire: str
    created: float
    idle_s: float | None
    ends: float
    used: float
    busy: int = 0
    runs: int = 0
    closed: bool = False
    state: dict[str, Any] = dataclasses.field(default_factory=dict)
    on_close: list[Callable[[], None]] = dataclasses.field(default_factory=list)
    waiting: int = 0
    turn: asyncio.Lock = dataclasses.field(default_factory=asyncio.Lock)
    checkpoints: dict[str, KeptCheckpoint] = dataclasses.field(default_factory=dict)
    own_checkpoints: int = 0
    notes: list[Warning] = dataclasses.field(default_factory=list)
    kept_bytes: int = 0

    @property
    def left_s(self) -> float:
        """Seconds until it is closed if nobody asks for it."""
        now = time.monotonic()
        if self.idle_s is None or self.busy:
            return max(0.0, self.ends - now)
        return max(0.0, min(self.ends, self.used + self.idle_s) - now)

    @contextlib.contextmanager
    def in_use(self) -> Iterator[AsyncSandbox]:
        """Its sandbox, while a request works with it."""
        self.busy += 1
        try:
            yield self.box
        finally:
            self.busy -= 1
            self.used = time.monotonic()

    @contextlib.asynccontextmanager
    async def order(self, most_s: float) -> AsyncIterator[None]:
        """One run after the other, in the order in which they came.

        Raises:
            Refused: 429, because too many wait, or this one has waited for `most_s`.
        """
        if self.waiting > _MOST_WAITING:
            raise Refused(429, "busy", f"{_MOST_WAITING} runs wait for this sandbox already", retry_after_s=5)
        self.waiting += 1
        try:
            try:
                async with asyncio.timeout(most_s):
                    await self.turn.acquire()
            except TimeoutError:
                told = f"this sandbox was busy for {most_s:g} s; interrupt what runs in it, or ask again later"
                raise Refused(429, "busy", told, retry_after_s=5) from None
            try:
                yield
            finally:
                self.turn.release()
        finally:
            self.waiting -= 1

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        limits = dataclasses.asdict(self.box.limits)
        load = load_of(self.box)
        return {
            "sandbox_id": self.id,
            "labels": dict(self.labels),
            "wire": self.wire,
            "created": self.created,
            "closes_in_s": round(self.left_s, 3),
            "busy": self.busy > 0,
            "runs": self.runs,
            "branching": is_branching(self.box),
            "checkpoints": len(self.checkpoints),
            "load": None if load is None else load._asdict(),
            "limits": limits,
            "network": {"allow": list(self.box.network.allow), "loopback": self.box.network.loopback},
        }


class Sandboxes:
    """All live sandboxes of one server.

    Attributes:
        tag: With which new ids begin: in a fleet it tells which node has what they name.
        is_ending: Whether the server shuts down, so that sandboxes are ended by it.
        given_id: The id of what the current request makes, where a gateway has chosen it.
    """

    def __init__(self, settings: Settings, keys: Keys, ledger: Ledger | None = None) -> None:
        self._settings, self._keys = settings, keys
        self._ledger = ledger or Ledger(lambda: settings.kept_bytes)
        self._held: dict[str, Held] = {}
        self.tag = ""
        self.is_ending = False
        self.given_id: contextvars.ContextVar[str] = contextvars.ContextVar("given_id", default="")
        self._making = 0
        self._taking: collections.Counter[str] = collections.Counter()
        self._rate = Rate(settings.creates_a_second, settings.queue_length)
        self._rates: dict[str, Rate] = {}
        self._most_checkpoints = min(settings.checkpoints, max(16, resource.getrlimit(resource.RLIMIT_NOFILE)[1] // 8))

    def __len__(self) -> int:
        return len(self._held)

    @contextlib.asynccontextmanager
    async def room(self, key: Key, count: int = 1) -> AsyncIterator[None]:
        """Hold room for sandboxes that are being made, or for one that lives as long as a request.

        Raises:
            Refused: 429, because there are too many of this key or of all, or they are made too fast.
        """
        self.check_room(key, count)
        usage = self._keys.usage(key.id)
        usage.sandboxes += count
        self._making += count
        try:
            yield
        finally:
            usage.sandboxes -= count
            self._making -= count

    def check_room(self, key: Key, count: int = 1) -> None:
        """Raises Refused, 429, where not so many sandboxes may be made for this key now; counts as their making."""
        usage, total = self._keys.usage(key.id), self._settings.sandboxes
        usage.check_sandboxes(key.quotas, count)
        taken = len(self._held) + self._making
        if not self._may_take(held=usage.sandboxes, taken=taken, total=total, count=count):
            raise Refused(429, "busy", _too_many("sandboxes live", total, taken, usage.sandboxes), retry_after_s=5)
        if wait_s := self._wait_s(key.id, count):
            raise Refused(429, "busy", "sandboxes are made too fast; ask again later", retry_after_s=wait_s)

    def _may_take(self, *, held: int, taken: int, total: int, count: int) -> bool:
        return may_take(held=held, taken=taken, total=total, shared=self._keys.is_shared, count=count)

    def _wait_s(self, key_id: str, count: int) -> float:
        """Take `count` from the rate of all keys, and from that of one key, which is less than all if others may come.

        Returns:
            Seconds until there are as many, or 0.
        """
        if not self._keys.is_shared:
            return self._rate.take(count)
        if (rate := self._rates.pop(key_id, None)) is None:
            rate = Rate(self._settings.creates_a_second * _RATE_OF_ONE_KEY, self._settings.queue_length)
        self._rates[key_id] = rate  # so that the rates of those that asked last are kept
        if len(self._rates) > _MOST_RATES:
            del self._rates[next(iter(self._rates))]
        return rate.take(count) or self._rate.take(count)

    @property
    def checkpoints(self) -> int:
        """Checkpoints that are kept, with those that sandboxes may keep by themselves."""
        return sum(len(held.checkpoints) + held.own_checkpoints for held in self._held.values())

    @contextlib.contextmanager
    def room_for_checkpoints(self, key: Key, count: int) -> Iterator[None]:
        """Hold room for checkpoints that are being taken. Raises what `check_checkpoints` raises."""
        self.check_checkpoints(key, count)
        self._taking[key.id] += count
        try:
            yield
        finally:
            self._taking[key.id] -= count
            if not self._taking[key.id]:
                del self._taking[key.id]

    def check_checkpoints(self, key: Key, count: int) -> None:
        """Raises Refused, 429, if `count` more checkpoints would be too many of this key or of all keys together."""
        if not count:
            return
        mine = [held for held in self._held.values() if held.key_id == key.id]
        own = sum(len(held.checkpoints) + held.own_checkpoints for held in mine) + self._taking[key.id]
        taken, total = self.checkpoints + self._taking.total(), self._most_checkpoints
        if not self._may_take(held=own, taken=taken, total=total, count=count):
            told = _too_many("checkpoints are kept", total, taken, own)
            raise Refused(429, "busy", told, retry_after_s=5)

    def add(
        self,
        key: Key,
        box: AsyncSandbox,
        *,
        labels: Mapping[str, str] | None = None,
        idle_s: float | None = None,
        total_s: float | None = None,
        wire: str,
        sandbox_id: str | None = None,
        own_checkpoints: int = 0,
        kept_bytes: int = 0,
    ) -> Held:
        """Keep a sandbox. Nothing of it is started yet.

        Args:
            idle_s: Seconds without a request until it is closed; None for the server's.
            total_s: Seconds until it is closed in any case; None for the server's. Where this is given and `idle_s` is
                not, it is closed by this alone.
            sandbox_id: A name of a wire's own making, which must not be guessable; by default a new one.
            own_checkpoints: How many it may keep by itself.
            kept_bytes: Memory of what is kept for it beside its labels, about.

        Raises:
            InvalidArgument: Labels or times cannot be meant.
        """
        most_s = self._settings.total_s
        for name, value in (("idle_s", idle_s), ("total_s", total_s)):
            if value is not None and not 0 < value <= most_s:
                raise InvalidArgument(name, f"must be above 0 and at most {most_s:g} on this server, not {value!r}")
        now = time.monotonic()
        held = Held(
            id=sandbox_id or self.new_id(),
            key_id=key.id,
            box=box,
            labels=checked_labels(labels or {}),
            wire=wire,
            created=time.time(),
            idle_s=idle_s if idle_s is not None or total_s is not None else self._settings.idle_s,
            ends=now + (most_s if total_s is None else total_s),
            used=now,
            own_checkpoints=own_checkpoints,
        )
        if held.id in self._held:
            raise Refused(409, "exists", "there is a sandbox of that id already")
        return self._keep(held, kept_bytes)

    def new_id(self) -> str:
        """An id that nobody can guess, of hexadecimal digits: 128 random bits after the tag; or that of `given_id`."""
        return self.given_id.get() or self.tag + secrets.token_hex(16)

    def add_fork(self, origin: Held, box: AsyncSandbox, *, wire: str) -> Held:
        """Keep a fork of a sandbox: of the same key, with the same labels and times, and closed when that would be."""
        fork = Held(
            id=self.new_id(),
            key_id=origin.key_id,
            box=box,
            labels=dict(origin.labels),
            wire=wire,
            created=time.time(),
            idle_s=origin.idle_s,
            ends=origin.ends,
            used=time.monotonic(),
            own_checkpoints=origin.own_checkpoints,
        )
        return self._keep(fork, origin.kept_bytes)

    def keep(self, held: Held, size_bytes: int, what: str) -> None:
        """Count bytes that are kept for a sandbox until `forget`, or until it is closed.

        Raises:
            Refused: 429, its key makes the server keep too much.
        """
        if held.closed:
            raise Refused(410, "sandbox_closed", "this sandbox has been closed")
        self._ledger.take(held.key_id, size_bytes, what)
        held.kept_bytes += size_bytes

    def forget(self, held: Held, size_bytes: int) -> None:
        """Give back bytes that are kept for a sandbox no longer. Nothing happens if it has been closed."""
        size_bytes = min(size_bytes, held.kept_bytes)
        held.kept_bytes -= size_bytes
        self._ledger.give_back(held.key_id, size_bytes)

    def _keep(self, held: Held, kept_bytes: int) -> Held:
        self.keep(held, _SANDBOX_BYTES + size_of(dict(held.labels)) + kept_bytes, "sandbox")
        self._held[held.id] = held
        self._keys.usage(held.key_id).sandboxes += 1
        return held

    def get(self, key: Key, sandbox_id: str) -> Held:
        """The sandbox of this id, if it is this key's.

        Raises:
            Refused: 404 else; that it belongs to somebody else is not told.
        """
        held = self._held.get(sandbox_id)
        if held is None or held.key_id != key.id:
            if self.is_ending:  # it may have been ended with the server, which is no fault of the one who asks
                raise shutting_down()
            raise not_found("sandbox")
        return held

    def of_any_key(self) -> Iterator[Held]:
        """All of them, for who finds one by a secret of its own."""
        return iter(self._held.values())

    def list(self, key: Key, labels: Mapping[str, str] | None = None) -> list[Held]:
        """The key's sandboxes that have all these labels, the oldest first."""
        wanted = (labels or {}).items()
        return [held for held in self._held.values() if held.key_id == key.id and wanted <= dict(held.labels).items()]

    def find(self, sandbox_id: str) -> Held | None:
        """The sandbox of this id, whosever it is, for who then asks for a secret of its own."""
        return self._held.get(sandbox_id)

    def extend(self, held: Held, total_s: float) -> None:
        """Close it in `total_s` from now, and not before that.

        Raises:
            InvalidArgument: It is more than the server gives.
        """
        if not 0 < total_s <= self._settings.total_s:
            raise InvalidArgument("total_s", f"must be above 0 and at most {self._settings.total_s:g}, not {total_s!r}")
        held.idle_s, held.ends = None, time.monotonic() + total_s

    async def close(self, held: Held) -> bool:
        """End it with all its processes; whether it was still there."""
        if held.closed:
            return False
        held.closed = True
        self._held.pop(held.id, None)
        self._keys.usage(held.key_id).sandboxes -= 1
        self.forget(held, held.kept_bytes)
        try:
            for call in held.on_close:
                call()
            for each in list(held.state.values()):
                if hasattr(each, "aclose"):
                    await each.aclose()
        finally:
            await held.box.close()
        return True

    async def close_all(self) -> None:
        """End all of them."""
        await asyncio.gather(*map(self.close, list(self._held.values())), return_exceptions=True)

    async def keep_sweeping(self) -> None:
        """Close what is idle or too old, for as long as the server runs."""
        closing: set[asyncio.Task[None]] = set()
        while True:
            await asyncio.sleep(_SWEEP_S)
            for held in [held for held in self._held.values() if held.left_s <= 0 and not held.closed]:
                logger.info("sandbox %s is closed: idle or too old", held.id)
                task = asyncio.create_task(self._swept(held))  # beside the others: one may take long to end
                closing.add(task)
                task.add_done_callback(closing.discard)

    async def _swept(self, held: Held) -> None:
        try:
            await self.close(held)
        except Exception:
            logger.exception("sandbox %s could not be closed in good order", held.id)


def _too_many(what: str, total: int, taken: int, own: int) -> str:
    whose = "all of them this key's" if own == taken else f"{own} of them this key's"
    return f"{taken} of at most {total} {what} on this server, {whose}; close some, or ask again later"


def checked_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Labels as they are kept.

    Raises:
        InvalidArgument: There are too many, or one is no short text.
    """
    if len(labels) > _MOST_LABELS:
        raise InvalidArgument("labels", f"are {len(labels)}, more than {_MOST_LABELS}")
    for name, value in labels.items():
        if not name or len(name) > _MOST_LABEL_CHARS or len(value) > _MOST_LABEL_CHARS:
            raise InvalidArgument("labels", f"have 1 to {_MOST_LABEL_CHARS} characters, and their values no more")
    return dict(labels)
