"""XLSX for engines that do not know it: read into DataFrames, written from results, by pandas and openpyxl.

In a query `'book.xlsx'` is the first sheet and `'book.xlsx#Name'` the sheet of that name. A statement may hold such a
text without meaning a table, so that a file or a sheet that is not there is no failure here: the engine then misses
a table, and hints tell the sheets that there are.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from . import sheet as reading
from .result import Result
from .statement import unquoted

MOST_ROWS: Final = 1_048_575
"""A sheet's rows below the names of its columns."""
READER: Final = "read_xlsx"
"""DuckDB's own function, whose calls are answered without its extension."""
_SHEET: Final = re.compile(r"\.xlsx#", re.IGNORECASE)
_ONE_SHEET: Final = re.compile(r"'.*\.xlsx#[^.]*'", re.IGNORECASE)
Stamp = tuple[int, int, int]
"""What is another one when a file has changed."""
_READ: Final[dict[tuple[str, str | None], tuple[Stamp, Any]]] = {}
_NAMES: Final[dict[str, tuple[Stamp, list[str]]]] = {}


class SpreadsheetError(Exception):
    """A spreadsheet cannot be read or written as asked."""


class Export(NamedTuple):
    """`COPY … TO 'path.xlsx'`, taken apart."""

    query: str
    path: str


def export_of(words: Sequence[str]) -> Export | None:
    """What a statement exports to a spreadsheet, or None when it is no such statement.

    Raises:
        SpreadsheetError: It names a sheet, where a file would be written that is called so.
    """
    if not words or words[0].casefold() != "copy":
        return None
    depth = 0
    for position, word in enumerate(words):
        depth += (word == "(") - (word == ")")
        if depth == 0 and word.casefold() == "to" and position + 1 < len(words):
            target = words[position + 1]
            if _ONE_SHEET.fullmatch(target):
                raise SpreadsheetError(f"COPY writes a whole file, not a sheet of one: TO {target.partition('#')[0]}'")
            if target[:1] != "'" or not target[1:-1].casefold().endswith(".xlsx"):
                return None
            source = " ".join(words[1:position])
            query = source if source.startswith("(") else f"(SELECT * FROM {source})"
            return Export(f"SELECT * FROM {query}", target[1:-1].replace("''", "'"))
    return None


class Place(NamedTuple):
    """What a name in a query means: a sheet of a file of the workdir; None for the first one."""

    file: str
    sheet: str | None


def place_of(name: str, workdir: str) -> Place | None:
    """The sheet that a name means, whether it is there or not; None when it is no spreadsheet's."""
    found = _SHEET.search(name)
    if name.casefold().endswith(".xlsx") and (found is None or os.path.isfile(inside(name, workdir))):
        return Place(name, None)
    return None if found is None else Place(name[: found.end() - 1], name[found.end() :])


def is_name(name: str) -> bool:
    """Whether a name is one of a sheet."""
    return name.casefold().endswith(".xlsx") or _SHEET.search(name) is not None


def name_of(file: str, sheet: str | None) -> str:
    """What a sheet is called in a query."""
    return file if sheet is None else f"{file}#{sheet}"


def reference_to(name: str) -> str:
    """A name as it is written in a query."""
    return "'" + name.replace("'", "''") + "'"


def may_be_named(text: str) -> bool:
    """Whether a sheet could be named in a statement."""
    return "xlsx" in text.casefold()


def names_in(words: Sequence[str]) -> Iterator[str]:
    """The names of sheets among the tokens of a statement, also those that calls of `read_xlsx` mean."""
    for position, word in enumerate(words):
        before = [each.casefold() for each in words[max(0, position - 2) : position]]
        if before == [READER, "("]:
            yield from _called(words[position:])
        elif word[:1] in "'\"`[" and is_name(unquoted(word)):
            yield unquoted(word)


def _called(words: Sequence[str]) -> Iterator[str]:
    """The name that the arguments of a call mean, if they are plain texts."""
    if words[0][:1] != "'":
        return
    ended = list(words).index(")") if ")" in words else len(words)
    folded = [word.casefold() for word in words[:ended]]
    texts = [word for word in words[folded.index("sheet") : ended] if word[:1] == "'"] if "sheet" in folded else []
    yield name_of(unquoted(words[0]), unquoted(texts[0]) if texts else None)


def read(words: Sequence[str], workdir: str) -> dict[str, Any]:
    """The sheets that a statement names and that hold something, each as a DataFrame."""
    frames = {name: frame_of(name, workdir) for name in names_in(words)}
    return {name: frame for name, frame in frames.items() if frame is not None}


def frame_of(name: str, workdir: str) -> Any:
    """The sheet that a name means, the same DataFrame while the file is unchanged; None when there is nothing in it."""
    place = place_of(name, workdir)
    if place is None or not os.path.isfile(inside(place.file, workdir)):
        return None
    path, sheet = inside(place.file, workdir), place.sheet
    if sheet is not None:
        sheet = _spelled(sheet, sheets(path))
        if sheet is None:
            return None
    frame = _frame(path, sheet)
    return frame if frame.shape[1] else None


def frame_if_there(name: str, workdir: str) -> Any:
    """The same, and None when the file is broken, too: for a statement that does not name it."""
    try:
        return frame_of(name, workdir)
    except (SpreadsheetError, OSError):
        return None


def sheets(path: str) -> list[str]:
    """The names of a file's sheets, in their order; those that only hold a chart are none."""
    stamp = _stamp(path)
    known = _NAMES.get(path)
    if known is None or known[0] != stamp:
        with _telling(path):
            known = _NAMES[path] = stamp, reading.names(path)
    return known[1]


def _spelled(sheet: str, names: Sequence[str]) -> str | None:
    """The sheet's name as the file has it; like in Excel, upper and lower case are the same."""
    if sheet in names:
        return sheet
    return next((name for name in names if name.casefold() == sheet.casefold()), None)


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


def _stamp(path: str) -> Stamp:
    state = os.stat(path)
    return state.st_mtime_ns, state.st_ino, state.st_size


def _frame(path: str, sheet: str | None) -> Any:
    stamp = _stamp(path)
    known = _READ.get((path, sheet))
    if known is None or known[0] != stamp:
        with _telling(path):
            known = _READ[path, sheet] = stamp, reading.frame(path, sheet)
    return known[1]


@contextlib.contextmanager
def _telling(path: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # zipfile, openpyxl and pandas raise what they like at a broken file
        raise SpreadsheetError(f"{os.path.basename(path)}: {reading.fault(path, error)}") from error
