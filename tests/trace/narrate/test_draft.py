"""How clauses become sentences."""

from __future__ import annotations

import itertools
import string

import pytest

from groundbox.trace.narrate.draft import Draft
from groundbox.trace.narrate.phrases import PHRASES, Voice


def texts(draft):
    return [[sentence.text for sentence in paragraph] for paragraph in draft.done()]


def test_clauses_are_joined_until_a_sentence_is_full():
    draft = Draft(voice=Voice(0))

    for name in "abcd":
        draft.say(f"`{name}` becomes 1")

    assert texts(draft) == [["`a` becomes 1, `b` becomes 1, and `c` becomes 1.", "`d` becomes 1."]]


def test_a_condition_waits_for_what_it_leads_to():
    said = set()
    for seed in range(20):
        draft = Draft(voice=Voice(seed))
        draft.condition("3 < 5")
        draft.say("`x` becomes 1")
        said.update(texts(draft)[0])

    assert said == {
        "Since 3 < 5, `x` becomes 1.",
        "As 3 < 5, `x` becomes 1.",
        "3 < 5, so `x` becomes 1.",
    }


def test_a_condition_that_leads_to_nothing_is_still_said():
    draft = Draft(voice=Voice(0))

    draft.condition("`x` is empty")

    assert texts(draft) == [["`x` is empty."]]


def test_a_lead_takes_everything_up_to_the_stop():
    draft = Draft(voice=Voice(0))

    draft.lead("`x` = 1:", joins_all=True)
    for name in "abcd":
        draft.say(f"`{name}` becomes 1")
    draft.stop()

    assert texts(draft) == [["`x` = 1: `a` becomes 1, `b` becomes 1, `c` becomes 1, and `d` becomes 1."]]


def test_only_words_are_capitalised():
    draft = Draft(voice=Voice(0))

    for text in ("nothing changes", "true is a word", "'abc' is printed", "`x` is 1", "earlier, `x` was 1"):
        draft.say(text, alone=True)

    assert texts(draft) == [
        ["Nothing changes.", "True is a word.", "'abc' is printed.", "`x` is 1.", "Earlier, `x` was 1."]
    ]


def test_a_voice_does_not_repeat_itself():
    voice = Voice(1)

    said = [voice.say("since", condition="c", effect="e") for _ in range(30)]

    assert all(first != second for first, second in itertools.pairwise(said))


SAME = {"which": "now", "and_": "now", "values_are": "values"}
"""Slots that hold the same in another form."""


@pytest.mark.parametrize("kind", sorted(PHRASES))
def test_every_wording_of_a_kind_says_the_same(kind):
    slots = [{name for _, name, _, _ in string.Formatter().parse(each) if name} for each in PHRASES[kind]]

    said = [frozenset(SAME.get(name, name) for name in each) for each in slots]

    assert len(set(said)) == 1, slots
