"""Protocols that are off until they are asked for: how they are switched on, and what is different then."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from starlette.routing import Route
from starlette.testclient import TestClient

import groundbox
from groundbox.errors import InvalidArgument
from groundbox.server import protocol
from groundbox.server.application import application
from groundbox.server.keys import Keys
from groundbox.server.service import Service
from groundbox.server.settings import Settings

TOKEN = "k" * 20
NAMES = ["containers", "judge0", "librechat", "opensandbox", "piston"]


def client_of(*names, headers=None):
    app = application(Service(Settings(protocols=names), Keys(token=TOKEN)))
    return TestClient(app, headers={"Authorization": f"Bearer {TOKEN}", "Host": "localhost", **(headers or {})})


def routes_of(name):
    """Method and path, with placeholders filled, of each route of a protocol."""
    loaded = protocol.load([name])[name]
    for route in loaded.routes(Service(Settings(), Keys(token=None))):
        assert isinstance(route, Route)
        path = re.sub(r"{[^}]*}", "1", route.path)
        yield from ((method, path, route.path) for method in sorted(route.methods - {"HEAD"}))


def test_the_five_protocols_of_this_package_are_installed():
    assert set(NAMES) <= set(protocol.installed()), "the installation is older than the entry points: make setup"


@pytest.mark.parametrize("name", NAMES)
def test_protocols_are_off_until_they_are_asked_for(name):
    off, on = client_of(*(each for each in NAMES if each != name)), client_of(name)
    asked = [(method, path) for method, path, _ in routes_of(name)]

    told = {each: off.request(*each, json={} if each[0] == "POST" else None) for each in asked}
    there = [on.request(method, path) for method, path in asked if method == "DELETE"]

    assert {answer.status_code for answer in told.values()} == {404}
    assert all(name in answer.json()["message"] for answer in told.values()), "the answer names the option"
    assert [each for each in there if "protocols that are off" in each.text] == []


@pytest.mark.parametrize("command", [["serve"], ["gateway", "--catalogue", "x.db"]])
def test_an_unknown_protocol_is_refused_with_those_that_are_installed(tmp_path, command):
    told = [sys.executable, "-m", "groundbox", *command, "--port", "0", "--protocol", "jugde0"]
    environ = {"PATH": "/usr/bin:/bin", "GROUNDBOX_JOIN_SECRET": "x" * 20, "HOME": str(tmp_path)}

    ended = subprocess.run(told, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=120, check=False)

    assert ended.returncode == 2
    assert "--protocol" in ended.stderr
    assert "there is no protocol 'jugde0'; installed are containers, judge0, librechat" in ended.stderr


def test_a_gateway_refuses_a_protocol_that_it_cannot_pass_on(tmp_path):
    from groundbox.fleet.gateway import Gateway

    with pytest.raises(InvalidArgument, match="'librechat' cannot be used at a gateway"):
        Gateway(None, Keys(token=TOKEN), Settings(protocols=["librechat"]))


def test_paths_of_a_protocol_that_is_on_are_in_the_openapi_document():
    plain = client_of().get("/v1/openapi.json").json()
    whole = client_of(*NAMES).get("/v1/openapi.json").json()
    asked = {
        (re.sub(r"{(\w+):\w+}", r"{\1}", path), method.lower()) for name in NAMES for method, _, path in routes_of(name)
    }

    added = {(path, method) for path, item in whole["paths"].items() if path not in plain["paths"] for method in item}
    references = set(re.findall(r'"#/components/schemas/([^"]+)"', str(whole).replace("'", '"')))
    names = [each["operationId"] for item in whole["paths"].values() for each in item.values() if "operationId" in each]

    assert added - {(path, "parameters") for path, _ in added} == asked
    assert references <= set(whole["components"]["schemas"])
    assert len(names) == len(set(names))
    body = whole["paths"]["/submissions"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["$ref"].startswith("#/components/schemas/judge0.")


@pytest.mark.parametrize(
    ("name", "header"),
    [("piston", "Authorization"), ("judge0", "X-Auth-Token"), ("opensandbox", "OPEN-SANDBOX-API-KEY")],
)
def test_a_key_in_a_header_of_a_protocol_is_taken_while_it_is_on(name, header):
    statuses = []
    for names in ([], [name]):
        app = application(Service(Settings(protocols=names), Keys(token=TOKEN)))
        asking = TestClient(app, headers={"Host": "localhost", header: TOKEN})
        statuses.append(asking.get("/v1/languages").status_code)

    assert statuses == [401, 200]


def test_nothing_outside_their_folder_knows_these_protocols():
    source = Path(groundbox.__file__).parent
    words = re.compile(r"judge0|piston|librechat|open-?sandbox|cntr_|/submissions|protocols\.containers", re.IGNORECASE)

    files = [*source.rglob("*.py"), *source.rglob("*.js"), *source.rglob("*.html")]
    knowing = [
        str(path.relative_to(source))
        for path in files
        if path.relative_to(source).parts[0] != "protocols"
        and "vendor" not in path.parts
        and words.search(path.read_text(encoding="utf-8"))
    ]

    assert knowing == []


def test_what_is_not_a_protocol_is_refused_by_its_entry_point(monkeypatch):
    from importlib import metadata

    points = [
        metadata.EntryPoint("bad", "json:dumps", protocol.ENTRY_POINTS),
        metadata.EntryPoint("gone", "no_such_module:PROTOCOL", protocol.ENTRY_POINTS),
    ]
    monkeypatch.setattr(protocol, "_points", lambda: {each.name: each for each in points})

    with pytest.raises(InvalidArgument, match="'bad' is not a WireProtocol: json:dumps"):
        protocol.load(["bad"])
    with pytest.raises(InvalidArgument, match="'gone' cannot be imported: No module named 'no_such_module'"):
        protocol.load(["gone"])
    with pytest.raises(InvalidArgument, match="there is no protocol 'x'; installed are bad, gone"):
        protocol.load(["x"])
