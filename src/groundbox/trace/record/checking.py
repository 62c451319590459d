"""The rules of docs/trace.md that need more than one record: what exists before it is used.

The order of records is a claim of a guest. What is checked here is what readers build on: frames, lines and
labels that exist, indexes inside their lists, frames that run before they do something and not after they ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from operator import attrgetter
from typing import Any, Final, NamedTuple

from groundbox.trace.record import schema
from groundbox.trace.record.operands import Operands, operands_of
from groundbox.trace.record.schema import Record, V
from groundbox.trace.record.value import MOST_INT, MOST_TEXT, InvalidRecord, check, check_hex, need

MOST_NAME: Final = 1000
_SCOPES: Final = (None, "global", "nonlocal")
_AT_LINE: Final = frozenset(schema.AtLine.__subclasses__())
_WAKING: Final = frozenset({schema.Return, schema.Raise, schema.Unwind})
"""Records of a frame that may wait since its yield."""
_RUNS: Final = 1
_WAITS: Final = 2
_ENDED: Final = 3
_ITEMS: Final = frozenset({"list", "set", "deque", "array"})
_KEYED: Final = frozenset({"dict", "object", "class"})
_PARTS: Final = schema.Content.__struct_fields__
_OPS: Final[Mapping[str, tuple[Set[str], Set[str]]]] = {
    "set": ({"list", "deque", "dict", "object", "class"}, {"at"}),
    "splice": ({"list", "deque"}, {"start", "removed", "items"}),
    "remove": (_KEYED, {"at"}),
    "add": ({"set"}, {"items"}),
    "discard": ({"set"}, {"items"}),
    "replace": (_ITEMS | _KEYED | {"bytearray"}, {*_PARTS}),
}
"""Types of objects that an operation changes, and parts of a record that go with it."""
_TYPE_FIELDS: Final[Mapping[str, Set[str]]] = {
    "list": {"items", "tail", "elided", "attrs"},
    "set": {"items", "tail", "elided", "attrs"},
    "deque": {"items", "tail", "elided", "attrs", "maxlen"},
    "dict": {"pairs", "tail", "elided", "attrs"},
    "object": {"attrs", "elided"},
    "class": {"attrs", "elided"},
    "bytearray": {"hex", "len", "elided"},
    "array": {"items", "tail", "elided", "dtype", "shape"},
}


def _others(fields: Set[str], parts: Sequence[str]) -> Callable[[Record], tuple[Any, ...]]:
    """Give the parts of a record, at least two, that are not among these fields.

    One attrgetter for all of them is quicker than asking one by one, and most records have none. Of a single name it
    would give no tuple.
    """
    return attrgetter(*(name for name in parts if name not in fields))


_PARTS_OF_CHANGE: Final = ("at", "start", "removed", *_PARTS)
_NOT_OF_TYPE: Final = {kind: _others(fields, _PARTS) for kind, fields in _TYPE_FIELDS.items()}
_NOT_OF_OP: Final = {op: _others(fields, _PARTS_OF_CHANGE) for op, (_, fields) in _OPS.items()}
MOST_COLUMN: Final = 10**7


class _Count(NamedTuple):
    """Iterations of a loop so far, and how many folds there had been then."""

    iterations: int
    folds: int


class Checker:
    """Takes the records of one trace in their order.

    Attributes:
        lines: How many lines the source has.
        ended: Whether the `end` record was seen.
        lost: What `lost` records said, at most 20 of them.
        folded: Whether anything was folded.
    """

    def __init__(self, lines: int, source: str | None = None) -> None:
        """Args:
        source: None for a source that nothing is known about, and for records of a schema without tests.
        """
        self.lines = lines
        self._source = source
        self._operands: Operands | None = None
        self._at: dict[int, int] = {}
        self._loops: dict[int, dict[int, _Count]] = {}
        self._folds = 0
        self.ended = False
        self.folded = False
        self.lost: list[str] = []
        # 0 is no frame: it may be a parent, and do nothing.
        self._frames: dict[int, int] = {0: _ENDED}
        self._last_frame = 0
        # The frame whose `call` was the last record: only then may its body be folded.
        self._fresh: int | None = None
        self._types: dict[int, str] = {}
        self._lengths: dict[int, int] = {}
        # Labels that a description refers to and that have none yet. Objects that lead to each other are described in
        # one row, each after its parts, so that some refer to labels further on: until all are described, nothing else
        # may come.
        self._owed: set[int] = set()
        self._described = 0

    @property
    def owing(self) -> int:
        """Return how many records at the end are descriptions that refer to an object without one."""
        return self._described if self._owed else 0

    def take(self, records: Iterable[Record], kept: list[Record]) -> None:
        """Check what comes, and append it to `kept`, until something is raised.

        Most records are lines, names that take short values, and tests: what `check` would say of these is said here.
        What is not plainly right is asked of `check`.

        Raises:
            InvalidRecord: The next record may not stand there. Those in `kept` may.
        """
        check, keep = self.check, kept.append
        state, lines, at = self._frames.get, self.lines, self._at
        for record in records:
            # What is not said here, as that a row of descriptions is under way, is left to `check`.
            if self._owed or self.ended:
                check(record)
            elif type(record) is schema.Line:
                if state(record.f) != _RUNS or not 1 <= record.n <= lines:
                    check(record)
                # By this the tests that follow are held to the statement that the frame is on.
                at[record.f] = record.n
                self._fresh = None
            elif type(record) is schema.Set:
                plain = record.scope is None and len(record.name) <= MOST_NAME and _is_plain(record.v)
                if state(record.f) != _RUNS or not plain:
                    check(record)
                self._fresh = None
            elif type(record) is schema.Test and self._operands is not None:
                unit = self._operands.units.get(record.at)
                if state(record.f) != _RUNS or unit is None or not unit[0] <= at.get(record.f, 0) <= unit[1]:
                    check(record)
                self._fresh = None
            else:
                check(record)
            keep(record)

    def check(self, record: Record) -> None:
        """Check the next record.

        Raises:
            InvalidRecord: It may not stand here, or says what cannot be.
        """
        if self.ended:
            raise InvalidRecord("nothing follows an end")
        kind: type[Any] = type(record)
        if self._owed and kind is not schema.Object:
            raise InvalidRecord(f"label {min(self._owed)} is referred to and not described")
        if kind in _AT_LINE:
            placed: Any = record  # `isinstance` would say so to mypy, and takes longer
            self._frame(placed.f, wakes=kind in _WAKING)
            self._line(placed.n)
        _CHECKS[kind](self, record)
        # Any other record may stand between a call and what it does, but no body that is folded afterwards.
        if kind is not schema.Call:
            self._fresh = None
        # The row is over: what comes next can stand without it.
        if not self._owed:
            self._described = 0

    def finish(self) -> None:
        """Check what can only be said after the last record.

        Raises:
            InvalidRecord: An object was referred to and never described.
        """
        if self._owed:
            raise InvalidRecord(f"label {min(self._owed)} is referred to and not described")

    def _value(self, value: V) -> None:
        refs: list[int] = []
        check(value, refs)
        for label in refs:
            if label not in self._types:
                raise InvalidRecord(f"label {label} is not described")

    def _part(self, value: V) -> None:
        """A part of an object: what it refers to may be described by a record of the same group."""
        refs: list[int] = []
        check(value, refs)
        for label in refs:
            if label not in self._types:
                if label < 1:
                    raise InvalidRecord("labels are counted from 1")
                self._owed.add(label)

    def _frame(self, frame: int, *, wakes: bool = False) -> None:
        state = self._frames.get(frame) if frame > 0 else None
        if state == _RUNS:
            return
        if state is None:
            raise InvalidRecord(f"frame {frame} was not called")
        if state == _ENDED:
            raise InvalidRecord(f"frame {frame} has ended")
        if not wakes:
            raise InvalidRecord(f"frame {frame} waits since its yield")
        self._frames[frame] = _RUNS

    def _line(self, number: int) -> None:
        if not 1 <= number <= self.lines:
            raise InvalidRecord(f"the source has no line {number}")

    def _call(self, record: schema.Call) -> None:
        # Readers find a frame by its number, so that none is given twice.
        if record.f <= self._last_frame:
            raise InvalidRecord(f"frame {record.f} is called after frame {self._last_frame}")
        if record.p not in self._frames:
            raise InvalidRecord(f"frame {record.p} was not called")
        need(len(record.name) <= MOST_NAME, "a name is too long")
        self._line(record.n)
        for value in record.args.values():
            self._value(value)
        self._frames[record.f] = _RUNS
        self._last_frame = self._fresh = record.f

    def _step(self, record: schema.Line) -> None:
        self._at[record.f] = record.n

    def _set(self, record: schema.Set) -> None:
        self._frame(record.f)
        need(record.scope in _SCOPES, "a scope is global or nonlocal")
        need(len(record.name) <= MOST_NAME, "a name is too long")
        self._value(record.v)

    def _del(self, record: schema.Del) -> None:
        self._frame(record.f)
        need(record.scope in _SCOPES, "a scope is global or nonlocal")

    def _return(self, record: schema.Return) -> None:
        self._value(record.v)
        self._leave(record.f)

    def _leave(self, frame: int) -> None:
        self._frames[frame] = _ENDED
        # Nothing of a frame that has ended is asked again, and a long run has many.
        self._at.pop(frame, None)
        self._loops.pop(frame, None)

    def _yield(self, record: schema.Yield) -> None:
        self._value(record.v)
        self._frames[record.f] = _WAITS
        self._at[record.f] = record.n

    def _resume(self, record: schema.Resume) -> None:
        need(self._frames.get(record.f) == _WAITS, f"frame {record.f} goes on without having waited")
        need(record.p in self._frames, f"frame {record.p} was not called")
        self._line(record.n)
        self._frames[record.f] = _RUNS

    def _raise(self, record: schema.Raise) -> None:
        need(len(record.type) <= MOST_NAME, "a name is too long")
        need(record.from_ is None or record.from_ in self._frames, f"frame {record.from_} was not called")
        for value in record.args:
            self._value(value)

    def _unwind(self, record: schema.Unwind) -> None:
        self._leave(record.f)

    def _out(self, record: schema.Out) -> None:
        need(record.s in (1, 2), "output goes to 1 or 2")
        need(record.elided >= 0, "elided is a count")

    def _fold(self, record: schema.Fold) -> None:
        need(record.what in ("loop", "call"), "a loop or a call is folded")
        need(min(record.steps, record.iterations, record.calls) >= 0, "steps, iterations and calls are counts")
        need(record.what == "loop" or self._fresh == record.f, "a folded call follows its call record")
        self.folded = True
        self._folds += 1

    def _known(self) -> Operands | None:
        """Return what the source has, or None if it does not parse here."""
        if self._source is not None and self._operands is None:
            self._operands = operands_of(self._source)
            self._source = None
        return self._operands

    def _test(self, record: schema.Test) -> None:
        self._frame(record.f)
        first, column, last, end = record.at
        need(1 <= first <= last <= self.lines, f"the source has no lines {first} to {last}")
        need(0 <= column <= MOST_COLUMN and 0 <= end <= MOST_COLUMN, "a column is inside its line")
        known = self._known()
        if known is None:
            return
        unit = known.units.get(record.at)
        need(unit is not None, f"nothing is tested at {','.join(map(str, record.at))}")
        assert unit is not None
        line = self._at.get(record.f, 0)
        need(unit[0] <= line <= unit[1], f"what is tested in line {first} is no part of line {line}")

    def _iteration(self, record: schema.Iteration) -> None:
        loops = self._loops.setdefault(record.f, {})
        before = loops.get(record.n, _Count(0, 0))
        known = self._known()
        loop = known.loops.get(record.n) if known is not None else None
        need(known is None or loop is not None, f"no loop begins in line {record.n}")
        # Folds of all frames count: what is folded in one may have gone through loops of others.
        follows = record.number == before.iterations + 1 or (
            record.number > before.iterations and self._folds > before.folds
        )
        # Which loops are inside which is known from the source alone; without it any loop may begin anew.
        restarts = known is None and record.number == 1
        need(follows or restarts, f"iteration {record.number} of line {record.n} follows {before.iterations}")
        loops[record.n] = _Count(record.number, self._folds)
        # An inner loop begins anew in each iteration, with 1.
        for inner in loop.inner if loop is not None else ():
            loops.pop(inner, None)
        if record.items is not None:
            need(loop is None or len(record.items) == loop.names, "an item is told for each name")
            for value in record.items:
                self._value(value)

    def _ended(self, record: schema.Ended) -> None:
        known = self._known()
        need(known is None or record.n in known.loops, f"no loop begins in line {record.n}")
        before = self._loops.get(record.f, {}).get(record.n, _Count(0, 0))
        need(
            record.iterations == before.iterations
            or (record.iterations > before.iterations and self._folds > before.folds),
            f"the loop of line {record.n} ends after {before.iterations} iterations",
        )

    def _lose(self, record: schema.Lost) -> None:
        # A guest may write as many as its trace has room for.
        if len(self.lost) < 20:
            self.lost.append(record.why[:300])

    def _end(self, record: schema.End) -> None:
        self.ended = True

    def _object(self, record: schema.Object) -> None:
        need(record.id >= 1, "labels are counted from 1")
        need(record.id not in self._types, f"label {record.id} is described twice")
        need(record.type in _TYPE_FIELDS, f"{record.type[:40]!r} is no type of object")
        need(record.class_ is None or len(record.class_) <= MOST_NAME, "a name is too long")
        self._content(record, record.type, self._part)
        # Only now, so that an object that holds itself owes its own description, and pays with it.
        self._types[record.id] = record.type
        self._owed.discard(record.id)
        self._described += 1

    def _content(self, record: Any, kind: str, each: Callable[[V], None]) -> None:
        """The parts that an `object` record and a `replace` share."""
        if any(_NOT_OF_TYPE[kind](record)):
            given = {name for name in _PARTS if getattr(record, name)}
            raise InvalidRecord(f"a {kind} has no {min(given - _TYPE_FIELDS[kind])}")
        need(record.elided >= 0, "elided is a count")
        need(not record.tail or record.elided > 0, "only what is elided has a tail")
        if kind == "bytearray":
            check_hex(record.hex, record.len)
        if (kind in _ITEMS and record.items is None) or (kind == "dict" and record.pairs is None):
            raise InvalidRecord(f"a {kind} has {'pairs' if kind == 'dict' else 'items'}")
        for value in record.items or ():
            each(value)
        for key, value in record.pairs or ():
            each(key)
            each(value)
        for value in record.attrs.values() if record.attrs else ():
            each(value)
        for value in record.tail or ():
            self._tail(value, kind, each)
        # Kept up by each `splice`, so that indexes can be held against it without the items.
        if kind in ("list", "deque"):
            self._lengths[record.id] = len(record.items) + record.elided + len(record.tail or ())

    def _tail(self, value: V, kind: str, each: Callable[[V], None]) -> None:
        if kind != "dict":
            each(value)
            return
        need(type(value) is list and len(value) == 2, "a pair has a key and a value")
        each(value[0])
        each(value[1])

    def _mutate(self, record: schema.Mutate) -> None:
        kind = self._types.get(record.id, "")
        need(bool(kind), f"label {record.id} is not described")
        kinds, fields = _OPS.get(record.op, (frozenset(), frozenset()))
        need(kind in kinds, f"a {kind} is not changed by {record.op[:40]!r}")
        if any(_NOT_OF_OP[record.op](record)):
            given = {name for name in _PARTS_OF_CHANGE if getattr(record, name)}
            raise InvalidRecord(f"{record.op!r} does not go with {min(given - fields)}")
        if record.op == "replace":
            self._content(record, kind, self._value)
        elif record.op == "splice":
            self._splice(record)
        elif record.op in ("add", "discard"):
            for value in record.items or ():
                self._value(value)
        else:
            self._change(record, kind)

    def _splice(self, record: schema.Mutate) -> None:
        start, removed, items = record.start, record.removed, record.items
        need(start is not None and removed is not None and items is not None, "a splice has start, removed and items")
        assert start is not None
        assert removed is not None
        assert items is not None
        length = self._lengths[record.id]
        need(start >= 0 and removed >= 0 and start + removed <= length, f"a list of {length} items has no such part")
        for value in items:
            self._value(value)
        self._lengths[record.id] = length - removed + len(items)

    def _change(self, record: schema.Mutate, kind: str) -> None:
        for entry in record.at or ():
            place = entry
            if record.op == "set":
                need(type(entry) is list and len(entry) == 2, "a change has a place and a value")
                place = entry[0]
                self._value(entry[1])
            if kind == "dict":
                self._value(place)
            elif kind in ("list", "deque"):
                need(type(place) is int and 0 <= place < self._lengths[record.id], "an index is inside its list")
            else:
                need(type(place) is str and len(place) <= MOST_NAME, "an attribute has a name")


def _is_plain(value: V) -> bool:
    """Return whether `values.check` allows a value, and it refers to nothing; False may mean either."""
    kind = type(value)
    if kind is int:
        return -MOST_INT <= value <= MOST_INT  # type: ignore[no-any-return]
    if kind is str:
        return len(value) <= MOST_TEXT
    return value is None or kind is bool


_CHECKS: Final[dict[type[Record], Callable[[Checker, Any], None]]] = {
    schema.Call: Checker._call,
    schema.Line: Checker._step,
    schema.Set: Checker._set,
    schema.Del: Checker._del,
    schema.Object: Checker._object,
    schema.Mutate: Checker._mutate,
    schema.Return: Checker._return,
    schema.Yield: Checker._yield,
    schema.Resume: Checker._resume,
    schema.Raise: Checker._raise,
    schema.Unwind: Checker._unwind,
    schema.Out: Checker._out,
    schema.Fold: Checker._fold,
    schema.Test: Checker._test,
    schema.Iteration: Checker._iteration,
    schema.Ended: Checker._ended,
    schema.Lost: Checker._lose,
    schema.End: Checker._end,
}
