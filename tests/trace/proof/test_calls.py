"""The calls that a text may speak of."""

from __future__ import annotations

import pytest

from groundbox.trace.proof.prover import prove
from groundbox.trace.proof.records import calls

DOUBLE = """\
def double(n):
    return 2 * n

def main(n):
    return sum(double(number) for number in range(n))
"""


@pytest.mark.parametrize("told", ["`double({0})` returns {1}.", "`double` is called with `n` = {0}."])
def test_the_calls_of_a_function_are_looked_for_once_and_not_for_each_claim(recorded, monkeypatch, told):
    asked = []
    is_called = calls.is_called
    monkeypatch.setattr(calls, "is_called", lambda *each: asked.append(each) or is_called(*each))
    counts = []
    for size in (10, 40):
        asked.clear()
        trace = recorded(DOUBLE, "main", size)
        proof = prove(" ".join(told.format(number, 2 * number) for number in range(size)), trace)
        counts.append(len(asked))

    assert proof.faithful
    assert len(proof.verdicts) >= 40
    assert counts[1] < 6 * counts[0]
