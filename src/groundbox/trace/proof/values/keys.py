"""Which key of a dict a text means that Python would not find: a vast number, a long text, nan, an instance."""

from __future__ import annotations

import math
from typing import Any, Final

from groundbox.trace.proof.values.bounds import Unknowable
from groundbox.trace.proof.values.things import Opaque, Part, Thing, int_words

_BY_NAME: Final = frozenset({"class", "function", "module"})
"""Kinds that a text writes as `<class Point>`."""


def item_at(owner: dict[Any, Any], index: Any) -> Any:
    """The value at a key.

    Raises:
        Unknowable: Two keys look like this one.
        LookupError: None does.
    """
    if not is_odd(index):
        return owner[index]
    found = [value for key, value in owner.items() if is_key(index, key)]
    if not found:
        raise KeyError("no such key")
    if len(found) > 1:
        raise Unknowable("two keys look alike")
    return found[0]


def is_odd(index: Any) -> bool:
    """Whether a key is none that Python would find."""
    if isinstance(index, tuple):
        return any(is_odd(part) for part in index)
    return isinstance(index, Opaque | Part | Thing) or (isinstance(index, float) and math.isnan(index))


def is_key(said: Any, key: Any) -> bool:
    """Whether a key that a text writes, or the program has, is this one."""
    if isinstance(said, tuple):
        if not isinstance(key, tuple) or len(said) != len(key):
            return False
        return all(is_key(one, other) if is_odd(one) else one == other for one, other in zip(said, key, strict=True))
    if isinstance(said, float):
        return isinstance(key, float) and math.isnan(key)
    if isinstance(said, Opaque):
        if isinstance(key, Thing):
            return key.kind in _BY_NAME and said.text.replace(" ", "") == f"{key.kind}{key.name}".replace(" ", "")
        return isinstance(key, Part) and key.type == "int" and said.text == int_words(key)
    if isinstance(said, Thing):
        return isinstance(key, Thing) and _is_instance(said, key)
    if not isinstance(key, Part):
        return said.type == "str" and isinstance(key, str) and _is_cut(said, Part("str", key, key, len(key)))
    if said.type != key.type or said.length != key.length:
        return False
    if said.type == "int":
        return (said.head, said.origin) == (key.head, key.origin)
    return bool(said.type == "str" and _is_cut(said, key))


def _is_instance(said: Thing, key: Thing) -> bool:
    if said.label:
        return said.label == key.label
    return f".{key.name}".endswith(f".{said.name}") and bool(said.attrs) and said.attrs == key.attrs


def _is_cut(said: Part, key: Part) -> bool:
    """Whether a text of which the middle is left out may be that one."""
    head, tail = min(len(said.head), len(key.head)), min(len(said.tail), len(key.tail))
    same_head = said.head[:head] == key.head[:head]
    same_tail = not tail or said.tail[-tail:] == key.tail[-tail:]
    return said.length == key.length and same_head and same_tail
