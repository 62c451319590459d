"""A prover that shares no code with the narrator reads its texts back and checks every claim that it finds."""

from __future__ import annotations

import re
from statistics import median

import pytest

from groundbox.trace.narration.narrator import narrate
from groundbox.trace.proof.prover import prove

PROVEN = ["evens", "fails", "greet", "guarded", "search", "shape", "shared", "steps", "table", "totals"]
"""Not `chain`: the prover does not yet see that an object told by its text was told."""


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("detail", ["brief", "parts", "normal", "full"])
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


SPREAD = """\
def spread(cells, at):
    if at == len(cells):
        return
    cells[at] += 1
    spread(cells, at + 1)

def main(size, times):
    cells = [0] * size
    for _ in range(times):
        spread(cells, 0)
    return cells
"""


@pytest.mark.parametrize("seed", range(4))
def test_a_call_that_was_gone_down_is_not_said_to_run_after_it(recorded, seed):
    trace = recorded(SPREAD, "main", 3, 5)

    told = narrate(trace, detail="parts", seed=seed).text

    went_down = re.findall(r"down to `spread\([^`]*\)`, which returns None[;,.](.*?)(?:[.] |$)", told)
    assert went_down
    assert [rest for rest in went_down if " runs" in rest] == []
    assert prove(told, trace).failed == []
