"""Rules for calls: `main calls f(3)`, `f runs with a = 1`.

What a call gives back is the matter of `returns`.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Sequence
from typing import Final

from groundbox.trace.proof.claims import BackIn, Called
from groundbox.trace.proof.rules.operands import arguments, callee, function_name
from groundbox.trace.proof.rules.reader import Draft, Rule
from groundbox.trace.proof.text.phrase import ORDINALS


def calls(draft: Draft, at: int) -> bool:
    """`main calls f(3)`, `we call f with n = 3`, `call f(3) and f(4)`."""
    phrase = draft.phrase
    left = phrase.left(at) if phrase.low(at) in ("calls", "invokes") else None
    caller = phrase.node(left) if left is not None else None
    by = function_name(caller) if caller is not None and function_name(caller) in draft.functions else None
    if by is not None and phrase.low(at + 1) == "itself" and phrase.low(at + 2) in ("with", "on", "for"):
        return called(draft, left or 0, caller or ast.Name(by), at + 2, first=left or 0, by=by)
    begin = phrase.skip(
        at + 1, {"the", "function", "helper", "method", "to", "of", "into", "itself", "now", "again", "constructor"}, 4
    )
    node = phrase.node(begin)
    if (
        node is None
        or (
            phrase.low(at) in ("call", "calls")
            and phrase.low(at - 1) in ("function", "recursive", "the", "second", "first", "calls")
        )
    ) and (phrase.low(at + 1) != "of" or node is None):
        return False
    if not called(draft, begin, node, begin + 1, first=at, by=by):
        return False
    while phrase.low(begin + 1) in (",", "and") and isinstance(phrase.node(begin + 2), ast.Call):
        begin += 2
        more = phrase.node(begin)
        if more is None or not called(draft, begin, more, begin + 1, first=begin):
            break
    return True


def back_in(draft: Draft, at: int) -> bool:
    """`back in f(3), ...`."""
    node = draft.phrase.node(at + 2)
    if draft.phrase.low(at + 1) != "in" or node is None or function_name(node) not in draft.functions:
        return False
    given = arguments(node) if isinstance(node, ast.Call) else None
    draft.add(BackIn, at, at + 2, function=callee(draft, node), arguments=given)
    return True


def called(draft: Draft, index: int, node: ast.expr, after: int, *, first: int, by: str | None = None) -> bool:
    """A claim that the function at `index` is called, with the arguments that follow from `after` on."""
    told = len(draft.claims)
    made = _called(draft, index, node, after, first=first, by=by)
    turn = _turn(draft, first, draft.claims[-1].end) if len(draft.claims) > told else None
    if turn is not None:
        draft.claims[told:] = [
            dataclasses.replace(claim, turn=turn) if isinstance(claim, Called) else claim
            for claim in draft.claims[told:]
        ]
    return made


def _turn(draft: Draft, first: int, end: int) -> int | None:
    """Which call it is: `f is called for the third time`, `for the third time, f is called`."""
    phrase = draft.phrase
    before = first - 4 - (phrase.low(first - 1) == ",")
    after = next((at for at, item in enumerate(phrase.items) if item.start >= end), len(phrase.items))
    for at in (before, after):
        words = phrase.lows[max(0, at) : at + 4]
        if words[:2] == ["for", "the"] and words[3:] == ["time"] and words[2] in ORDINALS:
            return ORDINALS[words[2]]
    return None


def _called(draft: Draft, index: int, node: ast.expr, after: int, *, first: int, by: str | None) -> bool:
    name = function_name(node)
    if name not in draft.functions:
        return False
    phrase = draft.phrase
    if isinstance(node, ast.Call):
        draft.add(Called, first, index, function=callee(draft, node), arguments=arguments(node), by=by)
        return True
    if phrase.low(after) in ("with", "has", "on", "for"):
        given, end = call_with(draft, after + 1)
        if given:
            draft.add(
                Called,
                first,
                end - 1,
                function=callee(draft, node),
                arguments=tuple(given),
                whole=all(n is None for n, _ in given),
                by=by,
            )
            return True
    draft.add(Called, first, max(index, after - 1), function=callee(draft, node), arguments=None, by=by)
    return True


def call_with(draft: Draft, at: int) -> tuple[list[tuple[str | None, ast.expr]], int]:
    """Arguments from `at` on: `a = 1, b = 2 and c = 3`, or values alone."""
    phrase = draft.phrase
    given: list[tuple[str | None, ast.expr]] = []
    at = phrase.skip(at, {"the", "arguments", "argument", "parameters", "inputs", "input", "a", "value"}, 3)
    end = at
    while True:
        node = phrase.node(at)
        if isinstance(node, ast.Name) and phrase.low(at + 1) in ("=", "equal", "being", "as", "set", ":"):
            value = phrase.right(phrase.skip(at + 2, {"to"}))
            if value is None:
                break
            given.append((node.id, value.node))
            draft.used.update(range(at, value.end))
            end = value.end
        elif (value := phrase.right(at)) is not None and phrase.low(value.end) not in ("=",):
            given.append((None, value.node))
            end = value.end
        else:
            break
        at = phrase.skip(end, {",", "and"}, 2)
        if at == end or phrase.node(at) is None:
            break
    return given, end


def runs(draft: Draft, at: int) -> bool:
    """`f runs with a = 1`, `f starts`, `the loop runs 4 times`, `x runs over [1, 2]`."""
    phrase = draft.phrase
    left = phrase.left(at)
    node = phrase.node(left) if left is not None else None
    if (
        left is not None
        and node is not None
        and function_name(node) in draft.functions
        and phrase.low(at) in ("runs", "starts", "gets", "begins", "receives")
        and (phrase.low(at) not in ("starts", "begins") or phrase.low(at + 1) not in ("at", "as"))
    ):
        if phrase.low(at) == "gets" or phrase.low(at) == "receives":
            used = set(draft.used)
            given, end = call_with(draft, at + 1)
            if phrase.low(end) == "at":  # a list whose name is that of a function, too: `nodes gets v = 3 at its end`
                draft.used = used
                return False
            if given:
                draft.add(Called, left, end - 1, function=function_name(node), arguments=tuple(given), whole=False)
            return bool(given)
        return called(draft, left, node, phrase.skip(at + 1), first=left)
    return False


RULES: Final[dict[str, Sequence[Rule]]] = {
    **dict.fromkeys(("calls", "call", "calling", "invokes", "invoke", "enter", "enters", "entering", "into", "kicks"),
                    (calls,)),
    "back": (back_in,),
    **dict.fromkeys(("runs", "run", "ran", "starts", "begins", "receives", "gets"), (runs,)),
}  # fmt: skip
