"""Rules for conditions and for the verb `to be`: `x < 5 is true`, `x is less than 5`, `x is 5`, `x is added to y`."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from groundbox.trace.proof.claims import Changed, Has, Held, How, Printed, Raised, Returned, Truth, Yields
from groundbox.trace.proof.event_rules import called, change_of, message_of
from groundbox.trace.proof.reader import Draft, Rule
from groundbox.trace.proof.text.phrase import ADVERBS
from groundbox.trace.proof.text.vocabulary import vocabulary
from groundbox.trace.proof.value_rules import arguments, empty_name, from_to, function_name, has_value, is_place, move
from groundbox.trace.proof.values.evaluation import literal
from groundbox.trace.proof.values.likeness import EMPTY

_TRUE: Final = frozenset({"true", "satisfied", "met", "truthy", "yes", "fulfilled"})
_FALSE: Final = frozenset({"false", "unsatisfied", "falsy", "no", "falsey", "violated"})
_CONDITION: Final = frozenset({"condition", "test", "check", "comparison", "guard"})
_PARTICIPLES: Final = vocabulary(
    """
    set updated changed reset assigned initialized initialised incremented increased decremented decreased
    reduced bound moved turned rounded
    """
)
_ADDED: Final = frozenset(
    ["appended", "added", "pushed", "inserted", "enqueued", "stored", "placed", "put", "queued", "recorded"]
)
_REMOVED: Final = frozenset(["popped", "removed", "dequeued", "deleted", "discarded", "taken", "dropped"])
_COMPARATIVES: Final[dict[str, type[ast.cmpop]]] = {
    "less": ast.Lt, "smaller": ast.Lt, "lower": ast.Lt, "fewer": ast.Lt, "greater": ast.Gt, "larger": ast.Gt,
    "bigger": ast.Gt, "more": ast.Gt, "higher": ast.Gt, "below": ast.Lt, "above": ast.Gt,
}  # fmt: skip
_WITH_EQUAL: Final = {ast.Lt: ast.LtE, ast.Gt: ast.GtE}
_NEGATIVES: Final = frozenset({"isn't", "wasn't", "aren't", "weren't"})
_TESTS: Final = (ast.Compare, ast.BoolOp)


def be(draft: Draft, at: int) -> bool:
    """Whatever follows `is`."""
    phrase = draft.phrase
    negated = phrase.low(at) in _NEGATIVES
    after = phrase.skip(at + 1)
    if phrase.low(after) == "the" and phrase.low(after + 1) == "same":
        after += 1
    if phrase.low(after) == "not" and phrase.node(after) is None:
        negated, after = not negated, phrase.skip(after + 1)
    low = phrase.low(after)
    for words, rule in _BY_WORD:
        if low in words:
            return rule(draft, at, after, negated)
    if isinstance(phrase.node(after), ast.Constant) and isinstance(getattr(phrase.node(after), "value", None), bool):
        return _true_or_false(draft, at, after, negated)
    return _is_value(draft, at, after, negated)


def _is_value(draft: Draft, at: int, after: int, negated: bool) -> bool:
    phrase = draft.phrase
    if phrase.low(at) in ("be", "being"):
        return False
    if (
        phrase.low(after) in ("a", "an")
        and isinstance(phrase.node(after + 1), ast.Name)
        and not phrase.items[after + 1].code
    ):
        return False  # `it is a palindrome`
    if phrase.low(after) in ("<", "<=", ">", ">=", "==", "!="):
        return _symbol(draft, at, after, negated)
    if phrase.low(after) == "initially":
        after += 1
    if phrase.low(after) in ("as", "then") or (phrase.low(after) == "also" and phrase.node(after + 1) is None):
        return False
    if phrase.left(at) is None and phrase.low(at - 1) in ("which", "it", "that", "this", "now", "and"):
        return _which_is(draft, at, after, negated)
    left = phrase.left(at)
    if isinstance(phrase.node(left) if left is not None else None, (*_TESTS, ast.UnaryOp)) and left is not None:
        return False
    return has_value(draft, at, How.IS_NOT if negated else How.IS, after, prepositions=False)


def _which_is(draft: Draft, at: int, after: int, negated: bool) -> bool:
    """`5 is appended to xs, which is now [1, 5]`."""
    value = draft.phrase.right(after)
    before = [claim for claim in draft.claims if isinstance(claim, Changed) and claim.target is not None]
    if not before or value is None or negated or draft.phrase.items[at].start - before[-1].end > 40:
        return False
    if draft.phrase.low(at - 1) not in ("which", "it", "and") or not _is_container(value.node):
        return False
    draft.add(Has, at - 1, value.end - 1, subject=before[-1].target, value=value.node, how=How.IS)
    return True


def _is_container(node: ast.expr) -> bool:
    return empty_name(node) or not (isinstance(node, ast.Constant) or is_place(node))


def _symbol(draft: Draft, at: int, after: int, negated: bool) -> bool:
    """`4 isn't <= 1`."""
    kinds: dict[str, type[ast.cmpop]] = {
        "<": ast.Lt,
        "<=": ast.LtE,
        ">": ast.Gt,
        ">=": ast.GtE,
        "==": ast.Eq,
        "!=": ast.NotEq,
    }
    return _compare(draft, at, after + 1, kinds[draft.phrase.low(after)], negated)


def _compare(draft: Draft, at: int, after: int, kind: type[ast.cmpop], negated: bool) -> bool:
    left, value = draft.phrase.left(at), draft.phrase.right(after)
    node = draft.phrase.node(left) if left is not None else None
    if left is None or node is None or value is None:
        return False
    draft.add(Truth, left, value.end - 1, test=ast.Compare(node, [kind()], [value.node]), truth=not negated)
    return True


def _true_or_false(draft: Draft, at: int, after: int, negated: bool) -> bool:
    phrase = draft.phrase
    node = phrase.node(after)
    truth = (phrase.low(after) in _TRUE or getattr(node, "value", None) is True) is not negated
    left = phrase.left(at)
    if left is None:
        return _the_condition(draft, at, after, truth)
    subject = phrase.node(left)
    literally = phrase.low(after) in ("true", "false")
    if (
        is_place(subject)
        and node is not None
        and not isinstance(subject, ast.Call)
        and phrase.low(after + 1) not in ("each", "in")
    ):
        return has_value(draft, at, How.IS_NOT if negated else How.IS, after)
    if phrase.low(left - 1) == "not" and phrase.node(left - 1) is None:
        truth = not truth
        draft.add(Truth, left - 1, after, test=subject, truth=truth)
        return True
    if is_place(subject) and literally and not isinstance(subject, ast.Subscript) and not phrase.items[left].code:
        return has_value(draft, at, How.IS_NOT if negated else How.IS, after)
    if subject is not None and _each_time(draft, left, subject, truth, after + 1):
        return True
    draft.add(Truth, left, after, test=subject, truth=truth)
    return True


def _each_time(draft: Draft, left: int, test: ast.expr, truth: bool, after: int) -> bool:
    """`... is true each time`, `... is true in 2 of them`, `... holds 2 of 4 times`."""
    phrase = draft.phrase
    if phrase.low(after) == "each" and phrase.low(after + 1) == "time":
        draft.add(Held, left, after + 1, test=test, truth=truth, count=None)
        return True
    begin = after + (phrase.low(after) == "in")
    count = getattr(phrase.node(begin), "value", None)
    if type(count) is not int or phrase.low(begin + 1) != "of":
        return False
    total = getattr(phrase.node(begin + 2), "value", None)
    if phrase.low(begin + 2) != "them" and type(total) is not int:
        return False
    draft.used.update(range(begin, begin + 4))
    draft.add(Held, left, begin + 2, test=test, truth=truth, count=count, total=total if type(total) is int else None)
    return True


def _never(draft: Draft, at: int, after: int, negated: bool) -> bool:
    """`... is never true there`."""
    left = draft.phrase.left(at)
    node = draft.phrase.node(left) if left is not None else None
    if (
        left is None
        or node is None
        or draft.phrase.low(after + 1) not in ("true", "false")
        or (is_place(node) and not draft.phrase.items[left].code)
    ):
        return False
    draft.add(Held, left, after + 1, test=node, truth=draft.phrase.low(after + 1) == "false", count=None)
    return True


def _the_condition(draft: Draft, at: int, after: int, truth: bool) -> bool:
    """`the condition is false`."""
    words = draft.phrase.lows[max(0, at - 4) : at]
    if not _CONDITION & set(words) or {"none", "neither", "no", "each", "every", "both", "all"} & set(words):
        return False
    draft.add(Truth, at - 1, after, test=None, truth=truth)
    return True


def _participle(draft: Draft, at: int, after: int, negated: bool) -> bool:
    phrase = draft.phrase
    if negated:
        return False
    begin = phrase.skip(after + 1)
    if phrase.low(begin) == "by":
        left = phrase.left(at)

        down = phrase.low(after) in ("decremented", "decreased", "reduced")
        return left is not None and move(draft, left, begin, down=down)
    if phrase.low(begin) == "from":
        left = phrase.left(at)

        node = phrase.node(left) if left is not None else None
        return left is not None and node is not None and from_to(draft, left, node, begin)
    if phrase.low(begin) not in ("to", "as", "with", "at", "="):
        return False
    left = phrase.left(at)
    if phrase.low(after) == "assigned" and left is not None and not is_place(phrase.node(left)):
        subject = phrase.skip(begin + 1, {"the", "variable", "name"})
        value = phrase.node(left)
        if is_place(phrase.node(subject)) and value is not None:
            draft.has(subject, value, subject + 1, How.BECOMES, first=left)
            return True
    return has_value(draft, at, How.BECOMES, begin)


def _equal_to(draft: Draft, at: int, after: int, negated: bool) -> bool:
    if draft.phrase.low(after + 1) != "to":
        return False
    left = draft.phrase.left(at)
    node = draft.phrase.node(left) if left is not None else None
    if node is not None and (not is_place(node) or negated):
        return _compare(draft, at, after + 2, ast.NotEq if negated else ast.Eq, False)
    return has_value(draft, at, How.IS_NOT if negated else How.IS, after + 2)


def _comparative(draft: Draft, at: int, after: int, negated: bool) -> bool:
    phrase = draft.phrase
    kind = _COMPARATIVES[phrase.low(after)]
    begin = after + 1
    if phrase.low(after) not in ("below", "above"):
        if phrase.low(begin) != "than":
            return False
        begin += 1
    if phrase.low(begin) == "or" and phrase.low(begin + 1) == "equal":
        kind = _WITH_EQUAL[kind]
        begin += 2 + (phrase.low(begin + 2) == "to")
    return _compare_where(draft, at, begin, kind, negated)


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
    return _compare(draft, at, begin, kind, negated)


def _in(draft: Draft, at: int, after: int, negated: bool) -> bool:
    phrase = draft.phrase
    left, value = phrase.left(at), phrase.right(after + 1, bare=False)
    node = phrase.node(left) if left is not None else None
    if left is None or value is None or node is None:
        return False
    if isinstance(value.node, ast.Constant) and not isinstance(value.node.value, str):
        return False
    draft.add(Truth, left, value.end - 1, test=ast.Compare(node, [ast.In()], [value.node]), truth=not negated)
    return True


def _adjective(draft: Draft, at: int, after: int, negated: bool) -> bool:
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
    draft.add(Truth, left, end, test=test, truth=not negated)
    return True


def _equals_zero(node: ast.expr) -> ast.expr:
    return ast.Compare(node, [ast.Eq()], [ast.Constant(0)])


def _added(draft: Draft, at: int, after: int, negated: bool) -> bool:
    """`5 is appended to xs`, `90 is added to refused`."""
    phrase = draft.phrase
    left = phrase.left(at)
    if left is None or negated:
        return False
    return change_of(draft, left, after, "add", phrase.node(left), left)


def _removed(draft: Draft, at: int, after: int, negated: bool) -> bool:
    phrase = draft.phrase
    left = phrase.left(at)
    if left is None and phrase.low(at - 1) == ",":
        left = at - 2 if phrase.node(at - 2) is not None else None
    if left is not None and phrase.low(left - 1) == "name":
        return False  # `the name x is removed`
    if phrase.low(after) == "deleted" and left is not None and isinstance(phrase.node(left), ast.Name):
        return False
    if left is not None and phrase.low(left - 1) == "index" and phrase.node(left - 3) is not None:
        left -= 3  # `the item 'a' at index 4 is removed`
    if left is None or negated:
        return False
    return change_of(draft, left, after, "remove", phrase.node(left), left)


def _called(draft: Draft, at: int, after: int, negated: bool) -> bool:
    made = draft.phrase.left(at)
    if draft.phrase.low(after) == "made" and made is not None and isinstance(draft.phrase.node(made), ast.Call):
        draft.add(Yields, made, after, value=draft.phrase.node(made))
        return True
    left = draft.phrase.left(at)
    if (
        left is None
        and draft.phrase.low(after) in ("made", "created")
        and draft.phrase.low(at - 1) in ("object", "instance")
    ):
        left = at - 2
    node = draft.phrase.node(left) if left is not None else None
    if left is None or node is None or negated:
        return False
    if draft.phrase.low(after + 1) in ("a", "an", "the") or draft.phrase.low(after + 1) == "total":
        return False
    return called(draft, left, node, after + 1, first=left)


def _returned(draft: Draft, at: int, after: int, negated: bool) -> bool:
    left = draft.phrase.left(at)
    node = draft.phrase.node(left) if left is not None else None
    if left is None or node is None or negated:
        return False
    function = None
    begin = draft.phrase.skip(after + 1, {"by", "from", "the", "function", "call"})
    by = draft.phrase.node(begin)
    arguments_ = None
    if by is not None and draft.phrase.low(after + 1) in ("by", "from") and function_name(by) in draft.functions:
        function = function_name(by)
        arguments_ = arguments(by) if isinstance(by, ast.Call) else None
    draft.add(
        Returned,
        left,
        after,
        function=function,
        arguments=arguments_,
        value=node,
        yields=draft.phrase.low(after) == "yielded",
    )
    return True


def _printed(draft: Draft, at: int, after: int, negated: bool) -> bool:
    left = draft.phrase.left(at)
    if left is None or negated:
        return False
    known, value = literal(draft.phrase.node(left) or ast.Name("?"))
    if known:
        draft.add(Printed, left, after, text=str(value))
    return known


def _raised(draft: Draft, at: int, after: int, negated: bool) -> bool:
    """`a ValueError is raised`, `ValueError('x') is raised`, `it is caught`."""
    phrase = draft.phrase
    index = at - 1
    kind = message_of(draft, index)
    if negated or kind is None:
        return False
    handled = True if phrase.low(after) in ("caught", "handled", "swallowed") else None
    draft.add(Raised, index, after, type=kind[0], message=kind[1], handled=handled)
    return True


def _same_object(draft: Draft, at: int, after: int, negated: bool) -> bool:
    """`a is the same list as b, [1]`."""
    phrase = draft.phrase
    left = phrase.left(at)
    begin = phrase.skip(
        after + 1, {"list", "dict", "set", "object", "deque", "dictionary", "tuple", "thing", "value"}, 2
    )
    other = begin + 1
    node, second = phrase.node(left) if left is not None else None, phrase.node(other)
    if left is None or node is None or second is None or phrase.low(begin) != "as":
        return False
    draft.add(Truth, left, other, test=ast.Compare(node, [ast.Is()], [second]), truth=not negated)
    value = phrase.right(other + 2, bare=False) if phrase.low(other + 1) in (",", ":") else None
    if value is not None and not is_place(value.node):
        draft.add(Has, left, value.end - 1, subject=node, value=value.node, how=How.IS)
    return True


_BY_WORD: Final = (
    (_TRUE | _FALSE, _true_or_false),
    (_PARTICIPLES, _participle),
    (frozenset({"equal", "identical"}), _equal_to),
    (frozenset(_COMPARATIVES), _comparative),
    (frozenset({"in"}), _in),
    (frozenset({"even", "odd", "divisible", "zero", "nonzero", "non-zero", "positive",
                "negative", "empty", "nonempty", "non-empty"}),
     _adjective),
    (_ADDED, _added),
    (_REMOVED, _removed),
    (frozenset({"never"}), _never),
    (frozenset({"same"}), _same_object),
    (frozenset({"called", "invoked", "instantiated", "made"}), _called),
    (frozenset({"returned", "yielded"}), _returned),
    (frozenset({"printed", "output", "written", "displayed"}), _printed),
    (frozenset({"raised", "thrown", "caught", "handled", "swallowed"}), _raised),
)  # fmt: skip


def holds(draft: Draft, at: int) -> bool:
    """`x < 5 holds`, `x < 5 fails`, `x < 5 does not hold`, `the condition fails`."""
    phrase = draft.phrase
    low = phrase.low(at)
    begin, truth = at, low in ("holds", "hold", "succeeds", "passes", "held")
    if phrase.low(at - 1) == "not" and phrase.low(at - 2) in ("does", "do", "did"):
        begin, truth = at - 2, not truth
    elif phrase.low(at - 1) in ("doesn't", "don't", "didn't"):
        begin, truth = at - 1, not truth
    left = phrase.left(begin)
    if left is None:
        return _the_condition(draft, begin, at, truth)
    node = phrase.node(left)
    if isinstance(node, ast.Constant):
        return False
    if phrase.low(at + 1) == "for":
        return False
    if node is not None and phrase.items[left].code and _each_time(draft, left, node, truth, at + 1):
        return True
    if low in ("holds", "hold", "held") and is_place(node) and phrase.right(at + 1, bare=False) is not None:
        return False
    if node is not None and _each_time(draft, left, node, truth, at + 1):
        return True
    draft.add(Truth, left, at, test=node, truth=truth)
    return True


def evaluates(draft: Draft, at: int) -> bool:
    """`x < 5 evaluates to True`."""
    phrase = draft.phrase
    after = phrase.skip(at + 1, ADVERBS | {"to", "as"}, 3)
    low, node, left = phrase.low(after), phrase.node(after), phrase.left(at)
    is_bool = low in ("true", "false") or isinstance(getattr(node, "value", None), bool)
    if left is None or not is_bool or not isinstance(phrase.node(left), (*_TESTS, ast.UnaryOp)):
        return False
    truth = low == "true" or getattr(node, "value", None) is True
    draft.add(Truth, left, after, test=phrase.node(left), truth=truth)
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


def true_word(draft: Draft, at: int) -> bool:
    """`0 <= 6, true`, `x < 3 → False`, `3 > 5? No`."""
    phrase = draft.phrase
    before = at - 2
    if phrase.low(at - 1) not in (",", "→", ":", "(", "?", "-", "—") or not isinstance(
        phrase.node(before), (*_TESTS, ast.UnaryOp)
    ):
        return False
    draft.add(Truth, before, at, test=phrase.node(before), truth=phrase.low(at) in ("true", "yes"))
    return True


def bare_comparison(draft: Draft, at: int) -> bool:
    """`since 3 < 5`, `(3 < 5)`, `'r' == 'r'`: a comparison that stands there is said to be true."""
    phrase = draft.phrase
    node = phrase.node(at)
    if not isinstance(node, ast.Compare | ast.BoolOp | ast.UnaryOp) or (
        isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not)
    ):
        return False
    if phrase.low(at - 1) in (
        "while",
        "condition",
        "test",
        "checks",
        "evaluate",
        "evaluates",
        "as",
        "until",
        "loop",
        "comparison",
        "guard",
    ) or phrase.low(at - 2) in ("long", "repeats", "condition"):
        return False
    if (
        phrase.low(at + 1) in ("is", "→", "?", "evaluates", "condition", "check", "test", "and", "or")
        and phrase.low(at + 1) != "and"
    ):
        return False
    if phrase.items[at].code and not _asserted(phrase.lows, at):
        return False
    aside = _aside(draft, at + 1)
    if aside is not None:  # `a > b (3 > 4) is false`
        draft.add(Truth, at, at, test=node, truth=aside.truth)
        return True
    following = phrase.node(at + 2)
    if phrase.low(at + 1) in (",", ":") and isinstance(getattr(following, "value", None), bool):
        draft.add(Truth, at, at + 2, test=node, truth=bool(getattr(following, "value", None)))
        return True
    draft.add(Truth, at, at, test=node, truth=True)
    return True


def _aside(draft: Draft, at: int) -> Truth | None:
    """What was said of the comparison in parentheses at `at`."""
    phrase = draft.phrase
    if at >= len(phrase.items) or phrase.sentence_text(at) != "(":
        return None
    start = phrase.items[at].start
    return next((claim for claim in draft.claims if isinstance(claim, Truth) and claim.start == start), None)


def _asserted(lows: Sequence[str], at: int) -> bool:
    """Whether a comparison in a code span is said to be true, and not only named."""
    return at > 0 and lows[at - 1] in ("since", "because", "as", "so", "that", "have", "and", "see", "→")


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
    **dict.fromkeys(("is", "was", "are", "were", "isn't", "wasn't", "aren't", "being"), (be,)),
    **dict.fromkeys(("holds", "hold", "fails", "fail", "succeeds", "passes", "failed"), (holds,)),
    **dict.fromkeys(("exceeds", "matches", "differs", "equals"), (exceeds,)),
    **dict.fromkeys(("true", "false", "yes", "no"), (true_word,)),
    **dict.fromkeys(("evaluates", "gives", "yields", "returns"), (evaluates,)),
    "even": (even,), "odd": (even,), "in": (not_in,),
}  # fmt: skip
LAST: Final[Sequence[Rule]] = (bare_comparison,)
