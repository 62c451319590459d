"""Whether two results are the same, and where they first differ: tables, numbers, and text with numbers in it.

Numbers are compared within a relative tolerance, because the order of a sum shows in its last digits.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from groundbox.execution import Execution
from groundbox.values.equal import REL_TOL, close_numbers, equal, is_blank

TABLE_MIME: Final = "application/vnd.dataresource+json"
_DIGITS: Final = 8
_SHOWN_CHARS: Final = 60
_NUMBER: Final = re.compile(r"(?<![\w.])[-+]?(?:\d{1,300}(?:\.\d{0,300})?|\.\d{1,300})(?:[eE][-+]?\d{1,3})?(?![\w])")
_MOST_LEFT: Final = 200

Row = tuple[Any, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Table:
    """Rows as a result tells them.

    Attributes:
        row_count: How many there are; more than `rows` when not all were told.
    """

    columns: Sequence[str]
    rows: Sequence[Row]
    row_count: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Difference:
    """The first difference between two results.

    Attributes:
        count: How many rows, lines or values differ; of several differences the smallest is the easiest to explain.
        words: Where, and what stands on both sides.
    """

    count: int
    words: str


def table_of(execution: Execution) -> Table | None:
    """The table that a run has as its value, or None."""
    data = None if execution.value is None else execution.value.get(TABLE_MIME)
    if not isinstance(data, Mapping) or not isinstance(data.get("data"), list):
        return None
    fields = data.get("schema", {}).get("fields", []) if isinstance(data.get("schema"), Mapping) else []
    names = [field["name"] for field in fields if isinstance(field, Mapping) and isinstance(field.get("name"), str)]
    index = data["schema"].get("primaryKey") if names else None
    index = index if isinstance(index, list | str) else []
    kept = [name for name in names if name != "index" or name not in index]  # the labels of rows, which have no name
    rows = [tuple(row.get(name) for name in kept) for row in data["data"] if isinstance(row, Mapping)]
    count = data.get("row_count")
    return Table(columns=kept, rows=rows, row_count=count if isinstance(count, int) else len(rows))


def table_difference(
    one: Table,
    other: Table,
    *,
    ordered: bool = False,
    rel_tol: float = REL_TOL,
) -> Difference | None:
    """The first difference of two tables, or None. Names and order of columns do not count.

    Args:
        ordered: Whether the order of rows counts.
    """
    if len(one.columns) != len(other.columns):
        words = f"{_plural(len(one.columns), 'column')} and {len(other.columns)}"
        return Difference(count=max(one.row_count, other.row_count, 1), words=words)
    if one.row_count != other.row_count:
        count = abs(one.row_count - other.row_count)
        return Difference(count=count, words=f"{_plural(one.row_count, 'row')} and {other.row_count}")
    if not ordered and (one.row_count > len(one.rows) or other.row_count > len(other.rows)):
        words = f"both have {one.row_count} rows, of which not all were told; order them, or compare sums"
        return Difference(count=one.row_count, words=words)
    found = _row_difference(one.rows, other.rows, ordered=ordered, rel_tol=rel_tol)
    if found is None or len(one.columns) < 2:
        return found
    places = _matched_columns(one.rows, other.rows, ordered=ordered, rel_tol=rel_tol)
    if places is None:
        return found
    moved = [tuple(row[place] for place in places) for row in other.rows]
    return found if _row_difference(one.rows, moved, ordered=ordered, rel_tol=rel_tol) else None


def text_difference(one: str, other: str, *, ordered: bool = True, rel_tol: float = REL_TOL) -> Difference | None:
    """The first difference of two texts line by line, or None; numbers in them are compared as numbers."""
    ones, others = one.rstrip().split("\n"), other.rstrip().split("\n")
    if not ordered:
        ones, others = sorted(ones), sorted(others)
    different = [
        number
        for number in range(max(len(ones), len(others)))
        if number >= min(len(ones), len(others)) or not same_text(ones[number], others[number], rel_tol)
    ]
    if not different:
        return None
    first = different[0]
    pair = [_shown(lines[first]) if first < len(lines) else "no line" for lines in (ones, others)]
    return Difference(count=len(different), words=f"line {first + 1}: {pair[0]} and {pair[1]}")


def value_difference(one: str, other: str, *, rel_tol: float = REL_TOL) -> Difference | None:
    """The difference of two values by their text, read as Python's literals where they are any."""
    values = [_literal(text) for text in (one, other)]
    if None not in values and _same(values[0], values[1], rel_tol):
        return None
    return text_difference(one, other, rel_tol=rel_tol)


def same_text(one: str, other: str, rel_tol: float = REL_TOL) -> bool:
    """Whether two lines are the same but for blanks at their ends and the last digits of numbers."""
    one, other = one.strip(), other.strip()
    if one == other:
        return True
    if _NUMBER.sub("#", one) != _NUMBER.sub("#", other):
        return False
    pairs = zip(_NUMBER.findall(one), _NUMBER.findall(other), strict=True)
    return all(
        a == b or close_numbers(_read(a), _read(b), rel_tol=rel_tol, abs_tol=_abs_tol(rel_tol)) for a, b in pairs
    )


def _read(numeral: str) -> float:
    return int(numeral) if numeral.lstrip("+-").isdigit() else float(numeral)


def _same(one: Any, other: Any, rel_tol: float) -> bool:
    """Whether two plain values are the same; a list and a tuple may be, as may 3 and 3.0, and all blanks."""
    return equal(one, other, rel_tol=rel_tol, abs_tol=_abs_tol(rel_tol), sequences_alike=True, blanks_alike=True)


def _abs_tol(rel_tol: float) -> float:
    return 1e-12 if rel_tol else 0.0


def _row_difference(ones: Sequence[Row], others: Sequence[Row], *, ordered: bool, rel_tol: float) -> Difference | None:
    if ordered:
        pairs = enumerate(zip(ones, others, strict=False))
        different = [n for n, (one, other) in pairs if not _same(one, other, rel_tol)]
        left, right = ([rows[n] for n in different] for rows in (ones, others))
        where = f"row {different[0] + 1}" if different else ""
    else:
        left, right = _unmatched(ones, others, rel_tol)
        where = "a row"
    if not left and not right:
        return None
    if left and right:
        words = f"{where}: {_row_words(left[0], right[0], rel_tol)}"
    else:
        words = f"only one has the row {_shown((left or right)[0])}"
    return Difference(count=max(len(left), len(right)), words=words)


def _unmatched(ones: Sequence[Row], others: Sequence[Row], rel_tol: float) -> tuple[list[Row], list[Row]]:
    """Rows of each side without a partner: first by rounded values, then, of few, one by one."""
    waiting: dict[Any, list[Row]] = defaultdict(list)
    for row in others:
        waiting[_key(row)].append(row)
    left = [row for row in ones if not _take_partner(row, waiting.get(_key(row), []), rel_tol)]
    right = [row for rows in waiting.values() for row in rows]
    if max(len(left), len(right)) <= _MOST_LEFT:
        left = [row for row in left if not _take_partner(row, right, rel_tol)]
    return left, right


def _take_partner(row: Row, partners: list[Row], rel_tol: float) -> bool:
    """Tell whether one of `partners` is the same row, which is then taken out."""
    found = next((n for n, each in enumerate(partners) if _same(row, each, rel_tol)), None)
    if found is not None:
        del partners[found]
    return found is not None


def _matched_columns(ones: Sequence[Row], others: Sequence[Row], *, ordered: bool, rel_tol: float) -> list[int] | None:
    """For each column of one table, the column of the other that holds the same values; None without one."""
    width = len(ones[0]) if ones else 0
    left, right = ([_column(rows, n, ordered=ordered) for n in range(width)] for rows in (ones, others))
    free = list(range(width))
    places = []
    for values in left:
        found = next((n for n in free if _same(values, right[n], rel_tol)), None)
        if found is None:
            return None
        free.remove(found)
        places.append(found)
    return places


def _column(rows: Sequence[Row], number: int, *, ordered: bool) -> list[Any]:
    """Its values, sorted where the order of rows does not count.

    Numbers that can be paired within a tolerance at all can be so in their order, and pairs of two sorted columns are
    told apart at the first that differs: pairing each value with each takes minutes for tables of forty columns.
    """
    values = [row[number] for row in rows]
    return values if ordered else sorted(values, key=_order)


def _order(value: Any) -> tuple[int, Any]:
    if is_blank(value):
        return (0, 0)
    if isinstance(value, int | float):
        return (1 if isinstance(value, bool) else 2, value)
    return (3, value) if isinstance(value, str) else (4, _written(_key(value)))


def _row_words(one: Row, other: Row, rel_tol: float) -> str:
    for a, b in zip(one, other, strict=False):
        if not _same(a, b, rel_tol):
            return f"{_shown(a)} and {_shown(b)}"
    return f"{_shown(one)} and {_shown(other)}"


def _key(value: Any) -> Any:
    """Equal for values that are the same, but for numbers at the edge of rounding."""
    if is_blank(value):
        return None
    if isinstance(value, bool | str):
        return (type(value).__name__, value)
    if isinstance(value, int | float):
        try:
            return ("number", f"{value:.{_DIGITS}e}") if value else ("number", "0")
        except OverflowError:
            return ("number", value)
    if isinstance(value, tuple | list):
        return tuple(_key(item) for item in value)
    return _written(value)


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text) if len(text) < 100_000 else None
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):  # TypeError for what cannot be hashed
        return None


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else _written(value)
    text = text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"
    return repr(text) if isinstance(value, str) else text


def _written(value: Any) -> str:
    """Its repr, which Python refuses to write for whole numbers of more than 4300 digits."""
    try:
        return repr(value)
    except ValueError:
        return hex(value) if isinstance(value, int) else f"a {type(value).__name__} with a very large number"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
