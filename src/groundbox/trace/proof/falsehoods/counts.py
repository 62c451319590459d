"""One count, iteration or line changed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from groundbox.trace.proof.claims import AtLine, Claim, InIteration, Iterated
from groundbox.trace.proof.falsehoods.subject import Mutation, Subject, held, replace


def other_counts(subject: Subject) -> Iterator[Mutation]:
    """Another number of iterations, or of an iteration."""
    counts = {run.loop.count for run in subject.ledger.course.loops}
    for claim, _ in held(subject, Iterated, InIteration):
        assert isinstance(claim, Iterated | InIteration)
        quote = subject.text[claim.start : claim.end]
        match = re.search(r"\d+", quote)
        if match is None:
            continue
        number = int(match.group())
        other = (
            max(counts) + subject.random.choice((1, 2, 5))
            if isinstance(claim, InIteration)
            else _free(subject, number, counts)
        )
        kind = "iteration" if isinstance(claim, InIteration) else "count"
        yield Mutation(
            kind,
            replace(subject.text, claim.start + match.start(), claim.start + match.end(), other),
            f"{number} to {other} in {quote!r}",
        )


def _free(subject: Subject, number: int, counts: set[int]) -> int:
    """A count near this one that no loop has."""
    near = [other for other in range(max(1, number - 3), number + 4) if other not in counts]
    return subject.random.choice(near) if near else max(counts) + 1


def other_lines(subject: Subject) -> Iterator[Mutation]:
    """Another line."""
    last = subject.ledger.trace.source.count("\n") + 1
    for claim, _ in held(subject, AtLine):
        assert isinstance(claim, AtLine)
        lines = {
            subject.ledger.course.line_of(place.hit.step)
            for other, place in held(subject, Claim)
            if other.sentence == claim.sentence and place.hit
        }
        free = [line for line in range(1, last + 1) if line not in lines and line != claim.line]
        match = re.search(r"\d+", subject.text[claim.start : claim.end])
        if free and match is not None and lines:
            other = subject.random.choice(free)
            yield Mutation(
                "line",
                replace(subject.text, claim.start + match.start(), claim.start + match.end(), other),
                f"line {claim.line} to {other}",
            )
