"""DOT: graphs drawn by Graphviz, and told as data and text, so that who cannot see the picture can check it.

Graphviz runs in the sandbox like any program; what is its own to say comes from it. The SVG it makes is rebuilt on
the host from what is harmless in it (svg.py), because people look at it outside of the sandbox. The structure and the
warnings come from reading the source here (graph.py), for sources of at most MOST_READ bytes.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from groundbox.errors import InvalidArgument
from groundbox.execution import Execution, Failure, Outcome, Warning
from groundbox.runtimes import graph_facts
from groundbox.runtimes.files import check_filename
from groundbox.runtimes.graph import MOST_EDGES, DotError, TooLarge, parse
from groundbox.runtimes.svg import MOST_BYTES, NotSvg, harmless
from groundbox.sandbox.languages import Needs, Program, SelfTest

MODES: Final = ("script",)
EXTENSION: Final = ".dot"
NEEDS: Final = Needs("dot", "apt install graphviz")
SELF_TEST: Final = SelfTest(source="digraph { a -> b }", mode="script", prints="")
ENGINES: Final = ("dot", "neato", "fdp", "sfdp", "twopi", "circo", "osage", "patchwork", "nop", "nop1", "nop2")
FORMATS: Final = {"svg": "image/svg+xml", "png": "image/png", "pdf": "application/pdf"}
_USUAL_FORMATS: Final = ("svg", "png")
MOST_READ: Final = 256 * 1024
_MOST_SAID: Final = 20
_MOST_CHARACTERS: Final = 1000
_SVG: Final = FORMATS["svg"]
_LINE: Final = re.compile(r"\bin line (\d{1,9})")


def profile(source: str) -> str:
    """`bare`: no Python runs in it."""
    return "bare"


def order(program: Program) -> dict[str, Any]:
    """The order for the worker. Of arguments there are `-K` with an engine and `-T` with a format, and no others."""
    if program.mode not in MODES:
        raise InvalidArgument("mode", f"{program.mode!r} is not 'script', the only one of dot")
    if program.stdin is not None:
        raise InvalidArgument("stdin", "the graph is the program; dot reads nothing else")
    engine, formats = _options(program.argv)
    check_filename(program.filename)
    argv: list[Any] = ["dot", *([f"-K{engine}"] if engine else [])]
    for each in formats:
        argv += [f"-T{each}", "-o", {"place": f"picture.{each}"}]
    return {
        "op": "run",
        "mode": "command",
        "argv": argv,
        "file": {"name": program.filename, "text": program.source, "where": "stdin"},
        "ahead": {},
        "results": {f"picture.{each}": FORMATS[each] for each in formats},
    }


def screen(data: dict[str, Any]) -> dict[str, Any]:
    """A display whose pictures can be shown; without one, and with the reason, where it is too large or no SVG."""
    shown, reasons = dict(data), []
    for format_, media_type in FORMATS.items():
        try:
            if media_type == _SVG and media_type in data:
                shown[media_type] = harmless(str(data[media_type]))
            elif (size := len(str(data.get(media_type, ""))) * 3 // 4) > MOST_BYTES:
                raise NotSvg(f"it has {size} bytes, more than {MOST_BYTES}")
        except NotSvg as reason:
            del shown[media_type]
            reasons.append(f"no {format_.upper()} is shown: {reason}")
    return {**shown, "text/plain": "\n".join(reasons)} if reasons else shown


_SIGN: Final = re.compile(r"'[^\w\s{}\[\];,=\"<>#-]'")
"""A sign that Graphviz takes in double quotes only."""


class Studied(NamedTuple):
    """What a source tells by itself. Without a value, either it is no DOT or it is too large to tell."""

    value: dict[str, Any] | None
    warnings: Sequence[Warning]
    problem: DotError | None = None


def study(program: Program) -> Studied:
    """The graph's structure and what looks like a mistake in it, or the place where it is no graph."""
    if len(program.source) > MOST_READ:
        return Studied(None, [_untold(f"the source is longer than {MOST_READ} characters")])
    try:
        graph = parse(program.source)
    except DotError as problem:
        return Studied(None, (), problem)
    except TooLarge:
        return Studied(None, [_untold(f"it makes more than {MOST_EDGES} edges")])
    return Studied(graph_facts.bundle(graph), graph_facts.warnings(graph))


def finish(program: Program, execution: Execution, studied: Studied) -> Execution:
    """Add the structure as the value, warnings, and the place of an error."""
    error = execution.error
    if execution.outcome is Outcome.ERROR and error is not None:
        error = _failure(program, studied.problem, execution.stderr) or error
    warnings = [*execution.warnings, *_said(execution.stderr), *studied.warnings]
    if studied.problem is not None and execution.outcome is Outcome.OK:
        place = f"line {studied.problem.line}, column {studied.problem.column}"
        warnings.append(_untold(f"Graphviz draws it, and our own reader stopped at {place}: {studied.problem}"))
    return dataclasses.replace(execution, value=studied.value, warnings=tuple(warnings), error=error)


def _options(argv: Sequence[str]) -> tuple[str, Sequence[str]]:
    engine, formats = "", []
    for argument in argv:
        name, value = argument[:2], argument[2:]
        if name == "-K" and value in ENGINES:
            engine = value
        elif name == "-T" and value in FORMATS:
            formats.append(value)
        else:
            known = f"-K with one of {', '.join(ENGINES)}, or -T with one of {', '.join(FORMATS)}"
            raise InvalidArgument("argv", f"{argument!r} is no option here; there is {known}")
    return engine, tuple(dict.fromkeys(formats)) or _USUAL_FORMATS


def _failure(program: Program, problem: DotError | None, stderr: str) -> Failure | None:
    """Graphviz's first error, with our place for it where we find one, too."""
    said = next((line[len("Error: ") :] for line in stderr.splitlines() if line.startswith("Error: ")), None)
    if problem is not None:
        shown = program.source.splitlines()[problem.line - 1 : problem.line]
        mark = [f"    {text[:200]}\n    {' ' * (problem.column - 1)}^" for text in shown if problem.column <= 200]
        where = f"{program.filename}:{problem.line}:{problem.column}"
        traceback = "\n".join([where, *mark, f"SyntaxError: {problem}"])
        return Failure(
            type="SyntaxError",
            message=str(problem),
            line=problem.line,
            column=problem.column,
            traceback=traceback,
            hints=tuple(_hints(problem)),
        )
    if said is None:
        return None
    said = said.removeprefix("<stdin>: ").strip()[:_MOST_CHARACTERS]
    line = _LINE.search(said)
    at = int(line[1]) if line and "syntax error" in said else None
    return Failure(type="SyntaxError" if "syntax error" in said else "GraphvizError", message=said, line=at)


def _hints(problem: DotError) -> Iterator[str]:
    """How to correct the commonest errors: the edge of the other kind of graph, and text without quotes."""
    if problem.found == "'->'":
        yield "A graph joins nodes by --. If edges have a direction, begin with digraph."
    elif problem.found == "'--'":
        yield "A digraph joins nodes by ->. If edges have no direction, begin with graph."
    elif _SIGN.fullmatch(problem.found) and not problem.expected.startswith("a node"):
        yield 'Text with blanks or signs stands in double quotes: label="y: (2, 2)".'


def _said(stderr: str) -> list[Warning]:
    """Graphviz's own warnings."""
    texts = [line[len("Warning: ") :] for line in stderr.splitlines() if line.startswith("Warning: ")]
    return [
        Warning(code="dot.graphviz", tier="warn", message=text.removeprefix("<stdin>: ")[:_MOST_CHARACTERS])
        for text in list(dict.fromkeys(texts))[:_MOST_SAID]
    ]


def _untold(why: str) -> Warning:
    return Warning(code="dot.not_told", tier="note", message=f"the graph's structure is not told: {why}")
