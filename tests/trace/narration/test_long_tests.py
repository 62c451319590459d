"""A test that is too long to be shown is named by its line."""

from __future__ import annotations

import re

import pytest

from groundbox.trace.narration.narrator import narrate
from groundbox.trace.proof.prover import prove

LONG_TESTS = """\
def canonical(text, n):
    if (not text or len(text) not in (10, 13) or text in ("0000000000", "0000000000000")
            or text.find("X") in range(0, 9) or n > 90):
        return ""
    if (text and len(text) in (10, 13) and text not in ("0000000000", "0000000000000")
            and text.find("X") not in range(0, 9) and text.find("x") == -1 and n < 90):
        n += 1
    return n

print(canonical("0201616220", 4))
"""


@pytest.mark.parametrize("style", ["prose", "steps"])
def test_the_line_is_told_and_proven(recorded, style):
    trace = recorded(LONG_TESTS)

    for seed in range(3):
        told = narrate(trace, style=style, seed=seed).text

        lines = re.findall(r"[Tt]he test on line (\d) (?:fails|does not hold|is false|holds|is true)", told)
        assert lines == ["2", "5"]
        assert prove(told, trace).failed == []


@pytest.mark.parametrize("line", [2, 3, 5, 6])
def test_its_opposite_is_caught(recorded, line):
    trace = recorded(LONG_TESTS)
    holds, fails = f"The test on line {line} holds.", f"The test on line {line} does not hold."

    assert prove(holds, trace).faithful is (line > 3)
    assert prove(fails, trace).faithful is (line < 4)


def test_a_line_without_a_test_is_caught(recorded):
    assert not prove("The test on line 4 does not hold.", recorded(LONG_TESTS)).faithful
