"""Kernels over REST and WebSocket: by the clients that people have, and frame by frame."""

import asyncio
import base64
import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
import uuid

import httpx
import pytest

from groundbox.server.refusals import Refused
from groundbox.testing.base import until

websockets = pytest.importorskip("websockets.sync.client", reason="the extra `server` is not installed here")
from websockets.exceptions import ConnectionClosed, InvalidStatus  # noqa: E402

MISSING = "is not installed here: make clients"
V1 = "v1.kernel.websocket.jupyter.org"
RUN = {"silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False, "stop_on_error": True}


class Connection:
    """A connection to one kernel, which sends and reads frames of JSON."""

    def __init__(self, socket):
        self.socket = socket

    def send(self, kind, content=None, channel="shell", **more):
        """Send a request; its id."""
        name = uuid.uuid4().hex
        header = {"msg_id": name, "msg_type": kind, "username": "u", "session": "s", "date": "", "version": "5.3"}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content or {}, **more}
        self.socket.send(json.dumps({**message, "channel": channel} if channel else message))
        return name

    def execute(self, code, **options):
        return self.send("execute_request", {"code": code, **RUN, **options})

    def read(self, timeout=30):
        return json.loads(self.socket.recv(timeout=timeout))

    def until_idle(self, name, timeout=30):
        """Messages that answer a request, up to the status that ends them."""
        messages = []
        while True:
            message = self.read(timeout)
            if message["parent_header"].get("msg_id") == name:
                messages.append(message)
                if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                    return messages

    def run(self, code, **options):
        """Messages of a cell: type and content of each message between the statuses."""
        return [(each["msg_type"], each["content"]) for each in self.until_idle(self.execute(code, **options))[1:-1]]

    def reply(self, code, **options):
        return dict(self.run(code, **options))["execute_reply"]

    def until_closed(self, timeout=10):
        """Messages until it is closed, and the close frame."""
        messages = []
        while True:
            try:
                messages.append(self.read(timeout))
            except ConnectionClosed as closed:
                return messages, closed.rcvd

    def closed(self):
        """The code that it is closed with, whatever comes before."""
        return self.until_closed()[1].code


@contextlib.contextmanager
def connected(server, kernel, token=None, **options):
    address = server.url.replace("http", "ws", 1)
    url = f"{address}/api/kernels/{kernel}/channels?token={token or server.token}"
    with websockets.connect(url, max_size=None, **options) as socket:
        yield Connection(socket)


@pytest.fixture
def kernel(client):
    """The id of a new kernel, which is ended after the test."""
    made = client.post("/api/kernels")
    assert made.status_code == 201, made.text
    yield made.json()["id"]
    client.delete(f"/api/kernels/{made.json()['id']}")


@pytest.fixture
def connection(server, kernel):
    with connected(server, kernel) as made:
        yield made


@pytest.fixture
def other(client):
    """The key of somebody else."""
    return client.post("/v1/keys", json={"owner": "somebody else"}).json()["key"]


# Clients


def test_jupyter_kernel_client_runs_cells(server):
    module = pytest.importorskip("jupyter_kernel_client", reason=f"jupyter-kernel-client {MISSING}")

    with module.JupyterKernelClient(server_url=server.url, token=server.token) as kernel:
        shown = kernel.execute("x = 20\nprint('a')\nx + 1")
        failed = kernel.execute("1 / 0")
        variables = [each["name"] for each in kernel.list_variables()]
        kernel.restart()
        after = kernel.execute("x")
        is_alive = kernel.is_alive()
        name = kernel.id

    assert shown == {
        "execution_count": 1,
        "status": "ok",
        "outputs": [
            {"output_type": "stream", "name": "stdout", "text": "a\n"},
            {"output_type": "execute_result", "metadata": {}, "data": {"text/plain": "21"}, "execution_count": 1},
        ],
    }
    assert (failed["status"], failed["outputs"][0]["ename"]) == ("error", "ZeroDivisionError")
    assert variables == ["x"]
    assert (after["execution_count"], after["outputs"][0]["ename"]) == (1, "NameError")
    assert is_alive
    with server.client() as client:
        assert client.get(f"/api/kernels/{name}").status_code == 404


def test_jupyter_kernel_client_interrupts_a_cell(server):
    module = pytest.importorskip("jupyter_kernel_client", reason=f"jupyter-kernel-client {MISSING}")

    with module.JupyterKernelClient(server_url=server.url, token=server.token) as kernel:
        kernel.execute("x = 1")
        threading.Timer(1, kernel.interrupt).start()
        stopped = kernel.execute("while True: pass", timeout=30)
        after = kernel.execute("x")

    assert stopped["outputs"][0]["ename"] == "KeyboardInterrupt"
    assert after["outputs"][0]["data"] == {"text/plain": "1"}


def test_the_executor_of_smolagents_gets_variables_output_and_its_final_answer(server):
    executors = pytest.importorskip("smolagents.remote_executors", reason=f"smolagents {MISSING}")
    pytest.importorskip("websocket", reason=f"websocket-client {MISSING}")
    import smolagents

    executor = executors.DockerExecutor.__new__(executors.DockerExecutor)  # whose constructor starts a container
    executors.RemotePythonExecutor.__init__(executor, [], smolagents.monitoring.AgentLogger(level=0))
    executor.base_url = server.url
    executor._wait_for_server(server.token)
    address = f"{server.url}/api/kernels?token={server.token}"
    executor.kernel_id = executors._create_kernel_http(address, executor.logger)
    path = f"/api/kernels/{executor.kernel_id}/channels?token={server.token}"
    executor.ws_url = server.url.replace("http", "ws", 1) + path
    executor.send_variables({"n": 6, "words": ("a", "b")})
    executor.send_tools({"final_answer": smolagents.FinalAnswerTool()})

    shown = executor("print(words)\nn * 7")
    answered = executor("final_answer({'n': n, 'words': words})")

    assert (shown.output, shown.logs, shown.is_final_answer) == ("42", "('a', 'b')\n", False)
    assert (answered.output, answered.is_final_answer) == ({"n": 6, "words": ("a", "b")}, True)
    with pytest.raises(smolagents.utils.AgentError, match="ZeroDivisionError: division by zero"):
        executor("1 / 0")
    with server.client() as client:
        client.delete(f"/api/kernels/{executor.kernel_id}")


def test_a_client_with_a_password_logs_in_as_open_webui_does(server):
    with httpx.Client(base_url=server.url, timeout=60) as client:
        token = client.get("/login").cookies["_xsrf"]
        client.headers["X-XSRFToken"] = token
        logged_in = client.post("/login", data={"_xsrf": token, "password": server.token})
        kernel = client.post("/api/kernels").json()["id"]
        cookies = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
        headers = {"Cookie": cookies, "X-XSRFToken": token}
        url = f"{server.url.replace('http', 'ws', 1)}/api/kernels/{kernel}/channels"
        with websockets.connect(url, additional_headers=headers) as socket:
            told = Connection(socket).run("print('in')")
        ended = client.delete(f"/api/kernels/{kernel}")

    assert logged_in.status_code == 200
    assert ("stream", {"name": "stdout", "text": "in\n"}) in told
    assert ended.status_code == 204


# Messages


def test_messages_of_a_cell_come_in_the_order_of_jupyter(connection):
    name = connection.execute("import sys\nprint('a')\nprint('b', file=sys.stderr)\n1 + 1")

    messages = connection.until_idle(name)

    streams = {each["content"]["name"]: each["content"]["text"] for each in messages if each["msg_type"] == "stream"}
    kinds = [(each["channel"], each["msg_type"]) for each in messages if each["msg_type"] != "stream"]
    assert kinds == [
        ("iopub", "status"),
        ("iopub", "execute_input"),
        ("iopub", "execute_result"),
        ("shell", "execute_reply"),
        ("iopub", "status"),
    ]
    assert streams == {"stdout": "a\n", "stderr": "b\n"}
    assert messages[0]["content"] == {"execution_state": "busy"}
    assert messages[-3]["content"] == {"execution_count": 1, "data": {"text/plain": "2"}, "metadata": {}}
    assert messages[-2]["content"] == {"status": "ok", "execution_count": 1, "payload": [], "user_expressions": {}}
    assert messages[-2]["metadata"]["groundbox"]["outcome"] == "ok"
    assert {each["parent_header"]["session"] for each in messages} == {"s"}


def test_a_failure_is_published_and_replied(connection):
    told = dict(connection.run("def f():\n    return 1 / 0\nf()"))

    error = told["error"]
    assert (error["ename"], error["evalue"]) == ("ZeroDivisionError", "division by zero")
    assert error["traceback"][0] == "Traceback (most recent call last):"
    assert error["traceback"][-1] == "ZeroDivisionError: division by zero"
    assert told["execute_reply"] == {
        "status": "error",
        "execution_count": 1,
        "payload": [],
        "user_expressions": {},
        **error,
    }


def test_displays_and_pictures_are_shown_as_they_come(connection):
    told = connection.run("display({'application/json': {'a': [1]}}, raw=True)\nprint('after')")

    assert [kind for kind, _ in told] == ["execute_input", "display_data", "stream", "execute_reply"]
    assert told[1][1] == {"data": {"application/json": {"a": [1]}}, "metadata": {}, "transient": {}}


def test_a_silent_cell_shows_no_value_and_is_not_counted(connection):
    silent = connection.run("x = 3\nx", silent=True)
    unstored = connection.run("x", store_history=False)
    stored = connection.run("x")

    assert [kind for kind, _ in silent] == ["execute_reply"]
    assert (dict(unstored)["execute_result"]["execution_count"], dict(stored)["execute_input"]["execution_count"]) == (
        1,
        1,
    )


def test_expressions_of_a_request_are_looked_at_after_it(connection):
    reply = connection.reply("x = 20", user_expressions={"more": "x + 1", "bad": "y"})

    assert reply["user_expressions"]["more"] == {"status": "ok", "data": {"text/plain": "21"}, "metadata": {}}
    assert (reply["user_expressions"]["bad"]["status"], reply["user_expressions"]["bad"]["ename"]) == (
        "error",
        "NameError",
    )


def test_a_cell_that_fails_stops_those_that_wait_unless_it_says_otherwise(connection):
    first = connection.execute("import time\ntime.sleep(0.5)\n1 / 0")
    second = connection.execute("print('never')")
    stopped = [connection.until_idle(first), connection.until_idle(second)]
    first = connection.execute("time.sleep(0.5)\n1 / 0", stop_on_error=False)
    second = connection.execute("print('always')")
    went_on = [connection.until_idle(first), connection.until_idle(second)]

    assert [each["content"] for each in stopped[1] if each["channel"] == "shell"] == [{"status": "aborted"}]
    assert [each["content"]["text"] for each in went_on[1] if each["msg_type"] == "stream"] == ["always\n"]


def test_input_is_asked_of_the_client_that_sent_the_cell(connection):
    name = connection.execute("input('name? ')", allow_stdin=True)
    while (asked := connection.read())["msg_type"] != "input_request":
        pass
    connection.send("input_reply", {"value": "wrong"}, channel="stdin", parent_header={"msg_id": "another"})
    connection.send("input_reply", {"value": "Ada"}, channel="stdin", parent_header=asked["header"])
    told = {each["msg_type"]: each["content"] for each in connection.until_idle(name)}

    assert (asked["channel"], asked["content"]) == ("stdin", {"prompt": "name? ", "password": False})
    assert told["execute_result"]["data"] == {"text/plain": "'Ada'"}


def test_input_is_refused_to_the_program_of_a_client_that_answers_nothing(connection):
    told = dict(connection.run("input('name? ')"))

    assert told["error"]["ename"] == "EOFError"
    assert "has no standard input" in told["error"]["traceback"][-1]


def test_a_program_that_waits_for_a_client_who_goes_reads_the_end_of_its_input(server, kernel):
    with connected(server, kernel) as leaving:
        leaving.execute("try:\n    input()\nexcept EOFError:\n    left = True", allow_stdin=True)
        while leaving.read()["msg_type"] != "input_request":
            pass
    with connected(server, kernel) as coming:
        told = coming.run("left")

    assert dict(told)["execute_result"]["data"] == {"text/plain": "True"}


@pytest.mark.parametrize(
    ("kind", "content", "told"),
    [
        ("complete", {"code": "x = pri", "cursor_pos": 7}, {"matches": ["print"], "cursor_start": 4, "cursor_end": 7}),
        ("inspect", {"code": "nothing", "cursor_pos": 3}, {"found": False, "data": {}}),
        ("is_complete", {"code": "if 1:"}, {"status": "incomplete", "indent": "    "}),
        ("comm_info", {}, {"comms": {}}),
        ("history", {"hist_access_type": "tail"}, {"history": []}),
        ("kernel_info", {}, {"protocol_version": "5.3", "implementation": "groundbox", "debugger": False}),
    ],
)
def test_requests_that_run_no_cell_are_answered(connection, kind, content, told):
    messages = connection.until_idle(connection.send(f"{kind}_request", content))

    assert [each["msg_type"] for each in messages] == ["status", f"{kind}_reply", "status"]
    assert messages[1]["content"] == {**messages[1]["content"], **told}


def test_a_request_without_a_channel_and_one_of_an_unknown_type_are_taken_as_jupyter_takes_them(connection):
    unknown = connection.until_idle(connection.send("no_such_request"))
    without = connection.until_idle(connection.send("execute_request", {"code": "6 * 7"}, channel=None))

    assert [each["msg_type"] for each in unknown] == ["status", "status"]
    assert [each["content"]["data"] for each in without if each["msg_type"] == "execute_result"] == [
        {"text/plain": "42"}
    ]


def test_all_connections_of_a_kernel_see_its_output_and_only_one_gets_the_reply(server, kernel, connection):
    with connected(server, kernel) as watching:
        name = connection.execute("print('seen')")
        asked, watched = connection.until_idle(name), watching.until_idle(name)

    assert [each["msg_type"] for each in watched] == ["status", "execute_input", "stream", "status"]
    assert [each["msg_type"] for each in asked] == ["status", "execute_input", "stream", "execute_reply", "status"]


def test_binary_frames_of_the_subprotocol_are_understood(server, kernel):
    header = {"msg_id": "m", "msg_type": "execute_request", "session": "s", "username": "", "version": "5.3"}
    parts = [b"shell", *(json.dumps(each).encode() for each in (header, {}, {}, {"code": "print('ü')"}))]
    offsets = [8 * (len(parts) + 2)]
    for part in parts:
        offsets.append(offsets[-1] + len(part))

    with connected(server, kernel, subprotocols=[V1]) as connection:
        connection.socket.send(struct.pack(f"<{len(offsets) + 1}Q", len(offsets), *offsets) + b"".join(parts))
        frames = [connection.socket.recv(timeout=30) for _ in range(5)]
        chosen = connection.socket.subprotocol

    told = []
    for frame in frames:
        count = struct.unpack_from("<Q", frame)[0]
        at = struct.unpack_from(f"<{count}Q", frame, 8)
        pieces = [frame[at[i] : at[i + 1]] for i in range(count - 1)]
        told.append((pieces[0].decode(), json.loads(pieces[1])["msg_type"], json.loads(pieces[4])))
    assert chosen == V1
    assert [each[:2] for each in told] == [
        ("iopub", "status"),
        ("iopub", "execute_input"),
        ("iopub", "stream"),
        ("shell", "execute_reply"),
        ("iopub", "status"),
    ]
    assert told[2][2] == {"name": "stdout", "text": "ü\n"}


@pytest.mark.parametrize(
    ("spec", "code", "shown"), [("bash", "echo $((6 * 7))", "42\n"), ("sql", "SELECT 42 AS n", "42")]
)
def test_other_languages_have_kernels_of_their_own(server, client, spec, code, shown):
    made = client.post("/api/kernels", json={"name": spec}).json()

    with connected(server, made["id"]) as connection:
        told = dict(connection.run(code))
    client.delete(f"/api/kernels/{made['id']}")

    assert made["name"] == spec
    assert shown in (told["stream"]["text"] if spec == "bash" else told["execute_result"]["data"]["text/plain"])


# Control


def test_a_cell_is_interrupted_over_the_control_channel(connection):
    name = connection.execute("import time\nwhile True: time.sleep(0.01)")
    time.sleep(1)
    connection.send("interrupt_request", channel="control")
    told = connection.until_idle(name)
    after = connection.run("6 * 7")

    assert [each["content"]["ename"] for each in told if each["msg_type"] == "error"] == ["KeyboardInterrupt"]
    assert ("execute_result", {"execution_count": 2, "data": {"text/plain": "42"}, "metadata": {}}) in after


def test_a_restart_aborts_what_runs_and_waits_and_keeps_files(client, kernel, connection):
    connection.run("x = 1\nopen('kept', 'w').write('here')")
    running = connection.execute("import time\ntime.sleep(60)")
    waiting = connection.execute("print('never')")
    time.sleep(0.5)
    restarted = client.post(f"/api/kernels/{kernel}/restart")
    told = [connection.until_idle(running), connection.until_idle(waiting)]
    after = connection.run("'x' in globals(), open('kept').read()")

    replies = [each["content"] for messages in told for each in messages if each["channel"] == "shell"]
    assert (restarted.status_code, restarted.json()["id"]) == (200, kernel)
    assert replies == [{"status": "aborted"}, {"status": "aborted"}]
    assert dict(after)["execute_result"]["data"] == {"text/plain": "(False, 'here')"}
    assert dict(after)["execute_input"]["execution_count"] == 1


def test_a_kernel_is_shut_down_over_the_control_channel(client, kernel, connection):
    connection.send("shutdown_request", {"restart": False}, channel="control")
    messages, closed = connection.until_closed()

    kinds = [(each["channel"], each["msg_type"], each["content"].get("execution_state")) for each in messages]
    assert ("control", "shutdown_reply", None) in kinds
    assert kinds[-1] == ("iopub", "status", "dead")
    assert closed.code == 1000
    assert client.get(f"/api/kernels/{kernel}").status_code == 404


def test_deleting_a_kernel_ends_its_run_and_tells_its_connections(client, kernel, connection):
    connection.execute("while True: pass")
    time.sleep(0.5)

    deleted = client.delete(f"/api/kernels/{kernel}")

    assert deleted.status_code == 204
    assert connection.closed() == 1000
    assert running(client) == 0


def test_a_run_whose_only_connection_is_gone_goes_on(server, client, kernel):
    with connected(server, kernel) as leaving:
        leaving.execute("import time\nfor n in range(20): time.sleep(0.05); print(n)\ndone = True")
        time.sleep(0.3)
    with connected(server, kernel) as coming:
        told = coming.run("done")

    assert dict(told)["execute_result"]["data"] == {"text/plain": "True"}


def test_a_process_that_ended_is_told_as_a_restart(connection):
    connection.run("x = 1")
    name = connection.execute("import os\nos._exit(3)")
    ended, restarting = [], False
    while not ended or ended[-1]["content"].get("execution_state") != "idle":
        message = connection.read()
        restarting |= message["content"].get("execution_state") == "restarting"
        ended += [message] if message["parent_header"].get("msg_id") == name else []
    after = connection.run("'x' in globals()")

    assert [each["msg_type"] for each in ended if each["msg_type"] in ("error", "execute_reply")] == [
        "error",
        "execute_reply",
    ]
    assert restarting
    assert dict(after)["execute_result"] == {"execution_count": 1, "data": {"text/plain": "False"}, "metadata": {}}
    assert "this run began in a fresh process" in dict(after)["stream"]["text"]


# Bounds and refusals


def test_a_client_that_does_not_read_holds_the_program_back_and_no_memory_is_taken(server, client):
    made = client.post("/api/kernels", json={"groundbox": {"limits": {"wall_s": 4}}}).json()["id"]
    before = memory_bytes(server)
    with connected(server, made, max_queue=1) as connection:
        name = connection.execute("while True: print('x' * 10_000)")
        time.sleep(3)
        while_waiting = memory_bytes(server)
        told = connection.until_idle(name)
    client.delete(f"/api/kernels/{made}")

    assert while_waiting - before < 64 * 1024 * 1024
    assert [each["content"]["ename"] for each in told if each["msg_type"] == "error"] == ["Timeout"]


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("{", 1007),
        ("[]", 1007),
        ('{"header": {"msg_id": 1, "msg_type": "x"}}', 1007),
        ('{"header": {"msg_id": "' + "x" * 2000 + '", "msg_type": "x"}}', 1007),
        ("[" * 100_000, 1007),
        (b"\x01\x00", 1007),
        ("x" * (17 * 1024 * 1024), 1009),
    ],
    ids=["cut", "list", "kind", "long", "deep", "binary", "large"],
)
def test_a_frame_that_is_no_message_closes_the_connection_and_not_the_kernel(server, client, kernel, frame, code):
    with connected(server, kernel) as connection:
        with contextlib.suppress(ConnectionClosed):
            connection.socket.send(frame)
        closed = connection.closed()

    assert closed == code
    assert client.get(f"/api/kernels/{kernel}").json()["execution_state"] == "idle"


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        struct.pack("<Q", 2**63),
        struct.pack("<7Q", 6, 56, 61, 63, 65, 67, 10**12),
        struct.pack("<7Q", 6, 56, 40, 63, 65, 67, 68),
    ],
)
def test_offsets_that_lead_out_of_a_frame_are_refused(server, kernel, frame):
    with connected(server, kernel, subprotocols=[V1]) as connection:
        connection.socket.send(frame)
        closed = connection.closed()

    assert closed == 1007


def test_more_requests_than_wait_are_refused_for_now(connection):
    connection.execute("import time\ntime.sleep(20)")
    with contextlib.suppress(ConnectionClosed):
        for _ in range(200):
            connection.execute("1")

    assert connection.closed() == 1013


def test_a_quota_that_is_used_up_closes_the_connection_and_is_no_failure_of_the_program(server, client):
    made = client.post("/v1/keys", json={"owner": "slow", "quotas": {"runs_a_minute": 1}}).json()
    with server.client(made["key"]) as own:
        kernel = own.post("/api/kernels").json()["id"]
    with connected(server, kernel, made["key"]) as connection:
        first = connection.reply("1")
        connection.execute("2")
        messages, closed = connection.until_closed()

    kinds = [(each["msg_type"], each["content"].get("execution_state")) for each in messages]
    assert first["status"] == "ok"
    assert (closed.code, "runs_a_minute" in closed.reason) == (1013, True)
    assert kinds == [("status", "busy"), ("execute_input", None)]


@contextlib.contextmanager
def in_process(monkeypatch, **settings):
    """A client of a server in this process, which makes no sandbox by itself; and its service."""
    testclient = pytest.importorskip("starlette.testclient", reason="starlette's test client is not there")
    from groundbox.server.application import application
    from groundbox.server.keys import Keys
    from groundbox.server.service import Service
    from groundbox.server.settings import Settings

    async def nothing():
        pass

    service = Service(Settings(**settings), Keys(token=None))
    monkeypatch.setattr(service, "_warm", nothing)
    with testclient.TestClient(application(service, over_unix=True)) as client:
        yield client, service


def test_a_failure_of_the_server_closes_the_connection_and_is_no_failure_of_the_program(monkeypatch):
    async def broken(*args, **options):
        raise Refused(503, "sandbox_failed", "no cgroup")
        yield

    with in_process(monkeypatch) as (client, service):
        monkeypatch.setattr(service, "stream_in", broken)
        kernel = client.post("/api/kernels").json()["id"]
        with client.websocket_connect(f"/api/kernels/{kernel}/channels") as socket:
            socket.send_json({"header": {"msg_id": "m", "msg_type": "execute_request"}, "content": {"code": "1"}})
            kinds = []
            while (frame := socket.receive())["type"] == "websocket.send":
                kinds.append(json.loads(frame["text"])["msg_type"])

    assert kinds == ["status", "execute_input"]
    assert (frame["code"], frame["reason"]) == (1011, "no cgroup")


def test_a_cell_that_waits_for_its_turn_is_interrupted(monkeypatch):
    async def waits(*args, **options):
        await asyncio.sleep(60)
        yield

    with in_process(monkeypatch) as (client, service):
        monkeypatch.setattr(service, "stream_in", waits)
        kernel = client.post("/api/kernels").json()["id"]
        with client.websocket_connect(f"/api/kernels/{kernel}/channels") as socket:
            socket.send_json({"header": {"msg_id": "m", "msg_type": "execute_request"}, "content": {"code": "1"}})
            messages = [socket.receive_json() for _ in range(2)]
            client.post(f"/api/kernels/{kernel}/interrupt")
            messages += [socket.receive_json() for _ in range(3)]

    assert [each["msg_type"] for each in messages[2:]] == ["error", "execute_reply", "status"]
    assert messages[2]["content"]["ename"] == "KeyboardInterrupt"


def test_a_kernel_somebody_is_connected_to_is_not_idle(monkeypatch):
    with in_process(monkeypatch, idle_s=0.5) as (client, _):
        kernel = client.post("/api/kernels").json()["id"]
        with client.websocket_connect(f"/api/kernels/{kernel}/channels"):
            time.sleep(2.5)
            connected = client.get(f"/api/kernels/{kernel}").status_code
        time.sleep(2.5)
        after = client.get(f"/api/kernels/{kernel}").status_code

    assert (connected, after) == (200, 404)


def test_a_page_of_another_server_gets_no_connection(server, kernel):
    for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        with pytest.raises(InvalidStatus) as refused, connected(server, kernel, additional_headers=headers):
            pass

        assert refused.value.response.status_code == 403
    own = server.url
    with connected(server, kernel, additional_headers={"Origin": own}) as connection:
        assert connection.reply("1")["status"] == "ok"


def test_a_wrong_key_and_none_get_no_connection(server, kernel):
    for query in ("?token=wrong-wrong-wrong-wrong", ""):
        url = f"{server.url.replace('http', 'ws', 1)}/api/kernels/{kernel}/channels{query}"
        with pytest.raises(InvalidStatus) as refused, websockets.connect(url):
            pass

        assert refused.value.response.status_code in (401, 403)


def test_the_kernel_of_another_key_is_not_found_by_any_path(server, kernel, other):
    with server.client(other) as client:
        told = [
            client.get(f"/api/kernels/{kernel}").status_code,
            client.delete(f"/api/kernels/{kernel}").status_code,
            client.post(f"/api/kernels/{kernel}/interrupt").status_code,
            client.post(f"/api/kernels/{kernel}/restart").status_code,
            client.get(f"/api/sessions/{kernel}").status_code,
            client.get(f"/api/contents/{kernel}").status_code,
            client.put(f"/api/contents/{kernel}/x", json={"format": "text", "content": "x"}).status_code,
        ]
        listed = [client.get(f"/api/{what}").json() for what in ("kernels", "sessions")]
        folders = client.get("/api/contents").json()["content"]
    with pytest.raises(InvalidStatus) as refused, connected(server, kernel, other):
        pass

    assert told == [404] * 7
    assert (listed, folders) == ([[], []], [])
    assert refused.value.response.status_code == 404


def test_a_key_that_is_revoked_loses_its_open_connections(server, client):
    made = client.post("/v1/keys", json={"owner": "soon gone"}).json()
    with server.client(made["key"]) as own:
        kernel = own.post("/api/kernels").json()["id"]
    with connected(server, kernel, made["key"]) as connection:
        before = connection.reply("1")["status"]
        client.delete(f"/v1/keys/{made['id']}")
        time.sleep(2.5)
        connection.execute("2")

        assert (before, connection.closed()) == ("ok", 1008)


def test_bytes_over_a_connection_count_for_the_quota_of_the_day(server, client):
    made = client.post("/v1/keys", json={"owner": "small", "quotas": {"bytes_a_day": 20_000}}).json()
    with server.client(made["key"]) as own:
        kernel = own.post("/api/kernels").json()["id"]
    with connected(server, kernel, made["key"]) as connection:
        connection.run("print('x' * 30_000)")
        connection.execute("1")

        assert connection.closed() == 1013


def test_a_cookie_alone_lets_nobody_in_and_a_wrong_password_neither(server):
    with httpx.Client(base_url=server.url) as client:
        token = client.get("/login").cookies["_xsrf"]
        wrong = client.post("/login", data={"_xsrf": token, "password": "wrong-wrong-wrong-wrong"})
        forged = client.post("/login", data={"_xsrf": "x", "password": server.token})
        right = client.post("/login", data={"_xsrf": token, "password": server.token})
        alone = client.get("/api/kernels")
        repeated = client.get("/api/kernels", headers={"X-XSRFToken": token})
        guessed = client.get("/api/kernels", headers={"X-XSRFToken": "guess"})
        elsewhere = client.get("/api/kernels", headers={"X-XSRFToken": token, "Origin": "http://evil.example"})

    told = [each.status_code for each in (wrong, forged, right, alone, repeated, guessed, elsewhere)]
    assert told == [401, 403, 200, 401, 200, 401, 403]
    assert "HttpOnly" in right.headers["set-cookie"]
    assert "SameSite=strict" in right.headers["set-cookie"]


# REST


def test_kernelspecs_name_the_languages(client):
    told = client.get("/api/kernelspecs")

    specs = told.json()["kernelspecs"]
    assert (told.status_code, told.json()["default"]) == (200, "python3")
    assert {"python3", "bash"} <= set(specs)
    assert specs["python3"]["spec"]["language"] == "python"
    assert client.get("/api/kernelspecs/bash").json() == specs["bash"]
    assert client.get("/api/kernelspecs/cobol").status_code == 404
    assert client.post("/api/kernels", json={"name": "cobol"}).status_code == 404
    assert client.get("/api").json().keys() == {"version"}


def test_a_kernel_is_a_sandbox_of_the_native_interface_with_the_limits_asked_for(client):
    made = client.post("/api/kernels", json={"groundbox": {"limits": {"memory_bytes": 2**28}}}).json()

    box = client.get(f"/v1/sandboxes/{made['id'].replace('-', '')}").json()
    client.delete(f"/api/kernels/{made['id']}")

    assert (box["wire"], box["labels"]) == ("jupyter", {"kernel": "python3"})
    assert (box["limits"]["memory_bytes"], box["limits"]["wall_s"]) == (2**28, 600.0)


def test_a_session_is_a_kernel_with_a_path(client):
    asked = {"path": "a.ipynb", "type": "notebook", "name": "a", "kernel": {"name": "python3"}}
    made = client.post("/api/sessions", json=asked).json()
    again = client.post("/api/sessions", json=asked).json()
    listed = client.get("/api/sessions").json()
    ended = client.delete(f"/api/sessions/{made['id']}")

    assert (made["path"], made["name"], made["type"]) == ("a.ipynb", "a", "notebook")
    assert again["kernel"]["id"] == made["kernel"]["id"]
    assert made["id"] in [each["id"] for each in listed]
    assert ended.status_code == 204
    assert client.get(f"/api/kernels/{made['kernel']['id']}").status_code == 404


def test_files_of_a_kernel_are_put_listed_read_and_removed(client, kernel, connection):
    folder = f"/api/contents/{kernel}"
    put = client.put(
        f"{folder}/data/in.bin", json={"format": "base64", "content": base64.b64encode(b"\0\xff").decode()}
    )
    connection.run("open('out.txt', 'w').write(str(open('data/in.bin', 'rb').read()))")
    text = client.get(f"{folder}/out.txt").json()
    binary = client.get(f"{folder}/data/in.bin").json()
    listed = client.get(folder).json()
    removed = client.delete(f"{folder}/out.txt").status_code
    gone = client.get(f"{folder}/out.txt").status_code
    outside = client.get(f"{folder}/..%2f..%2fetc/passwd").status_code

    assert (put.status_code, put.json()["path"]) == (201, f"{kernel}/data/in.bin")
    assert (text["content"], text["format"], text["mimetype"]) == ("b'\\x00\\xff'", "text", "text/plain")
    assert (base64.b64decode(binary["content"]), binary["format"], binary["size"]) == (b"\0\xff", "base64", 2)
    assert [(each["name"], each["type"]) for each in listed["content"]] == [("data", "directory"), ("out.txt", "file")]
    assert (removed, gone, outside) == (204, 404, 400)


def memory_bytes(server):
    """Memory of the server's own process."""
    with open(f"/proc/{server.process.pid}/statm") as told:
        return int(told.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def running(client):
    """Runs that go on now, after a moment for those that end."""
    for _ in range(20):
        lines = client.get("/metrics").text.splitlines()
        count = next(float(line.split()[1]) for line in lines if line.startswith("groundbox_runs_running "))
        if not count:
            return 0
        time.sleep(0.05)
    return count


# Jupyter's own server as a gateway's client, as `jupyter lab --gateway-url` is


def test_jupyter_server_reaches_kernels_as_its_gateway(server, tmp_path):
    pytest.importorskip("jupyter_server", reason="jupyter-server is not installed here: make clients")
    environ = {**os.environ, "JUPYTER_GATEWAY_URL": server.url, "JUPYTER_GATEWAY_AUTH_TOKEN": server.token}
    environ |= {"HOME": str(tmp_path), "JUPYTER_RUNTIME_DIR": str(tmp_path)}
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = [f"--ServerApp.port={port}", "--ServerApp.port_retries=0", "--IdentityProvider.token=t"]
    command = [sys.executable, "-m", "jupyter_server", "--allow-root", "--no-browser", *options]
    headers = {"Authorization": "token t"}
    with (
        subprocess.Popen(command, env=environ, cwd=tmp_path, stderr=subprocess.DEVNULL) as process,
        httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60) as client,
    ):
        try:
            assert until(lambda: is_answered(client), within_s=60)
            kernel = client.post("/api/kernels", json={"name": "python3"}).json()["id"]
            url = f"ws://127.0.0.1:{port}/api/kernels/{kernel}/channels"
            with websockets.connect(url, additional_headers=headers) as channels:
                told = Connection(channels).run("print(6 * 7)")
            interrupted = client.post(f"/api/kernels/{kernel}/interrupt").status_code
            ended = client.delete(f"/api/kernels/{kernel}").status_code
        finally:
            process.terminate()

    assert [content["text"] for kind, content in told if kind == "stream"] == ["42\n"]
    assert (interrupted, ended) == (204, 204)


def is_answered(client):
    try:
        return client.get("/api").status_code == 200
    except httpx.TransportError:
        return False


def test_the_id_of_a_kernel_is_a_uuid_and_its_digits_alone_are_accepted_too(client, kernel):
    shown = client.get(f"/api/kernels/{kernel.replace('-', '')}").json()

    assert str(uuid.UUID(kernel)) == kernel
    assert shown["id"] == kernel
