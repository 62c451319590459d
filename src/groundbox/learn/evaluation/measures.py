"""Measures of replies and of runs: intervals, repetition, paired tests. Pure arithmetic; every draw has a seed."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final, NamedTuple, TypeVar

T = TypeVar("T")
Z: Final = 1.959963984540054
"""Of the normal distribution, for 95 %."""
RESAMPLES: Final = 2_000
_WORD: Final = re.compile(r"\w+|[^\w\s]")


class Interval(NamedTuple):
    """A 95 % interval."""

    low: float
    high: float


def wilson(k: int, n: int) -> Interval | None:
    """The interval of a share, k of n, by Wilson's score (1927): it holds also near 0 and 1; None without any."""
    if not n:
        return None
    share, square = k / n, Z * Z
    middle = (share + square / (2 * n)) / (1 + square / n)
    half = Z / (1 + square / n) * math.sqrt(share * (1 - share) / n + square / (4 * n * n))
    return Interval(max(0.0, middle - half), min(1.0, middle + half))


def repeated(text: str, n: int = 4) -> float:
    """The share of a text's runs of n words, signs counted as words, that stood in it before; 0 for a short text."""
    words = _WORD.findall(text)
    runs = [tuple(words[at : at + n]) for at in range(len(words) - n + 1)]
    return 1 - len(set(runs)) / len(runs) if runs else 0.0


def mcnemar(only_a: int, only_b: int) -> float:
    """Give the p-value of so uneven a split of the differing pairs: exact, two-sided (McNemar 1947)."""
    n, few = only_a + only_b, min(only_a, only_b)
    if not n:
        return 1.0
    tail, term = 0, 1
    for i in range(few + 1):
        tail += term
        term = term * (n - i) // (i + 1)
    return float(min(Fraction(1), Fraction(2 * tail, 2**n)))


def bootstrap(
    rows: Sequence[T], statistic: Callable[[Sequence[T]], float | None], *, seed: int, resamples: int = RESAMPLES
) -> Interval | None:
    """The percentile interval of a statistic over questions that are drawn anew; None where it is often none.

    Args:
        rows: One for each question, with what both runs gave, so that pairs stay together.
        statistic: Of the rows of a draw; None where these have none.
    """
    if not rows:
        return None
    rng = random.Random(seed)
    drawn = [statistic(rng.choices(rows, k=len(rows))) for _ in range(resamples)]
    found = sorted(each for each in drawn if each is not None)
    if len(found) < 0.9 * resamples:
        return None
    return Interval(_quantile(found, 0.025), _quantile(found, 0.975))


def mean(values: Sequence[float]) -> float | None:
    """The mean, or None of nothing."""
    return math.fsum(values) / len(values) if values else None


def median(values: Sequence[float]) -> float | None:
    """The middle one, or the mean of the two in the middle."""
    if not values:
        return None
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])
