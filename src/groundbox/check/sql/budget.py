"""How much a check may ask of a database: a number of queries, a time for all of them, rows for each."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from groundbox.check.sql.source import Database, QueryFailed, Rows


class Budget:
    """Asks until something runs out, and remembers what was not asked then.

    Attributes:
        asked: Queries that were sent.
        skipped: What was not looked at, in words, because the budget had ended.
        failed: Queries that gave no rows.
    """

    def __init__(
        self,
        database: Database,
        *,
        max_queries: int,
        wall_s: float,
        max_rows: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database, self._max_queries, self._max_rows = database, max_queries, max_rows
        self._clock, self._end = clock, clock() + wall_s
        self._known: dict[tuple[str, int], Rows | None] = {}
        self.asked = 0
        self.failed = 0
        self.skipped: list[str] = []

    def ask(self, sql: str, purpose: str, *, max_rows: int | None = None) -> Rows | None:
        """The rows, or None when the query failed or the budget has ended; the latter is remembered by its purpose."""
        rows = min(max_rows or self._max_rows, self._max_rows)
        key = (sql, rows)
        if key in self._known:
            return self._known[key]
        left_s = self._end - self._clock()
        if self.asked >= self._max_queries or left_s <= 0:
            self.leave(purpose)
            return None
        self.asked += 1
        try:
            answer = self._database.query(sql, max_rows=rows, timeout_s=left_s)
        except QueryFailed:
            self.failed += 1
            answer = None
        if answer is not None and len(answer.rows) > rows:
            answer = Rows(answer.columns, answer.rows[:rows], False)
        self._known[key] = answer
        return answer

    def leave(self, purpose: str) -> None:
        """Remember what is not looked at."""
        if purpose not in self.skipped:
            self.skipped.append(purpose)

    def value(self, sql: str, purpose: str) -> Any:
        """The first value of the first row, or None."""
        answer = self.ask(sql, purpose, max_rows=1)
        return answer.rows[0][0] if answer is not None and answer.rows and answer.rows[0] else None
