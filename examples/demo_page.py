"""The demo's page: all that happened, in one file that loads nothing.

What a guest made is shown as escaped text, as a picture, or, where it is HTML, in a frame that may run
no scripts and has an origin of its own. The page's policy forbids scripts and every connection besides.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from groundbox.cli import report
from groundbox.cli.terminal import bytes_text, plain

if TYPE_CHECKING:
    from pathlib import Path

    from demo import Also, Shown

    import groundbox as gb

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
STYLE = """
:root { color-scheme: light dark; --ink: #1c2330; --soft: #5c6675; --line: #dfe3ea; --page: #f5f6f8;
        --card: #fff; --code: #f3f5f8; --ok: #1a7f4b; --bad: #b3372f; --wait: #9a6200; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ee; --soft: #98a2b3; --line: #2c3442; --page: #12161d; --card: #191f29; --code: #131922;
          --ok: #4cc38a; --bad: #f0817a; --wait: #e2b04a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 2.5rem 1.25rem 5rem;
       background: var(--page); color: var(--ink); font: 16px/1.55 system-ui, "Segoe UI", sans-serif; }
h1 { font-size: 1.7rem; margin: 0 0 .3rem; } h2 { font-size: 1.1rem; margin: 0; }
header p, .about { color: var(--soft); margin: .25rem 0 0; }
article { background: var(--card); border: 1px solid var(--line); border-radius: 10px; margin-top: 1.5rem;
          padding: 1.25rem 1.4rem; overflow: hidden; }
pre { background: var(--code); border-radius: 6px; margin: .8rem 0 0; padding: .7rem .9rem; overflow-x: auto;
      font: 13px/1.5 ui-monospace, "DejaVu Sans Mono", Menlo, monospace; white-space: pre-wrap; }
pre.bad { border-left: 3px solid var(--bad); }
summary { cursor: pointer; color: var(--soft); font-size: .875rem; margin-top: .8rem; }
img { display: block; max-width: 100%; margin-top: .8rem; border-radius: 6px; background: #fff; }
iframe { display: block; width: 100%; border: 1px solid var(--line); border-radius: 6px; margin-top: .8rem;
         background: #fff; }
.hint { border-left: 3px solid var(--wait); margin: .8rem 0 0; padding: .1rem .8rem; }
.end { color: var(--soft); font-size: .85rem; margin: .8rem 0 0; }
.end b { color: var(--ok); } .end b.bad { color: var(--bad); } .end b.wait { color: var(--wait); }
nav { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(16rem, 100%), 1fr)); gap: .8rem;
      margin-top: 1.2rem; }
nav a { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: .8rem 1rem;
        text-decoration: none; } nav b { text-decoration: underline; }
.cell + .cell { border-top: 1px solid var(--line); margin-top: 1.2rem; padding-top: .3rem; }
ul { margin: .8rem 0 0; padding-left: 1.2rem; } a { color: inherit; }
"""
FRAME_STYLE = """<style>body{margin:12px;font:13px system-ui,sans-serif;color:#1c2330;background:#fff}
table{border-collapse:collapse;border:0}td,th{border:0;border-bottom:1px solid #dfe3ea;padding:4px 12px;
text-align:right}</style>"""


def page(shown: Sequence[Shown], also: Sequence[Also] = (), folder: Path | None = None) -> str:
    """The whole page.

    Args:
        also: Further pages, which it leads to.
        folder: Where it will stand; all that is there is listed at its end.
    """
    cards = "\n".join(_card(each) for each in shown)
    pages = "".join(_link(each, folder) for each in also) if folder is not None else ""
    files = _all_files(folder) if folder is not None else ""
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>groundbox: what the programs did</title>
<style>{STYLE}</style>
<header>
<h1>What the programs did</h1>
<p>Each ran in a sandbox of its own: no network, no files but its own, bounded time and memory.</p>
</header>
{f"<nav>{pages}</nav>" if pages else ""}
{cards}
{files}
</html>
"""


def _link(also: Also, folder: Path) -> str:
    address = quote(also.page.relative_to(folder).as_posix())
    return f"<a href='{address}'><b>{escape(also.kind)}</b><br>{_text(also.about)}</a>"


def _all_files(folder: Path) -> str:
    """Every file that was made, hidden ones aside."""
    found = (path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file())
    names = [path.as_posix() for path in found if not any(part.startswith(".") for part in path.parts)]
    rows = "".join(f"<li><a href='{quote(name)}'>{_text(name)}</a></li>" for name in names if name != "index.html")
    return f"<article>\n<h2>All files</h2>\n<ul>{rows}</ul></article>" if rows else ""


def _card(shown: Shown) -> str:
    cells = zip(shown.cells, shown.executions, shown.written, strict=True)
    parts = [
        _cell(shown.name, source, execution, number if len(shown.cells) > 1 else None)
        for number, (source, execution, _) in enumerate(cells, 1)
    ]
    title = escape(shown.name.partition("_")[2].replace("_", " ").capitalize())
    return f"<article>\n<h2>{title}</h2>\n<p class='about'>{escape(shown.about)}</p>\n{''.join(parts)}</article>"


def _cell(name: str, source: str, execution: gb.Execution, number: int | None) -> str:
    folder = name if number is None else f"{name}/cell-{number}"
    return f"<div class='cell'>{''.join(_parts(source, execution, folder))}</div>\n"


def _parts(source: str, execution: gb.Execution, folder: str) -> Iterator[str]:
    lines = len(source.splitlines())
    code = f"the code, {lines} line{'s' * (lines != 1)}"
    yield f"<details><summary>{code}</summary><pre>{escape(source)}</pre></details>"
    for text in (execution.stdout, execution.stderr):
        if text:
            yield f"<pre>{_text(text)}</pre>"
    for display in execution.displays:
        yield _bundle(display.data)
    if execution.value is not None:
        yield _bundle(execution.value)
    if execution.error is not None:
        error = execution.error
        yield f"<pre class='bad'>{_text(error.traceback or f'{error.type}: {error.message}')}</pre>"
        yield from (f"<p class='hint'>{_text(hint)}</p>" for hint in error.hints)
    yield _files(execution, folder)
    yield _end(execution)


def _bundle(data: Mapping[str, Any]) -> str:
    """The richest form that can be shown without trusting it."""
    for mime in ("image/png", "image/jpeg"):
        if isinstance(data.get(mime), str):
            encoded = base64.b64encode(base64.b64decode(data[mime])).decode()
            return f"<img src='data:{mime};base64,{encoded}' alt='{_text(str(data.get('text/plain', '')))}'>"
    if isinstance(data.get("text/html"), str):
        html = data["text/html"]
        height = min(420, 44 + 25 * html.count("<tr"))
        return f"<iframe sandbox height='{height}' srcdoc='{escape(FRAME_STYLE + html)}'></iframe>"
    return f"<pre>{_text(str(data.get('text/plain', '')))}</pre>"


def _files(execution: gb.Execution, folder: str) -> str:
    rows = [
        f"<li><a href='{quote(f'{folder}/{path}')}' download>{_text(path)}</a> "
        f"({bytes_text(artifact.size_bytes)}, {_text(artifact.media_type)})</li>"
        for path, artifact in execution.artifacts.items()
    ]
    return f"<ul>{''.join(rows)}</ul>" if rows else ""


def _end(execution: gb.Execution) -> str:
    outcome, _, rest = report.summary(execution).removeprefix("groundbox: ").partition(", ")
    kind = "" if execution.ok else " class='bad'" if execution.outcome == "error" else " class='wait'"
    return f"<p class='end'><b{kind}>{escape(outcome)}</b>, {escape(rest)}</p>"


def _text(text: str) -> str:
    return escape(plain(text))
