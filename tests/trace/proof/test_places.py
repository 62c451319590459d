"""Which of several things that look alike a text speaks of: loops, calls in one expression, namesakes, objects."""

from __future__ import annotations

import ast

import pytest

from groundbox.trace.narration.narrator import narrate
from groundbox.trace.proof import gaps
from groundbox.trace.proof.prover import prove
from groundbox.trace.proof.records.places import places
from groundbox.trace.proof.verdicts import Status

ROUNDS = """\
def main(rows):
    total = 0
    while rows:
        row = rows.pop()
        for item in row:
            total += item
    return total
"""
ROUNDS_TOLD = """\
In iteration 1, `total` goes from 0 to 1. The loop ends after 1 iteration.
In iteration 2, `row` becomes [0, 0]. The loop over `item` is next.
The loop ends after {inner} iterations. Then `rows` is empty, which ends the loop after {outer} iterations.
"""


def test_an_inner_and_an_outer_loop_may_end_after_as_many_iterations(recorded):
    proof = prove(ROUNDS_TOLD.format(inner=2, outer=2), recorded(ROUNDS, "main", [[0, 0], [1]]))

    assert proof.failed == []


@pytest.mark.parametrize(("inner", "outer"), [(3, 2), (2, 3), (1, 2), (2, 1)])
def test_another_count_of_either_is_found(recorded, inner, outer):
    proof = prove(ROUNDS_TOLD.format(inner=inner, outer=outer), recorded(ROUNDS, "main", [[0, 0], [1]]))

    assert [verdict.status for verdict in proof.verdicts].count(Status.CONTRADICTED) >= 1


SIDES = """\
class Side:
    def __init__(self, length):
        self.length = length

    def size(self):
        return self.length

class Area:
    def __init__(self, left, right):
        self.left = left
        self.right = right

    def size(self):
        return self.left.size() * self.right.size()

def main(left, right):
    return Area(Side(left), Side(right)).size()
"""


def test_each_of_two_methods_in_an_expression_gives_what_its_own_object_has(recorded):
    proof = prove(
        "`Area.size` returns `self.left.size() * self.right.size()` = 4 * 7 = 28.", recorded(SIDES, "main", 4, 7)
    )

    assert proof.failed == []
    assert {verdict.status for verdict in proof.verdicts} == {Status.SUPPORTED}


@pytest.mark.parametrize("worked", ["7 * 4 = 28", "4 * 7 = 21", "4 * 8 = 28", "4 * 4 = 16", "2 * 14 = 28"])
def test_another_object_or_value_in_it_is_found(recorded, worked):
    proof = prove(
        f"`Area.size` returns `self.left.size() * self.right.size()` = {worked}.", recorded(SIDES, "main", 4, 7)
    )

    assert not proof.faithful


SAME_NAME = """\
def below(n):
    x = 1
    while x < n:
        x *= 2
    return x - 1

def main(numbers):
    x = 0
    for n in numbers:
        x = below(n)
    return x
"""
SAME_NAME_TRUE = [
    "`x` starts at 0. For `n` = 2, `x` is set to `below(2)` = 1. For `n` = 9, `x` is set to `below(9)` = 15.",
    "`x` starts at 0. For `n` = 2, `x` is 1, the result of `below(2)`. For `n` = 9, `x` becomes `below(9)` = 15.",
    "`x` starts at 0. With `n` = 2, `below` is called with `n` = 2. `x` is set to 1 and then `x` becomes 2. "
    "`below` returns 1. `x` is set to 1. For `n` = 9, `x` is set to `below(9)` = 15.",
]
SAME_NAME_FALSE = [
    "`x` starts at 0. For `n` = 9, `x` is set to `below(9)` = 15.",
    "`x` starts at 0. With `n` = 2, `below` is called with `n` = 2. `x` is set to 1 and then `x` becomes 2. "
    "`below` returns 1. For `n` = 9, `x` is set to `below(9)` = 15.",
    "`x` starts at 0. For `n` = 2, `x` is set to `below(2)` = 2. For `n` = 9, `x` is set to `below(9)` = 15.",
    "`x` starts at 0. For `n` = 9, `x` is set to 1. For `n` = 9, `x` is set to `below(9)` = 15.",
]


@pytest.mark.parametrize("text", SAME_NAME_TRUE)
def test_a_value_that_a_name_of_the_caller_takes_may_be_one_that_its_namesake_took_before(recorded, text):
    proof = prove(text, recorded(SAME_NAME, "main", [2, 9]))

    assert proof.failed == []


def test_so_it_may_be_several_times_in_a_row(recorded):
    told = [f"For `n` = {n}, `x` is set to `below({n})` = {x}." for n, x in ((2, 1), (2, 1), (1, 0), (2, 1), (9, 15))]

    proof = prove(" ".join(["`x` starts at 0.", *told]), recorded(SAME_NAME, "main", [2, 2, 1, 2, 9]))

    assert proof.failed == []


@pytest.mark.parametrize("text", SAME_NAME_FALSE)
def test_an_update_that_is_left_out_is_missed_though_a_namesake_took_the_value(recorded, text):
    proof = prove(text, recorded(SAME_NAME, "main", [2, 9]))

    assert not proof.faithful


@pytest.mark.parametrize(("updates", "most"), [(6, 12), (40, 0)])
def test_a_text_is_read_again_so_often_and_one_with_many_gaps_never(recorded, monkeypatch, updates, most):
    trace = recorded("def main(n):\n    for i in range(n):\n        x = i\n        x = -i\n", "main", updates + 2)
    text = " ".join(f"`x` becomes {-i}." for i in range(2, updates + 2))
    readings = []
    align = gaps.align
    monkeypatch.setattr(gaps, "align", lambda *given: readings.append(given) or align(*given))

    proof = prove(text, trace)

    assert len(proof.failed) == updates - 1
    assert len(readings) <= most


CHAIN = """\
class Link:
    def __init__(self, size):
        self.size = size
        self.next = None

def main(sizes):
    at = head = Link(0)
    for size in sizes:
        link = Link(size)
        at.next = link
        at = link
    at = head
    at = at.next
    return at.size
"""
CHAIN_TOLD = """\
`at` is set to Link(size=0, next=None). With `size` = 5, `at` becomes Link(size=5, next=None).
{back}. `at` becomes `at.next` = Link(size=5, next=None).
"""


@pytest.mark.parametrize("thing", ["Link", "object", "Link object"])
def test_an_object_that_a_name_shares_with_another_is_told_by_its_class(recorded, thing):
    back = f"`at` is the same {thing} as `head`, Link(size=0, next=Link(size=5, next=None))"

    proof = prove(CHAIN_TOLD.format(back=back), recorded(CHAIN, "main", [5]))

    assert proof.failed == []


@pytest.mark.parametrize(
    "back",
    [
        "`at` is the same Link as `link`, Link(size=0, next=Link(size=5, next=None))",
        "`at` is the same Link as `head`, Link(size=5, next=None)",
        "`at` is not the same Link as `head`",
        "`size` is 5",
    ],
)
def test_another_object_value_or_none_of_it_is_found(recorded, back):
    proof = prove(CHAIN_TOLD.format(back=back), recorded(CHAIN, "main", [5]))

    assert not proof.faithful


SHARED = """\
def longer(rows, size):
    return [row for row in rows if len(row) > size]

def shorter(rows, size):
    return [row for row in rows if len(row) < size]

def main(rows):
    kept = longer(rows, 1)
    kept = shorter(kept, 4)
    kept = longer(kept, 2)
    rest = shorter(rows, 2)
    return kept
"""
SHARED_TOLD = "`kept` becomes {first}. {second}. `kept` becomes `longer(kept, 2)` = ['abc']."
FIRST = "`longer(rows, 1)` = ['ab', 'abc', 'abcd']"


@pytest.mark.parametrize(
    "second",
    [
        "`kept` is the list that `shorter(kept, 4)` returned",
        "`kept` is set to the list that `shorter(..., 4)` returned",
        "`kept` is now the list that `shorter(['ab', 'abc', 'abcd'], 4)` returned",
        "`rows` is ['a', 'ab', 'abc', 'abcd']; `kept` is the list that `shorter(kept, 4)` returned",
    ],
)
def test_what_a_call_returned_is_told_without_its_value(recorded, second):
    trace = recorded(SHARED, "main", ["a", "ab", "abc", "abcd"])

    proof = prove(SHARED_TOLD.format(first=FIRST, second=second), trace)

    assert proof.failed == []


@pytest.mark.parametrize(
    "second",
    [
        "`kept` is the list that `shorter(kept, 3)` returned",
        "`kept` is the list that `shorter(['ab', 'abc'], 4)` returned",
        "`kept` is the list that `longer(kept, 4)` returned",
        "`rest` is the list that `shorter(kept, 4)` returned",
        "`kept` is set to the list that `longer(rows, 1)` returned",
        "`rows` has 4 items",
    ],
)
def test_what_another_call_returned_or_another_name_kept_is_found(recorded, second):
    trace = recorded(SHARED, "main", ["a", "ab", "abc", "abcd"])

    proof = prove(SHARED_TOLD.format(first=FIRST, second=second), trace)

    assert not proof.faithful


LONG = """\
def build(n):
    found = list(range(n))
    for i in range(6):
        found.append(i)
    return found

def main(n):
    short = build(1)
    long = build(n)
    for i in range(6):
        long.append(i)
    return len(long)
"""


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ("`long` is the list that `build(400)` returned", Status.SUPPORTED),
        ("`long` is the list that `build(1)` returned", Status.UNSUPPORTED),
        ("`short` is the list that `build(400)` returned", Status.UNSUPPORTED),
    ],
)
def test_a_list_that_is_not_wholly_shown_is_known_as_the_one_that_a_call_returned(recorded, said, status):
    proof = prove(f"{said}.", recorded(LONG, "main", 400))

    assert [verdict.status for verdict in proof.verdicts] == [status]


NAMESAKES = """\
def weight():
    total = 0
    for x in range(9):
        for y in range(8):
            if y == 0:
                total += x
    return total

def main():
    for y in range(8):
        found = weight()
    return found
"""
NAMESAKES_TOLD = """\
`weight` is called. For `x` = 4: the loop over `y` runs 8 times, after which `total` is 10.
`x` = 5: the loop over `y` runs 8 times, after which `total` is 15.
In iterations 7 to 8{of} `x` takes the values 6, {x}; after that `total` is {total}.
"""


@pytest.mark.parametrize("of", ["", " of the loop over `x`,"])
def test_a_loop_that_begins_is_not_taken_for_one_of_a_caller_with_the_same_name_and_count(recorded, of):
    proof = prove(NAMESAKES_TOLD.format(of=of, x=7, total=28), recorded(NAMESAKES, "main"))

    assert proof.failed == []
    assert proof.count(Status.UNCHECKABLE) == 0


@pytest.mark.parametrize(
    ("of", "x", "total"),
    [("", 8, 28), ("", 7, 27), (" of the loop over `x`,", 8, 28), (" of the loop over `found`,", 7, 28)],
)
def test_what_such_a_loop_does_not_do_is_found(recorded, of, x, total):
    proof = prove(NAMESAKES_TOLD.format(of=of, x=x, total=total), recorded(NAMESAKES, "main"))

    assert not proof.faithful


WHILES = """\
def main(n):
    total = 0
    k = 0
    while k < n:
        j = 0
        while j < 3:
            total += k
            j += 1
        k += 1
    return total
"""
WHILES_TOLD = """\
In iteration 1, `j` becomes 0; the loop with the condition `j < 3` runs {count} times.
In iterations 2 to 3 of the loop with the condition `{condition}`, `k` takes the values 2, {k}, after which `total` is 9.
"""


@pytest.mark.parametrize(
    ("count", "condition", "k", "faithful"),
    [(3, "k < n", 3, True), (2, "k < n", 3, False), (3, "k < n", 4, False), (3, "j < 3", 3, False)],
)
def test_a_loop_is_named_by_its_condition(recorded, count, condition, k, faithful):
    text = WHILES_TOLD.format(count=count, condition=condition, k=k)

    assert prove(text, recorded(WHILES, "main", 3)).faithful is faithful


DICE = """\
class Dice:
    def __init__(self):
        self.at = 0

    def roll(self, sides):
        self.at += 1
        return self.at * sides

def main():
    dice = Dice()
    total = dice.roll(2) + dice.roll(2)
    if dice.roll(3) < dice.roll(3):
        total += 1
    return total
"""


@pytest.mark.parametrize(
    "said",
    [
        "`total` becomes `dice.roll(2) + dice.roll(2)` = 2 + 4 = 6",
        "`dice.roll(3) < dice.roll(3)` is true",
        "`dice.roll(3) < dice.roll(3)` is true (9 < 12)",
    ],
)
def test_calls_with_equal_arguments_and_other_results_are_known_by_their_order(recorded, said):
    proof = prove(f"{said}.", recorded(DICE, "main"))

    assert {verdict.status for verdict in proof.verdicts} == {Status.SUPPORTED}


@pytest.mark.parametrize(
    "said",
    [
        "`total` becomes `dice.roll(2) + dice.roll(2)` = 4 + 2 = 6",
        "`total` becomes `dice.roll(2) + dice.roll(2)` = 3 + 3 = 6",
        "`dice.roll(3) < dice.roll(3)` is false",
        "`dice.roll(3) < dice.roll(3)` is true (9 < 15)",
        "`dice.roll(3) < dice.roll(3)` is true (6 < 12)",
    ],
)
def test_their_results_in_another_order_are_found(recorded, said):
    assert not prove(f"{said}.", recorded(DICE, "main")).faithful


@pytest.mark.parametrize(
    ("call", "known"),
    [
        ("g(*[f(1)], k=f(2))", True),
        ("g(f(1), *[f(2)], k=f(3), **{'a': f(4)})", True),
        ("g(k=f(2), *[f(1)])", False),
        ("g(*[f(1)], k=f(3),\n  *[f(2)])", False),
        ("h(g(**f(2), k=f(3)), *[f(4)])", True),
        ("h(g(k=f(2), *f(1)) + f(3))", False),
    ],
)
def test_calls_have_no_place_where_a_star_after_a_keyword_is_taken_first(call, known):
    tree = ast.parse(f"x = {call}")
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]

    assert [id(call) in places(tree) for call in calls] == [known] * len(calls)


def test_the_narrator_may_tell_a_comparison_of_two_such_calls(recorded):
    trace = recorded(DICE, "main")

    told = narrate(trace).text

    assert "9 < 12" in told
    assert prove(told, trace).failed == []
    assert prove(told, trace).count(Status.UNCHECKABLE) == 0
