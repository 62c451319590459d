"""Values as claims write them: literals, expressions over literals, and texts that are neither."""

from __future__ import annotations

import ast
import functools
import math
import re
from typing import Any, Final, NamedTuple

from groundbox.trace.claims.data import MOST_CODE, ClaimData
from groundbox.trace.claims.items import literal_of, parsed
from groundbox.trace.claims.model import Kind
from groundbox.trace.errors import Unknown
from groundbox.trace.evaluate import evaluate

_ADDRESS: Final = re.compile(r"line \d+$|calls since -?\d+$|(?:true )?tests since -?\d+: ")


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
def _told(text: str) -> Told:
    node = parsed(text)
    if node is None:
        return Told(None, known=False, value=None)
    literal, value = literal_of(node)
    if literal:
        return Told(node, known=True, value=value)
    try:
        return Told(node, known=True, value=evaluate(node, _no_name), worked=True)
    except Unknown:
        return Told(node, known=False, value=None)


def _no_name(name: str) -> Any:
    return _CONSTANTS[name]


_CONSTANTS: Final = {"inf": math.inf, "nan": math.nan}
"""Names by which values of floats are written."""
