"""Expressions of one frame at one moment: their values, and the objects that they lead to.

`groundbox.values.evaluate` does the work. Added to it are what calls of user code returned, which the trace has,
and the functions of `math`.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Collection
from typing import Any, Final, TypeAlias

from groundbox.trace.record.schema import V
from groundbox.trace.record.syntax import copied, walked
from groundbox.trace.record.value import ref_of
from groundbox.trace.run.python_values import handled_value, recorded
from groundbox.trace.run.state import State, key_text
from groundbox.trace.run.structure import Activation
from groundbox.values.evaluate import evaluate
from groundbox.values.unknown import Handle, Unknown

Position: TypeAlias = tuple[int, int, int | None, int | None]
Results: TypeAlias = dict[Position, Activation]
"""Calls of user code that returned, by where they stand in the source."""

_MATH: Final = frozenset(
    (
        *("ceil", "comb", "cos", "degrees", "exp", "fabs", "factorial", "floor", "gcd", "hypot", "isclose", "isinf"),
        *("isnan", "isqrt", "lcm", "log", "log10", "log2", "perm", "pow", "prod", "radians", "sin", "sqrt", "tan"),
        "trunc",
    )
)
_CONSTANTS: Final = frozenset(("e", "inf", "nan", "pi", "tau"))
_MOST: Final = 2_000
"""Of an argument of a `math` function: the largest integers that are not costly to work with."""


class Evaluation:
    """Works out expressions as a frame saw them at the moment at which it is made; the state may move on."""

    def __init__(
        self,
        state: State,
        frame: int,
        *,
        results: Results | None = None,
        assigned: Collection[str] = (),
        own_truth: bool = False,
    ) -> None:
        """See the whole.

        Args:
            results: Calls of user code on this line.
            assigned: Names that the program assigns anywhere.
            own_truth: Whether a class of the program says itself whether its instances are true.
        """
        self._state = state
        self._frame = frame
        self._results = results or {}
        self._lookup = recorded(state, frame, assigned)
        self._own_truth = own_truth
        self._extra: dict[str, Any] = {}

    def value(self, node: ast.expr) -> Any:
        """The value, as a Python value.

        Raises:
            Unknown: It cannot be known without running the program, or is not of builtin types.
        """
        found = evaluate(self._prepared(node), self._name)
        if isinstance(found, Handle):
            raise Unknown("it is no plain value")
        return found

    def value_with(self, node: ast.expr, name: str, value: Any) -> Any:
        """The value of an expression in which a name of its own has a value.

        Raises:
            Unknown: See `value`.
        """
        self._extra[name] = value
        try:
            return self.value(node)
        finally:
            del self._extra[name]

    def truth(self, node: ast.expr) -> bool:
        """Return whether an expression is true.

        Raises:
            Unknown: That cannot be known.
        """
        found = evaluate(self._prepared(node), self._name)
        if not isinstance(found, Handle):
            return bool(found)
        held = None if found.label is None else self._state.heap.get(found.label)
        # An instance is true unless its class has `__bool__` or `__len__`.
        if held is not None and held.type == "object" and not self._own_truth:
            return True
        return bool(found)

    def reference(self, node: ast.expr) -> V:
        """Return what a name, attribute, item or call led to, as the trace writes it: objects keep their labels.

        Raises:
            Unknown: It is another kind of expression, or leads through something that the trace does not show.
        """
        match node:
            case ast.Name(id=name):
                try:
                    return self._state.lookup(self._frame, name)
                except KeyError:
                    raise Unknown(f"{name} has no recorded value") from None
            case ast.Attribute(value=owner, attr=attr):
                held = self._object(owner)
                if held.type == "object" and attr in held.attrs:
                    return held.attrs[attr]
            case ast.Subscript(value=owner, slice=index) if not isinstance(index, ast.Slice):
                return self._item(owner, self.value(index))
            case ast.Call() if position(node) in self._results:
                return self._results[position(node)].value
        raise Unknown("it has no one value that is recorded")

    def is_in_an_array(self, node: ast.expr) -> bool:
        """Return whether an expression leads to an array, or to an item of one."""
        try:
            return bool(self._object(node).type == "array")
        except Unknown:
            # An item of an array is itself no object that the trace has.
            return isinstance(node, ast.Subscript) and self.is_in_an_array(node.value)

    def _object(self, node: ast.expr) -> Any:
        label = ref_of(self.reference(node))
        if label is None:
            raise Unknown("it is no object")
        return self._state.heap[label]

    def _item(self, owner: ast.expr, index: Any) -> V:
        held = self._object(owner)
        # A class of the program may have a `__getitem__`.
        if held.class_ is not None and held.attrs:
            raise Unknown("a class of the program may look items up in its own way")
        if held.type in ("list", "deque") and held.items is not None and type(index) is int:
            at = index if index >= 0 else index + len(held.items)
            found = held.items.get(at) if at >= 0 else None
            if found is not None:
                return found[0]
        # Keys that are their own JSON: 1.0 and 1 are one key, and two texts.
        if held.pairs is not None and (index is None or isinstance(index, str | int)):
            pair = held.pairs.get(key_text(index))
            if pair is not None:
                return pair[1]
        raise Unknown("the item is not shown")

    def _name(self, name: str) -> Any:
        return self._extra[name] if name in self._extra else self._lookup(name)

    def _prepared(self, node: ast.expr) -> ast.expr:
        """The expression with names for what the trace or `math` tells; such names are no Python names."""
        if not any(isinstance(part, ast.Call | ast.Attribute) for part in walked(node)):
            return node
        made: ast.expr = _Told(self).visit(copied(node))
        return made

    def called(self, node: ast.Call) -> Activation | None:
        """The call of user code that a call is, if the trace has what it returned."""
        return self._results.get(position(node))

    def told_call(self, node: ast.Call) -> str | None:
        """A name for what a call returned, if that is known; for `_Told`."""
        called = self.called(node)
        if called is not None:
            return self._keep(handled_value(self._state, called.value))
        if isinstance(node.func, ast.Attribute) and node.func.attr in _MATH and self._is_math(node.func.value):
            arguments = [evaluate(argument, self._name) for argument in node.args]
            if node.keywords or not all(_is_small(argument) for argument in arguments):
                return None
            try:
                return self._keep(getattr(math, node.func.attr)(*arguments))
            except (ArithmeticError, TypeError, ValueError):
                return None
        return None

    def told_attribute(self, node: ast.Attribute) -> str | None:
        """A name for a constant of `math`; for `_Told`."""
        if node.attr in _CONSTANTS and self._is_math(node.value):
            return self._keep(getattr(math, node.attr))
        return None

    def _keep(self, value: Any) -> str:
        # No name of a program: the evaluator asks for it, and the parser would not take it.
        name = f"·{len(self._extra)}"
        self._extra[name] = value
        return name

    def _is_math(self, node: ast.expr) -> bool:
        if not isinstance(node, ast.Name):
            return False
        try:
            found = self._state.lookup(self._frame, node.id)
        except (KeyError, Unknown):
            return False
        return isinstance(found, dict) and found.get("module") == "math"


class _Told(ast.NodeTransformer):
    def __init__(self, evaluation: Evaluation) -> None:
        self._evaluation = evaluation

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        return _named(self._evaluation.told_call(node), node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        return _named(self._evaluation.told_attribute(node), node)


def _named(name: str | None, node: ast.expr) -> ast.expr:
    return node if name is None else ast.copy_location(ast.Name(id=name, ctx=ast.Load()), node)


def _is_small(value: Any) -> bool:
    if isinstance(value, int):
        return abs(value) <= _MOST
    return isinstance(value, float)


def position(node: ast.expr) -> Position:
    """Return where an expression stands, which its copies share."""
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset
