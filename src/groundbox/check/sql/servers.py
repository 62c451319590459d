"""A PostgreSQL or MySQL server, asked from the host with all guards of `groundbox.databases`."""

from __future__ import annotations

import dataclasses

from groundbox.check.sql.reading import schema_of
from groundbox.check.sql.schema import Schema
from groundbox.check.sql.source import QueryFailed, Rows
from groundbox.databases.database import Database
from groundbox.databases.servers import server_of
from groundbox.errors import GroundboxError
from groundbox.sandbox.portal import PORTAL


class ServerDatabase:
    """One database of a server; each query has a read-only transaction of its own."""

    def __init__(self, database: Database, dialect: str) -> None:
        self.dialect = dialect
        self._database = database
        self._schema: Schema | None = None

    def schema(self) -> Schema:
        """Its tables, read at the first use."""
        if self._schema is None:
            self._schema = schema_of(self)
        return self._schema

    def query(self, sql: str, *, max_rows: int, timeout_s: float) -> Rows:
        """See `groundbox.check.sql.source.Database`."""
        bounded = dataclasses.replace(self._database, max_rows=max_rows)
        try:
            answer = PORTAL.call(server_of(bounded).ask("database", bounded, sql, wall_s=timeout_s))
        except GroundboxError as error:
            raise QueryFailed(str(error)) from error
        if answer.failure is not None:
            raise QueryFailed(str(answer.failure["message"]))
        return Rows([field.name for field in answer.fields], [tuple(row) for row in answer.rows], answer.complete)
