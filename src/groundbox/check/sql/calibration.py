"""How often a finding was right, counted on recorded queries, and the tier that follows from it.

`calibration.json` has the counts, written by scripts/calibrate_sql_checks.py. What is expected of a code is its share
of wrong queries, pulled towards that of its family as if `PRIOR_QUESTIONS` more questions had been seen with the
family's share; the family is pulled likewise towards `PRIOR_PRECISION`. Queries for one question resemble each other,
so a code weighs as much as the questions that it was seen with, not the queries.

A code is an error from `ERROR_FROM` on, a warn from `WARN_FROM` on, and else a note. With fewer than
`QUESTIONS_OF_AN_ERROR` questions it is no error, whatever its family.
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
ERROR_FROM: Final = 0.75
WARN_FROM: Final = 0.5
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
        databases: Databases that they ask.
    """

    queries: int = 0
    wrong: int = 0
    questions: int = 0
    databases: int = 0

    @property
    def precision(self) -> float:
        """The share of queries that were wrong; 0 without any."""
        return self.wrong / self.queries if self.queries else 0.0


class Table:
    """Counts of codes in one situation, and what follows from them."""

    def __init__(self, counts: Mapping[str, Counts]) -> None:
        self.counts = dict(counts)
        self._families: dict[str, tuple[float, int]] = {}
        for code, told in counts.items():
            wrong, questions = self._families.get(FAMILY_OF[code], (0.0, 0))
            self._families[FAMILY_OF[code]] = (wrong + told.precision * told.questions, questions + told.questions)

    def of(self, code: str) -> Counts:
        """What was counted for a code."""
        return self.counts.get(code, Counts())

    def expected(self, code: str) -> float:
        """The share of wrong ones that is expected among queries with this code that were not seen yet."""
        wrong, questions = self._families.get(FAMILY_OF[code], (0.0, 0))
        told = self.of(code)
        return _pulled(told.precision * told.questions, told.questions, _pulled(wrong, questions, PRIOR_PRECISION))

    def tier(self, code: str) -> str:
        """`error`, `warn` or `note`."""
        expected = self.expected(code)
        if expected >= ERROR_FROM and self.of(code).questions >= QUESTIONS_OF_AN_ERROR:
            return "error"
        return "warn" if expected >= WARN_FROM else "note"


def _pulled(wrong: float, questions: float, prior: float) -> float:
    return (wrong + PRIOR_QUESTIONS * prior) / (questions + PRIOR_QUESTIONS)


@functools.cache
def table(situation: str = ALONE) -> Table:
    """The table that the package ships."""
    text = resources.files("groundbox.check.sql").joinpath("calibration.json").read_text(encoding="utf-8")
    return Table({code: Counts(**counts) for code, counts in json.loads(text)["situations"][situation].items()})
