"""Where an item is added to a container, removed from it or swapped in it."""

from __future__ import annotations

import ast
import itertools
from collections import deque
from typing import Any

from groundbox.trace import schema
from groundbox.trace.proof.claims import Changed, Grows
from groundbox.trace.proof.moments.changes import grows
from groundbox.trace.proof.moments.hit import Hit, Uncheckable
from groundbox.trace.proof.moments.identity import is_a_container, is_target
from groundbox.trace.proof.moments.search import Search, entries_from
from groundbox.trace.proof.records.deltas import Delta
from groundbox.trace.proof.values.bounds import Unknowable
from groundbox.trace.proof.values.likeness import same


def changed(search: Search, claim: Changed, low: int, now: int, after: int) -> Hit | None:
    """The item goes into the target or out of it, or two items change places."""
    changes = search.deltas
    is_number = _is_of_a_number(search, claim, low, now, after)
    if is_number and (hit := _as_number(search, claim, low, after)) is not None:
        return hit
    checked = is_number and claim.item is not None and any(_has_number(search, claim.item, t) for t in (low, now))
    open_ = search.ledger.course.open_steps(now)[:1]
    if open_ and open_[0].calls:  # what this line changed before it called a function, which was told first
        low = min(low, open_[0].step)
    for change in changes:
        if change.t < low or change.t <= after:
            continue
        search.ledger.spend()
        if claim.target is not None and not is_target(search.ledger, claim.target, change.t, change.label):
            continue
        checked = True
        if _is_change(search, claim, change):
            return Hit(change.t, change.t)
    if claim.target is not None and (hit := _in_a_new_one(search, claim, low)) is not None:
        return hit
    if not checked and claim.target is not None and not is_a_container(search.ledger, claim.target):
        raise Uncheckable("no object is known by that name")
    return None


def _in_a_new_one(search: Search, claim: Changed, low: int) -> Hit | None:
    """An item of an object that was made in this very line, so that no record tells its change."""
    if claim.action != "add" or claim.target is None or claim.item is None:
        return None
    for entry in entries_from(search.ledger.histories.of(claim.target), low, -1):
        record = search.record(entry.t)
        if claim.place != "" and isinstance(record, schema.Mutate) and not _is_at(record, entry.new, claim.place):
            continue
        if isinstance(entry.new, list | dict | set | deque):
            old = entry.old if isinstance(entry.old, list | dict | set | deque) else ()
            item = search.item(claim.item, entry.t)
            if any(same(item, each) for each in entry.new) and not any(same(item, each) for each in old):
                return Hit(entry.t, entry.t)
    return None


def _is_at(record: schema.Mutate, items: Any, place: str | int) -> bool:
    """Whether what a list gets comes at a place, as `Changed` has it."""
    if record.op != "splice" or record.start is None or not isinstance(items, list | deque):
        return True  # it came into something else, whole
    end = record.start + len(record.items or ())
    return end == len(items) if place == "end" else record.start == (0 if place == "front" else place)


def _is_of_a_number(search: Search, claim: Changed, low: int, now: int, after: int) -> bool:
    """Whether a text says `5 is added to total`, where that is a number then, or when it changes next."""
    if claim.action != "add" or claim.target is None or claim.item is None:
        return False
    if any(_has_number(search, claim.target, t) for t in (low, now)):
        return True
    coming = entries_from(search.ledger.histories.of(claim.target), low, after)
    return any(_is_number(each.new) for each in (coming if claim.recap else itertools.islice(coming, 1)))


def _as_number(search: Search, claim: Changed, low: int, after: int) -> Hit | None:
    assert claim.target is not None
    assert claim.item is not None
    as_growth = Grows(
        start=claim.start, end=claim.end, sentence=claim.sentence, subject=claim.target, amount=claim.item
    )
    return grows(search, as_growth, low, low, after)


def _has_number(search: Search, node: ast.expr, t: int) -> bool:
    try:
        return _is_number(search.ledger.value(node, t))
    except Unknowable:
        return False


def _is_change(search: Search, claim: Changed, change: Delta) -> bool:
    if claim.action == "swap":
        pair = [search.item(node, change.t - 1) for node in (claim.item, claim.other) if node is not None]
        return len(pair) == 2 and change.is_swap(*pair)
    items = change.added if claim.action == "add" else change.removed
    if not change.is_at(claim.place):
        return False
    if claim.item is None:
        return bool(items)
    if any(not any(same(search.item(node, change.t - 1), other) for other in items) for node in claim.more):
        return False
    item = search.item(claim.item, change.t - 1)
    return any(
        same(item, other) or (isinstance(other, tuple) and any(same(item, part) for part in other)) for other in items
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)
