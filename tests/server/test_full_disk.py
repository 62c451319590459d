"""The host's full disk is a failure of the machine; a sandbox's own limit of files is a result of its program."""

import collections
import os
import time

import httpx
import pytest

from groundbox.limits import MiB
from groundbox.sandbox.output import Output

from .conftest import TOKEN, serving
from .disturbances import Filling

DISK_BYTES = 96 * MiB
WRITES = """
import time
total = 0
for n in range(6):
    with open(f"file-{n}", "wb") as file:
        file.write(b"x" * (1 << 20))
    time.sleep(0.05)
    total += len(open(f"file-{n}", "rb").read())
print(total)
"""
PRINTS = "import sys\nfor _ in range(12): sys.stdout.write('x' * (1 << 20))"


@pytest.fixture
def disk(small_disk, tmp_path):
    """A small disk for temporary files."""
    for parent in tmp_path.parents:  # guests of the backend landlock have user ids of their own
        if parent.stat().st_uid == os.geteuid() and str(parent).startswith("/tmp/"):
            parent.chmod(parent.stat().st_mode | 0o011)
    with small_disk(tmp_path / "disk", DISK_BYTES) as folder:
        yield folder


def ask(server, body):
    headers = {"Authorization": f"Bearer {TOKEN}"}
    return httpx.post(f"{server.url}/v1/run", json=body, headers=headers, timeout=120)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("backend", ["namespaces", "landlock"])
def test_no_right_program_is_scored_as_wrong_while_the_disk_of_the_host_is_full(backend, disk, tmp_path):
    environ = {"TMPDIR": str(disk)}
    waived = ["--waive", "uid"] if backend == "landlock" else []  # a guest's user id may not enter the environment
    with serving(tmp_path / "log", "--backend", backend, *waived, environ=environ) as server:
        deadline = time.monotonic() + 180
        while (ready := httpx.get(f"{server.url}/readyz")).status_code != 200:
            if time.monotonic() > deadline or "refusing" in ready.text:
                pytest.skip(f"{backend} runs nothing here: {ready.text}")
            time.sleep(0.2)
        limits = {"limits": {"disk_bytes": 16 * MiB}}
        answers, wrong = collections.Counter(), []
        with Filling(disk) as filling:
            while not wrong and (filling.count < 4 or not answers["right"]) and time.monotonic() < deadline + 60:
                for answer, right in (
                    (ask(server, {"code": PRINTS}), lambda told: told["outcome"] == "ok"),
                    (ask(server, {"code": WRITES, **limits}), lambda told: told["stdout"] == f"{6 << 20}\n"),
                ):
                    if answer.status_code == 503:
                        answers["refused"] += 1
                    elif answer.status_code == 200 and right(answer.json()):
                        answers["right"] += 1
                    else:
                        wrong.append((answer.status_code, answer.text[:500]))
        own = ask(server, {"code": "open('a', 'wb').write(b'x' * (2 << 20))", "limits": {"disk_bytes": MiB}})

    assert wrong == []
    assert answers["right"]
    assert bool(answers["refused"]) is (backend == "landlock")
    assert (own.status_code, own.json()["outcome"]) == (200, "error")
    assert own.json()["error"]["type"] == "OSError"


def test_output_over_its_limit_is_lost_and_counted_where_the_disk_takes_no_file(monkeypatch):
    def full(*_, **__):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    output = Output(10)
    output.add(b"0123456789")
    output.add(b"abcdefghij")

    assert (output.total_bytes, output.dropped_bytes, output.lost_bytes) == (20, 10, 20)
    assert output.text() == "01234\n… 10 bytes left out …\nfghij"
    assert output.read() == b""
