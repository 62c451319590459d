"""Where a request may go, and the connection to there.

Three decisions in this order: is the host with its port on the list; do all addresses of that name
lie outside; does the connection to one of these very addresses stand (and, for a host that
is sent a credential, does its certificate hold). Default is no.

All addresses of a name must pass. A name that has a public address and a private one is what
rebinding looks like, and a server does not need it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from groundbox.network import Network, canonical_host, split_host_port
from groundbox.sandbox.egress.addresses import Address, is_never_allowed
from groundbox.sandbox.egress.message import MAX_RESPONSE_HEAD_BYTES, Field, Request
from groundbox.sandbox.egress.refusal import ProxyRefusal, Reason

_TRIED_ADDRESSES: Final = 4


class Stream(NamedTuple):
    """Both directions of one connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class Tls(NamedTuple):
    """How the host of a connection proves who it is."""

    context: ssl.SSLContext
    host: str


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Route:
    """An allowed way to a host.

    Attributes:
        port: The port outside, which for a host with a credential is not the guest's 80 but 443.
        tls: Whether the proxy itself speaks TLS, because it adds `added`.
        added: Fields that hold the credential.
    """

    host: str
    port: int
    tls: bool = False
    added: tuple[Field, ...] = dataclasses.field(default=(), repr=False)


Resolver = Callable[[str], Awaitable[Sequence[Address]]]
Connector = Callable[[Address, int, Tls | None], Awaitable[Stream]]


class Uplink:
    """The allow-list of one sandbox and its ways out.

    Args:
        tls_context: For hosts with a credential; None means the system's certificate authorities.
    """

    def __init__(
        self,
        network: Network,
        *,
        resolver: Resolver,
        connector: Connector,
        address_allowed: Callable[[Address], bool],
        tls_context: ssl.SSLContext | None,
        connect_s: float,
    ) -> None:
        self._allowed = frozenset(
            (host, port)
            for host, ports in (split_host_port("allow", entry) for entry in network.allow)
            for port in ports
        )
        self._credentials = _credentials(network.headers)
        self._resolver = resolver
        self._connector = connector
        self._address_allowed = address_allowed
        self._connect_s = connect_s
        self._tls_context = tls_context
        if tls_context is not None and not tls_context.check_hostname:
            raise ValueError("tls_context must verify certificates and names: a credential goes through it")

    def route(self, request: Request) -> Route:
        """Raises ProxyRefusal if `request` may not go where it wants. No I/O."""
        added = self._credentials.get(request.host)
        if added is not None and request.method == "CONNECT":
            raise refused(
                Reason.USE_HTTP,
                request,
                f"is reached as http://{request.host}/, because the proxy adds the credential and encrypts",
            )
        port = 443 if added is not None and request.port == 80 else request.port
        if (request.host, port) not in self._allowed:
            entry = request.host if port in (80, 443) else f"{request.host}:{port}"
            raise ProxyRefusal(
                Reason.NOT_ALLOWED,
                f"{request.host}:{port} is not allowed; "
                f'allow it with Network(allow=["{entry}"]) or --allow-host {entry}',
                host=request.host,
                port=port,
            )
        return Route(host=request.host, port=port, tls=added is not None, added=added or ())

    async def dial(self, route: Route) -> Stream:
        """A connection to the host of `route`. Raises ProxyRefusal."""
        try:
            async with asyncio.timeout(self._connect_s):
                return await self._connect(route, await self._resolve(route))
        except TimeoutError:
            raise refused(Reason.CONNECT_TIMEOUT, route, f"did not answer within {self._connect_s:g} s") from None

    async def _resolve(self, route: Route) -> Sequence[Address]:
        """Every address of the host, all judged."""
        try:
            addresses = await self._resolver(route.host)
        except OSError:
            addresses = ()
        if not addresses:
            raise refused(Reason.UNRESOLVED, route, "has no address: the name does not resolve")
        refused_ones = [address for address in addresses if not self._address_allowed(address)]
        if any(map(is_never_allowed, refused_ones)):
            raise refused(
                Reason.NOT_PUBLIC, route, "resolves to an address that is never allowed: the host's own, or link-local"
            )
        if refused_ones:
            raise refused(
                Reason.NOT_PUBLIC,
                route,
                "resolves to an address that is not public; "
                "allow its range with Network(private_ranges=[...]) or --private-range",
            )
        return addresses

    async def _connect(self, route: Route, addresses: Sequence[Address]) -> Stream:
        """To the first address that answers, each given an equal share of the time."""
        tls = Tls(self._tls_context or _default_tls_context(), route.host) if route.tls else None
        tried = addresses[:_TRIED_ADDRESSES]
        for address in tried:
            try:
                async with asyncio.timeout(self._connect_s / len(tried)):
                    return await self._connector(address, route.port, tls)
            except ssl.SSLError as error:
                raise refused(
                    Reason.CERTIFICATE,
                    route,
                    "did not prove who it is: TLS failed or its certificate is not valid",
                ) from error
            except TimeoutError:
                if address == tried[-1]:
                    raise
            except OSError:
                continue
        raise refused(Reason.UNREACHABLE, route, "cannot be reached")


async def connect(address: Address, port: int, tls: Tls | None) -> Stream:
    """A TCP connection to exactly `address`, with TLS if `tls` is given. Raises OSError."""
    reader, writer = await asyncio.open_connection(
        str(address),
        port,
        ssl=tls.context if tls else None,
        server_hostname=tls.host if tls else None,
        limit=MAX_RESPONSE_HEAD_BYTES,
    )
    return Stream(reader, writer)


@functools.cache
def _default_tls_context() -> ssl.SSLContext:
    """Made once: reading the certificates takes milliseconds."""
    return ssl.create_default_context()


def _credentials(headers: Mapping[str, Mapping[str, str]]) -> dict[str, tuple[Field, ...]]:
    return {
        canonical_host("headers", host): tuple(
            Field(name.encode("ascii"), value.strip("\t ").encode("latin-1")) for name, value in fields.items()
        )
        for host, fields in headers.items()
    }


def refused(reason: Reason, to: Request | Route, explanation: str) -> ProxyRefusal:
    """`explanation` goes on from the host's name."""
    return ProxyRefusal(reason, f"{to.host}:{to.port} {explanation}", host=to.host, port=to.port)
