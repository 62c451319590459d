"""Tellings of the narrator that proofs once refused, of programs like the real ones that showed it."""

import pytest

from groundbox.trace.narration.narrator import narrate
from groundbox.trace.proof.prover import prove

NEW_LISTS = """
from collections import defaultdict

def f(text):
    found = defaultdict(lambda: [])
    for line in text.split("\\n"):
        words = line.split("=>")
        words = [word.strip() for word in words]
        found[words[0]].append(words[1])
    return len(found)
"""
LOOP_IN_A_LOOP = """
def f(banks):
    seen, cycle = set(), 0
    while True:
        cycle += 1
        bank = banks.index(max(banks))
        blocks = banks[bank]
        banks[bank] = 0
        while blocks > 0:
            bank += 1
            banks[bank % len(banks)] += 1
            blocks -= 1
        t = tuple(banks)
        if t in seen:
            break
        seen.add(t)
    return cycle
"""
SIZES = """
class Node:
    def __init__(self, name):
        self.name = name
        self.near = None

def get(nodes, name):
    for node in nodes:
        if node.name == name:
            return node
    nodes.append(Node(name))
    return nodes[-1]

def f(lines):
    nodes = []
    for line in lines:
        names = line.split(")")
        first = get(nodes, names[0])
        second = get(nodes, names[1])
        if not second.near:
            second.near = first
    return len(nodes)
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

LOOPS_OF_CALLS = """
def spread(row, column, left):
    for place in ((row, column - 1), (row, column + 1), (row - 1, column), (row + 1, column)):
        try:
            left.remove(place)
            spread(place[0], place[1], left)
        except ValueError:
            continue

def f(lines):
    left = [(row, column) for row, line in enumerate(lines) for column, sign in enumerate(line) if sign == "0"]
    count = 0
    while left:
        count += 1
        row, column = left.pop(0)
        spread(row, column, left)
    return count
"""


@pytest.mark.parametrize(
    ("source", "argument"),
    [
        (NEW_LISTS, "H => Rd\nQ => Td\nU => QO\nM => ep"),
        (LOOP_IN_A_LOOP, [2, 4, 1, 2, 7, 3]),
        (SIZES, ["A)B", "B)C", "B)D", "D)E", "C)F", "E)G"]),
        (RESULTS_AS_REASONS, 6),
        (LOOPS_OF_CALLS, ["1011", "1000", "0001", "0010"]),
    ],
    ids=["new lists", "a loop in a loop", "sizes", "results as reasons", "loops of calls"],
)
@pytest.mark.parametrize("detail", ["brief", "normal", "full"])
def test_what_the_narrator_tells_is_proven(recorded, source, argument, detail):
    trace = recorded(source, "f", argument)

    for seed in range(4):
        proof = prove(narrate(trace, detail=detail, seed=seed).text, trace)
        assert proof.failed == []
        assert all(verdict.status == "supported" for verdict in proof.verdicts)
