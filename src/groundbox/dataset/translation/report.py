"""Report of a translation: the key `translation` of report.json, and report.html.

The page tells how many of the model's narrations were proven, why others were not, and shows some to read. Nothing on
it depends on when or how often the model was asked, so that the same answers make the same bytes.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

from groundbox.dataset.build_statistics import BuildStatistics, spread
from groundbox.dataset.narration import Proved
from groundbox.dataset.problem import Drop
from groundbox.dataset.report_page import Bar, bars, document, example, histogram, section, shortened, thousands
from groundbox.dataset.translation.item import Retold

_COUNTED: Final = (
    "asked",
    "cached",
    "accepted_at_first",
    "accepted_when_repaired",
    "accepted_when_mended",
    "rejected_when_repaired",
    "fell_back",
    "in_words",
    "read",
)


@dataclasses.dataclass(kw_only=True)
class Counts:
    """Updated in place, item by item.

    Attributes:
        counts: `asked` are answers of the model, each counted once however often the work was interrupted, `cached`
            those of them that were given to an earlier process. `accepted_when_mended` are items accepted, at first or
            repaired, without sentences that failed all the same; `fell_back`, `in_words` and `read` items of which
            `Retold` says so.
    """

    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    measures: dict[str, list[float]] = dataclasses.field(default_factory=lambda: defaultdict(list))

    def add(self, found: Retold, *, resumed: bool) -> None:
        """Count an item; `resumed` if it was done by an earlier process."""
        accepted, mended = found.lesson.drop is None, bool(found.lesson.left_out)
        counted = {
            "asked": found.replies,
            # All answers of a part that an earlier process finished were given to that process.
            "cached": found.replies if resumed else found.cached,
            "accepted_at_first": accepted and not found.repaired and not mended,
            "accepted_when_repaired": accepted and found.repaired and not mended,
            "accepted_when_mended": accepted and mended,
            "rejected_when_repaired": found.repaired and not accepted,
            "fell_back": found.fell_back,
            "in_words": found.in_words,
            "read": found.read,
            "prompt_tokens": found.prompt_tokens,
            "completion_tokens": found.completion_tokens,
        }
        for name, number in counted.items():
            self.counts[name] += number
        self._measure("first", found.first)
        if accepted:
            self._measure("accepted", found.last)

    def report(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            **{name: self.counts[name] for name in _COUNTED},
            "tokens": {name: self.counts[f"{name}_tokens"] for name in ("prompt", "completion")},
            **{
                name: {which: spread(self.measures[f"{name}/{which}"]) for which in ("first", "accepted")}
                for name in ("faithfulness", "coverage")
            },
        }

    def _measure(self, which: str, proved: Proved | None) -> None:
        if proved is not None:
            self.measures[f"faithfulness/{which}"].append(proved.faithfulness)
            self.measures[f"coverage/{which}"].append(proved.coverage)


MOST_DROPS: Final = 5
_MOST_CHARS: Final = 20_000
_REASONS: Final = {
    "unproven-claims": "says what did not happen",
    "torn-claims": "no sentences with claims",
    "little-checked": "says too little to be checked",
    "cut-short": "too long, and cut off",
    "unfinished-thinking": "thinking that was not ended",
    "empty": "no answer",
    "answer-too-large": "larger than is read",
    "request-refused": "the endpoint refused",
    "long-trace": "recording too long to show",
    "run-differs": "program acts otherwise today",
    "sandbox-lost": "the sandbox was lost",
    "no-question": "no question for it",
    "proof-too-long": "took too long to prove",
    "prover-failed": "fault of groundbox: proving",
    "trace-not-shown": "fault of groundbox: showing",
}


def page(
    facts: Mapping[str, Any], statistics: BuildStatistics, counts: Counts, drops: Sequence[Drop], model: str
) -> str:
    """The whole page. Texts of the model, of programs and of problems are shown as texts, whatever they hold.

    Args:
        drops: Items that were dropped; the first `MOST_DROPS` are shown.
    """
    told, claims = facts["translation"], facts["claims"]
    lead = (
        f"{model} was shown recorded runs and told them in its own words. Every claim of a narration was checked "
        "against the recording; one that failed was sent back once, and what was still not true was left out, "
        "or the narration was dropped."
    )
    numbers = [
        (facts["items"], "runs to tell"),
        (facts["kept"], "narrations proven"),
        (told["accepted_at_first"], "of these at first"),
        (told["accepted_when_repaired"], "when sent back"),
        (told["accepted_when_mended"], "without some sentences"),
        (facts["samples"], "samples"),
        (claims["proven"], f"of {thousands(claims['total'])} claims proven"),
        (told["asked"], "answers of the model"),
    ]
    body = f'<div class="plots">{"".join(_sections(facts, statistics, counts))}</div>{_texts(statistics, drops)}'
    return document("Narrations by a model", lead, numbers, body)


def _sections(facts: Mapping[str, Any], statistics: BuildStatistics, counts: Counts) -> list[str]:
    reasons = sorted(facts["dropped"].items(), key=lambda each: (-each[1], each[0]))
    told, measures = facts["translation"], counts.measures
    outcomes = [
        Bar("proven at first", told["accepted_at_first"]),
        Bar("proven when sent back", told["accepted_when_repaired"]),
        Bar("proven without some sentences", told["accepted_when_mended"]),
        Bar("not taken", facts["items"] - facts["kept"]),
    ]
    tokens = told["tokens"]
    return [
        section("What became of the narrations", "One for each run.", bars(outcomes)),
        section(
            "Why narrations were not taken",
            "Each has one reason.",
            bars([Bar(_REASONS.get(reason, reason), count) for reason, count in reasons], kind="bad"),
        ),
        section(
            "Truth of the first answers",
            "How many have which share of their checkable claims true.",
            histogram(measures["faithfulness/first"], "share", least=0),
        ),
        section(
            "What can be checked of the first answers",
            "How many have which share of their sentences say something that can be checked.",
            histogram(measures["coverage/first"], "share", least=0),
        ),
        section(
            "Length of replies",
            "How many samples have which length.",
            histogram(statistics.measures["reply_chars"], "characters", least=0),
        ),
        section(
            "Tokens",
            "As the endpoint counts them.",
            bars([Bar("shown to the model", tokens["prompt"]), Bar("written by it", tokens["completion"])]),
        ),
    ]


def _texts(statistics: BuildStatistics, drops: Sequence[Drop]) -> str:
    kept = "".join(map(example, statistics.examples.values())) or "<p>None was proven.</p>"
    dropped = "".join(map(_drop, drops[:MOST_DROPS])) or "<p>None.</p>"
    return (
        f'<div class="examples"><h2>A proven narration of each task</h2>{kept}'
        f"<h2>Some that were not taken, with what is wrong</h2>{dropped}</div>"
    )


def _drop(drop: Drop) -> str:
    failed = "".join(f"<li>{escape(str(each))}</li>" for each in drop.facts.get("failed", ()))
    text = str(drop.facts.get("text", ""))
    shown = shortened(text, _MOST_CHARS)
    return (
        f"<details><summary>{escape(drop.item)} · {escape(_REASONS.get(drop.reason, drop.reason))}</summary>"
        f"<p>{escape(drop.detail)}</p>{f'<ul>{failed}</ul>' if failed else ''}"
        f"{f'<pre>{escape(shown)}</pre>' if shown else ''}</details>"
    )
