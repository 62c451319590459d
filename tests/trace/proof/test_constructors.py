"""Calls of a class, which give an instance, although the `__init__` behind them returns None."""

from __future__ import annotations

import pytest

from groundbox.trace.narration.narrator import narrate
from groundbox.trace.proof.prover import prove

BOATS = """\
class Boat:
    def __init__(self, crew, towed=None):
        self.crew = crew
        self.towed = towed

class Ferry(Boat):
    pass

class Barge(Boat):
    def __init__(self, crew):
        super().__init__(crew + 1)
        self.crew += 1

def main(crews):
    last = None
    for crew in crews:
        last = Boat(crew, last)
    ferry = Ferry(crews[0])
    barge = Barge(crews[0])
    last.crew = 9
    return ferry.crew + barge.crew
"""
TRUE = [
    "`last` becomes `Boat(crew, last)` = Boat(crew=4, towed=None).",
    "`Boat(7, last)` = Boat(crew=7, towed=Boat(crew=4, towed=None)).",
    "`Boat.__init__(4, None)` returns None.",
    "`Ferry(4)` = Ferry(crew=4, towed=None).",
    "`Barge(4)` = Barge(crew=6, towed=None).",
]
FALSE = [
    "`last` becomes `Boat(crew, last)` = Boat(crew=5, towed=None).",
    "`Boat(7, last)` = Boat(crew=9, towed=Boat(crew=4, towed=None)).",
    "`Boat(7, last)` = Boat(crew=7, towed=Boat(crew=7, towed=None)).",
    "`Boat(4, None)` returns None.",
    "`Boat.__init__(4, None)` returns 4.",
    "`Ferry(4)` = Boat(crew=4, towed=None).",
    "`Ferry(4)` = Ferry(crew=5, towed=None).",
    "`Barge(4)` = Barge(crew=5, towed=None).",
    "`Barge(5)` = Barge(crew=6, towed=None).",
]


@pytest.mark.parametrize("text", TRUE)
def test_a_call_of_a_class_gives_the_instance(recorded, text):
    proof = prove(text, recorded(BOATS, "main", [4, 7]))

    assert proof.failed == []
    assert proof.faithful


@pytest.mark.parametrize("text", FALSE)
def test_another_instance_is_caught(recorded, text):
    assert not prove(text, recorded(BOATS, "main", [4, 7])).faithful


@pytest.mark.parametrize("style", ["prose", "steps", "backward"])
@pytest.mark.parametrize("detail", ["brief", "normal", "full"])
def test_the_narrators_own_are_proven(recorded, style, detail):
    trace = recorded(BOATS, "main", [4, 7])

    assert prove(narrate(trace, style=style, detail=detail).text, trace).failed == []
