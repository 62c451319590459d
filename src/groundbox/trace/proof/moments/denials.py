"""Where something does not happen: in the iteration that is told, or in the call.

What is denied may well happen elsewhere in the run. Then a text may mean the one place or the other, and where it is
not so in the place that is told, nobody can say.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable
from typing import Any

from groundbox.trace.proof.claims import Denied, Idle, Never, Raised, Returned
from groundbox.trace.proof.moments.hit import Hit, Uncheckable
from groundbox.trace.proof.moments.loops import iteration_around
from groundbox.trace.proof.moments.search import Search
from groundbox.trace.proof.values.bounds import Unknowable
from groundbox.trace.proof.values.operators import truth

Find = Callable[[Search, Any, int, int, int], Hit | None]


def denied(search: Search, claim: Denied, low: int, now: int, find: Find) -> Hit | None:
    """What is denied does not happen: in the whole iteration that is told, or nowhere in the run."""
    whole = claim.never or isinstance(claim.of, Returned | Raised)
    begin, end = stretch(search, now, whole=whole)
    low = begin if claim.never else low
    hit = find(search, claim.of, low, low, -1)
    if hit is not None and hit.t <= end:
        return None
    first = find(search, claim.of, begin, begin, -1)
    is_iteration = not whole and iteration_around(search, now) == (begin, end)
    if is_iteration and (first is None or first.t > end):
        return Hit(now, -1)
    if hit is not None or first is not None or find(search, claim.of, 0, 0, -1) is not None:
        raise Uncheckable("it happens elsewhere")
    return Hit(now, -1)


def never(search: Search, claim: Never, low: int, now: int, after: int) -> Hit | None:
    """No value that the subject takes is such a one; where it takes one in some calls only, others may be meant."""
    so: dict[int, bool] = {}
    is_known = not search.ledger.folds
    for entry in search.ledger.histories.of(claim.subject):
        try:
            holds = truth(search.ledger.value(claim.test, entry.t, entry.frame))
        except Unknowable:
            is_known = False
            continue
        so[entry.frame] = so.get(entry.frame, False) or holds
    if so and all(so.values()):
        return None
    if any(so.values()) or not so or not is_known:
        raise Uncheckable("it is so in another call, or nobody knows")
    return Hit(now, -1)


def idle(search: Search, claim: Idle, low: int, now: int, after: int) -> Hit | None:
    """The `if` that was asked last, in the iteration or the call that goes on, has a branch that does nothing."""
    begin, _ = stretch(search, now, whole=False)
    frame = search.ledger.frames.running(now)
    steps = [step for step in search.ledger.course.steps if step.frame == frame and step.step >= begin]
    search.ledger.spend(len(steps))
    asked = [at for at, step in enumerate(steps) if step.step <= now and isinstance(step.statement, ast.If)]
    if not asked or steps[asked[-1]].inline:
        raise Uncheckable("no condition was asked here")
    statement = steps[asked[-1]].statement
    assert isinstance(statement, ast.If)
    within = {id(node) for part in (*statement.body, *statement.orelse) for node in ast.walk(part)}
    branch = itertools.takewhile(lambda step: id(step.statement) in within, steps[asked[-1] + 1 :])
    does = any(step.effects or step.calls or step.yields or isinstance(step.statement, ast.Return) for step in branch)
    return None if does else Hit(now, -1)


def stretch(search: Search, now: int, *, whole: bool) -> tuple[int, int]:
    """Beginning and end of the iteration that goes on, or (`whole`, and outside of loops) of the call."""
    activation = search.ledger.structure.activations.get(search.ledger.frames.running(now))
    begin, end = (activation.first, activation.last) if activation is not None else (0, len(search.ledger.records))
    iteration = None if whole else iteration_around(search, now)
    return iteration if iteration is not None and begin <= iteration[0] else (begin, end)
