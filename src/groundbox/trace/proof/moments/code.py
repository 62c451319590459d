"""The program's own code, as a text may write it: the expressions of the statements that ran.

What stands for such an expression is the matter of `standing`.
"""

from __future__ import annotations

import ast
import bisect
import heapq
import itertools
from collections.abc import Iterator
from functools import cached_property
from typing import Final

from groundbox.trace.proof.records.ledger import Ledger
from groundbox.trace.proof.values.code import loaded, names_in, shape
from groundbox.trace.structure import Step

_FAR: Final = 300


class Code:
    """Expressions by their shape, and steps by their statements, remembered for one ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._dumps: dict[int, tuple[ast.AST, str]] = {}
        self._named: dict[int, tuple[ast.AST, frozenset[str]]] = {}
        self._texts: dict[int, tuple[ast.AST, dict[str, ast.expr]]] = {}
        self._parts: dict[int, tuple[ast.AST, list[ast.expr]]] = {}
        self._may: dict[tuple[int, int], bool] = {}

    def dump(self, node: ast.expr) -> str:
        """The shape of an expression, remembered."""
        found = self._dumps.get(id(node))
        if found is None:
            found = self._dumps[id(node)] = (node, shape(node))
        return found[1]

    def names(self, node: ast.expr) -> frozenset[str]:
        """The names in an expression, remembered."""
        found = self._named.get(id(node))
        if found is None:
            found = self._named[id(node)] = (node, names_in(node))
        return found[1]

    def subexpressions(self, node: ast.AST) -> list[ast.expr]:
        """All expressions in one, with the single comparisons of `a <= b < c`."""
        found = self._parts.get(id(node))
        if found is None or found[0] is not node:
            parts = [part for part in ast.walk(node) if isinstance(part, ast.expr)]
            parts.extend(pair for part in list(parts) if isinstance(part, ast.Compare) for pair in _pairs(part))
            found = self._parts[id(node)] = (node, parts)
        return found[1]

    def expressions(self, step: Step) -> list[ast.expr]:
        """What a step works out."""
        statement = step.statement
        if statement is None:
            return []
        found = self._parts.get(id(statement))
        if found is None or found[0] is not statement:
            found = self._parts[id(statement)] = (statement, list(_own(statement)))
        return found[1]

    def steps(self, low: int) -> Iterator[Step]:
        """The steps from `low` on, as far as it is worth to look."""
        steps = self.ledger.course.steps
        at = bisect.bisect_left(self.ledger.course.step_times, low)
        yield from steps[at : at + _FAR]

    def working_out(self, said: ast.expr, low: int, *, far: bool) -> Iterator[Step]:
        """Steps from `low` on whose statements may work out what a text says."""
        rows = [
            steps[bisect.bisect_left(steps, low, key=_begin) :]
            for statement, steps in self._by_statement.values()
            if self._may_work_out(said, statement, steps[0])
        ]
        found = heapq.merge(*rows, key=_begin)
        return found if far else itertools.islice(found, _FAR)

    def _may_work_out(self, said: ast.expr, statement: ast.stmt, step: Step) -> bool:
        key = (id(said), id(statement))
        if key not in self._may:
            named = bool(self.names(said)) and self.dump(said) in self.by_text(step)
            alike = isinstance(said, ast.BinOp | ast.Call | ast.Subscript) or not self.names(said)
            self._may[key] = named or (alike and any(is_alike(said, source) for source in self.expressions(step)))
        return self._may[key]

    @cached_property
    def _by_statement(self) -> dict[int, tuple[ast.stmt, list[Step]]]:
        """The steps of each statement, in order."""
        found: dict[int, tuple[ast.stmt, list[Step]]] = {}
        for step in self.ledger.course.steps:
            if step.statement is not None:
                found.setdefault(id(step.statement), (step.statement, []))[1].append(step)
        return found

    def by_text(self, step: Step) -> dict[str, ast.expr]:
        """The expressions of a step by their shape."""
        statement = step.statement
        if statement is None:
            return {}
        found = self._texts.get(id(statement))
        if found is None:
            found = self._texts[id(statement)] = (
                statement,
                {self.dump(part): part for part in self.expressions(step)},
            )
        return found[1]


def _begin(step: Step) -> int:
    return step.step


def _pairs(test: ast.Compare) -> Iterator[ast.Compare]:
    """The single comparisons of `a <= b < c`."""
    if len(test.ops) > 1:
        left = test.left
        for op, right in zip(test.ops, test.comparators, strict=True):
            yield ast.Compare(left, [op], [right])
            left = right


def _own(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement's own part, those in blocks left out."""
    if isinstance(statement, ast.AugAssign):
        yield ast.BinOp(loaded(statement.target), statement.op, statement.value)
    for name, value in ast.iter_fields(statement):
        if name in ("body", "orelse", "handlers", "finalbody", "cases"):
            continue
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.AST):
                yield from (part for part in ast.walk(node) if isinstance(part, ast.expr))


def is_alike(said: ast.expr, source: ast.expr) -> bool:
    """Whether what a text works out may be what the program works out, by their kinds alone."""
    if isinstance(said, ast.BinOp):
        return isinstance(source, ast.BinOp) and type(said.op) is type(source.op)
    return isinstance(source, ast.Call | ast.Subscript) and type(said) is type(source)
