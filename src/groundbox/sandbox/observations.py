"""What is made of what a guest's observers say (`checks=True`): warnings whose code, tier and words are the host's.

An observer's words are a claim of the program that it watched. They choose one of the kinds below and fill in numbers
and names, which are shown as what they are; a kind that is not below is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from groundbox.execution import Warning
from groundbox.sandbox.wire import Observed

_MOST_NAME_CHARS: Final = 60


class Kind(NamedTuple):
    """One kind of observation.

    Attributes:
        tier: As groundbox.check.python.check counts it; a test compares.
        message: With `{line}`, `{names}` and the counts; a count that is not told is 0.
    """

    code: str
    tier: str
    message: str
    hint: str


KINDS: Final[Mapping[str, Kind]] = {
    "merge_multiplied": Kind(
        "pandas.merge_multiplied",
        "note",
        "a join on {names} made {rows} rows of {left} and {right}: a key stands more than once where it was to be one",
        "Make the key unique on one side first (drop_duplicates, or a groupby), and say so with validate='m:1'.",
    ),
    "merge_empty": Kind(
        "pandas.merge_empty",
        "note",
        "a join on {names} of {left} rows with {right} rows matched nothing",
        "Compare the keys: blanks around them, upper and lower case, numbers held as text.",
    ),
    "merge_lost": Kind(
        "pandas.merge_lost",
        "note",
        "an inner join on {names} left out {lost} of {left} rows, which have no partner",
        "If they should count, join with how='left'; if not, say that they were left out.",
    ),
    "merge_unmatched": Kind(
        "pandas.merge_unmatched",
        "note",
        "{lost} of {left} rows found no partner in a join on {names}, and have blanks",
        "Look at the keys without a partner before blanks go into a sum or a mean.",
    ),
    "rows_dropped": Kind(
        "pandas.rows_dropped",
        "note",
        "dropna() left out {lost} of {rows} rows, for a blank in any column",
        "Name the columns that count: dropna(subset=[…]).",
    ),
    "values_lost": Kind(
        "pandas.values_lost",
        "note",
        "errors='coerce' made blanks of {lost} of {rows} values of {names}",
        "Look at those values; clean them first (thousands separators, currency signs, other date formats).",
    ),
    "groups_dropped": Kind(
        "pandas.groups_dropped",
        "note",
        "groupby on {names} left out {lost} of {rows} rows, whose key is blank",
        "Use dropna=False, or say that they were left out.",
    ),
    "concat_misaligned": Kind(
        "pandas.concat_misaligned",
        "note",
        "concat put blanks where labels differ: {names}",
        "Make the labels equal first (rename, or reset_index(drop=True) to put frames side by side).",
    ),
    "astype_lossy": Kind(
        "pandas.astype_lossy",
        "note",
        "astype cut the fractions off {lost} of {rows} values of {names}",
        "Use round() first if whole numbers are wanted.",
    ),
    "astype_overflow": Kind(
        "pandas.astype_overflow",
        "note",
        "astype to a smaller type changed {lost} of {rows} values of {names}",
        "Use int64.",
    ),
    "text_summed": Kind(
        "pandas.text_summed",
        "note",
        "sum() of {names} put {rows} texts together, which are numbers",
        "Convert first: pd.to_numeric(column).",
    ),
    "text_ordered": Kind(
        "pandas.text_ordered",
        "note",
        "{names} holds numbers as text and was ordered as text, where '10' comes before '9'",
        "Convert first: pd.to_numeric(column).",
    ),
    "text_column": Kind(
        "pandas.text_column",
        "note",
        "read_csv read {names} as text, though nearly all of it reads as numbers",
        "Give thousands=, decimal= or na_values=, or clean the column.",
    ),
    "merge_blank_keys": Kind(
        "pandas.merge_blank_keys",
        "note",
        "a join on {names} of {left} with {right} rows matched blank keys with blank keys, {lost} of them on the left",
        "Leave rows with a blank key out first: dropna(subset=[…]).",
    ),
    "integers_rounded": Kind(
        "pandas.integers_rounded",
        "note",
        "whole numbers of {names} became floating point, and {lost} of {rows} are beyond what it holds exactly",
        "Read or convert them as text, or as the type 'Int64', which has blanks.",
    ),
    "text_blanked": Kind(
        "pandas.text_blanked",
        "note",
        "read_csv made blanks of {lost} of {rows} texts of {names}, such as NA, None or null",
        "If they are values, read with keep_default_na=False and name the blanks by na_values=.",
    ),
    "zeros_dropped": Kind(
        "pandas.zeros_dropped",
        "note",
        "read_csv read {names} as numbers, and {lost} of {rows} values lost the zeros in front",
        "Read codes as text: dtype={'column': str}.",
    ),
    "misaligned": Kind(
        "pandas.misaligned",
        "note",
        "no label of the {rows} rows is among the {right} labels of what was put beside them, so that {names} is blank",
        "Align first (reindex, merge), or take the values alone: .to_numpy().",
    ),
    "partly_misaligned": Kind(
        "pandas.misaligned",
        "note",
        "{lost} of {rows} labels of rows are not among the {right} labels of what was put beside them: there {names} "
        "is blank, and elsewhere it may be another row's",
        "If rows belong together by their place, give both the same labels first: .reset_index(drop=True).",
    ),
    "order_undone": Kind(
        "pandas.misaligned",
        "note",
        "{names} was assigned in another order, which the labels of rows undo: it is a copy of the column it is from",
        "If the order is meant, take the values alone: .to_numpy().",
    ),
    "columns_shifted": Kind(
        "pandas.columns_shifted",
        "note",
        "the lines have a field more than the header, so read_csv took the first for labels of rows, and each name "
        "stands above its neighbour's values; {names}, the last of {columns}, is blank",
        "Read with index_col=False: the lines end with a separator.",
    ),
    "codes_as_numbers": Kind(
        "pandas.codes_as_numbers",
        "note",
        "read_csv read {lost} of {rows} texts of {names} such as 12E5 as numbers, 12 with five zeros",
        "Read codes as text: dtype={'column': str}.",
    ),
    "text_as_bool": Kind(
        "pandas.text_as_bool",
        "note",
        "astype(bool) made True of {lost} of {rows} texts of {names} such as 'False', 'no' or '0'",
        "Compare with the text that means it: column == 'True'.",
    ),
    "numbers_as_times": Kind(
        "pandas.numbers_as_times",
        "note",
        "to_datetime took {rows} whole numbers of {names} for nanoseconds, so that all are in 1970",
        "Name the unit: pd.to_datetime(column, unit='s'), or 'ms'.",
    ),
    "groups_mixed": Kind(
        "pandas.groups_mixed",
        "note",
        "first() and last() leave blanks out, so that in some groups {names} and other columns are of different rows",
        "For the first rows as they are: .head(1) or .nth(0).",
    ),
    "keys_dropped": Kind(
        "pandas.groups_dropped",
        "note",
        "the table by {names} left out {lost} of {rows} rows, whose key is blank",
        "Fill the blanks first, or say that these rows were left out.",
    ),
    "overflow": Kind(
        "python.overflow",
        "note",
        "whole numbers of {names} grew beyond their type, and the result is wrong",
        "Use float64 or Python's int: astype(object).",
    ),
    "left_out": Kind(
        "pandas.unwatched",
        "note",
        "{calls} calls were not looked at, because there was too much to look at",
        "Look at a smaller part of the data.",
    ),
    "unable": Kind(
        "pandas.unwatched",
        "note",
        "nothing could be watched: the program holds every tool of sys.monitoring that observers may take",
        "Let the program give one back: sys.monitoring.free_tool_id.",
    ),
}
_COUNTS: Final = ("rows", "left", "right", "lost", "columns", "frames", "calls", "times")


def warnings(told: Iterable[Observed]) -> Sequence[Warning]:
    """One warning for each observation of a known kind."""
    return [_warning(KINDS[each.kind], each) for each in told if each.kind in KINDS]


def _warning(kind: Kind, told: Observed) -> Warning:
    names = [_shown(name) for name in told.names]
    counts = {name: told.counts.get(name, 0) for name in _COUNTS}
    words = kind.message.format(names=" and ".join(names) or _unnamed(kind), **counts)
    evidence: dict[str, Any] = {name: count for name, count in told.counts.items() if name in _COUNTS}
    if told.line is not None:
        words = f"line {told.line}: {words}"
        evidence["line"] = told.line
    if names:
        evidence["names"] = names
    return Warning(code=kind.code, tier=kind.tier, message=words, evidence=evidence, hint=kind.hint)


def _unnamed(kind: Kind) -> str:
    joins = kind.code.startswith(("pandas.merge", "pandas.concat"))
    if joins:
        return "the labels of rows"
    return {"python.overflow": "an array", "pandas.misaligned": "the result"}.get(kind.code, "what has no name")


def _shown(name: str) -> str:
    """A name as it may stand in a sentence: on one line, short, and seen to be quoted."""
    return repr(name[:_MOST_NAME_CHARS])
