"""Equality of Python values as a record and a text have them, and how a value is shown and counted."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any, Final

MOST_SHOWN: Final = 120
"""Characters of a value in a message."""


def same(actual: Any, said: Any, decimals: int | None = None) -> bool:
    """Tell whether a value is what was said: of the same type, a number to as many digits as were given."""
    if isinstance(actual, float) and isinstance(said, int | float) and not isinstance(said, bool):
        if math.isclose(actual, said, rel_tol=1e-12) or (actual != actual and said != said):
            return True
        return decimals is not None and decimals > 1 and math.isfinite(actual) and round(actual, decimals) == said
    return exactly(actual, said)


def exactly(one: Any, other: Any) -> bool:
    """Equal, and of the same types all the way down."""
    if isinstance(one, bool) != isinstance(other, bool) or type(one) is not type(other):
        return isinstance(one, int | float) and isinstance(other, int | float) and not (
            isinstance(one, bool) or isinstance(other, bool)
        ) and one == other  # fmt: skip
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(exactly, one, other))
    if isinstance(one, dict) and one.keys() == other.keys():
        return all(exactly(value, other[key]) for key, value in one.items())
    if isinstance(one, dict | set | frozenset) and any(key != key for key in one):  # one nan as a key, another one
        return frozen(one) == frozen(other)
    return bool(one == other) or (isinstance(one, float) and one != one and other != other)


def shown(value: Any) -> str:
    """A value as a message shows it: one that is long by its size alone."""
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python writes
        return "a number of thousands of digits"
    if len(text) <= MOST_SHOWN:
        return text
    size = f" with {len(value)} parts" if hasattr(value, "__len__") else ""
    return f"a longer {type(value).__name__}{size}"


def frozen(value: Any) -> Hashable:
    """Return a key that two values share if and only if `exactly` holds of them (and their nesting is not deep)."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, float) and value != value:
        return ("nan",)
    if isinstance(value, list | tuple):
        return (type(value).__name__, *map(frozen, value))
    if isinstance(value, dict):
        return (type(value).__name__, frozenset((frozen(key), frozen(each)) for key, each in value.items()))
    if isinstance(value, set | frozenset):
        return (type(value).__name__, frozenset(map(frozen, value)))
    try:
        hash(value)
    except TypeError:
        return (type(value).__name__, repr(value))
    return value if isinstance(value, Hashable) else None
