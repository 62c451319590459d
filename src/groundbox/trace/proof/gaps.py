"""Updates that a stepwise account leaves out.

`x becomes 3. x becomes 5.` is false of a run in which x became 4 between the two, although both sentences hold.
An update counts as left out when the text tells the one before it and then, as a change, the one after it, in the same
frame, and nothing between the two says that something is passed over (`later`, `finally`, `after 5 iterations`, `...`).
"""

from __future__ import annotations

import ast
import bisect
import re
from collections.abc import Iterable, Sequence
from typing import Final

from groundbox.trace import schema
from groundbox.trace.proof.alignment import Placed
from groundbox.trace.proof.claims import Claim, Goes, Grows, Has, How, value_text, words
from groundbox.trace.proof.records.histories import Entry
from groundbox.trace.proof.records.ledger import Ledger
from groundbox.trace.proof.values.likeness import same

_PASSES_OVER: Final = re.compile(
    r"\.\.\.|…|\b(?:later|eventually|finally|afterwards|until|iterations \d+ |rest|remaining|similarly|likewise|"
    r"(?:more|further|next|several|few|many|other) iterations|continu\w+|keep\w*|repeat\w*|skip\w*|left out|so on|"
    r"meanwhile|goes on|go on|leaves|after (?:which|that|it\b|all|`)|runs \d|goes round|in the end|at the end|ends up|"
    r"(?:second|third|fourth|fifth|sixth|seventh|eighth|\d+(?:nd|rd|th)))\b",
    re.IGNORECASE,
)


def gaps(claims: Sequence[Claim], placed: Sequence[Placed], ledger: Ledger, text: str) -> dict[int, str]:
    """Claims before which an update of the same name was left out, with what to say of it."""
    told: dict[str, tuple[int, Claim]] = {}
    histories = _Histories(ledger)
    found: dict[int, str] = {}
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
                message = _left_out(between, before[1], claim, text)
                if message:
                    found[index] = message
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
        subject = claim.subject if isinstance(claim, Has | Goes | Grows) else None
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


def _left_out(between: Sequence[Entry], before: Claim, claim: Claim, text: str) -> str:
    if isinstance(claim, Goes | Grows) and len(between) > 1:
        return ""  # it says itself from where it goes, so the reader sees that something was passed over
    if not between or _PASSES_OVER.search(text, before.end, claim.start):
        return ""
    subject = getattr(claim, "subject", None)
    name = words(subject) if subject is not None else "it"
    return f"before that, {name} became {value_text(between[0].new)}, which is left out"
