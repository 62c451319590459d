"""Memory of the server for one body: what it takes at its peak, and that it is given back without a collection."""

import base64
import contextlib
import io
import json
import os
import struct
import sys
import zipfile
import zlib

import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed here")
if sys.platform != "linux":
    pytest.skip("peaks are read from Linux's /proc", allow_module_level=True)

from starlette.requests import Request

from groundbox.server import bodies, forms
from groundbox.server.refusals import Refused
from groundbox.testing.base import until

from .conftest import EVERY_PROTOCOL, serving

MIB = 1024 * 1024
BODY_MIB = 48
MULTIPART = {"Content-Type": "multipart/form-data; boundary=x"}
GZIP = {"Content-Type": "application/octet-stream", "Content-Encoding": "gzip"}


def part(name, file_name, data):
    named = b"" if file_name is None else b'; filename="' + file_name + b'"'
    return b'--x\r\nContent-Disposition: form-data; name="' + name + b'"' + named + b"\r\n\r\n" + data + b"\r\n"


def form(*parts):
    return b"".join(part(*each) for each in parts) + b"--x--\r\n"


def random_bytes(size_mib):
    return os.urandom(MIB) * size_mib


def gzipped(data):
    packer = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    return packer.compress(data) + packer.flush()


def submission(archive):
    files = base64.b64encode(archive).decode()
    return json.dumps({"language_id": 71, "source_code": "1", "additional_files": files}).encode()


def archive_of_a_file():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.bin", random_bytes(BODY_MIB * 3 // 4))
    return packed.getvalue()


def archive_of_names():
    """A ZIP archive whose list has as many names as fit, and no files."""
    count = BODY_MIB * MIB * 3 // 4 // 47
    entry = b"PK\1\2" + struct.pack("<6H3I5H2I", 20, 20, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + b"a"
    return entry * count + b"PK\5\6" + struct.pack("<4H2IH", 0, 0, count & 0xFFFF, count & 0xFFFF, 47 * count, 0, 0)


BODIES = {
    "form with a file": ("/files?path=a", lambda: form((b"file", b"a", random_bytes(BODY_MIB))), MULTIPART),
    "form with a field": ("/files?path=a", lambda: form((b"file", None, random_bytes(BODY_MIB))), MULTIPART),
    "form with another field": ("/files?path=a", lambda: form((b"other", None, random_bytes(BODY_MIB))), MULTIPART),
    "gzip": ("/files?path=a", lambda: gzipped(random_bytes(BODY_MIB)), GZIP),
    "file of LibreChat": ("/upload", lambda: form((b"file", b"a", random_bytes(BODY_MIB))), MULTIPART),
    "archive of a file": ("/submissions?wait=true", lambda: submission(archive_of_a_file()), {}),
    "archive of names": ("/submissions", lambda: submission(archive_of_names()), {}),
}


def status_mib(pid, name):
    with open(f"/proc/{pid}/status") as lines:
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


@pytest.fixture(scope="module")
def exact_server(tmp_path_factory):
    """A server without collections, whose allocator returns freed buffers to the kernel at once."""
    environ = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    log = tmp_path_factory.mktemp("memory") / "log"
    with serving(log, *EVERY_PROTOCOL, environ=environ, before="import gc; gc.disable()") as server:
        server.run("1")
        yield server


@pytest.mark.parametrize("name", BODIES)
def test_a_body_takes_at_most_twice_its_bytes(exact_server, name):
    path, make, headers = BODIES[name]
    body = make()
    with exact_server.client() as client:
        client.timeout = 600
        box = client.post("/v2/sandboxes", json={"templateID": "base"}).json()["sandboxID"]
        pid = exact_server.process.pid
        before = status_mib(pid, "VmRSS")
        with open(f"/proc/{pid}/clear_refs", "w") as file:
            file.write("5")
        client.headers["Content-Type"] = "application/json"
        reply = client.post(path, content=body, headers={"E2b-Sandbox-Id": box, **headers})
        peak_mib = status_mib(pid, "VmHWM") - before

    assert reply.status_code in (200, 201, 400, 422), reply.text[:300]
    assert peak_mib < 2 * len(body) / MIB + 16, (reply.status_code, reply.text[:300])


def test_a_refused_body_is_given_back_without_a_collection_while_its_connection_stays_open(exact_server):
    body = b'{"code":"1","environment":"' + b"a" * (24 * MIB) + b'"}'
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(exact_server.client()) for _ in range(4)]
        before = status_mib(exact_server.process.pid, "VmRSS")
        replies = {each.post("/v1/run", content=body, timeout=600).status_code for each in clients}
        assert until(lambda: status_mib(exact_server.process.pid, "VmRSS") - before < 12)

    assert replies == {400}


def request_of(data, headers, room=lambda size: None, piece_bytes=MIB):
    """A request whose body comes in pieces."""
    pieces = [data[at : at + piece_bytes] for at in range(0, len(data), piece_bytes)] or [b""]

    async def receive():
        piece = pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "headers": raw, bodies.ROOM: room}, receive)


@pytest.mark.parametrize("piece_bytes", [1, 1000, MIB])
@pytest.mark.parametrize(
    "data", [b"", b"a", b"\0" * 3_000_001, os.urandom(20_000)], ids=["empty", "a", "zeros", "random"]
)
async def test_what_a_compressed_body_becomes_takes_room(data, piece_bytes):
    taken = []
    unpacked = await bodies.read_unpacked(request_of(gzipped(data), GZIP, taken.append, piece_bytes), 4 * MIB)

    assert bytes(unpacked) == data
    assert sum(taken) == len(data)


async def test_a_body_is_unpacked_no_further_than_there_is_room():
    taken = 0

    def room(size):
        nonlocal taken
        taken += size
        if taken > 2 * MIB:
            raise Refused(503, "busy", "no room")

    with pytest.raises(Refused) as full:
        await bodies.read_unpacked(request_of(gzipped(b"\0" * (64 * MIB)), GZIP, room), 256 * MIB)
    with pytest.raises(Refused) as large:
        await bodies.read_unpacked(request_of(gzipped(b"\0" * (64 * MIB)), GZIP), 8 * MIB)

    assert full.value.status == 503
    assert taken < 3 * MIB
    assert large.value.status == 413


@pytest.mark.parametrize("data", [gzipped(b"abc")[:-1], gzipped(b"abc") + b"x", b"abc"], ids=["cut", "longer", "none"])
async def test_a_compressed_body_that_is_not_one_whole_stream_is_refused(data):
    with pytest.raises(Refused) as refused:
        await bodies.read_unpacked(request_of(data, GZIP), MIB)
    assert refused.value.status == 400


async def test_a_form_is_read_alike_however_it_is_cut():
    data = form(
        (b"a", None, b"1\r\n--\r\n"),
        (b"file", "é\udcff".encode("utf-8", "surrogateescape"), b"\xff"),
        (b"file", b"", b""),
    )
    for piece_bytes in (1, 7, 1000):
        parts = await forms.read_form(
            request_of(data, MULTIPART, piece_bytes=piece_bytes), wanted=("a", "file"), most_parts=3
        )
        assert [(each.name, each.raw_file_name, bytes(each.data)) for each in parts] == [
            ("a", None, b"1\r\n--\r\n"),
            ("file", b"\xc3\xa9\xff", b"\xff"),
            ("file", b"", b""),
        ]
    files = await forms.read_form(request_of(data, MULTIPART), wanted=None, most_parts=3)
    assert [each.name for each in files] == ["file", "file"]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (form(*[(b"a", None, b"")] * 4), MULTIPART),
        (form((b"a", None, b""))[:-4], MULTIPART),
        (b"--x\r\nContent-Disposition: form-data\r\n\r\n\r\n--x--\r\n", MULTIPART),
        (b"--x\r\n" + b"a" * 5000 + b": b\r\n\r\n\r\n--x--\r\n", MULTIPART),
        (b"", MULTIPART),
        (form((b"a", None, b"")), {"Content-Type": "multipart/form-data"}),
        (b"a=b", {"Content-Type": "application/x-www-form-urlencoded"}),
    ],
    ids=["too many parts", "cut", "no name", "long header", "empty", "no boundary", "urlencoded"],
)
async def test_a_form_that_cannot_be_read_is_refused(data, kind):
    with pytest.raises(Refused) as refused:
        await forms.read_form(request_of(data, kind), wanted=None, most_parts=3)
    assert refused.value.status == 400
