"""Walk over the records: moments with the values of names, changes, rounds of loops, calls and exceptions.

A moment is where a line is about to run, or a function returns. This fold is of its own: nothing that a narrator works
out of the records is used here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from groundbox.trace.claims.program import Outer
from groundbox.trace.record import schema
from groundbox.trace.record.schema import Record, V
from groundbox.trace.record.value import kind_of, labels_in, ref_of
from groundbox.trace.run.python_values import python_value
from groundbox.trace.run.state import State
from groundbox.values.equal import equal
from groundbox.values.unknown import Unknown

MOST_MOMENTS: Final = 20_000


class Moment(NamedTuple):
    """Names of the frame that runs, as Python values; names whose values are not plain are left out."""

    step: int
    line: int
    names: Mapping[str, Any]
    frame: int


class Change(NamedTuple):
    """A value of an expression, and the next one that it had in the same call.

    Attributes:
        step: The first record after the change.
    """

    step: int
    before: Any
    after: Any


class Rounds(NamedTuple):
    """Run of a loop: the records at which its iterations begin."""

    line: int
    starts: list[int]


class Raised(NamedTuple):
    """An exception that came up."""

    step: int
    type: str


class Returned(NamedTuple):
    """A call that gave a value."""

    step: int
    function: str
    arguments: Mapping[str, Any]
    value: Any


class Happened:
    """Everything that one walk over the records gives.

    Args:
        names: What the program calls things.
        functions: Those of them that are functions.
        outer: Names that a code takes from around it, by the code's qualified name (`outer_names`).

    Attributes:
        rounds: The runs of loops, in the order in which they begin.
        changes: Names whose value changed, in order.
        returned: The calls that gave plain values.
        calls: How often each of the program's functions was called.
        given: The arguments of the call that was asked for.
        whole: Everything that could be told of the records was.
    """

    def __init__(
        self,
        records: Sequence[Record],
        names: Collection[str],
        functions: Collection[str],
        outer: Mapping[str, Outer],
    ) -> None:
        self.moments: list[Moment] = []
        self.rounds: list[Rounds] = []
        self.changes: list[tuple[str, Change]] = []
        self.returned: list[Returned] = []
        self.raised: list[Raised] = []
        self.calls: Counter[str] = Counter()
        self.given: Mapping[str, Any] = {}
        self.whole = True
        self._printed: list[str] = []
        self._functions = functions
        self._told = frozenset(names) - frozenset(functions)
        self._outer = outer
        self._state = State()
        self._running: dict[tuple[int, int], Rounds] = {}
        self._held: dict[tuple[int, str], tuple[Any, int, Any]] = {}
        self._objects: dict[int, Any] = {}  # values by label, as long as no part of them changes
        self._within: dict[int, set[int]] = {}  # labels of the objects that one is a part of, those with a value
        self._open_calls: dict[int, tuple[str, Mapping[str, Any]]] = {}
        self._mutations = 0
        for step, record in enumerate(records):
            self._take(step, record)
        self.printed = "".join(self._printed)
        self.whole = self.whole and len(self.moments) < MOST_MOMENTS

    def _take(self, step: int, record: Record) -> None:
        if isinstance(record, schema.Line | schema.Return | schema.Yield) and len(self.moments) < MOST_MOMENTS:
            # Before the record is applied: a line is about to run, and shows what was so before it.
            self.moments.append(Moment(step, record.n, self._named(record.f, step), record.f))
        elif isinstance(record, schema.Iteration | schema.Ended):
            self._go_round(step, record)
        self._state.apply(record)
        if isinstance(record, schema.Mutate | schema.Object):
            # Everything that the object is a part of has another value from now on.
            for whole in self._within.pop(record.id, ()):
                self._objects.pop(whole, None)
        if isinstance(record, schema.Mutate):
            self._mutations += 1
        elif isinstance(record, schema.Call):
            arguments = self._plain(record.args)
            self._open_calls[record.f] = (record.name, arguments)
            self.calls[record.name.rpartition(".")[2]] += 1
            # The call that was asked for; the module, too, is called by nobody.
            if record.p == 0 and not record.body and record.name in self._functions:
                self.given = arguments
        elif isinstance(record, schema.Return) and record.f in self._open_calls:
            name, was_given = self._open_calls.pop(record.f)
            for value in self._plain({"": record.v}).values():
                self.returned.append(Returned(step, name, was_given, value))
        elif isinstance(record, schema.Raise):
            self.raised.append(Raised(step, record.type))
        elif isinstance(record, schema.Out) and record.s == 1:
            self._printed.append(record.text)
            self.whole = self.whole and not record.elided

    def _named(self, frame: int, step: int) -> dict[str, Any]:
        """The names that the frame sees; a value that did not change is the same object as before. Notes changes."""
        names = {}
        for name, raw in self._seen(frame).items():
            known = self._held.get((frame, name))
            # The same reference and no object changed since: the same value, without looking at it.
            if known is None or known[:2] != (raw, self._mutations):
                try:
                    value = self._value(raw)
                except Unknown:
                    self.whole = self.whole and name not in self._told
                    self._held.pop((frame, name), None)
                    continue
                # The object of before is kept, so that equal values are one object: whoever asks tells them apart by
                # `id`.
                if known is not None and (known[2] is value or equal(known[2], value)):
                    value = known[2]
                elif known is not None:
                    self.changes.append((name, Change(step, known[2], value)))
                self._held[frame, name] = known = (raw, self._mutations, value)
            names[name] = known[2]
        return names

    def _value(self, raw: V) -> Any:
        """A value as a plain one; that of an object is made anew only when a part changed, whichever frames see it."""
        label = ref_of(raw)
        if label is None:
            return python_value(self._state, raw)
        if label not in self._objects:
            self._objects[label] = python_value(self._state, raw)
            for part in self._parts(label):
                self._within.setdefault(part, set()).add(label)
        return self._objects[label]

    def _parts(self, label: int) -> set[int]:
        """The labels of an object and of all that it leads to."""
        found, left = {label}, [label]
        while left:
            for value in self._state.heap[left.pop()].parts():
                if type(value) is dict:  # no atom
                    new = set(labels_in(value)) - found
                    found |= new
                    left += new
        return found

    def _seen(self, frame: int) -> dict[str, V]:
        """The frame's own names, and those objects of enclosing functions and the module that its code names.

        Only objects: a name that is assigned is seen where its own frame goes on.
        """
        own = self._state.names(frame)
        outer = self._outer.get(self._state.frames[frame].name) if frame in self._state.frames else None
        if outer is None:
            return own
        for place, names in ((frame, outer.enclosing), (0, outer.module)):  # of no frame, so of the module
            for name in names:
                if name not in self._told or name in own:
                    continue
                try:
                    raw = self._state.lookup(place, name)
                except (KeyError, Unknown):
                    continue
                if kind_of(raw) == "ref":
                    own[name] = raw
        return own

    def _go_round(self, step: int, record: schema.Iteration | schema.Ended) -> None:
        """Note an iteration, or that a loop is over, which may have had none."""
        key = (record.f, record.n)
        is_first = isinstance(record, schema.Iteration) and record.number == 1
        if is_first or key not in self._running:
            self._running[key] = Rounds(record.n, [])
            self.rounds.append(self._running[key])
        if isinstance(record, schema.Iteration):
            self._running[key].starts.append(step)
        else:
            del self._running[key]

    def _plain(self, values: Mapping[str, Any]) -> dict[str, Any]:
        found = {}
        for name, value in values.items():
            try:
                found[name] = python_value(self._state, value)
            except Unknown:
                continue
        return found
