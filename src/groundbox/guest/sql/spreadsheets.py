"""XLSX for engines that do not know it: read into DataFrames, written from results, by pandas and openpyxl."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from .result import Result

MOST_ROWS: Final = 1_048_575
"""A sheet's rows below the names of its columns."""
_READ: Final[dict[str, tuple[tuple[int, int], Any]]] = {}


class SpreadsheetError(Exception):
    """A spreadsheet cannot be read or written as asked."""


class Export(NamedTuple):
    """`COPY … TO 'path.xlsx'`, taken apart."""

    query: str
    path: str


def export_of(words: Sequence[str]) -> Export | None:
    """What a statement exports to a spreadsheet, or None when it is no such statement."""
    if not words or words[0].casefold() != "copy":
        return None
    depth = 0
    for position, word in enumerate(words):
        depth += (word == "(") - (word == ")")
        if depth == 0 and word.casefold() == "to" and position + 1 < len(words):
            target = words[position + 1]
            if target[:1] != "'" or not target[1:-1].casefold().endswith(".xlsx"):
                return None
            source = " ".join(words[1:position])
            query = source if source.startswith("(") else f"(SELECT * FROM {source})"
            return Export(f"SELECT * FROM {query}", target[1:-1].replace("''", "'"))
    return None


def read(words: Sequence[str], workdir: str) -> dict[str, Any]:
    """The spreadsheets that a statement names, each as a DataFrame of its first sheet; kept while unchanged."""
    found = {}
    for word in words:
        if word[:1] in "'\"" and word[1:-1].casefold().endswith(".xlsx"):
            path = inside(word[1:-1], workdir)
            if os.path.isfile(path):
                found[word[1:-1]] = _frame(path)
    return found


def write(result: Result, path: str, workdir: str) -> None:
    """Write all rows to a sheet of its own."""
    if not result.complete or len(result.frame) > MOST_ROWS:
        raise SpreadsheetError(f"a sheet holds {MOST_ROWS} rows, and there are more; write Parquet or CSV")
    frame = result.frame.copy(deep=False)
    for position, dtype in enumerate(frame.dtypes):
        if getattr(dtype, "tz", None) is not None:
            frame.isetitem(position, frame.iloc[:, position].dt.tz_localize(None))
    frame.to_excel(inside(path, workdir), index=False)


def inside(path: str, workdir: str) -> str:
    """The real path of a file in the workdir."""
    real = os.path.realpath(os.path.join(workdir, path))
    if real != workdir and not real.startswith(workdir.rstrip("/") + "/"):
        raise PermissionError(f"{path!r} is outside of the working directory")
    return real


def _frame(path: str) -> Any:
    state = os.stat(path)
    stamp = state.st_mtime_ns, state.st_size
    if path not in _READ or _READ[path][0] != stamp:
        pandas: Any = importlib.import_module("pandas")
        try:
            _READ[path] = stamp, pandas.read_excel(path)
        except Exception as error:  # zipfile, openpyxl and pandas raise what they like at a broken file
            raise SpreadsheetError(f"{os.path.basename(path)}: {error}") from error
    return _READ[path][1]
