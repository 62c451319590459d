"""A proof as a page: each sentence green, red or grey, and the record that decided one click away.

It has no script, and fetches nothing: all of the text and of the program is shown as text.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final

import msgspec

from groundbox.trace.claims.model import Proof, Status, Verdict
from groundbox.trace.record.reading import Trace
from groundbox.unseen import visible

_MOST_RECORD: Final = 2000
_MOST_LINE: Final = 200
_MOST_NAMES: Final = 20
_MOST_RECORDS: Final = 100_000
"""A longer run is shown without the values that names had at a record."""
_WORDS: Final = {
    Status.SUPPORTED: "supported",
    Status.REFUTED: "refuted",
    Status.NOT_FOUND: "not found in the record",
    Status.OFF_PROGRAM: "not about this run",
}
_STYLE: Final = """
:root { color-scheme: light dark; --line: #8886; --good: #1a7f37; --bad: #cf222e; --none: #6e7781; }
@media (prefers-color-scheme: dark) { :root { --good: #4ac26b; --bad: #ff7b72; --none: #9198a1; } }
body { font: 16px/1.6 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; }
pre, code { font-family: ui-monospace, monospace; font-size: .9em; white-space: pre-wrap; overflow-wrap: anywhere; }
.told { border-left: .35rem solid var(--none); margin: .3rem 0; padding: .1rem .8rem; white-space: pre-wrap; }
.told.supported { border-color: var(--good); } .told.refuted { border-color: var(--bad); }
b { color: var(--none); } .supported b { color: var(--good); } .refuted b { color: var(--bad); }
mark { background: none; text-decoration: underline wavy var(--none); color: inherit; }
details { margin: .2rem 0 .2rem 1rem; font-size: .92em; } summary { cursor: pointer; }
"""


def page(proof: Proof, trace: Trace, *, title: str = "A text held against a run") -> str:
    """The whole page.

    Args:
        title: Shown as text.
    """
    numbers = proof.to_dict()["numbers"]
    counts = ", ".join(f"{proof.count(status)} {_WORDS[status]}" for status in Status)
    told = {True: "it tells the result", False: "it tells another result", None: "it tells no result"}[proof.answer]
    verdict = "The text passes" if proof.passes else "The text does not pass"
    covered = f"{numbers['covered']} of {numbers['total']} numbers are borne out"
    lead = f"{verdict}: {told}; claims: {counts}; {covered}{_more(proof)}."
    loose = _loose(proof)
    rows: dict[int, list[Verdict]] = {}
    for found in proof.verdicts:
        rows.setdefault(found.claim.sentence, []).append(found)
    body = "".join(_sentence(proof, trace, n, rows.get(n, ()), loose) for n in range(len(proof.sentences)))
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width">'
        f"<title>{_text(title)}</title><style>{_STYLE}</style><h1>{_text(title)}</h1><p>{_text(lead)}</p>"
        "<p>Green: borne out by the record. Red: the record shows otherwise. Grey: nothing that was found either way. "
        f"What nothing bears out is <mark>underlined</mark>.</p>{body}"
        f"<h2>The program</h2><pre>{_text(trace.source)}</pre></html>"
    )


def _sentence(
    proof: Proof, trace: Trace, number: int, verdicts: Sequence[Verdict], loose: Sequence[tuple[int, int]]
) -> str:
    start, end = proof.sentences[number]
    claims = "".join(_claim(proof, trace, verdict) for verdict in verdicts)
    place = "<p>It goes back, or tells something twice.</p>" if number in proof.misplaced else ""
    place += "<p>Before it an update is left out.</p>" if number in proof.gaps else ""
    return f'<div class="told {_colour(verdicts)}">{"".join(_marked(proof, start, end, loose))}</div>{place}{claims}'


def _more(proof: Proof) -> str:
    """Reasons for which a text does not pass that stand in none of its numbers and claims."""
    counts = {
        "words that nothing bears out": sum(not word.covered for word in proof.words),
        "sentences that go back or tell something twice": len(proof.misplaced),
        "updates that are left out": len(proof.gaps),
    }
    return "".join(f"; {what}: {count}" for what, count in counts.items() if count)


def _loose(proof: Proof) -> list[tuple[int, int]]:
    """Numbers and words that nothing bears out, in their order, none of which overlap."""
    found: list[tuple[int, int]] = []
    for start, end in sorted((part.start, part.end) for part in (*proof.numbers, *proof.words) if not part.covered):
        if found and start < found[-1][1]:
            # Marks that overlap would have to be nested: they become one.
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def _marked(proof: Proof, start: int, end: int, loose: Sequence[tuple[int, int]]) -> Iterator[str]:
    at = start
    for place in range(bisect.bisect_left(loose, (start, start)), len(loose)):
        first, last = loose[place]
        if last > end:
            break
        yield f"{_text(proof.text[at:first])}<mark>{_text(proof.text[first:last])}</mark>"
        at = last
    yield _text(proof.text[at:end])


def _claim(proof: Proof, trace: Trace, verdict: Verdict) -> str:
    quote = proof.text[verdict.claim.start : verdict.claim.end]
    if verdict.claim.subject is not None and quote.strip("`'\" ").isalnum():
        quote = f"{verdict.claim.shown}: {quote}"  # a cell of a table, whose head is elsewhere
    why = f"<p>{_text(verdict.message)}</p>" if verdict.message else ""
    record = _record(trace, verdict.step) if verdict.step is not None else ""
    status = verdict.status
    return (
        f'<details class="{status}"><summary><b>{_WORDS[status]}</b>: <code>{_text(quote)}</code></summary>'
        f"{why}{record}</details>"
    )


def _record(trace: Trace, step: int) -> str:
    """A record, the line of the program that it is of, and the names that its frame had then."""
    record = trace.records[step]
    shown = msgspec.json.encode(record)[:_MOST_RECORD].decode("utf-8", "replace")
    parts = [f"<p>record {step}:</p><pre>{_text(shown)}"]
    lines = trace.source.splitlines()
    number, frame = getattr(record, "n", 0), getattr(record, "f", 0)
    if 0 < number <= len(lines):
        parts.append(f"\nline {number}: {_text(lines[number - 1].strip()[:_MOST_LINE])}")
    if frame and len(trace.records) <= _MOST_RECORDS:
        state = trace.state_at(step)
        for name, value in list(state.names(frame).items())[:_MOST_NAMES]:
            parts.append(f"\n{_text(name)} = {_text(state.text(value))}")
    return f"{''.join(parts)}</pre>"


def _colour(verdicts: Sequence[Verdict]) -> str:
    found = {verdict.status for verdict in verdicts}
    for status in (Status.REFUTED, Status.SUPPORTED):
        if status in found:
            return str(status)
    return ""


def _text(text: str) -> str:
    return escape(visible(text))
