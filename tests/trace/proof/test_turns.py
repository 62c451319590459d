"""Which iteration one speaks of, how many are left, and those in which nothing happens."""

from __future__ import annotations

import pytest

from groundbox.trace.proof.prover import prove
from groundbox.trace.proof.verdicts import Status

PROGRAM = """\
def main(xs):
    total = 0
    for x in xs:
        if x > 1:
            total += x
        elif x < 0:
            total -= 1
    return total
"""
NESTED = """\
def main(n):
    total = 0
    for i in range(n):
        for j in range(i + 1):
            total += j
    return total
"""
TEXT = "`main` runs with `xs` = [1, 2, 3, 0]. For `x` = 1: `x > 1` is false and `x < 0` is false. {}"


@pytest.mark.parametrize(
    "text",
    [
        "In the last iteration, `x` is 0.",
        "On the final iteration, the fourth one, `x` is 0.",
        "For the third item, `x` is 3.",
        "There are 3 more iterations.",
        "So it goes on with the remaining 3 items.",
        "`x` is 3. It then goes on with the next item.",
        "For `x` = 0: `x > 1` is false, so nothing happens.",
        "For `x` = 0: `x > 1` is false and `x < 0` is false, so nothing changes.",
    ],
)
def test_the_iteration_that_is_meant_is_found(recorded, text):
    assert prove(TEXT.format(text), recorded(PROGRAM, "main", [1, 2, 3, 0])).failed == []


@pytest.mark.parametrize(
    "text",
    [
        "In the last iteration, `x` is 3.",
        "In the last iteration, the third one, `x` is 0.",
        "For the third item, `x` is 2.",
        "For the fifth item, `x` is 0.",
        "There are five more iterations.",
        "So it goes on with the remaining 5 items.",
        "It then goes on with the next 5 items.",
        "For `x` = 2: `x > 1` is true, so nothing happens.",
    ],
)
def test_another_iteration_is_not(recorded, text):
    assert not prove(TEXT.format(text), recorded(PROGRAM, "main", [1, 2, 3, 0])).faithful


@pytest.mark.parametrize("text", ["In the last iteration, `j` is 0.", "For the third item, `total` is 0."])
def test_where_several_loops_may_be_meant_none_is(recorded, text):
    trace = recorded(NESTED, "main", 2)

    assert prove(f"`main` runs with `n` = 2. `i` is 0. {text}", trace).failed == []


def test_nothing_changes_in_an_iteration_without_a_condition_is_no_claim(recorded):
    proof = prove("`main` runs with `n` = 2. With `i` = 0, nothing changes.", recorded(NESTED, "main", 2))

    assert {verdict.status for verdict in proof.verdicts} == {Status.SUPPORTED}
