"""What is so instead of what a claim says, in words that can be shown to its author."""

from __future__ import annotations

import ast
import bisect
import builtins
from typing import Any, NamedTuple

from groundbox.trace.proof.claims import (
    Answer,
    Called,
    Claim,
    Denied,
    Equal,
    Goes,
    Grows,
    Has,
    How,
    Iterated,
    Printed,
    Raised,
    Returned,
    Row,
    Truth,
    value_text,
    words,
)
from groundbox.trace.proof.moments.calls import is_timeless
from groundbox.trace.proof.moments.finder import Finder
from groundbox.trace.proof.moments.hit import Uncheckable
from groundbox.trace.proof.moments.returns import given, makes, may_return
from groundbox.trace.proof.records.frames import MISSING
from groundbox.trace.proof.records.ledger import Ledger
from groundbox.trace.proof.records.scene import is_called
from groundbox.trace.proof.values.bounds import Unknowable
from groundbox.trace.proof.values.code import names_in
from groundbox.trace.proof.values.evaluation import evaluate, no_names


class Contrary(NamedTuple):
    """What is so instead.

    Attributes:
        step: The record that shows it.
        actual: As text; empty if that is not known.
        message: A sentence.
        folded: The trace leaves out what the claim speaks of.
        holds: It does hold after all, somewhere else, and may be said here.
    """

    step: int | None
    actual: str
    message: str
    folded: bool = False
    holds: bool = False


class Explainer:
    """Looks for the contrary in one ledger."""

    def __init__(self, ledger: Ledger, finder: Finder) -> None:
        self.ledger = ledger
        self.finder = finder

    def explain(self, claim: Claim, low: int) -> Contrary | None:
        """Why a claim fails that was looked for from `low` on."""
        if is_timeless(claim):
            try:
                hit = self.finder.find(claim, 0, 0, -1)
            except Uncheckable:
                hit = None
            if hit is not None:
                return Contrary(hit.step, "", "", holds=True)
        found = self._contrary(claim, low)
        if self._folded(claim, low, found):
            return Contrary(None, "", "", folded=True)
        return found

    def _folded(self, claim: Claim, low: int, found: Contrary | None) -> bool:
        """Whether iterations or calls without records come before the contrary, so that it proves nothing."""
        if isinstance(claim, Equal | Answer | Iterated) or (
            isinstance(claim, Truth) and claim.test is not None and not names_in(claim.test)
        ):
            return False
        at = bisect.bisect_left(self.ledger.folds, low)
        nearest = self.ledger.folds[at] if at < len(self.ledger.folds) else None
        return nearest is not None and (found is None or found.step is None or found.step >= nearest)

    def _contrary(self, claim: Claim, low: int) -> Contrary | None:
        if isinstance(claim, Has):
            return self._of_value(claim, low)
        if isinstance(claim, Goes | Grows) and claim.subject is not None:
            return self._of_change(claim.subject, low)
        if isinstance(claim, Truth):
            return self._of_truth(claim, low)
        if isinstance(claim, Returned):
            return self._of_return(claim, low)
        if isinstance(claim, Equal):
            return self._of_equation(claim, low)
        if isinstance(claim, Row):
            return self._of_row(claim, low)
        if isinstance(claim, Denied):
            return self._of_denial(claim, low)
        return self._of_the_rest(claim, low)

    def _of_value(self, claim: Has, low: int) -> Contrary | None:
        unknown = sorted(names_in(claim.subject) - self.ledger.names - vars(builtins).keys())
        if unknown:
            return Contrary(None, "", f"the program has no name {unknown[0]}")
        if claim.how is How.BECOMES:
            return self._of_change(claim.subject, low)
        try:
            actual = self.ledger.value(claim.subject, low)
        except Unknowable:
            return self._of_change(claim.subject, low)
        return Contrary(low, value_text(actual), f"{words(claim.subject)} is {value_text(actual)} here")

    def _of_change(self, subject: ast.expr, low: int) -> Contrary | None:
        for entry in self.ledger.histories.of(subject):
            if entry.t >= low:
                old = "" if entry.old is MISSING else f" from {value_text(entry.old)}"
                text = f"the next change of {words(subject)} is{old} to {value_text(entry.new)}"
                return Contrary(entry.t, value_text(entry.new), text)
        return Contrary(None, "", f"{words(subject)} does not change any more after this point")

    def _of_truth(self, claim: Truth, low: int) -> Contrary | None:
        if claim.test is None:
            at = bisect.bisect_left(self.ledger.course.condition_times, low)
            if at >= len(self.ledger.course.conditions):
                return None
            condition = self.ledger.course.conditions[at]
            return Contrary(condition.t, str(condition.truth), f"{words(condition.test)} is {condition.truth} here")
        if not names_in(claim.test):
            return self._of_plain_truth(claim.test)
        text = f"{words(claim.test)} is {not claim.truth} here"
        _, hit = self.finder.search.conditions.first(claim.test, not claim.truth, low)
        if hit is not None:
            return Contrary(hit, str(not claim.truth), text)
        try:
            actual = bool(self.ledger.value(claim.test, low))
        except Unknowable:
            return None
        return (
            Contrary(low, str(actual), f"{words(claim.test)} is {actual} here") if actual is not claim.truth else None
        )

    def _of_plain_truth(self, test: ast.expr) -> Contrary | None:
        try:
            actual = evaluate(test, no_names)
        except Unknowable:
            return None
        return Contrary(None, str(actual), f"{words(test)} is {actual}, and the run compares no such values here")

    def _of_return(self, claim: Returned, low: int) -> Contrary | None:
        for activation in self.ledger.course.returns:
            if activation.last < low or not may_return(self.finder.search, claim, activation):
                continue
            actual = value_text(given(self.ledger, claim, activation))
            did = f"{claim.function} makes" if makes(claim, activation) else f"{activation.short_name} returns"
            return Contrary(activation.last, actual, f"{did} {actual} here")
        return None

    def _of_equation(self, claim: Equal, low: int) -> Contrary | None:
        for part in claim.parts:
            if isinstance(part, ast.Constant):
                continue
            value = self._worked_out(part, low)
            if value is not MISSING:
                return Contrary(None, value_text(value), f"{words(part)} is {value_text(value)}")
        return None

    def _worked_out(self, part: ast.expr, low: int) -> Any:
        try:
            return self.ledger.value(part, low)
        except Unknowable:
            return MISSING

    def _of_denial(self, claim: Denied, low: int) -> Contrary | None:
        try:
            hit = self.finder.find(claim.of, low, low, -1) or self.finder.find(claim.of, 0, 0, -1)
        except Uncheckable:
            hit = None
        return Contrary(hit.step, "so", "the text says that this is not so, and it is") if hit is not None else None

    def _of_row(self, claim: Row, low: int) -> Contrary | None:
        told = []
        first = self._row_moment(claim, low)
        for cell in claim.cells:
            value = self._worked_out(cell.subject, first)
            if value is not MISSING:
                told.append(f"{words(cell.subject)} = {value_text(value)}")
        text = ", ".join(told)
        return (
            Contrary(first, text, f"no moment from here on has these values together; one that comes near has {text}")
            if told
            else None
        )

    def _row_moment(self, claim: Row, low: int) -> int:
        """A moment that agrees with all cells but one, or `low`."""
        for left_out in range(len(claim.cells)):
            cells = tuple(cell for number, cell in enumerate(claim.cells) if number != left_out)
            if cells:
                try:
                    hit = self.finder.find(Row(start=0, end=0, sentence=0, cells=cells), low, low, -1)
                except Uncheckable:
                    continue
                if hit is not None:
                    return hit.t
        return low

    def _of_the_rest(self, claim: Claim, low: int) -> Contrary | None:
        if isinstance(claim, Iterated):
            counts = sorted({run.loop.count for run in self.ledger.course.loops if run.end >= low}) or [
                run.loop.count for run in self.ledger.course.loops
            ]
            text = ", ".join(map(str, counts[:4]))
            return Contrary(None, text, f"the loops from here on have {text} iterations") if counts else None
        if isinstance(claim, Answer):
            entry = self.ledger.entry
            actual = (
                value_text(self.ledger.memory.read(entry.value, entry.last))
                if entry is not None
                else value_text(self.ledger.stdout)
            )
            return Contrary(entry.last if entry is not None else None, actual, f"the result is {actual}")
        if isinstance(claim, Raised):
            kinds = sorted({getattr(self.ledger.records[t], "type", "") for t in self.ledger.raises})
            return (
                Contrary(self.ledger.raises[0], ", ".join(kinds), f"the run raises {', '.join(kinds)}")
                if kinds
                else None
            )
        if isinstance(claim, Called):
            return self._of_call(claim, low)
        if isinstance(claim, Printed):
            return Contrary(
                None, value_text(self.ledger.stdout), f"the program prints {value_text(self.ledger.stdout)}"
            )
        return None

    def _of_call(self, claim: Called, low: int) -> Contrary | None:
        for activation in self.ledger.course.activations:
            if activation.first >= low and is_called(activation, claim.function):
                given = ", ".join(
                    f"{name}={value_text(self.ledger.memory.read(value, activation.first), 60)}"
                    for name, value in activation.args.items()
                    if name != "self"
                )
                return Contrary(activation.first, given, f"the next call is {activation.short_name}({given})")
        return None
