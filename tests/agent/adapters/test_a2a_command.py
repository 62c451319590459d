"""`groundbox a2a` as other agents see it: a process that answers over HTTP on loopback, and its end."""

import asyncio
import contextlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("a2a", reason="a2a-sdk is not installed here: make adapters")

import httpx
from a2a.client import ClientConfig, create_client
from a2a.client.errors import A2AClientError
from a2a.types import Message, Part, Role, SendMessageRequest, TaskState

from groundbox.errors import InvalidArgument
from groundbox.server.listening import bound, is_loopback

FOLDER = Path(__file__).parents[3] / "examples" / "conversations"
TOKEN = "a-token-of-some-length"
CARD = "/.well-known/agent-card.json"
WAIT = "import subprocess\nsubprocess.Popen(['sleep', '86415'])\nprint('begun', flush=True)\nwhile True: pass"


def recording(path, *programs, answer="Done."):
    """A recording of programs and an answer."""
    header = {"schema": "groundbox.conversation/1", "question": "How many?", "model": "by hand", "files": {}}
    replies = [
        {"event": "replied", "text": "", "calls": [{"name": "run_code", "arguments": {"code": each}, "call_id": "c"}]}
        for each in programs
    ]
    path.write_text("\n".join(map(json.dumps, [header, *replies, {"event": "replied", "text": answer}])))
    return path


def command(*arguments, token=None):
    """The command line and its environment."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GROUNDBOX_A2A")}
    environ.pop("GROUNDBOX_MODEL", None)
    if token is not None:
        environ["GROUNDBOX_A2A_TOKEN"] = token
    return [sys.executable, "-m", "groundbox", "a2a", *map(str, arguments)], {**environ, "COLUMNS": "80"}


class Served:
    """A server that has said where it is asked."""

    def __init__(self, process):
        self.process, self.lines = process, []
        self.url = re.search(r"asked at (\S+),", self.line("asked at"))[1]

    def line(self, words):
        """The next line of its stderr that holds some words."""
        for line in self.process.stderr:
            self.lines.append(line)
            if words in line:
                return line
        raise AssertionError("".join(self.lines))

    def end(self, number=signal.SIGINT):
        """Its exit status, after a signal."""
        self.process.send_signal(number)
        return self.ended()

    def ended(self):
        """Its exit status, when it has ended and all of its lines are read."""
        self.lines += self.process.stderr
        return self.process.wait()


@contextlib.contextmanager
def served(*arguments, token=None, prefix=()):
    """A server on a free port."""
    words, environ = command("--port", 0, *arguments, token=token)
    with subprocess.Popen([*prefix, *words], stderr=subprocess.PIPE, text=True, env=environ) as process:
        try:
            yield Served(process)
        finally:
            process.kill()


async def answers(url, question, *, token=None):
    """All events of one question."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    message = Message(message_id="m", role=Role.ROLE_USER, parts=[Part(text=question)])
    async with (
        httpx.AsyncClient(headers=headers, timeout=120) as http,
        await create_client(url, ClientConfig(httpx_client=http)) as client,
    ):
        return [event async for event in client.send_message(SendMessageRequest(message=message))]


def asked(url, question, **options):
    return asyncio.run(answers(url, question, **options))


def state(event):
    return event.status_update.status.state


def test_a_question_is_answered_over_http_and_the_server_ends_tidily():
    with served("--replay", FOLDER / "mended_error.jsonl", "--name", "sales desk") as server:
        card = httpx.get(server.url + CARD[1:]).json()
        events = [asked(server.url, "Which region sells best?") for _ in range(2)]
        code = server.end()

    assert (card["name"], card["supportedInterfaces"][0]["url"]) == ("sales desk", server.url)
    for first, *updates, artifact, last in events:
        assert first.task.status.state == TaskState.TASK_STATE_SUBMITTED
        assert any("failed; retry" in part.text for each in updates for part in each.status_update.status.message.parts)
        assert artifact.artifact_update.artifact.parts[0].text.startswith("South had the highest revenue in 2025")
        assert state(last) == TaskState.TASK_STATE_COMPLETED
    assert code == 0
    assert server.lines[1] == (
        "groundbox: every user of this machine may ask; GROUNDBOX_A2A_TOKEN would ask for a token\n"
    )
    assert sum(": answered after " in line for line in server.lines) == 2
    assert server.lines[-1] == "groundbox: ended\n"


def test_the_request_of_the_documentation_is_answered():
    page = (FOLDER.parents[1] / "docs" / "agent.md").read_text(encoding="utf-8")
    body = re.search(r"-d '\n(.*?)'\n", page, re.DOTALL)[1]

    with served("--replay", FOLDER / "mended_error.jsonl") as server:
        headers = {"Content-Type": "application/json", "A2A-Version": "1.0"}
        answer = httpx.post(server.url, content=body, headers=headers, timeout=120).json()

    parts = answer["result"]["task"]["artifacts"][0]["parts"]
    assert parts[0]["text"].startswith("South had the highest revenue in 2025")
    assert parts[1]["data"]["unsupported"] == []


def test_questions_at_once_are_each_answered_from_the_beginning_of_the_recording(tmp_path):
    file = recording(tmp_path / "r.jsonl", "print(6 * 7)", "print(6 * 8)")

    async def work(url):
        return await asyncio.gather(*(answers(url, "How many?") for _ in range(3)))

    with served("--replay", file) as server:
        told = asyncio.run(work(server.url))

    assert [state(events[-1]) for events in told] == [TaskState.TASK_STATE_COMPLETED] * 3


def test_with_a_token_only_those_who_send_it_are_answered(tmp_path):
    file = recording(tmp_path / "r.jsonl")

    with served("--replay", file, token=TOKEN) as server:
        with pytest.raises(A2AClientError, match="401"):
            asked(server.url, "What?")
        refused = httpx.post(server.url, json={}, headers={"Authorization": "Bearer another-token-of-some"})
        events = asked(server.url, "What?", token=TOKEN)
        server.end()

    assert refused.status_code == 401
    assert "Authorization: Bearer TOKEN" in refused.text
    assert state(events[-1]) == TaskState.TASK_STATE_COMPLETED
    assert TOKEN not in "".join(server.lines)
    assert not any("every user of this machine" in line for line in server.lines)


def process_of(marker):
    """A descriptor of a process of the sandbox, which can be read when it has ended."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes() == b"sleep\0" + marker + b"\0":
                return os.pidfd_open(int(path.parent.name))
    return None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_calls_off_what_is_worked_on(tmp_path, number):
    marker = str(86415 + number).encode()
    file = recording(tmp_path / "r.jsonl", "print(1)", WAIT.replace("86415", marker.decode()))
    found = []

    async def work(server):
        asking = asyncio.ensure_future(answers(server.url, "Wait."))
        while not found:
            found.extend(each for each in [process_of(marker)] if each is not None)
            await asyncio.sleep(0.02)
        server.process.send_signal(number)
        return await asking

    with served("--replay", file) as server:
        events = asyncio.run(work(server))
        code = server.ended()

    with os.fdopen(found[0]):
        assert select.select(found, [], [], 30)[0] == found
    assert state(events[-1]) == TaskState.TASK_STATE_CANCELED
    assert code == 0
    assert server.lines[-1] == "groundbox: ended\n"
    assert "Traceback" not in "".join(server.lines)


def test_a_server_that_was_started_to_outlive_its_terminal_does(tmp_path):
    with served("--replay", recording(tmp_path / "r.jsonl"), prefix=["nohup"]) as server:
        server.process.send_signal(signal.SIGHUP)
        events = asked(server.url, "What?")
        code = server.end()

    assert state(events[-1]) == TaskState.TASK_STATE_COMPLETED
    assert code == 0


def test_the_log_quotes_nothing_of_requests_that_cannot_be_meant(tmp_path):
    wrong = {"message": {"messageId": "m", "role": "user", "parts": "secret words"}}
    older = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": wrong}
    bodies = [older, {**older, "method": "SendMessage"}, {**older, "method": "secret words"}, {"secret words": 1}]

    with served("--replay", recording(tmp_path / "r.jsonl")) as server:
        codes = [httpx.post(server.url, json=body).json()["error"]["code"] for body in bodies]
        server.end()

    assert codes == [-32602, -32602, -32601, -32600]
    said = [line for line in server.lines if "a2a-sdk: " in line]
    assert [line.partition(" (")[0] for line in said] == [
        "groundbox: a2a-sdk: Failed to parse request params",
        "groundbox: a2a-sdk: Failed to validate base JSON-RPC request",
    ]
    assert "secret" not in "".join(server.lines)
    assert "Traceback" not in "".join(server.lines)


def test_limits_are_those_of_the_command_line(tmp_path):
    with served("--replay", recording(tmp_path / "r.jsonl"), "--request-mib", 1) as server:
        answer = httpx.post(server.url, content=bytes(1 << 20) + b"x", headers={"content-type": "application/json"})

    assert (answer.status_code, answer.text) == (413, "a request has at most 1048576 bytes")


def test_more_connections_than_are_taken_are_told_so(tmp_path):
    script = """if True:
        from groundbox.server.listening import bound, serve, url_of
        from groundbox.agent.a2a.service import Service
        from groundbox.agent.a2a.serving import application, card
        from groundbox.agent.grounded import GroundedAgent
        from groundbox.agent.scripted import ScriptedModel
        listening = bound("127.0.0.1", 0, may_be_public=False, secret="A")
        app = application(GroundedAgent(ScriptedModel([])), card(url_of(listening)), service=Service())
        serve(app, listening, max_connections=1, ready=lambda: print(url_of(listening), flush=True))
    """
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        try:
            url = process.stdout.readline().strip()
            port = int(url.rpartition(":")[2].strip("/"))
            alone = httpx.get(url + CARD[1:])
            with socket.create_connection(("127.0.0.1", port)) as held:
                held.sendall(b"GET / HTTP/1.1\r\n")
                beside = httpx.get(url + CARD[1:])
        finally:
            process.terminate()

    assert (alone.status_code, beside.status_code) == (200, 503)


@pytest.mark.parametrize(
    ("arguments", "token", "words"),
    [
        (
            ["--host", "0.0.0.0"],
            None,
            ["'--host': '0.0.0.0' (0.0.0.0) can be reached by others", "GROUNDBOX_A2A_TOKEN"],
        ),
        (["--host", "::"], None, ["'--host': '::' (::) can be reached by others"]),
        (["--host", "0.0.0.0"], TOKEN, ["'--url': is needed: 0.0.0.0 is every address"]),
        (["--host", "192.0.2.7"], TOKEN, ["'--port': 192.0.2.7:0 cannot be listened on"]),
        (["--host", "nowhere.invalid"], None, ["'--host': 'nowhere.invalid' stands for no address"]),
        (["--url", "agents.example"], None, ["'--url': must be an address such as"]),
        ([], "short", ["'GROUNDBOX_A2A_TOKEN': must have at least 16 characters", "openssl rand -hex 32"]),
        (["--port", "70000"], None, ["'--port'"]),
        (["--at-once", "0"], None, ["'--at-once'"]),
        (["--file", "nowhere"], None, ["'--file': 'nowhere' cannot be read"]),
    ],
)
def test_bad_usage_names_the_option_and_serves_nothing(tmp_path, arguments, token, words):
    told, environ = command("--replay", recording(tmp_path / "r.jsonl"), "--port", 0, *arguments, token=token)

    ran = subprocess.run(told, capture_output=True, text=True, env=environ, timeout=60)

    assert ran.returncode == 2
    assert all(each in ran.stderr for each in words)
    assert "short" not in ran.stderr.replace("shorter", "")


def test_without_a_model_it_says_what_to_set():
    told, environ = command()

    ran = subprocess.run(told, capture_output=True, text=True, env=environ, timeout=60)

    assert ran.returncode == 2
    assert "GROUNDBOX_MODEL" in ran.stderr
    assert "OPENAI_API_KEY" in ran.stderr


def test_an_address_that_is_taken_is_told(tmp_path):
    with bound("127.0.0.1", 0, may_be_public=False, secret="A") as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidArgument, match=f"127.0.0.1:{port} cannot be listened on: Address already in use"):
            bound("127.0.0.1", port, may_be_public=False, secret="A")


@pytest.mark.parametrize(
    ("address", "only_here"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("::ffff:0.0.0.0", False),
        ("10.0.0.1", False),
        ("169.254.0.1", False),
        ("fe80::1%lo", False),
    ],
)
def test_which_addresses_only_this_machine_reaches(address, only_here):
    assert is_loopback(address) is only_here
