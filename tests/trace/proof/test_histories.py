"""The changes of names, items and attributes."""

from __future__ import annotations

import ast

import pytest

from groundbox.trace.proof.prover import prove
from groundbox.trace.proof.records import histories
from groundbox.trace.proof.records.ledger import Ledger

ROWS = """\
def main(rounds):
    for base in range(rounds):
        rows = []
        for number in range(40):
            rows.append([base + number])
    return len(rows)
"""


@pytest.mark.parametrize(("said", "faithful"), [("[[0], [1]]", True), ("[[0], [2]]", False), ("[[1], [0]]", False)])
def test_changes_of_a_list_are_known_though_later_ones_hold_thousands(recorded, said, faithful):
    trace = recorded(ROWS, "main", 60)
    text = f"For base = 0, rows becomes []. Then rows is [[0]], and after that rows is {said}."

    assert prove(text, trace).faithful is faithful


PARTS = """\
class Row:
    def __init__(self):
        self.cells = {}

def main(n):
    rows = []
    for number in range(n):
        row = Row()
        row.cells[number] = [number]
        rows.append(row)
    rows[1].cells[1].append(9)
    rows[0].cells = {0: (rows[1], [7])}
    rows[0].cells[0][1].append(8)
    rows[2:3] = [[3]]
    rows[2].append(4)
    return n
"""


def test_every_change_of_what_a_list_leads_to_is_a_moment_of_its_name(recorded):
    trace = recorded(PARTS, "main", 4)
    ledger = Ledger(trace)

    moments = {t for t in ledger.histories.moments(["rows"]) if "Mutate" in type(trace.records[t]).__name__}

    assert moments == set(ledger.mutations)


def test_the_moments_of_a_list_that_grows_are_found_in_time_that_grows_with_its_length(recorded, monkeypatch):
    looked = []
    refs = histories.refs
    monkeypatch.setattr(histories, "refs", lambda value: looked.append(value) or refs(value))
    counts = []
    for size in (100, 400):
        looked.clear()
        Ledger(recorded(PARTS, "main", size)).histories.of(ast.Name("rows"))
        counts.append(len(looked))

    assert counts[1] < 6 * counts[0]


AGAIN = """\
def main(words, n):
    found = {}
    for word in words:
        found[word] = []
    for word in words:
        found[word] = [letter for letter in words[word]]
    row = [0] * n
    for i in range(n):
        row[i] = i % 2
    return found, row
"""


@pytest.mark.parametrize(
    ("text", "is_so"),
    [
        ("`found['b']` becomes []. With `word` = 'a', `found['a']` becomes []. Then `found['b']` becomes ['z'].", True),
        ("`found['b']` becomes []. With `word` = 'a', `found['a']` becomes []. Then `found['b']` becomes [].", False),
        ("With `i` = 0, `row[0]` becomes 0. With `i` = 2, `row[2]` becomes 0.", True),
        ("With `i` = 0, `row[0]` becomes 0. With `i` = 2, `row[3]` becomes 0.", False),
        ("With `i` = 0, `row[0]` becomes 0. With `i` = 2, `row[0]` becomes 0.", False),
        ("With `i` = 0, `row[0]` becomes 0. With `i` = 2, `row[2]` becomes 1.", False),
    ],
)
def test_an_item_that_is_given_an_equal_value_is_known_by_its_index_as_a_value(recorded, text, is_so):
    assert prove(text, recorded(AGAIN, "main", {"a": "", "b": "z"}, 4)).faithful is is_so


def test_the_steps_that_assign_a_place_are_compared_by_their_statements(recorded, monkeypatch):
    shapes = []
    shape = histories.shape
    monkeypatch.setattr(histories, "shape", lambda node: shapes.append(node) or shape(node))
    counts = []
    for size in (10, 80):
        shapes.clear()
        list(Ledger(recorded(AGAIN, "main", {"a": "", "b": "z"}, size)).histories.of(ast.parse("row[0]").body[0].value))
        counts.append(len(shapes))

    assert counts[0] == counts[1]
