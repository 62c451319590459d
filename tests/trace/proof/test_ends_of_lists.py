"""Where in a list an item goes in or out."""

from __future__ import annotations

import pytest

from groundbox.trace.proof.prover import prove

QUEUE = """\
def main():
    xs = [1, 2]
    xs.append(3)
    xs.insert(0, 4)
    xs.insert(2, 5)
    xs.pop()
    xs.pop(0)
    xs.pop(1)
    return xs
"""
WORDS = [
    ("`xs` gets 3 at its {}", "end", "front"),
    ("`xs` gets 4 at its {}", "front", "end"),
    ("4 is put at the {} of `xs`", "front", "end"),
    ("`xs` gets 5 at index {}", "2", "1"),
    ("5 is inserted at index {} of `xs`", "2", "3"),
    ("The {} item, 3, is removed from `xs`", "last", "first"),
    ("3 is taken from the {} of `xs`", "end", "front"),
    ("The {} item, 4, is removed from `xs`", "first", "last"),
    ("4 is taken from the {} of `xs`", "front", "end"),
]


@pytest.mark.parametrize(("text", "place", "other"), WORDS)
def test_the_place_of_a_change_is_checked(recorded, text, place, other):
    right = prove(text.format(place) + ".", recorded(QUEUE, "main"))
    wrong = prove(text.format(other) + ".", recorded(QUEUE, "main"))

    assert right.failed == []
    assert right.faithful
    assert not wrong.faithful
