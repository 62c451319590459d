"""SandboxFusion's protocol: its vendor's client and verl's reward on a real server, and what both do not show."""

import asyncio
import base64
import contextlib
import importlib.util
import json
import re
import threading
import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from groundbox.errors import SandboxUnavailable
from groundbox.sandbox import environments
from groundbox.sandbox.sandbox import AsyncSandbox
from groundbox.server.application import application
from groundbox.server.keys import Keys
from groundbox.server.service import Service
from groundbox.server.settings import Settings

TOKEN = "a-key-of-a-server-in-this-process"


def b64(data):
    return base64.b64encode(data).decode()


def run_code(client, code, **body):
    """The reply to one program, which has to have status 200."""
    answer = client.post("/run_code", json={"code": code, **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


def run_jupyter(client, *cells, **body):
    answer = client.post("/run_jupyter", json={"cells": cells, **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


@contextlib.contextmanager
def in_process(**settings):
    """A server without a process, whose engine a test can break."""
    service = Service(Settings(**settings), Keys(token=TOKEN))
    with TestClient(application(service), headers={"Authorization": f"Bearer {TOKEN}", "Host": "localhost"}) as client:
        yield client


# The vendor's client


@pytest.fixture
def fusion(server):
    """The vendor's client, which sends no key but what its address says."""
    module = pytest.importorskip("sandbox_fusion", reason="sandbox-fusion is not installed here: make clients")
    module.set_endpoint(f"{server.url}/with-key/{server.token}")
    return module


def test_the_vendors_client_runs_a_program(fusion):
    request = fusion.RunCodeRequest(code="print(int(input()) * 2)", stdin="21", language="python")

    reply = fusion.run_code(request, max_attempts=1)

    assert (reply.status, reply.run_result.status, reply.run_result.return_code) == ("Success", "Finished", 0)
    assert (reply.run_result.stdout, reply.run_result.stderr, reply.compile_result) == ("42\n", "", None)


def test_the_vendors_client_is_told_a_limit_once_and_repeats_nothing(fusion):
    request = fusion.RunCodeRequest(code="while True: pass", language="python", run_timeout=0.5)

    reply = fusion.run_code(request, max_attempts=1)

    assert (reply.status, reply.run_result.status, reply.run_result.return_code) == (
        "Failed",
        "TimeLimitExceeded",
        None,
    )


def test_the_vendors_client_runs_a_notebook_and_fetches_its_file(fusion):
    cells = ["x = 41", "x + 1", "open('y.txt', 'w').write(str(x));"]
    request = fusion.RunJupyterRequest(cells=cells, fetch_files=["y.txt"])

    reply = fusion.run_jupyter(request, max_attempts=1)

    assert (reply.status, reply.driver.return_code) == ("Success", 0)
    assert [each.display for each in reply.cells] == [[], [{"text/plain": "42"}], []]
    assert reply.files == {"y.txt": b64(b"41")}


def test_the_vendors_asynchronous_client_runs_many_at_once(fusion):
    requests = [fusion.RunCodeRequest(code=f"print({n} ** 2)", language="python") for n in range(12)]

    replies = asyncio.run(gathered(fusion.run_code_async(each, max_attempts=1) for each in requests))

    assert [each.run_result.stdout for each in replies] == [f"{n * n}\n" for n in range(12)]


async def gathered(work):
    return await asyncio.gather(*work)


# verl's reward: its file is read from its wheel alone, because the package imports torch


@pytest.fixture
def verl():
    spec = importlib.util.find_spec("verl")
    if spec is None:
        pytest.skip("verl is not installed here: pip install --no-deps verl")
    path = Path(spec.submodule_search_locations[0], "utils/reward_score/sandbox_fusion/utils.py")
    loaded = importlib.util.spec_from_file_location("verl_sandbox_fusion", path)
    module = importlib.util.module_from_spec(loaded)
    loaded.loader.exec_module(module)
    return module


def test_verls_reward_tells_right_wrong_failed_and_slow_apart(server, verl):
    cases = {"inputs": ["1\n", "2\n", "3\n", "4\n"], "outputs": ["1\n", "5", "3", "4"]}
    program = "n = int(input())\nif n == 3: raise SystemExit(7)\nwhile n == 4: pass\nprint(n)"
    url = f"{server.url}/with-key/{server.token}/run_code"

    results, facts = verl.check_correctness(url, cases, program, timeout=2)

    assert results == [True, False, -2, -3]
    assert [each["status"] for each in facts] == ["success", "wrong_answer", "runtime_error", "timeout"]


def test_verls_wrapper_calls_a_function_of_the_program(server, verl):
    cases = {"inputs": ["[1, 2]\n3"], "outputs": ["[1, 2, 3]"], "fn_name": "appended"}
    program = "class Solution:\n    def appended(self, xs, x):\n        return [*xs, x]"
    url = f"{server.url}/with-key/{server.token}/run_code"

    results, _ = verl.check_correctness(url, cases, program, timeout=5)

    assert results == [True]


def test_verl_takes_a_language_that_is_not_here_for_one_that_does_not_compile(server, verl):
    cases = {"inputs": [""], "outputs": [""]}
    url = f"{server.url}/with-key/{server.token}/run_code"

    results, facts = verl.check_correctness(url, cases, "fn main() {}", timeout=2, language="rust")

    assert results == [-4]
    assert "there is no language 'rust' on this server" in facts[0]["compile_stderr"]


def test_a_request_as_verl_sends_it_is_answered(server):
    body = {
        "compile_timeout": 10,
        "run_timeout": 10,
        "code": "print(input())",
        "stdin": "1",
        "memory_limit_MB": 1024,
        "language": "python",
        "files": {},
        "fetch_files": [],
    }
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    with server.client(token=None) as nobody:
        answer = nobody.post(
            f"/with-key/{server.token}/run_code?refused=504", content=json.dumps(body), headers=headers
        )

    run = answer.json()["run_result"]
    assert (answer.json()["status"], run["status"], run["stdout"]) == ("Success", "Finished", "1\n")


# Programs


def test_a_request_with_nothing_but_code_is_python(client):
    reply = run_code(client, "print(6 * 7)")

    result = reply.pop("run_result")
    assert reply == {
        "status": "Success",
        "message": "",
        "compile_result": None,
        "executor_pod_name": None,
        "files": {},
    }
    assert (result["status"], result["return_code"], result["stdout"], result["stderr"]) == ("Finished", 0, "42\n", "")
    assert 0 < result["execution_time"] < 10


def test_ping_needs_no_key(server):
    with server.client(token=None) as nobody:
        answer = nobody.get("/v1/ping")

    assert (answer.status_code, answer.json()) == (200, "pong")


@pytest.mark.parametrize(
    ("language", "code", "stdin", "stdout"),
    [
        ("bash", "read x; echo $((x + 1))", "41\n", "42\n"),
        ("nodejs", "process.stdin.on('data', text => console.log(text.toString().trim() * 2))", "21", "42\n"),
        ("python", "import sys; print(repr(sys.stdin.read()))", None, "''\n"),
    ],
)
def test_languages_read_their_input(client, language, code, stdin, stdout):
    if language == "nodejs" and not Path("/usr/bin/node").exists():
        pytest.skip("Node is not installed here")

    reply = run_code(client, code, language=language, stdin=stdin)

    assert (reply["status"], reply["run_result"]["stdout"]) == ("Success", stdout)


@pytest.mark.parametrize(
    ("code", "status", "return_code", "stderr"),
    [
        ("raise SystemExit(3)", "Finished", 3, ""),
        ("int a = 1", "Finished", 1, "SyntaxError: invalid syntax"),
        ("import os; os.kill(os.getpid(), 11)", "Finished", -11, "SIGSEGV ended the program"),
        ("bytearray(1 << 40)", "Finished", 1, "MemoryError"),
        ("x = [bytearray(1 << 20) for _ in range(1 << 20)]", "Finished", -9, "groundbox: "),
    ],
)
def test_a_program_that_fails_has_the_return_code_of_its_process(client, code, status, return_code, stderr):
    reply = run_code(client, code, memory_limit_MB=256)

    result = reply["run_result"]
    assert (reply["status"], result["status"], result["return_code"]) == ("Failed", status, return_code)
    assert stderr in result["stderr"]


@pytest.mark.parametrize("files", [{}, {"x": b64(b"1")}, {"/tmp/x": b64(b"1")}])
def test_a_program_that_was_killed_is_run_again_before_that_is_its_result(client, files):
    def count():
        found = re.findall(r'groundbox_runs_total{[^}]*outcome="signal"[^}]*} (\S+)', client.get("/metrics").text)
        return sum(map(float, found))

    before = count()
    reply = run_code(client, "import os; os.kill(os.getpid(), 9)", files=files)

    assert reply["run_result"]["return_code"] == -9
    assert count() - before == 4


def test_output_until_the_limit_is_told(client):
    reply = run_code(client, "import time\nprint('so far', flush=True)\ntime.sleep(60)", run_timeout=1)

    assert reply["run_result"]["stdout"] == "so far\n"
    assert 0.9 < reply["run_result"]["execution_time"] < 5


@pytest.mark.parametrize(
    ("language", "place"), [("cpp", "compile_result"), ("ruby", "run_result"), ("x", "run_result")]
)
def test_a_language_that_is_not_here_is_a_failure_with_words(client, language, place):
    reply = run_code(client, "1", language=language)

    other = "run_result" if place == "compile_result" else "compile_result"
    assert (reply["status"], reply[other], reply[place]["return_code"]) == ("Failed", None, 127)
    assert reply[place]["stderr"] == (
        f"groundbox: there is no language '{language}' on this server; it has python, bash, nodejs, pytest"
    )


def test_pytest_runs_or_says_that_the_environment_has_none(client):
    code = "def test_good(tmp_path): assert tmp_path\ndef test_bad(): assert 1 == 2"
    there = "pytest" in environments.get("default").packages

    reply = run_code(client, code, language="pytest")

    result = reply["run_result"]
    assert (reply["status"], result["return_code"]) == ("Failed", 1 if there else 127)
    assert ("1 failed, 1 passed" in result["stdout"]) if there else ("has no pytest" in result["stderr"])


def test_output_that_is_cut_is_told(client):
    reply = run_code(client, "print('x' * 9_000_000)")

    assert reply["status"] == "Success"
    assert reply["message"] == f"stdout: {9_000_001 - 8 * 2**20} bytes were left out"


# Files


def test_files_go_in_and_come_out(client):
    code = "data = open('in/a.bin', 'rb').read()\nopen('out.bin', 'wb').write(data[::-1])"

    reply = run_code(
        client, code, files={"in/a.bin": b64(b"\x00\xff"), "no": None}, fetch_files=["out.bin", "./out.bin", "missing"]
    )

    assert reply["files"] == {"out.bin": b64(b"\xff\x00"), "./out.bin": b64(b"\xff\x00")}


def test_a_given_file_is_fetched_as_the_program_left_it(client):
    files = {name: b64(b"old") for name in ("kept", "changed", "gone")}
    code = "import os\nopen('changed', 'w').write('new')\nos.remove('gone')"

    reply = run_code(client, code, files=files, fetch_files=[*files])

    assert reply["files"] == {"kept": b64(b"old"), "changed": b64(b"new")}


def test_files_outside_the_workdir_go_in_and_come_out(client):
    code = "open('/tmp/b', 'w').write(open('/tmp/deep/a').read() + '!')"

    reply = run_code(client, code, files={"/tmp/deep/a": b64(b"hello")}, fetch_files=["/tmp/b", "/tmp/none"])

    assert reply["files"] == {"/tmp/b": b64(b"hello!")}


@pytest.mark.parametrize("language", ["bash", "nodejs"])
def test_a_given_file_may_have_the_name_of_the_program(client, language):
    if language == "nodejs" and not Path("/usr/bin/node").exists():
        pytest.skip("Node is not installed here")
    ending = ".sh" if language == "bash" else ".js"
    code = (
        f"cat program{ending}" if ending == ".sh" else "console.log(require('fs').readFileSync('program.js', 'utf8'))"
    )

    reply = run_code(client, code, language=language, files={f"program{ending}": b64(b"given")})

    assert reply["run_result"]["stdout"].strip() == "given"


def test_a_program_finds_its_own_file(client):
    reply = run_code(client, "print(open(__file__).read()[:5])", files={"main.py": b64(b"given")})

    assert reply["run_result"]["stdout"] == "print\n"


def test_programs_ask_servers_of_their_own(client):
    code = """
import http.server, threading, urllib.request
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(urllib.request.urlopen(f"http://localhost:{server.server_port}/").status)
"""

    reply = run_code(client, code)

    assert reply["run_result"]["stdout"] == "200\n"


# Notebooks


def test_a_cell_that_raises_does_not_end_the_notebook(client):
    reply = run_jupyter(client, "a = 'x'\nprint(a)", "1 / 0", "a")

    error = {"ename": "ZeroDivisionError", "evalue": "division by zero"}
    assert (reply["status"], reply["driver"]["return_code"]) == ("Success", 0)
    assert reply["cells"][0] == {"stdout": "x\n", "stderr": "", "display": [], "error": []}
    assert error.items() <= reply["cells"][1]["error"][0].items()
    assert reply["cells"][2]["display"] == [{"text/plain": "'x'"}]


def test_a_notebook_that_takes_too_long_fails_with_the_cells_until_then(client):
    reply = run_jupyter(client, "print(1)", "while True: pass", "print(3)", cell_timeout=1)

    assert (reply["status"], reply["driver"]["status"]) == ("Failed", "TimeLimitExceeded")
    assert [each["stdout"] for each in reply["cells"]] == ["1\n", ""]
    assert "cell 2: " in reply["driver"]["stderr"]


def test_a_notebook_whose_process_ends_fails_with_the_cells_until_then(client):
    reply = run_jupyter(client, "open('x', 'w').write('1');", "import os; os._exit(5)", "3", fetch_files=["x"])

    assert (reply["status"], reply["driver"]["status"], reply["driver"]["return_code"]) == ("Failed", "Finished", 5)
    assert (len(reply["cells"]), reply["files"]) == (2, {"x": b64(b"1")})


# Refusals and failures of this side


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "missing required field `code`"),
        ({"code": "1", "run_timeout": 0}, "wall_s"),
        ({"code": "1", "run_timeout": 1e9}, "limits.wall_s: may be at most"),
        ({"code": "1", "memory_limit_MB": 1}, "memory_bytes"),
        ({"code": "1", "files": {"a": "%"}}, "files['a']: is no base64"),
    ],
)
def test_what_cannot_be_meant_is_refused(client, body, words):
    answer = client.post("/run_code", json=body)

    assert answer.status_code == 400
    assert words in answer.json()["message"]


def test_fields_that_are_not_known_are_left_alone(client):
    assert run_code(client, "print(1)", future_field=[1])["status"] == "Success"


def test_a_notebook_ends_once_its_cells_have_shown_8_mib_together(client):
    reply = run_jupyter(
        client, "print('a' * (5 << 20))", "from IPython.display import HTML; HTML('b' * (4 << 20))", "3"
    )

    assert reply["status"] == "Failed"
    assert len(reply["cells"]) == 2
    assert reply["message"].endswith("none after cell 2 was run")


@pytest.mark.parametrize("body", [("/run_code", {"code": "1"}), ("/run_jupyter", {"cells": ["1"]})])
def test_a_memory_without_end_is_refused_in_words(client, body):
    answer = client.post(body[0], json={**body[1], "memory_limit_MB": 1.7e308})

    assert answer.status_code == 400
    assert "memory_limit_MB" in answer.json()["message"]


def test_a_notebook_has_at_most_1000_cells(client):
    answer = client.post("/run_jupyter", json={"cells": ["1"] * 1001})

    assert answer.status_code == 400
    assert "1000" in answer.json()["message"]


@pytest.mark.parametrize("path", ["/run_code", "/run_jupyter"])
def test_nothing_runs_without_a_key(server, path):
    with server.client(token="wrong") as stranger:
        answer = stranger.post(path, json={"code": "1", "cells": ["1"]})

    assert answer.status_code == 401


@pytest.mark.parametrize("body", [("/run_code", {"code": "1"}), ("/run_jupyter", {"cells": ["1"]})])
def test_an_environment_that_is_not_there_is_503_and_no_result(body):
    path, request = body

    with in_process(environment="no-such-environment") as client:
        answer = client.post(path, json=request)

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.json()["error"]["code"] == "environment_failed"


@pytest.mark.parametrize(("query", "status"), [("", 503), ("?refused=504", 504)])
def test_a_sandbox_that_fails_is_no_result(monkeypatch, query, status):
    async def fail(self, source, **options):
        raise SandboxUnavailable(missing=["no room"])

    monkeypatch.setattr(AsyncSandbox, "run_last", fail)

    with in_process() as client:
        answer = client.post(f"/run_code{query}", json={"code": "1"})

    assert (answer.status_code, answer.headers["retry-after"]) == (status, "1")
    assert "status" not in answer.json()


@pytest.mark.parametrize(
    "body", [{"code": "import time\ntime.sleep(86422)"}, {"cells": ["import time\ntime.sleep(86422)"]}]
)
def test_a_client_that_goes_away_frees_its_run_and_its_sandbox(client, server, body):
    path = "/run_code" if "code" in body else "/run_jupyter"
    before = busy(client)

    with server.client() as leaving, pytest.raises(Exception, match="timed out"):
        leaving.post(path, json={**body, "run_timeout": 60}, timeout=1)
    deadline = time.monotonic() + 1
    while busy(client) != before and time.monotonic() < deadline:
        time.sleep(0.05)

    assert busy(client) == before


def busy(client):
    """Runs and sandboxes that live now, by the metrics; other tests may have left sandboxes that are idle."""
    lines = client.get("/metrics").text.splitlines()
    counts = [each.split() for each in lines if each.startswith(("groundbox_runs_running ", "groundbox_sandboxes "))]
    return {name: float(count) for name, count in counts}


def test_many_programs_go_on_at_once(server):
    replies = []

    def ask():
        with server.client() as asking:
            replies.append(run_code(asking, "import time\ntime.sleep(1)\nprint(1)"))

    begun = time.monotonic()
    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [each["run_result"]["stdout"] for each in replies] == ["1\n"] * 6
    assert time.monotonic() - begun < 5.5
