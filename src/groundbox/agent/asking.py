"""Checks a query in the sandbox that it ran in, between two runs of the conversation.

A check is a plain function in a thread; the sandbox belongs to an event loop. Each of its queries becomes a run there,
which leaves the program's variables alone. A few queries and seconds bound it, reading the schema included.

A query over files or DataFrames is often a step, such as a look at a few rows, and not the one that answers. What
takes a query for the whole answer is therefore left out, and so are notes: they are right less than half of the time,
or say what was not looked at.
"""

from __future__ import annotations

import asyncio
import importlib.util
import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final

from groundbox.agent.events import Box
from groundbox.check.sql.calibration import OF_THE_QUESTION
from groundbox.check.sql.live import SandboxDatabase
from groundbox.check.sql.query import NotTakenApart, parsed
from groundbox.errors import GroundboxError
from groundbox.execution import Execution, Warning

MOST_QUERIES: Final = 20
WALL_S: Final = 2.0
_GRACE_S: Final = 2.0
_CHANGES: Final = re.compile(r"\b(?:nextval|setval|setseed|write_log)\s*\(", re.IGNORECASE)
_OF_THE_ANSWER: Final = frozenset(
    {
        *OF_THE_QUESTION,
        *("sql.arbitrary_row", "sql.duplicates_by_join", "sql.outer_join", "sql.pattern_too_wide"),
    }
)
"""Findings that say nothing of a step: they take the query for the answer to the question."""


class NotAsked(GroundboxError):
    """The bounds of the check are reached, or nobody waits for it any more."""


class Aside:
    """A sandbox of an event loop, as a thread asks it.

    Attributes:
        asked: Queries that were sent.
    """

    def __init__(
        self, box: Box, loop: asyncio.AbstractEventLoop, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._box, self._loop, self._clock = box, loop, clock
        self._end = clock() + WALL_S
        self._stopped = False
        self._running: Future[Execution] | None = None
        self.asked = 0

    @property
    def left_s(self) -> float:
        """Seconds that are left, 0 or less when none are."""
        return self._end - self._clock()

    def run(self, source: str, *, wall_s: float, **options: Any) -> Execution:
        """Run one query on the loop, and wait for it.

        Raises:
            GroundboxError: It was not run, or failed as a run does.
        """
        if self._stopped or self.asked >= MOST_QUERIES or self.left_s <= 0:
            raise NotAsked("the bounds of the check are reached")
        self.asked += 1
        wall_s = min(wall_s, self.left_s)
        self._running = asyncio.run_coroutine_threadsafe(self._box.run(source, wall_s=wall_s, **options), self._loop)
        try:
            return self._running.result(wall_s + _GRACE_S)
        except TimeoutError:
            self.stop()
            raise NotAsked("the sandbox does not answer") from None

    def stop(self) -> None:
        """Ask nothing more, and end what runs."""
        self._stopped = True
        if self._running is not None:
            self._running.cancel()


def may_be_asked(source: str, dialect: str, took_s: float) -> bool:
    """Whether a query can be run again in passing: it is one, changes nothing, and took little of the check's time."""
    if importlib.util.find_spec("sqlglot") is None or took_s > WALL_S / 2 or _CHANGES.search(source):
        return False
    try:
        parsed(source, dialect)
    except (NotTakenApart, RecursionError):
        return False
    return True


def checked(
    check: Callable[..., Sequence[Warning]], source: str, aside: Aside, *, dialect: str, question: str
) -> list[Warning]:
    """What a check finds in a query that ran in a sandbox; in a thread."""
    database = SandboxDatabase(aside, dialect=dialect)
    database.schema_for(source)
    left, left_s = MOST_QUERIES - aside.asked, aside.left_s
    if left < 1 or left_s <= 0:
        return []
    found = check(source, database=database, question=question, max_queries=left, wall_s=left_s)
    return [warning for warning in found if warning.code not in _OF_THE_ANSWER and warning.tier != "note"]
