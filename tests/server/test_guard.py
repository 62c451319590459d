"""What no request may do, asked of a real server: keys, names, origins, ids, bodies, connections, and what is left.

Where a check has a switch, the same request is made with the check off, so that what is refused is refused by it.
"""

import base64
import contextlib
import hashlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from groundbox.server.application import application
from groundbox.server.keys import OWNER, Keys, KeyStore, Quotas
from groundbox.server.protocol import installed
from groundbox.server.refusals import Refused
from groundbox.server.service import Service
from groundbox.server.settings import Settings
from groundbox.server.wires.e2b import access

from .conftest import EVERY_PROTOCOL, TOKEN, serving

PUBLIC = {"/livez", "/readyz"}
PAGES = {"/", "/favicon.ico", "/login", "/console/login", "/console/logout", "/v1/ping"}
"""Public, too: pages that ask for a key, with what they look like, and a ping that says pong."""
HOSTILE = {
    "dots": "../../../../etc/passwd",
    "quoted dots": "%2e%2e%2f%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "quoted twice": "%252e%252e%252f%252e%252e%252fetc%252fpasswd",
    "backslashes": "..%5c..%5c..%5cetc%5cpasswd",
    "nul": "a%00b",
    "long": "a" * 4096,
    "one dot leaders": "%E2%80%A4%E2%80%A4%2F%E2%80%A4%E2%80%A4%2Fetc%2Fpasswd",
    "full-width dots": "%EF%BC%8E%EF%BC%8E%2Fetc%2Fpasswd",
    "no utf-8": "%ff%fe%c0%ae%c0%ae",
    "surrogate": "%ed%a0%80",
    "absolute": "%2Fetc%2Fpasswd",
    "line break": "a%0d%0aX-Injected:%201",
    "digits": "9" * 4000,
    "blank": "%20",
}


def routes():
    """Method, path with placeholders, and whether it is a WebSocket, of every route of the application."""
    guard = application(Service(Settings(protocols=installed()), Keys(token=None)))
    for route in guard._app._app.routes:
        for method in sorted(getattr(route, "methods", None) or {"WS"}):
            yield method, route.path


ROUTES = list(routes())


def filled(path, value="1"):
    return re.sub(r"\{[^}]*\}", lambda _: value, path)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server of its own with small bounds."""
    folder = tmp_path_factory.mktemp("guarded")
    options = ("--keys", folder / "keys.db", "--audit", folder / "audit.jsonl", "--body-mib", 1, "--body-s", 3)
    with serving(folder / "log", *options, *EVERY_PROTOCOL, "--log-json") as started:
        started.folder = folder
        wait_for(lambda: asked(started, "GET", "/readyz")[0] == 200)
        yield started


@pytest.fixture(scope="module")
def store(guarded):
    return KeyStore(guarded.folder / "keys.db")


def port_of(server):
    return int(server.url.rpartition(":")[2])


def asked(server, method, path, *, token=TOKEN, headers=None, body=None, host=None):
    """Status, headers and body of one request whose target is sent as it is; `WS` is the handshake of a WebSocket."""
    connection = http.client.HTTPConnection("127.0.0.1", port_of(server), timeout=60)
    vars(connection)["_validate_path"] = lambda path: None
    try:
        connection.putrequest("GET" if method == "WS" else method, path, skip_host=True, skip_accept_encoding=True)
        sent = {"Host": host or f"127.0.0.1:{port_of(server)}", **(headers or {})}
        if token:
            sent["Authorization"] = f"Bearer {token}"
        if method == "WS":
            sent |= {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
            sent["Sec-WebSocket-Key"] = "AAAAAAAAAAAAAAAAAAAAAA=="
        elif body is not None or method in ("POST", "PUT"):
            sent["Content-Length"] = str(len(body or b""))
        for name, value in sent.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def raw(server, *parts, pause_s=0.0, timeout_s=20.0):
    """All that is answered to bytes, until the server hangs up or says nothing for so long."""
    with socket.create_connection(("127.0.0.1", port_of(server)), timeout=timeout_s) as peer:
        told = b""
        with contextlib.suppress(ConnectionError, TimeoutError):
            for part in parts:
                peer.sendall(part)
                time.sleep(pause_s)
            while part := peer.recv(65536):
                told += part
    return told


def statuses(told):
    return [int(each) for each in re.findall(rb"HTTP/1\.1 (\d+)", told)]


def key_of(server, **asked_for):
    with server.client() as client:
        answer = client.post("/v1/keys", json={"owner": "test", **asked_for})
    assert answer.status_code == 201, answer.text
    return answer.json()


# Keys


@pytest.mark.parametrize("token", [None, "a-key-of-some-length-that-is-wrong", "", "gb_", TOKEN[:-1], TOKEN + "x"])
def test_every_route_but_the_public_ones_asks_for_a_key(guarded, token):
    told = {(method, path): asked(guarded, method, filled(path), token=token)[0] for method, path in ROUTES}

    assert len(told) > 40
    open_to_all = PUBLIC | PAGES
    assert {route: status for route, status in told.items() if route[1] not in open_to_all and status != 401} == {}
    assert {route: status for route, status in told.items() if route[1] in PAGES and status >= 500} == {}
    assert {status for route, status in told.items() if route[1] in PUBLIC} == {200}


def test_a_path_that_there_is_not_is_not_told_without_a_key(guarded):
    assert asked(guarded, "GET", "/no-such", token=None)[0] == 401
    assert asked(guarded, "GET", "/no-such")[0] == 404


def test_a_refusal_for_want_of_a_key_says_how_to_send_one(guarded):
    _, headers, body = asked(guarded, "POST", "/v1/run", token=None, body=b'{"code": "1"}')

    assert headers["www-authenticate"] == 'Bearer realm="groundbox"'
    assert json.loads(body)["error"]["code"] == "unauthorized"


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/v1/languages", {"Authorization": f"Bearer {TOKEN}"}),
        ("/v1/languages", {"Authorization": f"token {TOKEN}"}),
        ("/v1/languages", {"X-API-Key": TOKEN}),
        ("/v1/languages", {"X-Access-Token": TOKEN}),
        (f"/v1/languages?token={TOKEN}", {}),
        (f"/with-key/{TOKEN}/v1/languages", {}),
        (f"/with-key/{TOKEN.replace('-', '%2D')}/v1/languages", {}),
        ("/v1/languages", {"Cookie": f"groundbox_key={TOKEN}", "Sec-Fetch-Site": "same-origin"}),
    ],
)
def test_a_key_is_taken_where_clients_put_it(guarded, path, headers):
    assert asked(guarded, "GET", path, token=None, headers=headers)[0] == 200


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/v1/languages", {"Cookie": f"groundbox_key={TOKEN}"}, 401),  # perhaps from a page of somebody else
        ("/v1/languages", {"Authorization": f"Basic {TOKEN}"}, 401),
        (f"/with-key/{TOKEN.replace('-', '%252D')}/v1/languages", {}, 401),  # unquoted once, and not again
        (f"/with-key/{TOKEN}%2Fv1%2Flanguages", {}, 401),
        (f"/with-key/{TOKEN}", {}, 401),
        (f"/with-key//{TOKEN}/v1/languages", {}, 401),
        ("/with-key/wrong-key-of-some-length/livez", {}, 401),
        (f"/with-key/{TOKEN}/with-key/{TOKEN}/v1/languages", {}, 404),
        (f"/with-key/{TOKEN}//v1/languages", {}, 404),
    ],
)
def test_a_key_elsewhere_or_otherwise_is_none(guarded, path, headers, status):
    assert asked(guarded, "GET", path, token=None, headers=headers)[0] == status


def test_a_key_with_a_slash_and_a_percent_sign_can_stand_in_a_path(tmp_path):
    token = "a/key%41of?some=length&more"
    with serving(tmp_path / "log", token=token) as server:
        quoted = "/with-key/a%2Fkey%2541of%3Fsome%3Dlength%26more/v1/languages"

        assert asked(server, "GET", quoted, token=None)[0] == 200
        assert asked(server, "GET", quoted.replace("%2541", "%41"), token=None)[0] == 401


@pytest.mark.parametrize("name", ["Host", "Origin", "Authorization", "X-API-Key"])
def test_a_header_that_says_who_asks_is_sent_once(guarded, name):
    value = {"Host": "127.0.0.1", "Origin": "http://127.0.0.1", "Authorization": f"Bearer {TOKEN}"}.get(name, TOKEN)
    head = f"GET /v1/languages HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
    twice = f"{name}: {value}\r\n" * 2

    assert statuses(raw(guarded, (head + twice + "\r\n").encode())) == [400]


def test_a_key_is_in_no_log(guarded):
    for path in (f"/v1/languages?token={TOKEN}", f"/with-key/{TOKEN}/no-such", f"/no-such?token={TOKEN}"):
        asked(guarded, "GET", path, token=None)
    for path in (
        f"/v1/x?token={TOKEN}",
        f"/with-key/{TOKEN}/v1/sandboxes/1/processes/1/terminal",
        f"/{'x' * 9000}{TOKEN}",
    ):
        asked(guarded, "WS", path, token=None)
    raw(guarded, f"GET /{TOKEN} HTTP/9.9\r\nX-API-Key: {TOKEN}\r\n\r\n".encode())
    guarded.run(f"print({TOKEN!r})")

    written = guarded.stderr() + (guarded.folder / "audit.jsonl").read_text()

    assert TOKEN not in written


def test_keys_are_compared_by_a_digest_in_constant_time():
    import inspect

    assert "hmac.compare_digest" in inspect.getsource(Keys.find)


def test_a_key_that_was_revoked_is_refused_within_three_seconds(guarded, store):
    secret, key = store.create("soon revoked", ["run"], Quotas())  # by another process than the server's
    wait_for(lambda: asked(guarded, "GET", "/v1/languages", token=secret)[0] == 200)

    store.revoke(key.id)
    deadline = time.monotonic() + 3
    while (status := asked(guarded, "GET", "/v1/languages", token=secret)[0]) == 200 and time.monotonic() < deadline:
        time.sleep(0.1)

    assert status == 401


def test_a_database_of_keys_goes_away_and_comes_back(guarded, store):
    secret, _ = store.create("stays", ["run"], Quotas())
    wait_for(lambda: asked(guarded, "GET", "/v1/languages", token=secret)[0] == 200)
    database = guarded.folder / "keys.db"

    database.rename(guarded.folder / "away")
    database.mkdir()
    try:
        wait_for(lambda: asked(guarded, "GET", "/readyz")[0] == 503)
        known = asked(guarded, "GET", "/v1/languages", token=secret)[0]
        owner = asked(guarded, "GET", "/v1/languages")[0]
        unknown = asked(guarded, "GET", "/v1/languages", token="some-key-that-is-unknown")[0]
        made = asked(guarded, "POST", "/v1/keys", body=b'{"owner": "x"}')[0]
    finally:
        database.rmdir()
        (guarded.folder / "away").rename(database)
    wait_for(lambda: asked(guarded, "GET", "/readyz")[0] == 200)

    assert (known, owner, unknown, made) == (200, 200, 401, 503)
    assert asked(guarded, "GET", "/v1/languages", token=secret)[0] == 200


def wait_for(happened, *, within_s=60):
    deadline = time.monotonic() + within_s
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.1)


# Scopes and quotas


def test_a_key_without_a_scope_is_refused_what_needs_it(guarded):
    plain = key_of(guarded)["key"]
    network = {"code": "1", "network": {"allow": ["example.org"]}}

    told = {
        "keys": asked(guarded, "GET", "/v1/keys", token=plain)[0],
        "make": asked(guarded, "POST", "/v1/keys", token=plain, body=b'{"owner": "x", "scopes": ["admin"]}')[0],
        "metrics": asked(guarded, "GET", "/metrics", token=plain)[0],
        "engine": asked(guarded, "GET", "/v1/engine", token=plain)[0],
        "network": asked(guarded, "POST", "/v1/run", token=plain, body=json.dumps(network).encode())[0],
        "sandbox": asked(guarded, "POST", "/v1/sandboxes", token=plain, body=json.dumps(network).encode())[0],
        "runs": asked(guarded, "POST", "/v1/run", token=plain, body=b'{"code": "1"}')[0],
    }

    assert told == {
        **dict.fromkeys(("keys", "make", "metrics", "engine", "network"), 403),
        "sandbox": 400,
        "runs": 200,
    }


@pytest.mark.parametrize(
    ("quota", "amount", "method", "path", "body"),
    [
        ("sandboxes", 1, "POST", "/v1/sandboxes", {}),
        ("runs_a_minute", 1, "POST", "/v1/run", {"code": "1"}),
        ("cpu_s_a_day", 0.000001, "POST", "/v1/run", {"code": "sum(range(10**6))"}),
        ("bytes_a_day", 100, "POST", "/v1/run", {"code": "1"}),
    ],
)
def test_a_quota_that_is_used_up_is_named_with_429_and_a_time(guarded, quota, amount, method, path, body):
    secret = key_of(guarded, quotas={quota: amount})["key"]
    encoded = json.dumps(body).encode()

    first = asked(guarded, method, path, token=secret, body=encoded)[0]
    status, headers, told = asked(guarded, method, path, token=secret, body=encoded)

    assert first < 300
    assert (status, json.loads(told)["error"]["code"]) == (429, f"quota.{quota}")
    assert quota in json.loads(told)["error"]["message"]
    assert int(headers["retry-after"]) >= 1


def test_who_hangs_up_before_the_end_pays_for_the_time(guarded):
    secret = key_of(guarded, quotas={"cpu_s_a_day": 0.5})["key"]
    with guarded.client(secret) as leaving, pytest.raises(httpx.TimeoutException):
        leaving.post("/v1/run", json={"code": "while True: pass"}, timeout=1.5)
    time.sleep(0.5)

    status, _, told = asked(guarded, "POST", "/v1/run", token=secret, body=b'{"code": "1"}')

    assert (status, json.loads(told)["error"]["code"]) == (429, "quota.cpu_s_a_day")


# Names, origins, and pages of others


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.", "localhost.evil.example"),
        *("[::1%25lo]", "[::1]evil", "127.1", "0x7f.1", "2130706433", "127.0.0.1:80:80", "127.0.0.1@evil.example"),
        *("evil.example/127.0.0.1", " ", "localhost:x", "localhost,evil.example"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/languages", "/livez", "/metrics"])
def test_a_request_for_another_name_is_refused_as_after_dns_rebinding(guarded, host, path):
    assert asked(guarded, "GET", path, host=host)[0] == 403


@pytest.mark.parametrize("host", ["127.0.0.1", "LOCALHOST:1", "localhost", "[::1]:8000", "[::1]"])
def test_own_names_are_answered_to(guarded, host):
    assert asked(guarded, "GET", "/v1/languages", host=host)[0] == 200


def test_a_request_without_a_host_is_refused(guarded):
    told = raw(guarded, f"GET /v1/languages HTTP/1.0\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())

    assert b" 403 " in told.split(b"\r\n")[0]


@pytest.mark.parametrize("name", ["X-Forwarded-Host", "X-Host", "Forwarded", "X-Original-URL", "X-Rewrite-URL"])
def test_what_a_proxy_would_say_counts_for_nothing(guarded, name):
    with_evil_host = asked(guarded, "GET", "/v1/languages", host="evil.example", headers={name: "localhost"})[0]
    with_evil_name = asked(guarded, "GET", "/v1/languages", headers={name: "/metrics"})

    assert with_evil_host == 403
    assert b"languages" in with_evil_name[2]


def test_a_whole_url_as_target_changes_nothing(guarded):
    head = f"Host: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n"

    told = [
        statuses(raw(guarded, f"GET {target} HTTP/1.1\r\n{head}".encode()))
        for target in ("http://evil.example/v1/languages", "//evil.example/v1/languages", "*", "http://x:y@z/v1/keys")
    ]

    assert [status for each in told for status in each if status >= 500] == []


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "http://127.0.0.1.evil", ""])
@pytest.mark.parametrize(("method", "path"), [("POST", "/v1/run"), ("GET", "/v1/languages"), ("WS", "/v1/x")])
def test_a_page_of_another_origin_is_refused(guarded, origin, method, path):
    status, headers, _ = asked(guarded, method, path, headers={"Origin": origin}, body=b'{"code": "1"}')

    assert status == 403
    assert "access-control-allow-origin" not in headers


def test_a_page_of_this_server_may_ask(guarded):
    origin = {"Origin": f"http://127.0.0.1:{port_of(guarded)}", "Sec-Fetch-Site": "same-origin"}

    assert asked(guarded, "POST", "/v1/run", headers=origin, body=b'{"code": "1"}')[0] == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
    ],
)
def test_what_a_browser_says_of_a_request_counts(guarded, headers, status):
    assert asked(guarded, "GET", "/v1/languages", headers=headers)[0] == status


def test_a_link_from_elsewhere_brings_no_cookie_in(guarded):
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}

    assert (
        asked(guarded, "GET", "/v1/languages", token=None, headers={**link, "Cookie": f"groundbox_key={TOKEN}"})[0]
        == 401
    )


def test_there_is_no_cors_on_any_route(guarded):
    preflight = {
        "Origin": f"http://127.0.0.1:{port_of(guarded)}",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization",
    }

    told = [
        asked(guarded, "OPTIONS", filled(path), headers=preflight, token=token)
        for _, path in ROUTES
        for token in (None, TOKEN)
    ]

    assert [name for _, headers, _ in told for name in headers if name.startswith("access-control-")] == []
    assert {status for status, _, _ in told} <= {200, 401, 404, 405}


def app_of(*, over_unix=False, own_host="127.0.0.1", **settings):
    service = Service(Settings(**settings), Keys(token=TOKEN))
    app = application(service, over_unix=over_unix, own_host=own_host)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), headers={"Authorization": f"Bearer {TOKEN}"})


@pytest.mark.parametrize(
    ("options", "status"),
    [({}, 403), ({"hosts": ["evil.example"]}, 200), ({"hosts": ["*"]}, 200), ({"over_unix": True}, 200)],
)
async def test_it_is_the_list_of_names_that_refuses_another_one(options, status):
    async with app_of(**options) as client:
        answer = await client.get("http://evil.example/v1/languages")

    assert answer.status_code == status


async def test_it_is_the_guard_that_refuses_another_origin():
    page = {"Origin": "http://evil.example"}
    async with app_of() as guarded, app_of(over_unix=True) as open_:
        refused = await guarded.get("http://127.0.0.1/v1/languages", headers=page)
        answered = await open_.get("http://127.0.0.1/v1/languages", headers=page)

    assert (refused.status_code, answered.status_code) == (403, 200)


@pytest.mark.parametrize("own_host", ["2001:db8::1", "fe80::1%eth0", "2001:DB8::1"])
async def test_a_server_on_ipv6_knows_its_own_address(own_host):
    address = own_host.partition("%")[0].lower()
    async with app_of(own_host=own_host) as client:
        answer = await client.get(f"http://[{address}]:8000/v1/languages")

    assert answer.status_code == 200


async def test_it_is_the_guard_that_asks_for_a_key():
    service = Service(Settings(), Keys(token=None))
    app = application(service)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as client:
        answer = await client.get("http://127.0.0.1/v1/languages")

    assert answer.status_code == 200


async def test_a_fault_is_told_in_json_with_nothing_of_it(caplog, monkeypatch):
    def broken():
        raise ZeroDivisionError("a secret of the host")

    monkeypatch.setattr("groundbox.server.openapi.document", broken)
    async with app_of() as client:
        answer = await client.get("http://127.0.0.1/v1/openapi.json")

    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal")
    assert "secret" not in answer.text
    assert [record.message for record in caplog.records] == ["a request failed by a fault of groundbox"]


# Ids and paths


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_id_is_an_id_that_there_is_not(guarded, name):
    told = {}
    for method, path in ROUTES:
        if "{" in path and path != "/files/{session_id}":  # LibreChat's, which lists nothing for what is not there
            answer = asked(
                guarded, method, filled(path, HOSTILE[name]), body=b"{}" if method in ("POST", "PUT") else None
            )
            told[method, path] = answer

    assert len(told) > 25
    # So the framework answers to the path of a WebSocket that it does not know, and the server to a long line.
    there_is_not = {
        **dict.fromkeys(["GET", "HEAD", "POST", "PUT", "DELETE"], (400, 404, 405, 414)),
        "WS": (400, 403, 404, 414, 431),
    }
    assert {route: answer for route, answer in told.items() if answer[0] not in there_is_not[route[0]]} == {}
    assert [route for route, answer in told.items() if b"root:" in answer[2] or "x-injected" in answer[1]] == []


@pytest.mark.parametrize("name", sorted(set(HOSTILE) - {"blank", "digits", "long"}))
def test_a_hostile_path_in_a_live_sandbox_leads_nowhere(guarded, name):
    made = json.loads(asked(guarded, "POST", "/v1/sandboxes", body=b"{}")[2])
    box = f"/v1/sandboxes/{made['sandbox_id']}"
    run = json.loads(asked(guarded, "POST", f"{box}/run", body=b"{\"code\": \"open('x', 'w').write('1')\"}")[2])
    execution = f"/v1/executions/{run['execution_id']}"

    told = [
        asked(guarded, "GET", f"{box}/files/{HOSTILE[name]}"),
        asked(guarded, "DELETE", f"{box}/files/{HOSTILE[name]}"),
        asked(guarded, "GET", f"{execution}/artifacts/{HOSTILE[name]}"),
        asked(guarded, "GET", f"{execution}/output/{HOSTILE[name]}"),
    ]
    written = [
        asked(guarded, "PUT", f"{box}/files/{HOSTILE[name]}", body=b"x")[0],
        asked(guarded, "PUT", f"{box}/folders/{HOSTILE[name]}2")[0],
    ]
    asked(guarded, "DELETE", box)

    assert [answer for answer in told if answer[0] not in (400, 404)] == []
    assert [answer for answer in told if b"root:" in answer[2]] == []
    assert set(written) <= {204, 400, 404}


ODD = [
    None,
    True,
    -1,
    2**31,
    2**64,
    1.5,
    1e308,
    "",
    "\0",
    "\n",
    "\ud7ff",
    "x" * 10_000,
    [],
    [[]],
    ["\0"],
    {},
    {"a": 1},
    {"": ""},
]


def test_odd_values_in_any_place_are_no_fault_of_the_server(guarded):
    """A generator of requests has no process that lives."""
    made = json.loads(asked(guarded, "POST", "/v1/sandboxes", body=b"{}")[2])
    box = f"/v1/sandboxes/{made['sandbox_id']}"
    asked(guarded, "POST", f"{box}/run", body=b'{"code": "1"}')
    started = json.loads(asked(guarded, "POST", f"{box}/processes", body=b'{"command": "cat", "pty": [24, 80]}')[2])
    process = f"{box}/processes/{started['pid']}"
    right: dict[str, dict[str, Any]] = {
        f"{box}/processes": {"command": "true", "cwd": ".", "env": {}, "pty": [1, 1], "tag": "", "shell": True},
        f"{process}/signal": {"signal": 0},
        f"{process}/resize": {"rows": 1, "columns": 1},
        f"{box}/timeout": {"total_s": 60},
        f"{box}/undo": {"n": 1},
        f"{box}/fork": {"n": 1},
        f"{box}/guest-files": {"op": "write", "path": "x", "data": "x", "mode": 0o644},
        f"{box}/run": {
            "code": "1",
            "language": "shell",
            "mode": "script",
            "argv": [],
            "stdin": "",
            "filename": "x",
            "wall_s": 5,
            "cwd": ".",
            "env": {},
            "call": None,
            "kwargs": None,
            "max_tokens": 1,
            "trace": False,
        },
        "/v1/sandboxes": {
            "labels": {},
            "idle_s": 1,
            "limits": {},
            "network": {},
            "hash_seed": 1,
            "profile": "bare",
            "branching": False,
            "undo": 0,
            "rollback": None,
        },
    }

    failed = []
    for path, body in right.items():
        for name in body:
            for value in ODD:
                status, _, told = asked(guarded, "POST", path, body=json.dumps({**body, name: value}).encode())
                if status >= 500:
                    failed.append((path, name, value, told))
    for path in (process, f"{box}/files", "/v1/executions", f"{box}/files/x", "/v1/sandboxes"):
        for query in ("wait_s", "limit", "mode", "label", "sandbox", "offset", "close"):
            for value in ("nan", "-1", "inf", "1e400", "%00", "%ff", "=", "9" * 5000):
                status, _, told = asked(guarded, "GET", f"{path}?{query}={value}")
                if status >= 500:
                    failed.append((path, query, value, told))
    asked(guarded, "DELETE", box)

    assert failed == []


def test_what_is_of_one_key_is_not_there_for_another(guarded):
    ours, theirs = key_of(guarded)["key"], key_of(guarded)["key"]
    made = json.loads(asked(guarded, "POST", "/v1/sandboxes", token=ours, body=b'{"profile": "bare"}')[2])
    box = f"/v1/sandboxes/{made['sandbox_id']}"
    state = json.loads(asked(guarded, "POST", f"{box}/checkpoints", token=ours)[2])
    started = json.loads(asked(guarded, "POST", f"{box}/processes", token=ours, body=b'{"command": "sleep 600"}')[2])
    run = json.loads(
        asked(guarded, "POST", f"{box}/run", token=ours, body=b"{\"code\": \"open('x', 'w').write('1')\"}")[2]
    )
    values = {
        "sandbox_id": made["sandbox_id"],
        "checkpoint_id": state.get("checkpoint_id", "0" * 32),  # there are none on other machines than x86_64
        "execution_id": run["execution_id"],
        "pid:int": str(started["pid"]),
        "stream": "stdout",
        "path:path": "x",
    }

    told = {}
    for method, path in ROUTES:
        if path.startswith(("/v1/sandboxes/{", "/v1/executions/{")):  # tests of wires do it for theirs
            there = re.sub(r"\{([^}]*)\}", lambda found: values[found[1]], path)
            told[method, path] = asked(
                guarded, method, there, token=theirs, body=b"{}" if method in ("POST", "PUT") else None
            )
    listed = [asked(guarded, "GET", path, token=theirs)[2] for path in ("/v1/sandboxes", "/v1/executions")]
    of_owner = asked(guarded, "GET", box)[0]
    still_there = asked(guarded, "GET", box, token=ours)[0]
    asked(guarded, "DELETE", box, token=ours)

    assert len(told) > 25
    assert {route: answer for route, answer in told.items() if answer[0] != 404} == {}
    assert [json.loads(each) for each in listed] == [{"sandboxes": []}, {"executions": []}]
    assert (of_owner, still_there) == (404, 200)


# Work for somebody without a key


class Hashed:
    """Stands for hashlib, and counts what is hashed."""

    def __init__(self):
        self.calls = self.size_bytes = 0

    def sha256(self, data=b""):
        self.calls += 1
        self.size_bytes += len(data)
        return hashlib.sha256(data)


def application_with_sandboxes(number):
    """An application in which sandboxes of E2B live, none of which was started, and the token of the last one."""
    service = Service(Settings(), Keys(token=TOKEN))
    for _ in range(number):
        held = service.create(OWNER, wire="e2b", labels={})
        held.state["e2b"] = access.State(template="base", envs={})
    return application(service), held.id, held.state["e2b"].token


def signed(path, token, expires=""):
    text = ":".join([path, "read", "user", token, *([expires] if expires else [])])
    signature = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
    return {"path": path, "username": "user", "signature": f"v1_{signature}", "signature_expiration": expires}


async def answer_of(app, path, **options):
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        return await client.get(path, **options)


@pytest.mark.parametrize("named", [False, True])
async def test_a_wrong_signature_is_hashed_once_however_many_sandboxes_live(monkeypatch, named):
    app, sandbox_id, _ = application_with_sandboxes(50)
    headers = {"E2b-Sandbox-Id": sandbox_id} if named else {}
    counted = Hashed()
    monkeypatch.setattr(access, "hashlib", counted)

    answer = await answer_of(app, "/files", params=signed("a" * 4000, "gbs_of-nobody"), headers=headers)

    assert answer.status_code == 401
    assert counted.calls == 1
    assert counted.size_bytes < 5000


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"signature": "x"}, 401),
        ({"signature": "v1_" + "+" * 5000}, 401),
        ({"path": "a" * 5000}, 414),
        ({"username": "a" * 5000}, 414),
        ({"signature_expiration": "1"}, 401),
        ({"signature_expiration": "9" * 5000}, 401),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
async def test_an_address_that_nobody_can_have_signed_is_not_hashed(monkeypatch, changed, status):
    app, _, token = application_with_sandboxes(3)
    counted = Hashed()
    monkeypatch.setattr(access, "hashlib", counted)

    answer = await answer_of(app, "/files", params={**signed("a.txt", token), **changed})

    assert (answer.status_code, counted.calls) == (status, 0)


@pytest.mark.parametrize(
    ("path", "operation", "user"),
    [
        ("/w/main.py:write:report.csv", "read", "user"),
        ("/w/a:read:b", "write", ""),
        ("", "write", "read"),
        ("a:read:user:read", "read", ""),
        (":read:write:", "write", "read"),
    ],
)
def test_a_signed_text_is_good_for_one_path_and_one_operation(path, operation, user):
    token = "gbs_token"
    text = f"{path}:{operation}:{user}:{token}"
    signature = "v1_" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    parts = text.split(":")
    good = set()
    for first in range(1, len(parts)):
        for second in range(first + 1, len(parts)):
            other, does, name = ":".join(parts[:first]), parts[first], ":".join(parts[first + 1 : second])
            query = urlencode({"path": other, "username": name, "signature": signature}).encode()
            with contextlib.suppress(Refused):
                if access._Signed.of({"read": "GET", "write": "POST"}.get(does, "PUT"), query).is_by(token):
                    good.add((other, does, name))

    assert good == {(path, operation, user)}


@pytest.mark.parametrize("name", ["path", "username", "signature", "signature_expiration"])
async def test_a_signed_address_has_each_parameter_once(name):
    app, _, token = application_with_sandboxes(3)
    good = signed("a.txt", token, "99999999999")

    once = await answer_of(app, "/files", params=good)
    twice = await answer_of(
        app, "/files", params=[*good.items(), (name, "/etc/passwd" if name == "path" else good[name])]
    )

    assert once.status_code != 401
    assert (twice.status_code, "each of its parameters once" in twice.text) == (401, True)


async def test_a_link_to_read_whose_path_has_colons_writes_no_other_file():
    app, _, token = application_with_sandboxes(1)
    link = signed("/home/user/main.py:write:report.csv", token)
    other = {**link, "path": "/home/user/main.py", "username": "report.csv:read:user"}

    as_signed = await answer_of(app, "/files", params=link)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        as_other = await client.post("/files", params=other, content=b"owned")

    assert as_signed.status_code != 401
    assert as_other.status_code == 401
    assert "cannot contain ':'" in as_other.text


async def test_wrong_signatures_are_bounded_over_time_and_good_ones_are_not(monkeypatch):
    monkeypatch.setattr(access, "_TRIES_A_SECOND", 100)
    app, sandbox_id, token = application_with_sandboxes(50)
    good, wrong = signed("a.txt", token, "99999999999"), signed("a.txt", "gbs_of-nobody")

    async def signer(params, headers=None):
        return (await answer_of(app, "/files", params=params, headers=headers)).status_code

    found = [await signer(good) for _ in range(5)]
    statuses_of_wrong = [await signer(wrong) for _ in range(5)]
    named = await signer(good, {"E2b-Sandbox-Id": sandbox_id})

    assert 401 not in found
    assert 429 not in found
    assert set(statuses_of_wrong[:2]) == {401}
    assert 429 in statuses_of_wrong
    assert named not in (401, 429)


@pytest.mark.parametrize(
    ("target", "headers", "status"),
    [
        ("/v1/languages?a=" + "b" * 20_000, {}, 414),
        ("/v1/languages?" + "a&" * 500, {}, 414),
        ("/" + "a" * 5000, {}, 414),
        ("/v1/languages", {f"x-{n}": "1" for n in range(200)}, 431),
        ("/v1/languages", {"x-a": "b" * 40_000}, 431),
    ],
    ids=["query", "parameters", "path", "headers", "header"],
)
@pytest.mark.parametrize("token", [None, TOKEN])
def test_a_head_larger_than_any_client_sends_is_refused(guarded, target, headers, status, token):
    assert asked(guarded, "GET", target, headers=headers, token=token)[0] == status


async def test_no_byte_of_a_body_is_read_before_the_key_is_known():
    app = application(Service(Settings(body_bytes=1000), Keys(token=TOKEN)))
    read, told = [], []

    async def receive():
        read.append(1)
        return {"type": "http.request", "body": b"{}", "more_body": True}

    async def send(message):
        told.append(message.get("status"))

    def head(**headers):
        given = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        target = {"path": "/v1/run", "raw_path": b"/v1/run", "query_string": b""}
        return {"type": "http", "method": "POST", **target, "headers": [(b"host", b"127.0.0.1"), *given]}

    await app(head(authorization="Bearer wrong"), receive, send)
    await app(head(authorization=f"Bearer {TOKEN}", content_length="1001"), receive, send)

    assert [status for status in told if status] == [401, 413]
    assert read == []


@pytest.mark.parametrize("token", ["no-key-of-anybody", TOKEN])
def test_the_reply_to_a_large_body_that_is_refused_is_not_lost(guarded, token):
    size = 8 * 1024 * 1024
    connection = http.client.HTTPConnection("127.0.0.1", int(guarded.url.rpartition(":")[2]), timeout=60)
    with contextlib.closing(connection):
        connection.request("POST", "/v1/run", b"a" * size, {"Authorization": f"Bearer {token}"})
        refused = connection.getresponse()
        refused.read()
        connection.request("GET", "/livez")
        after = connection.getresponse().status

    assert refused.status == (413 if token == TOKEN else 401)
    assert after == 200


# Bodies and connections


def head_of(*lines, token=TOKEN):
    start = ("POST /v1/run HTTP/1.1", "Host: localhost", f"Authorization: Bearer {token}")
    return "\r\n".join([*start, *lines, "", ""]).encode()


def test_a_chunked_body_over_the_limit_is_refused_as_it_comes(guarded):
    chunk = b"10000\r\n" + b"a" * 65536 + b"\r\n"
    head = head_of("Transfer-Encoding: chunked")

    told = raw(guarded, head, *[chunk] * 17)

    assert statuses(told) == [413]
    assert b"too_large" in told


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"code": "1", "args": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"code": "1", "kwargs": ' + b'{"a":' * 50_000,
        json.dumps({"code": "1", **{f"k{n}": n for n in range(50_000)}}).encode(),
        json.dumps({"code": "1", "options": {f"k{n}": n for n in range(50_000)}}).encode(),
        b'{"code": "1", "hash_seed": ' + b"9" * 100_000 + b"}",
        b'{"code": "1", "wall_s": 1e999999}',
        b'{"code": "\\ud800"}',
    ],
    ids=["list", "closed list", "objects", "fields", "options", "digits", "number", "surrogate"],
)
def test_a_body_that_is_hard_to_read_is_refused_soon(guarded, body):
    begun = time.monotonic()

    status, _, _ = asked(guarded, "POST", "/v1/run", body=body)

    assert status == 400
    assert time.monotonic() - begun < 10


@pytest.mark.parametrize(
    "name", ["key", "wire", "files", "limits", "network", "backend", "waive", "tools", "source", "self"]
)
def test_an_option_of_a_language_is_no_argument_of_the_server(guarded, name):
    body = json.dumps({"code": "1", "options": {name: {"a": 1}}}).encode()

    status, _, told = asked(guarded, "POST", "/v1/run", body=body)

    assert (status, json.loads(told)["error"]["code"]) == (400, "invalid_argument")


def test_a_body_that_comes_byte_by_byte_is_given_up(guarded):
    told = raw(guarded, head_of("Content-Length: 100"), *[b"{"] * 6, pause_s=1.0)

    assert statuses(told) == [408]


def test_who_is_told_to_go_on_and_does_not_is_given_up(guarded):
    head = head_of("Content-Length: 9", "Expect: 100-continue")

    assert statuses(raw(guarded, head)) == [100, 408]


def test_who_has_no_key_is_not_told_to_go_on(guarded):
    head = head_of("Content-Length: 9", "Expect: 100-continue", "Connection: close", token="no-key-of-anybody")

    assert statuses(raw(guarded, head)) == [401]


@pytest.mark.parametrize(
    "lines",
    [
        "Content-Length: 13\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 13\r\n",
        "Content-Length: 13\r\nContent-Length: 0\r\n",
        "Content-Length: 13\r\nContent-Length: 13\r\n",
        "Content-Length: +13\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 13, 13\r\n",
        "Content-Length: 0x0d\r\n",
        "Content-Length : 13\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: identity, chunked, identity\r\n",
        "X: 1\n\nGET /livez HTTP/1.1\r\n",
    ],
)
def test_a_request_that_could_be_taken_for_two_is_refused(guarded, lines):
    head = f"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n{lines}\r\n"
    smuggled = "GET /v1/keys HTTP/1.1\r\nHost: localhost\r\n\r\n"

    told = raw(guarded, (head + '{"code": "1"}' + smuggled).encode(), timeout_s=5)

    assert statuses(told) == [400]
    assert b'"keys"' not in told


def test_half_a_thousand_idle_connections_hinder_nobody(guarded):
    idle = []
    try:
        for number in range(500):
            peer = socket.create_connection(("127.0.0.1", port_of(guarded)), timeout=20)
            if number % 2:
                peer.sendall(b"GET /livez HTT")
            idle.append(peer)

        answers = [guarded.run("1")["outcome"] for _ in range(3)]
    finally:
        for peer in idle:
            peer.close()

    assert answers == ["ok"] * 3


# What comes out


def test_bytes_of_a_guest_are_never_a_page(guarded):
    page = b"<script>alert(1)</script>"
    made = json.loads(asked(guarded, "POST", "/v1/sandboxes", body=b"{}")[2])
    box = f"/v1/sandboxes/{made['sandbox_id']}"
    program = f"print({page.decode()!r})\nopen('x.html', 'wb').write({page!r})"
    run = json.loads(
        asked(guarded, "POST", f"{box}/run", body=json.dumps({"code": program, "trace": True}).encode())[2]
    )
    execution = f"/v1/executions/{run['execution_id']}"

    told = [
        asked(guarded, "GET", f"{box}/files/x.html"),
        asked(guarded, "POST", f"{box}/guest-files", body=b'{"op": "read", "path": "x.html"}'),
        asked(guarded, "GET", f"{execution}/artifacts/x.html"),
        asked(guarded, "GET", f"{execution}/output/stdout"),
        asked(guarded, "GET", f"{execution}/trace"),
    ]
    asked(guarded, "DELETE", box)

    assert [status for status, _, _ in told] == [200] * 5
    for _, headers, body in told:
        assert page in body or b"script" in body
        assert headers["content-type"] == "application/octet-stream"
        assert headers["content-disposition"] == "attachment"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["content-security-policy"] == "sandbox; default-src 'none'"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"


def test_every_reply_says_that_it_is_what_it_says(guarded):
    for path in ("/livez", "/v1/languages", "/no-such", "/metrics"):
        headers = asked(guarded, "GET", path)[1]

        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_words_of_a_guest_begin_no_line_of_a_log(guarded):
    hostile = 'x\n{"level": "forged"}\r\x1b[31m\u202e\u2028'
    body = {
        "code": f"open({hostile!r}, 'w').write('1')\nprint({hostile!r})\nraise Exception({hostile!r})",
        "filename": "m.py",
    }
    run = json.loads(asked(guarded, "POST", "/v1/run", body=json.dumps(body).encode())[2])
    made = json.loads(
        asked(guarded, "POST", "/v1/sandboxes", body=json.dumps({"labels": {hostile: hostile}}).encode())[2]
    )
    asked(guarded, "PUT", f"/v1/sandboxes/{made['sandbox_id']}/files/{'x%0a%1b%5b31m'}", body=b"1")
    asked(guarded, "DELETE", f"/v1/sandboxes/{made['sandbox_id']}")

    log, audit = guarded.stderr(), (guarded.folder / "audit.jsonl").read_text()

    assert run["outcome"] == "error"
    told = [json.loads(each) for each in (log + audit).splitlines()]
    assert "forged" not in {each.get("level") for each in told}
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u202e]", log + audit)


def test_a_full_disk_costs_lines_of_the_audit_log_and_no_run(tmp_path):
    with serving(tmp_path / "log", "--audit", "/dev/full") as server:
        outcomes = [server.run("1")["outcome"] for _ in range(3)]

        assert outcomes == ["ok"] * 3
        assert server.stderr().count("the audit log cannot be written") == 1


def test_nothing_runs_without_an_audit_log_that_is_required(tmp_path):
    with serving(tmp_path / "log", "--audit", "/dev/full", "--audit-required") as server, server.client() as client:
        run = client.post("/v1/run", json={"code": "1"})
        made = client.post("/v1/sandboxes", json={}).json()["sandbox_id"]
        refused = [
            run,
            client.post(f"/v1/sandboxes/{made}/run", json={"code": "1"}),
            client.post(f"/v1/sandboxes/{made}/processes", json={"command": "true"}),
        ]
        metrics = client.get("/metrics").text

    assert [(each.status_code, each.json()["error"]["code"]) for each in refused] == [(503, "audit_unavailable")] * 3
    assert all("retry-after" in each.headers for each in refused)
    assert int(float(re.search(r"^groundbox_audit_lost_lines (\S+)$", metrics, re.M)[1])) >= 3


# What stays behind


def test_many_runs_at_once_leave_no_descriptor_and_no_zombie(guarded):
    def batch():
        programs = [{"code": f"print({number})"} for number in range(100)]
        with guarded.client() as client:
            results = client.post("/v1/batch", json={"programs": programs}, timeout=300).json()["results"]
        return [each["execution"]["stdout"] for each in results]

    def open_now():
        """Descriptors but those of control groups, which serve the next sandboxes."""
        time.sleep(1.0)
        found = []
        for each in Path(f"/proc/{guarded.process.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.append(os.readlink(each))
        return len([each for each in found if not each.startswith("/sys/fs/cgroup")])

    batch()
    first, before = batch(), open_now()
    second, after = batch(), open_now()

    assert first == second == [f"{number}\n" for number in range(100)]
    assert after <= before + 10
    assert zombies_of(guarded.process.pid) == []


def zombies_of(pid):
    found = []
    for each in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            state, parent = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()[:2]
            if state == "Z" and int(parent) == pid:
                found.append(each)
    return found


def processes_with(mark):
    found = []
    for each in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if mark.encode() in Path(f"/proc/{each}/cmdline").read_bytes():
                found.append(int(each))
    return found


def children_of(pid):
    told = subprocess.run(["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = {int(pid_): int(parent) for pid_, parent in (line.split() for line in told.splitlines())}
    found, new = set(), {pid}
    while new:
        found |= new
        new = {each for each, parent in parents.items() if parent in found} - found
    return found - {pid}


def groups_of_groundbox():
    told = subprocess.run(
        ["find", "/sys/fs/cgroup", "-type", "d", "-name", "*groundbox*"], capture_output=True, text=True, check=False
    )
    return set(told.stdout.split())


def test_a_server_that_is_killed_leaves_nothing_after_the_next_start(tmp_path):
    mark = f"{os.getpid()}98.125"
    groups, mounts = groups_of_groundbox(), Path("/proc/self/mountinfo").read_text()
    audit = tmp_path / "audit.jsonl"
    with serving(tmp_path / "log", "--audit", audit) as server:
        with server.client() as client:
            box = client.post("/v1/sandboxes", json={}).json()["sandbox_id"]
            client.put(f"/v1/sandboxes/{box}/files/x", content=b"1")
            client.post(f"/v1/sandboxes/{box}/processes", json={"command": f"sleep {mark}"})
            running = threading.Thread(target=asked_and_lost, args=(server, f"/v1/sandboxes/{box}/run"))
            running.start()
            alone = threading.Thread(target=asked_and_lost, args=(server, "/v1/run"))
            alone.start()
            wait_for(lambda: client.get("/v1/engine").json()["runs_running"] == 2)
        there = processes_with(mark)
        family = children_of(server.process.pid)

        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
        running.join()
        alone.join()
    with serving(tmp_path / "log2", "--audit", audit) as server:
        outcome = server.run("1")["outcome"]
    wait_for(lambda: not processes_with(mark) and not any(os.path.exists(f"/proc/{each}") for each in family))

    told = [json.loads(line) for line in audit.read_text().splitlines()]
    assert (bool(there), outcome) == (True, "ok")
    assert sorted(each["outcome"] for each in told if each["event"] == "run") == ["lost", "lost", "ok"]
    assert Path("/proc/self/mountinfo").read_text() == mounts
    wait_for(lambda: groups_of_groundbox() - groups == set())


def asked_and_lost(server, path):
    with contextlib.suppress(OSError, http.client.HTTPException):
        asked(server, "POST", path, body=b'{"code": "import time; time.sleep(600)", "wall_s": 900}')
