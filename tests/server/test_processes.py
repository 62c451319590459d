"""Processes of a sandbox over HTTP and over the WebSocket of a terminal."""

import base64
import json
import threading
import time

import httpx
import pytest

websockets = pytest.importorskip("websockets.sync.client", reason="the extra `server` is not installed here")


def started(client, sandbox, **asked):
    return client.post(f"{sandbox}/processes", json=asked).json()["pid"]


def events(client, path):
    """Kinds and data of the events of a stream that ends."""
    text = client.get(path).text
    blocks = [block.split("\n") for block in text.split("\n\n") if block and not block.startswith(":")]
    return [(kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for kind, data in blocks]


def test_output_comes_by_its_stream_and_ends_with_the_exit(client, sandbox):
    pid = started(client, sandbox, command="echo out; sleep 0.3; echo err >&2; exit 3")

    told = events(client, f"{sandbox}/processes/{pid}/output")

    assert [(kind, base64.b64decode(data["base64"])) for kind, data in told[:-1]] == [
        ("stdout", b"out\n"),
        ("stderr", b"err\n"),
    ]
    assert told[-1] == ("exit", {"code": 3, "signal": None})
    assert client.get(f"{sandbox}/processes/{pid}").json()["exit"] == {"code": 3, "signal": None}


def test_one_listener_at_a_time_gets_the_output(client, server, sandbox):
    pid = started(client, sandbox, command="sleep 5")
    with (
        server.client() as other,
        other.stream("GET", f"{sandbox}/processes/{pid}/output"),
    ):
        answer = client.get(f"{sandbox}/processes/{pid}/output")

    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "listened_to")


def test_a_terminal_takes_keys_and_sizes_and_tells_the_end(client, server, sandbox):
    pid = started(client, sandbox, command="bash --norc", pty=[24, 80])
    url = f"{server.url.replace('http', 'ws')}{sandbox}/processes/{pid}/terminal?token={server.token}"

    with websockets.connect(url) as terminal:
        terminal.send(json.dumps({"resize": [30, 100]}))
        # Keys and sizes go ways of their own; whoever types sees the size a moment later.
        terminal.send(b"until stty size | grep 100; do sleep 0.05; done; exit 4\n")
        shown, ended = b"", None
        while ended is None:
            message = terminal.recv(timeout=30)
            if isinstance(message, bytes):
                shown += message
            else:
                ended = json.loads(message)["exit"]

    assert b"30 100" in shown
    assert ended == {"code": 4, "signal": None}


@pytest.mark.parametrize(
    ("change", "status"), [("no key", 401), ("a wrong key", 401), ("another origin", 403), ("another process", 404)]
)
def test_a_terminal_is_closed_to_others(client, server, sandbox, change, status):
    pid = started(client, sandbox, command="cat", pty=[24, 80])
    if change == "another process":
        pid += 1000
    token = {"no key": "", "a wrong key": "?token=wrong-key-of-some-length"}.get(change, f"?token={server.token}")
    url = f"{server.url.replace('http', 'ws')}{sandbox}/processes/{pid}/terminal{token}"
    origin = "http://evil.example" if change == "another origin" else None

    with pytest.raises(Exception, match=f"HTTP {status}"), websockets.connect(url, origin=origin):
        pass


def test_a_terminal_that_floods_waits_for_its_reader(client, server, sandbox):
    pid = started(client, sandbox, command="yes", pty=[24, 80])
    url = f"{server.url.replace('http', 'ws')}{sandbox}/processes/{pid}/terminal?token={server.token}"

    with websockets.connect(url, max_queue=1) as terminal:
        terminal.recv(timeout=30)
        threading.Event().wait(1.0)
        with open(f"/proc/{server.process.pid}/status") as status:
            before = next(line for line in status if line.startswith("VmRSS"))
        threading.Event().wait(2.0)
        with open(f"/proc/{server.process.pid}/status") as status:
            after = next(line for line in status if line.startswith("VmRSS"))

    assert int(after.split()[1]) - int(before.split()[1]) < 20_000


def test_a_terminal_of_a_revoked_key_is_closed(client, server):
    made = client.post("/v1/keys", json={"owner": "soon gone"}).json()
    with server.client(made["key"]) as theirs:
        sandbox = f"/v1/sandboxes/{theirs.post('/v1/sandboxes', json={}).json()['sandbox_id']}"
        pid = started(theirs, sandbox, command="cat", pty=[24, 80])
    url = f"{server.url.replace('http', 'ws')}{sandbox}/processes/{pid}/terminal?token={made['key']}"

    with websockets.connect(url) as terminal:
        client.delete(f"/v1/keys/{made['id']}")
        terminal.send(b"still here?\n")
        with pytest.raises(Exception, match="1008"):
            list(terminal)


@pytest.mark.parametrize("what", ["stdin", "end"])
def test_who_waits_for_a_process_and_goes_away_leaves_its_sandbox_idle(client, server, sandbox, what):
    pid = started(client, sandbox, command="sleep 600")
    process = f"{sandbox}/processes/{pid}"

    method, path, content = {
        "stdin": ("POST", f"{process}/stdin", b"x" * 2_000_000),
        "end": ("GET", f"{process}?wait_s=600", None),
    }[what]

    with server.client() as leaving, pytest.raises(httpx.TimeoutException):
        leaving.request(method, path, content=content, timeout=1)
    deadline = time.monotonic() + 3
    while (busy := client.get(sandbox).json()["busy"]) and time.monotonic() < deadline:
        time.sleep(0.05)

    assert not busy


@pytest.mark.parametrize("wait_s", ["nan", "-1", "inf", "x"])
def test_a_time_to_wait_is_a_number(client, sandbox, wait_s):
    pid = started(client, sandbox, command="sleep 600")

    assert client.get(f"{sandbox}/processes/{pid}?wait_s={wait_s}").status_code == 400
