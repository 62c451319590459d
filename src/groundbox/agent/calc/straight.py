"""Which programs of Python go straight down and do arithmetic only: every node of them is in one short list."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping
from typing import Any, Final

from groundbox.values.parsing import module_of

MOST_CHARS: Final = 20_000
MOST_NODES: Final = 4_000
MOST_DEPTH: Final = 60
_ESCAPE: Final = re.compile(r"\\[^nt\\'\"]")
OPERATORS: Final = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
COMPARISONS: Final = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
MATH: Final[Mapping[str, Any]] = {
    name: getattr(math, name) for name in ("sqrt", "floor", "ceil", "trunc", "gcd", "fabs", "pi", "e")
}
_KNOWN: Final = (
    ast.Module, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Name, ast.Load, ast.Store, ast.Constant,
    ast.BinOp, ast.UnaryOp, ast.UAdd, ast.USub, ast.Not, ast.Compare, ast.BoolOp, ast.And, ast.Or, ast.IfExp, ast.Call,
    ast.keyword,
    ast.JoinedStr, ast.FormattedValue, ast.Tuple, ast.List, ast.FunctionDef, ast.arguments, ast.Return, ast.Import,
    ast.ImportFrom, ast.alias, ast.Attribute, ast.Pass, *OPERATORS, *COMPARISONS,
)  # fmt: skip


class NotArithmetic(Exception):
    """The program is for the sandbox. The text says why."""


def parsed(source: str) -> ast.Module:
    """The program, if it is one of those that are walked here.

    Raises:
        NotArithmetic: It is not.
    """
    if len(source) > MOST_CHARS:
        raise NotArithmetic(f"more than {MOST_CHARS} characters")
    if _ESCAPE.search(source) or ";" in source:
        raise NotArithmetic("it has an escape or a semicolon that cells and versions treat differently")
    try:
        tree = module_of(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise NotArithmetic("it does not parse") from None
    nodes: list[tuple[ast.AST, int]] = [(tree, 0)]
    for count, (node, depth) in enumerate(nodes):
        if count > MOST_NODES or depth > MOST_DEPTH:
            raise NotArithmetic("it is long or deep")
        _check(node, depth)
        nodes.extend((child, depth + 1) for child in ast.iter_child_nodes(node))
    return tree


def _check(node: ast.AST, depth: int) -> None:
    if not isinstance(node, _KNOWN):
        raise NotArithmetic(f"it uses {type(node).__name__}")
    if isinstance(node, ast.Constant) and not isinstance(node.value, (int, float, str, type(None))):
        raise NotArithmetic(f"it uses a {type(node.value).__name__}")
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        _check_import(node, depth)
    if isinstance(node, ast.Attribute) and not (isinstance(node.value, ast.Name) and node.attr in MATH):
        raise NotArithmetic(f"it uses .{node.attr}")
    if isinstance(node, ast.FunctionDef):
        _check_function(node, depth)
    if isinstance(node, ast.Return) and depth != 2:
        raise NotArithmetic("it returns from elsewhere than the end of a function")


def _check_import(node: ast.Import | ast.ImportFrom, depth: int) -> None:
    if isinstance(node, ast.Import):
        known = all(alias.name == "math" and alias.asname is None for alias in node.names)
    else:
        known = (
            node.module == "math"
            and not node.level
            and all(alias.name in MATH and alias.asname is None for alias in node.names)
        )
    if not known or depth != 1:
        raise NotArithmetic("it imports more than math")


def _check_function(node: ast.FunctionDef, depth: int) -> None:
    given = node.args
    if given.args or given.posonlyargs or given.kwonlyargs or given.vararg or given.kwarg or node.decorator_list:
        raise NotArithmetic("it has a function with parameters")
    if depth != 1 or node.returns is not None or getattr(node, "type_params", None):
        raise NotArithmetic("it has a function that is more than arithmetic")
    *body, last = node.body
    if not isinstance(last, ast.Return) or any(isinstance(one, ast.Return) for one in body):
        raise NotArithmetic("it has a function that does not return at its end")
