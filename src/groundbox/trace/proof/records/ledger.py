"""What happened in a run, indexed so that a claim finds the moment at which it holds.

A moment is the number of a record; what holds at a moment is what holds after that record.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from groundbox.trace import schema
from groundbox.trace.proof.records.calls import Calls
from groundbox.trace.proof.records.course import Course
from groundbox.trace.proof.records.frames import Frames
from groundbox.trace.proof.records.histories import Histories
from groundbox.trace.proof.records.memory import Memory
from groundbox.trace.proof.records.places import Place, places
from groundbox.trace.proof.records.scene import Scene
from groundbox.trace.proof.values.evaluation import evaluate
from groundbox.trace.reading import Trace
from groundbox.trace.structure import Activation

_BUDGET: Final = 400_000


class Exhausted(Exception):
    """Checking took more work than a text of this size is worth."""


class Ledger:
    """The index of one trace.

    Attributes:
        names: Every name and attribute that the program uses.
        functions: The names of its functions and classes.
        budget: How much work may still be done.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.records = trace.records
        self.structure = trace.structure
        self.budget = _BUDGET
        self.memory = Memory(trace.records)
        self.frames = Frames(trace.records, self.memory)
        self.course = Course(trace.structure, trace.records, self.frames)
        self.calls = Calls(trace.structure, self.course, self.memory)
        self.histories = Histories(
            trace.records, trace.structure, self.frames, self.memory, value=self.value, spend=self.spend
        )
        self.names, self.functions = _names(self.structure.syntax.tree)
        self.names |= self.frames.sets.keys() - {"_"} | self.frames.attrs.keys()

    def spend(self, amount: int = 1) -> None:
        """Count work.

        Raises:
            Exhausted: There was too much of it.
        """
        self.budget -= amount
        if self.budget < 0:
            raise Exhausted

    def lookup(self, t: int, frame: int | None = None, calls: Sequence[Activation] = ()) -> Scene:
        """Names at a moment, for `evaluate`."""
        return Scene(self.frames, self.memory, t, frame, calls, self._places)

    def value(self, node: ast.expr, t: int, frame: int | None = None, calls: Sequence[Activation] = ()) -> Any:
        """An expression worked out at a moment.

        Raises:
            Unknowable: It cannot be.
        """
        self.spend()
        return evaluate(node, self.lookup(t, frame, calls))

    @cached_property
    def _places(self) -> Mapping[int, Place]:
        return places(self.structure.syntax.tree)

    @cached_property
    def entry(self) -> Activation | None:
        """The call that the run is about; None for a script."""
        entry = self.trace.header.entry
        roots = self.structure.roots
        return next((root for root in roots if root.name == entry.call), None) if entry is not None else None

    @cached_property
    def stdout(self) -> str:
        """All that was printed, where it is shown."""
        return "".join(
            record.text + record.tail for record in self.records if isinstance(record, schema.Out) and record.s == 1
        )

    @cached_property
    def mutations(self) -> list[int]:
        """When objects changed."""
        return self._times(schema.Mutate)

    @cached_property
    def outs(self) -> list[int]:
        """When something was printed."""
        return self._times(schema.Out)

    @cached_property
    def raises(self) -> list[int]:
        """When an exception came up."""
        return self._times(schema.Raise)

    @cached_property
    def yields(self) -> list[int]:
        """When a generator gave something out."""
        return self._times(schema.Yield)

    @cached_property
    def folds(self) -> list[int]:
        """When the trace left something out."""
        return self._times(schema.Fold)

    def _times(self, kind: type) -> list[int]:
        return [t for t, record in enumerate(self.records) if type(record) is kind]


def _names(tree: ast.AST | None) -> tuple[frozenset[str], frozenset[str]]:
    """Names that the program gives values to, attributes included, and those of its functions and classes."""
    names: set[str] = set()
    functions: set[str] = set()
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                names.add(node.id)
        elif isinstance(node, ast.Attribute):
            if not isinstance(node.ctx, ast.Load):
                names.add(node.attr)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            functions.add(node.name)
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            names.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            names.add(node.rest)
    return frozenset(names | functions), frozenset(functions)
