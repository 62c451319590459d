"""Whatever the narrator claims, the prover finds in the trace: no claim is false, and none is beyond checking.

Each program has one thing that a claim was once lost on.
"""

from __future__ import annotations

import re

import pytest

import groundbox as gb
from groundbox.trace.narrate.narrator import narrate
from groundbox.trace.record.schema import Fold

LIBRARY_CALLS = """\
import re

class Box:
    pass

def pick(line, box):
    parts = re.split(",", line)
    box.size = len(re.findall("a", line))
    found = {}
    found["n"] = re.subn("a", "", line)
    sizes = []
    sizes.append(len(re.findall("b", line)))
    whole: list = re.findall(".", line)
    return re.sub("a", str(box.size), parts[0])

def main(line):
    return pick(line, Box())
"""
ARGUMENTS_BY_VALUE = """\
import textwrap

def main(words, grid):
    i = 1
    line = textwrap.shorten(words[i], 8)
    j, cell = 0, 0
    cell = grid[i][j + 1]
    return line, cell
"""
CHANGED_AFTER_RETURN = """\
def below(n):
    if n == 0:
        return []
    found = below(n - 1)
    found.append(n)
    return found

def main():
    out = []
    for n in range(2, 9):
        got = below(n)
        got.append(0)
        out.append(len(got))
    return out
"""
TESTS_THAT_CALL = """\
def seen(node, marks):
    marks[node] = True
    if node > 2:
        return False
    if seen(node + 1, marks):
        return True
    return False

def main():
    marks = [False, False, False, False]
    if seen(0, marks):
        return "yes"
    return "no"
"""
EQUAL_VALUES_IN_SPANS = """\
class Node:
    def __init__(self, data):
        self.data = data
        self.next = None

def main(values):
    head = Node(0)
    current = head
    for value in values:
        current.next = Node(value)
        current = current.next
    return current.data
"""
NAMES_OF_FUNCTIONS = """\
def board(size):
    board = ["-" * size for row in range(size)]
    return board

def main(size):
    line = board(size)
    return "".join(line)
"""
LONG_SEQUENCES = """\
from collections import deque

def main(n):
    ring = deque(reversed(range(n)))
    out = 0
    while len(ring) > n - 4:
        ring.rotate(7)
        out += ring.pop()
    ring[n // 2] = 0
    return out
"""
LONG_MESSAGE = """\
def main(n):
    raise ValueError("the number that was given here is much too large to be taken, and " + "so " * n + "on")
"""
PATTERNS = r"""
import re

TESTER = re.compile(r'^(?!.*(\d)(-?\1){3})[456]\d{3}(?:-?\d{4}){3}$')
COSTS = "$" * 3

def main(text):
    if TESTER.match(text):
        return "$1"
    return COSTS + r"\d"
"""
MATHEMATICS = """\
import math

def main(n):
    best = float("inf")
    if n < best:
        best = int(math.sqrt(n)) + 1
    if math.isqrt(n) ** 2 == n:
        best = pow(2, best)
    for d in range(2, int(math.log2(n)) + 1):
        best += d
    text = f"{best}: {n}"
    return text.center(12, "-"), [f"{d:03}" for d in range(3)]
"""
ENUMS = """\
from enum import Enum

class Way(Enum):
    LEFT = 1
    RIGHT = 2

def turn(name):
    way = Way[name]
    return way

def main(name):
    if turn(name) == Way.LEFT:
        return 1
    return 2
"""
CIRCLES = """\
class Node:
    def __init__(self, value):
        self.value = value
        self.left = None
        self.right = None

class List:
    def __init__(self):
        self.last = None

    def add(self, node):
        if self.last:
            self.last.right = node
            node.left = self.last
        self.last = node

def main(values):
    made = List()
    for value in values:
        made.add(Node(value))
    return made.last.left.value
"""
PAIRS = """\
class Point:
    def __init__(self, x):
        self.x = x

def main(n):
    pairs = [(Point(k), k) for k in range(n)]
    total = 0
    for p, k in pairs:
        if p.x == k and k != -1:
            total += p.x
    while (total != n) and (total != -5):
        total -= 1
    return total
"""
RECURSION_WITH_GIVEN_VALUES = """\
def height(n):
    if n == 0:
        return 0
    left = height(n - 1)
    if left == -1:
        return -1
    right = height(n - 1)
    if right == -1 or abs(left - right) > 1:
        return -1
    return max(left, right) + 1

def main(n):
    return height(n)
"""
NEGATIONS = """\
def main(groups):
    outside = True
    kept = []
    for line in groups:
        outside = True
        for group in line:
            if outside:
                kept.append(group)
            outside = not outside
    return kept
"""
COUNTED_TESTS = """\
def main(n):
    good = []
    value = 0
    while value <= n:
        is_good = value % 3 != 1
        if is_good:
            good.append(value)
        value += 1
    return good
"""
COMPREHENSIONS = """\
def main(rows, valid):
    if not rows:
        return None
    kept = all([sorted(row) == valid and len(row) == len(valid) for row in rows])
    out = 0
    for x in range(2):
        for y in range(2):
            rest = [i for i in range(4) if i != x and i != y]
            out += sum([rows[0][t] * 1.0 for t in rest])
    return kept, out
"""
NOT_EMPTY = """\
class Game:
    def __init__(self, cells):
        self.cells = cells

    def free(self):
        return [i for i, cell in enumerate(self.cells) if cell == " "]

def main(cells):
    game = Game(cells)
    if cells is not None and game.free():
        return len(game.free())
    return -1
"""
LONG_CALLS = """\
def walk(n, out):
    for k in range(n):
        if k % 3 == 0:
            out.append(k)
    return out

def main(n):
    out = walk(n, [])
    pairs = [list(pair) for pair in zip(out, out)]
    return str(pairs)[::-1].upper()
"""
NAMED_KEYS = """\
from collections import namedtuple

Position = namedtuple("Position", "row column")

def main(n):
    distances = {}
    for row in range(n):
        here = Position(row, row + 1)
        distances[here] = 2 * row
    return max(distances.values())
"""
PROGRAMS = {
    "library calls": (LIBRARY_CALLS, "a,b,cab"),
    "arguments by value": (ARGUMENTS_BY_VALUE, ["a b", "long words here"], [[1, 2], [3, 4]]),
    "changed after return": (CHANGED_AFTER_RETURN,),
    "tests that call": (TESTS_THAT_CALL,),
    "equal values in spans": (EQUAL_VALUES_IN_SPANS, [71, 61, 37, 64, 64, 81]),
    "names of functions": (NAMES_OF_FUNCTIONS, 3),
    "long sequences": (LONG_SEQUENCES, 499),
    "long message": (LONG_MESSAGE, 30),
    "patterns": (PATTERNS, "4123456789123456"),
    "mathematics": (MATHEMATICS, 36),
    "enums": (ENUMS, "LEFT"),
    "circles": (CIRCLES, [5, 4, 3, 2, 1]),
    "pairs": (PAIRS, 3),
    "recursion with given values": (RECURSION_WITH_GIVEN_VALUES, 3),
    "negations": (NEGATIONS, [["a", "b", "c"], ["d"], ["e", "f"]]),
    "counted tests": (COUNTED_TESTS, 12),
    "comprehensions": (COMPREHENSIONS, [[3, 1, 4, 2], [4, 3, 1, 2], [1, 3, 1, 1]], [1, 2, 3, 4]),
    "not empty": (NOT_EMPTY, ["x", " ", "o", " "]),
    "long calls": (LONG_CALLS, 400),
    "named keys": (NAMED_KEYS, 3),
}


@pytest.mark.parametrize("style", ["prose", "steps"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_claim_is_supported(recorded, unproven, name, style):
    source, *arguments = PROGRAMS[name]
    trace = recorded(source, "main", *arguments)

    wrong = [each for seed in range(3) for each in unproven(narrate(trace, style=style, seed=seed), trace)]

    assert wrong == []


FOLDED = """\
def main(n):
    for a in range(1, n):
        for b in range(1, n - a):
            c = n - a - b
            if a * a + b * b == c * c:
                return a, b, c
    return None
"""


@pytest.mark.parametrize("style", ["prose", "steps"])
def test_iterations_that_ran_without_records_are_found(recorded, unproven, style):
    trace = recorded(FOLDED, "main", 30, soft_events=200)

    assert trace.folded
    assert unproven(narrate(trace, style=style), trace) == []


def test_a_loop_whose_last_test_ran_without_a_record_ends_without_a_reason(recorded, unproven):
    source = (
        "def main(n):\n    stack = [[0], n]\n    while len(stack) != 1:\n        top = stack.pop()\n"
        "        if top > 1:\n            stack.append(top - 1)\n            stack.append(top // 2)\n    return stack\n"
    )
    trace = recorded(source, "main", 30, soft_events=120)

    assert trace.folded
    assert unproven(narrate(trace), trace) == []


def test_a_fold_without_an_iteration_counts_none(recorded, unproven):
    source = (
        "def main(n):\n    total = 0\n    for a in range(n):\n        for b in range(4):\n            total += a * b\n"
        "    return total\n"
    )
    trace = recorded(source, "main", 6, soft_events=35)

    told = narrate(trace, detail="full")

    assert any(isinstance(record, Fold) and record.iterations == 0 for record in trace.records)
    assert re.findall(r"iterations (\d+) to (\d+)", told.text, re.IGNORECASE) == [("3", "6")]
    assert unproven(told, trace) == []


GENERATORS = """\
from itertools import islice

def runs(n):
    s = 0
    for i in range(n):
        s += i
        yield s
    s = -1
    yield s

def main(n):
    it = runs(n)
    first = list(islice(it, 7))
    one = next(it)
    rest = list(it)
    squares = sum(x * x for x in range(n))
    return len(first), one, rest[-1], squares
"""


@pytest.mark.parametrize("detail", ["brief", "parts", "normal", "full"])
def test_folded_loops_of_generators_are_found(recorded, unproven, detail):
    trace = recorded(GENERATORS, "main", 25, soft_events=1)

    told = narrate(trace, detail=detail)

    assert [record.iterations for record in trace.records if isinstance(record, Fold)] == [4, 16, 23]
    assert unproven(told, trace) == []


ARRAYS = """\
import numpy as np

def grow(grid):
    return grid * 2

def main(order, rows):
    table = [[[1, 1], [5, 0]], [[0, 5], [3, 3]]]
    grid = np.array(rows)
    score = 0
    for i in range(3):
        pair = table[grid[0][i]][grid[1][i]]
        score += pair[order]
    cell = grid[1][2]
    is_one = cell == 1
    big = grow(grid)
    return score, big.tolist(), str(is_one), int(cell)
"""


ITEMS_OF_AN_ARRAY = """\
import numpy as np

def main(numbers):
    weights = np.array(numbers)
    last = weights[-1]
    first = weights[0] * 2
    return float(last + first)
"""


# In a sandbox, whose environment has NumPy.
@pytest.mark.parametrize("style", ["prose", "steps"])
@pytest.mark.parametrize(
    ("program", "args"),
    [(ARRAYS, [0, [[0, 1, 0], [1, 0, 1]]]), (ITEMS_OF_AN_ARRAY, [[1.5, 2.25]])],
    ids=["arrays", "items"],
)
def test_every_claim_about_arrays_is_supported(unproven, program, args, style):
    trace = gb.run(program, mode="call", call="main", args=args, trace=True).trace
    assert trace is not None

    for seed in range(3):
        assert unproven(narrate(trace, style=style, seed=seed), trace) == []
