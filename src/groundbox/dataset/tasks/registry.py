"""All tasks, and the questions of one item."""

from __future__ import annotations

import pkgutil
import random
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Final

from groundbox.dataset import tasks
from groundbox.dataset.tasks.task import MAKERS, Draft, Task, View

# Importing a module declares its tasks, so that a new one is a file here and an entry nowhere.
for _module in pkgutil.iter_modules(tasks.__path__):
    if _module.name != "registry":
        import_module(f"{tasks.__name__}.{_module.name}")

TASKS: Final = tuple(sorted(MAKERS, key=lambda name: (MAKERS[name].place, name)))


def task_of(name: str) -> Task:
    """The task of that name."""
    return MAKERS[name]


def make(task: str, view: View) -> Iterator[Draft]:
    """The questions of one kind."""
    return MAKERS[task].make(view)


def order(rng: random.Random, tasks: Sequence[str]) -> list[str]:
    """In which order an item's questions are tried: those of tasks that are always asked first."""
    wanted = [name for name in TASKS if name in tasks]
    first = [name for name in wanted if MAKERS[name].always]
    others = [name for name in wanted if not MAKERS[name].always]
    # All are drawn, also where a few are asked for: the first few are then the same whatever their number.
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
        # Tasks are generators, so that only the first question is made.
        draft = next(make(name, view), None)
        if draft is not None:
            found[name] = draft
    return [found[name] for name in TASKS if name in found]
