"""The result of a proof: what was claimed, and what the trace says to it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from enum import StrEnum

from groundbox.trace.proof.claims import Kind


class Status(StrEnum):
    """What the trace says to a claim."""

    SUPPORTED = "supported"  # it holds, and here
    CONTRADICTED = "contradicted"  # it does not, and this is so instead
    UNSUPPORTED = "unsupported"  # nothing in the trace says so
    UNCHECKABLE = "uncheckable"  # the trace does not hold what it speaks of


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """One claim and what became of it.

    Attributes:
        quote: The words of the text that claim it.
        start: Where they begin in the text.
        end: Where they end.
        sentence: The number of the sentence.
        status: Whether it holds.
        step: The record that shows it, or shows the contrary; None where there is none.
        actual: What is so instead, as text; empty where that is not known.
        message: What is wrong, in a sentence that can be shown to whoever wrote the text; empty for what holds.
    """

    kind: Kind
    quote: str
    start: int
    end: int
    sentence: int
    status: Status
    step: int | None = None
    actual: str = ""
    message: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Told:
    """A sentence of the text.

    Attributes:
        start: Where it begins in the text.
        end: Where it ends.
        claims: How many claims it carries that could be checked.
    """

    start: int
    end: int
    claims: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Proof:
    """What a text claims about a run, checked.

    Attributes:
        faithful: No claim is contradicted or unsupported, at least one is supported, every given answer is exact,
            and the answer is told if one was asked for.
        faithfulness: Share of the checkable claims that are supported; 0 without any.
        sentence_coverage: Share of the sentences that carry a checkable claim.
        event_coverage: Share of the trace's changes, calls, returns, conditions, exceptions and outputs that a
            supported claim tells.
        answer: Whether the text gives the run's answer: True, False (another one), or None (it gives none).
        failed: What has to be mended, one message for each claim that fails.
    """

    sentences: Sequence[Told]
    verdicts: Sequence[Verdict]
    faithful: bool
    faithfulness: float
    sentence_coverage: float
    event_coverage: float
    answer: bool | None
    failed: Sequence[str]

    def count(self, status: Status) -> int:
        """How many claims have this status."""
        return sum(verdict.status is status for verdict in self.verdicts)
