"""For every claim, the first moment from a given one on at which it holds.

The rooms beside this one know how, one for each kind of claim; what was found once is remembered here.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final

from groundbox.trace import schema
from groundbox.trace.proof.claims import (
    Alters,
    Answer,
    AtLine,
    BackIn,
    Called,
    Caught,
    Changed,
    Claim,
    Counted,
    Deleted,
    Denied,
    Ends,
    Equal,
    Exhausted,
    Goes,
    Grows,
    Handled,
    Has,
    Held,
    Idle,
    InIteration,
    Iterated,
    Jumped,
    Kept,
    Looped,
    Mapped,
    Moved,
    Never,
    Passed,
    Printed,
    Raised,
    Remaining,
    Returned,
    Row,
    Span,
    Truth,
    Turn,
    Unwound,
    Yields,
)
from groundbox.trace.proof.moments import (
    calls,
    changes,
    comprehensions,
    containers,
    counts,
    denials,
    ends,
    exceptions,
    loops,
    output,
    returns,
    sources,
    truths,
    turns,
    values,
)
from groundbox.trace.proof.moments.hit import Hit, Uncheckable
from groundbox.trace.proof.moments.search import Search
from groundbox.trace.proof.records.ledger import Ledger
from groundbox.trace.proof.values.code import shape

_NOWHERE: Final = ()


class Finder:
    """Finds moments in one ledger.

    Attributes:
        not_before: Claims that are looked for from a moment on only, whatever was told before them.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.search = Search(ledger)
        self.not_before: dict[Claim, int] = {}
        self._found: dict[tuple[Claim, int, int, int], Hit | Uncheckable | tuple[()]] = {}

    def find(self, claim: Claim, low: int, now: int, after: int) -> Hit | None:
        """The first moment from `low` on.

        Args:
            low: From where on to look.
            now: Where the sentence has come to.
            after: A change must come after this record, which an earlier claim of the same name has taken.

        Raises:
            Uncheckable: The trace cannot say.
            Exhausted: Too much work was done already.
        """
        begin = self.not_before.get(claim, 0)
        low, now = max(low, begin), max(now, begin)
        key = (claim, low, now, after)
        found = self._found.get(key)
        if found is None:
            try:
                found = _FINDERS[type(claim)](self.search, claim, low, now, after) or _NOWHERE
            except Uncheckable as why:
                found = why
            self._found[key] = found
        if isinstance(found, Uncheckable):
            raise found
        return found if isinstance(found, Hit) else None

    def also_taken(self, claim: Claim, hit: Hit) -> list[str]:
        """Names whose change at this record is told with the claim: parameters of a call, a list that grew."""
        record = self.search.record(hit.step)
        if isinstance(claim, Changed) and isinstance(claim.target, ast.Name) and isinstance(record, schema.Mutate):
            return [shape(claim.target)]
        return [shape(ast.Name(name)) for name in record.args] if isinstance(record, schema.Call) else []

    def beginning(self, t: int) -> int:
        """Where the step began that record `t` belongs to: what one line did may be told in any order."""
        record = self.search.record(t)
        if not isinstance(record, schema.Set | schema.Del | schema.Mutate | schema.Return | schema.Yield):
            return t
        step = self.ledger.course.step_of(t)
        return step.step if step is not None and step.step <= t <= step.last else t


def _denied(search: Search, claim: Denied, low: int, now: int, after: int) -> Hit | None:
    return denials.denied(search, claim, low, now, _FINDERS[type(claim.of)])


_FINDERS: Final[dict[type[Claim], Callable[[Search, Any, int, int, int], Hit | None]]] = {
    Has: values.has,
    Goes: changes.goes,
    Grows: changes.grows,
    Alters: changes.alters,
    Truth: truths.is_true,
    Called: calls.called,
    BackIn: calls.back_in,
    Returned: returns.returned,
    Kept: returns.kept,
    Iterated: loops.iterated,
    InIteration: loops.in_iteration,
    Span: loops.in_span,
    Jumped: loops.jumped,
    Held: truths.held,
    Counted: counts.counted,
    AtLine: counts.at_line,
    Changed: containers.changed,
    Yields: values.yields,
    Row: values.row,
    Mapped: comprehensions.mapped,
    Passed: comprehensions.passed,
    Printed: output.printed,
    Denied: _denied,
    Never: denials.never,
    Idle: denials.idle,
    Turn: turns.turn,
    Remaining: turns.remaining,
    Moved: changes.moved,
    Looped: sources.looped,
    Deleted: ends.deleted,
    Exhausted: ends.exhausted,
    Ends: ends.ends,
    Handled: ends.handled,
    Raised: exceptions.raised,
    Caught: exceptions.caught,
    Unwound: exceptions.unwound,
    Equal: values.equals,
    Answer: output.answer,
}
