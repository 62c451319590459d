"""The claims that the narrator gives: all supported, every word of its sentences in one of them, no fault believed."""

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest

from groundbox.trace.claims import Status, decode, prove
from groundbox.trace.narrate.document import document
from groundbox.trace.narrate.narrator import Detail, Style, narrate
from groundbox.trace.record.reading import Trace

STYLES: Sequence[Style] = ("prose", "steps")
DETAILS: Sequence[Detail] = ("brief", "normal", "full")
MANNERS: Sequence[tuple[Style, Detail]] = (
    ("prose", "brief"),
    ("prose", "normal"),
    ("prose", "full"),
    ("steps", "normal"),
)

STRANGE = {
    "enum": """\
from enum import Enum

class Side(Enum):
    LEFT = 1
    RIGHT = 2

class Seen:
    results = {}

    def of(self, name):
        if name in Seen.results:
            return Seen.results[name]
        side = Side[name]
        Seen.results[name] = side is Side.LEFT
        return Seen.results[name]

def main(names):
    seen = Seen()
    return [seen.of(name) for name in names]
""",
    "opaque": """\
import io

def visit(out, node, edges, seen):
    seen.append(node)
    for other in edges[node]:
        if (other in seen) == False:
            visit(out, other, edges, seen)

def main(edges):
    out, seen = io.StringIO(), []
    for node in range(len(edges)):
        if node not in seen:
            visit(out, node, edges, seen)
    return seen
""",
    "ends": """\
from collections import deque

def nearest(row, last):
    best = float("inf")
    for n in row:
        if n < best and n != row[len(row) -1]:
            best = n
    return best if best < last else -1

def main(items):
    queue, kept = deque(items), []
    while queue:
        item = queue.popleft()
        if not item:
            continue
        kept.append(item.pop(0))
    odd = [i for i in range(4) if i % 2 and i != 9]
    return [nearest(kept, 9), odd]
""",
    "named twice": """\
def show(word, shown):
    shown.append(word)

def main(words):
    shown = []
    for word in words:
        if word == "AND" or word == "OR":
            show(word, shown)
        elif word:
            shown.append(word)
    return shown
""",
    "keys": """\
from collections import defaultdict, namedtuple

Place = namedtuple("Place", "x y")

def main(rows):
    found, seen, rules = {}, set(), defaultdict(list)
    for x, y in rows:
        place = Place(x, y)
        if place not in seen:
            found[place] = x + y
            seen.add(place)
        rules[str(x)].append(y)
    return sorted(found.values())
""",
    "in one line": """\
def last(xs):
    total = 0
    for x in xs:
        total += x
    return total

def name(n):
    if n % 3 == 0:
        return "none"
    elif n % 3 == 1:
        return "one"
    elif n % 3 == 2:
        return "two"

def near(a, b):
    return a - b > -0.0000001 and abs(a) - abs(b) < 0.0000001

def main(xs, ys):
    one, two = last(xs), last(ys)
    state = (frozenset(xs), set(ys), 0)
    return [name(one), name(two), near(one, two), len(state)]
""",
    "scopes": """\
def half(n):
    return n // 2

def main(rows):
    kept = []
    for row in rows:
        kept.append(row)
    least = min(len(row) for row in kept)
    halves = [half(len(row)) for row in kept]
    first = [kept[0]]
    return least, halves, sum(row[0:1] == [2] for row in first)
""",
    "same": """\
class Tree_1:
    class Node:
        def __init__(self, value, left=None, right=None):
            self.value = value
            self.left = left
            self.right = right

    def join(self, one, other):
        return self.Node([one.value, other.value, "a rather long text, so that objects are not told twice"], one, other)

    def build(self, values):
        nodes = [self.Node([value, "a rather long text, so that objects are not told twice"]) for value in values]
        while len(nodes) > 1:
            one, other = nodes.pop(0), nodes.pop(0)
            joined = self.join(one, other)
            nodes.append(joined)
        return nodes[0]

def main(values):
    tree = Tree_1()
    return len(tree.build(values).value)
""",
    "items": """\
class Maze:
    def __init__(self, text):
        self.maze = [row for row in text.split("/") if row]

def main(text):
    return len(Maze(text).maze)
""",
    "made": """\
class Node:
    def __init__(self, depth, most, value):
        self.depth = depth
        self.most = most
        self.value = value
        self.children = []
        self.grow()

    def grow(self):
        for n in range(self.most - self.depth):
            self.children.append(Node(self.depth + 1, self.most, self.value * 2 + n))

def main(most, value):
    root = Node(0, most, value)
    return [child.value for child in root.children]
""",
    "a condition on several lines": """\
def main(text):
    found = []
    for at in range(len(text)):
        reach = 0
        while (
            at - reach >= 0
            and at + reach < len(text)
            and text[at - reach] == text[at + reach]
        ):
            reach += 1
        found.append(reach)
    return found
""",
    "nothing between two loops": """\
def main(rows):
    total = 0
    for row in rows:
        while True:
            last = row.pop()
            if last > 0:
                total += last
                break
    return total
""",
    "a header that calls": """\
def below(n):
    found = set()
    for k in range(n):
        found.add(k % 2)
    return found

def main(numbers):
    seen = set()
    for n in numbers:
        for k in below(n):
            seen.add(k)
    return len(seen)
""",
    "all of no list": """\
def main(text, most):
    letters = "".join([c for c in text if c.isalpha()])
    return letters * sum(n for n in range(1, most) if n > 0)
""",
    "nothing to go through": """\
def count(items):
    found = 0
    for item in items:
        found += 1
    return found

def main(items):
    try:
        return count(items)
    except TypeError:
        return -1
""",
    "changed by the call": """\
from collections import deque

def take(queue, most):
    first = queue.popleft()
    if first < most:
        queue.append(first + most)
    return first

def main(numbers, most):
    queue = deque(numbers)
    total = 0
    while total < most:
        first = take(queue=queue, most=most)
        total += first
    return list(queue)
""",
    "named in a condition": """\
import re

def main(texts):
    ends = []
    for text in texts:
        if match := re.search("a+", text):
            ends.append(match.end())
    while last := len(ends):
        ends.pop()
    return last
""",
    "a test on several lines that calls": """\
def weight(one, other, same=1, different=0):
    return same if one == other else different

def main(first, second):
    score = 0
    for one, other in zip(first, second):
        if score + 1 == score + weight(
            one, other
        ):
            score += 1
        if one in second and weight(
            other, one
        ):
            score += 2
    return score
""",
    "two calls of one function in a line": """\
def rest(a, n):
    while a >= n:
        a -= n
    return a

def main(a, b):
    x, y = rest(a, b), rest(b, a)
    return [x, y]
""",
    "told by its call": """\
def times(a, b):
    return [[sum(x * y for x, y in zip(row, column)) for column in zip(*b)] for row in a]

def main(n):
    result, power = [[1, 0], [0, 1]], [[1, 1], [1, 0]]
    while n > 0:
        if n % 2 == 1:
            result = times(result, power)
        power = times(power, power)
        n = n // 2
    return result[0][1]
""",
    "a backtick among characters": """\
def main(text, marks):
    kept = []
    for sign in text:
        kept.append(sign)
        if sign in marks or sign == text[-1]:
            kept.append("|")
    return "".join(kept)
""",
}
"""Programs of a kind that once had claims which were not borne out, with what they are called with."""
GIVEN = {
    "enum": ["LEFT", "RIGHT", "LEFT"],
    "opaque": [[1, 2], [0], [], [3]],
    "ends": [[5, 3], None, [9], [2], [7]],
    "named twice": ["AND", "OR"],
    "keys": [[1, 2], [0, 3], [1, 2]],
    "in one line": ([2, 3], [1, 1]),
    "scopes": [[1, 2, 3, 4], [5, 6], [7]],
    "same": [1, 2, 3],
    "items": "011101/110001/101100/001101/111011/000001/100000/011000",
    "made": (3, 5),
    "a condition on several lines": "abaab",
    "nothing between two loops": [[1, -1], [2]],
    "a header that calls": [3, 2],
    "all of no list": ("ab", 3),
    "nothing to go through": 3,
    "changed by the call": ([1, 2, 3], 5),
    "named in a condition": ["baa", "b"],
    "a test on several lines that calls": ("abc", "axc"),
    "two calls of one function in a line": (7, 5),
    "told by its call": 100,
    "a backtick among characters": ("a`b", "ab"),
}
TRACES = Path(__file__).parent / "traces"
PROGRAMS = sorted(path.stem for path in TRACES.glob("*.jsonl"))


def stored(program):
    return Trace.loads((TRACES / f"{program}.jsonl").read_bytes())


@pytest.mark.parametrize("program", PROGRAMS)
def test_all_claims_are_supported_and_hold_every_word(program):
    trace = stored(program)

    for style, detail in MANNERS:
        narration = narrate(trace, style=style, detail=detail, seed=2)
        found = prove(narration.text, trace, claims=document(narration, trace), strict=True)

        assert [verdict for verdict in found.verdicts if verdict.status is not Status.SUPPORTED] == []
        words = [found.text[word.start : word.end] for word in (*found.numbers, *found.words) if not word.covered]
        assert words == []
        assert found.passes


@pytest.mark.parametrize("program", STRANGE)
def test_claims_of_strange_values_are_supported(recorded, program):
    given = GIVEN[program]
    trace = recorded(STRANGE[program], "main", *(given if isinstance(given, tuple) else (given,)))

    for style, detail, seed in itertools.product(STYLES, DETAILS, range(10)):
        narration = narrate(trace, style=style, detail=detail, seed=seed)
        found = prove(narration.text, trace, claims=document(narration, trace), strict=True)

        assert [(v.claim.shown, v.message) for v in found.verdicts if v.status is not Status.SUPPORTED] == []
        words = [found.text[word.start : word.end] for word in (*found.numbers, *found.words) if not word.covered]
        assert words == []
        assert found.passes


def test_a_document_is_of_the_schema():
    trace = stored("bfs")
    made = document(narrate(trace), trace)

    assert decode(made).to_dict() == made
    assert {claim["kind"] for sentence in made["sentences"] for claim in sentence["claims"]} >= {
        "value", "test", "call", "mutation", "iteration", "count", "exit", "answer",
    }  # fmt: skip
