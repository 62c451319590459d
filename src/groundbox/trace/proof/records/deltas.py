"""What each change of a container put into it and took out of it."""

from __future__ import annotations

import dataclasses
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any, Final

from groundbox.trace import schema
from groundbox.trace.proof.records.ledger import Ledger
from groundbox.trace.proof.values.likeness import same
from groundbox.trace.proof.values.things import Part

_PLAIN: Final = frozenset({int, float, str, bool, type(None)})
"""Types of which every value is the same as itself; of a `Thing` or `Part` that is asked."""


@dataclasses.dataclass(frozen=True, eq=False)
class Delta:
    """One change of one container.

    Attributes:
        label: The object.
        added: Items, keys and values that are new in their place.
        removed: Those that were there before.
        ends: Of a change in one place of a list, how many items stood before that place and behind it; else None.
    """

    t: int
    label: int
    added: Sequence[Any]
    removed: Sequence[Any]
    ends: tuple[int, int] | None = None

    def is_at(self, place: str | int) -> bool:
        """Whether it may be at the `end`, at the `front`, or at an index."""
        if self.ends is None or place == "":
            return True
        before, behind = self.ends
        return behind == 0 if place == "end" else before == (0 if place == "front" else place)

    def is_swap(self, one: Any, other: Any) -> bool:
        """Whether two items changed places."""
        pairs = list(zip(self.removed, self.added, strict=False))
        return any(same(one, a) and same(other, b) for a, b in pairs) and any(
            same(other, a) and same(one, b) for a, b in pairs
        )


def deltas(ledger: Ledger) -> Sequence[Delta]:
    """All changes of containers, in order."""
    found = []
    for t in ledger.mutations:
        record = ledger.records[t]
        assert isinstance(record, schema.Mutate)
        ledger.spend(4)
        before, after = ledger.memory.read({"ref": record.id}, t - 1), ledger.memory.read({"ref": record.id}, t)
        added, removed = _difference(before, after, record, ledger, t)
        found.append(Delta(t, record.id, added, removed, _ends(before, record)))
    return found


def _ends(before: Any, record: schema.Mutate) -> tuple[int, int] | None:
    if record.op != "splice" or record.start is None or not isinstance(before, list | deque | Part):
        return None
    length = before.length if isinstance(before, Part) else len(before)
    return record.start, length - record.start - (record.removed or 0)


def _difference(before: Any, after: Any, record: schema.Mutate, ledger: Ledger, t: int) -> tuple[list[Any], list[Any]]:
    if isinstance(before, dict) and isinstance(after, dict):
        added = [
            part
            for key, value in after.items()
            if key not in before or _is_new(value, before[key])
            for part in (key, value, (key, value))
        ]
        removed = [
            part
            for key, value in before.items()
            if key not in after or _is_new(value, after[key])
            for part in (key, value)
        ]
        return added, removed
    if isinstance(before, set) and isinstance(after, set):
        return list(after - before), list(before - after)
    if isinstance(before, Part) or isinstance(after, Part):
        return _part_difference(before, after, record, ledger, t)
    try:
        old, new = list(before), list(after)
    except TypeError:
        return [], []
    return _sequence_difference(old, new, record)


def _is_new(one: Any, other: Any) -> bool:
    """Whether two items differ. Most in a long container are one object, and plain."""
    return not (one is other and type(one) in _PLAIN) and not same(one, other)


def _part_difference(
    before: Any, after: Any, record: schema.Mutate, ledger: Ledger, t: int
) -> tuple[list[Any], list[Any]]:
    """What the record itself names, since not everything of the container is shown."""
    items = [ledger.memory.read(item, t) for item in record.items or ()]
    if record.op == "discard":
        return [], items
    if "dict" not in (getattr(before, "type", ""), getattr(after, "type", "")):
        return items, _removed(before, record)
    if record.op == "remove":
        return [], [ledger.memory.read(key, t) for key in record.at or ()]
    places = record.at or () if record.op == "set" else ()
    pairs = [tuple(ledger.memory.read(part, t) for part in place) for place in places]
    return [part for pair in pairs for part in (*pair, pair)], []


def _removed(before: Any, record: schema.Mutate) -> list[Any]:
    """What a splice took out of a sequence of which not everything is shown, as far as it is."""
    places = range(record.start or 0, (record.start or 0) + (record.removed or 0))
    if isinstance(before, Part):
        return [found[0] for place in places if (found := before.item(place)) is not None]
    return [before[place] for place in places] if isinstance(before, list | deque) else []


def _sequence_difference(old: list[Any], new: list[Any], record: schema.Mutate) -> tuple[list[Any], list[Any]]:
    if record.op == "splice" and record.start is not None and record.removed is not None:
        start, count = record.start, len(record.items or ())
        return new[start : start + count], old[start : start + record.removed]
    if len(old) == len(new):
        places = [at for at, (a, b) in enumerate(zip(old, new, strict=True)) if _is_new(a, b)]
        return [new[at] for at in places], [old[at] for at in places]
    texts_old, texts_new = Counter(map(repr, old)), Counter(map(repr, new))
    added, removed = texts_new - texts_old, texts_old - texts_new
    return [item for item in new if repr(item) in added], [item for item in old if repr(item) in removed]
