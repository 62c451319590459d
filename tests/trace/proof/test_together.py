"""Values with which a sentence begins are those of one moment."""

from __future__ import annotations

import pytest

from groundbox.trace.proof.prover import prove

COUNT = """\
def main(prices):
    total = 0
    for name, price in prices.items():
        total += price
    return total
"""
PRICES = {"pen": 2, "ink": 5, "nib": 2}


@pytest.mark.parametrize(
    "lead",
    [
        "With `name` = 'ink' and `price` = 5,",
        "`name` = 'ink' and `price` = 5:",
        "When `name` is 'ink' and `price` is 5,",
    ],
)
def test_values_of_one_iteration_are_proven(recorded, lead):
    proof = prove(f"`total` becomes 2. {lead} `total` becomes 7.", recorded(COUNT, "main", PRICES))

    assert proof.failed == []
    assert proof.faithful


@pytest.mark.parametrize(
    "lead",
    [
        "With `name` = 'pen' and `price` = 5,",
        "`name` = 'pen' and `price` = 5:",
        "When `name` is 'pen' and `price` is 5,",
    ],
)
def test_values_of_two_iterations_are_not(recorded, lead):
    assert not prove(f"{lead} `total` becomes 7.", recorded(COUNT, "main", PRICES)).faithful
