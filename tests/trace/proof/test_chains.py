"""Where an equation ends, and the next clause of its sentence begins."""

from __future__ import annotations

import pytest

from groundbox.trace.proof.prover import prove

GRID = """\
def main(x, y, width, height):
    seen = []
    if x in range(width) and y in range(height):
        seen.append(x + y)
    return seen
"""
TRUE = [
    "range(5) = range(0, 5) and 1 is in range(0, 5) and range(4) = range(0, 4) and 2 is in range(0, 4), "
    "so `seen` gets `x + y` = 3 at its end.",
]
FALSE = [
    "range(5) = range(0, 6) and 1 is in range(0, 5) and range(4) = range(0, 4).",
    "range(5) = range(0, 5) and 7 is in range(0, 5) and range(4) = range(0, 4).",
    "range(5) = range(0, 5) and 1 is not in range(0, 5) and range(4) = range(0, 4).",
    "range(5) = range(0, 5) and 1 is in range(0, 5) and range(4) = range(1, 4).",
    "range(5) = range(0, 5) and 1 is in range(0, 5) and range(4) = range(0, 4), so `seen` gets `x + y` = 4 at its end.",
]


@pytest.mark.parametrize("text", TRUE)
def test_and_before_a_clause_ends_an_equation(recorded, text):
    proof = prove(text, recorded(GRID, "main", 1, 2, 5, 4))

    assert proof.failed == []
    assert proof.faithful


@pytest.mark.parametrize("text", FALSE)
def test_each_clause_is_checked(recorded, text):
    assert not prove(text, recorded(GRID, "main", 1, 2, 5, 4)).faithful
