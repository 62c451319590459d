"""WebSockets from a client through a gateway to a node, message by message, in both directions."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from groundbox.fleet.roster import Peer
from groundbox.fleet.upstream import Headers
from groundbox.server.refusals import Refused

_MOST_BYTES: Final = 16 * 1024 * 1024
_OPEN_S: Final = 10.0
_OWN: Final = ("sec-websocket-key", "sec-websocket-version", "sec-websocket-extensions", "sec-websocket-protocol")


async def pass_on(peer: Peer, headers: Headers, target: bytes, scope: Any, receive: Any, send: Any) -> None:
    """Open the same connection to a node, and pass on what comes from either side until one of them closes.

    Raises:
        Refused: The node refuses, with its status, or is not reached.
    """
    url = peer.node.url.replace("http", "ws", 1) + target.decode("latin-1")
    passed = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]
    try:
        node = await connect(
            url,
            additional_headers=[each for each in passed if each[0] not in _OWN],
            subprotocols=scope.get("subprotocols") or None,
            max_size=_MOST_BYTES,
            open_timeout=_OPEN_S,
            compression=None,
            user_agent_header=None,
            proxy=None,
        )
    except InvalidStatus as error:
        told = error.response.body[:500].decode("utf-8", "replace") if error.response.body else ""
        raise Refused(error.response.status_code, "refused", told or "the node refuses this connection") from None
    except (OSError, TimeoutError, WebSocketException) as error:
        raise Refused(503, "node_unreachable", f"node {peer.node.name} is not reached: {error}") from None
    async with node:
        with peer.upstream.held(node.transport.abort):
            await _between(node, receive, send)


async def _between(node: Any, receive: Any, send: Any) -> None:
    await receive()  # websocket.connect
    await send({"type": "websocket.accept", "subprotocol": node.subprotocol})
    tasks = [asyncio.create_task(_to_node(node, receive)), asyncio.create_task(_to_client(node, send))]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _to_node(node: Any, receive: Any) -> None:
    while (message := await receive())["type"] == "websocket.receive":
        data = message.get("bytes")
        with contextlib.suppress(ConnectionClosed):
            await node.send(message["text"] if data is None else data)


async def _to_client(node: Any, send: Any) -> None:
    try:
        while True:
            data = await node.recv()
            kind = "text" if isinstance(data, str) else "bytes"
            await send({"type": "websocket.send", kind: data})
    except ConnectionClosed as error:
        closed = error.rcvd
        code, reason = (1011, "the node went away") if closed is None else (closed.code, closed.reason)
        await send({"type": "websocket.close", "code": code, "reason": reason})
