"""Contracts: what a result has to be, said before it is there, and looked at afterwards.

A contract is plain data, such as `{"type": "number", "min": 0, "unit": "EUR"}` or `{"type": "table", "columns": […]}`.
`Contract.of` checks it and names the key that cannot be meant; `check_contract` (contract_results.py) says what of a
result breaks it.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

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
        return expect if isinstance(expect, Contract) else _Reader(expect).contract()


class _Reader:
    def __init__(self, expect: Mapping[str, Any]) -> None:
        if not isinstance(expect, Mapping):
            raise InvalidArgument("expect", f"must be a dict such as {{'type': 'number'}}, not {expect!r:.60}")
        self._expect = expect
        self._type = expect.get("type")
        if self._type not in TYPES:
            raise InvalidArgument("expect['type']", f"must be one of {', '.join(TYPES)}, not {self._type!r:.60}")
        known = (*_EVERY, *_KEYS[self._type])
        for key in expect:
            if key not in known:
                raise InvalidArgument(f"expect[{key!r:.60}]", f"is no key of a {self._type}; it has {', '.join(known)}")

    def contract(self) -> Contract:
        kind = "date" if self._type == "date" else "number"
        contract = Contract(
            type=self._type or "",
            nullable=self._get("nullable", bool, False),
            least=self._bound("min", kind),
            most=self._bound("max", kind),
            unit=self._get("unit", str, ""),
            one_of=self._texts("one_of"),
            pattern=self._pattern(),
            min_length=self._count("min_length"),
            max_length=self._count("max_length"),
            columns=self._columns(),
            extra_columns=self._get("extra_columns", bool, True),
            unique=self._texts("unique") or (),
            not_null=self._texts("not_null") or (),
            min_rows=self._count("min_rows"),
            max_rows=self._count("max_rows"),
            totals=self._totals(),
        )
        self._check_order(contract)
        self._check_named(contract)
        return contract

    def _get(self, key: str, kind: type, default: Any) -> Any:
        value = self._expect.get(key, default)
        if not isinstance(value, kind):
            raise InvalidArgument(f"expect[{key!r}]", f"must be a {kind.__name__}, not {value!r:.60}")
        return value

    def _bound(self, key: str, kind: str) -> Any:
        value = self._expect.get(key)
        if value is None:
            return None
        if kind == "date":
            found = as_date(value)
            if found is None:
                raise InvalidArgument(f"expect[{key!r}]", f"must be a date such as '2024-03-05', not {value!r:.60}")
            return found
        # True is an int to Python; a bound of True is a mistake of the caller.
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise InvalidArgument(f"expect[{key!r}]", f"must be a number, not {value!r:.60}")
        return value

    def _count(self, key: str) -> int | None:
        value = self._expect.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
            raise InvalidArgument(f"expect[{key!r}]", f"must be a whole number from 0, not {value!r:.60}")
        return value

    def _texts(self, key: str) -> Sequence[str] | None:
        value = self._expect.get(key)
        if value is None:
            return None
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, (list, tuple)) or not value or not all(isinstance(one, str) for one in value):
            raise InvalidArgument(f"expect[{key!r}]", f"must be a list of texts, not {value!r:.60}")
        return tuple(value)

    def _pattern(self) -> Pattern | None:
        value = self._get("pattern", str, "")
        return Pattern.of("expect['pattern']", value) if value else None

    def _columns(self) -> Mapping[str, str] | None:
        value = self._expect.get("columns")
        if value is None:
            return None
        if isinstance(value, (list, tuple)):
            value = dict.fromkeys(self._texts("columns") or (), "any")
        if not isinstance(value, Mapping) or not value or not all(isinstance(name, str) for name in value):
            raise InvalidArgument("expect['columns']", "must be a list of names, or a dict of names and types")
        for name, kind in value.items():
            if kind not in COLUMN_TYPES:
                raise InvalidArgument(
                    f"expect['columns'][{name!r}]", f"must be one of {', '.join(COLUMN_TYPES)}, not {kind!r:.60}"
                )
        return dict(value)

    def _totals(self) -> Mapping[str, float]:
        value = self._expect.get("totals", {})
        if not isinstance(value, Mapping):
            raise InvalidArgument("expect['totals']", "must be a dict of columns and sums, such as {'revenue': 7475}")
        for name, total in value.items():
            if isinstance(total, bool) or not isinstance(total, (int, float)) or not math.isfinite(total):
                raise InvalidArgument(f"expect['totals'][{name!r}]", f"must be a number, not {total!r:.60}")
        return {name: float(total) for name, total in value.items()}

    def _check_order(self, contract: Contract) -> None:
        for low, high in (("min", "max"), ("min_length", "max_length"), ("min_rows", "max_rows")):
            least, most = self._expect.get(low), self._expect.get(high)
            # Dates were read by then, and texts of dates do not compare as dates.
            if low == "min":
                least, most = contract.least, contract.most
            if least is not None and most is not None and least > most:
                raise InvalidArgument(f"expect[{low!r}]", f"is above expect[{high!r}]; nothing could be both")

    def _check_named(self, contract: Contract) -> None:
        """Columns that a rule names are among the columns, where these are all."""
        # Only where the columns are all there may be, a name that is none of them can never hold.
        if contract.columns is None or contract.extra_columns:
            return
        for key, names in (
            ("unique", contract.unique),
            ("not_null", contract.not_null),
            ("totals", contract.totals),
        ):
            for name in names:
                if name not in contract.columns:
                    raise InvalidArgument(
                        f"expect[{key!r}]", f"names {name!r}, which is none of the columns; extra_columns is False"
                    )


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
