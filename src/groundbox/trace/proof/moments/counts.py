"""So many calls, levels of calls in each other, and the line in which something happens."""

from __future__ import annotations

import bisect

from groundbox.trace.proof.claims import AtLine, Counted
from groundbox.trace.proof.moments.hit import Hit
from groundbox.trace.proof.moments.search import Search
from groundbox.trace.proof.records.ledger import Ledger
from groundbox.trace.proof.records.scene import is_called
from groundbox.trace.structure import Step


def counted(search: Search, claim: Counted, low: int, now: int, after: int) -> Hit | None:
    """The run has so many calls, or levels of calls in each other."""
    calls = [a for a in search.ledger.course.activations if a.name != "<module>" and not a.class_body]
    if claim.what == "calls":
        name = claim.function
        fitting = [a for a in calls if name is None or is_called(a, name)]
        return Hit(now, fitting[0].first) if len(fitting) == claim.count and fitting else None
    deepest: dict[str, int] = {}
    for activation in calls:
        depth, above = 1, activation
        while above.parent in search.ledger.structure.activations:
            above = search.ledger.structure.activations[above.parent]
            depth += above.name == activation.name
        deepest[activation.name] = max(deepest.get(activation.name, 0), depth)
    return Hit(now, 0) if claim.count in deepest.values() else None


def at_line(search: Search, claim: AtLine, low: int, now: int, after: int) -> Hit | None:
    """Something happens in the line."""
    at = bisect.bisect_right(search.ledger.course.step_times, low)
    around = search.ledger.course.step_of(low)
    for step in (*([around] if around is not None else []), *search.ledger.course.steps[at:]):
        if _is_line(step, search.ledger, claim.line):
            return Hit(now, step.step)
    return None


def _is_line(step: Step, ledger: Ledger, line: int) -> bool:
    return step.line == line or any(getattr(ledger.records[t], "n", None) == line for t in step.records)
