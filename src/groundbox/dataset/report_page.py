"""Pages of HTML: the report of a build for people, and the bars, histograms and ranges in it.

Texts of programs are escaped; the policy in its head allows the one style sheet besides, no script and no connection.
"""

from __future__ import annotations

import base64
import hashlib
import math
import unicodedata
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final, NamedTuple

from groundbox.dataset.build_statistics import STAGES, BuildStatistics
from groundbox.dataset.dataset_filters import FilterDecisions
from groundbox.dataset.sample_files import Sample
from groundbox.dataset.selection import SPLITS

_WIDTH: Final = 640
_ROW: Final = 24
_LABEL: Final = 240
_GAP: Final = 10
_PLOT: Final = 170
_BINS: Final = 30


class Bar(NamedTuple):
    """A bar; `note` stands after its number."""

    label: str
    value: float
    note: str = ""


def bars(rows: Sequence[Bar], *, kind: str = "main") -> str:
    """Bars below each other, each after its label and number, so that a narrow window cuts none of these off."""
    if not rows:
        return _nothing()
    most = max(row.value for row in rows) or 1
    numbers = [f"{_number(row.value)} {row.note}".strip() for row in rows]
    # Bars begin behind the longest number; there is no script that could measure text in the browser.
    start = _LABEL + _GAP + max(sum(map(_width, words)) for words in numbers)
    parts = []
    for number, (row, words) in enumerate(zip(rows, numbers, strict=True)):
        y = number * _ROW
        width = max(1.0 if row.value else 0.0, (_WIDTH - start) * row.value / most)
        parts.append(
            f'<text x="{_LABEL - 8}" y="{y + 16}" class="label end">{_named(row.label)}</text>'
            f'<text x="{_LABEL}" y="{y + 16}" class="number">{escape(words)}</text>'
            f'<rect x="{start}" y="{y + 3}" width="{width:.1f}" height="{_ROW - 7}" rx="2" class="{kind}"/>'
        )
    return _svg("bars", _ROW * len(rows) + 4, parts)


class Range(NamedTuple):
    """A value with its interval; `note` stands after its number."""

    label: str
    value: float
    low: float
    high: float
    note: str = ""


def ranges(rows: Sequence[Range], *, low: float, high: float, unit: str, mark: float | None = None) -> str:
    """Values as points on one scale, each on its interval; `mark` is a line, such as one at no difference."""
    if not rows:
        return _nothing()
    numbers = [
        f"{row.value:+.1f} {row.note}".strip() if low < 0 else f"{row.value:.1f} {row.note}".strip() for row in rows
    ]
    left = _LABEL + _GAP + max(sum(map(_width, words)) for words in numbers) + 8
    scale = (_WIDTH - 12 - left) / (high - low or 1)

    def place(value: float) -> float:
        return left + (min(max(value, low), high) - low) * scale

    base = _ROW * len(rows) + 6
    parts = [f'<line x1="{left}" y1="{base}" x2="{_WIDTH - 12}" y2="{base}" class="axis"/>']
    if mark is not None:
        parts.append(f'<line x1="{place(mark):.1f}" y1="0" x2="{place(mark):.1f}" y2="{base}" class="mark"/>')
    for number, (row, words) in enumerate(zip(rows, numbers, strict=True)):
        y = number * _ROW + 12
        title = f"{row.value:.2f}, from {row.low:.2f} to {row.high:.2f} {unit}"
        parts.append(
            f'<text x="{_LABEL - 8}" y="{y + 4}" class="label end">{_named(row.label)}</text>'
            f'<text x="{_LABEL}" y="{y + 4}" class="number">{escape(words)}</text>'
            f'<rect x="{place(row.low):.1f}" y="{y - 1.5}" width="{max(1.0, place(row.high) - place(row.low)):.1f}" '
            f'height="3" class="main"><title>{escape(title)}</title></rect>'
            f'<circle cx="{place(row.value):.1f}" cy="{y}" r="5" class="main"/>'
        )
    step = _step((high - low) / 5 or 1)
    tick = math.ceil(low / step - 1e-9) * step
    while tick <= high + 1e-9:
        parts.append(f'<text x="{place(tick):.1f}" y="{base + 16}" class="tick middle">{_number(tick)}</text>')
        tick += step
    parts.append(f'<text x="{(left + _WIDTH) / 2:.0f}" y="{base + 34}" class="tick middle">{escape(unit)}</text>')
    return _svg("bars", base + 42, parts)


def histogram(values: Sequence[float], unit: str, *, mark: float | None = None, least: float | None = None) -> str:
    """How many values lie where; `mark` is a line, such as a threshold."""
    if not values:
        return _nothing()
    low = min(values) if least is None else least
    high = max(max(values), low if mark is None else mark)
    step = _step((high - low) / _BINS or 1)
    start = math.floor(low / step) * step
    count = max(1, math.ceil((high - start) / step - 1e-9))  # the last bin holds its upper bound, too
    bins = [0] * count
    for value in values:
        bins[min(count - 1, int((value - start) / step + 1e-9))] += 1
    return _svg("histogram", _PLOT + 56, _histogram_parts(bins, start, step, unit, mark))


def _histogram_parts(bins: Sequence[int], start: float, step: float, unit: str, mark: float | None) -> list[str]:
    left, right, top = 46, 12, 12
    width, most = (_WIDTH - left - right) / len(bins), max(bins)
    base = top + _PLOT
    parts = [
        f'<text x="{left - 6}" y="{base + 4}" class="tick end">0</text>',
        f'<text x="{left - 6}" y="{top + 8}" class="tick end">{_number(most)}</text>',
        f'<line x1="{left}" y1="{base}" x2="{_WIDTH - right}" y2="{base}" class="axis"/>',
    ]
    for number, value in enumerate(bins):
        height = max(1.0, _PLOT * value / most) if value else 0.0
        x = left + number * width
        words = f"{_number(start + number * step)} to {_number(start + (number + 1) * step)}: {value}"
        parts.append(
            f'<rect x="{x + 0.5:.1f}" y="{base - height:.1f}" width="{max(1.0, width - 1):.1f}" height="{height:.1f}" '
            f'class="main"><title>{escape(words)}</title></rect>'
        )
    every = max(1, len(bins) // 4)
    ticks = [tick for tick in range(0, len(bins), every) if len(bins) - tick >= 0.8 * every] + [len(bins)]
    for tick in ticks:
        anchor = "end" if tick == len(bins) else "start" if tick == 0 else "middle"
        x, words = left + tick * width, _number(start + tick * step)
        parts.append(f'<text x="{x:.1f}" y="{base + 16}" class="tick {anchor}">{words}</text>')
    parts.append(f'<text x="{(left + _WIDTH) / 2:.0f}" y="{base + 34}" class="tick middle">{escape(unit)}</text>')
    if mark is not None:
        x = left + (mark - start) / step * width
        parts.append(f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{base}" class="mark"/>')
    return parts


def _svg(kind: str, height: int, parts: Sequence[str]) -> str:
    return f'<div class="plot"><svg class="{kind}" viewBox="0 0 {_WIDTH} {height}">{"".join(parts)}</svg></div>'


def _nothing() -> str:
    return '<p class="nothing">Nothing to show.</p>'


def _step(wanted: float) -> float:
    """The next of 1, 2, 2.5, 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(wanted))
    # The slack keeps 0.30000000000000004 from the next larger step.
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= wanted * (1 - 1e-9))


def _number(value: float) -> str:
    if abs(value - round(value)) < 1e-9:
        return f"{round(value):,}".replace(",", "\u202f")
    return f"{value:.3g}"


def _named(label: str) -> str:
    """A label that fits beside its bar, with the whole of it as a title where it does not."""
    shown = _short(label)
    return escape(shown) if shown == label else f"{escape(shown)}<title>{escape(label)}</title>"


def _short(label: str) -> str:
    # By estimated pixels: Chinese letters are twice as broad as Latin ones.
    room, width = _LABEL - 12, 0
    for place, character in enumerate(label):
        width += _width(character)
        if width > room:
            return label[: max(0, place - 1)] + "…"
    return label


def _width(character: str) -> int:
    """Pixels of a character in a broad font of 12."""
    if unicodedata.east_asian_width(character) in "WF" or character in "MWmw@%":
        return 12
    return 5 if character in "fijlrt-.,:;|' " else 10 if character.isupper() else 8


_STAGE_WORDS: Final = {
    "read": "read",
    "parse": "one line, one input",
    "inputs": "have inputs",
    "run": "ran, and were traced",
    "compare": "agree with the source",
    "smaller": "told whole, or with a smaller input",
    "quality": "worth learning from",
    "duplicates": "not a copy",
    "contamination": "in no benchmark",
    "narrate": "told",
    "prove": "no claim fails",
    "tasks": "kept",
}
_MOST_GROUPS: Final = 12
_RATES: Final = {
    "runnable": "items that run, with one answer under two hash seeds",
    "complete_traces": "of these, with a complete trace",
    "deterministic": "answers that do not depend on the hash seed",
    "stable_traces": "traces that do not depend on it either",
    "agree_with_recorded": "answers that agree with the recorded ones",
    "proven_claims": "claims of the dataset that a trace proves",
    "proven_claims_before_dropping": "the same of tellings as the narrator made them",
    "understood_sentences": "sentences with a claim that holds",
    "folded_traces": "traces with folded loops or calls",
    "traces_with_opaque_values": "traces with values of which only the type is known",
    "traces_with_elided_values": "traces with values that are not shown whole",
}
_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1d2430; --soft: #667085; --line: #d9dee7; --paper: #fff; --card: #f6f8fb;
  --main: #3567b5; --bad: #b4533c; }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --soft: #98a2b3; --line: #313a48;
  --paper: #12161d; --card: #1a2029; --main: #6d9be0; --bad: #de8468; } }
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1360px; margin: 0 auto; padding: 28px 24px 60px; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 16px; margin: 0 0 10px; }
.lead { color: var(--soft); margin: 0 0 20px; }
.numbers { display: flex; flex-wrap: wrap; gap: 12px; margin: 0 0 24px; }
.numbers div { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 10px 16px; }
.numbers b { display: block; font-size: 22px; font-variant-numeric: tabular-nums; }
.numbers span { color: var(--soft); }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(558px, 100%), 1fr));
  gap: 18px; align-items: start; }
section { border: 1px solid var(--line); border-radius: 8px; padding: 16px 18px; min-width: 0; }
section p { color: var(--soft); margin: 0 0 10px; font-size: 13px; }
.plot { overflow-x: auto; } svg { width: 100%; max-width: 760px; height: auto; display: block; }
svg.bars { min-width: 520px; }
svg text { font: 12px system-ui, sans-serif; fill: var(--ink); } svg .tick { fill: var(--soft); font-size: 11px; }
.end { text-anchor: end; } .middle { text-anchor: middle; } .start { text-anchor: start; }
.main { fill: var(--main); } .bad { fill: var(--bad); } .axis { stroke: var(--line); }
.mark { stroke: var(--bad); stroke-width: 2; stroke-dasharray: 4 3; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
td { padding: 3px 0; border-bottom: 1px solid var(--line); font-size: 13px; }
td:last-child { text-align: right; padding-left: 12px; white-space: nowrap; }
details { border: 1px solid var(--line); border-radius: 8px; padding: 10px 16px; margin: 0 0 10px; }
summary { cursor: pointer; } pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 12.5px; }
.who { color: var(--soft); font-weight: 600; margin: 10px 0 0; }
@media (max-width: 520px) { svg.histogram text { font-size: 20px; transform: translateY(5px); }
  main { padding: 20px 14px 40px; } }
.examples { margin-top: 28px; }
@media print { :root { color-scheme: light; print-color-adjust: exact; } section { break-inside: avoid; } }
"""


def page(facts: Mapping[str, Any], statistics: BuildStatistics, decisions: FilterDecisions) -> str:
    """The whole page. Texts of programs and problems are shown as texts, whatever they hold."""
    lead = (
        "Every sample comes from a run in a sandbox. Every claim in it was checked against the trace of that run, and "
        "none failed; those that are not proven speak of what a trace does not hold."
    )
    sections = "".join(_sections(facts, statistics, decisions))
    examples = "".join(map(example, statistics.examples.values()))
    first = f'<div class="examples"><h2>The first sample of each task</h2>{examples}</div>'
    return document("Dataset report", lead, _numbers(facts), f'<div class="plots">{sections}</div>{first}')


def document(title: str, lead: str, numbers: Sequence[tuple[int, str]], body: str) -> str:
    """A page of a report, as HTML.

    Args:
        numbers: The most important ones, each with its words.
        body: HTML.
    """
    cells = "".join(f"<div><b>{thousands(number)}</b><span>{words}</span></div>" for number, words in numbers)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy()}"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<style>{_STYLE}</style></head><body><main><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p>'
        f'<div class="numbers">{cells}</div>{body}</main></body></html>\n'
    )


# The style sheet is allowed by its digest, so that no word of a program can bring another one.
def _policy() -> str:
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def _numbers(facts: Mapping[str, Any]) -> list[tuple[int, str]]:
    claims = facts["claims"]
    return [
        (facts["items"], "items read"),
        (facts["runnable"], "run, with one answer"),
        (facts["traced"], "recorded completely"),
        (facts["kept"], "kept"),
        (facts["samples"], "samples"),
        (claims["proven"], f"of {thousands(claims['total'])} claims proven"),
    ]


def _sections(facts: Mapping[str, Any], statistics: BuildStatistics, decisions: FilterDecisions) -> list[str]:
    measures = statistics.measures
    reasons = sorted(facts["dropped"].items(), key=lambda each: (-each[1], each[0]))
    sizes = facts["duplicates"]["groups"]
    unit, key = (
        (f"tokens of {facts['tokens']['tokenizer']}", "tokens") if "tokens" in facts else ("characters", "chars")
    )
    findings = [each.containment for each in decisions.findings.values()]

    def counted(title: str, words: str, measure: str, unit: str) -> str:
        return section(title, f"How many {words}.", histogram(measures[measure], unit, least=0))

    return [
        section("Yield by stage", "Items that are left after each stage.", bars(_yield(facts))),
        section("Why items were dropped", "Each dropped item has one reason.", bars(_rows(reasons), kind="bad")),
        section("Rates", _mended(facts["mended"]), _rates(facts["rates"])),
        section("Tasks", "Samples by what is asked.", bars(_rows(facts["samples_by_task"].items()))),
        counted("Length of prompts", "samples have which length", f"prompt_{key}", unit),
        counted("Length of replies", "samples have which length", f"reply_{key}", unit),
        counted(
            "Repetition in replies",
            "samples have which share of runs of eight words that the same reply had before",
            "repeated",
            "share",
        ),
        counted(
            "Compressed size of replies",
            "samples have which size, as a share of the text's; 0 is nothing but repetition",
            "compressed",
            "share",
        ),
        counted(
            "Difficulty",
            "samples have which logarithm of the lines that ran and of the depth of calls",
            "difficulty",
            "log₂ of lines × depth",
        ),
        counted(
            "Coverage", "programs have which share of their lines reached by their inputs together", "coverage", "share"
        ),
        section(
            "Near-duplicate programs",
            _groups(len(sizes)),
            bars([Bar(f"group {number}", size, "programs") for number, size in enumerate(sizes[:_MOST_GROUPS], 1)]),
        ),
        section(
            "Contamination",
            "How many problems have which share of a benchmark's program or text, the largest of each; "
            f"dropped from {decisions.containment} on. Nothing is compared without --benchmark.",
            histogram(findings, "share", mark=decisions.containment, least=0),
        ),
        section("Styles", "Samples by the style of the telling.", bars(_rows(facts["samples_by_style"].items()))),
        section("Splits", "No problem is in two of them.", bars(_splits(facts))),
        section("Sources", "Samples by file.", bars(_rows(_most(facts["samples_by_source"])))),
        section("Licences", "Samples by licence.", bars(_rows(_most(facts["samples_by_licence"])))),
    ]


def shortened(text: str, most_chars: int) -> str:
    """A text, or the beginning of it with the number of characters that are not shown."""
    return text if len(text) <= most_chars else f"{text[:most_chars]}… {len(text) - most_chars} characters more"


def section(title: str, words: str, content: str) -> str:
    """A part of the body; `content` is HTML."""
    return f"<section><h2>{escape(title)}</h2>{f'<p>{escape(words)}</p>' if words else ''}{content}</section>"


def _yield(facts: Mapping[str, Any]) -> list[Bar]:
    whole = facts["items"] or 1
    return [
        Bar(_STAGE_WORDS[stage], facts["yield"][stage], f"({100 * facts['yield'][stage] / whole:.1f} %)")
        for stage in ("read", *STAGES)
    ]


def _rows(pairs: Any) -> list[Bar]:
    return [Bar(name, value) for name, value in pairs]


def _most(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    rest = sum(count for _, count in ordered[15:])
    return [*ordered[:15], *([("others", rest)] if rest else [])]


def _splits(facts: Mapping[str, Any]) -> list[Bar]:
    problems, samples = facts["problems_by_split"], facts["samples_by_split"]
    found = (name for name in SPLITS if name in samples)
    return [
        Bar(name, samples[name], f"({problems[name]} problem{'' if problems[name] == 1 else 's'})") for name in found
    ]


def _groups(count: int) -> str:
    """How many groups of near-duplicates there are, and how many of them are shown."""
    words = "1 group of programs that are" if count == 1 else f"{count} groups of programs that are"
    more = f" The {_MOST_GROUPS} largest are shown." if count > _MOST_GROUPS else ""
    return f"{words} alike; one of each was kept.{more}"


def _mended(mended: Mapping[str, Any]) -> str:
    if not mended["sentences"]:
        return ""
    return f"{mended['sentences']} sentences that could not be proven are left out of {mended['items']} tellings."


def _rates(rates: Mapping[str, float | None]) -> str:
    cells = ((words, rates[name]) for name, words in _RATES.items())
    rows = (f"<tr><td>{escape(words)}</td><td>{_percent(rate)}</td></tr>" for words, rate in cells)
    return f"<table>{''.join(rows)}</table>"


def _percent(rate: float | None) -> str:
    return "–" if rate is None else f"{100 * rate:.2f} %"


def example(sample: Sample) -> str:
    """A sample to be opened, as HTML."""
    return (
        f"<details><summary>{escape(sample.task)} · {escape(sample.item)}</summary>"
        f'<p class="who">user</p><pre>{escape(sample.prompt)}</pre>'
        f'<p class="who">assistant</p><pre>{escape(sample.reply)}</pre></details>'
    )


def thousands(number: int) -> str:
    """A number that can be read at a glance."""
    return f"{number:,}".replace(",", "\u202f")
