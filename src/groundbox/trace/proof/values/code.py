"""Code as code: a text read as an expression, two expressions compared, the names in one.

What an expression is worth is the matter of `evaluation`.
"""

from __future__ import annotations

import ast
import functools
import re
import warnings
from typing import Final

_LONGEST_SPAN: Final = 400
_ASSIGNS: Final = re.compile(r"\s*\w+\s*:=")


@functools.lru_cache(maxsize=4096)
def parse_source(text: str, *, most: int = _LONGEST_SPAN) -> ast.expr | None:
    """A whole piece of code, of so many characters at most, as an expression, or None if it is none."""
    if not text.strip() or len(text) > most:
        return None
    # `if found := look(x)` has no brackets around what the grammar reads as an expression in brackets only
    code = f"({text.strip()})" if _ASSIGNS.match(text) else text.strip()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(code, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def shape(node: ast.AST) -> str:
    """A text that is equal for equal expressions, whether they are read or assigned."""
    if type(node) is ast.Name:
        return f"Name(id={node.id!r})"
    text = ast.dump(node)
    return _CONTEXT.sub("", text) if "ctx=" in text else text


_CONTEXT: Final = re.compile(r",? ?ctx=(?:Load|Store|Del)\(\)")


def is_operation(node: ast.AST) -> bool:
    """Whether an expression works something out: `a + b`, but not `1 + 2j`, which is how a number is written."""
    if not isinstance(node, ast.BinOp):
        return False
    real, imaginary = node.left, node.right
    is_number = isinstance(imaginary, ast.Constant) and type(imaginary.value) is complex
    if isinstance(real, ast.UnaryOp):
        real = real.operand
    return not (is_number and isinstance(real, ast.Constant) and isinstance(node.op, ast.Add | ast.Sub))


def names_in(node: ast.AST) -> frozenset[str]:
    """The names that an expression reads."""
    if type(node) is ast.Constant:
        return _NO_NAMES
    if type(node) is ast.Name:
        return frozenset((node.id,))
    return frozenset(part.id for part in ast.walk(node) if isinstance(part, ast.Name))


_NO_NAMES: Final[frozenset[str]] = frozenset()


def loaded(target: ast.expr) -> ast.expr:
    """A place that is assigned, as an expression that reads it."""
    return ast.parse(ast.unparse(target), mode="eval").body
