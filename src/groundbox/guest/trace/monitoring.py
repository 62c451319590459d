"""The core that uses `sys.monitoring` (3.12 and later): only code objects of the program make events.

Calls, lines, returns, yields and jumps are asked for by code object, so library code runs at full speed. Exceptions
can only be asked for everywhere; those of other code are passed over. A jump backwards within one line begins that
line anew, as it does for trace functions. Lines and jumps inside inlined comprehensions are switched off where they
are met.

A callback needs room on the stack. Near the recursion limit it raises the limit for as long as it works. When it
cannot be put back, since the program stands at the last frame that its limit allows, it stays raised until it can; a
call that the program makes beyond its own limit then gets its RecursionError from here.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from .events import MORE_FRAMES, Guarded
from .frames import State
from .own import protect
from .plan import GENERATOR
from .recorder import Recorder
from .tools import Tool

protect(globals())

_getframe = sys._getframe
_getrecursionlimit, _setrecursionlimit = sys.getrecursionlimit, sys.setrecursionlimit


class MonitoringCore(Guarded):
    """Feeds a recorder from callbacks of `sys.monitoring`."""

    name = "monitoring"

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder)
        self._codes = recorder.codes
        self._states = recorder.states
        self._refused = 0
        """`id` of the frame that was entered beyond the program's recursion limit."""
        monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        events = monitoring.events
        self._disable = monitoring.DISABLE
        local = {
            events.PY_START: self._start_event(),
            events.PY_RESUME: self.guarded(self._resume),
            events.PY_RETURN: self._return_event(),
            events.PY_YIELD: self.guarded(self._yield),
            events.LINE: self._line_event(),
            events.JUMP: self.guarded(self._jump),
            events.BRANCH: self.guarded(self._branch),
        }
        everywhere = {
            events.RAISE: self.guarded(self._raise),
            events.PY_UNWIND: self.guarded(self._unwind),
            events.PY_THROW: self.guarded(self._throw),
        }
        self._tool = Tool(self._codes.values(), local, everywhere)

    def start(self) -> None:
        """Trace from now on, in all threads."""
        self._tool.start()

    def stop(self) -> None:
        """Trace no more; tells if the program has changed what is called."""
        if not self._tool.stop() and not self.stopped:
            self.recorder.lost("the program changed sys.monitoring")
        self.stopped = True

    def _start_event(self) -> Any:
        recorder, record = self.recorder, self.guarded(self._start)

        def start_event(code: types.CodeType, offset: int) -> Any:
            fold = recorder.fold
            if fold is not None:
                fold.calls += 1
                fold.deep += 1
                fold.nested += code is fold.code
                if fold.deep <= fold.room:
                    return None
            if (recorder.tight or fold is not None) and not recorder.own_limit:
                recorder.own_limit = _getrecursionlimit()
                _setrecursionlimit(recorder.own_limit + MORE_FRAMES)
            return record(code)

        return start_event

    def _return_event(self) -> Any:
        recorder, record, codes = self.recorder, self.guarded(self._return), self._codes

        def return_event(code: types.CodeType, offset: int, value: Any) -> Any:
            fold = recorder.fold
            if fold is not None and (code is not fold.code or fold.nested):
                fold.nested -= code is fold.code
                fold.deep -= 1
                if codes[id(code)].kind != GENERATOR and not recorder.own_limit:
                    return None
            if recorder.tight and not recorder.own_limit:
                recorder.own_limit = _getrecursionlimit()
                _setrecursionlimit(recorder.own_limit + MORE_FRAMES)
            return record(code, value)

        return return_event

    def _start(self, code: types.CodeType) -> Any:
        if id(code) in self._codes:
            frame = _getframe(_DEPTH + 1)
            own_limit = self.recorder.own_limit
            if own_limit and self.recorder.depth(frame) > own_limit:
                self._refused = id(frame)
                self.own_fault = RecursionError("maximum recursion depth exceeded")
                raise self.own_fault
            if self.recorder.fold is None:
                self.recorder.called(frame)
        return None

    def _resume(self, code: types.CodeType, offset: int) -> Any:
        self._goes_on(_getframe(_DEPTH))
        return None

    def _goes_on(self, frame: types.FrameType) -> None:
        fold = self.recorder.fold
        if fold is not None:
            fold.deep += 1
            fold.nested += frame.f_code is fold.code
        else:
            state = self._state(frame)
            if state is None:
                self.recorder.called(frame)
            else:
                self.recorder.resumed(frame, state)

    def _throw(self, code: types.CodeType, offset: int, exception: BaseException) -> Any:
        plan = self._codes.get(id(code))
        if plan is not None and plan.kind == GENERATOR:
            self._goes_on(_getframe(_DEPTH))
        return None

    def _line_event(self) -> Any:
        """The callback for lines, in one piece: it is called more often than all others together."""
        codes, states, recorder, lock = self._codes, self._states, self.recorder, self.lock
        record = recorder.line

        def line_event(code: types.CodeType, number: int) -> Any:
            if self.stopped:
                return None
            try:
                plan = codes[id(code)]
                fold = recorder.fold
                if fold is not None and not plan.hides and not plan.branches.heads:
                    fold.steps += 1
                    if code is not fold.code or fold.nested or fold.goes_on(number):
                        return None
                frame = _getframe(1)
                if plan.hides:
                    line = plan.lines.get(number)
                    if line is not None and line.hidden and (line.hidden is True or frame.f_lasti in line.hidden):
                        return self._disable
                if recorder.tight and not recorder.own_limit:
                    recorder.own_limit = _getrecursionlimit()
                    _setrecursionlimit(recorder.own_limit + MORE_FRAMES)
                with lock:
                    if recorder.fold is not None and self._folded(frame, number):
                        if plan.branches.heads:
                            recorder.pass_line(frame, frame.f_lasti)
                        return None
                    state = states.get(id(frame))
                    if state is not None and state.code is plan:
                        record(frame, state, number, frame.f_lasti)
            except BaseException as fault:
                if self._is_foreign(fault):
                    raise
            if recorder.own_limit:
                self.put_limit_back()
            return None

        return line_event

    def _folded(self, frame: types.FrameType, number: int) -> bool:
        """Whether a line belongs to what runs unrecorded."""
        fold = self.recorder.fold
        assert fold is not None
        fold.steps += 1  # taken back by a line outside
        if fold.key != id(frame) or fold.goes_on(number):
            return True
        self.recorder.end_fold(frame, fold.state)
        return False

    def _jump(self, code: types.CodeType, offset: int, target: int) -> Any:
        plan = self._codes[id(code)]
        number = plan.line_at.get(offset)
        source = plan.branches.sources.get(offset)
        if source is not None:
            state = self._state(_getframe(_DEPTH))
            if state is not None:
                state.source = source
        if target > offset or number is None or number != plan.line_at.get(target):
            return self._disable if source is None else None
        line = plan.lines.get(number)
        if line is not None and line.hidden and (line.hidden is True or offset in line.hidden):
            return self._disable
        frame = _getframe(_DEPTH)
        if self.recorder.fold is None or not self._folded(frame, number):
            state = self._state(frame)
            if state is not None:
                self.recorder.line(frame, state, number, target)
        elif plan.branches.heads:
            self.recorder.pass_line(frame, target)
        return None

    def _branch(self, code: types.CodeType, offset: int, target: int) -> Any:
        branch = self._codes[id(code)].branches.jumps.get(offset)
        if branch is None:
            return self._disable
        frame = _getframe(_DEPTH)
        state = self._state(frame)
        if state is not None:
            self.recorder.branched(frame, state, branch, jumped=target != branch.falls_to)
        return None

    def _return(self, code: types.CodeType, value: Any) -> Any:
        frame = _getframe(_DEPTH + 1)
        state = self._leaving(frame)
        if state is not None:
            self.recorder.returned(frame, state, value)
        return None

    def _unwind(self, code: types.CodeType, offset: int, exception: BaseException) -> Any:
        if id(code) in self._codes:
            fold = self.recorder.fold
            if fold is not None and (code is not fold.code or fold.nested):
                fold.nested -= code is fold.code
                fold.deep -= 1
            frame = _getframe(_DEPTH)
            state = self._leaving(frame)
            if state is not None:
                self.recorder.unwound(frame, state)
        return None

    def _yield(self, code: types.CodeType, offset: int, value: Any) -> Any:
        fold = self.recorder.fold
        if fold is None:
            frame = _getframe(_DEPTH)
            state = self._state(frame)
            if state is not None:
                self.recorder.yielded(frame, state, value)
        elif code is fold.code and not fold.nested:
            self.recorder.gives(_getframe(_DEPTH), fold.state, value)
        else:
            fold.deep -= 1
            fold.nested -= code is fold.code
        return None

    def _raise(self, code: types.CodeType, offset: int, exception: BaseException) -> Any:
        plan = self._codes.get(id(code))
        if plan is None:
            return None
        frame = _getframe(_DEPTH)
        if exception is self.own_fault and id(frame) != self._refused:
            self.own_fault = None
            if exception.__traceback__ is not None:
                exception.__traceback__.tb_next = None  # the frame that should not have begun
        fold = self.recorder.fold
        if fold is not None:
            if fold.key == id(frame):
                fold.raised(exception, plan, offset)
            return None
        state = self._state(frame)
        if state is not None:
            self.recorder.raised(frame, state, exception, offset)
        return None

    def _leaving(self, frame: types.FrameType) -> State | None:
        """The state of a frame that is being left, unless it is inside a fold."""
        state = self._state(frame)
        fold = self.recorder.fold
        if state is None or fold is None:
            return state
        if fold.key != id(frame):
            self._states.pop(id(frame), None)
            return None
        self.recorder.end_fold(frame, state)
        return state

    def _state(self, frame: types.FrameType) -> State | None:
        state = self._states.get(id(frame))
        return state if state is not None and state.code.code is frame.f_code else None


_DEPTH = 2
"""Frames between a handler and the frame of the program: the handler's own, and the guard's."""
