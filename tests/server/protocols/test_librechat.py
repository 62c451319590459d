"""LibreChat's code interpreter over HTTP, in the shapes that its npm client sends and reads."""

import re
import time
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.testclient import TestClient

from groundbox.errors import SandboxUnavailable
from groundbox.protocols import librechat as ours
from groundbox.sandbox.sandbox import AsyncSandbox
from groundbox.server.application import application
from groundbox.server.keeping import Ledger
from groundbox.server.keys import Key, Keys
from groundbox.server.refusals import Refused
from groundbox.server.service import Service
from groundbox.server.settings import Settings

NANOID = re.compile(r"[A-Za-z0-9_-]{21}")
"""Ids that LibreChat downloads by; it refuses all others itself."""


def execute(client, code, lang="py", **body):
    answer = client.post("/exec", json={"lang": lang, "code": code, **body}, headers={"User-Agent": "LibreChat/1.0"})
    assert answer.status_code == 200, answer.text
    return answer.json()


def begin(client, code, *tools, **body):
    """The first reply to a program that calls tools."""
    told = [{"name": name, "description": "", "parameters": {"type": "object", "properties": {}}} for name in tools]
    answer = client.post("/exec/programmatic", json={"code": code, "tools": told, **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


def go_on(client, reply, *results):
    """The next reply, after the results of all calls in their order."""
    given = [
        {"call_id": call["id"], "is_error": False, **(result if isinstance(result, dict) else {"result": result})}
        for call, result in zip(reply["tool_calls"], results, strict=True)
    ]
    return client.post(
        "/exec/programmatic", json={"continuation_token": reply["continuation_token"], "tool_results": given}
    )


def inputs(reply):
    return sorted((call["name"], *call["input"].items()) for call in reply["tool_calls"])


# Programs


def test_a_program_is_run_and_its_files_are_downloaded(client):
    reply = execute(client, "import sys\nopen('a b.csv', 'w').write('1')\nprint('out', sys.argv[1:])", args=["x"])

    (file,) = reply.pop("files")
    data = client.get(f"/download/{reply['session_id']}/{file['id']}")
    assert (reply["stdout"], reply["stderr"]) == ("out ['x']\n", "")
    assert NANOID.fullmatch(reply["session_id"])
    assert NANOID.fullmatch(file["id"])
    assert (file["name"], file["storage_session_id"]) == ("a b.csv", reply["session_id"])
    assert (data.content, data.headers["content-disposition"]) == (b"1", "attachment")


@pytest.mark.parametrize(
    ("lang", "code", "stderr"),
    [
        ("py", "1 / 0", "ZeroDivisionError: division by zero\n"),
        ("bash", "echo no >&2; exit 3", "no\n"),
        ("f90", "end", "groundbox: there is no language 'f90' on this server; it has py, js, bash\n"),
        ("py", "import os; os.kill(os.getpid(), 11)", "groundbox: SIGSEGV ended the program; native code crashed\n"),
    ],
)
def test_a_program_that_fails_says_why_on_stderr(client, lang, code, stderr):
    reply = execute(client, code, lang)

    assert reply["stdout"] == ""
    assert reply["stderr"].endswith(stderr)


def test_uploads_are_found_by_the_programs_that_name_them(client):
    upload = client.post(
        "/upload", files={"file": ("data.csv", b"1,2")}, data={"entity_id": "agent_1"}, headers={"User-Id": "u"}
    ).json()
    (file,) = upload["files"]
    named = {"id": file["fileId"], "session_id": upload["session_id"], "name": "data.csv"}

    reply = execute(client, "print(open('/mnt/data/data.csv').read())", files=[named])

    assert (upload["message"], file["filename"], reply["stdout"]) == ("success", "data.csv", "1,2\n")


def test_a_session_keeps_its_files_and_a_new_version_takes_the_place_of_the_old(client):
    first = execute(client, "open('n', 'w').write('1')\nopen('same', 'w').write('')")
    code = "n = int(open('n').read())\nopen('n', 'w').write(str(n + 1))\nprint(n)"

    second = execute(client, code, session_id=first["session_id"])
    third = execute(client, code, session_id=first["session_id"], files=None)

    assert (second["session_id"], second["stdout"], third["stdout"]) == (first["session_id"], "1\n", "2\n")
    assert [each["name"] for each in second["files"]] == ["n"]
    listed = client.get(f"/files/{first['session_id']}", params={"detail": "summary"}).json()
    assert sorted(each["metadata"]["original-filename"] for each in listed) == ["n", "same"]


def test_files_are_listed_as_older_versions_read_them(client):
    made = execute(client, "open('x.csv', 'w').write('123')")
    session, file = made["session_id"], made["files"][0]["id"]

    (told,) = client.get(f"/files/{session}").json()

    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", told.pop("lastModified"))
    assert told == {
        "id": file,
        "name": f"{session}/{file}.csv",
        "session_id": session,
        "storage_session_id": session,
        "size": 3,
        "contentType": "text/csv",
        "metadata": {"content-type": "text/csv", "original-filename": "x.csv"},
    }


def test_a_file_that_is_gone_is_told(client):
    reply = execute(client, "print(1)", files=[{"id": "x" * 21, "storage_session_id": "y" * 21, "name": "data.csv"}])

    told = "groundbox: the file 'data.csv' is not here any more; upload it again\n"
    assert (reply["stdout"], reply["stderr"]) == ("1\n", told)


class Bounded:
    """Kept files of two keys, with small bounds."""

    def __init__(self, monkeypatch, *, most_bytes, shared=True):
        monkeypatch.setattr(ours, "_FILES_BYTES", most_bytes)
        self.ledger = Ledger(lambda: most_bytes // 2 if shared else most_bytes)
        service: Any = SimpleNamespace(keys=SimpleNamespace(is_shared=shared), ledger=self.ledger)
        self.files = ours._Files(service)

    def upload(self, owner, *sizes, session=None, name="x"):
        key = Key(id=owner, owner=owner, scopes=frozenset())
        session = session or self.files.get(key, None)
        for at, size in enumerate(sizes):
            session.add(f"{name}{at}", bytes(size))
        self.files.keep(session)
        return session

    @property
    def kept(self):
        return {owner: len(each) for owner, each in self.files._of_key.items()}

    def check(self):
        """What is counted is what is there."""
        sizes = Counter()
        for each in self.files._sessions.values():
            assert each.size == each.counted == 1024 + sum(file.size for file in each.files.values())
            assert each.names == {file.name: file.id for file in each.files.values()}
            sizes[each.key_id] += each.size
        assert sizes == self.files._bytes
        assert {owner: self.ledger.taken_bytes(owner) for owner in sizes} == sizes
        assert sum(sizes.values()) <= ours._FILES_BYTES
        assert {name for each in self.files._of_key.values() for name in each} == set(self.files._sessions)


def test_empty_files_are_counted_and_only_files_of_their_key_go(monkeypatch):
    bounded = Bounded(monkeypatch, most_bytes=1_000_000)

    mine = bounded.upload("bob", 10)
    for _ in range(200):
        bounded.upload("ada", *[0] * 20)
        bounded.check()

    assert bounded.kept["ada"] < 500_000 // (21 * 1024) + 1, "one key has half"
    assert mine.id in bounded.files._sessions


def test_long_names_are_counted(monkeypatch):
    bounded = Bounded(monkeypatch, most_bytes=1_000_000, shared=False)

    for _ in range(300):
        bounded.upload("ada", 0, name="n" * 20_000)

    bounded.check()
    assert bounded.kept["ada"] < 50


def test_the_session_that_was_used_longest_ago_goes_first(monkeypatch):
    bounded = Bounded(monkeypatch, most_bytes=100_000)
    sessions = [bounded.upload("ada", 10_000) for _ in range(4)]

    bounded.files.find(Key(id="ada", owner="ada", scopes=frozenset()), sessions[0].id, "")
    bounded.upload("ada", 10_000)

    assert [each.id in bounded.files._sessions for each in sessions] == [True, False, True, True]


def test_a_session_that_is_changed_stays_counted_as_it_is(monkeypatch):
    bounded = Bounded(monkeypatch, most_bytes=100_000)
    session = bounded.upload("ada", 1000, 2000)
    bounded.check()

    bounded.upload("ada", 500, session=session)  # takes the place of the first one
    session.remove(session.names["x1"])
    bounded.files.keep(session)
    bounded.check()
    session.remove(session.names["x0"])
    bounded.files.keep(session)

    assert (bounded.kept, bounded.files._bytes, dict(bounded.files._sessions)) == ({}, {}, {})
    assert bounded.ledger.total_bytes == 0


def test_files_have_the_room_that_other_things_of_their_key_leave(monkeypatch):
    bounded = Bounded(monkeypatch, most_bytes=200_000)
    first, second = bounded.upload("ada", 20_000), bounded.upload("ada", 20_000)
    bounded.ledger.take("ada", 50_000, "sandbox")

    third = bounded.upload("ada", 20_000)
    there = [each.id in bounded.files._sessions for each in (first, second, third)]
    with pytest.raises(Refused) as refused:
        bounded.upload("ada", 49_000)

    assert there == [False, True, True], "the oldest makes room for the newest"
    assert (refused.value.status, refused.value.code) == (429, "quota.kept_bytes")


def test_files_that_cannot_be_kept_leave_those_that_they_replaced():
    session = ours._Session("s", "ada", 0.0, 10**6)
    old = session.add("a", b"old")
    made = [session.add("a", b"new"), session.add("b", b"other")]

    session.take_back(made, [old])

    assert {file.name: file.data for file in session.files.values()} == {"a": b"old"}
    assert session.names == {"a": old.id}
    assert session.size == 1024 + old.size


def test_a_session_takes_no_more_than_its_key_may_and_keeps_what_it_had(monkeypatch):
    bounded = Bounded(monkeypatch, most_bytes=100_000)
    session = bounded.upload("ada", 20_000)

    with pytest.raises(Refused) as refused:
        session.add("large", bytes(40_000))
    bounded.files.keep(session)

    assert (refused.value.status, refused.value.code) == (413, "too_large")
    assert [file.name for file in session.files.values()] == ["x0"]
    bounded.check()


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/exec", {"lang": "x" * 201}),
        ("/exec", {"code": "x" * (4 * 2**20 + 1)}),
        ("/exec", {"args": ["x" * 131_073]}),
        ("/exec", {"args": [""] * 1001}),
        ("/exec", {"args": "x" * 131_073}),
        ("/exec", {"session_id": "x" * 201}),
        ("/exec", {"files": [{"id": "x"}] * 1001}),
        ("/exec", {"files": [{"id": "x", "name": "x" * 4097}]}),
        ("/exec/programmatic", {"tools": [{"name": "f"}] * 501}),
        ("/exec/programmatic", {"tools": [{"name": "f" * 201}]}),
        ("/exec/programmatic", {"tools": [{"name": f"f{each}", "description": "x" * 100_000} for each in range(20)]}),
        (
            "/exec/programmatic",
            {"tools": [{"name": "f", "parameters": {"properties": {"x" * 2**20: {}, "y": {}}}}]},
        ),
        ("/exec/programmatic", {"continuation_token": "x" * 201}),
        ("/exec/programmatic", {"tool_results": [{"call_id": "x"}] * 65}),
    ],
    ids=lambda each: str(each)[:60],
)
def test_a_field_that_is_too_long_is_refused(client, path, body):
    answer = client.post(path, json={"lang": "py", "code": "1", **body})

    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_argument")
    assert len(answer.content) < 1000


def test_a_name_that_is_too_long_is_refused(client):
    answers = [client.post("/upload", files={"file": ("é" * chars, b"1")}) for chars in (100, 5000, 2**20)]

    assert [each.status_code for each in answers] == [200, 400, 400]


def test_an_upload_has_no_name_outside_the_workdir(client):
    upload = client.post("/upload", files={"file": ("../../etc/passwd", b"x")}).json()

    assert [each["filename"] for each in upload["files"]] == ["passwd"]


def test_a_file_is_deleted(client):
    made = execute(client, "open('x', 'w').write('1')")
    path = f"{made['session_id']}/{made['files'][0]['id']}"

    deleted = client.delete(f"/files/{path}")

    assert deleted.json() == {"message": "success"}
    assert client.get(f"/download/{path}").status_code == 404
    assert client.delete(f"/files/{path}").status_code == 404


def test_late_replies_have_blanks_before_them(client):
    answer = client.post("/exec", json={"lang": "py", "code": "import time\ntime.sleep(5)\nprint(1)"})

    assert answer.text.startswith(" ")
    assert answer.json()["stdout"] == "1\n"


# Programs that call tools


def test_a_program_calls_tools_and_goes_on_with_their_results(client):
    code = "rows = await get_rows(table='t', n=2)\nprint(rows)\nprint(await import_tool(x=rows[0]))"

    first = begin(client, code, "get-rows", "import")
    second = go_on(client, first, [1, {"a": None}]).json()
    last = go_on(client, second, "done").json()

    assert (first["status"], inputs(first)) == ("tool_call_required", [("get-rows", ("table", "t"), ("n", 2))])
    assert (second["status"], inputs(second)) == ("tool_call_required", [("import", ("x", 1))])
    assert (last["status"], last["stdout"], last["stderr"]) == ("completed", "[1, {'a': None}]\ndone\n", "")


def test_calls_made_at_once_are_told_in_one_reply(client):
    first = begin(client, "print(sum(await asyncio.gather(*(f(x=x) for x in range(20)))))", "f")

    last = go_on(client, first, *(call["input"]["x"] ** 2 for call in first["tool_calls"])).json()

    assert len(first["tool_calls"]) == 20
    assert (last["status"], last["stdout"]) == ("completed", f"{sum(x * x for x in range(20))}\n")


def test_a_result_that_did_not_come_is_asked_for_again(client):
    first = begin(client, "print(await asyncio.gather(f(x=1), f(x=2)))", "f")
    one, other = first["tool_calls"]
    results = [{"call_id": one["id"], "result": "a"}, {"call_id": "never asked", "result": "b"}]

    second = client.post(
        "/exec/programmatic", json={"continuation_token": first["continuation_token"], "tool_results": results}
    ).json()
    last = go_on(client, second, "c").json()

    assert second["tool_calls"] == [other]
    assert last["stdout"] == "['a', 'c']\n"


def test_an_error_of_a_tool_is_an_exception_of_the_program(client):
    first = begin(client, "try:\n    await f()\nexcept Exception as error:\n    print(error)", "f")

    last = go_on(client, first, {"is_error": True, "error_message": "no such table"}).json()

    assert (last["status"], last["stdout"]) == ("completed", "f: ToolFailure: no such table\n")


@pytest.mark.parametrize(
    ("code", "error", "stderr"),
    [
        ("print(1)\n1 / 0", "Sandbox exited with code 1", 'File "<cell 2>", line 2, in <module>'),
        ("while True: pass", "Time limit exceeded", "the program was stopped"),
    ],
)
def test_a_program_with_tools_that_fails_is_an_error(client, code, error, stderr):
    reply = begin(client, code, "f", timeout=1500)

    assert (reply["status"], reply["error"]) == ("error", error)
    assert stderr in reply["stderr"]


def test_the_time_of_tools_is_not_the_programs(client):
    first = begin(client, "print(await f())", "f", timeout=1000)

    time.sleep(2)
    last = go_on(client, first, 5).json()

    assert (last["status"], last["stdout"]) == ("completed", "5\n")


def test_a_program_with_tools_has_files_and_makes_some(client):
    made = execute(client, "open('in', 'w').write('x')")
    first = begin(client, "open('out', 'w').write(open('in').read() + await f())", "f", session_id=made["session_id"])

    last = go_on(client, first, "y").json()

    (file,) = last["files"]
    assert client.get(f"/download/{last['session_id']}/{file['id']}").content == b"xy"


def test_a_token_counts_once_and_for_its_key_alone(client, server):
    first = begin(client, "print(await f())", "f")
    other = client.post("/v1/keys", json={"owner": "other"}).json()["key"]

    with server.client(token=other) as stranger:
        stolen = go_on(stranger, first, 1)
    last = go_on(client, first, 2)
    again = go_on(client, first, 3)

    assert (stolen.status_code, last.json()["stdout"], again.status_code) == (404, "2\n", 404)


def test_many_programs_that_wait_are_refused_with_the_time_to_ask_again(tmp_path):
    settings = Settings(runs_at_once=4, protocols=["librechat"])
    with in_process(settings) as client:
        waiting = [begin(client, "print(await f())", "f") for _ in range(2)]
        refused = client.post("/exec/programmatic", json={"code": "1", "tools": []})
        go_on(client, waiting[0], 1)
        after = begin(client, "print(2)", "f")

    assert (refused.status_code, refused.json()["error"], refused.json()["retry_after_seconds"]) == (
        429,
        "rate_limited",
        5,
    )
    assert after["stdout"] == "2\n"


# Keys, refusals and failures of this side


def test_files_of_another_key_are_not_there(client, server):
    made = execute(client, "open('x', 'w').write('1')")
    session, file = made["session_id"], made["files"][0]["id"]
    other = client.post("/v1/keys", json={"owner": "other"}).json()["key"]

    with server.client(token=other) as stranger:
        reply = execute(stranger, "import os\nprint(os.listdir())", session_id=session)
        seen = [stranger.get(f"/download/{session}/{file}").status_code, stranger.get(f"/files/{session}").json()]

    assert seen == [404, []]
    assert (reply["stdout"], reply["session_id"] != session) == ("[]\n", True)


def test_a_key_in_its_own_header_is_taken_and_a_wrong_one_is_not(server):
    with server.client(token=None) as client:
        right = client.post("/exec", json={"lang": "py", "code": "1"}, headers={"X-API-Key": server.token})
        wrong = client.post("/exec", json={"lang": "py", "code": "1"}, headers={"X-API-Key": "wrong"})

    assert (right.status_code, wrong.status_code) == (200, 401)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/exec", {"lang": "py"}),
        ("/exec/programmatic", {"tools": []}),
        ("/exec/programmatic", {"code": "1", "tools": [{"name": "!"}]}),
        ("/exec/programmatic", {"code": "1", "tools": [], "timeout": -1}),
    ],
)
def test_what_cannot_be_meant_is_refused(client, path, body):
    answer = client.post(path, json=body)

    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_argument")


def in_process(settings):
    service = Service(settings, Keys(token="k" * 20))
    return TestClient(application(service), headers={"X-API-Key": "k" * 20, "Host": "localhost"})


@pytest.mark.parametrize(("path", "body"), [("/exec", {"lang": "py"}), ("/exec/programmatic", {"tools": []})])
def test_an_environment_that_is_not_there_is_503_and_no_result(path, body):
    with in_process(Settings(environment="no-such-environment", protocols=["librechat"])) as client:
        answer = client.post(path, json={"code": "1", **body})

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.json()["error"] == "environment_failed"


def test_a_failure_after_the_first_blank_cuts_the_reply(monkeypatch):
    async def fail(self, source, **options):
        import asyncio

        await asyncio.sleep(2)
        raise SandboxUnavailable(missing=["no room"])

    monkeypatch.setattr(AsyncSandbox, "run_last", fail)

    with (
        in_process(Settings(protocols=["librechat"])) as client,
        pytest.raises(Exception, match="no room|already started"),
    ):
        client.post("/exec", json={"lang": "py", "code": "1"})


@pytest.mark.parametrize("path", ["/exec", "/exec/programmatic"])
def test_a_client_that_goes_away_frees_its_run_and_its_sandbox(client, server, path):
    body = {"lang": "py", "code": "import time\ntime.sleep(86424)", "tools": []}
    before = busy(client)

    with server.client() as leaving, leaving.stream("POST", path, json=body) as reply:
        assert next(reply.iter_raw()) == b" "
    deadline = time.monotonic() + 1
    while busy(client) != before and time.monotonic() < deadline:
        time.sleep(0.05)

    assert busy(client) == before


def busy(client):
    """Runs and sandboxes that live now, by the metrics; other tests may have left sandboxes that are idle."""
    lines = client.get("/metrics").text.splitlines()
    counts = [each.split() for each in lines if each.startswith(("groundbox_runs_running ", "groundbox_sandboxes "))]
    return {name: float(count) for name, count in counts}
