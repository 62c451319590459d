"""A loop or a body that runs without records.

From `soft_events` records on, a loop whose header was come to twice already in this activation is folded when its
header is come to again (that line event is the first one folded); a body, when its function has been recorded twice
already in the run. Coroutines and the bodies of generators are not folded, and nothing is once user code has run in a
second thread.

While a fold lasts, line events of all user code are counted as steps and calls as calls; nothing is looked at. A
loop's fold is over at the first line event of its frame outside the loop's lines, or when the frame is left; a
body's, when its frame is left. If an exception came up in the frame and then led out of the loop, its `raise` follows
the fold.

A loop's iterations are the visits to its header, less one if the header was the last line that ran: that visit found
the loop exhausted or its condition false.

**Generators.** The fold of a generator's loop rests while the generator waits, if what it gave and its variables can be
held without a trace: atoms, objects with a label, and tuples of these. Nothing but library code can run then:
the next event of user code is either the generator's, and the fold goes on, or somebody else's, and the fold is over.
Then the iteration that the generator waits in is not counted, and a `yield` of what it gave last follows the fold; the
rest of this iteration is recorded. So a loop that yields is only folded if one line of the caller has made the
generator go on twice already, with no other user code between: then the caller is library code that goes through it.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from .bytecode import FREE, GLOBAL, SPACE
from .classes import json_text, type_qualname
from .frames import Rest, State
from .looking import Looker
from .memory import Memory
from .own import protect
from .plan import Code, Loop, Program

protect(globals())

ROOM = 80
"""How many frames are kept free below the recursion limit."""
NEVER = 2**30
"""Stands for the resumes of a generator whose values cannot be held."""
_getrecursionlimit = sys.getrecursionlimit


class Fold:
    """One fold that is going on."""

    def __init__(
        self,
        frame: types.FrameType,
        state: State,
        room: int,
        header: int,
        loop: Loop | None = None,
    ) -> None:
        """Args:
        loop: None for a body.
        """
        self.key = id(frame)
        self.code = frame.f_code
        self.state = state
        self.steps = 0
        self.calls = 0
        self.nested = 0
        """Activations of the same code inside it; this and `deep` are counted by the core that needs them."""
        self.deep = 0
        """Frames of user code inside it that are on the stack."""
        self.room = room
        """How many there may be before the recursion limit is near."""
        self.at = state.n
        """The line that its frame is on."""
        self.is_call = loop is None
        self.exception: BaseException | None = None
        self.rest: Rest | None = None
        """Of its frame, while the fold rests."""
        self.waits = False
        """Its frame is in the middle of an iteration."""
        self.value: Any = None
        """What it gave last."""
        self.ended = -1
        """Of the frame's counted loops: the folded one, once it is over by itself."""
        self.header = header
        self._began = False
        """Something was given since the last line event, so the last visit to the header has begun an iteration."""
        self._loop = loop
        self._visits = 0
        if loop is not None:
            self.steps = 1
            self.goes_on(header)

    def goes_on(self, number: int) -> bool:
        """The frame comes to a line; whether that is still inside."""
        if self._loop is None:
            self.at = number
            self.exception = None
            return True
        if not self._loop.first <= number <= self._loop.last:
            self.steps -= 1  # it was counted, but is outside
            return False
        self.exception = None
        self.at = number
        self._began = False
        if number == self.header:
            self._visits += 1
        return True

    def raised(self, exception: BaseException, code: Code, offset: int) -> None:
        """An exception came up in its frame."""
        if offset not in code.quiet or not issubclass(type(exception), StopIteration):
            self.exception = exception

    def gives(self) -> None:
        """Its frame gives a value and waits."""
        self.exception = None
        self._began = self.waits = True

    def wakes(self) -> None:
        """Its frame goes on."""
        self.rest = self.value = None
        self.waits = False

    def record(self) -> str:
        """The `fold` record."""
        head = f'{{"k":"fold","f":{self.state.f},"n":{self.header},"what":'
        if self.is_call:
            return f'{head}"call","steps":{self.steps},"calls":{self.calls}}}\n'
        open_visit = self.waits or (self.at == self.header and not self._began)
        iterations = self._visits - open_visit
        return f'{head}"loop","iterations":{iterations},"steps":{self.steps}}}\n'


class Folds(Looker):
    """The part of a recorder that begins folds and tells them."""

    def __init__(self, program: Program, memory: Memory, *, soft_events: int) -> None:
        super().__init__(program, memory)
        self.fold: Fold | None = None
        self.resting: Fold | None = None
        """A fold that goes on if the next event is that of its frame."""
        self.own_limit = 0
        """The program's recursion limit while the core has raised it, else 0."""
        self._soft_events = soft_events
        self._folds = 0
        self._recorded: dict[int, int] = {}

    def end_fold(self, frame: types.FrameType, state: State) -> None:
        """The loop or body that ran unrecorded is over, or waits: tell it, and the difference it made."""
        fold = self.fold
        assert fold is not None
        self.fold = None
        self._tell_fold(fold, frame, None)
        self._look_outside(frame.f_back)
        state.line = (fold.waits and state.code.lines.get(fold.at)) or state.code.blank
        if fold.ended >= 0:
            self._more(self._ended_record(state, fold.ended))
        if fold.exception is not None:
            self._memory.add(self._raise_record(state, fold.exception))
        self._memory.commit()

    def _can_rest(self, frame: types.FrameType, state: State, value: Any) -> bool:
        """Let the fold of a generator's loop rest while it waits; whether what it gave and has can be held."""
        fold = self.fold
        assert fold is not None
        fold.gives()
        rest = self._names.keep(state, frame) if self._names.is_kept(value) else None
        if rest is None:
            return False
        fold.rest, fold.value = rest, value
        self.fold, self.resting = None, fold
        return True

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

    def _fold_loop(self, state: State, frame: types.FrameType, number: int, loop: Loop) -> bool:
        """Count a visit to a loop's header; whether the loop runs unrecorded from here."""
        visits = state.visits[number] = state.visits.get(number, 0) + 1
        if visits <= 2 or self._memory.count < self._soft_events or self._threaded:
            return False
        if loop.gives and not 2 <= state.resumes < NEVER:
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

    def _raise_record(self, state: State, exception: BaseException) -> str:
        """Of an exception that came up in a line, or that led out of a fold."""
        args = self._values.several(self._values.exception_args(exception))
        state.exception = id(exception)
        source = ""
        if state.left is not None and state.left[1] == id(exception):
            source = f',"from":{state.left[0]}'
        state.left = None
        name = json_text(type_qualname(type(exception)))
        return f'{{"k":"raise","f":{state.f},"n":{state.n},"type":{name},"args":[{args}]{source}}}\n'

    def _ended_record(self, state: State, loop: int) -> str:
        line = state.code.branches.loops[loop].line
        return f'{{"k":"ended","f":{state.f},"n":{line},"iterations":{state.counts[loop]}}}\n'

    def _more(self, record: str) -> None:
        """Add a record that does not count towards `soft_events`."""
        self._memory.more += 1
        self._memory.add(record)

    def _room(self, state: State) -> int:
        """How many more frames there may be before it gets tight."""
        return (self.own_limit or _getrecursionlimit()) - ROOM - state.depth
