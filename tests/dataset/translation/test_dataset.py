"""A dataset told anew: what is written and counted, and that nothing is paid for twice."""

import asyncio
import dataclasses
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from dataset_fakes import FakeRunner, prove_foreign
from endpoint_fakes import Narrator, completion, serving
from test_build import tools

from groundbox.dataset import model_telling, sample_files
from groundbox.dataset.build import CARD, PAGE, REPORT, build
from groundbox.dataset.options import BuildOptions
from groundbox.dataset.reproof import reasoning_of
from groundbox.dataset.translation.answer_cache import Cache
from groundbox.dataset.translation.dataset import ANSWERS, translate_dataset
from groundbox.dataset.translation.endpoint import Endpoint, response_format
from groundbox.dataset.translation.options import TranslateOptions
from groundbox.dataset.translation.prompts import reading_schema, schema
from groundbox.dataset.verify import verify as verify_by
from groundbox.endpoint.answer import MOST_BYTES
from groundbox.endpoint.chat import EndpointFailed
from groundbox.errors import InvalidArgument, SandboxLost
from groundbox.trace.claims import decode

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[3] / "examples" / "problems"
KILLED = Path(__file__).parents[1] / "killed_translation.py"
FINAL = (*sample_files.FILES, CARD, PAGE)
WRONG = "nothing becomes 99."


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    out = tmp_path_factory.mktemp("dataset") / "d"
    problems = (EXAMPLES / "everyday.jsonl", EXAMPLES / "plain.jsonl")
    asyncio.run(build(BuildOptions(problems=problems), out, tools()))
    return out


def samples(folder):
    return list(sample_files.read_samples(folder / sample_files.SAMPLES))


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def truth(item, attempt, true):
    return true


def told(dataset, out, says=truth, *, answer=None, limit=8, runner=None, prover=prove_foreign, **more):
    """The report of a translation by a model that says this, or answers so, and the requests that it took."""
    with serving(answer or Narrator(samples(dataset), says)) as (url, asked):

        def connect(cache):
            return Endpoint(url, "m", at_once=4, pause_s=0.0, cache=cache)

        options = TranslateOptions(model="m", limit=limit, at_once=4, **{"tells": "prose", **more})
        made = dataclasses.replace(tools(runner=runner), telling_prover=prover)
        return asyncio.run(translate_dataset(dataset, out, options, made, connect)), asked


def verify(out):
    return asyncio.run(verify_by(out, dataclasses.replace(tools(), telling_prover=prove_foreign)))


def contents(out):
    return {name: (out / name).read_bytes() for name in FINAL}


def test_true_narrations_become_a_dataset_that_is_verified(dataset, tmp_path):
    report, asked = told(dataset, tmp_path / "out", limit=None)

    rows, old = samples(tmp_path / "out"), {row.id: row for row in samples(dataset)}
    assert {row.task for row in rows} == {"output", "exception"}
    for row in rows:
        same = dataclasses.replace(
            old[row.id],
            style="grounded",
            detail="m",
            narration="",
            reply=f"{reasoning_of(row)}\n\nAnswer: {row.answer}",
        )
        assert row == dataclasses.replace(same, claims=row.claims, proven=row.proven, coverage=row.coverage)
    assert report["items"] == report["kept"] == len({row.item for row in old.values()}) == len(asked)
    assert report["translation"]["asked"] == report["translation"]["accepted_at_first"] == len(asked)
    assert report["translation"]["tokens"] == {"prompt": 7 * len(asked), "completion": 3 * len(asked)}
    assert report["translation"]["faithfulness"]["accepted"]["least"] == 1.0
    assert report["samples_by_style"] == {"grounded": len(rows)}
    found = verify(tmp_path / "out")
    assert (found.differences, found.samples) == ([], len(rows))


def test_chats_and_the_card_are_those_of_the_rows(dataset, tmp_path):
    told(dataset, tmp_path / "out", limit=None)

    rows = samples(tmp_path / "out")
    assert lines(tmp_path / "out" / "sft.jsonl") == [row.chat() for row in rows if row.split == "train"]
    card = (tmp_path / "out" / CARD).read_text()
    assert "The tellings were written by the model m, asked with the prompt `grounded`" in card
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted([".shards", ANSWERS, REPORT, *FINAL])


def test_what_is_wrong_is_repaired_once_or_dropped_with_the_claims_and_all_is_counted(dataset, tmp_path):
    first, second, third, fourth, *_ = dict.fromkeys(row.item for row in samples(dataset))

    def says(item, attempt, true):
        wrong = {first: attempt == 0, second: True}.get(item, False)
        return WRONG if wrong else f"<think>hm, {WRONG}</think>\n{true}" if item == third else true

    report, asked = told(dataset, tmp_path / "out", says, limit=4)

    (drop,) = lines(tmp_path / "out" / "dropped.jsonl")
    assert {row.item for row in samples(tmp_path / "out")} == {first, third, fourth}
    assert (drop["item"], drop["stage"], drop["reason"]) == (second, "translate", "unproven-claims")
    assert drop["facts"] == {"failed": ["something differs"], "text": WRONG}
    assert report["dropped"] == {"unproven-claims": 1}
    counts = report["translation"]
    assert (counts["accepted_at_first"], counts["accepted_when_repaired"], counts["rejected_when_repaired"]) == (
        2,
        1,
        1,
    )
    assert (counts["asked"], counts["cached"], len(asked)) == (6, 0, 6)
    repairs = [body["messages"] for _, _, body in asked if len(body["messages"]) == 3]
    assert [each[1]["content"] for each in repairs] == [WRONG, WRONG]
    assert all("- something differs" in each[2]["content"] for each in repairs)
    assert not any("<think>" in row.reply for row in samples(tmp_path / "out"))


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("<think>so", "unfinished-thinking"),
        ("<think>so</think>", "empty"),
        (completion("x becomes", finish="length"), "cut-short"),
        (completion(None), "empty"),
        (completion("x" * MOST_BYTES), "answer-too-large"),
    ],
)
def test_what_is_no_narration_is_dropped_by_name(dataset, tmp_path, said, reason):
    report, asked = told(dataset, tmp_path / "out", lambda item, attempt, true: said, limit=2)

    assert (report["dropped"], report["samples"], len(asked)) == ({reason: 2}, 0, 2)


def test_a_narration_of_which_little_can_be_checked_is_not_taken(dataset, tmp_path):
    def half(telling, trace, expected):
        return dataclasses.replace(prove_foreign(telling, trace, expected), coverage=0.4)

    strict, asked = told(dataset, tmp_path / "strict", limit=2, prover=half)
    lax, _ = told(dataset, tmp_path / "lax", limit=2, prover=half, least_coverage=0.4)

    assert (strict["dropped"], lax["dropped"]) == ({"little-checked": 2}, {})
    assert "in words that can be checked" in asked[-1][2]["messages"][2]["content"]


def test_a_last_line_with_the_answer_is_not_said_twice(dataset, tmp_path):
    answers = {row.item: row.answer for row in samples(dataset) if row.task == "output"}

    told(dataset, tmp_path / "out", lambda item, attempt, true: f"{true}\n\n**Answer:** {answers[item]}", limit=2)

    rows = samples(tmp_path / "out")
    assert [row.reply.count("Answer:") for row in rows] == [1, 1]
    assert verify(tmp_path / "out").differences == []


def test_the_paper_is_asked_in_its_own_words_and_with_the_raw_trace(dataset, tmp_path):
    report, asked = told(dataset, tmp_path / "out", limit=1, prompt="paper")

    question = asked[0][2]["messages"][0]["content"]
    assert "mention neither the trace nor that one was given" in question
    assert "state: " in question
    assert report["samples_by_style"] == {"paper": 1}


def test_a_program_that_does_something_else_today_is_not_told(dataset, tmp_path):
    def other(request, ran):
        return dataclasses.replace(ran, answer=dataclasses.replace(ran.answer, stdout="new"))

    report, asked = told(dataset, tmp_path / "out", limit=2, runner=FakeRunner(other))

    assert (report["dropped"], asked) == ({"run-differs": 2}, [])


def test_a_sandbox_that_is_lost_again_and_again_costs_its_item(dataset, tmp_path):
    def lost(request, ran):
        raise SandboxLost("gone")

    report, _ = told(dataset, tmp_path / "out", limit=2, runner=FakeRunner(lost))

    assert report["dropped"] == {"sandbox-lost": 2}


def test_a_trace_that_is_too_long_is_not_shown(dataset, tmp_path):
    report, asked = told(dataset, tmp_path / "out", limit=2, max_trace_chars=10)

    assert (report["dropped"], asked) == ({"long-trace": 2}, [])


def test_an_item_without_a_question_that_a_whole_telling_leads_to_is_named(tmp_path):
    options = BuildOptions(problems=(EXAMPLES / "plain.jsonl",), tasks=("next_line",))
    asyncio.run(build(options, tmp_path / "d", tools()))

    report, asked = told(tmp_path / "d", tmp_path / "out", limit=2)

    assert (report["dropped"], asked) == ({"no-question": 2}, [])


def test_a_prover_that_fails_costs_its_item(dataset, tmp_path):
    def fail(telling, trace, expected):
        raise KeyError("prover")

    report, _ = told(dataset, tmp_path / "out", limit=2, prover=fail)

    assert report["dropped"] == {"prover-failed": 2}
    assert (report["translation"]["asked"], report["translation"]["tokens"]["prompt"]) == (2, 14)


def test_a_request_that_is_refused_costs_its_item_and_an_endpoint_that_refuses_all_ends_the_work(dataset, tmp_path):
    first = samples(dataset)[0].item
    too_long = (400, {}, {"error": "maximum context length is 10 tokens"})
    narrator = Narrator(samples(dataset), lambda item, attempt, true: too_long if item == first else true)

    def answer(body, key):
        return completion("yes") if body["messages"][0]["content"] == "Say yes." else narrator(body, key)

    report, _ = told(dataset, tmp_path / "out", answer=answer, limit=3)
    assert report["dropped"] == {"request-refused": 1}
    assert "maximum context length" in lines(tmp_path / "out" / "dropped.jsonl")[0]["detail"]

    with pytest.raises(EndpointFailed, match="no such option"):
        told(dataset, tmp_path / "none", answer=lambda body, key: (400, {}, {"error": "no such option"}))
    assert not (tmp_path / "none" / REPORT).exists()


def test_a_finished_translation_asks_nothing_and_a_higher_limit_asks_for_the_rest(dataset, tmp_path):
    first, asked = told(dataset, tmp_path / "out", limit=3)
    again, none = told(dataset, tmp_path / "out", limit=3)
    more, rest = told(dataset, tmp_path / "out", limit=5)
    told(dataset, tmp_path / "whole", limit=5)

    assert (first, len(asked), len(none), len(rest)) == (again, 3, 0, 2)
    assert (more["items"], more["translation"]["asked"], more["translation"]["cached"]) == (5, 5, 3)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_a_file_that_was_damaged_is_made_again_without_asking(dataset, tmp_path):
    told(dataset, tmp_path / "out", limit=3)
    before = contents(tmp_path / "out")
    (tmp_path / "out" / sample_files.SAMPLES).write_bytes(b"damaged")

    _, asked = told(dataset, tmp_path / "out", limit=3)

    assert (contents(tmp_path / "out"), asked) == (before, [])


def test_an_endpoint_that_goes_away_loses_nothing(dataset, tmp_path):
    class Leaving(Narrator):
        left = 3

        def __call__(self, body, authorization):
            with self.lock:
                self.left -= 1
            return super().__call__(body, authorization) if self.left >= 0 else (401, {}, {"error": "expired"})

    with pytest.raises(EndpointFailed, match=r"status 401.*--api-key-env"):
        told(dataset, tmp_path / "out", answer=Leaving(samples(dataset)))
    answered = len(lines(tmp_path / "out" / ANSWERS))
    _, asked = told(dataset, tmp_path / "out")
    told(dataset, tmp_path / "whole")

    assert answered + len(asked) == 8
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_kills_at_any_moment_cost_no_answer_and_change_no_byte(dataset, tmp_path):
    def says(item, attempt, true):
        return WRONG if len(true) % 3 == attempt else true

    whole, all_asked = told(dataset, tmp_path / "whole", says, limit=None)
    out, answered = tmp_path / "out", 0
    for gate in (3, 17, 30):
        model = Narrator(samples(dataset), says, gate=gate)
        with serving(model) as (url, _):
            process = subprocess.Popen([sys.executable, KILLED, dataset, out, url], stderr=subprocess.PIPE)
            assert model.waits.wait(120)
            process.kill()
            _, errors = process.communicate()
            assert process.returncode == -9, errors.decode()
        assert len(lines_that_are_whole(out / ANSWERS)) <= answered + gate
        answered = len(lines_that_are_whole(out / ANSWERS))

    report, rest = told(dataset, out, says, limit=None)

    assert len(rest) == len(all_asked) - answered
    assert answered >= 3
    asked_twice = [each for each, count in Counter(json.dumps(body) for _, _, body in rest).items() if count > 1]
    assert asked_twice == []
    assert contents(out) == contents(tmp_path / "whole")
    times = {"seconds", "translation"}
    assert {key: report[key] for key in report.keys() - times} == {key: whole[key] for key in whole.keys() - times}
    assert report["translation"] == {**whole["translation"], "cached": answered}


def lines_that_are_whole(path):
    return [json.loads(line) for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda d: {"folder": d.parent}, "holds no finished dataset"),
        (lambda d: {"out": d}, "is the dataset itself; name another folder"),
        (lambda d: {"model": "other"}, r"holds a build with other arguments \(model: \"m\" there, \"other\" here\)"),
    ],
)
def test_folders_that_cannot_be_meant_are_refused(dataset, tmp_path, change, complaint):
    told(dataset, tmp_path / "out", limit=1)
    given = {"folder": dataset, "out": tmp_path / "out", "model": "m", **change(dataset)}
    options = TranslateOptions(model=given["model"], tells="prose")

    with pytest.raises(InvalidArgument, match=complaint):
        asyncio.run(translate_dataset(given["folder"], given["out"], options, tools(), None))


def test_rows_that_were_changed_are_refused(dataset, tmp_path):
    shutil.copytree(dataset, tmp_path / "copy")
    (tmp_path / "copy" / sample_files.SAMPLES).write_bytes(b"")

    with pytest.raises(InvalidArgument, match="is not as it was written"):
        told(tmp_path / "copy", tmp_path / "out", answer=truth)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"prompt": "poem"}, "prompt: 'poem' is none of grounded, paper"),
        ({"least_coverage": 1.5}, "least_coverage: must be from 0 to 1, not 1.5"),
        ({"limit": 0}, "limit: must be 1 or more, not 0"),
        ({"request": {"stream": True}}, "request: stream cannot be set"),
        ({"request": {"top_p": float("nan")}}, "request: it cannot be written as JSON: .*"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(given, complaint):
    with pytest.raises(InvalidArgument, match=f"^{complaint}"):
        TranslateOptions(model="m", **given)


def test_answers_of_somebody_else_are_not_thrown_away(tmp_path):
    (tmp_path / ANSWERS).write_text('{"my": "notes"}\n')

    with pytest.raises(InvalidArgument, match=r"line 1 of .* is no answer of ours"):
        Cache(tmp_path / ANSWERS)

    assert (tmp_path / ANSWERS).read_text() == '{"my": "notes"}\n'


def as_claims(true):
    """What the narrator of tests tells, with its claims: `x becomes 3.`"""
    told = re.findall(r"(\w+) becomes (.*?)\.(?= |$)", true)
    return [
        {"text": f"`{name}` becomes {value}.", "claims": [{"kind": "value", "subject": name, "value": value}]}
        for name, value in told
    ]


class Writer(Narrator):
    """A model that tells the first items with their claims, and makes the mistakes that it is told to make."""

    def __init__(self, rows, flaw=lambda number, attempt, sentences: sentences, **more):
        order = list(dict.fromkeys(row.item for row in rows))
        answers = {row.item: row.answer for row in rows if row.task == "output" and row.entry}

        def says(item, attempt, true):
            end: list[dict[str, Any]] = [{"text": "That is all.", "claims": []}]
            if item in answers:
                claim = {"kind": "answer", "subject": "", "value": answers[item]}
                end = [{"text": f"So it is {answers[item]}.", "claims": [claim]}]
            filler = [{"text": "So it goes.", "claims": []}] * 4
            made = flaw(order.index(item), attempt, [*as_claims(true), *filler, *end])
            return made if isinstance(made, str) else json.dumps({"sentences": made})

        super().__init__(rows, says, **more)


WRONG_SENTENCE = {"text": "It is 99.", "claims": [{"kind": "value", "subject": "total", "value": "99"}]}


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    """Some functions, of which all values are shown in traces of tests."""
    out = tmp_path_factory.mktemp("calls")
    rows = [
        {
            "source": f"def add{n}(a, b):\n    total = a + b\n    total = total * {n}\n    return total\n",
            "entry": f"add{n}",
            "statement": f"Add two numbers and take the sum {n} times. This is problem number {n} of {n * n}.",
            "cases": [{"args": [n, 1]}, {"args": [5, n]}, {"args": [n, 7]}],
        }
        for n in (2, 3)
    ]
    (out / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = BuildOptions(problems=(out / "problems.jsonl",), tasks=("output",), near_duplicate=1.0)
    asyncio.run(build(options, out / "d", tools()))
    return out / "d"


def told_with_claims(dataset, out, flaw, **more):
    flawed = {"flaw": flaw} if flaw else {}
    model = Writer(samples(dataset), **flawed)
    return told(dataset, out, answer=model, prover=model_telling.prove, tells="claims", least_coverage=0.2, **more)


def test_sentences_with_claims_become_rows_that_carry_them_and_are_verified(calls, tmp_path):
    report, asked = told_with_claims(calls, tmp_path / "out", None, limit=None)

    rows = samples(tmp_path / "out")
    assert (report["kept"], report["items"], len(rows)) == (6, 6, 6)
    assert all(body["response_format"] == response_format(schema()) for _, _, body in asked)
    for row in rows:
        document = decode(row.claims_data)
        assert all(each.text in row.reply and each.claims for each in document.sentences)
        assert row.reply.endswith(f"So it goes. So it is {row.answer}.\n\nAnswer: {row.answer}")
        assert row.claims == row.proven == sum(len(each.claims) for each in document.sentences)
    verified = asyncio.run(verify_by(tmp_path / "out", tools()))
    assert verified.differences == []


def test_a_claim_that_somebody_puts_into_a_row_is_found(calls, tmp_path):
    told_with_claims(calls, tmp_path / "out", None, limit=None)
    rows = samples(tmp_path / "out")
    claims = rows[0].claims_data.replace('"value": "3"', '"value": "77"', 1)
    with sample_files.writing(tmp_path / "out") as writer:
        for row in rows:
            writer.sample(dataclasses.replace(row, claims_data=claims) if row is rows[0] else row)

    verified = asyncio.run(verify_by(tmp_path / "out", tools()))

    assert claims != rows[0].claims_data
    assert (rows[0].item, "claim") in {(each.where, each.what) for each in verified.differences}


def test_what_fails_is_repaired_left_out_or_dropped_and_each_is_counted(calls, tmp_path):
    def flaw(number, attempt, sentences):
        wrong = {
            0: [],
            1: [WRONG_SENTENCE] * (attempt == 0),
            2: [WRONG_SENTENCE],
            3: [WRONG_SENTENCE] * 3,
            4: [],
            5: [],
        }[number]
        if number == 4:
            return '{"sentences": [{"text": "It is'
        return [*wrong, *sentences[:-1]] if number == 5 else [*wrong, *sentences]

    report, asked = told_with_claims(calls, tmp_path / "out", flaw, limit=None)

    counts = report["translation"]
    assert report["dropped"] == {"torn-claims": 1, "unproven-claims": 2}
    assert [counts[f"accepted_{how}"] for how in ("at_first", "when_repaired", "when_mended")] == [1, 1, 1]
    assert (counts["rejected_when_repaired"], len(asked)) == (3, 11)
    assert report["mended"]["left_out"] == [{"item": samples(calls)[2].item, "sentence": "It is 99."}]
    mended = samples(tmp_path / "out")[2]
    assert (mended.left_out, mended.reply.startswith("A step is left out here. `total` becomes ")) == (1, True)
    repairs = [body["messages"][2]["content"] for _, _, body in asked if len(body["messages"]) == 3]
    assert len(repairs) == 5
    assert not any("99" in each for each in repairs)
    assert sum("- Sentence 1 (“It is …”): `total` is " in each for each in repairs) == 3
    drops = {each["reason"]: each for each in lines(tmp_path / "out" / "dropped.jsonl")}
    assert drops["torn-claims"]["facts"] == {"text": '{"sentences": [{"text": "It is'}
    assert drops["torn-claims"]["detail"] == "it is not one JSON object of the form that was asked for"


def test_an_endpoint_without_schemas_gives_prose_and_it_is_said(calls, tmp_path):
    prose = Narrator(samples(calls), lambda item, attempt, true: f"{true} {result(calls, item)}")

    def answer(body, key):
        return (400, {}, {"error": "unknown response_format"}) if "response_format" in body else (
            completion("yes") if body["messages"][0]["content"] == "Say yes." else prose(body, key)
        )  # fmt: skip

    report, asked = told(calls, tmp_path / "out", answer=answer, prover=model_telling.prove, tells="claims", limit=None)

    assert (report["kept"], report["translation"]["fell_back"]) == (6, 6)
    assert {row.claims_data for row in samples(tmp_path / "out")} == {""}
    assert sum("response_format" not in body and len(body["messages"][0]["content"]) > 9 for _, _, body in asked) == 6
    assert asyncio.run(verify_by(tmp_path / "out", tools())).differences == []


def result(dataset, item):
    (row,) = [row for row in samples(dataset) if row.item == item]
    return f"So {row.entry} returns {row.answer}."


def test_a_translation_with_claims_that_was_stopped_asks_nothing_twice(calls, tmp_path):
    def flaw(number, attempt, sentences):
        return [*[WRONG_SENTENCE] * (number % 2), *sentences]

    class Leaving(Writer):
        left = 4

        def __call__(self, body, authorization):
            with self.lock:
                self.left -= 1
            return super().__call__(body, authorization) if self.left >= 0 else (401, {}, {"error": "expired"})

    more = {"prover": model_telling.prove, "tells": "claims", "least_coverage": 0.2}
    with pytest.raises(EndpointFailed, match="expired"):
        told(calls, tmp_path / "out", answer=Leaving(samples(calls), flaw), **more)
    kept = len(lines(tmp_path / "out" / ANSWERS))
    _, asked = told(calls, tmp_path / "out", answer=Writer(samples(calls), flaw), **more)
    _, whole = told(calls, tmp_path / "whole", answer=Writer(samples(calls), flaw), **more)

    assert kept >= 1
    assert kept + len(asked) == len(whole) == 9
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def reading_of(question):
    """The claims of numbered sentences, by a reader who knows two wordings."""
    found = []
    for number, text in re.findall(r"^(\d+)\. (.*)$", question.partition("The sentences:")[2], re.MULTILINE):
        claims = [
            {"kind": "value", "subject": name, "value": value}
            for name, value in re.findall(r"`(\w+)` flurbs (.*)\.$", text)
        ]
        claims += [
            {"kind": "return", "subject": name, "value": value}
            for name, value in re.findall(r"So (\w+) returns (.*)\.$", text)
        ]
        found.append({"number": int(number), "claims": claims})
    return json.dumps({"sentences": found})


def test_a_reader_reads_what_no_wording_does_and_is_not_believed(calls, tmp_path):
    first = samples(calls)[0].item

    def says(item, attempt, true):
        prose = re.sub(r"(\w+) becomes", r"`\1` flurbs", true)
        return f"{prose.replace('flurbs', 'flurbs 1') if item == first else prose} {result(calls, item)}"

    prose = Narrator(samples(calls), says)

    def answer(body, key):
        question = body["messages"][0]["content"]
        return completion(reading_of(question)) if "The sentences:" in question else prose(body, key)

    report, asked = told(calls, tmp_path / "out", answer=answer, prover=model_telling.prove, tells="reader", limit=None)

    rows = samples(tmp_path / "out")
    assert (report["kept"], report["dropped"], report["translation"]["read"]) == (5, {"unproven-claims": 1}, 6)
    assert all("flurbs" in row.reply and decode(row.claims_data).text in row.reply for row in rows)
    assert [body.get("response_format") for _, _, body in asked].count(
        response_format(reading_schema())
    ) == 6  # the same prose is read once
    assert asyncio.run(verify_by(tmp_path / "out", tools())).differences == []
