"""The plain core: a recorder in Python that is slow, and simple enough to be seen to be right.

It is the oracle of the core in C (`native`), which has to write the same bytes as long as it folds nothing, and stands
in for it where there is none, and for programs that wait for the end of objects.

**Events** come from a trace function, of whole lines and, in frames with conditional jumps that are told, of single
instructions. A frame of user code that is known has a `State`, found by `id` of the frame and checked by its code. An
entry into a frame that has none is a `call`, whatever the interpreter calls it. The parent of a frame is the nearest
frame outside it that has a state.

**Changes of a line** are seen at the next event of its frame: the contents of every labelled object are compared with
those told last (`objects`), whatever the line says; then the names that it can store are (`plan.Line.names`). Before a
`call` or `resume`, objects are compared too. Nothing is folded: `soft_events` is not asked.

**Leaving.** A 'return' event says neither whether the frame returned, nor whether it waits. The instruction that it is
at does: RETURN or YIELD by the plan's `exits`, and anything else is an exception that leaves the frame; so is a RETURN
or YIELD instruction at which an exception came up since the last line event (thrown into a waiting generator), if the
value is None.

**Tests and iterations.** Which way a conditional jump went is seen at the next instruction of its frame. A test is told
at once, in the middle of its line; the iteration of a `while` with the test that began it; that of a `for` before the
next line, when its item has been assigned, or at once and without the item if the body is on the header's line.

**Faults** of the tracer never reach the program: an error becomes a `lost` record, and tracing stops. An exception that
a signal handler of the program raised meanwhile goes on its way, and tracing stops, too. A trace function needs frames
on the stack: where fewer than 120 are left below the recursion limit, tracing stops.

Not seen: on 3.11 and 3.12 the interpreter copies all variables of a frame to its `f_locals` before each event and back
after it, so that a program that keeps the result of `locals()` finds it changed later. On 3.12 that copying warns, on
the program's standard error, where a comprehension of a class body is left by an exception.
"""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Callable
from typing import Any

from ..branches import BEGINS, ENDS, NOTHING, TAKES, Branch
from ..bytecode import FREE, GLOBAL, LOCAL, SPACE
from ..classes import Kinds, json_text, type_mro, type_qualname
from ..own import protect
from ..plan import CLASS, FUNCTION, GENERATOR, MODULE, TRANSPARENT, YIELD, Code, Line, Name, Program
from ..values import Values, take_standard, thread_name
from .memory import Memory, Printed
from .objects import Objects

protect(globals())

_FREE_FRAMES = 120
_NO_VALUE: Any = object()
_SCOPES = {LOCAL: "", SPACE: "", GLOBAL: ',"scope":"global"', FREE: ',"scope":"nonlocal"'}
# Taken before the program runs, which may put functions of its own in these modules.
_getframe, _getrecursionlimit, _get_ident = sys._getframe, sys.getrecursionlimit, threading.get_ident
_settrace, _gettrace, _thread_gettrace = sys.settrace, sys.gettrace, threading.gettrace
# From 3.12 on; before, threads that run already cannot be traced.
_thread_settrace: Callable[[Any], None] = getattr(threading, "settrace_all_threads", threading.settrace)
_TAKEN_AWAY = "the trace function was taken away"
_BLINDED = "a function ended without a word: its frame's trace function was taken away"
# The dict of the frame until 3.12, a proxy that writes through from 3.13 on (PEP 667).
_LocalsProxy = type((lambda: _getframe().f_locals)())
_Local = Callable[[types.FrameType, str, Any], Any]


class State:
    """An activation under way. `n` is the line last told, `line` what the plan says about it."""

    __slots__ = (
        "begins", "child", "code", "counts", "exception", "f", "jump", "left", "line", "n", "parent", "raised_at",
        "source", "told",
    )  # fmt: skip

    def __init__(self, code: Code, f: int, parent: State | None, told: dict[str, str]) -> None:
        self.code = code
        self.f = f
        self.parent = parent
        self.told = told
        """For each name the text that was last told."""
        self.n: int = code.code.co_firstlineno
        self.line: Line = code.blank
        self.child: State | None = None
        """The function that it has called and that has not ended, if that is known."""
        self.raised_at = -1
        """Offset at which an exception came up since the last line event."""
        self.exception = 0
        """`id` of the last exception that came up."""
        self.left: tuple[int, int] | None = None
        """Number and exception of the frame under this one that was last left by an exception."""
        self.counts = [0] * len(code.branches.loops)
        """Counts of iterations of each of its loops have begun, since the loop was entered last."""
        self.begins = -1
        """The loop that has taken an item, while no line after its header was come to; or -1."""
        self.source = 0
        """Of the loops that share the head that it jumps to: how many go on within their iteration."""
        self.jump = -1
        """Offset of the conditional jump that was the last instruction, or -1."""


class PlainCore:
    """Turns what a trace function is told into records."""

    name = "plain"

    def __init__(self, program: Program, buffer: Any, *, max_events: int) -> None:
        self._codes = program.codes
        self._globals = program.globals
        self._holds = program.facts.holds
        self._kinds = Kinds()
        self._values = Values(self._kinds)
        take_standard(self._values, program.facts.imports)
        self._memory = Memory(buffer, max_events=max_events)
        self._printed = Printed(self._memory)
        self._objects = Objects(self._values, self._memory.add, holds=self._holds)
        self._states: dict[int, State] = {}
        self._globals_told: dict[str, str] = {}
        self._frames = 0
        self._outermost: State | None = None
        """The function of the main thread that no user code called, until it ends."""
        self._main_thread = _get_ident()
        self._lock = threading.RLock()
        self._stopped = False
        # Kept, since `stop` sees by identity whether they are still in place: a bound method is another object each
        # time.
        self._entry = self._guarded(self._enter)
        self._local = self._guarded(self._event)

    def start(self) -> None:
        """Trace from now on, in all threads."""
        _getframe().f_trace_opcodes = True  # 3.12 asks for instructions when tracing starts, if any frame wants them
        _thread_settrace(self._entry)
        _settrace(self._entry)

    def stop(self) -> None:
        """Trace no more; tells if somebody else has stopped it before."""
        # Asked before anything is put back; for the other threads too, which take what `threading.settrace` holds.
        if not self._stopped and not _gettrace() is _thread_gettrace() is self._entry:
            self.lost(_TAKEN_AWAY)
        self._stopped = True
        threading.settrace(None)
        _settrace(None)

    def printed(self, stream: int, text: str) -> None:
        """The program wrote text to standard output (1) or error (2)."""
        with self._lock:
            self._printed.add(stream, text)

    def lost(self, why: str) -> None:
        """Something cannot be recorded; recording goes on."""
        with self._lock:
            self._printed.flush()
            self._memory.lost(why)

    def finish(self, *, ended: bool) -> None:
        """Nothing more will come; the buffer is given back."""
        if ended and self._outermost is not None:
            self.lost(_BLINDED)
        self._printed.flush()
        self._memory.commit()
        if ended:
            self._memory.end()
        self._memory.release()

    def abandon(self) -> None:
        """Forget all without a word: this is another process."""
        self._memory.abandon()
        self._states.clear()

    # The boundary to the program.

    def _guarded(self, handle: _Local) -> _Local:
        def event(frame: types.FrameType, event: str, value: Any) -> Any:
            if self._stopped:
                return None
            try:
                # Reentrant: whatever goes wrong under it is told by `lost`, which takes it, too.
                with self._lock:
                    local = handle(frame, event, value)
                if not self._memory.closed:
                    return local
                # The reason is in the records: `Memory.commit` has written it.
                self._give_up()
            except BaseException as fault:
                if not isinstance(fault, Exception) or _comes_from_outside(fault):
                    self.lost("a signal interrupted the tracer")
                    self._give_up()
                    raise
                self.lost(f"the tracer failed: {type(fault).__name__}: {fault}")
                self._give_up()
            return None

        return event

    def _give_up(self) -> None:
        """End recording for good: write nothing more, and trace nothing more."""
        self._memory.closed = self._stopped = True
        self.stop()

    # What the interpreter says.

    def _enter(self, frame: types.FrameType, event: str, value: Any) -> Any:
        code = self._codes.get(id(frame.f_code))
        if event != "call" or code is None or code.kind == TRANSPARENT:
            return None
        if _depth(frame) + _FREE_FRAMES > _getrecursionlimit():
            self.lost("the program came too near to its recursion limit for a trace function")
            self._give_up()
            return None
        # 'call' is also said when a generator goes on, which is known by where it stands: RESUME 0 is its beginning.
        starts = code.kind != GENERATOR or frame.f_lasti in code.starts
        state = None if starts else self._state(frame)
        if state is None:
            self._called(frame, code)
        else:
            self._resumed(frame, state)
        if code.branches.jumps or code.branches.sources:
            frame.f_trace = self._local  # 3.13 asks for instructions only in a frame that has a trace function
            frame.f_trace_opcodes = True
        return self._local

    def _event(self, frame: types.FrameType, event: str, value: Any) -> Any:
        state = self._state(frame)
        if state is None:
            return self._local
        if event == "opcode":
            self._settle(frame, state)
            if frame.f_lasti in state.code.branches.jumps:
                state.jump = frame.f_lasti
            state.source = state.code.branches.sources.get(frame.f_lasti, state.source)
        elif event == "line":
            self._settle(frame, state)
            self._line(frame, state)
        elif event == "exception":
            state.raised_at = frame.f_lasti
            self._raised(frame, state, value[1])
        elif event == "return":
            self._left(frame, state, value)
        return self._local

    def _settle(self, frame: types.FrameType, state: State) -> None:
        """Tell which way a conditional jump went, if the frame is at the instruction after one."""
        jumps = state.code.branches.jumps
        # An EXTENDED_ARG is an event of its own, and stands for the jump behind it (`branches`): the frame is still at
        # it.
        if state.jump >= 0 and jumps.get(frame.f_lasti) is not jumps[state.jump]:
            branch, state.jump = jumps[state.jump], -1
            self._branched(frame, state, branch, jumped=frame.f_lasti != branch.falls_to)

    # What becomes which records.

    def _called(self, frame: types.FrameType, code: Code) -> None:
        parent = self._begin_within(frame)
        # By its `__name__` classes of the program are known (`classes.Kinds.is_own`).
        if code.kind == MODULE and self._frames == 0:
            name = dict.get(frame.f_globals, "__name__")
            self._kinds.module_name = name if type(name) is str else self._kinds.module_name
        self._frames += 1
        # Names of a module are globals: what functions set is compared with what the module told last.
        state = State(code, self._frames, parent, self._globals_told if code.kind == MODULE else {})
        self._states[id(frame)] = state
        # A generator may outlive its caller's line, and be dropped without an event, so that nobody waits for its end.
        if code.kind != GENERATOR:
            if parent is not None:
                parent.child = state
            elif _get_ident() == self._main_thread:
                self._outermost = state
        rest = ""
        if code.parameters or code.kind in (FUNCTION, GENERATOR):
            rest = f',"args":{{{self._arguments(state, frame)}}}'
        elif code.kind == CLASS:
            rest = ',"body":true'
        if _get_ident() != self._main_thread:
            rest += f',"thread":{json_text(thread_name())}'
        outer = parent.f if parent is not None else 0
        self._tell(f'"call","f":{state.f},"p":{outer},"name":{json_text(code.name)},"n":{state.n}{rest}')
        self._memory.commit()

    def _resumed(self, frame: types.FrameType, state: State) -> None:
        # Another function may have made it go on than the one that made it.
        state.parent = parent = self._begin_within(frame)
        state.left = None
        self._tell(f'"resume","f":{state.f},"p":{parent.f if parent is not None else 0},"n":{state.n}')
        self._memory.commit()

    def _line(self, frame: types.FrameType, state: State) -> None:
        code, number, offset = state.code, frame.f_lineno, frame.f_lasti
        if offset in code.hidden:
            return
        head = code.branches.back.get(offset)
        if head is not None and code.line_at.get(head) == number:  # from 3.12 on, a jump backward makes this event
            offset = head
        # A handler took the exception, or nothing would run here.
        state.raised_at = -1
        self._miss_child(state)
        self._begin()
        self._look(state, frame, state.line.names)
        if state.begins >= 0 and not self._is_in_header(state, number):
            self._tell_item(state, frame)
        source, state.source = state.source, 0
        # The first `source` of these loops go on within their iteration: it is one of an inner loop that begins.
        for loop in code.branches.heads.get(offset, ())[source:]:
            self._count(state, loop, BEGINS)
            self._tell(self._iteration(state, loop))
        state.line, state.n, state.left = code.lines.get(number, code.blank), number, None
        self._tell(f'"line","f":{state.f},"n":{number}')
        self._memory.commit()

    def _raised(self, frame: types.FrameType, state: State, exception: BaseException) -> None:
        # FOR_ITER, `yield from` and the like take it as the end of what they go through: nothing comes up in the
        # program.
        if frame.f_lasti in state.code.quiet and issubclass(type(exception), StopIteration):
            return
        state.begins = state.jump = -1
        self._begin()
        self._look(state, frame, state.line.names)
        args = self._values.several(self._values.exception_args(exception))
        # An exception that has just left a called frame comes up in the caller once more: the same object, as its event
        # says.
        source = ""
        if state.left is not None and state.left[1] == id(exception):
            source = f',"from":{state.left[0]}'
        state.exception, state.left = id(exception), None
        name = json_text(type_qualname(type(exception)))
        self._tell(f'"raise","f":{state.f},"n":{state.n},"type":{name},"args":[{args}]{source}')
        self._memory.commit()

    def _left(self, frame: types.FrameType, state: State, value: Any) -> None:
        how = state.code.exits.get(frame.f_lasti)
        unwinds = how is None or (value is None and state.raised_at == frame.f_lasti)
        waits = how == YIELD and not unwinds
        self._miss_child(state)
        if not frame.f_trace_lines:
            self.lost("the program switched lines of a frame off")
        self._begin()
        self._look(state, frame, state.line.names if waits else state.line.last_names)
        if waits:
            self._tell(f'"yield","f":{state.f},"n":{state.n},"v":{self._values.text(value)}')
            self._memory.commit()
            return
        # The next frame may get the same address.
        self._states.pop(id(frame), None)
        # If the end of this one was never seen, `finish` finds it still here, and says so.
        self._outermost = None if state is self._outermost else self._outermost
        if state.parent is not None:
            state.parent.child = None
            state.parent.left = (state.f, state.exception) if unwinds else state.parent.left
        if unwinds:
            self._tell(f'"unwind","f":{state.f},"n":{state.n}')
        else:
            # A class body returns a cell for `__class__`, or None: nothing of the program.
            text = "null" if state.code.kind == CLASS else self._values.text(value)
            self._tell(f'"return","f":{state.f},"n":{state.n},"v":{text}')
        self._memory.commit()

    def _miss_child(self, state: State) -> None:
        """Tell it if a function that this one called is gone, and its end was not seen."""
        if state.child is not None:
            state.child = None
            self.lost(_BLINDED)

    def _branched(self, frame: types.FrameType, state: State, branch: Branch, *, jumped: bool) -> None:
        """A conditional jump went one way."""
        truth, does = branch.jumps if jumped else branch.falls
        self._begin()
        if does != NOTHING and state.begins >= 0:
            self._tell_item(state, frame)
        if truth is not None:
            self._tell(f'"test","f":{state.f},"at":[{branch.at}],"v":{"true" if truth else "false"}')
        if does != NOTHING:
            self._count(state, branch.loop, does)
            if does == ENDS:
                line = state.code.branches.loops[branch.loop].line
                self._tell(f'"ended","f":{state.f},"n":{line},"iterations":{state.counts[branch.loop]}')
            elif does == BEGINS:
                self._tell(self._iteration(state, branch.loop))
        self._memory.commit()

    def _count(self, state: State, loop: int, does: int) -> None:
        """Count an iteration that begins; the loops inside it begin anew."""
        state.begins = loop if does == TAKES else -1
        if does != ENDS:
            state.counts[loop] += 1
            # A loop can be entered once in an iteration of the one around it.
            for inner in range(loop + 1, loop + 1 + state.code.branches.loops[loop].inner):
                state.counts[inner] = 0

    def _is_in_header(self, state: State, number: int) -> bool:
        """Return whether a line is still part of the header whose item is being assigned."""
        loop = state.code.branches.loops[state.begins]
        return loop.line < loop.header_last and loop.line <= number <= loop.header_last

    def _tell_item(self, state: State, frame: types.FrameType) -> None:
        """Tell the iteration that begins after its item was assigned."""
        loop, state.begins = state.begins, -1
        values = [_value(name, frame) for name in state.code.targets[loop]]
        rest = ""
        # A target that is no name has no variable, and one that was deleted since has no value.
        if values and not any(value is _NO_VALUE for value in values):
            rest = f',"items":[{self._values.several(values)}]'
        self._tell(f"{self._iteration(state, loop)}{rest}")

    def _iteration(self, state: State, loop: int) -> str:
        line = state.code.branches.loops[loop].line
        return f'"iteration","f":{state.f},"n":{line},"number":{state.counts[loop]}'

    # Looking.

    def _begin(self) -> None:
        self._printed.flush()
        self._objects.begin()

    def _begin_within(self, frame: types.FrameType) -> State | None:
        """An event begins in the middle of a line of the parent, if there is one; gives the parent."""
        self._begin()
        outside = frame.f_back
        while outside is not None:
            parent = self._state(outside)
            if parent is not None:
                self._miss_child(parent)
                self._tell_changes(parent, outside)
                return parent
            outside = outside.f_back
        return None

    def _look(self, state: State, frame: types.FrameType, names: tuple[Name, ...]) -> None:
        """Tell what the frame's present line did."""
        self._tell_changes(state, frame)
        for name in names:
            told, value = self._told(state, name), _value(name, frame, within=state.code.kind == CLASS)
            # Compared as texts: an object whose content changed has the text of before, its label.
            before, text = told.get(name.name), None if value is _NO_VALUE else self._values.text(value)
            if text is None:
                told.pop(name.name, None)
            else:
                told[name.name] = text
            if before != text:
                rest = f'"f":{state.f},"name":{json_text(name.name)}'
                told_text = f'"del",{rest}' if text is None else f'"set",{rest},"v":{text}'
                self._tell(f"{told_text}{_SCOPES[name.where]}")

    def _tell_changes(self, state: State, frame: types.FrameType) -> None:
        def roots() -> list[Any]:
            values = [_value(name, frame) for name in (*state.line.roots, *state.code.variables, *self._globals)]
            return [value for value in values if value is not _NO_VALUE]

        self._objects.tell_changes(roots)

    def _told(self, state: State, name: Name) -> dict[str, str]:
        """Return the dict in which the last told text of a name is kept."""
        if name.where == GLOBAL:
            return self._globals_told
        if name.where == FREE:
            # A nonlocal name belongs to the nearest activation, along the callers, of the function that has it.
            owner, outside = state.code.owners.get(name.name), state.parent
            while outside is not None:
                if outside.code.code is owner:
                    return outside.told
                outside = outside.parent
        return state.told

    def _arguments(self, state: State, frame: types.FrameType) -> str:
        """Return the parameters as fields of JSON; they count as told."""
        written = []
        for parameter in state.code.parameters:
            value = frame.f_locals.get(parameter, _NO_VALUE)
            if value is not _NO_VALUE:
                state.told[parameter] = text = self._values.text(value)
                written.append(f"{json_text(parameter)}:{text}")
        return ",".join(written)

    def _tell(self, rest: str) -> None:
        self._memory.add(f'{{"k":{rest}}}\n')

    def _state(self, frame: types.FrameType) -> State | None:
        # The frame with this address may be another one by now, whose end was not seen.
        state = self._states.get(id(frame))
        return state if state is not None and state.code.code is frame.f_code else None


def _value(name: Name, frame: types.FrameType, *, within: bool = False) -> Any:
    """Return the value that a name of a frame has now, or a mark for none.

    Args:
        within: A name of a class body is looked for in its own namespace only.
    """
    # The module's f_locals are its f_globals, which can be read on 3.12 without variables of comprehensions in them.
    if name.where == GLOBAL or frame.f_code.co_name == "<module>":
        return dict.get(frame.f_globals, name.name, _NO_VALUE)
    # Read without methods of the program: the namespace of a class body is what `__prepare__` of a metaclass gives.
    space: Any = frame.f_locals
    if name.where != SPACE:
        return space.get(name.name, _NO_VALUE) if type(space) in (dict, _LocalsProxy) else _NO_VALUE
    found = _NO_VALUE
    if any(base is dict for base in type_mro(type(space))):
        found = dict.get(space, name.name, _NO_VALUE)
    return dict.get(frame.f_globals, name.name, _NO_VALUE) if found is _NO_VALUE and not within else found


def _depth(frame: types.FrameType | None) -> int:
    """Return how many frames there are on the stack, this one included."""
    depth = 0
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    return depth


def _comes_from_outside(fault: BaseException) -> bool:
    """Return whether the innermost frame is none of the tracer: a signal handler of the program raised it."""
    tb = fault.__traceback__
    code: types.CodeType | None = None
    while tb is not None:
        code, tb = tb.tb_frame.f_code, tb.tb_next
    return code is not None and not code.co_filename.startswith(_HERE)


_HERE = __file__.rsplit("/", 2)[0]  # the folder of the tracer
