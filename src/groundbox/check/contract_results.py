"""Results held to contracts: numbers, texts, dates, booleans, and tables with their columns, keys, gaps and totals."""

from __future__ import annotations

import ast
import contextlib
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from groundbox.check import contracts
from groundbox.check.contracts import Contract
from groundbox.execution import Execution, Warning
from groundbox.values import codec
from groundbox.values.codec import RESULT_MIME

_NO_VALUE: Final = object()
_MOST_TEXT: Final = 100_000
_TOTAL_SHARE: Final = 1e-9
"""Of the sum that a column has to keep."""
_SIGNS: Final = {"$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY", "₹": "INR"}
_NUMBER: Final = re.compile(r"[-+]?\d[\d_]*(?:,\d{3})*(?:\.\d+)?(?:[eE][+-]?\d{1,3})?")
_UNIT: Final = re.compile(r"([$€£¥₹])|([A-Z]{3})(?![A-Za-z])")
_Problem = tuple[str, str, str]


def check_contract(execution: Execution, expect: Mapping[str, Any] | Contract) -> list[Warning]:
    """Say what of a result breaks its contract; empty when nothing does.

    Raises:
        InvalidArgument: The contract cannot be meant.
    """
    contract = Contract.of(expect)
    if not execution.ok:
        told = f"the run ended as {execution.outcome.value}, so that there is no result"
        return [_broken("no_result", told, "Mend the failure first.", outcome=execution.outcome.value)]
    if contract.type == "table":
        return _check_table(execution, contract)
    value = _value_of(execution, contract.type)
    if value is _NO_VALUE:
        return [_broken("no_result", "the run has no value", f"Let the last line be the {contract.type}.")]
    return [
        _broken(code, message, hint, value=repr(value)[:200]) for code, message, hint in _problems_of(value, contract)
    ]


def _broken(code: str, message: str, hint: str, **evidence: Any) -> Warning:
    """Make a warning of a contract. The rule was given by the caller, so that breaking it is an error."""
    return Warning(code=f"contract.{code}", tier="error", message=message, evidence=evidence, hint=hint)


def _value_of(execution: Execution, kind: str) -> Any:
    """The value of a run: of the cell or the call, of a table with one cell, or the last line that was printed."""
    bundle = execution.value or {}
    table = bundle.get(contracts.TABLE)
    # `SELECT COUNT(*)` gives a table of one cell; who expects a number means what is in it.
    if isinstance(table, dict) and isinstance(table.get("data"), list) and len(table["data"]) == 1:
        row = table["data"][0]
        if isinstance(row, dict) and len(row) == 1:
            return next(iter(row.values()))
    if RESULT_MIME in bundle:
        data = bundle[RESULT_MIME]
        if not isinstance(data, dict):
            return data
        with contextlib.suppress(codec.NotData):
            if not {"int", "float"}.isdisjoint(data):
                # A literal, as a message cannot show an integer of more digits than Python writes.
                return codec.decode(data, literals=True)
        return bundle.get("text/plain", _NO_VALUE)
    text = bundle.get("text/plain")
    if isinstance(text, str):
        return _read(text)
    lines = [line for line in execution.stdout[-_MOST_TEXT:].splitlines() if line.strip()]
    if not lines:
        return _NO_VALUE
    # A text is taken as it was printed: reading it as Python would take quotes away and make `007` an error.
    return lines[-1].strip() if kind in ("string", "date") else _read(lines[-1].strip())


def _read(text: str) -> Any:
    """A `repr` as a value; `np.float64(3.5)` as 3.5; other text as it is."""
    text = text.strip()
    inner = re.fullmatch(r"(?:np\.|numpy\.)?(?:u?int|float|bool_?|str_|Decimal)\d*\('?([^()']{1,400})'?\)", text)
    if inner:
        text = inner[1]
    moment = re.fullmatch(r"Timestamp\('([^']{1,40})'\)", text)
    if moment:
        return moment[1]
    dated = re.fullmatch(r"(?:datetime\.)?date(?:time)?\((\d+), (\d+), (\d+)(?:, \d+)*\)", text)
    if dated:
        return "-".join(part.zfill(2) for part in dated.groups())
    # `literal_eval` reads names as errors, and a contract has its own word for these (`not_finite`).
    if text in ("nan", "inf", "-inf"):
        return float(text)
    try:
        # Bounded, since the parser's time and memory grow with what a guest printed.
        value = ast.literal_eval(text) if len(text) <= 4_000 else text
        repr(value)  # ValueError for an integer that Python reads from hexadecimal digits and does not write
        return value
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):  # TypeError for what cannot be hashed
        return text


def _problems_of(value: Any, contract: Contract) -> Iterator[_Problem]:
    """Code, sentence and hint of everything that is wrong with a value."""
    if value is None:
        if not contract.nullable:
            yield "null", "the result is None", f"It has to be a {contract.type}; handle the missing case."
        return
    check = {"number": _number, "integer": _number, "string": _string, "date": _date, "boolean": _boolean}
    yield from check[contract.type](value, contract)


def _number(value: Any, contract: Contract) -> Iterator[_Problem]:
    unit = ""
    if isinstance(value, str):
        found = _UNIT.search(value)
        unit = (_SIGNS.get(found[1] or "") or found[2] or "") if found else ""
        match = _NUMBER.search(value)
        bare = value if match is None else value[: match.start()] + value[match.end() :]
        # `$1,204.50` and `1204.5 EUR` are numbers, `about 12 people` is a sentence.
        fits = match is not None and (not bare.strip(" $€£¥₹%") or unit or bare.strip() == contract.unit)
        value = float(match[0].replace(",", "").replace("_", "")) if match is not None and fits else value
    if not contracts.is_number(value):
        yield "type", f"the result is {_named(value)} and not a {contract.type}", "Let the last line be the number."
        return
    if isinstance(value, float) and not math.isfinite(value):
        yield "not_finite", f"the result is {value}", "Look for a division by zero or missing values before it."
        return
    # 42.0 is whole: a sum in pandas is a float as soon as a cell was missing.
    if contract.type == "integer" and value != int(value):
        yield (
            "type",
            f"the result is {value}, which is no whole number",
            "Count rather than divide, or round on purpose.",
        )
    yield from _bounds(value, contract)
    # Two currencies contradict each other; any other three capital letters may be anything.
    if unit and contract.unit in _CURRENCIES and unit in _CURRENCIES and unit != contract.unit:
        yield "unit", f"the result is in {unit} and not in {contract.unit}", "Convert it, with the rate that was used."


_CURRENCIES: Final = frozenset(["USD", "EUR", "GBP", "JPY", "INR", "CHF", "CNY", "CAD", "AUD", "SEK"])


def _bounds(value: Any, contract: Contract) -> Iterator[_Problem]:
    unit = f" {contract.unit}" if contract.unit else ""
    if contract.least is not None and value < contract.least:
        yield (
            "below_min",
            f"{value}{unit} is below {contract.least}{unit}",
            "Look for a sign or a missing filter.",
        )
    if contract.most is not None and value > contract.most:
        yield (
            "above_max",
            f"{value}{unit} is above {contract.most}{unit}",
            "Look for a unit or for rows that count twice.",
        )


def _string(value: Any, contract: Contract) -> Iterator[_Problem]:
    if not isinstance(value, str):
        yield "type", f"the result is {_named(value)} and not a text", "Let the last line be the text."
        return
    if contract.one_of is not None and value not in contract.one_of:
        allowed = ", ".join(map(repr, contract.one_of[:10]))
        yield "not_one_of", f"{value[:80]!r} is none of {allowed}", "Spell it exactly so."
    if contract.pattern is not None and not contract.pattern.matches(value):
        yield "pattern", f"{value[:80]!r} does not match {contract.pattern.text}", "The whole text has to match."
    if contract.min_length is not None and len(value) < contract.min_length:
        yield "too_short", f"the text has {len(value)} characters, {contract.min_length} is the least", "Say more."
    if contract.max_length is not None and len(value) > contract.max_length:
        yield "too_long", f"the text has {len(value)} characters, {contract.max_length} is the most", "Say less."


def _date(value: Any, contract: Contract) -> Iterator[_Problem]:
    moment = contracts.as_date(value)
    if moment is None:
        yield "type", f"the result is {_named(value)} and not a date", "Give it as 2024-03-05."
        return
    yield from _bounds(moment, contract)


def _boolean(value: Any, contract: Contract) -> Iterator[_Problem]:
    if not isinstance(value, bool):
        yield "type", f"the result is {_named(value)} and not true or false", "Let the last line be the comparison."


def _named(value: Any) -> str:
    return f"{type(value).__name__} {value!r:.60}"


def _check_table(execution: Execution, contract: Contract) -> list[Warning]:
    """Return what of the table that a run gave, as its value or the last of its displays, breaks the contract."""
    table = _table(execution)
    if table is None:
        return [_broken("type", "the result is no table", "Let the last line be the DataFrame or the query.")]
    rows = [row for row in table["data"] if isinstance(row, dict)]
    names = _names(table, rows)
    found = [*_columns(contract, names, rows), *_rows(contract, table, len(rows))]
    needed = {*contract.unique, *contract.not_null, *contract.totals}
    # Columns of the contract itself are told by `_columns` already.
    lacking = [name for name in sorted(needed) if name not in names and name not in (contract.columns or ())]
    found += [
        _broken("column_missing", f"there is no column {name!r}", f"There are {', '.join(names[:20])}.")
        for name in lacking
    ]
    found += [*_unique(contract, names, rows), *_gaps(contract, names, rows), *_totals(contract, names, rows, table)]
    # Counts of rows come from the whole table; all else was seen of the first rows alone.
    partial = bool(table.get("truncated")) and (contract.unique or contract.not_null or contract.columns)
    if partial and not found:
        found.append(
            Warning(
                code="contract.partly_checked",
                tier="note",
                message=f"only the first {len(rows)} rows of {table.get('row_count')} were looked at",
                evidence={"rows": len(rows)},
                hint="Check keys, types and gaps of all rows in a run.",
            )
        )
    return found


def _table(execution: Execution) -> Mapping[str, Any] | None:
    bundles = [execution.value or {}, *(display.data for display in reversed(execution.displays))]
    for bundle in bundles:
        table = bundle.get(contracts.TABLE)
        if isinstance(table, dict) and isinstance(table.get("data"), list):
            return table
    return None


def _names(table: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    schema = table.get("schema")
    fields = schema.get("fields") if isinstance(schema, dict) else None
    if isinstance(fields, list) and fields:
        return [str(field.get("name")) for field in fields if isinstance(field, dict)]
    return [str(name) for name in rows[0]] if rows else []


def _columns(contract: Contract, names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Iterator[Warning]:
    wanted = contract.columns
    if wanted is None:
        return
    for name, kind in wanted.items():
        if name not in names:
            yield _broken(
                "column_missing", f"there is no column {name!r}", f"There are {', '.join(names[:20])}.", column=name
            )
            continue
        wrong = [row for row, one in enumerate(rows, 1) if one.get(name) is not None and not _is(kind, one[name])]
        if wrong:
            value = rows[wrong[0] - 1][name]
            yield _broken(
                "column_type",
                f"column {name!r} has {len(wrong)} values that are no {kind}, such as {value!r:.60} in row {wrong[0]}",
                f"Convert the column to {kind}, and look at what does not convert.",
                column=name,
                rows=wrong[:5],
            )
    extra = [name for name in names if name not in wanted]
    if extra and not contract.extra_columns:
        yield _broken(
            "extra_columns",
            f"there are more columns: {', '.join(extra[:20])}",
            "Select the columns.",
            columns=extra[:50],
        )


def _is(kind: str, value: Any) -> bool:
    if kind == "any":
        return True
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "string":
        return isinstance(value, str)
    if kind == "date":
        return contracts.as_date(value) is not None
    return contracts.is_number(value) and (kind == "number" or isinstance(value, int) or value.is_integer())


def _rows(contract: Contract, table: Mapping[str, Any], shown: int) -> Iterator[Warning]:
    told = table.get("row_count")
    count = told if isinstance(told, int) else shown
    if contract.min_rows is not None and count < contract.min_rows:
        yield _broken(
            "too_few_rows",
            f"{count} rows, {contract.min_rows} is the least",
            "Look for a filter or an inner join that drops rows.",
            rows=count,
        )
    if contract.max_rows is not None and count > contract.max_rows:
        yield _broken(
            "too_many_rows",
            f"{count} rows, {contract.max_rows} is the most",
            "Look for a join that repeats rows.",
            rows=count,
        )


def _unique(contract: Contract, names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Iterator[Warning]:
    if not contract.unique or any(name not in names for name in contract.unique):
        return
    # By `repr`, because cells may be lists and dicts, and because 1 and True are two keys.
    keys = Counter(tuple(repr(row.get(name)) for name in contract.unique) for row in rows)
    repeated = [(key, count) for key, count in keys.items() if count > 1]
    if repeated:
        key, count = repeated[0]
        yield _broken(
            "not_unique",
            f"{len(repeated)} keys of {', '.join(contract.unique)} stand in several rows, "
            f"such as {', '.join(key)} in {count}",
            "Look for a join that repeats rows, or group by the key.",
            columns=list(contract.unique),
            repeated=len(repeated),
        )


def _gaps(contract: Contract, names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Iterator[Warning]:
    for name in contract.not_null:
        missing = [row for row, one in enumerate(rows, 1) if name in names and one.get(name) is None]
        if missing:
            yield _broken(
                "null",
                f"column {name!r} has {len(missing)} missing values, the first in row {missing[0]}",
                "Look for an outer join or a conversion that failed.",
                column=name,
                rows=missing[:5],
            )


def _totals(
    contract: Contract, names: Sequence[str], rows: Sequence[Mapping[str, Any]], table: Mapping[str, Any]
) -> Iterator[Warning]:
    for column, total in contract.totals.items():
        if column not in names:
            continue
        values = [row.get(column) for row in rows]
        numbers = [value for value in values if contracts.is_number(value)]
        if table.get("truncated"):
            yield _broken(
                "total_unknown",
                f"the sum of {column!r} cannot be told: not all rows are here",
                "Print the sum in a run.",
            )
            continue
        try:
            # Exact but for the last rounding, so that the order of rows decides nothing.
            found = math.fsum(numbers)
        except OverflowError:
            yield _broken(
                "total_unknown",
                f"the sum of {column!r} cannot be told: it goes beyond the largest float",
                "Look for a value that was read from the wrong column, or scale the column.",
            )
            continue
        # A share of the total, and of 1 where that is smaller: near 0 a share would allow nothing.
        if abs(found - total) > _TOTAL_SHARE * max(1.0, abs(total)):
            share = f" ({found / total:.4g} times)" if total else ""
            yield _broken(
                "total",
                f"the sum of {column!r} is {found:g} and not {total:g}{share}",
                "Rows were lost or count twice: compare the sums before and after each join and filter.",
                column=column,
                found=found,
                expected=total,
            )
