"""Hints: sentences that help to mend a failed statement, from what tables, variables and files there are."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from ..python.fault import either, listing, nearest
from . import spreadsheets
from .statement import Statement, unquoted

HINT_COUNT: Final = 5
_SHOWN: Final = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".parquet", ".xlsx", ".db", ".sqlite", ".gz")
_ONLY_BY_PYTHON: Final = (".xls", ".xlsm", ".xlsb", ".ods", ".docx", ".odt", ".pptx", ".pdf", ".html", ".xml", ".txt")
_IN_PYTHON: Final = (
    "A Python cell can read it into a DataFrame, which SQL can query by its name: "
    "pandas.read_csv('file.csv', encoding='cp1252'), or 'utf-16'."
)
_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte order marks. DuckDB's 'utf-16' is the one that begins with the lower byte."""
_HEAD_BYTES: Final = 4096
_MOST_FILES: Final = 200
_MOST_TABLES: Final = 20

Rule = Callable[[re.Match[str], Any, Statement], Iterator[str]]


def hints_for(message: str, engine: Any, statement: Statement) -> list[str]:
    """All hints for a failure of `statement`, at most 5."""
    found: list[str] = []
    for pattern, rule in _RULES:
        match = re.search(pattern, message)
        if match is not None:
            found += rule(match, engine, statement)
    return list(dict.fromkeys(found))[:HINT_COUNT]


def _unknown_table(match: re.Match[str], engine: Any, statement: Statement) -> Iterator[str]:
    if spreadsheets.is_name(match[1]):
        yield from _unknown_sheet(match[1], engine)
        return
    if _is_only_for_python(match[1], engine.workdir):
        yield (
            f"{match[1]} is there, and no file that SQL reads: those are CSV, TSV, JSON, Parquet and XLSX. "
            "A Python cell can read it into a DataFrame, which SQL can query by its name."
        )
    name = match[1].rpartition(".")[2] if not match[1].endswith(_SHOWN) else match[1]
    tables, frames, files = list(engine.tables()), list(engine.frames()), files_of(engine.workdir)
    stems = {os.path.splitext(file)[0]: file for file in files}
    close = nearest(name, [*tables, *frames, *files, *stems])
    if name in stems:
        close.insert(0, stems[name])
    if close:
        told = dict.fromkeys(f"'{stems.get(c, c)}'" if c in files or c in stems else c for c in close)
        yield f"Did you mean {either(list(told))}?"
    if name.casefold().endswith((".db", ".sqlite")) and engine.name == "DuckDB":
        yield "A file of SQLite is read with dialect=\"sqlite\": ATTACH 'file.db' AS f."
    yield from _what_there_is(tables, frames, files)


def _is_only_for_python(name: str, workdir: str) -> bool:
    ending = os.path.splitext(name)[1].casefold()
    return ending in _ONLY_BY_PYTHON and os.path.isfile(os.path.join(workdir, name))


def _unknown_sheet(name: str, engine: Any) -> Iterator[str]:
    place = spreadsheets.place_of(name, engine.workdir)
    if place is None or place.file not in files_of(engine.workdir):
        yield from _near_files(place.file if place else name, engine)
        return
    names = spreadsheets.sheets(os.path.join(engine.workdir, place.file))
    written = {each: spreadsheets.reference_to(spreadsheets.name_of(place.file, each)) for each in names}
    sheet = place.sheet or names[0]
    if sheet.casefold() in (each.casefold() for each in names):
        yield f"The sheet {sheet!r} of {place.file} is empty."
    elif close := nearest(sheet, names):
        yield f"Did you mean {either([written[each] for each in close])}?"
    yield f"The sheets of {place.file} are: {listing(names)}; '{place.file}#Name' is one of them."


def _what_there_is(tables: list[str], frames: list[str], files: list[str]) -> Iterator[str]:
    kinds = (("tables", tables), ("DataFrames", frames), ("files", files))
    told = [f"{kind} {listing(names)}" for kind, names in kinds if names]
    yield f"There are: {'; '.join(told)}." if told else "There are no tables, no DataFrames and no files of data yet."


def _unknown_file(match: re.Match[str], engine: Any, statement: Statement) -> Iterator[str]:
    yield from _near_files(match[1], engine)


def _near_files(name: str, engine: Any) -> Iterator[str]:
    files = files_of(engine.workdir)
    close = nearest(name, files)
    if close:
        yield f"Did you mean {either([repr(file) for file in close])}?"
    yield (
        f"Files of data in the working directory: {listing(files)}."
        if files
        else ("There is no file of data in the working directory.")
    )


def _unknown_column(match: re.Match[str], engine: Any, statement: Statement) -> Iterator[str]:
    name = unquoted(match[1].rpartition(".")[2] if match[1].count(".") == 1 else match[1])
    known = columns_of(engine, statement)
    close = nearest(name, dict.fromkeys(column for columns in known.values() for column in columns))
    if close:
        owners = [f"{c} of {' and '.join(t for t, columns in known.items() if c in columns)}" for c in close]
        yield f"Did you mean {either(owners)}?"
    for table, columns in known.items():
        yield f"The columns of {table} are: {listing(columns)}."


def _ambiguous(match: re.Match[str], engine: Any, statement: Statement) -> Iterator[str]:
    name = unquoted(match[1])
    owners = [table for table, columns in columns_of(engine, statement).items() if name in columns]
    if owners:
        yield f"`{name}` is a column of {' and of '.join(owners)}: write it with the table or its alias before it."


def _encoding(match: re.Match[str], engine: Any, statement: Statement) -> Iterator[str]:
    for name in map(unquoted, engine.words(statement.text)):
        path = os.path.join(engine.workdir, name)
        if name and os.path.isfile(path) and (found := encoding_of(path)) is not None:
            yield from _of_encoding(name, *found, engine)
            return
    yield f"The file is not UTF-8. {_IN_PYTHON}"


def _of_encoding(name: str, encoding: str, is_read: bool, engine: Any) -> Iterator[str]:
    is_duckdb = engine.name == "DuckDB"
    file = name.replace("'", "''")
    if not encoding:
        if is_duckdb:
            yield f"For a file of Western Europe, read_csv('{file}', encoding = 'latin-1') may read it."
        yield (
            "The file is not UTF-8. A Python cell can read it into a DataFrame, which SQL can query by its name: "
            f"pandas.read_csv({name!r}, encoding='cp1252'), or 'cp1251', 'shift_jis', 'gb18030'."
        )
    elif is_duckdb and is_read:
        yield f"The file is UTF-16: read_csv('{file}', encoding = 'utf-16')."
    else:
        yield (
            f"The file is {encoding.upper()}. A Python cell can read it into a DataFrame, which SQL can query by its "
            f"name: pandas.read_csv({name!r}, encoding={encoding!r})."
        )


def encoding_of(path: str) -> tuple[str, bool] | None:
    """The encoding of a file that is not UTF-8, "" if its bytes do not tell, and whether DuckDB reads it as UTF-16."""
    with open(path, "rb") as file:
        head = file.read(_HEAD_BYTES)
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding, mark == codecs.BOM_UTF16_LE
    even, odd = head[::2].count(0), head[1::2].count(0)
    if max(even, odd) * 8 > len(head):  # ASCII letters, commas and line ends have a zero byte
        return ("utf-16-le", True) if odd > even else ("utf-16-be", False)
    with open(path, "rb") as file:
        text = codecs.getincrementaldecoder("utf-8")()
        try:
            while part := file.read(1 << 20):
                text.decode(part)
        except UnicodeDecodeError:
            return "", False
    return None


def _not_latin(match: re.Match[str], engine: Any, statement: Statement) -> Iterator[str]:
    yield f"Files of Windows are in cp1252, which DuckDB does not read. {_IN_PYTHON}"


def _broken_csv(match: re.Match[str], engine: Any, statement: Statement) -> Iterator[str]:
    yield (
        "Some lines do not fit. read_csv('file.csv', header = true, null_padding = true) fills short ones; "
        "ignore_errors = true leaves out those that do not fit, and then says nothing of them: count the rows."
    )


def _text_aggregated(match: re.Match[str], engine: Any, statement: Statement) -> Iterator[str]:
    yield (f"{match[1]} takes numbers, and the column is text: TRY_CAST(column AS DOUBLE) gives NULL for what is none.")
    yield "For numbers such as 1.234,50: read_csv('file.csv', decimal_separator = ',', thousands = '.')."


def _closed(match: re.Match[str], engine: Any, statement: Statement) -> Iterator[str]:
    yield (
        "Queries reach files in the working directory, tables and DataFrames; nothing else. "
        "The configuration is fixed and extensions cannot be loaded."
    )


def _extension(match: re.Match[str], engine: Any, statement: Statement) -> Iterator[str]:
    if match[1] == "excel":
        yield "FROM 'file.xlsx' reads the first sheet of a file, and FROM 'file.xlsx#Name' the sheet of that name."
    else:
        yield "Extensions cannot be loaded here; a Python cell can read the data into a DataFrame, which SQL can query."


def _sheet_arguments(match: re.Match[str], engine: Any, statement: Statement) -> Iterator[str]:
    yield "read_xlsx takes the path and sheet = 'Name' here, both as plain texts; for more use pandas in a Python cell."


def _out_of_memory(match: re.Match[str], engine: Any, statement: Statement) -> Iterator[str]:
    yield "Select fewer columns or rows, aggregate first, or run with a larger memory_bytes."


_RULES: Final[tuple[tuple[str, Rule], ...]] = (
    (r"Table with name (.+?) does not exist", _unknown_table),
    (r"no such table: (.+)", _unknown_table),
    (r'No files found that match the pattern "(.+?)"', _unknown_file),
    (r'Referenced column "(.+?)" not found', _unknown_column),
    (r'does not have a column named "(.+?)"', _unknown_column),
    (r"no such column: (.+?)(?: - |$)", _unknown_column),
    (r"Ambiguous reference to column name (\"?.+?\"?) \(", _ambiguous),
    (r"ambiguous column name: (.+)", _ambiguous),
    (r"not utf-8 encoded|Invalid unicode|codec can't decode", _encoding),
    (r"File is not latin-1 encoded", _not_latin),
    (
        r"No function matches the given name and argument types '(sum|avg|median|stddev|mean)\(VARCHAR\)'",
        _text_aggregated,
    ),
    (r"(?s)^(?!.*not utf-8 encoded).*(?:CSV Error|Error when sniffing file|Error tokenizing data)", _broken_csv),
    (
        r"configuration has been locked|disabled (?:by|through) configuration|not authorized|authorization denied",
        _closed,
    ),
    (r"Macro read_xlsx\(\) does not support", _sheet_arguments),
    (r"exists in the (\w+) extension", _extension),
    (r"Out of Memory|out of memory|bad_alloc", _out_of_memory),
)


def columns_of(engine: Any, statement: Statement) -> dict[str, list[str]]:
    """The columns of the tables, DataFrames and files that a statement names, as they are named in a query."""
    tables, frames, files = engine.tables(), engine.frames(), set(files_of(engine.workdir))
    folded = {name.casefold(): name for name in (*tables, *frames)}
    found: dict[str, list[str]] = {}
    words = list(engine.words(statement.text))
    for name, frame in spreadsheets.read(words, engine.workdir).items():
        found[f"'{name}'"] = [str(column) for column in frame.columns]
    for word in words:
        name = unquoted(word)
        name = folded.get(name.casefold(), name)
        if name in found or len(found) >= _MOST_TABLES:
            continue
        if name in tables:
            found[name] = [column.name for column in engine.columns(tables[name])]
        elif name in frames:
            found[name] = [str(column) for column in frames[name].columns]
        elif word[:1] in "'\"" and name in files and not spreadsheets.is_name(name):
            found[f"'{name}'"] = [column.name for column in engine.columns(word)]
    return found


def files_of(workdir: str) -> list[str]:
    """Files of data in the workdir and one folder below, some hundred of them."""
    found = []
    for folder, folders, files in os.walk(workdir):
        below = os.path.relpath(folder, workdir)
        found += [
            os.path.normpath(os.path.join(below, file)) for file in sorted(files) if file.casefold().endswith(_SHOWN)
        ]
        if below != "." or len(found) >= _MOST_FILES:
            folders.clear()
    return found[:_MOST_FILES]
