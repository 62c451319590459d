"""Who may use a sandbox on E2B's data plane, and what the wire keeps of it.

Whoever creates a sandbox, or connects to it with the same API key, is told its token: 256 random bits that live as long
as it does. SDKs send it as `X-Access-Token`, or as `E2B-Traffic-Access-Token` where they send only that, and sign
addresses of single files with it. It is good for this sandbox on the paths of the data plane alone; its runs are on
the account of the key that made the sandbox, and end with that key. The id of a sandbox is no secret.
"""

from __future__ import annotations

import asyncio
import binascii
import dataclasses
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.routing import Match, Route

from groundbox.server.keys import Key
from groundbox.server.refusals import Refused
from groundbox.server.sandboxes import Held
from groundbox.server.service import Service
from groundbox.server.turns import Rate

if TYPE_CHECKING:
    from groundbox.server.wires.e2b.code import Context
    from groundbox.server.wires.e2b.files import Watcher
    from groundbox.server.wires.e2b.processes import Running

WIRE: Final = "e2b"
HOME: Final = "/home/user"
_PREFIX: Final = "gbs_"
DATA_PLANE: Final = re.compile(
    r"/execute|/contexts(/[^/]+(/restart)?)?|/files|/health|/(filesystem\.Filesystem|process\.Process)/[A-Za-z]+"
)
_TOKENS: Final = ("x-access-token", "e2b-traffic-access-token")
_SIGNATURE: Final = re.compile(r"v1_([A-Za-z0-9+/]{43})=?")
_SIGNED_NAMES: Final = ("path", "username", "signature_expiration", "signature")
_EXPIRES: Final = re.compile(r"[0-9]{0,11}")
_NAMED_BY_HOST: Final = re.compile(r"\d{1,5}-([0-9A-Za-z]{1,64})\.")
_MOST_PATH_CHARS: Final = 4096
_MOST_USER_CHARS: Final = 64
_MOST_PARAMETERS: Final = 16
_TRIES_A_SECOND: Final = 50_000
"""Sandboxes that wrong signatures are compared with in a second: one per cent of the event loop, about."""


@dataclasses.dataclass(eq=False, kw_only=True)
class State:
    """What the wire keeps of one sandbox.

    Attributes:
        token: The sandbox's secret.
        template: As its maker named it.
        envs: Variables of the environment of all its programs.
        contexts: Of programs, by id, the oldest first.
        processes: Those that were started and live, by pid.
        watchers: Of folders, by id.
        running: Held while a program runs, so that an interrupt meets no other one.
        current: The context whose program runs now, and the task that waits for it.
        notes: Of what happened to the sandbox beside its programs, for the next one's stderr.
        made: When, on the monotonic clock.
        home: Its workdir as paths are told: HOME where guests have that, else its own; "" before anybody asked.
    """

    token: str = dataclasses.field(default_factory=lambda: _PREFIX + secrets.token_urlsafe(32))
    template: str
    envs: Mapping[str, str]
    contexts: dict[str, Context] = dataclasses.field(default_factory=dict)
    processes: dict[int, Running] = dataclasses.field(default_factory=dict)
    watchers: dict[str, Watcher] = dataclasses.field(default_factory=dict)
    running: asyncio.Lock = dataclasses.field(default_factory=asyncio.Lock)
    current: tuple[Context, asyncio.Future[None]] | None = None
    notes: list[str] = dataclasses.field(default_factory=list)
    home: str = ""
    made: float = dataclasses.field(default_factory=time.monotonic)

    async def aclose(self) -> None:
        """Its sandbox is being closed."""
        for running in list(self.processes.values()):
            running.close()
        self.watchers.clear()


def state_of(held: Held) -> State:
    """The wire's own of a sandbox that it has made.

    Raises:
        Refused: Another wire made it.
    """
    state = held.state.get(WIRE)
    if not isinstance(state, State):
        raise gone(held.id)
    return state


def gone(sandbox_id: str) -> Refused:
    """There is no such sandbox for who asks, in the words by which SDKs tell that from a server that is away."""
    return Refused(502, "not_found", f"The sandbox {sandbox_id[:64]!r} was not found")


def admission(service: Service) -> Callable[[dict[str, Any], Mapping[str, str]], Key | None]:
    """The guard's question for requests that bring the token of a sandbox, or an address signed with it."""
    tries = Rate(_TRIES_A_SECOND, _TRIES_A_SECOND)

    def admit(scope: dict[str, Any], headers: Mapping[str, str]) -> Key | None:
        path = scope["path"]
        if scope["type"] != "http" or not DATA_PLANE.fullmatch(path):
            return None
        token = next((headers[name] for name in _TOKENS if headers.get(name, "").startswith(_PREFIX)), "")
        query = scope.get("query_string", b"")
        if token:
            held = _with_token(service, token, headers.get("e2b-sandbox-id", ""))
        elif path == "/files" and b"signature=" in query:
            host = _NAMED_BY_HOST.match(headers.get("host", ""))
            sandbox_id = headers.get("e2b-sandbox-id") or (host[1] if host else "")
            signed = _Signed.of(scope["method"], query)
            held = _find_signer(service, signed, sandbox_id, tries)
            scope["groundbox.e2b.path"] = signed.path
        else:
            return None
        scope["groundbox.e2b"] = held
        return service.keys.of_id(held.key_id)

    return admit


def _with_token(service: Service, token: str, sandbox_id: str) -> Held:
    held = service.sandboxes.find(sandbox_id)
    state = None if held is None else held.state.get(WIRE)
    if held is None or not isinstance(state, State) or not hmac.compare_digest(state.token.encode(), token.encode()):
        raise gone(sandbox_id)
    return held


@dataclasses.dataclass(frozen=True, slots=True)
class _Signed:
    """A signed address, taken apart.

    SDKs sign `PATH:OPERATION:USER:TOKEN[:EXPIRES]` and escape nothing. Only the path may contain ':': OPERATION is one
    of two words, USER must have no ':', and neither tokens nor times have one. One signed text is therefore good for
    one path and one operation, if each parameter is sent once.

    Attributes:
        path: The only one that this address is good for.
        begun: The hash of all that stands before the token.
        expires: What stands after it; "" for nothing.
        digest: What the whole hash has to be.
    """

    path: str
    begun: Any
    expires: str
    digest: bytes

    @classmethod
    def of(cls, method: str, query: bytes) -> _Signed:
        """Check all that can be checked without a token, and hash the path once.

        Raises:
            Refused: 401 if no sandbox can have signed this address.
        """
        try:
            given = parse_qs(query.decode("latin-1"), keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
        except ValueError:
            raise Refused(401, "unauthorized", "the signed address has too many parameters") from None
        if any(len(given.get(name, [])) > 1 for name in _SIGNED_NAMES):
            told = "the signed address must have each of its parameters once"
            raise Refused(401, "unauthorized", told)
        operation = {"GET": "read", "POST": "write"}.get(method)
        path, user, expires, signature = (given.get(name, [""])[0] for name in _SIGNED_NAMES)
        found = _SIGNATURE.fullmatch(signature)
        if operation is None or found is None or _EXPIRES.fullmatch(expires) is None:
            raise Refused(401, "unauthorized", "the signature of this address is for another operation, or malformed")
        if len(path) > _MOST_PATH_CHARS or len(user) > _MOST_USER_CHARS:
            raise Refused(414, "bad_path", f"a signed path must have at most {_MOST_PATH_CHARS} characters")
        if ":" in user:
            told = "the user name of a signed address cannot contain ':'; the address would be good for other paths"
            raise Refused(401, "unauthorized", told)
        if expires and int(expires) < time.time():
            raise Refused(401, "unauthorized", "the signature of this address has expired")
        try:
            digest = binascii.a2b_base64(found[1] + "=")
        except binascii.Error:
            raise Refused(401, "unauthorized", "the signature of this address is malformed") from None
        signed = f"{path}:{operation}:{user}:".encode("utf-8", "surrogatepass")
        return cls(path, hashlib.sha256(signed), expires, digest)

    def is_by(self, token: str) -> bool:
        """Return whether this token has signed it. Nothing that a caller chose the length of is hashed here."""
        whole = self.begun.copy()
        whole.update(f"{token}:{self.expires}".encode() if self.expires else token.encode())
        return hmac.compare_digest(whole.digest(), self.digest)


def _find_signer(service: Service, address: _Signed, sandbox_id: str, tries: Rate) -> Held:
    """The sandbox whose token has signed this address.

    SDKs that know this server by one address send no id with it, so that all tokens have to be compared. Failures of
    that are bounded over time; an address that is good costs none of them.

    Raises:
        Refused: 401 if there is none, 429 if too many wrong addresses came.
    """
    if sandbox_id:
        named = service.sandboxes.find(sandbox_id)
        candidates = [] if named is None else [named]
    else:
        count = len(service.sandboxes)
        wait_s = tries.take(min(count, _TRIES_A_SECOND))
        if wait_s:
            told = "too many wrong signatures came; ask again later, or name the sandbox by the header E2b-Sandbox-Id"
            raise Refused(429, "busy", told, retry_after_s=wait_s)
        candidates = list(service.sandboxes.of_any_key())
    for held in candidates:
        state = held.state.get(WIRE)
        if isinstance(state, State) and address.is_by(state.token):
            if not sandbox_id:
                tries.give_back(count)
            return held
    raise Refused(401, "unauthorized", "the signature of this address is of no sandbox that lives")


def asked_for(service: Service, request: Request) -> tuple[Key, Held, State]:
    """The sandbox that a request of the data plane is for.

    Raises:
        Refused: There is none, or it is another key's.
    """
    key: Key = request.scope["groundbox.key"]
    held = request.scope.get("groundbox.e2b")
    if held is None:
        key.require("run")
        sandbox_id = request.headers.get("e2b-sandbox-id", "")
        held = service.sandboxes.find(sandbox_id)
        if held is None or held.key_id != key.id:
            raise gone(sandbox_id)
    if held.closed:
        raise gone(held.id)
    return key, held, state_of(held)


def path_of(request: Request) -> str:
    """Return the path that an address of a file names; of a signed address, the path that was signed."""
    signed: str | None = request.scope.get("groundbox.e2b.path")
    return request.query_params.get("path", "") if signed is None else signed


class DataRoute(Route):
    """A route of the data plane. Its paths are common words, so it takes only requests that name a sandbox of E2B."""

    def matches(self, scope: Any) -> Any:
        """As Starlette has it."""
        admitted = "groundbox.e2b" in scope or any(name == b"e2b-sandbox-id" for name, _ in scope["headers"])
        if scope["type"] == "http" and not admitted:
            return Match.NONE, {}
        return super().matches(scope)
