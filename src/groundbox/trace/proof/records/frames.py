"""Names in frames through time: what each had, in which frame, and which frame was running.

What a value looks like is the matter of `memory`; what a text may call a name that it does not see, that of `scene`.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from groundbox.trace import schema
from groundbox.trace.proof.records.memory import Memory
from groundbox.trace.proof.values.things import Thing
from groundbox.trace.schema import Record, V

MISSING: Final = Thing("missing", "")
"""The value of a name before it had one."""


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


class Frames:
    """The frames of one trace.

    Attributes:
        sets: When each name was given a value, and in which frame.
        attrs: When each attribute of an object was.
        switches: When another frame began to run.
    """

    def __init__(self, records: Sequence[Record], memory: Memory) -> None:
        self._records = records
        self._memory = memory
        self._names: dict[int, _Names] = {0: _Names(0, 0, "")}
        self._by_qualname: dict[str, list[int]] = {}
        self.sets: dict[str, list[tuple[int, int]]] = {}
        self.attrs: dict[str, list[int]] = {}
        self.switches: list[int] = []
        self._running: list[int] = []
        self._resumed: dict[int, list[tuple[int, int]]] = {}
        self._first: dict[int, int] = {}
        self._index()

    def _index(self) -> None:
        for t, record in enumerate(self._records):
            handle = _HANDLERS.get(type(record))
            if handle is not None:
                handle(self, t, record)

    def _call(self, t: int, record: schema.Call) -> None:
        frame = self._names[record.f] = _Names(record.f, record.p, record.name)
        self._by_qualname.setdefault(record.name, []).append(record.f)
        for name, value in record.args.items():
            frame.put(name, t, value)
            self.sets.setdefault(name, []).append((t, record.f))
        self._switch(t, record.f)

    def _set(self, t: int, record: schema.Set) -> None:
        frame = self._owner(record)
        frame.put(record.name, t, record.v)
        self.sets.setdefault(record.name, []).append((t, frame.number))

    def _del(self, t: int, record: schema.Del) -> None:
        self._owner(record).put(record.name, t, MISSING)

    def _owner(self, record: schema.Set | schema.Del) -> _Names:
        """The frame whose name it is."""
        frame = self._names.get(record.f, self._names[0])
        if record.scope == "global":
            return self._names[self._by_qualname.get("<module>", [0])[0]]
        if record.scope == "nonlocal":
            return next((self._names[number] for number in self._enclosing(frame, record.name)), frame)
        return frame

    def _enclosing(self, frame: _Names, name: str) -> Iterator[int]:
        """Activations of the functions around a frame's function that have the name, the latest first."""
        qualname = frame.qualname
        while ".<locals>." in qualname:
            qualname = qualname.rpartition(".<locals>.")[0]
            for number in reversed(self._by_qualname.get(qualname, ())):
                if name in self._names[number].times:
                    yield number

    def _mutate(self, t: int, record: schema.Mutate) -> None:
        if record.op in ("set", "remove") and self._memory.object(record.id, t) is not None:
            obj = self._memory.object(record.id, t)
            if obj is not None and obj.type in ("object", "class"):
                for place in record.at or ():
                    name = place[0] if isinstance(place, list | tuple) else place
                    self.attrs.setdefault(str(name), []).append(t)

    def _end(self, t: int, record: schema.Return | schema.Unwind | schema.Yield) -> None:
        self._switch(t, self.parent(record.f))

    def _resume(self, t: int, record: schema.Resume) -> None:
        if record.f in self._names:
            self._first.setdefault(record.f, self._names[record.f].parent)
            self._names[record.f].parent = record.p
            self._resumed.setdefault(record.f, []).append((t, record.p))
        self._switch(t, record.f)

    def parent(self, number: int, t: int | None = None) -> int:
        """The frame that waits for this one, at `t` if that is given: a generator may go on for another; 0 for none."""
        resumed = self._resumed.get(number, ()) if t is not None else ()
        at = bisect.bisect_right(resumed, t, key=lambda each: each[0]) - 1 if t is not None else -1
        if resumed and at < 0:
            return self._first[number]
        return resumed[at][1] if resumed else self._names[number].parent if number in self._names else 0

    def _switch(self, t: int, frame: int) -> None:
        self.switches.append(t)
        self._running.append(frame)

    def running(self, t: int) -> int:
        """The innermost frame after record `t`."""
        at = bisect.bisect_right(self.switches, t) - 1
        return self._running[at] if at >= 0 else 0

    def raw(self, name: str, frame: int, t: int) -> V:
        """The recorded value that a name has in a frame, or MISSING."""
        found = self._names.get(frame)
        if found is None:
            return MISSING
        value = found.get(name, t)
        if value is MISSING:
            for number in self._enclosing(found, name):
                value = self._names[number].get(name, t)
                if value is not MISSING:
                    return value
            value = self._names[self._by_qualname.get("<module>", [0])[0]].get(name, t)
        return value

    def visible(self, name: str, t: int, frame: int | None = None) -> V:
        """The value of a name as one would say it at `t`: in the running frame, or one that waits for it."""
        number = self.running(t) if frame is None else frame
        for _ in range(60):
            value = self.raw(name, number, t)
            if value is not MISSING or number == 0:
                return value
            number = self.parent(number, t)
        return MISSING

    def last_owner(self, attribute: str, t: int) -> int | None:
        """The object whose attribute of this name was changed last by `t`."""
        times = self.attrs.get(attribute, [])
        at = bisect.bisect_right(times, t) - 1
        return getattr(self._records[times[at]], "id", 0) if at >= 0 else None

    def own(self, name: str, frame: int, t: int) -> V:
        """The recorded value of a name of this very frame, or MISSING."""
        return self._names[frame].get(name, t)

    def ever(self, name: str) -> Iterable[V]:
        """Every recorded value that a name had in any frame."""
        return (value for frame in self._names.values() for value in frame.values.get(name, ()) if value is not MISSING)


_HANDLERS: Final[dict[type, Any]] = {
    schema.Call: Frames._call,
    schema.Set: Frames._set,
    schema.Del: Frames._del,
    schema.Mutate: Frames._mutate,
    schema.Return: Frames._end,
    schema.Unwind: Frames._end,
    schema.Yield: Frames._end,
    schema.Resume: Frames._resume,
}
