"""The egress proxy: what a sandbox with `Network(allow=…)` has instead of a network.

Covered: which hosts a guest reaches, under which addresses, with which credentials, and how much
of the host that costs. Not covered: what the guest sends to an allowed host. A tunnel is opaque,
so on a server that serves many names (a CDN) the guest reaches the other names too; and an allowed
host that stores or passes on what it is sent is a way out for anything. An entry in the allow-list
grants all that the host can do. A host that echoes what it is sent shows the guest the credential that
the proxy added. Redirects are the guest's to follow. There is no SOCKS, no UDP and no DNS in the sandbox,
and a host that itself needs a proxy to reach the internet is not served.

Theory of operation:
1. The guest's network namespace holds nothing but its loopback. Before any untrusted code, trusted
   code inside it makes a TCP socket that listens on 127.0.0.1:3128, hands it to the host and closes
   its own copy. (A guest with a copy could clear O_NONBLOCK, which copies share, and stop our loop.)
2. The host accepts on that socket in a loop of its own rather than asyncio's server, which accepts
   as fast as guests connect. A slot is taken before a connection is accepted and given back after
   it is closed; who finds none waits in the guest's kernel, in a queue the guest pays for.
3. Each connection is one `Exchange`: head, `Uplink.route` (allow-list), `Uplink.dial` (resolve,
   judge, connect), then bytes until the end. What is refused is answered with a reason,
   counted in `refusals`, and changes nothing else.

All runs on one event loop. A guest's bytes are parsed by code that takes linear time.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final

from groundbox.network import Network
from groundbox.sandbox.egress.addresses import Address, SystemResolver, is_outside
from groundbox.sandbox.egress.exchange import Exchange
from groundbox.sandbox.egress.message import MAX_HEAD_BYTES
from groundbox.sandbox.egress.meter import EgressLimits, Meter
from groundbox.sandbox.egress.refusal import Refusal, RefusalLog
from groundbox.sandbox.egress.uplink import Connector, Resolver, Stream, Uplink, connect

logger = logging.getLogger(__name__)

_HOST_IS_FULL: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_RETRY_S: Final = 1.0


class EgressProxy:
    """One per sandbox with `Network(allow=…)`. Serves HTTP proxy requests on `listener`.

    Args:
        listener: A listening TCP socket that lives in the guest's namespace. Owned from here on.
        network: What may be reached, and which headers are added.
        resolver: Turns an allowed name into addresses. None: as this machine does.
        connector: Opens the connection to an address that was judged.
        address_allowed: Judges each address. The default refuses all that is not the public
            internet; give another to let guests reach services of your own network.
        tls_context: Verifies the hosts that are sent a credential. None: the system's authorities.
        limits: Bounds on connections, time and bytes.

    Raises:
        InvalidArgument: `network` names something that is no host.
        ValueError: `tls_context` does not verify.
    """

    def __init__(
        self,
        listener: socket.socket,
        network: Network,
        *,
        resolver: Resolver | None = None,
        connector: Connector = connect,
        address_allowed: Callable[[Address], bool] = is_outside,
        tls_context: ssl.SSLContext | None = None,
        limits: EgressLimits | None = None,
    ) -> None:
        self._listener = listener
        self._limits = limits or EgressLimits()
        self._meter = Meter(self._limits.total_bytes)
        self._refusals = RefusalLog()
        self._own_resolver = SystemResolver() if resolver is None else None
        self._uplink = Uplink(
            network,
            resolver=resolver or self._own_resolver or SystemResolver(),
            connector=connector,
            address_allowed=address_allowed,
            tls_context=tls_context,
            connect_s=self._limits.connect_s,
        )
        self._accepting: asyncio.Task[None] | None = None
        self._exchanges: set[asyncio.Task[None]] = set()

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """What the guest tried and did not get: up to 100 different tries."""
        return self._refusals.entries

    @property
    def refusals_dropped(self) -> int:
        """Tries that are in no entry of `refusals`."""
        return self._refusals.dropped

    @property
    def sent_bytes(self) -> int:
        """Bytes forwarded to hosts outside, counted before encryption."""
        return self._meter.sent

    @property
    def received_bytes(self) -> int:
        """Bytes received from hosts outside, counted after decryption."""
        return self._meter.received

    async def start(self) -> None:
        """Accept from now on, until `close`. Once only."""
        if self._accepting is not None or self._listener.fileno() < 0:
            raise RuntimeError("this proxy was started or closed before")
        self._listener.setblocking(False)
        self._accepting = asyncio.create_task(self._accept())

    async def close(self) -> None:
        """Stop listening and reset every open connection at once. May be called again."""
        tasks = [*self._exchanges, *([self._accepting] if self._accepting else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listener.close()
        if self._own_resolver is not None:
            self._own_resolver.close()

    async def _accept(self) -> None:
        slots = asyncio.Semaphore(self._limits.connection_count)
        pace = _Pace(self._limits.connections_per_s)
        while True:
            await slots.acquire()
            await pace.wait()
            connection = await self._next_connection()
            if connection is None:
                return
            exchange = asyncio.create_task(self._serve(connection))
            self._exchanges.add(exchange)
            exchange.add_done_callback(self._exchanges.discard)
            exchange.add_done_callback(lambda _: slots.release())

    async def _next_connection(self) -> socket.socket | None:
        """None when the listener is of no use any more."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                return (await loop.sock_accept(self._listener))[0]
            except ConnectionAbortedError:
                continue
            except OSError as error:
                if error.errno not in _HOST_IS_FULL:
                    logger.warning("egress proxy stops: its listener failed: %s", error)
                    return None
                logger.warning("egress proxy pauses: %s", error)
                await asyncio.sleep(_RETRY_S)

    async def _serve(self, connection: socket.socket) -> None:
        try:
            reader, writer = await asyncio.open_connection(sock=connection, limit=MAX_HEAD_BYTES)
            exchange = Exchange(
                Stream(reader, writer),
                uplink=self._uplink,
                meter=self._meter,
                refusals=self._refusals,
                limits=self._limits,
            )
            await exchange.serve()
        except OSError as error:
            logger.debug("egress connection ended early: %s", error)
        except Exception:
            logger.exception("egress connection failed")
        finally:
            connection.close()


class _Pace:
    """Lets a burst of one second's worth through, then keeps the rate."""

    def __init__(self, per_s: float) -> None:
        self._interval_s = 1 / per_s
        self._due_s = -1.0

    async def wait(self) -> None:
        now_s = asyncio.get_running_loop().time()
        self._due_s = max(self._due_s + self._interval_s, now_s - 1.0)
        if self._due_s > now_s:
            await asyncio.sleep(self._due_s - now_s)
