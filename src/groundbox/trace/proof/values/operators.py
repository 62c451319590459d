"""The operators of Python on recorded values: arithmetic, comparison, truth.

Which operands a text or the program gives them is the matter of `evaluation`.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from typing import Any, Final

from groundbox.trace.proof.values.bounds import MOST, Unknowable, amount, size, small
from groundbox.trace.proof.values.things import Array, Part, Thing


def arithmetic(kind: type[ast.operator], left: Any, right: Any) -> Any:
    """The result of a binary operator, within bounds."""
    if isinstance(left, Part | Thing | Array) or isinstance(right, Part | Thing | Array):
        raise Unknowable("not wholly shown")
    if (
        kind is ast.Pow
        and isinstance(left, int)
        and isinstance(right, int)
        and (not small(left, 10**6) or not small(right, 400))
    ):
        raise Unknowable("too large a power")
    if kind is ast.LShift and not small(right, 4000):
        raise Unknowable("too large a shift")
    if kind in (ast.Mult, ast.Add) and size(left) * max(1, amount(right)) + size(right) * max(1, amount(left)) > MOST:
        raise Unknowable("too long")
    if kind is ast.Mod and isinstance(left, str | bytes):
        return _formatted(left, right)
    return _BINARY[kind](left, right)


def _formatted(text: str | bytes, values: Any) -> str:
    """`'%s has %d' % (name, n)`, of numbers and strings."""
    parts = values if type(values) is tuple else (values,)
    plain = isinstance(text, str) and not re.search(r"\d{4}|\*", text) and size(text) <= MOST
    if not plain or not all(_is_short(part) for part in parts):
        raise Unknowable("formatting")
    return str(text % values)


def _is_short(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= MOST
    return value is None or (isinstance(value, int | float) and (small(value, 10**300) or value != value))


def truth(value: Any) -> bool:
    """Whether a value counts as true.

    Raises:
        Unknowable: It is an instance, whose class may say.
    """
    if isinstance(value, Part):
        return value.length > 0
    if isinstance(value, Array):
        raise Unknowable("the truth of an array")
    if isinstance(value, Thing) and value.kind not in ("class", "function", "builtin", "method", "module"):
        raise Unknowable("the truth of an instance")
    return bool(value)


def compare(kind: type[ast.cmpop], left: Any, right: Any) -> bool:
    """The result of one comparison."""
    if kind in (ast.Is, ast.IsNot):
        return _identical(left, right) == (kind is ast.Is)
    if isinstance(left, Part | Array) or isinstance(right, Part | Array):
        raise Unknowable("not wholly shown")
    if (
        isinstance(left, Thing)
        and isinstance(right, Thing)
        and kind in (ast.Eq, ast.NotEq)
        and left.label
        and right.label
    ):
        raise Unknowable("the equality of instances")
    return bool(_COMPARE[kind](left, right))


def _identical(left: Any, right: Any) -> bool:
    for value in (left, right):
        if value is None or isinstance(value, bool):
            return left is right
    if isinstance(left, Thing) and isinstance(right, Thing) and left.label and right.label:
        return left.label == right.label
    raise Unknowable("identity")


_BINARY: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_, ast.BitXor: operator.xor, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
}  # fmt: skip
UNARY: Final[dict[type[ast.unaryop], Callable[[Any], Any]]] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert,
}  # fmt: skip
_COMPARE: Final[dict[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.In: lambda item, owner: item in owner, ast.NotIn: lambda item, owner: item not in owner,
}  # fmt: skip
