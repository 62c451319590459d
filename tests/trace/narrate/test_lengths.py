"""Long runs are told in few words."""

from __future__ import annotations

from typing import Any

import pytest

from groundbox.trace.narrate.narrator import is_told_whole, narrate
from groundbox.trace.run.state import State

SUM = """\
def total(n):
    found = 0
    for number in range(n):
        if number % 3 == 0:
            found += number
    return found
"""
GRID = """\
def grid(n):
    found = 0
    for row in range(n):
        for column in range(n):
            if row > column:
                found += 1
    return found
"""
FIB = """\
def fib(n):
    if n < 2:
        return n
    return fib(n - 1) + fib(n - 2)
"""
DEEP = """\
def deep(n):
    if n == 0:
        return 0
    return deep(n - 1) + 1
"""
MAPPED = """\
def double(n):
    return 2 * n

def mapped(n):
    return list(map(double, range(n)))
"""


@pytest.mark.parametrize(("source", "call", "small", "large"), [
    (SUM, "total", 20, 500), (GRID, "grid", 10, 40), (FIB, "fib", 10, 15), (DEEP, "deep", 20, 200),
])  # fmt: skip
def test_a_longer_run_takes_hardly_more_words(recorded, source, call, small, large):
    short, long = (recorded(source, call, size) for size in (small, large))

    told = [narrate(trace, detail="parts") for trace in (short, long)]

    assert len(long.records) > 8 * len(short.records)
    assert len(told[1].text) < 1.5 * len(told[0].text)


def test_iterations_that_are_left_out_are_counted_and_summed_up(recorded):
    told = narrate(recorded(SUM, "total", 100), detail="parts")

    assert "terations 7 to 99 `number % 3 == 0` " in told.text
    assert "`found` is 1584" in told.text
    assert "100 iterations" in told.text


def test_few_iterations_that_are_left_out_are_told_by_their_values(recorded):
    brief, parts = (narrate(recorded(SUM, "total", 14), detail=detail).text for detail in ("brief", "parts"))

    assert "`number` takes the values" not in brief
    assert "`number` takes the values 6, 7, 8, 9, 10, 11, 12" in parts


def test_iterations_that_were_not_recorded_are_said_to_be_so(recorded):
    told = narrate(recorded(SUM, "total", 3000, soft_events=300))

    assert "without being recorded" in told.text or "ran without a record" in told.text
    assert told.answer == "So total returns 1498500."


def test_a_recursion_is_followed_to_its_base(recorded):
    told = narrate(recorded(DEEP, "deep", 50), detail="parts")

    assert "down to `deep(0)`, which returns 0" in told.text


def test_many_calls_in_one_line_are_counted(recorded):
    told = narrate(recorded(MAPPED, "mapped", 40), detail="parts")

    assert "34 more calls" in told.text
    assert "with `n` = 39" in told.text


def test_the_way_out_of_nested_loops_is_told(recorded):
    source = (
        "def pair(n):\n    for a in range(1, n):\n        for b in range(1, n):\n"
        "            if a * b == n:\n                return a, b\n    return None\n"
    )

    told = narrate(recorded(source, "pair", 35))

    assert "5 * 7 = 35" in told.text
    assert told.answer == "So pair returns (5, 7)."


KEPT = """\
def total(kept, n):
    {names} = kept
    found, last = [], []
    for number in range(n):
        found.append(number)
        last[:] = found[-2:]
    return found[-1]
"""


def test_what_a_stretch_leaves_as_it_was_is_not_written_to_be_compared(recorded, monkeypatch):
    written: Any = []
    text = State.text
    monkeypatch.setattr(State, "text", lambda state, value, most: written.append(value) or text(state, value, most))
    counts = []
    for size in (2, 40):
        source = KEPT.format(names=", ".join(f"name_{number}" for number in range(size)))
        trace = recorded(source, "total", [[number] for number in range(size)], 30)
        written.clear()
        told = narrate(trace, detail="brief")
        counts.append(len(written))

    assert "`last` is [27, 28]" in told.text
    assert counts[1] < counts[0] + 60


@pytest.mark.parametrize("style", ["prose", "steps"])
@pytest.mark.parametrize(("source", "call"), [(SUM, "total"), (GRID, "grid"), (DEEP, "deep")])
def test_a_run_is_told_whole_within_so_many_characters_and_not_within_one_less(recorded, source, call, style):
    trace = recorded(source, call, 6)
    told = narrate(trace, style=style, seed=2, max_chars=None)
    length = len(told.text)

    found = [is_told_whole(trace, style=style, seed=2, max_chars=most) for most in (length, length - 1, length // 2)]

    assert found == [True, False, False]


def test_a_run_of_which_parts_are_passed_over_is_not_told_whole(recorded):
    assert not is_told_whole(recorded(DEEP, "deep", 70), max_chars=100_000)
