"""Gathers what a schema card tells from a database: tables that the role may read, columns, keys, sizes, values."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from groundbox.databases.answer import Answer, DatabaseUnavailable
from groundbox.databases.database import Database
from groundbox.databases.servers import server_of
from groundbox.guest.sql.card import ColumnCard, TableCard, examples_of

_MOST_COLUMNS: Final = 50_000
"""The card's own bounds: those of the database are for what a query gives."""
_SCHEMA_BYTES: Final = 16 * 1024 * 1024
_MOST_SAMPLED: Final = 40
_SAMPLE: Final = 3
_EXAMPLE_CHARS: Final = 1000
"""Of each value that is held for a card, which shows fewer; a value may be as large as a row."""
_SHARE: Final = 0.25
"""Of the time of a description, for the values of one table."""


class Described(NamedTuple):
    """What a card is made of.

    Attributes:
        powers: What the role could do beside reading; only with `allow_powerful`.
    """

    tables: Sequence[TableCard]
    powers: Sequence[str]


async def describe(name: str, database: Database, *, wall_s: float | None = None) -> Described:
    """Everything that the role may read. Sizes are the server's estimates.

    All of it takes no longer than one query may. When that time is over, what is still asked is ended on the server,
    and the tables whose values were not come to are told without them.

    Args:
        wall_s: Less time than the database's own, if it is less.

    Raises:
        DatabaseUnavailable, RoleTooPowerful: As the server's `ask`; or the time was over before the schema was read.
    """
    time_s = min(database.timeout_s, wall_s or database.timeout_s)
    end = asyncio.get_running_loop().time() + time_s
    answer = await _schema(name, database, time_s)
    tables: dict[str, list[Sequence[object]]] = {}
    for row in answer.rows:
        tables.setdefault(str(row[0]), []).append(row)
    cards: list[TableCard] = []
    cut = 0
    for table, rows in tables.items():
        samples: dict[str, list[str]] | None = {}
        if len(cards) < _MOST_SAMPLED:
            samples = await _samples(name, database, table, [str(row[4]) for row in rows], time_s, end)
        cut += samples is None
        cards.append(_card(rows, samples or {}))
    if cut:
        which = "1 table" if cut == 1 else f"{cut} tables"
        cards.append(TableCard("…", "values", f"those of {which} left out, because of the time of {time_s:g} s", ()))
    if not answer.complete:
        cards.append(TableCard("…", "tables", f"more than {_MOST_COLUMNS} columns in all, the rest left out", ()))
    return Described(cards, answer.powers)


async def _schema(name: str, database: Database, time_s: float) -> Answer:
    room = dataclasses.replace(database, max_rows=_MOST_COLUMNS, max_bytes=max(database.max_bytes, _SCHEMA_BYTES))
    try:
        async with asyncio.timeout(time_s):
            answer = await server_of(database).schema(name, room, wall_s=time_s)
    except TimeoutError:
        answer = Answer(timed_out=True)
    if answer.timed_out:
        raise DatabaseUnavailable(name, f"its schema could not be read within {time_s:g} s")
    if answer.failure is not None:
        raise DatabaseUnavailable(name, f"its schema cannot be read: {answer.failure['message']}")
    return answer


async def _samples(
    name: str, database: Database, table: str, columns: Sequence[str], time_s: float, end: float
) -> dict[str, list[str]] | None:
    """Some values of each column; None when time did not allow it. A view that takes long leaves time for others."""
    server = server_of(database)
    left_s = min(end - asyncio.get_running_loop().time(), _SHARE * time_s)
    if left_s <= 0:
        return None
    sample = server.sample(database, table, columns, _SAMPLE)
    if sample is None:
        return {}
    try:
        async with asyncio.timeout(left_s):
            seen = await server.ask(name, database, sample, wall_s=left_s)
    except TimeoutError:
        return None
    if seen.timed_out:
        return None
    return {
        column: [value[:_EXAMPLE_CHARS] for value in examples_of(row[i] for row in seen.rows)]
        for i, column in enumerate(columns)
    }


def _card(rows: Sequence[Sequence[object]], samples: Mapping[str, Sequence[str]]) -> TableCard:
    _, called, is_view, estimate, *_ = rows[0]
    size = f"about {estimate} rows" if isinstance(estimate, int) and estimate >= 0 else "not counted"
    told = [ColumnCard(str(row[4]), str(row[5]), str(row[6] or ""), samples.get(str(row[4]), ())) for row in rows]
    return TableCard(str(called), "view" if is_view else "table", size, told)
