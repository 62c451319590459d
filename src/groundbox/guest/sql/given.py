"""Rows that the host brought from a database, as a result like those of the engines in here."""

from __future__ import annotations

import importlib
import json
import os
from typing import Any, Final

from .result import Column, Result

_BINARY: Final = frozenset({"bytea", "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "geometry"})


class Given(Exception):
    """The host brought a failure.

    Attributes:
        failure: With the keys that cells use.
    """

    def __init__(self, failure: dict[str, Any]) -> None:
        super().__init__(failure["message"])
        self.failure = {"line": None, "traceback": failure["message"], "locals": {}, "hints": [], **failure}


def result_behind(descriptor: int) -> Result | dict[str, Any]:
    """The rows behind a descriptor, or a text as a bundle.

    Raises:
        Given: It is a failure.
    """
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        told = json.load(file)
    if "failure" in told:
        raise Given(told["failure"])
    if "text" in told:
        return {"text/plain": told["text"]}
    pandas: Any = importlib.import_module("pandas")
    columns = [Column(name, kind) for name, kind in told["columns"]]
    frame = pandas.DataFrame(told["rows"], columns=range(len(columns)))
    for position, column in enumerate(columns):
        frame.isetitem(position, _typed(frame.iloc[:, position], column.type))
    frame.columns = [column.name for column in columns]
    return Result(columns, frame, told["complete"], page="LIMIT and OFFSET")


def _typed(series: Any, kind: str) -> Any:
    """The values as pandas holds them; as texts where it cannot, such as a date of infinity."""
    pandas: Any = importlib.import_module("pandas")
    try:
        if kind.startswith(("numeric", "decimal")):
            return series.astype("float64")
        if kind in ("date", "datetime") or kind.startswith("timestamp"):
            return pandas.to_datetime(series, utc=True if kind.endswith("with time zone") else None, format="ISO8601")
        if kind in _BINARY:
            return series.map(lambda text: bytes.fromhex(text[2:]), na_action="ignore")
    except (ValueError, OverflowError):
        return series
    return series
