"""Rules for what is over: `x is deleted`, `f is exhausted`, `the loop stops early`, `nothing catches it`."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Final

from groundbox.trace.proof.claims import Deleted, Ends, Exhausted, Handled, Raised
from groundbox.trace.proof.rules.operands import function_name
from groundbox.trace.proof.rules.reader import Draft, Rule
from groundbox.trace.proof.text.phrase import NUMBERS

_OVER: Final = frozenset({"", ".", ",", ";", "and", "so"})
_IS: Final = frozenset({"is", "was"})
_STOPS: Final = frozenset({"ends", "stops", "terminates", "finishes"})
_CAUGHT: Final = frozenset({"caught", "handled", "swallowed"})
_EXCEPTION: Final = frozenset({"exception", "error"})
_PERHAPS: Final = frozenset({"when", "whenever", "would", "or", "each", "every", "in case"})


def deleted(draft: Draft, at: int) -> bool:
    """`x is deleted`, `the name x is removed`; what is deleted from a container is the matter of `containers`."""
    phrase = draft.phrase
    negated = phrase.low(at - 1) == "not"
    verb = at - 1 - negated
    left = phrase.left(verb)
    node = phrase.node(left) if left is not None else None
    if left is None or not isinstance(node, ast.Name) or phrase.low(verb) not in _IS or phrase.low(at + 1) not in _OVER:
        return False
    if phrase.low(at) == "removed" and phrase.low(left - 1) != "name":
        return False
    told = len(draft.claims)
    draft.add(Deleted, left, at, name=node.id)
    if negated:
        draft.deny(told)
    return True


def exhausted(draft: Draft, at: int) -> bool:
    """`f has nothing more to give`, `the generator f is exhausted`."""
    phrase = draft.phrase
    is_so = phrase.low(at) == "exhausted" and phrase.low(at - 1) in _IS
    if not is_so and phrase.lows[at - 1 : at + 4] != ["has", "nothing", "more", "to", "give"]:
        return False
    left = phrase.left(at - 1)
    node = phrase.node(left) if left is not None else None
    if left is None or node is None or function_name(node) not in draft.functions:
        return False
    draft.add(Exhausted, left, at, function=function_name(node))
    return True


def loop_ends(draft: Draft, at: int) -> bool:
    """`the loop never ends`, `the loop stops early`, `with 2 items left, the loop ends`."""
    phrase = draft.phrase
    is_never = phrase.low(at - 1) == "never"
    loop = at - 1 - is_never
    if phrase.low(loop) != "loop" or phrase.node(loop) is not None or not _PERHAPS.isdisjoint(phrase.lows):
        return False
    items = _items_left(draft, loop)
    if is_never:
        if phrase.low(at + 1) not in _OVER or phrase.low(at) not in _STOPS:
            return False  # `the loop never ends early`
        draft.add(Ends, loop, at, way="never")
    elif phrase.low(at + 1) == "early" and phrase.low(at + 2) in _OVER:
        draft.add(Ends, loop, at + 1, way="early")
    elif phrase.low(at) in ("goes", "continues"):
        if phrase.low(at + 1) not in ("on", *_OVER) or (phrase.low(at + 1) == "on" and phrase.low(at + 2) not in _OVER):
            return False
        draft.add(Ends, loop, at, way="on")
    elif items or (items == 0 and phrase.low(at + 1) != "after"):
        draft.add(Ends, loop, at, way="early" if items else "exhausted")
    else:
        return False
    return True


def _items_left(draft: Draft, loop: int) -> int | None:
    """How many items are left, by what stands before the loop: `with no items left, the loop`."""
    phrase = draft.phrase
    words = phrase.lows[max(0, loop - 6) : loop]
    if len(words) < 6 or words[0] != "with" or words[2:] != ["items", "left", ",", "the"]:
        return None
    value = getattr(phrase.node(loop - 5), "value", 0 if words[1] == "no" else NUMBERS.get(words[1]))
    return value if type(value) is int else None


def handled(draft: Draft, at: int) -> bool:
    """`the exception is caught in f`, `the error is not handled`."""
    phrase = draft.phrase
    negated = phrase.low(at - 1) == "not"
    noun = at - 2 - negated
    if phrase.low(at - 1 - negated) not in _IS or phrase.low(noun) not in _EXCEPTION or phrase.low(noun - 1) != "the":
        return False
    function = phrase.node(at + 2) if phrase.low(at + 1) in ("in", "by") else None
    name = function_name(function) if function is not None else ""
    if not _PERHAPS.isdisjoint(phrase.lows) or (phrase.low(at + 1) not in _OVER and name not in draft.functions):
        return False
    draft.add(Handled, noun, at + 2 * bool(name), handled=not negated, function=name or None)
    return True


def nothing_catches(draft: Draft, at: int) -> bool:
    """`nothing catches it`."""
    if draft.phrase.low(at - 1) != "nothing" or draft.phrase.low(at + 1) not in ("it", "this", "that"):
        return False
    draft.add(Handled, at - 1, at, handled=False)
    return True


def some_raised(draft: Draft, at: int) -> bool:
    """`an exception is raised`, whichever."""
    phrase = draft.phrase
    if phrase.lows[max(0, at - 3) : at] not in (["an", "exception", "is"], ["an", "error", "is"]):
        return False
    if phrase.low(at + 1) not in _OVER or not _PERHAPS.isdisjoint(phrase.lows):
        return False
    draft.add(Raised, at - 2, at, type=None)
    return True


RULES: Final[dict[str, Sequence[Rule]]] = {
    **dict.fromkeys(("deleted", "removed"), (deleted,)),
    **dict.fromkeys(("nothing", "exhausted"), (exhausted,)),
    **dict.fromkeys(("goes", "continues", *sorted(_STOPS)), (loop_ends,)),
    **dict.fromkeys(sorted(_CAUGHT), (handled,)),
    "catches": (nothing_catches,), "raised": (some_raised,),
}  # fmt: skip
