"""Statements of a source, and what came of one."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from .result import Result

_TOKEN: Final = re.compile(
    r"""\s++|--[^\n]*+|/\*.*?(?:\*/|\Z)|'(?:[^']|'')*+'?|"(?:[^"]|"")*+"?|`(?:[^`]|``)*+`?|\[[^\]]*+\]?"""
    r"""|[\w$]++|.""",
    re.DOTALL,
)
_QUOTES: Final = {"'": "'", '"': '"', "`": "`", "[": "]"}


class Statement(NamedTuple):
    """One statement of a source.

    Attributes:
        lines_before: How many lines of the source lie before the text begins.
        parsed: The engine's own form of it, or None.
    """

    text: str
    lines_before: int
    parsed: Any = None


Outcome = Result | str
"""Rows, or in words what was done."""


def split(source: str) -> list[Statement]:
    """The statements of SQLite; a trigger's body holds semicolons that end none."""
    found, start, position = [], 0, 0
    for match in _TOKEN.finditer(source):
        position = match.end()
        if match[0] == ";" and sqlite3.complete_statement(source[start:position]):
            found.append(_statement(source, start, position))
            start = position
    found.append(_statement(source, start, position))
    return [statement for statement in found if next(words_of(statement.text), ";") != ";"]


def _statement(source: str, start: int, end: int) -> Statement:
    return Statement(source[start:end], source.count("\n", 0, start))


def words_of(text: str) -> Iterator[str]:
    """The tokens as they are written, without comments and blanks."""
    for match in _TOKEN.finditer(text):
        word = match[0]
        if not word[0].isspace() and word[:2] not in ("--", "/*"):
            yield word


def ends_transaction(words: Sequence[str]) -> bool:
    """Whether a statement of these tokens ends a transaction, and so names nothing."""
    return words[:1] != [] and words[0].casefold() in ("commit", "end", "rollback", "abort")


def unquoted(word: str) -> str:
    """A name or text without its quotes."""
    closing = _QUOTES.get(word[:1])
    if closing is None or len(word) < 2 or word[-1] != closing:
        return word
    return word[1:-1].replace(closing * 2, closing)


def quoted(name: str) -> str:
    """A name as an identifier."""
    return '"' + name.replace('"', '""') + '"'
