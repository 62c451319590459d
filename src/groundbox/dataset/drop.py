"""A drop: what left the build, where, and why."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

WORKER_DIED: Final = "worker-died"
"""Reason for what ended its process each time that it was tried, alone, too."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Drop:
    """One item that is not in the dataset.

    Attributes:
        item: `problem/number of the case`, or `file:line` for a line that gave no problem.
        reason: One of a few fixed words, for counting.
        detail: What exactly was found, for people.
        facts: Values that show it, such as both outputs of a mismatch.
    """

    item: str
    problem: str
    stage: str
    reason: str
    detail: str = ""
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """A line of dropped.jsonl."""
        data = dataclasses.asdict(self)
        return {name: each for name, each in data.items() if each or name in ("item", "problem", "stage", "reason")}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Drop:
        """The drop of a line."""
        return cls(**data)
