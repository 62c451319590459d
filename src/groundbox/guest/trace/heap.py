"""Objects with an identity: their labels, their descriptions, and what changed in them.

**Labels.** An object gets the next label when it is first seen. New objects are found depth first, parts in the order
in which they are shown; labels are given going down, `object` records are written coming up. Parts that are not shown
(elided) are not visited. One event describes at most 2,000 objects: later ones get a label and a record that shows
nothing, and are not entered. The parts of a set are visited in the set's own order.

**Shadows.** Each object's contents, as last told, are kept (`contents.Contents`). Comparing goes by the identity of the
items. `check` tells one object's difference; `walk` checks everything that can be reached from some roots: depth
first, an object before its parts, parts in the order of their current contents, tuples, frozensets and bound methods
looked through, an instance's class after its attributes, objects without a label passed over.

**Life.** Labelled objects are kept alive, so that no address is used twice. When there are twice as many as after the
last sweep (at first 10,000), those that only this table holds are dropped. If the source waits for the end of
objects (`Facts.holds` is false), nothing but atoms is kept alive: where the type allows it a weak reference tells that
an object is gone; a list, a dict, or an instance with slots only keeps its label until an object of another type is
found at its address, so that a later list may take over the label of one that is gone. In this mode shadows hold
the texts of items in place of items, and parts that are elided are described, too.
"""

from __future__ import annotations

import sys
from _weakref import ref as _weakref
from collections.abc import Callable
from typing import Any

from .changes import MOST_TOLD, Change, Told
from .classes import ATOMS, BYTES, CLASS, EXACT_LEAVES, FROZENSET, LEAF, METHOD, SET, TUPLE, Kind, Kinds
from .contents import Contents, is_unchanged, same, take
from .describing import HEAD, MANY, TAIL, object_record, stub_record
from .own import protect
from .values import Values, inner_objects

protect(globals())

MOST_NEW = 2_000
_FIRST_SWEEP = 10_000
_OURS = 3  # references to an object that only we hold: the entry, a local variable, the argument
_getrefcount = sys.getrefcount


class Entry:
    """A labelled object."""

    __slots__ = ("kind", "label", "ref", "shadow", "stamp", "text", "value")

    def __init__(self, value: Any, kind: Kind, label: int) -> None:
        self.value = value
        self.kind = kind
        self.label = label
        self.text = f'{{"ref":{label}}}'
        self.stamp = 0
        self.ref: Any = None
        self.shadow: Any = None


class Heap:
    """All labelled objects of one run. Records are given to `tell`."""

    def __init__(self, values: Values, tell: Callable[[str], None], *, holds: bool) -> None:
        self._values = values
        self._kinds: Kinds = values.kinds
        self._tell = tell
        self._holds = holds
        self._table: dict[int, Entry] = {}
        self._by_label: dict[int, Entry] = {}
        self._texts: dict[str, str] = {}
        self._count = 0
        self._new = 0
        self._stamp = 0
        self._sweep_at = _FIRST_SWEEP
        self.described = False
        """Whether objects were described since the event began."""
        values.label = self._label

    def begin(self) -> None:
        """An event begins: 2,000 objects may be described."""
        self._new = 0
        self.described = False
        if len(self._table) > self._sweep_at:
            self._sweep()

    def find(self, value: Any) -> Entry | None:
        """The entry of a labelled object."""
        entry = self._table.get(id(value))
        if entry is None or self._holds or _is_same(entry, value):
            return entry
        self._drop(entry, id(value))
        return None

    def labelled(self, text: str) -> Any:
        """The object that `{"ref": n}` stands for, or None if there is none that is known to live."""
        entry = self._by_label.get(int(text[7:-1])) if text.startswith('{"ref":') else None
        return None if entry is None else self._living(entry)

    def check(self, value: Any) -> None:
        """Tell what changed in one object, if it is labelled."""
        entry = self.find(value)
        if entry is not None:
            self._compare(entry, value)

    def check_item(self, value: Any, key: Any) -> None:
        """As `check`, if nothing but the item at `key` can have changed."""
        entry = self.find(value)
        if entry is None:
            return
        shadow: Contents = entry.shadow
        cls = entry.kind.type
        if cls is list and type(key) is int and self._holds and len(value) == len(shadow.items):
            place = key if key >= 0 else key + len(value)
            if 0 <= place < len(value) and value[place] is not shadow.items[place]:
                self._set_item(entry, shadow, place, str(place), value[place])
        elif cls is dict and type(key) in (int, str) and self._holds:
            self._check_value(entry, shadow, value, key)
        else:
            self._compare(entry, value)

    def _check_value(self, entry: Entry, shadow: Contents, value: dict[Any, Any], key: Any) -> None:
        index = shadow.index()
        place = index.get(key) if index is not None else None
        if index is None or len(value) != len(shadow.items) + (place is None):
            self._compare(entry, value)
            return
        item = value[key]
        if place is None:
            key = next(reversed(value))
            index[key] = place = len(shadow.items)
            assert shadow.keys is not None
            shadow.keys.append(key)
            shadow.items.append(_UNKNOWN)
        if shadow.items[place] is not item:
            self._set_item(entry, shadow, place, self._values.text(key), item)

    def _set_item(self, entry: Entry, shadow: Contents, place: int, where: str, item: Any) -> None:
        text = self._values.text(item)
        self._tell(f'{{"k":"mutate","id":{entry.label},"op":"set","at":[[{where},{text}]]}}\n')
        shadow.items[place] = item
        shadow.gets([item])

    def check_end(self, value: Any) -> None:
        """As `check`, if a list can only have changed at its end."""
        entry = self.find(value)
        if entry is None:
            return
        shadow: Contents = entry.shadow
        more = len(value) - len(shadow.items) if entry.kind.type is list and self._holds else -1
        if not 0 <= more <= MOST_TOLD:
            self._compare(entry, value)
        elif more:
            items, start = value[-more:], len(shadow.items)
            text = self._values.several(items)
            self._tell(
                f'{{"k":"mutate","id":{entry.label},"op":"splice","start":{start},"removed":0,"items":[{text}]}}\n'
            )
            shadow.items += items
            shadow.gets(items)

    def check_add(self, value: Any) -> None:
        """As `check`, if a set can only have got one more item."""
        entry = self.find(value)
        if entry is None:
            return
        shadow: Contents = entry.shadow
        more = len(value) - len(shadow.items) if entry.kind.type is set and self._holds else -1
        if not 0 <= more <= 1:
            self._compare(entry, value)
        elif more:
            known = shadow.ids()
            item = next(item for item in value if id(item) not in known)
            self._tell(f'{{"k":"mutate","id":{entry.label},"op":"add","items":[{self._values.text(item)}]}}\n')
            shadow.items.append(item)
            known.add(id(item))
            shadow.gets([item])

    def check_all(self) -> None:
        """Tell what changed in any object that can be got at by its label, in the order of labels."""
        for entry in list(self._by_label.values()):
            value = self._living(entry)
            if value is not None:
                self._compare(entry, value)

    def walk(self, roots: list[Any]) -> None:
        """Tell what changed in anything that can be reached from `roots`."""
        self._stamp += 1
        seen: dict[int, Any] = {}
        todo = roots[::-1]
        while todo:
            value = todo.pop()
            cls = type(value)
            if id(cls) in EXACT_LEAVES:
                continue
            kind = self._kinds.of(cls)
            if kind.kind in (TUPLE, FROZENSET, METHOD):
                if id(value) not in seen:
                    seen[id(value)] = value
                    todo += inner_objects(value, kind, self._kinds)[::-1]
                continue
            entry = self.find(value)
            if entry is not None and entry.stamp != self._stamp:
                entry.stamp = self._stamp
                self._enter(entry, value, todo)

    def _enter(self, entry: Entry, value: Any, todo: list[Any]) -> None:
        current = self._compare(entry, value)
        if entry.kind.own:
            todo.append(entry.kind.type)
        if not current.plain:
            todo += [part for part in current.parts() if id(type(part)) not in EXACT_LEAVES][::-1]

    def _compare(self, entry: Entry, value: Any) -> Contents:
        """Tell the difference; the contents now."""
        shadow: Contents | None = entry.shadow
        if self._holds and shadow is not None and is_unchanged(value, entry.kind, shadow):
            return shadow
        current = take(value, entry.kind)
        if shadow is None:  # it is being described
            return current
        now = current if self._holds else self._tokens(current, entry.kind)
        if not same(now, shadow, entry.kind):
            Change(entry, value, now, current, self._values, self._tell).tell()
            entry.shadow = now
        return current

    def _living(self, entry: Entry) -> Any:
        return entry.ref() if entry.ref is not None else entry.value

    def _label(self, value: Any, kind: Kind) -> str:
        entry = self.find(value)
        return self._describe(value, kind) if entry is None else entry.text

    def _describe(self, value: Any, kind: Kind) -> str:
        """Label and describe a new object, and the new ones among its parts."""
        first, contents = self._add(value, kind)
        if contents is None:
            return first.text
        going = [(first, contents, value)]
        parts = [self._shown_parts(contents, kind)]
        while going:
            if parts[-1]:
                self._open(parts[-1].pop(), going, parts)
                continue
            parts.pop()
            entry, contents, owner = going.pop()
            self._tell(object_record(entry, owner, contents, self._values))
            entry.shadow = contents if self._holds else self._tokens(contents, entry.kind)
        return first.text

    def _open(self, part: Any, going: list[Any], parts: list[list[Any]]) -> None:
        kind = self._kinds.of(type(part))
        if kind.kind in (TUPLE, FROZENSET, METHOD):
            parts[-1] += inner_objects(part, kind, self._kinds)[::-1]
            return
        if kind.kind == LEAF or (kind.kind == CLASS and not self._kinds.is_own(part)) or self.find(part) is not None:
            return
        entry, contents = self._add(part, kind)
        if contents is not None:
            going.append((entry, contents, part))
            parts.append(self._shown_parts(contents, kind))

    def _shown_parts(self, contents: Contents, kind: Kind) -> list[Any]:
        """The parts to be visited, last first."""
        if contents.plain:
            return []
        shown = contents.parts() if kind.kind == SET or not self._holds else _shown(contents)
        return [part for part in shown if id(type(part)) not in EXACT_LEAVES][::-1]

    def _add(self, value: Any, kind: Kind) -> tuple[Entry, Contents | None]:
        self._count += 1
        self._new += 1
        self.described = True
        entry = Entry(value, kind, self._count)
        self._table[id(value)] = self._by_label[self._count] = entry
        if not self._holds:
            entry.value, entry.ref = None, _weak(value)
        contents = take(value, kind)
        if self._new <= MOST_NEW:
            return entry, contents
        self._tell(stub_record(entry, value, contents))
        entry.shadow = contents if self._holds else _unknown(contents)
        return entry, None

    def _drop(self, entry: Entry, key: int) -> None:
        del self._table[key]
        del self._by_label[entry.label]

    def _tokens(self, contents: Contents, kind: Kind) -> Contents:
        """The contents with the texts of items in place of items that are no atoms."""
        if kind.kind >= BYTES:
            return contents
        keys = None if contents.keys is None else [self._token(key) for key in contents.keys]
        extra = None if contents.extra is None else self._tokens(contents.extra, kind)
        return Contents([self._token(item) for item in contents.items], keys, extra)

    def _token(self, item: Any) -> Any:
        if id(type(item)) in ATOMS:
            return item
        text = self._values.text(item)
        return self._texts.setdefault(text, Told(text))

    def _sweep(self) -> None:
        for key, entry in list(self._table.items()):
            if self._holds:
                value = entry.value
                gone = _getrefcount(value) == _OURS
            else:
                gone = entry.ref is not None and entry.ref() is None
            if gone:
                self._drop(entry, key)
                entry.value = entry.shadow = None
        self._sweep_at = max(_FIRST_SWEEP, 2 * len(self._table))


def _is_same(entry: Entry, value: Any) -> bool:
    return entry.ref() is value if entry.ref is not None else type(value) is entry.kind.type


def _shown(contents: Contents) -> list[Any]:
    """Items, or keys and values by turns, that a record shows; then those of the attributes."""
    items, keys = contents.items, contents.keys
    places = list(range(len(items)))
    if len(items) > MANY:
        places = places[:HEAD] + places[-TAIL:]
    if keys is None:
        found = [items[place] for place in places]
    else:
        found = [part for place in places for part in (keys[place], items[place])]
    return found if contents.extra is None else found + _shown(contents.extra)


def _unknown(contents: Contents) -> Contents:
    """A shadow that is like no contents."""
    return Contents([_UNKNOWN], None if contents.keys is None else [_UNKNOWN])


_UNKNOWN = Told("null")


def _weak(value: Any) -> Any:
    try:
        return _weakref(value)
    except TypeError:
        return None
