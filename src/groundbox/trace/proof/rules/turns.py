"""Rules for which iteration one speaks of, and how many are left: `in the last iteration`, `for the fifth item`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from groundbox.trace.proof.claims import Remaining, Turn
from groundbox.trace.proof.rules.reader import Draft, Rule
from groundbox.trace.proof.text.phrase import NUMBERS, ORDINALS

_LAST: Final = frozenset({"last", "final"})
_INTO: Final = frozenset({"in", "on", "during"})
_OVER: Final = frozenset({"", ".", ",", ";", ":"})


def last_iteration(draft: Draft, at: int) -> bool:
    """`in the last iteration, x is 3`, `in the last iteration, the fifth one`."""
    phrase = draft.phrase
    begins = phrase.low(at - 3) in _INTO and phrase.low(at - 2) == "the" and phrase.low(at - 1) in _LAST
    if not begins or at != 3 or phrase.low(at + 1) not in _OVER:
        return False
    more = phrase.lows[at + 1 : at + 5]
    is_numbered = len(more) == 4 and more[:2] == [",", "the"] and more[3] == "one"
    number = ORDINALS.get(more[2]) if is_numbered else None
    draft.add(Turn, 0, at + 4 * (number is not None), is_last=True, number=number)
    return True


def item(draft: Draft, at: int) -> bool:
    """`for the fifth item, x is 9`."""
    phrase = draft.phrase
    number = ORDINALS.get(phrase.low(at - 1))
    if phrase.lows[:2] != ["for", "the"] or at != 3 or number is None or phrase.low(at + 1) not in _OVER:
        return False
    draft.add(Turn, 0, at, number=number)
    return True


def remaining(draft: Draft, at: int) -> bool:
    """`there are 3 more iterations`, `the remaining 3 items`, `the next 2 items`."""
    phrase = draft.phrase
    is_more = phrase.low(at - 1) == "more" and phrase.low(at - 3) == "are" and phrase.low(at - 4) == "there"
    count = _number(draft, at - 1 - is_more)
    word = "more" if is_more else phrase.low(at - 2)
    if count is None or word not in ("more", "remaining", "next") or phrase.low(at + 1) not in _OVER:
        return False
    if not is_more and phrase.low(at - 3) != "the":
        return False
    draft.add(Remaining, at - 2, at, count=count, at_most=word == "next")
    return True


def _number(draft: Draft, at: int) -> int | None:
    value = getattr(draft.phrase.node(at), "value", NUMBERS.get(draft.phrase.low(at)))
    return value if type(value) is int else None


RULES: Final[dict[str, Sequence[Rule]]] = {
    "iteration": (last_iteration,), "iterations": (remaining,),
    "item": (item,), "element": (item,), "items": (remaining,), "elements": (remaining,),
}  # fmt: skip
