"""What nodes say to a gateway: that they join, live on, and leave.

A message is authenticated by its head alone: without the secret, nobody makes a gateway read a byte of a body, and
nobody takes a place of a node. A captured head is good for one use. Whoever holds back the body of an authenticated
message loses the place after _BODY_S, or as soon as another node needs it. All nodes get a signed answer.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import functools
import itertools
import time
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from groundbox.errors import GroundboxError, InvalidArgument
from groundbox.fleet.catalogue import CatalogueUnavailable, JoinRefused
from groundbox.fleet.joining import (
    ANSWER_HEADER,
    BOOT_HEADER,
    CLOCK_S,
    SELF,
    BadSignature,
    JoinAsked,
    Leased,
    LeaveAsked,
    RenewAsked,
    answer_mac,
    check_body,
    check_head,
    check_name,
    check_url,
    gateway_key,
    proof,
)
from groundbox.fleet.roster import Peer, Roster
from groundbox.fleet.upstream import Broken, NotSent, Upstream
from groundbox.remote.transport import address_of
from groundbox.server import schemas
from groundbox.server.keys import Keys
from groundbox.server.refusals import Refused, refusal_of
from groundbox.server.replies import json_reply

_CALLBACK_S: Final = 2.0
_MOST_MESSAGE: Final = 256 * 1024
_MOST_MESSAGES: Final = 32
_MOST_READING: Final = 256
_BODY_S: Final = 5.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Timing:
    """Seconds of a fleet's leases.

    Attributes:
        lease_s: That a node lives on without a renewal; what it had is lost then.
        renew_s: Between two renewals.
        outage_s: That the catalogue may be away while gateways lengthen leases by themselves.
    """

    lease_s: float = 15.0
    renew_s: float = 2.0
    outage_s: float = 60.0

    def __post_init__(self) -> None:
        if not 0.1 <= self.renew_s <= self.lease_s / 2:
            raise InvalidArgument("lease_s", f"must be at least twice the {self.renew_s:g} s between renewals")
        if not 0 <= self.outage_s <= 3600:
            raise InvalidArgument("outage_s", "must be 0 to 3600 s; 0 ends all sandboxes with the catalogue")


class Reception:
    """Answers nodes, for one gateway."""

    def __init__(self, roster: Roster, keys: Keys, *, secret: bytes, timing: Timing) -> None:
        """Args:
        secret: That nodes and gateways share.
        """
        self._roster, self._keys, self._secret, self._timing = roster, keys, secret, timing
        self._acting: collections.Counter[type] = collections.Counter()
        self._reading: dict[str, asyncio.Timeout] = {}
        self._used: dict[str, float] = {}
        """Signatures of the last minute, and when they were used; by nodes only, so that strangers add none."""

    async def join(self, request: Request) -> Response:
        """`POST /v1/fleet/join`"""
        return await self._heard(request, JoinAsked, self._join)

    async def renew(self, request: Request) -> Response:
        """`POST /v1/fleet/renew`"""
        return await self._heard(request, RenewAsked, self._renew)

    async def leave(self, request: Request) -> Response:
        """`POST /v1/fleet/leave`"""
        return await self._heard(request, LeaveAsked, self._leave)

    async def _heard(self, request: Request, kind: Any, act: Any) -> Response:
        """Carry out what a node asks, and sign the answer."""
        signature = request.headers.get("authorization", "")
        try:
            digest = check_head(self._secret, signature, "POST", request.url.path)
        except BadSignature as error:
            refused = Refused(401, error.code, str(error))
            if error.code != "other_clock":  # who has another secret is not answered with what this one signs
                raise refused from None
            return self._signed(signature, refused.to_dict(), 401)
        try:
            self._use_once(signature)
            body = await self._read_body(request, signature)
            check_body(digest, body)
            told = await self._carry_out(act, schemas.decoded(body, kind))
        except BadSignature as error:
            raise Refused(401, error.code, str(error)) from None
        except JoinRefused as error:
            status = 410 if error.code in ("fenced", "unknown_boot") else 409
            return self._signed(signature, Refused(status, error.code, str(error)).to_dict(), status)
        except (GroundboxError, Refused) as error:
            refused = error if isinstance(error, Refused) else refusal_of(error)
            if isinstance(error, CatalogueUnavailable):
                refused = Refused(503, "catalogue_unavailable", str(error), retry_after_s=1.0)
            return self._signed(signature, refused.to_dict(), refused.status)
        return self._signed(signature, msgspec.to_builtins(told), 200)

    def _use_once(self, signature: str) -> None:
        """Refuse a signature that was used before."""
        now = time.monotonic()
        for old in list(itertools.takewhile(lambda each: self._used[each] < now - 2 * CLOCK_S, self._used)):
            del self._used[old]
        if signature in self._used:
            raise JoinRefused("replayed", "this message was sent before; a node signs each of its messages anew")
        self._used[signature] = now

    async def _read_body(self, request: Request, signature: str) -> bytes:
        """Return the body of a node's message.

        Raises:
            Refused: 413 if it is too long, 408 if it does not come in time.
        """
        if len(self._reading) >= _MOST_READING:  # nodes send head and body at once: the oldest one is held back
            oldest = next(iter(self._reading))
            self._reading.pop(oldest).reschedule(asyncio.get_running_loop().time())
        body = b""
        try:
            async with asyncio.timeout(_BODY_S) as limit:
                self._reading[signature] = limit
                async for part in request.stream():
                    body += part
                    if len(body) > _MOST_MESSAGE:
                        raise Refused(413, "too_large", f"a node's message has at most {_MOST_MESSAGE} bytes")
        except TimeoutError:
            most = f"within {_BODY_S:g} s" if signature in self._reading else "before another node needed its place"
            raise Refused(408, "too_slow", f"the body of this message did not come {most}") from None
        finally:
            self._reading.pop(signature, None)
        return body

    async def _carry_out(self, act: Any, asked: Any) -> Leased:
        """Joins wait for the node that joins. They take no place of a renewal."""
        kind = type(asked)
        if self._acting[kind] >= _MOST_MESSAGES:
            raise Refused(503, "busy", "too many nodes ask at once", retry_after_s=1.0)
        self._acting[kind] += 1
        try:
            told: Leased = await act(asked)
            return told
        finally:
            self._acting[kind] -= 1

    def _signed(self, signature: str, told: Any, status: int) -> Response:
        response = json_reply(told, status)
        response.headers[ANSWER_HEADER] = answer_mac(self._secret, signature, bytes(response.body))
        return response

    async def _join(self, asked: JoinAsked) -> Leased:
        check_name(asked.name)
        check_url(asked.url)
        await self._call_back(asked)
        node = await self._roster.call(
            functools.partial(
                self._roster.catalogue.join,
                boot_id=asked.boot_id,
                name=asked.name,
                url=asked.url,
                version=asked.version,
                environment=asked.environment,
                load=msgspec.to_builtins(asked.load),
            )
        )
        await self._roster.refresh()
        return self._leased(self._roster.take(node))

    async def _renew(self, asked: RenewAsked) -> Leased:
        load = msgspec.to_builtins(asked.load)
        node = await self._roster.renew(asked.boot_id, asked.number, load)
        for key_id, (
            cpu_s,
            size,
        ) in asked.used.items():  # bytes of requests with a key were counted as they went through
            self._keys.usage(key_id).charge(cpu_s=cpu_s, size=size)
        leased = self._leased(self._roster.take(node))
        leased.revoked = [key_id for key_id in asked.load.of_keys if self._is_revoked(key_id)]
        return leased

    def _is_revoked(self, key_id: str) -> bool:
        try:
            self._keys.of_id(key_id)
        except Refused as refused:
            return refused.status == 401  # and not where the database of keys is away
        return False

    async def _leave(self, asked: LeaveAsked) -> Leased:
        await self._roster.call(functools.partial(self._roster.catalogue.leave, asked.boot_id))
        await self._roster.refresh()
        return Leased(tag="", generation=0, lease_s=0.0, renew_s=0.0, state="draining")

    def _leased(self, peer: Peer) -> Leased:
        node = peer.node
        return Leased(
            tag=node.tag,
            generation=node.generation,
            lease_s=self._timing.lease_s,
            renew_s=self._timing.renew_s,
            state=node.state,  # type: ignore[arg-type]
            drained_s=node.drained,
        )

    async def _call_back(self, asked: JoinAsked) -> None:
        """Ask the node at the URL that it told, so that one which nobody reaches does not join.

        Raises:
            JoinRefused: It does not answer there, or somebody else does.
        """
        address = address_of(asked.url)
        key = gateway_key(self._secret, asked.boot_id)
        shown = f"Bearer {proof(key, '')}".encode()
        headers = [(b"authorization", shown), (BOOT_HEADER.encode(), asked.boot_id.encode())]
        upstream = Upstream(address)
        told = f"this gateway does not reach the node at {asked.url}"
        try:
            async with asyncio.timeout(_CALLBACK_S), upstream.ask("GET", SELF.encode(), headers, b"") as answer:
                body = b"".join([part async for part in answer.parts()])
                if answer.status != 200 or msgspec.json.decode(body).get("boot_id") != asked.boot_id:
                    raise JoinRefused("unreachable", f"{told}: another server answers there; --node-url names its own")
        except TimeoutError:
            raise JoinRefused("unreachable", f"{told}: it did not answer within {_CALLBACK_S:g} s") from None
        except (NotSent, Broken, msgspec.DecodeError, AttributeError, UnicodeError) as error:
            raise JoinRefused("unreachable", f"{told}: {error}; --node-url names where it is reached") from None
        finally:
            upstream.abort()
