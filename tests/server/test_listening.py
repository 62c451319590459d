"""Sockets to listen on, and what one connection may hold before it has shown a key."""

import asyncio
import contextlib
import os
import shutil
import socket
import stat
import tempfile
import threading
import time
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

pytest.importorskip("starlette", reason="the extra `server` is not installed here")

from groundbox.errors import EngineUnavailable, InvalidArgument
from groundbox.remote import engine
from groundbox.server import listening
from groundbox.server.listening import bound, bound_unix, mark_of, withdraw_unix

from .conftest import serving

HTTP: Any = AutoHTTPProtocol


async def app(scope, receive, send):
    """Answers with what `path` says: so many bytes, after the body has come."""
    if scope["type"] == "lifespan":
        while (message := await receive())["type"] != "lifespan.shutdown":
            await send({"type": f"{message['type']}.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    while (await receive()).get("more_body"):
        pass
    size = int(scope["path"].strip("/") or 2)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(size).encode())]})
    for begun in range(0, size, 1 << 20):
        await send({"type": "http.response.body", "body": b"x" * min(1 << 20, size - begun), "more_body": True})
    await send({"type": "http.response.body", "body": b""})


class Served:
    """`app` on a free port, in a thread of its own."""

    def __init__(self, **options):
        self._listening = bound("127.0.0.1", 0, may_be_public=False, secret="S")
        self.port = self._listening.getsockname()[1]
        self._options, self._ready = options, threading.Event()
        self._thread = threading.Thread(target=self._go)

    def _go(self):
        async def serve():
            self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
            config = uvicorn.Config(
                app, http=listening._Bounded, loop="asyncio", log_config=None, timeout_keep_alive=1, lifespan="on"
            )
            server = uvicorn.Server(config)
            vars(server)["capture_signals"] = contextlib.nullcontext
            task = asyncio.ensure_future(server.serve(sockets=[self._listening]))
            while not server.started:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            self._ready.set()
            await self._stop.wait()
            server.should_exit = server.force_exit = True
            await task

        asyncio.run(serve())

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(20)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)

    def connect(self, sent=b"", *, receive_bytes=None):
        peer = socket.socket()
        if receive_bytes:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        peer.connect(("127.0.0.1", self.port))
        peer.settimeout(20)
        peer.sendall(sent)
        return peer


@pytest.fixture
def served(monkeypatch):
    monkeypatch.setattr(listening._Bounded, "stalled_s", 1.0)
    with Served() as there:
        yield there


def all_of(peer):
    """What comes until the connection ends; an end by RST is one, too."""
    parts = []
    try:
        while part := peer.recv(1 << 20):
            parts.append(part)
    except ConnectionError:
        pass
    return b"".join(parts)


def sent_until_cut(peer, data, *, every_s=0.001):
    """Whether the server hung up on one that sends and sends."""
    deadline = time.monotonic() + 20
    for _ in range(1000):
        if time.monotonic() > deadline:
            return False
        try:
            peer.sendall(data)
        except ConnectionError:
            return True
        time.sleep(every_s)
    return False


def is_open(peer):
    peer.setblocking(False)
    try:
        return peer.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False
    finally:
        peer.setblocking(True)


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"POST / HTTP/1.1\r\nHost: x\r\nX-A: 1\r\n"])
def test_a_connection_that_brings_no_whole_head_is_closed(served, sent):
    begun = time.monotonic()

    told = all_of(served.connect(sent))

    assert told == b""
    assert time.monotonic() - begun < 15


def test_a_head_that_comes_byte_by_byte_is_given_up(served):
    peer, begun = served.connect(b"GET / HTTP/1.1\r\nHost: x\r\nX-A: "), time.monotonic()

    cut = sent_until_cut(peer, b"a", every_s=0.1)

    assert cut
    assert time.monotonic() - begun < 15


@pytest.mark.parametrize("start", [b"GET / HTTP/1.1\r\nHost: x\r\nX-A: ", b"GET /", b"GET / HTTP/1.1\r\nX-"])
def test_a_head_without_end_is_refused(served, start):
    peer = served.connect(start)

    assert sent_until_cut(peer, b"a" * 16384)


@pytest.mark.parametrize("tail", [b"0\r\nX-A: ", b"0\r\n", b"1;"], ids=["trailer", "many trailers", "extension"])
def test_what_follows_a_body_without_end_is_cut(served, tail):
    peer = served.connect(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + tail)
    more = b"X-A: 1\r\n" * 2048 if tail == b"0\r\n" else b"a" * 16384

    assert sent_until_cut(peer, more)


def test_a_large_head_within_the_bound_is_answered(served):
    told = all_of(served.connect(b"GET / HTTP/1.1\r\nHost: x\r\nX-A: " + b"a" * 40_000 + b"\r\n\r\n"))

    assert told.endswith(b"\r\n\r\nxx")


@pytest.mark.skipif(not hasattr(HTTP, "on_body"), reason="h11 reads one request after another")
def test_requests_that_are_sent_ahead_are_few(served):
    request = b"GET /2 HTTP/1.1\r\nHost: a\r\n\r\n"
    with served.connect(request * 16 + request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")) as peer:
        assert all_of(peer).count(b"HTTP/1.1 200") == 17
    with served.connect(request * 100) as peer:
        assert all_of(peer).count(b"HTTP/1.1 200") < 17


@pytest.mark.skipif(not hasattr(HTTP, "on_body"), reason="h11 hands on the chunks itself")
def test_a_body_of_many_chunks_is_read_in_small_pieces_and_handed_on_in_few(served, monkeypatch):
    read, handed_on = [], []
    data_received, on_body = listening._Bounded.data_received, HTTP.on_body

    def count_read(self, data):
        read.append(len(data))
        data_received(self, data)

    def count_handed_on(self, body):
        handed_on.append(len(body))
        on_body(self, body)

    monkeypatch.setattr(listening._Bounded, "data_received", count_read)
    monkeypatch.setattr(HTTP, "on_body", count_handed_on)
    head = b"POST /2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    with served.connect(head + b"1\r\na\r\n" * 200_000 + b"0\r\n\r\n") as peer:
        assert all_of(peer).endswith(b"\r\n\r\nxx")

    assert max(read) <= 16 * 1024
    assert sum(handed_on) == 200_000
    assert len(handed_on) <= len(read)


def test_a_large_body_is_no_head(served):
    body = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n" + b"a" * 1_000_000

    assert all_of(served.connect(body)).endswith(b"\r\n\r\nxx")


def test_a_reader_who_takes_nothing_is_cut(served):
    peer = served.connect(b"GET /50000000 HTTP/1.1\r\nHost: x\r\n\r\n", receive_bytes=4096)

    time.sleep(8)

    assert len(all_of(peer)) < 50_000_000


def test_a_reader_who_is_slow_gets_all_of_it(served):
    peer = served.connect(b"GET /12000000 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", receive_bytes=65536)

    size = 0
    while part := peer.recv(1 << 20):
        size += len(part)
        time.sleep(len(part) / 2_000_000)  # some six seconds in all

    assert size > 12_000_000


def test_connections_are_bounded_by_what_the_process_may_open(served, monkeypatch):
    monkeypatch.setattr(listening, "_most_connections", lambda: 5)

    peers = [served.connect() for _ in range(8)]
    time.sleep(0.5)
    still_open = sum(map(is_open, peers))
    for peer in peers:
        peer.close()

    assert still_open == 5


def test_a_unix_socket_is_for_its_owner_alone_whatever_the_umask(tmp_path):
    former = os.umask(0)
    try:
        with bound_unix(tmp_path / "s"):
            mode = stat.S_IMODE(os.lstat(tmp_path / "s").st_mode)
    finally:
        os.umask(former)

    assert mode == 0o600


def test_a_socket_that_is_listened_on_is_not_taken(tmp_path):
    with bound_unix(tmp_path / "s"), pytest.raises(InvalidArgument, match="another process"):
        bound_unix(tmp_path / "s")


def test_a_deserted_socket_is_replaced_and_other_files_are_not(tmp_path):
    bound_unix(tmp_path / "s").close()
    (tmp_path / "file").write_text("kept")
    (tmp_path / "link").symlink_to(tmp_path / "file")

    bound_unix(tmp_path / "s").close()
    for name in ("file", "link"):
        with pytest.raises(InvalidArgument, match="cannot be listened on"):
            bound_unix(tmp_path / name)

    assert (tmp_path / "file").read_text() == "kept"
    assert (tmp_path / "link").is_symlink()


def test_of_many_that_start_at_once_one_listens(tmp_path):
    bound_unix(tmp_path / "s").close()
    got: list[socket.socket | InvalidArgument] = []
    start = threading.Barrier(8)

    def go():
        start.wait()
        try:
            got.append(bound_unix(tmp_path / "s"))
        except InvalidArgument as error:
            got.append(error)

    threads = [threading.Thread(target=go) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sockets = [each for each in got if isinstance(each, socket.socket)]
    for each in sockets:
        each.close()

    assert len(sockets) == 1


def test_who_ends_does_not_take_the_name_of_who_came_after(tmp_path):
    with bound_unix(tmp_path / "s") as first:
        mark = mark_of(tmp_path / "s")
        (tmp_path / "s").unlink()
        with bound_unix(tmp_path / "s"):
            withdraw_unix(tmp_path / "s", mark)
            stays = (tmp_path / "s").exists()
    withdraw_unix(tmp_path / "s", mark)

    assert first.fileno() == -1
    assert stays


def test_the_own_name_is_removed(tmp_path):
    with bound_unix(tmp_path / "s"):
        mark = mark_of(tmp_path / "s")

    withdraw_unix(tmp_path / "s", mark)

    assert not (tmp_path / "s").exists()


def first_line_as(user, path):
    """The first line that a process of another user is answered with, or the error that it gets."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setresuid(user, user, user)
            with socket.socket(socket.AF_UNIX) as peer:
                peer.settimeout(20)
                peer.connect(path)
                peer.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                os.write(writing, all_of(peer).split(b"\r\n")[0])
        except OSError as error:
            os.write(writing, type(error).__name__.encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as told:
        line = told.read().decode()
    os.waitpid(child, 0)
    return line


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_is_not_heard_even_where_the_socket_is_open_to_all():
    folder = tempfile.mkdtemp(dir="/tmp")
    os.chmod(folder, 0o755)
    try:
        with serving(f"{folder}/log", "--unix-socket", f"{folder}/s"):
            closed = first_line_as(65534, f"{folder}/s")
            os.chmod(f"{folder}/s", 0o666)
            opened, own = first_line_as(65534, f"{folder}/s"), first_line_as(0, f"{folder}/s")
    finally:
        shutil.rmtree(folder)

    assert (closed, own) == ("PermissionError", "HTTP/1.1 200 OK")
    assert opened in ("", "BrokenPipeError", "ConnectionResetError")


def test_a_folder_of_somebody_else_is_not_used_for_the_engine(tmp_path, monkeypatch):
    user = 54321
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))  # left over of who called `su`

    with pytest.raises(EngineUnavailable, match=f"/tmp/groundbox-{user}") as caught:
        engine.socket_path()
    os.rmdir(f"/tmp/groundbox-{user}")

    assert "is not this user's alone" in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.geteuid() == 0, reason="root's folder is the machine's")
def test_a_link_in_place_of_the_engines_folder_is_refused(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "groundbox").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    with pytest.raises(EngineUnavailable, match="is not this user's alone"):
        engine.socket_path()


def test_no_part_of_a_reply_waits_for_the_acknowledgement_of_another():
    with bound("127.0.0.1", 0, may_be_public=True, secret="A") as listening:
        asking = socket.create_connection(listening.getsockname())
        accepted, _ = listening.accept()

        with asking, accepted:
            assert accepted.proto == socket.IPPROTO_TCP  # by which asyncio sets TCP_NODELAY
