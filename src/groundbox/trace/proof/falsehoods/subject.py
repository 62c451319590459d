"""A true text with its claims and their places in the trace, and what all ways to make it false need."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from groundbox.trace.proof.alignment import Placed
from groundbox.trace.proof.claims import Claim
from groundbox.trace.proof.grammar import Reading
from groundbox.trace.proof.records.ledger import Ledger
from groundbox.trace.proof.values.likeness import same

_SCALAR: Final = re.compile(
    r"(?<![\w.'\"`…-])(?:-?\d+\.\d+(?:e[+-]?\d+)?|-?\d+|'[A-Za-z0-9 ]{0,20}'|True|False|None)"
    r"(?![\w'\"`]|\.\d|\s*more\b)"
)


class Mutation(NamedTuple):
    """A text with one thing changed.

    Attributes:
        kind: `value`, `truth`, `order` and so on.
        what: The change in words.
    """

    kind: str
    text: str
    what: str


class Subject(NamedTuple):
    """A text with its claims, their places in the trace, and the trace."""

    text: str
    reading: Reading
    placed: Sequence[Placed]
    ledger: Ledger
    random: random.Random


def held(subject: Subject, *kinds: type[Claim]) -> Iterator[tuple[Claim, Placed]]:
    """Claims of these kinds that hold and that a record shows."""
    for claim, place in zip(subject.reading.claims, subject.placed, strict=True):
        if isinstance(claim, kinds) and place.hit is not None and place.hit.step >= 0 and not claim.recap:
            yield claim, place


def scalars_in(subject: Subject, claim: Claim) -> Iterator[tuple[int, int, Any]]:
    """The bare numbers, words and strings in a claim, with their places in the text and their values."""
    quote = subject.text[claim.start : claim.end]
    for match in _SCALAR.finditer(quote):
        if quote.count("`", 0, match.start()) % 2 == (
            quote[:1] == "`" or subject.text[claim.start - 1 : claim.start] != "`"
        ):
            continue
        yield claim.start + match.start(), claim.start + match.end(), ast.literal_eval(match.group())


def another(subject: Subject, value: Any, taken: Sequence[Any]) -> Any:
    """A value of the same type that is none of these."""
    for _ in range(60):
        other = _changed(subject.random, value)
        if not any(same(other, each) or same(each, other) for each in (*taken, value) if not isinstance(each, type)):
            return other
    return NONE


NONE: Final = object()
"""What stands for a value that there is not."""


def _changed(chance: random.Random, value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + chance.choice((-3, -2, -1, 1, 2, 3, 10))
    if isinstance(value, float):
        return round(value + chance.choice((-1.5, -0.5, 0.5, 1.25, 3.0)), 6)
    if isinstance(value, str):
        return value + chance.choice("abxyz") if len(value) < 3 or chance.random() < 0.5 else value[:-1]
    return 0


def replace(text: str, start: int, end: int, new: Any) -> str:
    """The text with another value from `start` to `end`."""
    return text[:start] + repr(new) + text[end:]


def ever(subject: Subject, node: ast.expr) -> list[Any]:
    """Every value that a name, item or attribute has in the run."""
    values: list[Any] = []
    for entry in subject.ledger.histories.of(node):
        values.extend((entry.old, entry.new))
    return values
