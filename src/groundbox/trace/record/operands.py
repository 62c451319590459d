"""Operands and loops of a source: where `test` and `iteration` records may say that something was.

Read from the syntax tree alone, with nothing of the guest's plan: the guest's records are held against this.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from groundbox.trace.record.syntax import header_end, kept, parse, walked

Range: TypeAlias = tuple[int, int, int, int]
"""First line, first column, last line, column behind the last; columns in bytes of UTF-8."""
_TURNED: Final = (ast.In, ast.NotIn, ast.Is, ast.IsNot)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoopLines:
    """Lines of a `for` or `while` statement.

    Attributes:
        inner: The lines of the loops inside it, in the same code.
        names: How many names an item is assigned to; 0 if to anything else, or of a `while`.
    """

    inner: Sequence[int]
    names: int


class Operands:
    """Operands that can be tested in a source, and its loops.

    Attributes:
        units: For each operand the first and last line of the statement, header or clause that it is in.
        loops: By the line of the statement.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.units: dict[Range, tuple[int, int]] = {}
        self.loops: dict[int, LoopLines] = {}
        inner: dict[int, list[int]] = {}
        names: dict[int, int] = {}
        waiting: list[tuple[ast.AST, tuple[int, ...]]] = [(tree, ())]
        while waiting:
            node, around = waiting.pop()
            inside = around
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                # Loops around a function are none of its own: each call begins anew.
                inside = ()
            elif isinstance(node, (ast.For, ast.While)):
                inside = (*around[-_MOST_AROUND:], node.lineno)
                inner[node.lineno] = []
                names[node.lineno] = _name_count(node)
                for outer in around:
                    inner[outer].append(node.lineno)
            self._header(node)
            # The `else` of a loop runs after it, so what stands there is in the loops around only.
            beside = {id(part) for part in getattr(node, "orelse", ())} if inside is not around else set()
            waiting += [(part, around if id(part) in beside else inside) for part in _statements(node)]
        self.loops = {line: LoopLines(inner=found, names=names[line]) for line, found in inner.items()}

    def _header(self, node: ast.AST) -> None:
        """Take note of the operands in a node's own expressions."""
        expressions = [part for part in ast.iter_child_nodes(node) if not isinstance(part, _BODIES)]
        if not expressions or isinstance(node, ast.Module):
            return
        unit = _unit(node, expressions)
        tested: set[int] = set()
        if isinstance(node, (ast.If, ast.While, ast.Assert)):
            self._condition(node.test, unit, tested)
        elif isinstance(node, ast.match_case) and node.guard is not None:
            self._condition(node.guard, unit, tested)
        elif isinstance(node, ast.ExceptHandler) and node.type is not None:
            self.units[range_of(node.type)] = unit
        # Whatever the statement is, an `and` whose value is used may stand in it.
        for expression in expressions:
            for part in walked(expression):
                if isinstance(part, ast.IfExp) and id(part) not in tested:
                    self._condition(part.test, unit, tested)
                elif isinstance(part, ast.BoolOp) and id(part) not in tested:
                    # The last one is the value itself, and nothing tests it.
                    for value in part.values[:-1]:
                        self.units[range_of(_plain(value))] = unit
                elif isinstance(part, ast.GeneratorExp):
                    for test in (test for generator in part.generators for test in generator.ifs):
                        self._condition(test, unit, tested)

    def _condition(self, test: ast.expr, unit: tuple[int, int], tested: set[int]) -> None:
        waiting = [test]
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
                waiting.append(node.operand)
            elif isinstance(node, (ast.BoolOp, ast.IfExp)):
                tested.add(id(node))
                waiting += node.values if isinstance(node, ast.BoolOp) else [node.test, node.body, node.orelse]
            # The compiler leaves out what is decided beforehand.
            elif not isinstance(node, ast.Constant):
                self.units[range_of(node)] = unit


_BODIES: Final = (ast.stmt, ast.ExceptHandler, ast.match_case)
_MOST_AROUND: Final = 50
"""Python refuses more blocks inside one another than 20."""


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    return (part for part in ast.iter_child_nodes(node) if isinstance(part, _BODIES))


def _unit(node: ast.AST, expressions: Sequence[ast.AST]) -> tuple[int, int]:
    first = min(getattr(part, "lineno", 1 << 30) for part in (node, *expressions))
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return first, max(first, header_end(node))
    body = node.body[0]
    # A `def` may be on any line from its first decorator to where its body begins: defaults and annotations are worked
    # out there.
    return first, max(first, node.lineno, min([body.lineno, *(d.lineno for d in getattr(body, "decorator_list", ()))]))


def _plain(value: ast.expr) -> ast.expr:
    """An operand of an `and` or `or`; the compiler makes a `not` part of the operator after it, if it can."""
    if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Not) and isinstance(value.operand, ast.Compare):
        compare = value.operand
        if len(compare.ops) == 1 and isinstance(compare.ops[0], _TURNED):
            return compare
    return value


def _name_count(node: ast.For | ast.While) -> int:
    if isinstance(node, ast.While):
        return 0
    parts = node.target.elts if isinstance(node.target, (ast.Tuple, ast.List)) else [node.target]
    return len(parts) if all(isinstance(part, ast.Name) for part in parts) else 0


def range_of(node: ast.expr) -> Range:
    """Return where an expression stands, as records of tests tell it."""
    return node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0


@kept
def operands_of(source: str) -> Operands | None:
    """The operands and loops of a source, or None if it does not parse here."""
    tree = parse(source)
    return None if tree is None else Operands(tree)
