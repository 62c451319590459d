"""Conditions of a text found among the tests of the program.

Which of them a claim may mean is the matter of `truths`.
"""

from __future__ import annotations

import ast
import bisect
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from groundbox.trace.proof.moments.code import Code
from groundbox.trace.proof.moments.standing import Standing
from groundbox.trace.proof.records.course import Condition
from groundbox.trace.proof.records.ledger import Ledger
from groundbox.trace.proof.values.bounds import Unknowable
from groundbox.trace.proof.values.evaluation import evaluate, no_names
from groundbox.trace.proof.values.likeness import same
from groundbox.trace.proof.values.operators import truth

_ORDER: Final = frozenset({ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq})
_OPPOSITE: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_TURNED: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE,
}  # fmt: skip
_ALIKE: Final = {ast.Is: ast.Eq, ast.IsNot: ast.NotEq}


class Conditions:
    """Looks for a condition in the tests that ran, and in comparisons of other statements."""

    def __init__(self, ledger: Ledger, code: Code, standing: Standing) -> None:
        self.ledger = ledger
        self.code = code
        self.standing = standing

    def first(
        self, test: ast.expr, wanted: bool, low: int, fits: Callable[[int], bool] = lambda t: True
    ) -> tuple[bool, int | None]:
        """Whether the program tests this, and the first moment from `low` on at which it does so with this result.

        Args:
            fits: Whether the test at a moment may be meant.
        """
        grounded = False
        text = self.code.dump(test)
        named = bool(self.code.names(test))
        at = bisect.bisect_left(self.ledger.course.condition_times, low)
        going_on = [condition for condition in self.going_on(low) if fits(condition.t)]
        for condition in (*going_on, *self.ledger.course.conditions[at:]):
            found = self._tested(test, text, condition, named=named)
            if found is None:
                continue
            grounded = True
            if found is wanted and fits(condition.t):
                return True, condition.t
        if not named and not grounded:
            return self._in_a_statement(test, wanted, low)
        return grounded, None

    def is_unknown(self, test: ast.expr) -> bool:
        """Whether the program tests this as a part of something, and it cannot be worked out."""
        text = self.code.dump(test)
        inside = [condition for condition in self.ledger.course.conditions if text in self.code.dump(condition.test)]
        return bool(inside) and all(self.tested(test, condition) is None for condition in inside[:50])

    def is_misquoted(self, test: ast.expr) -> bool:
        """Whether the program compares these very two sides, and only in another way: `x > 5`, and not `x >= 5`."""
        if not isinstance(test, ast.Compare) or len(test.ops) != 1:
            return False
        sides = [self.code.dump(test.left), self.code.dump(test.comparators[0])]
        own = [_TURNED.get(kind, kind) if turned else kind for kind, turned in self._compares(sides)]
        return bool(own) and not any(type(test.ops[0]) in (kind, _OPPOSITE.get(kind)) for kind in own)

    def _compares(self, sides: list[str]) -> Iterator[tuple[type[ast.cmpop], bool]]:
        """How the program compares two sides, and whether it has them the other way round."""
        tree = self.ledger.structure.syntax.tree
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.Compare):
                parts = [node.left, *node.comparators]
                for kind, pair in zip(node.ops, itertools.pairwise(parts), strict=True):
                    found = [self.code.dump(part) for part in pair]
                    if found in (sides, sides[::-1]):
                        yield type(kind), found != sides

    def tested(self, test: ast.expr, condition: Condition) -> bool | None:
        """What the program found when it tested this, or None if it tested something else."""
        return self._tested(test, self.code.dump(test), condition, named=bool(self.code.names(test)))

    def _in_a_statement(self, test: ast.expr, wanted: bool, low: int) -> tuple[bool, int | None]:
        """A comparison that is part of another statement, such as `return a == b`."""
        if not isinstance(test, ast.Compare) or len(test.ops) != 1:
            return False, None
        for step in (*self.ledger.course.open_steps(low), *self.code.steps(low)):
            for part in self.code.expressions(step):
                if isinstance(part, ast.Compare) and len(part.ops) == 1 and step.test is None:
                    self.ledger.spend()
                    if self._compared(test, part, step.step, step.frame, step.calls):
                        return True, step.step if self._plain(test) is wanted else None
        return False, None

    def going_on(self, t: int) -> list[Condition]:
        """Tests that began before `t` and go on: a function that they call is running, or has just returned."""
        found = []
        for step in self.ledger.course.open_steps(t):
            at = bisect.bisect_left(self.ledger.course.condition_times, step.step)
            if (
                step.step < t
                and step.calls
                and at < len(self.ledger.course.conditions)
                and self.ledger.course.conditions[at].t == step.step
            ):
                found.append(self.ledger.course.conditions[at])
        return found

    def _tested(self, test: ast.expr, text: str, condition: Condition, *, named: bool) -> bool | None:
        """What the program found when it tested this, or None if it tested something else."""
        self.ledger.spend()
        source = condition.test
        if named:
            whole = self.code.dump(source)
            if whole == text:
                return condition.truth
            if (
                isinstance(source, ast.UnaryOp)
                and isinstance(source.op, ast.Not)
                and self.code.dump(source.operand) == text
            ):
                return not condition.truth
            return self._truth(test, condition) if text in whole else None
        if not isinstance(test, ast.Compare) or len(test.ops) != 1:
            return None
        for part in self.code.subexpressions(source):
            if (
                isinstance(part, ast.Compare)
                and len(part.ops) == 1
                and self._compared(test, part, condition.t, condition.frame, condition.calls)
            ):
                return self._plain(test)
        return None

    def _truth(self, test: ast.expr, condition: Condition) -> bool | None:
        try:
            return truth(self.ledger.value(test, condition.t, condition.frame, condition.calls))
        except Unknowable:
            return None

    def _plain(self, test: ast.expr) -> bool | None:
        try:
            return truth(evaluate(test, no_names))
        except Unknowable:
            return None

    def _compared(self, test: ast.Compare, part: ast.Compare, t: int, frame: int, calls: Sequence[Any] = ()) -> bool:
        """Whether a comparison of values is a comparison of the program with its values put in.

        Which of `<`, `==` and the like is asked does not matter: the values are compared, and the text is right or not.
        """
        said, own = type(test.ops[0]), type(part.ops[0])
        left, right = test.left, test.comparators[0]
        alike = (said in _ORDER and own in _ORDER) or {said, _OPPOSITE.get(said)} & {own, _ALIKE.get(own)}
        if not alike:
            return False
        first, second = part.left, part.comparators[0]
        if self._is_unknowable(first, t, frame, calls) or self._is_unknowable(second, t, frame, calls):
            return self._matches_the_known_side(test, part, t, frame, calls)
        if self.standing.stands_for(left, first, t, frame, calls) and self.standing.stands_for(
            right, second, t, frame, calls
        ):
            return True
        return (
            said in _ORDER
            and self.standing.stands_for(right, first, t, frame, calls)
            and self.standing.stands_for(left, second, t, frame, calls)
        )

    def _is_unknowable(self, source: ast.expr, t: int, frame: int, calls: Sequence[Any]) -> bool:
        try:
            self.ledger.value(source, t, frame, calls)
        except Unknowable:
            return True
        return False

    def _matches_the_known_side(
        self, test: ast.Compare, part: ast.Compare, t: int, frame: int, calls: Sequence[Any]
    ) -> bool:
        """A comparison of which only one side can be worked out: that side has to agree."""
        pairs = ((test.left, part.left), (test.comparators[0], part.comparators[0]))
        known = [pair for pair in pairs if not self._is_unknowable(pair[1], t, frame, calls)]
        return len(known) == 1 and self.standing.stands_for(*known[0], t, frame, calls)

    def is_near_miss(self, test: ast.expr, now: int) -> bool:
        """Whether the program compares one of the two values here, and with another one."""
        if not isinstance(test, ast.Compare) or len(test.ops) != 1:
            return False
        at = bisect.bisect_left(self.ledger.course.condition_times, now)
        halves = set()
        for condition in self.ledger.course.conditions[max(0, at - 1) : at + 2]:
            for part in self.code.subexpressions(condition.test):
                if isinstance(part, ast.Compare) and len(part.ops) == 1:
                    halves.add(self._sides(test, part, condition.t, condition.frame))
        return 1 in halves and 2 not in halves

    def _sides(self, test: ast.Compare, part: ast.Compare, t: int, frame: int) -> int:
        """How many sides of two comparisons have nearly the same value."""
        pairs = ((test.left, part.left), (test.comparators[0], part.comparators[0]))
        return sum(self._is_nearly(said, source, t, frame) for said, source in pairs)

    def _is_nearly(self, said: ast.expr, source: ast.expr, t: int, frame: int) -> bool:
        try:
            return same(self.ledger.value(said, t, frame), self.ledger.value(source, t, frame), about=True)
        except Unknowable:
            return False
