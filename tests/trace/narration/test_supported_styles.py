"""Programs in styles of their own, told forwards and backwards: every claim is proven, as in `test_supported`."""

from __future__ import annotations

import pytest

from groundbox.trace.narration.narrator import narrate
from groundbox.trace.proof.prover import prove
from groundbox.trace.proof.verdicts import Status

FORMATTED = """\
def main(name, amount):
    text = "%s has %d (%.1f%%)" % (name, amount, amount * 10)
    whole = "%d items" % amount
    return text, whole
"""
CUT = """\
def main(xs):
    s = slice(1, None, 2)
    odd = xs[s]
    third = xs[2]
    return odd, third
"""
BITS = """\
def main(n, mask):
    low = ~n & 0xFF
    other = ~n
    count = 0
    while n:
        n &= n - 1
        count += 1
    return low, other, count, mask ^ 3
"""
EITHER = """\
def find(tree, want, path=()):
    if tree is None:
        return None
    value, left, right = tree
    if value == want:
        return path + (value,)
    return find(left, want, path + (value,)) or find(right, want, path + (value,))

def main(want):
    return find((5, (3, None, (4, None, None)), (8, None, None)), want)
"""
BOUNDED = """\
from collections import deque

def main(xs):
    last = deque(maxlen=3)
    for x in xs:
        last.appendleft(x)
    last.rotate(1)
    return list(last)
"""
NOT_A_NUMBER = """\
def main():
    none = float("nan")
    seen = {none: 1, 2.0: 3}
    parts = {none, 1.0}
    best = float("-inf")
    for x in [none, 1.5]:
        if x > best:
            best = x
    return best, len(seen), len(parts)
"""
PROGRAMS = {
    "formatted": (FORMATTED, "bob", 3.25),
    "cut": (CUT, [1, 2, 3, 4]),
    "bits": (BITS, 11, 5),
    "either": (EITHER, 4),
    "bounded": (BOUNDED, [5, 1, 4, 1]),
    "not a number": (NOT_A_NUMBER,),
}


@pytest.mark.parametrize("style", ["prose", "steps", "backward"])
@pytest.mark.parametrize("detail", ["brief", "parts", "normal", "full"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_claim_is_supported(recorded, name, style, detail):
    source, *arguments = PROGRAMS[name]
    trace = recorded(source, "main", *arguments)

    for seed in range(3):
        proof = prove(narrate(trace, style=style, detail=detail, seed=seed).text, trace)

        assert [each.quote for each in proof.verdicts if each.status is not Status.SUPPORTED] == []
        assert proof.faithful


@pytest.mark.parametrize(
    ("name", "text", "is_so"),
    [
        ("formatted", "`whole` becomes '%d items' % 3.25 = '3 items'.", True),
        ("formatted", "`whole` becomes '%d items' % 3.25 = '4 items'.", False),
        ("formatted", "`whole` becomes '%d items' % 4.25 = '4 items'.", False),
        ("bits", "`low` becomes `~n & 0xFF` = ~11 & 255 = 244.", True),
        ("bits", "`low` becomes `~n & 0xFF` = ~12 & 255 = 243.", False),
        ("bits", "`low` becomes `~n & 0xFF` = ~11 & 255 = 11.", False),
        ("bits", "`other` becomes `~n` = ~11 = -12.", True),
        ("bits", "`other` becomes `~n` = ~11 = -11.", False),
        ("bounded", "`last` becomes deque([], maxlen=3).", True),
        ("bounded", "`last` becomes deque([], maxlen=4).", False),
        ("bounded", "For `x` = 1, 1 is appended to `last`, which is now deque([1, 5], maxlen=3).", True),
        ("bounded", "For `x` = 1, 1 is appended to `last`, which is now deque([5, 1], maxlen=3).", False),
        ("bounded", "For `x` = 1, 1 is appended to `last`, which is now deque([1, 5], maxlen=2).", False),
        ("not a number", "`seen` becomes {nan: 1, 2.0: 3}.", True),
        ("not a number", "`seen` becomes {nan: 2, 2.0: 3}.", False),
        ("not a number", "`seen` becomes {nan: 1, 2.5: 3}.", False),
        ("not a number", "`parts` becomes {nan, 1.0}.", True),
        ("not a number", "`parts` becomes {nan, 2.0}.", False),
        ("not a number", "`parts` becomes {0.5, 1.0}.", False),
    ],
)
def test_another_value_is_caught(recorded, name, text, is_so):
    source, *arguments = PROGRAMS[name]

    assert prove(text, recorded(source, "main", *arguments)).faithful is is_so


def test_no_reason_is_given_where_a_comparison_and_its_opposite_are_false(recorded):
    told = narrate(recorded(NOT_A_NUMBER, "main")).text

    assert "nan <= " not in told
