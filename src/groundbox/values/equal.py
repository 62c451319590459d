"""Equality of Python values: one walk, whose callers say what may differ.

`equal` is what the others are made of, but for `identical`, which is told by how values are written: that is the one
way in which keys, items of sets and the signs of zeros have types, too.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Hashable
from typing import Any, Final

from groundbox.values.literals import Literal, text

REL_TOL: Final = 1e-9
"""The order of a sum shows in its last digits."""
_TOLD: Final = 1e-12


def equal(
    one: Any,
    other: Any,
    *,
    rel_tol: float = 0.0,
    abs_tol: float = 0.0,
    sequences_alike: bool = False,
    blanks_alike: bool = False,
) -> bool:
    """Tell whether two values are equal, and of the same types all the way down; 1 is 1.0, and nan is nan.

    Keys and items of sets are looked up as Python does, to which 1 and True are one key; beside a nan they are two.

    Args:
        rel_tol: By how much numbers may differ, of which one is a float, as a share of the larger one.
        abs_tol: By how much they may differ in any case.
        sequences_alike: A list and a tuple may be equal.
        blanks_alike: None and nan are equal, as both are an empty cell of a table.
    """
    if rel_tol or abs_tol or sequences_alike or blanks_alike:
        return _Equality(rel_tol, abs_tol, sequences_alike, blanks_alike).holds(one, other)
    return _EXACT.holds(one, other)


class _Equality:
    def __init__(self, rel_tol: float, abs_tol: float, sequences_alike: bool, blanks_alike: bool) -> None:
        self._rel_tol, self._abs_tol = rel_tol, abs_tol
        self._sequences_alike, self._blanks_alike = sequences_alike, blanks_alike

    def holds(self, one: Any, other: Any) -> bool:
        if self._blanks_alike and (is_blank(one) or is_blank(other)):
            return is_blank(one) and is_blank(other)
        if isinstance(one, bool) or isinstance(other, bool):
            return one is other
        if isinstance(one, int | float) and isinstance(other, int | float):
            return close_numbers(one, other, rel_tol=self._rel_tol, abs_tol=self._abs_tol)
        alike = self._sequences_alike and isinstance(one, list | tuple) and isinstance(other, list | tuple)
        if type(one) is not type(other) and not alike:
            return False
        if isinstance(one, list | tuple | deque):
            return len(one) == len(other) and all(map(self.holds, one, other))
        if isinstance(one, dict) and one.keys() == other.keys():
            return all(self.holds(value, other[key]) for key, value in one.items())
        if isinstance(one, dict | set | frozenset) and any(key != key for key in one):  # one nan as a key, another one
            return len(one) == len(other) and frozen(one) == frozen(other)
        return bool(one == other)


_EXACT: Final = _Equality(0.0, 0.0, False, False)


def close_numbers(one: float, other: float, *, rel_tol: float, abs_tol: float = 0.0) -> bool:
    """Tell whether two numbers are equal within tolerances. Whole numbers are exact, and nan is nan."""
    if one == other or (one != one and other != other):
        return True
    if (isinstance(one, int) and isinstance(other, int)) or not (rel_tol or abs_tol):
        return False
    try:
        return math.isclose(one, other, rel_tol=rel_tol, abs_tol=abs_tol)
    except OverflowError:  # an integer beyond all floats
        return False


def is_blank(value: Any) -> bool:
    """Tell whether a value is an empty cell of a table."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def as_told(actual: Any, said: Any, decimals: int | None = None) -> bool:
    """Tell whether a value is what was said: of the same type, a number to as many digits as were given."""
    if isinstance(actual, float) and isinstance(said, int | float) and not isinstance(said, bool):
        if close_numbers(actual, said, rel_tol=_TOLD):
            return True
        return decimals is not None and decimals > 1 and math.isfinite(actual) and round(actual, decimals) == said
    return equal(actual, said)


def frozen(value: Any) -> Hashable:
    """Return a key that two values share if and only if `equal` holds of them.

    But True and 1 differ as keys and items of sets, too, nans there count once, and the nesting may not be deep.
    """
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, float) and value != value:
        return ("nan",)
    if isinstance(value, list | tuple | deque):
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


def identical(one: Literal, other: Literal) -> bool:
    """Tell whether two literals are of equal types in all their parts, zeros with their signs; dicts in any order."""
    return text(one, sort_dicts=True) == text(other, sort_dicts=True)


def equal_as_json(one: Literal, other: Literal) -> bool:
    """Tell whether two literals are equal once both have been through JSON, floats within `REL_TOL`.

    Recorded outputs were written as JSON: tuples and sets became lists, and keys became texts.
    """
    return equal(_as_json(one), _as_json(other), rel_tol=REL_TOL, abs_tol=REL_TOL)


def _as_json(value: Literal) -> Any:
    if isinstance(value, list | tuple):
        return [_as_json(each) for each in value]
    if isinstance(value, set | frozenset):
        return sorted(map(_as_json, value), key=lambda each: json.dumps(each, sort_keys=True, default=str))
    if isinstance(value, dict):
        return {key if isinstance(key, str) else _key(key): _as_json(each) for key, each in value.items()}
    return value


def _key(key: Literal) -> str:
    return json.dumps(key) if key is None or isinstance(key, bool | int | float) else text(key)
