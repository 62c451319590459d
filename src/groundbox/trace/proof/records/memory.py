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
from groundbox.trace.proof.values.things import Array, Named, OwnDict, OwnList, OwnSet, Part, Thing
from groundbox.trace.schema import Mutate, Object, Record, V
from groundbox.trace.state import State

_DEEPEST: Final = 30


@dataclasses.dataclass(slots=True)
class _Seen:
    """An object that was read, and how long it and all that it leads to stay as they were: from `since` to `until`.

    Attributes:
        cut: Whether a part of it leads back to what holds it, so that another reader sees it cut elsewhere.
    """

    since: int
    until: int
    cut: bool = False
    value: Any = None


_NEVER: Final = 1 << 62
_OWN: Final[dict[type, Any]] = {list: OwnList, dict: OwnDict, set: OwnSet}
_STANDARD: Final = frozenset({"Counter", "OrderedDict", "defaultdict"})
_MOST_SEEN: Final = 3
"""Readings that are kept of one object."""


class Memory:
    """Every version of every object of a trace."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._times: dict[int, list[int]] = {}
        self._versions: dict[int, list[Obj]] = {}
        self._seen: dict[int, list[_Seen]] = {}
        self._reading = _Seen(-1, _NEVER)
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
        self._reading = _Seen(-1, _NEVER)
        return self._read(value, t, ())

    def _read(self, value: V, t: int, within: tuple[int, ...]) -> Any:
        if type(value) is not dict:
            return value
        if "ref" in value:
            return self._object(value["ref"], t, within)
        if "tuple" in value:
            items = [self._read(item, t, within) for item in value["tuple"]]
            if not value.get("elided"):
                return _tuple(items, value.get("class"))
            return Part("tuple", items, [self._read(item, t, within) for item in value.get("tail", ())],
                        len(items) + len(value.get("tail", ())) + value["elided"])  # fmt: skip
        frozen = [*value.get("frozenset", ()), *value.get("tail", ())]
        return _plain(value, [self._read(item, t, within) for item in frozen])

    def _object(self, label: int, t: int, within: tuple[int, ...]) -> Any:
        times = self._times.get(label)
        if times is None or label in within or len(within) > _DEEPEST:
            self._reading.cut = True
            return Thing("opaque", "...", label=label)
        kept = self._seen.setdefault(label, [])
        found = next((each for each in kept if each.since <= t < each.until and not (each.cut and within)), None)
        outer = self._reading
        if found is None:
            at = max(0, bisect.bisect_right(times, t) - 1)
            until = times[at + 1] if at + 1 < len(times) else _NEVER
            found = self._reading = _Seen(times[at] if at else -1, until)
            version = self._versions[label][at]
            view = self._view(version, t, (*within, label), (label, times[at]))
            found.value = self._of_class(view, version, t, within)
            if not found.cut or not within:
                kept.insert(0, found)
                del kept[_MOST_SEEN:]
        outer.since, outer.until = max(outer.since, found.since), min(outer.until, found.until)
        outer.cut = outer.cut or found.cut
        self._reading = outer
        return found.value

    def _of_class(self, value: Any, obj: Obj, t: int, within: tuple[int, ...]) -> Any:
        """A list, dict or set with its class and attributes, where that is none of the standard ones."""
        name = obj.class_
        kind = _OWN.get(type(value))
        if name is None or name in _STANDARD or (kind is None and not isinstance(value, Part)):
            return value
        attrs = {each: self._read(part, t, (*within, obj.label)) for each, part in obj.attrs.items()}
        if kind is None:
            return dataclasses.replace(value, name=name, attrs=attrs)
        owned = kind(value)
        owned.name, owned.attrs = name, attrs
        return owned

    def _view(self, obj: Obj, t: int, within: tuple[int, ...], origin: tuple[int, int]) -> Any:
        label = within[-1]
        if obj.type in ("object", "class"):
            attrs = {name: self._read(value, t, within) for name, value in obj.attrs.items()}
            return Thing(obj.type, obj.class_ or "", attrs, label)
        if obj.type == "dict":
            pairs = [(self._read(k, t, within), self._read(v, t, within)) for k, v in (obj.pairs or {}).values()]
            return _dict(pairs, obj.unknown_pairs, origin)
        if obj.items is None:
            part = Part("bytearray", b"", b"", obj.length or 0, origin=origin)
            return bytearray.fromhex(obj.hex or "") if obj.complete else part
        if obj.items.unknown:
            part = self._part(obj, t, within, origin)
            return part if obj.type != "array" else Array(part, tuple(obj.shape or ()))
        known = [self._read(item, t, within) for item in obj.items.known()]
        if obj.type == "deque":
            return deque(known, obj.maxlen if obj.maxlen is None or obj.maxlen >= len(known) else None)
        return _sequence(obj.type, known, origin) if obj.type != "array" else Array(known, tuple(obj.shape or ()))

    def _part(self, obj: Obj, t: int, within: tuple[int, ...], origin: tuple[int, int]) -> Part:
        assert obj.items is not None
        runs = tuple(
            run if isinstance(run, int) else [self._read(item, t, within) for item in run] for run in obj.items.runs
        )
        ends = [[] if isinstance(run, int) else run for run in (runs[0], runs[-1] if len(runs) > 1 else 0)]
        return Part(obj.type, ends[0], ends[1], len(obj.items), runs, origin)


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
