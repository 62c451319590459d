"""Recorded values in a form that can be compared with what a text says, and computed with.

Builtin values become Python values of their own type. What has no such form, or is not wholly shown,
becomes a `Thing` or a `Part`, which are equal to nothing but what they are known to equal.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from groundbox.trace.objects import Obj
from groundbox.trace.schema import Mutate, Object, Record, V
from groundbox.trace.state import State

_DEEPEST: Final = 30


@dataclasses.dataclass(frozen=True)
class Thing:
    """An instance, a class, a function, a module: something that is known by name.

    Attributes:
        kind: `object`, `class`, `function`, `builtin`, `method`, `module`, `repr` or `opaque`.
        name: Of its class, or its own.
        attrs: Of an instance, at the moment of reading.
        label: Its identity, 0 where it has none.
    """

    kind: str
    name: str
    attrs: dict[str, Any] = dataclasses.field(default_factory=dict)
    label: int = 0

    def __hash__(self) -> int:
        return hash((self.kind, self.name, self.label))


@dataclasses.dataclass(frozen=True, eq=False)
class Part:
    """A value of which not everything is shown.

    Attributes:
        head: What is shown of its beginning; items or characters.
        tail: The same of its end.
        length: How long it is.
    """

    type: str
    head: Any
    tail: Any
    length: int


class Named(tuple[Any, ...]):
    """A named tuple with the name of its class."""

    name = ""


@dataclasses.dataclass(frozen=True, eq=False)
class Written:
    """What a text writes as a call that makes a value: `Decimal('1.5')`, `Point(1, 2)`."""

    name: str
    args: tuple[Any, ...]
    text: str


@dataclasses.dataclass(frozen=True, eq=False)
class Gap:
    """Stands in a value that a text writes for what it leaves out: so many items, or None where it does not say."""

    count: int | None

    def __repr__(self) -> str:
        return "…" if self.count is None else f"… {self.count} more …"


@dataclasses.dataclass(frozen=True)
class Opaque:
    """A value that a text writes as `<kind>`."""

    text: str

    def __repr__(self) -> str:
        return f"<{self.text}>"


class Memory:
    """Every version of every object of a trace."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._times: dict[int, list[int]] = {}
        self._versions: dict[int, list[Obj]] = {}
        self._seen: dict[int, Any] = {}
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
        return value if type(value) is not dict else self._read(value, t, ())

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
        return _plain(value, [self._read(item, t, within) for item in value.get("frozenset", ())])

    def _object(self, label: int, t: int, within: tuple[int, ...]) -> Any:
        obj = self.object(label, t)
        if obj is None or label in within or len(within) > _DEEPEST:
            return Thing("opaque", "...", label=label)
        seen = self._seen.get(id(obj))
        if seen is not None:
            return seen
        found = self._view(obj, t, (*within, label))
        if not any(type(part) is dict and "ref" in str(part) for part in obj.parts()):
            self._seen[id(obj)] = found  # nothing in it can change while this version lasts
        return found

    def _view(self, obj: Obj, t: int, within: tuple[int, ...]) -> Any:
        label = within[-1]
        if obj.type in ("object", "class"):
            attrs = {name: self._read(value, t, within) for name, value in obj.attrs.items()}
            return Thing(obj.type, obj.class_ or "", attrs, label)
        if obj.type == "dict":
            pairs = [(self._read(k, t, within), self._read(v, t, within)) for k, v in (obj.pairs or {}).values()]
            return _dict(pairs, obj.unknown_pairs)
        if obj.items is None:
            return bytearray.fromhex(obj.hex or "") if obj.complete else Part("bytearray", b"", b"", obj.length or 0)
        known = [self._read(item, t, within) for item in obj.items.known()]
        if obj.items.unknown:
            head = obj.items.runs[0] if isinstance(obj.items.runs[0], list) else []
            return Part(obj.type, known[: len(head)], known[len(head) :], len(obj.items))
        return _sequence(obj.type, known)


def _tuple(items: list[Any], name: str | None) -> tuple[Any, ...]:
    if name is None:
        return tuple(items)
    named = Named(items)
    named.name = name
    return named


def _sequence(type: str, items: list[Any]) -> Any:
    if type == "set":
        try:
            return set(items)
        except TypeError:
            return Part("set", items, [], len(items))
    return deque(items) if type == "deque" else items


def _dict(pairs: list[tuple[Any, Any]], unknown: int) -> Any:
    try:
        known = dict(pairs)
    except TypeError:
        return Part("dict", pairs, [], len(pairs) + unknown)
    return Part("dict", pairs, [], len(pairs) + unknown) if unknown else known


def _plain(value: dict[str, Any], frozen: list[Any]) -> Any:
    if "int" in value:
        return int(value["int"]) if isinstance(value["int"], str) else Part("int", 0, 0, value["int"]["bits"])
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
        return frozenset(frozen) if not value.get("elided") else Part("frozenset", frozen, [], len(frozen))
    if "range" in value:
        return range(*value["range"])
    for kind in ("function", "builtin", "method", "module", "repr", "opaque", "class"):
        if kind in value:
            return Thing(kind, str(value[kind]))
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
