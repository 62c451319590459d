"""By default nothing is passed over, and where that takes too long the narration says so."""

from __future__ import annotations

import re

import pytest

from groundbox.trace.narrate.narrator import narrate

SUM = "def total(n):\n    found = 0\n    for k in range(n):\n        found += k\n    return found\n"
WITHIN = """\
def square(n):
    return n * n

def total(numbers):
    return sum(square(n) for n in numbers) + (lambda n: square(n))(7)
"""
GENERATED = """\
def pairs(names, most):
    for number, name in enumerate(names):
        kept = []
        kept.append(name * most)
        yield number, kept

def main(names):
    return [pair for pair in pairs(names, 2)]
"""
NOTHING = """\
def left(xs):
    found = [x for x in xs if x > 9]
    return found

def main(xs):
    for x in left(xs):
        return x
    return None
"""


def test_each_iteration_is_told(recorded):
    told = narrate(recorded(SUM, "total", 40))

    assert all(f"`k` = {number}" in told.text or f"`k` is {number}," in told.text for number in range(40))
    assert "are left out" not in told.text
    assert told.whole


@pytest.mark.parametrize("detail", ["parts", "brief"])
def test_a_telling_that_was_asked_to_pass_over_things_is_not_whole(recorded, detail):
    assert not narrate(recorded(SUM, "total", 40), detail=detail).whole


def test_a_limit_that_is_too_small_for_the_whole_leads_to_parts(recorded):
    trace = recorded(SUM, "total", 40)
    whole = narrate(trace)

    at, below = (narrate(trace, max_chars=len(whole.text) - less) for less in (0, 1))

    assert at == whole
    assert (below.whole, below.detail) == (False, "parts")
    assert below.answer == whole.answer


def test_a_run_that_was_not_recorded_whole_is_not_told_whole(recorded):
    assert not narrate(recorded(SUM, "total", 3000, soft_events=300)).whole


def test_calls_that_code_within_an_expression_makes_are_told(recorded, unproven):
    trace = recorded(WITHIN, "total", [2, 3])

    narration = narrate(trace)
    told = narration.text

    assert all(f"with `n` = {number}." in told for number in (2, 3, 7))
    assert all(f" = {number}." in told or f" {number}." in told for number in (4, 9, 49))
    assert unproven(narration, trace) == []


def test_what_a_generator_is_given_and_does_is_told(recorded, unproven):
    trace = recorded(GENERATED, "main", ["a", "b"])

    narration = narrate(trace)
    told = narration.text

    assert "`names` = ['a', 'b'] and `most` = 2" in told
    assert "'bb'" in told
    assert re.search(r"`name`[^.]* 'b'", told)
    assert unproven(narration, trace) == []


def test_the_call_whose_result_has_no_items_is_told(recorded, unproven):
    trace = recorded(NOTHING, "main", [3])

    narration = narrate(trace)
    told = narration.text

    assert "`left` is called with `xs` = [3]" in told or "`left` runs with `xs` = [3]" in told
    assert unproven(narration, trace) == []


@pytest.mark.parametrize(("calls", "is_whole"), [(61, True), (62, False), (900, False)])
def test_calls_within_more_calls_than_are_followed_are_told_by_what_they_gave(recorded, calls, is_whole):
    source = "def down(n):\n    if n == 1:\n        return 1\n    return down(n - 1) + n\n"
    trace = recorded(source, "down", calls)

    told = narrate(trace)

    assert told.whole is is_whole
    assert told.answer == f"So down returns {calls * (calls + 1) // 2}."
