"""The arguments of a build that decide what it writes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from groundbox.dataset import deduplication, files
from groundbox.dataset.item_runs import RunLimits
from groundbox.dataset.narration import STYLES
from groundbox.dataset.problems.reading import FORMATS
from groundbox.dataset.selection import Shares, Taste
from groundbox.dataset.tasks.registry import TASKS
from groundbox.errors import InvalidArgument
from groundbox.trace_options import TraceOptions

VERSION: Final = 3
"""Of what a build writes; parts of another version are not mixed in."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """Inputs of a build, and what is made of them.

    Attributes:
        problems: Files and folders, in the order in which their items are written.
        format: Of all of them; None lets each line say.
        licences: Licence by file name, where the lines state none.
        benchmarks: Files that no sample may come from.
        cases: Most cases of one problem, None for all.
        made_inputs: Inputs that are made for a problem that has none.
        smaller_runs: Runs that are made at most to find a smaller input for a run that is too long to be told whole;
            with 0 none is looked for, and such runs are told in part.
        samples_per_item: Most questions about one item.
        seed: Of every choice.
        max_chars: Longest telling.
        lesson_cpu_s: Processor seconds of our own that one item may take to be told, proven and asked about.
    """

    problems: tuple[Path, ...]
    format: str | None = None
    licences: Mapping[str, str] = dataclasses.field(default_factory=dict)
    benchmarks: tuple[Path, ...] = ()
    cases: int | None = None
    made_inputs: int = 5
    smaller_runs: int = 40
    tasks: tuple[str, ...] = TASKS
    styles: tuple[str, ...] = STYLES
    samples_per_item: int = 3
    seed: int = 0
    max_chars: int = 12_000
    lesson_cpu_s: float = 30.0
    patience: RunLimits = dataclasses.field(default_factory=RunLimits)
    trace: TraceOptions = dataclasses.field(default_factory=TraceOptions)
    taste: Taste = dataclasses.field(default_factory=Taste)
    shares: Shares = dataclasses.field(default_factory=Shares)
    near_duplicate: float = deduplication.NEAR_DUPLICATE
    containment: float = deduplication.CONTAINMENT

    def __post_init__(self) -> None:
        _among("format", [self.format] if self.format else [], FORMATS)
        _among("tasks", self.tasks, TASKS)
        _among("styles", self.styles, STYLES)
        for name in ("near_duplicate", "containment"):
            if not 0 < getattr(self, name) <= 1:
                raise InvalidArgument(name, f"must be above 0 and at most 1, not {getattr(self, name)!r}")
        for path in (*self.problems, *self.benchmarks):
            if not path.exists():
                raise InvalidArgument("problems" if path in self.problems else "benchmark", f"{path} does not exist")

    def arguments(self) -> dict[str, Any]:
        """All of it as JSON, inputs by name and digest: the same arguments make the same dataset."""
        data = dataclasses.asdict(self)
        # By name and digest and not by path: the same files elsewhere make the same dataset, and a changed file another
        # one.
        data["problems"] = [_named(path) for path in self.problems]
        data["benchmarks"] = [_named(path) for path in self.benchmarks]
        return {**data, "version": VERSION}


def _named(path: Path) -> dict[str, str]:
    return {"name": path.resolve().name, "sha256": files.digest(path)}


def _among(name: str, given: Any, allowed: Any) -> None:
    for each in given:
        if each not in allowed:
            raise InvalidArgument(name, f"{each!r} is none of {', '.join(allowed)}")
