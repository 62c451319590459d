"""Which of several things that look alike a text speaks of: loops in each other."""

from __future__ import annotations

import pytest

from groundbox.trace.proof.prover import prove
from groundbox.trace.proof.verdicts import Status

ROUNDS = """\
def main(rows):
    total = 0
    while rows:
        row = rows.pop()
        for item in row:
            total += item
    return total
"""
ROUNDS_TOLD = """\
In iteration 1, `total` goes from 0 to 1. The loop ends after 1 iteration.
In iteration 2, `row` becomes [0, 0]. The loop over `item` is next.
The loop ends after {inner} iterations. Then `rows` is empty, which ends the loop after {outer} iterations.
"""


def test_an_inner_and_an_outer_loop_may_end_after_as_many_iterations(recorded):
    proof = prove(ROUNDS_TOLD.format(inner=2, outer=2), recorded(ROUNDS, "main", [[0, 0], [1]]))

    assert proof.failed == []


@pytest.mark.parametrize(("inner", "outer"), [(3, 2), (2, 3), (1, 2), (2, 1)])
def test_another_count_of_either_is_found(recorded, inner, outer):
    proof = prove(ROUNDS_TOLD.format(inner=inner, outer=outer), recorded(ROUNDS, "main", [[0, 0], [1]]))

    assert [verdict.status for verdict in proof.verdicts].count(Status.CONTRADICTED) >= 1
