"""Messages between a node and a gateway: who joins, renews and leaves, and how each knows the other.

Both hold the join secret, which is never sent. A request is signed with it: the header `Authorization` has the time,
the SHA-256 of the body, and an HMAC-SHA256 over method, path, time and that digest. The head alone shows that a node
sent it, before a byte of the body is read. The answer is signed over the request's signature and the answer's body: a
gateway takes no node that has not the secret, and a node obeys no gateway that has not. A message is good for CLOCK_S
and for one use at one gateway; what makes a repetition at another gateway worthless is in its body (`catalogue.py`).
A gateway asks a node with a key that both derive from the secret and the node's boot, so that a key of an earlier boot
opens nothing.

Nothing is encrypted: fleets live in a network of their own, or behind something that speaks TLS.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import time
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec

from groundbox.errors import GroundboxError, InvalidArgument
from groundbox.remote.transport import address_of
from groundbox.server.keys import Key, Quotas

SECRET: Final = "GROUNDBOX_JOIN_SECRET"
"""Variable of the environment that holds it."""
CLOCK_S: Final = 30.0
"""Seconds that clocks of a node and of a gateway may differ."""
SELF: Final = "/v1/fleet/self"
"""Where a node says which boot it is, to gateways alone."""
MISDIRECTED: Final = 421
"""Status by which a boot says that it is over, or the lease under which it was asked."""
KEY_HEADER: Final = "groundbox-fleet-key"
BOOT_HEADER: Final = "groundbox-fleet-boot"
ANSWER_HEADER: Final = "groundbox-answer"
ON_LOST: Final = "groundbox-on-lost"
"""Header of a request that makes a sandbox, and of its answer: `restore` has another node go on with its files."""
RESTORE_HEADER: Final = "groundbox-fleet-restore"
"""Header of a gateway: the id and the generation of a sandbox that a node is to go on with."""
_OLD_SCHEME: Final = "Groundbox-Join "
"""Of versions that signed the body itself, which had to be read first."""
_SIGNED: Final = re.compile(r"Groundbox-Fleet (\d{1,12}\.\d{3}) ([0-9a-f]{64}) ([0-9a-f]{64})")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


Count = Annotated[int, msgspec.Meta(ge=0, le=2**40)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=2**40)]


class BadSignature(GroundboxError):
    """A message is not from whom it says, too old, or from a clock that goes wrong."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Load(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How much is to do on a node, and how much more could be.

    Attributes:
        problem: Why no program can be run there, or "".
        of_keys: Sandboxes by the id of their key.
    """

    problem: Annotated[str, msgspec.Meta(max_length=2000)] = ""
    cpus: Count = 0
    runs: Count = 0
    waiting: Count = 0
    at_once: Count = 0
    sandboxes: Count = 0
    most_sandboxes: Count = 0
    of_keys: Annotated[dict[str, Count], msgspec.Meta(max_length=100_000)] = {}
    environments: Annotated[list[str], msgspec.Meta(max_length=1000)] = []
    protocols: Annotated[list[str], msgspec.Meta(max_length=100)] = []


class JoinAsked(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A node that wants in."""

    boot_id: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}$")]
    name: str
    url: Annotated[str, msgspec.Meta(max_length=300)]
    version: Annotated[str, msgspec.Meta(max_length=64)]
    environment: Annotated[str, msgspec.Meta(max_length=64)]
    load: Load


class RenewAsked(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A node that lives on.

    `used` holds, since the last renewal and by the id of a key, processor seconds, and bytes of requests that came with
    the token of a sandbox in its place.
    """

    boot_id: str
    number: int
    load: Load
    used: Annotated[dict[str, tuple[Seconds, Count]], msgspec.Meta(max_length=100_000)] = {}


class LeaveAsked(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A node that ends."""

    boot_id: str


class Leased(msgspec.Struct, kw_only=True):
    """The answer to JoinAsked and RenewAsked.

    Attributes:
        lease_s: From when the request was sent.
        drained_s: Seconds after which the node ends what it has, where an operator said so.
        revoked: Ids of keys with sandboxes there, which were revoked.
    """

    tag: str
    generation: int
    lease_s: float
    renew_s: float
    state: Literal["ready", "draining", "leaving"]
    drained_s: float | None = None
    revoked: list[str] = []


def check_secret(secret: str | None) -> bytes:
    """The join secret as bytes.

    Raises:
        InvalidArgument: There is none, or it is soon guessed.
    """
    if not secret or len(secret) < 16:
        told = "must be set, here and on the other side, to the same secret of at least 16 characters"
        raise InvalidArgument(SECRET, f"{told}; `openssl rand -hex 32` writes one")
    return secret.encode("utf-8", "surrogateescape")


def check_name(name: str) -> str:
    """The name of a node, if it can be one.

    Raises:
        InvalidArgument: It cannot.
    """
    if not _NAME.fullmatch(name):
        raise InvalidArgument("node_name", f"must be 1 to 63 letters, digits, dots and dashes, not {name!r}")
    return name


def signed(secret: bytes, method: str, path: str, body: bytes, *, now: float | None = None) -> str:
    """Return the header `Authorization` of a message."""
    told, digest = f"{time.time() if now is None else now:.3f}", hashlib.sha256(body).hexdigest()
    return f"Groundbox-Fleet {told} {digest} {_mac(secret, method, path, told, digest)}"


def check_head(secret: bytes, header: str, method: str, path: str) -> str:
    """Check by its head that a message comes from a node with the secret, and from now. Return its body's digest.

    Raises:
        BadSignature: It does not.
    """
    if header.startswith(_OLD_SCHEME):
        told = "this node signs its messages as an older version of groundbox does"
        raise BadSignature("other_version", f"{told}; install the gateway's version on it")
    match = _SIGNED.fullmatch(header)
    if match is None or not hmac.compare_digest(match[3], _mac(secret, method, path, match[1], match[2])):
        raise BadSignature("bad_signature", f"the message is not signed with this fleet's {SECRET}")
    ahead_s = float(match[1]) - time.time()
    if abs(ahead_s) > CLOCK_S:
        word = "ahead of" if ahead_s > 0 else "behind"
        told = f"this node's clock is {abs(ahead_s):.0f} s {word} the gateway's, or the message is an old one"
        raise BadSignature("other_clock", f"{told}; set both by NTP")
    return match[2]


def check_body(digest: str, body: bytes) -> None:
    """Check that a body is the one whose digest was signed.

    Raises:
        BadSignature: It is another one.
    """
    if not hmac.compare_digest(digest, hashlib.sha256(body).hexdigest()):
        raise BadSignature("bad_signature", "the body of the message is not the one that was signed")


def check_url(url: str) -> str:
    """The URL of a node: scheme, host and port alone.

    Raises:
        InvalidArgument: It is another one.
    """
    address = address_of(url)
    plain = re.fullmatch(r"https?://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9_.-]{1,253})(:\d{1,5})?", url)
    labels = address.host.split(".")
    if address.unix or plain is None or any(not each or len(each) > 63 for each in labels):
        raise InvalidArgument("url", f"must be like http://10.0.0.2:8001, with nothing behind the port, not {url!r}")
    return url


def answer_mac(secret: bytes, request: str, body: bytes) -> str:
    """The header ANSWER_HEADER of an answer to the request with this `Authorization`."""
    return _mac(secret, "answer", request, "", hashlib.sha256(body).hexdigest())


def check_answer(secret: bytes, request: str, header: str, body: bytes) -> None:
    """Look whether an answer comes from a gateway that has the secret.

    Raises:
        BadSignature: It does not.
    """
    if not hmac.compare_digest(header, answer_mac(secret, request, body)):
        raise BadSignature("bad_signature", f"the answer is not signed with this node's {SECRET}")


def gateway_key(secret: bytes, boot_id: str) -> str:
    """With which gateways ask one boot of a node."""
    return hmac.digest(secret, b"gateway\0" + boot_id.encode(), hashlib.sha256).hex()


def proof(gateway_key: str, told: str) -> str:
    """What a gateway sends with a request to a node: made from the node's key and from whose request it is.

    The key itself is never sent, so that who reads one request can ask for nobody else.
    """
    return hmac.digest(gateway_key.encode(), told.encode(), hashlib.sha256).hex()


def dumped_key(key: Key) -> str:
    """A client's key as a header that a gateway sends to a node."""
    quotas = {name: value for name in Quotas.__slots__ if (value := getattr(key.quotas, name)) is not None}
    told = {"id": key.id, "owner": key.owner, "scopes": sorted(key.scopes), "quotas": quotas}
    return json.dumps(told, separators=(",", ":"))


def loaded_key(header: str) -> Key:
    """The key of such a header.

    Raises:
        ValueError: It holds none.
    """
    told: Mapping[str, Any] = json.loads(header)
    try:
        return Key(
            id=str(told["id"]),
            owner=str(told["owner"]),
            scopes=frozenset(map(str, told["scopes"])),
            quotas=Quotas(**told["quotas"]),
        )
    except (KeyError, TypeError, GroundboxError) as error:
        raise ValueError(f"no key: {error}") from None


def _mac(secret: bytes, method: str, path: str, told: str, digest: str) -> str:
    text = "\n".join((method, path, told, digest))
    return hmac.digest(secret, text.encode(), hashlib.sha256).hex()
