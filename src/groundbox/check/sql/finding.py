"""Evidence before it is weighed, and what rules look at: the query, small questions to the database, a budget."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final

from groundbox.check.sql.parts import exp
from groundbox.check.sql.query import Query
from groundbox.check.sql.question import Question
from groundbox.check.sql.source import Database, Kind, QueryFailed, Rows, Schema
from groundbox.check.tiers import Finding as Finding  # rules take it from here


class Budget:
    """Asks until something runs out, and remembers what was not asked then.

    Attributes:
        asked: Queries that were sent.
        skipped: What was not looked at, in words, because the budget had ended.
    """

    def __init__(
        self,
        database: Database,
        *,
        max_queries: int,
        wall_s: float,
        max_rows: int,
    ) -> None:
        self._database, self._max_queries, self._max_rows = database, max_queries, max_rows
        self._end = time.monotonic() + wall_s
        self._known: dict[tuple[str, int], Rows | None] = {}
        self.asked = 0
        self.skipped: list[str] = []

    def ask(self, sql: str, purpose: str, *, max_rows: int | None = None) -> Rows | None:
        """The rows, or None when the query failed or the budget has ended; the latter is remembered by its purpose."""
        # A rule may ask for fewer rows than the caller allows, never for more.
        rows = min(max_rows or self._max_rows, self._max_rows)
        key = (sql, rows)
        # Also None: what failed once fails again, and several rules ask the same.
        if key in self._known:
            return self._known[key]
        left_s = self._end - time.monotonic()
        if self.asked >= self._max_queries or left_s <= 0:
            if purpose not in self.skipped:
                self.skipped.append(purpose)
            return None
        self.asked += 1
        try:
            answer = self._database.query(sql, max_rows=rows, timeout_s=left_s)
        except QueryFailed:
            answer = None
        # Databases are the caller's own objects and may give more than they were asked for.
        if answer is not None and len(answer.rows) > rows:
            answer = Rows(answer.columns, answer.rows[:rows], False)
        self._known[key] = answer
        return answer


_MOST_VALUES: Final = 1000
_MOST_COLUMNS: Final = 40


class Probes:
    """Asks within a budget; every answer is None when that has ended."""

    def __init__(self, budget: Budget, dialect: str) -> None:
        self._budget, self._dialect = budget, dialect

    def name(self, name: str) -> str:
        """A name as an identifier."""
        return str(exp.to_identifier(name, quoted=True).sql(dialect=self._dialect))

    def literal(self, value: Any) -> str:
        """A constant."""
        return str(exp.convert(value).sql(dialect=self._dialect))

    def holds(self, table: str, column: str, value: str) -> tuple[bool, bool, bool] | None:
        """Tell whether a column holds a text: exactly, in any case, in any case and with blanks around it."""
        as_text, source = self._text(column), self.name(table)
        text, bare = self.literal(value), self.literal(value.strip())
        # Both sides are folded by the engine: Python's and the engine's idea of small letters differ for Turkish and
        # others.
        row = self._row(
            f"SELECT EXISTS(SELECT 1 FROM {source} WHERE {as_text} IN ({text})), "
            f"EXISTS(SELECT 1 FROM {source} WHERE LOWER({as_text}) IN (LOWER({text}))), "
            f"EXISTS(SELECT 1 FROM {source} WHERE TRIM(LOWER({as_text})) IN (LOWER({bare})))",
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
            # One query for all columns, since each query counts; bounded, since a schema may have thousands.
        ][:_MOST_COLUMNS]
        if not places:
            return []
        low = self.literal(value.casefold())
        asked = ", ".join(
            f"EXISTS(SELECT 1 FROM {self.name(table.name)} WHERE LOWER({self._text(column.name)}) = {low})"
            for table, column in places
        )
        row = self._row(f"SELECT {asked}", f"where else {value!r} stands")
        return [f"{t.name}.{c.name}" for (t, c), found in zip(places, row or (), strict=False) if found]

    def values(self, table: str, column: str) -> list[Any]:
        """Different values of a column, up to a thousand; none when there are more."""
        sql = f"SELECT DISTINCT {self.name(column)} FROM {self.name(table)}"
        answer = self._budget.ask(sql, f"values of {table}.{column}", max_rows=_MOST_VALUES)
        # A part of a column's values would let a rule say that another one is not there.
        return [row[0] for row in answer.rows] if answer is not None and answer.complete else []

    def like(self, table: str, column: str, pattern: str, inner: str, *, any_case: bool) -> tuple[int, int] | None:
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
        """Tell whether two rows of a table are alike in some columns."""
        names = ", ".join(map(self.name, columns))
        # NULL is a group of its own in GROUP BY, and no repetition of anything.
        given = " AND ".join(f"{self.name(column)} IS NOT NULL" for column in columns)
        sql = f"SELECT 1 FROM {self.name(table)} WHERE {given} GROUP BY {names} HAVING COUNT(*) > 1"
        answer = self._budget.ask(sql, f"whether {table} repeats {names}", max_rows=1)
        return bool(answer.rows) if answer is not None else None

    def within(self, table: str, column: str, other: str, key: str) -> bool:
        """Tell whether a column has values, and each of them is in a column of another table."""
        c, k = self.name(column), self.name(key)
        row = self._row(
            f"SELECT COUNT({c}), COALESCE(SUM(CASE WHEN {c} IS NOT NULL AND {c} NOT IN "
            # One NULL in the list would make NOT IN hold for no row.
            f"(SELECT {k} FROM {self.name(other)} WHERE {k} IS NOT NULL) THEN 1 ELSE 0 END), 0) "
            f"FROM {self.name(table)}",
            f"whether {table}.{column} refers to {other}.{key}",
        )
        return bool(row and _whole(row[0]) and _whole(row[1]) == 0)

    def size_of(self, sql: str, purpose: str) -> int | None:
        """How many rows a query gives."""
        row = self._row(f"SELECT COUNT(*) FROM ({sql}) AS counted", purpose)
        return row[0] if row and isinstance(row[0], int) else None

    def _row(self, sql: str, purpose: str) -> tuple[Any, ...] | None:
        answer = self._budget.ask(sql, purpose, max_rows=1)
        return answer.rows[0] if answer is not None and answer.rows else None

    def _text(self, column: str) -> str:
        name = self.name(column)
        # SQLite and MySQL compare a number with a text; PostgreSQL and DuckDB refuse to.
        return name if self._dialect in ("sqlite", "mysql") else f"CAST({name} AS VARCHAR)"


def _whole(value: Any) -> int | None:
    """A count or a sum of counts; MySQL's sums are decimals, which come as texts."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return None


@dataclasses.dataclass(kw_only=True)
class Context:
    """Query, schema, budget and question, as rules look at them.

    Attributes:
        question: None when none was given.
    """

    query: Query
    schema: Schema
    budget: Budget
    question: Question | None

    @cached_property
    def rows(self) -> Rows | None:
        """Return what the query gives; None when it fails or was not run."""
        # `SELECT COUNT(*) FROM (…;)` does not parse.
        return self.budget.ask(self.query.text.rstrip().rstrip(";"), "the result of the query")

    @property
    def has_rows(self) -> bool:
        """Tell whether the result shows anything; of a query that was not run, it is taken to."""
        return self.rows is None or bool(self.rows.rows)

    @cached_property
    def probes(self) -> Probes:
        """Small questions about tables and columns."""
        return Probes(self.budget, self.query.dialect)


Rule = Callable[[Context], Iterator[Finding]]
