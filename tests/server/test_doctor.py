"""`groundbox doctor --url`: what it says of a server."""

import http.server
import json
import os
import subprocess
import sys
import threading
import time

import pytest

from tests.server.conftest import serving


def doctor(*arguments, key=None):
    """Exit code, stdout and stderr."""
    environ = {name: value for name, value in os.environ.items() if name != "GROUNDBOX_API_KEY"}
    if key is not None:
        environ["GROUNDBOX_API_KEY"] = key
    command = [sys.executable, "-m", "groundbox", "doctor", *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, env=environ, check=False)
    return ran.returncode, ran.stdout, ran.stderr


def test_a_server_that_is_well_is_told_line_by_line(server):
    with server.client() as client:
        while client.get("/readyz").status_code != 200:
            time.sleep(0.2)

    code, said, complaint = doctor("--url", server.url, key=server.token)

    assert (code, complaint) == (0, "")
    assert said.splitlines() == [
        "ok       /livez: status 200, 'alive'",
        "ok       /readyz: ready",
        "ok       a run: print(6*7) printed 42 with namespaces",
        "ok       a wrong key: status 401",
        "ok       a foreign Host: status 403",
        f"groundbox: ready, server {server.url}: programs run there, and who may not ask is refused",
    ]


def test_programs_read_a_line_of_json_for_each(server):
    code, said, _ = doctor("--url", f"{server.url}/?token={server.token}", "--json")

    facts = [json.loads(line) for line in said.splitlines()]
    assert code == 0
    assert [(each["kind"], each.get("name")) for each in facts] == [
        ("server", "/livez"),
        ("server", "/readyz"),
        ("server", "a run"),
        ("server", "a wrong key"),
        ("server", "a foreign Host"),
        ("verdict", None),
    ]
    assert facts[-1] == {
        "kind": "verdict",
        "server": server.url,
        "works": True,
        "detail": "programs run there, and who may not ask is refused",
        "mend": "",
    }


def test_without_the_key_no_program_runs_and_that_is_a_failure(server):
    code, said, _ = doctor("--url", server.url)

    lines = said.splitlines()
    assert code == 3
    assert lines[2].startswith("FAILS    a run: ServerRefused: ")
    assert lines[-2].startswith(f"groundbox: not ready, server {server.url}: failing: a run")
    assert lines[-1].startswith("groundbox: No key was given: set the variable GROUNDBOX_API_KEY")


def test_a_server_that_asks_for_no_key_and_hears_any_name_fails(tmp_path):
    with serving(tmp_path / "log", "--no-auth", "--allow-name", "*", token=None) as server:
        code, said, _ = doctor("--url", server.url, "--json")

    facts = {each["name"]: each["works"] for each in map(json.loads, said.splitlines()) if each["kind"] == "server"}
    assert code == 3
    assert facts | {"/readyz": True} == {
        "/livez": True,
        "/readyz": True,
        "a run": True,
        "a wrong key": False,
        "a foreign Host": False,
    }


def test_over_a_unix_socket_keys_and_names_mean_nothing(tmp_path):
    path = tmp_path / "socket"
    with serving(tmp_path / "log", "--unix-socket", path, token=None):
        _, said, _ = doctor("--url", f"unix://{path}")

    lines = said.splitlines()
    assert lines[0] == "ok       /livez: status 200, 'alive'"
    assert lines[2:5] == [
        "ok       a run: print(6*7) printed 42 with namespaces",
        "ok       a wrong key: none is asked for: only processes of the same user can connect",
        "ok       a foreign Host: names mean nothing: only processes of the same user can connect",
    ]


def test_where_nobody_answers_nothing_else_is_asked(tmp_path):
    code, said, complaint = doctor("--url", f"unix://{tmp_path}/nobody")

    assert (code, complaint) == (3, "")
    assert said.splitlines() == [
        "FAILS    /livez: FileNotFoundError: [Errno 2] No such file or directory",
        f"groundbox: not ready, server unix://{tmp_path}/nobody: failing: /livez",
    ]


def test_another_server_is_not_taken_for_one_of_ours():
    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>\x1b[31m")

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Other) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{other.server_port}"

        code, said, _ = doctor("--url", url)
        other.shutdown()

    assert code == 3
    assert said.splitlines() == [
        r"FAILS    /livez: status 200, '<html>\x1b[31m'",
        f"groundbox: not ready, server {url}: failing: /livez",
    ]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--url", "nowhere"], "must be like http://127.0.0.1:8000 or unix:///run/groundbox.sock, not 'nowhere'"),
        (["--url", "http://127.0.0.1:1", "--delegate", "me"], "does not go with --delegate"),
    ],
    ids=["no url", "delegate"],
)
def test_bad_usage_names_the_option(arguments, problem):
    code, _, complaint = doctor(*arguments)

    assert code == 2
    assert complaint.splitlines()[-1] == f"Error: Invalid value for '--url': {problem}"
