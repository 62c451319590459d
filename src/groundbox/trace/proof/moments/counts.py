"""So many calls, levels of calls in each other, and the line in which something happens."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Final

from groundbox.trace.proof.claims import AtLine, Counted
from groundbox.trace.proof.moments.hit import Hit, Uncheckable
from groundbox.trace.proof.moments.search import Search
from groundbox.trace.proof.records.frames import MISSING
from groundbox.trace.proof.records.histories import Entry
from groundbox.trace.proof.records.ledger import Ledger
from groundbox.trace.proof.records.scene import is_called
from groundbox.trace.proof.values.likeness import same
from groundbox.trace.structure import Activation, Step


def counted(search: Search, claim: Counted, low: int, now: int, after: int) -> Hit | None:
    """The run has so many calls, or levels of calls in each other."""
    if claim.what in _OFTEN:
        return _often(search, claim, now)
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


def _often(search: Search, claim: Counted, now: int) -> Hit | None:
    """Something happens so often in the whole run, or in one of the stretches that a text may mean."""
    counts = _OFTEN[claim.what](search, claim)
    if claim.count in counts:
        return Hit(now, -1)
    if search.ledger.folds:
        raise Uncheckable("a part of the run is left out")
    return None


def _self_calls(search: Search, claim: Counted) -> Collection[int]:
    """All calls of a function in itself, those that one of its calls makes, and those deeper down, too."""
    calls = search.ledger.calls.of(claim.function or "")
    frames = Counter(each.frame for each in calls)
    directly = Counter(each.parent for each in calls if each.parent in frames)
    within = [each for each in calls if _above(search, each) & frames.keys()]
    return {directly.total(), len(within), *directly.values()}


def _above(search: Search, activation: Activation) -> set[int]:
    above: set[int] = set()
    parent = search.ledger.structure.activations.get(activation.parent)
    while parent is not None:
        above.add(parent.frame)
        parent = search.ledger.structure.activations.get(parent.parent)
    return above


def _yields(search: Search, claim: Counted) -> Collection[int]:
    """What all generators of a function give out, and what each does."""
    frames = {each.frame for each in search.ledger.calls.of(claim.function or "")}
    given = Counter(f for t in search.ledger.yields if (f := search.record(t).f) in frames)
    return {given.total(), *(given[frame] for frame in frames)}


def _changes(search: Search, claim: Counted) -> Collection[int]:
    """Changes in the run, in each call and in each loop: all of them, and those to another value.

    A first value is a change only where a loop gives it.
    """
    assert claim.subject is not None
    entries = search.ledger.histories.of(claim.subject)
    counts: set[int] = set()
    frames = {entry.frame for entry in entries}
    for some in (entries, *([each for each in entries if each.frame == frame] for frame in frames)):
        counts |= _sizes(some)
        for run in search.ledger.course.loops:
            search.ledger.spend(len(some))
            inside = [entry for entry in some if run.start <= entry.t <= run.end]
            counts |= {len(inside), *_sizes(inside)} if inside else set()
    return counts


def _sizes(entries: Sequence[Entry]) -> set[int]:
    again = [entry for entry in entries if entry.old is not MISSING]
    return {len(again), len([entry for entry in again if not same(entry.old, entry.new)])}


def _prints(search: Search, claim: Counted) -> Collection[int]:
    """A text may be printed more often than is told here."""
    said = claim.text.strip("\n")
    written = "".join(search.record(t).text for t in search.ledger.outs)
    most = written.count(said) if said else len(search.ledger.outs)
    return range(most + 1)


def _lines(search: Search, claim: Counted) -> Collection[int]:
    lines = search.ledger.stdout.splitlines()
    return {len(lines), len([line for line in lines if line.strip()])}


def _line(search: Search, claim: Counted) -> Collection[int]:
    """The numbers of the lines of output that are so."""
    said = claim.text.strip("\n")
    return {number for number, line in enumerate(search.ledger.stdout.splitlines(), 1) if line == said}


_OFTEN: Final[dict[str, Callable[[Search, Counted], Collection[int]]]] = {
    "self-calls": _self_calls, "yields": _yields, "changes": _changes, "prints": _prints, "lines": _lines,
    "line": _line,
}  # fmt: skip


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
