"""Counts and measures of a build, added up item by item. What leaves here is report.json but for its times."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from groundbox.dataset import files
from groundbox.dataset.dataset_filters import FilterDecisions
from groundbox.dataset.item import Item, ProblemRuns
from groundbox.dataset.optional_imports import need
from groundbox.dataset.problem import ABSENT, Drop
from groundbox.dataset.sample_files import Sample
from groundbox.dataset.shard_samples import SampledItem
from groundbox.dataset.tasks.task import Lines
from groundbox.errors import InvalidArgument


class Tokenizer(NamedTuple):
    """Counts the tokens of a text; the name stands beside every number."""

    name: str
    count: Callable[[str], int]


def from_file(path: Path) -> Tokenizer:
    """The tokenizer of a `tokenizer.json`, as the library `tokenizers` writes it, named by file and digest.

    Raises:
        InvalidArgument: It is no such file.
        ExtraMissing: The library is not installed.
    """
    library = need("tokenizers", "to count tokens", install="tokenizers")
    try:
        tokenizer = library.Tokenizer.from_file(str(path))
    except Exception as error:
        # The library raises bare exceptions for whatever is wrong with the file.
        raise InvalidArgument("tokenizer", f"{path} cannot be read: {error}") from None
    name = f"{path.name} {files.digest(path)[:12]}"
    return Tokenizer(name, lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids))


# In the order in which an item passes them, which is what the yield is computed by.
STAGES: Final = (
    "parse",
    "inputs",
    "run",
    "compare",
    "smaller",
    "quality",
    "duplicates",
    "contamination",
    "narrate",
    "prove",
    "tasks",
)
_GRAM: Final = 8
_MOST_SHOWN: Final = 100
# Results that are guessed without reading the program; their share says how much of a task is luck.
_TRIVIAL: Final = frozenset({"None", "True", "False", "0", "-1", "1", "''", "[]", "{}", "()", "set()"})


@dataclasses.dataclass(kw_only=True)
class BuildStatistics:
    """Everything that is counted, updated in place: kept + dropped = items at any moment.

    Attributes:
        tokenizer: What lengths are counted in beside characters, or None.
        counts: Items, samples and claims, by what became of them.
        by: How many there are of each kind, by what is asked: `reason`, `task`, `licence` and so on.
        left_out: Items with sentences that are not told because a claim in them is not proven.
        examples: The first sample of each task.
    """

    tokenizer: Tokenizer | None = None
    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    by: dict[str, Counter[str]] = dataclasses.field(default_factory=lambda: defaultdict(Counter))
    measures: dict[str, list[float]] = dataclasses.field(default_factory=lambda: defaultdict(list))
    problems: dict[str, set[str]] = dataclasses.field(default_factory=lambda: defaultdict(set))
    faults: list[str] = dataclasses.field(default_factory=list)
    left_out: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    examples: dict[str, Sample] = dataclasses.field(default_factory=dict)

    def drop(self, drop: Drop) -> None:
        """An item that is not in the dataset."""
        self._count(items=1)
        self.by["reason"][drop.reason] += 1
        self.by["stage"][drop.stage] += 1

    def ran(self, ran: ProblemRuns) -> None:
        """A problem with its items after all decisions; those dropped are counted, the others are `lesson`'s."""
        covered: set[int] = set()
        for item in ran.items:
            self._item(item)
            covered |= set(item.traced.lines) if item.traced else set()
        lines = Lines(ran.problem.source)
        # Lines of functions only: those of the module run in any case.
        plain = {line for name in lines.functions for line in lines.plain_in(name)}
        if plain and covered:
            self.measures["coverage"].append(len(covered & plain) / len(plain))
        for drop in (*ran.drops, *(item.drop for item in ran.items if item.drop)):
            self.drop(drop)

    def lesson(self, lesson: SampledItem) -> None:
        """An item that came as far as the narrator."""
        self._count(told=1, told_claims=lesson.claims, told_proven=lesson.proven)
        self._count(opaque=lesson.opaque, elided=lesson.elided)
        self.faults.extend(lesson.faults)
        if lesson.drop is not None:
            self.drop(lesson.drop)
            return
        # All samples of an item carry the numbers of its one telling; counted once.
        first = lesson.samples[0]
        self._count(items=1, kept=1, claims=first.claims, proven=first.proven, mended=bool(lesson.left_out))
        self._count(smaller_kept="shrunk_from" in json.loads(first.case))
        self.left_out.extend((lesson.item, each) for each in lesson.left_out)
        for sample in lesson.samples:
            self._sample(sample)

    def report(self, decisions: FilterDecisions) -> dict[str, Any]:
        """The keys of report.json that do not depend on time."""
        return {
            **{name: self.counts[name] for name in ("items", "runnable", "traced", "folded", "kept", "samples")},
            "dropped": self.counts_by("reason"),
            "dropped_by_stage": {stage: self.by["stage"][stage] for stage in STAGES},
            "yield": self._yield(),
            "rates": self._rates(),
            **self.content(),
            "smaller": self._smaller(),
            "searches": {name: self.counts[f"searches_{name}"] for name in ("sought", "runs", "found")},
            "coverage": spread(self.measures["coverage"]),
            "duplicates": {"problems": len(decisions.duplicates.of), "groups": decisions.duplicates.sizes},
            "contamination": self._contamination(decisions),
            "task_faults": self.faults[:_MOST_SHOWN],
        }

    def content(self) -> dict[str, Any]:
        """The keys that tell of the samples, however they were made."""
        claims, proven = self.counts["claims"], self.counts["proven"]
        return {
            "claims": {"total": claims, "proven": proven, "uncheckable": claims - proven},
            "mended": self._mended(),
            "answers": self._answers(),
            "lengths": {"unit": "characters", **self._lengths("chars")},
            **({"tokens": {"tokenizer": self.tokenizer.name, **self._lengths("tokens")}} if self.tokenizer else {}),
            "repetition": {name: spread(self.measures[name]) for name in ("repeated", "compressed")},
            "difficulty": spread(self.measures["difficulty"]),
            **{f"samples_by_{name}": self.counts_by(name) for name in ("task", "style", "split")},
            "problems_by_split": {name: len(each) for name, each in sorted(self.problems.items())},
            **{f"samples_by_{name}": self.counts_by(name) for name in ("source", "licence")},
        }

    def counts_by(self, what: str) -> dict[str, int]:
        """How many there are of each kind, as JSON has it."""
        return dict(sorted(self.by[what].items()))

    def _count(self, **numbers: int) -> None:
        for name, number in numbers.items():
            self.counts[name] += number

    def _item(self, item: Item) -> None:
        drop, traced = item.drop, item.traced
        self._count(runnable=item.runnable)
        self._count(nondeterministic=drop is not None and drop.reason == "nondeterministic-output")
        self._sought(item)
        if item.guesses is not None:
            self._count(searches_sought=1, searches_runs=item.guesses, searches_found=bool(item.tried))
        if traced is not None:
            self._count(traced=1, folded=traced.folded, stable=traced.stable)
        if item.case.expected is not ABSENT and item.answer is not None and traced is not None:
            # Dropped later for another reason, it agreed all the same.
            self._count(compared=1, agree=drop is None or drop.stage != "compare")

    def _sought(self, item: Item) -> None:
        sought, shrunk = item.sought, item.case.shrunk_from
        if sought is None:
            return
        self._count(smaller_sought=1, smaller_runs=sought.runs)
        self.by["smaller_why"][sought.why] += 1
        if shrunk is not None:
            self._count(smaller_found=1, smaller_kept_all_arcs=shrunk.arcs == shrunk.arcs_kept)
            if shrunk.arcs:
                self.measures["arcs_kept"].append(shrunk.arcs_kept / shrunk.arcs)

    def _sample(self, sample: Sample) -> None:
        self._count(samples=1)
        self.examples.setdefault(sample.task, sample)
        self.by["source"][json.loads(sample.provenance)["file"]] += 1
        for name in ("task", "style", "split", "licence"):
            self.by[name][getattr(sample, name)] += 1
        self.problems[sample.split].add(sample.problem)
        self.measures["difficulty"].append(sample.difficulty)
        self.measures["sentence_coverage"].append(sample.coverage)
        self.measures["repeated"].append(repeated(sample.reply))
        self.measures["compressed"].append(compressed(sample.reply))
        for name, text in (("prompt", sample.prompt), ("reply", sample.reply)):
            self.measures[f"{name}_chars"].append(len(text))
            if self.tokenizer is not None:
                self.measures[f"{name}_tokens"].append(self.tokenizer.count(text))
        # Only answers of one kind are compared in their spread: those of other tasks have a few words by design.
        if sample.task == "output":
            self.by["answer"][sample.answer] += 1

    def _yield(self) -> dict[str, int]:
        stages = ("read", *STAGES)
        dropped = itertools.accumulate(self.by["stage"][stage] for stage in stages)
        return {stage: self.counts["items"] - each for stage, each in zip(stages, dropped, strict=True)}

    def _rates(self) -> dict[str, float | None]:
        counts = self.counts
        return {
            "runnable": share(counts["runnable"], counts["items"]),
            "complete_traces": share(counts["traced"], counts["runnable"]),
            "deterministic": share(counts["runnable"], counts["runnable"] + counts["nondeterministic"]),
            "stable_traces": share(counts["stable"], counts["traced"]),
            "agree_with_recorded": share(counts["agree"], counts["compared"]),
            "proven_claims": share(counts["proven"], counts["claims"]),
            "proven_claims_before_dropping": share(counts["told_proven"], counts["told_claims"]),
            "understood_sentences": mean(self.measures["sentence_coverage"]),
            "traces_with_opaque_values": share(counts["opaque"], counts["told"]),
            "traces_with_elided_values": share(counts["elided"], counts["told"]),
            "folded_traces": share(counts["folded"], counts["traced"]),
        }

    def _answers(self) -> dict[str, float | int | None]:
        answers = self.by["answer"]
        total = sum(answers.values())
        # Shannon's: bits that an answer tells on average, log2 of their number where all differ.
        entropy = -sum(n / total * math.log2(n / total) for n in answers.values()) if total else None
        trivial = sum(n for text, n in answers.items() if text in _TRIVIAL)
        return {
            "distinct": len(answers),
            "entropy_bits": None if entropy is None else round(entropy, 3),
            "trivial": share(trivial, total),
        }

    def _lengths(self, unit: str) -> dict[str, Any]:
        return {name: spread(self.measures[f"{name}_{unit}"]) for name in ("prompt", "reply")}

    def _mended(self) -> dict[str, Any]:
        shown = [{"item": item, "sentence": sentence} for item, sentence in self.left_out[:_MOST_SHOWN]]
        return {"items": self.counts["mended"], "sentences": len(self.left_out), "left_out": shown}

    def _smaller(self) -> dict[str, Any]:
        """Searches for smaller inputs, and what became of what they found."""
        names = ("sought", "runs", "found", "kept")
        return {
            **{name: self.counts[f"smaller_{name}"] for name in names},
            "why": self.counts_by("smaller_why"),
            "kept_all_arcs": self.counts["smaller_kept_all_arcs"],
            "arcs_kept": spread(self.measures["arcs_kept"]),
        }

    def _contamination(self, decisions: FilterDecisions) -> dict[str, Any]:
        found = [each.containment for each in decisions.findings.values()]
        over = sum(each >= decisions.containment for each in found)
        return {"threshold": decisions.containment, "problems": over, "containment": spread(found)}


def share(part: int, whole: int) -> float | None:
    """A share to four digits, or None of nothing."""
    return round(part / whole, 4) if whole else None


def mean(values: Sequence[float]) -> float | None:
    """The mean to four digits, or None of nothing."""
    return round(sum(values) / len(values), 4) if values else None


def spread(values: Sequence[float]) -> Mapping[str, float | int | None]:
    """How values are spread: their number, least, quartiles, ninth tenth and most."""
    ordered = sorted(values)
    if not ordered:
        return {"count": 0}
    places = {"least": 0.0, "p25": 0.25, "median": 0.5, "p75": 0.75, "p90": 0.9, "most": 1.0}
    # The nearest rank, so that each figure is one that was measured.
    found = {name: round(ordered[round(place * (len(ordered) - 1))], 4) for name, place in places.items()}
    return {"count": len(ordered), **found, "mean": mean(ordered)}


def repeated(text: str) -> float:
    """Share of the runs of eight words that the text had before."""
    words = text.split()
    grams = [tuple(words[at : at + _GRAM]) for at in range(len(words) - _GRAM + 1)]
    return round(1 - len(set(grams)) / len(grams), 4) if grams else 0.0


def compressed(text: str) -> float:
    """Compressed size over size: near 1 for a text without repetition, near 0 for one of nothing else."""
    data = text.encode("utf-8", "surrogatepass")
    # A few words grow when they are compressed.
    return round(min(1.0, len(zlib.compress(data, 6)) / len(data)), 4) if data else 1.0
