"""Claims about what a trace leaves out."""

from __future__ import annotations

import pytest

from groundbox.trace import schema
from groundbox.trace.proof.prover import prove

TRIANGLE = """\
def main(n):
    total = 0
    for i in range(n):
        for j in range(20 + i):
            total += j
    return total
"""


@pytest.mark.parametrize(("said", "faithful"), [(21, True), (19, False), (22, False)])
def test_a_loop_of_which_nothing_was_recorded_has_its_iterations(recorded, said, faithful):
    trace = recorded(TRIANGLE, "main", 6, soft_events=30)
    text = f"For i = 1: the loop over j runs {said} times, after which total is 400."

    assert any(isinstance(record, schema.Fold) and record.iterations == 21 for record in trace.records)
    assert prove(text, trace).faithful is faithful


SQUARE = """\
def main(n):
    total = 0
    for i in range(n):
        for j in range(4):
            total += 1
    return total
"""
SQUARE_TOLD = """\
When `i` is 1, `j` runs over `range(4)`. Iterations 1 to 4{of} ran without being recorded, after which `total` is {said}.
Iterations 3 to 6 ran without being recorded, after which `i` is 5 and `total` is 24.
"""


@pytest.mark.parametrize("of", ["", " of the loop over `j`"])
@pytest.mark.parametrize(("said", "faithful"), [(8, True), (7, False), (12, False)])
def test_iterations_are_those_of_a_loop_within_an_iteration_that_the_loop_around_it_has_come_to(
    recorded, of, said, faithful
):
    trace = recorded(SQUARE, "main", 6, soft_events=24)

    assert [record.iterations for record in trace.records if isinstance(record, schema.Fold)] == [0, 4, 4]
    assert prove(SQUARE_TOLD.format(of=of, said=said), trace).faithful is faithful
