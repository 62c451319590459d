"""Narrations that people and models might write, half of them with one error."""

from pathlib import Path

import pytest

from groundbox.trace.proof.prover import prove

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))


def misjudged(rows, stored):
    """Which narrations are judged wrongly: those with an error that pass, and true ones that do not."""
    passed, stopped = [], []
    for program, number, wrong, text in rows:
        faithful = prove(text, stored(program)).faithful
        if wrong and faithful:
            passed.append(f"{program} {number}")
        elif not wrong and not faithful:
            stopped.append(f"{program} {number}")
    return passed, stopped


def test_the_prose_that_the_grammar_was_made_with_is_judged_right_but_for_one_error(prose, stored):
    assert misjudged(prose(held_out=False), stored) == (["factorial 4"], [])


def test_of_the_prose_that_was_held_out_no_error_passes_and_three_true_texts_are_stopped(prose, stored):
    assert misjudged(prose(held_out=True), stored) == ([], ["brackets 1", "evens 0", "transpose 0"])


def test_there_are_a_hundred_narrations_and_half_have_an_error(prose):
    rows = [*prose(held_out=False), *prose(held_out=True)]

    assert (len(rows), sum(wrong is not None for _, _, wrong, _ in rows)) == (100, 50)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_every_stored_trace_is_of_the_program_beside_it(stored, path):
    assert stored(path.stem).source == path.read_text()
