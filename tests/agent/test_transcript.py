import base64
import json

import pytest

from groundbox.agent import transcript
from groundbox.agent.events import Ended, Ending, Noticed, Observed, Replied
from groundbox.agent.messages import Call, Cost, Reply
from groundbox.agent.observation import observe
from groundbox.agent.turn import Decision, Verdict
from groundbox.errors import InvalidArgument

REPLY = Reply(
    text="so",
    calls=[Call(name="run_code", arguments='{"code": "1"}', call_id="c1")],
    cost=Cost(input_tokens=3, dollars=0.5),
)


def saved(*events, files=None):
    first = transcript.header("How many?", "scripted", files or {}, ["shop"])
    return "\n".join(json.dumps(each) for each in [first, *map(transcript.line, events)])


def observed(execution, run=1):
    return Observed(
        run=run,
        source="print(1)",
        execution=execution,
        findings=[],
        decision=Decision(verdict=Verdict.ACCEPT),
        observation=observe(execution, run=run),
    )


def test_what_is_saved_can_be_run_again(made):
    execution = made.execution(stdout="1\n")
    text = saved(Replied(turn=1, reply=REPLY), observed(execution), Noticed(kind="read", text="x"),
                 Ended(ending=Ending.ANSWERED, answer="1"), files={"a.csv": b"x\n1\n", "b.bin": b"\xff"})  # fmt: skip

    recording = transcript.parse(text, "it")

    assert recording.question == "How many?"
    assert recording.model == "scripted"
    assert recording.replies == [REPLY]
    assert recording.files == {"a.csv": "x\n1\n"}
    assert recording.missing == ["b.bin"]
    assert recording.databases == ["shop"]
    assert recording.observations == {1: observe(execution).text}


def test_a_receipt_has_all_but_the_bytes_of_pictures(made):
    data = made.png()

    told = transcript.line(observed(made.execution(stdout="1\n", displays=[made.picture(data)])))["receipt"]

    assert told["source"] == "print(1)"
    assert told["stdout"] == "1\n"
    assert told["displays"][0]["image/png"]["size_bytes"] == len(data)
    assert base64.b64encode(data).decode() not in json.dumps(told)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "does not begin with a header"),
        ("[]", "line 1 is no JSON object"),
        ("{", "line 1 is not JSON"),
        ("[" * 100_000, "line 1 is not JSON"),
        ('{"schema": "other/1"}', "does not begin with a header"),
        (saved() + '\n{"event": "replied", "calls": [{}]}', "line 2: KeyError"),
        (saved() + '\n{"event": "replied", "cost": {"dollars": "much"}}', "`cost` holds numbers"),
        (saved() + '\n{"event": "observed", "run": "x"}', "line 2"),
        ('{"schema": "groundbox.conversation/1", "files": [1]}', "`files` are objects"),
    ],
)
def test_what_is_no_recording_is_refused_with_its_line(text, problem):
    with pytest.raises(InvalidArgument, match=problem):
        transcript.parse(text, "it")


def test_the_first_difference_is_named(made):
    before, after = (observe(made.execution(stdout=text)).text for text in ("a\n1\n", "a\n2\n"))

    assert transcript.difference(before, before) == ""
    assert transcript.difference(before, after) == "line 4: recorded '1', now '2'"
    assert transcript.difference(before, before + "\nmore") == "recorded 5 lines, now 6"


def test_how_long_a_run_took_is_no_difference():
    assert transcript.difference("run 1 (sql): ok", "run 1 (sql): ok, after 2 s, pictures attached") != ""
    assert transcript.difference("run 1 (sql): ok", "run 1 (sql): ok, after 2 s") == ""
    assert transcript.difference("1 left, after 1 s", "1 left, after 2 s") != ""
