"""What clients, strangers and nodes try at a gateway, and at nodes behind it."""

import asyncio
import contextlib
import dataclasses
import http.client
import json
import os
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec
import pytest

pytest.importorskip("starlette", reason="the extra `server` is not installed here")

from groundbox.cli.serve import _Fleet
from groundbox.errors import InvalidArgument
from groundbox.fleet.joining import SECRET, check_url, dumped_key, gateway_key, proof, signed
from groundbox.fleet.reception import _MOST_MESSAGES, _MOST_READING
from groundbox.fleet.routing import environment_of
from groundbox.fleet.upstream import Upstream
from groundbox.remote.transport import Address
from groundbox.server.keys import Key


@pytest.fixture
def unknown(fleet):
    """A path of a sandbox that is not there, on a node that is."""
    return f"/v1/sandboxes/{fleet.node('ada')['tag']}{'0' * 32}"


def test_an_upload_that_is_refused_early_spoils_no_later_request(fleet, client, unknown):
    def endless():
        for _ in range(64):
            yield bytes(64 * 1024)

    for _ in range(4):
        refused = client.put(f"{unknown}/files/x", content=endless())
        shown = [client.get(unknown).status_code for _ in range(8)]

        assert refused.status_code == 404
        assert shown == [404] * 8
    assert client.post("/v1/run", json={"code": "print(1)"}).json()["stdout"] == "1\n"


def test_a_body_that_a_node_did_not_read_is_not_its_next_request(fleet, unknown):
    """A client that announces more than it sends, with a request inside: the node answers before the body's end."""
    address = urlsplit(fleet.gateway.url)
    inside = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
    for size in (len(inside), 5 * len(inside), 100_000):
        smuggling = http.client.HTTPConnection(address.hostname, address.port, timeout=20)
        smuggling.putrequest("PUT", f"{unknown}/files/x")
        smuggling.putheader("Authorization", f"Bearer {fleet.token}")
        smuggling.putheader("Content-Length", str(size + len(inside)))
        smuggling.endheaders()
        smuggling.send(inside)
        time.sleep(0.2)
        smuggling.close()
        with fleet.gateway.client() as other:
            told = [other.post("/v1/run", json={"code": "print(7)"}) for _ in range(4)]

        assert [(each.status_code, each.json().get("stdout")) for each in told] == [(200, "7\n")] * 4


def test_a_connection_on_which_the_body_was_not_sent_whole_is_not_used_again():
    served = []

    async def answer_early(reader, writer):
        served.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(1)
        writer.close()

    async def main():
        server = await asyncio.start_server(answer_early, "127.0.0.1", 0)
        upstream = Upstream(Address("", "127.0.0.1", server.sockets[0].getsockname()[1], False, ""))

        async def never_ending():
            yield b"x" * 10
            await asyncio.sleep(600)

        for _ in range(2):
            async with upstream.ask("PUT", b"/x", [(b"content-length", b"50")], never_ending()) as answer:
                assert answer.status == 404
                assert [part async for part in answer.parts()] == []
        upstream.abort()
        server.close()

    asyncio.run(main())

    assert [each.split(b" ")[0] for each in served] == [b"PUT", b"PUT"]


def test_messages_of_nodes_are_refused_before_they_are_read(alone):
    large = bytes(2 * 1024 * 1024)
    url = f"{alone.gateway.url}/v1/fleet/join"

    unsigned = httpx.post(url, content=large)
    other = b"another-secret-of-some-length"
    past = signed(alone.secret.encode(), "POST", "/v1/fleet/join", large, now=1.0)
    old = httpx.post(url, content=large, headers={"Authorization": past})
    forged = httpx.post(url, content=large, headers={"Authorization": signed(other, "POST", "/v1/fleet/join", large)})
    told = signed(alone.secret.encode(), "POST", "/v1/fleet/join", large)
    real = httpx.post(url, content=large, headers={"Authorization": told})

    assert [each.json()["error"]["code"] for each in (unsigned, old, forged, real)] == [
        "bad_signature",
        "other_clock",
        "bad_signature",
        "too_large",
    ]


def test_a_node_of_a_fleet_asks_for_a_key():
    environ = {**os.environ, "GROUNDBOX_JOIN_SECRET": "a-join-secret-of-some-length"}

    ran = subprocess.run(
        [sys.executable, "-m", "groundbox", "serve", "--no-auth", "--port", "0", "--join", "http://127.0.0.1:9"],
        capture_output=True, text=True, env=environ, timeout=60,
    )  # fmt: skip

    assert ran.returncode == 2
    assert "--no-auth leaves a node open to who reaches its gateway" in ran.stderr


def test_nodes_get_no_secret_of_a_client_and_nothing_that_it_says_of_the_fleet(alone, taps):
    [tap] = taps("ada")
    forged = {
        "groundbox-fleet-boot": "0" * 32,
        "groundbox-fleet-key": '{"id":"owner"}',
        "groundbox-fleet-restore": f"{tap.tag}{'1' * 32} 2",
    }
    brought: list[dict[str, Any]] = [
        {"headers": {"Authorization": f"Bearer {alone.token}"}},
        {"headers": {"Authorization": f"token {alone.token}"}},
        *({"headers": {name: alone.token}} for name in ("X-API-Key", "X-Auth-Token", "X-Access-Token")),
        {"headers": {"OPEN-SANDBOX-API-KEY": alone.token}},
        {"params": {"token": alone.token, "kept": "yes"}},
        {"headers": {"Cookie": f"groundbox_key={alone.token}; _xsrf=x", "X-XSRFToken": "x"}},
    ]

    statuses = []
    for each in brought:
        headers = {**each.pop("headers", {}), **forged}
        statuses.append(httpx.get(f"{alone.gateway.url}/v1/sandboxes/{tap.tag}{'0' * 32}", headers=headers, **each))

    assert [each.status_code for each in statuses] == [200] * len(brought)
    assert [heard for heard in tap.heard if alone.token in repr(heard)] == []
    assert [heard.target for heard in tap.heard if "kept=yes" in heard.target] == [tap.heard[-2].target]
    for heard in tap.heard:
        of_fleet = [(name, value) for name, value in heard.headers if name.startswith("groundbox-fleet")]
        told = dict(of_fleet)["groundbox-fleet-key"]
        assert sorted(name for name, _ in of_fleet) == ["groundbox-fleet-boot", "groundbox-fleet-key"]
        assert dict(of_fleet)["groundbox-fleet-boot"] == tap.boot_id
        shown = proof(gateway_key(alone.secret.encode(), tap.boot_id), told)
        assert [value for name, value in heard.headers if name == "authorization"] == [f"Bearer {shown}"]


def test_what_a_node_may_have_begun_is_sent_to_no_other_one_and_what_does_no_harm_to_two(alone, taps):
    all_of_them = taps("ada", "bob", "eve")
    for each in all_of_them:
        each.answer = lambda heard: None

    def sent(**headers):
        with alone.gateway.client() as client:
            client.headers.update(headers)
            answer = client.post("/v1/run", json={"code": "1"})
        heard = [len(each.heard) for each in all_of_them]
        for each in all_of_them:
            each.heard.clear()
        return answer.status_code, answer.json()["error"]["code"], sorted(heard, reverse=True)

    assert sent() == (503, "run_lost", [1, 0, 0])
    assert sent(**{"Groundbox-Retry-Safe": "1"}) == (503, "run_lost", [1, 1, 0])


def test_a_request_of_one_name_goes_to_the_node_that_had_it_and_to_no_other_when_that_is_lost(alone, taps):
    both = taps("ada", "bob")
    with alone.gateway.client() as client:
        client.headers["Idempotency-Key"] = "once"
        statuses = [client.post("/v1/run", json={"code": "1"}).status_code for _ in range(8)]
        [had] = [each for each in both if each.heard]
        alone.tell("leave", {"boot_id": had.boot_id})
        after = client.post("/v1/run", json={"code": "1"})
        heard = sorted(len(each.heard) for each in both)

    assert statuses == [200] * 8
    assert heard == [0, 8]
    assert (after.status_code, after.json()["error"]["code"]) == (503, "run_lost")


def test_operators_alone_drain_leave_and_let_in(alone, taps):
    taps("ada")
    with alone.gateway.client() as owner:
        key = owner.post("/v1/keys", json={"owner": "carol"}).json()["key"]
    asked = [
        ("GET", "/v1/fleet"),
        ("POST", "/v1/fleet/nodes/ada/drain"),
        ("POST", "/v1/fleet/nodes/ada/join"),
        ("POST", "/v1/fleet/welcome"),
        ("GET", "/metrics"),
        ("GET", "/v1/keys"),
    ]

    with alone.gateway.client(key) as carol, alone.gateway.client("nobody-has-made-this-key") as nobody:
        plain = [carol.request(method, path, json={}).status_code for method, path in asked]
        unknown = [nobody.request(method, path, json={}).status_code for method, path in asked]

    assert plain == [403] * len(asked)
    assert unknown == [401] * len(asked)
    assert alone.node("ada")["state"] == "ready"


def _head(alone, signature, size=100):
    host, _, port = alone.gateway.url.removeprefix("http://").partition(":")
    connection = socket.create_connection((host, int(port)), 30)
    connection.sendall(
        f"POST /v1/fleet/renew HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: {size}\r\n"
        f"Authorization: {signature}\r\n\r\n".encode()
    )
    return connection


def _status(connection):
    return int(connection.recv(4096).split()[1])


def _whole(connection):
    answer = b""
    while not answer.endswith(b"}") and (part := connection.recv(4096)):
        answer += part
    return answer.decode()


def test_strangers_are_refused_by_the_head_of_their_message_and_take_no_place(alone, taps):
    [tap] = taps("ada")
    forged = signed(b"another-secret-of-some-length", "POST", "/v1/fleet/renew", bytes(100))
    with contextlib.ExitStack() as opened:
        waiting = [opened.enter_context(_head(alone, forged)) for _ in range(_MOST_READING + 8)]

        statuses = [_status(each) for each in waiting]  # none of them has sent a byte of its body
        renewed = tap.renew()

    assert set(statuses) == {401}
    assert renewed.status_code == 200


def test_slow_bodies_of_authentic_heads_give_way_to_other_nodes(alone, taps):
    [tap] = taps("ada")
    with contextlib.ExitStack() as opened:
        heads = [signed(alone.secret.encode(), "POST", "/v1/fleet/renew", b"%d" % n) for n in range(_MOST_READING + 1)]
        waiting = [opened.enter_context(_head(alone, each)) for each in heads]

        assert tap.renew().status_code == 200
        assert "before another node needed its place" in _whole(waiting[0])
        assert "did not come within 5 s" in _whole(waiting[-1])


def test_a_captured_head_is_good_for_one_use(alone, taps):
    [tap] = taps("ada")
    body = msgspec.json.encode({"boot_id": tap.boot_id, "number": 1, "load": {}})
    captured = {"Authorization": signed(alone.secret.encode(), "POST", "/v1/fleet/renew", body)}
    url = f"{alone.gateway.url}/v1/fleet/renew"

    first, again, other = (httpx.post(url, content=each, headers=captured) for each in (body, body, b"{}"))

    assert first.status_code == 200
    assert [(each.status_code, each.json()["error"]["code"]) for each in (again, other)] == [(409, "replayed")] * 2
    assert tap.renew().status_code == 409  # of the same number, and signed anew
    assert tap.renew().status_code == 200


def test_nodes_that_join_take_no_place_of_a_renewal(alone, taps):
    [tap] = taps("ada")
    with socket.create_server(("127.0.0.1", 0), backlog=100) as silent, ThreadPoolExecutor(_MOST_MESSAGES + 8) as pool:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        joins = [
            pool.submit(alone.tell, "join", tap.asked(boot_id=f"{n:032x}", name=f"eve{n}", url=url))
            for n in range(_MOST_MESSAGES + 8)
        ]
        renewed = tap.renew()
        answers = [each.result()[1] for each in joins]

    assert renewed.status_code == 200
    assert {each.json()["error"]["code"] for each in answers} == {"unreachable", "busy"}


def test_a_node_of_a_version_that_signed_otherwise_is_told_so(alone):
    old = {"Authorization": f"Groundbox-Join {time.time():.3f} {'0' * 64}"}

    answer = httpx.post(f"{alone.gateway.url}/v1/fleet/join", content=b"{}", headers=old)

    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "other_version")
    assert "install the gateway's version" in answer.json()["error"]["message"]


def test_a_quota_counts_sandboxes_that_are_being_made_while_their_node_tells_its_load(alone, taps):
    one, two = taps("ada", "bob")
    begun, go_on = threading.Event(), threading.Event()

    def slow(heard):
        begun.set()
        go_on.wait(30)
        return 201, b"{}"

    with alone.gateway.client() as owner:
        made = owner.post("/v1/keys", json={"owner": "erin", "quotas": {"sandboxes": 1}}).json()
    one.answer = two.answer = slow
    with alone.gateway.client(made["key"]) as erin, alone.gateway.client(made["key"]) as other:
        first = threading.Thread(target=lambda: erin.post("/v1/sandboxes", json={}))
        first.start()
        assert begun.wait(30)
        [busy] = [each for each in (one, two) if each.heard]
        [free] = {one, two} - {busy}
        busy.renew(sandboxes=1000, most_sandboxes=1000)  # the other one is freer, and the new sandbox is not told yet
        told = other.post("/v1/sandboxes", json={})
        go_on.set()
        first.join()

    assert (told.status_code, told.json()["error"]["code"]) == (429, "quota.sandboxes")
    assert free.heard == []


def test_bytes_of_requests_by_a_sandboxs_token_count_for_its_key_once(fleet, client):
    key = client.post("/v1/keys", json={"owner": "frank"}).json()
    size = 300_000

    def counted():
        rows = sqlite3.connect(fleet.folder / "keys.db").execute(
            "SELECT bytes FROM groundbox_used WHERE key_id = ?", (key["id"],)
        )
        return sum(each for (each,) in rows)

    with fleet.gateway.client(key["key"]) as frank:
        made = frank.post("/sandboxes", json={"templateID": "base"}).json()
        headers = {"x-access-token": made["envdAccessToken"], "e2b-sandbox-id": made["sandboxID"]}
        with httpx.Client(base_url=fleet.gateway.url, headers=headers) as by_token:
            put = by_token.post("/files", params={"path": "a"}, files={"file": bytes(size)})
        fleet.until(lambda: counted() > size)
        by_key = frank.post(
            "/files",
            params={"path": "b"},
            files={"file": bytes(size)},
            headers={"e2b-sandbox-id": made["sandboxID"]},
        )
        fleet.until(lambda: counted() > 2 * size)
        time.sleep(5)  # what a node tells comes after two seconds, and is written after two more
        together = counted()
        frank.delete(f"/sandboxes/{made['sandboxID']}")

    assert (put.status_code, by_key.status_code) == (200, 200)
    assert 2 * size < together < 2.1 * size


@pytest.mark.parametrize(
    "load",
    [
        {"of_keys": {"k": -1}},
        {"sandboxes": 2**41},
        {"problem": "x" * 2001},
        {"environments": ["e"] * 1001},
        {"unknown": 1},
    ],
)
def test_a_load_that_cannot_be_meant_is_refused(alone, taps, load):
    [tap] = taps("ada")

    assert tap.renew(**load).status_code == 400
    assert tap.renew(sandboxes=2**40).status_code == 200


@pytest.mark.parametrize("used", [[-1.0, 0], [0.0, -1], [2.0**41, 0], [0.0, 2**63]])
def test_what_no_run_can_have_used_is_refused(alone, taps, used):
    [tap] = taps("ada")
    told = {"boot_id": tap.boot_id, "number": 1, "load": tap.asked()["load"]}

    refused = alone.tell("renew", {**told, "used": {"k": used}})[1]

    assert refused.status_code == 400
    assert alone.tell("renew", {**told, "used": {"k": [2.0, 2**32]}})[1].status_code == 200


def test_a_node_takes_the_join_secret_out_of_what_its_processes_inherit(monkeypatch):
    monkeypatch.setenv(SECRET, "a-join-secret-of-some-length")

    told = _Fleet.asked("http://127.0.0.1:9", "ada", None, None, None, None)

    assert told.secret == b"a-join-secret-of-some-length"
    assert SECRET not in os.environ


def test_no_process_of_a_node_inherits_its_secrets(fleet):
    of_node = fleet.nodes["ada"].process.pid
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(path.parts[2])] = int(path.read_text().rpartition(")")[2].split()[1])
    below = {of_node}
    while more := {child for child, parent in parents.items() if parent in below} - below:
        below |= more
    inherited = {}
    for pid in below - {of_node}:
        with contextlib.suppress(OSError):
            inherited[pid] = Path(f"/proc/{pid}/environ").read_bytes()

    assert inherited
    assert fleet.secret.encode() in Path(f"/proc/{of_node}/environ").read_bytes()
    assert [
        pid for pid, told in inherited.items() if fleet.secret.encode() in told or fleet.token.encode() in told
    ] == []


def test_the_id_of_a_sandbox_in_a_header_opens_no_other_path(fleet, client):
    box = client.post("/v1/sandboxes", json={}).json()["sandbox_id"]
    headers = {"e2b-sandbox-id": box, "x-access-token": "gbs_" + "0" * 40}

    with httpx.Client(base_url=fleet.gateway.url, headers=headers) as stranger:
        run = stranger.post(f"/v1/sandboxes/{box}/run", json={"code": "1"})
        listed = stranger.get("/v1/sandboxes")
        data_plane = stranger.get("/files", params={"path": "/home/user/x"})
    named = [client.post(path, json={}, headers=headers).status_code for path in ("/v1/conversations", "/exec")]
    drained = client.post("/v1/fleet/nodes/ada/drain").status_code
    try:
        made = [client.post("/v1/sandboxes", json={}, headers=headers).json()["sandbox_id"] for _ in range(4)]
    finally:
        client.post("/v1/fleet/nodes/ada/join")
    for each in (box, *made):
        client.delete(f"/v1/sandboxes/{each}")

    # The last is passed on, and answered by its node: no sandbox of E2B's, in the words that its SDKs know.
    assert (run.status_code, listed.status_code, data_plane.status_code) == (401, 401, 502)
    assert named == [404, 404]
    assert drained == 200
    assert {each[:12] for each in made} == {fleet.node("bob")["tag"]}


def test_what_a_gateway_sends_for_one_key_asks_for_no_other(fleet):
    node = fleet.node("ada")
    [(boot_id,)] = sqlite3.connect(fleet.catalogue).execute(
        "SELECT boot_id FROM groundbox_nodes WHERE tag = ?", (node["tag"],)
    )
    secret = gateway_key(fleet.secret.encode(), boot_id)
    plain, owner = Key(id="carol", owner="carol"), Key(id="owner", owner="x", scopes=frozenset(("admin", "run")))

    def ask(told, shown):
        headers = {
            "authorization": f"Bearer {shown}",
            "groundbox-fleet-boot": boot_id,
            "groundbox-fleet-key": dumped_key(told),
        }
        return httpx.get(f"{node['url']}/v1/sandboxes", headers=headers).status_code

    assert ask(plain, proof(secret, dumped_key(plain))) == 200
    assert ask(owner, proof(secret, dumped_key(plain))) == 401
    assert ask(dataclasses.replace(plain, scopes=frozenset(("admin",))), proof(secret, dumped_key(plain))) == 401
    assert ask(plain, secret) == 401


def test_a_revoked_key_ends_on_open_terminals_and_by_tokens(fleet, client):
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import connect

    key = client.post("/v1/keys", json={"owner": "dave"}).json()
    with fleet.gateway.client(key["key"]) as dave:
        box = dave.post("/v1/sandboxes", json={}).json()["sandbox_id"]
        started = dave.post(f"/v1/sandboxes/{box}/processes", json={"command": "cat", "pty": [24, 80]}).json()
    url = f"{fleet.gateway.url.replace('http', 'ws')}/v1/sandboxes/{box}/processes/{started['pid']}/terminal"

    with connect(url, additional_headers={"Authorization": f"Bearer {key['key']}"}) as terminal:
        time.sleep(2.5)  # its node has told that the key has a sandbox
        client.delete(f"/v1/keys/{key['id']}")
        deadline = time.monotonic() + 30
        ended = False
        while not ended and time.monotonic() < deadline:
            try:
                terminal.send(b"still here\r")
                terminal.recv(timeout=0.2)
            except TimeoutError:
                pass
            except ConnectionClosed:
                ended = True

    assert ended


def test_quotas_of_sandboxes_hold_over_all_nodes_however_they_are_made(fleet, client):
    key = client.post("/v1/keys", json={"owner": "erin", "quotas": {"sandboxes": 2}}).json()["key"]
    with fleet.gateway.client(key) as erin:
        made = [erin.post("/v1/sandboxes", json={"branching": True}) for _ in range(2)]
        ids = [each.json()["sandbox_id"] for each in made]
        for each in ids:
            erin.post(f"/v1/sandboxes/{each}/run", json={"code": "1"})
        forks = [erin.post(f"/v1/sandboxes/{each}/fork", json={"n": 1}).status_code for each in ids]
        container = erin.post("/v1/containers", json={"name": "x"}).status_code
        for each in ids:
            erin.delete(f"/v1/sandboxes/{each}")
        fleet.until(lambda: erin.post("/v1/containers", json={"name": "x"}).status_code == 200)
        for each in erin.get("/v1/sandboxes").json()["sandboxes"]:
            erin.delete(f"/v1/sandboxes/{each['sandbox_id']}")

    assert [each.status_code for each in made] == [201, 201]
    assert forks == [429, 429]
    assert container == 429


def test_a_long_name_of_a_request_is_refused(alone):
    with alone.gateway.client() as client:
        told = client.post("/v1/run", json={"code": "1"}, headers={"Idempotency-Key": "x" * 256})

    assert (told.status_code, told.json()["error"]["message"]) == (400, "Idempotency-Key: has more than 255 characters")


def test_a_quota_of_sandboxes_counts_what_all_nodes_have(alone, taps):
    one, two, three = taps("ada", "bob", "eve")
    with alone.gateway.client() as owner:
        made = owner.post("/v1/keys", json={"owner": "erin", "quotas": {"sandboxes": 3}}).json()
    for each in (two, three):  # where they are does not tell where the next one goes
        each.answer = lambda heard: (429, b"{}")
    told = []
    with alone.gateway.client(made["key"]) as erin:
        for of_two, of_three in ((0, 0), (1, 0), (1, 1), (2, 1)):
            two.renew(of_keys={made["id"]: of_two})
            three.renew(of_keys={made["id"]: of_three})
            one.renew()
            one.heard.clear()
            answer = erin.post("/v1/sandboxes", json={})
            quota = [json.loads(dict(each.headers)["groundbox-fleet-key"])["quotas"]["sandboxes"] for each in one.heard]
            told.append((answer.status_code, quota))
        refused = answer.json()["error"]["code"]

    assert told == [(200, [3]), (200, [2]), (200, [1]), (429, [])]
    assert refused == "quota.sandboxes"


def test_large_bodies_are_not_looked_into():
    assert environment_of(b'{"environment": "other"}') == "other"
    assert environment_of(json.dumps({"environment": "other", "x": "y" * 2**20}).encode()) is None


def test_a_body_that_is_no_text_is_refused_by_its_node(fleet, client):
    refused = client.post("/v1/run", content=b'{"code": "1", "environment": "\xff"}')

    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "bad_json")


@pytest.mark.parametrize(
    "url",
    [
        "http://a..b",
        "http://" + "a" * 300,
        "http://h:1/path",
        "http://h?x=1",
        "http://u@h",
        "unix:///x",
        "ftp://h",
        "h:1",
    ],
)
def test_the_url_of_a_node_is_scheme_host_and_port_alone(url):
    with pytest.raises(InvalidArgument):
        check_url(url)


@pytest.mark.parametrize("url", ["http://10.0.0.1:8000", "https://node-1.example.org", "http://[fd00::1]:8000"])
def test_urls_of_nodes(url):
    assert check_url(url) == url
