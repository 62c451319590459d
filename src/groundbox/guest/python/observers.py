"""What the observers look at when a function of pandas returns: its arguments, its result, and no more.

Each takes the watch, the program's line, the function's variables and its result. Nothing is changed, nothing warns
(so `isna`, `duplicated` and `isin`, and no parsing by pandas), and work is linear in the rows, which are counted.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from .label_observers import index_from_file, label_observers, numbers_as_times, text_as_bool
from .value_observers import blank_keys, read_texts, reduced, rounded, value_observers

if TYPE_CHECKING:
    from .watching import Watch

Observer = Callable[["Watch", int, dict[str, Any], Any], None]

SAMPLE: Final = 1000
NUMERIC_SHARE: Final = 0.95
MOST_KEYS: Final = 300_000
NEARLY_UNIQUE: Final = 0.6
"""The share of distinct keys from which a table reads as one to look up in, with some entries doubled."""
_DECORATION: Final = str.maketrans("", "", ",$€£%'_ \u00a0")


def observers(pandas: Any) -> dict[Any, Observer]:
    """Functions of pandas, to what looks at them."""
    groupby = sys.modules["pandas.core.groupby.groupby"].GroupBy
    frame, series = pandas.DataFrame, pandas.Series
    return {
        **value_observers(pandas),
        **label_observers(pandas),
        pandas.merge: _merged,
        frame.merge: _merged,
        frame.join: _joined,
        frame.dropna: _dropped,
        pandas.to_numeric: _coerced,
        pandas.to_datetime: _timed,
        pandas.concat: _concatenated,
        frame.groupby: _grouped,
        series.groupby: _grouped,
        frame.astype: _converted,
        pandas.read_csv: _read,
        series.sum: _summed,
        series.max: _ordered_text,
        series.min: _ordered_text,
        series.sort_values: _ordered_text,
        frame.sort_values: _sorted_frame,
        series.__gt__: _compared_text,
        series.__lt__: _compared_text,
        series.__ge__: _compared_text,
        series.__le__: _compared_text,
        groupby.sum: _summed_groups,
        groupby.max: _ordered_groups,
        groupby.min: _ordered_groups,
    }


def before(pandas: Any) -> dict[Any, Callable[[Any], Any]]:
    """Functions that may change what they are given, to what is remembered of it."""
    return {pandas.DataFrame.dropna: lambda given: len(given["self"])}


def _merged(watch: Watch, line: int, given: dict[str, Any], result: Any) -> None:
    left, right = given.get("self", given.get("left")), given["right"]
    how = given["how"]
    if how == "cross" or left is None or not watch.may_look_at(len(left) + len(right) + len(result)):
        return
    sizes = {"left": len(left), "right": len(right), "rows": len(result)}
    keys = _keys(given, left, right)
    rounded(watch, line, [left, right], result)
    if keys is not None:
        blank_keys(watch, line, left, right, keys, len(result))
    names = [] if keys is None else list(dict.fromkeys([*keys[0], *keys[1]]))
    if len(left) and len(right) and _matches_nothing(left, right, result, how, keys):
        watch.tell("merge_empty", line, names, **sizes)
        return
    if given.get("validate") is None and left is not right and _multiplies(left, right, result, how, keys):
        watch.tell("merge_multiplied", line, names, **sizes)
    if keys is None or len(keys[0]) != 1:
        return
    found = left[keys[0][0]].isin(right[keys[1][0]])
    lost = len(left) - int(found.sum())
    if lost and how in ("inner", "left"):
        watch.tell("merge_lost" if how == "inner" else "merge_unmatched", line, names, lost=lost, **sizes)


def _joined(watch: Watch, line: int, given: dict[str, Any], result: Any) -> None:
    left, right, how = given["self"], given["other"], given["how"]
    if not hasattr(right, "index") or how == "cross" or not watch.may_look_at(len(left) + len(right)):
        return
    rounded(watch, line, [each for each in (left, right) if each.ndim == 2], result)
    sizes = {"left": len(left), "right": len(right), "rows": len(result)}
    grown = how == "left" and len(result) > len(left) and given.get("validate") is None
    if grown and (_is_lookup(right.index.nunique(), len(right)) or not left.index.is_unique):
        watch.tell("merge_multiplied", line, [], **sizes)
    if how == "left" and len(left) and len(right) and not left.index.isin(right.index).any() and given["on"] is None:
        watch.tell("merge_empty", line, [], **sizes)


def _keys(given: dict[str, Any], left: Any, right: Any) -> tuple[list[Any], list[Any]] | None:
    """Columns of both sides, or None when an index or an array is the key."""
    if given.get("left_index") or given.get("right_index"):
        return None
    on, left_on, right_on = given["on"], given["left_on"], given["right_on"]
    if on is None and left_on is None and right_on is None:
        both = [column for column in left.columns if column in right.columns]
        return both, both
    ones, others = (_listed(on if each is None else each) for each in (left_on, right_on))
    known = all(_names(column, left) for column in ones) and all(_names(column, right) for column in others)
    return (ones, others) if known and len(ones) == len(others) else None


def _names(column: Any, frame: Any) -> bool:
    return type(column) in (str, int, tuple) and column in frame.columns


def _listed(value: Any) -> list[Any]:
    return list(value) if type(value) is list else [value]


def _matches_nothing(left: Any, right: Any, result: Any, how: str, keys: Any) -> bool:
    if how == "inner":
        return len(result) == 0
    if keys is None or len(keys[0]) != 1 or how not in ("left", "outer", "right"):
        return False
    return not left[keys[0][0]].isin(right[keys[1][0]]).any()


def _multiplies(left: Any, right: Any, result: Any, how: str, keys: Any) -> bool:
    """Whether rows of both sides are repeated, or a row of the left for entries doubled in a table to look up in."""
    grown = how == "left" and len(result) > len(left) and keys is not None and len(right) <= MOST_KEYS
    if grown and _is_lookup(len(right) - int(right.duplicated(subset=keys[1]).sum()), len(right)):
        return True
    if how == "inner" and len(result) > max(len(left), len(right)):
        return True
    if keys is None or max(len(left), len(right)) > MOST_KEYS:
        return False
    doubled, others = left.duplicated(subset=keys[0]), right.duplicated(subset=keys[1])
    if not (doubled.any() and others.any()):
        return False
    if len(keys[0]) == 1:
        return bool(left.loc[doubled, keys[0][0]].isin(right.loc[others, keys[1][0]]).any())
    ones = set(left.loc[doubled, keys[0]].itertuples(index=False, name=None))
    return any(row in ones for row in right.loc[others, keys[1]].itertuples(index=False, name=None))


def _is_lookup(distinct: int, rows: int) -> bool:
    return distinct < rows and distinct >= NEARLY_UNIQUE * rows


def _dropped(watch: Watch, line: int, given: dict[str, Any], result: Any) -> None:
    if given["subset"] is not None or given["axis"] not in (0, "index") or given["how"] == "all":
        return
    if isinstance(given["thresh"], int):
        return
    rows, kept = given.get("before", 0), len(given["self"] if result is None else result)
    if kept < rows:
        watch.tell("rows_dropped", line, [], rows=rows, lost=rows - kept)


def _coerced(watch: Watch, line: int, given: dict[str, Any], result: Any) -> None:
    arg = given["arg"]
    if (
        given["errors"] != "coerce"
        or not hasattr(result, "dtype")
        or not result.ndim
        or not watch.may_look_at(2 * len(result))
    ):
        return
    blank = sum(1 for item in arg if item is None or item != item) if isinstance(arg, list | tuple) else _blank(arg)
    lost = _blank(result) - blank
    if lost > 0:
        watch.tell("values_lost", line, [getattr(arg, "name", None)], rows=len(result), lost=lost)


def _timed(watch: Watch, line: int, given: dict[str, Any], result: Any) -> None:
    numbers_as_times(watch, line, given, result)
    _coerced(watch, line, given, result)


def _blank(values: Any) -> int:
    pandas: Any = sys.modules["pandas"]
    return int(pandas.isna(values).sum())


def _concatenated(watch: Watch, line: int, given: dict[str, Any], result: Any) -> None:
    pandas: Any = sys.modules["pandas"]
    objs = given["objs"]
    frames = [
        each for each in (objs.values() if isinstance(objs, dict) else objs) if isinstance(each, pandas.DataFrame)
    ]
    if given["join"] != "outer" or len(frames) < 2 or len(frames) > 100:
        return
    rounded(watch, line, frames, result)
    frames = [each for each in frames if len(each)]
    if given["axis"] in (0, "index"):
        columns = [column for each in frames for column in each.columns if type(column) is str]
        spellings: dict[str, str] = {}
        for column in columns:
            other = spellings.setdefault(_plain(column), column)
            if other != column and not any(other in each.columns and column in each.columns for each in frames):
                watch.tell("concat_misaligned", line, [other, column], rows=len(result), frames=len(frames))
                return
    elif len(result) > max(map(len, frames)) and len({len(each) for each in frames}) == 1:
        watch.tell("concat_misaligned", line, [], rows=len(result), frames=len(frames))


def _plain(column: str) -> str:
    return "".join(character for character in column.casefold() if character.isalnum())


def _grouped(watch: Watch, line: int, given: dict[str, Any], result: Any) -> None:
    own, by = given["self"], given["by"]
    if given["dropna"] is not True or by is None or not watch.may_look_at(len(own)):
        return
    names = []
    lost: Any = None
    for key in _listed(by):
        column = own[key] if own.ndim == 2 and _names(key, own) else key
        if hasattr(column, "isna") and getattr(column, "ndim", 0) == 1 and len(column) == len(own):
            names.append(getattr(column, "name", None))
            blank = column.isna().to_numpy()
            lost = blank if lost is None else lost | blank
    if lost is not None and lost.any():
        watch.tell("groups_dropped", line, names, rows=len(own), lost=int(lost.sum()))


def _converted(watch: Watch, line: int, given: dict[str, Any], result: Any) -> None:
    own = given["self"]
    if not watch.may_look_at(own.size):
        return
    pairs = [(own, result)] if own.ndim == 1 else [(own.iloc[:, n], result.iloc[:, n]) for n in range(own.shape[1])]
    for old, new in pairs:
        text_as_bool(watch, line, old, new)
        kinds = getattr(old.dtype, "kind", ""), getattr(new.dtype, "kind", "")
        if kinds[1] not in ("i", "u") or kinds[0] not in ("f", "i", "u") or old.dtype == new.dtype:
            continue
        if kinds[0] == "f":
            values = old.dropna()
            cut = int((values % 1 != 0).sum())
            if cut:
                watch.tell("astype_lossy", line, [old.name], rows=len(old), lost=cut)
        else:
            wrapped = int((old != new.astype(old.dtype)).sum())
            if wrapped:
                watch.tell("astype_overflow", line, [old.name], rows=len(old), lost=wrapped)


def _read(watch: Watch, line: int, given: dict[str, Any], result: Any) -> None:
    """Columns that are numbers but for their decoration, or but for some words, and so are text."""
    if not hasattr(result, "columns"):
        return
    index_from_file(watch, line, given, result)
    if given["dtype"] is not None:
        return
    read_texts(watch, line, given, result)
    names = [
        column
        for n, column in enumerate(result.columns[:200])
        if _is_text(result.iloc[:, n]) and len(_sampled(result.iloc[:, n])) >= 2 and _holds_numbers(result.iloc[:, n])
    ]
    if names:
        watch.tell("text_column", line, names, rows=len(result), columns=len(names))


def _holds_numbers(series: Any) -> bool:
    sample = _sampled(series)
    numbers = sum(1 for text in sample if _number(text.translate(_DECORATION)) is not None)
    return numbers >= NUMERIC_SHARE * len(sample)


def _is_text(series: Any) -> bool:
    return str(getattr(series, "dtype", "")) in ("object", "str", "string")


def _sampled(series: Any) -> list[str]:
    """Texts spread over the column, at most SAMPLE; none if there is anything else."""
    step = max(1, len(series) // SAMPLE)
    values = [value for value in series.iloc[::step].tolist() if value is not None and value == value]
    return values if all(type(value) is str for value in values) else []


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _numbers(series: Any) -> dict[str, float] | None:
    """The texts that are numbers, if nearly all are; None otherwise."""
    if not _is_text(series):
        return None
    sample = _sampled(series)
    parsed = {text: value for text in sample if (value := _number(text)) is not None}
    enough = len(parsed) > 1 and sum(text in parsed for text in sample) >= NUMERIC_SHARE * len(sample)
    return parsed if enough else None


def _out_of_order(numbers: dict[str, float] | None) -> bool:
    """Whether text order and number order differ; they agree where all have the same width."""
    if numbers is None:
        return False
    ordered = sorted(numbers)
    return any(numbers[one] > numbers[other] for one, other in itertools.pairwise(ordered))


def _summed_text(watch: Watch, line: int, given: dict[str, Any], result: Any) -> None:
    if _numbers(given["self"]) is not None:
        watch.tell("text_summed", line, [given["self"].name], rows=len(given["self"]))


def _summed(watch: Watch, line: int, given: dict[str, Any], result: Any) -> None:
    _summed_text(watch, line, given, result)
    reduced(watch, line, given, result, product=False)


def _ordered_text(watch: Watch, line: int, given: dict[str, Any], result: Any) -> None:
    if given.get("key") is None and _out_of_order(_numbers(given["self"])):
        watch.tell("text_ordered", line, [given["self"].name], rows=len(given["self"]))


def _sorted_frame(watch: Watch, line: int, given: dict[str, Any], result: Any) -> None:
    own = given["self"]
    if given["key"] is not None or given["axis"] not in (0, "index"):
        return
    names = [name for name in _listed(given["by"]) if _names(name, own) and _out_of_order(_numbers(own[name]))]
    if names:
        watch.tell("text_ordered", line, names, rows=len(own))


def _compared_text(watch: Watch, line: int, given: dict[str, Any], result: Any) -> None:
    own, other = given["self"], given["other"]
    if type(other) is str and getattr(own, "ndim", 0) == 1 and _number(other) is not None:
        numbers = _numbers(own)
        if numbers is not None and _out_of_order({**numbers, other: float(other)}):
            watch.tell("text_ordered", line, [own.name], rows=len(own))


def _summed_groups(watch: Watch, line: int, given: dict[str, Any], result: Any) -> None:
    names = [column.name for column in _group_columns(given) if _numbers(column) is not None]
    if names:
        watch.tell("text_summed", line, names, rows=len(given["self"].obj))


def _ordered_groups(watch: Watch, line: int, given: dict[str, Any], result: Any) -> None:
    names = [column.name for column in _group_columns(given) if _out_of_order(_numbers(column))]
    if names:
        watch.tell("text_ordered", line, names, rows=len(given["self"].obj))


def _group_columns(given: dict[str, Any]) -> list[Any]:
    chosen = given["self"]._obj_with_exclusions
    return [chosen] if chosen.ndim == 1 else [chosen.iloc[:, n] for n in range(min(50, chosen.shape[1]))]
