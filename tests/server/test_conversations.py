"""Questions that a server answers by its model, and who follows them: `/v1/conversations`."""

import json
import time
from typing import Any

import pytest

from tests.server.conftest import serving

HEADER = {"schema": "groundbox.conversation/1", "question": "?", "model": "a script", "files": {}, "databases": []}


def recording(path, *turns, mended=False):
    """A recording in which the model runs these programs and then says the last text.

    With `mended` it says it once more, as it is asked to where a claim of it is not borne out.
    """
    *programs, answer = turns
    lines: list[dict[str, Any]] = [HEADER]
    for number, code in enumerate(programs, 1):
        call = {"id": f"c{number}", "name": "run_code", "arguments": {"code": code, "language": "python"}}
        lines.append({"event": "replied", "turn": number, "text": "", "calls": [call], "cost": {}})
    lines.append({"event": "replied", "turn": len(turns), "text": answer, "calls": [], "cost": {}})
    lines += lines[-1:] if mended else []
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture
def asked(tmp_path):
    """Starts a server that answers by these programs and this text: `asked(*turns)`."""
    started = []

    def start(*turns, **options):
        replay = recording(tmp_path / "recording.jsonl", *turns)
        context = serving(tmp_path / "log", "--replay", replay, *options.get("options", ()))
        started.append(context)
        return context.__enter__()

    yield start
    for context in started:
        context.__exit__(None, None, None)


def events_of(client, conversation_id):
    with client.stream("GET", f"/v1/conversations/{conversation_id}/events") as answer:
        for line in answer.iter_lines():
            if line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))


def until(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def test_a_question_is_answered_by_programs_in_a_sandbox_of_the_key(asked):
    program = "import csv; rows = list(csv.DictReader(open('sales.csv'))); max(int(row['sales']) for row in rows)"
    with asked(program, "The highest sales were 30.").client() as client:
        files = {"sales.csv": "month,sales\n1,20\n2,30\n"}
        made = client.post("/v1/conversations", json={"question": "What was the highest?", "files": files})
        told = list(events_of(client, made.json()["conversation_id"]))
        again = list(events_of(client, made.json()["conversation_id"]))
        whole = client.get(f"/v1/conversations/{made.json()['conversation_id']}").json()
        sandbox = client.get(f"/v1/sandboxes/{made.json()['sandbox_id']}").json()
        executions = client.get(f"/v1/executions?sandbox={made.json()['sandbox_id']}").json()["executions"]

    assert made.status_code == 201
    assert [line["event"] for line in told] == ["replied", "started", "observed", "replied", "ended"]
    assert (told[-1]["ending"], told[-1]["answer"]) == ("answered", "The highest sales were 30.")
    assert told == again == whole["events"]
    assert (whole["over"], whole["answer"]) == (True, "The highest sales were 30.")
    assert sandbox["labels"] == {"conversation": made.json()["conversation_id"]}
    assert [line["execution_id"] for line in executions] == [told[2]["receipt"]["execution_id"]]


def test_it_is_followed_while_it_goes_on_and_called_off(asked):
    with asked("import time; time.sleep(50)", "Done.").client() as client:
        made = client.post("/v1/conversations", json={"question": "?"}).json()
        events = events_of(client, made["conversation_id"])
        first = [next(events)["event"], next(events)["event"]]
        going_on = client.get(f"/v1/conversations/{made['conversation_id']}").json()
        cancelled = client.post(f"/v1/conversations/{made['conversation_id']}/cancel").json()
        rest = list(events)
        once_more = client.post(f"/v1/conversations/{made['conversation_id']}/cancel").json()
        runs = client.get("/v1/engine").json()["runs_running"]

    assert first == ["replied", "started"]
    assert (going_on["over"], going_on["answer"]) == (False, None)
    assert (cancelled, once_more) == ({"cancelled": True}, {"cancelled": False})
    assert [(line["event"], line["why"]) for line in rest] == [("ended", "it was called off")]
    assert runs == 0


def test_it_goes_on_in_a_sandbox_that_is_there_and_ends_with_it(asked):
    with asked("x += 1; x", "import time; time.sleep(50)", "Done.").client() as client:
        sandbox = client.post("/v1/sandboxes", json={}).json()["sandbox_id"]
        client.post(f"/v1/sandboxes/{sandbox}/run", json={"code": "x = 41"})
        made = client.post("/v1/conversations", json={"question": "?", "sandbox_id": sandbox}).json()
        events = events_of(client, made["conversation_id"])
        told = [next(events) for _ in range(5)]
        client.delete(f"/v1/sandboxes/{sandbox}")
        last = list(events)[-1]

    assert told[2]["receipt"]["value"] == {"text/plain": "42"}
    assert told[-1]["event"] == "started"
    assert (last["event"], last["why"]) == ("ended", "it was called off")


def test_without_a_model_and_without_the_scope_questions_are_refused(asked, tmp_path, client):
    none = client.post("/v1/conversations", json={"question": "?"})
    listed = client.get("/v1/conversations").json()
    server = asked("1", "One.", options=("--keys", tmp_path / "keys.db"))
    with server.client() as owner:
        keys = [
            owner.post("/v1/keys", json={"owner": "ada", "scopes": scopes}).json()["key"]
            for scopes in (["run"], ["run", "ask"])
        ]
        made = owner.post("/v1/conversations", json={"question": "?"}).json()
    with server.client(keys[0]) as runs, server.client(keys[1]) as asks:
        forbidden = runs.post("/v1/conversations", json={"question": "?"})
        allowed = asks.post("/v1/conversations", json={"question": "?"})
        of_others = [asks.get(f"/v1/conversations/{made['conversation_id']}{path}") for path in ("", "/events")]
        empty = asks.post("/v1/conversations", json={"question": ""})
        nowhere = asks.post("/v1/conversations", json={"question": "?", "sandbox_id": made["sandbox_id"]})

    assert (none.status_code, none.json()["error"]["code"]) == (409, "no_model")
    assert "--model" in none.json()["message"]
    assert listed == {"model": None, "conversations": []}
    assert (forbidden.status_code, forbidden.json()["error"]["code"]) == (403, "scope_missing")
    assert allowed.status_code == 201
    assert [answer.status_code for answer in of_others] == [404, 404]
    assert (empty.status_code, nowhere.status_code) == (400, 404)


def test_its_runs_are_those_of_the_key_with_its_quotas_and_audit(asked, tmp_path):
    options = ("--keys", tmp_path / "keys.db", "--audit", tmp_path / "audit.jsonl")
    server = asked("open('a.txt', 'w').write('x')", "open('b.txt', 'w').write('x')", "Done.", options=options)
    with server.client() as owner:
        quotas = {"runs_a_minute": 1}
        key = owner.post("/v1/keys", json={"owner": "ada", "scopes": ["run", "ask"], "quotas": quotas}).json()
    with server.client(key["key"]) as client:
        made = client.post("/v1/conversations", json={"question": "?"}).json()
        last = list(events_of(client, made["conversation_id"]))[-1]
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]

    assert (last["ending"], "runs a minute" in last["why"] or "runs_a_minute" in last["why"]) == ("sandbox", True)
    assert [(line["wire"], line["owner"]) for line in lines if line.get("outcome") == "ok"] == [("conversation", "ada")]


@pytest.mark.parametrize("files", [{"../a": "x"}, {"a": {"base64": "no base64!"}}])
def test_a_question_whose_files_are_refused_leaves_no_sandbox(asked, files):
    with asked("1", "One.").client() as client:
        refused = client.post("/v1/conversations", json={"question": "?", "files": files})
        left = client.get("/v1/sandboxes").json()["sandboxes"]

    assert 400 <= refused.status_code < 500
    assert left == []
