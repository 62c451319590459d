"""A database file, opened inside a sandbox and never on the host.

The file may be hostile: engines have had faults that a crafted file reaches, and DuckDB's makers say that its SQL is
to be taken for a program. So a copy goes into a fresh sandbox without a network, a small reader opens it there
unchangeably, and what comes back is data that the host checks for its shape. The price is a copy: a file larger than
`MOST_BYTES` is refused, and a live sandbox or a server's URL is given instead.
"""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any, Final

from groundbox.check.sql.source import QueryFailed, Rows, Schema, schema_of
from groundbox.errors import GroundboxError, InvalidArgument
from groundbox.limits import Limits, MiB
from groundbox.sandbox.portal import Sandbox

MOST_BYTES: Final = 512 * MiB
# `bare` starts faster; DuckDB is no part of the standard library and comes with `science`.
_READERS: Final = {"sqlite": ("SQLiteReader", "bare"), "duckdb": ("DuckDBReader", "science")}
_OUTPUT_BYTES: Final = 32 * MiB
_MOST_VALUES: Final = 2_000_000
"""Each takes the host some thirty times the two characters that it can be written with."""
_MOST_FAILURE: Final = 2_000
_GRACE_S: Final = 1.0
_OPENING_S: Final = 10.0


class FileDatabase:
    """A database file in a sandbox of its own, which lives until it is closed."""

    def __init__(self, file: Path | bytes, dialect: str) -> None:
        """Args:
        file: Where it is, or all of it, as `Sandbox.files.read` gives it.
        dialect: `sqlite` or `duckdb`.

        Raises:
        InvalidArgument: There is no such file, it cannot be read, or it is too large to be copied.
        SandboxUnavailable: There is no sandbox on this host.
        """
        self.dialect = dialect
        content = file if isinstance(file, bytes) else _content(file)
        reader, profile = _READERS[dialect]
        # The copy is on a tmpfs, which the disk limit bounds; the rest is for what the engine writes itself.
        room = len(content) + 64 * MiB
        limits = Limits(disk_bytes=room, memory_bytes=room + 512 * MiB, output_bytes=_OUTPUT_BYTES, cpu_s=None)
        self._box = Sandbox(limits=limits, profile=profile, inspect=False)
        self._failure = ""
        self._schema: Schema | None = None
        try:
            self._box.files.write("database", content)
            # The reader is sent as text because nothing of groundbox can be imported inside the wall.
            text = resources.files("groundbox.check.sql").joinpath("in_sandbox.py").read_text(encoding="utf-8")
            opened = self._box.run(f"{text}\nreader = {reader}('database')", wall_s=_OPENING_S)
            if not opened.ok:
                self._failure = opened.error.message if opened.error else opened.outcome.value
        except BaseException:
            self._box.close()
            raise

    def __enter__(self) -> FileDatabase:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """End the sandbox."""
        self._box.close()

    def schema(self) -> Schema:
        """Its tables, read at the first use."""
        if self._schema is None:
            self._schema = schema_of(self)
        return self._schema

    def query(self, sql: str, *, max_rows: int, timeout_s: float) -> Rows:
        """See `Database`."""
        if self._failure:
            raise QueryFailed(self._failure)
        # `!r` of a str is a Python literal; whatever the SQL holds, it stays one argument.
        call = f"print(answer(reader, {sql!r}, {int(max_rows)}, {float(timeout_s)}))"
        try:
            execution = self._box.run(call, wall_s=timeout_s + _GRACE_S)
        except GroundboxError as error:
            self._failure = str(error)
            raise QueryFailed(self._failure) from error
        # The failure is remembered: later questions get it at once, and the budget is not spent on a dead sandbox.
        if execution.state != "kept":
            self._failure = "the sandbox that held the database was lost"
        if not execution.ok or execution.dropped_bytes.get("stdout"):
            raise QueryFailed(f"it ended with {execution.outcome.value}, or gave too much")
        return rows_of(execution.stdout, max_rows)


def rows_of(text: str, max_rows: int) -> Rows:
    """Return what the reader printed, which is not trusted to have any shape.

    Raises:
        QueryFailed: It is a failure, not of the reader's shape, or more than was asked for.
    """
    # Before it is parsed: each of these signs begins or separates a value.
    if len(text) > _OUTPUT_BYTES or sum(map(text.count, "[{,")) > _MOST_VALUES:
        raise QueryFailed("the reader's answer is too large")
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        raise QueryFailed("the reader's answer is not JSON") from None
    if not isinstance(told, dict):
        raise QueryFailed("the reader's answer is no object")
    if "failure" in told:
        raise QueryFailed(str(told["failure"])[:_MOST_FAILURE])
    columns, rows = told.get("columns"), told.get("rows")
    if not isinstance(columns, list) or not isinstance(rows, list):
        raise QueryFailed("the reader's answer has no rows")
    # The reader was told how many; one that sends more is no longer ours.
    if len(rows) > max_rows:
        raise QueryFailed(f"the reader's answer has {len(rows)} rows, and {max_rows} were asked for")
    if not all(isinstance(row, list) and len(row) == len(columns) and all(map(_is_plain, row)) for row in rows):
        raise QueryFailed("the reader's answer has rows of other shapes")
    return Rows([str(name) for name in columns], [tuple(row) for row in rows], bool(told.get("complete")))


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))


def _content(path: Path) -> bytes:
    try:
        if not path.is_file():
            raise InvalidArgument("database", f"{path} is no file")
        size = path.stat().st_size
        if size > MOST_BYTES:
            advice = "give a live sandbox that holds it, or an object of groundbox.check.sql.source.Database"
            raise InvalidArgument("database", f"{path} has {size} bytes, over {MOST_BYTES}; {advice}")
        return path.read_bytes()
    except OSError as error:
        raise InvalidArgument("database", f"{path}: {error.strerror}") from None
