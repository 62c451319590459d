"""Every version of every object of a trace, and recorded values read into Python ones.

What such a value is when it is no builtin, or not wholly shown, is told in `values.things`.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from groundbox.trace.objects import Obj
from groundbox.trace.proof.records.readings import NEVER, STANDARD, Reading, is_fixed, latest, row_of
from groundbox.trace.proof.values.things import Array, Named, OwnDict, OwnList, OwnSet, Part, Thing
from groundbox.trace.schema import Mutate, Object, Record, V
from groundbox.trace.state import State

_DEEPEST: Final = 30


_OWN: Final[dict[type, Any]] = {list: OwnList, dict: OwnDict, set: OwnSet}
_MOST_KEPT: Final = 3
"""Readings that are kept of one object."""


class Memory:
    """Every version of every object of a trace."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._times: dict[int, list[int]] = {}
        self._versions: dict[int, list[Obj]] = {}
        self._kept: dict[int, list[Reading]] = {}
        state = State()
        for t, record in enumerate(records):
            if type(record) is Object:
                state.apply(record)
                self._times[record.id], self._versions[record.id] = [t], [state.heap[record.id].copy()]
            elif type(record) is Mutate:
                state.apply(record)
                self._times[record.id].append(t)
                self._versions[record.id].append(state.heap[record.id].copy())

    def object(self, label: int, t: int) -> Obj | None:
        """An object as it was after record `t`; its first version before that."""
        times = self._times.get(label)
        if times is None:
            return None
        return self._versions[label][max(0, bisect.bisect_right(times, t) - 1)]

    def times(self, label: int) -> list[int]:
        """When the object was described and changed."""
        return self._times.get(label, [])

    def read(self, value: V, t: int) -> Any:
        """A value as it was after record `t`."""
        if type(value) is not dict:
            return value
        return self._object(value["ref"], t, ()).value if "ref" in value else self._read(value, t, (), Reading())

    def _read(self, value: V, t: int, within: tuple[int, ...], whole: Reading) -> Any:
        """A value, as a part of `whole`."""
        if type(value) is not dict:
            return value
        if "ref" in value:
            part = self._object(value["ref"], t, within)
            whole.narrow(part)
            return part.value
        if "tuple" in value:
            items = [self._read(item, t, within, whole) for item in value["tuple"]]
            if not value.get("elided"):
                return _tuple(items, value.get("class"))
            return Part("tuple", items, [self._read(item, t, within, whole) for item in value.get("tail", ())],
                        len(items) + len(value.get("tail", ())) + value["elided"])  # fmt: skip
        frozen = [*value.get("frozenset", ()), *value.get("tail", ())]
        return _plain(value, [self._read(item, t, within, whole) for item in frozen])

    def _object(self, label: int, t: int, within: tuple[int, ...]) -> Reading:
        times = self._times.get(label)
        if times is None or label in within or len(within) > _DEEPEST:
            return Reading(cut=True, value=Thing("opaque", "...", label=label))
        kept = self._kept.setdefault(label, [])
        for each in kept:
            if each.since <= t < each.until and not (each.cut and within):
                return each
        at = max(0, bisect.bisect_right(times, t) - 1)
        until = times[at + 1] if at + 1 < len(times) else NEVER
        found = Reading(times[at] if at else -1, until)
        self._view(found, self._versions[label][at], t, (*within, label), times[at])
        if not found.cut or not within:
            kept.insert(0, found)
            del kept[_MOST_KEPT:]
        return found

    def _view(self, found: Reading, obj: Obj, t: int, within: tuple[int, ...], since: int) -> None:
        """Read an object's parts, or those that have changed since it was read before."""
        found.row = row_of(obj)
        earlier = latest(self._kept[obj.label], t) if found.row is not None else None
        again = found.take_over(earlier, t) if earlier is not None else None
        if again is None:
            whole = self._whole(found, obj, t, within, (obj.label, since))
            found.value = self._of_class(whole, obj, t, within, found)
            if type(found.value) is not list and not (type(found.value) is dict and _are_fixed(found.value, obj)):
                found.row = None
            return
        for place in again:
            self._renew(found, place, t, within)

    def _of_class(self, value: Any, obj: Obj, t: int, within: tuple[int, ...], found: Reading) -> Any:
        """A list, dict or set with its class and attributes, where that is none of the standard ones."""
        name = obj.class_
        kind = _OWN.get(type(value))
        if name is None or name in STANDARD or (kind is None and not isinstance(value, Part)):
            return value
        attrs = {each: self._read(part, t, within, found) for each, part in obj.attrs.items()}
        if kind is None:
            return dataclasses.replace(value, name=name, attrs=attrs)
        owned = kind(value)
        owned.name, owned.attrs = name, attrs
        return owned

    def _renew(self, found: Reading, place: int, t: int, within: tuple[int, ...]) -> None:
        """Read one part of a reading that was taken over."""
        assert found.row is not None
        part, held = found.row[place], found.value
        if type(held) is dict:
            held[self._read(part[0], t, within, found)] = self._at(place, part[1], t, within, found)
        elif place < len(held):
            held[place] = self._at(place, part, t, within, found)
        else:
            held.append(self._at(place, part, t, within, found))

    def _at(self, place: int, value: V, t: int, within: tuple[int, ...], whole: Reading) -> Any:
        """A value, as the part of `whole` that has this place."""
        if type(value) is not dict:
            return value
        if "ref" in value:
            part = self._object(value["ref"], t, within)
        else:
            part = Reading()
            part.value = self._read(value, t, within, part)
        whole.note(place, part)
        return part.value

    def _whole(self, found: Reading, obj: Obj, t: int, within: tuple[int, ...], origin: tuple[int, int]) -> Any:
        if obj.type in ("object", "class"):
            attrs = {name: self._read(value, t, within, found) for name, value in obj.attrs.items()}
            return Thing(obj.type, obj.class_ or "", attrs, obj.label)
        if obj.type == "dict":
            pairs = [
                (self._read(key, t, within, found), self._at(place, value, t, within, found))
                for place, (key, value) in enumerate((obj.pairs or {}).values())
            ]
            return _dict(pairs, obj.unknown_pairs, origin)
        if obj.items is None:
            part = Part("bytearray", b"", b"", obj.length or 0, origin=origin)
            return bytearray.fromhex(obj.hex or "") if obj.complete else part
        if obj.items.unknown:
            part = self._part(obj, t, within, origin, found)
            return part if obj.type != "array" else Array(part, tuple(obj.shape or ()))
        known = [self._at(place, item, t, within, found) for place, item in enumerate(obj.items.known())]
        if obj.type == "deque":
            return deque(known, obj.maxlen if obj.maxlen is None or obj.maxlen >= len(known) else None)
        return _sequence(obj.type, known, origin) if obj.type != "array" else Array(known, tuple(obj.shape or ()))

    def _part(self, obj: Obj, t: int, within: tuple[int, ...], origin: tuple[int, int], found: Reading) -> Part:
        assert obj.items is not None
        runs = tuple(
            run if isinstance(run, int) else [self._read(item, t, within, found) for item in run]
            for run in obj.items.runs
        )
        ends = [[] if isinstance(run, int) else run for run in (runs[0], runs[-1] if len(runs) > 1 else 0)]
        return Part(obj.type, ends[0], ends[1], len(obj.items), runs, origin)


def _are_fixed(read: dict[Any, Any], obj: Obj) -> bool:
    """Whether the keys of a dict stay what they are, each of them another one."""
    keys = [key for key, _ in (obj.pairs or {}).values()]
    return len(read) == len(keys) and all(map(is_fixed, keys))


def _tuple(items: list[Any], name: str | None) -> tuple[Any, ...]:
    if name is None:
        return tuple(items)
    named = Named(items)
    named.name = name
    return named


def _sequence(type: str, items: list[Any], origin: tuple[int, int]) -> Any:
    if type == "set":
        try:
            found = set(items)
        except TypeError:
            return Part("set", items, [], len(items), origin=origin)
        # functions and classes are known by name only: two of one name are two items all the same
        return found if len(found) == len(items) else Part("set", items, [], len(items), origin=origin)
    return items


def _dict(pairs: list[tuple[Any, Any]], unknown: int, origin: tuple[int, int]) -> Any:
    try:
        known = dict(pairs)
    except TypeError:
        return Part("dict", pairs, [], len(pairs) + unknown, origin=origin)
    is_whole = not unknown and len(known) == len(pairs)
    return known if is_whole else Part("dict", pairs, [], len(pairs) + unknown, origin=origin)


def _plain(value: dict[str, Any], frozen: list[Any]) -> Any:
    if "int" in value:
        return (
            int(value["int"])
            if isinstance(value["int"], str)
            else Part("int", value["int"]["sign"], 0, value["int"]["bits"], origin=(0, int(value["int"]["sha256"], 16)))
        )
    if "float" in value:
        return float(value["float"])
    if "complex" in value:
        return complex(*(float(part["float"] if isinstance(part, dict) else part) for part in value["complex"]))
    if "str" in value:
        text = value["str"]
        return Part("str", text["head"], text["tail"], text["len"])
    if "bytes" in value:
        shown = bytes.fromhex(value["bytes"]["hex"])
        length = value["bytes"]["len"]
        return shown if len(shown) == length else Part("bytes", shown, b"", length)
    if "frozenset" in value:
        elided = value.get("elided", 0)
        found = frozenset(frozen)
        is_whole = not elided and len(found) == len(frozen)
        return found if is_whole else Part("frozenset", frozen, [], len(frozen) + elided)
    if "range" in value:
        return range(*value["range"])
    for kind in ("function", "builtin", "method", "module", "repr", "opaque", "class"):
        if kind in value:
            return Thing(kind, str(value[kind]), type=str(value.get("type", "")).rpartition(".")[2])
    return Thing("opaque", "?")


def refs(value: V) -> list[int]:
    """Labels that a value shows itself."""
    if type(value) is not dict:
        return []
    if "ref" in value:
        return [value["ref"]]
    found: list[int] = []
    for part in (*value.get("tuple", ()), *value.get("tail", ())):
        found.extend(refs(part))
    return found


def equal(left: Any, right: Any) -> bool:
    """Whether two recorded values are the same, of the same types, with the same attributes."""
    if left is right:
        return True
    if type(left) is not type(right):
        return False
    if isinstance(left, Thing):
        return bool(left == right) and equal(left.attrs, right.attrs)
    if isinstance(left, OwnList | OwnDict | OwnSet) and not equal(left.attrs, right.attrs):
        return False
    if isinstance(left, Part):
        known = left.origin is not None and left.origin == right.origin
        if left.type == "int":
            return known and (left.head, left.length) == (right.head, right.length)
        return known and equal(left.shown(), right.shown())
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(equal(value, right[key]) for key, value in left.items())
    return bool(left == right)
