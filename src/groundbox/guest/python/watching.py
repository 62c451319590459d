"""Watching what a run does with pandas, for a run that asks for it (`checks=True`).

No function of pandas is replaced. The interpreter tells when certain functions return (`sys.monitoring`; on Python
3.11 calls in their bytecode, bytecode_hooks.py), so that names, signatures, tracebacks, warnings and reference counts
are as they are without. The functions are marked when the run begins, or when it imports pandas, and unmarked when it
ends; a run without pandas marks none.

What an observer sees is told as plain counts and names, in small number. How much they look at is bounded by rows, not
by time, so that the same program is told the same. An observer that fails tells nothing and disturbs nothing.
"""

from __future__ import annotations

import inspect
import sys
import sysconfig
import threading
import types
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from .after_import import after_import, forget
from .observers import before, observers
from .value_observers import array_observers

if TYPE_CHECKING:
    from .bytecode_hooks import Hooks

MOST_TOLD: Final = 40
MOST_ROWS: Final = 10_000_000
"""Rows that the observers of one run look at together; beyond, calls are counted only."""
MOST_NAMES: Final = 8
MOST_NAME_CHARS: Final = 60

_NAME: Final = "groundbox checks"
_TOOLS: Final = (3, 4, 1, 2)
_STDLIB: Final = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
_PACKAGES: Final = ("/site-packages/", "/dist-packages/")
_MOST_PENDING: Final = 64

Told = dict[str, Any]


class Watch:
    """One run's observers, from `begin` to `end`."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, int | None], Told] = {}
        self._left_out = 0
        self._rows = 0
        self._tool = -1
        self._hooks: Hooks | None = None
        self._observers: dict[types.CodeType, Callable[..., None]] = {}
        self._before: dict[types.CodeType, Callable[[Any], Any]] = {}
        self._pending: dict[int, Any] = {}
        self._busy = threading.local()
        self._unable = False

    def begin(self) -> None:
        """Watch from now on."""
        after_import("numpy", self._mark_numpy)
        after_import("pandas", self._mark)

    def end(self) -> list[Told]:
        """Unmark all; what was seen, at most MOST_TOLD and one more that counts the rest."""
        forget("numpy", self._mark_numpy)
        forget("pandas", self._mark)
        self._unmark()
        told = list(self._told.values())
        if self._unable:
            told.append({"kind": "unable", "line": None, "counts": {}, "names": []})
        elif self._left_out:
            told.append({"kind": "left_out", "line": None, "counts": {"calls": self._left_out}, "names": []})
        return told

    def tell(self, kind: str, line: int | None, names: list[Any] | None = None, **counts: int) -> None:
        """Keep what an observer saw; the same on the same line counts once more."""
        before = self._told.get((kind, line))
        if before is not None:
            before["counts"]["times"] = before["counts"].get("times", 1) + 1
        elif len(self._told) >= MOST_TOLD:
            self._left_out += 1
        else:
            shown = [_text(name) for name in (names or [])[:MOST_NAMES] if name is not None]
            numbers = {name: int(count) for name, count in counts.items()}
            self._told[kind, line] = {"kind": kind, "line": line, "counts": numbers, "names": shown}

    def may_look_at(self, rows: int) -> bool:
        """Whether so many rows more may be looked at."""
        if self._rows + rows > MOST_ROWS:
            self._left_out += 1
            return False
        self._rows += rows
        return True

    def _mark(self, pandas: Any) -> None:
        self._add(observers(pandas), before(pandas))

    def _mark_numpy(self, numpy: Any) -> None:
        self._add(array_observers(numpy), {})

    def _add(self, observers: dict[Any, Callable[..., None]], before: dict[Any, Callable[[Any], Any]]) -> None:
        functions = dict(_plain_functions(observers))
        self._observers.update({function.__code__: observe for function, observe in functions.items()})
        remembered = dict(_plain_functions(before))
        self._before.update({function.__code__: remember for function, remember in remembered.items()})
        if hasattr(sys, "monitoring"):
            self._monitor(sys.__dict__["monitoring"])  # not known to type checkers of Python 3.11
        else:
            self._hook(functions)

    def _monitor(self, monitoring: Any) -> None:
        tool = self._tool if self._tool >= 0 else next((t for t in _TOOLS if monitoring.get_tool(t) is None), None)
        if tool is None:
            self._unable = True
            return
        if self._tool < 0:
            monitoring.use_tool_id(tool, _NAME)
        self._tool = tool
        events = monitoring.events
        monitoring.register_callback(tool, events.PY_RETURN, self._returned)
        monitoring.register_callback(tool, events.PY_START, self._started)
        for code in self._observers:
            start = events.PY_START if code in self._before else 0
            monitoring.set_local_events(tool, code, events.PY_RETURN | start)

    def _hook(self, functions: Iterable[types.FunctionType]) -> None:
        from . import bytecode_hooks

        if not bytecode_hooks.AVAILABLE:
            self._unable = True
            return
        self._hooks = self._hooks or bytecode_hooks.Hooks()
        for function in functions:
            started = self._started if function.__code__ in self._before else None
            self._hooks.add(function, started=started, returned=self._returned)

    def _unmark(self) -> None:
        if self._hooks is not None:
            self._hooks.remove()
        tool, self._tool = self._tool, -1
        monitoring: Any = getattr(sys, "monitoring", None)
        if tool < 0 or monitoring.get_tool(tool) != _NAME:
            return
        for code in self._observers:
            monitoring.set_local_events(tool, code, 0)
        for event in (monitoring.events.PY_RETURN, monitoring.events.PY_START):
            monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)

    def _started(self, code: types.CodeType, offset: int) -> None:
        """For functions that change what they are given: what of it an observer needs."""
        frame = sys._getframe(1)
        if getattr(self._busy, "now", False) or _own_line(frame) is None:
            return
        try:
            if len(self._pending) >= _MOST_PENDING:
                self._pending.clear()  # of calls that failed: they never return
            self._pending[id(frame)] = self._before[code](frame.f_locals)
        except Exception:
            return

    def _returned(self, code: types.CodeType, offset: int, result: Any) -> None:
        frame = sys._getframe(1)
        if getattr(self._busy, "now", False):
            return
        line = _own_line(frame)
        pending = self._pending.pop(id(frame), None) if self._pending else None
        if line is None:
            return
        self._busy.now = True
        try:
            given = dict(frame.f_locals)
            if pending is not None:
                given["before"] = pending
            self._observers[code](self, line, given, result)
        except Exception:
            return  # what an observer cannot look at is as it would be without
        finally:
            self._busy.now = False


def _plain_functions(functions: dict[Any, Any]) -> Iterator[tuple[types.FunctionType, Any]]:
    """Functions to observe, under all decorators."""
    for function, observe in functions.items():
        plain = inspect.unwrap(function)
        if isinstance(plain, types.FunctionType):
            yield plain, observe


def _own_line(frame: types.FrameType) -> int | None:
    """The program's line that called, or None when a library did."""
    caller = frame.f_back
    while caller is not None and caller.f_code.co_name in ("wrapper", "new_method") and _is_library(caller):
        caller = caller.f_back
    return None if caller is None or _is_library(caller) else caller.f_lineno


def _is_library(frame: types.FrameType) -> bool:
    filename = frame.f_code.co_filename
    return any(part in filename for part in _PACKAGES) or filename.startswith((*_STDLIB, "<frozen"))


def _text(name: Any) -> str:
    text = name if type(name) is str else repr(name)
    return text[:MOST_NAME_CHARS].encode("utf-8", "replace").decode("utf-8")
