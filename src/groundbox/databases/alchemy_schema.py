"""What SQLAlchemy's inspector tells of the schema that a role begins in: for cards, and names near a wrong one."""

from __future__ import annotations

import contextlib
import importlib
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

_MOST_TABLES: Final = 2000
_MOST_NAMED: Final = 20
_READ_CHARS: Final = 100_000
_WORD: Final = re.compile(r"\w+")


def columns_of(connection: Any, most: int) -> tuple[list[Sequence[Any]], bool]:
    """Rows as `groundbox.databases.servers.Server.schema` has them, and whether these are all."""
    sqlalchemy = importlib.import_module("sqlalchemy")
    inspector = sqlalchemy.inspect(connection)
    tables, views = _names(inspector)
    names = sorted([*tables, *views])
    asked = {"filter_names": names[:_MOST_TABLES]} if len(names) > _MOST_TABLES else {}
    kind = sqlalchemy.engine.reflection.ObjectKind.ANY
    found = {name: columns for (_, name), columns in inspector.get_multi_columns(kind=kind, **asked).items()}
    keys = _keys(inspector, asked)
    rows: list[Sequence[Any]] = [
        (name, name, name in views, None, column["name"], _type(connection, column["type"]), keys(name, column["name"]))
        for name in names
        for column in found.get(name, ())
    ]
    return rows[:most], len(rows) <= most and len(names) <= _MOST_TABLES


def known_to(connection: Any, sql: str) -> dict[str, list[str]]:
    """All tables, and the columns of those that a statement may name."""
    inspector = importlib.import_module("sqlalchemy").inspect(connection)
    tables, views = _names(inspector)
    known: dict[str, list[str]] = {name: [] for name in sorted([*tables, *views])}
    words = set(_WORD.findall(sql[:_READ_CHARS].casefold()))
    for name in [name for name in known if name.casefold() in words][:_MOST_NAMED]:
        with contextlib.suppress(Exception):  # a dialect is code of others; a hint less is no loss
            known[name] = [column["name"] for column in inspector.get_columns(name)]
    return known


def sample_of(url: Any, table: str, columns: Sequence[str], count: int) -> str | None:
    """A query for so many rows, in the words of the dialect; None where it has none to be found without a server."""
    sqlalchemy = importlib.import_module("sqlalchemy")
    named = [sqlalchemy.column(column) for column in columns]
    query = sqlalchemy.select(*named).select_from(sqlalchemy.table(table)).limit(count)
    try:
        dialect = url.get_dialect()(paramstyle="named")  # with others % would be doubled
        text = str(query.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))
    except Exception:  # a dialect is code of others
        return None
    return text


def _names(inspector: Any) -> tuple[set[str], set[str]]:
    views: set[str] = set()
    for told in (inspector.get_view_names, inspector.get_materialized_view_names):
        with contextlib.suppress(Exception):  # not every dialect has it, and each says so in its own way
            views |= set(told())
    return set(inspector.get_table_names()) - views, views


def _keys(inspector: Any, asked: dict[str, Any]) -> Any:
    """What makes the text of a column's keys."""
    primary: dict[str, Any] = {}
    foreign: dict[str, Any] = {}
    with contextlib.suppress(Exception):
        primary = {name: key or {} for (_, name), key in inspector.get_multi_pk_constraint(**asked).items()}
    with contextlib.suppress(Exception):
        foreign = {name: keys for (_, name), keys in inspector.get_multi_foreign_keys(**asked).items()}

    def told(table: str, column: str) -> Iterator[str]:
        if column in primary.get(table, {}).get("constrained_columns", ()):
            yield "primary key"
        for key in foreign.get(table, ()):
            for own, other in zip(key["constrained_columns"], key["referred_columns"], strict=False):
                if own == column:
                    yield f"-> {key['referred_table']}.{other}"

    return lambda table, column: ", ".join(told(table, column))


def _type(connection: Any, kind: Any) -> str:
    """In the server's words, where SQLAlchemy knows them."""
    try:
        return str(kind.compile(dialect=connection.dialect)).lower()
    except Exception:  # types without a word, and those of dialects that raise what they like
        return type(kind).__name__.lower()
