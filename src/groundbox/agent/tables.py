"""A table as a model reads it: its shape, the type and the missing values of each column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from groundbox.agent.defusing import one_line

MIME: Final = "application/vnd.dataresource+json"
_MOST_COLUMNS: Final = 40


def about(bundle: Mapping[str, Any]) -> str:
    """Two lines on the table of a MIME bundle, or "" where there is none that can be read."""
    table = bundle.get(MIME)
    if not isinstance(table, Mapping):
        return ""
    fields = table.get("schema", {}).get("fields") if isinstance(table.get("schema"), Mapping) else None
    rows = table.get("data")
    if not isinstance(fields, list) or not isinstance(rows, list):
        return ""
    named = [field for field in fields if isinstance(field, Mapping) and isinstance(field.get("name"), str)]
    kept = [row for row in rows if isinstance(row, Mapping)]
    count = table.get("row_count")
    at_least = "" if table.get("row_count_exact", True) else "at least "
    whole = count == len(kept)
    shape = f"table, {at_least}{_count(count, 'row')} × {_count(table.get('column_count', len(named)), 'column')}"
    columns = ", ".join(_column(field, kept, whole=whole) for field in named[:_MOST_COLUMNS])
    more = f", and {len(named) - _MOST_COLUMNS} more" if len(named) > _MOST_COLUMNS else ""
    return f"{shape}\ncolumns: {columns}{more}"


def _column(field: Mapping[str, Any], rows: list[Mapping[str, Any]], *, whole: bool) -> str:
    name = field["name"]
    kind = field.get("sql_type") or field.get("dtype") or field.get("type") or "unknown"
    missing = sum(row.get(name) is None for row in rows)
    told = one_line(name)
    if not missing:
        return f"{told} ({kind})"
    return f"{told} ({kind}, {missing} null{'' if whole else f' in the first {len(rows)} rows'})"


def _count(number: Any, one: str) -> str:
    return f"{number} {one}" if number == 1 else f"{number} {one}s"
