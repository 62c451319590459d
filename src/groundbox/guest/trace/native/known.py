"""Functions of the standard library that change nothing, or no more than their first argument: told to the core in C.

It looks at fewer objects for a call of one of them (`effects.c`).
"""

from __future__ import annotations

import collections
import sys
import types
from typing import Any

from ..classes import deque
from ..own import protect
from ..values import module_dict

protect(globals())

CONTAINERS = (
    dict, collections.OrderedDict, collections.defaultdict, collections.Counter, list, set, bytearray, deque,
)  # fmt: skip
"""Types whose methods change nothing but their owner; dicts first."""
_FIRST = "first"
_PURE_MODULES = (
    "builtins", "math", "cmath", "itertools", "string", "re", "time", "statistics", "copy", "json", "fractions",
    "decimal", "datetime", "textwrap", "random", "bisect", "heapq", "operator", "collections", "functools",
)  # fmt: skip
_FIRST_CHANGED = {
    "heapq": ("heappush", "heappop", "heapify", "heapreplace", "heappushpop"),
    "bisect": ("insort", "insort_left", "insort_right"),
    "random": ("shuffle",),
    "operator": ("setitem", "delitem", "iadd", "iand", "iconcat", "ior", "isub", "ixor", "imul"),
    "builtins": ("setattr", "delattr"),
}
_NOT_PURE = {
    "builtins": ("exec", "eval", "globals", "locals", "vars", "__import__", "__build_class__", "compile", "help"),
    "functools": ("reduce", "update_wrapper", "wraps", "partial", "singledispatch"),
    "operator": ("call", "methodcaller"),
}


_read: dict[str, dict[int, str]] = {}
_kept: list[Any] = []
"""The functions that were read, so that no other object gets the id of one."""


def known_functions() -> dict[int, str]:
    """By id: library functions that change nothing ("none") or their first argument at most ("first").

    Each module is read once, so what a program puts in there later is not among them.
    """
    known: dict[int, str] = {}
    for name in _PURE_MODULES:
        module = sys.modules.get(name)
        if name not in _read and type(module) is types.ModuleType:
            _read[name] = _functions_of(name, module)
        known |= _read.get(name, {})
    return known


def _functions_of(name: str, module: types.ModuleType) -> dict[int, str]:
    known: dict[int, str] = {}
    for member, function in module_dict(module).items():
        if member in _NOT_PURE.get(name, ()) or not callable(function) or isinstance(function, type):
            continue
        _kept.append(function)
        # `operator` has its functions under two names, `setitem` and `__setitem__`.
        known[id(function)] = _FIRST if member.strip("_") in _FIRST_CHANGED.get(name, ()) else "none"
    return known
