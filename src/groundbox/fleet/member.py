"""A server as a node of a fleet: joins through a gateway, renews its lease, and ends what it has when it cannot.

Theory of operation. The lease counts from the moment in which a renewal that succeeded was *sent*, on this machine's
own clock, which goes on while the machine sleeps (CLOCK_BOOTTIME of clock_gettime(2)); the gateway's counts from when
it came, which is later. Some time before the lease ends (FENCE) a node that could not renew it calls off all requests
of gateways, ends all sandboxes, and joins anew as another boot, with another tag. So nobody is told that a sandbox is
lost while it lives, and a network that was cut leaves no second one.

Requests of gateways carry the boot that they mean and a key made from it, and name the client's key, which the gateway
has looked at: it is vouched for here, and what its runs use is told with the next renewal. A request for another boot,
or after the lease, is answered with 421 (RFC 9110, 15.5.20), which no program's result can be taken for.

A process that is stopped (SIGSTOP) cannot end its sandboxes in time. They reach nothing but their own files and, where
it was allowed, hosts through this process; what they did is seen by nobody, and they end when it goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import logging
import os
import re
import secrets
import signal
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from groundbox.errors import GroundboxError, ServerUnreachable
from groundbox.execution import Warning
from groundbox.fleet.joining import (
    ANSWER_HEADER,
    BOOT_HEADER,
    KEY_HEADER,
    MISDIRECTED,
    ON_LOST,
    RESTORE_HEADER,
    SELF,
    BadSignature,
    JoinAsked,
    Leased,
    LeaveAsked,
    Load,
    RenewAsked,
    check_answer,
    check_url,
    gateway_key,
    loaded_key,
    proof,
    signed,
)
from groundbox.fleet.snapshots import MOST_BYTES, Snapshots, SnapshotsUnavailable
from groundbox.remote.transport import Transport, address_of
from groundbox.sandbox.environments import store
from groundbox.sandbox.threads import run_for_host
from groundbox.server.keys import Key
from groundbox.server.refusals import Refused
from groundbox.server.replies import json_reply
from groundbox.server.sandboxes import Held
from groundbox.server.service import Service
from groundbox.version import own_version

logger = logging.getLogger(__name__)

FENCE: Final = 5 / 6
"""Share of the lease after which a node that could not renew it ends its sandboxes; the rest is for their end."""
_IN_SANDBOX: Final = re.compile(r"/v1/sandboxes/([0-9a-f]{16,64})(?:/|$)")
_STATE: Final = "fleet"
_RETRY_S: Final = 1.0
_ASK_S: Final = 2.0
_GATEWAY: Final = Key(id="gateway", owner="a gateway of this fleet", scopes=frozenset())


class Membership:
    """One server's membership of a fleet."""

    def __init__(
        self,
        service: Service,
        *,
        gateway: str,
        secret: bytes,
        name: str,
        url: str,
        snapshots: Snapshots | None = None,
    ) -> None:
        """Args:
        gateway: URL of a gateway, or of what stands before several.
        url: Under which gateways reach this server.
        snapshots: Where files of sandboxes that are to be restored are kept; None for none of them.

        Raises:
            InvalidArgument: One of the URLs is none.
        """
        check_url(url.rstrip("/"))
        self.name, self.url = name, url.rstrip("/")
        self._service, self._secret, self._snapshots = service, secret, snapshots
        self._transport = Transport(address_of(gateway), None)
        self._boot_id = self._key = ""
        self._number = 0
        self._lease: Leased | None = None
        self._ends = float("-inf")
        self._going_on: set[asyncio.Task[Any]] = set()
        self._called_off: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()
        self._keeping: asyncio.Task[None] | None = None
        self.problem = "has not joined yet"

    def parts(self) -> dict[str, Any]:
        """What it adds to a server, as arguments of `groundbox.server.application.application`."""
        return {
            "more": [Route(SELF, self._self)],
            "admissions": [self._admission(self._service)],
            "around": self._watched,
        }

    def _admission(self, service: Service) -> Callable[[dict[str, Any], Mapping[str, str]], Key | None]:
        """The guard's question for requests that come through a gateway."""

        def admit(scope: dict[str, Any], headers: Mapping[str, str]) -> Key | None:
            if BOOT_HEADER not in headers:
                return None
            if headers[BOOT_HEADER] != self._boot_id or not self._boot_id:
                raise Refused(MISDIRECTED, "other_boot", "this node has been started anew since")
            given = headers.get("authorization", "").removeprefix("Bearer ")
            told = headers.get(KEY_HEADER, "")
            if not hmac.compare_digest(given.encode(), proof(self._key, told).encode()):
                raise Refused(401, "unauthorized", "the key is not that of a gateway of this fleet")
            if scope["path"] == SELF:
                return _GATEWAY
            self.check_lease()
            try:
                key = loaded_key(told)
            except ValueError as error:
                raise Refused(400, "bad_request", f"{KEY_HEADER}: {error}") from None
            service.keys.vouch(key)
            scope["groundbox.fleet"] = True
            return key

        return admit

    def check_lease(self) -> None:
        """Raises Refused, 421, where this node's lease has ended, or ends in a moment."""
        if _now() >= self._ends:
            raise Refused(MISDIRECTED, "fenced", "this node has no lease, and carries out nothing for its fleet")

    def _watched(self, app: Any) -> Any:
        """The application, whose requests that come through a gateway are called off when the lease ends."""

        async def watch(scope: Any, receive: Any, send: Any) -> None:
            task = asyncio.current_task()
            if not scope.get("groundbox.fleet") or task is None:
                await app(scope, receive, send)
                return
            begun = False

            async def noting(message: Any) -> None:
                nonlocal begun
                begun = True
                await send(message)

            self._going_on.add(task)
            try:
                await self._kept(app, scope, receive, noting)
            except asyncio.CancelledError:
                if task not in self._called_off:
                    raise
                task.uncancel()
                if begun:  # the server cuts the connection of half an answer, so that nobody takes it for a whole one
                    return
                told = "the node has lost its lease and called this off; whether it was carried out is not known"
                refused = Refused(503, "run_lost", told)
                await json_reply(refused.to_dict(), refused.status, {"Connection": "close"})(scope, receive, send)
            finally:
                self._going_on.discard(task)

        return watch

    async def _kept(self, app: Any, scope: Any, receive: Any, send: Any) -> None:
        """Carry out a request; the end of its answer waits until the files of a sandbox to be restored are kept."""
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        found = _IN_SANDBOX.match(scope["path"])
        makes = scope["type"] == "http" and scope["method"] == "POST" and scope["path"] == "/v1/sandboxes"
        wished = makes and headers.get(ON_LOST.encode(), "fail")
        restored = headers.get(RESTORE_HEADER.encode(), "") if makes else ""
        if wished and wished not in ("fail", "restore"):
            raise _wrong_on_lost(f"must be fail or restore, not {wished[:40]!r}")
        if (wished == "restore" or restored) and self._snapshots is None:
            raise _wrong_on_lost("cannot be restore: nodes of this fleet keep no snapshots (--snapshots)")
        sandbox_id, _, generation = restored.partition(" ")
        body, files = b"", None

        async def kept(message: Any) -> None:
            nonlocal body
            if message["type"] != "http.response.body" or message.get("more_body"):
                body += message.get("body", b"") if makes else b""
                await send(message)
                return
            if makes and (wished == "restore" or restored):
                told = json.loads(body + message.get("body", b""))
                held = self._service.sandboxes.find(told.get("sandbox_id", ""))
                if held is not None:
                    await self._begin_keeping(held, int(generation or 1), files)
            elif found and scope["method"] != "GET":
                held = self._service.sandboxes.find(found[1])
                if held is not None and isinstance(keeping := held.state.get(_STATE), _Keeping):
                    await keeping.keep(held)
            await send(message)

        if restored:
            assert self._snapshots is not None  # looked at above
            files = await asyncio.to_thread(self._snapshots.latest, sandbox_id, int(generation))
            if files is None:  # it was closed before its node was lost
                why = "it was closed, or its files were never kept"
                raise Refused(410, "sandbox_lost", f"the sandbox is gone: {why}", details={"why": why})
            self._service.sandboxes.given_id.set(sandbox_id)
        await app(scope, receive, kept)

    async def _begin_keeping(self, held: Held, generation: int, files: Mapping[str, bytes] | None) -> None:
        """Keep a sandbox's files from now on, after it got those that it had on another node."""
        assert self._snapshots is not None  # looked at before
        held.state[_STATE] = keeping = _Keeping(self._snapshots, generation)
        if files is not None:
            with held.in_use() as box:
                for path, data in files.items():
                    await box.files.write(path, data)
            told = "its node was lost: files are those of its last answer; variables and processes are gone"
            held.notes.append(Warning(code="session.restored", tier="note", message=told))
        await keeping.keep(held)

    def start(self) -> None:
        """Join, and renew from then on; in the running event loop, when requests are answered already."""
        self._keeping = asyncio.create_task(self._keep())

    async def leave(self) -> None:
        """Say that this node ends, as well as that can be said."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        if self._lease is not None:
            with contextlib.suppress(GroundboxError, TimeoutError):
                await self._ask("leave", LeaveAsked(boot_id=self._boot_id))
        self._ends = float("-inf")
        self._lose_all()
        await self._transport.close()

    def load(self) -> Load:
        """How much is to do here now."""
        service = self._service
        of_keys: dict[str, int] = {}
        for held in service.sandboxes.of_any_key():
            of_keys[held.key_id] = of_keys.get(held.key_id, 0) + 1
        return Load(
            problem=service.problem[:2000],
            cpus=len(os.sched_getaffinity(0)),
            runs=service.turns.running,
            waiting=service.turns.waiting,
            at_once=service.settings.runs_at_once,
            sandboxes=len(service.sandboxes),
            most_sandboxes=service.settings.sandboxes,
            of_keys=of_keys,
            environments=sorted(store.names())[:1000],
            protocols=list(service.settings.protocols),
        )

    async def _keep(self) -> None:
        while True:
            try:
                if self._lease is None:
                    await self._join()
                else:
                    await self._renew(self._lease)
            except Exception as error:  # whatever it is, the lease has to be watched
                self._note(error)
            await self._pause()
            if self._lease is not None and _now() >= self._ends:
                await self._fence()

    async def _pause(self) -> None:
        """Wait until there is something to do again."""
        if self._lease is None:
            await asyncio.sleep(_RETRY_S)
            return
        wait_s = self._lease.renew_s if not self.problem else min(_RETRY_S, self._lease.renew_s)
        await asyncio.sleep(max(0.0, min(wait_s, self._ends - _now())))

    async def _join(self) -> None:
        self._boot_id = secrets.token_hex(16)
        self._key, self._number = gateway_key(self._secret, self._boot_id), 0
        environment = await run_for_host(environment_digest, self._service.settings.environment)
        asked = JoinAsked(
            boot_id=self._boot_id,
            name=self.name,
            url=self.url,
            version=own_version(),
            environment=environment,
            load=self.load(),
        )
        sent = _now()
        self._take(await self._ask("join", asked), sent)
        logger.info("joined the fleet as %s, generation %d", self.name, self._lease.generation if self._lease else 0)

    async def _renew(self, lease: Leased) -> None:
        self._number += 1
        used = self._service.keys.take_vouched()
        asked = RenewAsked(boot_id=self._boot_id, number=self._number, load=self.load(), used=used)
        sent = _now()
        try:
            taken = await self._ask("renew", asked, most_s=self._ends - sent)
            if _now() >= self._ends:  # this process was stopped meanwhile, and what came since was refused
                raise ServerUnreachable("the answer came after the lease had ended")
        except BaseException:
            self._service.keys.give_back_vouched(used)
            raise
        self._take(taken, sent)

    def _take(self, lease: Leased, sent: float) -> None:
        if self.problem and self._lease is not None:
            logger.warning("the lease is renewed again")
        self._lease, self.problem = lease, ""
        self._ends = sent + lease.lease_s * FENCE
        self._service.sandboxes.tag = lease.tag
        self._service.keys.revoke_vouched(lease.revoked)
        if lease.drained_s is not None:
            ends = time.monotonic() + lease.drained_s
            for held in self._service.sandboxes.of_any_key():
                held.ends = min(held.ends, ends)
        is_idle = not len(self._service.sandboxes) and not self._going_on and not self._service.turns.running
        if lease.state == "leaving" and is_idle:
            logger.warning("told to leave the fleet, with nothing left to do: ending")
            signal.raise_signal(signal.SIGTERM)

    async def _fence(self) -> None:
        """End all that was begun for the fleet, since its gateways will soon say that it is lost."""
        logger.error("the lease could not be renewed: all sandboxes are ended (%s)", self.problem or "too late")
        self._lease, self._boot_id, self._key, self._service.sandboxes.tag = None, "", "", ""
        self._ends = float("-inf")
        self._lose_all()
        for task in list(self._going_on):
            self._called_off.add(task)
            task.cancel()
        await self._service.sandboxes.close_all()

    def _lose_all(self) -> None:
        """Let what is kept of sandboxes stay when they are closed."""
        for held in self._service.sandboxes.of_any_key():
            if isinstance(keeping := held.state.get(_STATE), _Keeping):
                keeping.is_lost = True

    def _note(self, error: Exception) -> None:
        told = str(error) or type(error).__name__
        if told != self.problem:
            logger.warning("%s: %s", "the lease is not renewed" if self._lease else "cannot join the fleet", told)
        self.problem = told
        if isinstance(error, _Refusal) and self._lease is not None and error.is_final:
            self._ends = float("-inf")  # the gateway says that this boot is over

    async def _ask(self, act: str, asked: msgspec.Struct, *, most_s: float = _ASK_S) -> Leased:
        path, body = f"/v1/fleet/{act}", msgspec.json.encode(asked)
        signature = signed(self._secret, "POST", path, body)
        most_s = min(most_s, _ASK_S)
        try:
            async with asyncio.timeout(most_s):
                reply = await self._transport.request("POST", path, body=body, headers={"Authorization": signature})
        except TimeoutError:
            raise ServerUnreachable(f"the gateway did not answer within {most_s:.1f} s") from None
        if reply.status == 404:
            raise ServerUnreachable("what answers there is no gateway; --join takes the URL of `groundbox gateway`")
        if reply.status == 401 and ANSWER_HEADER not in reply.headers:
            told = f"{_message(reply.body)}. The gateway has another secret, or another version of groundbox"
            raise BadSignature("bad_signature", told)  # it can sign nothing
        check_answer(self._secret, signature, reply.headers.get(ANSWER_HEADER, ""), reply.body)
        if reply.status != 200:
            raise _Refusal(reply.status, reply.body)
        return msgspec.json.decode(reply.body, type=Leased)

    async def _self(self, request: Request) -> Response:
        """`GET /v1/fleet/self`: that this node is reached under its URL, and how long its lease goes on."""
        left_s = max(0.0, self._ends - _now())
        return json_reply({"boot_id": self._boot_id, "name": self.name, "left_s": left_s})


class _Keeping:
    """What is kept of one sandbox. Closing the sandbox drops it; the loss of its node does not."""

    def __init__(self, snapshots: Snapshots, generation: int) -> None:
        self._snapshots, self._generation, self._number = snapshots, generation, 0
        self._before: dict[str, bytes] | None = None
        self._sandbox_id = ""
        self.is_lost = False
        self._turn = asyncio.Lock()

    async def keep(self, held: Held) -> None:
        """Keep the files as they are now, where they are not what was kept last."""
        self._sandbox_id = held.id
        async with self._turn:
            files = {}
            try:
                with held.in_use() as box:
                    sizes = await box.files.list()
                    if sum(sizes.values()) > MOST_BYTES:
                        raise SnapshotsUnavailable(f"over {MOST_BYTES} bytes are not kept")
                    for path in sizes:
                        files[path] = await box.files.read(path)
                digests = {path: hashlib.sha256(data).digest() for path, data in files.items()}
                if digests == self._before:
                    return
                self._number += 1
                await asyncio.to_thread(self._snapshots.put, held.id, self._generation, self._number, files)
                self._before = digests
            except GroundboxError as error:
                note = Warning(code="session.not_kept", tier="warn", message=f"files are not kept: {error}")
                held.notes[:] = [*(each for each in held.notes if each.code != note.code), note]

    async def aclose(self) -> None:
        """Drop what is kept: its sandbox is being closed, and is not lost."""
        if not self.is_lost:
            await asyncio.to_thread(self._snapshots.drop, self._sandbox_id, self._generation)


class _Refusal(GroundboxError):
    """A gateway refused; `is_final` where it says that this boot is over."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(_message(body))
        self.is_final = status == 410


def _wrong_on_lost(problem: str) -> Refused:
    details = {"argument": "on_lost", "problem": problem}
    return Refused(400, "invalid_argument", f"on_lost: {problem}", details=details)


def environment_digest(name: str) -> str:
    """Twelve hexadecimal digits of the interpreter's version and of all packages that guests import.

    Raises:
        EnvironmentFailed: There is no such environment.
    """
    environment = store.get(name)
    told = json.dumps([name, list(environment.python_version), sorted(environment.packages.items())])
    return hashlib.sha256(told.encode()).hexdigest()[:12]


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"the gateway answered what is no refusal of groundbox: {body[:80]!r}"


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
