"""Whether a value that was worked out is what a number in the answer says, and whether that means anything.

A number with few digits is near to something in any large table. So a derivation counts only if few values
would have done as well: `best` counts the candidates around the number, and asks how many of them one would expect
to meet it by accident. The fewer digits the number has and the more candidates were tried, the more is asked of it.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from groundbox.check.answers.found import Found
from groundbox.check.answers.sources import Place
from groundbox.check.english import Number

_SLACK: Final = 1e-9
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
            if found.bound == "about":
                half = max(half, min(_rounded_to(number) / 2, abs(middle) * _ABOUT))
            yield Window(middle - half - slack, middle + half + slack, middle)


def _rounded_to(number: Number) -> float:
    """The unit of the last digit that is not 0."""
    digits = number.value.normalize().as_tuple()
    exponent = digits.exponent
    return float(Decimal(1).scaleb(exponent)) if isinstance(exponent, int) and any(digits.digits) else 0.0


def best(
    found: Found, candidates: Sequence[Candidate], most: float, allowed: Callable[[str], float] = lambda step: math.inf
) -> Candidate | None:
    """The nearest candidate that fits, unless more than `most` would be expected to fit by accident.

    Args:
        allowed: A lower bound for some steps.
    """
    values = sorted({candidate.value for candidate in candidates if math.isfinite(candidate.value)})
    for window in windows(found):
        fits = [one for one in candidates if window.low <= one.value <= window.high]
        expected = _expected(values, window) if fits else math.inf
        fits = [one for one in fits if expected <= min(most, allowed(one.step))]
        if fits:
            return min(fits, key=lambda one: abs(one.value - window.middle))
    return None


def _expected(values: list[float], window: Window) -> float:
    """How many of the values one would expect in the window if they were spread evenly around it."""
    size = abs(window.middle)
    if size == 0:
        return math.inf
    low, high = sorted((window.middle / 2, window.middle * 2))
    near = bisect.bisect_right(values, high) - bisect.bisect_left(values, low)
    return near * window.width / (1.5 * size)
