"""What holds of all items, or at no time."""

from __future__ import annotations

import pytest

from groundbox.trace.proof.prover import prove

PROGRAM = """\
def half(n):
    return n // 2

def main(xs, d):
    total = 0
    for x in xs:
        total += half(x)
    xs.append(5)
    half(1)
    return total
"""
TEXT = "`main` runs with `xs` = [2, 8, 6]. `total` becomes 1. {}"


def told(recorded, text):
    return prove(TEXT.format(text), recorded(PROGRAM, "main", [2, 8, 6], {1: 2}))


@pytest.mark.parametrize(
    "text",
    [
        "All items of `xs` are even.",
        "Every item of `xs` is greater than 1.",
        "No element of `xs` is odd, and no item of xs is less than 2.",
        "`xs` has 3 items.",
        "`total` is never 7.",
        "`total` never exceeds 8. It was never negative.",
        "`total` is never greater than 8.",
    ],
)
def test_what_holds_of_all_is_proven(recorded, text):
    proof = told(recorded, text)

    assert proof.failed == []
    assert proof.sentence_coverage > 0.7


@pytest.mark.parametrize(
    "text",
    [
        "All items of `xs` are odd.",
        "Every item of `xs` is greater than 2.",
        "No element of `xs` is even.",
        "`xs` has 5 items.",
        "`total` is never 5.",
        "`total` never exceeds 7.",
        "`total` was never positive.",
        "`total` is never greater than 4.",
    ],
)
def test_what_does_not_hold_of_all_is_not(recorded, text):
    assert not told(recorded, text).faithful


@pytest.mark.parametrize(
    "text",
    [
        "`n` is never 8.",  # in which call?
        "Until the last iteration, `total` is never 8.",
        "`total` is never 1 again.",
        "All items of `d` are even.",  # its keys, or its values
        "All items of `xs` are even but one.",
        "`xs` has 7 items less than before.",
    ],
)
def test_what_may_mean_something_else_is_not_refused(recorded, text):
    assert told(recorded, text).failed == []
