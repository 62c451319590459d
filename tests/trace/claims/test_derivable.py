"""Which told values follow from what was told before them."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import pytest

from groundbox.trace.claims.derivable import derivable
from groundbox.trace.narrate.narrator import narrate

SUM = """\
def total(n):
    found = 0
    for number in range(n):
        if number % 3 == 0:
            found += number
    return found
"""
WORDS = """\
def count(words):
    seen = {}
    longest = ''
    for word in words:
        seen[word] = seen.get(word, 0) + 1
        if len(word) > len(longest):
            longest = word
    return longest, seen
"""
CALLS = """\
def square(n):
    return n * n

def total(numbers):
    found = []
    for n in numbers:
        found.append(square(n) + square(n + 1))
    return sum(found)
"""
NODES = """\
class Node:
    def __init__(self, value, after):
        self.value = value
        self.after = after

def row(numbers):
    head = None
    for number in numbers:
        head = Node(number, head)
    found = []
    while head is not None:
        found.append(head.value)
        head = head.after
    return found
"""
CLOSURE = """\
def outer(n):
    count = 0
    def step(by):
        nonlocal count
        count += by
    for by in range(n):
        step(by)
    return count
"""
GENERATED = """\
def evens(n):
    for k in range(n):
        yield 2 * k

def total(n):
    found = 0
    for k in evens(n):
        found += k
    return found
"""
CASES = [
    (SUM, "total", 8), (WORDS, "count", ["a", "bcd", "a", "ef"]), (CALLS, "total", [1, 2, 3, 4]),
    (NODES, "row", [3, 1, 2]), (CLOSURE, "outer", 5), (GENERATED, "total", 4),
]  # fmt: skip


class Claimed(NamedTuple):
    kind: str
    refs: tuple[int, ...]
    frame: int
    subject: str
    value: str


class Sentence(NamedTuple):
    claims: tuple[Any, ...]


def values_of(sentences, name):
    return [claim.value for each in sentences for claim in each.claims if claim.subject == name]


def without(sentences, place):
    return [each for at, each in enumerate(sentences) if at != place]


@pytest.mark.parametrize(("source", "call", "given"), CASES)
def test_all_of_a_run_that_is_told_whole_follows(recorded, source, call, given):
    trace = recorded(source, call, given)

    found = derivable(narrate(trace, detail="full").sentences, trace)

    assert found.jumps == ()
    assert found.share() == 1
    assert sum(found.values) > 10


def test_a_value_over_iterations_that_are_not_told_does_not_follow(recorded):
    trace = recorded(SUM, "total", 8)
    sentences = narrate(trace, detail="full").sentences
    told = [each for each in sentences if "`found`" not in each.text]

    found = derivable(told, trace)

    assert [(jump.value, jump.missing) for jump in found.jumps] == [("9", "`found`, set by line 5")]
    assert 0.9 < found.share() < 1


def test_what_nothing_told_later_depends_on_may_be_passed_over(recorded):
    source = "def last(xs):\n    size = len(xs)\n    found = 0\n    for x in xs:\n        found = x\n    return found\n"
    trace = recorded(source, "last", [1, 2])
    sentences = narrate(trace, detail="full").sentences

    found = derivable([each for each in sentences if "`size`" not in each.text], trace)

    assert found.jumps == ()


def test_what_a_call_gave_has_to_be_told(recorded):
    source = (
        "def grow(n):\n    m = n * 3\n    k = m + n\n    return k - 1\n\ndef f(n):\n    a = grow(n)\n    return a + 1\n"
    )
    trace = recorded(source, "f", 5)
    sentences = narrate(trace, detail="full").sentences
    told = [each for each in sentences if all(claim.frame != 3 for claim in each.claims)]

    found = derivable(told, trace)

    assert found.jumps[0].value == "19"
    assert found.jumps[0].missing == "what `grow` gave"


def test_a_test_that_decides_the_way_has_to_follow(recorded):
    source = "def f(n):\n    m = n % 7\n    if m > 3:\n        return 'high'\n    return 'low'\n"
    trace = recorded(source, "f", 6)
    sentences = narrate(trace, detail="full").sentences

    found = derivable([sentences[0], sentences[-1]], trace)

    assert [(jump.value, jump.missing) for jump in found.jumps] == [("'high'", "how `m > 3` (line 3) turned out")]


def test_what_is_told_backward_does_not_follow(recorded):
    trace = recorded(CALLS, "total", [1, 2, 3])

    found = derivable(narrate(trace, style="backward").sentences, trace)

    assert found.share() < 0.5


def test_a_content_is_known_change_by_change(recorded):
    source = "def f(n):\n    xs = []\n    xs.append(n)\n    xs.append(n + 1)\n    return sum(xs)\n"
    trace = recorded(source, "f", 3)
    sentences = narrate(trace, detail="full").sentences
    place = next(at for at, each in enumerate(sentences) if any(claim.kind == "mutation" for claim in each.claims))
    fewer = sentences[place].claims[:1]

    told: list[Any] = [*sentences[:place], Sentence(fewer), *sentences[place + 1 :]]

    assert derivable(sentences, trace).jumps == ()
    assert {jump.missing for jump in derivable(told, trace).jumps} == {"what is in `xs` since line 4"}


def test_a_line_of_many_operations_is_no_step(recorded):
    source = "def f(n):\n    return sum(k * k % 7 for k in range(n))\n"

    short, long = (recorded(source, "f", n) for n in (5, 50))

    assert derivable(narrate(short).sentences, short).jumps == ()
    jumps = derivable(narrate(long).sentences, long).jumps
    assert [jump.missing for jump in jumps] == ["line 2 takes 102 operations"]


def test_the_items_of_a_container_that_is_shown_follow_one_by_one(recorded):
    trace = recorded("def f(n):\n    xs = [k * k % 7 for k in range(n)]\n    return xs\n", "f", 30)

    assert derivable(narrate(trace).sentences, trace).jumps == ()


def test_a_value_that_is_not_the_recorded_one_is_not_believed(recorded):
    trace = recorded("def f(n):\n    a = n + 1\n    return a * 2\n", "f", 3)
    sentences = narrate(trace, detail="full").sentences
    wrong = [
        Sentence(tuple(dataclasses.replace(claim, value="5") if claim.subject == "a" else claim
                       for claim in each.claims))
        for each in sentences
    ]  # fmt: skip

    found = derivable(wrong, trace)

    assert [jump.missing for jump in found.jumps] == ["the record shows another value", "`a`, set by line 2"]


def test_claims_that_name_no_record_are_no_values(recorded):
    trace = recorded("def f(n):\n    return n\n", "f", 3)
    told = [Sentence((Claimed("value", (10**9, -1), 77, "n", "3"), Claimed("value", (), 1, "x" * 10**6, "3")))]

    found = derivable(told, trace)

    assert (found.values, found.share(), found.jumps) == ((0,), 1.0, ())


def test_an_expression_of_thousands_of_terms_is_no_step(recorded):
    source = f"def f(n):\n    if n:\n        return {' + '.join(['n'] * 3000)}\n"
    trace = recorded(source, "f", 3)
    told = [Sentence((Claimed("answer", (len(trace.records) - 2,), 2, "f", "9000"),))]

    found = derivable(told, trace)

    assert len(found.jumps) == 1
    assert found.jumps[0].missing.startswith("line 3 takes ")


def test_what_was_not_recorded_cannot_follow(recorded):
    trace = recorded(SUM, "total", 3000, soft_events=300)

    found = derivable(narrate(trace).sentences, trace)

    assert trace.folded
    assert found.jumps


@pytest.mark.parametrize(
    ("case", "name"), list(zip(CASES, ("found", "longest", "found", "head", "count", "found"), strict=True))
)
def test_no_sentence_can_be_left_out_that_a_later_value_depends_on(recorded, case, name):
    source, call, given = case
    trace = recorded(source, call, given)
    sentences = narrate(trace, detail="full").sentences
    places = [at for at, each in enumerate(sentences) if values_of([each], name)]

    missed = [at for at in places if derivable(without(sentences, at), trace).jumps]

    assert len(places) > 1
    assert missed == places
