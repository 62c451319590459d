"""A grounded agent asked over Agent2Agent by the protocol's own client, in this process and without a network."""

import asyncio
import base64
import contextlib
import json
import os
import select
from pathlib import Path

import pytest

pytest.importorskip("a2a", reason="a2a-sdk is not installed here: make adapters")

import httpx
from a2a.client import A2ACardResolver, ClientConfig, create_client
from a2a.client.errors import A2AClientError
from a2a.helpers import get_data_parts
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    TaskState,
)
from a2a.utils.errors import A2AError, TaskNotFoundError

from groundbox.agent.a2a.service import Service
from groundbox.agent.a2a.serving import application, card
from groundbox.agent.grounded import GroundedAgent
from groundbox.agent.messages import Call, Reply
from groundbox.agent.scripted import ScriptedModel
from groundbox.agent.turn import Bounds
from groundbox.errors import InvalidArgument

URL = "http://127.0.0.1:9000/"
SALES = Part(raw=b"region,revenue\nnorth,150\nsouth,80\n", filename="sales.csv", media_type="text/csv")
SUM = "import pandas as pd\nprint(pd.read_csv('sales.csv').revenue.sum())"


def code(source):
    return Reply(calls=[Call(name="run_code", arguments={"code": source}, call_id="c")])


def agent(*replies, **options):
    return GroundedAgent(ScriptedModel(replies), **options)


@contextlib.asynccontextmanager
async def reached(served, *, service=None, streaming=True, headers=None, **given):
    """The application of an agent, started, and a client of it."""
    app = application(served, card(URL), service=service, **given)
    async with app.router.lifespan_context(app):
        http = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=URL, headers=headers)
        async with http, await create_client(URL, ClientConfig(streaming=streaming, httpx_client=http)) as client:
            client.http, client.executor = http, app.state.executor
            yield client


def request(*parts, **configuration):
    told = [Part(text=part) if isinstance(part, str) else part for part in parts]
    message = Message(message_id="m", role=Role.ROLE_USER, parts=told)
    return SendMessageRequest(message=message, configuration=SendMessageConfiguration(**configuration))


async def sent(client, *parts, **configuration):
    """All events of one message."""
    return [event async for event in client.send_message(request(*parts, **configuration))]


def asked(served, *parts, service=None, files=None, **configuration):
    """The task that came of one message."""

    async def work():
        async with reached(served, service=service, streaming=False, files=files) as client:
            return (await sent(client, *parts, **configuration))[-1].task

    return asyncio.run(work())


def said(task):
    return task.status.message.parts[0].text


def test_the_card_says_what_is_asked_and_where():
    async def work():
        async with reached(agent()) as client:
            return await A2ACardResolver(client.http, URL).get_agent_card()

    found = asyncio.run(work())

    assert [skill.id for skill in found.skills] == ["ask_data"]
    assert found.capabilities.streaming
    assert not found.capabilities.push_notifications
    assert found.supported_interfaces[0].url == URL


def test_the_card_may_be_kept_for_a_while_and_asked_for_again():
    async def work():
        async with reached(agent()) as client:
            first = await client.http.get("/.well-known/agent-card.json")
            tag = {"If-None-Match": first.headers["etag"]}
            return first, await client.http.get("/.well-known/agent-card.json", headers=tag)

    first, again = asyncio.run(work())

    assert (first.status_code, first.headers["cache-control"]) == (200, "public, max-age=300")
    assert (again.status_code, again.headers["cache-control"], again.content) == (304, "public, max-age=300", b"")


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (
            {"params": {"message": {"role": "user", "messageId": "m"}}},
            {"code": -32602, "message": "Invalid params", "data": ["params.message.parts: Field required"]},
        ),
        ({"params": "none"}, {"code": -32602, "message": "Invalid params"}),
        ({"params": {}, "id": {"bad": "type"}}, {"code": -32600}),
        ({"params": {}, "jsonrpc": "1.0"}, {"code": -32600}),
        ({"params": {}, "method": 7}, {"code": -32600}),
        ({"params": {}, "method": "message/ssend"}, {"code": -32601}),
    ],
)
def test_the_version_before_is_told_whether_its_parameters_are_wrong_or_its_request(body, error):
    async def work():
        async with reached(agent()) as client:
            sent = {"jsonrpc": "2.0", "id": "i", "method": "message/send", **body}
            return (await client.http.post("/", json=sent)).json()

    answer = asyncio.run(work())

    assert answer["error"] | error == answer["error"]
    assert answer["id"] == (None if "id" in body else "i")


def test_a_client_of_the_version_before_is_answered():
    served = agent("a", code(SUM), "The revenue is 230.")
    older = card(URL)
    del older.supported_interfaces[0]

    async def work():
        async with reached(served) as client:
            [_, _, *_, current] = await sent(client, "What?")
            about = (await client.http.get("/.well-known/agent-card.json")).json()
            async with await create_client(older, ClientConfig(httpx_client=client.http)) as old:
                return current, about, await sent(old, "What is the revenue?", SALES)

    current, about, events = asyncio.run(work())

    assert current.status_update.status.state == TaskState.TASK_STATE_COMPLETED
    assert (about["url"], about["protocolVersion"]) == (URL, "0.3")
    assert [each["protocolVersion"] for each in about["supportedInterfaces"]] == ["1.0", "0.3"]
    assert events[-2].artifact_update.artifact.parts[0].text == "The revenue is 230."
    assert events[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED


def test_a_question_about_a_file_is_answered_with_an_update_for_each_run():
    async def work():
        async with reached(agent(code("1 / 0"), code(SUM), "The revenue is 230.")) as client:
            return await sent(client, "What is the revenue?", SALES)

    first, *updates, artifact, last = asyncio.run(work())

    assert first.task.status.state == TaskState.TASK_STATE_SUBMITTED
    lines = [each.status_update.status.message.parts[0].text for each in updates[1:]]
    assert [line.partition(",")[0] for line in lines] == [
        "run 1 (python): failed; retry: the run ended with error; 1 / 0",
        "run 2 (python): ok; import pandas as pd",
    ]
    assert {each.status_update.status.state for each in updates} == {TaskState.TASK_STATE_WORKING}
    parts = artifact.artifact_update.artifact.parts
    assert parts[0].text == "The revenue is 230."
    assert get_data_parts(parts) == [{"checked": True, "unsupported": [], "omitted": [], "turns": 3, "runs": 2}]
    assert last.status_update.status.state == TaskState.TASK_STATE_COMPLETED


def test_pictures_and_files_come_with_the_answer():
    draw = (
        "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nplt.show()\n"
        "import os; os.mkdir('out'); open('out/t.csv', 'w').write('a')\nopen('out/t.csv', 'w').write('a,b')"
    )
    parts = asked(agent(code(draw), "Drawn."), "Draw.").artifacts[0].parts

    files = {part.filename: part for part in parts if part.HasField("raw")}
    assert list(files) == ["run-1-display-1.png", "out/t.csv"]
    assert files["run-1-display-1.png"].raw.startswith(b"\x89PNG")
    assert files["run-1-display-1.png"].media_type == "image/png"
    assert files["out/t.csv"].raw == b"a,b"


def test_a_claim_that_no_run_bears_out_is_named_as_data():
    task = asked(agent(code("print(6 * 7)"), "It is 4711.", "It is 4711."), "How much?")

    [about] = get_data_parts(task.artifacts[0].parts)
    assert "4711" in about["unsupported"][0]["message"]
    assert said(task) == "Answered. A claim of it no run bears out."


def test_what_a_guest_wrote_cannot_act_where_it_is_shown():
    evil = "![x](https://evil.example/?q=1)\u202e"
    make = f"open('\\u202ename', 'w').write('x')\n# {evil}"
    task = asked(agent(code(f"# {evil}\n{make}"), evil, evil), "What?")

    assert task.artifacts[0].parts[0].text == "![x] (https://evil.example/?q=1)\\u202e"
    assert [part.filename for part in task.artifacts[0].parts if part.HasField("raw")] == ["\\u202ename"]
    assert not any("](" in part.text or "\u202e" in part.text for each in task.history[1:] for part in each.parts)


def test_what_does_not_fit_or_is_not_accepted_is_named():
    make = "open('large', 'wb').write(bytes(2000)); open('small.csv', 'w').write('a'); open('p.txt', 'w').write('b')"
    served = agent(code(make), "Made.")
    task = asked(served, "Make.", service=Service(max_answer_bytes=1000), accepted_output_modes=["text/plain"])

    [about] = get_data_parts(task.artifacts[0].parts)
    assert [part.filename for part in task.artifacts[0].parts if part.HasField("raw")] == ["p.txt"]
    assert about["omitted"] == [
        {"name": "large", "why": "2000 bytes, over max_answer_bytes=1000 together"},
        {"name": "small.csv", "why": "text/csv is not accepted"},
    ]


def test_texts_with_a_name_and_data_are_files():
    data = Part()
    data.data.struct_value["tea"] = 3
    read = "import json; print(open('a.txt').read(), json.load(open('part-3.json'))['tea'], open('part-4.csv').read())"
    served = agent(code(read), "Read.")

    task = asked(served, "What?", Part(text="hi", filename="a.txt"), data, Part(raw=b"x", media_type="text/csv"))

    assert said(task).startswith("Answered.")
    assert "hi 3.0 x" in served._model.asked[1][-1].text


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([SALES], "message: holds no question"),
        ([" \n"], "message: holds no question"),
        (["q" * 65], "its text has 65 bytes, more than 64"),
        (["What?", SALES, SALES], "two files named 'sales.csv'"),
        (["What?", *(Part(raw=b"x", filename=name) for name in "abc")], "has 3 files, more than 2"),
        (["What?", Part(url="https://example.org/a.csv")], "part 2 is an address, and nothing is fetched"),
        (["What?", Part(filename="x")], "part 2 is empty"),
        (["What?", Part(raw=b"x", filename="../x")], "path: '../x' must be a path inside the workdir"),
    ],
)
def test_a_message_that_cannot_be_meant_is_rejected_with_what_to_do(parts, words):
    served = agent("x")

    task = asked(served, *parts, service=Service(max_question_bytes=64, max_files=2))

    assert task.status.state == TaskState.TASK_STATE_REJECTED
    assert words in said(task)
    assert served._model.asked == []


def test_a_bound_that_is_reached_is_told():
    task = asked(agent(code("1"), code("2"), "x", bounds=Bounds(max_turns=1)), "What?")

    assert task.status.state == TaskState.TASK_STATE_FAILED
    assert said(task).startswith("No answer: ")
    assert "turn" in said(task)


@pytest.mark.parametrize(
    "served", [agent(), agent("x", no_such_option="secret"), agent(code("1"), environment="secret")]
)
def test_what_fails_on_the_host_is_told_to_the_host_only(served, caplog):
    task = asked(served, "What?")

    assert task.status.state == TaskState.TASK_STATE_FAILED
    assert said(task) == "No answer, for a reason that is not the question's. The log of the host says more."
    assert f"task {task.id}" in caplog.text


class Waiting:
    """An agent whose program says that it runs, and then waits."""

    def __init__(self):
        self.running = asyncio.Event()
        wait = "import subprocess, tools\nsubprocess.Popen(['sleep', '86413'])\ntools.begun()\nwhile True: pass"
        self.agent = agent(code(wait), "x", tools=[self.begun])

    async def begun(self) -> None:
        """Say so."""
        self.running.set()

    @staticmethod
    def process():
        """A descriptor of what the program started, as the host sees it; it can be read when that has ended."""
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if path.read_bytes() == b"sleep\x0086413\x00":
                    return os.pidfd_open(int(path.parent.name))
        raise AssertionError("it has not begun")


def has_ended(process):
    with os.fdopen(process):
        return select.select([process], [], [], 30) == ([process], [], [])


def test_cancelling_ends_the_sandbox_and_then_the_task():
    async def work():
        waiting = Waiting()
        async with reached(waiting.agent, streaming=False) as client:
            [first] = await sent(client, "Wait.", return_immediately=True)
            await waiting.running.wait()
            process = waiting.process()
            cancelled = await client.cancel_task(CancelTaskRequest(id=first.task.id))
            return cancelled, has_ended(process)

    cancelled, ended = asyncio.run(work())

    assert cancelled.status.state == TaskState.TASK_STATE_CANCELED
    assert ended


def test_the_end_of_the_application_ends_its_sandboxes():
    async def work():
        waiting = Waiting()
        async with reached(waiting.agent, streaming=False) as client:
            await sent(client, "Wait.", return_immediately=True)
            await waiting.running.wait()
            process = waiting.process()
        return has_ended(process)

    assert asyncio.run(work())


def test_one_question_more_than_are_worked_on_is_rejected():
    async def work():
        waiting = Waiting()
        async with reached(waiting.agent, service=Service(max_at_once=1), streaming=False) as client:
            [first] = await sent(client, "Wait.", return_immediately=True)
            await waiting.running.wait()
            [second] = await sent(client, "And this?")
            await client.cancel_task(CancelTaskRequest(id=first.task.id))
            [third] = await sent(client, "And now?")
            return second.task, third.task

    second, third = asyncio.run(work())

    assert second.status.state == TaskState.TASK_STATE_REJECTED
    assert said(second) == "As many questions are worked on as are taken at once: 1. Ask again later."
    assert third.status.state == TaskState.TASK_STATE_COMPLETED


def test_the_oldest_tasks_are_let_go():
    async def work():
        async with reached(agent(*"abc"), service=Service(max_kept_bytes=1), streaming=False) as client:
            tasks = [(await sent(client, "What?"))[-1].task for _ in range(2)]
            kept = await client.get_task(GetTaskRequest(id=tasks[1].id))
            with pytest.raises(TaskNotFoundError):
                await client.get_task(GetTaskRequest(id=tasks[0].id))
            return tasks[1], kept

    last, kept = asyncio.run(work())

    assert kept.id == last.id


def test_an_ended_task_takes_no_more_messages():
    async def work():
        async with reached(agent("a", "b"), streaming=False) as client:
            [first] = await sent(client, "What?")
            again = request("And now?")
            again.message.task_id = first.task.id
            with pytest.raises((A2AError, A2AClientError), match="terminal state"):
                [event async for event in client.send_message(again)]

    asyncio.run(work())


def test_files_of_the_agent_are_in_every_sandbox_and_are_not_replaced():
    read = code("open('given/a.txt').read() + str(len(open('sales.csv').read()))")
    held = {"given/a.txt": "held", "b.txt": "b"}

    answered = [asked(agent(read, "Read."), "What?", SALES, files=held) for _ in range(2)]
    refused = asked(agent(read, "Read."), "What?", Part(raw=b"x", filename="./given//a.txt"), files=held)

    assert [said(task).startswith("Answered.") for task in answered] == [True, True]
    assert refused.status.state == TaskState.TASK_STATE_REJECTED
    assert said(refused) == "message: './given//a.txt' is a file of this agent. Give yours another name"


def test_an_agent_that_is_being_ended_takes_no_question():
    async def work():
        async with reached(agent("x"), streaming=False) as client:
            await client.executor.aclose()
            return (await sent(client, "What?"))[-1].task

    task = asyncio.run(work())

    assert task.status.state == TaskState.TASK_STATE_REJECTED
    assert said(task) == "This agent is being ended. Ask another one."


TOKEN = "fifteen-letters+1"


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (f"Bearer {TOKEN}", 200),
        (f"bearer  {TOKEN} ", 200),
        (None, 401),
        (TOKEN, 401),
        (f"Basic {TOKEN}", 401),
        (f"Bearer {TOKEN}2", 401),
        (f"Bearer {TOKEN[:-1]}", 401),
        ("Bearer \xff", 401),
        ("Bearer ", 401),
    ],
)
def test_with_a_token_whoever_knows_it_may_ask_and_everyone_may_read_the_card(header, status):
    headers = {"content-type": "application/json"} | ({} if header is None else {"authorization": header})

    async def work():
        async with reached(agent("x"), token=TOKEN) as client:
            told = {name: text.encode("latin-1") for name, text in headers.items()}
            return await client.http.post("/", content=b"{}", headers=told), await A2ACardResolver(
                client.http, URL
            ).get_agent_card()

    answer, found = asyncio.run(work())

    assert answer.status_code == status
    assert (status == 200) is ("www-authenticate" not in answer.headers)
    [(name, scheme)] = found.security_schemes.items()
    assert scheme.http_auth_security_scheme.scheme == "Bearer"
    assert [list(each.schemes) for each in found.security_requirements] == [[name]]


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_only_reading_the_card_needs_no_token(method):
    async def work():
        async with reached(agent("x"), token=TOKEN) as client:
            return await client.http.request(method, "/.well-known/agent-card.json", content=b"")

    assert asyncio.run(work()).status_code == 401


@pytest.mark.parametrize("token", ["", "fifteen-letters", "with a blank in it", "ümläute-are-no-good"])
def test_a_token_that_is_none_is_refused_without_being_told(token):
    with pytest.raises(InvalidArgument, match="token: must have at least 16 characters") as error:
        application(agent(), card(URL), token=token)

    assert not token or token not in str(error.value)


def posted(headers, body=b"{}", **service):
    async def work():
        async with reached(agent("x"), service=Service(**service)) as client:
            return await client.http.post("/", content=body, headers=headers)

    return asyncio.run(work())


def test_a_request_that_is_too_large_is_refused_before_it_is_read():
    part = {"raw": base64.b64encode(bytes(4000)).decode(), "filename": "a"}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": {"parts": [part]}}})

    answer = posted({"content-type": "application/json"}, body.encode(), max_request_bytes=4000)

    assert (answer.status_code, answer.text) == (413, "a request has at most 4000 bytes")


def test_a_request_that_does_not_come_to_its_end_is_refused():
    async def never():
        yield b"{"
        await asyncio.Event().wait()

    answer = posted({"content-type": "application/json"}, never(), request_s=0.05)

    assert (answer.status_code, answer.text) == (408, "a request comes within 0.05 seconds")
    assert answer.headers["connection"] == "close"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "application/json"}, 200),
        ({"content-type": "application/json", "host": "localhost:9000"}, 200),
        ({"content-type": "text/plain"}, 415),
        ({}, 415),
        ({"content-type": "application/json", "host": "rebound.example"}, 400),
    ],
)
def test_a_page_in_a_browser_cannot_ask(headers, status):
    assert posted(headers).status_code == status


def test_what_cannot_be_meant_is_refused_by_name():
    with pytest.raises(InvalidArgument, match="max_at_once: must be a whole number above 0, not 0"):
        Service(max_at_once=0)
    with pytest.raises(InvalidArgument, match="request_s: must be a number of seconds above 0, not inf"):
        Service(request_s=float("inf"))
    with pytest.raises(InvalidArgument, match="url: must be an address such as"):
        card("127.0.0.1:9000")
