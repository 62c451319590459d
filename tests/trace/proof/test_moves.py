"""Changes that are told without a value."""

from __future__ import annotations

import pytest

from groundbox.trace.proof.prover import prove

PROGRAM = """\
def down(n):
    return down(n - 1) if n else 0

def main(xs):
    i = 0
    big = 2
    while i < 2:
        if i == 1:
            big = 4
        i += 1
    xs.clear()
    down(1)
    return i
"""
TEXT = "`main` runs with `xs` = [1, 2]. `i` starts at 0 and `big` starts at 2. {}"


@pytest.mark.parametrize(
    "text",
    [
        "`i` is incremented. In iteration 2, `big` doubles and `i` is increased.",
        "`xs` is emptied, and `n` is decremented.",
        "`xs` is cleared.",
        "In iteration 1 (0 < 2), `i == 1` is false, so `big` is left as it is.",
    ],
)
def test_a_change_that_comes_is_proven(recorded, text):
    proof = prove(TEXT.format(text), recorded(PROGRAM, "main", [1, 2]))

    assert proof.failed == []
    assert proof.sentence_coverage == 1.0


@pytest.mark.parametrize(
    "text",
    [
        "`i` is decremented.",
        "`n` is incremented.",
        "`i` is emptied.",
        "`big` is cleared.",
        "In iteration 2 (1 < 2), `i == 1` is true, so `big` is left as it is.",
    ],
)
def test_a_change_that_never_comes_is_not(recorded, text):
    assert not prove(TEXT.format(text), recorded(PROGRAM, "main", [1, 2])).faithful
