"""A page to step through a trace in a browser: one file, nothing fetched, nothing sent.

All that the guest wrote is data of the page: it stands in a JSON block that the browser does not run, and the page's
script shows it as text. The policy in the page's head allows this one script and this one style sheet, by their
hashes, and no connection to anywhere; so even a mistake in showing text could not run or send anything.

The page rebuilds states itself, from the records and keyframes that it keeps while it is read.
"""

from __future__ import annotations

import base64
import hashlib
import html as escaping
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from groundbox.trace.record import schema
from groundbox.trace.run.folding import Folding, all_hidden
from groundbox.trace.run.structure import Activation, Iteration, Node, Step

if TYPE_CHECKING:
    from groundbox.trace.record.reading import Trace

_FOLDER: Final = Path(__file__).with_name("page_assets")
_SCRIPTS: Final = ("state.js", "values.js", "graph.js", "tables.js", "outline.js", "view.js")
_ALSO_SHOWN: Final = (schema.Return, schema.Yield, schema.Raise, schema.Unwind)


def html(trace: Trace, *, title: str | None = None, folding: Folding | None = None) -> str:
    """The whole page.

    Args:
        title: By default the name of the program's file.
        folding: Which iterations the page leaves out at first; its reader can unfold them.
    """
    style = (_FOLDER / "page.css").read_text(encoding="utf-8")
    script = "\n".join((_FOLDER / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    script = f'"use strict";\n(() => {{\n{script}\n}})();\n'
    page = (_FOLDER / "page.html").read_text(encoding="utf-8")
    parts = {
        "POLICY": _policy(script, style),
        "TITLE": escaping.escape(_visible(title if title is not None else trace.header.filename)),
        "STYLE": style,
        "DATA": _json(_data(trace, folding or Folding())),
        "SCRIPT": script,
    }
    # Pieces with an odd index are names of parts; split once, so that no `@@` of a guest's text is taken for one.
    pieces = page.split("@@")
    return "".join(parts[piece] if index % 2 else piece for index, piece in enumerate(pieces))


def _policy(script: str, style: str) -> str:
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    # As a content security policy has it: of the very text between the tags.
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _visible(text: str) -> str:
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _json(data: Any) -> str:
    """JSON that cannot end the element it stands in. ASCII, so that no encoding of the page changes it."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    # In JSON these three stand in strings alone, where they may be written so. `</script>` would end the element.
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _data(trace: Trace, folding: Folding) -> dict[str, Any]:
    structure = trace.structure
    return {
        "filename": trace.header.filename,
        "python": trace.header.python,
        "outcome": trace.header.outcome,
        "call": trace.header.entry.call if trace.header.entry is not None else None,
        "complete": trace.complete,
        "reasons": list(trace.reasons),
        "lines": structure.syntax.lines,
        # All of them: the page goes through them forwards and back, and folding is only how it begins.
        "records": [_record(record) for record in trace.records],
        "positions": _positions(trace),
        "spans": [[gap.start, gap.last, gap.text, gap.line, gap.frame] for gap in all_hidden(structure, folding)],
        "roots": [activation.frame for activation in structure.roots],
        "activations": {str(a.frame): _activation(a) for a in structure.activations.values()},
    }


def _record(record: schema.Record) -> Any:
    return _marked({**msgspec.to_builtins(record), "k": type(record).__name__.lower()})


def _marked(value: Any) -> Any:
    """JavaScript does not tell 1.0 from 1, so floats go as text."""
    kind = type(value)
    if kind is float:
        return {"float": repr(value)}
    if kind is dict:
        return {key: _marked(item) for key, item in value.items()}
    if kind in (list, tuple):
        return [_marked(item) for item in value]
    return value


def _positions(trace: Trace) -> list[list[Any]]:
    """Return where the page stops: before each step, and where a frame gives a value, raises or is left."""
    # A step is the moment before its line runs; what a frame gives is shown once it is given.
    stops = [[step.step, step.frame, step.line, "line"] for step in trace.structure.steps]
    for t, record in enumerate(trace.records):
        if isinstance(record, _ALSO_SHOWN):
            stops.append([t, record.f, record.n, type(record).__name__.lower()])
    if trace.records and isinstance(trace.records[-1], schema.End):
        stops.append([len(trace.records) - 1, 0, 0, "end"])
    return sorted(stops, key=lambda stop: stop[0])


def _activation(activation: Activation) -> dict[str, Any]:
    return {
        "name": activation.short_name,
        "line": activation.line,
        "first": activation.first,
        "last": activation.last,
        "outcome": activation.outcome,
        "body": [_node(node) for node in activation.body],
    }


def _node(node: Node) -> list[Any]:
    if isinstance(node, Step):
        truth = None if node.condition is None else int(node.condition)
        return ["step", node.step, node.line, truth, [call.frame for call in node.calls]]
    iterations = [_iteration(iteration) for iteration in node.iterations]
    folds = [[fold.record, fold.after, fold.iterations, fold.steps] for fold in node.folds]
    closing = None if node.closing is None else _node(node.closing)
    return ["loop", node.line, node.kind, node.exit, node.count, iterations, folds, closing]


def _iteration(iteration: Iteration) -> list[Any]:
    header = [] if iteration.header is None else [_node(iteration.header)]
    return [iteration.number, header + [_node(node) for node in iteration.body]]
