"""Objects that have an identity: what is known of them, and how `mutate` records change it."""

from __future__ import annotations

import bisect
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from groundbox.trace.record import schema
from groundbox.trace.record.schema import V
from groundbox.trace.run.items import Items


class Obj:
    """One object with an identity.

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
        for name in Obj.__slots__:
            setattr(twin, name, getattr(self, name))
        twin.items = None if self.items is None else self.items.copy()
        twin.pairs = None if self.pairs is None else dict(self.pairs)
        twin.attrs = dict(self.attrs)
        twin.order = list(self.order)
        return twin

    @property
    def head_size(self) -> int:
        """How many known items stand before those that are not shown."""
        first = self.items.runs[0] if self.items is not None and self.items.runs else []
        return len(first) if isinstance(first, list) else 0

    @property
    def complete(self) -> bool:
        """Whether every part of it is shown; the parts may have parts that are not."""
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
        elif obj.items.unknown:
            obj.items.splice(head, 1, [])


def _op_replace(obj: Obj, record: schema.Mutate) -> None:
    attrs = obj.attrs if record.attrs is None and obj.type not in ("object", "class") else None
    maxlen, dtype, shape = obj.maxlen, obj.dtype, obj.shape
    obj.fill(record)
    obj.attrs = obj.attrs if attrs is None else attrs
    obj.maxlen = maxlen if record.maxlen is None else record.maxlen
    obj.dtype = dtype if record.dtype is None else record.dtype
    obj.shape = shape if record.shape is None else record.shape


def key_text(value: V) -> str:
    """A text that is equal for keys that are told to be the same, and quick to make for strings."""
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
