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
