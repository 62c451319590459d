"""The recorder: what events of the program become which records. Both cores feed it.

**Events** come from a core: `called`, `resumed`, `line`, `raised`, `returned`, `yielded`, `unwound`, each with the
frame; `printed` comes from the output streams. A frame of user code that is known has a `State`, found by `id` of the
frame and checked by its code object. An entry into a frame that has none is a `call`, whatever the interpreter calls
it. The parent of a frame is the nearest frame outside it that has a state.

**Order within an event.** Text printed since the last record; then the event's own. For an event of frame F that ends
(a part of) its present line: changed objects, then names, then the record of the event. A `call` or `resume` first
looks at the objects of the line that the parent is on, unless that line calls `.sort`, or is in a class body that has
inlined comprehensions (3.12 writes the variables of a namespace that was looked at then back into the frame).

**Objects.** By the line's effects (`plan.Line.effects`, `effects.touched`): each touched object is checked, in their
order; if anything may have changed, the heap is walked from: the values of the line's roots in their order, then the
objects that names which the line stores were last told to hold, then what user code returned to this line.

**Names.** See `names`: the names that the line may store, in their order.

**Lines.** `n` of every record but `call` is the line last told of the frame (of a call: the first line of its code
object).

**From.** A `raise` is `from` the frame that was left last by an exception under this line, if it is the same
exception.
"""

from __future__ import annotations

import sys
import threading
import types
from typing import Any

from .bytecode import FREE, GLOBAL, SPACE
from .classes import ATOMS, Kinds, json_text, type_qualname
from .effects import Resolver, has_value, namespace, value_of
from .folding import Fold
from .frames import Rest, State
from .heap import Heap
from .memory import Full, Memory
from .names import Names
from .own import protect
from .plan import CLASS, FUNCTION, GENERATOR, MODULE, Line, Loop, Name, Program
from .printing import Printed
from .values import Values, take_standard

protect(globals())

_ROOM = 80
_NEVER = 2**30
"""Stands for the resumes of a generator whose values cannot be held."""
_get_ident, _getrecursionlimit = threading.get_ident, sys.getrecursionlimit


class Recorder:
    """Turns events into records."""

    def __init__(self, program: Program, memory: Memory, *, soft_events: int) -> None:
        self.states: dict[int, State] = {}
        self.fold: Fold | None = None
        self.resting: Fold | None = None
        """A fold that goes on if the next event is that of its frame."""
        self.codes = program.codes
        self._program = program
        self._memory = memory
        self._parts = memory.parts
        self._soft_events = soft_events
        self._holds = program.facts.holds
        self._kinds = Kinds()
        self._values = Values(self._kinds)
        take_standard(self._values, program.facts.imports)
        self._heap = Heap(self._values, memory.add, holds=self._holds)
        self._resolver = Resolver(program.codes, self._kinds)
        self._names = Names(self._values, memory, holds=self._holds)
        self._printed = Printed(memory)
        self._frames = 0
        self._folds = 0
        self._recorded: dict[int, int] = {}
        self._main_thread = _get_ident()
        self.lock = threading.RLock()
        self.own_limit = 0
        """The program's recursion limit while the core has raised it, else 0."""
        self.tight = False
        """Little room is left below the recursion limit where the program is."""
        self._threaded = False

    def called(self, frame: types.FrameType) -> State:
        """A frame of user code is entered for the first time."""
        if self.resting is not None:
            self._leave_fold(frame)
        self._begin()
        code = self.codes[id(frame.f_code)]
        parent = self._parent(frame)
        if parent is not None:
            parent[0].drives = 0
            self._look_in_the_middle(parent[0], parent[1])
        if code.kind == MODULE and self._frames == 0:
            self._name_module(frame)
        self._frames += 1
        told = self._names.globals_told if code.kind == MODULE else {}
        state = State(code, self._frames, parent[0] if parent else None, told)
        self._measure(state, parent, frame)
        state.folds = self._folds
        self.states[id(frame)] = state
        if state.parent is not None and code.kind != GENERATOR:
            state.parent.child = state
        self._memory.add(self._call_record(state, frame))
        self._memory.commit()
        self._fold_body(state, frame)
        return state

    def resumed(self, frame: types.FrameType, state: State) -> None:
        """A generator or coroutine goes on."""
        if self.resting is not None:
            if self.resting.rest is not None and self.resting.rest.frame is frame:
                self.fold, self.resting = self.resting, None
                self.fold.wakes()
                return
            self._leave_fold(frame)
        self._begin()
        parent = self._parent(frame)
        state.parent = parent[0] if parent else None
        self._measure(state, parent, frame)
        if parent is not None:
            self._look_in_the_middle(parent[0], parent[1])
        if state.parent is None or state.parent.drives == state.f:
            state.resumes += 1
        else:
            state.parent.drives, state.resumes = state.f, 1
        state.left = None
        self._memory.add(f'{{"k":"resume","f":{state.f},"p":{parent[0].f if parent else 0},"n":{state.n}}}\n')
        if state.folds != self._folds:
            state.folds = self._folds
            self._names.look(state, frame, state.code.variables)
        self._memory.commit()

    def line(self, frame: types.FrameType, state: State, number: int) -> None:
        """Line `number` is about to run."""
        if self.resting is not None:
            self._leave_fold(frame)
        if self._printed.texts or self._heap.described:
            self._begin()
        line = state.line
        if line.effects is None or line.effects:
            self._look_at_objects(state, frame)
        if line.names:
            self._names.look(state, frame, line.names)
        line = state.code.lines.get(number) or state.code.blank
        if line.loop is not None and self._fold_loop(state, frame, number, line.loop):
            return
        state.line = line
        state.n = number
        state.back = state.left = None
        state.drives = 0
        self._parts.append(f"{state.head}{number}}}\n")
        self._memory.commit()

    def raised(self, frame: types.FrameType, state: State, exception: BaseException, offset: int) -> None:
        """An exception came up in a line, or came into it."""
        if offset in state.code.quiet and issubclass(type(exception), StopIteration):
            return
        if self.resting is not None:
            self._leave_fold(frame)
        self._begin()
        self._look(state, frame)
        self._memory.add(self._raise_record(state, exception))
        self._memory.commit()

    def returned(self, frame: types.FrameType, state: State, value: Any) -> None:
        """The frame returns `value`."""
        self._leave(frame, state)
        parent = state.parent
        if parent is not None and parent.line.effects != () and self._holds and id(type(value)) not in ATOMS:
            if parent.back is None:
                parent.back = []
            parent.back.append(value)
        text = "null" if state.code.kind == CLASS else self._text(value)  # a class body returns a cell, or None
        self._memory.add(f'{{"k":"return","f":{state.f},"n":{state.n},"v":{text}}}\n')
        self._memory.commit()

    def yielded(self, frame: types.FrameType, state: State, value: Any) -> None:
        """The frame gives `value` and waits."""
        if self.resting is not None:
            self._leave_fold(frame)
        self._begin()
        self._look(state, frame)
        self._memory.add(f'{{"k":"yield","f":{state.f},"n":{state.n},"v":{self._text(value)}}}\n')
        self._memory.commit()
        state.drives = 0

    def unwound(self, frame: types.FrameType, state: State) -> None:
        """The frame is left by an exception."""
        self._leave(frame, state)
        if state.parent is not None:
            state.parent.left = (state.f, state.exception)
        self._memory.add(f'{{"k":"unwind","f":{state.f},"n":{state.n}}}\n')
        self._memory.commit()

    def printed(self, stream: int, text: str) -> None:
        """The program wrote text to standard output (1) or error (2)."""
        with self.lock:
            try:
                self._printed.add(stream, text)
            except Full:
                pass

    def lost(self, why: str) -> None:
        """Something cannot be recorded; recording goes on."""
        with self.lock:
            try:
                self._printed.flush()
            except Full:
                return
            self._memory.lost(why)

    def abandon(self) -> None:
        """Forget all without a word: this is another process."""
        self._memory.abandon()
        self.seal()

    def release(self) -> None:
        """Give the buffer back."""
        self._memory.release()

    def seal(self) -> None:
        """Write nothing more."""
        self._memory.closed = True
        self.states.clear()
        self.fold = self.resting = None

    def finish(self, *, ended: bool) -> None:
        """Nothing more will come."""
        try:
            if self.resting is not None:
                self._leave_fold(None)
            self._begin()
            if self.fold is not None:
                self._memory.add(self.fold.record())
                self._heap.check_all()
            self._memory.commit()
            if ended:
                self._memory.end()
        except Full:
            pass
        self.seal()

    def end_fold(self, frame: types.FrameType, state: State) -> None:
        """The loop or body that ran unrecorded is over, or waits: tell it, and the difference it made."""
        fold = self.fold
        assert fold is not None
        self.fold = None
        self._tell_fold(fold, frame, None)
        self._look_outside(frame.f_back)
        state.line = (fold.waits and state.code.lines.get(fold.at)) or state.code.blank
        if fold.exception is not None:
            self._memory.add(self._raise_record(state, fold.exception))
        self._memory.commit()

    def gives(self, frame: types.FrameType, state: State, value: Any) -> None:
        """The generator whose loop runs unrecorded gives `value` and waits: the fold rests, or is over."""
        fold = self.fold
        assert fold is not None
        fold.gives()
        rest = self._names.keep(state, frame) if self._names.is_kept(value) else None
        if rest is None:
            self.end_fold(frame, state)
            self.yielded(frame, state, value)
            state.resumes = _NEVER
        else:
            fold.rest, fold.value = rest, value
            self.fold, self.resting = None, fold

    def _leave_fold(self, frame: types.FrameType | None) -> None:
        """The fold that rests is over, since `frame` goes on, or nobody does."""
        fold = self.resting
        assert fold is not None
        assert fold.rest is not None
        self.resting = None
        state = fold.state
        self._tell_fold(fold, fold.rest, state.parent)
        state.line = state.code.lines.get(fold.at) or state.code.blank
        self._memory.add(f'{{"k":"yield","f":{state.f},"n":{state.n},"v":{self._text(fold.value)}}}\n')
        self._look_outside(frame)
        self._memory.commit()

    def _tell_fold(self, fold: Fold, frame: types.FrameType | Rest, driver: State | None) -> None:
        """The record of a fold of `frame`, and the difference that it made, less the names that `driver` has stored."""
        state = fold.state
        self._folds += 1
        state.folds = self._folds
        self._begin()
        self._memory.add(fold.record())
        self._heap.check_all()
        names = state.code.variables if fold.rest is None else tuple(fold.rest.names)
        if fold.is_call:
            names = tuple(name for name in names if name.where in (FREE, GLOBAL))
        if isinstance(frame, types.FrameType) and not self._holds:
            self._heap.walk(self._values_of((*names, *self._program.globals), frame))
        self._names.look(state, frame, names)
        stored = {name.name for name in driver.line.names if name.where in (GLOBAL, SPACE)} if driver else ()
        self._names.look(state, frame, tuple(name for name in self._program.globals if name.name not in stored))
        state.n = fold.at

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

    def _leave(self, frame: types.FrameType, state: State) -> None:
        if self.resting is not None:
            self._leave_fold(frame)
        self._begin()
        line = state.line
        if line.effects is None or line.effects:
            self._look_at_objects(state, frame)
        if line.last_names:
            self._names.look(state, frame, line.last_names)
        self.states.pop(id(frame), None)
        if state.parent is not None:
            state.parent.child = None
        self.tight = state.parent is not None and state.parent.tight

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

    def _values_of(self, names: tuple[Name, ...], frame: types.FrameType) -> list[Any]:
        space = namespace(frame)
        values = [value_of(name, frame, space) for name in names]
        return [value for value in values if has_value(value)]

    def _text(self, value: Any) -> str:
        return self._values.text(value)

    def _call_record(self, state: State, frame: types.FrameType) -> str:
        code = state.code
        rest = ""
        if code.parameters or code.kind in (FUNCTION, GENERATOR):
            rest = f',"args":{{{self._names.arguments(state, frame)}}}'
        elif code.kind == CLASS:
            rest = ',"body":true'
        if _get_ident() != self._main_thread:
            self._threaded = True
            rest += f',"thread":{json_text(_thread_name())}'
        parent = state.parent.f if state.parent is not None else 0
        name = json_text(code.name)
        return f'{{"k":"call","f":{state.f},"p":{parent},"name":{name},"n":{state.n}{rest}}}\n'

    def _raise_record(self, state: State, exception: BaseException) -> str:
        args = self._values.several(self._values.exception_args(exception))
        state.exception = id(exception)
        source = ""
        if state.left is not None and state.left[1] == id(exception):
            source = f',"from":{state.left[0]}'
        state.left = None
        name = json_text(type_qualname(type(exception)))
        return f'{{"k":"raise","f":{state.f},"n":{state.n},"type":{name},"args":[{args}]{source}}}\n'

    def _parent(self, frame: types.FrameType) -> tuple[State, types.FrameType, int] | None:
        """The nearest user frame outside, and how many frames away it is."""
        outside, distance = frame.f_back, 1
        while outside is not None:
            state = self.states.get(id(outside))
            if state is not None and state.code.code is outside.f_code:
                return state, outside, distance
            outside, distance = outside.f_back, distance + 1
        return None

    def depth(self, frame: types.FrameType) -> int:
        """How many frames there are on the stack, this one included."""
        parent = self._parent(frame)
        if parent is not None:
            return parent[0].depth + parent[2]
        depth, outside = 0, _or_none(frame)
        while outside is not None:
            depth, outside = depth + 1, outside.f_back
        return depth

    def _measure(self, state: State, parent: tuple[State, types.FrameType, int] | None, frame: types.FrameType) -> None:
        state.depth = self.depth(frame) if parent is None else parent[0].depth + parent[2]
        self.tight = state.tight = state.depth + _ROOM > (self.own_limit or _getrecursionlimit())

    def _room(self, state: State) -> int:
        """How many more frames there may be before it gets tight."""
        return (self.own_limit or _getrecursionlimit()) - _ROOM - state.depth

    def _look_outside(self, outside: types.FrameType | None) -> None:
        """Variables of the frames from there on that functions in them rebind."""
        while outside is not None:
            state = self.states.get(id(outside))
            if state is not None and state.code.code is outside.f_code and state.code.shared:
                self._names.look(state, outside, state.code.shared)
            outside = outside.f_back

    def _name_module(self, frame: types.FrameType) -> None:
        name = dict.get(frame.f_globals, "__name__")
        if type(name) is str:
            self._kinds.module_name = name

    def _fold_loop(self, state: State, frame: types.FrameType, number: int, loop: Loop) -> bool:
        """Count a visit to a loop's header; whether the loop runs unrecorded from here."""
        visits = state.visits[number] = state.visits.get(number, 0) + 1
        if visits <= 2 or self._memory.count < self._soft_events or self._threaded:
            return False
        if loop.gives and not 2 <= state.resumes < _NEVER:
            return False
        self._memory.commit()
        self.fold = Fold(frame, state, self._room(state), number, loop)
        return True

    def _fold_body(self, state: State, frame: types.FrameType) -> None:
        code = state.code
        recorded = self._recorded.get(id(code.code), 0)
        if recorded >= 2 and code.folds and self._memory.count >= self._soft_events and not self._threaded:
            self.fold = Fold(frame, state, self._room(state), state.n)
        else:
            self._recorded[id(code.code)] = recorded + 1


def _or_none(frame: types.FrameType) -> types.FrameType | None:
    return frame


def _thread_name() -> str:
    thread = threading._active.get(_get_ident())  # type: ignore[attr-defined]
    name = getattr(thread, "_name", None) if type(thread) in (threading.Thread, threading.Timer) else None
    return name if type(name) is str else "thread"
