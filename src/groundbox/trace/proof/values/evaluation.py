"""Expressions worked out on recorded values: operators, comparisons, displays, items, attributes, a few functions.

Nothing of the program is run. Whatever cannot be worked out cheaply and with certainty is `Unknowable`.
"""

from __future__ import annotations

import ast
import math
import re
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from groundbox.trace.proof.values.bounds import MOST, Unknowable, size, small
from groundbox.trace.proof.values.comprehensions import scopes
from groundbox.trace.proof.values.functions import BUILTINS, CONSTANTS, MATH, METHODS, ORDERED, PADDING, STEEP
from groundbox.trace.proof.values.keys import item_at
from groundbox.trace.proof.values.operators import UNARY, arithmetic, compare, truth
from groundbox.trace.proof.values.things import Array, Gap, Named, OwnDict, OwnList, OwnSet, Part, Thing, Written

_DEEPEST: Final = 40
Lookup = Callable[[str], Any]
"""Gives the value of a name, or raises Unknowable."""


def evaluate(node: ast.expr, lookup: Lookup, depth: int = 0) -> Any:
    """The value of an expression.

    Raises:
        Unknowable: It has none, or it cannot be known.
    """
    if depth > _DEEPEST:
        raise Unknowable("too deep")
    if type(node) is ast.Constant:
        return Gap(None) if node.value is ... else node.value
    work = _NODES.get(type(node))
    if work is None:
        raise Unknowable(f"{type(node).__name__} is not worked out")
    try:
        return work(node, lookup, depth + 1)
    except (ArithmeticError, TypeError, ValueError, LookupError, AttributeError, RecursionError, MemoryError) as error:
        raise Unknowable(f"{type(error).__name__}: {error}"[:200]) from None


def no_names(name: str) -> Any:
    """A lookup that knows no names: for literals and plain arithmetic."""
    if name in ("inf", "nan"):
        return float(name)
    raise Unknowable(f"{name} is a name")


def literal(node: ast.expr) -> tuple[bool, Any]:
    """Whether an expression is a value by itself, and which."""
    try:
        return True, evaluate(node, no_names)
    except Unknowable:
        return False, None


def no_functions(name: str) -> Any:
    """A lookup that knows no names, and takes every call for an instance that is written out: `point(x=1)`."""
    return no_names(name)


def written(node: ast.expr) -> tuple[bool, Any]:
    """Whether an expression is a value that may name a class in lower case, and which."""
    try:
        return True, evaluate(node, no_functions)
    except Unknowable:
        return False, None


def _name(node: Any, lookup: Lookup, depth: int) -> Any:
    return lookup(node.id)


def _items(nodes: Sequence[ast.expr], lookup: Lookup, depth: int) -> list[Any]:
    values: list[Any] = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            spread = evaluate(node.value, lookup, depth)
            if not isinstance(spread, list | tuple | str | range) or len(spread) > MOST:
                raise Unknowable("no sequence")
            values.extend(spread)
        else:
            values.append(evaluate(node, lookup, depth))
    return values


def _dict(node: Any, lookup: Lookup, depth: int) -> Any:
    if None in node.keys:
        raise Unknowable("** in a dict")
    return dict(zip(_items(node.keys, lookup, depth), _items(node.values, lookup, depth), strict=True))


def _binary(node: Any, lookup: Lookup, depth: int) -> Any:
    left, right = evaluate(node.left, lookup, depth), evaluate(node.right, lookup, depth)
    return arithmetic(type(node.op), left, right)


def _unary(node: Any, lookup: Lookup, depth: int) -> Any:
    value = evaluate(node.operand, lookup, depth)
    if isinstance(node.op, ast.Not):
        return not truth(value)
    if isinstance(value, bool | int | float | complex | Counter):
        return UNARY[type(node.op)](value)
    raise Unknowable("no number")


def _compare(node: Any, lookup: Lookup, depth: int) -> Any:
    left = evaluate(node.left, lookup, depth)
    for op, comparator in zip(node.ops, node.comparators, strict=True):
        right = evaluate(comparator, lookup, depth)
        if not compare(type(op), left, right):
            return False
        left = right
    return True


def _bool(node: Any, lookup: Lookup, depth: int) -> Any:
    value: Any = None
    for part in node.values:
        value = evaluate(part, lookup, depth)
        if truth(value) == isinstance(node.op, ast.Or):
            return value
    return value


def _choice(node: Any, lookup: Lookup, depth: int) -> Any:
    return evaluate(node.body if truth(evaluate(node.test, lookup, depth)) else node.orelse, lookup, depth)


def _subscript(node: Any, lookup: Lookup, depth: int) -> Any:
    owner = evaluate(node.value, lookup, depth)
    if isinstance(node.slice, ast.Slice):
        bounds = [
            None if b is None else evaluate(b, lookup, depth)
            for b in (node.slice.lower, node.slice.upper, node.slice.step)
        ]
        if not isinstance(owner, str | list | tuple | bytes | bytearray | range):
            raise Unknowable("no sequence")
        return owner[slice(*bounds)]
    if isinstance(owner, dict) and isinstance(node.slice, ast.Attribute) and (found := _shown_key(node.slice, owner)):
        return found[0]
    if isinstance(owner, dict) and isinstance(node.slice, ast.Call) and (found := _named_key(node.slice, owner)):
        return _whole(found[0], lookup)
    index = evaluate(node.slice, lookup, depth)
    if isinstance(owner, Part):
        return _whole(_item_of_part(owner, index), lookup)
    if isinstance(owner, Array):
        return _item_of_array(owner, index)
    if isinstance(owner, dict):
        return _whole(item_at(owner, index), lookup)
    if not isinstance(owner, str | list | tuple | deque | bytes | bytearray | range):
        raise Unknowable("no container")
    return _whole(owner[index], lookup)


def _named_key(node: ast.Call, owner: dict[Any, Any]) -> tuple[Any] | None:
    """The value at a named tuple that is written out: `distances[Position(6, 6)]`."""
    known, key = literal(node)
    if not known or not isinstance(key, Written):
        return None
    for other, value in owner.items():
        if isinstance(other, Named) and other.name.endswith(key.name) and tuple(other) == key.args:
            return (value,)
    return None


def _shown_key(node: ast.Attribute, owner: dict[Any, Any]) -> tuple[Any] | None:
    """The value at a member of an enumeration: `count[Color.RED]`."""
    text = ast.unparse(node)
    found = [
        value for key, value in owner.items() if isinstance(key, Thing) and key.kind == "repr" and key.name == text
    ]
    return (found[0],) if len(found) == 1 else None


def _item_of_array(owner: Array, index: Any) -> Any:
    rows = owner.nested()
    if not isinstance(rows, list) or type(index) is not int:
        raise Unknowable("this item is not shown")
    return Array(_flat(rows[index]), owner.shape[1:]) if len(owner.shape) > 1 else rows[index]


def _flat(rows: list[Any]) -> list[Any]:
    return [item for row in rows for item in (_flat(row) if isinstance(row, list) else [row])]


def _item_of_part(owner: Part, index: Any) -> Any:
    if owner.type == "dict":
        for key, value in owner.head:
            if key == index:
                return value
        raise Unknowable("this item is not shown")
    if isinstance(index, int) and index < 0:
        index += owner.length
    if not isinstance(index, int):
        raise Unknowable("no index")
    found = owner.item(index)
    if found is None:
        raise Unknowable("this item is not shown")
    return found[0]


def _whole(value: Any, lookup: Lookup) -> Any:
    """An instance as it is by itself: inside of what holds it, a part that leads back is cut off."""
    return (
        lookup.object(value.label) if isinstance(value, Thing) and value.label and hasattr(lookup, "object") else value
    )


def _attribute(node: Any, lookup: Lookup, depth: int) -> Any:
    if node.attr in CONSTANTS and _is_math(node.value, lookup):
        return getattr(math, node.attr)
    owner = evaluate(node.value, lookup, depth)
    if isinstance(owner, Thing | OwnDict | OwnList | OwnSet | Part) and node.attr in owner.attrs:
        return _whole(owner.attrs[node.attr], lookup)
    raise Unknowable(f"no attribute {node.attr}")


def _call(node: Any, lookup: Lookup, depth: int) -> Any:
    name = getattr(node.func, "id", "")
    if name == "deque" and [word.arg for word in node.keywords] == ["maxlen"] and len(node.args) < 2:
        return _bounded(node, lookup, depth)
    if node.keywords or any(isinstance(each, ast.Constant) and _is_gap(each.value) for each in node.args):
        return _instance(node, name or getattr(node.func, "attr", ""), lookup, depth)
    function = BUILTINS.get(name)
    if function is None and not node.args and name and (_is_of_a_class(name) or lookup is no_functions):
        return Thing("object", name)
    if function is None and (name or isinstance(node.func, ast.Attribute)) and hasattr(lookup, "call"):
        try:
            arguments = _items(node.args, lookup, depth)
            return lookup.call(name or node.func.attr, arguments, *_receiver(node.func, lookup, depth), node=node)
        except Unknowable:
            if name:
                raise
    last = name or getattr(node.func, "attr", "")
    if lookup is no_functions and last == "compile" and ast.unparse(node.func) == "re.compile":
        return Written(last, (), ast.unparse(node))
    if function is None and lookup is no_functions and name:
        return Written(name, tuple(_items(node.args, lookup, depth)), ast.unparse(node))
    if function is None and lookup is no_names:
        if name == "array" and len(node.args) == 1:
            return Array(evaluate(node.args[0], lookup, depth))
        if _is_of_a_class(last) or ast.unparse(node.func).startswith(_SHOWN_WITH_MODULE):
            return Written(last, tuple(_items(node.args, lookup, depth)), ast.unparse(node))
    if isinstance(node.func, ast.Attribute):
        return _of_math(node, lookup, depth) if _is_math(node.func.value, lookup) else _method(node, lookup, depth)
    if function is None:
        raise Unknowable("a call")
    arguments = _items(node.args, lookup, depth)
    if any(isinstance(argument, Part | Thing | Array) or size(argument) > MOST for argument in arguments):
        if len(arguments) == 1 and isinstance(arguments[0], Part | Array) and node.func.id == "len":
            return len(arguments[0]) if isinstance(arguments[0], Array) else arguments[0].length
        raise Unknowable("not wholly shown")
    if name in ORDERED and any(isinstance(argument, set | frozenset) for argument in arguments):
        raise Unknowable("the order of a set")
    return function(*arguments)


def _bounded(node: ast.Call, lookup: Lookup, depth: int) -> deque[Any]:
    """`deque([1, 2], maxlen=3)`."""
    most = evaluate(node.keywords[0].value, lookup, depth)
    items = evaluate(node.args[0], lookup, depth) if node.args else []
    if not isinstance(items, list | tuple | str | deque) or not (most is None or type(most) is int):
        raise Unknowable("no sequence")
    if any(_is_gap(item) for item in items):
        raise Unknowable("not wholly shown")
    return deque(items, most)


def _receiver(function: ast.expr, lookup: Lookup, depth: int) -> Sequence[Any]:
    """The object whose method is called, or nothing where that cannot be known.

    What another call gave is not looked for: each call of a chain would work out the ones before it once more.
    """
    if not isinstance(function, ast.Attribute) or any(isinstance(part, ast.Call) for part in ast.walk(function.value)):
        return ()
    try:
        return (evaluate(function.value, lookup, depth),)
    except Unknowable:
        return ()


def _instance(node: Any, name: str, lookup: Lookup, depth: int) -> Any:
    """`Account(owner='Ada')` as a text writes an instance."""
    arguments: list[ast.expr] = node.args
    if lookup is no_names and ast.unparse(node.func).startswith(_SHOWN_WITH_MODULE):
        return Written(name, (), ast.unparse(node))
    given = [each for each in arguments if not (isinstance(each, ast.Constant) and _is_gap(each.value))]
    if given and (_is_of_a_class(name) or lookup is no_functions):
        attrs = {str(word.arg): evaluate(word.value, lookup, depth) for word in node.keywords}
        return Written(name, tuple(_items(node.args, lookup, depth)), name, attrs)
    is_method = isinstance(node.func, ast.Attribute) and not _is_of_a_class(name) and lookup is not no_functions
    if given or not name or name in BUILTINS or is_method:
        raise Unknowable("keywords")
    return Thing("object", name, {word.arg: evaluate(word.value, lookup, depth) for word in node.keywords})


def _is_of_a_class(name: str) -> bool:
    """Whether a name is written as names of classes are."""
    return name.lstrip("_")[:1].isupper()


def _is_gap(value: object) -> bool:
    return isinstance(value, Gap)


def _method(node: Any, lookup: Lookup, depth: int) -> Any:
    owner = evaluate(node.func.value, lookup, depth)
    if node.func.attr not in METHODS.get(type(owner), ()):
        raise Unknowable(f"a call of {node.func.attr}")
    arguments = _items(node.args, lookup, depth)
    if any(isinstance(argument, set | frozenset | Part | Thing) for argument in arguments) and node.func.attr == "join":
        raise Unknowable("the order of a set")
    if node.func.attr in PADDING and not small(arguments[0], MOST):
        raise Unknowable("too long")
    result = getattr(owner, node.func.attr)(*arguments)
    return list(result) if node.func.attr in ("keys", "values", "items") else result


def _is_math(node: ast.expr, lookup: Lookup) -> bool:
    """Whether a name is the module; to plain arithmetic it is, since nothing else is called so."""
    if not isinstance(node, ast.Name) or node.id != "math":
        return False
    if lookup is no_names:
        return True
    value = lookup(node.id)
    return isinstance(value, Thing) and (value.kind, value.name) == ("module", "math")


def _of_math(node: Any, lookup: Lookup, depth: int) -> Any:
    if node.func.attr not in MATH:
        raise Unknowable(f"a call of math.{node.func.attr}")
    arguments = _items(node.args, lookup, depth)
    if not all(small(argument, 500 if node.func.attr in STEEP else 10**300) for argument in arguments):
        raise Unknowable("too large a number")
    return getattr(math, node.func.attr)(*arguments)


def _formatted(node: Any, lookup: Lookup, depth: int) -> str:
    """An f-string of numbers and strings."""
    texts = []
    for part in node.values:
        if isinstance(part, ast.Constant):
            texts.append(str(part.value))
            continue
        value = evaluate(part.value, lookup, depth)
        spec = _formatted(part.format_spec, lookup, depth) if part.format_spec is not None else ""
        if not isinstance(value, str | int | float | None) or re.search(r"\d{4}", spec) or not _is_short(value):
            raise Unknowable("formatting")
        texts.append(format(_CONVERSIONS.get(part.conversion, _as_it_is)(value), spec))
    return "".join(texts)


def _as_it_is(value: Any) -> Any:
    return value


_CONVERSIONS: Final[dict[int, Callable[[Any], Any]]] = {ord("r"): repr, ord("s"): str, ord("a"): ascii}


def _is_short(value: Any) -> bool:
    return size(value) <= MOST if isinstance(value, str) else not isinstance(value, int) or small(value, 10**300)


def _comprehension(node: Any, lookup: Lookup, depth: int) -> Any:
    """A generator gives a list: it is only worked out where a builtin takes all of it."""

    def work(part: ast.expr, names: Any) -> Any:
        return evaluate(part, names, depth)

    kind = set if isinstance(node, ast.SetComp) else list
    values = []
    for scope in scopes(node.generators, lookup, work, ordered=kind is list):
        values.append(evaluate(node.elt, scope, depth))
        if len(values) > MOST:
            raise Unknowable("too long")
    return kind(values)


_NODES: Final[dict[type[ast.AST], Callable[[Any, Lookup, int], Any]]] = {
    ast.Name: _name,
    ast.List: lambda node, lookup, depth: _items(node.elts, lookup, depth),
    ast.Tuple: lambda node, lookup, depth: tuple(_items(node.elts, lookup, depth)),
    ast.Set: lambda node, lookup, depth: set(_items(node.elts, lookup, depth)),
    ast.Dict: _dict,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.Compare: _compare,
    ast.BoolOp: _bool,
    ast.IfExp: _choice,
    ast.Subscript: _subscript,
    ast.Attribute: _attribute,
    ast.Call: _call,
    ast.JoinedStr: _formatted,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
}
_SHOWN_WITH_MODULE: Final = ("datetime.", "np.")
"""How values of standard types begin that show themselves with their module."""
