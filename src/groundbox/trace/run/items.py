"""A sequence of values of which a middle part may be unknown.

Long lists are described by their ends. What is changed later inside the unknown part becomes known,
so a list is a row of known runs and counted gaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from groundbox.trace.record.schema import V

MOST_RUNS: Final = 64
"""More known runs than this are forgotten again, the ones in the middle first; so a hostile trace costs little."""

Run: TypeAlias = list[V] | int
"""Known values, or how many are unknown."""


class Items:
    """Values by index, some of them unknown. Indexes are those of the real list, never negative."""

    __slots__ = ("runs",)

    def __init__(self, head: Iterable[V], elided: int = 0, tail: Iterable[V] = ()) -> None:
        self.runs: list[Run] = [list(head), elided, list(tail)]
        self._tidy()

    def __len__(self) -> int:
        return sum(run if isinstance(run, int) else len(run) for run in self.runs)

    @property
    def unknown(self) -> int:
        """How many values are not known."""
        return sum(run for run in self.runs if isinstance(run, int))

    def known(self) -> Iterator[V]:
        """The values that are known, in order."""
        for run in self.runs:
            if not isinstance(run, int):
                yield from run

    def all(self) -> list[V] | None:
        """Every value, or None when some are unknown. The list is ours: do not change it."""
        if not self.runs:
            return []
        first = self.runs[0]
        return first if len(self.runs) == 1 and not isinstance(first, int) else None

    def get(self, index: int) -> tuple[V] | None:
        """The value at an index in a tuple of one, or None when it is unknown or not there."""
        for run in self.runs:
            size = run if isinstance(run, int) else len(run)
            if index < size:
                return None if isinstance(run, int) else (run[index],)
            index -= size
        return None

    def put(self, index: int, value: V) -> None:
        """The value at `index` is now this one."""
        first = self.runs[0] if self.runs else 0
        if not isinstance(first, int) and index < len(first):
            first[index] = value
        else:
            self.splice(index, 1, [value])

    def splice(self, start: int, removed: int, new: Sequence[V]) -> None:
        """From `start`, `removed` values are replaced by `new`."""
        if len(self.runs) == 1 and not isinstance(self.runs[0], int):
            self.runs[0][start : start + removed] = new
            return
        before, rest = _split(self.runs, start)
        _, after = _split(rest, removed)
        self.runs = [*before, list(new), *after]
        self._tidy()

    def copy(self) -> Items:
        """A sequence of its own with the same values."""
        twin = Items.__new__(Items)
        twin.runs = [run if isinstance(run, int) else list(run) for run in self.runs]
        return twin

    def _tidy(self) -> None:
        runs: list[Run] = []
        for run in self.runs:
            last = runs[-1] if runs else None
            if not run:
                continue
            if isinstance(run, int) and isinstance(last, int):
                runs[-1] = last + run
            elif isinstance(run, list) and isinstance(last, list):
                last.extend(run)
            else:
                runs.append(run)
        if len(runs) > MOST_RUNS:
            middle = sum(run if isinstance(run, int) else len(run) for run in runs[1:-1])
            runs = [runs[0], middle, runs[-1]]
            self.runs = runs
            self._tidy()
            return
        self.runs = runs


def _split(runs: Sequence[Run], at: int) -> tuple[list[Run], list[Run]]:
    before: list[Run] = []
    for number, run in enumerate(runs):
        size = run if isinstance(run, int) else len(run)
        if at <= 0:
            return before, list(runs[number:])
        if at < size:
            if isinstance(run, int):
                return [*before, at], [size - at, *runs[number + 1 :]]
            return [*before, run[:at]], [run[at:], *runs[number + 1 :]]
        before.append(run)
        at -= size
    return before, []
