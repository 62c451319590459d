"""Results as HTML for notebooks, in which nothing of a guest acts.

A notebook trusts what its own cells show, and would run a script in it. So nothing of a guest's markup goes out as it
came in. Texts are escaped, and what is not seen in them is written out. Pictures are in `<img>`, by their bytes: no
script runs there, not even an SVG's, and nothing is fetched. Of HTML, which is how tables come, the text is taken and
`harmless` builds elements anew from a list of names, balanced, with no attribute but the spans of cells; so there is no
script, style, link, form or address in it. All else (JavaScript, widgets, LaTeX) is shown by its text.
What is too large is left out, and its size is told.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from groundbox.unseen import visible

if TYPE_CHECKING:
    from groundbox.execution import Artifact, Display, Execution

MOST_TEXT_CHARS: Final = 20_000
MOST_HTML_CHARS: Final = 300_000
MOST_PICTURE_BYTES: Final = 8 * 1024 * 1024
MOST_BYTES: Final = 24 * 1024 * 1024
"""Of all pictures of one result: a notebook keeps what it shows in its file."""
MOST_SHOWN_CHARS: Final = 2_000_000
"""Of all displays of one result that are no pictures."""
_MOST_DEPTH: Final = 64
_MOST_SPAN: Final = 1000
_MOST_FILES: Final = 50
_PICTURES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
_SVG: Final = "image/svg+xml"
_TEXT: Final = "text/plain"
_JSON: Final = "application/json"
_LATEX_ACTS: Final = re.compile(
    r"\\(href|url|html\w*|class|css\w*|style|data|require|mmlToken|def|edef|gdef|xdef|let|(re)?newcommand|newenvironment"
    r"|DeclareMathOperator|csname|catcode|unicode|includegraphics)|[<&]"
)
"""Commands of LaTeX that make links or attributes, load others or name them anew; and what HTML begins with."""
_KEPT_NAMES: Final = """
    b blockquote br caption code dd div dl dt em h1 h2 h3 h4 h5 h6 hr i kbd li ol p pre s samp small span strong sub sup
    table tbody td tfoot th thead tr u ul
"""
_KEPT: Final = frozenset(_KEPT_NAMES.split())
_VOID: Final = frozenset({"br", "hr"})
_UNREAD_NAMES: Final = """
    head iframe math noembed noframes noscript object script select style svg template textarea title xmp
"""
_UNREAD: Final = {name: re.compile(f"</{name}", re.IGNORECASE) for name in _UNREAD_NAMES.split()}
"""Elements whose contents are no text of the page, and how they end."""
_MOST_TAG_CHARS: Final = 1024
_TAG: Final = re.compile(r"""<(/?)([a-zA-Z][a-zA-Z0-9]*+)((?:[^<>"']|"[^"]*+"|'[^']*+')*+)>""")
_SPAN: Final = re.compile(r"""\b(rowspan|colspan)\s*+=\s*+["']?([0-9]{1,4})\b""", re.IGNORECASE)
_FRAME: Final = "border-left:3px solid {};padding:2px 0 2px 10px;margin:2px 0"
_PRE: Final = "margin:4px 0;white-space:pre-wrap;max-height:30em;overflow:auto;background:none"
_QUIET: Final = "opacity:.7;font-size:90%"
_COLOURS: Final[Mapping[bool, str]] = {True: "#3a8f5c", False: "#c0392b"}


def of_execution(execution: Execution, *, streamed: bool = False) -> str:
    """All that a result tells: output, displays, value, failure with hints, warnings, files, times.

    Args:
        streamed: Output and displays have been shown while the run went on.
    """
    room = _Room()
    parts = [f'<div style="{_QUIET}">{_text(_summary(execution))}</div>']
    if not streamed:
        parts += [_pre(text, error=name == "stderr") for name, text in _streams(execution) if text]
        parts += _displays(execution.displays, room)
    if execution.value is not None:
        parts.append(_bundle(execution.value, None, room))
    parts += [*_failure(execution), *_warnings(execution), *_files(list(execution.artifacts.values()), room)]
    parts += [f'<div style="{_QUIET}">{_text(line)}</div>' for line in _left_out(execution)]
    return f'<div style="{_FRAME.format(_COLOURS[execution.ok])}">{"".join(parts)}</div>'


def of_display(display: Display) -> str:
    """One display: a picture, a table, or its text."""
    return _bundle(display.data, display.preview, _Room())


def of_artifacts(artifacts: Sequence[Artifact]) -> str:
    """A table of files, with the previews that there are."""
    return "".join(_files(artifacts, _Room()))


def picture_of(data: Mapping[str, Any]) -> tuple[str, str] | None:
    """Media type and base64 of the first picture of a bundle that is one by its letters, written anew; None without."""
    for mime in _PICTURES:
        content = data.get(mime)
        if isinstance(content, str) and len(content) <= 2 * MOST_PICTURE_BYTES:
            try:
                held = base64.b64decode("".join(content.split()), validate=True)
            except (ValueError, binascii.Error):
                continue
            return mime, base64.b64encode(held).decode()
    return None


def forms_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """A bundle for a notebook that trusts what its kernel shows: the forms of which nothing acts, HTML built anew.

    Text, JSON and pictures stay. An SVG stands in an `<img>`. LaTeX stays unless a command of it makes links or markup.
    Markdown, which may hold HTML, is its source as text; JavaScript, widgets, PDFs and whatever else has a renderer of
    its own are left out.
    """
    forms: dict[str, Any] = {mime: data[mime] for mime in (_TEXT, _JSON, *_PICTURES) if mime in data}
    page, svg, latex, source = (data.get(mime) for mime in ("text/html", _SVG, "text/latex", "text/markdown"))
    if isinstance(page, str) and len(page) <= MOST_HTML_CHARS and (built := harmless(page)).strip():
        forms["text/html"] = built
    elif isinstance(svg, str) and len(svg) <= MOST_PICTURE_BYTES and not any(mime in forms for mime in _PICTURES):
        encoded = base64.b64encode(svg.encode("utf-8", "replace")).decode()
        forms["text/html"] = f'<img src="data:{_SVG};base64,{encoded}">'
    if isinstance(latex, str) and len(latex) <= MOST_TEXT_CHARS and not _LATEX_ACTS.search(latex):
        forms["text/latex"] = latex
    if isinstance(source, str) and "text/html" not in forms:
        forms[_TEXT] = source
    return forms


def harmless(markup: str) -> str:
    """HTML with the text and the plain elements of a guest's HTML, built anew.

    Time is linear: a tag is looked for once, where it begins, and what a skipped element holds is stepped over.
    """
    out: list[str] = []
    opened: list[str] = []
    at, size = 0, len(markup)
    while at < size:
        begin = markup.find("<", at)
        begin = size if begin < 0 else begin
        if begin > at:
            out.append(_text(html.unescape(markup[at:begin])))
        if begin == size:
            break
        at = _taken(markup, begin, out, opened)
    out.extend(f"</{name}>" for name in reversed(opened))
    return "".join(out)


def _taken(markup: str, begin: int, out: list[str], opened: list[str]) -> int:
    """What to do with the `<` at `begin`; where to go on."""
    if markup.startswith(("<!", "<?"), begin):
        closing = "-->" if markup.startswith("<!--", begin) else ">"
        end = markup.find(closing, begin)
        return len(markup) if end < 0 else end + len(closing)
    tag = _TAG.match(markup, begin, begin + _MOST_TAG_CHARS)
    if tag is None:
        out.append("&lt;")
        return begin + 1
    closes, name = bool(tag[1]), tag[2].lower()
    if name in _UNREAD and not closes:
        end_tag = _UNREAD[name].search(markup, tag.end())
        end = -1 if end_tag is None else markup.find(">", end_tag.end())
        return len(markup) if end < 0 else end + 1
    if name in _KEPT:
        _write(name, closes, tag[3], out, opened)
    return tag.end()


def _write(name: str, closes: bool, attributes: str, out: list[str], opened: list[str]) -> None:
    if closes:
        if name in opened:
            while (innermost := opened.pop()) != name:
                out.append(f"</{innermost}>")
            out.append(f"</{name}>")
    elif name in _VOID:
        out.append(f"<{name}>")
    elif len(opened) < _MOST_DEPTH:
        spans = {key.lower(): int(number) for key, number in _SPAN.findall(attributes)} if name in ("td", "th") else {}
        shown = "".join(f' {key}="{number}"' for key, number in spans.items() if 0 < number <= _MOST_SPAN)
        out.append(f"<{name}{shown}>")
        opened.append(name)


class _Room:
    """Bytes of pictures that a result may still show."""

    def __init__(self) -> None:
        self._left = MOST_BYTES

    def image(self, mime: str, encoded: str, about: str) -> str:
        """The picture, or a line that says why it is not there."""
        size = len(encoded) * 3 // 4
        if size > min(self._left, MOST_PICTURE_BYTES):
            return (
                f'<div style="{_QUIET}">{_text(f"{about}: {size} bytes of {mime}, too large to be shown here")}</div>'
            )
        self._left -= size
        return f'<div><img style="max-width:100%" alt="{_text(about)}" src="data:{mime};base64,{encoded}"></div>'

    def png(self, data: bytes, about: str) -> str:
        """The same, of bytes."""
        return self.image("image/png", base64.b64encode(data).decode(), about)


def _displays(displays: Sequence[Display], room: _Room) -> Iterator[str]:
    """One after another, until the notebook's file would grow too large."""
    left = MOST_SHOWN_CHARS
    for number, display in enumerate(displays):
        if left <= 0:
            yield f'<div style="{_QUIET}">{len(displays) - number} more displays are in the result</div>'
            return
        shown = _bundle(display.data, display.preview, room)
        left -= 0 if "<img" in shown else len(shown)
        yield shown


def _bundle(data: Mapping[str, Any], preview: bytes | None, room: _Room) -> str:
    """The best form of a MIME bundle that can be shown without trusting it."""
    text = data.get("text/plain")
    text = text if isinstance(text, str) else ""
    about = text[:200] or "picture"
    if preview is not None:
        return room.png(preview, about)
    if (picture := picture_of(data)) is not None:
        return room.image(*picture, about)
    svg = data.get(_SVG)
    if isinstance(svg, str) and len(svg) <= MOST_PICTURE_BYTES:
        return room.image(_SVG, base64.b64encode(svg.encode("utf-8", "replace")).decode(), about)
    markup = data.get("text/html")
    if isinstance(markup, str) and "<table" in markup and len(markup) <= MOST_HTML_CHARS:
        return f'<div style="overflow-x:auto">{harmless(markup)}</div>'
    for mime in ("text/plain", "text/markdown", "text/latex", "text/html"):
        content = data.get(mime)
        if isinstance(content, str) and content:
            return _pre(content)
    named = ", ".join(sorted(data)) or "nothing"
    return f'<div style="{_QUIET}">{_text(f"not shown here: {named}"[:500])}</div>'


def _streams(execution: Execution) -> Iterator[tuple[str, str]]:
    yield "stdout", execution.stdout
    yield "stderr", execution.stderr


def _failure(execution: Execution) -> Iterator[str]:
    error = execution.error
    if error is None:
        return
    told = f"{error.type}: {error.message}"
    if error.traceback:
        yield _pre(error.traceback, error=True)
    if error.type not in error.traceback:
        yield _pre(told, error=True)
    if error.locals:
        yield _pre("\n".join(["where", *(f"    {name} = {value}" for name, value in error.locals.items())]))
    yield from (f"<div>💡 {_text(hint)}</div>" for hint in error.hints)


def _warnings(execution: Execution) -> Iterator[str]:
    for warning in execution.warnings:
        hint = f'<div style="{_QUIET}">{_text(warning.hint)}</div>' if warning.hint else ""
        colour = {"error": "#c0392b", "warn": "#d68910"}.get(warning.tier, "#7f8c8d")
        frame = f'style="{_FRAME.format(colour)}"'
        told = f"<b>{_text(warning.tier)}</b> {_text(warning.message)} <code>{_text(warning.code)}</code>"
        yield f"<div {frame}>{told}{hint}</div>"


def _files(artifacts: Sequence[Artifact], room: _Room) -> Iterator[str]:
    if not artifacts:
        return
    rows = [_row(each) for each in artifacts[:_MOST_FILES]]
    more = len(artifacts) - len(rows)
    rest = f'<div style="{_QUIET}">and {more} more files</div>' if more > 0 else ""
    yield f"<table><tbody>{''.join(rows)}</tbody></table>{rest}"
    yield from (room.png(each.preview, each.path) for each in artifacts[:_MOST_FILES] if each.preview is not None)


def _row(artifact: Artifact) -> str:
    cells = [f"<code>{_name(artifact.path)}</code>", f"{artifact.size_bytes:,} bytes"]
    cells += [_name(artifact.media_type), _name(artifact.about)]
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _left_out(execution: Execution) -> Iterable[str]:
    for name, count in execution.dropped_bytes.items():
        if count:
            yield f"{count} {'bytes of ' if name in ('stdout', 'stderr') else ''}{name} left out of the result"
    if execution.state == "lost":
        yield "the sandbox's process is gone and its variables with it; its files are kept"
    if execution.isolation.missing:
        yield f"run without {', '.join(execution.isolation.missing)}"


def _summary(execution: Execution) -> str:
    usage = execution.usage
    parts = [execution.outcome.value, execution.language, f"{usage.wall_s:.3g} s"]
    if usage.peak_memory_bytes is not None:
        parts.append(f"{usage.peak_memory_bytes / 2**20:.0f} MiB")
    return " · ".join(parts)


def _pre(text: str, *, error: bool = False) -> str:
    left_out = len(text) - MOST_TEXT_CHARS
    if left_out > 0:
        half = MOST_TEXT_CHARS // 2
        text = f"{text[:half]}\n… {left_out} characters not shown here …\n{text[-half:]}"
    frame = f";{_FRAME.format(_COLOURS[False])}" if error else ""
    return f'<pre style="{_PRE}{frame}">{_text(text)}</pre>'


def _name(text: str) -> str:
    """A name of a guest's, on one line."""
    return _text(text.replace("\n", "\\n").replace("\t", "\\t"))


def _text(text: str) -> str:
    return html.escape(visible(text))
