"""Items and parts of arrays, which are made when they are read, so that no two names share one."""

from __future__ import annotations

import pytest

from groundbox import run
from groundbox.trace.narration.narrator import narrate
from groundbox.trace.proof.prover import prove

TILES = """\
import numpy as np

class Tile:
    def __init__(self, load):
        self.load = load

def main(rows, at):
    board = np.array(rows)
    row = board[at, :]
    part = board[at - 1:at, 0:2]
    first = board[0]
    tiles = np.array([[Tile(1), "."], [".", "."]])
    last = tiles[0, at - 1]
    by_place = {(1, 0): last}
    again = by_place[at, 0]
    return int(row[0])
"""
TRUE = ["`row` becomes `board[at, :]` = array([3, 4]).", "`last` becomes `tiles[0, 0]` = Tile(load=1)."]
FALSE = [
    "`row` becomes `board[at, :]` = array([3, 5]).",
    "`row` is the same array as `board[1, :]`, array([3, 4]).",
    "`last` becomes `tiles[0, 0]` = Tile(load=2).",
]


@pytest.fixture(scope="module")
def trace():
    """From a sandbox, whose environment has numpy."""
    execution = run(TILES, mode="call", call="main", args=[[[1, 2], [3, 4]], 1], trace=True)
    assert execution.trace is not None, execution.error
    return execution.trace


@pytest.mark.parametrize("text", TRUE)
def test_what_an_array_gives_is_proven(trace, text):
    proof = prove(text, trace)

    assert proof.failed == []
    assert proof.faithful


@pytest.mark.parametrize("text", FALSE)
def test_what_it_does_not_give_is_caught(trace, text):
    assert not prove(text, trace).faithful


@pytest.mark.parametrize("style", ["prose", "steps", "backward"])
@pytest.mark.parametrize("detail", ["brief", "normal", "full"])
def test_the_narrator_calls_no_part_of_an_array_the_same_one(trace, style, detail):
    told = narrate(trace, style=style, detail=detail).text

    assert "is the same array" not in told
    assert "is the same Tile as `by_place[1, 0]`" in told or style == "backward"
    assert prove(told, trace).failed == []
