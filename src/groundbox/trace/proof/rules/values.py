"""Rules for values: `x is 5`, `a, b = 1, 2`, `x stays 5`, `x + 1 gives 6`, `this leaves xs at [1, 2]`.

A value that is new is the matter of `changes`; what stands after `is` is looked at in `being` first.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from groundbox.trace.proof.claims import Alters, Equal, How, Returned, Yields
from groundbox.trace.proof.rules.chains import chain_of, compared_chain
from groundbox.trace.proof.rules.operands import acceptable, arguments, callee, is_a_call_of, is_place
from groundbox.trace.proof.rules.reader import Draft, Rule
from groundbox.trace.proof.text.phrase import ADVERBS, Value

PREPOSITIONS: Final = frozenset(
    {"to", "as", "with", "at", "being", "out", "off", "up", "from", "on", "into", "in", "be", "by", "the", "value"}
)


def has_value(draft: Draft, at: int, how: How, after: int, *, prepositions: bool = True) -> bool:
    """The operands left of `at` have the value that begins at `after`."""
    subjects = draft.phrase.lefts(at)
    if not subjects:
        return False
    if prepositions:
        after = draft.phrase.skip(after, ADVERBS | PREPOSITIONS, 5)
    value = draft.phrase.right(after)
    if value is None or not acceptable(draft, value):
        return False
    return give(draft, subjects, value, how)


def give(draft: Draft, subjects: Sequence[int], value: Value, how: How) -> bool:
    """Each subject has the value, or, if several follow with commas, one each."""
    values = [value]
    while len(values) < len(subjects) and draft.phrase.low(values[-1].end) in (",", "and"):
        more = draft.phrase.right(values[-1].end + 1)
        if more is None or draft.phrase.low(more.end) == "=":
            break
        values.append(more)
    if len(values) not in (1, len(subjects)):
        values = values[:1]
    if len(values) == 1 and isinstance(values[0].node, ast.Tuple) and len(values[0].node.elts) == len(subjects) > 1:
        values = [Value(node, values[0].end, values[0].about) for node in values[0].node.elts]
    given = False
    for index, subject in enumerate(subjects):
        each = values[min(index, len(values) - 1)]
        given = one(draft, subject, each, how, first=subjects[0]) or given
    return given


def one(draft: Draft, subject: int, value: Value, how: How, *, first: int) -> bool:
    """One subject has one value, which may go on as a chain: `x = a + b = 1 + 2 = 3`."""
    node = draft.phrase.node(subject)
    if node is None:
        return False
    chain = chain_of(draft, value)
    if chain is None:
        return False
    parts, end, about = chain
    if isinstance(parts[-1], ast.Compare) and isinstance(node, ast.BinOp | ast.Call | ast.Constant):
        return compared_chain(draft, subject, end, node, parts)
    if len(parts) > 1 and how is not How.IS_NOT:
        draft.add(Equal, subject, end - 1, parts=tuple(parts), about=about)
    if isinstance(node, ast.Call) and is_a_call_of(draft, node):
        draft.add(
            Returned,
            subject,
            end - 1,
            function=callee(draft, node),
            arguments=arguments(node),
            value=parts[-1],
            about=about,
            call=node if how is How.IS else None,
        )
    elif (
        is_place(node)
        or isinstance(node, ast.Call)
        or (isinstance(node, ast.Tuple) and all(is_place(part) for part in node.elts))
    ):
        draft.has(subject, parts[-1], end, how, about=about, first=first)
    elif how is How.BECOMES or isinstance(node, ast.Constant):
        return False
    elif how is not How.IS_NOT:
        draft.add(Equal, subject, end - 1, parts=(node, *parts), about=about)
    return True


def equals(draft: Draft, at: int) -> bool:
    """`x = 5`, `a, b = 1, 2`, `x = a + b = 3`, `17 % 5 = 2`."""
    if at in draft.used:
        return False  # the middle of a claim that was read already
    subjects = draft.phrase.lefts(at)
    value = draft.phrase.right(at + 1)
    if not subjects or value is None:
        return False
    if len(subjects) > 1 and draft.phrase.low(value.end) not in (",", "and") and not isinstance(value.node, ast.Tuple):
        subjects = subjects[-1:]
    elif len(subjects) > 1 and draft.phrase.low(value.end) in (",", "and"):
        more = draft.phrase.right(value.end + 1)
        if more is None or draft.phrase.low(more.end) == "=":
            subjects = subjects[-1:]
    return give(draft, subjects, value, How.IS)


def nearly(draft: Draft, at: int) -> bool:
    """`x ≈ 3.14`."""
    left, value = draft.phrase.left(at), draft.phrase.right(at + 1)
    if left is None or value is None:
        return False
    return one(draft, left, Value(value.node, value.end, True), How.IS, first=left)


def holds_value(draft: Draft, at: int) -> bool:
    """`x contains [1, 2]`, `x starts at 0`, `x ends up as 5`, `x remains 5`."""
    low = draft.phrase.low(at)
    how = How.STAYS if low in ("stays", "remains", "stay", "remain", "keeps", "stayed", "remained") else How.IS
    if (
        how is How.STAYS
        and draft.phrase.low(draft.phrase.skip(at + 1)) in ("unchanged", "the")
        and _unchanged(draft, at)
    ):
        return True
    if low[:5] in ("start", "begin") and draft.phrase.low(at + 1) == "with":
        value = draft.phrase.right(at + 2)
        if value is None or not isinstance(value.node, ast.List | ast.Dict | ast.Set):
            return False  # `the queue starts with ('A', 0)`: an item, perhaps
    if low == "keeps" and draft.phrase.low(at + 1) in ("all", "only", "none", "of"):
        return False
    if low in ("contains", "contain", "has") and not _is_whole(draft, at):
        return False
    return has_value(draft, at, how, at + 1)


def _is_whole(draft: Draft, at: int) -> bool:
    """`xs contains [1, 2]` tells all of it, `xs contains 3` does not."""
    value = draft.phrase.right(at + 1)
    return value is not None and isinstance(value.node, ast.List | ast.Dict | ast.Set | ast.Tuple)


def _unchanged(draft: Draft, at: int) -> bool:
    after = draft.phrase.skip(at + 1)
    same = draft.phrase.low(after) == "unchanged" or draft.phrase.low(after + 1) == "same"
    left = draft.phrase.left(at)
    node = draft.phrase.node(left) if left is not None else None
    if not same or left is None or node is None:
        return False
    return unchanged(draft, left, after)


def unchanged(draft: Draft, left: int, after: int) -> bool:
    """`x stays unchanged`, `x is unchanged`."""
    node = draft.phrase.node(left)
    if not is_place(node):
        return False
    told = len(draft.claims)
    draft.add(Alters, left, after, subject=node)
    draft.deny(told)
    return True


def gives(draft: Draft, at: int) -> bool:
    """`giving [1, 4]`, `which results in 8`, `E gives 3`, `E evaluates to 3`."""
    phrase = draft.phrase
    after = phrase.skip(
        at + 1, ADVERBS | {"us", "in", "to", "the", "a", "value", "of", "list", "back", "be", "result"}, 5
    )
    value = phrase.right(after, bare=False)
    left = phrase.left(at)
    if value is None or not acceptable(draft, value):
        return False
    if left is not None and left not in draft.used:
        return one(draft, left, value, How.IS, first=left)
    if is_telling(value.node):
        draft.add(Yields, at, value.end - 1, value=value.node, about=value.about)
        return True
    return False


def is_telling(node: ast.expr) -> bool:
    return isinstance(node, ast.List | ast.Dict | ast.Set | ast.Tuple) or (
        isinstance(node, ast.Constant) and node.value not in (0, 1, True, False, None)
    )


def leaves(draft: Draft, at: int) -> bool:
    """`this leaves xs at [1, 2]`, `f(5) leaves acc as Account(...)`."""
    phrase = draft.phrase
    begin = phrase.skip(at + 1, {"the", "value", "of"})
    if not is_place(phrase.node(begin)) or phrase.low(begin + 1) not in ("at", "as", "with", "="):
        return False
    value = phrase.right(begin + 2)
    return value is not None and one(draft, begin, value, How.IS, first=at)


def source_of_loop(draft: Draft, at: int) -> bool:
    """`x runs over xs = [1, 2]`, `the loop takes x from xs = [1, 2]`: what is iterated over."""
    phrase = draft.phrase
    begin = phrase.skip(
        at + 1, {"over", "through", "the", "from", "of", "items", "list", "values", "in", "elements", "each"}, 4
    )
    if phrase.low(at) in ("takes", "take"):
        begin = at + 3 if is_place(phrase.node(at + 1)) and phrase.low(at + 2) == "from" else -1
    node = phrase.node(begin)
    if node is None or phrase.low(begin + 1) != "=":
        return False
    value = phrase.right(begin + 2, bare=False)
    if value is None or phrase.low(value.end) == "to":
        return False
    draft.add(Equal, begin, value.end - 1, parts=(node, value.node))
    return True


RULES: Final[dict[str, Sequence[Rule]]] = {
    "=": (equals,), "≈": (nearly,), "~": (nearly,),
    **dict.fromkeys(("contains", "contain", "holds", "hold", "stores", "stays", "stay", "remains", "remain", "keeps",
                     "ends", "end", "started", "stayed", "remained", "ended", "has", "equal", "start", "begin",
                     "starting", "defaults", "collects"), (holds_value,)),
    **dict.fromkeys(("starts", "begins"), (source_of_loop, holds_value)),
    **dict.fromkeys(("runs", "run", "ran", "receives", "takes", "goes", "loops", "iterates"), (source_of_loop,)),
    **dict.fromkeys(("giving", "gives", "give", "gave", "yielding", "results", "resulting", "evaluates", "produces",
                     "producing", "leaving", "making", "evaluate", "computes"), (gives,)),
    "leaves": (leaves, gives),
}  # fmt: skip
