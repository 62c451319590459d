"""A conversation as a page: the question, each program with what it showed, the answer and what bears it out.

What a model or a guest wrote is shown as escaped text and as pictures that are pictures by their first bytes; nothing
of it is HTML. The policy in the page's head allows the one style sheet and pictures inside the page, no script and no
connection, so that even a mistake in escaping could neither run nor fetch anything.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, Final

from groundbox.agent.events import Ended, Ending, Event, Noticed, Observed, Replied, Started
from groundbox.agent.observation import ROLLED_BACK, is_undone
from groundbox.agent.pictures import pictures_of
from groundbox.agent.turn import Verdict
from groundbox.execution import Execution, Warning
from groundbox.unseen import visible

MOST_TEXT: Final = 20_000
"""Characters of one text, after which its middle is left out and counted."""
MOST_ROWS: Final = 50
_TABLE: Final = "application/vnd.dataresource+json"
NOTICES: Final = {
    "malformed": "the reply could not be used, and the model is told why",
    "read": "the model reads more of what a program printed",
    "restart": "the sandbox was started afresh, and the model is told",
    "promise": "the model says what it will do, and is told to do it",
    "busy": "the state cannot be copied now, and the model is told why",
    "kept": "the model goes on from one of them",
    "mend": "something in the answer was shown by no program, and the model is asked to mend it",
}
"""What each kind of `Noticed` is, in words."""
_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1d2430; --soft: #5d6776; --line: #d9dee7; --paper: #f5f6f8; --card: #fff;
  --code: #f3f5f8; --good: #1a7f4b; --bad: #b3372f; --look: #8a5a00; --mine: #e8effa; }
@media screen and (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --soft: #98a2b3; --line: #313a48;
  --paper: #12161d; --card: #1a2029; --code: #131922; --good: #4cc38a; --bad: #f0817a; --look: #e2b04a;
  --mine: #1d2a3f; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, "DejaVu Sans", sans-serif; }
main { max-width: 58rem; margin: 0 auto; padding: 2rem 1.1rem 4rem; }
h1 { font-size: 1.35rem; margin: 0 0 .4rem; overflow-wrap: anywhere; white-space: pre-wrap; }
h2 { font-size: .95rem; margin: 0; }
.soft { color: var(--soft); } .about { color: var(--soft); margin: 0 0 1.4rem; overflow-wrap: anywhere; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; margin: 0 0 1rem;
  padding: .9rem 1.1rem; }
.undone { border-style: dashed; }
.tried h2 { margin-bottom: .7rem; }
.tried { border: 1px dashed var(--line); border-radius: 10px; margin: 0 0 1rem; padding: .9rem .9rem 0; }
.beside { display: grid; gap: 0 .8rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 17rem), 1fr)); }
.beside section { min-width: 0; } .beside .kept { border: 2px solid var(--good); } .beside .left { background: none; }
.says { background: var(--mine); white-space: pre-wrap; overflow-wrap: anywhere; }
.answer { border: 2px solid var(--good); } .answer.none { border-color: var(--bad); }
.text { white-space: pre-wrap; overflow-wrap: anywhere; margin: .4rem 0 0; }
pre { background: var(--code); border-radius: 6px; margin: .6rem 0 0; padding: .6rem .8rem; white-space: pre-wrap;
  overflow-wrap: anywhere; font: 13px/1.5 ui-monospace, "DejaVu Sans Mono", Menlo, monospace; }
pre.bad { border-left: 3px solid var(--bad); }
.good { color: var(--good); } b.bad { color: var(--bad); } b.look { color: var(--look); }
.note { border-left: 3px solid var(--look); margin: .6rem 0 0; padding: 0 .8rem; overflow-wrap: anywhere; }
.label { color: var(--soft); font-size: .85rem; margin: .7rem 0 0; }
summary { cursor: pointer; color: var(--soft); font-size: .85rem; margin-top: .7rem; }
.wide { overflow-x: auto; margin: .6rem 0 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .875rem; }
td, th { padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--line); text-align: left; white-space: nowrap; }
td.number { text-align: right; }
img { display: block; max-width: 100%; margin: .6rem 0 0; border-radius: 6px; background: #fff; }
ul { margin: .5rem 0 0; padding-left: 1.2rem; overflow-wrap: anywhere; }
@media print { section { break-inside: avoid; } details:not([open]) { display: none; } }
"""


def page(question: str, model: str, files: Iterable[str], events: Sequence[Event]) -> str:
    """The whole page of what has happened so far; a conversation that was cut off has no answer in it.

    Args:
        model: Who answered, in words.
        files: Paths in the working folder that the question came with.
    """
    given = ", ".join(sorted(files))
    about = f"Asked {model}" + (f", with {given}" if given else "")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy()}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        f"<title>{_text(question[:80])}</title><style>{_STYLE}</style></head><body><main>\n"
        f'<h1>{_text(question)}</h1>\n<p class="about">{_text(about)}</p>\n'
        f"{''.join(_sections(events))}</main></body></html>\n"
    )


def _policy() -> str:
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    return f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def _sections(events: Sequence[Event]) -> Iterator[str]:
    kept = {event.run for event in events if isinstance(event, Noticed)}
    for event in events:
        if isinstance(event, Replied) and event.reply.calls and event.reply.text.strip():
            yield f'<section class="says">{_text(event.reply.text.strip())}</section>\n'
        elif isinstance(event, Observed) and event.beside:
            yield from _tried(event, is_kept=event.run in kept)
        elif isinstance(event, Observed):
            yield _section(event, "undone" if is_undone(event.execution) else "")
        elif isinstance(event, Noticed):
            words = NOTICES.get(event.kind, event.kind)
            title = _text(words[:1].upper() + words[1:])
            yield f'<section><p class="label">{title}</p><pre>{_cut(event.text)}</pre></section>\n'
        elif isinstance(event, Ended):
            yield _answer(event)
    last = events[-1] if events else None
    if not isinstance(last, Ended):
        where = f" while program {last.run} ran" if isinstance(last, Started) else ""
        yield f'<section class="answer none"><h2>No answer</h2>The conversation was cut off{where}.</section>\n'


def _tried(event: Observed, *, is_kept: bool) -> Iterator[str]:
    """One of the programs that were tried side by side, as one card of a row."""
    if event.run == event.beside[0]:
        title = f"{len(event.beside)} programs, each tried on a copy of the variables and files"
        yield f'<div class="tried"><h2>{title}</h2><div class="beside">\n'
    yield _section(event, "kept" if is_kept else "left")
    if event.run == event.beside[-1]:
        yield "</div></div>\n"


def _section(event: Observed, kind: str) -> str:
    of_kind = f' class="{kind}"' if kind else ""
    then = {
        "kept": '<b class="good">gone on from</b>: variables and files are as it left them',
        "left": "not gone on from: its variables and files are gone",
        "undone": '<b class="look">taken back</b>: variables and files are as before it',
    }.get(kind)
    return f"<section{of_kind}>{''.join(_run(event))}{f'<p class=label>{then}</p>' if then else ''}</section>\n"


def _run(event: Observed) -> Iterator[str]:
    execution = event.execution
    yield f"<h2>Program {event.run}, in {_text(execution.language)}</h2>"
    yield f"<pre>{_cut(event.source.strip(chr(10)))}</pre>"
    for label, text in (("It printed", execution.stdout), ("It printed as an error", execution.stderr)):
        if text.strip():
            yield f'<p class="label">{label}</p><pre>{_cut(text.rstrip())}</pre>'
    for display in execution.displays:
        if not (display.png or display.jpeg):
            yield _bundle(display.data)
    if execution.value is not None:
        yield f'<p class="label">Its result</p>{_bundle(execution.value)}'
    for picture in pictures_of(execution)[0]:
        data = base64.b64encode(picture.data).decode()
        yield f'<img src="data:{picture.media_type};base64,{data}" alt="{_text(picture.name)}">'
    if execution.error is not None:
        error = execution.error
        yield f'<pre class="bad">{_cut(error.traceback or f"{error.type}: {error.message}")}</pre>'
        yield from (f'<p class="note">{_text(hint)}</p>' for hint in error.hints)
    yield from map(_finding, [*(each for each in execution.warnings if each.code != ROLLED_BACK), *event.findings])
    yield "" if is_undone(execution) else _files(execution)
    yield f'<p class="label">{_judged(event)}</p>'
    seen = _cut(event.observation.text)
    yield f"<details><summary>What the model was shown of it</summary><pre>{seen}</pre></details>"


def _judged(event: Observed) -> str:
    took = f"{event.execution.usage.wall_s:.1f} s"
    if event.execution.ok and doubted(event):
        return f'<b class="look">ran, and a check doubts its result</b>, {took}'
    if event.decision.verdict is Verdict.ACCEPT and event.execution.ok:
        return f'<b class="good">ran well</b>, {took}'
    if event.execution.ok:
        return f'<b class="look">ran, and was sent back to the model</b>: {_text(event.decision.why)}, {took}'
    return f'<b class="bad">failed</b> ({_text(event.execution.outcome)}), and the model was told why, {took}'


def doubted(event: Observed) -> bool:
    """Whether a run that is gone on from has a finding that its result may be wrong."""
    findings = [*event.execution.warnings, *event.findings]
    return event.decision.verdict is Verdict.ACCEPT and any(finding.tier == "warn" for finding in findings)


def _finding(finding: Warning) -> str:
    sure = "This is wrong" if finding.tier == "error" else "This may be wrong" if finding.tier == "warn" else "Note"
    hint = f" {_text(finding.hint)}" if finding.hint else ""
    return f'<p class="note"><b class="look">{sure}</b>: {_text(finding.message)}.{hint}</p>'


def _files(execution: Execution) -> str:
    rows = [
        f"<li>{_text(path)} ({artifact.size_bytes:,} bytes, {_text(artifact.media_type)})</li>"
        for path, artifact in execution.artifacts.items()
    ]
    return f'<p class="label">Files that it wrote</p><ul>{"".join(rows)}</ul>' if rows else ""


def _bundle(data: Mapping[str, Any]) -> str:
    """A table where there is one, else the text; pictures are shown by themselves."""
    if (table := _table(data.get(_TABLE))) is not None:
        return table
    text = data.get("text/plain")
    return f"<pre>{_cut(str(text))}</pre>" if text is not None else ""


def _table(resource: Any) -> str | None:
    """A table of the guest's data as a table of our own making; None where it is not of the form that it should be."""
    try:
        names = [str(field["name"]) for field in resource["schema"]["fields"]]
        rows = [[row.get(name) for name in names] for row in resource["data"][:MOST_ROWS]]
        hidden = len(resource["data"]) - len(rows)
    except (TypeError, LookupError, AttributeError):
        return None
    head = "".join(f"<th>{_text(name[:100])}</th>" for name in names)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    more = f'<p class="label">… {hidden:,} more rows …</p>' if hidden > 0 else ""
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{more}'


def _cell(value: Any) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    text = "" if value is None else str(value)
    shown = text if len(text) <= 200 else f"{text[:199]}…"
    return f"<td{' class=number' if number else ''}>{_text(shown)}</td>"


def _answer(ended: Ended) -> str:
    parts = []
    if ended.answer is not None:
        parts.append(f'<section class="answer"><h2>Answer</h2><div class="text">{_text(ended.answer)}</div>')
    else:
        parts.append(f'<section class="answer none"><h2>No answer</h2><div class="text">{_text(ended.why)}</div>')
    if ended.unsupported:
        claims = "".join(f"<li>{_text(warning.message)}</li>" for warning in ended.unsupported)
        parts.append(f'<p class="note"><b class="look">No program showed this</b></p><ul>{claims}</ul>')
    elif ended.ending is Ending.ANSWERED and ended.receipts is not None:
        parts.append('<p class="label"><b class="good">A program showed all of it that could be checked</b></p>')
    elif ended.ending is Ending.ANSWERED:
        parts.append('<p class="label">Its claims were not compared with what the programs showed.</p>')
    spent = ended.spent
    cost = "" if ended.dollars is None else f", ${ended.dollars:.4f}"
    parts.append(
        f'<p class="label">{spent.turns} replies, {spent.runs} programs, {spent.tokens:,} tokens{cost}, '
        f"{spent.wall_s:.1f} s</p></section>\n"
    )
    return "".join(parts)


def _cut(text: str) -> str:
    """A text of any length, escaped, with its middle left out where it is long."""
    if len(text) <= MOST_TEXT:
        return _text(text)
    half = MOST_TEXT // 2
    return f"{_text(text[:half])}\n… {len(text) - 2 * half:,} characters more …\n{_text(text[-half:])}"


def _text(text: str) -> str:
    return escape(visible(str(text)))
