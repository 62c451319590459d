"""The tier of a rule, from what was counted: how low the share of true findings may be, on data like those counted.

Findings of one question resemble each other, and so do questions about one database. So a question counts once, by the
share of its queries that were wrong, and databases count alike: the precision of a rule is the mean over databases of
the means over questions. `lower` is the lower end of a one-sided 90 % interval for it, the lesser of two: a bootstrap
that draws databases and then questions within them (https://doi.org/10.1017/CBO9780511802843, section 3.8), and the
exact bound of Clopper and Pearson for the questions, which still is one when all of them were wrong.

A rule is an `error` or a `warn` where `lower` reaches the bar of that tier, and a `note` below, or where it was seen
with fewer than ten questions or in fewer than four databases.
"""

from __future__ import annotations

import dataclasses
import math
import random
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final

TIERS: Final = ("error", "warn", "note")
ERROR_FROM: Final = 0.75
WARN_FROM: Final = 0.5
LEAST_QUESTIONS: Final = 10
LEAST_DATABASES: Final = 4
OUTSIDE: Final = 0.1
"""The part of the interval that is left out at its lower end."""
_DRAWS: Final = 400
_SEED: Final = 18


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """Finding of a rule; the check adds the tier that was counted for its code."""

    code: str
    message: str
    hint: str
    evidence: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
    """Precision of a rule, and what it was counted on.

    Attributes:
        precision: The mean over databases.
        lower: The lower end of its interval.
    """

    precision: float = 0.0
    lower: float = 0.0
    questions: int = 0
    databases: int = 0

    def tier(self, *, error_from: float = ERROR_FROM) -> str:
        """The tier that follows."""
        if self.questions < LEAST_QUESTIONS or self.databases < LEAST_DATABASES:
            return "note"
        return "error" if self.lower >= error_from else "warn" if self.lower >= WARN_FROM else "note"


def measured(shares: Mapping[str, Sequence[float]]) -> Measured:
    """Measure a rule by the databases in which it spoke up: for each question there, the share of wrong queries."""
    databases = [list(each) for each in shares.values() if each]
    if not databases:
        return Measured()
    questions = [share for each in databases for share in each]
    return Measured(
        precision=statistics.fmean([statistics.fmean(each) for each in databases]),
        lower=min(_bootstrap(databases), exact_bound(sum(questions), len(questions))),
        questions=len(questions),
        databases=len(databases),
    )


def _bootstrap(databases: list[list[float]]) -> float:
    """The tenth part of the means of draws, two levels deep."""
    chance = random.Random(_SEED)  # a seed: the same draws each time
    means = [
        statistics.fmean(
            [
                statistics.fmean(chance.choices(each, k=len(each)))
                for each in chance.choices(databases, k=len(databases))
            ]
        )
        for _ in range(_DRAWS)
    ]
    return sorted(means)[int(OUTSIDE * _DRAWS)]


def exact_bound(wrong: float, count: int) -> float:
    """The share at which `wrong` or more of `count` have a chance of `OUTSIDE`; of parts, whole ones are counted."""
    least = math.floor(wrong + 1e-9)
    low, high = 0.0, 1.0
    for _ in range(40 if least else 0):
        middle = (low + high) / 2
        low, high = (middle, high) if _chance_of(least, count, middle) < OUTSIDE else (low, middle)
    return low


def _chance_of(least: int, count: int, share: float) -> float:
    """The chance of `least` or more among `count`."""
    return math.fsum(math.comb(count, n) * share**n * (1 - share) ** (count - n) for n in range(least, count + 1))
