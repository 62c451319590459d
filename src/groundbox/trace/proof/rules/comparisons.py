"""Rules for comparisons: `x is less than 5`, `90 exceeds 70`, `x is even`, `'a' is not in seen`.

That a comparison is said to be true or false is the matter of `truths`.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from groundbox.trace.proof.claims import Has, How, Truth
from groundbox.trace.proof.rules.operands import acceptable, is_place
from groundbox.trace.proof.rules.reader import Draft, Rule
from groundbox.trace.proof.rules.values import has_value
from groundbox.trace.proof.values.evaluation import literal
from groundbox.trace.proof.values.likeness import EMPTY

COMPARATIVES: Final[dict[str, type[ast.cmpop]]] = {
    "less": ast.Lt, "smaller": ast.Lt, "lower": ast.Lt, "fewer": ast.Lt, "greater": ast.Gt, "larger": ast.Gt,
    "bigger": ast.Gt, "more": ast.Gt, "higher": ast.Gt, "below": ast.Lt, "above": ast.Gt,
}  # fmt: skip
_WITH_EQUAL: Final = {ast.Lt: ast.LtE, ast.Gt: ast.GtE}


def symbol(draft: Draft, at: int, after: int, negated: bool) -> bool:
    """`4 isn't <= 1`."""
    kinds: dict[str, type[ast.cmpop]] = {
        "<": ast.Lt,
        "<=": ast.LtE,
        ">": ast.Gt,
        ">=": ast.GtE,
        "==": ast.Eq,
        "!=": ast.NotEq,
    }
    return compare(draft, at, after + 1, kinds[draft.phrase.low(after)], negated)


def compare(draft: Draft, at: int, after: int, kind: type[ast.cmpop], negated: bool) -> bool:
    left, value = draft.phrase.left(at), draft.phrase.right(after)
    node = draft.phrase.node(left) if left is not None else None
    if left is None or node is None or value is None:
        return False
    draft.add(Truth, left, value.end - 1, test=ast.Compare(node, [kind()], [value.node]), truth=not negated)
    return True


def equal_to(draft: Draft, at: int, after: int, negated: bool) -> bool:
    if draft.phrase.low(after + 1) != "to":
        return False
    left = draft.phrase.left(at)
    node = draft.phrase.node(left) if left is not None else None
    if node is not None and (not is_place(node) or negated):
        return compare(draft, at, after + 2, ast.NotEq if negated else ast.Eq, False)
    return has_value(draft, at, How.IS_NOT if negated else How.IS, after + 2)


def comparative(draft: Draft, at: int, after: int, negated: bool) -> bool:
    phrase = draft.phrase
    kind = COMPARATIVES[phrase.low(after)]
    begin = after + 1
    if phrase.low(after) not in ("below", "above"):
        if phrase.low(begin) != "than":
            return False
        begin += 1
    if phrase.low(begin) == "or" and phrase.low(begin + 1) == "equal":
        kind = _WITH_EQUAL[kind]
        begin += 2 + (phrase.low(begin + 2) == "to")
    return _compare_where(draft, at, begin, kind, negated)


def at_least(draft: Draft, at: int, after: int, negated: bool) -> bool:
    """`x is at least 5`, `x is at most 5`."""
    phrase = draft.phrase
    kinds: dict[str, type[ast.cmpop]] = {"least": ast.GtE, "most": ast.LtE}
    left, value = phrase.left(at), phrase.right(after + 2, bare=False)
    node = phrase.node(left) if left is not None else None
    if left is None or node is None or phrase.low(after + 1) not in kinds or not acceptable(draft, value):
        return False
    assert value is not None
    test = ast.Compare(node, [kinds[phrase.low(after + 1)]()], [value.node])
    draft.add(Truth, left, value.end - 1, test=test, truth=not negated, put_otherwise=True)
    return True


def between(draft: Draft, at: int, after: int, negated: bool) -> bool:
    """`x is between 3 and 5`, both of which it may be."""
    phrase = draft.phrase
    left, low = phrase.left(at), phrase.right(after + 1, bare=False)
    node = phrase.node(left) if left is not None else None
    high = phrase.right(low.end + 1, bare=False) if low is not None and phrase.low(low.end) == "and" else None
    if left is None or node is None or low is None or high is None or not acceptable(draft, high):
        return False
    test = ast.Compare(low.node, [ast.LtE(), ast.LtE()], [node, high.node])
    draft.add(Truth, left, high.end - 1, test=test, truth=not negated, put_otherwise=True)
    return True


def _compare_where(draft: Draft, at: int, begin: int, kind: type[ast.cmpop], negated: bool) -> bool:
    """A comparison whose right side may be `the target 9`: a name and its value."""
    phrase = draft.phrase
    begin = phrase.skip(begin, {"the", "value", "of", "current"}, 3)
    if is_place(phrase.node(begin)) and isinstance(phrase.node(begin + 1), ast.Constant):
        subject, value = phrase.node(begin), phrase.node(begin + 1)
        assert subject is not None
        assert value is not None
        draft.add(Has, begin, begin + 1, subject=subject, value=value, how=How.IS)
        begin += 1
    return compare(draft, at, begin, kind, negated)


def is_in(draft: Draft, at: int, after: int, negated: bool) -> bool:
    phrase = draft.phrase
    left, value = phrase.left(at), phrase.right(after + 1, bare=False)
    node = phrase.node(left) if left is not None else None
    if left is None or value is None or node is None:
        return False
    if isinstance(value.node, ast.Constant) and not isinstance(value.node.value, str):
        return False
    draft.add(Truth, left, value.end - 1, test=ast.Compare(node, [ast.In()], [value.node]), truth=not negated)
    return True


def adjective(draft: Draft, at: int, after: int, negated: bool) -> bool:
    """`x is even`, `b is nonzero`, `b is zero`, `x is divisible by 3`, `stack is empty`."""
    phrase = draft.phrase
    left = phrase.left(at)
    node = phrase.node(left) if left is not None else None
    if left is None or node is None:
        return False
    word, end = phrase.low(after), after
    if word == "divisible":
        value = phrase.right(after + 2, bare=False)
        if phrase.low(after + 1) != "by" or value is None:
            return False
        test: ast.expr = _equals_zero(ast.BinOp(node, ast.Mod(), value.node))
        end = value.end - 1
    elif word in ("empty", "non-empty", "nonempty"):
        if literal(node)[0]:
            return False
        if phrase.low(after + 1) not in (
            "",
            ".",
            ",",
            ";",
            ":",
            ")",
            "so",
            "and",
            "at",
            "again",
            "since",
            "—",
            "→",
            "now",
            "then",
            "because",
            "initially",
            "or",
        ):
            return has_value(draft, at, How.IS_NOT if negated else How.IS, after)
        if isinstance(node, ast.Call):
            is_empty = negated is (word != "empty")
            draft.has(left, ast.Name(EMPTY), after + 1, How.IS if is_empty else How.IS_NOT)
            return True
        test = ast.Compare(ast.Call(ast.Name("len"), [node], []), [ast.Eq()], [ast.Constant(0)])
        negated = negated is not (word != "empty")
    elif word in ("even", "odd"):
        test = _equals_zero(ast.BinOp(node, ast.Mod(), ast.Constant(2)))
        negated = negated is not (word == "odd")
    else:
        kinds: dict[str, type[ast.cmpop]] = {"positive": ast.Gt, "negative": ast.Lt, "zero": ast.Eq}
        test = ast.Compare(node, [kinds.get(word, ast.NotEq)()], [ast.Constant(0)])
    draft.add(Truth, left, end, test=test, truth=not negated, put_otherwise=True)
    return True


def _equals_zero(node: ast.expr) -> ast.expr:
    return ast.Compare(node, [ast.Eq()], [ast.Constant(0)])


def same_object(draft: Draft, at: int, after: int, negated: bool) -> bool:
    """`a is the same list as b, [1]`, `node is the same Node as head, Node(1)`."""
    phrase = draft.phrase
    left = phrase.left(at)
    begin = next((at for at in range(after + 1, after + 4) if phrase.low(at) == "as"), after + 1)
    other = begin + 1
    node, second = phrase.node(left) if left is not None else None, phrase.node(other)
    if left is None or node is None or second is None or phrase.low(begin) != "as":
        return False
    value = phrase.right(other + 2, bare=False) if phrase.low(other + 1) in (",", ":") else None
    told = len(draft.claims)
    if value is not None and not is_place(value.node):
        draft.add(Has, left, value.end - 1, subject=node, value=value.node, how=How.IS)
    given = tuple(claim for claim in draft.claims[told:] if isinstance(claim, Has))
    draft.add(Truth, left, other, test=ast.Compare(node, [ast.Is()], [second]), truth=not negated, given=given)
    return True


def copy_of(draft: Draft, at: int, after: int, negated: bool) -> bool:
    """`b is a copy of a`, `b is another list than a`: another object, which may be equal to it."""
    phrase = draft.phrase
    left, other = phrase.left(at), phrase.node(after + 3)
    node = phrase.node(left) if left is not None else None
    if left is None or node is None or other is None or negated or not (is_place(node) and is_place(other)):
        return False
    draft.add(Truth, left, after + 3, test=ast.Compare(node, [ast.Is()], [other]), truth=False)
    return True


def exceeds(draft: Draft, at: int) -> bool:
    """`90 exceeds 70`, `x equals y`, `'a' matches 'a'`."""
    kinds: dict[str, type[ast.cmpop]] = {"exceeds": ast.Gt, "equals": ast.Eq, "matches": ast.Eq, "differs": ast.NotEq}
    phrase = draft.phrase
    left = phrase.left(at)
    if left is None:
        return False
    begin = at + 1 + (phrase.low(at + 1) == "from")
    negated = phrase.low(at - 1) == "never"
    if negated or (
        is_place(phrase.node(left)) and phrase.low(at) == "equals" and isinstance(phrase.node(begin), ast.Constant)
    ):
        return False
    return _compare_where(draft, at, begin, kinds[phrase.low(at)], False)


def even(draft: Draft, at: int) -> bool:
    """`x = 3: odd`, `4 even`."""
    phrase = draft.phrase
    left = at - 2 if phrase.low(at - 1) in (":", ",", "(") else -1
    node = phrase.node(left)
    if node is None or not isinstance(node, ast.Constant) or not isinstance(node.value, int):
        return False
    test = _equals_zero(ast.BinOp(node, ast.Mod(), ast.Constant(2)))
    draft.add(Truth, left, at, test=test, truth=phrase.low(at) == "even")
    return True


def not_in(draft: Draft, at: int) -> bool:
    """`, not in counts` after `word = 'the'`."""
    phrase = draft.phrase
    negated = phrase.low(at - 1) == "not"
    before = at - 2 if negated else at - 1
    value = phrase.node(at + 1)
    if phrase.low(before) not in (",", "already", "is") or value is None or not is_place(value):
        return False
    subject = next((claim.value for claim in reversed(draft.claims) if isinstance(claim, Has)), None)
    if subject is None or phrase.low(before) == "is":
        return False
    draft.add(
        Truth, at - 1 if negated else at, at + 1, test=ast.Compare(subject, [ast.In()], [value]), truth=not negated
    )
    return True


RULES: Final[dict[str, Sequence[Rule]]] = {
    **dict.fromkeys(("exceeds", "matches", "differs", "equals"), (exceeds,)),
    "even": (even,), "odd": (even,), "in": (not_in,),
}  # fmt: skip
