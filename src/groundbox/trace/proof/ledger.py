"""What happened in a run, indexed so that a claim finds the moment at which it holds.

A moment is the number of a record; what holds at a moment is what holds after that record.
"""

from __future__ import annotations

import ast
import bisect
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

from groundbox.trace import schema
from groundbox.trace.proof.records.memory import Memory, refs
from groundbox.trace.proof.values.bounds import Unknowable
from groundbox.trace.proof.values.code import names_in, shape
from groundbox.trace.proof.values.evaluation import evaluate
from groundbox.trace.proof.values.things import Thing
from groundbox.trace.reading import Trace
from groundbox.trace.schema import V
from groundbox.trace.structure import Activation, Loop, Step

MISSING: Final = Thing("missing", "")
"""The value of a name before it had one."""
_BUDGET: Final = 400_000
_MOST_REACHED: Final = 2000


class Entry(NamedTuple):
    """A change of something: at record `t`, in `frame`, from `old` to `new`. `told`: the trace has a record of it."""

    t: int
    frame: int
    old: Any
    new: Any
    told: bool = True


class Condition(NamedTuple):
    """A test that was evaluated."""

    t: int
    frame: int
    test: ast.expr
    truth: bool
    calls: Sequence[Activation] = ()


class LoopRun(NamedTuple):
    """One execution of a loop."""

    start: int
    end: int
    loop: Loop
    depth: int


class Exhausted(Exception):
    """Checking took more work than a text of this size is worth."""


@dataclasses.dataclass(eq=False)
class _Names:
    """One frame's names through time."""

    number: int
    parent: int
    qualname: str
    times: dict[str, list[int]] = dataclasses.field(default_factory=dict)
    values: dict[str, list[V]] = dataclasses.field(default_factory=dict)

    def put(self, name: str, t: int, value: V) -> None:
        self.times.setdefault(name, []).append(t)
        self.values.setdefault(name, []).append(value)

    def get(self, name: str, t: int) -> V:
        times = self.times.get(name)
        at = bisect.bisect_right(times, t) - 1 if times else -1
        return self.values[name][at] if at >= 0 else MISSING


class Ledger:
    """The index of one trace.

    Attributes:
        names: Every name and attribute that the program uses.
        functions: The names of its functions and classes.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.records = trace.records
        self.structure = trace.structure
        self.memory = Memory(trace.records)
        self.names, self.functions = _names(self.structure.syntax.tree)
        self.budget = _BUDGET
        self._frames: dict[int, _Names] = {0: _Names(0, 0, "")}
        self._by_qualname: dict[str, list[int]] = {}
        self._sets: dict[str, list[tuple[int, int]]] = {}
        self._attrs: dict[str, list[int]] = {}
        self.mutations: list[int] = []
        self.switches: list[int] = []
        self._running: list[int] = []
        self.outs: list[int] = []
        self.raises: list[int] = []
        self.yields: list[int] = []
        self.folds: list[int] = []
        self._histories: dict[str, Sequence[Entry]] = {}
        self._history_of: dict[int, tuple[ast.expr, Sequence[Entry]]] = {}
        self._moments: dict[frozenset[str], list[int]] = {}
        self._assigned: dict[int, frozenset[str]] = {}
        self._index()
        self.names |= self._sets.keys() - {"_"} | self._attrs.keys()

    def _index(self) -> None:
        for t, record in enumerate(self.records):
            handle = _HANDLERS.get(type(record))
            if handle is not None:
                handle(self, t, record)

    def _call(self, t: int, record: schema.Call) -> None:
        frame = self._frames[record.f] = _Names(record.f, record.p, record.name)
        self._by_qualname.setdefault(record.name, []).append(record.f)
        for name, value in record.args.items():
            frame.put(name, t, value)
            self._sets.setdefault(name, []).append((t, record.f))
        self._switch(t, record.f)

    def _set(self, t: int, record: schema.Set) -> None:
        frame = self._owner(record)
        frame.put(record.name, t, record.v)
        self._sets.setdefault(record.name, []).append((t, frame.number))

    def _del(self, t: int, record: schema.Del) -> None:
        self._owner(record).put(record.name, t, MISSING)

    def _owner(self, record: schema.Set | schema.Del) -> _Names:
        """The frame whose name it is."""
        frame = self._frames.get(record.f, self._frames[0])
        if record.scope == "global":
            return self._frames[self._by_qualname.get("<module>", [0])[0]]
        if record.scope == "nonlocal":
            return next((self._frames[number] for number in self._enclosing(frame, record.name)), frame)
        return frame

    def _enclosing(self, frame: _Names, name: str) -> Iterator[int]:
        """Activations of the functions around a frame's function that have the name, the latest first."""
        qualname = frame.qualname
        while ".<locals>." in qualname:
            qualname = qualname.rpartition(".<locals>.")[0]
            for number in reversed(self._by_qualname.get(qualname, ())):
                if name in self._frames[number].times:
                    yield number

    def _mutate(self, t: int, record: schema.Mutate) -> None:
        self.mutations.append(t)
        if record.op in ("set", "remove") and self.memory.object(record.id, t) is not None:
            obj = self.memory.object(record.id, t)
            if obj is not None and obj.type in ("object", "class"):
                for place in record.at or ():
                    name = place[0] if isinstance(place, list | tuple) else place
                    self._attrs.setdefault(str(name), []).append(t)

    def _end(self, t: int, record: schema.Return | schema.Unwind) -> None:
        self._switch(t, self._parent(record.f))

    def _yield(self, t: int, record: schema.Yield) -> None:
        self.yields.append(t)
        self._switch(t, self._parent(record.f))

    def _resume(self, t: int, record: schema.Resume) -> None:
        if record.f in self._frames:
            self._frames[record.f].parent = record.p
        self._switch(t, record.f)

    def _parent(self, number: int) -> int:
        return self._frames[number].parent if number in self._frames else 0

    def _switch(self, t: int, frame: int) -> None:
        self.switches.append(t)
        self._running.append(frame)

    def running(self, t: int) -> int:
        """The innermost frame after record `t`."""
        at = bisect.bisect_right(self.switches, t) - 1
        return self._running[at] if at >= 0 else 0

    def spend(self, amount: int = 1) -> None:
        """Count work.

        Raises:
            Exhausted: There was too much of it.
        """
        self.budget -= amount
        if self.budget < 0:
            raise Exhausted

    def raw(self, name: str, frame: int, t: int) -> V:
        """The recorded value that a name has in a frame, or MISSING."""
        found = self._frames.get(frame)
        if found is None:
            return MISSING
        value = found.get(name, t)
        if value is MISSING:
            for number in self._enclosing(found, name):
                value = self._frames[number].get(name, t)
                if value is not MISSING:
                    return value
            value = self._frames[self._by_qualname.get("<module>", [0])[0]].get(name, t)
        return value

    def visible(self, name: str, t: int, frame: int | None = None) -> V:
        """The value of a name as one would say it at `t`: in the running frame, or one that waits for it."""
        number = self.running(t) if frame is None else frame
        for _ in range(60):
            value = self.raw(name, number, t)
            if value is not MISSING or number == 0:
                return value
            number = self._parent(number)
        return MISSING

    def lookup(self, t: int, frame: int | None = None, calls: Sequence[Activation] = ()) -> Scene:
        """Names at a moment, for `evaluate`."""
        return Scene(self, t, frame, calls)

    def value(self, node: ast.expr, t: int, frame: int | None = None, calls: Sequence[Activation] = ()) -> Any:
        """An expression worked out at a moment.

        Raises:
            Unknowable: It cannot be.
        """
        self.spend()
        return evaluate(node, self.lookup(t, frame, calls))

    @cached_property
    def conditions(self) -> Sequence[Condition]:
        """Every test of an `if`, `while` or `assert`, in order."""
        return [
            Condition(step.step, step.frame, step.test, step.condition, step.calls)
            for step in self.structure.steps if step.test is not None and step.condition is not None
        ]  # fmt: skip

    @cached_property
    def condition_times(self) -> list[int]:
        """When the tests were evaluated."""
        return [condition.t for condition in self.conditions]

    @cached_property
    def steps(self) -> Sequence[Step]:
        """All steps."""
        return self.structure.steps

    @cached_property
    def step_times(self) -> list[int]:
        """When they began."""
        return [step.step for step in self.steps]

    @cached_property
    def _frame_steps(self) -> dict[int, tuple[list[int], list[Step]]]:
        found: dict[int, tuple[list[int], list[Step]]] = {}
        for step in self.steps:
            times, steps = found.setdefault(step.frame, ([], []))
            times.append(step.step)
            steps.append(step)
        return found

    def _step_in(self, frame: int, t: int) -> Step | None:
        """The last step of a frame that began by `t`."""
        times, steps = self._frame_steps.get(frame, ([], []))
        at = bisect.bisect_right(times, t) - 1
        return steps[at] if at >= 0 else None

    def step_of(self, t: int) -> Step | None:
        """The step that a record belongs to: the last that had begun in its frame."""
        record = self.records[t] if 0 <= t < len(self.records) else None
        frame = getattr(record, "f", None) or self.running(t)
        return self._step_in(frame, t)

    def open_steps(self, t: int) -> list[Step]:
        """The steps that are going on at `t`, in the running frame and in those that wait for it."""
        found, frame = [], self.running(t)
        for _ in range(60):
            step = self._step_in(frame, t)
            if step is not None:
                found.append(step)
            if frame == 0:
                break
            frame = self._parent(frame)
        return found

    def line_of(self, t: int) -> int | None:
        """The line that ran when a record was written."""
        record = self.records[t] if 0 <= t < len(self.records) else None
        own = getattr(record, "n", None)
        if own is not None:
            return int(own)
        step = self.step_of(t)
        return step.line if step is not None else None

    @cached_property
    def loops(self) -> Sequence[LoopRun]:
        """Every execution of a loop, by its beginning."""
        found: list[LoopRun] = []
        for activation in self.structure.activations.values():
            _collect(activation.body, 0, activation.last, found)
        return sorted(found, key=lambda run: run.start)

    @cached_property
    def iterations(self) -> Sequence[tuple[int, int]]:
        """`(t, number)` of every recorded iteration."""
        found = []
        for run in self.loops:
            for iteration in run.loop.iterations:
                first = iteration.header or next((node for node in iteration.body if isinstance(node, Step)), None)
                if first is not None:
                    found.append((first.step, iteration.number))
        return sorted(found)

    @cached_property
    def activations(self) -> Sequence[Activation]:
        """Calls in order."""
        return sorted(self.structure.activations.values(), key=lambda activation: activation.first)

    @cached_property
    def returns(self) -> Sequence[Activation]:
        """Calls that returned, by when they did."""
        ended = [activation for activation in self.activations if activation.outcome == "return"]
        return sorted(ended, key=lambda activation: activation.last)

    @cached_property
    def entry(self) -> Activation | None:
        """The call that the run is about; None for a script."""
        entry = self.trace.header.entry
        roots = self.structure.roots
        return next((root for root in roots if root.name == entry.call), None) if entry is not None else None

    @cached_property
    def stdout(self) -> str:
        """All that was printed, where it is shown."""
        return "".join(
            record.text + record.tail for record in self.records if isinstance(record, schema.Out) and record.s == 1
        )

    def moments(self, names: Iterable[str]) -> list[int]:
        """When the value of an expression over these names may change, in order."""
        key = frozenset(names)
        found = self._moments.get(key)
        if found is None:
            times = set(self.switches)
            for name in key:
                times.update(t for t, _ in self._sets.get(name, ()))
                times.update(self._attrs.get(name, ()))
                times.update(self._object_times(name))
            found = self._moments[key] = sorted(times)
        return found

    def _object_times(self, name: str) -> set[int]:
        """When objects changed that a name led to at some moment."""
        waiting = [
            label
            for frame in self._frames.values()
            for value in frame.values.get(name, ())
            if value is not MISSING
            for label in refs(value)
        ]
        seen: set[int] = set()
        times: set[int] = set()
        while waiting and len(seen) < _MOST_REACHED:
            label = waiting.pop()
            if label in seen:
                continue
            seen.add(label)
            for t in self.memory.times(label):
                times.add(t)
                obj = self.memory.object(label, t)
                if obj is not None:
                    for part in obj.parts():
                        waiting.extend(refs(part))
        return times

    def history(self, subject: ast.expr) -> Sequence[Entry]:
        """Every change of a name, item or attribute, in order."""
        known = self._history_of.get(id(subject))
        if known is not None:
            return known[1]
        found = self._history(subject)
        self._history_of[id(subject)] = (subject, found)
        return found

    def _history(self, subject: ast.expr) -> Sequence[Entry]:
        key = shape(subject)
        found = self._histories.get(key)
        if found is None:
            entries = self._name_history(subject.id) if isinstance(subject, ast.Name) else self._place_history(subject)
            found = self._histories[key] = sorted(entries, key=lambda entry: entry.t)
        return found

    def _name_history(self, name: str) -> list[Entry]:
        entries = []
        told = set()
        for t, number in self._sets.get(name, ()):
            self.spend()
            told.add(t)
            before = self._frames[number].get(name, t - 1)
            old = MISSING if before is MISSING else self.memory.read(before, t - 1)
            entries.append(Entry(t, number, old, self.memory.read(self._frames[number].get(name, t), t)))
        entries.extend(self._attribute_entries(name))
        for t in sorted(self._object_times(name) - told):
            entries.extend(self._change_at(ast.Name(name), t))
        entries.extend(self._silent_entries(name, told))
        return entries

    def _attribute_entries(self, name: str) -> Iterator[Entry]:
        for t in self._attrs.get(name, ()):
            label = getattr(self.records[t], "id", 0)
            old, new = self.memory.read({"ref": label}, t - 1), self.memory.read({"ref": label}, t)
            yield Entry(t, self.running(t), old.attrs.get(name, MISSING), new.attrs.get(name, MISSING))

    def _change_at(self, node: ast.expr, t: int) -> Iterator[Entry]:
        self.spend(2)
        old, new = self._value_or_missing(node, t - 1), self._value_or_missing(node, t)
        if new is not MISSING and old is not MISSING and not _equal(old, new):
            yield Entry(t, self.running(t), old, new)

    def _value_or_missing(self, node: ast.expr, t: int, frame: int | None = None) -> Any:
        try:
            return self.value(node, t, frame)
        except Unknowable:
            return MISSING

    def _silent_entries(self, name: str, told: set[int]) -> Iterator[Entry]:
        """Assignments of the value that a name had already, which no record tells."""
        times = sorted(told)
        for step in self.steps:
            if step.statement is None or name not in self._targets(step.statement):
                continue
            if (
                step.part == "loop"
                and self.structure.loops_of(step)[-1:]
                and self.structure.loops_of(step)[-1][1] is None
            ):
                continue
            after = bisect.bisect_right(times, step.step)
            if after < len(times) and times[after] <= step.last:
                continue
            value = self.raw(name, step.frame, step.last)
            if value is not MISSING and step.raised is None:
                seen = self.memory.read(value, step.last)
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
        """Assignments to an item or attribute of the value that it had already."""
        key = shape(subject)
        times = sorted(told)
        for step in self.steps:
            targets = getattr(step.statement, "targets", None) or [getattr(step.statement, "target", None)]
            if not any(isinstance(part, ast.Attribute | ast.Subscript) and shape(part) == key for part in targets):
                continue
            after = bisect.bisect_right(times, step.step)
            if step.raised is None and not (after < len(times) and times[after] <= step.last):
                value = self._value_or_missing(subject, step.last)
                if value is not MISSING:
                    yield Entry(step.last, step.frame, value, value, told=False)

    def _place_history(self, subject: ast.expr) -> list[Entry]:
        entries: list[Entry] = []
        for t in self.moments(names_in(subject)):
            if not isinstance(self.records[t], schema.Mutate | schema.Set):
                continue
            self.spend(4)
            frame = self.running(t)
            now = self._value_or_missing(subject, t, frame)
            if now is MISSING:
                continue
            old = self._value_or_missing(subject, t - 1, frame)
            if old is MISSING or not _equal(old, now):
                entries.append(Entry(t, frame, old, now))
        entries.extend(self._silent_place_entries(subject, {entry.t for entry in entries}))
        return entries


class Scene:
    """The names of a moment, as `evaluate` asks for them."""

    def __init__(self, ledger: Ledger, t: int, frame: int | None, calls: Sequence[Activation]) -> None:
        self.ledger = ledger
        self.t = t
        self.frame = frame
        self.calls = calls

    def __call__(self, name: str) -> Any:
        value = self.ledger.visible(name, self.t, self.frame)
        if value is MISSING:
            found = self._attribute(name)
            if found is MISSING:
                raise Unknowable(f"{name} has no value")
            return found
        return self.ledger.memory.read(value, self.t)

    def _attribute(self, name: str) -> Any:
        """A bare attribute: `balance` for `self.balance`, where only one object can be meant."""
        times = self.ledger._attrs.get(name, [])
        at = bisect.bisect_right(times, self.t) - 1
        if at < 0:
            return MISSING
        label = getattr(self.ledger.records[times[at]], "id", 0)
        owner = self.ledger.memory.read({"ref": label}, self.t)
        return owner.attrs.get(name, MISSING) if isinstance(owner, Thing) else MISSING

    def object(self, label: int) -> Any:
        """An object at this moment."""
        return self.ledger.memory.read({"ref": label}, self.t)

    def call(self, name: str, arguments: list[Any]) -> Any:
        """What a call of the program's own function gave in this step."""
        for activation in self.calls:
            if (
                is_called(activation, name)
                and activation.outcome == "return"
                and not activation.name.endswith("__init__")
            ):
                given = [
                    self.ledger.memory.read(value, activation.first)
                    for key, value in activation.args.items()
                    if key not in ("self", "cls")
                ]
                if _equal(given, arguments):
                    return self.ledger.memory.read(activation.value, activation.last)
        raise Unknowable(f"a call of {name}")


def is_called(activation: Activation, name: str) -> bool:
    """Whether an activation is one of the function that a text calls `name`."""
    qualname = activation.short_name
    return qualname == name or qualname.endswith(("." + name, name + ".__init__"))


def _collect(nodes: Sequence[Any], depth: int, last: int, found: list[LoopRun]) -> None:
    for node in nodes:
        if not isinstance(node, Loop):
            continue
        begins = [iteration.header.step for iteration in node.iterations[:1] if iteration.header is not None]
        inner = [last_ for iteration in node.iterations[-1:] if (last_ := _last_of(iteration.body))]
        closing = [node.closing.step, node.closing.last] if node.closing is not None else []
        ends = closing[-1:] or [*inner, *begins]
        firsts = [*begins, *closing, *inner]
        if firsts:
            found.append(LoopRun(min(firsts), max(ends), node, depth))
        for iteration in node.iterations:
            _collect(iteration.body, depth + 1, last, found)


def _last_of(nodes: Sequence[Any]) -> int:
    node = nodes[-1] if nodes else None
    if isinstance(node, Step):
        return node.last
    if isinstance(node, Loop):
        inner = _last_of(node.iterations[-1].body) if node.iterations else 0
        return max(inner, node.closing.step if node.closing is not None else 0)
    return 0


def _equal(left: Any, right: Any) -> bool:
    if left is right:
        return True
    if type(left) is not type(right):
        return False
    if isinstance(left, Thing):
        return bool(left == right) and _equal(left.attrs, right.attrs)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(_equal, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_equal(value, right[key]) for key, value in left.items())
    return bool(left == right)


def _names(tree: ast.AST | None) -> tuple[frozenset[str], frozenset[str]]:
    """Names that the program gives values to, attributes included, and those of its functions and classes."""
    names: set[str] = set()
    functions: set[str] = set()
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                names.add(node.id)
        elif isinstance(node, ast.Attribute):
            if not isinstance(node.ctx, ast.Load):
                names.add(node.attr)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            functions.add(node.name)
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            names.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            names.add(node.rest)
    return frozenset(names | functions), frozenset(functions)


def _note(name: str) -> Any:
    def note(ledger: Ledger, t: int, record: Any) -> None:
        getattr(ledger, name).append(t)

    return note


_HANDLERS: Final[dict[type, Any]] = {
    schema.Call: Ledger._call,
    schema.Set: Ledger._set,
    schema.Del: Ledger._del,
    schema.Mutate: Ledger._mutate,
    schema.Return: Ledger._end,
    schema.Unwind: Ledger._end,
    schema.Yield: Ledger._yield,
    schema.Resume: Ledger._resume,
    schema.Out: _note("outs"),
    schema.Raise: _note("raises"),
    schema.Fold: _note("folds"),
}
