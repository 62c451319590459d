"""What a text says that does not happen."""

from __future__ import annotations

import pytest

from groundbox.trace.proof.prover import prove
from groundbox.trace.proof.verdicts import Status

SPLIT = """\
def half(n):
    return n // 2

def main(xs):
    small = []
    total = 0
    for x in xs:
        if x < 10:
            small.append(x)
        else:
            total += half(x)
        print(x)
    return total
"""
LEAD = "We call `main` with `xs` = [3, 20, 4]. `total` is set to 0. "


def _proof(recorded, text):
    return prove(LEAD + text, recorded(SPLIT, "main", [3, 20, 4]))


@pytest.mark.parametrize(
    "text",
    [
        "With `x` = 20, 20 is not appended to `small`.",
        "With `x` = 20, `small` does not change.",
        "With `x` = 20, `small` stays unchanged.",
        "With `x` = 3, `total` is unchanged.",
        "With `x` = 3, the program does not print '20\\n'.",
        "With `x` = 3, `total` does not become 10.",
        "`half` is never called with `n` = 4.",
        "So main does not return 11.",
        "This does not raise a KeyError.",
        "`xs` never changes.",
    ],
)
def test_what_does_not_happen_may_be_said(recorded, text):
    proof = _proof(recorded, text)

    assert proof.failed == []
    assert [verdict.status for verdict in proof.verdicts] == [Status.SUPPORTED] * len(proof.verdicts)
    assert proof.sentences[-1].claims


@pytest.mark.parametrize(
    "text",
    [
        "With `x` = 3, 3 is not appended to `small`.",
        "With `x` = 3, `small` does not change.",
        "With `x` = 20, `total` stays unchanged.",
        "With `x` = 20, `total` is unchanged.",
        "With `x` = 3, the program does not print '3\\n'.",
        "With `x` = 20, `total` does not become 10.",
        "With `x` = 20, `total` doesn't go from 0 to 10.",
        "With `x` = 20, `total` is not set to 10.",
        "With `x` = 20, `half` is not called with `n` = 20.",
        "`half` is never called.",
        "`half(20)` does not return 10.",
        "So main does not return 10.",
        "`total` never changes.",
    ],
)
def test_what_happens_may_not_be_denied(recorded, text):
    assert not _proof(recorded, text).faithful


def test_what_happens_elsewhere_cannot_be_denied_for_sure(recorded):
    proof = _proof(recorded, "The loop ends after 3 iterations. So `half` is not called.")

    assert proof.verdicts[-1].status is Status.UNCHECKABLE
