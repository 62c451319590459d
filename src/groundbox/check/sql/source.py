"""A database as the checks ask it: its dialect, its schema, and queries that only read, bounded in time and rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from groundbox.check.sql.schema import Schema


class Rows(NamedTuple):
    """What a query gave.

    Attributes:
        rows: Numbers, texts, booleans and None.
        complete: Whether these are all rows.
    """

    columns: Sequence[str]
    rows: Sequence[tuple[Any, ...]]
    complete: bool = True


class QueryFailed(Exception):
    """A query gave no rows: it is wrong, took too long, or the database cannot be asked."""


class Database(Protocol):
    """What `check_sql` needs of a database; whoever has a live one gives an object of these three.

    Attributes:
        dialect: sqlglot's name of it: `sqlite`, `duckdb`, `postgres`, `mysql`.
    """

    @property
    def dialect(self) -> str:
        """sqlglot's name of what it speaks."""

    def schema(self) -> Schema:
        """Its tables; empty where they cannot be read. Asked once for each check."""

    def query(self, sql: str, *, max_rows: int, timeout_s: float) -> Rows:
        """The first `max_rows` rows of one statement that reads. It must not change anything, whatever it is given.

        Raises:
            QueryFailed: There are no rows.
        """


@runtime_checkable
class Sourced(Protocol):
    """What a `Database` has besides when a query may name more than its tables, such as files."""

    def schema_for(self, sql: str) -> Schema:
        """Its tables and what else the query names. Asked once for each check, in place of `schema`."""
