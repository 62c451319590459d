"""Databases behind what `check_sql` is given: a file, a server, an object of the protocol."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from groundbox.check.sql.source import Database, QueryFailed, Rows, Schema, schema_of
from groundbox.databases.answer import DatabaseUnavailable
from groundbox.databases.database import SCHEMES
from groundbox.databases.database import Database as Server
from groundbox.databases.servers import server_of
from groundbox.errors import GroundboxError, InvalidArgument
from groundbox.sandbox.portal import PORTAL


class ServerDatabase:
    """A database of a server; each query has a read-only transaction of its own."""

    def __init__(self, database: Server, dialect: str) -> None:
        self.dialect = dialect
        self._database = database

    def schema(self) -> Schema:
        """Its tables, asked for each time: one check asks once."""
        return schema_of(self)

    def query(self, sql: str, *, max_rows: int, timeout_s: float) -> Rows:
        """See `groundbox.check.sql.source.Database`."""
        # The server's own bound is the caller's; a check reads fewer rows and leaves that as it is.
        bounded = dataclasses.replace(self._database, max_rows=max_rows)
        try:
            answer = PORTAL.call(server_of(bounded).ask("database", bounded, sql, wall_s=timeout_s))
        except GroundboxError as error:
            raise QueryFailed(str(error)) from error
        if answer.failure is not None:
            raise QueryFailed(str(answer.failure["message"]))
        return Rows([field.name for field in answer.fields], [tuple(row) for row in answer.rows], answer.complete)


_FILES: Final = ("sqlite", "duckdb")
"""Schemes of files, which are their dialects, too."""


@contextlib.contextmanager
def opened(database: Any) -> Iterator[Database]:
    """The database behind a URL, for as long as the block lasts; an object of the protocol is handed through.

    Raises:
        InvalidArgument: It is neither, or there is no such file.
        GroundboxError: It cannot be opened here.
    """
    if isinstance(database, (str, Path)):
        scheme, separator, rest = str(database).partition("://")
        if separator and scheme in _FILES:
            from groundbox.check.sql.files import FileDatabase

            with FileDatabase(_path(rest), scheme) as found:
                yield found
            return
        if not separator or scheme not in SCHEMES:
            kinds = ", ".join(f"{kind}://" for kind in [*_FILES, *SCHEMES])
            raise InvalidArgument("database", f"must begin with one of {kinds}")
        database = Server(url=str(database))
    if isinstance(database, Server):
        dialect = SCHEMES.get(database.url.partition("://")[0])
        if dialect is None:
            told = "checks ask PostgreSQL, MySQL and MariaDB, and no server by SQLAlchemy"
            raise DatabaseUnavailable("database", told)
        yield ServerDatabase(database, dialect)
    # By attributes and not by class: tests and embedders bring objects of their own.
    elif all(hasattr(database, name) for name in ("dialect", "schema", "query")):
        yield database
    else:
        raise InvalidArgument("database", f"must be a URL or have dialect, schema and query, not {database!r:.100}")


def _path(rest: str) -> Path:
    """`sqlite:////a/b` is /a/b and `sqlite:///a/b` is a/b here, or /a/b where there is no such file."""
    # SQLAlchemy writes a relative path with three slashes and an absolute one with four; people write three for both.
    path = Path(rest.removeprefix("/") if rest.startswith("/") else rest)
    if not path.is_absolute() and not path.exists() and Path(rest).is_absolute():
        return Path(rest)
    return path
