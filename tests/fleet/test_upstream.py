"""Connections of a gateway to one node, which is a socket here that says what it is told to."""

import asyncio
import contextlib
import time

import pytest

pytest.importorskip("httptools", reason="the extra `server` is not installed here")

from groundbox.fleet import upstream as upstreams
from groundbox.fleet.upstream import Broken, NotSent, Upstream
from groundbox.remote.transport import address_of

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Node:
    """A server whose connections are handled by a coroutine.

    Attributes:
        connections: How many were made.
    """

    def __init__(self, handle):
        self._handle = handle
        self.connections = 0

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.upstream = Upstream(address_of(f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"))
        return self

    async def __aexit__(self, *why):
        self.upstream.abort()
        self._server.close()

    async def _connected(self, reader, writer):
        self.connections += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await self._handle(reader, writer)
        writer.close()


async def head(reader):
    return await reader.readuntil(b"\r\n\r\n")


def answering(*answers):
    """Answer requests without a body by these, one after the other, on each connection."""

    async def handle(reader, writer):
        for answer in answers:
            await head(reader)
            writer.write(answer)
        await reader.read(1)

    return handle


async def whole(upstream, method="GET", body=b"", headers=(), **options):
    async with upstream.ask(method, b"/", headers, body, **options) as answer:
        return answer.status, dict(answer.headers), b"".join([part async for part in answer.parts()])


async def slowly(*parts, then_s=0.0):
    for part in parts:
        yield part
    await asyncio.sleep(then_s)


def run(scenario):
    return asyncio.run(asyncio.wait_for(scenario(), 20))


@pytest.mark.parametrize(
    ("method", "answer", "status", "body"),
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", 200, b""),
        ("DELETE", b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
        ("GET", b"HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n", 304, b""),
        ("GET", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", 200, b"abc"),
        ("GET", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + OK, 200, b"ok"),
    ],
)
def test_an_answer_without_a_body_ends_and_its_connection_is_kept(method, answer, status, body):
    async def scenario():
        async with Node(answering(answer, OK)) as node:
            first = await whole(node.upstream, method)
            second = await whole(node.upstream)
            return first, second, node.connections

    first, second, connections = run(scenario)

    assert (first[0], first[2]) == (status, body)
    assert second == (200, {b"content-length": b"2"}, b"ok")
    assert connections == 1


def test_a_node_that_answers_before_the_body_has_ended_is_heard_and_gets_nothing_else_on_that_connection():
    async def refuse(reader, writer):
        await head(reader)
        writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                rest.append(await reader.read())

    async def scenario():
        async with Node(refuse) as node:
            begun = time.monotonic()
            first = await whole(node.upstream, "PUT", slowly(b"some", then_s=10))
            took_s = time.monotonic() - begun
            second = await whole(node.upstream, "GET")
            return first[0], second[0], node.connections, took_s

    rest = []
    first, second, connections, took_s = run(scenario)

    assert (first, second, connections) == (404, 404, 2)
    assert took_s < 5
    assert all(b"GET" not in each for each in rest)


def test_a_body_that_nobody_takes_is_not_held_in_memory():
    taken = []

    async def endless():
        while True:
            taken.append(1)
            yield bytes(65536)

    async def deaf(reader, writer):
        reader._transport.pause_reading()
        await asyncio.sleep(1.0)

    async def scenario():
        async with Node(deaf) as node:
            with pytest.raises(Broken):
                await whole(node.upstream, "PUT", endless())

    run(scenario)

    assert len(taken) < 500  # some are in the kernel


def test_an_answer_that_nobody_reads_is_not_held_in_memory():
    sent = []

    async def flood(reader, writer):
        await head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % (1 << 30))
        while True:
            writer.write(bytes(65536))
            sent.append(65536)
            await writer.drain()

    async def scenario():
        async with Node(flood) as node, node.upstream.ask("GET", b"/", [], b"") as answer:
            await asyncio.sleep(0.5)
            held = sum(map(len, answer._held))
            parts = answer.parts()
            read = 0
            while read < 32 << 20:
                read += len(await anext(parts))
            return held

    held = run(scenario)

    assert held < 4 << 20
    assert sum(sent) < 64 << 20


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab", b"no HTTP at all\r\n\r\n"])
def test_a_node_that_hangs_up_is_told_from_one_that_was_not_reached(sent):
    async def hang_up(reader, writer):
        await head(reader)
        writer.write(sent)

    async def scenario():
        async with Node(hang_up) as node:
            with pytest.raises(Broken):
                await whole(node.upstream, "POST", b"{}")
            node._server.close()
            await node._server.wait_closed()
            with pytest.raises(NotSent):
                await whole(node.upstream, "POST", b"{}")
            return node.upstream.is_silent

    assert run(scenario) is True


def test_what_a_node_says_unasked_is_no_answer_to_the_next_request():
    async def chatty(reader, writer):
        await head(reader)
        writer.write(OK)
        await asyncio.sleep(0.1)
        writer.write(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n")
        await reader.read()

    async def scenario():
        async with Node(chatty) as node:
            first = await whole(node.upstream)
            await asyncio.sleep(0.3)
            second = await whole(node.upstream)
            return first[0], second[0], node.connections

    assert run(scenario) == (200, 200, 2)


def test_a_connection_over_which_nothing_was_heard_for_a_while_is_replaced(monkeypatch):
    monkeypatch.setattr(upstreams, "HEARD_S", 0.1)

    async def scenario():
        async with Node(answering(OK, OK, OK)) as node:
            await whole(node.upstream)
            await whole(node.upstream)
            before = node.connections
            await asyncio.sleep(0.2)
            await whole(node.upstream)
            return before, node.connections, len(node.upstream._open)

    assert run(scenario) == (1, 2, 1)


def test_what_could_go_elsewhere_is_given_up_and_all_else_waits():
    async def mute(reader, writer):
        await asyncio.sleep(30)

    async def scenario():
        async with Node(mute) as node:
            asked = [asyncio.ensure_future(whole(node.upstream, may_move=each)) for each in (True, False)]
            await asyncio.sleep(0.7)
            doubtful = node.upstream.is_doubtful
            node.upstream.give_up()
            done, waiting = await asyncio.wait(asked, timeout=0.5)
            told = node.upstream.is_silent, node.upstream.is_doubtful
            node.upstream.abort()
            results = await asyncio.gather(*asked, return_exceptions=True)
            return doubtful, done == {asked[0]}, waiting == {asked[1]}, told, [type(each) for each in results]

    assert run(scenario) == (True, True, True, (True, False), [Broken, Broken])


def test_a_client_that_leaves_hangs_up_on_the_node():
    gone = []

    async def slow(reader, writer):
        await head(reader)
        gone.append(await reader.read() == b"")

    async def scenario():
        async with Node(slow) as node:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(whole(node.upstream), 0.3)
            await asyncio.sleep(0.2)
            return len(node.upstream._open)

    assert run(scenario) == 0
    assert gone in ([True], [])  # reset, where the kernel tells it so


def test_a_node_with_an_address_of_version_6_is_named_as_hosts_are():
    assert Upstream(address_of("http://[::1]:8001"))._host == b"[::1]:8001"
