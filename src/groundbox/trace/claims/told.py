"""Values as claims write them: literals, expressions over literals, and texts that are neither."""

from __future__ import annotations

import ast
import dataclasses
import functools
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from groundbox.trace.claims.data import MOST_CODE, ClaimData
from groundbox.trace.claims.items import literal_of, parsed
from groundbox.trace.claims.model import Claim, Kind
from groundbox.values.evaluate import evaluate
from groundbox.values.unknown import Unknown

_CONSTANTS: Final = {"inf": math.inf, "nan": math.nan}
"""Names by which values of floats are written."""
_BY_CALL: Final = re.compile(r" the \w+ that `[^`]*` returned$")
_SIGN: Final = re.compile(r"""'(?:[^'\\]|\\.?)*'?|"(?:[^"\\]|\\.?)*"?|.""", re.DOTALL)
"""A string, up to the end of the text where it has none, or another character."""
_ADDRESS: Final = re.compile(r"line \d+$|calls since -?\d+(?:$|: )|(?:true )?tests since -?\d+: ")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlacedClaim(Claim):
    """Claim that came as data, at its place in the text."""

    data: ClaimData


class Told(NamedTuple):
    """A value as a claim writes it.

    Attributes:
        node: The expression; None where it is no Python.
        known: It is a literal, or an expression over literals that gives a plain value.
        worked: It is an expression, whose value was worked out.
    """

    node: ast.expr | None
    known: bool
    value: Any
    worked: bool = False


def told(text: str) -> Told:
    """The value that a claim writes. One that is too long is not known."""
    if len(text) > MOST_CODE:
        return Told(None, known=False, value=None)
    return _told(text)


def tells_by_call(data: ClaimData) -> bool:
    """Return whether a claim is that its subject is what a call returned, in these words."""
    return bool(data.value and data.quote.startswith(f"`{data.subject}` ") and _BY_CALL.search(data.quote))


def spoken_of(data: ClaimData) -> str:
    """The subject of a claim without what only says which records and lines are meant."""
    if data.kind is not Kind.STATEMENT and (address := _ADDRESS.match(data.subject)):
        return data.subject[address.end() :]
    return data.subject


@functools.lru_cache(maxsize=4096)
def parsed_code(code: str) -> ast.expr | None:
    """The expression that a claim writes; None for none, and for one that is too long."""
    return parsed(code) if len(code) <= MOST_CODE else None


@functools.lru_cache(maxsize=4096)
def parsed_call(code: str) -> tuple[ast.expr | None, Mapping[str, str]]:
    """The call that a claim writes, with names put in for arguments that are no code: `f(1, <Graph>)`.

    Returns:
        The call, and the texts that these names stand for; None for no call, and for one that is too long.
    """
    node = parsed_code(code)
    name, bracket, row = code.partition("(")
    if node is not None or len(code) > MOST_CODE or not bracket or not row.endswith(")"):
        return node, {}
    texts: dict[str, str] = {}
    arguments = []
    for text in _split(row[:-1]):
        keyword, equals, rest = text.partition("=")
        is_named = bool(equals) and keyword.isidentifier()
        if parsed(f"f({text})") is None:
            # A name that no program has, and that the parser takes.
            stand_in = f"_·{len(texts)}"
            texts[stand_in] = rest if is_named else text
            text = f"{keyword}={stand_in}" if is_named else stand_in
        arguments.append(text)
    call = parsed(f"{name}({', '.join(arguments)})")
    return (call, texts) if isinstance(call, ast.Call) else (None, {})


def _split(row: str) -> Iterator[str]:
    """The parts of a text between commas that are neither quoted nor in brackets, `<` and `>` being some."""
    depth = start = 0
    for found in _SIGN.finditer(row):
        if found[0] in "([{<":
            depth += 1
        elif found[0] in ")]}>":
            depth -= 1
        elif found[0] == "," and depth == 0:
            yield row[start : found.start()].strip()
            start = found.end()
    if row[start:].strip():
        yield row[start:].strip()


@functools.lru_cache(maxsize=4096)
def _told(text: str) -> Told:
    node = parsed(text)
    if node is None:
        return Told(None, known=False, value=None)
    literal, value = literal_of(node)
    if literal:
        return Told(node, known=True, value=value)
    try:
        return Told(node, known=True, value=evaluate(node, _CONSTANTS.__getitem__), worked=True)
    except Unknown:
        return Told(node, known=False, value=None)
