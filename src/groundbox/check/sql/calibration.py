"""How often a finding was right, counted on recorded queries, and the tier that follows from it.

`calibration.json` has the counts, written by scripts/calibrate_sql_checks.py. What is expected of a code is its share
of wrong queries, pulled towards that of its family as if `PRIOR_QUESTIONS` more questions had been seen with the
family's share; the family is pulled likewise towards `PRIOR_PRECISION`. Queries for one question resemble each other,
so a code weighs as much as the questions that it was seen with, not the queries.

A code is a warn from `WARN_FROM` on, and else a note. It is an error from `ERROR_FROM` on, if it was seen with
`QUESTIONS_OF_AN_ERROR` questions or more, and `ERROR_ELSEWHERE_FROM` is reached with any one database left out: what
speaks for it must not be one database alone.

Findings of one query add up. The weight of a code is how far its expected share moves the odds from those of any
query; the heaviest counts in full, every other code at `FURTHER`, since findings of one query overlap, and none counts
against the query. A code that can be no error by itself counts for `UNPROVEN_AT_MOST`. Where the sum reaches
`ERROR_FROM`, the query has an error, although none of its findings is one.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Final

from groundbox.check.sql.catalog import FAMILY_OF

PRIOR_QUESTIONS: Final = 4.0
PRIOR_PRECISION: Final = 0.4
QUESTIONS_OF_AN_ERROR: Final = 2
ERROR_FROM: Final = 0.8
ERROR_ELSEWHERE_FROM: Final = 0.6
WARN_FROM: Final = 0.45
FURTHER: Final = 0.5
UNPROVEN_AT_MOST: Final = 0.6
TIERS: Final = ("error", "warn", "note")
ALONE: Final = "alone"
AGREEING: Final = "agreeing"
DISAGREEING: Final = "disagreeing"
_LEAST_SHARE: Final = 0.001
SITUATIONS: Final = (ALONE, AGREEING, DISAGREEING)
"""Without other candidates, with candidates that all agree, and with one that does not."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Counts:
    """What was counted for one code.

    Attributes:
        queries: Recorded queries with the finding.
        wrong: Those of them whose result was wrong.
        questions: Questions that they were written for.
    """

    queries: int = 0
    wrong: int = 0
    questions: int = 0

    @property
    def precision(self) -> float:
        """The share of queries that were wrong; 0 without any."""
        return self.wrong / self.queries if self.queries else 0.0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            queries=self.queries + other.queries,
            wrong=self.wrong + other.wrong,
            questions=self.questions + other.questions,
        )


class Table:
    """Counts of codes in one situation, and what follows from them."""

    def __init__(self, counts: Mapping[str, Mapping[str, Counts]], of_any: float = PRIOR_PRECISION) -> None:
        """Args:
        counts: Code to database to what was counted there.
        of_any: The share of wrong ones among all queries, whatever was found.
        """
        self._counts = counts
        self._of_any = min(max(of_any, _LEAST_SHARE), 1 - _LEAST_SHARE)
        self._tiers: dict[str, str] = {}
        self._expected: dict[tuple[str, str | None], float] = {}

    @property
    def codes(self) -> list[str]:
        """Those that were seen."""
        return list(self._counts)

    def of(self, code: str, *, without: str | None = None) -> Counts:
        """What was counted for a code, on all databases or all but one."""
        told = self._counts.get(code, {})
        return sum((counts for database, counts in told.items() if database != without), Counts())

    def on(self, code: str, database: str) -> Counts:
        """What was counted for a code on one database."""
        return self._counts.get(code, {}).get(database, Counts())

    def databases(self, code: str) -> list[str]:
        """Where a code was seen."""
        return list(self._counts.get(code, ()))

    def expected(self, code: str, *, without: str | None = None) -> float:
        """The share of wrong ones that is expected among queries with this code that were not seen yet."""
        key = (code, without)
        if key not in self._expected:
            self._expected[key] = self._share_of(code, without)
        return self._expected[key]

    def _share_of(self, code: str, without: str | None) -> float:
        wrong, questions = 0.0, 0
        for other in self._counts:
            if FAMILY_OF[other] == FAMILY_OF[code]:
                counts = self.of(other, without=without)
                wrong, questions = wrong + counts.precision * counts.questions, questions + counts.questions
        told = self.of(code, without=without)
        return _pulled(told.precision * told.questions, told.questions, _pulled(wrong, questions, PRIOR_PRECISION))

    def tier(self, code: str) -> str:
        """`error`, `warn` or `note`."""
        if code not in self._tiers:
            self._tiers[code] = self._tier(code)
        return self._tiers[code]

    def together(
        self, codes: Iterable[str], *, further: float = FURTHER, unproven_at_most: float = UNPROVEN_AT_MOST
    ) -> float:
        """The share of wrong ones that is expected among queries with all these codes; never less for one more."""
        weights = sorted((self.weight(code, unproven_at_most) for code in set(codes)), reverse=True)
        return _share(_log_odds(self._of_any) + sum(weights[:1]) + further * sum(weights[1:]))

    def weight(self, code: str, unproven_at_most: float = UNPROVEN_AT_MOST) -> float:
        """How far a code moves the log odds from those of any query; 0 where it would speak for the query."""
        share = self.expected(code) if self._is_proven(code) else min(self.expected(code), unproven_at_most)
        return max(0.0, _log_odds(share) - _log_odds(self._of_any))

    def tier_together(self, codes: Iterable[str]) -> str:
        """The tier of a query: that of the strongest code, or `error` where they add up to one; "" without any."""
        known = set(codes)
        strongest = min((self.tier(code) for code in known), key=TIERS.index, default="")
        return "error" if known and self.together(known) >= ERROR_FROM else strongest

    def _tier(self, code: str) -> str:
        expected = self.expected(code)
        if expected >= ERROR_FROM and self._is_proven(code):
            return "error"
        return "warn" if expected >= WARN_FROM else "note"

    def _is_proven(self, code: str) -> bool:
        return self.of(code).questions >= QUESTIONS_OF_AN_ERROR and self._holds_elsewhere(code)

    def _holds_elsewhere(self, code: str) -> bool:
        """Whether enough is expected of it also with any one database left out."""
        return all(self.expected(code, without=database) >= ERROR_ELSEWHERE_FROM for database in self.databases(code))


def _log_odds(share: float) -> float:
    share = min(max(share, _LEAST_SHARE), 1 - _LEAST_SHARE)
    return math.log(share / (1 - share))


def _share(log_odds: float) -> float:
    return 1 / (1 + math.exp(-log_odds))


def _pulled(wrong: float, questions: float, prior: float) -> float:
    return (wrong + PRIOR_QUESTIONS * prior) / (questions + PRIOR_QUESTIONS)


@functools.cache
def table(situation: str = ALONE) -> Table:
    """The table that the package ships."""
    text = resources.files("groundbox.check.sql").joinpath("calibration.json").read_text(encoding="utf-8")
    told = json.loads(text)
    counts = {
        code: {name: Counts(**each) for name, each in of.items()} for code, of in told["situations"][situation].items()
    }
    return Table(counts, told["of any"][situation])
