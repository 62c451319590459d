"""Contents of an object with an identity at one moment, and how records describe them and their changes.

`take(value, kind)` gives a `Contents`, also kept as the *shadow* from which the next change is told:

- LIST (list, deque): `items`
- DICT: `keys` and `items` (the values), in the dict's order
- SET: `items` in the order of iteration
- OBJECT, CLASS: `keys` (names, exact str) and `items`: the real `__dict__` in its order, then the slots that are set.
  Of a class: its own attributes but those whose type has `__get__`, names that begin with `__`, and, if its metaclass
  is not `type`, names that begin with `_`.
- BYTES: `items` is a list of one bytes object
- ARRAY: a list of one tuple: dtype, shape, the bytes of the data (over 3 MiB: their SHA-256); with dtype object then
  the items that are shown
- containers that are instances of classes of the program also have `extra`: their attributes, as of an OBJECT

An OrderedDict whose keys are not all atoms is taken in the order of its underlying dict, since asking for its own
order would hash the keys.

Contents are compared by the identity of their items. Where objects must not be kept alive, both sides are *tokens*: the
texts of items, one `Token` for each text, in place of items that are no atoms.
"""

from __future__ import annotations

import collections
import hashlib
from collections.abc import Callable, Iterator
from math import prod
from operator import is_
from typing import Any, NamedTuple

from ..classes import ARRAY, ATOMS, BYTES, CLASS, DICT, LIST, OBJECT, SET, Kind, deque, json_text, type_dict, type_mro
from ..own import protect
from ..values import Shown, Values

protect(globals())

SHOWN = Shown(200, 150, 20)
_MOST_SET = 16
_MOST_TOLD = 100
_SHOWN_BYTES = 200
_HASHED_BYTES = 3 * 2**20

# Methods of the built-in types, so that those of a subclass are not called.
_sha256 = hashlib.sha256
_list_copy, _deque_items, _set_items = list.copy, deque.__iter__, set.__iter__
_dict_keys, _dict_values = dict.keys, dict.values
_ordered_keys = collections.OrderedDict.keys
_ordered_values = collections.OrderedDict.values
_bytearray_item = bytearray.__getitem__
_deque_maxlen: Callable[[Any], int | None] = deque.__dict__["maxlen"].__get__
_list_size = list.__sizeof__
_basic_size: Callable[[type], int] = type.__dict__["__basicsize__"].__get__


class Token(str):
    """The JSON text of an item, in place of the item."""

    __slots__ = ()


class Contents(NamedTuple):
    """Items of an object. `keys` are a dict's keys or the names of attributes, else None."""

    items: list[Any]
    keys: list[Any] | None = None
    extra: Any = None
    """Contents of the attributes of a container that has them, or None."""

    def parts(self, *, shown: bool) -> list[Any]:
        """Return the items, or keys and values by turns, that records show, or all; then those of the attributes."""
        found = self.items if self.keys is None else list(zip(self.keys, self.items, strict=True))
        if shown:
            found = SHOWN.of(found)
        if self.keys is not None:
            found = [part for pair in found for part in pair]
        return found if self.extra is None else found + self.extra.parts(shown=shown)


def take(value: Any, kind: Kind) -> Contents:
    """Return the contents of `value`, which is of `kind`, now."""
    what = kind.kind
    if what == OBJECT:
        return Contents(*_attributes(value, kind))
    extra = Contents(*_attributes(value, kind)) if kind.own else None
    if what == LIST:
        return Contents(list(_deque_items(value)) if kind.base is deque else _list_copy(value), None, extra)
    if what == DICT:
        keys = list(_dict_keys(value))
        # An OrderedDict looks its keys up when its own order is asked for, by `__hash__` and `__eq__` of classes of the
        # program if they are no atoms.
        if kind.base is not dict and ATOMS.issuperset(map(id, map(type, keys))):
            return Contents(list(_ordered_values(value)), list(_ordered_keys(value)), extra)
        return Contents(list(_dict_values(value)), keys, extra)
    if what == SET:
        return Contents(list(_set_items(value)), None, extra)
    if what == CLASS:
        return Contents(*_class_attributes(value, type(value)))
    if what == BYTES:
        return Contents([bytes(_bytearray_item(value, slice(None)))])
    assert what == ARRAY
    return Contents(array_contents(value))


def _attributes(value: Any, kind: Kind) -> tuple[list[Any], list[str]]:
    found = {}
    if kind.dictionary is not None:
        found = {name: item for name, item in dict.items(kind.dictionary.__get__(value)) if type(name) is str}
    items, names = list(found.values()), list(found)
    for name, member in kind.slots:
        try:
            # An empty slot raises AttributeError, and is not told.
            items.append(member.__get__(value))
        except AttributeError:
            continue
        names.append(name)
    return items, names


def _class_attributes(cls: Any, metaclass: Any) -> tuple[list[Any], list[str]]:
    # Metaclasses of the library keep private things in their classes: `_abc_impl`, `_member_map_`.
    hidden = "__" if metaclass is type else "_"
    found = {
        name: item
        for name, item in type_dict(cls).items()
        if type(name) is str and not name.startswith(hidden) and not _has_get(type(item))
    }
    return list(found.values()), list(found)


def _has_get(cls: Any) -> bool:
    """Return whether values of this type are descriptors."""
    return any("__get__" in type_dict(base) for base in type_mro(cls))


def array_contents(value: Any) -> list[Any]:
    """Return a tuple of dtype, shape and data, then the items if they are objects."""
    if hasattr(value, "typecode"):
        return [(value.typecode, (len(value),), value.tobytes())]
    # The bytes of its data are addresses.
    if value.dtype.hasobject:
        head, tail = shown_items(value)
        return [(str(value.dtype), tuple(value.shape), b""), *head, *tail]
    data = value.tobytes()
    return [(str(value.dtype), tuple(value.shape), data if len(data) <= _HASHED_BYTES else _sha256(data).digest())]


def shown_items(value: Any) -> tuple[list[Any], list[Any]]:
    """Return the items of an array that are shown, as Python values, in C order: the first ones, the last ones."""
    flat = value if hasattr(value, "typecode") else value.reshape(-1)
    if len(flat) <= SHOWN.most:
        return flat.tolist(), []
    return flat[: SHOWN.head].tolist(), flat[-SHOWN.tail :].tolist()


def is_being_sorted(value: Any) -> bool:
    """Return whether `list.sort` is at work on a list, which is empty meanwhile and has room for -1 items."""
    return _list_size(value) < _basic_size(type(value))


def same(one: Contents, other: Contents, kind: Kind) -> bool:
    """Return whether nothing changed, by the identity of items (of data, by value)."""
    items, others = one.items, other.items
    if len(items) != len(others):
        return False
    # Contents are copies here, made anew each time.
    if kind.kind in (BYTES, ARRAY):
        return bool(items[0] == others[0]) and all(map(is_, items[1:], others[1:]))
    if not all(map(is_, items, others)):
        return False
    if one.keys is not None and other.keys is not None and not all(map(is_, one.keys, other.keys)):
        return False
    return one.extra is None or other.extra is None or same(one.extra, other.extra, kind)


def description(kind: Kind, value: Any, contents: Contents, values: Values) -> str:
    """Return the fields of an `object` record or a `replace` that show the contents, each with a comma before it."""
    what = kind.kind
    if what == BYTES:
        data = contents.items[0]
        return f',"hex":"{data[:_SHOWN_BYTES].hex()}","len":{len(data)}'
    if what == ARRAY:
        return _array(value, contents, values)
    if what not in (LIST, DICT, SET):
        return _attribute_fields(contents, values)
    if what == DICT:
        assert contents.keys is not None
        pairs = list(zip(contents.keys, contents.items, strict=True))
        told = SHOWN.fields("pairs", pairs, lambda shown: ",".join(f"[{values.several(pair)}]" for pair in shown))
    elif what == SET:
        # By their texts, so that the same set is told alike in every run, whatever the hash seed.
        told = SHOWN.fields("items", sorted(values.text(item) for item in contents.items), ",".join)
    else:
        told = SHOWN.fields("items", contents.items, values.several)
        maxlen = _deque_maxlen(value) if kind.base is deque else None
        told += "" if maxlen is None else f',"maxlen":{maxlen}'
    return f",{told}" if contents.extra is None else f",{told}{_attribute_fields(contents.extra, values)}"


def stub(kind: Kind, value: Any, contents: Contents) -> str:
    """Return the fields of an object that is described beyond the number for one event: nothing shown, all counted."""
    word = {DICT: '"pairs":[]', OBJECT: '"attrs":{}', CLASS: '"attrs":{}'}.get(kind.kind, '"items":[]')
    return f',{word},"elided":{len(value) if kind.kind in (BYTES, ARRAY) else len(contents.items)}'


def _attribute_fields(contents: Contents, values: Values) -> str:
    assert contents.keys is not None
    pairs = list(zip(contents.keys, contents.items, strict=True))
    rest = "" if len(pairs) <= SHOWN.most else f',"elided":{len(pairs) - SHOWN.head}'
    shown = pairs if len(pairs) <= SHOWN.most else pairs[: SHOWN.head]
    return f',"attrs":{{{",".join(f"{json_text(name)}:{values.text(item)}" for name, item in shown)}}}{rest}'


def _array(value: Any, contents: Contents, values: Values) -> str:
    dtype, shape, _ = contents.items[0]
    head, tail = shown_items(value)
    text = f',"dtype":{json_text(dtype)},"shape":[{",".join(map(str, shape))}],"items":[{values.several(head)}]'
    if tail:
        text += f',"tail":[{values.several(tail)}],"elided":{prod(shape) - SHOWN.head - SHOWN.tail}'
    return text


class Change(NamedTuple):
    """Difference of an object. `before` and `after` are compared; `contents` are what `after` stands for."""

    kind: Kind
    value: Any
    before: Contents
    after: Contents
    contents: Contents
    values: Values

    def operations(self) -> Iterator[str]:
        """Yield what `mutate` records say after `"op":`, in order. Texts describe new objects, so take them one by one.

        - attributes of a container changed, BYTES, ARRAY: `replace`, of everything
        - LIST: same length and at most 16 items differ: `set`. Else, with the longest common beginning and then the
          longest common end of what is left set aside: `splice`, if it shows at most 100 items. Else `replace`.
        - DICT, OBJECT, CLASS: removed keys, then changed and new ones in the present order, if removing and then
          setting leads to the present order and there are at most 100 in all: `remove`, then `set`. Else `replace`. A
          dict's keys are compared by identity, names of attributes by their text.
        - SET: `discard`, then `add`, each sorted by JSON text, if there are at most 100 in all. Else `replace`.
        """
        what, extra = self.kind.kind, self.before.extra
        if what in (BYTES, ARRAY) or (extra is not None and not same(extra, self.after.extra, self.kind)):
            yield self._whole()
        elif what == LIST:
            yield self._list()
        elif what == SET:
            yield from self._set()
        else:
            yield from self._pairs(id if what == DICT else str)

    def _whole(self) -> str:
        return f'"replace"{description(self.kind, self.value, self.contents, self.values)}'

    def _list(self) -> str:
        old, new, shown = self.before.items, self.after.items, self.contents.items
        if len(old) == len(new):
            places = [place for place in range(len(new)) if old[place] is not new[place]]
            if len(places) <= _MOST_SET:
                told = ",".join(f"[{place},{self.values.text(shown[place])}]" for place in places)
                return f'"set","at":[{told}]'
        # Beginning first, and only then the end of what is left: `[1, 1]` made of `[1]` is one item added at index 1.
        start = _common(old, new)
        end = _common(old[start:][::-1], new[start:][::-1])
        stop = len(new) - end
        if stop - start > _MOST_TOLD:
            return self._whole()
        removed, items = len(old) - end - start, self.values.several(shown[start:stop])
        return f'"splice","start":{start},"removed":{removed},"items":[{items}]'

    def _set(self) -> Iterator[str]:
        old, new = set(map(id, self.before.items)), set(map(id, self.after.items))
        gone = [item for item in self.before.items if id(item) not in new]
        pairs = zip(self.after.items, self.contents.items, strict=True)
        come = [shown for item, shown in pairs if id(item) not in old]
        if len(gone) + len(come) > _MOST_TOLD:
            yield self._whole()
            return
        if gone:
            yield f'"discard","items":[{",".join(sorted(map(self._text, gone)))}]'
        if come:
            yield f'"add","items":[{",".join(sorted(map(self._text, come)))}]'

    def _pairs(self, mark: Callable[[Any], Any]) -> Iterator[str]:
        before, after, keys = self.before, self.after, self.contents.keys
        assert before.keys is not None
        assert after.keys is not None
        assert keys is not None
        old = dict(zip(map(mark, before.keys), before.items, strict=True))
        marks = list(map(mark, after.keys))
        present = set(marks)
        gone = [key for key in before.keys if mark(key) not in present]
        places = [p for p, key in enumerate(marks) if key not in old or old[key] is not after.items[p]]
        # Keys that stay keep their order, and new ones are appended by setting them; any other order is told whole, as
        # after `move_to_end`.
        order = [key for key in map(mark, before.keys) if key in present]
        order += [marks[place] for place in places if marks[place] not in old]
        if order != marks or len(gone) + len(places) > _MOST_TOLD:
            yield self._whole()
            return
        write: Callable[[Any], str] = json_text if mark is str else self._text
        if gone:
            yield f'"remove","at":[{",".join(map(write, gone))}]'
        if places:
            shown = self.contents.items
            yield f'"set","at":[{",".join(f"[{write(keys[p])},{self.values.text(shown[p])}]" for p in places)}]'

    def _text(self, item: Any) -> str:
        return str(item) if type(item) is Token else self.values.text(item)


def _common(one: list[Any], other: list[Any]) -> int:
    """Return how many first items are the same."""
    count = min(len(one), len(other))
    return next((place for place in range(count) if one[place] is not other[place]), count)
