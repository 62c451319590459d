"""Objects that have an identity: what is known of them, and how `mutate` records change it.

Long lists are described by their ends. What is changed later inside the unknown part becomes known, so that the items
of a list are a row of known runs and counted gaps (`Items`).
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from groundbox.trace.record import schema
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
        """Return how many values are not known."""
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
            # Within the next runs it is counted from their beginning.
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
        # All is known, as of most lists.
        if len(self.runs) == 1 and not isinstance(self.runs[0], int):
            self.runs[0][start : start + removed] = new
            return
        # Inside a gap the split makes two gaps, with the new values between them: what is changed becomes known.
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
            # Beginning and end are what texts show.
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


class Obj:
    """Object with an identity.

    Attributes:
        type: `list`, `dict`, `set`, `deque`, `object`, `class`, `bytearray` or `array`.
        class_: Its class, when that is not the type itself.
        items: Of a list, set, deque or array.
        pairs: Of a dict: its pairs by the JSON text of their keys (`key_text`), in the dict's order.
        unknown_pairs: How many pairs are not shown; they stand before the last `tail_pairs` ones.
        loose: Whether `unknown_pairs` may be too high, because a pair that was set may have been one of them.
        attrs: Attributes by name.
        unknown_attrs: How many attributes are not shown.
        order: Of a set: the JSON texts of its known items, sorted, as `items` are.
        hex: The first 200 bytes of a bytearray; `length` counts them all.
    """

    __slots__ = (
        "attrs", "class_", "dtype", "hex", "items", "label", "length", "loose",
        "maxlen", "order", "pairs", "shape", "tail_pairs", "type", "unknown_attrs", "unknown_pairs",
    )  # fmt: skip

    def __init__(self, record: schema.Object) -> None:
        self.label = record.id
        self.type = record.type
        self.class_ = record.class_
        self.fill(record)

    def fill(self, record: schema.Object | schema.Mutate) -> None:
        """Take all parts from a description."""
        self.items: Items | None = None
        self.pairs: dict[str, tuple[V, V]] | None = None
        self.unknown_pairs = self.tail_pairs = self.unknown_attrs = 0
        self.loose = False
        self.attrs: dict[str, V] = dict(record.attrs or {})
        self.hex, self.length = record.hex, record.len
        self.maxlen, self.dtype, self.shape = record.maxlen, record.dtype, record.shape
        # Known pairs stand in one dict, those before the hidden ones first; `tail_pairs` says how many stand behind
        # them.
        tail = record.tail or []
        if self.type == "dict":
            self.pairs = {key_text(key): (key, value) for key, value in record.pairs or ()}
            self.pairs.update((key_text(key), (key, value)) for key, value in tail)
            self.unknown_pairs, self.tail_pairs = record.elided, len(tail)
        elif self.type in ("object", "class"):
            self.unknown_attrs = record.elided
        elif self.type != "bytearray":
            self.items = Items(record.items or (), record.elided, tail)
        self.order = [json_text(item) for item in self.items.known()] if self.type == "set" and self.items else []

    def copy(self) -> Obj:
        """An object of its own with the same parts."""
        twin = Obj.__new__(Obj)
        # All at once first, and then the parts that are changed in place.
        for name in Obj.__slots__:
            setattr(twin, name, getattr(self, name))
        twin.items = None if self.items is None else self.items.copy()
        twin.pairs = None if self.pairs is None else dict(self.pairs)
        twin.attrs = dict(self.attrs)
        twin.order = list(self.order)
        return twin

    @property
    def head_size(self) -> int:
        """Return how many known items stand before those that are not shown."""
        first = self.items.runs[0] if self.items is not None and self.items.runs else []
        return len(first) if isinstance(first, list) else 0

    @property
    def size(self) -> int:
        """Return how many items or pairs it has, shown or not."""
        return len(self.items) if self.items is not None else len(self.pairs or ()) + self.unknown_pairs

    @property
    def complete(self) -> bool:
        """Return whether every part of it is shown; the parts may have parts that are not."""
        if self.type == "bytearray":
            return self.hex is not None and len(self.hex) == 2 * (self.length or 0)
        hidden = self.unknown_pairs or self.unknown_attrs or (self.items.unknown if self.items is not None else 0)
        return not hidden

    def parts(self) -> Iterator[V]:
        """Every value in it that is known: items, keys, values, attributes."""
        if self.items is not None:
            yield from self.items.known()
        for key, value in (self.pairs or {}).values():
            yield key
            yield value
        yield from self.attrs.values()


def change(obj: Obj, record: schema.Mutate) -> None:
    """Change an object as a record says. The record must have been checked."""
    _OPS[record.op](obj, record)


def _op_set(obj: Obj, record: schema.Mutate) -> None:
    for place, value in record.at or ():
        if obj.type == "dict":
            assert obj.pairs is not None
            key = key_text(place)
            # A key that is there keeps its place, as in a dict of Python.
            if key not in obj.pairs and obj.unknown_pairs:
                _put_unseen_key(obj, key, place, value)
            else:
                obj.pairs[key] = (obj.pairs[key][0] if key in obj.pairs else place, value)
        elif obj.items is not None:
            obj.items.put(place, value)
        else:
            obj.attrs[place] = value


def _put_unseen_key(obj: Obj, key: str, place: V, value: V) -> None:
    """The key is new, or one of those that are not shown; which, the record does not say."""
    assert obj.pairs is not None
    obj.loose = True
    obj.pairs[key] = (place, value)
    # A new pair goes to the end; if it was one of the hidden ones, that one is counted twice (`loose`).
    obj.tail_pairs += 1


def _op_splice(obj: Obj, record: schema.Mutate) -> None:
    assert obj.items is not None
    assert record.start is not None
    assert record.removed is not None
    obj.items.splice(record.start, record.removed, record.items or [])


def _op_remove(obj: Obj, record: schema.Mutate) -> None:
    for place in record.at or ():
        if obj.pairs is None:
            obj.attrs.pop(place, None)
            continue
        key = key_text(place)
        if key in obj.pairs:
            position = list(obj.pairs).index(key) if obj.unknown_pairs else 0
            # It stood behind the hidden ones.
            if position >= len(obj.pairs) - obj.tail_pairs:
                obj.tail_pairs = max(0, obj.tail_pairs - 1)
            del obj.pairs[key]
        elif obj.unknown_pairs:
            obj.unknown_pairs -= 1


def _op_add(obj: Obj, record: schema.Mutate) -> None:
    """Sets are told sorted by the JSON text of their items, and stay so; the unknown ones keep their place."""
    assert obj.items is not None
    order, head = obj.order, obj.head_size
    for item in record.items or ():
        key = json_text(item)
        at = bisect.bisect_left(order, key)
        if at < len(order) and order[at] == key:
            continue
        order.insert(at, key)
        # The hidden items stand between two known ones: what belongs behind them is moved by their number.
        obj.items.splice(at if at <= head else at + obj.items.unknown, 0, [item])
        head += at <= head


def _op_discard(obj: Obj, record: schema.Mutate) -> None:
    assert obj.items is not None
    order = obj.order
    for item in record.items or ():
        key = json_text(item)
        at = bisect.bisect_left(order, key)
        head = obj.head_size
        if at < len(order) and order[at] == key:
            del order[at]
            obj.items.splice(at if at < head else at + obj.items.unknown, 1, [])
        # It was one of those that are not shown: there is one less.
        elif obj.items.unknown:
            obj.items.splice(head, 1, [])


def _op_replace(obj: Obj, record: schema.Mutate) -> None:
    # What a `replace` does not tell stays as it was: attributes of a container, and what follows here.
    attrs = obj.attrs if record.attrs is None and obj.type not in ("object", "class") else None
    maxlen, dtype, shape = obj.maxlen, obj.dtype, obj.shape
    obj.fill(record)
    obj.attrs = obj.attrs if attrs is None else attrs
    obj.maxlen = maxlen if record.maxlen is None else record.maxlen
    obj.dtype = dtype if record.dtype is None else record.dtype
    obj.shape = shape if record.shape is None else record.shape


def key_text(value: V) -> str:
    """A text that is equal for keys that are told to be the same, and quick to make for strings."""
    # A quote in front tells it from all other values, whose JSON begins with none.
    return f'"{value}' if type(value) is str else json_text(value)


def json_text(value: V) -> str:
    """The JSON text of a value, by which sets are sorted."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True)


_OPS: Final[Mapping[str, Any]] = {
    "set": _op_set,
    "splice": _op_splice,
    "remove": _op_remove,
    "add": _op_add,
    "discard": _op_discard,
    "replace": _op_replace,
}
