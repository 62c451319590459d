"""Report of the experiment: figures of each arm, what became of the hypotheses, a table, and a page with charts."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

from groundbox.dataset.report_page import Bar, Range, bars, document, ranges, section
from groundbox.learn.evaluation.measures import bootstrap, mcnemar, wilson
from groundbox.learn.experiment import data
from groundbox.learn.experiment.data import RUN, SCORES, run_folder
from groundbox.learn.experiment.hypotheses import HYPOTHESES, LEAST_STEPS, Hypothesis
from groundbox.learn.experiment.plan import Plan
from groundbox.learn.experiment.scoring import Scored, score, truth

_MOST_SHOWN: Final = 3
_RESAMPLES: Final = 1_000
_TEXTS_READ: Final = 200


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arm:
    """Runs of an arm, and how they were scored.

    Attributes:
        runs: What each run wrote of itself.
        scores: Of all seeds, by seed.
        texts: Of what the arm learns from, told of held-out runs, scored alike: what a perfect pupil would get.
    """

    name: str
    runs: Sequence[Mapping[str, Any]]
    scores: Mapping[int, Sequence[Scored]]
    texts: Sequence[Scored]

    def of(self, split: str) -> list[Scored]:
        """The scores of all seeds in a split, programs of few steps left out."""
        return [
            each for scores in self.scores.values() for each in scores
            if each.split == split and each.steps >= LEAST_STEPS
        ]  # fmt: skip


def read(folder: Path, plan: Plan) -> list[Arm]:
    """Read the finished runs of a plan; an arm without any is left out."""
    same = data.read(folder / f"{data.SAME}.jsonl")[:_TEXTS_READ]
    arms = []
    for name in plan.arms:
        found = {seed: run_folder(folder, name, seed) for seed in plan.seeds}
        done = {seed: path for seed, path in found.items() if (path / RUN).exists()}
        if not done:
            continue
        texts = [score(name, data.SAME, run, run.replies[name], tokens=0, finished=True) for run in same]
        scores = {seed: list(_scores(path / SCORES)) for seed, path in done.items()}
        arms.append(
            Arm(
                name=name,
                runs=[json.loads((path / RUN).read_text()) for path in done.values()],
                scores=scores,
                texts=texts,
            )
        )
    return arms


def _scores(path: Path) -> Iterator[Scored]:
    with path.open(encoding="utf-8") as file:
        yield from (Scored(**json.loads(line)) for line in file)


def figures(arms: Sequence[Arm], *, seed: int = 0) -> dict[str, Any]:
    """Give the figures of all arms and what became of each hypothesis, as JSON."""
    by_name = {arm.name: arm for arm in arms}
    return {
        "arms": {arm.name: _figures(arm) for arm in arms},
        "hypotheses": {each.name: _held(each, by_name, seed=seed) for each in HYPOTHESES},
    }


def _figures(arm: Arm) -> dict[str, Any]:
    same = arm.of(data.SAME)
    right, n = sum(each.right for each in same), len(same)
    return {
        "accuracy": right / n,
        "interval": wilson(right, n),
        "step_truth": truth(same),
        "tokens": sum(each.tokens for each in same) / n,
        "seeds": {seed: _share([each for each in scores if each.split == data.SAME and each.steps >= LEAST_STEPS])
                  for seed, scores in arm.scores.items()},
        "splits": {
            split: {"accuracy": _share(some), "n": len(some), "step_truth": truth(some)}
            for split in (*data.SPLIT_NAMES, data.DRAWN)
            if (some := arm.of(split))
        },
        "refuted": sum(each.refuted for each in same) / max(1, sum(each.told for each in same)),
        "unfinished": sum(not each.finished for each in same) / n,
        "repeated": math.fsum(each.repeated for each in same) / n,
        "unread": sum(each.unread for each in same),
        "texts": {"step_truth": truth(arm.texts), "right": _share(arm.texts)},
        "tokens_a_text": arm.runs[0]["tokens_a_text"],
        "too_long": arm.runs[0]["too_long"],
        "loss": arm.runs[0]["losses"][-1][1],
        "minutes": sum(run["training_s"] for run in arm.runs) / len(arm.runs) / 60,
    }  # fmt: skip


def _share(scores: Sequence[Scored]) -> float:
    return sum(each.right for each in scores) / len(scores) if scores else math.nan


def _held(hypothesis: Hypothesis, arms: Mapping[str, Arm], *, seed: int) -> dict[str, Any]:
    """Measure a hypothesis: the value, the bootstrap interval over questions, and whether it holds."""
    if missing := [name for name in hypothesis.arms if name not in arms]:
        return {"says": hypothesis.says, "holds": None, "missing": missing}
    questions = _questions([arms[name] for name in hypothesis.arms], hypothesis.split)
    if not questions:
        return {"says": hypothesis.says, "holds": None, "missing": [f"the split {hypothesis.split}"]}
    context = {name: truth(arms[name].texts) for name in hypothesis.arms}
    value = hypothesis.measure(questions, context)
    interval = bootstrap(questions, lambda drawn: hypothesis.measure(drawn, context), seed=seed, resamples=_RESAMPLES)
    held = {
        "says": hypothesis.says,
        "value": value,
        "interval": interval,
        "bound": hypothesis.bound(context),
        "holds": None if value is None else hypothesis.holds(value, context),
    }
    if len(hypothesis.arms) == 2:
        pairs = [(a.right, b.right) for first, second in questions for a, b in zip(first, second, strict=True)]
        held["mcnemar_p"] = mcnemar(sum(a and not b for a, b in pairs), sum(b and not a for a, b in pairs))
    return held


def _questions(arms: Sequence[Arm], split: str) -> list[tuple[list[Scored], ...]]:
    """For each question of a split, what each arm said of it, by seed, for seeds that all of them have."""
    seeds = sorted(set.intersection(*(set(arm.scores) for arm in arms)))
    by_id = [
        [{each.id: each for each in arm.scores[seed] if each.split == split and each.steps >= LEAST_STEPS}
         for seed in seeds]
        for arm in arms
    ]  # fmt: skip
    names = list(by_id[0][0]) if seeds else []
    return [tuple([of_seed[name] for of_seed in of_arm] for of_arm in by_id) for name in names]


def table(found: Mapping[str, Any]) -> str:
    """The figures as a table in text, and a line for each hypothesis."""
    splits = list(dict.fromkeys(split for arm in found["arms"].values() for split in arm["splits"]))
    head = ["arm", *splits, "95 %", "truth", "of texts", "tokens", "unfinished", "repeated"]
    rows = [head]
    for name, arm in found["arms"].items():
        accuracies = [_percent(arm["splits"][split]["accuracy"]) for split in splits]
        low, high = arm["interval"]
        rows.append([
            name, *accuracies, f"{100 * low:.1f}-{100 * high:.1f}", _percent(arm["step_truth"]),
            _percent(arm["texts"]["step_truth"]), f"{arm['tokens']:.0f}", _percent(arm["unfinished"]),
            _percent(arm["repeated"]),
        ])  # fmt: skip
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = [
        "  ".join(
            cell.rjust(width) if n else cell.ljust(width)
            for n, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    for name, held in found["hypotheses"].items():
        lines.append(f"{name}: {held['says']}: {_verdict(held)}")
    return "\n".join(lines)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}"


def _verdict(held: Mapping[str, Any]) -> str:
    if missing := held.get("missing"):
        return f"not tried, without {' and '.join(missing)}"
    if held["value"] is None:
        return "not measured: nothing was told"
    interval = held["interval"]
    within = f" ({interval[0]:.3f} to {interval[1]:.3f})" if interval else ""
    return f"{held['value']:.3f}{within}, asked {held['bound']:.3f}: {'holds' if held['holds'] else 'does not hold'}"


def page(found: Mapping[str, Any], arms: Sequence[Arm]) -> str:
    """The page of the figures, as HTML that needs nothing else."""
    best = max(found["arms"], key=lambda name: found["arms"][name]["accuracy"])
    held = [each["holds"] for each in found["hypotheses"].values()]
    seeds = max(len(arm.scores) for arm in arms)
    lead = (
        f"{len(arms)} arms, {seeds} seed{'s' if seeds > 1 else ''}, {arms[0].runs[0]['plan']['tokens']:,} tokens each. "
        f"Most answers right: {best}. Of {len(held)} hypotheses {sum(each is True for each in held)} hold, "
        f"{sum(each is False for each in held)} do not, {sum(each is None for each in held)} were not tried."
    )
    numbers = [
        (sum(len(arm.scores) for arm in arms), "models"),
        (max(len(arm.of(data.SAME)) for arm in arms), "answers of an arm to new programs"),
        (arms[0].runs[0]["plan"]["tokens"], "tokens that each model saw"),
    ]
    body = f'<div class="plots">{"".join(_sections(found, arms))}</div>{"".join(_examples(arms))}'
    return document("What is learnt from proven reasoning", lead, numbers, body)


def _sections(found: Mapping[str, Any], arms: Sequence[Arm]) -> Iterator[str]:
    for split in (*data.SPLIT_NAMES, data.DRAWN):
        rows = []
        for arm in arms:
            some = arm.of(split)
            right, n = sum(each.right for each in some), len(some)
            if (interval := wilson(right, n)) is not None:
                rows.append(
                    Range(arm.name, 100 * right / n, 100 * interval.low, 100 * interval.high, f"({right} of {n})")
                )
        if rows:
            yield section(f"Right answers, {split}", _WORDS[split], ranges(rows, low=0, high=100, unit="%"))
    told = [(name, arm) for name, arm in found["arms"].items() if arm["step_truth"] is not None]
    yield section(
        "Step truth",
        "Claims that the run bears out, of all claims of the reasoning, and the same of the texts learnt from.",
        bars([Bar(f"{name}{which}", round(100 * share, 1)) for name, arm in told
              for which, share in (("", arm["step_truth"]), (", its texts", arm["texts"]["step_truth"]))
              if share is not None]),
    )  # fmt: skip
    yield section(
        "Tokens of an answer",
        "Mean, with the reasoning.",
        bars([Bar(n, round(a["tokens"])) for n, a in found["arms"].items()]),
    )
    yield section(
        "Loss", "Of the last tokens seen, of the first seed; texts of other arms are harder or easier by themselves.",
        bars([Bar(name, round(arm["loss"], 3)) for name, arm in found["arms"].items()]),
    )  # fmt: skip


_WORDS: Final = {
    data.SAME: "Programs of the distribution that was learnt from; Wilson's 95 % interval.",
    "longer": "Programs with more statements.",
    "deeper": "Loops and branches within each other, which no program of the training has.",
    "combined": "A helper called in a loop, or // in a loop: both are learnt, not in each other.",
    data.REAL: "Short programs that people wrote.",
    data.DRAWN: "The questions of same, each token of the reply drawn by chance.",
}


def _examples(arms: Sequence[Arm]) -> Iterator[str]:
    for arm in arms:
        for words, wanted in (("right", True), ("wrong", False)):
            shown = [each for each in arm.of(data.SAME) if each.right is wanted][:_MOST_SHOWN]
            if shown:
                replies = "".join(f"<pre>{escape(each.reply)}</pre>" for each in shown)
                yield f"<details><summary>{escape(arm.name)}: replies that are {words}</summary>{replies}</details>"
