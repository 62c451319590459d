"""Whatever the narrator claims of values that are hard to write down, the prover finds in the trace.

Instances of container classes, functions and classes as items and keys, containers of which not everything is shown,
bytes and prefixed texts, names that two things share.
"""

from __future__ import annotations

import pytest

from groundbox.trace.narrate.narrator import narrate

EMPTY_OF_A_CLASS = """\
class Nodes(dict):
    pass

class bag(set):
    pass

class Graph:
    def __init__(self, **options):
        self.nodes = Nodes()
        self.seen = bag()
        self.options = options

def build(graph):
    made = bag()
    made.add(len(graph.nodes))
    return made, graph

print(len(build(Graph(size=2))))
"""
WITH_ATTRIBUTES = """\
class Wild(dict):
    def __init__(self, pairs):
        self.starred = set()
        super().__init__()
        self.limit = 9
        for key in pairs:
            self[key] = pairs[key]
            self.starred.add(key[:-1])

def ask(pairs):
    wild = Wild(pairs)
    return wild, wild.limit

print(len(ask({"a*": 1, "b*": 2})))
"""
FUNCTIONS_AS_ITEMS = """\
def makers(n):
    items = {(lambda i=i: i) for i in range(n)}
    more = {(lambda: n): k for k in range(2)}
    return sorted(item() for item in items), len(more)

print(makers(3))
"""
CLASSES_AS_KEYS = """\
class Num:
    pass

class Numbers:
    pass

def visit(thing):
    return str(thing)

def table(kinds):
    nodes = {Numbers: len}
    for kind in kinds:
        nodes[kind] = visit
    return len(nodes)

print(table([Num, int]))
"""
LONG_FROZENSET = """\
CHARS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
SAFE = CHARS | set("!$")

def keep(text):
    return "".join(c for c in text if c in SAFE)

print(keep("a b!"))
"""
LONG_DICT = """\
def codes(gone):
    table = {b"%02X" % n: bytes([n]) for n in range(256)}
    for code in gone:
        table.pop(code)
    table[b"ZZ"] = b"$"
    return len(table)

print(codes([b"5D", b"FF"]))
"""
PREFIXES = """\
def spread(delims):
    marks = set(delims) | set([u"%"])
    first = b"$" + b"\\\\" + b"\\x00"
    return sorted(marks), first

print(spread(frozenset("#/]")))
"""
OBJECTS_CALLED = """\
class Edges:
    def __init__(self, graph):
        self.graph = graph

    def __call__(self, data=False):
        found = self.graph.pairs(data)
        return found

class Graph:
    @property
    def edges(self):
        return Edges(self)

    def pairs(self, data):
        return [(1, 2, {"color": "red"}), (2, 3, {"color": "blue"})]

def ends(graph):
    edges = graph.edges(data=True)
    return [end for _, end, _ in edges]

print(ends(Graph()))
"""
SHARED_NAMES = """\
class Cell:
    def get(self):
        return 5

def nodes(graph):
    return list(graph)

def walk(graph, **options):
    def forest():
        nodes = []
        for v in graph:
            nodes.append(v)
        return nodes
    if options.get("limit") is not None:
        return Cell().get()
    return forest() + nodes(graph)

print(walk({3: 1, 4: 2}))
"""
ASSIGNED_IN_A_TEST = """\
import ast

def known(names):
    found = []
    for name in names:
        if node := getattr(ast, name, None):
            found.append(node.__name__)
    return found

print(known(["Add", "Nothing"]))
"""
ARGUMENTS_IN_A_ROW = """\
class Bag:
    def __init__(self, items=None):
        self.items = []
        if items is not None:
            for item in items:
                self.items.append(item)

    def __iter__(self):
        return iter(self.items)

    def without(self, *others):
        gone = others[0]
        last = others[-1]
        if isinstance(gone, Bag) or len(last.items) > 9:
            return Bag(item for item in self if item not in gone.items)
        return Bag(self)

def apart(*args):
    first, second = args
    if isinstance(args[1], list):
        second = Bag(args[1])
        row = args[0]
        row = row[:2]
    left = Bag(row).without(second)
    right = second.without(left, Bag([0]))
    return left, right

print(len(apart([3, 1, 2], [1, 5])))
"""
ANY_NUMBER_OF_ARGUMENTS = """\
class Angle:
    def __init__(self, *args, **kwargs):
        self.deg = 0
        self.set(*args, **kwargs)

    def set(self, *args, **kwargs):
        if len(args) == 1:
            self.deg = args[0]
        elif kwargs.get("ra"):
            self.deg = args[0] * 15
        return None

def mix(first, *rest, scale=1, **more):
    if not rest:
        return first * scale
    return mix(*rest, scale=scale + 1, **more) + first

def main(n):
    angles = []
    for k in range(n):
        a = Angle(k)
        b = Angle(k, 2, ra=True)
        angles.append(a.deg + b.deg)
    return angles, mix(1, 2, 3, z=4), mix(5)
print(main(6))
"""
PATTERNS = """\
import re

STEP = re.compile("^(.+?)(al|ance|ence|er|ic|able|ible|ant|ement|ment|ent|ou|ism|ate|iti|ous|ive|ize)$")
LONG = re.compile("[ab]" * 60)

def build(words):
    kept = [STEP]
    for word in words:
        made = re.compile(r"(?P<sign>[+-])(?P<year>[0-9]{4})-(?P<month>[0-9]{2})[ \\t]*(?P<word>%s)" % word)
        kept.append(made)
    pairs = {"short": re.compile("a+"), "step": STEP}
    return kept, pairs, LONG

print(len(build(["u", "ab"])))
"""
EQUAL_AGAIN = """\
def tidy(words):
    counts = {"a": 0.5}
    words[-1] = words[-1].lower()
    words[0] = words[0].lower()
    counts["a"] = float("0.5")
    return words, counts

print(tidy(["Ab", "cd"]))
"""
CASES = """\
from dataclasses import dataclass

@dataclass
class Request:
    verb: str
    path: list

def route(lines):
    seen = []
    for line in lines:
        verb, _, rest = line.partition(" ")
        request = Request(verb, rest.split("/"))
        match request:
            case Request(verb="GET", path=[first, *_]):
                seen.append(first)
            case Request(verb="POST" | "PUT", path=["z"]):
                seen.append(verb)
            case _:
                seen.append(None)
    return seen

print(route(["PUT z", "GET a/b", "X y"]))
"""
REASONS_OF_ERRORS = """\
import threading

class Unreachable(Exception):
    def __init__(self, reason):
        super().__init__(reason)
        self.reason = reason

class HostError(Exception):
    pass

def reach(host):
    try:
        raise HostError(threading.Lock())
    except HostError as error:
        raise Unreachable(error)

def main(host):
    try:
        reach(host)
    except Unreachable as error:
        return str(type(error.reason).__name__)

print(main("h"))
"""
PROGRAMS = {
    "empty of a class": EMPTY_OF_A_CLASS,
    "with attributes": WITH_ATTRIBUTES,
    "functions as items": FUNCTIONS_AS_ITEMS,
    "classes as keys": CLASSES_AS_KEYS,
    "long frozenset": LONG_FROZENSET,
    "long dict": LONG_DICT,
    "prefixes": PREFIXES,
    "objects called": OBJECTS_CALLED,
    "shared names": SHARED_NAMES,
    "assigned in a test": ASSIGNED_IN_A_TEST,
    "arguments in a row": ARGUMENTS_IN_A_ROW,
    "any number of arguments": ANY_NUMBER_OF_ARGUMENTS,
    "patterns": PATTERNS,
    "equal again": EQUAL_AGAIN,
    "cases": CASES,
    "reasons of errors": REASONS_OF_ERRORS,
}


UNPROVEN = {
    "with attributes": "attributes of an instance of a class of dicts",
    "classes as keys": "`nodes[<class Num>]` is no code",
    "objects called": "the call goes to what a property gives",
}
"""Programs of which something is told that no claim bears out yet, and why."""


@pytest.mark.parametrize("style", ["prose", "steps"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_claim_is_supported(recorded, unproven, name, style):
    trace = recorded(PROGRAMS[name])

    wrong = [each for seed in range(3) for each in unproven(narrate(trace, style=style, seed=seed), trace)]

    assert [each for each in wrong if name not in UNPROVEN or each.startswith("refuted")] == []
    assert bool(wrong) is (name in UNPROVEN)


SAID = [
    (EMPTY_OF_A_CLASS, "mutation", "self.nodes = ...", "Nodes()", ["Graph()", "Nodes({1: 2})"]),
    (EMPTY_OF_A_CLASS, "value", "made", "bag({0})", ["bag(size=2)", "bag({1})"]),
    (
        WITH_ATTRIBUTES, "value", "wild", "Wild({'a*': 1, 'b*': 2}, starred={'a', 'b'}, limit=9)",
        [
            "Wild({'a*': 1, 'b*': 2}, starred={'a', 'b'}, limit=8)",
            "Wild({'a*': 1, 'b*': 3}, starred={'a', 'b'}, limit=9)",
            "Wild({'a*': 1, 'b*': 2}, limits=9)",
        ],
    ),
    (
        FUNCTIONS_AS_ITEMS, "value", "more", "{<function makers.<locals>.<lambda>>: 1}",
        ["{<function makers.<locals>.<lambda>>: 0}"],
    ),
    (
        CLASSES_AS_KEYS, "value", "nodes", "{<class Numbers>: <built-in len>}",
        ["{<class Numbers>: <function visit>}", "{<class Num>: <built-in len>}"],
    ),
    (LONG_DICT, "mutation", "del table[...]", "b'5D'", ["b'5E'"]),
    (LONG_DICT, "mutation", "table[b'ZZ'] = ...", "b'$'", ["b'%'"]),
    (PREFIXES, "value", "marks", "{'#', '%', '/', ']'}", ["{'#', '/', ']'}"]),
    (PREFIXES, "value", "first", "b'$\\\\\\x00'", ["b'$\\\\\\x01'"]),
    (OBJECTS_CALLED, "value", "data", "True", ["False"]),
    (SHARED_NAMES, "test", "options.get('limit') is None", "True", ["False"]),
    (SHARED_NAMES, "value", "nodes", "[3]", ["[5]"]),
    (ASSIGNED_IN_A_TEST, "value", "node", "None", ["'Add'"]),
    (ARGUMENTS_IN_A_ROW, "test", "row is args[0]", "True", ["1"]),
    (ARGUMENTS_IN_A_ROW, "test", "row is args[1]", "False", ["True"]),
    (ANY_NUMBER_OF_ARGUMENTS, "return", "mix(2, 3, scale=2, z=4)", "11", ["12"]),
    (ANY_NUMBER_OF_ARGUMENTS, "return", "mix(5, scale=1)", "5", ["4"]),
    (
        PATTERNS, "value", "made",
        r"re.compile('(?P<sign>[+-])(?P<year>[0-9]{4})-(?P<month>[0-9]{2})[ \\t]*(?P<word>u)')",
        ["re.compile('b+')"],
    ),
    (
        PATTERNS, "value", "pairs", "{'short': re.compile('a+'), 'step': <Pattern>}",
        ["{'short': re.compile('b+'), 'step': <Pattern>}"],
    ),
    (EQUAL_AGAIN, "value", "words[1]", "'cd'", ["'ce'"]),
    (EQUAL_AGAIN, "value", "words[0]", "'ab'", ["'Ac'"]),
    (CASES, "value", "first", "'a'", ["'b'"]),
    (CASES, "value", "request", "Request(verb='GET', path=['a', 'b'])", ["Request(verb='GET', path=['a', 'c'])"]),
    (REASONS_OF_ERRORS, "value", "error", "HostError()", ["HostError(<Pattern>)"]),
]  # fmt: skip
CALLS = ["mix(2, scale=2, z=4)", "mix(2, 4, scale=2, z=4)", "mix(2, 3, scale=3, z=4)", "mix(2, 3, scale=2, z=5)",
         "mix(2, 3, scale=2, y=4)"]  # fmt: skip


@pytest.mark.parametrize(("source", "kind", "subject", "value", "others"), SAID)
def test_what_is_so_is_told_from_what_is_not(recorded, is_so, source, kind, subject, value, others):
    trace = recorded(source)

    assert is_so(trace, kind, subject, value)
    assert [other for other in others if is_so(trace, kind, subject, other)] == []


@pytest.mark.parametrize("call", CALLS)
def test_a_call_with_other_arguments_is_none_of_the_run(recorded, is_so, call):
    trace = recorded(ANY_NUMBER_OF_ARGUMENTS)

    assert is_so(trace, "call", "mix(2, 3, scale=2, z=4)", "")
    assert not is_so(trace, "call", call, "")
    assert not is_so(trace, "return", call, "11")


def test_a_call_is_written_as_the_program_may_write_it(recorded):
    told = narrate(recorded(ANY_NUMBER_OF_ARGUMENTS), detail="parts").text

    for call in ("Angle.set(1)", "Angle.set(1, 2, ra=True)", "mix(2, 3, scale=2, z=4)", "mix(5, scale=1)"):
        assert f"`{call}`" in told
