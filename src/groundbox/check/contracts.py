"""Contracts: what a result has to be, said before it is there, and looked at afterwards.

A contract is plain data, such as `{"type": "number", "min": 0, "unit": "EUR"}` or `{"type": "table", "columns": […]}`.
`Contract.of` checks it and names the key that cannot be meant; `check_contract` (contract_results.py) says what of a
result breaks it.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeGuard

from groundbox.check.patterns import Pattern
from groundbox.errors import InvalidArgument

TABLE: Final = "application/vnd.dataresource+json"
TYPES: Final = ("number", "integer", "string", "date", "boolean", "table")
COLUMN_TYPES: Final = ("number", "integer", "string", "date", "boolean", "any")
_KEYS: Final = {
    # `finite` may be said and changes nothing: a number always has to be.
    "number": ("min", "max", "unit", "finite"),
    "integer": ("min", "max", "unit"),
    "string": ("one_of", "pattern", "min_length", "max_length"),
    "date": ("min", "max"),
    "boolean": (),
    "table": ("columns", "unique", "not_null", "min_rows", "max_rows", "totals", "extra_columns"),
}
_EVERY: Final = ("type", "nullable")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Contract:
    """A contract that was read: type, bounds and shape of a result.

    Attributes:
        type: One of `TYPES`.
        least: Smallest number or date, None for any; `most` likewise.
        unit: What the number is measured in. It is not in the data; where the text of the result names a
            currency, that has to be this one.
        columns: Names and types of columns, None for any columns.
        extra_columns: Whether there may be more.
        unique: Columns that together tell rows apart.
        not_null: Columns without gaps.
        totals: Columns, and the sums that they have to keep.
    """

    type: str
    nullable: bool = False
    least: Any = None
    most: Any = None
    unit: str = ""
    one_of: Sequence[str] | None = None
    pattern: Pattern | None = None
    min_length: int | None = None
    max_length: int | None = None
    columns: Mapping[str, str] | None = None
    extra_columns: bool = True
    unique: Sequence[str] = ()
    not_null: Sequence[str] = ()
    min_rows: int | None = None
    max_rows: int | None = None
    totals: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @staticmethod
    def of(expect: Mapping[str, Any] | Contract) -> Contract:
        """The contract that plain data describes.

        Raises:
            InvalidArgument: A key is unknown, or its value cannot be meant; the message names it and says what can.
        """
        return expect if isinstance(expect, Contract) else _contract(expect)


def _contract(expect: Mapping[str, Any]) -> Contract:
    if not isinstance(expect, Mapping):
        raise InvalidArgument("expect", f"must be a dict such as {{'type': 'number'}}, not {expect!r:.60}")
    kind = expect.get("type")
    if kind not in TYPES:
        raise InvalidArgument("expect['type']", f"must be one of {', '.join(TYPES)}, not {kind!r:.60}")
    known = (*_EVERY, *_KEYS[kind])
    for key in expect:
        if key not in known:
            raise InvalidArgument(f"expect[{key!r:.60}]", f"is no key of a {kind}; it has {', '.join(known)}")
    rules: dict[str, Any] = {}
    for key, read in _READERS.items():
        if key in expect:
            read = _date if kind == "date" and read is _number else read
            rules[key] = read(f"expect[{key!r}]", expect[key])
    for low, high in (("min", "max"), ("min_length", "max_length"), ("min_rows", "max_rows")):
        least, most = rules.get(low), rules.get(high)
        if least is not None and most is not None and least > most:
            raise InvalidArgument(f"expect[{low!r}]", f"is above expect[{high!r}]; nothing could be both")
    given = {_FIELDS.get(key, key): value for key, value in rules.items() if value is not None}
    contract = Contract(type=kind, **given)
    _check_named(contract)
    return contract


def _instance_of(kind: type) -> Callable[[str, Any], Any]:
    def read(name: str, value: Any) -> Any:
        if not isinstance(value, kind):
            raise InvalidArgument(name, f"must be a {kind.__name__}, not {value!r:.60}")
        return value

    return read


def _number(name: str, value: Any) -> Any:
    if value is not None and not (is_number(value) and math.isfinite(value)):
        raise InvalidArgument(name, f"must be a number, not {value!r:.60}")
    return value


def _date(name: str, value: Any) -> datetime.datetime | None:
    found = as_date(value)
    if value is not None and found is None:
        raise InvalidArgument(name, f"must be a date such as '2024-03-05', not {value!r:.60}")
    return found


def _count(name: str, value: Any) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise InvalidArgument(name, f"must be a whole number from 0, not {value!r:.60}")
    return value


def _texts(name: str, value: Any) -> Sequence[str] | None:
    if value is None:
        return None
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, (list, tuple)) or not value or not all(isinstance(one, str) for one in value):
        raise InvalidArgument(name, f"must be a list of texts, not {value!r:.60}")
    return tuple(value)


def _pattern(name: str, value: Any) -> Pattern | None:
    text = _instance_of(str)(name, value)
    return Pattern.of(name, text) if text else None


def _columns(name: str, value: Any) -> Mapping[str, str] | None:
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        value = dict.fromkeys(_texts(name, value) or (), "any")
    if not isinstance(value, Mapping) or not value or not all(isinstance(column, str) for column in value):
        raise InvalidArgument(name, "must be a list of names, or a dict of names and types")
    for column, kind in value.items():
        if kind not in COLUMN_TYPES:
            raise InvalidArgument(f"{name}[{column!r}]", f"must be one of {', '.join(COLUMN_TYPES)}, not {kind!r:.60}")
    return dict(value)


def _totals(name: str, value: Any) -> Mapping[str, float]:
    if not isinstance(value, Mapping):
        raise InvalidArgument(name, "must be a dict of columns and sums, such as {'revenue': 7475}")
    for column, total in value.items():
        if not (is_number(total) and math.isfinite(total)):
            raise InvalidArgument(f"{name}[{column!r}]", f"must be a number, not {total!r:.60}")
    return {column: float(total) for column, total in value.items()}


_READERS: Final[Mapping[str, Callable[[str, Any], Any]]] = {
    "nullable": _instance_of(bool),
    "min": _number,
    "max": _number,
    "unit": _instance_of(str),
    "one_of": _texts,
    "pattern": _pattern,
    "min_length": _count,
    "max_length": _count,
    "columns": _columns,
    "extra_columns": _instance_of(bool),
    "unique": _texts,
    "not_null": _texts,
    "min_rows": _count,
    "max_rows": _count,
    "totals": _totals,
}
"""Of several keys that cannot be meant, the first one here is named."""
_FIELDS: Final = {"min": "least", "max": "most"}


def _check_named(contract: Contract) -> None:
    """Columns that a rule names are among the columns, where these are all."""
    # Only where the columns are all there may be, a name that is none of them can never hold.
    if contract.columns is None or contract.extra_columns:
        return
    for key, names in (("unique", contract.unique), ("not_null", contract.not_null), ("totals", contract.totals)):
        for name in names:
            if name not in contract.columns:
                raise InvalidArgument(
                    f"expect[{key!r}]", f"names {name!r}, which is none of the columns; extra_columns is False"
                )


def is_number(value: Any) -> TypeGuard[int | float]:
    """Tell whether a value is a number; True is an int to Python, and a mistake where a number is meant."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def as_date(value: Any) -> datetime.datetime | None:
    """The moment that a text, a date or a datetime names; without a zone."""
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, datetime.date):
        return datetime.datetime.combine(value, datetime.time())
    if not isinstance(value, str) or len(value) > 40 or not value[:4].isdigit() or "-" not in value:
        return None
    try:
        return datetime.datetime.fromisoformat(value.strip()).replace(tzinfo=None)
    except ValueError:
        return None
