"""E2B's wire: its own Python SDKs, unmodified, against a real server; and by hand what no SDK sends."""

import asyncio
import base64
import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import threading
import time
from pathlib import Path, PurePosixPath

import httpx
import pytest

from groundbox.testing.base import until

JS = Path(__file__).parent / "js"


@pytest.fixture
def origin(server, monkeypatch):
    """The server as E2B's SDKs are told of it."""
    monkeypatch.setenv("E2B_API_URL", server.url)
    monkeypatch.setenv("E2B_SANDBOX_URL", server.url)
    monkeypatch.setenv("E2B_API_KEY", server.token)
    return server


@pytest.fixture
def e2b(origin):
    """The SDK's package."""
    return pytest.importorskip(
        "e2b_code_interpreter", reason="e2b-code-interpreter is not installed here: make clients"
    )


@pytest.fixture
def sandbox(e2b):
    """A sandbox made by the SDK."""
    made = e2b.Sandbox.create(timeout=120)
    yield made
    made.kill()


@pytest.fixture
def api(server):
    """Asks the control plane as SDKs do."""
    with httpx.Client(base_url=server.url, headers={"X-API-KEY": server.token}, timeout=60) as asking:
        yield asking


@pytest.fixture
def made(api):
    """The JSON of a new sandbox."""
    told = api.post("/v2/sandboxes", json={"templateID": "base", "timeout": 60}).json()
    yield told
    api.delete(f"/sandboxes/{told['sandboxID']}")


@contextlib.contextmanager
def data_plane(server, made, token=None):
    """Asks the data plane of one sandbox."""
    headers = {"X-Access-Token": token or made["envdAccessToken"], "E2b-Sandbox-Id": made["sandboxID"]}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as asking:
        yield asking


def lines_of(answer):
    """The lines of a reply to /execute, without times and our own facts."""
    told = [json.loads(line) for line in answer.text.splitlines()]
    return [{name: value for name, value in each.items() if name not in ("timestamp", "groundbox")} for each in told]


def envelope(message):
    """One message of a stream of Connect."""
    data = json.dumps(message).encode()
    return b"\0" + len(data).to_bytes(4, "big") + data


def envelopes_of(data):
    """Flags and messages of a stream of Connect."""
    found = []
    while data:
        size = int.from_bytes(data[1:5], "big")
        found.append((data[0], json.loads(data[5 : 5 + size])))
        data = data[5 + size :]
    return found


def test_code_gives_text_output_and_a_value(sandbox):
    execution = sandbox.run_code("x = 6\nprint('hi')\nx * 7")

    assert (execution.text, execution.logs.stdout, execution.logs.stderr) == ("42", ["hi\n"], [])
    assert (execution.error, execution.execution_count) == (None, 1)


def test_variables_stay_and_a_text_is_shown_without_quotes(sandbox):
    sandbox.run_code("name = 'Ada'")

    assert sandbox.run_code("name").text == "Ada"


def test_a_failure_has_a_name_a_value_and_a_traceback(sandbox):
    execution = sandbox.run_code("class Final(BaseException): pass\nraise Final('safe:1')")

    assert (execution.error.name, execution.error.value) == ("Final", "safe:1")
    assert "line 2" in execution.error.traceback


def test_a_figure_is_a_png(sandbox):
    execution = sandbox.run_code("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")

    assert base64.b64decode(execution.results[0].png).startswith(b"\x89PNG")


def test_a_table_has_its_columns_as_data(sandbox):
    execution = sandbox.run_code("import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})")

    assert execution.results[0].data == {"a": [1, 2], "b": ["x", "y"]}


def test_variables_of_the_environment_are_those_of_the_sandbox_and_of_one_run(e2b):
    sandbox = e2b.Sandbox.create(envs={"OF_ALL": "1", "BOTH": "1"}, timeout=60)
    seen = "import os\n[os.environ.get(name) for name in ('OF_ALL', 'BOTH', 'OF_ONE')]"

    with_own = sandbox.run_code(seen, envs={"OF_ONE": "2", "BOTH": "2"}).text
    after = sandbox.run_code(seen).text
    command = sandbox.commands.run("echo $OF_ALL $OF_ONE", envs={"OF_ONE": "3"}).stdout
    shell = sandbox.run_code("echo $OF_ALL", language="bash").logs.stdout
    sandbox.kill()

    assert (with_own, after, command, shell) == ("['1', '2', '2']", "['1', '1', None]", "1 3\n", ["1\n"])


def test_contexts_have_variables_and_folders_of_their_own_and_share_files(sandbox):
    sandbox.run_code("x = 1\nimport os; os.mkdir('deeper'); open('shared.txt', 'w').write('here')")
    context = sandbox.create_code_context(cwd="/home/user/deeper")

    unknown = sandbox.run_code("x", context=context).error.name
    inside = sandbox.run_code(
        "import os\nx = 2\nos.path.basename(os.getcwd()), open('../shared.txt').read()", context=context
    )
    usual = sandbox.run_code("import os\nx, os.listdir()").text
    sandbox.restart_code_context(context)
    restarted = sandbox.run_code("x", context=context).error.name
    listed = [each.language for each in sandbox.list_code_contexts()]
    sandbox.remove_code_context(context)

    assert (unknown, inside.text) == ("NameError", "('deeper', 'here')")
    assert usual in ("(1, ['deeper', 'shared.txt'])", "(1, ['shared.txt', 'deeper'])")
    assert (restarted, listed) == ("NameError", ["python", "javascript", "bash", "python"])
    assert len(sandbox.list_code_contexts()) == 3


def test_a_function_of_a_context_finds_its_own_globals_while_another_one_runs(sandbox):
    context = sandbox.create_code_context()
    keep = "import builtins\nname = 'theirs'\nbuiltins.kept = lambda: name"

    sandbox.run_code(keep, context=context)

    assert sandbox.run_code("name = 'ours'\nkept()").text == "theirs"


def test_a_language_that_is_not_there_is_refused_in_words(e2b, sandbox):
    with pytest.raises(Exception, match="'r' is not known here"):
        sandbox.run_code("1", language="r")
    with pytest.raises(Exception, match="one context of javascript"):
        sandbox.create_code_context(language="javascript")


def test_a_client_that_goes_away_interrupts_its_program_and_variables_stay(e2b, sandbox):
    import e2b as base

    sandbox.run_code("x = 1")

    with pytest.raises(base.TimeoutException):
        sandbox.run_code("import time; time.sleep(60)", timeout=1)
    begun = time.monotonic()
    after = sandbox.run_code("x").text

    assert after == "1"
    assert time.monotonic() - begun < 10


def test_a_program_that_heeds_no_interrupt_is_ended_and_the_next_one_is_told(sandbox):
    stubborn = "import time\nx = 1\nwhile True:\n    try: time.sleep(60)\n    except KeyboardInterrupt: pass"

    with contextlib.suppress(Exception):
        sandbox.run_code(stubborn, timeout=1)
    execution = sandbox.run_code("x")

    assert execution.error.name == "NameError"
    assert execution.logs.stderr[0].startswith("groundbox: this run began in a fresh process")


def test_a_sandbox_that_is_killed_fails_no_program(e2b, sandbox):
    import e2b as base

    threading.Timer(1.0, sandbox.kill).start()

    with pytest.raises(base.TimeoutException, match="killed"):
        sandbox.run_code("import time; time.sleep(60)", timeout=60)


def test_files_are_written_listed_moved_and_removed(sandbox):
    files = sandbox.files

    written = files.write_files(
        [{"path": "a/one.bin", "data": b"\x00\xff"}, {"path": "/home/user/two.txt", "data": "2"}]
    )
    moved = files.rename("two.txt", "b/three.txt")
    listed = [(each.path, each.type.value, each.size) for each in files.list(".", depth=2) if each.type.value == "file"]
    files.remove("a")

    assert [each.path for each in written] == ["/home/user/a/one.bin", "/home/user/two.txt"]
    assert (moved.path, moved.permissions, moved.size) == ("/home/user/b/three.txt", "-rw-r--r--", 1)
    assert listed == [("/home/user/a/one.bin", "file", 2), ("/home/user/b/three.txt", "file", 1)]
    assert (files.exists("a"), files.make_dir("b"), files.make_dir("c")) == (False, False, True)
    assert bytes(files.read("b/three.txt", format="bytes")) == b"2"


def test_programs_find_files_at_the_paths_that_are_told(sandbox):
    told = sandbox.files.write("data.csv", "1,2")

    assert sandbox.run_code(f"open({told.path!r}).read()").text == "1,2"


def test_a_file_that_is_not_there_is_told_as_such(e2b, sandbox):
    import e2b as base

    with pytest.raises(base.FileNotFoundException):
        sandbox.files.read("nothing")
    with pytest.raises(base.FileNotFoundException):
        sandbox.files.list("nothing")


def test_files_are_uploaded_compressed_and_as_they_are(sandbox):
    sandbox.files.write("zipped", b"x" * 100_000, gzip=True)
    sandbox.files.write("plain", b"y" * 100_000, use_octet_stream=True)

    assert sandbox.files.read("zipped") == "x" * 100_000
    assert sandbox.files.read("plain") == "y" * 100_000


def test_signed_addresses_need_no_other_secret(sandbox):
    sandbox.files.write("x.txt", "hello")

    read = httpx.get(sandbox.download_url("x.txt", use_signature_expiration=60))
    written = httpx.post(sandbox.upload_url("y.txt"), files={"file": b"there"})
    forged = httpx.get(sandbox.download_url("x.txt").replace("x.txt", "y.txt"))
    as_written = httpx.post(sandbox.download_url("x.txt"), files={"file": b"forged"})

    assert (read.content, written.status_code, sandbox.files.read("y.txt")) == (b"hello", 200, "there")
    assert (forged.status_code, as_written.status_code) == (401, 401)


def test_commands_tell_output_and_exit_codes(e2b, sandbox):
    import e2b as base

    result = sandbox.commands.run("echo out; echo err >&2; pwd", cwd="/home/user")
    with pytest.raises(base.CommandExitException) as failed:
        sandbox.commands.run("echo before; exit 3")

    assert (result.stdout, result.stderr, result.exit_code) == ("out\n/home/user\n", "err\n", 0)
    assert (failed.value.stdout, failed.value.exit_code) == ("before\n", 3)


def test_commands_in_the_background_are_listed_given_input_and_connected_to(sandbox):
    handle = sandbox.commands.run("read line; sleep 0.5; echo got $line; cat", background=True, stdin=True)
    listed = [(each.pid, each.cmd, each.args[-1]) for each in sandbox.commands.list()]
    handle.disconnect()
    again = sandbox.commands.connect(handle.pid)

    sandbox.commands.send_stdin(handle.pid, "this\n")
    sandbox.commands.stream_input(handle.pid, ["and ", b"that"])
    sandbox.commands.close_stdin(handle.pid)
    result = again.wait()

    assert listed == [(handle.pid, "/bin/bash", "read line; sleep 0.5; echo got $line; cat")]
    assert (result.stdout, sandbox.commands.list()) == ("got this\nand that", [])


def test_commands_are_killed_by_their_number_and_at_their_timeout(e2b, sandbox):
    import e2b as base

    handle = sandbox.commands.run("sleep 60", background=True)

    killed = sandbox.commands.kill(handle.pid)
    with pytest.raises(base.CommandExitException) as ended:
        handle.wait()
    with pytest.raises(base.TimeoutException):
        sandbox.commands.run("sleep 60", timeout=1)
    time.sleep(0.5)

    assert (killed, sandbox.commands.kill(handle.pid), ended.value.exit_code) == (True, False, -1)
    assert sandbox.commands.list() == []


def test_a_terminal_takes_input_and_another_size(e2b, sandbox):
    import e2b as base

    said = []
    terminal = sandbox.pty.create(base.PtySize(rows=24, cols=80), timeout=20)

    sandbox.pty.resize(terminal.pid, base.PtySize(rows=30, cols=100))
    sandbox.pty.send_stdin(terminal.pid, b"stty size; exit 7\n")
    with contextlib.suppress(base.CommandExitException):
        terminal.wait(on_pty=said.append)

    assert b"30 100" in b"".join(said)


def test_a_folder_is_watched(sandbox):
    sandbox.files.make_dir("watched")
    watcher = sandbox.files.watch_dir("watched")

    sandbox.files.write("watched/new.txt", "1")
    first = [(each.type.value, each.name) for each in watcher.get_new_events()]
    sandbox.files.remove("watched/new.txt")
    second = [(each.type.value, each.name) for each in watcher.get_new_events()]
    watcher.stop()

    assert first == [("create", "new.txt"), ("write", "new.txt")]
    assert second == [("remove", "new.txt")]


def test_sandboxes_are_found_by_metadata_in_pages_and_connected_to(e2b):
    import e2b as base

    labels = {"run": "42 & more", "unique": os.urandom(8).hex()}
    made = [e2b.Sandbox.create(metadata=labels, timeout=60) for _ in range(3)]

    pages = e2b.Sandbox.list(query=base.SandboxQuery(metadata=labels), limit=2)
    first, second = pages.next_items(), pages.next_items()
    connected = e2b.Sandbox.connect(first[0].sandbox_id)
    answer = connected.run_code("1 + 1").text
    for each in made:
        each.kill()

    assert {each.sandbox_id for each in first + second} == {each.sandbox_id for each in made}
    assert (len(first), len(second), pages.has_next, first[0].metadata) == (2, 1, False, labels)
    assert answer == "2"


def test_a_timeout_is_set_and_a_sandbox_that_is_gone_runs_no_more(e2b):
    import e2b as base

    sandbox = e2b.Sandbox.create(timeout=60)

    sandbox.set_timeout(600)
    left_s = (sandbox.get_info().end_at - sandbox.get_info().started_at).total_seconds()
    running = sandbox.is_running()
    sandbox.set_timeout(0)

    assert (590 < left_s < 620, running, sandbox.is_running(), sandbox.kill()) == (True, True, False, False)
    with pytest.raises(base.SandboxNotRunningException):
        sandbox.commands.run("true")


def test_what_is_not_there_is_refused_in_words(e2b, sandbox):
    for call, told in (
        (sandbox.pause, "not paused here"),
        (sandbox.create_snapshot, "no snapshots here"),
        (sandbox.fork, "cannot be forked"),
        (lambda: sandbox.update_network({"allow_internet_access": True}), "fixed when it is made"),
        (lambda: e2b.Sandbox.create("no-such-template"), "no template or environment 'no-such-template'"),
        (lambda: e2b.Sandbox.create(network={"allow_out": ["8.8.8.8/32"]}), "named one by one"),
    ):
        with pytest.raises(Exception, match=told):
            call()
    sandbox.update_network({"allow_internet_access": False})


def test_the_network_is_what_the_sandbox_is_told_it_is(e2b):
    closed = e2b.Sandbox.create(timeout=60)
    allowed = e2b.Sandbox.create(timeout=60, network={"allow_out": ["example.org"], "deny_out": ["0.0.0.0/0"]})

    told = [(each.get_info().allow_internet_access, each.get_info().network["allow_out"]) for each in (closed, allowed)]
    closed.kill()
    allowed.kill()

    assert told == [(False, []), (True, ["example.org"])]


def test_the_asynchronous_sdk_does_the_same(e2b):
    async def work():
        sandbox = await e2b.AsyncSandbox.create(timeout=60)
        text = (await sandbox.run_code("1 + 1")).text
        await sandbox.files.write("x.txt", "async")
        handle = await sandbox.commands.run("cat x.txt; sleep 0.2; echo; echo done", background=True)
        result = await handle.wait()
        killed = await sandbox.kill()
        return text, result.stdout, killed

    assert asyncio.run(work()) == ("2", "async\ndone\n", True)


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed here")
@pytest.mark.skipif(not (JS / "node_modules").is_dir(), reason="E2B's JavaScript SDK is not installed: make clients")
def test_the_javascript_sdk_does_the_same(origin):
    done = subprocess.run(["node", "e2b.mjs"], cwd=JS, capture_output=True, text=True, timeout=120)

    assert (done.returncode, json.loads(done.stdout or "null")) == (
        0,
        {
            "text": "2",
            "stdout": ["hi\n"],
            "error": "ZeroDivisionError",
            "file": "/home/user/a.txt: from JavaScript",
            "command": "/home/user\n",
            "stdin": "echoed\n",
            "context": ["NameError", "5"],
            "events": ["create new.txt", "write new.txt"],
            "listed": 1,
            "killed": [True, False],
        },
    ), done.stderr


def test_the_page_of_the_docs_works_as_it_is_printed(e2b, capsys):
    page = (Path(__file__).parents[3] / "docs" / "wires" / "e2b.md").read_text()

    exec(re.search(r"```python\n(.*?)```", page, re.DOTALL)[1], {"__name__": "__main__"})

    assert capsys.readouterr().out == "  region  sum\n0  north    3\n2 sales.csv\n\n"


def test_a_sandbox_is_created_as_sdks_read_it(api, made):
    shown = api.get(f"/sandboxes/{made['sandboxID']}").json()

    assert set(made) == {
        *("templateID", "sandboxID", "clientID", "envdVersion", "envdAccessToken", "trafficAccessToken"),
    }
    assert (shown["state"], shown["metadata"], shown["templateID"]) == ("running", {}, "base")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"templateID": "base", "timeout": 10**9}, 400),
        ({"templateID": "base", "timeout": 0}, 400),
        ({"templateID": "../etc"}, 404),
        ({"templateID": "base", "volumeMounts": [{"name": "v", "path": "/v"}]}, 501),
        ({"templateID": "base", "network": {"allowOut": ["127.0.0.1"]}}, 400),
    ],
)
def test_what_cannot_be_made_is_refused_with_a_number_and_words(api, body, status):
    answer = api.post("/v2/sandboxes", json=body)

    assert (answer.status_code, answer.json()["code"]) == (status, status)
    assert answer.json()["message"]


def test_a_sandbox_that_asks_to_be_paused_is_told_that_it_is_killed(api):
    made = api.post("/v2/sandboxes", json={"templateID": "base", "autoPause": True}).json()
    shown = api.get(f"/sandboxes/{made['sandboxID']}").json()
    api.delete(f"/sandboxes/{made['sandboxID']}")

    assert shown["lifecycle"] == {"onTimeout": "kill", "autoResume": False}


def test_programs_of_one_sandbox_meet_on_its_loopback_and_no_other_does(sandbox):
    serve = "python3 -m http.server 8765 --bind 127.0.0.1"
    ask = "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8765').status"
    sandbox.commands.run(serve, background=True)
    until(lambda: sandbox.run_code(ask).text == "200")
    with type(sandbox).create(timeout=60) as other:
        elsewhere = other.run_code(ask).error

    assert sandbox.run_code(ask).text == "200"
    assert "Connection refused" in elsewhere.value


def test_commands_run_and_files_are_handled_while_a_program_runs(sandbox):
    sandbox.run_code("1")
    waits = "import os, time\nwhile not os.path.exists('go'):\n    time.sleep(0.01)\nopen('go').read()"
    results = []
    program = threading.Thread(target=lambda: results.append(sandbox.run_code(waits).text))
    program.start()
    time.sleep(0.2)

    printed = sandbox.commands.run("echo beside; pwd").stdout
    kept = sandbox.commands.run("sleep 1000", background=True)
    is_running = program.is_alive()
    sandbox.files.write("go", "went")
    program.join()

    assert (printed, is_running, results) == ("beside\n/home/user\n", True, ["went"])
    assert [each.pid for each in sandbox.commands.list()] == [kept.pid]


@pytest.mark.parametrize("folder", ["/workspace", "/app", "/home/user"])
def test_folders_of_agents_are_the_workdir(sandbox, folder):
    sandbox.files.write(f"{folder}/a.txt", "kept")

    assert not sandbox.files.make_dir(folder)
    assert sandbox.commands.run("cat a.txt; pwd", cwd=folder).stdout == f"kept{folder}\n"
    assert sandbox.files.read("a.txt") == "kept"


@pytest.mark.parametrize("text", ["hello", "é\n\0", ""])
def test_a_signed_upload_of_a_part_without_a_file_name_is_written_as_it_is(sandbox, text):
    boundary = "gb-boundary"
    body = f'--{boundary}\r\nContent-Disposition: form-data; name="file"\r\n\r\n'.encode()
    body += text.encode() + b"\xff" + f"\r\n--{boundary}--\r\n".encode()
    headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}

    written = httpx.post(sandbox.upload_url("hello.txt"), content=body, headers=headers)

    assert written.status_code == 200
    assert bytes(sandbox.files.read("hello.txt", format="bytes")) == text.encode() + b"\xff"


def test_a_part_without_a_file_name_needs_a_path(server, made):
    with data_plane(server, made) as asking:
        answer = asking.post("/files", files={"file": (None, b"hello")})

    assert answer.status_code == 400
    assert answer.json()["message"] == "a part `file` needs a file name, or the address a `path`; nothing was written"


# Templates


def test_templates_that_exist_are_environments_and_what_a_key_has_built(e2b):
    import e2b as base

    name = f"made-{os.urandom(4).hex()}"
    log = []
    before = base.Template.exists(name)
    template = base.Template().from_image("python:3").set_envs({"COLOUR": "blue"}).set_workdir("/app")
    info = base.Template.build(template, name, on_build_logs=lambda entry: log.append(entry.message))
    with e2b.Sandbox.create(name, envs={"SIZE": "2"}, timeout=60) as sandbox:
        printed = sandbox.commands.run("echo $COLOUR $SIZE").stdout

    assert (before, base.Template.exists(name), base.Template.exists(f"{name}:default")) == (False, True, True)
    assert (base.Template.exists("base"), base.Template.exists("default")) == (True, True)
    assert [tag.build_id for tag in base.Template.get_tags(name)] == [info.build_id]
    assert f"{name} is the environment 'default' of this server; no image was pulled" in log
    assert printed == "blue 2\n"


def test_a_template_for_another_python_says_what_its_sandboxes_have(e2b):
    import e2b as base

    name = f"old-{os.urandom(4).hex()}"
    log = []
    template = base.Template().from_image("python:3.2-slim")
    base.Template.build(template, name, on_build_logs=lambda entry: log.append(entry.message))
    with e2b.Sandbox.create(name, timeout=60) as sandbox:
        told = "".join(sandbox.run_code("1").logs.stderr)

    warning = "python:3.2-slim asks for Python 3.2; no environment has it, and this one has 3."
    assert any(line.startswith(warning) for line in log)
    assert warning in told


@pytest.mark.parametrize(
    ("recipe", "reason"),
    [
        (lambda made: made.from_image("ubuntu:24.04"), "FROM ubuntu:24.04: images are not built here."),
        (lambda made: made.from_image("python:3").run_cmd("apt-get update"), "RUN apt-get update"),
        (lambda made: made.from_image("python:3").pip_install("numpy"), "RUN pip install numpy"),
        (lambda made: made.from_image("python:3").set_workdir("/"), "WORKDIR /: images are not built here."),
        (lambda made: made.from_template("no-such-template"), "there is no template or environment 'no-such-template'"),
        (lambda made: made.from_image("python:3").set_start_cmd("sleep 1", "true"), "startCmd: start it with"),
        (lambda made: made.from_image("python:3").set_envs({"A": "x" * 70_000}), "ENV: variables of a template have"),
    ],
)
def test_a_template_that_needs_an_image_fails_in_the_words_of_the_sdk(e2b, recipe, reason):
    import e2b as base

    name = f"image-{os.urandom(4).hex()}"
    with pytest.raises(base.BuildException) as failed:
        base.Template.build(recipe(base.Template()), name)

    assert reason in str(failed.value)
    assert not base.Template.exists(name)


def test_names_of_templates_are_a_keys_own_and_the_oldest_gives_way(server, api):
    with server.client() as owner:
        other = owner.post("/v1/keys", json={"owner": "builder", "scopes": ["run"]}).json()["e2b_key"]
    with httpx.Client(base_url=server.url, headers={"X-API-KEY": other}, timeout=60) as builder:
        for number in range(102):
            asked = builder.post("/v3/templates", json={"name": f"n{number}"}).json()
            builder.post(f"/v2/templates/{asked['templateID']}/builds/{asked['buildID']}", json={"fromImage": "python"})
        own = [builder.get(f"/templates/aliases/n{number}").status_code for number in (0, 1, 2, 101)]
        foreign = api.get("/templates/aliases/n101").status_code
        taken = builder.post("/v3/templates", json={"name": "default"}).status_code
        bad = builder.post("/v3/templates", json={"name": "a\nb"}).status_code

    assert own == [404, 404, 200, 200]
    assert (foreign, taken, bad) == (404, 403, 400)


def test_the_same_idempotency_key_makes_one_sandbox(api):
    headers = {"Idempotency-Key": os.urandom(8).hex()}

    first, second = (api.post("/v2/sandboxes", json={"templateID": "base"}, headers=headers).json() for _ in range(2))
    api.delete(f"/sandboxes/{first['sandboxID']}")

    assert first == second


def test_lines_come_in_the_order_that_clients_read(server, made):
    with data_plane(server, made) as asking:
        lines = lines_of(asking.post("/execute", json={"code": "print(1)\ndisplay(2)\n1 / 0"}))

    assert [each["type"] for each in lines] == ["number_of_executions", "stdout", "result", "error", "end_of_execution"]
    assert lines[2] == {"type": "result", "is_main_result": False, "text": "2"}
    assert (lines[3]["name"], lines[3]["value"]) == ("ZeroDivisionError", "division by zero")


def test_a_token_is_good_for_its_own_sandbox_and_nothing_else(server, api, made):
    other = api.post("/v2/sandboxes", json={"templateID": "base"}).json()
    token = made["envdAccessToken"]

    with data_plane(server, other, token=token) as asking:
        foreign = asking.post("/execute", json={"code": "1"})
    with httpx.Client(base_url=server.url, headers={"X-Access-Token": token, "X-API-KEY": token}) as asking:
        elsewhere = [
            asking.post("/v1/run", json={"code": "1"}).status_code,
            asking.get("/v2/sandboxes").status_code,
            asking.delete(f"/sandboxes/{made['sandboxID']}").status_code,
            asking.get(f"/v1/sandboxes/{made['sandboxID']}").status_code,
            asking.post("/with-key/x/execute", json={"code": "1"}).status_code,
        ]
    api.delete(f"/sandboxes/{other['sandboxID']}")

    assert (foreign.status_code, foreign.json()["code"]) == (502, 502)
    assert elsewhere == [401, 401, 401, 401, 401]


def test_nobody_without_a_secret_gets_in_by_an_id_alone(server, made):
    headers = {"E2b-Sandbox-Id": made["sandboxID"]}

    with httpx.Client(base_url=server.url, headers=headers) as asking:
        found = [asking.get("/contexts"), asking.get("/health"), asking.post("/execute", json={"code": "1"})]
        wrong = asking.get("/contexts", headers={"E2B-Traffic-Access-Token": "gbs_" + "x" * 43})

    assert [each.status_code for each in found] == [401, 401, 401]
    assert (wrong.status_code, "was not found" in wrong.json()["message"]) == (502, True)


def test_sandboxes_of_another_key_are_not_found_and_a_revoked_keys_tokens_end(server, client, made):
    secret = client.post("/v1/keys", json={"owner": "ada"}).json()
    headers = {"X-API-KEY": secret["key"]}
    with httpx.Client(base_url=server.url, headers=headers, timeout=60) as ada:
        own = ada.post("/v2/sandboxes", json={"templateID": "base"}).json()
        theirs = f"/sandboxes/{made['sandboxID']}"
        told = [ada.get(theirs), ada.delete(theirs), ada.post(f"{theirs}/timeout", json={"timeout": 1})]
        of_data = ada.post("/execute", json={"code": "1"}, headers={"E2b-Sandbox-Id": made["sandboxID"]})
        listed = [each["sandboxID"] for each in ada.get("/v2/sandboxes").json()]
    with data_plane(server, own) as asking:
        before = asking.post("/execute", json={"code": "1"}).status_code
        client.delete(f"/v1/keys/{secret['id']}")
        deadline = time.monotonic() + 10
        while (after := asking.get("/health").status_code) == 204 and time.monotonic() < deadline:
            time.sleep(0.2)

    assert [each.status_code for each in told] == [404, 404, 404]
    assert (of_data.status_code, listed, before, after) == (502, [own["sandboxID"]], 200, 401)


def test_paths_and_calls_that_fail_are_told_in_the_words_of_connect(server, made):
    with data_plane(server, made) as asking:
        missing = asking.post("/filesystem.Filesystem/Stat", json={"path": "nothing"})
        no_folder = asking.post("/filesystem.Filesystem/ListDir", json={"path": "/etc/hostname"})
        read_only = asking.post("/files?path=/usr/x", files={"file": b"1"})
        nobody = asking.post("/process.Process/SendSignal", json={"process": {"pid": 1}, "signal": "SIGNAL_SIGKILL"})
        folder = asking.get("/files", params={"path": "."})

    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    assert (no_folder.status_code, no_folder.json()["code"]) == (400, "invalid_argument")
    assert (nobody.status_code, nobody.json()["code"]) == (404, "not_found")
    assert (read_only.status_code, folder.status_code) == (403, 400)


def test_a_process_is_told_in_envelopes_from_its_start_to_its_end(server, made):
    asked = {"process": {"cmd": "/bin/sh", "args": ["-c", "echo $X; exit 2"], "envs": {"X": "here"}}}
    headers = {"Content-Type": "application/connect+json"}

    with data_plane(server, made) as asking:
        answer = asking.post("/process.Process/Start", content=envelope(asked), headers=headers)
        refused = asking.post("/process.Process/Start", content=envelope({"process": {"cmd": "/no"}}), headers=headers)
        broken = asking.post("/process.Process/Start", content=b"\0\0\0\0\x09{}", headers=headers)
    events = envelopes_of(answer.content)

    assert [flags for flags, _ in events] == [0, 0, 0, 2]
    assert events[1][1] == {"event": {"data": {"stdout": base64.b64encode(b"here\n").decode()}}}
    assert events[2][1] == {
        "event": {"end": {"exitCode": 2, "exited": True, "status": "exit status 2", "error": "exit status 2"}}
    }
    assert envelopes_of(refused.content)[0][1]["error"]["code"] == "invalid_argument"
    assert envelopes_of(broken.content)[0][1]["error"]["code"] == "invalid_argument"


def test_the_paths_of_the_wire_are_nobodys_without_a_sandbox(api):
    assert [api.get(path).status_code for path in ("/health", "/files", "/contexts")] == [404, 404, 404]


# Charts


def test_numbers_of_a_figure_are_a_chart_of_the_sdk(e2b, sandbox):
    from e2b_code_interpreter.charts import BarChart, SuperChart

    bar = sandbox.run_code(
        "import matplotlib.pyplot as plt\nplt.bar(['a', 'b'], [1, 2], label='g')\nplt.title('T')\nplt.show()"
    )
    both = sandbox.run_code(
        "fig, (a, b) = plt.subplots(1, 2)\na.plot([1, 2])\nb.pie([1, 3], labels=['x', 'y'])\nplt.show()"
    )

    chart, several = bar.results[0].chart, both.results[0].chart
    assert (type(chart), chart.title, bar.results[0].extra) == (BarChart, "T", None)
    assert [(each.label, each.group, each.value) for each in chart.elements] == [("a", "g", 1.0), ("b", "g", 2.0)]
    assert type(several) is SuperChart
    assert [each.type for each in several.elements] == ["line", "pie"]
    assert several.elements[0].elements[0].points == [(0.0, 1.0), (1.0, 2.0)]


@pytest.mark.parametrize(
    "chart",
    [
        "[]",
        "{'type': 'line'}",
        "{'type': 'bar', 'title': None, 'elements': [{'label': 1}]}",
        "{'type': 'superchart', 'title': None, 'elements': [{'type': 'superchart', 'title': None, 'elements': []}]}",
        "{'type': ['pie'], 'title': None, 'elements': []}",
    ],
)
def test_what_a_program_only_calls_a_chart_breaks_no_client(e2b, sandbox, chart):
    mime = "application/vnd.groundbox.chart+json"

    result = sandbox.run_code(f"display({{{mime!r}: {chart}, 'text/plain': 'x'}}, raw=True)").results[0]

    assert (result.text, result.chart, list(result.extra)) == ("x", None, [mime])


# What people build on the SDK, unmodified


@pytest.mark.parametrize("root", [None, "/home/user/ws"])
def test_an_agent_of_the_openai_sdk_has_its_workspace_here(e2b, root):
    kept = pytest.importorskip(
        "agents.extensions.sandbox.e2b", reason="openai-agents is not installed here: make clients"
    )
    from agents.sandbox.manifest import Manifest

    options = kept.E2BSandboxClientOptions(
        sandbox_type=kept.E2BSandboxType.CODE_INTERPRETER, allow_internet_access=False, on_timeout="kill"
    )

    async def work():
        client = kept.E2BSandboxClient()
        session = await client.create(options=options, manifest=Manifest(**({} if root is None else {"root": root})))
        try:
            async with session:
                said = await session.exec("sh", "-c", "pwd; exit 3")
                await session.write(PurePosixPath("a.txt"), io.BytesIO(b"hello"))
                read = (await session.read(PurePosixPath("a.txt"))).read()
                return said.stdout, said.exit_code, read, len((await session.persist_workspace()).read()) > 0
        finally:
            await client.delete(session)

    assert asyncio.run(work()) == (f"{root or '/workspace'}\n".encode(), 3, b"hello", True)


def test_a_runtime_of_verifiers_runs_programs_here(origin):
    runtimes = pytest.importorskip("verifiers.v1.runtimes.e2b", reason="verifiers is not installed here: make weekly")

    async def work():
        runtime = runtimes.E2BRuntime(runtimes.E2BConfig(), name="t")
        try:
            await runtime.start()
            ran = await runtime.run(["sh", "-c", "echo $A; pwd; exit 3"], {"A": "1"})
            await runtime.write("d/x.bin", bytes(range(256)))
            return ran.stdout, ran.exit_code, await runtime.read("d/x.bin")
        finally:
            await runtime.teardown()

    assert asyncio.run(work()) == ("1\n/app\n", 3, bytes(range(256)))
