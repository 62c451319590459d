"""What is looked at when a line is over: the objects that it can have changed, then the names that it can have stored.

**Objects.** By the line's effects (`plan.Line.effects`, `effects.touched`): each touched object is checked, in their
order; if anything may have changed, the heap is walked from: the values of the line's roots in their order, then the
objects that names which the line stores were last told to hold, then what user code returned to this line.

**Names.** See `names`: the names that the line may store, in their order.
"""

from __future__ import annotations

import types
from typing import Any

from .classes import Kinds
from .effects import Resolver, has_value, namespace, value_of
from .frames import State
from .heap import Heap
from .memory import Memory
from .names import Names
from .own import protect
from .plan import CLASS, Line, Name, Program
from .printing import Printed
from .values import Values, take_standard

protect(globals())


class Looker:
    """The part of a recorder that looks at frames."""

    def __init__(self, program: Program, memory: Memory) -> None:
        self.states: dict[int, State] = {}
        self.codes = program.codes
        self._program = program
        self._memory = memory
        self._holds = program.facts.holds
        self._kinds = Kinds()
        self._values = Values(self._kinds)
        take_standard(self._values, program.facts.imports)
        self._heap = Heap(self._values, memory.add, holds=self._holds)
        self._resolver = Resolver(program.codes, self._kinds)
        self._names = Names(self._values, memory, holds=self._holds)
        self._printed = Printed(memory)
        self._threaded = False
        """User code has run in a second thread."""

    def depth(self, frame: types.FrameType) -> int:
        """How many frames there are on the stack, this one included."""
        parent = self._parent(frame)
        if parent is not None:
            return parent[0].depth + parent[2]
        depth, outside = 0, _or_none(frame)
        while outside is not None:
            depth, outside = depth + 1, outside.f_back
        return depth

    def _begin(self) -> None:
        self._printed.flush()
        self._heap.begin()

    def _look(self, state: State, frame: types.FrameType) -> None:
        """What the frame's present line did."""
        line = state.line
        if line.effects is None or line.effects:
            self._look_at_objects(state, frame)
        if line.names:
            self._names.look(state, frame, line.names)

    def _look_in_the_middle(self, state: State, frame: types.FrameType) -> None:
        unsafe = state.line.sorts or (state.code.kind == CLASS and state.code.hides)
        if (state.line.effects is None or state.line.effects) and not unsafe:
            self._look_at_objects(state, frame)

    def _look_at_objects(self, state: State, frame: types.FrameType) -> None:
        line = state.line
        if line.effects is not None:
            touched = self._resolver.touched(line.effects, frame)
            if touched is not None:
                self._check(touched, line, frame)
                return
        roots = self._values_of(line.roots, frame)
        for name in line.names:
            told = self._names.told(state, name).get(name.name)
            if told is not None:
                roots.append(self._heap.labelled(told[1]))
        self._heap.walk(roots + (state.back or []))

    def _check(self, touched: list[Any], line: Line, frame: types.FrameType) -> None:
        heap, quick = self._heap, line.quick
        if quick is None or self._threaded or len(touched) != 1:
            for value in touched:
                heap.check(value)
        elif quick == "item":
            assert line.effects
            heap.check_item(touched[0], self._resolver.key(line.effects[0], frame))
        elif quick == "end":
            heap.check_end(touched[0])
        else:
            heap.check_add(touched[0])

    def _look_outside(self, outside: types.FrameType | None) -> None:
        """Variables of the frames from there on that functions in them rebind."""
        while outside is not None:
            state = self.states.get(id(outside))
            if state is not None and state.code.code is outside.f_code and state.code.shared:
                self._names.look(state, outside, state.code.shared)
            outside = outside.f_back

    def _values_of(self, names: tuple[Name, ...], frame: types.FrameType) -> list[Any]:
        space = namespace(frame)
        values = [value_of(name, frame, space) for name in names]
        return [value for value in values if has_value(value)]

    def _text(self, value: Any) -> str:
        return self._values.text(value)

    def _parent(self, frame: types.FrameType) -> tuple[State, types.FrameType, int] | None:
        """The nearest user frame outside, and how many frames away it is."""
        outside, distance = frame.f_back, 1
        while outside is not None:
            state = self.states.get(id(outside))
            if state is not None and state.code.code is outside.f_code:
                return state, outside, distance
            outside, distance = outside.f_back, distance + 1
        return None


def _or_none(frame: types.FrameType) -> types.FrameType | None:
    return frame
