"""Rules for changes without a value: `x is decremented`, `x doubles`, `xs is emptied`, `x is left as it is`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from groundbox.trace.proof.claims import Idle, Moved
from groundbox.trace.proof.rules.operands import is_place
from groundbox.trace.proof.rules.reader import Draft, Rule
from groundbox.trace.proof.rules.values import unchanged

_OVER: Final = frozenset({"", ".", ",", ";", "and"})
_WAYS: Final = {
    "incremented": "up", "increased": "up", "decremented": "down", "decreased": "down", "doubled": "doubled",
    "emptied": "emptied", "cleared": "emptied",
}  # fmt: skip
_PERHAPS: Final = frozenset({"each", "every", "always", "whenever", "would", "or", "when", "not", "never"})


def moved(draft: Draft, at: int) -> bool:
    """`x is decremented`, `xs is emptied`, of which no more is said; `x doubles`."""
    phrase = draft.phrase
    is_verb = phrase.low(at) == "doubles"
    way = "doubled" if is_verb else _WAYS[phrase.low(at)]
    left = phrase.left(at if is_verb else at - 1)
    node = phrase.node(left) if left is not None else None
    if left is None or node is None or not is_place(node) or not (is_verb or phrase.low(at - 1) == "is"):
        return False
    if phrase.node(at) is not None or phrase.low(at + 1) not in _OVER or not _PERHAPS.isdisjoint(phrase.lows):
        return False
    draft.add(Moved, left, at, subject=node, way=way)
    return True


def left_alone(draft: Draft, at: int) -> bool:
    """`x is left as it is`."""
    phrase = draft.phrase
    left = phrase.left(at - 1)
    words = phrase.lows[at - 1 : at + 4]
    return left is not None and words == ["is", "left", "as", "it", "is"] and unchanged(draft, left, at + 3)


def idle(draft: Draft, at: int) -> bool:
    """`3 % 2 == 0 is false, so nothing happens`."""
    phrase = draft.phrase
    if phrase.low(at + 1) not in ("happens", "changes") or phrase.low(at + 2) not in _OVER:
        return False
    if phrase.low(at - 1) != "so" or not _PERHAPS.isdisjoint(phrase.lows):
        return False
    draft.add(Idle, at, at + 1)
    return True


RULES: Final[dict[str, Sequence[Rule]]] = {
    **dict.fromkeys(("doubles", *_WAYS), (moved,)), "left": (left_alone,), "nothing": (idle,),
}  # fmt: skip
