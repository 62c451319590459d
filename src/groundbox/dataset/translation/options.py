"""The arguments of a translation."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Final

from groundbox.dataset.translation import prompts
from groundbox.dataset.translation.translator import TELLINGS
from groundbox.errors import InvalidArgument

VERSION: Final = 2
"""Of what a translation writes, prompts included; parts of another version are not mixed in."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TranslateOptions:
    """Requests to a model, and which of its narrations are taken.

    Attributes:
        model: Its name, as the endpoint knows it.
        prompt: One of `groundbox.dataset.translation.prompts.STYLES`.
        tells: One of `groundbox.dataset.translation.translator.TELLINGS`: sentences with their claims, prose, or prose
            that the model then reads itself.
        request: Further keys of every request, such as `temperature`.
        least_coverage: Share of a narration's sentences that have to say something that can be checked.
        max_trace_chars: Longest trace that is shown to the model; a longer one costs much and is seldom followed.
        proof_cpu_s: Processor seconds of our own for one proof.
        limit: Items that are translated, the first ones; None for all. No part of `arguments`: it can be raised later.
        at_once: Requests that wait for an answer at the same time. No part of `arguments`.
    """

    model: str
    prompt: str = prompts.STYLES[0]
    tells: str = TELLINGS[0]
    request: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    least_coverage: float = 0.5
    max_trace_chars: int = 60_000
    proof_cpu_s: float = 30.0
    limit: int | None = None
    at_once: int = 16

    def __post_init__(self) -> None:
        if self.prompt not in prompts.STYLES:
            raise InvalidArgument("prompt", f"{self.prompt!r} is none of {', '.join(prompts.STYLES)}")
        if self.tells not in TELLINGS:
            raise InvalidArgument("tells", f"{self.tells!r} is none of {', '.join(TELLINGS)}")
        if not 0 <= self.least_coverage <= 1:
            raise InvalidArgument("least_coverage", f"must be from 0 to 1, not {self.least_coverage!r}")
        for name in ("max_trace_chars", "limit", "at_once"):
            given = getattr(self, name)
            if given is not None and given < 1:
                raise InvalidArgument(name, f"must be 1 or more, not {given!r}")
        if taken := sorted({"model", "messages", "stream", "n", "response_format"} & self.request.keys()):
            raise InvalidArgument("request", f"{', '.join(taken)} cannot be set")
        try:
            json.dumps(self.request, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InvalidArgument("request", f"it cannot be written as JSON: {error}") from None

    def arguments(self) -> dict[str, Any]:
        """All that decides what is written, as JSON values."""
        data = dataclasses.asdict(self)
        # Neither changes what is written for an item: a translation can go on with more items, or more slowly.
        del data["limit"], data["at_once"]
        return {**data, "version": VERSION}
