"""Which names stand for one object, and which for a copy."""

from __future__ import annotations

import pytest

from groundbox.trace.proof.prover import prove

NAMES = """\
def main():
    a = [1, 2]
    b = a
    c = list(a)
    return a, b, c
"""


@pytest.mark.parametrize(
    "text",
    [
        "`b` is the same list as `a`, [1, 2].",
        "`c` becomes [1, 2]. `c` is not the same list as `a`.",
        "`c` becomes [1, 2]. `c` is a copy of `a`.",
    ],
)
def test_one_object_and_its_copy_are_told_apart(recorded, text):
    proof = prove(text, recorded(NAMES, "main"))

    assert proof.failed == []
    assert proof.faithful
    assert proof.sentence_coverage == 1.0


@pytest.mark.parametrize(
    "text",
    [
        "`b` becomes [1, 2]. `b` is not the same list as `a`.",
        "`b` becomes [1, 2]. `b` isn't the same list as `a`.",
        "`b` becomes [1, 2]. `b` is a copy of `a`.",
        "`c` becomes [1, 2]. `c` is the same list as `a`.",
    ],
)
def test_an_alias_is_no_copy_and_a_copy_is_no_alias(recorded, text):
    assert not prove(text, recorded(NAMES, "main")).faithful
