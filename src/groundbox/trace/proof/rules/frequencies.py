"""Rules for how often something happens: `x changes 3 times`, `f called itself twice`, `f yields 5 values`."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from groundbox.trace.proof.claims import Counted, Printed
from groundbox.trace.proof.rules.operands import function_name, is_place
from groundbox.trace.proof.rules.reader import Draft, Rule
from groundbox.trace.proof.text.phrase import NUMBERS, ORDINALS
from groundbox.trace.proof.values.evaluation import literal

_ENDS: Final = frozenset({"", ".", ",", ";", "and", "in"})
_CHANGES: Final = frozenset({"changes", "changed"})
_CHANGED: Final = frozenset({"changed", "updated", "modified", "altered"})
_IS: Final = frozenset({"is", "was", "gets", "got", "been"})
_YIELDS: Final = frozenset({"yields", "yielded"})
_GENERAL: Final = frozenset({"each", "every", "always", "whenever", "per", "if", "would"})


def often(draft: Draft, at: int) -> bool:
    """`x is updated 4 times`, `f called itself twice`, `f yields 5 values`, `it prints 3 twice`."""
    phrase = draft.phrase
    begin = at - (phrase.low(at) != "twice")
    count = 2 if begin == at else _number(draft, begin)
    if count is None or phrase.low(at + 1) not in _ENDS or not _GENERAL.isdisjoint(phrase.lows):
        return False
    told = draft.claims[-1] if draft.claims else None
    if isinstance(told, Printed) and told.end == phrase.items[begin - 1].end and phrase.low(at) in ("times", "twice"):
        draft.add(Counted, begin, at, what="prints", count=count, text=told.text)
        return True
    return _of_a_verb(draft, begin, at, count)


def _of_a_verb(draft: Draft, begin: int, at: int, count: int) -> bool:
    phrase = draft.phrase
    verb = begin - 1
    if phrase.low(verb) == "itself" and phrase.low(verb - 1) == "called":
        return _counted(draft, verb - 1, at, "self-calls", count)
    if phrase.low(verb) in _YIELDS:
        return _counted(draft, verb, at, "yields", count)
    if phrase.low(at) not in ("times", "twice"):
        return False
    if phrase.low(verb) in _CHANGED and phrase.low(verb - 1) in _IS:
        verb -= 1 + (phrase.low(verb - 1) == "been")
    elif phrase.low(verb) not in _CHANGES:
        return False
    left = phrase.left(verb)
    node = phrase.node(left) if left is not None else None
    if left is None or not is_place(node):
        return False
    draft.add(Counted, left, at, what="changes", count=count, subject=node)
    return True


def _counted(draft: Draft, verb: int, at: int, what: str, count: int) -> bool:
    left = draft.phrase.left(verb)
    node = draft.phrase.node(left) if left is not None else None
    if left is None or not is_place(node) or node is None or function_name(node) not in draft.functions:
        return False
    draft.add(Counted, left, at, what=what, count=count, function=function_name(node))
    return True


def lines(draft: Draft, at: int) -> bool:
    """`the output has 3 lines`."""
    phrase = draft.phrase
    count = _number(draft, at - 1)
    if count is None or phrase.low(at - 2) not in ("has", "contains") or phrase.low(at - 3) != "output":
        return False
    if phrase.low(at + 1) not in _ENDS or phrase.low(at - 4) not in ("", "the", "whole"):
        return False
    draft.add(Counted, at - 3, at, what="lines", count=count)
    return True


def line_of_output(draft: Draft, at: int) -> bool:
    """`the second line of output is 'b'`."""
    phrase = draft.phrase
    number = ORDINALS.get(phrase.low(at - 1))
    begin = at + 2 + (phrase.low(at + 2) == "the")
    known, value = literal(phrase.node(begin + 2) or ast.Name("?"))
    if number is None or phrase.low(at + 1) != "of" or phrase.lows[begin : begin + 2] != ["output", "is"]:
        return False
    if known and isinstance(value, str):
        draft.add(Counted, at - 1, begin + 2, what="line", count=number, text=value)
    return known and isinstance(value, str)


def _number(draft: Draft, at: int) -> int | None:
    value = getattr(draft.phrase.node(at), "value", None)
    if type(value) is int:
        return value
    return NUMBERS.get(draft.phrase.low(at)) if draft.phrase.node(at) is None else None


RULES: Final[dict[str, Sequence[Rule]]] = {
    **dict.fromkeys(("times", "time", "twice", "values", "items", "numbers"), (often,)),
    "lines": (lines,), "line": (line_of_output,),
}  # fmt: skip
