"""`groundbox prove`."""

import json

import pytest

import groundbox
from groundbox.trace.claims import json_schema

SOURCE = "def double(n):\n    m = n * 2\n    return m\n"


@pytest.fixture(scope="module")
def records():
    return groundbox.run(SOURCE, mode="call", call="double", args=[4], trace=True).trace.dumps()


@pytest.fixture
def made(command, records):
    (command.folder / "p.py").write_text(SOURCE)
    (command.folder / "t.jsonl").write_bytes(records)
    return "t.jsonl"


def test_a_text_that_tells_the_run_passes(command, made):
    (command.folder / "text.md").write_text("double is called with 4. `m` becomes 8. The output is 8.\n")

    ran = command("prove", "text.md", "--trace", made)

    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout == "passes: tells the result; claims: 3 supported, 0 refuted, 0 not found, 0 off program\n"


def test_what_is_wrong_is_told_with_its_record(command, made):
    (command.folder / "text.md").write_text("`m` becomes 9, in 3 steps. The output is 8.\n")

    ran = command("prove", "text.md", "--trace", made, "--html", "page.html")

    assert ran.code == 1
    first, second, last = ran.stdout.splitlines()
    assert first.startswith("refuted: “`m` becomes 9”: `m` is 8 at record ")
    assert second == "borne out by nothing: 9, 3"
    assert last.startswith("does not pass: tells the result; claims: 1 supported, 1 refuted")
    assert 'class="refuted"' in (command.folder / "page.html").read_text()


def test_json_is_one_object(command, made):
    ran = command("prove", "-", "--trace", made, "--json", stdin=b"m = 8. The output is 8.")

    told = json.loads(ran.stdout)
    assert (ran.code, told["passes"], told["answer"]) == (0, True, True)
    assert told["claims"] == {"supported": 2, "refuted": 0, "not_found": 0, "off_program": 0}
    assert told["numbers"] == {"covered": 2, "total": 2}
    assert [sentence["text"] for sentence in told["sentences"]] == ["m = 8.", "The output is 8."]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.md", "--trace", "t.jsonl"], "'none.md' cannot be read: No such file or directory"),
        (["latin.md", "--trace", "t.jsonl"], "'latin.md' is not UTF-8 (byte 3); save it as UTF-8"),
        (["long.md", "--trace", "t.jsonl"], "'long.md' has more than 200,000 characters; prove it in parts"),
        (["p.py", "--trace", "none.jsonl"], "'none.jsonl' cannot be read: No such file or directory"),
        (["p.py", "--trace", "p.py"], "'p.py' is no trace that can be used"),
        (["p.py", "--trace", "t.jsonl", "--answer", "abc"], "'abc' is neither JSON nor a Python literal"),
        (["p.py", "--trace", "t.jsonl", "--html", "none/page.html"], "make it first"),
        (["p.py"], "Missing option '--trace'"),
    ],
)
def test_bad_usage_is_named(command, made, arguments, words):
    (command.folder / "latin.md").write_bytes(b"caf\xe9")
    (command.folder / "long.md").write_text("x" * 200_001)

    ran = command("prove", *arguments)

    assert (ran.code, ran.stdout) == (2, "")
    assert words in ran.stderr


def test_claims_as_data_are_held_against_the_record_and_the_text_against_them(command, made):
    sentence = "The output is 8."
    document = {"text": sentence, "claims": [{"kind": "answer", "subject": "", "value": "8"}]}
    (command.folder / "claims.json").write_text(json.dumps({"schema": "groundbox.claims/1", "sentences": [document]}))

    held = command("prove", "-", "--trace", made, "--claims", "claims.json", stdin=sentence.encode())
    more = command("prove", "-", "--trace", made, "--claims", "claims.json", stdin=f"{sentence} `m` is 8.".encode())

    assert (held.code, held.stdout.partition(";")[0]) == (0, "passes: tells the result")
    assert (more.code, more.stdout.splitlines()[0]) == (1, "borne out by nothing: m, 8")


def test_what_is_no_document_of_claims_is_refused(command, made):
    (command.folder / "claims.json").write_text("{}")

    ran = command("prove", "-", "--trace", made, "--claims", "claims.json", stdin=b"m = 8.")

    assert ran.code == 2
    assert "'claims.json' is not a document of claims: Object missing required field `sentences`" in ran.stderr


def test_the_schema_of_claims_is_printed(command):
    ran = command("prove", "--claims-schema")

    assert ran.code == 0
    assert json.loads(ran.stdout) == json_schema()
