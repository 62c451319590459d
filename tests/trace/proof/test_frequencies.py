"""How often something happens."""

from __future__ import annotations

import pytest

from groundbox.trace.proof.prover import prove

PROGRAM = """\
def evens(xs):
    for x in xs:
        if x % 2 == 0:
            yield x

def down(n):
    if n == 0:
        return 0
    return down(n - 1)

def main(xs):
    total = 0
    for x in evens(xs):
        total += x
        print(x)
        print("-")
    down(total)
    return total
"""
TEXT = "`main` runs with `xs` = [2, 3, 2]. {}"


@pytest.mark.parametrize(
    "text",
    [
        "`total` changes twice.",
        "`total` is updated 2 times in the loop.",
        "`x` has been changed three times.",
        "`down` called itself 4 times.",
        "`evens` yields 2 values.",
        "`evens` yields two items, and `total` becomes 2.",
        "This prints '-\\n' twice.",
        "The output has 4 lines.",
    ],
)
def test_what_happens_so_often_is_proven(recorded, text):
    proof = prove(TEXT.format(text), recorded(PROGRAM, "main", [2, 3, 2]))

    assert proof.failed == []
    assert proof.sentence_coverage == 1.0


@pytest.mark.parametrize(
    "text",
    [
        "`total` changes 3 times.",
        "`total` was updated once more, and `total` was updated four times.",
        "`down` called itself 5 times.",
        "`evens` yields 3 values.",
        "`evens` yields four times.",
        "This prints '-\\n' 3 times.",
        "The output has two lines.",
    ],
)
def test_what_happens_less_or_more_often_is_not(recorded, text):
    assert not prove(TEXT.format(text), recorded(PROGRAM, "main", [2, 3, 2])).faithful


def test_what_each_call_does_is_not_counted(recorded):
    text = "In each iteration, `total` changes 3 times."

    assert prove(TEXT.format(text), recorded(PROGRAM, "main", [2, 3, 2])).failed == []


TURNS = """\
def f(n):
    return n

def twice(n):
    return f(n) + f(n + 1)

def main():
    return twice(3) + twice(5)
"""


@pytest.mark.parametrize(
    "text",
    [
        "`f` is called for the first time. `f` is called with `n` = 4 for the second time.",
        "For the third time, `f` is called with `n` = 5.",
        "`f(5)` returns 5. `f` is called for the second time, and f returns 6.",  # in the second call of `twice`
    ],
)
def test_the_call_of_a_number_is_proven(recorded, text):
    assert prove(text, recorded(TURNS, "main")).failed == []


@pytest.mark.parametrize(
    "text",
    [
        "`f` is called with `n` = 4 for the third time.",
        "For the fifth time `f` is called.",
        "For the third time, `f` is called with `n` = 6.",
    ],
)
def test_a_call_of_another_number_is_not(recorded, text):
    assert not prove(text, recorded(TURNS, "main")).faithful
