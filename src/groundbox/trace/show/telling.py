"""What all text forms share: moments in order, each with the state at that time, and what a step did as words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from groundbox.trace.record import schema
from groundbox.trace.record.value import kind_of
from groundbox.trace.run.folding import Folding, Gap, Moment, Skip, told
from groundbox.trace.run.naming import name_of
from groundbox.trace.run.state import State
from groundbox.trace.run.structure import Activation, Step

if TYPE_CHECKING:
    from groundbox.trace.record.reading import Trace

MOST_CHARS: Final = 120
"""Of one value, in forms that show many."""
_MOST_PARTS: Final = 4
_UNTOLD: Final = frozenset({"function", "class", "module", "builtin"})


class Telling:
    """One trace, told once from its beginning to its end.

    Attributes:
        state: The state at the moment that `moments` gave last.
    """

    def __init__(self, trace: Trace, folding: Folding | None = None, max_chars: int = MOST_CHARS) -> None:
        self.trace = trace
        self.structure = trace.structure
        self.state = State()
        self.max_chars = max_chars
        self._folding = folding

    def moments(self) -> Iterator[Moment]:
        """Each moment, after `state` was brought to it."""
        for moment in told(self.structure, self._folding):
            self._forward(moment.gap.last if isinstance(moment, Skip) else moment.t)
            yield moment

    def _forward(self, t: int) -> None:
        while self.state.t < t:
            self.state.apply(self.trace.records[self.state.t + 1])

    def source(self, line: int) -> str:
        """A line of the program without its indentation."""
        lines = self.structure.syntax.lines
        return lines[line - 1].strip() if 1 <= line <= len(lines) else ""

    def value(self, value: schema.V) -> str:
        """A value at this moment."""
        return self.state.text(value, self.max_chars)

    def arguments(self, activation: Activation) -> str:
        """`n=5, xs=[1, 2]`"""
        return ", ".join(f"{name}={self.value(value)}" for name, value in activation.args.items())

    def names(self, frame: int) -> dict[str, str]:
        """The frame's names and values; of functions, classes and modules only other than the program's own."""
        names = self.state.names(frame)
        return {name: self.value(value) for name, value in names.items() if kind_of(value) not in _UNTOLD}

    def changes(self, step: Step | Gap) -> list[tuple[str, str | None]]:
        """Names and paths that took a value in a step, each once with its last value; None for a deleted name."""
        changes: dict[str, str | None] = {}
        for t in step.effects:
            record = self.trace.records[t]
            if isinstance(record, schema.Set):
                changes.pop(record.name, None)
                changes[record.name] = self.value(record.v)
            elif isinstance(record, schema.Del):
                changes.pop(record.name, None)
                changes[record.name] = None
            elif isinstance(record, schema.Mutate):
                changes.update(self._mutation(step.frame, record))
        return list(changes.items())

    def _mutation(self, frame: int, record: schema.Mutate) -> Iterator[tuple[str, str | None]]:
        """`node.value = 3`, `counts['a'] = 1`, `xs[2] = 0`; the whole object when more of it changed."""
        name = name_of(self.state, frame, record.id)
        obj = self.state.heap[record.id]
        if record.op != "set" or len(record.at or ()) > _MOST_PARTS:
            yield name, self.value({"ref": record.id})
            return
        for place, value in record.at or ():
            attribute = obj.type in ("object", "class")
            yield name + (f".{place}" if attribute else f"[{self.value(place)}]"), self.value(value)

    def output(self, step: Step) -> str:
        """What a step printed, both streams together."""
        pieces = []
        for t in step.effects:
            record = self.trace.records[t]
            if isinstance(record, schema.Out):
                pieces.append(record.text)
                if record.elided:
                    pieces.append(f"… {record.elided} more characters …{record.tail}")
        return "".join(pieces)

    def exception(self, step: Step) -> str:
        """`KeyError('a')`, or an empty string when the step raised nothing."""
        if step.raised is None:
            return ""
        record = self.trace.records[step.raised]
        if not isinstance(record, schema.Raise):
            return ""
        return f"{record.type}({', '.join(map(self.value, record.args))})"

    def differences(self, gap: Gap) -> list[str]:
        """What was left out has changed, as far as only the differences are recorded."""
        return [f"{name} = {value}" if value is not None else f"del {name}" for name, value in self.changes(gap)]

    def effects(self, step: Step) -> list[str]:
        """All that a step did, as short pieces: `x = 1`, `del y`, `True`, `prints 'a'`, `raises KeyError('a')`."""
        said = [f"{name} = {value}" if value is not None else f"del {name}" for name, value in self.changes(step)]
        if step.condition is not None and step.part in ("test", "case", "except"):
            said.insert(0, str(step.condition))
        if output := self.output(step):
            said.append(f"prints {self.value(output)}")
        for t in step.yields:
            record = self.trace.records[t]
            if isinstance(record, schema.Yield):
                said.append(f"yields {self.value(record.v)}")
        if exception := self.exception(step):
            said.append(f"raises {exception}")
        return said


def shown(said: list[str]) -> str:
    """Pieces in a row."""
    return "; ".join(said)
