"""Names of requests (`Idempotency-Key`): which node each was sent to, so that a repetition goes to no other one.

Theory of operation. The node that has a request answers its repetition, so all that gateways have to agree on is which
node that is. Before a request with a name is sent, its gateway claims the name for the node that it chose, in the
catalogue; where another gateway was first, its node is taken. A claim that this gateway made can be given up while
nobody else was told of it: the node refused, or was not reached. Where somebody was, the request goes nowhere else.

Claims that come while others are written are written together, in one transaction, so that they hold up no renewal.
Requests without a name ask the catalogue nothing. While it is away a name holds at this gateway alone.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import hashlib
import logging
import time
from typing import Final

from groundbox.fleet.catalogue import CatalogueUnavailable
from groundbox.fleet.roster import Roster
from groundbox.server.keys import Key
from groundbox.server.refusals import Refused

logger = logging.getLogger(__name__)

_LONGEST_RUN_S: Final = 3600.0
_KEPT_S: Final = _LONGEST_RUN_S + 600.0
"""Seconds that a name holds: as long as what it names may still go on, and then as at one server.

Both are what nodes have by default (`Settings.most`, `Settings.replayed_s`); a gateway does not know theirs.
"""
_MOST: Final = 100_000
_MOST_NAME: Final = 255
_MOST_TOGETHER: Final = 100
_WRITE_S: Final = 1.5


@dataclasses.dataclass(eq=False, slots=True)
class _Claim:
    """A name, as this gateway knows it.

    Attributes:
        tag: Of the node; settled before anything is sent.
        is_noted: Whether the catalogue has it.
        is_shared: Whether another request of this gateway was told of it.
    """

    at: float
    tag: asyncio.Future[str]
    is_noted: bool = False
    is_shared: bool = False


class Claims:
    """Names that requests have, for one gateway. Belongs to the running event loop."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._known: dict[str, _Claim] = {}
        self._waiting: list[tuple[str, str, _Claim]] = []
        self._writing: asyncio.Task[None] | None = None

    async def known(self, name: str) -> str | None:
        """The tag of the node that a request of this name was sent to through this gateway, or None."""
        claim = self._known.get(name)
        if claim is None or claim.at < time.monotonic() - _KEPT_S:
            return None
        claim.is_shared = True
        return await asyncio.shield(claim.tag)

    async def claim(self, name: str, tag: str) -> str:
        """The tag of the node that requests of this name go to: this one, where nobody was first.

        A name that is known here has to be given up before.
        """
        claim = _Claim(time.monotonic(), asyncio.get_running_loop().create_future())
        self._known.pop(name, None)
        self._known[name] = claim
        while len(self._known) > _MOST:
            del self._known[next(iter(self._known))]
        self._waiting.append((name, tag, claim))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())
        return await asyncio.shield(claim.tag)

    async def give_up(self, name: str, *, even_shared: bool = False) -> bool:
        """Forget where a request went that was not carried out; False where another one may be on its way there.

        Args:
            even_shared: It may be carried out twice.
        """
        claim = self._known.get(name)
        if claim is None:
            return True
        if claim.is_shared and not even_shared:
            return False
        if claim.is_noted:
            give_up = functools.partial(
                self._roster.catalogue.give_up, name, claim.tag.result(), even_shared=even_shared
            )
            try:
                if not await self._roster.call(give_up, most_s=_WRITE_S) and not even_shared:
                    return False
            except CatalogueUnavailable:
                if not even_shared:
                    return False
        if self._known.get(name) is claim:
            del self._known[name]
        return True

    async def _write(self) -> None:
        """Write the claims that wait, many at once."""
        while self._waiting:
            together, self._waiting = self._waiting[:_MOST_TOGETHER], self._waiting[_MOST_TOGETHER:]
            wished = {name: tag for name, tag, _ in together}
            found: dict[str, str] = {}
            if not self._roster.problem:  # which was logged
                write = functools.partial(self._roster.catalogue.claim, wished, kept_s=_KEPT_S)
                try:
                    found = await self._roster.call(write, most_s=_WRITE_S)
                except CatalogueUnavailable:
                    pass
                except Exception:  # a fault of ours must not keep requests waiting for ever
                    logger.exception("claims could not be written; their names hold at this gateway alone")
            for name, tag, claim in together:
                claim.is_noted = name in found
                claim.tag.set_result(found.get(name, tag))


def name_of(key: Key, given: bytes | None) -> str | None:
    """Whose request of which name it is, in a form that takes little room; None where it has no name, or an empty one.

    Raises:
        Refused: The name is too long.
    """
    if not given:
        return None
    if len(given) > _MOST_NAME:
        raise Refused(400, "invalid_argument", f"Idempotency-Key: has more than {_MOST_NAME} characters")
    return f"{key.id}:{hashlib.blake2b(given, digest_size=16).hexdigest()}"
