"""Programs in styles of their own, told forwards and backwards: every claim is proven, as in `test_supported`."""

from __future__ import annotations

import pytest

from groundbox.trace.narrate.narrator import narrate

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
def test_every_claim_is_supported(recorded, unproven, name, style, detail):
    source, *arguments = PROGRAMS[name]
    trace = recorded(source, "main", *arguments)

    for seed in range(3):
        assert unproven(narrate(trace, style=style, detail=detail, seed=seed), trace) == []


@pytest.mark.parametrize(
    ("name", "kind", "subject", "value", "others"),
    [
        ("formatted", "value", "whole", "'%d items' % 3.25", ["'4 items'", "'%d items' % 4.25"]),
        ("bits", "value", "low", "~11 & 255", ["~12 & 255", "243", "11"]),
        ("bits", "value", "other", "~11", ["-11"]),
        ("bounded", "value", "last", "deque([], maxlen=3)", ["deque([], maxlen=4)"]),
        ("bounded", "value", "last", "deque([1, 5], maxlen=3)", ["deque([5, 1], maxlen=3)", "deque([1, 5], maxlen=2)"]),
        ("not a number", "value", "seen", "{nan: 1, 2.0: 3}", ["{nan: 2, 2.0: 3}", "{nan: 1, 2.5: 3}", "{1.0: 1}"]),
        ("not a number", "value", "parts", "{nan, 1.0}", ["{nan, 2.0}", "{0.5, 1.0}", "{nan}"]),
        ("not a number", "value", "none", "nan", ["1.0", "inf"]),
    ],
)  # fmt: skip
def test_another_value_is_caught(recorded, is_so, name, kind, subject, value, others):
    source, *arguments = PROGRAMS[name]
    trace = recorded(source, "main", *arguments)

    assert is_so(trace, kind, subject, value)
    assert [other for other in others if is_so(trace, kind, subject, other)] == []


def test_no_reason_is_given_where_a_comparison_and_its_opposite_are_false(recorded):
    told = narrate(recorded(NOT_A_NUMBER, "main")).text

    assert "nan <= " not in told
