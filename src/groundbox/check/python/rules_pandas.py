"""Rules on DataFrames that the program's text alone tells."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from groundbox.check.python.program import Finding, Program

CHAINED_HINT: Final = "Assign in one step: df.loc[rows, 'column'] = value."
_ON_A_COPY: Final = frozenset(
    ["fillna", "replace", "drop", "dropna", "sort_values", "clip", "interpolate", "ffill", "bfill", "mask", "where"]
)
_MOST_DEPTH: Final = 4


def chained_assignment(program: Program) -> Iterator[Finding]:
    """An assignment to a selection of a selection, or a method in place on one column: neither changes the frame."""
    for node in program.nodes:
        target = _chained_target(program, node)
        if target is not None:
            yield Finding(
                code="pandas.chained_assignment",
                line=target.lineno,
                message=f"line {target.lineno} changes a copy, and the DataFrame stays as it was: "
                f"{ast.unparse(target)[:80]}",
                hint=CHAINED_HINT,
            )


def _chained_target(program: Program, node: ast.AST) -> ast.expr | None:
    if isinstance(node, ast.Assign | ast.AugAssign):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Subscript) and _selects(program, target.value):
                return target
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
        call = node.value
        in_place = any(
            keyword.arg == "inplace" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True
            for keyword in call.keywords
        )
        method = node.value.func
        if in_place and method.attr in _ON_A_COPY and _selects(program, method.value):
            return call
    return None


def _selects(program: Program, node: ast.expr) -> bool:
    """Whether it is `frame[…]` or `frame.loc[…]`, which is a copy."""
    if not isinstance(node, ast.Subscript):
        return False
    owner = node.value
    if isinstance(owner, ast.Attribute) and owner.attr in ("loc", "iloc"):
        owner = owner.value
    return isinstance(owner, ast.Name) and is_frame(program, owner)


def is_frame(program: Program, node: ast.AST, depth: int = 0) -> bool:
    """Whether everything that is known of an expression says that it is a DataFrame."""
    if depth > _MOST_DEPTH:
        return False
    if isinstance(node, ast.Call):
        origin = program.flow.origin(node.func)
        if origin == "pandas.DataFrame" or origin.startswith("pandas.read_") or origin in ("pandas.merge",):
            return True
        keeps = ("copy", "merge", "reset_index", "sort_values", "dropna", "drop", "rename", "assign", "query", "head")
        return (
            isinstance(node.func, ast.Attribute)
            and node.func.attr in keeps
            and is_frame(program, node.func.value, depth + 1)
        )
    if isinstance(node, ast.Subscript):
        mask = isinstance(node.slice, ast.Compare | ast.BinOp | ast.List)
        return mask and is_frame(program, node.value, depth + 1)
    if isinstance(node, ast.Name):
        values = [value for value in program.flow.assigned(node.id) if not _changes_only(value)]
        return bool(values) and any(is_frame(program, value, depth + 1) for value in values)
    return False


def _changes_only(value: ast.AST) -> bool:
    return isinstance(value, ast.Constant)
