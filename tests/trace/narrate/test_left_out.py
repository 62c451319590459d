"""What one line does many times is told in part: which of it is said to be left out."""

from __future__ import annotations

import re

from groundbox.trace.narrate.narrator import narrate

EXPRESSIONS_THAT_GO_ON = """\
def total(words):
    count = len(words)
    size = sum(len(word) * 2 for word in words)
    return size, count

print(total(["a", "bc", "d", "e", "fgh", "i", "jk", "l", "m", "n"]))
"""
GENERATORS_THAT_GO_ON = """\
def evens(n):
    for k in range(n):
        yield 2 * k

def total(n):
    found = list(evens(n))
    return len(found)

print(total(9))
"""


def test_the_items_of_an_expression_are_no_calls(recorded):
    told = " ".join(narrate(recorded(EXPRESSIONS_THAT_GO_ON), seed=seed).text for seed in range(4))

    assert re.findall("more (?:calls|values)", told) == []


def test_what_a_generator_gives_is_no_call(recorded, unproven):
    trace = recorded(GENERATORS_THAT_GO_ON)

    told = [narrate(trace, detail="parts", seed=seed) for seed in range(4)]

    assert set(re.findall(r"\d more (\w+)", " ".join(each.text for each in told))) == {"values"}
    assert [wrong for each in told for wrong in unproven(each, trace)] == []
