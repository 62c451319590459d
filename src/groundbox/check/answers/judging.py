"""Judges the numbers of an answer against what was shown: first what stands there, then what follows from it."""

from __future__ import annotations

import bisect
import codecs
import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Final

from groundbox.check.answers import derivations as by
from groundbox.check.answers import unspaced
from groundbox.check.answers.derivations import CLEAR, Candidate, Operand, best, cued
from groundbox.check.answers.mentions import Found
from groundbox.check.answers.sources import Count, Group, Place, Shown, Sources, families, place_of
from groundbox.check.answers.text import plain, stem, words
from groundbox.execution import Execution, OutputHandle
from groundbox.values.numbers import GROUPED

# A point ends a sentence where no small letter follows and no abbreviation ends (`i.e. 5`); items of lists and rows of
# tables stand alone.
_SENTENCE: Final = re.compile(
    r"(?<=[.!?])(?<!\bi\.e\.)(?<!\be\.g\.)(?<!\bapprox\.)(?<!\bca\.)(?<!\bvs\.)(?<!\bcf\.)\s+(?=[^a-z\s])"
    r"|(?<=[。！？])(?=[^\n])|\n\s*\n|\n(?=[ \t]*(?:[-*+|#>]|\d{1,3}[.)]))"
)
_ITEM: Final = re.compile(r"[ \t]*(?:[-*+|]|\d{1,3}[.)])[ \t]")
_PARAGRAPH: Final = re.compile(r"\n\s*\n")


class Scopes:
    """Where each mention stands."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._sentences = _starts(_SENTENCE, text)
        self._paragraphs = _starts(_PARAGRAPH, text)
        self._words: dict[tuple[int, int], frozenset[str]] = {}
        self._said: dict[tuple[re.Pattern[str], tuple[int, int]], bool] = {}

    def sentence(self, one: Found) -> tuple[int, int]:
        """Start and end of the sentence, of the list item or of the row of a table."""
        return _span(self._sentences, one.start, len(self._text))

    def paragraph(self, one: Found) -> tuple[int, int]:
        """Start and end of the text between two empty lines."""
        return _span(self._paragraphs, one.start, len(self._text))

    def is_item(self, one: Found) -> bool:
        """Tell whether it stands in a list item or the row of a table."""
        return _ITEM.match(self._text, self.sentence(one)[0]) is not None

    def neighbourhood(self, one: Found) -> tuple[int, int]:
        """Its sentence and the one before in the same paragraph; a list item or the row of a table stands alone."""
        start, end = self.sentence(one)
        if _ITEM.match(self._text, start):
            return start, end
        at = bisect.bisect_left(self._sentences, start)
        before = self._sentences[at - 1] if at else start
        # `It has 120 rows. That is 25 more …`: what `that` means stands one sentence before, but not in another
        # paragraph.
        if before < self.paragraph(one)[0] or _ITEM.match(self._text, before):
            return start, end
        return before, end

    def text(self, span: tuple[int, int]) -> str:
        """The text of a span, without its end where that is far away."""
        return self._text[span[0] : min(span[1], span[0] + 4000)]

    def says(self, pattern: re.Pattern[str], span: tuple[int, int]) -> bool:
        """Tell whether the pattern is in a span's text; looked for once, as a span may have thousands of numbers."""
        key = (pattern, span)
        if key not in self._said:
            self._said[key] = pattern.search(self.text(span)) is not None
        return self._said[key]

    def words(self, span: tuple[int, int]) -> frozenset[str]:
        """The telling words of a span; those of the head of its table too."""
        if span not in self._words:
            text = self.text(span)
            # The row `| North | 120 |` gets its words for what is counted from the row above all others.
            head = self._head(span) if text.lstrip().startswith("|") else ""
            self._words[span] = words(f"{head} {text}".replace("_", " "))
        return self._words[span]

    def _head(self, span: tuple[int, int]) -> str:
        """The first row of the table that a row belongs to."""
        start, end = _span(self._paragraphs, span[0], len(self._text))
        lines = self._text[start : min(end, start + 4000)].splitlines()
        return next((line for line in lines if line.lstrip().startswith("|")), "")


def _starts(pattern: re.Pattern[str], text: str) -> list[int]:
    return [0, *(match.end() for match in pattern.finditer(text))]


def _span(starts: list[int], position: int, length: int) -> tuple[int, int]:
    at = bisect.bisect_right(starts, position)
    return starts[at - 1], starts[at] if at < len(starts) else length


MOST_WORK: Final = 1_000_000
"""Numbers that are looked at and worked out for one answer."""
_MOST_PLACES: Final = 200
# 3 stands in every output. A small number counts as shown only beside a word of its sentence, unless the runs showed so
# few of these (`_FEW`) that there is nothing to confuse it with.
_SMALL: Final = 20
_FEW: Final = 5
_NEIGHBOURS: Final = 12
# How many candidates chance may be expected to put into the number's window, by how much the words speak for the step.
_LIKELY, _WEAK = 0.12, 0.4
_LEADING: Final = re.compile(r"\b(?:top|first|largest|biggest|best|leading|highest)\b", re.IGNORECASE)
_LARGEST: Final = re.compile(r"\b(?:max\w*|highest|largest|most|best|top|biggest|peak\w*|leads?)\b", re.IGNORECASE)
_SMALLEST: Final = re.compile(r"\b(?:min\w*|lowest|smallest|least|worst|fewest|last)\b", re.IGNORECASE)
_INDEX: Final = re.compile(
    r"(?:\b(?:row|item|index|line|number|entry|rank|position|id|no\.|class|label"
    r"|group|cluster|category|level|fold|epoch|node|run|day|week"
    r"|month|year|round|trial|sample|iteration|page|bin)s? ?#?|#)\Z",
    re.IGNORECASE,
)
_THINGS: Final = frozenset(
    map(
        stem,
        (
            "rows",
            "records",
            "entries",
            "lines",
            "values",
            "results",
            "items",
            "observations",
            "elements",
            "keys",
            "members",
            "pairs",
            "objects",
        ),
    )
)
_ITEMS: Final = re.compile(r",\s*(?:and\s|or\s)?|\s+and\s+|\s+or\s+|\n[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t]+|;\s*")


class Judge:
    """Judges one number after the other."""

    def __init__(self, sources: Sources, scopes: Scopes, text: str) -> None:
        self._sources, self._scopes, self._text = sources, scopes, text
        self._plain = [one for one in sources.shown if not one.weak]
        self._common = _common(self._plain)
        self._families = families(sources.groups)
        self._ends = ((_LARGEST, _ends(sources.groups, max)), (_SMALLEST, _ends(sources.groups, min)))
        small = {one.value for one in self._plain if _is_small(one.value)}
        self._crowded = len(small) > _FEW
        self.work_left = MOST_WORK

    @functools.cached_property
    def _everything(self) -> Sequence[Operand]:
        return by.operands(self._plain, self._families)

    def exact(self, found: Found) -> Operand | None:
        """Where the number itself stands."""
        for number in found.numbers:
            forms = [(number.value, "")]
            # A percentage may stand as a fraction in the output; told so, it is derived and no longer small.
            if found.percent:
                forms.append((number.value / 100, f"{number.value / 100} as a percentage"))
            for value, told in forms:
                shown = self._pick(
                    found,
                    self._sources.by_value.get(value, [])[:_MOST_PLACES],
                    small=_is_small(number.value) and not told,
                )
                if shown is not None:
                    return _operand(found, float(number.value), shown.place, told)
        if found.numbers:
            return self._year(found)
        place = self._sources.text_with(plain(found.text))
        return None if place is None else Operand(0.0, found.text, place)

    def _pick(self, found: Found, shown: Sequence[Shown], *, small: bool) -> Shown | None:
        """Return the one whose words are nearest to the sentence; a small number must have a word in common with it."""
        if not shown:
            return None
        span = self._scopes.sentence(found)
        wanted = self._scopes.words(span)
        strong = [one for one in shown if not one.weak]
        # A usage figure supports any number, an index (0, 1, 2 … before each row) only one behind `row` or the like.
        if not strong:
            named = _INDEX.search(self._text[max(0, found.start - 20) : found.start].rstrip(" "))
            near = shown[0].place.part == "usage" or named
            return shown[0] if near else None
        # Words of the same row tell more than those of a column, which all rows share.
        nearest = max(strong, key=lambda one: (len((one.row or one.labels) & wanted), len(one.labels & wanted)))
        if not small or (nearest.row or nearest.labels) & wanted or not self._crowded or self._is_unspaced(found):
            return nearest
        return self._extreme(strong, span)

    def _is_unspaced(self, found: Found) -> bool:
        """Whether it stands among letters that make no words which outputs could have in common with it."""
        return any(map(unspaced.is_unspaced, self._text[max(0, found.start - 1) : found.start])) or any(
            map(unspaced.is_unspaced, self._text[found.end : found.end + 2])
        )

    def _extreme(self, shown: Sequence[Shown], sentence: tuple[int, int]) -> Shown | None:
        """Return one that is the largest or the smallest of its column, if the sentence speaks of such."""
        # `the oldest is 12`: the words name no column, but the number is the end of one.
        for pattern, ends in self._ends:
            if self._scopes.says(pattern, sentence):
                for one in shown:
                    if id(one) in ends:
                        return one
        return None

    def _year(self, found: Found) -> Operand | None:
        """A year of a date that was shown."""
        if not (found.text.isdigit() and len(found.text) == 4):
            return None
        year = int(found.text)
        for date, place in self._sources.dates.values():
            if any(not r.any_year and r.first.year <= year <= r.last.year for r in date.readings):
                return Operand(float(year), found.text, place, derivation=f"the year of {date.text}")
        return None

    def derived(self, found: Found, beside: Sequence[Operand]) -> Operand | None:
        """How the number follows from what was shown, or from numbers beside it that hold."""
        if not found.numbers or self.work_left <= 0:
            return None
        # A block that repeats an output may have rounded it, and computes nothing.
        if found.verbatim:
            return self._best(found, by.alone(found, self._plain), CLEAR, by.ALWAYS)
        count = self._counted(found) or self._listed(found)
        if count is not None:
            return _held(found, count)
        steps = cued(self._text, found, self._scopes.sentence(found))
        for candidates, most in self._searches(found, beside, steps):
            chosen = self._best(found, candidates, most, steps)
            if chosen is not None:
                return chosen
        return None

    def _best(
        self, found: Found, candidates: Iterator[Candidate], most: float, steps: frozenset[str]
    ) -> Operand | None:
        # Counted by candidates and not by time, so that an answer gets the same report on any machine.
        tried = list(candidates)
        self.work_left -= len(tried)
        chosen = best(found, tried, most, steps)
        return None if chosen is None else _held(found, chosen)

    def _searches(
        self, found: Found, beside: Sequence[Operand], steps: frozenset[str]
    ) -> Iterator[tuple[Iterator[Candidate], float]]:
        """Kinds of derivation, the most telling first, with what each may owe to chance."""
        sentence = self._scopes.sentence(found)
        cue = found.percent or steps != by.ALWAYS
        small = any(_is_small(number.value) for number in found.numbers) and not found.percent
        likely, clear = (CLEAR * 2, CLEAR / 2) if small else (_LIKELY, CLEAR)
        near = self._labelled(self._scopes.words(sentence))
        beside = beside[:_NEIGHBOURS]
        yield by.alone(found, near), _WEAK
        yield by.alone(found, self._plain), _WEAK if found.percent else _LIKELY
        if found.unit in _TIMES or found.unit in _SIZES:
            yield (
                by.alone(found, [one for one in self._sources.shown if one.weak and one.place.part == "usage"]),
                _LIKELY,
            )
        yield by.grouped(found, self._sources.groups, self._scopes.words(sentence)), _WEAK if cue else _LIKELY
        yield by.paired(found, beside), _WEAK if cue else _LIKELY
        yield by.together(beside), _LIKELY
        named = by.operands(near, self._families)
        yield by.paired(found, named, related=True), _WEAK if cue and not small else likely
        yield by.together(named, related=True), _LIKELY
        if self._scopes.says(_LEADING, sentence):
            yield by.leading(found, self._sources.groups), _LIKELY
        # A list item that names its row says what it is about; what stands elsewhere would only fit by chance.
        if named and self._scopes.is_item(found):
            return
        wider = by.operands(self._labelled(self._scopes.words(self._scopes.paragraph(found))), self._families)
        yield by.paired(found, wider, related=True), likely if cue else clear
        everything = self._everything
        if len(everything) <= by.MOST_PAIRED:
            yield by.paired(found, everything, related=True), likely if cue else clear
        counts = [Operand(float(c.value), f"{c.value} {c.what}", c.place) for c in self._sources.counts[:40]]
        if found.percent:
            yield by.paired(found, counts), _LIKELY

    def _labelled(self, wanted: frozenset[str]) -> list[Shown]:
        """Shown numbers with a word of the sentence beside them that few others have."""
        # `revenue` beside each of 200 numbers tells none of them.
        telling = wanted - self._common
        self.work_left -= len(self._plain)
        return [one for one in self._plain if one.labels & telling]

    def _counted(self, found: Found) -> Candidate | None:
        """How many rows, columns, items or kinds there are, if the sentence says which."""
        if found.percent or found.currency:
            return None
        near = words(self._text[found.end : found.end + 40].replace("_", " "))
        for count in self._sources.counts:
            if any(count.value == number.value for number in found.numbers) and (
                _speaks_of(count, near) or self._is_unspaced(found)
            ):
                return Candidate(float(count.value), f"number of {count.what}", count.place)
        return None

    def _listed(self, found: Found) -> Candidate | None:
        """How many things the answer itself lists behind the number, if they were shown."""
        value = found.numbers[0].value
        # Longer lists are not told in a sentence, and one thing is no list.
        if found.percent or not 2 <= value <= 30:
            return None
        _, end = self._scopes.paragraph(found)
        rest = self._text[found.end : min(end, found.end + 1500)]
        head, colon, tail = rest.partition(":")
        if not colon or len(head) > 80:
            return None
        tail = tail.split(". ")[0].strip(" \n*-+.")
        # `three regions: North, **South** and East`: the signs of Markdown and quotes are no part of a name.
        items = [plain(item.strip(" *`_.\"'")) for item in _ITEMS.split(tail) if item.strip(" *`_.")]
        if len(items) != value:
            return None
        places = [self._sources.text_with(item.split(" (")[0]) for item in items]
        first = next((place for place in places if place is not None), None)
        # One item that no run showed makes the count a claim about something else.
        if first is None or sum(place is None for place in places) > 0:
            return None
        return Candidate(float(value), "number of the things listed", first)


_TIMES: Final = frozenset(["s", "second", "seconds", "ms", "minutes", "minute"])
_SIZES: Final = frozenset(["MB", "MiB", "GB", "GiB", "KB", "KiB", "bytes"])


def _speaks_of(count: Count, near: frozenset[str]) -> bool:
    if near & count.labels:
        return True
    if count.what == "items listed" and not count.labels:  # a list that says of nothing what it is a list of
        return True
    return bool(near & _THINGS) and ("lines" in count.what or "rows of" in count.what or "items" in count.what)


def _common(shown: Sequence[Shown]) -> frozenset[str]:
    """Words that stand beside too many numbers to tell one of them."""
    times = Counter(word for one in shown for word in one.labels)
    most = max(3, len(shown) // 3)
    return frozenset(word for word, many in times.items() if many > most)


def _ends(groups: Sequence[Group], end: Callable[[list[Decimal]], Decimal]) -> frozenset[int]:
    """The largest or the smallest numbers of the groups, by identity."""
    found: set[int] = set()
    for group in groups:
        value = end([one.value for one in group.shown])
        found.update(id(one) for one in group.shown if one.value == value)
    return frozenset(found)


def _is_small(value: Decimal) -> bool:
    return abs(value) <= _SMALL and value == value.to_integral_value()


def _held(found: Found, chosen: Candidate) -> Operand:
    return _operand(found, chosen.value, chosen.place, chosen.derivation.rstrip(", "))


def _operand(found: Found, value: float, place: Place, derivation: str = "") -> Operand:
    return Operand(value, found.text, place, found.percent, derivation=derivation)


MOST_BYTES: Final = 64 * 1024 * 1024
_PAGE: Final = 1 << 20
_PRINTED_NUMBER: Final = re.compile(rf"(?<![\w.])-?{GROUPED}(?:[eE][+-]?\d{{1,3}})?(?![\w])")
_MOST_CHARS: Final = 40


def search_whole(
    executions: Sequence[Execution], missing: Mapping[int, Found], *, all_outputs: bool = False
) -> dict[int, Operand]:
    """Return those of `missing` that stand in an output that was cut.

    Args:
        all_outputs: Look through those that were not cut, too, because they held more numbers than are kept.
    """
    wanted = {number.value: key for key, found in missing.items() for number in found.numbers}
    held: dict[int, Operand] = {}
    if not wanted:
        return held
    for position, execution in enumerate(executions):
        for part in ("stdout", "stderr"):
            handle = execution.outputs.get(part)
            # What was shown whole has been read already; the rest is read page by page and not kept.
            if handle is None or not (all_outputs or execution.dropped_bytes.get(part)):
                continue
            for line, value in _numbers_of_output(handle):
                key = wanted.get(value)
                if key is not None and key not in held:
                    place = place_of(position, execution, part, f"line {line}")
                    held[key] = _operand(missing[key], float(value), place)
    return held


def _numbers_of_output(handle: OutputHandle) -> Iterator[tuple[int, Decimal]]:
    """Numbers with their lines, page by page."""
    for line, text in _lines_of_output(handle):
        for match in _PRINTED_NUMBER.finditer(text):
            if len(match[0]) <= _MOST_CHARS:
                yield line, Decimal(match[0].replace(",", ""))


def _lines_of_output(handle: OutputHandle) -> Iterator[tuple[int, str]]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    offset, rest, line = 0, "", 1
    while offset < MOST_BYTES and (data := handle.read(offset, _PAGE)):
        offset += len(data)
        *whole, rest = (rest + decoder.decode(data)).split("\n")
        for text in whole:
            yield line, text
            line += 1
        # A line without an end is cut here, so that memory is bounded by two pages.
        if len(rest) > _PAGE:
            yield line, rest
            rest = ""
    if rest:
        yield line, rest
