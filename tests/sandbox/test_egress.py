"""The egress proxy on real sockets: a guest (the test), the proxy, and servers, all on 127.0.0.1."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import http.client
import ipaddress
import logging
import os
import shutil
import socket
import ssl
import struct
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import pytest

from groundbox.errors import InvalidArgument
from groundbox.limits import MiB
from groundbox.network import Network
from groundbox.sandbox.egress.addresses import Address, is_public
from groundbox.sandbox.egress.meter import EgressLimits, Meter
from groundbox.sandbox.egress.proxy import EgressProxy
from groundbox.sandbox.egress.refusal import ProxyRefusal, Refusal
from groundbox.sandbox.egress.uplink import Stream, Tls, connect

SECRET = "s3cret-t0ken"
LOOPBACK = ipaddress.ip_address("127.0.0.1")
API = Network(allow=["api.example.org"], headers={"api.example.org": {"Authorization": f"Bearer {SECRET}"}})
PLAIN = Network(allow=["example.org", "example.org:8443"])
GET = b"GET http://example.org/ HTTP/1.1\r\n\r\n"
CONNECT = b"CONNECT example.org:80 HTTP/1.1\r\n\r\n"
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Certificate:
    """A self-signed one for `host`, and the contexts of both sides."""

    def __init__(self, folder: Path, host: str) -> None:
        key, self.path = folder / f"{host}.key", folder / f"{host}.pem"
        subprocess.run(
            [
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
                "-days",
                "2",
                "-subj",
                f"/CN={host}",
                "-addext",
                f"subjectAltName=DNS:{host}",
                "-keyout",
                key,
                "-out",
                self.path,
            ],
            check=True,
            capture_output=True,
        )
        self.server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.server.load_cert_chain(self.path, key)
        self.client = ssl.create_default_context(cafile=self.path)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed, so no test certificate can be made")
    return Certificate(tmp_path_factory.mktemp("certificate"), "api.example.org")


class Server:
    """A web server that keeps what it was sent and answers always the same."""

    def __init__(self, answer: bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi") -> None:
        self.answer = answer
        self.requests: list[bytes] = []

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next((int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length:")), 0)
        self.requests.append(head + await reader.readexactly(length))
        writer.write(self.answer)
        await writer.drain()


async def _silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def _hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")


async def _shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Reads to the end, then answers: only a half-close gets it to speak."""
    writer.write((await reader.read()).upper())


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(65536):
        writer.write(chunk)
        await writer.drain()


async def _pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(bytes(65536))
        await writer.drain()


@dataclasses.dataclass
class World:
    """A proxy and what the test sees of it."""

    proxy: EgressProxy
    port: int
    dialled: list[tuple[str, int, str | None]]
    resolved: list[str]
    opened: list[asyncio.StreamWriter] = dataclasses.field(default_factory=list)

    async def open(self, raw: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.opened.append(writer)
        writer.write(raw)
        return reader, writer

    async def ask(self, raw: bytes) -> bytes:
        """Everything the proxy says to `raw`, which may be its last words."""
        reader, writer = await self.open(raw)
        try:
            return await asyncio.wait_for(reader.read(), 10)
        finally:
            writer.transport.abort()

    async def tunnel(self, target: str = "example.org:80") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await self.open(f"CONNECT {target} HTTP/1.1\r\n\r\n".encode())
        assert await reader.readuntil(b"\r\n\r\n") == ESTABLISHED
        return reader, writer


@contextlib.asynccontextmanager
async def world(
    network: Network = PLAIN,
    *,
    plain: Handler | None = None,
    tls: Handler | None = None,
    certificate: Certificate | None = None,
    answers: Sequence[Sequence[Address]] = ([LOOPBACK],),
    address_allowed: Callable[[Address], bool] = lambda address: True,
    limits: EgressLimits | None = None,
    dead_hangs: bool = False,
) -> AsyncIterator[World]:
    """Port 80 outside is `plain`, ports 443 and 8443 are `tls`. `answers` are given one after the other."""
    listener = socket.create_server(("127.0.0.1", 0))
    servers = [await _serve(plain or Server())]
    ports = {80: servers[0].sockets[0].getsockname()[1]}
    if certificate is not None:
        servers.append(await _serve(tls or Server(), certificate.server))
        ports[443] = ports[8443] = servers[1].sockets[0].getsockname()[1]
    dialled: list[tuple[str, int, str | None]] = []
    resolved: list[str] = []

    async def resolver(host: str) -> Sequence[Address]:
        resolved.append(host)
        return answers[min(len(resolved), len(answers)) - 1]

    async def connector(address: Address, port: int, tls: Tls | None) -> Stream:
        dialled.append((str(address), port, tls.host if tls else None))
        if address != LOOPBACK:
            await asyncio.sleep(60 if dead_hangs else 0)
            raise OSError("tests do not leave 127.0.0.1")
        return await connect(address, ports[port], tls)

    proxy = EgressProxy(
        listener,
        network,
        resolver=resolver,
        connector=connector,
        address_allowed=address_allowed,
        tls_context=certificate.client if certificate else None,
        limits=limits,
    )
    await proxy.start()
    here = World(proxy, listener.getsockname()[1], dialled, resolved)
    try:
        yield here
    finally:
        for writer in here.opened:
            writer.transport.abort()
        await proxy.close()
        for server in servers:
            server.close()


async def _serve(handler: Handler, context: ssl.SSLContext | None = None) -> asyncio.Server:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await handler(reader, writer)
        writer.close()

    return await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)


def _refused(status: int, code: str, explanation: str) -> bytes:
    line = f"groundbox: {explanation}"
    return (
        f"HTTP/1.1 {status} {line}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(line) + 1}\r\nConnection: close\r\nX-Groundbox-Refused: {code}\r\n\r\n{line}\n"
    ).encode()


async def _ask(raw: bytes, **kwargs: object) -> bytes:
    async with world(**kwargs) as here:  # type: ignore[arg-type]
        return await here.ask(raw)


# Forwarded requests


def test_a_request_is_forwarded_in_origin_form_and_its_answer_comes_back() -> None:
    server = Server(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: b\r\n\r\nhi")
    raw = b"GET http://Example.org/a?b HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\nProxy-Connection: close\r\n\r\n"

    answer = asyncio.run(_ask(raw, plain=server))

    assert answer == b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-A: b\r\nConnection: close\r\n\r\nhi"
    assert server.requests == [b"GET /a?b HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\nConnection: close\r\n\r\n"]


def test_a_body_is_forwarded_to_its_length_and_what_follows_is_no_second_request() -> None:
    server = Server()
    raw = b"POST http://example.org/ HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello" + GET

    answer = asyncio.run(_ask(raw, plain=server))

    assert answer == b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi"
    assert server.requests == [
        b"POST / HTTP/1.1\r\nHost: example.org\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
    ]


def test_a_guest_that_waits_for_continue_gets_it_from_the_proxy() -> None:
    server = Server(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")

    async def post() -> bytes:
        async with world(plain=server) as here:
            reader, writer = await here.open(
                b"PUT http://example.org/ HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
            )
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(b"hello")
            return await reader.read()

    answer = asyncio.run(post())

    assert answer == b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    assert server.requests == [
        b"PUT / HTTP/1.1\r\nHost: example.org\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
    ]


def test_chunked_answers_and_answers_without_length_stream_until_the_end() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"
    endless = b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * 300_000

    answers = [asyncio.run(_ask(GET, plain=Server(answer))) for answer in (chunked, endless)]

    assert answers == [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nConnection: close\r\n\r\n" + b"x" * 300_000,
    ]


def test_an_answer_to_head_ends_with_its_head_though_the_host_stays() -> None:
    async def stay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n")
        await reader.read()

    answer = asyncio.run(_ask(b"HEAD http://example.org/ HTTP/1.1\r\n\r\n", plain=stay))

    assert answer == b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\n"


def test_redirects_are_the_guests_to_follow() -> None:
    server = Server(b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n")

    async def ask() -> tuple[bytes, int]:
        async with world(plain=server) as here:
            return await here.ask(GET), len(here.dialled)

    answer, dialled = asyncio.run(ask())

    assert answer == (
        b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )
    assert dialled == 1


def test_an_early_answer_to_a_large_body_comes_back() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        await reader.read()

    raw = b"POST http://example.org/ HTTP/1.1\r\nContent-Length: 900000\r\n\r\n" + bytes(1000)

    answer = asyncio.run(_ask(raw, plain=refuse))

    assert answer == b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def test_a_guest_that_reads_slowly_gets_the_end_too() -> None:
    size = 12 * MiB
    server = Server(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + bytes(size))

    async def read_slowly() -> int:
        async with world(plain=server, limits=EgressLimits(linger_s=0.05)) as here:
            reader, writer = await here.open(GET)
            await asyncio.sleep(0.2)
            count = 0
            while chunk := await reader.read(65536):
                count += len(chunk)
                await asyncio.sleep(0.003)
            writer.close()
            return count

    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % size
    assert asyncio.run(read_slowly()) == len(head) + size


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nContent-Length: 500000\r\n\r\n" + bytes(400_000),
    ],
)
def test_an_answer_that_breaks_off_ends_with_a_reset(answer: bytes) -> None:
    with pytest.raises(ConnectionResetError):
        asyncio.run(_ask(GET, plain=Server(answer)))


def test_a_body_that_breaks_off_is_not_completed_for_the_host() -> None:
    received: list[bytes] = []

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        try:
            received.append(await reader.readexactly(5))
        except (OSError, asyncio.IncompleteReadError) as error:
            received.append(type(error).__name__.encode())

    async def break_off() -> None:
        async with world(plain=receive) as here:
            reader, writer = await here.open(b"POST http://example.org/ HTTP/1.1\r\nContent-Length: 5\r\n\r\nhi")
            await asyncio.sleep(0.1)
            writer.write_eof()
            with contextlib.suppress(ConnectionResetError):
                await reader.read()
            await asyncio.sleep(0.1)

    asyncio.run(break_off())

    assert received == [b"ConnectionResetError"]


# Tunnels


def test_a_tunnel_carries_bytes_both_ways_and_each_side_ends_on_its_own() -> None:
    async def talk() -> tuple[bytes, int, int]:
        async with world(plain=_shout) as here:
            reader, writer = await here.tunnel()
            writer.write(b"hello " * 50_000)
            writer.write_eof()
            answer = await reader.read()
            return answer, here.proxy.sent_bytes, here.proxy.received_bytes

    answer, sent, received = asyncio.run(talk())

    assert answer == b"HELLO " * 50_000
    assert (sent, received) == (300_000, 300_000)


def test_what_is_sent_together_with_the_request_goes_into_the_tunnel() -> None:
    async def talk() -> bytes:
        async with world(plain=_echo) as here:
            reader, writer = await here.open(CONNECT + b"early")
            writer.write_eof()
            return await reader.read()

    assert asyncio.run(talk()) == ESTABLISHED + b"early"


def test_a_guest_that_does_not_read_stops_the_host_that_sends() -> None:
    async def stall() -> int:
        async with world(plain=_pour) as here:
            await here.tunnel()
            before = -1
            while before != here.proxy.received_bytes:
                before = here.proxy.received_bytes
                await asyncio.sleep(0.3)
            return before

    assert 0 < asyncio.run(stall()) < 32 * MiB  # what the kernel's socket buffers take


def test_a_reset_goes_through_the_tunnel() -> None:
    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    async def talk() -> bytes:
        async with world(plain=reset) as here:
            reader, writer = await here.tunnel()
            writer.write(b"x" * 100_000)
            return await reader.read()

    with pytest.raises(ConnectionResetError):
        asyncio.run(talk())


def test_http_client_speaks_tls_to_the_host_through_a_tunnel(certificate: Certificate) -> None:
    def get(port: int) -> tuple[int, bytes]:
        connection = http.client.HTTPSConnection("127.0.0.1", port, context=certificate.client, timeout=10)
        connection.set_tunnel("api.example.org", 443)
        connection.request("GET", "/x")
        response = connection.getresponse()
        try:
            return response.status, response.read()
        finally:
            connection.close()

    async def run() -> tuple[tuple[int, bytes], list[tuple[str, int, str | None]]]:
        async with world(Network(allow=["api.example.org"]), certificate=certificate) as here:
            return await asyncio.to_thread(get, here.port), here.dialled

    answer, dialled = asyncio.run(run())

    assert answer == (200, b"hi")
    assert dialled == [("127.0.0.1", 443, None)]


def test_http_client_shows_why_a_tunnel_was_refused() -> None:
    def get(port: int) -> None:
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=10)
        connection.set_tunnel("pypi.org", 443)
        try:
            connection.request("GET", "/")
        finally:
            connection.close()

    async def run() -> None:
        async with world() as here:
            await asyncio.to_thread(get, here.port)

    with pytest.raises(OSError) as caught:
        asyncio.run(run())

    assert str(caught.value) == (
        "Tunnel connection failed: 403 groundbox: pypi.org:443 is not allowed; "
        'allow it with Network(allow=["pypi.org"]) or --allow-host pypi.org'
    )


def test_urllib_posts_through_the_proxy_and_reads_refusals() -> None:
    def post(port: int, url: str) -> bytes:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": f"http://127.0.0.1:{port}"}))
        try:
            with opener.open(url, data=b"a=b", timeout=10) as response:
                return bytes(response.read())
        except urllib.error.HTTPError as error:
            with error:
                return f"{error.code} {error.headers['X-Groundbox-Refused']} ".encode() + error.read()

    async def run() -> list[bytes]:
        async with world() as here:
            return [
                await asyncio.to_thread(post, here.port, url) for url in ("http://example.org/", "http://a.test:81/")
            ]

    assert asyncio.run(run()) == [
        b"hi",
        b"403 not-allowed groundbox: a.test:81 is not allowed; "
        b'allow it with Network(allow=["a.test:81"]) or --allow-host a.test:81\n',
    ]


# What is refused


def _not_allowed(host: str, port: int, entry: str) -> bytes:
    advice = f'allow it with Network(allow=["{entry}"]) or --allow-host {entry}'
    return _refused(403, "not-allowed", f"{host}:{port} is not allowed; {advice}")


@pytest.mark.parametrize(
    ("raw", "answer"),
    [
        (b"CONNECT example.com:443 HTTP/1.1\r\n\r\n", _not_allowed("example.com", 443, "example.com")),
        (b"CONNECT a.example.org:443 HTTP/1.1\r\n\r\n", _not_allowed("a.example.org", 443, "a.example.org")),
        (
            b"CONNECT example.org.a.test:80 HTTP/1.1\r\n\r\n",
            _not_allowed("example.org.a.test", 80, "example.org.a.test"),
        ),
        (b"CONNECT example.org:22 HTTP/1.1\r\n\r\n", _not_allowed("example.org", 22, "example.org:22")),
        (
            b"GET http://example.org:8080/ HTTP/1.1\r\n\r\n",
            _not_allowed("example.org", 8080, "example.org:8080"),
        ),
        (b"GET http://localhost/ HTTP/1.1\r\n\r\n", _not_allowed("localhost", 80, "localhost")),
        (
            b"GET http://10.0.0.1/ HTTP/1.1\r\n\r\n",
            _refused(
                403,
                "address",
                "10.0.0.1 is an address; name the host instead, as in "
                'Network(allow=["example.org"]) or --allow-host example.org',
            ),
        ),
        (
            b"GET http://example%2eorg/ HTTP/1.1\r\n\r\n",
            _refused(400, "bad-host", "'example%2eorg' is not a host name such as 'example.org'"),
        ),
        (
            b"GET http://example.org@evil.test/ HTTP/1.1\r\n\r\n",
            _refused(400, "bad-host", "the URL holds a user name; send an Authorization header instead"),
        ),
        (
            b"CONNECT evil.test\0.example.org:443 HTTP/1.1\r\n\r\n",
            _refused(400, "bad-request", "the head holds a NUL byte, or a CR or LF on its own"),
        ),
        (
            b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
            _refused(
                400,
                "not-a-proxy-request",
                "this is a proxy, not a web server: send absolute URLs (GET http://example.org/) or CONNECT",
            ),
        ),
        (
            b"POST http://example.org/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            _refused(411, "length-required", "example.org:80 was sent a chunked body; send it with Content-Length"),
        ),
        (
            b"TRACE http://example.org/ HTTP/1.1\r\n\r\n",
            _refused(405, "method", "example.org:80 is not sent the method TRACE"),
        ),
        (
            b"GET http://example.org/ HTTP/1.1\r\nA: " + b"x" * 40_000,
            _refused(
                431,
                "head-too-large",
                "the request head is larger than 32768 bytes or has more than 100 fields",
            ),
        ),
        (
            b"\x16\x03\x01\x02\0\x01\xfc\r\n\r\n",
            _refused(400, "bad-request", "the head holds a NUL byte, or a CR or LF on its own"),
        ),
    ],
)
def test_a_refusal_says_what_was_refused_and_what_would_allow_it(raw: bytes, answer: bytes) -> None:
    async def ask() -> tuple[bytes, list[str], list[tuple[str, int, str | None]]]:
        async with world() as here:
            return await here.ask(raw), here.resolved, here.dialled

    assert asyncio.run(ask()) == (answer, [], [])


def test_a_head_that_ends_in_the_middle_is_refused() -> None:
    async def ask() -> bytes:
        async with world() as here:
            reader, writer = await here.open(b"GET http://exa")
            writer.write_eof()
            return await reader.read()

    assert asyncio.run(ask()) == _refused(400, "bad-request", "the request head has no end")


def test_a_refused_head_request_is_answered_without_a_body() -> None:
    answer = asyncio.run(_ask(b"HEAD http://a.test/ HTTP/1.1\r\n\r\n"))

    assert answer == _not_allowed("a.test", 80, "a.test").partition(b"\r\n\r\n")[0] + b"\r\n\r\n"


def test_the_answer_reaches_a_guest_that_is_still_sending_its_body() -> None:
    raw = b"POST http://a.test/ HTTP/1.1\r\nContent-Length: 3000000\r\n\r\n" + bytes(3_000_000)

    assert asyncio.run(_ask(raw)) == _not_allowed("a.test", 80, "a.test")


PRIVATE = (
    "resolves to an address that is not public; allow its range with Network(private_ranges=[...]) or --private-range"
)
NEVER = "resolves to an address that is never allowed: the host's own, or link-local"


@pytest.mark.parametrize(
    ("addresses", "why"),
    [
        (["10.0.0.1"], PRIVATE),
        (["93.184.216.34", "192.168.0.7"], PRIVATE),
        (["93.184.216.34", "169.254.169.254"], NEVER),
        (["10.0.0.1", "127.0.0.1"], NEVER),
        (["fd00:ec2::254"], NEVER),
        (["::ffff:93.184.216.34"], NEVER),
        (["127.0.0.1"], NEVER),
    ],
)
def test_a_name_with_any_address_that_is_not_public_is_refused(addresses: list[str], why: str) -> None:
    async def ask() -> tuple[bytes, list[tuple[str, int, str | None]]]:
        answers = [[ipaddress.ip_address(address) for address in addresses]]
        async with world(answers=answers, address_allowed=is_public) as here:
            return await here.ask(CONNECT), here.dialled

    assert asyncio.run(ask()) == (_refused(403, "not-public", f"example.org:80 {why}"), [])


def test_by_default_nothing_on_this_machine_is_reached() -> None:
    async def ask() -> bytes:
        listener = socket.create_server(("127.0.0.1", 0))
        proxy = EgressProxy(listener, Network(allow=["localhost"]))
        await proxy.start()
        try:
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            writer.write(b"CONNECT localhost:80 HTTP/1.1\r\n\r\n")
            return await reader.read()
        finally:
            writer.transport.abort()
            await proxy.close()

    assert asyncio.run(ask()) == _refused(403, "not-public", f"localhost:80 {NEVER}")


def test_the_address_that_was_judged_is_the_one_connected_to() -> None:
    rebinding = [[LOOPBACK], [ipaddress.ip_address("10.0.0.1")]]

    async def ask() -> tuple[bytes, list[str], list[tuple[str, int, str | None]]]:
        async with world(answers=rebinding, address_allowed=lambda address: address == LOOPBACK) as here:
            return await here.ask(GET), here.resolved, here.dialled

    answer, resolved, dialled = asyncio.run(ask())

    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert (resolved, dialled) == (["example.org"], [("127.0.0.1", 80, None)])


def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    dead = ipaddress.ip_address("192.0.2.1")

    async def ask() -> tuple[bytes, list[tuple[str, int, str | None]]]:
        async with world(answers=[[dead, LOOPBACK]]) as here:
            return await here.ask(GET), here.dialled

    answer, dialled = asyncio.run(ask())

    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert dialled == [("192.0.2.1", 80, None), ("127.0.0.1", 80, None)]


def test_a_name_without_addresses_and_a_host_that_is_down_are_told_apart() -> None:
    dead = ipaddress.ip_address("192.0.2.1")

    answers = [asyncio.run(_ask(GET, answers=[[]])), asyncio.run(_ask(GET, answers=[[dead] * 9]))]

    assert answers == [
        _refused(502, "unresolved", "example.org:80 has no address: the name does not resolve"),
        _refused(502, "unreachable", "example.org:80 cannot be reached"),
    ]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"", "no complete head"),
        (b"HTTP/1.1 200 OK\r\n", "no complete head"),
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "the status line must be HTTP/1.1 STATUS"),
        (b"HTTP/1.1 200 OK\r\nA: b\nC: d\r\n\r\n", "the head holds a NUL byte, or a CR or LF on its own"),
        (b"HTTP/1.1 200 OK\r\nA: " + bytes(200_000), "a head that is too large"),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n" * 9, "too many interim responses"),
    ],
)
def test_a_host_that_does_not_answer_with_http_is_said_to(answer: bytes, problem: str) -> None:
    explanation = f"example.org:80 did not answer with HTTP/1.1: {problem}"

    assert asyncio.run(_ask(GET, plain=Server(answer))) == _refused(502, "bad-response", explanation)


def test_refusals_are_kept_with_their_count_and_the_rest_is_counted() -> None:
    async def ask() -> tuple[Sequence[Refusal], int]:
        async with world() as here:
            for _ in range(2):
                await here.ask(b"CONNECT a.test:443 HTTP/1.1\r\n\r\n")
            for number in range(104):
                await here.ask(f"CONNECT h{number}.test:443 HTTP/1.1\r\n\r\n".encode())
            await here.ask(b"CONNECT a.test:443 HTTP/1.1\r\n\r\n")
            return here.proxy.refusals, here.proxy.refusals_dropped

    refusals, dropped = asyncio.run(ask())

    assert refusals[:2] == (
        Refusal(host="a.test", port=443, reason="not-allowed", count=3),
        Refusal(host="h0.test", port=443, reason="not-allowed", count=1),
    )
    assert (len(refusals), dropped) == (100, 5)


def test_what_the_guest_wrote_is_escaped_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "groundbox"):
        for _ in range(2):
            asyncio.run(_ask(b"CONNECT a\\n\x1b[2J:443 HTTP/1.1\r\n\r\n"))
            asyncio.run(_ask(b"CONNECT a,b:443 HTTP/1.1\r\n\r\n"))

    assert [record.getMessage() for record in caplog.records][:2] == [
        "egress refused (bad-request): the request line must be METHOD URL HTTP/1.1",
        "egress refused (bad-host): 'a,b' is not a host name such as 'example.org'",
    ]


# Credentials


def test_a_credential_is_added_outside_and_sent_over_verified_tls(certificate: Certificate) -> None:
    server = Server()
    raw = (
        b"POST http://api.example.org/v1 HTTP/1.1\r\nauthorization: Bearer mine\r\n"
        b"Connection: authorization\r\nContent-Length: 2\r\n\r\n{}"
    )

    async def ask() -> tuple[bytes, list[tuple[str, int, str | None]]]:
        async with world(API, tls=server, certificate=certificate) as here:
            return await here.ask(raw), here.dialled

    answer, dialled = asyncio.run(ask())

    assert answer == b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi"
    assert dialled == [("127.0.0.1", 443, "api.example.org")]
    assert server.requests == [
        b"POST /v1 HTTP/1.1\r\nHost: api.example.org\r\nAuthorization: Bearer s3cret-t0ken\r\n"
        b"Content-Length: 2\r\nConnection: close\r\n\r\n{}"
    ]


def test_a_credential_goes_to_the_port_that_was_allowed(certificate: Certificate) -> None:
    server = Server()
    network = Network(allow=["api.example.org:8443"], headers={"API.example.org.": {"X-Key": SECRET}})

    async def ask() -> tuple[bytes, bytes, list[tuple[str, int, str | None]]]:
        async with world(network, tls=server, certificate=certificate) as here:
            return (
                await here.ask(b"GET http://api.example.org/ HTTP/1.1\r\n\r\n"),
                await here.ask(b"GET http://api.example.org:8443/ HTTP/1.1\r\n\r\n"),
                here.dialled,
            )

    refused, answered, dialled = asyncio.run(ask())

    assert refused == _not_allowed("api.example.org", 443, "api.example.org")
    assert answered.endswith(b"hi")
    assert dialled == [("127.0.0.1", 8443, "api.example.org")]
    assert server.requests == [
        b"GET / HTTP/1.1\r\nHost: api.example.org:8443\r\nX-Key: s3cret-t0ken\r\nConnection: close\r\n\r\n"
    ]


def test_a_tunnel_to_a_host_with_a_credential_is_refused(certificate: Certificate) -> None:
    answer = asyncio.run(_ask(b"CONNECT api.example.org:443 HTTP/1.1\r\n\r\n", network=API, certificate=certificate))

    explanation = (
        "api.example.org:443 is reached as http://api.example.org/, because the proxy adds the credential and encrypts"
    )
    assert answer == _refused(403, "use-http", explanation)


def test_no_credential_is_sent_to_a_host_whose_certificate_does_not_hold(
    certificate: Certificate, tmp_path: Path
) -> None:
    server = Server()
    impostor = Certificate(tmp_path, "evil.example.org")
    impostor.client = certificate.client

    answer = asyncio.run(
        _ask(b"GET http://api.example.org/ HTTP/1.1\r\n\r\n", network=API, tls=server, certificate=impostor)
    )

    explanation = "api.example.org:443 did not prove who it is: TLS failed or its certificate is not valid"
    assert answer == _refused(502, "certificate", explanation)
    assert server.requests == []


def test_a_certificate_for_another_name_does_not_hold(certificate: Certificate, tmp_path: Path) -> None:
    other = Certificate(tmp_path, "other.example.org")  # trusted, yet not for this name

    answer = asyncio.run(_ask(b"GET http://api.example.org/ HTTP/1.1\r\n\r\n", network=API, certificate=other))

    assert answer.startswith(b"HTTP/1.1 502 groundbox: api.example.org:443 did not prove who it is")


async def _break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.transport.abort()


@pytest.mark.parametrize("handler", [_hang_up, _break_off])
def test_a_host_with_a_credential_may_hang_up_like_any_other(certificate: Certificate, handler: Handler) -> None:
    raw = b"POST http://api.example.org/ HTTP/1.1\r\nContent-Length: 5\r\n\r\n"

    async def ask() -> set[bytes]:
        async with world(API, tls=handler, certificate=certificate) as here:
            return {await here.ask(raw) for _ in range(5)}

    explanation = "api.example.org:443 did not answer with HTTP/1.1: no complete head"
    assert asyncio.run(ask()) == {_refused(502, "bad-response", explanation)}


def test_a_tls_context_that_does_not_verify_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(ValueError, match="must verify"):
        EgressProxy(listener, API, tls_context=ssl._create_unverified_context())


def test_a_credential_shows_in_no_refusal_log_repr_or_exception(
    certificate: Certificate, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    requests = [
        b"GET http://api.example.org/ HTTP/1.1\r\n\r\n",
        b"POST http://api.example.org/ HTTP/1.1\r\nContent-Length: 5\r\n\r\n",
        b"TRACE http://api.example.org/ HTTP/1.1\r\n\r\n",
        b"CONNECT api.example.org:443 HTTP/1.1\r\n\r\n",
        b"GET http://api.example.org:81/ HTTP/1.1\r\n\r\n",
        b"GET /\r\n\r\n",
    ]
    handlers: list[Handler] = [
        _hang_up,
        _silence,
        Server(b"nonsense\r\n\r\n"),
        Server(b"HTTP/1.1 200\r\n\r\nhi"),
    ]
    limits = EgressLimits(idle_s=0.1, linger_s=0.1, total_bytes=150)

    async def ask() -> str:
        seen: list[object] = []
        for handler in handlers:
            async with world(API, tls=handler, certificate=certificate, limits=limits) as here:
                for request in requests:
                    try:
                        seen.append(await here.ask(request))
                    except OSError as error:
                        seen.append(error)
                seen += [here.proxy, vars(here.proxy), here.proxy._uplink._allowed, *here.proxy.refusals]
        return repr(seen)

    everything = asyncio.run(ask()) + caplog.text + repr(API) + str(API)

    assert SECRET not in everything
    assert {code for code in ("bad-response", "idle-timeout", "byte-limit") if code not in everything} == set()


def test_an_exception_about_headers_does_not_show_their_values() -> None:
    for value in (f"{SECRET}\n", f"{SECRET}\u20ac", f"{SECRET}\x01"):
        with pytest.raises(InvalidArgument) as caught:
            Network(allow=["a.test"], headers={"a.test": {"X-Key": value}})

        assert SECRET not in str(caught.value) + repr(caught.value)


# Limits


QUICK = EgressLimits(head_s=0.2, connect_s=0.2, idle_s=0.2, linger_s=0.2)


def test_a_head_that_comes_too_slowly_is_refused() -> None:
    async def trickle() -> bytes:
        async with world(limits=QUICK) as here:
            reader, writer = await here.open()

            async def drip() -> None:
                for byte in GET * 9:
                    writer.write(bytes([byte]))
                    await asyncio.sleep(0.05)

            dripping = asyncio.create_task(drip())
            try:
                return await reader.readuntil(b"\n\r\n") + await reader.readline()
            finally:
                dripping.cancel()

    assert asyncio.run(trickle()) == _refused(408, "head-timeout", "the request head did not arrive within 0.2 s")


def test_a_host_that_takes_too_long_to_connect_is_given_up() -> None:
    async def never(host: str) -> Sequence[Address]:
        await asyncio.sleep(60)
        return []

    async def never_connect(address: Address, port: int, tls: Tls | None) -> Stream:
        if address.version == 4:
            await asyncio.sleep(60)
        raise TimeoutError

    async def resolve(host: str) -> Sequence[Address]:
        return [ipaddress.ip_address("::1"), LOOPBACK]

    async def ask() -> list[bytes]:
        answers = []
        for resolver, connector in ((never, connect), (resolve, never_connect)):
            listener = socket.create_server(("127.0.0.1", 0))
            proxy = EgressProxy(
                listener, PLAIN, resolver=resolver, connector=connector, address_allowed=bool, limits=QUICK
            )
            await proxy.start()
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            writer.write(GET)
            answers.append(await reader.read())
            writer.transport.abort()
            await proxy.close()
        return answers

    refusal = _refused(504, "connect-timeout", "example.org:80 did not answer within 0.2 s")
    assert asyncio.run(ask()) == [refusal, refusal]


def test_an_address_that_does_not_answer_leaves_time_for_the_next() -> None:
    dead = ipaddress.ip_address("192.0.2.1")

    async def ask() -> bytes:
        limits = EgressLimits(connect_s=0.4)
        async with world(answers=[[dead, LOOPBACK]], dead_hangs=True, limits=limits) as here:
            return await here.ask(GET)

    assert asyncio.run(ask()).endswith(b"hi")


def test_a_host_that_says_nothing_is_given_up() -> None:
    answer = asyncio.run(_ask(GET, plain=_silence, limits=QUICK))

    assert answer == _refused(504, "idle-timeout", "example.org:80 sent nothing for 0.2 s")


def test_an_idle_tunnel_is_reset_and_is_no_refusal() -> None:
    async def idle() -> tuple[Refusal, ...]:
        async with world(plain=_silence, limits=QUICK) as here:
            reader, _ = await here.tunnel()
            with pytest.raises(ConnectionResetError):
                await asyncio.wait_for(reader.read(), 5)
            return here.proxy.refusals

    assert asyncio.run(idle()) == ()


def test_a_tunnel_that_moves_in_one_direction_is_not_idle() -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(8):
            writer.write(b".")
            await asyncio.sleep(0.1)

    async def listen() -> bytes:
        async with world(plain=drip, limits=QUICK) as here:
            reader, writer = await here.tunnel()
            answer = await reader.readexactly(8)
            writer.transport.abort()
            return answer

    assert asyncio.run(listen()) == b"........"


def test_the_meter_lets_the_last_byte_through_and_not_one_more() -> None:
    meter = Meter(10)
    meter.send(4)
    meter.receive(6)

    with pytest.raises(ProxyRefusal):
        meter.receive(1)

    assert (meter.sent, meter.received, meter.left) == (4, 6, 0)


@pytest.mark.parametrize(("size", "passes"), [(500, True), (501, False)])
def test_bytes_pass_up_to_the_limit_and_not_one_more(size: int, passes: bool) -> None:
    async def send() -> tuple[bytes, bytes, int]:
        async with world(plain=_echo, limits=EgressLimits(total_bytes=1000)) as here:
            reader, writer = await here.tunnel()
            writer.write(bytes(size))
            try:
                answer = await reader.readexactly(size)
                writer.transport.abort()
            except (ConnectionResetError, asyncio.IncompleteReadError):
                answer = b""
            used = here.proxy.sent_bytes + here.proxy.received_bytes
            return answer, await here.ask(GET), used

    answer, then, used = asyncio.run(send())

    assert (answer == bytes(size), used <= 1000) == (passes, True)
    if passes:
        assert used == 1000
        assert then == _refused(
            403,
            "byte-limit",
            "this sandbox has used up its 1000 bytes of network traffic; allow more with EgressLimits(total_bytes=...)",
        )


def test_a_body_beyond_what_is_left_is_refused_before_anyone_is_connected_to() -> None:
    async def post() -> tuple[bytes, tuple[Refusal, ...], list[str]]:
        async with world(limits=EgressLimits(total_bytes=1000)) as here:
            answer = await here.ask(b"POST http://example.org/ HTTP/1.1\r\nContent-Length: 1001\r\n\r\n")
            return answer, here.proxy.refusals, here.resolved

    answer, refusals, resolved = asyncio.run(post())

    assert answer == _refused(
        413,
        "body-too-large",
        "a body of 1001 bytes is more than the 1000 bytes of network traffic "
        "that this sandbox has left; allow more with EgressLimits(total_bytes=...)",
    )
    assert refusals == (Refusal(host="example.org", port=80, reason="body-too-large", count=1),)
    assert resolved == []


def test_forwarded_heads_and_bodies_are_counted() -> None:
    server = Server()

    async def ask() -> tuple[int, int]:
        async with world(plain=server) as here:
            await here.ask(b"POST http://example.org/ HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello")
            return here.proxy.sent_bytes, here.proxy.received_bytes

    assert asyncio.run(ask()) == (len(server.requests[0]), len(server.answer))


def test_more_connections_than_slots_wait_for_their_turn() -> None:
    most = 0
    now = 0

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal most, now
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.02)
        now -= 1
        await Server()(reader, writer)

    async def ask() -> list[bytes]:
        async with world(plain=count, limits=EgressLimits(connection_count=3)) as here:
            return await asyncio.gather(*(here.ask(GET) for _ in range(30)))

    answers = asyncio.run(ask())

    assert {answer[-2:] for answer in answers} == {b"hi"}
    assert 1 < most <= 3


def test_connections_that_say_nothing_give_their_slots_back() -> None:
    async def ask() -> bytes:
        limits = dataclasses.replace(QUICK, connection_count=2)
        async with world(limits=limits) as here:
            for _ in range(4):
                await here.open()
            return await here.ask(GET)

    assert asyncio.run(ask()).endswith(b"hi")


def test_after_a_burst_connections_are_accepted_at_the_rate() -> None:
    async def ask() -> float:
        async with world(limits=EgressLimits(connections_per_s=20)) as here:
            started = time.monotonic()
            await asyncio.gather(*(here.ask(b"\r\n\r\n") for _ in range(30)))
            return time.monotonic() - started

    assert 0.3 < asyncio.run(ask()) < 5


def test_a_limit_of_zero_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="^idle_s: must be above 0, not 0$"):
        EgressLimits(idle_s=0)


# The end


def test_close_drops_everything_at_once() -> None:
    dropped: list[str] = []

    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.read(65536):
                pass
            dropped.append("ended")
        except ConnectionResetError:
            dropped.append("reset")

    async def close() -> tuple[list[str], float]:
        async with world(plain=keep) as here:
            held = [
                await here.tunnel(),
                await here.open(GET),
                await here.open(b"GET http"),
                await here.open(),
            ]
            await asyncio.sleep(0.1)
            started = time.monotonic()
            await here.proxy.close()
            await here.proxy.close()
            took = time.monotonic() - started
            ends = []
            for reader, _ in held:
                try:
                    ends.append((await asyncio.wait_for(reader.read(), 1)).decode())
                except ConnectionResetError:
                    ends.append("reset")
            with pytest.raises(ConnectionRefusedError):
                await here.open()
            await asyncio.sleep(0.1)
            with pytest.raises(RuntimeError):
                await here.proxy.start()
            return ends, took

    ends, took = asyncio.run(close())

    assert ends == ["reset"] * 4
    assert dropped == ["reset", "reset"]
    assert took < 0.5


def test_nothing_is_left_open_behind() -> None:
    async def use() -> tuple[int, int]:
        before = len(os.listdir("/proc/self/fd"))
        async with world(limits=QUICK) as here:
            await here.tunnel()
            for raw in (GET, b"\r\n\r\n", b"CONNECT a.test:443 HTTP/1.1\r\n\r\n") * 5:
                await here.ask(raw)
        await asyncio.sleep(0.3)
        return before, len(os.listdir("/proc/self/fd"))

    before, after = asyncio.run(use())

    assert after <= before + 1  # the guest's end of the tunnel


@pytest.fixture(autouse=True)
def no_complaint_of_asyncio(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """An exception that nobody took, or a task that was never awaited, is a fault of the proxy."""
    yield
    complaints = [
        record.getMessage()
        for record in caplog.get_records("call")
        if record.levelno >= logging.ERROR and "incoming connection" not in record.getMessage()  # a server's
    ]
    assert complaints == []
