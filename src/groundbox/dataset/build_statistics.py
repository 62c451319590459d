"""Counts and measures of a build, added up item by item. What leaves here is report.json but for its times."""

from __future__ import annotations

import dataclasses
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
        left_out: Items with sentences that are not told because a claim in them is not proven.
        examples: The first sample of each task.
    """

    tokenizer: Tokenizer | None = None
    items: int = 0
    runnable: int = 0
    traced: int = 0
    folded: int = 0
    kept: int = 0
    samples: int = 0
    reasons: Counter[str] = dataclasses.field(default_factory=Counter)
    stages: Counter[str] = dataclasses.field(default_factory=Counter)
    facts: Counter[str] = dataclasses.field(default_factory=Counter)
    by: dict[str, Counter[str]] = dataclasses.field(default_factory=lambda: defaultdict(Counter))
    measures: dict[str, list[float]] = dataclasses.field(default_factory=lambda: defaultdict(list))
    problems: dict[str, set[str]] = dataclasses.field(default_factory=lambda: defaultdict(set))
    faults: list[str] = dataclasses.field(default_factory=list)
    left_out: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    examples: dict[str, Sample] = dataclasses.field(default_factory=dict)

    def drop(self, drop: Drop) -> None:
        """An item that is not in the dataset."""
        self.items += 1
        self.reasons[drop.reason] += 1
        self.stages[drop.stage] += 1

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
        self.facts["told"] += 1
        self.facts["told_claims"] += lesson.claims
        self.facts["told_proven"] += lesson.proven
        self.facts["opaque"] += lesson.opaque
        self.facts["elided"] += lesson.elided
        self.faults.extend(lesson.faults)
        if lesson.drop is not None:
            self.drop(lesson.drop)
            return
        self.items += 1
        self.kept += 1
        # All samples of an item carry the numbers of its one telling; counted once.
        self.facts["claims"] += lesson.samples[0].claims
        self.facts["proven"] += lesson.samples[0].proven
        self.facts["smaller_kept"] += "shrunk_from" in json.loads(lesson.samples[0].case)
        if lesson.left_out:
            self.facts["mended"] += 1
            self.left_out.extend((lesson.item, each) for each in lesson.left_out)
        for sample in lesson.samples:
            self._sample(sample)

    def report(self, decisions: FilterDecisions) -> dict[str, Any]:
        """The keys of report.json that do not depend on time."""
        return {
            "items": self.items,
            "runnable": self.runnable,
            "traced": self.traced,
            "folded": self.folded,
            "kept": self.kept,
            "samples": self.samples,
            "dropped": dict(sorted(self.reasons.items())),
            "dropped_by_stage": {stage: self.stages[stage] for stage in STAGES},
            "yield": self._yield(),
            "rates": self._rates(),
            **self.content(),
            "smaller": self._smaller(),
            "searches": {name: self.facts[f"searches_{name}"] for name in ("sought", "runs", "found")},
            "coverage": spread(self.measures["coverage"]),
            "duplicates": {"problems": len(decisions.duplicates.of), "groups": decisions.duplicates.sizes},
            "contamination": self._contamination(decisions),
            "task_faults": self.faults[:_MOST_SHOWN],
        }

    def content(self) -> dict[str, Any]:
        """The keys that tell of the samples, however they were made."""
        facts = self.facts
        return {
            "claims": {
                "total": facts["claims"],
                "proven": facts["proven"],
                "uncheckable": facts["claims"] - facts["proven"],
            },
            "mended": self._mended(),
            "answers": self._answers(),
            "lengths": {"unit": "characters", **self._lengths("chars")},
            **({"tokens": {"tokenizer": self.tokenizer.name, **self._lengths("tokens")}} if self.tokenizer else {}),
            "repetition": {name: spread(self.measures[name]) for name in ("repeated", "compressed")},
            "difficulty": spread(self.measures["difficulty"]),
            **{f"samples_by_{name}": dict(sorted(self.by[name].items())) for name in ("task", "style", "split")},
            "problems_by_split": {name: len(each) for name, each in sorted(self.problems.items())},
            "samples_by_source": dict(sorted(self.by["source"].items())),
            "samples_by_licence": dict(sorted(self.by["licence"].items())),
        }

    def _item(self, item: Item) -> None:
        self.runnable += item.runnable
        self._sought(item)
        if item.guesses is not None:
            self.facts["searches_sought"] += 1
            self.facts["searches_runs"] += item.guesses
            self.facts["searches_found"] += bool(item.tried)
        nondeterministic = item.drop is not None and item.drop.reason == "nondeterministic-output"
        self.facts["nondeterministic"] += nondeterministic
        if item.traced is not None:
            self.traced += 1
            self.folded += item.traced.folded
            self.facts["stable"] += item.traced.stable
        if item.case.expected is not ABSENT and item.answer is not None and item.traced is not None:
            self.facts["compared"] += 1
            # Dropped later for another reason, it agreed all the same.
            self.facts["agree"] += item.drop is None or item.drop.stage != "compare"

    def _sought(self, item: Item) -> None:
        sought, shrunk = item.sought, item.case.shrunk_from
        if sought is None:
            return
        self.facts["smaller_sought"] += 1
        self.facts["smaller_runs"] += sought.runs
        self.by["smaller_why"][sought.why] += 1
        if shrunk is not None:
            self.facts["smaller_found"] += 1
            self.facts["smaller_kept_all_arcs"] += shrunk.arcs == shrunk.arcs_kept
            if shrunk.arcs:
                self.measures["arcs_kept"].append(shrunk.arcs_kept / shrunk.arcs)

    def _sample(self, sample: Sample) -> None:
        self.samples += 1
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
        left, found = self.items, {"read": self.items}
        for stage in STAGES:
            left -= self.stages[stage]
            found[stage] = left
        return found

    def _rates(self) -> dict[str, float | None]:
        facts = self.facts
        return {
            "runnable": share(self.runnable, self.items),
            "complete_traces": share(self.traced, self.runnable),
            "deterministic": share(self.runnable, self.runnable + facts["nondeterministic"]),
            "stable_traces": share(facts["stable"], self.traced),
            "agree_with_recorded": share(facts["agree"], facts["compared"]),
            "proven_claims": share(facts["proven"], facts["claims"]),
            "proven_claims_before_dropping": share(facts["told_proven"], facts["told_claims"]),
            "understood_sentences": mean(self.measures["sentence_coverage"]),
            "traces_with_opaque_values": share(facts["opaque"], facts["told"]),
            "traces_with_elided_values": share(facts["elided"], facts["told"]),
            "folded_traces": share(self.folded, self.traced),
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
        return {"items": self.facts["mended"], "sentences": len(self.left_out), "left_out": shown}

    def _smaller(self) -> dict[str, Any]:
        """Searches for smaller inputs, and what became of what they found."""
        names = ("sought", "runs", "found", "kept")
        return {
            **{name: self.facts[f"smaller_{name}"] for name in names},
            "why": dict(sorted(self.by["smaller_why"].items())),
            "kept_all_arcs": self.facts["smaller_kept_all_arcs"],
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
