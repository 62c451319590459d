"""Resolving a line's effects: which objects it may have changed by code that is not the program's.

`touched(effects, scope, …)` looks at the values that names have now, at the end of the line, and gives the objects to
be checked, in the order of the effects, or None: anything may have changed, walk from the roots.

A path is followed without running code of the program. An attribute: a data descriptor in the type's MRO makes it
unknown, but for slots; else the true `__dict__` of the instance, else a plain value in the MRO. `__class__` is the
type. Of a class: its MRO; of a module: its `__dict__`. An item: of a list, tuple or deque by an int (a bool is none),
of a dict by an atom if all its keys are atoms; only of the exact types list, tuple, dict, deque, OrderedDict,
defaultdict, Counter. ANY: all items of a list, tuple or deque, or all values of a dict. A path that comes upon
anything else is unknown, and so are all effects of the line; so are those whose root has no value: it is a builtin, or
the line has deleted it. A path that ends (a missing key or attribute) touches nothing.

STORE touches what the path leads to. CALL, by what is called, f:
- a function of the program, or an `lru_cache` around anything, or a class: nothing
- a library function taken before the run (`KNOWN`): nothing, or its first argument
- a method of x, found as above but not called: x of the types str, int, float, bool, None, bytes, tuple, range,
  frozenset, complex: nothing; of list, dict, set, deque, bytearray or a library subclass of these: x; an instance of
  a class of the program: as for f if a function of the program is found in the MRO; x if `f` is found in a built-in
  container base; nothing if it is found in `object`; a generator: nothing
- a bound method: as for its function, or a method of its owner
- anything else: unknown
"""

from __future__ import annotations

import collections
import functools
import sys
import types
from collections.abc import Callable
from typing import Any

from .bytecode import FREE, GLOBAL, LOCAL, SPACE
from .classes import ATOMS, Kinds, deque, type_dict, type_mro
from .contents import has_get
from .frames import Rest
from .own import protect
from .plan import Code, Name
from .units import ANY, CALL, CONSTANT, Effect
from .values import module_dict

protect(globals())

NOTHING: list[Any] = []
_UNKNOWN = object()
NO_VALUE: Any = object()
_FIRST = "first"

_IMMUTABLE = frozenset(id(cls) for cls in (str, int, float, bool, type(None), bytes, tuple, range, frozenset, complex))
_CONTAINERS = frozenset(
    id(cls)
    for cls in (
        list, dict, set, bytearray, deque, collections.OrderedDict, collections.defaultdict, collections.Counter,
    )
)  # fmt: skip
_DICTS = frozenset(id(cls) for cls in (dict, collections.OrderedDict, collections.defaultdict, collections.Counter))
_GENERATORS = frozenset(id(cls) for cls in (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType))
_cached_type = type(functools.lru_cache(lambda: None))
_function_code: Callable[[Any], Any] = types.FunctionType.__dict__["__code__"].__get__
_method_function: Callable[[Any], Any] = types.MethodType.__dict__["__func__"].__get__
_method_self: Callable[[Any], Any] = types.MethodType.__dict__["__self__"].__get__
_builtin_self: Callable[[Any], Any] = types.BuiltinFunctionType.__dict__["__self__"].__get__
_wrapped: dict[int, Callable[[Any], Any]] = {
    id(staticmethod): staticmethod.__dict__["__func__"].__get__,
    id(classmethod): classmethod.__dict__["__func__"].__get__,
}

_PURE_MODULES = (
    "builtins", "math", "cmath", "itertools", "string", "re", "time", "statistics", "copy", "json", "fractions",
    "decimal", "datetime", "textwrap", "random", "bisect", "heapq", "operator", "collections", "functools",
)  # fmt: skip
_FIRST_CHANGED = {
    "heapq": ("heappush", "heappop", "heapify", "heapreplace", "heappushpop"),
    "bisect": ("insort", "insort_left", "insort_right"),
    "random": ("shuffle",),
    "operator": ("setitem", "delitem", "iadd", "iand", "iconcat", "ior", "isub", "ixor", "imul"),
    "builtins": ("setattr", "delattr"),
}
_NOT_PURE = {
    "builtins": ("exec", "eval", "globals", "locals", "vars", "__import__", "__build_class__", "compile", "help"),
    "functools": ("reduce", "update_wrapper", "wraps", "partial", "singledispatch"),
    "operator": ("call", "methodcaller"),
}


_read: dict[str, dict[int, str]] = {}
_kept: list[Any] = []
"""The functions that were read, so that no other object gets the id of one."""


def known_functions() -> dict[int, str]:
    """By id: library functions that change nothing ("none") or their first argument at most ("first").

    Each module is read once, so what a program puts in there later is not among them.
    """
    known: dict[int, str] = {}
    for name in _PURE_MODULES:
        module = sys.modules.get(name)
        if name not in _read and type(module) is types.ModuleType:
            _read[name] = _functions_of(name, module)
        known |= _read.get(name, {})
    return known


def _functions_of(name: str, module: types.ModuleType) -> dict[int, str]:
    known: dict[int, str] = {}
    for member, function in module_dict(module).items():
        if member in _NOT_PURE.get(name, ()) or not callable(function) or isinstance(function, type):
            continue
        _kept.append(function)
        # `operator` has its functions under two names, `setitem` and `__setitem__`.
        known[id(function)] = _FIRST if member.strip("_") in _FIRST_CHANGED.get(name, ()) else "none"
    return known


class Resolver:
    """Follows the paths of effects in a frame."""

    def __init__(self, codes: dict[int, Code], kinds: Kinds) -> None:
        self._codes = codes
        self._kinds = kinds
        self._known = known_functions()

    def touched(self, effects: tuple[Effect, ...], frame: types.FrameType) -> list[Any] | None:
        """The objects that the line can have changed; None if that cannot be said."""
        space = namespace(frame)
        found: list[Any] = []
        for effect in effects:
            if effect.kind == CALL:
                more = self._call(effect, frame, space)
            else:
                more = self._follow(effect.root, effect.steps, frame, space)
            if more is None:
                return None
            found += more
        return found

    def key(self, effect: Effect, frame: types.FrameType) -> Any:
        """The index or key of the one item that a STORE stores, or a mark if there is none."""
        step = effect.item
        assert step is not None
        return step[2] if step[1] == CONSTANT else _index(step[2], frame, namespace(frame))

    def _follow(self, root: Name, steps: Any, frame: types.FrameType, space: Any) -> list[Any] | None:
        """What a path leads to: one object, several by ANY, none if it ends; None if it is unknown."""
        start = value_of(root, frame, space)
        if start is NO_VALUE:
            return None  # the name of a builtin, as in `list.append(x, 1)`, or the line has deleted it
        reached = [start]
        for step in steps:
            after: list[Any] = []
            for value in reached:
                more = self._attribute(value, step[1]) if step[0] == "a" else _item(value, step, frame, space)
                if more is None:
                    return None
                after += more
            reached = after
        return reached

    def _attribute(self, value: Any, name: str) -> list[Any] | None:
        cls = type(value)
        if name == "__class__":
            return [cls]
        if cls is types.ModuleType:
            return _one(module_dict(value).get(name, NO_VALUE))
        if issubclass(cls, type):
            return _plain(_in_mro(type_mro(value), name))
        kind = self._kinds.of(cls)
        if not kind.own or _gives_anything(type_mro(cls)):
            return None
        found = _in_mro(type_mro(cls), name)
        if type(found) is types.MemberDescriptorType:
            return _slot(found, value)
        if found is not NO_VALUE and type(found) is not types.FunctionType and has_get(type(found)):
            return None
        if kind.dictionary is not None:
            own = dict.get(kind.dictionary.__get__(value), name, NO_VALUE)
            if own is not NO_VALUE:
                return [own]
        return _plain(found)

    def _call(self, effect: Effect, frame: types.FrameType, space: Any) -> list[Any] | None:
        steps = effect.steps
        if steps and steps[-1][0] == "a":
            owners = self._follow(effect.root, steps[:-1], frame, space)
            if owners is None:
                return None
            return self._all(owners, lambda owner: self._method(owner, steps[-1][1], effect, frame, space))
        if not steps and value_of(effect.root, frame, space) is NO_VALUE:
            return self._builtin(effect, frame, space)
        functions = self._follow(effect.root, steps, frame, space)
        if functions is None:
            return None
        return self._all(functions, lambda function: self._function(function, effect, frame, space))

    def _all(self, values: list[Any], touch: Callable[[Any], list[Any] | None]) -> list[Any] | None:
        found: list[Any] = []
        for value in values:
            more = touch(value)
            if more is None:
                return None
            found += more
        return found

    def _builtin(self, effect: Effect, frame: types.FrameType, space: Any) -> list[Any] | None:
        builtins = frame.f_builtins
        function = builtins.get(effect.root.name) if type(builtins) is dict else None
        return None if function is None else self._function(function, effect, frame, space)

    def _function(self, function: Any, effect: Effect, frame: types.FrameType, space: Any) -> list[Any] | None:
        cls = type(function)
        if cls is types.FunctionType and id(_function_code(function)) in self._codes:
            return NOTHING
        known = self._known.get(id(function))
        if known is not None:
            if known != _FIRST:
                return NOTHING
            return None if effect.first is None else self._follow(*effect.first, frame, space)
        if cls is _cached_type or issubclass(cls, type):
            return NOTHING
        if cls is types.MethodType:
            return self._function(_method_function(function), effect, frame, space)
        if cls is types.BuiltinFunctionType:
            owner = _builtin_self(function)
            if owner is not None and type(owner) is not types.ModuleType:
                return _of_library(owner)
            return None
        if self._kinds.of(cls).own and self._is_ours(_in_mro(type_mro(cls), "__call__")):
            return NOTHING
        return None

    def _is_ours(self, function: Any) -> bool:
        cls = type(function)
        if id(cls) in _wrapped:
            function = _wrapped[id(cls)](function)
            cls = type(function)
        return cls is types.FunctionType and id(_function_code(function)) in self._codes

    def _method(self, owner: Any, name: str, effect: Effect, frame: types.FrameType, space: Any) -> list[Any] | None:
        cls = type(owner)
        if id(cls) in _IMMUTABLE or id(cls) in _CONTAINERS or id(cls) in _GENERATORS:
            return _of_library(owner)
        if cls is types.ModuleType or issubclass(cls, type):
            found = (
                module_dict(owner).get(name, NO_VALUE) if cls is types.ModuleType else _in_mro(type_mro(owner), name)
            )
            if found is NO_VALUE:
                return None
            return NOTHING if self._is_ours(found) else self._function(found, effect, frame, space)
        kind = self._kinds.of(cls)
        if not kind.own:
            return None
        own = dict.get(kind.dictionary.__get__(owner), name, NO_VALUE) if kind.dictionary is not None else NO_VALUE
        if own is not NO_VALUE:
            return self._function(own, effect, frame, space)
        for base in type_mro(cls):
            found = type_dict(base).get(name, NO_VALUE)
            if found is not NO_VALUE:
                return self._found_in(base, found, owner)
        return None

    def _found_in(self, base: type, found: Any, owner: Any) -> list[Any] | None:
        if self._is_ours(found):
            return NOTHING
        if id(base) in _CONTAINERS:
            return [owner]
        return NOTHING if base is object or type(found) is _cached_type else None


def value_of(name: Name, frame: types.FrameType | Rest, space: Any) -> Any:
    """The value that a name of a frame has now, or a mark for none. `space` is the frame's `f_locals`."""
    where = name.where
    if where == GLOBAL:
        return dict.get(frame.f_globals, name.name, NO_VALUE)
    if where in (LOCAL, FREE):
        return space.get(name.name, NO_VALUE) if type(space) in (dict, _LocalsProxy) else NO_VALUE
    assert where == SPACE
    if is_dictionary(space):
        found = dict.get(space, name.name, NO_VALUE)
        if found is not NO_VALUE:
            return found
    return dict.get(frame.f_globals, name.name, NO_VALUE)


def namespace(frame: types.FrameType) -> Any:
    """The frame's `f_locals`; of the module, its `f_globals`, which are the same (see `recorder` about 3.12)."""
    return frame.f_globals if frame.f_code.co_name == "<module>" else frame.f_locals


def has_value(value: Any) -> bool:
    """Whether `value_of` found a value."""
    return value is not NO_VALUE


def is_dictionary(space: Any) -> bool:
    """Whether a namespace can be read without running code of the program."""
    cls = type(space)
    return cls is dict or any(base is dict for base in type_mro(cls))


_LocalsProxy = type((lambda: sys._getframe().f_locals)())


def _of_library(owner: Any) -> list[Any]:
    return [owner] if id(type(owner)) in _CONTAINERS else NOTHING


def _in_mro(mro: tuple[type, ...], name: str) -> Any:
    for base in mro:
        found = type_dict(base).get(name, NO_VALUE)
        if found is not NO_VALUE:
            return found
    return NO_VALUE


def _gives_anything(mro: tuple[type, ...]) -> bool:
    """Whether instances have a `__getattr__` or `__getattribute__` of the program."""
    own = type(_in_mro(mro, "__getattribute__")) is types.FunctionType
    return own or _in_mro(mro, "__getattr__") is not NO_VALUE


def _one(value: Any) -> list[Any]:
    return NOTHING if value is NO_VALUE else [value]


def _plain(value: Any) -> list[Any] | None:
    return None if value is not NO_VALUE and has_get(type(value)) else _one(value)


def _slot(member: Any, value: Any) -> list[Any]:
    try:
        return [member.__get__(value)]
    except AttributeError:
        return NOTHING


def _item(value: Any, step: Any, frame: types.FrameType, space: Any) -> list[Any] | None:
    cls = type(value)
    is_dict = id(cls) in _DICTS
    if not is_dict and cls is not list and cls is not tuple and cls is not deque:
        return None
    if step[1] == ANY:
        return list(dict.values(value)) if is_dict else list(value)
    key = step[2] if step[1] == CONSTANT else _index(step[2], frame, space)
    if key is NO_VALUE:
        return NOTHING
    if id(type(key)) not in ATOMS:
        return None
    if is_dict:
        if not ATOMS.issuperset(map(id, map(type, dict.keys(value)))):
            return None
        return _one(dict.get(value, key, NO_VALUE))
    if type(key) is not int:
        return None
    return [value[key]] if -len(value) <= key < len(value) else NOTHING


def _index(name: str, frame: types.FrameType, space: Any) -> Any:
    where = LOCAL if frame.f_code.co_flags & 0x2 else SPACE
    return value_of(Name(name, where), frame, space)
