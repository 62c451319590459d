"""What a database answered: rows as plain data, or a failure told for the model that wrote the query."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from groundbox.errors import GroundboxError


class DatabaseUnavailable(GroundboxError):
    """A database could not be asked, for a reason that is not the query's. No query ran.

    Attributes:
        name: What the sandbox calls it. Its address and its credentials are in no message.
    """

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"database {name!r}: {reason}")
        self.name = name
        self.reason = reason


class RoleTooPowerful(DatabaseUnavailable):
    """Its role could do more than read.

    Attributes:
        powers: What it could do, one sentence each.
    """

    def __init__(self, name: str, powers: Sequence[str]) -> None:
        super().__init__(
            name,
            f"refusing to ask it, because its role {'; '.join(powers)}. "
            "docs/sql.md has a script for a role that only reads; allow_powerful=True asks all the same.",
        )
        self.powers = list(powers)


class Field(NamedTuple):
    """One column, with its type in the server's words."""

    name: str
    type: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer:
    """One query's end.

    Attributes:
        rows: Numbers, texts, booleans and None.
        complete: Whether these are all rows.
        failure: With the keys of a guest's failure; None when there are rows.
        timed_out: Whether it was stopped at its time.
        powers: What the role could do beside reading; only with `allow_powerful`.
    """

    fields: Sequence[Field] = ()
    rows: Sequence[Sequence[Any]] = ()
    complete: bool = True
    failure: dict[str, Any] | None = None
    timed_out: bool = False
    powers: Sequence[str] = ()

    def encoded(self) -> bytes:
        """As JSON, for the guest."""
        if self.failure is not None:
            return json.dumps({"failure": self.failure}).encode()
        told = {"columns": [list(field) for field in self.fields], "rows": self.rows, "complete": self.complete}
        return json.dumps(told, separators=(",", ":")).encode()
