"""Claims about programs that search by generators: each is found where it is true, and its false neighbour is not."""

import pytest

from groundbox.trace.narration.narrator import narrate
from groundbox.trace.proof.prover import prove
from groundbox.trace.proof.verdicts import Status

FIRST = """\
def main(lists):
    first = None
    for each in lists:
        if first is None:
            first = each
        other = [0]
    return first
"""
_FIRST = "For `each` = [1, 2]: `first` is None, so now `first` is the same list as "


@pytest.mark.parametrize(
    ("said", "faithful"), [("`each`, [1, 2].", True), ("`other`, [1, 2].", False), ("`each`, [1, 3].", False)]
)
def test_what_was_none_is_the_same_object_once_it_is_assigned(recorded, said, faithful):
    assert prove(_FIRST + said, recorded(FIRST, "main", [[1, 2], [3]])).faithful is faithful


COLORS = """\
def colors(nodes, done):
    if not nodes:
        yield dict(done)
        return
    for color in "rg":
        done[nodes[0]] = color
        yield from colors(nodes[1:], done)
        del done[nodes[0]]

def main(nodes):
    ways = 0
    for way in colors(nodes, {}):
        ways += 1
    return any(color == "r" for color in way.values())
"""
_COLORS = "`ways` goes from 7 to 8. "


@pytest.mark.parametrize(
    ("said", "faithful"),
    [
        ("`color == 'r'` gives False, False, False for the items 'g', 'g', 'g'.", True),
        ("`color == 'r'` gives False, True, False for the items 'g', 'g', 'g'.", False),
        ("`color == 'g'` gives True, True, True for the items 'g', 'g', 'g'.", False),
    ],
)
def test_items_of_a_comprehension_are_found_after_the_last_steps_of_generators(recorded, said, faithful):
    assert prove(_COLORS + said, recorded(COLORS, "main", ["a", "b", "c"])).faithful is faithful


QUEENS = """\
def conflict(state, col):
    row = len(state)
    return any(abs(c - col) in (0, row - r) for r, c in enumerate(state))

def queens(n, state):
    if len(state) == n:
        yield state
        return
    for col in range(n):
        if not conflict(state, col):
            yield from queens(n, state + [col])

def main(n):
    count = 0
    first = None
    for solution in queens(n, []):
        if first is None:
            first = solution
        count += 1
    return count, first, any(c == 0 for c in solution)
"""


@pytest.mark.parametrize("style", ["prose", "steps", "backward"])
@pytest.mark.parametrize("detail", ["brief", "normal"])
def test_a_search_by_generators_is_told_and_proven(recorded, style, detail):
    trace = recorded(QUEENS, "main", 4)

    for seed in range(3):
        proof = prove(narrate(trace, style=style, detail=detail, seed=seed).text, trace)

        assert [each.quote for each in proof.verdicts if each.status is not Status.SUPPORTED] == []


KNAPSACK = """\
def choose(items, room):
    if not items:
        yield 0, []
        return
    (weight, value), rest = items[0], items[1:]
    yield from choose(rest, room)
    if weight <= room:
        for others, picked in choose(rest, room - weight):
            yield others + value, [weight] + picked

def main(items, room):
    total = 0
    for value, picked in choose(items, room):
        total += value
    return total
"""
_ITEMS = [[2, 3], [3, 4]]


@pytest.mark.parametrize(
    ("said", "faithful"),
    [
        ("3 ran without a record, after which `total` is 7", True),
        ("3 ran without a record, after which `total` is 6", False),
    ],
)
def test_one_iteration_without_records_is_found_looking_back(recorded, said, faithful):
    trace = recorded(KNAPSACK, "main", _ITEMS, 4, soft_events=10)

    proof = prove(f"Earlier, iteration {said}. So main returns 7.", trace)

    assert proof.faithful is faithful
    assert Status.UNCHECKABLE not in {each.status for each in proof.verdicts}


@pytest.mark.parametrize("soft_events", [10, 40])
def test_a_folded_search_by_generators_is_told_backward_and_proven(recorded, soft_events):
    trace = recorded(KNAPSACK, "main", _ITEMS, 4, soft_events=soft_events)

    for seed in range(3):
        proof = prove(narrate(trace, style="backward", detail="brief", seed=seed).text, trace)

        assert [each.quote for each in proof.verdicts if each.status is not Status.SUPPORTED] == []


TAKEN = """\
def rows(n):
    for row in range(n):
        yield [row]

def main(n):
    found = rows(n)
    first = next(found, None)
    second = next(found)
    return first, second
"""
_TAKEN = "The generator `rows` yields [0], and `first` is set to `next(found, None)` = {}. `rows` gives [1]; `second` becomes {}."


@pytest.mark.parametrize(
    ("first", "second", "faithful"),
    [
        ("[0]", "`next(found)` = [1]", True),
        ("[1]", "`next(found)` = [1]", False),
        ("None", "`next(found)` = [1]", False),
        ("[0]", "`next(found)` = [0]", False),
        ("[0]", "`next(found)` = [2]", False),
    ],
)
def test_what_is_taken_from_a_generator_that_has_more_is_found_after_what_it_yielded(recorded, first, second, faithful):
    proof = prove(_TAKEN.format(first, second), recorded(TAKEN, "main", 3))

    assert proof.faithful is faithful
    assert Status.UNCHECKABLE not in {each.status for each in proof.verdicts}


@pytest.mark.parametrize("style", ["prose", "steps", "backward"])
def test_what_is_taken_from_a_generator_is_told_and_proven(recorded, style):
    trace = recorded(TAKEN, "main", 3)

    for seed in range(3):
        proof = prove(narrate(trace, style=style, detail="brief", seed=seed).text, trace)

        assert [each.quote for each in proof.verdicts if each.status is not Status.SUPPORTED] == []


@pytest.mark.parametrize("second", [True, False])
def test_a_solution_taken_from_a_search_that_goes_on_is_found(recorded, second):
    source = QUEENS.partition("def main")[0] + (
        "def main(n):\n    found = queens(n, [])\n    first = next(found)\n    second = next(found)\n    return first\n"
    )
    said = "[0, 3, 1, 4, 2]" if second else "[0, 3, 1, 2, 4]"
    text = f"`queens` yields [0, 2, 4, 1, 3], and `first` is set to `next(found)` = [0, 2, 4, 1, 3]. `queens` gives {said}."

    assert prove(text, recorded(source, "main", 5)).faithful is second
