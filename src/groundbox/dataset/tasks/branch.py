"""Branches: how a condition turns out, each time that it is tested."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from groundbox.dataset.tasks.draft import Draft, View

NAME: Final = "branch"
_MOST: Final = 30


def make(view: View) -> Iterator[Draft]:
    """One question about a condition that turns out both ways, or, if none does, about one that is tested."""
    if view.trace.folded:
        return
    turns: dict[int, list[bool | None]] = defaultdict(list)
    for visit in view.visits:
        if visit.step.test is not None:
            turns[visit.line].append(visit.step.condition)
    known = {line: each for line, each in turns.items() if None not in each and len(each) <= _MOST}
    lines = [line for line, each in known.items() if len(set(each)) == 2] or list(known)
    if not lines:
        return
    line = view.rng(NAME).choice(sorted(lines))
    answer = str(known[line])
    yield Draft(
        task=NAME,
        question=f"How does the condition in line {line} (`{view.lines.text(line)}`) turn out, each time that it is "
        "tested during the run? Answer with a list of `True` and `False`, in order.",
        answer=answer,
        check={"kind": "value", "value": answer},
        reasoning=view.told.text,
    )
