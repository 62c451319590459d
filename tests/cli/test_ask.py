"""`groundbox ask` as a program sees it: what goes where, and the exit status."""

import json
import os
from pathlib import Path

import pytest

from groundbox.cli.agents import _model_problem

FOLDER = Path(__file__).parents[2] / "examples" / "conversations"


@pytest.fixture(autouse=True)
def no_model(monkeypatch):
    monkeypatch.delenv("GROUNDBOX_MODEL", raising=False)


def recording(path, *replies, observations=(), files=None):
    """A small recording."""
    lines = [{"schema": "groundbox.conversation/1", "question": "How many?", "model": "by hand", "files": files or {}}]
    for number, reply in enumerate(replies):
        calls = [{"name": "run_code", "arguments": {"code": reply[1]}, "call_id": "c"}] if reply[0] == "run" else []
        lines.append({"event": "replied", "text": "" if calls else reply[1], "calls": calls})
        if number < len(observations):
            lines.append({"event": "observed", "run": number + 1, "observation": observations[number]})
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def test_without_a_model_it_says_what_to_set(command):
    ran = command("ask", "How many?")

    assert ran.code == 2
    assert "GROUNDBOX_MODEL" in ran.stderr
    assert "OPENAI_API_KEY" in ran.stderr
    assert "--replay FILE" in ran.stderr


def test_a_replay_needs_no_pydantic_ai_and_a_model_says_how_to_get_it(command, tmp_path, monkeypatch):
    gone = "raise ModuleNotFoundError(\"No module named 'pydantic_ai'\", name='pydantic_ai')"
    (tmp_path / "shadow").mkdir()
    (tmp_path / "shadow" / "pydantic_ai.py").write_text(gone)
    paths = [str(tmp_path / "shadow"), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))

    replayed = command("ask", "--replay", recording(tmp_path / "r.jsonl", ("run", "6 * 7"), ("say", "It is 42.")))
    asked = command("ask", "q", "--model", "openai:gpt-5")

    assert (replayed.code, replayed.stdout) == (0, "It is 42.\n")
    assert asked.code == 2
    assert "--model needs pydantic_ai: the extra `agent` of groundbox brings it" in asked.complaint.replace("\n", " ")


def test_without_a_question_there_is_nothing_to_ask(command):
    ran = command("ask")

    assert ran.code == 2
    assert "Missing argument 'QUESTION'" in ran.stderr


def test_a_recording_is_run_anew(command, nothing_left):
    ran = command("ask", "--replay", FOLDER / "mended_error.jsonl")

    assert ran.code == 0
    assert (
        ran.stdout
        == "South had the highest revenue in 2025 with 18005. That is 3185 more than west, the second, with 14820.\n"
    )
    assert "── run 2 failed (error); the model is shown" in ran.stderr
    assert "groundbox: every run shows what was recorded\n" in ran.stderr
    assert nothing_left(ran.pid) is True


def test_a_conversation_has_a_page_whose_folder_is_checked_first(command, tmp_path):
    path = recording(tmp_path / "r.jsonl", ("run", "print(6 * 7)"), ("say", "It is 42."))

    ran = command("ask", "--replay", path, "--html", "page.html")
    nowhere = command("ask", "--replay", path, "--html", "none/page.html")

    page = (command.folder / "page.html").read_text()
    assert (ran.code, ran.stdout) == (0, "It is 42.\n")
    assert "groundbox: wrote page.html" in ran.stderr
    assert "── question, to a recording, whose model was: by hand" in ran.stderr
    assert all(words in page for words in ("<h1>How many?</h1>", "print(6 * 7)", "<pre>42</pre>", "It is 42."))
    assert nowhere.code == 2
    assert "there is no folder none" in nowhere.complaint


def test_pictures_and_files_are_saved(command):
    ran = command("ask", "--replay", FOLDER / "sql_chart.jsonl", "--out", "made")

    assert ran.code == 0
    assert (command.folder / "made" / "run-3" / "display-1.png").read_bytes().startswith(b"\x89PNG")
    assert "in made/run-3/display-1.png" in ran.stderr


def test_what_differs_from_the_recording_is_told(command, tmp_path):
    file = recording(tmp_path / "r.jsonl", ("run", "print(42)"), ("say", "42"), observations=["run 1 (python): ok\n41"])

    ran = command("ask", "--replay", file)

    assert ran.code == 0
    assert "groundbox: run 1 shows something else than was recorded: line 2: recorded '41'" in ran.stderr
    assert "every run shows" not in ran.stderr


def test_what_is_saved_can_be_replayed_and_has_every_receipt(command, tmp_path):
    file = recording(
        tmp_path / "r.jsonl", ("run", "print(open('a').read())"), ("say", "It is x."), files={"a": {"text": "x"}}
    )

    first = command("ask", "--replay", file, "--save", "kept.jsonl")
    second = command("ask", "--replay", "kept.jsonl", "--json")

    lines = [json.loads(line) for line in (command.folder / "kept.jsonl").read_text().splitlines()]
    receipts = [line["receipt"] for line in lines if "receipt" in line]
    assert (first.code, second.code) == (0, 0)
    assert [each["stdout"] for each in receipts] == ["x\n"]
    assert [json.loads(line)["event"] for line in second.stdout.splitlines()] == [
        "replied", "started", "observed", "replied", "ended",
    ]  # fmt: skip
    assert second.stderr == ""


def test_a_conversation_that_is_not_answered_says_why(command, tmp_path):
    file = recording(tmp_path / "r.jsonl", *[("run", "1")] * 3)

    ran = command("ask", "--replay", file, "--max-turns", "2")

    assert ran.code == 1
    assert ran.stdout == ""
    assert "groundbox: no answer: 2 turns are used up (max_turns=2)" in ran.stderr


def test_a_recording_that_ends_before_its_answer_is_our_failure(command, tmp_path):
    ran = command("ask", "--replay", recording(tmp_path / "r.jsonl", ("run", "1")))

    assert ran.code == 3
    assert "all 1 replies of the recording have been given, and none of them ended it" in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--replay", "nowhere"], "'nowhere' cannot be read"),
        (["--replay", os.devnull], "does not begin with a header of groundbox.conversation/1. A recording is what"),
        (["--replay", os.curdir], "'.' is a folder; name a file in it"),
        ([" ", "--model", "openai:gpt-5"], "Missing argument 'QUESTION'"),
        (["q", "--save", "/proc/x", "--replay"], "'--save': /proc/x cannot be written: No such file or directory"),
        (["q", "--file", "x:../out", "--replay"], "'--file': '../out' must be a path inside the workdir"),
        (["q", "--db", "oracle://x"], "oracle is not asked"),
        (["q", "--db", "nowhere"], "nowhere"),
        (["q", "--save", "no/folder"], "there is no folder no"),
        (["q", "--file", "nowhere"], "cannot be read"),
    ],
)
def test_bad_usage_names_the_option(command, tmp_path, arguments, complaint):
    (command.folder / "x").write_text("1")
    if arguments[-1] == "--replay":
        arguments = [*arguments, recording(tmp_path / "r.jsonl", ("say", "x"))]

    ran = command("ask", *arguments)

    assert ran.code == 2
    assert complaint in ran.complaint.replace("\n", " ")


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        ("gpt-5", "'gpt-5' names no provider. Say PROVIDER:NAME, such as openai:gpt-5 or"),
        ("nosuch:gpt-5", "'nosuch:gpt-5' is of no provider that is known here. Say PROVIDER:NAME, such as"),
    ],
)
def test_a_model_that_is_not_known_says_how_one_is_named(command, model, complaint):
    pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed here: groundbox[agent]")

    ran = command("ask", "q", "--model", model)

    assert ran.code == 2
    assert complaint in ran.complaint.replace("\n", " ")


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        (
            "Set the `OPENAI_API_KEY` environment variable or pass it via `OpenAIProvider(api_key=...)` to use it.",
            "the key of openai is not set. Say `export OPENAI_API_KEY=…` with the one you have",
        ),
        ("Please install the `openai` package", "Please install the `openai` package"),
    ],
)
def test_a_key_that_is_not_set_is_told_for_the_shell(problem, told):
    assert _model_problem("openai:gpt-5", problem) == told


def test_a_recording_without_its_files_asks_for_them(command, tmp_path):
    file = recording(tmp_path / "r.jsonl", ("say", "x"), files={"big.bin": {"size_bytes": 9}})

    ran = command("ask", "--replay", file)

    assert ran.code == 2
    assert "the recording needs 'big.bin'" in ran.stderr


@pytest.mark.parametrize(
    ("replies", "code", "why"),
    [
        ((("run", "6 * 7"), ("say", "It is 42.")), 0, None),
        ((("run", "6 * 7"), ("say", "It is 43."), ("say", "It is 43.")), 4, "1 claim of it not shown by any"),
        ((("say", "It is 43."), ("say", "It is 43.")), 4, "no run ended well"),
        ((("say", "Quite a lot."),), 4, "no run ended well"),
        ((("run", "1 / 0"), ("say", "It cannot be done.")), 4, "no run ended well"),
    ],
)
def test_strict_has_an_exit_status_for_an_answer_that_no_run_supports_and_says_so_first(
    command, tmp_path, replies, code, why
):
    file = recording(tmp_path / "r.jsonl", *replies)

    strict, usual = command("ask", "--strict", "--replay", file), command("ask", "--replay", file)

    assert (strict.code, usual.code, strict.stdout) == (code, 0, usual.stdout)
    warning = f"groundbox: the runs do not support this answer: {why}"
    assert (warning in strict.stderr) is (why is not None)
    assert why is None or strict.stderr.index(warning) < strict.stderr.index("── answer")
    assert "do not support" not in usual.stderr
