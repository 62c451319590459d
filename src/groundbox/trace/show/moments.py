"""Moments of a run in order, each with the state at that time, and texts of what a step did: for all text forms."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from groundbox.trace.record import schema
from groundbox.trace.record.value import kind_of, ref_of
from groundbox.trace.run.folding import Folding, Gap, Moment, Skip, told
from groundbox.trace.run.objects import Obj
from groundbox.trace.run.state import State
from groundbox.trace.run.structure import Activation, Step

if TYPE_CHECKING:
    from groundbox.trace.record.reading import Trace

_MOST_PARTS: Final = 4
MOST_LOOKED_AT: Final = 2000
"""Objects that are looked at for the one that is to be named."""
MOST_DEPTH: Final = 4
_UNTOLD: Final = frozenset({"function", "class", "module", "builtin"})


class MomentTexts:
    """A trace that is gone through once, from its beginning to its end, and texts of it at the moment that was come to.

    Attributes:
        state: The state at the moment that `moments` gave last.
    """

    def __init__(self, trace: Trace, folding: Folding | None, max_chars: int) -> None:
        self.trace = trace
        self.structure = trace.structure
        self.state = State()
        self._folding = folding
        self._max_chars = max_chars

    def moments(self) -> Iterator[Moment]:
        """Each moment, after `state` was brought to it."""
        for moment in told(self.structure, self._folding):
            t = moment.gap.last if isinstance(moment, Skip) else moment.t
            # Records of what is left out are applied like all others: the state is whole at each moment.
            while self.state.t < t:
                self.state.apply(self.trace.records[self.state.t + 1])
            yield moment

    def source(self, line: int) -> str:
        """A line of the program without its indentation."""
        return self.structure.syntax.line(line)

    def value(self, value: schema.V) -> str:
        """A value at this moment."""
        return self.state.text(value, self._max_chars)

    def arguments(self, activation: Activation) -> str:
        """Return the parameters of a call: `n=5, xs=[1, 2]`."""
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
                # Taken out first: a name stands where it took its last value, behind what changed before that.
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
        # Only `xs[i] = v` has places that a reader can be shown; of an append the whole list says more.
        if record.op != "set" or len(record.at or ()) > _MOST_PARTS:
            yield name, self.value({"ref": record.id})
            return
        for place, value in record.at or ():
            attribute = obj.type in ("object", "class")
            yield name + (f".{place}" if attribute else f"[{self.value(place)}]"), self.value(value)

    def output(self, step: Step) -> str:
        """Return what a step printed, both streams together."""
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
        return self.raised(record) if isinstance(record, schema.Raise) else ""

    def raised(self, record: schema.Raise) -> str:
        """An exception as its class would be called."""
        return f"{record.type}({', '.join(map(self.value, record.args))})"

    def differences(self, what: Step | Gap) -> list[str]:
        """Return what changed in a step, or in a stretch that was left out: `x = 1`, `del y`."""
        return [f"{name} = {value}" if value is not None else f"del {name}" for name, value in self.changes(what)]

    def effects(self, step: Step) -> list[str]:
        """All that a step did, as short pieces: `x = 1`, `del y`, `True`, `prints 'a'`, `raises KeyError('a')`."""
        said = self.differences(step)
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


def name_of(state: State, frame: int, label: int) -> str:
    """The shortest way from a frame's names to an object, or `<list #4>` if none of a few steps leads there."""
    waiting: deque[tuple[str, int, int]] = deque()
    for name, value in _names(state, frame):
        ref = ref_of(value)
        if ref == label:
            return name
        if ref is not None:
            waiting.append((name, ref, 1))
    seen: set[int] = set()
    # Breadth first, so that the shortest way is found; each object is gone through once, or a cycle would have no end.
    while waiting and len(seen) < MOST_LOOKED_AT:
        path, ref, depth = waiting.popleft()
        obj = state.heap.get(ref)
        if obj is None or ref in seen or depth > MOST_DEPTH:
            continue
        seen.add(ref)
        for step, part in _parts(obj):
            if part == label:
                return path + step
            waiting.append((path + step, part, depth + 1))
    obj = state.heap.get(label)
    return f"<{(obj.class_ or obj.type) if obj is not None else 'object'} #{label}>"


def _names(state: State, frame: int) -> Iterator[tuple[str, object]]:
    found = state.frames.get(frame)
    if found is not None:
        yield from state.names(frame).items()
        # Own names first, then those of enclosing functions, and of the module last: as a reader would look for them.
        yield from ((name, held[0]) for name, held in found.others.items() if held is not None)
    yield from ((name, held[0]) for name, held in state.globals.items() if held is not None)
    if state.module and state.module != frame:
        yield from state.names(state.module).items()


def _parts(obj: Obj) -> Iterator[tuple[str, int]]:
    for name, value in obj.attrs.items():
        if (ref := ref_of(value)) is not None:
            yield f".{name}", ref
    for key, value in (obj.pairs or {}).values():
        if (ref := ref_of(value)) is not None and kind_of(key) == "atom":
            yield f"[{key!r}]", ref
    if obj.items is not None and obj.type in ("list", "deque"):
        for index, value in enumerate(obj.items.all() or ()):
            if (ref := ref_of(value)) is not None:
                yield f"[{index}]", ref
