"""The tier of each code, as it was counted on recorded queries.

`calibration.json` is written by scripts/calibrate_sql_checks.py, by the procedure of `groundbox.check.tiers`: apart for
queries without other candidates, with candidates that all agree, and with one that does not.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping
from importlib import resources
from typing import Final

from groundbox.check.sql.catalog import FACTS
from groundbox.check.tiers import ERROR_FROM, Measured

ALONE: Final = "alone"
AGREEING: Final = "agreeing"
DISAGREEING: Final = "disagreeing"
SITUATIONS: Final = (ALONE, AGREEING, DISAGREEING)
"""Without other candidates, with candidates that all agree, and with one that does not."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Counts(Measured):
    """What was counted for a code.

    Attributes:
        queries: Recorded queries with the finding.
        wrong: Those of them whose result was wrong.
    """

    queries: int = 0
    wrong: int = 0

    def tier_of(self, code: str, *, error_from: float = ERROR_FROM) -> str:
        """The tier that follows; what only tells a fact is no error."""
        tier = self.tier(error_from=error_from)
        return "warn" if tier == "error" and code in FACTS else tier


NEVER_SEEN: Final = Counts()


@functools.cache
def table(situation: str = ALONE) -> Mapping[str, Counts]:
    """Code to what was counted, in one situation; codes that were never seen are not in it."""
    text = resources.files("groundbox.check.sql").joinpath("calibration.json").read_text(encoding="utf-8")
    return {code: Counts(**counts) for code, counts in json.loads(text)["situations"][situation].items()}
