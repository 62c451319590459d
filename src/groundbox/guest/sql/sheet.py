"""One sheet of a workbook as a DataFrame, which sheets there are, and why there is none.

A workbook has kinds of cells and none of columns, so that a column is what its cells have in common: a blank makes no
floating number of a whole one or of a truth, a text such as NA is that text, as in CSV, and times among other values
are texts, because no type of an engine holds both.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib
import os
import zipfile
from collections.abc import Callable
from typing import Any, Final

LOOKED_AT_BYTES: Final = 8 * 1024 * 1024
"""A larger file is not read for a schema card."""
_LOOKED_AT_UNPACKED_BYTES: Final = 64 * 1024 * 1024
MOST_CELLS: Final = 10_000_000
"""Of a DataFrame, which has the empty cells between others, too."""
_BITS: Final = 64
_TIMES: Final = (datetime.datetime, datetime.time, datetime.timedelta)
_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED: Final = "EncryptedPackage".encode("utf-16-le")


class TooFar(Exception):
    """Few cells may stand in a sheet, and a table of all that lies between them is too large."""


def is_looked_at(path: str) -> bool:
    """Whether a workbook is small enough, also unpacked, to be read for a schema card; a broken one is."""
    if os.path.getsize(path) > LOOKED_AT_BYTES:
        return False
    try:
        with zipfile.ZipFile(path) as book:
            return sum(part.file_size for part in book.infolist()) <= _LOOKED_AT_UNPACKED_BYTES
    except (zipfile.BadZipFile, OSError, NotImplementedError):
        return True


def names(path: str) -> list[str]:
    """The names of a workbook's sheets, in their order, without those that only hold a chart; no sheet is read.

    openpyxl has no shorter way than its reader's own steps: a workbook comes with all its texts.
    """
    openpyxl: Any = importlib.import_module("openpyxl.reader.excel")
    reader = openpyxl.ExcelReader(path, read_only=True, data_only=True, keep_links=False)
    with contextlib.closing(reader.archive):
        reader.read_manifest()
        reader.read_workbook()
        return [
            str(sheet.name)
            for sheet, part in reader.parser.find_sheets()
            if part.target in reader.valid_files and "chartsheet" not in part.Type
        ]


def frame(path: str, name: str | None) -> Any:
    """The sheet of a name, or the first one; its first row names the columns.

    Raises:
        TooFar: It would have more than `MOST_CELLS`.
    """
    pandas: Any = importlib.import_module("pandas")
    with pandas.ExcelFile(path, engine="openpyxl") as book:
        named = book.sheet_names[0] if name is None and book.sheet_names else name
        if named is not None:
            _measure(book.book[named])
        made = book.parse(0 if name is None else name, dtype=object, keep_default_na=False, na_values=[""])
    for position in range(made.shape[1]):
        made.isetitem(position, _of_one_kind(made.iloc[:, position], pandas.to_numeric))
    return made


def _measure(sheet: Any) -> None:
    """The size that a sheet claims may be missing or too large; only then its rows are looked at."""
    if sheet.max_row and sheet.max_column and sheet.max_row * sheet.max_column <= MOST_CELLS:
        return
    sheet.reset_dimensions()
    rows = columns = 0
    for number, row in enumerate(sheet.iter_rows(values_only=True), 1):
        width = next((at for at in range(len(row), 0, -1) if row[at - 1] is not None), 0)
        if width:
            rows, columns = number, max(columns, width)
        if rows * columns > MOST_CELLS:
            raise TooFar(
                f"the cells of the sheet {sheet.title!r} reach to row {rows} and column {columns}, which is a table of "
                f"more than {MOST_CELLS} cells; delete those that stand far off, or read a part of it with openpyxl"
            )


def _of_one_kind(series: Any, to_numeric: Callable[[Any], Any]) -> Any:
    """A column as an engine can take it."""
    held = series.dropna()
    kinds, full = set(map(type, held)), len(held) == len(series)
    if kinds == {bool}:
        return series.astype("bool" if full else "boolean")
    if kinds == {int} and all(item.bit_length() < _BITS for item in held):
        return series.astype("int64" if full else "Int64")
    if kinds <= {int, float} and len(series):
        return to_numeric(series)
    if len(kinds) > 1 and kinds.intersection(_TIMES):
        return series.map(lambda item: str(item) if isinstance(item, _TIMES) else item)
    return series.infer_objects()


def fault(path: str, error: Exception) -> str:
    """Why a file cannot be read, by its first bytes where these say more than the reader."""
    with open(path, "rb") as file:
        head = file.read(64)
        if head.startswith(_OLE):
            if _ENCRYPTED in file.read():
                return "it is encrypted; save it without a password"
            return "it is a workbook of the older kind, XLS; save it as XLSX"
    if head[30:38] == b"mimetype":
        return "it is an OpenDocument; save it as XLSX"
    return str(error)
