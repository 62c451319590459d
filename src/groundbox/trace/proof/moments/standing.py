"""Whether what a text writes stands for an expression of the program: the same code, or that with values put in."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from groundbox.trace.proof.moments.code import Code
from groundbox.trace.proof.records.ledger import Ledger
from groundbox.trace.proof.values.bounds import Unknowable
from groundbox.trace.proof.values.code import is_operation
from groundbox.trace.proof.values.likeness import said_value, same
from groundbox.trace.structure import Step


class Standing:
    """Compares expressions of a text with those of the program at a moment."""

    def __init__(self, ledger: Ledger, code: Code) -> None:
        self.ledger = ledger
        self.code = code

    def stands_for(self, said: ast.expr, source: ast.expr, t: int, frame: int, calls: Sequence[Any] = ()) -> bool:
        """Whether what a text writes has the value, and if it is worked out the shape, of a program's expression."""
        try:
            actual = self.ledger.value(source, t, frame, calls)
        except Unknowable:  # a literal may stand for what cannot be worked out
            if is_operation(source) or not said_value(said)[0]:
                return self.same_shape(said, source, t, frame, calls)
            return isinstance(_beginning(source), ast.JoinedStr | ast.Call)
        try:
            value = self.ledger.value(said, t, frame, calls)
        except Unknowable:
            return self.same_shape(said, source, t, frame, calls)
        if not same(value, actual) or (is_operation(said) and not is_operation(source)):
            return False
        if isinstance(said, ast.IfExp):
            return isinstance(source, ast.IfExp) and self._same_choice(said, source, t, frame, calls)
        return not is_operation(said) or self.same_shape(said, source, t, frame, calls)

    def same_shape(self, said: ast.expr, source: ast.expr, t: int, frame: int, calls: Sequence[Any]) -> bool:
        """Whether two operations agree operand by operand."""
        if isinstance(said, ast.BinOp) and isinstance(source, ast.BinOp) and type(said.op) is type(source.op):
            return self.stands_for(said.left, source.left, t, frame, calls) and self.stands_for(
                said.right, source.right, t, frame, calls
            )
        if self.code.dump(said) == self.code.dump(source):
            return True
        pairs = _of_methods(said, source)
        return bool(pairs) and all(self.stands_for(*pair, t, frame, calls) for pair in pairs)

    def _same_choice(self, said: ast.IfExp, source: ast.IfExp, t: int, frame: int, calls: Sequence[Any]) -> bool:
        """Whether `2 if False else 1` agrees with `2 if double else 1` part by part, also in what was not chosen."""
        pairs = ((said.test, source.test), (said.body, source.body), (said.orelse, source.orelse))
        return all(self.stands_for(*pair, t, frame, calls) for pair in pairs)

    def is_put_in(self, said: ast.expr, source: ast.expr, step: Step) -> bool:
        """Whether a text writes a call or an item of the program with values put in."""
        return self._is_call_of(said, source, step) or self._is_item_of(said, source, step)

    def _is_call_of(self, said: ast.expr, source: ast.expr, step: Step) -> bool:
        """Whether a text writes a call of the program, with values in place of its object and its arguments."""
        if not isinstance(said, ast.Call) or not isinstance(source, ast.Call):
            return False
        if len(said.args) != len(source.args) or not self._is_function_of(said.func, source.func, step):
            return False
        if [each.arg for each in said.keywords] != [each.arg for each in source.keywords]:
            return False
        ours, own = (
            [*said.args, *(each.value for each in said.keywords)],
            [*source.args, *(each.value for each in source.keywords)],
        )
        return all(self._is_written_for(*pair, step) for pair in zip(ours, own, strict=True))

    def _is_function_of(self, said: ast.expr, source: ast.expr, step: Step) -> bool:
        """Whether the same is called: `(9 ** 0.5).is_integer` for `(x ** 0.5).is_integer`."""
        if self.code.dump(said) == self.code.dump(source):
            return True
        if not isinstance(said, ast.Attribute) or not isinstance(source, ast.Attribute) or said.attr != source.attr:
            return False
        return self.stands_for(said.value, source.value, step.step, step.frame, step.calls)

    def _is_item_of(self, said: ast.expr, source: ast.expr, step: Step) -> bool:
        """Whether a text writes an item, with values in place of its indexes: `grid[0][2]` for `grid[row][column]`."""
        if not isinstance(said, ast.Subscript) or not isinstance(source, ast.Subscript):
            return False
        holder = self.code.dump(said.value) == self.code.dump(source.value) or self._is_item_of(
            said.value, source.value, step
        )
        bounds = [
            (each.lower, each.upper, each.step) if isinstance(each, ast.Slice) else (each,)
            for each in (said.slice, source.slice)
        ]
        return (
            holder
            and len(bounds[0]) == len(bounds[1])
            and all(
                one is other is None
                or (one is not None and other is not None and self._is_written_for(one, other, step))
                for one, other in zip(*bounds, strict=True)
            )
        )

    def _is_written_for(self, said: ast.expr, source: ast.expr, step: Step) -> bool:
        """Whether an argument is the program's own code, or its value."""
        if self.code.dump(said) == self.code.dump(source) or self._is_item_of(said, source, step):
            return True
        try:
            actual = self.ledger.value(source, step.step, step.frame, step.calls)
            known, value = said_value(said)
            return same(value if known else self.ledger.value(said, step.step, step.frame, step.calls), actual)
        except Unknowable:
            return False

    def is_another_call(self, said: ast.expr, source: ast.expr, step: Step) -> bool:
        """Whether a text writes a call of the program with a value that its argument does not have there."""
        if not isinstance(said, ast.Call) or not isinstance(source, ast.Call) or len(said.args) != len(source.args):
            return False
        if self.code.dump(said.func) != self.code.dump(source.func):
            return False
        for ours, own in zip(said.args, source.args, strict=True):
            known, value = said_value(ours)
            try:
                if known and not same(value, self.ledger.value(own, step.step, step.frame, step.calls)):
                    return True
            except Unknowable:
                continue
        return False

    def is_of_another(self, said: ast.expr, source: ast.expr, t: int, frame: int | None = None) -> bool:
        """Whether a text calls a method of the program's on what it writes out, and the program on something else."""
        if not isinstance(said, ast.Call) or not isinstance(source, ast.Call):
            return False
        one, other = said.func, source.func
        if not isinstance(one, ast.Attribute) or not isinstance(other, ast.Attribute) or one.attr != other.attr:
            return False
        if isinstance(one.value, ast.Name | ast.Attribute):
            return False  # `decimal.Decimal('1.5')`: an instance, as it shows itself
        try:
            return not same(self.ledger.value(one.value, t, frame), self.ledger.value(other.value, t, frame))
        except Unknowable:
            return False


def _of_methods(said: ast.expr, source: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """Objects and arguments, side by side, of two calls of a method of one name; empty if they are none."""
    if not isinstance(said, ast.Call) or not isinstance(source, ast.Call):
        return []
    one, other = said.func, source.func
    if not isinstance(one, ast.Attribute) or not isinstance(other, ast.Attribute) or one.attr != other.attr:
        return []
    if said.keywords or source.keywords or len(said.args) != len(source.args):
        return []
    return list(zip([one.value, *said.args], [other.value, *source.args], strict=True))


def _beginning(node: ast.expr) -> ast.expr:
    """What items and attributes are taken of: `f(x)` of `f(x)[1:].name`."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node
