"""Rules for what holds of all items or at no time: `all items of xs are even`, `xs has 3 items`, `x is never 7`."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, Final

from groundbox.trace.proof.claims import Has, How, Never, Truth
from groundbox.trace.proof.rules.comparisons import COMPARATIVES, adjective, comparative
from groundbox.trace.proof.rules.operands import is_place
from groundbox.trace.proof.rules.reader import Draft, Rule
from groundbox.trace.proof.text.phrase import NUMBERS
from groundbox.trace.proof.values.evaluation import literal

_ENDS: Final = frozenset({"", ".", ",", ";", ":", "and", "now", "so"})
_ITEMS: Final = frozenset({"item", "items", "element", "elements"})
_SIZES: Final = frozenset({"items", "elements", "entries", "characters", "keys", "item", "element", "entry"})
_ADJECTIVES: Final = frozenset({"even", "odd", "positive", "negative", "zero", "nonzero", "non-zero"})
_ALL: Final = frozenset({"all", "every", "each"})
_SOMETIMES: Final = frozenset({"again", "after", "before", "until", "once", "there", "then", "these", "while", "when"})
_ITEM: Final = "_item"


def of_items(draft: Draft, at: int) -> bool:
    """`all items of xs are even`, `no item of xs is less than 3`."""
    phrase = draft.phrase
    left = phrase.left(at)
    after = at + 1 if phrase.low(at + 1) == "even" else phrase.skip(at + 1)  # which is an adverb, too
    node = phrase.node(left) if left is not None else None
    if left is None or node is None or phrase.low(left - 1) != "of" or phrase.low(left - 2) not in _ITEMS:
        return False
    first = left - 3 - (phrase.low(left - 3) == "the")
    word = phrase.low(first)
    test = _test(draft, at, after) if is_place(node) and (word in _ALL or word == "no") else None
    if test is None or phrase.low(test[1] + 1) not in _ENDS:
        return False
    holds_of_items = _Put(node).visit(test[0])
    items = ast.Subscript(node, ast.Slice(), ast.Load())  # a sequence, and no dict
    each = ast.comprehension(ast.Name(_ITEM, ast.Store()), items, [], 0)
    call = ast.Call(ast.Name("any" if word == "no" else "all"), [ast.GeneratorExp(holds_of_items, [each])], [])
    draft.add(Truth, first, test[1], test=call, truth=word != "no", put_otherwise=True)
    return True


def _test(draft: Draft, at: int, after: int) -> tuple[ast.expr, int] | None:
    """What is said of the operand before `at`, and where that ends, without a claim of it."""
    phrase = draft.phrase
    told, used = len(draft.claims), set(draft.used)
    rule = adjective if phrase.low(after) in _ADJECTIVES else comparative if phrase.low(after) in COMPARATIVES else None
    made = rule is not None and rule(draft, at, after, False)
    claims, taken = draft.claims[told:], draft.used - used
    del draft.claims[told:]
    draft.used = used
    if not made or len(claims) != 1 or not isinstance(claims[0], Truth) or claims[0].test is None:
        return None
    test = claims[0].test
    return (test if claims[0].truth else ast.UnaryOp(ast.Not(), test)), max(taken, default=after)


class _Put(ast.NodeTransformer):
    """Puts the name of an item in the place of a list."""

    def __init__(self, subject: ast.expr) -> None:
        self._subject = subject

    def visit(self, node: ast.AST) -> Any:
        """The node, or the name."""
        return ast.Name(_ITEM, ast.Load()) if node is self._subject else self.generic_visit(node)


def size(draft: Draft, at: int) -> bool:
    """`xs has 3 items`."""
    phrase = draft.phrase
    left, begin = phrase.left(at), phrase.skip(at + 1)
    node, number = phrase.node(left) if left is not None else None, phrase.node(begin)
    count = getattr(number, "value", None) if number is not None else NUMBERS.get(phrase.low(begin))
    if left is None or node is None or type(count) is not int or phrase.low(begin + 1) not in _SIZES:
        return False
    if not is_place(node) or phrase.low(begin + 2) not in _ENDS or phrase.low(left - 1) in ("of", "in"):
        return False
    if draft.later(left):
        return False  # which moment is meant behind `after which` is not known well enough to refuse a size
    length = ast.Call(ast.Name("len"), [node], [])
    draft.add(Has, left, begin + 1, subject=length, value=ast.Constant(count), how=How.IS)
    return True


def never(draft: Draft, at: int) -> bool:
    """`x is never 7`, `x is never negative`, `x never exceeds 4`."""
    phrase = draft.phrase
    verb = at - 1 if phrase.low(at - 1) in ("is", "was") else at
    left = phrase.left(verb)
    node = phrase.node(left) if left is not None else None
    if left is None or node is None or not is_place(node) or not _SOMETIMES.isdisjoint(phrase.lows):
        return False
    test = _never_so(draft, at, node) if verb < at else _never_does(draft, at, node)
    if test is None or phrase.low(test[1] + 1) not in _ENDS:
        return False
    draft.add(Never, left, test[1], subject=node, test=test[0])
    return True


def _never_so(draft: Draft, at: int, node: ast.expr) -> tuple[ast.expr, int] | None:
    if draft.phrase.low(at + 1) in _ADJECTIVES | COMPARATIVES.keys():
        return _test(draft, at - 1, at + 1)
    return _compared(draft, node, ast.Eq(), at + 1)


def _never_does(draft: Draft, at: int, node: ast.expr) -> tuple[ast.expr, int] | None:
    words = draft.phrase.lows[at + 1 : at + 3]
    if words[:1] == ["exceeds"]:
        return _compared(draft, node, ast.Gt(), at + 2)
    if words in (["falls", "below"], ["drops", "below"], ["goes", "below"]):
        return _compared(draft, node, ast.Lt(), at + 3)
    return _compared(draft, node, ast.Gt(), at + 3) if words in (["goes", "above"], ["rises", "above"]) else None


def _compared(draft: Draft, node: ast.expr, how: ast.cmpop, at: int) -> tuple[ast.expr, int] | None:
    value = draft.phrase.right(at, fill=frozenset(), bare=False)
    if value is None or not literal(value.node)[0]:
        return None
    return ast.Compare(node, [how], [value.node]), value.end - 1


RULES: Final[dict[str, Sequence[Rule]]] = {
    "is": (of_items,), "are": (of_items,), "never": (never,),
    **dict.fromkeys(("has", "contains", "holds"), (size,)),
}  # fmt: skip
