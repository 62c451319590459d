"""A prover that shares no code with the narrator reads its texts back and checks every claim that it finds."""

from __future__ import annotations

from statistics import median

import pytest

from groundbox.trace.narration.narrator import narrate
from groundbox.trace.proof.prover import prove

PROVEN = ["evens", "fails", "greet", "guarded", "search", "shape", "shared", "steps", "table", "totals"]
"""Not `chain`: the prover does not yet see that an object told by its text was told."""


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("detail", ["brief", "normal", "full"])
@pytest.mark.parametrize("style", ["prose", "steps"])
@pytest.mark.parametrize("name", PROVEN)
def test_every_claim_is_proven(trace_of, name, style, detail, seed):
    trace = trace_of(name)

    proof = prove(narrate(trace, style=style, detail=detail, seed=seed).text, trace)

    assert proof.failed == []
    assert proof.faithful


def test_most_sentences_carry_a_claim_that_can_be_checked(trace_of):
    traces = [trace_of(name) for name in PROVEN]

    covered = [prove(narrate(trace).text, trace).sentence_coverage for trace in traces]

    assert median(covered) >= 0.8
