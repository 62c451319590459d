"""Rules on DataFrames that the program's text alone tells."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from groundbox.check.python.program import Finding, Program

CHAINED_HINT: Final = "Assign in one step: df.loc[rows, 'column'] = value."
_ON_A_COPY: Final = frozenset(
    ["fillna", "replace", "drop", "dropna", "sort_values", "clip", "interpolate", "ffill", "bfill", "mask", "where"]
)
_KEEPS: Final = frozenset(
    ["copy", "merge", "reset_index", "sort_values", "dropna", "drop", "rename", "assign", "query", "head"]
)


def chained_assignment(program: Program) -> Iterator[Finding]:
    """An assignment to a selection of a selection, or a method in place on one column: neither changes the frame."""
    frames = _frame_names(program)
    for node in program.nodes:
        target = _chained_target(frames, node)
        if target is not None:
            yield Finding(
                code="pandas.chained_assignment",
                line=target.lineno,
                message=f"line {target.lineno} changes a copy, and the DataFrame stays as it was: "
                f"{ast.unparse(target)[:80]}",
                hint=CHAINED_HINT,
            )


def _chained_target(frames: frozenset[str], node: ast.AST) -> ast.expr | None:
    if isinstance(node, ast.Assign | ast.AugAssign):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Subscript) and _selects(frames, target.value):
                return target
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
        call = node.value
        in_place = any(
            keyword.arg == "inplace" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True
            for keyword in call.keywords
        )
        method = node.value.func
        if in_place and method.attr in _ON_A_COPY and _selects(frames, method.value):
            return call
    return None


def _selects(frames: frozenset[str], node: ast.expr) -> bool:
    """Whether it is `frame[…]` or `frame.loc[…]`, which is a copy."""
    if not isinstance(node, ast.Subscript):
        return False
    owner = node.value
    if isinstance(owner, ast.Attribute) and owner.attr in ("loc", "iloc"):
        owner = owner.value
    return isinstance(owner, ast.Name) and owner.id in frames


def _frame_names(program: Program) -> frozenset[str]:
    """Names of which something says that they are DataFrames, found by going once from those that are read or made."""
    named: dict[str, list[str]] = defaultdict(list)
    found: set[str] = set()
    for name in program.flow.names():
        for value in program.flow.assigned(name):
            root = _root(program, value)
            if root is None:
                found.add(name)
            elif root:
                named[root].append(name)
    todo = list(found)
    while todo:
        new = [name for name in named.pop(todo.pop(), ()) if name not in found]
        found.update(new)
        todo += new
    return frozenset(found)


def _root(program: Program, node: ast.AST) -> str | None:
    """The name that an expression takes rows of; None if it is a new DataFrame, an empty text if it is neither."""
    while True:
        if isinstance(node, ast.Call):
            origin = program.flow.origin(node.func)
            if origin in ("pandas.DataFrame", "pandas.merge") or origin.startswith("pandas.read_"):
                return None
            if not isinstance(node.func, ast.Attribute) or node.func.attr not in _KEEPS:
                return ""
            node = node.func.value
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Compare | ast.BinOp | ast.List):
            node = node.value
        else:
            return node.id if isinstance(node, ast.Name) else ""
