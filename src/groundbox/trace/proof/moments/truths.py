"""Where a condition is true or false, and how often it was.

Which tests of the program it may mean is the matter of `conditions`.
"""

from __future__ import annotations

import ast
import bisect

from groundbox.trace import schema
from groundbox.trace.proof.claims import Has, Held, Truth
from groundbox.trace.proof.moments.hit import Hit, Uncheckable
from groundbox.trace.proof.moments.identity import label_of
from groundbox.trace.proof.moments.numbers import is_known
from groundbox.trace.proof.moments.search import Search
from groundbox.trace.proof.records.course import Condition
from groundbox.trace.proof.values.bounds import Unknowable
from groundbox.trace.proof.values.code import names_in
from groundbox.trace.proof.values.evaluation import evaluate, no_names
from groundbox.trace.proof.values.operators import truth


def is_true(search: Search, claim: Truth, low: int, now: int, after: int) -> Hit | None:
    """The test is what the text says, with the values that the sentence gave."""
    hit = _found_truth(search, claim, low, now)
    return hit if hit is None or _fits(search, claim, hit.t) else None


def _fits(search: Search, claim: Truth, t: int) -> bool:
    """Whether the values that the sentence said before are there at `t`, or after the calls of a test at `t`."""
    at = bisect.bisect_left(search.ledger.course.condition_times, t)
    test = (
        search.ledger.course.conditions[at : at + 1] if t in search.ledger.course.condition_times[at : at + 1] else ()
    )
    over = max((call.last for condition in test for call in condition.calls), default=t)
    return all(_still(search, given, t) or (over > t and _still(search, given, over)) for given in claim.given)


def _still(search: Search, given: Has, t: int) -> bool:
    try:
        return search.sayer(given.value, about=given.about)(search.ledger.value(given.subject, t), t)
    except Unknowable:
        return True


def _found_truth(search: Search, claim: Truth, low: int, now: int) -> Hit | None:
    if claim.test is None:
        if claim.recap:
            return _earlier_condition(search, claim, low)
        return _next_condition(search, claim, now) if claim.line is None else _on_its_line(search, claim, now)
    grounded, hit = search.conditions.first(claim.test, claim.truth, low, lambda t: _fits(search, claim, t))
    if grounded and claim.put_otherwise:
        return _in_either_form(search, claim, low, now, hit)
    if grounded:
        return Hit(hit, hit) if hit is not None else None
    names = names_in(claim.test)
    if isinstance(claim.test, ast.Compare) and isinstance(claim.test.ops[0], ast.Is):
        return _is_same_object(search, claim, claim.test, low)
    if not names:
        return _plain_truth(search, claim.test, claim.truth, low, now)
    if claim.quoted and search.conditions.is_misquoted(claim.test):
        return None
    if search.conditions.is_unknown(claim.test):
        raise Uncheckable("a part of a condition that cannot be worked out")

    return _standing(search, claim, low, now)


def _standing(search: Search, claim: Truth, low: int, now: int) -> Hit | None:
    """The first moment at which the test, asked by nobody, would be what the text says."""
    test = claim.test
    assert test is not None

    def holds(t: int) -> bool:
        return truth(search.ledger.value(test, t)) is claim.truth and _fits(search, claim, t)

    ended = isinstance(search.record(now), schema.Return | schema.Yield)
    begin = low if claim.reason or claim.recap or claim.given or ended else max(low, now)
    return search.first(names_in(test), begin, holds)


def _in_either_form(search: Search, claim: Truth, low: int, now: int, asked: int | None) -> Hit | None:
    """Where the program asks it in this form, or where it is so: `stack is empty` may be said of `while stack`."""
    try:
        so = _standing(search, claim, low, now)
    except Uncheckable:
        so = None
    asked_for = Hit(asked, asked) if asked is not None else None
    return min((hit for hit in (asked_for, so) if hit is not None), key=lambda hit: hit.t, default=None)


def _is_same_object(search: Search, claim: Truth, test: ast.Compare, low: int) -> Hit | None:
    wanted = claim.truth
    times = search.ledger.histories.moments(names_in(test))
    for t in (low, *times[bisect.bisect_right(times, low) :]):
        search.ledger.spend()
        if not _fits(search, claim, t):
            continue
        labels = [label_of(search.ledger, node, t) for node in (test.left, test.comparators[0])]
        if None in labels:
            try:
                if truth(search.ledger.value(test, t)) is wanted:
                    return Hit(t, t)
            except Unknowable:
                continue
        elif (labels[0] == labels[1]) is wanted:
            return Hit(t, t)
    return None


def _earlier_condition(search: Search, claim: Truth, low: int) -> Hit | None:
    """`earlier, the test was false`: some test was."""
    at = bisect.bisect_left(search.ledger.course.condition_times, low)
    rest = search.ledger.course.conditions[at:]
    found = next((each for each in rest if each.truth is claim.truth and _is_on_line(each, claim.line)), None)
    return Hit(found.t, found.t) if found is not None else None


def _on_its_line(search: Search, claim: Truth, now: int) -> Hit | None:
    """The test of a line, where it is asked now or as soon as it is asked again."""
    course = search.ledger.course
    at = bisect.bisect_left(course.condition_times, now)
    step = course.step_of(now)
    asked = [each for each in course.conditions[max(0, at - 1) : at] if step is not None and each.t == step.step]
    coming = next((each for each in course.conditions[at:] if _is_on_line(each, claim.line)), None)
    for each in (*search.conditions.going_on(now), *asked, *([coming] if coming is not None else ())):
        if each.truth is claim.truth and _is_on_line(each, claim.line):
            return Hit(max(now, each.t), each.t)
    return None


def _is_on_line(condition: Condition, line: int | None) -> bool:
    return line is None or condition.test.lineno <= line <= (condition.test.end_lineno or line)


def _next_condition(search: Search, claim: Truth, now: int) -> Hit | None:
    going_on = search.conditions.going_on(now)
    if going_on and going_on[0].truth is claim.truth:
        return Hit(now, going_on[0].t)
    times = search.ledger.course.condition_times
    at = bisect.bisect_left(times, now)
    step = search.ledger.course.step_of(now)
    if step is not None and step.step in times[max(0, at - 1) : at]:
        at -= 1
    if at < len(times) and search.ledger.course.conditions[at].truth is claim.truth:
        return Hit(times[at], times[at])
    return None


def _all_true(search: Search, test: ast.BoolOp, low: int, now: int) -> Hit | None:
    """`0 != 4 and 0 < 7`, each of which is found by itself."""
    hits = [
        _found_truth(search, Truth(start=0, end=0, sentence=0, test=part, truth=True), low, now) for part in test.values
    ]
    found = [hit for hit in hits if hit is not None]
    return max(found) if len(found) == len(hits) else None


def _plain_truth(search: Search, test: ast.expr, wanted: bool, low: int, now: int) -> Hit | None:
    try:
        actual = truth(evaluate(test, no_names))
    except Unknowable:
        raise Uncheckable("it cannot be worked out") from None
    if actual is wanted and isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return _all_true(search, test, low, now)
    fits = actual is wanted and is_known(search.ledger, test, now) and not search.conditions.is_near_miss(test, now)
    return Hit(now, -1) if fits else None


def held(search: Search, claim: Held, low: int, now: int, after: int) -> Hit | None:
    """Counted over the iterations of the sentence's span, which begin at `low` and end before `after`.

    Without such iterations it is counted over the whole call that goes on.
    """
    end, frame = after, getattr(search.record(low), "f", None)
    if after <= low:
        frame = search.ledger.frames.running(now)
        activation = search.ledger.structure.activations.get(frame)
        low, end = (activation.first, activation.last) if activation is not None else (0, len(search.ledger.records))
    found: dict[int, list[bool]] = {}
    for condition in search.ledger.course.conditions:
        if low <= condition.t < end and condition.frame == frame:
            held = search.conditions.tested(claim.test, condition)
            if held is not None:
                found.setdefault(id(condition.test), []).append(held)
    if not found:
        raise Uncheckable("it is not tested there")
    for times in found.values():  # the same words may stand in several tests
        count = sum(held is claim.truth for held in times)
        if count == (len(times) if claim.count is None else claim.count) and claim.total in (None, len(times)):
            return Hit(now, low)
    return None
