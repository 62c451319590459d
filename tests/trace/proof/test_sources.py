"""What loops go through."""

from __future__ import annotations

import pytest

from groundbox.trace.proof.prover import prove

PROGRAM = """\
def main(xs, d):
    total = 0
    for i in range(3):
        for j in range(i + 1):
            total += j
    for k, v in d.items():
        total += v
    while xs:
        x = xs.pop()
        total += x
    for name in d:
        total += 1
    return [y for y in [total]]
"""
TEXT = "`main` runs with `xs` = [1, 2]. {}"


@pytest.mark.parametrize(
    "text",
    [
        "The loop takes `i` from `range(3)`.",
        "The loop takes `j` from `range(i + 1)` = range(0, 1).",
        "The loop goes through `d.items()` with `k, v`.",
        "The loop takes `k, v` from `d.items()`.",
        "The loop takes `x` from `xs`.",  # which a `while` does in another way
        "The loop takes `name` from `d.keys()`.",
        "For `i` from 0 to 2, `total` grows.",
        "For `x` from 2 to 1, `total` grows.",
    ],
)
def test_what_a_loop_goes_through_is_not_refused(recorded, text):
    assert prove(TEXT.format(text), recorded(PROGRAM, "main", [1, 2], {"a": 1})).failed == []


@pytest.mark.parametrize(
    "text",
    [
        "The loop takes `total` from `range(3)`.",
        "The loop takes `i` from `range(i + 1)`.",
        "The loop takes `total` from `xs`.",
        "For `i` from 1 to 3, `total` grows.",
    ],
)
def test_what_no_loop_goes_through_is_refused(recorded, text):
    assert not prove(TEXT.format(text), recorded(PROGRAM, "main", [1, 2], {"a": 1})).faithful


def test_keys_are_no_items(recorded):
    trace = recorded("def main(d):\n    for k, v in d.items():\n        print(k, v)\n", "main", {"a": 1})

    assert not prove("`main` runs with `d` = {'a': 1}. The loop goes through `d.keys()`.", trace).faithful
    assert prove("`main` runs with `d` = {'a': 1}. The loop goes through `d.items()`.", trace).faithful
