"""Which iteration a text speaks of, and all that it says of several."""

from __future__ import annotations

import pytest

from groundbox.trace.proof.prover import prove

HALVE = """\
def main(n):
    odd = 0
    while n > 0:
        if n % 2 == 1:
            odd += 1
        n = n // 2
    return odd
"""
PAIRS = """\
def main(n):
    found = 0
    for i in range(n):
        for j in range(i):
            found += 1
    return found
"""


@pytest.fixture
def trace(recorded):
    return recorded(HALVE, "main", 13)


@pytest.mark.parametrize(
    "text",
    [
        "In iteration 1, `n` becomes 6. In iteration 2, `n` becomes 3.",
        "In iteration 1 `n` becomes 6, and in iteration 2 `n` becomes 3.",
        "In iteration 4, `n` becomes 0, so the function returns 3.",
        "In iterations 2 to 4 `n` takes the values 3, 1, 0.",
        "In iterations 2 to 3 `n % 2 == 1` is true once.",
        "In iterations 3 to 4 `n % 2 == 1` is always true.",
        "In iterations 2 to 4 `n % 2 == 1` holds 2 times.",
        "`n` becomes 6. `n % 2 == 1` is true three times.",
    ],
)
def test_what_is_said_of_its_iteration_is_proven(trace, text):
    proof = prove(text, trace)

    assert proof.failed == []
    assert proof.faithful


@pytest.mark.parametrize(
    "text",
    [
        "In iteration 1, `n` becomes 6. In iteration 1, `n` becomes 3.",
        "In iteration 1, `n` becomes 3.",
        "In iteration 2, `odd` becomes 2.",
        "In the first iteration, 3 % 2 = 1 and `odd` goes from 1 to 2.",
        "In iterations 2 to 4 `n` takes the values 3, 1.",
        "In iterations 2 to 4 `n` takes the values 3.",
        "In iterations 1 to 2 `n` goes from 3 to 1.",
        "In iterations 2 to 3 `n % 2 == 1` is true twice.",
        "In iterations 2 to 4 `n % 2 == 1` is always true.",
        "In iterations 2 to 4 `n % 2 == 1` always holds.",
        "In iterations 2 to 4 `n % 2 == 1` holds 3 times.",
        "`n` becomes 6. `n % 2 == 1` is true four times.",
    ],
)
def test_what_is_so_in_another_iteration_is_not(trace, text):
    assert not prove(text, trace).faithful


def test_a_loop_of_another_iteration_is_not_counted(recorded):
    text = "For `i` = 1, the loop over `j` runs 1 time. For `i` = 2, the loop over `j` runs {}."

    assert prove(text.format("2 times"), recorded(PAIRS, "main", 4)).faithful
    assert not prove(text.format("1 time"), recorded(PAIRS, "main", 4)).faithful
    assert not prove(text.format("3 times"), recorded(PAIRS, "main", 4)).faithful
