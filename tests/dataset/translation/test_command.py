"""`groundbox dataset translate` as programs see it, with real sandboxes, traces and proofs."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from endpoint_fakes import Narrator, completion, serving

from groundbox.dataset import sample_files
from groundbox.dataset.translation import prompts
from groundbox.dataset.translation.endpoint import response_format

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[3] / "examples" / "problems"
KEY = "sk-of-the-test"
LEAST = """\
def least(xs):
    best = xs[0]
    for x in xs:
        if x < best:
            best = x
    return best
"""
SUMS = """\
total = 0
for word in input().split():
    total += int(word)
    print(word, total)
"""


def command(*arguments):
    return [sys.executable, "-m", "groundbox", "dataset", *map(str, arguments)]


def groundbox(*arguments, **environ):
    environ = {**os.environ, **environ}
    return subprocess.run(command(*arguments), capture_output=True, text=True, check=False, env=environ)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """Functions that return, one that fails, and a script that prints."""
    folder = tmp_path_factory.mktemp("dataset")
    calls = [{"args": [[3, 1, 2]]}, {"args": [[5, 9]]}, {"args": [[]]}]
    scripts = [{"stdin": "1 2 3\n"}, {"stdin": "7 1\n"}]
    rows = [
        {"source": LEAST, "entry": "least", "statement": "The least number.", "cases": calls},
        {"source": SUMS, "statement": "Running sums.", "cases": scripts},
    ]
    (folder / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    built = groundbox("build", folder / "problems.jsonl", "--out", folder / "d")
    assert built.returncode == 0, built.stderr
    return folder / "d"


def samples(folder):
    return list(sample_files.read_samples(folder / sample_files.SAMPLES))


def translate(dataset, out, url, *more, **environ):
    return groundbox("translate", dataset, "--out", out, "--endpoint", url, "--model", "m", *more, **environ)


def contents(out):
    return {name: (out / name).read_bytes() for name in sample_files.FILES}


def flawed(items):
    """The first item is told wrongly and repaired, the second wrongly twice."""

    def says(item, attempt, true):
        if item == items[1] or (item == items[0] and attempt == 0):
            return true.replace("returns ", "returns 4") + " So best becomes 77."
        return f"<think>Let me see: best becomes 12.</think>\n\n{true}"

    return says


def test_narrations_are_proven_against_real_runs_and_the_dataset_is_verified(dataset, tmp_path):
    items = list(dict.fromkeys(row.item for row in samples(dataset)))
    with serving(Narrator(samples(dataset), flawed(items))) as (url, asked):
        ran = translate(dataset, tmp_path / "out", url, "--json", "--temperature", "0.6", "--option", "top_p=0.95")
    verified = groundbox("verify", tmp_path / "out")

    report = json.loads(ran.stdout)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert report == json.loads((tmp_path / "out" / "report.json").read_text())
    assert (report["items"], report["kept"], report["dropped"]) == (5, 4, {"unproven-claims": 1})
    assert {row.item for row in samples(tmp_path / "out")} == {*items} - {items[1]}
    assert {row.task for row in samples(tmp_path / "out")} == {"output", "exception"}
    told = report["translation"]
    assert (told["accepted_at_first"], told["accepted_when_repaired"], told["asked"], len(asked)) == (3, 1, 7, 7)
    assert told["faithfulness"]["first"]["least"] < 1 == told["faithfulness"]["accepted"]["least"]
    assert {name: value for name, value in asked[0][2].items() if name != "messages"} == {
        "model": "m", "temperature": 0.6, "max_tokens": 16384, "top_p": 0.95,
        "response_format": response_format(prompts.schema()),
    }  # fmt: skip
    assert (told["in_words"], told["fell_back"]) == (0, 0)
    (repair,) = [body["messages"][2]["content"] for _, _, body in asked if len(body["messages"]) == 3][:1]
    assert "77" not in repair
    (drop,) = [json.loads(line) for line in (tmp_path / "out" / "dropped.jsonl").read_text().splitlines()]
    assert "77" in drop["facts"]["text"]
    assert any(each.startswith("Sentence ") for each in drop["facts"]["failed"])
    assert not any("77" in each for each in drop["facts"]["failed"])
    assert (verified.returncode, verified.stderr.split(", ")[-1]) == (0, "0 differences\n")


def test_a_false_claim_that_somebody_puts_into_a_row_is_found(dataset, tmp_path):
    with serving(Narrator(samples(dataset))) as (url, _):
        translate(dataset, tmp_path / "out", url)
    from groundbox.dataset import files

    rows = samples(tmp_path / "out")
    forged = rows[0].reply.replace("So least returns 1", "So least returns 2")
    assert forged != rows[0].reply
    with sample_files.writing(tmp_path / "out") as writer:
        for row in rows:
            writer.sample(type(row)(**{**vars(row), "reply": forged if row is rows[0] else row.reply}))
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    report["files"] = {name: files.digest(tmp_path / "out" / name) for name in report["files"]}
    (tmp_path / "out" / "report.json").write_text(json.dumps(report))

    verified = groundbox("verify", tmp_path / "out", "--json")

    found = [json.loads(line) for line in verified.stdout.splitlines()][:-1]
    assert verified.returncode == 1
    assert (rows[0].item, "claim") in {(each["where"], each["what"]) for each in found}


def test_a_busy_and_a_failing_endpoint_are_asked_again(dataset, tmp_path):
    narrator = Narrator(samples(dataset))
    odd = iter([(429, {"retry-after": "0"}, {"error": "busy"}), (500, {"retry-after": "0"}, b"oops")])

    with serving(lambda body, key: next(odd, None) or narrator(body, key)) as (url, asked):
        ran = translate(dataset, tmp_path / "out", url, "--concurrency", "1")

    assert (ran.returncode, ran.stdout, len(asked)) == (0, "", 7)
    assert "5 narrations were proven at first" in ran.stderr


def test_a_wrong_key_is_told_with_what_to_do_and_the_right_one_goes_on(dataset, tmp_path):
    narrator = Narrator(samples(dataset))

    def answer(body, authorization):
        return (
            narrator(body, None) if authorization == f"Bearer {KEY}" else (401, {}, {"error": f"bad {authorization}"})
        )

    with serving(answer) as (url, _):
        wrong = translate(dataset, tmp_path / "out", url, "--api-key-env", "THEIRS", THEIRS="sk-wrong")
        right = translate(dataset, tmp_path / "out", url, "--api-key-env", "THEIRS", THEIRS=KEY)

    assert (wrong.returncode, wrong.stdout) == (3, "")
    assert wrong.stderr == (
        f"groundbox: {url}/chat/completions: status 401: bad Bearer …; "
        "the key is wrong or missing; name the variable that holds it with --api-key-env\n"
        f"groundbox: What was done is kept in {tmp_path / 'out'}; the same command goes on from there.\n"
    )
    assert right.returncode == 0, right.stderr
    kept = b"".join(path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert KEY.encode() not in kept
    assert b"sk-wrong" not in kept


def test_a_server_that_is_not_there_is_told_at_once(dataset, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        ran = translate(dataset, tmp_path / "out", url)

    assert ran.returncode == 3
    assert "no answer in 3 attempts" in ran.stderr
    assert "does the server run, and is the URL right?" in ran.stderr


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ((200, {}, b"<html>welcome</html>"), "this is no chat completion: a web page;"),
        ((404, {}, {"error": "no model m"}), "either there is no such model, or the URL is not that of the API"),
    ],
)
def test_an_endpoint_that_is_none_is_told(dataset, tmp_path, answer, complaint):
    with serving(lambda body, key: answer) as (url, _):
        ran = translate(dataset, tmp_path / "out", url)

    assert ran.returncode == 3
    assert complaint in ran.stderr
    assert "the same command goes on from there" in ran.stderr


@pytest.mark.parametrize(("number", "status", "says"), [("SIGINT", 130, True), ("SIGKILL", -9, False)])
def test_a_translation_that_is_stopped_goes_on_and_asks_nothing_twice(dataset, tmp_path, number, status, says):
    items = list(dict.fromkeys(row.item for row in samples(dataset)))
    out = tmp_path / "out"
    with serving(Narrator(samples(dataset), flawed(items))) as (url, all_asked):
        translate(dataset, tmp_path / "whole", url)

    model = Narrator(samples(dataset), flawed(items), gate=3)
    with serving(model) as (url, _):
        arguments = command("translate", dataset, "--out", out, "--endpoint", url, "--model", "m", "--concurrency", "2")
        process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, start_new_session=True)
        assert model.waits.wait(120)
        os.killpg(process.pid, signal.Signals[number])
        _, errors = process.communicate()
    answered = [line for line in (out / "answers.jsonl").read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    with serving(Narrator(samples(dataset), flawed(items))) as (url, asked):
        ran = translate(dataset, out, url, "--concurrency", "2", "--json")

    words = f"groundbox: interrupted. What was done is kept in {out}; the same command goes on from there.\n"
    assert process.returncode == status
    assert errors.strip() == (words.strip() if says else "")
    assert ran.returncode == 0, ran.stderr
    assert 0 < len(answered) == len(all_asked) - len(asked)
    assert contents(out) == contents(tmp_path / "whole")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--endpoint", "localhost:8000"), "endpoint: 'localhost:8000' is no URL of an API, such as http://localhost:"),
        (("--endpoint", "http://me:secret@host/v1"), "the URL may only name a place; a key is given by --api-key-env"),
        (("--api-key-env", "NOBODYS_KEY"), "--api-key-env: the environment variable NOBODYS_KEY holds no key"),
        (("--option", "top_p"), "--option: 'top_p' is not KEY=JSON, such as top_p=0.95"),
        (("--option", "stream=true"), "request: stream cannot be set"),
        (("--temperature", "nan"), "request: it cannot be written as JSON"),
        (("--prompt", "poem"), "'poem' is not one of"),
    ],
)
def test_bad_usage_ends_with_2_and_touches_nothing(dataset, tmp_path, arguments, complaint):
    ran = translate(dataset, tmp_path / "out", "http://127.0.0.1:1/v1", *arguments)

    assert (ran.returncode, ran.stdout) == (2, "")
    assert complaint in ran.stderr
    assert "secret" not in ran.stderr
    assert not (tmp_path / "out").exists()


def test_a_key_that_is_null_is_not_sent(dataset, tmp_path):
    narrator = Narrator(samples(dataset))
    with serving(narrator) as (url, asked):
        more = ("--option", "max_tokens=null", "--option", "reasoning_effort=low", "--limit", "1")
        ran = translate(dataset, tmp_path / "out", url, *more)

    assert ran.returncode == 0, ran.stderr
    assert [sorted(body) for _, _, body in asked] == [["messages", "model", "reasoning_effort", "response_format"]]
    assert asked[0][2]["reasoning_effort"] == "low"


def test_an_endpoint_that_refuses_schemas_is_told_once_and_asked_for_prose(dataset, tmp_path):
    narrator = Narrator(samples(dataset))

    def answer(body, key):
        if "response_format" in body:
            return 400, {}, {"error": "response_format is not supported"}
        return completion("yes") if body["messages"][0]["content"] == "Say yes." else narrator(body, key)

    with serving(answer) as (url, _):
        ran = translate(dataset, tmp_path / "out", url, "--limit", "2")

    told = [line for line in ran.stderr.splitlines() if "JSON of a schema" in line]
    assert ran.returncode == 0, ran.stderr
    assert told == [
        f"groundbox: {url}/chat/completions: status 400: response_format is not supported; "
        "it refuses JSON of a schema (response_format), so prose is asked for",
        "groundbox: 2 items are told in prose without claims: the endpoint refuses JSON of a schema (response_format)",
    ]


def test_prose_is_asked_for_without_a_schema(dataset, tmp_path):
    prose = (
        "`best` is 3. When `x` is 1, `x < best` is true, so `best` becomes 1. "
        "Then `x` is 2, and `x < best` is false. The output is 1."
    )
    with serving(Narrator(samples(dataset), lambda item, attempt, true: prose)) as (url, asked):
        ran = translate(dataset, tmp_path / "out", url, "--limit", "1", "--prose", "--json")

    assert json.loads(ran.stdout)["kept"] == 1
    assert ["response_format" in body for _, _, body in asked] == [False]
