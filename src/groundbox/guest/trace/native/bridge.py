"""The core in C: loading its module, and handing it what is left to Python.

`_groundbox_tracer` records what `plain` records, byte for byte but for what it folds, from a `plan.Program` that Python
has made. It asks Python once for each type (`classes.Kinds`), and for the texts of values of standard immutable types,
for arrays and for names of threads. For a call of a function of the standard library that changes nothing, or no more
than its first argument, it looks at fewer objects (`effects.c`): Python tells it once which these are.

Programs that wait for the end of objects (`Facts.holds` is false) are left to the plain core.
"""

from __future__ import annotations

import collections
import functools
import importlib.machinery
import importlib.util
import sys
import threading
import types
from typing import Any

from ..classes import Kinds, deque
from ..own import protect
from ..plain.contents import array_contents, shown_items
from ..plan import Program
from ..values import Values, module_dict, take_standard, thread_name

protect(globals())

MODULE = "_groundbox_tracer"
# Kept in `core.helpers.containers` (native/core.h), which has room for twelve.
_CONTAINERS = (
    dict, collections.OrderedDict, collections.defaultdict, collections.Counter, list, set, bytearray, deque,
)  # fmt: skip
"""Types whose methods change nothing but their owner; dicts first."""
_NONE, _FIRST, _ANY = range(3)
_PURE_MODULES = (
    "builtins", "math", "cmath", "itertools", "string", "re", "time", "statistics", "copy", "json", "fractions",
    "decimal", "datetime", "textwrap", "random", "bisect", "heapq", "operator", "collections", "functools",
)  # fmt: skip
_FIRST_CHANGED = {
    "heapq": ("heappush", "heappop", "heapify", "heapreplace", "heappushpop"),
    "bisect": ("insort", "insort_left", "insort_right"),
    "random": ("shuffle",),
    "operator": (
        "setitem", "delitem", "iadd", "iand", "iconcat", "ifloordiv", "ilshift", "imatmul", "imod", "imul", "ior",
        "ipow", "irshift", "isub", "itruediv", "ixor",
    ),
    "builtins": ("setattr", "delattr"),
}  # fmt: skip
# They run code that they are given, change more than their first argument, or lead to namespaces.
_NOT_PURE = {
    "builtins": ("exec", "eval", "globals", "locals", "vars", "import", "build_class", "compile", "help"),
    "functools": ("reduce", "update_wrapper", "wraps", "singledispatch"),
    "operator": ("call",),
}
_loaded: dict[str, types.ModuleType] = {}


def load(path: str) -> types.ModuleType:
    """Load the module in a file that `build` made for this interpreter; once for each file.

    Raises:
        ImportError: It was made for another one.
        OSError: It cannot be read.
    """
    module = _loaded.get(path)
    if module is None:
        loader = importlib.machinery.ExtensionFileLoader(MODULE, path)
        spec = importlib.util.spec_from_file_location(MODULE, path, loader=loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
        _loaded[path] = module
    return module


class NativeCore:
    """A recording by the core in C; it has the methods of `plain.core.PlainCore`."""

    name = "native"

    def __init__(
        self, module: types.ModuleType, program: Program, buffer: Any, *, soft_events: int, max_events: int
    ) -> None:
        """Args:
        buffer: As for `plain.memory.Memory`.
        """
        self._module = module
        kinds = Kinds()
        values = Values(kinds)
        take_standard(values, program.facts.imports)
        module.open(program, buffer, _helpers(kinds, values), soft_events, max_events)
        self.printed = module.printed
        self._doubted = False
        self._tool = _Tool(module) if sys.version_info >= (3, 12) else None

    def start(self) -> None:
        """Trace from now on, in all threads."""
        if self._tool is None:
            threading.settrace(self._module.adopt)
        else:
            self._tool.start()
        self._module.start()

    def stop(self) -> None:
        """Trace no more; tells if somebody else has stopped it before."""
        intact = self._module.stop()
        if self._tool is None:
            intact = threading.gettrace() is self._module.adopt and intact
            threading.settrace(None)
            if not intact:
                self.lost("the trace function was taken away")
        elif not (self._tool.stop() and intact) and not self._doubted:  # a trace function is a change of it, too
            self.lost("the program changed sys.monitoring")

    def lost(self, why: str) -> None:
        """Write that something may be missing."""
        self._doubted = True
        self._module.lost(why)

    def finish(self, *, ended: bool) -> None:
        """Nothing more will come; the buffer is given back."""
        self._module.finish(ended)

    def abandon(self) -> None:
        """Never write again: this is another process."""
        self._module.abandon()


class _Tool:
    """A tool of `sys.monitoring` that is called back for events of all code."""

    _NAME = "groundbox"

    def __init__(self, module: types.ModuleType) -> None:
        events: Any = sys.monitoring.events  # type: ignore[attr-defined,unused-ignore]
        names = ["PY_START", "PY_RESUME", "PY_RETURN", "PY_YIELD", "LINE", "JUMP", "BRANCH", "RAISE"]
        names += ["PY_UNWIND", "PY_THROW"]
        self._callbacks = {getattr(events, name): getattr(module, name.lower()) for name in names}
        self._monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        self._id = -1

    def start(self) -> None:
        """Take a tool's number that nobody has, and ask for the events."""
        monitoring = self._monitoring
        # PEP 669 gives meanings to 0 (debugger), 1 (coverage), 2 (profiler) and 5 (optimizer); 3 and 4 are free.
        self._id = next(tool for tool in (4, 3, 1, 2, 0, 5) if monitoring.get_tool(tool) is None)
        monitoring.use_tool_id(self._id, self._NAME)
        for event, callback in self._callbacks.items():
            monitoring.register_callback(self._id, event, callback)
        monitoring.set_events(self._id, sum(self._callbacks))

    def stop(self) -> bool:
        """Ask for nothing any more; return whether all was still as `start` left it. Called once."""
        monitoring, tool = self._monitoring, self._id
        intact: bool = monitoring.get_tool(tool) == self._NAME and monitoring.get_events(tool) == sum(self._callbacks)
        # Somebody has freed the number, and with it our callbacks.
        if monitoring.get_tool(tool) is None:
            return intact
        monitoring.set_events(tool, 0)
        for event, callback in self._callbacks.items():
            intact = monitoring.register_callback(tool, event, None) is callback and intact
        monitoring.free_tool_id(tool)
        return intact


def _helpers(kinds: Kinds, values: Values) -> tuple[Any, ...]:
    # In the order of the enum in native/module.c.
    return (
        kinds,
        kinds.of,
        values._leaf,
        array_contents,
        shown_items,
        len,
        thread_name,
        values.reprs,
        deque,
        type(functools.lru_cache(lambda: None)),
        types.MethodWrapperType,
        _CONTAINERS,
        known_functions(),
    )


_read: dict[str, dict[int, int]] = {}
_kept: list[Any] = []
"""The functions that were read, so that no other object gets the id of one."""


def known_functions() -> dict[int, str]:
    """By id: library functions that change nothing ("none") or their first argument at most ("first").

    Each module is read once, so what a program puts in there later is not among them. A function that several modules
    have, such as `functools.reduce`, which `statistics` imports, is what it is in the one that says most of it.
    """
    known: dict[int, int] = {}
    for name in _PURE_MODULES:
        module = sys.modules.get(name)
        if name not in _read and type(module) is types.ModuleType:
            _read[name] = _functions_of(name, module)
        for function, changes in _read.get(name, {}).items():
            known[function] = max(changes, known.get(function, _NONE))
    return {function: ("none", "first")[changes] for function, changes in known.items() if changes != _ANY}


def _functions_of(name: str, module: types.ModuleType) -> dict[int, int]:
    known: dict[int, int] = {}
    for member, function in module_dict(module).items():
        # Private functions (`_heapify_max`) are nobody's to call, special ones (`operator.__setitem__`) are; a call of
        # a type is known by the type.
        if not callable(function) or isinstance(function, type) or (member[:1] == "_" != member[-1:]):
            continue
        _kept.append(function)
        # `operator` has its functions under two names, `setitem` and `__setitem__`.
        plain = member.strip("_")
        # Of a function that is kept under several names, the one that changes most counts.
        changes = (
            _ANY if plain in _NOT_PURE.get(name, ()) else _FIRST if plain in _FIRST_CHANGED.get(name, ()) else _NONE
        )
        known[id(function)] = max(changes, known.get(id(function), _NONE))
    return known
