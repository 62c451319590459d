"""What the observers look at when labels decide where values go: files with a field too many, rows that are put beside
others, and tables that leave rows with a blank key out.

See observers.py. Here, too, nothing is changed, and work is linear in the rows, which are counted.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .watching import Watch

_MOST_COLUMNS: Final = 200
_CODE: Final = re.compile(r"\d{2,}[eE]\d+")
_PLAIN: Final = re.compile(r"\d*(?:[eE]\d+)?")
_SECONDS: Final = 100_000_000
"""Of 1973; in nanoseconds it is a tenth of a second."""
_NANOSECONDS: Final = 10**15
_EPOCH: Final = 1970
_FALSE: Final = frozenset(["false", "f", "no", "n", "0", "off"])


def index_from_file(watch: Watch, line: int, given: dict[str, Any], result: Any) -> None:
    """Lines that end with a separator have a field more than the header, and pandas takes the first for labels."""
    if given.get("index_col") is not None or type(given.get("names")).__name__ == "list" or not len(result):
        return
    index = result.index
    is_counted = type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1)
    if is_counted or not len(result.columns):
        return
    last = result.columns[-1]
    if watch.may_look_at(len(result)) and bool(result.iloc[:, -1].isna().all()):
        watch.tell("columns_shifted", line, [last], rows=len(result), columns=len(result.columns))


def codes_as_numbers(texts: list[str]) -> int:
    """How many texts of a column are codes such as 12E5, of which floating point keeps nothing.

    A number in that notation has one digit in front, a point or a sign.
    """
    if not all(_PLAIN.fullmatch(text) for text in texts):
        return 0
    return sum(_CODE.fullmatch(text) is not None for text in texts)


def text_as_bool(watch: Watch, line: int, old: Any, new: Any) -> None:
    """Texts such as 'False' that became True, as every text does that is not empty."""
    if getattr(new.dtype, "kind", "") != "b" or str(old.dtype) not in ("object", "str", "string"):
        return
    lost = sum(1 for value in old.tolist() if type(value) is str and value.strip().lower() in _FALSE)
    if lost:
        watch.tell("text_as_bool", line, [old.name], rows=len(old), lost=lost)


def partly_aligned(watch: Watch, line: int, one: Any, other: Any, name: Any) -> None:
    """As many rows on both sides, of which only some have the same labels: they were counted anew on one side."""
    if len(one) != len(other) or len(one) < 2 or one.index is other.index or one.index.equals(other.index):
        return
    if one.index.dtype.kind not in "iu" or other.index.dtype.kind not in "iu":
        return  # labels that somebody chose: a month may be absent in one of two years
    if not watch.may_look_at(2 * len(one)):
        return
    lost = len(one) - int(one.index.isin(other.index).sum())
    if 0 < lost < len(one):
        watch.tell("partly_misaligned", line, [name], rows=len(one), right=len(other), lost=lost)


def order_undone(watch: Watch, line: int, given: dict[str, Any]) -> None:
    """A column that is assigned in another order, which its labels undo: it is a copy of the column it was made of."""
    own, value, key = given["self"], given["value"], given["key"]
    name = value.name
    if name is None or name == key or name not in own.columns or len(own) != len(value) or len(own) < 2:
        return
    if value.index.equals(own.index) or not own.index.is_unique or not watch.may_look_at(2 * len(own)):
        return
    if value.index.is_unique and value.reindex(own.index).equals(own[name]):
        watch.tell("order_undone", line, [key], rows=len(own))


def table_keys(watch: Watch, line: int, given: dict[str, Any], result: Any) -> None:
    """Rows of which a key is blank, and which no cell of a pivot table or a cross table counts."""
    data = given.get("self", given.get("data"))
    data = data if hasattr(data, "columns") else None
    names: list[Any] = []
    lost: Any = None
    rows = 0
    for side in (given.get("index"), given.get("columns")):
        for key in side if type(side) is list else [] if side is None else [side]:
            column: Any = key if data is None else data[key] if type(key) is str and key in data.columns else None
            if not hasattr(column, "isna") or getattr(column, "ndim", 0) != 1 or not watch.may_look_at(len(column)):
                continue
            blank = column.isna().to_numpy()
            names.append(getattr(column, "name", None))
            lost, rows = blank if lost is None or len(lost) != len(blank) else lost | blank, len(blank)
    # With dropna=False there is a row or a column of the blank keys, unless this is a cross table.
    keeps = given.get("dropna") is False and data is not None
    if lost is not None and lost.any() and not keeps:
        watch.tell("keys_dropped", line, names, rows=rows, lost=int(lost.sum()))


def numbers_as_times(watch: Watch, line: int, given: dict[str, Any], result: Any) -> None:
    """Whole numbers without a unit, which pandas takes for nanoseconds: seconds of today are in 1970."""
    arg, index = given["arg"], getattr(result, "dt", result)
    if given.get("unit") is not None or getattr(getattr(arg, "dtype", None), "kind", "") not in ("i", "u", "f"):
        return
    if not hasattr(index, "year") or not hasattr(arg, "__len__") or not len(arg) or not watch.may_look_at(len(arg)):
        return
    largest = abs(arg).max()
    if _SECONDS <= largest < _NANOSECONDS and bool((index.year == _EPOCH).all()):
        watch.tell("numbers_as_times", line, [getattr(arg, "name", None)], rows=len(arg))


def groups_mixed(watch: Watch, line: int, given: dict[str, Any], result: Any, *, place: int) -> None:
    """The first or last values of groups, which are of several rows where one of them is blank."""
    group = given["self"]
    if getattr(result, "ndim", 1) != 2 or len(result.columns) < 2 or not watch.may_look_at(group.obj.size):
        return
    rows = group.nth(place)
    names = [name for name in list(result.columns)[:_MOST_COLUMNS] if name in rows.columns]
    filled = [name for name in names if int(rows[name].isna().sum()) > int(result[name].isna().sum())]
    if filled and len(filled) < len(names):
        watch.tell("groups_mixed", line, filled, rows=len(result))


def label_observers(pandas: Any) -> dict[Any, Any]:
    """Functions of pandas, to what looks at them."""
    pivot = sys.modules["pandas.core.reshape.pivot"]
    groupby = sys.modules["pandas.core.groupby.groupby"].GroupBy
    return {
        groupby.first: lambda *told: groups_mixed(*told, place=0),
        groupby.last: lambda *told: groups_mixed(*told, place=-1),
        pandas.DataFrame.pivot_table: table_keys,
        pivot.pivot_table: table_keys,
        pandas.crosstab: table_keys,
    }
