"""Whose result a name has, and who calls whom."""

from __future__ import annotations

import pytest

from groundbox.trace.proof.prover import prove

SQUARES = """\
class Box:
    def __init__(self, side):
        self.side = side

def square(n):
    return n * n

def twice(n):
    m = square(n)
    k = square(m)
    return k + square(m)

def main(a):
    box = Box(a)
    return twice(box.side)
"""


@pytest.mark.parametrize(
    "text",
    [
        "`m` is 9, the result of `square(3)`.",
        "`square` returns 9. `m` is 9, the result of `square(n)`. `k` is 81, the result of `square(9)`.",
        "`box` is Box(side=3), the result of `Box(3)`.",
        "`main` calls `twice` with `n` = 3.",
        "`twice` calls `square` with `n` = 3.",
        "main calls twice(3), and twice calls square(9).",
    ],
)
def test_a_result_and_a_caller_are_proven(recorded, text):
    proof = prove(text, recorded(SQUARES, "main", 3))

    assert proof.failed == []
    assert proof.faithful


@pytest.mark.parametrize(
    "text",
    [
        "`m` is 9, the result of `square(4)`.",
        "`m` is 9, the result of `twice(3)`.",
        "`k` is 81, the result of `square(3)`.",
        "`box` is Box(side=3), the result of `Box(4)`.",
        "`square` calls `twice` with `n` = 3.",
        "`twice` calls itself with `n` = 3.",
        "`twice` calls `main` with `a` = 3.",
    ],
)
def test_a_result_of_another_call_and_another_caller_are_not(recorded, text):
    assert not prove(text, recorded(SQUARES, "main", 3)).faithful
