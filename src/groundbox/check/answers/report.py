"""Report of an answer's check: mentions, verdicts and supports, as values."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Any

from groundbox.execution import Warning


class Kind(enum.StrEnum):
    """Kind of a mention."""

    NUMBER = "number"
    DATE = "date"
    TEXT = "text"
    CODE = "code"
    FILE = "file"


class Verdict(enum.StrEnum):
    """Verdict on a mention."""

    EXACT = "exact"
    DERIVABLE = "derivable"
    UNSUPPORTED = "unsupported"
    GIVEN = "given"
    NO_CLAIM = "no_claim"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Support:
    """Where a mention comes from.

    Attributes:
        execution: Position in the executions that were given, from 0.
        part: `stdout`, `stderr`, `value`, `display 1`, `artifact` or `error`.
        where: The line, the cell of the table or the path.
        derivation: How it follows from what was shown there, empty when it stands there itself.
    """

    execution: int
    execution_id: str
    part: str
    where: str
    derivation: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Mention:
    """A number, date, text, code span or file name that the answer states.

    Attributes:
        text: As it stands in the answer.
        start: Position in the answer, in characters; `end` is behind the last one.
        support: None unless the verdict is `exact` or `derivable`.
        reason: Why it is no claim, or what was looked for in vain.
    """

    kind: Kind
    text: str
    start: int
    end: int
    verdict: Verdict
    support: Support | None = None
    reason: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class AnswerReport:
    """Statements of an answer, and where the runs show them.

    Attributes:
        mentions: In the order of the answer.
        warnings: One for each unsupported mention, and some about the answer as a whole.
        dropped: Counts of what was not looked at, by what it is; empty when all was.
    """

    mentions: Sequence[Mention]
    warnings: Sequence[Warning]
    dropped: dict[str, int] = dataclasses.field(default_factory=dict)

    @property
    def unsupported(self) -> list[Mention]:
        """The mentions that nothing shown supports."""
        return [mention for mention in self.mentions if mention.verdict is Verdict.UNSUPPORTED]

    @property
    def ok(self) -> bool:
        """Tell whether every claim that was found is supported and everything was looked at."""
        return not self.unsupported and not self.dropped

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "ok": self.ok,
            "mentions": [dataclasses.asdict(mention) for mention in self.mentions],
            "counts": {v.value: sum(m.verdict is v for m in self.mentions) for v in Verdict},
            "warnings": [dataclasses.asdict(warning) for warning in self.warnings],
            "dropped": dict(self.dropped),
        }
