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
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

_CALLS: Final = frozenset(["eval", "exec", "compile", "__import__", "execfile", "system", "popen", "sympify"])
_CALLS_OF_MODULES: Final = frozenset(["eval", "exec", "system", "popen", "sympify", "parse_expr", "parse_latex"])
"""Called as an attribute; `re.compile` and `model.eval()` without arguments are nothing of the kind."""
_MODULES: Final = frozenset(
    ["sympy", "math_verify", "latex2sympy2", "latex2sympy2_extended", "subprocess", "runpy", "pickle", "cloudpickle",
     "dill", "marshal", "code", "numexpr", "pty"]
)  # fmt: skip


def executing(functions: Iterable[Any], roots: Iterable[Path]) -> str:
    """Find the first place that may execute a text, as `FILE:LINE name`; "" for none.

    Args:
        functions: Functions, methods, classes or partial ones, whose modules are read.
        roots: Folders of tasks: what these modules import from there is read, too.
    """
    folders = [root.resolve() for root in roots]
    left: list[ModuleType] = []
    for each in functions:
        module = _module_of(each)
        if module is None:
            return f"{each!r:.200} is of no module that can be read"
        left.append(module)
    seen: set[str] = set()
    while left:
        module = left.pop()
        if module.__name__ in seen:
            continue
        seen.add(module.__name__)
        path = Path(getattr(module, "__file__", None) or "")
        if path.suffix != ".py":
            continue
        tree = ast.parse(path.read_bytes())
        for node in ast.walk(tree):
            if name := _executes(node):
                return f"{path}:{getattr(node, 'lineno', 0)} {name}"
        left += [each for each in _imported(module) if _is_below(each, folders)]
    return ""


def _module_of(function: Any) -> ModuleType | None:
    while isinstance(function, functools.partial):
        function = function.func
    owner = getattr(function, "__self__", None)
    if owner is not None and not isinstance(owner, ModuleType):  # of a bound method
        function = owner if isinstance(owner, type) else type(owner)
    name = getattr(inspect.unwrap(function) if callable(function) else type(function), "__module__", None)
    return sys.modules.get(name or "")


def _executes(node: ast.AST) -> str:
    match node:
        case ast.Call(func=ast.Name(id=name)) if name in _CALLS:
            return name
        case ast.Call(func=ast.Attribute(attr=name), args=[_, *_]) if name in _CALLS_OF_MODULES:
            return name
        case ast.Import(names=names):
            return next((each.name for each in names if each.name.partition(".")[0] in _MODULES), "")
        case ast.ImportFrom(module=str(name), level=0) if name.partition(".")[0] in _MODULES:
            return name
    return ""


def _imported(module: ModuleType) -> Iterator[ModuleType]:
    """Modules of which this one has something, as far as it has been run."""
    for value in list(vars(module).values()):
        found = value if isinstance(value, ModuleType) else sys.modules.get(getattr(value, "__module__", None) or "")
        if isinstance(found, ModuleType):
            yield found


def _is_below(module: ModuleType, folders: Iterable[Path]) -> bool:
    path = getattr(module, "__file__", None)
    return path is not None and any(Path(path).resolve().is_relative_to(folder) for folder in folders)
