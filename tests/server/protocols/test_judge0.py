"""Judge0's protocol: its vendor's client on a real server, and what it does not show."""

import base64
import contextlib
import io
import shlex
import struct
import time
import zipfile
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from groundbox.protocols import judge0 as ours
from groundbox.protocols import judge0_input
from groundbox.server.application import application
from groundbox.server.keys import Keys
from groundbox.server.service import Service
from groundbox.server.settings import Settings

PYTHON, BASH, NODE = 71, 46, 63
ARCHIVED = {"source_code": "1", "language_id": PYTHON}


def b64(text):
    return base64.b64encode(text if isinstance(text, bytes) else text.encode()).decode()


def packed(**files):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "/"), content)
    return b64(data.getvalue())


def judge(client, source_code, language_id=PYTHON, **body):
    """All of a submission, waited for."""
    request = {"source_code": source_code, "language_id": language_id, **body}
    answer = client.post("/submissions", params={"wait": "true", "fields": "*"}, json=request)
    assert answer.status_code == 201, answer.text
    return answer.json()


def ended(client, token, **params):
    """A submission, once it has ended."""
    for _ in range(300):
        told = client.get(f"/submissions/{token}", params={"fields": "*", **params}).json()
        if told["status"]["id"] > 2:
            return told
        time.sleep(0.1)
    raise AssertionError(told)


# The vendor's client


@pytest.fixture
def judge0(server):
    module = pytest.importorskip("judge0", reason="judge0 is not installed here: make clients")
    server.run("1", mode="script")
    module.our_client = module.Client(server.url, headers={"X-Auth-Token": server.token})
    return module


def test_the_vendors_client_judges_test_cases(judge0):
    cases = [judge0.TestCase("1 2", "3"), judge0.TestCase("2 2", "5")]

    submissions = judge0.run(
        client=judge0.our_client,
        source_code="print(sum(map(int, input().split())))",
        language=judge0.LanguageAlias.PYTHON,
        test_cases=cases,
        cpu_time_limit=10,
        wall_time_limit=20,
    )

    told = [(each.status, each.stdout, each.exit_code) for each in submissions]
    assert told == [(judge0.Status.ACCEPTED, "3\n", 0), (judge0.Status.WRONG_ANSWER, "4\n", 0)]


def test_the_vendors_client_sends_and_reads_files(judge0):
    given = judge0.Filesystem(content=[judge0.File(name="in.txt", content="abc")])

    submission = judge0.run(
        client=judge0.our_client,
        source_code="open('out.txt', 'w').write(open('in.txt').read()[::-1])",
        language=judge0.LanguageAlias.PYTHON,
        additional_files=given,
        wall_time_limit=20,
    )

    made = {each.name.removeprefix("./"): each.content for each in submission.post_execution_filesystem}
    assert (submission.status, made) == (judge0.Status.ACCEPTED, {"out.txt": b"cba"})


def test_the_vendors_client_is_told_what_there_is(judge0):
    client = judge0.our_client

    languages = {each.id: each.name for each in client.languages}

    assert languages[PYTHON] == "Python"
    assert client.version == "1.13.1"
    assert not client.is_language_supported(judge0.LanguageAlias.COBOL)
    assert [each["id"] for each in client.get_statuses()] == [*range(1, 15)]


# Submissions


def test_a_submission_is_made_asked_for_and_deleted(client):
    token = client.post("/submissions", json={"source_code": "print(1)", "language_id": PYTHON}).json()["token"]

    told = ended(client, token)
    usual = client.get(f"/submissions/{token}").json()
    deleted = client.delete(f"/submissions/{token}")
    gone = client.get(f"/submissions/{token}")

    names = {"stdout", "time", "memory", "stderr", "token", "compile_output", "message", "status"}
    assert (told["stdout"], told["exit_code"], told["stderr"]) == ("1\n", 0, None)
    assert usual == {name: told[name] for name in names}
    assert (deleted.status_code, gone.status_code) == (200, 404)


@pytest.mark.parametrize(
    ("code", "status", "message"),
    [
        ("print(6 * 7)", (3, "Accepted"), None),
        ("raise SystemExit(3)", (11, "Runtime Error (NZEC)"), "Exited with error code 3"),
        ("while True: pass", (5, "Time Limit Exceeded"), "Time limit exceeded"),
        ("import os; os.kill(os.getpid(), 11)", (7, "Runtime Error (SIGSEGV)"), "SIGSEGV ended the program"),
        ("import os; os.abort()", (10, "Runtime Error (SIGABRT)"), "SIGABRT ended the program"),
        ("import os; os.kill(os.getpid(), 9)", (12, "Runtime Error (Other)"), "SIGKILL ended the program"),
    ],
)
def test_statuses_are_judge0s(client, code, status, message):
    told = judge(client, code, wall_time_limit=2)

    assert told["status"] == {"id": status[0], "description": status[1]}
    assert told["message"] == message or told["message"].startswith(message)


@pytest.mark.parametrize(
    ("expected", "status"), [("1\n2", 3), ("1 \n2\n\n", 3), ("1\n2\n3", 4), ("", 4), (None, 3), (" 1\n2", 4)]
)
def test_output_is_compared_without_blanks_at_the_ends(client, expected, status):
    told = judge(client, "print('1')\nprint('2  ')", expected_output=expected)

    assert told["status"]["id"] == status


def test_texts_travel_in_base64(client):
    request = {"source_code": b64("print(input())"), "language_id": PYTHON, "stdin": b64("é")}
    params = {"base64_encoded": "true", "wait": "true"}

    told = client.post("/submissions", params=params, json=request).json()

    assert told["stdout"] == b64("é\n")


def test_arguments_files_and_limits_reach_the_program(client):
    code = "import sys\nprint(sys.argv[1:], open('a/b').read())"

    told = judge(client, code, command_line_arguments="x 'y z'", additional_files=packed(a__b="data"))

    assert told["stdout"] == "['x', 'y z'] data\n"


@pytest.mark.parametrize(
    ("language", "code"), [(BASH, "read x; echo $x"), (NODE, "process.stdin.pipe(process.stdout)")]
)
def test_other_languages_are_judged(client, language, code):
    if language == NODE and not Path("/usr/bin/node").exists():
        pytest.skip("Node is not installed here")

    told = judge(client, code, language, stdin="typed\n", expected_output="typed")

    assert told["status"]["description"] == "Accepted"


def test_a_batch_says_in_each_place_what_became_of_it(client):
    submissions = [
        {"source_code": "print(1)", "language_id": PYTHON},
        {"source_code": "", "language_id": PYTHON},
        {"source_code": "x", "language_id": 1},
    ]

    answer = client.post("/submissions/batch", json={"submissions": submissions})
    token = answer.json()[0]["token"]
    ended(client, token)
    told = client.get("/submissions/batch", params={"tokens": f"{token},none", "fields": "stdout,status_id"}).json()

    assert answer.status_code == 201
    assert answer.json()[1:] == [
        {"source_code": ["can't be blank"]},
        {"language_id": ["language with id 1 doesn't exist"]},
    ]
    assert told == {"submissions": [{"stdout": "1\n", "status_id": 3}, None]}


# Refusals and failures of this side


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("language_id", 54, "language with id 54 doesn't exist"),
        ("callback_url", "http://127.0.0.1/", "is called by no server of groundbox; ask for the submission"),
        ("enable_network", True, "network can't be enabled"),
        ("number_of_runs", 3, "must be 1 on this server"),
        ("command_line_arguments", "'", "No closing quotation"),
        ("additional_files", "%", "is not base64"),
        ("additional_files", packed(**{"..__x": "1"}), "additional_files: '../x'"),
        ("wall_time_limit", 1e9, "limits.wall_s: may be at most"),
    ],
)
def test_what_cannot_be_meant_is_told_by_its_field(client, field, value, words):
    body = {"source_code": "1", "language_id": PYTHON, field: value}

    answer = client.post("/submissions", json=body)

    assert answer.status_code == 422
    assert words in str(answer.json())


@pytest.mark.parametrize(
    ("field", "most"),
    [
        ("source_code", 24 * 2**20),
        ("stdin", 24 * 2**20),
        ("expected_output", 24 * 2**20),
        ("command_line_arguments", 4096),
        ("compiler_options", 4096),
        ("callback_url", 4096),
    ],
)
def test_a_text_that_is_too_long_is_refused_by_its_field(client, field, most):
    answer = client.post("/submissions", json={"source_code": "1", "language_id": PYTHON, field: "x" * (most + 1)})

    assert (answer.status_code, answer.json()) == (422, {field: [f"is too long (maximum is {most} characters)"]})


def test_texts_in_base64_are_counted_as_they_are_decoded(client):
    body = {"source_code": b64("1"), "language_id": PYTHON, "stdin": b64("x" * (16 * 2**20 + 1))}

    answer = client.post("/submissions", json=body, params={"base64_encoded": "true"})

    assert (answer.status_code, answer.json()) == (422, {"stdin": [f"is too long (maximum is {16 * 2**20} bytes)"]})


def test_large_texts_and_archives_reach_the_program_and_are_told(client):
    stdin = "é1\n" * 100_000
    archive = packed(a=bytes(range(256)) * 1000)
    code = "import sys\nprint(len(sys.stdin.read()), len(open('a', 'rb').read()))"
    body = {"source_code": code, "language_id": PYTHON, "stdin": stdin, "additional_files": archive}
    encoded = {**body, "source_code": b64(code), "stdin": b64(stdin)}

    plain = client.post("/submissions", json=body, params={"wait": "true", "fields": "*"}).json()
    params = {"wait": "true", "fields": "stdout,stdin,additional_files", "base64_encoded": "true"}
    coded = client.post("/submissions", json=encoded, params=params).json()

    assert (plain["stdout"], plain["stdin"], plain["additional_files"]) == ("300000 256000\n", stdin, archive)
    assert coded == {"stdout": b64("300000 256000\n"), "stdin": b64(stdin), "additional_files": archive}


def test_numbers_that_are_too_large_are_refused(client):
    body = {"source_code": "1", "language_id": PYTHON}

    answers = [client.post("/submissions", json={**body, "memory_limit": each}) for each in (1e308, -1e308, 2**70)]

    assert [each.status_code for each in answers] == [422] * 3


@pytest.mark.parametrize(
    "text",
    ["", " a  b ", "a'b c'd", '"a \\" b" \\" c', "'' \"\"", "a\\ b", '"\\x\\\\"', "a\nb\tc", "é\u2003 #no comment"],
)
def test_arguments_are_split_as_a_shell_does(text):
    assert judge0_input.split(text) == shlex.split(text)


@pytest.mark.parametrize("text", ["'a", '"a', "a\\"])
def test_arguments_without_an_end_are_refused(text):
    with pytest.raises(ValueError, match="No closing quotation|No escaped character"):
        judge0_input.split(text)


@pytest.mark.parametrize("piece", ["a", "' '", "\\\\", '"', "'", " a", '"\\'])
def test_the_time_for_arguments_grows_with_their_length(piece):
    def took_s(text):
        begun = time.thread_time()
        with contextlib.suppress(ValueError):
            judge0_input.split(text)
        return time.thread_time() - begun

    short_s = sum(took_s(piece * 2000) for _ in range(100))

    assert took_s(piece * 200_000) < 5 * short_s + 0.05  # as much text; what is quadratic takes a hundred times as long


def zip_of(count, name=b"a", size=0, before_end=b""):
    """An archive whose list has an entry of one file many times."""
    local = b"PK\3\4" + struct.pack("<HHHHHIIIHH", 20, 0, 0, 0, 0, 0, 0, 0, 1, 0) + b"a"
    facts = struct.pack("<HHHHHHIIIHHHHHII", 20, 20, 0, 0, 0, 0, 0, 0, size, len(name), 0, 0, 0, 0, 0, 0)
    listed = (b"PK\1\2" + facts + name) * count + before_end
    some = count & 0xFFFF
    return local + listed + b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, some, some, len(listed), len(local), 0)


@pytest.mark.parametrize(
    ("archive", "words"),
    [
        (zip_of(1001), "are more than 1000"),
        (zip_of(200_000), "are more than 1000"),
        (zip_of(2, name=b"a" * 5000), "have a name of over 4096 bytes"),
        (zip_of(2, size=40 * 2**20), "are over 67108864 bytes"),
        (zip_of(1, before_end=b"PK\6\7" + bytes(16)), "it has 64-bit sizes"),
        (zip_of(1, before_end=b"x"), "its list is broken"),
        (b"PK", "it has no end"),
    ],
    ids=lambda each: str(len(each)),
)
def test_an_archive_is_counted_before_a_library_reads_it(client, monkeypatch, archive, words):
    def read(*_):
        raise AssertionError("the archive was read")

    answer = client.post("/submissions", json={**ARCHIVED, "additional_files": base64.b64encode(archive).decode()})
    monkeypatch.setattr(zipfile, "ZipFile", read)
    with pytest.raises(judge0_input.Invalid):
        judge0_input.size_of_archive(archive)

    assert (answer.status_code, words in answer.json()["additional_files"][0]) == (422, True)


def test_an_archive_is_not_packed_in_a_way_that_unpacks_without_bounds(client):
    packed_files = io.BytesIO()
    with zipfile.ZipFile(packed_files, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("a", "a")
    told = base64.b64encode(packed_files.getvalue()).decode()

    answer = client.post("/submissions", json={**ARCHIVED, "additional_files": told})

    assert (answer.status_code, answer.json()) == (422, {"additional_files": ["must be stored or deflated"]})


def test_a_token_that_is_asked_for_many_times_is_not_answered_with_gigabytes(client):
    token = judge(client, "1", stdin="x" * 2**20)["token"]
    tokens = ",".join([token] * 300)

    answer = client.get("/submissions/batch", params={"tokens": tokens, "fields": "stdin"})

    assert (answer.status_code, "ask for fewer tokens" in answer.json()["error"]) == (400, True)


def test_memory_of_submissions_is_counted_to_their_key_until_they_end(monkeypatch):
    monkeypatch.setattr(ours, "_KEPT_BYTES", 4 * 2**20)
    service = Service(Settings(environment="no-such-environment", protocols=["judge0"]), Keys(token="k" * 20))
    app = application(service)
    wire = next(route.endpoint.__self__ for route in app._app._app.routes if route.path == "/submissions")
    body = {"source_code": "1", "language_id": PYTHON, "stdin": "x" * 3 * 2**20}
    with TestClient(app, headers={"X-Auth-Token": "k" * 20, "Host": "localhost"}) as client:
        wire._room.take("other", 2 * 2**20)
        refused = client.post("/submissions", json=body)
        batch = client.post("/submissions/batch", json={"submissions": [{**body, "stdin": "x" * 2**20}] * 3})
        left = wire._room._of_key.copy()
        wire._room.give_back("other", 2 * 2**20)
        taken = client.post("/submissions?wait=true", json=body)

    assert [each.status_code for each in (refused, batch, taken)] == [429, 429, 201]
    assert left == {"other": 2 * 2**20}, "what was refused is counted to nobody"
    assert wire._room._of_key == {}
    assert service.ledger.taken_bytes("owner") == sum(wire._ended_bytes.values()) > 0


def test_results_of_submissions_have_the_room_that_other_things_of_their_key_leave():
    service = Service(Settings(kept_bytes=1_000_000, protocols=["judge0"]), Keys(token="k" * 20))
    wire = ours._Judge0(service)

    def ended(token, size):
        asked = ours._Asked(source_code="x" * size, language_id=PYTHON)
        submission = ours._Submission("owner", asked, (), {}, None, token, 0, status=3, result={"stdout": "1"})
        wire._of_key["owner"] += 1
        wire._unfinished[token] = submission
        wire._has_ended(submission, None)

    ended("first", 100_000)
    service.ledger.take("owner", 800_000, "sandbox")
    ended("second", 100_000)
    ended("third", 300_000)

    assert list(wire._ended) == ["third"]
    third = wire._ended["third"]
    assert (third.status, "the result is not kept" in third.result["message"]) == (13, True)
    assert service.ledger.taken_bytes("owner") == 800_000


def test_submissions_that_have_ended_make_room_for_others_of_the_key_with_the_most(monkeypatch):
    monkeypatch.setattr(ours, "_KEPT_BYTES", 100_000)
    wire = ours._Judge0(Service(Settings(), Keys(token=None)))

    def ended(key_id, size):
        asked = ours._Asked(source_code="x" * size, language_id=PYTHON)
        submission = ours._Submission(key_id, asked, (), {}, None, f"{key_id}-{size}", 0)
        wire._of_key[key_id] += 1
        wire._unfinished[submission.token] = submission
        wire._has_ended(submission, None)

    for size in range(10_000, 10_020):
        ended("greedy", size)
        ended("modest", size - 9900)

    assert len(wire._ended_of_key["modest"]) == 20 - 7, "old ones of the key that has less go only if it has most"
    assert sum(wire._ended_bytes.values()) <= 100_000
    assert {token for each in wire._ended_of_key.values() for token in each} == set(wire._ended)


def test_an_archive_is_not_larger_than_it_may_be(client):
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x", b"\0" * (65 * 2**20))

    answer = client.post(
        "/submissions", json={"source_code": "1", "language_id": PYTHON, "additional_files": b64(bomb.getvalue())}
    )

    assert answer.json() == {"additional_files": ["are over 67108864 bytes"]}


def test_submissions_of_another_key_are_not_there(client, server):
    token = judge(client, "print(1)")["token"]
    other = client.post("/v1/keys", json={"owner": "other"}).json()["key"]

    with server.client(token=other) as stranger:
        answers = [stranger.get(f"/submissions/{token}"), stranger.delete(f"/submissions/{token}")]

    assert [each.status_code for each in answers] == [404, 404]


def test_a_failure_of_this_side_is_an_internal_error_and_no_wrong_answer():
    service = Service(Settings(environment="no-such-environment", protocols=["judge0"]), Keys(token="k" * 20))

    with TestClient(application(service), headers={"X-Auth-Token": "k" * 20, "Host": "localhost"}) as client:
        told = judge(client, "print(1)", expected_output="1")

    assert told["status"] == {"id": 13, "description": "Internal Error"}
    assert "no-such-environment" in told["message"]


def test_a_client_that_waits_and_goes_away_frees_its_run(client, server):
    body = {"source_code": "import time\ntime.sleep(86425)", "language_id": PYTHON, "wall_time_limit": 60}
    with server.client() as leaving, pytest.raises(Exception, match="timed out"):
        leaving.post("/submissions", params={"wait": "true"}, json=body, timeout=1)
    deadline = time.monotonic() + 1
    while running(client) and time.monotonic() < deadline:
        time.sleep(0.05)

    assert running(client) == 0


def running(client):
    lines = client.get("/metrics").text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("groundbox_runs_running "))
