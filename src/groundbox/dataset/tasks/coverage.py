"""Coverage: which lines of a function run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from groundbox.dataset.tasks.draft import Draft, View

NAME: Final = "coverage"
_FEWEST: Final = 3


def make(view: View) -> Iterator[Draft]:
    """One question about a function of which some lines run and some do not; folded runs may hide lines."""
    if view.trace.folded or view.item.traced is None:
        return
    ran = set(view.item.traced.lines)
    functions = sorted({view.lines.function_at(line) for line in ran} - {""})
    open_ones = [name for name in functions if _partly(view.lines.plain_in(name), ran)]
    if not open_ones:
        return
    name = view.rng(NAME).choice(open_ones)
    asked = view.lines.plain_in(name)
    answer = str([line for line in asked if line in ran])
    yield Draft(
        task=NAME,
        question=f"Of the lines {', '.join(map(str, asked))} of `{name}`, which run at least once? "
        "Answer with a list of their numbers.",
        answer=answer,
        check={"kind": "lines", "value": answer},
        reasoning=view.told.text,
    )


def _partly(lines: list[int], ran: set[int]) -> bool:
    return len(lines) >= _FEWEST and 0 < len(ran & set(lines)) < len(lines)
