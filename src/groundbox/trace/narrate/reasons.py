"""Reasons for the values of a step: for each of its targets, its condition, and what it returns."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from groundbox.trace.narrate.explanation import Explanation, Reason, Worded
from groundbox.trace.record.syntax import walked
from groundbox.trace.run.structure import Step
from groundbox.values.parsing import expression_of

Code = Callable[[ast.AST], str | None]
_LONG = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)
_PLAIN = (ast.Constant, ast.List, ast.Dict, ast.Tuple, ast.Set)


@dataclass(frozen=True, kw_only=True)
class ValueReason:
    """Origin of a value: how it came about.

    Attributes:
        node: The expression.
        code: The same in backticks, where it should be shown.
        workings: The same with values for names, where that leads to `result`.
        result: The value as text, as far as it could be worked out.
        by: Of an augmented `+` or `-` of numbers: what was added or subtracted.
        sign: `+` or `-` for these.
        alias: Code of the name, attribute or item that the value was taken from, when that is all that happened.
        call: The call of user code that returned it, with its arguments' values, in backticks.
        called: The record of that call.
    """

    node: ast.expr | None = None
    code: str | None = None
    workings: str | None = None
    result: str | None = None
    by: str | None = None
    sign: str = ""
    alias: str | None = None
    call: str | None = None
    called: int | None = None

    @property
    def chain(self) -> str | None:
        """Return what stands before the last `=`: code, workings, or both."""
        return " = ".join(part for part in (self.code, self.workings) if part) or None


class Reasons(NamedTuple):
    """Reasons that a step gave.

    Attributes:
        reason: Why its condition was true or false.
        returned: How the value that it returns came about.
        items: What its comprehension did with the items.
    """

    reason: Reason | None = None
    returned: ValueReason | None = None
    items: Sequence[Worded] = ()


def workings_of(
    step: Step, explanation: Explanation, code: Code, *, first: bool, crowded: bool = False
) -> tuple[dict[str, ValueReason], Reasons]:
    """Work out a step's expressions at the moment of `explanation`.

    Args:
        code: Gives an expression's own text in backticks, or None.
        first: Whether the line is told for the first time, so that its code is shown, too.
        crowded: Whether other statements stand on the line, which may have changed what this one made.
    """
    show = code if first else (lambda node: None)
    statement = step.statement
    whys: dict[str, ValueReason] = {}
    if step.part == "statement" and crowded:
        # `x = [1]; x.append(2)`: the value that is told has more than its expression gives.
        return whys, Reasons()
    if step.part == "test" and step.test is not None and step.condition is not None:
        return whys, Reasons(reason=explanation.reason(step.test, step.condition))
    if isinstance(statement, ast.Assert) and step.condition is not None:
        return whys, Reasons(reason=explanation.reason(statement.test, step.condition))
    if isinstance(statement, ast.Return) and statement.value is not None:
        items = explanation.items(statement.value) if first else ()
        return whys, Reasons(returned=_why(statement.value, explanation, show), items=items)
    if isinstance(statement, ast.AugAssign):
        whys[_target(statement.target, explanation)] = _augmented(statement, explanation, show)
    elif step.part == "statement":
        pairs = list(_pairs(statement))
        for target, value in pairs:
            why = _why(value, explanation, show)
            if why.alias is not None and _reads(value, [target]):
                why = dataclasses.replace(why, alias=None)  # `x.next` is another one once it is `x`
            if len(pairs) > 1 and _reads(value, [other for other, _ in pairs]):
                # All at once: its code would be read with the new value of another target.
                why = dataclasses.replace(why, code=None, alias=None)
            if any(_is_inside(other, target) for other, _ in pairs):
                why = ValueReason()  # the value that is told has been changed since: `x, x.next = Node(1), Node(2)`
            whys[_target(target, explanation)] = why
        if first and isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            return whys, Reasons(items=explanation.items(statement.value))
    return whys, Reasons()


def _is_inside(target: ast.expr, owner: ast.expr) -> bool:
    """Return whether a target is an attribute or item of another one."""
    while isinstance(target, ast.Attribute | ast.Subscript):
        target = target.value
        if isinstance(owner, ast.Name) and isinstance(target, ast.Name) and target.id == owner.id:
            return True
    return False


def _reads(value: ast.expr, targets: Sequence[ast.expr]) -> bool:
    """Return whether an expression may read what one of the targets stands for."""
    names = {part.id for target in targets for part in walked(target) if isinstance(part, ast.Name)}
    return any(isinstance(part, ast.Name) and part.id in names for part in walked(value))


def _pairs(statement: ast.stmt | None) -> Iterator[tuple[ast.expr, ast.expr]]:
    match statement:
        case ast.Assign(targets=targets, value=value):
            pairs = (pair for target in targets for pair in parallel(target, value))
            yield from ((part, item) for part, item in pairs if not isinstance(item, ast.Starred))
        case ast.AnnAssign(target=target, value=value) if value is not None:
            yield target, value
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append" | "add" | "appendleft") as func, args=[item])):
            yield func, item


def parallel(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Targets with what each of them gets, also within `a, b = b, a`, as far as that stands in the program."""
    both = (ast.Tuple, ast.List)
    if isinstance(target, both):
        if isinstance(value, both) and len(value.elts) == len(target.elts):
            for part, item in zip(target.elts, value.elts, strict=True):
                yield from parallel(part, item)
    else:
        yield target, value


def _target(node: ast.expr, explanation: Explanation) -> str:
    return node.id if isinstance(node, ast.Name) else explanation.place(node)


def _why(node: ast.expr, explanation: Explanation, code: Code) -> ValueReason:
    result = explanation.literal(node)
    # `-1` is a literal to a reader, and an operator on one to the parser.
    if _is_number(node):
        return ValueReason(result=result)
    if isinstance(node, _PLAIN):
        workings = explanation.workings(node, result) if result is not None else None
        return ValueReason(node=node, result=result, code=code(node) if workings else None)
    # The call was told with what it returned, and is not worked out again.
    if isinstance(node, ast.Call) and (called := explanation.called(node)) is not None:
        return ValueReason(result=result, call=f"`{explanation.call(node)}`", called=called.first)
    alias = f"`{explanation.place(node)}`" if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) else None
    if isinstance(node, ast.Subscript) and _is_cut(node, explanation):
        alias = None
    if isinstance(node, ast.Attribute) and result is None:
        alias = None  # `f.__globals__`: of what no trace looks into
    workings = explanation.workings(node, result) if result is not None and alias is None else None
    shown = code(node)
    if shown is None and workings is None and not isinstance(node, _LONG):
        shown = explanation.code(node)
    is_made = explanation.is_of_an_array(node)
    return ValueReason(
        node=node,
        code=shown if alias is None else alias,
        workings=workings,
        result=result,
        alias=None if is_made else alias,
    )


def reason_of(node: ast.expr, explanation: Explanation) -> ValueReason:
    """How the value of an expression comes about, without the code of the expression."""
    return _why(node, explanation, lambda _: None)


def _is_cut(node: ast.Subscript, explanation: Explanation) -> bool:
    """Return whether it may be a part of a sequence, which is made anew: `xs[1:]`, or `xs[s]` with a slice `s`."""
    return isinstance(node.slice, ast.Slice) or explanation.literal(node.slice) is None


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)


def _augmented(statement: ast.AugAssign, explanation: Explanation, code: Code) -> ValueReason:
    # The target as an expression that is read, for `x + 1` of `x += 1`.
    target = expression_of(ast.unparse(statement.target))
    whole = ast.BinOp(left=target, op=statement.op, right=statement.value)
    result = explanation.literal(whole)
    by = explanation.literal(statement.value)
    workings = explanation.workings(whole, result) if result is not None else None
    sign = "+" if isinstance(statement.op, ast.Add) else "-" if isinstance(statement.op, ast.Sub) else ""
    # Only of numbers one says that they go up or down.
    if by is None or not by[:1].isdigit() or result is None or not result.lstrip("-")[:1].isdigit():
        sign = ""
    source = (
        f"`{ast.unparse(statement.value)}`"
        if code(statement) and not isinstance(statement.value, ast.Constant)
        else None
    )
    detail = explanation.workings(statement.value, by) if by is not None and sign else None
    added = " = ".join(part for part in (source, detail, by) if part)
    return ValueReason(node=whole, workings=workings, result=result, by=added if sign else None, sign=sign)
