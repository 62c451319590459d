"""pandas tables as data: schema, first rows and the true size.

The form is a tabular data resource (specs.frictionlessdata.io) with `row_count`,
`column_count` and `truncated` added. A program's host can make a table of it
without reading HTML; a model reads the types.
"""

from __future__ import annotations

import math
import sys
from typing import Any, Final

MIME: Final = "application/vnd.dataresource+json"
ROWS: Final = 100
COLUMNS: Final = 100
CELL_CHARS: Final = 1000


def is_table(value: Any) -> bool:
    """Whether `value` is a DataFrame or a Series."""
    pandas: Any = sys.modules.get("pandas")
    return pandas is not None and issubclass(type(value), (pandas.DataFrame, pandas.Series))


def html(value: Any) -> str | None:
    """HTML of a Series, which pandas gives only for frames."""
    text = value.to_frame()._repr_html_() if value.ndim == 1 else value._repr_html_()
    return text if isinstance(text, str) else None


def data_resource(value: Any) -> dict[str, Any]:
    """The first rows and columns as records, with missing values as None."""
    frame = value.to_frame() if value.ndim == 1 else value
    row_count, column_count = frame.shape
    head = frame.iloc[:ROWS, :COLUMNS]
    index = _index_columns(head.index)
    columns = [(head.columns[i], head.iloc[:, i]) for i in range(head.shape[1])]
    names = unique([_name(label) for label, _ in index + columns])
    fields = [
        {"name": name, "type": type_name(series.dtype), "dtype": str(series.dtype)}
        for name, (_, series) in zip(names, index + columns, strict=True)
    ]
    cells = [[cell(item) for item in series.tolist()] for _, series in index + columns]
    schema: dict[str, Any] = {"fields": fields}
    if index:
        schema["primaryKey"] = names[: len(index)]
    return {
        "schema": schema,
        "data": [dict(zip(names, row, strict=True)) for row in zip(*cells, strict=True)],
        "row_count": row_count,
        "column_count": column_count,
        "truncated": row_count > ROWS or column_count > COLUMNS,
    }


def _index_columns(index: Any) -> list[tuple[Any, Any]]:
    """The index as columns; none for the plain 0, 1, 2…"""
    if type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1:
        return []
    levels = [index.get_level_values(i) for i in range(index.nlevels)]
    unnamed = ["index"] if len(levels) == 1 else [f"level_{i}" for i in range(len(levels))]
    return [(other if level.name is None else level.name, level) for level, other in zip(levels, unnamed, strict=True)]


def _name(label: Any) -> str:
    if isinstance(label, tuple):
        return " / ".join(str(part) for part in label)
    return str(label)


def unique(names: list[str]) -> list[str]:
    """The names, with a number after those that came before."""
    taken: set[str] = set()
    result = []
    for name in names:
        candidate, n = name, 1
        while candidate in taken:
            candidate, n = f"{name}.{n}", n + 1
        taken.add(candidate)
        result.append(candidate)
    return result


def type_name(dtype: Any) -> str:
    """A field type of tabular data resources for a dtype."""
    kind = getattr(dtype, "kind", "O")
    if str(dtype) in ("category", "object") or isinstance(kind, property):
        return "any"
    kinds = {"i": "integer", "u": "integer", "f": "number", "b": "boolean", "M": "datetime", "m": "duration"}
    return kinds.get(kind, "string" if str(dtype).startswith(("str", "large_string")) else "any")


def cell(item: Any) -> Any:
    """One value as JSON; long texts are cut, with their length."""
    if item is None or isinstance(item, bool):
        return item
    if isinstance(item, int):
        return int(item)
    if isinstance(item, float):
        return _number(item)
    if isinstance(item, str):
        return item if len(item) <= CELL_CHARS else f"{item[:CELL_CHARS]}… ({len(item)} characters)"
    if type(item).__name__ in ("NaTType", "NAType"):
        return None
    if hasattr(item, "isoformat"):
        return item.isoformat()
    text = str(item)
    return text if len(text) <= CELL_CHARS else f"{text[:CELL_CHARS]}… ({len(text)} characters)"


def _number(item: float) -> float | str | None:
    if math.isnan(item):
        return None
    return float(item) if math.isfinite(item) else str(item)
