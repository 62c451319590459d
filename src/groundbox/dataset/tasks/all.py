"""All tasks, and the questions of one item."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from groundbox.dataset.tasks import branch, coverage, exception, input, loops, next_line, output, repair, state
from groundbox.dataset.tasks.draft import Draft, View

_MAKERS: Final[dict[str, Callable[[View], Iterator[Draft]]]] = {
    each.NAME: each.make for each in (output, input, state, next_line, branch, coverage, loops, exception, repair)
}
TASKS: Final = tuple(_MAKERS)
_ALWAYS: Final = ("output", "exception")


def make(task: str, view: View) -> Iterator[Draft]:
    """The questions of one kind."""
    return _MAKERS[task](view)


def order(rng: random.Random, tasks: Sequence[str]) -> list[str]:
    """In which order an item's questions are tried: output and exception first."""
    first = [name for name in _ALWAYS if name in tasks]
    others = [name for name in TASKS if name in tasks and name not in _ALWAYS]
    return [*first, *rng.sample(others, len(others))]


def drafts(view: View, *, tasks: Sequence[str], most: int) -> list[Draft]:
    """The questions of one item, in the order of TASKS.

    Args:
        tasks: Which kinds are wanted.
        most: How many; output and exception come first, the others in an order that the item's seed chooses.
    """
    found: dict[str, Draft] = {}
    for name in order(view.rng("tasks"), tasks):
        if len(found) >= most:
            break
        draft = next(make(name, view), None)
        if draft is not None:
            found[name] = draft
    return [found[name] for name in TASKS if name in found]
