"""The program of a run: its names, and the expressions that its lines work out on the way."""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from groundbox.trace.record.syntax import copied, parse, walked
from groundbox.values.evaluate import evaluate
from groundbox.values.parsing import symbols_of
from groundbox.values.pure import FUNCTIONS
from groundbox.values.unknown import Unknown

_LONGEST_OPERAND: Final = 100
_UNNAMED: Final = {"lambda": "<lambda>", "genexpr": "<genexpr>"}
_COMPREHENSIONS: Final = ("listcomp", "setcomp", "dictcomp")


def tree_of(source: str) -> ast.Module:
    return parse(source) or ast.Module([], [])


def names_in(tree: ast.Module) -> Iterator[str]:
    """Names that the program binds, and others that it uses and that are no functions of Python's."""
    for node in walked(tree):
        if isinstance(node, ast.Name):
            # A program that assigns `max` means its own.
            if node.id not in FUNCTIONS or isinstance(node.ctx, ast.Store):
                yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


class Outer(NamedTuple):
    """Names that a code takes from around it: from the functions that it stands in, and from the module."""

    enclosing: frozenset[str]
    module: frozenset[str]


def outer_names(source: str) -> Mapping[str, Outer]:
    """The names that each function, lambda and class body takes from around it, by its qualified name.

    A name that a code binds anywhere is its own all over it, as Python has it, so that an object of the module that is
    called the same is never taken for it. Of codes with one qualified name, only what all of them take is told.
    """
    if parse(source) is None:
        return {}
    try:
        top = symbols_of(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found: dict[str, Outer] = {}
    waiting = [(table, "") for table in top.get_children()]
    while waiting:
        table, prefix = waiting.pop()
        kind, name = table.get_type(), _UNNAMED.get(table.get_name(), table.get_name())
        if kind not in ("function", "class"):  # of type parameters
            waiting += [(inner, prefix) for inner in table.get_children()]
            continue
        qualname = prefix + name
        taken = _taken_from_around(table)
        other = found.get(qualname, taken)
        # Two functions of one name cannot be told apart by records.
        found[qualname] = Outer(taken.enclosing & other.enclosing, taken.module & other.module)
        inside = qualname + (".<locals>." if kind == "function" else ".")
        waiting += [(inner, inside) for inner in table.get_children()]
    return found


def _taken_from_around(table: symtable.SymbolTable) -> Outer:
    symbols = table.get_symbols()
    own = {symbol.get_name() for symbol in symbols if not symbol.is_free() and not symbol.is_global()}
    enclosing = {symbol.get_name() for symbol in symbols if symbol.is_free()}
    module = {symbol.get_name() for symbol in symbols if symbol.is_global()}
    for inner in table.get_children():
        if inner.get_name() in _COMPREHENSIONS:  # which run in this code's frame, and have a table in Python 3.11
            taken = _taken_from_around(inner)
            enclosing |= taken.enclosing - own
            module |= taken.module
    return Outer(frozenset(enclosing), frozenset(module))


def free_names(expression: ast.expr) -> list[str]:
    """The names that an expression takes from outside of itself."""
    names = [node for node in walked(expression) if isinstance(node, ast.Name)]
    return sorted({node.id for node in names} - {node.id for node in names if isinstance(node.ctx, ast.Store)})


def renamed(expression: ast.expr, old: str, new: str) -> ast.expr:
    class Rename(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.Name:
            return ast.Name(new, ast.Load()) if node.id == old else node

    renamed: ast.expr = Rename().visit(copied(expression))
    return renamed


def inner_expressions(tree: ast.Module) -> Mapping[int, Sequence[tuple[ast.expr, Sequence[str]]]]:
    """By line, the expressions that a statement beginning there works out, with the names they use; without those that
    stand inside a comprehension or a lambda, whose names are not the line's."""
    found: dict[int, list[tuple[ast.expr, Sequence[str]]]] = {}
    for statement in walked(tree):
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

    if any(isinstance(each, ast.comprehension | ast.Lambda) for each in walked(node)):
        return
    # From names alone to all operands: `xs[0] > n + 1` as `xs[0] > 2 + 1`, `5 > 2 + 1` and `5 > 3`.
    for kinds in ((ast.Name,), (ast.Name, ast.Subscript), (ast.Name, ast.Subscript, ast.Call, ast.BinOp)):
        # what is visited is the copy, so that `node` is its root
        original, node = node, copied(node)
        yield ast.unparse(Put(*kinds).visit(node))
        node = original
