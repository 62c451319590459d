"""What the texts of a column mean: numbers, days, or nothing but themselves.

Engines compare and add up what is stored: '9' is after '10', '1,200' is 1, and '03/01/2024' comes before '12/31/2023'.
A column means numbers or days when all its texts can be read so, blanks and signs for "no value" apart, and only where
at least half of its values are there. Of days in which day and month could be exchanged, nothing is said.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

_NUMBER: Final = re.compile(r"[$€£]?\s*([-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)\s*%?", re.ASCII)
_DAY: Final = re.compile(r"(\d{1,4})([-/.])(\d{1,2})\2(\d{1,4})", re.ASCII)
_NO_VALUE: Final = frozenset({"", "-", "--", "?", "n/a", "na", "nan", "nil", "none", "null", "unknown"})
_MOST_DIGITS: Final = 30


class Meaning(NamedTuple):
    """What a column of texts means.

    Attributes:
        sort: `numbers` or `days`.
        read: What one value, or a constant that the column is compared with, means; None for no value.
    """

    sort: str
    read: Callable[[Any], Any]


def number(value: Any) -> float | None:
    """The number that a value means, or None."""
    if isinstance(value, (bool, int, float)):
        return value
    found = _NUMBER.fullmatch(value.strip()) if isinstance(value, str) and len(value) <= _MOST_DIGITS else None
    return float(found[1].replace(",", "")) if found else None


def meaning_of(values: Sequence[Any]) -> Meaning | None:
    """What the texts of a column mean, or None when there are none or they mean themselves."""
    told = [value for value in values if not _is_none(value)]
    if not any(isinstance(value, str) for value in values) or 2 * len(told) < len(values) or not told:
        return None
    if all(number(value) is not None for value in told):
        return Meaning("numbers", number)
    order = _order(told)
    return Meaning("days", lambda value: _day(value, order) or _day(value, "ymd")) if order else None


def _is_none(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value.strip().casefold() in _NO_VALUE)


def _order(values: Sequence[Any]) -> str:
    """`ymd`, `dmy` or `mdy`, when all are days in that order and in no other; else ""."""
    if not all(isinstance(value, str) for value in values):
        return ""
    fitting = [order for order in ("ymd", "dmy", "mdy") if all(_day(value, order) is not None for value in values)]
    return fitting[0] if len(fitting) == 1 else ""


def _day(value: Any, order: str) -> datetime.date | None:
    found = _DAY.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        return None
    parts = dict(zip(order, (found[1], found[3], found[4]), strict=True))
    if len(parts["y"]) != 4 or max(len(parts["m"]), len(parts["d"])) > 2:
        return None
    try:
        return datetime.date(*(int(parts[name]) for name in "ymd"))
    except ValueError:
        return None
