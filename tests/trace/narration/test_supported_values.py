"""Whatever the narrator claims of values that are hard to write down, the prover finds in the trace.

Instances of container classes, functions and classes as items and keys, containers of which not everything is shown,
bytes and prefixed texts, names that two things share.
"""

from __future__ import annotations

import pytest

from groundbox.trace.narration.narrator import narrate
from groundbox.trace.proof.prover import prove
from groundbox.trace.proof.verdicts import Status

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
}


@pytest.mark.parametrize("style", ["prose", "steps"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_claim_is_supported(recorded, name, style):
    trace = recorded(PROGRAMS[name])

    for seed in range(3):
        proof = prove(narrate(trace, style=style, seed=seed).text, trace)

        assert proof.failed == []
        assert [each.quote for each in proof.verdicts if each.status is not Status.SUPPORTED] == []
        assert proof.faithful


FALSE = [
    (EMPTY_OF_A_CLASS, "`self.nodes` becomes Graph()."),
    (EMPTY_OF_A_CLASS, "`self.nodes` becomes Nodes({1: 2})."),
    (EMPTY_OF_A_CLASS, "`made` becomes bag(). 0 is added to `made`, which is now bag()."),
    (EMPTY_OF_A_CLASS, "`made` becomes bag(size=2)."),
    (WITH_ATTRIBUTES, "`wild` becomes Wild({'a*': 1, 'b*': 2}, starred={'a', 'b'}, limit=8)."),
    (WITH_ATTRIBUTES, "`wild` becomes Wild({'a*': 1, 'b*': 3}, starred={'a', 'b'}, limit=9)."),
    (WITH_ATTRIBUTES, "`wild` becomes Wild({'a*': 1, 'b*': 2}, limits=9)."),
    (WITH_ATTRIBUTES, "`self.limit` becomes 10."),
    (FUNCTIONS_AS_ITEMS, "`items` becomes {<function makers.<locals>.<lambda>>, … 3 more …}."),
    (FUNCTIONS_AS_ITEMS, "`items` becomes {<function makers.<locals>.<lambda>>}."),
    (FUNCTIONS_AS_ITEMS, "`more` becomes {<function makers.<locals>.<lambda>>: 0}."),
    (CLASSES_AS_KEYS, "`nodes[<class Numbers>]` becomes <function visit>."),
    (CLASSES_AS_KEYS, "`nodes[<class Num>]` becomes <function len>."),
    (LONG_FROZENSET, "`SAFE` becomes frozenset({'!', '$', … 66 more …, '~'})."),
    (LONG_FROZENSET, "`SAFE` becomes frozenset({'!', '?', … 64 more …, '~'})."),
    (LONG_DICT, "b'5E' is removed from `table`."),
    (LONG_DICT, "`table` gets b'ZZ' = b'%' at its end."),
    (PREFIXES, "`marks` becomes `set(delims) | set([u\"%\"])` = {'#', '/', ']'}."),
    (PREFIXES, "`first` becomes b'$\\\\\\x01'."),
    (OBJECTS_CALLED, "`edges` is set to the list that `graph.edges(data=False)` returned."),
    (OBJECTS_CALLED, "`found` is set to the list that `graph.edges(True)` returned."),
    (SHARED_NAMES, "`options.get('limit')` is 5."),
    (SHARED_NAMES, "`nodes` gets `v` = 5 at its end and is now [5]."),
    (ASSIGNED_IN_A_TEST, "`node := getattr(ast, name, None)` is false. `found` gets 'Add' at its end."),
]


@pytest.mark.parametrize(("source", "text"), FALSE)
def test_what_is_false_is_caught(recorded, source, text):
    proof = prove(text, recorded(source))

    assert not proof.faithful
    assert proof.failed
