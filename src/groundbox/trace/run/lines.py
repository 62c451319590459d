"""Records sorted by frame and line: the first half of deriving a trace's structure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from groundbox.trace.record import schema
from groundbox.trace.record.schema import Record
from groundbox.trace.run.structure import Activation, Folded

_FRAMELESS: Final = (schema.Object, schema.Mutate, schema.Out)


@dataclasses.dataclass(slots=True, eq=False)
class Visit:
    """Line record and what belongs to it; of a line that gave a value right after a fold, the `yield`."""

    record: int
    line: int
    last: int
    effects: list[int] = dataclasses.field(default_factory=list)
    calls: list[Activation] = dataclasses.field(default_factory=list)
    raises: list[int] = dataclasses.field(default_factory=list)
    yields: list[int] = dataclasses.field(default_factory=list)
    resumes: list[int] = dataclasses.field(default_factory=list)
    tests: list[int] = dataclasses.field(default_factory=list)
    begun: dict[int, int] = dataclasses.field(default_factory=dict)
    """By line: the loops of which it began an iteration, with its number."""
    ended: dict[int, int] = dataclasses.field(default_factory=dict)
    """By line: the loops that it found at their end, and after how many iterations."""


@dataclasses.dataclass(slots=True, eq=False)
class FoldedLoop:
    """Place where iterations of the loop at `line` were left out."""

    line: int
    fold: Folded
    effects: list[int] = dataclasses.field(default_factory=list)
    calls: list[Activation] = dataclasses.field(default_factory=list)
    ended: int = -1
    """After how many iterations the loop found no further item, or its condition false; or -1."""
    gave: bool = False
    """A `yield` follows it: the frame waits on the header's line, in the middle of a further iteration."""


Entry: TypeAlias = Visit | FoldedLoop


class Gathered:
    """The records of a trace, sorted by frame and line in one pass.

    Attributes:
        entries: For each frame its line records and folds, in order.
        loose: Effects that belong to no frame.
    """

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = records
        self.activations: dict[int, Activation] = {}
        self.entries: dict[int, list[Entry]] = {}
        self.loose: list[int] = []
        self._pending: list[int] = []
        self._sinks: dict[int, list[int]] = {}
        for t, record in enumerate(records):
            self._take(t, record)
        self._finish()

    def _take(self, t: int, record: Record) -> None:
        if isinstance(record, _FRAMELESS):
            # Whose it is, the next record says: objects and changes stand before what they are told for.
            self._pending.append(t)
            return
        frame = getattr(record, "f", 0)
        # What stands before a call is what the caller's line did so far.
        owner = record.p if isinstance(record, (schema.Call, schema.Resume)) else frame
        if self._pending:
            self._sinks.get(owner, self.loose).extend(self._pending)
            self._pending = []
        handler = _HANDLERS.get(type(record))
        if handler is not None:
            handler(self, t, record)

    def _finish(self) -> None:
        """After the last record: lines that were still running have lasted until there."""
        # The one that was called last is the one that the trace broke off in.
        running = [f for f, a in self.activations.items() if a.outcome == "open"]
        self._sinks.get(running[-1] if running else 0, self.loose).extend(self._pending)
        for frame in running:
            self.activations[frame].last = len(self.records) - 1
            self._close(frame, len(self.records))

    def _visit(self, frame: int) -> Visit | None:
        entries = self.entries.get(frame)
        return entries[-1] if entries and isinstance(entries[-1], Visit) else None

    def _close(self, frame: int, t: int) -> None:
        visit = self._visit(frame)
        if visit is not None:
            visit.last = t - 1

    def _call(self, t: int, record: schema.Call) -> None:
        caller = self.activations.get(record.p)
        activation = Activation(
            frame=record.f,
            parent=record.p,
            name=record.name,
            line=record.n,
            args=record.args,
            thread=record.thread,
            class_body=record.body,
            first=t,
            last=t,
            depth=1 if caller is None else caller.depth + 1,
        )
        self.activations[record.f] = activation
        self.entries[record.f] = []
        # What it does before its first line has no line to go to.
        self._sinks[record.f] = []
        # A call that comes before its caller's first line belongs to no step.
        if caller is not None and self.entries[record.p]:
            self.entries[record.p][-1].calls.append(activation)

    def _line(self, t: int, record: schema.Line) -> None:
        entries = self.entries[record.f]
        self._close(record.f, t)
        if not entries:
            self.activations[record.f].before = tuple(self._sinks[record.f])
        visit = Visit(t, record.n, t)
        entries.append(visit)
        self._sinks[record.f] = visit.effects

    def _effect(self, t: int, record: Any) -> None:
        self._sinks[record.f].append(t)

    def _end_frame(self, t: int, record: Any) -> None:
        activation = self.activations[record.f]
        if isinstance(record, schema.Return):
            activation.outcome, activation.value = "return", record.v
        else:
            activation.outcome = "unwind"
        activation.last = t
        self._close(record.f, t)
        # The lines of a folded call left no record; what they changed stands before its end.
        if activation.folded is not None:
            activation.folded.effects = tuple(self._sinks[record.f])
        elif not self.entries[record.f]:
            activation.before = tuple(self._sinks[record.f])

    def _yield(self, t: int, record: schema.Yield) -> None:
        visit = self._visit(record.f)
        # The `yield` is part of its line, unlike what ends a line otherwise.
        self._close(record.f, t + 1)
        if visit is not None:
            visit.yields.append(t)
            return
        entries = self.entries.get(record.f)
        if entries and isinstance(entries[-1], FoldedLoop):
            self._give(entries, entries[-1], t, record)

    def _give(self, entries: list[Entry], fold: FoldedLoop, t: int, record: schema.Yield) -> None:
        """A value that came out of the iteration after a fold; the line that gave it has no record."""
        if record.n == fold.line:
            # The header itself gives the values, as that of a generator expression does.
            fold.gave = True
            self._sinks[record.f] = self.loose
            return
        visit = Visit(t, record.n, t, yields=[t])
        entries.append(visit)
        self._sinks[record.f] = visit.effects

    def _resume(self, t: int, record: schema.Resume) -> None:
        visit = self._visit(record.p)
        if visit is not None:
            visit.resumes.append(t)

    def _raise(self, t: int, record: schema.Raise) -> None:
        visit = self._visit(record.f)
        if visit is not None:
            visit.raises.append(t)

    def _test(self, t: int, record: schema.Test) -> None:
        visit = self._visit(record.f)
        if visit is not None:
            visit.tests.append(t)

    def _iteration(self, t: int, record: schema.Iteration) -> None:
        visit = self._visit(record.f)
        if visit is not None:
            visit.begun[record.n] = record.number

    def _ended(self, t: int, record: schema.Ended) -> None:
        entries = self.entries.get(record.f)
        if not entries:
            return
        if isinstance(entries[-1], Visit):
            entries[-1].ended[record.n] = record.iterations
        elif entries[-1].line == record.n:
            entries[-1].ended = record.iterations

    def _fold(self, t: int, record: schema.Fold) -> None:
        fold = Folded(record=t, iterations=record.iterations, steps=record.steps, calls=record.calls)
        self._close(record.f, t)
        if record.what == "call":
            self.activations[record.f].folded = fold
            self._sinks[record.f] = []
            return
        entry = FoldedLoop(record.n, fold)
        self.entries[record.f].append(entry)
        self._sinks[record.f] = entry.effects


_HANDLERS: Final[dict[type[Record], Any]] = {
    schema.Call: Gathered._call,
    schema.Line: Gathered._line,
    schema.Set: Gathered._effect,
    schema.Del: Gathered._effect,
    schema.Return: Gathered._end_frame,
    schema.Unwind: Gathered._end_frame,
    schema.Yield: Gathered._yield,
    schema.Resume: Gathered._resume,
    schema.Raise: Gathered._raise,
    schema.Fold: Gathered._fold,
    schema.Test: Gathered._test,
    schema.Iteration: Gathered._iteration,
    schema.Ended: Gathered._ended,
}
