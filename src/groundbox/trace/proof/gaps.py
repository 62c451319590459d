"""Updates that a stepwise account leaves out.

`x becomes 3. x becomes 5.` is false of a run in which x became 4 between the two, although both sentences hold.
An update counts as left out when the text tells the one before it and then, as a change, the one after it, in the same
frame, and nothing between the two says that something is passed over (`later`, `finally`, `after 5 iterations`, `...`).

A name of a function and one of its caller may be spelled the same, and take the same value one after the other; then
the first of them is taken for the one that the text tells, and that of the caller seems to be left out. So before an
update counts as left out, the text is read once more with an earlier claim about that name put at the update: if all
its claims hold in order then, too, and less is left out, this is how it is meant.
"""

from __future__ import annotations

import ast
import bisect
import itertools
import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from groundbox.trace import schema
from groundbox.trace.proof.alignment import Placed, align
from groundbox.trace.proof.claims import Claim, Goes, Grows, Has, How, Kept, value_text, words
from groundbox.trace.proof.moments.finder import Finder
from groundbox.trace.proof.moments.hit import Uncheckable
from groundbox.trace.proof.records.histories import Entry
from groundbox.trace.proof.records.ledger import Exhausted, Ledger
from groundbox.trace.proof.values.code import shape
from groundbox.trace.proof.values.likeness import same

_PASSES_OVER: Final = re.compile(
    r"\.\.\.|…|\b(?:later|eventually|finally|afterwards|until|iterations \d+ |rest|remaining|similarly|likewise|"
    r"(?:more|further|next|several|few|many|other) iterations|continu\w+|keep\w*|repeat\w*|skip\w*|left out|so on|"
    r"meanwhile|goes on|go on|leaves|after (?:which|that|it\b|all|`)|runs \d|goes round|in the end|at the end|ends up|"
    r"(?:second|third|fourth|fifth|sixth|seventh|eighth|\d+(?:nd|rd|th)))\b",
    re.IGNORECASE,
)


_MOST_READINGS: Final = 12
"""Further readings of a text that are tried: one costs as much as the first. With more gaps none is."""

_MOST_MOVED: Final = 3
"""Claims before a gap that are tried at the update that seems to be left out."""


class Gap(NamedTuple):
    """An update at record `t` that is left out, and what to say of it."""

    t: int
    message: str


class Settled(NamedTuple):
    """A reading of a text, and what it leaves out, by the claims that come after it."""

    placed: Sequence[Placed]
    missing: dict[int, Gap]


def settled(claims: Sequence[Claim], placed: Sequence[Placed], finder: Finder, text: str) -> Settled:
    """The reading that leaves out the least."""
    best = Settled(placed, gaps(claims, placed, finder.ledger, text))
    if not 0 < len(best.missing) <= _MOST_READINGS:
        return best
    readings = _Readings(claims, finder, text)
    budget = finder.ledger.budget
    for index in list(best.missing):
        while index in best.missing and (better := readings.better(best, index)) is not None:
            best = better
    finder.ledger.budget = budget  # what is so instead is still to be found
    return best


class _Readings:
    """Other readings of a text."""

    def __init__(self, claims: Sequence[Claim], finder: Finder, text: str) -> None:
        self._claims = claims
        self._subjects = [_subject(claim) for claim in claims]
        self._finder = finder
        self._text = text
        self._left = _MOST_READINGS

    def better(self, best: Settled, index: int) -> Settled | None:
        """One in which no update, or only a later one, is left out before a claim."""
        not_before = self._finder.not_before
        for claim in self._movable(best, index)[: self._left]:
            self._left -= 1
            before = not_before.get(claim, 0)
            not_before[claim] = best.missing[index].t
            found = self._read(best.placed)
            if found is not None and _leaves_out_less(found.missing, best.missing):
                return found
            not_before[claim] = before
        return None

    def _movable(self, best: Settled, index: int) -> list[Claim]:
        """The claims shortly before this one that may tell the update that is left out, the nearest first."""
        told = (
            self._claims[at]
            for at in range(index - 1, -1, -1)
            if self._subjects[at] == self._subjects[index] and best.placed[at].hit and not self._claims[at].recap
        )
        t = best.missing[index].t
        return [claim for claim in itertools.islice(told, _MOST_MOVED) if self._tells(claim, t)]

    def _tells(self, claim: Claim, t: int) -> bool:
        """Whether a claim holds at an update, so that it is worth a reading."""
        try:
            hit = self._finder.find(claim, t, t, t - 1)
        except (Uncheckable, Exhausted):
            return False
        return hit is not None and t in hit

    def _read(self, placed: Sequence[Placed]) -> Settled | None:
        """Another reading, unless a claim that held before does not hold in it."""
        try:
            again = align(self._claims, self._finder)
            if any(new.hit is None and old.hit is not None for new, old in zip(again, placed, strict=True)):
                return None
            return Settled(again, gaps(self._claims, again, self._finder.ledger, self._text))
        except Exhausted:
            return None


def _subject(claim: Claim) -> str:
    subject = claim.subject if isinstance(claim, Has | Goes | Grows | Kept) else None
    return shape(subject) if subject is not None else ""


def _leaves_out_less(new: dict[int, Gap], old: dict[int, Gap]) -> bool:
    return new != old and all(index in old and gap.t >= old[index].t for index, gap in new.items())


def gaps(claims: Sequence[Claim], placed: Sequence[Placed], ledger: Ledger, text: str) -> dict[int, Gap]:
    """Claims before which an update of the same name was left out, with what to say of it."""
    told: dict[str, tuple[int, Claim]] = {}
    histories = _Histories(ledger)
    found: dict[int, Gap] = {}
    for index, (claim, place) in enumerate(zip(claims, placed, strict=True)):
        if place.hit is None or place.hit.step < 0 or claim.recap:
            continue
        for key, subject_entries in histories.of(claim):
            at = _entry_at(subject_entries, place.hit.step)
            if at is None and not _is_change(claim):
                at = bisect.bisect_right(subject_entries, place.hit.t, key=lambda entry: entry.t) - 1
            if at is None or at < 0:
                continue
            before = told.get(key)
            if before is not None and _is_change(claim):
                between = _between(subject_entries, before[0], at, ledger)
                if _is_left_out(between, before[1], claim, text):
                    found[index] = Gap(between[0].t, _message(between[0], claim))
            last = _entry_at(subject_entries, place.hit.t)
            furthest = max(at, last if last is not None else at)
            if before is None or furthest >= before[0]:
                told[key] = (furthest, claim)
    return found


class _Histories:
    """The changes of each name by the frames in which they stand."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._by_name: dict[str, dict[str, list[Entry]]] = {}

    def of(self, claim: Claim) -> Iterable[tuple[str, Sequence[Entry]]]:
        """The histories that a claim tells a part of: one for each frame that has one."""
        subject = claim.subject if isinstance(claim, Has | Goes | Grows | Kept) else None
        return self._of(subject).items() if isinstance(subject, ast.Name) else ()

    def _of(self, subject: ast.Name) -> dict[str, list[Entry]]:
        found = self._by_name.get(subject.id)
        if found is None:
            found = self._by_name[subject.id] = {}
            for entry in self._ledger.histories.of(subject):
                frame = getattr(self._ledger.records[entry.t], "f", 0)
                found.setdefault(f"{frame} {subject.id}", []).append(entry)
        return found


def _entry_at(entries: Sequence[Entry], t: int) -> int | None:
    at = bisect.bisect_left(entries, t, key=lambda entry: entry.t)
    return at if at < len(entries) and entries[at].t == t else None


def _between(entries: Sequence[Entry], before: int, at: int, ledger: Ledger) -> Sequence[Entry]:
    """The updates after `before` and before `at`; one that gives the value told before may be what was told."""
    between = [
        entry for entry in entries[before + 1 : at] if entry.told and isinstance(ledger.records[entry.t], schema.Set)
    ]
    told = [number for number, entry in enumerate(between) if same(entry.new, entries[before].new)]
    return between[told[-1] + 1 :] if told else between


def _is_change(claim: Claim) -> bool:
    if isinstance(claim, Has):
        return claim.how is How.BECOMES
    return isinstance(claim, Goes | Grows) and not getattr(claim, "whole", False)


def _is_left_out(between: Sequence[Entry], before: Claim, claim: Claim, text: str) -> bool:
    if isinstance(claim, Goes | Grows) and len(between) > 1:
        return False  # it says itself from where it goes, so the reader sees that something was passed over
    return bool(between) and not _PASSES_OVER.search(text, before.end, claim.start)


def _message(entry: Entry, claim: Claim) -> str:
    subject = getattr(claim, "subject", None)
    name = words(subject) if subject is not None else "it"
    return f"before that, {name} became {value_text(entry.new)}, which is left out"
