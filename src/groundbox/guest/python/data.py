"""A result as data: nested JSON, in the words that traces use for values (docs/trace.md), containers inside.

It is made after the program has ended, from the built-in base types' own methods: a subclass of `dict` is told as
a dict with its class, whatever it overrides. What is no data is told by the name of its type.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any, Final

MOST_DEPTH: Final = 25
"""Two levels of JSON each; a frame to the host holds 64."""
MOST_ITEMS: Final = 100_000
_EXACT: Final = 1 << 53
_MOST_DIGITS: Final = 4000


class _TooMuch(Exception):
    """The result is not worth handing over as data."""


def canonical(value: Any) -> Any:
    """`value` as nested JSON, or None when it is too large or too deep."""
    try:
        return _Encoder().encode(value, 0)
    except (_TooMuch, RuntimeError, MemoryError):  # RuntimeError: a thread of the program changes it meanwhile
        return None


class _Encoder:
    def __init__(self) -> None:
        self._left = MOST_ITEMS

    def encode(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if depth > MOST_DEPTH or self._left < 0:
            raise _TooMuch
        kind = type(value)
        if value is None or kind is bool:
            return value
        for base, write in _ATOMS:
            if issubclass(kind, base):
                return write(value)
        for base, name, items in _CONTAINERS:
            if issubclass(kind, base):
                return self._container(name, items(value), kind, base, depth)
        plain = _from_numpy(value, kind)
        return {"opaque": kind.__name__} if plain is None else self.encode(plain, depth)

    def _container(self, name: str, items: Any, kind: type, base: type, depth: int) -> dict[str, Any]:
        if name == "dict":
            told = [[self.encode(part, depth + 1) for part in pair] for pair in items]
        else:
            told = [self.encode(item, depth + 1) for item in items]
        if name in ("set", "frozenset"):
            told.sort(key=repr)
        return {name: told} if kind is base else {name: told, "class": kind.__name__}


def _integer(value: int) -> Any:
    number = int.__index__(value)
    if -_EXACT < number < _EXACT:
        return number
    if number.bit_length() > _MOST_DIGITS * 3:
        raise _TooMuch
    return {"int": int.__repr__(number)}


def _real(value: float) -> Any:
    number = float.__pos__(value)
    return number if math.isfinite(number) else {"float": float.__repr__(number)}


def _text(value: str) -> str:
    return str.__str__(value)


def _from_numpy(value: Any, kind: type) -> Any:
    """A number or a list for a scalar or an array of numpy, None for everything else."""
    if kind.__module__ != "numpy":
        return None
    try:
        return value.tolist() if hasattr(value, "ndim") else None
    except Exception:  # what calls itself numpy may be anything
        return None


_ATOMS: Final[tuple[tuple[type, Any], ...]] = (
    (int, _integer),
    (float, _real),
    (str, _text),
    (complex, lambda value: {"complex": [_real(value.real), _real(value.imag)]}),
    (bytes, lambda value: {"bytes": {"len": bytes.__len__(value), "hex": bytes.hex(value)}}),
    (range, lambda value: {"range": [value.start, value.stop, value.step]}),
)
_CONTAINERS: Final[tuple[tuple[type, str, Any], ...]] = (
    (list, "list", list.__iter__),
    (tuple, "tuple", tuple.__iter__),
    (dict, "dict", lambda value: list(dict.items(value))),
    (set, "set", set.__iter__),
    (frozenset, "frozenset", frozenset.__iter__),
    (deque, "deque", deque.__iter__),
)
