"""How many items printed lists, tuples, sets and dicts have, and JSON, on a line or over several."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from groundbox.check.answers.text import words
from groundbox.values.parsing import expression_of

MOST_TEXT: Final = 200_000
_MOST_LINES: Final = 500
_MOST_COUNTS: Final = 500
_MOST_DEPTH: Final = 6
_OPEN: Final = {"[": "]", "{": "}", "(": ")"}
_CALLED: Final = re.compile(r"[\w.]+\Z")
_TOKEN: Final = re.compile(r"""[\[\](){}]|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*\"""")


class Container(NamedTuple):
    """Something with items.

    Attributes:
        line: The number of its line; 0 if it goes over several.
        labels: Words before it on its line, and the keys under which it stands.
    """

    size: int
    line: int
    labels: frozenset[str]


def containers(text: str) -> Iterator[Container]:
    """Yield what has items in a text that a program printed or gave."""
    if len(text) > MOST_TEXT or not any(bracket in text for bracket in _OPEN):
        return
    if text.strip()[0] in "'\"" and isinstance(quoted := _parsed(text.strip()), ast.Constant):
        text = str(quoted.value)  # a text that holds them, as a value is shown
    left = _MOST_COUNTS
    for line, source, before in _sources(text):
        for count, labels in _counted(_parsed(source), words(before), 0):
            if not left:
                return
            left -= 1
            yield Container(count, line, labels)


def _sources(text: str) -> Iterator[tuple[int, str, str]]:
    """Each text within brackets, with its line and what stands before it there."""
    lines = text.strip().splitlines()
    if len(lines) > 1 and text.strip()[0] in _OPEN and _parsed(text.strip()) is not None:
        yield 0, text.strip(), ""
        return
    for number, line in enumerate(lines[:_MOST_LINES], 1):
        yield from ((number, source, before) for source, before in _bracketed(line))


def _bracketed(line: str, deeper: int = 0) -> Iterator[tuple[str, str]]:
    depth = begin = end = 0
    for token in _TOKEN.finditer(line):
        if token[0] in _OPEN:
            if not depth:
                begin = token.start()
            depth += 1
        elif token[0] in _OPEN.values() and depth:
            depth -= 1
            if not depth:
                source, before = line[begin : token.end()], line[end:begin]
                end = token.end()
                if source[0] == "(":  # `Counter({…})`: the name is of the kind and says nothing of the items
                    before = _CALLED.sub("", before)
                if deeper < _MOST_DEPTH and _parsed(source) is None:
                    yield from ((inner, f"{before} {more}") for inner, more in _bracketed(source[1:-1], deeper + 1))
                else:
                    yield source, before


def _parsed(source: str) -> ast.expr | None:
    try:
        return expression_of(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _counted(node: ast.expr | None, labels: frozenset[str], depth: int) -> Iterator[tuple[int, frozenset[str]]]:
    if depth > _MOST_DEPTH:
        return
    match node:
        case ast.List(elts=items) | ast.Set(elts=items) | ast.Tuple(elts=items):
            if not _is_prose(node, items):
                yield len(items), labels
            for item in items:
                yield from _counted(item, labels, depth + 1)
        case ast.Dict(keys=keys, values=values):
            yield len(keys), labels
            for key, value in zip(keys, values, strict=True):
                named = words(str(key.value).replace("_", " ")) if isinstance(key, ast.Constant) else frozenset()
                yield from _counted(value, labels | named, depth + 1)
        case ast.Call(args=arguments):  # `Counter({…})`, `array([…])`
            for argument in arguments[:_MOST_DEPTH]:
                yield from _counted(argument, labels, depth + 1)


def _is_prose(node: ast.expr, items: list[ast.expr]) -> bool:
    """Return whether these are words in brackets, as in `(low, high)` and `[INFO]`."""
    named = any(isinstance(item, ast.Name) and item.id not in ("nan", "inf", "null", "true", "false") for item in items)
    return named and (isinstance(node, ast.Tuple) or len(items) < 2)
