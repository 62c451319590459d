"""Where a problem stands in its file, and what is made of that: its provenance, its name, its drops."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from groundbox.dataset.problem import Drop, Provenance

STAGE: Final = "parse"


class BadRow(ValueError):
    """A row that gives no problem.

    Attributes:
        reason: The word it is counted under.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclasses.dataclass(frozen=True, kw_only=True)
class Place:
    """A row of a file.

    Attributes:
        licence: Of the whole file, as the user states it; a row that states its own wins.
    """

    file: str
    line: int
    format: str
    licence: str = "not stated"

    @property
    def item(self) -> str:
        """Names the row."""
        return f"{self.file}:{self.line}"

    def provenance(self, details: Mapping[str, Any] | None = None) -> Provenance:
        """The provenance of what stands here."""
        found = dict(details or {})
        # Both spellings are in use.
        licence = found.pop("licence", None) or found.pop("license", None) or self.licence
        return Provenance(file=self.file, line=self.line, format=self.format, licence=_words(licence), details=found)

    def bad(self, reason: str, detail: str) -> Drop:
        """Make the drop of a row that gave no problem."""
        return Drop(item=self.item, problem="", stage=STAGE, reason=reason, detail=detail)

    def bad_case(self, problem: str, number: int, reason: str, detail: str) -> Drop:
        """Make the drop of a case that could not be read."""
        return Drop(item=f"{problem}/{number}", problem=problem, stage=STAGE, reason=reason, detail=detail)


def text_of(row: Mapping[str, Any], name: str, *, least: int = 0) -> str:
    """A text of a row, or BadRow."""
    value = row.get(name)
    if not isinstance(value, str):
        raise BadRow("bad-line", f"{name} is {type(value).__name__}, not a text")
    if len(value.strip()) < least:
        raise BadRow("bad-line", f"{name} is empty")
    return value


def list_of(row: Mapping[str, Any], name: str) -> list[Any]:
    """A list of a row, or BadRow."""
    value = row.get(name)
    if not isinstance(value, list):
        raise BadRow("bad-line", f"{name} is {type(value).__name__}, not a list")
    return value


def _words(licence: Any) -> str:
    return ", ".join(map(str, licence)) if isinstance(licence, list) else str(licence)
