"""Gathers what a schema card tells from a database: tables that the role may read, columns, keys, sizes, values."""

from __future__ import annotations

import dataclasses
from typing import Final

from groundbox.databases.answer import DatabaseUnavailable
from groundbox.databases.database import Database
from groundbox.databases.servers import server_of
from groundbox.guest.sql.card import ColumnCard, TableCard, examples_of

_MOST_COLUMNS: Final = 50_000
"""The card's own bounds: those of the database are for what a query gives."""
_SCHEMA_BYTES: Final = 16 * 1024 * 1024
_MOST_SAMPLED: Final = 40
_SAMPLE: Final = 3


async def describe(name: str, database: Database, *, wall_s: float | None = None) -> list[TableCard]:
    """Everything that the role may read. Sizes are the server's estimates.

    Raises:
        DatabaseUnavailable, RoleTooPowerful: As the server's `ask`.
    """
    server = server_of(database)
    room = dataclasses.replace(database, max_rows=_MOST_COLUMNS, max_bytes=max(database.max_bytes, _SCHEMA_BYTES))
    answer = await server.ask(name, room, server.SCHEMA, wall_s=wall_s)
    if answer.failure is not None:
        raise DatabaseUnavailable(name, f"its schema cannot be read: {answer.failure['message']}")
    tables: dict[str, list[list[object]]] = {}
    for row in answer.rows:
        tables.setdefault(str(row[0]), []).append(list(row))
    cards: list[TableCard] = []
    for reference, rows in tables.items():
        columns = [str(row[4]) for row in rows]
        samples: dict[str, list[str]] = {}
        if len(cards) < _MOST_SAMPLED:
            wanted = ", ".join(map(server.quoted, columns))
            sample = f"SELECT {wanted} FROM {reference} LIMIT {_SAMPLE}"
            seen = await server.ask(name, database, sample, wall_s=wall_s)
            samples = {column: examples_of(row[i] for row in seen.rows) for i, column in enumerate(columns)}
        _, called, is_view, estimate, *_ = rows[0]
        size = f"about {estimate} rows" if isinstance(estimate, int) and estimate >= 0 else "not counted"
        told = [ColumnCard(str(row[4]), str(row[5]), str(row[6] or ""), samples.get(str(row[4]), ())) for row in rows]
        cards.append(TableCard(str(called), "view" if is_view else "table", size, told))
    if not answer.complete:
        cards.append(TableCard("…", "tables", f"more than {_MOST_COLUMNS} columns in all, the rest left out", ()))
    return cards
