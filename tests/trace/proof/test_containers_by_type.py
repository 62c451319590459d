"""Containers that a text makes by their types, as the narrator writes the values of a condition."""

from __future__ import annotations

import pytest

from groundbox.trace.proof.prover import prove

FACES = """\
def has(faces, digit):
    return digit in faces

def main(digits):
    return has(frozenset(digits), 1)
"""
TRUE = [
    "`has` returns `digit in faces` = 1 in frozenset({1, 2}) = True.",
    "`has` gives back 1 in frozenset({1, 2}) = True.",
]
FALSE = [
    "`has` returns `digit in faces` = 1 in frozenset({1, 2}) = False.",
    "`has` returns `digit in faces` = 1 in frozenset({2, 3}) = True.",
    "`has` returns `digit in faces` = 1 in frozenset({1, 3}) = False.",
    "`has` gives back 3 in frozenset({1, 2}) = True.",
    "`has` gives back 1 in frozenset({1, 2}) = False.",
]


@pytest.mark.parametrize("text", TRUE)
def test_a_value_may_be_looked_for_in_a_container_that_is_made_by_its_type(recorded, text):
    proof = prove(text, recorded(FACES, "main", [1, 2]))

    assert proof.failed == []
    assert proof.faithful


@pytest.mark.parametrize("text", FALSE)
def test_a_false_one_is_caught(recorded, text):
    assert not prove(text, recorded(FACES, "main", [1, 2])).faithful


def test_for_x_in_range_is_no_condition(recorded):
    source = "def main(n):\n    total = 0\n    for x in range(n):\n        total += x\n    return total\n"

    proof = prove("For x in range(3), total is added to. total becomes 3.", recorded(source, "main", 3))

    assert [(verdict.kind.value, verdict.status.value) for verdict in proof.verdicts] == [("change", "supported")]
