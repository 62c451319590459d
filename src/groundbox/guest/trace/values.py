"""Values as JSON text, as docs/trace.md has it, without running code of the program.

Decisions go by `type(value)` alone, never by `isinstance` or `__class__`. Contents are read by methods of the
built-in base type (`list.copy`, `dict.keys`, `set.__iter__`), so a subclass that overrides them is not asked. Text of
standard immutable types (Decimal, date, …) is their own `repr`; these types, and the array types, are taken by
`Standard` before the program runs, if their modules are loaded by then or the source imports them.

`Values.text(value)` gives the text. Objects with an identity are written as `{"ref": n}`: `label`, given by the heap,
returns that text, and describes the object first if it is new. A subclass of int, float, str, bytes or complex is
written as the plain value. Integers over 400 digits: SHA-256 is of the magnitude, big-endian, without leading zero
bytes. A tuple shows at most about 2,000 parts of tuples in it: a tuple or frozenset that is come upon when the value
(at depth 0) has shown 2,000 items or more is elided; one that is not adds the number of items it shows, a frozenset
of all its items, a bound method 1. A `repr` of over 400 characters is written as `opaque`.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
import threading
import types
from collections.abc import Callable
from typing import Any, NamedTuple

from . import classes
from .classes import CLASS, FROZENSET, LEAF, METHOD, TUPLE, Kinds, json_text, type_dict
from .own import protect

protect(globals())

_SAFE_INTEGER = 2**53  # larger ones are no exact numbers to readers whose numbers are floats
_MANY_DIGITS = 10**400
_MANY_BITS = 1329  # of 10**400; an int of fewer bits is below it, and is told apart without writing it out
_LONG_TEXT, _TEXT_HEAD, _TEXT_TAIL = 400, 200, 50
_LONG_BYTES = 200
_DEEPEST_TUPLE = 6
_MOST_ARGUMENTS = 32
_MOST_PARTS = 2_000

_sha256 = hashlib.sha256
_get_ident = threading.get_ident
_int_text, _float_text = int.__repr__, float.__repr__
# They give an exact int, float or str for one of a subclass, whose `__int__` and so on are not asked.
_plain_int, _plain_float, _plain_str = int.__int__, float.__pos__, str.__str__
_tuple_items, _frozenset_items = tuple.__iter__, frozenset.__iter__
module_dict: Callable[[Any], dict[str, Any]] = type_dict(types.ModuleType)["__dict__"].__get__
_method_function: Callable[[Any], Any] = types.MethodType.__dict__["__func__"].__get__
_method_self: Callable[[Any], Any] = types.MethodType.__dict__["__self__"].__get__
_builtin_self: Callable[[Any], Any] = types.BuiltinFunctionType.__dict__["__self__"].__get__
_builtin_name: Callable[[Any], str] = types.BuiltinFunctionType.__dict__["__name__"].__get__
_builtin_qualname: Callable[[Any], str] = types.BuiltinFunctionType.__dict__["__qualname__"].__get__
_exception_args: Callable[[Any], tuple[Any, ...]] = BaseException.__dict__["args"].__get__
_NAMED_BUILTINS: dict[int, Callable[[Any], str]] = {
    id(kind): kind.__dict__["__qualname__"].__get__
    for kind in (
        types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType,
        types.MethodWrapperType,
    )
}  # fmt: skip


class Shown(NamedTuple):
    """How many parts of a container are written: all up to `most`, of more the first and the last."""

    most: int
    head: int
    tail: int

    def of(self, parts: list[Any]) -> list[Any]:
        """Return the parts that are written."""
        return parts if len(parts) <= self.most else parts[: self.head] + parts[-self.tail :]

    def fields(self, word: str, parts: list[Any], texts: Callable[[list[Any]], str]) -> str:
        """Return the fields of JSON with the parts, the first named `word`."""
        if len(parts) <= self.most:
            return f'"{word}":[{texts(parts)}]'
        head, tail = texts(parts[: self.head]), texts(parts[-self.tail :])
        return f'"{word}":[{head}],"tail":[{tail}],"elided":{len(parts) - self.head - self.tail}'


_SHOWN = Shown(32, 24, 4)


class Values:
    """Writes values. `label` must be set before use: the text of an object with an identity."""

    def __init__(self, kinds: Kinds) -> None:
        self.kinds = kinds
        self.label: Callable[[Any, Any], str] = lambda value, kind: ""
        self.reprs: dict[int, Callable[[Any], str | None]] = {}
        self._shown = 0

    def text(self, value: Any, depth: int = 0) -> str:
        """Return the JSON text of `value`, which stands inside `depth` tuples or frozensets."""
        cls = type(value)
        exact = EXACT.get(id(cls))
        if exact is not None:
            return exact(value)
        kind = self.kinds.of(cls)
        # Most often asked for, so first: lists to objects, and bytearrays and arrays.
        if kind.kind > CLASS or METHOD < kind.kind < CLASS:
            return self.label(value, kind)
        if depth == 0:
            # The bound is on parts of one whole value, however deep they stand in it.
            self._shown = 0
        if kind.kind == TUPLE:
            return self._tuple(value, kind, depth)
        if kind.kind == FROZENSET:
            return self._frozenset(value, depth)
        if kind.kind == CLASS:
            if self.kinds.is_own(value):
                return self.label(value, kind)
            return f'{{"class":{json_text(classes.type_qualname(value))}}}'
        if kind.kind == METHOD:
            return self._method(value, cls, depth)
        return self._leaf(value, cls, kind)

    def several(self, values: Any, depth: int = 0) -> str:
        """Return the texts of some values, with commas."""
        one = self.text
        return ",".join([one(value, depth) for value in values])

    def exception_args(self, exception: BaseException) -> tuple[Any, ...]:
        """Return at most 32 of the arguments of an exception."""
        return _exception_args(exception)[:_MOST_ARGUMENTS]

    def _tuple(self, value: Any, kind: classes.Kind, depth: int) -> str:
        items = list(_tuple_items(value))
        name = f',"class":{kind.name}' if kind.name is not None else ""
        if depth >= _DEEPEST_TUPLE or self._shown >= _MOST_PARTS:
            return f"{{{_elided('tuple', items)}{name}}}"
        if len(items) <= _SHOWN.most:  # nearly all are: without the calls below
            self._shown += len(items)
            return f'{{"tuple":[{self.several(items, depth + 1)}]{name}}}'
        self._shown += len(_SHOWN.of(items))
        return f"{{{_SHOWN.fields('tuple', items, lambda shown: self.several(shown, depth + 1))}{name}}}"

    def _frozenset(self, value: Any, depth: int) -> str:
        items = list(_frozenset_items(value))
        if depth >= _DEEPEST_TUPLE or self._shown >= _MOST_PARTS:
            return f"{{{_elided('frozenset', items)}}}"
        self._shown += len(items)
        return f"{{{_SHOWN.fields('frozenset', sorted([self.text(item, depth + 1) for item in items]), ','.join)}}}"

    def _method(self, value: Any, cls: Any, depth: int) -> str:
        if cls is types.MethodType:
            function, owner = _method_function(value), _method_self(value)
            if type(function) is not types.FunctionType:
                return '{"opaque":"method"}'  # of a callable object, or of a partial
            name = classes.function_qualname(function)
        else:
            owner, name = _builtin_self(value), _builtin_name(value)
            # `len.__self__` is the module `builtins`, and `str.maketrans.__self__` None: no bound methods, though of
            # their type.
            if owner is None or type(owner) is types.ModuleType:
                return f'{{"builtin":{json_text(_builtin_qualname(value))}}}'
        if depth >= _DEEPEST_TUPLE or self._shown >= _MOST_PARTS:
            return '{"opaque":"method"}'
        self._shown += 1
        return f'{{"method":{json_text(name)},"of":{self.text(owner, depth + 1)}}}'

    def _leaf(self, value: Any, cls: Any, kind: classes.Kind) -> str:
        if kind.word == "enum":
            return _enum_member(value, cls, kind)
        write = self.reprs.get(id(cls))
        if write is not None:
            shown = write(value)
            # None of a time in a zone other than `timezone`, see `_take`.
            if type(shown) is str and len(shown) <= _LONG_TEXT:
                return f'{{"repr":{json_text(shown)},"type":{json_text(_full_name(cls))}}}'
        if kind.base is not cls:
            return EXACT[id(kind.base)](_PLAIN[id(kind.base)](value))
        named = _NAMED_BUILTINS.get(id(cls))
        if named is not None:
            return f'{{"builtin":{json_text(named(value))}}}'
        return f'{{"opaque":{json_text(classes.type_name(cls))}}}'


def inner_objects(value: Any, kind: classes.Kind, kinds: Kinds) -> list[Any]:
    """Return the objects that the text of a tuple, frozenset or bound method refers to, in order and not unique."""
    found: list[Any] = []
    _gather(value, kind, kinds, 0, found, [0])
    return found


def _gather(value: Any, kind: classes.Kind, kinds: Kinds, depth: int, found: list[Any], shown: list[int]) -> None:
    if depth >= _DEEPEST_TUPLE or shown[0] >= _MOST_PARTS:
        return
    # What `Values` would write, in its order and within its bounds: labels are given in the order in which parts are
    # come upon here, and a part that is not written gets none.
    items = _shown_in(value, kind)
    shown[0] += len(items)
    for item in items:
        cls = type(item)
        if id(cls) in EXACT:
            continue
        inner = kinds.of(cls)
        if inner.kind in (TUPLE, FROZENSET, METHOD):
            _gather(item, inner, kinds, depth + 1, found, shown)
        elif inner.kind != LEAF:
            found.append(item)


def _shown_in(value: Any, kind: classes.Kind) -> list[Any]:
    if kind.kind == METHOD:
        owner = _owner(value)
        return [] if owner is None else [owner]
    if kind.kind == FROZENSET:
        return list(_frozenset_items(value))
    return _SHOWN.of(list(_tuple_items(value)))


def _owner(method: Any) -> Any:
    """Return the object that a bound method is shown with, or None."""
    if type(method) is types.MethodType:
        return _method_self(method) if type(_method_function(method)) is types.FunctionType else None
    owner = _builtin_self(method)
    return None if type(owner) is types.ModuleType else owner


def integer(value: int) -> str:
    """Return the JSON text of an exact int."""
    if -_SAFE_INTEGER < value < _SAFE_INTEGER:
        return _int_text(value)
    bits = value.bit_length()
    if bits < _MANY_BITS or (bits == _MANY_BITS and -_MANY_DIGITS < value < _MANY_DIGITS):
        return f'{{"int":"{_int_text(value)}"}}'
    magnitude = abs(value).to_bytes((bits + 7) // 8, "big")
    sign = -1 if value < 0 else 1
    return f'{{"int":{{"bits":{bits},"sign":{sign},"sha256":"{_sha256(magnitude).hexdigest()}"}}}}'


def text(value: str) -> str:
    """Return the JSON text of an exact str."""
    if len(value) <= _LONG_TEXT:
        return json_text(value)
    # Half of a surrogate pair is a character of a str, and no UTF-8.
    digest = _sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
    head, tail = json_text(value[:_TEXT_HEAD]), json_text(value[-_TEXT_TAIL:])
    return f'{{"str":{{"len":{len(value)},"head":{head},"tail":{tail},"sha256":"{digest}"}}}}'


def real(value: float) -> str:
    """Return the JSON text of an exact float."""
    # JSON has no word for these three.
    if value != value:
        return '{"float":"nan"}'
    shown = _float_text(value)
    return f'{{"float":"{shown}"}}' if shown in ("inf", "-inf") else shown


def octets(value: bytes) -> str:
    """Return the JSON text of exact bytes."""
    if len(value) <= _LONG_BYTES:
        return f'{{"bytes":{{"len":{len(value)},"hex":"{value.hex()}"}}}}'
    shown, digest = value[:_LONG_BYTES].hex(), _sha256(value).hexdigest()
    return f'{{"bytes":{{"len":{len(value)},"hex":"{shown}","sha256":"{digest}"}}}}'


# By base type: an exact value of one of a subclass. Exact ones do not come here.
_PLAIN: dict[int, Callable[[Any], Any]] = {
    id(int): _plain_int,
    id(float): _plain_float,
    id(str): _plain_str,
    id(bytes): lambda value: bytes.__add__(value, b""),
    id(complex): complex.__pos__,
}


def _elided(word: str, items: list[Any]) -> str:
    return f'"{word}":[],"elided":{len(items)}' if items else f'"{word}":[]'


def _module(module: Any) -> str:
    name = module_dict(module).get("__name__")
    return f'{{"module":{json_text(name)}}}' if type(name) is str else '{"opaque":"module"}'


EXACT: dict[int, Callable[[Any], str]] = {
    id(int): integer,
    id(str): text,
    id(float): real,
    id(bool): lambda value: "true" if value else "false",
    id(type(None)): lambda value: "null",
    id(bytes): octets,
    id(complex): lambda value: f'{{"complex":[{real(value.real)},{real(value.imag)}]}}',
    id(range): lambda r: f'{{"range":[{integer(r.start)},{integer(r.stop)},{integer(r.step)}]}}',
    id(types.FunctionType): lambda f: f'{{"function":{json_text(classes.function_qualname(f))}}}',
    id(types.ModuleType): _module,
}
"""By `id` of a type: text of its exact values, which refer to nothing that is told."""


def _enum_member(value: Any, cls: Any, kind: classes.Kind) -> str:
    # `value.name` may be a property of the program.
    attributes = kind.dictionary.__get__(value) if kind.dictionary is not None else None
    name = attributes.get("_name_") if type(attributes) is dict else None
    if type(name) is not str:
        return f'{{"opaque":{json_text(classes.type_name(cls))}}}'
    shown = json_text(f"{classes.type_qualname(cls)}.{name}")
    return f'{{"repr":{shown},"type":{json_text(_full_name(cls))}}}'


def _full_name(cls: Any) -> str:
    module = classes.type_module(cls)
    name = classes.type_qualname(cls)
    return f"{module}.{name}" if type(module) is str else name


def thread_name() -> str:
    """Return the name of this thread, or `thread` where it cannot be had without running code of the program."""
    # `current_thread` would make an object for a thread that `_thread` has begun, and it would stay.
    thread = threading._active.get(_get_ident())  # type: ignore[attr-defined]
    name = getattr(thread, "_name", None) if type(thread) in (threading.Thread, threading.Timer) else None
    return name if type(name) is str else "thread"


_STANDARD = {
    "decimal": ("Decimal",),
    "fractions": ("Fraction",),
    "datetime": ("date", "time", "datetime", "timedelta", "timezone"),
    "uuid": ("UUID",),
    "pathlib": ("PurePosixPath", "PosixPath", "PureWindowsPath"),
    "re": ("Pattern",),
}
_ARRAYS = {"array": ("array",), "numpy": ("ndarray",)}
# A program that imports the former has values of the latter, and does not name them.
_LOADS = {"statistics": ("fractions", "decimal")}


def take_standard(values: Values, imports: frozenset[str]) -> None:
    """Take the standard immutable types and the array types from modules that are loaded or will be.

    Args:
        imports: First parts of the modules that the source imports; of these, the ones that matter are loaded now.
    """
    wanted = {*imports, *(name for loader in imports for name in _LOADS.get(loader, ()))}
    for name, members in (*_STANDARD.items(), *_ARRAYS.items()):
        module: Any = sys.modules.get(name)
        if module is None and name in wanted:
            with contextlib.suppress(ImportError):
                module = __import__(name)
        for member in members:
            cls = getattr(module, member, None)
            if not isinstance(cls, type):
                continue
            if name in _ARRAYS:
                values.kinds.arrays[id(cls)] = f"{name}.{member}"
            else:
                values.reprs[id(cls)] = _repr_of(member, cls, module)
            if name == "numpy":
                _take_scalars(values, module)


def _repr_of(name: str, cls: type, module: Any) -> Callable[[Any], str | None]:
    own_repr: Callable[[Any], str] = getattr(cls, "__repr__")  # noqa: B009
    if name not in ("time", "datetime"):
        return own_repr
    # The repr of a time has that of its zone in it, which may be of a class of the program.
    zones = (type(None), module.timezone)
    return lambda value: own_repr(value) if type(value.tzinfo) in zones else None


def _take_scalars(values: Values, numpy: Any) -> None:
    generic = numpy.generic
    for scalar in dict.fromkeys(numpy.sctypeDict.values()):
        if issubclass(scalar, generic) and scalar not in (numpy.object_, numpy.void):  # which hold objects
            values.reprs[id(scalar)] = scalar.__repr__
