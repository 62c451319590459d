"""Inputs out of asserts: `assert f(1, 2) == 3` is a case with an output, as long as its parts are data.

Data are literals, and expressions of literals and Python's own functions, such as `3 * 19` or `dict(a=1)`.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from groundbox.dataset.problem import ABSENT, Case
from groundbox.dataset.problems.rows import BadRow
from groundbox.values import literals
from groundbox.values.evaluate import evaluate
from groundbox.values.unknown import Unknown

_T = TypeVar("_T")


def calls(tree: ast.AST, function: str) -> Iterator[tuple[ast.Call, ast.expr]]:
    """The calls of `function` in the asserts of a tree, each with what is asserted, in the order of the text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            for call in ast.walk(node.test):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == function:
                    yield call, node.test


def case(number: int, asserted: tuple[ast.Call, ast.expr]) -> Case:
    """The case of a call in an assert.

    Raises:
        BadRow: An argument is no literal.
    """
    try:
        args, kwargs = arguments(asserted[0])
    except literals.NotALiteral as error:
        raise BadRow("input-not-a-literal", str(error)) from None
    return Case(number=number, args=args, kwargs=kwargs, expected=_expected(*asserted))


def called_names(tree: ast.AST) -> list[str]:
    """Names of the functions called in asserts, in the order of the text."""
    asserts = [node.test for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    nodes = [node for test in asserts for node in ast.walk(test)]
    return [node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]


def arguments(call: ast.Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call, or NotALiteral."""
    if any(keyword.arg is None for keyword in call.keywords):
        raise literals.NotALiteral("** is not a literal")
    args = tuple(_data(each) for each in call.args)
    return args, {str(each.arg): _data(each.value) for each in call.keywords}


def _data(node: ast.expr) -> Any:
    try:
        return literals.of_node(node)
    except literals.NotALiteral:
        with contextlib.suppress(Unknown, literals.NotALiteral, RecursionError):
            value = evaluate(node, _no_name)
            literals.encode(value)
            return value
        raise


def _no_name(name: str) -> Any:
    raise KeyError(name)


def value_or_absent(read: Callable[[_T], Any], given: _T) -> Any:
    """The value that is read, or ABSENT where that is no literal."""
    try:
        return read(given)
    except literals.NotALiteral:
        return ABSENT


def _expected(call: ast.Call, test: ast.expr) -> Any:
    """Return what the assert says that the call returns, or ABSENT when it says less than that."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return ABSENT  # says false-like, not which value
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq | ast.Is)):
        return ABSENT
    # `assert 3 == f(1)` is written, too.
    sides = [test.left, test.comparators[0]]
    # `assert abs(f(2) - 1.41) < 1e-2` or `len(f(x)) == 2` says less than the value.
    if call not in sides:
        return ABSENT
    return value_or_absent(_data, sides[1 - sides.index(call)])
