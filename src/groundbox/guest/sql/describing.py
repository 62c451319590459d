"""Gathers what a schema card tells from an engine: its tables, the DataFrames of cells, the files of the workdir."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final

from .card import ColumnCard, TableCard, examples_of
from .hints import files_of

_MOST_FILES: Final = 50
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
        if engine.reads(file):
            yield _file(engine, file)


def _file(engine: Any, file: str) -> TableCard:
    size = os.path.getsize(os.path.join(engine.workdir, file))
    reference = "'" + file.replace("'", "''") + "'"
    try:
        return _described(engine, reference, "file", {}, counted=size <= _COUNTED_BYTES)
    except Exception as error:  # a broken file ends the card of that file only; engines raise many kinds
        return TableCard(reference, "file", f"{size} bytes, cannot be read: {str(error).splitlines()[0][:100]}", ())


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
