"""The functions and methods that are worked out: those that only look at what they are given, within bounds.

Calls of the program's own functions are looked up in the trace instead, see `records.scene`.
"""

from __future__ import annotations

import ast
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Final

from groundbox.trace.proof.values.bounds import MOST, Unknowable
from groundbox.trace.proof.values.operators import arithmetic


def _power(base: Any, exponent: Any) -> Any:
    return arithmetic(ast.Pow, base, exponent)


def _mapping(*values: Any) -> dict[Any, Any]:
    """A Counter, defaultdict or OrderedDict, whose default does not matter here."""
    last = values[-1] if values else {}
    return dict(last) if isinstance(last, dict) else dict(Counter(last))


def _range(*bounds: int) -> range:
    return range(*bounds)


def _listed(kind: Callable[[Any], Any]) -> Callable[..., Any]:
    def make(*values: Any) -> Any:
        if values and isinstance(values[0], range) and len(values[0]) > MOST:
            raise Unknowable("too long")
        return kind(*values)

    return make


def _octets(kind: Callable[[Any], Any]) -> Callable[..., Any]:
    def make(*values: Any) -> Any:
        if values and not isinstance(values[0], bytes | bytearray | list):
            raise Unknowable("no bytes by themselves")
        return kind(*values)

    return make


BUILTINS: Final[dict[str, Callable[..., Any]]] = {
    "len": len, "abs": abs, "min": min, "max": max, "sum": sum, "round": round, "bool": bool, "int": int,
    "float": float, "str": str, "ord": ord, "chr": chr, "divmod": divmod, "any": any, "all": all, "repr": repr,
    "sorted": _listed(sorted), "range": _range, "list": _listed(list), "set": _listed(set), "tuple": _listed(tuple),
    "deque": _listed(deque), "frozenset": _listed(frozenset), "dict": _listed(dict), "Counter": _mapping,
    "bytes": _octets(bytes), "bytearray": _octets(bytearray),
    "defaultdict": _mapping,
    "OrderedDict": _mapping,
    "reversed": lambda items: list(reversed(items)), "enumerate": lambda *a: list(enumerate(*a)),
    "zip": lambda *a: list(zip(*a, strict=False)), "bin": bin, "hex": hex, "oct": oct, "pow": _power,
}  # fmt: skip
ORDERED: Final = frozenset({"list", "tuple", "enumerate", "zip", "str", "repr", "reversed", "deque", "Counter"})
"""Those whose result shows the order of what they are given."""
STEEP: Final = frozenset({"factorial", "comb", "perm"})
"""Functions of `math` whose results are far longer than what they are given."""
MATH: Final = STEEP | {
    "sqrt", "isqrt", "floor", "ceil", "trunc", "gcd", "lcm", "fabs", "log", "log2", "log10", "pow", "exp", "sin", "cos",
    "tan", "asin", "acos", "atan", "atan2", "radians", "degrees", "hypot", "copysign", "fmod", "isinf", "isnan",
    "isfinite",
}  # fmt: skip
CONSTANTS: Final = frozenset({"e", "inf", "nan", "pi", "tau"})
"""Those of `math`."""
PADDING: Final = frozenset({"center", "ljust", "rjust", "zfill"})
METHODS: Final[dict[type, frozenset[str]]] = {
    int: frozenset({"bit_length", "bit_count", "conjugate"}),
    float: frozenset({"is_integer", "as_integer_ratio", "hex", "conjugate"}),
    str: frozenset({
        "upper", "lower", "strip", "lstrip", "rstrip", "split", "startswith", "endswith", "isdigit",
        "isalpha", "isalnum", "isupper", "islower", "isspace", "count", "find", "index", "title",
        "capitalize", "swapcase", "join", "replace", "splitlines", "rfind", "isnumeric", "removeprefix",
        "removesuffix", "center", "ljust", "rjust", "zfill",
        "rindex", "rsplit", "partition", "rpartition", "istitle", "isdecimal", "isidentifier",
    }),
    list: frozenset({"count", "index", "copy"}),
    tuple: frozenset({"count", "index"}),
    dict: frozenset({"get", "keys", "values", "items", "copy"}),
    Counter: frozenset({"get", "keys", "values", "items"}),
    set: frozenset({"issubset", "issuperset", "union", "intersection", "difference", "isdisjoint", "copy"}),
}  # fmt: skip
