"""Results that a text leaves open, or gives another type than they have."""

from __future__ import annotations

import pytest

from groundbox.trace.proof.prover import prove

CHOOSE = """\
def small(x):
    return 1 if x < 10 else 0

def main(x):
    return small(x), small(x * 10)
"""
TEXT = "`main` runs with `x` = 3. {}"


@pytest.mark.parametrize(
    "text",
    [
        "`small` returns 1. `small` returns 0. So main returns (1, 0).",
        "`small` returns 0 or 1.",
        "small(3) returns 1 and small(30) returns 0.",
        "`small` returns 1 and 0.",
        "So main returns the tuple (1, 0).",
    ],
)
def test_what_calls_gave_is_proven(recorded, text):
    proof = prove(TEXT.format(text), recorded(CHOOSE, "main", 3))

    assert proof.failed == []
    assert proof.faithful


@pytest.mark.parametrize(
    "text",
    [
        "So main returns (1, 0) or (0, 1).",
        "So main returns (1, 0) and (1, 1).",
        "`small` returns 0 or 2.",
        "So main returns the list (1, 0).",
        "small(30) returns the string 0.",
    ],
)
def test_a_second_result_or_another_type_is_not(recorded, text):
    assert not prove(TEXT.format(text), recorded(CHOOSE, "main", 3)).faithful


def test_a_text_whose_quotes_are_left_out_is_proven(recorded):
    trace = recorded("def main(x):\n    return str(x)\n", "main", 3)

    assert prove("`main` runs with `x` = 3. So main returns the string 3.", trace).faithful
