"""Decisions that need all items to have run: quality within a problem, copies, contamination, splits."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from groundbox.dataset import deduplication, selection
from groundbox.dataset.deduplication import Benchmarks, Duplicates, Finding
from groundbox.dataset.item import Item, ProblemRuns
from groundbox.dataset.options import BuildOptions
from groundbox.dataset.problem import Drop
from groundbox.dataset.selection import split


@dataclasses.dataclass(frozen=True, kw_only=True)
class FilterDecisions:
    """Decisions about whole problems.

    Attributes:
        findings: What of a benchmark a problem contains most, also where that is little.
        splits: Of the problems that stay.
    """

    duplicates: Duplicates
    findings: Mapping[str, Finding]
    splits: Mapping[str, str]
    containment: float

    def apply(self, ran: ProblemRuns) -> ProblemRuns:
        """The problem after quality, with its items dropped if the problem is."""
        name = ran.problem.id
        # Duplicates before contamination: a copy is dropped as one, whatever it has of a benchmark.
        if name in self.duplicates.of:
            kept, likeness = self.duplicates.of[name]
            detail = f"{likeness:.2f} of it is as in {kept}"
            return _all_dropped(ran, deduplication.DUPLICATES, "near-duplicate", detail)
        finding = self.findings.get(name)
        if finding is not None and finding.containment >= self.containment:
            detail = f"it has {finding.containment:.2f} of the {finding.kind} of {finding.document}"
            return _all_dropped(ran, deduplication.CONTAMINATION, "contaminated", detail)
        return ran


def judged(found: Iterable[ProblemRuns | Drop], options: BuildOptions) -> Iterator[ProblemRuns | Drop]:
    """A part after the stage quality."""
    for each in found:
        if isinstance(each, Drop):
            yield each
        else:
            items = selection.judge(each.problem, each.items, options.taste)
            yield dataclasses.replace(each, items=tuple(items))


def decide(found: Iterable[ProblemRuns | Drop], options: BuildOptions) -> FilterDecisions:
    """The decisions on all problems of which an item is left after quality."""
    left = {each.problem.id: each.problem for each in found if isinstance(each, ProblemRuns) and _open(each.items)}
    sources = {name: problem.source for name, problem in left.items()}
    found_copies = deduplication.find_duplicates(sources, threshold=options.near_duplicate)
    # Only programs that stay are looked up, which is the slowest of these steps.
    stay = {name: problem for name, problem in left.items() if name not in found_copies.of}
    documents = [each for path in options.benchmarks for each in deduplication.documents(path)]
    findings: dict[str, Finding] = {}
    if documents:
        # From all programs and not from those that stay: what is common is common in the source.
        benchmarks = Benchmarks(documents, sources.values())
        for name, problem in stay.items():
            finding = benchmarks.look_up(problem.source, problem.statement)
            if finding is not None:
                findings[name] = finding
    return FilterDecisions(
        duplicates=found_copies,
        findings=findings,
        splits={name: split(problem, options.shares) for name, problem in stay.items()},
        containment=options.containment,
    )


def wanted(found: Iterable[ProblemRuns | Drop], decisions: FilterDecisions) -> dict[str, str]:
    """Items that are to become samples, with their splits."""
    return {
        item.id: decisions.splits[each.problem.id]
        for each in found
        if isinstance(each, ProblemRuns)
        for item in decisions.apply(each).items
        if item.drop is None and item.traced is not None
    }


def _open(items: Iterable[Item]) -> bool:
    return any(item.drop is None for item in items)


def _all_dropped(ran: ProblemRuns, stage: str, reason: str, detail: str) -> ProblemRuns:
    items = (item if item.drop else item.dropped(stage, reason, detail) for item in ran.items)
    return dataclasses.replace(ran, items=tuple(items))
