"""Narrations made false on purpose, to measure what the prover catches.

Each mutation changes one thing in a text all of whose claims hold, and is only made where the result is known to be
false from the trace alone, whatever the prover says:

- value, change, argument, return: the new value is one that this name, parameter or function never has in the run;
- arithmetic: the two sides are no longer equal;
- truth: `is true` becomes `is false`, of a test that gives the same result whenever it is evaluated, or that is
  evaluated once;
- name: the other name never has this value;
- count, iteration: no loop of the run has so many iterations;
- line: nothing of what the sentence tells happens in that line;
- order: two sentences that tell a change of the same name change places, and the run has no such changes in that order;
- drop: a sentence with an update is left out whose neighbours, the updates of the same name before and after it in the
  same call, are both told as changes;
- duplicate: a sentence is told twice whose change happens once in the run.

What could be true in some reading is not made: equal values, independent facts, updates at the edge of what is told.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from groundbox.trace import schema
from groundbox.trace.proof.alignment import Placed, align
from groundbox.trace.proof.claims import (
    AtLine,
    Called,
    Claim,
    Equal,
    Goes,
    Has,
    How,
    InIteration,
    Iterated,
    Returned,
    Truth,
)
from groundbox.trace.proof.grammar import Reading, claims_of
from groundbox.trace.proof.moments.finder import Finder
from groundbox.trace.proof.records.histories import Entry
from groundbox.trace.proof.records.ledger import Ledger
from groundbox.trace.proof.records.scene import is_called
from groundbox.trace.proof.values.bounds import Unknowable
from groundbox.trace.proof.values.evaluation import evaluate, no_names
from groundbox.trace.proof.values.likeness import same
from groundbox.trace.reading import Trace

_SCALAR: Final = re.compile(
    r"(?<![\w.'\"`…-])(?:-?\d+\.\d+(?:e[+-]?\d+)?|-?\d+|'[A-Za-z0-9 ]{0,20}'|True|False|None)"
    r"(?![\w'\"`]|\.\d|\s*more\b)"
)
_TRUTHS: Final = (
    ("is true", "is false"), ("is false", "is true"), ("does not hold", "holds"),
    ("holds", "fails"), ("fails", "holds"),
)  # fmt: skip


class Mutation(NamedTuple):
    """A text with one thing changed.

    Attributes:
        kind: `value`, `truth`, `order` and so on.
        what: The change in words.
    """

    kind: str
    text: str
    what: str


class _Subject(NamedTuple):
    """A text with its claims, their places in the trace, and the trace."""

    text: str
    reading: Reading
    placed: Sequence[Placed]
    ledger: Ledger
    random: random.Random


def mutations(text: str, trace: Trace, *, seed: int = 0, most: int = 3) -> list[Mutation]:
    """False texts made of a true one, at most `most` of each kind; the same for the same seed."""
    ledger = Ledger(trace)
    reading = claims_of(text, ledger.names, ledger.functions)
    placed = align(reading.claims, Finder(ledger))
    subject = _Subject(text, reading, placed, ledger, random.Random(f"mutation {seed}"))
    found: list[Mutation] = []
    for make in _MAKERS:
        made = list(make(subject))
        subject.random.shuffle(made)
        found.extend(made[:most])
    return found


def _held(subject: _Subject, *kinds: type[Claim]) -> Iterator[tuple[Claim, Placed]]:
    """Claims of these kinds that hold and that a record shows."""
    for claim, place in zip(subject.reading.claims, subject.placed, strict=True):
        if isinstance(claim, kinds) and place.hit is not None and place.hit.step >= 0 and not claim.recap:
            yield claim, place


def _scalars(subject: _Subject, claim: Claim) -> Iterator[tuple[int, int, Any]]:
    """The bare numbers, words and strings in a claim, with their places in the text and their values."""
    quote = subject.text[claim.start : claim.end]
    for match in _SCALAR.finditer(quote):
        if quote.count("`", 0, match.start()) % 2 == (
            quote[:1] == "`" or subject.text[claim.start - 1 : claim.start] != "`"
        ):
            continue
        yield claim.start + match.start(), claim.start + match.end(), ast.literal_eval(match.group())


def _another(subject: _Subject, value: Any, taken: Sequence[Any]) -> Any:
    """A value of the same type that is none of these."""
    for _ in range(60):
        other = _changed(subject.random, value)
        if not any(same(other, each) or same(each, other) for each in (*taken, value) if not isinstance(each, type)):
            return other
    return _NONE


_NONE: Final = object()


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


def _replace(text: str, start: int, end: int, new: Any) -> str:
    return text[:start] + (new if type(new) is _Raw else repr(new)) + text[end:]


class _Raw(str):
    pass


def _ever(subject: _Subject, node: ast.expr) -> list[Any]:
    """Every value that a name, item or attribute has in the run."""
    values: list[Any] = []
    for entry in subject.ledger.histories.of(node):
        values.extend((entry.old, entry.new))
    return values


def _values(subject: _Subject) -> Iterator[Mutation]:
    for claim, _ in _held(subject, Has):
        assert isinstance(claim, Has)
        scalars = list(_scalars(subject, claim))
        if claim.how is How.IS_NOT or not scalars or not isinstance(claim.value, ast.Constant):
            continue
        start, end, value = scalars[-1]
        if not same(claim.value.value, value) or subject.text[end : claim.end].strip(" `"):
            continue
        other = _another(subject, value, _ever(subject, claim.subject))
        if other is not _NONE and _ever(subject, claim.subject):
            yield Mutation(
                "value",
                _replace(subject.text, start, end, other),
                f"{value!r} to {other!r} in {subject.text[claim.start : claim.end]!r}",
            )


def _changes(subject: _Subject) -> Iterator[Mutation]:
    for claim, _ in _held(subject, Goes):
        assert isinstance(claim, Goes)
        scalars = list(_scalars(subject, claim))
        if claim.subject is None or not scalars or isinstance(claim.subject, ast.Tuple):
            continue
        start, end, value = subject.random.choice(scalars)
        said = [node.value for node in claim.values if isinstance(node, ast.Constant)]
        other = _another(subject, value, _ever(subject, claim.subject))
        is_said = any(same(value, each) for each in said) and len(said) == len(claim.values)
        is_amount = isinstance(claim.by, ast.Constant) and same(claim.by.value, value)
        if other is not _NONE and is_said and not is_amount:
            yield Mutation(
                "change",
                _replace(subject.text, start, end, other),
                f"{value!r} to {other!r} in {subject.text[claim.start : claim.end]!r}",
            )


def _arguments(subject: _Subject) -> Iterator[Mutation]:
    for claim, _ in _held(subject, Called):
        assert isinstance(claim, Called)
        scalars = list(_scalars(subject, claim))
        if not scalars or not claim.arguments:
            continue
        start, end, value = subject.random.choice(scalars)
        if not any(isinstance(node, ast.Constant) and same(node.value, value) for _, node in claim.arguments):
            continue
        taken = [subject.ledger.memory.read(each, activation.first) for activation in subject.ledger.course.activations
                 if is_called(activation, claim.function) for each in activation.args.values()]  # fmt: skip
        other = _another(subject, value, taken)
        if other is not _NONE:
            yield Mutation(
                "argument",
                _replace(subject.text, start, end, other),
                f"{value!r} to {other!r} in {subject.text[claim.start : claim.end]!r}",
            )


def _returns(subject: _Subject) -> Iterator[Mutation]:
    for claim, _ in _held(subject, Returned):
        assert isinstance(claim, Returned)
        scalars = list(_scalars(subject, claim))
        if not scalars or not isinstance(claim.value, ast.Constant) or not same(claim.value.value, scalars[-1][2]):
            continue
        start, end, value = scalars[-1]
        if subject.text[end : claim.end].strip(" `"):
            continue
        taken = [
            subject.ledger.memory.read(activation.value, activation.last)
            for activation in subject.ledger.course.returns
        ]
        taken += [
            subject.ledger.memory.read(getattr(subject.ledger.records[t], "v", None), t) for t in subject.ledger.yields
        ]
        other = _another(subject, value, taken)
        if other is not _NONE:
            yield Mutation(
                "return",
                _replace(subject.text, start, end, other),
                f"{value!r} to {other!r} in {subject.text[claim.start : claim.end]!r}",
            )


def _arithmetic(subject: _Subject) -> Iterator[Mutation]:
    for claim, _ in _held(subject, Equal):
        assert isinstance(claim, Equal)
        scalars = list(_scalars(subject, claim))
        plain = [part for part in claim.parts if _worked_out(part) is not _NONE]
        if not scalars or len(plain) < 2:
            continue
        start, end, value = scalars[-1]
        other = _another(subject, value, [value])
        if other is _NONE or not isinstance(plain[-1], ast.Constant) or not same(plain[-1].value, value):
            continue
        if same(other, _worked_out(plain[0])) or subject.text[end : claim.end].strip(" `"):
            continue
        yield Mutation(
            "arithmetic",
            _replace(subject.text, start, end, other),
            f"{value!r} to {other!r} in {subject.text[claim.start : claim.end]!r}",
        )


def _worked_out(node: ast.expr) -> Any:
    try:
        return evaluate(node, no_names)
    except Unknowable:
        return _NONE


def _truths(subject: _Subject) -> Iterator[Mutation]:
    finder = Finder(subject.ledger)
    for claim, _ in _held(subject, Truth):
        assert isinstance(claim, Truth)
        if claim.test is None:
            continue
        found = [
            finder.search.conditions.tested(claim.test, condition) for condition in subject.ledger.course.conditions
        ]
        results = {result for result in found if result is not None}
        if len(results) != 1 or claim.truth not in results:
            continue
        for old, new in _TRUTHS:
            at = subject.text.rfind(old, claim.start, claim.end + 1)
            if at >= 0 and at + len(old) >= claim.end - 1:
                yield Mutation(
                    "truth",
                    subject.text[:at] + new + subject.text[at + len(old) :],
                    f"{old} to {new} in {subject.text[claim.start : claim.end]!r}",
                )
                break


def _names(subject: _Subject) -> Iterator[Mutation]:
    for claim, _ in _held(subject, Has, Goes):
        assert isinstance(claim, Has | Goes)
        if not isinstance(claim.subject, ast.Name) or (isinstance(claim, Has) and claim.how is How.IS_NOT):
            continue
        value = claim.value if isinstance(claim, Has) else claim.values[-1]
        name = claim.subject.id
        others = sorted(subject.ledger.names - subject.ledger.functions - {name})
        at = subject.text.find(f"{name}`", claim.start, claim.end)
        if not others or at != claim.start or not isinstance(value, ast.Constant):
            continue
        other = subject.random.choice(others)
        taken = _ever(subject, ast.Name(other))
        if not taken or any(same(value.value, each) for each in taken):
            continue
        new = subject.text[:at] + other + subject.text[at + len(name) :]
        yield Mutation("name", new, f"{name} to {other} in {subject.text[claim.start : claim.end]!r}")


def _counts(subject: _Subject) -> Iterator[Mutation]:
    counts = {run.loop.count for run in subject.ledger.course.loops}
    for claim, _ in _held(subject, Iterated, InIteration):
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
            _replace(subject.text, claim.start + match.start(), claim.start + match.end(), other),
            f"{number} to {other} in {quote!r}",
        )


def _free(subject: _Subject, number: int, counts: set[int]) -> int:
    """A count near this one that no loop has."""
    near = [other for other in range(max(1, number - 3), number + 4) if other not in counts]
    return subject.random.choice(near) if near else max(counts) + 1


def _lines(subject: _Subject) -> Iterator[Mutation]:
    last = subject.ledger.trace.source.count("\n") + 1
    for claim, _ in _held(subject, AtLine):
        assert isinstance(claim, AtLine)
        lines = {
            subject.ledger.course.line_of(place.hit.step)
            for other, place in _held(subject, Claim)
            if other.sentence == claim.sentence and place.hit
        }
        free = [line for line in range(1, last + 1) if line not in lines and line != claim.line]
        match = re.search(r"\d+", subject.text[claim.start : claim.end])
        if free and match is not None and lines:
            other = subject.random.choice(free)
            yield Mutation(
                "line",
                _replace(subject.text, claim.start + match.start(), claim.start + match.end(), other),
                f"line {claim.line} to {other}",
            )


class _Update(NamedTuple):
    """A claim that tells one update of a name.

    Attributes:
        number: The position of the update in the history of its frame.
    """

    claim: Claim
    name: str
    entries: Sequence[Entry]
    number: int


def _updates(subject: _Subject) -> Iterator[_Update]:
    """Every update of a name that a record tells and that the text tells as a change."""
    for claim, place in _held(subject, Has, Goes):
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


def _by_frame(subject: _Subject) -> dict[tuple[int, str], list[_Update]]:
    found: dict[tuple[int, str], list[_Update]] = {}
    for update in _updates(subject):
        frame = getattr(subject.ledger.records[update.entries[update.number].t], "f", 0)
        found.setdefault((frame, update.name), []).append(update)
    return found


def _orders(subject: _Subject) -> Iterator[Mutation]:
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


def _swapped(subject: _Subject, one: int, other: int) -> str:
    first, second = subject.reading.sentences[one], subject.reading.sentences[other]
    text = subject.text
    first_text, between, second_text = (
        text[first.start : first.end],
        text[first.end : second.start],
        text[second.start : second.end],
    )
    return text[: first.start] + second_text + between + first_text + text[second.end :]


def _drops(subject: _Subject) -> Iterator[Mutation]:
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


def _duplicates(subject: _Subject) -> Iterator[Mutation]:
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


_MAKERS: Final[Sequence[Callable[[_Subject], Iterator[Mutation]]]] = (
    _values, _changes, _arguments, _returns, _arithmetic, _truths, _names, _counts, _lines, _orders,
    _drops, _duplicates,
)  # fmt: skip
