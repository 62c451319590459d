"""A test that a text gives as code is one of the program."""

from __future__ import annotations

import pytest

from groundbox.trace.proof.prover import prove

FIND = """\
def main(xs, target):
    low, high = 0, len(xs) - 1
    while low <= high:
        mid = (low + high) // 2
        if 3 < xs[mid]:
            high = mid - 1
        elif xs[mid] == target:
            return mid
        else:
            low = mid + 1
    return -1
"""


@pytest.mark.parametrize(
    "text",
    [
        "`low <= high` is true (0 <= 2). `3 < xs[mid]` is false (3 >= 2).",
        "`low > high` is false. `xs[mid] > 3` fails.",
        "`high >= low` holds. `xs[mid] <= 3` is true. `xs[mid] != target` holds.",
        "The loop runs as long as `low <= high` is true. low is less than high.",
        "`low < 3` is true.",
    ],
)
def test_a_test_of_the_program_its_opposite_and_other_facts_are_proven(recorded, text):
    proof = prove(text, recorded(FIND, "main", [1, 2, 3], 3))

    assert proof.failed == []
    assert proof.faithful


@pytest.mark.parametrize(
    "text",
    [
        "`low < high` is true (0 < 2).",
        "The loop runs as long as `low < high` is true.",
        "`low != high` holds.",
        "`3 <= xs[mid]` fails.",
        "`xs[mid] < 3` is true.",
        "`xs[mid] < target` holds.",
    ],
)
def test_a_test_with_another_operator_is_not(recorded, text):
    assert not prove(text, recorded(FIND, "main", [1, 2, 3], 3)).faithful
