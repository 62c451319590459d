"""What a translation asked, got and took: the key `translation` of its report."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from typing import Any

from groundbox.dataset.narrating import Proved
from groundbox.dataset.tally import spread
from groundbox.dataset.translation.item import Retold


@dataclasses.dataclass(kw_only=True)
class Counts:
    """Updated in place, item by item.

    Attributes:
        asked: Answers of the model, each counted once however often the work was interrupted.
        cached: Those of them that were given to an earlier process.
        accepted_when_mended: Items accepted, at first or repaired, without sentences that failed all the same.
        fell_back: Items told in prose because the endpoint refuses JSON of a schema.
        in_words: Items for which the model was asked for JSON and answered in words.
        read: Items whose claims the model read out of its own prose.
    """

    asked: int = 0
    cached: int = 0
    accepted_at_first: int = 0
    accepted_when_repaired: int = 0
    accepted_when_mended: int = 0
    rejected_when_repaired: int = 0
    fell_back: int = 0
    in_words: int = 0
    read: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    measures: dict[str, list[float]] = dataclasses.field(default_factory=lambda: defaultdict(list))

    def add(self, found: Retold, *, resumed: bool) -> None:
        """One more item; `resumed` if it was done by an earlier process."""
        accepted = found.lesson.drop is None
        self.asked += found.replies
        self.cached += found.replies if resumed else found.cached
        self.prompt_tokens += found.prompt_tokens
        self.completion_tokens += found.completion_tokens
        mended = bool(found.lesson.left_out)
        self.accepted_at_first += accepted and not found.repaired and not mended
        self.accepted_when_repaired += accepted and found.repaired and not mended
        self.accepted_when_mended += accepted and mended
        self.fell_back += found.fell_back
        self.in_words += found.in_words
        self.read += found.read
        self.rejected_when_repaired += found.repaired and not accepted
        self._measure("first", found.first)
        if accepted:
            self._measure("accepted", found.last)

    def report(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "asked": self.asked,
            "cached": self.cached,
            "accepted_at_first": self.accepted_at_first,
            "accepted_when_repaired": self.accepted_when_repaired,
            "accepted_when_mended": self.accepted_when_mended,
            "rejected_when_repaired": self.rejected_when_repaired,
            "fell_back": self.fell_back,
            "in_words": self.in_words,
            "read": self.read,
            "tokens": {"prompt": self.prompt_tokens, "completion": self.completion_tokens},
            **{
                name: {which: spread(self.measures[f"{name}/{which}"]) for which in ("first", "accepted")}
                for name in ("faithfulness", "coverage")
            },
        }

    def _measure(self, which: str, proved: Proved | None) -> None:
        if proved is not None:
            self.measures[f"faithfulness/{which}"].append(proved.faithfulness)
            self.measures[f"coverage/{which}"].append(proved.coverage)
