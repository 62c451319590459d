"""The page of a comparison: one file that needs nothing else, with charts and some replies of both runs.

Replies and questions are shown as texts, whatever they hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

from groundbox.dataset.report_page import Bar, Range, bars, document, histogram, ranges, section, shortened
from groundbox.learn.evaluation.compare import Comparison, Pair, cautions
from groundbox.learn.evaluation.measures import wilson
from groundbox.learn.evaluation.results import Result

MOST_SHOWN: Final = 4
"""Questions of which only one run is right, shown with both replies."""
_MOST_CHARS: Final = 8_000
_WORDS: Final = {
    "accuracy": "accuracy",
    "unfinished": "unfinished",
    "repeated": "repeated 4-grams",
    "step_truth": "step truth",
    "refuted": "claims refuted",
    "follows": "answer follows from steps",
}


def page(comparison: Comparison) -> str:
    """The whole page, as HTML."""
    facts, (a, b) = comparison.facts, comparison.names
    right = facts["right"]
    lead = " ".join([f"{facts['suite']}: A is {a}, B is {b}.", *_told(facts), *cautions(facts)])
    numbers = [
        (facts["pairs"], "questions that both answered"),
        (right["both"] + right["only_a"], "right by A"),
        (right["both"] + right["only_b"], "right by B"),
        (right["only_a"], "by A alone"),
        (right["only_b"], "by B alone"),
    ]
    body = f'<div class="plots">{"".join(_sections(comparison))}</div>{_examples(comparison)}'
    return document("Two runs compared", lead, numbers, body)


def _told(facts: Mapping[str, Any]) -> Iterator[str]:
    """The outcome in sentences."""
    for name, each in facts.get("metrics", {}).items():
        low, high = each["interval"] or (None, None)
        sure = "too few for an interval" if low is None else f"95 %: {low:+.4f} to {high:+.4f}"
        yield f"{name}, B - A: {each['by']:+.4f} ({sure})."
    change = facts["differences"]["accuracy"]
    if change is None:
        yield "Replies are graded, so that none is right or wrong."
        return
    interval = change["interval"]
    sure = f"95 %: {100 * interval[0]:+.1f} to {100 * interval[1]:+.1f}" if interval else "too few for an interval"
    yield (
        f"Accuracy, B - A: {100 * change['by']:+.1f} points ({sure}); "
        f"McNemar's exact test of the questions that only one gets right: p = {facts['mcnemar_p']:.3g}."
    )


def _sections(comparison: Comparison) -> Iterator[str]:
    facts, pairs = comparison.facts, comparison.pairs
    a, b = [each for each, _ in pairs], [each for _, each in pairs]
    right = facts["right"]
    yield section(
        "Accuracy",
        "Share of right answers, with Wilson's 95 % interval.",
        ranges(list(_accuracies(pairs)), low=0, high=100, unit="%"),
    )
    changes = list(_changes(facts["differences"]))
    most = max([5.0, *(abs(end) for each in changes for end in (each.low, each.high))])
    yield section(
        "Difference, B - A",
        "With a bootstrap interval over the questions; what lies across the line may be chance.",
        ranges(changes, low=-most, high=most, unit="points", mark=0),
    )
    yield section(
        "Who is right",
        "The questions that both answered.",
        bars(
            [
                Bar("both", right["both"]),
                Bar("only A", right["only_a"]),
                Bar("only B", right["only_b"]),
                Bar("neither", right["neither"]),
            ]
        ),
    )
    counts = [facts["figures"][key]["reasons"] for key in ("a", "b")]
    yield section(
        "What came of the replies",
        "Each has one reason.",
        bars(
            [
                Bar(f"{reason} {name}", each.get(reason, 0))
                for reason in dict.fromkeys([*counts[0], *counts[1]])
                for name, each in zip(("A", "B"), counts, strict=True)
            ]
        ),
    )
    for name, found in (("A", a), ("B", b)):
        yield section(
            f"Tokens of a reply, {name}",
            "As the endpoint counts them.",
            histogram([each.completion_tokens for each in found if each.completion_tokens], "tokens", least=0),
        )
    if not any(each.steps for each in (*a, *b)):
        return
    for name, found in (("A", a), ("B", b)):
        told = [each.steps for each in found if each.steps and each.steps.told]
        yield section(
            f"Step truth, {name}",
            "How many reasonings have which share of their claims borne out by the recorded run.",
            histogram([each.borne_out / each.told for each in told], "share", least=0),
        )
    for name, found in (("A", a), ("B", b)):
        yield section(
            f"First false step, {name}",
            "In which sentence of a reasoning the first claim stands that the run refutes.",
            histogram(
                [each.steps.first_false for each in found if each.steps and each.steps.first_false], "sentence", least=0
            ),
        )


def _accuracies(pairs: Sequence[Pair]) -> Iterator[Range]:
    groups = sorted({a.group for a, _ in pairs})
    for group in ["", *(groups if len(groups) > 1 else [])]:
        both = [pair for pair in pairs if pair[0].right is not None and pair[1].right is not None]
        some = [pair for pair in both if not group or pair[0].group == group]
        for place, name in enumerate(("A", "B")):
            k, n = sum(bool(pair[place].right) for pair in some), len(some)
            interval = wilson(k, n)
            if interval is not None:
                label = f"{group} {name}".strip()
                yield Range(label, 100 * k / n, 100 * interval.low, 100 * interval.high, f"({k} of {n})")


def _changes(differences: Mapping[str, Any]) -> Iterator[Range]:
    for name, words in _WORDS.items():
        found = differences[name]
        if found is not None and found["interval"]:
            yield Range(words, 100 * found["by"], 100 * found["interval"][0], 100 * found["interval"][1])


def _examples(comparison: Comparison) -> str:
    parts = []
    for words, wanted in (("only A is right", (True, False)), ("only B is right", (False, True))):
        found = [pair for pair in comparison.pairs if (bool(pair[0].right), bool(pair[1].right)) == wanted]
        shown = "".join(map(_example, found[:MOST_SHOWN])) or "<p>None.</p>"
        parts.append(f"<h2>Where {words}</h2>{shown}")
    return f'<div class="examples">{"".join(parts)}</div>'


def _example(pair: Pair) -> str:
    told = "".join(
        f'<p class="who">{name} · {escape(each.reason + _steps(each))}</p>'
        f"<pre>{escape(shortened(each.reply, _MOST_CHARS))}</pre>"
        for name, each in zip(("A", "B"), pair, strict=True)
    )
    group = f"{pair[0].group} · " if pair[0].group else ""
    return f"<details><summary>{escape(group + pair[0].id)}</summary>{told}</details>"


def _steps(result: Result) -> str:
    found = result.steps
    if found is None or not found.told:
        return ""
    false = f", first false in sentence {found.first_false}" if found.first_false else ""
    return f" · {found.borne_out} of {found.told} claims borne out{false}"
