"""The recorder: what events of the program become which records. Both cores feed it.

**Events** come from a core: `called`, `resumed`, `line`, `raised`, `returned`, `yielded`, `unwound`, each with the
frame; `printed` comes from the output streams. A frame of user code that is known has a `State`, found by `id` of the
frame and checked by its code object. An entry into a frame that has none is a `call`, whatever the interpreter calls
it. The parent of a frame is the nearest frame outside it that has a state.

**Order within an event.** Text printed since the last record; then the event's own. For an event of frame F that ends
(a part of) its present line: changed objects, then names, then the record of the event. A `call` or `resume` first
looks at the objects of the line that the parent is on, unless that line calls `.sort`, or is in a class body that has
inlined comprehensions (3.12 writes the variables of a namespace that was looked at then back into the frame).

Which objects and names are looked at, and in which order, says `looking`; what runs without records, `folding`.

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

from .branches import BEGINS
from .classes import ATOMS, json_text
from .folding import NEVER, ROOM
from .frames import State
from .iterations import Iterations
from .memory import Full, Memory
from .own import protect
from .plan import CLASS, FUNCTION, GENERATOR, MODULE, Program
from .values import thread_name

protect(globals())

_get_ident, _getrecursionlimit = threading.get_ident, sys.getrecursionlimit


class Recorder(Iterations):
    """Turns events into records."""

    def __init__(self, program: Program, memory: Memory, *, soft_events: int) -> None:
        super().__init__(program, memory, soft_events=soft_events)
        self.lock = threading.RLock()
        self.tight = False
        """Little room is left below the recursion limit where the program is."""
        self._parts = memory.parts
        self._frames = 0
        self._main_thread = _get_ident()

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

    def line(self, frame: types.FrameType, state: State, number: int, offset: int = -1) -> None:
        """Line `number` is about to run.

        Args:
            offset: Of its first instruction; needed in code with heads of loops (`branches.Branches.heads`).
        """
        if self.resting is not None:
            self._leave_fold(frame)
        if self._printed.texts or self._heap.described:
            self._begin()
        line = state.line
        if line.effects is None or line.effects:
            self._look_at_objects(state, frame)
        if line.names:
            self._names.look(state, frame, line.names)
        if state.begins >= 0 and not self._is_in_header(state, number):
            self._tell_item(state, frame)
        own = -1
        if state.code.branches.heads:
            heads = self._heads(state, offset)
            if heads and state.code.branches.loops[heads[-1]].line == number:
                own, heads = heads[-1], heads[:-1]
            self._tell_heads(state, heads)
        line = state.code.lines.get(number) or state.code.blank
        if line.loop is not None and self._fold_loop(state, frame, number, line.loop):
            if own >= 0:
                self._count(state, own, BEGINS)
            return
        if own >= 0:
            self._tell_heads(state, (own,))
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
        state.begins = -1
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

    def gives(self, frame: types.FrameType, state: State, value: Any) -> None:
        """The generator whose loop runs unrecorded gives `value` and waits: the fold rests, or is over."""
        if not self._can_rest(frame, state, value):
            self.end_fold(frame, state)
            self.yielded(frame, state, value)
            state.resumes = NEVER

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

    def _call_record(self, state: State, frame: types.FrameType) -> str:
        code = state.code
        rest = ""
        if code.parameters or code.kind in (FUNCTION, GENERATOR):
            rest = f',"args":{{{self._names.arguments(state, frame)}}}'
        elif code.kind == CLASS:
            rest = ',"body":true'
        if _get_ident() != self._main_thread:
            self._threaded = True
            rest += f',"thread":{json_text(thread_name())}'
        parent = state.parent.f if state.parent is not None else 0
        name = json_text(code.name)
        return f'{{"k":"call","f":{state.f},"p":{parent},"name":{name},"n":{state.n}{rest}}}\n'

    def _measure(self, state: State, parent: tuple[State, types.FrameType, int] | None, frame: types.FrameType) -> None:
        state.depth = self.depth(frame) if parent is None else parent[0].depth + parent[2]
        self.tight = state.tight = state.depth + ROOM > (self.own_limit or _getrecursionlimit())

    def _name_module(self, frame: types.FrameType) -> None:
        name = dict.get(frame.f_globals, "__name__")
        if type(name) is str:
            self._kinds.module_name = name
