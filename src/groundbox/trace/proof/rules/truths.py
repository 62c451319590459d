"""Rules for conditions that are said to be true or false: `x < 5 is true`, `low <= high fails`, `since 3 < 5`."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from groundbox.trace.proof.claims import Held, How, Truth
from groundbox.trace.proof.rules.operands import TESTED, is_place
from groundbox.trace.proof.rules.reader import Draft, Rule
from groundbox.trace.proof.rules.values import has_value
from groundbox.trace.proof.text.phrase import ADVERBS, NUMBERS

TRUE: Final = frozenset({"true", "satisfied", "met", "truthy", "yes", "fulfilled"})
FALSE: Final = frozenset({"false", "unsatisfied", "falsy", "no", "falsey", "violated"})
TESTS: Final = (ast.Compare, ast.BoolOp)


def true_or_false(draft: Draft, at: int, after: int, negated: bool) -> bool:
    phrase = draft.phrase
    node = phrase.node(after)
    truth = (phrase.low(after) in TRUE or getattr(node, "value", None) is True) is not negated
    left = phrase.left(at)
    if left is None or _line_of_a_test(draft, left) is not None:
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
    if subject is not None and "always" in phrase.lows[at:after]:
        draft.add(Held, left, after, test=subject, truth=truth, count=None)
        return True
    draft.add(Truth, left, after, test=subject, truth=truth, quoted=phrase.items[left].code)
    return True


def _each_time(draft: Draft, left: int, test: ast.expr, truth: bool, after: int) -> bool:
    """`... is true each time`, `... is true in 2 of them`, `... holds 2 of 4 times`, `... holds twice`."""
    phrase = draft.phrase
    if (times := _times(draft, after)) is not None:
        draft.used.update(range(after, times[1] + 1))
        draft.add(Held, left, times[1], test=test, truth=truth, count=times[0])
        return True
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


def _times(draft: Draft, at: int) -> tuple[int, int] | None:
    """How often, and where that ends: `twice`, `3 times`."""
    phrase = draft.phrase
    if phrase.low(at) in ("once", "twice") and phrase.low(at + 1) in ("", ",", ".", ";", ")", "and"):
        return 1 + (phrase.low(at) == "twice"), at
    count = getattr(phrase.node(at), "value", NUMBERS.get(phrase.low(at)))
    return (count, at + 1) if type(count) is int and phrase.low(at + 1) in ("time", "times") else None


def never(draft: Draft, at: int, after: int, negated: bool) -> bool:
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
    """`the condition is false`, `the test on line 7 holds`."""
    line = _line_of_a_test(draft, at - 1)
    if line is not None:
        draft.add(Truth, at - 4, after, test=None, truth=truth, line=line)
        return True
    words = draft.phrase.lows[max(0, at - 4) : at]
    if not TESTED & set(words) or {"none", "neither", "no", "each", "every", "both", "all"} & set(words):
        return False
    draft.add(Truth, at - 1, after, test=None, truth=truth)
    return True


def _line_of_a_test(draft: Draft, left: int) -> int | None:
    """The line that `the test on line 7` names, where its number stands at `left`."""
    number = getattr(draft.phrase.node(left), "value", None)
    words = [draft.phrase.low(left - back) for back in (3, 2, 1)]
    return number if type(number) is int and words[0] in TESTED and words[1:] == ["on", "line"] else None


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
    if left is None or _line_of_a_test(draft, left) is not None:
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
    if node is not None and phrase.low(begin - 1) == "always":
        draft.add(Held, left, at, test=node, truth=truth, count=None)
        return True
    draft.add(Truth, left, at, test=node, truth=truth, quoted=phrase.items[left].code)
    return True


def evaluates(draft: Draft, at: int) -> bool:
    """`x < 5 evaluates to True`."""
    phrase = draft.phrase
    after = phrase.skip(at + 1, ADVERBS | {"to", "as"}, 3)
    low, node, left = phrase.low(after), phrase.node(after), phrase.left(at)
    is_bool = low in ("true", "false") or isinstance(getattr(node, "value", None), bool)
    if left is None or not is_bool or not isinstance(phrase.node(left), (*TESTS, ast.UnaryOp)):
        return False
    truth = low == "true" or getattr(node, "value", None) is True
    draft.add(Truth, left, after, test=phrase.node(left), truth=truth)
    return True


def true_word(draft: Draft, at: int) -> bool:
    """`0 <= 6, true`, `x < 3 → False`, `3 > 5? No`."""
    phrase = draft.phrase
    before = at - 2
    if phrase.low(at - 1) not in (",", "→", ":", "(", "?", "-", "—") or not isinstance(
        phrase.node(before), (*TESTS, ast.UnaryOp)
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
    if (
        not _is_reason(phrase.lows, at)
        and phrase.low(at - 1)
        in (
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
        )
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


def _is_reason(lows: Sequence[str], at: int) -> bool:
    """`as 3 < 5, x becomes 1`, where a clause begins; not `as long as 3 < 5`."""
    return at > 0 and lows[at - 1] == "as" and (at == 1 or lows[at - 2] in (",", ";", ":", ".", ")", "and", "so"))


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


RULES: Final[dict[str, Sequence[Rule]]] = {
    **dict.fromkeys(("holds", "hold", "fails", "fail", "succeeds", "passes", "failed"), (holds,)),
    **dict.fromkeys(("true", "false", "yes", "no"), (true_word,)),
    **dict.fromkeys(("evaluates", "gives", "yields", "returns"), (evaluates,)),
}  # fmt: skip
LAST: Final[Sequence[Rule]] = (bare_comparison,)
