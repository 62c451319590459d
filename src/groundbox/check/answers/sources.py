"""Contents that runs showed: numbers with the words beside them, columns of numbers, counts, dates and texts."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from groundbox.check.answers.dates import Date
from groundbox.check.answers.report import Support
from groundbox.check.answers.text import plain
from groundbox.execution import Execution
from groundbox.values.numbers import Number

MOST_NUMBERS: Final = 50_000
MOST_DATES: Final = 2_000
MOST_TEXT: Final = 16_000_000
MOST_SEARCHED: Final = 2_000_000_000
"""Characters that are searched for the texts of one answer; each search of a text counts as some more."""
_SEARCH: Final = 1_000
_MOST_OCCURRENCES: Final = 1_000
_VERSION: Final = re.compile(r"(?<![\w.])\d{1,4}\.\d{1,4}\.\d{1,4}(?![\w.])")
NO_WORDS: Final[frozenset[str]] = frozenset()


class Place(NamedTuple):
    """Where something was shown."""

    execution: int
    execution_id: str
    part: str
    where: str

    def support(self, derivation: str = "") -> Support:
        """The place as the support of a mention."""
        return Support(**self._asdict(), derivation=derivation)


class Shown(NamedTuple):
    """A number that was shown.

    Attributes:
        labels: Words beside it: of its line, its row, its column.
        row: Those of them that are of its line or row only.
        weak: Whether it only counts lines, as the index of a printed table does.
    """

    number: Number
    text: str
    place: Place
    labels: frozenset[str]
    percent: bool = False
    weak: bool = False
    row: frozenset[str] = NO_WORDS

    @property
    def value(self) -> Decimal:
        return self.number.value


class Group(NamedTuple):
    """Numbers that stand together: a column, or the items of a list.

    Attributes:
        whole: Whether these are all of them; a table may be shown in part.
    """

    name: str
    place: Place
    shown: Sequence[Shown]
    labels: frozenset[str]
    whole: bool = True


class Count(NamedTuple):
    """How many there are of something."""

    value: int
    what: str
    place: Place
    labels: frozenset[str]


@dataclasses.dataclass
class Sources:
    """Everything that was shown, in order.

    Attributes:
        dates: By their text.
        versions: Whether something like 1.2.3 was shown.
        dropped: Numbers that were over `MOST_NUMBERS`, characters over `MOST_TEXT`, and texts not looked for because
            `MOST_SEARCHED` was reached.
    """

    shown: list[Shown] = dataclasses.field(default_factory=list)
    groups: list[Group] = dataclasses.field(default_factory=list)
    counts: list[Count] = dataclasses.field(default_factory=list)
    dates: dict[str, tuple[Date, Place]] = dataclasses.field(default_factory=dict)
    texts: list[tuple[str, Place]] = dataclasses.field(default_factory=list)
    names: list[tuple[str, Place]] = dataclasses.field(default_factory=list)
    versions: bool = False
    dropped: dict[str, int] = dataclasses.field(default_factory=dict)
    by_value: dict[Decimal, list[Shown]] = dataclasses.field(default_factory=dict)
    _text_left: int = MOST_TEXT
    _search_left: int = dataclasses.field(default_factory=lambda: MOST_SEARCHED)

    def show(self, shown: Shown) -> None:
        """Take a number."""
        # Counted, so that the report says that not all was looked at; the whole outputs are searched then
        # (`search_whole`).
        if len(self.shown) >= MOST_NUMBERS:
            self.drop("numbers shown", 1)
            return
        self.shown.append(shown)
        self.by_value.setdefault(shown.value, []).append(shown)

    def say(self, text: str, place: Place) -> None:
        """Take a text to look for words in."""
        taken = text[: self._text_left]
        self._text_left -= len(taken)
        if len(taken) < len(text):
            self.drop("characters shown", len(text) - len(taken))
        self.texts.append((plain(taken), place))
        self.versions = self.versions or _VERSION.search(taken) is not None

    def date(self, date: Date, place: Place) -> None:
        """Take a date; the same text once."""
        if date.text not in self.dates and len(self.dates) >= MOST_DATES:
            self.drop("dates shown", 1)
            return
        self.dates.setdefault(date.text, (date, place))

    def drop(self, what: str, count: int) -> None:
        """Count what was left out."""
        self.dropped[what] = self.dropped.get(what, 0) + count

    def text_with(self, wanted: str) -> Place | None:
        """Where a text stands, with no letter or digit around it that would make it part of another."""
        for text, place in self.texts:
            if self._search_left <= 0:
                self.drop("texts not looked for", 1)
                return None
            # A budget in characters and not in seconds: an answer of 2,000 quotes against 16 MB would search 32 GB.
            self._search_left -= len(text) + _SEARCH
            for at in _occurrences(text, wanted):
                end = at + len(wanted)
                # `North` stands in `Northern` and is not quoted from there.
                inside = wanted[0].isalnum() and at > 0 and text[at - 1].isalnum()
                if not inside and not (wanted[-1].isalnum() and end < len(text) and text[end].isalnum()):
                    return place
        return None


def _occurrences(text: str, wanted: str) -> Iterator[int]:
    # Bounded: of "a" in a text of nothing but "aaaa", each occurrence is inside a word, and all would be looked at.
    left = _MOST_OCCURRENCES
    at = text.find(wanted) if wanted else -1
    while at >= 0 and left:
        yield at
        at, left = text.find(wanted, at + 1), left - 1


def families(groups: Sequence[Group]) -> dict[int, set[int]]:
    """For each number, by its identity, the columns and lists that it is of."""
    found: dict[int, set[int]] = {}
    for position, group in enumerate(groups):
        for one in group.shown:
            # By identity: equal values of two columns are two numbers.
            found.setdefault(id(one), set()).add(position)
    return found


def place_of(position: int, execution: Execution, part: str, where: str = "") -> Place:
    """A place in an execution."""
    return Place(position, execution.execution_id, part, where)
