"""Small questions about tables and columns, as queries in the database's dialect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from groundbox.check.sql.budget import Budget
from groundbox.check.sql.parts import sqlglot_module
from groundbox.check.sql.schema import Column, Kind, Schema

_MOST_VALUES: Final = 1000
_MOST_COLUMNS: Final = 40


class Probes:
    """Asks within a budget; every answer is None when that has ended."""

    def __init__(self, budget: Budget, dialect: str) -> None:
        self._budget, self._dialect = budget, dialect

    def name(self, name: str) -> str:
        """A name as an identifier."""
        text: str = sqlglot_module("expressions").to_identifier(name, quoted=True).sql(dialect=self._dialect)
        return text

    def literal(self, value: Any) -> str:
        """A constant."""
        text: str = sqlglot_module("expressions").convert(value).sql(dialect=self._dialect)
        return text

    def holds(self, table: str, column: str, values: Sequence[Any]) -> tuple[bool, bool, bool] | None:
        """Whether a column holds one of the texts: exactly, in any case, in any case and with blanks around it."""
        c, source = self.name(column), self.name(table)
        texts = ", ".join(self.literal(str(value)) for value in values)
        low = ", ".join(f"LOWER({self.literal(str(value))})" for value in values)
        bare = ", ".join(f"LOWER({self.literal(str(value).strip())})" for value in values)
        as_text = c if self._dialect in ("sqlite", "mysql") else f"CAST({c} AS VARCHAR)"
        row = self._row(
            f"SELECT EXISTS(SELECT 1 FROM {source} WHERE {as_text} IN ({texts})), "
            f"EXISTS(SELECT 1 FROM {source} WHERE LOWER({as_text}) IN ({low})), "
            f"EXISTS(SELECT 1 FROM {source} WHERE TRIM(LOWER({as_text})) IN ({bare}))",
            f"values of {table}.{column}",
        )
        return (bool(row[0]), bool(row[1]), bool(row[2])) if row else None

    def elsewhere(self, schema: Schema, value: str, but: tuple[str, str]) -> list[str]:
        """The other columns of texts that hold a text, in any case, as `table.column`."""
        places = [
            (table, column)
            for table in schema
            if not table.is_view
            for column in table.columns
            if column.kind in (Kind.TEXT, Kind.OTHER) and (table.name.casefold(), column.name.casefold()) != but
        ][:_MOST_COLUMNS]
        if not places:
            return []
        low = self.literal(value.casefold())
        asked = ", ".join(
            f"EXISTS(SELECT 1 FROM {self.name(table.name)} WHERE LOWER({self._text(column)}) = {low})"
            for table, column in places
        )
        row = self._row(f"SELECT {asked}", f"where else {value!r} stands")
        return [f"{t.name}.{c.name}" for (t, c), found in zip(places, row or (), strict=False) if found]

    def values(self, table: str, column: str) -> list[Any]:
        """Different values of a column, up to a thousand; none when there are more."""
        sql = f"SELECT DISTINCT {self.name(column)} FROM {self.name(table)}"
        answer = self._budget.ask(sql, f"values of {table}.{column}", max_rows=_MOST_VALUES)
        return [row[0] for row in answer.rows] if answer is not None and answer.complete else []

    def like(
        self, table: str, column: str, pattern: str, inner: str, *, any_case: bool = False
    ) -> tuple[int, int] | None:
        """How many rows a pattern finds, and how many of them are the text without the wildcards."""
        c = self.name(column)
        compared, wanted = (f"LOWER({c})", pattern.casefold()) if any_case else (c, pattern)
        row = self._row(
            f"SELECT COUNT(*), COALESCE(SUM(CASE WHEN LOWER({c}) = {self.literal(inner.casefold())} THEN 1 ELSE 0 "
            "END), 0) "
            f"FROM {self.name(table)} WHERE {compared} LIKE {self.literal(wanted)}",
            f"what {pattern!r} finds",
        )
        counts = [_whole(value) for value in row or ()]
        return (counts[0], counts[1]) if len(counts) == 2 and counts[0] is not None and counts[1] is not None else None

    def repeats(self, table: str, columns: Sequence[str]) -> bool | None:
        """Whether two rows of a table are alike in some columns."""
        names = ", ".join(map(self.name, columns))
        given = " AND ".join(f"{self.name(column)} IS NOT NULL" for column in columns)
        sql = f"SELECT 1 FROM {self.name(table)} WHERE {given} GROUP BY {names} HAVING COUNT(*) > 1"
        answer = self._budget.ask(sql, f"whether {table} repeats {names}", max_rows=1)
        return bool(answer.rows) if answer is not None else None

    def within(self, table: str, column: str, other: str, key: str) -> bool:
        """Whether a column has values, and each of them is in a column of another table."""
        c, k = self.name(column), self.name(key)
        row = self._row(
            f"SELECT COUNT({c}), COALESCE(SUM(CASE WHEN {c} IS NOT NULL AND {c} NOT IN "
            f"(SELECT {k} FROM {self.name(other)} WHERE {k} IS NOT NULL) THEN 1 ELSE 0 END), 0) "
            f"FROM {self.name(table)}",
            f"whether {table}.{column} refers to {other}.{key}",
        )
        return bool(row and _whole(row[0]) and _whole(row[1]) == 0)

    def size_of(self, sql: str, purpose: str) -> int | None:
        """How many rows a query gives."""
        found = self._budget.value(f"SELECT COUNT(*) FROM ({sql}) AS counted", purpose)
        return found if isinstance(found, int) else None

    def _row(self, sql: str, purpose: str) -> tuple[Any, ...] | None:
        answer = self._budget.ask(sql, purpose, max_rows=1)
        return answer.rows[0] if answer is not None and answer.rows else None

    def _text(self, column: Column) -> str:
        name = self.name(column.name)
        return name if self._dialect in ("sqlite", "mysql") else f"CAST({name} AS VARCHAR)"


def _whole(value: Any) -> int | None:
    """A count or a sum of counts; MySQL's sums are decimals, which come as texts."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return None
