"""Adversarial values in each field of each route of the protocols: no fault of the server, and no work beyond the size.

Work is the processor time of the server's process, which other programs of the machine do not change. The bound is some
times the work for a body of the same size that is refused at once.
"""

import copy
import json
import os
from pathlib import Path

import pytest
from starlette.routing import Route

from groundbox.server import protocol
from groundbox.server.keys import Keys
from groundbox.server.service import Service
from groundbox.server.settings import Settings
from tests.server.conftest import EVERY_PROTOCOL, serving

PYTHON = 71
LARGE = 500_000
DEEP = "[" * 5000 + "]" * 5000
VALUES = {
    "null": None,
    "true": True,
    "minus one": -1,
    "large number": 2**63,
    "huge number": 2**200,
    "huge float": 1e308,
    "empty text": "",
    "nul": "a\0b",
    "controls": "\x1b[2J\r\n\x07\u202e\u2028\ud7ff",
    "slashes": "../" * 1000,
    "letters": "x" * LARGE,
    "blanks": " " * LARGE + "!",
    "quotes": "'\"\\" * (LARGE // 3),
    "digits": "9" * LARGE,
    "numbers": "1." * (LARGE // 2),
    "base64 of nothing": "= " * (LARGE // 2),
    "empty list": [],
    "lists": [[]],
    "empty object": {},
    "names": {"": ""},
    "many texts": ["x"] * 5000,
    "many numbers": list(range(5000)),
    "many names": {f"n{each}": each for each in range(5000)},
    "many objects": [{"a": {}}] * 5000,
    "long name": {"x" * LARGE: 1},
    "nested": json.loads("[" * 90 + "]" * 90),
    "deep": "DEEP",  # stands for what no encoder here writes
}
BODIES = {
    "/api/v2/execute": {
        "language": "python",
        "version": "*",
        "files": [{"name": "a.py", "content": "1", "encoding": "utf8"}],
        "stdin": "",
        "args": ["a"],
        "run_timeout": 1000,
        "run_cpu_time": 1000,
        "run_memory_limit": -1,
    },
    "/submissions": {
        "source_code": "1",
        "language_id": PYTHON,
        "stdin": "",
        "expected_output": "",
        "additional_files": "",
        "command_line_arguments": "a",
        "compiler_options": "",
        "cpu_time_limit": 1,
        "cpu_extra_time": 0,
        "wall_time_limit": 2,
        "memory_limit": 100_000,
        "max_processes_and_or_threads": 8,
        "redirect_stderr_to_stdout": False,
        "enable_network": False,
        "number_of_runs": 1,
        "callback_url": "",
    },
    "/submissions/batch": {"submissions": [{"source_code": "1", "language_id": PYTHON}]},
    "/exec": {"lang": "py", "code": "1", "args": ["a"], "session_id": "x", "files": [{"id": "x", "name": "y"}]},
    "/exec/programmatic": {
        "code": "1",
        "tools": [{"name": "f", "description": "", "parameters": {"type": "object", "properties": {"a": {}}}}],
        "session_id": "x",
        "timeout": 2000,
        "files": [{"id": "x", "session_id": "y"}],
        "tool_results": [{"call_id": "x", "result": 1, "is_error": False, "error_message": ""}],
    },
    "/opensandbox/sandboxes": {
        "image": {"uri": "x"},
        "entrypoint": ["x"],
        "timeout": 60,
        "resourceLimits": {"memory": "512Mi", "cpu": "1"},
        "env": {"A": "b"},
        "metadata": {"a": "b"},
        "networkPolicy": {"defaultAction": "deny", "egress": [{"action": "deny", "target": "x"}]},
        "snapshotId": None,
        "templateId": None,
        "volumes": [],
    },
    "/opensandbox/sandboxes/BOX/renew-expiration": {"expiresAt": "2030-01-01T00:00:00Z"},
    "/opensandbox/execd/BOX/code": {"code": "1", "context": {"language": "python", "id": None}},
    "/opensandbox/execd/BOX/code/context": {"language": "python"},
    "/opensandbox/execd/BOX/command": {
        "command": "true",
        "argv": None,
        "cwd": "/tmp",
        "background": False,
        "timeout": 1000,
        "envs": {"A": "b"},
    },
    "/opensandbox/execd/BOX/directories": {"made": {"mode": 755}},
    "/v1/containers": {
        "name": "x",
        "expires_after": {"anchor": "last_active_at", "minutes": 5},
        "memory_limit": "1g",
        "network_policy": {"type": "disabled", "allowed_domains": [], "domain_secrets": None},
        "file_ids": [],
        "skills": [],
    },
}
WITH_FORMS = {
    "/upload",
    "/opensandbox/execd/{sandbox_id}/files/upload",
    "/v1/containers/{container_id}/files",
}
QUERIES = (
    *("fields", "tokens", "base64_encoded", "wait", "page", "pageSize", "metadata", "state", "limit", "order"),
    *("after", "name", "path", "id", "language"),
)


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("swept")
    with serving(folder / "log", *EVERY_PROTOCOL) as server, server.client() as client:
        server.run("1")
        yield server, client


@pytest.fixture(scope="module")
def box(swept):
    """The id of a sandbox of OpenSandbox."""
    _, client = swept
    made = client.post("/opensandbox/sandboxes", json={"timeout": 600}).json()["id"]
    client.post(f"/opensandbox/execd/{made}/code", json={"code": "1"})
    return made


def worked_s(server):
    """Processor time of the server's own process."""
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def places(value, at=()):
    """The place of each value within a body, its names in order."""
    if at:
        yield at
    for name, inner in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield from places(inner, (*at, name))


def changed(body, at, value):
    body = copy.deepcopy(body)
    inner = body
    for name in at[:-1]:
        inner = inner[name]
    inner[at[-1]] = value
    return json.dumps(body).replace('"DEEP"', DEEP).encode()


def close_what_was_made(client, path, answer):
    if path in ("/opensandbox/sandboxes", "/v1/containers") and answer.status_code < 300:
        client.delete(f"{path}/{answer.json()['id']}")


def test_every_route_with_a_body_is_swept():
    taking = set()
    for each in protocol.load(protocol.installed()).values():
        for route in each.routes(Service(Settings(), Keys(token=None))):
            assert isinstance(route, Route)
            if "POST" in route.methods:
                taking.add(route.path)
    swept_paths = {path.replace("BOX", "{sandbox_id}") for path in BODIES} | WITH_FORMS
    swept_paths |= {path.replace("/opensandbox/", "/opensandbox/v1/") for path in swept_paths if "execd" not in path}

    assert taking - swept_paths == {"/api/v2/packages"}, "which reads no body"


@pytest.mark.parametrize("path", BODIES)
def test_no_value_of_a_field_is_a_fault_or_takes_long(swept, box, path):
    server, client = swept
    url = path.replace("BOX", box)
    failed = []
    for at in places(BODIES[path]):
        for name, value in VALUES.items():
            body = changed(BODIES[path], at, value)
            begun = worked_s(server)
            answer = client.post(url, content=body, headers={"Content-Type": "application/json"})
            took_s = worked_s(server) - begun
            if answer.status_code >= 500 or took_s > 0.75:
                failed.append((at, name, answer.status_code, took_s, answer.text[:200]))
            close_what_was_made(client, path, answer)

    assert failed == []


def test_no_value_of_a_query_is_a_fault_or_takes_long(swept, box):
    server, client = swept
    token = client.post("/submissions", json=BODIES["/submissions"]).json()["token"]
    paths = [
        *("/submissions/batch", f"/submissions/{token}", "/languages", "/api/v2/runtimes", "/files/x"),
        *("/v1/containers", "/opensandbox/sandboxes", f"/opensandbox/sandboxes/{box}/endpoints/44772"),
        *(f"/opensandbox/execd/{box}/{each}" for each in ("files/info", "code/contexts", "files/download")),
    ]
    values = ("", "0", "-1", "9" * 5000, "a,b" * 4000, "," * 12_000, "%00", "%ff", "=&" * 60, "a=b%26" * 1000, "../..")

    failed = []
    for path in paths:
        for name in QUERIES:
            for value in values:
                begun = worked_s(server)
                answer = client.get(f"{path}?{name}={value}")
                took_s = worked_s(server) - begun
                if answer.status_code >= 500 or took_s > 0.5:
                    failed.append((path, name, value[:20], answer.status_code, took_s, answer.text[:200]))

    assert failed == []


@pytest.mark.parametrize(
    "name", ["", "\0", "/", "..", "../../x", "a" * 5000, '"; ' * 1000, "\u202e\x1b", "é" * 1000, "a/" * 2000 + "b"]
)
def test_no_name_of_a_file_is_a_fault(swept, box, name):
    server, client = swept
    container = client.post("/v1/containers", json={"name": "x"}).json()["id"]
    uploads = {
        "/upload": {"file": (name, b"1")},
        f"/v1/containers/{container}/files": {"file": (name, b"1")},
        f"/opensandbox/execd/{box}/files/upload": {
            "metadata": ("metadata", json.dumps({"path": name, "mode": -1}).encode(), "application/json"),
            "file": (name, b"1"),
        },
    }

    begun = worked_s(server)
    answers = [client.post(path, files=files) for path, files in uploads.items()]
    took_s = worked_s(server) - begun
    client.delete(f"/v1/containers/{container}")

    assert [(each.status_code, each.text[:200]) for each in answers if each.status_code >= 500] == []
    assert took_s < 1


@pytest.mark.parametrize("body", [b"", b"[]", b"1", b'"x"', b"{", b"\xff", b"--", b"{}" * 10_000, DEEP.encode()])
def test_no_body_is_a_fault(swept, box, body):
    _, client = swept
    failed = []
    for path in [*BODIES, "/upload", "/opensandbox/execd/BOX/files/upload"]:
        for kind in ("application/json", "multipart/form-data; boundary=x", "multipart/form-data"):
            answer = client.post(path.replace("BOX", box), content=body, headers={"Content-Type": kind})
            if answer.status_code >= 500:
                failed.append((path, kind, answer.status_code, answer.text[:200]))
            close_what_was_made(client, path, answer)

    assert failed == []
