"""What stands on the failing line: its names and subscripts, with their live values.

Values are found without running the program's code: names by lookup, attributes in
instance dictionaries only, items only of plain dicts, lists and tuples.
"""

from __future__ import annotations

import ast
import builtins
import linecache
import textwrap
import types
from collections.abc import Iterator
from typing import Any, Final

from .frames import Step, position_of

_NO_VALUE: Final = object()
_LINES: Final = 12


class FailingLine:
    """The statement lines that a step was evaluating, parsed as far as they can be.

    Attributes:
        text: The source, without indentation.
    """

    def __init__(self, step: Step) -> None:
        self._frame = step.frame
        first, last, *_ = position_of(step)
        start = step.lineno or first or 0
        lines = linecache.getlines(step.frame.f_code.co_filename, step.frame.f_globals)
        self.text, self._tree = _parsed(lines, min(start, first or start), last or start)

    def names(self) -> list[str]:
        """Names that stand on the line, in order, each once."""
        if self._tree is None:
            return []
        found = [node for node in ast.walk(self._tree) if isinstance(node, ast.Name)]
        found.sort(key=lambda node: (node.lineno, node.col_offset))
        return list(dict.fromkeys(node.id for node in found))

    def values(self) -> Iterator[tuple[str, Any]]:
        """Names on the line that have a value in the program, except builtins and modules' names."""
        for name in self.names():
            value = self._variable(name)
            if value is not _NO_VALUE and not isinstance(value, types.ModuleType):
                yield name, value

    def containers(self) -> Iterator[tuple[str, Any]]:
        """What the line takes items of, as text and value; then the other values on it."""
        seen: set[int] = set()
        for node in self._nodes(ast.Subscript):
            value = self.resolve(node.value)
            if value is not _NO_VALUE and id(value) not in seen:
                seen.add(id(value))
                yield ast.unparse(node.value), value
        for name, value in self.values():
            if id(value) not in seen:
                seen.add(id(value))
                yield name, value

    def calls(self) -> Iterator[tuple[ast.Call, Any]]:
        """Calls on the line whose function can be found without running anything."""
        for node in self._nodes(ast.Call):
            function = self.resolve(node.func)
            if function is not _NO_VALUE:
                yield node, function

    def resolve(self, node: ast.AST) -> Any:
        """The value of an expression of names, attributes and constant subscripts."""
        if isinstance(node, ast.Name):
            value = self._variable(node.id)
            return getattr(builtins, node.id, _NO_VALUE) if value is _NO_VALUE else value
        if isinstance(node, ast.Attribute):
            return _attribute(self.resolve(node.value), node.attr)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            return _item(self.resolve(node.value), node.slice.value)
        return _NO_VALUE

    def _variable(self, name: str) -> Any:
        frame = self._frame
        value = frame.f_locals.get(name, _NO_VALUE)
        return frame.f_globals.get(name, _NO_VALUE) if value is _NO_VALUE else value

    def _nodes(self, kind: type[Any]) -> list[Any]:
        if self._tree is None:
            return []
        return [node for node in ast.walk(self._tree) if isinstance(node, kind)]


def is_value(value: Any) -> bool:
    """Whether `resolve` found something."""
    return value is not _NO_VALUE


def _parsed(lines: list[str], first: int, last: int) -> tuple[str, ast.AST | None]:
    """The smallest piece around the lines `first` to `last` that parses.

    A header such as `for x in y:` parses with a body put in; the inner line of a
    long call parses with what follows it.
    """
    last = min(max(last, first), first + _LINES)
    text = textwrap.dedent("".join(lines[max(0, first - 1) : last])).strip()
    for candidate in _completions(text):
        try:
            return text, ast.parse(candidate)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return text, None


def _completions(text: str) -> Iterator[str]:
    yield text
    yield f"{text}\n pass"
    yield f"if 1:\n pass\n{text}\n pass"
    yield f"try:\n pass\n{text}\n pass"
    yield text.strip(" ,:()[]{}")


def _attribute(owner: Any, name: str) -> Any:
    if owner is _NO_VALUE:
        return _NO_VALUE
    if isinstance(owner, types.ModuleType):
        return owner.__dict__.get(name, _NO_VALUE)
    if isinstance(owner, type):
        return _class_attribute(owner, name)
    try:
        own = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        own = {}
    if type(own) is dict and name in own:
        return own[name]
    found = _class_attribute(type(owner), name)
    return found if isinstance(found, types.FunctionType) else _NO_VALUE


def _class_attribute(kind: type, name: str) -> Any:
    for base in type.__dict__["__mro__"].__get__(kind):
        if name in base.__dict__:
            found = base.__dict__[name]
            return found.__func__ if isinstance(found, (staticmethod, classmethod)) else found
    return _NO_VALUE


def _item(owner: Any, key: Any) -> Any:
    if type(owner) not in (dict, list, tuple):
        return _NO_VALUE
    try:
        return owner[key]
    except (LookupError, TypeError):
        return _NO_VALUE
