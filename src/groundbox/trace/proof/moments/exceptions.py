"""Where an exception comes up."""

from __future__ import annotations

import ast
import bisect
from typing import Any

from groundbox.trace import schema
from groundbox.trace.proof.claims import Caught, Raised, Unwound
from groundbox.trace.proof.moments.calls import is_given
from groundbox.trace.proof.moments.hit import Hit
from groundbox.trace.proof.moments.search import Search
from groundbox.trace.proof.records.scene import is_called
from groundbox.trace.proof.values.likeness import same


def raised(search: Search, claim: Raised, low: int, now: int, after: int) -> Hit | None:
    """The exception comes up."""
    for t in search.ledger.raises:
        record = search.ledger.records[t]
        assert isinstance(record, schema.Raise)
        if t < low or (claim.type is not None and record.type.rpartition(".")[2] != claim.type):
            continue
        if claim.message is not None and not _is_message(search, claim.message, record, t):
            continue
        if claim.by is not None and not _by(search, record.f, claim.by):
            continue
        if claim.handled and not any(
            step.handled is not None and step.step >= 0
            for step in search.ledger.course.steps
            if step.raised is not None
        ):
            continue
        return Hit(t, t)
    return None


def _is_message(search: Search, said: Any, record: schema.Raise, t: int) -> bool:
    given = [search.ledger.memory.read(value, t) for value in record.args[:1]]
    return any(same(said, value) or said == str(value) for value in given)


def _by(search: Search, frame: int, name: str) -> bool:
    activation = search.ledger.structure.activations.get(frame)
    return activation is not None and is_called(activation, name)


def caught(search: Search, claim: Caught, low: int, now: int, after: int) -> Hit | None:
    """An `except` is asked whether it takes the exception."""
    course = search.ledger.course
    for step in course.steps[bisect.bisect_left(course.step_times, low) :]:
        if isinstance(step.clause, ast.ExceptHandler) and step.condition is claim.matches:
            type_ = ast.unparse(step.clause.type) if step.clause.type is not None else ""
            if type_ == claim.type:
                return Hit(step.step, step.step)
    return None


def unwound(search: Search, claim: Unwound, low: int, now: int, after: int) -> Hit | None:
    """Such a call ends with an exception."""
    ended = [each for each in search.ledger.calls.of(claim.function) if each.outcome == "unwind" and each.last >= low]
    left = [each.last for each in ended if is_given(search, claim, each)]
    return Hit(min(left), min(left)) if left else None
