"""Tellings made false on purpose, with their claims, to measure what a proof notices.

Each mutation changes one thing in a telling whose claims all hold, and is only made where records alone say that the
result is false, whatever a proof says:

- value, change, argument: the new value is one that this name or attribute never has in the run;
- return: no call gives it;
- arithmetic: the two sides are no longer equal;
- truth: `is true` becomes `is false`, of a test that came out the same whenever it was made;
- name: the other name never has this value;
- count, iteration: no loop has so many iterations, and no function as many calls;
- line: nothing of what the sentence tells happens in that line;
- order: two sentences that tell a change of the same name change places, and the run has no such changes in that order;
- drop: a sentence with an update is left out whose neighbours, the updates of the same name before and after it in the
  same call, are both told, and whose value no other sentence has;
- duplicate: a sentence is told twice whose change happens once in the run.

What could be true in some reading is not made. The claims stay as they were with their sentences; the words of a quote
are those that stand where it stood.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from groundbox.trace.record import schema
from groundbox.trace.record.reading import Trace
from groundbox.values.evaluate import evaluate
from groundbox.values.parsing import expression_of
from groundbox.values.unknown import Unknown

_NUMBER: Final = re.compile(r"(?<![\w.])\d+(?![\w.])")
_LINE: Final = re.compile(r"line (\d+)")
_TRUTHS: Final = (
    ("is true", "is false"), ("is false", "is true"), ("does not hold", "holds"),
    ("holds", "fails"), ("fails", "holds"),
)  # fmt: skip
_TRIES: Final = 60


class Mutation(NamedTuple):
    """A telling with one thing changed.

    Attributes:
        kind: `value`, `truth`, `order` and so on.
        what: The change in words.
        claims: The document of claims that comes with the text.
    """

    kind: str
    text: str
    what: str
    claims: Mapping[str, Any]


class _Said(NamedTuple):
    """A claim and its words, in characters of its sentence."""

    sentence: int
    claim: Mapping[str, Any]
    start: int
    end: int
    quote: str


class _Update(NamedTuple):
    """A sentence that tells an update, and the update's place among those of the name in its call."""

    sentence: int
    history: tuple[int, str]
    number: int


def mutations(text: str, claims: Mapping[str, Any], trace: Trace, *, seed: int = 0, most: int = 3) -> list[Mutation]:
    """False tellings made of a true one, at most `most` of each kind; the same for the same seed.

    Args:
        claims: The document of claims that comes with the text.
    """
    telling = _Telling(text, claims, trace, random.Random(f"mutation {seed}"))
    found: list[Mutation] = []
    for make in _MAKERS:
        made: dict[str, list[Mutation]] = {}
        for each in make(telling):
            made.setdefault(each.kind, []).append(each)
        # In an order of their own, so that the random choices are the same in each process.
        for kind in sorted(made):
            telling.random.shuffle(made[kind])
            found.extend(made[kind][:most])
    return found


@dataclasses.dataclass
class _Telling:
    """A text with its claims, and what records say of names, calls and loops."""

    text: str
    claims: Mapping[str, Any]
    trace: Trace
    random: random.Random

    @functools.cached_property
    def spans(self) -> list[tuple[int, int]]:
        """Return where the sentences stand in the text."""
        found, at = [], 0
        for sentence in self.claims["sentences"]:
            start = self.text.index(sentence["text"], at)
            at = start + len(sentence["text"])
            found.append((start, at))
        return found

    def said(self, *kinds: str) -> Iterator[_Said]:
        """Claims of these kinds that name a record and the words that say them."""
        for number, sentence in enumerate(self.claims["sentences"]):
            for claim in sentence["claims"]:
                if claim["kind"] in kinds and claim.get("step") is not None and claim.get("quote"):
                    start = claim.get("at", sentence["text"].find(claim["quote"]))
                    yield _Said(number, claim, start, start + len(claim["quote"]), claim["quote"])

    def literals(self, *kinds: str) -> Iterator[tuple[_Said, int, Any]]:
        """Claims whose words end in their value, where that begins, and what it is: a number, a short text, a truth."""
        for said in self.said(*kinds):
            shown = said.claim["value"]
            if shown and said.quote.endswith(shown) and len(shown) < 30:
                try:
                    value = ast.literal_eval(shown)
                except (ValueError, SyntaxError):
                    continue
                if isinstance(value, bool | int | float | str):
                    yield said, said.end - len(shown), value

    @functools.cached_property
    def names(self) -> list[str]:
        """Names that ever have a value."""
        found: set[str] = set()
        for record in self.trace.records:
            found.update(record.args if isinstance(record, schema.Call) else ())
            found.update([record.name] if isinstance(record, schema.Set) else ())
        return sorted(found)

    def ever(self, name: str) -> frozenset[str]:
        """Every value that a name, or an attribute of whatever object, has in the run, as text."""
        return self._ever.get(name.rpartition(".")[2] if "." in name else f"{name}=", frozenset())

    @functools.cached_property
    def _ever(self) -> Mapping[str, frozenset[str]]:
        found: dict[str, set[str]] = {}
        for (_, name), values in self.histories.items():
            found.setdefault(f"{name}=", set()).update(value for _, value in values)
        for record in self.trace.records:
            if isinstance(record, schema.Object | schema.Mutate):
                for name, value in (record.attrs or {}).items():
                    found.setdefault(name, set()).add(repr(value))
        return {name: frozenset(values) for name, values in found.items()}

    @functools.cached_property
    def given(self) -> frozenset[str]:
        """Everything that calls give or generators yield, and what the run gives, as text."""
        ends = [t for t, r in enumerate(self.trace.records) if isinstance(r, schema.Return | schema.Yield)]
        return frozenset(self.trace.state_at(t).text(getattr(self.trace.records[t], "v", None)) for t in ends)

    @functools.cached_property
    def counts(self) -> frozenset[int]:
        """Return how often loops went round, and functions were called."""
        found: set[int] = set()
        called: dict[str, int] = {}
        for record in self.trace.records:
            if isinstance(record, schema.Iteration):
                found.add(record.number)
            elif isinstance(record, schema.Ended | schema.Fold):
                found.add(record.iterations)
            elif isinstance(record, schema.Call):
                called[record.name] = called.get(record.name, 0) + 1
        return frozenset(found | set(called.values()))

    @functools.cached_property
    def outcomes(self) -> Mapping[str, frozenset[bool]]:
        """Return how each operand of a condition came out, by its code."""
        lines = self.trace.source.splitlines(keepends=True)
        found: dict[str, set[bool]] = {}
        for record in self.trace.records:
            if isinstance(record, schema.Test):
                first, begin, last, end = record.at
                if first == last:
                    code = lines[first - 1].encode()[begin:end].decode(errors="replace")
                    found.setdefault(code, set()).add(record.v)
        return {code: frozenset(each) for code, each in found.items()}

    @functools.cached_property
    def histories(self) -> Mapping[tuple[int, str], list[tuple[int, str]]]:
        """The updates of each name in each call: their records, and the values as text."""
        found: dict[tuple[int, str], list[tuple[int, str]]] = {}
        for name in self.names:
            for value in self.trace.history(name):
                found.setdefault((value.frame, name), []).append((value.step, value.text))
        return found

    def line_of(self, step: int) -> int:
        """The line that the frame of a record is in, or the last one before it."""
        before = (self.trace.records[t] for t in range(step, -1, -1))
        return next((record.n for record in before if isinstance(record, schema.Line)), 0)

    def other(self, value: Any, taken: frozenset[str]) -> str | None:
        """A value of the same type, as text, that is none of these."""
        for _ in range(_TRIES):
            other = _changed(self.random, value)
            if repr(other) not in taken and other != value:
                return repr(other)
        return None

    def replaced(self, kind: str, number: int, start: int, end: int, new: str) -> Mutation:
        """The telling with other words from `start` to `end` of a sentence, and quotes cut at the same places."""
        sentence = self.claims["sentences"][number]
        old: str = sentence["text"]
        longer = len(new) - (end - start)
        told = old[:start] + new + old[end:]
        claims = []
        for claim in sentence["claims"]:
            if "quote" in claim:
                first = claim.get("at", old.find(claim["quote"]))
                last = first + len(claim["quote"])
                # Places before the change stay, those behind it move, and one within it goes to its beginning.
                first, last = (at if at <= start else at + longer if at >= end else start for at in (first, last))
                claim = claim | {"quote": told[first:last], "at": first}
            claims.append(claim)
        begin, stop = self.spans[number]
        sentences = list(self.claims["sentences"])
        sentences[number] = {"text": told, "claims": claims}
        text = f"{self.text[:begin]}{told}{self.text[stop:]}"
        return Mutation(
            kind, text, f"{old[start:end]!r} to {new!r} in {old!r}", {**self.claims, "sentences": sentences}
        )

    def rearranged(self, kind: str, text: str, order: Sequence[int]) -> Mutation:
        """The telling with sentences in another order, each as often as it is named."""
        sentences = [self.claims["sentences"][number] for number in order]
        return Mutation(kind, text, f"{kind} {list(order)}", {**self.claims, "sentences": sentences})


def _changed(chance: random.Random, value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + chance.choice((-3, -2, -1, 1, 2, 3, 10))
    if isinstance(value, float):
        return round(value + chance.choice((-1.5, -0.5, 0.5, 1.25, 3.0)), 6)
    return value + chance.choice("abxyz") if len(value) < 3 or chance.random() < 0.5 else value[:-1]


def _other_values(telling: _Telling) -> Iterator[Mutation]:
    """Another value of a name or attribute, where it is given, where it changes, and elsewhere."""
    for said, start, value in telling.literals("value", "mutation"):
        name = said.claim["subject"].removesuffix(" = ...")
        is_name = all(part.isidentifier() for part in name.split("."))
        other = telling.other(value, telling.ever(name)) if is_name and telling.ever(name) else None
        if other is None:
            continue
        before = telling.claims["sentences"][said.sentence]["text"][:start]
        is_argument = isinstance(telling.trace.records[said.claim["step"]], schema.Call)
        kind = "argument" if is_argument else "change" if re.search(r"\b(from|to) $", before) else "value"
        yield telling.replaced(kind, said.sentence, start, said.end, other)


def _other_returns(telling: _Telling) -> Iterator[Mutation]:
    """Another value that a call or the run gives."""
    for said, start, value in telling.literals("return", "answer"):
        other = telling.other(value, telling.given)
        if other is not None:
            yield telling.replaced("return", said.sentence, start, said.end, other)


def _other_results(telling: _Telling) -> Iterator[Mutation]:
    """Another number in a working, so that it gives something else."""
    for said in telling.said("value", "test"):
        worked = said.claim["value"]
        found = list(_NUMBER.finditer(worked))
        if said.quote != worked or len(found) < 2:
            continue
        number = telling.random.choice(found)
        other = str(int(number[0]) + telling.random.choice((1, 2, 3)))
        new = worked[: number.start()] + other + worked[number.end() :]
        was, now = _worth(worked), _worth(new)
        if was is not None and now is not None and was != now:
            yield telling.replaced(
                "arithmetic", said.sentence, said.start + number.start(), said.start + number.end(), other
            )


def _worth(code: str) -> Any:
    def no_names(name: str) -> Any:
        raise Unknown(name)

    try:
        return evaluate(expression_of(code), no_names)
    except (Unknown, SyntaxError):
        return None


def _other_truths(telling: _Telling) -> Iterator[Mutation]:
    """The opposite of what a test gives."""
    for said in telling.said("test"):
        if telling.outcomes.get(said.claim["subject"]) != frozenset({said.claim["value"] == "True"}):
            continue
        for old, new in _TRUTHS:
            at = said.quote.rfind(old)
            if at >= 0 and said.claim["value"] in ("True", "False"):
                start = said.start + at
                yield telling.replaced("truth", said.sentence, start, start + len(old), new)
                break


def _other_names(telling: _Telling) -> Iterator[Mutation]:
    """Another name for a value."""
    for said, start, value in telling.literals("value"):
        name = said.claim["subject"]
        at = said.quote.find(f"`{name}` ") if said.start < start else -1
        others = [each for each in telling.names if each != name]
        other = telling.random.choice(others) if others else name
        if at >= 0 and other != name and telling.ever(other) and repr(value) not in telling.ever(other):
            begin = said.start + at + 1
            yield telling.replaced("name", said.sentence, begin, begin + len(name), other)


def _other_counts(telling: _Telling) -> Iterator[Mutation]:
    """Another number of iterations or calls, or of an iteration."""
    most = max(telling.counts, default=0)
    for said in telling.said("count", "iteration"):
        number = re.search(rf"(?<!\w){re.escape(said.claim['value'])}(?!\w)", said.quote)
        if number is not None and said.claim["value"].isdigit():
            start, end = said.start + number.start(), said.start + number.end()
            other = str(most + telling.random.choice((1, 2, 5)))
            yield telling.replaced(said.claim["kind"], said.sentence, start, end, other)


def _other_lines(telling: _Telling) -> Iterator[Mutation]:
    """Another line."""
    last = telling.trace.source.count("\n") + 1
    for number, sentence in enumerate(telling.claims["sentences"]):
        steps = [claim["step"] for claim in sentence["claims"] if claim.get("step") is not None]
        lines = {telling.line_of(step) for step in steps}
        for found in _LINE.finditer(sentence["text"]):
            free = [line for line in range(1, last + 1) if line not in lines and line != int(found[1])]
            if free and lines:
                yield telling.replaced("line", number, found.start(1), found.end(1), str(telling.random.choice(free)))


def _updates(telling: _Telling) -> Mapping[tuple[int, str], list[_Update]]:
    """The updates of names that sentences tell, by call and name; each where it is told first."""
    found: dict[tuple[int, str], list[_Update]] = {}
    for said in telling.said("value"):
        record = telling.trace.records[said.claim["step"]]
        if isinstance(record, schema.Set) and record.name == said.claim["subject"]:
            history = (record.f, record.name)
            steps = [step for step, _ in telling.histories.get(history, ())]
            told = found.setdefault(history, [])
            if said.claim["step"] in steps and not any(each.number == steps.index(said.claim["step"]) for each in told):
                told.append(_Update(said.sentence, history, steps.index(said.claim["step"])))
    return found


def _other_orders(telling: _Telling) -> Iterator[Mutation]:
    """Two updates told the other way round."""
    for history, updates in _updates(telling).items():
        values = [value for _, value in telling.histories[history]]
        for first, second in pairwise(updates):
            if first.sentence >= second.sentence or second.number != first.number + 1:
                continue
            one, other = values[first.number], values[second.number]
            # The run has the two values in this order, too, so that the exchanged text may be true.
            if any(value == other and one in values[at + 1 :] for at, value in enumerate(values)):
                continue
            (begin, end), (start, stop) = telling.spans[first.sentence], telling.spans[second.sentence]
            text = telling.text
            swapped = f"{text[:begin]}{text[start:stop]}{text[end:start]}{text[begin:end]}{text[stop:]}"
            order = list(range(len(telling.spans)))
            order[first.sentence], order[second.sentence] = second.sentence, first.sentence
            yield telling.rearranged("order", swapped, order)


def _drops(telling: _Telling) -> Iterator[Mutation]:
    """An update left out between two that are told."""
    for updates in _updates(telling).values():
        for before, dropped, after in zip(updates, updates[1:], updates[2:], strict=False):
            numbers = [update.number - before.number for update in (before, dropped, after)]
            in_order = before.sentence < dropped.sentence < after.sentence
            if numbers == [0, 1, 2] and in_order and not _is_told_elsewhere(telling, dropped):
                start, end = telling.spans[dropped.sentence]
                text = telling.text[:start] + telling.text[end:].lstrip(" ")
                order = [number for number in range(len(telling.spans)) if number != dropped.sentence]
                yield telling.rearranged("drop", text, order)


def _is_told_elsewhere(telling: _Telling, update: _Update) -> bool:
    """Return whether another sentence has the value that an update gave, such as the one that tells what it became."""
    _, name = update.history
    steps = [step for step, _ in telling.histories[update.history]]
    since, until = steps[update.number], steps[update.number + 1]
    return any(
        said.claim["subject"] == name and since <= said.claim["step"] < until and said.sentence != update.sentence
        for said in telling.said("value")
    )


def _duplicates(telling: _Telling) -> Iterator[Mutation]:
    """An update told twice."""
    for (_, name), updates in _updates(telling).items():
        every = [value for (_, each), values in telling.histories.items() if each == name for _, value in values]
        for update in updates:
            value = telling.histories[update.history][update.number][1]
            if every.count(value) == 1:
                start, end = telling.spans[update.sentence]
                text = f"{telling.text[:end]} {telling.text[start:end]}{telling.text[end:]}"
                order = sorted([*range(len(telling.spans)), update.sentence])
                yield telling.rearranged("duplicate", text, order)


_MAKERS: Final[Sequence[Callable[[_Telling], Iterator[Mutation]]]] = (
    _other_values, _other_returns, _other_results, _other_truths, _other_names, _other_counts, _other_lines,
    _other_orders, _drops, _duplicates,
)  # fmt: skip
