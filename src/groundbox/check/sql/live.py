"""The tables of a sandbox that a program works with: what it attached, made and has as DataFrames."""

from __future__ import annotations

from typing import Any, Final

from groundbox.check.sql.reading import schema_of
from groundbox.check.sql.schema import Schema
from groundbox.check.sql.source import QueryFailed, Rows
from groundbox.errors import GroundboxError, InvalidArgument

_TABLE: Final = "application/vnd.dataresource+json"
_DIALECTS: Final = ("duckdb", "sqlite")


class SandboxDatabase:
    """A live sandbox's SQL, or a database that it was given by name.

    Queries run between the program's own and leave its variables alone, `result` among them. No more than the 100 rows
    of a result come back. Tables that a query of the program makes later are seen by the next object, not by this one.
    """

    def __init__(self, sandbox: Any, *, dialect: str = "duckdb", database: str | None = None) -> None:
        """Args:
        sandbox: A `groundbox.Sandbox`.
        dialect: The engine, `duckdb` or `sqlite`; with `database`, what that speaks: `postgres` or `mysql`.
        database: The name of one of the sandbox's databases.

        Raises:
            InvalidArgument: There is no such engine.
        """
        if database is None and dialect not in _DIALECTS:
            raise InvalidArgument("dialect", f"{dialect!r} is none of {' and '.join(map(repr, _DIALECTS))}")
        self.dialect = dialect
        self._options = {"dialect": dialect, "aside": True} if database is None else {"database": database}
        self._sandbox = sandbox
        self._schema: Schema | None = None

    def schema(self) -> Schema:
        """Its tables, read at the first use."""
        if self._schema is None:
            self._schema = schema_of(self)
        return self._schema

    def query(self, sql: str, *, max_rows: int, timeout_s: float) -> Rows:
        """See `groundbox.check.sql.source.Database`."""
        try:
            execution = self._sandbox.run(sql, language="sql", wall_s=timeout_s, **self._options)
        except GroundboxError as error:
            raise QueryFailed(str(error)) from error
        table = (execution.value or {}).get(_TABLE)
        if not execution.ok or table is None:
            raise QueryFailed(execution.error.message if execution.error else execution.outcome.value)
        names = [str(field["name"]) for field in table["schema"]["fields"]]
        rows = [tuple(row.get(name) for name in names) for row in table["data"]]
        return Rows(names, rows[:max_rows], not table["truncated"] and len(rows) <= max_rows)
