"""Equations of a text found where the program works one side out, or where both sides are equal as a state."""

from __future__ import annotations

import ast
import bisect
import itertools
from collections.abc import Sequence
from typing import Any, Final

from groundbox.trace.proof.moments.code import Code, is_alike
from groundbox.trace.proof.moments.numbers import is_known
from groundbox.trace.proof.moments.standing import Standing
from groundbox.trace.proof.records.frames import MISSING
from groundbox.trace.proof.records.ledger import Ledger
from groundbox.trace.proof.records.outcomes import Outcomes
from groundbox.trace.proof.values.bounds import Unknowable
from groundbox.trace.proof.values.code import is_operation
from groundbox.trace.proof.values.evaluation import evaluate, no_names
from groundbox.trace.proof.values.likeness import is_written, said_value, same
from groundbox.trace.proof.values.things import Thing, Written
from groundbox.trace.structure import Step

_NEAR: Final = 40


class Equations:
    """Looks for a moment at which all parts are equal."""

    def __init__(self, ledger: Ledger, code: Code, standing: Standing) -> None:
        self.ledger = ledger
        self.code = code
        self.standing = standing
        self.outcomes = Outcomes(ledger)

    def first(
        self, parts: Sequence[ast.expr], low: int, now: int, *, about: bool, far: bool = False
    ) -> tuple[int, int] | tuple[()] | None:
        """Where all parts are equal: the moment and its record, an empty tuple for nowhere, None if nobody knows.

        Args:
            far: Whether it may be anywhere in the rest of the run.
        """
        plain = [part for part in parts if not self.code.names(part)]
        values = [value for part in plain if (value := self._number(part)) is not MISSING]
        if any(not _alike(values[0], value, about=about) for value in values[1:]):
            return ()
        known = False
        going_on = [step for t in sorted({low, now}) for step in self.ledger.course.open_steps(t)]
        # a call that lies behind may have more steps than are looked at from `low` on
        working_out = [self.code.working_out(parts[0], t, far=far) for t in sorted({low, now})]
        for step in itertools.chain(going_on, (None,), *working_out):
            if step is None:
                if len(plain) < len(parts) and self._are_equal_at(parts, now, about=about):
                    return now, now
                continue
            found = self._holds(parts, step, about=about)
            if found:
                return (max(now, step.step), step.step) if step.step <= now else (step.step, step.step)
            known = known or found is False
        if len(plain) == len(parts):
            operations = [part for part in plain if is_operation(part)]
            return (now, -1) if all(is_known(self.ledger, part, now) for part in operations) else ()
        named = self._somewhere(parts, low, now, about=about)
        if named is not None:
            return named
        return () if known else None

    def _number(self, part: ast.expr) -> Any:
        try:
            return _unmade(part, evaluate(part, no_names))
        except Unknowable:
            return MISSING

    def _holds(self, parts: Sequence[ast.expr], step: Step, *, about: bool) -> bool | None:
        """Whether a step works out the first part, and finds what the others say. None: it does not work it out."""
        first = parts[0]
        if self.code.names(first):
            source = self.code.by_text(step).get(self.code.dump(first))
            if source is not None or not isinstance(first, ast.BinOp | ast.Call | ast.Subscript):
                return self._all_equal(parts, source, step, about=about) if source is not None else None
        if not isinstance(first, ast.BinOp | ast.Call | ast.Subscript):
            return None
        known = False
        for source in self.code.expressions(step):
            if not is_alike(first, source):
                continue
            self.ledger.spend()
            if self.standing.is_put_in(first, source, step) or (
                (is_operation(first) or not self.code.names(first))
                and self.standing.stands_for(first, source, step.step, step.frame, step.calls)
            ):
                return self._all_equal(parts, source, step, about=about)
            known = known or self.standing.is_another_call(first, source, step)
        return False if known else None

    def given(self, node: ast.expr, step: Step) -> Any:
        """What an expression gave in a step: worked out, or seen by what became of it.

        Raises:
            Unknowable: Neither is possible.
        """
        source = self.code.by_text(step).get(self.code.dump(node))
        kept = self.outcomes.of(source, step) if source is not None else MISSING
        return self.ledger.value(node, step.step, step.frame, step.calls) if kept is MISSING else kept

    def _all_equal(self, parts: Sequence[ast.expr], source: ast.expr, step: Step, *, about: bool) -> bool | None:
        given = self.outcomes.of(source, step)
        if given is not MISSING:
            return self._all_are(given, parts, source, step, about=about)
        values: list[Any] = []
        for part in parts:
            try:
                value = _unmade(part, self.ledger.value(part, step.step, step.frame, step.calls))
            except Unknowable:
                continue
            if value is not MISSING:
                values.append(value)
            if (
                is_operation(part)
                and is_operation(source)
                and not self.standing.same_shape(part, source, step.step, step.frame, step.calls)
            ):
                return False
        if len(values) < 2:
            return None
        return all(_alike(values[0], value, about=about) for value in values[1:])

    def _all_are(
        self, given: Any, parts: Sequence[ast.expr], source: ast.expr, step: Step, *, about: bool
    ) -> bool | None:
        """Whether each part is the program's own expression, which gave `given`, or has that value."""
        for part in parts:
            if self.code.dump(part) == self.code.dump(source) or self.standing.is_put_in(part, source, step):
                continue
            try:
                known, said = said_value(part)
                if not known and is_written(part, given):
                    continue
                value = said if known else self.ledger.value(part, step.step, step.frame, step.calls)
            except Unknowable:
                return None
            if is_operation(part) and not self.standing.stands_for(part, source, step.step, step.frame, step.calls):
                return False
            if self.standing.is_of_another(part, source, step.step, step.frame):
                return False
            if not _alike(given, value, about=about):
                return False
        return True

    def _are_equal_at(self, parts: Sequence[ast.expr], t: int, *, about: bool) -> bool:
        try:
            values = [self.ledger.value(part, t) for part in parts]
        except Unknowable:
            return False
        return self._agree(parts, values, t, about=about)

    def _agree(self, parts: Sequence[ast.expr], values: Sequence[Any], t: int, *, about: bool) -> bool:
        """Whether the values are equal, and no part calls the first one's method on something else."""
        return all(
            _alike(values[0], value, about=about) and not self.standing.is_of_another(part, parts[0], t)
            for part, value in zip(parts[1:], values[1:], strict=True)
        )

    def _somewhere(
        self, parts: Sequence[ast.expr], low: int, now: int, *, about: bool
    ) -> tuple[int, int] | tuple[()] | None:
        """Where the parts are equal as a state, whatever statement ran."""
        names = frozenset[str]().union(*(self.code.names(part) for part in parts))
        times = self.ledger.histories.moments(names)
        known = False
        begin = bisect.bisect_right(times, low)
        for t in (low, *times[begin : begin + _NEAR]):
            values = []
            for part in parts:
                self.ledger.spend()
                try:
                    value = _unmade(part, self.ledger.value(part, t))
                except Unknowable:
                    continue
                if value is not MISSING:
                    values.append(value)
            if len(values) == len(parts):
                known = True
                if self._agree(parts, values, t, about=about):
                    return max(t, now) if t <= now else t, t
        return () if known else None


def _unmade(part: ast.expr, value: Any) -> Any:
    """MISSING for `Account()`: what it makes is not known from the call alone."""
    return MISSING if isinstance(part, ast.Call) and isinstance(value, Thing | Written) and not part.keywords else value


def _alike(left: Any, right: Any, *, about: bool) -> bool:
    if same(right, left, about=about):
        return True
    if isinstance(left, float) and isinstance(right, float | int) and not isinstance(right, bool):
        return abs(left - right) <= 1e-12 * max(abs(left), abs(right))
    return False
