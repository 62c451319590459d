"""Bounds that a text gives."""

from __future__ import annotations

import pytest

from groundbox.trace.proof.prover import prove

SUM = """\
def main(xs):
    total = 0
    for x in xs:
        total += x
    return total
"""
TEXT = "We call `main` with `xs` = [3, 4]. `total` becomes 3. `total` becomes 7. {}"


@pytest.mark.parametrize(
    "text",
    ["`total` is at least 7.", "total is at most 7.", "`total` is between 5 and 9.", "`total` is not at least 8."],
)
def test_a_bound_that_holds_is_proven(recorded, text):
    proof = prove(TEXT.format(text), recorded(SUM, "main", [3, 4]))

    assert proof.failed == []
    assert proof.faithful
    assert proof.sentence_coverage == 1.0


@pytest.mark.parametrize(
    "text",
    [
        "`total` is at least 8.",
        "total is at most 6.",
        "`total` is between 1 and 6.",
        "`total` is not between 5 and 9.",
        "`total` is less than 6.",
    ],
)
def test_a_bound_that_does_not_hold_is_not(recorded, text):
    assert not prove(TEXT.format(text), recorded(SUM, "main", [3, 4])).faithful
