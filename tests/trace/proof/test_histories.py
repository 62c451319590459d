"""The changes of names, items and attributes."""

from __future__ import annotations

import pytest

from groundbox.trace.proof.prover import prove

ROWS = """\
def main(rounds):
    for base in range(rounds):
        rows = []
        for number in range(40):
            rows.append([base + number])
    return len(rows)
"""


@pytest.mark.parametrize(("said", "faithful"), [("[[0], [1]]", True), ("[[0], [2]]", False), ("[[1], [0]]", False)])
def test_changes_of_a_list_are_known_though_later_ones_hold_thousands(recorded, said, faithful):
    trace = recorded(ROWS, "main", 60)
    text = f"For base = 0, rows becomes []. Then rows is [[0]], and after that rows is {said}."

    assert prove(text, trace).faithful is faithful
