"""Sentences that a proof does not bear out are left out of a telling, if they are few, and the rest is proven anew."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
from pathlib import Path

import pytest
from dataset_fakes import FakeRunner
from test_build import Inline

import groundbox
from groundbox.dataset import sample_files
from groundbox.dataset.build import CARD, PAGE, REPORT, Tools, build
from groundbox.dataset.narration import LEFT_OUT, Proved, Said, Told, mended, prove, tell
from groundbox.dataset.options import BuildOptions
from groundbox.dataset.verify import verify

EXAMPLES = Path(__file__).parents[2] / "examples" / "problems"
SOURCE = """\
def spent(prices):
    total = 0
    for price in prices:
        total += price
    best = max(prices)
    rest = total - best
    half = rest // 2
    half = half + best
    name = "rest"
    return half, len(name)
"""
UNTRUE = re.compile(r"untrue|unclear")


def telling(*texts):
    sentences = [Said(text=text, until=number, values=("1",)) for number, text in enumerate(texts)]
    return Told(text=" ".join(texts), sentences=sentences, claims=len(texts), style="prose", detail="full")


def judge(told, trace=None):
    """A prover to whom sentences say themselves what they are; whatever is `untrue` is wrong, not only unclear."""
    text = told.text
    found = [each.start() for each in UNTRUE.finditer(text)]
    failed = tuple("it is untrue" for _ in re.findall("untrue", text))
    total = text.count(".")
    return Proved(
        faithful=not failed, total=total, proven=total - len(found), coverage=1.0, failed=failed, unproven=tuple(found)
    )


@pytest.fixture(scope="module")
def trace():
    return groundbox.run(SOURCE, mode="call", call="spent", args=[[3, 8, 4]], trace=True).trace


@pytest.mark.parametrize("word", ["untrue", "unclear"])
def test_a_sentence_that_is_not_proven_is_left_out(word):
    found = mended(telling("One.", f"This is {word}.", "Two.", "Three.", "The answer."), None, judge)

    assert found.told.text == f"One. {LEFT_OUT} Two. Three. The answer."
    assert found.left_out == (f"This is {word}.",)
    assert found.proved.whole
    assert not found.first.whole


def test_what_is_left_out_tells_no_value_and_keeps_its_place():
    told = mended(telling("One.", "Untrue: untrue.", "Two.", "Three.", "The answer."), None, judge).told

    assert [each.values for each in told.sentences] == [("1",), (), ("1",), ("1",), ("1",)]
    assert told.upto(1) == f"One. {LEFT_OUT}"
    assert told.count_upto(2) == 3


@pytest.mark.parametrize(
    "texts",
    [
        ["One.", "It is untrue.", "Two.", "The answer."],
        ["It is untrue.", "One.", "Two.", "It is untrue, too.", "The answer."],
        ["One.", "Two.", "Three.", "Four.", "The answer is untrue."],
    ],
    ids=["of too few", "too many", "the answer"],
)
def test_a_telling_that_little_would_not_mend_stays_as_it_is(texts):
    told = telling(*texts)

    found = mended(told, None, judge)

    assert (found.told, found.proved, found.left_out) == (told, found.first, ())
    assert not found.proved.faithful


def test_a_claim_that_fails_for_want_of_another_goes_with_it():
    def strict(told, trace):
        proved, text = judge(told), told.text
        if "untrue" not in text and "hangs on it" in text:
            return dataclasses.replace(proved, faithful=False, failed=("alone",), unproven=(text.index("It hangs"),))
        return proved

    texts = ["One.", "It is untrue.", "It hangs on it.", *["More."] * 8, "The answer."]
    found = mended(telling(*texts), None, strict)

    assert found.left_out == ("It is untrue.", "It hangs on it.")
    assert found.proved.whole


@pytest.mark.parametrize("style", ["prose", "steps", "backward"])
def test_the_real_proof_takes_a_telling_without_the_sentence_that_was_made_false(trace, style):
    told = tell(trace, style=style, seed=3, max_chars=10_000)
    place, false = next((n, s.text.replace("7", "9", 1)) for n, s in enumerate(told.sentences) if "= 7" in s.text)
    sentences = [dataclasses.replace(s, text=false) if n == place else s for n, s in enumerate(told.sentences)]
    wrong = dataclasses.replace(told, text=told.text.replace(told.sentences[place].text, false), sentences=sentences)

    found = mended(wrong, trace, prove)

    assert prove(told, trace).whole
    assert not prove(wrong, trace).faithful
    assert found.left_out == (false,)
    assert found.told.text == told.text.replace(told.sentences[place].text, LEFT_OUT)
    assert found.proved.whole


def test_the_real_proof_passes_over_updates_only_where_the_text_says_so(trace):
    told = tell(trace, style="prose", seed=3, max_chars=10_000)
    place = next(n for n, each in enumerate(told.sentences) if "from 3 to 11" in each.text)
    silent = told.without({place})
    gone = dataclasses.replace(
        silent,
        text=silent.text.replace(f"{LEFT_OUT} ", ""),
        sentences=[each for n, each in enumerate(told.sentences) if n != place],
    )

    assert prove(silent, trace).whole
    assert not prove(gone, trace).whole


def test_a_build_counts_what_it_leaves_out_and_verify_takes_it(tmp_path):
    def slip(trace, **options):
        told = tell(trace, **options)
        if len(told.sentences) < 6:
            return told
        first, *others = told.sentences
        extra = Said(text="The loop runs 977 times.", until=first.until, values=())
        text = told.text.replace(first.text, f"{first.text} {extra.text}", 1)
        return dataclasses.replace(told, text=text, sentences=(first, extra, *others))

    with_slips = Tools(runner=FakeRunner(), executor=Inline(2), narrator=slip, prover=prove)
    out = tmp_path / "d"
    asyncio.run(build(BuildOptions(problems=(EXAMPLES / "plain.jsonl",), styles=("prose",)), out, with_slips))

    report = json.loads((out / REPORT).read_text())
    rows = list(sample_files.read_samples(out / sample_files.SAMPLES))
    concerned = {row.item for row in rows if row.left_out}
    assert report["mended"]["items"] == report["mended"]["sentences"] == len(concerned) > 0
    assert {each["sentence"] for each in report["mended"]["left_out"]} == {"The loop runs 977 times."}
    assert report["claims"]["proven"] == report["claims"]["total"]
    assert report["rates"]["proven_claims_before_dropping"] < 1
    assert f"{len(concerned)} sentences that could not be proven" in (out / CARD).read_text()
    assert f"{len(concerned)} sentences that could not be proven" in (out / PAGE).read_text()
    assert asyncio.run(verify(out, with_slips)).differences == []
