"""Programs with something that is hard to tell or to read, told by the narrator and held to its claims word by word.

`told.jsonl` has each with the call that is made and, where something of it is not borne out yet, why.
"""

import ast
import functools
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import groundbox
from groundbox.trace.narrate.narrator import Detail, Style, narrate

ROWS = {row["name"]: row for row in map(json.loads, (Path(__file__).parent / "told.jsonl").read_text().splitlines())}
MANNERS: Sequence[tuple[Style, Detail]] = (("prose", "brief"), ("prose", "full"), ("steps", "normal"))


@pytest.fixture(scope="module")
def run_of(recorded):
    """The recorded run of a program by its name."""

    @functools.cache
    def run(name):
        row = ROWS[name]
        options = {"soft_events": row["soft_events"]} if "soft_events" in row else {}
        if "call" not in row:
            return recorded(row["source"], **options)
        call = ast.parse(row["call"], mode="eval").body
        return recorded(row["source"], call.func.id, *map(ast.literal_eval, call.args), **options)

    return run


@pytest.mark.parametrize("name", ROWS)
def test_what_is_told_is_proven(run_of, unproven, name):
    trace = run_of(name)
    told = [narrate(trace, style=style, detail=detail, seed=1) for style, detail in MANNERS]

    wrong = [each for narration in told for each in unproven(narration, trace)]

    assert [each for each in wrong if "unproven" not in ROWS[name] or each.startswith("refuted")] == []
    assert bool(wrong) is ("unproven" in ROWS[name])


SAID = [
    ("fares", "value", "zone * (3 if night else 2)", "5 * (3 if False else 2)",
     ["5 * (4 if False else 2)", "5 * (2 if True else 3)", "20"]),
    ("sums", "value", "value if value > last else 0", "5 if 5 > 0 else 0", ["4", "6", "5 if 5 > 1 else 0"]),
    ("walk", "value", "at", "2", ["3", "1"]),
    ("squares 2", "value", "(n ** 0.5).is_integer()", "(30 ** 0.5).is_integer()",
     ["(31 ** 0.5).is_integer()", "(30 ** 1.5).is_integer()"]),
    ("boats", "value", "last", "Boat(crew=7, towed=Boat(crew=4, towed=None))",
     ["Boat(crew=9, towed=None)", "Boat(crew=7, towed=Boat(crew=7, towed=None))"]),
    ("boats", "value", "ferry", "Ferry(crew=4, towed=None)", ["Boat(crew=4, towed=None)", "Ferry(crew=5, towed=None)"]),
    ("boats", "value", "barge", "Barge(crew=6, towed=None)", ["Barge(crew=5, towed=None)"]),
    ("spins", "value", "z", "(-31+22j)", ["(-31-22j)", "(31+22j)"]),
    ("spins", "value", "missing", "nan", ["0.0", "inf"]),
    ("spins", "value", "half", "3.141592653589793", ["3.2"]),
    ("ticks", "value", "mark", "'`a`'", ["'`b`'", "'a'"]),
    ("ticks", "value", "size", "3", ["6"]),
    ("ticks", "value", "note", '''"Answer: 5, it's `x` = 7"''', ['''"Answer: 5, it's `x` = 8"''']),
    ("powers", "value", "x", "<int of 16610 bits>", ["<int of 16611 bits>", "<negative int of 16610 bits>"]),
    ("powers", "value", "y", "<negative int of 16610 bits>", ["<int of 16610 bits>"]),
    ("powers", "return", "main(5000)", "<int of 16607 bits>", ["<int of 16610 bits>"]),
    ("numbers", "value", "held", "{<int of 16610 bits>: 1}", ["{<int of 16610 bits>: 2}", "{<int of 16611 bits>: 1}"]),
    ("not a number", "value", "held", "{nan: 1}", ["{nan: 2}", "{1.0: 1}"]),
    ("points", "mutation", "held[...] = ...", "7", ["8"]),
    ("first", "test", "first is each", "True", ["1"]),
    ("first", "test", "first is other", "False", ["True"]),
    ("taken", "value", "first", "[0]", ["[2]", "None"]),
    ("taken", "value", "second", "[1]", ["[0]", "[2]"]),
    ("faces", "return", "has", "True", ["False"]),
    ("faces", "value", "digit in faces", "1 in frozenset({1, 2})", ["3 in frozenset({1, 2})"]),
    ("library", "value", "re.split(',', line)", "['a', 'ba']", ["['a', 'bb']"]),
    ("library", "value", "box.size", "2", ["3"]),
    ("library", "value", "found", "'bb'", ["'bc'"]),
    ("library", "return", "main", "'a,ba'", ["'a,bb'"]),
    ("names", "test", "a is b", "True", ["False"]),
    ("names", "test", "a is c", "False", ["True"]),
    ("queue", "mutation", "xs.append(...)", "3", ["4", "1"]),
    ("queue", "mutation", "xs.insert(0, ...)", "4", ["3", "5"]),
    ("queue", "mutation", "xs.insert(2, ...)", "5", ["4"]),
    ("queue", "mutation", "xs.pop()", "3", ["4", "5"]),
    ("queue", "mutation", "xs.pop(0)", "4", ["3"]),
    ("squares", "return", "square(3)", "9", ["81"]),
    ("squares", "value", "m", "9", ["81"]),
    ("squares", "call", "square(9)", "", []),
    ("find", "test", "low <= high", "0 <= 2", ["0 < 2", "2 <= 0"]),
    ("find", "test", "3 < xs[mid]", "3 >= 2", ["3 < 2"]),
    ("seek", "exit", "for i, x in enumerate(xs)", "'break'", ["'exhausted'", "'return'"]),
    ("seek", "exit", "for x in xs", "'exhausted'", ["'break'"]),
    ("seek", "count", "for i, x in enumerate(xs)", "3", ["4", "5"]),
    ("seek", "count", "for x in xs", "4", ["5"]),
    ("parse", "catch", "except KeyError", "False", ["True"]),
    ("parse", "catch", "except (TypeError, ValueError)", "True", ["False"]),
    ("parse", "leave", "read", "", []),
    ("parse", "raise", "ValueError", "", []),
    ("sides", "return", "Side.size", "7", ["28"]),
    ("sides", "value", "self.left.size() * self.right.size()", "28", ["47"]),
    ("triangle folded at 30", "count", "folded iterations", "21", ["19", "22"]),
    ("square folded at 24", "value", "total", "8", ["7"]),
    ("loop in a loop", "count", "while blocks > 0", "5", ["99"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "kind", "subject", "value", "others"), SAID)
def test_what_is_so_is_told_from_what_is_not(run_of, is_so, name, kind, subject, value, others):
    trace = run_of(name)

    assert is_so(trace, kind, subject, value)
    assert [other for other in others if is_so(trace, kind, subject, other)] == []


@pytest.mark.parametrize(
    ("name", "kind", "subject"),
    [
        ("squares", "call", "square(4)"),
        ("squares", "call", "twice(9)"),
        ("boats", "call", "Boat(6, None)"),
        ("parse", "leave", "main"),
        ("parse", "raise", "KeyError"),
        ("boats", "statement", "break"),
        ("double", "call", "double(10)"),
    ],
)
def test_what_never_happened_is_not_so(run_of, is_so, name, kind, subject):
    assert not is_so(run_of(name), kind, subject, "")


NAMED = """\
def main({name}, more):
    total = 0
    for {item} in range({name}):
        total += {item} * more
    {more} = total
    return total, {more}
"""
WORDS = ["changes", "down", "false", "falls", "grows", "input", "items", "left", "out", "still"]


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("role", ["name", "item", "more"])
def test_names_that_are_words_of_the_text_are_told_apart_from_them(recorded, unproven, word, role):
    trace = recorded(NAMED.format(**{"name": "n", "item": "i", "more": "last", role: word}), "main", 9, 1)

    assert unproven(narrate(trace), trace) == []


def test_a_dict_with_lists_for_keys_is_read_through_its_changes(run_of, is_so):
    trace = run_of("lists as keys")

    assert is_so(trace, "mutation", "table['b'] = ...", "3")
    assert not is_so(trace, "mutation", "table['b'] = ...", "7")


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


def test_no_part_of_an_array_is_called_the_same_one(is_so):
    """Of a run in a sandbox, whose environment has numpy."""
    trace = groundbox.run(TILES, mode="call", call="main", args=[[[1, 2], [3, 4]], 1], trace=True).trace

    for style, detail in MANNERS:
        told = narrate(trace, style=style, detail=detail)
        assert "is the same array" not in told.text
        assert "is the same Tile as `by_place[1, 0]`" in told.text
    assert is_so(trace, "value", "row", "array([3, 4])")
    assert not is_so(trace, "value", "row", "array([3, 5])")
    assert not is_so(trace, "value", "last", "Tile(load=2)")
