"""A mention before it is judged: what stands in the answer, and how it may be read."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from groundbox.check.answers.dates import Date
from groundbox.check.answers.report import Kind
from groundbox.check.english import Number


@dataclasses.dataclass(kw_only=True, slots=True)
class Found:
    """One mention.

    Attributes:
        start: Position in the visible text.
        numbers: Each way to read a number; empty for other kinds and for versions such as 1.2.3.
        pair: The two numbers of a fraction such as 45/50.
        bound: `about`, `over` or `under` where the answer says so, `<` and `>` where it writes so.
        unit: The word behind the number.
        verbatim: Whether it stands in a block that repeats an output.
        no_claim: Why it is no claim whatever was shown.
        excuse: Why it is no claim unless it was shown.
    """

    kind: Kind
    start: int
    end: int
    text: str
    numbers: Sequence[Number] = ()
    pair: tuple[Number, Number] | None = None
    percent: bool = False
    currency: bool = False
    ordinal: bool = False
    in_words: bool = False
    bound: str = ""
    unit: str = ""
    date: Date | None = None
    verbatim: bool = False
    no_claim: str = ""
    excuse: str = ""
