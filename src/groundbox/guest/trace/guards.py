"""Guards against what makes a trace doubtful: the program reaches for the tracer itself, or for memory behind its back.

An audit hook cannot be taken away. It tells the recorder, once for each reason, when the program

- sets a trace or profile function, or callbacks of `sys.monitoring`
- asks the garbage collector for objects (`gc.get_objects`, `get_referrers`, `get_referents`)
- loads `ctypes` or `cffi`, or calls foreign functions, itself (libraries may)
- opens `/proc/…/mem`
- forks: the child writes no records, and what it does is not in the trace

Source that imports `ctypes`, `cffi` or `_ctypes` is told of at the start. Both cores look at the end whether they are
still in place, also for new threads; `native` from 3.12 on sees by a version whether events were asked for anew
meanwhile. A frame whose `f_trace` is taken away, or that ends with `f_trace_lines` false, is told of where the core
needs them: by `plain`, and on 3.11 the latter by `native`.

Not seen: attributes of a frame that are put back before it ends; and whatever else reaches the tracer as objects of
this process: by `sys.gettrace()`, `sys.stdout`, `sys.modules` or outer frames, or the records' buffer by other native
code. `plain` is Python, so that a few lines forge records of it, and the trace is complete.
"""

from __future__ import annotations

import os
import sys
import threading
import types
from typing import Any

from .own import protect
from .plan import Code, Program

protect(globals())

_getframe = sys._getframe
_REASONS = {
    "sys.settrace": "the program changed the trace function",
    "sys.setprofile": "the program changed the profile function",
    "sys.monitoring.register_callback": "the program changed sys.monitoring",
    "gc.get_objects": "the program asked the garbage collector for all objects",
    "gc.get_referrers": "the program asked the garbage collector for all objects",
    "gc.get_referents": "the program asked the garbage collector for all objects",
}
_FOREIGN = frozenset(("ctypes", "_ctypes", "cffi", "_cffi_backend"))
_LOADED = "the program loaded ctypes or cffi"
_FORKED = "a forked process was not traced"
# Frames of these are passed over: whoever is above them has asked for the import or the call.
_TRUSTED = ("importlib._bootstrap", "importlib._bootstrap_external", "ctypes", "cffi")


class Guards:
    """Watches one recording at a time; hooks stay for good, and do nothing when none is going on."""

    def __init__(self) -> None:
        self._recording: Any = None
        self._codes: dict[int, Code] = {}
        self._told: set[str] = set()
        self._installed = False

    def watch(self, recording: Any, program: Program) -> None:
        """Begin to watch a recording, which is told of doubts, and is to leave in a forked child."""
        self._told.clear()
        self._codes = program.codes
        if not self._installed:
            self._installed = True
            sys.addaudithook(self._audit)
            os.register_at_fork(after_in_parent=self._after_in_parent, after_in_child=self._after_in_child)
        self._recording = recording
        if program.facts.imports & _FOREIGN:
            self._tell(_LOADED)

    def end(self) -> None:
        """Watch no more."""
        self._recording = None

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        # Each audited event of the process comes here. `_getframe` below is one itself, and would come here without
        # end.
        if event == "sys._getframe" or self._recording is None:
            return
        why = _REASONS.get(event)
        if event in ("sys.settrace", "sys.setprofile") and _by_threading():
            return
        # import, ctypes and open; a glance at the letter keeps the hook cheap for all others.
        if why is None and event[0] in "ico":
            why = self._other(event, args)
        if why is not None:
            self._tell(why)

    def _other(self, event: str, args: tuple[Any, ...]) -> str | None:
        if event == "open":
            return _of_memory(args[0])
        if event == "import":
            return _LOADED if args[0] in _FOREIGN and self._by_program() else None
        if event.startswith("ctypes."):
            return _LOADED if self._by_program() else None
        return None

    def _by_program(self) -> bool:
        """Return whether the nearest frame that is not part of importing or of ctypes is user code."""
        # 0 is this frame, 1 `_other`, 2 `_audit`, 3 whatever caused the event.
        frame: types.FrameType | None = _getframe(3)
        while frame is not None:
            module = frame.f_globals.get("__name__")
            if type(module) is not str or not module.startswith(_TRUSTED):
                return id(frame.f_code) in self._codes
            frame = frame.f_back
        return False

    def _tell(self, why: str) -> None:
        if why not in self._told and self._recording is not None:
            self._told.add(why)
            self._recording.lost(why)

    def _after_in_parent(self) -> None:
        self._tell(_FORKED)

    def _after_in_child(self) -> None:
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.leave()


def _by_threading() -> bool:
    """Return whether a thread that begins hands the interpreter what was set for all threads."""
    # 0 is this frame, 1 `_audit`, 2 the caller of `sys.settrace`.
    return _getframe(2).f_code is _BOOTSTRAP


_BOOTSTRAP = threading.Thread._bootstrap_inner.__code__  # type: ignore[attr-defined]


def _of_memory(path: Any) -> str | None:
    if type(path) is bytes:
        path = os.fsdecode(path)
    if type(path) is str and path.startswith("/proc/") and path.endswith("/mem"):
        return "the program opened the memory of a process"
    return None


GUARDS = Guards()
