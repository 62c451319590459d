"""Ways through a syntax tree that leave out what has nothing below: operators, contexts, names and constants."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from .own import protect

protect(globals())

_EMPTY = ("ctx", "op", "ops", "type_comment", "kind", "type_ignores", "conversion", "level", "simple", "is_async")
_PARTS: dict[type, tuple[str, ...]] = {
    kind: tuple(field for field in kind._fields if field not in _EMPTY)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}
_PARTS[ast.Name] = _PARTS[ast.Constant] = ()


def children(node: ast.AST) -> list[ast.AST]:
    """Return the nodes right below one, in the order of its fields."""
    found: list[ast.AST] = []
    for name in _PARTS[type(node)]:
        value: Any = getattr(node, name, None)
        if type(value) is list:
            found += [part for part in value if isinstance(part, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


def first_line(node: ast.stmt) -> int:
    """Return the line on which a statement begins, as its code object has it: that of its first decorator."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all below it, outer ones first."""
    # The list grows while it is gone through: breadth first, and without recursion, which a source that is nested
    # deeply would exhaust.
    found = [node]
    for part in found:
        found += children(part)
    return iter(found)
