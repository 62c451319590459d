"""Contracts of tables: columns, types, keys, gaps, counts of rows, totals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from groundbox.check import contracts
from groundbox.check.contracts import Contract, broken
from groundbox.execution import Execution, Warning


def check_table(execution: Execution, contract: Contract) -> list[Warning]:
    """What of the table that a run gave, as its value or the last of its displays, breaks the contract."""
    table = _table(execution)
    if table is None:
        return [broken("type", "the result is no table", "Let the last line be the DataFrame or the query.")]
    rows = [row for row in table["data"] if isinstance(row, dict)]
    names = _names(table, rows)
    found = [*_columns(contract, names, rows), *_rows(contract, table, len(rows))]
    needed = {*contract.unique, *contract.not_null, *(total.column for total in contract.totals)}
    lacking = [name for name in sorted(needed) if name not in names and name not in (contract.columns or ())]
    found += [
        broken("column_missing", f"there is no column {name!r}", f"There are {', '.join(names[:20])}.")
        for name in lacking
    ]
    found += [*_unique(contract, names, rows), *_gaps(contract, names, rows), *_totals(contract, names, rows, table)]
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
            yield broken(
                "column_missing", f"there is no column {name!r}", f"There are {', '.join(names[:20])}.", column=name
            )
            continue
        wrong = [row for row, one in enumerate(rows, 1) if one.get(name) is not None and not _is(kind, one[name])]
        if wrong:
            value = rows[wrong[0] - 1][name]
            yield broken(
                "column_type",
                f"column {name!r} has {len(wrong)} values that are no {kind}, such as {value!r:.60} in row {wrong[0]}",
                f"Convert the column to {kind}, and look at what does not convert.",
                column=name,
                rows=wrong[:5],
            )
    extra = [name for name in names if name not in wanted]
    if extra and not contract.extra_columns:
        yield broken(
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
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and (kind == "number" or (math.isfinite(value) and value == int(value)))


def _rows(contract: Contract, table: Mapping[str, Any], shown: int) -> Iterator[Warning]:
    told = table.get("row_count")
    count = told if isinstance(told, int) else shown
    if contract.min_rows is not None and count < contract.min_rows:
        yield broken(
            "too_few_rows",
            f"{count} rows, {contract.min_rows} is the least",
            "Look for a filter or an inner join that drops rows.",
            rows=count,
        )
    if contract.max_rows is not None and count > contract.max_rows:
        yield broken(
            "too_many_rows",
            f"{count} rows, {contract.max_rows} is the most",
            "Look for a join that repeats rows.",
            rows=count,
        )


def _unique(contract: Contract, names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Iterator[Warning]:
    if not contract.unique or any(name not in names for name in contract.unique):
        return
    keys = Counter(tuple(repr(row.get(name)) for name in contract.unique) for row in rows)
    repeated = [(key, count) for key, count in keys.items() if count > 1]
    if repeated:
        key, count = repeated[0]
        yield broken(
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
            yield broken(
                "null",
                f"column {name!r} has {len(missing)} missing values, the first in row {missing[0]}",
                "Look for an outer join or a conversion that failed.",
                column=name,
                rows=missing[:5],
            )


def _totals(
    contract: Contract, names: Sequence[str], rows: Sequence[Mapping[str, Any]], table: Mapping[str, Any]
) -> Iterator[Warning]:
    for total in contract.totals:
        if total.column not in names:
            continue
        values = [row.get(total.column) for row in rows]
        numbers = [v for v in values if isinstance(v, (int, float)) and not isinstance(v, bool)]
        if table.get("truncated"):
            yield broken(
                "total_unknown",
                f"the sum of {total.column!r} cannot be told: not all rows are here",
                "Print the sum in a run.",
            )
            continue
        found = math.fsum(numbers)
        if abs(found - total.value) > total.tolerance * max(1.0, abs(total.value)):
            share = f" ({found / total.value:.4g} times)" if total.value else ""
            yield broken(
                "total",
                f"the sum of {total.column!r} is {found:g} and not {total.value:g}{share}",
                "Rows were lost or count twice: compare the sums before and after each join and filter.",
                column=total.column,
                found=found,
                expected=total.value,
            )
