"""What the deterministic narrator says is proven, and what is made false of it is not."""

from collections import Counter
from pathlib import Path

import pytest

from groundbox.trace.narration.narrator import narrate
from groundbox.trace.proof.mutation import mutations
from groundbox.trace.proof.prover import prove

PROGRAMS = sorted(path.stem for path in (Path(__file__).parents[1] / "claims" / "programs").glob("*.py"))


@pytest.mark.parametrize("detail", ["brief", "normal", "full"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_no_true_narration_is_rejected(stored, program, detail):
    trace = stored(program)

    proof = prove(narrate(trace, detail=detail).text, trace)

    assert proof.failed == []
    assert proof.faithful


def test_all_but_half_a_percent_of_the_mutations_are_caught(stored):
    passed, made = Counter(), Counter()
    for program in PROGRAMS:
        trace = stored(program)
        for mutation in mutations(narrate(trace, seed=1).text, trace, seed=3, most=2):
            made[mutation.kind] += 1
            passed[mutation.kind] += prove(mutation.text, trace).faithful

    assert set(made) >= {"value", "change", "argument", "return", "arithmetic", "truth", "name", "count", "iteration",
                         "order", "drop", "duplicate"}  # fmt: skip
    assert passed.total() <= 0.005 * made.total(), passed


def test_the_same_seed_makes_the_same_mutations(stored):
    trace = stored("gcd")
    text = narrate(trace).text

    assert mutations(text, trace, seed=5) == mutations(text, trace, seed=5)


def test_a_line_number_is_mutated_and_caught(stored):
    trace = stored("search")
    text = "low = 0 and high = 6. mid becomes 3 on line 4. items[mid] < target is true on line 7, so low becomes 4."

    made = [mutation for mutation in mutations(text, trace) if mutation.kind == "line"]

    assert prove(text, trace).faithful
    assert made
    assert not any(prove(mutation.text, trace).faithful for mutation in made)
