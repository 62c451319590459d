"""Scorers of other packages that may execute a text, found by name in their source before they are given a reply.

A scorer gets what a model wrote, on the host. What its source calls `eval`, `exec` and the like with is not followed:
a module that has such a call, or imports a library which evaluates texts (sympy does, for whatever it parses), is
refused as a whole. What is hidden from a reader of names is not found.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

_CALLS: Final = frozenset(
    ["eval", "exec", "compile", "__import__", "execfile", "system", "popen", "sympify",
     "subprocess"]
)  # fmt: skip
_CALLS_OF_MODULES: Final = frozenset(["eval", "system", "popen", "sympify", "parse_expr", "parse_latex"])
"""Called as an attribute; `re.compile`, `model.eval()` and `sandbox().exec([…])` are nothing of the kind."""
_BUILTINS: Final = frozenset(["builtins", "__builtins__"])
_MODULES: Final = frozenset(
    ["sympy", "math_verify", "latex2sympy2", "latex2sympy2_extended", "subprocess", "runpy", "pickle", "cloudpickle",
     "dill", "marshal", "code", "numexpr", "pty"]
)  # fmt: skip


class _Unit(NamedTuple):
    """A file of source with the names that its code has."""

    path: Path
    names: Mapping[str, Any]


def executing(functions: Iterable[Any], roots: Iterable[Path]) -> str:
    """Find the first place that may execute a text, as `FILE:LINE name`; "" for none.

    Args:
        functions: Functions, methods, classes or partial ones, whose files are read.
        roots: Folders of tasks: what these files import from there is read, too.
    """
    folders = [root.resolve() for root in roots]
    left: list[_Unit] = []
    for each in functions:
        unit = _unit_of(each)
        if unit is None:
            return f"{each!r:.200} is of no file that can be read"
        left.append(unit)
    seen: set[Path] = set()
    while left:
        unit = left.pop()
        if unit.path in seen or unit.path.suffix != ".py":
            continue
        seen.add(unit.path)
        if place := in_source(unit.path):
            return place
        left += [each for each in _imported(unit.names) if any(map(each.path.resolve().is_relative_to, folders))]
    return ""


def in_source(path: Path) -> str:
    """Find the first place in a file of Python that may execute a text; "" for none."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if name := _executes(node):
            return f"{path}:{getattr(node, 'lineno', 0)} {name}"
    return ""


def _unit_of(function: Any) -> _Unit | None:
    while isinstance(function, functools.partial):
        function = function.func
    owner = getattr(function, "__self__", None)
    if owner is not None and not isinstance(owner, ModuleType):  # of a bound method
        function = owner if isinstance(owner, type) else type(owner)
    function = inspect.unwrap(function) if callable(function) else type(function)
    code = getattr(function, "__code__", None)
    if code is not None:  # its module may have been forgotten
        path = Path(code.co_filename)
        return _Unit(path, function.__globals__) if path.is_file() else None
    if not isinstance(function, type) and not hasattr(function, "__module__"):
        function = type(function)
    return _unit(sys.modules.get(function.__module__ or ""))


def _unit(module: ModuleType | None) -> _Unit | None:
    return None if module is None else _Unit(Path(getattr(module, "__file__", None) or ""), vars(module))


def _executes(node: ast.AST) -> str:
    match node:
        case ast.Call(func=ast.Name(id=name)) if name in _CALLS:
            return name
        case ast.Call(func=ast.Attribute(attr=name), args=[_, *_]) if name in _CALLS_OF_MODULES:
            return name
        case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner in _BUILTINS and name in _CALLS:
            return name
        case ast.Import(names=names):
            return next((each.name for each in names if each.name.partition(".")[0] in _MODULES), "")
        case ast.ImportFrom(module=str(name), level=0) if name.partition(".")[0] in _MODULES:
            return name
    return ""


def _imported(names: Mapping[str, Any]) -> Iterator[_Unit]:
    """Modules of which something is among these names."""
    for value in list(names.values()):
        found = value if isinstance(value, ModuleType) else sys.modules.get(getattr(value, "__module__", None) or "")
        unit = _unit(found) if isinstance(found, ModuleType) else None
        if unit is not None:
            yield unit
