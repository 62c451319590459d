"""The gateway: one server to its clients, many nodes behind it. It holds no session, and any number may stand together.

Theory of operation. The guard of `groundbox serve` lets a request in or not, by the same keys. Then a request is for
what lives on a node, which the id in it tells by its first digits (a tag, `catalogue.py`), or for something new, which
is placed (`roster.py`), or for all nodes, whose answers are put together. It is passed on as it is, with the client's
key in place of its secret. A node that is gone is told from one that is slow by its lease alone.

What was sent to a node that went away may have been carried out. So it is sent to another one only if nothing of it
was sent, or the node said that it began nothing (429, 421), or the client says that twice does no harm (RETRY_SAFE).
Ids of nodes that were lost are answered with 410 and `sandbox_lost`, and never by a fresh sandbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import logging
import re
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from groundbox.errors import InvalidArgument
from groundbox.fleet import routing
from groundbox.fleet.catalogue import TAG_DIGITS, Kept
from groundbox.fleet.claims import Claims, name_of
from groundbox.fleet.joining import (
    BOOT_HEADER,
    KEY_HEADER,
    MISDIRECTED,
    ON_LOST,
    RESTORE_HEADER,
    dumped_key,
    proof,
)
from groundbox.fleet.operating import Operators
from groundbox.fleet.passing_websockets import pass_on as pass_on_websocket
from groundbox.fleet.reception import Reception, Timing
from groundbox.fleet.roster import Peer, Roster, describe
from groundbox.fleet.routing import Place
from groundbox.fleet.sums import summed
from groundbox.fleet.together import LIST_S, Together
from groundbox.fleet.upstream import CONNECT_S, Broken, NotSent
from groundbox.sandbox.telemetry import passed_on
from groundbox.server.guard import Guard
from groundbox.server.key_routes import KeyRoutes
from groundbox.server.keys import Key, Keys, KeyStore
from groundbox.server.metrics import MEDIA_TYPE, Metrics
from groundbox.server.protocol import Rewrite, load
from groundbox.server.refusals import Refused, not_found, refusal_of
from groundbox.server.replies import ClientGone, json_reply
from groundbox.server.settings import Settings
from groundbox.server.wires import sandboxfusion
from groundbox.server.wires.e2b.access import DATA_PLANE

logger = logging.getLogger(__name__)

RETRY_SAFE: Final = b"groundbox-retry-safe"
"""A header: carrying this request out twice does no harm, so that it may be sent again when a node went away."""
_ONE: Final = re.compile(r"/v1/sandboxes/([0-9a-f]+)")
_NOT_PASSED: Final = frozenset(
    f"""
    host connection keep-alive transfer-encoding te trailer upgrade expect content-length
    proxy-authorization proxy-connection authorization cookie x-xsrftoken
    origin sec-fetch-site sec-fetch-mode sec-fetch-dest
    {BOOT_HEADER} {KEY_HEADER} {RESTORE_HEADER} {RETRY_SAFE.decode()}
    """.encode().split()
)
"""Headers of the client's connection, of its key, and those that the guard here has looked at."""
_OF_KEYS: Final = (b"-api-key", b"-auth-token")
"""Ends of the names of headers that contain a client's key in some protocol, also in one that is switched off."""
_MOVED_S: Final = 5.0
"""Seconds that a gateway believes where a sandbox lives that was restored by another one, perhaps."""
_MOST_MOVED: Final = 100_000
_MOST_TRIES: Final = 2
"""Nodes that a program is sent to which may be run twice: one that ends nodes is not to end all of them."""
_FULL_S: Final = 1.0
"""Seconds that a node which said 429 is asked last."""
_OTHERS_S: Final = 0.5
"""Seconds in which a connection is made where another node could be taken."""
_WHOLE_BYTES: Final = 64 * 1024
"""Bodies up to here are read before they are sent, in one piece."""


class Gateway:
    """One gateway; an ASGI application is made of it by `application`.

    Attributes:
        is_ending: Whether it was told to end, so that what is called off is answered.
    """

    def __init__(self, roster: Roster, keys: Keys, settings: Settings) -> None:
        """Raises:
        InvalidArgument: One of the settings' protocols cannot be used at a gateway.
        """
        self.settings, self.keys, self.metrics, self.roster = settings, keys, Metrics(), roster
        self.protocols = load(settings.protocols)
        self._rules = {name: each.at_gateway for name, each in self.protocols.items() if each.at_gateway is not None}
        for name in self.protocols.keys() - self._rules.keys():
            raise InvalidArgument("protocols", f"{name!r} cannot be used at a gateway; its clients ask a node")
        self._key_headers = frozenset(
            header.encode() for each in self.protocols.values() for header in each.key_headers
        )
        self._claims = Claims(roster)
        self._moved: dict[str, tuple[str, float]] = {}
        self._restoring: dict[str, asyncio.Lock] = {}
        self._together = Together(roster, self._whole)
        self.is_ending = False

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Do what goes on beside requests."""
        await self.keys.refresh()
        await self.roster.refresh()
        keeping = (self.keys.keep_reading(), self.roster.keep_refreshing(), self.roster.keep_looking())
        tasks = [asyncio.create_task(each) for each in keeping]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for each in self.roster:
                each.upstream.abort()
            await self.keys.refresh()
            await self.roster.part()

    def standing(self) -> str:
        """What goes on now, in one line for people."""
        alive = self.roster.alive
        return (
            self.roster.problem
            or f"{len(alive)} nodes, {sum(each.node.load.get('sandboxes', 0) for each in alive)} sandboxes"
        )

    # Requests of clients

    async def forward(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on to the node that it is for, or to one that has room."""
        try:
            with contextlib.suppress(ClientGone):
                await self._forwarded(scope, receive, send)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self.is_ending or task is None:
                raise
            task.uncancel()  # the server calls off what goes on after the time that it gives at its end
            told = "this gateway ends, and called this off; whether it was carried out is not known"
            raise Refused(503, "run_lost", told) from None

    async def _forwarded(self, scope: Any, receive: Any, send: Any) -> None:
        key: Key = scope["groundbox.key"]
        told = routing.named(scope, self._rules)
        body = b""
        if scope["type"] == "http" and scope["path"] == routing.MCP:
            body = await _Body(scope, receive).whole()
            receive = _beginning_with(body, receive)
            told = told or routing.sandbox_of(body)
        peer = None if told is None else await self._of(told, scope, key)
        if scope["type"] == "websocket":
            await self._websocket(scope, receive, send, key, peer)
        elif peer is not None:
            await self._pass_on(scope, receive, send, key, peer)
        elif (place := routing.placing(scope, body, self._rules)) is not None:
            await self._place(scope, receive, send, key, place)
        elif scope["method"] in ("GET", "DELETE") and scope["path"] in routing.LISTS:
            await (await self._together.lists(scope, key))(scope, receive, send)
        else:
            for name, rules in self._rules.items():
                if (merge := rules.merged.get((scope["method"], scope["path"]))) is not None:
                    answer = await merge(scope, self._together.nodes(key, name))
                    await answer(scope, receive, send)
                    return
            raise not_found("address at a gateway; docs/fleet.md lists those that are passed on")

    async def _of(self, told: str, scope: Any, key: Key) -> Peer | None:
        """The node of an id; for MCP None where it is lost or never was, since any node says so in MCP's words.

        Raises:
            Refused: 410 where that node is lost, 404 where there never was one.
        """
        peer = self.roster.get(told[:TAG_DIGITS])
        if peer is not None and not peer.is_lost:
            return peer
        restored = await self._restored(told, key) if scope["path"].startswith("/v1/sandboxes/") else None
        if restored is not None or scope["path"] == routing.MCP:
            return restored
        if peer is None:
            raise not_found("sandbox or execution")
        raise _lost(peer)

    async def _restored(self, sandbox_id: str, key: Key) -> Peer | None:
        """The node that a sandbox lives on since its first one was lost, where it was to be restored; else None.

        Raises:
            Refused: No node can take it now, or its files were not kept.
        """
        tag, until = self._moved.get(sandbox_id, ("", 0.0))
        peer = self.roster.get(tag)
        if peer is not None and not peer.is_lost and time.monotonic() < until:
            return peer
        async with self._restoring.setdefault(sandbox_id, asyncio.Lock()):
            try:
                kept = await self.roster.in_catalogue(functools.partial(self.roster.catalogue.kept, sandbox_id))
                if kept is None or kept.key_id != key.id:
                    return None
                peer = self.roster.get(kept.tag)
                if peer is None or peer.is_lost:
                    peer = await self._move(kept, key)
            finally:
                self._restoring.pop(sandbox_id, None)
        self._moved[sandbox_id] = peer.node.tag, time.monotonic() + _MOVED_S
        while len(self._moved) > _MOST_MOVED:
            del self._moved[next(iter(self._moved))]
        return peer

    async def _move(self, kept: Kept, key: Key) -> Peer:
        """Let another node go on with a sandbox."""
        body = kept.body.encode()
        peer = self.roster.placed(routing.environment_of(body), ())
        if peer is None:
            raise Refused(503, "no_node", "no node can go on with this sandbox now", retry_after_s=1.0)
        move = functools.partial(self.roster.catalogue.move, kept.sandbox_id, kept.generation, peer.node.tag)
        if not await self.roster.in_catalogue(move):
            raise Refused(503, "node_unreachable", "another gateway is restoring this sandbox", retry_after_s=1.0)
        wished = f"{kept.sandbox_id} {kept.generation + 1}".encode()
        headers = [(b"content-type", b"application/json"), (RESTORE_HEADER.encode(), wished)]
        scope = {"method": "POST", "path": "/v1/sandboxes", "query_string": b"", "headers": headers}
        is_there = False
        try:
            async with self._asked(scope, key, peer, body, own=True) as answer:
                status, told = answer.status, b"".join([part async for part in answer.parts()])
            is_there = status in (201, 409)  # 409: an attempt of before, whose answer did not come through
        except (NotSent, Broken) as error:
            raise _unreachable(peer, str(error), began=False) from None
        finally:
            if not is_there:  # the next request tries it again
                catalogue = self.roster.catalogue
                give_back = functools.partial(catalogue.move, kept.sandbox_id, kept.generation + 1, kept.tag)
                await self.roster.in_catalogue(give_back)
        if not is_there:
            with contextlib.suppress(msgspec.DecodeError, KeyError, TypeError):
                said = msgspec.json.decode(told)["error"]
                raise Refused(status, said["code"], said["message"], details=said.get("details"))
            raise Refused(503, "node_unreachable", f"node {peer.node.name} could not go on with it", retry_after_s=1.0)
        logger.warning("sandbox %s goes on at %s, with its files", kept.sandbox_id, peer.node.name)
        return peer

    async def _pass_on(self, scope: Any, receive: Any, send: Any, key: Key, peer: Peer) -> None:
        """Pass a request on to one node, and its answer back."""
        self.keys.usage(key.id).check_cpu(key.quotas)
        if scope["method"] == "POST" and scope["path"].endswith("/run"):
            self.keys.usage(key.id).begin_run(key.quotas)
        body = _Body(scope, receive)
        key = self._as_sent(key, peer, makes=False)
        await _attended(self._passed_on(scope, send, key, peer, body), body)

    async def _websocket(self, scope: Any, receive: Any, send: Any, key: Key, peer: Peer | None) -> None:
        """Pass on a WebSocket to the node that it names, or one that begins something to a node that takes it."""
        if peer is not None:
            headers = self._headers(scope, key, peer)
            await pass_on_websocket(peer, headers, _target(scope), scope, receive, send)
            return
        if scope["path"] != routing.OPENENV:
            raise not_found("address for WebSockets; behind a gateway it names a sandbox")
        tried: dict[str, str] = {}
        while (peer := self.roster.placed(None, tried)) is not None:
            peer.going += 1
            try:
                headers = self._headers(scope, self._as_sent(key, peer, makes=True), peer)
                await pass_on_websocket(peer, headers, _target(scope), scope, receive, send)
                return
            except Refused as refused:  # and nothing was begun
                if refused.status not in (MISDIRECTED, 429, 503) or refused.code.startswith("quota."):
                    raise
                tried[peer.node.tag] = refused.message
            finally:
                peer.going -= 1
        raise self._no_node(tried)

    async def _passed_on(self, scope: Any, send: Any, key: Key, peer: Peer, body: _Body) -> None:
        connect_s = _OTHERS_S if peer.upstream.is_silent else CONNECT_S
        try:
            async with self._asked(scope, key, peer, body, connect_s=connect_s) as answer:
                if answer.status == MISDIRECTED:
                    self.roster.lose(peer)
                    raise _lost(peer)
                if answer.status == 204 and scope["method"] == "DELETE" and (found := _ONE.fullmatch(scope["path"])):
                    await self.roster.forget(found[1])
                if answer.status == 200 and (rewrite := self._rewrite_of(scope["path"])) is not None:
                    told = b"".join([part async for part in answer.parts()])
                    told = rewrite(told, _headers_of(scope))
                    await _send(send, 200, [each for each in answer.headers if each[0] != b"content-length"], told)
                else:
                    await _answer(answer, body, send)
        except NotSent as error:
            if peer.is_lost:
                raise _lost(peer) from None
            raise _unreachable(peer, str(error), began=False) from None
        except Broken as error:
            if (
                body.is_begun
            ):  # the server cuts the connection of half an answer, so that nobody takes it for a whole one
                return
            if peer.is_lost:
                raise _lost(peer) from None
            raise _unreachable(peer, str(error), began=True) from None

    def _rewrite_of(self, path: str) -> Rewrite | None:
        for rules in self._rules.values():
            if (rewrite := rules.rewrite_of(path)) is not None:
                return rewrite
        return None

    async def _place(self, scope: Any, receive: Any, send: Any, key: Key, place: Place) -> None:
        """Send something new to a node that has room; to another one where it is certain that nothing began."""
        if place.placing.is_run:
            self.keys.usage(key.id).begin_run(key.quotas)
        body = _Body(scope, receive)
        whole = await body.whole()
        if scope["path"] == routing.SESSIONS and (path := routing.session_path_of(whole)):
            there = await self._together.session_of(scope, key, path)
            if there is not None:
                key = self._as_sent(key, there, makes=False)
                await _attended(self._passed_on(scope, send, key, there, body.again(whole)), body)
                return
        await _attended(self._placed(scope, send, key, body, whole, place), body)

    async def _placed(self, scope: Any, send: Any, key: Key, body: _Body, whole: bytes, place: Place) -> None:
        placing, protocol = place
        makes, stays = placing.makes, int(placing.stays)
        headers = dict(scope["headers"])
        environment = routing.environment_of(whole) if makes else None
        may_repeat = headers.get(RETRY_SAFE) == b"1" or placing.is_harmless
        name = name_of(key, headers.get(b"idempotency-key")) if makes else None
        tried: dict[str, str] = {}
        broken = 0
        refusal: tuple[int, list[tuple[bytes, bytes]], bytes] | None = None
        while True:
            peer, is_bound = await self._target(name, environment, tried, protocol, may_repeat=may_repeat)
            if peer is None:
                break
            tag = peer.node.tag
            try:
                sent_key = self._as_sent(key, peer, makes=True) if makes else key
            except Refused:
                if name is not None and not is_bound:  # nothing was sent
                    await self._claims.give_up(name)
                raise
            is_made = False
            peer.going += 1
            peer.begin_making(key.id, stays)
            try:
                may_go = (may_repeat or not is_bound) and self.roster.has_other(peer, environment, tried, protocol)
                connect_s = _OTHERS_S if may_go else CONNECT_S
                asked = self._asked(scope, sent_key, peer, whole, connect_s=connect_s, may_move=may_repeat)
                async with asked as answer:
                    if answer.status == MISDIRECTED:
                        self.roster.lose(peer)
                        tried[tag] = "its lease has ended"
                    elif answer.status == 429 or (answer.status == 503 and may_repeat):
                        tried[tag] = "it is full" if answer.status == 429 else "it refuses"
                        if answer.status == 429:
                            peer.full_until = time.monotonic() + _FULL_S
                        refusal = answer.status, answer.headers, b"".join([part async for part in answer.parts()])
                    else:
                        is_made = answer.status < 300
                        wishes = scope["path"] == "/v1/sandboxes" and headers.get(ON_LOST.encode()) == b"restore"
                        if answer.status == 201 and wishes:
                            await self._keep(answer, key, peer, whole, send)
                        else:
                            await _answer(answer, body, send)
                        return
            except NotSent as error:
                if is_bound and not may_repeat:
                    raise _unreachable(peer, str(error), began=False) from None
                tried[tag] = str(error)
            except Broken as error:
                broken += 1
                if body.is_begun:
                    return
                if not may_repeat or broken >= _MOST_TRIES:
                    raise _unreachable(peer, str(error), began=True) from None
                tried[tag] = str(error)
            finally:
                peer.going -= 1
                peer.end_making(key.id, stays, is_made=is_made)
            if is_bound and refusal is not None:  # what became of the first request is not known to any other node
                break
            if is_bound and not may_repeat:  # it is lost, which is said when it is looked for again
                continue
            if name is not None and not await self._claims.give_up(name, even_shared=may_repeat):
                break
        if refusal is not None:
            await _send(send, *refusal)
            return
        raise self._no_node(tried, protocol)

    def _no_node(self, tried: Mapping[str, str], protocol: str | None = None) -> Refused:
        told = "; ".join(f"{self._name(tag)}: {why}" for tag, why in tried.items())
        if not any(each.speaks(protocol) for each in self.roster.alive):
            told = f"none was started with --protocol {protocol}"
        return Refused(503, "no_node", f"no node can take this now{f' ({told})' if told else ''}", retry_after_s=1.0)

    async def _keep(self, answer: Any, key: Key, peer: Peer, asked: bytes, send: Any) -> None:
        """Note a sandbox that is to be restored, before its maker hears of it."""
        told = b"".join([part async for part in answer.parts()])
        sandbox_id = msgspec.json.decode(told)["sandbox_id"]
        keep = functools.partial(
            self.roster.catalogue.keep, sandbox_id, key.id, peer.node.tag, (asked or b"{}").decode()
        )
        await self.roster.in_catalogue(keep)
        await _send(send, answer.status, [*answer.headers, (ON_LOST.encode(), b"restore")], told)

    async def _target(
        self,
        name: str | None,
        environment: str | None,
        tried: Mapping[str, str],
        protocol: str | None,
        *,
        may_repeat: bool,
    ) -> tuple[Peer | None, bool]:
        """The node to send something new to, or None; and whether a request of its name was sent there before.

        Raises:
            Refused: That one is lost, and whether it carried the request out is not known.
        """
        tag = await self._claims.known(name) if name is not None else None
        if tag is None:
            peer = self.roster.placed(environment, tried, protocol)
            if name is None or peer is None:
                return peer, False
            tag = await self._claims.claim(name, peer.node.tag)
            if tag == peer.node.tag:
                return peer, False
        peer = self.roster.get(tag)
        if peer is None:  # it joined a moment ago, through another gateway
            await self.roster.refresh()
            peer = self.roster.get(tag)
        if peer is not None and not peer.is_lost:
            return peer, True
        if not may_repeat:
            told = "the node that this request was sent to is lost; whether it was carried out is not known"
            raise Refused(503, "run_lost", told)
        assert name is not None  # it had a tag
        await self._claims.give_up(name, even_shared=True)
        peer = self.roster.placed(environment, tried, protocol)
        if peer is None:
            return None, False
        other = self.roster.get(await self._claims.claim(name, peer.node.tag))
        if other is None or other is peer or other.is_lost:
            return peer, False
        return other, True  # where another gateway has sent it meanwhile

    async def _whole(self, scope: Any, key: Key, peer: Peer, most_s: float | None) -> tuple[int, bytes] | None:
        try:
            async with asyncio.timeout(most_s), self._asked(scope, key, peer, b"") as answer:
                if answer.status != MISDIRECTED:
                    return answer.status, b"".join([part async for part in answer.parts()])
                self.roster.lose(peer)
        except (NotSent, Broken, TimeoutError):
            pass
        return None

    @contextlib.asynccontextmanager
    async def _asked(
        self, scope: Any, key: Key, peer: Peer, body: _Body | bytes, *, own: bool = False, **options: Any
    ) -> AsyncIterator[Any]:
        """Ask a node.

        Args:
            own: The request is this gateway's, and its headers are not looked at.
            options: Of Upstream.ask.
        """
        with passed_on(_named(scope), peer.node.name) as spans:
            headers = self._headers(scope, key, peer)
            if own:
                headers += scope["headers"]
            if spans:
                told = {name.lower().encode(): value.encode() for name, value in spans.items()}
                headers = [*((name, value) for name, value in headers if name not in told), *told.items()]
            async with self._sent(scope, peer, headers, body, options) as answer:
                yield answer

    @contextlib.asynccontextmanager
    async def _sent(
        self,
        scope: Any,
        peer: Peer,
        headers: list[tuple[bytes, bytes]],
        body: _Body | bytes,
        options: Mapping[str, Any],
    ) -> AsyncIterator[Any]:
        parts: Any = body
        if isinstance(body, _Body):
            if body.is_short:
                parts = await body.whole()
            else:
                parts = body.parts()
                if body.length is not None:
                    headers.append((b"content-length", body.length))
        async with peer.upstream.ask(scope["method"], _target(scope), headers, parts, **options) as answer:
            yield answer

    def _headers(self, scope: Any, key: Key, peer: Peer) -> list[tuple[bytes, bytes]]:
        headers = [
            (name, value)
            for name, value in scope["headers"]
            if name not in _NOT_PASSED and (name != b"x-access-token" or value.startswith(_TOKEN_PREFIX))
            if not name.endswith(_OF_KEYS) and name not in self._key_headers
        ]
        if key is not _BY_TOKEN:
            headers += [
                (b"authorization", b"Bearer " + proof(peer.key, told := dumped_key(key)).encode()),
                (BOOT_HEADER.encode(), peer.node.boot_id.encode()),
                (KEY_HEADER.encode(), told.encode()),
            ]
        return headers

    def _as_sent(self, key: Key, peer: Peer, *, makes: bool) -> Key:
        """A key with the room that its sandboxes elsewhere leave it on this node.

        Raises:
            Refused: 429, where a new sandbox is to be made, and they leave none.
        """
        most = key.quotas.sandboxes
        if most is None:
            return key
        elsewhere = self.roster.sandboxes_of(key.id) - peer.sandboxes_of(key.id)
        if makes and elsewhere >= most:
            told = f"this key's quota sandboxes={most} is used up"
            raise Refused(429, "quota.sandboxes", told, retry_after_s=5.0)
        return dataclasses.replace(key, quotas=dataclasses.replace(key.quotas, sandboxes=max(1, most - elsewhere)))

    def _name(self, tag: str) -> str:
        peer = self.roster.get(tag)
        return tag if peer is None else peer.node.name

    async def ready(self, request: Request) -> Response:
        """`GET /readyz`: something new can be placed, or why not."""
        problem = self.keys.unusable or self.roster.stranded
        if not problem and not any(each.takes(None) for each in self.roster):
            problem = "no node is ready"
        return PlainTextResponse(f"{problem or 'ready'}\n", 503 if problem else 200)

    async def show_metrics(self, request: Request) -> Response:
        """`GET /metrics`: sums of all nodes, and what this gateway sees, in Prometheus' format."""
        request.scope["groundbox.key"].require("metrics")
        peers = self.roster.alive
        scope = {**request.scope, "path": "/metrics", "raw_path": b"/metrics", "query_string": b""}
        key = Key(id="gateway", owner="a gateway", scopes=frozenset(("metrics",)))
        found = await asyncio.gather(*(self._whole(scope, key, each, LIST_S) for each in peers))
        texts = [body.decode() for told in found if told is not None for status, body in [told] if status == 200]
        lines = [*summed(texts), "# HELP groundbox_nodes Nodes by state.", "# TYPE groundbox_nodes gauge"]
        states: dict[str, int] = {}
        for each in self.roster:
            state = describe(each)["state"]
            states[state] = states.get(state, 0) + 1
        lines += [f'groundbox_nodes{{state="{state}"}} {count}' for state, count in sorted(states.items())]
        return Response("\n".join(lines) + "\n", media_type=MEDIA_TYPE)


class _Body:
    """The body of a client's request, and its end: read in parts, whole, or watched for the client's leaving."""

    def __init__(self, scope: Any, receive: Any) -> None:
        self._receive = receive
        headers = dict(scope["headers"])
        self.length: bytes | None = headers.get(b"content-length")
        is_chunked = b"transfer-encoding" in headers
        self.is_short = not is_chunked and int(self.length or b"0") <= _WHOLE_BYTES
        self._read = asyncio.Event()
        if not is_chunked and self.length in (None, b"0"):
            self._read.set()
        self.is_begun = False
        """Whether some of an answer was sent to the client."""

    async def parts(self) -> AsyncIterator[bytes]:
        """The body as it comes. Whoever leaves early wants no more of it.

        Raises:
            ClientGone: Before its end.
        """
        more = not self._read.is_set()
        try:
            while more:
                message = await self._receive()
                if message["type"] != "http.request":
                    raise ClientGone
                more = message.get("more_body", False)
                yield message.get("body", b"")
        finally:
            self._read.set()

    async def whole(self) -> bytes:
        """All of it."""
        return b"".join([part async for part in self.parts()])

    def again(self, whole: bytes) -> _Body:
        """The same body, which was read, to be sent."""

        async def given() -> Any:
            return {"type": "http.request", "body": whole, "more_body": False}

        body = _Body({"headers": [(b"content-length", b"%d" % len(whole))]}, given)
        body.is_short = True
        return body

    async def gone(self) -> None:
        """Wait until the client has gone, which is not asked for while its body is read."""
        await self._read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass


async def _answer(answer: Any, body: _Body, send: Any) -> None:
    """Send a node's answer to the client as it comes; a client that goes away ends it.

    Raises:
        Broken: The node went away; the client has then got half of it.
    """
    await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
    body.is_begun = True
    async for part in answer.parts():
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send(send: Any, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def _attended(work: Any, body: _Body) -> None:
    """Carry it out, and call it off when the client goes away before its end."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(body.gone())
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
    finally:
        gone.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))


def _beginning_with(body: bytes, receive: Any) -> Any:
    """Give a body that was read once more, and then what comes after it."""
    is_given = False

    async def given() -> Any:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return given


def _headers_of(scope: Any) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def _named(scope: Any) -> dict[str, str]:
    """Headers that name a trace, where there are some."""
    wanted = (b"traceparent", b"tracestate", b"b3", b"x-b3-traceid", b"x-b3-spanid", b"x-b3-sampled", b"baggage")
    return {name.decode(): value.decode("latin-1") for name, value in scope["headers"] if name in wanted}


def _target(scope: Any) -> bytes:
    """Path and query of a request as it was sent, without a key in the query."""
    target: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope.get("query_string", b"")
    if b"token=" in query:
        pairs = [pair for pair in parse_qsl(query.decode("latin-1"), keep_blank_values=True) if pair[0] != "token"]
        query = urlencode(pairs).encode()
    return target + b"?" + query if query else target


def _lost(peer: Peer) -> Refused:
    why = f"its node {peer.node.name} was lost, and with it all that lived there"
    return Refused(410, "sandbox_lost", f"the sandbox is gone: {why}; make another one", details={"why": why})


def _unreachable(peer: Peer, why: str, *, began: bool) -> Refused:
    if not began:
        return Refused(503, "node_unreachable", f"node {peer.node.name} is not reached: {why}", retry_after_s=1.0)
    told = f"node {peer.node.name} went away in the middle ({why}); whether this was carried out is not known"
    return Refused(503, "run_lost", f"{told}. With the header Groundbox-Retry-Safe: 1 it is sent again")


_BY_TOKEN: Final = Key(id="sandbox-token", owner="whoever has the token of a sandbox", scopes=frozenset())
_TOKEN_PREFIX: Final = b"gbs_"
_SANDBOX_TOKENS: Final = ("x-access-token", "e2b-traffic-access-token")


def _admit_tokens(scope: dict[str, Any], headers: Mapping[str, str]) -> Key | None:
    """Let in requests that bring the token of one sandbox, which its node looks at."""
    is_named = routing.E2B_ID.decode() in headers and scope["type"] == "http" and DATA_PLANE.fullmatch(scope["path"])
    if is_named and any(headers.get(name, "").startswith(_TOKEN_PREFIX.decode()) for name in _SANDBOX_TOKENS):
        return _BY_TOKEN
    return None


async def _alive(request: Request) -> Response:
    """`GET /livez`: this process answers."""
    return PlainTextResponse("alive\n")


def application(gateway: Gateway, *, secret: bytes, timing: Timing, own_host: str, store: KeyStore | None) -> Any:
    """The ASGI application of one gateway.

    Args:
        secret: That nodes and gateways share.
        own_host: The address that is listened on.
        store: Where keys are made and revoked; None for none but the owner's.
    """

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with gateway.running():
            yield

    async def refused(request: Request, error: Exception) -> Response:
        told = error if isinstance(error, Refused) else refusal_of(error)
        gateway.metrics.refused(told.code)
        return json_reply(told.to_dict(), told.status, told.headers)

    async def wrong_method(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return json_reply(Refused(error.status_code, "bad_request", str(error.detail)).to_dict(), error.status_code)

    reception = Reception(gateway.roster, gateway.keys, secret=secret, timing=timing)
    operators = Operators(gateway.roster, timing)
    own = [
        Route("/livez", _alive),
        Route("/readyz", gateway.ready),
        Route("/v1/ping", sandboxfusion.ping),
        Route("/metrics", gateway.show_metrics),
        *KeyRoutes(gateway.keys, store).routes(),
        Route("/v1/fleet", operators.fleet),
        Route("/v1/fleet/join", reception.join, methods=["POST"]),
        Route("/v1/fleet/renew", reception.renew, methods=["POST"]),
        Route("/v1/fleet/leave", reception.leave, methods=["POST"]),
        Route("/v1/fleet/welcome", operators.welcome, methods=["POST"]),
        Route("/v1/fleet/nodes/{name}/drain", operators.drain, methods=["POST"]),
        Route("/v1/fleet/nodes/{name}/join", operators.undrain, methods=["POST"]),
    ]
    handlers: Any = {Refused: refused, HTTPException: wrong_method, Exception: refused}
    app = Starlette(routes=own, lifespan=lifespan, exception_handlers=handlers)
    app.router.redirect_slashes = False
    mine = ("/livez", "/readyz", "/v1/ping", "/metrics", "/v1/keys", "/v1/fleet")

    async def divided(scope: Any, receive: Any, send: Any) -> None:
        path = scope.get("path", "")
        is_mine = scope["type"] == "lifespan" or any(path == each or path.startswith(f"{each}/") for each in mine)
        await (app if is_mine else gateway.forward)(scope, receive, send)

    public = ("/livez", "/readyz", "/v1/ping", "/v1/fleet/join", "/v1/fleet/renew", "/v1/fleet/leave")
    return Guard(
        divided,
        gateway,
        own_host=own_host,
        over_unix=False,
        public=public,
        admissions=[_admit_tokens],
        key_headers=[header for each in gateway.protocols.values() for header in each.key_headers],
    )
