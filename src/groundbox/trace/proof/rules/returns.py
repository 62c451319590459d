"""Rules for what calls return and generators yield: `f(2) returns 5`, `the value to return is 5`."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Sequence
from typing import Final

from groundbox.trace.proof.claims import Equal, Has, How, Kept, Returned
from groundbox.trace.proof.rules.chains import chain_of
from groundbox.trace.proof.rules.operands import (
    BEFORE_A_THING,
    acceptable,
    arguments,
    callee,
    function_name,
    is_a_call_of,
    is_place,
)
from groundbox.trace.proof.rules.reader import Draft, Rule
from groundbox.trace.proof.rules.values import one
from groundbox.trace.proof.text.phrase import ADVERBS, Phrase, Value
from groundbox.trace.proof.values.evaluation import literal

_RETURNING: Final = (
    BEFORE_A_THING
    | ADVERBS
    | frozenset({"number", "string", "result", "tuple", "with", "us", "index", "final", "back"})
)


def returns(draft: Draft, at: int) -> bool:
    """`f(2) returns 5`, `we return x = 5`, `it yields 3`."""
    phrase = draft.phrase
    yields = phrase.low(at) in ("yields", "yield", "yielding")
    begin = phrase.skip(at + 1, _RETURNING, 5)
    value = _of_its_type(phrase, phrase.right(begin))
    if phrase.low(at) in ("return",) and phrase.low(at - 1) in ("a", "the", "no", "to"):
        return False
    if value is None or not acceptable(draft, value):
        return False
    left = _function_left(draft, at)
    node = phrase.node(left) if left is not None else None
    function, given = (
        (callee(draft, node), arguments(node) if isinstance(node, ast.Call) else None)
        if node is not None
        else (None, None)
    )
    if (
        left is None
        and phrase.left(at) is not None
        and phrase.node(phrase.left(at) or 0) is not None
        and _is_foreign(draft, at)
    ):
        index = phrase.left(at)
        assert index is not None
        return one(draft, index, value, How.IS, first=index)
    return _return(draft, at if left is None else left, value, function, given, yields)


def _is_foreign(draft: Draft, at: int) -> bool:
    """A call of something that is not the program's, such as `stack.pop()`."""
    left = draft.phrase.left(at)
    return left is not None and isinstance(draft.phrase.node(left), ast.Call)


def _return(
    draft: Draft, first: int, value: Value, function: str | None,
    given: tuple[tuple[str | None, ast.expr], ...] | None, yields: bool,
) -> bool:  # fmt: skip
    phrase = draft.phrase
    chain = chain_of(draft, value)
    if chain is None:
        return False
    parts, end, about = chain
    if len(parts) > 1:
        draft.add(Equal, first, end - 1, parts=tuple(parts), about=about)
    draft.add(Returned, first, end - 1, function=function, arguments=given, value=parts[-1], yields=yields, about=about)
    if function is not None and not yields and (second := _second(draft, first, parts, end)) is not None:
        made = _return(draft, end + 1, second, function, given, yields)
        if phrase.low(end) == "or":  # `f returns 0 or 1` may be said of all its calls
            draft.claims[-2:] = [dataclasses.replace(claim, recap=True) for claim in draft.claims[-2:]]
        return made
    if phrase.low(end) in (",", "and") and phrase.low(phrase.skip(end, {",", "and"}, 2)) == "then":
        following = phrase.right(phrase.skip(end, {",", "and", "then"}, 3), bare=False)
        if following is not None and literal(following.node)[0]:
            return _return(draft, end + 1, following, function, given, yields)
    return True


def _of_its_type(phrase: Phrase, value: Value | None) -> Value | None:
    """The value, of the type that stands right before it: `the string 3`, its quotes left out, `the list (1, 2)`."""
    if value is None:
        return None
    node, word = value.node, phrase.low(value.end - 2)
    if isinstance(node, ast.Constant) and type(node.value) in (int, float) and word in ("string", "text"):
        return value._replace(node=ast.Constant(phrase.sentence_text(value.end - 1)))
    if isinstance(node, ast.Tuple) and word == "list":
        return value._replace(node=ast.List(node.elts, ast.Load()))
    if isinstance(node, ast.List) and word == "tuple":
        return value._replace(node=ast.Tuple(node.elts, ast.Load()))
    return value


def _second(draft: Draft, first: int, parts: Sequence[ast.expr], end: int) -> Value | None:
    """The other value of `f returns 3 and 4`, `f returns 3 or 4`; none where the text tells of several calls at once.

    `f(2) and f(1) return 3 and 4`, `f returns True or False`.
    """
    phrase = draft.phrase
    value = phrase.right(end + 1, bare=False) if phrase.low(end) in ("and", "or") else None
    if value is None or value.end != end + 2 or phrase.low(value.end) not in ("", ".", ";"):
        return None
    known = [literal(node) for node in (*parts, value.node)]
    is_literal = len(parts) == 1 and all(is_known and type(told) is not bool for is_known, told in known)
    is_of_one = phrase.low(first - 1) != "and" and {"respectively", "either"}.isdisjoint(phrase.lows)
    return value if is_literal and is_of_one else None


def _function_left(draft: Draft, at: int) -> int | None:
    left = draft.phrase.left(at)
    if left is None and draft.phrase.low(at - 1) in ("which", "also", "that") and draft.phrase.low(at - 2) == ",":
        left = at - 3
    node = draft.phrase.node(left) if left is not None else None
    if left is None or node is None or function_name(node) not in draft.functions:
        return None
    return left if isinstance(node, ast.Call | ast.Name | ast.Attribute) else None


def gives_back(draft: Draft, at: int) -> bool:
    """`f gives back 5`, `f(2) gives 5`, `the generator gives 0`."""
    phrase = draft.phrase
    left = _function_left(draft, at)
    if left is None:
        return False
    node = phrase.node(left)
    value = phrase.right(phrase.skip(at + 1, _RETURNING, 5))
    if node is None or value is None or not acceptable(draft, value):
        return False
    given = arguments(node) if isinstance(node, ast.Call) else None
    generator = "generator" in phrase.lows[max(0, left - 2) : left]
    return _return(draft, left, value, callee(draft, node), given, generator)


def value_to_return(draft: Draft, at: int) -> bool:
    """`the value to return is 5`, `its return value is 5`."""
    phrase = draft.phrase
    words = phrase.lows[max(0, at - 5) : at]
    if ("return" not in words and "returned" not in words) or not {"value", "what"} & set(words):
        return False
    value = phrase.right(phrase.skip(at + 1, _RETURNING, 5))
    return value is not None and _return(draft, at, value, None, None, False)


def kept(draft: Draft, at: int) -> bool:
    """`x is the list that f(3) returned`, `x is set to the Node that f(3) returned`."""
    phrase = draft.phrase
    left = phrase.left(at)
    begin = phrase.skip(at + 1, ADVERBS)
    is_set = phrase.lows[begin : begin + 2] == ["set", "to"]
    begin += 2 * is_set
    that = next((index for index in range(begin + 2, begin + 5) if phrase.low(index) == "that"), 0)
    subject, call = phrase.node(left) if left is not None else None, phrase.node(that + 1)
    if left is None or subject is None or not is_place(subject) or not isinstance(call, ast.Call):
        return False
    is_thing = phrase.low(begin) == "the" and all(word.isidentifier() for word in phrase.lows[begin:that])
    if not that or not is_thing or phrase.low(that + 2) not in ("returned", "returns", "gave", "gives"):
        return False
    how = How.BECOMES if is_set else How.IS
    draft.add(Kept, left, that + 2, subject=subject, function=callee(draft, call), arguments=arguments(call), how=how)
    return True


def result_of(draft: Draft, at: int) -> bool:
    """`x is 5, the result of f(3)`."""
    phrase = draft.phrase
    call = phrase.node(at + 2)
    told = draft.claims[-1] if draft.claims else None
    if phrase.lows[max(0, at - 2) : at + 2] != [",", "the", "result", "of"] or not isinstance(call, ast.Call):
        return False
    if not isinstance(told, Has) or not is_a_call_of(draft, call) or told.end > phrase.items[at - 2].start:
        return False
    draft.add(Kept, at - 1, at + 2, subject=told.subject, function=callee(draft, call), arguments=arguments(call))
    return True


RULES: Final[dict[str, Sequence[Rule]]] = {
    **dict.fromkeys(("returns", "return", "returning", "yields", "yield", "returned", "yielding"), (returns,)),
    **dict.fromkeys(("gives", "give", "produces"), (gives_back,)),
    "is": (kept, value_to_return),
    "result": (result_of,),
}  # fmt: skip
