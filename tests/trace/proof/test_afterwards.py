"""What holds when iterations that are told together are over."""

from __future__ import annotations

import pytest

from groundbox.trace.proof.prover import prove

CHOOSE = """\
def main(xs):
    total = 0
    big = 0
    for x in xs:
        if x % 2 == 0:
            total += x
        else:
            big = x
    seen = 0
    for x in xs[:1]:
        seen += x
    return total, big
"""
GAP = "We call `main` with `xs` = [4, 7, 2, 6, 9]. In iterations 2 to 4 `x` takes the values 7, 2, 6, after which {}."
LOOP = "We call `main` with `xs` = [4, 7, 2, 6, 9]. The loop over `x` runs 5 times, after which {}."


@pytest.fixture
def trace(recorded):
    return recorded(CHOOSE, "main", [4, 7, 2, 6, 9])


@pytest.mark.parametrize("state", ["`total` is 12", "`big` is 7", "`total` is 12 and `big` is 7"])
def test_iterations_end_in_the_state_that_they_leave(trace, state):
    proof = prove(GAP.format(state), trace)

    assert proof.failed == []
    assert proof.faithful


@pytest.mark.parametrize("state", ["`total` is 4", "`total` is 6", "`big` is 0", "`big` is 9", "`x` is 9"])
def test_iterations_do_not_end_in_a_state_before_or_after_their_end(trace, state):
    assert not prove(GAP.format(state), trace).faithful


def test_a_loop_ends_in_its_last_state(trace):
    assert prove(LOOP.format("`total` is 12 and `big` is 9"), trace).faithful
    assert not prove(LOOP.format("`total` is 6"), trace).faithful
    assert not prove(LOOP.format("`big` is 7"), trace).faithful


def test_another_clause_speaks_of_what_comes_then(trace):
    text = "After 5 iterations the loop ends, after which `big` is 9; `seen` becomes 0 and `seen` is 0."

    assert prove(text, trace).faithful


def test_a_single_time_is_counted(trace, recorded):
    text = "`total` is set to 0. The loop over `x` runs 1 time."

    assert prove(text, trace).faithful
    assert not prove(text, recorded(CHOOSE, "main", [])).faithful


def test_two_loops_that_are_told_are_two_loops(trace):
    text = "The loop over `x` runs 5 times; the loop over `x` runs 1 time, after which `seen` is {}."

    assert prove(text.format(4), trace).faithful
    assert not prove(text.format(0), trace).faithful
