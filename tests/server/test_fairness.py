"""What one key can do to the others of a server: real servers, with two keys each."""

import contextlib
import json
import threading
import time
from types import SimpleNamespace

import httpx

from .conftest import serving


@contextlib.contextmanager
def shared(folder, *options):
    """A server with the keys of two users, as `ada` and `bob` (clients), and `owner`."""
    folder.mkdir(exist_ok=True)
    with serving(folder / "log", "--keys", folder / "keys.db", *options) as server, contextlib.ExitStack() as stack:
        owner = stack.enter_context(server.client())
        clients = {}
        for name in ("ada", "bob"):
            made = owner.post("/v1/keys", json={"owner": name, "scopes": ["run"]})
            clients[name] = stack.enter_context(server.client(made.json()["key"]))
        yield SimpleNamespace(server=server, owner=owner, **clients)


@contextlib.contextmanager
def in_background(count, work):
    """Do `work` in so many threads until the block ends; it must end when `stop` is set or its server ends."""
    stop = threading.Event()

    def repeat():
        while not stop.is_set():
            with contextlib.suppress(httpx.HTTPError):
                work()

    threads = [threading.Thread(target=repeat, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()


def metric(client, name):
    lines = client.get("/metrics").text.splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(name))


def wait_until(holds):
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_key_whose_programs_sleep_leaves_slots_to_another_key(tmp_path):
    with shared(tmp_path, "--at-once", 8) as there:
        sleep = {"code": "import time; time.sleep(600)", "limits": {"wall_s": 900}}
        with in_background(16, lambda: there.ada.post("/v1/run", json=sleep, timeout=600)):
            wait_until(lambda: metric(there.owner, "groundbox_runs_running ") == 4)
            answers = [there.bob.post("/v1/run", json={"code": "print(6 * 7)"}) for _ in range(3)]
            still = metric(there.owner, "groundbox_runs_running "), metric(there.owner, "groundbox_runs_waiting ")
            there.server.process.kill()

    assert [answer.json()["stdout"] for answer in answers] == ["42\n"] * 3
    assert still == (4, 12)


def test_a_key_that_keeps_sandboxes_leaves_room_to_another_key(tmp_path):
    with shared(tmp_path, "--sandboxes", 8) as there:
        statuses = [there.ada.post("/v1/sandboxes", json={}).status_code for _ in range(8)]
        other = [there.bob.post("/v1/sandboxes", json={}).status_code for _ in range(4)]

    assert statuses == [201] * 4 + [429] * 4
    assert other == [201] * 3 + [429]


def test_a_key_that_searches_its_output_keeps_no_thread_from_another_key(tmp_path):
    long_line = {"code": "print('x' * (30 << 20))", "limits": {"output_bytes": 64 << 20}, "mode": "script"}
    with shared(tmp_path) as there:
        paths = {
            name: f"/v1/executions/{client.post('/v1/run', json=long_line).json()['execution_id']}/search?text=yy"
            for name, client in (("ada", there.ada), ("bob", there.bob))
        }
        answered = []
        threads = [
            threading.Thread(target=lambda: answered.append(there.ada.get(paths["ada"]).status_code)) for _ in range(90)
        ]
        for thread in threads:
            thread.start()
        wait_until(lambda: answered)
        other = there.bob.get(paths["bob"])
        before = len(answered)
        for thread in threads:
            thread.join()

    assert (other.status_code, other.json()) == (200, {"lines": []})
    assert before < 60
    assert set(answered) == {200}


def test_a_flood_that_nobody_hears_is_read_at_a_pace_and_the_process_goes_on(tmp_path):
    """How much is read is counted by what a process could write, of how many there are in one sandbox."""
    with shared(tmp_path) as there:
        made = there.ada.post("/v2/sandboxes", json={"templateID": "base", "timeout": 600}).json()
        headers = {"X-Access-Token": made["envdAccessToken"], "E2b-Sandbox-Id": made["sandboxID"]}
        program = "i=0; while :; do head -c 65536 /dev/zero; i=$((i+1)); echo $i >/tmp/$NAME; done"

        def start(name):
            asked = {"process": {"cmd": "/bin/bash", "args": ["-c", program], "envs": {"NAME": name}}}
            body = json.dumps(asked).encode()
            content = {**headers, "Content-Type": "application/connect+json"}
            path = "/process.Process/Start"
            with there.ada.stream(
                "POST", path, content=b"\0" + len(body).to_bytes(4, "big") + body, headers=content
            ) as answer:
                next(answer.iter_raw())

        def written():
            files = [there.ada.get("/files", params={"path": f"/tmp/{name}"}, headers=headers) for name in names]
            return [int(each.text or 0) if each.status_code == 200 else 0 for each in files]

        names = [f"count{number}" for number in range(8)]
        for name in names:
            start(name)
        wait_until(lambda: all(written()))
        begun, first = time.monotonic(), sum(written())
        time.sleep(3)
        last, took_s = written(), time.monotonic() - begun

    assert all(last)
    assert 0 < sum(last) - first < 100 * took_s * 1.5 + 64
