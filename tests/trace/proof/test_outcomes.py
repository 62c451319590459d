"""What an expression gave that cannot be worked out here: shown by what the statement did with it, or by nothing."""

from __future__ import annotations

import pytest

from groundbox.trace.proof.prover import prove
from groundbox.trace.proof.verdicts import Status

LIBRARY = """\
import re

class Box:
    pass

def main(line):
    parts = re.split(",", line)
    box = Box()
    box.size = len(re.findall("a", line))
    i = 1
    found = re.sub("a", "b", parts[i])
    rows = []
    rows.append(re.findall("b", found))
    return re.sub("c", found, line)
"""
TRUE = [
    "`parts` becomes `re.split(',', line)` = ['a', 'ba'].",
    "`box.size` becomes `len(re.findall('a', line))` = 2.",
    "`found` is set to `re.sub('a', 'b', 'ba')` = 'bb'.",
    "`rows` gets `re.findall('b', found)` = ['b', 'b'] at its end.",
    "main returns `re.sub('c', found, line)` = 'a,ba'.",
]
FALSE = [
    "`re.split(',', line)` = ['a', 'bb'].",
    "`len(re.findall('a', line))` = 3.",
    "`found` is set to `re.sub('a', 'b', 'bc')` = 'bb'.",
    "`found` is set to `re.sub('a', 'c', 'ba')` = 'bb'.",
    "`rows` gets `re.findall('b', found)` = ['b'] at its end.",
    "main returns `re.sub('c', found, line)` = 'a,bb'.",
]


@pytest.mark.parametrize("text", TRUE)
def test_what_a_statement_keeps_shows_what_its_expression_gave(recorded, text):
    proof = prove(text, recorded(LIBRARY, "main", "a,ba"))

    assert proof.failed == []
    assert {verdict.status for verdict in proof.verdicts} == {Status.SUPPORTED}


@pytest.mark.parametrize("text", FALSE)
def test_another_value_or_argument_is_not_supported(recorded, text):
    proof = prove(text, recorded(LIBRARY, "main", "a,ba"))

    assert not proof.faithful


def test_a_line_of_two_statements_shows_nothing_of_the_first(recorded):
    trace = recorded("import re\n\ndef main(x):\n    y = len(re.split(',', x)); y += 1\n    return y\n", "main", "a,b")

    proof = prove("`len(re.split(',', x))` = 3.", trace)

    assert proof.count(Status.SUPPORTED) == 0


def test_a_return_that_another_one_replaces_shows_nothing(recorded):
    source = "import re\n\ndef main(x):\n    try:\n        return re.split(',', x)\n    finally:\n        return [1]\n"

    proof = prove("`re.split(',', x)` = [1].", recorded(source, "main", "a,b"))

    assert proof.count(Status.SUPPORTED) == 0


def test_an_object_that_stores_something_else_shows_nothing(recorded):
    source = (
        "import re\n\nclass Box:\n    def __setattr__(self, name, value):\n        self.__dict__[name] = 7\n\n"
        "def main(x):\n    box = Box()\n    box.size = len(re.split(',', x))\n    return box.size\n"
    )

    proof = prove("`len(re.split(',', x))` = 7.", recorded(source, "main", "a,b"))

    assert proof.count(Status.SUPPORTED) == 0


COMPREHENSION = """\
def main(xs):
    big = [x * 2 for x in xs if x > 1]
    return sum(len(str(y)) for y in big)
"""


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("The items 2, 3 of [1, 2, 3] pass `x > 1`.", True),
        ("All of [1, 2, 3] pass `x > 1`.", False),
        ("The items 2 of [1, 2, 3] pass `x > 1`.", False),
        ("The items 2, 3 of [1, 2, 4] pass `x > 1`.", False),
        ("`x * 2` gives 4, 6 for the items 2, 3.", True),
        ("`x * 2` gives 4, 5 for the items 2, 3.", False),
        ("`x * 3` gives 6, 9 for the items 2, 3.", False),
    ],
)
def test_what_became_of_the_items_of_a_comprehension_is_worked_out_again(recorded, text, holds):
    proof = prove(text, recorded(COMPREHENSION, "main", [1, 2, 3]))

    assert proof.faithful is holds


LOOPS = """\
def main(values):
    seen, last = 0, None
    for value in values:
        seen += 1
        last = value
    return seen, last
"""


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("In iterations 2 to 4 `value` takes the values 5, 7, 5; after that `last` is 5 and `seen` is 4.", True),
        ("In iterations 2 to 4 `value` takes the values 5, 7, 5; after that `seen` is 6.", False),
        ("The loop over `value` runs 5 times, after which `last` is 9 and `seen` is 5.", True),
        ("The loop over `value` runs 5 times, after which `last` is 8.", False),
    ],
)
def test_what_is_said_to_hold_afterwards_is_looked_for_there(recorded, text, holds):
    proof = prove(text, recorded(LOOPS, "main", [4, 5, 7, 5, 9]))

    assert proof.faithful is holds


def test_words_after_a_number_are_no_names_of_the_program(recorded):
    trace = recorded("def main(items):\n    line = len(items)\n    return line\n", "main", [1, 2])

    proof = prove(
        "`line` becomes 2. 3 more calls in this line are left out. The list has 2 items and `line` is 2.", trace
    )

    assert proof.failed == []


ARRAY = """\
import numpy as np

def main(rows):
    grid = np.array(rows)
    cell = grid[1][0]
    return int(cell)
"""


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("`grid` becomes array([[1, 2], [3, 4]]).", True),
        ("`grid` becomes array([[1, 2], [4, 3]]).", False),
        ("`grid` becomes array([1, 2, 3, 4]).", False),
        ("`cell` becomes `grid[1][0]` = np.int64(3).", True),
        ("`cell` becomes `grid[1][0]` = np.int64(4).", False),
    ],
)
def test_an_array_is_compared_by_its_shape(recorded, text, holds):
    pytest.importorskip("numpy")

    proof = prove(text, recorded(ARRAY, "main", [[1, 2], [3, 4]]))

    assert proof.faithful is holds
