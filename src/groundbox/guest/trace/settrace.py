"""The core that uses `sys.settrace`: for 3.11, and wherever there is no better one.

A 'return' event says neither whether the frame returned, nor whether it waits. The instruction that it is at does:
RETURN or YIELD by the plan's `exits`, and anything else is an exception that leaves the frame; so is a RETURN or
YIELD instruction at which an exception came up since the last line event (thrown into a waiting generator), if the
value is None.

Which way a conditional jump went is seen at the next instruction of its frame: frames whose code has jumps that matter
make an event for each instruction.

Not seen: on 3.11 and 3.12 the interpreter copies all variables of a frame to its `f_locals` before each event and
back after it, so that a program that keeps the result of `locals()` finds it changed later. Where a program comes to
its very recursion limit, a trace function cannot be called, and the interpreter would switch tracing off: it stops a
few frames before.
"""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Callable
from typing import Any

from .events import Guarded
from .frames import State
from .own import protect
from .plan import GENERATOR, TRANSPARENT, YIELD, Code
from .recorder import Recorder

protect(globals())

_getrecursionlimit, _getframe = sys.getrecursionlimit, sys._getframe
_settrace, _gettrace = sys.settrace, sys.gettrace
_thread_settrace: Callable[[Any], None] = getattr(threading, "settrace_all_threads", threading.settrace)
_LAST_FRAMES = 25
_Local = Callable[[types.FrameType, str, Any], Any]


class SettraceCore(Guarded):
    """Feeds a recorder from trace functions."""

    name = "settrace"

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder)
        self._codes = recorder.codes
        self._states = recorder.states
        self._entry: _Local = self.guarded(self._enter)
        self._local: _Local = self.guarded(self._event)

    def start(self) -> None:
        """Trace from now on, in all threads."""
        _getframe().f_trace_opcodes = True  # 3.12 asks for instructions when tracing starts, if any frame wants them
        _thread_settrace(self._entry)
        _settrace(self._entry)

    def stop(self) -> None:
        """Trace no more; tells if somebody else has stopped it before."""
        if not self.stopped and _gettrace() is not self._entry:
            self.recorder.lost("the trace function was taken away")
        self.stopped = True
        threading.settrace(None)
        _settrace(None)

    def _enter(self, frame: types.FrameType, event: str, value: Any) -> Any:
        if event != "call":
            return None
        code = self._codes.get(id(frame.f_code))
        if code is None or code.kind == TRANSPARENT:
            return None
        starts = code.kind != GENERATOR or frame.f_lasti in code.starts
        state = None if starts else self._state(frame, code)
        fold = self.recorder.fold
        if fold is not None:
            fold.calls += starts
            fold.deep += 1
        if self._is_at_limit(frame):
            self.recorder.lost("the program came too near to its recursion limit for a trace function")
            self.give_up()
            return None
        if fold is not None:
            if code.kind != GENERATOR and not code.hides:
                return self._count
        elif state is None:
            self.recorder.called(frame)
        else:
            self.recorder.resumed(frame, state)
        if code.branches.jumps or code.branches.sources:
            frame.f_trace = self._local  # 3.13 asks for instructions only in a frame that has a trace function
            frame.f_trace_opcodes = True
        return self._local

    def _is_at_limit(self, frame: types.FrameType) -> bool:
        fold = self.recorder.fold
        limit = self.recorder.own_limit
        if not limit and fold is not None and fold.deep > fold.room:
            limit = _getrecursionlimit()
        return limit > 0 and self.recorder.depth(frame) + _LAST_FRAMES > limit

    def _count(self, frame: types.FrameType, event: str, value: Any) -> Any:
        """Trace a frame that begins and ends inside a fold."""
        if event == "line":
            fold = self.recorder.fold
            if fold is not None:
                fold.steps += 1
        elif event == "return":
            fold = self.recorder.fold
            if fold is not None:
                fold.deep -= 1
        return self._count

    def _event(self, frame: types.FrameType, event: str, value: Any) -> Any:
        code = self._codes[id(frame.f_code)]
        if event == "opcode":
            self._instruction(frame, code)
        elif event == "line":
            self._line(frame, code)
        elif event == "return":
            self._return(frame, code, value)
        elif event == "exception":
            self._exception(frame, code, value[1])
        return self._local

    def _instruction(self, frame: types.FrameType, code: Code) -> None:
        state = self._state(frame, code)
        if state is not None:
            self._settle(frame, state)
            if frame.f_lasti in code.branches.jumps:
                state.jump = frame.f_lasti
            state.source = code.branches.sources.get(frame.f_lasti, state.source)

    def _settle(self, frame: types.FrameType, state: State) -> None:
        """The frame is at the instruction after a conditional jump."""
        jumps = state.code.branches.jumps
        if state.jump >= 0 and jumps.get(frame.f_lasti) is not jumps[state.jump]:
            branch, state.jump = jumps[state.jump], -1
            self.recorder.branched(frame, state, branch, jumped=frame.f_lasti != branch.falls_to)

    def _line(self, frame: types.FrameType, code: Code) -> None:
        number, offset = frame.f_lineno, frame.f_lasti
        state = self._state(frame, code)
        if state is not None and state.jump >= 0:
            self._settle(frame, state)
        head = code.branches.back.get(offset)
        if head is not None and code.line_at.get(head) == number:  # from 3.12 on, a jump backward makes this event
            offset = head
        line = code.lines.get(number)
        if line is not None and line.hidden and (line.hidden is True or frame.f_lasti in line.hidden):
            return
        fold = self.recorder.fold
        if fold is not None:
            fold.steps += 1
            if fold.key != id(frame) or fold.goes_on(number):
                if code.branches.heads:
                    self.recorder.pass_line(frame, offset)
                return
            self.recorder.end_fold(frame, fold.state)
        if state is not None:
            state.raised_at = -1
            if state.child is not None:
                state.child = None
                self.recorder.lost("a function ended without a word: its frame's trace function was taken away")
            self.recorder.line(frame, state, number, offset)

    def _exception(self, frame: types.FrameType, code: Code, exception: BaseException) -> None:
        state = self._state(frame, code)
        if state is None:
            return
        state.raised_at = frame.f_lasti
        if frame.f_lasti not in code.quiet or not issubclass(type(exception), StopIteration):
            state.jump = -1
        fold = self.recorder.fold
        if fold is None:
            self.recorder.raised(frame, state, exception, frame.f_lasti)
        elif fold.key == id(frame):
            fold.raised(exception, code, frame.f_lasti)

    def _return(self, frame: types.FrameType, code: Code, value: Any) -> None:
        state = self._state(frame, code)
        fold = self.recorder.fold
        if fold is not None and fold.key != id(frame):
            fold.deep -= 1
        if state is None:
            return
        how = code.exits.get(frame.f_lasti)
        unwinds = how is None or (value is None and state.raised_at == frame.f_lasti)
        if fold is not None:
            if fold.key != id(frame):
                if unwinds or how != YIELD:
                    self._states.pop(id(frame), None)
                return
            if how == YIELD and not unwinds:
                self.recorder.gives(frame, state, value)
                return
            self.recorder.end_fold(frame, state)
        if unwinds:
            self.recorder.unwound(frame, state)
        elif how == YIELD:
            self.recorder.yielded(frame, state, value)
        else:
            self.recorder.returned(frame, state, value)

    def _state(self, frame: types.FrameType, code: Code) -> State | None:
        state = self._states.get(id(frame))
        return state if state is not None and state.code is code else None
