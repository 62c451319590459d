"""What the narrator tells of real programs, cut down to the sentences that were once refused."""

import pytest

from groundbox.trace.narration.narrator import narrate
from groundbox.trace.proof.prover import prove

NEW_LISTS = """
from collections import defaultdict

def f(lines):
    found = defaultdict(list)
    for line in lines:
        words = line.split()
        found[words[0]].append(words[1])
    return len(found)
"""
LOOP_IN_A_LOOP = """
def f(bank):
    seen, rounds = [], 0
    while True:
        rounds += 1
        blocks = bank[0]
        bank[0] = 0
        while blocks > 0:
            bank[1] += 1
            blocks -= 1
        if sum(bank) in seen:
            break
        seen.append(sum(bank))
    return rounds
"""
GROWING = """
def f(n):
    tree, found = {0: []}, []
    while len(found) < n:
        for branch in range(2):
            tree[len(tree)] = [branch]
        found.append(len(tree))
    return len(tree)
"""
RESULTS_AS_REASONS = """
def ok(number):
    if number < 0:
        return 0
    if number == 2 or number == 3:
        return 1
    return number % 2

def f(n):
    number, count, step = 1, 0, 2
    for i in range(n):
        number += step
        if ok(number):
            count += 1
    return count
"""


@pytest.mark.parametrize(
    ("source", "argument"),
    [
        (NEW_LISTS, ["H Rd", "Q Td", "H QO", "M ep"]),
        (LOOP_IN_A_LOOP, [7, 2]),
        (GROWING, 9),
        (RESULTS_AS_REASONS, 6),
    ],
    ids=["new lists", "a loop in a loop", "growing", "results as reasons"],
)
@pytest.mark.parametrize("detail", ["brief", "normal", "full"])
def test_what_the_narrator_tells_is_proven(recorded, source, argument, detail):
    trace = recorded(source, "f", argument)

    for seed in range(4):
        proof = prove(narrate(trace, detail=detail, seed=seed).text, trace)
        assert proof.failed == []
        assert all(verdict.status == "supported" for verdict in proof.verdicts)


def test_a_size_after_iterations_that_ran_without_records_is_not_refused(recorded):
    trace = recorded(GROWING, "f", 40, soft_events=40)

    assert trace.folded
    for seed in range(8):
        assert prove(narrate(trace, seed=seed).text, trace).failed == []
