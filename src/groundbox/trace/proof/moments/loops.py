"""Where a loop has so many iterations, where an iteration begins, and where what is told of several ends."""

from __future__ import annotations

import ast
import bisect
from collections.abc import Iterator, Sequence
from typing import Final

from groundbox.trace.proof.claims import Claim, InIteration, Iterated, Jumped, Returned, Span
from groundbox.trace.proof.moments.hit import Hit
from groundbox.trace.proof.moments.search import Search
from groundbox.trace.proof.records.course import LoopRun
from groundbox.trace.structure import Step

_SORTS: Final = frozenset({"", "outer", "inner", "for", "while"})
"""What a text may say of a loop without a name that is the loop's own."""


def iterated(search: Search, claim: Iterated, low: int, now: int, after: int) -> Hit | None:
    """A loop that may be meant has so many iterations."""
    fitting = search.ledger.course.loops if claim.recap else list(_loops_at(search, claim, low, now, after))
    if not claim.ends:  # `the loop over i runs once; the loop over i runs once` tells two of them, where there are two
        fitting = sorted(fitting, key=lambda run: run.start == after)
    for run in fitting:
        if claim.recap and not _is_meant(claim, run):
            continue
        if run.loop.count == claim.count and claim.exit in ("", run.loop.exit):
            return Hit(max(now, run.end) if claim.ends else now, run.start)
    return None


def _loops_at(search: Search, claim: Iterated, low: int, now: int, after: int) -> Iterator[LoopRun]:
    """The loops that a text may mean: the one that ends next, or else those around, before and after."""
    fitting = [run for run in search.ledger.course.loops if _is_meant(claim, run)]
    if claim.ends:
        ending = [run for run in fitting if run.start <= now <= run.end and run.end > after]
        coming = sorted((run for run in fitting if run.end >= max(low, after + 1)), key=lambda run: run.end)[:1]
        yield from sorted((*ending, *coming), key=lambda run: (run.end, -run.depth))
        return
    around = [run for run in fitting if run.start <= now <= run.end]
    over = [run for run in fitting if run.start <= now and low <= run.end < now]
    before = [run for run in fitting if run.end <= now][-1:]
    coming = [run for run in fitting if run.start >= now and run not in around][:2]
    iteration = iteration_around(search, now)
    inside = [run for run in fitting if iteration is not None and now <= run.start and run.end <= iteration[1]]
    if inside and claim.which not in _SORTS:  # none of another iteration is meant
        yield from (*reversed(around), *inside, *reversed(over))
        return
    innermost = max(_around(search, now), key=lambda run: run.start, default=None)
    if innermost is not None:  # a loop of the same name may go on in a caller
        yield from (run for run in around if run is innermost)
        yield from (run for run in coming if run.end <= innermost.end)
    following = [run for run in fitting if run.start >= low][:1]
    yield from (*reversed(around), *coming, *reversed(over), *following, *before)


def in_iteration(search: Search, claim: InIteration, low: int, now: int, after: int) -> Hit | None:
    """The iteration begins, or goes on."""
    if claim.exit:
        for run in search.ledger.course.loops:
            ways = (claim.by,) if claim.by else ("break", "return", "raise")
            if run.end >= low and run.loop.exit in ways and run.loop.count == claim.number:
                return Hit(max(now, low), run.end)
        return None
    going_on = {step.step for step in search.ledger.course.open_steps(now) if step.calls}
    for run in search.ledger.course.loops:  # its test called a function, which was told first
        if begin_of(run, claim.number) in going_on:
            return Hit(now, run.start)
    begins = [
        t for run in _around(search, now) if (t := begin_of(run, claim.number)) is not None and t >= low and t > after
    ]
    if begins:
        return Hit(min(begins), min(begins))
    at = bisect.bisect_left(search.ledger.course.iterations, (low, -1))
    for t, number in search.ledger.course.iterations[at:]:
        if number == claim.number and t > after:
            return Hit(t, t)
    if claim.recap:  # it ran without records
        begun = next((t for run in search.ledger.course.loops if (t := begin_of(run, claim.number)) is not None), None)
        return Hit(begun, begun) if begun is not None else None
    return _around_iteration(search, claim.number, now)


def jumped(search: Search, claim: Jumped, low: int, now: int, after: int) -> Hit | None:
    """Such a statement runs in the iteration that goes on."""
    kind = ast.Break if claim.way == "break" else ast.Continue
    _, end = iteration_around(search, now) or (low, len(search.ledger.records))
    course = search.ledger.course
    for step in course.steps[bisect.bisect_left(course.step_times, low) :]:
        if step.step > end:
            break
        if isinstance(step.statement, kind):
            return Hit(step.step, step.step)
    return None


def in_span(search: Search, claim: Span, low: int, now: int, after: int) -> Hit | None:
    """The loop whose iterations these are: hit at the first of them."""
    return next(in_spans(search, claim, low, now), None)


def in_spans(search: Search, claim: Span, low: int, now: int) -> Iterator[Hit]:
    """The loops whose iterations these may be, each hit at the first of them.

    Those that go on and have not come to them yet go first, the innermost before the others; then one that begins in
    the loop that goes on; then those that have come to them already; at last one that begins afterwards.
    """
    having = [run for run in _having(search, claim) if run.end >= min(low, now)]
    around = [begin for run in having if run.start <= now <= run.end for begin in _begins(run, claim)]
    yield from (Hit(begin, begin) for begin in sorted(around) if begin >= low)
    others = (run for run in having if not run.start <= now <= run.end)
    coming = next(((begin, run.end) for run in others for begin in _begins(run, claim) if begin >= low), None)
    innermost = max(_around(search, now), key=lambda run: run.start, default=None)
    is_inside = coming is not None and innermost is not None and coming[1] <= innermost.end
    if coming is not None and is_inside:
        yield Hit(coming[0], coming[0])
    yield from (Hit(now, begin) for begin in sorted(around, reverse=True) if begin < low)
    if coming is not None and not is_inside:
        yield Hit(coming[0], coming[0])


def _begins(run: LoopRun, claim: Span) -> Iterator[int]:
    begin = begin_of(run, claim.begin)
    if begin is not None:
        yield begin


def _having(search: Search, claim: Span) -> Sequence[LoopRun]:
    """The loops that have these iterations, and the name that the text gives."""
    return [run for run in search.ledger.course.loops if run.loop.count >= claim.finish and _is_meant(claim, run)]


def spans(search: Search, claim: Span) -> Iterator[tuple[int, int]]:
    """Beginning and end of every run of iterations that a text which looks back may mean."""
    for run in _having(search, claim):
        for begin in _begins(run, claim):
            yield begin, span_end(search, claim, begin)


def _around(search: Search, now: int) -> list[LoopRun]:
    """The loops that are going on."""
    return [run for run in search.ledger.course.loops if run.start <= now <= run.end]


def _around_iteration(search: Search, number: int, now: int) -> Hit | None:
    """The iteration that is going on already."""
    for run in search.ledger.course.loops:
        if run.start <= now <= run.end:
            begun = [i for i in run.loop.iterations if i.header is not None and i.header.step <= now]
            if begun and begun[-1].number == number:
                return Hit(now, run.start)
    return None


def end_of(search: Search, claim: Claim, hit: Hit, low: int) -> int:
    """When what a claim tells as a whole is over: a loop that begins from `low` on, a call; else -1."""
    if isinstance(claim, Returned):
        return hit.t
    if not isinstance(claim, Iterated) or hit.step < low:
        return -1
    return max((run.end for run in search.ledger.course.loops if run.start == hit.step), default=-1)


def span_end(search: Search, claim: Span, start: int) -> int:
    """The last record of the last iteration of a span that begins at `start`."""
    for run in search.ledger.course.loops:
        if begin_of(run, claim.begin) == start:
            following = begin_of(run, claim.finish + 1)
            return following if following is not None else run.end
    return len(search.ledger.records)


def iteration_at(search: Search, t: int) -> tuple[int, int] | None:
    """Beginning and end of the iteration that begins at `t`."""
    for run in search.ledger.course.loops:
        if run.start <= t <= run.end:
            for iteration in run.loop.iterations:
                if begin_of(run, iteration.number) == t:
                    following = begin_of(run, iteration.number + 1)
                    return t, run.end if following is None else following
    return None


def iteration_around(search: Search, t: int) -> tuple[int, int] | None:
    """Beginning and end of the iteration that goes on at `t`, of the innermost loop."""
    run = max(_around(search, t), key=lambda run: run.start, default=None)
    if run is None or (run.loop.closing is not None and t >= run.loop.closing.step):
        return None
    begins = [begin_of(run, each.number) for each in run.loop.iterations]
    begun = max((begin for begin in begins if begin is not None and begin <= t), default=None)
    return iteration_at(search, begun) if begun is not None else None


def comes_again(search: Search, number: int, t: int) -> bool:
    """Whether another loop comes to an iteration of this number after `t`: then it may be the one that is meant."""
    return search.ledger.course.last_iterations.get(number, -1) > t


def end_of_iteration(search: Search, number: int, hit: Hit) -> int:
    """When the iteration of this number is over that a text has come to; -1 where it ran without records.

    Where several loops may be meant, it is that of the one whose iteration takes longest.
    """
    ends = [-1]
    for run in _around(search, hit.t):
        begin, following = begin_of(run, number), begin_of(run, number + 1)
        if begin is not None and begin <= hit.t and (following is None or hit.t < following):
            ends.append(run.end if following is None else following)
    return max(ends)


def begin_of(run: LoopRun, number: int) -> int | None:
    """When an iteration began; of one that ran without records, where that is said."""
    for iteration in run.loop.iterations:
        if iteration.number == number:
            first = iteration.header or next((node for node in iteration.body if isinstance(node, Step)), None)
            if first is not None and first.step in first.yields:  # it began in the fold that stands before it
                return first.step - 1
            return first.step if first is not None else None
    folds = (fold for fold in run.loop.folds if fold.after < number <= fold.after + fold.iterations)
    return next((fold.record for fold in folds), None)


def _is_meant(claim: Iterated | Span, run: LoopRun) -> bool:
    if claim.which in ("for", "while"):
        return run.loop.kind == claim.which
    if claim.which in ("outer", "inner"):
        return (run.depth == 0) == (claim.which == "outer")
    if not claim.which:
        return True
    loop = run.loop.statement
    heads = (loop.target, loop.iter) if isinstance(loop, ast.For | ast.AsyncFor) else (loop.test,)
    return any(ast.unparse(part).strip("()") == claim.which.strip("()") for part in heads)
