"""Which module asks a database: one for each kind of server, all behind the same few names."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Protocol, cast

from groundbox.databases.answer import Answer
from groundbox.databases.database import SCHEMES, Database


class Server(Protocol):
    """What a module of one kind of server has.

    It keeps the promises of docs/sql.md by means of the server, not by reading the query: a read-only transaction, one
    statement, a time after which the server ends it, no more rows and bytes than asked for, an end on the server when
    the caller goes away, and a look at what the role could do beside reading. What a module cannot keep, as that for
    SQLAlchemy's dialects, it tells among the powers of each answer.
    """

    async def ask(self, name: str, database: Database, sql: str, *, wall_s: float | None = None) -> Answer:
        """Run one statement that reads; see `groundbox.databases.postgres.ask`."""

    async def schema(self, name: str, database: Database, *, wall_s: float | None = None) -> Answer:
        """The columns that the role may read, in the order of their tables.

        Each row has what `sample` calls the table, its name for people, whether it is a view, about how many rows it
        has, the column, its type, its key.
        """

    def sample(self, database: Database, table: str, columns: Sequence[str], count: int) -> str | None:
        """A query for so many rows of a table; None where there is no way to write one."""


def server_of(database: Database) -> Server:
    """The module for a database's kind of server."""
    scheme = database.url.partition("://")[0]
    return cast("Server", importlib.import_module(f"groundbox.databases.{SCHEMES.get(scheme, 'alchemy')}"))
