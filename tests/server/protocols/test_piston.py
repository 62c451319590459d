"""Piston's protocol: two clients of others on a real server, and what they do not show."""

import asyncio
import base64
import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from groundbox.protocols.piston import _satisfies
from groundbox.sandbox import environments
from groundbox.server.application import application
from groundbox.server.keys import Keys
from groundbox.server.service import Service
from groundbox.server.settings import Settings

PYTHON = ".".join(map(str, environments.get("default").python_version))


def execute(client, code, language="python", version="*", **body):
    """The reply to one program of one file, which has to have status 200."""
    request = {"language": language, "version": version, "files": [{"content": code}], **body}
    answer = client.post("/api/v2/execute", json=request)
    assert answer.status_code == 200, answer.text
    return answer.json()


def run_of(reply, *names):
    return tuple(reply["run"][name] for name in names)


# Clients of others


def test_piston_rspy_executes_a_program(server):
    piston = pytest.importorskip(
        "piston_rspy", reason="piston-rspy has no wheel here, or is not installed: make clients"
    )

    async def asked():
        client = piston.Client.with_url_and_key(f"{server.url}/api/v2", server.token)
        runtimes = await client.fetch_runtimes()
        executor = piston.Executor(language="python", version="*", run_timeout=20000)
        executor = executor.add_file(piston.File(content="import sys\nprint(sys.argv[1:], input())"))
        executor = executor.set_stdin("typed").add_args(["a", "b"])
        return runtimes, await client.execute(executor)

    runtimes, response = asyncio.run(asked())

    assert ("python", PYTHON) in [(each.language, each.version) for each in runtimes]
    assert (response.language, response.version, response.run.stdout) == ("python", PYTHON, "['a', 'b'] typed\n")


@pytest.fixture
def ultra(server):
    module = pytest.importorskip("ultra_piston", reason="ultra-piston is not installed here: make clients")
    server.run("1", mode="script")  # so that a first run is within the client's five seconds
    return module.PistonClient(base_url=f"{server.url}/api/v2", api_key=server.token, rate_limit=0.001)


def test_ultra_piston_lists_runtimes_and_no_packages(ultra):
    runtimes = ultra.get_runtimes()

    assert (runtimes[0].language, runtimes[0].version, runtimes[0].aliases) == (
        "python",
        PYTHON,
        ["py", "py3", "python3"],
    )
    assert ultra.get_packages() == []


def test_ultra_piston_executes_a_program(ultra):
    from ultra_piston import File

    reply = ultra.post_execute(
        "py", PYTHON, File(name="x.py", content="print(input())"), stdin="typed", run_timeout=20000
    )

    assert (reply.language, reply.run.stdout, reply.run.code, reply.run.signal) == ("python", "typed\n", 0, None)


def test_ultra_piston_is_told_of_a_runtime_that_is_not_there(ultra):
    from ultra_piston import File
    from ultra_piston.errors import BadRequestError

    with pytest.raises(BadRequestError, match="status_code=400"):
        ultra.post_execute("cobol", "1", File(content="x"))


# Programs


def test_a_reply_has_every_field_of_a_stage(client):
    reply = execute(client, "import sys\nprint('out', flush=True)\nsys.stderr.write('err\\n')")

    run = reply["run"]
    assert {**reply, "run": None} == {"run": None, "language": "python", "version": PYTHON}
    assert (run["stdout"], run["stderr"], run["code"], run["signal"]) == ("out\n", "err\n", 0, None)
    assert sorted(run["output"].split()) == ["err", "out"]
    assert (run["message"], run["status"]) == (None, None)
    assert run["cpu_time"] >= 0
    assert run["wall_time"] > 0
    assert run["memory"] > 0


@pytest.mark.parametrize(
    ("code", "facts"),
    [
        ("raise SystemExit(3)", (3, None, "RE", "Exited with error status 3")),
        (
            "import os; os.kill(os.getpid(), 11)",
            (None, "SIGSEGV", "SG", "SIGSEGV ended the program; native code crashed"),
        ),
        ("while True: pass", (None, "SIGKILL", "TO", "the program was stopped at wall_s=0.7")),
    ],
)
def test_a_program_that_fails_says_how(client, code, facts):
    reply = execute(client, code, run_timeout=700)

    assert run_of(reply, "code", "signal", "status", "message") == facts


def test_the_first_file_of_text_runs_and_reads_the_others(client):
    files = [
        {"name": "data.bin", "content": base64.b64encode(b"\x00\x01").decode(), "encoding": "base64"},
        {"name": "main.py", "content": "import helper\nprint(helper.read('data.bin'), helper.read('hex/b'))"},
        {"name": "helper.py", "content": "def read(path): return open(path, 'rb').read()"},
        {"name": "hex/b", "content": "ff00", "encoding": "hex"},
    ]

    reply = execute(client, "", files=files)

    assert run_of(reply, "stdout", "stderr") == ("b'\\x00\\x01' b'\\xff\\x00'\n", "")


@pytest.mark.parametrize(
    ("language", "code", "stdout"),
    [
        ("bash", "read x; echo $x $1", "typed one\n"),
        ("js", "process.stdin.on('data', x => console.log(x.toString().trim(), process.argv[2]))", "typed one\n"),
    ],
)
def test_languages_read_their_input_and_their_arguments(client, language, code, stdout):
    if language == "js" and not Path("/usr/bin/node").exists():
        pytest.skip("Node is not installed here")

    reply = execute(client, code, language, stdin="typed", args=["one"])

    assert run_of(reply, "stdout") == (stdout,)


def test_output_that_is_cut_is_told(client):
    reply = execute(client, "print('x' * 2_000_000)")

    assert run_of(reply, "message", "status") == (f"stdout: {2_000_001 - 2**20} bytes were left out", None)


@pytest.mark.parametrize(
    ("selector", "holds"),
    [
        *[(each, True) for each in ("*", "3.13.2", "3", "3.x", "3.13.x", "^3.10.0", "~3.13.1", ">=3.8 <4", "2 || 3")],
        *[(each, False) for each in ("3.13.1", "2", "^2.7", "~3.12", "<3", ">3", "latest", "", "3.13.2-beta", "x y")],
    ],
)
def test_versions_are_chosen_as_semver_has_it(selector, holds):
    assert _satisfies("3.13.2", selector) is holds


# Refusals and failures of this side


def str_of_field(field):
    """A short name for a test."""
    return f"{next(iter(field))}-{len(str(field))}"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"language": "python", "version": "2.7", "files": [{"content": ""}]}, "python-2.7 runtime is unknown"),
        ({"language": "python", "version": "*", "files": []}, "files must include at least one utf8 encoded file"),
        ({"language": "python", "version": "*"}, "the body does not fit: Object missing required field `files`"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_a_message(client, body, message):
    answer = client.post("/api/v2/execute", json=body)

    assert (answer.status_code, answer.json()["message"]) == (400, message)


@pytest.mark.parametrize(
    "field",
    [
        {"language": "p" * 201},
        {"version": " " * 16_000 + "!"},
        {"version": "9" * 5000},
        {"stdin": "x" * (4 * 2**20 + 1)},
        {"args": [""] * 1001},
        {"args": ["x" * 131_073]},
        {"files": [{"content": ""}] * 1001},
        {"files": [{"content": "", "name": "x" * 4097}]},
        {"files": [{"content": "", "encoding": "x" * 201}]},
    ],
    ids=str_of_field,
)
def test_a_field_that_is_too_long_is_refused(client, field):
    body = {"language": "python", "version": "*", "files": [{"content": ""}], **field}

    answer = client.post("/api/v2/execute", json=body)

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_argument")
    assert len(answer.content) < 1000


def test_large_files_come_as_they_are_in_each_encoding(client):
    data = bytes(range(256)) * 2000
    code = "a, b, c = (open(each, 'rb').read() for each in 'abc')\nprint(len(a), len(c), a == b)"
    files = [
        {"content": code},
        {"name": "a", "content": base64.b64encode(data).decode(), "encoding": "base64"},
        {"name": "b", "content": data.hex(), "encoding": "hex"},
        {"name": "c", "content": "é" * 200_000},
    ]
    large_program = [{"content": "#" * 200_000 + "\nprint(1)"}]

    assert run_of(execute(client, "", files=files), "stdout") == (f"{len(data)} 400000 True\n",)
    assert run_of(execute(client, "", files=large_program), "stdout") == ("1\n",)


@pytest.mark.parametrize(("encoding", "content"), [("hex", "0x"), ("hex", "zz" * 100_000), ("base64", "%" * 100_000)])
def test_a_file_that_is_not_in_its_encoding_is_refused(client, encoding, content):
    files = [{"content": "1"}, {"name": "a", "content": content, "encoding": encoding}]

    answer = client.post("/api/v2/execute", json={"language": "python", "version": "*", "files": files})

    assert (answer.status_code, f"files[1].content is not {encoding}" in answer.json()["message"]) == (400, True)


@pytest.mark.parametrize("selector", [" " * 200_000 + "!", ">" + " " * 200_000, "> " * 100_000, "1." * 100_000])
def test_the_time_for_a_version_grows_with_its_length(selector):
    begun = time.thread_time()
    for _ in range(10):
        _satisfies("3.13.2", selector[:20_000])
    short_s = time.thread_time() - begun
    begun = time.thread_time()
    _satisfies("3.13.2", selector)
    long_s = time.thread_time() - begun

    assert long_s < 5 * short_s + 0.05  # it is ten times as long once, and not a hundred times the work


def test_a_file_may_not_leave_its_folder(client):
    files = [{"content": "1"}, {"name": "../x", "content": ""}]

    answer = client.post("/api/v2/execute", json={"language": "python", "version": "*", "files": files})

    assert answer.status_code == 400
    assert "../x" in answer.json()["message"]


def test_only_json_is_taken(client):
    answer = client.post("/api/v2/execute", content=b"{}")

    assert (answer.status_code, answer.json()["message"]) == (415, "requests must be of type application/json")


def test_packages_cannot_be_installed(client):
    answer = client.post("/api/v2/packages", json={"language": "python", "version": "3"})

    assert answer.status_code == 404
    assert client.get("/api/v2/packages").json() == []


@pytest.mark.parametrize("path", ["/api/v2/runtimes", "/api/v2/packages"])
def test_nothing_is_told_without_a_key(server, path):
    with server.client(token="wrong") as stranger:
        answer = stranger.get(path)

    assert answer.status_code == 401


def test_an_environment_that_is_not_there_is_503_and_no_result():
    service = Service(Settings(environment="no-such-environment", protocols=["piston"]), Keys(token="k" * 20))

    with TestClient(application(service), headers={"Authorization": "k" * 20, "Host": "localhost"}) as client:
        answer = client.post(
            "/api/v2/execute", json={"language": "python", "version": "*", "files": [{"content": "1"}]}
        )

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert "run" not in answer.json()


def test_a_client_that_goes_away_frees_its_run(client, server):
    body = {"language": "python", "version": "*", "files": [{"content": "import time\ntime.sleep(86423)"}]}
    with server.client() as leaving, pytest.raises(Exception, match="timed out"):
        leaving.post("/api/v2/execute", json=body, timeout=1)
    deadline = time.monotonic() + 1
    while running(client) and time.monotonic() < deadline:
        time.sleep(0.05)

    assert running(client) == 0


def running(client):
    lines = client.get("/metrics").text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("groundbox_runs_running "))
