"""State of a program's names and objects at one moment, rebuilt from the records up to there.

A state only says what the trace says.
Parts that were elided are counted, and stay unknown until a later record tells them.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from groundbox.trace.record import schema
from groundbox.trace.record.schema import Record, V
from groundbox.trace.run.objects import Obj as Obj
from groundbox.trace.run.objects import change
from groundbox.trace.run.objects import key_text as key_text
from groundbox.trace.run.python_values import python_value
from groundbox.trace.run.text import text
from groundbox.values.unknown import Unknown

MOST_KEYFRAMES: Final = 64
MOST_OWNERS: Final = 64
"""A name of an enclosing function that was called more often than this is not known once an inner one assigned it."""
SPACING: Final = 512
"""Records between two keyframes, more in traces that would have too many; unchanged objects are shared."""


class Frame:
    """Names of an activation.

    Attributes:
        names: Its own names. A value of None means: it has one, and the trace does not say which.
        others: Names of enclosing functions as this frame last told them (`"scope": "nonlocal"`).
        line: The line it is on.
        status: `runs`, `waits` (a generator after `yield`) or `ended`.
    """

    __slots__ = ("body", "line", "name", "names", "number", "others", "parent", "status", "thread")

    def __init__(self, record: schema.Call) -> None:
        self.number = record.f
        self.parent = record.p
        self.name = record.name
        self.line = record.n
        self.body = record.body
        self.thread = record.thread
        self.names: dict[str, tuple[V] | None] = {name: (value,) for name, value in record.args.items()}
        self.others: dict[str, tuple[V] | None] = {}
        self.status = "runs"

    def copy(self) -> Frame:
        """A frame of its own with the same names."""
        twin = Frame.__new__(Frame)
        for name in Frame.__slots__:
            setattr(twin, name, getattr(self, name))
        twin.names, twin.others = dict(self.names), dict(self.others)
        return twin


class State:
    """Heap and frames after some records.

    Attributes:
        t: The last record applied, -1 for none.
        heap: Objects by label.
        frames: Every frame called so far, by number, also those that have ended.
        globals: Names that frames told with `"scope": "global"` when no module frame was recorded.
        module: The frame of the module, 0 when it was not recorded.
    """

    def __init__(self) -> None:
        self.t = -1
        self.heap: dict[int, Obj] = {}
        self.frames: dict[int, Frame] = {}
        self.globals: dict[str, tuple[V] | None] = {}
        self.module = 0
        self._by_name: dict[str, list[int]] = {}
        self._unsure: set[tuple[str, str]] = set()
        self._own_objects: set[int] = set()
        self._own_frames: set[int] = set()

    def copy(self) -> State:
        """A state of its own. Objects and frames are shared until one of the two changes them."""
        twin = State()
        twin.t, twin.module = self.t, self.module
        twin.heap, twin.frames, twin.globals = dict(self.heap), dict(self.frames), dict(self.globals)
        # Lists are grown in place, so each state has its own; frames and objects are copied when they change.
        twin._by_name = {name: list(numbers) for name, numbers in self._by_name.items()}
        twin._unsure = set(self._unsure)
        # Of this state too: from now on both share all that there is.
        self._own_objects, self._own_frames = set(), set()
        return twin

    def apply(self, record: Record) -> None:
        """Take the next record, which must have been checked (every record of a `Trace` has)."""
        self.t += 1
        handler = _CHANGES.get(type(record))
        if handler is not None:
            handler(self, record)

    def names(self, frame: int) -> dict[str, V]:
        """The frame's own names whose values are known, in the order in which they first took one.

        The module's include what functions assigned to it.
        """
        found = self.frames.get(frame)
        if found is None:
            return {}
        names = {name: held[0] for name, held in found.names.items() if held is not None}
        # Any of its activations may have another value by now.
        for name in [name for qualname, name in self._unsure if qualname == found.name]:
            names.pop(name, None)
        return names

    def lookup(self, frame: int, name: str) -> V:
        """The value that `name` has in a frame: its own, of an enclosing function, or the module's.

        Raises:
            KeyError: No record gave this name a value. It may be a builtin, or not be told.
            Unknown: It has a value that the trace does not say.
        """
        found = self.frames.get(frame)
        places: list[Mapping[str, tuple[V] | None]] = []
        if found is not None:
            own = {name: None} if (found.name, name) in self._unsure else found.names
            places = [own, found.others, *self._enclosing(found.name, name)]
        for place in (*places, self._globals()):
            # As Python looks names up: local, enclosing, global. Builtins are not recorded.
            if name in place:
                held = place[name]
                if held is None:
                    raise Unknown(f"{name} was assigned by a function that may belong to several calls")
                return held[0]
        raise KeyError(name)

    def text(self, value: V, max_chars: int = 200) -> str:
        """A value as Python-like text at this moment; see `groundbox.trace.run.text.text`."""
        return text(self, value, max_chars)

    def python_value(self, value: V) -> Any:
        """A value of builtin types as a plain Python value; see `groundbox.trace.run.python_values.python_value`.

        Raises:
            Unknown: It is not of builtin types, or a part of it is not shown.
        """
        return python_value(self, value)

    def running(self, thread: str | None = None) -> list[int]:
        """Frames that were called and have not ended, the outermost first; waiting generators are left out."""
        return [n for n, frame in self.frames.items() if frame.status == "runs" and frame.thread == thread]

    def _globals(self) -> dict[str, tuple[V] | None]:
        return self.frames[self.module].names if self.module else self.globals

    def _enclosing(self, qualname: str, name: str) -> Iterator[Mapping[str, tuple[V] | None]]:
        """Names of the enclosing functions, where only one activation of each can be meant."""
        while ".<locals>." in qualname:
            qualname = qualname.rpartition(".<locals>.")[0]
            if (qualname, name) in self._unsure:
                yield {name: None}
                continue
            # Which activation a closure was made in is not recorded. Two that have the name are one too many.
            calls = (n for n in self._by_name.get(qualname, ()) if name in self.frames[n].names)
            holders = list(itertools.islice(calls, 2))
            if len(holders) == 1:
                yield self.frames[holders[0]].names
            elif holders:
                yield {name: None}

    def _object(self, label: int) -> Obj:
        """The object to change: a copy, if another state has it, too."""
        if label not in self._own_objects:
            self.heap[label] = self.heap[label].copy()
            self._own_objects.add(label)
        return self.heap[label]

    def _frame(self, number: int) -> Frame:
        if number not in self._own_frames:
            self.frames[number] = self.frames[number].copy()
            self._own_frames.add(number)
        return self.frames[number]

    def _call(self, record: schema.Call) -> None:
        self.frames[record.f] = Frame(record)
        self._own_frames.add(record.f)
        self._by_name.setdefault(record.name, []).append(record.f)
        if record.name == "<module>" and not self.module:
            self.module = record.f
            # What functions told as global before the module was called, as where a call came first.
            self.frames[record.f].names.update(self.globals)

    def _line(self, record: Any) -> None:
        self._frame(record.f).line = record.n

    def _set(self, record: schema.Set) -> None:
        self._assign(record, (record.v,))

    def _del(self, record: schema.Del) -> None:
        self._assign(record, ())

    def _assign(self, record: schema.Set | schema.Del, held: tuple[V] | tuple[()]) -> None:
        if record.scope == "global":
            place = self._frame(self.module).names if self.module else self.globals
        elif record.scope == "nonlocal":
            place = self._frame(record.f).others
            self._assign_enclosing(record, held)
        else:
            place = self._frame(record.f).names
        if held:
            place[record.name] = held
        else:
            place.pop(record.name, None)

    def _assign_enclosing(self, record: schema.Set | schema.Del, held: tuple[V] | tuple[()]) -> None:
        """A name of an enclosing function changed; where several activations of it may be meant, none is known."""
        qualname = self.frames[record.f].name
        while ".<locals>." in qualname:
            qualname = qualname.rpartition(".<locals>.")[0]
            numbers = self._by_name.get(qualname, [])
            if len(numbers) > MOST_OWNERS:
                self._unsure.add((qualname, record.name))
                return
            holders = [n for n in numbers if record.name in self.frames[n].names]
            # `nonlocal x` of a name that its only owner has not bound yet.
            if not holders and len(numbers) == 1 and ".<locals>." not in qualname:
                holders = numbers
            for number in holders:
                names = self._frame(number).names
                if len(holders) > 1:
                    # It has a value, and which of them took it is not told.
                    names[record.name] = None
                elif held:
                    names[record.name] = held
                else:
                    names.pop(record.name, None)
            if holders:
                return

    def _end_frame(self, record: Any) -> None:
        frame = self._frame(record.f)
        frame.line, frame.status = record.n, "ended"

    def _wait(self, record: schema.Yield) -> None:
        frame = self._frame(record.f)
        frame.line, frame.status = record.n, "waits"

    def _wake(self, record: Any) -> None:
        frame = self._frame(record.f)
        frame.line, frame.status = record.n, "runs"

    def _describe(self, record: schema.Object) -> None:
        self.heap[record.id] = Obj(record)
        self._own_objects.add(record.id)

    def _mutate(self, record: schema.Mutate) -> None:
        change(self._object(record.id), record)


class Keyframes:
    """States of a trace, kept every `SPACING` records as far as they were asked for."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = records
        self._spacing = max(SPACING, len(records) // MOST_KEYFRAMES)
        self._at: list[int] = [-1]
        self._states: list[State] = [State()]

    def state_at(self, t: int) -> State:
        """A state of its own after record `t`.

        Raises:
            IndexError: There is no such record.
        """
        if not -1 <= t < len(self._records):
            raise IndexError(f"the trace has records 0 to {len(self._records) - 1}, and no {t}")
        # `_at` grows in order: a later moment is only come to from the last keyframe before it.
        nearest = bisect.bisect_right(self._at, t) - 1
        state = self._states[nearest].copy()
        while state.t < t:
            state.apply(self._records[state.t + 1])
            # A copy, since this state is the caller's, who may go on with it.
            if state.t % self._spacing == 0 and state.t > self._at[-1]:
                self._at.append(state.t)
                self._states.append(state.copy())
        return state


_CHANGES: Final[Mapping[type[Record], Any]] = {
    schema.Call: State._call,
    schema.Line: State._line,
    schema.Set: State._set,
    schema.Del: State._del,
    schema.Object: State._describe,
    schema.Mutate: State._mutate,
    schema.Return: State._end_frame,
    schema.Unwind: State._end_frame,
    schema.Yield: State._wait,
    schema.Resume: State._wake,
    schema.Raise: State._wake,
}
