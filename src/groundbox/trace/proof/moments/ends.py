"""Where a name is deleted, a generator has nothing more to give, a loop ends, an exception is handled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from groundbox.trace import schema
from groundbox.trace.proof.claims import Deleted, Ends, Exhausted, Handled
from groundbox.trace.proof.moments.hit import Hit, Uncheckable
from groundbox.trace.proof.moments.loops import begin_of
from groundbox.trace.proof.moments.search import Search
from groundbox.trace.proof.records.course import LoopRun
from groundbox.trace.proof.records.scene import is_called

_OTHERWISE: Final = ("delete", "remove", "discard", "pop", "drop")
"""In the names of functions: what may take away something that a text calls by the name of a variable."""


def deleted(search: Search, claim: Deleted, low: int, now: int, after: int) -> Hit | None:
    """The name is deleted, or has been and was not set again."""
    ledger = search.ledger
    times = [t for t, record in enumerate(ledger.records) if type(record) is schema.Del and record.name == claim.name]
    for t in times:
        if t >= low:
            return Hit(t, t)
    last = max((t for t, _ in ledger.frames.sets.get(claim.name, ()) if t <= now), default=-1)
    if times and last < times[-1] <= now:
        return Hit(now, times[-1])
    if any(word in name for name in ledger.functions for word in _OTHERWISE) or _removes(search):
        raise Uncheckable("something else of that name may be meant")
    return None


def _removes(search: Search) -> bool:
    """Whether something is taken out of a container."""
    return any(delta.removed for delta in search.deltas)


def exhausted(search: Search, claim: Exhausted, low: int, now: int, after: int) -> Hit | None:
    """A generator of the function returns, or has done so last."""
    ended = [each for each in search.ledger.calls.of(claim.function) if each.outcome == "return"]
    coming = min((each.last for each in ended if each.last >= low), default=None)
    if coming is not None:
        return Hit(coming, coming)
    return Hit(now, ended[-1].last) if ended else None


def ends(search: Search, claim: Ends, low: int, now: int, after: int) -> Hit | None:
    """Some loop ends so; a `while` may be said to end early whenever its test is false."""
    if claim.way == "on":
        return _goes_on(search, now)
    runs = search.ledger.course.loops
    fitting = [run for run in runs if _WAYS[claim.way](run)]
    if fitting:
        return Hit(now, fitting[-1].start)
    if search.ledger.folds or (claim.way == "early" and any(run.loop.exit == "false" for run in runs)):
        raise Uncheckable("another loop may be meant")
    return None


def _goes_on(search: Search, now: int) -> Hit | None:
    """Some loop around is not left in the iteration that goes on; one that has no more items may be said to go on."""
    around = [run for run in search.ledger.course.loops if run.start <= now <= run.end]
    if not around:
        raise Uncheckable("no loop goes on")
    for run in around:
        begin = begin_of(run, run.loop.count)
        if run.loop.exit not in ("break", "return", "raise") or begin is None or now < begin:
            return Hit(now, -1)
    return None


_WAYS: Final[dict[str, Callable[[LoopRun], bool]]] = {
    "never": lambda run: run.loop.exit in ("open", None),
    "early": lambda run: run.loop.exit not in ("exhausted", "false"),
    "exhausted": lambda run: run.loop.exit not in ("break", "return", "false"),
}


def handled(search: Search, claim: Handled, low: int, now: int, after: int) -> Hit | None:
    """The exception that came up last is taken by a handler, or by none."""
    came_up = [t for t in search.ledger.raises if t <= now]
    first = came_up[-1] if came_up else low
    for step in search.ledger.course.steps:
        if step.raised is None or step.raised < first or step.handled is None:
            continue
        activation = search.ledger.structure.activations.get(step.frame)
        is_there = claim.function is None or (activation is not None and is_called(activation, claim.function))
        if not claim.handled:
            return None if step.raised == first and is_there else Hit(now, -1)
        if is_there:
            return Hit(max(now, step.raised), step.raised)
    return None if claim.handled else Hit(now, -1)
