"""OpenSandbox: by its own clients, by LiteLLM's provider, and request by request."""

import asyncio
import datetime
import json
import os
import time

import pytest

from groundbox.server.application import application
from groundbox.server.keys import Keys
from groundbox.server.refusals import Refused
from groundbox.server.service import Service
from groundbox.server.settings import Settings

BASE = "/opensandbox/sandboxes"


@pytest.fixture
def made(client):
    """A new sandbox, which is ended after the test: its id, and the path of its daemon."""
    answer = client.post(BASE, json={"image": {"uri": "any"}, "timeout": 300})
    assert answer.status_code == 202, answer.text
    name = answer.json()["id"]
    yield name, f"/opensandbox/execd/{name}"
    client.delete(f"{BASE}/{name}")


def events_of(client, path, body):
    """Events of a stream, without their times."""
    with client.stream("POST", path, json=body) as answer:
        assert answer.status_code == 200, answer.read()
        lines = [line for line in answer.iter_lines() if line.startswith("data: ")]
    events = [json.loads(line.removeprefix("data: ")) for line in lines]
    for each in events:
        assert isinstance(each.pop("timestamp"), int)
    return events


# Clients


def opensandbox(server):
    """The settings of OpenSandbox's client for this server."""
    config = pytest.importorskip("opensandbox.config", reason="opensandbox is not installed here: make clients")
    pytest.importorskip("code_interpreter", reason="opensandbox-code-interpreter is not installed here: make clients")
    domain = server.url.removeprefix("http://") + "/opensandbox"
    return config.ConnectionConfig(domain=domain, api_key=server.token)


def test_the_code_interpreter_of_opensandbox_runs_code_in_contexts(server):
    config = opensandbox(server)
    from code_interpreter import CodeInterpreter
    from opensandbox.models.execd import ExecutionHandlers
    from opensandbox.sandbox import Sandbox

    async def work():
        box = await Sandbox.create("opensandbox/code-interpreter:latest", connection_config=config)
        interpreter = await CodeInterpreter.create(sandbox=box)
        context = await interpreter.codes.create_context("python")
        shown = await interpreter.codes.run("print('hi')\nx = 41\nx + 1", context=context)
        failed = await interpreter.codes.run("1 / 0", context=context)
        other = await interpreter.codes.run("2 + 2", language="javascript")
        stopping = ExecutionHandlers(on_init=lambda init: interrupted_soon(interpreter.codes, init.id))
        stopped = await interpreter.codes.run("while True: pass", context=context, handlers=stopping)
        contexts = await interpreter.codes.list_contexts("python")
        await interpreter.codes.delete_context(context.id)
        after = await interpreter.codes.run("'x' in globals()")
        await box.kill()
        return shown, failed, other, stopped, contexts == [context], after

    shown, failed, other, stopped, is_listed, after = asyncio.run(work())

    assert ([each.text for each in shown.logs.stdout], [each.text for each in shown.result]) == (["hi\n"], ["42"])
    assert (shown.execution_count, shown.error, shown.complete is not None) == (1, None, True)
    assert (failed.error.name, failed.error.value) == ("ZeroDivisionError", "division by zero")
    assert [each.text for each in other.result] == ["4"]
    assert stopped.error.name == "KeyboardInterrupt"
    assert is_listed
    assert [each.text for each in after.result] == ["False"]


async def interrupted_soon(codes, name):
    """Interrupt a run half a second from now."""

    async def work():
        await asyncio.sleep(0.5)
        await codes.interrupt(name)

    vars(interrupted_soon)["task"] = asyncio.ensure_future(work())


def test_the_client_of_opensandbox_runs_commands_moves_files_and_lists_sandboxes(server):
    config = opensandbox(server)
    from opensandbox.exceptions import SandboxApiException
    from opensandbox.manager import SandboxManager
    from opensandbox.models.filesystem import WriteEntry
    from opensandbox.models.sandboxes import SandboxFilter
    from opensandbox.sandbox import Sandbox

    async def work():
        resource = {"cpu": "1", "memory": "512Mi"}
        box = await Sandbox.create("any:latest", connection_config=config, resource=resource, metadata={"job": "a&b=c"})
        command = await box.commands.run("echo hi; echo there >&2; exit 3")
        fine = await box.commands.run(["printf", "%s", "a b"])
        entries = [WriteEntry(path="d/a.txt", data="hello", mode=640), WriteEntry(path="/tmp/b", data=b"\0\xff")]
        await box.files.write_files(entries)
        read = [await box.files.read_file("d/a.txt"), await box.files.read_bytes("/tmp/b")]
        part = await box.files.read_bytes("d/a.txt", range_header="bytes=1-2")
        info = (await box.files.get_file_info(["d/a.txt"]))["d/a.txt"]
        await box.files.create_directories([WriteEntry(path="e/f", mode=755)])
        kind = (await box.files.get_file_info(["e/f"]))["e/f"].entry_type
        await box.files.delete_files(["d/a.txt"])
        with pytest.raises(SandboxApiException) as gone:
            await box.files.read_file("d/a.txt")
        renewed = await box.renew(datetime.timedelta(minutes=10))
        manager = await SandboxManager.create(config)
        listed = [
            [each.id for each in (await manager.list_sandbox_infos(SandboxFilter(metadata={"job": job}))).sandbox_infos]
            for job in ("a&b=c", "other")
        ]
        await box.kill()
        with pytest.raises(SandboxApiException) as closed:
            await box.get_info()
        left_s = (renewed.expires_at - datetime.datetime.now(datetime.UTC)).total_seconds()
        return command, fine, read, part, info, kind, gone.value, left_s, listed == [[box.id], []], closed.value

    command, fine, read, part, info, kind, gone, left_s, is_listed, closed = asyncio.run(work())

    assert command.exit_code == 3
    assert ([each.text for each in command.logs.stdout], [each.text for each in command.logs.stderr]) == (
        ["hi\n"],
        ["there\n"],
    )
    assert (fine.exit_code, fine.logs.stdout[0].text) == (0, "a b")
    assert (read, part) == (["hello", b"\0\xff"], b"el")
    assert (info.size, info.mode, info.entry_type, kind) == (5, 640, "file", "directory")
    assert (gone.status_code, closed.status_code) == (404, 404)
    assert 500 < left_s <= 600
    assert is_listed


def test_litellm_runs_code_in_sandboxes(server, monkeypatch):
    monkeypatch.setitem(os.environ, "LITELLM_LOCAL_MODEL_COST_MAP", "True")
    sandbox = pytest.importorskip("litellm.sandbox.main", reason="litellm is not installed here: make clients")
    base = f"{server.url}/opensandbox"

    async def work():
        box = await sandbox.acreate_sandbox("opensandbox", api_base=base, api_key=server.token)
        code = "import sys\nprint('a')\nprint('b', file=sys.stderr)\nx = 42\nx"
        shown = await sandbox.arun_code("opensandbox", box, code)
        failed = await sandbox.arun_code("opensandbox", box.id, "x / 0", api_base=base, api_key=server.token)
        deleted = [await sandbox.adelete_sandbox("opensandbox", box) for _ in range(2)]
        return shown, failed, deleted

    shown, failed, deleted = asyncio.run(work())

    assert (shown.stdout, shown.stderr, shown.error, shown.execution_count) == ("a\n", "b\n", None, 1)
    assert shown.results == [{"text": "42", "text/plain": "42"}]
    assert (failed.error["name"], failed.error["value"]) == ("ZeroDivisionError", "division by zero")
    assert deleted == [True, False]


# Requests


def test_a_run_is_a_stream_of_events_from_init_to_its_end(client, made):
    events = events_of(client, f"{made[1]}/code", {"code": "print('a')\n6 * 7", "context": {"language": "python"}})

    assert [each["type"] for each in events] == ["init", "stdout", "result", "execution_count", "execution_complete"]
    assert events[1] == {"type": "stdout", "text": "a\n"}
    assert events[2] == {"type": "result", "results": {"text": "42", "text/plain": "42"}}
    assert events[3] == {"type": "execution_count", "execution_count": 1}


def test_a_failure_is_an_error_event_with_hints_in_its_traceback(client, made):
    events = events_of(client, f"{made[1]}/code", {"code": "input()"})

    error = events[-1]["error"]
    assert [each["type"] for each in events] == ["init", "execution_count", "error"]
    assert (error["ename"], error["traceback"][-1][:5]) == ("EOFError", "Hint:")


def test_a_command_that_fails_tells_its_exit_code_as_the_value_of_its_error(client, made):
    events = events_of(
        client, f"{made[1]}/command", {"command": "echo $A $PWD; exit 7", "envs": {"A": "b"}, "cwd": "/"}
    )

    traceback = ["SystemExit: the program ended with exit code 7"]
    assert events[1:] == [
        {"type": "stdout", "text": "b /\n"},
        {"type": "error", "error": {"ename": "CommandExecError", "evalue": "7", "traceback": traceback}},
    ]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"env": {"": "b"}}, "env"),
        ({"env": {"A=B": "b"}}, "env"),
        ({"env": {"A": "\0"}}, "env"),
        ({"env": {"A": 1}}, "env"),
        ({"env": {"A": "x" * 65_536}}, "env"),
        ({"env": {f"A{each}": "" for each in range(1001)}}, "env"),
        ({"entrypoint": ["x" * 65_536]}, "entrypoint"),
        ({"entrypoint": ["x"] * 1001}, "entrypoint"),
        ({"image": {"uri": "x" * 4097}}, "image"),
        ({"metadata": {"x" * 4097: ""}}, "metadata"),
        ({"resourceLimits": {"memory": "9" * 400}}, "resourceLimits.memory"),
        ({"networkPolicy": {"egress": [{"target": "x"}] * 1001}}, "networkPolicy"),
        ({"volumes": [{"name": "x"}]}, "volumes"),
        ({"snapshotId": "x"}, "snapshotId"),
        ({"networkPolicy": {"defaultAction": "allow"}}, "networkPolicy"),
        ({"networkPolicy": {"egress": [{"action": "allow", "target": "127.0.0.1"}]}}, "allow"),
        ({"resourceLimits": {"memory": "lots"}}, "resourceLimits.memory"),
        ({"resourceLimits": {"memory": "64Ti"}}, "memory_bytes"),
        ({"timeout": -1}, "total_s"),
    ],
)
def test_what_there_is_not_is_refused_in_the_shape_of_opensandbox(client, body, words):
    answer = client.post(BASE, json=body)

    assert (answer.status_code, answer.json().keys() >= {"code", "message"}) == (400, True)
    assert words in answer.json()["message"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("code", {"code": "x" * (4 * 2**20 + 1)}),
        ("code", {"code": "", "context": {"language": "x" * 201}}),
        ("code/context", {"language": "x" * 201}),
        ("command", {"argv": ["x"] * 1001}),
        ("command", {"argv": ["x" * 131_073]}),
        ("command", {"command": "true", "cwd": "x" * 4097}),
        ("command", {"command": "true", "envs": {"x" * 201: ""}}),
        ("directories", {"x" * 4097: {}}),
        ("directories", {str(each): {} for each in range(1001)}),
    ],
    ids=lambda each: str(each)[:40],
)
def test_a_field_that_is_too_long_is_refused(client, made, path, body):
    answer = client.post(f"{made[1]}/{path}", json=body)

    assert answer.status_code == 400
    assert len(answer.content) < 1000


def test_variables_of_a_sandbox_are_those_of_its_code_and_its_commands(client):
    env = {"GREETING": 'a "b"\n\u2028é', "EMPTY": "", "LEFT_OUT": None}
    box = client.post(BASE, json={"env": env}).json()["id"]
    path = f"/opensandbox/execd/{box}"
    python = {"code": "import os; print(repr(os.environ['GREETING']), os.environ['EMPTY'], 'LEFT_OUT' in os.environ)"}
    try:
        first = events_of(client, f"{path}/code", python)
        events_of(client, f"{path}/code", {"code": "import os; os._exit(3)"})
        again = events_of(client, f"{path}/code", python)
        javascript = {
            "code": "console.log(JSON.stringify(process.env.GREETING))",
            "context": {"language": "javascript"},
        }
        node = events_of(client, f"{path}/code", javascript)
        bash = events_of(client, f"{path}/code", {"code": 'echo "$GREETING"', "context": {"language": "bash"}})
        command = events_of(client, f"{path}/command", {"command": 'echo "$GREETING,$OWN"', "envs": {"OWN": "1"}})
        own = events_of(client, f"{path}/command", {"command": "echo $GREETING", "envs": {"GREETING": "2"}})
    finally:
        client.delete(f"{BASE}/{box}")

    said = [
        "".join(each["text"] for each in events if each["type"] == "stdout")
        for events in (first, again, node, bash, command, own)
    ]
    greeting = env["GREETING"]
    expected = f"{greeting!r}  False\n"
    assert said[:2] == [expected, expected]
    assert json.loads(said[2]) == greeting
    assert said[3:] == [f"{greeting}\n", f"{greeting},1\n", "2\n"]
    assert [each["text"] for each in again if each["type"] == "stderr"] != [], "that the process began afresh is told"


def test_requests_that_cannot_be_meant_are_refused_before_a_stream_begins(client, made):
    told = [
        client.get(
            f"{made[1]}/files/download", params={"path": "/etc/hostname"}, headers={"Range": f"bytes={'9' * 5000}-"}
        ),
        client.get(BASE, params={"metadata": "&".join(f"a{each}=b" for each in range(65))}),
        client.post(f"{made[1]}/code", json={"code": "1", "context": {"language": "cobol"}}),
        client.post(f"{made[1]}/code", json={"code": "1", "context": {"id": "none", "language": "python"}}),
        client.post(f"{made[1]}/command", json={"command": "true", "background": True}),
        client.post(f"{made[1]}/command", json={}),
        client.post(f"{made[1]}/directories", json=["x"]),
        client.get(f"{made[1]}/files/download"),
        client.get(f"{BASE}/{made[0]}/endpoints/8080"),
        client.delete(f"{made[1]}/code", params={"id": "none"}),
        client.get(BASE, params={"page": "0"}),
    ]

    assert told[0].status_code in (200, 404)
    assert [each.status_code for each in told[1:]] == [400, 400, 404, 400, 400, 400, 400, 404, 404, 400]


def test_an_image_may_name_an_environment_which_is_looked_for_at_the_first_run(client):
    made = client.post(BASE, json={"image": {"uri": "groundbox/no-such:1"}}).json()["id"]

    answer = client.post(f"/opensandbox/execd/{made}/code", json={"code": "1"})
    client.delete(f"{BASE}/{made}")

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "environment_failed")
    assert "no-such" in answer.json()["message"]


def test_a_second_context_of_a_language_is_refused_because_they_would_share_variables(client, made):
    first = client.post(f"{made[1]}/code/context", json={"language": "python"})
    second = client.post(f"{made[1]}/code/context", json={"language": "py"})
    other = client.post(f"{made[1]}/code/context", json={"language": "javascript"})

    assert [each.status_code for each in (first, second, other)] == [200, 400, 200]


def test_resources_and_times_become_limits_of_the_sandbox(client):
    body = {"resourceLimits": {"cpu": "1", "memory": "256Mi"}, "timeout": 120, "metadata": {"a": "b"}}
    made = client.post(BASE, json={**body, "networkPolicy": {"defaultAction": "deny", "egress": []}}).json()

    box = client.get(f"/v1/sandboxes/{made['id']}").json()
    client.delete(f"{BASE}/{made['id']}")

    assert (box["limits"]["memory_bytes"], box["limits"]["wall_s"], box["labels"]) == (2**28, 600.0, {"a": "b"})
    assert 100 < box["closes_in_s"] <= 120
    assert made["status"] == {"state": "Running"}


def test_a_quota_that_is_used_up_has_its_status_and_is_no_failure_of_the_program(server, client):
    made = client.post("/v1/keys", json={"owner": "slow", "quotas": {"runs_a_minute": 1}}).json()
    with server.client(made["key"]) as own:
        box = own.post(BASE, json={}).json()["id"]
        own.post(f"/opensandbox/execd/{box}/code", json={"code": "1"})
        refused = own.post(f"/opensandbox/execd/{box}/code", json={"code": "1"})

    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "quota.runs_a_minute")


@pytest.mark.parametrize("after_s", [0, 1.5], ids=["before", "within"])
def test_a_failure_of_the_server_has_its_status_or_cuts_the_stream(monkeypatch, after_s):
    service = Service(Settings(protocols=["opensandbox"]), Keys(token=None))
    app = application(service, over_unix=True)

    async def broken(*args, **options):
        await asyncio.sleep(after_s)
        raise Refused(503, "sandbox_failed", "no cgroup")
        yield

    async def work():
        made = json.loads((await asked(app, BASE, {}))[-1]["body"])
        return await asked(app, f"/opensandbox/execd/{made['id']}/code", {"code": "1"})

    monkeypatch.setattr(service, "stream_in", broken)
    sent = asyncio.run(work())

    is_whole = not sent[-1].get("more_body", False)
    assert (sent[0]["status"], is_whole) == ((200, False) if after_s else (503, True))
    assert b"no cgroup" not in b"".join(each.get("body", b"") for each in sent) or not after_s


async def asked(app, path, body):
    """Messages that an application sends for a POST."""
    told = asyncio.Queue()
    told.put_nowait({"type": "http.request", "body": json.dumps(body).encode(), "more_body": False})
    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": path, "headers": [], "query_string": b"", "root_path": ""}
    await app(scope, told.get, send)
    return sent


def test_the_endpoint_of_a_sandbox_tells_the_key_it_was_asked_with_and_no_other(server, client, made):
    with server.client(None) as asking:
        told = asking.get(f"{BASE}/{made[0]}/endpoints/44772", headers={"OPEN-SANDBOX-API-KEY": server.token}).json()
        without = asking.get(f"/opensandbox/execd/{made[0]}/ping")
        asked = asking.get(f"http://{told['endpoint']}/ping", headers=told["headers"])

    assert told["endpoint"] == f"{server.url.removeprefix('http://')}/opensandbox/execd/{made[0]}"
    assert told["headers"] == {"OPEN-SANDBOX-API-KEY": server.token}
    assert (without.status_code, asked.status_code) == (401, 200)


def test_sandboxes_of_another_key_and_of_other_protocols_are_not_found(server, client, sandbox, made):
    other = client.post("/v1/keys", json={"owner": "somebody else"}).json()["key"]
    native = sandbox.rsplit("/", 1)[-1]
    with server.client(other) as asking:
        told = [
            asking.get(f"{BASE}/{made[0]}"),
            asking.delete(f"{BASE}/{made[0]}"),
            asking.get(f"{BASE}/{made[0]}/endpoints/44772"),
            asking.post(f"{made[1]}/code", json={"code": "1"}),
            asking.get(f"{made[1]}/files/download", params={"path": "x"}),
        ]
        listed = asking.get(BASE).json()

    assert [each.status_code for each in told] == [404] * 5
    assert (listed["items"], listed["pagination"]["totalItems"]) == ([], 0)
    assert client.get(f"{BASE}/{native}").status_code == 404


def test_a_client_that_goes_away_frees_its_run_within_a_second(server, client, made):
    with (
        server.client() as leaving,
        leaving.stream("POST", f"{made[1]}/code", json={"code": "while True: pass"}) as reply,
    ):
        next(reply.iter_lines())
    deadline = time.monotonic() + 1
    while running(client) and time.monotonic() < deadline:
        time.sleep(0.05)

    assert running(client) == 0


def running(client):
    """Runs that go on now, by the metrics."""
    lines = client.get("/metrics").text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("groundbox_runs_running "))
