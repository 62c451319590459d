"""Programs as tokens without the names that their authors chose, for comparing programs with one another."""

from __future__ import annotations

import ast
import builtins
import hashlib
import io
import keyword
import re
import tokenize
from typing import Final

from groundbox.dataset.signature import tree_of
from groundbox.trace.record.syntax import lines_of

SHINGLE: Final = 8
"""Tokens in one shingle."""
_LAYOUT: Final = frozenset({tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT})
_SOFT: Final = frozenset(keyword.kwlist) | frozenset(dir(builtins))
_WORD: Final = re.compile(r"[a-z0-9]+")
_FALLBACK: Final = re.compile(r"\w+|[^\w\s]")


def normalised(source: str) -> tuple[str, ...]:
    """Tokens without comments, docstrings and layout; identifiers are numbered by first use, texts and numbers kept."""
    try:
        found = [
            (each.type, each.string)
            for each in tokenize.generate_tokens(io.StringIO(_without_docstrings(source)).readline)
            if each.type not in _LAYOUT and each.string
        ]
    except (tokenize.TokenError, SyntaxError, ValueError):
        found = [(tokenize.NAME if word.isidentifier() else tokenize.OP, word) for word in _FALLBACK.findall(source)]
    names: dict[str, str] = {}
    return tuple(
        names.setdefault(text, f"name{len(names)}") if kind == tokenize.NAME and text not in _SOFT else text
        for kind, text in found
    )


def shingles(tokens: tuple[str, ...], size: int = SHINGLE) -> frozenset[str]:
    """Every run of `size` tokens, with the names in it numbered from its own beginning.

    Without that, one name more at the top of a program would change every shingle after it.
    """
    last = max(1, len(tokens) - size + 1)
    return frozenset(" ".join(_renumbered(tokens[start : start + size])) for start in range(last))


def words(text: str) -> tuple[str, ...]:
    """The words of a text, in small letters."""
    return tuple(_WORD.findall(text.lower()))


def digest(tokens: tuple[str, ...]) -> str:
    """Names a normalised program."""
    return hashlib.sha256("\x00".join(tokens).encode("utf-8", "surrogatepass")).hexdigest()


def _renumbered(tokens: tuple[str, ...]) -> list[str]:
    names: dict[str, str] = {}
    return [
        names.setdefault(each, f"name{len(names)}") if each.startswith("name") and each[4:].isdigit() else each
        for each in tokens
    ]


def _without_docstrings(source: str) -> str:
    tree = tree_of(source)
    if tree is None:
        return source
    lines = [f"{line}\n" for line in lines_of(source)]
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        first = node.body[0] if node.body else None
        alone = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        if first is not None and alone and isinstance(first.value.value, str):  # type: ignore[attr-defined]
            _blank(lines, first)
    return "".join(lines)


def _blank(lines: list[str], node: ast.stmt) -> None:
    """Take the lines of a statement away. What is left has to be cut into tokens, not to be run."""
    for number in range(node.lineno - 1, node.end_lineno or node.lineno):
        lines[number] = "\n"
