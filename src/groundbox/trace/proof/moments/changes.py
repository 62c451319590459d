"""Where a name takes a value, goes through several, or grows by so much.

What goes into a container or out of it is the matter of `containers`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, Final

from groundbox.trace.proof.claims import Alters, Goes, Grows, Has, Moved
from groundbox.trace.proof.moments.hit import Hit, Uncheckable
from groundbox.trace.proof.moments.search import Search, entries_from
from groundbox.trace.proof.records.frames import MISSING
from groundbox.trace.proof.records.histories import Entry
from groundbox.trace.proof.values.bounds import Unknowable
from groundbox.trace.proof.values.code import names_in
from groundbox.trace.proof.values.likeness import is_written, said_value, same
from groundbox.trace.proof.values.operators import truth


def becomes(search: Search, claim: Has, low: int, after: int) -> Hit | None:
    """The subject comes to have the value."""
    says = search.sayer(claim.value, about=claim.about)
    entries = search.ledger.histories.of(claim.subject)
    if not entries and not _exists(search, claim.subject):
        raise Uncheckable("it cannot be worked out from the trace")
    for entry in entries_from(entries, low, after):
        search.ledger.spend()
        try:
            if says(entry.new, entry.t):
                return Hit(entry.t, entry.t)
        except Unknowable:
            continue
    return None


def _exists(search: Search, subject: ast.expr) -> bool:
    """Whether the text may speak of it: a name that the program has, or a thing that could be worked out."""
    return isinstance(subject, ast.Name) or bool(search.ledger.histories.moments(names_in(subject)))


def goes(search: Search, claim: Goes, low: int, now: int, after: int) -> Hit | None:
    """The subject takes the values one after the other."""
    if claim.subject is None:
        return _some_name_goes(search, claim, low)
    values = [said_value(value) for value in claim.values]
    if isinstance(claim.subject, ast.Tuple):
        return _tuple_goes(search, claim, [value for _, value in values], low)
    entries = search.ledger.histories.of(claim.subject)
    for at, entry in enumerate(entries):
        if entry.t < low or entry.t <= after:
            continue
        end = _sequence(search, entries, at, claim, values)
        if end is not None and _by_so_much(search, claim, end):
            return Hit(end.t, entry.t)
    return None


def _said(search: Search, said: tuple[bool, Any], node: ast.expr, t: int, actual: Any, *, about: bool) -> bool:
    try:
        return is_written(node, actual) or same(
            said[1] if said[0] else search.ledger.value(node, t), actual, about=about
        )
    except Unknowable:
        return False


def _sequence(
    search: Search, entries: Sequence[Entry], at: int, claim: Goes, values: Sequence[tuple[bool, Any]]
) -> Entry | None:
    """The last entry of the run of entries from `at` on that has these values, one after the other."""
    entry = entries[at]
    wanted = list(zip(values, claim.values, strict=True))
    if claim.first_is_old:
        (said, node), *wanted = wanted
        if not _said(search, said, node, entry.t - 1, entry.old, about=claim.about):
            return None
        if claim.whole:
            return _eventually(search, entries, at, wanted[-1], about=claim.about)
    frame, last = entry.frame, None
    position = at
    for said, node in wanted:
        while position < len(entries) and (
            entries[position].frame != frame or (last is not None and not entries[position].told)
        ):
            position += 1
        if position >= len(entries):
            return None
        search.ledger.spend()
        if not _said(search, said, node, entries[position].t, entries[position].new, about=claim.about):
            return None
        last = entries[position]
        position += 1
    return last


def _by_so_much(search: Search, claim: Goes, entry: Entry) -> bool:
    """Whether the last change is as large as the text says."""
    if claim.by is None:
        return True
    step = search.ledger.course.step_of(entry.t)
    for t in (entry.t - 1, step.step if step is not None else entry.t):
        try:
            amount = search.ledger.value(claim.by, t)
            if claim.sign > 0 and (same(entry.new, entry.old + amount) or same(entry.old + amount, entry.new)):
                return True
            if claim.sign < 0 and same(entry.new, entry.old - amount):
                return True
        except (Unknowable, TypeError, ArithmeticError):
            continue
    return False


def _eventually(
    search: Search, entries: Sequence[Entry], at: int, wanted: tuple[tuple[bool, Any], ast.expr], *, about: bool
) -> Entry | None:
    said, node = wanted
    for entry in entries[at:]:
        if entry.frame == entries[at].frame and _said(search, said, node, entry.t, entry.new, about=about):
            return entry
    return None


def is_all(search: Search, claim: Goes, begin: int, end: int) -> bool:
    """Whether the values, if they are a row, are all that the subject takes from `begin` to `end`, in a frame."""
    if claim.subject is None or isinstance(claim.subject, ast.Tuple) or claim.whole or claim.first_is_old:
        return True
    values = [said_value(value) for value in claim.values]
    frames: dict[int, list[Entry]] = {}
    for entry in entries_from(search.ledger.histories.of(claim.subject), begin, -1):
        if entry.t > end:
            break
        if entry.told:
            frames.setdefault(entry.frame, []).append(entry)
    return any(
        len(entries) == len(values)
        and all(
            _said(search, said, node, entry.t, entry.new, about=claim.about)
            for said, node, entry in zip(values, claim.values, entries, strict=True)
        )
        for entries in frames.values()
    )


def _tuple_goes(search: Search, claim: Goes, values: Sequence[Any], low: int) -> Hit | None:
    """Several names at once: `(left, right): (0, 6) → (1, 5)`."""
    assert isinstance(claim.subject, ast.Tuple)
    t = low
    for value in values:
        found = search.first(names_in(claim.subject), t, _has_at(search, claim.subject, value))
        if found is None:
            return None
        t = found.t
    return Hit(t, t)


def _has_at(search: Search, node: ast.expr, value: Any) -> Callable[[int], bool]:
    return lambda t: same(value, search.ledger.value(node, t))


def _some_name_goes(search: Search, claim: Goes, low: int) -> Hit | None:
    values = [said_value(value)[1] for value in claim.values]
    for name in sorted(search.ledger.names - search.ledger.functions):
        entries = [entry for entry in search.ledger.histories.of(ast.Name(name)) if entry.told and entry.t >= low]
        for at in range(len(entries) - len(values) + 1):
            search.ledger.spend()
            run = entries[at : at + len(values)]
            if all(same(value, entry.new) for value, entry in zip(values, run, strict=True)):
                return Hit(run[-1].t, run[0].t)
    return None


def grows(search: Search, claim: Grows, low: int, now: int, after: int) -> Hit | None:
    """The subject changes by the amount."""
    for entry in entries_from(search.ledger.histories.of(claim.subject), low, after):
        search.ledger.spend()
        try:
            amount = search.ledger.value(claim.amount, entry.t - 1)
            if same(entry.new, entry.old + amount * claim.sign) or same(entry.old, entry.new - amount * claim.sign):
                return Hit(entry.t, entry.t)
        except (Unknowable, TypeError, ArithmeticError):
            continue
    return None


def alters(search: Search, claim: Alters, low: int, now: int, after: int) -> Hit | None:
    """The subject, which had a value, comes to have another one."""
    for entry in entries_from(search.ledger.histories.of(claim.subject), low, after):
        search.ledger.spend()
        if entry.old is not MISSING and not same(entry.old, entry.new):
            return Hit(entry.t, entry.t)
    return None


def moved(search: Search, claim: Moved, low: int, now: int, after: int) -> Hit | None:
    """The subject changes in this way at some time of the run; a new call may go on where another one was."""
    entries = search.ledger.histories.of(claim.subject)
    is_so = _WAYS[claim.way]
    last: dict[str, Any] = {}
    for entry in entries:
        search.ledger.spend()
        olds = [entry.old, last.get("new", MISSING)]
        last["new"] = entry.new
        try:
            if any(old is not MISSING and is_so(old, entry.new) for old in olds):
                return Hit(now, entry.t)
        except (Unknowable, TypeError, ArithmeticError):
            raise Uncheckable("the values cannot be compared") from None
    if not entries or search.ledger.folds or (claim.way == "emptied" and _is_empty(entries[-1].new)):
        raise Uncheckable("it may be so already, or is left out")
    return None


def _is_empty(value: Any) -> bool:
    try:
        return not truth(value)
    except Unknowable:
        return True


_WAYS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "up": lambda old, new: bool(new > old),
    "down": lambda old, new: bool(new < old),
    "doubled": lambda old, new: same(old + old, new),
    "emptied": lambda old, new: truth(old) and not truth(new),
}
