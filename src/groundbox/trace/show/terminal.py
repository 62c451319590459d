"""A run for people at a terminal: lines with what they did beside them, calls indented, loops folded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from groundbox.trace.run.folding import Begin, Done, Enter, Folding, Skip
from groundbox.trace.show.moments import MomentTexts

if TYPE_CHECKING:
    from groundbox.trace.record.reading import Trace
    from groundbox.trace.run.structure import Activation, Step

_WIDEST_CODE: Final = 44
_DEEPEST: Final = 20
"""Calls inside each other that are shown by indentation; deeper ones by their number."""
_DIM, _BLUE, _GREEN, _RED, _END = "\x1b[2m", "\x1b[34m", "\x1b[32m", "\x1b[31m", "\x1b[0m"


def terminal(trace: Trace, *, folding: Folding | None = None, colours: bool = False, max_chars: int = 100) -> str:
    """The run as text. Control characters of the program are never part of it; colours are, when asked for."""
    return _Screen(trace, folding, max_chars, colours=colours).text()


class _Screen:
    def __init__(self, trace: Trace, folding: Folding | None, max_chars: int, *, colours: bool) -> None:
        self._trace = trace
        self._texts = MomentTexts(trace, folding, max_chars)
        self._colours = colours
        self._width = len(str(len(self._texts.structure.syntax.lines)))
        self._lines: list[str] = []
        self._code = min(_WIDEST_CODE, max(map(len, self._texts.structure.syntax.lines), default=0))

    def text(self) -> str:
        roots = {activation.frame for activation in self._texts.structure.roots}
        for moment in self._texts.moments():
            if isinstance(moment, Enter):
                # Everything begins with the module: that it is called says nothing to a reader.
                if moment.activation.frame not in roots or moment.activation.name != "<module>":
                    self._enter(moment.activation)
            elif isinstance(moment, Begin):
                # A step that calls shows its line before the calls, and what it did after them, without the line.
                self._line(moment.step, "")
            elif isinstance(moment, Done):
                self._done(moment.step)
            elif isinstance(moment, Skip):
                said = "; ".join(self._texts.differences(moment.gap))
                self._add(moment.gap.frame, None, self._paint(_DIM, moment.gap.text + (f"  {said}" if said else "")))
            else:
                self._leave(moment.activation)
        for reason in self._trace.reasons:
            self._lines.append(self._paint(_RED, f"not complete: {reason}"))
        return "".join(f"{line}\n" for line in self._lines)

    def _enter(self, activation: Activation) -> None:
        text = f"{activation.short_name}({self._texts.arguments(activation)})"
        thread = f" in {activation.thread!r}" if activation.thread is not None else ""
        self._add(activation.frame, None, self._paint(_BLUE, f"→ {text}{thread}"), outside=True)

    def _leave(self, activation: Activation) -> None:
        if activation.name == "<module>" and activation.outcome == "return":
            return
        left = activation.outcome == "return"
        value = self._texts.value(activation.value)
        text = f"← {value}" if left else f"← an exception leaves {activation.short_name}"
        self._add(activation.frame, None, self._paint(_BLUE if left else _RED, text), outside=True)

    def _done(self, step: Step) -> None:
        said = "; ".join(self._texts.effects(step))
        if step.calls or step.resumes:
            if said:
                self._line(step, said, again=True)
        else:
            self._line(step, said)

    def _line(self, step: Step, said: str, *, again: bool = False) -> None:
        source = "" if again else _printable(self._indented(step.line))
        if len(source) > _WIDEST_CODE:
            source = source[: _WIDEST_CODE - 1] + "…"
        colour = _RED if step.raised is not None else _GREEN
        text = source.ljust(self._code) + "  " + self._paint(colour, said) if said else source
        self._add(step.frame, step.line, text)

    def _indented(self, line: int) -> str:
        """A line of the source, indented as inside its function."""
        lines = self._texts.structure.syntax.lines
        return lines[line - 1].rstrip() if 1 <= line <= len(lines) else ""

    def _add(self, frame: int, line: int | None, text: str, *, outside: bool = False) -> None:
        activation = self._texts.structure.activations[frame]
        # A call and its result stand at the depth of whoever called.
        depth = max(0, activation.depth - 1 - outside)
        rails = "│ " * min(depth, _DEEPEST) + (f"⋯{depth} " if depth > _DEEPEST else "")
        number = "" if line is None else str(line)
        self._lines.append(f"{number.rjust(self._width)} {rails}{text}".rstrip())

    def _paint(self, colour: str, text: str) -> str:
        # Before the colours are put around it: they are the only control characters that may come out.
        text = _printable(text)
        return f"{colour}{text}{_END}" if self._colours and text else text


def _printable(text: str) -> str:
    """Return a text without anything that a terminal would obey."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text.replace("\t", "    "))
