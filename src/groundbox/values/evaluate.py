"""Evaluates expressions over known values: without side effects, within bounds, and never by running user code.

What it answers is what Python would answer. Whatever it is not certain of (a user's class, an order of a set, a size
over its bounds, an exception) it answers with `Unknown`.
"""

from __future__ import annotations

import ast
import operator
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from groundbox.values.pure import FUNCTIONS, METHODS, MOST_BITS, MOST_ITEMS, Lazy, in_order
from groundbox.values.unknown import Handle, Unknown

Lookup: TypeAlias = Callable[[str], Any]
"""A name's value. Raises KeyError for a name that is not bound, so that a builtin is meant, and Unknown for a value
that is not known."""
MOST_OPERATIONS: Final = 20_000
MOST_ROOM: Final = 1_000_000
"""Items and characters of all results together."""
_FAILURES: Final = (ArithmeticError, LookupError, TypeError, ValueError, AttributeError, RecursionError, MemoryError)


class Meter:
    """Counts the operations of many evaluations, for whoever bounds them together.

    Attributes:
        used: Operations of all evaluations that were given this meter, also of those that came to nothing.
    """

    def __init__(self) -> None:
        self.used = 0


def evaluate(expression: ast.expr, lookup: Lookup, meter: Meter | None = None) -> Any:
    """The value of an expression; the items of one that is an iterator as a list.

    Raises:
        Unknown: It cannot be known, or Python would raise.
    """
    evaluator = _Evaluator(lookup)
    try:
        value = evaluator.value(expression)
        return list(value) if isinstance(value, Lazy) else value
    except _FAILURES as error:
        raise Unknown(f"{type(error).__name__}: {error}"[:200]) from None
    finally:
        if meter is not None:
            meter.used += MOST_OPERATIONS - evaluator.operations_left


class Branching:
    """Expressions of which Python may leave a part out, for evaluators: they go on to what it would go on to."""

    def value(self, node: ast.expr) -> Any:
        """Return the value of any expression."""
        raise NotImplementedError

    def compared(self, op: ast.cmpop, left: Any, right: Any) -> Any:
        """Return what one comparison gives."""
        raise NotImplementedError

    def operand(self, node: ast.expr) -> Any:
        """Return one side of a comparison."""
        return self.value(node)

    def either(self, node: ast.BoolOp) -> Any:
        """Return the value of `and` or `or`."""
        value: Any = None
        for each in node.values:
            value = self.value(each)
            if bool(value) is isinstance(node.op, ast.Or):
                break
        return value

    def comparison(self, node: ast.Compare) -> Any:
        """Return the value of a chain of comparisons."""
        left, result = self.operand(node.left), True
        for op, each in zip(node.ops, node.comparators, strict=True):
            right = self.operand(each)
            result = self.compared(op, left, right)
            if not result:
                return result
            left = right
        return result

    def choice(self, node: ast.IfExp) -> Any:
        """Return the value of `… if … else …`."""
        return self.value(node.body if self.value(node.test) else node.orelse)


class _Evaluator(Branching):
    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._room = MOST_ROOM
        self.operations_left = MOST_OPERATIONS
        self._scopes: list[dict[str, Any]] = []

    def value(self, node: ast.expr) -> Any:
        self.operations_left -= 1
        if self.operations_left < 0:
            raise Unknown("it takes too many operations")
        handler = _EXPRESSIONS.get(type(node))
        if handler is None:
            raise Unknown(f"{type(node).__name__} is not evaluated")
        return handler(self, node)

    def _sized(self, value: Any) -> Any:
        """A result, if it and all results together are not too large."""
        if isinstance(value, int) and value.bit_length() > MOST_BITS:
            raise Unknown("its result is too large")
        if isinstance(value, (str, bytes, list, tuple, dict, set)):
            self._take(len(value), value)
        return value

    def _made(self, value: Any) -> Any:
        """A container that was made, if all results together are not too large with what is in it.

        What it shares counts each time, as in `[[0] * 1000] * 1000`: whoever shows or compares it goes through it so.
        """
        if not isinstance(value, _CONTAINERS):
            return self._sized(value)
        self._take(_size(value, self._room), value)
        return value

    def _take(self, size: int, value: Any) -> None:
        self._room -= size
        if len(value) > MOST_ITEMS or self._room < 0:
            raise Unknown("its result is too large")

    def _constant(self, node: ast.Constant) -> Any:
        if node.value is Ellipsis:
            raise Unknown("an ellipsis is not evaluated")
        return node.value

    def _name(self, node: ast.Name) -> Any:
        for scope in reversed(self._scopes):
            if node.id in scope:
                return scope[node.id]
        return self._lookup(node.id)

    def _unary(self, node: ast.UnaryOp) -> Any:
        value = self.value(node.operand)
        return _UNARY[type(node.op)](value)

    def _binary(self, node: ast.BinOp) -> Any:
        left, right = self.value(node.left), self.value(node.right)
        _bound(node.op, left, right)
        return self._made(BINARY[type(node.op)](left, right))

    def compared(self, op: ast.cmpop, left: Any, right: Any) -> Any:
        return _is(op, left, right) if isinstance(op, (ast.Is, ast.IsNot)) else COMPARE[type(op)](left, right)

    def _subscript(self, node: ast.Subscript) -> Any:
        owner = self.value(node.value)
        if isinstance(node.slice, ast.Slice):
            parts = (node.slice.lower, node.slice.upper, node.slice.step)
            index: Any = slice(*(None if part is None else self.value(part) for part in parts))
        else:
            index = self.value(node.slice)
        if isinstance(owner, type):
            raise Unknown("a type is not subscripted")
        return self._sized(owner[index])

    def _attribute(self, node: ast.Attribute) -> Any:
        owner = self.value(node.value)
        if isinstance(owner, Handle):
            return owner.attribute(node.attr)
        if isinstance(owner, complex) and node.attr in ("real", "imag"):
            return getattr(owner, node.attr)
        raise Unknown(f"attribute {node.attr} is not evaluated")

    def _call(self, node: ast.Call) -> Any:
        arguments = list(self._spread(node.args))
        if any(keyword.arg is None for keyword in node.keywords):
            raise Unknown("** is not evaluated")
        keywords = {str(keyword.arg): self.value(keyword.value) for keyword in node.keywords}
        if isinstance(node.func, ast.Name):
            function = FUNCTIONS.get(node.func.id)
            if function is None or self._is_bound(node.func.id):
                raise Unknown(f"{node.func.id} is not evaluated")
        elif isinstance(node.func, ast.Attribute):
            owner = self.value(node.func.value)
            function = METHODS.get((type(owner), node.func.attr))
            if function is None:
                raise Unknown(f"method {node.func.attr} is not evaluated")
            arguments.insert(0, owner)
        else:
            raise Unknown("only names and methods are called")
        return self._made(function(*arguments, **keywords))

    def _is_bound(self, name: str) -> bool:
        if any(name in scope for scope in self._scopes):
            return True
        try:
            self._lookup(name)
        except KeyError:
            return False
        return True

    def _spread(self, nodes: Iterable[ast.expr]) -> Iterator[Any]:
        for node in nodes:
            if isinstance(node, ast.Starred):
                yield from in_order(self.value(node.value))
            else:
                yield self.value(node)

    def _display(self, node: ast.List | ast.Tuple | ast.Set) -> Any:
        return self._made(_KINDS[type(node)](self._spread(node.elts)))

    def _dict(self, node: ast.Dict) -> Any:
        made: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                made.update(self.value(value))
            else:
                made[self.value(key)] = self.value(value)
        return self._made(made)

    def _joined(self, node: ast.JoinedStr) -> Any:
        return self._sized("".join(str(self.value(part)) for part in node.values))

    def _formatted(self, node: ast.FormattedValue) -> Any:
        value = self.value(node.value)
        FUNCTIONS["repr"](value)  # refuses what would be shown in another order or by another name than in the program
        spec = self.value(node.format_spec) if node.format_spec is not None else ""
        if sum(map(str.isdigit, spec)) > 3:
            raise Unknown("a wide format is not evaluated")
        shown = {-1: value, ord("s"): str(value), ord("r"): repr(value), ord("a"): ascii(value)}[node.conversion]
        return format(shown, spec)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Any:
        return self._made(_KINDS[type(node)](self._items(node.generators, lambda: self.value(node.elt))))

    def _dict_comprehension(self, node: ast.DictComp) -> Any:
        return self._made(dict(self._items(node.generators, lambda: (self.value(node.key), self.value(node.value)))))

    def _items(self, generators: list[ast.comprehension], make: Callable[[], Any]) -> Iterator[Any]:
        if not generators:
            yield make()
            return
        first, rest = generators[0], generators[1:]
        if first.is_async:
            raise Unknown("async is not evaluated")
        for item in in_order(self.value(first.iter)):
            scope: dict[str, Any] = {}
            _bind(first.target, item, scope)
            self._scopes.append(scope)
            try:
                if all(self.value(test) for test in first.ifs):
                    yield from self._items(rest, make)
            finally:
                self._scopes.pop()


_CONTAINERS: Final = (list, tuple, dict, set, frozenset, deque)


def _size(value: Any, most: int) -> int:
    """Items and characters of a container and of all that is in it; some number above `most` where it is more."""
    size, left = 0, [value]
    while left and size <= most:
        each = left.pop()
        size += len(each)
        parts = (*each, *each.values()) if isinstance(each, dict) else each
        size += sum(len(part) for part in parts if isinstance(part, (str, bytes)))
        left += [part for part in parts if isinstance(part, _CONTAINERS)]
    return size


def _bind(target: ast.expr, value: Any, scope: dict[str, Any]) -> None:
    if isinstance(target, ast.Name):
        scope[target.id] = value
    elif isinstance(target, (ast.Tuple, ast.List)):
        values = in_order(value)
        if len(values) != len(target.elts):
            raise Unknown("unpacking does not fit")
        for part, each in zip(target.elts, values, strict=True):
            _bind(part, each, scope)
    else:
        raise Unknown("this target is not evaluated")


def _is(op: ast.cmpop, left: Any, right: Any) -> bool:
    if isinstance(left, Handle) and isinstance(right, Handle):
        same = left.label == right.label
    elif left is None or right is None or isinstance(left, bool) or isinstance(right, bool):
        same = left is right
    else:
        raise Unknown("identity is not known")
    return same is isinstance(op, ast.Is)


def _bound(op: ast.operator, left: Any, right: Any) -> None:
    """Refuse operations whose result would be too large."""
    if isinstance(op, ast.Pow) and isinstance(left, int) and isinstance(right, int):
        large = right > 0 and left.bit_length() * right > MOST_BITS
    elif isinstance(op, ast.LShift):
        large = not isinstance(right, int) or right > MOST_BITS
    elif isinstance(op, ast.Mult):
        sizes = [len(side) if hasattr(side, "__len__") else side for side in (left, right)]
        both = hasattr(left, "__len__") or hasattr(right, "__len__")
        large = both and all(isinstance(s, int) for s in sizes) and sizes[0] * sizes[1] > MOST_ITEMS
    elif isinstance(op, ast.Mod) and isinstance(left, (str, bytes)):
        large = sum(map(str.isdigit, str(left))) > 3 or "*" in str(left)
        for part in right if isinstance(right, tuple) else (right,):
            FUNCTIONS["repr"](part)  # as for f-strings
    else:
        large = False
    if large:
        raise Unknown("its result is too large")


_UNARY: Final[Mapping[type[ast.unaryop], Callable[[Any], Any]]] = {
    ast.Not: operator.not_,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}
BINARY: Final[Mapping[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.BitAnd: operator.and_,
}
COMPARE: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda left, right: left in right,
    ast.NotIn: lambda left, right: left not in right,
}
_KINDS: Final[Mapping[type[ast.expr], Callable[[Iterable[Any]], Any]]] = {
    ast.List: list,
    ast.Tuple: tuple,
    ast.Set: set,
    ast.ListComp: list,
    ast.SetComp: set,
    ast.GeneratorExp: Lazy,
}
_EXPRESSIONS: Final[Mapping[type[ast.expr], Callable[[_Evaluator, Any], Any]]] = {
    ast.Constant: _Evaluator._constant,
    ast.Name: _Evaluator._name,
    ast.UnaryOp: _Evaluator._unary,
    ast.BinOp: _Evaluator._binary,
    ast.BoolOp: _Evaluator.either,
    ast.Compare: _Evaluator.comparison,
    ast.IfExp: _Evaluator.choice,
    ast.Subscript: _Evaluator._subscript,
    ast.Attribute: _Evaluator._attribute,
    ast.Call: _Evaluator._call,
    **dict.fromkeys((ast.List, ast.Tuple, ast.Set), _Evaluator._display),
    ast.Dict: _Evaluator._dict,
    ast.JoinedStr: _Evaluator._joined,
    ast.FormattedValue: _Evaluator._formatted,
    **dict.fromkeys((ast.ListComp, ast.SetComp, ast.GeneratorExp), _Evaluator._comprehension),
    ast.DictComp: _Evaluator._dict_comprehension,
}
