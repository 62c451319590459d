"""One piece of evidence, before it is weighed, and what rules look at to find it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

from groundbox.check.sql.budget import Budget
from groundbox.check.sql.probes import Probes
from groundbox.check.sql.query import Query
from groundbox.check.sql.question import Question
from groundbox.check.sql.schema import Schema
from groundbox.check.sql.source import Rows


@dataclasses.dataclass(frozen=True, kw_only=True)
class Finding:
    """What a rule saw."""

    code: str
    message: str
    hint: str
    evidence: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(kw_only=True)
class Context:
    """What rules look at.

    Attributes:
        question: None when none was given.
    """

    query: Query
    schema: Schema
    budget: Budget
    question: Question | None

    @cached_property
    def rows(self) -> Rows | None:
        """What the query gives; None when it fails or was not run."""
        return self.budget.ask(self._sent, "the result of the query")

    @property
    def has_rows(self) -> bool:
        """Whether the result shows anything; of a query that was not run, it is taken to."""
        return self.rows is None or bool(self.rows.rows)

    @property
    def _sent(self) -> str:
        return self.query.text.rstrip().rstrip(";")

    @cached_property
    def probes(self) -> Probes:
        """Small questions about tables and columns."""
        return Probes(self.budget, self.query.dialect)


Rule = Callable[[Context], Iterator[Finding]]
