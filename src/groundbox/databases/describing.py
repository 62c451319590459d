"""Gathers what a schema card tells from a database: tables that the role may read, columns, keys, sizes, values."""

from __future__ import annotations

from typing import Final

from groundbox.databases import postgres
from groundbox.databases.answer import DatabaseUnavailable
from groundbox.databases.database import Database
from groundbox.guest.sql.card import ColumnCard, TableCard, examples_of

_MOST_SAMPLED: Final = 40
_SAMPLE: Final = 3
_COLUMNS: Final = """
SELECT pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(c.relname) AS reference,
       CASE WHEN n.nspname = ANY (pg_catalog.current_schemas(false)) THEN '' ELSE n.nspname || '.' END || c.relname,
       c.relkind IN ('v', 'm'), c.reltuples::bigint, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod),
       (SELECT string_agg(CASE k.contype WHEN 'p' THEN 'primary key' ELSE
               '-> ' || k.confrelid::regclass || '.' || (SELECT f.attname FROM pg_catalog.pg_attribute f
               WHERE f.attrelid = k.confrelid AND f.attnum = k.confkey[array_position(k.conkey, a.attnum)]) END, ', ')
        FROM pg_catalog.pg_constraint k
        WHERE k.conrelid = c.oid AND k.contype IN ('p', 'f') AND a.attnum = ANY (k.conkey))
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'
  AND pg_catalog.has_column_privilege(c.oid, a.attnum, 'SELECT')
ORDER BY 1, a.attnum
"""


async def describe(name: str, database: Database, *, wall_s: float | None = None) -> list[TableCard]:
    """Everything that the role may read. Sizes are the server's estimates.

    Raises:
        DatabaseUnavailable, RoleTooPowerful: As `postgres.ask`.
    """
    answer = await postgres.ask(name, database, _COLUMNS, wall_s=wall_s)
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
            wanted = ", ".join('"' + column.replace('"', '""') + '"' for column in columns)
            seen = await postgres.ask(
                name, database, f"SELECT {wanted} FROM {reference} LIMIT {_SAMPLE}", wall_s=wall_s
            )
            samples = {column: examples_of(row[i] for row in seen.rows) for i, column in enumerate(columns)}
        _, called, is_view, estimate, *_ = rows[0]
        size = f"about {estimate} rows" if isinstance(estimate, int) and estimate >= 0 else "not counted"
        told = [ColumnCard(str(row[4]), str(row[5]), str(row[6] or ""), samples.get(str(row[4]), ())) for row in rows]
        cards.append(TableCard(str(called), "view" if is_view else "table", size, told))
    return cards
