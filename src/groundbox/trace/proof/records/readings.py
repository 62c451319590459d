"""What was read of objects, kept so that a later reading takes over all that has not changed in between.

A list of a thousand nodes of which one changes at a time would be read a thousand times whole otherwise.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import operator
from collections.abc import Sequence
from typing import Any, Final

from groundbox.trace.objects import Obj
from groundbox.trace.schema import V

NEVER: Final = 1 << 62
STANDARD: Final = frozenset({"Counter", "OrderedDict", "defaultdict"})
"""Classes whose instances are read as builtin ones."""


@dataclasses.dataclass(slots=True)
class Reading:
    """A value that was read, and how long it and all that it leads to stay as they were: from `since` to `until`.

    Attributes:
        cut: Whether a part of it leads back to what holds it, so that another reader sees it cut elsewhere.
        row: What the trace says of its parts, by place, of an object that can be taken over; else None.
        ends: When parts change that were read, each with its place: a heap. A part that was replaced in the meantime
            may still stand here; it is read once more than it has to be.
    """

    since: int = -1
    until: int = NEVER
    cut: bool = False
    value: Any = None
    row: Sequence[Any] | None = None
    ends: list[tuple[int, int]] = dataclasses.field(default_factory=list)

    def narrow(self, part: Reading) -> None:
        """Take in a part: what changes it changes the whole."""
        self.since, self.until = max(self.since, part.since), min(self.until, part.until)
        self.cut = self.cut or part.cut

    def note(self, place: int, part: Reading) -> None:
        """Take in a part that has a place in the row."""
        self.narrow(part)
        if part.until < NEVER:
            heapq.heappush(self.ends, (part.until, place))

    def take_over(self, earlier: Reading, t: int) -> list[int] | None:
        """Begin as a copy of an earlier reading of the same object; the places that are to be read again, in order.

        None, and nothing is taken over, where so much is new that all may as well be read.
        """
        if self.row is None or earlier.row is None:
            return None
        size, before = len(self.row), len(earlier.row)
        replaced = map(operator.is_not, self.row, earlier.row)  # records are shared by all versions of an object
        places = {*itertools.compress(itertools.count(), replaced), *range(before, size)}
        ends = earlier.ends.copy()
        while ends and ends[0][0] <= t:
            places.add(heapq.heappop(ends)[1])
        again = sorted(place for place in places if place < size)
        if 2 * len(again) > size + 2:
            return None
        if type(earlier.value) is dict and not _keeps_its_keys(self.row, earlier.row, again):
            return None
        self.value, self.ends, self.since = earlier.value.copy(), ends, max(self.since, earlier.since)
        if ends:
            self.until = min(self.until, ends[0][0])
        if size < before:
            del self.value[size:]
        return again


def latest(kept: Sequence[Reading], t: int) -> Reading | None:
    """The last of some readings of an object from which one at `t` can be taken over."""
    fitting = [each for each in kept if each.row is not None and each.until <= t and not each.cut]
    return max(fitting, key=lambda each: each.until, default=None)


def row_of(obj: Obj) -> Sequence[Any] | None:
    """The parts of a list, the pairs of a dict; None where some are not shown, or it is read as something else."""
    if obj.class_ is not None and obj.class_ not in STANDARD:
        return None
    if obj.type == "list":
        return obj.items.all() if obj.items is not None else None
    return list(obj.pairs.values()) if obj.type == "dict" and obj.pairs is not None and not obj.unknown_pairs else None


def _keeps_its_keys(row: Sequence[Any], earlier: Sequence[Any], places: Sequence[int]) -> bool:
    """Whether only values of a dict are new, and pairs at its end whose keys stay what they are."""
    return len(row) >= len(earlier) and all(
        row[place][0] is earlier[place][0] if place < len(earlier) else is_fixed(row[place][0]) for place in places
    )


def is_fixed(key: V) -> bool:
    """Whether a key equals itself whenever it is read: a plain one, or a tuple of such."""
    return type(key) is not dict or (key.keys() == {"tuple"} and all(type(item) is not dict for item in key["tuple"]))
