"""From what `check_sql` is given to a database that it can ask."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from groundbox.check.sql.source import Database
from groundbox.databases.answer import DatabaseUnavailable
from groundbox.databases.database import SCHEMES
from groundbox.databases.database import Database as Server
from groundbox.errors import InvalidArgument

_FILES: Final = {"sqlite": "sqlite", "duckdb": "duckdb"}
_DIALECTS: Final = {"postgres": "postgres", "mysql": "mysql"}


@contextlib.contextmanager
def opened(database: Any) -> Iterator[Database]:
    """The database behind a URL, for as long as the block lasts; an object of the protocol is handed through.

    Raises:
        InvalidArgument: It is neither, or there is no such file.
        GroundboxError: It cannot be opened here.
    """
    if isinstance(database, Server):
        yield _server(database)
    elif isinstance(database, (str, Path)):
        with _of_url(str(database)) as found:
            yield found
    elif all(hasattr(database, name) for name in ("dialect", "schema", "query")):
        yield database
    else:
        raise InvalidArgument("database", f"must be a URL or have dialect, schema and query, not {database!r:.100}")


@contextlib.contextmanager
def _of_url(url: str) -> Iterator[Database]:
    scheme, separator, rest = url.partition("://")
    if separator and scheme in _FILES:
        from groundbox.check.sql.files import FileDatabase

        with FileDatabase(_path(rest), _FILES[scheme]) as found:
            yield found
    elif separator and scheme in SCHEMES:
        yield _server(Server(url=url))
    else:
        kinds = ", ".join(f"{kind}://" for kind in [*_FILES, *SCHEMES])
        raise InvalidArgument("database", f"must begin with one of {kinds}")


def _path(rest: str) -> Path:
    """`sqlite:////a/b` is /a/b and `sqlite:///a/b` is a/b here, or /a/b where there is no such file."""
    path = Path(rest.removeprefix("/") if rest.startswith("/") else rest)
    if not path.is_absolute() and not path.exists() and Path(rest).is_absolute():
        return Path(rest)
    return path


def _server(server: Server) -> Database:
    from groundbox.check.sql.servers import ServerDatabase

    kind = SCHEMES.get(server.url.partition("://")[0])
    if kind is None:
        raise DatabaseUnavailable("database", "checks ask PostgreSQL, MySQL and MariaDB, and no server by SQLAlchemy")
    return ServerDatabase(server, _DIALECTS[kind])
