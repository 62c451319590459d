"""Codes of findings, what they say, and the tier of each, as it was counted on recorded queries.

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

from groundbox.check.tiers import ERROR_FROM, Measured

OF_THE_DATA: Final[Mapping[str, str]] = {
    "sql.value_absent": "the column does not hold the constant: other letters, another column, a number, or nowhere",
    "sql.value_blanks": "the column holds the constant, or all its values, with blanks around",
    "sql.pattern_too_wide": "LIKE finds more than the value that the column holds as such",
    "sql.join_not_by_key": "tables are related by other columns than their keys, by a detour, or by nothing",
    "sql.table_unused": "a joined table of which nothing is used",
    "sql.outer_join": "rows without a partner change the result",
    "sql.outer_join_undone": "a condition or a later join drops the rows without a partner that an outer join keeps",
    "sql.and_or_not": "a condition looks at one row: it holds for none or for all, takes either for both, or excludes "
    "one row while another of the same thing stays in",
    "sql.type_mismatch": "numbers or days as texts, compared letter by letter or with numbers, added up or subtracted; "
    "whole numbers divided",
    "sql.duplicate_rows": "rows of the result are alike",
    "sql.duplicates_by_join": "the same by a join, of a key, where different ones are asked for, or in a sum or count",
    "sql.group_of_one": "each group is a single row",
    "sql.arbitrary_row": "nothing says which row a value comes from",
    "sql.tie": "several rows share what LIMIT, MAX or MIN chooses by",
    "sql.empty_result": "no rows, where texts are compared",
    "sql.nothing_found": "no rows otherwise, 0, or nothing but NULL",
    "sql.null_column": "a column is NULL throughout, or LIMIT takes rows because of NULL",
    "sql.candidates_disagree": "another candidate gives another result",
}
OF_THE_QUESTION: Final[Mapping[str, str]] = {
    "sql.condition_differs": "a condition that is not asked for, or a value, flag or table that is, and is not used",
    "sql.distinct_not_asked": "DISTINCT takes rows away",
    "sql.columns_not_asked": "columns that are not asked for",
    "sql.other_column": "fewer columns, or one with a name that says less",
    "sql.wording_differs": "another order, extreme, bound, aggregate or number of rows than the question says",
}
SAYS: Final[Mapping[str, str]] = {**OF_THE_DATA, **OF_THE_QUESTION}
FACTS: Final = frozenset({"sql.empty_result", "sql.nothing_found", "sql.value_blanks", "sql.tie"})
"""These say what is so, whether the query is right or not: a warn at most."""

ALONE: Final = "alone"
AGREEING: Final = "agreeing"
DISAGREEING: Final = "disagreeing"
SITUATIONS: Final = (ALONE, AGREEING, DISAGREEING)
"""Without other candidates, with candidates that all agree, and with one that does not."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Counts(Measured):
    """Recorded queries with a finding, and how many of them were wrong.

    Attributes:
        queries: Recorded queries with the finding.
        wrong: Those of them whose result was wrong.
    """

    queries: int = 0
    wrong: int = 0

    def tier_of(self, code: str, *, error_from: float = ERROR_FROM) -> str:
        """The tier that follows; what only tells a fact is no error."""
        tier = self.tier(error_from=error_from)
        # That a result is empty is a fact, also where the query is right: nobody is to refuse an answer for it.
        return "warn" if tier == "error" and code in FACTS else tier


NEVER_SEEN: Final = Counts()


@functools.cache
def table(situation: str = ALONE) -> Mapping[str, Counts]:
    """Code to what was counted, in one situation; codes that were never seen are not in it."""
    # Read as a resource: the package may be in a zip file.
    text = resources.files("groundbox.check.sql").joinpath("calibration.json").read_text(encoding="utf-8")
    return {code: Counts(**counts) for code, counts in json.loads(text)["situations"][situation].items()}
