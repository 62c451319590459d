"""The changes of each name, item and attribute, and the moments at which anything may change."""

from __future__ import annotations

import ast
import bisect
import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

from groundbox.trace import schema
from groundbox.trace.proof.records.frames import MISSING, Frames
from groundbox.trace.proof.records.memory import Memory, equal, refs
from groundbox.trace.proof.values.bounds import Unknowable
from groundbox.trace.proof.values.code import names_in, shape
from groundbox.trace.schema import Record, V
from groundbox.trace.structure import Step, Structure

_MOST_REACHED: Final = 2000


class Entry(NamedTuple):
    """A change of something: at record `t`, in `frame`, from `old` to `new`. `told`: the trace has a record of it."""

    t: int
    frame: int
    old: Any
    new: Any
    told: bool = True


class Histories:
    """The histories of one trace, each made when it is asked for."""

    def __init__(
        self, records: Sequence[Record], structure: Structure, frames: Frames, memory: Memory,
        *, value: Callable[[ast.expr, int, int | None], Any], spend: Callable[[int], None],
    ) -> None:  # fmt: skip
        """What they are made of.

        Args:
            value: Works out an expression at a moment in a frame.
            spend: Counts work.
        """
        self._records = records
        self._structure = structure
        self._frames = frames
        self._memory = memory
        self._value = value
        self._spend = spend
        self._histories: dict[str, Sequence[Entry]] = {}
        self._history_of: dict[int, tuple[ast.expr, Sequence[Entry]]] = {}
        self._moments: dict[frozenset[str], list[int]] = {}
        self._assigned: dict[int, frozenset[str]] = {}
        self._shapes: dict[int, tuple[ast.expr, str]] = {}

    def moments(self, names: Iterable[str]) -> list[int]:
        """When the value of an expression over these names may change, in order."""
        key = frozenset(names)
        found = self._moments.get(key)
        if found is None:
            times = set(self._frames.switches)
            for name in key:
                times.update(t for t, _ in self._frames.sets.get(name, ()))
                times.update(self._frames.attrs.get(name, ()))
                times.update(self._object_times(name))
            found = self._moments[key] = sorted(times)
        return found

    def _object_times(self, name: str) -> set[int]:
        """When objects changed that a name led to at some moment; those nearest to it first, if there are too many."""
        waiting = deque(label for value in self._frames.ever(name) for label in refs(value))
        seen: set[int] = set()
        times: set[int] = set()
        while waiting and len(seen) < _MOST_REACHED:
            label = waiting.popleft()
            if label in seen:
                continue
            seen.add(label)
            for t in self._memory.times(label):
                times.add(t)
                for part in self._new_parts(label, t):
                    waiting.extend(refs(part))
        return times

    def _new_parts(self, label: int, t: int) -> Iterator[V]:
        """What came into an object at a moment: with a change only what the change brought."""
        record = self._records[t]
        if not isinstance(record, schema.Mutate):
            obj = self._memory.object(label, t)
            yield from obj.parts() if obj is not None else ()
            return
        yield from (*(record.items or ()), *(record.tail or ()), *(record.attrs or {}).values())
        for place in (*(record.at or ()), *(record.pairs or ())):
            yield from place if isinstance(place, list | tuple) else (place,)

    def of(self, subject: ast.expr) -> Sequence[Entry]:
        """Every change of a name, item or attribute, in order."""
        known = self._history_of.get(id(subject))
        if known is not None:
            return known[1]
        found = self._made(subject)
        self._history_of[id(subject)] = (subject, found)
        return found

    def _made(self, subject: ast.expr) -> Sequence[Entry]:
        key = shape(subject)
        found = self._histories.get(key)
        if found is None:
            entries = self._name_history(subject.id) if isinstance(subject, ast.Name) else self._place_history(subject)
            found = self._histories[key] = sorted(entries, key=lambda entry: entry.t)
        return found

    def _name_history(self, name: str) -> list[Entry]:
        entries = []
        told = set()
        for t, number in self._frames.sets.get(name, ()):
            self._spend(1)
            told.add(t)
            before = self._frames.own(name, number, t - 1)
            old = MISSING if before is MISSING else self._memory.read(before, t - 1)
            entries.append(Entry(t, number, old, self._memory.read(self._frames.own(name, number, t), t)))
        entries.extend(self._attribute_entries(name))
        for t in sorted(self._object_times(name) - told):
            entries.extend(self._change_at(ast.Name(name), t))
        entries.extend(self._silent_entries(name, told))
        return entries

    def _attribute_entries(self, name: str) -> Iterator[Entry]:
        for t in self._frames.attrs.get(name, ()):
            label = getattr(self._records[t], "id", 0)
            old, new = self._memory.read({"ref": label}, t - 1), self._memory.read({"ref": label}, t)
            yield Entry(t, self._frames.running(t), old.attrs.get(name, MISSING), new.attrs.get(name, MISSING))

    def _change_at(self, node: ast.expr, t: int) -> Iterator[Entry]:
        self._spend(2)
        old, new = self._value_or_missing(node, t - 1), self._value_or_missing(node, t)
        if new is not MISSING and old is not MISSING and not equal(old, new):
            yield Entry(t, self._frames.running(t), old, new)

    def _value_or_missing(self, node: ast.expr, t: int, frame: int | None = None) -> Any:
        try:
            return self._value(node, t, frame)
        except Unknowable:
            return MISSING

    def _silent_entries(self, name: str, told: set[int]) -> Iterator[Entry]:
        """Assignments of the value that a name had already, which no record tells."""
        times = sorted(told)
        for step in self._assigning.get(name, ()):
            if (
                step.part == "loop"
                and self._structure.loops_of(step)[-1:]
                and self._structure.loops_of(step)[-1][1] is None
            ):
                continue
            after = bisect.bisect_right(times, step.step)
            if after < len(times) and times[after] <= step.last:
                continue
            value = self._frames.raw(name, step.frame, step.last)
            if value is not MISSING and step.raised is None:
                seen = self._memory.read(value, step.last)
                yield Entry(step.last, step.frame, seen, seen, told=False)

    def _targets(self, statement: ast.stmt) -> frozenset[str]:
        """The names that a statement's own part assigns."""
        found = self._assigned.get(id(statement))
        if found is None:
            targets: list[ast.expr] = []
            if isinstance(statement, ast.Assign):
                targets = statement.targets
            elif isinstance(statement, ast.AugAssign | ast.AnnAssign | ast.For | ast.AsyncFor):
                targets = [statement.target]
            parts = [part for target in targets for part in ast.walk(target)]
            stored = [part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)]
            found = self._assigned[id(statement)] = frozenset(stored)
        return found

    def _silent_place_entries(self, subject: ast.expr, told: set[int]) -> Iterator[Entry]:
        """Assignments to an item or attribute of the value that it had already, or of one that is equal."""
        times = sorted(told)
        rows = [
            [(step, fitting) for step in steps]
            for places, steps in self._placing
            if (fitting := [place for place in places if self._may_be(subject, place)])
        ]
        for step, places in heapq.merge(*rows, key=lambda each: each[0].step):
            if not any(self._is_place(subject, place, step) for place in places):
                continue
            after = bisect.bisect_right(times, step.step)
            if step.raised is None and not (after < len(times) and times[after] <= step.last):
                value = self._value_or_missing(subject, step.last)
                if value is not MISSING:
                    yield Entry(step.last, step.frame, value, value, told=False)

    @cached_property
    def _assigning(self) -> dict[str, list[Step]]:
        """The steps that assign each name, in order."""
        found: dict[str, list[Step]] = {}
        for step in self._structure.steps:
            for name in self._targets(step.statement) if step.statement is not None else ():
                found.setdefault(name, []).append(step)
        return found

    @cached_property
    def _placing(self) -> Sequence[tuple[list[ast.expr], list[Step]]]:
        """The items and attributes that a statement assigns, and its steps in order, for each that assigns any."""
        found: dict[int, tuple[list[ast.expr], list[Step]]] = {}
        for step in self._structure.steps:
            if id(step.statement) not in found:
                targets = getattr(step.statement, "targets", None) or [getattr(step.statement, "target", None)]
                places: list[ast.expr] = [part for part in targets if isinstance(part, ast.Attribute | ast.Subscript)]
                found[id(step.statement)] = (places, [])
            found[id(step.statement)][1].append(step)
        return [each for each in found.values() if each[0]]

    def _shape(self, node: ast.expr) -> str:
        """The shape of an expression, remembered."""
        found = self._shapes.get(id(node))
        if found is None:
            found = self._shapes[id(node)] = (node, shape(node))
        return found[1]

    def _may_be(self, said: ast.expr, target: ast.expr) -> bool:
        """Whether a target is the place that a text names in some step, whatever the indexes are there."""
        if isinstance(said, ast.Attribute) and isinstance(target, ast.Attribute):
            return said.attr == target.attr and self._may_be(said.value, target.value)
        if not isinstance(said, ast.Subscript) or not isinstance(target, ast.Subscript):
            return self._shape(said) == self._shape(target)
        return self._may_be(said.value, target.value)

    def _is_place(self, said: ast.expr, target: ast.expr, step: Step) -> bool:
        """Whether a step's target is the place that a text names, also with the index written as a value."""
        if isinstance(said, ast.Attribute) and isinstance(target, ast.Attribute):
            return said.attr == target.attr and self._is_place(said.value, target.value, step)
        if not isinstance(said, ast.Subscript) or not isinstance(target, ast.Subscript):
            return self._shape(said) == self._shape(target)
        if not self._is_place(said.value, target.value, step):
            return False
        if self._shape(said.slice) == self._shape(target.slice):
            return True
        self._spend(1)
        index = self._value_or_missing(said.slice, step.last, step.frame)
        return index is not MISSING and equal(index, self._value_or_missing(target.slice, step.last, step.frame))

    def _place_history(self, subject: ast.expr) -> list[Entry]:
        entries: list[Entry] = []
        for t in self.moments(names_in(subject)):
            if not isinstance(self._records[t], schema.Mutate | schema.Set):
                continue
            self._spend(4)
            frame = self._frames.running(t)
            now = self._value_or_missing(subject, t, frame)
            if now is MISSING:
                continue
            old = self._value_or_missing(subject, t - 1, frame)
            if old is MISSING or not equal(old, now):
                entries.append(Entry(t, frame, old, now))
        entries.extend(self._silent_place_entries(subject, {entry.t for entry in entries}))
        return entries
