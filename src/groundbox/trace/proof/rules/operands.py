"""What an operand of a sentence is: a place with a value, a call, the beginning of something longer."""

from __future__ import annotations

import ast
from typing import Final

from groundbox.trace.proof.rules.reader import Draft
from groundbox.trace.proof.text.phrase import Value
from groundbox.trace.proof.text.vocabulary import vocabulary
from groundbox.trace.proof.values.likeness import EMPTY, is_gap

_NOT_A_VALUE: Final = vocabulary(
    """
    more less fewer times greater digits elements items long characters percent iterations levels steps passes
    calls numbers values words of positions places entries keys smaller larger rounds years
    """
)
BEFORE_A_THING: Final = frozenset(
    ["the", "a", "an", "value", "of", "list", "queue", "stack", "set", "end", "front", "back", "its", "dictionary"]
)
TESTED: Final = frozenset({"condition", "test", "check", "comparison", "guard"})
_PLACES: Final = (ast.Name, ast.Attribute, ast.Subscript)


def is_place(node: ast.expr | None) -> bool:
    """Whether an expression is something that has a value of its own: a name, an item, an attribute."""
    return isinstance(node, _PLACES)


def acceptable(draft: Draft, value: Value | None) -> bool:
    """Whether a value is not the beginning of a longer statement: `3 more than`, `2 elements`."""
    if value is None or draft.phrase.low(value.end) in _NOT_A_VALUE:
        return False
    return not (draft.phrase.low(value.end) == "that" and isinstance(value.node, ast.Name))


def is_a_call_of(draft: Draft, node: ast.Call) -> bool:
    """Whether a call is one of the program's own functions."""
    return function_name(node) in draft.functions


def function_name(node: ast.expr) -> str:
    """The last name of what is called."""
    if isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def callee(draft: Draft, node: ast.expr) -> str:
    """What is called, with its class where the text names one of the program's: `Node.__init__`."""
    function = node.func if isinstance(node, ast.Call) else node
    if (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id in draft.functions
    ):
        return f"{function.value.id}.{function.attr}"
    return function_name(node)


def arguments(node: ast.Call) -> tuple[tuple[str | None, ast.expr], ...] | None:
    """What a call is given; None where the text leaves it out, as `f(...)` does."""
    given = [*((None, value) for value in node.args), *((word.arg, word.value) for word in node.keywords)]
    if len(given) == 1 and is_gap(given[0][1]):
        return None
    return tuple(given)


def empty_name(node: ast.expr) -> bool:
    """Whether the value is `empty`, of whatever kind."""
    return isinstance(node, ast.Name) and node.id == EMPTY
