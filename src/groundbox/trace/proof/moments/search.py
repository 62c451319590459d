"""What all rooms of `moments` ask a run: the first moment at which something holds, what is told now.

What one kind of claim asks stands in the room of that kind.
"""

from __future__ import annotations

import ast
import bisect
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final

from groundbox.trace.proof.moments.code import Code
from groundbox.trace.proof.moments.conditions import Conditions
from groundbox.trace.proof.moments.equations import Equations
from groundbox.trace.proof.moments.hit import Hit, Uncheckable
from groundbox.trace.proof.moments.standing import Standing
from groundbox.trace.proof.records.deltas import Delta, deltas
from groundbox.trace.proof.records.histories import Entry
from groundbox.trace.proof.records.ledger import Ledger
from groundbox.trace.proof.values.bounds import Unknowable
from groundbox.trace.proof.values.evaluation import written
from groundbox.trace.proof.values.likeness import EMPTY, is_written, said_value, same
from groundbox.trace.structure import Activation, Step

_FEW: Final = 3
"""Steps that are looked at for a statement that is told where it runs."""


class Search:
    """One ledger, and what finds the words of a text in its program."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.code = Code(ledger)
        standing = Standing(ledger, self.code)
        self.conditions = Conditions(ledger, self.code, standing)
        self.equations = Equations(ledger, self.code, standing)

    @cached_property
    def deltas(self) -> Sequence[Delta]:
        """All changes of containers, in order."""
        return deltas(self.ledger)

    def parameters(self, activation: Activation) -> ast.arguments | None:
        """How the function that runs is declared."""
        return self._parameters.get(getattr(self.record(activation.first), "n", 0))

    @cached_property
    def _parameters(self) -> dict[int, ast.arguments]:
        """Of each function, by the line at which it begins, decorators included."""
        tree = self.ledger.structure.syntax.tree
        found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)] if tree is not None else []
        return {min((node.lineno, *(each.lineno for each in node.decorator_list))): node.args for node in found}

    def record(self, t: int) -> Any:
        """The record, or None outside the trace."""
        return self.ledger.records[t] if 0 <= t < len(self.ledger.records) else None

    def sayer(self, node: ast.expr, *, about: bool) -> Callable[[Any, int], bool]:
        """Whether an actual value at a moment is the one that the text says."""
        known, said = said_value(node)
        if known:
            return lambda actual, t: same(said, actual, about=about)
        return lambda actual, t: is_written(node, actual) or same(self.ledger.value(node, t), actual, about=about)

    def first(self, names: frozenset[str], low: int, holds: Callable[[int], bool]) -> Hit | None:
        """The first moment from `low` on at which something over these names holds."""
        times = self.ledger.histories.moments(names - {EMPTY})
        knowable = False
        for t in (low, *times[bisect.bisect_right(times, low) :]):
            self.ledger.spend()
            try:
                if holds(t):
                    return Hit(t, self._shown(names, t))
                knowable = True
            except Unknowable:
                continue
        if not knowable and not self._known_anywhere(holds, times, low):
            raise Uncheckable("it cannot be worked out from the trace")
        return None

    def _known_anywhere(self, holds: Callable[[int], bool], times: Sequence[int], low: int) -> bool:
        for t in times[: bisect.bisect_right(times, low)]:
            self.ledger.spend()
            try:
                holds(t)
            except Unknowable:
                continue
            return True
        return False

    def _shown(self, names: frozenset[str], t: int) -> int:
        times = self.ledger.histories.moments(names)
        at = bisect.bisect_right(times, t) - 1
        return times[at] if at >= 0 else t

    def item(self, node: ast.expr, t: int) -> Any:
        """What a text says of an item at a moment; equal to nothing where that cannot be known."""
        known, said = said_value(node)
        if known:
            return said
        try:
            return self.ledger.value(node, t)
        except Unknowable:
            known, said = written(node)
            return said if known else object()

    def told_now(self, low: int, now: int) -> Iterator[Step]:
        """The steps that a sentence may tell that has come to `now`: those that go on, and the next ones."""
        yield from self.ledger.course.open_steps(now)
        for t in dict.fromkeys((low, now)):
            at = bisect.bisect_left(self.ledger.course.step_times, t)
            yield from self.ledger.course.steps[at : at + _FEW]


def entries_from(entries: Sequence[Entry], low: int, after: int) -> Iterator[Entry]:
    """The changes from `low` on that come after `after`."""
    at = bisect.bisect_left(entries, low, key=lambda entry: entry.t)
    return (entry for entry in entries[at:] if entry.t > after)
