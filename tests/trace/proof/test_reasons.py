"""Reasons that a text gives, and calls that it says begin."""

from __future__ import annotations

import pytest

from groundbox.trace.proof.prover import prove

PICK = """\
class Pile:
    def __init__(self, owner, size):
        self.owner = owner
        self.size = size

def main(xs):
    found = None
    for x in xs:
        if x > 10:
            found = x
    first = Pile("ann", 1)
    second = Pile("bob", 2)
    return found
"""


@pytest.mark.parametrize(
    "text",
    [
        "As 11 > 10, `found` becomes 11.",
        "With `x` = 4, 4 <= 10. With `x` = 11, as 11 > 10, `found` becomes 11.",
        "The loop goes on as long as 3 < 2. As 11 > 10, `found` becomes 11.",
    ],
)
def test_a_reason_with_as_is_proven(recorded, text):
    proof = prove(text, recorded(PICK, "main", [4, 11]))

    assert proof.failed == []
    assert proof.faithful


@pytest.mark.parametrize(
    "text",
    [
        "As 11 > 50, `found` becomes 11.",
        "As 11 < 10, `found` becomes 11.",
        "With `x` = 4, 4 <= 10; as 12 > 10, `found` becomes 11.",
    ],
)
def test_a_false_reason_with_as_is_not(recorded, text):
    assert not prove(text, recorded(PICK, "main", [4, 11])).faithful


def test_a_call_that_begins_later_does_not_begin_here(recorded):
    text = (
        "`Pile` is instantiated with `owner` = '{}' and `size` = {}. "
        "`self.owner` becomes 'ann', `self.size` becomes 1, and `first` becomes Pile(owner='ann', size=1)."
    )

    assert prove(text.format("ann", 1), recorded(PICK, "main", [])).faithful
    assert not prove(text.format("bob", 2), recorded(PICK, "main", [])).faithful
