"""Rules on what has no effect or another one than it seems: results thrown away, comparisons with NaN, copies of rows,
and arithmetic of small types."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Final

from groundbox.check.python.flow import keyword_of
from groundbox.check.python.program import Program
from groundbox.check.python.rules_libraries import frame_names
from groundbox.check.tiers import Finding

_GIVES_NEW_NAMES: Final = """
    assign astype bfill clip drop drop_duplicates dropna explode ffill fillna interpolate join map mask merge pivot
    reindex rename replace reset_index round set_index sort_index sort_values strip lower upper title tz_localize
    tz_convert where convert_dtypes
"""
_GIVES_NEW: Final = frozenset(_GIVES_NEW_NAMES.split())
_NANS: Final = frozenset(["numpy.nan", "numpy.NaN", "numpy.NAN", "math.nan", "pandas.NA", "pandas.NaT"])
_BITS: Final = {f"{sign}int{bits}": bits for sign in ("", "u") for bits in (8, 16, 32, 64)}
_WORK: Final[dict[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: lambda one, other: one + other,
    ast.Sub: lambda one, other: one - other,
    ast.Mult: lambda one, other: one * other,
    ast.Pow: lambda one, other: one**other if 0 <= other <= 64 else 0,
}
_MOST_ITEMS: Final = 1000


def results_thrown_away(program: Program) -> Iterator[Finding]:
    """A method that gives a new table, and nobody takes it; or one in place, whose None is taken for the table."""
    frames = frame_names(program)
    shown = program.tree.body[-1] if program.tree.body and program.execution.value is not None else None
    for node in program.nodes:
        if not isinstance(node, ast.Expr | ast.Assign) or not isinstance(node.value, ast.Call) or node is shown:
            continue
        call = node.value
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in _GIVES_NEW:
            continue
        in_place = keyword_of(call, "inplace")
        if isinstance(node, ast.Assign):
            if isinstance(in_place, ast.Constant) and in_place.value is True:
                yield Finding(
                    code="pandas.inplace_result",
                    evidence={"line": node.lineno},
                    message=f"line {node.lineno} takes the result of {call.func.attr}(inplace=True), which is None",
                    hint="Leave inplace=True out, or call it without taking the result.",
                )
        elif in_place is None and _owner(call.func.value) in frames:
            yield Finding(
                code="pandas.result_unused",
                evidence={"line": node.lineno},
                message=f"line {node.lineno} throws away the result of {call.func.attr}(); the table stays as it was",
                hint="Take the result: df = df.…(…).",
            )


def comparisons_with_nan(program: Program) -> Iterator[Finding]:
    """`==` and `!=` with NaN, which nothing equals."""
    for node in program.nodes:
        if not isinstance(node, ast.Compare):
            continue
        operands = [node.left, *node.comparators]
        for operator, *pair in zip(node.ops, operands, operands[1:], strict=False):
            if isinstance(operator, ast.Eq | ast.NotEq) and any(_is_nan(program, each) for each in pair):
                yield Finding(
                    code="python.nan_equality",
                    evidence={"line": node.lineno},
                    message=f"line {node.lineno} compares with NaN, which is equal to nothing, not even to itself",
                    hint="Use isna(), math.isnan() or numpy.isnan().",
                )


def rows_that_are_copies(program: Program) -> Iterator[Finding]:
    """A row of `iterrows` is changed, and used for nothing else: it is a copy."""
    for node in program.nodes:
        match node:
            case ast.For(
                target=ast.Tuple(elts=[_, ast.Name(id=row)]), iter=ast.Call(func=ast.Attribute(attr="iterrows"))
            ):
                line = _changed_in_vain(program, node, row)
                if line is not None:
                    yield Finding(
                        code="pandas.row_copy",
                        evidence={"line": line, "names": [row[:80]]},
                        message=f"line {line} changes {row[:80]}, a copy of a row, and the table stays as it was",
                        hint="Assign a column at once, or df.loc[index, 'column'] = value.",
                    )


def small_types(program: Program) -> Iterator[Finding]:
    """Arithmetic of an array that is written out, with results beyond its type."""
    for node in program.nodes:
        if not isinstance(node, ast.BinOp) or type(node.op) not in _WORK:
            continue
        one, other = _array(program, node.left), _array(program, node.right)
        array = one or other
        if array is None:
            continue
        kind, items = array
        work = _WORK[type(node.op)]
        if one and other:
            if one[0] != other[0] or len(one[1]) != len(other[1]):
                continue
            values = [work(a, b) for a, b in zip(one[1], other[1], strict=True)]
        else:
            number = _whole(node.right if one else node.left)
            if number is None:
                continue
            values = [work(item, number) if one else work(number, item) for item in items]
        bits = _BITS[kind]
        low, high = (0, 2**bits) if kind[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1))
        if any(not low <= value < high for value in values):
            yield Finding(
                code="python.overflow",
                evidence={"line": node.lineno},
                message=f"line {node.lineno} computes with {kind}, and some results are beyond it",
                hint="Convert first: .astype('int64').",
            )


def _owner(node: ast.expr) -> str:
    """The name at the beginning of `df["a"].str`."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_nan(program: Program, node: ast.expr) -> bool:
    if isinstance(node, ast.Attribute | ast.Name):
        return program.flow.origin(node) in _NANS
    match node:
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str(text))]):
            return text.strip().lower() == "nan"
    return False


def _changed_in_vain(program: Program, loop: ast.For, row: str) -> int | None:
    changed: dict[str, int] = {}
    for node in (each for statement in loop.body for each in program.steps.walk(statement)):
        match node:
            case (
                ast.Subscript(value=ast.Name(id=name), slice=key, ctx=ast.Store())
                | ast.Attribute(value=ast.Name(id=name), attr=key, ctx=ast.Store())
            ) if name == row:
                changed.setdefault(key if isinstance(key, str) else ast.unparse(key), node.lineno)
    if not changed:
        return None
    used = 0
    for node in (each for statement in loop.body for each in program.steps.walk(statement)):
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=key, ctx=ast.Load()) if name == row:
                if ast.unparse(key) in changed:
                    return None  # a value that is needed further on only
                used += 1
            case ast.Attribute(value=ast.Name(id=name), attr=attr, ctx=ast.Load()) if name == row:
                if repr(attr) in changed or attr in changed:
                    return None
                used += 1
            case ast.Subscript(value=ast.Name(id=name)) | ast.Attribute(value=ast.Name(id=name)) if name == row:
                used += 1
            case ast.Name(id=name) if name == row:
                used -= 1
    return min(changed.values()) if used == 0 else None


def _array(program: Program, node: ast.expr) -> tuple[str, list[int]] | None:
    """The type and the items of an array that is written out, by itself or under a name that is given once."""
    if isinstance(node, ast.Name):
        assigned = program.flow.assigned(node.id)
        if len(assigned) != 1:
            return None
        node = assigned[0]
    if not isinstance(node, ast.Call) or program.flow.origin(node.func) not in ("numpy.array", "numpy.asarray"):
        return None
    kind = _kind(program, keyword_of(node, "dtype"))
    items = _items(node.args[0]) if node.args else None
    return None if kind not in _BITS or not items else (kind, items)


def _kind(program: Program, node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return program.flow.origin(node).rpartition(".")[2] if node is not None else "int64"


def _items(node: ast.expr) -> list[int] | None:
    if not isinstance(node, ast.List | ast.Tuple):
        number = _whole(node)
        return None if number is None else [number]
    found: list[int] = []
    for item in node.elts[:_MOST_ITEMS]:
        below = _items(item)
        if below is None:
            return None
        found += below
    return found


def _whole(node: ast.expr) -> int | None:
    match node:
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            positive = _whole(operand)
            return None if positive is None else -positive
        case ast.BinOp(op=ast.Pow(), left=left, right=right):
            one, other = _whole(left), _whole(right)
            return one**other if one is not None and other is not None and abs(one) < 100 and 0 <= other < 100 else None
    return None


RULES: Final = (results_thrown_away, comparisons_with_nan, rows_that_are_copies, small_types)
