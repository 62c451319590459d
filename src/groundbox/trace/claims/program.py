"""The program of a run: its names, and the expressions that its lines work out on the way."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from groundbox.trace.errors import Unknown
from groundbox.trace.evaluate import evaluate
from groundbox.trace.pure import FUNCTIONS
from groundbox.trace.syntax import parse

_LONGEST_OPERAND: Final = 100


def tree_of(source: str) -> ast.Module:
    return parse(source) or ast.Module([], [])


def names_in(tree: ast.Module) -> Iterator[str]:
    """What the program gives a value, and what else it names that is no function of Python's."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            if node.id not in FUNCTIONS or isinstance(node.ctx, ast.Store):
                yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def assigned_in(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name


def free_names(expression: ast.expr) -> list[str]:
    """The names that an expression takes from outside of itself."""
    names = [node for node in ast.walk(expression) if isinstance(node, ast.Name)]
    return sorted({node.id for node in names} - {node.id for node in names if isinstance(node.ctx, ast.Store)})


def renamed(expression: ast.expr, old: str, new: str) -> ast.expr:
    class Rename(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.Name:
            return ast.Name(new, ast.Load()) if node.id == old else node

    renamed: ast.expr = Rename().visit(copy.deepcopy(expression))
    return renamed


def inner_expressions(tree: ast.Module) -> Mapping[int, Sequence[tuple[ast.expr, Sequence[str]]]]:
    """By line, the expressions that a statement beginning there works out, with the names they use; without those that
    stand inside a comprehension or a lambda, whose names are not the line's."""
    found: dict[int, list[tuple[ast.expr, Sequence[str]]]] = {}
    for statement in ast.walk(tree):
        if not isinstance(statement, ast.stmt) or isinstance(statement, ast.FunctionDef | ast.ClassDef):
            continue
        left: list[ast.AST] = [each for each in ast.iter_child_nodes(statement) if isinstance(each, ast.expr)]
        while left:
            node = left.pop()
            if isinstance(node, ast.expr) and not isinstance(node, ast.Name | ast.Constant):
                used = free_names(node)
                found.setdefault(statement.lineno, []).append((node, used))
            if not isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp | ast.Lambda):
                left += [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr | ast.keyword)]
    return found


def instances_of(node: ast.expr, lookup: Any) -> Iterator[str]:
    """An expression with values in place of its names, and with values in place of its operands."""

    class Put(ast.NodeTransformer):
        def __init__(self, *kinds: type[ast.expr]) -> None:
            self.kinds = kinds

        def visit(self, inner: ast.AST) -> Any:
            if inner is not node and isinstance(inner, self.kinds) and isinstance(inner, ast.expr):
                try:
                    value = evaluate(inner, lookup)
                except Unknown:
                    value = None
                if isinstance(value, int | float | str) and len(str(value)) < _LONGEST_OPERAND:
                    return ast.Constant(value)
            return self.generic_visit(inner)

    if any(isinstance(each, ast.comprehension | ast.Lambda) for each in ast.walk(node)):
        return
    for kinds in ((ast.Name,), (ast.Name, ast.Subscript), (ast.Name, ast.Subscript, ast.Call, ast.BinOp)):
        # what is visited is the copy, so that `node` is its root
        original, node = node, copy.deepcopy(node)
        yield ast.unparse(Put(*kinds).visit(node))
        node = original
