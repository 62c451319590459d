"""Choices inside of an expression: `pins * (2 if double else 1)`."""

from __future__ import annotations

import pytest

from groundbox.trace.narration.narrator import narrate
from groundbox.trace.proof.prover import prove
from groundbox.trace.proof.verdicts import Status

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


SUMS = """\
def main(values):
    total, last = 0, 0
    for value in values:
        total += 1
        total += value if value > last else 0
        last = value
    return total
"""
_SUM = "For `value` = 5: 1 is added to `total`, which goes from 0 to 1, {}, and `last` becomes 5. For `value` = 2: "


@pytest.mark.parametrize(
    ("said", "faithful"),
    [
        ("adding `value if value > last else 0` = 5 if 5 > 0 else 0 = 5 takes `total` from 1 to 6", True),
        ("adding `value if value > last else 0` = 5 if 5 > 0 else 0 = 5 takes `total` from 1 to 7", False),
        ("adding `value if value > last else 0` = 5 if 5 > 0 else 0 = 4 takes `total` from 1 to 6", False),
        ("adding 5 if 5 > 0 else 0 = 5 takes `total` from 1 to 6", True),
        ("`value if value > last else 0` = 5 if 5 > 0 else 0 = 5 is added to `total`, which goes from 1 to 6", True),
        ("`value if value > last else 0` = 5 if 5 > 0 else 0 = 5 is added to `total`, which goes from 1 to 5", False),
        ("`total` grows from 1 to 6, as 5 if 5 > 0 else 0 = 5 is added", True),
        ("`total` grows from 1 to 6, as 5 if 5 > 0 else 0 = 6 is added", False),
    ],
)
def test_a_choice_without_brackets_may_be_an_amount(recorded, said, faithful):
    text = _SUM.format(said) + "1 is added to `total`, which goes from 6 to 7."

    assert prove(text, recorded(SUMS, "main", [5, 2])).faithful is faithful


@pytest.mark.parametrize("style", ["prose", "steps", "backward"])
def test_the_narrators_choices_as_amounts_are_proven(recorded, style):
    trace = recorded(SUMS, "main", [1, 2, 4, 6])

    for seed in range(4):
        proof = prove(narrate(trace, style=style, seed=seed).text, trace)

        assert [each.quote for each in proof.verdicts if each.status is not Status.SUPPORTED] == []
