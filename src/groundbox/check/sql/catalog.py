"""Every code of a finding, with what it says, and whether it says so of the question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

OF_THE_DATA: Final[Mapping[str, str]] = {
    "sql.value_absent": "the column does not hold the constant: other letters, another column, a number, or nowhere",
    "sql.value_blanks": "the column holds the constant, or all its values, with blanks around",
    "sql.pattern_too_wide": "LIKE finds more than the value that the column holds as such",
    "sql.join_not_by_key": "tables are related by other columns than their keys, by a detour, or by nothing",
    "sql.table_unused": "a joined table of which nothing is used",
    "sql.outer_join": "rows without a partner change the result",
    "sql.and_or_not": "a condition looks at one row: it holds for none or for all, takes either for both, or excludes "
    "one row while another of the same thing stays in",
    "sql.type_mismatch": "numbers or days as texts, compared letter by letter; whole numbers divided",
    "sql.duplicate_rows": "rows of the result are alike",
    "sql.duplicates_by_join": "the same by a join, of a key, where different ones are asked for, or in a sum",
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
NOTES: Final = (
    "sql.not_checked",
    "sql.no_schema",
    "sql.not_looked_at",
    "sql.does_not_run",
    "sql.budget_ended",
    "sql.rule_failed",
)
"""These say what could not be looked at; they are always notes."""
