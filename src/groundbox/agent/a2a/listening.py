"""An address to listen on, and the server that answers there until it is told to end.

Where an address may be reached from elsewhere is decided on the numbers that a name stands for, and those numbers are
bound: what was looked at is what is served.

A signal ends it: no connection is taken any more, the questions that are worked on are called off together with their
sandboxes, which their askers are told, and then connections are closed. A second signal waits for none of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import os
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette

from groundbox.agent.a2a.service import Service
from groundbox.errors import InvalidArgument

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_CLOSING_S: Final = 5


def bound(host: str, port: int, *, may_be_public: bool) -> socket.socket:
    """A socket that listens on an address, and on nothing else.

    Args:
        host: A name or an address; the first address that a name stands for is taken.
        port: 0 for one that is free.
        may_be_public: Whether others than this machine may reach it.

    Raises:
        InvalidArgument: It is no address of this machine, it may not be public and is, or it is taken.
    """
    try:
        [(family, _, _, _, address), *_] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise InvalidArgument("host", f"{host!r} stands for no address: {_why(error)}") from None
    if not may_be_public and not is_loopback(str(address[0])):
        problem = (
            f"{host!r} ({address[0]}) can be reached by others than this machine, and everyone who reaches it may ask. "
            "Set GROUNDBOX_A2A_TOKEN to a secret that askers have to send (`openssl rand -hex 32` writes one), or take "
            "127.0.0.1"
        )
        raise InvalidArgument("host", problem)
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen()
    except OSError as error:
        listening.close()
        problem = f"{address[0]}:{port} cannot be listened on: {_why(error)}. Choose another port, or 0 for a free one"
        raise InvalidArgument("port", problem) from None
    return listening


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches an address."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        return found.ipv4_mapped.is_loopback
    return found.is_loopback


def url_of(listening: socket.socket) -> str:
    """Where it is reached; "" where it listens on every address, which is none to be reached at."""
    address, port = listening.getsockname()[:2]
    if ipaddress.ip_address(address.partition("%")[0]).is_unspecified:
        return ""
    return f"http://[{address}]:{port}/" if ":" in address else f"http://{address}:{port}/"


def serve(app: Starlette, listening: socket.socket, *, service: Service, ready: Callable[[], None]) -> None:
    """Answer until SIGINT, SIGTERM or SIGHUP (unless that is ignored, as by nohup), in the main thread.

    Args:
        app: From `application`.
        ready: Called when requests are answered.
    """
    config = uvicorn.Config(
        app,
        http="h11",
        loop="asyncio",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=service.max_connections + 1,  # the one that is refused is counted, too
        timeout_graceful_shutdown=_CLOSING_S,
    )
    asyncio.run(_Server(config, app, ready).serve(sockets=[listening]))


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, app: Starlette, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self.should_exit = self.force_exit = False
        self._app, self._ready = app, ready

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals ask for the end; they are not raised again after it, because it is what was asked for."""
        loop = asyncio.get_running_loop()
        is_kept = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # by nohup
        heard = [number for number in _SIGNALS if number != signal.SIGHUP or not is_kept]
        for number in heard:
            loop.add_signal_handler(number, self._end)
        try:
            yield
        finally:
            for number in heard:
                loop.remove_signal_handler(number)

    async def startup(self, sockets: Any = None) -> None:
        """Say that it is ready, when it is."""
        await super().startup(sockets=sockets)
        self._ready()

    async def shutdown(self, sockets: Any = None) -> None:
        """Call off the questions first: streams about them would be waited for."""
        await self._app.state.executor.aclose()
        await super().shutdown(sockets=sockets)

    def _end(self) -> None:
        if self.should_exit:
            self.force_exit = True
        self.should_exit = True


def _why(error: Exception) -> str:
    if isinstance(error, socket.gaierror):
        return str(error.strerror)
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
