"""A text in the making: clauses are joined to sentences, sentences to paragraphs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from groundbox.trace.narrate.narration import Claim, Sentence
from groundbox.trace.narrate.phrases import Phrase, Voice, joined, row, saying

MAX_SENTENCE: Final = 150
"""Characters after which a sentence takes no further clause."""
MAX_CLAUSES: Final = 3
_WORD: Final = re.compile(r"[a-z]+[ ,:]")


class TooLong(Exception):
    """The sentences of a draft have more characters than the whole text may have."""


class Clause(NamedTuple):
    """Main clause without its full stop.

    Attributes:
        because: Whether it holds a `since` or `so` of its own, and is therefore joined by a semicolon.
    """

    text: Phrase
    because: bool = False


@dataclass(kw_only=True)
class Draft:
    """Takes clauses in the order of the run.

    A condition waits for what it led to; the two make one clause (`since 3 < 5, x becomes 1`).

    Attributes:
        ledger: All clauses and conditions that there were.
        chars: Of all sentences that have ended; the text has blanks between them, too.
        most_chars: How many these may be before `TooLong` is raised; None for any number.
    """

    voice: Voice
    paragraphs: list[list[Sentence]] = field(default_factory=lambda: [[]])
    _clauses: list[Clause] = field(default_factory=list)
    _conditions: list[Clause] = field(default_factory=list)
    _lead: Phrase | None = None
    _back: Phrase | None = None
    ledger: list[Phrase] = field(default_factory=list)
    _joins_all: bool = False
    chars: int = 0
    most_chars: int | None = None

    def say(self, text: str, *claims: Claim, alone: bool = False, because: bool = False) -> None:
        """A statement; `alone` makes it a sentence of its own, `because` says that it holds a reason."""
        clause = Clause(saying(text, *claims), because)
        self.ledger.append(clause.text)
        # What waited led to this: the two become one clause.
        if self._conditions:
            clause = self._with_conditions(clause)
        if (alone and self._clauses) or self._is_full(clause):
            self.stop()
        self._clauses.append(clause)
        if alone:
            self.stop()

    def condition(self, text: str, *claims: Claim, because: bool = False) -> None:
        """A condition that led to what is said next; `because` as for `say`."""
        self._conditions.append(Clause(saying(text, *claims), because))
        self.ledger.append(self._conditions[-1].text)

    def lead(self, text: str, *claims: Claim, joins_all: bool = False) -> None:
        """Begin the next sentence with this; `joins_all` puts everything up to the next `stop` into it."""
        self.stop()
        self._back = None
        self._lead = saying(text, *claims)
        self._joins_all = joins_all

    def back(self, text: str, *claims: Claim) -> None:
        """Begin the next sentence with this, if there is one before the next `back`."""
        self.stop()
        self._back = saying(text, *claims)

    def forget_back(self) -> None:
        """Begin the next sentence without it, if that is not under way."""
        if not self._clauses and not self._conditions:
            self._back = None

    def stop(self) -> None:
        """End the sentence."""
        if self._conditions:
            self.end_conditions()
        lead, self._lead, self._joins_all = self._lead, None, False
        clauses, self._clauses = self._clauses, []
        if not clauses and lead is None:
            return
        text = _joined(clauses)
        # `back in f(3),` is worth saying only in front of something that happens there.
        if clauses and lead is None and self._back is not None:
            text, self._back = joined(self._back, " ", text), None
        if lead is not None and text:
            text = joined(lead, " ", text)
        elif lead is not None:  # that nothing follows: it is a sentence without its comma
            text = Phrase(lead.rstrip(",:"))
            text.parts = [(lead, 0)]
        if not text:
            return
        self.paragraphs[-1].append(Sentence(text=sentence(text), said=text))
        self.chars += len(self.paragraphs[-1][-1].text)
        if self.most_chars is not None and self.chars > self.most_chars:
            raise TooLong

    def stop_effects(self) -> None:
        """End the sentence, unless all there is of it is a condition that leads to what comes."""
        if self._clauses:
            waiting, self._conditions = self._conditions, []
            self.stop()
            self._conditions = waiting

    def end_conditions(self) -> None:
        """The conditions that wait led to nothing that is told: they are a statement of their own."""
        waiting, self._conditions = self._conditions, []
        self._clauses.append(_and(waiting))

    @property
    def is_at_start(self) -> bool:
        """Return whether nothing of a sentence stands yet."""
        return not self._clauses and self._lead is None

    @property
    def has_conditions(self) -> bool:
        """Return whether a condition waits for what it led to."""
        return bool(self._conditions)

    def paragraph(self) -> None:
        """End the paragraph."""
        self.stop()
        if self.paragraphs[-1]:
            self.paragraphs.append([])

    def done(self) -> list[list[Sentence]]:
        """The paragraphs."""
        self.stop()
        return [paragraph for paragraph in self.paragraphs if paragraph]

    def _with_conditions(self, effect: Clause) -> Clause:
        waiting, self._conditions = self._conditions, []
        condition = _and(waiting)
        # The first clause behind a lead.
        kind = "since.led" if (self._lead or self._back) and not self._clauses else "since"
        return Clause(self.voice.say(kind, condition=condition.text, effect=effect.text), because=True)

    def _is_full(self, clause: Clause) -> bool:
        if not self._clauses or self._joins_all:
            return False
        length = sum(len(other.text) for other in self._clauses) + len(clause.text)
        return len(self._clauses) >= MAX_CLAUSES or length > MAX_SENTENCE or clause.because


def _and(clauses: list[Clause]) -> Clause:
    return Clause(_listed([clause.text for clause in clauses]), any(clause.because for clause in clauses))


def _joined(clauses: list[Clause]) -> Phrase:
    """In a row with commas, or with semicolons where a clause has commas of its own."""
    texts = [clause.text for clause in clauses]
    # A comma or `and` between clauses that have some would leave open which belongs to what.
    if len(texts) > 1 and any(clause.because or is_long(clause.text) for clause in clauses):
        return row(texts, "; ", "; ")
    return _listed(texts)


def is_long(text: str) -> bool:
    """Return whether a clause is made of several."""
    return any(
        f"{word} `" in text for word in (", after which", ", and then", "; after that", ", which is now", " and")
    )


def _listed(texts: Sequence[str]) -> Phrase:
    is_short = len(texts) < 3 and all(len(text) < 50 for text in texts)
    return row(texts, ", ", " and " if is_short else ", and ")


def sentence(text: str) -> str:
    """A sentence: a capital, unless it begins with code or a value, and a full stop."""
    # `x` in backticks, `True` and `'abc'` stay as they are written.
    if _WORD.match(text):
        text = text[0].upper() + text[1:]
    return text + "."
