"""Which moment each claim of a text speaks of.

A narration goes forward. Claims are given moments that never go back from one sentence to the next, so that as many
as possible hold. What one line did may be told in any order, and a reason may be given afterwards.
For every claim only its first fitting moment counts, since an earlier one never leaves less to the claims after it;
so a few hypotheses suffice, one for each number of claims that were given up.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Final

from groundbox.trace.proof.claims import (
    Called,
    Changed,
    Claim,
    Goes,
    Grows,
    Has,
    Held,
    How,
    InIteration,
    Iterated,
    Kept,
    Printed,
    Returned,
    Span,
    Truth,
)
from groundbox.trace.proof.moments.changes import is_all
from groundbox.trace.proof.moments.finder import Finder
from groundbox.trace.proof.moments.hit import Hit, Uncheckable
from groundbox.trace.proof.moments.loops import (
    comes_again,
    end_of,
    end_of_iteration,
    in_spans,
    iteration_at,
    span_end,
    spans,
)
from groundbox.trace.proof.values.code import shape

_MOST_HYPOTHESES: Final = 3
_IN_ITERATION: Final = (Changed, Goes, Grows, Has, Printed, Truth)
"""What is so in the iteration that its sentence names; a return, or the end of a loop, may come after it."""


@dataclasses.dataclass(frozen=True)
class Placed:
    """What became of one claim.

    Attributes:
        hit: Where it holds, or None.
        low: From where it was looked for.
        reason: Why it could not be checked.
    """

    hit: Hit | None
    low: int
    reason: str = ""


@dataclasses.dataclass(frozen=True)
class _Hypothesis:
    """One way to read the text so far.

    Attributes:
        now: How far it has come.
        low: How far it had come when the sentence began.
        lost: How many claims do not hold in it.
        taken: The last record that a change of each name has taken.
        span: Beginning and end of the iterations that the sentence tells together.
        end: When what the sentence tells as a whole is over: these iterations, a loop, a call; -1 for nothing.
        over: The same, of iterations or a loop only.
        until: When the iteration ends that the sentence names; -1 for none.
        next: Beginning and end of the iteration after those that the sentence before told together.
        back: Iterations that the sentence looks back to; which of the loops is meant, it does not say.
    """

    now: int
    low: int
    lost: int
    before: _Hypothesis | None
    last: Placed | None
    taken: dict[str, int]
    span: tuple[int, int] | None = None
    end: int = -1
    over: int = -1
    until: int = -1
    next: tuple[int, int] | None = None
    back: Span | None = None


def align(claims: Sequence[Claim], finder: Finder) -> list[Placed]:
    """A moment for each claim, or the lack of one."""
    best = _read(claims, finder, most=1)  # a faithful text needs no second hypothesis
    if best.lost:
        best = _read(claims, finder, most=_MOST_HYPOTHESES)
    placed: list[Placed] = []
    step: _Hypothesis | None = best
    while step is not None and step.last is not None:
        placed.append(step.last)
        step = step.before
    return placed[::-1]


def _read(claims: Sequence[Claim], finder: Finder, *, most: int) -> _Hypothesis:
    """The best hypothesis, of `most` that are kept at a time."""
    front = [_Hypothesis(0, 0, 0, None, None, {})]
    sentence = -1
    for at, claim in enumerate(claims):
        if claim.sentence != sentence:
            sentence = claim.sentence
            front = [_begun(hypothesis, finder) for hypothesis in front]
        rest = _rest(claims, at) if isinstance(claim, Span) else ()
        front = _pruned([after for hypothesis in front for after in _place(claim, hypothesis, finder, rest)], most)
        if most == 1 and front[0].lost:
            break
    return min(front, key=lambda hypothesis: (hypothesis.lost, hypothesis.now))


def _begun(hypothesis: _Hypothesis, finder: Finder) -> _Hypothesis:
    """The hypothesis at the beginning of another sentence."""
    following = iteration_at(finder.search, hypothesis.span[1]) if hypothesis.span is not None else None
    return dataclasses.replace(
        hypothesis, low=hypothesis.now, span=None, end=-1, over=-1, until=-1, next=following, back=None
    )


def _rest(claims: Sequence[Claim], at: int) -> Sequence[Claim]:
    """What the sentence tells of the iterations that the claim at `at` names."""
    after = itertools.takewhile(lambda claim: claim.sentence == claims[at].sentence, claims[at + 1 :])
    return list(itertools.takewhile(lambda claim: not isinstance(claim, Span), after))


def _place(claim: Claim, hypothesis: _Hypothesis, finder: Finder, rest: Sequence[Claim] = ()) -> list[_Hypothesis]:
    if hypothesis.next is not None:
        begin, end = hypothesis.next
        hypothesis = dataclasses.replace(hypothesis, next=None)
        if begin > hypothesis.now:
            found = _placed_at(claim, dataclasses.replace(hypothesis, now=begin, low=begin), finder, rest)
            if found[0].lost == hypothesis.lost and found[0].now <= end:
                return found  # what one tells after some iterations is most likely the next one
    if claim.later and _is_state(claim) and hypothesis.over >= hypothesis.now:
        return _state_at_the_end(claim, hypothesis, finder)
    if claim.later and hypothesis.end > hypothesis.now:
        at_the_end = _placed_at(claim, dataclasses.replace(hypothesis, now=hypothesis.end), finder)
        if at_the_end[0].lost == hypothesis.lost:
            return at_the_end
        placed = _placed_at(claim, hypothesis, finder, rest)
        return (
            placed if placed[0].lost == hypothesis.lost else [_looked_for_at(each, hypothesis.end) for each in placed]
        )
    return _placed_at(claim, hypothesis, finder, rest)


def _is_state(claim: Claim) -> bool:
    return isinstance(claim, Has) and claim.how is not How.BECOMES


def _state_at_the_end(claim: Claim, hypothesis: _Hypothesis, finder: Finder) -> list[_Hypothesis]:
    """What holds after iterations: when these are over, neither before nor later.

    After a whole loop it may be later: a loop of the same name in a call may have been taken for the one that is told.
    """
    ended = dataclasses.replace(hypothesis, now=hypothesis.over)
    placed = _placed_at(claim, ended, finder)
    is_later = placed[0].now > hypothesis.over and placed[0].last is not None and placed[0].last.hit is not None
    if hypothesis.span is not None and is_later:
        return [_next(ended, ended.now, 1, Placed(None, ended.now), ended.taken)]
    return placed


def _looked_for_at(lost: _Hypothesis, t: int) -> _Hypothesis:
    """A hypothesis that has given up a claim, which is to be explained from `t` on."""
    return dataclasses.replace(lost, last=Placed(None, t, lost.last.reason if lost.last is not None else ""))


def _placed_at(claim: Claim, hypothesis: _Hypothesis, finder: Finder, rest: Sequence[Claim] = ()) -> list[_Hypothesis]:
    key = _key(claim)
    after = hypothesis.taken.get(key, -1) if key else -1
    if hypothesis.span is not None:
        return _place_in_span(claim, hypothesis, hypothesis.span, finder)
    if hypothesis.back is not None and isinstance(claim, Held | Goes):
        return _place_in_the_past(claim, hypothesis, hypothesis.back, finder)
    low = (
        0 if claim.recap else finder.beginning(min(hypothesis.low, hypothesis.now) if claim.reason else hypothesis.now)
    )
    try:
        hit = finder.find(claim, low, hypothesis.now, -1 if claim.recap else after)
    except Uncheckable as why:
        return [_next(hypothesis, hypothesis.now, 0, Placed(None, low, str(why)), hypothesis.taken)]
    given_up = _next(hypothesis, hypothesis.now, 1, Placed(None, hypothesis.now), hypothesis.taken)
    if hit is None:
        return [given_up]
    if claim.recap and isinstance(claim, Span):
        return [
            dataclasses.replace(_next(hypothesis, hypothesis.now, 0, Placed(hit, low), hypothesis.taken), back=claim)
        ]
    if claim.recap:
        return [_next(hypothesis, hypothesis.now, 0, Placed(hit, low), hypothesis.taken)]
    if isinstance(claim, Span):
        return [_likeliest_span(claim, hypothesis, finder, low, rest), given_up]
    until = hit.step if key == "loop" else hit.t
    taken = (
        {**hypothesis.taken, **dict.fromkeys((key, *finder.also_taken(claim, hit)), until)} if key else hypothesis.taken
    )
    end = max(hypothesis.end, end_of(finder.search, claim, hit, low))
    found = _next(hypothesis, max(hypothesis.now, hit.t), 0, Placed(hit, low), taken, end)
    found = dataclasses.replace(found, over=end) if isinstance(claim, Iterated) else found
    if isinstance(claim, InIteration) and not claim.exit and not comes_again(finder.search, claim.number, hit.t):
        found = dataclasses.replace(found, until=end_of_iteration(finder.search, claim.number, hit))
    if -1 < hypothesis.until < hit.t and isinstance(claim, _IN_ITERATION) and not claim.later:
        return [given_up]
    return [found] if hit.t <= hypothesis.now else [found, given_up]


def _likeliest_span(
    claim: Span, hypothesis: _Hypothesis, finder: Finder, low: int, rest: Sequence[Claim]
) -> _Hypothesis:
    """The iterations of that loop, of those that may be meant, of which the most holds that the sentence tells then."""
    found: list[tuple[int, _Hypothesis]] = []
    begin = finder.not_before.get(claim, 0)
    for hit in in_spans(finder.search, claim, max(low, begin), max(hypothesis.now, begin)):
        span = (hit.step, span_end(finder.search, claim, hit.step))
        placed = _next(hypothesis, hypothesis.now, 0, Placed(hit, low), hypothesis.taken)
        begun = dataclasses.replace(placed, span=span, end=span[1], over=span[1])
        missed = _missed(rest, begun, finder)
        found.append((missed, begun))
        if not missed:
            break
    return min(found, key=lambda each: each[0])[1]


def _missed(rest: Sequence[Claim], hypothesis: _Hypothesis, finder: Finder) -> int:
    """How many claims do not hold, or cannot be checked, if the text goes on from here."""
    missed = 0
    for claim in rest:
        [hypothesis] = _pruned(_place(claim, hypothesis, finder), 1)
        missed += hypothesis.last is None or hypothesis.last.hit is None
    return missed


def _place_in_span(claim: Claim, hypothesis: _Hypothesis, span: tuple[int, int], finder: Finder) -> list[_Hypothesis]:
    """A claim about several iterations together: it is looked for in all of them, whatever was told before it."""
    begin, end = span
    low = max(begin, hypothesis.now) if isinstance(claim, Has) else begin
    now = max(hypothesis.now, begin)
    try:
        hit = finder.find(claim, low, now, end if isinstance(claim, Held) else -1)
    except Uncheckable as why:
        return [_next(hypothesis, hypothesis.now, 0, Placed(None, low, str(why)), hypothesis.taken)]
    is_part = (
        isinstance(claim, Goes) and hit is not None and (hit.t > end or not is_all(finder.search, claim, begin, end))
    )
    if hit is None or is_part:
        return [_next(hypothesis, hypothesis.now, 1, Placed(None, low), hypothesis.taken)]
    return [_next(hypothesis, max(hypothesis.now, hit.t), 0, Placed(hit, low), hypothesis.taken)]


def _place_in_the_past(claim: Claim, hypothesis: _Hypothesis, back: Span, finder: Finder) -> list[_Hypothesis]:
    """A claim about several iterations together that lie behind, in any of the loops that have them."""
    why = ""
    for begin, end in spans(finder.search, back):
        try:
            hit = finder.find(claim, begin, begin, end if isinstance(claim, Held) else -1)
        except Uncheckable as error:
            why = str(error)
            continue
        if hit is not None and hit.t <= end:
            return [_next(hypothesis, hypothesis.now, 0, Placed(hit, begin), hypothesis.taken)]
    return [_next(hypothesis, hypothesis.now, 0 if why else 1, Placed(None, 0, why), hypothesis.taken)]


def _next(
    hypothesis: _Hypothesis, now: int, lost: int, placed: Placed, taken: dict[str, int], end: int | None = None
) -> _Hypothesis:
    return _Hypothesis(
        now, hypothesis.low, hypothesis.lost + lost, hypothesis, placed, taken, hypothesis.span,
        hypothesis.end if end is None else end, hypothesis.over, hypothesis.until, back=hypothesis.back,
    )  # fmt: skip


def _key(claim: Claim) -> str:
    """What a claim takes a record of, so that no second claim can speak of the same change."""
    if isinstance(claim, Has | Kept) and claim.how is How.BECOMES:
        return shape(claim.subject)
    if isinstance(claim, Goes | Grows) and claim.subject is not None:
        return shape(claim.subject)
    if isinstance(claim, Changed):
        return f"change {shape(claim.target) if claim.target is not None else ''} {claim.action}"
    if isinstance(claim, Returned):
        return f"return {claim.function}"
    if isinstance(claim, Called):
        return f"call {claim.function}"
    if isinstance(claim, Printed):
        return "output"
    if isinstance(claim, Iterated):
        return "end of a loop" if claim.ends else "loop"
    return "iteration" if isinstance(claim, InIteration) and not claim.exit else ""


def _pruned(front: list[_Hypothesis], most: int) -> list[_Hypothesis]:
    """Those that no other one beats: one that has come less far and lost no more."""
    front.sort(key=lambda hypothesis: (hypothesis.lost, hypothesis.now))
    kept: list[_Hypothesis] = []
    for hypothesis in front:
        if not kept or hypothesis.now < kept[-1].now:
            kept.append(hypothesis)
    return kept[:most]
