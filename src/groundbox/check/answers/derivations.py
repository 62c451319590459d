"""Derives numbers from what was shown: one simple step, the words that ask for it, and how much chance may owe.

A number with few digits is near to something in any large table. So a derivation counts only if few values
would have done as well: `best` counts the candidates around the number, and asks how many of them one would expect
to meet it by accident. The fewer digits the number has and the more candidates were tried, the more is asked of it.

Every function yields candidates; which of them count is decided by `best`.
"""

from __future__ import annotations

import bisect
import itertools
import math
import re
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from groundbox.check.answers.mentions import Found
from groundbox.check.answers.sources import Group, Place, Shown
from groundbox.check.answers.unspaced import CUES
from groundbox.values.numbers import Number

CLEAR: Final = 0.02
"""Fits by accident that a step without a word in the sentence may be expected to have."""
_SLACK: Final = 1e-9
# `about 5,000` is taken from 4,750 to 5,250, and `over 200` up to 230: who means more says another number.
_ABOUT: Final = 0.05
_BEYOND: Final = 0.15


class Candidate(NamedTuple):
    """A value that was worked out from what was shown.

    Attributes:
        step: The kind of derivation, for which the sentence may have a word (`cues`).
    """

    value: float
    derivation: str
    place: Place
    step: str = "alone"


class Window(NamedTuple):
    """The values that a number in the answer stands for."""

    low: float
    high: float
    middle: float

    @property
    def width(self) -> float:
        return self.high - self.low


def windows(found: Found) -> Iterator[Window]:
    """A window for each reading of a number."""
    for number in found.numbers:
        middle, half = float(number.value), float(number.quantum) / 2
        if not math.isfinite(middle) or not math.isfinite(half):
            continue
        slack = abs(middle) * _SLACK
        if found.bound == "over":
            yield Window(middle - slack, middle + abs(middle) * _BEYOND, middle)
        elif found.bound == "under":
            yield Window(middle - abs(middle) * _BEYOND, middle + slack, middle)
        else:
            # Not more than the rounding that is seen in the digits: `about 4,810` was not rounded to hundreds.
            wide = min(_rounded_to(number) / 2, abs(middle) * _ABOUT)
            if found.bound == "about" and wide > half:
                # `about 50 %` of what is 50 %: as it is written first, where less fits by accident.
                yield Window(middle - half - slack, middle + half + slack, middle)
                half = wide
            yield Window(middle - half - slack, middle + half + slack, middle)


def _rounded_to(number: Number) -> float:
    """The unit of the last digit that is not 0."""
    digits = number.value.normalize().as_tuple()
    exponent = digits.exponent
    return float(Decimal(1).scaleb(exponent)) if isinstance(exponent, int) and any(digits.digits) else 0.0


def best(found: Found, candidates: Sequence[Candidate], most: float, steps: frozenset[str]) -> Candidate | None:
    """The nearest candidate that fits, unless more than `most` would be expected to fit by accident.

    Args:
        steps: Steps that the sentence has a word for (`cued`). Others may owe less to chance, or nothing.
    """
    values = sorted({candidate.value for candidate in candidates if math.isfinite(candidate.value)})
    for window in windows(found):
        # Counting is done only where something fits, since most searches end here.
        fits = [one for one in candidates if window.low <= one.value <= window.high]
        expected = _expected(values, window) if fits else math.inf
        fits = [one for one in fits if expected <= _most_by_accident(one.step, most, steps)]
        if fits:
            return min(fits, key=lambda one: abs(one.value - window.middle))
    return None


def _most_by_accident(step: str, most: float, steps: frozenset[str]) -> float:
    if step in steps:
        return most
    return min(most, CLEAR) if step in _OFTEN else 0.0


def _expected(values: list[float], window: Window) -> float:
    """How many of the values one would expect in the window if they were spread evenly around it."""
    size = abs(window.middle)
    # Around 0 there is no scale to spread values over; a 0 follows from nothing but itself.
    if size == 0:
        return math.inf
    # Values within a factor of 2 tell how dense the table is here; `1.5 * size` is the width of that range.
    low, high = sorted((window.middle / 2, window.middle * 2))
    near = bisect.bisect_right(values, high) - bisect.bisect_left(values, low)
    return near * window.width / (1.5 * size)


_BEFORE: Final = 90
_AFTER: Final = 50
_MORE: Final = (
    r"differ\w*|more|less|fewer|higher|lower|increas\w*|decreas\w*|gr[eo]w\w*|growth|rose|rise\w*|fell|falls?|dropp?\w*"
    r"|declin\w*|gap|chang\w*|lost|remain\w*|left|gain\w*|than|up|down|free|mehr|weniger"
)
_TOGETHER: Final = r"total\w*|sum|together|combined|overall|altogether|in all|both|plus|insgesamt|gesamt\w*|come to"
_CUES: Final = {
    "sum": rf"{_TOGETHER}|of|made?|makes?",
    "pair": _TOGETHER,
    "mean": r"average\w*|mean|avg|median|typical\w*|per|each|durchschnitt\w*|mittel\w*",
    "difference": rf"{_MORE}|behind|ahead|remov\w*|missing|rang\w*|versus|vs|between|only|short|extra|absolute|spread"
    r"|lead\w*|differenz",
    "change": rf"{_MORE}|other|rest|without|jump\w*|shrank|points?|climb\w*|by|gestiegen|gefallen",
    # A word is asked for near the number, since `4.2` is the ratio of some pair in any table of ten numbers.
    "ratio": r"times|ratio|factor|per|each|every|average\w*|mean|density|rate|fold|x|to one|as many|as much|double\w*"
    r"|pro",
}
_PATTERNS: Final = {step: re.compile(rf"\b(?:{words})\b|{CUES[step]}", re.IGNORECASE) for step, words in _CUES.items()}
_TIMES: Final = re.compile(r"\s?(?:[x×]|-fold|times)(?!\w)")
# Rounding, shares (which need a `%`) and counts tell themselves; sums and differences are often told without a word.
ALWAYS: Final = frozenset(["alone", "share", "count"])
_OFTEN: Final = frozenset(["sum", "difference"])


def cued(text: str, found: Found, sentence: tuple[int, int]) -> frozenset[str]:
    """The steps that the sentence has a word for, near the number."""
    start, end = max(sentence[0], found.start - _BEFORE), min(sentence[1], found.end + _AFTER)
    # Without the number itself, whose unit could be a word of the list; `#` keeps the parts from joining to one.
    near = f"{text[start : found.start]} # {text[found.end : end]}"
    steps = {step for step, pattern in _PATTERNS.items() if pattern.search(near)}
    if _TIMES.match(text, found.end):
        steps.add("ratio")
    return ALWAYS | steps


MOST_PAIRED: Final = 60
MOST_KIN: Final = 500
"""Lines, columns and lists of one value; the first ones."""
_TOP: Final = 10
_SECONDS: Final = ("s", "sec", "second", "seconds", "secs")
_UNITS: Final[dict[str, tuple[tuple[float, str], ...]]] = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), ((1e3, "s"), (1e-3, "µs"), (1e-6, "ns"))),
    **dict.fromkeys(_SECONDS, ((1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"), (60.0, "min"), (3600.0, "h"))),
    **dict.fromkeys(("minute", "minutes", "min", "mins"), ((1 / 60, "s"), (1 / 60000, "ms"), (60.0, "h"))),
    **dict.fromkeys(("hour", "hours", "h", "hrs"), ((1 / 3600, "s"), (1 / 60, "min"), (24.0, "days"))),
    **dict.fromkeys(("day", "days"), ((1 / 86400, "s"), (1 / 24, "h"), (7.0, "weeks"))),
    **dict.fromkeys(("week", "weeks"), ((1 / 7, "days"),)),
    # Both lengths of a year, since both are in use; likewise kB of 1000 and 1024 bytes.
    **dict.fromkeys(("year", "years"), ((1 / 12, "months"), (1 / 365.25, "days"), (1 / 365, "days"))),
    **dict.fromkeys(("month", "months"), ((12.0, "years"),)),
    **dict.fromkeys(("kb", "kilobytes"), ((1e-3, "bytes"), (1 / 1024, "bytes"))),
    **dict.fromkeys(("mb", "megabytes"), ((1e-6, "bytes"), (1 / 1048576, "bytes"), (1e-3, "KB"), (1 / 1024, "KiB"))),
    **dict.fromkeys(("gb", "gigabytes"), ((1e-9, "bytes"), (1 / 1073741824, "bytes"), (1e-3, "MB"), (1 / 1024, "MiB"))),
    "kib": ((1 / 1024, "bytes"),),
    "mib": ((1 / 1048576, "bytes"), (1 / 1024, "KiB")),
    "gib": ((1 / 1073741824, "bytes"), (1 / 1024, "MiB")),
    **dict.fromkeys(("km", "kilometers", "kilometres"), ((1e-3, "m"),)),
    **dict.fromkeys(("m", "meters", "metres"), ((1e3, "km"), (1e-2, "cm"), (1e-3, "mm"))),
    **dict.fromkeys(("cm",), ((100.0, "m"), (0.1, "mm"))),
    **dict.fromkeys(("kg", "kilograms"), ((1e-3, "g"), (1e3, "t"))),
    **dict.fromkeys(("g", "grams"), ((1e3, "kg"),)),
}
_COLUMN_SCALES: Final = (("thousand", 1e3), ("million", 1e6), ("billion", 1e9), ("k", 1e3), ("mn", 1e6), ("bn", 1e9))


class Operand(NamedTuple):
    """A number to work with, as it is told in a derivation.

    Attributes:
        kin: Lines, columns and lists that it is of.
        derivation: How a number of the answer follows from what was shown; empty where it was shown itself.
    """

    value: float
    text: str
    place: Place
    percent: bool = False
    kin: frozenset[object] = frozenset()
    derivation: str = ""


def operands(shown: Sequence[Shown], families: Mapping[int, set[int]]) -> list[Operand]:
    """Shown numbers as operands, each value once; those of one column, one list or one line are kin."""
    # The same value stands in many places of an output; pairs of it with itself would be derivations of nothing.
    seen: dict[float, Shown] = {}
    kin: dict[float, set[object]] = defaultdict(set)
    for one in shown:
        value = float(one.value)
        if math.isfinite(value):
            seen.setdefault(value, one)
            if len(kin[value]) < MOST_KIN:
                # `line 3, column x` and `line 3` are one line.
                line = (one.place.execution, one.place.part, one.place.where.partition(",")[0])
                kin[value].update([line, *families.get(id(one), ())])
    return [Operand(value, one.text, one.place, one.percent, frozenset(kin[value])) for value, one in seen.items()]


def alone(found: Found, shown: Sequence[Shown]) -> Iterator[Candidate]:
    """Yield one shown number: rounded, without its sign, as a percentage, in another unit."""
    conversions = _UNITS.get(found.unit.casefold(), ())
    for one in shown:
        value = float(one.value)
        if not math.isfinite(value):
            continue
        yield Candidate(value, f"{one.text}, rounded", one.place)
        if value < 0:
            yield Candidate(-value, f"{one.text}, without its sign", one.place)
        # 0.52 told as 52 %. A rate above 20 is hardly a fraction, and 100 × any count would fit something.
        if found.percent and not one.percent and abs(value) <= 20:
            yield Candidate(value * 100, f"{one.text} × 100 %", one.place)
        if not found.percent and one.percent:
            yield Candidate(value / 100, f"{one.text} % ÷ 100", one.place)
        for factor, unit in conversions:
            yield Candidate(value * factor, f"{one.text} {unit}, converted", one.place)
        if found.currency and "cent" in one.labels:
            yield Candidate(value / 100, f"{one.text} cents", one.place)
        for word, factor in _COLUMN_SCALES:
            if word in one.labels:
                yield Candidate(value * factor, f"{one.text} {word}", one.place)


def grouped(found: Found, groups: Sequence[Group], wanted: frozenset[str]) -> Iterator[Candidate]:
    """A column as a whole: its sum, mean, median and range; of percentages, each item's share of the sum.

    Args:
        wanted: Words of the sentence; an item that has words has one of them.
    """
    for group, values in _wholes(groups):
        total, name = math.fsum(values), f"{group.name} ({len(values)} values)"
        if found.percent:
            if total:
                # Shares of rows that the sentence does not name would be as many candidates as rows.
                named = [one for one in zip(group.shown, values, strict=True) if not one[0].row or one[0].row & wanted]
                for one, value in named:
                    yield Candidate(
                        100 * value / total, f"{one.text} ÷ the sum {total:g} of {name}", group.place, "share"
                    )
        else:
            yield Candidate(total, f"sum of {name}", group.place, "sum")
        yield Candidate(total / len(values), f"mean of {name}", group.place, "mean")
        yield Candidate(statistics.median(values), f"median of {name}", group.place, "mean")
        yield Candidate(max(values) - min(values), f"largest less smallest of {name}", group.place, "difference")


def _wholes(groups: Sequence[Group]) -> Iterator[tuple[Group, list[float]]]:
    """The columns that were shown whole, with their values."""
    for group in groups:
        values = [float(one.value) for one in group.shown]
        if group.whole and all(map(math.isfinite, values)):
            yield group, values


def leading(found: Found, groups: Sequence[Group]) -> Iterator[Candidate]:
    """The first or the largest few of a column together, and their share of it."""
    for group, values in _wholes(groups):
        total = math.fsum(values)
        for order, kind in ((values, "first"), (sorted(values, reverse=True), "largest")):
            for many in range(2, min(len(values), _TOP + 1)):
                part = math.fsum(order[:many])
                if found.percent and total:
                    yield Candidate(
                        100 * part / total, f"share of the {kind} {many} of {group.name}", group.place, "share"
                    )
                elif not found.percent:
                    yield Candidate(part, f"sum of the {kind} {many} of {group.name}", group.place, "sum")


def paired(found: Found, numbers: Sequence[Operand], *, related: bool = False) -> Iterator[Candidate]:
    """Two numbers: their difference, sum and ratio; for a percentage the change and the share.

    Args:
        related: Only those that are kin: customers are not added to seconds.
    """
    # Pairs grow with the square: 60 operands make 3,540 of each kind.
    numbers = numbers[:MOST_PAIRED]
    for one, other in itertools.permutations(numbers, 2):
        if related and one.kin.isdisjoint(other.kin):
            continue
        if found.percent:
            yield from _percentages(one, other)
        # 12 % less 5 customers is nothing.
        elif one.percent == other.percent:
            yield Candidate(one.value - other.value, f"{one.text} − {other.text}", one.place, "difference")
            if other.value:
                yield Candidate(one.value / other.value, f"{one.text} ÷ {other.text}", one.place, "ratio")
    if not found.percent:
        for one, other in itertools.combinations(numbers, 2):
            if related and one.kin.isdisjoint(other.kin):
                continue
            yield Candidate(one.value + other.value, f"{one.text} + {other.text}", one.place, "pair")
            if not related:
                mean = (one.value + other.value) / 2
                yield Candidate(mean, f"mean of {one.text} and {other.text}", one.place, "mean")


def together(numbers: Sequence[Operand], *, related: bool = False) -> Iterator[Candidate]:
    """All of some numbers: their sum."""
    if 2 < len(numbers) <= MOST_PAIRED and (not related or frozenset.intersection(*(one.kin for one in numbers))):
        total = math.fsum(number.value for number in numbers)
        told = " + ".join(number.text for number in numbers[:6]) + (" + …" if len(numbers) > 6 else "")
        yield Candidate(total, told, numbers[0].place, "pair")


def _percentages(one: Operand, other: Operand) -> Iterator[Candidate]:
    if other.value and one.percent == other.percent:
        yield Candidate(100 * one.value / other.value, f"{one.text} ÷ {other.text}", one.place, "share")
        change = 100 * (one.value - other.value) / abs(other.value)
        yield Candidate(change, f"from {other.text} to {one.text}", one.place, "change")
        # `fell by 21 %` states the change without its sign.
        yield Candidate(-change, f"from {other.text} to {one.text}", one.place, "change")
    # Points between two rates, and what a rate leaves of a whole.
    if one.percent or other.percent:
        yield Candidate(one.value - other.value, f"{one.text} − {other.text}", one.place, "change")
    if one.percent:
        yield Candidate(100 - one.value, f"100 − {one.text}", one.place, "change")
