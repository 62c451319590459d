"""HTTP/1.1 to one server, over TCP, TLS or a unix socket: requests, and replies whole or as they come.

h11 knows the protocol; here are sockets, connections that are kept, and their end. A reply that is given up closes its
connection, by which the server learns that nobody waits any more. A kept connection may have been closed by the server
in the very moment; a request that names itself (`Idempotency-Key`), or changes nothing, is then sent once more.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlsplit

from groundbox.errors import ExtraMissing, InvalidArgument, ServerUnreachable

_READ: Final = 256 * 1024
_MOST_KEPT: Final = 64
_CONNECT_S: Final = 10.0


class Address(NamedTuple):
    """Where a server is.

    Attributes:
        unix: A socket's path, or "" for TCP.
        prefix: Before each path, without a slash at the end.
    """

    unix: str
    host: str
    port: int
    tls: bool
    prefix: str

    @property
    def shown(self) -> str:
        """As people write it."""
        if self.unix:
            return f"unix://{self.unix}"
        return f"http{'s' if self.tls else ''}://{self.host}:{self.port}{self.prefix}"


class Reply(NamedTuple):
    """A whole reply; names of headers in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body, decoded.

        Raises:
            ServerUnreachable: It is no JSON, so that something else answers there.
        """
        try:
            return json.loads(self.body)
        except ValueError:
            shown = self.body[:80].decode("utf-8", "replace")
            raise ServerUnreachable(f"an answer of status {self.status} is no JSON: {shown!r}") from None


def address_of(url: str) -> Address:
    """The address that a URL means: `http://`, `https://` or `unix:///path/of/socket`.

    Raises:
        InvalidArgument: It is none of them.
    """
    problem = f"must be like http://127.0.0.1:8000 or unix:///run/groundbox.sock, not {url!r}"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidArgument("url", problem) from None
    if parts.scheme == "unix" and parts.path.startswith("/") and not parts.netloc:
        return Address(parts.path, "localhost", 0, False, "")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise InvalidArgument("url", problem)
    tls = parts.scheme == "https"
    return Address("", parts.hostname, port or (443 if tls else 80), tls, parts.path.rstrip("/"))


class Transport:
    """Connections to one server, for one event loop."""

    def __init__(self, address: Address, api_key: str | None) -> None:
        """Args:
        api_key: Sent with each request; None for none.

        Raises:
            ExtraMissing: h11 is not installed.
        """
        try:
            import h11  # noqa: F401
        except ImportError:
            raise ExtraMissing("h11", "to ask a server", "h11") from None
        self._address, self._api_key = address, api_key
        self._kept: list[_Connection] = []
        self._tls = ssl.create_default_context() if address.tls else None

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """One request and its whole reply, of whatever status.

        Args:
            path: Not quoted yet.

        Raises:
            ServerUnreachable: There is no server, or the connection broke; whether the request was carried out is then
                not known.
        """
        async with self._answered(method, path, body, query, headers) as (status, names, parts):
            whole = b"".join([part async for part in parts])
            return Reply(status, names, whole)

    @contextlib.asynccontextmanager
    async def stream(
        self, method: str, path: str, *, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[tuple[int, Mapping[str, str], AsyncIterator[bytes]]]:
        """One request: status, headers, and the parts of its reply as they come. Leaving the block early ends it."""
        async with self._answered(method, path, body, None, headers) as answer:
            yield answer

    async def close(self) -> None:
        """Close kept connections."""
        while self._kept:
            self._kept.pop().close()

    @contextlib.asynccontextmanager
    async def _answered(
        self,
        method: str,
        path: str,
        body: bytes,
        query: Mapping[str, str] | None,
        headers: Mapping[str, str] | None,
    ) -> AsyncIterator[tuple[int, Mapping[str, str], AsyncIterator[bytes]]]:
        head = self._head(method, path, body, query, headers)
        may_repeat = method in ("GET", "PUT", "DELETE") or "Idempotency-Key" in (headers or {})
        while True:
            kept = self._take_kept()
            connection = kept or await self._connect()
            try:
                status, names = await connection.ask(head, body)
                break
            except ServerUnreachable:
                connection.close()
                if kept is None or not may_repeat:
                    raise
            except BaseException:
                connection.close()
                raise
        try:
            yield status, names, connection.parts()
        except BaseException:
            connection.close()
            raise
        if connection.renew() and len(self._kept) < _MOST_KEPT:
            self._kept.append(connection)
        else:
            connection.close()

    def _take_kept(self) -> _Connection | None:
        """Take a kept connection that the server has not closed; a server closes those that are idle for long."""
        while self._kept:
            kept = self._kept.pop()
            if kept.is_open:
                return kept
            kept.close()
        return None

    def _head(
        self,
        method: str,
        path: str,
        body: bytes,
        query: Mapping[str, str] | None,
        headers: Mapping[str, str] | None,
    ) -> Any:
        import h11

        try:
            target = self._address.prefix + quote(path)
        except UnicodeEncodeError:
            raise InvalidArgument("path", f"{path!r} is no UTF-8, and cannot be sent to a server") from None
        if query:
            target += "?" + "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in query.items())
        sent = {"Host": self._host(), "User-Agent": "groundbox", "Accept": "*/*", **(headers or {})}
        if self._api_key is not None:
            sent["Authorization"] = f"Bearer {self._api_key}"
        if body or method in ("POST", "PUT"):
            sent["Content-Length"] = str(len(body))
            sent.setdefault("Content-Type", "application/json")
        return h11.Request(method=method, target=target, headers=list(sent.items()))

    def _host(self) -> str:
        host = f"[{self._address.host}]" if ":" in self._address.host else self._address.host
        return host if self._address.unix else f"{host}:{self._address.port}"

    async def _connect(self) -> _Connection:
        address = self._address
        try:
            async with asyncio.timeout(_CONNECT_S):
                if address.unix:
                    pair = await asyncio.open_unix_connection(address.unix, limit=_READ)
                else:
                    pair = await asyncio.open_connection(address.host, address.port, ssl=self._tls, limit=_READ)
        except TimeoutError:
            raise ServerUnreachable(f"{address.shown} did not answer within {_CONNECT_S:g} s") from None
        except OSError as error:
            why = error.strerror or str(error)
            raise ServerUnreachable(f"{address.shown} cannot be reached: {why}") from None
        return _Connection(*pair, shown=address.shown)


class _Connection:
    """One connection, for one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, shown: str) -> None:
        import h11

        self._h11 = h11
        self._reader, self._writer, self._shown = reader, writer, shown
        self._state = h11.Connection(our_role=h11.CLIENT)

    async def ask(self, head: Any, body: bytes) -> tuple[int, Mapping[str, str]]:
        """Send a request; status and headers of its reply.

        Raises:
            ServerUnreachable: The connection broke before there was a reply.
        """
        h11 = self._h11
        try:
            sent = [self._state.send(head)]
            if body:
                sent.append(self._state.send(h11.Data(data=body)))
            sent.append(self._state.send(h11.EndOfMessage()))
            # Without those that are empty, as the end of a body whose length was told: from Python 3.12 on asyncio
            # would try to send such a rest again and again, and take a processor until the answer comes.
            self._writer.writelines([part for part in sent if part])
            try:
                await self._writer.drain()
            except ConnectionError:
                pass  # a server that refuses a large body answers and hangs up before it has all; the answer counts
            while True:
                event = await self._next()
                if isinstance(event, h11.Response):
                    return event.status_code, {name.decode(): value.decode("latin-1") for name, value in event.headers}
                if not isinstance(event, h11.InformationalResponse):
                    raise ServerUnreachable(f"{self._shown} hung up before it answered")
        except (OSError, h11.ProtocolError) as error:
            raise ServerUnreachable(f"{self._shown}: {error}") from None

    async def parts(self) -> AsyncIterator[bytes]:
        """The body as it comes.

        Raises:
            ServerUnreachable: It ends before its end.
        """
        h11 = self._h11
        try:
            while True:
                event = await self._next()
                if isinstance(event, h11.Data):
                    yield bytes(event.data)
                elif isinstance(event, h11.EndOfMessage):
                    return
                else:
                    raise ServerUnreachable(f"{self._shown} hung up in the middle of an answer")
        except (OSError, h11.ProtocolError) as error:
            raise ServerUnreachable(f"{self._shown}: {error}") from None

    def renew(self) -> bool:
        """Whether another request can be sent."""
        h11 = self._h11
        if self._state.our_state is h11.DONE and self._state.their_state is h11.DONE:
            self._state.start_next_cycle()
            return self.is_open
        return False

    @property
    def is_open(self) -> bool:
        """Whether the server has not closed it, as far as is known here."""
        return not self._reader.at_eof() and self._reader.exception() is None and not self._writer.is_closing()

    def close(self) -> None:
        """Hang up."""
        with contextlib.suppress(RuntimeError):  # the loop is closed already
            self._writer.transport.abort()

    async def _next(self) -> Any:
        while True:
            event = self._state.next_event()
            if event is not self._h11.NEED_DATA:
                return event
            self._state.receive_data(await self._reader.read(_READ))
