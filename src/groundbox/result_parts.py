"""Parts of a result that the trusted base makes: plain values, which `groundbox.execution` puts together."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

BINARY_MEDIA: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"})
_MOST_LOCALS: Final = 20


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """What a program failed with, told for the model that wrote it.

    Everything here comes from the guest and is a claim; the outcome is not.

    Attributes:
        type: Of the exception, such as `KeyError`; for limits and signals a word of ours, such as `Timeout`.
        message: What it said, without the type.
        line: Line of the program's own source, counted from 1, or None when no line of it failed.
        column: Column on that line, counted from 1, where the language tells it.
        traceback: Frames of the program only; the number of library frames left out is stated.
        locals: Names on the failing line and their values, each shortened to a few hundred characters.
        hints: Sentences that help to mend the failure. Found by rules, no model involved.
    """

    type: str
    message: str
    line: int | None = None
    column: int | None = None
    traceback: str = ""
    locals: Mapping[str, str] = dataclasses.field(default_factory=dict)
    hints: Sequence[str] = ()

    def __str__(self) -> str:
        """The traceback, the values on the failing line, and the hints, as a model is shown them."""
        lines = [self.traceback.rstrip()] if self.traceback else []
        if not self.traceback or f"{self.type}: {self.message}" not in self.traceback:
            where = f" (line {self.line})" if self.line and not self.traceback else ""
            lines.append(f"{self.type}: {self.message}{where}")
        if self.locals:
            known = [f"{name} = {value}" for name, value in self.locals.items()]
            more = [f"… {len(known) - _MOST_LOCALS} names more …"] if len(known) > _MOST_LOCALS else []
            lines.append("where " + "\n      ".join([*known[:_MOST_LOCALS], *more]))
        return "\n".join([*lines, *(f"hint: {hint}" for hint in self.hints)])


class Match(NamedTuple):
    """One line that a pattern was found in; `number` counts from 1."""

    number: int
    line: str
