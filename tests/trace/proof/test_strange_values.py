"""Values that are no common text: nan, complex numbers, texts with backticks or with words that a reader looks for."""

from __future__ import annotations

import pytest

from groundbox.trace.narration.narrator import narrate
from groundbox.trace.proof.prover import prove

SPINS = """\
import math

def main(turns):
    z = 0j
    c = complex(1, -2)
    for turn in range(turns):
        z = z * z + c
    missing = math.nan
    half = math.pi
    return [z, missing]
"""
TICKS = """\
def main(names):
    quoted = []
    for name in names:
        if name == "`":
            continue
        mark = "`" + name + "`"
        quoted.append(mark)
        size = len(mark)
    note = "Answer: 5, it's `x` = 7"
    return "`".join(quoted) + note
"""
PROGRAMS = {"spins": (SPINS, 3), "ticks": (TICKS, ["a", "`", "b`c", "``", "Answer: `3`"])}
TRUE = [
    ("spins", "`z` becomes 0j. `z` becomes 0j * 0j + (1-2j) = (1-2j)."),
    ("spins", "Later, `z` is set to (-2-6j) * (-2-6j) + (1 - 2j) = (-31+22j)."),
    ("spins", "`missing` is set to `math.nan` = nan."),
    ("spins", "`half` is set to `math.pi` = 3.141592653589793."),
    ("ticks", "`mark` becomes '`' + 'a' + '`' = '`a`'. `size` becomes 3."),
    ("ticks", "`quoted` becomes []. '`a`' is appended to `quoted`, which is now ['`a`']."),
    ("ticks", '`note` becomes "Answer: 5, it\'s `x` = 7".'),
]
FALSE = [
    ("spins", "`z` becomes 0j. `z` becomes 0j * 0j + (1-2j) = (1+2j)."),
    ("spins", "Later, `z` is set to (-2-6j) * (-2-6j) + (1 - 2j) = (-31-22j)."),
    ("spins", "Later, `z` is set to (-2+6j) * (-2+6j) + (1 - 2j) = (-31+22j)."),
    ("spins", "`missing` is set to `math.nan` = 0.0."),
    ("spins", "`missing` is set to `math.inf` = nan."),
    ("spins", "`half` is set to `math.pi` = 3.2."),
    ("ticks", "`mark` becomes '`' + 'a' + '`' = '`b`'. `size` becomes 3."),
    ("ticks", "`mark` becomes '`' + 'a' + '`' = 'a'. `size` becomes 3."),
    ("ticks", "`mark` becomes '`' + 'a' + '`' = '`a`'. `size` becomes 6."),
    ("ticks", "`quoted` becomes []. '`b`' is appended to `quoted`, which is now ['`a`']."),
    ("ticks", '`note` becomes "Answer: 5, it\'s `x` = 8".'),
]


def trace_of(recorded, name):
    source, argument = PROGRAMS[name]
    return recorded(source, "main", argument)


@pytest.mark.parametrize(("name", "text"), TRUE)
def test_what_is_so_is_proven(recorded, name, text):
    proof = prove(text, trace_of(recorded, name))

    assert proof.failed == []
    assert [verdict.quote for verdict in proof.verdicts if verdict.status.value != "supported"] == []
    assert proof.faithful


@pytest.mark.parametrize(("name", "text"), FALSE)
def test_what_is_not_so_is_caught(recorded, name, text):
    assert not prove(text, trace_of(recorded, name)).faithful


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("style", ["prose", "steps", "backward"])
@pytest.mark.parametrize("detail", ["brief", "normal", "full"])
def test_the_narrators_own_are_proven(recorded, name, style, detail):
    trace = trace_of(recorded, name)

    proof = prove(narrate(trace, style=style, detail=detail).text, trace)

    assert [verdict.quote for verdict in proof.verdicts if verdict.status.value != "supported"] == []


POWERS = """\
def main(n):
    x = 10 ** n
    y = -x
    z = x + 1
    return z // 10
"""
VAST = [
    ("`x` becomes `10 ** n` = <int of 16610 bits>.", True),
    ("`x` becomes `10 ** n` = <int of 16611 bits>.", False),
    ("`x` becomes `10 ** n` = <negative int of 16610 bits>.", False),
    ("`y` is set to <negative int of 16610 bits>.", True),
    ("`y` is set to <int of 16610 bits>.", False),
    ("main returns <int of 16607 bits>.", True),
    ("main returns <int of 16610 bits>.", False),
]


@pytest.mark.parametrize(("text", "is_so"), VAST)
def test_an_integer_of_thousands_of_digits_is_known_by_its_bits(recorded, text, is_so):
    assert prove(text, recorded(POWERS, "main", 5000)).faithful is is_so


@pytest.mark.parametrize("style", ["prose", "steps", "backward"])
def test_a_narration_of_vast_integers_is_told_and_proven(recorded, style):
    trace = recorded(POWERS, "main", 5000)

    told = narrate(trace, style=style, detail="full").text

    assert "main returns <int of 16607 bits>" in told
    assert prove(told, trace).failed == []


@pytest.mark.parametrize(("text", "is_so"), [("the test is false", True), ("the test is true", False)])
def test_a_test_that_is_not_named_may_lie_behind(recorded, text, is_so):
    source = "def main(n):\n    if n > 4:\n        n = 0\n    m = n + 1\n    return m\n"

    proof = prove(f"`m` becomes 3 + 1 = 4. It was required earlier that {text}.", recorded(source, "main", 3))

    assert proof.faithful is is_so
