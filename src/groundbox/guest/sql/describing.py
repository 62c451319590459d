"""Gathers what a schema card tells from an engine: its tables, the DataFrames of cells, the files of the workdir."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final

from . import spreadsheets
from .card import ColumnCard, TableCard, examples_of
from .hints import files_of
from .spreadsheets import reference_to

_MOST_FILES: Final = 50
_MOST_SHEETS: Final = 50
_COUNTED_BYTES: Final = 64 * 1024 * 1024
_SAMPLE: Final = 3


def tables_of(engine: Any) -> Iterator[TableCard]:
    """Everything that a query can name."""
    for name, reference in engine.tables().items():
        yield _described(engine, reference, "table", engine.keys(name))
    for name, frame in engine.frames().items():
        columns = [
            ColumnCard(str(label), str(series.dtype), "", examples_of(series.head(_SAMPLE).tolist()))
            for label, series in frame.items()
        ]
        yield TableCard(name, "DataFrame", f"{len(frame)} rows", columns)
    for file in files_of(engine.workdir)[:_MOST_FILES]:
        if spreadsheets.is_name(file):
            yield from _sheets(engine, file)
        elif engine.reads(file):
            yield _file(engine, file)


def _sheets(engine: Any, file: str) -> Iterator[TableCard]:
    """Each sheet by the name that a query has for it; the first one's is the file's."""
    try:
        names = spreadsheets.sheets(os.path.join(engine.workdir, file))
    except spreadsheets.SpreadsheetError as error:
        yield _broken(engine, file, error)
        return
    is_read = engine.reads(file)
    for position, sheet in enumerate(names[:_MOST_SHEETS]):
        name = spreadsheets.name_of(file, sheet if position else None)
        kind = "sheet" if position else f"sheet {sheet}"
        yield _sheet(engine, name, kind) if is_read else TableCard(reference_to(name), kind, "not read", ())
    if len(names) > _MOST_SHEETS:
        yield TableCard(reference_to(f"{file}#…"), "sheets", f"{len(names) - _MOST_SHEETS} more", ())


def _sheet(engine: Any, name: str, kind: str) -> TableCard:
    try:
        there = spreadsheets.read([reference_to(name)], engine.workdir)
    except spreadsheets.SpreadsheetError as error:
        return _broken(engine, name, error, kind)
    return _file(engine, name, kind) if there else TableCard(reference_to(name), kind, "empty", ())


def _file(engine: Any, name: str, kind: str = "file") -> TableCard:
    path = os.path.join(engine.workdir, name)
    counted = kind != "file" or os.path.getsize(path) <= _COUNTED_BYTES
    try:
        return _described(engine, reference_to(name), kind, {}, counted=counted)
    except Exception as error:  # a broken file ends the card of that file only; engines raise many kinds
        return _broken(engine, name, error, kind)


def _broken(engine: Any, name: str, error: Exception, kind: str = "file") -> TableCard:
    told = f"cannot be read: {str(error).splitlines()[0][:100]}"
    if kind == "file":
        told = f"{os.path.getsize(os.path.join(engine.workdir, name))} bytes, {told}"
    return TableCard(reference_to(name), kind, told, ())


def _described(engine: Any, reference: str, kind: str, keys: dict[str, str], *, counted: bool = True) -> TableCard:
    columns = engine.columns(reference)
    rows = engine.connection.execute(f"SELECT * FROM {reference} LIMIT {_SAMPLE}").fetchall()
    size = "not counted"
    if counted:
        size = f"{engine.connection.execute(f'SELECT count(*) FROM {reference}').fetchone()[0]} rows"
    told = [
        ColumnCard(column.name, column.type, keys.get(column.name, ""), examples_of(row[i] for row in rows))
        for i, column in enumerate(columns)
    ]
    return TableCard(reference.strip('"') if reference.count('"') == 2 else reference, kind, size, told)
