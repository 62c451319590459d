"""Choices inside of an expression: `pins * (2 if double else 1)`."""

from __future__ import annotations

import pytest

from groundbox.trace.narration.narrator import narrate
from groundbox.trace.proof.prover import prove

FARES = """\
def main(zones, night):
    fare = 0
    for zone in zones:
        fare += zone * (3 if night else 2)
        night = zone > 4
    return fare
"""
TRUE = [
    "`fare` grows from 0 to 10, as 5 * (3 if False else 2) = 10 is added.",
    "Adding `zone * (3 if night else 2)` = 5 * (3 if False else 2) = 10 takes `fare` from 0 to 10.",
    "`fare` becomes 10. `fare` grows from 10 to 13, as 1 * (3 if True else 2) = 3 is added.",
]
FALSE = [
    "`fare` grows from 0 to 10, as 5 * (3 if True else 2) = 15 is added.",
    "`fare` grows from 0 to 10, as 5 * (3 if False else 2) = 15 is added.",
    "`fare` grows from 0 to 10, as 5 * (4 if False else 2) = 10 is added.",
    "`fare` grows from 0 to 10, as 5 * (2 if True else 3) = 10 is added.",
    "Adding `zone * (3 if night else 2)` = 5 * (3 if True else 2) = 10 takes `fare` from 0 to 10.",
    "Adding `zone * (3 if night else 2)` = 5 * (4 if False else 2) = 10 takes `fare` from 0 to 10.",
    "`fare` becomes 10. `fare` grows from 10 to 13, as 1 * (3 if False else 2) = 3 is added.",
]


@pytest.mark.parametrize("text", TRUE)
def test_a_choice_is_worked_out(recorded, text):
    proof = prove(text, recorded(FARES, "main", [5, 1], False))

    assert proof.failed == []
    assert proof.faithful


@pytest.mark.parametrize("text", FALSE)
def test_another_choice_is_caught(recorded, text):
    assert not prove(text, recorded(FARES, "main", [5, 1], False)).faithful


@pytest.mark.parametrize("style", ["prose", "steps", "backward"])
@pytest.mark.parametrize("detail", ["brief", "normal", "full"])
def test_the_narrators_own_are_proven(recorded, style, detail):
    trace = recorded(FARES, "main", [5, 1, 6, 2], True)

    assert prove(narrate(trace, style=style, detail=detail).text, trace).failed == []
