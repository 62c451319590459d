"""The native interface as clients of HTTP see it, on a real server."""

import base64
import json
import threading
import time

import pytest

import groundbox as gb
from groundbox.server import api


def events_of(client, path, **body):
    """Kinds and data of a stream's events."""
    with client.stream("POST", path, json={"stream": True, **body}) as answer:
        assert answer.status_code == 200, answer.read()
        text = "".join(answer.iter_text())
    blocks = [block.split("\n") for block in text.split("\n\n") if block and not block.startswith(":")]
    return [(kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for kind, data in blocks]


def test_a_run_answers_with_the_json_of_an_execution(client):
    answer = client.post("/v1/run", json={"code": "print(6 * 7)\n'done'"})

    execution = answer.json()
    assert answer.status_code == 200
    assert (execution["outcome"], execution["stdout"], execution["value"]) == ("ok", "42\n", {"text/plain": "'done'"})
    assert execution["usage"]["queue_s"] >= 0


def test_a_program_that_fails_is_a_result_and_no_refusal(client):
    answer = client.post("/v1/run", json={"code": "1 / 0"})

    assert answer.status_code == 200
    assert (answer.json()["outcome"], answer.json()["error"]["type"]) == ("error", "ZeroDivisionError")


@pytest.mark.parametrize(
    ("body", "status", "code", "words"),
    [
        ({}, 400, "invalid_argument", "missing required field `code`"),
        ({"code": 1}, 400, "invalid_argument", "Expected `str`"),
        ({"code": "1", "langage": "sql"}, 400, "invalid_argument", "unknown field `langage`"),
        ({"code": "1", "language": "cobol"}, 400, "invalid_argument", "cobol"),
        ({"code": "1", "limits": {"wall_s": 1e9}}, 400, "invalid_argument", "limits.wall_s: may be at most 3600"),
        ({"code": "1", "limits": {"memory_bytes": -1}}, 400, "invalid_argument", "memory_bytes"),
        ({"code": "1", "network": {"allow": ["127.0.0.1"]}}, 400, "invalid_argument", "allow"),
        ({"code": "1", "files": {"../x": ""}}, 400, "invalid_argument", "../x"),
        ({"code": "1", "files": {"x": {"base64": "%"}}}, 400, "invalid_argument", "x: is no base64"),
        ({"code": "1", "environment": "no-such"}, 400, "environment_failed", "no-such"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(client, body, status, code, words):
    answer = client.post("/v1/run", json=body)

    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert words in answer.json()["error"]["message"]


@pytest.mark.parametrize("body", [b"{", b"\xff", b"[" * 100_000, b'{"code": ' + b"[" * 5000, b"null", b'"x"'])
def test_a_body_that_is_no_request_is_refused(client, body):
    answer = client.post("/v1/run", content=body)

    assert answer.status_code == 400
    assert answer.json()["error"]["code"] in ("bad_json", "invalid_argument")


def test_files_go_in_and_come_out_with_the_reply(client):
    program = "open('out.bin', 'wb').write(open('in.bin', 'rb').read()[::-1])"
    files = {"in.bin": {"base64": base64.b64encode(b"\x00\x01\xff").decode()}}

    execution = client.post("/v1/run", json={"code": program, "files": files, "artifacts": "bytes"}).json()

    assert [(each["path"], base64.b64decode(each["base64"])) for each in execution["artifacts"]] == [
        ("out.bin", b"\xff\x01\x00")
    ]


def test_variables_reach_every_program_and_neither_a_reply_nor_the_audit_log(client, server):
    secret = "value-that-is-nobodys-business"
    code = "import os; len(os.environ['TOKEN'])"

    alone = client.post("/v1/run", json={"code": code, "env": {"TOKEN": secret}})
    made = client.post("/v1/sandboxes", json={"env": {"TOKEN": secret}})
    path = f"/v1/sandboxes/{made.json()['sandbox_id']}"
    first = client.post(f"{path}/run", json={"code": code})
    shell = client.post(f"{path}/run", json={"code": "echo ${#TOKEN}", "language": "shell"})
    refused = client.post("/v1/sandboxes", json={"env": {"1A": secret}})
    client.delete(path)

    assert alone.json()["value"] == first.json()["value"] == {"text/plain": str(len(secret))}
    assert shell.json()["stdout"] == f"{len(secret)}\n"
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_argument")
    written = (server.folder / "audit.jsonl").read_text() + server.stderr()
    assert secret not in "".join(each.text for each in (alone, made, first, shell, refused)) + written


def test_previews_that_do_not_fit_into_a_reply_are_told(monkeypatch):
    program = (
        "import matplotlib.pyplot as plt\nfigure = plt.figure(figsize=(20, 10))\n"
        "figure.savefig('chart.pdf')\nplt.show()"
    )
    execution = gb.run(program)
    told = execution.to_dict()
    fits = len(execution.artifacts["chart.pdf"].preview)
    monkeypatch.setattr(api, "_MOST_INLINE_BYTES", fits)

    api._inline(told, execution)

    assert base64.b64decode(told["artifacts"][0]["preview"]["base64"]) == execution.artifacts["chart.pdf"].preview
    assert told["display_previews"] == {}
    (message,) = (each["message"] for each in told["warnings"] if each["code"] == "artifact.unseen")
    assert message == f"previews left out of this reply, as all together are over {fits} bytes: 1"


def test_files_of_a_run_can_be_asked_for_after_it(client):
    execution = client.post("/v1/run", json={"code": "open('a b.txt', 'w').write('x' * 10)"}).json()

    answer = client.get(f"/v1/executions/{execution['execution_id']}/artifacts/a b.txt")

    assert answer.content == b"x" * 10
    assert answer.headers["content-disposition"] == "attachment"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]


def test_a_stream_tells_output_as_it_comes_and_ends_with_the_execution(client):
    program = "import time\nfor i in range(3):\n    print(i, flush=True)\n    time.sleep(0.05)"

    events = events_of(client, "/v1/run", code=program)

    assert [kind for kind, _ in events] == ["stdout", "stdout", "stdout", "end"]
    assert events[-1][1]["execution"]["stdout"] == "0\n1\n2\n"


def test_a_stream_of_what_cannot_be_run_is_refused_by_its_status(client):
    answer = client.post("/v1/run", json={"code": "1", "language": "cobol", "stream": True})

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_argument")


def test_a_sandbox_keeps_variables_and_files(client, sandbox):
    client.post(f"{sandbox}/run", json={"code": "x = 41\nopen('kept.txt', 'w').write('here')"})

    execution = client.post(f"{sandbox}/run", json={"code": "x + 1"}).json()

    assert execution["value"] == {"text/plain": "42"}
    assert client.get(f"{sandbox}/files").json() == {"files": {"kept.txt": 4}}


def test_a_sandbox_tells_what_it_holds_once_it_has_a_process(client, sandbox):
    before = client.get(sandbox).json()["load"]
    client.post(f"{sandbox}/run", json={"code": "x = bytearray(30_000_000)"})
    load = client.get(sandbox).json()["load"]

    assert before is None
    if load is None:
        pytest.skip("the kernel counts no groups of processes here")
    assert load["memory_bytes"] > 30_000_000
    assert load["cpu_s"] > 0
    assert load["process_count"] >= 1


def test_a_kept_execution_tells_its_program(client, sandbox):
    source = "x = 1\n" + "# long\n" * 100
    execution = client.post(f"{sandbox}/run", json={"code": source}).json()

    kept = client.get(f"/v1/executions/{execution['execution_id']}").json()
    listed = client.get("/v1/executions", params={"sandbox": kept["sandbox_id"]}).json()["executions"]

    assert kept["source"] == source
    assert [each["source_head"] for each in listed] == [source[:200]]


def test_files_of_a_sandbox_are_written_read_and_removed(client, sandbox):
    client.put(f"{sandbox}/files/data/x.bin", content=b"\x00\xff")
    read = client.get(f"{sandbox}/files/data/x.bin").content
    client.delete(f"{sandbox}/files/data/x.bin")
    gone = client.get(f"{sandbox}/files/data/x.bin")

    assert read == b"\x00\xff"
    assert (gone.status_code, gone.json()["error"]["code"]) == (404, "file_error")


def test_a_run_is_interrupted_and_its_variables_stay(client, server, sandbox):
    def interrupt():
        time.sleep(0.5)
        with server.client() as other:
            other.post(f"{sandbox}/interrupt")

    client.post(f"{sandbox}/run", json={"code": "x = 1"})
    threading.Thread(target=interrupt).start()
    stopped = client.post(f"{sandbox}/run", json={"code": "while True: pass"}).json()
    after = client.post(f"{sandbox}/run", json={"code": "x"}).json()

    assert stopped["error"]["type"] == "KeyboardInterrupt"
    assert after["value"] == {"text/plain": "1"}


def test_a_run_is_called_off_and_the_sandbox_goes_on_after_a_restart(client, server, sandbox):
    def cancel():
        time.sleep(0.5)
        with server.client() as other:
            other.post(f"{sandbox}/cancel")

    client.post(f"{sandbox}/run", json={"code": "open('x', 'w').write('1')"})
    threading.Thread(target=cancel).start()
    stopped = client.post(f"{sandbox}/run", json={"code": "while True: pass"})
    lost = client.post(f"{sandbox}/run", json={"code": "1"})
    client.post(f"{sandbox}/restart")
    after = client.post(f"{sandbox}/run", json={"code": "open('x').read()"}).json()

    assert (stopped.status_code, stopped.json()["error"]["code"]) == (409, "cancelled")
    assert (lost.status_code, lost.json()["error"]["code"]) == (409, "sandbox_lost")
    assert after["value"] == {"text/plain": "'1'"}


def test_a_stream_is_called_off_too(client, server, sandbox):
    def cancel():
        time.sleep(0.5)
        with server.client() as other:
            assert other.post(f"{sandbox}/cancel").json() == {"cancelled": 1}

    threading.Thread(target=cancel).start()
    events = events_of(client, f"{sandbox}/run", code="print(1, flush=True)\nwhile True: pass")

    assert [kind for kind, _ in events] == ["stdout", "failed"]
    assert events[1][1]["error"]["code"] == "cancelled"


def test_a_client_that_goes_away_frees_its_run_within_a_second(client, server):
    mark = "import time\ntime.sleep(86421)"
    with server.client() as leaving, pytest.raises(Exception, match="timed out"):
        leaving.post("/v1/run", json={"code": mark, "limits": {"wall_s": 60}}, timeout=0.5)
    deadline = time.monotonic() + 1
    while running(client) and time.monotonic() < deadline:
        time.sleep(0.05)

    assert running(client) == 0


def test_sandboxes_are_listed_and_closed_by_label(client):
    for name in ("a", "a", "b"):
        client.post("/v1/sandboxes", json={"labels": {"job": name, "of": "label-test"}})

    of_a = client.get("/v1/sandboxes", params={"label": ["job=a", "of=label-test"]}).json()["sandboxes"]
    closed = client.delete("/v1/sandboxes", params={"label": "job=a"}).json()["closed"]
    left = client.get("/v1/sandboxes", params={"label": "of=label-test"}).json()["sandboxes"]
    client.delete("/v1/sandboxes", params={"label": "of=label-test"})

    assert sorted(each["sandbox_id"] for each in of_a) == sorted(closed)
    assert [each["labels"]["job"] for each in left] == ["b"]


def test_closing_without_a_label_closes_nothing(client, sandbox):
    answer = client.delete("/v1/sandboxes")

    assert answer.status_code == 400
    assert client.get(sandbox).status_code == 200


def test_an_idle_sandbox_is_closed(client):
    made = client.post("/v1/sandboxes", json={"idle_s": 0.5}).json()

    time.sleep(2.5)

    assert client.get(f"/v1/sandboxes/{made['sandbox_id']}").status_code == 404


def test_a_repeated_request_with_its_key_runs_once(client, sandbox):
    headers = {"Idempotency-Key": "the-first"}
    body = {"code": "n = globals().get('n', 0) + 1\nn"}

    first = client.post(f"{sandbox}/run", json=body, headers=headers).json()
    second = client.post(f"{sandbox}/run", json=body, headers=headers).json()
    other = client.post(f"{sandbox}/run", json={"code": "n"}, headers=headers)

    assert first == second
    assert first["value"] == {"text/plain": "1"}
    assert (other.status_code, other.json()["error"]["code"]) == (422, "idempotency_key_reused")


def test_a_batch_answers_in_order_and_tells_failures_apart(client):
    programs = [{"code": "print(1)"}, {"code": "1/0"}, {"code": "1", "language": "cobol"}, {"code": "print(2)"}]

    results = client.post("/v1/batch", json={"programs": programs}).json()["results"]

    told = [(each["execution"]["outcome"] if "execution" in each else each["error"]["code"]) for each in results]
    assert told == ["ok", "error", "invalid_argument", "ok"]
    assert results[3]["execution"]["stdout"] == "2\n"


def test_long_output_is_read_by_pages_and_searched(client):
    program = "for i in range(20000): print('line', i)"
    execution = client.post("/v1/run", json={"code": program, "limits": {"output_bytes": 1000}}).json()
    path = f"/v1/executions/{execution['execution_id']}"

    page = client.get(f"{path}/output/stdout", params={"offset": 50000, "size": 20})
    found = client.get(f"{path}/search", params={"text": "line 19999"}).json()["lines"]

    whole = "".join(f"line {i}\n" for i in range(20000))
    assert execution["dropped_bytes"]["stdout"] > 0
    assert page.text == whole[50000:50020]
    assert found == [{"number": 20000, "offset": whole.index("line 19999"), "line": "line 19999"}]


def test_a_trace_is_fetched_after_its_run(client):
    execution = client.post("/v1/run", json={"code": "a = 1\nb = a + 1", "trace": True, "mode": "script"}).json()

    lines = client.get(f"/v1/executions/{execution['execution_id']}/trace").text.splitlines()

    assert execution["trace"]["complete"] is True
    assert json.loads(lines[0])["schema"].startswith("groundbox.trace/")


def test_blanks_come_before_a_late_reply_where_they_are_asked_for(client):
    body = {"code": "import time\ntime.sleep(2.5)\nprint(1)"}

    text = client.post("/v1/run", params={"heartbeat_s": 1}, json=body).text

    assert text.startswith(" ")
    assert json.loads(text)["stdout"] == "1\n"


def running(client):
    """Runs that go on now, by the metrics."""
    lines = client.get("/metrics").text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("groundbox_runs_running "))


def described(client):
    return client.get("/v1/openapi.json").json()


def test_a_method_that_a_path_does_not_have_is_answered_with_those_that_it_has(client):
    methods = {
        "/v1/sandboxes": "DELETE, GET, HEAD, POST",
        "/v1/sandboxes/1/files/a.txt": "DELETE, GET, HEAD, PUT",
        "/v1/sandboxes/1": "DELETE, GET, HEAD",
        "/v1/run": "POST",
        "/v1/keys": "GET, HEAD, POST",
        "/mcp": "DELETE, GET, HEAD, POST",
        "/livez": "GET, HEAD",
    }
    answers = {path: client.request("PATCH", path) for path in methods}

    assert {path: (answer.status_code, answer.headers["allow"]) for path, answer in answers.items()} == {
        path: (405, allowed) for path, allowed in methods.items()
    }


def test_every_method_of_the_openapi_document_is_allowed_and_no_other(client):
    for path, item in described(client)["paths"].items():
        answer = client.request("PATCH", path.replace("{pid}", "1").replace("{", "").replace("}", ""))

        allowed = {*answer.headers["allow"].split(", ")} - {"HEAD"}
        assert (answer.status_code, allowed) == (405, {name.upper() for name in item} - {"PARAMETERS"}), path


def test_an_environment_that_there_is_not_is_refused_before_a_sandbox_is_made(client):
    before = len(client.get("/v1/sandboxes").json()["sandboxes"])

    answer = client.post("/v1/sandboxes", json={"environment": "nothing-of-that-name"})

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "environment_failed")
    assert "nothing-of-that-name" in answer.json()["message"]
    assert len(client.get("/v1/sandboxes").json()["sandboxes"]) == before


def test_the_openapi_document_says_what_is_refused(client):
    document = described(client)
    schemas = document["components"]["schemas"]
    run = schemas["RunAsked"]["properties"]

    def without_maximum(schema, path=""):
        if schema.get("type") == "string" and not {"maxLength", "enum", "contentEncoding"} & schema.keys():
            yield path
        for name, inner in schema.get("properties", {}).items():
            yield from without_maximum(inner, f"{path}.{name}")
        for name in ("anyOf", "oneOf", "prefixItems"):
            for inner in schema.get(name, ()):
                yield from without_maximum(inner, path)
        for name in ("items", "additionalProperties"):
            if isinstance(schema.get(name), dict):
                yield from without_maximum(schema[name], path)

    asked = [name for name in schemas if name.endswith("Asked") or name == "Base64"]
    unbounded = {f"{name}{path}" for name in asked for path in without_maximum(schemas[name])}

    assert unbounded <= {
        "RunAsked.stdin",
        "RunAsked.files",
        "RunInAsked.stdin",
        "PathAsked.data",
        "QuestionAsked.files",
    } | {
        "Base64.base64"  # files, whose bound is that of a body
    }
    assert run["wall_s"]["anyOf"][0]["exclusiveMinimum"] == 0
    assert run["hash_seed"]["anyOf"][0] == {"type": "integer", "minimum": 0, "maximum": 2**32 - 1}


def test_events_of_a_stream_are_as_the_openapi_document_has_them(client):
    document = described(client)
    content = document["paths"]["/v1/run"]["post"]["responses"]["200"]["content"]["text/event-stream"]
    name = content["schema"]["items"]["$ref"].rpartition("/")[2]
    known = {
        each["properties"]["event"]["const"]: each["properties"]["data"]
        for each in document["components"]["schemas"][name]["oneOf"]
    }
    code = "import sys\nprint(1)\nprint(2, file=sys.stderr)\ndisplay({'a': 1})\n3"
    text = client.post("/v1/run", json={"code": code, "stream": True}).text
    events = [part.split("\n", 1) for part in text.split("\n\n") if part.startswith("event: ")]
    sent = [(head.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for head, data in events]

    assert {kind for kind, _ in sent} == {"stdout", "stderr", "display", "end"}
    assert all(set(known[kind]["required"]) <= data.keys() for kind, data in sent)


NAMES = {"a\u202efdp.exe": "a\\u202efdp.exe", "b\x1b[2Jc": "bc", "d\ne": "d\\ne"}


def test_names_of_files_that_do_not_look_like_what_they_are_have_a_form_that_does(server):
    write = f"for name in {[*NAMES, 'plain.txt']!r}: open(name, 'w').write('1')"
    with server.client() as client:
        box = client.post("/v1/sandboxes", json={}).json()["sandbox_id"]
        run = client.post(f"/v1/sandboxes/{box}/run", json={"code": write}).json()
        listed = client.get(f"/v1/sandboxes/{box}/files").json()
        folder = client.post(f"/v1/sandboxes/{box}/guest-files", json={"op": "list", "path": "."}).json()
        records = client.get("/v1/executions", params={"sandbox": box}).json()["executions"]
        client.delete(f"/v1/sandboxes/{box}")

    assert {each["path"]: each["shown"] for each in run["artifacts"] if "shown" in each} == NAMES
    assert len(run["artifacts"]) == len(NAMES) + 1
    assert listed["shown"] == folder["shown"] == records[0]["shown"] == NAMES
