"""The tables of a sandbox that a program works with: what it attached, made and has as DataFrames."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from groundbox.check.sql.query import NotTakenApart, Query, calls_named, key_candidates, names_in, parsed, repeats_query
from groundbox.check.sql.source import Column, QueryFailed, Rows, Schema, Table, quoted, schema_of
from groundbox.errors import GroundboxError, InvalidArgument

_TABLE: Final = "application/vnd.dataresource+json"
_DIALECTS: Final = ("duckdb", "sqlite")
_TIMEOUT_S: Final = 5.0
_MOST_ROWS: Final = 100
_COLUMNS: Final = {
    "duckdb": "SELECT column_name, column_type FROM (DESCRIBE SELECT * FROM {name})",
    "sqlite": "SELECT name, type FROM pragma_table_info({text})",
}


class SandboxDatabase:
    """A live sandbox's SQL with the files and DataFrames that a query names, or a database that it was given by name.

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
            # A database that was given by name speaks what its server speaks; that is not ours to judge.
            raise InvalidArgument("dialect", f"{dialect!r} is none of {' and '.join(map(repr, _DIALECTS))}")
        self.dialect = dialect
        # `aside`: what the checks ask leaves the program's `result` as it is.
        self._options = {"dialect": dialect, "aside": True} if database is None else {"database": database}
        self._sandbox = sandbox
        self._own = database is None
        self._schema: Schema | None = None
        self._calls: set[str] = set()

    def schema(self) -> Schema:
        """Its tables, read at the first use."""
        if self._schema is None:
            self._schema = schema_of(self)
        return self._schema

    def schema_for(self, sql: str) -> Schema:
        """Its tables and the files and DataFrames that a query names; up to 100 columns of each.

        Where nobody declared a key of what the query names, the data are asked which columns that it joins by are one.
        """
        if not self._own:
            return self.schema()
        try:
            tree = parsed(sql, self.dialect)
        except (NotTakenApart, RecursionError):
            return self.schema()
        # Kept, because what rules derive from the query has the call as a quoted name (see `query`).
        self._calls |= set(calls_named(tree))
        found = [table for name in names_in(tree) if (table := self._without_keys(name)) is not None]
        schema = Schema([*self.schema(), *found])
        return self._with_keys(sql, schema) if found else schema

    def _without_keys(self, name: str) -> Table | None:
        """Return what a name stands for, unless its keys are declared or it stands for nothing."""
        known = self.schema().table(name)
        # A view has columns in the schema but no keys: it is asked for as if it were a file.
        if known is None or known.is_view:
            columns = self._columns(name)
            return Table(name=name, columns=columns, declares=False) if columns else None
        declared = known.primary or known.unique or known.foreign
        return None if declared else dataclasses.replace(known, name=name, declares=False)

    def _columns(self, name: str) -> list[Column]:
        text = "'" + name.replace("'", "''") + "'"
        rows = self._asked(_COLUMNS[self.dialect].format(name=quoted(name), text=text), 2)
        return [Column(name=str(column), type=str(kind or "")) for column, kind in rows]

    def _with_keys(self, sql: str, schema: Schema) -> Schema:
        try:
            candidates = key_candidates(Query(sql, self.dialect, schema).selects)
        except (NotTakenApart, RecursionError):
            return schema
        keyed = {}
        for name, sets in candidates.items():
            table = schema.table(name)
            assert table is not None
            rows = self._asked(repeats_query(table, sets), len(sets))
            # What could not be asked counts as a key, so that no rule speaks of it.
            repeated = rows[0] if rows else [False] * len(sets)
            unique = [frozenset(columns) for columns, repeats in zip(sets, repeated, strict=True) if not repeats]
            keyed[name] = dataclasses.replace(table, unique=unique)
        return Schema([keyed.get(table.name.casefold(), table) for table in schema])

    def _asked(self, sql: str, width: int) -> list[tuple[Any, ...]]:
        try:
            answer = self.query(sql, max_rows=_MOST_ROWS, timeout_s=_TIMEOUT_S)
        except QueryFailed:
            return []
        return list(answer.rows) if len(answer.columns) == width else []

    def query(self, sql: str, *, max_rows: int, timeout_s: float) -> Rows:
        """See `groundbox.check.sql.source.Database`."""
        # `"read_csv('a.csv')"` goes back to the call that it stands for; as a name the engine would look for a file of
        # that name.
        for call in self._calls:
            sql = sql.replace(quoted(call), call)
        try:
            execution = self._sandbox.run(sql, language="sql", wall_s=timeout_s, **self._options)
        except GroundboxError as error:
            raise QueryFailed(str(error)) from error
        table = (execution.value or {}).get(_TABLE)
        if not execution.ok or table is None:
            raise QueryFailed(execution.error.message if execution.error else execution.outcome.value)
        try:
            names = [str(field["name"]) for field in table["schema"]["fields"]]
            rows = [tuple(row.get(name) for name in names) for row in table["data"]]
            return Rows(names, rows[:max_rows], not table["truncated"] and len(rows) <= max_rows)
        except (AttributeError, KeyError, TypeError):  # a program of the sandbox may answer in the engine's place
            raise QueryFailed("the sandbox's answer is no table") from None
