"""Next line: where control goes from a line that can send it to more than one place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from groundbox.dataset.tasks.draft import Draft, View, Visit
from groundbox.dataset.tasks.state import moment
from groundbox.trace.record import schema

NAME: Final = "next_line"
LEAST_TOLD: Final = 3
"""Sentences of the telling that stand before a question, where the run has so many."""


def make(view: View) -> Iterator[Draft]:
    """One question about an `if`, `while` or `for` that sends control to another line of its function.

    It is posed where LEAST_TOLD sentences lead to it, or in a short run where the most do.
    """
    forks = [(each, view.told.count_upto(each.step.last)) for each in view.visits if _asks(view, each)]
    if not forks:
        return
    enough = min(LEAST_TOLD, max(count for _, count in forks))
    visit = view.rng(NAME).choice([each for each, count in forks if count >= enough])
    yield Draft(
        task=NAME,
        question=f"When {moment(view, visit)}, which line of the same function runs next? "
        "Answer with its number, counted from 1.",
        answer=str(visit.step.branch),
        check={"kind": "value", "value": str(visit.step.branch)},
        reasoning=view.told.upto(visit.step.last),
    )


def _asks(view: View, visit: Visit) -> bool:
    step = visit.step
    if _has_changes(view, view.told.untold_since(step.step), step.step):
        return False
    if not isinstance(step.statement, ast.If | ast.While | ast.For) or step.inline or step.raised is not None:
        return False
    return step.last <= view.unfolded and step.branch is not None and view.lines.is_plain(step.branch)


def _has_changes(view: View, first: int, last: int) -> bool:
    """Whether a name or an object changed in some records: what the test reads may not be told then."""
    return any(isinstance(record, schema.Set | schema.Mutate) for record in view.trace.records[first : last + 1])
