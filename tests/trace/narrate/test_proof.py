"""The programs beside this file are told with claims that the record bears out, word by word."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from groundbox.trace.narrate.document import document
from groundbox.trace.narrate.narrator import narrate

NAMES = sorted(path.stem for path in (Path(__file__).parent / "programs").glob("*.py"))
UNPROVEN = {
    "shape": "that `case [first, *_]` matches cannot be worked out",
}
"""Programs of which something is told that no claim bears out yet, and why."""


@pytest.mark.parametrize("detail", ["brief", "parts", "normal", "full"])
@pytest.mark.parametrize("style", ["prose", "steps"])
@pytest.mark.parametrize("name", NAMES)
def test_every_claim_is_proven(trace_of, unproven, name, style, detail):
    trace = trace_of(name)
    told = [narrate(trace, style=style, detail=detail, seed=seed) for seed in range(3)]

    wrong = [each for narration in told for each in unproven(narration, trace)]

    assert [each for each in wrong if name not in UNPROVEN or each.startswith("refuted")] == []
    assert bool(wrong) is (name in UNPROVEN)


def test_each_sentence_but_one_in_five_carries_a_claim(program):
    sentences = document(narrate(program), program)["sentences"]

    assert sum(bool(sentence["claims"]) for sentence in sentences) >= 0.8 * len(sentences)


SPREAD = """\
def spread(cells, at):
    if at == len(cells):
        return
    cells[at] += 1
    spread(cells, at + 1)

def main(size, times):
    cells = [0] * size
    for _ in range(times):
        spread(cells, 0)
    return cells
"""


@pytest.mark.parametrize("seed", range(4))
def test_a_call_that_was_gone_down_is_not_said_to_run_after_it(recorded, unproven, seed):
    trace = recorded(SPREAD, "main", 3, 5)

    narration = narrate(trace, detail="parts", seed=seed)
    told = narration.text

    went_down = re.findall(r"down to `spread\([^`]*\)`, which returns None[;,.](.*?)(?:[.] |$)", told)
    assert went_down
    assert [rest for rest in went_down if " runs" in rest] == []
    assert unproven(narration, trace) == []


SEVERAL_IN_ONE_LINE = [
    ("xs[0] = ys; ys.append(n)", "`xs` is now [[1, 5]]"),
    ("xs.append(ys); ys.append(n)", "`xs` is now [0, [1, 5]]"),
    ("ys.append(n); xs.append(ys)", "`xs` is now [0, [1, 5]]"),
    ("xs.insert(0, ys); ys.append(n)", "`xs` is now [[1, 5], 0]"),
    ("xs.extend([ys, [7]]); ys.append(n)", "`xs` is now [0, [1, 5], [7]]"),
    ("kept['k'] = ys; ys.append(n)", "[1, 5]"),
]


@pytest.mark.parametrize(("line", "then"), SEVERAL_IN_ONE_LINE)
def test_what_enters_and_changes_in_one_line_is_told_as_it_is_then(recorded, unproven, line, then):
    source = f"def f(n):\n    xs, ys, kept = [0], [1], {{}}\n    {line}\n    return xs, kept\n"
    trace = recorded(source, "f", 5)

    told = [narrate(trace, seed=seed) for seed in range(3)]

    assert [each for narration in told for each in unproven(narration, trace)] == []
    assert all(then in narration.text.partition("`ys`")[2] for narration in told)
