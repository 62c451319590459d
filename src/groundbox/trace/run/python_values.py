"""Recorded values as plain Python values, where every part of them is known."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from groundbox.trace.record.schema import V
from groundbox.trace.record.value import kind_of, ref_of
from groundbox.values.codec import BoundedKeys, NotData
from groundbox.values.evaluate import Lookup
from groundbox.values.unknown import DefaultDict, Handle, Unknown

if TYPE_CHECKING:
    from groundbox.trace.run.objects import Obj
    from groundbox.trace.run.state import State

MOST_DEPTH: Final = 100
MOST_VALUES: Final = 30_000
"""Of one value with all that is in it, where what is shared counts each time: whoever compares, shows or writes the
value goes through it so. `a = [a, a]`, forty times, is 80 values in a trace and 2^40 in a comparison."""

_DICTS: Final = {"dict": dict, "Counter": Counter, "OrderedDict": OrderedDict, "defaultdict": DefaultDict}
"""Classes of the standard library that are dicts."""


class RecordedHandle(Handle):
    """A value that is not plain, with those of its attributes, items and sizes that are recorded."""

    __slots__ = ("_state",)

    def __init__(self, state: State, value: V) -> None:
        super().__init__(ref_of(value))
        self._state = state

    def __repr__(self) -> str:
        # Its class alone: the state may have gone on since, and what the class itself would write is not known.
        obj = self._object
        return "<...>" if obj is None else f"<{obj.class_ or obj.type}>"

    @property
    def _object(self) -> Obj | None:
        return None if self.label is None else self._state.heap.get(self.label)

    def attribute(self, name: str) -> Any:
        """An attribute of the instance.

        Raises:
            Unknown: It is not one of those that are recorded.
        """
        obj = self._object
        if obj is None or obj.type != "object" or name not in obj.attrs:
            raise Unknown(f"attribute {name} is not recorded")
        return handled_value(self._state, obj.attrs[name])

    def length(self) -> int:
        """Return how many items a builtin container has that is not shown whole.

        Raises:
            Unknown: It is no builtin container.
        """
        obj = self._object
        if obj is None or obj.class_ not in (None, obj.type) or obj.loose:
            raise Unknown("its length is not known")
        if obj.type not in ("dict", "list", "set", "deque"):
            raise Unknown("its length is not known")
        return obj.size

    def __getitem__(self, index: Any) -> Any:
        obj = self._object
        if obj is None or obj.class_ is not None or obj.type != "list" or obj.items is None or type(index) is not int:
            raise Unknown("its items are not known")
        # An exact list alone: a subclass may have a `__getitem__` of its own.
        found = obj.items.get(index if index >= 0 else len(obj.items) + index)
        if found is None:
            raise Unknown("this item is not shown")
        return handled_value(self._state, found[0])


def handled_value(state: State, value: V) -> Any:
    """Like `python_value`, with handles for what is not plain."""
    return _Reader(state, handles=True).read(value, 0)


def python_value(state: State, value: V) -> Any:
    """A value of builtin types as a Python value: None, bool, int, float, complex, str, bytes, tuple, frozenset,
    range, list, dict, set, deque, bytearray, and the dicts of `collections`.

    The result is fresh, and shares parts where the program's value did.

    Raises:
        Unknown: It is of another type, refers to itself, is too large, or a part of it is not shown.
    """
    return _Reader(state).read(value, 0)


def recorded(state: State, frame: int, assigned: Iterable[str] = ()) -> Lookup:
    """Names as a frame saw them in `state`.

    Args:
        assigned: Names that the source assigns somewhere; without a recorded value they are unknown, not builtins.
    """
    known = frozenset(assigned)
    seen: dict[str, Any] = {}

    def lookup(name: str) -> Any:
        if name not in seen:
            try:
                value = state.lookup(frame, name)
            except KeyError:
                if name in known:
                    raise Unknown(f"{name} has no recorded value") from None
                raise
            seen[name] = handled_value(state, value)
        return seen[name]

    return lookup


class _Reader:
    def __init__(self, state: State, *, handles: bool = False) -> None:
        self._state = state
        self._handles = handles
        self._heap = state.heap
        self._made: dict[int, tuple[Any, int]] = {}
        self._open: set[int] = set()
        self._count = 0
        self._keys = BoundedKeys()

    def read(self, value: V, depth: int) -> Any:
        self._count += 1
        # An atom stands for itself: JSON has the same types.
        if type(value) is not dict:
            return value
        if not self._handles:
            return self._read(value, depth)
        try:
            return self._read(value, depth)
        except Unknown:
            return RecordedHandle(self._state, value)

    def _read(self, value: dict[str, Any], depth: int) -> Any:
        if depth > MOST_DEPTH:
            raise Unknown("it is nested too deeply")
        if self._count > MOST_VALUES:
            raise Unknown("it is too large")
        kind = kind_of(value)
        if kind == "ref":
            return self._object(value["ref"], depth)
        if kind in ("tuple", "frozenset"):
            return self._items(value, kind, depth)
        return atom(value, kind)

    def _items(self, value: dict[str, Any], kind: str, depth: int) -> Any:
        if value.get("elided") or "class" in value:
            raise Unknown(
                f"a {kind} is not shown whole" if value.get("elided") else f"{value['class']} is no builtin type"
            )
        items = [self.read(item, depth + 1) for item in value[kind]]
        return tuple(items) if kind == "tuple" else frozenset(self._keyed(set(), items, items))

    def _object(self, label: int, depth: int) -> Any:
        # Shared, as it was in the program: two names of one list are one list here.
        if label in self._made:
            made, count = self._made[label]
            self._count += count
            return made
        obj = self._heap.get(label)
        if obj is None:
            raise Unknown(f"#{label} does not exist yet")
        # A list in itself could be made; what compares or shows it would not come to an end.
        if label in self._open:
            raise Unknown("it refers to itself")
        if not obj.complete:
            raise Unknown(f"a {obj.type} is not shown whole")
        self._open.add(label)
        before = self._count
        try:
            made = self._make(obj, depth + 1)
        finally:
            self._open.discard(label)
        self._made[label] = made, self._count - before
        return made

    def _make(self, obj: Obj, depth: int) -> Any:
        if obj.type == "dict" and not obj.attrs and (obj.class_ or "dict") in _DICTS:
            pairs = [(self.read(key, depth), self.read(value, depth)) for key, value in (obj.pairs or {}).values()]
            # `Counter.update` would count the pairs.
            kind = dict if obj.class_ == "Counter" else _DICTS[obj.class_ or "dict"]
            made = self._keyed(kind(), pairs, [key for key, _ in pairs])
            return Counter(made) if obj.class_ == "Counter" else made
        if obj.class_ in (None, obj.type):
            if obj.type == "bytearray":
                return bytearray.fromhex(obj.hex or "")
            if obj.type in ("list", "set", "deque"):
                items = [self.read(item, depth) for item in (obj.items.known() if obj.items is not None else ())]
                if obj.type == "deque":
                    # A guest may claim a bound below the number of items, which would drop some of them.
                    return deque(items, obj.maxlen if obj.maxlen is None or obj.maxlen >= len(items) else None)
                return items if obj.type == "list" else self._keyed(set(), items, items)
        raise Unknown(f"{obj.class_ or obj.type} is no builtin type")

    def _keyed(self, made: Any, items: list[Any], keys: list[Any]) -> Any:
        try:
            self._keys.add(made.update, items, keys)
        except NotData as why:
            raise Unknown(str(why)) from None
        except TypeError:
            raise Unknown("its keys have no hash") from None
        return made


def atom(value: dict[str, Any], kind: str) -> Any:
    """A value without parts, by its main key.

    Raises:
        Unknown: It is not shown whole, or of another kind.
    """
    inner = value[kind]
    if kind == "int" and type(inner) is str:
        return int(inner)
    if kind == "float":
        return float(inner)
    if kind == "complex":
        return complex(*(float(part["float"]) if type(part) is dict else part for part in inner))
    if kind == "bytes" and len(inner["hex"]) == 2 * inner["len"]:
        return bytes.fromhex(inner["hex"])
    if kind == "range":
        return range(*(int(part["int"]) if type(part) is dict else part for part in inner))
    raise Unknown(f"a value of kind {kind} is not shown whole")
