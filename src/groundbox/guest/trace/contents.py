"""Contents: what an object with an identity holds at one moment, as plain lists.

`take(value, kind)` gives a `Contents`, which is also the *shadow* kept to tell changes later:

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
"""

from __future__ import annotations

import collections
import hashlib
from collections.abc import Callable
from operator import is_
from typing import Any

from .classes import ARRAY, ATOMS, BYTES, CLASS, DICT, EXACT_LEAVES, LIST, OBJECT, SET, Kind, deque, type_dict, type_mro
from .own import protect

protect(globals())

_list_copy, _deque_items, _set_items = list.copy, deque.__iter__, set.__iter__
_dict_keys, _dict_values = dict.keys, dict.values
_ordered_keys = collections.OrderedDict.keys
_ordered_values = collections.OrderedDict.values
_bytearray_item = bytearray.__getitem__
deque_maxlen: Callable[[Any], int | None] = deque.__dict__["maxlen"].__get__


_SIMPLE_KEYS = frozenset((id(int), id(str)))


class Contents:
    """What an object held."""

    __slots__ = ("_ids", "_index", "_plain", "extra", "items", "keys")

    def __init__(self, items: list[Any], keys: list[Any] | None, extra: Contents | None = None) -> None:
        self.items = items
        self.keys = keys
        self.extra = extra
        self._index: dict[Any, int] | None = None
        self._ids: set[int] | None = None
        self._plain: bool | None = None

    @property
    def plain(self) -> bool:
        """Nothing in it is told as an object, so walks stop here."""
        if self._plain is None:
            keys, extra = self.keys, self.extra
            self._plain = (
                only_leaves(self.items) and (keys is None or only_leaves(keys)) and (extra is None or extra.plain)
            )
        return self._plain

    def gets(self, items: list[Any]) -> None:
        """Items have been put into it."""
        self._plain = self._plain and only_leaves(items)

    def index(self) -> dict[Any, int] | None:
        """Places of a dict's keys, or None if one of them is neither an int nor a str."""
        if self._index is None and self.keys is not None and _SIMPLE_KEYS.issuperset(map(id, map(type, self.keys))):
            self._index = {key: place for place, key in enumerate(self.keys)}
        return self._index

    def ids(self) -> set[int]:
        """Of all items."""
        if self._ids is None:
            self._ids = set(map(id, self.items))
        return self._ids

    def parts(self) -> list[Any]:
        """All it refers to: items, or keys and values by turns; then the attributes."""
        found = self.items
        if self.keys is not None:
            found = [part for pair in zip(self.keys, self.items, strict=True) for part in pair]
        return found if self.extra is None else found + self.extra.parts()


def only_leaves(values: list[Any]) -> bool:
    """Whether all values are of exact types that refer to nothing that is told."""
    return EXACT_LEAVES.issuperset(map(id, map(type, values)))


def take(value: Any, kind: Kind) -> Contents:
    """The contents of `value`, which is of `kind`, now."""
    what = kind.kind
    if what == OBJECT:
        return Contents(*_attributes(value, kind))
    extra = Contents(*_attributes(value, kind)) if kind.own else None
    if what == LIST:
        items = list(_deque_items(value)) if kind.base is deque else _list_copy(value)
        return Contents(items, None, extra)
    if what == DICT:
        keys, values = _pairs(value, kind)
        return Contents(values, keys, extra)
    if what == SET:
        return Contents(list(_set_items(value)), None, extra)
    if what == CLASS:
        return Contents(*_class_attributes(value, type(value)))
    if what == BYTES:
        return Contents([bytes(_bytearray_item(value, slice(None)))], None)
    assert what == ARRAY
    return Contents(_array(value), None)


def _pairs(value: Any, kind: Kind) -> tuple[list[Any], list[Any]]:
    keys = list(_dict_keys(value))
    if kind.base is not dict and ATOMS.issuperset(map(id, map(type, keys))):
        return list(_ordered_keys(value)), list(_ordered_values(value))
    return keys, list(_dict_values(value))


def _attributes(value: Any, kind: Kind) -> tuple[list[Any], list[str]]:
    items: list[Any] = []
    names: list[str] = []
    if kind.dictionary is not None:
        found = kind.dictionary.__get__(value)
        for name, item in dict.items(found):
            if type(name) is str:
                names.append(name)
                items.append(item)
    for name, member in kind.slots:
        try:
            item = member.__get__(value)
        except AttributeError:
            continue
        names.append(name)
        items.append(item)
    return items, names


def _class_attributes(cls: Any, metaclass: Any) -> tuple[list[Any], list[str]]:
    hidden = "__" if metaclass is type else "_"
    items: list[Any] = []
    names: list[str] = []
    for name, item in type_dict(cls).items():
        if type(name) is str and not name.startswith(hidden) and not has_get(type(item)):
            names.append(name)
            items.append(item)
    return items, names


def has_get(cls: Any) -> bool:
    """Whether values of this type are descriptors."""
    return any("__get__" in type_dict(base) for base in type_mro(cls))


_sha256 = hashlib.sha256
_MANY_BYTES = 3 * 2**20
_MANY_ITEMS = 200


def _array(value: Any) -> list[Any]:
    """A tuple of dtype, shape and data, then the items if they are objects."""
    if hasattr(value, "typecode"):
        return [(value.typecode, (len(value),), value.tobytes())]
    if value.dtype.hasobject:
        head, tail = shown_items(value)
        return [(str(value.dtype), tuple(value.shape), b""), *head, *tail]
    data = value.tobytes()
    return [(str(value.dtype), tuple(value.shape), data if len(data) <= _MANY_BYTES else _sha256(data).digest())]


def is_unchanged(value: Any, kind: Kind, shadow: Contents) -> bool:
    """Whether it is certain, without taking its contents, that they are the same. Only for exact lists and dicts."""
    if kind.type is list:
        return len(value) == len(shadow.items) and all(map(is_, value, shadow.items))
    if kind.type is dict and shadow.keys is not None:
        if len(value) != len(shadow.items):
            return False
        return all(map(is_, value.values(), shadow.items)) and all(map(is_, value, shadow.keys))
    return False


def same(one: Contents, other: Contents, kind: Kind) -> bool:
    """Whether nothing changed, by the identity of items (of data, by value)."""
    items, others = one.items, other.items
    if len(items) != len(others):
        return False
    if kind.kind in (BYTES, ARRAY):
        return bool(items[0] == others[0]) and all(map(is_, items[1:], others[1:]))
    if not all(map(is_, items, others)):
        return False
    if one.keys is not None and other.keys is not None and not all(map(is_, one.keys, other.keys)):
        return False
    return one.extra is None or other.extra is None or same(one.extra, other.extra, kind)


_HEAD, _TAIL = 150, 20


def shown_items(value: Any) -> tuple[list[Any], list[Any]]:
    """The items of an array that are shown, as Python values, in C order: the first ones, the last ones."""
    flat = value if hasattr(value, "typecode") else value.reshape(-1)
    if len(flat) <= _MANY_ITEMS:
        return flat.tolist(), []
    return flat[:_HEAD].tolist(), flat[-_TAIL:].tolist()
