"""How often a finding was right, counted on recorded queries, and the tier that follows from it.

`calibration.json` has the counts, written by scripts/calibrate_sql_checks.py. What is expected of a code is its share
of wrong queries, pulled towards that of its family as if `PRIOR_QUESTIONS` more questions had been seen with the
family's share; the family is pulled likewise towards `PRIOR_PRECISION`. Queries for one question resemble each other,
so a code weighs as much as the questions that it was seen with, not the queries.

A code is a warn from `WARN_FROM` on, and else a note. It is an error from `ERROR_FROM` on, if it was seen with
`QUESTIONS_OF_AN_ERROR` questions or more, and `ERROR_ELSEWHERE_FROM` is reached with any one database left out: what
speaks for it must not be one database alone.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping
from importlib import resources
from typing import Final

from groundbox.check.sql.catalog import FAMILY_OF

PRIOR_QUESTIONS: Final = 4.0
PRIOR_PRECISION: Final = 0.4
QUESTIONS_OF_AN_ERROR: Final = 2
ERROR_FROM: Final = 0.8
ERROR_ELSEWHERE_FROM: Final = 0.6
WARN_FROM: Final = 0.45
TIERS: Final = ("error", "warn", "note")
ALONE: Final = "alone"
AGREEING: Final = "agreeing"
DISAGREEING: Final = "disagreeing"
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

    def __init__(self, counts: Mapping[str, Mapping[str, Counts]]) -> None:
        """Args:
        counts: Code to database to what was counted there.
        """
        self._counts = counts
        self._tiers: dict[str, str] = {}

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

    def _tier(self, code: str) -> str:
        expected = self.expected(code)
        if expected >= ERROR_FROM and self.of(code).questions >= QUESTIONS_OF_AN_ERROR and self._holds_elsewhere(code):
            return "error"
        return "warn" if expected >= WARN_FROM else "note"

    def _holds_elsewhere(self, code: str) -> bool:
        """Whether enough is expected of it also with any one database left out."""
        return all(self.expected(code, without=database) >= ERROR_ELSEWHERE_FROM for database in self.databases(code))


def _pulled(wrong: float, questions: float, prior: float) -> float:
    return (wrong + PRIOR_QUESTIONS * prior) / (questions + PRIOR_QUESTIONS)


@functools.cache
def table(situation: str = ALONE) -> Table:
    """The table that the package ships."""
    text = resources.files("groundbox.check.sql").joinpath("calibration.json").read_text(encoding="utf-8")
    told = json.loads(text)["situations"][situation]
    return Table({code: {name: Counts(**each) for name, each in counts.items()} for code, counts in told.items()})
