"""Who comes in, by which headers the page is held, and its files. Without a browser."""

import hashlib
import re
from pathlib import Path

import pytest

from groundbox.server import console

STATIC = Path(console.__file__).parent / "static"


def test_a_key_in_the_address_goes_into_the_cookie_and_out_of_the_address(server):
    with server.client(token=None) as client:
        answer = client.get("/", params={"token": server.token})
        page = client.get("/", headers={"Cookie": f"groundbox_key={server.token}"})

    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert answer.headers["set-cookie"] == f"groundbox_key={server.token}; HttpOnly; Path=/; SameSite=strict"
    assert '<body class="console">' in page.text


LINK = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Accept": "text/html,*/*"}


@pytest.mark.parametrize(
    ("headers", "is_direct"),
    [
        ({**LINK, "Sec-Fetch-Site": "none"}, True),
        ({**LINK, "Sec-Fetch-Site": "same-origin"}, True),
        ({**LINK, "Sec-Fetch-Site": "cross-site"}, False),
        ({**LINK, "Sec-Fetch-Site": "same-site"}, False),
        ({"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}, False),
        ({"Accept": "*/*"}, True),
    ],
)
def test_a_link_on_another_page_logs_nobody_in_without_a_click(server, headers, is_direct):
    with server.client(token=None) as client:
        answer = client.get("/", params={"token": server.token}, headers=headers)
        unknown = client.get("/", params={"token": '"><b>wrong'}, headers=headers)

    assert ("set-cookie" in answer.headers) == is_direct
    assert answer.status_code == (303 if is_direct else 200)
    assert (f'value="{server.token}"' in answer.text) == (not is_direct)
    assert (unknown.status_code, "<b>" in unknown.text) == (401, False)


def test_an_address_does_not_replace_the_key_that_somebody_is_logged_in_with(server):
    with server.client() as owner:
        other = owner.post("/v1/keys", json={"owner": "mallory"}).json()["key"]
    address = {**LINK, "Sec-Fetch-Site": "none"}
    with server.client(token=None) as client:
        answers = [
            client.get("/", params={"token": key}, headers={**address, "Cookie": f"groundbox_key={cookie}"})
            for key, cookie in ((other, server.token), (server.token, server.token), (other, "expired-or-wrong-key"))
        ]

    assert ["set-cookie" in each.headers for each in answers] == [False, True, True]
    assert "You are logged in with another key." in answers[0].text


@pytest.mark.parametrize("cookie", [None, "groundbox_key=wrong", "groundbox_key="])
def test_without_a_key_there_is_a_login_and_nothing_else(server, cookie):
    headers = {"Cookie": cookie} if cookie else {}
    with server.client(token=None) as client:
        page = client.get("/", headers=headers)
        behind = client.get("/v1/sandboxes", headers=headers)

    assert (page.status_code, '<body class="login">' in page.text) == (200, True)
    assert behind.status_code == 401


def test_the_login_takes_the_key_and_tells_a_wrong_one(server):
    with server.client(token=None) as client:
        right = client.post("/console/login", data={"token": f" {server.token} "})
        wrong = client.post("/console/login", data={"token": "<b>wrong"})
        long = client.post("/console/login", content=b"x" * 5000)
        by_address = client.get("/", params={"token": "wrong"})

    assert (right.status_code, right.headers["location"]) == (303, "/")
    assert right.headers["set-cookie"].startswith(f"groundbox_key={server.token}; HttpOnly")
    assert (wrong.status_code, "That key is not known here." in wrong.text) == (401, True)
    assert "<b>wrong" not in wrong.text
    assert "set-cookie" not in wrong.headers
    assert long.status_code == 413
    assert by_address.status_code == 401


def test_a_login_from_a_page_of_another_server_is_refused(server):
    with server.client(token=None) as client:
        answer = client.post(
            "/console/login", data={"token": server.token}, headers={"Origin": "http://elsewhere.example"}
        )

    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "wrong_origin")


def test_log_out_takes_the_cookie(server):
    with server.client(token=None) as client:
        answer = client.post("/console/logout")

    assert answer.status_code == 303
    assert 'groundbox_key=""' in answer.headers["set-cookie"]
    assert "Max-Age=0" in answer.headers["set-cookie"]


def test_the_page_is_held_by_its_policy(server):
    with server.client(token=None) as client:
        first, second = client.get("/").headers, client.get("/").headers

    policy = first["content-security-policy"]
    assert re.sub("nonce-[^']+", "nonce", policy) == (
        "default-src 'none'; script-src 'self'; style-src 'self' 'nonce'; img-src 'self' data: blob:; "
        "connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    assert policy != second["content-security-policy"]
    assert (first["x-frame-options"], first["cache-control"], first["referrer-policy"]) == (
        "DENY",
        "no-store",
        "same-origin",
    )


@pytest.mark.parametrize("name", ["still", "lively", "chart", "terminal"])
def test_frames_have_another_origin_and_no_network(server, name):
    with server.client(token=None) as client:
        answer = client.get(f"/console/frame/{name}")

    policy = answer.headers["content-security-policy"]
    assert policy.startswith("sandbox allow-scripts; default-src 'none'; script-src ")
    assert "allow-same-origin" not in policy
    assert ("'unsafe-inline'; style-src" in policy) == (name == "lively")
    assert "http" not in policy
    assert answer.headers["connection-allowlist"] == "()"


def test_files_are_public_checked_for_change_and_small_on_the_wire(server):
    with server.client(token=None) as client:
        whole = client.get("/console/console.js")
        again = client.get("/console/console.js", headers={"If-None-Match": whole.headers["etag"]})
        plain = client.get("/console/console.js", headers={"Accept-Encoding": "identity"})

    assert (whole.status_code, whole.headers["content-type"]) == (200, "text/javascript; charset=utf-8")
    assert whole.headers["content-encoding"] == "gzip"
    assert whole.text == plain.text == (STATIC / "console.js").read_text()
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "path",
    ["/console/../keys.py", "/console/%2e%2e/__init__.py", "/console/index.html", "/console/vendor", "/console/"],
)
def test_nothing_but_the_files_of_the_console_is_served(server, path):
    with server.client(token=None) as without, server.client() as owner:
        answers = without.get(path), owner.get(path)

    assert [answer.status_code for answer in answers] == [401, 404]


def test_what_is_vendored_is_what_its_list_says():
    text = (STATIC / "vendor" / "THIRD_PARTY.md").read_text()
    listed = dict(re.findall(r"\| ([\w.-]+\.(?:js|css)) \|.*\| `([0-9a-f]{64})` \|", text))

    there = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (STATIC / "vendor").iterdir()
        if path.suffix in (".js", ".css")
    }
    assert listed == there
    for licence in re.findall(r"\]\(([\w.-]+\.LICENSE)\)", text):
        assert "Copyright" in (STATIC / "vendor" / licence).read_text()


def test_the_page_names_no_other_host():
    own = [path for path in STATIC.iterdir() if path.is_file()]

    named = {path.name: re.findall(r"https?://(?!www\.w3\.org)[\w.]+", path.read_text()) for path in own}

    assert {name: hosts for name, hosts in named.items() if hosts} == {}
