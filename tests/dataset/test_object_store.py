"""Parts of a build in an object store: a shared folder, and a bucket of a server that speaks S3."""

import asyncio
import contextlib
import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from dataset_fakes import FakeRunner, prove, tell

from groundbox.dataset import object_store, sample_files
from groundbox.dataset.build import CARD, PAGE, Tools, build
from groundbox.dataset.executor import LocalExecutor
from groundbox.dataset.object_store import Objects, ObjectsFailed, PartDamaged
from groundbox.dataset.options import BuildOptions
from groundbox.errors import InvalidArgument

pytest.importorskip("obstore", reason="obstore is not installed (extra `s3`)")
HERE = Path(__file__).parent
KILLED = HERE / "killed_build.py"
FINAL = (*sample_files.FILES, CARD, PAGE)
NOTHING = hashlib.sha256().hexdigest()


class Inline(LocalExecutor):
    """Computes in this process, which is quicker for little work."""

    async def compute(self, work, shard):
        return work(shard)


@pytest.fixture(params=["folder", "bucket"])
def place(request, tmp_path):
    """Where parts can be kept."""
    if request.param == "folder":
        yield str(tmp_path / "parts")
        return
    server = request.getfixturevalue("s3")
    yield server(tmp_path.name.replace("_", "-").lower()[:40].strip("-"))


@pytest.fixture(scope="module")
def s3():
    """Makes a bucket on a server of S3, and gives the URL of a prefix in it."""
    moto = pytest.importorskip("moto.server", reason="moto[server] is not installed, which stands for S3")
    import boto3

    server = moto.ThreadedMotoServer(port=0)
    server.start()
    url = "http://{}:{}".format(*server.get_host_and_port())
    own = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
    before = dict(os.environ)
    os.environ.update({**own, "AWS_ENDPOINT_URL": url, "AWS_ALLOW_HTTP": "true"})
    client = boto3.client("s3", endpoint_url=url, region_name="us-east-1")

    def bucket(name):
        client.create_bucket(Bucket=name)
        return f"s3://{name}/builds/one"

    yield bucket
    os.environ.clear()
    os.environ.update(before)
    server.stop()


def problems(folder, count):
    path = folder / "many.jsonl"
    with path.open("w") as file:
        for number in range(count):
            body = "".join(f"    x = x * {(number * 7 + line) % 5 + 2} + {line}\n" for line in range(5))
            row = {"id": f"p{number}", "source": f"def f(x):\n{body}    return [x, {number}]\n", "entry": "f"}
            file.write(json.dumps({**row, "cases": [{"args": [number + at]} for at in range(4)]}) + "\n")
    return path


def built(out, path, place=None, runner=None, seed=0):
    made = Tools(runner=runner or FakeRunner(), executor=Inline(2), narrator=tell, prover=prove, parts=place)
    return asyncio.run(build(BuildOptions(problems=(path,), seed=seed), out, made))


def contents(out):
    return {name: (out / name).read_bytes() for name in FINAL}


def killed_at(parts, path, out, place):
    """A build that is killed once so many of its parts are kept."""
    driver = subprocess.Popen([sys.executable, KILLED, path, out, "2", place], stderr=subprocess.PIPE)
    while driver.poll() is None and len(list((out / ".shards").glob("run-*.jsonl"))) < parts:
        time.sleep(0.01)
    driver.kill()
    _, errors = driver.communicate()
    assert driver.returncode == -9, errors.decode()


def test_the_first_writer_of_a_part_wins_and_the_second_takes_its_part(place):
    with object_store.opened(place, {"seed": 0}) as opened:
        first = opened.put("run", 3, {"traces": b"t", "jsonl": b"first"})
        second = opened.put("run", 3, {"traces": b"t", "jsonl": b"second"})

        assert first == second == opened.get("run", 3, ["traces", "jsonl"]) == {"traces": b"t", "jsonl": b"first"}
        assert list(opened.parts()) == [("run", 3)]


def test_a_build_whose_machine_is_lost_goes_on_from_another_without_doing_anything_twice(place, tmp_path):
    path = problems(tmp_path, 24)
    built(tmp_path / "whole", path)
    killed_at(3, path, tmp_path / "lost", place)
    with contextlib.suppress(InvalidArgument):
        kept = {number for stage, number in Objects(place).parts() if stage == "run"}
    runner = FakeRunner()

    built(tmp_path / "other", path, place, runner)

    assert len(kept) >= 3
    assert runner.runs == 3 * 4 * 4 * (6 - len(kept))
    assert contents(tmp_path / "other") == contents(tmp_path / "whole")
    assert list(Objects(place).parts()) == []


def test_a_part_with_a_wrong_digest_is_refused_by_name_and_nothing_is_overwritten(tmp_path):
    path, place = problems(tmp_path, 24), tmp_path / "parts"
    killed_at(3, path, tmp_path / "lost", str(place))
    damaged = min(place.glob("run-*.part"))
    data = damaged.read_bytes()
    damaged.write_bytes(data[:-2] + b"?\n")
    before = {each.name: each.read_bytes() for each in place.glob("*.part")}

    with pytest.raises(PartDamaged, match=rf"{damaged.name} is not what was written there \(its jsonl has the digest"):
        built(tmp_path / "other", path, str(place))

    assert {each.name: each.read_bytes() for each in place.glob("*.part")} == before


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it does not begin as a part does"),
        (b"[]\n", "it does not begin as a part does"),
        (b'{"files": []}\n', "it does not begin as a part does"),
        (b'{"part": ["run", 0], "files": []}\n', "its files are not jsonl"),
        (b'{"part": ["run", 1], "files": []}\n', "it was written under another name"),
        (b'{"part": ["run", 0], "files": [["/../../out", 0, ""]]}\n', "its files are not jsonl"),
        (f'{{"part": ["run", 0], "files": [["jsonl", -9, "{NOTHING}"]]}}\nmore'.encode(), "it has 4 bytes of files"),
    ],
)
def test_what_is_no_part_or_another_one_is_refused(tmp_path, data, why):
    (tmp_path / "run-000000.part").write_bytes(data)

    with pytest.raises(PartDamaged, match=why):
        Objects(str(tmp_path)).get("run", 0, ["jsonl"])


def test_a_part_that_was_copied_to_another_name_ends_the_build_that_finds_it(tmp_path):
    path, place = problems(tmp_path, 24), tmp_path / "parts"
    killed_at(3, path, tmp_path / "lost", str(place))
    first, second = sorted(place.glob("run-*.part"))[:2]
    second.write_bytes(first.read_bytes())

    with pytest.raises(PartDamaged, match=rf"{second.name} .*it was written under another name"):
        built(tmp_path / "other", path, str(place))


@pytest.mark.parametrize("name", ["mine.part", "run-one.part", "run-1.part"])
def test_an_object_that_is_called_as_a_part_and_is_none_is_named(tmp_path, name):
    (tmp_path / name).write_bytes(b"")

    with pytest.raises(PartDamaged, match=f"{name} is not what was written there .no part has this name"):
        list(Objects(str(tmp_path)).parts())


def test_a_driver_that_was_taken_over_from_removes_no_parts_of_the_other(tmp_path, monkeypatch):
    monkeypatch.setattr(object_store, "_BEAT_S", 0.05)
    place = str(tmp_path)
    with object_store.opened(place, {"seed": 0}) as first:
        first.put("run", 0, {"jsonl": b""})
        later = first._lease.told().replace(b'"beats"', b'"more"')
        (tmp_path / "driver-000002").write_bytes(later)
        while not first._lease.later:
            time.sleep(0.01)

        first.clear()

        assert list(first.parts()) == [("run", 0)]


@pytest.mark.parametrize("data", [b"", b"[]", b"{}"])
def test_a_note_of_a_driver_that_is_none_is_named_and_the_driver_at_work_goes_on(tmp_path, monkeypatch, data):
    monkeypatch.setattr(object_store, "_BEAT_S", 0.05)
    with object_store.opened(str(tmp_path), {"seed": 0}) as opened:
        (tmp_path / "driver-000002").write_bytes(data)
        before = opened._lease._beats
        while opened._lease._beats < before + 3:
            time.sleep(0.01)

        with (
            pytest.raises(PartDamaged, match="driver-000002 is not what was written there .it tells of no driver"),
            object_store.opened(str(tmp_path), {"seed": 0}),
        ):
            pass


def test_two_drivers_in_one_place_are_refused_and_the_first_one_is_named(place, tmp_path):
    path = problems(tmp_path, 4)

    with (
        object_store.opened(place, {"seed": 0}),
        pytest.raises(InvalidArgument, match=f"another build is at work in .*: process {os.getpid()} of "),
        object_store.opened(place, {"seed": 0}),
    ):
        pass
    with object_store.opened(place, {"seed": 0}):
        pass  # the first one has ended
    assert path.exists()


def test_a_driver_of_another_machine_that_is_still_is_taken_over_from_and_then_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(object_store, "_BEAT_S", 0.2)
    monkeypatch.setattr(object_store, "_STILL_S", 1.0)
    here = object_store._machine()
    place, told = str(tmp_path / "parts"), {"machine": "another"}
    with object_store.opened(place, {}) as first:
        monkeypatch.setattr(object_store, "_machine", lambda: told["machine"])
        first._lease._ends.set()  # as if it were frozen
        first._lease._thread.join()
        told["machine"] = here

        with object_store.opened(place, {}) as second:
            thawed = object_store._Lease(first, first._lease.name)
            first._lease = thawed
            thawed.start()
            while not thawed.later:
                time.sleep(0.01)
            with pytest.raises(InvalidArgument, match=f"another build has taken over .*: process {os.getpid()} of "):
                first.put("run", 0, {"jsonl": b""})
            assert second.put("run", 0, {"jsonl": b"second"}) == {"jsonl": b"second"}


def test_other_arguments_in_a_place_are_refused_and_named_and_so_is_something_else(place, tmp_path):
    path = problems(tmp_path, 4)
    built(tmp_path / "one", path, place)

    with pytest.raises(InvalidArgument, match=r"holds a build with other arguments \(seed: 0 there, 1 here\)"):
        built(tmp_path / "two", path, place, seed=1)

    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "thesis.txt").write_text("years of work")
    with pytest.raises(InvalidArgument, match="is not empty, and no build of ours"):
        built(tmp_path / "three", path, str(tmp_path / "else"))


class Full(BaseHTTPRequestHandler):
    """A bucket with room for the driver's own objects and no part."""

    protocol_version = "HTTP/1.1"
    held = {}

    def do_PUT(self):
        name, data = self.path.rpartition("/")[2], self.rfile.read(int(self.headers["Content-Length"]))
        if name.endswith(".part"):
            self._answer(403, b"<Error><Code>QuotaExceeded</Code><Message>the bucket is full</Message></Error>")
        else:
            self.held[name] = data
            self._answer(200, b"")

    def do_GET(self):
        name = self.path.rpartition("/")[2]
        if "list-type" in self.path:
            found = "".join(
                f"<Contents><Key>p/{each}</Key><Size>1</Size><ETag>e</ETag>"
                "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
                for each in self.held
            )
            self._answer(200, f"<ListBucketResult>{found}</ListBucketResult>".encode())
        else:
            self._answer(200, self.held[name])

    def _answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"e"')
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_a_store_that_is_full_ends_the_build_with_its_reason_and_the_build_goes_on_elsewhere(tmp_path, monkeypatch):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Full)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    own = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
    for name, value in {**own, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    path = problems(tmp_path, 8)

    with pytest.raises(ObjectsFailed, match=r"run-00000\d.part cannot be written: .*the bucket is full.* is kept"):
        built(tmp_path / "out", path, "s3://bucket/p")
    server.shutdown()
    server.server_close()
    built(tmp_path / "out", path, str(tmp_path / "parts"))
    built(tmp_path / "whole", path)

    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_a_place_that_is_none_is_named():
    with pytest.raises(InvalidArgument, match="--parts: ftp://"):
        Objects("ftp://example.org/parts")
