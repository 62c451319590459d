"""Rules for changes of containers: `append 5 to xs`, `pop 'a' from stack`, `seen gains 'C'`, `swap 3 and 1`."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Sequence
from typing import Final

from groundbox.trace.proof.claims import Changed, Equal
from groundbox.trace.proof.rules.chains import one_chain
from groundbox.trace.proof.rules.operands import BEFORE_A_THING, is_place
from groundbox.trace.proof.rules.reader import Draft, Rule
from groundbox.trace.proof.text.phrase import ADVERBS, ORDINALS, Phrase

_AFTER_THE_FIRST: Final = ORDINALS.keys() - {"first"}


def changes(draft: Draft, at: int) -> bool:
    """`append 5 to xs`, `pop 'a' from stack`, `add 3 to seen`, `appending 5 changes xs`."""
    phrase = draft.phrase
    low = phrase.low(at)
    action = "remove" if low[:3] in ("pop", "rem", "deq", "del", "dis") else "add"
    begin = phrase.skip(
        at + 1,
        ADVERBS
        | {
            "the",
            "character",
            "value",
            "number",
            "item",
            "element",
            "back",
            "off",
            "first",
            "last",
            "top",
            "key",
            "word",
            "node",
            "it",
        },
        4,
    )
    if (
        begin > at + 1
        and phrase.node(begin) is None
        and phrase.low(begin - 1) in ("value", "word", "node", "item", "key", "number")
        and phrase.node(begin - 1) is not None
    ):
        begin -= 1
    item = phrase.node(begin)
    if item is None or phrase.items[begin].start - phrase.items[at].end > 40:
        return False
    if low in ("popping", "pops", "pop") and phrase.low(begin + 1) in ("", ".") and is_place(item):
        return False
    end = begin + 1
    if low in ("adding", "subtracting") and _is_amount(phrase.lows[end : end + 40]):
        return True  # `adding 5 takes x from 3 to 8` is told with its verb
    if phrase.low(end) == "=":
        value = phrase.right(end + 1, bare=False)
        if value is not None:
            draft.add(Equal, begin, value.end - 1, parts=(item, value.node))
            item, end = value.node, value.end
    return change_of(draft, begin, end - 1, action, item, at)


def _is_amount(following: Sequence[str]) -> bool:
    """Whether what is added is said to take something from one value to another: `takes` follows, past a choice."""
    between = following[: following.index("takes")] if "takes" in following else None
    if between is None or len(between) < 6:
        return between is not None
    return "if" in between and "else" in between and not {",", ";", ".", "to"} & set(between)


def change_of(draft: Draft, index: int, after: int, action: str, item: ast.expr | None, first: int) -> bool:
    """A change of what is named after `to`, `from`, `changes`; the words up to `after` are read."""
    phrase = draft.phrase
    begin = phrase.skip(after + 1)
    target: ast.expr | None = None
    end = after
    if phrase.low(begin) in ("to", "onto", "into", "in", "from", "off", "of", "changes", "as", "at"):
        place = begin + 1
        for _ in range(4):
            place = phrase.skip(place, BEFORE_A_THING | {"of", "from", "in", "to", "at", "index", "as", "key"}, 4)
            found = phrase.node(place)
            if found is None or is_place(found):
                break
            place += 1
        if is_place(phrase.node(place)):
            target, end = phrase.node(place), place
    if (
        target is None
        and action == "add"
        and phrase.low(after) in ("added", "subtracted")
        and phrase.low(index - 1) in ("as", "since", "=")
    ):
        return False  # `x grows from 3 to 8, as 5 is added`
    if (
        target is None
        and action == "add"
        and first == index
        and not isinstance(item, ast.Constant | ast.List | ast.Tuple)
    ):
        return False
    if isinstance(item, ast.Name) and target is None and action == "remove":
        item, target = None, item
    before = phrase.lows[max(0, index - 4) : index]
    where = _place(before) or _place(phrase.lows[after + 1 : end], phrase, after + 1)
    if (
        action == "remove"
        and len(before) == 4
        and before[:1] == ["the"]
        and before[2:] == ["item", ","]
        and before[1] in _AFTER_THE_FIRST
    ):
        where = ORDINALS[before[1]] - 1  # `the second item, 5, is removed`
    draft.add(Changed, first, max(end, index), action=action, item=item, target=target, place=where)
    return True


def _place(words: Sequence[str], phrase: Phrase | None = None, begin: int = 0) -> str | int:
    """Where in a list: `the last item,`, `the end of`, `its front`, `at index 2 of`; nothing where it does not say."""
    pairs = list(itertools.pairwise(words))
    if ("last", "item") in pairs or {("the", "end"), ("its", "end")} & set(pairs):
        return "end"
    if ("first", "item") in pairs or {("the", "front"), ("its", "front"), ("its", "beginning")} & set(pairs):
        return "front"
    at = words.index("index") + 1 if "index" in words else 0
    number = getattr(phrase.node(begin + at), "value", None) if phrase is not None and at else None
    return number if type(number) is int else ""


def gets_item(draft: Draft, at: int) -> bool:
    """`xs gets 5 at its end`, `seen gains 'C'`, `xs gets x = 3 at index 2`."""
    phrase = draft.phrase
    left, value = phrase.left(at), phrase.right(at + 1, bare=False)
    target = phrase.node(left) if left is not None else None
    if left is None or target is None or value is None:
        return False
    item, end = one_chain(draft, at + 1, value)
    more: list[ast.expr] = []
    while (
        phrase.low(end) in (",", "and")
        and (following := phrase.right(phrase.skip(end, {",", "and"}, 2), bare=False)) is not None
    ):
        if is_place(following.node) or phrase.low(following.end) not in (",", "and", "at", ".", ""):
            break
        more.append(following.node)
        end = following.end
    if phrase.low(at) not in ("gains", "gain", "loses", "lose") and phrase.low(end) != "at":
        return False
    draft.add(
        Changed,
        left,
        end - 1,
        action="remove" if phrase.low(at).startswith("lose") else "add",
        item=item,
        target=target,
        more=tuple(more),
        place=_place(phrase.lows[end : end + 3], phrase, end),
    )
    return True


def swaps(draft: Draft, at: int) -> bool:
    """`swap 3 and 1`, `swap 3,1 -> [1, 3]`."""
    phrase = draft.phrase
    begin = phrase.skip(at + 1, {"the", "elements", "values", "items", "them"}, 3)
    one_, other = phrase.node(begin), phrase.node(begin + 2)
    if one_ is None or other is None or phrase.low(begin + 1) not in (",", "and", "with", "/"):
        return False
    draft.add(Changed, at, begin + 2, action="swap", item=one_, target=None, other=other)
    return True


RULES: Final[dict[str, Sequence[Rule]]] = {
    **dict.fromkeys(("append", "appends", "appending", "push", "pushes", "pushing", "add", "adds", "adding", "insert",
                     "inserts", "inserting", "enqueue", "enqueues", "pop", "pops", "popping", "remove", "removes",
                     "removing", "dequeue", "dequeues", "discard", "discards", "discarding", "store", "stores"),
                    (changes,)),
    **dict.fromkeys(("gets", "gains", "loses"), (gets_item,)),
    **dict.fromkeys(("swap", "swaps", "swapping"), (swaps,)),
}  # fmt: skip
