"""Kinds of values by their types, told without running code of the program.

A `Kind` is made once per type and cached by `id` of the type (a metaclass of the program may define `__hash__`); the
types are kept alive. Attributes of types are read through descriptors of `type` that were taken when this module
was imported, so neither `__getattribute__` of a metaclass nor a lying `__class__` is asked.

A *class of the program* is a heap type whose own `__module__` is the program's `__name__`.
"""

from __future__ import annotations

import collections
import enum
import types
from collections.abc import Callable
from json.encoder import encode_basestring_ascii
from typing import Any, NamedTuple

from .own import protect

protect(globals())

# Numbered as `enum told` of native/kinds.h, and compared by size: LIST to OBJECT, BYTES and ARRAY have an identity, and
# so have classes, if they are the program's; the contents of BYTES and ARRAY are data, and no objects.
(
    LEAF,  # written in place, refers to nothing: int, str, functions, …
    TUPLE,
    FROZENSET,
    METHOD,  # a bound method, of the program or built in
    LIST,
    DICT,
    SET,
    OBJECT,
    CLASS,
    BYTES,
    ARRAY,
) = range(11)

WORDS = {LIST: "list", DICT: "dict", SET: "set", OBJECT: "object", CLASS: "class", BYTES: "bytearray", ARRAY: "array"}

json_text: Callable[[str], str] = encode_basestring_ascii
# `type_dict(cls)` is `cls.__dict__` whatever its metaclass says: `class Meta(type): __getattribute__ = …` of the
# program would be called by the latter.
type_dict: Callable[[Any], Any] = type.__dict__["__dict__"].__get__
type_mro: Callable[[Any], tuple[type, ...]] = type.__dict__["__mro__"].__get__
type_name: Callable[[Any], str] = type.__dict__["__name__"].__get__
type_module: Callable[[Any], Any] = type.__dict__["__module__"].__get__
type_qualname: Callable[[Any], str] = type.__dict__["__qualname__"].__get__
_type_flags: Callable[[Any], int] = type.__dict__["__flags__"].__get__
function_qualname: Callable[[Any], str] = types.FunctionType.__dict__["__qualname__"].__get__
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement or by `type`, and not built into C
_EnumType: Any = type(enum.Enum)

deque = collections.deque
_BASES = {id(list): LIST, id(deque): LIST, id(dict): DICT, id(set): SET, id(bytearray): BYTES,
          id(tuple): TUPLE, id(frozenset): FROZENSET}  # fmt: skip
_LEAF_BASES = {id(base) for base in (int, float, complex, str, bytes)}
ATOMS = frozenset(id(atom) for atom in (int, float, str, bool, type(None), bytes, complex))
"""Types whose values never change their text and have nothing that waits for their end. By id."""


class Kind(NamedTuple):
    """Way in which values of one type are written."""

    type: Any
    kind: int
    word: str
    name: str | None
    """JSON of the class's qualified name, if records have it."""
    base: Any
    """The type whose methods read it: list, deque, dict, OrderedDict, set, tuple, int, …"""
    own: bool
    """An instance of a class of the program: it has attributes."""
    dictionary: Any
    """The getset descriptor of the real `__dict__`, or None."""
    slots: tuple[tuple[str, Any], ...]
    """Names and member descriptors."""


class Kinds:
    """The kinds of all types that were met."""

    def __init__(self) -> None:
        self._by_id: dict[int, Kind] = {}
        self.module_name: str = "__main__"
        self.arrays: dict[int, str] = {}
        """Array types by id, with the name that is told."""

    def of(self, kind_type: Any) -> Kind:
        """Return the kind of values of `kind_type`."""
        kind = self._by_id.get(id(kind_type))
        if kind is None:
            # `Kind.type` keeps the type alive: no other one can get its id.
            kind = self._by_id[id(kind_type)] = self._make(kind_type)
        return kind

    def is_own(self, cls: Any) -> bool:
        """Return whether a class is one of the program."""
        if not _type_flags(cls) & _HEAP_TYPE:
            return False
        module = type_dict(cls).get("__module__")
        return type(module) is str and module == self.module_name

    def _make(self, cls: Any) -> Kind:
        mro = type_mro(cls)
        own = self.is_own(cls)
        name = json_text(type_qualname(cls))
        # The order decides: `class Colour(IntEnum)` has int among its bases and would be told as a number, and what a
        # metaclass of the program makes are classes, and no objects.
        if id(cls) in self.arrays:
            return Kind(cls, ARRAY, "array", json_text(self.arrays[id(cls)]), cls, False, None, ())
        if cls is types.MethodType or cls is types.BuiltinMethodType:
            return Kind(cls, METHOD, "", None, cls, False, None, ())
        if issubclass(cls, type):
            return Kind(cls, CLASS, "class", None, type, False, None, ())
        if is_enum(cls):
            return Kind(cls, LEAF, "enum", name, object, False, _real_dictionary(mro), ())
        # The first built-in base says how contents are read: a named tuple is a tuple, `class Stack(list)` a list.
        for base in mro:
            if id(base) in _BASES:
                return self._of_base(cls, base, own, name, mro)
            if id(base) in _LEAF_BASES:
                return Kind(cls, LEAF, "", None, base, False, None, ())
        if own:
            return Kind(cls, OBJECT, "object", name, object, True, _real_dictionary(mro), _slots(mro))
        # An object of a library is told by its type's name alone.
        return Kind(cls, LEAF, "", None, cls, False, None, ())

    def _of_base(self, cls: Any, base: Any, own: bool, name: str, mro: tuple[type, ...]) -> Kind:
        kind = _BASES[id(base)]
        word = "deque" if base is deque else WORDS.get(kind, "")
        if base is dict and any(part is collections.OrderedDict for part in mro):
            # `move_to_end` changes the order that its own methods know, and not that of the dict below.
            base = collections.OrderedDict
        told = None if cls is base and cls is not collections.OrderedDict else name
        if kind in (TUPLE, FROZENSET, BYTES) or not own:
            # Attributes of these are not told, though `class Pair(tuple)` may have some.
            return Kind(cls, kind, word, told, base, False, None, ())
        return Kind(cls, kind, word, told, base, True, _real_dictionary(mro), _slots(mro))


def is_enum(cls: Any) -> bool:
    """Return whether the metaclass of a class is that of enumerations."""
    return issubclass(type(cls), _EnumType)


def _real_dictionary(mro: tuple[type, ...]) -> Any:
    """The descriptor by which instances give their true `__dict__`; a property of that name is passed over."""
    for cls in mro:
        found = type_dict(cls).get("__dict__")
        if type(found) is types.GetSetDescriptorType:
            return found
    return None


def _slots(mro: tuple[type, ...]) -> tuple[tuple[str, Any], ...]:
    """Slots of all classes, bases first, each class's in the order of its `__slots__`."""
    slots: list[tuple[str, Any]] = []
    for cls in reversed(mro):
        if not _type_flags(cls) & _HEAP_TYPE:
            continue
        members = type_dict(cls)
        found = {name: member for name, member in members.items() if type(member) is types.MemberDescriptorType}
        slots += sorted(found.items(), key=_slot_order(cls, members.get("__slots__")))
    return tuple(slots)


def _slot_order(cls: Any, declared: Any) -> Callable[[tuple[str, Any]], int]:
    names = list(declared) if type(declared) in (tuple, list) else []
    places = {}
    for place, name in enumerate(names):
        if type(name) is str:
            # `__slots__` has a name as it is written, the member the mangled one: `__size` of `class _Node` is
            # `_Node__size`.
            places[name] = places[f"_{type_name(cls).lstrip('_')}{name}"] = place
    return lambda item: places.get(item[0], len(places))
