"""Claims as data, and what the record says to them."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final


class Kind(StrEnum):
    """Kinds of claims."""

    VALUE = "value"  # an expression of the program has a value at some moment
    TEST = "test"  # a condition of the program comes out true, or false
    CALL = "call"  # a function is called with arguments
    RETURN = "return"  # a call gives a value
    INPUT = "input"  # the run was given a value
    MUTATION = "mutation"  # an object is changed: `xs.append(5)`, `d['a'] = 1`
    ITERATION = "iteration"  # an iteration of a loop begins, by its number
    COUNT = "count"  # how often a loop ran, or a function was called
    OUTPUT = "output"  # a text is printed
    RAISE = "raise"  # an exception comes up
    CATCH = "catch"  # a handler takes over
    LEAVE = "leave"  # an exception leaves a function
    EXIT = "exit"  # how a loop ends
    STATEMENT = "statement"  # a statement is reached
    ANSWER = "answer"  # the whole run gives a value

    # read from words, which rarely say where and of what; no document has them
    CHANGE = "change"  # an expression goes from one value to another
    ADD = "add"  # something comes to hold a value, or grows by it
    REMOVE = "remove"  # something holds a value no more, or shrinks by it
    STEP = "step"  # a value comes up on the way, whatever has it
    MEMBER = "member"  # a value is in something, at the place `subject` where that is a number
    PAIR = "pair"  # a dictionary maps a key to a value
    SIZE = "size"  # something has so many parts
    INDEX = "index"  # something has a part at this place
    SPAN = "span"  # values go from one to another
    ROUNDS = "rounds"  # a loop has so many iterations
    TURN = "turn"  # a loop has an iteration of this number
    CALLS = "calls"  # a function is called so often
    REMARK = "remark"  # of the text itself, or of Python


PUBLISHED: Final = frozenset(
    {
        Kind.VALUE, Kind.TEST, Kind.CALL, Kind.RETURN, Kind.INPUT, Kind.MUTATION, Kind.ITERATION, Kind.COUNT,
        Kind.OUTPUT, Kind.RAISE, Kind.CATCH, Kind.LEAVE, Kind.EXIT, Kind.STATEMENT, Kind.ANSWER,
    }
)  # fmt: skip
"""Kinds that a document of claims may have; the others are read from words alone."""


class Status(StrEnum):
    """Answers of the record to a claim. Only `refuted` says that it is false."""

    SUPPORTED = "supported"
    REFUTED = "refuted"
    NOT_FOUND = "not_found"
    OFF_PROGRAM = "off_program"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Claim:
    """Claim of a text.

    Attributes:
        subject: The expression that is spoken of; None for results and inputs of the run as a whole.
        value: What it is said to be.
        shown: `value` as the text writes it.
        decimals: Digits after the point that the text gives, of a number that may be rounded; None for others.
        start: Where the words begin that claim it, in characters of the text.
        end: Where they end.
        parts: Where the code and values in it stand, in characters of the text.
        sentence: The number of the sentence.
        certain: The wording leaves no doubt that this moment of this run is meant, so that it can be refuted.
        general: The sentence speaks of what the program does in a case, not of what happened.
        step: The record at which it is said to be so, by its writer; None for all that are read from words.
    """

    kind: Kind
    subject: ast.expr | None
    value: Any
    shown: str
    decimals: int | None = None
    start: int
    end: int
    parts: Sequence[tuple[int, int]]
    sentence: int
    certain: bool
    general: bool = False
    step: int | None = None


@dataclasses.dataclass(frozen=True)
class Judged:
    """Answer of the record to a claim.

    Attributes:
        step: The record that shows it, or shows otherwise.
        actual: What is so instead, of one that is refuted.
        message: Why it is not supported, for whoever wrote the text; without the text's own value.
    """

    status: Status
    step: int | None = None
    actual: str = ""
    message: str = ""

    def of(self, claim: Claim) -> Verdict:
        """Return the verdict on a claim that this is said of."""
        return Verdict(claim=claim, **vars(self))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict(Judged):
    """A claim and what became of it."""

    claim: Claim

    @property
    def holds(self) -> bool:
        """Return whether what is said is so, also where it is said of the program and not of the run."""
        return self.status is Status.SUPPORTED or (self.status is Status.OFF_PROGRAM and not self.message)


def refuted(step: int, message: str, *, actual: str = "") -> Judged:
    return Judged(Status.REFUTED, step, actual, message)


def not_found(message: str) -> Judged:
    return Judged(Status.NOT_FOUND, message=message)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Number:
    """A number of the text, or another word that is to be borne out, and whether something supported says it."""

    start: int
    end: int
    covered: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class Proof:
    """A text held against a record.

    Attributes:
        sentences: Where each begins and ends, in characters of the text.
        answer: Whether the text gives the result of the run: True, False (it gives another), or None (it gives none).
        misplaced: Sentences that go back, or are told twice, in a text whose claims say that it goes forward.
        gaps: Sentences before which an update is left out, of a text that is held to its claims word by word.
        words: Names, quoted values and truth words, of a text that came with its claims; else none.
    """

    text: str
    sentences: Sequence[tuple[int, int]]
    verdicts: Sequence[Verdict]
    numbers: Sequence[Number]
    answer: bool | None
    words: Sequence[Number] = ()
    misplaced: Sequence[int] = ()
    gaps: Sequence[int] = ()

    @property
    def passes(self) -> bool:
        """The result is told and right, nothing is refuted, and each number stands in something that is so.

        With claims, each name, quoted value and truth word does, too; and no sentence is misplaced."""
        refuted = any(verdict.status is Status.REFUTED for verdict in self.verdicts)
        return (
            self.answer is True
            and not refuted
            and not self.misplaced
            and not self.gaps
            and all(part.covered for part in (*self.numbers, *self.words))
        )

    def count(self, status: Status) -> int:
        """Return how many claims have this status."""
        return sum(verdict.status is status for verdict in self.verdicts)

    def to_dict(self) -> dict[str, Any]:
        """Return what `groundbox prove --json` prints."""
        return {
            "passes": self.passes,
            "answer": self.answer,
            "claims": {str(status): self.count(status) for status in Status},
            "numbers": {"covered": sum(number.covered for number in self.numbers), "total": len(self.numbers)},
            "words": {"covered": sum(word.covered for word in self.words), "total": len(self.words)},
            "misplaced": list(self.misplaced),
            "gaps": list(self.gaps),
            "sentences": [self._sentence(number) for number in range(len(self.sentences))],
        }

    def _sentence(self, number: int) -> dict[str, Any]:
        start, end = self.sentences[number]
        return {
            "text": self.text[start:end],
            "claims": [
                {
                    "kind": str(verdict.claim.kind),
                    "quote": self.text[verdict.claim.start : verdict.claim.end],
                    "status": str(verdict.status),
                    "step": verdict.step,
                    "message": verdict.message,
                }
                for verdict in self.verdicts
                if verdict.claim.sentence == number
            ],
        }
