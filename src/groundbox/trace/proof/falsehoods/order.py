"""Sentences that tell updates in another order, leave one out, or tell one twice."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from groundbox.trace import schema
from groundbox.trace.proof.claims import Claim, Goes, Has, How
from groundbox.trace.proof.falsehoods.subject import Mutation, Subject, held
from groundbox.trace.proof.records.histories import Entry
from groundbox.trace.proof.values.likeness import same


class _Update(NamedTuple):
    """A claim that tells one update of a name.

    Attributes:
        number: The position of the update in the history of its frame.
    """

    claim: Claim
    name: str
    entries: Sequence[Entry]
    number: int


def _updates(subject: Subject) -> Iterator[_Update]:
    """Every update of a name that a record tells and that the text tells as a change."""
    for claim, place in held(subject, Has, Goes):
        assert isinstance(claim, Has | Goes)
        assert place.hit is not None
        if not isinstance(claim.subject, ast.Name) or (isinstance(claim, Has) and claim.how is not How.BECOMES):
            continue
        if isinstance(claim, Goes) and (len(claim.values) != 2 or not claim.first_is_old or claim.whole):
            continue
        record = subject.ledger.records[place.hit.step]
        if not isinstance(record, schema.Set) or record.name != claim.subject.id:
            continue
        entries = [
            entry
            for entry in subject.ledger.histories.of(claim.subject)
            if getattr(subject.ledger.records[entry.t], "f", 0) == record.f and entry.told
        ]
        numbers = [number for number, entry in enumerate(entries) if entry.t == place.hit.step]
        if numbers:
            yield _Update(claim, claim.subject.id, entries, numbers[0])


def _by_frame(subject: Subject) -> dict[tuple[int, str], list[_Update]]:
    found: dict[tuple[int, str], list[_Update]] = {}
    for update in _updates(subject):
        frame = getattr(subject.ledger.records[update.entries[update.number].t], "f", 0)
        found.setdefault((frame, update.name), []).append(update)
    return found


def other_orders(subject: Subject) -> Iterator[Mutation]:
    """Two updates told the other way round."""
    for updates in _by_frame(subject).values():
        for first, second in pairwise(updates):
            if first.claim.sentence == second.claim.sentence or second.number != first.number + 1:
                continue
            one, other = first.entries[first.number].new, second.entries[second.number].new
            later = [e.new for e in first.entries]
            if any(same(other, a) and any(same(one, b) for b in later[at + 1 :]) for at, a in enumerate(later)):
                continue
            yield Mutation(
                "order",
                _swapped(subject, first.claim.sentence, second.claim.sentence),
                f"sentences {first.claim.sentence} and {second.claim.sentence}",
            )


def _swapped(subject: Subject, one: int, other: int) -> str:
    first, second = subject.reading.sentences[one], subject.reading.sentences[other]
    text = subject.text
    first_text, between, second_text = (
        text[first.start : first.end],
        text[first.end : second.start],
        text[second.start : second.end],
    )
    return text[: first.start] + second_text + between + first_text + text[second.end :]


def drops(subject: Subject) -> Iterator[Mutation]:
    """An update left out between two that are told."""
    for updates in _by_frame(subject).values():
        for before, dropped, after in zip(updates, updates[1:], updates[2:], strict=False):
            numbers = [update.number - before.number for update in (before, dropped, after)]
            sentences = {before.claim.sentence, dropped.claim.sentence, after.claim.sentence}
            if numbers == [0, 1, 2] and len(sentences) == 3:
                sentence = subject.reading.sentences[dropped.claim.sentence]
                yield Mutation(
                    "drop",
                    subject.text[: sentence.start] + subject.text[sentence.end :].lstrip(" "),
                    f"{subject.text[dropped.claim.start : dropped.claim.end]!r}",
                )


def duplicates(subject: Subject) -> Iterator[Mutation]:
    """An update told twice."""
    for updates in _by_frame(subject).values():
        for update in updates:
            entry = update.entries[update.number]
            again = [e for e in subject.ledger.histories.of(ast.Name(update.name)) if same(e.new, entry.new)]
            if len(again) != 1:
                continue
            sentence = subject.reading.sentences[update.claim.sentence]
            told = subject.text[sentence.start : sentence.end]
            yield Mutation(
                "duplicate", f"{subject.text[: sentence.end]} {told}{subject.text[sentence.end :]}", f"{told!r}"
            )
