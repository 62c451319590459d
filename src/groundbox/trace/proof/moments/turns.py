"""Which iteration one speaks of, and how many are left, where only one loop can be meant."""

from __future__ import annotations

from groundbox.trace.proof.claims import Remaining, Turn
from groundbox.trace.proof.moments.hit import Hit, Uncheckable
from groundbox.trace.proof.moments.loops import begin_of
from groundbox.trace.proof.moments.search import Search
from groundbox.trace.proof.records.course import LoopRun


def turn(search: Search, claim: Turn, low: int, now: int, after: int) -> Hit | None:
    """The iteration begins, or goes on."""
    run = _only_run(search, now)
    if not claim.is_last and run.loop.kind != "for":
        raise Uncheckable("the loop takes no items")
    if claim.number is not None and (
        claim.number > run.loop.count or (claim.is_last and claim.number < run.loop.count)
    ):
        return None
    number = run.loop.count if claim.number is None else claim.number
    begin, following = begin_of(run, number), begin_of(run, number + 1)
    if begin is None or (following is not None and following <= now):
        raise Uncheckable("the iteration is left out, or is over")
    headers = [each.header.last for each in run.loop.iterations if each.number == number and each.header is not None]
    given = headers if run.loop.kind == "for" else []  # when its target has its value
    return Hit(max(begin, now, *given), begin)


def remaining(search: Search, claim: Remaining, low: int, now: int, after: int) -> Hit | None:
    """So many iterations come yet; the one that goes on may count or not."""
    runs = [run for run in search.ledger.course.loops if run.start <= now <= run.end]
    if not runs:
        raise Uncheckable("no loop goes on")
    for run in runs:
        begins = [begin_of(run, number) for number in range(1, run.loop.count + 1)]
        left = len([begin for begin in begins if begin is None or begin > now])
        if claim.count in (left, left + 1) or (claim.at_most and claim.count <= left):
            return Hit(now, -1)
        search.ledger.spend(run.loop.count)
    if any(run.loop.folds or run.loop.exit in ("open", None) for run in runs):
        raise Uncheckable("iterations are left out")
    return None


def _only_run(search: Search, now: int) -> LoopRun:
    """The loop that goes on.

    Raises:
        Uncheckable: None does, or another one may be meant, too.
    """
    runs = search.ledger.course.loops
    around = [run for run in runs if run.start <= now <= run.end]
    if len(around) != 1 or any(now <= run.start <= around[0].end and run is not around[0] for run in runs):
        raise Uncheckable("it is not said which loop is meant")
    if around[0].loop.exit in ("open", None):
        raise Uncheckable("the trace ends before the loop")
    return around[0]
