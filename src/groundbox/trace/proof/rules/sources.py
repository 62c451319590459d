"""Rules for what a loop goes through: `the loop takes x from xs`, `goes through d.items()`, `for i from 0 to 9`."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from groundbox.trace.proof.claims import Looped
from groundbox.trace.proof.rules.reader import Draft, Rule


def takes(draft: Draft, at: int) -> bool:
    """`the loop takes x from xs`."""
    phrase = draft.phrase
    target, source = phrase.node(at + 1), phrase.node(at + 3)
    if phrase.low(at - 1) != "loop" or phrase.low(at + 2) != "from" or source is None:
        return False
    if not isinstance(target, ast.Name | ast.Tuple):
        return False
    draft.add(Looped, at + 1, at + 2, target=target, source=source)
    return False  # what `xs` is, others read


def goes_through(draft: Draft, at: int) -> bool:
    """`the loop goes through d.items()`."""
    phrase = draft.phrase
    source = phrase.node(at + 2)
    if phrase.low(at - 1) != "loop" or phrase.low(at + 1) != "through" or not isinstance(source, ast.Call):
        return False
    draft.add(Looped, at, at + 1, target=None, source=source)
    return False


def counted(draft: Draft, at: int) -> bool:
    """`for i from 0 to 9, ...`."""
    phrase = draft.phrase
    target, first, last = phrase.node(at - 1), phrase.node(at + 1), phrase.node(at + 3)
    if phrase.low(at - 2) != "for" or at != 2 or not isinstance(target, ast.Name) or phrase.low(at + 2) != "to":
        return False
    if not isinstance(first, ast.Constant) or type(first.value) is not int or last is None:
        return False
    draft.add(Looped, at - 2, at + 3, target=target, begin=first.value)
    return True


RULES: Final[dict[str, Sequence[Rule]]] = {"takes": (takes,), "goes": (goes_through,), "from": (counted,)}
